//! What clients ask of the catalogue, and PostgreSQL 15's answers on the same schema.
//!
//! `tests/catalog` has the schema, the statements (`NAME.sql`) and PostgreSQL's answers (`NAME.out`, made by
//! `scripts/postgresql-answers`, which says what they look like). `differences.txt` has the titles of the
//! statements that are answered otherwise here, each with the reason; one that is answered as PostgreSQL does
//! must not be among them.
use ondol::Session;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/catalog");

/// Objects of users, by their numbers.
const NAMES: &str = "SELECT oid, oid::regclass::text FROM pg_class WHERE oid >= 16384
    UNION ALL SELECT oid, oid::regprocedure::text FROM pg_proc WHERE oid >= 16384
    UNION ALL SELECT oid, 'type ' || format_type(oid, NULL) FROM pg_type WHERE oid >= 16384
    UNION ALL SELECT oid, 'schema ' || nspname FROM pg_namespace WHERE oid >= 16384
    UNION ALL SELECT oid, 'constraint ' || conname || ' of ' || CASE conrelid WHEN 0 THEN contypid::regtype::text
        ELSE conrelid::regclass::text END FROM pg_constraint WHERE oid >= 16384
    UNION ALL SELECT oid, 'default ' || adnum || ' of ' || adrelid::regclass FROM pg_attrdef WHERE oid >= 16384";

fn escaped(field: Option<String>, names: &HashMap<String, String>) -> String {
    let Some(field) = field else { return "\\N".into() };
    match names.get(&field) {
        Some(name) => format!("{{{name}}}"),
        None => with_names(&field.replace('\\', "\\\\").replace('\n', "\\n").replace('|', "\\p"), names),
    }
}

/// Numbers within a text replaced by names.
fn with_names(text: &str, names: &HashMap<String, String>) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let end = at + rest[at..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - at);
        out.push_str(&rest[..at]);
        match names.get(&rest[at..end]) {
            Some(name) => out.push_str(&format!("{{{name}}}")),
            None => out.push_str(&rest[at..end]),
        }
        rest = &rest[end..];
    }
    out + rest
}

/// The lines of an answer: the columns' names and the rows, or an error.
fn answer(s: &mut Session, statement: &str, names: &HashMap<String, String>) -> Vec<String> {
    let rows = match s.query(statement, &[]) {
        Ok(rows) => rows,
        Err(e) => return vec![format!("ERROR:  {e}")],
    };
    let mut lines = vec![rows.columns().iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join("|")];
    for row in rows.iter() {
        let field = |n: usize| {
            let mut text = String::new();
            row.text(n, &mut text).then_some(text)
        };
        let fields: Vec<String> = (0..rows.columns().len()).map(|n| escaped(field(n), names)).collect();
        lines.push(fields.join("|"));
    }
    if !statement.to_ascii_lowercase().contains("order by") {
        lines[1..].sort();
    }
    lines
}

/// Titles and what stands below them, in order.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    text.split("\n\n").filter_map(|b| b.trim_matches('\n').split_once('\n')).collect()
}

