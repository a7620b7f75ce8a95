"""Functions over windows: partitions, orders, frames of all units and types, exclusions, named windows, over tables,
groups and other windows. Where what a function gives depends on the order of peers, the order is made whole by `id`."""
from case import Case, Step

COLUMNS = {
    "p": ("integer", ("1", "1", "2", "3")), "s": ("text", ("'a'", "'b'", "'a '", "'ab'", "''")), "c": ("char(3)", ("'a'", "'b'", "'ab'")),
    "i2": ("smallint", ("0", "1", "2", "5", "32767", "-32768")), "i4": ("integer", ("0", "1", "2", "3", "7", "-1", "2147483647")),
    "i8": ("bigint", ("0", "1", "4", "9", "9223372036854775807", "-9223372036854775808")), "n": ("numeric", ("0", "1", "1.0", "1.5", "2.00", "-0.5", "'NaN'", "'Infinity'", "'-Infinity'")),
    "f": ("double precision", ("0", "1", "1.5", "2", "-0.5", "'NaN'", "'Infinity'", "'-Infinity'")), "r": ("real", ("0", "1", "1.5", "2", "'Infinity'")),
    "d": ("date", ("'2020-01-01'", "'2020-01-02'", "'2020-02-29'", "'2020-03-31'", "'infinity'", "'-infinity'")),
    "ts": ("timestamp", ("'2020-01-01'", "'2020-01-01 12:00'", "'2020-01-31'", "'2020-02-29'", "'infinity'")), "tz": ("timestamptz", ("'2020-03-28 12:00+00'", "'2020-03-29 12:00+00'", "'2020-03-30 12:00+00'", "'-infinity'")),
    "iv": ("interval", ("'1 day'", "'24:00'", "'1 mon'", "'-1 day'", "'40 days'")), "tm": ("time", ("'00:00'", "'12:00'", "'12:30'", "'23:59:59'", "'24:00'")),
    "ttz": ("timetz", ("'00:00+00'", "'12:00+02'", "'12:30-01'", "'10:00+00'")), "b": ("boolean", ("true", "false")),
}
NUMBERS = ("1", "1", "2", "0", "3", "2::smallint", "3::bigint", "9223372036854775807", "-1", "NULL", "'1'", "1 + 1")
SPANS = ("'1 day'", "'1 mon'", "'12:00'", "'1 day'::interval", "'1 year'", "'0'", "'-1 day'", "NULL", "'-1 mon +40 days'")
DISTANCES = {
    "i2": NUMBERS, "i4": NUMBERS, "i8": NUMBERS, "n": ("1", "0.5", "1.5", "0", "'NaN'", "'Infinity'", "-0.1", "NULL", "1::smallint"),
    "f": ("1", "0.5", "'Infinity'", "0", "'NaN'", "-1", "1.5::numeric", "1::real"), "r": ("1", "0.5", "'Infinity'", "-1"),
    "d": SPANS, "ts": SPANS, "tz": SPANS, "iv": SPANS, "tm": SPANS, "ttz": SPANS, "s": ("1",), "b": ("true",), "c": ("1",), "p": NUMBERS,
}
EXACT = ("i2", "i4", "n", "p")


