-- System columns: ctid and tableoid. A row's place is not shown here, but compared.
create table t (a integer primary key, b text);
insert into t values (1, 'x'), (2, 'y'), (3, 'x'), (4, 'x'), (5, 'y'), (6, null);
select count(distinct ctid), min(ctid) = min(t.ctid), min(ctid) < max(ctid), count(ctid) from t;
select a from t x where ctid = (select ctid from t where t.a = x.a) order by a;
select a from t where ctid = (select ctid from t where a = 3);
select a from t where ctid in ((select ctid from t where a = 3), (select ctid from t where a = 5)) order by a;
select a from t where ctid = any (array(select ctid from t where a > 4)) order by a;
select a from t where ctid <> all (array(select ctid from t where a > 4)) order by a;
select x.a, y.a from t x join t y on x.ctid = y.ctid order by 1;
select x.a, y.ctid is null from t x left join t y on y.a = x.a + 3 order by 1;
select a from t where ctid = '(4294967295,65535)';
select a from t where ctid is null;
select pg_typeof(ctid), pg_typeof(tableoid) from t limit 1;
select tableoid::regclass, tableoid = 't'::regclass from t where a = 1;
select b, count(ctid), min(ctid) = (select ctid from t where a = 1) from t where b = 'x' group by b;
select ctid = (select ctid from t u where u.a = t.a) from t group by a order by a;
explain (costs off) select a from t where ctid = '(1,2)';
explain (costs off) select a from t where ctid in ('(1,2)', '(3,4)') and b = 'x';
explain (costs off) update t set b = 'x' where ctid = '(1,2)';

-- The place stays while the row does, also when it is changed here.
create temp table seen as select a, ctid as place from t;
update t set b = b || '!' where a = 1 returning a, ctid = (select place from seen where seen.a = t.a);
delete from t where ctid = (select place from seen where a = 6) returning a;
insert into t values (7, 'z') returning a, ctid is not null, tableoid = 't'::regclass;
insert into t values (7, 'w') on conflict (a) do update set b = excluded.b returning b, ctid = (select ctid from t where a = 7);
insert into t values (7, 'w') on conflict (a) do nothing returning ctid;
insert into t values (8, 'w') on conflict (a) do nothing returning ctid is not null;
delete from t where a = 8 returning b, ctid is not null, random() < 2;

-- Duplicates.
delete from t where ctid not in (select min(ctid) from t group by b);
select a, b from t order by a;
insert into t values (11, 'y'), (12, 'y'), (13, 'q'), (14, 'q');
delete from t x using t y where x.ctid > y.ctid and x.b = y.b;
select count(*), count(distinct b) from t;
insert into t select n, 'n' from generate_series(20, 29) n;
delete from t where ctid = any (array(select ctid from t where b = 'n' order by a limit 7));
select a from t where b = 'n' order by a;
delete from t where ctid in (select ctid from t where b = 'n' limit 2);
select count(*) from t where b = 'n';

-- Names.
select nothing.ctid from t;
select ctid from t x, t y;
select ctid from (select 1) s;
select ctid from t, (select 1 as one) s limit 0;
select s.ctid from (select * from t) s;
select xmin from t;
select t.cmax from t;
update t set ctid = '(0,1)';
insert into t (ctid) values ('(0,1)');
create table bad (ctid integer);
create table bad (a integer, check (ctid is not null));
create table bad (a integer, check (tableoid > 0));
drop table bad;
create table bad (a integer, b tid generated always as (ctid) stored);
create index on t (ctid);
create index on t ((ctid::text));
create view v as select a, ctid as place from t;
select count(place) from v;
select pg_get_viewdef('v'::regclass);
update v set place = '(0,1)';
drop view v;

-- The type.
select '(0,0)'::tid as tid00, '(0,1)'::tid as tid01, '(-1,0)'::tid as tidm10, '(4294967295,65535)'::tid as tidmax;
select '(4294967296,1)'::tid;
select '(1,65536)'::tid;
select 'x'::tid;
select '(1,2)'::tid < '(1,3)', '(1,2)'::tid >= '(0,9)', '(2,1)'::tid <> '(2,1)';
select min(x), max(x) from (values ('(1,2)'::tid), ('(0,5)'), ('(1,1)')) v(x);
select array_agg(x order by x desc) from (values ('(1,2)'::tid), ('(0,5)'), ('(1,1)')) v(x);
create table places (p tid primary key, n integer);
insert into places values ('(0,1)', 1), ('(0,2)', 2);
insert into places values ('(0,1)', 3);
select n from places where p = '(0,2)';
drop table places, t, seen;
