"""Cursors: declared with all options, moved in all directions, WHERE CURRENT OF, rows locked through them."""
from case import Case, Step

QUERIES = (
    "SELECT * FROM t1 ORDER BY id", "SELECT id, v FROM t1 ORDER BY id DESC", "SELECT * FROM t1 WHERE v > {v} ORDER BY id", "SELECT * FROM t1 ORDER BY v, id", "SELECT id FROM t1 WHERE id BETWEEN {i} AND {j} ORDER BY id",
    "SELECT v, count(*) FROM t1 GROUP BY v ORDER BY v", "SELECT DISTINCT v FROM t1 ORDER BY v DESC", "SELECT a.id, b.w FROM t1 a JOIN t1 b ON b.id = a.v ORDER BY a.id, b.id", "SELECT id FROM t1 WHERE v = {v} UNION ALL SELECT 100 ORDER BY 1",
    "SELECT id FROM t1 ORDER BY id LIMIT 3 OFFSET 1", "SELECT g FROM generate_series(1, 6) AS g", "VALUES (1, 'a'), (2, 'b'), (3, 'c')", "SELECT * FROM t1 WHERE id = {i}", "SELECT count(*), sum(v) FROM t1",
    "SELECT s.id FROM (SELECT * FROM t1 WHERE v >= {v}) s ORDER BY s.id", "SELECT id, (SELECT max(b.v) FROM t1 b WHERE b.id < a.id) FROM t1 a ORDER BY id", "SELECT id, v FROM t1 WHERE EXISTS (SELECT 1 FROM t1 b WHERE b.v = t1.id) ORDER BY id",
)
LOCKING = (
    "SELECT * FROM t1 ORDER BY id FOR UPDATE", "SELECT id, w FROM t1 WHERE v > {v} ORDER BY id FOR UPDATE", "SELECT * FROM t1 ORDER BY id FOR NO KEY UPDATE", "SELECT * FROM t1 ORDER BY id FOR SHARE", "SELECT * FROM t1 ORDER BY id DESC FOR KEY SHARE",
    "SELECT a.id, b.id FROM t1 a JOIN t2 b ON b.id = a.v ORDER BY a.id, b.id FOR UPDATE OF a", "SELECT a.id, b.id FROM t1 a JOIN t2 b ON b.id = a.v ORDER BY a.id, b.id FOR UPDATE", "SELECT * FROM t1 WHERE id = {i} FOR UPDATE", "SELECT id FROM t1 ORDER BY id LIMIT 2 FOR UPDATE",
)
# One row at most, so that no plan's order matters.
SIMPLE = ("SELECT * FROM t1 WHERE id = {i}", "SELECT id FROM t1 WHERE id = {i}", "SELECT w FROM t1 WHERE id = {i} LIMIT 1")
DIRECTIONS = ("NEXT", "", "1", "2", "0", "ALL", "FORWARD", "FORWARD 2", "FORWARD ALL", "RELATIVE 1", "RELATIVE 2", "ABSOLUTE 1", "ABSOLUTE 3", "-1", "FORWARD 0")
BACK = ("PRIOR", "BACKWARD", "BACKWARD 2", "BACKWARD ALL", "FIRST", "LAST", "ABSOLUTE 2", "ABSOLUTE -1", "ABSOLUTE -3", "ABSOLUTE 0", "ABSOLUTE 50", "RELATIVE -1", "RELATIVE -2", "RELATIVE 0", "-2", "FORWARD -1", "BACKWARD 0", "BACKWARD -1")


