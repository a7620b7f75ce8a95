"""What is run on both sides: cases of steps, and what a step gave."""
from dataclasses import dataclass, field
from typing import Optional


@dataclass
class Step:
    """One statement. Rows are compared as a set with repetitions; `order` names the columns (from 0) whose
    sequence must be the same, too."""
    sql: str
    session: str = "main"
    order: tuple = ()
    data: Optional[str] = None      # of COPY FROM STDIN
    ondol: Optional[str] = None     # where Ondol has to be told otherwise
    made: bool = False              # makes what the case needs: kept when a case is made smaller, if it cannot go
    own_rows: Optional[list] = None  # the rows of an INSERT ... VALUES, which can be left out one by one; `sql` is what stands before them

    def text(self, side):
        sql = self.ondol if side == "ondol" and self.ondol is not None else self.sql
        return sql if self.own_rows is None else f"{sql} {', '.join(self.own_rows)}"


@dataclass
class Case:
    kind: str
    steps: list
    concurrent: bool = False        # several sessions, step by step
    source: Optional[str] = None    # the kind that it was made from, whose known differences are its own, too


@dataclass
class Outcome:
    """Either `tag` is there, or `sqlstate`, or the statement waits."""
    tag: Optional[str] = None
    columns: list = field(default_factory=list)
    types: list = field(default_factory=list)
    rows: list = field(default_factory=list)
    copied: str = ""
    sqlstate: Optional[str] = None
    message: str = ""
    waits: bool = False

    def text(self):
        if self.waits:
            return "waits for another session"
        if self.sqlstate:
            return f"{self.sqlstate} {self.message}"
        shown = [self.tag]
        if self.columns:
            shown.append(", ".join(f"{n} {t}" for n, t in zip(self.columns, self.types)))
        shown += ["  " + " | ".join("NULL" if v is None else v for v in row) for row in self.rows[:12]]
        if len(self.rows) > 12:
            shown.append(f"  ... {len(self.rows)} rows")
        if self.copied:
            shown.append(repr(self.copied[:600]))
        return "\n      ".join(shown)


class Gone(Exception):
    """A side ended, or gave no answer."""
