//! The sizes that docs/sql.md names are those at which statements are refused, with the limit and what was
//! found.
use ondol::{Database, Session, TempFolder};

/// The number in the table of sizes, of what begins so.
fn limit(what: &str) -> usize {
    let page = include_str!("../../../docs/sql.md");
    let (_, table) = page.split_once("\n## Sizes\n").expect("a section of sizes");
    let start = format!("| {what}");
    let row = table.lines().find(|l| l.starts_with(&start)).expect("a row");
    let number = row.split('|').nth(2).expect("a number").trim();
    let digits: String = number.chars().take_while(|c| *c != ' ').filter(|c| *c != ',').collect();
    digits.parse().expect("a number")
}

/// The SQLSTATE and message of a statement that is refused.
fn refused(s: &mut Session, sql: &str) -> (String, String) {
    let e = s.execute(sql).expect_err(&sql[..sql.len().min(100)]);
    (e.sqlstate().to_string(), format!("{e} {}", e.0.hint.as_deref().unwrap_or_default()))
}

fn list(n: usize, item: impl Fn(usize) -> String) -> String {
    (0..n).map(item).collect::<Vec<_>>().join(", ")
}

fn session() -> (TempFolder, Session) {
    let folder = TempFolder::new().expect("a folder");
    let session = Database::open(folder.path()).expect("opens").session();
    (folder, session)
}

#[test]
fn a_value_has_the_named_size() {
    let (_folder, mut s) = session();
    let most = limit("a value");
    // One of that size is stored by the example `large`.
    for sql in ["SELECT repeat('x', $1)", "SELECT convert_to(repeat('x', $1), 'UTF8')"] {
        let (state, message) = refused(&mut s, &sql.replace("$1", &(most + 1).to_string()));
        assert_eq!((&*state, message.trim()), ("54000", "requested length too large"));
    }
}

fn one(s: &mut Session, sql: &str) -> String {
    let rows = s.query(sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e}"));
    rows.row(0).get::<String>(0).unwrap_or_else(|e| panic!("{sql}: {e}"))
}

fn dumped(s: &mut Session) -> Vec<u8> {
    let mut text = Vec::new();
    s.dump(&mut text, |_, _| {}).expect("a dump");
    text
}

/// Restores a dump into a folder of that name.
fn restored(folder: &TempFolder, dump: &[u8]) -> Database {
    let (file, path) = (folder.path().join("dump"), folder.path().join("restored"));
    std::fs::write(&file, dump).expect("a file");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ondol"));
    let done = command.arg("restore").args([&path, &file]).output().expect("the command");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Database::open(path).expect("opens")
}

/// A folder is checked.
fn checked(path: &std::path::Path) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_ondol"));
    let done = command.arg("check").arg(path).output().expect("the command");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

#[test]
fn a_value_of_many_megabytes_is_a_value_like_others() {
    let folder = TempFolder::new().unwrap();
    let path = folder.path().join("db");
    let db = Database::open(&path).unwrap();
    let mut s = db.session();
    s.execute("CREATE TABLE t (id int PRIMARY KEY, a text, b bytea)").unwrap();
    s.execute("INSERT INTO t VALUES (1, repeat('abcdefg', 3000000), NULL), (2, 'short', '\\x00')").unwrap();
    let shape = |s: &mut Session| {
        one(
            s,
            "SELECT string_agg(concat_ws(' ', id, length(a), left(a, 9), right(a, 9), length(b), \
             a = repeat('abcdefg', 3000000)), '; ' ORDER BY id) FROM t",
        )
    };
    let first = "1 21000000 abcdefgab fgabcdefg t; 2 5 short short 1 f";
    assert_eq!(shape(&mut s), first);
    // What others see, and what is undone.
    let mut other = db.session();
    other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    assert_eq!(shape(&mut other), first);
    s.execute("BEGIN; UPDATE t SET a = repeat('z', 5000000) WHERE id = 1; SAVEPOINT p").unwrap();
    s.execute("UPDATE t SET b = convert_to(repeat('y', 4194112), 'UTF8')").unwrap();
    assert!(shape(&mut s).starts_with("1 5000000 zzzzzzzzz zzzzzzzzz 4194112 f; 2 5 short short 4194112"));
    s.execute("ROLLBACK TO p").unwrap();
    assert!(shape(&mut s).starts_with("1 5000000 zzzzzzzzz zzzzzzzzz f; 2 5 short short 1 f"));
    assert_eq!(shape(&mut other), first);
    s.execute("ROLLBACK").unwrap();
    assert_eq!(shape(&mut s), first);
    s.execute("UPDATE t SET a = a || 'h', b = convert_to(a, 'UTF8') WHERE id = 1").unwrap();
    let second = "1 21000001 abcdefgab gabcdefgh 21000000 f; 2 5 short short 1 f";
    assert_eq!(shape(&mut s), second);
    assert_eq!(shape(&mut other), first);
    other.execute("COMMIT").unwrap();
    drop((s, other, db));
    // Recovery reads it from the log, then from the checkpoint with the log, then from the checkpoint.
    for step in 0..3 {
        let db = Database::open(&path).unwrap();
        assert_eq!(shape(&mut db.session()), second, "step {step}");
        if step > 0 {
            db.checkpoint().unwrap()
        }
    }
    checked(&path);
    let db = Database::open(&path).unwrap();
    let mut s = db.session();
    // As text there and back.
    let mut text = Vec::new();
    s.copy_out("COPY t TO STDOUT", &mut text, |_| {}).unwrap();
    s.execute("CREATE TABLE u (LIKE t)").unwrap();
    s.copy_in("COPY u FROM STDIN", &text[..], |_| {}).unwrap();
    drop(text);
    let same = "SELECT count(*)::text FROM t JOIN u USING (id) WHERE t.a = u.a AND t.b = u.b";
    assert_eq!(one(&mut s, same), "2");
    s.execute("DROP TABLE u").unwrap();
    let dump = dumped(&mut s);
    let again = restored(&folder, &dump);
    assert!(dumped(&mut again.session()) == dump, "the dump of what was restored is another");
    s.execute("DELETE FROM t WHERE id = 1").unwrap();
    assert_eq!(shape(&mut s), "2 5 short short 1 f");
}

