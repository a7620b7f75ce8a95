//! One connection, or several of one program, in the ways that SQLite offers.
mod common;
use ondol_sqlite::measure::{ASSUMED, Costs};
use ondol_sqlite::sharing::PRETEND_EXCHANGE;
use rusqlite::Connection;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

const OURS: &str = "vfs=ondol&ondol=remap";

fn made(path: &Path, parameters: &str) -> Connection {
    common::register();
    let c = common::open(path, parameters).expect("a database");
    c.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a INTEGER PRIMARY KEY, b)").expect("a table");
    c
}
fn one<T: rusqlite::types::FromSql>(c: &Connection, sql: &str) -> rusqlite::Result<T> {
    c.query_row(sql, [], |r| r.get(0))
}
fn status(c: &Connection, key: &str) -> String {
    let json: String = one(c, "PRAGMA ondol_status").expect("a status");
    let rest = json.split_once(&format!("\"{key}\":")).unwrap_or_else(|| panic!("no {key} in {json}")).1;
    rest.split([',', '}']).next().expect("a value").trim_matches('"').to_string()
}
fn number(c: &Connection, key: &str) -> u64 {
    status(c, key).parse().expect("a number")
}

const BULK: &str = "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
    INSERT INTO t(b) SELECT randomblob(3500) FROM n";

#[test]
fn a_bulk_load_is_shared_and_short_runs_are_copied() {
    let folder = common::folder();
    let c = made(&folder.path().join("a.db"), OURS);
    c.execute_batch("PRAGMA wal_autocheckpoint=0").expect("a setting");
    c.execute_batch(BULK).expect("rows");
    c.execute_batch("PRAGMA wal_checkpoint").expect("a checkpoint");
    let (shared, copied) = (number(&c, "pages_shared"), number(&c, "pages_copied"));
    assert!(shared >= 250 && copied <= 60, "{shared} shared, {copied} copied");
    assert_eq!(status(&c, "sharing"), "works");
    c.execute_batch("UPDATE t SET b = randomblob(3500) WHERE a % 40 = 7").expect("rows");
    c.execute_batch("PRAGMA wal_checkpoint").expect("a checkpoint");
    assert_eq!(number(&c, "pages_shared"), shared, "single pages are copied");
    assert_eq!(one::<String>(&c, "PRAGMA integrity_check").as_deref(), Ok("ok"));
}

#[test]
fn rows_that_come_one_by_one_are_shared() {
    let folder = common::folder();
    let path = folder.path().join("a.db");
    // Runs with gaps, which are shared.
    let parameters = &format!("{OURS}&ondol_mechanism=clone");
    let mut writers = [made(&path, parameters), common::open(&path, parameters).expect("another writer")];
    for c in &mut writers {
        c.execute_batch("PRAGMA wal_autocheckpoint=0").expect("a setting");
    }
    for i in 0..300 {
        // Two pages of its own and a part of a leaf, which comes in eight versions: a gap in the run.
        writers[i / 7 % 2].execute("INSERT INTO t(b) VALUES(randomblob(8192))", []).expect("a row");
    }
    let c = &writers[0];
    // Something of each page of a row.
    let content = "SELECT group_concat(hex(substr(b, 1, 9) || substr(b, 4000, 9) || substr(b, -9))) FROM t";
    let written: String = one(c, content).expect("rows");
    c.execute_batch("PRAGMA wal_checkpoint").expect("a checkpoint");
    let (shared, copied) = (number(c, "pages_shared"), number(c, "pages_copied"));
    assert!(shared > 550 && copied < 60, "{shared} shared, {copied} copied");
    assert!(number(c, "runs_shared") < 10, "{}", status(c, "runs_shared"));
    assert_eq!(one(c, content).as_ref(), Ok(&written), "now from the database");
    drop(writers);
    let stock = common::open(&path, "vfs=unix").expect("a stock file");
    assert_eq!(one(&stock, content), Ok(written));
    assert_eq!(one::<String>(&stock, "PRAGMA integrity_check").as_deref(), Ok("ok"));
}

/// Blocks are exchanged; the first test that asks lets the file system pretend, and it stays so.
fn exchanging() -> String {
    common::register();
    PRETEND_EXCHANGE.store(true, Relaxed);
    format!("{OURS}&ondol_mechanism=exchange&ondol_run=1")
}

