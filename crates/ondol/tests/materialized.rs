//! Materialised views, beyond what a script can show: restart, recovery, dump and restore, other sessions,
//! plans and functions that were made before.
#[path = "common/session.rs"]
mod session;
use ondol::{Database, Session};
use session::{dumped, open, restored, rows, run};
use std::sync::Arc;

fn state(s: &mut Session, sql: &str) -> String {
    s.execute(sql).err().map_or("none".into(), |e| e.sqlstate().to_string())
}

/// `a` and `b` are filled, `c` is not; the tables have other rows than when `a` was.
const VIEWS: &str = "
    CREATE TABLE t (id int PRIMARY KEY, n numeric, s text);
    INSERT INTO t SELECT i, i / 4.0, 'row ' || i FROM generate_series(1, 100) i;
    CREATE VIEW v AS SELECT id, n, s FROM t WHERE id % 2 = 0;
    CREATE MATERIALIZED VIEW a AS SELECT n, s, id FROM v;
    CREATE UNIQUE INDEX a_id ON a (id);
    CREATE INDEX a_s ON a USING hash (s);
    CREATE MATERIALIZED VIEW b (rows, total) AS SELECT count(*), sum(n) FROM a;
    CREATE VIEW w AS SELECT total FROM b;
    CREATE MATERIALIZED VIEW c AS SELECT id FROM a WITH NO DATA;
    COMMENT ON MATERIALIZED VIEW b IS 'sums';
    COMMENT ON COLUMN b.total IS 'of all';
    DELETE FROM t WHERE id = 100";

/// `sum`: of the numbers of a's rows.
fn is_whole(s: &mut Session, sum: &str) {
    assert_eq!(rows(s, "SELECT sum(id) FROM a"), [sum]);
    assert_eq!(rows(s, "SELECT s FROM a WHERE id = 50"), ["row 50"]);
    assert_eq!(rows(s, "SELECT n FROM a WHERE s = 'row 8'"), ["2.0000000000000000"]);
    assert_eq!(state(s, "SELECT * FROM c"), "55000");
    assert_eq!(
        rows(s, "SELECT obj_description('b'::regclass), col_description('b'::regclass, 2)"),
        ["sums|of all"]
    );
    let kinds = "SELECT relname, relkind, relispopulated FROM pg_class WHERE relkind IN ('m', 'v')
        AND relnamespace = 'public'::regnamespace ORDER BY 1";
    assert_eq!(rows(s, kinds), ["a|m|t", "b|m|t", "c|m|f", "v|v|t", "w|v|t"]);
    let text = " SELECT v.n,\n    v.s,\n    v.id\n   FROM v;";
    assert_eq!(rows(s, "SELECT definition FROM pg_matviews WHERE matviewname = 'a'"), [text]);
    assert_eq!(state(s, "DROP VIEW v"), "2BP01");
}

#[test]
fn they_outlive_restart_and_recovery() {
    for clean in [true, false] {
        let (folder, db) = open();
        run(&mut db.session(), VIEWS);
        is_whole(&mut db.session(), "2550");
        if clean {
            db.close().expect("it closes");
        } else {
            db.checkpoint().expect("a checkpoint");
            run(&mut db.session(), "ALTER MATERIALIZED VIEW b RENAME TO bb; REFRESH MATERIALIZED VIEW bb");
            run(
                &mut db.session(),
                "ALTER MATERIALIZED VIEW bb RENAME TO b; ALTER TABLE t ADD COLUMN late int",
            );
            run(&mut db.session(), "ALTER TABLE t DROP COLUMN late");
            drop(db);
        }
        let db = Database::open(folder.path().join("db")).expect("it opens again");
        let mut s = db.session();
        is_whole(&mut s, "2550");
        assert_eq!(
            rows(&mut s, "SELECT rows, total, (SELECT total FROM w) = total FROM b"),
            ["50|637.50000000000000000000|t"]
        );
        run(&mut s, "REFRESH MATERIALIZED VIEW CONCURRENTLY a; REFRESH MATERIALIZED VIEW b");
        run(
            &mut s,
            "CREATE TABLE n (x int); CREATE MATERIALIZED VIEW nn AS SELECT x FROM n; DROP TABLE n CASCADE",
        );
        is_whole(&mut s, "2450");
        drop(s);
        drop(db);
        let db = Database::open(folder.path().join("db")).expect("it opens again");
        let mut s = db.session();
        is_whole(&mut s, "2450");
        assert_eq!(rows(&mut s, "SELECT rows FROM b"), ["49"]);
        run(&mut s, "REFRESH MATERIALIZED VIEW c");
        assert_eq!(rows(&mut s, "SELECT count(*) FROM c"), ["49"]);
    }
}

/// The database that a dump makes, by the command.
#[cfg(feature = "command")]
#[test]
fn a_dump_makes_them_anew() {
    let (_folder, db) = open();
    let mut s = db.session();
    run(&mut s, VIEWS);
    let dump = dumped(&mut s);
    let (_copy, db) = restored(&dump);
    let mut other = db.session();
    // As PostgreSQL's, a dump has no rows of them: they are what the tables have.
    is_whole(&mut other, "2450");
    assert_eq!(rows(&mut other, "SELECT rows FROM b"), ["49"]);
    assert_eq!(dumped(&mut other), dump);
}