#[test]
fn clients_are_answered_as_postgresql_does() {
    let folder = ondol::TempFolder::new().expect("a temporary folder");
    let db = ondol::Database::open(folder.path().join("shop")).expect("a database");
    let mut s = db.session();
    s.execute(&fs::read_to_string(format!("{FOLDER}/schema.sql")).expect("the schema")).expect("is made");
    let mut names = HashMap::new();
    for row in s.query(NAMES, &[]).expect("the names").iter() {
        let text = |n: usize| {
            let mut text = String::new();
            row.text(n, &mut text);
            text
        };
        names.insert(text(0), text(1));
    }
    let numbers: HashMap<&str, &str> = names.iter().map(|(n, name)| (name.as_str(), n.as_str())).collect();
    let differences = fs::read_to_string(format!("{FOLDER}/differences.txt")).unwrap_or_default();
    let differences: BTreeMap<&str, &str> = differences.lines().filter_map(|l| l.split_once('\t')).collect();
    let (mut wrong, mut count, mut met) = (Vec::new(), 0, 0);
    let mut files: Vec<_> =
        fs::read_dir(FOLDER).expect("the folder").map(|e| e.expect("a file").path()).collect();
    files.sort();
    for path in files.iter().filter(|p| p.extension().is_some_and(|e| e == "sql")) {
        if path.file_stem().is_some_and(|n| n == "schema") {
            continue;
        }
        let statements = fs::read_to_string(path).expect("statements");
        let answers = fs::read_to_string(path.with_extension("out")).expect("answers");
        let (statements, answers) = (blocks(&statements), blocks(&answers));
        assert_eq!(statements.len(), answers.len(), "{}", path.display());
        for ((title, statement), (of, wanted)) in statements.iter().zip(&answers) {
            assert_eq!(title, of);
            let mut statement = statement.to_string();
            for (name, number) in &numbers {
                statement = statement.replace(&format!("{{{name}}}"), number);
            }
            count += 1;
            let found = answer(&mut s, &statement, &names).join("\n");
            let same = found == *wanted;
            let stem = Path::new(path).file_stem().expect("a name").to_string_lossy();
            let key = format!("{stem} {title}");
            met += usize::from(differences.contains_key(key.as_str()));
            match (same, differences.contains_key(key.as_str())) {
                (true, true) => wrong.push(format!("{key}: is answered as PostgreSQL does")),
                (false, false) => wrong.push(format!("{key}:\nexpected\n{wanted}\nfound\n{found}\n")),
                _ => {}
            }
        }
    }
    assert_eq!(met, differences.len(), "each difference is one of a statement");
    let few: Vec<&str> = wrong.iter().map(String::as_str).collect();
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), few.join("\n"));
}