#[test]
fn what_was_exchanged_is_read_from_the_database_until_the_wal_begins_anew() {
    let folder = common::folder();
    let path = folder.path().join("a.db");
    let parameters = &exchanging();
    let c = made(&path, parameters);
    c.execute_batch("PRAGMA wal_autocheckpoint=0").expect("a setting");
    let content = "SELECT group_concat(hex(substr(b, 1, 9) || substr(b, 3000, 9))) FROM t";
    c.execute_batch(BULK).expect("rows");
    c.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("a checkpoint");
    assert_eq!(status(&c, "mechanism"), "XFS_IOC_EXCHANGE_RANGE");
    // Pages that the database has are overwritten: the WAL has its old ones from now on.
    c.execute_batch("UPDATE t SET b = randomblob(3400)").expect("rows");
    let shared = number(&c, "pages_shared");
    let reader = common::open(&path, parameters).expect("a reader");
    reader.execute_batch("BEGIN").expect("a transaction");
    let before: String = one(&reader, content).expect("rows");
    c.execute_batch("PRAGMA wal_checkpoint").expect("a checkpoint");
    assert!(number(&c, "pages_shared") > shared + 250, "{}", status(&c, "pages_shared"));
    // The reader holds on to the WAL; its cache is too small to remember.
    reader.execute_batch("PRAGMA cache_size=1; PRAGMA shrink_memory").expect("a setting");
    assert_eq!(one(&reader, content).as_ref(), Ok(&before));
    // A crash now, and recovery, which checks every frame.
    let copy = folder.path().join("copy");
    for suffix in ["", "-owal"] {
        let name = |path: &Path| format!("{}{suffix}", path.display());
        std::fs::copy(name(&path), name(&copy)).expect("a copy");
    }
    let recovered = common::open(&copy, "vfs=ondol&ondol=copy").expect("a copy");
    assert_eq!(one(&recovered, content).as_ref(), Ok(&before));
    assert!(one::<i64>(&recovered, "PRAGMA wal_checkpoint").is_ok());
    assert_eq!(one(&recovered, content).as_ref(), Ok(&before));
    drop(recovered);
    let stock = common::open(&copy, "vfs=unix").expect("a stock file");
    assert_eq!(one(&stock, content).as_ref(), Ok(&before));
    // Newer versions of a part, and a shorter database, in the same WAL: pages come home before.
    c.execute_batch("UPDATE t SET b = randomblob(3400) WHERE a % 3 = 0").expect("rows");
    let after: String = one(&c, content).expect("rows");
    c.execute_batch("PRAGMA wal_checkpoint").expect("a checkpoint");
    assert_eq!(one(&reader, content), Ok(before));
    reader.execute_batch("COMMIT").expect("a transaction");
    c.execute_batch("PRAGMA wal_checkpoint").expect("a checkpoint");
    assert_eq!(one(&reader, content), Ok(after));
    c.execute_batch("DELETE FROM t WHERE a > 50; VACUUM; PRAGMA wal_checkpoint").expect("a checkpoint");
    let left: String = one(&c, content).expect("rows");
    drop((reader, c));
    let stock = common::open(&path, "vfs=unix").expect("a stock file");
    assert_eq!(one(&stock, content), Ok(left));
    assert_eq!(one::<String>(&stock, "PRAGMA integrity_check").as_deref(), Ok("ok"));
}

