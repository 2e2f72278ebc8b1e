"""Writes folders of safetensors shards with their index."""

import json
import struct
from dataclasses import dataclass


@dataclass(frozen=True)
class Stored:
    """A tensor of a file. type: as safetensors name it. chunks(): its bytes."""

    name: str
    type: object
    shape: tuple
    bytes: int
    chunks: object


def write_safetensors(path, stored):
    header, offset = {"__metadata__": {"format": "mlx"}}, 0
    for tensor in stored:
        header[tensor.name] = {
            "dtype": tensor.type,
            "shape": tensor.shape,
            "data_offsets": [offset, offset + tensor.bytes],
        }
        offset += tensor.bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in stored:
            for chunk in tensor.chunks():
                file.write(chunk)
    if path.stat().st_size != 8 + len(text) + offset:
        raise AssertionError(f"{path}: the tensors' sizes do not add up")


def write_shards(folder, groups, most_bytes):
    """groups: lists of Stored that stay in one file, in order. A file's tensors have at most most_bytes, or are one
    group."""
    shards, used = [[]], 0
    for parts in groups:
        total = sum(part.bytes for part in parts)
        if shards[-1] and used + total > most_bytes:
            shards.append([])
            used = 0
        shards[-1] += parts
        used += total
    names = [f"model-{i + 1:05}-of-{len(shards):05}.safetensors" for i in range(len(shards))]
    for name, stored in zip(names, shards):
        write_safetensors(folder / name, stored)
    index = {
        "metadata": {"total_size": sum(part.bytes for stored in shards for part in stored)},
        "weight_map": {part.name: name for name, stored in zip(names, shards) for part in stored},
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")


def byte_count(text):
    units = {"K": 10**3, "M": 10**6, "G": 10**9}
    factor = units.get(text[-1:].upper(), 1)
    return int(float(text[:-1] if factor > 1 else text) * factor)
