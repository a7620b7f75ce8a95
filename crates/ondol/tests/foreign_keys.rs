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

const ORPHANS: &str =
    "select count(*) from c where x is not null and not exists (select 1 from p where a = x)";

/// A foreign key is added, validated and dropped while threads change rows of both tables: whenever it is
/// valid, it holds.
#[test]
fn foreign_keys_come_and_go_beside_writers() {
    let folder = TempFolder::new().expect("a folder");
    let db = Arc::new(Database::open(folder.path()).expect("a database in it"));
    let mut s = db.session();
    s.execute(
        "create table p (a int primary key, v int); insert into p values (1, 0), (2, 0), (3, 0); \
         create table c (x int); create index on c (x)",
    )
    .expect("it is set up");
    let (over, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let random = |mut x: u64| {
        move |below: u64| {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (x >> 33) % below
        }
    };
    std::thread::scope(|scope| {
        for n in 0..4u64 {
            let (db, over, done, mut next) = (db.clone(), &over, &done, random(n + 1));
            scope.spawn(move || {
                let mut s = db.session();
                while over.load(Ordering::Relaxed) == 0 {
                    let level = ["read committed", "repeatable read"][(next(4) / 3) as usize];
                    s.execute(&format!("begin isolation level {level}")).expect("it begins");
                    let mut ok = Ok(());
                    for _ in 0..1 + next(3) {
                        let (a, b) = (next(6), next(6));
                        let sql = match next(7) {
                            0 => format!("delete from p where a = {a}"),
                            1 => format!("insert into p values ({a}, 1) on conflict do nothing"),
                            2 => format!("update p set a = {b} where a = {a}"),
                            3 => format!("delete from c where x = {a}"),
                            4 => format!("update c set x = {b} where x = {a}"),
                            _ => format!("insert into c values ({a})"),
                        };
                        ok = ok.and_then(|()| s.execute(&sql).map(drop));
                    }
                    match ok.and_then(|()| s.execute("commit").map(drop)) {
                        Ok(()) => drop(done.fetch_add(1, Ordering::Relaxed)),
                        Err(e) => {
                            let known = ["23503", "23505", "40001", "40P01"];
                            assert!(known.contains(&e.sqlstate()), "{} {e}", e.sqlstate());
                            s.execute("rollback").expect("it rolls back");
                        }
                    }
                }
            });
        }
        let (mut next, mut valid) = (random(77), 0);
        let mut run = || {
            for turn in 0..300 {
                let action = ["", "on delete cascade", "on delete set null on update cascade"][turn % 3];
                let add = format!("alter table c add constraint k foreign key (x) references p {action}");
                let added = match next(3) {
                    0 => s.execute(&format!("{add} not valid; alter table c validate constraint k")),
                    1 => s.execute(&format!("begin; {add}; commit")),
                    _ => s.execute(&add),
                };
                match added {
                    Ok(_) => {
                        valid += 1;
                        assert_eq!(count(&mut s, ORPHANS), 0, "turn {turn}")
                    }
                    Err(e) => {
                        assert!(["23503", "40P01"].contains(&e.sqlstate()), "{} {e}", e.sqlstate());
                        s.execute("rollback").expect("nothing is open");
                        let sweep = "delete from c where x not in (select a from p)";
                        while let Err(e) = s.execute(sweep) {
                            assert!(["40001", "40P01", "23503"].contains(&e.sqlstate()), "{e}")
                        }
                    }
                }
                // It marks one table after the other, which those who have used the second may want.
                while let Err(e) = s.execute("alter table c drop constraint if exists k") {
                    assert_eq!(e.sqlstate(), "40P01", "{e}")
                }
            }
        };
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut run));
        over.store(1, Ordering::Relaxed);
        ran.unwrap_or_else(|e| std::panic::resume_unwind(e));
        assert!(valid > 20, "{valid} times it was valid");
    });
    assert!(done.into_inner() > 100);
}

