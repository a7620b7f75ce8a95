-- Statements that differ in their literals alone have one plan, and each is what it would be by itself.
CREATE TABLE t (id int PRIMARY KEY, small smallint, big bigint, n numeric(6, 2), v varchar(3), c char(4), d date, b boolean);
INSERT INTO t VALUES (1, 2, 3, 4.567, 'abc', 'x', '2020-01-02', true);
INSERT INTO t VALUES (2, 3, 4000000000, -4.567, 'ab', 'xy', '2020-02-01', false);
INSERT INTO t VALUES (3, 70000, 1, 1, 'a', 'x', '2020-01-02', true);
INSERT INTO t VALUES (3, 7, 1, 12345.6, 'a', 'x', '2020-01-02', true);
INSERT INTO t VALUES (3, 7, 1, 1, 'abcd', 'x', '2020-01-02', true);
INSERT INTO t VALUES (3, 7, 1, 1, 'a', 'x', '2020-13-02', true);
INSERT INTO t VALUES (3, 7, 1, 1, 'a', 'x', '2020-01-02', 'maybe');
INSERT INTO t VALUES (3, -7, -1, -1.005, 'it''s', '', '2020-01-02', 'yes');
INSERT INTO t VALUES (3, -7, -1, -1.005, '''s', '', '2020-01-02', 'yes'), (4, 0, 0, 0, '', '', 'epoch', 'f');
SELECT * FROM t ORDER BY id;
SELECT id FROM t WHERE c = 'x';
SELECT id FROM t WHERE c = 'x   ';
SELECT id FROM t WHERE v = 'ab';
SELECT id FROM t WHERE v = 5;
SELECT id FROM t WHERE d >= '2020-01-15' ORDER BY id;
SELECT id FROM t WHERE d >= 'someday' ORDER BY id;
SELECT id FROM t WHERE big = 4000000000;
SELECT id FROM t WHERE big = 99999999999999999999;
SELECT id FROM t WHERE id = 2147483648;
SELECT id FROM t WHERE small > -8 AND small < 0;
SELECT id, n FROM t WHERE n = -4.57;
SELECT id, n + 1.5, n - 2 FROM t WHERE id = 1;
SELECT id, small + 32767, big - -5 FROM t WHERE id = 1;
SELECT big - 9223372036854775807 - 7 FROM t WHERE id = 3;
SELECT pg_typeof(small + 1), pg_typeof(small + 3000000000), pg_typeof(small + 1.0), pg_typeof(small - 1) FROM t WHERE id = 1;
SELECT id FROM t WHERE b = 'yes' ORDER BY id;
SELECT id FROM t WHERE b = 'perhaps' ORDER BY id;
UPDATE t SET big = big + 1, v = 'new' WHERE id = 1 RETURNING big, v;
UPDATE t SET big = big + -20, v = 'newer' WHERE id = 1 RETURNING big, v;
UPDATE t SET big = big + -20, v = 'old' WHERE id = 1 RETURNING big, v;
UPDATE t SET small = 32768 WHERE id = 1;
DELETE FROM t WHERE id = 4 RETURNING id, 5 AS five;
-- What is grouped and ordered by stays what it is.
SELECT small + 1, count(*) FROM t GROUP BY small + 1 ORDER BY small + 1;
SELECT DISTINCT small - 1 FROM t ORDER BY small - 1;
SELECT id FROM t ORDER BY -1;
SELECT id = 1 AS first, count(*) FROM t GROUP BY 1 ORDER BY 1;
-- An index on some of the rows, or on an expression, is of use where the constants say so.
CREATE UNIQUE INDEX p ON t (v) WHERE small = 2;
INSERT INTO t VALUES (9, 2, 0, 0, 'old', '', 'epoch', 'f') ON CONFLICT (v) WHERE small = 2 DO NOTHING;
INSERT INTO t VALUES (9, 2, 0, 0, 'old', '', 'epoch', 'f') ON CONFLICT (v) WHERE small = 3 DO NOTHING;
INSERT INTO t VALUES (9, 2, 0, 0, 'old', '', 'epoch', 'f');
-- A column's fields say how an interval is read.
CREATE DOMAIN span AS interval year to month CHECK (VALUE < '10 years');
CREATE TABLE i (a interval year to month, b interval, c span);
INSERT INTO i VALUES ('18', '18', '18');
UPDATE i SET a = '19', b = '19', c = '19' WHERE b = '18';
UPDATE i SET c = '120' WHERE a > '1';
SELECT * FROM i;
-- A registered query is what it was.
PREPARE q AS SELECT id FROM t WHERE id = 2;
EXECUTE q;
-- In a transaction that has failed nothing is run.
BEGIN;
SELECT 1 / (id - 2) FROM t WHERE id = 2;
SELECT id FROM t WHERE id = 1;
ROLLBACK;
-- Of another DateStyle the same text means another date.
SELECT id FROM t WHERE d = '2/1/2020';
SET datestyle = 'ISO, DMY';
SELECT id FROM t WHERE d = '2/1/2020';
SELECT id FROM t WHERE d = '1/2/2020';
-- Words for a time are of the statement's.
CREATE TABLE times (a timestamptz, b timestamptz DEFAULT now(), c date);
INSERT INTO times VALUES ('now', now(), 'today');
INSERT INTO times (a, c) VALUES ('now', 'today');
SELECT a = b AS same, c = current_date AS today FROM times;
SELECT now() = 'now' AS same FROM times;
-- A number has its type with its sign.
SELECT id - -2147483648 FROM t WHERE id = 1;
SELECT pg_typeof(id - -2147483647), pg_typeof(id + -2147483649) FROM t WHERE id = 1;
-- A text is planned anew for another time zone.
CREATE TABLE z (i timestamptz);
INSERT INTO z VALUES ('2020-01-01 12:00+00');
SET timezone = 'America/New_York';
PREPARE zq AS SELECT 1 AS one FROM z WHERE i = '2020-01-01 21:00';
EXECUTE zq;
DEALLOCATE zq;
SET timezone = 'Asia/Tokyo';
PREPARE zq AS SELECT 1 AS one FROM z WHERE i = '2020-01-01 21:00';
EXECUTE zq;
-- A time of day is the statement's, too, also when the text is run again.
SET timezone = 'UTC';
SELECT time 'now' = localtime AS same, timetz 'now' = current_time AS zoned;
SELECT pg_sleep(0.01);
SELECT time 'now' = localtime AS same, timetz 'now' = current_time AS zoned;
CREATE TABLE days (t time, z timetz);
INSERT INTO days VALUES ('now', 'now');
INSERT INTO days VALUES ('now', 'now');
SELECT count(DISTINCT t), count(DISTINCT z) FROM days;
-- The ends of BETWEEN.
SELECT id FROM t WHERE id BETWEEN 1 AND 2 ORDER BY id;
SELECT id FROM t WHERE id BETWEEN 2 AND 3 ORDER BY id;
SELECT id FROM t WHERE id BETWEEN -2 AND 1.5 ORDER BY id;
SELECT id FROM t WHERE id BETWEEN '2' AND 3000000000 ORDER BY id;
SELECT id FROM t WHERE id BETWEEN '2' AND 'x' ORDER BY id;
SELECT id FROM t WHERE d BETWEEN '2020-01-15' AND '2020-12-31' AND id < 5 ORDER BY id;
SELECT id FROM t WHERE v BETWEEN 'a' AND 'abd' OR n BETWEEN -10 AND 0 ORDER BY id;
SELECT id FROM t WHERE id NOT BETWEEN 1 AND 2 ORDER BY id;
SELECT id FROM t WHERE id BETWEEN SYMMETRIC 2 AND 1 ORDER BY id;
SELECT id FROM t WHERE id BETWEEN 1 AND 1 + 1 ORDER BY id;
-- Lists of IN.
SELECT id FROM t WHERE id IN (1, 2) ORDER BY id;
SELECT id FROM t WHERE id IN (3, 3) ORDER BY id;
SELECT id FROM t WHERE id IN (-1, 2147483648) ORDER BY id;
SELECT id FROM t WHERE id IN ('2', 3000000000) ORDER BY id;
SELECT id FROM t WHERE id IN ('2', 'x') ORDER BY id;
SELECT id FROM t WHERE id NOT IN (1, 1.5) ORDER BY id;
SELECT id FROM t WHERE small IN (2, 70000) OR big IN (1, -1) ORDER BY id;
SELECT id FROM t WHERE v IN ('a', 'ab ') OR c IN ('x', 'y ') ORDER BY id;
SELECT id FROM t WHERE d IN ('2020-02-01', 'epoch') ORDER BY id;
SELECT id FROM t WHERE d IN ('2020-02-01', 'never') ORDER BY id;
SELECT id FROM t WHERE b IN ('yes', 'f') AND n NOT IN (1, 4.57) ORDER BY id;
SELECT id FROM t WHERE id IN (1) ORDER BY id;
SELECT id FROM t WHERE id IN (1, 2, 3) AND small IN (2, 3, 5, 7, 11, 13, 17) ORDER BY id DESC;
SELECT id FROM t WHERE id IN (3, 2, 1) AND small NOT IN (2, 2, 2, 2, 2, 2, 2) ORDER BY id DESC;
