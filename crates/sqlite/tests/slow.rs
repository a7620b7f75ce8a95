//! A device that is quick when it is measured and slow afterwards: auto sees it by what its checkpoints take.
//!
//! The program's own `pwrite`, which takes the C library's place, makes writing a page to the database slow.
//! (Blocks that are shared are not written; the file system that pretends to share writes a run at once.)
#![allow(unsafe_code)] // A system call is replaced.
mod common;
use ondol_sqlite::measure::{ASSUMED, Costs};
use rusqlite::Connection;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

static SLOW: AtomicBool = AtomicBool::new(false);

fn write(fd: c_int, bytes: *const c_void, n: usize, offset: i64) -> isize {
    const PAGE: usize = 4096;
    if n == PAGE
        && SLOW.load(SeqCst)
        && std::fs::read_link(format!("/proc/self/fd/{fd}")).is_ok_and(|path| path.ends_with("a.db"))
    {
        std::thread::sleep(Duration::from_millis(2));
    }
    // SAFETY: the system call that both functions below are.
    unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes, n, offset) as isize }
}

/// In the C library's place.
#[unsafe(no_mangle)]
extern "C" fn pwrite(fd: c_int, bytes: *const c_void, n: usize, offset: i64) -> isize {
    write(fd, bytes, n, offset)
}

/// In the C library's place.
#[unsafe(no_mangle)]
extern "C" fn pwrite64(fd: c_int, bytes: *const c_void, n: usize, offset: i64) -> isize {
    write(fd, bytes, n, offset)
}

fn round(c: &Connection) -> u64 {
    for _ in 0..60 {
        c.execute("INSERT INTO t(b) VALUES(randomblob(8000))", []).expect("a row");
    }
    c.execute_batch("PRAGMA wal_checkpoint").expect("a checkpoint");
    let shared: String = c
        .query_row("SELECT value FROM ondol_status WHERE name = 'pages_shared'", [], |r| {
            r.get::<_, i64>(0).map(|n| n.to_string())
        })
        .expect("a status");
    shared.parse().expect("a number")
}

#[test]
fn a_device_that_is_slow_later_ends_up_being_shared_on() {
    common::register();
    // By this a run must have 100,000 blocks.
    *ASSUMED.lock().expect("no panic") = Some(Costs {
        sync_us: 100.0,
        sync_shared_us: 110.0,
        copy_block_us: 2.0,
        shared_block_us: 1.0,
        share_us: 100_000.0,
        rounds: 1,
    });
    let folder = common::folder();
    let c = common::open(&folder.path().join("a.db"), "vfs=ondol").expect("a database");
    c.execute_batch("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0")
        .expect("settings");
    c.execute_batch("CREATE TABLE t(a INTEGER PRIMARY KEY, b)").expect("a table");
    let quick: Vec<u64> = (0..5).map(|_| round(&c)).collect();
    SLOW.store(true, SeqCst);
    let slow: Vec<u64> = (0..9).map(|_| round(&c)).collect();
    SLOW.store(false, SeqCst);
    if std::env::var_os("ONDOL_SQLITE_DIR").is_none() {
        // In memory; a real disk may be slow by itself.
        assert_eq!(quick, [0; 5]);
    }
    assert!(slow.last() > Some(&100), "{slow:?}");
}
