//! Attacks on memory, time and size.
//!
//! The memory that is looked at is what the process has allocated, as an allocator that counts says, so
//! nothing here depends on the machine. What libpg_query allocates is not among it. Tests run one at a time,
//! since the count is the process's.
//!
//! `ONDOL_ATTACKS=long` makes sizes larger and lists longer, `ONDOL_ATTACK=NAME` takes one form of statement.
#[path = "common/allocated.rs"]
mod allocated;
use ondol::{Database, OpenOptions, Session, TempFolder, Value};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const MIB: usize = 1 << 20;
/// Of the databases here.
const LIMIT: usize = 64 * MIB;
/// What a session may keep after a statement, and what is too small to be charged.
const SLACK: usize = 3 * MIB;

fn open() -> (MutexGuard<'static, ()>, TempFolder, Database) {
    let alone = ONE_AT_A_TIME.lock().unwrap_or_else(|e| e.into_inner());
    let folder = TempFolder::new().unwrap();
    let db = OpenOptions::new().memory_limit(LIMIT).open(folder.path()).unwrap();
    (alone, folder, db)
}

/// The bytes that `f` has at a time, and those that it leaves.
fn bytes<T>(f: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = allocated::begin();
    let done = f();
    (done, allocated::most().saturating_sub(before), allocated::now().saturating_sub(before))
}

fn long() -> bool {
    std::env::var("ONDOL_ATTACKS").is_ok_and(|v| v == "long")
}

/// The SQLSTATE; nothing of a statement that succeeds.
fn state(s: &mut Session, sql: &str, params: &[Value]) -> &'static str {
    s.for_each(sql, params, |_| Ok(())).map_or_else(|e| e.sqlstate(), |()| "")
}

#[test]
fn a_parameter_is_given_back_with_its_statement() {
    let (_alone, _folder, db) = open();
    db.session().execute("CREATE TABLE t (a integer, b text)").unwrap();
    let long = [Value::Text("x".repeat(40 * MIB))];
    let mut sessions: Vec<Session> = (0..5).map(|_| db.session()).collect();
    for (n, s) in sessions.iter_mut().enumerate() {
        let (refused, peak, left) = bytes(|| state(s, "INSERT INTO t VALUES (1, $1)", &long));
        // There is room for the statement's, not for the row's beside it.
        assert_eq!(refused, "53200");
        assert!(peak < LIMIT + LIMIT / 8, "a text of 40 MiB takes {peak}");
        // The table keeps the pages that the first began with, and the next begin with them.
        let kept = if n == 0 { LIMIT - 40 * MIB } else { 0 };
        assert!(left < kept + SLACK, "a refused text leaves {left}");
        let (done, _, left) = bytes(|| state(s, "SELECT length($1)", &long));
        assert_eq!((done, left < SLACK), ("", true), "{left} are left");
    }
    // What is refused has not been copied.
    let longer = [Value::Text("x".repeat(100 * MIB))];
    for s in &mut sessions {
        let (refused, peak, left) = bytes(|| state(s, "SELECT length($1)", &longer));
        assert_eq!(refused, "53200");
        assert!(peak < SLACK && left < SLACK, "a text of 100 MiB takes {peak} and leaves {left}");
    }
}

