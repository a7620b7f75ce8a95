CREATE TABLE a (id integer PRIMARY KEY, v integer);
CREATE TABLE b (id integer PRIMARY KEY, a_id integer, w integer);
INSERT INTO a VALUES (1, 10), (2, 20), (3, NULL), (4, 40);
INSERT INTO b VALUES (1, 1, 5), (2, 1, 6), (3, 2, NULL), (4, NULL, 7);
SELECT id FROM a WHERE id IN (SELECT a_id FROM b) ORDER BY id;
SELECT id FROM a WHERE id NOT IN (SELECT a_id FROM b);
SELECT id FROM a WHERE id NOT IN (SELECT a_id FROM b WHERE a_id IS NOT NULL) ORDER BY id;
SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.a_id = a.id) ORDER BY id;
SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.a_id = a.id AND w > 5) ORDER BY id;
SELECT id, (SELECT count(*) FROM b WHERE b.a_id = a.id) AS n FROM a ORDER BY id;
SELECT id, (SELECT w FROM b WHERE b.id = a.id) FROM a ORDER BY id;
SELECT id FROM a WHERE v > (SELECT avg(v) FROM a) ORDER BY id;
SELECT id FROM a WHERE v > ALL (SELECT w FROM b WHERE w IS NOT NULL) ORDER BY id;
SELECT id FROM a WHERE id = ANY (SELECT a_id FROM b) ORDER BY id;
SELECT (SELECT w FROM b WHERE a_id = 1);
SELECT (SELECT w FROM b WHERE a_id = 100) IS NULL;
SELECT x.n, x.m FROM (SELECT a_id AS n, max(w) AS m FROM b GROUP BY a_id) x WHERE x.n IS NOT NULL ORDER BY 1;
SELECT id FROM a WHERE (id, v) IN (SELECT a_id, 20 FROM b) ORDER BY id;
SELECT (SELECT id, v FROM a LIMIT 1);
SELECT id FROM a WHERE id IN (SELECT id, v FROM a);
DROP TABLE a;
DROP TABLE b;
SELECT (WITH x AS (SELECT 1) VALUES (2)), (VALUES (3)), (SELECT 4 AS four), (VALUES (5))::text;

-- A FULL JOIN in a subquery that is run for each row: its unmatched rows are those of that run.
SELECT g, (SELECT count(*) FROM (VALUES (1), (2), (3)) x(a) FULL JOIN (VALUES (2), (3), (4)) y(b) ON x.a = y.b AND x.a < g
           WHERE x.a IS NULL) AS unmatched FROM generate_series(1, 4) g ORDER BY g;
