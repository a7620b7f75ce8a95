//! Mapped files (`ondol=pmem`): what is said of them, others that shorten and regrow them, and full disks.
//!
//! A store beyond a file's end, or into a hole that the disk has no room for, would end this process by
//! SIGBUS.
mod common;
use rusqlite::Connection;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

const PMEM: &str = "vfs=ondol&ondol=pmem";

fn one<T: rusqlite::types::FromSql>(c: &Connection, sql: &str) -> rusqlite::Result<T> {
    c.query_row(sql, [], |row| row.get(0))
}

fn fact(c: &Connection, name: &str) -> String {
    one::<rusqlite::types::Value>(c, &format!("SELECT value FROM ondol_status WHERE name = '{name}'"))
        .map(|value| match value {
            rusqlite::types::Value::Text(text) => text,
            rusqlite::types::Value::Integer(n) => n.to_string(),
            other => panic!("{other:?}"),
        })
        .expect("a fact")
}

/// Another process, Debian's shell with stock SQLite.
fn stock(path: &Path, sql: &str) -> String {
    let out = Command::new("sqlite3")
        .args(["-cmd", ".timeout 10000"])
        .arg(path)
        .arg(sql)
        .output()
        .expect("Debian's sqlite3");
    String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
}

#[test]
fn the_status_says_what_is_mapped_and_what_that_promises() {
    common::register();
    let folder = common::folder();
    let path = folder.path().join("a.db");
    let c = common::open(&path, PMEM).expect("a database");
    assert_eq!(fact(&c, "mode"), "pmem");
    c.execute_batch("CREATE TABLE first(b); INSERT INTO first VALUES(1); INSERT INTO first VALUES(2)")
        .expect("rows");
    let medium = fact(&c, "medium");
    if medium.contains("an overwrite may need a new block") {
        assert_eq!((fact(&c, "bytes_stored"), fact(&c, "mapped")), ("0".into(), String::new()), "{medium}");
        return;
    }
    for mode in ["PERSIST", "WAL"] {
        c.execute_batch(&format!("PRAGMA journal_mode={mode}; CREATE TABLE {mode}(b)")).expect("a table");
        let before = fact(&c, "bytes_stored").parse::<u64>().expect("a number");
        for i in 0..20 {
            c.execute(&format!("INSERT INTO {mode} VALUES(zeroblob(3000))"), []).expect("a row");
            c.execute(&format!("UPDATE {mode} SET b = randomblob(3000) WHERE rowid = 1"), [])
                .expect("an update");
            // The WAL begins anew, where it has blocks.
            if i == 10 {
                c.execute_batch("PRAGMA wal_checkpoint").expect("a checkpoint");
            }
        }
        let stored = fact(&c, "bytes_stored").parse::<u64>().expect("a number") - before;
        assert!(stored > 50_000, "{mode}: {stored} bytes");
        let with = if mode == "WAL" { "wal" } else { "journal" };
        let mapped = fact(&c, "mapped");
        assert!(mapped.contains("database") && mapped.contains(with), "{mode}: {mapped}");
    }
    assert!(!fact(&c, "promise").is_empty() && !fact(&c, "stores").is_empty());
    let medium = fact(&c, "medium");
    assert!(medium.contains("mapped"), "{medium}");
    drop(c);
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY | rusqlite::OpenFlags::SQLITE_OPEN_URI;
    let c = Connection::open_with_flags(format!("file:{}?{PMEM}", path.display()), flags).expect("read only");
    assert_eq!(one::<i64>(&c, "SELECT count(*) FROM WAL"), Ok(20));
    assert_eq!(fact(&c, "medium"), "nothing is mapped: the database is read-only");
}

