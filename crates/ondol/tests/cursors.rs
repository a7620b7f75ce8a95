//! Cursors: what they see, what they hold, and what closes them.
mod common;
#[path = "common/told.rs"]
mod told;
use common::{Random, open};
use ondol::{
    Cursor, Database, Isolation, MemoryKind, Output, Row, Rows, Session, TempFolder, ValueRef, params,
};
use std::time::{Duration, Instant};
use told::Told;

fn table(rows: u32) -> (TempFolder, Database, Session) {
    let (folder, db) = open(256);
    let mut s = db.session();
    s.execute("CREATE TABLE t (a integer PRIMARY KEY, b text, n bigint NOT NULL DEFAULT 0)").unwrap();
    s.execute("CREATE INDEX t_n ON t (n)").unwrap();
    let insert = "INSERT INTO t SELECT i, 'row ' || i, i % 10 FROM generate_series(1, $1) AS g(i)";
    s.query(insert, &params![rows as i32]).unwrap();
    (folder, db, s)
}

fn texts(rows: &Rows) -> Vec<String> {
    rows.iter().map(|r| r.values().map(|v| v.to_owned().to_string()).collect::<Vec<_>>().join(",")).collect()
}
/// All that is left, fetched so many rows at a time.
fn rest(s: &mut Session, cursor: &mut Cursor, each: usize) -> ondol::Result<Vec<String>> {
    let (mut rows, mut all) = (Rows::new(), vec![]);
    while s.fetch(cursor, each, &mut rows)? > 0 {
        assert!(rows.len() <= each);
        all.append(&mut texts(&rows))
    }
    assert!(cursor.is_done());
    Ok(all)
}
fn now(s: &mut Session, sql: &str) -> Vec<String> {
    texts(&s.query(sql, &[]).unwrap().into_rows())
}
fn code<T>(done: ondol::Result<T>) -> String {
    done.map_or_else(|e| e.sqlstate().to_string(), |_| String::new())
}

const QUERIES: &[&str] = &[
    "SELECT * FROM t",
    "SELECT * FROM t ORDER BY a",
    "SELECT * FROM t ORDER BY n DESC, a",
    "SELECT a, n FROM t WHERE n BETWEEN 2 AND 6 ORDER BY n, a",
    "SELECT a FROM t WHERE n = 3",
    "SELECT b FROM t WHERE a = 17",
    "SELECT x.a, y.b FROM t x JOIN t y ON y.a = x.n + 1",
    "SELECT n, count(*), min(b) FROM t GROUP BY n ORDER BY n",
    "SELECT DISTINCT n % 3 FROM t",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE u.n = t.a) ORDER BY a LIMIT 20 OFFSET 2",
    "SELECT a FROM t UNION ALL SELECT n FROM t",
    "WITH x AS MATERIALIZED (SELECT a, b FROM t) SELECT * FROM x WHERE a > (SELECT avg(n) FROM t)",
    "SELECT a, (SELECT count(*) FROM t u WHERE u.n = t.n) FROM t",
];

