//! Prepared handles: planned once, called as registered queries are, alone and in batches.
#[path = "common/told.rs"]
mod told;
use ondol::{Batch, Database, Rows, Session, TempFolder, ValueRef};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use told::Told;

fn open() -> (TempFolder, Database, Session) {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path().join("db")).unwrap();
    let mut s = db.session();
    s.execute("CREATE TABLE t (a bigint PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'one'), (2, 'two')")
        .unwrap();
    (folder, db, s)
}

#[test]
fn a_handle_follows_the_dictionary_and_serves_each_session() {
    let (_folder, db, mut s) = open();
    let mut rows = Rows::new();
    let find = s.prepare("SELECT * FROM t WHERE a = $1").unwrap();
    let text = |s: &mut Session, rows: &mut Rows, a| {
        let called = s.call_prepared(&find, &[ValueRef::Int8(a)], rows)?;
        Ok::<_, ondol::Error>((called.rows == 1).then(|| rows.row(0).get::<String>(1).unwrap()))
    };
    assert_eq!(text(&mut s, &mut rows, 2).unwrap().as_deref(), Some("two"));
    let mut other = db.session();
    assert_eq!(text(&mut other, &mut rows, 1).unwrap().as_deref(), Some("one"));
    // Within transactions it sees what they see, and fails with them.
    s.execute("BEGIN; UPDATE t SET b = 'II' WHERE a = 2").unwrap();
    assert_eq!(text(&mut s, &mut rows, 2).unwrap().as_deref(), Some("II"));
    assert_eq!(text(&mut other, &mut rows, 2).unwrap().as_deref(), Some("two"));
    s.execute("SELECT 1 / 0").unwrap_err();
    assert_eq!(text(&mut s, &mut rows, 2).unwrap_err().sqlstate(), "25P02");
    s.execute("ROLLBACK").unwrap();
    other.execute("CREATE INDEX ON t (b); DROP TABLE t").unwrap();
    assert_eq!(text(&mut s, &mut rows, 2).unwrap_err().sqlstate(), "42P01");
    other.execute("CREATE TABLE t (a bigint, b text); INSERT INTO t VALUES (2, 'new')").unwrap();
    assert_eq!(text(&mut s, &mut rows, 2).unwrap().as_deref(), Some("new"));
    // A table that a transaction has made, and takes back.
    s.execute(
        "BEGIN; DROP TABLE t; CREATE TABLE t (a bigint PRIMARY KEY, b text); INSERT INTO t VALUES (2, 'own')",
    )
    .unwrap();
    assert_eq!(text(&mut s, &mut rows, 2).unwrap().as_deref(), Some("own"));
    s.execute("ROLLBACK").unwrap();
    assert_eq!(text(&mut s, &mut rows, 2).unwrap().as_deref(), Some("new"));
    // Another database may have the same versions.
    let (_folder, _db, mut far) = open();
    assert_eq!(text(&mut far, &mut rows, 2).unwrap_err().sqlstate(), "0A000");
}

#[test]
fn borrowed_values_go_to_an_output() {
    let (_folder, _db, mut s) = open();
    let insert = s.prepare("INSERT INTO t VALUES ($1, $2) RETURNING b, a").unwrap();
    assert_eq!(insert.columns().len(), 2);
    let mut told = Told::default();
    s.run_prepared(&insert, &[ValueRef::Int8(3), ValueRef::Text("three")], &mut told).unwrap();
    assert_eq!(told.0, ["b,a", "three,3", "INSERT 0 1"]);
    let e = s.run_prepared(&insert, &[ValueRef::Int8(3)], &mut told).unwrap_err();
    assert_eq!(e.sqlstate(), "08P01");
    let e = s.run_prepared(&insert, &[ValueRef::Bool(true), ValueRef::Null], &mut told).unwrap_err();
    assert_eq!(e.sqlstate(), "42804", "{e}");
    // What has no plan is run by its text.
    for (sql, tag) in [("BEGIN", "BEGIN"), ("SELECT 1", "SELECT 1"), ("COMMIT", "COMMIT"), ("", "")] {
        let prepared = s.prepare(sql).unwrap();
        let mut told = Told::default();
        s.run_prepared(&prepared, &[], &mut told).unwrap();
        assert_eq!(told.0.last().map_or("", |t| t), tag);
        assert_eq!(
            s.execute_prepared(&prepared, &[]).map_or_else(|e| e.to_string(), |o| o.tag).is_empty(),
            tag.is_empty()
        );
        if tag == "BEGIN" || tag.is_empty() {
            assert_eq!(s.call_prepared(&prepared, &[], &mut Rows::new()).unwrap_err().sqlstate(), "0A000");
            s.rollback();
        }
    }
}

