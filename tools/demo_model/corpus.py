"""Source files and the functions in them, from the archive that sources.py packs."""

import ast
import hashlib
import json
import tarfile
import textwrap
from multiprocessing import Pool

LONGEST_LINE = 300
HELD_OUT_SHARE = 100  # one file of so many is held out


def usable(text):
    if not 200 <= len(text) <= 150_000 or "<|" in text or len(text.encode()) > 1.02 * len(text):
        return False
    if max(map(len, text.split("\n"))) > LONGEST_LINE:
        return False
    return sum(map(text.count, "0123456789")) <= 0.15 * len(text)


def fingerprint(text):
    """Equal for texts that differ in white space only."""
    return hashlib.sha1("".join(text.split()).encode()).hexdigest()


def functions_of(text):
    """Functions of 4 to 60 lines, as dedented text without decorators."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    lines, found = text.split("\n"), []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and 3 <= node.end_lineno - node.lineno <= 59:
            function = textwrap.dedent("\n".join(lines[node.lineno - 1 : node.end_lineno])).strip()
            if (
                len(function) <= 2600
                and "```" not in function
                and "\t" not in function
                and max(map(len, function.split("\n"))) <= 110
            ):
                found.append(function)
    return found


def read(data):
    """(text, fingerprint, functions) of a file's bytes, or None."""
    try:
        text = data.decode().replace("\r\n", "\n")
    except UnicodeDecodeError:
        return None
    return (text, fingerprint(text), functions_of(text)) if usable(text) else None


def archive_files(path):
    with tarfile.open(path, "r:xz") as archive:
        for entry in archive:
            if entry.name.endswith(".py"):
                yield archive.extractfile(entry).read()


def load(path, workers, most_files=None):
    """{"train", "held": texts; "functions", "held_functions"}, without duplicates, split by the files' fingerprints, in
    the archive's order."""
    train, held, seen = [], [], set()
    functions, held_functions = {}, {}
    with Pool(workers) as pool:
        for result in pool.imap(read, archive_files(path), chunksize=64):
            if result is None or result[1] in seen:
                continue
            seen.add(result[1])
            away = int(result[1], 16) % HELD_OUT_SHARE == 0
            (held if away else train).append(result[0])
            for function in result[2]:
                (held_functions if away else functions)[fingerprint(function)] = function
            if most_files and len(seen) >= most_files:
                pool.terminate()
                break
    return {
        "train": train,
        "held": held,
        "functions": list(functions.values()),
        "held_functions": [text for key, text in held_functions.items() if key not in functions],
    }


def sources(path):
    with tarfile.open(path, "r:xz") as archive:
        return json.loads(archive.extractfile("sources.json").read())
