//! Random histories on our VFS and on `unix`, side by side.
//!
//! Checked after every step: both give the same result, rows or error; checkpoints come equally far. (How
//! many frames a commit writes, and the change counter, differ now and then also between `unix` and `unix`:
//! the bundled SQLite lets all connections of a process share one limit of cached pages, so when a
//! transaction spills depends on the other side. Rarely a lock is taken earlier for that; a difference is let
//! pass only where `unix` beside `unix` shows the very same in the same history.) From time to time: a copy
//! of our files as they lie there (a crash of the process) opens to what is committed. At the end: the
//! database files are equal byte for byte but for the change counter, and nothing of ours is left beside
//! them.
//!
//! `ONDOL_SQLITE_SEED` and `ONDOL_SQLITE_SEEDS` choose seeds; `ONDOL_SQLITE_DIR` another file system, which
//! must share.
mod common;
use common::Chance;
use ondol_sqlite::measure::{ASSUMED, Costs};
use rusqlite::Connection;
use rusqlite::types::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

#[derive(Debug, PartialEq)]
enum Outcome {
    Rows(Vec<Vec<Value>>),
    Error(i32),
}

/// Statements that were run on both sides and gave the same.
static SAME: AtomicU64 = AtomicU64::new(0);

fn run(c: &Connection, sql: &str) -> Outcome {
    let attempt = || -> rusqlite::Result<Vec<Vec<Value>>> {
        let mut statement = c.prepare(sql)?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        let mut all = Vec::new();
        while let Some(row) = rows.next()? {
            all.push((0..columns).map(|i| row.get(i)).collect::<rusqlite::Result<_>>()?);
        }
        Ok(all)
    };
    match attempt() {
        Ok(rows) => Outcome::Rows(rows),
        Err(rusqlite::Error::SqliteFailure(e, _)) => Outcome::Error(e.extended_code),
        Err(rusqlite::Error::SqlInputError { error, .. }) => Outcome::Error(error.extended_code),
        Err(e) => panic!("{sql}: {e}"),
    }
}

const CONTENT: &str = "SELECT a, hex(substr(b, 1, 40)), length(b), c FROM t ORDER BY a";

struct Side {
    path: PathBuf,
    parameters: String,
    connections: Vec<Option<Connection>>,
}

impl Side {
    fn open(&mut self, slot: usize, settings: &str) -> Outcome {
        match common::open(&self.path, &self.parameters) {
            Ok(c) => {
                let outcome = run(&c, "SELECT count(*) FROM sqlite_schema");
                for pragma in settings.split(';') {
                    run(&c, pragma);
                }
                self.connections[slot] = Some(c);
                outcome
            }
            Err(e) => panic!("{e}"),
        }
    }
    fn open_count(&self) -> usize {
        self.connections.iter().flatten().count()
    }
}

/// In a history that is not `large` rows are few and mostly short, so that there is time for many statements.
fn statement(chance: &mut Chance, large: bool) -> String {
    let key = chance.below(60);
    let size = match large {
        true => chance.pick(&[10, 300, 3000, 9000, 40_000]),
        false => chance.pick(&[10, 10, 30, 300, 1500, 6000]),
    };
    let seed = chance.below(1 << 40);
    let blob = format!("CAST(replace(printf('%.{size}c', '-'), '-', printf('%x', {seed}))AS BLOB)");
    match chance.below(24) {
        0..=5 => format!("INSERT INTO t(b, c) VALUES({blob}, {seed})"),
        6..=8 => format!("UPDATE t SET b = {blob} WHERE a % 13 = {}", key % 13),
        9 => format!("DELETE FROM t WHERE a % 7 = {}", key % 7),
        10 if large => "INSERT INTO t(b, c) SELECT b, c + 1 FROM t LIMIT 30".into(),
        10 => "DELETE FROM t WHERE a % 3 = 0 OR a > 100".into(),
        11 => "BEGIN IMMEDIATE".into(),
        12 => "BEGIN".into(),
        13..=15 => "COMMIT".into(),
        16 => "ROLLBACK".into(),
        17 => "SAVEPOINT s".into(),
        18 => chance.pick(&["ROLLBACK TO s", "RELEASE s"]).into(),
        19 => {
            chance.pick(&["CREATE INDEX IF NOT EXISTS i ON t(c)", "DROP INDEX IF EXISTS i", "REINDEX"]).into()
        }
        20 => chance.pick(&["VACUUM", "PRAGMA incremental_vacuum(3)", "PRAGMA integrity_check"]).into(),
        21 => chance
            .pick(&[
                "PRAGMA journal_mode=DELETE",
                "PRAGMA journal_mode=WAL",
                "PRAGMA journal_mode=PERSIST",
                "PRAGMA journal_mode=TRUNCATE",
                "PRAGMA locking_mode=EXCLUSIVE",
                "PRAGMA locking_mode=NORMAL",
            ])
            .into(),
        _ => CONTENT.into(),
    }
}

fn checkpoint(chance: &mut Chance) -> String {
    format!("PRAGMA wal_checkpoint({})", chance.pick(&["PASSIVE", "FULL", "RESTART", "TRUNCATE"]))
}

