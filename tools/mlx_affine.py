"""MLX's affine quantisation of matrices, and which tensors of the Qwen3.5 family a pack keeps in how many bits.

A group of `group` neighbours of a row is scale * code + bias, code of 0 to 2^bits - 1; scales and biases are bf16.
Of the group's two ends the one farther from zero, and zero itself, are met exactly. Codes lie in a row as one stream
of bits, the lowest first.
"""

import re

import numpy as np

FINE_BITS = 8  # of routers and the shared experts' gates
FINE = re.compile(r"mlp\.gate\.weight$|shared_expert_gate\.weight$")
WHOLE = re.compile(r"norm|conv1d|A_log|dt_bias|(^|\.)mtp\.fc\.")  # never quantised


def bits_of(name, shape, bits):
    """The bits of a tensor of a Hugging Face checkpoint, or None if it stays as it is."""
    if len(shape) < 2 or WHOLE.search(name):
        return None
    return FINE_BITS if FINE.search(name) else bits


def to_bf16(values):
    """float32 rounded to the nearest bf16, ties to even; as uint16."""
    raw = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((raw + 0x7FFF + ((raw >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(raw):
    return (raw.astype(np.uint32) << 16).view(np.float32)


def quantise(values, bits, group):
    """values [.., inputs] -> codes uint8 [.., inputs], scales and biases uint16 (bf16) [.., inputs / group]."""
    if values.shape[-1] % group:
        raise ValueError(f"rows of {values.shape[-1]} do not divide into groups of {group}")
    grouped = np.ascontiguousarray(values, np.float32).reshape(*values.shape[:-1], -1, group)
    low, high, top = grouped.min(-1), grouped.max(-1), np.float32(2**bits - 1)
    lower = np.abs(low) > np.abs(high)
    scale = np.maximum((high - low) / top, np.float32(1e-7))
    scale = np.where(lower, scale, -scale)
    edge = np.where(lower, low, high)
    steps = np.round(edge / scale)
    scale = np.where(steps != 0, edge / np.where(steps != 0, steps, 1), scale)
    bias = np.where(steps != 0, edge, 0)
    codes = np.clip(np.round((grouped - bias[..., None]) / scale[..., None]), 0, top).astype(np.uint8)
    return codes.reshape(values.shape), to_bf16(scale), to_bf16(bias)


def dequantise(codes, scales, biases, group):
    grouped = codes.reshape(*codes.shape[:-1], -1, group).astype(np.float32)
    return (from_bf16(scales)[..., None] * grouped + from_bf16(biases)[..., None]).reshape(codes.shape)


def rounded(values, bits, group):
    """The values that the pack holds."""
    return dequantise(*quantise(values, bits, group), group)


def packed(codes, bits):
    """uint32 [.., inputs * bits / 32]; bits 2, 4 or 8."""
    each = 8 // bits
    parts = codes.reshape(*codes.shape[:-1], -1, each)
    data = np.zeros(parts.shape[:-1], np.uint8)
    for i in range(each):
        data |= parts[..., i] << (i * bits)
    return data.view(np.uint32)
