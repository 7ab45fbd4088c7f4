#!/usr/bin/env python3
"""Writes tests/fixtures/jinja/cases.json: templates with what Python's jinja2 makes of them.

The templates are those of language_list.py and random ones from the grammar below. A case is
[template, text], or [template, null] when Python refuses. With --compare PROGRAM nothing is written:
that many fresh random templates go to a program that reads {"template", "variables"} lines and
answers {"status", "text"} lines, and what differs is shown (tests/golden/jinja_lines.c).

    python3 tools/templates/make_language_cases.py
    python3 tools/templates/make_language_cases.py --compare build/tests/jinja_lines [SEED [COUNT]]
"""
import collections
import json
import pathlib
import random
import subprocess
import sys

import jinja_oracle
import language_list

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "jinja" / "cases.json"
RANDOM_CASES = 1500
VARIABLES = {
    "s": "Hello", "e": "", "n": 5, "z": 0, "neg": -3, "f": 2.5, "t": True, "fl": False, "none_": None,
    "big": 9007199254740993, "huge": 123456789012345678901234567890, "l": [1, 2, 3], "le": [],
    "ls": ["b", "a", "C"], "lm": [1, "a", None, 2.5, True],
    "d": {"a": 1, "b": "x", "items": [1], "c": {"k": [1, {"z": 2}]}}, "de": {},
    "msgs": [{"role": "system", "content": "S"}, {"role": "user", "content": "hi <x>", "n": 3},
             {"role": "assistant", "content": None, "tool_calls": [
                 {"function": {"name": "f", "arguments": {"x": 1.0, "y": [True, None]}}}]},
             {"role": "tool", "content": "r\n", "n": 1}],
    "u": "日本語テキスト", "ll": [[1, 2], [3, 4]], "lf": [1.5, 0.1, 1e22, -0.0, 1e-7],
    "words": "the quick  brown\tfox",
}

STRINGS = ["", "a", "b", "abc", "Hello World", " x ", "\n", "a\nb", "  pad", "é", "日本", "Straße", "ΑΣ", "a,b,c",
           "<b>", "&\"'", "1", "42", "-7", "3.5", "0x1f", "1_000", "foo", "user", "</think>x", "aaa", "%s", "{}",
           "x\ty", "it's", '"q"', "ǆabc", "\u00a0x\u2003", "True", "none", "a.b.c", "\x01", "İi"]
NUMBERS = ["0", "1", "2", "3", "5", "10", "-1", "-2", "1.5", "0.1", "2.0", "1e3", "100", "7", "0x10", "1_000", "1e-5",
           "12345678901234567890", "9223372036854775807", "1e16", "123456789.123"]
NAMES = list(VARIABLES) + ["undef", "loop", "x", "y", "ns", "m1", "m2"]
FILTERS = {
    "abs": [""], "attr": ["('items')", "('role')", "('upper')"], "batch": ["(2)", "(2,'f')", "(0)"], "capitalize": [""],
    "center": ["", "(10)", "(7)"], "count": [""], "d": ["", "(1)", "('x', true)"],
    "default": ["", "('x')", "('q', true)", "(boolean=true)"],
    "dictsort": ["", "(true)", "(by='value')", "(reverse=true)", "(false,'value',true)"], "e": [""], "escape": [""],
    "first": [""], "float": ["", "(1.5)"], "forceescape": [""], "format": ["(1)", "('a','b')", "(s)", "(n)", ""],
    "indent": ["", "(2)", "(2, true)", "(2, true, true)", "('>')", "(first=true)"],
    "int": ["", "(3)", "(0,16)", "(default=7)", "(base=2)"], "items": [""],
    "join": ["", "(', ')", "('-')", "(d='|')", "(',', attribute='role')"], "last": [""], "length": [""], "list": [""],
    "lower": [""], "map": ["('upper')", "(attribute='role')", "(attribute='n', default=0)", "('string')",
                           "('default','q')", "(attribute='tool_calls.0.function.name')", "('int')", "('tojson')",
                           "('length')", "(attribute=0)"],
    "max": ["", "(attribute='n')", "(true)"], "min": ["", "(attribute='n')"],
    "reject": ["", "('string')", "('none')", "('eq',1)"],
    "rejectattr": ["('role','equalto','user')", "('content')", "('tool_calls','defined')"],
    "replace": ["('a','b')", "('l','LL',1)", "('','-')", "('x','')", "('e','é')"], "reverse": [""],
    "round": ["", "(1)", "(0,'ceil')", "(1,'floor')", "(2)", "(method='floor')"], "safe": [""],
    "select": ["", "('string')", "('defined')", "('gt', 1)", "('odd')", "('in',[1,'a'])", "('equalto','a')"],
    "selectattr": ["('role')", "('role','equalto','user')", "('content','none')", "('n','defined')",
                   "('content','string')", "('role','in',['user','tool'])"],
    "slice": ["(2)", "(3,'f')"],
    "sort": ["", "(true)", "(attribute='role')", "(reverse=true)", "(case_sensitive=true)", "(attribute='n')",
             "(attribute='role,n')"],
    "string": [""], "sum": ["", "(attribute='n')", "(start=10)", "('n',1)"], "title": [""],
    "tojson": ["", "(indent=2)", "(indent=4)", "(ensure_ascii=true)", "(sort_keys=true)", "(separators=(',',':'))",
               "(indent=0)", "(indent='\\t')"],
    "trim": ["", "('x')", "('ab')", "(' \\n')"],
    "truncate": ["", "(5)", "(5,true)", "(4,false,'')", "(3,true,'..',0)", "(8,leeway=0)"],
    "unique": ["", "(attribute='role')", "(true)"], "upper": [""], "wordcount": [""],
}
TESTS = ["defined", "undefined", "none", "string", "mapping", "sequence", "iterable", "number", "integer", "float",
         "boolean", "true", "false", "callable", "odd", "even", "divisibleby 2", "divisibleby(3)", "lower", "upper",
         "in [1,'a']", "eq 1", "equalto('a')", "ne 2", "gt 1", "lt(3)", "ge 2", "le 2", "sameas none", "sameas true",
         "escaped", "filter", "test", "greaterthan 1", "lessthan 2"]