def case(rng):
    steps = []
    for name in ("t1", "t2"):
        steps += [Step(f"DROP TABLE IF EXISTS {name}", made=True), Step(f"CREATE TABLE {name} (id integer{rng.choice((' PRIMARY KEY', ''))}, v integer, w text)", made=True),
                  Step(f"INSERT INTO {name} VALUES", own_rows=[f"({i}, {rng.randint(0, 3)}, '{rng.choice('abc')}')" for i in range(1, rng.choice((4, 6, 9)))], made=True)]
    names, declared, within, new = ["c", "d", "e"], {}, False, 50
    order = (0,)
    for _ in range(rng.choice((16, 26, 36))):
        fill = dict(i=rng.randint(1, 5), j=rng.randint(3, 7), v=rng.randint(0, 2))
        if not within:
            steps.append(Step(f"BEGIN{rng.choice(('', '', '', ' ISOLATION LEVEL REPEATABLE READ', ' ISOLATION LEVEL SERIALIZABLE'))}"))
            within, declared = True, {n: d for n, d in declared.items() if d == "held"}
        roll, name = rng.random(), rng.choice(names)
        if rng.random() < 0.6 and declared:
            # One that is there.
            name = rng.choice(list(declared))
        if roll < 0.2 and name not in declared or not declared:
            kind = rng.random()
            if kind < 0.5:
                scroll = rng.choice(("", "", "SCROLL ", "SCROLL ", "NO SCROLL ", "INSENSITIVE ", "ASENSITIVE "))
                hold = rng.choice(("", "", "", "", " WITH HOLD", " WITHOUT HOLD"))
                query = rng.choice(QUERIES)
            elif kind < 0.8:
                scroll, hold, query = rng.choice(("", "", "", "", "NO SCROLL ", "SCROLL ", "INSENSITIVE ")), rng.choice(("",) * 9 + (" WITH HOLD",)), rng.choice(LOCKING)
            else:
                scroll, hold, query = rng.choice(("", "SCROLL ", "NO SCROLL ")), "", rng.choice(SIMPLE)
            steps.append(Step(f"DECLARE {name} {scroll}CURSOR{hold} FOR {query.format(**fill)}"))
            declared[name] = "held" if hold == " WITH HOLD" else "open"
        elif roll < 0.62:
            verb = rng.choice(("FETCH", "FETCH", "FETCH", "MOVE"))
            where = rng.choice(DIRECTIONS) if rng.random() < 0.6 else rng.choice(BACK)
            steps.append(Step(f"{verb} {where} FROM {name}" if where else f"{verb} {name}", order=order if verb == "FETCH" else ()))
        elif roll < 0.74:
            table = rng.choice(("t1", "t1", "t1", "t2"))
            change = rng.choice((f"UPDATE {table} SET v = v + 10", f"UPDATE {table} SET w = w || '!'", f"UPDATE {table} SET id = id + 100", f"DELETE FROM {table}"))
            steps.append(Step(f"{change} WHERE CURRENT OF {name}{rng.choice(('', ' RETURNING *', ' RETURNING id'))}"))
        elif roll < 0.8:
            new += 1
            steps.append(Step(rng.choice(("UPDATE t1 SET v = v + 1 WHERE id = {i}", "DELETE FROM t1 WHERE id = {j}", "INSERT INTO t1 VALUES ({new}, 1, 'n')", "UPDATE t1 SET w = 'u' WHERE v = {v}", "SELECT * FROM t1", "SELECT * FROM t2")).format(new=new, **fill)))
        elif roll < 0.85:
            steps.append(Step(rng.choice(("SAVEPOINT s", "SAVEPOINT s", "ROLLBACK TO s", "RELEASE s"))))
        elif roll < 0.88:
            steps.append(Step("SELECT name, is_holdable, is_binary, is_scrollable FROM pg_cursors"))
        elif roll < 0.91:
            steps.append(Step(f"CLOSE {rng.choice((name, name, 'ALL'))}"))
            declared.pop(name, None)
        else:
            steps.append(Step(rng.choice(("COMMIT", "COMMIT", "ROLLBACK"))))
            within = False
    steps += [Step("COMMIT"), Step("CLOSE ALL"), Step("SELECT * FROM t1"), Step("SELECT * FROM t2")]
    steps += [Step("DROP TABLE IF EXISTS t1, t2")]
    return Case("cursors", steps)
