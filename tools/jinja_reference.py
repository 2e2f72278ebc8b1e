"""jinja2 set up as transformers sets it up for chat templates: the reference of the template tests.

Run with a Python that has jinja2 (Debian: /usr/bin/python3 with python3-jinja2).
"""

import datetime
import json

import jinja2
import jinja2.ext
import jinja2.sandbox


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what the assistant wrote; the text itself is unchanged."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

    def _text(self, caller):
        return caller()


def environment(now):
    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def strftime_now(format):
        return datetime.datetime.fromtimestamp(now).strftime(format)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def render(template, given):
    """given: the input object of render_template. Returns {"text": …} or {"error": …}."""
    variables = {}
    for token in ("bos_token", "eos_token"):
        if given.get(token):
            variables[token] = given[token]
    variables.update(given.get("variables", {}))
    variables.setdefault("documents", None)
    variables["messages"] = given.get("messages", [])
    variables["tools"] = given.get("tools") or None
    variables["add_generation_prompt"] = given.get("add_generation_prompt", True)
    try:
        return {"text": environment(given.get("now", 0)).from_string(template).render(**variables)}
    except RecursionError:
        raise
    except Exception as error:  # any failure of a template counts as one; the words are not compared
        return {"error": f"{type(error).__name__}: {error}"}