/// Writers to both tables go on while their rows are looked at.
#[test]
fn statements_commit_while_a_foreign_key_is_looked_at() {
    let folder = TempFolder::new().expect("a folder");
    let db = Arc::new(Database::open(folder.path()).expect("a database in it"));
    let mut s = db.session();
    s.execute(
        "create table p (a int primary key); insert into p select i from generate_series(1, 1000) i; \
         create table c (x int, check (x > 0) not valid); create index on c (x); \
         insert into c select 1 + i % 1000 from generate_series(1, 300000) i",
    )
    .expect("it is set up");
    let (stage, commits) = (AtomicU64::new(0), [const { AtomicU64::new(0) }; 4]);
    std::thread::scope(|scope| {
        for n in 0..2 {
            let (db, stage, commits) = (db.clone(), &stage, &commits);
            scope.spawn(move || {
                let mut s = db.session();
                s.execute("set synchronous_commit = off").expect("a setting");
                for i in 0.. {
                    let now = stage.load(Ordering::Relaxed);
                    if now == 3 {
                        break;
                    }
                    let key = 2000 + 2 * i + n;
                    let sql = format!("insert into p values ({key}); insert into c values ({key})");
                    s.execute(&sql).expect("they go on");
                    s.execute(&format!("insert into p values (-{key}); delete from p where a = -{key}"))
                        .expect("it goes again");
                    commits[now as usize].fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let done = [
            "alter table c add constraint k foreign key (x) references p",
            "alter table c validate constraint c_x_check",
        ]
        .map(|sql| {
            stage.fetch_add(1, Ordering::Relaxed);
            s.execute(sql)
        });
        stage.store(3, Ordering::Relaxed);
        done.into_iter().for_each(|d| drop(d.expect("it holds")));
    });
    let commits = commits.map(AtomicU64::into_inner);
    assert!(
        commits[1] > 3,
        "{commits:?} commits before, while the key was added, while the check was looked at"
    );
    assert_eq!(count(&mut s, ORPHANS), 0);
    assert_eq!(count(&mut s, "select count(*) from pg_constraint where not convalidated"), 0);
}

/// A transaction that has changed rows of a table adds a foreign key to it, or validates one: nobody takes
/// away what these rows name, of which nobody else knows before it commits.
#[test]
fn rows_of_the_definers_own_keep_what_they_name() {
    let folder = TempFolder::new().expect("a folder");
    let db = Database::open(folder.path()).expect("a database in it");
    let (mut s, mut other) = (db.session(), db.session());
    other.execute("set lock_timeout = '200ms'").unwrap();
    for (n, (change, add)) in [
        ("insert into c values (1, 1)", "alter table c add foreign key (p) references p"),
        ("update c set p = 1 where id = 2", "alter table c add foreign key (p) references p on delete cascade"),
        (
            "insert into c values (3, 1)",
            "alter table c add constraint f foreign key (p) references p not valid; alter table c validate constraint f",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        s.execute(
            "create table p (id int primary key); create table c (id int primary key, p int);
             insert into p values (1), (2); insert into c values (2, 2)",
        )
        .unwrap();
        let begun = s.execute(&format!("begin; savepoint a; {change}; {add}"));
        begun.unwrap_or_else(|e| panic!("{add}: {e}"));
        let e = other.execute("delete from p where id = 1").unwrap_err();
        assert_eq!(e.sqlstate(), "55P03", "{add}: {e}");
        match n {
            0 => s.execute("rollback to a; commit").map(drop).unwrap(),
            _ => s.execute("commit").map(drop).unwrap(),
        }
        let gone = other.execute("delete from p where id = 1").map(drop);
        assert_eq!(gone.map_err(|e| e.sqlstate().to_string()).err().as_deref(), [None, None, Some("23503")][n]);
        let dangling = "select count(*) from c where not exists (select from p where p.id = c.p)";
        assert_eq!(count(&mut s, dangling), 0, "{add}");
        s.execute("drop table c, p").unwrap();
    }
}
