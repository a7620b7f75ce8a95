"""Functions that give rows, arrays, LATERAL, regular expressions, over tables and constants."""
from case import Case, Step

PATTERNS = ("a", "a+", "^a", "b$", "(a)(b)?", "[[:alpha:]]+", "[^a]", "a|b", ".", "(.)\\1", "\\d+", "\\s", "a{2}", "a*?", "(?i)A", "x*", "(a|ab)(c|bcd)", "\\mword", "[a-c]{1,2}", "^$", "(?:ab)+", "\\w+", "(a(b)?)+")
TEXTS = ("'abc'", "'aabb'", "''", "'a b c'", "'word one'", "'A1b22'", "'xxayy'", "'abab'", "NULL", "'é a'", "'a,b,,c'", "E'a\\nb'")
FLAGS = ("", "", ", 'g'", ", 'i'", ", 'gi'", ", 'n'", ", 'x'")
ARRAYS = ("ARRAY[1,2,3]", "'{}'::int[]", "ARRAY[3,1,2,1]", "ARRAY[NULL,1]", "'{{1,2},{3,4}}'::int[]", "NULL::int[]", "'[0:2]={7,8,9}'::int[]", "(SELECT array_agg(id ORDER BY id) FROM t1)")


def regex(rng):
    p, t = rng.choice(PATTERNS), rng.choice(TEXTS)
    f = rng.choice(FLAGS)
    return rng.choice((
        f"SELECT regexp_match({t}, '{p}'{f.replace('g', '') if len(f) > 6 or 'g' not in f else ''})", f"SELECT * FROM regexp_matches({t}, '{p}'{f})", f"SELECT regexp_matches({t}, '{p}'{f})", f"SELECT regexp_replace({t}, '{p}', '{rng.choice(('', '[&]', chr(92) + '1', 'x'))}'{f})".replace("[&]", "[\\&]"), f"SELECT regexp_split_to_array({t}, '{p}')", f"SELECT * FROM regexp_split_to_table({t}, '{p}')",
        f"SELECT {t} ~ '{p}', {t} ~* '{p}', {t} !~ '{p}'", f"SELECT regexp_count({t}, '{p}')", f"SELECT regexp_instr({t}, '{p}')", f"SELECT regexp_substr({t}, '{p}')", f"SELECT regexp_like({t}, '{p}')", f"SELECT substring({t} FROM '{p}')", f"SELECT {t} SIMILAR TO '{rng.choice(('a%', '(a|b)+', '_b_', '%c', 'a+', '[ab]*'))}'", f"SELECT s, s ~ '{p}' FROM t1", f"SELECT id, (regexp_matches(s, '{p}'{f}))[1] FROM t1", f"SELECT id FROM t1 WHERE s {rng.choice(('~', '!~', '~*'))} '{p}'",
        f"SELECT string_to_array({t}, '{rng.choice((',', ' ', 'b', ''))}')", f"SELECT * FROM string_to_table({t}, '{rng.choice((',', ' '))}') WITH ORDINALITY", f"SELECT translate({t}, 'abc', 'x'), split_part({t}, '{rng.choice(('a', ',', ' '))}', {rng.choice((1, 2, -1))})",
    ))


def array(rng):
    a, b, i, j = rng.choice(ARRAYS), rng.choice(ARRAYS), rng.randint(-1, 4), rng.randint(0, 3)
    return rng.choice((
        f"SELECT {a} || {b}", f"SELECT {a} = {b}, {a} < {b}, {a} @> {b}, {a} && {b}", f"SELECT ({a})[{i}], ({a})[{j}:{i}]", f"SELECT array_length({a}, 1), cardinality({a}), array_ndims({a}), array_dims({a}), array_lower({a}, 1), array_upper({a}, 1)", f"SELECT array_append({a}, {i}), array_prepend({i}, {a}), array_cat({a}, {b})", f"SELECT array_remove({a}, {i}), array_replace({a}, 1, {i})", f"SELECT array_position({a}, {i}), array_positions({a}, 1)", f"SELECT {i} = ANY({a}), {i} <> ALL({a}), {i} > ANY({a})", f"SELECT array_to_string({a}, ',', '*')", f"SELECT unnest({a})", f"SELECT * FROM unnest({a}, {b})", f"SELECT * FROM unnest({a}) WITH ORDINALITY AS u(x, n)",
        f"SELECT id FROM t1 WHERE id = ANY({a})", f"SELECT id FROM t1 WHERE id = ANY(ARRAY(SELECT id FROM t1 WHERE id > {j}))", f"SELECT id FROM t1 WHERE id <> ALL(ARRAY(SELECT v FROM t1))", f"SELECT id, unnest({a}) FROM t1", f"SELECT trim_array({a}, {j})", f"SELECT array_agg(x ORDER BY x DESC) FROM unnest({a}) x", f"SELECT array_fill({i}, ARRAY[{j}])", f"SELECT generate_subscripts({a}, 1)", f"SELECT v, array_agg(id ORDER BY id) FROM t1 GROUP BY v", f"SELECT ARRAY(SELECT s FROM t1 ORDER BY id)", f"SELECT array_agg({a}) FROM t1", f"SELECT ({a})[1] + id FROM t1",
    ))


