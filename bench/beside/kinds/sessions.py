"""Sessions beside each other, a step at a time: what they see, what they wait for, which of them is
refused."""
from case import Case, Step

LEVELS = ("READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


# In a transaction: each session has its own cursor.
CURSORS = (
    "DECLARE c CURSOR FOR SELECT * FROM t1 WHERE id >= {i} ORDER BY id FOR UPDATE", "DECLARE c CURSOR FOR SELECT id, v FROM t1 ORDER BY id FOR NO KEY UPDATE", "DECLARE c CURSOR FOR SELECT * FROM t1 WHERE id = {i}", "DECLARE c CURSOR FOR SELECT * FROM t1 WHERE v < 3 ORDER BY id FOR SHARE", "DECLARE c CURSOR FOR SELECT * FROM t1 WHERE v <> {v} ORDER BY id FOR UPDATE SKIP LOCKED",
    "FETCH c", "FETCH c", "FETCH c", "FETCH 2 c", "MOVE c", "UPDATE t1 SET v = v + 1 WHERE CURRENT OF c", "UPDATE t1 SET w = w || 'c' WHERE CURRENT OF c RETURNING *", "DELETE FROM t1 WHERE CURRENT OF c", "CLOSE c",
)
# Of the four modes those that others meet seldom.
WEAK = ("SELECT * FROM t1 WHERE id = {i} FOR NO KEY UPDATE", "SELECT * FROM t1 WHERE id = {i} FOR KEY SHARE")


# Of tables with a key.
UPSERTS = (
    "INSERT INTO t1 VALUES ({j}, {v}, 'u') ON CONFLICT DO NOTHING", "INSERT INTO t1 VALUES ({j}, {v}, 'u') ON CONFLICT (id) DO NOTHING RETURNING *",
    "INSERT INTO t1 VALUES ({j}, {v}, 'u') ON CONFLICT (id) DO UPDATE SET v = t1.v + excluded.v", "INSERT INTO t1 VALUES ({j}, {v}, 'u') ON CONFLICT (id) DO UPDATE SET v = t1.v + 1, w = excluded.w RETURNING *",
    "INSERT INTO t1 VALUES ({j}, {v}, 'u') ON CONFLICT (id) DO UPDATE SET v = excluded.v WHERE t1.v < excluded.v RETURNING *",
    "INSERT INTO t1 VALUES ({i}, {v}, 'u'), ({j}, 1, 'u') ON CONFLICT DO NOTHING RETURNING id", "INSERT INTO t1 VALUES ({i}, {v}, 'u'), ({j}, 1, 'u') ON CONFLICT (id) DO UPDATE SET v = t1.v + excluded.v",
    "INSERT INTO t1 AS n VALUES ({j}, {v}, 'u') ON CONFLICT (id) DO UPDATE SET id = {i}, v = (SELECT max(v) FROM t1 WHERE t1.id <> excluded.id)",
    "INSERT INTO t1 SELECT id + 1, v, 'u' FROM t1 WHERE id = {i} ON CONFLICT ON CONSTRAINT t1_pkey DO UPDATE SET v = excluded.v + 1",
)


def statement(rng, weak, keyed, within):
    if keyed and rng.random() < 0.3:
        return rng.choice(UPSERTS).format(i=rng.randint(1, 5), j=rng.randint(1, 6), v=rng.randint(0, 4))
    if within and rng.random() < 0.25:
        return rng.choice(CURSORS).format(i=rng.randint(1, 3), v=rng.randint(0, 3))
    if weak and rng.random() < 0.1:
        return rng.choice(WEAK).format(i=rng.randint(1, 5))
    i, j, v = rng.randint(1, 5), rng.randint(1, 6), rng.randint(0, 4)
    return rng.choice((
        "SELECT * FROM t1", "SELECT * FROM t1 WHERE v = {v}", "SELECT * FROM t1 WHERE id = {i}", "SELECT * FROM t1 WHERE id IN ({i}, {j})", "SELECT sum(v), count(*) FROM t1", "SELECT v FROM t1 WHERE id = {i}",
        "UPDATE t1 SET v = v + 1 WHERE id = {i}", "UPDATE t1 SET v = {v} WHERE id = {i}", "UPDATE t1 SET v = v + 10 WHERE v = {v}", "UPDATE t1 SET w = 'n' WHERE id = {i}", "UPDATE t1 SET v = v WHERE id = {i}",
        "UPDATE t1 SET id = {j} WHERE id = {i}", "UPDATE t1 SET v = v + 1 WHERE id IN ({i}, {j})", "UPDATE t1 SET v = {v} WHERE id = {i} RETURNING *",
        "DELETE FROM t1 WHERE id = {i}", "DELETE FROM t1 WHERE v = {v}", "INSERT INTO t1 VALUES ({j}, {v}, 'i')", "INSERT INTO t1 VALUES ({j}, {v}, 'i')", "INSERT INTO t1 SELECT max(id) + 1, {v}, 's' FROM t1",
        "SELECT * FROM t1 WHERE id = {i} FOR UPDATE", "SELECT * FROM t1 WHERE id = {i} FOR SHARE",
        "SELECT * FROM t1 WHERE v = {v} FOR UPDATE", "SELECT * FROM t1 WHERE id = {i} FOR UPDATE NOWAIT", "SELECT * FROM t1 WHERE id IN ({i}, {j}) FOR UPDATE SKIP LOCKED",
    )).format(i=i, j=j, v=v)


def case(rng):
    key, weak = rng.choice((" PRIMARY KEY", " PRIMARY KEY", "")), rng.random() < 0.5
    cursors = rng.random() < 0.4
    steps = [Step("DROP TABLE IF EXISTS t1", made=True), Step(f"CREATE TABLE t1 (id integer{key}, v integer, w text)", made=True),
             Step("INSERT INTO t1 VALUES", own_rows=[f"({i}, {rng.randint(0, 3)}, 'a')" for i in range(1, rng.choice((2, 3, 5)) + 1)], made=True)]
    if rng.random() < 0.5:
        steps.append(Step(f"CREATE INDEX t1_v ON t1 {rng.choice(('', 'USING hash '))}(v)", made=True))
    names = ["a", "b", "c"][:rng.choice((2, 2, 3))]
    within = dict.fromkeys(names, False)
    level = rng.choice(LEVELS) if rng.random() < 0.7 else None
    for _ in range(rng.choice((10, 16, 22))):
        name = rng.choice(names)
        roll = rng.random()
        if not within[name] and roll < 0.75:
            within[name] = True
            steps.append(Step(f"BEGIN ISOLATION LEVEL {level or rng.choice(LEVELS)}", session=name))
        elif within[name] and roll < 0.12:
            within[name] = False
            steps.append(Step(rng.choice(("COMMIT", "COMMIT", "ROLLBACK")), session=name))
        elif within[name] and roll < 0.18:
            steps.append(Step(rng.choice(("SAVEPOINT s", "ROLLBACK TO s", "RELEASE s", "SAVEPOINT s")), session=name))
        else:
            steps.append(Step(statement(rng, weak, bool(key), cursors and within[name]), session=name))
    steps += [Step("COMMIT", session=n) for n in names] * 2
    steps.append(Step("SELECT * FROM t1"))
    return Case("sessions", steps, concurrent=True)
