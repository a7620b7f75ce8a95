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
    s.execute("CREATE TABLE t (a text, b bytea)").unwrap();
    let most = limit("a value that is stored");
    for (column, value) in [("a", "repeat('x', $1)"), ("b", "convert_to(repeat('x', $1), 'UTF8')")] {
        let insert =
            |n: usize| format!("INSERT INTO t ({column}) VALUES ({})", value.replace("$1", &n.to_string()));
        s.execute(&insert(most)).unwrap();
        let (state, message) = refused(&mut s, &insert(most + 1));
        assert_eq!(state, "54000");
        assert!(message.contains(&format!("{most} bytes")), "{message}");
        assert!(message.contains(&format!("{} bytes", most + 1)), "{message}");
    }
    let rows = s.query("SELECT length(a) FROM t WHERE a IS NOT NULL", &[]).unwrap();
    assert_eq!(rows.row(0).get::<i32>(0).unwrap() as usize, most);
}

#[test]
fn a_row_has_the_named_size() {
    let (_folder, mut s) = session();
    let most = limit("a row of a table");
    for (ty, fits) in [("integer", 970), ("text", 247)] {
        let table = |n: usize| format!("CREATE TABLE {ty}_{n} ({})", list(n, |i| format!("c{i} {ty}")));
        s.execute(&table(fits)).unwrap();
        let of = format!("SELECT row_size FROM ondol_tables WHERE name = '{ty}_{fits}'");
        assert!(s.query(&of, &[]).unwrap().row(0).get::<i32>(0).unwrap() as usize <= most);
        // The next size that there is.
        let beyond = (fits..).find(|n| s.execute(&table(n + 1)).is_err()).unwrap() + 1;
        assert!(beyond - fits <= 4, "{beyond} columns of {ty}");
        let (state, message) = refused(&mut s, &table(beyond));
        assert_eq!(state, "54000");
        assert!(message.contains(&format!("maximum of {most} bytes")), "{message}");
    }
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
