CREATE TABLE t1 (id integer PRIMARY KEY, a integer, b integer, n integer);
CREATE TABLE t2 (id integer PRIMARY KEY, a integer, b integer, n integer);
CREATE INDEX t2_ab ON t2 (a, b);
CREATE TABLE t3 (id integer PRIMARY KEY, a integer, b integer, n integer);
CREATE INDEX t3_b ON t3 USING hash (b);
CREATE TABLE t4 (id integer PRIMARY KEY, a integer, b integer, n integer);
CREATE TABLE t5 (id integer PRIMARY KEY, a integer, b integer, n integer);
CREATE INDEX t5_a ON t5 (a);
CREATE TABLE t6 (id integer PRIMARY KEY, a integer, b integer, n integer);
CREATE INDEX t6_ab ON t6 (a, b);
CREATE TABLE t7 (id integer PRIMARY KEY, a integer, b integer, n integer);
CREATE INDEX t7_b ON t7 USING hash (b);
CREATE TABLE t8 (id integer PRIMARY KEY, a integer, b integer, n integer);
CREATE TABLE t9 (id integer PRIMARY KEY, a integer, b integer, n integer);
CREATE INDEX t9_a ON t9 (a);
CREATE TABLE t10 (id integer PRIMARY KEY, a integer, b integer, n integer);
CREATE INDEX t10_ab ON t10 (a, b);
CREATE TABLE t11 (id integer PRIMARY KEY, a integer, b integer, n integer);
CREATE INDEX t11_b ON t11 USING hash (b);
CREATE TABLE t12 (id integer PRIMARY KEY, a integer, b integer, n integer);
-- 3 tables
SELECT t6.n, t11.n FROM t6
    CROSS JOIN t8
    JOIN t11 ON t11.a = t8.a AND t11.b = t8.n
WHERE t8.a = t6.id AND t11.id < 100 AND t8.id < 100
ORDER BY t6.id LIMIT 5;
-- 4 tables
SELECT t5.n, t3.n FROM t5
    JOIN t12 ON t12.a = t5.id
    JOIN t6 ON t6.a = t12.id
    JOIN t3 ON t3.id = t6.a
WHERE t3.b IS NULL;
-- 5 tables
SELECT t4.n, t7.n FROM t4
    LEFT JOIN t5 ON t5.a = t4.a AND t5.b = t4.n
    JOIN t6 ON t6.a = t5.id
    LEFT JOIN t11 ON t11.n < t6.n AND t11.id = t6.b
    LEFT JOIN t7 ON t7.id = t4.a;
-- 6 tables
SELECT t6.n, t9.n FROM t6
    CROSS JOIN t4
    JOIN t8 ON t8.a = t6.a AND t8.b = t6.n
    LEFT JOIN t3 ON t3.id = t8.a
    LEFT JOIN t5 ON t5.a = t3.a AND t5.b = t3.n
    LEFT JOIN t9 ON t9.a = t6.a AND t9.b = t6.n
WHERE t4.a = t6.a AND t4.b = t6.n AND t6.b IS NULL AND t3.n = 5;
-- 7 tables
SELECT t11.n, t12.n FROM t11
    RIGHT JOIN t1 ON t1.a = t11.a AND t1.b = t11.n
    CROSS JOIN t3
    LEFT JOIN t4 ON t4.id = t3.a
    LEFT JOIN t7 ON t7.id = t1.a
    JOIN t10 ON t10.id = t11.a
    JOIN t12 ON t12.a = t1.a AND t12.b = t1.n
WHERE t3.n < t1.n AND t3.id = t1.b AND t11.n = 5 AND t12.b IS NOT NULL
ORDER BY t11.n, t1.n;
-- 8 tables
SELECT t11.n, t7.n FROM t11
    JOIN t5 ON t5.a = t11.id
    CROSS JOIN t4
    CROSS JOIN t3
    CROSS JOIN t1
    JOIN t2 ON t2.id = t11.a
    JOIN t12 ON t12.a = t2.a AND t12.b = t2.n
    LEFT JOIN t7 ON t7.n < t2.n AND t7.id = t2.b
WHERE t4.a = t5.a AND t4.b = t5.n AND t3.a = t11.a AND t3.b = t11.n AND t1.b = t3.b AND t5.id < 100
ORDER BY t11.id LIMIT 5;
-- 9 tables
SELECT t7.n, t6.n FROM t7
    JOIN t11 ON t11.a = t7.id
    CROSS JOIN t2
    CROSS JOIN t5
    JOIN t10 ON t10.a = t2.a AND t10.b = t2.n
    LEFT JOIN t4 ON t4.a = t11.a AND t4.b = t11.n
    JOIN t12 ON t12.a = t11.a AND t12.b = t11.n
    JOIN t8 ON t8.a = t12.a AND t8.b = t12.n
    JOIN t6 ON t6.b = t10.b
