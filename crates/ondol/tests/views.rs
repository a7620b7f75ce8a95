//! Views, beyond what a script can show: PostgreSQL's texts of many queries, restart, recovery, dump and
//! restore, transactions, other sessions, plans that were made before.
use ondol::{Database, Session};
#[path = "common/session.rs"]
mod session;
use ondol_sql::deparse;
use session::{dumped, open, restored, rows};
use std::path::Path;
use std::sync::Arc;

fn state(s: &mut Session, sql: &str) -> String {
    match s.execute(sql) {
        Ok(_) => "none".into(),
        Err(e) => e.sqlstate().to_string(),
    }
}

fn text(s: &Session, view: &str, pretty: bool) -> String {
    let catalog = s.catalog();
    let view = catalog.view(view).unwrap_or_else(|| panic!("there is no view {view}"));
    deparse::view(view, &catalog, ondol_engine::Path::public(), pretty)
        .unwrap_or_else(|e| panic!("view {}: {e}", view.name))
}

/// Each `tests/views/NAME.sql` makes tables and views, and `NAME.out` has PostgreSQL 15's
/// `pg_get_viewdef(..., false)` and `pg_get_viewdef(..., true)` of each view.
#[test]
fn queries_are_written_down_as_postgresql_does() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/views");
    let mut views = 0;
    for name in ["own", "tpch"] {
        let read =
            |kind: &str| std::fs::read_to_string(folder.join(format!("{name}.{kind}"))).expect("a file");
        let (_folder, db) = open();
        let mut s = db.session();
        s.execute(&read("sql")).unwrap_or_else(|e| panic!("{name}.sql: {e}"));
        let wanted = read("out");
        for part in wanted.split("-- ").skip(1) {
            let (head, wanted) = part.split_once('\n').expect("a line with the view's name");
            let (view, pretty) = match head.split_once(' ') {
                Some((view, _)) => (view, true),
                None => (head, false),
            };
            assert_eq!(text(&s, view, pretty), wanted.trim_end_matches('\n'), "{head}");
            views += 1
        }
    }
    assert!(views >= 90, "only {views} texts");
}

/// deparse/W1: what is stored means what was written, so that it is written the same way again; and what is
/// shown can be given to another database, which stores the same.
#[test]
fn what_is_written_down_is_bound_as_it_was() {
    for name in ["own", "tpch"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/views/{name}.sql"));
        let (_folder, db) = open();
        let mut s = db.session();
        s.execute(&std::fs::read_to_string(path).expect("a script")).expect("views");
        let catalog = s.catalog();
        for view in catalog.views.values() {
            let once = deparse::view_in_numbers(view, &catalog).expect("it has a meaning");
            let again = ondol_engine::ViewDef { query: once.clone(), ..(**view).clone() };
            let twice = deparse::view_in_numbers(&again, &catalog).expect("it has a meaning");
            assert_eq!(once, twice, "view {}", view.name);
        }
        let (_other, db) = restored(&dumped(&mut s));
        let other = db.session();
        let theirs = other.catalog();
        for view in catalog.views.values() {
            let now = theirs.view(view.full_name()).expect("it is there");
            assert_eq!(now.columns.len(), view.columns.len());
            // What stands in one cast of an array is cast one by one there, as in PostgreSQL.
            if view.name != "v5" {
                assert_eq!(text(&other, &view.name, false), text(&s, &view.name, false));
            }
        }
    }
}

