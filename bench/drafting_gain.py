#!/usr/bin/env python3
"""What each kind of drafting gains, by kind of task: drafting off, prompt lookup, the drafting head (where the model
has one) and auto.

  bench/drafting_gain.py [--model demo] [--drafthorse build/drafthorse] [--threads 2] [--rounds 5] [--tasks 3]
                         [--max-draft 0] [--json]

One server; every task is asked in every mode, one mode right after the other, and each round begins with another mode.
A speed is that of decoding alone, as the server's own timings have it: (tokens - 1) / seconds from the first token to
the last, over all tasks of the kind. A ratio is that of two speeds of one round; the median of the rounds is shown with
the least and the largest. A step is a call of the model that gave tokens. Acceptance is that of all drafted tokens,
and in brackets that of the first three of a draft, each where those before it were accepted; --max-draft fixes the
length of drafts, so that acceptance is seen where drafts do not pay. All modes must give the same text, greedy or
with a seed: anything else is an error. The tasks are made by bench/drafting_tasks.py, and nothing is downloaded for
--model demo.
"""
import argparse
import json
import statistics
import subprocess
import sys
import urllib.error
from collections import defaultdict

from against_llama import free_port, post, wait_ready
from drafting_tasks import Task, make_tasks, said

MODES = ("off", "lookup", "mtp", "auto")
NEAR_BEST, NEVER_UNDER = 0.97, 0.98  # of the best mode, and of drafting off


def ask(base, task: Task, mode, seed, max_draft=0):
    """(text, timings)."""
    body = {"draft": mode, "temperature": task.temperature, "seed": seed, "max_tokens": task.most_tokens,
            "max_draft": max_draft}
    if task.messages:
        answer, _ = post(base + "/v1/chat/completions", {**body, "messages": task.messages})
        return answer["choices"][0]["message"]["content"], answer["timings"]
    answer, _ = post(base + "/v1/completions", {**body, "prompt": task.prompt})
    return answer["choices"][0]["text"], answer["timings"]


def available_modes(base):
    """A mode that the model cannot have is refused."""
    modes = []
    for mode in MODES:
        try:
            ask(base, said("Say hello.", most_tokens=16), mode, 1)
            modes.append(mode)
        except urllib.error.HTTPError as error:
            message = json.load(error)["error"]["message"]
            if mode != "mtp" or error.code != 400:
                raise SystemExit(f"drafting {mode}: {message}")
    return modes


class Sums:
    """Of one mode over the tasks of a kind."""

    def __init__(self):
        self.tokens = self.steps = self.proposed = self.accepted = self.parked = self.decoded = 0
        self.seconds = 0.0
        self.depths = defaultdict(lambda: [0, 0])  # depth: [tried, accepted]

    def add(self, timings):
        self.tokens += timings["predicted_n"]
        self.decoded += max(timings["predicted_n"] - 1, 0)
        self.steps += timings["steps"]
        self.proposed += timings["draft_n"]
        self.accepted += timings["draft_accepted"]
        self.parked += sum(drafter["parked"] for drafter in timings["drafters"].values())
        self.seconds += timings["predicted_ms"] / 1e3
        for drafter in timings["drafters"].values():
            pairs = zip(drafter.get("tried_by_depth", ()), drafter.get("accepted_by_depth", ()))
            for depth, (tried, accepted) in enumerate(pairs, 1):
                self.depths[depth][0] += tried
                self.depths[depth][1] += accepted


def measure_kind(base, tasks, modes, rounds, texts, max_draft):
    """{mode: (counts of all rounds, decode tokens/s of each round)}. texts: of each task, checked and kept."""
    counts = {mode: Sums() for mode in modes}
    speeds = {mode: [] for mode in modes}
    for number in range(rounds):
        first = number % len(modes)
        order = modes[first:] + modes[:first]
        this_round = {mode: Sums() for mode in modes}
        for index, task in enumerate(tasks):
            for mode in order:
                text, timings = ask(base, task, mode, 100 + index, max_draft)
                if texts.setdefault(index, text) != text:
                    raise SystemExit(f"another text with drafting {mode}:\n{texts[index]!r}\n{text!r}")
                counts[mode].add(timings)
                this_round[mode].add(timings)
        for mode in modes:
            sums = this_round[mode]
            speeds[mode].append(sums.decoded / sums.seconds if sums.seconds > 0 else 0)
    return counts, speeds


