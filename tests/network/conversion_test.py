#!/usr/bin/env python3
"""tools/convert_to_mlx.py: python3 tests/network/conversion_test.py --binary build/drafthorse

Converts small random checkpoints of the Hugging Face layout and compares the packs with them on the reference backend
without quantised activations (build/tests/greedy_tokens). Weights that lie on a grid of 4 or 8 bits survive exactly,
and so must every logit and greedy token; others must be rounded well. The last line is the count.
"""
import argparse
import array
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))
from script import add_options, expect, run_tests  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from make_synthetic_checkpoint import CHAT_TEMPLATE, marker, tokenizer_json  # noqa: E402
from shards import Stored, write_safetensors  # noqa: E402

CONVERT = ROOT / "tools/convert_to_mlx.py"
BINARY = GREEDY_TOKENS = PYTHON = FOLDER = None
HIDDEN, VOCAB, HEAD, KEY, EXPERTS, INNER = 128, 512, 64, 64, 4, 64
PROMPTS = [[72, 101, 108, 108, 111], [5, 400, 33, 7, 7, 7, 500, 12, 256, 90, 91], list(range(40, 104))]


def bf16_bytes(values):
    """Of values that bf16 holds, or cut off to it."""
    raw = array.array("f", values).tobytes()
    cut = bytearray(len(raw) // 2)
    cut[0::2], cut[1::2] = raw[2::4], raw[3::4]
    return bytes(cut)


def grid(r, count, bits, width):
    """Multiples of a power of two that 4 or 8 bits in groups of 64 hold exactly."""
    half = 2 ** (bits - 1)
    step = 2.0 ** round(math.log2(2 / half / math.sqrt(width)))
    codes = [r.randrange(2 * half) for _ in range(count)]
    for first in range(0, count, 64):
        codes[first], codes[first + 1] = 0, 2 * half - 1
    return [(code - half) * step for code in codes]


def normal(r, count, bits, width):
    return [r.gauss(0, 1 / math.sqrt(width)) for _ in range(count)]


def shapes(mixture):
    """{name: shape} of two layers and a head."""
    found = {"model.language_model.embed_tokens.weight": (VOCAB, HIDDEN), "model.language_model.norm.weight": (HIDDEN,),
             "mtp.fc.weight": (HIDDEN, 2 * HIDDEN), "mtp.norm.weight": (HIDDEN,),
             "mtp.pre_fc_norm_embedding.weight": (HIDDEN,), "mtp.pre_fc_norm_hidden.weight": (HIDDEN,)}
    attention = {"self_attn.q_proj.weight": (4 * HEAD, HIDDEN), "self_attn.k_proj.weight": (HEAD, HIDDEN),
                 "self_attn.v_proj.weight": (HEAD, HIDDEN), "self_attn.o_proj.weight": (HIDDEN, 2 * HEAD),
                 "self_attn.q_norm.weight": (HEAD,), "self_attn.k_norm.weight": (HEAD,)}
    delta = {"in_proj_qkv.weight": (4 * KEY, HIDDEN), "in_proj_z.weight": (2 * KEY, HIDDEN),
             "in_proj_a.weight": (2, HIDDEN), "in_proj_b.weight": (2, HIDDEN), "conv1d.weight": (4 * KEY, 1, 4),
             "A_log": (2,), "dt_bias": (2,), "norm.weight": (KEY,), "out_proj.weight": (HIDDEN, 2 * KEY)}
    mlp = {"gate_proj.weight": (INNER, HIDDEN), "up_proj.weight": (INNER, HIDDEN), "down_proj.weight": (HIDDEN, INNER)}
    feed_forward = {f"mlp.{name}": shape for name, shape in mlp.items()}
    if mixture:
        feed_forward = {f"mlp.shared_expert.{name}": shape for name, shape in mlp.items()}
        feed_forward |= {"mlp.gate.weight": (EXPERTS, HIDDEN), "mlp.shared_expert_gate.weight": (1, HIDDEN),
                         "mlp.experts.gate_up_proj": (EXPERTS, 2 * INNER, HIDDEN),
                         "mlp.experts.down_proj": (EXPERTS, HIDDEN, INNER)}
    mixers = {"model.language_model.layers.0.": {f"linear_attn.{name}": shape for name, shape in delta.items()},
              "model.language_model.layers.1.": attention, "mtp.layers.0.": attention}
    for prefix, mixer in mixers.items():
        norms = {"input_layernorm.weight": (HIDDEN,), "post_attention_layernorm.weight": (HIDDEN,)}
        found |= {prefix + name: shape for name, shape in {**norms, **mixer, **feed_forward}.items()}
    return found


def stored(r, name, shape, bits, make):
    count = math.prod(shape)
    if name.endswith("A_log"):
        values = [math.log(r.uniform(1, 16)) for _ in range(count)]
    elif name.endswith("linear_attn.norm.weight"):
        values = [1 + r.randrange(-32, 33) / 128 for _ in range(count)]
    elif len(shape) == 1:  # a norm, to which 1 is added, or dt_bias
        values = [r.randrange(-32, 33) / 128 for _ in range(count)]
    elif name.endswith("conv1d.weight"):
        values = [r.randrange(-64, 65) / 128 for _ in range(count)]
    else:
        fine = name.endswith(("mlp.gate.weight", "shared_expert_gate.weight"))
        values = make(r, count, 8 if fine else bits, shape[-1])
    whole = name.endswith(("A_log", "linear_attn.norm.weight"))
    data = array.array("f", values).tobytes() if whole else bf16_bytes(values)
    return Stored(name, "F32" if whole else "BF16", shape, len(data), lambda: [data])


def config(mixture):
    suffix = "_moe" if mixture else ""
    text = {"model_type": f"qwen3_5{suffix}_text", "hidden_size": HIDDEN, "num_hidden_layers": 2, "vocab_size": VOCAB,
            "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": HEAD, "hidden_act": "silu",
            "layer_types": ["linear_attention", "full_attention"], "linear_conv_kernel_dim": 4,
            "linear_key_head_dim": KEY, "linear_num_key_heads": 1, "linear_value_head_dim": KEY,
            "linear_num_value_heads": 2, "max_position_embeddings": 1024, "mtp_num_hidden_layers": 1,
            "rms_norm_eps": 1e-6, "partial_rotary_factor": 0.25, "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25,
                                "mrope_interleaved": True, "mrope_section": [4, 2, 2]}}
    if mixture:
        text |= {"num_experts": EXPERTS, "num_experts_per_tok": 2, "moe_intermediate_size": INNER,
                 "shared_expert_intermediate_size": INNER}
    else:
        text["intermediate_size"] = INNER
    return {"architectures": [f"Qwen3_5{'Moe' if mixture else ''}ForConditionalGeneration"],
            "model_type": f"qwen3_5{suffix}", "text_config": text, "tie_word_embeddings": True}


