//! Full scans by several threads: they give what one thread gives, row by row, beside writers and data
//! definition, and end when they should.
use ondol::{Database, Isolation, OpenOptions, Session, TempFolder, params};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const ON: &str = "SET max_parallel_workers_per_gather = 3; SET min_parallel_table_scan_size = 0";
const OFF: &str = "SET max_parallel_workers_per_gather = 0";

fn open() -> (TempFolder, Database) {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path()).unwrap();
    (folder, db)
}
fn on(db: &Database) -> Session {
    let mut s = db.session();
    s.execute(ON).unwrap();
    s
}
fn copied(s: &mut Session, what: &str) -> String {
    let mut out = Vec::new();
    let n = s.copy_out(&format!("COPY {what}"), &mut out, |_| {}).unwrap();
    format!("{n}\n{}", String::from_utf8(out).unwrap())
}
fn rows(s: &mut Session, sql: &str) -> Vec<String> {
    let mut all = vec![];
    s.for_each(sql, &[], |row| {
        let mut line = String::new();
        for i in 0..row.len() {
            line.push('|');
            if !row.text(i, &mut line) {
                line.push_str("null")
            }
        }
        all.push(line);
        Ok(())
    })
    .unwrap();
    all
}
/// What a statement's plan says of workers.
fn planned(s: &mut Session, sql: &str) -> bool {
    rows(s, &format!("EXPLAIN {sql}")).iter().any(|l| l.contains("Workers Planned: 3"))
}
/// A table of several hundred pages with every type, NULLs, long texts, holes and changed rows.
fn fill(s: &mut Session) {
    s.execute(
        "CREATE TABLE t (id integer PRIMARY KEY, small smallint, big bigint, f double precision, exact numeric, money numeric(12, 2), name text, code char(5), raw bytea,
             day date, at timestamp, tz timestamptz, yes boolean, span interval, ids uuid[]);
         INSERT INTO t SELECT i, i % 100, i * 3000000000, i / 7.0, (i * i)::numeric / 1000, (i % 977)::numeric / 100,
             CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN repeat('long, \"and\" ', i % 50) ELSE 'n' || i END,
             'c' || i % 1000, decode('00ff', 'hex'), date '2000-01-01' + i % 9999, timestamp '2001-02-03 04:05:06', NULL, i % 3 = 0,
             i % 50 * interval '1 day', ARRAY[lpad(to_hex(i % 40), 32, '0')::uuid, NULL]
             FROM generate_series(1, 12000) AS g (i);
         DELETE FROM t WHERE id % 11 = 3;
         UPDATE t SET name = repeat('x', id % 300) WHERE id % 13 = 5;
         DELETE FROM t WHERE id BETWEEN 4000 AND 6000",
    )
    .unwrap();
}
/// Queries that are read in parts.
const PARTED: &[&str] = &[
    "SELECT * FROM t",
    "SELECT id FROM t WHERE id % 1000 = 0",
    "SELECT id, upper(name), money * 2, f FROM t WHERE yes OR span > '30 days'",
    "SELECT name FROM t WHERE big < 0",
    "TABLE t",
    "SELECT count(*) FROM t",
    "SELECT count(*), count(name), sum(small), sum(id), sum(big), sum(exact), avg(id), avg(exact), min(exact), max(money), min(name), max(code), min(day), max(at), max(tz),
         bool_and(yes), bool_or(yes), bit_xor(id), variance(id), stddev(money), min(f), max(f) FROM t",
    "SELECT count(*), sum(id) FROM t WHERE id % 7 = 1 AND name IS NOT NULL",
    "SELECT sum(id) FROM t WHERE big < 0",
    "SELECT string_agg(code, ',') FROM t WHERE small = 7",
    "SELECT small, count(*), sum(money), min(name) FROM t GROUP BY small",
    "SELECT code, count(*) FILTER (WHERE yes), max(id) FROM t GROUP BY code HAVING count(*) > 8 ORDER BY 3 DESC LIMIT 20",
    "SELECT id, count(*), string_agg(name, '') FROM t GROUP BY id",
    "SELECT span, count(*), max(ids), sum(span) FROM t WHERE span > '3 days' GROUP BY span",
    "SELECT ids, count(*), min(span) FROM t GROUP BY ids",
    "SELECT yes, small % 3, count(*) FROM t WHERE big > 10 GROUP BY yes, small % 3 ORDER BY 1, 2",
    "SELECT (SELECT max(id) FROM t) + 1",
    "SELECT upper(code), count(*) FROM t WHERE day > current_date - 9000 GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5",
    "SELECT count(*), sum(id) FROM t WHERE small IN (1, 2, 3, 5, 7, 11, 13, 17, 19, 23) AND code NOT IN ('c1', 'c2', 'c3', 'c4', 'c5', 'c6', 'c7', 'c8', 'c9')",
    "SELECT small, count(*) FROM t WHERE small IN (length(current_user), length(current_user) + 1, length(current_user) + 2, length(current_user) + 3, length(current_user) + 4,
         length(current_user) + 5, length(current_user) + 6, length(current_user) + 7, length(current_user) + 8, small - 1) GROUP BY small",
];
/// Queries that are not.
const WHOLE: &[&str] = &[
    "SELECT count(DISTINCT small) FROM t",
    "SELECT count(*) FROM t a JOIN t b ON a.id = b.id",
    "SELECT count(*) FROM t WHERE id = 7",
    "SELECT count(*) FROM (SELECT id FROM t LIMIT 10) q",
    "SELECT g, (SELECT count(*) FROM t WHERE id % 5 = g) FROM generate_series(1, 3) AS s (g)",
    "SELECT id FROM t ORDER BY name, id",
    "SELECT id FROM t LIMIT 20",
    "SELECT DISTINCT small FROM t",
    "SELECT 1 UNION ALL SELECT count(*) FROM t",
];
const COPIED: &[&str] = &[
    "t TO STDOUT",
    "t TO STDOUT (FORMAT csv, HEADER)",
    "t (name, id) TO STDOUT (FORMAT csv, FORCE_QUOTE *)",
    "(SELECT id, upper(name), money * 2 FROM t WHERE yes) TO STDOUT (FORMAT csv)",
    "(SELECT * FROM t WHERE big < 0) TO STDOUT (FORMAT csv, HEADER)",
    // In one thread.
    "(SELECT id FROM t ORDER BY id DESC) TO STDOUT",
    "(SELECT id FROM t LIMIT 2000) TO STDOUT",
    "(SELECT small, count(*) FROM t GROUP BY small) TO STDOUT",
];

