#!/usr/bin/env python3
"""The model that comes with the program: python3 tests/cli/demo_model_test.py --binary build/drafthorse

It is found wherever the program and the model lie together, `serve` falls back on it where nothing can be fetched, and
selftest takes it. Loopback ports that refuse stand in for a missing network. The last line is the count.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from script import Skip, add_options, expect, run_tests  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
NAME = "drafthorse-demo-33m"
DEAD = "http://127.0.0.1:1"
BINARY = None
SANITISED = False


class Place:
    """A home folder of its own, and a folder that program and model can be moved to."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        return self

    def __exit__(self, *exception):
        self.folder.cleanup()

    def environment(self):
        return {"PATH": os.environ["PATH"], "HOME": str(self.path / "home"), "HF_ENDPOINT": DEAD,
                "PIP_INDEX_URL": DEAD + "/simple", "PIP_CONFIG_FILE": "/dev/null", "LC_ALL": "C.UTF-8",
                **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}}

    def program(self, at):
        """A copy of the program."""
        target = self.path / at
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(BINARY, target)
        return target

    def model(self, at):
        (self.path / at).mkdir(parents=True)
        (self.path / at / NAME).symlink_to(ROOT / "models" / NAME)

    def run(self, *arguments, program=None, seconds=300):
        done = subprocess.run([program or BINARY, *arguments], env=self.environment(), capture_output=True,
                              timeout=seconds, stdin=subprocess.DEVNULL, cwd=self.path)
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


class Server:
    """`serve` in a place, until it leaves the with block."""

    def __init__(self, place, *arguments):
        self.began = time.monotonic()
        self.errors = open(place.path / "errors", "w+")
        self.process = subprocess.Popen([BINARY, "serve", "-p", "0", *arguments], env=place.environment(), text=True,
                                        stdout=subprocess.PIPE, stderr=self.errors, cwd=place.path)
        self.output = ""

    def error_text(self):
        self.errors.seek(0)
        return self.errors.read()

    def __enter__(self):
        while "Ctrl-C stops the server" not in self.output:
            line = self.process.stdout.readline()
            if not line:
                self.process.wait()
                raise AssertionError(f"the server ended: {self.error_text()}")
            self.output += line
        self.seconds = time.monotonic() - self.began
        self.url = re.search(r"http://[\d.]+:\d+", self.output).group()
        return self

    def __exit__(self, *exception):
        self.process.kill()
        self.process.communicate()
        self.errors.close()

    def get(self, path):
        return json.load(urllib.request.urlopen(self.url + path, timeout=60))

    def chat(self, text):
        body = {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 200}
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=120))


def test_it_answers_by_its_short_name():
    with Place() as place:
        code, out, err = place.run("generate", "-m", "demo", "-p", "Hello!", "--temperature", "0", "--json")
        expect(code == 0, err)
        answer = json.loads(out)
        expect(answer["model"] == NAME and answer["text"] == "Hello! How can I help you?", answer)
        code, out, err = place.run("pull", "demo")
        expect(code == 0 and Path(out.strip()).name == NAME and (Path(out.strip()) / "config.json").exists(), out, err)


def test_acceptance_is_counted_by_depth():
    with Place() as place:
        code, out, err = place.run("generate", "-m", "demo", "-p", "Tell me a story about a baker called Ada.",
                                   "-n", "96", "--temperature", "0.8", "--seed", "1", "--draft", "mtp",
                                   "--max-draft", "3", "--json")
        expect(code == 0, err)
        head = json.loads(out)["speculation"]["by_drafter"]["mtp"]
        tried, accepted = head["tried_by_depth"], head["accepted_by_depth"]
        expect(len(tried) == len(accepted) == 3 and sum(accepted) == head["accepted"] > 20, head)
        expect(tried[0] == head["steps"] and 0 < accepted[0] <= tried[0], head)
        for before, now in zip(accepted, tried[1:]):  # the end of the answer may cut a draft short
            expect(before - 1 <= now <= before, head)