WHERE t2.n < t11.n AND t2.id = t11.b AND t5.a = t7.id
ORDER BY t7.id LIMIT 5;
-- 10 tables
SELECT t5.n, t6.n FROM t5
    FULL JOIN t8 ON t8.id = t5.a
    JOIN t4 ON t4.a = t8.a AND t4.b = t8.n
    LEFT JOIN t9 ON t9.a = t5.a AND t9.b = t5.n
    JOIN t11 ON t11.b = t5.b
    JOIN t2 ON t2.id = t11.a
    LEFT JOIN t12 ON t12.a = t2.a AND t12.b = t2.n
    CROSS JOIN t10
    JOIN t7 ON t7.a = t9.a AND t7.b = t9.n
    JOIN t6 ON t6.id = t9.a
WHERE t10.id = t4.a AND t5.a IN (1, 2, 3) AND t9.b IS NOT NULL;
-- 11 tables
SELECT t10.n, t9.n FROM t10
    JOIN t4 ON t4.n < t10.n AND t4.id = t10.b
    JOIN t1 ON t1.id = t4.a
    JOIN t5 ON t5.n < t1.n AND t5.id = t1.b
    CROSS JOIN t12
    LEFT JOIN t11 ON t11.a = t5.id
    CROSS JOIN t6
    JOIN t8 ON t8.id = t10.a
    LEFT JOIN t2 ON t2.b = t4.b
    JOIN t3 ON t3.id = t4.a
    JOIN t9 ON t9.id = t1.a
WHERE t12.n < t4.n AND t12.id = t4.b AND t6.a = t11.id AND t5.id < 100 AND t11.b IS NULL;
-- 12 tables
SELECT t2.n, t4.n FROM t2
    JOIN t3 ON t3.b = t2.b
    JOIN t12 ON t12.a = t2.a AND t12.b = t2.n
    LEFT JOIN t8 ON t8.id = t3.a
    JOIN t10 ON t10.a = t8.id
    JOIN t1 ON t1.a = t12.a AND t1.b = t12.n
    CROSS JOIN t5
    JOIN t9 ON t9.id = t12.a
    CROSS JOIN t6
    JOIN t11 ON t11.a = t2.id
    LEFT JOIN t7 ON t7.n < t5.n AND t7.id = t5.b
    JOIN t4 ON t4.n < t1.n AND t4.id = t1.b
WHERE t5.id = t12.a AND t6.a = t8.a AND t6.b = t8.n AND t1.n = 5
ORDER BY t2.n, t3.n;
-- 3 tables
SELECT t7.n, t6.n FROM t7
    CROSS JOIN t4
    JOIN t6 ON t6.a = t4.a AND t6.b = t4.n
WHERE t4.id = t7.a AND t6.n = 5 AND t4.id < 100
ORDER BY t7.id LIMIT 5;
-- 4 tables
SELECT t3.n, t5.n FROM t3
    FULL JOIN t4 ON t4.id = t3.a
    JOIN t10 ON t10.n < t3.n AND t10.id = t3.b
    JOIN t5 ON t5.a = t10.id
WHERE t3.b IS NULL;
-- 5 tables
SELECT t5.n, t12.n FROM t5
    JOIN t8 ON t8.id = t5.a
    JOIN t3 ON t3.id = t5.a
    LEFT JOIN t7 ON t7.b = t8.b
    JOIN t12 ON t12.b = t7.b;
-- 6 tables
SELECT t7.n, t9.n FROM t7
    LEFT JOIN t5 ON t5.a = t7.a AND t5.b = t7.n
    LEFT JOIN t10 ON t10.a = t5.a AND t10.b = t5.n
    LEFT JOIN t8 ON t8.a = t5.id
    JOIN t1 ON t1.a = t10.a AND t1.b = t10.n
    JOIN t9 ON t9.a = t7.id;
-- 7 tables
SELECT t3.n, t1.n FROM t3
    FULL JOIN t10 ON t10.id = t3.a
    JOIN t4 ON t4.b = t10.b
    JOIN t6 ON t6.b = t10.b
    LEFT JOIN t7 ON t7.a = t4.id
    JOIN t5 ON t5.a = t10.id
    JOIN t1 ON t1.id = t5.a
WHERE t3.n = 5 AND t4.n = 5;
-- 8 tables
SELECT t2.n, t3.n FROM t2
    JOIN t5 ON t5.id = t2.a
    JOIN t4 ON t4.a = t5.a AND t4.b = t5.n
    LEFT JOIN t12 ON t12.a = t2.a AND t12.b = t2.n
    CROSS JOIN t9
    JOIN t10 ON t10.b = t9.b
    JOIN t7 ON t7.a = t5.id
    CROSS JOIN t3
