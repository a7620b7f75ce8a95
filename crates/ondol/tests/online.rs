//! CREATE INDEX beside those who use the table, on real threads.
use ondol::{Canceller, Database, Session, TempFolder};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

fn open() -> (TempFolder, Database) {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path()).unwrap();
    (folder, db)
}
fn code(s: &mut Session, sql: &str) -> String {
    s.execute(sql).map_or_else(|e| e.sqlstate().to_string(), |_| String::new())
}
fn count(s: &mut Session, sql: &str) -> i64 {
    s.query(sql, &[]).unwrap().row(0).get(0).unwrap()
}
fn plan(s: &mut Session, sql: &str) -> String {
    let rows = s.query(&format!("EXPLAIN {sql}"), &[]).unwrap();
    rows.iter().map(|r| r.get::<String>(0).unwrap()).collect::<Vec<_>>().join("\n")
}
/// A table whose rows have a = 1 to 10, b = a and no index.
fn ten(db: &Database) -> Session {
    let mut s = db.session();
    s.execute(
        "CREATE TABLE t (a integer NOT NULL, b integer); INSERT INTO t SELECT n, n FROM generate_series(1, 10) n",
    )
    .unwrap();
    s
}
/// Runs the statement in another session, and `f` while it waits for whoever used the table before. Its
/// message and detail.
fn meanwhile(db: &Database, sql: &'static str, f: impl FnOnce(&Canceller)) -> Result<(), (String, String)> {
    let mut other = db.session();
    let (canceller, waiter) = (other.canceller(), other.waiter());
    let waiting = thread::spawn(move || other.execute(sql).map(drop));
    while !waiter.is_waiting() {
        assert!(!waiting.is_finished(), "{sql}");
        thread::sleep(Duration::from_millis(1))
    }
    f(&canceller);
    waiting
        .join()
        .unwrap()
        .map_err(|e| (e.sqlstate().to_string(), format!("{e} {}", e.0.detail.as_deref().unwrap_or(""))))
}

/// Only the builder waits for a transaction that used the table before; all others go on, and nothing they do
/// is lost.
#[test]
fn others_go_on_while_the_builder_waits() {
    let (folder, db) = open();
    let mut early = ten(&db);
    early.execute("BEGIN; UPDATE t SET b = 100 WHERE a = 1; INSERT INTO t VALUES (11, 11)").unwrap();
    let mut s = db.session();
    let built = meanwhile(&db, "CREATE INDEX i ON t (b)", |_| {
        s.execute(
            "SET lock_timeout = '5s'; INSERT INTO t VALUES (12, 12); UPDATE t SET b = 200 WHERE a = 2; DELETE FROM t WHERE a = 3;
             BEGIN; INSERT INTO t VALUES (13, 13); UPDATE t SET b = 14 WHERE a = 4; ROLLBACK;
             BEGIN; INSERT INTO t VALUES (14, 13); SAVEPOINT x; UPDATE t SET b = 7 WHERE a = 14; ROLLBACK TO x; COMMIT;
             CHECKPOINT",
        )
        .unwrap();
        // Not before it is complete.
        assert!(!plan(&mut s, "SELECT a FROM t WHERE b = 5").contains("Index"));
        assert_eq!(count(&mut s, "SELECT count(*) FROM t WHERE b = 12"), 1);
        early.execute("UPDATE t SET b = 101 WHERE a = 1; COMMIT").unwrap();
    });
    assert_eq!(built, Ok(()));
    let check = |s: &mut Session| {
        assert!(plan(s, "SELECT a FROM t WHERE b = 5").contains("Index"));
        for (b, n) in
            [(1, 0), (100, 0), (101, 1), (200, 1), (2, 0), (3, 0), (4, 1), (14, 0), (13, 1), (7, 1), (11, 1)]
        {
            assert_eq!(count(s, &format!("SELECT count(*) FROM t WHERE b = {b}")), n, "b = {b}");
        }
        assert_eq!(count(s, "SELECT count(*) FROM t WHERE b > 0"), 12);
    };
    check(&mut s);
    drop((s, early));
    db.close().unwrap();
    let db = Database::open(folder.path()).unwrap();
    check(&mut db.session());
}

