//! The real code in simulated worlds: power failures at any I/O operation, also during recovery and
//! checkpoints, failed syncs, full disks. After each the database must come back as a prefix of the commit
//! order with everything that was acknowledged or read; [`Db::open`] compares.
mod common;
use common::*;
use ondol_base::media::{Open, Storage};
use ondol_base::sim;
use ondol_base::sync::Mutex;
use ondol_base::thread;
use ondol_durability::*;
use std::collections::BTreeMap;
use std::sync::Arc;

fn config(world: &Arc<sim::World>, streams: usize) -> Config {
    let data: Arc<dyn Storage> = world.disk("data");
    let mut c = Config::new(data);
    c.streams = (0..streams)
        .map(|k| Place {
            storage: world.disk(&format!("log{k}")),
            folder: if k == 0 { "log".into() } else { "".into() },
        })
        .collect();
    c.log_file_size = 128 << 10;
    c.buffer_size = 128 << 10;
    c
}

/// One life with several committers and a checkpointer, until the power fails, a sync does, or all is done.
fn live(world: &Arc<sim::World>, truth: &Arc<Mutex<Truth>>, streams: usize, seed: u64) -> Result<(), String> {
    let mut t = truth.lock().clone();
    let db = match Db::open(config(world, streams), &mut t) {
        Ok((db, _)) => Arc::new(db),
        // Where syncs fail, an opening may too: the next one finds everything again.
        // A full disk is no reason.
        Err(RecoveryError::Io { .. }) if world.power_is_lost() || world.config().sync_error > 0.0 => {
            return Ok(());
        }
        Err(e) => return Err(e.to_string()),
    };
    *truth.lock() = t;
    let mut handles = vec![];
    let new: Vec<_> = (0..2).filter_map(|h| db.take_segment(h, &mut Random(seed))).collect();
    // Nobody writes to one that the log refused.
    let (segments, refused): (Vec<_>, Vec<_>) = new.iter().partition(|s| db.log_segment(s).is_ok());
    let is_refused = |id: &_| refused.iter().any(|s| s.id == *id);
    let all: Vec<_> = db.memory.state.lock().segments.keys().copied().filter(|s| !is_refused(s)).collect();
    for lane in 0..3usize {
        let (db, truth, all) = (db.clone(), truth.clone(), all.clone());
        let work = move || {
            let mut random = Random(seed ^ (lane as u64) << 32);
            for _ in 0..60 {
                if all.is_empty() {
                    return;
                }
                let segment = all[random.below(all.len())];
                let n = if random.chance(10) { 1 + random.below(3) } else { 1 };
                let parts = (0..n).map(|_| db.some_changes(segment, (lane, 3), &mut random)).collect();
                let stream = StreamId(random.below(db.log.streams()) as u16);
                let Ok(ts) = db.commit(stream, parts, &truth) else { return };
                match random.below(4) {
                    0 => db.log.acknowledge_async(ts),
                    1 | 2 => {
                        if db.log.wait_durable(ts).is_err() {
                            return;
                        }
                        let mut t = truth.lock();
                        t.acknowledged = t.acknowledged.max(ts);
                    }
                    _ => {
                        // What a reader at durable_ts sees must never be undone either.
                        let seen = db.log.durable_ts();
                        let mut t = truth.lock();
                        t.acknowledged = t.acknowledged.max(seen);
                    }
                }
                if random.chance(5) {
                    match db.void(stream) {
                        Ok(ts) => drop(truth.lock().commits.insert(ts, vec![])),
                        Err(_) => return,
                    }
                }
            }
        };
        handles.push(thread::spawn("committer", work).unwrap());
    }
    {
        let db = db.clone();
        let work = move || {
            for i in 0..4 {
                if db.checkpoint(i % 3 == 2).is_err() {
                    return;
                }
                thread::sleep(std::time::Duration::from_micros(500));
            }
        };
        handles.push(thread::spawn("checkpointer", work).unwrap());
    }
    for h in handles {
        h.join().map_err(|_| "a fiber panicked".to_string())?;
    }
    // A segment goes at the end of a life, when nobody changes it any more.
    if let Some(segment) = segments.first()
        && Random(seed).chance(60)
    {
        let _ = db.drop_segment(segment.id, truth);
        let _ = db.log.flush();
        if Random(seed).chance(50) {
            let _ = db.checkpoint(false);
        }
    }
    if Random(seed ^ 1).chance(30) && db.log.close().is_ok() {
        let mut t = truth.lock();
        t.acknowledged = db.log.clock() - 1;
    }
    Ok(())
}

