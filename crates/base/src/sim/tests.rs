//! The world as a whole: the same seed gives the same run; locks exclude; failures are told apart; the disks
//! keep media/M1 to media/M5 and no more, and lying ones are caught.
use super::*;
use crate::media::{Open, Promise, Storage};
use crate::sync::{Condvar, Latch, Mutex, RwLock, spin_wait, yield_point};
use crate::{clock, random, thread};
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn world(seed: u64) -> Arc<World> {
    World::new(seed, Config::default())
}
fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A bit of everything.
fn bustle(disk: &SimStorage) -> u64 {
    let sum = Arc::new((Mutex::new(0u64), Condvar::new()));
    let file = disk.open("f", Open::OpenOrCreate).unwrap();
    let fibers: Vec<_> = (0..4u64)
        .map(|i| {
            let (sum, file) = (sum.clone(), file.clone());
            thread::spawn("worker", move || {
                for n in 0..5 {
                    thread::sleep(Duration::from_micros(random::next_u64() % 50));
                    file.write_at(&[(i + n) as u8; 700], random::next_u64() % 9000).unwrap();
                    *sum.0.lock() += clock::now().as_nanos() as u64 % 7;
                    sum.1.notify_one();
                    if n % 2 == 0 {
                        file.sync_data().unwrap()
                    }
                }
            })
            .unwrap()
        })
        .collect();
    let mut g = sum.0.lock();
    while *g < 3 {
        g = sum.1.wait_timeout(g, ms(1)).0
    }
    drop(g);
    fibers.into_iter().for_each(|f| f.join().unwrap());
    *sum.0.lock()
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let live = |seed: u64, config: Config| {
        let w = World::new(seed, config);
        w.trace(true);
        let disk = w.disk("d");
        let sum = w.run(|| bustle(&disk));
        w.power_failure();
        (w.trace_hash(), w.take_trace(), sum, w.steps(), disk.contents("f"))
    };
    let mut hashes = BTreeSet::new();
    for seed in 0..20 {
        let first = live(seed, Config::default());
        assert!(first.1.iter().any(|l| l.contains("Sync d:f")), "{:?}", first.1);
        // Again, on another OS thread, while this one is in the same world.
        let other = std::thread::spawn(move || live(seed, Config::default()));
        assert_eq!(live(seed, Config::default()), first);
        assert_eq!(other.join().unwrap(), first);
        hashes.insert(first.0);
        // Arming a failure changes nothing before it.
        let armed = World::new(seed, Config::default());
        armed.trace(true);
        armed.arm_power_failure(25);
        let disk = armed.disk("d");
        let _ = armed.try_run(|| bustle(&disk));
        let trace = armed.take_trace();
        let same = trace.iter().zip(&first.1).take_while(|(a, b)| a == b).count();
        assert!(
            trace[same].contains("power failure") || trace[same].contains("power lost"),
            "{}",
            trace[same]
        );
        assert!(armed.power_is_lost() && armed.io_ops() <= 26, "{}", armed.io_ops());
    }
    assert_eq!(hashes.len(), 20, "different seeds, different runs");
}

/// Runs `turn` from three fibers, each ten times, and says what the counter came to.
fn count(seed: u64, turn: impl Fn(&AtomicU64) + Send + Sync + 'static) -> u64 {
    world(seed).run(|| {
        let shared = Arc::new((AtomicU64::new(0), turn));
        let fibers: Vec<_> = (0..3)
            .map(|_| {
                let s = shared.clone();
                thread::spawn("counter", move || (0..10).for_each(|_| (s.1)(&s.0))).unwrap()
            })
            .collect();
        fibers.into_iter().for_each(|f| f.join().unwrap());
        shared.0.load(Ordering::Relaxed)
    })
}
fn slow_increment(n: &AtomicU64) {
    let old = n.load(Ordering::Relaxed);
    yield_point();
    n.store(old + 1, Ordering::Relaxed);
}

#[test]
fn locks_exclude_and_their_absence_is_seen() {
    let mut lost = 0;
    for seed in 0..50 {
        let (m, w, l) = (Mutex::new(()), RwLock::new(()), Latch::new());
        assert_eq!(
            count(seed, move |n| {
                let _g = m.lock();
                slow_increment(n)
            }),
            30
        );
        assert_eq!(
            count(seed, move |n| {
                drop(w.read());
                let _g = w.write();
                slow_increment(n)
            }),
            30
        );
        assert_eq!(
            count(seed, move |n| {
                let _g = l.try_acquire().unwrap_or_else(|| l.acquire());
                slow_increment(n)
            }),
            30
        );
        let spin = AtomicBool::new(false);
        assert_eq!(
            count(seed, move |n| {
                for turn in 0.. {
                    if !spin.swap(true, Ordering::Acquire) {
                        break;
                    }
                    spin_wait(turn);
                }
                slow_increment(n);
                spin.store(false, Ordering::Release);
            }),
            30
        );
        lost += (count(seed, slow_increment) < 30) as u32;
    }
    assert!(lost > 25, "{lost} of 50");
}

