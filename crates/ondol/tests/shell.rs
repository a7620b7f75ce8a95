//! The shell from outside: what a script, a pipe and another process see.
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const ONDOL: &str = env!("CARGO_BIN_EXE_ondol");

struct Place(ondol::TempFolder);

impl Place {
    fn new() -> Place {
        Place(ondol::TempFolder::new().expect("a temporary folder"))
    }
    fn db(&self) -> std::path::PathBuf {
        self.0.path().join("db")
    }
    fn file(&self, name: &str, content: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).expect("a file is written");
        path.display().to_string()
    }
    fn shell(&self, args: &[&str]) -> Ran {
        self.fed(args, "")
    }
    fn fed(&self, args: &[&str], input: &str) -> Ran {
        let mut all = vec!["shell", self.0.path().to_str().expect("a plain path")];
        let db = self.db();
        all[1] = db.to_str().expect("a plain path");
        all.extend(args);
        ran(&all, input)
    }
}

#[derive(Debug)]
struct Ran {
    out: String,
    err: String,
    code: Option<i32>,
}

fn ran(args: &[&str], input: &str) -> Ran {
    let mut child = Command::new(ONDOL)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("ondol starts");
    // A child that failed early closes its end: what it did not read is not missed.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().expect("ondol ends");
    Ran {
        out: String::from_utf8(stdout).expect("text"),
        err: String::from_utf8(stderr).expect("text"),
        code: status.code(),
    }
}

#[test]
fn rows_and_tags_on_stdout_nothing_else() {
    let p = Place::new();
    let r = p.shell(&["-c", "CREATE TABLE t (a integer, b text); INSERT INTO t VALUES (1, 'x'), (2, NULL)"]);
    assert_eq!((r.out.as_str(), r.err.as_str(), r.code), ("CREATE TABLE\nINSERT 0 2\n", "", Some(0)));
    let r = p.shell(&["-c", "SELECT * FROM t ORDER BY a"]);
    assert_eq!(r.out, " a | b \n---+---\n 1 | x\n 2 | \n(2 rows)\n\n");
    let r = p.fed(&[], "BEGIN;\nUPDATE t SET b = 'y' WHERE a = 1;\nCOMMIT;\nSELECT b FROM t WHERE a = 1");
    assert_eq!(r.out, "BEGIN\nUPDATE 1\nCOMMIT\n b \n---\n y\n(1 row)\n\n");
    let r = p.shell(&["-c", "BEGIN", "-c", "BEGIN", "-c", "ROLLBACK"]);
    assert_eq!((r.out.as_str(), r.code), ("BEGIN\nBEGIN\nROLLBACK\n", Some(0)));
    assert_eq!(r.err, "WARNING:  there is already a transaction in progress\n");
}

#[test]
fn csv_and_json() {
    let p = Place::new();
    let sql =
        "SELECT 1 AS a, true AS b, NULL::text AS c, 'x,\"y\"' AS d, '' AS e, 1.50 AS f, 'NaN'::float8 AS g";
    let r = p.shell(&["--format", "csv", "-c", sql]);
    assert_eq!(r.out, "a,b,c,d,e,f,g\n1,t,,\"x,\"\"y\"\"\",,1.50,NaN\n");
    let r = p.shell(&["--format", "json", "-c", sql]);
    assert_eq!(
        r.out,
        "[{\"a\":1,\"b\":true,\"c\":null,\"d\":\"x,\\\"y\\\"\",\"e\":\"\",\"f\":1.50,\"g\":\"NaN\"}]\n"
    );
    let r = p.shell(&[
        "--format",
        "csv",
        "-c",
        "CREATE TABLE t (a integer); SELECT * FROM t; INSERT INTO t VALUES (1) RETURNING a",
    ]);
    assert_eq!(r.out, "CREATE TABLE\na\na\n1\nINSERT 0 1\n");
}

#[test]
fn records_tell_of_each_statement_in_one_line() {
    let p = Place::new();
    let sql = "CREATE TABLE t (a integer, b varchar(5));
        INSERT INTO t VALUES (1, E'x\"\\ny'), (2, NULL) RETURNING a;
        SELECT *, 1.50 FROM t ORDER BY a;
        SELECT a FROM t WHERE false;
        COPY t (a) TO STDOUT;
        COPY t FROM STDIN;
7\t\\N
\\.
        SELECT 1/0;
        TABLE nothing";
    let r = p.fed(&["--format", "records", "--keep-going"], sql);
    let expected = r#"{"session":"main","tag":"CREATE TABLE"}
{"session":"main","columns":["a"],"types":["integer"],"rows":[["1"],["2"]],"tag":"INSERT 0 2"}
{"session":"main","columns":["a","b","?column?"],"types":["integer","character varying(5)","numeric"],"rows":[["1","x\"\ny","1.50"],["2",null,"1.50"]],"tag":"SELECT 2"}
{"session":"main","columns":["a"],"types":["integer"],"rows":[],"tag":"SELECT 0"}
{"session":"main","copied":"1\n2\n","tag":"COPY 2"}
{"session":"main","tag":"COPY 1"}
{"session":"main","sqlstate":"22012","message":"division by zero"}
{"session":"main","sqlstate":"42P01","message":"relation \"nothing\" does not exist"}
"#;
    assert_eq!((r.out.as_str(), r.err.as_str(), r.code), (expected, "", Some(1)));
}

