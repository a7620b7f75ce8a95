-- Domains: made, changed, dropped; checked wherever a value becomes one.
CREATE DOMAIN posint AS integer CHECK (VALUE > 0);
CREATE DOMAIN posint AS integer;
CREATE DOMAIN code AS varchar(5) NOT NULL DEFAULT 'none' CONSTRAINT lower_case CHECK (VALUE = lower(VALUE)) CHECK (length(VALUE) > 1);
CREATE DOMAIN small AS posint CONSTRAINT below_100 CHECK (VALUE < 100);
CREATE DOMAIN plain AS text NULL;
CREATE DOMAIN bad AS nosuch;
CREATE DOMAIN bad AS integer CHECK (VALUE > 'x');
CREATE DOMAIN bad AS integer CHECK (VALUE + 1);
CREATE DOMAIN bad AS integer CHECK (a > 1);
CREATE DOMAIN bad AS integer CHECK ((SELECT 1) = VALUE);
CREATE DOMAIN bad AS integer DEFAULT 'x';
CREATE DOMAIN bad AS integer NULL NOT NULL;
CREATE DOMAIN bad AS integer DEFAULT 1 DEFAULT 2;
CREATE DOMAIN bad AS integer PRIMARY KEY;
CREATE DOMAIN bad AS integer CONSTRAINT c CHECK (VALUE > 0) CONSTRAINT c CHECK (VALUE > 1);
-- Casts.
SELECT 5::posint, '7'::posint, 5.4::posint, posint '8', CAST(NULL AS posint);
SELECT 0::posint;
SELECT '-1'::posint;
SELECT 'x'::posint;
SELECT 100::small;
SELECT 0::small;
SELECT 'ab'::code, 'abcdefgh'::code, 'AB'::text::varchar::text || 'c';
SELECT 'AB'::code;
SELECT 'a'::code;
SELECT NULL::code;
SELECT ''::plain, NULL::plain;
SELECT a::posint FROM (VALUES (1), (2), (-3)) v (a);
SELECT 5::posint + 1, 5::posint = 5, 5::posint < 6.5, abs(5::posint), 5::posint || 'x', -(3::small);
SELECT 5::posint::small, 5::small::posint::text, 5::bigint::posint;
SELECT CASE WHEN true THEN 5::posint ELSE 6 END, coalesce(NULL::posint, 3), greatest(2::posint, 1);
SELECT 5::posint UNION SELECT 6 ORDER BY 1;
SELECT sum(a::posint), max(a::posint) FROM (VALUES (1), (2)) v (a);
-- Tables.
CREATE TABLE t (id posint PRIMARY KEY, c code, s small DEFAULT 7, p plain);
INSERT INTO t VALUES (1, 'ab', 5, 'x');
INSERT INTO t (id) VALUES (2);
INSERT INTO t (id, c, s) VALUES (3, DEFAULT, NULL);
INSERT INTO t VALUES (0, 'ab', 5);
INSERT INTO t VALUES (4, 'AB', 5);
INSERT INTO t VALUES (4, NULL, 5);
INSERT INTO t VALUES (4, 'ab', 100);
INSERT INTO t VALUES (4, 'abcdef', 1);
INSERT INTO t (id, s) SELECT g, g * 20 FROM generate_series(4, 6) g;
INSERT INTO t (id, s) SELECT g, g * 10 FROM generate_series(4, 6) g;
INSERT INTO t (id, s) VALUES (9, 1), (8, -1);
UPDATE t SET s = s + 40 WHERE id = 6;
UPDATE t SET s = s + 1, c = upper(c);
UPDATE t SET c = DEFAULT, s = DEFAULT WHERE id = 1 RETURNING *;
SELECT * FROM t ORDER BY id;
SELECT * FROM t WHERE id = 2 AND s < 10;
SELECT id, s FROM t WHERE s IN (7, 50) ORDER BY 1;
SELECT s, count(*) FROM t GROUP BY s ORDER BY s;
CREATE INDEX ON t (s DESC);
SELECT a.id FROM t a JOIN t b ON a.id = b.s ORDER BY 1;
EXPLAIN (COSTS off) SELECT * FROM t WHERE id = 5::posint;
-- COPY.
COPY t FROM STDIN;
20	ab	1	x
\.
COPY t FROM STDIN;
21	AB	1	x
\.
COPY t FROM STDIN;
21	ab	100	x
\.
COPY t FROM STDIN;
21	\N	1	x
\.
COPY t (id) FROM STDIN;
22
\.
COPY t (id) FROM STDIN;
0
\.
COPY (SELECT * FROM t WHERE id >= 20 ORDER BY id) TO STDOUT;
-- Parameters and functions.
PREPARE p (posint) AS SELECT $1 + 1;
EXECUTE p (4);
EXECUTE p (-4);
EXECUTE p ('x');
CREATE FUNCTION double(posint) RETURNS small LANGUAGE sql AS 'SELECT $1 * 2';
SELECT double(4);
SELECT double(-4);
SELECT double(50);
CREATE FUNCTION ids() RETURNS SETOF posint LANGUAGE sql AS 'SELECT id - 2 FROM t WHERE id > 2 ORDER BY id';
SELECT * FROM ids();
-- Over enums and arrays.
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN good AS mood CHECK (VALUE > 'sad');
SELECT 'ok'::good, 'happy'::good > 'ok';
SELECT 'sad'::good;
SELECT 'x'::good;
CREATE DOMAIN pair AS integer[] CHECK (array_length(VALUE, 1) = 2);
SELECT '{1,2}'::pair, (ARRAY[3, 4]::pair)[2], 3 = ANY ('{1,3}'::pair);
SELECT '{1,2,3}'::pair;
SELECT ARRAY[1]::pair;
CREATE TABLE u (g good, p pair);
INSERT INTO u VALUES ('ok', '{5,6}'), ('happy', NULL);
INSERT INTO u VALUES ('sad', NULL);
INSERT INTO u VALUES ('ok', '{7}');
SELECT g, p[1] FROM u ORDER BY g DESC;
ALTER TYPE mood ADD VALUE 'fair' BEFORE 'ok';
INSERT INTO u VALUES ('fair', '{0,0}');
SELECT * FROM u ORDER BY g;
DROP TYPE mood;
-- Changed.
ALTER DOMAIN small ADD CONSTRAINT even CHECK (VALUE % 2 = 0);
UPDATE t SET s = 8 WHERE s % 2 = 1;
ALTER DOMAIN small ADD CONSTRAINT even CHECK (VALUE % 2 = 0);
ALTER DOMAIN small ADD CONSTRAINT even CHECK (VALUE > 0);
INSERT INTO t (id, s) VALUES (30, 3);
ALTER DOMAIN small ADD CHECK (VALUE <> 98);
SELECT 98::small;
ALTER DOMAIN small DROP CONSTRAINT small_check;
SELECT 98::small;
ALTER DOMAIN small DROP CONSTRAINT nosuch;
ALTER DOMAIN small DROP CONSTRAINT IF EXISTS nosuch;
ALTER DOMAIN small RENAME CONSTRAINT even TO twos;
SELECT 3::small;
ALTER DOMAIN small SET NOT NULL;
UPDATE t SET s = 2 WHERE s IS NULL;
ALTER DOMAIN small SET NOT NULL;
UPDATE t SET s = NULL;
ALTER DOMAIN small DROP NOT NULL;
UPDATE t SET s = NULL WHERE id = 3;
ALTER DOMAIN small SET DEFAULT 12;
INSERT INTO t (id, c) VALUES (31, DEFAULT) RETURNING *;
ALTER DOMAIN code SET DEFAULT 'other';
INSERT INTO t (id) VALUES (32) RETURNING *;
ALTER DOMAIN code DROP DEFAULT;
INSERT INTO t (id) VALUES (33) RETURNING *;
ALTER DOMAIN small RENAME TO tiny;
SELECT 3::tiny;
SELECT 3::small;
ALTER DOMAIN nosuch SET NOT NULL;
ALTER DOMAIN mood SET NOT NULL;
EXECUTE p (4);
ALTER DOMAIN posint ADD CHECK (VALUE < 1000);
EXECUTE p (1004);
SELECT double(2000);
-- Dropped.
DROP DOMAIN posint;
DROP DOMAIN nosuch;
DROP DOMAIN IF EXISTS nosuch;
DROP DOMAIN mood;
DROP DOMAIN plain;
DROP TABLE t, u;
DROP FUNCTION double, ids;
DROP DOMAIN good;
DROP TYPE pair;
DROP DOMAIN posint, tiny;
DROP DOMAIN code RESTRICT;
