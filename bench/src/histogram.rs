//! Latencies in buckets of about 3 %: adding one is a few instructions, and percentiles need no sorting.

/// Buckets in each doubling.
const PARTS: u64 = 32;

#[derive(Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    largest_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; (PARTS * 64) as usize], total: 0, largest_ns: 0 }
    }
}

fn bucket(ns: u64) -> usize {
    if ns < PARTS {
        return ns as usize;
    }
    let log = 63 - ns.leading_zeros() as u64;
    // The bits after the leading one.
    let part = (ns >> (log - 5)) & (PARTS - 1);
    ((log - 4) * PARTS + part) as usize
}

/// The middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let b = bucket as u64;
    if b < PARTS {
        return b;
    }
    let log = b / PARTS + 4;
    let width = 1u64 << (log - 5);
    (1u64 << log) + b % PARTS * width + width / 2
}

impl Histogram {
    pub fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.total += 1;
        self.largest_ns = self.largest_ns.max(ns);
    }
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(a, b)| *a += b);
        self.total += other.total;
        self.largest_ns = self.largest_ns.max(other.largest_ns);
    }
    pub fn len(&self) -> u64 {
        self.total
    }
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }
    /// The latency that the share `p` (0 to 1) does not exceed, in microseconds; 0 when nothing was added.
    pub fn percentile_us(&self, p: f64) -> f64 {
        let wanted = ((self.total as f64 * p).ceil() as u64).clamp(1, self.total.max(1));
        let mut seen = 0;
        for (i, n) in self.counts.iter().enumerate() {
            seen += n;
            if seen >= wanted {
                return middle(i).min(self.largest_ns) as f64 / 1e3;
            }
        }
        0.0
    }
    pub fn largest_us(&self) -> f64 {
        self.largest_ns as f64 / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_within_a_bucket() {
        let mut h = Histogram::default();
        (1..=100_000u64).for_each(|i| h.add(i * 10));
        for p in [0.01, 0.5, 0.9, 0.99, 0.999] {
            let exact = 1e6 * p / 1e3;
            let found = h.percentile_us(p);
            assert!((found - exact).abs() / exact < 0.04, "p{p}: {found} for {exact}");
        }
        assert_eq!(h.percentile_us(1.0), 1000.0);
        assert_eq!(Histogram::default().percentile_us(0.5), 0.0);
    }

    #[test]
    fn every_number_has_its_bucket() {
        for n in (0..200_000u64).chain((18..63).map(|s| (1 << s) + 12345)) {
            let m = middle(bucket(n));
            assert!(m.abs_diff(n) as f64 <= n as f64 / 32.0 + 0.5, "{n} {m}");
        }
    }
}
