//! Threads that run the mix for some time, or a number of transactions, and what came of it.
use super::Scale;
use super::backend::{Backend, Commit, Failure, Link};
use super::transactions::{Ended, Ordered, TYPES, Terminal, Type};
use crate::histogram::Histogram;
use crate::machine::cpu_seconds;
use crate::report::number;
use crate::rounds::Sample;
use crate::{Error, Result};
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Attempts of one transaction before the bench gives up.
const ATTEMPTS: u32 = 10_000;
/// From 1970 to 2000, in microseconds.
const EPOCH_US: i64 = 946_684_800_000_000;

#[derive(Clone, Copy)]
pub struct Plan {
    pub scale: Scale,
    pub threads: usize,
    pub seed: u64,
    pub end: End,
    /// Commits that a thread leaves open before it waits for the oldest of them; commits that back ends
    /// acknowledge at once never wait.
    pub depth: usize,
    /// Whether a commit counts, and its time ends, when it is durable. Else when it returns.
    pub durable: bool,
}

#[derive(Clone, Copy)]
pub enum End {
    After(Duration),
    /// So many transactions on each thread, with a clock that counts: the outcome is a function of the seed
    /// if there is one thread.
    Transactions(u64),
}

#[derive(Default, Clone)]
pub struct Outcome {
    /// By type.
    pub latencies: [Histogram; 5],
    pub rolled_back: u64,
    pub retries: u64,
    pub seconds: f64,
    pub cpu_s: f64,
}

impl Outcome {
    /// Transactions, rolled-back New-Orders among them, as the standard counts them.
    pub fn transactions(&self) -> u64 {
        self.latencies.iter().map(Histogram::len).sum()
    }
    /// "p50 / p99" in microseconds, by type.
    pub fn percentiles(&self) -> impl Iterator<Item = String> {
        let us = |h: &Histogram, p| number(h.percentile_us(p).round());
        self.latencies.iter().map(move |h| format!("{} / {}", us(h, 0.5), us(h, 0.99)))
    }
    fn merge(&mut self, other: &Outcome) {
        self.latencies.iter_mut().zip(&other.latencies).for_each(|(a, b)| a.merge(b));
        self.rolled_back += other.rolled_back;
        self.retries += other.retries;
    }
    pub fn add(&mut self, other: &Outcome) {
        self.merge(other);
        self.seconds += other.seconds;
        self.cpu_s += other.cpu_s;
    }
    pub fn sample(&self) -> Sample {
        let mut extra = vec![
            ("retries".to_string(), self.retries as f64),
            ("rolled_back".into(), self.rolled_back as f64),
        ];
        let mut all = Histogram::default();
        self.latencies.iter().for_each(|h| all.merge(h));
        let each = TYPES.map(|t| (t.name(), &self.latencies[t as usize]));
        for (name, h) in each.into_iter().chain([("all", &all)]) {
            extra.push((format!("{name} count"), h.len() as f64));
            extra.push((format!("{name} p50 us"), h.percentile_us(0.5)));
            extra.push((format!("{name} p99 us"), h.percentile_us(0.99)));
            extra.push((format!("{name} slowest us"), h.largest_us()));
        }
        Sample {
            operations: self.transactions(),
            seconds: self.seconds,
            cpu_s: self.cpu_s,
            checksum: None,
            extra,
        }
    }
}

/// A commit that is not yet acknowledged.
struct Open {
    number: u64,
    which: Type,
    start: Instant,
    order: Option<Ordered>,
}

type Acknowledge<'a> = &'a (dyn Fn(Ordered) + Sync);

