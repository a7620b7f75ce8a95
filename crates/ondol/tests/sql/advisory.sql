-- advisory locks and LOCK TABLE of one session; those of several are in tests/isolation
select pg_advisory_lock(1), pg_try_advisory_lock(1), pg_advisory_unlock(1), pg_advisory_unlock(1), pg_advisory_unlock(1);
select pg_advisory_unlock_shared(1), pg_advisory_unlock_all(), pg_advisory_lock(null);
select pg_advisory_xact_lock(1, 2), pg_advisory_unlock(1, 2);
begin;
select pg_advisory_xact_lock(3), pg_advisory_lock_shared(4), pg_try_advisory_xact_lock_shared(5, 6);
select pg_advisory_unlock(3), pg_advisory_unlock_shared(4);
rollback;
select pg_advisory_lock(n) from generate_series(1, 3) n;
discard all;
select pg_advisory_unlock(2);
create table t (a int);
lock table t;
begin; lock t; lock table t, t in access share mode nowait; insert into t values (1); select * from t; commit;
begin; lock table nonesuch; rollback;
begin; lock t in share mode; rollback;
begin; lock t in exclusive mode; rollback;
begin read only; lock table t in row share mode; lock t in share update exclusive mode; lock t in row exclusive mode; commit;
begin; declare c cursor for select * from t; lock t; rollback;
