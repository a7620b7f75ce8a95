//! Attacks on memory, time and size.
//!
//! The memory that is looked at is what the process has allocated, as an allocator that counts says, so nothing here depends on the
//! machine. What libpg_query allocates is not among it. Tests run one at a time, since the count is the process's.
//!
//! `ONDOL_ATTACKS=long` makes sizes larger and lists longer.
#![allow(unsafe_code, reason = "an allocator that counts is unsafe to implement")]
use ondol::{Database, OpenOptions, Session, TempFolder, Value};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn more(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(live, Relaxed);
}

// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(p, layout) }
    }
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_sub(layout.size(), Relaxed);
        more(size);
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(p, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let done = f();
    let peak = PEAK.load(Relaxed).saturating_sub(before);
    (done, peak, LIVE.load(Relaxed).saturating_sub(before))
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
    let long = [Value::Text("x".repeat(20 * MIB))];
    let mut sessions: Vec<Session> = (0..5).map(|_| db.session()).collect();
    for s in &mut sessions {
        let (refused, peak, left) = bytes(|| state(s, "INSERT INTO t VALUES (1, $1)", &long));
        assert_eq!(refused, "54000");
        assert!(peak < 21 * MIB, "a text of 20 MiB takes {peak}");
        assert!(left < SLACK, "a refused text leaves {left}");
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
            if !fits || peak > LIMIT + LIMIT / 8 || left > SLACK {
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
    || "SELECT exp(5000.123456789::numeric) ^ 20.3".into(),
    || "SELECT factorial(30000)".into(),
    || "SELECT gcd(9::numeric ^ 50000::numeric, 7::numeric ^ 50000::numeric + 1)".into(),
    || "SELECT repeat('a', 60000) LIKE '%' || repeat('a', 20000) || 'b'".into(),
    || "SELECT position(repeat('a', 300000)::bytea || 'b'::bytea IN repeat('a', 9000000)::bytea)".into(),
    || format!("SELECT count(*) FROM t WHERE {}", vec!["a = 1"; 30_000].join(" AND ")),
    || format!("SELECT 1 WHERE 1 IN ({})", vec!["length('a')"; 30_000].join(",")),
    || format!("INSERT INTO t VALUES {}", vec!["(1 + 1, 'a' || 'b')"; 15_000].join(",")),
];

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
        assert_eq!(state(s, "INSERT INTO t VALUES (1, $1)", &text), "54000");
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
