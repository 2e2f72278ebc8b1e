#!/usr/bin/env python3
"""Checks the house rules that no compiler checks (docs/architecture.md, "The house").

  - a room includes only rooms above it; text/ only core; network/ no backend
  - Boost.Beast and Boost.Asio only in src/server/http_server.cc, MLX only in src/backend/mlx
  - a header starts with #pragma once; a file has at most 600 lines
  - a type's full name is defined in one header only: two of them in one program are undefined behaviour
  - getenv only where the allow-list says: options are parsed once, there are no environment switches

Its own tests come first: each rule must fail on a small tree that breaks it. Prints "N passed, N failed".
"""
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MAX_LINES = 600

# What each room may include, beside itself.
USES = {
    "core": [],
    "weights": ["core"],
    "network": ["core", "weights"],
    "backend": ["core", "weights", "network"],
    "draft": ["core", "weights", "network", "backend"],
    "engine": ["core", "weights", "network", "backend", "draft"],
    "text": ["core"],
    "completion": ["core", "weights", "network", "backend", "draft", "engine", "text"],
}
USES["api"] = USES["completion"] + ["completion"]
USES["server"] = USES["api"] + ["api"]
USES["cli"] = USES["server"] + ["server"]

# Backends do not know each other: they meet in backend/*.cc.
BACKENDS = ["reference", "cpu", "cuda", "mlx"]

# Headers that only one place may see.
CONFINED = [
    (re.compile(r"^boost/(beast|asio)[./]"), re.compile(r"^server/http_server\.cc$"), "Beast and Asio"),
    (re.compile(r"^mlx/"), re.compile(r"^backend/mlx/"), "MLX"),
    (re.compile(r"^curl/"), re.compile(r"^cli/"), "libcurl"),
    (re.compile(r"^CLI/"), re.compile(r"^cli/"), "CLI11"),
]

