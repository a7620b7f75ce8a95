//! Several codes in a word, compared at once. The first lies in the lowest bits.

/// The top bit of each lane of so many bits.
pub(crate) const fn tops(bits: u32) -> u64 {
    match bits {
        8 => 0x8080_8080_8080_8080,
        16 => 0x8000_8000_8000_8000,
        _ => 1 << 63,
    }
}

/// A code in every lane.
#[inline(always)]
pub(crate) fn spread(code: u64, bits: u32) -> u64 {
    code.wrapping_mul(tops(bits) >> (bits - 1))
}

/// The top bits of those lanes in which a <= b.
///
/// Without their top bits b + 2^top - a borrows from no other lane, and keeps its top bit where b >= a; where
/// the top bits differ, they tell.
#[inline(always)]
pub(crate) fn not_above(a: u64, b: u64, tops: u64) -> u64 {
    let rest = (b | tops) - (a & !tops);
    ((b & !a) | (!(a ^ b) & rest)) & tops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_compared_each_by_itself() {
        let mut n = 1u64;
        for round in 0..20_000 {
            let mut next = || {
                n ^= n << 13;
                n ^= n >> 7;
                n ^= n << 17;
                n
            };
            let (a, mut b) = (next(), next());
            // Lanes that are equal, and words that differ little.
            if round % 2 == 0 {
                b = a ^ (b & next() & next() & next());
            }
            for bits in [8u32, 16, 64] {
                let lanes = 64 / bits;
                let lane = |word: u64, i: u32| word << (64 - bits * (i + 1)) >> (64 - bits);
                let found = not_above(a, b, tops(bits));
                for i in 0..lanes {
                    let is = found >> (bits * (i + 1) - 1) & 1 == 1;
                    assert_eq!(is, lane(a, i) <= lane(b, i), "{a:x} {b:x}, lane {i} of {lanes}");
                }
                assert_eq!(found & !tops(bits), 0);
                let code = lane(a, 0);
                assert!((0..lanes).all(|i| lane(spread(code, bits), i) == code));
            }
        }
    }
}
