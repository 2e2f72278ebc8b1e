#!/usr/bin/env python3
"""The program as a black box: python3 tests/cli/cli_test.py --binary build/drafthorse

Help, exit codes, generate, list, inspect, serve's signals and errors, the chat through a pseudo-terminal. Tests that
need the default model look for it in .cache/models and are skipped without it.
"""
import argparse
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from script import Skip, add_options, expect, run_tests  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
MODEL = ROOT / ".cache/models/SmolLM2-135M-Instruct.Q4_1.gguf"
BINARY = None
HOME = None


def model():
    if not MODEL.exists():
        raise Skip(f"{MODEL.name} is not in .cache/models (tools/fetch_test_models.py fetches it)")
    return str(MODEL)


def environment():
    return {"PATH": os.environ["PATH"], "HOME": HOME, "HF_ENDPOINT": "http://127.0.0.1:1", "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": "", "TERM": "xterm", "LC_ALL": "C.UTF-8",
            **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}}


def run(*arguments, stdin=None, seconds=120):
    result = subprocess.run([BINARY, *arguments], env=environment(), capture_output=True, timeout=seconds,
                            input=stdin.encode() if stdin is not None else None,
                            **({} if stdin is not None else {"stdin": subprocess.DEVNULL}))
    return result.returncode, result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace")


def expect_error(result, status, *words):
    code, _, err = result
    lines = err.strip().splitlines()
    expect(code == status, "status", code, "instead of", status, err)
    expect(lines and lines[-1].startswith("drafthorse: "), err)
    for word in words:
        expect(word in lines[-1], repr(word), "is not in:", lines[-1])


def generate(*arguments, stdin=None):
    code, out, err = run("generate", "-m", model(), "--json", *arguments, stdin=stdin)
    expect(code == 0, err)
    return json.loads(out)


