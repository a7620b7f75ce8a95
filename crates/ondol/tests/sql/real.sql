-- real: 32 bits, beside double precision and exact numbers.
CREATE TABLE r (id int PRIMARY KEY, x real, y double precision, z float(7) NOT NULL DEFAULT 0.5);
INSERT INTO r VALUES (1, 1.1, 1.1), (2, 'NaN', 2), (3, '-Infinity', 3), (4, NULL, NULL), (5, 16777217, 16777217), (6, -0.0, 0);
SELECT * FROM r ORDER BY x, id;
SELECT * FROM r ORDER BY x DESC NULLS LAST, id;
-- The double nearest to the real is not the double that was written.
SELECT id, x = y, x < y, x::double precision, x::numeric, x::numeric(6, 2) FROM r WHERE x IS NOT NULL AND x <> 'NaN' AND x > '-Infinity' ORDER BY id;
SELECT 0.1::real, 0.1::real::double precision, 123456::real, 1234567::real, 0.0001::real, 0.00001::real, 1e-45::real, 3.4028235e38::real;
SELECT 1::real + 2::real, 1::real - 2.5::double precision, 3 * 1.5::real, 1::real / 3, -(2::real), +(2::real), @ (-2::real), abs(-2.5::real);
SELECT 1e39::real;
SELECT 1e-60::double precision::real;
SELECT 1e38::real * 10::real;
SELECT 1e-30::real * 1e-30::real;
SELECT 1::real / 0::real;
SELECT 3e9::real::int, 40000::real::smallint;
SELECT 2.5::real::int, 3.5::real::int, -2.5::real::bigint;
SELECT count(x), sum(x), avg(x), min(x), max(x) FROM r;
SELECT sum(x), avg(x), min(x), max(x), var_pop(x), stddev(x) FROM r WHERE id IN (1, 5, 6);
SELECT x, count(*) FROM r GROUP BY x ORDER BY x;
SELECT DISTINCT x FROM (VALUES (0::real), (-0.0::real), ('NaN'::real), ('NaN')) v (x) ORDER BY x;
CREATE INDEX ON r (x DESC);
CREATE UNIQUE INDEX ON r USING hash (x);
SELECT id FROM r WHERE x = 'NaN';
SELECT id FROM r WHERE x BETWEEN 0 AND 2::real ORDER BY id;
SELECT id FROM r WHERE x = 0;
SELECT id FROM r WHERE x < 1.1::double precision ORDER BY x;
UPDATE r SET x = x + 1 WHERE id = 1;
INSERT INTO r VALUES (7, 2.1);
COPY (SELECT * FROM r ORDER BY id) TO STDOUT (FORMAT csv);
CREATE TABLE s (x real);
COPY s FROM STDIN;
1.5
-inf
\N
x
\.
COPY s FROM STDIN;
1.5
-inf
\N
\.
SELECT * FROM s;
SELECT 'x'::real;
SELECT real '1.25', CAST('0x10' AS real), float4(2);
SELECT CASE WHEN true THEN 1 ELSE 2.5::real END, coalesce(NULL, 1.5::real, 2);
SELECT x FROM s UNION SELECT 1 ORDER BY 1;
DROP TABLE r, s;