const VIEWS: &str = "
    CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(5,2));
    CREATE TABLE u (a int, d text);
    INSERT INTO t VALUES (1, 'one', 1.5), (2, 'two', NULL), (3, 'three', 3);
    INSERT INTO u VALUES (1, 'x'), (3, 'z');
    CREATE TYPE mood AS ENUM ('sad', 'happy');
    CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql AS 'SELECT $1 * 2';
    CREATE VIEW v AS SELECT *, twice(a) AS e FROM t WHERE a <> 2;
    CREATE VIEW w (x, y, z) AS SELECT v.a, u.d, 'happy'::mood FROM v JOIN u USING (a);
    ALTER VIEW v ALTER COLUMN b SET DEFAULT 'none';
    ALTER TABLE t ADD CONSTRAINT pos CHECK (a > 0);
    COMMENT ON TABLE t IS 'a table''s comment';
    COMMENT ON COLUMN t.b IS 'a column''s';
    COMMENT ON VIEW v IS 'a view''s';
    COMMENT ON COLUMN w.y IS 'a view''s column''s';
    COMMENT ON INDEX t_pkey IS 'an index''s';
    COMMENT ON CONSTRAINT t_pkey ON t IS 'a key''s';
    COMMENT ON CONSTRAINT pos ON t IS 'a check''s';
    COMMENT ON FUNCTION twice(int) IS 'a function''s';
    COMMENT ON TYPE mood IS 'a type''s'";

fn comments(s: &Session) -> Vec<String> {
    s.catalog().comments.values().map(|c| c.to_string()).collect()
}

fn is_whole(s: &mut Session) {
    assert_eq!(rows(s, "SELECT * FROM v ORDER BY a"), ["1|one|1.50|2", "3|three|3.00|6"]);
    assert_eq!(rows(s, "SELECT * FROM w ORDER BY x"), ["1|x|happy", "3|z|happy"]);
    assert_eq!(
        text(s, "w", false),
        " SELECT v.a AS x,\n    u.d AS y,\n    'happy'::mood AS z\n   FROM (v\n     JOIN u USING (a));"
    );
    let catalog = s.catalog();
    assert_eq!(catalog.view("v").expect("v").columns[1].default.as_deref(), Some("'none'"));
    let mut all = comments(s);
    all.sort();
    assert_eq!(
        all,
        [
            "a check's",
            "a column's",
            "a function's",
            "a key's",
            "a table's comment",
            "a type's",
            "a view's",
            "a view's column's",
            "an index's"
        ]
    );
}

#[test]
fn views_outlive_restart_and_recovery_and_a_dump() {
    for clean in [true, false] {
        let (folder, db) = open();
        db.session().execute(VIEWS).expect("views");
        is_whole(&mut db.session());
        if clean {
            db.close().expect("it closes");
        } else {
            db.checkpoint().expect("a checkpoint");
            db.session()
                .execute("CREATE VIEW late AS SELECT a FROM v; ALTER VIEW late RENAME TO later")
                .unwrap();
            drop(db);
        }
        let db = Database::open(folder.path().join("db")).expect("it opens again");
        let mut s = db.session();
        is_whole(&mut s);
        if !clean {
            assert_eq!(rows(&mut s, "SELECT count(*) FROM later"), ["2"]);
        }
        // New objects have other numbers.
        s.execute("CREATE TABLE n (a int); CREATE VIEW nn AS SELECT a FROM n").unwrap();
        let dump = dumped(&mut s);
        let (_other, db) = restored(&dump);
        let mut other = db.session();
        is_whole(&mut other);
        let mut again = Vec::new();
        other.dump(&mut again, |_, _| {}).expect("a dump");
        assert_eq!(String::from_utf8_lossy(&again), dump);
    }
}

