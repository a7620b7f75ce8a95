"""Statements of the other kinds that come again with other literals: one plan serves them all."""
import re

from case import Case, Step
from kinds import changes, keys, nested, queries, sets, views, windows

KINDS = (changes, keys, nested, queries, queries, sets, views, windows)
# What stands before a literal that may become a parameter; a quoted text, a comment or a number elsewhere stays.
LITERAL = re.compile(r"(?P<before>(?:<=|>=|<>|!=|[=<>+-])\s*)(?P<value>'(?:[^']|'')*'|\d+(?:\.\d+)?(?![\w.]))|'(?:[^']|'')*'|\"[^\"]*\"")
ITEM = re.compile(r"(?P<before>[(,]\s*)(?P<value>'(?:[^']|'')*'|-?\d+(?:\.\d+)?(?![\w.]))(?=\s*[,)])|'(?:[^']|'')*'")
NUMBERS = ("0", "1", "2", "3", "7", "10", "100", "32768", "2147483647", "2147483648", "3000000000", "9223372036854775808", "1.5", "0.0", "2.50", "1e2")
TEXTS = ("''", "'a'", "'b'", "'B'", "'1'", "' 2'", "'1.5'", "'zzz'", "'x''y'", "NULL")


def other(rng, value, known):
    if rng.random() < 0.3:
        return value
    if rng.random() < 0.4:
        alike = [k for k in known if k.startswith("'") == value.startswith("'") and not k.startswith("-")]
        return rng.choice(alike or [value])
    return rng.choice(TEXTS if value.startswith("'") else NUMBERS)


def changed(rng, sql, known, pattern=LITERAL):
    return pattern.sub(lambda m: m["before"] + other(rng, m["value"], known) if m["value"] else m[0], sql)


def case(rng):
    made = rng.choice(KINDS).case(rng)
    known = sorted({m["value"] for s in made.steps for p in (LITERAL, ITEM) for m in p.finditer(s.text("postgres")) if m["value"]})
    steps = []
    for step in made.steps:
        steps.append(step)
        word = step.sql.split(None, 1)[0].upper() if step.sql.strip() else ""
        # There other numbers are another amount of work, or objects that are others on both sides.
        left_out = re.search(r"RECURSIVE|generate_series|\bpg_|information_schema", step.sql)
        if left_out or step.data is not None or step.ondol is not None or word not in ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH"):
            continue
        for _ in range(rng.choice((1, 2, 3)) if not step.made else rng.choice((0, 0, 1))):
            if word == "INSERT":
                rows = None if step.own_rows is None else [changed(rng, row, known, ITEM) for row in step.own_rows]
                sql = step.sql if rows is not None else changed(rng, changed(rng, step.sql, known), known, ITEM)
            else:
                sql, rows = changed(rng, step.sql, known), None
            if sql != step.sql or rows != step.own_rows:
                steps.append(Step(sql, step.session, step.order, own_rows=rows))
    return Case("repeated", steps, source=made.kind)