/// Everything above, by several threads and by one.
fn same(s: &mut Session) {
    let all = |s: &mut Session| {
        let queries = PARTED.iter().chain(WHOLE).map(|q| rows(s, q)).collect::<Vec<_>>();
        (queries, COPIED.iter().map(|c| copied(s, c)).collect::<Vec<_>>())
    };
    s.execute(ON).unwrap();
    let (queries, copies) = all(s);
    s.execute(OFF).unwrap();
    let (queries_of_one, copies_of_one) = all(s);
    for (q, (a, b)) in PARTED.iter().chain(WHOLE).zip(queries.iter().zip(&queries_of_one)) {
        assert_eq!(a, b, "{q}");
    }
    for (c, (a, b)) in COPIED.iter().zip(copies.iter().zip(&copies_of_one)) {
        assert!(a == b, "{c}: {} and {} bytes", a.len(), b.len());
    }
    s.execute(ON).unwrap();
}

#[test]
fn several_threads_give_what_one_gives() {
    let (_folder, db) = open();
    let mut s = on(&db);
    fill(&mut s);
    for q in PARTED {
        assert!(planned(&mut s, q), "{q}");
    }
    for q in WHOLE {
        assert!(!planned(&mut s, q), "{q}");
    }
    same(&mut s);
    // With parameters, prepared and registered.
    s.execute("CREATE FUNCTION below(integer) RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM t WHERE big < $1 * 3000000000 AND code LIKE ''c%'''").unwrap();
    let sql = "SELECT count(*), max(name || $2) FROM t WHERE big < $1 * 3000000000";
    let mut counts = vec![];
    for how in [ON, OFF] {
        s.execute(how).unwrap();
        let one = s.query(sql, &params![900, "end"]).unwrap();
        let (a, b) = (one.row(0).get::<i64>(0).unwrap(), one.row(0).get::<String>(1).unwrap());
        let below = s.query_id("below").unwrap();
        let mut found = ondol::Rows::new();
        s.call(below, &[ondol::ValueRef::Int4(900)], &mut found).unwrap();
        counts.push((a, b, found.row(0).get::<i64>(0).unwrap()));
    }
    assert_eq!(counts[0], counts[1]);
    assert!(counts[0].0 > 800 && counts[0].2 == counts[0].0);
    // Small tables, and no workers: one thread.
    for how in ["SET min_parallel_table_scan_size = '1GB'", OFF] {
        s.execute(ON).unwrap();
        s.execute(how).unwrap();
        assert!(
            !rows(&mut s, "EXPLAIN SELECT count(*) FROM t").iter().any(|l| l.contains("Parallel")),
            "{how}"
        );
    }
}

