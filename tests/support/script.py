"""What the black-box test scripts share: a test is a function test_* of its module; it fails by raising."""
import sys
import time
import traceback


class Skip(Exception):
    """Raised by a test that cannot run here; its text is the reason."""


def expect(condition, *context):
    if not condition:
        raise AssertionError(" ".join(str(part) for part in context) or "condition is false")


def add_options(parser):
    parser.add_argument("--binary", required=True, help="drafthorse")
    parser.add_argument("--only", default="", help="part of a test's name")
    parser.add_argument("-v", "--verbose", action="store_true", help="name the tests that pass too")


def run_tests(module, options):
    """Runs the tests among `module` (its globals()) that --only names, prints the count as the last line and returns the
    exit status."""
    passed = failed = skipped = 0
    for name, test in list(module.items()):
        if not name.startswith("test_") or options.only not in name:
            continue
        began = time.monotonic()
        try:
            test()
            passed += 1
            if options.verbose:
                print(f"ok {name} ({time.monotonic() - began:.1f} s)", flush=True)
        except Skip as reason:
            skipped += 1
            print(f"skipped {name}: {reason}")
        except Exception:
            failed += 1
            print(f"FAILED {name}")
            traceback.print_exc(file=sys.stdout)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return int(failed > 0)
