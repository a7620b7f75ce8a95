//! Schemas and the search path, beyond what a script can show: restart, dump, other sessions and their plans.
#[path = "common/session.rs"]
mod session;
use ondol::{Session, TempFolder, ValueRef};
use session::{dumped, open, open_in, rows, run};

fn state(s: &mut Session, sql: &str) -> String {
    s.execute(sql).err().map_or("nothing".into(), |e| e.sqlstate().to_string())
}

/// Something of everything, in several schemas, with texts that name what is elsewhere.
const ALL: &str = "
    CREATE SCHEMA one; CREATE SCHEMA \"Two .\";
    CREATE TYPE one.mood AS ENUM ('sad', 'ok'); CREATE TYPE mood AS ENUM ('glad');
    CREATE FUNCTION one.even(int) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT $1 % 2 = 0';
    CREATE FUNCTION \"Two .\".next(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT $1 + 1';
    SET search_path = one, \"Two .\";
    CREATE DOMAIN evens AS int CHECK (VALUE % 2 = 0) DEFAULT 4;
    CREATE TABLE t (a int PRIMARY KEY, m mood DEFAULT 'ok'::mood, e evens,
        n int DEFAULT 1 + 1 CHECK (even(n) OR t.n > 0));
    CREATE INDEX t_n ON t (n);
    CREATE FUNCTION of_t(int) RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t WHERE a = $1';
    SET search_path = public;
    CREATE TABLE t (a int PRIMARY KEY, m mood); INSERT INTO t VALUES (1, 'glad');
    INSERT INTO one.t (a) VALUES (1), (2);
    RESET search_path";

fn is_whole(s: &mut Session) {
    assert_eq!(rows(s, "SELECT * FROM one.t ORDER BY a"), ["1|ok|4|2", "2|ok|4|2"]);
    assert_eq!(rows(s, "SELECT * FROM t"), ["1|glad"]);
    assert_eq!(rows(s, "SELECT a FROM one.t WHERE n = 2 ORDER BY a"), ["1", "2"], "by the index");
    assert_eq!(rows(s, "SELECT * FROM one.of_t(2)"), ["2|ok|4|2"], "by the path that it was made with");
    run(s, "BEGIN; INSERT INTO one.t (a) VALUES (3)");
    assert_eq!(rows(s, "SELECT * FROM one.t WHERE a = 3"), ["3|ok|4|2"]);
    assert_eq!(state(s, "INSERT INTO one.t (a, n) VALUES (4, -3)"), "23514");
    run(s, "ROLLBACK");
    assert_eq!(state(s, "INSERT INTO one.t (a, e) VALUES (4, 3)"), "23514");
    assert_eq!(state(s, "DROP SCHEMA one"), "2BP01");
    assert_eq!(state(s, "DROP FUNCTION one.even(int)"), "2BP01", "a check calls it");
    run(s, "BEGIN; ALTER TABLE t ADD n int DEFAULT \"Two .\".next(1)");
    assert_eq!(rows(s, "SELECT n FROM t"), ["2"]);
    assert_eq!(state(s, "DROP FUNCTION \"Two .\".next(int)"), "2BP01", "a default calls it");
    run(s, "ROLLBACK");
}

#[test]
fn all_in_schemas_outlives_recovery_restart_and_dump() {
    let folder = TempFolder::new().expect("a folder");
    let open = || open_in(&folder);
    let db = open();
    run(&mut db.session(), ALL);
    is_whole(&mut db.session());
    let text = dumped(&mut db.session());
    drop(db);
    let db = open();
    is_whole(&mut db.session());
    assert_eq!(dumped(&mut db.session()), text, "after recovery");
    run(&mut db.session(), "CHECKPOINT");
    db.close().expect("it closes");
    let db = open();
    is_whole(&mut db.session());
    assert_eq!(dumped(&mut db.session()), text, "after a checkpoint");
    #[cfg(feature = "command")]
    {
        let (_copied, copy) = session::restored(&text);
        is_whole(&mut copy.session());
        assert_eq!(dumped(&mut copy.session()), text, "the copy's dump");
    }
    // All goes, and new objects have other numbers.
    let mut s = db.session();
    run(&mut s, "DROP SCHEMA one, \"Two .\" CASCADE; CREATE SCHEMA one; CREATE TABLE one.t (b text)");
    drop(s);
    drop(db);
    let db = open();
    assert_eq!(rows(&mut db.session(), "SELECT * FROM one.t"), [""; 0]);
    assert_eq!(rows(&mut db.session(), "SELECT * FROM t"), ["1|glad"]);
}

