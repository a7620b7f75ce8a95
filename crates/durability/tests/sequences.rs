//! Sequences in simulated worlds with power failures (durability/sequence/Q1): what was sent is given
//! out for ever, and what is known after a failure lies on the way that the sequence went.
mod common;
use common::*;
use ondol_base::media::Storage;
use ondol_base::sim::{self, mutated};
use ondol_base::sync::Mutex;
use ondol_base::thread;
use ondol_durability::recovery::Recovered;
use ondol_durability::sequence::{Bounds, Counter, Refused};
use ondol_durability::*;
use std::collections::BTreeMap;
use std::sync::Arc;

fn config(world: &Arc<sim::World>) -> Config {
    let data: Arc<dyn Storage> = world.disk("data");
    let mut c = Config::new(data);
    c.log_file_size = 128 << 10;
    c.buffer_size = 128 << 10;
    c
}

/// By what the sequences go on: up, down, and around.
const BOUNDS: [Bounds; 3] = [
    Bounds { increment: 1, min: 1, max: i64::MAX, cycle: false },
    Bounds { increment: -7, min: i64::MIN, max: 50, cycle: false },
    Bounds { increment: 5, min: -20, max: 43, cycle: true },
];
const FIRST: u64 = 1000;

/// What is known of each sequence from outside.
#[derive(Clone, Default)]
struct Book {
    /// How far values were sent.
    sent: [Given; 3],
    /// Where each generation began: its first steps and value.
    began: [BTreeMap<u64, (u64, i64)>; 3],
}

impl Book {
    fn new() -> Book {
        let mut book = Book::default();
        for (n, b) in BOUNDS.iter().enumerate() {
            book.began[n].insert(0, (0, if b.increment > 0 { b.min } else { b.max }));
        }
        book
    }
    fn begins(&self, n: usize) -> Given {
        Given { generation: 0, steps: 0, value: self.began[n][&0].1 }
    }
    /// The value that the sequence has after so many steps of a generation.
    fn value(&self, n: usize, generation: u64, steps: u64) -> Option<i64> {
        let (from, mut value) = *self.began[n].get(&generation)?;
        // The first step gives the value itself.
        for _ in from.max(1)..steps.max(1) {
            let b = &BOUNDS[n];
            let next = i128::from(value) + i128::from(b.increment);
            value = match next {
                next if next > i128::from(b.max) => b.min,
                next if next < i128::from(b.min) => b.max,
                next => next as i64,
            };
        }
        Some(value)
    }
    /// What recovery found holds all that was sent, and is a place on the way.
    fn check(&self, found: &Recovered) -> Result<(), String> {
        for n in 0..3 {
            let id = FIRST + n as u64;
            let is = found.sequences.iter().find(|s| s.0 == id).map_or(self.begins(n), |s| s.1);
            let sent = self.sent[n];
            if (is.generation, is.steps) < (sent.generation, sent.steps) {
                return Err(format!("sequence {n}: {sent:?} was sent, {is:?} is known"));
            }
            if self.value(n, is.generation, is.steps) != Some(is.value) {
                return Err(format!("sequence {n}: {is:?} is not on its way, from {:?}", self.began[n]));
            }
        }
        Ok(())
    }
}

fn live(world: &Arc<sim::World>, book: &Arc<Mutex<Book>>, seed: u64) -> Result<(), String> {
    let (db, found) = match Db::open(config(world), &mut Truth::default()) {
        Ok((db, found)) => (Arc::new(db), found),
        Err(RecoveryError::Io { .. }) if world.power_is_lost() => return Ok(()),
        Err(e) => return Err(e.to_string()),
    };
    book.lock().check(&found)?;
    let counters: Vec<Arc<Counter>> = (0..3)
        .map(|n| {
            let id = FIRST + n as u64;
            let given = found.sequences.iter().find(|s| s.0 == id).map(|s| s.1);
            Arc::new(Counter::new(id, given.unwrap_or(book.lock().begins(n))))
        })
        .collect();
    let mut handles = vec![];
    for lane in 0..3u64 {
        let (db, book, counters) = (db.clone(), book.clone(), counters.clone());
        let work = move || {
            let mut random = Random(seed ^ lane << 32);
            for _ in 0..80 {
                let n = random.below(3);
                let mut s = counters[n].state();
                let covered = if random.chance(8) {
                    let (value, is_given) = (1 + random.below(40) as i64, random.chance(50));
                    let Ok(covered) = counters[n].set(&db.log, &mut s, value, is_given) else { return };
                    let began = (u64::from(is_given), value);
                    book.lock().began[n].insert(s.given.generation, began);
                    covered
                } else {
                    let many = 1 + random.below(3) as u64 * random.below(20) as u64;
                    match counters[n].take(&db.log, &mut s, &BOUNDS[n], many) {
                        Ok(taken) => taken.covered,
                        Err(Refused::Log(_)) => return,
                        Err(Refused::Ended) => panic!("none of them ends here"),
                    }
                };
                let given = s.given;
                drop(s);
                if random.chance(20) {
                    // Covered, and not sent.
                    continue;
                }
                if !mutated("sequence_uncovered") && db.log.wait_durable(covered).is_err() {
                    return;
                }
                let sent = &mut book.lock().sent[n];
                if (given.generation, given.steps) > (sent.generation, sent.steps) {
                    *sent = given
                }
            }
        };
        handles.push(thread::spawn("taker", work).unwrap());
    }
    {
        let db = db.clone();
        let work = move || {
            for i in 0..4 {
                if db.checkpoint(i % 3 == 2).is_err() {
                    return;
                }
                thread::sleep(std::time::Duration::from_micros(300));
            }
        };
        handles.push(thread::spawn("checkpointer", work).unwrap());
    }
    for h in handles {
        h.join().map_err(|_| "a fiber panicked".to_string())?;
    }
    if !Random(seed ^ 1).chance(30) {
        return Ok(());
    }
    for (n, c) in counters.iter().enumerate() {
        let given = c.state().given;
        book.lock().began[n].insert(given.generation + 1, (given.steps.min(1), given.value));
    }
    if counters.iter().all(|c| c.settle(&db.log).is_ok()) && db.log.close().is_ok() {
        // Exactly what was given out is known then (durability/sequence/Q9).
        let mut book = book.lock();
        for (n, c) in counters.iter().enumerate() {
            book.sent[n] = c.state().given
        }
    }
    Ok(())
}