/// Runs the mix. `acknowledged` is told each New-Order once it is acknowledged.
pub fn drive(backend: &dyn Backend, plan: &Plan, acknowledged: Acknowledge<'_>) -> Result<Outcome> {
    let stop = AtomicBool::new(false);
    let total: Mutex<Result<Outcome>> = Mutex::new(Ok(Outcome::default()));
    let (cpu, start) = (cpu_seconds(), Instant::now());
    std::thread::scope(|s| {
        for thread in 0..plan.threads {
            let (stop, total) = (&stop, &total);
            s.spawn(move || {
                let mut outcome = Outcome::default();
                let done = backend.connect(&mut |link| {
                    let terminal = Terminal::new(plan.scale, plan.seed, thread, plan.threads);
                    work(link, plan, terminal, start, stop, acknowledged, &mut outcome)
                });
                if done.is_err() {
                    // One thread's failure ends the run.
                    stop.store(true, Ordering::Relaxed);
                }
                // A thread that panicked with the lock would have ended the scope with its panic.
                let mut total = total.lock().unwrap_or_else(|e| e.into_inner());
                match (&mut *total, done) {
                    (Ok(t), Ok(())) => t.merge(&outcome),
                    (t @ Ok(_), Err(e)) => *t = Err(e),
                    (Err(_), _) => {}
                }
            });
        }
    });
    let mut outcome = total.into_inner().unwrap_or_else(|e| e.into_inner())?;
    outcome.seconds = start.elapsed().as_secs_f64();
    outcome.cpu_s = cpu_seconds() - cpu;
    Ok(outcome)
}

fn wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as i64 - EPOCH_US
}

fn work(
    link: &mut dyn Link,
    plan: &Plan,
    mut terminal: Terminal,
    begin: Instant,
    stop: &AtomicBool,
    acknowledged: Acknowledge<'_>,
    outcome: &mut Outcome,
) -> Result<()> {
    let mut open: VecDeque<Open> = VecDeque::new();
    let settle = |link: &mut dyn Link, open: &mut VecDeque<Open>, keep: usize, outcome: &mut Outcome| {
        let Some(last) = open.len().checked_sub(keep + 1) else { return Ok::<_, Error>(()) };
        link.wait(open[last].number)?;
        for o in open.drain(..=last) {
            if plan.durable {
                outcome.latencies[o.which as usize].add(o.start.elapsed().as_nanos() as u64);
            }
            o.order.into_iter().for_each(acknowledged);
        }
        Ok(())
    };
    for n in 0.. {
        let (over, now) = match plan.end {
            End::After(d) => (begin.elapsed() >= d, wall_us()),
            End::Transactions(count) => {
                (n >= count, super::populate::POPULATED_US + 1_000_000 * (n as i64 + 1))
            }
        };
        if over || stop.load(Ordering::Relaxed) {
            break;
        }
        let which = terminal.draw(now);
        let start = Instant::now();
        let mut attempts = 0;
        let ended = loop {
            match terminal.run(link) {
                Ok(e) => break e,
                Err(Failure::Retry) if attempts < ATTEMPTS => {
                    attempts += 1;
                    outcome.retries += 1;
                    // Whoever is in the way gets the processor.
                    std::thread::yield_now();
                }
                Err(Failure::Retry) => {
                    return Err(
                        format!("{} did not come through in {ATTEMPTS} attempts", which.name()).into()
                    );
                }
                Err(Failure::Fatal(e)) => return Err(format!("{}: {e}", which.name()).into()),
            }
        };
        let mut took = || outcome.latencies[which as usize].add(start.elapsed().as_nanos() as u64);
        match ended {
            Ended::RolledBack => {
                took();
                outcome.rolled_back += 1;
            }
            Ended::Committed { commit: Commit::Done, order } => {
                took();
                order.into_iter().for_each(acknowledged);
            }
            Ended::Committed { commit: Commit::Pending(number), order } => {
                if !plan.durable {
                    took();
                }
                open.push_back(Open { number, which, start, order });
                if open.len() >= plan.depth.max(1) {
                    settle(link, &mut open, plan.depth / 2, outcome)?;
                }
            }
        }
    }
    settle(link, &mut open, 0, outcome)
}
