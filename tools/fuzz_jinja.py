#!/usr/bin/python3
"""Compares the template engine with jinja2 on random templates.

    tools/fuzz_jinja.py --renderer build/tests/render_template [--cases 2000] [--seed 1]

Needs a Python with jinja2. A case differs when one side fails and the other does not, or when the texts differ; the
exit status is then 1 and the cases are printed. Cases whose output holds an object's address are left out.
"""

import argparse
import copy
import json
import random
import subprocess
import sys

try:
    import jinja_reference
except ImportError as error:
    print(f"skipped: {error} (install python3-jinja2)")
    sys.exit(77)

CONTEXT = {
    "s": "Hello, World", "t": "  padded\ttext\n ", "u": "Straße ΑΣ ǆ ﬁ ıİ é日本😀", "e": "", "q": "it's \"q\" \\ <b>&",
    "n": 7, "z": 0, "m": -3, "big": 9876543210, "f": 2.5, "g": -0.125, "h": 1e20, "yes": True, "no": False, "nil": None,
    "xs": [3, 1, 2, 1], "ws": ["b", "A", "c", "a", "B"], "mixed": [1, "1", 1.0, True, None, [1], {"k": 1}], "none_at_all": [],
    "d": {"b": 2, "a": 1, "C": [1, 2], "items": "shadow"}, "ed": {},
    "rows": [{"name": "x", "n": 2, "tags": ["p", "q"]}, {"name": "Y", "n": 1}, {"name": "x", "n": 3, "tags": []}],
    "deep": {"a": {"b": [{"c": "leaf"}]}}, "lines": "one\n\ntwo\r\nthree", "num": "42", "fl": " 3.14 ", "path": "a/b c?d=é&e",
}
NAMES = {
    "str": ["s", "t", "u", "e", "q", "lines", "num", "fl", "path"], "int": ["n", "z", "m", "big"], "float": ["f", "g", "h"],
    "bool": ["yes", "no"], "list": ["xs", "ws", "mixed", "none_at_all", "rows"], "dict": ["d", "ed", "deep"], "none": ["nil", "missing"],
}
STRINGS = ["''", "'a'", "'A b'", "\"it's\"", "'x,y,,z'", "'é'", "'\\n'", "'%s|%5d'", "' '", "'l'", "'o, W'", "'1'", "'{}'", "'a' 'b'",
           "'\\u00e9\\t'", "'name'", "'n'", "'tags'", "'the quick-brown (fox)'", "'ab12'", "'<p>&'"]
KINDS = ["str", "int", "float", "bool", "list", "dict", "none"]

ROUND = ["", "1", "2", "-1", "0, 'ceil'", "1, 'floor'", "method='ceil'"]
TOJSON = ["", "indent=2", "indent=4", "ensure_ascii=true", "sort_keys=true", "separators=(',', ':')", "indent=0", "false, 1"]
JOIN = ["", "', '", "'-'", "d='/'", "1"]
MAP = ["'string'", "'upper'", "'length'", "attribute='name'", "attribute='zz', default='?'", "'default', 1"]
PERCENT = ["'%s'", "'%5s|%-5s'", "'%d %x'", "'%05.2f'", "'%r'", "'%+d%%'", "'%e %g'", "'%.3s'", "'%#o'", "'%c'"]
BRACES = ["'{}'", "'{:>6}|{:<6}'", "'{0}{0}'", "'{:,}'", "'{:.2f}'", "'{:+}'", "'{!r:^12}'", "'{:x}'", "'{:%}'", "'{:08.3f}'", "'{{}}'", "'{[0]}'"]
SPLIT = ["split()", "split(',')", "rsplit(' ', 1)", "rsplit(none, 1)", "split('l', 1)", "splitlines()", "splitlines(true)", "partition('o')", "rpartition('o')", "split(none, 2)"]
DICT = ["dictsort", "dictsort(true)", "dictsort(by='value')", "dictsort(reverse=true)", "items|list", "list"]


