//! The library without its features (`cargo test -p ondol --no-default-features --test slim`): the engine and
//! SQL are whole, and what needs more is refused by its name.
#![cfg(not(any(feature = "scan", feature = "innodb", feature = "columnar")))]
use ondol::{Database, TempFolder, params};

#[test]
fn what_is_not_built_in_is_refused() {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path().join("db")).unwrap();
    let mut s = db.session();
    s.execute("CREATE TABLE t (a integer PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'x')").unwrap();
    let file = folder.path().join("t.parquet");
    std::fs::write(&file, "PAR1").unwrap();
    for (sql, names, feature) in [
        (format!("COPY t TO '{}' (FORMAT parquet)", file.display()), "Parquet", "columnar"),
        (format!("COPY t FROM '{}' (FORMAT parquet)", file.display()), "Parquet", "columnar"),
        ("SELECT * FROM innodb_scan('t.ibd')".to_string(), "innodb_scan", "innodb"),
        (
            "SET max_parallel_workers_per_gather = 2".to_string(),
            "max_parallel_workers_per_gather = 2",
            "scan",
        ),
    ] {
        let e = s.query(&sql, &[]).unwrap_err();
        assert_eq!(e.sqlstate(), "0A000", "{sql}: {e}");
        assert!(e.to_string().contains(names), "{sql}: {e}");
        let detail = e.0.detail.clone().unwrap_or_default();
        assert!(detail.contains(&format!("\"{feature}\"")), "{sql}: {detail}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"PAR1", "a refused COPY leaves the file");
}

#[test]
fn one_thread_does_what_several_would() {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path().join("db")).unwrap();
    let mut s = db.session();
    s.execute(
        "SET max_parallel_workers_per_gather = 0; SET min_parallel_table_scan_size = 0;
         CREATE TABLE t (a integer, b text); INSERT INTO t SELECT n, 'x' FROM generate_series(1, 50000) n;
         CREATE TABLE u AS SELECT a FROM t WHERE a % 2 = 0",
    )
    .unwrap();
    assert_eq!(
        s.query("SHOW max_parallel_workers_per_gather", &[]).unwrap().row(0).get::<&str>(0).unwrap(),
        "0"
    );
    let sums = s.query("SELECT count(*), sum(a) FROM t WHERE a > $1", &params![10]).unwrap();
    assert_eq!(
        (sums.row(0).get::<i64>(0).unwrap(), sums.row(0).get::<i64>(1).unwrap()),
        (49_990, 1_250_024_945)
    );
    let mut text = Vec::new();
    assert_eq!(s.copy_out("COPY u TO STDOUT", &mut text, |_| {}).unwrap(), 25_000);
    assert!(text.starts_with(b"2\n4\n") && text.ends_with(b"\n50000\n"));
}
