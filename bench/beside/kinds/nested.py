"""Queries nested in each other, over four small tables of integers with NULLs whose values meet often: what a
planner turns into joins, pushes down, makes once or takes away. Every column is an integer, so that nearly all
statements have an answer."""
from case import Case, Step

TABLES = {"p": ("id", "a", "b"), "q": ("id", "a", "c"), "r": ("a", "b", "c"), "s": ("id", "a")}


def tables(rng):
    steps = []
    for name, columns in TABLES.items():
        key = "id" in columns and rng.random() < 0.7
        text = ", ".join(f"{c} integer" + (" PRIMARY KEY" if key and c == "id" else "") for c in columns)
        steps += [Step(f"DROP TABLE IF EXISTS {name}", made=True), Step(f"CREATE TABLE {name} ({text})", made=True)]
        if rng.random() < 0.4:
            steps.append(Step(f"CREATE INDEX {name}_i ON {name} ({rng.choice(columns[1:])})", made=True))
        rows = []
        for n in range(rng.choice((0, 1, 4, 8, 14))):
            values = [str(n + 1) if c == "id" else "NULL" if rng.random() < 0.2 else str(rng.randint(0, 5)) for c in columns]
            rows.append("(" + ", ".join(values) + ")")
        if rows:
            steps.append(Step(f"INSERT INTO {name} VALUES", own_rows=rows, made=True))
    return steps


