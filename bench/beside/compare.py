"""Comparing what both sides gave, and the known-wrong variants that a comparison must notice."""
import copy
import os
import re
from collections import Counter
from dataclasses import dataclass

from case import Outcome

# What is a wrong answer, and not only another refusal.
WRONG = ("rows", "order", "copied", "tag", "gone")
CHOOSES = re.compile(r"\b(DISTINCT|UNION|INTERSECT|EXCEPT|GROUP BY|LIMIT|FETCH|OFFSET|min|max|ORDER BY|IN|USING)\b", re.I)


@dataclass
class Difference:
    kind: str
    what: str
    step: object
    postgres: Outcome
    ondol: Outcome
    case: object = None
    at: int = 0
    reason: str = ""

    def signature(self):
        if self.what in ("state", "refused", "accepted"):
            shown = re.sub(r'"[^"]*"|\d+', "*", f"{self.postgres.sqlstate or 'rows'} beside {self.ondol.sqlstate or 'rows'} {self.ondol.message or self.postgres.message}")
            return f"{self.what}: {shown[:110]}"
        return f"{self.what}: {self.step.sql.split()[0]}"


def looks(value, ty):
    """A value, so that equal ones of different looks are the same: numeric by its scale, char(n) and text by
    trailing blanks, floats by the sign of zero, intervals by their units."""
    if value is None:
        return None
    if ty.startswith("numeric"):
        return (value.rstrip("0").rstrip(".") or "0") if "." in value else value
    if ty.startswith("character") or ty in ("text", "bpchar"):
        return value.rstrip(" ")
    if ty in ("double precision", "real") and value == "-0":
        return "0"
    if ty.startswith("interval"):
        return span(value)
    return value


def span(text):
    """The length of an interval in microseconds, with days of 24 hours and months of 30 days."""
    total = 0
    for number, unit in re.findall(r"([-+]?\d+) (year|mon|day)", text):
        total += int(number) * {"year": 360, "mon": 30, "day": 1}[unit] * 86_400_000_000
    for sign, hours, minutes, seconds, decimals in re.findall(r"([-+]?)(\d+):(\d+):(\d+)\.?(\d*)", text):
        time = ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000_000 + int(decimals.ljust(6, "0"))
        total += -time if sign == "-" else time
    return total


def rounded(value, ty):
    try:
        return f"{float(value):.13g}" if ty == "double precision" and value is not None else value
    except ValueError:
        return value


def compare(step, postgres, ondol):
    """What differs, or None."""
    p, o = postgres, ondol
    if p.waits or o.waits:
        return None if p.waits == o.waits else "waits"
    if p.sqlstate or o.sqlstate:
        if p.sqlstate == o.sqlstate:
            return None
        if not p.sqlstate:
            return "unsupported" if o.sqlstate == "0A000" else "refused"
        return "state" if o.sqlstate else "accepted"
    if p.columns != o.columns:
        return "names"
    # What a user has defined PostgreSQL's protocol names by a number alone.
    shown = [b if a.isdigit() and int(a) >= 16384 else a for a, b in zip(p.types, o.types)]
    if shown != o.types:
        plain = [[re.sub(r"\(.*?\)", "", t).replace("bpchar", "character") for t in side.types] for side in (p, o)]
        return "modifier" if plain[0] == plain[1] else "types"
    if p.rows != o.rows and Counter(p.rows) != Counter(o.rows):
        if CHOOSES.search(step.sql):
            seen = [Counter(tuple(map(looks, row, p.types)) for row in side.rows) for side in (p, o)]
            if seen[0] == seen[1]:
                return "looks"
        if "double precision" in p.types:
            seen = [Counter(tuple(map(rounded, row, p.types)) for row in side.rows) for side in (p, o)]
            if seen[0] == seen[1]:
                return "rounding"
        return "rows"
    if step.order and p.rows != o.rows:
        order = [[tuple(looks(row[i], p.types[i]) for i in step.order) for row in side.rows] for side in (p, o)]
        if order[0] != order[1]:
            return "order"
    if p.copied != o.copied:
        return "copied"
    return None if p.tag == o.tag else "tag"


def variants(step, outcome):
    """(name, a wrong outcome), for what the outcome is."""
    def with_(**changes):
        other = copy.copy(outcome)
        for key, value in changes.items():
            setattr(other, key, value)
        return other
    o = outcome
    if o.waits:
        yield "goes on in place of waiting", Outcome(tag="UPDATE 1")
        return
    yield "waits in place of going on", Outcome(waits=True)
    if o.sqlstate:
        yield "another SQLSTATE", with_(sqlstate="XX000")
        yield "rows in place of an error", Outcome(tag="SELECT 0")
        return
    yield "an error in place of a result", Outcome(sqlstate="22012", message="division by zero")
    yield "another tag", with_(tag=(o.tag or "") + "0")
    if o.copied:
        yield "a character of COPY's data lost", with_(copied=o.copied[:-2] + o.copied[-1:])
    if o.columns:
        yield "a column's name", with_(columns=[o.columns[0] + "x", *o.columns[1:]])
        yield "a column's type", with_(types=["bigint" if o.types[0] != "bigint" else "integer", *o.types[1:]])
    if o.rows:
        yield "a row lost", with_(rows=o.rows[:-1])
        yield "a row twice", with_(rows=o.rows + o.rows[:1])
        first = o.rows[0]
        if first:
            yield "NULL for a value, or a value for NULL", with_(rows=[(("" if first[0] is None else None), *first[1:]), *o.rows[1:]])
            if first[0] is not None:
                yield "another value", with_(rows=[("~" + first[0], *first[1:]), *o.rows[1:]])
        for a, b in zip(o.rows, o.rows[1:]):
            if step.order and [looks(a[i], o.types[i]) for i in step.order] != [looks(b[i], o.types[i]) for i in step.order]:
                yield "rows in another order", with_(rows=list(reversed(o.rows)))
                break
    else:
        if o.columns:
            yield "a row too many", with_(rows=[tuple("0" for _ in o.columns)])


class Reasons:
    """Known differences: reasons.txt has a sentence for each, and what it is true of."""
    def __init__(self):
        self.all, now = [], None
        for line in open(os.path.join(os.path.dirname(__file__), "reasons.txt"), encoding="utf-8"):
            line = line.rstrip("\n")
            if not line or line.startswith("#"):
                continue
            if line.startswith("    "):
                key, _, pattern = line.strip().partition(": ")
                assert key in ("kind", "what", "sql", "case", "postgres", "ondol"), line
                now[1][key] = re.compile(pattern, re.S)
            else:
                now = (line, {})
                self.all.append(now)

    def of(self, d):
        texts = {"kind": d.case.source or d.kind, "what": d.what, "sql": d.step.text("ondol"), "case": "; ".join(s.sql for s in d.case.steps), "postgres": d.postgres.text(), "ondol": d.ondol.text()}
        for sentence, patterns in self.all:
            if all(p.search(texts[key]) for key, p in patterns.items()):
                return sentence
        return ""
