"""One session's transactions with savepoints, errors in the midst of them, and what is seen after each
step."""
import tables
from case import Case, Step
from kinds.changes import change, look

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
ERRORS = ("SELECT 1/0", "SELECT 1/(id - id) FROM t1 WHERE id IS NOT NULL", "SELECT nothing FROM t1", "INSERT INTO t1 (id) SELECT id FROM t1", "SELECT * FROM nothing", "SELECT 'x'::integer")


def case(rng):
    table, steps = tables.make(rng, "t1", key=rng.random() < 0.8)
    other, more = tables.make(rng, "t2")
    steps, known = steps + more, [table, other]
    next_id, within, names = iter(range(30, 900)), False, ["a", "b", "a", "c"]
    for _ in range(28):
        roll = rng.random()
        if not within and roll < 0.5:
            steps.append(Step(f"BEGIN{rng.choice(('', ' ISOLATION LEVEL ' + rng.choice(LEVELS)))}"))
            within = True
        elif roll < 0.12:
            steps.append(Step(rng.choice(("COMMIT", "COMMIT", "ROLLBACK", "END", "ABORT"))))
            within = False
        elif roll < 0.3:
            steps.append(Step(f"SAVEPOINT {rng.choice(names)}"))
        elif roll < 0.44:
            steps.append(Step(f"ROLLBACK TO {rng.choice(('', 'SAVEPOINT '))}{rng.choice(names)}"))
        elif roll < 0.5:
            steps.append(Step(f"RELEASE {rng.choice(names)}"))
        elif roll < 0.56:
            steps.append(Step(rng.choice(ERRORS)))
        elif roll < 0.58:
            steps.append(Step(rng.choice(("CREATE TABLE t3 (id integer PRIMARY KEY, v text)", "INSERT INTO t3 VALUES (1, 'x')", "DROP TABLE t3", "SELECT * FROM t3", "CREATE INDEX i9 ON t2 (id)", "DROP INDEX i9"))))
        elif roll < 0.82:
            steps.append(change(rng, known, next_id))
        else:
            steps.append(look(rng, known))
    steps += [Step("COMMIT"), Step("SELECT * FROM t1"), Step("SELECT * FROM t2"), Step("DROP TABLE IF EXISTS t3")]
    return Case("transactions", [Step("DROP TABLE IF EXISTS t3", made=True)] + steps)
