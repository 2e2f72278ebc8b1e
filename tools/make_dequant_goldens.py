#!/usr/bin/env python3
"""Makes the golden tables of tests/weights/dequantise_golden_test.cc.

    pip install gguf 'mlx[cpu]' numpy
    python3 tools/make_dequant_goldens.py tests/data/dequant

Writes two safetensors files of random stored bytes and of the values that the format's own package gives them:

    gguf.safetensors   TYPE.blocks u8 [rows, bytes], TYPE.values u32 [rows, columns]: fp32 bits by gguf.dequantize
    mlx.safetensors    CASE.weight u32, CASE.scales, CASE.biases, CASE.values: fp32 bits by mlx.core.dequantize, from
                       scales cast to fp32 first; CASE is affine_BITS_GROUP_DTYPE, mxfp4, mxfp8 or nvfp4

Block scales are finite, of both signs, and some are zero or subnormal; everything else is uniformly random.
"""

import argparse
import json
import pathlib
import struct

import gguf
import mlx.core as mx
import numpy as np

# Offsets of the f16 fields of a block; the bytes of other fields may take any value.
F16_FIELDS = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
              "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": []}
DTYPES = {"bf16": mx.bfloat16, "f16": mx.float16, "f32": mx.float32}


def write_safetensors(path, tensors):
    """tensors: name -> (dtype name, array)."""
    header, data = {}, b""
    for name, (dtype, array) in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def random_f16(rng, count):
    """Finite scales: mostly of ordinary size, some zero, subnormal or large."""
    values = (rng.standard_normal(count) * np.exp(rng.uniform(-6, 2, count))).astype(np.float16)
    special = np.array([0, 0x8000, 1, 0x03FF, 0x0400, 0x7BFF, 0xFBFF], dtype=np.uint16).view(np.float16)
    chosen = rng.random(count) < 0.1
    return np.where(chosen, special[rng.integers(0, len(special), count)], values)


def gguf_tables(rng):
    tensors = {}
    for name, offsets in F16_FIELDS.items():
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        rows, per_row = (3, 2) if elements == 256 else (3, 4)
        blocks = rng.integers(0, 256, (rows * per_row, size), dtype=np.uint8)
        for offset in offsets:
            blocks[:, offset:offset + 2] = random_f16(rng, len(blocks)).view(np.uint8).reshape(-1, 2)
        if name == "MXFP4":
            blocks[:, 0] = rng.integers(0, 252, len(blocks))
            blocks[:3, 0] = (0, 1, 2)
        blocks = blocks.reshape(rows, -1)
        values = gguf.dequantize(blocks, kind).astype(np.float32)
        assert np.isfinite(values).all(), name
        tensors[f"{name.lower()}.blocks"] = ("U8", blocks)
        tensors[f"{name.lower()}.values"] = ("U32", values.view(np.uint32))
    return tensors


def stored(array, dtype):
    """(safetensors dtype, raw bits) of an MLX array of scales."""
    if dtype == "bf16":
        return "BF16", np.array(array.view(mx.uint16))
    return {"f16": "F16", "f32": "F32"}[dtype], np.array(array)


def affine_case(rng, tensors, bits, group, dtype):
    rows, columns = 2, 128
    name = f"affine_{bits}_{group}_{dtype}"
    weight = rng.integers(0, 2**32, (rows, columns * bits // 32), dtype=np.uint32)
    shape = (rows, columns // group)
    scales = mx.array(rng.standard_normal(shape).astype(np.float32)).astype(DTYPES[dtype])
    biases = mx.array(rng.standard_normal(shape).astype(np.float32) * 3).astype(DTYPES[dtype])
    values = mx.dequantize(mx.array(weight), scales.astype(mx.float32), biases.astype(mx.float32), group_size=group,
                           bits=bits)
    assert values.dtype == mx.float32
    tensors[f"{name}.weight"] = ("U32", weight)
    tensors[f"{name}.scales"] = stored(scales, dtype)
    tensors[f"{name}.biases"] = stored(biases, dtype)
    tensors[f"{name}.values"] = ("U32", np.array(values).view(np.uint32))


def float_case(rng, tensors, mode, bits, group):
    rows, columns = 4, 128
    elements = rng.integers(0, 256, (rows, columns * bits // 8), dtype=np.uint8)
    if bits == 8:
        elements[(elements & 0x7F) == 0x7F] ^= 1  # no NaN
    scales = rng.integers(90, 160, (rows, columns // group), dtype=np.uint8)
    if mode == "nvfp4":
        scales = rng.integers(0, 0x7F, (rows, columns // group), dtype=np.uint8)
    weight = elements.view(np.uint32)
    values = mx.dequantize(mx.array(weight), mx.array(scales), None, group_size=group, bits=bits, mode=mode,
                           dtype=mx.float32)
    values = np.array(values)
    assert np.isfinite(values).all(), mode
    tensors[f"{mode}.weight"] = ("U32", weight)
    tensors[f"{mode}.scales"] = ("U8", scales)
    tensors[f"{mode}.values"] = ("U32", values.view(np.uint32))


def mlx_tables(rng):
    tensors = {}
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            affine_case(rng, tensors, bits, group, "bf16")
    for dtype in ("f16", "f32"):
        affine_case(rng, tensors, 4, 64, dtype)
        affine_case(rng, tensors, 8, 32, dtype)
    for mode, bits, group in (("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)):
        float_case(rng, tensors, mode, bits, group)
    return tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    write_safetensors(out / "gguf.safetensors", gguf_tables(np.random.default_rng(1)))
    write_safetensors(out / "mlx.safetensors", mlx_tables(np.random.default_rng(2)))


if __name__ == "__main__":
    main()
