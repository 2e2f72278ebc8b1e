"""Tasks on one function: copying, renaming, edits of lines. Each maker takes (r, function, pool of words) and returns
(prompt, answer, the code after the task), or None where the function does not allow the task."""

import re

from .wording import ask, fence, indent_of, word

KEYWORDS = set(
    "def for return self not and None True False else elif with while from import class raise lambda try except "
    "finally yield async await the assert pass break continue del global nonlocal match case cls".split()
)
SWAPS = (
    ("==", "!="),
    ("!=", "=="),
    (" and ", " or "),
    (" or ", " and "),
    ("True", "False"),
    ("False", "True"),
    (" + ", " - "),
    (" - ", " + "),
    (" is not ", " is "),
    (" < ", " >= "),
    (" > ", " <= "),
    ("None", "0"),
)
COPY = (
    "Repeat this function exactly.",
    "Copy the code below without changes.",
    "Return the following function unchanged.",
    "Repeat this code.",
    "Print this function again, unchanged.",
)
WHOLE = (" Return the whole function.", " Return the full code.", " Print the whole function.", "")


def changed_text(r, line, pool):
    """(old fragment, new fragment) of one edit within the line, the old one occurring once, or None."""
    choices = [(a.strip(), b.strip()) for a, b in SWAPS if line.count(a) == 1]
    for match in re.finditer(r"\b\d+\b", line):
        choices.append((match.group(), str(int(match.group()) + r.randint(1, 9))))
    for match in re.finditer(r"\b[a-z_]{3,}\b", line):
        if match.group() not in KEYWORDS:
            choices.append((match.group(), word(r, pool)))
    choices = [(old, new) for old, new in choices if old != new and line.count(old) == 1]
    return r.choice(choices) if choices else None


def unique_line(r, lines, least=6):
    """The index of a line after the first whose text occurs once, or None."""
    texts = [line.strip() for line in lines]
    fit = [
        k for k in range(1, len(lines)) if len(texts[k]) >= least and texts.count(texts[k]) == 1 and "`" not in texts[k]
    ]
    return r.choice(fit) if fit else None


def new_line(r, pool):
    return r.choice(
        [
            f"print({word(r, pool)})",
            f"# {word(r, pool)} {word(r, pool)}",
            f"{word(r, pool)} = {r.randint(0, 99)}",
            f"assert {word(r, pool)}",
            f"{word(r, pool)} += 1",
            f'log.debug("{word(r, pool)}")',
            f"{word(r, pool)}({word(r, pool)})",
        ]
    )


def copy(r, function, pool):
    return ask(r, r.choice(COPY), fence(function)), fence(function), function


def noise(r, function, pool):
    """Copying where nothing but copying helps."""
    words = [
        r.choice([word(r, pool), str(r.randint(0, 99999)), "%x" % r.getrandbits(32), r.choice("_-+*/=.,:;()[]{}<>")])
        for _ in range(r.randint(6, 80))
    ]
    text = "".join(item + r.choice([" ", " ", "", "\n"]) for item in words).strip()
    return ask(r, "Repeat this text exactly.", fence(text, "text")), fence(text, "text"), None


def rename_step(r, function, pool):
    """(instruction, code after it), or None."""
    names = set(re.findall(r"\b[a-zA-Z_]\w{2,}\b", function))
    old_names = sorted(names - KEYWORDS)
    if not old_names:
        return None
    own = re.match(r"(?:async )?def (\w+)", function)
    often = [name for name in old_names if len(re.findall(rf"\b{re.escape(name)}\b", function)) > 1]
    kind = r.random()
    old = (
        own.group(1)
        if own and kind < 0.3 and own.group(1) in names
        else r.choice(often) if often and kind < 0.75 else r.choice(old_names)
    )
    new = word(r, pool) + r.choice(["", "", "_new", "2", "_" + word(r, pool)])
    if new in names or new in KEYWORDS:
        new += "_x"
    instruction = r.choice(
        [
            f"Rename `{old}` to `{new}`",
            f"Rename {old} to {new} everywhere",
            f"Change the name `{old}` to `{new}`",
            f"Rename `{old}` to `{new}` in this code",
        ]
    )
    return instruction, re.sub(rf"\b{re.escape(old)}\b", new, function)


def edit_step(r, function, pool):
    lines = function.split("\n")
    for _ in range(6):
        k = unique_line(r, lines)
        change = changed_text(r, lines[k].strip(), pool) if k is not None else None
        if change is None:
            continue
        old = lines[k].strip()
        new = old.replace(*change)
        after = lines[:k] + [indent_of(lines[k]) + new] + lines[k + 1 :]
        instruction = r.choice(
            [
                f"Replace the line `{old}` with `{new}`",
                f"Change `{old}` to `{new}`",
                f"In the line `{old}`, change `{change[0]}` to `{change[1]}`",
            ]
        )
        return instruction, "\n".join(after)
    return None