class Server:
    """`serve` on a free port, until it leaves the with block."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([BINARY, "serve", "-m", model(), "-p", "0", *arguments], env=environment(),
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.output = ""

    def __enter__(self):
        while "Ctrl-C stops the server" not in self.output:
            line = self.process.stdout.readline()
            expect(line, "the server ended:", self.process.stderr.read() if not line else "")
            self.output += line
        self.url = re.search(r"http://[\d.]+:\d+", self.output).group()
        return self

    def __exit__(self, *exception):
        self.process.kill()
        self.process.communicate()

    def request(self, body):
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=60))


class Chat:
    """`run` on a pseudo-terminal."""

    def __init__(self, *arguments):
        path = model()  # skips before there is a second process
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(BINARY, [BINARY, "run", "-m", path, "--temperature", "0", *arguments], environment())
        self.output = ""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(self.fd)

    def type(self, text):
        os.write(self.fd, text.encode())

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other end is closed
            data = b""
        self.output += data.decode(errors="replace")
        return bool(data)

    def wait_for(self, text, seconds=60):
        """Reads until `text` came; returns and forgets what came up to it."""
        deadline = time.monotonic() + seconds
        while text not in self.output:
            expect(time.monotonic() < deadline, repr(text), "did not come:", self.output[-500:])
            self.read(0.2)
        before, self.output = self.output.split(text, 1)
        return before

    def exit_status(self, seconds=20):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            self.read(0.1)
        raise AssertionError("the chat did not end")


def test_help_and_version():
    code, out, _ = run("--help")
    expect(code == 0 and all(c in out for c in ("serve", "run", "generate", "pull", "list", "inspect", "bench", "selftest")), out)
    for command in (["serve"], ["run"], ["generate"], ["pull"], ["list"], ["inspect"], ["bench", "model"], ["selftest"]):
        code, out, _ = run(*command, "--help")
        expect(code == 0 and f"drafthorse {' '.join(command)}" in out, command, out)
    code, out, _ = run("--version")
    expect(code == 0 and re.fullmatch(r"drafthorse \d+\.\d+\.\d+\n", out), out)


def test_usage_errors():
    expect_error(run(), 2, "serve")
    expect_error(run("srve"), 2, "did you mean serve?")
    expect_error(run("serve", "--prot", "1"), 2, "did you mean --port?")
    expect_error(run("serve", "--port", "70000"), 2, "--port")
    expect_error(run("generate", "--memory", "lots", "-p", "x"), 2, "lots", "8G")


def test_missing_model():
    for command in (["serve", "-m"], ["generate", "-p", "x", "-m"], ["inspect", "-m"], ["run", "-m"], ["selftest", "-m"]):
        expect_error(run(*command, "/no/such/model.gguf"), 1, "/no/such/model.gguf")
    expect_error(run("serve", "-m", "smolm2"), 1, "did you mean smollm2?")
    expect_error(run("serve", "-m", "org/repo"), 1, "hf:org/repo")


def test_unreadable_and_corrupt_files():
    with tempfile.TemporaryDirectory() as folder:
        empty, text, bare = Path(folder) / "empty.gguf", Path(folder) / "text.gguf", Path(folder) / "bare"
        bare.mkdir()
        empty.write_bytes(b"")
        text.write_text("this is no model\n" * 100)
        for path in (empty, text, bare):
            expect_error(run("serve", "-m", str(path)), 1, str(path))


def test_default_model_without_any_network():
    expect_error(run("generate", "-p", "x"), 1, "pip", "put the file at", "SmolLM2-135M-Instruct.Q4_1.gguf")


def test_generate_json():
    answer = generate("-p", "Count from one to five.", "-n", "12", "--temperature", "0", "--seed", "7")
    expect(set(answer) == {"model", "text", "reasoning", "tokens", "finish_reason", "prompt_tokens", "completion_tokens", "reasoning_tokens", "cached_tokens",
                           "seed", "speculation", "timings"}, sorted(answer))
    expect(set(answer["speculation"]) == {"proposed", "accepted", "steps", "parked", "by_drafter"}, answer["speculation"])
    expect(answer["completion_tokens"] == len(answer["tokens"]) <= 12, answer)
    expect(answer["seed"] == 7 and answer["text"] and answer["prompt_tokens"] > 10, answer)
    expect(answer["finish_reason"] in ("stop", "length"), answer)
    expect(all(seconds >= 0 for seconds in answer["timings"].values()), answer["timings"])


def test_an_empty_prompt_is_refused():
    expect_error(run("generate", "-m", model(), "-p", ""), 2, "prompt is empty")
    expect_error(run("generate", "-m", model(), stdin=""), 2, "prompt is empty")


def test_generate_is_deterministic_and_drafting_changes_nothing():
    prompt = "Repeat: a = 1; b = 2; c = 3; a = 1; b = 2; c = 3;"
    for temperature in ("0", "0.9"):
        answers = [generate("-p", prompt, "-n", "40", "--temperature", temperature, "--seed", "3", "--draft", draft)
                   for draft in ("off", "auto", "lookup")]
        expect(answers[0]["tokens"] == answers[1]["tokens"] == answers[2]["tokens"], temperature, answers)
        expect(answers[0]["speculation"]["proposed"] == 0, "drafted though off")


def test_generate_reads_file_and_stdin():
    prompt = "Say something about horses. äöü 🐴"
    arguments = ("-n", "8", "--temperature", "0")
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(prompt)
        file.flush()
        expected = generate("-p", prompt, *arguments)["tokens"]
        expect(generate("-f", file.name, *arguments)["tokens"] == expected)
        expect(generate(*arguments, stdin=prompt)["tokens"] == expected)
    expect_error(run("generate", "-m", model(), "-f", "/no/such/file"), 1, "/no/such/file")


def test_generate_raw_and_plain_text():
    code, out, err = run("generate", "-m", model(), "--raw", "-p", "The capital of France is", "-n", "3", "--temperature", "0")
    expect(code == 0 and "Paris" in out and out.endswith("\n"), out, err)
    expect_error(run("generate", "-m", model(), "--raw", "--system", "x", "-p", "y"), 2, "--system")


def test_generate_stops_at_text():
    answer = generate("--raw", "-p", "1, 2, 3, 4, 5, 6, 7,", "-n", "30", "--temperature", "0", "--stop", " 10")
    expect(" 10" not in answer["text"] and answer["finish_reason"] == "stop", answer)


def test_too_long_a_prompt():
    result = run("generate", "-m", model(), "-c", "64", "-p", "word " * 200)
    expect_error(result, 1, "64")


def test_inspect():
    code, out, err = run("inspect", "-m", model(), "--json")
    expect(code == 0, err)
    facts = json.loads(out)
    expect(facts["family"] == "llama" and facts["blocks"] == 30 and facts["hidden"] == 576, facts)
    expect(sum(len(kind["blocks"]) for kind in facts["block_kinds"]) == 30)
    expect(facts["chat_template"] and facts["machine"]["read_bandwidth"] > 1e8, facts["machine"])
    weights = sum(row["bytes"] for row in facts["outside"]) + sum(k["bytes"] * len(k["blocks"]) for k in facts["block_kinds"])
    expect(abs(weights - facts["bytes_per_token"]) < 0.01 * weights, weights, facts["bytes_per_token"])
    code, out, _ = run("inspect", "-m", model())
    expect(code == 0 and "q4_1" in out and "tokens/s" in out, out)


def test_list_knows_its_folder():
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mine.gguf").symlink_to(model())
        code, out, _ = run("list", "--models-dir", folder, "--json")
        listed = json.loads(out)
        expect(code == 0 and [m["name"] for m in listed["models"]] == ["mine.gguf"], listed)
        expect({"smollm2", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b", "demo"} == {n["name"] for n in listed["catalogue"]}, listed)


def test_serve_answers_and_stops():
    for number in (signal.SIGTERM, signal.SIGINT):
        with Server("--grace", "5") as server:
            expect("curl" in server.output and "./run run" in server.output, server.output)
            answer = server.request({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5})
            expect(answer["usage"]["completion_tokens"] <= 5, answer)
            server.process.send_signal(number)
            expect(server.process.wait(timeout=10) == 0, "status", server.process.returncode)


def test_serve_port_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        expect_error(run("serve", "-m", model(), "-p", str(port)), 1, str(port), "--port")


def test_serve_beyond_loopback_wants_a_key():
    expect_error(run("serve", "-m", model(), "-p", "0", "--host", "0.0.0.0"), 2, "--api-key")


def test_chat_through_a_pipe():
    code, out, err = run("run", "-m", model(), "-n", "8", "--temperature", "0", stdin="Hello\n/stats\n/nonsense\n/exit\nnot reached\n")
    expect(code == 0, err)
    expect("1 answers" in out and "/nonsense is no command" in out and "\x1b" not in out, out)
    settings = "/set temperature \n/set =\n/set top_k = 5 \n/set top_k\n/set temperature 0.5x\n/set\n/exit\n"
    code, out, err = run("run", "-m", model(), stdin=settings)
    expect(code == 0, err)
    expect("temperature 0.5x is not understood" in out and "top_k the model's own" in out, out)


def test_chat_on_a_terminal():
    with Chat("-n", "12") as chat:
        chat.wait_for("> ")
        chat.type("Hello, horse\r")
        chat.wait_for("tokens/s")
        chat.wait_for("> ")
        chat.type("\x1b[A")                     # the line before
        chat.wait_for("Hello, horse")
        chat.type("\x15/help\r")
        chat.wait_for("/save FILE")
        chat.type("first \\\r")
        chat.wait_for(". ")
        chat.type("second\r")
        chat.wait_for("tokens/s")
        chat.type("/stats\r")
        chat.wait_for("2 answers")
        chat.type("\x04")
        expect(chat.exit_status() == 0)


def test_chat_interrupts():
    with Chat() as chat:
        chat.wait_for("> ")
        chat.type("Write a very long story about a horse.\r")
        chat.wait_for("horse.")
        time.sleep(1.5)
        chat.type("\x03")                       # stops the answer, not the program
        chat.wait_for("stopped; ")
        chat.wait_for("> ")
        chat.type("half a line")
        chat.wait_for("half a line")            # every key redraws the line, prompt and all
        chat.type("\x03")                       # clears the line
        chat.wait_for("> ")
        chat.type("\x03")
        chat.wait_for("Ctrl-C again")
        chat.type("\x03")
        expect(chat.exit_status() == 0)


def test_interrupt_while_generating():
    process = subprocess.Popen([BINARY, "generate", "-m", model(), "--ignore-eos", "-p", "Write a long story."], env=environment(),
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    expect(process.stdout.read(1), process.stderr)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    expect(process.returncode == 130, "status", process.returncode)


def main():
    global BINARY, HOME
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    options = parser.parse_args()
    BINARY = str(Path(options.binary).resolve())
    with tempfile.TemporaryDirectory() as home:
        HOME = home
        return run_tests(globals(), options)


if __name__ == "__main__":
    sys.exit(main())
