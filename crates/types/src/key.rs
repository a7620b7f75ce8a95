//! Normalised keys: bytes that compare as the values do.
//!
//! The keys of an index's columns are put one behind the other; indexes compare the whole with `memcmp` and know no
//! types.
//!
//! ```text
//! [null byte] body            the null byte only for columns that may be NULL
//! bool                        1 byte
//! int2, int4, date, int8,     2, 4, 4, 8, 8 bytes, highest first, sign bit turned over
//!   timestamp, timestamptz
//! float8                      8 bytes: sign bit turned over if positive, all bits if negative
//! text, varchar, char, bytea  bytes, 00 and 01 escaped as 01 01 and 01 02; 00 ends
//! numeric                     head, exponent, pairs of digits, end: see below
//! ```
//!
//! A numeric is `0.p1 p2 p3 ... * 100^e` with pairs of digits `p` from 0 to 99, p1 and the last not zero. The head
//! tells -Infinity, negative, zero, positive, Infinity and NaN apart, and the exponents from -32 to 63 with them;
//! other exponents follow in three bytes. A pair is its value plus one, a zero byte ends them; all of it after the
//! head is turned over in a negative number. The scale is not in the key.
//!
//! Invariants:
//! 1. For two rows, the comparison of the concatenated keys is PostgreSQL's comparison of the columns in turn.
//! 2. Keys are equal exactly if [`crate::value::compare`] finds the values equal, for every column.
//! 3. No key of a column is a proper prefix of another of that column: so what follows cannot change the order.
//! 4. A type has one width ([`width`]) or its keys end themselves.
//!
//! Sources: the technique is that of "normalized keys" (Härder 1977; Graefe, Modern B-Tree Techniques, 2011); the
//! numeric form resembles SQLite 4's key encoding.

use crate::{Numeric, TypeId, ValueRef};

const NULL_FIRST: u8 = 0;
const NOT_NULL: u8 = 1;
const NULL_LAST: u8 = 2;

const STRING_END: u8 = 0;
const STRING_ESCAPE: u8 = 1;

/// Appends a column's key. `desc` turns the order of the values over; `nulls_first` says where NULLs go in the
/// result, whatever `desc` is. A NULL in a column that is said to have none sorts where `nulls_first` says, with
/// a key of a NULL; callers check first.
#[inline]
pub fn encode(
    v: ValueRef<'_>,
    ty: TypeId,
    desc: bool,
    nulls_first: bool,
    not_null: bool,
    out: &mut Vec<u8>,
) {
    if v.is_null() {
        out.push(if nulls_first { NULL_FIRST } else { NULL_LAST });
        // A fixed width stays fixed.
        let body = width(ty, true).unwrap_or(0);
        out.resize(out.len() + body, 0);
        return;
    }
    if !not_null {
        out.push(NOT_NULL);
    }
    let start = out.len();
    match v {
        ValueRef::Null => {}
        ValueRef::Bool(b) => out.push(u8::from(b)),
        ValueRef::Int2(i) => out.extend_from_slice(&(i as u16 ^ 1 << 15).to_be_bytes()),
        ValueRef::Int4(i) | ValueRef::Date(i) => out.extend_from_slice(&(i as u32 ^ 1 << 31).to_be_bytes()),
        ValueRef::Int8(i) | ValueRef::Timestamp(i) | ValueRef::Timestamptz(i) => {
            out.extend_from_slice(&(i as u64 ^ 1 << 63).to_be_bytes());
        }
        ValueRef::Float8(f) => out.extend_from_slice(&float_bits(f).to_be_bytes()),
        ValueRef::Text(s) => push_string(s.as_bytes(), out),
        ValueRef::Bytea(b) => push_string(b, out),
        ValueRef::Numeric(b) => push_numeric(&Numeric::decode(b), out),
    }
    if desc {
        out[start..].iter_mut().for_each(|b| *b = !*b);
    }
}

/// The bytes every key of the type takes; `None` if keys differ in length.
pub fn width(ty: TypeId, not_null: bool) -> Option<usize> {
    let body = match ty {
        TypeId::Bool => 1,
        TypeId::Int2 => 2,
        TypeId::Int4 | TypeId::Date => 4,
        TypeId::Int8 | TypeId::Timestamp | TypeId::Timestamptz | TypeId::Float8 => 8,
        TypeId::Unknown
        | TypeId::Numeric
        | TypeId::Bpchar
        | TypeId::Varchar
        | TypeId::Text
        | TypeId::Bytea
        | TypeId::Void => return None,
    };
    Some(body + usize::from(!not_null))
}