#[test]
fn readers_see_the_old_rows_until_the_refresh_commits() {
    let (_folder, db) = open();
    let (mut s, mut other, mut snapshot) = (db.session(), db.session(), db.session());
    run(&mut s, VIEWS);
    run(&mut snapshot, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    assert_eq!(rows(&mut snapshot, "SELECT count(*) FROM t"), ["99"]);
    let text = "SELECT count(*), sum(id) FROM a";
    let by_key = "SELECT s FROM a WHERE id = 100";
    for concurrently in ["", "CONCURRENTLY"] {
        run(&mut s, &format!("BEGIN; REFRESH MATERIALIZED VIEW {concurrently} a"));
        assert_eq!(rows(&mut s, text), ["49|2450"]);
        assert_eq!(rows(&mut other, text), ["50|2550"], "others do not wait");
        assert_eq!(rows(&mut other, by_key), ["row 100"]);
        run(&mut s, "ROLLBACK");
        assert_eq!(rows(&mut s, text), ["50|2550"]);
    }
    run(&mut s, "REFRESH MATERIALIZED VIEW a");
    assert_eq!(
        (rows(&mut s, text), rows(&mut other, text)),
        (vec!["49|2450".into()], vec!["49|2450".into()])
    );
    assert_eq!(rows(&mut snapshot, text), ["50|2550"], "a snapshot is what it was");
    assert_eq!(rows(&mut snapshot, by_key), ["row 100"]);
    run(&mut snapshot, "COMMIT");
    assert_eq!(rows(&mut snapshot, text), ["49|2450"]);
    assert_eq!(rows(&mut other, by_key).len(), 0);
}

#[test]
fn two_who_refresh_one_do_so_one_after_the_other() {
    let (_folder, db) = open();
    let mut s = db.session();
    run(&mut s, VIEWS);
    run(&mut s, "BEGIN; REFRESH MATERIALIZED VIEW a; INSERT INTO t VALUES (200, 0, 'late')");
    let db = Arc::new(db);
    let theirs = db.clone();
    let waits = std::thread::spawn(move || {
        let mut other = theirs.session();
        run(&mut other, "REFRESH MATERIALIZED VIEW a");
        rows(&mut other, "SELECT max(id), count(*) FROM a")
    });
    std::thread::sleep(std::time::Duration::from_millis(50));
    run(&mut s, "COMMIT");
    assert_eq!(waits.join().expect("it ends"), ["200|50"]);
    // What it is made of stays meanwhile.
    run(&mut s, "BEGIN; REFRESH MATERIALIZED VIEW a");
    let theirs = db.clone();
    let waits = std::thread::spawn(move || state(&mut theirs.session(), "DROP VIEW v CASCADE"));
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(rows(&mut s, "SELECT max(id) FROM v"), ["200"]);
    run(&mut s, "COMMIT");
    assert_eq!(waits.join().expect("it ends"), "none");
    assert_eq!(state(&mut s, "SELECT * FROM a"), "42P01");
}

#[test]
fn plans_and_functions_go_by_what_is_filled() {
    let (_folder, db) = open();
    let (mut s, mut other) = (db.session(), db.session());
    run(&mut s, VIEWS);
    run(&mut s, "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM c'");
    assert_eq!(state(&mut s, "SELECT f()"), "55000");
    assert_eq!(state(&mut other, "SELECT count(*) FROM c"), "55000");
    assert_eq!(state(&mut s, "CREATE VIEW over AS SELECT * FROM c"), "none");
    run(&mut s, "REFRESH MATERIALIZED VIEW c");
    let plan = other.prepare("SELECT count(*) FROM c").expect("a plan");
    for _ in 0..3 {
        assert_eq!(rows(&mut s, "SELECT f(), (SELECT count(*) FROM over)"), ["50|50"]);
        assert_eq!(rows(&mut other, "SELECT count(*) FROM c"), ["50"]);
        other.execute_prepared(&plan, &[]).expect("it runs");
    }
    run(&mut s, "REFRESH MATERIALIZED VIEW c WITH NO DATA");
    assert_eq!(state(&mut s, "SELECT f()"), "55000");
    assert_eq!(state(&mut s, "SELECT * FROM over"), "55000");
    assert_eq!(state(&mut other, "SELECT count(*) FROM c"), "55000");
    assert_eq!(other.execute_prepared(&plan, &[]).map(drop).expect_err("it was emptied").sqlstate(), "55000");
    run(&mut s, "BEGIN; REFRESH MATERIALIZED VIEW c");
    assert_eq!(rows(&mut s, "SELECT f()"), ["50"]);
    assert_eq!(state(&mut other, "SELECT count(*) FROM c"), "55000");
    run(&mut s, "ROLLBACK");
    assert_eq!(state(&mut s, "SELECT f()"), "55000");
}