#[test]
fn a_statement_of_one_session_waits_for_another_session() {
    let p = Place::new();
    let sql = "CREATE TABLE t (a integer PRIMARY KEY, b integer); INSERT INTO t VALUES (1, 1);
        BEGIN; UPDATE t SET b = 2;
        \\session other
        SELECT b FROM t;
        UPDATE t SET b = b + 10;
        SELECT 'refused';
        \\session third
        INSERT INTO t VALUES (1, 5);
        \\session main
        \\format csv
        \\session
        \\format records
        COMMIT;
        \\session other
        COPY t FROM STDIN;
2\t7
\\.
        TABLE t ORDER BY a;
        BEGIN; UPDATE t SET b = 0;
        \\session main
        UPDATE t SET b = 1;
";
    let r = p.fed(&["--format", "records", "--keep-going"], sql);
    let expected = r#"{"session":"main","tag":"CREATE TABLE"}
{"session":"main","tag":"INSERT 0 1"}
{"session":"main","tag":"BEGIN"}
{"session":"main","tag":"UPDATE 1"}
{"session":"other","columns":["b"],"types":["integer"],"rows":[["1"]],"tag":"SELECT 1"}
{"session":"other","waits":true}
{"session":"other","sqlstate":"55000","message":"session \"other\" still waits with its last statement"}
{"session":"third","waits":true}
         Sessions
 name  |      state
-------+------------------
 main  | in a transaction
 other | waiting
 third | waiting
(3 rows)

{"session":"main","tag":"COMMIT"}
{"session":"other","tag":"UPDATE 1"}
{"session":"third","sqlstate":"23505","message":"duplicate key value violates unique constraint \"t_pkey\""}
{"session":"other","tag":"COPY 1"}
{"session":"other","columns":["a","b"],"types":["integer","integer"],"rows":[["1","12"],["2","7"]],"tag":"SELECT 2"}
{"session":"other","tag":"BEGIN"}
{"session":"other","tag":"UPDATE 2"}
{"session":"main","waits":true}
"#;
    assert_eq!(lines_without_trailing_blanks(&r.out), expected);
    assert!(r.err.contains("57014"), "{r:?}");
    // What was still waiting at the end is undone, and so is what it waited for.
    let r = p.shell(&["--format", "csv", "-c", "TABLE t ORDER BY a"]);
    assert_eq!(r.out, "a,b\n1,12\n2,7\n");
}

fn lines_without_trailing_blanks(text: &str) -> String {
    text.lines().map(|l| format!("{}\n", l.trim_end())).collect()
}

#[test]
fn the_first_error_ends_a_script() {
    let p = Place::new();
    let file = p.file("s.sql", "CREATE TABLE t (a integer);\nINSERT INTO t VALUES (1);\nSELECT *\nFROM nothing;\nINSERT INTO t VALUES (2);\n");
    let r = p.shell(&["-f", &file]);
    assert_eq!((r.out.as_str(), r.code), ("CREATE TABLE\nINSERT 0 1\n", Some(1)));
    assert_eq!(
        r.err,
        format!(
            "ERROR:  relation \"nothing\" does not exist\nLINE 2: FROM nothing;\n             ^\nSQLSTATE: 42P01\nSCRIPT: {file}, line 3\n"
        )
    );
    // What was before it is committed.
    assert_eq!(p.shell(&["--format", "csv", "-c", "SELECT count(*) FROM t"]).out, "count\n1\n");
    // A statement that was still in a transaction is not.
    let r = p.fed(&[], "BEGIN; INSERT INTO t VALUES (3); SELECT 1/0; COMMIT;");
    assert_eq!(r.code, Some(1));
    assert_eq!(p.shell(&["--format", "csv", "-c", "SELECT count(*) FROM t"]).out, "count\n1\n");
    let r = p.shell(&["--keep-going", "-f", &file]);
    assert_eq!((r.out.as_str(), r.code), ("INSERT 0 1\nINSERT 0 1\n", Some(1)));
}

/// What a dump of PostgreSQL's begins and ends with.
#[test]
fn backslash_commands_can_be_restricted() {
    let p = Place::new();
    let script = "\\restrict\n\\unrestrict k\n\\restrict Key1\n\\echo no\nSELECT 1\n\\q\n + 1;\n\\unrestrict key1\n\
                  \\unrestrict Key1\n\\echo yes\n";
    let r = p.fed(&["--keep-going"], script);
    let told: Vec<&str> = r.err.lines().filter(|l| !l.is_empty() && !l.starts_with("SCRIPT")).collect();
    let restricted = "backslash commands are restricted; only \\unrestrict is allowed";
    let missing = "\\restrict: missing required argument";
    let open = "\\unrestrict: not currently in restricted mode";
    assert_eq!(told, [missing, open, restricted, restricted, "\\unrestrict: wrong key"]);
    assert!(r.out.contains("yes") && !r.out.contains("no\n") && r.out.contains('2'), "{}", r.out);
}

#[test]
fn command_lines_that_make_no_sense() {
    assert_eq!(ran(&["shell"], "").code, Some(2));
    assert_eq!(ran(&["nothing"], "").code, Some(2));
    let r = ran(&["--version"], "");
    assert_eq!((r.out, r.code), (format!("ondol {}\n", env!("CARGO_PKG_VERSION")), Some(0)));
    let p = Place::new();
    let r = p.shell(&["--no-create", "-c", "SELECT 1"]);
    assert_eq!(r.code, Some(1));
    assert!(r.err.contains("SQLSTATE: 3D000"), "{}", r.err);
    let r = p.shell(&["-f", "/nothing/at/all.sql"]);
    assert_eq!(r.code, Some(1));
    assert!(r.err.contains("/nothing/at/all.sql"), "{}", r.err);
    let r = p.shell(&["-c", "\\nonsense"]);
    assert_eq!(r.code, Some(1));
    assert!(r.err.contains("invalid command \\nonsense"), "{}", r.err);
}

/// A driver writes a statement, waits for its tag, and only then writes the next one.
#[test]
fn each_tag_comes_before_the_next_statement_is_written() {
    let p = Place::new();
    let mut child = Command::new(ONDOL)
        .arg("shell")
        .arg(p.db())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("ondol starts");
    let mut to = child.stdin.take().expect("a pipe");
    let mut from = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut say = |sql: &str, wanted: &str| {
        to.write_all(sql.as_bytes()).expect("the shell reads");
        let mut line = String::new();
        from.read_line(&mut line).expect("the shell writes");
        assert_eq!(line, wanted);
    };
    say("CREATE TABLE t (a integer);\n", "CREATE TABLE\n");
    for i in 0..20 {
        say(&format!("INSERT INTO t VALUES ({i});\n"), "INSERT 0 1\n");
    }
    // Without a line end the semicolon is enough; the rest of the line belongs to the next statement.
    say("DELETE FROM t\n WHERE a = 3;\n", "DELETE 1\n");
    // Killed now, with its input open: what was told is there.
    child.kill().expect("it is killed");
    child.wait().expect("it is gone");
    assert_eq!(
        p.shell(&["--format", "csv", "-c", "SELECT count(*), min(a), max(a) FROM t"]).out,
        "count,min,max\n19,0,19\n"
    );
}