#[test]
fn a_transactions_own_changes_are_seen_and_nobody_elses() {
    let (_folder, db) = open();
    let mut s = on(&db);
    fill(&mut s);
    let mut other = db.session();
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable] {
        s.begin(isolation).unwrap();
        let before = rows(&mut s, "SELECT count(*), sum(id) FROM t");
        s.execute(
            "INSERT INTO t (id, small, name) SELECT i, 1, repeat('own', 30) FROM generate_series(20001, 20500) AS g (i);
             UPDATE t SET small = 99, name = 'changed to something long enough for a slot of its own' WHERE id % 10 = 0;
             SAVEPOINT s; DELETE FROM t WHERE id % 2 = 0; ROLLBACK TO s; DELETE FROM t WHERE id % 17 = 0",
        )
        .unwrap();
        other.execute("INSERT INTO t (id) SELECT i FROM generate_series(30001, 30100) AS g (i)").unwrap();
        same(&mut s);
        assert_ne!(rows(&mut s, "SELECT count(*), sum(id) FROM t"), before);
        let theirs = rows(&mut s, "SELECT count(*) FROM t WHERE id > 30000");
        assert_eq!(
            theirs,
            [if isolation == Isolation::ReadCommitted { "|100" } else { "|0" }],
            "{isolation:?}"
        );
        s.rollback();
        other.execute("DELETE FROM t WHERE id > 30000").unwrap();
        assert_eq!(rows(&mut s, "SELECT count(*), sum(id) FROM t"), before);
    }
    // A serializable transaction is held to what its workers read.
    s.begin(Isolation::Serializable).unwrap();
    rows(&mut s, "SELECT count(*) FROM t WHERE small = 7");
    s.execute("INSERT INTO t (id, small) VALUES (40000, 8)").unwrap();
    other.begin(Isolation::Serializable).unwrap();
    other
        .execute("SELECT count(*) FROM t WHERE small = 8; INSERT INTO t (id, small) VALUES (40001, 7)")
        .unwrap();
    other.commit().unwrap();
    assert_eq!(s.commit().unwrap_err().sqlstate(), "40001");
}