#[test]
fn who_is_alone_from_the_start_shares_too() {
    for mechanism in ["clone", "exchange"] {
        let folder = common::folder();
        let path = folder.path().join("a.db");
        let parameters = &exchanging().replace("exchange", mechanism);
        drop(made(&path, parameters));
        let open = || {
            let c = common::open(&path, parameters).expect("a database");
            c.execute_batch("PRAGMA locking_mode=EXCLUSIVE; PRAGMA wal_autocheckpoint=0").expect("settings");
            c
        };
        let content = "SELECT group_concat(hex(substr(b, 1, 9) || substr(b, -9))) FROM t";
        let c = open();
        for round in 0..3 {
            c.execute_batch(BULK).expect("rows");
            c.execute_batch("UPDATE t SET b = randomblob(3400) WHERE a % 5 = 1; BEGIN").expect("rows");
            c.execute_batch("PRAGMA cache_size=3; DELETE FROM t; ROLLBACK").expect("spilled and rolled back");
            let before: String = one(&c, content).expect("rows");
            let shared = number(&c, "pages_shared");
            c.execute_batch("PRAGMA wal_checkpoint").expect("a checkpoint");
            let more = number(&c, "pages_shared") - shared;
            assert!(more > 200, "{mechanism}, round {round}: {more}");
            assert!(!Path::new(&format!("{}-shm", path.display())).exists(), "no index that others see");
            // Again in the same WAL: a part is not new.
            c.execute_batch("UPDATE t SET b = randomblob(3400) WHERE a % 40 < 25").expect("rows");
            c.execute_batch("PRAGMA wal_checkpoint; PRAGMA cache_size=3").expect("a checkpoint");
            let after: String = one(&c, content).expect("rows");
            assert_ne!(before, after);
            let copy = folder.path().join("copy");
            for suffix in ["", "-owal"] {
                let name = |path: &Path| format!("{}{suffix}", path.display());
                std::fs::copy(name(&path), name(&copy)).expect("a copy");
            }
            let recovered = common::open(&copy, "vfs=ondol&ondol=copy").expect("a copy");
            recovered.execute_batch("PRAGMA locking_mode=EXCLUSIVE").expect("a setting");
            assert_eq!(one(&recovered, content).as_ref(), Ok(&after), "{mechanism}, round {round}");
            recovered.execute_batch("UPDATE t SET b = 1 WHERE a % 3 = 0").expect("rows");
            let changed: String = one(&recovered, content).expect("rows");
            drop(recovered);
            let stock = common::open(&copy, "vfs=unix").expect("a stock file");
            assert_eq!(one(&stock, content), Ok(changed), "{mechanism}, round {round}");
            assert_eq!(one::<String>(&stock, "PRAGMA integrity_check").as_deref(), Ok("ok"));
        }
        let last: String = one(&c, content).expect("rows");
        drop(c);
        let stock = common::open(&path, "vfs=unix").expect("a stock file");
        assert_eq!(one(&stock, content), Ok(last));
    }
}

#[test]
fn a_wal_without_exchange_is_never_exchanged_and_an_unknown_one_refused() {
    let folder = common::folder();
    let path = folder.path().join("a.db");
    let wal = folder.path().join("a.db-owal");
    let parameters = &exchanging();
    drop(made(&path, OURS));
    let version = |number: u32| {
        // What a crash of a library of that version leaves: marked, with a WAL that has no frames.
        let mut bytes = std::fs::read(&path).expect("a database");
        bytes[19] = 3;
        std::fs::write(&path, bytes).expect("a database");
        let mut head = [0; 64];
        head[..16].copy_from_slice(b"ondol sqlite wal");
        head[16..20].copy_from_slice(&number.to_le_bytes());
        std::fs::write(&wal, head).expect("a WAL");
    };
    version(2);
    let c = common::open(&path, parameters).expect("a database");
    c.execute_batch(BULK).expect("rows");
    assert_eq!(status(&c, "mechanism"), "FICLONERANGE");
    c.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("a checkpoint");
    c.execute_batch("DELETE FROM t").expect("rows");
    assert_eq!(std::fs::read(&wal).expect("a WAL")[16..20], 2u32.to_le_bytes(), "the version stays");
    drop(c);
    // Version 3 told pages apart by SQLite's sum alone.
    for unknown in [3, 5] {
        version(unknown);
        let refused = common::open(&path, parameters).and_then(|c| one::<i64>(&c, "SELECT count(*) FROM t"));
        assert!(refused.is_err(), "{refused:?}");
    }
}

#[test]
fn an_incomplete_checkpoint_leaves_readers_their_version() {
    let folder = common::folder();
    let path = folder.path().join("a.db");
    let c = made(&path, OURS);
    c.execute_batch(BULK).expect("rows");
    let sum = "SELECT sum(length(b)) || '-' || hex(max(b)) FROM t";
    let reader = common::open(&path, OURS).expect("a reader");
    reader.execute_batch("BEGIN").expect("a transaction");
    let before: String = one(&reader, sum).expect("rows");
    // Pages with a version that the reader does not see are left for later.
    c.execute_batch("UPDATE t SET b = randomblob(3400) WHERE a > 200").expect("rows");
    let after: String = one(&c, sum).expect("rows");
    let mut frames = (0, 0);
    c.query_row("PRAGMA wal_checkpoint", [], |r| {
        frames = (r.get::<_, i64>(1)?, r.get::<_, i64>(2)?);
        Ok(())
    })
    .expect("a checkpoint");
    assert!(frames.1 < frames.0, "the reader holds it back: {frames:?}");
    assert!(number(&c, "pages_shared") > 0);
    assert_eq!(one(&reader, sum), Ok(before));
    assert_eq!(one(&c, sum), Ok(after.clone()));
    let fresh = common::open(&path, OURS).expect("a reader");
    assert_eq!(one(&fresh, sum), Ok(after));
}