#[test]
fn schemas_go_back_with_their_transaction() {
    let folder = TempFolder::new().expect("a folder");
    let open = || open_in(&folder);
    let db = open();
    let mut s = db.session();
    run(&mut s, "CREATE SCHEMA a; CREATE TABLE a.t (x int); INSERT INTO a.t VALUES (1)");
    run(
        &mut s,
        "BEGIN; CREATE SCHEMA b; ALTER TABLE a.t SET SCHEMA b; ALTER SCHEMA a RENAME TO c; DROP SCHEMA c",
    );
    assert_eq!(rows(&mut s, "SELECT * FROM b.t"), ["1"]);
    assert_eq!(state(&mut db.session(), "SELECT * FROM b.t"), "42P01", "others see nothing of it");
    run(&mut s, "ROLLBACK");
    assert_eq!(rows(&mut s, "SELECT * FROM a.t"), ["1"]);
    run(&mut s, "BEGIN; SAVEPOINT s; DROP SCHEMA a CASCADE; CREATE SCHEMA a; CREATE TABLE a.t (y text)");
    run(&mut s, "ROLLBACK TO s; ALTER SCHEMA a RENAME TO d; INSERT INTO d.t VALUES (2); COMMIT");
    drop(s);
    drop(db);
    let db = open();
    assert_eq!(rows(&mut db.session(), "SELECT * FROM d.t ORDER BY x"), ["1", "2"]);
    assert_eq!(state(&mut db.session(), "CREATE TABLE a.t (x int)"), "3F000");
}

#[test]
fn public_may_go_and_come_back() {
    let folder = TempFolder::new().expect("a folder");
    let open = || open_in(&folder);
    let db = open();
    let mut s = db.session();
    run(&mut s, "CREATE TABLE t (a int); DROP SCHEMA public CASCADE");
    assert_eq!(state(&mut s, "CREATE TABLE t (a int)"), "3F000");
    run(&mut s, "CREATE SCHEMA public; CREATE TABLE t (a int DEFAULT 1 + 1, CHECK (a > 0))");
    run(
        &mut s,
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 5'; CREATE TABLE u (a int DEFAULT f())",
    );
    run(&mut s, "INSERT INTO t DEFAULT VALUES; INSERT INTO u DEFAULT VALUES");
    drop(s);
    drop(db);
    let db = open();
    let mut s = db.session();
    assert_eq!(rows(&mut s, "SELECT t.a, u.a FROM t, public.u"), ["2|5"]);
    let text = dumped(&mut s);
    let (_other, copy) = session::open();
    let mut restored = copy.session();
    let schema = text.split("COPY").next().expect("a beginning").to_string();
    run(&mut restored, &schema);
    assert_eq!(rows(&mut restored, "SELECT * FROM public.t"), [""; 0]);
    run(&mut restored, "ROLLBACK");
    assert_eq!(rows(&mut restored, "SELECT current_schema()"), ["public"]);
}