#[test]
fn copy_in_scripts() {
    let p = Place::new();
    let script = "CREATE TABLE t (a integer, b text);\nCOPY t FROM STDIN;\n1\tone\n2\t\\N\n\\.\nSELECT count(*) FROM t;\nCOPY t FROM STDIN (FORMAT csv);\n3,\"th\nree\"\n";
    let r = p.fed(&["--format", "csv"], script);
    assert_eq!((r.out.as_str(), r.code), ("CREATE TABLE\nCOPY 2\ncount\n2\nCOPY 1\n", Some(0)), "{}", r.err);
    // With -c, the data is standard input.
    let r =
        p.fed(&["-c", "COPY t FROM STDIN", "-c", "SELECT count(*) FROM t", "--format", "csv"], "4\tfour\n");
    assert_eq!(r.out, "COPY 1\ncount\n4\n");
    let r = p.shell(&["-c", "COPY (SELECT * FROM t ORDER BY a) TO STDOUT (FORMAT csv, HEADER)"]);
    assert_eq!(r.out, "a,b\n1,one\n2,\n3,\"th\nree\"\n4,four\n");
    let file = p.file("data.csv", "5,five\n6,six\n");
    let r = p.shell(&["-c", &format!("\\copy t from {file} (format csv)")]);
    assert_eq!((r.out.as_str(), r.code), ("COPY 2\n", Some(0)), "{}", r.err);
    let r = p.shell(&["-c", &format!("COPY t FROM '{file}.not' (FORMAT csv)")]);
    assert_eq!(r.code, Some(1));
    assert!(r.err.contains("SQLSTATE: 58P01"), "{}", r.err);
    // One bad line: none of the rows, and the place is told.
    let r = p.fed(&[], "COPY t FROM STDIN;\n7\tseven\nx\ty\n8\teight\n\\.\nSELECT 1;\n");
    assert_eq!((r.out.as_str(), r.code), ("", Some(1)));
    assert!(r.err.contains("CONTEXT:  COPY t, line 2, column a: \"x\""), "{}", r.err);
    let r = p.shell(&["--format", "csv", "-c", "SELECT max(a) FROM t"]);
    assert_eq!(r.out, "max\n6\n");
}

#[test]
fn describing() {
    let p = Place::new();
    p.shell(&["-c", "CREATE TABLE t (a integer PRIMARY KEY, b char(3) DEFAULT 'x', \"C d\" numeric(5,1) NOT NULL); CREATE INDEX i ON t USING hash (b)"]);
    let r = p.shell(&["-c", "\\d t"]);
    assert_eq!(
        r.out,
        concat!(
            "                Table \"public.t\"\n",
            " Column |     Type     | Nullable |   Default   \n",
            "--------+--------------+----------+-------------\n",
            " a      | integer      | not null | \n",
            " b      | character(3) |          | 'x'::bpchar\n",
            " C d    | numeric(5,1) | not null | \n",
            "Indexes:\n",
            "    \"t_pkey\" PRIMARY KEY, btree (a)\n",
            "    \"i\" hash (b)\n",
            "\n"
        ),
        "{}",
        r.err
    );
    let r = p.shell(&["-c", "\\dt", "-c", "\\di i", "-c", "\\x", "-c", "SELECT 1 AS one"]);
    assert_eq!(
        r.out,
        concat!(
            "   List of relations\n Schema | Name | Type  \n--------+------+-------\n public | t    | table\n(1 row)\n\n",
            "       List of relations\n Schema | Name | Type  | Table \n--------+------+-------+-------\n public | i    | index | t\n(1 row)\n\n",
            "-[ RECORD 1 ]\none | 1\n\n"
        )
    );
    assert_eq!(p.shell(&["-c", "\\d nothing"]).code, Some(1));
    let r = p.shell(&["-c", "\\d ondol_workers"]);
    assert!(
        r.out.contains("System view \"ondol_workers\"") && r.out.contains(" jobs_ended | bigint"),
        "{}",
        r.out
    );
    let r = p.shell(&["-c", "\\memory"]);
    assert!(
        r.out.contains("| t ") && r.out.contains("t_pkey") && r.out.contains("memory_limit"),
        "{}",
        r.out
    );
}

#[test]
fn one_process_at_a_time() {
    let p = Place::new();
    let db = ondol::Database::open(p.db()).expect("it opens");
    let r = p.shell(&["-c", "SELECT 1"]);
    assert_eq!(r.code, Some(1));
    assert!(r.err.contains("is in use") && r.err.contains("SQLSTATE: 55006"), "{}", r.err);
    db.close().expect("it closes");
    assert_eq!(p.shell(&["-c", "SELECT 1"]).code, Some(0));
}

/// Files that are not what they should be are told apart, and left as they are.
#[test]
fn damage_is_told_and_nothing_is_changed() {
    let p = Place::new();
    p.shell(&["-c", "CREATE TABLE t (a integer); INSERT INTO t VALUES (1), (2); CHECKPOINT"]);
    for name in ["manifest-0", "manifest-1"] {
        let path = p.db().join(name);
        let mut bytes = std::fs::read(&path).expect("the manifest");
        bytes[40] ^= 0x10;
        std::fs::write(&path, &bytes).expect("it is damaged");
    }
    let before = tree(&p.db());
    let r = p.shell(&["-c", "SELECT 1"]);
    assert_eq!(r.code, Some(1));
    assert!(r.err.contains("manifest") && r.err.contains("SQLSTATE: XX001"), "{}", r.err);
    let check = ran(&["check", p.db().to_str().expect("a plain path")], "");
    assert_eq!(check.code, Some(1));
    assert_eq!(before, tree(&p.db()));
}