/// Functions of a text or bytea of so many bytes, or that make one.
const FUNCTIONS: &[fn(usize) -> String] = &[
    |n| format!("repeat('xyz', {})", n / 3),
    |n| format!("repeat('x', {n}) || 'y'"),
    |n| format!("'y' || repeat('x', {n})"),
    |n| format!("repeat('x', {n}) || repeat('y', {n})"),
    |n| format!("concat(repeat('x', {n}), 1, repeat('y', {n}))"),
    |n| format!("concat_ws(repeat('x', {}), 1, 2, 3, 4)", n / 4),
    |n| format!("lpad('a', {n}, 'xy')"),
    |n| format!("rpad('ä', {n}, 'öü')"),
    |n| format!("lpad(repeat('x', {n}), {})", n / 2),
    |n| format!("replace(repeat('a', {n}), 'a', 'bcd')"),
    |n| format!("replace(repeat('a', {n}), 'a', '')"),
    |n| format!("translate(repeat('a', {n}), 'a', 'ä')"),
    |n| format!("upper(repeat('a', {n}))"),
    |n| format!("lower(repeat('Ä', {}))", n / 2),
    |n| format!("initcap(repeat('a ', {}))", n / 2),
    |n| format!("reverse(repeat('ab', {}))", n / 2),
    |n| format!("substr(repeat('a', {n}), 2)"),
    |n| format!("left(repeat('a', {n}), -1)"),
    |n| format!("right(repeat('a', {n}), -1)"),
    |n| format!("btrim(repeat('a', {n}), 'b')"),
    |n| format!("overlay(repeat('a', {n}) placing 'b' from 3)"),
    |n| format!("split_part(repeat('a', {n}), ',', 1)"),
    |n| format!("quote_literal(repeat('''', {n}))"),
    |n| format!("quote_ident(repeat('\"', {n}))"),
    |n| format!("quote_nullable(repeat('''', {n}))"),
    |n| format!("repeat('a', {n})::bytea"),
    |n| format!("repeat('a', {n})::bytea::text"),
    |n| format!("encode(repeat('a', {n})::bytea, 'escape')"),
    |n| format!("encode(repeat('a', {n})::bytea, 'base64')"),
    |n| format!("encode(repeat('a', {n})::bytea, 'hex')"),
    |n| format!("decode(repeat('ab', {}), 'hex')", n / 2),
    |n| format!("convert_to(repeat('a', {n}), 'UTF8')"),
    |n| format!("repeat('a', {n})::varchar(10000000)"),
    |n| format!("repeat('a', {n})::char(10)"),
    |n| format!("md5(repeat('a', {n}))"),
    |n| format!("strpos(repeat('a', {n}), 'b')"),
    |n| format!("repeat('a', {n}) LIKE '%b'"),
    |n| format!("repeat('A', {n}) ILIKE '%b'"),
    |n| format!("(SELECT string_agg('some text', ',') FROM generate_series(1, {}))", n / 10),
    |n| format!("(SELECT max(repeat('x', {n} + i)) FROM generate_series(1, 3) i)"),
    |n| {
        format!(
            "(SELECT x FROM (SELECT repeat('x', {n} + i) x FROM generate_series(1, 3) i) q ORDER BY x LIMIT 1)"
        )
    },
    |n| {
        format!(
            "(SELECT count(*) FROM (SELECT DISTINCT repeat('x', {n} + i) FROM generate_series(1, 3) i) q)"
        )
    },
];