fn one(s: &mut Session, sql: &str) -> String {
    let rows = s.query(sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let mut text = String::new();
    rows.row(0).text(0, &mut text);
    text
}

/// A name means what it means when the statement runs: no plan keeps the object of another time.
#[test]
fn names_follow_definitions() {
    let folder = ondol::TempFolder::new().expect("a temporary folder");
    let db = ondol::Database::open(folder.path()).expect("a database");
    let (mut s, mut other) = (db.session(), db.session());
    s.execute("CREATE TABLE a (x integer); CREATE TABLE b (x integer, y integer)").expect("tables");
    s.execute("PREPARE p AS SELECT count(*) FROM pg_attribute WHERE attnum > 0 AND attrelid = 'a'::regclass")
        .expect("a plan");
    s.execute("PREPARE q AS SELECT $1::regclass::oid = 'a'::regclass").expect("a plan");
    assert_eq!((one(&mut s, "EXECUTE p"), one(&mut s, "EXECUTE q('a')")), ("1".into(), "t".into()));
    other.execute("ALTER TABLE a RENAME TO c; ALTER TABLE b RENAME TO a").expect("other names");
    assert_eq!((one(&mut s, "EXECUTE p"), one(&mut s, "EXECUTE q('c')")), ("2".into(), "f".into()));
    // What a transaction has defined it sees, and nobody else.
    s.execute("BEGIN; CREATE TABLE d (x integer)").expect("a table");
    let there = "SELECT to_regclass('d') IS NOT NULL, 'x'";
    assert_eq!((one(&mut s, there), one(&mut other, there)), ("t".into(), "f".into()));
    s.execute("ROLLBACK").expect("no table");
    assert_eq!(one(&mut s, there), "f");
    other.execute("DROP TABLE a").expect("no table");
    let e = s.query("EXECUTE p", &[]).expect_err("no table");
    assert_eq!(e.sqlstate(), "42P01");
}

/// catalog/Y4: what is made for a key is what is found without.
#[test]
fn rows_of_a_key_are_those_of_all() {
    let folder = ondol::TempFolder::new().expect("a temporary folder");
    let db = ondol::Database::open(folder.path()).expect("a database");
    let mut s = db.session();
    s.execute(&fs::read_to_string(format!("{FOLDER}/schema.sql")).expect("the schema")).expect("is made");
    let mut seen = 0;
    for (relation, key) in [
        ("pg_class", "oid"),
        ("pg_attribute", "attrelid"),
        ("pg_attrdef", "adrelid"),
        ("pg_index", "indrelid"),
        ("pg_index", "indexrelid"),
        ("pg_constraint", "conrelid"),
        ("pg_constraint", "contypid"),
    ] {
        for oid in [
            "'customer'::regclass",
            "'line_pkey'::regclass",
            "'pg_type'::regclass",
            "'positive'::regtype",
            "0",
            "1",
        ] {
            let count = |by: &str| format!("SELECT count(*) FROM {relation} WHERE {by}");
            let keyed = one(&mut s, &count(&format!("{key} = {oid}::oid")));
            let all = one(&mut s, &count(&format!("{key}::int8 = {oid}::oid::int8")));
            assert_eq!(keyed, all, "{relation} {key} {oid}");
            seen += keyed.parse::<u32>().expect("a number");
        }
    }
    for name in ["customer", "line_pkey", "pg_type", "nope"] {
        let keyed = one(&mut s, &format!("SELECT count(*) FROM pg_class WHERE relname = '{name}'"));
        let all = one(&mut s, &format!("SELECT count(*) FROM pg_class WHERE relname || '' = '{name}'"));
        assert_eq!(keyed, all, "{name}");
    }
    assert!(seen > 50, "{seen} rows");
}

#[test]
fn every_relation_can_be_read() {
    let folder = ondol::TempFolder::new().expect("a temporary folder");
    let db = ondol::Database::open(folder.path()).expect("a database");
    let mut s = db.session();
    let all =
        "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace";
    let rows = s.query(all, &[]).expect("all relations");
    assert!(rows.len() > 200);
    let names: Vec<String> = rows
        .iter()
        .map(|r| {
            let mut text = String::new();
            r.text(0, &mut text);
            text
        })
        .collect();
    for name in names {
        s.query(&format!("SELECT * FROM {name}"), &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
        // Nobody changes them.
        let e = s.execute(&format!("DELETE FROM {name}")).expect_err("it cannot be changed");
        assert_eq!(e.sqlstate(), "42501", "{name}");
    }
}

#[test]
fn names_of_objects_are_not_stored() {
    let folder = ondol::TempFolder::new().expect("a temporary folder");
    let db = ondol::Database::open(folder.path()).expect("a database");
    let mut s = db.session();
    for sql in [
        "CREATE TABLE t (a regtype[])",
        "CREATE TABLE t AS SELECT ARRAY['pg_class'::regclass] AS a",
        "CREATE TYPE c AS (a regclass)",
    ] {
        assert_eq!(s.execute(sql).expect_err(sql).sqlstate(), "0A000", "{sql}");
    }
    s.execute("CREATE TABLE u (a oid); CREATE DOMAIN d AS regclass; CREATE TABLE t (a d)").expect("tables");
    s.execute("INSERT INTO u SELECT 't'::regclass; INSERT INTO t VALUES ('u')").expect("rows");
    s.execute("ALTER TABLE u ALTER a TYPE regclass; ALTER TABLE t RENAME TO now").expect("other columns");
    assert_eq!(
        (one(&mut s, "SELECT a FROM u"), one(&mut s, "SELECT a FROM now")),
        ("now".into(), "u".into())
    );
    s.execute("DROP TABLE now").expect("it goes");
    let gone = one(&mut s, "SELECT a FROM u");
    assert!(gone.parse::<u32>().is_ok_and(|n| n >= 16384), "{gone}");
}
