CREATE TABLE t (a integer PRIMARY KEY, b integer, c text, d date);
CREATE TABLE u (id integer PRIMARY KEY, ta integer NOT NULL, n numeric(10,2));
CREATE INDEX t_b ON t (b, a);

-- A sort below it where the rows do not come in its order.
SELECT row_number() OVER () FROM t;
SELECT row_number() OVER (ORDER BY c) FROM t;
SELECT row_number() OVER (PARTITION BY c ORDER BY d DESC NULLS LAST, a) FROM t;
SELECT row_number() OVER (PARTITION BY d ORDER BY d DESC, c, d) FROM t;
SELECT row_number() OVER (ORDER BY a) FROM t;
SELECT count(*) OVER (PARTITION BY b) FROM t WHERE b > 3;
SELECT row_number() OVER (ORDER BY (SELECT max(n) FROM u WHERE ta = a)) FROM t;
SELECT row_number() OVER (ORDER BY random()) FROM t;
-- Windows that share an order: one sort, the longer first; others have their own.
SELECT rank() OVER (PARTITION BY c), rank() OVER (PARTITION BY c ORDER BY d), sum(a) OVER () FROM t;
SELECT rank() OVER (ORDER BY c), rank() OVER (ORDER BY d), rank() OVER (ORDER BY c, d) FROM t;
SELECT sum(a) OVER x, count(*) OVER x, rank() OVER y FROM t WINDOW x AS (ORDER BY c), y AS (ORDER BY c ROWS 1 PRECEDING);
SELECT rank() OVER (ORDER BY c) FROM t WINDOW unused AS (ORDER BY d);
-- Its order serves ORDER BY.
SELECT a, rank() OVER (PARTITION BY c ORDER BY d) FROM t ORDER BY c, d;
SELECT a, rank() OVER (PARTITION BY c ORDER BY d) FROM t ORDER BY c DESC;
SELECT a, rank() OVER (ORDER BY c) FROM t ORDER BY c LIMIT 3;
SELECT a, rank() OVER (ORDER BY c) AS r FROM t ORDER BY r LIMIT 3;
-- Above groups, below DISTINCT and functions that give rows.
SELECT b, sum(sum(a)) OVER (ORDER BY b) FROM t GROUP BY b;
SELECT DISTINCT count(*) OVER (PARTITION BY c) FROM t;
SELECT generate_series(1, rank() OVER (ORDER BY c)::int) FROM t;
-- Conditions go below it if they are on keys of all partitions.
SELECT * FROM (SELECT a, b, rank() OVER (PARTITION BY b ORDER BY c) AS r FROM t) x WHERE b = 3;
SELECT * FROM (SELECT a, b, rank() OVER (PARTITION BY b ORDER BY c) AS r FROM t) x WHERE a = 3;
SELECT * FROM (SELECT a, b, rank() OVER (PARTITION BY b ORDER BY c) AS r FROM t) x WHERE r = 1 AND b = 3;
SELECT * FROM (SELECT a, b, rank() OVER (PARTITION BY b, c) AS r, rank() OVER (PARTITION BY c, b) AS s FROM t) x WHERE b = 3;
SELECT * FROM (SELECT a, b, rank() OVER (PARTITION BY b) AS r, rank() OVER (ORDER BY c) AS s FROM t) x WHERE b = 3;
-- What nobody asks for is not computed.
SELECT a FROM (SELECT a, b, rank() OVER (PARTITION BY b) AS r FROM t) x;
SELECT a, r FROM (SELECT a, rank() OVER (PARTITION BY b) AS r, rank() OVER (ORDER BY c) AS s FROM t) x;
SELECT x.r, u.n FROM (SELECT a, rank() OVER (ORDER BY c) AS r FROM t) x JOIN u ON u.ta = x.a WHERE x.a > 3;
SELECT u.id FROM u LEFT JOIN (SELECT a, rank() OVER (ORDER BY c) AS r FROM t) x ON x.a = u.ta;
SELECT a FROM t WHERE EXISTS (SELECT rank() OVER () FROM u WHERE u.ta = t.a);
SELECT a FROM t WHERE a IN (SELECT rank() OVER (ORDER BY n) FROM u WHERE u.ta = t.b);
