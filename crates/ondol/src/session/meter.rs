//! What a thread that serves sessions counts of them, and when it has looked at the clock.
//!
//! - **M1** A meter is written by its thread alone: a number is loaded and stored, and shares its line with
//!   nothing that others write.
//! - **M2** The thread looks at the clock when it wakes, and once when a statement ends. A statement begins
//!   at the last of these times: what it waits for its thread is counted.
#![cfg_attr(not(feature = "server"), allow(dead_code))]
use crate::session::statements::Statements;
use ondol_base::clock;
use ondol_base::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// From 1970-01-01 to 2000-01-01.
const UNIX_TO_2000_US: i64 = 946_684_800_000_000;

#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Meter {
    /// The last look at the clock, in nanoseconds.
    looked_ns: AtomicU64,
    /// What makes a time from 2000-01-01 of it, in microseconds.
    offset_us: AtomicI64,
    /// Transactions that were committed, those that were not, and those among them that were the victims of
    /// deadlocks.
    pub commits: Count,
    pub rollbacks: Count,
    pub deadlocks: Count,
    /// Nanoseconds that sessions ran statements, and that they did nothing in a transaction.
    pub active_ns: Count,
    pub idle_in_transaction_ns: Count,
    pub statements: Mutex<Statements>,
    /// How long statements took.
    pub took: Histogram,
    /// How long answers waited for the commits that they rest on to be durable.
    pub waited: Histogram,
}

/// How many took how long (M1).
#[derive(Default)]
pub(crate) struct Histogram {
    buckets: [Count; BOUNDS.len() + 1],
    sum_ns: Count,
}

/// What the buckets have at most, in nanoseconds; the last has what is more.
pub(crate) const BOUNDS: [u64; 13] = [
    10_000,
    30_000,
    100_000,
    300_000,
    1_000_000,
    3_000_000,
    10_000_000,
    30_000_000,
    100_000_000,
    300_000_000,
    1_000_000_000,
    3_000_000_000,
    10_000_000_000,
];

impl Histogram {
    /// So many that took so long each.
    #[inline]
    pub fn add(&self, count: u64, each_ns: u64) {
        self.buckets[BOUNDS.partition_point(|b| *b < each_ns)].add(count);
        self.sum_ns.add(each_ns * count)
    }
    /// Adds its buckets and the sum to others.
    pub fn add_to(&self, buckets: &mut [u64; BOUNDS.len() + 1], sum_ns: &mut u64) {
        buckets.iter_mut().zip(&self.buckets).for_each(|(to, b)| *to += b.get());
        *sum_ns += self.sum_ns.get()
    }
}

/// A number that one thread adds to (M1).
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed)
    }
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Meter {
    pub fn new() -> Meter {
        let meter = Meter::default();
        meter.look();
        meter.set();
        meter
    }
    /// Looks at the clock, which counts nanoseconds from any beginning.
    #[inline]
    pub fn look(&self) -> u64 {
        let now = clock::now().as_nanos() as u64;
        self.looked_ns.store(now, Ordering::Relaxed);
        now
    }
    /// When it was last looked at.
    #[inline]
    pub fn looked(&self) -> u64 {
        self.looked_ns.load(Ordering::Relaxed)
    }
    /// Takes over the time of the day, which may be set anew at any time.
    pub fn set(&self) {
        let now = self.look();
        self.offset_us.store(clock::wall_us() - UNIX_TO_2000_US - (now / 1000) as i64, Ordering::Relaxed)
    }
    /// The time of the day, in microseconds from 2000-01-01.
    #[inline]
    pub fn day_us(&self, at_ns: u64) -> i64 {
        (at_ns / 1000) as i64 + self.offset_us.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_each_in_its_bucket() {
        let histogram = Histogram::default();
        histogram.add(2, 10_000);
        histogram.add(1, 10_001);
        histogram.add(1, 20_000_000_000);
        let (mut buckets, mut sum) = ([0; BOUNDS.len() + 1], 5);
        histogram.add_to(&mut buckets, &mut sum);
        assert_eq!((buckets[0], buckets[1], buckets[2], buckets[13]), (2, 1, 0, 1));
        assert_eq!(sum, 5 + 20_000 + 10_001 + 20_000_000_000);
    }

    #[test]
    fn the_clock_tells_the_day() {
        let meter = Meter::new();
        let at = meter.look();
        assert_eq!(meter.looked(), at);
        let off = clock::wall_us() - UNIX_TO_2000_US - meter.day_us(at);
        assert!((-1000..10_000_000).contains(&off), "{off}");
        assert!(meter.look() >= at);
    }
}
