"""Tables of the cases: small ones with values that meet often, with and without indexes."""
from dataclasses import dataclass, field

from case import Step
from values import bare

COLUMN_TYPES = ["integer", "integer", "integer", "bigint", "smallint", "numeric", "text", "text", "varchar(5)", "char(3)", "date", "boolean", "double precision", "timestamp", "timestamptz", "bytea", "interval", "integer[]", "text[]", "jsonb"]


@dataclass
class Table:
    name: str
    columns: list                   # (name, type)
    key: bool = False               # id is a PRIMARY KEY
    unique: list = field(default_factory=list)

    def of(self, *types):
        return [n for n, t in self.columns if t in types]


def make(rng, name, rows=None, extra=None, key=None, indexes=None):
    """The table and the steps that make it. Column `id` is there, different in each row."""
    columns = [("id", rng.choice(("integer", "integer", "bigint")))]
    for i in range(rng.randint(2, 4) if extra is None else extra):
        columns.append(("abcdefg"[i], rng.choice(COLUMN_TYPES)))
    key = rng.random() < 0.6 if key is None else key
    indexes = rng.random() < 0.65 if indexes is None else indexes
    table = Table(name, columns, key)
    text = ", ".join(f"{n} {t}" + (" PRIMARY KEY" if key and n == "id" else "") for n, t in columns)
    steps = [Step(f"DROP TABLE IF EXISTS {name}", made=True), Step(f"CREATE TABLE {name} ({text})", made=True)]
    before = rng.random() < 0.5
    index_steps = []
    if indexes:
        for i in range(rng.choice((1, 1, 2, 3))):
            chosen = rng.sample([n for n, _ in columns], rng.choice((1, 1, 1, 2)))
            if rng.random() < 0.3 and len(chosen) == 1:
                index_steps.append(Step(f"CREATE INDEX {name}_i{i} ON {name} USING hash ({chosen[0]})", made=True))
            elif not key and i == 0 and rng.random() < 0.4:
                index_steps.append(Step(f"CREATE UNIQUE INDEX {name}_u ON {name} (id{rng.choice(('', ', a'))})", made=True))
            else:
                keys = [c + rng.choice(("", "", "", " DESC", " NULLS FIRST", " DESC NULLS LAST")) for c in chosen]
                plain = [c for c in chosen]
                index_steps.append(Step(f"CREATE INDEX {name}_i{i} ON {name} ({', '.join(keys)})", ondol=None if keys == plain else None, made=True))
    if before:
        steps += index_steps
    n = rng.choice((0, 3, 6, 10, 16, 25)) if rows is None else rows
    if n:
        values = ["(" + ", ".join([str(i + 1)] + [value(rng, t) for _, t in columns[1:]]) + ")" for i in range(n)]
        steps.append(Step(f"INSERT INTO {name} VALUES", own_rows=values, made=True))
    if not before:
        steps += index_steps
    return table, steps


def two(rng):
    """Tables t1 and t2, and the steps that make both."""
    (one, first), (other, second) = make(rng, "t1"), make(rng, "t2")
    return [one, other], first + second


def value(rng, ty, odd=0.04):
    # Floats that add up to the same in any order.
    return "NULL" if rng.random() < 0.15 else bare(rng, ty, 0 if ty in ("double precision",) else odd)
