"""What writers do to a SQLite database: transaction n of writer `who` follows from the seed alone, so the
host knows every state.

Each writer has rows of its own; the last transaction is a row too, so a database says which state it claims
to be in. Rows are written anew, deleted, and appended with bodies over several pages; some transactions are
larger than SQLite's cache, some undo a part.
"""
import hashlib
import random

SCHEMA = """
CREATE TABLE t(who INTEGER, key INTEGER, n INTEGER, step INTEGER, body BLOB, PRIMARY KEY(who, key));
CREATE INDEX by_n ON t(who, n, step);
CREATE TABLE last(who INTEGER PRIMARY KEY, n INTEGER);
"""
APPENDED = 1000


def transaction(seed, who, n):
    """(steps, afterwards): a step is ("put", key, length), ("delete", key), ("trim", key), ("begin",) or
    ("undo",), which takes back what was done since ("begin",); `afterwards` is what the writer does outside
    of transactions then: "reopen", a checkpoint's mode, or None."""
    chance = random.Random(f"{seed} {who} {n}")
    length = lambda: chance.choice([20, 150, 700, 2500, 8000, chance.randrange(1, 20000)])
    kind = chance.choices(["few", "append", "large", "undone", "delete"], [8, 8, 1, 2, 1])[0]
    steps = []
    if kind == "undone":
        steps.append(("begin",))
        steps += [("put", chance.randrange(200), length()) for _ in range(chance.randrange(1, 30))]
        steps.append(("undo",))
    if kind in ("few", "undone"):
        steps += [("put", chance.randrange(200), length()) for _ in range(chance.randrange(1, 5))]
    elif kind == "append":
        steps += [("put", APPENDED + 3 * n + i, 8000) for i in range(chance.randrange(1, 4))]
    elif kind == "large":
        steps += [("put", chance.randrange(200), 4000) for _ in range(chance.randrange(30, 90))]
    else:
        steps += [("delete", chance.randrange(200)) for _ in range(20)]
        steps.append(("trim", APPENDED + 3 * (n - 60)))
    afterwards = chance.choices(
        [None, "reopen", "PASSIVE", "FULL", "RESTART", "TRUNCATE", "VACUUM"], [60, 2, 2, 1, 1, 1, 0.3]
    )[0]
    return steps, afterwards


def body(seed, who, n, step, length):
    return random.Random(f"{seed} {who} {n} {step}").randbytes(length)


def put(state, seed, who, n):
    """Transaction n, in the model: `state` is key to (n, step, length)."""
    steps, _ = transaction(seed, who, n)
    before = None
    for i, step in enumerate(steps):
        if step[0] == "put":
            state[step[1]] = (n, i, step[2])
        elif step[0] == "delete":
            state.pop(step[1], None)
        elif step[0] == "trim":
            for key in [k for k in state if APPENDED <= k < step[1]]:
                del state[key]
        elif step[0] == "begin":
            before = dict(state)
        else:
            state.clear()
            state.update(before)


def digest(rows):
    """Of (key, n, step, body) in the order of keys."""
    sum = hashlib.sha256()
    for key, n, step, content in rows:
        sum.update(f"{key} {n} {step} {len(content)} ".encode())
        sum.update(content)
    return sum.hexdigest()


def expected(state, seed, who):
    """The digest of a writer's rows in the model."""
    rows = ((k, n, i, body(seed, who, n, i, length)) for k, (n, i, length) in sorted(state.items()))
    return digest(rows)