VISION = {"model.visual.patch_embed.proj.weight": (4, 4)}


def make_checkpoint(name, *, mixture=True, bits=4, make=grid, others={}):
    folder = FOLDER / name
    folder.mkdir()
    r = random.Random(name)
    write_safetensors(folder / "model.safetensors",
                      [stored(r, tensor, shape, bits, make) for tensor, shape in {**shapes(mixture), **others}.items()])
    files = {"config.json": config(mixture), "tokenizer.json": tokenizer_json(),
             "tokenizer_config.json": {"eos_token": "<|im_end|>", "chat_template": CHAT_TEMPLATE},
             "generation_config.json": {"eos_token_id": [marker("<|im_end|>"), marker("<|endoftext|>")]}}
    for file, content in files.items():
        (folder / file).write_text(json.dumps(content))
    return folder


def call_converter(folder, out, *arguments):
    return subprocess.run([PYTHON, CONVERT, folder, out, *arguments], capture_output=True, text=True, timeout=300)


def convert(folder, *arguments):
    out = folder.with_name(folder.name + "-pack" + "".join(arguments).replace("-", "_"))
    done = call_converter(folder, out, *arguments)
    expect(done.returncode == 0, done.stderr)
    return out


def reference(folder, count):
    """Greedy tokens of each prompt; the logits of all its tokens for a count of 0."""
    lines = "".join(" ".join(map(str, prompt)) + "\n" for prompt in PROMPTS)
    done = subprocess.run([GREEDY_TOKENS, folder, "reference-fp32", str(count)], input=lines.encode(),
                          capture_output=True, timeout=300)
    expect(done.returncode == 0, done.stderr)
    if count:
        return [list(map(int, line.split())) for line in done.stdout.splitlines()]
    logits = array.array("f", done.stdout)
    expect(len(logits) == sum(map(len, PROMPTS)) * VOCAB, len(logits))
    return logits


def logit_error(expected, got):
    """Root of the mean square of the difference over that of the logits."""
    difference = sum((a - b) ** 2 for a, b in zip(expected, got, strict=True))
    return math.sqrt(difference / sum(a * a for a in expected))


def generate(folder, *arguments):
    done = subprocess.run([BINARY, "generate", "-m", folder, "--raw", "-p", "Hello there", "-n", "24", "--ignore-eos",
                           "--temperature", "0", "--threads", "1", "--json", *arguments], capture_output=True,
                          timeout=300, stdin=subprocess.DEVNULL, env={**os.environ, "HOME": str(FOLDER / "home")})
    expect(done.returncode == 0, done.stderr.decode(errors="replace"))
    return json.loads(done.stdout)


def test_what_fits_is_kept_exactly():
    for mixture in (True, False):
        for bits in (4, 8):
            source = make_checkpoint(f"exact-{mixture}-{bits}", mixture=mixture, bits=bits)
            pack = convert(source, "--bits", str(bits), "--shard-bytes", "60K")
            expect(len(list(pack.glob("model-*.safetensors"))) > 2, "one shard only")
            error = logit_error(reference(source, 0), reference(pack, 0))
            expect(error < 1e-6, mixture, bits, "logits are off by", error)
            expect(reference(source, 48) == reference(pack, 48), mixture, bits, "greedy tokens differ")


