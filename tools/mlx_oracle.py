#!/usr/bin/env python3
"""mlx-lm as an oracle for the hybrid family, in fp32 on the CPU.

    python3 tools/mlx_oracle.py make OUT
    python3 tools/mlx_oracle.py compare FOLDER... [--binary build/tests/greedy_tokens] [--backend reference-fp32]
                                        [--text FILE...] [--tokens 200] [--bits 4 --group-size 64]

needs mlx[cpu] and mlx-lm.

make quantises models of tests/data/hybrid_goldens as mlx-lm does and writes each as a folder: the pack and its
golden.json and logits.bin, of the form that tools/make_hybrid_goldens.py describes ("mlx_lm" instead of "transformers").
tests/data/mlx_goldens has them.

compare continues prompts greedily with mlx-lm and with Drafthorse (ninja -C build greedy_tokens) and prints how many
tokens are equal, and how far the logits of the prompts' tokens are apart. The prompts are those of golden.json, or the first 64 tokens of each FILE. --bits compares on a pack
that is made for the occasion.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import mlx.core as mx
import numpy as np
from mlx_lm.utils import load_model, quantize_model, save_config, save_model

SOURCE = pathlib.Path(__file__).parent.parent
PACKS = (("dense_q4", "dense_nested", dict(group_size=32, bits=4)),
         ("moe_q4", "moe_nested", dict(group_size=32, bits=4)),
         ("thirds_nvfp4", "dense_thirds", dict(group_size=16, bits=4, mode="nvfp4")))
GREEDY_PROMPT, GREEDY_TOKENS = 16, 200


def mlx_layout(folder, scratch, exact=True):
    """A folder that mlx-lm can load: it wants the nested form, and an interval for the layers with full attention.
    exact: unquantised weights as fp32, since mlx-lm adds one to the norms in the type that they come in."""
    config = json.loads((folder / "config.json").read_text())
    text = dict(config.get("text_config", config))
    kinds = text.get("layer_types", [])
    if "full_attention" in kinds:
        text["full_attention_interval"] = kinds.index("full_attention") + 1
    text.setdefault("tie_word_embeddings", config.get("tie_word_embeddings", False))
    nested = {"model_type": config["model_type"].removesuffix("_text"), "text_config": text}
    nested.update({key: config[key] for key in ("quantization", "tie_word_embeddings") if key in config})
    target = pathlib.Path(scratch) / folder.name
    target.mkdir()
    (target / "config.json").write_text(json.dumps(nested))
    for file in folder.glob("model*.safetensors"):
        if exact and "quantization" not in config:
            tensors = {name: value.astype(mx.float32) for name, value in mx.load(str(file)).items()}
            mx.save_safetensors(str(target / file.name), tensors)
        else:
            (target / file.name).symlink_to(file.resolve())
    return target


def load_fp32(folder):
    """The model with fp32 arithmetic: floating-point parameters, scales too, are cast without a change of value."""
    model, config = load_model(folder)
    model.set_dtype(mx.float32)
    return model, config


def all_logits(model, tokens):
    return np.array(model(mx.array([tokens]))[0].astype(mx.float32))


def greedy(model, prompt, count):
    cache = model.make_cache()
    tokens, found = prompt, []
    while len(found) < count:
        logits = model(mx.array([tokens]), cache=cache)[0, -1]
        tokens = [int(mx.argmax(logits))]
        found += tokens
    return found


def pack(folder, target, scratch, **quantisation):
    model, config = load_model(mlx_layout(folder, scratch, exact=False))
    model, config = quantize_model(model, config, **quantisation)
    save_model(target, model)
    (target / "model.safetensors.index.json").unlink()
    save_config(config, target / "config.json")


def make(out):
    for name, source, quantisation in PACKS:
        target = out / name
        target.mkdir(parents=True)
        folder = SOURCE / "tests/data/hybrid_goldens" / source
        with tempfile.TemporaryDirectory() as scratch:
            pack(folder, target, scratch, **quantisation)
        facts = json.loads((folder / "golden.json").read_text())
        model, _ = load_fp32(target)
        logits = [all_logits(model, prompt) for prompt in facts["prompts"]]
        every = facts["every"]
        kept = np.concatenate([rows[every - 1::every] for rows in logits])
        (target / "logits.bin").write_bytes(kept.astype("<f4").tobytes())
        (target / "golden.json").write_text(json.dumps({
            "mlx_lm": __import__("mlx_lm").__version__, "mlx": mx.__version__, "vocab": facts["vocab"], "every": every,
            "prompts": facts["prompts"], "top": [rows.argmax(-1).tolist() for rows in logits],
            "greedy": {"prompt": GREEDY_PROMPT,
                       "tokens": greedy(model, facts["prompts"][0][:GREEDY_PROMPT], GREEDY_TOKENS)}}) + "\n")
        print(f"{target}: {(target / 'model.safetensors').stat().st_size} bytes")


def prompts_of(folder, texts):
    if not texts:
        return json.loads((folder / "golden.json").read_text())["prompts"]
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return [tokenizer.encode(text.read_text()).ids[:64] for text in texts]


def drafthorse(options, folder, prompts, count):
    """Standard output of greedy_tokens."""
    lines = "".join(" ".join(map(str, prompt)) + "\n" for prompt in prompts)
    return subprocess.run([options.binary, folder, options.backend, str(count)], input=lines.encode(),
                          stdout=subprocess.PIPE, check=True).stdout


def log_softmax(x):
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def distance(theirs, ours):
    """The mean Kullback-Leibler divergence of our rows of logits from theirs, and the largest relative error of a row."""
    theirs, ours = theirs.astype(np.float64), ours.astype(np.float64)
    p, q = log_softmax(theirs), log_softmax(ours)
    error = np.linalg.norm(ours - theirs, axis=-1) / np.linalg.norm(theirs, axis=-1)
    return (np.exp(p) * (p - q)).sum(axis=-1).mean(), error.max()


def compare(folder, options):
    """Whether all texts are equal."""
    equal = 0
    with tempfile.TemporaryDirectory() as scratch:
        prompts = prompts_of(folder, options.text)
        if options.bits:
            packed = pathlib.Path(scratch) / f"{folder.name}-{options.bits}-bit"
            pack(folder, packed, scratch, group_size=options.group_size, bits=options.bits)
            folder = packed
            scratch = pathlib.Path(scratch) / "layout"
            scratch.mkdir()
        ours = [list(map(int, line.split())) for line in
                drafthorse(options, folder, prompts, options.tokens).splitlines()]
        logits = np.frombuffer(drafthorse(options, folder, prompts, 0), "<f4")
        model, _ = load_fp32(mlx_layout(folder, scratch))
        expected = np.concatenate([all_logits(model, prompt) for prompt in prompts])
        divergence, error = distance(expected, logits.reshape(expected.shape))
        for prompt, got in zip(prompts, ours, strict=True):
            theirs = greedy(model, prompt, options.tokens)
            same = next((i for i in range(options.tokens) if got[i] != theirs[i]), options.tokens)
            equal += same == options.tokens
            line = f"{folder.name}: {same} of {options.tokens} tokens equal"
            if same < options.tokens:
                logits = all_logits(model, prompt + theirs[:same])[-1]
                line += f" (then {got[same]} for {theirs[same]}, whose logits in mlx-lm are " \
                        f"{logits[got[same]]:.5f} and {logits[theirs[same]]:.5f})"
            print(line, flush=True)
    print(f"{folder.name}, {options.backend}: {equal} of {len(prompts)} texts equal; logits of {len(expected)} tokens: "
          f"mean divergence {divergence:.1e}, largest relative error {error:.1e}")
    return equal == len(prompts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("make").add_argument("out", type=pathlib.Path)
    comparison = commands.add_parser("compare")
    comparison.add_argument("folders", nargs="+", type=pathlib.Path)
    comparison.add_argument("--binary", default=SOURCE / "build/tests/greedy_tokens")
    comparison.add_argument("--backend", default="reference-fp32", choices=("reference-fp32", "reference", "cpu"))
    comparison.add_argument("--text", nargs="+", type=pathlib.Path, default=[])
    comparison.add_argument("--tokens", type=int, default=200)
    comparison.add_argument("--bits", type=int, default=0)
    comparison.add_argument("--group-size", type=int, default=64)
    options = parser.parse_args()
    mx.set_default_device(mx.cpu)
    if options.command == "make":
        make(options.out)
        return 0
    return 0 if all([compare(folder, options) for folder in options.folders]) else 1


if __name__ == "__main__":
    sys.exit(main())