/// Another process shortens database, journal and WAL, and lets them grow again, while this one keeps its
/// mappings.
#[test]
fn others_may_shorten_what_is_mapped() {
    common::register();
    for mode in ["DELETE", "TRUNCATE", "PERSIST", "WAL"] {
        let folder = common::folder();
        let path = folder.path().join("a.db");
        let c = common::open(&path, PMEM).expect("a database");
        c.busy_timeout(std::time::Duration::from_secs(10)).expect("a setting");
        c.execute_batch(&format!("PRAGMA journal_mode={mode}; CREATE TABLE t(a INTEGER PRIMARY KEY, b)"))
            .expect("a table");
        let fill = "INSERT INTO t(b) SELECT randomblob(5000) FROM generate_series(1, 300)";
        let fill = fill.replace(
            "generate_series(1, 300)",
            "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT i FROM n)",
        );
        for round in 0..6 {
            c.execute_batch(&fill).expect("rows");
            c.execute_batch("UPDATE t SET b = randomblob(4000) WHERE a % 3 = 0").expect("an update");
            let shorten = if mode == "WAL" {
                "PRAGMA wal_checkpoint(TRUNCATE);"
            } else {
                "PRAGMA journal_mode=TRUNCATE;"
            };
            let told = stock(
                &path,
                &format!(
                    "DELETE FROM t WHERE a > 5; VACUUM; {shorten} INSERT INTO t(b) VALUES(zeroblob({}));",
                    [10, 500_000, 3_000_000][round % 3]
                ),
            );
            assert!(!told.contains("rror"), "{mode}: {told}");
            let length = std::fs::metadata(&path).expect("a file").len();
            assert_eq!(one::<i64>(&c, "SELECT count(*) FROM t"), Ok(6), "{mode}, {length} bytes");
            assert_eq!(one::<String>(&c, "PRAGMA integrity_check"), Ok("ok".into()), "{mode}");
            c.execute_batch("DELETE FROM t WHERE a > 5; UPDATE t SET b = randomblob(9000)")
                .expect("an update");
        }
        drop(c);
        assert_eq!(stock(&path, "PRAGMA integrity_check; SELECT count(*) FROM t"), "ok\n5\n", "{mode}");
    }
}

/// The environment variable that makes this program the process that may be killed.
const CHILD: &str = "ONDOL_SQLITE_FULL_DISK";

/// Runs this program's test `name` as a child, on a tmpfs of 4 MiB; None where mounting one is not allowed.
fn child(name: &str, what: &str) -> Option<std::process::Output> {
    if !Command::new("unshare").args(["-Urm", "true"]).status().is_ok_and(|s| s.success()) {
        eprintln!("not tried: this needs the right to mount a tmpfs (unshare -Urm)");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let exe = std::env::current_exe().expect("this program");
    let script = format!(
        "mount -t tmpfs -o size=4m tmpfs '{0}' && cd '{0}' && {CHILD}={what} exec '{1}' --exact {name}",
        folder.path().display(),
        exe.display()
    );
    Some(Command::new("unshare").args(["-Urm", "sh", "-c", &script]).output().expect("a child"))
}

fn fill_the_disk() {
    use std::io::Write;
    let mut filler = std::fs::File::create("filler").expect("a file");
    while filler.write_all(&[1; 4096]).is_ok() {}
}

#[test]
fn a_full_disk_is_an_error_and_no_signal() {
    if let Some(mode) = std::env::var_os(CHILD) {
        return on_a_full_disk(mode.to_str().expect("a mode"));
    }
    for mode in ["DELETE", "TRUNCATE", "PERSIST", "WAL"] {
        let Some(out) = child("a_full_disk_is_an_error_and_no_signal", mode) else { return };
        let told = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "{mode}: signal {:?}: {told}", out.status.signal());
        assert!(told.contains("1 passed"), "{told}");
    }
}

/// A sparse copy of a database whose free pages are zero, on a full disk: no page can be given to it. The
/// variant that maps holes all the same is killed.
#[test]
fn holes_on_a_full_disk_are_no_signal() {
    if let Some(what) = std::env::var_os(CHILD) {
        ondol_sqlite::ground::LEAVE_HOLES.store(what == "wrong", std::sync::atomic::Ordering::Relaxed);
        common::register();
        let c = common::open(Path::new("made.db"), "vfs=unix").expect("a database");
        c.execute_batch(
            "PRAGMA secure_delete=ON; CREATE TABLE t(b); INSERT INTO t VALUES(randomblob(900000)), (1); DELETE FROM t WHERE rowid = 1",
        )
        .expect("free pages");
        drop(c);
        let copy = Command::new("cp").args(["--sparse=always", "made.db", "a.db"]).status().expect("cp");
        assert!(copy.success());
        if what == "after" {
            fill_the_disk();
        }
        let c = common::open(Path::new("a.db"), PMEM).expect("a database");
        c.execute_batch("PRAGMA journal_mode=MEMORY; PRAGMA cache_size=5").expect("settings");
        if what == "before" {
            c.execute_batch("INSERT INTO t VALUES(2)").expect("a row, and blocks for the holes");
        }
        fill_the_disk();
        let done = c.execute_batch("INSERT INTO t VALUES(randomblob(800000))");
        assert_eq!(done.is_ok(), what == "before", "{done:?}");
        if what == "before" {
            assert!(fact(&c, "bytes_stored").parse::<u64>().expect("a number") > 800_000);
        }
        assert_eq!(one::<String>(&c, "PRAGMA integrity_check"), Ok("ok".into()));
        return;
    }
    for what in ["after", "before", "wrong"] {
        let Some(out) = child("holes_on_a_full_disk_are_no_signal", what) else { return };
        let told = String::from_utf8_lossy(&out.stdout);
        let signal = out.status.signal();
        assert_eq!(signal, (what == "wrong").then_some(libc::SIGBUS), "{what}: {told}");
        assert!(what == "wrong" || told.contains("1 passed"), "{what}: {told}");
    }
}