/// Transfers, changes of long texts, rows that come and go, definitions: in every snapshot the sums are the
/// same, and one thread and several see the same.
#[test]
fn beside_writers_every_scan_is_of_one_snapshot() {
    let folder = TempFolder::new().unwrap();
    let db = OpenOptions::new().memory_limit(512 << 20).open(folder.path()).unwrap();
    let mut s = on(&db);
    s.execute(
        "CREATE TABLE account (id integer PRIMARY KEY, balance bigint NOT NULL, note text);
         INSERT INTO account SELECT i, 1000, repeat('n', i % 100) FROM generate_series(1, 6000) AS g (i)",
    )
    .unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let written = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..3u64)
        .map(|w| {
            let (db, over, written) = (db.clone(), over.clone(), written.clone());
            std::thread::spawn(move || {
                let mut s = db.session();
                let mut r = w * 77 + 1;
                while !over.load(Ordering::Relaxed) {
                    r = r.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let (a, b, n) =
                        ((r >> 33) as i32 % 6000 + 1, (r >> 20) as i32 % 6000 + 1, (r >> 50) as i64);
                    let done = (|| {
                        s.begin(Isolation::ReadCommitted)?;
                        let text = "y".repeat(n as usize % 200);
                        let taken = s.query(
                            "UPDATE account SET balance = balance - $2, note = $3 WHERE id = $1 RETURNING id",
                            &params![a, n, text],
                        )?;
                        let given = s.query(
                            "UPDATE account SET balance = balance + $2 WHERE id = $1 RETURNING id",
                            &params![b, n],
                        )?;
                        // Another has just moved the account: to this statement it is gone.
                        if taken.len() + given.len() < 2 {
                            s.rollback();
                            return Ok(());
                        }
                        // The same account under another number of a writer's own, and back.
                        let other = 1_000_000 * (w as i32 + 1) + a;
                        s.query(
                            "INSERT INTO account SELECT $2, balance, note FROM account WHERE id = $1",
                            &params![a, other],
                        )?;
                        s.query("DELETE FROM account WHERE id = $1", &params![a])?;
                        if n % 7 == 0 {
                            s.rollback();
                            return Ok(());
                        }
                        s.query(
                            "INSERT INTO account SELECT $2, balance, note FROM account WHERE id = $1",
                            &params![other, a],
                        )?;
                        s.query("DELETE FROM account WHERE id = $1", &params![other])?;
                        s.commit_async().map(|_| ())
                    })();
                    match done {
                        Ok(()) => drop(written.fetch_add(1, Ordering::Relaxed)),
                        Err(e) => {
                            assert!(
                                matches!(e.sqlstate(), "40P01" | "40001" | "23505"),
                                "{} {e}",
                                e.sqlstate()
                            );
                            s.rollback()
                        }
                    }
                }
            })
        })
        .collect();
    let definer = {
        let (db, over) = (db.clone(), over.clone());
        std::thread::spawn(move || {
            let mut s = db.session();
            while !over.load(Ordering::Relaxed) {
                s.execute("CREATE INDEX by_balance ON account (balance)").unwrap();
                s.execute("DROP INDEX by_balance").unwrap();
            }
        })
    };
    let aggregate = "SELECT count(*), sum(balance), sum(length(note)), min(id), max(id) FROM account";
    let mut turns = 0;
    while turns < 12 || written.load(Ordering::Relaxed) < 200 {
        turns += 1;
        let now = rows(&mut s, "SELECT count(*), sum(balance) FROM account");
        assert_eq!(now, ["|6000|6000000"]);
        s.begin(Isolation::RepeatableRead).unwrap();
        let a = (rows(&mut s, aggregate), copied(&mut s, "account TO STDOUT (FORMAT csv)"));
        s.execute("SET LOCAL max_parallel_workers_per_gather = 0").unwrap();
        let b = (copied(&mut s, "account TO STDOUT (FORMAT csv)"), rows(&mut s, aggregate));
        s.rollback();
        assert_eq!(a.0, b.1);
        assert!(a.1 == b.0, "{} and {} bytes", a.1.len(), b.0.len());
        assert!(a.1.starts_with("6000\n"));
    }
    over.store(true, Ordering::Relaxed);
    writers.into_iter().chain([definer]).for_each(|t| t.join().unwrap());
}

/// A pipe that is closed after some bytes.
struct Closing(usize);
impl Write for Closing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 < bytes.len() {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn errors_cancellation_and_closed_pipes_end_all_workers() {
    let (_folder, db) = open();
    let mut s = on(&db);
    fill(&mut s);
    // Of several errors the first in the table's order, as with one thread.
    let bad = "SELECT sum(CASE WHEN id < 3000 THEN id WHEN small = 50 THEN (id || 'x')::integer ELSE 1 / (id - id) END) FROM t";
    let error = s.query(bad, &[]).unwrap_err();
    s.execute(OFF).unwrap();
    assert_eq!(error.to_string(), s.query(bad, &[]).unwrap_err().to_string());
    s.execute(ON).unwrap();
    for room in [0, 100, 200_000] {
        let error = s.copy_out("COPY t TO STDOUT", Closing(room), |_| {}).unwrap_err();
        assert!(error.to_string().contains("could not write COPY data"), "{error}");
    }
    // A slow condition, for each row; told to end meanwhile, by a time limit and by another thread.
    let slow = "SELECT count(*) FROM t WHERE length(repeat(md5(id::text), 20000)) > 0";
    s.execute("SET statement_timeout = 30").unwrap();
    let error = s.query(slow, &[]).unwrap_err();
    assert_eq!(error.to_string(), "canceling statement due to statement timeout");
    s.execute("SET statement_timeout = 0").unwrap();
    let canceller = s.canceller();
    let cancelled = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        canceller.cancel();
    });
    let slow = "COPY (SELECT length(repeat(md5(id::text), 20000)) FROM t) TO STDOUT";
    assert_eq!(s.copy_out(slow, std::io::sink(), |_| {}).unwrap_err().sqlstate(), "57014");
    cancelled.join().unwrap();
    // The session goes on, and nothing stays locked.
    same(&mut s);
    db.session().execute("TRUNCATE t").unwrap();
    assert_eq!(rows(&mut s, "SELECT count(*), sum(id), string_agg(name, ',') FROM t"), ["|0|null|null"]);
    assert_eq!(copied(&mut s, "t TO STDOUT"), "0\n");
}

