"""A stand-in for the model hub on loopback, with every way in which a hub or its file host can misbehave.

Two servers: the hub (listings, headers of files) and the file host that it redirects to, on another port and so of
another origin. Each repository is a Repo whose fields say how it behaves.
"""
import hashlib
import json
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

COMMIT = "0123456789abcdef0123456789abcdef01234567"
GOOD_TOKEN = "hf_good"


@dataclass
class Repo:
    files: dict                       # name -> bytes
    large: bool = True                # files are on the file host and named by SHA-256, as large files are
    redirect: str = "absolute"        # "absolute", "relative", "none": how the hub points at a large file
    status: int = 0                   # answer everything with this
    error_code: str = ""              # X-Error-Code of that answer
    needs_token: bool = False         # 401 without, the files with
    etags: dict = field(default_factory=dict)   # name -> ETag instead of the true one
    cut: list = field(default_factory=list)     # bytes after which the n-th transfer of a file is cut off
    ranges: bool = True               # honours Range
    chunk_delay: float = 0            # seconds between pieces of 64 KiB
    says_size: bool = True            # gives X-Linked-Size
    moved_to: str = ""                # a relative redirect to another repository


def etag_of(repo, name):
    if name in repo.etags:
        return repo.etags[name]
    data = repo.files[name]
    if repo.large and name.endswith((".gguf", ".safetensors")):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_HEAD(self):
        self.handle_request()

    def do_GET(self):
        self.handle_request()

    def handle_request(self):
        hub = self.server.hub
        hub.log.append((self.command, self.server.role, self.path, dict(self.headers)))
        path = self.path.lstrip("/")
        if self.server.role == "files":
            repo, name = path.split("/", 2)[:2], path.split("/", 2)[2]
            return self.send_file(hub.repos["/".join(repo)], name)
        if path.startswith("api/models/"):
            parts = path[len("api/models/"):].split("/")
            return self.listing("/".join(parts[:2]))
        parts = path.split("/")
        return self.resolve("/".join(parts[:2]), "/".join(parts[4:]))

    def finish_with(self, status, headers=None, body=b""):
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        if "Content-Length" not in (headers or {}):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refused(self, name):
        """Answers for repositories that are not open; True when it did."""
        repo = self.server.hub.repos.get(name)
        if repo is None:
            self.finish_with(404, {"X-Error-Code": "RepoNotFound"}, b'{"error":"Repository not found"}')
        elif repo.status:
            self.finish_with(repo.status, {"X-Error-Code": repo.error_code} if repo.error_code else {}, b"{}")
        elif repo.needs_token and self.headers.get("Authorization") != f"Bearer {GOOD_TOKEN}":
            self.finish_with(401, {}, b'{"error":"Invalid credentials"}')
        else:
            return False
        return True

    def listing(self, name):
        if self.refused(name):
            return
        repo = self.server.hub.repos[name]
        if repo.moved_to:
            return self.finish_with(307, {"Location": f"/api/models/{repo.moved_to}/revision/main"})
        body = json.dumps({"sha": COMMIT, "siblings": [{"rfilename": file} for file in repo.files]}).encode()
        self.finish_with(200, {"Content-Type": "application/json"}, body)

    def resolve(self, name, file):
        if self.refused(name):
            return
        hub, repo = self.server.hub, self.server.hub.repos[name]
        if repo.moved_to:
            return self.finish_with(307, {"Location": f"/{repo.moved_to}/resolve/main/{file}"})
        if file not in repo.files:
            return self.finish_with(404, {"X-Error-Code": "EntryNotFound"}, b"Entry not found")
        headers = {"X-Repo-Commit": COMMIT}
        if not (repo.large and file.endswith((".gguf", ".safetensors"))):
            headers["ETag"] = f'"{etag_of(repo, file)}"'
            return self.finish_with(200, headers, repo.files[file])
        headers["X-Linked-Etag"] = f'"{etag_of(repo, file)}"'
        if repo.says_size:
            headers["X-Linked-Size"] = str(len(repo.files[file]))
        if repo.redirect == "none":
            return self.send_file(repo, file, headers)
        if repo.redirect == "relative" and not self.path.startswith("/moved"):
            headers["Location"] = f"/{name}/resolve/main/{file}"
            repo.redirect = "absolute"
            return self.finish_with(307, headers)
        headers["Location"] = f"http://127.0.0.1:{hub.files_port}/{name}/{file}"
        self.finish_with(302, headers)

    def send_file(self, repo, name, headers=None):
        data, begin = repo.files[name], 0
        asked = self.headers.get("Range", "")
        if asked.startswith("bytes=") and repo.ranges:
            begin = int(asked[6:].split("-")[0])
            if begin >= len(data):
                return self.finish_with(416, {"Content-Range": f"bytes */{len(data)}"})
        self.send_response(206 if begin else 200)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - begin))
        self.end_headers()
        if self.command == "HEAD":
            return
        end = len(data)
        if repo.cut:
            end = min(end, begin + repo.cut.pop(0))
        try:
            for at in range(begin, end, 65536):
                self.wfile.write(data[at:min(at + 65536, end)])
                if repo.chunk_delay:
                    time.sleep(repo.chunk_delay)
        except (BrokenPipeError, ConnectionResetError):
            pass
        if end < len(data):
            self.close_connection = True


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Clients that leave in the middle are part of the tests."""


class HubStandIn:
    """Both servers, running until close(). `repos` may be changed at any time; `log` has every request."""

    def __init__(self, repos):
        self.repos, self.log, self.servers = repos, [], []
        self.port = self.start("hub")
        self.files_port = self.start("files")

    def start(self, role):
        server = QuietServer(("127.0.0.1", 0), Handler)
        server.role, server.hub = role, self
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        self.servers.append(server)
        return server.server_address[1]

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()