def test_list_shows_it():
    with Place() as place:
        code, out, err = place.run("list")
        [line] = [line for line in out.splitlines() if line.startswith("demo ")]
        expect(code == 0 and line.endswith("(on this machine)"), out, err)
        [entry] = [e for e in json.loads(place.run("list", "--json")[1])["catalogue"] if e["name"] == "demo"]
        expect(entry["on_disk"] and "program" in entry["source"], entry)


def test_it_is_found_where_the_program_was_moved():
    """The build folder of a source tree, one folder deeper, beside the program, and an installed prefix."""
    for program, model in (("tree/build/drafthorse", "tree/models"), ("deep/build/x/drafthorse", "deep/models"),
                           ("flat/drafthorse", "flat/models"), ("usr/bin/drafthorse", "usr/share/drafthorse/models")):
        with Place() as place:
            moved = place.program(program)
            place.model(model)
            code, out, err = place.run("pull", "demo", program=moved)
            expect(code == 0 and out.strip() == str((place.path / model / NAME)), program, out, err)


def test_a_missing_one_is_said():
    with Place() as place:
        alone = place.program("alone/bin/drafthorse")
        for command in (["generate", "-m", "demo", "-p", "x"], ["pull", "demo"], ["selftest"], ["serve", "-m", "demo"]):
            code, _, err = place.run(*command, program=alone)
            expect(code == 1 and NAME in err and "--model" in err and "copy it" in err, command, err)
        place.model("home/.cache/drafthorse/models")
        code, _, err = place.run("pull", "demo", program=alone)
        expect(code == 0, err)


def test_serve_falls_back_on_it():
    with Place() as place, Server(place) as server:
        expect(SANITISED or server.seconds < 30, "it took", server.seconds, "s")
        err = server.error_text()
        for words in ("default model smollm2 cannot be had", f"demo model {NAME} instead", "no assistant", "--model"):
            expect(words in err, repr(words), "is not in:", err)
        expect(f"{NAME} answers on" in server.output and "demo model" in server.output, server.output)
        expect([model["id"] for model in server.get("/v1/models")["data"]] == [NAME], server.get("/v1/models"))
        answer = server.chat("What is 3 + 4?")
        expect(answer["model"] == NAME and "7" in answer["choices"][0]["message"]["content"], answer)


def test_only_where_no_model_was_named():
    with Place() as place:
        began = time.monotonic()
        for command in (["serve", "-p", "0", "-m", "smollm2"], ["generate", "-p", "x"], ["run"]):
            code, out, err = place.run(*command)
            expect(code == 1 and out == "" and "pip could not download" in err, command, out, err)
            expect(("-m demo" in err.splitlines()[-1]) == (command[0] != "serve"), command, err)
        expect(SANITISED or time.monotonic() - began < 60, "it took", time.monotonic() - began, "s")


def test_serve_without_either_is_an_error():
    with Place() as place:
        code, out, err = place.run("serve", "-p", "0", program=place.program("alone/bin/drafthorse"))
        expect(code == 1 and "pip could not download" in err and "demo model" not in err, out, err)


def test_selftest_takes_it():
    if SANITISED:
        raise Skip("selftest takes minutes under sanitisers")
    with Place() as place:
        code, out, err = place.run("selftest", "--json", seconds=600)
        expect(code == 0, out, err)
        report = json.loads(out)
        names = [check["name"] for check in report["checks"] if check["outcome"] == "ok"]
        for name in ("drafting auto", "prompt lookup, drafts of 8", "drafting head, drafts of 4", "1 thread",
                     "prompt in chunks of 7", "beside others, drafting auto", "portable kernels"):
            expect(name in names, name, "is not in", names)
        expect(report["failed"] == 0, report)


def main():
    global BINARY, SANITISED
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    options = parser.parse_args()
    BINARY = str(Path(options.binary).resolve())
    SANITISED = any(name in Path(BINARY).read_bytes() for name in (b"__asan_init", b"__tsan_init"))
    return run_tests(globals(), options)


if __name__ == "__main__":
    sys.exit(main())