#[test]
fn readers_share() {
    let together = (0..50).any(|seed| {
        world(seed).run(|| {
            let shared = Arc::new((RwLock::new(()), AtomicU64::new(0), AtomicU64::new(0)));
            let fibers: Vec<_> = (0..3)
                .map(|_| {
                    let s = shared.clone();
                    thread::spawn("reader", move || {
                        let _g = s.0.read();
                        let n = s.1.fetch_add(1, Ordering::Relaxed) + 1;
                        s.2.fetch_max(n, Ordering::Relaxed);
                        yield_point();
                        s.1.fetch_sub(1, Ordering::Relaxed);
                    })
                    .unwrap()
                })
                .collect();
            fibers.into_iter().for_each(|f| f.join().unwrap());
            shared.2.load(Ordering::Relaxed) > 1
        })
    });
    assert!(together);
}

#[test]
fn time_is_simulated() {
    let before = std::time::Instant::now();
    let w = world(3);
    w.run(|| {
        let (start, wall) = (clock::now(), clock::wall_us());
        let order = Arc::new(Mutex::new(vec![]));
        let fibers: Vec<_> = [3000, 1000, 2000]
            .map(|t| {
                let order = order.clone();
                thread::spawn("sleeper", move || {
                    thread::sleep(ms(t * 1000));
                    order.lock().push(t);
                })
                .unwrap()
            })
            .into();
        fibers.into_iter().for_each(|f| f.join().unwrap());
        assert_eq!(*order.lock(), [1000, 2000, 3000]);
        let passed = clock::now() - start;
        assert!((3000..3001).contains(&passed.as_secs()), "{passed:?}");
        assert!((3_000_000_000..3_001_000_000).contains(&(clock::wall_us() - wall)));
        // One that spins does not hold the sleeper up, nor does one that watches the clock.
        let flag = Arc::new(AtomicBool::new(false));
        let f = flag.clone();
        let sleeper = thread::spawn("sleeper", move || {
            thread::sleep(ms(10_000));
            f.store(true, Ordering::Relaxed)
        })
        .unwrap();
        // Few turns are no long wait (sim/schedule/F6).
        let start = clock::now();
        let mut n = 0;
        while !flag.load(Ordering::Relaxed) {
            spin_wait(n);
            n += 1;
            assert!(n > 100 || clock::now() - start < ms(1000), "{n} turns");
        }
        assert!(n < 1100, "{n} turns");
        sleeper.join().unwrap();
        let end = clock::now() + Duration::from_micros(10);
        while clock::now() < end {}
        let (m, c) = (Mutex::new(()), Condvar::new());
        let start = clock::now();
        let mut g = m.lock();
        loop {
            let (next, timed_out) = c.wait_timeout(g, ms(500));
            g = next;
            if timed_out {
                break;
            }
        }
        drop(g);
        assert!(clock::now() - start >= ms(500));
        assert_eq!(thread::parallelism(), 4);
    });
    assert!(before.elapsed().as_secs() < 10, "nobody waits for simulated seconds");
}

#[test]
fn waits_end_by_notification_and_sometimes_without() {
    let mut spurious = 0;
    for seed in 0..100 {
        spurious += world(seed).run(|| {
            let s = Arc::new((Mutex::new(0u32), Condvar::new(), AtomicU64::new(0)));
            let fibers: Vec<_> = (0..3)
                .map(|_| {
                    let s = s.clone();
                    thread::spawn("waiter", move || {
                        let mut g = s.0.lock();
                        while *g == 0 {
                            g = s.1.wait(g);
                            s.2.fetch_add((*g == 0) as u64, Ordering::Relaxed);
                        }
                        *g -= 1;
                    })
                    .unwrap()
                })
                .collect();
            for _ in 0..3 {
                yield_point();
                *s.0.lock() += 1;
                s.1.notify_one();
            }
            fibers.into_iter().for_each(|f| f.join().unwrap());
            s.2.load(Ordering::Relaxed)
        });
    }
    assert!(spurious > 0);
}

#[test]
fn failures_of_a_world_are_told_apart() {
    let w = world(0x5EED);
    let (ended, e) = (Arc::new(AtomicBool::new(false)), ());
    let there = ended.clone();
    let disk = w.disk("d");
    let failure = w
        .try_run(move || {
            let d = disk.clone();
            // This one ends by itself once I/O fails.
            let other = thread::spawn("other", move || {
                while d.exists("x").is_ok() {}
                there.store(true, Ordering::Relaxed);
            });
            thread::spawn("culprit", || panic!("number {}", 42)).unwrap().join().unwrap_err();
            other.unwrap().join().unwrap();
            e
        })
        .unwrap_err();
    assert_eq!(failure.why, Why::Panic);
    let text = failure.to_string();
    assert!(text.contains("0x5eed") && text.contains("culprit") && text.contains("number 42"), "{text}");
    assert!(ended.load(Ordering::Relaxed));

    let failure = world(1)
        .try_run(|| {
            let (a, b) = (Arc::new(Mutex::new(())), Arc::new(Mutex::new(())));
            let _a = a.lock();
            let (a, b2) = (a.clone(), b.clone());
            thread::spawn("other", move || {
                let _b = b2.lock();
                let _a = a.lock();
            })
            .unwrap();
            thread::sleep(ms(1));
            let _b = b.lock();
        })
        .unwrap_err();
    assert_eq!(failure.why, Why::Deadlock);
    assert_eq!(failure.message.matches("waits for a mutex lock").count(), 2, "{failure}");
    assert!(failure.message.contains("other") && failure.message.contains("tests.rs:"), "{failure}");

    let failure = World::new(1, Config { step_limit: 1000, ..Config::default() })
        .try_run(|| {
            let _p = phase("trying");
            loop {
                spin_wait(0)
            }
        })
        .map(|_: ()| ())
        .unwrap_err();
    assert_eq!(failure.why, Why::Hang);
    assert!(failure.message.contains("spinning") && failure.message.contains("trying"), "{failure}");

    // A notification that nobody waited for yet, without a predicate: lost in some schedules.
    let lost = (0..100).filter(|seed| {
        let failure = World::new(*seed, Config { spurious_wakes: 0.0, ..Config::default() }).try_run(|| {
            let s = Arc::new((Mutex::new(()), Condvar::new()));
            let t = s.clone();
            let f = thread::spawn("waiter", move || drop(t.1.wait(t.0.lock()))).unwrap();
            s.1.notify_one();
            f.join().unwrap();
        });
        failure.is_err_and(|f| f.why == Why::Deadlock)
    });
    assert!((1..100).contains(&lost.count()));
}