/// Cursors that were opened at any moment give what a query gave at that moment, whatever the transaction
/// itself, or others, did afterwards.
#[test]
fn a_cursor_gives_what_there_was_when_it_was_opened() {
    let levels = [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];
    for seed in 1..=24 {
        let mut r = Random(seed);
        let (_folder, db, mut s) = table(60);
        let mut other = db.session();
        // Rows that the transaction only reads: nobody waits for the other, or is refused because of it.
        other
            .execute("INSERT INTO t SELECT i, 'theirs', i % 10 FROM generate_series(1001, 1030) AS g(i)")
            .unwrap();
        s.begin(levels[seed as usize % 3]).unwrap();
        let mut open: Vec<(Cursor, usize, Vec<String>, Vec<String>)> = vec![];
        let mut savepoints = 0;
        let (mut whole, mut others) = (0, 0);
        for _ in 0..200 {
            let k = 1 + r.below(80) as i32;
            match r.below(20) {
                0..4 => {
                    let q = r.below(QUERIES.len() as u64) as usize;
                    let cursor = s.open(QUERIES[q], &[]).unwrap();
                    open.push((cursor, savepoints, now(&mut s, QUERIES[q]), vec![]))
                }
                4..9 => {
                    let sql =
                        "UPDATE t SET n = (n + $2) % 10, b = b || '+' WHERE a % 7 = $1 % 7 AND a < 1000";
                    drop(s.query(sql, &params![k, k]).unwrap())
                }
                9 => drop(s.query("DELETE FROM t WHERE a = $1", &params![k]).unwrap()),
                10 => {
                    let sql =
                        "INSERT INTO t SELECT $1, 'new', 3 WHERE NOT EXISTS (SELECT 1 FROM t WHERE a = $1)";
                    drop(s.query(sql, &params![k]).unwrap())
                }
                11 => {
                    s.savepoint("s").unwrap();
                    savepoints += 1
                }
                12 if savepoints > 0 => {
                    s.rollback_to("s").unwrap();
                    // Those that were opened in it are gone.
                    for (mut cursor, at, ..) in open.extract_if(.., |o| o.1 >= savepoints) {
                        assert!(s.fetch(&mut cursor, 1, &mut Rows::new()).is_err());
                        s.rollback_to("s").unwrap();
                        assert!(at >= savepoints)
                    }
                }
                13 if savepoints > 0 => {
                    s.release("s").unwrap();
                    savepoints -= 1;
                    open.iter_mut().for_each(|o| o.1 = o.1.min(savepoints))
                }
                14..16 => {
                    let sql = "UPDATE t SET n = n + 1, b = b || '!' WHERE a = $1";
                    other.query(sql, &params![1000 + k]).unwrap();
                    let sql = "DELETE FROM t WHERE a = 1000 + $1; INSERT INTO t VALUES (1000 + $1, 'again', $1 % 10)";
                    sql.split("; ").for_each(|sql| drop(other.query(sql, &params![k + 10]).unwrap()));
                    others += 1
                }
                _ if open.is_empty() => {}
                _ => {
                    let i = r.below(open.len() as u64) as usize;
                    let mut rows = Rows::new();
                    let (cursor, _, wanted, found) = &mut open[i];
                    let most = r.below(9) as usize;
                    let n = s.fetch(cursor, most, &mut rows).unwrap();
                    assert!(n == rows.len() && n <= most);
                    found.append(&mut texts(&rows));
                    assert_eq!(found[..], wanted[..found.len()], "seed {seed}");
                    if n < most {
                        assert!(cursor.is_done());
                        assert_eq!(found, wanted, "seed {seed}");
                        open.swap_remove(i);
                        whole += 1
                    }
                }
            }
        }
        for (mut cursor, _, wanted, mut found) in open {
            found.append(&mut rest(&mut s, &mut cursor, 7).unwrap());
            assert_eq!(found, wanted, "seed {seed}");
            whole += 1
        }
        assert!(whole > 5 && others > 0, "seed {seed}: {whole} cursors, {others} changes of others");
        s.rollback()
    }
}

fn versions(db: &Database) -> u64 {
    db.memory().of(MemoryKind::Versions).map(|p| p.entries).sum()
}

#[test]
fn collection_keeps_what_a_cursor_needs_and_takes_it_afterwards() {
    for level in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let (_folder, db, mut s) = table(1000);
        let (mut writer, wanted) = (db.session(), now(&mut s, "SELECT * FROM t"));
        s.begin(level).unwrap();
        let mut cursor = s.open("SELECT * FROM t", &[]).unwrap();
        let mut rows = Rows::new();
        s.fetch(&mut cursor, 10, &mut rows).unwrap();
        let mut found = texts(&rows);
        for _ in 0..30 {
            writer.execute("UPDATE t SET n = n + 1, b = 'changed' WHERE a % 2 = 0").unwrap();
            writer.execute("DELETE FROM t WHERE a % 3 = 0; INSERT INTO t SELECT i * 3, 'again' FROM generate_series(1, 333) AS g(i)").unwrap();
            // Its own snapshot moves on, at READ COMMITTED.
            s.query("SELECT count(*) FROM t", &[]).unwrap();
        }
        // A pass of the collector, and what it left for the open cursor.
        std::thread::sleep(Duration::from_millis(300));
        assert!(versions(&db) >= 300, "{} versions", versions(&db));
        found.append(&mut rest(&mut s, &mut cursor, 100).unwrap());
        assert_eq!(found, wanted);
        if level == Isolation::ReadCommitted {
            // All was read: the snapshot is given back, though cursor and transaction are open.
            s.query("SELECT 1", &[]).unwrap();
            all_collected(&db)
        }
        drop(cursor);
        s.commit().unwrap();
        all_collected(&db)
    }
}

