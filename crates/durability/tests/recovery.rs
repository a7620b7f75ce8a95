//! The real log, checkpoint and recovery over files: what comes back is exactly what was committed.
mod common;
use common::*;
use ondol_base::media::{Open, Storage, disk::Disk};
use ondol_base::sync::Mutex;
use ondol_durability::page::SegmentId;
use ondol_durability::*;
use std::sync::Arc;
use std::time::Duration;

struct Folder(std::path::PathBuf);
impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ondol-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn config(&self, streams: usize) -> Config {
        let data: Arc<dyn Storage> = Arc::new(Disk::open(&self.0).unwrap());
        let mut c = Config::new(data.clone());
        c.streams =
            (0..streams).map(|k| Place { storage: data.clone(), folder: format!("log{k}") }).collect();
        c.log_file_size = 256 << 10;
        c.buffer_size = 128 << 10;
        c.horizon_interval = Duration::from_millis(5);
        c
    }
}
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One life of a random history; says how it went on with the truth.
fn live(db: &Db, truth: &Mutex<Truth>, random: &mut Random, steps: usize, streams: usize) {
    for _ in 0..steps {
        let stream = StreamId(random.below(streams) as u16);
        let segments: Vec<SegmentId> = db.memory.state.lock().segments.keys().copied().collect();
        match random.below(100) {
            0..4 => {
                db.create_segment(random.below(9) as u32, random).unwrap();
            }
            4..6 if segments.len() > 1 => {
                db.drop_segment(segments[random.below(segments.len())], truth).unwrap();
            }
            6..10 => {
                let ts = db.void(stream).unwrap();
                truth.lock().commits.insert(ts, vec![]);
            }
            10..13 => {
                db.checkpoint(random.chance(20)).unwrap();
            }
            13..40 => {
                let c = db.log.clock() - 1;
                db.log.wait_durable(c).unwrap();
                let mut t = truth.lock();
                t.acknowledged = t.acknowledged.max(c);
            }
            40..43 if !segments.is_empty() => {
                // Spilled and given up.
                let txn = db.next_txn.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let (changes, _) = db.some_changes(segments[0], (0, 1), random);
                db.log.fragment(stream, txn, 0, &changes).unwrap();
                db.log.abandon(txn);
            }
            _ if !segments.is_empty() => {
                let segment = segments[random.below(segments.len())];
                let n = if random.chance(10) { 1 + random.below(4) } else { 1 };
                let parts = (0..n).map(|_| db.some_changes(segment, (0, 1), random)).collect();
                db.commit(stream, parts, truth).unwrap();
            }
            _ => {}
        }
    }
}

#[test]
fn random_histories_come_back() {
    for seed in 0..12 {
        let streams = 1 + seed as usize % 3;
        let folder = Folder::new(&format!("histories-{seed}"));
        let mut random = Random(seed);
        let truth = Mutex::new(Truth::default());
        for life in 0..4 {
            let mut t = truth.lock().clone();
            let (db, found) = Db::open(folder.config(streams), &mut t)
                .unwrap_or_else(|e| panic!("seed {seed} life {life}: {e}"));
            assert_eq!(found.created, life == 0);
            assert_eq!(found.warnings, Vec::<String>::new());
            *truth.lock() = t;
            live(&db, &truth, &mut random, 300, streams);
            if random.chance(40) {
                db.log.close().unwrap();
                let mut t = truth.lock();
                t.acknowledged = db.log.clock() - 1;
            }
        }
        let mut t = truth.lock().clone();
        Db::open(folder.config(streams), &mut t).unwrap_or_else(|e| panic!("seed {seed} at the end: {e}"));
    }
}

#[test]
fn concurrent_commits_come_back() {
    let folder = Folder::new("concurrent");
    let truth = Arc::new(Mutex::new(Truth::default()));
    for life in 0..3 {
        let mut t = truth.lock().clone();
        let (db, _) = Db::open(folder.config(2), &mut t).unwrap();
        *truth.lock() = t;
        let db = Arc::new(db);
        let segment = db.create_segment(1, &mut Random(life)).unwrap().unwrap();
        let threads: Vec<_> = (0..4)
            .map(|lane| {
                let (db, truth) = (db.clone(), truth.clone());
                std::thread::spawn(move || {
                    let mut random = Random(life * 100 + lane as u64);
                    for _ in 0..200 {
                        let n = if random.chance(5) { 3 } else { 1 };
                        let parts =
                            (0..n).map(|_| db.some_changes(segment, (lane, 4), &mut random)).collect();
                        let ts = db.commit(StreamId(lane as u16 % 2), parts, &truth).unwrap();
                        match random.below(3) {
                            0 => db.log.acknowledge_async(ts),
                            1 => {
                                db.log.wait_durable(ts).unwrap();
                                assert!(db.log.durable_ts() >= ts);
                                let mut t = truth.lock();
                                t.acknowledged = t.acknowledged.max(ts);
                            }
                            _ => {}
                        }
                    }
                })
            })
            .collect();
        for i in 0..5 {
            db.checkpoint(i == 3).unwrap();
        }
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert!(db.log.visible_ts() < db.log.clock());
    }
    let mut t = truth.lock().clone();
    Db::open(folder.config(2), &mut t).unwrap();
}

