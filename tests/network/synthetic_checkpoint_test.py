#!/usr/bin/env python3
"""Checkpoints that tools/make_synthetic_checkpoint.py writes: python3 tests/network/synthetic_checkpoint_test.py
--binary build/drafthorse

Each layout is read, runs, and says the same text with its drafting head as without. The last line is the count.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from script import add_options, expect, run_tests  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
MAKE = ROOT / "tools/make_synthetic_checkpoint.py"
BINARY = None
FOLDER = None


def make(name, *arguments):
    path = FOLDER / name
    subprocess.run([sys.executable, MAKE, *arguments, path], check=True, timeout=120)
    return path


def run(*arguments):
    environment = {"PATH": os.environ["PATH"], "HOME": str(FOLDER / "home"), "LC_ALL": "C.UTF-8",
                   **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}}
    result = subprocess.run([BINARY, *arguments, "--json"], env=environment, capture_output=True, timeout=300,
                            stdin=subprocess.DEVNULL)
    expect(result.returncode == 0, arguments, result.stderr.decode(errors="replace"))
    return json.loads(result.stdout)


def inspect(path):
    return run("inspect", str(path))


def generate(path, *arguments):
    return run("generate", "-m", str(path), "--raw", "-p", "Hello there", "-n", "24", "--temperature", "0",
               "--threads", "1", "--ignore-eos", *arguments)


def formats(table):
    return {row["part"]: row["format"] for kind in table["block_kinds"] for row in kind["parts"]}


def check_tiny(path, *, family, mtp=True):
    """Shape, and one text with and without drafts."""
    table = inspect(path)
    expect(table["blocks"] == 4 and table["hidden"] == 256 and table["vocab"] == 512, table)
    expect(family in table["family"], table["family"])
    linear = [kind["blocks"] for kind in table["block_kinds"] if kind["summary"].startswith("delta net")]
    expect(linear == [[0, 1, 2]], linear)
    expect({stop["text"] for stop in table["tokenizer"]["stop_tokens"]} == {"<|im_end|>", "<|endoftext|>"}, table)
    alone = generate(path, "--draft", "off")
    expect(alone["completion_tokens"] == 24 and alone["prompt_tokens"] > 8, alone)
    if mtp:
        drafted = generate(path, "--draft", "mtp", "--max-draft", "3")
        expect(drafted["tokens"] == alone["tokens"] and drafted["text"] == alone["text"], drafted, alone)
        expect(drafted["speculation"]["by_drafter"]["mtp"]["proposed"] > 20, drafted)
    return table


def test_mlx_dense():
    path = make("dense", "--size", "tiny")
    table = check_tiny(path, family="qwen3_5")
    expect(formats(table)["delta qkv"] == "affine 4-bit group 64", formats(table))
    header = json.loads((path / "model.safetensors.index.json").read_text())["weight_map"]
    expect("language_model.mtp.fc.weight" in header and "language_model.mtp.fc.scales" not in header, "fc in bf16")


def test_mlx_mixture():
    table = check_tiny(make("moe", "--size", "tiny-moe"), family="qwen3_5")
    expect(formats(table)["router"] == "affine 8-bit group 64", formats(table))
    expect(formats(table)["shared gate"] == "affine 8-bit group 64", formats(table))
    expect(formats(table)["8 experts: mlp down"] == "affine 4-bit group 64", formats(table))


def test_gguf_dense():
    for kind in ("q4_k", "q4_0", "q4_1"):
        table = check_tiny(make(f"dense-{kind}.gguf", "--size", "tiny", "--gguf", "--type", kind), family="qwen3_5")
        expect(formats(table)["delta qkv"] == kind, formats(table))


def test_gguf_mixture():
    table = check_tiny(make("moe.gguf", "--size", "tiny-moe", "--gguf"), family="qwen3_5")
    expect(formats(table)["router"] == "f32", formats(table))
    expect(formats(table)["8 experts: mlp gate"] == "q4_k", formats(table))


def test_other_bits_and_groups():
    table = check_tiny(make("six", "--size", "tiny-moe", "--bits", "6", "--group-size", "32"), family="qwen3_5")
    expect(formats(table)["delta out"] == "affine 6-bit group 32", formats(table))


def test_without_head():
    for name in ("headless", "headless.gguf"):
        path = make(name, "--size", "tiny", "--no-mtp", *(["--gguf"] if name.endswith("gguf") else []))
        check_tiny(path, family="qwen3_5", mtp=False)
        outcome = subprocess.run([BINARY, "generate", "-m", path, "--draft", "mtp", "-p", "x"], capture_output=True,
                                 stdin=subprocess.DEVNULL, timeout=120)
        expect(outcome.returncode != 0 and b"head" in outcome.stderr, outcome)


def test_shards():
    whole = make("whole", "--size", "tiny")
    split = make("split", "--size", "tiny", "--shard-bytes", "200K")
    count = len(list(split.glob("model-*.safetensors")))
    expect(count > 3, count)
    expect(generate(split)["tokens"] == generate(whole)["tokens"])


def test_layers_and_seeds():
    expect(inspect(make("slice", "--size", "tiny", "--layers", "2"))["blocks"] == 2)
    first, again, other = (make(name, "--size", "tiny", "--gguf", "--seed", seed).read_bytes()
                           for name, seed in (("a.gguf", "1"), ("b.gguf", "1"), ("c.gguf", "2")))
    expect(first == again and first != other and len(first) == len(other))


def test_a_real_size():
    """One block of 0.8B with its vocabulary, most of whose ids stand for no text."""
    path = make("slice-0.8b.gguf", "--size", "0.8b", "--layers", "1", "--gguf", "--no-mtp")
    table = inspect(path)
    expect(table["vocab"] == 248320 and table["hidden"] == 1024, table)
    # Delta net 5.9 MB, feed-forward 6.2 MB, head 143 MB at 4.5 bits.
    expect(abs(table["bytes_per_token"] / 155.1e6 - 1) < 0.01, table["bytes_per_token"])
    answer = generate(path)
    expect(answer["completion_tokens"] == 24, answer)


def test_bench_model():
    """The command on a hybrid and a mixture: bytes of a token are those of its experts, and the states' twice."""
    for name, size in (("dense.gguf", "tiny"), ("mixture.gguf", "tiny-moe")):
        path = make(name, "--size", size, "--gguf")
        report = run("bench", "model", "-m", str(path), "--threads", "1")
        weights = inspect(path)["bytes_per_token"]
        # Three states of 4 heads, 64 x 64 floats, read and written, and 3 rows of 512 channels; 2 KV heads of 64 over 16 positions.
        state = 3 * 2 * (4 * 64 * 64 * 4 + 3 * 512 * 4)
        expected = weights + state + 16 * 2 * 64 * 2 * 2
        first = report["results"][0]
        expect(abs(first["bytes_per_token"] / expected - 1) < 0.1, first, expected)
        expect(first["decode_tokens_per_second"] > 0 and first["prefill_tokens_per_second"] > 0, first)


