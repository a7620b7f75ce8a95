//! Foreign keys by threads, through restarts, dumps and definitions side by side.
use ondol::{Database, Session, TempFolder};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn count(s: &mut Session, sql: &str) -> i64 {
    s.query(sql, &[]).expect(sql).row(0).get::<i64>(0).expect("a number")
}

/// Children come while their parents go, at each level and with each action.
#[test]
fn no_child_is_without_its_parent() {
    let folder = TempFolder::new().expect("a folder");
    let db = Arc::new(Database::open(folder.path()).expect("a database in it"));
    let mut s = db.session();
    s.execute(
        "create table p (a int primary key, v int); insert into p select i, 0 from generate_series(0, 19) i; \
         create table na (p int references p); create index on na (p); \
         create table ca (p int references p on delete cascade on update cascade); \
         create table de (p int references p deferrable initially deferred)",
    )
    .expect("it is set up");
    let (done, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for n in 0..6u64 {
            let (db, done, refused) = (db.clone(), &done, &refused);
            scope.spawn(move || {
                let mut s = db.session();
                let mut x = n + 1;
                let mut next = |below: u64| {
                    x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    (x >> 33) % below
                };
                for _ in 0..400 {
                    let level = ["read committed", "repeatable read", "serializable"][(next(6) / 4) as usize];
                    s.execute(&format!("begin isolation level {level}")).expect("it begins");
                    let mut ok = Ok(());
                    for _ in 0..1 + next(2) {
                        let (a, b) = (next(20), next(20));
                        let child = ["na", "ca", "de"][next(3) as usize];
                        let sql = match next(8) {
                            0 | 1 => format!("delete from p where a = {a}"),
                            2 => format!("insert into p values ({a}, 1) on conflict do nothing"),
                            3 => format!("update p set a = {b} where a = {a}"),
                            4 => format!("delete from {child} where p = {a}"),
                            _ => format!("insert into {child} values ({a})"),
                        };
                        ok = ok.and_then(|()| s.execute(&sql).map(drop));
                    }
                    let ended = ok.and_then(|()| s.execute("commit").map(drop));
                    match ended {
                        Ok(()) => {
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(e) => {
                            let known = ["23503", "23505", "40001", "40P01"];
                            assert!(known.contains(&e.sqlstate()), "{} {e}", e.sqlstate());
                            refused.fetch_add(1, Ordering::Relaxed);
                            s.execute("rollback").expect("it rolls back");
                        }
                    }
                }
            });
        }
    });
    assert!(done.into_inner() > 200 && refused.into_inner() > 20);
    for child in ["na", "ca", "de"] {
        let orphans =
            format!("select count(*) from {child} c where not exists (select 1 from p where a = c.p)");
        assert_eq!(count(&mut s, &orphans), 0, "{child}");
    }
}

const SCHEMA: &str = "create table p (a int primary key, b text unique); \
     create table c (x int references p on delete cascade, \
       y text constraint yk references p (b) match full on update set default deferrable initially deferred); \
     alter table c add constraint nv foreign key (x) references p not valid; \
     create table t (id int primary key, up int references t on delete set null (up)); \
     insert into p values (1, 'x'); insert into c values (1, 'x'); insert into t values (1, 2), (2, 2)";

#[test]
fn foreign_keys_survive() {
    let folder = TempFolder::new().expect("a folder");
    {
        let db = Database::open(folder.path()).expect("a database in it");
        let mut s = db.session();
        s.execute(SCHEMA).expect("it is set up");
        s.execute("begin; create table gone (x int references p); rollback").expect("it rolls back");
        s.execute("begin; savepoint a; alter table c drop constraint yk; rollback to a; commit")
            .expect("it stays");
    }
    for checkpoint in [true, false] {
        let db = Database::open(folder.path()).expect("it opens again");
        let mut s = db.session();
        assert_eq!(s.execute("insert into c values (9, 'x')").unwrap_err().sqlstate(), "23503");
        assert_eq!(s.execute("insert into c values (1, 'z')").unwrap_err().sqlstate(), "23503");
        assert_eq!(s.execute("insert into t values (3, 4)").unwrap_err().sqlstate(), "23503");
        assert_eq!(s.execute("drop table p").unwrap_err().sqlstate(), "2BP01");
        s.execute("begin; delete from t where id = 2").expect("it is deleted");
        assert_eq!(count(&mut s, "select count(*) from t where up is null"), 1);
        s.execute("rollback").expect("it rolls back");
        if checkpoint {
            s.execute("checkpoint").expect("a checkpoint");
        }
    }
    let db = Database::open(folder.path()).expect("it opens again");
    let mut dumped = Vec::new();
    db.session().dump(&mut dumped, |_, _| {}).expect("a dump");
    let dumped = String::from_utf8(dumped).expect("text");
    for line in [
        "ALTER TABLE c ADD CONSTRAINT yk FOREIGN KEY (y) REFERENCES p(b) MATCH FULL ON UPDATE SET DEFAULT DEFERRABLE INITIALLY DEFERRED;",
        "ALTER TABLE c ADD CONSTRAINT c_x_fkey FOREIGN KEY (x) REFERENCES p(a) ON DELETE CASCADE;",
        "ALTER TABLE c ADD CONSTRAINT nv FOREIGN KEY (x) REFERENCES p(a) NOT VALID;",
        "ALTER TABLE t ADD CONSTRAINT t_up_fkey FOREIGN KEY (up) REFERENCES t(id) ON DELETE SET NULL (up);",
    ] {
        assert!(dumped.lines().any(|l| l == line), "{line}\n{dumped}");
    }
}

/// A key that goes while another session makes a foreign key that names it: one of them waits, and then is
/// refused.
#[test]
fn no_key_goes_beside_a_new_foreign_key() {
    let folder = TempFolder::new().expect("a folder");
    let db = Database::open(folder.path()).expect("a database in it");
    let (mut a, mut b) = (db.session(), db.session());
    for (drops, code) in [("drop table p", "2BP01"), ("alter table p drop constraint p_pkey", "2BP01")] {
        a.execute("create table p (a int primary key, b int)").expect("a table");
        a.execute("begin; create table c (x int references p)").expect("a foreign key");
        let waiter = b.waiter();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| b.execute(drops).expect_err("it is refused").sqlstate().to_string());
            while !waiter.is_waiting() {
                std::thread::yield_now()
            }
            a.execute("commit").expect("it commits");
            assert_eq!(other.join().expect("no panic"), code);
        });
        // And the other way round.
        a.execute("drop table c; begin").expect("it goes");
        a.execute(drops).expect("it goes");
        let waiter = b.waiter();
        std::thread::scope(|scope| {
            let add = "create table c (x int references p)";
            let other = scope.spawn(|| b.execute(add).expect_err("it is refused").sqlstate().to_string());
            while !waiter.is_waiting() {
                std::thread::yield_now()
            }
            a.execute("commit").expect("it commits");
            let found = other.join().expect("no panic");
            assert!(["42P01", "42704"].contains(&found.as_str()), "{found}");
        });
        a.execute("drop table if exists p").expect("it goes");
    }
}
