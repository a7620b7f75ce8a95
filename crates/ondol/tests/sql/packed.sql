-- numeric(p, s) of few digits, on every way into a column and out of it.
CREATE TABLE edge (id integer PRIMARY KEY, whole numeric(18), money numeric(12,2), share numeric(18,18), tiny numeric(3,5), round numeric(5,-2), wide numeric(19,1), any_scale numeric);
INSERT INTO edge VALUES (1, 999999999999999999, 9999999999.99, 0.999999999999999999, 0.00999, 9999949, 999999999999999999.9, 1.50);
INSERT INTO edge VALUES (2, -999999999999999999, -9999999999.99, -0.999999999999999999, -0.00999, -9999949, -999999999999999999.9, -1.50);
INSERT INTO edge VALUES (3, 'NaN', 'NaN', 'NaN', 'NaN', 'NaN', 'NaN', 'NaN'), (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO edge VALUES (5, -0.0, -0.00, -0, -0.000001, -49, -0, -0.00), (6, 0.5, 0.005, 5e-19, 5e-6, 50, 0.05, 0.005);
INSERT INTO edge VALUES (7, 1.49, 1e3, 1e-3, 1e-3, 1e3, 1e3, 1e3);
TABLE edge;
-- Too much.
INSERT INTO edge (id, whole) VALUES (8, 999999999999999999.5);
INSERT INTO edge (id, whole) VALUES (8, 1e18);
INSERT INTO edge (id, money) VALUES (8, 9999999999.995);
INSERT INTO edge (id, money) VALUES (8, -1e10);
INSERT INTO edge (id, share) VALUES (8, 1);
INSERT INTO edge (id, share) VALUES (8, 0.9999999999999999995);
INSERT INTO edge (id, tiny) VALUES (8, 0.009995);
INSERT INTO edge (id, round) VALUES (8, 9999950);
INSERT INTO edge (id, money) VALUES (8, 'Infinity');
INSERT INTO edge (id, whole) VALUES (8, '-Infinity');
UPDATE edge SET money = money * 2 WHERE id = 1;
UPDATE edge SET money = money + 0.01 WHERE id = 1;
-- Changes.
UPDATE edge SET money = money - 0.01, whole = whole - 1 WHERE id = 1;
UPDATE edge SET money = 1.005 WHERE id = 4;
UPDATE edge SET money = money / 3, share = money / 7 WHERE id = 4;
UPDATE edge SET money = 'NaN' WHERE id = 5;
UPDATE edge SET money = NULL, whole = any_scale WHERE id = 6;
UPDATE edge SET money = round, round = money WHERE id = 7 RETURNING *;
UPDATE edge SET money = id WHERE id > 5;
SELECT id, whole, money, share FROM edge ORDER BY id;
-- Out of it: casts, text, arithmetic, comparisons, aggregates.
SELECT id, whole::text, money::double precision, money::text || '!', scale(money), scale(tiny), min_scale(money), trim_scale(money), round(money, 1), -share, abs(money), money = 'NaN' AS nan FROM edge ORDER BY id;
SELECT id, money::bigint, money::numeric(12,1), money::numeric(14,4), money::numeric, money::integer FROM edge WHERE id IN (4, 6, 7) ORDER BY id;
SELECT money::integer FROM edge WHERE id = 3;
SELECT a.id, b.id, a.money < b.money AS lt, a.money = b.money AS eq, a.money > b.whole AS gt, a.money <> b.any_scale AS ne FROM edge a, edge b WHERE a.id < b.id ORDER BY 1, 2;
SELECT id FROM edge ORDER BY money, id;
SELECT id FROM edge ORDER BY money DESC NULLS LAST, share, id;
SELECT count(money), sum(money), min(money), max(money), avg(money), stddev_samp(money), count(DISTINCT money) FROM edge WHERE money <> 'NaN';
SELECT sum(whole), min(whole), max(whole), max(share), min(share), sum(round), max(tiny) FROM edge WHERE id NOT IN (3);
SELECT sum(money), max(money), min(money) FROM edge;
SELECT money, count(*) FROM edge GROUP BY money ORDER BY money;
SELECT DISTINCT money FROM edge ORDER BY 1;
SELECT array_agg(money), array_agg(whole) FROM (SELECT money, whole FROM edge ORDER BY id) e;
SELECT greatest(money, any_scale, 5), least(money, 0.001), coalesce(money, 0), nullif(money, 6.0), CASE WHEN id = 1 THEN money ELSE any_scale END FROM edge ORDER BY id;
SELECT money FROM edge UNION SELECT any_scale FROM edge ORDER BY 1;
SELECT money FROM edge EXCEPT SELECT id FROM edge ORDER BY 1;
SELECT mod(money, 0.7), money % 3, power(money, 2), sqrt(abs(round)), div(money, 2) FROM edge WHERE id IN (4, 6, 7) ORDER BY id;
-- Keys: the same value of another type or scale is the same.
CREATE TABLE keyed (k numeric(10,3), h numeric(8,1), note text);
CREATE INDEX keyed_k ON keyed (k DESC);
CREATE UNIQUE INDEX keyed_h ON keyed (h);
INSERT INTO keyed SELECT n / 4.0, n, 'n' || n FROM generate_series(-8, 8) AS n;
INSERT INTO keyed VALUES ('NaN', 'NaN', 'nan'), (NULL, NULL, 'null');
INSERT INTO keyed VALUES (1, 3.04, 'again');
INSERT INTO keyed VALUES (1, 'nan', 'again');
SELECT * FROM keyed WHERE k = 1.5;
SELECT * FROM keyed WHERE k = 1.500000;
SELECT * FROM keyed WHERE k = 2;
SELECT * FROM keyed WHERE k = 2::bigint;
SELECT * FROM keyed WHERE k = 1.0004;
SELECT * FROM keyed WHERE h = 3::smallint;
SELECT * FROM keyed WHERE k = 'NaN';
SELECT note FROM keyed WHERE k > -1 AND k <= 0.25 ORDER BY k;
SELECT note FROM keyed WHERE k > 1.7 ORDER BY k DESC;
SELECT note FROM keyed WHERE h BETWEEN -2 AND -0.5 ORDER BY h;
SELECT e.id, k.note FROM edge e JOIN keyed k ON k.h = e.money ORDER BY 1;
SELECT e.id, k.note FROM edge e JOIN keyed k ON k.k = e.any_scale ORDER BY 1;
SELECT e.id, k.note FROM edge e JOIN keyed k ON k.h = e.id ORDER BY 1;
SELECT k.note FROM keyed k WHERE k.k IN (SELECT any_scale FROM edge) ORDER BY 1;
UPDATE keyed SET k = k + 10, h = h + 100 WHERE k = 1.5 RETURNING *;
SELECT note FROM keyed WHERE k = 11.5;
DELETE FROM keyed WHERE h = 106.0;
SELECT count(*) FROM keyed;
-- Defaults, domains, tables made of queries, functions, COPY.
CREATE DOMAIN amount AS numeric(7,3) DEFAULT 1.23456 CHECK (VALUE < 9000);
CREATE TABLE ways (id integer PRIMARY KEY, d numeric(6,2) DEFAULT 3.14159, a amount, e numeric(4,1) NOT NULL DEFAULT random() * 0 + 0.25);
INSERT INTO ways (id) VALUES (1);
INSERT INTO ways VALUES (2, DEFAULT, 2.3456, 7), (3, 1, NULL, 999.94);
INSERT INTO ways VALUES (4, 1, 8999.9996, 1);
INSERT INTO ways VALUES (4, 1, 10000, 1);
INSERT INTO ways SELECT id + 10, money, share, round FROM edge WHERE id IN (5, 7);
INSERT INTO ways SELECT id + 10, money, money / 3, whole FROM edge WHERE id IN (4, 7);
INSERT INTO ways SELECT id + 10, money, money / 3, money FROM edge WHERE id IN (4, 7);
SELECT * FROM ways ORDER BY id;
CREATE TABLE made AS SELECT id, d, d * 2 AS twice, a, d::numeric(9,4) AS longer, coalesce(d, a) AS either FROM ways;
SELECT * FROM made ORDER BY id;
CREATE FUNCTION pay(integer, numeric) RETURNS numeric LANGUAGE sql AS 'UPDATE ways SET d = d + $2 WHERE id = $1 RETURNING d';
SELECT pay(1, 1.001), pay(1, 0.005), pay(2, -0.005);
SELECT pay(1, 99999);
CREATE FUNCTION row_of(numeric(6,2)) RETURNS SETOF ways LANGUAGE sql STABLE AS 'SELECT * FROM ways WHERE d = $1';
SELECT * FROM row_of(3.14);
PREPARE put (integer, numeric) AS INSERT INTO ways (id, d, a) VALUES ($1, $2, $2) RETURNING *;
EXECUTE put (5, 6.66666);
EXECUTE put (6, 'NaN');
COPY ways FROM STDIN;
20	1.005	1.0005	0.05
21	NaN	\N	-999.94
22	-0	-0.0001	1e2
\.
COPY ways FROM STDIN (FORMAT csv);
23,12345.6,0,0
\.
COPY ways FROM STDIN (FORMAT csv);
24,1234.565,0.0004999,0
\.
COPY (SELECT * FROM ways ORDER BY id) TO STDOUT;
COPY (SELECT id, d, a FROM ways WHERE d < 2 ORDER BY id) TO STDOUT (FORMAT csv, HEADER);
SELECT array_agg(d) FROM (SELECT d FROM ways ORDER BY id) w;
CREATE TABLE lists (l numeric(4,1)[], p numeric(4,1));
INSERT INTO lists VALUES ('{1.25,NaN,999.94}', 1.25), (array[1, 2.34], (array[5.55]::numeric(4,1)[])[1]);
INSERT INTO lists SELECT array_agg(d), max(d) FROM ways WHERE d < 2;
SELECT l, p, l[1] = p, p = ANY (l) FROM lists;
ALTER TABLE edge ADD UNIQUE (money);
BEGIN;
UPDATE ways SET d = d + 1;
SELECT sum(d) FROM ways WHERE d <> 'NaN';
ROLLBACK;
SELECT sum(d) FROM ways WHERE d <> 'NaN';
DROP TABLE edge, keyed, ways, made, lists CASCADE;