fn all_collected(db: &Database) {
    let start = Instant::now();
    while versions(db) > 0 {
        assert!(start.elapsed() < Duration::from_secs(20), "{} versions stay", versions(db));
        std::thread::sleep(Duration::from_millis(10))
    }
}

#[test]
fn closing_or_dropping_a_cursor_or_its_session_frees_its_snapshot() {
    let (_folder, db, mut s) = table(1000);
    let mut writer = db.session();
    for way in 0..5 {
        s.begin(Isolation::ReadCommitted).unwrap();
        let cursor = s.open("SELECT * FROM t", &[]).unwrap();
        s.execute("DECLARE c CURSOR FOR SELECT * FROM t").unwrap();
        writer.execute("UPDATE t SET n = n + 1; UPDATE t SET n = n + 1").unwrap();
        s.query("SELECT 1", &[]).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        assert!(versions(&db) >= 1000, "way {way}");
        match way {
            0 => {
                cursor.close();
                s.execute("CLOSE c").unwrap()
            }
            1 => {
                drop(cursor);
                s.execute("CLOSE ALL").unwrap()
            }
            2 => {
                // The handle outlives them.
                drop(std::mem::replace(&mut s, db.session()));
                all_collected(&db);
                assert_eq!(code(s.fetch(&mut { cursor }, 1, &mut Rows::new())), "34000");
                continue;
            }
            3 => {
                s.rollback();
                all_collected(&db);
                let mut cursor = cursor;
                assert_eq!(code(s.fetch(&mut cursor, 1, &mut Rows::new())), "34000");
                continue;
            }
            _ => {
                s.execute("SELECT 1 / 0").unwrap_err();
                // A failed transaction needs nothing any more.
                all_collected(&db);
                assert_eq!(code(s.execute("FETCH c")), "25P02");
                s.rollback();
                continue;
            }
        };
        all_collected(&db);
        s.rollback()
    }
}

#[test]
fn a_fetch_that_fails_fails_its_transaction_and_its_cursor_alone() {
    let (_folder, _db, mut s) = table(20);
    let mut rows = Rows::new();
    let mut t = s.transaction().unwrap();
    let mut bad = t.open("SELECT 10 / (5 - a) FROM t ORDER BY a", &[]).unwrap();
    let mut good = t.open("SELECT a FROM t ORDER BY a", &[]).unwrap();
    Session::savepoint(&mut t, "s").unwrap();
    assert_eq!(t.fetch(&mut bad, 2, &mut rows).unwrap(), 2);
    assert_eq!(code(t.fetch(&mut bad, 9, &mut rows)), "22012");
    assert!(t.is_failed());
    assert_eq!(code(t.fetch(&mut good, 1, &mut rows)), "25P02");
    t.rollback_to("s").unwrap();
    assert_eq!(t.fetch(&mut good, 1, &mut rows).unwrap(), 1);
    assert_eq!(code(t.fetch(&mut bad, 1, &mut rows)), "55000");
    t.rollback_to("s").unwrap();
    // An error of whoever takes the rows.
    struct Full;
    impl Output for Full {
        fn row(&mut self, _: Row<'_>) -> ondol::Result<()> {
            Err(ondol::Error::new("53100", "no room"))
        }
    }
    assert_eq!(code(t.fetch_into(&mut good, None, &mut Full)), "53100");
    t.rollback_to("s").unwrap();
    assert_eq!(code(t.fetch(&mut good, 1, &mut rows)), "55000");
    t.rollback();
    assert_eq!(now(&mut s, "SELECT count(*) FROM t"), ["20"]);
}

