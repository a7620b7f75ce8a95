//! One line of a hash index: 64 bytes, a version word and seven slots, and the search for a tag in it.
//!
//! ```text
//! slot:  empty  = 0
//!        entry  = tag (16 bits, not 0) | OID (48 bits)
//!        link   = 0    (16 bits)       | line number in the overflow slab + 1
//! tag:   b b b ... b 1 0 0 ... 0       hash bits, the next to be used by a split first, then a mark
//! ```
//! - **T1** The bits of a tag above its lowest set bit are hash bits that the line's place does not say yet.
//!   A split uses up the first: the tag moves left by one, and one bit fewer is known. A fresh tag knows
//!   [`TAG_BITS`]; [`SPENT`] knows none and matches everything.
//! - **T2** Half of the entries of a growing table came after the last doubling, a quarter after the one
//!   before: the false matches by shortened tags add up to about one in 2^15 for each doubling.
use std::sync::atomic::{AtomicU64, Ordering};

#[repr(C, align(64))]
#[derive(Default)]
pub(crate) struct Line(pub(crate) [AtomicU64; 8]);

pub(crate) const OID_BITS: u32 = 48;
pub(crate) const OID_MASK: u64 = (1 << OID_BITS) - 1;
/// Hash bits in a fresh tag.
pub(crate) const TAG_BITS: u32 = 15;
/// The tag of an entry whose known hash bits are all used up.
pub(crate) const SPENT: u16 = 0x8000;

#[inline(always)]
pub(crate) fn tag(word: u64) -> u16 {
    (word >> OID_BITS) as u16
}
#[inline(always)]
pub(crate) fn is_link(word: u64) -> bool {
    word.wrapping_sub(1) < OID_MASK
}
#[inline(always)]
pub(crate) fn is_entry(word: u64) -> bool {
    word > OID_MASK
}
/// Whether the known bits of the entry's tag are those of `probe` (whose lowest bit is 1).
#[inline(always)]
pub(crate) fn matches(word: u64, probe: u16) -> bool {
    let t = tag(word);
    // A tag of zero borrows nothing, keeps every bit, and so differs from the probe's lowest.
    (t ^ probe) & !(t ^ t.saturating_sub(1)) == 0
}
/// How many hash bits the tag of an entry still knows.
pub(crate) fn known(word: u64) -> u32 {
    TAG_BITS - tag(word).trailing_zeros()
}

impl Line {
    #[inline(always)]
    pub(crate) fn get(&self, slot: usize) -> u64 {
        self.0[slot].load(Ordering::Relaxed)
    }
    #[inline(always)]
    pub(crate) fn set(&self, slot: usize, word: u64) {
        self.0[slot].store(word, Ordering::Relaxed)
    }
    pub(crate) fn copy(&self) -> [u64; 8] {
        std::array::from_fn(|i| self.get(i))
    }

    /// Bit i set: slot i (of 1 to 7) holds an entry that matches `probe`.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline(always)]
    pub(crate) fn find(&self, probe: u16) -> u32 {
        use std::arch::x86_64::*;
        let (mut low, mut high): (__m128i, __m128i);
        // SAFETY: reads the 64 aligned bytes of this line. It is assembly because another thread may write
        // them: each aligned half of such a load is a relaxed read of one word, which Rust's own vector loads
        // do not promise. The two results are the words' high halves.
        unsafe {
            std::arch::asm!(
                "movaps {low}, [{line}]",
                "movaps {high}, [{line} + 32]",
                "shufps {low}, [{line} + 16], 0xdd",
                "shufps {high}, [{line} + 48], 0xdd",
                line = in(reg) self,
                low = out(xmm_reg) low,
                high = out(xmm_reg) high,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        // SAFETY: SSE2 is part of the architecture.
        unsafe {
            let tags = _mm_packs_epi32(_mm_srai_epi32(low, 16), _mm_srai_epi32(high, 16));
            let unknown = _mm_xor_si128(tags, _mm_subs_epu16(tags, _mm_set1_epi16(1)));
            let differs = _mm_andnot_si128(unknown, _mm_xor_si128(tags, _mm_set1_epi16(probe as i16)));
            let equal = _mm_cmpeq_epi16(differs, _mm_setzero_si128());
            _mm_movemask_epi8(_mm_packs_epi16(equal, equal)) as u32 & 0xfe
        }
    }

    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    #[inline(always)]
    pub(crate) fn find(&self, probe: u16) -> u32 {
        (1..8).fold(0, |mask, i| mask | (matches(self.get(i), probe) as u32) << i)
    }

    #[inline(always)]
    pub(crate) fn prefetch(this: *const Line) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint; it faults on no address.
        unsafe {
            std::arch::x86_64::_mm_prefetch(this.cast(), std::arch::x86_64::_MM_HINT_T0)
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = this;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vector_search_finds_what_the_scalar_one_finds() {
        let mut x = 88172645463325252u64;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        };
        let mut hits = 0;
        for _ in 0..200_000 {
            let probe = next() as u16 | 1;
            let line = Line::default();
            for i in 0..8 {
                let r = next();
                let t = match r & 7 {
                    0 => 0,
                    1 => probe,
                    2 => SPENT,
                    // The probe's upper bits and a mark, as a split leaves them.
                    3 | 4 => (probe >> (r >> 8 & 15) | 1) << (r >> 8 & 15),
                    5 => probe ^ 1 << (r >> 8 & 15),
                    _ => (r >> 16) as u16,
                };
                line.set(i, ((t as u64) << OID_BITS) | ((next() & OID_MASK) * (r >> 40 & 1)));
            }
            let scalar = (1..8).fold(0, |m, i| m | (matches(line.get(i), probe) as u32) << i);
            hits += scalar.count_ones();
            assert_eq!(line.find(probe), scalar, "{probe:x} {:x?}", line.copy());
        }
        assert!(hits > 100_000);
    }

    #[test]
    fn a_tag_forgets_one_bit_a_shift() {
        let probe = 0b1011_0011_1000_0111u16;
        let mut word = (probe as u64) << OID_BITS | 5;
        let mut bits = probe;
        for left in (0..=TAG_BITS).rev() {
            assert_eq!(known(word), left);
            assert!(matches(word, bits | 1));
            if left > 0 {
                assert!(!matches(word, bits ^ 0x8000 | 1));
            }
            word = (word >> OID_BITS << (OID_BITS + 1)) | 5;
            bits <<= 1;
        }
        assert!(!matches(0, 1) && !matches(7, 1));
    }
}
