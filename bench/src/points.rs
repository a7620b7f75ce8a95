//! Points of several dimensions, and boxes to look for them in.
//!
//! - **P1** A point is found by the OID that it has, 16 times its number and 16 more. Nobody follows it.
#![allow(unsafe_code)] // OIDs that nobody follows, and hints.
use crate::random::Random;
use ondol_base::epoch::Guard;
use ondol_base::oid::Oid;
use ondol_index::crtree::{Entry, Keys, MOST, put_key};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Where points lie.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Kind {
    Uniform,
    Clusters,
    /// A price that walks, sizes of which few are large, times that grow.
    Market,
    /// Rectangles as points of four dimensions: their low corners, then their high ones.
    Rectangles,
}

impl Kind {
    /// Of those asked for: rectangles have four.
    pub fn dimensions(self, asked: &[u8]) -> &[u8] {
        if let Kind::Rectangles = self { &[4] } else { asked }
    }
}

/// Calls `compare::<D>(kind, &args, report)` for each of `args.kinds` and each number D of `args.dimensions`.
#[macro_export]
macro_rules! each_kind {
    ($args:ident, $compare:ident, $report:expr) => {
        for kind in &$args.kinds {
            for dimensions in kind.dimensions(&$args.dimensions) {
                match dimensions {
                    2 => $compare::<2>(*kind, &$args, $report)?,
                    3 => $compare::<3>(*kind, &$args, $report)?,
                    4 => $compare::<4>(*kind, &$args, $report)?,
                    5 => $compare::<5>(*kind, &$args, $report)?,
                    _ => $compare::<6>(*kind, &$args, $report)?,
                }
            }
        }
    };
}

pub struct Points<const D: usize>(pub Vec<[f64; D]>);

/// P1.
pub fn oid_of(n: usize) -> Oid {
    // SAFETY: nobody follows it (base/oid/O1).
    unsafe { Oid::from_bits(16 * n as u64 + 16) }
}

impl<const D: usize> Points<D> {
    pub fn make(kind: Kind, count: u64) -> Points<D> {
        let mut r = Random::new(20);
        let mut price = 1_000_000i64;
        let middles: Vec<[f64; D]> =
            (0..100).map(|_| std::array::from_fn(|_| r.below(1 << 31) as f64)).collect();
        // Of the sum of four draws most are near the middle.
        let near =
            |r: &mut Random, wide: u64| (0..4).map(|_| r.below(wide) as f64).sum::<f64>() - 2.0 * wide as f64;
        let mut one = |n: u64| -> [f64; D] {
            match kind {
                Kind::Uniform => std::array::from_fn(|_| r.below(1 << 31) as f64),
                Kind::Clusters => {
                    let middle = middles[r.below(100) as usize];
                    std::array::from_fn(|d| middle[d] + near(&mut r, 10_000_000).floor())
                }
                Kind::Rectangles => {
                    let mut p: [f64; D] = std::array::from_fn(|_| r.below(1 << 31) as f64);
                    for d in D / 2..D {
                        p[d] = p[d - D / 2] + r.below(1 << 20) as f64
                    }
                    p
                }
                Kind::Market => {
                    price = (price + r.range(-3, 3)).max(1);
                    std::array::from_fn(|d| match d % 3 {
                        0 => (price + r.range(-20, 20) * (d as i64 + 1)) as f64,
                        1 => (1u64 << r.below(14)) as f64 * (1 + r.below(9)) as f64,
                        _ => (n * 1000 + r.below(100_000)) as f64,
                    })
                }
            }
        };
        Points((0..count).map(&mut one).collect())
    }
    pub fn entries(&self) -> Vec<Entry<D>> {
        self.0.iter().zip(0..).map(|(at, n)| Entry { at: *at, word: oid_of(n).bits() }).collect()
    }
    fn at(&self, oid: Oid) -> &[f64; D] {
        &self.0[oid.bits() as usize / 16 - 1]
    }
}

impl<const D: usize> Keys for Points<D> {
    fn each(&self, _: &Guard<'_>, oid: Oid, each: &mut dyn FnMut(&[u8])) {
        let mut key = Vec::with_capacity(8 * MOST);
        put_key(self.at(oid), &mut key);
        each(&key)
    }
    fn prefetch(&self, oid: Oid) {
        prefetch(self.at(oid))
    }
}