#[test]
fn cancel_and_timeout_end_a_fetch() {
    let (_folder, _db, mut s) = table(1);
    let endless =
        "SELECT n FROM generate_series(1, 1000000000000) AS g(n) WHERE n % 100 = 0 AND n > 5000000000";
    let mut rows = Rows::new();
    s.begin(Isolation::ReadCommitted).unwrap();
    s.savepoint("s").unwrap();
    let mut cursor = s.open(endless, &[]).unwrap();
    s.execute("SET statement_timeout = '50ms'").unwrap();
    let e = s.fetch(&mut cursor, 1, &mut rows).unwrap_err();
    assert_eq!(
        (e.sqlstate(), e.0.message.as_str()),
        ("57014", "canceling statement due to statement timeout")
    );
    s.rollback();
    s.begin(Isolation::ReadCommitted).unwrap();
    s.execute(&format!("DECLARE c CURSOR FOR {endless}")).unwrap();
    let canceller = s.canceller();
    let waker = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        canceller.cancel()
    });
    let e = s.execute("FETCH c").unwrap_err();
    waker.join().unwrap();
    assert_eq!((e.sqlstate(), e.0.message.as_str()), ("57014", "canceling statement due to user request"));
    assert!(s.is_failed());
    s.rollback();
    // A timeout while the rows of one WITH HOLD are gathered is the commit's.
    s.begin(Isolation::ReadCommitted).unwrap();
    s.execute("INSERT INTO t VALUES (2)").unwrap();
    s.execute(&format!("DECLARE c CURSOR WITH HOLD FOR {endless}; SET LOCAL statement_timeout = '50ms'"))
        .unwrap();
    assert_eq!(code(s.execute("COMMIT")), "57014");
    assert!(!s.in_transaction());
    assert_eq!(now(&mut s, "SELECT a FROM t"), ["1"]);
}

#[test]
fn definitions_elsewhere_wait_for_an_open_cursor() {
    for level in [Isolation::ReadCommitted, Isolation::Serializable] {
        let (_folder, db, mut s) = table(100);
        let mut definer = db.session();
        definer.execute("SET lock_timeout = '30ms'").unwrap();
        let mut t = s.transaction_with(ondol::TransactionOptions::new().isolation(level)).unwrap();
        let mut cursor = t.open("SELECT a FROM t", &[]).unwrap();
        // Also after statements that do not use the table, and a rollback to a savepoint.
        t.execute("SAVEPOINT s; SELECT 1").unwrap();
        t.rollback_to("s").unwrap();
        for sql in ["DROP TABLE t", "TRUNCATE t", "DROP INDEX t_n", "ALTER TABLE t ADD UNIQUE (b)"] {
            assert_eq!(code(definer.execute(sql)), "55P03", "{sql}");
        }
        assert_eq!(rest(&mut t, &mut cursor, 9).unwrap().len(), 100);
        assert_eq!(code(definer.execute("DROP TABLE t")), "55P03");
        drop(cursor);
        t.rollback();
        definer.execute("DROP TABLE t").unwrap();
    }
}

#[test]
fn what_a_serializable_transaction_reads_through_a_cursor_counts() {
    let (_folder, db, mut s) = table(0);
    s.execute("INSERT INTO t VALUES (1, 'x', 1), (2, 'x', 1)").unwrap();
    let mut other = db.session();
    let reads = ["SELECT sum(n) FROM t", "SELECT n FROM t WHERE n >= 1", "SELECT n FROM t WHERE a = 2"];
    for read in reads {
        s.execute("UPDATE t SET n = 1").unwrap();
        for (s, key) in [(&mut s, 1), (&mut other, 2)] {
            s.begin(Isolation::Serializable).unwrap();
            let read = read.replace("a = 2", &format!("a = {}", 3 - key));
            let mut cursor = s.open(&read, &[]).unwrap();
            // The read comes after other statements, as does the write after it.
            s.query("SELECT 1", &[]).unwrap();
            rest(s, &mut cursor, 1).unwrap();
            s.query("UPDATE t SET n = 0 WHERE a = $1", &params![key]).unwrap();
        }
        // Which of the two it is, is the index's business: an entry that the other made may count already.
        let ends = [code(s.commit()), code(other.commit())];
        assert!(ends.iter().any(|e| e == "40001"), "{read}: {ends:?}");
    }
}

