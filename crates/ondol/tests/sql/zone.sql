-- TimeZone: what its clocks show, and how times without a zone are read
set timezone = 'europe/paris'; show timezone;
create table t (id int primary key, z timestamptz, s timestamp, d date);
insert into t values
  (1, '2024-01-15 12:00', '2024-01-15 12:00', '2024-01-15'),
  (2, '2024-07-15 12:00', '2024-07-15 12:00', '2024-07-15'),
  (3, '2024-03-31 02:30', '2024-03-31 02:30', '2024-03-31'),
  (4, '2024-10-27 02:30', '2024-10-27 02:30', '2024-10-27'),
  (5, '2024-07-15 12:00+00', '2024-07-15 12:00+00', '2024-07-15 23:00+00'),
  (6, 'infinity', '-infinity', 'infinity'),
  (7, '1800-01-01', '1800-01-01', '0044-03-15 BC'),
  (8, '2024-07-15 12:00 America/New_York', null, null),
  (9, '2024-07-15 12:00 EST', null, null),
  (10, 'Mon Jul 15 12:00:00 2024 CEST', null, null);
select * from t order by id;
set timezone = 'America/New_York'; select id, z from t order by id;
set timezone = 'Asia/Kolkata'; select id, z from t order by id;
set timezone = 'UTC'; select id, z from t order by id;
set timezone = 'Europe/Paris';
set datestyle = postgres; select id, z from t order by id;
set datestyle = sql; select id, z from t order by id;
set datestyle = german; select id, z from t order by id limit 2;
set datestyle = iso;
-- conversions
select id, z::date, z::timestamp, z::time, s::timestamptz, d::timestamptz from t where id < 8 and id <> 6 order by id;
select z::timetz from t where id < 6 order by id;
select z::text, z || '', concat(z), array[z], row(z) from t where id = 2;
select json_build_object('z', z, 's', s) from t where id in (1, 2) order by id;
copy (select id, z from t order by id) to stdout;
select '2024-07-15 12:00'::timestamptz, timestamptz '2024-07-15', timestamptz '20240715T1200', timestamptz '2024-07-15 12:00:00.5';
select '2024-07-15 12:00 Europe/London'::timestamptz, '2024-01-15 12:00 Europe/London'::timestamptz, '2024-07-15 12:00 europe/london'::timestamp;
select '2012-07-01 12:00 MSK'::timestamptz, '2015-07-01 12:00 MSK'::timestamptz, '2015-07-01 12:00 foo5'::timestamptz, '2015-07-01 12:00 est5edt'::timestamptz;
select '2024-07-15 12:00 Europe/Nowhere'::timestamptz;
select '2024-07-15 12:00 nowhere'::timestamptz;
select '10:00 Europe/Paris'::timetz;
select '2024-07-15 10:00 Europe/Paris'::timetz, '2024-01-15 10:00'::timetz, '10:00 MSD'::timetz;
-- fields, and what is cut
select id, extract(hour from z), extract(day from z), extract(timezone from z), extract(timezone_hour from z), extract(epoch from z), date_part('hour', z), date_part('dow', z) from t where id <> 6 order by id;
select date_trunc('day', z), date_trunc('hour', z), date_trunc('month', z), date_trunc('year', z), date_trunc('week', z), date_trunc('day', z, 'America/New_York') from t where id <> 6 order by id;
select to_char(z, 'YYYY-MM-DD HH24:MI TZ tz OF TZH:TZM') from t order by id;
-- sums
select z + interval '1 day', z + interval '24 hours', z - interval '1 month', z + interval '6 months 1 day 1 hour' from t where id <> 6 order by id;
select timestamptz '2024-03-30 12:00' + interval '1 day' - timestamptz '2024-03-30 12:00', timestamptz '2024-03-30 02:30' + interval '1 day', timestamptz '2024-10-26 02:30' + interval '1 day';
select age(timestamptz '2024-07-15 12:00', timestamptz '2024-01-15 12:00'), timestamptz '2024-07-15 12:00' - timestamptz '2024-01-15 12:00';
select g from generate_series(timestamptz '2024-03-30 00:00', '2024-04-02 00:00', '1 day') g;
select date_bin('1 day', timestamptz '2024-07-15 12:00', timestamptz '2024-01-01');
select (timestamptz '2024-03-30 12:00', interval '1 day') overlaps (timestamptz '2024-03-31 12:30', interval '1 hour');
-- comparisons
select id, d = z, d < z, s = z, s < z from t where id <> 6 order by id;
select id from t where z = timestamp '2024-07-15 12:00' order by id;
select id from t where z < date '2024-03-31' order by id;
create index on t (z);
select id from t where z >= '2024-07-15' and z < '2024-07-16' order by id;
select id from t where z between '2024-07-15 11:59' and '2024-07-15 12:01' order by id;
-- AT TIME ZONE
select timestamptz '2024-07-15 12:00+00' at time zone 'America/New_York', timestamp '2024-07-15 12:00' at time zone 'America/New_York', timestamp '2024-01-15 12:00' at time zone 'America/New_York';
select timestamptz '2024-07-15 12:00+00' at time zone 'msk', timestamp '2012-07-15 12:00' at time zone 'msk', timestamp '2024-07-15 12:00' at time zone 'utc';
select timestamp '2024-07-15 12:00' at time zone 'nowhere';
select make_timestamptz(2024, 7, 15, 12, 0, 0), make_timestamptz(2024, 7, 15, 12, 0, 0, 'Asia/Tokyo'), to_timestamp('2024-07-15 12:00', 'YYYY-MM-DD HH24:MI'), to_timestamp('2024-07-15 12:00 -03', 'YYYY-MM-DD HH24:MI TZH'), to_timestamp(1721037600);
-- what may be set
set time zone -8.5; show timezone; select z from t where id = 2;
set time zone 5; show timezone; set datestyle = sql; select z from t where id = 2; set datestyle = iso;
set time zone interval '-3:30' hour to minute; show timezone; select z from t where id = 2;
set timezone = 'interval ''2 hours'''; show timezone;
set timezone = 'interval ''2 days''';
set timezone = 'foo+3'; show timezone; select z from t where id = 2;
set timezone = 'foo3bar'; select z from t where id in (1, 2) order by id;
set timezone = 'est5edt'; show timezone; select z from t where id in (1, 2) order by id;
set timezone = '200';
set timezone = 'MSK';
set timezone = 'Europe/Nowhere';
reset timezone; show timezone;
begin; set local timezone = 'Asia/Tokyo'; select z from t where id = 2; commit; select z from t where id = 2;
-- one text, two zones
prepare p as select timestamptz '2024-07-15 12:00', $1::timestamptz, z from t where id = 1;
execute p('2024-07-15 12:00'); set timezone = 'Asia/Tokyo'; execute p('2024-07-15 12:00');
select timestamptz '2024-07-15 12:00' = '2024-07-15 03:00+00';
-- what is stored means the same in every zone
create table u (z timestamptz default '2024-01-01 12:00+09', d date default '2024-01-01', id int);
insert into u (id) values (1);
create view v as select z::date as day, z from u;
select * from v; set timezone = 'America/New_York'; select * from v;
create index on u ((z::date));
create index on u ((z at time zone 'Europe/Paris'));
create index on u (date_trunc('day', z));
select name, utc_offset is not null from pg_timezone_names where name in ('Europe/Paris', 'UTC', 'Asia/Kolkata') order by name;
select abbrev, utc_offset, is_dst from pg_timezone_abbrevs where abbrev in ('EST', 'CEST', 'Z', 'IST') order by abbrev;
select timestamptz '294276-12-31 23:00', timestamptz '4714-11-24 00:00 BC';
-- constants are converted by the zone of who runs it
set timezone = 'Asia/Tokyo';
select timestamptz '2030-03-06 20:00:24+00'::timestamp, timestamptz '2030-03-06 20:00:24+00'::date, timestamptz '2030-03-06 20:00:24+00'::time, timestamptz '2030-03-06 20:00:24+00'::timetz;
select date '2030-03-06'::timestamptz, timestamp '2030-03-06 12:00'::timestamptz, to_timestamp(0)::date, '{2030-03-06 20:00+00}'::timestamptz[]::date[];
select timestamptz '2030-03-06 00:00+09' = date '2030-03-06', timestamptz '2030-03-06 00:00+09' >= timestamp '2030-03-06 00:00', null::date::timestamptz is null;
select count(*) from (values (timestamptz '2030-03-06 00:00+09'), ('2030-03-05 23:59+09')) as w (z) where z >= date '2030-03-06';
prepare q as select timestamptz '2030-03-06 20:00+00'::date, time '12:00'::timetz = time '12:00', date '2030-03-06'::timestamptz;
execute q; set timezone = 'America/New_York'; execute q; set timezone = 'UTC'; execute q;
create table w (z timestamptz default date '2030-03-06', id int); set timezone = 'Asia/Tokyo';
insert into w (id) values (1); insert into w values (date '2030-03-06', 2), (timestamp '2030-03-06', 3); select * from w order by id;
update w set z = date '2030-03-07' where z = date '2030-03-06'; select * from w order by id;