#[test]
fn a_batch_of_several_statements() {
    let (_folder, db, mut s) = open();
    let find = s.prepare("SELECT * FROM t WHERE a = $1").unwrap();
    let put = s.prepare("INSERT INTO t VALUES ($1, $2)").unwrap();
    let all = s.prepare("SELECT count(*) FROM t").unwrap();
    let gone = s.prepare("DELETE FROM t WHERE a = $1 RETURNING b").unwrap();
    let (one, two, three) = ([ValueRef::Int8(1)], [ValueRef::Int8(2)], [ValueRef::Int8(3)]);
    let new = [ValueRef::Int8(3), ValueRef::Text("three")];
    let calls: &[(&ondol::Prepared, &[ValueRef<'_>])] = &[
        (&find, &one),
        (&find, &three),
        (&put, &new),
        (&put, &new), // again: 23505
        (&find, &three),
        (&find, &new), // a parameter too many
        (&find, &two),
        (&gone, &one),
        (&all, &[]),
    ];
    let mut batch = Batch::new();
    for round in 0..2 {
        s.call_each(calls, &mut batch).unwrap();
        let told: Vec<String> = (0..batch.len())
            .map(|i| match batch.rows(i) {
                Err(e) => e.sqlstate().to_string(),
                Ok(rows) => {
                    let values = rows
                        .iter()
                        .map(|r| r.values().last().map_or(String::new(), |v| v.to_owned().to_string()));
                    format!("{} {}", batch.called(i).unwrap().rows, values.collect::<String>())
                }
            })
            .collect();
        let expected = match round {
            0 => ["1 one", "0 ", "1 ", "23505", "1 three", "42601", "1 two", "1 one", "1 2"],
            _ => ["0 ", "1 three", "23505", "23505", "1 three", "42601", "1 two", "0 ", "1 2"],
        };
        assert_eq!(told, expected);
        assert!(batch.token().is_none_or(|t| db.is_durable(t)));
    }
    // In a transaction the first error is the end.
    s.execute("BEGIN").unwrap();
    s.call_each(&calls[1..5], &mut batch).unwrap();
    let state = |i| batch.called(i).map_or_else(|e| e.sqlstate().to_string(), |_| String::new());
    let states: Vec<String> = (0..4).map(state).collect();
    assert_eq!(states, ["", "23505", "25P02", "25P02"]);
    s.execute("ROLLBACK").unwrap();
    // Registered and prepared are waited for, or held, alike.
    let (done, token) = s.held(|s| s.call_each(&[(&put, &[ValueRef::Int8(9), ValueRef::Null])], &mut batch));
    done.unwrap();
    token.map_or(Ok(()), |t| db.wait(t)).unwrap();
    assert!(db.is_durable(batch.token().unwrap()));
    s.call_each(&[], &mut batch).unwrap();
    assert!(batch.is_empty());
}

#[test]
fn batches_go_on_while_definitions_change() {
    let (_folder, db, mut s) = open();
    s.execute("CREATE FUNCTION add(bigint) RETURNS void LANGUAGE sql AS 'UPDATE t SET b = b WHERE a = $1'")
        .unwrap();
    let add = s.query_id("add").unwrap();
    let update = s.prepare("UPDATE t SET b = 'x' WHERE a = $1 AND b IS NOT NULL").unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let (ended, mut definer) = (over.clone(), db.session());
    let defining = std::thread::spawn(move || {
        while !ended.load(Ordering::Relaxed) {
            definer.execute("CREATE TABLE u (a integer); DROP TABLE u").unwrap();
        }
    });
    let one = [ValueRef::Int8(1)];
    let mut batch = Batch::new();
    for _ in 0..100 {
        s.call_batch(add, &[&one[..]; 100], &mut batch).unwrap();
        (0..100).for_each(|i| assert_eq!(batch.called(i).unwrap().rows, 1));
        s.call_each(&[(&update, &one[..]); 100], &mut batch).unwrap();
        (0..100).for_each(|i| assert_eq!(batch.called(i).unwrap().rows, 1));
    }
    over.store(true, Ordering::Relaxed);
    defining.join().unwrap();
    assert_eq!(s.query("SELECT b FROM t WHERE a = 1", &[]).unwrap().row(0).get::<String>(0).unwrap(), "x");
}