def describe_mode(sums, speeds, off_speeds):
    ratios = [a / b for a, b in zip(speeds, off_speeds) if b > 0]
    depths = [sums.depths[depth] for depth in sorted(sums.depths)]
    return {"tokens_per_step": sums.tokens / sums.steps if sums.steps else 0, "proposed": sums.proposed,
            "accepted": sums.accepted, "parked": sums.parked,
            "acceptance": sums.accepted / sums.proposed if sums.proposed else None,
            "acceptance_by_depth": [accepted / tried for tried, accepted in depths if tried],
            "tokens_per_second": statistics.median(speeds), "ratio": statistics.median(ratios) if ratios else 1.0,
            "ratio_range": [min(ratios), max(ratios)] if ratios else [1.0, 1.0]}


def measure(base, options, modes, demo):
    kinds = make_tasks(demo, options.tasks, options.seed, options.tokens)
    report = {}
    for kind, tasks in kinds.items():
        if options.only and options.only not in kind:
            continue
        texts = {}
        counts, speeds = measure_kind(base, tasks, modes, options.rounds, texts, options.max_draft)
        found = {mode: describe_mode(counts[mode], speeds[mode], speeds["off"]) for mode in modes}
        best = max(modes, key=lambda mode: found[mode]["ratio"])
        auto = found["auto"]["ratio"]
        report[kind] = {"tasks": len(tasks), "tokens": counts["off"].tokens // options.rounds, "modes": found,
                        "best": best, "auto_near_best": auto >= NEAR_BEST * found[best]["ratio"],
                        "auto_not_slower": auto >= NEVER_UNDER}
        if options.texts:
            report[kind]["texts"] = [texts[index] for index in range(len(tasks))]
        print(f"{kind}: {report[kind]['tokens']} tokens", file=sys.stderr, flush=True)
    return report


def table(report, modes):
    drafting = [mode for mode in modes if mode != "off"]
    heads = ["kind", "tokens", *(f"{mode}: tokens a step" for mode in drafting),
             *(f"{mode}: accepted" for mode in drafting), "off: tokens/s",
             *(f"{mode}: speed over off" for mode in drafting), "best", "auto"]
    yield heads
    yield ["---"] * len(heads)
    for kind, row in report.items():
        of = row["modes"]
        accepted = []
        for mode in drafting:
            depths = ", ".join(f"{share:.0%}" for share in of[mode]["acceptance_by_depth"][:3])
            whole = "none" if of[mode]["acceptance"] is None else f"{of[mode]['acceptance']:.0%}"
            accepted.append(whole + (f" ({depths})" if depths else ""))
        ratios = ["{:.2f} [{:.2f}-{:.2f}]".format(of[mode]["ratio"], *of[mode]["ratio_range"]) for mode in drafting]
        verdict = "near the best" if row["auto_near_best"] else "not the best"
        yield [kind, str(row["tokens"]), *(f"{of[mode]['tokens_per_step']:.2f}" for mode in drafting), *accepted,
               f"{of['off']['tokens_per_second']:.0f}", *ratios, row["best"],
               verdict + ("" if row["auto_not_slower"] else ", SLOWER THAN OFF")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--drafthorse", default="build/drafthorse")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tasks", type=int, default=3, help="tasks of a kind")
    parser.add_argument("--tokens", type=int, default=256, help="most tokens of answers without an end of their own")
    parser.add_argument("--max-draft", type=int, default=0, help="tokens of every draft; 0: what pays")
    parser.add_argument("--seed", type=int, default=1, help="of the tasks")
    parser.add_argument("--only", default="", help="part of a kind's name")
    parser.add_argument("--texts", action="store_true", help="with --json: the answers too")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    port = free_port()
    process = subprocess.Popen([options.drafthorse, "serve", "--model", options.model, "--port", str(port), "--threads",
                                str(options.threads), "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}"
    try:
        wait_ready(base, process)
        modes = available_modes(base)
        name = post(base + "/v1/completions", {"prompt": "x", "max_tokens": 1})[0]["model"]
        report = measure(base, options, modes, demo=name.startswith("drafthorse-demo"))
    finally:
        process.terminate()
        process.wait(timeout=30)
    if options.json:
        print(json.dumps({"model": name, "threads": options.threads, "rounds": options.rounds, "kinds": report}))
    else:
        print(f"{name}, {options.threads} threads, {options.rounds} rounds, texts equal in all modes\n")
        for cells in table(report, modes):
            print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
