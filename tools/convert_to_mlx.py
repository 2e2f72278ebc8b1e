#!/usr/bin/env python3
"""Makes a small, fast pack of a Qwen3.5, 3.6 or 3.8 checkpoint: from the Hugging Face layout to MLX's, affine 4 or 8
bits.

    python3 tools/convert_to_mlx.py Qwen3.5-9B Qwen3.5-9B-4bit
    build/drafthorse run -m Qwen3.5-9B-4bit

The source is a folder with config.json (model_type qwen3_5 or qwen3_5_moe), safetensors files of BF16, F16 or F32, and
the tokenizer's files, as `huggingface-cli download` or `drafthorse pull` leave it. The pack is a new folder with the
same files, the weights in shards. 4 bits take about 4.5 bits a weight, 8 bits about 8.5.

What is kept how: matrices, the embedding too, are quantised in groups of 64; routers and the shared experts' gates
always in 8 bits; the drafting (MTP) head like the trunk except its fc, which stays BF16; the decay A_log stays F32,
norms and everything else BF16. A vision tower is left out, with a line that says so. Norms and experts are laid out as
mlx-lm wants them: it loads the pack too, without the drafting head, which it does not know.

Needs numpy (pip install numpy, or the system's python3-numpy) and the memory of one tensor as float32.
"""

import argparse
import json
import re
import shutil
import struct
import sys
from pathlib import Path

try:
    import numpy as np

    import mlx_affine
except ImportError:
    np = None
from shards import Stored, byte_count, write_shards

GROUP = 64
TYPES = {"BF16": "<u2", "F16": "<f2", "F32": "<f4"}
FOLDED = re.compile(
    r"(input_layernorm|post_attention_layernorm|q_norm|k_norm|model\.norm|mtp\.norm|pre_fc_norm_embedding|"
    r"pre_fc_norm_hidden)\.weight$"
)
COPIED = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
    "vocab.json",
    "merges.txt",
    "special_tokens_map.json",
)


class Unsuitable(Exception):
    pass


class Checkpoint:
    """The tensors of a folder's safetensors files, read when asked for."""

    def __init__(self, folder):
        self.entries = {}
        if not folder.is_dir():
            raise Unsuitable(f"{folder} is no folder")
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise Unsuitable(f"{folder} has no safetensors files")
        for path in files:
            with open(path, "rb") as file:
                size = struct.unpack("<Q", file.read(8))[0]
                header = json.loads(file.read(size))
            for name, entry in header.items():
                if name != "__metadata__":
                    self.entries[name] = (path, entry, 8 + size)

    def shape(self, name):
        return tuple(self.entries[name][1]["shape"])

    def values(self, name):
        """As float32."""
        path, entry, data = self.entries[name]
        if entry["dtype"] not in TYPES:
            raise Unsuitable(f"{name} is of type {entry['dtype']}; only BF16, F16 and F32 checkpoints can be converted")
        first, end = entry["data_offsets"]
        raw = np.fromfile(path, np.uint8, end - first, offset=data + first).view(TYPES[entry["dtype"]])
        values = mlx_affine.from_bf16(raw) if raw.dtype == np.uint16 else raw.astype(np.float32)
        return values.reshape(entry["shape"])


def pack_name(name):
    """The pack's name of a Hugging Face name, or None for a tensor of the vision tower."""
    if name.startswith(("model.visual.", "visual.", "vision_tower.")):
        return None
    name = name.removeprefix("language_model.")
    name = name.replace("model.language_model.", "model.", 1)
    return "language_model." + name


def pieces(name, shape):
    """The pack's tensors of one of the checkpoint: (name, shape, function that makes them of its values)."""
    target = pack_name(name)
    if name.endswith("mlp.experts.gate_up_proj"):
        half, outer = shape[-2] // 2, target.replace("experts.gate_up_proj", "switch_mlp.")
        split = (*shape[:-2], half, shape[-1])
        return [
            (outer + "gate_proj.weight", split, lambda x: x[..., :half, :]),
            (outer + "up_proj.weight", split, lambda x: x[..., half:, :]),
        ]
    if name.endswith("mlp.experts.down_proj"):
        return [(target.replace("experts.down_proj", "switch_mlp.down_proj.weight"), shape, lambda x: x)]
    if name.endswith("conv1d.weight"):
        return [(target, (shape[0], shape[2], shape[1]), lambda x: x.transpose(0, 2, 1))]
    if FOLDED.search(name):
        return [(target, shape, lambda x: x + np.float32(1))]
    return [(target, shape, lambda x: x)]