#[test]
fn a_fiber_that_unwinds_may_wait_for_others() {
    struct Joins(Option<thread::JoinHandle<()>>, Arc<AtomicBool>);
    impl Drop for Joins {
        fn drop(&mut self) {
            self.1.store(true, Ordering::Relaxed);
            let _ = self.0.take().map(thread::JoinHandle::join);
        }
    }
    for seed in 0..20 {
        let ended = Arc::new(AtomicBool::new(false));
        let failure = world(seed).try_run(|| {
            let (stop, ended) = (Arc::new(AtomicBool::new(false)), ended.clone());
            let s = stop.clone();
            let other = thread::spawn("background", move || {
                while !s.load(Ordering::Relaxed) {
                    thread::sleep(ms(1))
                }
                ended.store(true, Ordering::Relaxed)
            });
            let _joins = Joins(other.ok(), stop);
            panic!("on purpose")
        });
        assert!(failure.is_err_and(|f: Failure| f.message.contains("on purpose")));
        assert!(ended.load(Ordering::Relaxed), "the background fiber ended in order");
    }
}

/// Appends numbered records, each synced before it counts as acknowledged; gives the count.
fn journal(disk: &SimStorage, acked: &AtomicU64, records: u64) -> io::Result<()> {
    disk.create_dir("log")?;
    disk.sync_dir("")?;
    let file = disk.open("log/new", Open::Create)?;
    file.write_at(&[0; 64 * 1024], 0)?;
    file.sync_data()?;
    disk.rename("log/new", "log/journal")?;
    disk.sync_dir("log")?;
    for n in 1..=records {
        let _p = phase("append");
        file.write_at(&n.to_le_bytes().repeat(75), (n - 1) * 600)?;
        file.sync_data()?;
        acked.store(n, Ordering::Relaxed);
    }
    Ok(())
}
/// The length of the run of whole records.
fn recovered(disk: &SimStorage) -> u64 {
    let Some(bytes) = disk.contents("log/journal") else { return 0 };
    let whole = |n: u64| {
        let at = (n - 1) as usize * 600;
        bytes.get(at..at + 600).is_some_and(|r| r == n.to_le_bytes().repeat(75))
    };
    (1..).take_while(|n| whole(*n)).count() as u64
}
/// Lives that end by a power failure: how many lost what was acknowledged, and how many kept more than that.
fn journals(config: &Config, lives: u64) -> (u64, u64) {
    let (mut lost, mut more) = (0, 0);
    for seed in 0..lives {
        let w = World::new(seed, config.clone());
        w.arm_power_failure(seed % 57);
        let (disk, acked) = (w.disk("d"), AtomicU64::new(0));
        let end = w.run(|| journal(&disk, &acked, 25));
        assert!(w.power_is_lost(), "{end:?}");
        assert_eq!(end.unwrap_err().to_string(), "power lost");
        let next = w.reboot(seed + 1);
        let (acked, left) = (acked.into_inner(), recovered(&next.disk("d")));
        lost += (left < acked) as u64;
        more += (left > acked) as u64;
    }
    (lost, more)
}

#[test]
fn m1_m2_what_is_synced_is_never_lost_and_liars_are_caught() {
    let (lost, more) = journals(&Config::default(), 1200);
    assert_eq!(lost, 0);
    assert!(more > 50, "an append whose sync was struck survives at times: {more}");
    let (lost, _) = journals(&Config { ignore_sync_data: true, ..Config::default() }, 300);
    assert!(lost > 50, "{lost}");
    let (lost, _) = journals(&Config { ignore_sync_dir: true, ..Config::default() }, 300);
    assert!(lost > 50, "{lost}");
}

#[test]
fn m2_names_without_a_sync_survive_or_not() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let w = world(seed);
        let d = w.disk("d");
        w.run(|| -> io::Result<()> {
            d.open("kept", Open::Create)?;
            d.open("old", Open::Create)?.write_at(b"old", 0)?;
            d.open("old", Open::Write)?.sync_data()?;
            d.sync_dir("")?;
            d.open("new", Open::Create)?.write_at(b"new", 0)?;
            d.open("new", Open::Write)?.sync_data()?;
            d.rename("new", "old")?;
            d.remove("kept")
        })
        .unwrap();
        w.power_failure();
        let next = w.reboot(seed);
        let d = next.disk("d");
        let old = d.contents("old").unwrap();
        assert!(old == b"old" || old == b"new", "{old:?}");
        seen.insert((d.files().join(" "), old));
    }
    let of = |name: &str, old: &str| seen.contains(&(name.to_string(), old.as_bytes().to_vec()));
    assert!(
        of("kept old", "old") && of("old", "new") && of("kept new old", "old") && of("old", "old"),
        "{seen:?}"
    );
}