WHERE t9.a = t12.id AND t3.b = t5.b
ORDER BY t2.n, t5.n;
-- 9 tables
SELECT t1.n, t5.n FROM t1
    LEFT JOIN t11 ON t11.b = t1.b
    JOIN t4 ON t4.b = t11.b
    CROSS JOIN t3
    LEFT JOIN t7 ON t7.id = t1.a
    JOIN t12 ON t12.a = t3.a AND t12.b = t3.n
    CROSS JOIN t6
    JOIN t9 ON t9.a = t1.id
    JOIN t5 ON t5.a = t3.id
WHERE t3.id = t1.a AND t6.n < t7.n AND t6.id = t7.b
ORDER BY t1.n, t11.n;
-- 10 tables
SELECT t1.n, t8.n FROM t1
    CROSS JOIN t3
    JOIN t5 ON t5.b = t3.b
    LEFT JOIN t4 ON t4.a = t1.a AND t4.b = t1.n
    CROSS JOIN t6
    JOIN t9 ON t9.a = t3.a AND t9.b = t3.n
    JOIN t12 ON t12.id = t9.a
    LEFT JOIN t7 ON t7.n < t3.n AND t7.id = t3.b
    JOIN t2 ON t2.n < t5.n AND t2.id = t5.b
    JOIN t8 ON t8.a = t3.id
WHERE t3.a = t1.a AND t3.b = t1.n AND t6.id = t1.a AND t4.a IN (1, 2, 3) AND t12.n = 5;
-- 11 tables
SELECT t1.n, t10.n FROM t1
    RIGHT JOIN t6 ON t6.b = t1.b
    LEFT JOIN t5 ON t5.b = t6.b
    JOIN t11 ON t11.id = t1.a
    JOIN t9 ON t9.b = t11.b
    LEFT JOIN t7 ON t7.b = t6.b
    JOIN t2 ON t2.a = t11.id
    LEFT JOIN t8 ON t8.n < t7.n AND t8.id = t7.b
    LEFT JOIN t12 ON t12.b = t1.b
    JOIN t3 ON t3.a = t2.id
    JOIN t10 ON t10.b = t7.b
WHERE t7.b IS NOT NULL;
-- 12 tables
SELECT t5.n, t9.n FROM t5
    RIGHT JOIN t4 ON t4.n < t5.n AND t4.id = t5.b
    JOIN t10 ON t10.n < t5.n AND t10.id = t5.b
    LEFT JOIN t2 ON t2.a = t5.id
    JOIN t11 ON t11.a = t2.id
    JOIN t12 ON t12.a = t4.a AND t12.b = t4.n
    LEFT JOIN t6 ON t6.id = t11.a
    JOIN t7 ON t7.b = t5.b
    JOIN t1 ON t1.id = t11.a
    JOIN t3 ON t3.id = t4.a
    JOIN t8 ON t8.a = t4.id
    CROSS JOIN t9
WHERE t9.a = t5.a AND t9.b = t5.n AND t11.id < 100;
-- 3 tables
SELECT t3.n, t6.n FROM t3
    RIGHT JOIN t12 ON t12.n < t3.n AND t12.id = t3.b
    LEFT JOIN t6 ON t6.n < t12.n AND t6.id = t12.b
WHERE t6.id < 100;
-- 4 tables
SELECT t5.n, t6.n FROM t5
    CROSS JOIN t7
    LEFT JOIN t3 ON t3.a = t7.id
    JOIN t6 ON t6.a = t7.a AND t6.b = t7.n
WHERE t7.a = t5.a AND t7.b = t5.n AND t6.id < 100 AND t3.id < 100;
-- 5 tables
SELECT t9.n, t12.n FROM t9
    JOIN t2 ON t2.n < t9.n AND t2.id = t9.b
    CROSS JOIN t10
    LEFT JOIN t7 ON t7.a = t2.a AND t7.b = t2.n
    JOIN t12 ON t12.n < t9.n AND t12.id = t9.b
WHERE t10.b = t9.b AND t2.n = 5 AND t10.n = 5;
-- 6 tables
SELECT t6.n, t8.n FROM t6
    FULL JOIN t12 ON t12.a = t6.id
    JOIN t10 ON t10.b = t12.b
    JOIN t9 ON t9.n < t12.n AND t9.id = t12.b
    JOIN t5 ON t5.a = t10.a AND t5.b = t10.n
    JOIN t8 ON t8.n < t9.n AND t8.id = t9.b
