//! CRC-32C and its algebra over XOR.
//!
//! A CRC with a zero start and no final complement is linear over XOR: that is [`raw`]. The ordinary CRC-32C
//! differs from it by a constant that depends on the length alone, so it is affine. From this follows how a
//! page is proved after recovery: the checksum of the recovered bytes must equal the image's, XORed with the
//! [`contribution`] of each difference applied, whatever their order.
//!
//! - **C1** `raw(a XOR b) = raw(a) XOR raw(b)` for equal lengths.
//! - **C2** `raw(a ++ b) = shift(raw(a), len(b)) XOR raw(b)`.
//! - **C3** Leading zero bytes do not change `raw`.
//! - **C4** `crc32c(a) = raw(a) XOR of_zeros(len(a))`.
//!
//! Appending n zero bytes multiplies the remainder, a polynomial over GF(2), by x^(8n) modulo the Castagnoli
//! polynomial. n is taken apart into bytes, each of which names a power in a table; a carry-less
//! multiplication and one CRC instruction multiply and reduce where the processor has them.
//!
//! Sources: RFC 3720 appendix B.4 (the polynomial and its test vectors); Kadatch and Jenkins, "Everything we
//! know about CRC but afraid to forget" (shifting and combining).

/// The Castagnoli polynomial, bit-reflected: bit 31 stands for x^0.
const POLY: u32 = 0x82F6_3B78;

/// CRC-32C as everyone computes it.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Linear CRC-32C: starts from zero, and nothing is XORed at the end.
#[inline]
pub fn raw(bytes: &[u8]) -> u32 {
    // From this length on the library's folding beats one chain of CRC instructions.
    if bytes.len() >= 256 {
        return crc32c(bytes) ^ of_zeros(bytes.len() as u64);
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the instruction set was detected just now.
        return unsafe { x86::raw(bytes) };
    }
    crc32c(bytes) ^ of_zeros(bytes.len() as u64)
}

/// The raw CRC of a text whose raw CRC is `crc`, after `zero_bytes` zero bytes more.
#[inline]
pub fn shift(crc: u32, zero_bytes: u64) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("pclmulqdq") && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the instruction sets were detected just now.
        return unsafe { x86::shift(crc, zero_bytes) };
    }
    shift_portable(crc, zero_bytes)
}

/// The raw CRC of a zero vector of `total_len` bytes in which `bytes` stand at `offset`.
#[inline]
pub fn contribution(offset: usize, bytes: &[u8], total_len: usize) -> u32 {
    let rest = total_len.checked_sub(offset).and_then(|r| r.checked_sub(bytes.len()));
    let Some(rest) = rest else {
        panic!("a part of {} bytes at {offset} does not lie within {total_len} bytes", bytes.len())
    };
    shift(raw(bytes), rest as u64)
}

/// The ordinary CRC-32C of `len` zero bytes: what turns [`raw`] into [`crc32c`] and back.
#[inline]
pub fn of_zeros(len: u64) -> u32 {
    !shift(!0, len)
}

/// Tables have one row for each byte of the count.
const ROWS: usize = 8;

/// The product of two polynomials modulo `POLY`, in the reflected order.
const fn product(a: u32, mut b: u32) -> u32 {
    let mut sum = 0;
    let mut bit = 1u32 << 31;
    while bit != 0 {
        if a & bit != 0 {
            sum ^= b
        }
        b = times_x(b);
        bit >>= 1;
    }
    sum
}
const fn times_x(a: u32) -> u32 {
    (a >> 1) ^ (if a & 1 != 0 { POLY } else { 0 })
}
#[cfg(target_arch = "x86_64")]
const fn over_x(a: u32) -> u32 {
    // The polynomial has a constant term, so x has an inverse: undo the step above.
    if a & (1 << 31) != 0 { ((a ^ POLY) << 1) | 1 } else { a << 1 }
}
/// `row[r][i] = x^(8 * i * 256^r) * scale`.
const fn powers(scale: u32) -> [[u32; 256]; ROWS] {
    let mut table = [[0u32; 256]; ROWS];
    let mut base = 1u32 << 23; // x^8
    let mut r = 0;
    while r < ROWS {
        let mut p = 1u32 << 31; // x^0
        let mut i = 0;
        while i < 256 {
            table[r][i] = product(p, scale);
            p = product(p, base);
            i += 1;
        }
        base = p;
        r += 1;
    }
    table
}

static POWERS: [[u32; 256]; ROWS] = powers(1 << 31);

