//! Definitions that change one object more than once outlive a restart: as one statement, as one transaction,
//! taken back to a savepoint.
use ondol::{Database, Session, TempFolder};

const TABLE: &str = "CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, 'one'), (2, 'two')";
const REST: [&str; 2] = ["1|one", "2|two"];

/// What is done to a table t with two rows, and what is in it afterwards.
const CASES: [(&str, &[&str]); 23] = [
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
    ("ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME TO t", &REST),
    ("ALTER TABLE t RENAME TO u; CREATE TABLE t (a int, b text)", &[]),
    (
        "ALTER TABLE t ADD c int DEFAULT 3, DROP b; ALTER TABLE t DROP c, ADD b text DEFAULT 'x'",
        &["1|x", "2|x"],
    ),
    (
        "BEGIN; ALTER TABLE t ADD c int DEFAULT 3; UPDATE t SET c = 4; ALTER TABLE t DROP COLUMN c; COMMIT",
        &REST,
    ),
    ("CREATE INDEX i ON t (b); BEGIN; ALTER TABLE t DROP b; ALTER TABLE t ADD c int; ROLLBACK", &REST),
    (
        "BEGIN; ALTER TABLE t ADD c int DEFAULT 3; SAVEPOINT s; ALTER TABLE t DROP a, DROP b; ROLLBACK TO s; \
         ALTER TABLE t DROP c; COMMIT",
        &REST,
    ),
    (
        "ALTER TABLE t ADD c float8 DEFAULT random(), ALTER b TYPE int USING length(b); ALTER TABLE t DROP c, \
         ALTER b TYPE text USING CASE a WHEN 1 THEN 'one' ELSE 'two' END",
        &REST,
    ),
    (
        "ALTER TABLE t ADD PRIMARY KEY (a); ALTER TABLE t ALTER a TYPE bigint, ALTER b TYPE varchar(9); \
         ALTER TABLE t ALTER b TYPE varchar(20); ALTER TABLE t ALTER a TYPE int",
        &REST,
    ),
    ("BEGIN; ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME a TO c; ROLLBACK", &REST),
    (
        "BEGIN; ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME b TO c; ALTER TABLE u RENAME TO t; \
         ALTER TABLE t RENAME c TO b; COMMIT",
        &REST,
    ),
    (
        "ALTER TABLE t ADD PRIMARY KEY (a); CREATE INDEX i ON t (b); ALTER TABLE t RENAME TO u; \
         ALTER INDEX i RENAME TO j; ALTER TABLE u RENAME CONSTRAINT t_pkey TO k; ALTER TABLE u RENAME TO t",
        &REST,
    ),
    (
        "ALTER TABLE t ALTER b SET NOT NULL; ALTER TABLE t ALTER b DROP NOT NULL; INSERT INTO t VALUES (3, NULL)",
        &["1|one", "2|two", "3|NULL"],
    ),
    (
        "CREATE INDEX i ON t (b); BEGIN; ALTER TABLE t ALTER b SET NOT NULL, ALTER a SET NOT NULL; SAVEPOINT s; \
         ALTER TABLE t ALTER b DROP NOT NULL; TRUNCATE t; ROLLBACK TO s; COMMIT",
        &REST,
    ),
    (
        "ALTER TABLE t ADD PRIMARY KEY (a), ADD CONSTRAINT k UNIQUE (b); ALTER TABLE t DROP CONSTRAINT t_pkey, \
         ALTER a DROP NOT NULL",
        &REST,
    ),
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

fn dumped(s: &mut Session) -> String {
    let mut text = Vec::new();
    s.dump(&mut text, |_, _| {}).expect("a dump");
    String::from_utf8(text).expect("text")
}

/// What is done to the table, and what its dump says then.
const ALTERED: [(&str, &[&str]); 19] = [
    (
        "ALTER TABLE t ALTER a SET DEFAULT 1 + 1, ALTER b SET DEFAULT 'x'",
        &["a integer DEFAULT 1 + 1", "DEFAULT 'x'"],
    ),
    ("ALTER TABLE t ALTER b SET DEFAULT 'x'; ALTER TABLE t ALTER b DROP DEFAULT", &["    b text\n"]),
    ("ALTER TABLE t ALTER a SET NOT NULL, ALTER b SET DEFAULT 'x'", &["a integer NOT NULL", "DEFAULT 'x'"]),
    (
        "ALTER TABLE t ADD PRIMARY KEY (a); ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME a TO c; \
         ALTER INDEX t_pkey RENAME TO k",
        &["CREATE TABLE u", "c integer NOT NULL", "INDEX k ON u USING btree (c)"],
    ),
    (
        "ALTER TABLE t ADD CHECK (a > 0), ADD CONSTRAINT no CHECK (b <> 'no') NO INHERIT, ADD CONSTRAINT c CHECK (a > 1) NOT VALID",
        &[
            "ADD CONSTRAINT c CHECK (a > 1) NOT VALID;",
            "ADD CONSTRAINT no CHECK (b <> 'no') NO INHERIT;",
            "ADD CONSTRAINT t_a_check CHECK (a > 0);",
        ],
    ),
    (
        "ALTER TABLE t ADD CHECK (a > 0); ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME CONSTRAINT t_a_check TO d; \
         ALTER TABLE t RENAME TO u",
        &["ALTER TABLE u ADD CONSTRAINT d CHECK (c > 0);"],
    ),
    (
        "BEGIN; ALTER TABLE t ADD CHECK (a > 0); SAVEPOINT s; ALTER TABLE t DROP CONSTRAINT t_a_check; ROLLBACK TO s; COMMIT",
        &["ADD CONSTRAINT t_a_check CHECK (a > 0);"],
    ),
    (
        "ALTER TABLE t ADD COLUMN c int NOT NULL DEFAULT 3 CHECK (c > 0), ADD d numeric(8, 2) DEFAULT 1.5; \
         ALTER TABLE t ADD COLUMN e timestamptz DEFAULT '2000-01-01 00:00:00+00', ADD f int UNIQUE",
        &["1\tone\t3\t1.50\t2000-01-01 00:00:00+00\t\\N\n", "c integer DEFAULT 3 NOT NULL"],
    ),
    (
        "ALTER TABLE t ADD c int DEFAULT 3 CHECK (c > 0), ADD d int DEFAULT 4; CREATE INDEX i ON t (d, b); \
         CREATE INDEX j ON t (d); INSERT INTO t VALUES (3, 'x', 5, 6); ALTER TABLE t DROP b, DROP COLUMN c; \
         ALTER TABLE t ALTER d TYPE bigint",
        &["    d bigint DEFAULT 4\n", "1\t4\n2\t4\n3\t6\n", "INDEX j ON t USING btree (d)"],
    ),
    (
        "CREATE FUNCTION even(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 % 2 = 0'; \
         CREATE TABLE u (a int CHECK (even(a) OR a > 7)); TRUNCATE u; INSERT INTO u VALUES (2), (9), (NULL); \
         ALTER TABLE u ALTER a SET DEFAULT 4",
        &["ADD CONSTRAINT u_a_check CHECK (even(a) OR a > 7);"],
    ),
    (
        "CREATE SEQUENCE s AS smallint START 5 INCREMENT 3 CYCLE CACHE 2; SELECT nextval('s'); \
         CREATE SEQUENCE \"Next one\"; ALTER TABLE t ADD c serial; ALTER SEQUENCE s OWNED BY t.a; \
         SELECT setval('t_c_seq', 1); CREATE SEQUENCE down INCREMENT -1; SELECT nextval('down'), nextval('down')",
        &[
            "CREATE SEQUENCE s AS smallint START WITH 5 INCREMENT BY 3 MINVALUE 1 MAXVALUE 32767 CACHE 2 CYCLE;",
            "c integer DEFAULT nextval('t_c_seq') NOT NULL",
            "ALTER SEQUENCE s OWNED BY t.a;\nSELECT setval('s', 8, true);",
            "SELECT setval('\"Next one\"', 1, false);",
            "SELECT setval('t_c_seq', 1, true);",
            "SELECT setval('down', -2, true);",
        ],
    ),
    (
        "CREATE TABLE u (a int GENERATED BY DEFAULT AS IDENTITY, b bigint GENERATED ALWAYS AS IDENTITY (START 9 SEQUENCE NAME k)); \
         INSERT INTO u DEFAULT VALUES; INSERT INTO u (a) VALUES (70); ALTER SEQUENCE u_a_seq RENAME TO v; \
         ALTER TABLE u ALTER b SET GENERATED BY DEFAULT",
        &[
            "a integer GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME v START WITH 1",
            "b bigint GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME k START WITH 9",
            "1\t9\n70\t10\n",
            "SELECT setval('k', 10, true);\nSELECT setval('v', 1, true);",
        ],
    ),
    (
        "CREATE FUNCTION even(int) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT $1 % 2 = 0'; \
         CREATE FUNCTION four() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 4'; \
         CREATE DOMAIN pair AS int DEFAULT four() \
         CONSTRAINT is_even CHECK (even(VALUE)) CONSTRAINT small CHECK (VALUE < 100); \
         CREATE TABLE u (a pair, b int DEFAULT four() + 1, c int DEFAULT 1); INSERT INTO u DEFAULT VALUES",
        &[
            "CREATE DOMAIN pair AS integer CONSTRAINT small CHECK (value < 100);\n",
            "ALTER DOMAIN pair ADD CONSTRAINT is_even CHECK (even(value));\nALTER DOMAIN pair SET DEFAULT four();",
            "ALTER TABLE u ALTER COLUMN b SET DEFAULT four() + 1;",
            "4\t5\t1\n",
        ],
    ),
    (
        "CREATE FUNCTION f() RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t'; ALTER TABLE t RENAME TO u",
        &["CREATE FUNCTION f() RETURNS SETOF u"],
    ),
    (
        "CREATE FUNCTION f(a int, b int DEFAULT 3, c text DEFAULT 'x' || 'y') RETURNS text LANGUAGE sql AS 'SELECT c'; \
         CREATE FUNCTION total(VARIADIC n int[] DEFAULT '{}') RETURNS int LANGUAGE sql AS 'SELECT n[1]'; \
         CREATE VIEW v AS SELECT f(1), f(2, c => 'q') AS q, total(4, 5) AS n, total(VARIADIC ARRAY[6]) AS m; \
         CREATE OR REPLACE FUNCTION f(a int, b int DEFAULT 4, c text DEFAULT 'x' || 'z') RETURNS text LANGUAGE sql AS 'SELECT c'",
        &[
            "FUNCTION f(a integer, b integer DEFAULT 4, c text DEFAULT ('x'::text || 'z'::text)) RETURNS",
            "FUNCTION total(VARIADIC n integer[] DEFAULT '{}'::integer[]) RETURNS",
            "f(2, c => 'q'::text) AS q",
            "total(VARIADIC ARRAY[4, 5]) AS n",
        ],
    ),
    (
        "CREATE TABLE u (); INSERT INTO u DEFAULT VALUES; INSERT INTO u DEFAULT VALUES; \
         CREATE TABLE v (a int GENERATED ALWAYS AS (1 + 1) STORED); INSERT INTO v DEFAULT VALUES; \
         ALTER TABLE t DROP a, DROP b",
        &[
            "CREATE TABLE u ();\nCOPY u FROM stdin;\n\n\n\\.\n",
            "CREATE TABLE t ();\nCOPY t FROM stdin;\n\n\n\\.\n",
            "COPY v FROM stdin;\n\n\\.\n",
        ],
    ),
    (
        "CREATE TABLE u (a text COLLATE \"C\" DEFAULT 'x' NOT NULL, b name COLLATE \"C\", c text COLLATE \"default\"); \
         CREATE VIEW v AS SELECT a FROM u; ALTER TABLE t ALTER b TYPE text COLLATE \"POSIX\"; INSERT INTO u VALUES ('y')",
        &[
            "    a text COLLATE \"C\" DEFAULT 'x' NOT NULL,\n    b name,\n    c text\n",
            "    b text COLLATE \"POSIX\"\n",
        ],
    ),
    (
        "CREATE DOMAIN pair AS int DEFAULT 2 CHECK (VALUE > 1); CREATE TABLE u (a pair, _u int); \
         CREATE VIEW v AS SELECT a, a + 1 AS b FROM u; CREATE TABLE w AS SELECT * FROM v; CREATE TABLE _w (x int)",
        &["CREATE TABLE w (\n    a pair,\n    b integer\n"],
    ),
    (
        "CREATE SCHEMA s; CREATE TABLE s.late (a int); CREATE VIEW v AS SELECT 1 AS a; \
         CREATE FUNCTION f(int) RETURNS int LANGUAGE sql AS 'SELECT 1'; \
         CREATE TABLE b (id int PRIMARY KEY, c regclass, p regprocedure, r regrole, n regnamespace, y regtype); \
         INSERT INTO b VALUES (1, 't', 'f(int)', 'postgres', 's', 't'), (2, 's.late', '-', NULL, 'public', 'int[]'), (3, 'v', NULL, NULL, NULL, NULL); \
         CREATE TABLE child (id int REFERENCES b); INSERT INTO child VALUES (1); ALTER TABLE t RENAME TO now",
        &["COPY b (id, c, p, r, n, y) FROM stdin;\n1\tnow\tf(integer)\tpostgres\ts\tnow\n\
             2\ts.late\t-\t\\N\tpublic\tinteger[]\n3\tv\t"],
    ),
];

#[test]
fn what_is_altered_outlives_a_restart_and_a_dump() {
    for (done, expected) in ALTERED {
        let folder = TempFolder::new().expect("a folder");
        let open =
            |name: &str| Database::open(folder.path().join(name)).unwrap_or_else(|e| panic!("{done}: {e}"));
        let db = open("db");
        db.session().execute(TABLE).expect("a table");
        db.session().execute(done).unwrap_or_else(|e| panic!("{done}: {e}"));
        let dump = dumped(&mut db.session());
        for part in expected {
            assert!(dump.contains(part), "{done}: {part:?} is not in {dump}")
        }
        drop(db);
        let db = open("db");
        assert_eq!(dumped(&mut db.session()), dump, "{done}: after recovery");
        db.close().expect("it closes");
        let db = open("db");
        assert_eq!(dumped(&mut db.session()), dump, "{done}: after it was closed");
        let file = folder.path().join("dump");
        std::fs::write(&file, &dump).expect("a file");
        let restore = std::process::Command::new(env!("CARGO_BIN_EXE_ondol"))
            .arg("restore")
            .args([&folder.path().join("restored"), &file])
            .output()
            .expect("the command");
        assert!(restore.status.success(), "{done}: {}: {dump}", String::from_utf8_lossy(&restore.stderr));
        let restored = open("restored");
        assert_eq!(dumped(&mut restored.session()), dump, "{done}: restored");
    }
}

#[test]
fn a_dump_beside_an_altered_table_finds_its_rows() {
    let folder = TempFolder::new().expect("a folder");
    let db = Database::open(folder.path().join("db")).expect("a database");
    let mut s = db.session();
    s.execute(TABLE).expect("a table");
    s.execute("BEGIN; ALTER TABLE t ADD COLUMN c int DEFAULT 7; SET datestyle = sql").expect("altered");
    let mut other = db.session();
    other.execute("SET datestyle = german").expect("a style");
    let waiter = other.waiter();
    let dumping = std::thread::spawn(move || {
        let dump = dumped(&mut other);
        let style = other.query("SHOW datestyle", &[]).expect("a setting").row(0).get::<String>(0);
        (dump, style.expect("a text"))
    });
    while !waiter.is_waiting() {
        std::thread::sleep(std::time::Duration::from_millis(1))
    }
    s.execute("COMMIT").expect("committed");
    let (dump, style) = dumping.join().expect("it ends");
    assert!(dump.contains("c integer DEFAULT 7") && dump.contains("1\tone\t7\n"), "{dump}");
    assert_eq!(style, "German, DMY");
}

/// A folder from before there were checks has none, and takes them; who holds rows to them holds them to it
/// after a restart, too.
#[test]
fn checks_hold_after_a_restart() {
    let folder = TempFolder::new().expect("a folder");
    let open = || Database::open(folder.path().join("db")).expect("a database");
    let refused = |s: &mut Session, sql: &str| {
        let e = s.execute(sql).expect_err(sql);
        assert_eq!(e.sqlstate(), "23514", "{sql}: {e}");
    };
    let db = open();
    let mut s = db.session();
    s.execute(TABLE).expect("a table");
    s.execute("CREATE FUNCTION put(int) RETURNS void LANGUAGE sql AS 'INSERT INTO t VALUES ($1)'")
        .expect("made");
    s.execute("SELECT put(3); ALTER TABLE t ADD CHECK (a > 0)").expect("a check");
    refused(&mut s, "SELECT put(-3)");
    drop(s);
    drop(db);
    for again in 0..2 {
        let db = open();
        let mut s = db.session();
        refused(&mut s, "SELECT put(-3)");
        refused(&mut s, "INSERT INTO t VALUES (-3)");
        refused(&mut s, "UPDATE t SET a = -a");
        s.execute(&format!("SELECT put({})", 4 + again)).expect("a row");
        drop(s);
        db.close().expect("it closes");
    }
    assert_eq!(rows(&mut open().session()), ["1|one", "2|two", "3|NULL", "4|NULL", "5|NULL"]);
}