class Generator:
    def __init__(self, rng):
        self.rng = rng
        self.locals = []
        self.macros = []
        self.loops = 0

    def one(self, *items):
        return self.rng.choice(items)

    def chance(self, p):
        return self.rng.random() < p

    def expression(self, kind=None, depth=3):
        if kind is None or self.chance(0.03):
            kind = self.rng.choice(KINDS)
        if self.locals and self.chance(0.13):
            return self.rng.choice(self.locals)
        if depth <= 0 or self.chance(0.2):
            return self.atom(kind)
        made = getattr(self, kind + "_expression")(depth - 1)
        if self.chance(0.1):
            other = self.expression(kind, depth - 1)
            condition = self.expression("bool", depth - 1)
            made = self.one(f"({made} if {condition} else {other})", f"({made} if {condition})", f"({made} or {other})", f"({made} and {other})")
        return made

    def atom(self, kind):
        if self.chance(0.5):
            return self.rng.choice(NAMES[kind])
        return {
            "str": lambda: self.rng.choice(STRINGS),
            "int": lambda: str(self.rng.choice([0, 1, 2, 3, 5, 10, 17, 1_000])),
            "float": lambda: self.one("0.5", "1.0", "2.25", "1e3", "3.7e-5", "1_0.5"),
            "bool": lambda: self.one("true", "False"),
            "list": lambda: self.one("[]", "[1, 2, 3]", "('a', 'b')", "['x', 'y', 'x']", "(1,)", "[[1, 2], [3, 4]]", "range(4)"),
            "dict": lambda: self.one("{}", "{'a': 1, 'b': 'two'}", "{1: 'one', none: 2}", "dict(x=1, y=[2])"),
            "none": lambda: self.one("none", "undefined_name", "d.nothing", "xs[99]"),
        }[kind]()

    def none_expression(self, depth):
        return self.one(f"({self.expression('dict', depth)}).get({self.expression('str', depth)})",
                        f"({self.expression('dict', depth)}).zz", self.atom("none"))

    def bool_expression(self, depth):
        x = lambda kind=None: self.expression(kind, depth)
        kind = self.rng.choice(["str", "int", "float", "list"])
        test = self.one("defined", "undefined", "none", "string", "mapping", "sequence", "iterable", "number", "integer", "float", "boolean",
                        "true", "false", "lower", "upper", "callable", "escaped")
        return self.one(
            lambda: f"{x(kind)} {self.one('==', '!=', '<', '<=', '>', '>=')} {x(kind)}",
            lambda: f"{x(kind)} {self.one('<', '<=')} {x(kind)} {self.one('<', '==')} {x(kind)}",
            lambda: f"{x()} {self.one('==', '!=')} {x()}",
            lambda: f"not {x()}", lambda: f"({x('bool')} {self.one('and', 'or')} {x('bool')})",
            lambda: f"({x()} is {self.one('', 'not ')}{test})",
            lambda: f"{x('int')} is {self.one('odd', 'even', 'divisibleby 3', 'eq 3', 'gt 2', 'in [1, 2]')}",
            lambda: f"{x('str')} {self.one('in', 'not in')} {x('str')}", lambda: f"{x()} {self.one('in', 'not in')} {x('list')}",
            lambda: f"{x('str')} {self.one('in', 'not in')} {x('dict')}",
            lambda: f"({x('str')}).{self.one('startswith', 'endswith')}({x('str')})",
            lambda: f"({x('str')}).{self.one('isdigit', 'isalpha', 'isalnum', 'isspace', 'isupper', 'islower', 'istitle', 'isidentifier', 'isascii', 'isprintable')}()",
        )()

    def int_expression(self, depth):
        x = lambda kind=None: self.expression(kind, depth)
        return self.one(
            lambda: f"({x('int')} {self.one('+', '-', '*', '//', '%')} {x('int')})", lambda: f"({x('int')} ** {self.one('0', '1', '2', '3')})",
            lambda: f"{self.one('-', '+')}{x('int')}", lambda: f"{x(self.one('str', 'list', 'dict'))}|{self.one('length', 'count')}",
            lambda: f"{x()}|int({self.one('', '9', 'default=none', 'base=16')})", lambda: f"{x('int')}|abs",
            lambda: f"({x('str')}).{self.one('find', 'rfind', 'count', 'index', 'rindex')}({x('str')}{self.one('', ', 1', ', 1, 4', ', -3', ', none, 5')})",
            lambda: f"({x('list')}).{self.one('count', 'index')}({x()})", lambda: f"{x('list')}|sum", lambda: f"{x('str')}|wordcount",
            lambda: f"rows|sum(attribute='n', start={x('int')})", lambda: f"{x('int')}|round({self.one('', '-1', '1')})",
            lambda: f"({x('list')}|{self.one('first', 'last', 'min', 'max')})", lambda: f"({x('int')}).bit_length()",
        )()

    def float_expression(self, depth):
        x = lambda kind=None: self.expression(kind, depth)
        return self.one(
            lambda: f"({x('int')} / {x('int')})", lambda: f"({x('float')} {self.one('+', '-', '*', '/', '//', '%')} {x(self.one('int', 'float'))})",
            lambda: f"{x()}|float({self.one('', '1.5')})", lambda: f"{x('float')}|round({self.one(*ROUND)})",
            lambda: f"{x('float')}|abs", lambda: f"-{x('float')}",
        )()

    def str_expression(self, depth):
        x = lambda kind=None: self.expression(kind, depth)
        method = self.one("upper()", "lower()", "title()", "capitalize()", "swapcase()", "casefold()", "strip()", "lstrip()", "rstrip()", "strip('a l')",
                          "rstrip('!d')", "zfill(8)", "center(20)", "ljust(9, '.')", "rjust(9)", "expandtabs()", "expandtabs(3)", "replace('l', 'LL')",
                          "replace('', '-')", "replace('l', 'r', 1)", "removeprefix('He')", "removesuffix('ld')", "join(ws)", "join(['1', '2'])",
                          "format(1, 2)", "format(n, a=s)")
        filtered = self.one("upper", "lower", "title", "capitalize", "trim", "trim('Hd ')", "string", "indent", "indent(2, true)", "indent('> ', blank=true)",
                            "replace('o', '0')", "replace('l', '', 1)", "center(30)", "truncate(8)", "truncate(9, true)", "truncate(10, end='', leeway=0)",
                            "urlencode", "escape", "e", "safe", "forceescape", "default('D')", "d('D', true)", "reverse", "format(1, 2)", "first", "last",
                            "string|safe", "e|replace('a', '<')")
        return self.one(
            lambda: f"({x('str')} + {x('str')})", lambda: f"({x()} ~ {x()} ~ {x()})", lambda: f"({x('str')}).{method}", lambda: f"{x('str')}|{filtered}",
            lambda: f"({x('str')})[{self.slice_text()}]", lambda: f"({x('str')})[{self.one('0', '1', '-1', '99')}]", lambda: f"({x('str')} * {self.one('2', '0', '-1', '3')})",
            lambda: f"{x()}|tojson({self.one(*TOJSON)})",
            lambda: f"{x()}|string", lambda: f"{x('list')}|join({self.one(*JOIN)})",
            lambda: f"{x('list')}|map({self.one(*MAP)})|join('|')",
            lambda: f"({self.one(*PERCENT)} % {self.one(x(), '(' + x('int') + ', ' + x('int') + ')', x('str'), x('float'))})",
            lambda: f"{self.one(*BRACES)}.format({x()}, {x()})",
            lambda: f"({x('list')})[{self.one('0', '-1', '1')}]", lambda: f"{x('int')}|filesizeformat", lambda: self.macro_call(depth),
            lambda: f"{self.one('d', 'deep', 'rows[0]')}|urlencode",
        )()

    def slice_text(self):
        part = lambda: self.one("", "0", "1", "2", "-1", "-2", "5", "99", "none", "n")
        return self.one(f"{part()}:{part()}", f"{part()}:{part()}:{self.one('', '1', '2', '-1', '-2')}")

    def macro_call(self, depth):
        if not self.macros:
            return self.atom("str")
        name, count = self.rng.choice(self.macros)
        arguments = [self.expression(None, depth) for _ in range(self.rng.randint(0, count))]
        if self.chance(0.3):
            arguments.append(f"{self.one('p0', 'p1', 'zz')}={self.expression(None, depth)}")
        return f"{name}({', '.join(arguments)})"

    def list_expression(self, depth):
        x = lambda kind=None: self.expression(kind, depth)
        filtered = self.one("list", "sort", "sort(reverse=true)", "sort(case_sensitive=true)", "unique|list", "reverse|list", "batch(2)|list", "batch(3, 0)|list",
                            "slice(2)|list", "slice(3, 'x')|list", "map('string')|list", "map('upper')|list", "select|list", "reject|list", "select('string')|list",
                            "reject('none')|list", "select('gt', 1)|list", "select('in', [1, 'a'])|list", "map('int')|list", "select('odd')|list", "unique(true)|list")
        attributes = self.one("selectattr('n', 'gt', 1)|list", "selectattr('tags')|list", "rejectattr('tags', 'defined')|list", "map(attribute='n')|list",
                              "groupby('name')|list", "sort(attribute='name,n')", "sort(attribute='n', reverse=true)", "groupby('name', case_sensitive=true)",
                              "map(attribute='tags.0', default='-')|list", "unique(attribute='name')|list", "groupby('tags', default=[])", "min(attribute='n')|list",
                              "selectattr('name', 'equalto', 'x')|map(attribute='n')|list")
        return self.one(
            lambda: f"[{', '.join(x() for _ in range(self.rng.randint(0, 3)))}]", lambda: f"({x('list')} + {x('list')})", lambda: f"{x('list')}|{filtered}",
            lambda: f"({x('list')})[{self.slice_text()}]", lambda: f"rows|{attributes}", lambda: f"({x('str')}).{self.one(*SPLIT)}",
            lambda: f"{x('dict')}|{self.one(*DICT)}",
            lambda: f"({x('dict')}).{self.one('items()', 'keys()', 'values()')}|list", lambda: f"({x('list')} * {self.one('2', '0')})",
            lambda: f"range({self.one('3', '1, 5', '5, 0, -2', 'n', '0')}){self.one('', '|list', '|list', '[1:]')}", lambda: f"{x('str')}|list", lambda: f"({x()}, {x()})",
        )()

    def dict_expression(self, depth):
        x = lambda kind=None: self.expression(kind, depth)
        return self.one(
            lambda: "{" + ", ".join(f"{x(self.one('str', 'str', 'int'))}: {x()}" for _ in range(self.rng.randint(0, 3))) + "}", lambda: self.atom("dict"),
            lambda: f"dict({x('dict')}, k={x()})", lambda: f"({x('dict')}).copy()", lambda: "rows|first", lambda: f"dict({x('list')}|map('list')|list)",
            lambda: "deep.a", lambda: "rows[-1]", lambda: f"dict([['a', {x()}], ('b', 2)])",
        )()

    # Statements.

    def tag(self, text):
        return "{%" + self.one("", "", "", "-", "+") + " " + text + " " + self.one("", "", "", "-", "+") + "%}"

    def text(self):
        return self.one("", " ", "\n", "x", "a b\n", "\n  ", "  \n\n", "\t", "é", "{ }", "  y  ", "%", "# z\n", "}}", "\r\n")

    def print(self):
        return "{{" + self.one("", "", "-") + " " + self.expression(None, self.one(1, 2, 3, 4)) + " " + self.one("", "", "-") + "}}"

    def block(self, depth):
        saved = list(self.locals), list(self.macros)
        out = self.text()
        for _ in range(self.rng.randint(0, 3)):
            out += self.statement(depth - 1) + self.text()
        self.locals, self.macros = saved
        return out

    def statement(self, depth):
        return self.print() if depth <= 0 else self.compound(depth)

    def compound(self, depth):
        kind = self.rng.choice(["print"] * 5 + ["if"] * 3 + ["for"] * 3 + ["set"] * 3 + ["set_block", "macro", "macro", "call_block", "filter_block", "with",
                                                                                        "namespace", "comment", "raw", "generation", "flow"])
        return self.print() if kind == "print" else getattr(self, kind + "_statement")(depth)

    def if_statement(self, depth):
        out = self.tag("if " + self.expression("bool")) + self.block(depth)
        if self.chance(0.3):
            out += self.tag("elif " + self.expression()) + self.block(depth)
        if self.chance(0.4):
            out += self.tag("else") + self.block(depth)
        return out + self.tag("endif")

    def for_statement(self, depth):
        saved = list(self.locals)
        name = self.one("x", "y", "k")
        if self.chance(0.25):
            head = f"for k, v in ({self.expression('dict')}).items()"
            self.locals += ["k", "v"]
        else:
            head = f"for {name} in {self.expression(self.one('list', 'list', 'str', 'dict'))}"
            self.locals.append(name)
        if self.chance(0.25):
            head += " if " + self.expression("bool", 2)
        self.locals += ["loop.index", "loop.last", "loop.first", "loop.revindex0", "loop.length", "loop.previtem", "loop.nextitem", "loop.cycle('a', 'b')",
                        "loop.changed(loop.index // 2)", "loop.index0", "loop.depth"]
        self.loops += 1
        body = self.block(depth)
        self.loops -= 1
        self.locals = saved
        out = self.tag(head) + body
        if self.chance(0.2):
            loops, self.loops = self.loops, 0
            out += self.tag("else") + self.block(depth)
            self.loops = loops
        return out + self.tag("endfor")

    def set_statement(self, depth):
        name = self.one("x", "y", "w", "s", "n")
        if self.chance(0.15):
            out = self.tag(f"set x, y = {self.expression('list', 1)}, {self.expression('int', 1)}")
            self.locals += ["x", "y"]
            return out
        out = self.tag(f"set {name} = {self.expression()}")
        self.locals.append(name)
        return out

    def function_body(self, depth):
        loops, self.loops = self.loops, 0
        body = self.block(depth)
        self.loops = loops
        return body

    def set_block_statement(self, depth):
        name = self.one("x", "w")
        out = self.tag(f"set {name}{self.one('', '|upper', '|trim|length')}") + self.block(depth) + self.tag("endset")
        self.locals.append(name)
        return out

    def macro_statement(self, depth):
        name, count = self.one("mac", "twice"), self.rng.randint(0, 2)
        parameters = [f"p{i}" + (f"={self.expression(None, 1)}" if i == count - 1 and self.chance(0.6) else "") for i in range(count)]
        saved = list(self.locals), list(self.macros)
        self.macros = []
        self.locals = [f"p{i}" for i in range(count)] + self.one([], ["varargs"], ["kwargs"], ["caller()"])
        body = self.function_body(depth)
        self.locals, self.macros = saved
        self.macros.append((name, count))
        return self.tag(f"macro {name}({', '.join(parameters)})") + body + self.tag("endmacro")

    def call_block_statement(self, depth):
        if not self.macros:
            return self.print()
        saved = list(self.locals)
        head = self.one("call ", "call(p0) ") + self.macro_call(1)
        body = self.function_body(depth)
        self.locals = saved
        return self.tag(head) + body + self.tag("endcall")

    def filter_block_statement(self, depth):
        return self.tag("filter " + self.one("upper", "trim", "indent(2)", "replace('a', 'b')|title", "escape", "truncate(5)")) + self.block(depth) + self.tag("endfilter")

    def with_statement(self, depth):
        head = f"with w = {self.expression()}, x = {self.expression(None, 1)}"
        saved = list(self.locals)
        self.locals += ["w", "x"]
        body = self.block(depth)
        self.locals = saved
        return self.tag(head) + body + self.tag("endwith")

    def namespace_statement(self, depth):
        out = self.tag(f"set ns = namespace(a={self.expression(None, 1)}, b=1)")
        self.locals += ["ns.a", "ns.b"]
        return out + self.block(depth) + self.tag(f"set ns.{self.one('a', 'c')} = {self.expression(None, 2)}")

    def comment_statement(self, depth):
        return self.one("{# c #}", "{#- c\n -#}", "  {# {{ no }} #}\n", "{#+ k +#}\n")

    def raw_statement(self, depth):
        return self.tag("raw").replace("+%}", "%}") + self.one("{{ x }}", " {% y %} ", "\n  ", "") + self.tag("endraw")

    def generation_statement(self, depth):
        loops, self.loops = self.loops, 0
        body = self.block(depth)
        self.loops = loops
        return self.tag("generation") + body + self.tag("endgeneration")

    def flow_statement(self, depth):
        if not self.loops:
            return self.print()
        return self.tag("if " + self.expression("bool", 2)) + self.tag(self.one("break", "continue")) + self.tag("endif")

    def template(self):
        out = ""
        for _ in range(self.rng.randint(1, 4)):
            out += self.text() + self.compound(self.rng.randint(1, 3)) + self.text()
        return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--renderer", required=True)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=20)
    options = parser.parse_args()

    requests, wanted = [], []
    for case in range(options.cases):
        template = Generator(random.Random(f"{options.seed}/{case}")).template()
        given = {"messages": [], "variables": CONTEXT}
        result = jinja_reference.render(template, copy.deepcopy(given))  # jinja2's indent filter can change a list
        if " at 0x" in result.get("text", ""):
            continue
        requests.append({"template": template, "input": given})
        wanted.append(result)
    run = subprocess.run([options.renderer], input="".join(json.dumps(r) + "\n" for r in requests), capture_output=True, text=True)
    got = [json.loads(line) for line in run.stdout.split("\n") if line]
    if run.returncode or len(got) != len(wanted):
        print(f"the renderer ended with status {run.returncode} after {len(got)} of {len(wanted)} cases: {run.stderr}")
        if len(got) < len(requests):
            print("template:", repr(requests[len(got)]["template"]))
        return 1
    bounded = [i for i in range(len(got)) if "127 bits" in got[i].get("error", "")]  # integers are bounded here
    different = [i for i in range(len(got)) if got[i].get("text") != wanted[i].get("text") and i not in bounded]
    for i in sorted(different, key=lambda i: len(requests[i]["template"]))[: options.show]:
        print("template:", repr(requests[i]["template"]))
        print("  jinja2:", wanted[i])
        print("    ours:", got[i])
    failing = sum("error" in w for w in wanted)
    print(f"{len(wanted)} templates compared (seed {options.seed}), {failing} of them fail in jinja2 and must fail here: {len(different)} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
