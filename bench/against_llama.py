#!/usr/bin/env python3
"""Decode and prefill speed against llama.cpp's server, alternating in one run (speculation off on both sides).

  bench/against_llama.py --model M.gguf --llama-server PATH [--drafthorse build/drafthorse] [--threads 2]
                         [--rounds 5] [--prefill 512] [--decode 128] [--json]

Both servers stay up; each round asks one, then the other, in alternating order, for the same work: a prefill of
about --prefill tokens that share no prefix with an earlier one, then --decode tokens after a short prompt. The
figures are the medians over the rounds of the end-to-end rates seen by this client; the spread is printed.
"""
import argparse
import json
import random
import re
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

WORDS = ("river stone market engine window garden letter silver bridge morning paper music winter harbour table "
         "forest signal copper island kitchen number shadow village thread lantern planet corner summer record").split()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    start = time.perf_counter()
    with urllib.request.urlopen(request, timeout=600) as response:
        return json.load(response), time.perf_counter() - start


def wait_ready(base, process):
    for _ in range(1200):
        if process.poll() is not None:
            sys.exit(f"the server ended with {process.returncode} before it was ready")
        try:
            with urllib.request.urlopen(base + "/health", timeout=5) as response:
                if response.status == 200:
                    return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            pass
        time.sleep(0.1)
    sys.exit("the server was not ready within two minutes")


class Server:
    def __init__(self, name, command, port):
        self.name, self.base = name, f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_ready(self.base, self.process)
        self.prefill, self.decode = [], []

    def completion(self, prompt, tokens):
        body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
        body.update({"draft": "off"} if self.name == "drafthorse" else {"cache_prompt": False})
        answer, seconds = post(self.base + "/v1/completions", body)
        usage = answer["usage"]
        if usage["completion_tokens"] != tokens:
            sys.exit(f"{self.name} gave {usage['completion_tokens']} tokens, {tokens} were asked")
        return usage["prompt_tokens"], seconds

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=30)


def measure(server, prompt, short, decode):
    tokens, seconds = server.completion(prompt, 1)
    server.prefill.append(tokens / seconds)
    _, one = server.completion(short, 1)
    _, many = server.completion(short, decode + 1)
    server.decode.append(decode / (many - one))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--llama-server", required=True)
    parser.add_argument("--drafthorse", default="build/drafthorse")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prefill", type=int, default=512)
    parser.add_argument("--decode", type=int, default=128)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()

    ports = [free_port(), free_port()]
    ours = Server("drafthorse", [args.drafthorse, "serve", "--model", args.model, "--port", str(ports[0]),
                                 "--threads", str(args.threads), "--ctx", "2048"], ports[0])
    theirs = Server("llama.cpp", [args.llama_server, "-m", args.model, "--port", str(ports[1]), "-t",
                                  str(args.threads), "-tb", str(args.threads), "-c", "2048", "-np", "1"], ports[1])
    rng = random.Random(1)
    try:
        # A tokenizer of bytes makes six tokens of a word, a real one a little more than one.
        sample = " ".join(WORDS)
        words = max(1, int(args.prefill * len(WORDS) / ours.completion(sample, 1)[0]))
        for round_number in range(args.rounds + 1):
            prompt = " ".join(rng.choice(WORDS) for _ in range(words))
            order = [ours, theirs] if round_number % 2 else [theirs, ours]
            for server in order:
                measure(server, prompt, f"Round {round_number}. Once upon a time", args.decode)
        result = {"model": args.model, "threads": args.threads}
        for kind in ("prefill", "decode"):
            # The first round warms both up.
            a, b = [getattr(s, kind)[1:] for s in (ours, theirs)]
            result[kind] = {"drafthorse": statistics.median(a), "llama.cpp": statistics.median(b),
                            "ratio": statistics.median(x / y for x, y in zip(a, b)),
                            "drafthorse_range": [min(a), max(a)], "llama.cpp_range": [min(b), max(b)]}
    finally:
        ours.close()
        theirs.close()
    if args.json:
        print(json.dumps(result))
        return
    print(f"{re.sub('.*/', '', args.model)}, {args.threads} threads, {args.rounds} rounds, tokens/s, medians [range]")
    for kind in ("prefill", "decode"):
        r = result[kind]
        print(f"  {kind:8} drafthorse {r['drafthorse']:8.1f} [{r['drafthorse_range'][0]:.1f}-{r['drafthorse_range'][1]:.1f}]"
              f"   llama.cpp {r['llama.cpp']:8.1f} [{r['llama.cpp_range'][0]:.1f}-{r['llama.cpp_range'][1]:.1f}]"
              f"   ratio {r['ratio']:.2f}")


if __name__ == "__main__":
    main()
