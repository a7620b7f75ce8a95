//! Unlogged tables and sequences: what is left of them after a restart and after a crash, and that the rest
//! is as with others.
#[path = "common/session.rs"]
mod session;
use ondol::{Database, Session, TempFolder};
use session::{copied, dumped, open_in, restored, rows, run};

fn state(s: &mut Session, sql: &str) -> String {
    s.execute(sql).err().map_or("none".into(), |e| e.sqlstate().to_string())
}

/// The database as a crash leaves it.
fn crashed(folder: &TempFolder) -> (TempFolder, Database) {
    let copy = TempFolder::new().expect("a folder");
    copied(&folder.path().join("db"), &copy.path().join("db"));
    let db = open_in(&copy);
    (copy, db)
}

const MADE: &str = "
    CREATE TABLE logged (a int PRIMARY KEY);
    INSERT INTO logged VALUES (1), (2);
    CREATE UNLOGGED TABLE u (id serial PRIMARY KEY, x text, r int REFERENCES logged);
    CREATE INDEX u_x ON u (x);
    CREATE UNLOGGED TABLE child (a int REFERENCES u ON DELETE CASCADE, i int GENERATED ALWAYS AS IDENTITY);
    CREATE UNLOGGED SEQUENCE s START 5;
    INSERT INTO u (x, r) SELECT 'row ' || i, 1 + i % 2 FROM generate_series(1, 2000) i;
    INSERT INTO child SELECT id FROM u WHERE id <= 10;
    COMMENT ON TABLE u IS 'for now'";

const KINDS: &str = "SELECT relname, relpersistence FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind <> 'i' ORDER BY 1";
const ALL: [&str; 6] = ["child|u", "child_i_seq|u", "logged|p", "s|u", "u|u", "u_id_seq|u"];

fn is_empty_and_works(s: &mut Session) {
    assert_eq!(rows(s, KINDS), ALL);
    assert_eq!(rows(s, "SELECT (SELECT count(*) FROM u), (SELECT count(*) FROM child)"), ["0|0"]);
    assert_eq!(rows(s, "SELECT count(*) FROM u WHERE x = 'row 7'"), ["0"]);
    assert_eq!(rows(s, "SELECT * FROM logged ORDER BY a"), ["1", "2"]);
    assert_eq!(rows(s, "SELECT obj_description('u'::regclass), nextval('s')"), ["for now|5"]);
    run(s, "INSERT INTO u (x, r) VALUES ('new', 2) RETURNING id; INSERT INTO child VALUES (1)");
    assert_eq!(rows(s, "SELECT id, x FROM u WHERE x = 'new'"), ["1|new"]);
    assert_eq!(rows(s, "SELECT * FROM child"), ["1|1"]);
    assert_eq!(state(s, "INSERT INTO child VALUES (7)"), "23503");
    assert_eq!(state(s, "INSERT INTO u (r) VALUES (3)"), "23503");
    assert_eq!(state(s, "DELETE FROM logged WHERE a = 2"), "23503");
    run(s, "DELETE FROM u");
    assert_eq!(rows(s, "SELECT count(*) FROM child"), ["0"]);
}

#[test]
fn rows_are_gone_after_a_crash_and_a_restart_and_definitions_are_not() {
    let folder = TempFolder::new().expect("a folder");
    {
        let db = open_in(&folder);
        let mut s = db.session();
        run(&mut s, MADE);
        assert_eq!(rows(&mut s, KINDS), ALL);
        assert_eq!(rows(&mut s, "SELECT count(*) FROM u WHERE x = 'row 7'"), ["1"]);
        assert_eq!(rows(&mut db.session(), "SELECT count(*), max(id) FROM u"), ["2000|2000"], "all see it");
        let (_copy, again) = crashed(&folder);
        is_empty_and_works(&mut again.session());
        run(
            &mut s,
            "CHECKPOINT; UPDATE u SET x = 'changed' WHERE id % 3 = 0; DELETE FROM u WHERE id % 5 = 0",
        );
        run(&mut s, "BEGIN; INSERT INTO u (x) VALUES ('undone'); TRUNCATE child; ROLLBACK");
        assert_eq!(rows(&mut s, "SELECT count(*), (SELECT count(*) FROM child) FROM u"), ["1600|8"]);
        let (copy, again) = crashed(&folder);
        is_empty_and_works(&mut again.session());
        // Again, and what comes after has the places that they had.
        run(
            &mut again.session(),
            "CHECKPOINT; CREATE TABLE more AS SELECT generate_series(1, 3000) AS g; DROP TABLE more",
        );
        drop(again);
        is_empty_and_works(&mut open_in(&copy).session());
        drop(s);
        db.close().expect("it closes");
    }
    is_empty_and_works(&mut open_in(&folder).session());
}

