//! A transaction's own rows beside what others deleted, moved or re-inserted under the same key: however a
//! key is asked for, the answer is that of a full scan of the same snapshot.
mod common;
use common::{Random, open};
use ondol::Session;

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// The rows, sorted, or the SQLSTATE.
fn rows(s: &mut Session, sql: &str) -> String {
    match s.execute(sql) {
        Err(e) => format!("!{}", e.sqlstate()),
        Ok(outcomes) => {
            let Some(o) = outcomes.last() else { return String::new() };
            let Some(rows) = &o.rows else { return o.tag.clone() };
            let line = |r: ondol::Row<'_>| {
                let cell = |i| {
                    let mut text = String::new();
                    r.text(i, &mut text);
                    text
                };
                (0..r.len()).map(cell).collect::<Vec<_>>().join("|")
            };
            let mut lines: Vec<String> = rows.iter().map(line).collect();
            lines.sort();
            lines.join(";")
        }
    }
}

/// Tables with the same columns, and how each is looked into.
const KINDS: [&str; 4] = [
    "CREATE UNIQUE INDEX ON t USING hash (id)",
    "CREATE UNIQUE INDEX ON t USING btree (id)",
    "CREATE UNIQUE INDEX ON t USING hash (id, part)",
    "CREATE UNIQUE INDEX ON t USING btree (id, part DESC)",
];

