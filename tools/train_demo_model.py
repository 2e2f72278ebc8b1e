#!/usr/bin/env python3
"""Trains the demo model: a small model of exactly the structure of Qwen3.6-35B-A3B with its drafting head, on Python
source and on tasks that the script makes.

    python3 tools/train_demo_model.py sources WHEELS ARCHIVE        # fetch the packages, pack their source
    python3 tools/train_demo_model.py prepare ARCHIVE DATA          # tokenizer, token rows, held-out tasks
    python3 tools/train_demo_model.py train DATA RUN --seconds 400  # train and write RUN/checkpoint.pt; again: resume
    python3 tools/train_demo_model.py export DATA RUN               # RUN/hf: the checkpoint as a Hugging Face folder
    python3 tools/train_demo_model.py evaluate DATA RUN             # RUN/evaluation.json: exactness, acceptance, loss

train can start while prepare still runs: it compiles in the meantime. The order of everything follows from --seed. The
number of steps follows from --total-seconds on the machine at hand, once, unless --steps gives it; RUN/log.json has it.
Needs torch, tokenizers, safetensors and numpy; training wants one NVIDIA GPU, everything else runs on a processor too.
"""

import argparse
import json
import sys
import time
from pathlib import Path


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("sources", "prepare", "train", "export", "evaluate"))
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    data = parser.add_argument_group("prepare")
    data.add_argument("--tasks", type=int, default=480_000)
    data.add_argument("--most-files", type=int, help="of source, for trials")
    data.add_argument("--workers", type=int)
    train = parser.add_argument_group("train")
    train.add_argument("--seconds", type=float, default=1e9, help="of training in this call")
    train.add_argument(
        "--stop-at", type=float, default=0, help="and not past this time of the clock, in seconds since 1970"
    )
    train.add_argument("--total-seconds", type=float, default=700, help="of training in all calls")
    train.add_argument("--steps", type=int, default=0, help="in all calls, in place of --total-seconds")
    train.add_argument("--rows", type=int, default=16, help="a step, of 2,048 tokens")
    train.add_argument("--source-rows", type=int, default=6, help="of them of source")
    train.add_argument("--source-weight", type=float, default=0.6, help="of their tokens, where an answer's has 1")
    train.add_argument("--muon-rate", type=float, default=0.02)
    train.add_argument("--muon-decay", type=float, default=0.05)
    train.add_argument("--adam-rate", type=float, default=2e-3)
    train.add_argument("--cool", type=float, default=0.5, help="share of the steps over which the rates fall")
    train.add_argument("--draft", type=float, default=0.4, help="weight of the head's first draft")
    train.add_argument("--draft-deep", type=float, default=0.1, help="weight of each further draft")
    train.add_argument("--depth", type=int, default=3)
    train.add_argument("--balance", type=float, default=0.02)
    train.add_argument("--log-every", type=float, default=20, help="seconds")
    train.add_argument("--no-compile", dest="compile", action="store_false")
    check = parser.add_argument_group("evaluate")
    check.add_argument("--count", type=int, default=100, help="texts of a kind")
    check.add_argument("--bits", type=int, nargs="+", default=[4], help="16: as exported")
    check.add_argument("--kinds", nargs="+")
    return parser.parse_args()


def logger(path):
    start, file = time.time(), open(path, "a")

    def log(*words):
        line = f"[{time.time() - start:6.1f}] " + " ".join(map(str, words))
        print(line, flush=True)
        print(line, file=file, flush=True)

    return log


def train(options, log):
    import torch

    from demo_model import training

    options.dtype = torch.bfloat16 if options.device == "cuda" else torch.float32
    checkpoint = options.second / "checkpoint.pt"
    model, progress = training.train(options.first, checkpoint, options, log)
    settings = {
        key: value
        for key, value in vars(options).items()
        if isinstance(value, (int, float, str)) and key not in ("command", "stop_at", "workers", "count")
    }
    (options.second / "log.json").write_text(
        json.dumps(
            {
                "parameters": sum(p.numel() for p in model.parameters()),
                "torch": torch.__version__,
                "machine": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
                "settings": settings,
                **progress,
            },
            indent=1,
        )
    )


def export_checkpoint(options, log):
    import torch

    from demo_model import export
    from demo_model.model import Config, Model

    model = Model(Config())
    model.load_state_dict(torch.load(options.second / "checkpoint.pt", map_location="cpu", weights_only=False)["model"])
    export.save(model, options.second / "hf", options.first / "tokenizer.json")
    log("exported", options.second / "hf")


def evaluate(options, log):
    from demo_model import evaluation, export

    path = options.second / "evaluation.json"
    reports = json.loads(path.read_text()) if path.exists() else {}
    for bits in options.bits:
        model = export.load(options.second / "hf", "cpu")
        if bits < 16:
            evaluation.quantise(model, bits)
        log(f"{bits} bits")
        reports[str(bits)] = evaluation.evaluate(
            model.to(options.device), options.first, log, options.count, options.kinds
        )
        path.write_text(json.dumps(reports, indent=1))


def main():
    options = parse()
    if options.command == "sources":
        from demo_model import sources

        sources.download(options.first)
        sources.pack(options.first, options.second)
        return 0
    if options.command == "prepare":
        from demo_model import rows

        rows.prepare(
            options.first,
            options.second,
            options.tasks,
            options.seed,
            options.most_files,
            held=options.count,
            workers=options.workers,
        )
        return 0
    options.second.mkdir(parents=True, exist_ok=True)
    log = logger(options.second / f"{options.command}.log")
    {"train": train, "export": export_checkpoint, "evaluate": evaluate}[options.command](options, log)
    return 0


if __name__ == "__main__":
    sys.exit(main())