METHODS = ["upper()", "lower()", "strip()", "strip('ab')", "lstrip()", "rstrip('\\n')", "split()", "split(',')",
           "split('a',1)", "rsplit('a',1)", "rsplit()", "startswith('a')", "endswith(('d','o'))", "startswith('ell',1)",
           "find('l')", "rfind('l')", "index('l')", "count('a')", "count('')", "replace('a','b')", "replace('l','',1)",
           "title()", "capitalize()", "join(ls)", "join(['a','b'])", "isalpha()", "isalnum()", "isspace()", "islower()",
           "isupper()", "istitle()", "isascii()", "zfill(6)", "center(9)", "center(9,'*')", "ljust(7)", "rjust(7,'.')",
           "partition('l')", "rpartition('l')", "splitlines()", "splitlines(true)", "removeprefix('He')",
           "removesuffix('o')", "format(1,2)", "format(x=1)", "get('a')", "get('q',7)", "items()", "keys()", "values()",
           "copy()", "index(2)", "count(1)", "append(1)", "update({})", "foo()", "isdecimal()", "split(sep='l')",
           "splitlines(keepends=true)", "split(none,1)", "split('l',-1)", "find('l',3)", "find('z',-2,10)"]
SLICES = [":", "::-1", "1:", ":2", "1:-1", "-2:", "::2", "::-2", "5:1:-1", "none:2", "-1::-1", ":n", "10:", "-10:2",
          ":0", "::-3", "100:0:-1"]
CALLS = ["range(3)", "range(1,4)", "range(5,0,-2)", "range(n)", "dict(a=1,b=2)", "namespace(v=1)", "m1({})", "m1()",
         "m2({}, b={})", "m2(1,2,3)", "loop.cycle('p','q')", "loop.changed(x)", "dict([('k',1)])", "m2(*[1,2])",
         "m2(**{{'a':5}})", "caller()"]
LOOP = ["loop.index", "loop.index0", "loop.first", "loop.last", "loop.length", "loop.revindex", "loop.revindex0",
        "loop.previtem", "loop.nextitem", "ns.v", "loop.depth"]
DATA = ["a", "\n", " ", " \n ", "  text  ", "\n\n", "x\n", "  ", ".", "\t", "é\n", "\r\n", "\n  ", "{ %", "} }", "#"]


