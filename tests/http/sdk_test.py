#!/usr/bin/env python3
"""The OpenAI Python SDK against the real server with SmolLM2: python3 tests/http/sdk_test.py --binary build/drafthorse

Needs the package `openai` (in this interpreter, or in .venv at the repository's root) and the default model in
.cache/models; without one of them every test is skipped with the reason. `promtool` is used where it is installed.
The last line is "N passed, N failed, N skipped".
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
KEY = "test-key"
STORY = [{"role": "user", "content": "Tell me a short story about a horse."}]


def import_openai():
    """The module, or None; starts again in the repository's .venv when that one has it."""
    try:
        import openai
        return openai
    except ImportError:
        venv = ROOT / ".venv/bin/python"
        if venv.exists() and Path(sys.prefix).resolve() != (ROOT / ".venv").resolve():
            os.execv(venv, [str(venv), *sys.argv])
        return None


class Server:
    """The binary on a free port, ready to answer."""

    def __init__(self, binary, model, *flags):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.log = tempfile.NamedTemporaryFile(mode="w+", suffix=".log")
        command = [binary, "serve", "--model", str(model), "--port", str(self.port), "--api-key", KEY, *flags]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        self.wait_ready()

    def wait_ready(self):
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}: {Path(self.log.name).read_text()}")
            try:
                if self.get("/health")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise RuntimeError("the server was not ready within 120 s")

    def request(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {"Authorization": f"Bearer {KEY}", **(headers or {})})
            response = connection.getresponse()
            return response.status, response.read().decode(), dict(response.getheaders())
        finally:
            connection.close()

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, value):
        return self.request("POST", path, json.dumps(value))

    def running(self):
        return json.loads(self.get("/health")[1])["running"]

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


