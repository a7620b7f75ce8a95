//! NUMERIC as it is stored: a head byte and what it announces. The length comes from outside.
//!
//! ```text
//! 0..=127   inline, the head is the scale; the mantissa follows, two's complement, lowest byte first,
//!           in as few bytes as it needs (none for zero)
//! 128       NaN            129  Infinity         130  -Infinity
//! 131       inline, a scale of two bytes, then the mantissa
//! 132, 133  positive, negative: a scale of two bytes, then limbs of nine digits in four bytes each, lowest first
//! ```
//!
//! Invariants:
//! 1. One value with one scale has one encoding.
//! 2. Twenty digits take at most twelve bytes.
//! 3. Bytes that are no encoding decode as NaN: checksums are what finds damage, and a reader must not fall
//!    over.

use super::dec::Dec;
use super::mag::Mag;
use super::{Big, Infinity, LONGEST_PACKED, MAX_SCALE, NaN, NegInfinity, Numeric, Small, cmp_small};
use std::cmp::Ordering;

const HEAD_NAN: u8 = 128;
const HEAD_INFINITY: u8 = 129;
const HEAD_NEG_INFINITY: u8 = 130;
const HEAD_WIDE_SCALE: u8 = 131;
const HEAD_POSITIVE: u8 = 132;
const HEAD_NEGATIVE: u8 = 133;

/// A mantissa of up to eight bytes.
#[inline]
fn read_i64(b: &[u8]) -> i64 {
    let n = b.len();
    let raw = if n >= 4 {
        // Two reads that overlap cover four to eight bytes.
        let low = u32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        let high = u32::from_le_bytes([b[n - 4], b[n - 3], b[n - 2], b[n - 1]]);
        u64::from(low) | u64::from(high) << (8 * (n - 4))
    } else {
        match *b {
            [] => return 0,
            [a] => u64::from(a),
            [a, b] => u64::from(u16::from_le_bytes([a, b])),
            _ => u64::from(b[0]) | u64::from(b[1]) << 8 | u64::from(b[2]) << 16,
        }
    };
    let unused = 64 - 8 * n as u32;
    (raw << unused) as i64 >> unused
}

#[inline]
fn read_mantissa(b: &[u8]) -> Option<i128> {
    if b.len() <= 8 {
        return Some(i128::from(read_i64(b)));
    }
    if b.len() > 16 {
        return None;
    }
    let (low, high) = b.split_at(8);
    let low = u64::from_le_bytes(low.try_into().ok()?);
    let m = i128::from(read_i64(high)) << 64 | i128::from(low);
    (m != i128::MIN).then_some(m)
}

/// The mantissa and scale of an inline value.
#[inline]
pub(super) fn read_small(b: &[u8]) -> Option<(i128, u16)> {
    match b {
        [scale @ 0..=127, m @ ..] => Some((read_mantissa(m)?, u16::from(*scale))),
        [HEAD_WIDE_SCALE, s0, s1, m @ ..] => {
            let scale = u16::from_le_bytes([*s0, *s1]);
            (scale as usize <= MAX_SCALE).then_some((read_mantissa(m)?, scale))
        }
        _ => None,
    }
}

/// The mantissa and scale of an inline value of up to eight bytes.
#[inline]
pub(super) fn read_short(b: &[u8]) -> Option<(i64, u32)> {
    match b {
        [scale @ 0..=127, m @ ..] if m.len() <= 8 => Some((read_i64(m), u32::from(*scale))),
        _ => None,
    }
}

/// Whether the stored form is surely of a number of that scale with at most `precision` digits.
#[inline]
pub(crate) fn is_within(b: &[u8], precision: u32, scale: i32) -> bool {
    let Some((m, s)) = read_small(b) else { return false };
    i32::from(s) == scale && 10u128.checked_pow(precision).is_some_and(|limit| m.unsigned_abs() < limit)
}

