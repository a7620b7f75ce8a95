//! The generator behind every choice of a world: SplitMix64 (Steele, Lea and Flood, "Fast splittable
//! pseudorandom number generators", 2014). One word of state, so that a choice is cheap and a stream is named
//! by its seed; [`Random::branch`] gives independent streams, so that drawing from one leaves the others as
//! they were.

#[derive(Clone, Debug)]
pub struct Random(u64);

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finaliser: every bit of the result depends on every bit of `z`.
#[inline]
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(mix(seed.wrapping_add(GAMMA)))
    }
    #[inline]
    #[allow(clippy::should_implement_trait)] // It never ends, so an iterator would be the wrong promise.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }
    /// Below `n`; zero when `n` is.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((self.next() as u128 * n as u128) >> 64) as u64
    }
    /// True with probability `p`. Draws nothing when the answer is certain.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && (p >= 1.0 || ((self.next() >> 11) as f64) < p * (1u64 << 53) as f64)
    }
    /// An independent stream, named by `label`.
    pub fn branch(&self, label: u64) -> Random {
        Random::new(self.0 ^ mix(label.wrapping_mul(GAMMA).wrapping_add(1)))
    }
    /// One of the elements; none of an empty slice.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len() as u64) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_named_by_their_seed_and_fair() {
        let (mut a, mut b, mut c) = (Random::new(1), Random::new(1), Random::new(2));
        assert_eq!(a.next(), b.next());
        assert_ne!(a.next(), c.next());
        assert_ne!(a.branch(1).next(), a.branch(2).next());
        let mut counts = [0u32; 10];
        let mut heads = 0;
        for _ in 0..100_000 {
            counts[a.below(10) as usize] += 1;
            heads += a.chance(0.3) as u32;
        }
        assert!(counts.iter().all(|c| (9_000..11_000).contains(c)), "{counts:?}");
        assert!((29_000..31_000).contains(&heads), "{heads}");
        assert!(!a.chance(0.0) && a.chance(1.0));
        assert_eq!(a.below(0), 0);
        assert_eq!(a.pick::<u8>(&[]), None);
    }
}