#[test]
fn rows_of_as_many_columns_as_there_may_be() {
    let most = limit("columns of a table");
    for (ty, value) in [
        ("bigint", "$1 * 1000000007::bigint"),
        ("text", "'a text of column ' || $1"),
        ("numeric", "$1 * 100000000000000000000.5"),
        ("character(200)", "'row ' || $1"),
        ("uuid", "('00000000-0000-0000-0000-' || lpad(($1)::text, 12, '0'))::uuid"),
    ] {
        let folder = TempFolder::new().unwrap();
        let path = folder.path().join("db");
        let db = Database::open(&path).unwrap();
        let mut s = db.session();
        let columns = |n: usize| list(n, |i| format!("c{i} {ty}"));
        s.execute(&format!("CREATE TABLE t (id int, {})", columns(most - 1))).unwrap();
        let (state, message) = refused(&mut s, &format!("CREATE TABLE u (id int, {})", columns(most)));
        assert_eq!((&*state, message.trim()), ("54011", "tables can have at most 1600 columns"));
        let (state, message) = refused(&mut s, "ALTER TABLE t ADD COLUMN more int");
        assert_eq!((&*state, message.trim()), ("54011", "tables can have at most 1600 columns"));
        let values = |n: &str| list(most - 1, |i| value.replace("$1", &format!("({n} * 2000 + {i})")));
        s.execute("CREATE INDEX ON t (id); CREATE INDEX ON t (c7, c1598)").unwrap();
        s.execute(&format!("INSERT INTO t SELECT n, {} FROM generate_series(1, 40) n", values("n"))).unwrap();
        // The sum of what some columns hold.
        let shape = |s: &mut Session| {
            let sum = |c: &str| format!("string_agg({c}::text, ',' ORDER BY id)");
            one(
                s,
                &format!(
                    "SELECT concat_ws(';', count(*), {}, {}, {}) FROM t",
                    sum("c0"),
                    sum("c777"),
                    sum("c1598")
                ),
            )
        };
        let before = shape(&mut s);
        let value = |n: usize, i: usize| value.replace("$1", &format!("({n} * 2000 + {i})"));
        assert!(before.starts_with("40;"), "{before}");
        let whole = format!("SELECT count(*)::text FROM t WHERE id = 7 AND c1500 = {}", value(7, 1500));
        assert_eq!(one(&mut s, &whole), "1");
        s.execute(&format!(
            "UPDATE t SET c777 = {} WHERE id % 2 = 0; DELETE FROM t WHERE id > 30",
            value(1, 1)
        ))
        .unwrap();
        let after = shape(&mut s);
        assert_ne!(after, before);
        s.execute("BEGIN; UPDATE t SET c1598 = NULL; DELETE FROM t WHERE id < 9; ROLLBACK").unwrap();
        assert_eq!(shape(&mut s), after);
        let key =
            format!("SELECT count(*)::text FROM t WHERE c7 = {} AND c1598 = {}", value(9, 7), value(9, 1598));
        assert_eq!(one(&mut s, &key), "1");
        drop(s);
        drop(db);
        for step in 0..3 {
            let db = Database::open(&path).unwrap();
            assert_eq!(shape(&mut db.session()), after, "{ty}, step {step}");
            assert_eq!(one(&mut db.session(), &key), "1", "{ty}, step {step}");
            if step > 0 {
                db.checkpoint().unwrap()
            }
        }
        checked(&path);
        let db = Database::open(&path).unwrap();
        let dump = dumped(&mut db.session());
        let again = restored(&folder, &dump);
        assert!(dumped(&mut again.session()) == dump, "{ty}: the dump of what was restored is another");
    }
}