/// Several lives; the error names what went wrong. `full`: on disks that have little room or none, from the
/// second life on.
fn history(
    seed: u64,
    kind: &sim::Config,
    full: bool,
    phases: &mut BTreeMap<&'static str, usize>,
) -> Result<(), String> {
    let mut random = Random(seed);
    let streams = 1 + random.below(2);
    let truth = Arc::new(Mutex::new(Truth::default()));
    let mut world = sim::World::new(seed, kind.clone());
    for life in 0..6u64 {
        // Now and then right at the start, so that recovery itself is hit.
        let after = if random.chance(40) { random.below(60) } else { random.below(900) };
        if life < 5 && !(full && life == 0) {
            world.arm_power_failure(after as u64);
        }
        let dies = full && random.chance(30);
        let w = world.clone();
        let (t, s) = (truth.clone(), random.next());
        world
            .try_run(move || live(&w, &t, streams, s))
            .map_err(|f| f.to_string())
            .and_then(|r| r)
            .map_err(|e| format!("seed {seed} life {life}: {e}"))?;
        for p in world.phases_at_failure() {
            *phases.entry(p).or_default() += 1;
        }
        if dies && !world.power_is_lost() {
            // The machine goes on, with what was never synced.
            world.process_failure();
        }
        let room = [0, random.below(100) << 10, 1 << 30][random.below(3)] as u64;
        let disk_bytes = if full { world.fullest_disk() + room } else { kind.disk_bytes };
        world = world.reboot_with(random.next(), sim::Config { disk_bytes, ..kind.clone() });
    }
    Ok(())
}

/// More in a long run: `ONDOL_SEEDS`.
fn seeds() -> u64 {
    std::env::var("ONDOL_SEEDS").ok().and_then(|s| s.parse().ok()).unwrap_or(60)
}

#[test]
fn power_failures_lose_nothing_acknowledged() {
    let mut phases = BTreeMap::new();
    for seed in 0..seeds() {
        history(seed, &sim::Config::default(), false, &mut phases).unwrap_or_else(|e| panic!("{e}"));
    }
    // The failures hit what they are for.
    for p in ["commit", "flush", "checkpoint", "recovery"] {
        assert!(phases.get(p).is_some_and(|n| *n > 3), "{p}: {phases:?}");
    }
}

/// The system tells of a write that failed only descriptors that were open before, and those once: a sync
/// through another one proves nothing. So whoever writes syncs through the same descriptor, or writes again.
#[test]
fn what_is_written_is_synced_through_the_same_descriptor() {
    let kind = sim::Config { sync_since_open: true, ..sim::Config::default() };
    for seed in 0..seeds() {
        history(seed, &kind, false, &mut BTreeMap::new()).unwrap_or_else(|e| panic!("{e}"));
        history(seed, &kind, true, &mut BTreeMap::new()).unwrap_or_else(|e| panic!("full disks: {e}"));
    }
    let wrong = sim::Config { mutation: Some("manifest_synced_anew"), ..kind };
    let caught = (0..200).find_map(|seed| history(seed, &wrong, false, &mut BTreeMap::new()).err());
    println!(
        "{}",
        caught.expect("a file that is opened anew to be synced was not noticed").lines().next().unwrap_or("")
    );
}

/// Power fails at each operation of making a database, and of the second opening: the next one always
/// succeeds.
#[test]
fn a_database_half_made_opens() {
    for streams in 1..=2 {
        for after in 0..70u64 {
            for seed in 0..4 {
                let mut world = sim::World::new(seed << 8 | after, sim::Config::default());
                for life in 0..3 {
                    if life < 2 {
                        world.arm_power_failure(after);
                    }
                    let w = world.clone();
                    let open = move || match Db::open(config(&w, streams), &mut Truth::default()) {
                        Err(e) if !w.power_is_lost() => Err(e.to_string()),
                        _ => Ok(()),
                    };
                    let outcome = world.try_run(open).map_err(|f| f.to_string()).and_then(|r| r);
                    let place =
                        || format!("{streams} streams, power lost after {after}, seed {seed}, life {life}");
                    outcome.unwrap_or_else(|e| panic!("{}: {e}", place()));
                    world = world.reboot(seed ^ life);
                }
            }
        }
    }
}