/// Bits that compare as unsigned numbers the way the floats do: one zero, and one NaN above infinity.
fn float_bits(f: f64) -> u64 {
    let bits = if f.is_nan() {
        f64::NAN.to_bits() & !(1 << 63)
    } else if f == 0.0 {
        0
    } else {
        f.to_bits()
    };
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

fn push_string(mut b: &[u8], out: &mut Vec<u8>) {
    out.reserve(b.len() + 1);
    while let Some(i) = b.iter().position(|c| *c <= STRING_ESCAPE) {
        out.extend_from_slice(&b[..i]);
        out.extend_from_slice(&[STRING_ESCAPE, b[i] + 1]);
        b = &b[i + 1..];
    }
    out.extend_from_slice(b);
    out.push(STRING_END);
}

const HEAD_NEG_INFINITY: u8 = 0x01;
/// Negative with an exponent of three bytes, greater than the short ones: far from zero.
const HEAD_NEG_LARGE: u8 = 0x02;
const HEAD_NEG: u8 = 0x70;
/// Negative with an exponent of three bytes, below the short ones: near zero.
const HEAD_NEG_TINY: u8 = 0x72;
const HEAD_ZERO: u8 = 0x80;
const HEAD_POS_TINY: u8 = 0x8d;
const HEAD_POS: u8 = 0x8f;
const HEAD_POS_LARGE: u8 = 0xfd;
const HEAD_INFINITY: u8 = 0xfe;
const HEAD_NAN: u8 = 0xff;
/// The exponents that the head holds.
const SHORT: std::ops::RangeInclusive<i32> = -32..=63;

fn push_numeric(n: &Numeric, out: &mut Vec<u8>) {
    if n.is_nan() {
        return out.push(HEAD_NAN);
    }
    if n.is_infinite() {
        return out.push(if n.signum() > 0 { HEAD_INFINITY } else { HEAD_NEG_INFINITY });
    }
    if n.is_zero() {
        return out.push(HEAD_ZERO);
    }
    let neg = n.signum() < 0;
    if let Some((m, scale)) = n.as_scaled()
        && let Ok(m) = u64::try_from(m.unsigned_abs())
    {
        // The pairs from the last to the first, on the stack.
        let mut pairs = [0u8; 12];
        let mut at = pairs.len();
        let mut places = usize::from(scale);
        let mut m = m;
        if !places.is_multiple_of(2) {
            // The last digit alone is a pair's first half.
            at -= 1;
            pairs[at] = (m % 10) as u8 * 10;
            m /= 10;
            places += 1;
        }
        while m != 0 {
            at -= 1;
            pairs[at] = (m % 100) as u8;
            m /= 100;
        }
        let pairs = &pairs[at..];
        let exponent = pairs.len() as i32 - (places / 2) as i32;
        return push_pairs(neg, exponent, pairs, out);
    }
    let text = n.abs().to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut digits = Vec::with_capacity(text.len() + 2);
    if !whole.len().is_multiple_of(2) {
        digits.push(b'0');
    }
    digits.extend_from_slice(whole.as_bytes());
    let exponent = (digits.len() / 2) as i32;
    digits.extend_from_slice(fraction.as_bytes());
    if !digits.len().is_multiple_of(2) {
        digits.push(b'0');
    }
    let pairs: Vec<u8> = digits.chunks_exact(2).map(|c| (c[0] - b'0') * 10 + (c[1] - b'0')).collect();
    push_pairs(neg, exponent, &pairs, out);
}

/// Writes `0.pairs * 100^exponent`, not zero; pairs may begin and end in zeros.
fn push_pairs(neg: bool, mut exponent: i32, mut pairs: &[u8], out: &mut Vec<u8>) {
    while let [0, rest @ ..] = pairs {
        pairs = rest;
        exponent -= 1;
    }
    while let [rest @ .., 0] = pairs {
        pairs = rest;
    }
    let step = (exponent - SHORT.start()) as u8;
    let head = match (SHORT.contains(&exponent), exponent > 0) {
        (true, _) if neg => HEAD_NEG - step,
        (true, _) => HEAD_POS + step,
        (false, true) if neg => HEAD_NEG_LARGE,
        (false, true) => HEAD_POS_LARGE,
        (false, false) if neg => HEAD_NEG_TINY,
        (false, false) => HEAD_POS_TINY,
    };
    out.push(head);
    let start = out.len();
    if !SHORT.contains(&exponent) {
        let biased = (exponent + (1 << 23)) as u32;
        out.extend_from_slice(&biased.to_be_bytes()[1..]);
    }
    out.extend(pairs.iter().map(|p| p + 1));
    out.push(0);
    if neg {
        out[start..].iter_mut().for_each(|b| *b = !*b);
    }
}
