-- Ranges of an index that OR puts together: each row once, in the index's order, however they overlap.
CREATE TABLE t (a integer PRIMARY KEY, b integer, c text);
INSERT INTO t SELECT n, n % 10, 'c' || n FROM generate_series(1, 3000) n;
INSERT INTO t VALUES (-5, NULL, NULL), (5000, 5, 'x');
CREATE INDEX t_bc ON t (b, a DESC);
CREATE INDEX t_c ON t (c);
EXPLAIN (COSTS off) SELECT a FROM t WHERE a BETWEEN 5 AND 7 OR a BETWEEN 100 AND 102;
SELECT a FROM t WHERE a BETWEEN 5 AND 7 OR a BETWEEN 100 AND 102;
-- They overlap, touch, lie in each other, are empty.
SELECT count(*), min(a), max(a), sum(a) FROM t WHERE a BETWEEN 5 AND 20 OR a BETWEEN 10 AND 30 OR a BETWEEN 12 AND 13;
SELECT a FROM t WHERE a BETWEEN 5 AND 6 OR a BETWEEN 7 AND 8 OR a BETWEEN 9 AND 1 OR a = 6;
SELECT a FROM t WHERE a > 2998 OR a < 2;
SELECT count(*) FROM t WHERE a > 5 OR a < 7;
SELECT a FROM t WHERE a BETWEEN 9 AND 1 OR a BETWEEN 8 AND 2;
SELECT a FROM t WHERE a = 7 OR a BETWEEN 7 AND 7 OR (a > 6 AND a <= 8);
-- In order, either way, without a sort.
EXPLAIN (COSTS off) SELECT a FROM t WHERE a < 3 OR a BETWEEN 10 AND 12 OR a > 2999 ORDER BY a DESC;
SELECT a FROM t WHERE a < 3 OR a BETWEEN 10 AND 12 OR a > 2999 ORDER BY a DESC;
SELECT a FROM t WHERE a < 3 OR a BETWEEN 10 AND 12 OR a > 2999 ORDER BY a LIMIT 4;
SELECT a FROM t WHERE a > 2999 OR a BETWEEN 10 AND 12 ORDER BY a DESC LIMIT 3;
-- NULL is an end of no range; the others stay.
SELECT a FROM t WHERE a < NULL OR a BETWEEN 3 AND 4;
PREPARE two(integer, integer, bigint, bigint) AS SELECT a FROM t WHERE a BETWEEN $1 AND $2 OR a BETWEEN $3 AND $4 ORDER BY a;
EXPLAIN (COSTS off) EXECUTE two(1, 2, 3, 4);
EXECUTE two(1, 2, 4, 5);
EXECUTE two(NULL, 2, 4, 5);
EXECUTE two(1, 2, NULL, NULL);
EXECUTE two(1, 2, 2999, 3000000000);
EXECUTE two(1, 2, -3000000000, 0);
EXECUTE two(1, 2, 3000000000, 4000000000);
EXECUTE two(NULL, NULL, NULL, NULL);
SELECT a FROM t WHERE a < 1.5 OR a > 2999.5;
-- What all parts have in common, and pages by a key of two columns, one of which falls.
EXPLAIN (COSTS off) SELECT a FROM t WHERE b = 3 AND (a < 20 OR a > 2990);
SELECT a FROM t WHERE b = 3 AND (a < 20 OR a > 2990);
SELECT a FROM t WHERE b = 3 AND (a < 20 OR a > 2990) ORDER BY a DESC;
EXPLAIN (COSTS off) SELECT b, a FROM t WHERE (b = 8 AND a < 20) OR (b = 9 AND a > 2970) ORDER BY b, a DESC;
SELECT b, a FROM t WHERE (b = 8 AND a < 20) OR (b = 9 AND a > 2970) ORDER BY b, a DESC;
SELECT b, a FROM t WHERE b > 9 OR (b = 9 AND a < 30) ORDER BY b, a DESC;
SELECT a FROM t WHERE c LIKE 'c299%' OR c = 'x' ORDER BY a;
SELECT a FROM t WHERE (c >= 'c10' AND c < 'c1001') OR c LIKE 'c100%' ORDER BY c;
-- Parts without a range of the same index.
EXPLAIN (COSTS off) SELECT a FROM t WHERE a < 3 OR c = 'c7';
SELECT a FROM t WHERE a < 3 OR c = 'c7' ORDER BY a;
EXPLAIN (COSTS off) SELECT a FROM t WHERE a < 3 OR a <> 7;
-- For each row of another table.
CREATE TABLE s (low integer, high integer);
INSERT INTO s VALUES (1, 2), (2990, 5), (NULL, 1), (7, NULL), (4, 3000);
EXPLAIN (COSTS off) SELECT low, high, a FROM s, t WHERE a = low OR (a > high AND a < high + 3);
SELECT low, high, a FROM s, t WHERE a = low OR (a > high AND a < high + 3) ORDER BY 1, 2, 3;
SELECT low, (SELECT count(*) FROM t WHERE a < low OR a > 2995) FROM s ORDER BY 1;
SELECT low FROM s WHERE EXISTS (SELECT 1 FROM t WHERE a = low - 10 OR a BETWEEN low + 1 AND low + 2) ORDER BY 1;
-- Changes: of the key, too.
UPDATE t SET a = a + 100000 WHERE a BETWEEN 1 AND 3 OR a > 2999 RETURNING a;
UPDATE t SET a = a - 100000 WHERE a < 5 AND a > 0 OR a > 50000 RETURNING a;
DELETE FROM t WHERE a BETWEEN 10 AND 12 OR a BETWEEN 12 AND 14 RETURNING a;
SELECT a FROM t WHERE a BETWEEN 8 AND 11 OR a BETWEEN 13 AND 16;
BEGIN;
SELECT a FROM t WHERE a < 3 OR a BETWEEN 20 AND 21 ORDER BY a FOR UPDATE;
DECLARE c SCROLL CURSOR FOR SELECT a FROM t WHERE a < 3 OR a BETWEEN 20 AND 21 ORDER BY a;
FETCH 3 FROM c;
FETCH BACKWARD 2 FROM c;
FETCH ALL FROM c;
COMMIT;
-- An index on some of the rows.
CREATE INDEX t_some ON t (c) WHERE b = 4;
EXPLAIN (COSTS off) SELECT c FROM t WHERE b = 4 AND (c < 'c12' OR c > 'c99');
SELECT count(*), min(c), max(c) FROM t WHERE b = 4 AND (c < 'c12' OR c > 'c99');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT a FROM t WHERE a < 3 OR a > 4000;
COMMIT;