fn history(seed: u64, mutation: Option<&'static str>) -> Result<(), String> {
    let mut random = Random(seed);
    let book = Arc::new(Mutex::new(Book::new()));
    let kind = sim::Config { mutation, ..sim::Config::default() };
    let mut world = sim::World::new(seed, kind.clone());
    for life in 0..6 {
        let after = if random.chance(40) { random.below(60) } else { random.below(700) };
        if life < 5 {
            world.arm_power_failure(after as u64);
        }
        let (w, b, s) = (world.clone(), book.clone(), random.next());
        let lived = world.try_run(move || live(&w, &b, s)).map_err(|f| f.to_string()).and_then(|r| r);
        lived.map_err(|e| format!("seed {seed} life {life}: {e}"))?;
        world = world.reboot_with(random.next(), kind.clone());
    }
    Ok(())
}

#[test]
fn what_was_sent_is_given_out_for_ever() {
    for seed in 0..60 {
        history(seed, None).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn wrong_variants_are_noticed() {
    for mutation in ["sequence_uncovered", "sequence_largest_value", "sequence_same_generation"] {
        let caught = (0..200).find_map(|seed| history(seed, Some(mutation)).err());
        let caught = caught.unwrap_or_else(|| panic!("{mutation} was not noticed"));
        println!("{mutation}: {}", caught.lines().next().unwrap_or(""));
    }
}

/// Logs of before hold maxima, without a timestamp (durability/sequence/Q6).
#[test]
fn a_maximum_is_read_as_so_many_steps() {
    let world = sim::World::new(1, sim::Config::default());
    let w = world.clone();
    let lives = move || {
        let (db, _) = Db::open(config(&w), &mut Truth::default()).unwrap();
        for value in [100, 104, 103] {
            db.log.system(System::SequenceAdvance { id: 1, value }).unwrap();
        }
        db.log.system(System::SequenceAdvance { id: 2, value: 7 }).unwrap();
        db.log.system(System::SequenceDrop { id: 2 }).unwrap();
        db.log.close().unwrap();
        drop(db);
        let (db, found) = Db::open(config(&w), &mut Truth::default()).unwrap();
        assert_eq!(found.sequences, [(1, Given::up_to(104))]);
        db.checkpoint(true).unwrap();
        let counter = Counter::new(1, found.sequences[0].1);
        let taken = counter.take(&db.log, &mut counter.state(), &BOUNDS[0], 1).unwrap();
        assert_eq!((taken.first, taken.last), (105, 105));
        db.log.wait_durable(taken.covered).unwrap();
        drop(db);
        let (_, found) = Db::open(config(&w), &mut Truth::default()).unwrap();
        assert_eq!(found.sequences, [(1, Given { generation: 0, steps: 105 + 32, value: 105 + 32 })]);
    };
    world.try_run(lives).unwrap();
}

/// PostgreSQL's answers: how many are covered behind each value, and where a cycle ends.
#[test]
fn values_are_covered_ahead() {
    let world = sim::World::new(1, sim::Config::default());
    let w = world.clone();
    let life = move || {
        let (db, _) = Db::open(config(&w), &mut Truth::default()).unwrap();
        let up = |max, cycle| Bounds { increment: 1, min: 1, max, cycle };
        let first = |value| Given { generation: 0, steps: 0, value };
        let counter = Counter::new(5, first(1));
        let mut s = counter.state();
        let take = |s: &mut sequence::State, bounds: &Bounds, many| {
            counter.take(&db.log, s, bounds, many).map(|t| (t.first, t.last, s.ahead))
        };
        assert_eq!(take(&mut s, &up(1000, false), 1), Ok((1, 1, 32)));
        assert_eq!(take(&mut s, &up(1000, false), 1), Ok((2, 2, 31)));
        assert_eq!(take(&mut s, &up(1000, false), 31), Ok((3, 33, 0)));
        assert_eq!(take(&mut s, &up(1000, false), 10), Ok((34, 43, 32)));
        let end = up(45, true);
        s.ahead = 0;
        assert_eq!(take(&mut s, &end, 10), Ok((44, 45, 0)));
        assert_eq!(take(&mut s, &end, 3), Ok((1, 3, 32)));
        let end = up(3, false);
        assert_eq!(take(&mut s, &Bounds { cycle: false, ..end }, 40), Err(Refused::Ended));
        assert_eq!(s.given.value, 3);
        let whole = Bounds { increment: i64::MAX, min: i64::MIN, max: i64::MAX, cycle: false };
        counter.set(&db.log, &mut s, i64::MIN, true).unwrap();
        let take =
            |s: &mut sequence::State| counter.take(&db.log, s, &whole, 1).map(|t| (t.first, t.last, s.ahead));
        assert_eq!(take(&mut s), Ok((-1, -1, 1)));
        assert_eq!(take(&mut s), Ok((i64::MAX - 1, i64::MAX - 1, 0)));
        assert_eq!(take(&mut s), Err(Refused::Ended));
    };
    world.try_run(life).unwrap();
}
