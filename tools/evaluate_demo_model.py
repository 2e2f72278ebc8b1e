#!/usr/bin/env python3
"""How many answers of a model are exact on the held-out tasks of tools/train_demo_model.py, measured with Drafthorse
itself: the program serves the model, and each answer is greedy.

    python3 tools/evaluate_demo_model.py MODEL DATA/held.json OUT.json [--kinds copy rename ...]

A pack of any bits or a Hugging Face folder will do. Needs nothing beyond Python.
"""

import argparse
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FREE = ("story", "complete", "source")  # kinds whose answers are not one text
MOST_TOKENS = 1500


def post(port, path, body):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)


def wait_until_ready(port, server):
    for _ in range(600):
        if server.poll() is not None:
            raise SystemExit("the server ended before it was ready")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise SystemExit("the server was not ready in a minute")


def answer(port, prompt, draft):
    user = prompt.removeprefix("<|im_start|>user\n").removesuffix("<|im_end|>\n<|im_start|>assistant\n")
    body = {
        "messages": [{"role": "user", "content": user}],
        "temperature": 0,
        "max_tokens": MOST_TOKENS,
        "draft": draft,
    }
    return post(port, "/v1/chat/completions", body)


def evaluate(options):
    held = json.loads(options.held.read_text())
    server = subprocess.Popen(
        [options.binary, "serve", "-m", options.model, "-p", str(options.port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    report = {}
    try:
        wait_until_ready(options.port, server)
        for kind, entries in held.items():
            if kind in FREE or (options.kinds and kind not in options.kinds):
                continue
            with ThreadPoolExecutor(options.parallel) as pool:
                answers = list(pool.map(lambda entry: answer(options.port, entry[0], options.draft), entries))
            texts = [one["choices"][0]["message"]["content"] for one in answers]
            misses = [(want, got) for (_, want), got in zip(entries, texts) if want.strip() != got.strip()]
            report[kind] = {"texts": len(entries), "exact": len(entries) - len(misses)}
            print(kind, report[kind], flush=True)
            if options.misses:
                for want, got in misses:
                    print(json.dumps({"kind": kind, "want": want, "got": got}))
    finally:
        server.terminate()
        server.wait()
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("held", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--binary", default="build/drafthorse")
    parser.add_argument("--kinds", nargs="+")
    parser.add_argument("--draft", default="auto", choices=("auto", "lookup", "mtp", "off"))
    parser.add_argument("--port", type=int, default=8653)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--misses", action="store_true", help="print them")
    options = parser.parse_args()
    options.out.write_text(json.dumps(evaluate(options), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