class Tests:
    """Every method that begins with `test_` is one test; `self.client` is the SDK's."""

    def __init__(self, openai, server):
        self.openai, self.server = openai, server
        self.client = self.new_client()

    def new_client(self, key=KEY, retries=0):
        return self.openai.OpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key=key, max_retries=retries, timeout=120)

    def chat(self, **fields):
        defaults = {"model": "default", "messages": STORY, "max_tokens": 24, "temperature": 0}
        return self.client.chat.completions.create(**{**defaults, **fields})

    def refused(self, kind, call):
        try:
            call()
        except kind as error:
            return error
        raise AssertionError(f"{kind.__name__} was not raised")

    def test_models(self):
        models = self.client.models.list().data
        assert len(models) == 1 and models[0].object == "model", models
        assert self.client.models.retrieve(models[0].id).id == models[0].id

    def test_whole_chat(self):
        answer = self.chat()
        choice = answer.choices[0]
        assert choice.message.role == "assistant" and choice.message.content, choice
        assert choice.finish_reason in ("stop", "length")
        usage = answer.usage
        assert usage.prompt_tokens > 0 and 0 < usage.completion_tokens <= 24
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
        assert answer.model_extra["timings"]["steps"] > 0

    def test_streamed_chat_equals_whole(self):
        whole = self.chat().choices[0]
        text, reasons, usage = "", [], None
        for chunk in self.chat(stream=True, stream_options={"include_usage": True}):
            if chunk.usage:
                usage = chunk.usage
            for choice in chunk.choices:
                text += choice.delta.content or ""
                reasons += [choice.finish_reason] if choice.finish_reason else []
        assert text == whole.message.content, (text, whole.message.content)
        assert reasons == [whole.finish_reason] and usage.completion_tokens > 0

    def test_completions(self):
        fields = {"model": "default", "prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
        whole = self.client.completions.create(**fields).choices[0].text
        streamed = "".join(c.choices[0].text for c in self.client.completions.create(**fields, stream=True) if c.choices)
        assert whole and whole == streamed, (whole, streamed)
        echoed = self.client.completions.create(**fields, echo=True).choices[0].text
        assert echoed == fields["prompt"] + whole, echoed

    def test_seed_repeats_and_choices_differ(self):
        fields = {"temperature": 1.0, "seed": 7, "n": 2}
        first, second = self.chat(**fields), self.chat(**fields)
        texts = [c.message.content for c in first.choices]
        assert texts == [c.message.content for c in second.choices], texts
        assert len(texts) == 2 and texts[0] != texts[1], texts
        assert first.usage.completion_tokens > 24 or "stop" in [c.finish_reason for c in first.choices]
        alone = self.chat(temperature=1.0, seed=8).choices[0].message.content
        assert alone == texts[1], (alone, texts[1])

    def test_drafting_does_not_change_the_text(self):
        messages = [{"role": "user", "content": "Repeat this list twice: red, green, blue, red, green, blue, red, green, blue."}]
        texts = [self.chat(messages=messages, max_tokens=60, extra_body={"draft": d}).choices[0].message.content for d in ("auto", "off")]
        assert texts[0] == texts[1], texts

    def test_stop_strings(self):
        full = self.chat().choices[0].message.content
        stop = full[len(full) // 2:len(full) // 2 + 3]
        cut = self.chat(stop=[stop]).choices[0]
        assert cut.finish_reason == "stop" and cut.message.content == full[:full.index(stop)], (full, stop, cut)

    def test_length(self):
        answer = self.chat(max_tokens=None, max_completion_tokens=1)
        assert answer.choices[0].finish_reason == "length" and answer.usage.completion_tokens == 1

    def test_logprobs(self):
        content = self.chat(logprobs=True, top_logprobs=3, max_tokens=5).choices[0].logprobs.content
        assert 0 < len(content) <= 5
        for entry in content:
            assert entry.logprob <= 0 and len(entry.top_logprobs) == 3
            assert entry.top_logprobs[0].logprob >= entry.top_logprobs[2].logprob
            assert entry.token == entry.top_logprobs[0].token   # greedy
        columns = self.client.completions.create(model="default", prompt="One two", max_tokens=3, temperature=0, logprobs=2).choices[0].logprobs
        assert len(columns.tokens) == len(columns.token_logprobs) == len(columns.text_offset)

    def test_message_forms(self):
        parts = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Say hi."}]}]
        assert self.chat(messages=parts).choices[0].message.content

    def test_bad_requests(self):
        bad = self.openai.BadRequestError
        for fields, param in [({"top_p": 7}, "top_p"), ({"max_tokens": 0}, "max_tokens"), ({"messages": []}, "messages"),
                              ({"extra_body": {"foo": 1}}, "foo"), ({"n": 100}, "n"), ({"stop": [""]}, "stop"),
                              ({"response_format": {"type": "json_object"}}, "response_format"),
                              ({"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}, "tools"),
                              ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role")]:
            error = self.refused(bad, lambda: self.chat(**fields))
            assert error.param == param, (fields, error.body)
            assert error.type == "invalid_request_error"

    def test_context_overflow(self):
        error = self.refused(self.openai.BadRequestError, lambda: self.chat(messages=[{"role": "user", "content": "word " * 60000}]))
        assert error.code == "context_length_exceeded", error.body
        assert any(c.isdigit() for c in error.message)

    def test_unknown_model(self):
        error = self.refused(self.openai.NotFoundError, lambda: self.chat(model="gpt-4"))
        assert error.code == "model_not_found" and error.param == "model", error.body

    def test_wrong_key(self):
        self.refused(self.openai.AuthenticationError, lambda: self.new_client("wrong").models.list())

    def test_malformed_json(self):
        status, body, _ = self.server.request("POST", "/v1/chat/completions", '{"model": }')
        assert status == 400 and "byte" in json.loads(body)["error"]["message"], body

    def test_wrong_method_and_path(self):
        status, _, headers = self.server.get("/v1/chat/completions")
        assert status == 405 and "POST" in headers["Allow"]
        assert self.server.get("/v1/unknown")[0] == 404

    def test_eight_parallel_clients(self):
        prompts = [f"Count from {i} to {i + 5}." for i in range(8)]

        def ask(prompt):
            fields = {"model": "default", "messages": [{"role": "user", "content": prompt}], "max_tokens": 16, "temperature": 0}
            return "".join(c.choices[0].delta.content or "" for c in self.new_client().chat.completions.create(**fields, stream=True) if c.choices)

        alone = [ask(p) for p in prompts]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            together = list(pool.map(ask, prompts))
        assert together == alone, (together, alone)

    def test_cancel_in_mid_stream(self):
        stream = self.chat(stream=True, max_tokens=2000, extra_body={"ignore_eos": True})
        for count, _ in enumerate(stream):
            if count == 5:
                break
        assert self.server.running() == 1
        stream.close()
        end = time.monotonic() + 5
        while self.server.running() and time.monotonic() < end:
            time.sleep(0.02)
        assert self.server.running() == 0, "the sequence still runs 5 s after its client left"

    def test_leaving_a_whole_answer(self):
        before = self.server.running()
        with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
            body = json.dumps({"messages": STORY, "max_tokens": 2000, "ignore_eos": True}).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\nContent-Length: {len(body)}\r\n\r\n"
            connection.sendall(head.encode() + body)
            end = time.monotonic() + 10
            while self.server.running() == before and time.monotonic() < end:
                time.sleep(0.02)
            assert self.server.running() == before + 1
        end = time.monotonic() + 5
        while self.server.running() > before and time.monotonic() < end:
            time.sleep(0.02)
        assert self.server.running() == before

    def test_metrics(self):
        status, text, _ = self.server.get("/metrics")
        assert status == 200 and "drafthorse_completion_tokens_total" in text
        for line in ("drafthorse_draft_tokens_proposed_total", "drafthorse_memory_bytes", "drafthorse_steps_total"):
            assert line in text, line
        if shutil.which("promtool"):
            check = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True)
            assert check.returncode == 0 and not check.stdout + check.stderr, check.stdout + check.stderr


def test_full_queue(openai, binary, model):
    """A server with one place and no queue answers 429, which the SDK raises as RateLimitError."""
    server = Server(binary, model, "--parallel", "1", "--queue", "1")
    try:
        tests = Tests(openai, server)
        endless = {"stream": True, "max_tokens": 2000, "extra_body": {"ignore_eos": True}}
        streams = [tests.chat(**endless)]
        end = time.monotonic() + 10
        while server.running() == 0 and time.monotonic() < end:
            time.sleep(0.02)
        streams.append(tests.chat(**endless))
        error = tests.refused(openai.RateLimitError, tests.chat)
        assert error.response.headers["retry-after"]
        for stream in streams:
            stream.close()
    finally:
        server.stop()


def test_sigterm(openai, binary, model):
    """A running stream ends, the exit status is 0."""
    server = Server(binary, model)
    stream = Tests(openai, server).chat(stream=True, max_tokens=40)
    next(iter(stream))
    server.process.send_signal(signal.SIGTERM)
    reasons = [c.choices[0].finish_reason for c in stream if c.choices]
    assert reasons[-1] in ("stop", "length"), reasons
    assert server.process.wait(timeout=30) == 0


def run(name, function, counts):
    began = time.monotonic()
    try:
        function()
        counts[0] += 1
        print(f"PASS {name} ({time.monotonic() - began:.2f} s)", flush=True)
    except Exception as error:  # a test that fails in any way is one failure
        counts[1] += 1
        print(f"FAIL {name}: {type(error).__name__}: {error}", flush=True)


def find_model():
    found = sorted((ROOT / ".cache/models").glob("*[sS]mol[lL][mM]2*.gguf"))
    return found[0] if found else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/drafthorse"))
    parser.add_argument("--model", type=Path, default=find_model())
    parser.add_argument("--only", default="", help="part of a test's name")
    options = parser.parse_args()
    names = [n for n in dir(Tests) if n.startswith("test_")]
    extra = [test_full_queue, test_sigterm]
    openai = import_openai()
    missing = "the package openai" if not openai else "the default model" if not options.model else ""
    if missing:
        print(f"skipped: {missing} is missing (./test gets it)")
        print(f"0 passed, 0 failed, {len(names) + len(extra)} skipped")
        return 0
    counts = [0, 0]
    server = Server(options.binary, options.model)
    try:
        tests = Tests(openai, server)
        for name in names:
            if options.only in name:
                run(name, getattr(tests, name), counts)
        run("test_exit_status", lambda: server.stop() == 0 or (_ for _ in ()).throw(AssertionError("not 0")), counts)
    finally:
        server.stop()
    for function in extra:
        if options.only in function.__name__:
            run(function.__name__, lambda: function(openai, options.binary, options.model), counts)
    print(f"{counts[0]} passed, {counts[1]} failed")
    return 1 if counts[1] else 0


if __name__ == "__main__":
    sys.exit(main())