#[test]
fn threads_work_side_by_side() {
    let folder = common::folder();
    let path = folder.path().join("a.db");
    drop(made(&path, OURS));
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let path = path.clone();
            std::thread::spawn(move || {
                for round in 0..5 {
                    let c = common::open(&path, &format!("{OURS}&ondol_run=1")).expect("a connection");
                    c.busy_timeout(std::time::Duration::from_secs(60)).expect("a setting");
                    c.execute_batch("PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=9")
                        .expect("settings");
                    for i in 0..10 {
                        c.execute("INSERT INTO t(b) VALUES(zeroblob(?))", [5000 + n * 100 + round * 10 + i])
                            .expect("a row");
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().expect("a thread"));
    let stock = common::open(&path, "vfs=unix").expect("a stock file");
    assert_eq!(one::<i64>(&stock, "SELECT count(*) FROM t"), Ok(200));
    assert_eq!(one::<String>(&stock, "PRAGMA integrity_check").as_deref(), Ok("ok"));
    assert_eq!(common::versions(&path), [2, 2]);
}

#[test]
fn readers_need_not_write() {
    let folder = common::folder();
    let path = folder.path().join("a.db");
    let c = made(&path, OURS);
    c.execute_batch("INSERT INTO t(b) VALUES(1), (2)").expect("rows");
    let reader = common::open(&path, &format!("{OURS}&mode=ro")).expect("a reader");
    assert_eq!(one::<i64>(&reader, "SELECT sum(b) FROM t"), Ok(3));
    assert!(reader.execute("DELETE FROM t", []).is_err());
    drop(c);
    assert_eq!(one::<i64>(&reader, "SELECT sum(b) FROM t"), Ok(3));
}

#[test]
fn attached_databases_commit_together() {
    let folder = common::folder();
    let (a, b) = (folder.path().join("a.db"), folder.path().join("b.db"));
    drop(made(&b, OURS));
    let c = made(&a, OURS);
    c.execute_batch(&format!("ATTACH 'file:{}?{OURS}' AS b", b.display())).expect("attached");
    c.execute_batch("BEGIN; INSERT INTO main.t(b) VALUES(1); INSERT INTO b.t(b) VALUES(2); COMMIT")
        .expect("rows");
    c.execute_batch(&format!("VACUUM INTO '{}'", folder.path().join("c.db").display())).expect("a copy");
    assert_eq!((common::versions(&a), common::versions(&b)), ([2, 3], [2, 3]));
    drop(c);
    for (path, sum) in [(&a, 1), (&b, 2), (&folder.path().join("c.db"), 1)] {
        let stock = common::open(path, "vfs=unix").expect("a stock file");
        assert_eq!(one::<i64>(&stock, "SELECT sum(b) FROM t"), Ok(sum), "{path:?}");
    }
}

#[test]
fn what_cannot_be_ours_keeps_sqlites_layout() {
    let folder = common::folder();
    common::register();
    for (name, parameters, pragma) in [
        ("small", OURS.to_string(), "PRAGMA page_size=2048"),
        ("psow", format!("{OURS}&psow=0"), "PRAGMA page_size=4096"),
        ("copy", "vfs=ondol&ondol=copy".to_string(), "PRAGMA page_size=4096"),
    ] {
        let path = folder.path().join(name);
        let c = common::open(&path, &parameters).expect("a database");
        c.execute_batch(pragma).expect("a setting");
        c.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(b); INSERT INTO t VALUES(5)").expect("rows");
        assert_eq!(
            (status(&c, "wal_layout").as_str(), common::versions(&path)),
            ("sqlite", [2, 2]),
            "{name}"
        );
        let stock = common::open(&path, "vfs=unix").expect("a stock neighbour");
        assert_eq!(one::<i64>(&stock, "SELECT b FROM t"), Ok(5), "{name}");
    }
}

#[test]
fn detaching_waits_for_an_empty_wal_and_solitude() {
    let folder = common::folder();
    let path = folder.path().join("a.db");
    let c = made(&path, OURS);
    let detach = |c: &Connection| match one::<String>(c, "PRAGMA ondol_detach") {
        Ok(answer) => answer,
        Err(error) => error.to_string(),
    };
    assert!(detach(&c).contains("wal_checkpoint(TRUNCATE)"));
    c.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("a checkpoint");
    let other = common::open(&path, OURS).expect("another");
    assert_eq!(one::<i64>(&other, "SELECT count(*) FROM t"), Ok(0));
    assert!(detach(&c).contains("other connections"));
    assert_eq!(common::versions(&path), [2, 3]);
    drop(other);
    assert_eq!(detach(&c), "detached");
    assert_eq!(common::versions(&path), [2, 2]);
    assert_eq!(status(&c, "wal_layout"), "sqlite");
    c.execute_batch("INSERT INTO t(b) VALUES(9)").expect("a row");
    let stock = common::open(&path, "vfs=unix").expect("a stock neighbour");
    assert_eq!(one::<i64>(&stock, "SELECT b FROM t"), Ok(9));
}

/// `auto` with costs that are given, one test at a time.
/// The entries of a whole span of frames, 128 KiB, are announced in one checkpoint.
#[test]
fn a_span_of_frames_is_exchanged() {
    let folder = common::folder();
    let c = made(&folder.path().join("a.db"), &exchanging());
    c.execute_batch("PRAGMA wal_autocheckpoint=0").expect("a setting");
    let bulk = BULK.replace("i < 300", "i < 6000");
    c.execute_batch(&bulk).expect("rows");
    c.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("a checkpoint");
    c.execute_batch("UPDATE t SET b = randomblob(3400)").expect("rows");
    let busy: i64 = one(&c, "PRAGMA wal_checkpoint(RESTART)").expect("a checkpoint");
    assert_eq!(busy, 0);
    assert!(number(&c, "pages_shared") > 6000);
    assert_eq!(one::<String>(&c, "PRAGMA integrity_check").expect("a check"), "ok");
}

/// Descriptors of databases that were shared into are kept, but not those of deleted ones, which would keep
/// their blocks.
#[test]
fn what_a_deleted_database_took_is_given_back() {
    let folder = common::folder();
    let kept = || {
        let all = std::fs::read_dir("/proc/self/fd").expect("descriptors");
        all.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok())
            .filter(|to| to.starts_with(folder.path()))
            .count()
    };
    for n in 0..5 {
        let path = folder.path().join(format!("{n}.db"));
        let c = made(&path, OURS);
        c.execute_batch(BULK).expect("rows");
        c.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("a checkpoint");
        drop(c);
        assert_eq!(kept(), 1, "the descriptor of the one that is there");
        std::fs::remove_file(&path).expect("a file");
    }
}

/// A file's read version is ours only in a file that this library could have marked: any other SQLite
/// refuses, and so do we.
#[test]
fn a_read_version_that_is_not_our_mark_is_refused() {
    let folder = common::folder();
    let path = folder.path().join("a.db");
    let c = made(&path, "vfs=unix");
    c.execute_batch("INSERT INTO t(b) VALUES(1)").expect("a row");
    drop(c);
    let good = std::fs::read(&path).expect("a database");
    // Page size, write version, read version; -owal is there, as for a file that is ours.
    for head in [[16, 0, 1, 3], [16, 0, 3, 3], [16, 0, 2, 4], [0, 255, 2, 3], [2, 0, 2, 3]] {
        let mut bytes = good.clone();
        bytes[16..20].copy_from_slice(&head);
        std::fs::write(&path, &bytes).expect("a database");
        std::fs::write(folder.path().join("a.db-owal"), "").expect("a file");
        for parameters in ["vfs=unix", "vfs=ondol&ondol=copy", "vfs=ondol", OURS, "vfs=ondol&ondol=pmem"] {
            let c = common::open(&path, parameters).expect("nothing is read yet");
            let refused = [one::<i64>(&c, "SELECT count(*) FROM t"), one(&c, "DELETE FROM t RETURNING 1")];
            for refused in refused {
                let refused = refused.expect_err("refused").sqlite_error_code();
                assert_eq!(refused, Some(rusqlite::ErrorCode::NotADatabase), "{head:?} {parameters}");
            }
        }
        assert_eq!(std::fs::read(&path).expect("a database"), bytes, "{head:?}");
    }
}

/// A copy of the database alone, say: what was committed since the last checkpoint is not in it.
#[test]
fn a_marked_database_without_its_wal_is_refused() {
    let folder = common::folder();
    let path = folder.path().join("a.db");
    let c = made(&path, OURS);
    c.execute_batch("PRAGMA wal_checkpoint; INSERT INTO t(b) VALUES(7)").expect("a row");
    let copy = folder.path().join("copy");
    std::fs::copy(&path, &copy).expect("a copy");
    let ours = folder.path().join("copy-owal");
    for parameters in ["vfs=ondol&ondol=copy", "vfs=ondol", OURS, "vfs=ondol&ondol=pmem", "vfs=ondol&mode=ro"]
    {
        let refused = common::open(&copy, parameters).and_then(|c| one::<i64>(&c, "SELECT count(*) FROM t"));
        assert_eq!(
            refused.expect_err("refused").sqlite_error_code(),
            Some(rusqlite::ErrorCode::CannotOpen),
            "{parameters}"
        );
        assert!(!ours.exists(), "{parameters}: nothing is made in its place");
    }
    // Who accepts the loss says so.
    std::fs::write(&ours, "").expect("a file");
    let left = common::open(&copy, OURS).expect("a database");
    assert_eq!(one::<i64>(&left, "SELECT count(*) FROM t"), Ok(0));
    drop(left);
    assert_eq!(common::versions(&copy), [2, 2]);
    // With its WAL nothing is missing.
    std::fs::copy(&path, &copy).expect("a copy");
    std::fs::copy(folder.path().join("a.db-owal"), &ours).expect("a copy");
    let whole = common::open(&copy, OURS).expect("a database");
    assert_eq!(one::<i64>(&whole, "SELECT b FROM t"), Ok(7));
}

/// What a crash between the making of our WAL and the mark has left goes with the last connection, in every
/// mode.
#[test]
fn a_wal_of_ours_without_the_mark_is_cleared_up() {
    for mode in ["copy", "auto", "remap", "pmem"] {
        let folder = common::folder();
        let path = folder.path().join("db");
        drop(made(&path, "vfs=unix"));
        let ours = folder.path().join("db-owal");
        std::fs::write(&ours, "").expect("a file");
        let c = common::open(&path, &format!("vfs=ondol&ondol={mode}")).expect("a database");
        c.execute_batch("INSERT INTO t(b) VALUES(1)").expect("a row");
        drop(c);
        assert!(!ours.exists(), "{mode}");
        assert_eq!(common::versions(&path), [2, 2], "{mode}");
        let stock = common::open(&path, "vfs=unix").expect("a database");
        assert_eq!(one::<i64>(&stock, "SELECT count(*) FROM t").expect("rows"), 1);
    }
}

#[test]
fn auto_shares_where_that_pays_and_leaves_the_rest_alone() {
    let quick = Costs {
        sync_us: 100.0,
        sync_shared_us: 100.0,
        // More than is seen of memory, so that nothing corrects it.
        copy_block_us: 900.0,
        shared_block_us: 1.0,
        share_us: 80.0,
        rounds: 1,
    };
    let assume = |costs| *ASSUMED.lock().expect("no panic") = Some(costs);
    // Commits that are synced, in a WAL whose sharing makes each dearer.
    let dear = Costs { sync_shared_us: 100_000.0, ..quick };
    for (name, costs, share) in [("cheap", quick, true), ("dear", dear, false)] {
        let folder = common::folder();
        let path = folder.path().join("a.db");
        common::register();
        let c = common::open(&path, "vfs=ondol").expect("a database");
        c.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a INTEGER PRIMARY KEY, b)")
            .expect("a table");
        assume(costs);
        let round = || {
            for _ in 0..60 {
                c.execute("INSERT INTO t(b) VALUES(randomblob(8000))", []).expect("a row");
            }
            c.execute_batch("PRAGMA wal_checkpoint").expect("a checkpoint");
        };
        round();
        assert_eq!(status(&c, "wal_layout"), "sqlite", "{name}: the first checkpoint decides nothing");
        round();
        let decided = status(&c, "decision");
        assert!(decided.starts_with(if share { "share" } else { "copy" }), "{name}: {decided}");
        round();
        let layout = if share { "ondol" } else { "sqlite" };
        assert_eq!(status(&c, "wal_layout"), layout, "{name}");
        assert_eq!(number(&c, "pages_shared") > 100, share, "{name}");
        // What is dear now is copied at once, in our layout too.
        assume(dear);
        let before = number(&c, "pages_shared");
        round();
        assert_eq!(number(&c, "pages_shared"), before, "{name}");
        assert!(status(&c, "decision").starts_with("copy"), "{name}: {}", status(&c, "decision"));
        // And the database is let go when its WAL begins anew.
        round();
        assert_eq!(
            (status(&c, "wal_layout").as_str(), common::versions(&path)),
            ("sqlite", [2, 2]),
            "{name}"
        );
        assert!(!folder.path().join("a.db-owal").exists(), "{name}");
        let stock = common::open(&path, "vfs=unix").expect("a stock neighbour");
        assert_eq!(one::<i64>(&stock, "SELECT count(*) FROM t"), Ok(300));
        assert_eq!(one::<String>(&stock, "PRAGMA integrity_check").as_deref(), Ok("ok"));
        drop(stock);
        // Others wait for no decision: taken and let go again.
        for costs in [quick, dear, quick, dear] {
            assume(costs);
            (0..2).for_each(|_| round());
            assert_eq!(one::<String>(&c, "PRAGMA integrity_check").as_deref(), Ok("ok"), "{name}");
        }
        assert_eq!(one::<i64>(&c, "SELECT count(*) FROM t"), Ok(780));
        drop(c);
        assert_eq!(common::versions(&path), [2, 2]);
    }
    // Others have it open: it stays SQLite's, and auto gives up.
    assume(quick);
    let folder = common::folder();
    let path = folder.path().join("a.db");
    let c = common::open(&path, "vfs=ondol").expect("a database");
    c.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a INTEGER PRIMARY KEY, b)").expect("a table");
    let other = common::open(&path, "vfs=unix").expect("a neighbour");
    for n in 0..8 {
        assert_eq!(one::<i64>(&other, "SELECT count(*) FROM t"), Ok(n * 60));
        for _ in 0..60 {
            c.execute("INSERT INTO t(b) VALUES(randomblob(8000))", []).expect("a row");
        }
        c.execute_batch("PRAGMA wal_checkpoint").expect("a checkpoint");
    }
    assert_eq!(status(&c, "wal_layout"), "sqlite");
    assert!(status(&c, "decision").contains("others have the database open"), "{}", status(&c, "decision"));
    *ASSUMED.lock().expect("no panic") = None;
}