class Converter:
    def __init__(self, checkpoint, bits):
        self.checkpoint, self.bits = checkpoint, bits
        self.last = (None, None)
        self.fine = []

    def quantised(self, name, target, make, bits):
        """(codes, scales, biases) as bytes; the last one is kept, since its three tensors are written one after
        another."""
        if self.last[0] != target:
            codes, scales, biases = mlx_affine.quantise(make(self.checkpoint.values(name)), bits, GROUP)
            self.last = (target, (mlx_affine.packed(codes, bits).tobytes(), scales.tobytes(), biases.tobytes()))
        return self.last[1]

    def stored(self, name):
        """The pack's tensors of one of the checkpoint's, as lists that stay in one file."""
        groups = []
        for target, shape, make in pieces(name, self.checkpoint.shape(name)):
            bits = mlx_affine.bits_of(name, shape, self.bits)
            if bits is None:
                groups.append([self.plain(name, target, shape, make)])
                continue
            if shape[-1] % GROUP:
                raise Unsuitable(f"{name} has rows of {shape[-1]}, which do not divide into groups of {GROUP}")
            module = target.removesuffix(".weight")
            if bits != self.bits:
                self.fine.append(module)
            count, outer = int(np.prod(shape)), shape[:-1]
            sizes = (
                ("weight", "U32", shape[-1] * bits // 32, count * bits // 8),
                ("scales", "BF16", shape[-1] // GROUP, count // GROUP * 2),
                ("biases", "BF16", shape[-1] // GROUP, count // GROUP * 2),
            )
            groups.append(
                [
                    Stored(
                        f"{module}.{what}",
                        kind,
                        (*outer, width),
                        size,
                        lambda i=i, target=target, make=make, bits=bits: [self.quantised(name, target, make, bits)[i]],
                    )
                    for i, (what, kind, width, size) in enumerate(sizes)
                ]
            )
        return groups

    def plain(self, name, target, shape, make):
        whole = name.endswith("A_log")

        def chunks():
            values = np.ascontiguousarray(make(self.checkpoint.values(name)))
            return [(values if whole else mlx_affine.to_bf16(values)).tobytes()]

        return Stored(target, "F32" if whole else "BF16", shape, int(np.prod(shape)) * (4 if whole else 2), chunks)


def config_of(folder, bits, fine):
    """The pack's config.json: nested, as mlx-lm wants it, with the quantisation."""
    config = json.loads((folder / "config.json").read_text())
    if not config.get("model_type", "").startswith("qwen3_5"):
        raise Unsuitable(
            f"model_type is {config.get('model_type')!r}; only the Qwen3.5 family (qwen3_5, qwen3_5_moe) can be "
            "converted"
        )
    if "quantization" in config or "quantization_config" in config:
        raise Unsuitable("the checkpoint is quantised already")
    text = dict(config.get("text_config", config))
    text.pop("architectures", None)
    family = config["model_type"].removesuffix("_text")
    text["model_type"] = family + "_text"
    quantisation = {"group_size": GROUP, "bits": bits, "mode": "affine"}
    quantisation.update({module: {"group_size": GROUP, "bits": mlx_affine.FINE_BITS} for module in fine})
    tied = config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))
    text["tie_word_embeddings"] = tied
    result = {
        "architectures": [
            "Qwen3_5MoeForConditionalGeneration" if family.endswith("moe") else "Qwen3_5ForConditionalGeneration"
        ],
        "model_type": family,
        "text_config": text,
        "tie_word_embeddings": tied,
        "quantization": quantisation,
        "quantization_config": quantisation,
    }
    if "eos_token_id" in text:
        result["eos_token_id"] = text["eos_token_id"]
    return result


def convert(folder, out, bits, shard_bytes):
    checkpoint = Checkpoint(folder)
    if not (folder / "config.json").exists():
        raise Unsuitable(f"{folder} has no config.json")
    if out.exists() and any(out.iterdir()):
        raise Unsuitable(f"{out} is there already and not empty; name a new folder")
    config_of(folder, bits, [])  # refuses before anything is written
    converter = Converter(checkpoint, bits)
    tied = config_of(folder, bits, [])["tie_word_embeddings"]
    groups, left_out = [], 0
    for name in checkpoint.entries:
        if pack_name(name) is None or (tied and name == "lm_head.weight"):
            left_out += 1
        else:
            groups += converter.stored(name)
    out.mkdir(parents=True, exist_ok=True)
    write_shards(out, groups, shard_bytes)
    (out / "config.json").write_text(json.dumps(config_of(folder, bits, converter.fine), indent=1) + "\n")
    for name in COPIED:
        if (folder / name).exists():
            shutil.copyfile(folder / name, out / name)
    written = sum(path.stat().st_size for path in out.glob("*.safetensors"))
    print(f"{out}: {bits} bits, {written / 1e6:.1f} MB in {len(list(out.glob('*.safetensors')))} files")
    if left_out:
        print(f"left out: {left_out} tensors of the vision tower or of a tied output", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the Hugging Face checkpoint")
    parser.add_argument("out", type=Path, help="folder to write the pack to; it must not exist or be empty")
    parser.add_argument("--bits", type=int, choices=(4, 8), default=4, help="bits of a weight (default: 4)")
    parser.add_argument(
        "--shard-bytes",
        type=byte_count,
        default="5G",
        metavar="SIZE",
        help="most bytes of tensors in one file, such as 12M or 5G (default: 5G)",
    )
    options = parser.parse_args()
    try:
        if np is None:
            raise Unsuitable("numpy is missing: pip install numpy, or install python3-numpy")
        convert(options.folder, options.out, options.bits, options.shard_bytes)
    except Unsuitable as problem:
        print(f"convert_to_mlx: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
