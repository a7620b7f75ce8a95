"""Queries over two tables: derived tables, limits, subqueries, joins, grouping, set operations.

Where a LIMIT would leave a choice, the query before it is ordered by all of its columns, so that both sides
must take the same rows."""
import tables
from case import Case, Step
from values import bare

# Types that meet in comparisons and set operations.
FAMILY = {"smallint": "number", "integer": "number", "bigint": "number", "numeric": "number", "double precision": "number", "text": "text", "varchar(5)": "text",
          "char(3)": "char", "date": "date", "timestamp": "date", "timestamptz": "date", "boolean": "boolean", "bytea": "bytea", "interval": "interval", "real": "real", "uuid": "uuid",
          "oid": "number", "name": "text", '"char"': "text",
          "integer[]": "integer[]", "text[]": "text[]", "jsonb": "jsonb"}


class Scope:
    """The columns that can be named: (text, type)."""
    def __init__(self, columns, outer=()):
        self.columns, self.outer = columns, list(outer)

    def pick(self, rng, *types):
        fitting = [c for c in self.columns if not types or c[1] in types]
        return rng.choice(fitting) if fitting else None


class Maker:
    def __init__(self, rng, known):
        self.rng, self.known, self.names = rng, known, 0

    def name(self):
        self.names += 1
        return f"x{self.names}"

    # FROM

    def source(self, depth):
        """(text, columns)"""
        rng = self.rng
        alias = self.name()
        if depth > 0 and rng.random() < 0.4:
            if rng.random() < 0.15:
                rows, types = rng.randint(1, 4), [rng.choice(tables.COLUMN_TYPES) for _ in range(rng.randint(1, 3))]
                values = ", ".join("(" + ", ".join(self.constant(t) for t in types) + ")" for _ in range(rows))
                names = [f"v{i}" for i in range(len(types))]
                return f"(VALUES {values}) AS {alias} ({', '.join(names)})", [(f"{alias}.{n}", t) for n, t in zip(names, types)]
            text, columns = self.query(depth - 1)
            return f"({text}) AS {alias}", [(f"{alias}.{n}", t) for n, t in columns]
        table = rng.choice(self.known)
        return f"{table.name} AS {alias}", [(f"{alias}.{n}", t) for n, t in table.columns]

    def constant(self, ty, null=0.08):
        if self.rng.random() < null:
            return f"NULL::{ty}"
        return f"{bare(self.rng, ty, 0 if ty == 'double precision' else 0.04)}::{ty}"

    def sources(self, depth, outer=()):
        rng = self.rng
        text, columns = self.source(depth)
        for _ in range(rng.choice((0, 0, 0, 1, 1, 2)) if depth > 0 else rng.choice((0, 0, 1))):
            if rng.random() < 0.15:
                # What stands before it is its outer row.
                alias = self.name()
                inner, names = self.query(max(depth - 1, 0), outer=columns)
                more = [(f"{alias}.{n}", t) for n, t in names]
                kind = rng.choice(("CROSS JOIN", "LEFT JOIN", "LEFT JOIN", "JOIN"))
                on = "true" if rng.random() < 0.5 else self.condition(Scope(columns + more), 0)
                on = "" if kind == "CROSS JOIN" else f" ON {on}"
                text, columns = f"{text} {kind} LATERAL ({inner}) AS {alias}{on}", columns + more
                continue
            other, more = self.source(depth - 1)
            kind = rng.choice(("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", ","))
            if kind in ("CROSS JOIN", ","):
                text, columns = f"{text}{'' if kind == ',' else ' '}{kind} {other}", columns + more
                continue
            pairs = [(a, b) for a, t in columns for b, u in more if FAMILY[t] == FAMILY[u]]
            if not pairs:
                text, columns = f"{text} CROSS JOIN {other}", columns + more
                continue
            ids = [p for p in pairs if p[0].endswith(".id") and p[1].endswith(".id")]
            a, b = rng.choice(ids) if ids and rng.random() < 0.3 else rng.choice(pairs)
            condition = f"{a} = {b}"
            if kind != "FULL JOIN" and rng.random() < 0.25:
                condition += f" AND {self.condition(Scope(columns + more), 0)}"
            text, columns = f"{text} {kind} {other} ON {condition}", columns + more
            if ", " in text and kind != "JOIN":
                pass
        return text, columns

    # conditions

    def condition(self, scope, depth):
        rng = self.rng
        column, ty = scope.pick(rng)
        if scope.outer and rng.random() < 0.4:
            pairs = [(a, b) for a, t in scope.columns for b, u in scope.outer if FAMILY[t] == FAMILY[u]]
            if pairs:
                a, b = rng.choice(pairs)
                return f"{a} {rng.choice(('=', '=', '=', '<', '<>'))} {b}"
        roll = rng.random()
        if depth > 0 and roll < 0.2:
            return f"({self.condition(scope, depth - 1)} {rng.choice(('AND', 'AND', 'OR'))} {self.condition(scope, depth - 1)})"
        if depth > 0 and roll < 0.25:
            return f"NOT ({self.condition(scope, depth - 1)})"
        if depth > 0 and roll < 0.37:
            inner, columns = self.query(depth - 1, one=ty, outer=scope.columns if rng.random() < 0.4 else ())
            if columns:
                return rng.choice((f"{column} IN ({inner})", f"{column} IN ({inner})", f"{column} NOT IN ({inner})", f"{column} = ANY ({inner})", f"{column} < ALL ({inner})", f"{column} >= ANY ({inner})"))
        if depth > 0 and roll < 0.47:
            inner, _ = self.query(depth - 1, outer=scope.columns)
            return f"{rng.choice(('', 'NOT '))}EXISTS ({inner})"
        if depth > 0 and roll < 0.52:
            inner, columns = self.scalar(ty, depth - 1, scope)
            if inner:
                return f"{column} {rng.choice(('=', '<', '>=', '<>'))} {inner}"
        if roll < 0.6:
            return f"{column} IS {rng.choice(('', 'NOT '))}NULL"
        if roll < 0.72:
            values = ", ".join(self.constant(ty, 0.04) for _ in range(rng.choice((1, 2, 3, 5, 9))))
            return f"{column} {rng.choice(('', '', 'NOT '))}IN ({values})"
        if roll < 0.78:
            return f"{column} BETWEEN {self.constant(ty, 0.02)} AND {self.constant(ty, 0.02)}"
        if roll < 0.82:
            other = scope.pick(rng, *[t for t in FAMILY if FAMILY[t] == FAMILY[ty]])
            return f"{column} {rng.choice(('=', '<', '<>', 'IS DISTINCT FROM'))} {other[0]}"
        if roll < 0.85 and ty == "text":
            return f"{column} LIKE {rng.choice(('', ))}{rng.choice(('a', '%a%', 'a%', '_', '%'))!r}"
        if ty == "boolean" and roll < 0.93:
            return rng.choice((column, f"NOT {column}", f"{column} IS TRUE", f"{column} IS NOT FALSE"))
        return f"{column} {rng.choice(('=', '=', '=', '<', '>', '<=', '>=', '<>'))} {self.constant(ty, 0.02)}"

    def scalar(self, ty, depth, scope):
        """A subquery of one value of the type's family."""
        rng = self.rng
        text, columns = self.sources(0)
        inner = Scope(columns, scope.columns if rng.random() < 0.5 else ())
        fitting = [c for c, t in columns if t == ty]
        where = f" WHERE {self.condition(inner, 0)}" if rng.random() < 0.7 else ""
        if FAMILY[ty] == "number" and (not fitting or rng.random() < 0.3):
            return f"(SELECT count(*) FROM {text}{where})", True
        if not fitting or ty in ("boolean", "bytea"):
            return None, None
        column = rng.choice(fitting)
        if rng.random() < 0.5:
            return f"(SELECT {rng.choice(('min', 'max'))}({column}) FROM {text}{where})", True
        return f"(SELECT {column} FROM {text}{where} ORDER BY 1{rng.choice(('', ' DESC'))}{rng.choice(('', ' NULLS FIRST', ' NULLS LAST'))} LIMIT 1)", True

    # queries

    def item(self, scope, depth):
        rng = self.rng
        column, ty = scope.pick(rng)
        roll = rng.random()
        if roll < 0.7:
            return column, ty
        if roll < 0.78:
            return f"COALESCE({column}, {self.constant(ty, 0)})", ty
        if roll < 0.86:
            return f"CASE WHEN {self.condition(scope, 0)} THEN {column} ELSE {self.constant(ty)} END", ty
        if roll < 0.9 and depth > 0:
            inner, good = self.scalar("integer", depth - 1, scope)
            if good:
                return inner, "bigint"
        if FAMILY[ty] == "number" and ty != "double precision":
            return f"{column} {rng.choice(('+', '-', '*'))} {rng.choice((1, 2, 3))}", {"smallint": "integer"}.get(ty, ty)
        if FAMILY[ty] == "text":
            return f"{column} || 'x'", "text"
        return column, ty

    def aggregate(self, scope):
        rng = self.rng
        column, ty = scope.pick(rng)
        distinct = "DISTINCT " if rng.random() < 0.3 else ""
        kept = f" FILTER (WHERE {self.condition(scope, 0)})" if rng.random() < 0.15 else ""
        if FAMILY[ty] == "number" and rng.random() < 0.75:
            result = {"smallint": "bigint", "integer": "bigint", "bigint": "numeric"}.get(ty, ty)
            kind = rng.choice(("sum", "sum", "avg", "min", "max", "count", "stddev", "variance", "var_pop"))
            if kind in ("sum",):
                return f"sum({distinct}{column}){kept}", result
            if kind in ("min", "max"):
                return f"{kind}({distinct}{column}){kept}", ty
            if kind == "count":
                return f"count({distinct}{column}){kept}", "bigint"
            return f"{kind}({distinct}{column}){kept}", "double precision" if ty == "double precision" else "numeric"
        if ty == "boolean":
            return f"{rng.choice(('bool_and', 'bool_or', 'every'))}({distinct}{column}){kept}", "boolean"
        if ty in ("smallint", "integer", "bigint"):
            return f"{rng.choice(('bit_and', 'bit_or', 'bit_xor'))}({distinct}{column}){kept}", ty
        if ty == "text" and rng.random() < 0.4:
            return f"string_agg(DISTINCT {column}, ','){kept}", "text"
        if ty == "interval" and rng.random() < 0.4:
            return f"{rng.choice(('sum', 'avg'))}({distinct}{column}){kept}", "interval"
        if ty not in ("bytea", "boolean", "uuid") and rng.random() < 0.6:
            return f"{rng.choice(('min', 'max'))}({column}){kept}", {"varchar(5)": "text", "char(3)": "char(3)"}.get(ty, ty)
        if rng.random() < 0.5:
            return f"count({distinct}{column}){kept}", "bigint"
        return f"count(*){kept}", "bigint"

    def query(self, depth, one=None, outer=(), top=False):
        """(text, columns); `one`: a single column of the type's family."""
        rng = self.rng
        if depth > 0 and rng.random() < 0.12:
            return self.combined(depth, one, outer)
        text, columns = self.sources(depth, outer)
        scope = Scope(columns, outer)
        where = f" WHERE {self.condition(scope, min(depth, 1) if not top else 2)}" if rng.random() < 0.65 else ""
        n = 1 if one else rng.randint(1, 4)
        grouped = rng.random() < 0.2
        if grouped:
            keys = [scope.pick(rng) for _ in range(rng.choice((0, 1, 1, 2)))]
            items = list(dict.fromkeys(keys)) if not one else []
            items += [self.aggregate(scope) for _ in range(max(1, n - len(items)))]
            if one:
                fitting = [c for c in keys if FAMILY[c[1]] == FAMILY[one]]
                items = [fitting[0] if fitting else next((a for a in (self.aggregate(scope) for _ in range(6)) if FAMILY[a[1]] == FAMILY[one]), (f"min({self.constant(one)})", one))]
                if one in ("boolean", "bytea") and not fitting:
                    items = [(self.constant(one), one)]
                    keys = keys or [scope.pick(rng)]
            tail = f" GROUP BY {', '.join(dict.fromkeys(k for k, _ in keys))}" if keys else ""
            if rng.random() < 0.25:
                tail += f" HAVING count(*) {rng.choice(('>', '=', '<'))} {rng.choice((0, 1, 2, 3))}"
        else:
            tail = ""
            if one:
                fitting = [c for c in columns if FAMILY[c[1]] == FAMILY[one]]
                items = [rng.choice(fitting)] if fitting else [(self.constant(one), one)]
            else:
                items = [self.item(scope, depth) for _ in range(n)]
        distinct = "DISTINCT " if rng.random() < 0.18 else ""
        names = [f"o{i}" for i in range(len(items))]
        shown = ", ".join(f"{t} AS {name}" for (t, _), name in zip(items, names))
        sql = f"SELECT {distinct}{shown} FROM {text}{where}{tail}"
        return sql + self.tail(len(items), columns, distinct or grouped), list(zip(names, [t for _, t in items]))

    def tail(self, n, columns=(), plain=True):
        """ORDER BY and LIMIT."""
        rng = self.rng
        self.order = ()
        roll = rng.random()
        if roll < 0.45:
            return ""
        positions = list(range(1, n + 1))
        rng.shuffle(positions)
        if roll < 0.55:
            positions = positions[:1]
        order = " ORDER BY " + ", ".join(f"{p}{rng.choice(('', '', ' DESC'))}{rng.choice(('', '', ' NULLS FIRST', ' NULLS LAST'))}" for p in positions)
        self.order = tuple(p - 1 for p in positions)
        # Only an order that leaves no choice bears a LIMIT; char(n) and numeric have equal values that look
        # different.
        if len(positions) == n and rng.random() < 0.7:
            order += rng.choice((f" LIMIT {rng.choice((0, 1, 2, 2, 3, 5))}", f" LIMIT {rng.choice((1, 2, 4))} OFFSET {rng.choice((0, 1, 2))}", f" OFFSET {rng.choice((1, 3))}", " FETCH FIRST 2 ROWS ONLY", " LIMIT NULL"))
        return order

    def combined(self, depth, one=None, outer=()):
        rng = self.rng
        left, columns = self.query(0, one, outer)
        op = rng.choice(("UNION", "UNION ALL", "INTERSECT", "EXCEPT", "EXCEPT ALL", "INTERSECT ALL"))
        rights = []
        for _ in range(rng.choice((1, 1, 2))):
            table_text, more = self.sources(0)
            items = []
            for _, ty in columns:
                fitting = [c for c, t in more if t == ty]
                items.append(rng.choice(fitting) if fitting and rng.random() < 0.8 else self.constant(ty))
            where = f" WHERE {self.condition(Scope(more, outer), 0)}" if rng.random() < 0.5 else ""
            rights.append(f"(SELECT {', '.join(items)} FROM {table_text}{where})")
        text = f"({left}) {op} " + f" {rng.choice((op, 'UNION ALL'))} ".join(rights)
        return text + self.tail(len(columns)), columns


def query(rng, known):
    maker = Maker(rng, known)
    depth = rng.choice((0, 1, 1, 2, 2))
    if rng.random() < 0.1:
        name = "w1"
        inner, columns = maker.query(1)
        outer = Maker(rng, [tables.Table(name, columns)] + known)
        outer.names = 50
        text, _ = outer.query(max(depth, 1), top=True)
        return Step(f"WITH {name} AS ({inner}) {text}", order=outer.order)
    text, _ = maker.query(depth, top=True)
    return Step(text, order=maker.order)


def case(rng):
    known, steps = tables.two(rng)
    steps += [query(rng, known) for _ in range(30)]
    return Case("queries", steps)
