//! EXPLAIN ANALYZE counts what each node did, however the statement was reached.
use ondol::{Database, TempFolder};

#[test]
fn a_prepared_statement_is_measured_as_any_other() {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path()).unwrap();
    let mut s = db.session();
    s.execute(
        "CREATE TABLE t (a integer PRIMARY KEY, b text); INSERT INTO t SELECT n, 'x' FROM generate_series(1, 5) n;
         PREPARE p(integer) AS SELECT b FROM t WHERE a <= $1;
         CREATE FUNCTION f(integer) RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t WHERE a <= $1'",
    )
    .unwrap();
    for sql in ["SELECT b FROM t WHERE a <= 3", "EXECUTE p(3)", "EXECUTE f(3)"] {
        let plan = s.query(&format!("EXPLAIN ANALYZE {sql}"), &[]).unwrap();
        let lines: Vec<String> = plan.iter().map(|r| r.get::<String>(0).unwrap()).collect();
        assert!(lines.iter().any(|l| l.contains("(actual rows=3 loops=1)")), "{sql}: {lines:#?}");
        let plan = s.query(&format!("EXPLAIN {sql}"), &[]).unwrap();
        assert!(plan.iter().all(|r| !r.get::<String>(0).unwrap().contains("actual rows")));
    }
}