#[test]
fn asynchronous_commits_become_durable_by_themselves() {
    let folder = Folder::new("async");
    let truth = Mutex::new(Truth::default());
    let (db, _) = Db::open(folder.config(1), &mut truth.lock()).unwrap();
    let segment = db.create_segment(1, &mut Random(1)).unwrap().unwrap();
    let ts = db.commit(StreamId(0), vec![db.some_changes(segment, (0, 1), &mut Random(2))], &truth).unwrap();
    assert!(db.log.visible_ts() < ts);
    db.log.acknowledge_async(ts);
    assert!(db.log.visible_ts() == ts);
    let start = std::time::Instant::now();
    while db.log.durable_ts() < ts {
        assert!(start.elapsed() < Duration::from_secs(10), "no background round");
        std::thread::sleep(Duration::from_millis(1));
    }
    // The horizon: an empty block records the round as durable.
    let rounds = db.log.rounds();
    while db.log.rounds() == rounds {
        assert!(start.elapsed() < Duration::from_secs(10), "no horizon block");
        std::thread::sleep(Duration::from_millis(1));
    }
    // And only one.
    std::thread::sleep(Duration::from_millis(40));
    assert_eq!(db.log.rounds(), rounds + 1);
}

fn files(folder: &Folder) -> Vec<std::path::PathBuf> {
    let mut all = vec![];
    let mut stack = vec![folder.0.clone()];
    while let Some(dir) = stack.pop() {
        for e in std::fs::read_dir(dir).unwrap() {
            let p = e.unwrap().path();
            if p.is_dir() { stack.push(p) } else { all.push(p) }
        }
    }
    all.sort();
    all
}

fn copy(from: &Folder, to: &Folder) {
    let _ = std::fs::remove_dir_all(&to.0);
    for f in files(from) {
        let target = to.0.join(f.strip_prefix(&from.0).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(&f, target).unwrap();
    }
}

/// Every byte of a database closed in order is under a checksum, or unused.
#[test]
fn damage_is_refused_or_harmless() {
    let folder = Folder::new("damage");
    let truth = Mutex::new(Truth::default());
    let mut random = Random(77);
    for _ in 0..2 {
        let mut t = truth.lock().clone();
        let (db, _) = Db::open(folder.config(2), &mut t).unwrap();
        *truth.lock() = t;
        live(&db, &truth, &mut random, 250, 2);
        db.log.close().unwrap();
    }
    {
        let mut t = truth.lock();
        t.acknowledged = t.commits.last_key_value().map_or(0, |(ts, _)| *ts);
    }
    let (mut refused, mut harmless) = (0, 0);
    let report = inspect::verify(&folder.config(2));
    assert!(report.problems.is_empty() && report.clean && report.warnings.is_empty(), "{report:?}");
    assert_eq!(report.clock, truth.lock().acknowledged + 1);
    let mut commits = 0;
    inspect::blocks(&folder.config(2), &mut |b| {
        if b.live {
            let later = |r: &record::Record<'_>| match r {
                record::Record::Commit { ts, .. } | record::Record::Void { ts } => *ts > report.checkpoint,
                _ => false,
            };
            commits += b.records().filter(|r| r.as_ref().is_ok_and(|(_, r)| later(r))).count() as u64;
        }
    })
    .unwrap();
    assert_eq!(commits, report.commits);
    let mut images = 0;
    inspect::pages(&folder.config(2), &mut |_, _, _, _| images += 1).unwrap();
    assert_eq!(images, report.images);
    let other = Folder::new("damaged");
    let all = files(&folder);
    for i in 0..260 {
        copy(&folder, &other);
        let f = other.0.join(all[i % all.len()].strip_prefix(&folder.0).unwrap());
        let mut bytes = std::fs::read(&f).unwrap();
        if bytes.is_empty() {
            continue;
        }
        // Half of the flips where the bytes are.
        let used = bytes.iter().rposition(|b| *b != 0).map_or(bytes.len(), |n| n + 1);
        let range = if random.chance(80) { used } else { bytes.len() };
        let at = random.below(range);
        bytes[at] ^= 1 << random.below(8);
        std::fs::write(&f, &bytes).unwrap();
        let report = inspect::verify(&other.config(2));
        let told = !report.problems.is_empty() || !report.warnings.is_empty();
        let mut t = truth.lock().clone();
        // `open` compares the content, and that nothing acknowledged is lost.
        match Db::open(other.config(2), &mut t) {
            Ok((_, found)) => {
                harmless += 1;
                assert_eq!(told, !found.warnings.is_empty(), "{report:?}");
            }
            Err(e) => {
                refused += 1;
                assert!(told, "not found by the offline check: {e}");
                assert!(!e.to_string().is_empty());
            }
        }
    }
    assert!(refused > 20 && harmless > 5, "refused {refused}, harmless {harmless}");
    // A missing file is named.
    for f in &all {
        copy(&folder, &other);
        let name = f.strip_prefix(&folder.0).unwrap();
        std::fs::remove_file(other.0.join(name)).unwrap();
        let mut t = truth.lock().clone();
        match Db::open(other.config(2), &mut t) {
            Ok((_, found)) => {
                if name.to_string_lossy().contains("manifest") {
                    assert_eq!(found.warnings.len(), 1);
                }
            }
            Err(e) => assert!(e.to_string().contains("log") || e.to_string().contains("checkpoint"), "{e}"),
        }
    }
}

