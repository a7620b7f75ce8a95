-- CREATE TABLE AS: columns, names and types of a query's outcome.
CREATE TABLE src (a integer PRIMARY KEY, b varchar(10) NOT NULL, c char(4), d numeric(8, 2), e timestamptz, f text DEFAULT 'x', g bytea);
INSERT INTO src VALUES (1, 'one', 'ab', 1.5, '2024-01-01 00:00:00+00', 'f1', '\x01'), (2, 'two', NULL, 2.25, NULL, NULL, NULL), (3, 'three', 'wxyz', -3, NULL, '', '\x');
CREATE TABLE copy AS SELECT * FROM src;
SELECT * FROM copy ORDER BY a;
CREATE TABLE named (x, y) AS SELECT a, b, d * 2 AS z FROM src WHERE a > 1;
SELECT * FROM named ORDER BY x;
CREATE TABLE empty AS SELECT * FROM src WITH NO DATA;
SELECT count(*) FROM empty;
-- Types keep their modifiers: too long for varchar(10), rounded to two decimals.
INSERT INTO empty (b) VALUES ('12345678901');
INSERT INTO empty (b, d) VALUES (NULL, 1.239);
SELECT a, b, d, f FROM empty;
INSERT INTO named VALUES (7, 'seven', 1.23456);
SELECT * FROM named WHERE x = 7;
-- Literals and values.
CREATE TABLE literals AS SELECT 1 AS i, 'text' AS t, NULL AS n, 1.50 AS d, true AS b, now() IS NULL AS w;
SELECT * FROM literals;
CREATE TABLE valued (p, q) AS VALUES (1, 'a'), (2, 'b');
SELECT * FROM valued ORDER BY p;
CREATE TABLE tabled AS TABLE valued;
CREATE TABLE grouped AS SELECT b, count(*), sum(d) FROM src GROUP BY b ORDER BY b LIMIT 2;
SELECT * FROM grouped ORDER BY b;
CREATE TABLE united AS SELECT a FROM src UNION ALL SELECT p FROM valued;
SELECT count(*), sum(a) FROM united;
CREATE TABLE withed AS WITH w AS (SELECT a FROM src) SELECT max(a) FROM w;
SELECT * FROM withed;
-- Names.
CREATE TABLE copy AS SELECT 1 AS a;
CREATE TABLE IF NOT EXISTS copy AS SELECT 1 AS a;
CREATE TABLE IF NOT EXISTS newer AS SELECT 1 AS a;
CREATE TABLE twice AS SELECT a, a FROM src;
CREATE TABLE many (x, y, z) AS SELECT 1, 2;
CREATE TABLE anonymous AS SELECT 1, 2;
CREATE TABLE one_anonymous AS SELECT 1 + 1, length('abc');
SELECT * FROM one_anonymous;
CREATE TABLE hidden AS SELECT 1 AS ctid;
-- Errors leave nothing.
CREATE TABLE broken AS SELECT 10 / (a - 3) AS q FROM src;
SELECT * FROM broken;
CREATE TABLE lost AS SELECT * FROM nothing;
-- In a transaction.
BEGIN;
CREATE TABLE inside AS SELECT a FROM src;
INSERT INTO inside VALUES (4);
SELECT sum(a) FROM inside;
SAVEPOINT s;
CREATE TABLE later AS SELECT * FROM inside;
ROLLBACK TO s;
SELECT count(*) FROM inside;
COMMIT;
SELECT count(*) FROM later;
BEGIN;
CREATE TABLE undone AS SELECT 1 AS a;
ROLLBACK;
SELECT * FROM undone;
-- A table that its own making does not see.
CREATE TABLE self AS SELECT * FROM self;
-- Refused.
CREATE TEMP TABLE t AS SELECT 1 AS a;
CREATE UNLOGGED TABLE ut AS SELECT 1 AS a;
CREATE MATERIALIZED VIEW mt AS SELECT 1 AS a;
PREPARE p AS SELECT 1;
CREATE TABLE t AS EXECUTE p;
PREPARE q(integer) AS CREATE TABLE t AS SELECT $1 AS a;
EXPLAIN CREATE TABLE t AS SELECT 1 AS a;
SELECT 1 AS a INTO t;