class Maker:
    def __init__(self, rng):
        self.rng = rng

    def chance(self, share):
        return self.rng.random() < share

    def column(self):
        return self.rng.choice(list(COLUMNS))

    def key(self, name=None):
        name = name or self.rng.choice((self.column(), self.column(), "i4 % 2", "coalesce(n, 0)", "p + 1", "s || 'x'"))
        return name + self.rng.choice(("", "", "", " DESC", " NULLS FIRST", " DESC NULLS LAST"))

    def bounds(self, distances):
        rng = self.rng
        one = lambda: rng.choice(distances)
        starts = [("UNBOUNDED PRECEDING", 0), (f"{one()} PRECEDING", 1), ("CURRENT ROW", 2), (f"{one()} FOLLOWING", 3)]
        ends = [(f"{one()} PRECEDING", 1), ("CURRENT ROW", 2), (f"{one()} FOLLOWING", 3), ("UNBOUNDED FOLLOWING", 4)]
        if self.chance(0.2):
            return rng.choice(starts[:3])[0]
        start = rng.choice(starts)
        end = rng.choice([e for e in ends if e[1] >= start[1] or self.chance(0.03)] or ends)
        return f"BETWEEN {start[0]} AND {end[0]}"

    def exclude(self):
        return self.rng.choice(("", "", "", "", " EXCLUDE CURRENT ROW", " EXCLUDE GROUP", " EXCLUDE TIES", " EXCLUDE NO OTHERS"))

    def window(self):
        """(what stands in parentheses, whether the order of peers shows nowhere)"""
        rng = self.rng
        partition = f"PARTITION BY {rng.choice(('p', 'p', 's', 'c', 'b', 'p, b', 'i4 % 2', 'n', 'f', '1'))} " if self.chance(0.6) else ""
        kind = rng.choice(("whole", "whole", "peers", "range", "rows", "rows", "groups", "plain", "none"))
        if kind == "none":
            return partition.strip(), False
        if kind == "plain":
            return partition + f"ORDER BY {self.key()}", False
        if kind == "whole":
            return partition + f"ORDER BY {self.key()}, id{rng.choice(('', ' DESC'))}", True
        if kind == "rows":
            return partition + f"ORDER BY {self.key()}, id ROWS {self.bounds(NUMBERS)}{self.exclude()}", True
        if kind == "groups":
            return partition + f"ORDER BY {self.key()} GROUPS {self.bounds(NUMBERS)}{self.exclude()}", False
        if kind == "peers":
            bounds = rng.choice(("UNBOUNDED PRECEDING", "CURRENT ROW", "BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"))
            return partition + f"ORDER BY {self.key()} RANGE {bounds}{self.exclude()}", False
        name = rng.choice(list(DISTANCES))
        more = ", id" if self.chance(0.03) else ""
        return partition + f"ORDER BY {self.key(name)}{more} RANGE {self.bounds(DISTANCES[name])}{self.exclude()}", False

    def function(self, whole):
        rng, c = self.rng, self.column()
        filtered = " FILTER (WHERE " + rng.choice(("i4 > 1", "b", "s <> 'a'", "p = 1")) + ")" if self.chance(0.25) else ""
        exact = rng.choice(EXACT)
        plain = [f"count(*){filtered}", f"count({c}){filtered}", f"sum({exact}){filtered}", f"avg({exact}){filtered}", f"bool_and(b){filtered}", f"bool_or(b){filtered}", f"bit_or(i4){filtered}",
                 f"min({rng.choice(('i2', 'i4', 'i8', 'f', 'd', 'ts', 'tz'))}){filtered}", f"max({rng.choice(('i2', 'i4', 'i8', 'f', 'd', 'ts', 'tz'))}){filtered}", f"variance(i2){filtered}", f"stddev_pop(n){filtered}",
                 "rank()", "dense_rank()", "percent_rank()", "cume_dist()", f"sum(i8){filtered}"]
        if not whole:
            return rng.choice(plain)
        by = rng.choice(("1", "2", "0", "-1", "p", "i2", "NULL", "i4 % 3"))
        return rng.choice(plain + ["row_number()", f"ntile({rng.choice(('1', '2', '3', '7', 'p', '0', 'NULL'))})", f"lag({c})", f"lead({c})", f"lag({c}, {by})", f"lead({c}, {by})", f"lag(i4, {by}, {rng.choice(('0', 'p', '1.5', 'NULL', 'i8'))})", f"lead(s, {by}, 'none')",
                                   f"first_value({c})", f"last_value({c})", f"nth_value({c}, {rng.choice(('1', '2', '3', 'p', '0', 'NULL'))})", f"array_agg({rng.choice(('i4', 's'))}){filtered}", f"string_agg(s, ','){filtered}", f"first_value(id)", f"last_value(id)", f"nth_value(id, 2)"])

    def call(self):
        window, whole = self.window()
        return f"{self.function(whole)} OVER ({window})"

    def named(self):
        rng = self.rng
        base, more = rng.choice(("PARTITION BY p", "PARTITION BY b ORDER BY i4, id", "ORDER BY i4, id", "", "ORDER BY n, id ROWS 1 PRECEDING")), rng.choice(("", "ORDER BY id", "ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", "PARTITION BY s", "GROUPS CURRENT ROW"))
        return f"SELECT id, {rng.choice(('count(*)', 'sum(i4)', 'max(i8)'))} OVER w, sum(n) OVER (w {more}), rank() OVER v FROM t1 WINDOW w AS ({base}), v AS ({rng.choice(('w', 'ORDER BY i2', 'PARTITION BY s', 'w ORDER BY i2'))})"

    def statement(self):
        rng = self.rng
        calls = ", ".join(self.call() for _ in range(rng.choice((1, 1, 1, 2, 3))))
        roll = rng.random()
        where = rng.choice(("", "", "", " WHERE p < 3", " WHERE i4 IS NOT NULL", " WHERE false"))
        if roll < 0.55:
            return f"SELECT id, {calls} FROM t1{where}"
        if roll < 0.65:
            return self.named()
        if roll < 0.71:
            return f"SELECT p, b, count(*), {rng.choice(('sum(sum(i4))', 'max(count(*))', 'rank()', 'count(*)', 'sum(count(*))'))} OVER ({rng.choice(('', 'PARTITION BY p', 'ORDER BY p', 'ORDER BY sum(i4), p, b', 'PARTITION BY b ORDER BY count(*)', 'ORDER BY p, b ROWS 1 PRECEDING'))}) FROM t1{where} GROUP BY p, b"
        if roll < 0.79:
            condition = rng.choice(("w > 1", "p = 1", "p = 1 AND w > 1", "id > 3", "b", "w IS NULL", "p IN (1, 2)", "s = 'a'"))
            return f"SELECT * FROM (SELECT id, p, b, s, {self.call()} AS w FROM t1{where}) x WHERE {condition}"
        if roll < 0.84:
            return f"SELECT DISTINCT {self.call()} FROM t1{where}"
        if roll < 0.88:
            return f"SELECT id, {calls} FROM t1{where} ORDER BY id LIMIT {rng.choice((1, 3, 5))}"
        if roll < 0.91:
            return f"SELECT id FROM t1{where} ORDER BY row_number() OVER (ORDER BY {self.key()}, id) DESC LIMIT 4"
        if roll < 0.94:
            return f"WITH x AS (SELECT id, p, {self.call()} AS w FROM t1) SELECT x.p, count(*), count(w) FROM x JOIN t1 ON t1.id = x.id GROUP BY x.p"
        if roll < 0.96:
            return f"SELECT id, (SELECT sum(z.w) FROM (SELECT count(*) OVER (ORDER BY y.id) AS w FROM t1 y WHERE y.p = t1.p) z) FROM t1"
        if roll < 0.98:
            return f"SELECT id, generate_series(1, row_number() OVER (ORDER BY id)::int) FROM t1 WHERE id < 4"
        return rng.choice(("SELECT id FROM t1 WHERE row_number() OVER () > 1", "SELECT count(*) OVER (), count(*) FROM t1", "SELECT sum(rank() OVER ()) FROM t1", "SELECT rank() FROM t1", "SELECT sum(DISTINCT i4) OVER () FROM t1", "SELECT abs(1) OVER () FROM t1", "SELECT rank(1) OVER () FROM t1", "SELECT rank() OVER nowhere FROM t1",
                           "SELECT id FROM t1 GROUP BY rank() OVER ()", "SELECT count(*) FROM t1 HAVING rank() OVER () > 1", "SELECT sum(sum(i4) OVER ()) OVER () FROM t1", "SELECT rank() FILTER (WHERE b) OVER () FROM t1", "SELECT sum(i4) OVER (ROWS id PRECEDING) FROM t1", "SELECT array_agg(i4 ORDER BY i4) OVER () FROM t1", "SELECT rank() OVER (ORDER BY rank() OVER ()) FROM t1",
                           "DELETE FROM t1 WHERE rank() OVER () > 1", "UPDATE t1 SET p = rank() OVER ()", "SELECT rank() OVER (ORDER BY generate_series(1, 2)) FROM t1", "SELECT sum(generate_series(1, 2)) OVER () FROM t1", "SELECT id, rank() OVER () FROM t1 FOR UPDATE", "SELECT lag('x') OVER () FROM t1", "SELECT sum(i4) OVER (GROUPS 1 PRECEDING) FROM t1"))