fn on_a_full_disk(mode: &str) {
    common::register();
    let path = Path::new("a.db");
    let c = common::open(path, PMEM).expect("a database");
    c.execute_batch(&format!(
        "PRAGMA journal_mode={mode}; PRAGMA cache_size=5; CREATE TABLE t(a INTEGER PRIMARY KEY, b)"
    ))
    .expect("a table");
    c.execute_batch("INSERT INTO t(b) VALUES(randomblob(600000))").expect("a row");
    c.execute_batch("PRAGMA wal_checkpoint").expect("a checkpoint");
    fill_the_disk();
    let (mut done, mut refused) = (0, 0);
    for i in 0..60 {
        let sql = match i % 3 {
            0 => "INSERT INTO t(b) VALUES(randomblob(20000))",
            1 => "UPDATE t SET b = randomblob(600000) WHERE a = 1",
            _ => "VACUUM",
        };
        match c.execute_batch(sql) {
            Ok(()) => done += 1,
            Err(error) => {
                assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull), "{sql}: {error}");
                refused += 1;
            }
        }
        if i == 40 {
            std::fs::remove_file("filler").expect("room again");
        }
    }
    assert!(refused > 10 && done > 5, "{mode}: {refused} refused, {done} done");
    assert_eq!(one::<String>(&c, "PRAGMA integrity_check"), Ok("ok".into()));
}

/// In persistent memory (as it is pretended): a commit that overwrites costs fences alone, and the kernel's
/// sync comes back after others have written, with windows of their own or without.
#[test]
fn a_sync_is_a_fence_until_others_write() {
    common::register();
    ondol_sqlite::ground::PRETEND.store(true, std::sync::atomic::Ordering::Relaxed);
    let number = |c: &Connection, name: &str| fact(c, name).parse::<u64>().expect("a number");
    for mode in ["PERSIST", "WAL"] {
        for neighbour in [PMEM, "vfs=unix"] {
            let folder = common::folder();
            let path = folder.path().join("a.db");
            let c = common::open(&path, PMEM).expect("a database");
            c.execute_batch(&format!("PRAGMA journal_mode={mode}; CREATE TABLE t(a INTEGER PRIMARY KEY, b)"))
                .expect("a table");
            c.execute_batch("INSERT INTO t VALUES(1, zeroblob(3000)), (2, zeroblob(3000))").expect("rows");
            let update = |c: &Connection| {
                c.execute("UPDATE t SET b = randomblob(3000) WHERE a = 1", []).expect("an update");
            };
            for _ in 0..10 {
                update(&c);
            }
            c.execute_batch("PRAGMA wal_checkpoint").expect("a checkpoint");
            update(&c);
            update(&c);
            if fact(&c, "mapped").is_empty() {
                return;
            }
            let (syncs, fences) = (number(&c, "kernel_syncs"), number(&c, "fences"));
            update(&c);
            update(&c);
            let what = format!("{mode}, {neighbour}");
            assert_eq!(number(&c, "kernel_syncs"), syncs, "{what}: only fences");
            assert!(number(&c, "fences") >= fences + 2, "{what}");
            let other = common::open(&path, neighbour).expect("a neighbour");
            other
                .execute_batch(&format!("PRAGMA journal_mode={mode}; PRAGMA synchronous=OFF"))
                .expect("a setting");
            update(&other);
            update(&c);
            assert!(number(&c, "kernel_syncs") > syncs, "{what}: what the other wrote is synced too");
            // A page that is touched for the first time changes the file's time.
            update(&c);
            update(&c);
            let syncs = number(&c, "kernel_syncs");
            update(&c);
            assert_eq!(number(&c, "kernel_syncs"), syncs, "{what}: only fences again");
        }
    }
}