/// Names and contents of a folder, but for the lock.
fn tree(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(f) = folders.pop() {
        for e in std::fs::read_dir(&f).expect("a folder") {
            let path = e.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|n| n != "lock") {
                let bytes = std::fs::read(&path).expect("a file");
                all.push((path.display().to_string(), bytes));
            }
        }
    }
    all.sort();
    all
}

#[test]
fn dump_and_restore_give_the_same_again() {
    let p = Place::new();
    let sql = r#"
        CREATE TABLE "Odd ""name" (a integer PRIMARY KEY, "select" text DEFAULT 'it''s', c char(4), d numeric(10,3) NOT NULL DEFAULT 1.5,
            e bytea, f timestamptz, g double precision, h boolean, i date, j smallint, k timestamp, l varchar(9), m interval,
            n interval hour to second(3), UNIQUE (c, d));
        INSERT INTO "Odd ""name" VALUES (1, E'tab\tnl\nback\\slash', 'ab', 2.25, '\x00ff', '2024-01-01 00:00:00+00', 'NaN', true,
            'infinity', -5, '2000-01-01 12:34:56.000001', '', '1 year -2 days 03:04', '5:06:07.8'),
            (2, NULL, NULL, 3, '', '-infinity', 1e-300, NULL, '0044-03-15 BC', NULL, NULL, '\N', NULL, '-0.5');
        CREATE TABLE empty (x bigint);
        CREATE UNIQUE INDEX h ON empty USING hash (x);
        CREATE INDEX down ON "Odd ""name" (d DESC, a);
        CREATE FUNCTION q(bigint) RETURNS SETOF empty LANGUAGE sql AS 'SELECT * FROM empty WHERE x = $1';
        CREATE FUNCTION r(low integer) RETURNS TABLE (n bigint) LANGUAGE sql AS 'SELECT count(*) FROM "Odd ""name" WHERE a > low';
    "#;
    let r = p.fed(&[], sql);
    assert_eq!(r.code, Some(0), "{}", r.err);
    let db = p.db().display().to_string();
    let dump = ran(&["dump", &db], "");
    assert_eq!(dump.code, Some(0), "{}", dump.err);
    let file = p.file("dump.sql", &dump.out);
    let other = p.0.path().join("other").display().to_string();
    let restored = ran(&["restore", &other, &file], "");
    assert_eq!(restored.code, Some(0), "{}", restored.err);
    assert_eq!(ran(&["dump", &other], "").out, dump.out);
    let r = ran(&["shell", &other, "--format", "csv", "-c", "SELECT * FROM r(0)"], "");
    assert_eq!(r.out, "n\n2\n");
    // The same where the log lies in several folders.
    let folder = |name: &str| p.0.path().join(name).display().to_string();
    let (several, log) = (folder("several"), folder("log"));
    let r = ran(&["restore", &several, &file, "--log-folder", &log], "");
    assert_eq!(r.code, Some(0), "{}", r.err);
    assert_eq!(ran(&["dump", &several, "--log-folder", &log], "").out, dump.out);
    let r = ran(&["dump", &several], "");
    assert!(r.code == Some(1) && r.err.contains("2 log streams"), "{}", r.err);
    // Functions whose bodies name what is no more, or what comes later.
    let sql = "CREATE TABLE gone (a integer); CREATE TABLE kept (a integer);
        CREATE FUNCTION late() RETURNS integer LANGUAGE sql AS 'SELECT a FROM gone';
        CREATE FUNCTION first() RETURNS integer LANGUAGE sql AS 'SELECT 1';
        CREATE FUNCTION second() RETURNS integer LANGUAGE sql AS 'SELECT 2';
        CREATE OR REPLACE FUNCTION first() RETURNS integer LANGUAGE sql AS 'SELECT second() + 1';
        CREATE FUNCTION rows() RETURNS SETOF kept LANGUAGE sql AS 'SELECT * FROM kept';
        DROP TABLE gone";
    let (fourth, fifth) = (folder("fourth"), folder("fifth"));
    let r = ran(&["shell", &fourth, "-c", sql, "-c", "DROP TABLE kept"], "");
    assert!(r.code == Some(1) && r.err.contains("function rows() depends on type kept"), "{}", r.err);
    let dump = ran(&["dump", &fourth], "");
    let file = p.file("functions.sql", &dump.out);
    let r = ran(&["restore", &fifth, &file], "");
    assert_eq!(r.code, Some(0), "{}", r.err);
    assert_eq!(ran(&["dump", &fifth], "").out, dump.out);
    let r = ran(&["shell", &fifth, "--format", "csv", "-c", "SELECT first()", "-c", "SELECT late()"], "");
    assert!(r.out == "first\n3\n" && r.err.contains("relation \"gone\" does not exist"), "{r:?}");
    let r = ran(&["shell", &fifth, "-c", "DROP TABLE kept CASCADE", "-c", "SELECT * FROM rows()"], "");
    assert!(r.err.contains("drop cascades to function rows()") && r.err.contains("42883"), "{}", r.err);
    // A restore that fails leaves nothing.
    let broken = p.file("broken.sql", &dump.out.replace("COMMIT;", "SELECT nothing;\nCOMMIT;"));
    let third = p.0.path().join("third").display().to_string();
    assert_eq!(ran(&["restore", &third, &broken], "").code, Some(1));
    assert_eq!(
        ran(&["shell", &third, "--format", "csv", "-c", "SELECT count(*) FROM ondol_tables"], "").out,
        "count\n0\n"
    );
}