#[test]
fn thousands_of_cursors_are_open_at_a_time() {
    const MANY: usize = 4000;
    let (_folder, db, mut s) = table(50);
    let mut writer = db.session();
    let find = s.prepare("SELECT a FROM t WHERE a >= $1 ORDER BY a").unwrap();
    s.begin(Isolation::ReadCommitted).unwrap();
    let mut cursors: Vec<Cursor> = (0..MANY)
        .map(|i| {
            if i % 500 == 0 {
                writer.query("UPDATE t SET b = $1", &params![i as i32]).unwrap();
            }
            s.open_prepared(&find, &[ValueRef::Int4(1 + (i % 40) as i32)]).unwrap()
        })
        .collect();
    let mut rows = Rows::new();
    for at in 0..3 {
        for (i, c) in cursors.iter_mut().enumerate() {
            assert_eq!(s.fetch(c, 1, &mut rows).unwrap(), 1);
            assert_eq!(rows.row(0).get::<i32>(0).unwrap() as usize, 1 + i % 40 + at);
        }
    }
    let open = db.memory().used;
    cursors.truncate(10);
    for mut c in cursors {
        assert!(rest(&mut s, &mut c, 100).unwrap().len() >= 7);
    }
    s.execute("UPDATE t SET n = 0").unwrap();
    s.commit().unwrap();
    all_collected(&db);
    assert!(db.memory().used <= open + (1 << 20));
}

#[test]
fn statements_that_write_are_run_whole_at_the_first_fetch() {
    let (_folder, db, mut s) = table(0);
    let mut other = db.session();
    other.execute("SET lock_timeout = '1ms'").unwrap();
    let mut t = s.transaction().unwrap();
    let insert = "INSERT INTO t SELECT i FROM generate_series(1, $1) AS g(i) RETURNING a";
    let mut cursor = t.open(insert, &params![5]).unwrap();
    assert_eq!(now(&mut t, "SELECT count(*) FROM t"), ["0"], "it has not run");
    let mut told = Told::default();
    assert_eq!(t.fetch_into(&mut cursor, Some(2), &mut told).unwrap(), 2);
    assert_eq!(now(&mut t, "SELECT count(*) FROM t"), ["5"], "it has run");
    assert_eq!(t.fetch_into(&mut cursor, None, &mut told).unwrap(), 3);
    assert_eq!(told.0, ["a", "1", "2", "a", "3", "4", "5", "INSERT 0 5"]);
    let mut update = t.open("UPDATE t SET n = 7 WHERE a > 3", &[]).unwrap();
    let mut told = Told::default();
    assert_eq!(t.fetch_into(&mut update, Some(1), &mut told).unwrap(), 0);
    assert_eq!(told.0, ["UPDATE 2"]);
    t.commit().unwrap();
    let mut t = s.transaction().unwrap();
    // One that is closed before it ran does nothing, nor does one whose plan is stale by then.
    let mut gone = t.open("DELETE FROM t", &[]).unwrap();
    t.execute("CREATE TABLE u (a integer); SAVEPOINT s").unwrap();
    t.open("DELETE FROM t", &[]).unwrap().close();
    assert_eq!(t.fetch_into(&mut gone, None, &mut Told::default()).unwrap(), 0);
    assert_eq!(now(&mut t, "SELECT count(*) FROM t"), ["0"]);
    t.rollback();
    // A reader may not write through one either.
    let mut t = s.transaction_with(ondol::TransactionOptions::new().read_only(true)).unwrap();
    let mut cursor = t.open("DELETE FROM t", &[]).unwrap();
    assert_eq!(code(t.fetch(&mut cursor, 1, &mut Rows::new())), "25006");
}

#[test]
fn misuse_is_told() {
    let (_folder, db, mut s) = table(3);
    let mut rows = Rows::new();
    assert_eq!(code(s.open("SELECT a FROM t", &[])), "25P01");
    s.begin(Isolation::ReadCommitted).unwrap();
    let mut other = db.session();
    other.begin(Isolation::ReadCommitted).unwrap();
    let mut cursor = s.open("SELECT a FROM t ORDER BY a", &[]).unwrap();
    assert_eq!(code(other.fetch(&mut cursor, 1, &mut rows)), "34000", "another session's");
    other.rollback();
    assert_eq!(s.fetch(&mut cursor, 0, &mut rows).unwrap(), 0);
    assert!(!cursor.is_done());
    assert_eq!(s.fetch(&mut cursor, usize::MAX, &mut rows).unwrap(), 3);
    assert_eq!(s.fetch(&mut cursor, 5, &mut rows).unwrap(), 0);
    for (sql, state) in [
        ("CREATE TABLE u (a integer)", "0A000"),
        ("COMMIT", "0A000"),
        ("SELECT $1::int", "08P01"),
        ("SELEC", "42601"),
    ] {
        s.savepoint("s").unwrap();
        assert_eq!(code(s.open(sql, &[])), state, "{sql}");
        s.rollback_to("s").unwrap();
    }
    let find = s.prepare("SELECT a FROM t WHERE a = $1").unwrap();
    assert_eq!(code(s.open_prepared(&find, &[])), "08P01");
    s.rollback();
    s.begin(Isolation::ReadCommitted).unwrap();
    assert_eq!(code(s.open_prepared(&find, &[ValueRef::Text("1")])), "42804");
    s.rollback();
    s.begin(Isolation::ReadCommitted).unwrap();
    assert_eq!(code(s.fetch(&mut cursor, 1, &mut rows)), "34000", "of an earlier transaction");
}

