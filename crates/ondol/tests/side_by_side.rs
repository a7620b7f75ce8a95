//! Random definitions beside random writers and readers, on real threads: what writers know of their rows is
//! what is there, at every snapshot, in every index, and after a restart.
#[path = "common/session.rs"]
mod session;
use ondol::{Database, Session};
use session::{open, open_in, rows, run};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const WRITERS: u64 = 3;
/// Rows of each writer at the beginning, each with this value: the sum stays.
const ROWS: u64 = 60;
const VALUE: i64 = 100;

struct Random(u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// What a writer knows of its rows: v and s by id.
type Known = BTreeMap<u64, (i64, String)>;

fn text(r: &mut Random, id: u64) -> String {
    let long = r.one(&[0, 3, 20, 40, 300]);
    format!("{id}:{}:{}", r.below(1000), "x".repeat(long))
}

/// Errors that others may cause.
const OTHERS: [&str; 5] = ["40P01", "40001", "55P03", "23503", "23505"];

struct Shared {
    stop: AtomicBool,
    failed: Mutex<Option<String>>,
    done: AtomicU64,
}

impl Shared {
    fn fail(&self, what: String) {
        self.failed.lock().unwrap().get_or_insert(what);
        self.stop.store(true, Ordering::SeqCst)
    }
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::SeqCst)
    }
}

/// Runs statements that change so many rows in all. Above READ COMMITTED a table whose rows were copied in a
/// block since the snapshot is empty: then none are changed.
fn exactly(s: &mut Session, sql: &str, rows: u64) -> ondol::Result<()> {
    let done: u64 = s.execute(sql)?.iter().map(|o| o.count).sum();
    let level = s.query("SHOW transaction_isolation", &[])?.row(0).get::<String>(0)?;
    match done {
        0 if level != "read committed" => Err(ondol::Error::new("40001", "the table is empty")),
        n if n == rows => Ok(()),
        n => Err(ondol::Error::new("XX000", format!("{level}: {n} rows were changed, not {rows}: {sql}"))),
    }
}

/// One change of a writer's rows.
fn change(s: &mut Session, r: &mut Random, w: u64, known: &mut Known, next: &mut u64) -> ondol::Result<()> {
    let ids: Vec<u64> = known.keys().copied().collect();
    let (a, b) = (r.one(&ids), r.one(&ids));
    match r.below(9) {
        0 | 1 => {
            let id = *next;
            *next += WRITERS;
            let t = text(r, id);
            exactly(s, &format!("INSERT INTO t (id, k, v, s) VALUES ({id}, {id}, 0, '{t}')"), 1)?;
            known.insert(id, (0, t));
        }
        2 if ids.len() > 20 && a != b => {
            let v = known[&a].0;
            let both = format!("UPDATE t SET v = v + {v} WHERE id = {b}; DELETE FROM t WHERE id = {a}");
            exactly(s, &if s.in_transaction() { both } else { format!("BEGIN; {both}; COMMIT") }, 2)?;
            known.remove(&a);
            known.get_mut(&b).unwrap().0 += v;
        }
        3 | 4 if a != b => {
            let m = r.below(5) as i64;
            let sql = format!(
                "UPDATE t SET v = v + CASE WHEN id = {a} THEN {m} ELSE -{m} END WHERE id IN ({a}, {b})"
            );
            exactly(s, &sql, 2)?;
            known.get_mut(&a).unwrap().0 += m;
            known.get_mut(&b).unwrap().0 -= m;
        }
        5 => {
            let t = text(r, a);
            let x = format!(", x = {}", r.below(9) * 1000 + 7);
            let later = r.one(&[
                &*x,
                ", y = t.id || ':' || repeat('y', t.id % 90)",
                ", x = DEFAULT",
                ", y = NULL",
                "",
            ]);
            let sql = |later: &str| format!("UPDATE t SET s = '{t}'{later} WHERE id = {a}");
            exactly(s, &sql(later), 1).or_else(|e| match e.sqlstate() {
                // Only outside a block is there a second try.
                "42703" if !s.in_transaction() => exactly(s, &sql(""), 1),
                _ => Err(e),
            })?;
            known.get_mut(&a).unwrap().1 = t;
        }
        6 => {
            let id = *next;
            *next += WRITERS;
            let (v, _) = known.remove(&a).unwrap();
            let t = text(r, id);
            exactly(s, &format!("UPDATE t SET id = {id}, k = {id}, s = '{t}' WHERE id = {a}"), 1)?;
            known.insert(id, (v, t));
        }
        7 => {
            let p = r.below(12);
            let sql = match r.below(6) {
                0 => format!("DELETE FROM p WHERE id = {p}"),
                1 => format!("UPDATE p SET id = {} WHERE id = {p}", r.below(12)),
                2 => format!("INSERT INTO p VALUES ({p}) ON CONFLICT (id) DO UPDATE SET n = p.n + 1"),
                3 => format!("DELETE FROM c WHERE id % {WRITERS} = {w} AND p = {p}"),
                4 => format!("UPDATE c SET p = {p} WHERE id % {WRITERS} = {w} AND p = {}", r.below(12)),
                _ => format!("INSERT INTO c (id, p) VALUES ({}, {p})", r.below(50) * WRITERS + w),
            };
            s.execute(&sql)?;
        }
        _ => {
            let t = text(r, a);
            let sql = format!(
                "INSERT INTO t (id, k, v, s) VALUES ({a}, {a}, 0, '') ON CONFLICT (id) DO UPDATE SET s = '{t}'"
            );
            exactly(s, &sql, 1)?;
            known.get_mut(&a).unwrap().1 = t;
        }
    }
    Ok(())
}