#[test]
fn rows_stand_in_pages_up_to_the_named_size() {
    let (_folder, mut s) = session();
    for (ty, fits) in [("integer", 970), ("text", 247)] {
        for (n, in_page) in [(fits, true), (fits + 4, false)] {
            s.execute(&format!("CREATE TABLE {ty}_{n} ({})", list(n, |i| format!("c{i} {ty}")))).unwrap();
            let of = format!("SELECT row_size FROM ondol_tables WHERE name = '{ty}_{n}'");
            let size = s.query(&of, &[]).unwrap().row(0).get::<i32>(0).unwrap();
            assert_eq!(size <= 4016, in_page, "{n} columns of {ty} take {size} bytes");
        }
    }
}

#[test]
fn a_column_more_makes_rows_long() {
    let (_folder, mut s) = session();
    // As many as a page's slot has room for.
    s.execute(&format!("CREATE TABLE t ({})", list(247, |i| format!("c{i} text")))).unwrap();
    s.execute("INSERT INTO t (c0, c246) SELECT 'a' || n, 'a long text of the row ' || n FROM generate_series(1, 500) n")
        .unwrap();
    let sum = "SELECT concat_ws(' ', count(*), sum(length(c0)), sum(length(c246))) FROM t";
    let before = one(&mut s, sum);
    for more in ["e char(255) DEFAULT 'x'", "f name", "g text DEFAULT 'y'"] {
        s.execute(&format!("ALTER TABLE t ADD COLUMN {more}")).unwrap();
        assert_eq!(one(&mut s, sum), before, "{more}")
    }
    assert_eq!(one(&mut s, "SELECT count(*)::text FROM t WHERE e = 'x' AND g = 'y'"), "500");
    s.execute("ALTER TABLE t DROP COLUMN e, DROP COLUMN g, DROP COLUMN c5, DROP COLUMN c6").unwrap();
    assert_eq!(one(&mut s, sum), before);
}

#[test]
fn statements_have_the_named_sizes() {
    let (_folder, mut s) = session();
    s.execute("CREATE TABLE t (a integer)").unwrap();
    let columns = |n: usize| list(n, |i| format!("c{i} boolean"));
    let most = limit("columns of a table");
    s.execute(&format!("CREATE TABLE wide ({})", columns(most))).unwrap();
    assert_eq!(refused(&mut s, &format!("CREATE TABLE wider ({})", columns(most + 1))).0, "54011");
    let most = limit("columns of a result");
    s.execute(&format!("SELECT {}", list(most, |i| i.to_string()))).unwrap();
    assert_eq!(refused(&mut s, &format!("SELECT {}", list(most + 1, |i| i.to_string()))).0, "54011");
    let most = limit("columns of an index");
    let index = |n: usize| format!("CREATE INDEX ON wide ({})", list(n, |i| format!("c{i}")));
    s.execute(&index(most)).unwrap();
    assert_eq!(refused(&mut s, &index(most + 1)).0, "54011");
    let most = limit("tables of a query");
    let query = |n: usize| format!("SELECT 1 FROM {}", list(n, |i| format!("t t{i}")));
    s.execute(&query(most)).unwrap();
    let (state, message) = refused(&mut s, &query(most + 1));
    assert_eq!(state, "54000");
    assert!(message.contains(&most.to_string()), "{message}");
    let most = limit("levels of a statement's nesting");
    let nested = |n: usize| format!("SELECT {}1{}", "(".repeat(n), ")".repeat(n));
    s.execute(&nested(most - 2)).unwrap();
    let (state, message) = refused(&mut s, &nested(most + 1));
    assert_eq!(state, "54001");
    assert!(message.contains(&most.to_string()), "{message}");
}
