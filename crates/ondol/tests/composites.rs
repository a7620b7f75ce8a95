//! Composite types, beyond what a script can show: restart, recovery, dump, rollback, other sessions.
#[path = "common/session.rs"]
mod session;
use ondol::{Database, Session};
use session::{dumped, open, rows};

/// A type made of one that was made later, of an enum and of a domain; tables, an index, functions, a view.
const SCHEMA: &str = "
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE DOMAIN positive AS int CHECK (VALUE > 0);
    CREATE TYPE outer_one AS (a int, m mood);
    CREATE TYPE later AS (x numeric(6,2), c char(4), l int[]);
    ALTER TYPE outer_one ADD ATTRIBUTE i later;
    CREATE SCHEMA elsewhere;
    CREATE TYPE elsewhere.bound AS (n positive, \"odd name\" text);
    CREATE TABLE t (k int PRIMARY KEY, o outer_one, l later[], b elsewhere.bound);
    CREATE UNIQUE INDEX by_o ON t (o);
    INSERT INTO t VALUES (1, ROW(1, 'ok', ROW(1.5, 'ab', '{1,2}')), ARRAY[ROW(2, 'x', NULL)]::later[], ROW(7, 'q\"')),
        (2, ROW(NULL, 'sad', NULL), NULL, NULL), (3, NULL, '{}', '(1,)');
    CREATE VIEW v AS SELECT k, (o).i.c AS c, o FROM t WHERE (o).a IS DISTINCT FROM 9;
    CREATE FUNCTION mood_of(outer_one) RETURNS mood LANGUAGE sql STABLE AS 'SELECT ($1).m';
    ALTER TYPE later ADD ATTRIBUTE z text;
    ALTER TYPE mood RENAME VALUE 'ok' TO 'fine';
    COMMENT ON TYPE later IS 'it came later'";

const WANTED: [&str; 3] = [
    r#"1|(1,fine,"(1.50,""ab  "",""{1,2}"",)")|{"(2.00,\"x   \",,)"}|(7,"q""")"#,
    "2|(,sad,)|NULL|NULL",
    "3|NULL|{}|(1,)",
];

fn is_whole(s: &mut Session) {
    assert_eq!(rows(s, "SELECT * FROM t ORDER BY k"), WANTED);
    assert_eq!(
        rows(s, "SELECT * FROM v ORDER BY k"),
        [r#"1|ab|(1,fine,"(1.50,""ab  "",""{1,2}"",)")"#, "2|NULL|(,sad,)", "3|NULL|NULL"]
    );
    assert_eq!(rows(s, "SELECT k FROM t WHERE o = ROW(NULL, 'sad', NULL)::outer_one"), ["2"]);
    assert_eq!(rows(s, "SELECT k FROM t WHERE (o).i = ROW(1.5, 'ab', '{1,2}', NULL)::later"), ["1"]);
    assert_eq!(rows(s, "SELECT k, mood_of(o) FROM t ORDER BY k"), ["1|fine", "2|sad", "3|NULL"]);
    assert_eq!(rows(s, "SELECT obj_description('later'::regtype)"), ["it came later"]);
    let twice =
        s.execute("INSERT INTO t (k, o) VALUES (4, ROW(NULL, 'sad', NULL))").expect_err("it is there");
    assert_eq!(twice.sqlstate(), "23505");
    let wrong = s.execute("INSERT INTO t (k, b) VALUES (4, '(0,)')").expect_err("it is not positive");
    assert_eq!(wrong.sqlstate(), "23514");
}

#[test]
fn composite_types_outlive_restart_and_recovery() {
    for (clean, checkpoint) in [(true, false), (false, true), (false, false)] {
        let (folder, db) = open();
        db.session().execute(SCHEMA).expect("a database with composite types");
        is_whole(&mut db.session());
        if checkpoint {
            db.checkpoint().expect("a checkpoint");
        }
        if clean {
            db.close().expect("it closes");
        } else {
            db.session()
                .execute("UPDATE t SET o.a = 5 WHERE k = 1; UPDATE t SET o.a = 1 WHERE k = 1")
                .unwrap();
            drop(db);
        }
        let db = Database::open(folder.path().join("db")).expect("it opens again");
        let mut s = db.session();
        is_whole(&mut s);
        // New types have other numbers.
        s.execute("CREATE TYPE other AS (a int); CREATE TABLE u (o other); INSERT INTO u VALUES (ROW(1))")
            .unwrap();
        assert_eq!(s.execute("DROP TYPE later").unwrap_err().sqlstate(), "2BP01");
    }
}

#[test]
fn a_dump_makes_composite_types_again() {
    let (_folder, db) = open();
    db.session().execute(SCHEMA).expect("a database with composite types");
    let text = dumped(&mut db.session());
    let made = "CREATE TYPE outer_one AS (\n    a integer,\n    m mood,\n    i later\n);";
    assert!(text.contains(made), "{text}");
    #[cfg(feature = "command")]
    {
        let (_other, copy) = session::restored(&text);
        is_whole(&mut copy.session());
        assert_eq!(dumped(&mut copy.session()), text);
    }
}

#[test]
fn definitions_are_taken_back_and_seen_by_others_when_they_are_committed() {
    let (_folder, db) = open();
    let (mut a, mut b) = (db.session(), db.session());
    a.execute("CREATE TYPE p AS (x int); CREATE TABLE t (p p); INSERT INTO t VALUES (ROW(1))").unwrap();
    let all = "SELECT p, (p).* FROM t";
    a.execute("BEGIN; ALTER TYPE p ADD ATTRIBUTE y int; UPDATE t SET p.y = 2").unwrap();
    let own = "SELECT (ROW(1)::p).*";
    assert_eq!((rows(&mut a, all), rows(&mut b, own)), (vec!["(1,2)|1|2".into()], vec!["1".into()]));
    a.execute("SAVEPOINT s; ALTER TYPE p RENAME ATTRIBUTE y TO z; CREATE TYPE q AS (p p)").unwrap();
    assert_eq!(rows(&mut a, "SELECT (p).z, ROW(p)::q FROM t"), [r#"2|("(1,2)")"#]);
    a.execute("ROLLBACK TO s").unwrap();
    assert_eq!(rows(&mut a, "SELECT (p).y FROM t"), ["2"]);
    assert_eq!(a.query("SELECT NULL::q", &[]).unwrap_err().sqlstate(), "42704");
    a.execute("ROLLBACK").unwrap();
    assert_eq!(rows(&mut a, all), ["(1)|1"]);
    a.execute("BEGIN; ALTER TYPE p ADD ATTRIBUTE y int; COMMIT").unwrap();
    assert_eq!(
        (rows(&mut a, all), rows(&mut b, all)),
        (vec!["(1,)|1|NULL".into()], vec!["(1,)|1|NULL".into()])
    );
}

#[test]
fn two_sessions_define_side_by_side() {
    let (_folder, db) = open();
    let (mut a, mut b) = (db.session(), db.session());
    a.execute("CREATE TYPE p AS (x int); CREATE TYPE q AS (y int)").unwrap();
    a.execute("BEGIN; ALTER TYPE p ADD ATTRIBUTE z text").unwrap();
    // What does not rest on it goes on.
    b.execute("BEGIN; ALTER TYPE q ADD ATTRIBUTE z text; CREATE TYPE r AS (q q); COMMIT").unwrap();
    b.execute("SET lock_timeout = '50ms'").unwrap();
    assert_eq!(b.execute("CREATE TYPE s AS (p p)").unwrap_err().sqlstate(), "55P03");
    a.execute("COMMIT").unwrap();
    b.execute("CREATE TYPE s AS (p p)").unwrap();
    assert_eq!(rows(&mut b, "SELECT ROW(ROW(1, 'a'))::s, ROW(ROW(2, 'b'))::r"), [r#"("(1,a)")|("(2,b)")"#]);
    assert_eq!(a.execute("ALTER TYPE p ADD ATTRIBUTE s s").unwrap_err().sqlstate(), "42P16");
}

#[test]
fn dropping_a_type_takes_fields_of_it_along() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute("CREATE TYPE p AS (x int); CREATE TYPE q AS (a int, p p, l p[]); CREATE TABLE t (q q)")
        .unwrap();
    s.execute("INSERT INTO t VALUES (ROW(1, ROW(2), NULL))").unwrap();
    let refused = s.execute("DROP TYPE p").unwrap_err();
    assert_eq!(refused.sqlstate(), "2BP01");
    // Its values would have to be made anew.
    assert_eq!(s.execute("DROP TYPE p CASCADE").unwrap_err().sqlstate(), "0A000");
    s.execute("DROP TABLE t; DROP TYPE p CASCADE").unwrap();
    assert_eq!(rows(&mut s, "SELECT ROW(5)::q"), ["(5)"]);
    s.execute("DROP TYPE q").unwrap();
}

#[test]
fn rows_are_kept_where_plans_are_kept_and_parameters_are_rows() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute("CREATE TYPE p AS (x int, y text); CREATE TABLE t (k int PRIMARY KEY, p p)").unwrap();
    s.execute("INSERT INTO t VALUES (1, ROW(1, 'a')), (2, ROW(2, 'b'))").unwrap();
    s.execute("CREATE FUNCTION f(p) RETURNS int LANGUAGE sql AS 'SELECT k FROM t WHERE t.p = $1'").unwrap();
    for _ in 0..3 {
        assert_eq!(rows(&mut s, "SELECT f(ROW(2, 'b'))"), ["2"]);
        assert_eq!(rows(&mut s, "SELECT ROW(k, p) FROM t ORDER BY 1"), [r#"(1,"(1,a)")"#, r#"(2,"(2,b)")"#]);
    }
    let found = s.query("SELECT p FROM t WHERE k = 2", &[]).unwrap();
    let value = found.iter().next().expect("a row").value(0).to_owned();
    let by = "SELECT k FROM t WHERE p = $1::p";
    let one = |s: &mut Session, v: ondol::Value| {
        let found = s.query(by, &[v]).expect("a row");
        found.iter().map(|r| r.value(0).to_string()).collect::<Vec<_>>()
    };
    assert_eq!(one(&mut s, value.clone()), ["2"]);
    assert_eq!(one(&mut s, ondol::Value::Text("(1,a)".into())), ["1"]);
    s.execute("ALTER TYPE p ADD ATTRIBUTE z int").unwrap();
    assert_eq!(one(&mut s, value), ["2"]);
}

/// Views with columns that are rows of tables and of other views, and functions that take and give such rows:
/// they are there after a restart, and a dump makes each behind what it needs.
#[test]
fn rows_as_values_outlive_restart_and_dump() {
    let (folder, db) = open();
    let mut s = db.session();
    s.execute(
        "CREATE TABLE z (a int, b text, c int DEFAULT 3); INSERT INTO z VALUES (1, 'x'), (2, 'y');
         CREATE VIEW inner_one AS SELECT z AS whole, a FROM z;
         CREATE FUNCTION b_of(z) RETURNS text LANGUAGE sql AS 'SELECT ($1).b';
         CREATE FUNCTION first_of(z[]) RETURNS int LANGUAGE sql AS 'SELECT ($1[1]).a';
         CREATE FUNCTION a_of(inner_one) RETURNS int LANGUAGE sql AS 'SELECT (($1).whole).a';
         CREATE FUNCTION pairs() RETURNS TABLE (r z, n int) LANGUAGE sql AS 'SELECT z, a FROM z';
         CREATE VIEW a_view AS SELECT whole, a_of(inner_one) AS n, b_of(whole) AS b FROM inner_one",
    )
    .unwrap();
    let is_whole = |s: &mut Session| {
        assert_eq!(rows(s, "SELECT n, b, (whole).a FROM a_view ORDER BY n"), ["1|x|1", "2|y|2"]);
        assert_eq!(rows(s, "SELECT first_of(array_agg(z ORDER BY a)), max(b_of(z)) FROM z"), ["1|y"]);
        assert_eq!(rows(s, "SELECT n, (r).c FROM pairs() ORDER BY n"), ["1|3", "2|3"]);
        assert_eq!(s.execute("DROP VIEW inner_one").unwrap_err().sqlstate(), "2BP01");
    };
    is_whole(&mut s);
    let dump = dumped(&mut s);
    drop(s);
    db.close().unwrap();
    let db = session::open_in(&folder);
    is_whole(&mut db.session());
    assert_eq!(dumped(&mut db.session()), dump);
    #[cfg(feature = "command")]
    {
        let (_other, copy) = session::restored(&dump);
        is_whole(&mut copy.session());
        assert_eq!(dumped(&mut copy.session()), dump);
    }
}

/// A domain that columns have within their rows does not ask for more: nobody looks there, as in PostgreSQL.
#[test]
fn a_domain_within_rows_asks_for_no_more() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute(
        "CREATE DOMAIN positive AS int; CREATE TYPE pair AS (a positive, b text);
         CREATE TABLE t (id int, p pair); CREATE TYPE outer_pair AS (i pair); CREATE TABLE u (q outer_pair); INSERT INTO t VALUES (1, '(-1,x)')",
    )
    .unwrap();
    for (table, column) in [("t", "p"), ("u", "q")] {
        for change in ["ADD CHECK (VALUE > 0)", "SET NOT NULL"] {
            let e = s.execute(&format!("ALTER DOMAIN positive {change}")).unwrap_err();
            assert_eq!(e.sqlstate(), "0A000", "{change}: {e}");
            let message =
                format!("cannot alter type \"positive\" because column \"{table}.{column}\" uses it");
            assert_eq!(e.to_string(), message);
        }
        s.execute(&format!("DROP TABLE {table}")).unwrap();
    }
    s.execute("ALTER DOMAIN positive ADD CHECK (VALUE > 0); ALTER DOMAIN positive SET NOT NULL").unwrap();
}
