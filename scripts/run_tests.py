#!/usr/bin/env python3
"""Runs the test programs of a build folder and the test scripts, and counts.

A test program is BUILD/tests/*_tests (GoogleTest). A test script is tests/**/*_test.py, or tests/layering/check.py; it
is called with `--binary BUILD/drafthorse` and its last line of output is "N passed, N failed[, N skipped]".
A program that dies, or a script without that line, is one failure. --quick leaves out the tests of test programs that
tests/slow_under_sanitisers.txt names.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


def count_gtest(report):
    """(passed, failed, skipped, names of the failed) of a GoogleTest JSON report."""
    passed, failed, skipped, names = 0, 0, 0, []
    for suite in report["testsuites"]:
        for test in suite["testsuite"]:
            if test.get("failures"):
                failed += 1
                names.append(f"{suite['name']}.{test['name']}")
            elif test.get("result") == "SKIPPED":
                skipped += 1
            elif test.get("status") == "RUN":
                passed += 1
    return passed, failed, skipped, names


def skip_reasons(log):
    """{reason: number of tests}: GoogleTest prints the reason on the line after "FILE:LINE: Skipped"."""
    lines = log.read_text(errors="replace").splitlines()
    reasons = {}
    for line, following in zip(lines, lines[1:]):
        if re.search(r":\d+: Skipped$", line):
            reasons[following.strip()] = reasons.get(following.strip(), 0) + 1
    return reasons


def run(command, log, seconds):
    """Exit status (-1: ran past its time); everything the command printed is in `log`."""
    with open(log, "wb") as output:
        try:
            return subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                  cwd=ROOT, env={**os.environ, **SANITIZERS}, timeout=seconds).returncode
        except subprocess.TimeoutExpired:
            output.write(f"\nstopped after {seconds} s\n".encode())
            return -1


def what_failed(log, names):
    """The lines of a log worth printing: those of the failed GoogleTest tests, or its end."""
    lines = log.read_text(errors="replace").splitlines()
    shown = []
    for name in names:
        starts = [i for i, line in enumerate(lines) if re.fullmatch(r"\[ RUN +\] " + re.escape(name), line)]
        if not starts:
            continue
        ends = [i for i in range(starts[0], len(lines)) if lines[i].startswith("[  FAILED  ]")]
        test = lines[starts[0]:ends[0] + 1] if ends else lines[starts[0]:]
        shown += test if len(test) <= 80 else test[:60] + [f"... {len(test) - 80} lines ..."] + test[-20:]
    return shown or lines[-80:]


def slow_tests():
    """{program: GoogleTest patterns of what takes too long under sanitisers}."""
    found = {}
    for line in (ROOT / "tests/slow_under_sanitisers.txt").read_text().splitlines():
        if words := line.split("#")[0].split():
            program, pattern = words
            found.setdefault(program, []).append(pattern)
    return found


def run_program(program, results, seconds, left_out):
    report = results / f"{program.name}.json"
    report.unlink(missing_ok=True)
    command = [program, f"--gtest_output=json:{report}"]
    if left_out:
        command.append("--gtest_filter=-" + ":".join(left_out))
    status = run(command, results / f"{program.name}.log", seconds)
    try:
        passed, failed, skipped, names = count_gtest(json.loads(report.read_text()))
    except (OSError, ValueError, KeyError):
        return 0, 1, 0, [f"{program.name} died with status {status}"], {}
    if status != 0 and failed == 0:
        failed, names = 1, [f"{program.name} ended with status {status} though its tests passed"]
    return passed, failed, skipped, names, skip_reasons(results / f"{program.name}.log") if skipped else {}


def run_script(script, binary, results, seconds):
    name = str(script.relative_to(ROOT))
    log = results / (name.replace("/", "_") + ".log")
    status = run([sys.executable, script, "--binary", binary], log, seconds)
    lines = log.read_text(errors="replace").strip().splitlines()
    counts = COUNTS.match(lines[-1]) if lines else None
    if not counts:
        return 0, 1, 0, [f"{name} printed no count (status {status})"], {}
    passed, failed, skipped = (int(number or 0) for number in counts.groups())
    if status != 0 and failed == 0:
        return passed, 1, skipped, [f"{name} ended with status {status}"], {}
    reasons = {"see the script's log": skipped} if skipped else {}
    return passed, failed, skipped, [name] if failed else [], reasons


def find_scripts():
    return sorted((ROOT / "tests").glob("**/*_test.py")) + [ROOT / "tests/layering/check.py"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--programs", action="store_true", help="test programs only, no scripts")
    parser.add_argument("--quick", action="store_true", help="leave out what is slow under sanitisers")
    parser.add_argument("--only", default="", help="regular expression for names")
    parser.add_argument("--seconds", type=int, default=900, help="most seconds for one program or script")
    options = parser.parse_args()

    results = (ROOT / options.build).resolve() / "test-results"
    results.mkdir(parents=True, exist_ok=True)
    programs = sorted(p for p in (ROOT / options.build / "tests").glob("*_tests") if os.access(p, os.X_OK))
    slow = slow_tests() if options.quick else {}
    jobs = [(p.name, lambda p=p: run_program(p, results, options.seconds, slow.get(p.name, [])),
             results / f"{p.name}.log") for p in programs]
    if not options.programs:
        binary = str((ROOT / options.build / "drafthorse").resolve())
        for script in find_scripts():
            name = str(script.relative_to(ROOT))
            jobs.append((name, lambda s=script: run_script(s, binary, results, options.seconds),
                         results / (name.replace("/", "_") + ".log")))
    jobs = [job for job in jobs if re.search(options.only, job[0])]

    total = [0, 0, 0]
    for name, job, log in jobs:
        began = time.monotonic()
        passed, failed, skipped, names, reasons = job()
        note = f", {skipped} skipped" if skipped else ""
        print(f"{name}: {passed} passed, {failed} failed{note} ({time.monotonic() - began:.1f} s)", flush=True)
        for reason, number in sorted(reasons.items()):
            print(f"  skipped {number}: {reason}")
        for failure in names:
            print(f"  FAILED {failure}")
        if failed:
            print("\n".join("  | " + line for line in what_failed(log, names)), flush=True)
        total = [a + b for a, b in zip(total, (passed, failed, skipped))]
    if not jobs:
        print("no test program or script found")
        total[1] += 1
    print(f"{total[0]} passed, {total[1]} failed" + (f", {total[2]} skipped" if total[2] else ""))
    return 1 if total[1] else 0


if __name__ == "__main__":
    sys.exit(main())