#[test]
fn a_text_is_planned_for_its_path() {
    let (_folder, db) = open();
    let (mut a, mut b) = (db.session(), db.session());
    run(&mut a, "CREATE SCHEMA x; CREATE SCHEMA y; CREATE TABLE x.t (v text); CREATE TABLE y.t (v text)");
    run(&mut a, "INSERT INTO x.t VALUES ('x'); INSERT INTO y.t VALUES ('y')");
    run(&mut a, "SET search_path = x");
    run(&mut b, "SET search_path = y");
    let text = "SELECT v FROM t";
    let prepared = a.prepare(text).expect("a statement");
    for _ in 0..3 {
        assert_eq!((rows(&mut a, text), rows(&mut b, text)), (vec!["x".into()], vec!["y".into()]));
        let mut found = ondol::Rows::new();
        for (s, v) in [(&mut a, "x"), (&mut b, "y")] {
            s.call_prepared(&prepared, &[] as &[ValueRef<'_>], &mut found).expect("rows");
            assert_eq!(found.row(0).get::<&str>(0).expect("a text"), v, "a handle is for every session");
        }
        // Another dictionary.
        run(&mut a, "CREATE TABLE y.other (a int); DROP TABLE y.other");
    }
    run(&mut a, "PREPARE p AS SELECT v FROM t; BEGIN; SET LOCAL search_path = y");
    assert_eq!((rows(&mut a, text), rows(&mut a, "EXECUTE p")), (vec!["y".into()], vec!["y".into()]));
    run(&mut a, "COMMIT");
    assert_eq!((rows(&mut a, text), rows(&mut a, "EXECUTE p")), (vec!["x".into()], vec!["x".into()]));
    // A table that comes to stand before the one that was meant, and goes again.
    run(&mut a, "SET search_path = x, y");
    let only = "SELECT v FROM only_y";
    run(&mut b, "CREATE TABLE only_y (v text); INSERT INTO only_y VALUES ('y')");
    assert_eq!(rows(&mut a, only), ["y"]);
    run(&mut b, "CREATE TABLE x.only_y (v text)");
    assert_eq!(rows(&mut a, only), [""; 0]);
    run(&mut b, "DROP TABLE x.only_y");
    assert_eq!(rows(&mut a, only), ["y"]);
    // A schema that another name now means.
    run(&mut b, "ALTER SCHEMA x RENAME TO z; ALTER SCHEMA y RENAME TO x");
    assert_eq!(rows(&mut a, text), ["y"]);
    // The usual path has what the user's name means first.
    let mut c = db.session();
    run(&mut c, "CREATE TABLE public.t (v text); INSERT INTO public.t VALUES ('public')");
    assert_eq!(rows(&mut c, text), ["public"]);
    run(&mut b, "CREATE SCHEMA postgres CREATE TABLE t (v text)");
    assert_eq!(rows(&mut c, text), [""; 0]);
}

#[test]
fn a_registered_query_keeps_what_it_names() {
    let (_folder, db) = open();
    let mut s = db.session();
    run(&mut s, "CREATE SCHEMA x; CREATE TABLE x.t (v text); INSERT INTO x.t VALUES ('x')");
    run(&mut s, "CREATE TABLE t (v text); INSERT INTO t VALUES ('public')");
    run(&mut s, "SET search_path = x; CREATE FUNCTION f() RETURNS text LANGUAGE sql AS 'SELECT v FROM t'");
    run(&mut s, "SET search_path = public");
    let call = "SELECT x.f(), (SELECT v FROM t)";
    assert_eq!(rows(&mut s, call), ["x|public"]);
    let f = s.query_id("x.f").expect("its number");
    let mut found = ondol::Rows::new();
    s.call(f, &[], &mut found).expect("a row");
    assert_eq!(found.row(0).get::<&str>(0).expect("a text"), "x");
    // Its code is made anew.
    run(&mut s, "ALTER TABLE x.t ADD COLUMN w int");
    assert_eq!(rows(&mut s, call), ["x|public"]);
    run(&mut s, "ALTER FUNCTION x.f() SET SCHEMA public; ALTER TABLE x.t DROP COLUMN w");
    assert_eq!(rows(&mut s, "SELECT f()"), ["x"]);
    run(&mut s, "CREATE OR REPLACE FUNCTION f() RETURNS text LANGUAGE sql AS 'SELECT v FROM t'");
    assert_eq!(rows(&mut s, "SELECT f()"), ["public"]);
}

/// Sequences that go with a table's columns go into another schema with it; a dump makes them there again.
#[test]
fn sequences_go_with_their_table() {
    let (folder, db) = open();
    let mut s = db.session();
    s.execute(
        "CREATE SCHEMA s; CREATE TABLE t (a serial, b int GENERATED ALWAYS AS IDENTITY, c int);
         CREATE SEQUENCE q OWNED BY t.c; CREATE SEQUENCE free; INSERT INTO t (c) VALUES (7);
         CREATE TABLE u (a int DEFAULT nextval('t_a_seq'))",
    )
    .unwrap();
    s.execute("ALTER TABLE t SET SCHEMA s; INSERT INTO s.t (c) VALUES (8); INSERT INTO u VALUES (DEFAULT)")
        .unwrap();
    let all = "SELECT string_agg(relnamespace::regnamespace || '.' || relname, ' ' ORDER BY relname)
               FROM pg_class WHERE relkind = 'S'";
    let is_whole = |s: &mut Session| {
        assert_eq!(rows(s, all), ["public.free s.q s.t_a_seq s.t_b_seq"]);
        assert_eq!(rows(s, "SELECT * FROM s.t ORDER BY a"), ["1|1|7", "2|2|8"]);
        assert_eq!(rows(s, "SELECT * FROM u"), ["3"]);
    };
    is_whole(&mut s);
    s.execute("CREATE TABLE x (a serial); CREATE TABLE s.x_a_seq (a int)").unwrap();
    let e = s.execute("ALTER TABLE x SET SCHEMA s").unwrap_err();
    assert_eq!(e.to_string(), "relation \"x_a_seq\" already exists in schema \"s\"");
    s.execute("DROP TABLE s.x_a_seq; BEGIN; ALTER TABLE x SET SCHEMA s; ROLLBACK; DROP TABLE x").unwrap();
    let dump = dumped(&mut s);
    drop(s);
    db.close().unwrap();
    is_whole(&mut session::open_in(&folder).session());
    #[cfg(feature = "command")]
    {
        let (_other, copy) = session::restored(&dump);
        is_whole(&mut copy.session());
        assert_eq!(dumped(&mut copy.session()), dump);
    }
}