#[test]
fn m3_any_subset_of_unsynced_sectors_survives() {
    let mut subsets = BTreeSet::new();
    let (mut all, mut none) = (0, 0);
    for seed in 0..400 {
        let w = world(seed);
        let d = w.disk("d");
        w.run(|| {
            let f = d.open("f", Open::Create).unwrap();
            f.write_at(&[1; 4096], 0).unwrap();
            f.sync_data().unwrap();
            d.sync_dir("").unwrap();
            // Torn at sectors, though written by one call that crosses them.
            f.write_at(&[2; 2048], 1000).unwrap();
        });
        w.power_failure();
        let bytes = w.reboot(0).disk("d").contents("f").unwrap();
        assert_eq!(
            (&bytes[..1000], &bytes[3048..]),
            (&[1; 1000][..], &[1; 1048][..]),
            "what was not written"
        );
        let parts = [1000..1024, 1024..1536, 1536..2048, 2048..2560, 2560..3048];
        let survived: Vec<bool> = parts
            .map(|p| {
                let part = &bytes[p];
                assert!(part.iter().all(|b| *b == part[0]), "torn within a sector");
                part[0] == 2
            })
            .into();
        all += survived.iter().all(|s| *s) as u32;
        none += survived.iter().all(|s| !*s) as u32;
        subsets.insert(survived);
    }
    assert!(subsets.len() > 24, "{} of 32 subsets", subsets.len());
    assert!(all > 40 && none > 40, "{all} {none}");
}

#[test]
fn m4_a_failed_sync_loses_bytes_and_later_ones_say_nothing() {
    let (mut failed, mut lost, mut believed) = (0, 0, 0);
    for seed in 0..300 {
        let w = World::new(seed, Config { sync_error: 0.2, ..Config::default() });
        let d = w.disk("d");
        let (first, retried) = w.run(|| {
            let f = d.open("f", Open::Create).unwrap();
            while d.sync_dir("").is_err() {}
            f.write_at(&[7; 512], 0).unwrap();
            let first = f.sync_data();
            if let Err(e) = &first {
                assert!(e.to_string().contains("injected") && e.to_string().contains("d:f"), "{e}");
            }
            (first.is_ok(), first.is_ok() || (0..20).any(|_| f.sync_data().is_ok()))
        });
        assert!(retried);
        assert_eq!(d.contents("f").unwrap(), [7; 512], "still to be read");
        w.power_failure();
        let there = w.reboot(1).disk("d").contents("f").unwrap() == [7; 512];
        assert!(there || !first);
        failed += !first as u32;
        lost += !there as u32;
        believed += (there && !first) as u32;
    }
    assert!(failed > 30 && lost > 10 && believed > 10, "{failed} {lost} {believed}");
}

#[test]
fn m5_mapped_memory() {
    let (mut lost, mut kept, mut torn) = (0, 0, 0);
    for seed in 0..300 {
        let run = |config: Config| {
            let w = World::new(seed, config);
            let d = w.disk("d");
            w.run(|| {
                let f = d.open("f", Open::Create).unwrap();
                f.set_len(8192).unwrap();
                f.sync_data().unwrap();
                d.sync_dir("").unwrap();
                let m = f.map(8192).unwrap();
                m.copy(64, &[1; 128]);
                m.fence();
                m.copy(4096, &[2; 256]);
                let mut seen = [0; 256];
                m.read(4096, &mut seen);
                assert_eq!(seen, [2; 256]);
            });
            w.power_failure();
            w.reboot(0).disk("d").contents("f").unwrap()
        };
        let bytes = run(Config::default());
        assert_eq!(bytes[64..192], [1; 128], "fenced");
        let words: Vec<&[u8]> = bytes[4096..4352].chunks(8).collect();
        assert!(words.iter().all(|w| *w == [2; 8] || *w == [0; 8]), "a torn word");
        let n = words.iter().filter(|w| w[0] == 2).count();
        lost += (n < 32) as u32;
        kept += (n == 32) as u32;
        torn += bytes[4096..4352].chunks(64).any(|l| l.contains(&0) && l.contains(&2)) as u32;
        // Where the promise is only a sync's, or a liar's, the fence is not enough.
        for config in [
            Config { mapped: Some(Promise::Sync), ..Config::default() },
            Config { ignore_fence: true, ..Config::default() },
        ] {
            lost += (run(config)[64..192] != [1; 128]) as u32 * 10_000;
        }
    }
    assert!(lost % 10_000 > 50 && kept > 50 && torn > 50, "{lost} {kept} {torn}");
    assert!(lost / 10_000 > 100, "{lost}");
}