/// Who drops a segment is delayed between the log's record and memory, over several checkpoints: none of them
/// names it.
#[test]
fn a_dropped_segment_that_memory_still_has_is_in_no_manifest() {
    for full in [false, true] {
        let folder = Folder::new(&format!("delayed-drop-{full}"));
        let mut random = Random(5);
        let truth = Mutex::new(Truth::default());
        let (db, _) = Db::open(folder.config(1), &mut truth.lock()).unwrap();
        let segment = db.create_segment(1, &mut random).unwrap().unwrap();
        let other = db.create_segment(2, &mut random).unwrap().unwrap();
        let write = |db: &Db, s, random: &mut Random| {
            db.commit(StreamId(0), vec![db.some_changes(s, (0, 1), random)], &truth).unwrap()
        };
        write(&db, segment, &mut random);
        let drop = db.log_drop(segment, &truth).unwrap();
        for _ in 0..3 {
            write(&db, other, &mut random);
            db.checkpoint(full).unwrap();
        }
        let mut t = truth.lock().clone();
        std::mem::drop(db);
        let (db, _) = Db::open(folder.config(1), &mut t).unwrap();
        assert_eq!(db.memory.state.lock().segments.keys().collect::<Vec<_>>(), [&other], "full: {full}");

        // Once memory has dropped it too, a checkpoint forgets it, and it may come again.
        let (db, truth) = (db, Mutex::new(t));
        let write = |db: &Db, s, random: &mut Random| {
            db.commit(StreamId(0), vec![db.some_changes(s, (0, 1), random)], &truth).unwrap()
        };
        let new = db.create_segment(3, &mut random).unwrap().unwrap();
        write(&db, new, &mut random);
        let again = db.log_drop(new, &truth).unwrap();
        assert!(again > drop);
        write(&db, other, &mut random);
        db.checkpoint(full).unwrap();
        db.forget_segment(new, again);
        write(&db, other, &mut random);
        db.checkpoint(full).unwrap();
        assert!(db.memory.state.lock().reusable.contains(&new));
        while let Some(s) = db.create_segment(4, &mut random).unwrap() {
            write(&db, s, &mut random);
        }
        db.checkpoint(false).unwrap();
        let mut t = truth.lock().clone();
        std::mem::drop(db);
        let (db, _) = Db::open(folder.config(1), &mut t).unwrap();
        assert_eq!(db.memory.state.lock().segments[&new].heap, 4);
    }
}

#[test]
fn two_openings_exclude_each_other() {
    let folder = Folder::new("locked");
    let mut truth = Truth::default();
    let (_db, _) = Db::open(folder.config(1), &mut truth).unwrap();
    let second = Db::open(folder.config(1), &mut truth);
    assert!(matches!(second.err(), Some(RecoveryError::Locked { .. })));
}

#[test]
fn a_database_that_grew_and_shrank_uses_its_files_again() {
    let folder = Folder::new("recycle");
    let truth = Mutex::new(Truth::default());
    let (db, _) = Db::open(folder.config(1), &mut truth.lock()).unwrap();
    let mut random = Random(5);
    let segment = db.create_segment(1, &mut random).unwrap().unwrap();
    for _ in 0..40 {
        for _ in 0..40 {
            let ts =
                db.commit(StreamId(0), vec![db.some_changes(segment, (0, 1), &mut random)], &truth).unwrap();
            if random.chance(50) {
                db.log.wait_durable(ts).unwrap();
            }
        }
        db.checkpoint(false).unwrap();
        assert!(db.log.kept_bytes() <= 2 * (256 << 10));
    }
    let disk = Disk::open(&folder.0).unwrap();
    let logs = disk.list("log0").unwrap();
    assert!(logs.len() <= 7, "{logs:?}");
    drop(db);
    let mut t = truth.lock().clone();
    let (_, found) = Db::open(folder.config(1), &mut t).unwrap();
    assert!(found.checkpoint > 0);
    // A file of nothing but stale blocks says nothing.
    assert!(disk.open("log0/nothing", Open::Read).is_err());
}
