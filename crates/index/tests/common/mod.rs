//! What the tests of this crate share: a memory limit that counts, seeded random numbers, and OIDs of
//! nothing.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(unsafe_code)] // OIDs that nobody follows.
use ondol_base::epoch::Guard;
use ondol_base::oid::Oid;
use ondol_base::sync::{Mutex, MutexGuard};
use ondol_index::Budget;
use ondol_index::crtree::{Keys, MOST, Point};
use std::collections::BTreeMap;
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

/// Versions of a table: of each OID the keys of its versions.
pub struct Versions([Mutex<BTreeMap<u64, Vec<Vec<u8>>>>; 64]);
impl Versions {
    pub fn new() -> Arc<Versions> {
        Arc::new(Versions(std::array::from_fn(|_| Mutex::default())))
    }
    fn part(&self, oid: u64) -> MutexGuard<'_, BTreeMap<u64, Vec<Vec<u8>>>> {
        self.0[(oid / 16 % 64) as usize].lock()
    }
    pub fn add(&self, oid: u64, key: &[u8]) {
        self.part(oid).entry(oid).or_default().push(key.to_vec())
    }
    pub fn take(&self, oid: u64, key: &[u8]) {
        let mut part = self.part(oid);
        let keys = part.get_mut(&oid).expect("the row is there");
        let at = keys.iter().position(|k| k == key).expect("the version is there");
        keys.swap_remove(at);
        if keys.is_empty() {
            part.remove(&oid);
        }
    }
    pub fn of(&self, oid: u64) -> Vec<Vec<u8>> {
        self.part(oid).get(&oid).cloned().unwrap_or_default()
    }
    pub fn all(&self) -> Vec<(u64, Vec<Vec<u8>>)> {
        self.0.iter().flat_map(|p| p.lock().clone()).collect()
    }
    /// Some version.
    pub fn any(&self, r: &mut Random) -> Option<(u64, Vec<u8>)> {
        for _ in 0..64 {
            let part = self.0[r.below(64) as usize].lock();
            let Some(last) = part.keys().next_back() else { continue };
            if let Some((oid, keys)) = part.range(r.below(last + 1)..).next() {
                return Some((*oid, keys[r.below(keys.len() as u64) as usize].clone()));
            }
        }
        None
    }
}
impl Keys for Versions {
    fn each(&self, _: &Guard<'_>, oid: Oid, each: &mut dyn FnMut(&[u8])) {
        // Not while the rows are locked.
        self.of(oid.bits()).iter().for_each(|key| each(key))
    }
}

/// The point of a key.
pub fn point(key: &[u8]) -> Point {
    let mut p = [0.0; MOST];
    for (x, word) in p.iter_mut().zip(key.as_chunks::<8>().0) {
        let word = u64::from_be_bytes(*word);
        *x = f64::from_bits(if word >> 63 == 1 { word ^ 1 << 63 } else { !word })
    }
    p
}
