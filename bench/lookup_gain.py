#!/usr/bin/env python3
"""What prompt lookup gains: a file returned with one name changed, and a story, drafting off against auto.

  bench/lookup_gain.py --model M.gguf [--drafthorse build/drafthorse] [--threads 2] [--rounds 3] [--json]

One server; every round sends each prompt twice, once with "draft": "off" and once with "auto", in alternating
order. Decode speed is (completion tokens - 1) / (last - first streamed token). The two texts must be equal.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time
import urllib.request

from against_llama import free_port, wait_ready

CODE = '''class Ledger:
    """A list of dated amounts with a running balance."""

    def __init__(self, owner, currency="EUR"):
        self.owner = owner
        self.currency = currency
        self.entries = []

    def add(self, date, amount, note=""):
        if amount == 0:
            raise ValueError("an entry needs an amount")
        self.entries.append({"date": date, "amount": amount, "note": note})
        return len(self.entries)

    def balance(self, until=None):
        total = 0
        for entry in self.entries:
            if until is None or entry["date"] <= until:
                total += entry["amount"]
        return total

    def largest(self, count=3):
        ordered = sorted(self.entries, key=lambda entry: abs(entry["amount"]), reverse=True)
        return ordered[:count]

    def report(self):
        lines = [f"Ledger of {self.owner} ({self.currency})"]
        for entry in sorted(self.entries, key=lambda entry: entry["date"]):
            lines.append(f"{entry['date']}  {entry['amount']:>10.2f}  {entry['note']}")
        lines.append(f"Balance: {self.balance():.2f} {self.currency}")
        return "\\n".join(lines)
'''
TASKS = {
    "rename": ("Return this file with the method `largest` renamed to `top_entries`. Change nothing else and answer "
               "with the whole file in one code block.\n\n```python\n" + CODE + "```"),
    "story": "Write a short story of about 200 words about a lighthouse keeper who finds a letter.",
}


def stream(base, prompt, draft, tokens):
    body = {"model": "default", "messages": [{"role": "user", "content": prompt}], "temperature": 0, "stream": True,
            "max_tokens": tokens, "draft": draft, "stream_options": {"include_usage": True}}
    request = urllib.request.Request(base + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    first = last = None
    text, usage = "", None
    with urllib.request.urlopen(request, timeout=900) as response:
        for line in response:
            if not line.startswith(b"data: ") or line.strip() == b"data: [DONE]":
                continue
            chunk = json.loads(line[6:])
            usage = chunk.get("usage") or usage
            for choice in chunk["choices"]:
                piece = choice["delta"].get("content")
                if piece:
                    last = time.perf_counter()
                    first = first or last
                    text += piece
    return text, (usage["completion_tokens"] - 1) / (last - first), usage["completion_tokens"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--drafthorse", default="build/drafthorse")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    port = free_port()
    process = subprocess.Popen([args.drafthorse, "serve", "--model", args.model, "--port", str(port), "--threads",
                                str(args.threads), "--ctx", "4096"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}"
    result = {}
    try:
        wait_ready(base, process)
        stream(base, "Say hello.", "auto", 16)
        for name, prompt in TASKS.items():
            speeds, texts = {"off": [], "auto": []}, set()
            for round_number in range(args.rounds):
                for draft in (["off", "auto"] if round_number % 2 else ["auto", "off"]):
                    text, speed, count = stream(base, prompt, draft, args.tokens)
                    speeds[draft].append(speed)
                    texts.add(text)
            ratios = [a / b for a, b in zip(speeds["auto"], speeds["off"])]
            result[name] = {"off": statistics.median(speeds["off"]), "auto": statistics.median(speeds["auto"]),
                            "ratio": statistics.median(ratios), "ratio_range": [min(ratios), max(ratios)],
                            "tokens": count, "equal_text": len(texts) == 1}
    finally:
        process.terminate()
        process.wait(timeout=30)
    if args.json:
        print(json.dumps(result))
    else:
        for name, r in result.items():
            print(f"{name:8} {r['tokens']:4} tokens  off {r['off']:7.1f} tok/s  auto {r['auto']:7.1f} tok/s  "
                  f"ratio {r['ratio']:.2f} [{r['ratio_range'][0]:.2f}-{r['ratio_range'][1]:.2f}]  "
                  f"text {'equal' if r['equal_text'] else 'DIFFERS'}")
    sys.exit(0 if all(r["equal_text"] for r in result.values()) else 1)


if __name__ == "__main__":
    main()
