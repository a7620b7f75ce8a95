-- ranges over several columns
CREATE TABLE q (id int PRIMARY KEY, price numeric(12,2), size int, at timestamp, r real, d date, t time, n bigint, s smallint, f float8);
INSERT INTO q SELECT i, (i * 37 % 1000)::numeric / 4, i * 7919 % 1000, timestamp '2026-01-01' + i * interval '1 minute', i % 97, date '2026-01-01' + i % 400, time '00:00' + i * interval '7 seconds', i::bigint * 1000000007, i % 300, sin(i) FROM generate_series(1, 3000) i;
INSERT INTO q (id, price) VALUES (3001, 5), (3002, NULL);
INSERT INTO q (id, price, size, f) VALUES (3003, 'NaN', 5, 'NaN'), (3004, 5, 5, 'Infinity'), (3005, 5, 5, '-Infinity');
CREATE INDEX q_box ON q USING crtree (price, size, at);
CREATE INDEX ON q USING crtree (f, r) WITH (bits = 16);
CREATE INDEX ON q USING crtree (d, t, n, s);
SELECT indexdef FROM pg_indexes WHERE tablename = 'q' ORDER BY 1;
SELECT amname, amtype FROM pg_am WHERE amname = 'crtree';
SELECT c.relname, a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.relname = 'q_box';
EXPLAIN (COSTS off) SELECT id FROM q WHERE price BETWEEN 10 AND 12 AND size < 300;
SELECT count(*), sum(id) FROM q WHERE price BETWEEN 10 AND 12 AND size < 300;
SELECT count(*), sum(id) FROM q WHERE price >= 10 AND price < 12 AND size = 5 AND at > '2026-01-01 05:00';
SELECT id FROM q WHERE price = 5 AND size = 5 ORDER BY id;
SELECT id FROM q WHERE f > 2 AND r IS NULL ORDER BY id;
SELECT id FROM q WHERE f > 0.999 AND r < 20 ORDER BY id;
-- rows that have NULL in a column of the index that nothing is asked of
INSERT INTO q (id, price, at) VALUES (3006, 6, '2026-01-01'), (3007, NULL, '2026-01-01'), (3008, NULL, NULL);
SELECT id, price, size FROM q WHERE price = 6 AND at = '2026-01-01' ORDER BY id;
SELECT id FROM q WHERE price < 6 AND size < 6 ORDER BY id;
SELECT id FROM q WHERE price > 5 AND size > 995 ORDER BY id;
SELECT id FROM q WHERE at <= '2026-01-01' AND price IS NULL;
UPDATE q SET size = NULL WHERE id = 3004;
SELECT id FROM q WHERE price = 5 ORDER BY id;
SELECT count(*) FROM q WHERE d = '2026-03-01' AND t < '04:00' AND n > 1000 AND s BETWEEN 1 AND 200;
-- ends of other types
SELECT count(*) FROM q WHERE at BETWEEN date '2026-01-02' AND date '2026-01-02' + 1 AND size BETWEEN 100::bigint AND 20000000000;
SELECT count(*) FROM q WHERE s > 100000 AND n < 5;
SELECT count(*) FROM q WHERE price > NULL AND size < 5;
PREPARE p AS SELECT count(*), min(id) FROM q WHERE price BETWEEN $1 AND $2 AND size BETWEEN $3 AND $4;
EXECUTE p(10, 20, 0, 100);
EXECUTE p(20, 10, 0, 100);
EXECUTE p(NULL, 10, 0, 100);
-- the same by all rows
SET enable_indexscan = off;
SELECT count(*), sum(id) FROM q WHERE price BETWEEN 10 AND 12 AND size < 300;
SELECT count(*), sum(id) FROM q WHERE price >= 10 AND price < 12 AND size = 5 AND at > '2026-01-01 05:00';
SELECT count(*) FROM q WHERE d = '2026-03-01' AND t < '04:00' AND n > 1000 AND s BETWEEN 1 AND 200;
SELECT count(*) FROM q WHERE at BETWEEN date '2026-01-02' AND date '2026-01-02' + 1 AND size BETWEEN 100::bigint AND 20000000000;
EXECUTE p(10, 20, 0, 100);
RESET enable_indexscan;
-- boxes that OR puts together, and one for each value of a list
PREPARE listed AS SELECT count(*), sum(id) FROM q WHERE size = ANY ($1) AND price BETWEEN $2 AND $3;
EXPLAIN (COSTS off) SELECT count(*), sum(id) FROM q WHERE (price BETWEEN 10 AND 20 AND size < 300) OR (size IN (100, 200) AND price > 40);
EXPLAIN (COSTS off) EXECUTE listed('{5}', 0, 100);
SELECT count(*), sum(id) FROM q WHERE (price BETWEEN 10 AND 20 AND size < 300) OR (price BETWEEN 15 AND 40 AND size BETWEEN 100 AND 200);
SELECT count(*), sum(id) FROM q WHERE ((price < 20 AND size < 30) OR (size IN (31, 32, 33) AND price > 200) OR (price > NULL AND size < 5)) AND at < '2026-01-02';
SELECT count(*), sum(id) FROM q WHERE size IN (5, 105, 206, 307, 400, 5, NULL, 2000000000) AND price < 200;
SELECT count(*), sum(id) FROM q WHERE s IN (100, 120, 140, 100000) AND n > 1000000000 AND t < '05:00';
SELECT count(*), sum(id) FROM q WHERE price IN (10, 12.25, 100.005, 50) AND size > 100;
SELECT count(*), sum(id) FROM q WHERE price < 5 OR size < 5 OR id = 7;
EXECUTE listed('{5,105,206,307,NULL,5}', 0, 200);
EXECUTE listed('{}', 0, 100);
EXECUTE listed(NULL, 0, 100);
SET enable_indexscan = off;
SELECT count(*), sum(id) FROM q WHERE (price BETWEEN 10 AND 20 AND size < 300) OR (price BETWEEN 15 AND 40 AND size BETWEEN 100 AND 200);
SELECT count(*), sum(id) FROM q WHERE ((price < 20 AND size < 30) OR (size IN (31, 32, 33) AND price > 200) OR (price > NULL AND size < 5)) AND at < '2026-01-02';
SELECT count(*), sum(id) FROM q WHERE size IN (5, 105, 206, 307, 400, 5, NULL, 2000000000) AND price < 200;
SELECT count(*), sum(id) FROM q WHERE s IN (100, 120, 140, 100000) AND n > 1000000000 AND t < '05:00';
SELECT count(*), sum(id) FROM q WHERE price IN (10, 12.25, 100.005, 50) AND size > 100;
SELECT count(*), sum(id) FROM q WHERE price < 5 OR size < 5 OR id = 7;
EXECUTE listed('{5,105,206,307,NULL,5}', 0, 200);
EXECUTE listed('{}', 0, 100);
EXECUTE listed(NULL, 0, 100);
RESET enable_indexscan;
BEGIN;
UPDATE q SET size = size + 500 WHERE size < 100;
SELECT count(*), count(DISTINCT id) FROM q WHERE (price < 100 AND size < 100) OR (price < 100 AND size BETWEEN 400 AND 700) OR (size IN (501, 502) AND price > 50);
ROLLBACK;
SELECT w.n, count(q.id) FROM (VALUES (1, '{5,105}'::int[]), (2, '{206,307}'), (3, NULL)) AS w (n, sizes) LEFT JOIN q ON q.size = ANY (w.sizes) AND q.price < 200 GROUP BY w.n ORDER BY 1;
-- changes, and a row that is seen once while it has several versions
BEGIN;
UPDATE q SET price = price + 0.25, size = size + 1 WHERE price BETWEEN 10 AND 20;
UPDATE q SET price = price - 0.25 WHERE price BETWEEN 10 AND 20;
SELECT count(*), count(DISTINCT id), sum(id) FROM q WHERE price BETWEEN 10 AND 20 AND size BETWEEN 0 AND 500;
ROLLBACK;
SELECT count(*), count(DISTINCT id), sum(id) FROM q WHERE price BETWEEN 10 AND 20 AND size BETWEEN 0 AND 500;
DELETE FROM q WHERE price BETWEEN 10 AND 20 AND size < 500;
SELECT count(*) FROM q WHERE price BETWEEN 10 AND 20 AND size < 500;
-- joins: a box for each row
CREATE TABLE w (lo numeric, hi numeric, most int);
INSERT INTO w VALUES (30, 31, 100), (40, 44, 50), (NULL, 5, 5);
SELECT w.lo, count(*) FROM w JOIN q ON q.price BETWEEN w.lo AND w.hi AND q.size <= w.most GROUP BY w.lo ORDER BY 1;
-- intervals kept in two columns
CREATE TABLE booked (room int, since timestamp, until timestamp);
INSERT INTO booked SELECT i % 20, timestamp '2026-01-01' + i * interval '3 hours', timestamp '2026-01-01' + i * interval '3 hours' + (i % 7) * interval '1 hour' FROM generate_series(1, 2000) i;
CREATE INDEX ON booked USING crtree (since, until);
EXPLAIN (COSTS off) SELECT * FROM booked WHERE since <= '2026-02-01 06:00' AND until >= '2026-02-01';
SELECT count(*) FROM booked WHERE since <= '2026-02-01 06:00' AND until >= '2026-02-01';
SELECT count(*) FROM booked WHERE since <= '2026-02-01 06:00' AND until >= '2026-02-01' AND room = 7;
-- an expression
CREATE INDEX ON booked USING crtree ((extract(day FROM since)::int), room);
EXPLAIN (COSTS off) SELECT count(*) FROM booked WHERE extract(day FROM since)::int = 5 AND room BETWEEN 3 AND 4;
SELECT count(*) FROM booked WHERE extract(day FROM since)::int = 5 AND room BETWEEN 3 AND 4;
-- what is refused
CREATE INDEX ON q USING crtree (price);
CREATE INDEX ON q USING crtree (id, price, size, at, r, d, t);
CREATE TABLE other (a int, b text, c numeric, e boolean, i interval, p numeric(20,2));
CREATE INDEX ON other USING crtree (a, b);
CREATE INDEX ON other USING crtree (a, c);
CREATE INDEX ON other USING crtree (a, i);
CREATE INDEX ON other USING crtree (a, p);
CREATE INDEX ON other USING crtree (a, a);
CREATE UNIQUE INDEX ON q USING crtree (price, size);
CREATE INDEX ON q USING crtree (price, size) WHERE id > 5;
CREATE INDEX ON q USING crtree (price, size) INCLUDE (at);
CREATE INDEX ON q USING crtree (price DESC, size);
CREATE INDEX ON q USING crtree (price, size) WITH (bits = 12);
CREATE INDEX ON q USING crtree (price, size) WITH (fillfactor = 70);
ALTER TABLE q ADD EXCLUDE USING crtree (price WITH =, size WITH =);
-- types that change
ALTER TABLE q ALTER COLUMN size TYPE bigint;
SELECT count(*) FROM q WHERE price BETWEEN 30 AND 40 AND size < 500;
ALTER TABLE q ALTER COLUMN size TYPE text;
-- neighbours, of some or all columns, in a box or not, in order
CREATE TABLE city (id int PRIMARY KEY, x float8, y float8, founded date, people int);
INSERT INTO city SELECT i, i * 7919 % 1000, i * 104729 % 997, date '1000-01-01' + i * 31, i * 31 % 5000 FROM generate_series(1, 4000) i;
CREATE INDEX city_at ON city USING crtree (x, y, people);
EXPLAIN (COSTS off) SELECT id FROM city ORDER BY crtree_distance(x, y, 500, 500) LIMIT 5;
SELECT id, round(crtree_distance(x, y, 500, 500)::numeric, 3) AS d FROM city ORDER BY d, id LIMIT 5;
SELECT id, crtree_distance(x, y, 500, 500) AS d FROM city ORDER BY d LIMIT 3;
EXPLAIN (COSTS off) SELECT id, crtree_distance(y, x, 20, 10) AS d FROM city WHERE people < 100 AND x > 5 ORDER BY d LIMIT 3 OFFSET 2;
SELECT id, crtree_distance(y, x, 20, 10) AS d FROM city WHERE people < 100 AND x > 5 ORDER BY d LIMIT 3 OFFSET 2;
SELECT sum(id), sum(d) FROM (SELECT id, crtree_distance(x, y, people, 1.5, 2::bigint, '7') AS d FROM city ORDER BY d LIMIT 500) AS n;
PREPARE near AS SELECT id FROM city WHERE id % 3 = 0 ORDER BY crtree_distance(people, x, $1, $2) LIMIT $3;
EXPLAIN (COSTS off) EXECUTE near(100, 100, 4);
EXECUTE near(100, 100, 4);
EXECUTE near(-100000, 'Infinity', 2);
-- the same by all rows
SET enable_indexscan = off;
EXPLAIN (COSTS off) SELECT id, crtree_distance(y, x, 20, 10) AS d FROM city WHERE people < 100 AND x > 5 ORDER BY d LIMIT 3 OFFSET 2;
SELECT id, crtree_distance(x, y, 500, 500) AS d FROM city ORDER BY d LIMIT 3;
SELECT id, crtree_distance(y, x, 20, 10) AS d FROM city WHERE people < 100 AND x > 5 ORDER BY d LIMIT 3 OFFSET 2;
SELECT sum(id), sum(d) FROM (SELECT id, crtree_distance(x, y, people, 1.5, 2::bigint, '7') AS d FROM city ORDER BY d LIMIT 500) AS n;
EXECUTE near(100, 100, 4);
RESET enable_indexscan;
-- for each row of another table
EXPLAIN (COSTS off) SELECT w.n, c.id FROM (VALUES (1, 10, 10), (2, 900, 50)) AS w (n, x, y), LATERAL (SELECT id FROM city ORDER BY crtree_distance(city.x, city.y, w.x, w.y) LIMIT 2) AS c;
SELECT w.n, c.id FROM (VALUES (1, 10, 10), (2, 900, 50)) AS w (n, x, y), LATERAL (SELECT id FROM city ORDER BY crtree_distance(city.x, city.y, w.x, w.y) LIMIT 2) AS c ORDER BY 1, 2;
-- a column that is NULL: at the end; all of them: behind these, out of the table
CREATE TABLE few (id int, a int, b int);
CREATE INDEX ON few USING crtree (a, b);
INSERT INTO few VALUES (1, 5, 5), (2, NULL, 1), (3, 1, 1), (4, NULL, NULL), (5, 1, NULL);
EXPLAIN (COSTS off) SELECT id, crtree_distance(a, b, 0, 0) FROM few ORDER BY 2 LIMIT 9;
SELECT id, crtree_distance(a, b, 0, 0) FROM few ORDER BY 2 LIMIT 2;
SELECT count(*), count(d) FROM (SELECT crtree_distance(a, b, 0, 0) AS d FROM few ORDER BY d LIMIT 9) AS n;
SELECT id, crtree_distance(b, 0) FROM few WHERE a = 1 ORDER BY 2 LIMIT 9;
SELECT count(*) FROM (SELECT id FROM few ORDER BY crtree_distance(a, b, 0, NULL) LIMIT 9) AS n;
-- orders that it does not give
EXPLAIN (COSTS off) SELECT id FROM few ORDER BY crtree_distance(a, b, 0, 0) DESC LIMIT 1;
EXPLAIN (COSTS off) SELECT id FROM few ORDER BY crtree_distance(a, b, 0, 0), id LIMIT 1;
EXPLAIN (COSTS off) SELECT id FROM few ORDER BY crtree_distance(a, a, 0, 0) LIMIT 1;
EXPLAIN (COSTS off) SELECT id FROM few ORDER BY crtree_distance(a, b, b, a) LIMIT 1;
EXPLAIN (COSTS off) SELECT id FROM few ORDER BY crtree_distance(a, id, 0, 0) LIMIT 1;
EXPLAIN (COSTS off) SELECT id FROM few ORDER BY crtree_distance(a, b, 0, 0);
-- distances by themselves
SELECT crtree_distance(0, 0, 3, 4), crtree_distance(1.5::real, 2), crtree_distance(date '2026-01-05', '2026-01-01'), crtree_distance(timestamp '2026-01-01', date '2026-01-02');
SELECT crtree_distance('Infinity', 'Infinity'), crtree_distance('NaN'::float8, 'Infinity'), crtree_distance('-Infinity', 'Infinity'), crtree_distance(1, NULL);
SELECT crtree_distance(1);
SELECT crtree_distance();
SELECT crtree_distance(1, 2, 3);
SELECT crtree_distance(1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7);
SELECT crtree_distance(text 'a', 1);
SELECT crtree_distance(date '2026-01-05', 5);
SELECT crtree_distance(1, 'x');
-- a version moved by the statement's own transaction
BEGIN;
UPDATE few SET a = 0, b = 0 WHERE id = 1;
SELECT id FROM few ORDER BY crtree_distance(a, b, 0, 0) LIMIT 1;
ROLLBACK;
SELECT id FROM few ORDER BY crtree_distance(a, b, 0, 0) LIMIT 1;
-- what is looked at: nodes, and rows that lie in a cell but not in the box
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT count(*) FROM city WHERE y < 900 AND people BETWEEN 101 AND 102;
EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) SELECT id FROM city WHERE people <> 5 ORDER BY crtree_distance(x, y, 1, 1) LIMIT 3;
SELECT index_name, level, count(*), min(low), max(high) FROM ondol_crtree_boxes WHERE index_name = 'city_at' GROUP BY 1, 2, dimension ORDER BY 2, dimension;
-- rows that another index finds, of a box
CREATE TABLE deal (id int PRIMARY KEY, account int, price int, day int, note text);
INSERT INTO deal SELECT i, i % 20, i * 37 % 1000, i * 7919 % 365, 'n' || i FROM generate_series(1, 6000) i;
INSERT INTO deal VALUES (7001, 3, NULL, 5), (7002, NULL, 5, 5), (7003, 77, 50, 50);
CREATE INDEX deal_account ON deal USING hash (account);
CREATE INDEX deal_at ON deal USING crtree (price, day);
PREPARE deals AS SELECT count(*), sum(id), min(note) FROM deal WHERE account = $1 AND price BETWEEN $2 AND $3 AND day <= $4;
EXPLAIN (COSTS off) EXECUTE deals(3, 100, 200, 100);
EXECUTE deals(3, 100, 200, 100);
EXECUTE deals(3, 0, 2000, 400);
EXECUTE deals(3, 200, 100, 400);
EXECUTE deals(3, NULL, 100, 400);
EXECUTE deals(77, 0, 60, 60);
EXECUTE deals(NULL, 0, 60, 60);
EXECUTE deals(78, 0, 60, 60);
SELECT count(*), sum(id) FROM deal WHERE account = 3 AND price > 900 AND day = 100000000000;
SELECT count(*), sum(id) FROM deal WHERE account = 3 AND price > 900.5 AND day < 50.5;
SELECT a.n, count(d.id), sum(d.id) FROM (VALUES (1, 100), (2, 900), (3, NULL)) AS a (n, least) LEFT JOIN deal d ON d.account = a.n AND d.price > a.least AND d.day < 20 GROUP BY 1 ORDER BY 1;
-- a row that both have, and its version neither
BEGIN ISOLATION LEVEL SERIALIZABLE;
UPDATE deal SET account = 3 WHERE account = 4 AND price BETWEEN 100 AND 200 AND day <= 100;
UPDATE deal SET price = 150 WHERE account = 3 AND price BETWEEN 800 AND 900 AND day < 50;
UPDATE deal SET price = 500 WHERE id = 3;
DELETE FROM deal WHERE account = 3 AND price BETWEEN 120 AND 130;
EXECUTE deals(3, 100, 200, 100);
EXECUTE deals(4, 100, 200, 100);
SELECT count(*), sum(id) FROM deal WHERE account + 0 = 3 AND price + 0 BETWEEN 100 AND 200 AND day <= 100;
ROLLBACK;
DROP INDEX deal_account;
CREATE INDEX ON deal (account);
EXECUTE deals(3, 100, 200, 100);
SELECT count(*) FROM deal WHERE account = 3 AND price IN (111, 112, 148) AND day < 200;
-- the same by all rows
SET enable_indexscan = off;
EXECUTE deals(3, 100, 200, 100);
EXECUTE deals(3, 0, 2000, 400);
EXECUTE deals(77, 0, 60, 60);
SELECT count(*), sum(id) FROM deal WHERE account = 3 AND price > 900.5 AND day < 50.5;
SELECT a.n, count(d.id), sum(d.id) FROM (VALUES (1, 100), (2, 900), (3, NULL)) AS a (n, least) LEFT JOIN deal d ON d.account = a.n AND d.price > a.least AND d.day < 20 GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM deal WHERE account = 3 AND price IN (111, 112, 148) AND day < 200;
RESET enable_indexscan;
-- a box of another statement in the same frame is whole
CREATE TABLE one (a int, b int, c int, d int);
INSERT INTO one VALUES (0, 999, 0, 364);
CREATE FUNCTION some_deals() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM deal WHERE account = 3 AND price < 200 AND day < 100';
CREATE FUNCTION all_deals() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM one o JOIN deal t ON t.price BETWEEN o.a AND o.b AND t.day BETWEEN o.c AND o.d';
SELECT some_deals FROM some_deals() UNION ALL SELECT all_deals FROM all_deals();
EXPLAIN (COSTS off) SELECT count(*) FROM deal WHERE account = 3 AND price < (SELECT max(b) FROM one);
