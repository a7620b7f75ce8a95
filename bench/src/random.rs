//! Pseudo-random numbers by seed, the same on every machine (SplitMix64).

/// A mix of 64 bits: every bit of the input moves every bit of the output.
pub fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(mix(seed ^ 0x6f6e_646f_6c21))
    }
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }
    /// From 0 to `n - 1`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((self.next_u64() as u128 * n as u128) >> 64) as u64
    }
    /// From `low` to `high`, both included.
    pub fn range(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_whole() {
        let mut r = Random::new(1);
        let mut seen = [0; 5];
        (0..1000).for_each(|_| seen[r.range(3, 7) as usize - 3] += 1);
        assert!(seen.iter().all(|n| *n > 100), "{seen:?}");
    }
}
