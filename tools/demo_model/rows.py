"""Token rows for the training: source files end to end, and tasks packed into rows with a weight for each token."""

import json
import os
import random
import re
import time
from multiprocessing import Pool
from pathlib import Path

import numpy as np

from . import chat, corpus, edits, records, stories, tokenizer

LENGTH = 2048  # tokens a row that are trained on
EXTRA = 4  # further tokens, the targets of the drafting head
SHORT = 400  # tokens; the first steps see only tasks up to this
WEIGHT = 4  # stored weights are integers, this one means 1
CHANGE = 3 * WEIGHT  # of tokens where an edit departs from a plain copy

EDITS = (edits.rename, edits.edit, edits.insert, edits.delete)
# maker, share
TASKS = (
    (edits.copy, 7),
    (edits.noise, 4),
    (edits.rename, 20),
    (edits.edit, 16),
    (edits.insert, 9),
    (edits.delete, 8),
    (edits.several, 10),
    (edits.brief, 4),
    (edits.docstring, 2),
    (edits.complete, 3),
    (edits.fill, 1),
    (edits.question, 2),
    (records.reformat, 8),
    (records.rename_key, 3),
    (records.look_up, 1),
    (records.table, 5),
    (records.sequence, 2),
    (records.arithmetic, 14),
    (stories.story, 3),
    (chat.small_talk, 4),
    ("conversation", 9),
)
MARKED = {edits.rename, edits.edit, edits.insert, edits.delete, edits.several, "conversation"}


def make_task(r, functions, pool):
    """(turns, whether changes are marked)."""
    makers, shares = zip(*TASKS)
    while True:
        maker, function = r.choices(makers, shares)[0], r.choice(functions)
        if maker == "conversation":
            turns = chat.conversation(r, function, pool, (edits.copy, *EDITS, *EDITS))
        else:
            made = maker(r, function, pool)
            turns = [made[:2]] if made else None
        if turns:
            return turns, maker in MARKED


def change_weights(ids, token_bytes, answer, prompt):
    """Weights of the answer's tokens: CHANGE in lines that do not follow their predecessor in the prompt as well."""
    before = prompt.split("\n")
    known = set(zip(before, before[1:]))
    lines = answer.encode().split(b"\n")
    text = [line.decode() for line in lines]
    marks = [k > 0 and (text[k - 1], text[k]) not in known for k in range(len(text))]
    if sum(marks) > 0.5 * len(marks):
        marks = [False] * len(marks)
    ends = np.cumsum([len(line) + 1 for line in lines])
    starts = np.cumsum(token_bytes[ids]) - token_bytes[ids]
    line_of = np.searchsorted(ends, starts, side="right").clip(max=len(lines) - 1)
    return np.where(np.array(marks)[line_of], CHANGE, WEIGHT).astype(np.uint8)


def encode_task(encode, token_bytes, turns, marked, system):
    """(ids, weights) of a whole conversation, which the end of text closes."""
    ids, weights = [], []
    prompt = tokenizer.turn("system", system) if system else ""
    seen = prompt
    for user, answer in turns:
        prompt += tokenizer.turn("user", user) + f"{tokenizer.START}assistant\n"
        seen += user + "\n"
        asked, answered = encode(prompt), encode(answer + tokenizer.END + "\n")
        weight = np.full(len(answered), WEIGHT, np.uint8)
        if marked:
            body = np.array(answered[:-2], np.int64)  # without the marker and the line's end after it
            weight[: len(body)] = change_weights(body, token_bytes, answer, seen)
        ids += [np.array(asked, np.uint16), np.array(answered, np.uint16)]
        weights += [np.zeros(len(asked), np.uint8), weight]
        prompt, seen = "", seen + answer + "\n"
    ids.append(np.array([tokenizer.END_OF_TEXT_ID], np.uint16))
    weights.append(np.zeros(1, np.uint8))
    return np.concatenate(ids), np.concatenate(weights)


def pack(examples, length):
    """Best-fit packing of (ids, weights) into rows [n, length]; each row starts with an example."""
    full, bins = [], []
    for ids, weights in examples:
        if len(ids) > length:
            continue
        fit = [b for b in bins if b[0] + len(ids) <= length]
        if fit:
            target = max(fit, key=lambda b: b[0])
        else:
            if len(bins) >= 32:
                fullest = max(range(len(bins)), key=lambda i: bins[i][0])
                full.append(bins.pop(fullest))
            target = [0, np.zeros(length, np.uint16), np.zeros(length, np.uint8)]
            bins.append(target)
        at = target[0]
        target[1][at : at + len(ids)], target[2][at : at + len(ids)] = ids, weights
        target[0] = at + len(ids)
    full += bins
    if not full:
        return np.zeros((0, length), np.uint16), np.zeros((0, length), np.uint8)
    return np.stack([b[1] for b in full]), np.stack([b[2] for b in full])


def byte_counts(tok):
    """The bytes that each token stands for."""
    return np.array([len(tok.id_to_token(i)) for i in range(tok.get_vocab_size())], np.int64)