#[test]
fn the_status_is_a_table_too() {
    let folder = common::folder();
    let c = made(&folder.path().join("a.db"), OURS);
    let b = folder.path().join("b.db");
    c.execute_batch(&format!("ATTACH 'file:{}?{OURS}' AS b; ATTACH ':memory:' AS m", b.display()))
        .expect("attached");
    c.execute_batch("PRAGMA wal_checkpoint").expect("a checkpoint");
    let of = |schema: &str, name: &str| {
        one::<rusqlite::types::Value>(
            &c,
            &format!("SELECT value FROM ondol_status WHERE database = '{schema}' AND name = '{name}'"),
        )
    };
    assert_eq!(of("main", "mode"), Ok("remap".to_string().into()));
    assert_eq!(of("main", "checkpoints"), Ok(1.into()));
    assert_eq!(of("b", "database"), Ok(b.to_string_lossy().into_owned().into()));
    let count = |schema: &str| {
        one::<i64>(&c, &format!("SELECT count(*) FROM ondol_status WHERE database = '{schema}'"))
    };
    let json: String = one(&c, "PRAGMA main.ondol_status").expect("a status");
    assert_eq!(
        count("main"),
        Ok(json.matches("\":").count() as i64),
        "as many facts as the pragma has: {json}"
    );
    assert_eq!(count("m"), Ok(0));
    assert!(c.execute("DELETE FROM ondol_status", []).is_err());
    // A connection past our VFS has the table, without rows.
    let stock = Connection::open_in_memory().expect("a connection");
    assert_eq!(one::<i64>(&stock, "SELECT count(*) FROM ondol_status"), Ok(0));
}