#[test]
fn m5_a_sync_covers_mapped_memory_and_a_fence_only_its_own_fiber() {
    let mut lost = 0;
    for seed in 0..100 {
        let w = world(seed);
        let d = w.disk("d");
        w.run(|| {
            let f = d.open("f", Open::Create).unwrap();
            f.set_len(4096).unwrap();
            let m: Arc<dyn crate::media::Mapped> = f.map(4096).unwrap().into();
            m.copy(0, &[1; 64]);
            f.sync_data().unwrap();
            d.sync_dir("").unwrap();
            let theirs = m.clone();
            thread::spawn("copier", move || theirs.copy(64, &[2; 64])).unwrap().join().unwrap();
            m.copy(128, &[3; 64]);
            m.flush(128, 64);
            m.fence();
        });
        w.power_failure();
        let bytes = w.reboot(0).disk("d").contents("f").unwrap();
        assert_eq!((&bytes[..64], &bytes[128..192]), (&[1; 64][..], &[3; 64][..]));
        lost += (bytes[64..128] != [2; 64]) as u32;
    }
    assert!(lost > 20, "{lost}");
    let w = World::new(0, Config { mapped: None, ..Config::default() });
    let d = w.disk("d");
    let kind = w.run(|| d.open("f", Open::Create).unwrap().map(0).err().unwrap().kind());
    assert_eq!(kind, io::ErrorKind::Unsupported);
}

#[test]
fn a_sync_does_not_cover_writes_that_come_while_it_is_under_way() {
    let mut lost = 0;
    for seed in 0..100 {
        let w = world(seed);
        let d = w.disk("d");
        w.run(|| {
            let f = d.open("f", Open::Create).unwrap();
            f.write_at(&[1; 1024], 0).unwrap();
            f.sync_data().unwrap();
            d.sync_dir("").unwrap();
            let g = f.clone();
            let other = thread::spawn("syncer", move || g.sync_data().unwrap()).unwrap();
            thread::sleep(Duration::from_micros(15)); // Less than any sync takes.
            f.write_at(&[2; 512], 0).unwrap();
            other.join().unwrap();
        });
        w.power_failure();
        lost += (w.reboot(0).disk("d").contents("f").unwrap()[0] == 1) as u32;
    }
    assert!(lost > 30, "{lost}");
}

#[test]
fn power_failures_strike_everywhere_and_are_reported() {
    let (mut phases, mut in_midst) = (BTreeSet::new(), 0);
    for seed in 0..300 {
        let w = World::new(seed, Config { power_failure: 0.02, ..Config::default() });
        let (d, acked) = (w.disk("d"), Arc::new(AtomicU64::new(0)));
        let (d2, a) = (d.clone(), acked.clone());
        let end = w.run(move || {
            let other = thread::spawn("background", || {
                let _p = phase("background");
                thread::sleep(ms(2));
            });
            let end = journal(&d2, &a, 20);
            other.unwrap().join().unwrap();
            end
        });
        let marks = w.marks();
        assert!(
            marks["background"] == 1
                && marks.get("append").copied().unwrap_or(0) >= acked.load(Ordering::Relaxed)
        );
        if !w.power_is_lost() {
            end.unwrap();
            assert!(w.phases_at_failure().is_empty());
            continue;
        }
        phases.insert(w.phases_at_failure());
        let n = acked.load(Ordering::Relaxed);
        let left = recovered(&w.reboot(seed).disk("d"));
        assert!(left >= n);
        in_midst += (left > n) as u32;
    }
    assert!(phases.contains(&vec!["append", "background"]) && phases.contains(&vec!["append"]), "{phases:?}");
    assert!(in_midst > 10, "{in_midst}");
    mark("outside a world: nothing");
    drop(phase("outside a world: nothing"));
}

#[test]
fn a_power_failure_can_be_had_in_a_phase() {
    for steps in 0..8 {
        let w = World::new(steps, Config::default());
        w.arm_power_failure_in("append", steps);
        let (d, acked) = (w.disk("d"), Arc::new(AtomicU64::new(0)));
        let a = acked.clone();
        assert!(w.run(move || journal(&d, &a, 20)).is_err());
        assert!(w.power_is_lost() && w.phases_at_failure() == ["append"]);
        assert!(recovered(&w.reboot(steps).disk("d")) >= acked.load(Ordering::Relaxed));
    }
}

#[test]
fn a_process_failure_keeps_everything_and_a_fork_leaves_the_original() {
    let w = world(5);
    let d = w.disk("d");
    let lock = w.run(|| {
        d.open("f", Open::Create).unwrap().write_at(b"unsynced", 0).unwrap();
        let lock = d.lock("LOCK").unwrap();
        assert_eq!(d.lock("LOCK").err().unwrap().kind(), io::ErrorKind::WouldBlock);
        lock
    });
    let fork = w.fork(6, Config::default());
    fork.disk("d").damage("f", 2, b"XX");
    assert_eq!(fork.disk("d").contents("f").unwrap(), b"unXXnced");
    assert_eq!(fork.run(|| fork.disk("d").list("").unwrap()), ["LOCK", "f"]);
    fork.power_failure();
    assert_eq!(d.contents("f").unwrap(), b"unsynced");
    assert!(w.fork(7, Config::default()).disk("d").durable("f").is_none());
    w.process_failure();
    assert!(d.exists("f").is_err());
    let next = w.reboot(8);
    drop(lock);
    let d = next.disk("d");
    assert_eq!(d.contents("f").unwrap(), b"unsynced");
    next.run(|| {
        drop(d.lock("LOCK").unwrap());
        let _again = d.lock("LOCK").unwrap();
        d.open("f", Open::Write).unwrap().sync_data().unwrap();
        d.sync_dir("").unwrap();
        assert!(clock::wall_us() > w.config().wall_us + 1_000_000, "time goes on");
    });
    assert_eq!(d.durable("f").unwrap(), b"unsynced");
    assert_eq!(next.disk("other").files(), [""; 0]);
}

