"""The Python source that the demo model learns from: permissively licensed packages, fetched by pip as wheels.

Each wheel's own metadata must name a licence of ALLOWED, or the wheel is refused. What is kept is one archive of the
wheels' .py files; the archive is never committed.
"""

import email
import io
import json
import re
import subprocess
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path

# What the metadata says, in lower case, and the licence it means. Longer names stand before those they contain.
ALLOWED = {
    "mit": "MIT",
    "mit license": "MIT",
    "the mit license": "MIT",
    "mit-0": "MIT-0",
    "expat license": "MIT",
    "mit license (mit)": "MIT",
    "the mit license (mit)": "MIT",
    "mit license (expat)": "MIT",
    "mit and python-2.0": "MIT AND Python-2.0",
    "mit and psf-2.0": "MIT AND PSF-2.0",
    "isc": "ISC",
    "isc license": "ISC",
    "bsd": "BSD",
    "bsd license": "BSD",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "bsd 3-clause": "BSD-3-Clause",
    "bsd 3-clause license": "BSD-3-Clause",
    "bsd-3-clause license": "BSD-3-Clause",
    "3-clause bsd": "BSD-3-Clause",
    "new bsd": "BSD-3-Clause",
    "new bsd license": "BSD-3-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "modified bsd license": "BSD-3-Clause",
    "bsd-like": "BSD",
    "apache": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "apache 2.0": "Apache-2.0",
    "apache 2": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache2": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "apache license": "Apache-2.0",
    "apache-2.0 license": "Apache-2.0",
    "apache license version 2.0": "Apache-2.0",
    "apache software license 2.0": "Apache-2.0",
    "apache v2": "Apache-2.0",
    "apache-2.0 or bsd-3-clause": "Apache-2.0 OR BSD-3-Clause",
    "mit or apache-2.0": "MIT OR Apache-2.0",
    "apache-2.0 and mit": "Apache-2.0 AND MIT",
    "apache-2.0 or mit": "Apache-2.0 OR MIT",
    "mit and apache-2.0": "MIT AND Apache-2.0",
    "bsd-3-clause and mit": "BSD-3-Clause AND MIT",
    "apache-2.0 and bsd-3-clause": "Apache-2.0 AND BSD-3-Clause",
    "python software foundation license": "PSF",
    "psf": "PSF",
    "psf-2.0": "PSF-2.0",
    "python-2.0": "Python-2.0",
}

PACKAGES = """
accelerate aiohttp alembic altair anyio apache-airflow apache-airflow-core apache-beam arviz asgiref astropy attrs
autobahn awscli babel beautifulsoup4 black bokeh bottle botocore cattrs celery channels cirq-core click cloudpickle
coverage cryptography cvxpy dagster dask datasets diffusers distributed django django-cms django-debug-toolbar
django-extensions django-filter django-oscar djangorestframework elasticsearch fabric fastapi flask flask-admin
flask-appbuilder flax fonttools fsspec geopandas google-api-core gradio great-expectations gunicorn holoviews
homeassistant httpcore httpx hyperopt imageio ipykernel ipython itemadapter ivy jax jedi jinja2 joblib jsonschema
jupyter-client jupyter-server jupyterlab keras kivy kombu langchain langchain-core langgraph lightning litestar
llama-index-core locust luigi manim markdown markdown-it-py marshmallow matplotlib mitmproxy mkdocs mlflow mne mypy
nbconvert nbformat netaddr networkx nilearn nltk notebook numba numpyro oauthlib onnx openpyxl optax optuna pandas
pandera parso passlib peft pip poetry prefect prompt-toolkit psutil pydantic pydata-sphinx-theme pygments pymc pymongo
pyomo pyparsing pypdf pytest pytest-asyncio pytorch-lightning qiskit questionary rasterio redis reportlab requests
rich robotframework ruamel.yaml sagemaker sanic schematics scikit-image scikit-learn scikit-optimize scipy scrapy
seaborn sentence-transformers sentry-sdk setuptools shapely simpy spacy sphinx sqlalchemy sqlfluff sqlglot sqlmodel
starlette statsmodels streamlit sympy tabulate tensorboard textual tifffile timm torchmetrics torchvision tornado
tortoise-orm traitlets trio trl twisted typer urllib3 uvicorn virtualenv voluptuous wagtail wandb watchdog websockets
werkzeug wheel wtforms xarray yarl yfinance zarr zeep
""".split()


