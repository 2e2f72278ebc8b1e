#!/usr/bin/env python3
"""The template engine against jinja2 on random templates (tools/fuzz_jinja.py), the same ones every time.

Skipped where no Python here has jinja2. The last line is the count.
"""
import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SKIPPED = 77


def compare(renderer, cases):
    """Status and output with the first Python that has jinja2: this one, else the system's, for which it is packaged."""
    for python in (sys.executable, "/usr/bin/python3"):
        run = subprocess.run([python, ROOT / "tools/fuzz_jinja.py", "--renderer", renderer, "--cases", str(cases)],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode != SKIPPED:
            break
    return run.returncode, run.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, type=Path, help="drafthorse; the renderer is built beside it")
    parser.add_argument("--cases", type=int, default=2000)
    options = parser.parse_args()

    status, output = compare(options.binary.parent / "tests/render_template", options.cases)
    print(output, end="")
    counts = {"passed": status == 0, "failed": status not in (0, SKIPPED), "skipped": status == SKIPPED}
    print(", ".join(f"{int(number)} {what}" for what, number in counts.items()))
    return int(counts["failed"])


if __name__ == "__main__":
    sys.exit(main())
