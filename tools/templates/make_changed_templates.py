#!/usr/bin/env python3
"""Writes tests/fixtures/chat/changed.json.gz: the six templates with small changes, and what Python
makes of conversations then. No interpreter that knows the six by heart survives this.

A changed template is stored as edits of the original: [byte offset, bytes removed, text inserted],
from the end of the file to its beginning. Changes: other literals, bodies and conditions of
branches exchanged, conditions negated, white space control flipped, other numbers and slices, and
variables with other names.

    python3 tools/templates/make_changed_templates.py [SEED]
"""
import gzip
import json
import pathlib
import random
import re
import sys

import jinja_oracle

CHANGED_PER_TEMPLATE = 60
CONVERSATIONS_PER_CHANGED = 3
ROOT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "chat"
TAG = re.compile(r"\{%.*?%\}|\{\{.*?\}\}", re.S)
STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.S)
WORDS = ["<|begin|>", "é", "日本 ", "\\n\\n", "==", "x", " ", "<b>&amp;</b>", "\\t|", "it is", "[", "0"]


class Change:
    """Edits of one text that do not overlap."""

    def __init__(self, text):
        self.text, self.edits = text, []

    def replace(self, start, end, new):
        if all(end <= s or start >= e for s, e, _ in self.edits):
            self.edits.append((start, end, new))

    def result(self):
        out = self.text
        for start, end, new in sorted(self.edits, reverse=True):
            out = out[:start] + new + out[end:]
        return out

    def stored(self):
        def at(index):
            return len(self.text[:index].encode())
        return [[at(s), at(e) - at(s), new] for s, e, new in sorted(self.edits, reverse=True)]


def strings_in_tags(text):
    for tag in TAG.finditer(text):
        for string in STRING.finditer(tag.group()):
            yield tag.start() + string.start(), tag.start() + string.end()


def other_literals(change, rng):
    places = list(strings_in_tags(change.text))
    for start, end in rng.sample(places, min(len(places), rng.randint(1, 5))):
        old = change.text[start:end]
        body = rng.choice([rng.choice(WORDS), old[1:-1] + rng.choice(WORDS),
                           rng.choice(WORDS) + old[1:-1], old[1:-1].upper().replace("\\N", "\\n")])
        if '"' in body.replace('\\"', "") and old[0] == '"':
            continue
        change.replace(start, end, old[0] + body.replace(old[0], "") + old[0])


def branches(text):
    """Lists of (condition span, body span) of every if ... endif; else has no condition."""
    stack, found = [], []
    for tag in TAG.finditer(text):
        match = re.match(r"\{%[-+]?\s*(if|elif|else|endif|for|endfor|macro|endmacro)\b(.*?)[-+]?%\}",
                         tag.group(), re.S)
        if not match:
            continue
        word = match.group(1)
        condition = (tag.start() + match.start(2), tag.start() + match.end(2))
        if word in ("for", "macro"):
            stack.append(None)
        elif word in ("endfor", "endmacro"):
            stack.pop()
        elif word == "if":
            stack.append([[condition, tag.end(), None]])
        elif stack and stack[-1] is not None:
            stack[-1][-1][2] = tag.start()
            if word == "endif":
                found.append([(c, (b, e)) for c, b, e in stack.pop()])
            else:
                stack[-1].append([condition if word == "elif" else None, tag.end(), None])
    return found


def exchange(change, a, b):
    text = change.text
    first, second = sorted([a, b])
    change.replace(first[0], first[1], text[second[0]:second[1]])
    change.replace(second[0], second[1], text[first[0]:first[1]])


def other_branches(change, rng):
    chains = [chain for chain in branches(change.text) if len(chain) > 1]
    if not chains:
        return
    chain = rng.choice(chains)
    i, j = rng.sample(range(len(chain)), 2)
    if chain[i][0] and chain[j][0] and rng.random() < 0.7:  # both have conditions: reorder them whole
        exchange(change, chain[i][0], chain[j][0])
        if rng.random() < 0.7:
            exchange(change, chain[i][1], chain[j][1])
    else:
        exchange(change, chain[i][1], chain[j][1])


def negated(change, rng):
    chain = rng.choice(branches(change.text))
    start, end = chain[0][0]
    change.replace(start, end, f" not ({change.text[start:end].strip()}) ")


def other_space(change, rng):
    for tag in rng.sample(list(TAG.finditer(change.text)), 3):
        side = rng.choice([tag.start() + 2, tag.end() - 3])
        if change.text[side] == "-":
            change.replace(side, side + 1, rng.choice(["", "", "+"]) if side < tag.end() - 3 or
                           tag.group().startswith("{%") else "")


def other_numbers(change, rng):
    swaps = [("[::-1]", rng.choice(["[1:]", "[:-1]", "[::2]", "[-1:]"])), ("[1:]", "[0:]"),
             ("[0]", rng.choice(["[-1]", "[1]"])), ("[-1]", "[0]"), ("- 1", "- 2"), ("+ 1", "+ 2"),
             ("> 0", ">= 0"), ("loop.index0", "loop.index"), ("|trim", "|upper"), ("'system'", "'user'"),
             ("is none", "is not none"), ("loop.first", "loop.last"), (".lstrip(", ".rstrip(")]
    rng.shuffle(swaps)
    for old, new in swaps:
        places = [m.start() for m in re.finditer(re.escape(old), change.text)]
        if places:
            start = rng.choice(places)
            change.replace(start, start + len(old), new)
            return


def other_names(change, rng):
    name = rng.choice(["content", "message", "reasoning_content", "tool_call", "tool", "ns", "args_value"])
    new = rng.choice(["x1", "Message_", "loop2", "items"])
    for tag in TAG.finditer(change.text):
        inside = STRING.sub(lambda m: " " * len(m.group()), tag.group())
        for place in re.finditer(rf"(?<![\w.]){name}\b", inside):
            change.replace(tag.start() + place.start(), tag.start() + place.end(), new)


def main():
    rng = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    env = jinja_oracle.environment(exact=True)
    out = []
    for source in sorted(ROOT.glob("qwen*.json")):
        data = json.loads(source.read_text())
        text = (ROOT / data["template"]).read_text()
        for _ in range(CHANGED_PER_TEMPLATE):
            change = Change(text)
            kinds = [other_literals, other_branches, other_branches, negated, other_space,
                     other_numbers, other_names]
            for kind in rng.sample(kinds, rng.choice([1, 1, 2])):
                kind(change, rng)
            for case in rng.sample(data["cases"], CONVERSATIONS_PER_CHANGED):
                variables = {"tools": None, **case["input"]}
                text_or_none, _ = jinja_oracle.render(env, change.result(), json.dumps(variables))
                out.append({"file": source.name, "case": case["name"], "edits": change.stored(),
                            "expected": text_or_none})
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in out)
    (ROOT / "changed.json.gz").write_bytes(gzip.compress(f"[\n{lines}\n]\n".encode(), mtime=0))
    refused = sum(case["expected"] is None for case in out)
    print(f"{len(out)} cases, {refused} of them refused by Python")


main()