def case(rng):
    steps = [Step("DROP TABLE IF EXISTS t1 CASCADE", made=True), Step("CREATE TABLE t1 (id integer" + rng.choice(("", " PRIMARY KEY")) + ", " + ", ".join(f"{n} {t}" for n, (t, _) in COLUMNS.items()) + ")", made=True)]
    if rng.random() < 0.3:
        steps.append(Step(f"CREATE INDEX t1_i ON t1 ({rng.choice(('p, id', 'i4', 'p', 's, id', 'n'))})", made=True))
    # Values at the edges of their types are in few tables: sums over them are errors, and infinities take part in all.
    odd = rng.random() < 0.25
    value = lambda values: "NULL" if rng.random() < 0.15 else rng.choice(values if odd else [v for v in values if not any(w in v for w in ("inf", "Inf", "NaN", "2147483647", "32767", "32768", "922337"))])
    rows = [f"({i}, " + ", ".join(value(v) for _, v in COLUMNS.values()) + ")" for i in range(1, 1 + rng.choice((0, 1, 5, 9, 14, 20, 90)))]
    if rows:
        steps.append(Step("INSERT INTO t1 VALUES", own_rows=rows, made=True))
    maker = Maker(rng)
    for _ in range(20):
        steps.append(Step(maker.statement()))
    steps.append(Step("DROP TABLE IF EXISTS t1"))
    return Case("windows", steps)