#[test]
fn no_function_takes_more_than_the_limit() {
    let (_alone, _folder, db) = open();
    let mut s = db.session();
    let mut wrong = vec![];
    let sizes: &[usize] = match long() {
        true => &[MIB, 6 * MIB, 12 * MIB, 25 * MIB, 50 * MIB, 100 * MIB, 500 * MIB, 1000 * MIB],
        false => &[MIB, 6 * MIB, 25 * MIB, 500 * MIB],
    };
    let mut refused = 0;
    for function in FUNCTIONS {
        for n in sizes {
            let sql = format!("SELECT count({})", function(*n));
            let (state, peak, left) = bytes(|| state(&mut s, &sql, &[]));
            refused += usize::from(!state.is_empty());
            // What is small succeeds.
            let fits = if *n == MIB { state.is_empty() } else { matches!(state, "" | "53200" | "54000") };
            // What a value has room for beyond its length is no memory yet.
            if !fits || peak > LIMIT + LIMIT / if long() { 2 } else { 8 } || left > SLACK {
                wrong.push(format!("{sql}: {state:?}, takes {peak}, leaves {left}"))
            }
        }
    }
    assert!(refused > FUNCTIONS.len(), "only {refused} were refused");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Statements that would go on for long in one function, or before they run.
const LONG: &[fn() -> String] = &[
    || "SELECT ln(9::numeric ^ 100000::numeric)".into(),
    || "SELECT sqrt(ln(9::numeric ^ 100000::numeric) + (9::numeric ^ 100000::numeric))".into(),
    || "SELECT log(3.1, 9::numeric ^ 100000::numeric)".into(),
    || "SELECT factorial(30000)".into(),
    || "SELECT gcd(9::numeric ^ 50000::numeric, 7::numeric ^ 50000::numeric + 1)".into(),
    || "SELECT repeat('a', 60000) LIKE '%' || repeat('a', 20000) || 'b'".into(),
    || "SELECT position(repeat('a', 300000)::bytea || 'b'::bytea IN repeat('a', 9000000)::bytea)".into(),
    || format!("SELECT {} && {}", series("g"), series("-g")),
    || format!("SELECT {} <@ {}", series("g"), series("g")),
    || "SELECT cardinality(array_positions(array_fill(7, ARRAY[30000000]), 8))".into(),
    || format!("SELECT count(*) FROM t WHERE {}", vec!["a = 1"; 30_000].join(" AND ")),
    || format!("SELECT 1 WHERE 1 IN ({})", vec!["length('a')"; 30_000].join(",")),
    || format!("INSERT INTO t VALUES {}", vec!["(1 + 1, 'a' || 'b')"; 15_000].join(",")),
];

/// An array that takes long to be compared with another item by item, not to be made.
fn series(item: &str) -> String {
    format!("(SELECT array_agg({item}) FROM generate_series(1, 20000) g)")
}

/// Statements of so many parts.
const PARTS: &[(&str, fn(usize) -> String)] = &[
    ("AND", |n| format!("SELECT count(*) FROM t WHERE {}", vec!["a = 1"; n].join(" AND "))),
    ("OR", |n| format!("SELECT count(*) FROM t WHERE {}", vec!["a = 1"; n].join(" OR "))),
    ("IN of numbers", |n| format!("SELECT count(*) FROM t WHERE a IN ({})", vec!["1"; n].join(","))),
    ("IN of texts", |n| format!("SELECT count(*) FROM t WHERE b IN ({})", vec!["'text'"; n].join(","))),
    ("IN of negative numbers", |n| {
        format!("SELECT count(*) FROM t WHERE a IN ({})", vec!["-1"; n].join(","))
    }),
    ("IN of calls", |n| format!("SELECT 1 WHERE 1 IN ({})", vec!["length('a')"; n].join(","))),
    ("IN of casts", |n| format!("SELECT 1 WHERE 1 IN ({})", vec!["'1'::int"; n].join(","))),
    ("VALUES", |n| format!("INSERT INTO t VALUES {}", vec!["(1, 'a')"; n].join(","))),
    ("VALUES of expressions", |n| format!("INSERT INTO t VALUES {}", vec!["(1 + a, 'a' || b)"; n].join(","))),
    ("targets", |n| format!("SELECT {} FROM t", vec!["a"; n.min(1600)].join(","))),
    ("CASE", |n| format!("SELECT CASE a {} END FROM t", vec!["WHEN 1 THEN 2"; n].join(" "))),
    ("a text", |n| format!("SELECT '{}'", "x".repeat(20 * n))),
    ("UNION", |n| format!("SELECT 1 {}", vec!["UNION SELECT 1"; n.min(100)].join(" "))),
    ("parameters", |n| {
        format!(
            "SELECT 1 WHERE 1 IN ({})",
            (1..=n.min(65_535)).map(|i| format!("${i}::int")).collect::<Vec<_>>().join(",")
        )
    }),
    ("statements", |n| vec!["SELECT 1"; n].join(";")),
    ("columns", |n| {
        format!(
            "CREATE TABLE x ({})",
            (0..n.min(1600)).map(|i| format!("c{i} int NOT NULL DEFAULT 1")).collect::<Vec<_>>().join(",")
        )
    }),
    ("comments", |n| format!("SELECT 1 {}", "-- x\n".repeat(n))),
];

#[test]
fn planning_is_charged_for_what_it_takes() {
    let (_alone, folder, _db) = open();
    let db = OpenOptions::new().memory_limit(2 << 30).open(folder.path().join("large")).unwrap();
    let mut s = db.session();
    s.execute("CREATE TABLE t (a integer, b text)").unwrap();
    let n = if long() { 50_000 } else { 3000 };
    let mut wrong = vec![];
    for (name, form) in PARTS {
        let sql = form(n);
        let charged = ondol_sql::parse::memory(&sql);
        let (done, peak, left) = bytes(|| s.prepare(&sql).map(drop));
        // Neither too little nor far too much.
        if peak > charged + MIB / 4 || done.is_ok() && charged > 3 * peak + MIB {
            wrong.push(format!("{name}: takes {peak}, is charged {charged}, leaves {left}"))
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_text_that_memory_is_too_small_for_is_not_parsed() {
    let (_alone, _folder, db) = open();
    let mut s = db.session();
    s.execute("CREATE TABLE t (a integer, b text)").unwrap();
    for (name, form) in PARTS {
        let sql = form(100_000);
        let (state, peak, left) = bytes(|| state(&mut s, &sql, &[]));
        let small = ondol_sql::parse::memory(&sql) < LIMIT / 2;
        assert!(small || state == "53200", "{name}: {state:?}");
        assert!(peak < if small { LIMIT } else { SLACK }, "{name} takes {peak}");
        assert!(left < 2 * SLACK, "{name} leaves {left}");
    }
}

/// A result is the caller's when it is complete; until then it counts.
#[test]
fn a_result_counts_while_it_is_gathered() {
    let (_alone, _folder, db) = open();
    let mut s = db.session();
    let rows = |n: usize| format!("SELECT n, repeat('x', 1000) FROM generate_series(1, {n}) n");
    let (refused, peak, left) = bytes(|| s.query(&rows(200_000), &[]).map_err(|e| e.sqlstate()));
    assert_eq!(refused.err(), Some("53200"));
    // A vector grows to its double.
    assert!(peak < 2 * LIMIT && left < SLACK, "takes {peak}, leaves {left}");
    assert_eq!(s.query(&rows(20_000), &[]).unwrap().len(), 20_000);
    let both = format!("{}; {}", rows(35_000), rows(35_000));
    assert_eq!(s.execute(&both).unwrap_err().sqlstate(), "53200");
    let mut n = 0;
    s.for_each(&rows(200_000), &[], |_| {
        n += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(n, 200_000);
}

/// So many bytes of one record, in small pieces.
struct Line(usize);

impl std::io::Read for Line {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let n = to.len().min(self.0).min(16 << 10);
        to[..n].fill(b'x');
        self.0 -= n;
        Ok(n)
    }
}

#[test]
fn a_record_of_copy_counts() {
    let (_alone, _folder, db) = open();
    let mut s = db.session();
    s.execute("CREATE TABLE t (b text)").unwrap();
    for options in ["", "(FORMAT csv)"] {
        for n in [MIB, 3 * MIB, 10 * MIB, 30 * MIB, 300 * MIB] {
            let sql = format!("COPY t FROM STDIN {options}");
            let (done, peak, left) = bytes(|| s.copy_in(&sql, Line(n), |_| {}).map_err(|e| e.sqlstate()));
            let expected = match n {
                MIB => Ok(1),
                300_000_000.. => Err("53200"),
                _ => done,
            };
            assert!(done == expected && matches!(done, Ok(1) | Err("54000" | "53200")), "{n}: {done:?}");
            let kept = if done.is_ok() { n + n / 8 } else { 0 };
            let fits = peak < LIMIT + LIMIT / 8 && left < kept + SLACK;
            assert!(fits, "{sql} of {n}: takes {peak}, leaves {left}");
        }
    }
}

/// Sessions that run large things at a time, and after one another: together they stay below the limit.
#[test]
fn many_sessions_stay_below_the_limit() {
    let (_alone, _folder, db) = open();
    let (states, peak, left) = bytes(|| {
        let threads: Vec<_> = (0..6)
            .map(|n| {
                let db = db.clone();
                std::thread::spawn(move || {
                    let mut s = db.session();
                    let mut states = vec![];
                    for turn in 0..4 {
                        let bytes = (n + turn + 1) * 3 * MIB;
                        states.push(state(&mut s, &format!("SELECT length(repeat('x', {bytes}))"), &[]));
                        let rows = (n + turn + 1) * 40_000;
                        states.push(state(
                            &mut s,
                            &format!(
                                "SELECT count(*) FROM (SELECT DISTINCT n FROM generate_series(1, {rows}) n) s"
                            ),
                            &[],
                        ));
                    }
                    states
                })
            })
            .collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(states.iter().all(|s| matches!(*s, "" | "53200")), "{states:?}");
    assert!(states.contains(&""), "all were refused");
    // A vector grows to its double.
    assert!(peak < 2 * LIMIT && left < SLACK, "takes {peak}, leaves {left}");
}

type Form = (&'static str, usize, fn(&mut Session, usize) -> &'static str);

fn joined(n: usize, each: impl Fn(usize) -> String, by: &str) -> String {
    (0..n).map(each).collect::<Vec<_>>().join(by)
}

/// Runs what a form has made, in a transaction that is rolled back.
fn run(s: &mut Session, sql: &str) -> &'static str {
    let done = state(s, "BEGIN", &[]);
    assert_eq!(done, "");
    // A text of its own, so that it is planned each time.
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let sql = format!("{sql} -- {}", TURN.fetch_add(1, Relaxed));
    let done = s.execute(&sql).map_or_else(|e| e.sqlstate(), |_| "");
    s.rollback();
    done
}

/// Statements of growing size, with the size to begin with.
const FORMS: &[Form] = &[
    ("brackets", 20_000, |s, n| run(s, &format!("SELECT {}1{}", "(".repeat(n), ")".repeat(n)))),
    ("nested calls", 20_000, |s, n| run(s, &format!("SELECT {}1{}", "abs(".repeat(n), ")".repeat(n)))),
    ("NOT", 20_000, |s, n| run(s, &format!("SELECT {} true", "NOT ".repeat(n)))),
    ("signs", 20_000, |s, n| run(s, &format!("SELECT {}1", "- ".repeat(n)))),
    ("a sum", 20_000, |s, n| run(s, &format!("SELECT {}1", "1+".repeat(n)))),
    ("concatenations", 20_000, |s, n| run(s, &format!("SELECT {}'a'", "'a'||".repeat(n)))),
    ("nested subqueries", 5000, |s, n| run(s, &format!("SELECT {}1{}", "(SELECT ".repeat(n), ")".repeat(n)))),
    ("nested CASE", 5000, |s, n| {
        run(s, &format!("SELECT {}1{}", "CASE WHEN true THEN ".repeat(n), " END".repeat(n)))
    }),
    ("derived tables", 5000, |s, n| {
        run(s, &format!("{}SELECT 1{}", "SELECT * FROM (".repeat(n), ") x".repeat(n)))
    }),
    ("brackets never closed", 20_000, |s, n| run(s, &format!("SELECT {}", "(".repeat(n)))),
    ("UNION ALL", 2000, |s, n| run(s, &joined(n, |i| format!("SELECT {i}"), " UNION ALL "))),
    ("joins", 1000, |s, n| {
        run(
            s,
            &format!(
                "SELECT count(*) FROM t t0 {}",
                joined(n, |i| format!("JOIN t x{i} ON x{i}.a = t0.a"), " ")
            ),
        )
    }),
    ("a list of tables", 1000, |s, n| {
        run(s, &format!("SELECT 1 FROM {}", joined(n, |i| format!("t x{i}"), ",")))
    }),
    ("WITH", 500, |s, n| {
        run(s, &format!("WITH {} SELECT 1 FROM a1", joined(n, |i| format!("a{i} AS (SELECT {i})"), ",")))
    }),
    ("WITH of one another", 500, |s, n| {
        let each = |i| format!("a{} AS (SELECT * FROM a{i})", i + 1);
        run(s, &format!("WITH a0 AS (SELECT 1), {} SELECT 1 FROM a{n}", joined(n, each, ",")))
    }),
    ("WITH of one another, kept", 500, |s, n| {
        let each = |i| format!("a{} AS MATERIALIZED (SELECT * FROM a{i})", i + 1);
        run(s, &format!("WITH a0 AS (SELECT 1), {} SELECT 1 FROM a{n}", joined(n, each, ",")))
    }),
    ("WITH that doubles, not kept", 10, |s, n| {
        let each = |i| format!("a{} AS NOT MATERIALIZED (SELECT x.q FROM a{i} x, a{i} y)", i + 1);
        run(s, &format!("WITH a0 AS (SELECT 1 q), {} SELECT 1 FROM a{n}", joined(n, each, ",")))
    }),
    ("WITH that doubles", 10, |s, n| {
        let each = |i| format!("a{} AS (SELECT x.q FROM a{i} x, a{i} y)", i + 1);
        run(s, &format!("WITH a0 AS (SELECT 1 q), {} SELECT 1 FROM a{n}", joined(n, each, ",")))
    }),
    ("targets", 200, |s, n| run(s, &format!("SELECT {} FROM t", joined(n, |i| format!("a + {i}"), ",")))),
    ("aggregates", 200, |s, n| {
        run(s, &format!("SELECT {} FROM t", joined(n.min(1600), |i| format!("sum(a + {i})"), ",")))
    }),
    ("GROUP BY", 200, |s, n| {
        run(s, &format!("SELECT count(*) FROM t GROUP BY {}", joined(n, |i| format!("a + {i}"), ",")))
    }),
    ("ORDER BY", 200, |s, n| {
        run(s, &format!("SELECT a FROM t ORDER BY {}", joined(n, |i| format!("a + {i}"), ",")))
    }),
    ("DISTINCT", 200, |s, n| {
        run(s, &format!("SELECT DISTINCT {} FROM t", joined(n, |i| format!("a + {i}"), ",")))
    }),
    ("subqueries", 200, |s, n| run(s, &format!("SELECT {}", joined(n, |i| format!("(SELECT {i})"), ",")))),
    ("EXISTS", 200, |s, n| {
        run(
            s,
            &format!(
                "SELECT 1 WHERE {}",
                joined(n, |i| format!("EXISTS (SELECT 1 FROM t WHERE a = {i})"), " OR ")
            ),
        )
    }),
    ("BETWEEN", 2000, |s, n| {
        run(s, &format!("SELECT a FROM t WHERE {}", joined(n, |i| format!("a BETWEEN {i} AND 7"), " OR ")))
    }),
    ("LIKE", 2000, |s, n| {
        run(s, &format!("SELECT a FROM t WHERE {}", joined(n, |i| format!("b LIKE '%{i}'"), " OR ")))
    }),
    ("GREATEST", 2000, |s, n| run(s, &format!("SELECT greatest({})", joined(n, |i| i.to_string(), ",")))),
    ("concat", 2000, |s, n| run(s, &format!("SELECT concat({})", joined(n, |i| format!("'{i}'"), ",")))),
    ("columns of a table", 200, |s, n| {
        run(s, &format!("CREATE TABLE x ({})", joined(n, |i| format!("c{i} integer"), ",")))
    }),
    ("constraints", 50, |s, n| {
        run(s, &format!("CREATE TABLE x (a integer, {})", joined(n, |_| "UNIQUE (a)".into(), ",")))
    }),
    ("columns of an index", 100, |s, n| {
        run(s, &format!("CREATE INDEX i ON t ({})", joined(n, |_| "a".into(), ",")))
    }),
    ("tables dropped", 1000, |s, n| {
        run(s, &format!("DROP TABLE IF EXISTS {}", joined(n, |i| format!("none{i}"), ",")))
    }),
    ("arguments of a function", 500, |s, n| {
        run(
            s,
            &format!(
                "CREATE FUNCTION f({}) RETURNS integer LANGUAGE sql AS 'SELECT 1'",
                joined(n, |_| "integer".into(), ",")
            ),
        )
    }),
    ("a function's body", 2000, |s, n| {
        run(
            s,
            &format!(
                "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM t WHERE {}'",
                joined(n, |i| format!("a = {i}"), " OR ")
            ),
        )
    }),
    ("SET of columns", 500, |s, n| run(s, &format!("UPDATE t SET {}", joined(n, |_| "b = 'x'".into(), ",")))),
    ("a setting", 100_000, |s, n| run(s, &format!("SET application_name = '{}'", "x".repeat(n)))),
    ("arguments of EXECUTE", 2000, |s, n| {
        let types = joined(n, |_| "integer".into(), ",");
        let sum = joined(n, |i| format!("${}", i + 1), ",");
        let prepare = format!("PREPARE p({types}) AS SELECT 1 WHERE 1 IN ({sum})");
        let done = run(s, &format!("{prepare}; EXECUTE p({})", joined(n, |i| i.to_string(), ",")));
        s.execute("DEALLOCATE ALL").unwrap();
        done
    }),
    ("statements", 500, |s, n| run(s, &joined(n, |_| "SELECT 1".into(), ";"))),
    ("EXPLAIN", 2000, |s, n| {
        run(s, &format!("EXPLAIN SELECT a FROM t WHERE {}", joined(n, |i| format!("a <> {i}"), " AND ")))
    }),
    ("savepoints", 500, |s, n| run(s, &joined(n, |i| format!("SAVEPOINT s{i}"), ";"))),
    ("a name", 100_000, |s, n| run(s, &format!("SELECT \"{}\"", "x".repeat(n)))),
    ("a qualified name", 2000, |s, n| run(s, &format!("SELECT {}", joined(n, |_| "x".into(), ".")))),
    ("a text", 1_000_000, |s, n| run(s, &format!("SELECT '{}'", "x".repeat(n)))),
    ("quotes", 300_000, |s, n| run(s, &format!("SELECT '{}'", "''".repeat(n)))),
    ("escapes", 300_000, |s, n| run(s, &format!("SELECT E'{}'", "\\n".repeat(n)))),
    ("dollars", 300_000, |s, n| run(s, &format!("SELECT $x${}$x$", "$y$".repeat(n)))),
    ("dollars never closed", 100_000, |s, n| run(s, &format!("SELECT $x${}", "$y$".repeat(n)))),
    ("comments", 100_000, |s, n| run(s, &format!("SELECT 1 {}", "/* x */".repeat(n)))),
    ("nested comments", 100_000, |s, n| run(s, &format!("SELECT 1 {}{}", "/*".repeat(n), "*/".repeat(n)))),
    ("blanks", 1_000_000, |s, n| run(s, &format!("SELECT {}1", " ".repeat(n)))),
    ("a number", 10_000, |s, n| run(s, &format!("SELECT {}", "9".repeat(n)))),
    ("a fraction", 2000, |s, n| run(s, &format!("SELECT 0.{}", "9".repeat(n)))),
    ("a number's text", 10_000, |s, n| run(s, &format!("SELECT '{}'::numeric", "9".repeat(n)))),
    ("a bytea", 300_000, |s, n| run(s, &format!("SELECT '\\x{}'::bytea", "ab".repeat(n)))),
    ("a date", 100_000, |s, n| run(s, &format!("SELECT '{}'::date", "2020-01-01 ".repeat(n)))),
    ("a syntax error at the end", 2000, |s, n| {
        run(s, &format!("SELECT a FROM t WHERE {} )", joined(n, |i| format!("a = {i}"), " OR ")))
    }),
    ("an error that repeats", 2000, |s, n| {
        run(s, &format!("SELECT {} , , 1", joined(n, |_| "1".into(), ",")))
    }),
    ("a text parameter", MIB, |s, n| state(s, "SELECT length($1)", &[Value::Text("x".repeat(n))])),
    ("a bytea parameter", MIB, |s, n| state(s, "SELECT length($1::bytea)", &[Value::Bytea(vec![7; n])])),
    ("a text that is a bytea", MIB, |s, n| {
        state(s, "SELECT length($1::bytea)", &[Value::Text("x".repeat(n))])
    }),
    ("parameters", 2000, |s, n| {
        let params: Vec<Value> = (0..n as i32).map(Value::Int4).collect();
        state(
            s,
            &format!(
                "INSERT INTO t VALUES {} -- {}",
                joined(n, |i| format!("(${}, '')", i + 1), ","),
                allocated::now()
            ),
            &params,
        )
    }),
    ("rows of COPY", 5000, |s, n| {
        let copied = s.copy_in("COPY t FROM STDIN", "1\tx\n".repeat(n).as_bytes(), |_| {});
        let done = copied.map_or_else(|e| e.sqlstate(), |_| "");
        s.execute("TRUNCATE t").unwrap();
        done
    }),
    ("a line of COPY", MIB, |s, n| {
        let line = format!("1\t{}\n", "x".repeat(n));
        s.copy_in("COPY t FROM STDIN", line.as_bytes(), |_| {}).map_or_else(|e| e.sqlstate(), |_| "")
    }),
    ("columns of COPY", 100_000, |s, n| {
        s.copy_in("COPY t FROM STDIN", "1\t".repeat(n).as_bytes(), |_| {})
            .map_or_else(|e| e.sqlstate(), |_| "")
    }),
    ("a quoted value of COPY", 300_000, |s, n| {
        let line = format!("1,\"{}\n", "\"\"".repeat(n));
        s.copy_in("COPY t FROM STDIN (FORMAT csv)", line.as_bytes(), |_| {})
            .map_or_else(|e| e.sqlstate(), |_| "")
    }),
    ("rows that are given", 5000, |s, n| {
        let sql = format!("SELECT n, 'x' FROM generate_series(1, {n}) n");
        s.query(&sql, &[]).map_or_else(|e| e.sqlstate(), |_| "")
    }),
    ("rows that are changed", 2000, |s, n| {
        run(
            s,
            &format!(
                "INSERT INTO t SELECT n, 'x' FROM generate_series(1, {n}) n; UPDATE t SET a = a + 1; DELETE FROM t WHERE a > 5"
            ),
        )
    }),
    ("a running concatenation", 20_000, |s, n| {
        run(s, &format!("SELECT string_agg(n::text, ',') FROM generate_series(1, {n}) n"))
    }),
];

/// SQLSTATEs of what is too large or too deep, or no value.
const TOO_MUCH: &[&str] = &[
    "", "53200", "54000", "54001", "54011", "54023", "0A000", "22003", "22001", "22007", "22008", "22P04",
    "42601", "42622", "42703", "42701", "42P13", "42702", "42P01", "3F000", "08P01", "42712",
];

/// With eight times the size, a form takes about eight times the time and the memory, or is refused.
#[test]
fn time_and_memory_grow_with_the_size_and_no_faster() {
    const TIMES: usize = 8;
    /// So short that it tells nothing.
    const SHORT: Duration = Duration::from_millis(150);
    let (_alone, folder, _db) = open();
    let db = OpenOptions::new().memory_limit(1 << 30).open(folder.path().join("large")).unwrap();
    let mut s = db.session();
    s.execute("SET synchronous_commit = off; CREATE TABLE t (a integer, b text)").unwrap();
    let mut wrong = vec![];
    let only = std::env::var("ONDOL_ATTACK").ok();
    for (name, n, form) in FORMS.iter().filter(|f| only.as_ref().is_none_or(|o| o == f.0)) {
        let n = if long() { *n * 4 } else { *n };
        let mut measured = |n: usize| {
            let mut best = Duration::MAX;
            let (mut peak, mut done) = (0, "");
            for _ in 0..3 {
                let begun = Instant::now();
                (done, peak, _) = bytes(|| form(&mut s, n));
                best = best.min(begun.elapsed());
                if best > SHORT * 4 {
                    break;
                }
            }
            (done, best, peak)
        };
        let ((first, few, some), (then, many, more)) = (measured(n), measured(n * TIMES));
        if std::env::var_os("ONDOL_ATTACKS").is_some() {
            println!("{name}: {n} {first:?} {few:?} {some}, {} {then:?} {many:?} {more}", n * TIMES);
        }
        let refused = |state: &str| !TOO_MUCH.contains(&state);
        if refused(first) || refused(then) {
            wrong.push(format!("{name}: {first} for {n}, {then} for {}", n * TIMES))
        }
        // Quadratic is sixty-four times as much; what is short tells nothing.
        if many > SHORT && many > few * 4 * TIMES as u32 {
            wrong.push(format!("{name}: {few:?} for {n}, {many:?} for {}", n * TIMES))
        }
        if more > MIB && more > some * 2 * TIMES + MIB {
            wrong.push(format!("{name}: {some} bytes for {n}, {more} for {}", n * TIMES))
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// The C library keeps what is freed, unless it is told.
#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn the_system_gets_back_what_a_large_statement_took() {
    let (_alone, folder, _db) = open();
    let db = OpenOptions::new().memory_limit(2 << 30).open(folder.path().join("large")).unwrap();
    db.session().execute("CREATE TABLE t (a integer, b text)").unwrap();
    let before = resident();
    let mut sessions: Vec<Session> = (0..3).map(|_| db.session()).collect();
    for s in &mut sessions {
        let sql = PARTS[0].1(20_000);
        let rows = "SELECT count(*) FROM (SELECT n::text || ' and more' FROM generate_series(1, 300000) n ORDER BY 1 OFFSET 1) s";
        let (_, planned, _) = bytes(|| assert_eq!(state(s, &sql, &[]), ""));
        let (_, sorted, _) = bytes(|| assert_eq!(state(s, rows, &[]), ""));
        let text = [Value::Text("x".repeat(150 * MIB))];
        assert_eq!(state(s, "INSERT INTO t VALUES (1 / 0, $1)", &text), "22012");
        drop((sql, text));
        let left = resident().saturating_sub(before);
        assert!(left < 50 * MIB, "{planned} to plan, {sorted} to sort, and {left} stay");
    }
}

#[test]
fn a_statement_is_ended_wherever_it_is() {
    let (_alone, folder, _db) = open();
    let db = OpenOptions::new().memory_limit(1 << 30).open(folder.path().join("large")).unwrap();
    let mut s = db.session();
    s.execute("CREATE TABLE t (a integer, b text); SET statement_timeout = 20").unwrap();
    let wrong: Vec<String> = LONG
        .iter()
        .map(|sql| sql())
        .filter(|sql| state(&mut s, sql, &[]) != "57014")
        .map(|sql| sql[..sql.len().min(100)].to_string())
        .collect();
    assert!(wrong.is_empty(), "not ended: {}", wrong.join("\n"));
}