#[test]
fn what_cursors_keep_is_charged_and_given_back() {
    let (_folder, db) = open(48);
    let mut s = db.session();
    let used = |db: &Database| db.memory().used;
    let before = used(&db);
    let many =
        "SELECT 'a text of forty bytes, more or less, or so ' || n FROM generate_series(1, 3000000) AS g(n)";
    for sql in [
        format!("BEGIN; DECLARE c SCROLL CURSOR FOR {many}; FETCH LAST FROM c"),
        format!("BEGIN; DECLARE c CURSOR WITH HOLD FOR {many}; COMMIT"),
        format!("BEGIN; DECLARE c CURSOR FOR {many} ORDER BY -n; FETCH c"),
    ] {
        assert_eq!(code(s.execute(&sql)), "53200", "{sql}");
        s.rollback();
        assert!(used(&db) <= before + (1 << 20), "{sql}: {} of {before} are left", used(&db));
    }
    // What is small enough stays charged as long as it is kept.
    let some = many.replace("3000000", "100000");
    s.execute(&format!("DECLARE c CURSOR WITH HOLD FOR {some}")).unwrap();
    assert!(used(&db) > before + (4 << 20));
    s.execute("CLOSE c").unwrap();
    assert!(used(&db) <= before + (1 << 20));
}

#[test]
fn a_declared_cursor_takes_parameters() {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path()).unwrap();
    let mut s = db.session();
    s.execute("BEGIN").unwrap();
    let text = "DECLARE c CURSOR FOR SELECT n * $2 FROM generate_series(1, $1) n";
    s.query(text, &ondol::params![3i32, 10i32]).unwrap();
    let rows = s.query("FETCH ALL FROM c", &[]).unwrap();
    let found: Vec<i32> = rows.iter().map(|r| r.get(0).unwrap()).collect();
    assert_eq!(found, [10, 20, 30]);
    let few = s.query("DECLARE d CURSOR FOR SELECT $1::int", &[]).unwrap_err();
    assert_eq!(few.sqlstate(), "42P02");
}

/// Each row is locked when it is fetched, in its newest version, if that still fulfils the conditions.
#[test]
fn rows_are_locked_as_they_are_fetched() {
    for named in [false, true] {
        let (_folder, db, mut s) = table(6);
        let mut other = db.session();
        other.execute("SET lock_timeout = '1ms'").unwrap();
        let query = "SELECT a, b FROM t WHERE n < 100 ORDER BY a FOR UPDATE";
        s.begin(Isolation::ReadCommitted).unwrap();
        let mut cursor = match named {
            true => {
                s.execute(&format!("DECLARE c CURSOR FOR {query}")).unwrap();
                None
            }
            false => Some(s.open(query, &[]).unwrap()),
        };
        let mut fetch = |s: &mut Session, n: usize| -> ondol::Result<Vec<String>> {
            let mut rows = Rows::new();
            match &mut cursor {
                Some(cursor) => s.fetch(cursor, n, &mut rows).map(|_| texts(&rows)),
                None => s.query(&format!("FETCH {n} c"), &[]).map(|o| texts(&o.into_rows())),
            }
        };
        let change = |s: &mut Session, a: i32| s.query("UPDATE t SET b = 'theirs' WHERE a = $1", &params![a]);
        assert_eq!(fetch(&mut s, 1).unwrap(), ["1,row 1"]);
        assert_eq!(code(change(&mut other, 1)), "55P03");
        // Those that it has not come to are anybody's.
        change(&mut other, 2).unwrap();
        other.execute("UPDATE t SET n = 100 WHERE a = 3; DELETE FROM t WHERE a = 4").unwrap();
        assert_eq!(fetch(&mut s, 1).unwrap(), ["2,theirs"]);
        assert_eq!(code(change(&mut other, 2)), "55P03");
        change(&mut other, 5).unwrap();
        assert_eq!(fetch(&mut s, 1).unwrap(), ["5,theirs"]);
        // What a savepoint's rollback lets go is let go, and the cursor goes on.
        s.savepoint("s").unwrap();
        assert_eq!(fetch(&mut s, 1).unwrap(), ["6,row 6"]);
        assert_eq!(code(change(&mut other, 6)), "55P03");
        s.rollback_to("s").unwrap();
        change(&mut other, 6).unwrap();
        assert_eq!(code(change(&mut other, 5)), "55P03");
        assert_eq!(fetch(&mut s, 5).unwrap(), [""; 0]);
        s.commit().unwrap();
        change(&mut other, 1).unwrap();
    }
}