/// What a crash of all processes at this moment leaves: the files without the WAL index.
fn crash_copy(from: &Path, to: &Path) {
    for suffix in ["", "-wal", "-owal", "-journal"] {
        let name = |p: &Path| PathBuf::from(format!("{}{suffix}", p.display()));
        let _ = std::fs::remove_file(name(to));
        if name(from).exists() {
            std::fs::copy(name(from), name(to)).expect("a copy");
        }
    }
    let _ = std::fs::remove_file(format!("{}-shm", to.display()));
}

/// Panics at the first difference. Without modes both sides are `unix`.
fn history(seed: u64, modes: &[&str]) -> (u64, u64) {
    let mut chance = Chance(seed);
    let folder = common::folder();
    let page = chance.pick(&[4096, 4096, 8192, 16384, 65536, 1024]);
    let drawn = chance.below(4) as usize;
    let mode = modes.get(drawn % modes.len().max(1));
    *ASSUMED.lock().expect("no panic") = Some(Costs {
        sync_us: 1.0,
        sync_shared_us: 1.0,
        copy_block_us: 3.0,
        shared_block_us: 1.0,
        // Now and then it does not pay.
        share_us: chance.pick(&[2.0, 2.0, 1e9]),
        rounds: 1,
    });
    let mut sides = ["ours", "stock"].map(|name| Side {
        path: folder.path().join(name),
        parameters: match mode {
            Some(mode) if name == "ours" => format!("vfs=ondol&ondol={mode}"),
            _ => "vfs=unix".into(),
        },
        connections: (0..3).map(|_| None).collect(),
    });
    let settings = format!(
        "PRAGMA synchronous={}; PRAGMA wal_autocheckpoint={}; PRAGMA cache_size={}; PRAGMA journal_size_limit={}",
        chance.pick(&["OFF", "NORMAL", "FULL"]),
        chance.pick(&[0, 5, 40, 1000]),
        chance.pick(&[4, 50, 2000]),
        chance.pick(&[-1, -1, 0, 100_000]),
    );
    // The database starts stock, now and then with a hot WAL that ours must take over.
    let hot = chance.below(3) == 0;
    for side in &mut sides {
        let made = side.path.with_extension("made");
        let c = common::open(&made, "vfs=unix").expect("a database");
        run(&c, &format!("PRAGMA page_size={page}"));
        run(&c, "PRAGMA auto_vacuum=INCREMENTAL");
        run(&c, "PRAGMA journal_mode=WAL");
        run(&c, "CREATE TABLE t(a INTEGER PRIMARY KEY, b, c)");
        run(&c, "INSERT INTO t(b, c) VALUES(zeroblob(20000), 1), (zeroblob(500), 2)");
        if hot {
            crash_copy(&made, &side.path);
        }
        drop(c);
        if !hot {
            crash_copy(&made, &side.path);
        }
    }
    let large = chance.below(8) == 0;
    let steps = if large { 150 } else { 600 };
    for step in 0..steps {
        let slot = chance.below(3) as usize;
        if sides[0].connections[slot].is_none() {
            let [a, b] = sides.each_mut().map(|side| side.open(slot, &settings));
            assert_eq!(a, b, "seed {seed}, step {step}: open");
            continue;
        }
        let sql = match chance.below(20) {
            0 => {
                sides.iter_mut().for_each(|side| side.connections[slot] = None);
                continue;
            }
            1..=3 => checkpoint(&mut chance),
            4 => {
                // No counterpart in stock SQLite: it changes nothing that can be seen.
                let ours = sides[0].connections[slot].as_ref().expect("open");
                let detached = run(ours, "PRAGMA ondol_detach")
                    == Outcome::Rows(vec![vec![Value::Text("detached".into())]]);
                if detached && common::versions(&sides[0].path)[1] == 3 {
                    panic!("seed {seed}, step {step}: detached, and still marked");
                }
                continue;
            }
            5 => {
                // A crash: what is committed is there, and the mark says which WAL counts.
                let copies = sides.each_ref().map(|side| {
                    let copy = side.path.with_extension("copy");
                    crash_copy(&side.path, &copy);
                    let c = common::open(&copy, &side.parameters).expect("a copy opens");
                    let found = (run(&c, CONTENT), run(&c, "PRAGMA integrity_check"));
                    drop(c);
                    let stock = common::open(&copy, "vfs=unix").expect("a copy");
                    assert_eq!(
                        run(&stock, CONTENT),
                        found.0,
                        "seed {seed}, step {step}: stock reads it after us"
                    );
                    found
                });
                assert_eq!(copies[0], copies[1], "seed {seed}, step {step}: after a crash");
                continue;
            }
            _ => statement(&mut chance, large),
        };
        if sql.starts_with("PRAGMA locking_mode") && sides[0].open_count() > 1 {
            continue;
        }
        let [a, b] = sides.each_ref().map(|side| run(side.connections[slot].as_ref().expect("open"), &sql));
        let comparable = |outcome: Outcome| match outcome {
            Outcome::Rows(mut rows) if sql.starts_with("PRAGMA wal_checkpoint") => {
                let whole = rows[0][1] == rows[0][2];
                rows[0].truncate(1);
                rows[0].push(Value::Integer(whole.into()));
                Outcome::Rows(rows)
            }
            other => other,
        };
        assert_eq!(comparable(a), comparable(b), "seed {seed}, step {step}, connection {slot}: {sql}");
        SAME.fetch_add(1, Relaxed);
    }
    let mut counts = (0, 0);
    let used =
        if modes == ["pmem"] { ["bytes_stored", "bytes_written"] } else { ["pages_shared", "pages_copied"] };
    if let Some(c) = sides[0].connections.iter().flatten().next()
        && mode.is_some()
    {
        let Outcome::Rows(rows) = run(c, "PRAGMA ondol_status") else { panic!("no status") };
        let [Value::Text(json)] = rows[0].as_slice() else { panic!("{rows:?}") };
        let number = |key: &str| -> u64 {
            let at = json.find(key).unwrap_or_else(|| panic!("{json}")) + key.len() + 2;
            json[at..].chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("a number")
        };
        counts = (number(used[0]), number(used[1]));
    }
    for side in &mut sides {
        side.connections.clear();
    }
    let files = sides.each_ref().map(|side| {
        let mut bytes = std::fs::read(&side.path).expect("a file");
        // The change counter, which stands twice: `unix` against `unix` does not agree on it either.
        bytes[24..28].fill(0);
        bytes[92..96].fill(0);
        bytes
    });
    assert!(
        files[0] == files[1],
        "seed {seed}: the files differ: {}",
        first_difference(&files[0], &files[1])
    );
    for suffix in ["-wal", "-owal", "-shm", "-journal"] {
        // Mode PERSIST leaves a journal, on both sides.
        let [ours, stock] = sides.each_ref().map(|side| {
            Path::new(&format!("{}{suffix}", side.path.display())).metadata().map(|meta| meta.len()).ok()
        });
        assert_eq!(ours, stock, "seed {seed}: {suffix} is left");
    }
    counts
}

