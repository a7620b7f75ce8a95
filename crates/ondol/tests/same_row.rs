//! One row changed again and again by one transaction: what it, others and rollbacks see, and that it takes
//! time and memory in proportion.
mod common;
use common::{Random, open};
use ondol::Session;
use std::time::{Duration, Instant};

fn used(s: &mut Session) -> i64 {
    let rows = s.query("SELECT bytes FROM ondol_memory WHERE name = 'used'", &[]).expect("reads");
    rows.row(0).get(0).expect("a number")
}

#[test]
fn time_and_memory_grow_with_the_changes_and_no_faster() {
    let (_folder, db) = open(128);
    let mut s = db.session();
    s.execute(
        "CREATE TABLE t (id int PRIMARY KEY, n bigint, v text); INSERT INTO t VALUES (1, 0, ''), (2, 0, '')",
    )
    .expect("sets up");
    let mut run = |n: u32| {
        let before = used(&mut s);
        s.execute("BEGIN").expect("begins");
        let start = Instant::now();
        for i in 0..n {
            s.query("UPDATE t SET n = n + 1 WHERE id = $1", &ondol::params![1 + (i % 2) as i32])
                .expect("changes");
        }
        let (time, bytes) = (start.elapsed(), used(&mut s) - before);
        s.execute("ROLLBACK").expect("rolls back");
        (time, bytes)
    };
    let (few, many) = (run(3000), run(24000));
    // 64 times as long where each change goes through all before it.
    assert!(many.0 < few.0 * 24 + Duration::from_millis(200), "{few:?}, {many:?}");
    assert!(many.1 < 24000 * 160, "{few:?}, {many:?}");
}

type Content = Vec<(i64, i64, i64, String)>;

fn rows(s: &mut Session, sql: &str) -> Content {
    let found = s.query(sql, &[]).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let get = |r: ondol::Row<'_>| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?));
    found.iter().map(get).collect::<ondol::Result<Content>>().expect("values")
}

/// What the table holds, as a scan and each index have it.
fn check(s: &mut Session, model: &Content, what: &str) {
    assert_eq!(rows(s, "SELECT * FROM t ORDER BY id + 0"), *model, "{what}");
    for k in 0..40 {
        let wanted: Content = model.iter().filter(|r| r.1 == k).cloned().collect();
        assert_eq!(rows(s, &format!("SELECT * FROM t WHERE k = {k}")), wanted, "{what}: k = {k}");
    }
    assert_eq!(rows(s, "SELECT * FROM t ORDER BY v, id").len(), model.len(), "{what}");
}

#[test]
fn changes_of_a_row_are_undone_to_each_savepoint_and_found_by_each_key() {
    for seed in 1..=40 {
        let mut r = Random(seed);
        let (_folder, db) = open(128);
        let (mut a, mut b) = (db.session(), db.session());
        a.execute(
            "SET synchronous_commit = off; CREATE TABLE t (id bigint PRIMARY KEY, k bigint, n bigint, v text);
             CREATE UNIQUE INDEX ON t USING hash (k); CREATE INDEX ON t (v)",
        )
        .expect("sets up");
        let mut committed: Content = (0..3).map(|i| (i, i, 0, String::new())).collect();
        a.execute("INSERT INTO t SELECT i, i, 0, '' FROM generate_series(0, 2) i").expect("inserts");
        for turn in 0..8 {
            let mut now = committed.clone();
            let mut saved: Vec<Content> = vec![];
            a.execute("BEGIN").expect("begins");
            if r.below(3) == 0 {
                let id = 10 + turn;
                a.execute(&format!("INSERT INTO t VALUES ({id}, {id} + 100, 0, 'new')")).expect("inserts");
                now.push((id, id + 100, 0, "new".into()));
            }
            for step in 0..30 {
                let what = format!("seed {seed}, transaction {turn}, step {step}");
                let i = r.below(now.len() as u64) as usize;
                let id = now[i].0;
                match r.below(10) {
                    0 => {
                        a.execute(&format!("SAVEPOINT s{}", saved.len())).expect("a savepoint");
                        saved.push(now.clone())
                    }
                    1 if !saved.is_empty() => {
                        let to = r.below(saved.len() as u64) as usize;
                        a.execute(&format!("ROLLBACK TO s{to}")).expect("goes back");
                        saved.truncate(to + 1);
                        now = saved[to].clone();
                        check(&mut a, &now, &what)
                    }
                    2 if !saved.is_empty() => {
                        let to = r.below(saved.len() as u64) as usize;
                        a.execute(&format!("RELEASE s{to}")).expect("releases");
                        saved.truncate(to)
                    }
                    3 | 4 => {
                        let k = r.below(40) as i64;
                        if now.iter().all(|x| x.1 != k) {
                            a.execute(&format!("UPDATE t SET k = {k} WHERE id = {id}")).expect("changes");
                            now[i].1 = k
                        }
                    }
                    5 => {
                        let v = "long ".repeat(r.below(20) as usize);
                        a.execute(&format!("UPDATE t SET v = '{v}' WHERE id = {id}")).expect("changes");
                        now[i].3 = v
                    }
                    6 => {
                        // A statement that fails after it has changed rows takes back its own changes only.
                        a.execute("SAVEPOINT own").expect("a savepoint");
                        let failed = a.execute(&format!("UPDATE t SET n = 7 / (id - {id})")).map(|_| ());
                        assert_eq!(failed.map_err(|e| e.sqlstate().to_string()), Err("22012".to_string()));
                        a.execute("ROLLBACK TO own; RELEASE own").expect("goes back");
                    }
                    _ => {
                        a.execute(&format!("UPDATE t SET n = n + 1 WHERE id = {id}")).expect("changes");
                        now[i].2 += 1
                    }
                }
                if r.below(4) == 0 {
                    check(&mut a, &now, &what);
                    check(&mut b, &committed, &what);
                }
            }
            if r.below(3) > 0 {
                a.execute("COMMIT").expect("commits");
                committed = now
            } else {
                a.execute("ROLLBACK").expect("rolls back");
            }
            check(&mut a, &committed, &format!("seed {seed}, after transaction {turn}"));
        }
    }
}
