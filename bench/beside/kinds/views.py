"""Views: changed through, with CHECK OPTION, over each other, replaced; and materialised ones."""
import tables
from case import Case, Step

PLAIN = ("SELECT * FROM t1", "SELECT id, {c} FROM t1", "SELECT id AS k, {c} AS x FROM t1 WHERE id > {i}", "SELECT *, id + 1 AS next FROM t1", "SELECT {c}, id FROM t1 WHERE {c} IS NOT NULL", "SELECT DISTINCT {c} FROM t1", "SELECT {c}, count(*) AS n FROM t1 GROUP BY {c}", "SELECT id, {c} FROM t1 ORDER BY id LIMIT 3",
         "SELECT t1.id, t2.id AS other FROM t1 JOIN t2 ON t2.id = t1.id", "SELECT id FROM t1 UNION SELECT id FROM t2", "SELECT id, (SELECT count(*) FROM t2 WHERE t2.id < t1.id) AS less, {c} FROM t1 WHERE id < {j}")
OVER = ("SELECT * FROM {v}", "SELECT * FROM {v} WHERE true", "SELECT count(*) AS n FROM {v}")


def case(rng):
    known, steps = tables.two(rng)
    t1 = known[0]
    steps = [Step("DROP VIEW IF EXISTS v1, v2, v3 CASCADE", made=True), Step("DROP MATERIALIZED VIEW IF EXISTS m1 CASCADE", made=True)] + steps
    views, next_id = [], 60
    for n in range(18):
        c = rng.choice(t1.columns[1:])[0]
        ty = dict(t1.columns)[c]
        fill = dict(c=c, i=rng.randint(0, 4), j=rng.randint(3, 9))
        roll, next_id = rng.random(), next_id + 1
        if roll < 0.28 or not views:
            name = rng.choice(("v1", "v2", "v3"))
            inner = rng.choice(OVER[:2]).format(v=rng.choice(views)) if views and rng.random() < 0.4 else rng.choice(PLAIN).format(**fill)
            names = rng.choice(("", "", "", "", f" (a{n}, b{n})"))
            check = rng.choice(("", "", "", " WITH CHECK OPTION", " WITH LOCAL CHECK OPTION", " WITH CASCADED CHECK OPTION"))
            steps.append(Step(f"CREATE {rng.choice(('', 'OR REPLACE '))}VIEW {name}{names} AS {inner}{check}"))
            if name not in views:
                views.append(name)
            continue
        v = rng.choice(views)
        if roll < 0.5:
            steps.append(Step(f"SELECT * FROM {v}"))
        elif roll < 0.62:
            columns = rng.choice((f"(id, {c})", f"({c}, id)", "(id)", f"(k, x)", ""))
            values = {f"(id, {c})": f"({next_id}, {tables.value(rng, ty)})", f"({c}, id)": f"({tables.value(rng, ty)}, {next_id})", "(id)": f"({rng.choice((next_id, fill['i']))})", "(k, x)": f"({next_id}, {tables.value(rng, ty)})", "": f"({next_id})"}[columns]
            steps.append(Step(f"INSERT INTO {v} {columns} VALUES {values}{rng.choice(('', ' RETURNING *', ' ON CONFLICT DO NOTHING'))}"))
        elif roll < 0.74:
            steps.append(Step(f"UPDATE {v} SET {rng.choice((f'{c} = {tables.value(rng, ty)}', f'id = id + {100 + next_id}', f'x = NULL', 'next = 1'))} WHERE {rng.choice(('true', 'id < 3', 'k > 2', f'{c} IS NULL'))}{rng.choice(('', ' RETURNING *'))}"))
        elif roll < 0.8:
            steps.append(Step(f"DELETE FROM {v} WHERE {rng.choice(('id = 2', 'k = 3', f'{c} IS NULL', 'false'))}{rng.choice(('', ' RETURNING *'))}"))
        elif roll < 0.86:
            steps.append(Step(rng.choice((f"SELECT pg_get_viewdef('{v}'::regclass)", f"SELECT is_updatable::text, is_insertable_into::text, check_option::text FROM information_schema.views WHERE table_name = '{v}'", f"SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '{v}'::regclass AND attnum > 0 ORDER BY attnum"))))
        elif roll < 0.92:
            steps.append(Step(rng.choice((f"CREATE MATERIALIZED VIEW {rng.choice(('', 'IF NOT EXISTS '))}m1 AS SELECT * FROM {v}{rng.choice(('', '', ' WITH NO DATA'))}", "REFRESH MATERIALIZED VIEW m1", "REFRESH MATERIALIZED VIEW m1 WITH NO DATA", "REFRESH MATERIALIZED VIEW CONCURRENTLY m1", "CREATE UNIQUE INDEX ON m1 (id)", "SELECT * FROM m1", "INSERT INTO m1 SELECT * FROM m1", "DROP MATERIALIZED VIEW m1"))))
        else:
            steps.append(Step(rng.choice((f"DROP VIEW {v}", f"DROP VIEW {v} CASCADE", f"ALTER TABLE t1 RENAME {c} TO {c}", f"ALTER VIEW {v} RENAME TO {rng.choice(('v1', 'v2', 'v3'))}", f"ALTER VIEW {v} SET (check_option = local)", f"ALTER VIEW {v} RESET (check_option)", f"ALTER VIEW {v} ALTER {c} SET DEFAULT NULL", f"ALTER TABLE t1 DROP {c}", f"ALTER TABLE t1 ALTER {c} TYPE text"))))
    steps += [Step("SELECT * FROM t1"), Step("SELECT * FROM m1"), Step("SELECT viewname, definition FROM pg_views WHERE schemaname = 'public'")]
    steps += [Step("DROP VIEW IF EXISTS v1, v2, v3 CASCADE"), Step("DROP MATERIALIZED VIEW IF EXISTS m1 CASCADE"), Step("DROP TABLE IF EXISTS t1, t2 CASCADE")]
    return Case("views", steps)