def rows(rng):
    i, j, k = rng.randint(-1, 3), rng.randint(0, 5), rng.choice((1, 1, 2, -1, 3))
    return rng.choice((
        f"SELECT * FROM generate_series({i}, {j})", f"SELECT generate_series({i}, {j}, {k})", f"SELECT id, generate_series(1, v) FROM t1", f"SELECT generate_series(1, 2), generate_series(1, {j})", f"SELECT id, g FROM t1, generate_series(1, t1.v) g", f"SELECT id, g FROM t1 LEFT JOIN LATERAL generate_series({i}, t1.v) g ON g > 1", f"SELECT t1.id, x.* FROM t1 CROSS JOIN LATERAL (SELECT b.id AS other FROM t1 b WHERE b.v = t1.v ORDER BY b.id LIMIT {j}) x", f"SELECT * FROM ROWS FROM (generate_series(1, 2), generate_series(1, {j})) AS r(a, b)", f"SELECT * FROM generate_series('2020-01-01'::timestamp, '2020-01-0{rng.randint(1, 4)}', '1 day')",
        f"SELECT v, count(*) FROM t1, generate_series(1, {j}) GROUP BY v", f"SELECT sum(g) FROM generate_series(1, {j}) g", f"SELECT DISTINCT generate_series(1, v) FROM t1", f"SELECT id, generate_series(1, 2) AS g FROM t1 ORDER BY g DESC, id LIMIT {j}", f"SELECT generate_series(1, {j}) + id FROM t1", f"SELECT (SELECT sum(x) FROM generate_series(1, t1.v) x) FROM t1", f"SELECT id FROM t1 WHERE v IN (SELECT generate_series(1, {j}))", f"SELECT * FROM (SELECT id, generate_series(1, 2) AS g FROM t1) s WHERE g = 2", f"SELECT count(*) FROM (SELECT generate_series(1, {j})) s", f"SELECT * FROM t1 JOIN generate_series({i}, {j}) g ON g = t1.v", f"SELECT CASE WHEN v > 1 THEN v END, generate_series(1, 1) FROM t1",
        "SELECT * FROM t1 WHERE false", "SELECT count(*), max(id) FROM t1 WHERE false", "SELECT a.id, b.id FROM t1 a LEFT JOIN (SELECT * FROM t1 WHERE false) b ON b.v = a.v", "SELECT v, count(*) FROM t1 WHERE NULL GROUP BY v", "SELECT a.id FROM t1 a FULL JOIN (SELECT * FROM t1 WHERE 1 = 2) b ON a.id = b.id", "SELECT EXISTS (SELECT 1 FROM t1 WHERE false), ARRAY(SELECT id FROM t1 WHERE false)", "SELECT id FROM t1 WHERE false UNION ALL SELECT 7", "SELECT * FROM t1 a WHERE EXISTS (SELECT 1 FROM t1 b WHERE b.v = a.v AND NOT EXISTS (SELECT 1 FROM t1 c WHERE c.id = a.v))", "SELECT a.id FROM t1 a, t1 b WHERE a.v = b.id AND EXISTS (SELECT 1 FROM t1 c WHERE c.v = b.v AND NOT EXISTS (SELECT 1 FROM t1 d WHERE d.id = a.v + 1))", "SELECT id FROM t1 a WHERE EXISTS (SELECT 1 FROM t1 b WHERE a.v > 1 AND b.v = 1)",
        "SELECT count(*) FROM t1 WHERE ctid IN (SELECT min(ctid) FROM t1 GROUP BY v)", "SELECT id FROM t1 a WHERE ctid = (SELECT ctid FROM t1 b WHERE b.id = a.id)", "SELECT a.id FROM t1 a JOIN t1 b ON a.ctid = b.ctid", "SELECT count(DISTINCT ctid) FROM t1", "SELECT id FROM t1 WHERE ctid = ANY (ARRAY(SELECT ctid FROM t1 WHERE v = 1))", "SELECT ctid IS NULL, a.tableoid = 't1'::regclass FROM t1 a", "SELECT a.id, b.ctid IS NULL FROM t1 a LEFT JOIN t1 b ON b.id = a.v", "SELECT id FROM t1 WHERE ctid = '(4294967295,9)'", "DELETE FROM t1 a USING t1 b WHERE a.ctid > b.ctid AND a.s = b.s AND false", f"SELECT '({i},{j})'::tid, '({i},{j})'::tid < '(1,1)'",
    ))


def case(rng):
    steps = [Step("DROP TABLE IF EXISTS t1 CASCADE", made=True), Step(f"CREATE TABLE t1 (id integer{rng.choice((' PRIMARY KEY', ''))}, v integer, s text)", made=True),
             Step("INSERT INTO t1 VALUES", own_rows=[f"({i}, {rng.choice((0, 1, 2, 3, 'NULL'))}, {rng.choice(TEXTS)})" for i in range(1, rng.choice((3, 6, 9)))], made=True)]
    for _ in range(24):
        steps.append(Step(rng.choice((regex, array, rows))(rng)))
    steps.append(Step("DROP TABLE IF EXISTS t1"))
    return Case("sets", steps)
