-- Every type of the core: input, output, limits.
CREATE TABLE kinds (
    id integer PRIMARY KEY,
    b boolean,
    s smallint,
    i integer,
    l bigint,
    f double precision,
    n numeric,
    n2 numeric(8,3),
    c char(5),
    v varchar(4),
    t text,
    y bytea,
    d date,
    ts timestamp,
    tz timestamptz
);
INSERT INTO kinds VALUES (1, true, 1, 2, 3, 0.5, 1.50, 2.5, 'ab', 'cd', 'text', '\x00ff', '2024-02-29', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56+02');
INSERT INTO kinds VALUES (2, 'no', '-32768', '-2147483648', '-9223372036854775808', '1e300', '-1e20', 99999.9994, 'abcde', 'wxyz', '', '', '0001-01-01', '4713-01-01 00:00:00 BC', 'infinity');
INSERT INTO kinds (id) VALUES (3);
SELECT id, b, s, i, l, f FROM kinds ORDER BY id;
SELECT id, n, n2, c, v, t, y FROM kinds ORDER BY id;
SELECT id, d, ts, tz FROM kinds ORDER BY id;
SELECT id, length(c), c || '|', octet_length(y) FROM kinds ORDER BY id;
-- Limits are errors, not wrong answers.
INSERT INTO kinds (id, s) VALUES (4, 32768);
INSERT INTO kinds (id, i) VALUES (4, 2147483648);
INSERT INTO kinds (id, l) VALUES (4, 9223372036854775808);
INSERT INTO kinds (id, v) VALUES (4, 'abcde');
INSERT INTO kinds (id, v) VALUES (4, 'abcd   ');
INSERT INTO kinds (id, c) VALUES (5, 'abcdef');
INSERT INTO kinds (id, n2) VALUES (5, 100000);
INSERT INTO kinds (id, b) VALUES (5, 'maybe');
INSERT INTO kinds (id, d) VALUES (5, '2023-02-29');
INSERT INTO kinds (id, y) VALUES (5, '\xabc');
SELECT 2147483647 + 1;
SELECT 9223372036854775807 + 1;
SELECT 1 / 0;
SELECT 7 / 2, -7 / 2, 7 % 3, -7 % 3;
SELECT 1.0 / 3, 10::numeric / 4, 2 ^ 10;
SELECT 0.1 + 0.2 = 0.3, 0.1::float8 + 0.2::float8;
SELECT 2.5::integer, 3.5::integer, -2.5::integer, 2.5::float8::integer;
SELECT 'NaN'::numeric > 1e100, 'NaN'::float8 = 'NaN'::float8;
SELECT 'ab'::char(5) = 'ab', 'ab '::text = 'ab', 'ab'::varchar = 'ab '::varchar;
SELECT true AND NULL, false AND NULL, true OR NULL, NOT NULL::boolean;
SELECT '12'::integer, ' 12 '::integer, '1_000'::text, '0x10'::text;
SELECT 'abc'::integer;
SELECT '1e400'::float8;
SELECT date '2024-03-01' - date '2024-02-01', date '2024-02-28' + 2, date '2024-01-01' < timestamp '2024-01-01 00:00:01';
SELECT extract(year FROM timestamp '2024-02-29 12:00:00'), extract(dow FROM date '2024-02-29'), extract(epoch FROM timestamptz '1970-01-02 00:00:00+00');
SELECT date_trunc('month', timestamp '2024-02-29 12:34:56'), date_trunc('hour', timestamptz '2024-02-29 12:34:56+02');
SELECT '2024-02-29 12:34:56.1234567'::timestamp, 'epoch'::timestamp, '-infinity'::date;
DROP TABLE kinds;
-- What follows a number is found wrong, or the number is, whichever PostgreSQL finds first.
SELECT '1e1000000000x'::numeric;
SELECT '1e1000000000'::numeric;
SELECT '1e2000000000x'::numeric;
SELECT '1e-16384a'::numeric;
SELECT '2147483648,'::integer;
SELECT '2147483649,'::integer;
SELECT '32768T'::smallint;
SELECT '-32768T'::smallint;
SELECT '9223372036854775808 x'::bigint;
SELECT '-2147483648'::integer, '+32767'::smallint, '-9223372036854775808'::bigint;
SELECT '1e309,'::double precision;
SELECT '1e308,'::double precision;
SELECT '1e'::double precision;
SELECT '1e-400'::double precision;
SELECT 'nan(1)'::double precision, '-NaN(x_1)'::double precision, ' -Inf '::double precision, '.5e+1'::double precision, '5.'::double precision;
SELECT 'nan(-)'::double precision;
