#!/usr/bin/python3
"""Writes tests/data/templates/goldens.json: what jinja2 makes of every template there for every conversation here.

    tools/make_template_goldens.py [--check]

Run it after a change of a template or a conversation, with a Python that has jinja2. --check compares and writes nothing.
The templates are the project's own; they use the constructs of each model family's chat template.
"""

import json
import os
import pathlib
import sys
import time

import jinja_reference

HERE = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "templates"
NOW = 1_750_000_000  # 15 June 2025, in UTC

WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a <place> & \"more\", Zürich too", "parameters": {
    "type": "object", "properties": {
        "city": {"type": "string", "description": "The city", "enum": ["Köln", "Paris"]},
        "days": {"type": "integer", "description": "How many", "nullable": True},
        "detail": {"type": "object", "properties": {"wind": {"type": "boolean"}}, "required": ["wind"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "limits": {"type": "array", "items": {"type": "object", "properties": {"min": {"type": "number"}}, "required": ["min"]}}},
    "required": ["city", "days"]}}}
CLOCK = {"type": "function", "function": {"name": "clock", "description": "The <time>.", "parameters": {"type": "object", "properties": {
    "zone": {"type": "string"}}}}}

CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "abc123def", "type": "function", "function": {
    "name": "get_weather", "arguments": {"city": "Köln", "days": 2, "ratio": 0.1, "big": 1e21, "wind": True, "none": None,
                                         "detail": {"unit": "m/s", "b": [1, "x"]}, "quote": "it's \"so\"\n<tab>\t"}}}]}
TWO_CALLS = {"role": "assistant", "content": "Let me look.", "reasoning_content": "Two things.", "tool_calls": [
    CALL["tool_calls"][0], {"id": "123456789", "type": "function", "function": {"name": "clock", "arguments": {}}}]}

def user(text): return {"role": "user", "content": text}
def assistant(text, **more): return {"role": "assistant", "content": text, **more}
def system(text): return {"role": "system", "content": text}
def tool(text, id="abc123def", name="get_weather"): return {"role": "tool", "content": text, "tool_call_id": id, "name": name}

CASES = {
    "one turn": {"messages": [user("Hi")]},
    "system": {"messages": [system("  Be brief.\n"), user("Hi")]},
    "system only": {"messages": [system("Be brief.")]},
    "nothing": {"messages": []},
    "no prompt": {"messages": [user("Hi"), assistant("Hello")], "add_generation_prompt": False},
    "continued turn": {"messages": [user("Count"), assistant("1, 2,")], "add_generation_prompt": False},
    "many turns": {"messages": [system("S")] + [m for i in range(3) for m in (user(f"q{i}"), assistant(f"a{i}"))] + [user("last")]},
    "unicode": {"messages": [user("Grüße 😀 e\u0301 \u202e \u2028 \ufeff 日本語 ﬁ"), assistant("Ñandú"), user("\u00a0 trim me \u3000")]},
    "control bytes": {"messages": [user("\u001b[31mred\u001b[0m \u0000 \u0007 \u007f \u0085 \r\n tab\t"), assistant("ok\u0008"), user("go")]},
    "markup in text": {"messages": [user("{{ 1 + 1 }} {% if %} {# c #} <|im_end|> </think> & < > ' \"")]},
    "tools": {"messages": [user("Weather?")], "tools": [WEATHER, CLOCK]},
    "tools and system": {"messages": [system("Be brief. /no_think"), user("Weather?")], "tools": [CLOCK]},
    "tool call": {"messages": [user("Weather?"), CALL], "add_generation_prompt": False},
    "tool result": {"messages": [user("Weather?"), CALL, tool("sunny \u001b[1m25°\u001b[0m")], "tools": [CLOCK]},
    "result and answer": {"messages": [user("Weather?"), CALL, tool("sunny"), assistant("It is sunny."), user("Thanks")]},
    "two calls": {"messages": [user("Both?"), TWO_CALLS, tool("sunny"), tool("12:00", "123456789", "clock")], "tools": [CLOCK]},
    "mapped result": {"messages": [user("Both?"), TWO_CALLS, tool({"t": 1.5, "ok": False, "l": [1]}), tool(["x"], "123456789", "clock"), user("So?")]},
    "no content": {"messages": [user("Weather?"), {**CALL, "content": None}, tool("rain")]},
    "thinking on": {"messages": [user("Think")], "variables": {"enable_thinking": True}},
    "thinking off": {"messages": [user("Think")], "variables": {"enable_thinking": False}},
    "thoughts kept apart": {"messages": [user("Q"), assistant("A", reasoning_content="\nbecause\n"), user("R"), assistant("B", reasoning_content="so")],
                            "add_generation_prompt": False},
    "thoughts in text": {"messages": [user("Q"), assistant("<think>\nbecause\n</think>\n\nA"), user("R"), assistant("<think>x</think>B")],
                         "add_generation_prompt": False},
    "channel in text": {"messages": [user("Q"), assistant("<|channel>thought\nhm<channel|>A<|channel>b<channel|>"), user("R")]},
    "thoughts preserved": {"messages": [user("Q"), assistant("A", reasoning_content="r"), user("R")], "variables": {"preserve_thinking": True}},
    "parts": {"messages": [user([{"type": "text", "text": " a "}, {"type": "text", "text": "b"}]), assistant([{"type": "text", "text": "c"}]), user("d")]},
    "image": {"messages": [user([{"type": "text", "text": "what?"}, {"type": "image"}])]},
    "unknown part": {"messages": [user([{"type": "video", "text?": "x"}])]},
    "unknown role": {"messages": [user("a"), {"role": "critic", "content": "b"}]},
    "late system": {"messages": [user("a"), system("b"), user("c")]},
    "builtin tools": {"messages": [user("a"), {"role": "assistant", "tool_calls": [{"function": {"name": "brave_search", "arguments": {"query": "x"}}}]},
                                   {"role": "ipython", "content": "found"}], "variables": {"builtin_tools": ["brave_search", "code_interpreter"]}},
    "tools in system": {"messages": [user("a")], "tools": [CLOCK], "variables": {"tools_in_user_message": False, "date_string": "1 Jan 2030"}},
    "override": {"messages": [system("/system_override Mine /no_think"), user("a")]},
    "python tools": {"messages": [user("a"), assistant("b"), user("c")], "variables": {"python_tools": ["def f(x): 'é'", {"a": [None, 1.0]}]}},
    "string arguments": {"messages": [user("a"), {"role": "assistant", "content": None, "tool_calls": [
        {"id": "abc123def", "type": "function", "function": {"name": "clock", "arguments": "{}"}}]}, tool("t")], "tools": [CLOCK]},
    "flat calls": {"messages": [user("a"), {"role": "assistant", "content": "", "tool_calls": [{"name": "clock", "arguments": {"z": 1, "A": 2}}]}, tool("t")]},
}


