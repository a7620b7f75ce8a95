-- DateStyle, IntervalStyle, bytea_output, extra_float_digits: what values look like, and how texts are read
create table t (d date, s timestamp, z timestamptz, i interval, f float8, r real, b bytea);
insert into t values
  ('2001-02-03', '2001-02-03 04:05:06.789', '2001-02-03 04:05:06+02', '1 year 2 mons -3 days 04:05:06.7', 1.1, 1.1, 'a\\b\xff'),
  ('0044-03-15 BC', '0044-03-15 12:00 BC', '10000-01-01', '-1 year -2 mons', -123456.789012345, 1e10, ''),
  ('infinity', '-infinity', 'infinity', '3 days', 'NaN', '-Infinity', '\x00');
select * from t;
set datestyle = 'sql'; show datestyle; select d, s, z from t;
set datestyle = 'sql, dmy'; show datestyle; select d, s, z from t;
set datestyle = german; show datestyle; select d, s, z from t;
set datestyle = postgres, mdy; show datestyle; select d, s, z from t;
set datestyle = dmy; show datestyle; select d, s, z from t;
select d::text, s::text, z || '', concat(d, s), array[d, null], array_to_string(array[d], ',') from t limit 1;
copy (select d, s from t) to stdout;
copy (select d, s from t) to stdout (format csv);
select '1/2/2020'::date, '1-2-2020 10:00'::timestamp, date '1.2.03', '3 Feb 99'::date, '99 Feb 3'::date;
select '13/2/2020'::date;
select '2/13/2020'::date;
set datestyle = ymd;
select '03/02/01'::date, '99 Feb 3'::date, '3 Feb 1999'::date, '2020-2-1'::date;
select '3 Feb 99'::date;
set datestyle = iso, mdy;
select '1/2/2020'::date;
select '13/2/2020'::date;
-- the same text means another date
set datestyle = dmy; select date '1/2/2020' = date '2020-02-01';
set datestyle = mdy; select date '1/2/2020' = date '2020-02-01';
prepare p as select date '1/2/2020';
execute p;
set datestyle = dmy;
execute p;
create table u (d date default '1/2/2020');
create table u (d date default '2020-02-01', e text default 'text');
copy u (d) from stdin;
3/4/2020
\.
insert into u values ('5/6/2020');
insert into u default values;
select * from u;
set datestyle = default;
select * from u;
set datestyle = 'iso, sql';
set datestyle = 'sql, nonsense';
set datestyle = 'german, ymd, dmy';
set datestyle = '';
show datestyle;
begin; set local datestyle = sql; select d from u limit 1; savepoint a; set datestyle = german; select d from u limit 1; rollback to a; show datestyle; commit; show datestyle;
-- intervals
set intervalstyle = postgres_verbose; select i from t; select '1 sec'::interval, '-1 sec'::interval, '0'::interval, '1 mon -1 day'::interval;
set intervalstyle = sql_standard; select i from t; select '1 sec'::interval, '-1 sec'::interval, '0'::interval, '1 mon -1 day'::interval, '1 day 00:00:01'::interval, '1-2'::interval;
select '-1 2:03:04'::interval, '-1 day +2:03:04'::interval, '-1-2 3'::interval, '-1 year 2 mons ago'::interval;
set intervalstyle = iso_8601; select i from t; select '1 sec'::interval, '-1.5 sec'::interval, '0'::interval, '1 mon -1 day'::interval;
set intervalstyle = postgres; select '-1 2:03:04'::interval;
set intervalstyle = nonsense;
-- floats
set extra_float_digits = 0; select f, r from t; select 0.1::float8 + 0.2::float8, 1e20::float8, 1e-5::float8, 100000::real, 1234567::real;
set extra_float_digits = -10; select f, r from t;
set extra_float_digits = 3; select f, r from t;
set extra_float_digits = 4;
reset extra_float_digits;
-- bytes
set bytea_output = escape; select b from t; select '\x41'::bytea::text; copy (select b from t) to stdout;
set bytea_output = nonsense;
reset bytea_output;
-- zones
set timezone = 'gmt'; show timezone; set datestyle = sql; select z from t limit 1;
set time zone 0; show timezone; select z from t limit 1;
set time zone 'Etc/Zulu'; show timezone; select z from t limit 1;
set time zone 'nowhere';
set time zone local;
reset all;
show timezone;
select z from t limit 1;