#[test]
fn faults() {
    let w = World::new(1, Config { disk_bytes: 10_000, ..Config::default() });
    let d = w.disk("d");
    w.run(|| {
        let f = d.open("f", Open::Create).unwrap();
        f.write_at(&[1; 6000], 0).unwrap();
        f.write_at(&[2; 6000], 0).unwrap(); // Nothing grows.
        let g = d.open("g", Open::Create).unwrap();
        let e = g.write_at(&[1; 6000], 0).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::StorageFull);
        assert!(e.to_string().contains("d:g"), "{e}");
        assert_eq!(g.set_len(4001).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(d.used(), 6000);
        drop(f);
        d.remove("f").unwrap();
        assert_eq!(d.used(), 6000, "until the removal is durable the bytes are there");
        d.sync_dir("").unwrap();
        assert_eq!(d.used(), 0);
        g.set_len(10_000).unwrap();
    });
    let w = World::new(2, Config { read_error: 0.3, write_error: 0.3, ..Config::default() });
    let d = w.disk("d");
    let (reads, writes) = w.run(|| {
        let f = d.open("f", Open::Create).unwrap();
        let mut counts = (0, 0);
        for _ in 0..200 {
            counts.1 += f.write_at(&[1; 100], 0).is_err() as u32;
            counts.0 += f.read_at(&mut [0; 10], 0).is_err() as u32;
        }
        counts
    });
    assert!((30..90).contains(&reads) && (30..90).contains(&writes), "{reads} {writes}");
    assert_eq!((w.io_count(IoKind::Read), w.io_count(IoKind::Write), w.io_ops()), (200, 200, 401));
}

#[test]
fn names_behave_as_on_the_disk() {
    let w = world(1);
    let sim = w.disk("d");
    let dir = tempfile::tempdir().unwrap();
    let disk = crate::media::disk::Disk::open(dir.path()).unwrap();
    let both: [&dyn Storage; 2] = [&*sim, &disk];
    let mut r = Random::new(1);
    let names = ["a", "b", "x", "x/a", "x/b", "x/y", "x/y/c", "z", "z/", "", "..", "q/r"];
    for step in 0..3000 {
        let (op, p, q) = (r.below(9), *r.pick(&names).unwrap(), *r.pick(&names).unwrap());
        // How the operating system says no to the root, and to names below a file, is its own affair.
        if matches!(op, 3 | 4) && (p.is_empty() || q.is_empty()) {
            continue;
        }
        let [a, b] = both.map(|s| match op {
            0 => s.open(p, Open::Create).map(|_| 0),
            1 => s.open(p, Open::Read).and_then(|f| f.len()),
            2 => s.create_dir(p).map(|_| 0),
            3 => s.rename(p, q).map(|_| 0),
            4 => s.remove(p).map(|_| 0),
            5 => s.exists(p).map(|e| e as u64),
            6 => s.open(p, Open::OpenOrCreate).and_then(|f| f.write_at(&[1; 9], 3)).map(|_| 0),
            7 => s.open(p, Open::Write).and_then(|f| f.set_len(5)).map(|_| 0),
            _ => s.sync_dir(p).map(|_| 0),
        });
        let kind = |r: &io::Result<u64>| r.as_ref().map(|n| *n).map_err(|e| e.kind());
        if kind(&a) != kind(&b) {
            let both_fail = a.is_err() && b.is_err();
            assert!(both_fail, "step {step}: {op} {p} {q}: {a:?} and {b:?}");
        }
        for folder in ["", "x", "x/y", "z", "a"] {
            assert_eq!(both[0].list(folder).ok(), both[1].list(folder).ok(), "step {step}: {op} {p} {q}");
        }
    }
    assert!(w.io_count(IoKind::Name) > 500);
}

#[test]
fn many_small_lives() {
    for seed in 0..400 {
        let w = World::new(seed, Config::default());
        let d = w.disk("d");
        w.arm_power_failure(seed % 40);
        w.run(|| {
            let fiber = |n: u64| {
                let d = d.clone();
                thread::spawn("writer", move || -> io::Result<()> {
                    let f = d.open(&format!("log{n}"), Open::Create)?;
                    f.write_at(&vec![0; 1 << 20], 0)?;
                    f.sync_data()?;
                    d.sync_dir("")?;
                    for i in 0..20u64 {
                        f.write_at(&i.to_le_bytes().repeat(64), i * 512)?;
                        f.sync_data()?;
                    }
                    Ok(())
                })
            };
            let fibers: Vec<_> = (0..3).map(|n| fiber(n).unwrap()).collect();
            fibers.into_iter().for_each(|f| drop(f.join().unwrap()));
        });
        let next = w.reboot(seed);
        for path in next.disk("d").files() {
            let bytes = next.disk("d").contents(&path).unwrap();
            for (i, sector) in bytes.chunks(512).enumerate() {
                let is = |n: u64| sector == &n.to_le_bytes().repeat(64)[..sector.len()];
                assert!(is(0) || is(i as u64), "{path} sector {i}");
            }
        }
    }
}

