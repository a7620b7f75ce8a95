CREATE TABLE t (a integer PRIMARY KEY, b integer, c text, d date);
CREATE TABLE u (id integer PRIMARY KEY, ta integer NOT NULL, n numeric(10,2), s text);
CREATE INDEX u_ta ON u (ta);
CREATE TABLE v (k integer, w text);
CREATE FUNCTION f(integer) RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t WHERE a <= $1';

-- One row, none, constants.
SELECT 1;
SELECT 1 WHERE false;
SELECT * FROM t;
SELECT c, a FROM t WHERE a = 1;
SELECT * FROM t WHERE a = 1 AND b = 2;
SELECT * FROM t WHERE a IN (1, 2, 3) AND c <> 'x';
SELECT * FROM t WHERE a > 5 AND a <= 10;
SELECT * FROM u WHERE ta = 3 AND n > 1;
SELECT b + 1 AS x FROM t WHERE lower(c) = 'x' OR b IS NULL;
-- Order and limit: where the limit stands.
SELECT * FROM t ORDER BY a LIMIT 3;
SELECT * FROM t ORDER BY a DESC OFFSET 2;
SELECT * FROM t ORDER BY b, a LIMIT 3 OFFSET 1;
SELECT c FROM t ORDER BY b DESC NULLS LAST, lower(c);
SELECT * FROM (SELECT * FROM t ORDER BY b LIMIT 5) x WHERE x.a > 1;
SELECT * FROM (SELECT a, b FROM t LIMIT 5) x ORDER BY b LIMIT 2;
SELECT x.a, u.n FROM (SELECT a FROM t ORDER BY b LIMIT 5) x JOIN u ON u.ta = x.a;
-- Groups.
SELECT count(*) FROM t;
SELECT b, count(*), max(c) FROM t WHERE a > 5 GROUP BY b HAVING count(*) > 1 ORDER BY 2 DESC;
SELECT b + 1, sum(a) FILTER (WHERE c = 'x') FROM t GROUP BY b + 1;
SELECT count(DISTINCT b), string_agg(DISTINCT c, ',') FROM t;
SELECT DISTINCT b, c FROM t ORDER BY c;
SELECT DISTINCT b FROM t LIMIT 2;
-- Sets.
SELECT a FROM t UNION ALL SELECT id FROM u;
SELECT a FROM t UNION SELECT id FROM u ORDER BY 1 LIMIT 4;
SELECT a FROM t INTERSECT ALL SELECT id FROM u;
SELECT a FROM t EXCEPT SELECT id FROM u WHERE n > 1;
(SELECT a FROM t LIMIT 1) UNION ALL (SELECT id FROM u ORDER BY n LIMIT 1);
VALUES (1, 'x'), (2, 'y');
-- Subqueries.
SELECT (SELECT max(n) FROM u) FROM t;
SELECT (SELECT max(n) FROM u WHERE u.ta = t.a) FROM t;
SELECT * FROM t WHERE EXISTS (SELECT FROM u WHERE u.ta = t.a);
SELECT * FROM t WHERE a IN (SELECT ta FROM u);
SELECT * FROM t WHERE a NOT IN (SELECT ta FROM u WHERE u.n > 1);
SELECT * FROM t WHERE b > ALL (SELECT ta FROM u WHERE u.id = t.a);
SELECT b, count(*) FROM t GROUP BY b HAVING count(*) > (SELECT avg(ta) FROM u);
SELECT * FROM t, (SELECT ta, sum(n) AS total FROM u GROUP BY ta) x WHERE x.ta = t.a AND x.total > 3;
WITH x AS (SELECT b, count(*) AS n FROM t GROUP BY b) SELECT * FROM x WHERE n > 1;
-- Joins.
SELECT * FROM t JOIN u ON u.ta = t.a WHERE t.b = 1;
SELECT * FROM t LEFT JOIN u ON u.ta = t.a AND u.n > 1 WHERE t.b = 1;
SELECT * FROM t LEFT JOIN u ON u.ta = t.a WHERE u.n > 1;
SELECT * FROM t FULL JOIN v ON v.k = t.b WHERE t.c = 'x' OR v.w = 'y';
SELECT * FROM t CROSS JOIN v;
SELECT * FROM v JOIN t ON v.k < t.b;
-- Functions.
SELECT * FROM f(3) x WHERE x.b = 1;
SELECT n FROM generate_series(1, 10) n WHERE n > 3;
SELECT name FROM pg_settings WHERE name = 'work_mem';
-- Locks.
SELECT * FROM t WHERE a = 1 FOR UPDATE;
SELECT * FROM t WHERE b = 1 ORDER BY c LIMIT 1 FOR UPDATE SKIP LOCKED;
SELECT * FROM t JOIN u ON u.ta = t.a WHERE u.id = 5 FOR SHARE OF t;
-- Changes.
INSERT INTO t VALUES (1, 2, 'x', NULL);
INSERT INTO t (a, c) SELECT id, s FROM u WHERE n > 1 RETURNING a;
INSERT INTO v DEFAULT VALUES;
UPDATE t SET b = b + 1 WHERE a = 1;
UPDATE t SET b = u.ta FROM u WHERE u.id = t.a AND t.c = 'x' RETURNING t.a, u.n;
UPDATE t SET b = (SELECT max(ta) FROM u WHERE u.id = t.a) WHERE b IS NULL;
DELETE FROM t WHERE a IN (1, 2) RETURNING *;
DELETE FROM t USING u WHERE u.ta = t.a AND u.n = 0;
WITH c AS (SELECT a, b FROM t) SELECT c.b FROM c WHERE c.a = 3;
WITH c AS (SELECT a, b FROM t) SELECT x.b FROM c x JOIN c y ON x.a = y.b;
WITH c AS (SELECT a, count(*) AS n FROM t GROUP BY a) SELECT a FROM c WHERE n = (SELECT max(n) FROM c);
WITH c AS MATERIALIZED (SELECT a, b FROM t) SELECT b FROM c WHERE a = 3;
WITH c AS NOT MATERIALIZED (SELECT a, b FROM t) SELECT x.b, y.b FROM c x, c y WHERE x.a = 3 AND y.a = 4;
WITH c AS (SELECT a FROM t WHERE b = 1 FOR UPDATE) SELECT a FROM c;
SELECT a, (WITH c AS MATERIALIZED (SELECT t.b AS v) SELECT x.v + y.v FROM c x, c y) FROM t;
WITH c AS MATERIALIZED (SELECT b FROM t) DELETE FROM t USING c WHERE t.a = c.b;
-- Conditions asked below, and what nobody needs.
SELECT * FROM (SELECT b, count(*) AS n, max(c) AS m FROM t GROUP BY b) g WHERE b = 3 AND n > 1;
SELECT b, count(*) FROM t GROUP BY b HAVING b > 2 AND count(*) > 1;
SELECT * FROM (SELECT DISTINCT a, b FROM t) d WHERE a = 3;
SELECT * FROM (SELECT a, b FROM t UNION ALL SELECT id, ta FROM u) x WHERE a = 3;
SELECT * FROM (SELECT a, b FROM t UNION SELECT id, ta FROM u) x WHERE a = 3;
SELECT * FROM (SELECT a, b FROM t EXCEPT SELECT id, ta FROM u) x WHERE a = 3;
SELECT * FROM (SELECT a, b FROM t ORDER BY b LIMIT 5) x WHERE a = 3;
SELECT * FROM (SELECT a, random() AS r FROM t) x WHERE r < 0.5 AND a = 3;
SELECT * FROM u LEFT JOIN (SELECT b, count(*) AS n FROM t GROUP BY b) g ON g.b = u.ta AND g.b < 9;
SELECT u.id FROM u LEFT JOIN t ON t.a = u.ta;
SELECT u.id FROM u LEFT JOIN t ON t.a = u.ta AND t.c = 'x' LEFT JOIN v ON v.k = u.id;
SELECT u.id FROM u LEFT JOIN (SELECT b, count(*) AS n FROM t GROUP BY b) g ON g.b = u.ta;
SELECT u.id FROM u LEFT JOIN t ON t.b = u.ta;
SELECT t.a, v.w FROM t FULL JOIN v ON v.k = t.b WHERE t.a > 3;
SELECT t.a, v.w FROM t FULL JOIN v ON v.k = t.b WHERE v.w = 'x';
SELECT t.a, v.w FROM t FULL JOIN v ON v.k = t.b WHERE v.w = 'x' AND t.a > 3;
SELECT t.a FROM t LEFT JOIN (u LEFT JOIN v ON v.k = u.id) ON u.ta = t.a AND v.w = t.c;
SELECT n FROM (SELECT count(*) AS n, sum(b) AS s FROM t) x;
SELECT 1 FROM t HAVING 1 < 2;
SELECT * FROM t JOIN u ON u.ta = t.a WHERE t.a = 3;
SELECT * FROM t LEFT JOIN u ON u.ta = t.a WHERE t.a = 3;
SELECT * FROM t WHERE t.a = 3 AND NOT EXISTS (SELECT FROM u WHERE u.ta = t.a);
SELECT * FROM t JOIN u ON u.ta = t.a WHERE t.a < 3;

-- What constants decide goes (rewrite/fold); what fails stays.
SELECT a FROM t WHERE 2 > 1 AND (b = 2 + '3'::int OR 1 > 2);
SELECT a FROM t WHERE CASE WHEN 1 > 2 THEN 1 / 0 = a WHEN b = 1 THEN a = 1 / 0 ELSE a = 7 END;
SELECT a FROM t WHERE coalesce(NULL, b, 5) = coalesce(NULL, 3, 1 / 0);
SELECT t.a FROM t LEFT JOIN u ON u.ta = t.a AND 1 < 2 WHERE 1 / 0 = t.b AND 1 > 2;