def task_rows(job):
    """Makes, encodes and packs tasks in a worker: {"short" and "long": (ids, weights)}."""
    from tokenizers import Tokenizer

    seed, functions, pool, count, path = job
    tok, r = Tokenizer.from_file(path), random.Random(seed)
    counts = byte_counts(tok)
    made = {"short": [], "long": []}
    for _ in range(count):
        turns, marked = make_task(r, functions, pool)
        system = r.choice(chat.SYSTEM) if r.random() < 0.12 else None
        example = encode_task(
            lambda text: tok.encode(text, add_special_tokens=False).ids, counts, turns, marked, system
        )
        made["short" if len(example[0]) <= SHORT else "long"].append(example)
    # Some short ones stay among the long ones, so that these rows have all kinds.
    made["long"] += made["short"][::2]
    r.shuffle(made["long"])
    return {kind: pack(examples, LENGTH + EXTRA) for kind, examples in made.items()}


def encode_files(job):
    from tokenizers import Tokenizer

    path, texts = job
    tok = Tokenizer.from_file(path)
    return np.concatenate(
        [np.array(tok.encode(text + tokenizer.END_OF_TEXT, add_special_tokens=False).ids, np.uint16) for text in texts]
    )


def word_pool(r, functions):
    return sorted(
        {
            word
            for function in r.sample(functions, min(4000, len(functions)))
            for word in re.findall(r"\b[a-z][a-z_]{2,14}\b", function)
        }
    )


HELD_TASKS = {
    "copy": edits.copy,
    "rename": edits.rename,
    "edit": edits.edit,
    "insert": edits.insert,
    "delete": edits.delete,
    "several": edits.several,
    "json": records.reformat,
    "table": records.table,
    "arithmetic": records.arithmetic,
    "chat": chat.small_talk,
    "story": stories.story,
    "complete": edits.complete,
}


def held_out(files, functions, pool, count):
    """{kind: [(prompt, answer)]} on held-out functions of 25 to 45 lines, and whole held-out files as "source"."""
    r = random.Random(2)
    fit = [text for text in functions if 25 <= text.count("\n") + 1 <= 45]
    r.shuffle(fit)
    held = {}
    for kind, maker in HELD_TASKS.items():
        pairs = []
        for function in fit:
            made = maker(r, function, pool)
            if made and len(pairs) < count:
                pairs.append((tokenizer.prompt_of([made[0]]), made[1]))
        held[kind] = pairs
    held["source"] = [text for text in files if len(text) > 4000][:count]
    return held


def prepare(archive, out, tasks, seed=0, most_files=None, held=100, workers=None):
    """Writes tokenizer.json, train.npy, val.npy, {short,long}_{ids,weights}.npy, held.json and data.json into out."""
    workers, start = workers or os.cpu_count(), time.time()
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"

    def log(*words):
        print(f"[prepare {time.time() - start:5.1f}s]", *words, flush=True)

    data = corpus.load(archive, workers, most_files)
    log(
        len(data["train"]),
        "files,",
        len(data["held"]),
        "held out;",
        len(data["functions"]),
        "functions,",
        len(data["held_functions"]),
        "held out",
    )
    r = random.Random(seed + 1)
    pool = word_pool(r, data["functions"])
    (out / "held.json").write_text(json.dumps(held_out(data["held"], data["held_functions"], pool, held)))
    sample = r.sample(data["train"], min(len(data["train"]), 2500))
    for _ in range(5000 if most_files is None else 500):
        sample += [text for pair in make_task(r, data["functions"], pool)[0] for text in pair]
    tok = tokenizer.train(sample)
    tok.save(str(out / "tokenizer.json"))
    log("vocabulary", tok.get_vocab_size())
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    path, jobs = str(out / "tokenizer.json"), 4 * workers
    few = min(len(data["functions"]), 4000)
    with Pool(workers) as processes:
        r.shuffle(data["train"])
        step = -(-len(data["train"]) // jobs)
        texts = [(path, data["train"][i : i + step]) for i in range(0, len(data["train"]), step)]
        np.save(out / "train.npy", np.concatenate(processes.map(encode_files, texts, chunksize=1)))
        np.save(out / "val.npy", encode_files((path, data["held"])))
        log("source encoded")
        work = [
            (1000 * (seed + 1) + i, r.sample(data["functions"], few), pool, -(-tasks // jobs), path)
            for i in range(jobs)
        ]
        packed = processes.map(task_rows, work, chunksize=1)
    summary = {
        "train_tokens": int(np.load(out / "train.npy", mmap_mode="r").size),
        "tasks": tasks,
        "seed": seed,
        "held_files": len(data["held"]),
        "train_files": len(data["train"]),
        "functions": len(data["functions"]),
        "held_functions": len(data["held_functions"]),
    }
    for kind in ("short", "long"):
        ids, weights = (np.concatenate([part[kind][i] for part in packed]) for i in (0, 1))
        np.save(out / f"{kind}_ids.npy", ids)
        np.save(out / f"{kind}_weights.npy", weights)
        summary[f"{kind}_rows"] = len(ids)
        log(
            kind,
            "rows",
            ids.shape,
            f"answers {(weights > 0).mean():.2f}, marked {(weights > WEIGHT).mean():.3f}, "
            f"filled {(ids > 0).mean():.2f}",
        )
    summary["sources"] = corpus.sources(archive)
    (out / "data.json").write_text(json.dumps(summary, indent=1))
    log("done", {key: value for key, value in summary.items() if key != "sources"})
