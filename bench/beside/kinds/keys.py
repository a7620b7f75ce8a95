"""Foreign keys: all actions, MATCH, several columns, deferred, added to rows that are there; checks beside them."""
from case import Case, Step

ACTIONS = ("", "", "CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", "NO ACTION", "SET NULL (a)", "SET DEFAULT (b)")


def key(rng, columns):
    text = f"FOREIGN KEY ({columns}) REFERENCES p ({columns.replace('own', 'a')}){rng.choice(('', '', ' MATCH FULL', ' MATCH SIMPLE'))}"
    for when in ("DELETE", "UPDATE"):
        action = rng.choice(ACTIONS if when == "DELETE" else ACTIONS[:7])
        if action and ("(b)" not in action or "b" in columns) and ("(a)" not in action or "a" in columns):
            text += f" ON {when} {action}"
    return text + rng.choice(("", "", "", " DEFERRABLE", " DEFERRABLE INITIALLY DEFERRED", " DEFERRABLE INITIALLY DEFERRED"))


def case(rng):
    wide = rng.random() < 0.5
    columns = "a, b" if wide else "a"
    steps = [Step("DROP TABLE IF EXISTS g, c, p CASCADE", made=True), Step(f"CREATE TABLE p (a integer, b integer DEFAULT 0, t text, PRIMARY KEY ({columns}))", made=True),
             Step("INSERT INTO p VALUES", own_rows=[f"({i}, {i % 2}, 'p')" for i in range(1, 6)], made=True),
             Step(f"CREATE TABLE c (id integer PRIMARY KEY, a integer DEFAULT {rng.choice((1, 9))}, b integer DEFAULT 1, CONSTRAINT fk {key(rng, columns)})", made=True)]
    if rng.random() < 0.4:
        steps.append(Step(f"CREATE TABLE g (id integer PRIMARY KEY, c integer REFERENCES c (id){rng.choice(('', ' ON DELETE CASCADE', ' ON DELETE SET NULL', ' ON UPDATE CASCADE ON DELETE CASCADE'))}, own integer REFERENCES g (id){rng.choice(('', ' ON DELETE CASCADE', ' DEFERRABLE INITIALLY DEFERRED'))})", made=True))
    if rng.random() < 0.3:
        steps.append(Step(f"CREATE INDEX ON c ({columns})", made=True))
    within, next_id = False, 0
    for n in range(26):
        i, j = rng.randint(1, 7), rng.randint(0, 2)
        roll, next_id = rng.random(), next_id + 1
        if roll < 0.14:
            steps.append(Step(rng.choice(("COMMIT", "COMMIT", "ROLLBACK")) if within else "BEGIN"))
            within = not within
        elif roll < 0.2 and within:
            steps.append(Step(rng.choice(("SET CONSTRAINTS ALL DEFERRED", "SET CONSTRAINTS fk DEFERRED", "SET CONSTRAINTS ALL IMMEDIATE", "SET CONSTRAINTS fk IMMEDIATE", "SAVEPOINT s", "ROLLBACK TO s", "SAVEPOINT s"))))
        elif roll < 0.45:
            row = rng.choice((f"({next_id}, {i}, {i % 2})", f"({next_id}, {i}, {j})", f"({next_id}, NULL, {j})", f"({next_id}, {i}, NULL)", f"({next_id}, DEFAULT, DEFAULT)"))
            steps.append(Step(rng.choice((f"INSERT INTO c VALUES {row}", f"INSERT INTO c VALUES {row} RETURNING *", f"INSERT INTO c VALUES {row} ON CONFLICT (id) DO UPDATE SET a = excluded.a", f"INSERT INTO g VALUES ({next_id}, {i}, {rng.choice((i, next_id, 'NULL'))})"))))
        elif roll < 0.55:
            steps.append(Step(rng.choice((f"UPDATE c SET a = {i}, b = {i % 2} WHERE id <= {rng.randint(1, 9)}", f"UPDATE c SET a = NULL WHERE id = {i}", f"UPDATE c SET id = id + 100 WHERE id = {i}", f"DELETE FROM c WHERE a = {i}", f"DELETE FROM c WHERE id = {i}", "UPDATE c SET a = a"))))
        elif roll < 0.75:
            steps.append(Step(rng.choice((f"DELETE FROM p WHERE a = {i}", f"DELETE FROM p WHERE a = {i} RETURNING *", f"UPDATE p SET a = a + 10 WHERE a = {i}", f"UPDATE p SET a = {i} WHERE a = {rng.randint(1, 7)}", f"UPDATE p SET t = 'x' WHERE a = {i}", f"UPDATE p SET a = a WHERE a = {i}", f"INSERT INTO p VALUES ({i}, {j}, 'n')", f"INSERT INTO p VALUES ({i}, {i % 2}, 'n') ON CONFLICT DO NOTHING", "DELETE FROM p", f"DELETE FROM g WHERE id = {i}", f"UPDATE p SET b = 1 - b WHERE a = {i}"))))
        elif roll < 0.83:
            steps.append(Step(rng.choice(("ALTER TABLE c DROP CONSTRAINT fk", f"ALTER TABLE c ADD CONSTRAINT fk {key(rng, columns)}", f"ALTER TABLE c ADD CONSTRAINT fk {key(rng, columns)} NOT VALID", "ALTER TABLE c VALIDATE CONSTRAINT fk", "ALTER TABLE c ALTER CONSTRAINT fk DEFERRABLE INITIALLY DEFERRED", "ALTER TABLE c ALTER CONSTRAINT fk NOT DEFERRABLE",
                                          "TRUNCATE p", "TRUNCATE p CASCADE", "TRUNCATE c, p", "DROP TABLE p", "ALTER TABLE p DROP CONSTRAINT p_pkey", f"ALTER TABLE c ADD CHECK (a < {i} OR a IS NULL) NOT VALID", "ALTER TABLE c DROP CONSTRAINT IF EXISTS c_a_check"))))
        else:
            steps.append(Step(rng.choice(("SELECT * FROM c", "SELECT * FROM p", "SELECT * FROM g", "SELECT * FROM c JOIN p USING (a)", "SELECT conname, confupdtype, confdeltype, confmatchtype, condeferrable, condeferred, convalidated, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'f'"))))
    steps += [Step("COMMIT"), Step("SELECT * FROM p"), Step("SELECT * FROM c"), Step("SELECT * FROM g")]
    steps.append(Step("DROP TABLE IF EXISTS g, c, p CASCADE"))
    return Case("keys", steps)
