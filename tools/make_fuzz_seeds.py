#!/usr/bin/env python3
"""Writes small sound inputs for the fuzz targets of the weight readers.

    python3 tools/make_fuzz_seeds.py tests/fuzz/seeds
"""

import json
import pathlib
import struct
import sys

# GGML type -> (elements, bytes) of a block.
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84),
          11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 20: (32, 18), 23: (256, 136), 24: (1, 1),
          30: (1, 2), 39: (32, 17)}


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(version, entries, tensors):
    """entries: (key, type and value bytes); tensors: (name, type, sizes from the contiguous one outwards)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries))
    head += b"".join(text(key) + value for key, value in entries)
    data = b""
    for name, kind, sizes in tensors:
        data += b"\0" * (-len(data) % 32)
        elements, size = BLOCKS[kind]
        count = 1
        for n in sizes:
            count *= n
        head += text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, len(data))
        data += bytes(i * 37 % 256 for i in range(count // elements * size))
    return head + b"\0" * (-len(head) % 32) + data


def every_value():
    pack = struct.pack
    return [("u8", pack("<IB", 0, 1)), ("i8", pack("<Ib", 1, -1)), ("u16", pack("<IH", 2, 1)), ("i16", pack("<Ih", 3, -1)),
            ("u32", pack("<II", 4, 1)), ("i32", pack("<Ii", 5, -1)), ("f32", pack("<If", 6, 1)), ("flag", pack("<IB", 7, 1)),
            ("text", pack("<I", 8) + text("x")), ("u64", pack("<IQ", 10, 1)), ("i64", pack("<Iq", 11, -1)),
            ("f64", pack("<Id", 12, 1)), ("ints", pack("<IIQ2i", 9, 5, 2, 1, 2)), ("floats", pack("<IIQ2f", 9, 6, 2, 1, 2)),
            ("flags", pack("<IIQ2B", 9, 7, 2, 0, 1)), ("texts", pack("<IIQ", 9, 8, 2) + text("a") + text("bc")),
            ("general.alignment", pack("<II", 4, 32))]


def safetensors(tensors, config):
    """tensors: (name, dtype, shape, bytes). The fuzz target takes the config from the end; byte 0 is its length."""
    header, data = {}, b""
    for name, dtype, shape, size in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += bytes(i * 29 % 256 for i in range(size))
    head, tail = json.dumps(header).encode(), json.dumps(config).encode() if config else b""
    return bytes([len(tail)]) + struct.pack("<Q", len(head)) + head + data + tail


def main():
    out = pathlib.Path(sys.argv[1])
    small = [("a", 0, (4, 2)), ("b", 2, (32, 3))]
    blocks = [(f"t{kind}", kind, (elements, 2)) for kind, (elements, _) in BLOCKS.items()]
    affine = [("m.weight", "U32", [2, 8], 64), ("m.scales", "BF16", [2, 1], 4), ("m.biases", "BF16", [2, 1], 4)]
    nvfp4 = [("m.weight", "U32", [2, 4], 32), ("m.scales", "U8", [2, 2], 4)]
    plain = [("a", "F32", [2], 8), ("b", "BF16", [], 2), ("c", "F8_E4M3", [3], 3), ("d", "I64", [0, 4], 0)]
    seeds = {
        "fuzz_gguf/small": gguf(3, [], small), "fuzz_gguf/values": gguf(2, every_value(), small),
        "fuzz_gguf/blocks": gguf(3, [], blocks),
        "fuzz_safetensors/plain": safetensors(plain, None),
        "fuzz_safetensors/affine": safetensors(affine, {"quantization": {"bits": 4, "group_size": 64}}),
        "fuzz_safetensors/override": safetensors(affine, {"quantization": {"m": {"bits": 4, "group_size": 64}}}),
        "fuzz_safetensors/nvfp4": safetensors(nvfp4, {"quantization_config": {"mode": "nvfp4"}}),
    }
    for name, content in seeds.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