fn write(db: &Database, seed: u64, w: u64, shared: &Shared, known: &mut Known) {
    let mut r = Random(seed * 1000 + w);
    let mut s = db.session();
    run(&mut s, "SET synchronous_commit = off; SET lock_timeout = '10s'");
    let mut next = 10_000 + w;
    while shared.goes_on() {
        let mut now = known.clone();
        let mut one = |now: &mut Known| -> ondol::Result<bool> {
            if r.below(2) == 0 {
                change(&mut s, &mut r, w, now, &mut next)?;
                return Ok(true);
            }
            s.execute(r.one(&[
                "BEGIN",
                "BEGIN",
                "BEGIN ISOLATION LEVEL REPEATABLE READ",
                "BEGIN ISOLATION LEVEL SERIALIZABLE",
            ]))?;
            for _ in 0..r.below(4) {
                if r.below(3) > 0 {
                    change(&mut s, &mut r, w, now, &mut next)?;
                    continue;
                }
                s.execute("SAVEPOINT a")?;
                let mut inner = now.clone();
                let done = change(&mut s, &mut r, w, &mut inner, &mut next);
                match (&done, r.below(2)) {
                    (Ok(_), 0) => {
                        *now = inner;
                        s.execute("RELEASE a")?
                    }
                    _ => s.execute("ROLLBACK TO a")?,
                };
            }
            match r.below(8) {
                0 => s.execute("ROLLBACK").map(|_| false),
                _ => s.execute("COMMIT").map(|_| true),
            }
        };
        match one(&mut now) {
            Ok(true) => {
                shared.done.fetch_add(1, Ordering::Relaxed);
                *known = now
            }
            Ok(false) => {}
            Err(e) => {
                if s.in_transaction() {
                    run(&mut s, "ROLLBACK")
                }
                if !OTHERS.contains(&e.sqlstate()) && e.sqlstate() != "42703" {
                    return shared.fail(format!("writer {w}: {} {e}", e.sqlstate()));
                }
            }
        }
    }
}

const SUM: i64 = (WRITERS * ROWS) as i64 * VALUE;

