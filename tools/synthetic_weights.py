"""Random weights in the formats of checkpoints, straight as bytes: no array of numbers is ever made.

A value is drawn from a table of 256: a random byte picks the entry, and every byte of the entry's encoding is one
bytes.translate. So a tensor costs little more than its random bytes, and needs the memory of one chunk.
"""
import math
import random
import struct

CHUNK = 1 << 22  # values, or inputs of a matrix, made at once


def bf16(value):
    return struct.pack("<f", value)[2:]


def f16(value):
    return struct.pack("<e", value)


def f32(value):
    return struct.pack("<f", value)


ENCODINGS = {"bf16": bf16, "f16": f16, "f32": f32}


def normal_values(std, mean=0.0):
    """256 equally likely values of a normal distribution."""
    values, step = [], 1e-3
    x, area = -6.0, 0.0
    while len(values) < 256 and x < 6:
        x += step
        area += step * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        if area >= (len(values) + 0.5) / 256:
            values.append(mean + std * x)
    return values + [values[-1]] * (256 - len(values))


def even_values(low, high, transform=lambda x: x):
    return [transform(low + (high - low) * (i + 0.5) / 256) for i in range(256)]


def encode(picks, values, encoding):
    """picks: random bytes. The bytes of as many values."""
    codes = [ENCODINGS[encoding](value) for value in values]
    width = len(codes[0])
    out = bytearray(len(picks) * width)
    for byte in range(width):
        out[byte::width] = picks.translate(bytes(code[byte] for code in codes))
    return out


def pieces(count, chunk):
    return (min(chunk, count - first) for first in range(0, count, chunk))


def plain(seed, count, values, encoding):
    """Chunks of `count` values from the table."""
    stream = random.Random(seed)
    for n in pieces(count, CHUNK):
        yield encode(stream.randbytes(n), values, encoding)


def exact_scales(typical):
    """Scales around `typical` whose products with 15/2 are exact in bf16 and f16: 8 steps of one octave."""
    octave = 2.0 ** math.floor(math.log2(typical / 1.5))
    return [octave * (1 + (i % 8) / 8) for i in range(256)]


# ---- MLX affine: codes, scales and biases are three tensors ----

def affine_codes(seed, count, bits):
    stream = random.Random(seed)
    for n in pieces(count, CHUNK):
        yield stream.randbytes(n * bits // 8)


def affine_groups(seed, groups, bits, std, what):
    """what: "scales" or "biases"; the two of one seed fit together, so that the codes' mean stands for 0."""
    levels = 2 ** bits
    scales = exact_scales(std / math.sqrt((levels * levels - 1) / 12))
    values = scales if what == "scales" else [-scale * (levels - 1) / 2 for scale in scales]
    return plain(seed + "/groups", groups, values, "bf16")


# ---- GGUF blocks: codes and scales side by side ----

CODES_STD = math.sqrt(255 / 12)  # of a code of 4 bits


def q4_0(stream, blocks, std):
    out = bytearray(stream.randbytes(blocks * 18))
    scales = encode(stream.randbytes(blocks), exact_scales(std / CODES_STD), "f16")
    for byte in range(2):
        out[byte::18] = scales[byte::2]
    return out


def q4_1(stream, blocks, std):
    out = bytearray(stream.randbytes(blocks * 20))
    scales = exact_scales(std / CODES_STD)
    picks = stream.randbytes(blocks)
    scale, least = encode(picks, scales, "f16"), encode(picks, [-7.5 * s for s in scales], "f16")
    for byte in range(2):
        out[byte::20] = scale[byte::2]
        out[2 + byte::20] = least[byte::2]
    return out


def q4_k(stream, blocks, std):
    """Sub-block scales s are 32 to 63, and so are the minima: w = d s q - 7.5 d s."""
    out = bytearray(stream.randbytes(blocks * 144))
    d = exact_scales(std / CODES_STD / 47.5)[0] * 1.5
    for byte, value in enumerate(f16(d) + f16(7.5 * d)):
        out[byte::144] = bytes([value]) * blocks
    for j in range(4):
        # Bits 0-5: sub-block j; bits 6-7: the upper two of sub-block j + 4, whose lower four stand in byte j + 8.
        upper = stream.randbytes(blocks).translate(bytes((32 | r & 31) | (2 | r >> 5 & 1) << 6 for r in range(256)))
        lower = stream.randbytes(blocks).translate(bytes((r & 15) * 17 for r in range(256)))
        out[4 + j::144] = upper
        out[8 + j::144] = upper
        out[12 + j::144] = lower
    return out


# name: ggml type, values a block, bytes a block, maker
BLOCKS = {"q4_0": (2, 32, 18, q4_0), "q4_1": (3, 32, 20, q4_1), "q4_k": (12, 256, 144, q4_k)}


def blocks(seed, count, name, std):
    _, size, _, make = BLOCKS[name]
    stream = random.Random(seed)
    for n in pieces(count // size, CHUNK // size):
        yield make(stream, n, std)