#[test]
fn check_inspect_and_backup() {
    let p = Place::new();
    let r = p.fed(&[], "CREATE TABLE t (a integer PRIMARY KEY, b text);\nCREATE INDEX h ON t USING hash (b);\nINSERT INTO t VALUES (1, 'x'), (2, NULL);\nCHECKPOINT;\nUPDATE t SET b = 'a long string that needs a slot of its own' WHERE a = 1;\n");
    assert_eq!(r.code, Some(0), "{}", r.err);
    let db = p.db().display().to_string();
    let before = tree(&p.db());
    let check = ran(&["check", &db], "");
    assert_eq!(check.code, Some(0), "{}", check.err);
    assert!(
        check.out.contains("t_pkey on t: 2 entries for 2 rows") && check.out.ends_with("sound\n"),
        "{}",
        check.out
    );
    for what in [
        &["inspect", &db][..],
        &["inspect", &db, "log", "--bytes"],
        &["inspect", &db, "checkpoint"],
        &["inspect", &db, "manifest"],
    ] {
        let r = ran(what, "");
        assert_eq!(r.code, Some(0), "{what:?}: {}", r.err);
        assert!(!r.out.is_empty());
    }
    assert_eq!(before, tree(&p.db()), "looking changed something");
    // In use by another process, the database is copied all the same.
    let open = ondol::Database::open(p.db()).expect("it opens");
    open.session().execute("INSERT INTO t VALUES (3, 'late')").expect("it is inserted");
    assert_eq!(ran(&["check", &db], "").code, Some(1));
    let copy = p.0.path().join("copy").display().to_string();
    let backup = ran(&["backup", &db, &copy], "");
    assert_eq!(backup.code, Some(0), "{}", backup.err);
    open.session().execute("INSERT INTO t VALUES (4, 'too late')").expect("it is inserted");
    drop(open);
    assert_eq!(ran(&["check", &copy], "").code, Some(0));
    let r = ran(&["shell", &copy, "--format", "csv", "-c", "SELECT a, length(b) FROM t ORDER BY a"], "");
    assert_eq!(r.out, "a,length\n1,42\n2,\n3,4\n");
    assert_eq!(ran(&["backup", &db, &copy], "").code, Some(1), "a backup wrote into a folder in use");
    let inside = ran(&["backup", &db, &format!("{db}/a/b")], "");
    assert!(inside.code == Some(1) && inside.err.contains("is inside the database"), "{}", inside.err);
}

/// A backup that failed leaves nothing, one that was killed a mark: either way the next one is made, and what
/// is not complete is no database.
#[test]
fn a_backup_that_fails_can_be_made_again() {
    let p = Place::new();
    assert_eq!(p.shell(&["-c", "CREATE TABLE t (a integer); INSERT INTO t VALUES (1)"]).code, Some(0));
    let (db, copy) = (p.db().display().to_string(), p.0.path().join("copy"));
    let to = copy.display().to_string();
    let backup = || ran(&["backup", &db, &to], "");
    // What cannot be copied, and comes last.
    let block = p.db().join("log/000000000000.log");
    std::fs::create_dir(&block).expect("a folder");
    let failed = backup();
    assert!(failed.code == Some(1) && failed.err.contains("000000000000.log"), "{}", failed.err);
    assert!(!copy.exists(), "something was left: {:?}", tree(&copy));
    // In a folder that was there, that stays, empty.
    std::fs::create_dir(&copy).expect("a folder");
    assert_eq!(backup().code, Some(1));
    assert_eq!(std::fs::read_dir(&copy).expect("it is there").count(), 0);
    std::fs::remove_dir(&block).expect("removed");
    // Killed in the midst, with more log folders than there are now.
    std::fs::create_dir_all(copy.join("log-1")).expect("a folder");
    std::fs::create_dir_all(copy.join("log")).expect("a folder");
    for name in [
        "backup-unfinished",
        "lock",
        "manifest-0",
        "manifest-1",
        "checkpoint-00000009",
        "log/000000000077.log",
        "log-1/000000000001.log",
    ] {
        std::fs::write(copy.join(name), "half").expect("written");
    }
    let opened = ran(&["shell", &to, "-c", "SELECT 1"], "");
    assert!(
        opened.code == Some(1) && opened.err.contains("55000") && opened.err.contains("not completed"),
        "{}",
        opened.err
    );
    let done = backup();
    assert_eq!(done.code, Some(0), "{}", done.err);
    for name in ["backup-unfinished", "lock", "checkpoint-00000009", "log/000000000077.log", "log-1"] {
        assert!(!copy.join(name).exists(), "{name}");
    }
    assert_eq!(ran(&["shell", &to, "--format", "csv", "-c", "SELECT a FROM t"], "").out, "a\n1\n");
    // A complete one is not gone over, nor what else is in a folder with the mark.
    let again = backup();
    assert!(again.code == Some(1) && again.err.contains("is not empty"), "{}", again.err);
    let other = p.0.path().join("other");
    std::fs::create_dir(&other).expect("a folder");
    std::fs::write(other.join("backup-unfinished"), "").expect("written");
    std::fs::write(other.join("letter.txt"), "mine").expect("written");
    let refused = ran(&["backup", &db, other.to_str().expect("a plain path")], "");
    assert!(refused.code == Some(1) && refused.err.contains("is not empty"), "{}", refused.err);
    assert!(other.join("letter.txt").exists());
}

