//! Definitions that change one object more than once outlive a restart: as one statement, as one transaction,
//! taken back to a savepoint.
use ondol::{Database, Session, TempFolder};

const TABLE: &str = "CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, 'one'), (2, 'two')";
const REST: [&str; 2] = ["1|one", "2|two"];

/// What is done to a table t with two rows, and what is in it afterwards.
const CASES: [(&str, &[&str]); 9] = [
    ("TRUNCATE t, t", &[]),
    ("TRUNCATE t, t, t; INSERT INTO t VALUES (3, 'three')", &["3|three"]),
    ("BEGIN; TRUNCATE t; TRUNCATE t; INSERT INTO t VALUES (3, 'three'); COMMIT", &["3|three"]),
    ("BEGIN; TRUNCATE t, t; ROLLBACK", &REST),
    (
        "BEGIN; SAVEPOINT s; TRUNCATE t, t; ROLLBACK TO s; TRUNCATE t; INSERT INTO t VALUES (3, NULL); COMMIT",
        &["3|NULL"],
    ),
    ("CREATE UNIQUE INDEX i ON t (a); ALTER TABLE t ADD PRIMARY KEY USING INDEX i", &REST),
    (
        "CREATE UNIQUE INDEX i ON t (a); ALTER TABLE t ADD CONSTRAINT k PRIMARY KEY USING INDEX i; TRUNCATE t, t",
        &[],
    ),
    ("BEGIN; ALTER TABLE t ADD PRIMARY KEY (a); TRUNCATE t, t; COMMIT; CREATE INDEX j ON t (b)", &[]),
    ("ALTER TABLE t ADD PRIMARY KEY (a); DROP TABLE t; CREATE TABLE t (a int PRIMARY KEY, b text)", &[]),
];

fn rows(s: &mut Session) -> Vec<String> {
    told(s, "SELECT * FROM t ORDER BY 1")
}
fn told(s: &mut Session, query: &str) -> Vec<String> {
    let found = s.query(query, &[]).unwrap_or_else(|e| panic!("{query}: {e}"));
    found.iter().map(|r| r.values().map(|v| v.to_string()).collect::<Vec<_>>().join("|")).collect()
}

#[test]
fn objects_that_are_changed_twice_are_there_once() {
    for (done, expected) in CASES {
        let folder = TempFolder::new().expect("a folder");
        let open = || Database::open(folder.path().join("db")).unwrap_or_else(|e| panic!("{done}: {e}"));
        let db = open();
        db.session().execute(TABLE).expect("a table");
        db.session().execute(done).unwrap_or_else(|e| panic!("{done}: {e}"));
        assert_eq!(rows(&mut db.session()), expected, "{done}");
        const INDEXES: &str = "SELECT * FROM ondol_indexes ORDER BY 1";
        let indexes = told(&mut db.session(), INDEXES);
        // Once from the log alone, once from a checkpoint.
        drop(db);
        let db = open();
        assert_eq!(told(&mut db.session(), INDEXES), indexes, "{done}: after recovery");
        assert_eq!(rows(&mut db.session()), expected, "{done}: after recovery");
        db.session().execute("INSERT INTO t VALUES (9, 'nine')").unwrap_or_else(|e| panic!("{done}: {e}"));
        db.close().expect("it closes");
        let db = open();
        let after = [expected, &["9|nine"]].concat();
        assert_eq!(rows(&mut db.session()), after, "{done}: after it was closed");
        // A name that stayed in the dictionary would be found again.
        let mut s = db.session();
        s.execute("DROP TABLE t").unwrap_or_else(|e| panic!("{done}: {e}"));
        drop(s);
        drop(db);
        let gone = open().session().query("SELECT a FROM t", &[]).err().map(|e| e.sqlstate().to_string());
        assert_eq!(gone.as_deref(), Some("42P01"), "{done}: dropped");
    }
}