/// A locking cursor above READ COMMITTED refuses what has changed, and waits where it has to.
#[test]
fn a_locking_cursor_conflicts_and_waits_as_a_statement_does() {
    let (_folder, db, mut s) = table(3);
    let mut other = db.session();
    for level in [Isolation::RepeatableRead, Isolation::Serializable] {
        s.begin(level).unwrap();
        s.execute("DECLARE c CURSOR FOR SELECT a FROM t ORDER BY a FOR NO KEY UPDATE; FETCH c").unwrap();
        other.execute("UPDATE t SET b = b || '+' WHERE a = 2").unwrap();
        assert_eq!(code(s.execute("FETCH c")), "40001");
        s.rollback();
    }
    other.begin(Isolation::ReadCommitted).unwrap();
    other.execute("UPDATE t SET b = 'waited for' WHERE a = 2").unwrap();
    s.begin(Isolation::ReadCommitted).unwrap();
    s.execute("DECLARE c CURSOR FOR SELECT a, b FROM t ORDER BY a FOR UPDATE; FETCH c").unwrap();
    let waits = s.waiter();
    std::thread::scope(|scope| {
        let fetch = scope.spawn(|| now(&mut s, "FETCH c"));
        while !waits.is_waiting() {
            std::thread::yield_now()
        }
        other.commit().unwrap();
        assert_eq!(fetch.join().unwrap(), ["2,waited for"]);
    });
    s.rollback();
    // A transaction that only reads locks nothing.
    let mut t = s.transaction_with(ondol::TransactionOptions::new().read_only(true)).unwrap();
    assert_eq!(code(t.execute("DECLARE c CURSOR FOR SELECT a FROM t FOR SHARE")), "25006");
}