/// One copy of the manifest has rotted, and the power fails at each operation at the end of the next opening:
/// the one after succeeds, since the good copy stands until the rotten one is whole. The manifests take
/// several sectors, so that they can be torn.
#[test]
fn a_rotten_manifest_is_written_before_the_good_one() {
    const NEVER: u64 = 1 << 40;
    let config = |world: &Arc<sim::World>| {
        let mut c = config(world, 1);
        let more = (1..4).map(|k| format!("a log folder with a long name {k}{}", "x".repeat(200)));
        c.streams.extend(more.map(|n| Place { storage: world.disk(&n), folder: "".into() }));
        c
    };
    // Opens, perhaps with a copy that rots before and a failure after so many operations. Gives the warnings
    // and the operations.
    let life = |world: &Arc<sim::World>, rot: Option<&'static str>, after: u64| {
        let (w, c) = (world.clone(), config(world));
        let open = move || {
            if let Some(copy) = rot {
                let file = w.disk("data").open(copy, Open::Write).unwrap();
                let mut byte = [0];
                file.read_at(&mut byte, 700).unwrap();
                file.write_at(&[byte[0] ^ 4], 700).unwrap();
                file.sync_data().unwrap();
            }
            w.arm_power_failure(after);
            let before = w.io_ops();
            match Db::open(c, &mut Truth::default()) {
                Err(e) if !w.power_is_lost() => Err(e.to_string()),
                Err(_) => Ok((0, 0)),
                Ok((db, found)) => {
                    let operations = w.io_ops() - before;
                    // A life that did something stays in the list, so that the next manifest differs
                    // throughout.
                    let _ = db.void(StreamId(0)).and_then(|ts| db.log.wait_durable(ts));
                    Ok((found.warnings.len(), operations))
                }
            }
        };
        world.try_run(open).map_err(|f| f.to_string()).and_then(|r| r)
    };
    let mut torn = 0;
    for (copy, openings) in [("manifest-0", 2), ("manifest-1", 2)] {
        let run = |before: u64, seed: u64| -> Result<(usize, u64), String> {
            let mut world = sim::World::new(seed, sim::Config::default());
            for _ in 0..openings {
                life(&world, None, NEVER)?;
                world = world.reboot(seed);
            }
            let (warnings, operations) = life(&world, Some(copy), before)?;
            if before == NEVER {
                return Ok((warnings, operations));
            }
            world = world.reboot(seed);
            life(&world, None, NEVER)
        };
        let operations = run(NEVER, 1).unwrap().1;
        for after in operations.saturating_sub(16)..operations {
            for seed in 0..5 {
                let place = format!("{copy}, {openings} openings, power lost after {after}, seed {seed}");
                torn += run(after, seed).unwrap_or_else(|e| panic!("{place}: {e}")).0
            }
        }
    }
    assert!(torn > 10, "{torn} openings met a bad copy");
}

/// A segment that had another life, of which a file of the checkpoint still has images, is listed before its
/// creation is logged.
fn listed_before_it_is_logged(mutation: Option<&'static str>) -> Result<(), String> {
    let world = sim::World::new(1, sim::Config { mutation, ..sim::Config::default() });
    let w = world.clone();
    let lives = move || {
        let mut random = Random(7);
        let mut begun = Truth::default();
        let (db, _) = Db::open(config(&w, 1), &mut begun).unwrap();
        let truth = Mutex::new(begun);
        let write = |s, random: &mut Random| {
            let parts = (0..20).map(|_| db.some_changes(s, (0, 1), random)).collect();
            db.commit(StreamId(0), parts, &truth).unwrap()
        };
        let first = db.create_segment(1, &mut random).unwrap().unwrap();
        let other = db.create_segment(2, &mut random).unwrap().unwrap();
        write(first, &mut random);
        write(other, &mut random);
        db.checkpoint(true).unwrap();
        db.drop_segment(first, &truth).unwrap();
        db.checkpoint(false).unwrap();
        let again = db.take_segment(3, &mut random).unwrap();
        assert_eq!(again.id, first);
        write(other, &mut random);
        db.checkpoint(false).unwrap();
        db.log_segment(&again).unwrap();
        write(first, &mut random);
        db.log.flush().unwrap();
        let mut t = truth.lock().clone();
        t.acknowledged = db.log.clock() - 1;
        drop(db);
        Db::open(config(&w, 1), &mut t).map(drop).map_err(|e| e.to_string())
    };
    world.try_run(lives).map_err(|f| f.to_string()).and_then(|r| r)
}

#[test]
fn a_segment_that_is_listed_before_it_is_logged_has_no_older_images() {
    listed_before_it_is_logged(None).unwrap();
    for mutation in ["segment_unstamped", "stamps_kept"] {
        let e = listed_before_it_is_logged(Some(mutation)).expect_err(mutation);
        println!("{mutation}: {}", e.lines().next().unwrap_or(""));
    }
}