#[test]
fn a_view_means_what_it_meant_whatever_its_names_become() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute(VIEWS).expect("views");
    s.execute("ALTER TABLE t RENAME TO t2; ALTER TABLE t2 RENAME COLUMN a TO number").unwrap();
    s.execute("CREATE TABLE t (a int, b text); INSERT INTO t VALUES (7, 'seven')").unwrap();
    s.execute("ALTER TYPE mood RENAME TO temper; ALTER VIEW v RENAME TO v2").unwrap();
    s.execute("ALTER VIEW v2 RENAME COLUMN b TO name").unwrap();
    assert_eq!(rows(&mut s, "SELECT a, name, c, e FROM v2 ORDER BY a"), ["1|one|1.50|2", "3|three|3.00|6"]);
    assert_eq!(rows(&mut s, "SELECT * FROM w ORDER BY x"), ["1|x|happy", "3|z|happy"]);
    assert_eq!(
        text(&s, "v2", false),
        " SELECT t2.number AS a,\n    t2.b AS name,\n    t2.c,\n    twice(t2.number) AS e\n   FROM t2\n  \
         WHERE (t2.number <> 2);"
    );
    // Columns that nothing names go, and the others are found where they are then.
    s.execute("CREATE TABLE x (a int, b int, c int); INSERT INTO x VALUES (1, 2, 3)").unwrap();
    s.execute("CREATE VIEW y AS SELECT c FROM x; ALTER TABLE x DROP COLUMN a; ALTER TABLE x DROP COLUMN b")
        .unwrap();
    assert_eq!(rows(&mut s, "SELECT * FROM y"), ["3"]);
    s.execute("ALTER TABLE x ADD COLUMN a int DEFAULT 9").unwrap();
    assert_eq!(rows(&mut s, "SELECT * FROM y"), ["3"]);
    // A column by whose name others are joined.
    s.execute("ALTER TABLE u RENAME COLUMN a TO b; ALTER TABLE u ADD COLUMN a int").unwrap();
    assert_eq!(rows(&mut s, "SELECT * FROM w ORDER BY x"), ["1|x|happy", "3|z|happy"]);
    assert!(text(&s, "w", false).ends_with("JOIN u ON ((v2.a = u.b)));"), "{}", text(&s, "w", false));
}

#[test]
fn the_catalogue_tells_of_views_and_comments() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute(VIEWS).expect("views");
    let of =
        "SELECT relkind, relnatts, relhasrules, obj_description(oid, 'pg_class') FROM pg_class WHERE relname";
    assert_eq!(rows(&mut s, &format!("{of} = 'v'")), ["v|4|t|a view's"]);
    let text =
        " SELECT v.a AS x,\n    u.d AS y,\n    'happy'::mood AS z\n   FROM (v\n     JOIN u USING (a));";
    for call in
        ["pg_get_viewdef('w'::regclass)", "pg_get_viewdef('w')", "pg_get_viewdef('w'::regclass, false)"]
    {
        assert_eq!(rows(&mut s, &format!("SELECT {call}")), [text]);
    }
    assert_eq!(rows(&mut s, "SELECT definition FROM pg_views WHERE viewname = 'w'"), [text]);
    assert_eq!(rows(&mut s, "SELECT col_description('w'::regclass, 2)"), ["a view's column's"]);
    let columns = "SELECT attname, attnum FROM pg_attribute WHERE attrelid = 'w'::regclass ORDER BY 2";
    assert_eq!(rows(&mut s, columns), ["x|1", "y|2", "z|3"]);
    assert_eq!(rows(&mut s, "SELECT pg_get_viewdef('t'::regclass)"), ["NULL"]);
}

#[test]
fn comments_follow_what_they_are_on() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute(VIEWS).expect("views");
    s.execute("ALTER TABLE t RENAME COLUMN b TO name; ALTER TABLE t RENAME CONSTRAINT pos TO positive")
        .unwrap();
    s.execute("ALTER VIEW w RENAME COLUMN y TO letter; ALTER INDEX t_pkey RENAME TO key").unwrap();
    let c = s.catalog();
    let t = c.table("t").expect("t").def.id;
    let on = |kind, id, part| c.comment(&ondol_engine::Commented::part(kind, id, part)).map(str::to_string);
    use ondol_engine::CommentKind as K;
    assert_eq!(on(K::Column, t, "name").as_deref(), Some("a column's"));
    assert_eq!(on(K::Constraint, t, "positive").as_deref(), Some("a check's"));
    assert_eq!(on(K::Constraint, t, "key").as_deref(), Some("a key's"));
    assert_eq!(on(K::Column, c.view("w").expect("w").id, "letter").as_deref(), Some("a view's column's"));
    s.execute("BEGIN; COMMENT ON TABLE t IS NULL; SAVEPOINT p; COMMENT ON VIEW v IS 'other'; ROLLBACK TO p")
        .unwrap();
    assert_eq!(comments(&s).len(), 8);
    assert!(comments(&s).contains(&"a view's".to_string()));
    s.execute("ROLLBACK").unwrap();
    assert_eq!(comments(&s).len(), 9);
    s.execute("ALTER TABLE t DROP CONSTRAINT positive; DROP TABLE t CASCADE; DROP FUNCTION twice(int)")
        .unwrap();
    assert_eq!(comments(&s), ["a type's"]);
    s.execute("DROP TYPE mood CASCADE").unwrap();
    assert_eq!(comments(&s).len(), 0);
}