fn shift_portable(mut crc: u32, mut zero_bytes: u64) -> u32 {
    let mut row = 0;
    while zero_bytes != 0 {
        let digit = (zero_bytes & 255) as usize;
        if digit != 0 {
            crc = product(POWERS[row][digit], crc)
        }
        zero_bytes >>= 8;
        row += 1;
    }
    crc
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{ROWS, over_x, powers};
    use std::arch::x86_64::*;

    /// A reflected carry-less product stands one power of x too high, and the CRC instruction reduces its
    /// 64 bits with 32 powers more: the table takes both away beforehand.
    const SCALE: u32 = {
        let mut p = 1u32 << 31;
        let mut i = 0;
        while i < 33 {
            p = over_x(p);
            i += 1;
        }
        p
    };
    static POWERS: [[u32; 256]; ROWS] = powers(SCALE);

    #[target_feature(enable = "sse4.2")]
    pub fn raw(bytes: &[u8]) -> u32 {
        let mut crc = 0u64;
        let (words, rest) = bytes.as_chunks::<8>();
        for w in words {
            crc = _mm_crc32_u64(crc, u64::from_le_bytes(*w));
        }
        let mut crc = crc as u32;
        for b in rest {
            crc = _mm_crc32_u8(crc, *b);
        }
        crc
    }

    #[target_feature(enable = "sse4.2,pclmulqdq")]
    pub fn shift(mut crc: u32, mut zero_bytes: u64) -> u32 {
        let mut row = 0;
        while zero_bytes != 0 {
            let digit = (zero_bytes & 255) as usize;
            if digit != 0 {
                let a = _mm_cvtsi32_si128(crc as i32);
                let b = _mm_cvtsi32_si128(POWERS[row][digit] as i32);
                let p = _mm_cvtsi128_si64(_mm_clmulepi64_si128::<0>(a, b)) as u64;
                crc = _mm_crc32_u64(0, p) as u32;
            }
            zero_bytes >>= 8;
            row += 1;
        }
        crc
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Random;

    /// Bit by bit, by the definition.
    fn slow(bytes: &[u8]) -> u32 {
        let mut crc = 0u32;
        for b in bytes {
            crc ^= *b as u32;
            for _ in 0..8 {
                crc = times_x(crc)
            }
        }
        crc
    }
    fn text(r: &mut Random, len: usize) -> Vec<u8> {
        (0..len).map(|_| r.next() as u8).collect()
    }

    #[test]
    fn known_vectors() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(of_zeros(32), 0x8A91_36AA);
    }

    #[test]
    fn raw_is_the_definition_and_linear() {
        let mut r = Random::new(1);
        for i in 0..400 {
            let len = match i {
                0..100 => i,
                100..390 => r.below(3000) as usize,
                _ => r.below(1 << 17) as usize,
            };
            let (a, b) = (text(&mut r, len), text(&mut r, len));
            let sum: Vec<u8> = a.iter().zip(&b).map(|(x, y)| x ^ y).collect();
            assert_eq!(raw(&a), slow(&a));
            assert_eq!(raw(&sum), raw(&a) ^ raw(&b));
            assert_eq!(crc32c(&a), raw(&a) ^ of_zeros(len as u64));
        }
    }

    #[test]
    fn shift_appends_zeros() {
        let mut r = Random::new(2);
        for i in 0..300 {
            let zeros = if i < 260 { i } else { r.below(3 << 20) as usize };
            let len = r.below(40) as usize;
            let mut a = text(&mut r, len);
            let crc = raw(&a);
            a.resize(len + zeros, 0);
            assert_eq!(shift(crc, zeros as u64), raw(&a));
            assert_eq!(shift_portable(crc, zeros as u64), raw(&a));
        }
        for _ in 0..1000 {
            let (crc, a, b) = (r.next() as u32, r.next() >> 1, r.next() >> 1);
            assert_eq!(shift(crc, a + b), shift(shift(crc, a), b));
            assert_eq!(shift(crc, a), shift_portable(crc, a));
        }
    }

    #[test]
    fn contributions_add_up() {
        let mut r = Random::new(3);
        for _ in 0..100 {
            let total = 1 + r.below(5000) as usize;
            let mut page = text(&mut r, total);
            let mut expected = raw(&page);
            for _ in 0..10 {
                let offset = r.below(total as u64) as usize;
                let len = r.below((total - offset) as u64 + 1) as usize;
                let delta = text(&mut r, len);
                page[offset..offset + len].iter_mut().zip(&delta).for_each(|(p, d)| *p ^= d);
                expected ^= contribution(offset, &delta, total);
            }
            assert_eq!(raw(&page), expected);
        }
    }

    #[test]
    #[should_panic(expected = "does not lie within")]
    fn a_part_beyond_the_end_is_refused() {
        contribution(10, &[1, 2, 3], 12);
    }
}
