//! Plans as text: each `tests/plans/NAME.sql` makes tables and then asks statements; what EXPLAIN shows of
//! these, without costs and byte code, must be `NAME.out`. Where a condition, a limit or a join went is seen
//! there.
//!
//! `ONDOL_BLESS=1 cargo test -p ondol --test plans` writes them anew, for being looked at.
use ondol::{Database, TempFolder};
use std::fs;
use std::path::Path;

/// The statements of a script: each ends with a semicolon at a line's end.
fn statements(script: &str) -> impl Iterator<Item = &str> {
    script.split(";\n").map(str::trim).filter(|s| !s.is_empty())
}

/// A statement without the comments before it.
fn bare(sql: &str) -> &str {
    let mut rest = sql;
    while let Some(comment) = rest.strip_prefix("--") {
        rest = comment.split_once('\n').map_or("", |c| c.1).trim_start();
    }
    rest
}

fn run(script: &str) -> String {
    let folder = TempFolder::new().expect("a temporary folder");
    let db = Database::open(folder.path()).expect("a database in it");
    let mut s = db.session();
    let mut out = String::new();
    for sql in statements(script) {
        let made = ["CREATE", "INSERT INTO made", "SET"].iter().any(|w| bare(sql).starts_with(w));
        if made {
            s.execute(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
            continue;
        }
        out += &format!("{sql};\n");
        match s.query(&format!("EXPLAIN (COSTS OFF) {}", bare(sql)), &[]) {
            Ok(rows) => {
                let lines = rows.iter().map(|r| r.get::<String>(0).expect("a text"));
                for line in lines.take_while(|l| l != "Byte code:") {
                    out += &format!("    {line}\n");
                }
            }
            Err(e) => out += &format!("    ERROR {}: {e}\n", e.sqlstate()),
        }
        out.push('\n');
    }
    out
}

#[test]
fn plans_are_as_they_should_be() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for entry in fs::read_dir(&folder).expect("the scripts") {
        let script = entry.expect("an entry").path();
        if script.extension().is_none_or(|e| e != "sql") {
            continue;
        }
        seen += 1;
        let found = run(&fs::read_to_string(&script).expect("UTF-8"));
        let expected = script.with_extension("out");
        if std::env::var_os("ONDOL_BLESS").is_some() {
            fs::write(&expected, &found).expect("the expected output is written");
            continue;
        }
        let wanted = fs::read_to_string(&expected).unwrap_or_default();
        if wanted != found {
            let at = wanted.lines().zip(found.lines()).position(|(a, b)| a != b);
            let at = at.unwrap_or(wanted.lines().count().min(found.lines().count()));
            let line = |text: &str| text.lines().nth(at).unwrap_or("").to_string();
            let (w, f) = (line(&wanted), line(&found));
            wrong.push(format!("{}, line {}: found {f:?}, expected {w:?}", expected.display(), at + 1));
        }
    }
    assert!(seen >= 3, "only {seen} scripts");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