#[test]
fn failed_syncs_and_writes_are_never_believed() {
    let mut phases = BTreeMap::new();
    let kind = sim::Config { sync_error: 0.004, write_error: 0.002, ..sim::Config::default() };
    for seed in 1000..1000 + seeds() {
        history(seed, &kind, false, &mut phases).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// A disk without room for a log file: every opening succeeds all the same, and what is written there stays.
#[test]
fn a_full_disk_opens() {
    let mut phases = BTreeMap::new();
    for seed in 2000..2000 + seeds() {
        history(seed, &sim::Config::default(), true, &mut phases).unwrap_or_else(|e| panic!("{e}"));
    }
    for p in ["flush", "checkpoint", "recovery"] {
        assert!(phases.get(p).is_some_and(|n| *n > 3), "{p}: {phases:?}");
    }
    let kind = sim::Config { mutation: Some("log_continued_over"), ..sim::Config::default() };
    let caught = (2000..2030).filter_map(|seed| history(seed, &kind, true, &mut phases).err());
    let caught: Vec<String> = caught.collect();
    println!("{} of 30: {}", caught.len(), caught.first().map_or("", |e| e));
    assert!(caught.len() > 5, "{caught:?}");
}

/// The suite sees what it is for: on a medium whose syncs do nothing, acknowledged commits are lost.
#[test]
fn a_lying_medium_is_noticed() {
    let mut phases = BTreeMap::new();
    let kind = sim::Config { ignore_sync_data: true, ..sim::Config::default() };
    let caught = (0..12).filter(|seed| history(*seed, &kind, false, &mut phases).is_err()).count();
    assert!(caught > 6, "{caught} of 12");
}

/// Where a large log file found no room, there is some left for a checkpoint, which no attempt takes away
/// meanwhile, and after it small ones do.
#[test]
fn after_a_checkpoint_small_log_files_do() {
    for seed in 0..20 {
        let world = sim::World::new(seed, sim::Config { disk_bytes: 3 << 20, ..sim::Config::default() });
        let w = world.clone();
        world.run(move || {
            let truth = Mutex::new(Truth::default());
            let on_one_disk = |log_file_size| {
                let mut c = Config { log_file_size, ..config(&w, 1) };
                c.streams[0].storage = c.data.clone();
                c
            };
            let (db, _) = Db::open(on_one_disk(64 << 20), &mut truth.lock()).unwrap();
            let mut random = Random(3);
            let segment = db.create_segment(1, &mut random).unwrap().unwrap();
            let until_full = |random: &mut Random| {
                for n in 0.. {
                    match db.commit(StreamId(0), vec![db.some_changes(segment, (0, 1), random)], &truth) {
                        Ok(ts) => db.log.wait_durable(ts).unwrap(),
                        Err(e) => {
                            assert!(matches!(e, LogError::DiskFull { stream: 0, .. }), "{e}");
                            return n;
                        }
                    }
                }
                0
            };
            let first = until_full(&mut random);
            assert!(first > 100, "{first}");
            db.checkpoint(false).unwrap();
            let second = until_full(&mut random);
            assert!(second > 100, "{second} after {first}: {:?}", db.void(StreamId(0)));
            db.log.close().unwrap();
            let mut t = truth.lock().clone();
            t.acknowledged = db.log.clock() - 1;
            drop(db);
            Db::open(on_one_disk(64 << 20), &mut t).unwrap();
        });
    }
}

/// Closed on a full disk, a database opens as often as one likes, leaves nothing behind, and takes commits as
/// long as its last log file has room; then they are refused until there is room again.
#[test]
fn a_database_closed_on_a_full_disk_opens_and_goes_on() {
    const SIZE: u64 = 700 << 10;
    let mut world = sim::World::new(9, sim::Config { disk_bytes: SIZE, ..sim::Config::default() });
    let truth = Arc::new(Mutex::new(Truth::default()));
    // Opens, compares, does it, closes; gives what the opening said.
    fn life<R: Send + 'static>(
        world: &Arc<sim::World>,
        truth: &Arc<Mutex<Truth>>,
        act: impl FnOnce(&Db, &mut Random, &Mutex<Truth>, u64) -> R + Send + 'static,
    ) -> R {
        let (w, truth) = (world.clone(), truth.clone());
        world.run(move || {
            let mut t = truth.lock().clone();
            let (db, found) = Db::open(config(&w, 1), &mut t).unwrap();
            assert_eq!(found.warnings.len() as u64, found.continued, "{:?}", found.warnings);
            *truth.lock() = t;
            let done = act(&db, &mut Random(found.clock), &truth, found.continued);
            db.log.close().unwrap();
            truth.lock().acknowledged = db.log.clock() - 1;
            done
        })
    }
    fn commit_until_full(db: &Db, random: &mut Random, truth: &Mutex<Truth>) -> u64 {
        let segment = *db.memory.state.lock().segments.keys().next().unwrap();
        let mut n = 0;
        loop {
            let clock = db.log.clock();
            match db.commit(StreamId(0), vec![db.some_changes(segment, (0, 1), random)], truth) {
                Ok(ts) => db.log.wait_durable(ts).unwrap(),
                Err(e) => {
                    assert!(matches!(e, LogError::DiskFull { stream: 0, .. }), "{e}");
                    assert_eq!(db.log.clock(), clock, "a timestamp was taken");
                    return n;
                }
            }
            n += 1;
        }
    }
    let committed = life(&world, &truth, |db, random, truth, continued| {
        assert_eq!(continued, 0);
        db.create_segment(1, random).unwrap().unwrap();
        commit_until_full(db, random, truth)
    });
    assert!(committed > 50, "{committed}");
    let next = |world: &mut Arc<sim::World>, seed: u64, disk_bytes: u64| {
        *world = world.reboot_with(seed, sim::Config { disk_bytes, ..sim::Config::default() })
    };
    // What is left is taken by others.
    let used = world.fullest_disk();
    let mut left = None;
    for seed in 0..4 {
        next(&mut world, seed, used);
        assert_eq!(life(&world, &truth, |_, _, _, continued| continued), 1);
        let files = world.disk("data").files();
        assert_eq!(*left.get_or_insert(files.clone()), files, "something was left behind");
    }
    // Small ones may still fit; then none does, and the database opens as before.
    for seed in 4..7 {
        next(&mut world, seed, used);
        life(&world, &truth, |db, random, truth, continued| {
            assert_eq!(continued, 1);
            commit_until_full(db, random, truth)
        });
    }
    // Room for a checkpoint, not for a log file: it is published, and frees the log.
    let now = world.fullest_disk();
    next(&mut world, 7, now + (100 << 10));
    life(&world, &truth, |db, _, _, continued| {
        assert_eq!(continued, 1);
        db.checkpoint(false).unwrap();
    });
    next(&mut world, 8, used);
    let more = life(&world, &truth, |db, random, truth, _| commit_until_full(db, random, truth));
    assert!(more > 20, "{more}");
    // And room for everything.
    next(&mut world, 9, 4 * SIZE);
    life(&world, &truth, |db, random, truth, continued| {
        assert_eq!(continued, 0);
        let segment = *db.memory.state.lock().segments.keys().next().unwrap();
        for _ in 0..100 {
            db.commit(StreamId(0), vec![db.some_changes(segment, (0, 1), random)], truth).unwrap();
        }
    });
    next(&mut world, 10, 4 * SIZE);
    life(&world, &truth, |_, _, _, _| ());
}

/// Lack of space refuses commits before they take a timestamp, and ends by itself when space returns.
#[test]
fn a_full_disk_refuses_commits_until_there_is_space() {
    let world = sim::World::new(9, sim::Config { disk_bytes: 700 << 10, ..sim::Config::default() });
    let w = world.clone();
    world.run(move || {
        let truth = Mutex::new(Truth::default());
        let (db, _) = Db::open(config(&w, 1), &mut truth.lock()).unwrap();
        let mut random = Random(3);
        let segment = db.create_segment(1, &mut random).unwrap().unwrap();
        let mut full = None;
        for _ in 0..20000 {
            let clock = db.log.clock();
            match db.commit(StreamId(0), vec![db.some_changes(segment, (0, 1), &mut random)], &truth) {
                Ok(ts) if random.chance(30) => db.log.wait_durable(ts).unwrap(),
                Ok(_) => {}
                Err(e) => {
                    assert!(matches!(e, LogError::DiskFull { stream: 0, .. }), "{e}");
                    assert_eq!(db.log.clock(), clock, "a timestamp was taken");
                    full = Some(e);
                    break;
                }
            }
        }
        assert!(full.is_some(), "the disk never became full");
        // What was committed is durable all the same.
        db.log.flush().unwrap();
        // A checkpoint gives log files back.
        let mut again = false;
        for _ in 0..50 {
            let _ = db.checkpoint(false);
            thread::sleep(std::time::Duration::from_millis(60));
            if db.commit(StreamId(0), vec![db.some_changes(segment, (0, 1), &mut random)], &truth).is_ok() {
                again = true;
                break;
            }
        }
        assert!(again, "commits did not come back");
        db.log.close().unwrap();
        let mut t = truth.lock().clone();
        t.acknowledged = db.log.clock() - 1;
        drop(db);
        Db::open(config(&w, 1), &mut t).unwrap();
    });
}
