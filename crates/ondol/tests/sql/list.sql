-- Lists: IN and NOT IN of few and of many values, with and without an index, and VALUES.
CREATE TABLE h (id integer PRIMARY KEY, n bigint, x numeric(8, 2), f double precision, s text, c char(4), d date, b boolean);
INSERT INTO h VALUES
    (1, 10, 1.50, 0.5, 'one', 'a', '2024-01-01', true),
    (2, 20, 2.00, -0.0, 'two', 'b', '2024-01-02', false),
    (3, 30, 3.25, 'NaN', 'three', 'c', '2024-01-03', NULL),
    (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (5, 50, 5.00, 5, '', 'e', '2024-01-05', true);
CREATE INDEX ON h (n);
CREATE INDEX ON h USING hash (s);
-- Few and many of each type.
SELECT id FROM h WHERE id IN (1, 3, 7) ORDER BY id;
SELECT id FROM h WHERE id IN (1, 3, 7, 8, 9, 10, 11, 12, 13, 14, 3, 1, NULL) ORDER BY id;
SELECT id FROM h WHERE id NOT IN (1, 3, 7, 8, 9, 10, 11, 12, 13, 14, 3, 1) ORDER BY id;
SELECT id FROM h WHERE id NOT IN (1, 3, 7, 8, 9, 10, 11, 12, 13, 14, 3, 1, NULL) ORDER BY id;
SELECT id, id + 0 IN (1, 7, 8, 9, 10, 11, 12, 13, 14, 15), id + 0 IN (1, 7, 8, 9, 10, 11, 12, 13, 14, NULL) FROM h ORDER BY id;
SELECT id, n + 0 IN (10, 7, 8, 9, 10, 11, 12, 13, 14, 15), n + 0 NOT IN (10, 7, 8, 9, 11, 12, 13, 14, 15, 16, NULL) FROM h ORDER BY id;
SELECT id FROM h WHERE n IN (10, 30, 31, 32, 33, 34, 35, 36, 37, 38) ORDER BY id;
SELECT id FROM h WHERE n NOT IN (10, 30, 31, 32, 33, 34, 35, 36, 37, 38) ORDER BY id;
SELECT id FROM h WHERE x IN (1.5, 2, 7, 8, 9, 10, 11, 12, 13, 14) ORDER BY id;
SELECT id FROM h WHERE f IN (0, 5, 'NaN', 8, 9, 10, 11, 12, 13, 14) ORDER BY id;
SELECT id FROM h WHERE s IN ('one', 'three', '', 'c', 'd', 'e', 'f', 'g', 'h', 'i') ORDER BY id;
SELECT id FROM h WHERE s || '' IN ('one', 'three', '', 'c', 'd', 'e', 'f', 'g', 'h', 'i') ORDER BY id;
SELECT id FROM h WHERE c IN ('a', 'b  ', 'x', 'y', 'z', 'a ', 'e   ', 'f', 'g', 'h') ORDER BY id;
SELECT id FROM h WHERE d IN ('2024-01-01', '2024-01-05', '2025-01-01', '2025-01-02', '2025-01-03', '2025-01-04', '2025-01-05', '2025-01-06', '2025-01-07') ORDER BY id;
SELECT id FROM h WHERE b IN (true, true, true, true, true, true, true, true, true) ORDER BY id;
SELECT id FROM h WHERE b NOT IN (true, true, true, true, true, true, true, true, NULL) ORDER BY id;
-- Mixed types have a common one.
SELECT id FROM h WHERE id IN (1, 2.0, 3.5, 4, 5, 6, 7, 8, 9, 10) ORDER BY id;
SELECT id FROM h WHERE id IN (1, 3000000000, 3, 4, 5, 6, 7, 8, 9, 10) ORDER BY id;
SELECT id FROM h WHERE id::smallint IN (1, 70000, 3, 4, 5, 6, 7, 8, 9, 10) ORDER BY id;
SELECT id FROM h WHERE n IN (10::smallint, 20, 3::bigint, 4, 5, 6, 7, 8, 9, 11) ORDER BY id;
SELECT id FROM h WHERE n IN (10, 0.5e1, 3::bigint, 4, 5, 6, 7, 8, 9, 11) ORDER BY id;
SELECT 1 IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 'ten');
SELECT NULL IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
SELECT 0 IN (1, 2, 3, 4, 5, 6, 7, 8, 9, NULL), 0 NOT IN (1, 2, 3, 4, 5, 6, 7, 8, 9, NULL), 9 NOT IN (1, 2, 3, 4, 5, 6, 7, 8, 9, NULL);
-- What is not constant, and what looks at the row.
SELECT id FROM h WHERE id IN (1, 2 + 0, 3, 4, 5, length('sixsix'), 7, 8, 9, 10, n / 10) ORDER BY id;
SELECT id FROM h WHERE n IN (id * 10, 1, 2, 3, 4, 5, 6, 7, 8, 9) ORDER BY id;
SELECT id FROM h WHERE n NOT IN (id * 10, 1, 2, 3, 4, 5, 6, 7, 8, 9) ORDER BY id;
SELECT id FROM h WHERE n IN (1, 2, 3, 4, 5, 6, 7, 8, 9, (SELECT max(n) FROM h)) ORDER BY id;
SELECT id FROM h WHERE EXISTS (SELECT 1 FROM h i WHERE i.n IN (h.id * 10, 1, 2, 3, 4, 5, 6, 7, 8, 9) AND i.id = h.id) ORDER BY id;
SELECT id FROM h WHERE id = ANY (ARRAY[1, 3, 7, 8, 9, 10, 11, 12, 13, 14]) ORDER BY id;
SELECT id FROM h WHERE id <> ALL (ARRAY[1, 3, 7, 8, 9, 10, 11, 12, 13, 14]) ORDER BY id;
SELECT id FROM h WHERE (id, n) IN ((1, 10), (2, 21), (3, 30), (4, NULL), (5, 50)) ORDER BY id;
-- Parameters, few and many, NULLs among them, twice with other values.
PREPARE few(bigint, bigint, bigint) AS SELECT id FROM h WHERE n IN ($1, $2, $3) ORDER BY id;
EXECUTE few(10, NULL, 30);
EXECUTE few(20, 20, 20);
PREPARE many(bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint) AS
    SELECT id, n + 0 IN ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 50) AS found, n + 0 NOT IN ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) AS lacks FROM h ORDER BY id;