WHERE t10.a IN (1, 2, 3);
-- 7 tables
SELECT t6.n, t3.n FROM t6
    JOIN t8 ON t8.id = t6.a
    LEFT JOIN t9 ON t9.n < t8.n AND t9.id = t8.b
    JOIN t2 ON t2.b = t8.b
    LEFT JOIN t4 ON t4.a = t6.a AND t4.b = t6.n
    JOIN t7 ON t7.n < t9.n AND t7.id = t9.b
    JOIN t3 ON t3.a = t2.id
WHERE t6.b IS NULL AND t9.b IS NOT NULL;
-- 8 tables
SELECT t10.n, t2.n FROM t10
    JOIN t4 ON t4.b = t10.b
    JOIN t1 ON t1.a = t4.id
    CROSS JOIN t6
    LEFT JOIN t5 ON t5.n < t10.n AND t5.id = t10.b
    LEFT JOIN t8 ON t8.b = t1.b
    LEFT JOIN t3 ON t3.a = t8.a AND t3.b = t8.n
    LEFT JOIN t2 ON t2.a = t1.a AND t2.b = t1.n
WHERE t6.a = t4.a AND t6.b = t4.n AND t8.a IN (1, 2, 3);
-- 9 tables
SELECT t5.n, t2.n FROM t5
    JOIN t1 ON t1.b = t5.b
    JOIN t8 ON t8.b = t1.b
    JOIN t3 ON t3.a = t5.a AND t3.b = t5.n
    JOIN t10 ON t10.b = t3.b
    JOIN t12 ON t12.n < t3.n AND t12.id = t3.b
    JOIN t9 ON t9.a = t8.a AND t9.b = t8.n
    LEFT JOIN t4 ON t4.a = t9.a AND t4.b = t9.n
    JOIN t2 ON t2.b = t10.b
WHERE t3.n = 5
ORDER BY t5.n, t1.n;
-- 10 tables
SELECT t6.n, t9.n FROM t6
    JOIN t5 ON t5.a = t6.id
    JOIN t3 ON t3.a = t5.id
    LEFT JOIN t2 ON t2.id = t5.a
    CROSS JOIN t1
    JOIN t7 ON t7.id = t2.a
    JOIN t4 ON t4.n < t3.n AND t4.id = t3.b
    CROSS JOIN t10
    LEFT JOIN t12 ON t12.id = t4.a
    JOIN t9 ON t9.b = t5.b
WHERE t1.a = t3.id AND t10.id = t5.a
ORDER BY t6.n, t5.n;
-- 11 tables
SELECT t4.n, t3.n FROM t4
    JOIN t7 ON t7.b = t4.b
    JOIN t10 ON t10.id = t7.a
    LEFT JOIN t8 ON t8.id = t7.a
    LEFT JOIN t9 ON t9.a = t7.a AND t9.b = t7.n
    JOIN t1 ON t1.a = t7.a AND t1.b = t7.n
    JOIN t5 ON t5.b = t4.b
    LEFT JOIN t12 ON t12.n < t1.n AND t12.id = t1.b
    JOIN t11 ON t11.id = t4.a
    JOIN t6 ON t6.id = t10.a
    CROSS JOIN t3
WHERE t3.a = t10.a AND t3.b = t10.n;
-- 12 tables
SELECT t2.n, t10.n FROM t2
    CROSS JOIN t9
    CROSS JOIN t11
    JOIN t3 ON t3.n < t2.n AND t3.id = t2.b
    JOIN t12 ON t12.n < t9.n AND t12.id = t9.b
    LEFT JOIN t1 ON t1.b = t3.b
    LEFT JOIN t7 ON t7.a = t2.id
    LEFT JOIN t6 ON t6.id = t12.a
    JOIN t5 ON t5.b = t12.b
    JOIN t4 ON t4.b = t9.b
    LEFT JOIN t8 ON t8.id = t2.a
    JOIN t10 ON t10.n < t4.n AND t10.id = t4.b
WHERE t9.b = t2.b AND t11.a = t2.id;
-- Equal columns: a pair that no condition names, and none asked twice
SELECT t1.n, t6.n, t2.n FROM t1 JOIN t6 ON t6.n = t1.n JOIN t2 ON t2.a = t6.n WHERE t1.id = 5;
-- what is named thrice
SELECT t1.n FROM t1, t3, t4 WHERE t1.id = t3.id AND t3.id = t4.id AND t4.id = t1.id;
-- two columns of a table, of one class
SELECT t1.n FROM t1, t4, t8 WHERE t1.a = t4.a AND t1.a = t8.a AND t4.a = t8.b;
-- not past an outer join, nor by another comparison
SELECT t1.n FROM t1 LEFT JOIN t4 ON t4.a = t1.a JOIN t8 ON t8.a = t1.a JOIN t12 ON t12.a = t8.a;
SELECT t1.n FROM t1, t4, t8 WHERE t1.a = t4.a AND t4.a::bigint = t8.a::bigint;
