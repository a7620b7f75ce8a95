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

fn explained(s: &mut ondol::Session, sql: &str) -> Vec<String> {
    s.query(sql, &[]).unwrap().iter().map(|r| r.get::<String>(0).unwrap()).collect()
}

#[test]
fn options_say_what_is_shown() {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path()).unwrap();
    let mut s = db.session();
    s.execute("CREATE TABLE t (a integer PRIMARY KEY, b text); INSERT INTO t SELECT n, 'x' FROM generate_series(1, 50) n")
        .unwrap();
    let sql = "SELECT b, count(*) FROM t WHERE a <= 30 GROUP BY b";
    let plain = explained(&mut s, &format!("EXPLAIN {sql}"));
    assert!(plain[0].starts_with("HashAggregate  (cost=") && plain[0].contains(" rows="), "{plain:#?}");
    let without = explained(&mut s, &format!("EXPLAIN (COSTS OFF) {sql}"));
    assert_eq!(without[..3], ["HashAggregate", "  Group Key: b", "  ->  Index Scan using t_pkey on t"]);
    let verbose = explained(&mut s, &format!("EXPLAIN (VERBOSE, COSTS OFF) {sql}"));
    assert_eq!(verbose[1], "  Output: t.b, count(*)");
    assert_eq!(verbose[4], "        Output: t.a, t.b");
    let json = explained(&mut s, &format!("EXPLAIN (ANALYZE, FORMAT json) {sql}"));
    let [json] = &json[..] else { panic!("{json:#?}") };
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    let plan = &json[0]["Plan"];
    assert_eq!((&plan["Node Type"], &plan["Actual Rows"]), (&"HashAggregate".into(), &1.into()));
    let below = &plan["Plans"][0];
    assert_eq!((&below["Relation Name"], &below["Actual Rows"]), (&"t".into(), &30.into()));
    assert_eq!(below["Index Cond"], "(a <= 30)");
    assert!(
        below["Total Cost"].as_f64().unwrap() > 0.0 && json[0]["Byte Code"].as_array().unwrap().len() > 5
    );
}

/// Also while the tables are empty, as they are when queries are registered before loading, and when they are
/// full.
#[test]
fn more_columns_with_a_value_make_the_better_index() {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path()).unwrap();
    let mut s = db.session();
    s.execute(
        "CREATE TABLE o (w int, d int, id int, c int, PRIMARY KEY (w, d, id)); CREATE INDEX by_c ON o (w, d, c, id);
         CREATE TABLE x (a int, b int, n int); CREATE INDEX x_a ON x (a); CREATE INDEX x_ab ON x USING hash (a, b)",
    )
    .unwrap();
    let cases = [
        ("SELECT * FROM o WHERE w = 1 AND d = 2 AND c = 3 ORDER BY id DESC LIMIT 1", "by_c"),
        ("SELECT * FROM o WHERE w = 1 AND d = 2 AND c = 3", "by_c"),
        ("SELECT * FROM o WHERE w = 1 AND d = 2 AND c = 3 AND id = 4", "o_pkey"),
        ("SELECT * FROM o WHERE w = 1 AND d = 2 ORDER BY id LIMIT 1", "o_pkey"),
        ("SELECT * FROM x WHERE a = 1 AND b = 2", "x_ab"),
        ("SELECT * FROM x WHERE a = 1 AND n = 2", "x_a"),
    ];
    for (n, (sql, index)) in cases.iter().chain(&cases).enumerate() {
        if n == cases.len() {
            s.execute("INSERT INTO o SELECT n / 30000, n / 3000 % 10, n % 3000, n % 3000 FROM generate_series(1, 60000) n")
                .unwrap();
        }
        let plan = s.query(&format!("EXPLAIN {sql}"), &[]).unwrap();
        let lines: Vec<String> = plan.iter().map(|r| r.get::<String>(0).unwrap()).collect();
        let used =
            lines.iter().find(|l| l.contains(" using ")).unwrap_or_else(|| panic!("{sql}: {lines:#?}"));
        assert!(used.contains(&format!("using {index} ")), "{sql}: {used}");
    }
}

#[test]
fn conflicts_are_counted() {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path()).unwrap();
    let mut s = db.session();
    s.execute(
        "CREATE TABLE t (a integer PRIMARY KEY, b integer); INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)",
    )
    .expect("it is made");
    let mut counted = |sql: &str| -> Vec<String> {
        explained(&mut s, &format!("EXPLAIN (ANALYZE, COSTS OFF) {sql}"))
            .into_iter()
            .map(|l| l.trim().to_string())
            .filter(|l| ["Conflict", "Rows Removed", "Tuples", "Insert on"].iter().any(|w| l.starts_with(w)))
            .collect()
    };
    let update =
        "INSERT INTO t VALUES (1, 1), (2, 1), (7, 7) ON CONFLICT (a) DO UPDATE SET b = 0 WHERE t.b < 2";
    assert_eq!(
        counted(update),
        [
            "Insert on t (actual rows=2 loops=1)",
            "Conflict Resolution: UPDATE",
            "Conflict Arbiter Indexes: t_pkey",
            "Conflict Filter: (t.b < 2)",
            "Rows Removed by Conflict Filter: 1",
            "Tuples Inserted: 1",
            "Conflicting Tuples: 2",
        ]
    );
    let nothing = "INSERT INTO t VALUES (1, 1), (8, 8) ON CONFLICT DO NOTHING";
    assert_eq!(
        counted(nothing),
        [
            "Insert on t (actual rows=1 loops=1)",
            "Conflict Resolution: NOTHING",
            "Tuples Inserted: 1",
            "Conflicting Tuples: 1",
        ]
    );
}