#[test]
fn a_transaction_sees_its_own_row_beside_one_that_was_deleted_since() {
    for kind in KINDS {
        for level in &LEVELS[1..] {
            for taken in ["DELETE FROM t WHERE id = 1", "UPDATE t SET id = 7 WHERE id = 1"] {
                let (_folder, db) = open(64);
                let (mut a, mut b) = (db.session(), db.session());
                a.execute(&format!(
                    "CREATE TABLE t (id bigint, part int, v text); {kind};
                     CREATE TABLE u (id bigint); INSERT INTO u VALUES (1), (2), (3);
                     INSERT INTO t VALUES (1, 0, 'old'), (2, 0, 'other')"
                ))
                .expect("sets up");
                a.execute(&format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM u")).expect("begins");
                b.execute(taken).expect("takes the row away");
                a.execute("INSERT INTO t VALUES (1, 0, 'mine')").expect("inserts");
                let what = format!("{kind}, {level}, {taken}");
                for (sql, want) in [
                    ("SELECT v FROM t WHERE id = 1 AND part = 0", "mine;old"),
                    ("SELECT * FROM t WHERE id = 1 AND part = 0", "1|0|mine;1|0|old"),
                    ("SELECT v FROM t WHERE id IN (1, 2) AND part = 0", "mine;old;other"),
                    ("SELECT v FROM t WHERE id = 1 AND part = 0 AND v <> 'old'", "mine"),
                    ("SELECT v FROM t WHERE id = 1 AND part = 0 AND v <> 'mine'", "old"),
                    ("SELECT v FROM u JOIN t ON t.id = u.id AND part = 0", "mine;old;other"),
                    (
                        "SELECT u.id, v FROM u LEFT JOIN t ON t.id = u.id AND part = 0",
                        "1|mine;1|old;2|other;3|",
                    ),
                    ("SELECT count(*) FROM t WHERE id = 1 AND part = 0", "2"),
                    ("SELECT (SELECT v FROM t WHERE id = 1 AND part = 0)", "!21000"),
                ] {
                    a.execute("SAVEPOINT s").expect("a savepoint");
                    assert_eq!(rows(&mut a, sql), want, "{what}: {sql}");
                    a.execute("ROLLBACK TO s").expect("goes back");
                }
                // In the order that is asked for, though a unique key has one row as a rule.
                for (order, want) in [("v", ["mine", "old"]), ("v DESC", ["old", "mine"])] {
                    let sql = format!("SELECT v FROM t WHERE id = 1 AND part = 0 ORDER BY {order}");
                    let found = a.query(&sql, &[]).expect("reads");
                    let found: Vec<String> =
                        found.iter().map(|r| r.get(0)).collect::<Result<_, _>>().expect("texts");
                    assert_eq!(found, want, "{what}: {sql}");
                }
                // The other's row cannot be written, as in PostgreSQL; one's own can.
                let mine = "UPDATE t SET v = 'still mine' WHERE id = 1 AND part = 0 AND v = 'mine'";
                assert_eq!(rows(&mut a, mine), "UPDATE 1", "{what}");
                assert_eq!(rows(&mut a, "SELECT v FROM t WHERE id = 1 AND part = 0"), "old;still mine");
                let both = "UPDATE t SET v = 'both' WHERE id = 1 AND part = 0";
                assert_eq!(rows(&mut a, both), "!40001", "{what}");
                a.execute("ROLLBACK").expect("rolls back");
                let left = if taken.starts_with("DELETE") { "2" } else { "2;7" };
                assert_eq!(rows(&mut a, "SELECT id FROM t"), left, "{what}");
            }
        }
    }
}

#[test]
fn rows_that_were_equal_before_an_index_kept_them_apart_are_both_seen() {
    for (kind, within) in [("hash", false), ("btree", false), ("hash", true), ("btree", true)] {
        let (_folder, db) = open(64);
        let (mut a, mut b) = (db.session(), db.session());
        a.execute(
            "CREATE TABLE t (k int, n int); CREATE TABLE u (x int); INSERT INTO t VALUES (1, 1), (1, 2), (2, 3);
             BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM u",
        )
        .expect("begins");
        b.execute("DELETE FROM t WHERE n = 1").expect("deletes");
        let index = format!("CREATE UNIQUE INDEX ON t USING {kind} (k)");
        if within { &mut a } else { &mut b }.execute(&index).expect("makes the index");
        for sql in [
            "SELECT n FROM t WHERE k = 1",
            "SELECT n FROM t WHERE k + 0 = 1",
            "SELECT n FROM t WHERE k IN (1, 7)",
        ] {
            assert_eq!(rows(&mut a, sql), "1;2", "{kind}, {within}: {sql}");
        }
        a.execute("COMMIT").expect("commits");
        assert_eq!(rows(&mut a, "SELECT n FROM t WHERE k = 1"), "2");
    }
}

/// A statement that makes a twin itself goes on with nothing that an earlier execution left.
#[test]
fn a_statement_that_makes_a_twin_changes_the_row_it_names_only() {
    let (_folder, db) = open(64);
    let (mut a, mut b) = (db.session(), db.session());
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM t";
    a.execute(
        "CREATE TABLE t (a int, b int); CREATE UNIQUE INDEX ON t USING hash (a); CREATE UNIQUE INDEX ON t USING hash (b);
         INSERT INTO t VALUES (1, 1), (2, 2), (3, 12); PREPARE u(int) AS UPDATE t SET b = b + 10 WHERE a = $1",
    )
    .expect("sets up");
    a.execute(begin).expect("begins");
    b.execute("DELETE FROM t WHERE a = 1").expect("deletes");
    a.execute("INSERT INTO t VALUES (1, 101); SAVEPOINT s").expect("inserts");
    assert_eq!(rows(&mut a, "EXECUTE u(1)"), "!40001");
    a.execute("ROLLBACK TO s; COMMIT").expect("commits");
    a.execute(begin).expect("begins");
    b.execute("DELETE FROM t WHERE a = 3").expect("deletes");
    assert_eq!(rows(&mut a, "EXECUTE u(2)"), "UPDATE 1");
    a.execute("COMMIT").expect("commits");
    assert_eq!(rows(&mut a, "SELECT * FROM t"), "1|101;2|12");
}

/// One history of three sessions, of which only one has a transaction open at a time for longer than a
/// statement.
fn history(seed: u64) {
    const KEYS: u64 = 4;
    let mut r = Random(seed);
    let (_folder, db) = open(64);
    let (mut a, mut b) = (db.session(), db.session());
    let kind = KINDS[r.below(4) as usize];
    a.execute(&format!("CREATE TABLE t (id bigint, part int, v text); {kind}; SET synchronous_commit = off"))
        .expect("sets up");
    b.execute("SET synchronous_commit = off; SET lock_timeout = '1ms'").expect("sets");
    let mut trace = vec![format!("{kind};")];
    let change = |r: &mut Random, trace: &mut Vec<String>, who: &str, s: &mut Session| {
        let (k, to, n) = (r.below(KEYS), r.below(KEYS), trace.len());
        let sql = match r.below(6) {
            0 => format!("DELETE FROM t WHERE id = {k} AND part = 0"),
            1 => format!("UPDATE t SET id = {to} WHERE id = {k} AND part = 0"),
            2 => format!("UPDATE t SET v = v || '{n}' WHERE id IN ({k}, {to}) AND part = 0"),
            _ => format!("INSERT INTO t VALUES ({k}, 0, '{who}{n}')"),
        };
        let done = rows(s, &sql);
        assert!(
            !done.starts_with('!') || ["!23505", "!40001", "!55P03"].contains(&done.as_str()),
            "{sql}: {done}"
        );
        trace.push(format!("{who}: {sql} -> {done}"));
        done
    };
    for _ in 0..12 {
        let level = LEVELS[r.below(3) as usize];
        a.execute(&format!("BEGIN ISOLATION LEVEL {level}; SELECT count(*) FROM t")).expect("begins");
        trace.push(format!("a: BEGIN {level}"));
        for _ in 0..r.below(8) {
            if r.below(2) == 0 {
                change(&mut r, &mut trace, "b", &mut b);
                continue;
            }
            a.execute("SAVEPOINT s").expect("a savepoint");
            if change(&mut r, &mut trace, "a", &mut a).starts_with('!') || r.below(8) == 0 {
                a.execute("ROLLBACK TO s").expect("goes back");
                trace.push("a: ROLLBACK TO s".into());
            }
            for k in 0..KEYS {
                let scan = rows(&mut a, &format!("SELECT * FROM t WHERE id + 0 = {k} AND part = 0"));
                for sql in [
                    format!("SELECT * FROM t WHERE id = {k} AND part = 0"),
                    format!("SELECT * FROM t WHERE id IN ({k}, 99) AND part = 0"),
                    format!("SELECT t.* FROM (VALUES ({k}::bigint)) x (k) JOIN t ON id = k AND part = 0"),
                ] {
                    let found = rows(&mut a, &sql);
                    assert_eq!(found, scan, "seed {seed}: {sql}, after\n{}", trace.join("\n"));
                }
            }
        }
        let end = ["COMMIT", "ROLLBACK"][r.below(2) as usize];
        trace.push(format!("a: {end} -> {}", rows(&mut a, end)));
    }
}

#[test]
fn however_a_key_is_asked_for_the_answer_is_that_of_a_full_scan() {
    for seed in 1..=60 {
        history(seed)
    }
}
