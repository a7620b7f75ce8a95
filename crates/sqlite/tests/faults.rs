//! Every write, truncation, opening, deletion and sync that SQLite's `unix` does below us, and every sync of
//! ours, fails once, by I/O error or full disk.
//!
//! A script commits, checkpoints, switches into and out of our care; the n-th call fails, alone or with all
//! that follow it. Checked after the script, which goes on as far as SQLite lets it: every commit that was
//! acknowledged is there, the database is whole, to us and then to stock SQLite. A row whose commit met a
//! sync that failed must not have been acknowledged. The calls are replaced through the VFS's own
//! xSetSystemCall, which hands them to `unix`; syncs, which `unix` calls past it, by this program's own
//! `fsync` and `fdatasync`, which take the C library's place for SQLite and for us.
#![allow(unsafe_code)] // System calls are replaced.
mod common;
use rusqlite::Connection;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicUsize, Ordering::SeqCst};

/// Calls until the failure; below zero: none.
static LEFT: AtomicI64 = AtomicI64::new(-1);
/// All calls after the failure fail too.
static LASTING: AtomicI32 = AtomicI32::new(0);
static ERROR: AtomicI32 = AtomicI32::new(libc::EIO);
/// Syncs fail, and nothing else; or all else.
static SYNCS: AtomicBool = AtomicBool::new(false);
/// The sync of a file has failed. (Of folders, `unix` ignores some.)
static FAILED: AtomicBool = AtomicBool::new(false);

fn fails(syncs: bool) -> bool {
    if LEFT.load(SeqCst) < 0 || SYNCS.load(SeqCst) != syncs {
        return false;
    }
    let left = LEFT.fetch_sub(1, SeqCst);
    if left > 0 {
        return false;
    }
    if LASTING.load(SeqCst) != 0 {
        LEFT.store(0, SeqCst);
    }
    // SAFETY: the C library's own variable of this thread.
    unsafe { *libc::__errno_location() = ERROR.load(SeqCst) };
    true
}