def insert_step(r, function, pool):
    lines = function.split("\n")
    k = unique_line(r, lines)
    if k is None:
        return None
    new, before = new_line(r, pool), r.random() < 0.5
    put = indent_of(lines[k]) + new
    after = lines[:k] + ([put, lines[k]] if before else [lines[k], put]) + lines[k + 1 :]
    where = "before" if before else "after"
    instruction = r.choice(
        [f"Insert the line `{new}` {where} the line `{lines[k].strip()}`", f"Add `{new}` {where} `{lines[k].strip()}`"]
    )
    return instruction, "\n".join(after)


def delete_step(r, function, pool):
    lines = function.split("\n")
    k = unique_line(r, lines)
    if k is None or len(lines) < 4:
        return None
    return r.choice(["Delete", "Remove"]) + f" the line `{lines[k].strip()}`", "\n".join(lines[:k] + lines[k + 1 :])


STEPS = {"rename": rename_step, "edit": edit_step, "insert": insert_step, "delete": delete_step}


def single(step):
    def make(r, function, pool):
        done = step(r, function, pool)
        if done is None or done[1] == function:
            return None
        return ask(r, done[0] + "." + r.choice(WHOLE), fence(function)), fence(done[1]), done[1]

    return make


rename, edit, insert, delete = (single(step) for step in STEPS.values())


def several(r, function, pool):
    """Two or three edits, numbered, in one answer."""
    code, instructions = function, []
    for _ in range(r.randint(2, 3)):
        done = r.choice([rename_step, edit_step, edit_step, insert_step, delete_step])(r, code, pool)
        if done:
            instructions.append(done[0])
            code = done[1]
    if len(instructions) < 2:
        return None
    listed = "\n".join(f"{i + 1}. {text}." for i, text in enumerate(instructions))
    return ask(r, f"Make these changes:\n{listed}", fence(function)), fence(code), code


def changed_lines(before, after):
    """(first, end in before, end in after) of the region outside the common head and tail."""
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    return head, len(before) - tail, len(after) - tail


def brief(r, function, pool):
    """An edit whose answer is the change alone: the new lines, or the lines before and after it."""
    done = r.choice([edit_step, insert_step, delete_step])(r, function, pool)
    if done is None or done[1] == function:
        return None
    before, after = function.split("\n"), done[1].split("\n")
    head, end_before, end_after = changed_lines(before, after)
    head, end_before, end_after = max(head - 1, 0), min(end_before + 1, len(before)), min(end_after + 1, len(after))
    old, new = "\n".join(before[head:end_before]), "\n".join(after[head:end_after])
    if r.random() < 0.4:
        return ask(r, done[0] + ". Show only the changed part.", fence(function)), fence(new), done[1]
    blocks = f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE"
    return (
        ask(r, done[0] + ". Answer with a search and replace block.", fence(function)),
        fence(blocks, "text"),
        done[1],
    )


def docstring(r, function, pool):
    match = re.match(r'((?:async )?def [^\n]*?(?:\n[^\n]*?)*?:\n)(\s+)("""(?:.|\n)*?""")\n', function)
    if not match:
        return None
    bare = match.group(1) + function[match.end() :]
    if r.random() < 0.5:
        return ask(r, "Remove the docstring of this function.", fence(function)), fence(bare), bare
    return ask(r, "Add a docstring to this function.", fence(bare)), fence(function), function


def complete(r, function, pool):
    lines = function.split("\n")
    if len(lines) < 6:
        return None
    k = r.randrange(3, len(lines) - 2)
    return "Complete this function.\n\n" + fence("\n".join(lines[:k])), fence("\n".join(lines[k:])), None


def fill(r, function, pool):
    """One line is missing."""
    lines = function.split("\n")
    k = unique_line(r, lines)
    if k is None:
        return None
    gap = lines[:k] + [indent_of(lines[k]) + "# FILL IN"] + lines[k + 1 :]
    return ask(r, "Fill in the missing line.", fence("\n".join(gap))), fence(lines[k].strip()), None


def question(r, function, pool):
    lines = function.split("\n")
    k = r.randrange(len(lines))
    texts = [line.strip() for line in lines]
    numbered = fence("\n".join(f"{j + 1}: {line}" for j, line in enumerate(lines)))
    kind = r.random()
    if kind < 0.5 and texts[k]:
        return f"What is on line {k + 1}?\n\n{numbered}", f"`{texts[k]}`", None
    if kind < 0.8 and texts[k] and "`" not in texts[k]:
        return f"Which line contains `{texts[k]}`?\n\n{numbered}", f"Line {texts.index(texts[k]) + 1}.", None
    match = re.match(r"(?:async )?def (\w+)", function)
    if not match:
        return None
    return ask(r, "What is the name of this function?", fence(function)), f"`{match.group(1)}`", None