/// Statements commit all the while that a large index is built.
#[test]
fn statements_commit_while_a_large_index_is_built() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute(
        "CREATE TABLE t (a integer, b text); INSERT INTO t SELECT n, 'number ' || n * 1009 % 400000 FROM generate_series(1, 400000) n",
    )
    .unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let (told, mut builder) = (over.clone(), db.session());
    let building = thread::spawn(move || {
        builder.execute("CREATE INDEX i ON t (b, a)").unwrap();
        told.store(true, Ordering::SeqCst)
    });
    let mut done = 0;
    while !over.load(Ordering::SeqCst) {
        s.execute("SET synchronous_commit = off; SET lock_timeout = '5s'; INSERT INTO t VALUES (0, 'new')")
            .unwrap();
        // What was committed before the builder ended was not kept waiting for it.
        done += !over.load(Ordering::SeqCst) as i64;
        thread::sleep(Duration::from_millis(1))
    }
    building.join().unwrap();
    assert!(done > 20, "{done} commits");
    assert!(plan(&mut s, "SELECT a FROM t WHERE b = 'new'").contains("Index"));
    let found = count(&mut s, "SELECT count(*) FROM t WHERE b = 'new'");
    assert!(found == done || found == done + 1, "{found} of {done}");
    assert_eq!(count(&mut s, "SELECT count(*) FROM t WHERE b >= 'n'"), 400_000 + found);
}

/// Keys that come twice are found whoever brought them, and the index is as if it had never been.
#[test]
fn a_duplicate_that_came_late_ends_the_building() {
    let (_folder, db) = open();
    let mut early = ten(&db);
    let mut s = db.session();
    // Of a transaction that began before, with a row that the index has; then with one of a writer who keeps
    // the index up.
    for late in ["INSERT INTO t VALUES (20, 5)", "UPDATE t SET b = 21 WHERE a = 1"] {
        early.execute(&format!("BEGIN; {late}")).unwrap();
        let failed = meanwhile(&db, "CREATE UNIQUE INDEX i ON t (b)", |_| {
            s.execute("INSERT INTO t VALUES (21, 21)").unwrap();
            early.execute("COMMIT").unwrap();
        });
        let (code, text) = failed.unwrap_err();
        assert_eq!(code, "23505");
        assert!(text.contains("could not create unique index \"i\""), "{text}");
        let key = if late.contains("INSERT") {
            "Key (b)=(5) is duplicated."
        } else {
            "Key (b)=(21) is duplicated."
        };
        assert!(text.contains(key), "{text}");
        s.execute("INSERT INTO t VALUES (22, 6); DELETE FROM t WHERE a > 20").unwrap();
        early.execute("DELETE FROM t WHERE a = 20").unwrap();
    }
    assert!(!plan(&mut s, "SELECT a FROM t WHERE b = 5").contains("Index"));
    s.execute("CREATE UNIQUE INDEX i ON t (b)").unwrap();
    // A row that is taken back is no duplicate.
    s.execute("DROP INDEX i").unwrap();
    early.execute("BEGIN; INSERT INTO t VALUES (20, 5)").unwrap();
    assert_eq!(
        meanwhile(&db, "CREATE UNIQUE INDEX i ON t (b)", |_| early.execute("ROLLBACK").map(drop).unwrap()),
        Ok(())
    );
    assert_eq!(code(&mut s, "INSERT INTO t VALUES (20, 5)"), "23505");
}

/// From its registration on the index binds new writers, while the building waits for those who only noted
/// old keys.
#[test]
fn an_index_being_built_binds_those_who_come_later() {
    let (_folder, db) = open();
    let mut early = ten(&db);
    early.execute("BEGIN; SELECT count(*) FROM t").unwrap();
    let mut s = db.session();
    let mut noting = db.session();
    let built = meanwhile(&db, "CREATE UNIQUE INDEX i ON t (b)", |_| {
        noting.execute("BEGIN; SELECT count(*) FROM t").unwrap();
        early.execute("COMMIT").unwrap();
        thread::sleep(Duration::from_millis(300));
        let e = s.execute("INSERT INTO t VALUES (20, 5)").unwrap_err();
        assert_eq!((e.sqlstate(), e.0.detail.as_deref()), ("23505", Some("Key (b)=(5) already exists.")));
        s.execute("DELETE FROM t WHERE b = 5; INSERT INTO t VALUES (20, 5)").unwrap();
        noting.execute("COMMIT").unwrap();
    });
    assert_eq!(built, Ok(()));
}