#[test]
fn a_workers_fibers_run_in_turns_in_any_order() {
    use crate::park::{Parker, guards_held};
    let mut orders = BTreeSet::new();
    for seed in 0..200 {
        let (order, between) = world(seed).run(|| {
            assert!(!crate::fiber::is_fiber());
            let worker = Worker::new().unwrap();
            let parkers: Arc<Vec<Parker>> = Arc::new((0..4).map(|_| Parker::new()).collect());
            let (order, inside) = (Arc::new(Mutex::new(vec![])), Arc::new(AtomicU64::new(0)));
            let between = Arc::new(AtomicU64::new(0));
            let fibers: Vec<_> = (0..4)
                .map(|i| {
                    let (parkers, order, inside) = (parkers.clone(), order.clone(), inside.clone());
                    let between = between.clone();
                    let fiber = move || {
                        assert!(crate::fiber::is_fiber());
                        for _ in 0..3 {
                            // No other fiber of the worker runs between two parks, whatever gives way there.
                            assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                            (0..3).for_each(|_| yield_point());
                            thread::sleep(Duration::from_micros(10));
                            spin_wait(0);
                            order.lock().push(i);
                            between.fetch_add(1, Ordering::Relaxed);
                            assert_eq!(inside.fetch_sub(1, Ordering::Relaxed), 1);
                            let end = clock::now() + Duration::from_micros(50);
                            while parkers[i].park(Some(end)) {}
                            assert_eq!(guards_held(), 0);
                        }
                    };
                    worker.spawn("fiber", fiber).unwrap()
                })
                .collect();
            // Threads do run meanwhile.
            let mut seen = BTreeSet::new();
            while !fibers.iter().all(|f| f.is_finished()) {
                seen.insert(between.load(Ordering::Relaxed));
                parkers[seed as usize % 4].unpark();
                thread::sleep(Duration::from_micros(5))
            }
            fibers.into_iter().for_each(|f| f.join().unwrap());
            let order = std::mem::take(&mut *order.lock());
            (order, seen.len())
        });
        assert!(order.len() == 12 && between > 4, "{order:?} {between}");
        orders.insert(order);
    }
    assert!(orders.len() > 100, "{} orders", orders.len());
    assert!(world(1).run(Worker::new).is_some() && Worker::new().is_none());
}

/// What outside would block a worker's thread is a hang here, though each is a fiber of its own.
#[test]
fn a_wait_that_keeps_its_workers_thread_is_a_hang() {
    use crate::park::Parker;
    let meet = |seed: u64, one_worker: bool, wait: fn(&Parker, &AtomicBool)| {
        let world = World::new(seed, Config { step_limit: 100_000, ..Config::default() });
        world.try_run(move || {
            let first = Worker::new().unwrap();
            let second = if one_worker { first } else { Worker::new().unwrap() };
            let met = Arc::new((Parker::new(), AtomicBool::new(false)));
            let m = met.clone();
            let waits = first.spawn("waits", move || wait(&m.0, &m.1)).unwrap();
            thread::sleep(Duration::from_micros(seed));
            let tells = second.spawn("tells", move || {
                met.1.store(true, Ordering::Relaxed);
                met.0.unpark()
            });
            tells.unwrap().join().unwrap();
            waits.join().unwrap()
        })
    };
    for seed in 0..20 {
        let gives_way: fn(&Parker, &AtomicBool) = |p, told| {
            while !told.load(Ordering::Relaxed) {
                p.park(None);
            }
        };
        let keeps: fn(&Parker, &AtomicBool) = |p, told| {
            while !told.load(Ordering::Relaxed) {
                p.block(None);
            }
        };
        let spins: fn(&Parker, &AtomicBool) = |_, told| {
            while !told.load(Ordering::Relaxed) {
                spin_wait(20)
            }
        };
        for wait in [gives_way, keeps, spins] {
            meet(seed, false, wait).unwrap()
        }
        meet(seed, true, gives_way).unwrap();
        // By the seed the second runs before the first, which then has nothing to wait for.
        let hung = |wait, why| match meet(seed, true, wait) {
            Ok(()) => assert!(seed < 2, "{seed}"),
            Err(e) => assert!(e.why == why && e.message.contains("waits for its worker's thread"), "{e}"),
        };
        hung(keeps, Why::Deadlock);
        hung(spins, Why::Hang)
    }
}

mod network {
    use super::*;
    use crate::net::{Interest, Poll, TcpListener, TcpStream};
    use std::io::{ErrorKind, Read, Write};