def test_bench_draft():
    """The table on a mixture, with its head; equal texts are the command's own check."""
    path = make("drafts.gguf", "--size", "tiny-moe", "--gguf")
    report = run("bench", "draft", "-m", str(path), "--threads", "1", "-n", "48", "--repeats", "1", "--depth", "2,16",
                 "--draft", "replay:1,0", "--draft", "replay+mtp:1")
    names = [row["draft"] for row in report["rows"]]
    expect(names == ["replay:1", "replay:0", "replay+mtp:1"], names)
    right, wrong, head = ({cell["depth"]: cell for cell in row["cells"]} for row in report["rows"])
    expect(list(right) == [2, 16, "policy"] and list(head) == [2, "policy"], right, head)
    expect(2.7 < right[2]["tokens_per_step"] <= 3 and wrong[2]["tokens_per_step"] == 1, right, wrong)
    expect(2.7 < head[2]["tokens_per_step"] <= 3, head)
    expect(all(cell["ratio"] > 0 and cell["predicted"] > 0 for cell in [*right.values(), *wrong.values()]), report)
    expect(report["head_cost"] > 0 and report["tokens_per_second"] > 0 and len(report["row_cost"]) == 16, report)


def main():
    global BINARY, FOLDER
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    options = parser.parse_args()
    BINARY = str(Path(options.binary).resolve())
    with tempfile.TemporaryDirectory() as folder:
        FOLDER = Path(folder)
        return run_tests(globals(), options)


if __name__ == "__main__":
    sys.exit(main())
