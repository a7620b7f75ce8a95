-- Labels of enums have PostgreSQL's numbers.
CREATE TYPE planets AS ENUM ('venus', 'earth', 'mars');
ALTER TYPE planets ADD VALUE 'uranus';
ALTER TYPE planets ADD VALUE 'mercury' BEFORE 'venus';
ALTER TYPE planets ADD VALUE 'saturn' BEFORE 'uranus';
ALTER TYPE planets ADD VALUE 'jupiter' AFTER 'mars';
ALTER TYPE planets ADD VALUE 'neptune' AFTER 'uranus';
SELECT enumlabel, enumsortorder FROM pg_enum WHERE enumtypid = 'planets'::regtype ORDER BY 2;
-- Zones that are written out without a name.
SET TimeZone = '+02:00';
SELECT timestamptz '2020-01-01 12:00+00', to_char(timestamptz '2020-01-01 12:00+00', 'OF TZH:TZM');
SET TimeZone = '-00:30';
SELECT timestamptz '2020-01-01 12:00+00';
SHOW TimeZone;
SET TimeZone = '';
RESET TimeZone;
SELECT timestamp '2020-01-01 12:00' AT TIME ZONE '+02:00' AT TIME ZONE 'UTC';
SELECT tz, make_timestamptz(2010, 2, 27, 3, 45, 0, tz) AT TIME ZONE 'UTC'
    FROM (VALUES ('+1'), ('+1:'), ('+1:0'), ('+100'), ('+10:00:'), ('+10:00:1')) v(tz);
-- Numbers of transactions.
SELECT '010'::xid, '42'::xid, '0xffffffff'::xid, '-1'::xid, ''::xid, 'asdf'::xid;
SELECT '1'::xid = '1'::xid, '1'::xid <> '1'::xid, '1'::xid = 1, '1'::xid <> 2;
SELECT '1'::xid < '2'::xid;
-- Rows compared by their bytes.
SELECT a, b, a *< b AS lt, a *<= b AS le, a *= b AS eq, a *<> b AS ne, a *>= b AS ge, a *> b AS gt
    FROM (SELECT ROW(x, y), ROW(z, w) FROM (VALUES (1, 'a', 1, 'b'), (2, 'a', 1, 'b'), (1, 'a', 1, 'a'),
        (-1, '', 1, ''), (1, 'a', 1, 'ab'), (NULL, 'a', 1, 'a')) n(x, y, z, w)) v(a, b);
SELECT a *< b FROM (VALUES (ROW(1), ROW(1, 2))) v(a, b);
SELECT ROW(1) *< ROW(2);
-- A default and a check that have a literal, and another type.
CREATE TABLE dated (d date DEFAULT '2020-01-02', n integer DEFAULT '7', s text DEFAULT 'x', CHECK (d > '2000-01-01'));
ALTER TABLE dated ALTER d TYPE text;
ALTER TABLE dated ALTER n TYPE text;
ALTER TABLE dated ALTER s TYPE integer USING 1;
ALTER TABLE dated DROP CONSTRAINT dated_d_check;
ALTER TABLE dated ALTER d TYPE text;
INSERT INTO dated DEFAULT VALUES RETURNING *;
-- Columns of views.
CREATE TABLE named (c regclass, n integer);
CREATE VIEW numbers AS SELECT tableoid, c, n FROM named;
SELECT pg_get_viewdef('numbers');
CREATE VIEW unspecified AS SELECT 'foo' AS u, 'foo'::unknown AS u2, NULL AS n;
SELECT attname, atttypid::regtype FROM pg_attribute WHERE attrelid = 'unspecified'::regclass ORDER BY attnum;
-- A key of an index with COLLATE around it.
CREATE INDEX named_text ON named ((n::text COLLATE "C"), (n::text || 'x' COLLATE "C"));
SELECT pg_get_indexdef('named_text'::regclass);
-- A function by whose value another's argument is left out.
CREATE FUNCTION one() RETURNS integer LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION by_one(x integer DEFAULT one()) RETURNS integer LANGUAGE sql AS 'SELECT x';
DROP FUNCTION one;
DROP FUNCTION one CASCADE;
SELECT by_one(1);
-- Rows of a function beside their numbers.
CREATE TYPE pair AS (a integer, b text);
CREATE FUNCTION pairs(n integer) RETURNS SETOF pair LANGUAGE sql AS 'SELECT i, i::text FROM generate_series(1, n) i';
SELECT * FROM pairs(2) WITH ORDINALITY;
SELECT * FROM pairs(2) WITH ORDINALITY AS p(x, y, z);
SELECT * FROM ROWS FROM (pairs(2), generate_series(1, 3)) AS p(x, y, z);
CREATE VIEW numbered AS SELECT * FROM pairs(2) WITH ORDINALITY AS p(x, y, z);
SELECT * FROM numbered;
SELECT pg_get_viewdef('numbered');
-- Elements of a schema.
SET search_path = ' ';
CREATE SCHEMA elements CREATE UNIQUE INDEX abc_a ON abc (a) CREATE TABLE abc (a serial, b integer UNIQUE);
RESET search_path;
CREATE SCHEMA passing CREATE TEMP VIEW v AS SELECT 1;
-- A prepared statement's columns stay what they are.
CREATE TABLE changed (a integer, b integer);
PREPARE all_of AS SELECT * FROM changed;
EXECUTE all_of;
ALTER TABLE changed ADD c integer;
EXECUTE all_of;
ALTER TABLE changed DROP c;
EXECUTE all_of;
-- A join by columns of two types.
CREATE TABLE of_integers (a integer, b integer);
CREATE TABLE of_numerics (a numeric, c integer);
CREATE VIEW joined AS SELECT * FROM of_integers JOIN of_numerics USING (a);
SELECT pg_get_viewdef('joined', true);
CREATE VIEW joined_wholly AS SELECT * FROM of_integers FULL JOIN of_numerics USING (a);
SELECT pg_get_viewdef('joined_wholly', true);
CREATE SCHEMA IF NOT EXISTS elements CREATE TABLE further (a integer);
