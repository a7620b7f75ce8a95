-- interval: spans of months, days and microseconds.
CREATE TABLE spans (id int PRIMARY KEY, v interval, ym interval year to month, ds interval day to second(1), s interval(0) NOT NULL DEFAULT '1.5');
INSERT INTO spans VALUES
    (1, '1 year 2 mons -3 days 04:05:06.789 ago', '1-2', '3 4:05:06.789', '2.5'),
    (2, 'P1Y2M3DT4H5M6.7S', '18', '1.25', '1:30:00.4'),
    (3, '1 mon', NULL, NULL, DEFAULT),
    (4, '30 days', '5 years 3 days', '-1 -2:03', '-0.5'),
    (5, NULL, '-1-2', '1 week', '0');
INSERT INTO spans VALUES (6, 'some time');
INSERT INTO spans VALUES (6, '3000000000 days');
INSERT INTO spans VALUES (6, '200000000 years');
INSERT INTO spans VALUES (6, 5);
SELECT * FROM spans ORDER BY id;
SELECT id, v FROM spans ORDER BY v, id;
SELECT id, v FROM spans ORDER BY v DESC NULLS LAST, id;
-- Equal ones are one group, shown as the first of them.
SELECT v, count(*) FROM spans GROUP BY v ORDER BY v;
SELECT count(DISTINCT v) FROM spans;
SELECT sum(v), avg(v), min(v), max(v), count(v) FROM spans;
SELECT sum(v), avg(v), min(v), max(v) FROM spans WHERE id > 5;
SELECT ym, sum(ds) FROM spans GROUP BY ym HAVING sum(ds) IS NOT NULL ORDER BY ym;
-- Indexes.
CREATE UNIQUE INDEX ON spans (v);
CREATE INDEX by_v ON spans (v DESC, id);
CREATE INDEX by_ym ON spans USING hash (ym);
SELECT id FROM spans WHERE v = '30 days' ORDER BY id;
SELECT id FROM spans WHERE v > '29 days' ORDER BY v, id;
SELECT id FROM spans WHERE v BETWEEN '-10 years' AND interval '1' month ORDER BY id;
SELECT id FROM spans WHERE ym = '1 year 2 mons';
SELECT a.id, b.id FROM spans a JOIN spans b ON a.v = b.v AND a.id < b.id;
UPDATE spans SET v = v + '1 day' WHERE id = 4;
CREATE UNIQUE INDEX ON spans (v);
UPDATE spans SET v = '1 mon' WHERE id = 4;
DELETE FROM spans WHERE v = '31 days';
-- COPY.
COPY spans TO STDOUT;
COPY (SELECT v, ym FROM spans ORDER BY id) TO STDOUT (FORMAT csv);
CREATE TABLE more (v interval, y interval year);
COPY more FROM STDIN;
1 day	7
-04:05	18 mons
\N	\N
\.
COPY more FROM STDIN (FORMAT csv);
1 fortnight,1
\.
SELECT * FROM more;
-- Fields and precisions.
SELECT interval '1' year, interval '1' month, interval '1' day, interval '1' hour, interval '1' minute, interval '1' second;
SELECT interval '1-2' year to month, interval '1 2' day to hour, interval '1 2:03' day to minute, interval '1 2:03:04.567' day to second(2);
SELECT interval '1:2' hour to minute, interval '1:2' minute to second, interval '1:2:3' hour to second, interval(1) '1.26';
SELECT '1.26'::interval(1), CAST('18 mons' AS interval year), '1'::text::interval year;
SELECT interval '1 day' day to month;
SELECT '1'::interval(-1);
PREPARE p (interval) AS SELECT $1::interval hour, $1;
EXECUTE p ('1:30');
EXECUTE p ('x');
-- Dates and times.
SELECT date '2024-01-31' + interval '1 month', date '2024-03-31' - interval '1 month', interval '1 day' + date '2024-02-28';
SELECT timestamp '2024-01-31 12:00' + interval '1 month 1 day', timestamptz '2024-01-31 12:00+00' - interval '36 hours', interval '1 year' + timestamp '2024-02-29';
SELECT timestamp '2024-03-01' - timestamp '2024-02-01 12:00', timestamptz '2024-03-01' - timestamptz '2024-03-02 01:00';
SELECT timestamp '2024-03-01' + '1 day', timestamptz '2024-03-01 00:00+00' - '1 day'::interval, timestamp '2024-03-01' - '2024-02-01';
SELECT timestamp '2024-03-01' - date '2024-02-01', date '2024-02-01' - timestamp '2024-03-01';
SELECT age(timestamp '2024-03-01', timestamp '2023-12-15 06:00'), age(timestamptz '2000-01-01', timestamptz '2024-02-29'), age(now()::date) - age(now()::date);
SELECT timestamp '294276-12-31' + interval '1 year';
SELECT timestamp 'infinity' - timestamp '2024-01-01';
SELECT timestamp 'infinity' + interval '1 year', date '-infinity' - interval '1 day';
SELECT date_bin('15 minutes', timestamp '2024-02-29 12:34:56', timestamp '2024-01-01'), date_bin('1 day', timestamptz '2024-02-29 12:34:56+00', '2024-01-01 06:00+00');
SELECT date_bin('1 month', timestamp '2024-02-29 12:34:56', timestamp '2024-01-01');
-- Computing.
SELECT interval '1 month 15 days' * 1.5, 2 * interval '1:30', interval '1 day' / 7, interval '1 year' / 2.5, - interval '1 day -2:03';
SELECT interval '1 month' + '1 day', interval '1 day' - interval '1 month', interval '1 day' > '23 hours', interval '1 day' = '24:00';
SELECT interval '1 day' / 0;
SELECT interval '2147483647 days' + interval '1 day';
SELECT interval '1 day' * 'NaN';
SELECT '1 day' * 2;
SELECT '1' * '2';
SELECT - '1';
SELECT interval '1 day' * interval '1 day';
SELECT interval '1 day' + 1;
SELECT justify_hours('50 hours'), justify_days('35 days'), justify_interval('1 mon -1 hour');
SELECT make_interval(), make_interval(1, 2, 3), make_interval(1, 2, 3, 4, 5, 6, 7.5), make_interval(0, 0, 0, 0, 25);
SELECT make_interval(hours => 10);
SELECT extract(epoch FROM interval '1 year 1 mon 1 day 1 second'), extract(hour FROM interval '100:59:58.5'), extract(second FROM interval '100:59:58.5'), extract(quarter FROM interval '7 months');
SELECT date_part('epoch', interval '1 day 0.5'), date_part('milliseconds', interval '1.5'), date_trunc('hour', interval '1 day 02:34:56'), date_trunc('decade', interval '57 years 3 mons');
SELECT date_trunc('week', interval '1 mon');
SELECT extract(week FROM interval '1 mon');
SELECT extract(nonsense FROM interval '1 mon');
SELECT isfinite(interval '1 day'), isfinite('1 day');
-- Out of a subquery that sorts.
SELECT id, (SELECT s.v FROM spans s WHERE s.id = 2 ORDER BY 1) AS longest FROM spans WHERE v <> (SELECT max(v) FROM spans HAVING count(*) > 0 ORDER BY 1) ORDER BY id;
-- As text, and beside other types.
SELECT v::text, 'for ' || v, length(v::varchar(5)) FROM spans WHERE id = 2;
SELECT 5::interval;
SELECT interval '1 day'::int;
SELECT CASE WHEN id = 3 THEN v ELSE '2 days' END, coalesce(NULL, v, interval '0') FROM spans WHERE id IN (3, 5) ORDER BY id;
SELECT v FROM more UNION SELECT interval '24:00' ORDER BY 1;
SELECT CASE WHEN true THEN interval '1 day' ELSE 1 END;
CREATE FUNCTION later(timestamp, interval) RETURNS timestamp LANGUAGE sql AS 'SELECT $1 + $2';
SELECT later('2024-01-01', '1 day');
DROP FUNCTION later(timestamp, interval);
DROP TABLE spans, more;
-- by the standard a sign in front of all is each field's
set intervalstyle = sql_standard;
select interval '-23 hours 45 min 12.34 sec', interval '-1 year 2 months', interval '-1 day 2 hours -3 minutes';
select interval '-1-2 3 4:05', interval '-5 4:05:06.5', interval '-3 weeks 2 days', interval '-1.5 days 2.25 hours';
reset intervalstyle;
