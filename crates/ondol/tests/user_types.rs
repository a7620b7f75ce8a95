//! Types that users define, beyond what a script can show: restart, dump, parameters, other sessions.
#[path = "common/session.rs"]
mod session;
use ondol::{Database, Rows, Session, TempFolder, Value};
use session::{dumped, open};

fn rows(s: &mut Session, sql: &str, params: &[Value]) -> Vec<String> {
    let found = s.query(sql, params).unwrap_or_else(|e| panic!("{sql}: {e}"));
    found.iter().map(|r| r.values().map(|v| v.to_string()).collect::<Vec<_>>().join("|")).collect()
}

const ENUM: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
    CREATE TABLE person (name text PRIMARY KEY, now mood NOT NULL DEFAULT 'ok', past mood[]);
    CREATE INDEX by_mood ON person (now, name);
    INSERT INTO person VALUES ('Moe', 'happy', '{sad,NULL,ok}'), ('Larry', 'sad', '{}'), ('Joe', 'ok', NULL);
    CREATE FUNCTION below(mood) RETURNS SETOF text LANGUAGE sql STABLE AS
        'SELECT name FROM person WHERE now < $1 ORDER BY name';
    CREATE FUNCTION put(text, mood) RETURNS void LANGUAGE sql AS 'INSERT INTO person VALUES ($1, $2)';
    ALTER TYPE mood ADD VALUE 'glad' BEFORE 'happy';
    ALTER TYPE mood RENAME VALUE 'sad' TO 'blue';
    SELECT put('Shemp', 'glad')";
const PERSONS: &str = "SELECT name, now, past FROM person ORDER BY now DESC, name";
const WANTED: [&str; 4] = ["Moe|happy|{blue,NULL,ok}", "Shemp|glad|NULL", "Joe|ok|NULL", "Larry|blue|{}"];

fn is_whole(s: &mut Session) {
    assert_eq!(rows(s, PERSONS, &[]), WANTED);
    assert_eq!(rows(s, "SELECT name FROM person WHERE now = 'glad'", &[]), ["Shemp"]);
    assert_eq!(rows(s, "SELECT * FROM below('happy')", &[]), ["Joe", "Larry", "Shemp"]);
    assert_eq!(rows(s, "SELECT enum_range(NULL::mood)", &[]), ["{blue,ok,glad,happy}"]);
}

#[test]
fn enums_outlive_restart_and_recovery() {
    for clean in [true, false] {
        let (folder, db) = open();
        db.session().execute(ENUM).expect("a database with an enum");
        is_whole(&mut db.session());
        if clean {
            db.close().expect("it closes");
        } else {
            db.checkpoint().expect("a checkpoint");
            db.session()
                .execute("ALTER TYPE mood ADD VALUE 'best'; INSERT INTO person VALUES ('C', 'best')")
                .unwrap();
            db.session().execute("DELETE FROM person WHERE name = 'C'").unwrap();
            drop(db);
        }
        let db = Database::open(folder.path().join("db")).expect("it opens again");
        let mut s = db.session();
        if !clean {
            assert_eq!(rows(&mut s, "SELECT enum_last(NULL::mood)", &[]), ["best"]);
            s.execute("ALTER TYPE mood ADD VALUE 'worst' BEFORE 'blue'").unwrap();
            continue;
        }
        is_whole(&mut s);
        // New types and objects have other numbers.
        s.execute("CREATE TYPE other AS ENUM ('a'); CREATE TABLE t (o other); INSERT INTO t VALUES ('a')")
            .unwrap();
        assert_eq!(s.execute("DROP TYPE mood").unwrap_err().sqlstate(), "2BP01");
    }
}

#[test]
fn a_dump_makes_enums_again() {
    let (_folder, db) = open();
    db.session().execute(ENUM).expect("a database with an enum");
    let text = dumped(&mut db.session());
    assert!(text.contains("CREATE TYPE mood AS ENUM ('blue', 'ok', 'glad', 'happy');"), "{text}");
    #[cfg(feature = "command")]
    {
        let (_other, copy) = session::restored(&text);
        is_whole(&mut copy.session());
    }
}

