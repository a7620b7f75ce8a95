//! What the tests of this crate share: a memory limit that counts, seeded random numbers, and OIDs of
//! nothing.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(unsafe_code)] // OIDs that nobody follows.
use ondol_base::oid::Oid;
use ondol_index::Budget;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

pub struct Limit {
    limit: AtomicI64,
    used: AtomicI64,
}
impl Limit {
    pub fn new(limit: i64) -> Arc<Limit> {
        Arc::new(Limit { limit: AtomicI64::new(limit), used: AtomicI64::new(0) })
    }
    pub fn none() -> Arc<Limit> {
        Self::new(i64::MAX / 2)
    }
    pub fn used(&self) -> i64 {
        self.used.load(Ordering::Relaxed)
    }
    pub fn set(&self, limit: i64) {
        self.limit.store(limit, Ordering::Relaxed)
    }
}
impl Budget for Limit {
    fn charge(&self, bytes: usize) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let fits = self.used.fetch_add(bytes as i64, Ordering::Relaxed) + bytes as i64 <= limit;
        if !fits {
            self.release(bytes)
        }
        fits
    }
    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes as i64, Ordering::Relaxed);
    }
}

/// An OID for an index, which does not follow it.
pub fn oid_of(bits: u64) -> Oid {
    // SAFETY: nobody follows it (base/oid/O1).
    unsafe { Oid::from_bits(bits) }
}

/// Marsaglia's xorshift.
pub struct Random(pub u64);
impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// Below one of these limits.
    pub fn pick(&mut self, limits: &[u64]) -> u64 {
        let limit = limits[self.below(limits.len() as u64) as usize];
        self.below(limit)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        ((self.next() as u128 * n as u128) >> 64) as u64
    }
}

/// Runs a test for some seeds; a failure names the seed.
pub fn seeds(count: u64, f: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let fixed = std::env::var("ONDOL_SEED").ok().and_then(|s| s.parse().ok());
    let all: Vec<u64> = fixed.map_or((1..=count).map(|i| i * 0x9e37_79b9).collect(), |s| vec![s]);
    for seed in all {
        if let Err(e) = std::panic::catch_unwind(|| f(seed)) {
            eprintln!("failed with ONDOL_SEED={seed}");
            std::panic::resume_unwind(e)
        }
    }
}