fn write_mantissa(m: i128, out: &mut Vec<u8>) {
    if m == 0 {
        return;
    }
    // All bits that differ from the sign, and the sign.
    let bits = 129 - (m ^ (m >> 127)).leading_zeros() as usize;
    out.extend_from_slice(&m.to_le_bytes()[..bits.div_ceil(8)]);
}

/// The stored form of an inline value of up to eight bytes, or of NaN; gives its length.
#[inline]
pub(super) fn write_packed(units: Option<i64>, scale: u16, out: &mut [u8; LONGEST_PACKED]) -> usize {
    let Some(m) = units else {
        out[0] = HEAD_NAN;
        return 1;
    };
    let head = if scale <= 127 {
        out[0] = scale as u8;
        1
    } else {
        out[0] = HEAD_WIDE_SCALE;
        out[1..3].copy_from_slice(&scale.to_le_bytes());
        3
    };
    out[head..head + 8].copy_from_slice(&m.to_le_bytes());
    // All bits that differ from the sign, and the sign.
    let bits = 65 - (m ^ (m >> 63)).leading_zeros() as usize;
    head + if m == 0 { 0 } else { bits.div_ceil(8) }
}

impl Numeric {
    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Small { m, scale } => {
                if *scale <= 127 {
                    out.push(*scale as u8);
                } else {
                    out.push(HEAD_WIDE_SCALE);
                    out.extend_from_slice(&scale.to_le_bytes());
                }
                write_mantissa(*m, out);
            }
            Big(d) => {
                out.push(if d.neg { HEAD_NEGATIVE } else { HEAD_POSITIVE });
                out.extend_from_slice(&(d.scale as u16).to_le_bytes());
                for limb in d.mag.limbs() {
                    out.extend_from_slice(&limb.to_le_bytes());
                }
            }
            NaN => out.push(HEAD_NAN),
            Infinity => out.push(HEAD_INFINITY),
            NegInfinity => out.push(HEAD_NEG_INFINITY),
        }
    }

    /// Reads the stored form; NaN for bytes that are none (invariant 3).
    #[inline]
    pub fn decode(b: &[u8]) -> Numeric {
        match read_small(b) {
            Some((m, scale)) => Numeric(Small { m, scale }),
            None => decode_rest(b).unwrap_or(Numeric::NAN),
        }
    }

    /// The mantissa and scale of the stored form of an inline value.
    #[inline]
    pub fn scaled(b: &[u8]) -> Option<(i128, u16)> {
        match read_short(b) {
            Some((m, scale)) => Some((m.into(), scale as u16)),
            None => read_small(b),
        }
    }

    /// Compares stored forms without decoding the usual ones.
    #[inline]
    pub fn cmp_encoded(a: &[u8], b: &[u8]) -> Ordering {
        match (read_small(a), read_small(b)) {
            (Some((a, s)), Some((b, t))) => cmp_small(a, s, b, t),
            _ => Numeric::decode(a).cmp(&Numeric::decode(b)),
        }
    }

    /// Adds a stored value to this one.
    #[inline]
    pub fn add_encoded(&mut self, b: &[u8]) {
        if let (Small { m, scale }, Some((n, t))) = (&mut self.0, read_small(b))
            && *scale == t
            && let Some(sum) = m.checked_add(n).filter(|m| *m != i128::MIN)
        {
            *m = sum;
            return;
        }
        *self = self.add_wide(&Numeric::decode(b))
    }
}

fn decode_rest(b: &[u8]) -> Option<Numeric> {
    match b {
        [HEAD_INFINITY] => Some(Numeric::INFINITY),
        [HEAD_NEG_INFINITY] => Some(Numeric::NEG_INFINITY),
        [head @ (HEAD_POSITIVE | HEAD_NEGATIVE), s0, s1, limbs @ ..] if limbs.len() % 4 == 0 => {
            let limbs = limbs.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
            let scale = u16::from_le_bytes([*s0, *s1]) as usize;
            Numeric::checked(Dec { neg: *head == HEAD_NEGATIVE, mag: Mag::from_limbs(limbs)?, scale }).ok()
        }
        _ => None,
    }
}
