"""Indexes on expressions, partial ones, INCLUDE, NULLS NOT DISTINCT: what they refuse, what queries by them find."""
from case import Case, Step

EXPRESSIONS = ("lower(s)", "(n + 1)", "(n % 3)", "abs(n)", "(s || 'x')", "length(s)", "(n IS NULL)", "(n * 2)", "upper(s)", "coalesce(n, 0)", "(d::date)", "md5(s)", "(a[1])", "left(s, 1)")
PREDICATES = ("n > 2", "n IS NOT NULL", "s <> ''", "n IS NULL", "n > 0 AND s IS NOT NULL", "b", "NOT b", "s = 'a'", "n IN (1, 2)", "n BETWEEN 1 AND 3", "n % 2 = 0", "s IS NOT NULL OR n > 1")
VALUES = {"n": ("0", "1", "2", "3", "4", "-1", "NULL"), "s": ("'a'", "'A'", "'b'", "''", "'ab'", "NULL", "'c'"), "b": ("true", "false", "NULL"), "d": ("'2020-01-01 10:00'", "'2020-01-01 11:00'", "'2021-05-05'", "NULL"), "a": ("'{1,2}'", "'{}'", "NULL", "'{2}'")}


def index(rng, n):
    columns = rng.sample(("n", "s", "id", "b", "d") + EXPRESSIONS, rng.choice((1, 1, 1, 2)))
    keys = ", ".join(c + rng.choice(("", "", "", " DESC", " NULLS FIRST", " DESC NULLS LAST")) for c in columns)
    where = f" WHERE {rng.choice(PREDICATES)}" if rng.random() < 0.5 else ""
    include = " INCLUDE (id)" if rng.random() < 0.15 else ""
    nulls = " NULLS NOT DISTINCT" if rng.random() < 0.15 else ""
    unique = rng.choice(("", "", "UNIQUE "))
    return f"CREATE {unique}INDEX {rng.choice(('', 'IF NOT EXISTS '))}x{n} ON t1 ({keys}){include}{nulls if unique else ''}{where}"


def condition(rng):
    one = rng.choice((f"{rng.choice(EXPRESSIONS)} {rng.choice(('=', '=', '<', '>=', '<>', 'IS DISTINCT FROM'))} {rng.choice(('1', '2', '0', chr(39) + 'a' + chr(39), chr(39) + 'ax' + chr(39), 'NULL', 'true'))}", rng.choice(PREDICATES), f"n {rng.choice(('=', '>', '<='))} {rng.randint(-1, 4)}", f"s {rng.choice(('=', '>', '<'))} {rng.choice(VALUES['s'])}", f"lower(s) = {rng.choice(VALUES['s'])}", "s IS NULL", f"n IN (1, {rng.randint(0, 4)})", f"s LIKE '{rng.choice(('a%', '%b', '_'))}'"))
    if rng.random() < 0.2:
        return ranges(rng)
    if rng.random() < 0.5:
        return f"{one} {rng.choice(('AND', 'AND', 'OR'))} {rng.choice(PREDICATES)}"
    return one


def ranges(rng):
    """Ranges of one column, or of two, that OR puts together."""
    column = rng.choice(("n", "n", "s", "d", "id"))
    values = VALUES.get(column, ("1", "3", "5", "8", "NULL"))

    def part():
        a, b = rng.choice(values), rng.choice(values)
        one = rng.choice((f"{column} BETWEEN {a} AND {b}", f"{column} > {a}", f"{column} <= {a}", f"{column} = {a}", f"{column} >= {a} AND {column} < {b}", f"{column} < {a}"))
        return f"({one}{rng.choice(('', '', f' AND id > {rng.randint(0, 9)}', f' AND n = {rng.randint(0, 3)}'))})"
    joined = " OR ".join(part() for _ in range(rng.choice((2, 2, 3, 4))))
    return rng.choice((joined, joined, f"({joined}) AND {rng.choice(PREDICATES)}", f"({joined}) AND n = {rng.randint(0, 3)}"))


def case(rng):
    steps = [Step("DROP TABLE IF EXISTS t1 CASCADE", made=True), Step("CREATE TABLE t1 (id integer PRIMARY KEY, n integer, s text, b boolean, d timestamp, a integer[])", made=True)]
    row = lambda i: f"({i}, {', '.join(rng.choice(VALUES[c]) for c in 'nsbda')})"
    steps.append(Step("INSERT INTO t1 VALUES", own_rows=[row(i) for i in range(1, rng.choice((4, 9, 17)))], made=True))
    next_id, within = 40, False
    for n in range(3):
        steps.append(Step(index(rng, n)))
    for n in range(3, 24):
        roll, next_id = rng.random(), next_id + 1
        if roll < 0.1:
            steps.append(Step(rng.choice((index(rng, n), index(rng, n), f"DROP INDEX IF EXISTS x{rng.randint(0, n)}", "REINDEX TABLE t1", f"ALTER INDEX IF EXISTS x{rng.randint(0, n)} RENAME TO y{n}"))))
        elif roll < 0.16:
            steps.append(Step(rng.choice(("COMMIT", "ROLLBACK")) if within else "BEGIN"))
            within = not within
        elif roll < 0.34:
            conflict = rng.choice(("", "", " ON CONFLICT DO NOTHING", f" ON CONFLICT ({rng.choice(('id', 'n', 's', 'lower(s)', '(n + 1)', 'abs(n)'))}){rng.choice(('', '', ' WHERE ' + rng.choice(PREDICATES)))} DO {rng.choice(('NOTHING', 'UPDATE SET n = t1.n + 1', 'UPDATE SET s = excluded.s', 'UPDATE SET b = NOT t1.b WHERE excluded.n > 1'))}"))
            steps.append(Step(f"INSERT INTO t1 VALUES {row(next_id if rng.random() < 0.9 else rng.randint(1, 5))}{conflict}{rng.choice(('', ' RETURNING *'))}"))
        elif roll < 0.48:
            column = rng.choice("nsbda")
            steps.append(Step(f"UPDATE t1 SET {column} = {rng.choice(VALUES[column])} WHERE {rng.choice((condition(rng), f'id = {rng.randint(1, 9)}'))}"))
        elif roll < 0.55:
            steps.append(Step(f"DELETE FROM t1 WHERE {rng.choice((condition(rng), f'id = {rng.randint(1, 9)}'))}"))
        elif roll < 0.9:
            steps.append(Step(rng.choice((f"SELECT * FROM t1 WHERE {condition(rng)}", f"SELECT id FROM t1 WHERE {condition(rng)}", f"SELECT count(*) FROM t1 WHERE {condition(rng)}", f"SELECT {rng.choice(EXPRESSIONS)}, count(*) FROM t1 GROUP BY 1"))))
        elif roll < 0.92:
            key, down = rng.choice(("n", "id", "s", "d")), rng.choice(("", " DESC"))
            steps.append(Step(f"SELECT {key}, id FROM t1 WHERE {ranges(rng)} ORDER BY {key}{down}, id{rng.choice((down, ''))}", order=(0, 1)))
        elif roll < 0.95:
            key = rng.choice(EXPRESSIONS)
            steps.append(Step(f"SELECT {key}, id FROM t1 WHERE {rng.choice(PREDICATES)} ORDER BY {key}{rng.choice(('', ' DESC', ' NULLS FIRST'))}, id", order=(0, 1)))
        else:
            steps.append(Step("SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 't1'"))
    steps += [Step("COMMIT"), Step("SELECT * FROM t1"), Step("SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 't1'")]
    steps.append(Step("DROP TABLE IF EXISTS t1"))
    return Case("indexes", steps)