# Hugging Face's own variables and the folders of the user; nothing that switches behaviour.
GETENV_FILES = {"cli/environment.cc"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def strip_comments(text):
    """`text` without comments, strings kept, line structure kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
    return pattern.sub(lambda m: m.group() if m.group().startswith('"') else "\n" * m.group().count("\n"), text)


def check_includes(name, text):
    room = name.split("/")[0]
    problems = []
    for quote, header in INCLUDE.findall(text):
        for pattern, allowed, what in CONFINED:
            if pattern.match(header) and not allowed.match(name):
                problems.append(f"{name}: includes {header}: {what} belongs elsewhere ({allowed.pattern})")
        if quote == "<":
            continue
        target = header.split("/")[0]
        if "/" not in header or target not in USES:
            problems.append(f"{name}: include \"{header}\" by its path from src/")
        elif room in USES and target != room and target not in USES[room]:
            problems.append(f"{name}: {room} may not include {target} ({header})")
        elif target == room == "backend":
            mine, other = (path.split("/")[1] for path in (name, header))
            if mine in BACKENDS and other in BACKENDS and mine != other:
                problems.append(f"{name}: backend {mine} may not include backend {other} ({header})")
    return problems


def check_file(name, text):
    """Problems of one file; `name` is its path from src/."""
    code = strip_comments(text)
    problems = check_includes(name, code)
    if "/" in name and name.split("/")[0] not in USES:
        problems.append(f"{name}: {name.split('/')[0]} is not a room")
    if name.endswith(".h") and "#pragma once" not in code:
        problems.append(f"{name}: no #pragma once")
    lines = text.count("\n")
    if lines > MAX_LINES:
        problems.append(f"{name}: {lines} lines, more than {MAX_LINES}: split it by idea")
    if re.search(r"\b(secure_)?getenv\s*\(", code) and name not in GETENV_FILES:
        problems.append(f"{name}: getenv; options come from the command line ({', '.join(sorted(GETENV_FILES))} may)")
    return problems


OPEN_NAMESPACE = re.compile(r"^(?:inline )?namespace ([\w:]+) \{")
TYPE = re.compile(r"^(?:struct|class|union|enum class|enum)\s+(?:\w+\([^)]*\)\s+)?(\w+)(?:\s+final)?\s*(?::[^;]*)?\{")


def defined_types(code):
    """Full names of the types that a header defines outside of other types."""
    names, spaces = [], []
    for line in code.splitlines():
        if opened := OPEN_NAMESPACE.match(line):
            spaces.append(opened.group(1))
        elif line.startswith("}") and not line.startswith("};") and spaces:
            spaces.pop()
        elif found := TYPE.match(line):
            names.append("::".join(spaces + [found.group(1)]))
    return names


def check_tree(source):
    files = sorted(p for p in source.rglob("*") if p.suffix in (".h", ".cc", ".cu", ".metal"))
    problems, homes = [], {}
    for path in files:
        name, text = path.relative_to(source).as_posix(), path.read_text(errors="replace")
        problems += check_file(name, text)
        for type_name in defined_types(strip_comments(text)) if path.suffix == ".h" else []:
            if homes.setdefault(type_name, name) != name:
                problems.append(f"{name}: {type_name} is defined in {homes[type_name]}, too: rename one")
    return len(files), problems


# Each: what it proves, file, text, whether the rules must object; "---" begins a second file beside the first.
SELF_TESTS = [
    ("a room above is fine", "weights/a.cc", '#include "core/result.h"\n', False),
    ("a room below is not", "core/a.cc", '#include "weights/tensor.h"\n', True),
    ("text sees core only", "text/a.cc", '#include "network/network.h"\n', True),
    ("network sees no backend", "network/families/a.cc", '#include "backend/backend.h"\n', True),
    ("backends are apart", "backend/cpu/a.cc", '#include "backend/reference/x.h"\n', True),
    ("a relative include", "core/a.cc", '#include "result.h"\n', True),
    ("a commented include", "core/a.cc", '// #include "weights/tensor.h"\n', False),
    ("Beast at home", "server/http_server.cc", "#include <boost/beast/http.hpp>\n", False),
    ("Beast elsewhere", "server/router.cc", "#include <boost/beast/http.hpp>\n", True),
    ("Asio elsewhere", "engine/a.cc", "#include <boost/asio.hpp>\n", True),
    ("MLX at home", "backend/mlx/a.cc", "#include <mlx/mlx.h>\n", False),
    ("MLX elsewhere", "backend/cpu/a.cc", "#include <mlx/mlx.h>\n", True),
    ("a header with its guard", "core/a.h", "#pragma once\nint f();\n", False),
    ("a header without", "core/a.h", "int f();\n", True),
    ("a long file", "core/a.cc", "int x;\n" * (MAX_LINES + 1), True),
    ("getenv at home", "cli/environment.cc", 'auto x = std::getenv("HF_HOME");\n', False),
    ("getenv elsewhere", "backend/cpu/a.cc", 'auto x = std::getenv("FAST");\n', True),
    ("a type in two headers", "core/a.h", "#pragma once\nnamespace d {\nstruct A {\n};\n}\n---\n", True),
    ("a type in two namespaces", "core/a.h", "#pragma once\nnamespace d {\nstruct A {};\n}\n---e\n", False),
    ("a folder that is no room", "misc/a.cc", "int x;\n", True),
]


def self_test():
    """Number of self-tests that passed, and the failures."""
    passed, failures = 0, []
    for what, name, text, objects in SELF_TESTS:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.parent.mkdir(parents=True)
            first, _, second = text.partition("---")
            path.write_text(first)
            if second:  # the same header in the room next door, in another namespace if one is named
                neighbour = Path(folder) / "weights" / path.name
                neighbour.parent.mkdir()
                neighbour.write_text(first.replace("namespace d", f"namespace {second.strip() or 'd'}"))
            _, problems = check_tree(Path(folder))
        if bool(problems) == objects:
            passed += 1
        else:
            failures.append(f"self-test '{what}': expected {'an objection' if objects else 'none'}, got {problems}")
    return passed, failures


def main():
    passed, failures = self_test()
    for failure in failures:
        print(failure)
    count, problems = check_tree(ROOT / "src")
    for problem in problems:
        print(problem)
    if count == 0:
        problems.append("no source files")
        print("src/ holds no source files")
    print(f"checked {count} files")
    failed = len(failures) + (1 if problems else 0)
    print(f"{passed + (0 if problems else 1)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
