//! Temporary tables, beyond what a script can show: other sessions, the session's end, a restart, memory.
use ondol::{Database, Session, TempFolder};

fn open(folder: &TempFolder) -> Database {
    Database::open(folder.path().join("db")).expect("a database")
}

fn rows(s: &mut Session, sql: &str) -> Vec<String> {
    let found = s.query(sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e}"));
    found.iter().map(|r| r.values().map(|v| v.to_string()).collect::<Vec<_>>().join("|")).collect()
}

fn run(s: &mut Session, sql: &str) {
    s.execute(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
}

fn state(s: &mut Session, sql: &str) -> String {
    s.execute(sql).err().map_or("nothing".into(), |e| e.sqlstate().to_string())
}

fn used(db: &Database) -> u64 {
    db.session()
        .query("SELECT bytes FROM ondol_memory WHERE name = 'used'", &[])
        .expect("memory")
        .row(0)
        .get::<i64>(0)
        .expect("bytes") as u64
}

#[test]
fn each_session_has_its_own() {
    let folder = TempFolder::new().expect("a folder");
    let db = open(&folder);
    let (mut a, mut b, mut c) = (db.session(), db.session(), db.session());
    run(&mut a, "CREATE TABLE t (v text); INSERT INTO t VALUES ('all')");
    let text = "SELECT v FROM t";
    assert_eq!(rows(&mut c, text), ["all"]);
    run(&mut a, "CREATE TEMP TABLE t (v text PRIMARY KEY); INSERT INTO t VALUES ('a')");
    run(&mut b, "BEGIN; CREATE TEMP TABLE t (v text, w int); INSERT INTO t VALUES ('b')");
    for _ in 0..3 {
        assert_eq!(
            (rows(&mut a, text), rows(&mut b, text), rows(&mut c, text)),
            (vec!["a".into()], vec!["b".into()], vec!["all".into()])
        );
    }
    // Others may define what they will meanwhile.
    run(&mut c, "ALTER TABLE t ADD w int; CREATE TABLE other (a int)");
    run(&mut b, "COMMIT; CREATE INDEX ON t (w)");
    assert_eq!(rows(&mut a, "SELECT v, (SELECT count(*) FROM other) FROM t"), ["a|0"]);
    assert_eq!(rows(&mut b, "SELECT * FROM t, public.t p"), ["b|NULL|all|NULL"]);
    assert_eq!(state(&mut c, "SELECT * FROM pg_temp.t"), "42P01");
    let mut dump = Vec::new();
    a.dump(&mut dump, |_, _| {}).expect("a dump");
    assert!(!String::from_utf8(dump).expect("text").contains("PRIMARY KEY"), "they are not dumped");
    drop(a);
    let mut a = db.session();
    assert_eq!(rows(&mut a, text), ["all"]);
}

#[test]
fn nothing_is_left_of_them() {
    let folder = TempFolder::new().expect("a folder");
    let fill = "CREATE TEMP TABLE t (id int PRIMARY KEY, v text);
        INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 50000) i";
    {
        let db = open(&folder);
        let before = used(&db);
        let mut s = db.session();
        run(&mut s, "CREATE TABLE kept (a int); INSERT INTO kept VALUES (1)");
        run(&mut s, fill);
        assert!(used(&db) > before + (4 << 20), "their memory counts");
        run(&mut s, "CHECKPOINT; DELETE FROM t WHERE id % 2 = 0; UPDATE t SET v = 'y' WHERE id < 100");
        run(&mut s, "BEGIN; INSERT INTO kept VALUES (2); INSERT INTO t VALUES (0, 'zero'); COMMIT");
        assert_eq!(rows(&mut s, "SELECT count(*), sum(id) FROM t"), ["25001|625000000"]);
        // As a crash leaves it: nothing is closed in order while the table is there.
        std::mem::forget(s);
        let copy = TempFolder::new().expect("a folder");
        run(&mut db.session(), "CHECKPOINT");
        copied(&folder.path().join("db"), &copy.path().join("db"));
        let again = open(&copy);
        let mut s = again.session();
        assert_eq!(rows(&mut s, "SELECT * FROM kept ORDER BY a"), ["1", "2"]);
        assert_eq!(state(&mut s, "SELECT * FROM t"), "42P01");
        assert_eq!(rows(&mut s, "SELECT count(*) FROM ondol_tables"), ["1"]);
        // What comes after has the places that they had.
        run(&mut s, fill);
        run(&mut s, "CREATE TABLE more AS SELECT * FROM t; CHECKPOINT");
        drop(s);
        drop(again);
        let again = open(&copy);
        assert_eq!(rows(&mut again.session(), "SELECT count(*) FROM more"), ["50000"]);
    }
}

#[test]
fn memory_is_given_back_at_the_sessions_end() {
    let folder = TempFolder::new().expect("a folder");
    let db = open(&folder);
    let before = used(&db);
    for _ in 0..5 {
        let mut s = db.session();
        run(&mut s, "CREATE TEMP TABLE t (id int PRIMARY KEY, v text)");
        run(&mut s, "INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 50000) i");
        run(&mut s, "BEGIN; TRUNCATE t; INSERT INTO t VALUES (1); ROLLBACK");
        assert_eq!(rows(&mut s, "SELECT count(*) FROM t"), ["50000"]);
    }
    assert!(used(&db) < before + (4 << 20), "{} bytes, {before} before", used(&db));
}

#[test]
fn nothing_that_stays_rests_on_them() {
    let folder = TempFolder::new().expect("a folder");
    let db = open(&folder);
    let mut s = db.session();
    run(&mut s, "CREATE TABLE kept (a int PRIMARY KEY); CREATE TEMP TABLE t (a int PRIMARY KEY)");
    for (sql, expected) in [
        ("CREATE VIEW v AS SELECT * FROM t", "0A000"),
        ("CREATE VIEW v AS SELECT (SELECT max(a) FROM t) FROM kept", "0A000"),
        ("CREATE TABLE k (a int REFERENCES t)", "42P16"),
        ("CREATE TEMP TABLE k (a int REFERENCES kept)", "0A000"),
        ("CREATE TEMP TABLE k (a int REFERENCES t)", "0A000"),
        ("COMMENT ON TABLE t IS 'mine'", "0A000"),
        ("CREATE FUNCTION f() RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t'", "0A000"),
        ("CREATE TEMP TABLE k (a serial)", "0A000"),
        ("ALTER TABLE t ADD b int GENERATED ALWAYS AS IDENTITY", "0A000"),
        ("CREATE SEQUENCE pg_temp.s", "0A000"),
        ("ALTER TABLE t SET SCHEMA public", "0A000"),
        ("CREATE TABLE k ON COMMIT DROP AS SELECT 1", "42P16"),
    ] {
        assert_eq!(state(&mut s, sql), expected, "{sql}");
    }
    // A function's body may name one, as long as it is there.
    run(&mut s, "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM t'");
    assert_eq!(rows(&mut s, "SELECT f()"), ["0"]);
    drop(s);
    assert_eq!(state(&mut db.session(), "SELECT f()"), "42P01");
}

/// The files of a folder, as they are now.
fn copied(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let there = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copied(&entry.path(), &there),
            false => drop(std::fs::copy(entry.path(), there).expect("a copy")),
        }
    }
}
