-- LATERAL: subqueries in FROM that see what stands before them.

create table t (a int primary key, b text, c char(5), d varchar(10));
insert into t values (1,'foo bar','ab','xyz'),(2,'barbaz',NULL,'x'),(3,NULL,'b','yy');
create table u (a int, b text);
insert into u values (1,'x'),(1,'y'),(2,'z'),(4,'w');
select t.a, s.* from t, (select u.b from u where u.a = t.a) s;
select t.a, s.* from t, lateral (select u.b from u where u.a = t.a) s order by 1, 2;
select t.a, s.* from t left join lateral (select u.b, t.a + u.a as n from u where u.a = t.a) s on true order by 1, 2;
select t.a, s.* from t left join lateral (select count(*) as n, max(b) as m from u where u.a >= t.a) s on s.n > 1 order by 1, 2;
select t.a, s.b from t cross join lateral (select b from u where u.a >= t.a order by b limit 1) s order by 1;
select t.a, s.b from t right join lateral (select b from u where u.a = t.a) s on true;
select t.a, s.b from t full join lateral (select b from u where u.a = t.a) s on true;
select * from t, lateral (select count(t.a)) s;
select * from (select 1 as x) s, lateral (select x + 1 as y) t2, lateral (select x + y as z) v;
select t.a, s.x from t, lateral (values (t.a), (t.a * 2)) s(x) order by 1, 2;
select t.a, v.n from t, lateral (select generate_series from generate_series(1, t.a)) v(n) order by 1, 2;
select a, (select sum(s.n) from u, lateral (select u.a * t.a as n) s) from t order by a;
select t.a, s.b from t, lateral (select distinct b from u where u.a = t.a union all select 'q' where t.a = 1) s order by 1,2;
select t.a, x.b, y.c from t join lateral (select b from u where u.a = t.a) x on true join lateral (select x.b || t.a as c) y on true order by 1,2;
select t.a, s.b from t, lateral (select t.a as b from u u2 where exists (select 1 from u where u.a = t.a and u.b = u2.b)) s order by 1;
update t set b = 'n' || s.n from lateral (select t.a as n) s;
update t set d = s.n from u, lateral (select u.b as n) s where u.a = t.a and t.a = 2 returning t.a, d;
delete from t using u, lateral (select u.a + 1 as n) s where t.a = s.n + 10 returning *;
select * from t, lateral (select t.zz) s;
select * from t as q, lateral (select t.a) s;
with w as (select 1 as x) select * from w, lateral (select x + 1 as y) s;
select * from u join lateral (select * from u u2 where u2.a = u.a and u2.b > u.b) s(c, d) on u.a = s.c;
select * from t, lateral (t join u on true) x;
select count(*) from t a, lateral (select * from t b where b.a > a.a) c, lateral (select * from u where u.a = c.a or u.a = a.a) d;
select * from t left join (u cross join lateral (select u.a + t.a as q) s) on t.a = u.a order by 1;
-- a hash table whose keys are made of an outer row is made anew for each
create table far (k bigint);
insert into far values (10), (20), (30);
create table part (n integer);
insert into part select * from generate_series(1, 40);
select f.k, s.* from far f, lateral (select p.n, o.x from part p join (values (0), (1)) o(x) on p.n = o.x + f.k order by 1, 2) s;
select f.k, (select count(*) from part p join part q on p.n = q.n + f.k) from far f order by f.k;