/// Asks for the memory of what will be looked at.
pub fn prefetch<T>(to: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it faults on no address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch(std::ptr::from_ref(to).cast(), _MM_HINT_T0)
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = to;
}

/// Rows that go from one point to another of the same list.
pub struct Moving<const D: usize> {
    points: Arc<Points<D>>,
    /// By row, which point it has.
    places: Vec<AtomicUsize>,
}

impl<const D: usize> Moving<D> {
    pub fn new(points: Arc<Points<D>>) -> Moving<D> {
        let places = (0..points.0.len()).map(AtomicUsize::new).collect();
        Moving { points, places }
    }
    /// Each goes back to its own.
    pub fn reset(&self) {
        self.places.iter().enumerate().for_each(|(n, place)| place.store(n, Relaxed))
    }
    pub fn place(&self, row: usize) -> usize {
        self.places[row].load(Relaxed)
    }
    pub fn go(&self, row: usize, to: usize) {
        self.places[row].store(to, Relaxed)
    }
}

impl<const D: usize> Keys for Moving<D> {
    fn each(&self, _: &Guard<'_>, oid: Oid, each: &mut dyn FnMut(&[u8])) {
        let mut key = Vec::with_capacity(8 * MOST);
        put_key(&self.points.0[self.place(oid.bits() as usize / 16 - 1)], &mut key);
        each(&key)
    }
    fn prefetch(&self, oid: Oid) {
        prefetch(&self.points.0[self.place(oid.bits() as usize / 16 - 1)])
    }
}

/// Boxes as two corners.
pub type Boxes<const D: usize> = Vec<([f64; D], [f64; D])>;

/// Boxes in which rectangles overlap others, of such a size that about the wanted percentage do.
pub fn overlapping<const D: usize>(percent: f64, count: usize) -> Boxes<D> {
    let mut r = Random::new(8);
    let all = (1u64 << 31) as f64;
    // What a rectangle adds in each direction, half of its greatest width on the average.
    let wide = ((percent / 100.0).powf(2.0 / D as f64) * all - (1u64 << 19) as f64).max(1.0);
    let mut one = || {
        let (mut low, mut high) = ([f64::MIN; D], [f64::MAX; D]);
        for d in 0..D / 2 {
            let from = r.below(1 << 31) as f64;
            (high[d], low[d + D / 2]) = (from + wide, from)
        }
        (low, high)
    };
    (0..count).map(|_| one()).collect()
}

/// Boxes around points of the data, drawn by ranks: in each of the first `bounded` dimensions a box has the
/// part of the points that would make the wanted percentage if dimensions were independent; the others are
/// open.
pub fn boxes<const D: usize>(points: &Points<D>, percent: f64, count: usize, bounded: usize) -> Boxes<D> {
    let mut r = Random::new(7);
    let n = points.0.len();
    let some: Vec<&[f64; D]> = (0..20_000).map(|_| &points.0[r.below(n as u64) as usize]).collect();
    let by_rank: Vec<Vec<f64>> = (0..D)
        .map(|d| {
            let mut all: Vec<f64> = some.iter().map(|p| p[d]).collect();
            all.sort_by(f64::total_cmp);
            all
        })
        .collect();
    let bounded = bounded.clamp(1, D);
    let part = (percent / 100.0).powf(1.0 / bounded as f64);
    let mut one = || {
        let middle = points.0[r.below(n as u64) as usize];
        let (mut low, mut high) = ([f64::MIN; D], [f64::MAX; D]);
        for d in 0..bounded {
            let ranks = &by_rank[d];
            let most = ranks.len() - 1;
            let half = part * ranks.len() as f64 / 2.0;
            let rank = ranks.partition_point(|x| *x < middle[d]) as f64;
            let value = |rank: f64| {
                let (i, rest) = (rank.clamp(0.0, most as f64), rank.clamp(0.0, most as f64).fract());
                let (a, b) = (ranks[i as usize], ranks[(i as usize + 1).min(most)]);
                a + (b - a) * rest
            };
            let around = if rank - half < 0.0 {
                (0.0, 2.0 * half)
            } else if rank + half > most as f64 {
                (most as f64 - 2.0 * half, most as f64)
            } else {
                (rank - half, rank + half)
            };
            (low[d], high[d]) = (value(around.0), value(around.1))
        }
        (low, high)
    };
    (0..count).map(|_| one()).collect()
}
