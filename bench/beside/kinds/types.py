"""Types that users define: domains, enums, composites; as columns, in arrays, changed while they are used."""
from case import Case, Step

DROPS = ["DROP TABLE IF EXISTS u1, u2 CASCADE", "DROP DOMAIN IF EXISTS pos, word, listed CASCADE", "DROP DOMAIN IF EXISTS word2 CASCADE", "DROP TYPE IF EXISTS mood, feeling, pair CASCADE"]
LABELS = ("sad", "ok", "happy", "glad", "angry", "no such")


def label(rng):
    return f"'{rng.choice(LABELS)}'"


def pair(rng):
    return rng.choice((f"ROW({rng.randint(-1, 3)}, '{rng.choice('abc')}')", f"'({rng.randint(0, 3)},{rng.choice('abc')})'", "NULL", "'(,)'", "'(1,\"a,b\")'", "ROW(NULL, NULL)", "'(1)'", "'(1,a,b)'"))


def expression(rng):
    return rng.choice((
        f"SELECT {label(rng)}::mood < {label(rng)}::mood, {label(rng)}::mood = 'ok'", "SELECT enum_range(NULL::mood), enum_first(NULL::mood), enum_last(NULL::mood)", f"SELECT enum_range({label(rng)}::mood, NULL)",
        f"SELECT {label(rng)}::text::mood", f"SELECT max(m), min(m), count(DISTINCT m) FROM u1", "SELECT m, count(*) FROM u1 GROUP BY m ORDER BY m", f"SELECT ARRAY[{label(rng)}, 'sad']::mood[]", f"SELECT * FROM u1 WHERE m > {label(rng)}", f"SELECT * FROM u1 WHERE m IN ({label(rng)}, {label(rng)})",
        f"SELECT {rng.randint(-2, 3)}::pos + 1", f"SELECT '{rng.choice(('abc', 'toolong', '', 'Ab'))}'::word || 'x'", f"SELECT ({rng.randint(-1, 2)})::pos::bigint", "SELECT NULL::pos", "SELECT p + 1, w FROM u1", "SELECT (q).a, (q).b FROM u1", "SELECT q FROM u1 WHERE (q).a > 1", "SELECT (q).* FROM u1", "SELECT u1 FROM u1", "SELECT q IS NULL, q IS NOT NULL FROM u1",
        f"SELECT {pair(rng)}::pair = {pair(rng)}::pair", f"SELECT ({pair(rng)}::pair).b", f"SELECT row_to_json(x) FROM (SELECT 1 AS a) x", "SELECT count(DISTINCT q) FROM u1", "SELECT q, count(*) FROM u1 GROUP BY q", "SELECT array_agg(q ORDER BY id) FROM u1", "SELECT * FROM u1 ORDER BY q, id",
        "SELECT pg_typeof(m)::text, pg_typeof(p)::text, pg_typeof(w)::text, pg_typeof(q)::text FROM u1", f"SELECT CASE WHEN m = 'ok' THEN p ELSE 0 END FROM u1", "SELECT typname, typtype, typnotnull FROM pg_type WHERE typname IN ('mood', 'pos', 'word', 'pair', 'listed') ORDER BY 1", "SELECT enumlabel FROM pg_enum ORDER BY enumsortorder",
        "SELECT l, l[1] FROM u1", "SELECT COALESCE(m, 'ok') FROM u1", "SELECT NULLIF(m, 'sad') FROM u1", "SELECT GREATEST(m, 'ok') FROM u1", "SELECT domain_name::text, data_type::text FROM information_schema.domains WHERE domain_name IN ('pos', 'word', 'listed')",
    ))