    /// Says again what it hears, by a poll, until all of its clients are gone; what each said.
    fn echo(listener: &TcpListener, clients: usize) -> Vec<Vec<u8>> {
        let poll = Poll::new().unwrap();
        poll.add(listener, 0, Interest::READ).unwrap();
        let mut all: Vec<(TcpStream, Vec<u8>, usize, bool)> = vec![];
        let mut ready = vec![];
        while all.len() < clients || all.iter().any(|c| !c.3) {
            poll.wait(&mut ready, Some(Duration::from_secs(1000))).unwrap();
            for r in &ready {
                if r.key == 0 {
                    while let Ok((stream, _)) = listener.accept() {
                        stream.set_nonblocking(true).unwrap();
                        all.push((stream, vec![], 0, false));
                        poll.add(&all[all.len() - 1].0, all.len() as u64, Interest::READ).unwrap()
                    }
                    continue;
                }
                let (stream, heard, said, is_gone) = &mut all[r.key as usize - 1];
                let mut room = [0; 300];
                match (&mut &*stream).read(&mut room) {
                    Ok(0) => *is_gone = true,
                    Ok(n) => heard.extend_from_slice(&room[..n]),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                    Err(_) => *is_gone = true,
                }
                while *said < heard.len() && !*is_gone {
                    match (&mut &*stream).write(&heard[*said..]) {
                        Ok(n) => *said += n,
                        Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                        Err(_) => *is_gone = true,
                    }
                }
                let write = *said < heard.len();
                if *is_gone {
                    poll.remove(stream).unwrap()
                } else {
                    poll.change(stream, r.key, Interest { read: true, write }).unwrap()
                }
            }
        }
        all.into_iter().map(|c| c.1).collect()
    }

    fn speak(seed: u64, bytes: &[u8]) -> (Vec<u8>, bool) {
        let stream = TcpStream::connect("127.0.0.1:7").unwrap();
        let (mut heard, mut room, mut at) = (vec![], [0; 100], 0);
        let mut r = Random::new(seed);
        while at < bytes.len() {
            let n = 1 + r.below(200.min(bytes.len() as u64 - at as u64)) as usize;
            if (&stream).write_all(&bytes[at..at + n]).is_err() {
                return (heard, false);
            }
            at += n;
            if r.chance(0.5) {
                match (&stream).read(&mut room) {
                    Ok(n) if n > 0 => heard.extend_from_slice(&room[..n]),
                    _ => return (heard, false),
                }
            }
        }
        while heard.len() < bytes.len() {
            match (&stream).read(&mut room) {
                Ok(n) if n > 0 => heard.extend_from_slice(&room[..n]),
                _ => return (heard, false),
            }
        }
        (heard, true)
    }

    fn echoes(lost: f64, seed: u64) -> (u64, usize) {
        let net = Network {
            cut: 0.4,
            room: (1, 2000),
            delay_us: (1, 300),
            lost,
            lost_within: 3000,
            ..Network::default()
        };
        let world = World::new(seed, Config { net, ..Config::default() });
        let whole = world.run(|| {
            let listener = TcpListener::bind("127.0.0.1:7").unwrap();
            assert!(TcpListener::bind("127.0.0.1:7").is_err());
            let server = thread::spawn("server", move || echo(&listener, 3)).unwrap();
            let bytes: Vec<u8> = (0..2000u32).map(|i| ((i * i) >> 3) as u8).collect();
            let clients: Vec<_> = (0..3)
                .map(|n| {
                    let bytes = bytes.clone();
                    thread::spawn("client", move || speak(seed ^ n, &bytes)).unwrap()
                })
                .collect();
            let mut whole = 0;
            for c in clients {
                let (heard, all) = c.join().unwrap();
                assert!(bytes.starts_with(&heard));
                whole += usize::from(all)
            }
            for heard in server.join().unwrap() {
                assert!(bytes.starts_with(&heard))
            }
            whole
        });
        (world.trace_hash(), whole)
    }

    #[test]
    fn bytes_come_in_their_order() {
        for seed in 0..60 {
            assert_eq!(echoes(0.0, seed).1, 3)
        }
        assert_eq!(echoes(0.0, 3), echoes(0.0, 3));
        assert_ne!(echoes(0.0, 3).0, echoes(0.0, 4).0)
    }

    #[test]
    fn lost_connections_are_found_out() {
        let whole: usize = (0..60).map(|seed| echoes(0.6, seed).1).sum();
        assert!((20..160).contains(&whole), "{whole} of 180")
    }

    #[test]
    fn the_power_takes_connections_and_what_is_on_the_way() {
        let mut heard_of = [false; 3];
        for seed in 0..60 {
            let net = Network { delay_us: (1, 400), ..Network::default() };
            World::new(seed, Config { net, ..Config::default() }).run(|| {
                let listener = TcpListener::bind("127.0.0.1:7").unwrap();
                let client = TcpStream::connect("127.0.0.1:7").unwrap();
                client.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
                let began = clock::now();
                let nothing = (&client).read(&mut [0]).unwrap_err();
                assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
                assert!(clock::now() >= began + Duration::from_millis(2));
                let (server, _) = listener.accept().unwrap();
                (&server).write_all(&[7; 1000]).unwrap();
                current().unwrap().power_failure();
                assert!((&server).write(&[8]).is_err());
                assert!(TcpStream::connect("127.0.0.1:7").is_err());
                client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                let (mut heard, mut room) = (vec![], [0; 300]);
                while let Ok(n @ 1..) = (&client).read(&mut room) {
                    heard.extend_from_slice(&room[..n])
                }
                assert!(heard.iter().all(|b| *b == 7));
                heard_of[match heard.len() {
                    0 => 0,
                    1000 => 2,
                    _ => 1,
                }] = true
            })
        }
        assert!(heard_of[1], "never a part of it")
    }
}