#[test]
fn parameters_take_labels_and_values_of_the_type_as_it_was() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute(ENUM).expect("a database with an enum");
    let by = "SELECT name FROM person WHERE now = $1";
    assert_eq!(rows(&mut s, by, &[Value::Text("glad".into())]), ["Shemp"]);
    assert_eq!(s.query(by, &[Value::Text("sad".into())]).unwrap_err().sqlstate(), "22P02");
    let found = s.query("SELECT now FROM person WHERE name = 'Moe'", &[]).unwrap();
    let happy = found.iter().next().expect("a row").value(0).to_owned();
    let prepared = s.prepare(by).unwrap();
    s.execute("ALTER TYPE mood ADD VALUE 'best'").unwrap();
    assert_eq!(rows(&mut s, by, std::slice::from_ref(&happy)), ["Moe"]);
    assert_eq!(s.execute_prepared(&prepared, &[happy]).unwrap().count, 1);
    let typed = prepared.params().to_vec();
    s.execute("ALTER TYPE mood ADD VALUE 'very best'").unwrap();
    let again = s.prepare_typed(by, &typed).unwrap();
    assert_eq!(s.execute_prepared(&again, &[Value::Text("very best".into())]).unwrap().count, 0);
    // A registered query, called by its number.
    let (below, mut out) = (s.query_id("below").unwrap(), Rows::new());
    let found = s.query("SELECT 'ok'::mood", &[]).unwrap();
    let ok = found.iter().next().expect("a row").value(0).to_owned();
    s.call(below, &[ok.as_ref(&mut Vec::new())], &mut out).expect("a value of the type");
    assert_eq!(out.len(), 1);
    s.execute("ALTER TYPE mood ADD VALUE 'best of all'").unwrap();
    let old = s.call(below, &[ok.as_ref(&mut Vec::new())], &mut out).unwrap_err();
    assert_eq!(old.sqlstate(), "42804");
}

#[test]
fn other_sessions_see_a_change_when_it_is_committed() {
    let (_folder, db) = open();
    let (mut a, mut b) = (db.session(), db.session());
    a.execute(ENUM).expect("a database with an enum");
    let first = "SELECT enum_first(NULL::mood)";
    assert_eq!(rows(&mut b, first, &[]), ["blue"]);
    a.execute("BEGIN; ALTER TYPE mood RENAME VALUE 'blue' TO 'low'").unwrap();
    assert_eq!(
        (rows(&mut a, first, &[]), rows(&mut b, first, &[])),
        (vec!["low".into()], vec!["blue".into()])
    );
    a.execute("COMMIT").unwrap();
    assert_eq!(rows(&mut b, first, &[]), ["low"]);
    a.execute("BEGIN; ALTER TYPE mood RENAME VALUE 'low' TO 'x'; ROLLBACK").unwrap();
    assert_eq!(
        (rows(&mut a, first, &[]), rows(&mut b, first, &[])),
        (vec!["low".into()], vec!["low".into()])
    );
}

#[test]
fn a_change_that_takes_a_defaults_meaning_is_refused() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute(ENUM).expect("a database with an enum");
    let refused = s.execute("ALTER TYPE mood RENAME VALUE 'ok' TO 'fair'").unwrap_err();
    assert_eq!(refused.sqlstate(), "0A000");
    assert!(refused.to_string().contains("the default of column \"now\" of table \"person\""), "{refused}");
    is_whole(&mut s);
}

/// A domain's conditions hold after a restart, of rows that were there and of those that come.
#[test]
fn domains_outlive_a_restart() {
    let folder = TempFolder::new().expect("a temporary folder");
    {
        let db = Database::open(folder.path()).expect("a database");
        let mut s = db.session();
        s.execute("CREATE DOMAIN small AS integer DEFAULT 3 NOT NULL CONSTRAINT is_small CHECK (VALUE < 10)")
            .expect("a domain");
        s.execute("CREATE DOMAIN tiny AS small CHECK (VALUE < 5)").expect("a domain over it");
        s.execute("CREATE TABLE t (id integer PRIMARY KEY, v small, w tiny)").expect("a table");
        s.execute("INSERT INTO t (id) VALUES (1)").expect("a row of defaults");
    }
    let db = Database::open(folder.path()).expect("the database again");
    let mut s = db.session();
    let code = |s: &mut ondol::Session, sql: &str| match s.execute(sql) {
        Ok(_) => String::new(),
        Err(e) => e.sqlstate().to_string(),
    };
    assert_eq!(code(&mut s, "INSERT INTO t VALUES (2, 9, 4)"), "");
    assert_eq!(code(&mut s, "INSERT INTO t VALUES (3, 10, 4)"), "23514");
    assert_eq!(code(&mut s, "INSERT INTO t VALUES (3, 9, 5)"), "23514");
    assert_eq!(code(&mut s, "UPDATE t SET v = NULL"), "23502");
    assert_eq!(code(&mut s, "UPDATE t SET w = w + 1 WHERE id = 2"), "23514");
    assert_eq!(code(&mut s, "ALTER DOMAIN small ADD CHECK (VALUE < 9)"), "23514");
    assert_eq!(code(&mut s, "ALTER DOMAIN small DROP CONSTRAINT is_small"), "");
    assert_eq!(code(&mut s, "INSERT INTO t VALUES (3, 10, 4)"), "");
    assert_eq!(code(&mut s, "DROP DOMAIN small"), "2BP01");
    let sum = s.query("SELECT sum(v) + sum(w) FROM t", &[]).expect("rows");
    let sum: i64 = sum.iter().next().expect("a row").get(0).expect("a number");
    assert_eq!(sum, 3 + 3 + 9 + 4 + 10 + 4);
}
