-- generate_series over timestamps, by an interval.
SELECT * FROM generate_series(timestamp '2024-01-31', '2024-06-01', '1 month');
SELECT * FROM generate_series(timestamptz '2024-01-03 00:00+00', '2024-01-01 00:00+00', '-12 hours') AS g (t);
SELECT t, t::date - date '2024-01-01' AS n FROM generate_series(date '2024-01-01', date '2024-01-03', interval '1 day') t ORDER BY t DESC;
SELECT count(*), min(t), max(t) FROM generate_series('2024-01-01'::timestamp, '2024-12-31 23:00', '1 hour') t;
SELECT count(*) FROM generate_series(timestamp '2024-01-01', timestamp '2023-01-01', '1 day');
SELECT count(*) FROM generate_series(timestamp '2024-01-01', NULL, '1 day');
SELECT count(*) FROM generate_series(timestamp '2024-01-01', timestamp '2023-01-01', NULL);
SELECT * FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-02', '0');
SELECT * FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-02', '1 mon -30 days');
SELECT * FROM generate_series(timestamp '294276-11-30', 'infinity', '1 mon');
SELECT * FROM generate_series(timestamp '294276-11-30', 'infinity', '1 mon') LIMIT 1;
SELECT * FROM generate_series(timestamp '2024-01-01', timestamp '2024-01-02');
SELECT * FROM generate_series(timestamp '2024-01-01', 5, interval '1 day');
SELECT (SELECT count(*) FROM generate_series(d, d + interval '1 day', '1:00') t WHERE t > d) FROM (VALUES (timestamp '2024-01-01'), (NULL)) v (d);
PREPARE p (timestamp, interval) AS SELECT * FROM generate_series($1, $1 + 2 * $2, $2);
EXECUTE p ('2024-01-01', '1 day 01:00');
EXECUTE p ('2024-01-01', '-1 month');