macro_rules! failing {
    ($($original:ident $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {$(
        static $original: AtomicUsize = AtomicUsize::new(0);
        unsafe extern "C" fn $name($($arg: $type),*) -> $result {
            if fails(false) {
                return -1;
            }
            // SAFETY: what `unix` called before it was replaced, with the same arguments.
            unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn($($type),*) -> $result>($original.load(SeqCst))($($arg),*)
            }
        }
    )*};
}
failing! {
    WRITE write(fd: c_int, bytes: *const c_void, n: usize) -> isize;
    PWRITE pwrite(fd: c_int, bytes: *const c_void, n: usize, at: i64) -> isize;
    PWRITE64 pwrite64(fd: c_int, bytes: *const c_void, n: usize, at: i64) -> isize;
    FTRUNCATE ftruncate(fd: c_int, len: i64) -> c_int;
    OPEN open(path: *const c_char, flags: c_int, mode: c_int) -> c_int;
    UNLINK unlink(path: *const c_char) -> c_int;
}

fn is_file(fd: c_int) -> bool {
    // SAFETY: a structure of numbers, which the call fills.
    let mut meta: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: room for the answer.
    let known = unsafe { libc::fstat(fd, &mut meta) } == 0;
    known && meta.st_mode & libc::S_IFMT == libc::S_IFREG
}

macro_rules! failing_syncs {
    ($($name:ident $number:ident;)*) => {$(
        /// In the C library's place.
        #[unsafe(no_mangle)]
        extern "C" fn $name(fd: c_int) -> c_int {
            if fails(true) {
                FAILED.fetch_or(is_file(fd), SeqCst);
                // SAFETY: as in `fails`, since `is_file` has made a call.
                unsafe { *libc::__errno_location() = ERROR.load(SeqCst) };
                return -1;
            }
            // SAFETY: the system call of this name, which takes a descriptor.
            unsafe { libc::syscall(libc::$number, fd) as c_int }
        }
    )*};
}
failing_syncs! {
    fsync SYS_fsync;
    fdatasync SYS_fdatasync;
}

fn replace_calls() {
    // SAFETY: the VFS is registered, and the replacements have the types of what they replace.
    unsafe {
        let vfs = rusqlite::ffi::sqlite3_vfs_find(c"ondol".as_ptr());
        let get = (*vfs).xGetSystemCall.expect("a method");
        let set = (*vfs).xSetSystemCall.expect("a method");
        let replace = |name: &CStr, original: &AtomicUsize, by: *const c_void| {
            let Some(now) = get(vfs, name.as_ptr()) else { return };
            original.store(now as usize, SeqCst);
            let by = std::mem::transmute::<*const c_void, unsafe extern "C" fn()>(by);
            assert_eq!(set(vfs, name.as_ptr(), Some(by)), 0, "{name:?}");
        };
        replace(c"write", &WRITE, write as *const c_void);
        replace(c"pwrite", &PWRITE, pwrite as *const c_void);
        replace(c"pwrite64", &PWRITE64, pwrite64 as *const c_void);
        replace(c"ftruncate", &FTRUNCATE, ftruncate as *const c_void);
        replace(c"open", &OPEN, open as *const c_void);
        replace(c"unlink", &UNLINK, unlink as *const c_void);
    }
}

const MODES: [&str; 4] = [
    "vfs=ondol&ondol=remap&ondol_run=1&ondol_mechanism=clone",
    "vfs=ondol&ondol=remap&ondol_run=1&ondol_mechanism=exchange",
    // Alone from the start.
    "vfs=ondol&ondol=remap&ondol_run=1&ondol_mechanism=exchange&exclusive=1",
    "vfs=ondol&ondol=pmem",
];

fn sum(c: &Connection) -> rusqlite::Result<i64> {
    c.query_row("SELECT coalesce(sum(x), 0) FROM t", [], |r| r.get(0))
}

/// Runs the script; gives the sum of acknowledged rows, and of those that were tried. Row n holds 2 to the
/// n-th.
fn script(path: &Path, parameters: &str) -> (i64, i64) {
    let (mut acknowledged, mut tried) = (0, 0);
    for round in 0..3 {
        let Ok(c) = common::open(path, parameters) else { continue };
        let alone = if parameters.contains("exclusive") { "PRAGMA locking_mode=EXCLUSIVE;" } else { "" };
        let _ = c.execute_batch(&format!("{alone} PRAGMA cache_size=3; PRAGMA wal_autocheckpoint=0"));
        for i in 0..5 {
            let bit = 1i64 << (round * 5 + i);
            tried |= bit;
            FAILED.store(false, SeqCst);
            if c.execute(&format!("INSERT INTO t(x, b) VALUES({bit}, zeroblob({}))", 3000 + i * 9000), [])
                .is_ok()
            {
                acknowledged |= bit;
                let failed = SYNCS.load(SeqCst) && FAILED.load(SeqCst);
                assert!(!failed, "round {round}, row {i}: acknowledged, though a sync failed");
            }
            match (round + i) % 5 {
                1 => drop(c.execute_batch("PRAGMA wal_checkpoint(PASSIVE)")),
                2 => drop(c.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")),
                3 if round == 1 => drop(c.execute_batch("PRAGMA ondol_detach")),
                4 if round == 2 => drop(c.execute_batch("PRAGMA journal_mode=DELETE")),
                _ => (),
            }
        }
    }
    (acknowledged, tried)
}

/// A connection that is alone from the start finds the frames that count by itself: those of a commit that
/// failed are not among them, though they are whole.
fn a_commit_that_failed_is_not_shared(parameters: &str) {
    let folder = common::folder();
    let path = folder.path().join("a.db");
    let c = common::open(&path, "vfs=unix").expect("a database");
    c.execute_batch(
        "PRAGMA journal_mode=WAL; CREATE TABLE t(a INTEGER PRIMARY KEY, b); WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9)
         INSERT INTO t SELECT i, zeroblob(3400) FROM n",
    )
    .expect("a row a page");
    drop(c);
    let c = common::open(&path, parameters).expect("a database");
    c.execute_batch("PRAGMA locking_mode=EXCLUSIVE; PRAGMA wal_autocheckpoint=0").expect("settings");
    let update = |row: u32| c.execute(&format!("UPDATE t SET b = randomblob(3400) WHERE a = {row}"), []);
    let content = |c: &Connection| -> String {
        c.query_row("SELECT group_concat(a || hex(substr(b, -9))) FROM t", [], |r| r.get(0)).expect("rows")
    };
    update(2).expect("a WAL");
    update(3).expect("the page before");
    let before = content(&c);
    SYNCS.store(true, SeqCst);
    ERROR.store(libc::EIO, SeqCst);
    LASTING.store(0, SeqCst);
    LEFT.store(0, SeqCst);
    let failed = update(4);
    LEFT.store(-1, SeqCst);
    assert!(failed.is_err());
    c.execute_batch("PRAGMA wal_checkpoint").expect("a checkpoint");
    assert_eq!(content(&c), before);
    drop(c);
    let stock = common::open(&path, "vfs=unix").expect("a stock file");
    assert_eq!(content(&stock), before, "{parameters}");
}

#[test]
fn no_failing_call_loses_a_commit() {
    common::register();
    ondol_sqlite::sharing::PRETEND_EXCHANGE.store(true, SeqCst);
    replace_calls();
    MODES[..2].iter().for_each(|mode| a_commit_that_failed_is_not_shared(mode));
    let mut struck = 0;
    let kinds = [(libc::EIO, 0, false), (libc::ENOSPC, 1, false), (libc::EIO, 0, true), (libc::EIO, 1, true)];
    for (mode, (error, lasting, syncs)) in MODES.into_iter().flat_map(|mode| kinds.map(|kind| (mode, kind))) {
        let before = struck;
        for n in 0.. {
            let folder = common::folder();
            let path = folder.path().join("a.db");
            let c = common::open(&path, "vfs=unix").expect("a database");
            c.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(x INTEGER, b)").expect("a table");
            drop(c);
            ERROR.store(error, SeqCst);
            LASTING.store(lasting, SeqCst);
            SYNCS.store(syncs, SeqCst);
            LEFT.store(n, SeqCst);
            let (acknowledged, tried) = script(&path, mode);
            let reached = LEFT.swap(-1, SeqCst) < 1;
            let at = format!("{mode}, error {error}, lasting {lasting}, syncs {syncs}, call {n}");
            let ours = common::open(&path, mode).expect("it opens");
            let whole: String =
                ours.query_row("PRAGMA integrity_check", [], |r| r.get(0)).expect("an answer");
            assert_eq!(whole, "ok", "{at}");
            let found = sum(&ours).expect("rows");
            assert_eq!(found & acknowledged, acknowledged, "{at}: {found:b} of {acknowledged:b}");
            assert_eq!(found & !tried, 0, "{at}");
            drop(ours);
            let stock = common::open(&path, "vfs=unix").expect("stock opens it");
            assert_eq!(sum(&stock), Ok(found), "{at}");
            if !reached {
                break;
            }
            struck += 1;
        }
        assert!(struck - before > 20, "{mode}, syncs {syncs}: {}", struck - before);
    }
    println!("{struck} calls failed");
    assert!(struck > 200, "{struck}");
}