/// The version comes before the checksum, which another version may have elsewhere.
#[test]
fn another_format_version_is_named() {
    let p = Place::new();
    assert_eq!(
        p.shell(&["-c", "CREATE TABLE t (a integer); INSERT INTO t VALUES (1); CHECKPOINT"]).code,
        Some(0)
    );
    let db = p.db().display().to_string();
    let set = |name: &str, version: u8| {
        let mut bytes = std::fs::read(p.db().join(name)).expect("it is there");
        bytes[8] = version;
        std::fs::write(p.db().join(name), bytes).expect("written");
    };
    let copy = p.0.path().join("copy").display().to_string();
    let told = |file: &str| {
        let before = tree(&p.db());
        for args in [
            &["shell", &db, "-c", "SELECT 1"][..],
            &["check", &db],
            &["dump", &db],
            &["inspect", &db, "checkpoint"],
            &["backup", &db, &copy],
        ] {
            let r = ran(args, "");
            let what = format!("{file}: found format version 7, expected 1");
            assert!(r.code == Some(1) && r.err.contains(&what), "{args:?}: {}", r.err);
            assert!(
                matches!(args[0], "check" | "backup") || r.err.contains("SQLSTATE: 0A000"),
                "{args:?}: {}",
                r.err
            );
        }
        assert_eq!(before, tree(&p.db()), "something was changed");
    };
    set("manifest-0", 7);
    set("manifest-1", 7);
    told("manifest-0");
    // One copy may have rotted.
    set("manifest-0", 1);
    let r = p.shell(&["--format", "csv", "-c", "SELECT a FROM t"]);
    assert_eq!((r.out.as_str(), r.code), ("a\n1\n", Some(0)));
    assert!(
        r.err.contains("WARNING:  manifest-1: found format version 7")
            && r.err.contains("the other copy was used"),
        "{}",
        r.err
    );
    set("checkpoint-00000001", 7);
    told("checkpoint-00000001");
}

/// Where nothing may be written a database is looked at all the same: locked by what is there, and if nothing
/// is, with a warning.
#[test]
fn what_may_not_be_written_is_looked_at() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    let p = Place::new();
    assert_eq!(p.shell(&["-c", "CREATE TABLE t (a integer); INSERT INTO t VALUES (41)"]).code, Some(0));
    let (db, copy) = (p.db(), p.0.path().join("copy"));
    assert_eq!(
        ran(&["backup", db.to_str().expect("a plain path"), copy.to_str().expect("a plain path")], "").code,
        Some(0)
    );
    // Whom the permissions do not hold has a user run it whom they do; that one must come as far as the
    // program.
    let program = p.0.path().join("ondol");
    std::fs::copy(ONDOL, &program).expect("copied");
    let modes = |folder: &Path, files: u32, folders: u32| {
        for name in ["", "log", "lock"].map(|n| folder.join(n)).iter().filter(|n| n.exists()) {
            let mode = if name.is_dir() { folders } else { files };
            std::fs::set_permissions(name, std::fs::Permissions::from_mode(mode)).expect("set");
        }
    };
    std::fs::set_permissions(p.0.path(), std::fs::Permissions::from_mode(0o755)).expect("set");
    let root = std::fs::metadata(p.0.path()).expect("it is there").uid() == 0;
    let looks: [&[&str]; 3] = [&["check"], &["inspect"], &["dump"]];
    let look = |args: &[&str], folder: &Path| {
        let mut command = Command::new(&program);
        command.arg(args[0]).arg(folder).args(&args[1..]);
        if root {
            command.uid(65534).gid(65534);
        }
        let Output { status, stdout, stderr } = command.output().expect("ondol runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        (status.code(), text(stdout), text(stderr))
    };
    for folder in [&db, &copy] {
        modes(folder, 0o444, 0o555);
        let before = tree(folder);
        for args in looks {
            let (code, out, err) = look(args, folder);
            assert_eq!(code, Some(0), "{args:?}: {err}");
            assert!(args[0] != "dump" || out.contains("\n41\n"), "{out}");
            assert_eq!(
                err.contains("WARNING:") && err.contains("nothing is locked"),
                folder == &copy,
                "{args:?}: {err}"
            );
        }
        assert_eq!(before, tree(folder), "looking changed something");
        modes(folder, 0o644, 0o755);
    }
    // The lock that is there is looked at.
    let open = ondol::Database::open(&db).expect("it opens");
    modes(&db, 0o444, 0o555);
    for args in looks {
        let (code, _, err) = look(args, &db);
        assert!(code == Some(1) && err.contains("is in use"), "{args:?}: {err}");
    }
    modes(&db, 0o644, 0o755);
    open.close().expect("closed");
}

#[test]
fn the_demo_proves_itself() {
    let r = ran(&["demo", "--rows", "3000", "--seconds", "0.1", "--json"], "");
    assert_eq!(r.code, Some(0), "{}", r.err);
    assert!(r.out.starts_with('{') && r.out.ends_with("}\n"), "{}", r.out);
    let number = |key: &str| {
        let at =
            r.out.find(&format!("\"{key}\": ")).unwrap_or_else(|| panic!("{key} is missing in {}", r.out));
        let rest = &r.out[at + key.len() + 4..];
        rest[..rest.find([',', '\n']).expect("an end")].parse::<f64>().expect("a number")
    };
    assert!(number("recovered_updates") >= number("acknowledged_updates"));
    assert!(number("acknowledged_updates") > 0.0);
    for key in [
        "load_rows_per_second",
        "q1_per_second",
        "q2_batch10_per_second",
        "q3_batch50_per_second",
        "q4_per_second",
    ] {
        assert!(number(key) > 0.0, "{key}");
    }
}

#[test]
fn the_demo_of_quotes_finds_the_same_by_each_way() {
    let folder = ondol::TempFolder::new().expect("a folder");
    let file = folder.path().join("boxes.svg");
    let file = file.to_str().expect("a name");
    let quotes = &["demo", "--scenario", "quotes", "--rows", "20000", "--seconds", "0.05"];
    let r = ran(&[&quotes[..], &["--json", "--picture", file]].concat(), "");
    assert_eq!(r.code, Some(0), "{}", r.err);
    for key in ["scan_boxes", "btree_boxes", "btree3_boxes", "crtree_boxes", "neighbours", "updates"] {
        assert!(r.out.contains(&format!("\"{key}_per_second\": ")), "{key} is missing in {}", r.out);
    }
    let picture = std::fs::read_to_string(file).expect("a picture");
    assert!(picture.starts_with("<svg") && picture.matches("<rect").count() > 10, "{picture}");
    // What is of the other scenario is refused.
    let r = ran(&[&quotes[..], &["--kills", "2"]].concat(), "");
    assert!(r.code == Some(1) && r.err.contains("--kills is of --scenario subscribers"), "{}", r.err);
    let r = ran(&["demo", "--rows", "10", "--picture", file], "");
    assert!(r.code == Some(1) && r.err.contains("--picture is of --scenario quotes"), "{}", r.err);
}

