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
    fn the_clock_tells_the_day() {
        let meter = Meter::new();
        let at = meter.look();
        assert_eq!(meter.looked(), at);
        let off = clock::wall_us() - UNIX_TO_2000_US - meter.day_us(at);
        assert!((-1000..10_000_000).contains(&off), "{off}");
        assert!(meter.look() >= at);
    }
}