def metadata_of(wheel):
    names = [name for name in wheel.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
    return email.message_from_bytes(wheel.read(names[0]))


def licence_of(metadata):
    """The allowed licence that the metadata names, or None. An expression counts alone; else the classifiers, all of
    which must be allowed; else the free text."""
    expression = metadata.get("License-Expression")
    if expression:
        return ALLOWED.get(expression.strip().lower())
    classifiers = [
        text.split(" :: ")[-1] for text in metadata.get_all("Classifier", []) if text.startswith("License ::")
    ]
    classifiers = [text for text in classifiers if text != "OSI Approved"]
    if classifiers:
        found = [ALLOWED.get(text.lower()) for text in classifiers]
        return None if None in found else " OR ".join(sorted(set(found)))
    return ALLOWED.get((metadata.get("License") or "").strip().lower())


def download(folder, names=PACKAGES):
    """Fetches the wheels that are missing in the folder. A package without a wheel is named and left out."""
    folder.mkdir(parents=True, exist_ok=True)
    have = {plain(path.name.split("-")[0]) for path in folder.glob("*.whl")}
    for name in names:
        if plain(name) in have:
            continue
        result = subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "download",
                "-q",
                "--no-deps",
                "--only-binary",
                ":all:",
                "-d",
                str(folder),
                name,
            ],
            capture_output=True,
            text=True,
        )
        print(
            name, "ok" if result.returncode == 0 else f"left out: {result.stderr.strip().splitlines()[-1:]}", flush=True
        )


def python_files(path):
    """(name, text as bytes) of a wheel's source files that are not data in disguise, in an order that mixes folders."""
    with zipfile.ZipFile(path) as wheel:
        for info in sorted(wheel.infolist(), key=lambda info: zlib.crc32(info.filename.encode())):
            if info.filename.endswith(".py") and 200 <= info.file_size <= 150_000:
                yield info.filename, wheel.read(info)


def pack(folder, archive, most_bytes_each=2_000_000):
    """One .tar.xz with all source, PACKAGE/PATH, and sources.json: version, licence and size of each package.

    No package gives more than most_bytes_each, so that no project's habits outweigh the others'."""
    table = {}
    with tarfile.open(archive, "w:xz", preset=2) as out:
        for path in sorted(folder.glob("*.whl")):
            if not listed(path):
                continue
            with zipfile.ZipFile(path) as wheel:
                metadata = metadata_of(wheel)
            name, licence = metadata["Name"], licence_of(metadata)
            if licence is None:
                print(
                    f"{name}: refused, its licence is {metadata.get('License-Expression') or metadata.get('License')!r}"[
                        :160
                    ]
                )
                continue
            total = 0
            for file, text in python_files(path):
                if total + len(text) > most_bytes_each:
                    break
                total += len(text)
                add(out, f"{name}/{file}", text)
            table[name] = {"version": metadata["Version"], "licence": licence, "bytes": total}
        add(out, "sources.json", json.dumps(table, indent=1).encode())
    return table


def listed(path):
    return plain(path.name.split("-")[0]) in {plain(name) for name in PACKAGES}


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def add(archive, name, data):
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def main():
    """python3 -m demo_model.sources FOLDER ARCHIVE"""
    folder, archive = Path(sys.argv[1]), Path(sys.argv[2])
    download(folder)
    table = pack(folder, archive)
    print(
        f"{len(table)} packages, {sum(row['bytes'] for row in table.values()) / 1e6:.0f} MB, archive "
        f"{archive.stat().st_size / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    main()
