//! What waits: cancelled, or carried out on what is there when its turn comes.
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

/// A number means one statement: the one that runs or waits, not the one before or after it.
#[test]
fn a_statement_is_cancelled_by_its_number() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute("CREATE TABLE t (a integer PRIMARY KEY); INSERT INTO t VALUES (1); BEGIN; DELETE FROM t")
        .unwrap();
    let by_number = |c: &ondol::Canceller| {
        let now = c.statement();
        assert!(!c.cancel_only(now - 1) && !c.cancel_only(now + 1) && !c.was_cancelled());
        assert!(c.cancel_only(now) && c.was_cancelled())
    };
    let (ended, mut other) = meanwhile(&db, "SELECT 1; SELECT * FROM t FOR UPDATE", by_number);
    assert_eq!(ended, "57014");
    let canceller = other.canceller();
    let late = canceller.statement();
    assert!(canceller.cancel_only(late), "told, though it is over");
    assert_eq!(code(&mut other, "SELECT 1; SELECT 2"), "");
    assert!(!canceller.cancel_only(late) && canceller.statement() == late + 2);
    let endless = "SELECT count(*) FROM generate_series(1, 1000000000000)";
    let (ended, _) = meanwhile(&db, endless, by_number);
    assert_eq!(ended, "57014");
    s.execute("ROLLBACK").unwrap();
}

#[test]
fn a_late_cancel_ends_no_later_statement() {
    let (_folder, db) = open();
    let mut s = db.session();
    let (canceller, over) = (s.canceller(), AtomicBool::new(false));
    let ended = thread::scope(|scope| {
        let (theirs, is_over) = (canceller.clone(), &over);
        let teller = scope.spawn(move || {
            let mut told = std::collections::BTreeSet::new();
            for late in (0..30).cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
                let statement = theirs.statement();
                thread::sleep(Duration::from_micros(late * late / 4));
                if theirs.cancel_only(statement) {
                    told.insert(statement);
                }
            }
            told
        });
        let mut ended = vec![];
        for n in 0..3000 {
            let sql = format!("SELECT count(*) FROM generate_series(1, {})", n % 40 * 200);
            match s.query(&sql, &[]) {
                Ok(_) => {}
                Err(e) => {
                    assert_eq!(e.sqlstate(), "57014", "{e}");
                    ended.push(canceller.statement())
                }
            }
        }
        over.store(true, Ordering::Relaxed);
        let told = teller.join().unwrap();
        assert!(ended.iter().all(|n| told.contains(n)), "ended were {ended:?}, told {told:?}");
        ended
    });
    assert!(!ended.is_empty() && ended.len() < 2999, "{} of 3000 were ended", ended.len());
}

#[test]
fn the_building_of_an_index_is_broken_off() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute(
        "CREATE TABLE t (a integer, b text); INSERT INTO t SELECT n, 'x' FROM generate_series(1, 300000) n",
    )
    .unwrap();
    assert_eq!(code(&mut s, "SET statement_timeout = 20; CREATE INDEX i ON t (b, a)"), "57014");
    assert_eq!(code(&mut s, "SET statement_timeout = 0; CREATE INDEX i ON t (b, a)"), "");
}

