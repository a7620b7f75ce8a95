"""Sequences, serial, identity and generated columns; temporary tables and what ON COMMIT does to them."""
from case import Case, Step

DROPS = ("DROP TABLE IF EXISTS s1, s2, s3 CASCADE", "DROP SEQUENCE IF EXISTS q1, q2 CASCADE", "DROP TABLE IF EXISTS tmp, tmp2")


def options(rng):
    return "".join(rng.sample((" INCREMENT 2", " INCREMENT -1", " MINVALUE 1", " MAXVALUE 5", " START 3", " CYCLE", " NO CYCLE", " CACHE 3", " AS smallint", " NO MINVALUE", " NO MAXVALUE", " MINVALUE -3"), rng.choice((0, 0, 1, 2, 3))))


def statement(rng, n):
    q = rng.choice(("q1", "q2", "s1_id_seq", "s2_id_seq"))
    v = rng.randint(-1, 8)
    return rng.choice((
        f"SELECT nextval('{q}')", f"SELECT nextval('{q}'), nextval('{q}')", f"SELECT currval('{q}')", "SELECT lastval()", f"SELECT setval('{q}', {v})", f"SELECT setval('{q}', {v}, {rng.choice(('true', 'false'))})", f"SELECT last_value, is_called FROM {q}", f"SELECT nextval('{q}') FROM generate_series(1, 3)",
        f"ALTER SEQUENCE {q}{options(rng)}", f"ALTER SEQUENCE {q} RESTART{rng.choice(('', f' WITH {v}'))}", f"ALTER SEQUENCE {q} OWNED BY {rng.choice(('NONE', 's3.v'))}", f"CREATE SEQUENCE {rng.choice(('', 'IF NOT EXISTS '))}{q}{options(rng)}", f"DROP SEQUENCE {rng.choice(('', 'IF EXISTS '))}{q}", f"SELECT start_value, min_value, max_value, increment_by, cycle, cache_size, last_value, data_type::text FROM pg_sequences WHERE sequencename = '{q}'",
        "INSERT INTO s1 DEFAULT VALUES RETURNING *", f"INSERT INTO s1 (v) VALUES ({v}), ({v}) RETURNING id", f"INSERT INTO s1 (id) VALUES ({v})", f"INSERT INTO s2 (v) VALUES ({v}) RETURNING *", f"INSERT INTO s2 (id, v) VALUES ({v}, 1)", f"INSERT INTO s2 (id, v) OVERRIDING {rng.choice(('SYSTEM', 'USER'))} VALUE VALUES ({v}, 1) RETURNING *", f"UPDATE s2 SET id = {rng.choice(('DEFAULT', v))} WHERE v = 1", "INSERT INTO s2 VALUES (DEFAULT, 2) RETURNING *",
        f"INSERT INTO s3 (v) VALUES ({v}) RETURNING *", f"INSERT INTO s3 (v, w) VALUES ({v}, {rng.choice(('DEFAULT', '5'))})", "UPDATE s3 SET v = v + 1 RETURNING *", f"UPDATE s3 SET w = {rng.choice(('DEFAULT', '1'))}", "SELECT * FROM s3", f"SELECT * FROM s3 WHERE w > {v}", "SELECT * FROM s1", "SELECT * FROM s2", "TRUNCATE s1 RESTART IDENTITY", "TRUNCATE s1", f"ALTER TABLE s1 ALTER id RESTART WITH {v}", f"ALTER TABLE s2 ALTER id RESTART",
        f"ALTER TABLE s2 ALTER id SET INCREMENT {rng.choice((1, 2, -1))}", f"CREATE TABLE s{rng.randint(1, 2)} (id serial, v integer)", "ALTER TABLE s3 DROP w", f"ALTER TABLE s3 ADD w{n} integer GENERATED ALWAYS AS (v {rng.choice('+-*')} {v}) STORED", "ALTER TABLE s3 ALTER w DROP EXPRESSION", f"SELECT pg_get_serial_sequence('{rng.choice(('s1', 's2'))}', 'id')",
        f"CREATE TEMP TABLE tmp (id serial, v integer){rng.choice(('', ' ON COMMIT DROP', ' ON COMMIT DELETE ROWS', ' ON COMMIT PRESERVE ROWS'))}", f"CREATE TEMP TABLE IF NOT EXISTS tmp2{rng.choice(('', ' ON COMMIT DELETE ROWS'))} AS SELECT * FROM s1", f"INSERT INTO tmp (v) VALUES ({v}) RETURNING *", "SELECT * FROM tmp", "SELECT * FROM tmp2", f"UPDATE tmp SET v = {v}", "DELETE FROM tmp2", "DROP TABLE tmp", "DROP TABLE IF EXISTS tmp2", "CREATE TEMP TABLE s1 (v integer)", "DROP TABLE pg_temp.s1", "SELECT count(*) FROM public.s1", "INSERT INTO tmp (v) SELECT v FROM s1",
    ))


def case(rng):
    steps = [Step(d, made=True) for d in DROPS]
    steps += [Step(f"CREATE SEQUENCE q1{options(rng)}"), Step("CREATE SEQUENCE q2 CYCLE MAXVALUE 3"), Step(f"CREATE TABLE s1 (id {rng.choice(('serial', 'bigserial', 'smallserial', 'serial PRIMARY KEY'))}, v integer)", made=True),
              Step(f"CREATE TABLE s2 (id integer GENERATED {rng.choice(('ALWAYS', 'BY DEFAULT'))} AS IDENTITY{rng.choice(('', ' (START 5)', ' (INCREMENT 2)', ' PRIMARY KEY'))}, v integer)", made=True),
              Step(f"CREATE TABLE s3 (v integer, w integer GENERATED ALWAYS AS (v * 2) STORED{rng.choice(('', ' CHECK (w < 12)', ' UNIQUE', ' NOT NULL'))})", made=True)]
    within = False
    for n in range(24):
        roll = rng.random()
        if roll < 0.12:
            steps.append(Step(rng.choice(("COMMIT", "COMMIT", "ROLLBACK")) if within else "BEGIN"))
            within = not within
        elif roll < 0.16 and within:
            steps.append(Step(rng.choice(("SAVEPOINT s", "ROLLBACK TO s"))))
        else:
            steps.append(Step(statement(rng, n)))
    steps += [Step("COMMIT")] + [Step(f"SELECT * FROM {t}") for t in ("s1", "s2", "s3", "tmp", "tmp2")] + [Step("DISCARD TEMP")] + [Step(d) for d in DROPS]
    return Case("sequences", steps)
