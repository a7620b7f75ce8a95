"""Making a case smaller that shows a difference."""
import copy
import re
import time

from case import Case
from run import differences

TOKEN = re.compile(r"'(?:[^']|'')*'|\w+(?:\.\w+)*|::|<>|<=|>=|\|\||\S")


def spans(tokens, size):
    """Where `size` tokens can be left out with parentheses that match."""
    for at in range(0, len(tokens) - size + 1):
        part = tokens[at:at + size]
        depth = low = 0
        for t in part:
            depth += (t == "(") - (t == ")")
            low = min(low, depth)
        if depth == 0 and low == 0:
            yield at


class Smaller:
    def __init__(self, both, seconds=6):
        self.both, self.seconds = both, seconds

    def shows(self, case, wanted):
        if time.monotonic() > self.end:
            return None
        found, _ = differences(case, self.both.alone(case))
        return next((d for d in found if d.what == wanted.what and d.signature() == wanted.signature() and d.step.sql.split()[0] == wanted.step.sql.split()[0]), None)

    def of(self, difference):
        self.end = time.monotonic() + self.seconds
        best = difference
        case = Case(difference.case.kind, difference.case.steps[:] if difference.case.concurrent else difference.case.steps[:difference.at + 1], difference.case.concurrent)
        again = self.shows(case, difference)
        if again is None:
            difference.unsteady = True
            return difference
        best, case = again, again.case
        # Statements, many at first.
        size = max(1, len(case.steps) // 2)
        while size:
            at = len(case.steps) - size
            while at >= 0:
                kept = [s for s in case.steps[at:at + size] if s.sql.startswith("DROP TABLE IF EXISTS")]
                if len(kept) == size:
                    at -= size
                    continue
                smaller = Case(case.kind, case.steps[:at] + kept + case.steps[at + size:], case.concurrent)
                found = smaller.steps and self.shows(smaller, best)
                if found:
                    best, case = found, smaller
                at -= size
            size //= 2
        # Rows of an INSERT.
        for i, step in enumerate(case.steps):
            if step.own_rows:
                n = len(step.own_rows) - 1
                while n >= 0 and len(case.steps[i].own_rows) > 1:
                    changed = copy.copy(case.steps[i])
                    changed.own_rows = changed.own_rows[:n] + changed.own_rows[n + 1:]
                    smaller = Case(case.kind, case.steps[:i] + [changed] + case.steps[i + 1:], case.concurrent)
                    found = self.shows(smaller, best)
                    if found:
                        best, case = found, smaller
                    n -= 1
        # Words of the statement that differs.
        if not case.concurrent and best.what not in ("gone",):
            for size in (40, 24, 16, 12, 9, 7, 6, 5, 4, 3, 2, 1):
                again = True
                while again and time.monotonic() < self.end:
                    again = False
                    i = case.steps.index(best.step) if best.step in case.steps else len(case.steps) - 1
                    tokens = TOKEN.findall(case.steps[i].sql)
                    for at in spans(tokens, size):
                        changed = copy.copy(case.steps[i])
                        changed.sql, changed.order = " ".join(tokens[:at] + tokens[at + size:]), changed.order if best.what == "order" else ()
                        if not changed.sql:
                            continue
                        smaller = Case(case.kind, case.steps[:i] + [changed] + case.steps[i + 1:])
                        found = self.shows(smaller, best)
                        if found:
                            best, case, again = found, smaller, True
                            break
        best.case = case
        best.at = len(case.steps) - 1
        return best


def script(case):
    """The case as SQL."""
    lines, session = [], "main"
    for step in case.steps:
        if step.session != session and case.concurrent:
            session = step.session
            lines.append(f"\\session {session}")
        lines.append(step.text("ondol") + ";")
        if step.data is not None:
            lines.append(step.data + "\\.")
    return "\n".join(lines)