#[test]
fn who_is_told_of_a_cancellation_changed_nothing() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute("CREATE TABLE t (a integer PRIMARY KEY)").unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let (canceller, theirs) = (s.canceller(), over.clone());
    let canceling = thread::spawn(move || {
        // After each rest another, so that it meets all that a statement goes through, and sometimes nothing.
        for rest in (0..40).cycle().take_while(|_| !theirs.load(Ordering::Relaxed)) {
            canceller.cancel();
            thread::sleep(Duration::from_micros(rest * rest))
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

/// ALTER TABLE ... ADD PRIMARY KEY makes its columns NOT NULL, which changes how rows lie: none is lost that
/// was committed while it waited, or since the snapshot of its transaction.
#[test]
fn a_primary_key_over_nullable_columns_loses_no_row() {
    let (folder, db) = open();
    let mut s = db.session();
    s.execute(
        "CREATE TABLE t (a integer, b text, c char(3)); CREATE INDEX t_b ON t (b); CREATE UNIQUE INDEX t_a ON t (a);
         INSERT INTO t VALUES (1, 'one', 'x'), (2, 'a text that is too long to lie in its row', NULL), (3, NULL, 'ééé');
         BEGIN; INSERT INTO t VALUES (4, 'four', 'z')",
    )
    .unwrap();
    let wanted = "SELECT a, b, c FROM t ORDER BY a";
    let late = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1; ALTER TABLE t ADD PRIMARY KEY USING INDEX t_a; COMMIT";
    let (ended, mut other) = meanwhile(&db, late, |_| {
        s.execute("UPDATE t SET b = 'eins' WHERE a = 1; COMMIT").unwrap();
    });
    assert_eq!(ended, "");
    let shown = |s: &mut Session, sql: &str| {
        let rows = s.query(sql, &[]).unwrap();
        rows.iter()
            .map(|r| format!("{:?} {:?}", r.get::<i32>(0).unwrap(), r.get::<Option<String>>(1).unwrap()))
            .collect::<Vec<_>>()
    };
    let all = shown(&mut other, wanted);
    assert_eq!(
        all,
        [
            "1 Some(\"eins\")",
            "2 Some(\"a text that is too long to lie in its row\")",
            "3 None",
            "4 Some(\"four\")"
        ]
    );
    assert_eq!(code(&mut other, "INSERT INTO t VALUES (NULL, 'x')"), "23502");
    assert_eq!(code(&mut other, "INSERT INTO t VALUES (4, 'x')"), "23505");
    assert_eq!(shown(&mut other, "SELECT a, b FROM t WHERE b = 'four'"), ["4 Some(\"four\")"]);
    // Undone, it leaves what was.
    other.execute("CREATE TABLE u (a integer); INSERT INTO u VALUES (7); BEGIN; ALTER TABLE u ADD PRIMARY KEY (a); ROLLBACK; INSERT INTO u VALUES (NULL)").unwrap();
    assert_eq!(code(&mut other, "ALTER TABLE u ADD PRIMARY KEY (a)"), "23502");
    assert_eq!(other.query("SELECT a FROM u", &[]).unwrap().len(), 2);
    drop((s, other));
    db.close().unwrap();
    let db = Database::open(folder.path()).unwrap();
    let mut s = db.session();
    assert_eq!(shown(&mut s, wanted), all);
    assert_eq!(code(&mut s, "INSERT INTO t VALUES (NULL, 'x')"), "23502");
}

/// Two names of one row that was changed while the statement waited for it: both show it as it is now.
#[test]
fn a_row_locked_under_two_names_is_one_row() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute("CREATE TABLE t (a integer PRIMARY KEY, v integer, w integer); INSERT INTO t VALUES (1, 10, 0); BEGIN; UPDATE t SET v = 20").unwrap();
    let sql = "BEGIN;
        PREPARE q AS SELECT x.v, y.v FROM t x JOIN t y ON x.a = y.a FOR UPDATE; EXECUTE q";
    let mut other = db.session();
    let waiting = thread::spawn(move || {
        let last = other.execute(sql).unwrap().pop().unwrap().rows.unwrap();
        (last.row(0).get::<i32>(0).unwrap(), last.row(0).get::<i32>(1).unwrap())
    });
    thread::sleep(Duration::from_millis(300));
    assert!(!waiting.is_finished());
    s.execute("COMMIT").unwrap();
    assert_eq!(waiting.join().unwrap(), (20, 20));
}

#[test]
fn a_failed_transaction_gives_back_what_it_holds_at_once() {
    let (_folder, db) = open();
    let (mut a, mut b) = (db.session(), db.session());
    let setup = "CREATE TABLE t (a integer PRIMARY KEY, b integer); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3); SET lock_timeout = 200";
    b.execute(setup).unwrap();
    for error in ["SELECT 1/0", "SELECT nothing", "INSERT INTO t VALUES (2, 0)", "SELECT", "RELEASE nothing"]
    {
        for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
            let sql = format!(
                "BEGIN ISOLATION LEVEL {level}; UPDATE t SET b = 7 WHERE a = 1; INSERT INTO t VALUES (9, 9); SELECT * FROM t FOR SHARE; CREATE TABLE u (a integer)"
            );
            a.execute(&sql).unwrap();
            assert_eq!(code(&mut b, "UPDATE t SET b = 1 WHERE a = 1"), "55P03");
            if error == "SELECT" {
                assert_eq!(code(&mut a, "SELECT FROM"), "42601");
            } else {
                assert_ne!(code(&mut a, error), "");
            }
            assert!(a.is_failed(), "{error}");
            assert_eq!(
                code(
                    &mut b,
                    "UPDATE t SET b = 1 WHERE a = 1; INSERT INTO t VALUES (9, 9); DELETE FROM t WHERE a = 9"
                ),
                "",
                "{error}"
            );
            assert_eq!(code(&mut b, "CREATE TABLE u (a integer); DROP TABLE u"), "", "{error}");
            assert_eq!(code(&mut a, "SELECT 1"), "25P02");
            assert_eq!(code(&mut a, "ROLLBACK TO s"), "3B001");
            assert_eq!(a.execute("COMMIT").unwrap()[0].tag, "ROLLBACK");
        }
    }
    // Back to the newest savepoint: what was before it stays locked.
    a.execute("BEGIN; UPDATE t SET b = 7 WHERE a = 1; SAVEPOINT s; UPDATE t SET b = 7 WHERE a = 2; SAVEPOINT s; UPDATE t SET b = 7 WHERE a = 3; INSERT INTO t VALUES (8, 8)").unwrap();
    assert_eq!(code(&mut a, "SELECT 1/0"), "22012");
    assert_eq!(code(&mut b, "UPDATE t SET b = 30 WHERE a = 3; INSERT INTO t VALUES (8, 80)"), "");
    for held in ["UPDATE t SET b = 0 WHERE a = 1", "UPDATE t SET b = 0 WHERE a = 2"] {
        assert_eq!(code(&mut b, held), "55P03");
    }
    assert_eq!(
        code(&mut a, "ROLLBACK TO s; RELEASE s; UPDATE t SET b = b + 1 WHERE a = 3; SELECT 1/0"),
        "22012"
    );
    assert_eq!(code(&mut b, "UPDATE t SET b = 20 WHERE a = 2"), "");
    assert_eq!(code(&mut a, "ROLLBACK TO s; COMMIT"), "");
    let rows = a.query("SELECT b FROM t ORDER BY a", &[]).unwrap();
    let seen: Vec<i32> = rows.iter().map(|r| r.get(0).unwrap()).collect();
    assert_eq!(seen, [7, 20, 30, 80]);
}