#[test]
fn a_seed_simulates_the_same_each_time() {
    let once = ran(&["sim", "--seed", "7"], "");
    assert_eq!(once.code, Some(0), "{}{}", once.out, once.err);
    assert!(once.out.starts_with("seed 7: trace "), "{}", once.out);
    assert_eq!(once.out, ran(&["sim", "--seed", "7"], "").out);
    assert_ne!(once.out, ran(&["sim", "--seed", "8"], "").out);
}

/// At a terminal, an interrupt ends the statement and the line, not the shell.
#[test]
fn an_interrupt_ends_the_running_statement() {
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};
    let p = Place::new();
    // "exec": a shell in between would be the one that the interrupt ends.
    let command = format!("exec {ONDOL} shell {}", p.db().display());
    // Of util-linux: gives its child a terminal.
    let mut child = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .env("TERM", "xterm")
        .env("HOME", p.0.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script (of util-linux) starts");
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = child.stdout.take().expect("a pipe");
    let shown = Arc::new(Mutex::new(String::new()));
    let theirs = shown.clone();
    let reader = std::thread::spawn(move || {
        let mut buf = [0; 4096];
        while let Ok(n @ 1..) = std::io::Read::read(&mut output, &mut buf) {
            theirs.lock().unwrap().push_str(&String::from_utf8_lossy(&buf[..n]));
        }
    });
    let started = Instant::now();
    // Types it until the text shows: what is typed just when an interrupt comes is dropped by the terminal.
    let mut typed = |text: &str, patience: Duration, there: &str, times: usize| {
        let mut last = Duration::MAX;
        while shown.lock().unwrap().matches(there).count() < times {
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "no {there:?} in {:?}",
                shown.lock().unwrap()
            );
            if last > patience {
                input.write_all(text.as_bytes()).expect("somebody listens");
                last = Duration::ZERO;
            }
            std::thread::sleep(Duration::from_millis(50));
            last = last.saturating_add(Duration::from_millis(50));
        }
    };
    let (soon, late) = (Duration::from_millis(200), Duration::from_secs(4));
    typed("", late, "ondol=> ", 1);
    let line = "BEGIN; SELECT count(*) FROM generate_series(1, 1000000000000); SELECT 20 + 21;\r";
    typed(line, late, "BEGIN\r\n", 1);
    typed("\x03", soon, "SQLSTATE: 57014", 1);
    typed("SELECT 1;\r", late, "current transaction is aborted", 1);
    typed("ROLLBACK; SELECT 50 + 5;\r", late, "55", 1);
    // Nor is data of COPY waited for any more.
    typed("CREATE TABLE t (a integer); COPY t FROM STDIN;\r", late, ">> ", 1);
    typed("\x03", late, "SQLSTATE: 57014", 2);
    typed("SELECT 60 + 6;\r", late, "66", 1);
    input.write_all(b"\\q\r").expect("somebody listens");
    drop(input);
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    reader.join().unwrap();
    let shown = shown.lock().unwrap();
    assert!(!shown.contains("41"), "{shown:?}");
}

/// The doctor looks at a folder, or says why it cannot.
#[test]
fn the_doctor_of_sqlite_reports_or_says_why_not() {
    let p = Place::new();
    let folder = p.0.path().display().to_string();
    let r = ran(&["sqlite", "doctor", &folder], "");
    assert_eq!(r.code, Some(0), "{}", r.err);
    for what in
        ["file system", "FICLONERANGE", "XFS_IOC_EXCHANGE_RANGE", "F2FS_IOC_MOVE_RANGE", "MAP_SYNC", "to set"]
    {
        assert!(r.out.contains(what), "{what}: {}", r.out);
    }
    let missing = ran(&["sqlite", "doctor", &format!("{folder}/none.db")], "");
    assert!(missing.code == Some(1) && missing.err.contains("no such file or folder"), "{}", missing.err);
}

/// What a user gets wrong with files is told by what was expected, what was found, and where.
/// Writing to a full disk, or to a reader that has gone, is an error that is told, and no panic.
#[test]
fn output_that_nobody_takes() {
    let p = Place::new();
    assert_eq!(p.shell(&["-c", "CREATE TABLE t (a integer)"]).code, Some(0));
    let (db, copy) = (p.db().display().to_string(), p.0.path().join("copy").display().to_string());
    let small: &[&str] = &["demo", "--rows", "10", "--seconds", "0.01"];
    for args in [
        &["check", &db][..],
        &["backup", &db, &copy],
        &["dump", &db],
        &["inspect", &db],
        &["sim", "--seed", "1", "--mutation", "list"],
        small,
    ] {
        let full = std::fs::File::create("/dev/full").expect("it can be opened");
        let ran = Command::new(ONDOL).args(args).stdout(full).output().expect("ondol runs");
        let err = String::from_utf8(ran.stderr).expect("text");
        assert!(ran.status.code() == Some(1) && err.contains("No space left"), "{args:?}: {err}");
    }
    // Nobody reads the errors either.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut broken = Command::new(ONDOL);
    broken.args(["shell", &db, "-c", "nothing"]).stdout(writer.try_clone().expect("a handle")).stderr(writer);
    assert_eq!(broken.status().expect("ondol runs").code(), Some(1));
}

#[test]
fn an_interrupted_demo_leaves_no_folder() {
    use std::time::{Duration, Instant};
    let p = Place::new();
    let mut demo = Command::new(ONDOL)
        .args(["demo", "--rows", "1000", "--seconds", "60"])
        .env("TMPDIR", p.0.path())
        .stderr(Stdio::null())
        .spawn()
        .expect("the demo starts");
    let entries = || std::fs::read_dir(p.0.path()).expect("a folder").count();
    let end = Instant::now() + Duration::from_secs(20);
    // Its folder is there once it awaits the interrupt, or just before: the file in it is made later.
    let begun = || tree(p.0.path()).iter().any(|(name, _)| name.contains("directory"));
    while !begun() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(entries(), 1);
    // The shell's own: the program is not everywhere.
    let kill = format!("kill -INT {}", demo.id());
    let kill = Command::new("sh").args(["-c", &kill]).status().expect("the shell runs");
    assert!(kill.success());
    assert_eq!(demo.wait().expect("it ends").code(), Some(130));
    assert_eq!(entries(), 0);
}