#[test]
fn what_a_transaction_does_to_views_is_its_own() {
    let (_folder, db) = open();
    let (mut s, mut other) = (db.session(), db.session());
    s.execute(VIEWS).expect("views");
    s.execute(
        "BEGIN; DROP VIEW w; SAVEPOINT p; CREATE OR REPLACE VIEW v AS SELECT a, b, c, 0 AS e, 1 AS f FROM t",
    )
    .unwrap();
    assert_eq!(rows(&mut s, "SELECT count(*), sum(f) FROM v"), ["3|3"]);
    assert_eq!(rows(&mut other, "SELECT count(*) FROM w"), ["2"]);
    s.execute("ROLLBACK TO p").unwrap();
    assert_eq!(rows(&mut s, "SELECT count(*), sum(e) FROM v"), ["2|8"]);
    assert_eq!(state(&mut s, "SELECT * FROM w"), "42P01");
    s.execute("ROLLBACK").unwrap();
    is_whole(&mut s);
    is_whole(&mut other);
}

#[test]
fn a_plan_over_a_view_is_made_anew_when_the_view_is() {
    let (_folder, db) = open();
    let (mut s, mut other) = (db.session(), db.session());
    s.execute(VIEWS).expect("views");
    s.execute("CREATE FUNCTION seen() RETURNS SETOF int LANGUAGE sql AS 'SELECT x FROM w ORDER BY x'")
        .unwrap();
    let plan = s.prepare("SELECT x FROM w ORDER BY x").expect("a plan");
    let ask = |s: &mut Session| {
        let mut found: Vec<Vec<String>> = vec![rows(s, "SELECT x FROM w ORDER BY x")];
        found.push(rows(s, "SELECT * FROM seen()"));
        let prepared = s.execute_prepared(&plan, &[]).expect("it runs");
        found.push(
            prepared
                .rows
                .expect("rows")
                .iter()
                .map(|r| r.values().map(|v| v.to_string()).collect())
                .collect(),
        );
        assert!(found.windows(2).all(|w| w[0] == w[1]), "{found:?}");
        found.remove(0)
    };
    assert_eq!(ask(&mut s), ["1", "3"]);
    other.execute("CREATE OR REPLACE VIEW v AS SELECT *, 5 AS e FROM t WHERE a = 3").unwrap();
    assert_eq!(ask(&mut s), ["3"]);
    other.execute("CREATE OR REPLACE VIEW w AS SELECT a AS x, b AS y, 'sad'::mood AS z FROM t").unwrap();
    assert_eq!(ask(&mut s), ["1", "2", "3"]);
}

#[test]
fn what_a_view_rests_on_stays_while_it_is_made() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute(VIEWS).expect("views");
    s.execute("BEGIN; CREATE VIEW mine AS SELECT d FROM u").unwrap();
    let db = Arc::new(db);
    let theirs = db.clone();
    let waits = std::thread::spawn(move || {
        let mut other = theirs.session();
        (state(&mut other, "ALTER TABLE u DROP COLUMN d"), state(&mut other, "DROP TABLE u"))
    });
    std::thread::sleep(std::time::Duration::from_millis(50));
    s.execute("COMMIT").unwrap();
    let found = waits.join().expect("it ends");
    assert_eq!(found, ("2BP01".to_string(), "2BP01".to_string()));
    assert_eq!(rows(&mut s, "SELECT count(*) FROM mine"), ["2"]);
}