fn first_difference(a: &[u8], b: &[u8]) -> String {
    let at = a.iter().zip(b).position(|(x, y)| x != y);
    format!("lengths {} and {}, first at {at:?}", a.len(), b.len())
}

/// Runs a history. `None` if it came to where SQLite differs from itself.
fn compare(seed: u64, modes: &[&str]) -> Option<(u64, u64)> {
    let run = |modes: &[&str]| std::panic::catch_unwind(|| history(seed, modes));
    let told = |panic: &Box<dyn std::any::Any + Send>| {
        let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
        text.lines().next().unwrap_or_default().to_string()
    };
    let ours = match run(modes) {
        Ok(counts) => return Some(counts),
        Err(ours) => ours,
    };
    match run(&[]) {
        Err(stock) if told(&stock) == told(&ours) => None,
        _ => std::panic::resume_unwind(ours),
    }
}

/// Runs `count` histories from `first` on; gives the sums of what they counted.
fn compare_all(first: u64, count: u64, modes: &[&str], prepare: impl Fn(u64)) -> (u64, u64) {
    // One at a time: what another's connections cache would change when ours spill.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut a, mut b, mut left) = (0, 0, 0);
    for seed in first..first + count {
        prepare(seed);
        match compare(seed, modes) {
            Some(counts) => (a, b) = (a + counts.0, b + counts.1),
            None => left += 1,
        }
    }
    assert!(left <= 1 + count / 100, "{left} histories of {count} broken off");
    println!("{left} histories broken off where SQLite differs from itself");
    assert!(count < 10 || (a > 0 && b > 0), "neither way may be left out");
    (a, b)
}

fn seeds() -> (u64, u64) {
    let env = |key: &str, default: u64| std::env::var(key).map_or(default, |v| v.parse().expect("a number"));
    (env("ONDOL_SQLITE_SEED", 1), env("ONDOL_SQLITE_SEEDS", 20))
}

#[test]
fn ours_behaves_as_unix() {
    common::register();
    let (first, count) = seeds();
    let modes = ["remap&ondol_run=1", "remap&ondol_run=2", "remap", "auto"];
    let (shared, copied) = compare_all(first, count, &modes, |seed| {
        ondol_sqlite::sharing::PRETEND_EXCHANGE.store(seed % 3 > 0, Relaxed)
    });
    let same = SAME.load(Relaxed);
    println!("seeds {first}..{}: {shared} pages shared, {copied} copied, {same} statements", first + count);
}

/// The same with mapped files, in persistent memory (as it is pretended) and in page cache.
#[test]
fn mapped_files_behave_as_unix() {
    common::register();
    let (first, count) = seeds();
    let (stored, written) = compare_all(first, count, &["pmem"], |seed| {
        ondol_sqlite::ground::PRETEND.store(seed % 2 == 0, Relaxed)
    });
    println!("seeds {first}..{}: {stored} bytes stored, {written} written", first + count);
}