#[test]
fn numbers_below_those_allowed_are_named() {
    for (option, found) in [("--rows", "-1"), ("--seconds", "-0.5"), ("--kills", "-1")] {
        let r = ran(&["demo", option, found], "");
        assert!(
            r.code == Some(2) && r.err.contains(&format!("invalid value '{found}' for '{option}")),
            "{}",
            r.err
        );
    }
}

#[test]
fn errors_of_files_name_them() {
    let p = Place::new();
    let r = p.shell(&["--memory-limit", "1M", "-c", "SELECT 1"]);
    assert!(r.err.contains("a memory limit of 1048576 bytes is too small"), "{}", r.err);
    assert!(p.shell(&["-c", "CREATE TABLE t (a integer)"]).code == Some(0));
    let missing = ran(&["restore", &format!("{}/new", p.0.path().display()), "/nowhere.sql"], "");
    assert!(missing.code == Some(1) && missing.err.contains("/nowhere.sql"), "{}", missing.err);
    assert!(!p.0.path().join("new").exists(), "a missing script made a database");
    let folder = p.0.path().display().to_string();
    let r = ran(&["restore", &format!("{folder}/new"), &folder], "");
    assert!(r.code == Some(1) && r.err.contains("found a folder"), "{}", r.err);
    assert!(!p.0.path().join("new").exists(), "a folder for a script made a database");
    let r = p.shell(&["-c", &format!("COPY t FROM '{folder}'")]);
    assert!(r.err.contains(&format!("\"{folder}\" is a directory")), "{}", r.err);
    let r = p.shell(&["-c", "COPY t TO '/dev/full'", "-c", "SELECT 1"]);
    assert_eq!(r.code, Some(0), "no row, no write: {}", r.err);
    let r = p.shell(&["-c", "INSERT INTO t VALUES (1); COPY t TO '/dev/full'"]);
    assert!(
        r.err.contains("No space left") && r.err.contains("/dev/full") && r.err.contains("53100"),
        "{}",
        r.err
    );
    // A limit on file sizes is an error like a full disk, not a signal.
    let limited = format!("ulimit -f 100; exec {ONDOL} shell {folder}/other -c 'CREATE TABLE t (a integer)'");
    let ran = Command::new("sh").args(["-c", &limited]).output().expect("sh runs");
    let err = String::from_utf8(ran.stderr).expect("text");
    assert_eq!(ran.status.code(), Some(1), "{err}");
    assert!(err.contains("File too large") && err.contains("SQLSTATE: 53100"), "{err}");
    // Without its manifests a database is neither sound nor absent.
    for name in ["manifest-0", "manifest-1"] {
        std::fs::write(p.db().join(name), "none").expect("written");
    }
    let r = ran_check(&p);
    assert!(r.out.is_empty() && r.err.contains("damaged manifest"), "{r:?}");
    for name in ["manifest-0", "manifest-1"] {
        std::fs::remove_file(p.db().join(name)).expect("removed");
    }
    assert!(ran_check(&p).err.contains("yet no manifest"));
}
fn ran_check(p: &Place) -> Ran {
    ran(&["check", p.db().to_str().expect("a plain path")], "")
}

#[test]
fn flipped_bytes_are_found_or_harm_nothing() {
    let flips = ran(&["sim", "--seed", "1", "--flips", "300"], "");
    for what in ["manifest: found, with a warning", "checkpoint: found", "log: found", "in unused space"] {
        assert!(flips.out.contains(what), "{what}: {} {}", flips.out, flips.err);
    }
}

/// Every file below a folder, with its length and when it was changed.
fn files(of: &Path) -> Vec<(std::path::PathBuf, u64, std::time::SystemTime)> {
    let mut all = vec![];
    for entry in std::fs::read_dir(of).expect("a folder") {
        let path = entry.expect("an entry").path();
        let meta = std::fs::metadata(&path).expect("it is there");
        match meta.is_dir() {
            true => all.extend(files(&path)),
            false => all.push((path, meta.len(), meta.modified().expect("a time"))),
        }
    }
    all.sort();
    all
}

#[test]
fn a_database_is_made_in_a_folder_of_its_own() {
    let place = Place::new();
    let folder = place.db();
    std::fs::create_dir_all(folder.join("log")).expect("a folder");
    std::fs::write(folder.join("log/apt.log"), "not ours").expect("a file");
    let before = files(&folder);
    let script = place.file("s.sql", "CREATE TABLE t (a int);");
    let refused = |r: Ran, name: &str| {
        assert!(r.code != Some(0) && r.err.contains("22023") && r.err.contains(name), "{r:?}");
        assert_eq!(files(&folder), before);
        assert!(!folder.join("lock").exists());
    };
    refused(place.shell(&["-c", "SELECT 1"]), "found \"apt.log\"");
    refused(ran(&["restore", folder.to_str().expect("a plain path"), &script], ""), "found \"apt.log\"");
    let (other, log) = (place.0.path().join("other"), folder.join("log"));
    let (other, log) = (other.to_str().expect("a plain path"), log.to_str().expect("a plain path"));
    refused(ran(&["shell", other, "--log-folder", log, "-c", "SELECT 1"], ""), "found \"apt.log\"");
    std::fs::remove_file(folder.join("log/apt.log")).expect("removed");
    // What a making that was cut short, or the file system, leaves is no hindrance.
    std::fs::create_dir(folder.join("lost+found")).expect("a folder");
    std::fs::write(folder.join("lock"), "").expect("a file");
    let r = place.shell(&["-c", "SELECT 1"]);
    assert_eq!(r.code, Some(0), "{r:?}");
}