class Maker:
    def __init__(self, rng):
        self.rng, self.names, self.with_queries = rng, 0, {}

    def name(self):
        self.names += 1
        return f"x{self.names}"

    def chance(self, share):
        return self.rng.random() < share

    # FROM

    def source(self, depth, outer):
        """(text, columns) of one item."""
        rng, alias = self.rng, self.name()
        if self.with_queries and self.chance(0.35):
            name = rng.choice(list(self.with_queries))
            return f"{name} AS {alias}", [f"{alias}.{c}" for c in self.with_queries[name]]
        if depth > 0 and self.chance(0.35):
            text, columns = self.query(depth - 1, outer)
            return f"({text}) AS {alias}", [f"{alias}.{c}" for c in columns]
        name = rng.choice(list(TABLES))
        return f"{name} AS {alias}", [f"{alias}.{c}" for c in TABLES[name]]

    def sources(self, depth, outer):
        rng = self.rng
        text, columns = self.source(depth, outer)
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            other, more = self.source(depth - 1, outer)
            kind = rng.choice(("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
            on = f"{rng.choice(columns)} = {rng.choice(more)}"
            if kind != "FULL JOIN" and self.chance(0.3):
                on += f" AND {self.condition(columns + more, [], 0)}"
            text, columns = f"{text} {kind} {other} ON {on}", columns + more
        return text, columns

    # conditions

    def condition(self, columns, outer, depth):
        rng, roll, column = self.rng, self.rng.random(), self.rng.choice(columns)
        if outer and self.chance(0.3):
            return f"{column} {rng.choice(('=', '=', '=', '=', '<', '<>'))} {rng.choice(outer)}"
        if depth > 0 and roll < 0.14:
            word = rng.choice(("AND", "AND", "OR"))
            return f"({self.condition(columns, outer, depth - 1)} {word} {self.condition(columns, outer, depth - 1)})"
        if depth > 0 and roll < 0.34:
            inner, _ = self.query(depth - 1, columns + outer)
            return f"{rng.choice(('', '', 'NOT '))}EXISTS ({inner})"
        if depth > 0 and roll < 0.5:
            inner, _ = self.query(depth - 1, columns + outer if self.chance(0.6) else [], one=True)
            return f"{column} {rng.choice(('IN', 'IN', 'NOT IN', '= ANY', '< ALL'))} ({inner})"
        if depth > 0 and roll < 0.64:
            return f"{column} {rng.choice(('=', '<', '>=', '<>'))} {self.value(depth - 1, columns + outer)}"
        if roll < 0.72:
            return f"{column} IS {rng.choice(('', 'NOT '))}NULL"
        if roll < 0.78:
            return f"{column} IN ({rng.randint(0, 5)}, {rng.randint(0, 5)})"
        if roll < 0.84:
            return f"{column} {rng.choice(('=', '=', '<', 'IS NOT DISTINCT FROM'))} {rng.choice(columns)}"
        return f"{column} {rng.choice(('=', '=', '<', '>=', '<>'))} {rng.randint(0, 5)}"

    def where(self, columns, outer, depth, share=0.75):
        if not self.chance(share):
            return ""
        return " WHERE " + " AND ".join(self.condition(columns, outer, depth) for _ in range(self.rng.choice((1, 1, 2, 3))))

    def aggregate(self, columns):
        rng = self.rng
        call = rng.choice(("count(*)", "count({})", "sum({})", "min({})", "max({})", "count(DISTINCT {})"))
        return call.format(rng.choice(columns))

    def value(self, depth, outer):
        """A subquery of one value."""
        text, columns = self.sources(0, outer)
        call = self.aggregate(columns)
        if self.chance(0.2):
            call += f" {self.rng.choice(('+', '*'))} {self.rng.randint(1, 3)}"
        return f"(SELECT {call} FROM {text}{self.where(columns, outer, depth, 0.9)})"

    # queries

    def query(self, depth, outer=(), one=False):
        """(text, names of its columns)"""
        rng, outer = self.rng, list(outer)
        if depth > 0 and self.chance(0.12):
            op = rng.choice(("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL"))
            n = 1 if one else rng.randint(1, 3)
            left, right = self.plain(depth - 1, outer, n), self.plain(depth - 1, outer, n)
            return f"({left}) {op} ({right})" + self.tail(n), [f"o{i}" for i in range(n)]
        if depth > 0 and self.chance(0.1):
            name, seen = self.name(), dict(self.with_queries)
            inner, columns = self.query(depth - 1, outer)
            self.with_queries[name] = columns
            text, names = self.query(depth - 1, outer, one)
            self.with_queries = seen
            how = rng.choice(("AS", "AS", "AS MATERIALIZED", "AS NOT MATERIALIZED"))
            return f"WITH {name} {how} ({inner}) {text}", names
        n = 1 if one else rng.randint(1, 3)
        return self.plain(depth, outer, n) + self.tail(n), [f"o{i}" for i in range(n)]

    def plain(self, depth, outer, n):
        rng = self.rng
        text, columns = self.sources(depth, outer)
        where = self.where(columns, outer, depth)
        tail = ""
        if self.chance(0.25):
            keys = [rng.choice(columns) for _ in range(rng.choice((0, 1, 1, 2)))]
            items = (keys + [self.aggregate(columns) for _ in range(n)])[:n] if keys else [self.aggregate(columns) for _ in range(n)]
            tail = " GROUP BY " + ", ".join(dict.fromkeys(keys)) if keys else ""
            if self.chance(0.3):
                tail += f" HAVING {self.aggregate(columns)} {rng.choice(('>', '=', '<'))} {rng.randint(0, 4)}"
            if keys and self.chance(0.2):
                tail += (" AND " if "HAVING" in tail else " HAVING ") + f"{keys[0]} > {rng.randint(0, 3)}"
        else:
            items = [rng.choice(columns) for _ in range(n)]
            if self.chance(0.15):
                items[0] += f" + {rng.randint(1, 3)}"
            if self.chance(0.12):
                items[-1] = f"coalesce({items[-1]}, {rng.randint(0, 9)})"
            if depth > 0 and self.chance(0.15):
                items[0] = self.value(depth - 1, columns)
        shown = ", ".join(f"{item} AS o{i}" for i, item in enumerate(items))
        return f"SELECT {rng.choice(('', '', '', '', 'DISTINCT '))}{shown} FROM {text}{where}{tail}"

    def tail(self, n):
        """An order by all columns, which leaves a LIMIT no choice."""
        rng = self.rng
        if not self.chance(0.25):
            return ""
        order = ", ".join(f"{i + 1}{rng.choice(('', ' DESC'))}" for i in range(n))
        return f" ORDER BY {order}" + rng.choice(("", f" LIMIT {rng.randint(0, 4)}", f" OFFSET {rng.randint(0, 2)}"))


def case(rng):
    return Case("nested", tables(rng) + [Step(Maker(rng).query(rng.choice((1, 2, 2, 3)))[0]) for _ in range(30)])
