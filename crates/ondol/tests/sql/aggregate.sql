CREATE TABLE sale (id integer PRIMARY KEY, shop text, amount numeric(8,2), units integer, big bigint, f double precision);
SELECT count(*), sum(units), avg(units), min(shop), max(amount) FROM sale;
INSERT INTO sale VALUES
    (1, 'a', 10.00, 1, 9000000000000000000, 0.5), (2, 'a', 20.50, 2, 9000000000000000000, 1.5), (3, 'b', 5.25, NULL, 1, NULL),
    (4, 'b', 5.25, 4, 2, -1), (5, NULL, NULL, 5, 3, 2), (6, 'c', 0, 0, NULL, 0);
SELECT count(*), count(units), sum(units), avg(units), min(units), max(units) FROM sale;
SELECT sum(big), avg(big), sum(amount), avg(amount), sum(f), avg(f) FROM sale;
SELECT shop, count(*), sum(amount) FROM sale GROUP BY shop ORDER BY shop;
SELECT shop, avg(amount) FROM sale GROUP BY shop HAVING count(*) > 1 ORDER BY 2 DESC;
SELECT count(DISTINCT amount), sum(DISTINCT amount), count(DISTINCT shop) FROM sale;
SELECT units % 2 AS odd, count(*) FROM sale GROUP BY units % 2 ORDER BY 1;
SELECT shop, units, sum(amount) FROM sale GROUP BY shop, units ORDER BY 1, 2;
SELECT count(*) FILTER (WHERE amount > 5), count(*) FROM sale;
SELECT bool_and(units > 0), bool_or(units > 4) FROM sale;
SELECT max(shop), min(shop) FROM sale WHERE id > 100;
SELECT count(*) FROM sale WHERE id > 100 GROUP BY shop;
SELECT sum(units) + 1, count(*) * 2 FROM sale;
SELECT shop FROM sale GROUP BY shop ORDER BY count(*) DESC, shop LIMIT 2;
SELECT string_agg(shop, ',' ORDER BY id) FROM sale;
SELECT shop, amount FROM sale GROUP BY shop;
SELECT count(count(*)) FROM sale;
SELECT id FROM sale WHERE count(*) > 1;
SELECT sum(shop) FROM sale;
-- Equal constants are not the same: 1.5 and 1.50, zeros of two signs. NaN is.
SELECT sum(amount * 1.5), sum(amount * 1.50), max(1.5), max(1.50), max(0::float8), max('-0'::float8) FROM sale;
SELECT units + 0.0 FROM sale GROUP BY units + 0.00;
SELECT units BETWEEN 1 AND 'NaN'::float8 FROM sale GROUP BY units BETWEEN 1 AND 'NaN'::float8 ORDER BY 1;
-- char(n) keeps its blanks.
SELECT '"' AS q, min(shop::char(8)), CASE WHEN max(units) > 0 THEN max(shop)::char(8) END, '"' AS r FROM sale;
-- DISTINCT values are taken in ascending order where that shows.
INSERT INTO sale VALUES (7, 'B', 1, 1, 1, 1e16), (8, '', 1, 2, 1, 1), (9, 'b', 1, 1, 1, -1e16), (10, 'B', 1, 3, 1, 1e16), (11, 'aa', 1, 3, 1, 0.1);
SELECT string_agg(DISTINCT shop, ','), string_agg(DISTINCT shop, ',') FILTER (WHERE units < 3), string_agg(DISTINCT convert_to(shop, 'UTF8'), '-') FROM sale;
SELECT string_agg(DISTINCT shop, units::text) FROM sale;
SELECT units, string_agg(DISTINCT shop, ','), count(DISTINCT shop), sum(DISTINCT f), string_agg(DISTINCT shop, '-') FROM sale GROUP BY units ORDER BY units;
SELECT sum(DISTINCT f), avg(DISTINCT f), stddev(DISTINCT f), var_pop(DISTINCT f) FROM sale;
SELECT string_agg(DISTINCT shop, ','), sum(DISTINCT f) FROM sale WHERE id > 100;
SELECT shop, string_agg(DISTINCT shop, ',') FROM sale WHERE id > 100 GROUP BY shop;
DROP TABLE sale;
-- Of tiny and huge numbers.
SELECT scale(variance(v)), scale(stddev(v)), variance(v) = 0 FROM (VALUES (1e-1200::numeric), (2e-1200)) t (v);
SELECT scale(variance(v)), right(variance(v)::text, 12), right(stddev(v)::text, 12) FROM (VALUES (1e-495::numeric), (2e-495)) t (v);
SELECT trunc(variance(v), 3), trunc(stddev(v), 3), scale(stddev(v)) FROM (VALUES (1e-1200::numeric), (2)) t (v);
SELECT scale(1e-1200::numeric / 3), scale(1e-9000::numeric / 3), scale(avg(v)) FROM (VALUES (1e-9000::numeric)) t (v);
SELECT max();
SELECT max(*);
SELECT count();
SELECT sum(), count(*);

-- Squares keep all their decimals and digits until the variance is rounded.
CREATE TABLE tiny (n numeric);
INSERT INTO tiny VALUES (0), (3e-500), (-3e-500), (4e-500 - 1e-16383), (-4e-500 + 1e-16383);
SELECT trim_scale(variance(n) * 1e1000) FROM tiny;
DELETE FROM tiny;
INSERT INTO tiny SELECT 9e131071 + x FROM generate_series(1, 5) x;
SELECT variance(n), var_pop(n), stddev(n) FROM tiny;
SELECT avg(n) > 9e131071 FROM tiny;
SELECT sum(n) FROM tiny;
INSERT INTO tiny SELECT -n FROM tiny;
SELECT sum(n), avg(n) FROM tiny;
DROP TABLE tiny;
SELECT round(5.5e131071, -131073), round(5.5e131071, -1000000), trunc(5.5e131071, -131072);
SELECT round(5.5e131071, -131072);
SELECT 1 AS one FROM (VALUES (1), (2)) v (u) WHERE 1 / (u - u) = 1 HAVING 1 < 2;
SELECT 1 AS one FROM (VALUES (1), (2)) v (u) WHERE 1 / (u - u) = 1 HAVING 1 > 2;
SELECT n FROM (SELECT count(*) AS n, sum(1 / (u - u)) AS s FROM (VALUES (1), (2)) v (u)) x;
-- a cast that is written makes another argument
CREATE TABLE word (w varchar(4));
INSERT INTO word VALUES ('a'), ('ab'), ('a');
SELECT string_agg(DISTINCT w, ',' ORDER BY w) FROM word;
SELECT string_agg(DISTINCT w::text, ',' ORDER BY w::text) FROM word;
SELECT string_agg(DISTINCT w::text, ',' ORDER BY w) FROM word;
SELECT string_agg(DISTINCT w, ',' ORDER BY w::text) FROM word;
DROP TABLE word;