class Writer:
    """Random templates; most of them mean something."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def pick(self, items):
        return self.rng.choice(items)

    def string(self):
        quote = self.pick("\"'")
        out = ""
        for c in self.pick(STRINGS):
            if c in (quote, "\\"):
                out += "\\" + c
            elif c == "\n" and self.rng.random() < 0.8:
                out += "\\n"
            else:
                out += c
        return quote + out + quote

    def literal(self, depth):
        r = self.rng.random()
        if r < 0.35:
            return self.string()
        if r < 0.6:
            return self.pick(NUMBERS)
        if r < 0.75:
            return self.pick(["true", "false", "none", "True", "None"])
        items = [self.expression(depth - 1) for _ in range(self.rng.randint(0, 3))]
        if r < 0.88:
            return "[" + ", ".join(items) + "]"
        if r < 0.94:
            return "{" + ", ".join(f"{self.pick([self.string(), self.pick(NUMBERS)])}: {i}" for i in items) + "}"
        return "(" + ", ".join(items + ["1", "'b'"][len(items[:2]):]) + ")"

    def postfix(self, depth):
        r = self.rng.random()
        if r < 0.3:
            return "." + self.pick("a b c k role content n items foo first 0 1 index tool_calls function keys".split())
        if r < 0.5:
            return "[" + self.pick(["0", "-1", "1", "5", "'a'", "'role'", "'foo'", "n", "'items'", "true", "none", "1.0",
                                    self.expression(depth - 1)]) + "]"
        return "[" + self.pick(SLICES) + "]" if r < 0.68 else "." + self.pick(METHODS)

    def expression(self, depth):
        rng, sub = self.rng, lambda: self.expression(depth - 1)
        if depth <= 0:
            return self.pick([self.pick(NAMES), self.pick(NAMES), self.string(), self.pick(NUMBERS),
                              self.pick(["true", "false", "none"])])
        r = rng.random()
        if r < 0.16:
            return self.pick(NAMES)
        if r < 0.26:
            return self.literal(depth)
        if r < 0.44:
            name = self.pick(list(FILTERS))
            return f"{sub()}|{name}{self.pick(FILTERS[name])}"
        if r < 0.56:
            base = self.pick([self.pick(NAMES), f"({sub()})", self.string()])
            after = self.postfix(depth)
            if base[0] == "(" and ":" in after:  # of constants jinja2 makes undefined, of values an error
                base = self.pick(NAMES)
            return base + after
        if r < 0.68:
            return f"{sub()} {self.pick('+ - * / // % ** ~ ~ + +'.split())} {sub()}"
        if r < 0.76:
            return f"{sub()} {self.pick(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])} {sub()}"
        if r < 0.82:
            return f"{sub()} {self.pick(['and', 'or'])} {sub()}"
        if r < 0.85:
            return self.pick(["not ", "-", "+", "not "]) + sub()
        if r < 0.90:
            return f"{sub()} is {self.pick(['', '', 'not '])}{self.pick(TESTS)}"
        if r < 0.93:
            return f"({sub()})"
        if r < 0.96:
            return f"{sub()} if {sub()}" + self.pick(["", f" else {sub()}"])
        return self.pick(CALLS).format(sub(), sub()) if r < 0.985 else self.pick(LOOP)

    def tag(self, words):
        return f"{{%{self.pick(['', '', '', '-', '+'])} {words} {self.pick(['', '', '', '-', '+'])}%}}"

    def data(self):
        return "".join(self.pick(DATA) for _ in range(self.rng.randint(0, 3)))

    def body(self, depth, in_loop=False):
        return "".join(self.data() + self.statement(depth, in_loop) + self.data()
                       for _ in range(self.rng.randint(1, 3)))

    def condition(self, depth, in_loop):
        out = self.tag("if " + self.expression(2)) + self.body(depth, in_loop)
        for _ in range(self.pick([0, 0, 1, 2])):
            out += self.tag("elif " + self.expression(2)) + self.body(depth, in_loop)
        if self.rng.random() < 0.5:
            out += self.tag("else") + self.body(depth, in_loop)
        return out + self.tag("endif")

    def loop(self, depth, in_loop):
        target = self.pick(["x", "x", "y", "x, y", "(x, y)", "x"])
        over = self.pick(["l", "ls", "msgs", "d", "d.items()", "d|items", "range(3)", "[1,2,3]", "ll", "s", "u", "undef",
                          "le", self.expression(1), "ls|map('upper')", "msgs|selectattr('n')", "msgs[::-1]",
                          "d|dictsort", "lm"])
        test = self.pick(["", "", "", " if x", " if x != 2", " if loop is undefined", " if ns.v"])
        out = self.tag(f"for {target} in {over}{test}") + self.body(depth, True)
        if self.rng.random() < 0.25:
            out += self.tag("else") + self.body(depth, in_loop)
        return out + self.tag("endfor")

    def statement(self, depth, in_loop=False):
        r = self.rng.random()
        if depth <= 0 or r < 0.35:
            return (f"{{{{{self.pick(['', '', '', '-', '+'])} {self.expression(self.rng.randint(0, 3))} "
                    f"{self.pick(['', '', '', '-'])}}}}}")
        if r < 0.47:
            return self.condition(depth - 1, in_loop)
        if r < 0.62:
            return self.loop(depth - 1, in_loop)
        if r < 0.74:
            target = self.pick(["x", "y", "ns.v", "x, y", "n", "s"])
            return self.tag(f"set {target} = {self.expression(2)}")
        if r < 0.79:
            return (self.tag("set " + self.pick(["x", "y"]) + self.pick(["", "|upper", " | trim | length"])) +
                    self.body(depth - 1) + self.tag("endset"))
        if r < 0.84:
            return (self.tag("macro " + self.pick(["m1(a)", "m2(a, b=1)", "m1(a='d', b=a)", "m2(a,b=x)", "m1()"])) +
                    self.body(depth - 1) +
                    self.pick(["", "{{a}}", "{{ a ~ b }}", "{{ varargs }}", "{{ kwargs }}", "{{ caller() }}"]) +
                    self.tag("endmacro"))
        if r < 0.87:
            return f"{{#{self.pick(['', '-', '+'])} c {self.pick(['', '-', '+'])}#}}"
        if r < 0.90:
            return (f"{{%{self.pick(['', '-', '+'])} raw {self.pick(['', '-'])}%}}" +
                    self.pick([" {{ x }}\n", "{% if %}\n  ", "\n a {#"]) + self.tag("endraw"))
        if r < 0.92:
            return (self.tag("with x = " + self.expression(1) + self.pick(["", ", y = x"])) +
                    self.body(depth - 1, in_loop) + self.tag("endwith"))
        if r < 0.94:
            return (self.tag("filter " + self.pick(["upper", "trim", "replace('a','b')|upper", "indent(2)"])) +
                    self.body(depth - 1) + self.tag("endfilter"))
        if r < 0.95:
            return self.tag("generation") + self.body(depth - 1) + self.tag("endgeneration")
        if r < 0.96:
            return (self.tag("call " + self.pick(["m1(1)", "m2(x)", "(q) m1(2)"])) + self.body(depth - 1) +
                    self.tag("endcall"))
        if r < 0.98 and in_loop:
            control = self.tag(self.pick(["break", "continue"]))
            return self.pick([control, self.tag("if " + self.expression(1)) + control + self.tag("endif")])
        return self.tag("print " + self.expression(1))

    def template(self):
        if self.rng.random() < 0.45:
            return "{{ " + self.expression(self.rng.randint(1, 4)) + " }}"
        out = "{% set ns = namespace(v=0) %}" if self.rng.random() < 0.5 else ""
        if self.rng.random() < 0.4:
            out += ("{% macro m1(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}"
                    "{% macro m2(a=none, b='q') %}{{ a ~ b ~ x }}{% endmacro %}\n")
        return out + self.body(self.rng.randint(1, 3)) + self.pick(["", "\n", "\n\n"])


def write():
    env = jinja_oracle.environment()
    variables = json.dumps(VARIABLES)
    writer = Writer(1)
    cases = [[template, jinja_oracle.render(env, template, variables)[0]] for template in language_list.ALL]
    seen = set(language_list.ALL)
    kept = collections.Counter()
    while kept["text"] + kept["refused"] < RANDOM_CASES:
        template = writer.template()
        text, _ = jinja_oracle.render(env, template, variables)
        kind = "refused" if text is None else "text"
        if template in seen or (kind == "refused" and kept[kind] > RANDOM_CASES // 4):
            continue
        if text is not None and "object at 0x" in text:  # an address in it
            continue
        seen.add(template)
        kept[kind] += 1
        cases.append([template, text])
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    OUT.write_text(f'{{"variables": {json.dumps(VARIABLES, ensure_ascii=False)},\n"cases": [\n{lines}\n]}}\n')
    print(f"{len(cases)} cases, {sum(text is None for _, text in cases)} of them refused by Python")


def compare(program, seed, count):
    env = jinja_oracle.environment()
    variables = json.dumps(VARIABLES)
    writer = Writer(seed)
    templates = [writer.template() for _ in range(count)]
    lines = "".join(json.dumps({"template": t, "variables": VARIABLES}) + "\n" for t in templates)
    answers = subprocess.run([program], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(answers) == count
    counts = collections.Counter()
    for template, answer in zip(templates, answers):
        answer = json.loads(answer)
        text, reason = jinja_oracle.render(env, template, variables)
        if text is not None and "object at 0x" in text:
            kind = "an address in the text"
        elif answer["status"] == "unsupported":
            kind = "unsupported"
        elif text is None:
            kind = "both refuse" if answer["status"] != "ok" else "DIFFERENT: only Python refuses"
        elif answer["status"] != "ok":
            kind = "DIFFERENT: only Python accepts"
        else:
            kind = "same text" if answer["text"] == text else "DIFFERENT text"
        counts[kind] += 1
        if kind.startswith("DIFFERENT") and counts[kind] <= 5:
            print(f"{kind}: {template!r}\n  Python {text!r} {reason}\n  here   {answer}")
    print(dict(counts))
    return any(kind.startswith("DIFFERENT") for kind in counts)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--compare":
        sys.exit(compare(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 1,
                         int(sys.argv[4]) if len(sys.argv) > 4 else 2000))
    write()
