//! A counter that many threads change: spread over cache lines by a hash of what is counted, summed when
//! read.
use std::sync::atomic::{AtomicI64, Ordering};

pub(crate) const STRIPES: usize = 16;

#[repr(align(64))]
#[derive(Default)]
struct Stripe(AtomicI64);

#[derive(Default)]
pub(crate) struct Stripes([Stripe; STRIPES]);

impl Stripes {
    /// Adds `n` to the stripe of `oid`, and gives that stripe's count.
    #[inline]
    pub(crate) fn add(&self, oid: u64, n: i64) -> i64 {
        let i = (oid.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize;
        self.0[i].0.fetch_add(n, Ordering::Relaxed) + n
    }
    /// Exact when nobody counts at the same time.
    pub(crate) fn sum(&self) -> i64 {
        self.0.iter().map(|s| s.0.load(Ordering::Relaxed)).sum()
    }
}