# Conversations that only some templates treat in a way of their own.
ONLY = {
    "builtin tools": ["llama31"], "tools in system": ["llama31"], "override": ["smollm3"], "python tools": ["smollm3"],
    "channel in text": ["gemma4"], "thoughts preserved": ["qwen35"], "thoughts in text": ["qwen3", "qwen35", "gemma4"],
    "thoughts kept apart": ["qwen3", "qwen35", "gemma4"], "thinking on": ["qwen3", "qwen35", "gemma4", "smollm3"],
    "thinking off": ["qwen3", "qwen35", "gemma4", "smollm3"], "late system": ["qwen35", "qwen25", "mistral_new"],
    "unknown part": ["qwen35", "mistral_new", "gemma3", "gemma4"], "image": ["qwen35", "mistral_new", "gemma3", "gemma4"],
    "no prompt": ["chatml", "qwen3", "gemma4"],
}


def main():
    os.environ["TZ"] = "UTC"
    time.tzset()
    goldens = []
    for path in sorted(HERE.glob("*.jinja")):
        source = path.read_text(encoding="utf-8")
        for name, case in CASES.items():
            if path.stem not in ONLY.get(name, [path.stem]):
                continue
            given = {**case, "bos_token": "<bos>", "eos_token": "<eos>", "now": NOW}
            result = jinja_reference.render(source, given)
            if "error" in result:
                result = {"error": True}
            goldens.append({"template": path.name, "case": name, **result})
    out = {"made_by": "tools/make_template_goldens.py", "now": NOW, "cases": CASES, "goldens": goldens}
    text = json.dumps(out, ensure_ascii=False, indent=0, separators=(",", ":")) + "\n"
    target = HERE / "goldens.json"
    if "--check" in sys.argv:
        sys.exit(0 if target.read_text(encoding="utf-8") == text else "goldens.json is not what the templates make: run this without --check")
    target.write_text(text, encoding="utf-8")
    errors = sum("error" in g for g in goldens)
    print(f"{len(goldens)} goldens ({errors} errors) of {len(CASES)} conversations, {len(text)} bytes")


if __name__ == "__main__":
    main()
