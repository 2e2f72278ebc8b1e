"""Tasks for bench/drafting_gain.py, by kind: requests made of this repository's own Python functions and of synthetic
records, with the makers that made the demo model's training tasks (tools/demo_model). The same seed makes the same
requests as long as those sources stay the same."""
import ast
import random
import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from demo_model import chat, edits, records, stories  # noqa: E402

LONG = 380  # letters of an answer, about 128 tokens
EDIT_KINDS = {"copy": edits.copy, "copy, one name changed": edits.rename, "one-line edit": edits.edit,
              "insert a line": edits.insert, "delete a line": edits.delete}
RECORD_KINDS = {"JSON reformat": records.reformat, "table": records.table}
STORY = "Write a short story of about 200 words about {} who finds {}."
TOPICS = (("a lighthouse keeper", "a letter"), ("a clockmaker", "a silver key"), ("a gardener", "an old map"),
          ("a ferryman", "a paper boat"), ("a baker", "a brass bell"))
QUESTIONS = ("Explain in a few sentences what a hash table is.",
             "What is the difference between a list and a tuple in Python?",
             "Name five things to check before a release.",
             "What does a mutex do?", "Why are tests useful?")


@dataclass(frozen=True)
class Task:
    """messages for a chat, or prompt for plain text to continue."""

    messages: tuple = ()
    prompt: str = ""
    temperature: float = 0.0
    most_tokens: int = 512


def functions(least=20, most=45, letters=2000):
    """Top-level functions of our own tools, in a fixed order."""
    found = []
    for path in sorted([*ROOT.glob("tools/*.py"), *ROOT.glob("tools/demo_model/*.py")]):
        text = path.read_text()
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and not node.decorator_list:
                source = ast.get_source_segment(text, node)
                if least <= source.count("\n") + 1 <= most and len(source) <= letters:
                    found.append(source)
    return found


def sources(letters=1600):
    """The beginnings of our own Python files, cut at a line."""
    texts = [path.read_text() for path in sorted(ROOT.glob("tools/**/*.py"))]
    return [text[: text.rindex("\n", 0, letters) + 1] for text in texts if len(text) > 3 * letters]


def word_pool(texts):
    return sorted({word for text in texts for word in re.findall(r"\b[a-z][a-z_]{2,14}\b", text)})


def made(maker, r, function, pool, least=0):
    """A prompt of the maker whose answer has so many letters."""
    for _ in range(200):
        task = maker(r, function, pool)
        if task and len(task[1]) >= least:
            return task[0]
    raise RuntimeError(f"no task of {maker.__name__} with an answer of {least} letters")


def said(text, **options):
    return Task(messages=({"role": "user", "content": text},), **options)


def demo_only(r, pool, count, tokens):
    """Kinds whose requests differ by model: those the demo model was trained on."""
    return {
        "short chat": [said(r.choice(chat.WHAT + chat.WHO), most_tokens=tokens) for _ in range(count)],
        "story, temperature 0.8": [said(stories.story(r, "", pool)[0], temperature=0.8, most_tokens=tokens)
                                   for _ in range(count)],
    }


def chat_only(r, count, tokens):
    """The same kinds for a model that understands requests."""
    return {
        "short chat": [said(text, most_tokens=tokens) for text in r.sample(QUESTIONS, min(count, len(QUESTIONS)))],
        "story, temperature 0.8": [said(STORY.format(*topic), temperature=0.8, most_tokens=tokens)
                                   for topic in r.sample(TOPICS, min(count, len(TOPICS)))],
    }


def make_tasks(demo, count, seed=1, tokens=256):
    """{kind: tasks}. demo: in the words that the demo model knows. tokens: most of an answer that has no end of its
    own."""
    texts = functions()
    pool = word_pool(texts)
    r = random.Random(seed)
    plain = "" if demo else "\n\nAnswer with one code block and nothing else."
    kinds = {}
    for kind, maker in EDIT_KINDS.items():
        kinds[kind] = [said(made(maker, r, text, pool, LONG) + plain, most_tokens=1024)
                       for text in r.sample(texts, count)]
    for kind, maker in RECORD_KINDS.items():
        kinds[kind] = [said(made(maker, r, "", pool, LONG) + plain, most_tokens=1024) for _ in range(count)]
    # Answers of a few tokens each, so there are more of them.
    kinds["arithmetic"] = [said(made(records.arithmetic, r, "", pool), most_tokens=tokens) for _ in range(4 * count)]
    kinds |= demo_only(r, pool, count, tokens) if demo else chat_only(r, count, tokens)
    beginnings = r.sample(sources(), count)
    for temperature in (0.8, 1.0):
        kinds[f"source continued, temperature {temperature}"] = [
            Task(prompt=text, temperature=temperature, most_tokens=tokens) for text in beginnings]
    return kinds