def alter(rng, n):
    return rng.choice((
        f"ALTER TYPE mood ADD VALUE {rng.choice(('', 'IF NOT EXISTS '))}'{rng.choice(('glad', 'angry', f'l{n}'))}'{rng.choice(('', chr(32) + rng.choice(('BEFORE', 'AFTER')) + chr(32) + label(rng)))}", f"ALTER TYPE mood RENAME VALUE {label(rng)} TO '{rng.choice(('glad', 'blue', 'ok'))}'",
        f"ALTER DOMAIN pos {rng.choice(('SET', 'DROP'))} NOT NULL", f"ALTER DOMAIN pos ADD CONSTRAINT k{n} CHECK (VALUE < {rng.choice((2, 3, 100))}){rng.choice(('', ' NOT VALID'))}", f"ALTER DOMAIN pos DROP CONSTRAINT {rng.choice(('', 'IF EXISTS '))}{rng.choice(('pos_check', f'k{rng.randint(0, n)}'))}",
        f"ALTER DOMAIN pos SET DEFAULT {rng.randint(0, 4)}", "ALTER DOMAIN pos DROP DEFAULT", f"ALTER DOMAIN pos VALIDATE CONSTRAINT k{rng.randint(0, n)}", f"ALTER DOMAIN word RENAME TO word2", "ALTER DOMAIN word2 RENAME TO word", f"ALTER TYPE pair ADD ATTRIBUTE c{n} integer", "ALTER TYPE pair RENAME ATTRIBUTE a TO z", "ALTER TYPE pair RENAME ATTRIBUTE z TO a",
        "ALTER TYPE mood RENAME TO feeling", "ALTER TYPE feeling RENAME TO mood", "DROP TYPE mood", "DROP DOMAIN pos", "DROP TYPE pair", f"ALTER TABLE u1 ALTER m SET DEFAULT {label(rng)}", f"ALTER TABLE u1 ALTER m TYPE {rng.choice(('text', 'mood USING m::text::mood', 'mood'))}", "ALTER TABLE u1 ALTER p TYPE integer", "ALTER TABLE u1 ALTER p TYPE pos",
    ))


def case(rng):
    steps = [Step(d, made=True) for d in DROPS]
    steps += [Step("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')", made=True), Step(f"CREATE DOMAIN pos AS integer{rng.choice(('', ' DEFAULT 1', ' NOT NULL DEFAULT 2'))} CHECK (VALUE > 0)", made=True), Step("CREATE DOMAIN word AS varchar(5) CHECK (VALUE <> '')", made=True),
              Step("CREATE TYPE pair AS (a integer, b text)", made=True), Step("CREATE DOMAIN listed AS integer[] CHECK (array_length(VALUE, 1) < 4)", made=True),
              Step("CREATE TABLE u1 (id integer PRIMARY KEY, m mood, p pos, w word, q pair, l listed)", made=True)]
    within, next_id = False, 0
    for n in range(16):
        roll = rng.random()
        if roll < 0.1:
            steps.append(Step(rng.choice(("COMMIT", "ROLLBACK")) if within else "BEGIN"))
            within = not within
        elif roll < 0.45:
            next_id += 1
            columns = rng.sample(("m", "p", "w", "q", "l"), rng.randint(0, 5))
            values = {"m": label(rng), "p": str(rng.randint(-1, 4)), "w": f"'{rng.choice(('a', 'abcde', 'toolong', ''))}'", "q": pair(rng), "l": rng.choice(("'{1,2}'", "'{1,2,3,4}'", "NULL", "ARRAY[1]", "'{}'"))}
            steps.append(Step(f"INSERT INTO u1 ({', '.join(['id'] + columns)}) VALUES ({', '.join([str(next_id)] + [rng.choice((values[c],) * 6 + ('DEFAULT', 'NULL')) for c in columns])}) RETURNING *"))
        elif roll < 0.55:
            steps.append(Step(rng.choice((f"UPDATE u1 SET m = {label(rng)} WHERE id = {rng.randint(1, 4)}", f"UPDATE u1 SET p = p - {rng.randint(0, 2)}", f"UPDATE u1 SET q.a = {rng.randint(0, 3)}", f"UPDATE u1 SET q = {pair(rng)} WHERE id < 3", "UPDATE u1 SET l[2] = 5", "UPDATE u1 SET w = w || 'x'", f"DELETE FROM u1 WHERE m = {label(rng)}"))))
        elif roll < 0.72:
            steps.append(Step(alter(rng, n)))
        else:
            sql = expression(rng)
            steps.append(Step(sql))
    steps += [Step("COMMIT"), Step("SELECT * FROM u1")]
    steps += [Step(d) for d in DROPS]
    return Case("types", steps)