#[test]
fn groups_count_against_the_memory_limit() {
    let folder = TempFolder::new().unwrap();
    let db = OpenOptions::new().memory_limit(96 << 20).open(folder.path()).unwrap();
    let mut s = on(&db);
    s.execute("CREATE TABLE t (id integer, name text); INSERT INTO t SELECT i, repeat('x', 100) || i FROM generate_series(1, 100000) AS g (i)").unwrap();
    let error = s
        .query(
            "SELECT count(*), string_agg(name || name || name || name || name, '') FROM t GROUP BY id",
            &[],
        )
        .unwrap_err();
    assert!(matches!(error.sqlstate(), "53200" | "53400"), "{} {error}", error.sqlstate());
    assert_eq!(rows(&mut s, "SELECT count(*) FROM t"), ["|100000"]);
}

/// CREATE TABLE AS by several threads: all rows of one snapshot, or no table; and what its transaction does
/// later.
#[test]
fn tables_are_made_by_several_threads() {
    let (_folder, db) = open();
    let mut s = on(&db);
    fill(&mut s);
    let sorted = |s: &mut Session, sql: &str| {
        let mut all = rows(s, sql);
        all.sort();
        all
    };
    s.execute("BEGIN; INSERT INTO t (id, name) VALUES (100000, 'own'); CREATE TABLE u AS SELECT * FROM t")
        .unwrap();
    assert!(sorted(&mut s, "SELECT * FROM u") == sorted(&mut s, "SELECT * FROM t"));
    s.execute("SAVEPOINT a; UPDATE u SET name = 'other' WHERE id < 100; DELETE FROM u WHERE id > 11000; ROLLBACK TO a").unwrap();
    s.execute("ALTER TABLE u ADD PRIMARY KEY (id); CREATE INDEX ON u (name); COMMIT").unwrap();
    assert!(sorted(&mut s, "SELECT * FROM u") == sorted(&mut s, "SELECT * FROM t"));
    assert_eq!(rows(&mut s, "SELECT name FROM u WHERE id = 100000"), ["|own"]);
    // Another isolation level, of which every read is remembered.
    s.execute("BEGIN ISOLATION LEVEL SERIALIZABLE; CREATE TABLE v AS SELECT id, big FROM t WHERE id % 2 = 0; COMMIT").unwrap();
    assert!(sorted(&mut s, "SELECT * FROM v") == sorted(&mut s, "SELECT id, big FROM t WHERE id % 2 = 0"));
    // An error of a row, a table that was there, and what was taken back.
    let e = s.execute("CREATE TABLE w AS SELECT id / (id - 9999) AS n FROM t").unwrap_err();
    assert_eq!(e.sqlstate(), "22012");
    let e = s.execute("CREATE TABLE u AS SELECT * FROM t").unwrap_err();
    assert_eq!(e.sqlstate(), "42P07");
    s.execute("BEGIN; CREATE TABLE w AS SELECT * FROM t; ROLLBACK").unwrap();
    assert_eq!(s.execute("SELECT * FROM w").unwrap_err().sqlstate(), "42P01");
    s.execute(
        "CREATE TABLE IF NOT EXISTS u AS SELECT * FROM t; CREATE TABLE w AS SELECT * FROM t WITH NO DATA",
    )
    .unwrap();
    assert_eq!(rows(&mut s, "SELECT count(*) FROM w"), ["|0"]);
}