def read_tensor(folder, name):
    """Bytes of a tensor."""
    for file in sorted(folder.glob("*.safetensors")):
        data = file.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        entry = json.loads(data[8:8 + size]).get(name)
        if entry:
            first, end = entry["data_offsets"]
            return data[8 + size + first:8 + size + end]
    raise AssertionError(f"{folder} has no {name}")


def from_bf16(data):
    return array.array("f", b"".join(b"\0\0" + data[i:i + 2] for i in range(0, len(data), 2)))


def test_rounding_is_all_that_is_lost():
    """A weight moves by half a step of its group at most; by one more at the far end, since zero and the other end are
    met exactly; and by what rounding scale and bias to bf16 adds. Evenly spread, half a step is 0.29 root mean square.
    """
    source = make_checkpoint("normal", make=normal)
    for bits in (4, 8):
        pack = convert(source, "--bits", str(bits))
        weights = from_bf16(read_tensor(source, "model.language_model.layers.1.self_attn.k_proj.weight"))
        module = "language_model.model.layers.1.self_attn.k_proj."
        scales, biases = (from_bf16(read_tensor(pack, module + what)) for what in ("scales", "biases"))
        packed = read_tensor(pack, module + "weight")
        codes = packed if bits == 8 else [code for byte in packed for code in (byte & 15, byte >> 4)]
        most, squares = 1.5 + 1.5 * 2**bits / 512, 0
        expect(len(codes) == len(weights) == 64 * len(scales), len(codes), len(weights))
        for group in range(len(scales)):
            span = slice(64 * group, 64 * group + 64)
            step = (max(weights[span]) - min(weights[span])) / (2**bits - 1)
            off = [(w - scales[group] * c - biases[group]) / step for w, c in zip(weights[span], codes[span])]
            expect(max(map(abs, off)) < most, bits, group, "off by", max(map(abs, off)), "steps")
            squares += sum(x * x for x in off)
        expect(math.sqrt(squares / len(weights)) < 0.4, bits, math.sqrt(squares / len(weights)))


def test_the_pack_runs_with_its_head():
    pack = convert(make_checkpoint("whole", others=VISION))
    alone, drafted = (generate(pack, "--draft", mode, "--max-draft", "3") for mode in ("off", "mtp"))
    expect(alone["tokens"] == drafted["tokens"] and alone["completion_tokens"] == 24, alone, drafted)
    expect(drafted["speculation"]["by_drafter"]["mtp"]["proposed"] > 0, drafted)
    settings = json.loads((pack / "config.json").read_text())["quantization"]
    expect(settings["bits"] == 4 and settings["language_model.model.layers.0.mlp.gate"]["bits"] == 8, settings)
    names = json.loads((pack / "model.safetensors.index.json").read_text())["weight_map"]
    expect("language_model.mtp.fc.weight" in names and "language_model.mtp.fc.scales" not in names, "fc is not bf16")
    expect(not any("visual" in name for name in names), "the vision tower is in the pack")


def test_what_cannot_be_converted_is_said():
    pack = convert(make_checkpoint("again"))
    other = make_checkpoint("other")
    (other / "config.json").write_text('{"model_type": "llama"}')
    bare = FOLDER / "bare"
    bare.mkdir()
    for folder, words in ((pack, "quantised already"), (other, "llama"), (bare, "no safetensors"),
                          (FOLDER / "nowhere", "nowhere")):
        done = call_converter(folder, FOLDER / "never")
        expect(done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr, folder, done)
    expect(not (FOLDER / "never").exists(), "something was written")
    source = make_checkpoint("onto-itself")
    done = call_converter(source, source)
    expect(done.returncode == 1 and (source / "config.json").exists() and "Traceback" not in done.stderr, done)


def test_help():
    done = subprocess.run([PYTHON, CONVERT, "--help"], capture_output=True, text=True, timeout=60)
    for word in ("--bits", "--shard-bytes", "Hugging Face", "mlx-lm", "numpy"):
        expect(word in done.stdout, word, "is not in the help")


def python_with_numpy():
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
            return python
    return None


def main():
    global BINARY, GREEDY_TOKENS, PYTHON, FOLDER
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    options = parser.parse_args()
    BINARY = Path(options.binary).resolve()
    GREEDY_TOKENS, PYTHON = BINARY.parent / "tests/greedy_tokens", python_with_numpy()
    if not PYTHON:
        chosen = [name for name in globals() if name.startswith("test_") and options.only in name]
        print("numpy is missing: scripts/setup --dev installs python3-numpy")
        print(f"0 passed, 0 failed, {len(chosen)} skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        FOLDER = Path(folder)
        return run_tests(globals(), options)


if __name__ == "__main__":
    sys.exit(main())