#[test]
fn the_log_has_nothing_of_their_rows() {
    let folder = TempFolder::new().expect("a folder");
    let db = open_in(&folder);
    let mut s = db.session();
    run(
        &mut s,
        "CREATE UNLOGGED TABLE u (id int PRIMARY KEY, x text); CREATE TABLE l (id int PRIMARY KEY, x text)",
    );
    let size = || {
        let log = std::fs::read_dir(folder.path().join("db/log")).expect("the log");
        let mut all = Vec::new();
        for entry in log.flatten() {
            all.extend(std::fs::read(entry.path()).expect("a file"))
        }
        let text = b"a text to be found";
        all.windows(text.len()).filter(|w| w == text).count()
    };
    run(&mut s, "INSERT INTO u SELECT i, 'a text to be found ' || i FROM generate_series(1, 500) i");
    run(&mut s, "CHECKPOINT; UPDATE u SET id = -id; INSERT INTO l VALUES (1, 'other')");
    assert_eq!(size(), 0);
    run(&mut s, "INSERT INTO l SELECT * FROM u");
    assert!(size() > 0, "the count finds what is there");
}

#[test]
fn a_table_may_be_logged_later_and_the_other_way_round() {
    let folder = TempFolder::new().expect("a folder");
    let db = open_in(&folder);
    let mut s = db.session();
    run(&mut s, MADE);
    assert_eq!(state(&mut s, "ALTER TABLE child SET LOGGED"), "42P16", "it refers to an unlogged one");
    assert_eq!(state(&mut s, "CREATE TABLE k (a int REFERENCES u)"), "42P16");
    run(&mut s, "BEGIN; ALTER TABLE u SET LOGGED; ROLLBACK");
    assert_eq!(rows(&mut s, KINDS), ALL);
    run(&mut s, "ALTER TABLE u SET LOGGED; ALTER SEQUENCE s SET LOGGED; SELECT nextval('s')");
    assert_eq!(state(&mut s, "ALTER TABLE logged SET UNLOGGED"), "42P16", "a logged one refers to it");
    let kinds = ["child|u", "child_i_seq|u", "logged|p", "s|p", "u|p", "u_id_seq|p"];
    assert_eq!(rows(&mut s, KINDS), kinds);
    let (_copy, again) = crashed(&folder);
    let mut t = again.session();
    assert_eq!(rows(&mut t, KINDS), kinds);
    assert_eq!(rows(&mut t, "SELECT count(*), (SELECT count(*) FROM child) FROM u"), ["2000|0"]);
    assert_eq!(rows(&mut t, "SELECT id FROM u WHERE x = 'row 7'"), ["7"]);
    let next: i64 = rows(&mut t, "SELECT nextval('u_id_seq')")[0].parse().expect("a number");
    assert!(next > 2000, "{next}");
    run(&mut t, "ALTER TABLE u SET UNLOGGED");
    assert_eq!(rows(&mut t, "SELECT count(*) FROM u"), ["2000"]);
    drop(t);
    let (_copy, again) = crashed(&_copy);
    assert_eq!(rows(&mut again.session(), "SELECT count(*) FROM u"), ["0"]);
}

/// The database that a dump makes, by the command.
#[cfg(feature = "command")]
#[test]
fn a_dump_has_their_rows() {
    let folder = TempFolder::new().expect("a folder");
    let db = open_in(&folder);
    let mut s = db.session();
    run(&mut s, MADE);
    let text = dumped(&mut s);
    restored(&text);
    assert!(
        text.contains("CREATE UNLOGGED TABLE u") && text.contains("CREATE UNLOGGED SEQUENCE s"),
        "{text}"
    );
}
