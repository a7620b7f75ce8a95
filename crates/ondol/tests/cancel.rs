//! What cancelling breaks off, and what it does not; data definition that waits for its turn.
use ondol::{Database, Session, TempFolder};
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
/// Runs the statement in another session, and `f` when it has begun to wait.
fn meanwhile(db: &Database, sql: &'static str, f: impl FnOnce(&ondol::Canceller)) -> (String, Session) {
    let mut other = db.session();
    let canceller = other.canceller();
    let waiting = thread::spawn(move || {
        let code = code(&mut other, sql);
        (code, other)
    });
    thread::sleep(Duration::from_millis(300));
    assert!(!waiting.is_finished(), "{sql}");
    f(&canceller);
    waiting.join().unwrap()
}

#[test]
fn a_wait_for_a_lock_is_cancelled_and_fails_its_transaction() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute("CREATE TABLE t (a integer PRIMARY KEY); INSERT INTO t VALUES (1); BEGIN; DELETE FROM t")
        .unwrap();
    for sql in ["BEGIN; DELETE FROM t", "BEGIN; INSERT INTO t VALUES (1)", "BEGIN; DROP TABLE t"] {
        let (ended, mut other) = meanwhile(&db, sql, |c| c.cancel());
        assert_eq!(ended, "57014", "{sql}");
        assert_eq!(code(&mut other, "SELECT 1"), "25P02");
        assert_eq!(code(&mut other, "ROLLBACK; SELECT 1"), "");
    }
    // Who waits for a definition.
    s.execute("ROLLBACK; BEGIN; DROP TABLE t").unwrap();
    let (ended, _) = meanwhile(&db, "SELECT * FROM t", |c| c.cancel());
    assert_eq!(ended, "57014");
    s.execute("ROLLBACK; DELETE FROM t").unwrap();
}

#[test]
fn who_is_told_of_a_cancellation_changed_nothing() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute("CREATE TABLE t (a integer PRIMARY KEY)").unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let (canceller, theirs) = (s.canceller(), over.clone());
    let canceling = thread::spawn(move || {
        while !theirs.load(Ordering::Relaxed) {
            canceller.cancel();
            thread::yield_now()
        }
    });
    let mut done = vec![];
    for a in 0..300i64 {
        // Long enough to be met while it runs, and durable when it is not.
        match s.execute(&format!(
            "INSERT INTO t SELECT {a} FROM generate_series(1, {}) n HAVING count(n) > 0",
            a * 7
        )) {
            Ok(o) if o[0].tag == "INSERT 0 1" => done.push(a),
            Ok(o) => assert_eq!(o[0].tag, "INSERT 0 0"),
            Err(e) => assert_eq!(e.sqlstate(), "57014"),
        }
    }
    over.store(true, Ordering::Relaxed);
    canceling.join().unwrap();
    let rows = s.query("SELECT a FROM t ORDER BY a", &[]).unwrap();
    let there: Vec<i64> = rows.iter().map(|r| r.get::<i32>(0).unwrap().into()).collect();
    assert_eq!(there, done);
    assert!(!done.is_empty() && done.len() < 299, "{} of 300 were not met", done.len());
}

/// A statement is bound to the definitions that are there when its turn comes.
#[test]
fn definitions_changed_while_one_waits_are_seen() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute("CREATE TABLE t (a integer, b text); BEGIN; DROP TABLE t; CREATE TABLE t (b text, a integer)")
        .unwrap();
    let (ended, _) = meanwhile(&db, "CREATE INDEX i ON t (a)", |_| s.execute("COMMIT").map(drop).unwrap());
    assert_eq!(ended, "");
    assert_eq!(s.catalog().table("t").unwrap().indexes[0].def.columns[0].column, 1);
    s.execute("BEGIN; DROP TABLE t").unwrap();
    let (ended, _) = meanwhile(&db, "CREATE INDEX j ON t (a)", |_| s.execute("COMMIT").map(drop).unwrap());
    assert_eq!(ended, "42P01");
}