/// WHERE CURRENT OF changes the newest version of the row that the cursor stands on, or nothing if that is
/// gone, also when its place was taken by another.
#[test]
fn current_of_finds_the_row_or_nothing() {
    for (n, declare) in ["", "SCROLL", "NO SCROLL"].into_iter().enumerate() {
        let (_folder, db, mut s) = table(40);
        let mut other = db.session();
        s.begin(Isolation::ReadCommitted).unwrap();
        s.execute(&format!("DECLARE c {declare} CURSOR FOR SELECT a, b FROM t WHERE a > 0; FETCH 3 c"))
            .unwrap();
        let here = now(&mut s, "SELECT a FROM t WHERE a = 3");
        assert_eq!(here, ["3"]);
        other.execute("UPDATE t SET b = 'newer', n = 77 WHERE a = 3").unwrap();
        let update = "UPDATE t SET b = b || '!' WHERE CURRENT OF c RETURNING a, b, n";
        assert_eq!(now(&mut s, update), ["3,newer!,77"]);
        assert_eq!(now(&mut s, update), ["3,newer!!,77"]);
        assert_eq!(now(&mut s, "FETCH c"), ["4,row 4"]);
        // Others take the row away, and many come to take its place.
        other.execute("DELETE FROM t WHERE a = 4").unwrap();
        for _ in 0..50 {
            other
                .execute(
                    "INSERT INTO t SELECT i FROM generate_series(100, 140) i; DELETE FROM t WHERE a > 99",
                )
                .unwrap();
        }
        other.execute("INSERT INTO t SELECT i FROM generate_series(100, 300) i").unwrap();
        assert_eq!(now(&mut s, update), [""; 0]);
        assert_eq!(now(&mut s, "DELETE FROM t WHERE CURRENT OF c RETURNING a"), [""; 0]);
        if n < 2 {
            // Also when it was read to its end.
            s.execute("FETCH ALL c; FETCH PRIOR c").unwrap();
            other.execute("DELETE FROM t WHERE a = 40").unwrap();
            for _ in 0..50 {
                other.execute("INSERT INTO t SELECT i FROM generate_series(400, 440) i; DELETE FROM t WHERE a > 399").unwrap();
            }
            other.execute("INSERT INTO t SELECT i FROM generate_series(400, 600) i").unwrap();
            assert_eq!(now(&mut s, update), [""; 0]);
            s.execute("FETCH PRIOR c").unwrap();
            assert_eq!(now(&mut s, update), ["39,row 39!,9"]);
        }
        s.commit().unwrap();
        all_collected(&db);
        let (sum, theirs) =
            ("SELECT count(*) FROM t WHERE b LIKE '%!%'", "SELECT count(*) FROM t WHERE a >= 100");
        assert_eq!(now(&mut s, sum), [if n < 2 { "2" } else { "1" }]);
        assert_eq!(now(&mut s, theirs), [if n < 2 { "402" } else { "201" }]);
    }
    // Above READ COMMITTED what others have changed is a conflict.
    let (_folder, db, mut s) = table(4);
    let mut other = db.session();
    s.begin(Isolation::RepeatableRead).unwrap();
    s.execute("DECLARE c CURSOR FOR SELECT a FROM t; FETCH c").unwrap();
    other.execute("UPDATE t SET b = 'newer'").unwrap();
    assert_eq!(code(s.execute("UPDATE t SET b = 'x' WHERE CURRENT OF c")), "40001");
    s.rollback()
}

/// A cursor without SCROLL gives the same rows when it goes back, whatever was changed since.
#[test]
fn going_back_gives_the_rows_that_were_fetched() {
    for seed in 1..=12 {
        let mut r = Random(seed);
        let (_folder, db, mut s) = table(30);
        let mut other = db.session();
        let queries = [
            "SELECT * FROM t",
            "SELECT * FROM t WHERE n BETWEEN 2 AND 6 ORDER BY n, a",
            "SELECT a FROM t ORDER BY b DESC",
            "SELECT a, n FROM t UNION ALL SELECT n, a FROM t WHERE a < 9",
            "SELECT a, (SELECT max(n) FROM t u WHERE u.a < t.a) FROM t",
        ];
        let query = queries[r.below(5) as usize];
        s.begin(Isolation::ReadCommitted).unwrap();
        let wanted = now(&mut s, query);
        s.execute(&format!("DECLARE c CURSOR FOR {query}")).unwrap();
        let mut place = 0;
        for _ in 0..60 {
            let n = 1 + r.below(7) as usize;
            match r.below(6) {
                0 => drop(
                    s.query("UPDATE t SET n = n + 1, b = 'mine' WHERE a % 3 = $1", &params![n as i32 % 3])
                        .unwrap(),
                ),
                1 => drop(other.execute(&format!(
                    "INSERT INTO t VALUES ({}, 'theirs')",
                    1000 + place * 100 + r.below(99) as usize
                ))),
                2 | 3 => {
                    let end = (place + n).min(wanted.len());
                    assert_eq!(
                        now(&mut s, &format!("FETCH {n} c")),
                        wanted[place.min(end)..end],
                        "seed {seed}"
                    );
                    place = if place + n > wanted.len() { wanted.len() + 1 } else { place + n }
                }
                _ => {
                    // Before the row on which it stands.
                    let from = place.saturating_sub(1);
                    let mut back: Vec<String> = wanted[from.saturating_sub(n)..from].to_vec();
                    back.reverse();
                    assert_eq!(now(&mut s, &format!("FETCH BACKWARD {n} c")), back, "seed {seed}");
                    place = (from + 1).saturating_sub(n);
                }
            }
        }
        s.rollback()
    }
}
