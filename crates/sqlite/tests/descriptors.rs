//! Descriptors are few: a process that opens many databases goes on, as with stock SQLite. The limit is the
//! process's, so this program has one test.
#![allow(unsafe_code)] // A limit is set.
mod common;
use rusqlite::Connection;
use std::path::Path;

const LIMIT: u64 = 256;

fn status(c: &Connection, name: &str) -> String {
    let ask = format!("SELECT value FROM ondol_status WHERE name = '{name}'");
    c.query_row(&ask, [], |r| r.get::<_, rusqlite::types::Value>(0)).map_or(String::new(), |v| match v {
        rusqlite::types::Value::Text(text) => text,
        rusqlite::types::Value::Integer(n) => n.to_string(),
        other => format!("{other:?}"),
    })
}

/// One after the other, each with something to share or to map, each closed; what the application may open
/// meanwhile.
fn many(folder: &Path, mode: &str) -> (Vec<String>, usize) {
    let found = (0..2 * LIMIT)
        .map(|n| {
            let path = folder.join(format!("{mode}-{n}.db"));
            let c = common::open(&path, &format!("vfs=ondol&ondol={mode}&ondol_run=1"))
                .unwrap_or_else(|error| panic!("{mode}, database {n}: {error}"));
            c.execute_batch(
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; CREATE TABLE t(b);
                 INSERT INTO t VALUES(randomblob(9000)); PRAGMA wal_checkpoint; INSERT INTO t VALUES(randomblob(9000))",
            )
            .unwrap_or_else(|error| panic!("{mode}, database {n}: {error}"));
            let told = status(&c, if mode == "pmem" { "medium" } else { "sharing" });
            drop(c);
            assert_eq!(common::versions(&path), [2, 2]);
            told
        })
        .collect();
    let mut own = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        own.push(file);
    }
    (found, own.len())
}

#[test]
fn many_databases_leave_the_application_its_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a limit of this process, read and lowered.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = LIMIT;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
    common::register();
    let folder = common::folder();
    for mode in ["pmem", "remap"] {
        let (told, own) = many(folder.path(), mode);
        assert!(own as u64 > LIMIT / 2, "{mode}: {own} left");
        let last = told.last().expect("some");
        assert!(last.contains("may open 256 files"), "{mode}: {last}");
        if mode == "pmem" {
            assert!(!told[0].contains("may open"), "{mode}: {}", told[0]);
        }
    }
    // When all descriptors are taken, what fails is what fails with stock SQLite.
    let path = folder.path().join("late.db");
    let c = common::open(&path, "vfs=ondol&ondol=remap").expect("a database");
    c.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(b)").expect("a table");
    let mut own = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        own.push(file);
    }
    c.execute_batch("INSERT INTO t VALUES(randomblob(90000)); PRAGMA wal_checkpoint").expect("rows");
    drop(own);
    assert_eq!(c.query_row("PRAGMA integrity_check", [], |r| r.get(0)), Ok("ok".to_string()));
}
