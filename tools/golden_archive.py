"""What the scripts that make golden logits share: one tar file with a folder for each model."""

import argparse
import pathlib
import tarfile
import tempfile

import torch

FILES = ("config.json", "model.safetensors", "golden.json", "logits.bin")


def main(description, file_name, models, golden):
    """Writes OUT/file_name. models() yields (name, model); golden(model, folder, seed) writes FILES into the folder.
    The same weights and bytes at every call: seeds, threads, owners and times are fixed."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    archive_path = out / file_name
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(archive_path, "w") as archive:
        for index, (name, model) in enumerate(models()):
            folder = pathlib.Path(scratch) / name
            folder.mkdir()
            golden(model, folder, seed=index + 1)
            for file in FILES:
                entry = archive.gettarinfo(folder / file, f"{name}/{file}")
                entry.uid = entry.gid = entry.mtime = 0
                entry.uname = entry.gname = ""
                with open(folder / file, "rb") as source:
                    archive.addfile(entry, source)
    print(f"{archive_path}: {archive_path.stat().st_size} bytes")