fn read(db: &Database, seed: u64, shared: &Shared) {
    let mut r = Random(seed * 7 + 3);
    let mut s = db.session();
    run(&mut s, "SET lock_timeout = '10s'");
    while shared.goes_on() {
        let mut one = || -> ondol::Result<()> {
            let level = r.one(&["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]);
            s.execute(&format!("BEGIN ISOLATION LEVEL {level}"))?;
            if r.below(2) == 0 {
                s.execute("SELECT count(*) FROM p")?;
                thread::sleep(Duration::from_millis(r.below(20)));
            }
            let mut look = |sql: &str, expected: &str| -> ondol::Result<()> {
                let found = s.query(sql, &[])?;
                let found: Vec<String> = found
                    .iter()
                    .map(|r| r.values().map(|v| v.to_string()).collect::<Vec<_>>().join("|"))
                    .collect();
                // A snapshot that is older than a copy made in a block shows an empty table.
                let empty = level != "READ COMMITTED" && found == ["NULL"];
                if found != [expected] && !empty {
                    shared.fail(format!("{level}: {sql}: {found:?}, not {expected}"))
                }
                Ok(())
            };
            for _ in 0..2 {
                let sql = r.one(&[
                    "SELECT sum(v)::bigint FROM t",
                    "SELECT sum(v)::bigint FROM t WHERE id >= 0",
                    "SELECT sum(v)::bigint FROM t WHERE k >= 0",
                    "SELECT sum(v)::bigint FROM (SELECT v FROM t ORDER BY id) AS u",
                ]);
                look(sql, &SUM.to_string())?;
            }
            look("SELECT count(*) FROM t WHERE s NOT LIKE id || ':%' OR k <> id", "0")?;
            let later = r.one(&[
                "",
                "SELECT count(*) FROM t WHERE x <> -1 AND x % 1000 <> 7",
                "SELECT count(*) FROM t WHERE y <> 'as it was' AND y <> split_part(y, ':', 1) || ':'
                     || repeat('y', length(split_part(y, ':', 2)))",
                "SELECT count(*) FROM t WHERE g <> id * 2",
            ]);
            if !later.is_empty() {
                look(later, "0")?
            }
            if r.below(3) == 0 {
                s.execute("DECLARE q CURSOR FOR SELECT v::bigint FROM t")?;
                let mut sum = 0;
                loop {
                    let found = s.query("FETCH 37 FROM q", &[])?;
                    if found.iter().next().is_none() {
                        break;
                    }
                    sum += found.iter().map(|r| r.get::<i64>(0).unwrap()).sum::<i64>();
                }
                if sum != SUM && !(level != "READ COMMITTED" && sum == 0) {
                    shared.fail(format!("{level}: a cursor's sum is {sum}"))
                }
            }
            s.execute("COMMIT")?;
            Ok(())
        };
        if let Err(e) = one() {
            if s.in_transaction() {
                run(&mut s, "ROLLBACK")
            }
            if !OTHERS.contains(&e.sqlstate()) && e.sqlstate() != "42703" {
                return shared.fail(format!("reader: {} {e}", e.sqlstate()));
            }
        }
    }
}

fn definition(r: &mut Random, n: u64) -> String {
    let many = [
        "ALTER TABLE t ALTER v TYPE bigint",
        "ALTER TABLE t ALTER v TYPE integer",
        "ALTER TABLE t ALTER v TYPE numeric",
        "ALTER TABLE t ADD COLUMN x integer DEFAULT -1",
        "ALTER TABLE t ADD COLUMN x integer NOT NULL DEFAULT -1",
        "ALTER TABLE t ADD COLUMN y text DEFAULT 'as it was'",
        "ALTER TABLE t ADD COLUMN z timestamptz DEFAULT now(), ADD COLUMN x integer DEFAULT -1",
        "ALTER TABLE t ADD COLUMN g bigint GENERATED ALWAYS AS (id * 2) STORED",
        "ALTER TABLE t DROP COLUMN x",
        "ALTER TABLE t DROP COLUMN y",
        "ALTER TABLE t DROP COLUMN g",
        "ALTER TABLE t DROP COLUMN z",
        "ALTER TABLE t ALTER x TYPE bigint",
        "ALTER TABLE t ALTER x SET NOT NULL",
        "ALTER TABLE t ALTER x DROP NOT NULL",
        "ALTER TABLE t ALTER y SET DEFAULT 'other:'",
        "ALTER TABLE t ALTER s TYPE varchar(400)",
        "ALTER TABLE t ALTER s TYPE text",
        "ALTER TABLE t ALTER s SET NOT NULL",
        "ALTER TABLE t ALTER s DROP NOT NULL",
        "ALTER TABLE t ALTER k SET NOT NULL",
        "ALTER TABLE t ALTER k DROP NOT NULL",
        "ALTER TABLE t ADD CONSTRAINT u UNIQUE (k)",
        "ALTER TABLE t DROP CONSTRAINT u",
        "CREATE INDEX i_v ON t (v)",
        "DROP INDEX i_v",
        "CREATE INDEX i_e ON t ((id + k), lower(s))",
        "CREATE UNIQUE INDEX CONCURRENTLY i_u ON t ((id * 2 + k)) WHERE id % 2 = 0",
        "DROP INDEX i_e",
        "DROP INDEX i_u",
        "CREATE INDEX i_x ON t (x)",
        "CREATE INDEX i_y ON t (y, id)",
        "CREATE INDEX i_h ON t USING hash (s)",
        "DROP INDEX i_x",
        "DROP INDEX i_y",
        "DROP INDEX i_h",
        "REINDEX TABLE t",
        "ALTER TABLE t ADD CONSTRAINT ck CHECK (id >= 0) NOT VALID",
        "ALTER TABLE t VALIDATE CONSTRAINT ck",
        "ALTER TABLE t DROP CONSTRAINT ck",
        "ALTER TABLE t SET UNLOGGED",
        "ALTER TABLE t SET LOGGED",
        "ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY (p) REFERENCES p",
        "ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY (p) REFERENCES p NOT VALID",
        "ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY (p) REFERENCES p ON UPDATE CASCADE ON DELETE SET NULL",
        "ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY (p) REFERENCES p DEFERRABLE INITIALLY DEFERRED",
        "ALTER TABLE c VALIDATE CONSTRAINT f",
        "ALTER TABLE c DROP CONSTRAINT f",
        "ALTER TABLE c ALTER p TYPE bigint",
        "ALTER TABLE c ALTER p TYPE integer",
        "ALTER TABLE p ALTER id TYPE bigint",
        "ALTER TABLE p ALTER id TYPE integer",
        "ALTER TABLE p ADD COLUMN m text DEFAULT 'm'",
        "ALTER TABLE p DROP COLUMN m",
        "DELETE FROM c WHERE NOT EXISTS (SELECT 1 FROM p WHERE p.id = c.p)",
        "CREATE INDEX i_c ON c (p)",
        "DROP INDEX i_c",
        "ALTER TABLE t RENAME COLUMN x TO xx",
        "ALTER TABLE t RENAME COLUMN xx TO x",
        "CREATE VIEW w AS SELECT id, v FROM t",
        "DROP VIEW w",
        "CHECKPOINT",
    ];
    let locks = [
        "ACCESS SHARE",
        "ROW SHARE",
        "ROW EXCLUSIVE",
        "SHARE UPDATE EXCLUSIVE",
        "SHARE",
        "SHARE ROW EXCLUSIVE",
        "EXCLUSIVE",
        "ACCESS EXCLUSIVE",
    ];
    let plain = |r: &mut Random| loop {
        let sql = r.one(&many);
        if !sql.contains("CONCURRENTLY") && sql != "CHECKPOINT" {
            return sql.to_string();
        }
    };
    if !n.is_multiple_of(4) {
        return r.one(&many).to_string();
    }
    let mut block = "BEGIN".to_string();
    for _ in 0..1 + r.below(3) {
        block += "; ";
        block += &match r.below(6) {
            0 => format!("LOCK TABLE {} IN {} MODE", r.one(&["t", "c", "p", "c, p"]), r.one(&locks)),
            1 => "UPDATE t SET s = s WHERE id % 10 = 3".to_string(),
            2 => format!("INSERT INTO c (id, p) VALUES ({}, {})", 1000 + r.below(100_000), r.below(12)),
            3 => format!("SAVEPOINT a; {}; ROLLBACK TO a", plain(r)),
            _ => plain(r),
        }
    }
    block + r.one(&["; COMMIT", "; COMMIT", "; ROLLBACK"])
}

fn define(db: &Database, seed: u64, shared: &Shared, until: Instant, defined: &Mutex<Vec<String>>) {
    let mut r = Random(seed * 77 + 5);
    let mut s = db.session();
    run(&mut s, "SET lock_timeout = '10s'");
    for n in 0.. {
        if !shared.goes_on() || Instant::now() > until {
            break;
        }
        let sql = definition(&mut r, n);
        let began = Instant::now();
        let done = s.execute(&sql).map(drop);
        let told = done.as_ref().err().map_or("done".into(), |e| e.to_string());
        defined.lock().unwrap().push(format!("{:?} {sql}: {told}", began.elapsed()));
        if let Err(e) = done {
            if s.in_transaction() {
                run(&mut s, "ROLLBACK")
            }
            let own = [
                "42701", "42703", "42704", "42P07", "42710", "42P16", "2BP01", "42P01", "23502", "42804",
                "42P17", "0A000", "55000", "55006",
            ];
            if !OTHERS.contains(&e.sqlstate()) && !own.contains(&e.sqlstate()) {
                return shared.fail(format!("definer: {sql}: {} {e}", e.sqlstate()));
            }
        }
    }
}

fn verify(db: &Database, known: &Known, what: &str) {
    let mut s = db.session();
    let mut found = Known::new();
    for r in s.query("SELECT id::bigint, v::bigint, s::text FROM t", &[]).unwrap().iter() {
        let (id, v, t): (i64, i64, &str) = (r.get(0).unwrap(), r.get(1).unwrap(), r.get(2).unwrap());
        assert!(found.insert(id as u64, (v, t.to_string())).is_none(), "{what}: two rows {id}");
    }
    if found != *known {
        for (id, row) in known {
            assert_eq!(found.get(id), Some(row), "{what}: row {id}")
        }
        for (id, row) in &found {
            assert_eq!(known.get(id), Some(row), "{what}: row {id}")
        }
    }
    let valid = rows(&mut s, "SELECT convalidated FROM pg_constraint WHERE conname = 'f'");
    let dangling = rows(
        &mut s,
        "SELECT c.id, c.p FROM c WHERE c.p IS NOT NULL AND NOT EXISTS (SELECT 1 FROM p WHERE p.id = c.p)",
    );
    assert!(valid != ["t"] || dangling.is_empty(), "{what}: {dangling:?}");
    // Once what is old has been collected, each index has an entry of each row, or of each that it is about.
    for table in ["t", "c", "p"] {
        let began = Instant::now();
        loop {
            let all: i64 = rows(&mut s, &format!("SELECT count(*) FROM {table}"))[0].parse().unwrap();
            let some: i64 =
                rows(&mut s, &format!("SELECT count(*) FROM {table} WHERE id % 2 = 0"))[0].parse().unwrap();
            let catalog = s.catalog();
            let t = catalog.table(table).unwrap();
            let wrong: Vec<String> = (t.indexes.iter())
                .filter_map(|i| {
                    let mut n = 0;
                    // While the collector takes entries out, a tree is not at rest.
                    let whole = i.index.verify(&mut |_, _| n += 1);
                    let right = if i.def.options.partial { some } else { all };
                    (whole.is_err() || n != right)
                        .then(|| format!("{}: {n} entries of {right} rows, {whole:?}", i.def.name))
                })
                .collect();
            if wrong.is_empty() {
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "{what}: {wrong:?}");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// One history; what was defined is told where it fails.
fn survive(seed: u64, time: Duration) {
    let defined = Mutex::new(vec![]);
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| play(seed, time, &defined)));
    if let Err(e) = done {
        defined.into_inner().unwrap().iter().for_each(|sql| println!("{sql}"));
        std::panic::resume_unwind(e)
    }
}

fn play(seed: u64, time: Duration, defined: &Mutex<Vec<String>>) {
    let (folder, db) = open();
    let mut s = db.session();
    run(
        &mut s,
        "CREATE TABLE t (id integer PRIMARY KEY, k integer, v integer, s text);
         CREATE TABLE p (id integer PRIMARY KEY, n integer DEFAULT 0);
         CREATE TABLE c (id integer PRIMARY KEY, p integer);
         INSERT INTO p SELECT n FROM generate_series(0, 11) n",
    );
    let mut all: Vec<Known> = vec![];
    let mut r = Random(seed);
    for w in 0..WRITERS {
        let mut known = Known::new();
        for n in 0..ROWS {
            let id = n * WRITERS + w;
            let t = text(&mut r, id);
            run(&mut s, &format!("INSERT INTO t (id, k, v, s) VALUES ({id}, {id}, {VALUE}, '{t}')"));
            known.insert(id, (VALUE, t));
        }
        all.push(known)
    }
    let shared = Shared { stop: AtomicBool::new(false), failed: Mutex::new(None), done: AtomicU64::new(0) };
    let until = Instant::now() + time;
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (db, shared, over) = (&db, &shared, &over);
        let mut threads = vec![];
        for (w, known) in all.iter_mut().enumerate() {
            threads.push(scope.spawn(move || write(db, seed, w as u64, shared, known)))
        }
        threads.push(scope.spawn(move || read(db, seed, shared)));
        let definers: Vec<_> =
            (0..2).map(|d| scope.spawn(move || define(db, seed * 2 + d, shared, until, defined))).collect();
        scope.spawn(move || {
            while !over.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(20));
                if Instant::now() > until + Duration::from_secs(60) {
                    println!("seed {seed}: it hangs");
                    defined.lock().unwrap().iter().for_each(|sql| println!("{sql}"));
                    std::process::abort()
                }
            }
        });
        let ended: Vec<_> = definers.into_iter().map(|d| d.join()).collect();
        shared.stop.store(true, Ordering::SeqCst);
        let ended: Vec<_> = ended.into_iter().chain(threads.into_iter().map(|t| t.join())).collect();
        over.store(true, Ordering::SeqCst);
        ended.into_iter().for_each(|e| e.unwrap());
    });
    let failed = shared.failed.lock().unwrap().take();
    assert!(failed.is_none(), "seed {seed}: {}", failed.unwrap());
    let mut known = Known::new();
    all.into_iter().for_each(|k| known.extend(k));
    println!("seed {seed}: {} transactions, {} rows", shared.done.load(Ordering::Relaxed), known.len());
    verify(&db, &known, &format!("seed {seed}"));
    let unlogged = rows(&mut s, "SELECT relpersistence::text FROM pg_class WHERE relname = 't'") == ["u"];
    if unlogged {
        run(&mut s, "ALTER TABLE t SET LOGGED")
    }
    drop(s);
    db.close().unwrap();
    let db = open_in(&folder);
    verify(&db, &known, &format!("seed {seed}, opened again"));
}

#[test]
fn definitions_beside_writers() {
    let number =
        |name: &str, usual: u64| std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(usual);
    let first = number("ONDOL_SEED", 1);
    let time = Duration::from_millis(number("ONDOL_MILLIS", 1000));
    for seed in first..first + number("ONDOL_SEEDS", 2) {
        survive(seed, time)
    }
}