EXECUTE many(10, 30, 1, 2, 3, 4, 5, 6, 7, 8);
EXECUTE many(20, NULL, 1, 2, 3, 4, 5, 6, 7, 8);
EXECUTE many(20, 21, 1, 2, 3, 4, 5, 6, 7, 8);
PREPARE keys(bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint, bigint) AS
    SELECT id FROM h WHERE id IN ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 5) ORDER BY id;
EXECUTE keys(1, 1, 3000000000, NULL, 2, 6, 7, 8, 9, 10);
EXECUTE keys(3, 4, 3000000000, 11, 12, 6, 7, 8, 9, 10);
-- The inner side of a join, and of a loop.
SELECT a.id, b.id FROM h a JOIN h b ON b.n = a.n AND b.id IN (1, 2, 3, 7, 8, 9, 10, 11, 12, 13) WHERE a.id IN (2, 3, 4, 7, 8, 9, 10, 11, 12, 13) ORDER BY 1;
SELECT a.id, (SELECT count(*) FROM h b WHERE b.id >= a.id AND b.id IN (1, 2, 3, 7, 8, 9, 10, 11, 12, 13)) FROM h a ORDER BY 1;
SELECT a.id, b.id FROM h a LEFT JOIN h b ON b.id = a.id AND b.n + 0 IN (10, 20, 3, 7, 8, 9, 11, 12, 13, 14) ORDER BY 1;
-- VALUES: rows of constants, and others between them.
SELECT * FROM (VALUES (1, 'a'), (2, 'b'), (1 + 2, upper('c')), (4, NULL), (NULL, 'e')) v (i, t) ORDER BY i;
SELECT * FROM (VALUES (1, 0), (2, (SELECT count(*) FROM h)), (3, 0), (4, (SELECT max(id) FROM h))) v (i, t) ORDER BY i;
SELECT id, (SELECT sum(v.k) FROM (VALUES (1), (h.id), (100), (h.id * 10)) v (k)) FROM h ORDER BY id;
INSERT INTO h (id, n, s) VALUES (6, 60, 'six'), (7, DEFAULT, 'seven'), (8, 40 + 40, lower('EIGHT')), (9, (SELECT max(id) FROM h), 'nine') RETURNING id, n, s;
SELECT CASE WHEN id IN (1, 2, 3, 4, 5, 60, 7, 8, 9, 10) THEN 'in' ELSE 'out' END, count(*) FROM h GROUP BY 1 ORDER BY 1;
UPDATE h SET n = -1 WHERE id IN (6, 7, 8, 9, 10, 11, 12, 13, 14, 15) AND s NOT IN ('six', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i') RETURNING id;
DELETE FROM h WHERE id NOT IN (1, 2, 3, 4, 5, 60, 70, 80, 90, 100) RETURNING id;
-- A row that went from one value of the list to another comes once, whichever index leads to it.
CREATE TABLE moved (id integer PRIMARY KEY, k integer, t text, c char(3), n numeric);
CREATE INDEX moved_k ON moved (k);
CREATE INDEX moved_t ON moved USING hash (t);
CREATE INDEX moved_c ON moved USING hash (c);
CREATE INDEX moved_n ON moved (n, k);
INSERT INTO moved VALUES (1, 1, 'a', 'a', 1.0), (2, 2, 'b', 'b', 2);
BEGIN;
UPDATE moved SET id = id + 10, k = k + 10, t = t || 'x', c = 'z', n = n + 10;
SELECT id FROM moved WHERE id IN (1, 11, 2, 12) ORDER BY id;
SELECT id FROM moved WHERE k IN (1, 11, 2, 12, NULL) ORDER BY id;
SELECT id FROM moved WHERE t IN ('a', 'ax', 'b', 'bx') ORDER BY id;
SELECT id FROM moved WHERE c IN ('a', 'b', 'z') ORDER BY id;
SELECT id FROM moved WHERE c IN ('z'::text, 'z '::text, 'a') ORDER BY id;
SELECT id FROM moved WHERE n IN (1, 11.00, 11, 12, 2) AND k = 11 ORDER BY id;
SELECT a.id, b.id FROM moved a JOIN moved b ON b.id IN (a.id, a.id - 10, a.id + 1) ORDER BY 1, 2;
UPDATE moved SET k = k + 1 WHERE k IN (1, 11, 2, 12) RETURNING id, k;
SELECT id FROM moved WHERE id IN (1, 11, 2, 12) ORDER BY id FOR UPDATE;
COMMIT;
SELECT id FROM moved WHERE k IN (1, 2, 11, 12, 13) ORDER BY id;
DROP TABLE moved;
DROP TABLE h;
SELECT date '2020-01-01' IN (timestamp '2020-01-01', timestamptz '2020-01-02'), date '2020-01-01' IN ('2020-01-02', timestamptz '2020-01-01');
SELECT timestamp '2020-01-01' IN (date '2020-01-01', timestamptz '2020-01-02'), timestamptz '2020-01-01' IN (date '2020-01-02', timestamp '2020-01-01');
SELECT timestamptz '2020-01-01' NOT IN (date '2020-01-02', timestamp '2020-01-03', NULL);
SELECT date '2020-01-01' IN (1, 2);
SELECT 'a' IN (1, 'b');
