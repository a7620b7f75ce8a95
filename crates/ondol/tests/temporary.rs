//! Temporary tables, beyond what a script can show: other sessions, the session's end, a restart, memory.
#[path = "common/session.rs"]
mod session;
use ondol::{Database, Session, TempFolder};
use session::{copied, open_in, rows, run};

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
    let db = open_in(&folder);
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
        let db = open_in(&folder);
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
        let again = open_in(&copy);
        let mut s = again.session();
        assert_eq!(rows(&mut s, "SELECT * FROM kept ORDER BY a"), ["1", "2"]);
        assert_eq!(state(&mut s, "SELECT * FROM t"), "42P01");
        assert_eq!(rows(&mut s, "SELECT count(*) FROM ondol_tables"), ["1"]);
        // What comes after has the places that they had.
        run(&mut s, fill);
        run(&mut s, "CREATE TABLE more AS SELECT * FROM t; CHECKPOINT");
        drop(s);
        drop(again);
        let again = open_in(&copy);
        assert_eq!(rows(&mut again.session(), "SELECT count(*) FROM more"), ["50000"]);
    }
}

#[test]
fn memory_is_given_back_at_the_sessions_end() {
    let folder = TempFolder::new().expect("a folder");
    let db = open_in(&folder);
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
    let db = open_in(&folder);
    let mut s = db.session();
    run(&mut s, "CREATE TABLE kept (a int PRIMARY KEY); CREATE TEMP TABLE t (a int PRIMARY KEY)");
    run(&mut s, "CREATE TEMP SEQUENCE own");
    for (sql, expected) in [
        ("CREATE VIEW public.v AS SELECT * FROM t", "42P16"),
        ("CREATE TEMP VIEW public.v AS SELECT 1 AS a", "42P16"),
        ("CREATE MATERIALIZED VIEW v AS SELECT (SELECT max(a) FROM t) FROM kept", "0A000"),
        ("CREATE TABLE k (a int REFERENCES t)", "42P16"),
        ("CREATE TEMP TABLE k (a int REFERENCES kept)", "42P16"),
        ("CREATE UNLOGGED TABLE k (a int REFERENCES t)", "42P16"),
        ("CREATE FUNCTION f() RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t'", "0A000"),
        ("CREATE TABLE k (a int DEFAULT nextval('own'))", "0A000"),
        ("ALTER TABLE kept ALTER a SET DEFAULT nextval('own')", "0A000"),
        ("CREATE TEMP SEQUENCE public.s", "42P16"),
        ("CREATE UNLOGGED TABLE pg_temp.k (a int)", "42P16"),
        ("ALTER TABLE t SET UNLOGGED", "42P16"),
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

#[test]
fn views_and_sequences_are_a_sessions_own() {
    let folder = TempFolder::new().expect("a folder");
    let db = open_in(&folder);
    let (mut a, mut b) = (db.session(), db.session());
    run(&mut a, "CREATE TABLE t (id int PRIMARY KEY, n int, x text); INSERT INTO t VALUES (1, 10, 'one')");
    run(&mut a, "CREATE VIEW v AS SELECT x FROM t; CREATE SEQUENCE s START 100");
    run(&mut a, "CREATE TEMP TABLE own (k serial, i int GENERATED ALWAYS AS IDENTITY, v text)");
    run(&mut a, "CREATE VIEW v AS SELECT v, k, n FROM own, t; CREATE TEMP SEQUENCE s");
    run(&mut a, "INSERT INTO own (v) VALUES ('a'), ('b')");
    run(
        &mut a,
        "COMMENT ON TABLE own IS 'mine'; COMMENT ON COLUMN own.v IS 'a column'; COMMENT ON VIEW v IS 'a view'",
    );
    let kinds = "SELECT relname, relkind FROM pg_class WHERE relpersistence = 't' ORDER BY 1";
    let described = "SELECT obj_description('own'::regclass), col_description('own'::regclass, 3),
        obj_description('v'::regclass)";
    for _ in 0..2 {
        assert_eq!(rows(&mut a, "SELECT * FROM v ORDER BY k"), ["a|1|10", "b|2|10"]);
        assert_eq!(rows(&mut a, "SELECT k, i FROM own ORDER BY 1"), ["1|1", "2|2"]);
        assert_eq!(rows(&mut a, described), ["mine|a column|a view"]);
        assert_eq!(rows(&mut a, kinds), ["own|r", "own_i_seq|S", "own_k_seq|S", "s|S", "v|v"]);
    }
    assert_eq!(rows(&mut a, "SELECT nextval('s'), nextval('public.s'), nextval('s')"), ["1|100|2"]);
    assert_eq!(rows(&mut b, "SELECT nextval('s')"), ["101"]);
    assert_eq!(rows(&mut b, "SELECT * FROM v"), ["one"]);
    assert_eq!(rows(&mut b, kinds).len(), 0);
    // They go on where nothing else is changed.
    run(&mut a, "BEGIN READ ONLY");
    assert_eq!(rows(&mut a, "SELECT nextval('s')"), ["3"]);
    assert_eq!(state(&mut a, "SELECT nextval('public.s')"), "25006");
    run(&mut a, "ROLLBACK");
    // What a transaction did to them goes back, but for the values that were given out.
    run(
        &mut a,
        "BEGIN; ALTER VIEW v RENAME TO w; SAVEPOINT p; DROP VIEW w; DROP SEQUENCE s; ALTER TABLE own DROP k",
    );
    run(&mut a, "COMMENT ON TABLE own IS NULL; CREATE TEMP VIEW z AS SELECT 1 AS a; ROLLBACK TO p");
    assert_eq!(rows(&mut a, "SELECT count(*), nextval('s') FROM w"), ["2|4"]);
    run(&mut a, "ROLLBACK");
    assert_eq!(rows(&mut a, "SELECT count(*), nextval('s') FROM v"), ["2|5"]);
    assert_eq!(rows(&mut a, described), ["mine|a column|a view"]);
    assert_eq!(state(&mut a, "SELECT * FROM z"), "42P01");
    run(
        &mut a,
        "ALTER SEQUENCE s RESTART 50; TRUNCATE own RESTART IDENTITY; INSERT INTO own (v) VALUES ('c')",
    );
    assert_eq!(rows(&mut a, "SELECT nextval('s'), k, i FROM own"), ["50|1|1"]);
    let mut dump = Vec::new();
    a.dump(&mut dump, |_, _| {}).expect("a dump");
    let dump = String::from_utf8(dump).expect("text");
    assert!(!dump.contains("own") && !dump.contains("a column"), "they are not dumped: {dump}");
    // Others do not take away what they rest on.
    assert_eq!(state(&mut b, "DROP TABLE t CASCADE"), "2BP01");
    assert_eq!(state(&mut b, "ALTER TABLE t DROP COLUMN id"), "2BP01");
    assert_eq!(state(&mut b, "ALTER TABLE t ALTER COLUMN n TYPE bigint"), "2BP01");
    run(&mut b, "ALTER TABLE t ADD late int; ALTER TABLE t RENAME n TO number");
    assert_eq!(rows(&mut a, "SELECT * FROM v"), ["c|1|10"]);
    assert_eq!(state(&mut a, "ALTER TABLE t DROP COLUMN number"), "2BP01");
    run(&mut a, "BEGIN; DROP VIEW pg_temp.v; ROLLBACK");
    assert_eq!(state(&mut b, "DROP TABLE t CASCADE"), "2BP01");
    run(&mut a, "DISCARD TEMP");
    assert_eq!(rows(&mut a, kinds).len(), 0);
    run(&mut b, "ALTER TABLE t DROP COLUMN id");
    run(&mut a, "CREATE TEMP VIEW again AS SELECT x FROM t");
    assert_eq!(state(&mut b, "DROP TABLE t CASCADE"), "2BP01");
    drop(a);
    run(&mut b, "DROP TABLE t CASCADE");
}

#[test]
fn what_a_view_in_the_making_rests_on_is_waited_for() {
    let folder = TempFolder::new().expect("a folder");
    let db = std::sync::Arc::new(open_in(&folder));
    let mut a = db.session();
    run(&mut a, "CREATE TABLE t (id int, x text); BEGIN; CREATE TEMP VIEW v AS SELECT x FROM t");
    let theirs = db.clone();
    let waits = std::thread::spawn(move || state(&mut theirs.session(), "ALTER TABLE t DROP COLUMN id"));
    std::thread::sleep(std::time::Duration::from_millis(50));
    run(&mut a, "COMMIT");
    assert_eq!(waits.join().expect("it ends"), "2BP01");
    run(&mut a, "BEGIN; CREATE TEMP VIEW w AS SELECT id FROM t; DROP VIEW v");
    let theirs = db.clone();
    let waits = std::thread::spawn(move || state(&mut theirs.session(), "ALTER TABLE t DROP COLUMN x"));
    std::thread::sleep(std::time::Duration::from_millis(50));
    run(&mut a, "ROLLBACK; DROP VIEW v");
    let found = waits.join().expect("it ends");
    assert!(found == "nothing" || found == "2BP01", "{found}");
}

#[test]
fn keys_hold_between_them() {
    let folder = TempFolder::new().expect("a folder");
    let db = open_in(&folder);
    let mut s = db.session();
    run(
        &mut s,
        "CREATE TEMP TABLE p (a int PRIMARY KEY); CREATE TEMP TABLE c (a int REFERENCES p ON DELETE CASCADE)",
    );
    run(&mut s, "INSERT INTO p VALUES (1), (2); INSERT INTO c VALUES (1), (2), (2)");
    assert_eq!(state(&mut s, "INSERT INTO c VALUES (3)"), "23503");
    run(&mut s, "DELETE FROM p WHERE a = 2");
    assert_eq!(rows(&mut s, "SELECT * FROM c"), ["1"]);
    assert_eq!(state(&mut s, "DROP TABLE p"), "2BP01");
    assert_eq!(state(&mut s, "TRUNCATE p"), "0A000");
    run(&mut s, "BEGIN; DROP TABLE p CASCADE; INSERT INTO c VALUES (9); ROLLBACK");
    assert_eq!(state(&mut s, "INSERT INTO c VALUES (9)"), "23503");
    run(&mut s, "ALTER TABLE c ADD b int REFERENCES p DEFERRABLE INITIALLY DEFERRED");
    run(&mut s, "BEGIN; INSERT INTO c VALUES (1, 7); INSERT INTO p VALUES (7); COMMIT");
    assert_eq!(state(&mut s, "BEGIN; INSERT INTO c VALUES (1, 8); COMMIT"), "23503");
    run(&mut s, "DROP TABLE c, p");
    // A parent is not emptied under rows that stay, and what goes takes its keys along.
    run(&mut s, "CREATE TEMP TABLE p (a int PRIMARY KEY) ON COMMIT DELETE ROWS");
    assert_eq!(state(&mut s, "CREATE TEMP TABLE c (a int REFERENCES p)"), "0A000");
    run(&mut s, "CREATE TEMP TABLE c (a int REFERENCES p) ON COMMIT DELETE ROWS");
    run(&mut s, "BEGIN; INSERT INTO p VALUES (1); INSERT INTO c VALUES (1); COMMIT");
    assert_eq!(rows(&mut s, "SELECT (SELECT count(*) FROM p), (SELECT count(*) FROM c)"), ["0|0"]);
    assert_eq!(state(&mut s, "INSERT INTO c VALUES (1)"), "23503");
    run(&mut s, "DROP TABLE c, p; CREATE TEMP TABLE p (a int PRIMARY KEY)");
    run(&mut s, "BEGIN; CREATE TEMP TABLE c (a int REFERENCES p) ON COMMIT DROP; INSERT INTO p VALUES (1)");
    run(&mut s, "INSERT INTO c VALUES (1); COMMIT; DELETE FROM p; DROP TABLE p");
    run(&mut s, "BEGIN; CREATE TEMP TABLE p (a int PRIMARY KEY, s serial) ON COMMIT DROP");
    run(&mut s, "CREATE TEMP TABLE c (a int REFERENCES p); CREATE VIEW v AS SELECT a FROM p; COMMIT");
    run(&mut s, "INSERT INTO c VALUES (77)");
    assert_eq!(state(&mut s, "SELECT * FROM v"), "42P01");
    assert_eq!(state(&mut s, "SELECT nextval('p_s_seq')"), "42P01");
    run(&mut s, "DISCARD ALL; CREATE TEMP TABLE c (a int)");
}