#[test]
fn a_building_that_waits_is_broken_off_and_leaves_nothing() {
    let (_folder, db) = open();
    let mut early = ten(&db);
    let mut s = db.session();
    for sql in [
        "CREATE UNIQUE INDEX i ON t (b)",
        "SET statement_timeout = '500ms'; CREATE UNIQUE INDEX i ON t (b)",
        "SET lock_timeout = '500ms'; CREATE UNIQUE INDEX i ON t (b)",
    ] {
        early.execute("BEGIN; UPDATE t SET b = 11 WHERE a = 1").unwrap();
        let ended = meanwhile(&db, sql, |c| {
            if !sql.contains("SET") {
                c.cancel()
            }
            thread::sleep(Duration::from_millis(600));
            s.execute("INSERT INTO t VALUES (20, 5); DELETE FROM t WHERE a = 20").unwrap();
        });
        assert_eq!(ended.unwrap_err().0, if sql.contains("lock") { "55P03" } else { "57014" });
        early.execute("ROLLBACK").unwrap();
    }
    s.execute("CREATE UNIQUE INDEX i ON t (b)").unwrap();
    assert_eq!(code(&mut s, "INSERT INTO t VALUES (20, 5)"), "23505");
}

/// Who would change the table's definition waits for the builder, and a cycle of the two is a deadlock.
#[test]
fn definitions_wait_for_the_builder() {
    let (_folder, db) = open();
    for sql in ["TRUNCATE t", "DROP INDEX i", "DROP TABLE t"] {
        let mut early = ten(&db);
        early.execute("BEGIN; SELECT count(*) FROM t").unwrap();
        let built = meanwhile(&db, "CREATE INDEX i ON t (b)", |_| {
            let mut other = db.session();
            let waiting = thread::spawn(move || code(&mut other, sql));
            thread::sleep(Duration::from_millis(100));
            assert_eq!(waiting.is_finished(), sql.contains("INDEX"), "{sql}");
            early.execute("COMMIT").unwrap();
            assert_eq!(waiting.join().unwrap(), if sql.contains("INDEX") { "42704" } else { "" });
        });
        assert_eq!(built, Ok(()), "{sql}");
        let _ = early.execute("DROP TABLE t");
    }
    let mut early = ten(&db);
    early.execute("BEGIN; SELECT count(*) FROM t").unwrap();
    let mut ended = String::new();
    let built = meanwhile(&db, "CREATE INDEX i ON t (b)", |_| {
        assert_eq!(code(&mut early, "CREATE TABLE u (a integer); CREATE INDEX ON u (a)"), "");
        ended = code(&mut early, "CREATE INDEX ON t (b)");
        early.execute("ROLLBACK").unwrap();
    });
    assert_eq!((ended.as_str(), built), ("40P01", Ok(())));
}

/// A snapshot that is older than the index reads through it what it would read without.
#[test]
fn older_snapshots_find_their_versions_through_the_index() {
    let (_folder, db) = open();
    let mut s = ten(&db);
    let mut old = db.session();
    old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").unwrap();
    s.execute(
        "UPDATE t SET b = b + 100 WHERE a < 4; DELETE FROM t WHERE a = 4; INSERT INTO t VALUES (12, 12)",
    )
    .unwrap();
    s.execute("CREATE INDEX i ON t (b); UPDATE t SET b = b + 100 WHERE a = 5").unwrap();
    assert!(plan(&mut old, "SELECT a FROM t WHERE b = 2").contains("Index"));
    for b in 1..=12 {
        let n = count(&mut old, &format!("SELECT count(*) FROM t WHERE b = {b}"));
        assert_eq!(n, (b <= 10) as i64, "{b}");
        let n = count(&mut s, &format!("SELECT count(*) FROM t WHERE b = {b}"));
        assert_eq!(n, ((6..=10).contains(&b) || b == 12) as i64, "{b}");
    }
}

#[test]
fn concurrently_is_taken_outside_a_block_only() {
    let (_folder, db) = open();
    let mut s = ten(&db);
    s.execute("CREATE INDEX CONCURRENTLY i ON t (b)").unwrap();
    let e = s.execute("BEGIN; CREATE INDEX CONCURRENTLY j ON t (b)").unwrap_err();
    assert_eq!(
        (e.sqlstate(), e.0.message.as_str()),
        ("25001", "CREATE INDEX CONCURRENTLY cannot run inside a transaction block")
    );
    assert_eq!(code(&mut s, "SELECT 1"), "25P02");
    // In a block an index is made with the other changes, or not at all.
    s.execute("ROLLBACK; BEGIN; UPDATE t SET b = 50 WHERE a = 5; CREATE INDEX j ON t (a, b); ROLLBACK")
        .unwrap();
    assert_eq!(s.catalog().table("t").unwrap().indexes.len(), 1);
    s.execute("BEGIN; UPDATE t SET b = 50 WHERE a = 5; CREATE INDEX j ON t (a, b); COMMIT").unwrap();
    assert_eq!(count(&mut s, "SELECT b::bigint FROM t WHERE a = 5 AND b = 50"), 50);
}
