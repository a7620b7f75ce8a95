//! Normalised keys: bytes that compare as the values do.
//!
//! The keys of an index's columns are put one behind the other; indexes compare the whole with `memcmp` and
//! know no types.
//!
//! ```text
//! [null byte] body            the null byte only for columns that may be NULL
//! bool                        1 byte
//! int2, int4, date, int8,     2, 4, 4, 8, 8 bytes, highest first, sign bit turned over
//!   timestamp, timestamptz
//! float8                      8 bytes: sign bit turned over if positive, all bits if negative
//! text, varchar, char, bytea  bytes, 00 and 01 escaped as 01 01 and 01 02; 00 ends; char has no
//!                             trailing blanks
//! types of the catalog        what their form makes of them
//! numeric                     head, exponent, pairs of digits, end: see below
//! ```
//!
//! A numeric is `0.p1 p2 p3 ... * 100^e` with pairs of digits `p` from 0 to 99, p1 and the last not zero. The
//! head tells -Infinity, negative, zero, positive, Infinity and NaN apart, and the exponents from -32 to 63
//! with them; other exponents follow in three bytes. A pair is its value plus one, a zero byte ends them; all
//! of it after the head is turned over in a negative number. The scale is not in the key.
//!
//! Invariants:
//! 1. For two rows, the comparison of the concatenated keys is PostgreSQL's comparison of the columns in
//!    turn.
//! 2. Keys are equal exactly if [`crate::value::compare`] finds the values equal, for every column; of char
//!    without their trailing blanks ([`crate::cast`], invariant 4).
//! 3. No key of a column is a proper prefix of another of that column: so what follows cannot change the
//!    order.
//! 4. A type has one width ([`width`]) or its keys end themselves.
//!
//! Sources: the technique is that of "normalized keys" (Härder 1977; Graefe, Modern B-Tree Techniques, 2011);
//! the numeric form resembles SQLite 4's key encoding.

use crate::ty::Class;
use crate::{Numeric, TypeId, ValueRef, cast};

const NULL_FIRST: u8 = 0;
const NOT_NULL: u8 = 1;
const NULL_LAST: u8 = 2;

const STRING_END: u8 = 0;
const STRING_ESCAPE: u8 = 1;

/// Appends a column's key. `desc` turns the order of the values over; `nulls_first` says where NULLs go in
/// the result, whatever `desc` is. A NULL in a column that is said to have none sorts where `nulls_first`
/// says, with a key of a NULL; callers check first.
#[inline]
pub fn encode(v: ValueRef<'_>, ty: TypeId, desc: bool, nulls_first: bool, not_null: bool, out: &mut Vec<u8>) {
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
        ValueRef::Text(s) if ty == TypeId::BPCHAR => push_string(cast::bare(s.as_bytes()), out),
        ValueRef::Text(s) => push_string(s.as_bytes(), out),
        ValueRef::Bytea(b) => push_string(b, out),
        ValueRef::Numeric(b) => push_numeric(&Numeric::decode(b), out),
        ValueRef::Packed(p) => push_numeric(&p.numeric(), out),
        ValueRef::Opaque(ty, b) => {
            if let Some(form) = ty.form() {
                form.key.push(b, out)
            }
        }
    }
    if desc {
        out[start..].iter_mut().for_each(|b| *b = !*b);
    }
}

/// The bytes every key of the type takes; `None` if keys differ in length.
pub fn width(ty: TypeId, not_null: bool) -> Option<usize> {
    let body = match ty.class() {
        Class::Bool => 1,
        Class::Int2 => 2,
        Class::Int4 | Class::Date => 4,
        Class::Int8 | Class::Timestamp | Class::Timestamptz | Class::Float8 => 8,
        Class::Opaque(form) => form.key.width()?,
        Class::None | Class::Numeric | Class::Text | Class::Bytea => return None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::compare;
    use crate::{Value, datetime};
    use std::cmp::Ordering;

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*state >> 11) ^ (*state << 31)
    }

    /// Values of a type, many of them near each other and at the ends of their range.
    fn random_value(ty: TypeId, s: &mut u64) -> Value {
        let r = random(s);
        let pick = random(s) % 4;
        // A number of few bits, or an extreme one.
        let int = |bits: u32| match pick {
            0 => [i64::MIN, i64::MAX, 0, -1, 1][r as usize % 5] >> (64 - bits),
            1 => (r as i64) >> (64 - bits),
            _ => (r % 7) as i64 - 3,
        };
        match ty {
            TypeId::BOOL => Value::Bool(r & 1 == 0),
            TypeId::INT2 => Value::Int2(int(16) as i16),
            TypeId::INT4 => Value::Int4(int(32) as i32),
            TypeId::DATE => Value::Date(int(32) as i32),
            TypeId::INT8 => Value::Int8(int(64)),
            TypeId::TIMESTAMP => Value::Timestamp(int(64)),
            TypeId::TIMESTAMPTZ => Value::Timestamptz(int(64)),
            TypeId::FLOAT8 => Value::Float8(match pick {
                0 => {
                    [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324][r as usize % 7]
                }
                1 => f64::from_bits(r),
                _ => (r % 9) as f64 - 4.0,
            }),
            TypeId::NUMERIC => {
                let digits = ["0", "1", "10", "99", "100", "1000", "5", "123456789012345678901234567890"];
                let d = digits[r as usize % digits.len()];
                let exponent = [0, 0, 0, 1, -1, -2, 3, -63, -64, -65, -66, 125, 126, 127, 128, -300, 300]
                    [random(s) as usize % 17];
                let text = match random(s) % 20 {
                    0 => "NaN".to_string(),
                    1 => "inf".to_string(),
                    2 => "-inf".to_string(),
                    sign => format!("{}{d}.{}e{exponent}", if sign % 2 == 0 { "-" } else { "" }, r % 3 * 50),
                };
                Value::Numeric(Numeric::parse(&text).unwrap())
            }
            TypeId::BYTEA => {
                Value::Bytea((0..random(s) % 5).map(|_| [0, 0, 1, 2, 255][random(s) as usize % 5]).collect())
            }
            _ => Value::Text(
                (0..random(s) % 5)
                    .map(|_| ['\0', '\u{1}', '\u{2}', 'a', 'b', 'é', ' '][random(s) as usize % 7])
                    .collect(),
            ),
        }
    }

    const TYPES: [TypeId; 12] = [
        TypeId::BOOL,
        TypeId::INT2,
        TypeId::INT4,
        TypeId::INT8,
        TypeId::FLOAT8,
        TypeId::NUMERIC,
        TypeId::VARCHAR,
        TypeId::TEXT,
        TypeId::BYTEA,
        TypeId::DATE,
        TypeId::TIMESTAMP,
        TypeId::TIMESTAMPTZ,
    ];

    #[derive(Clone, Copy)]
    struct Column {
        ty: TypeId,
        desc: bool,
        nulls_first: bool,
        not_null: bool,
    }

    impl Column {
        fn encode(&self, v: &Value, out: &mut Vec<u8>) {
            let mut scratch = Vec::new();
            encode(v.as_ref(&mut scratch), self.ty, self.desc, self.nulls_first, self.not_null, out);
        }

        /// The order the column asks for, from the values.
        fn order(&self, a: &Value, b: &Value) -> Ordering {
            let (mut x, mut y) = (Vec::new(), Vec::new());
            match (a.is_null(), b.is_null()) {
                (true, true) => Ordering::Equal,
                (true, false) if self.nulls_first => Ordering::Less,
                (true, false) => Ordering::Greater,
                (false, true) => self.order(b, a).reverse(),
                (false, false) if self.desc => compare(b.as_ref(&mut x), a.as_ref(&mut y)),
                (false, false) => compare(a.as_ref(&mut x), b.as_ref(&mut y)),
            }
        }
    }

    /// Invariants 1 to 4, over rows of one to three columns of any type.
    #[test]
    fn keys_compare_as_rows_do() {
        let mut s = 42;
        for _ in 0..60_000 {
            let columns: Vec<Column> = (0..1 + random(&mut s) % 3)
                .map(|_| {
                    let r = random(&mut s);
                    Column {
                        ty: TYPES[r as usize % TYPES.len()],
                        desc: r & 1 << 40 == 0,
                        nulls_first: r & 1 << 41 == 0,
                        not_null: r & 1 << 42 == 0,
                    }
                })
                .collect();
            let row = |s: &mut u64| -> Vec<Value> {
                let value = |c: &Column, s: &mut u64| {
                    if !c.not_null && random(s).is_multiple_of(5) {
                        Value::Null
                    } else {
                        random_value(c.ty, s)
                    }
                };
                columns.iter().map(|c| value(c, s)).collect()
            };
            let a = row(&mut s);
            let mut b = row(&mut s);
            // Often the rows share their first column.
            if random(&mut s).is_multiple_of(2) {
                b[0] = a[0].clone();
            }
            let key = |row: &[Value]| {
                let mut out = Vec::new();
                for (c, v) in columns.iter().zip(row) {
                    let start = out.len();
                    c.encode(v, &mut out);
                    if let Some(w) = width(c.ty, c.not_null) {
                        assert_eq!(out.len() - start, w);
                    }
                }
                out
            };
            let order = columns.iter().zip(a.iter().zip(&b)).map(|(c, (x, y))| c.order(x, y));
            let expected = order.fold(Ordering::Equal, Ordering::then);
            assert_eq!(key(&a).cmp(&key(&b)), expected, "{a:?} {b:?}");
        }
    }

    /// Invariant 3: no key begins another.
    #[test]
    fn no_key_begins_another() {
        let mut s = 17;
        for ty in TYPES {
            let c = Column { ty, desc: false, nulls_first: false, not_null: true };
            let keys: Vec<Vec<u8>> = (0..400)
                .map(|_| {
                    let mut out = Vec::new();
                    c.encode(&random_value(ty, &mut s), &mut out);
                    out
                })
                .collect();
            for a in &keys {
                for b in &keys {
                    assert!(a == b || !b.starts_with(a), "{ty}: {a:?} {b:?}");
                }
            }
        }
    }

    #[test]
    fn widths_are_those_of_the_values() {
        assert_eq!(width(TypeId::INT2, true), Some(2));
        assert_eq!(width(TypeId::INT4, true), Some(4));
        assert_eq!(width(TypeId::DATE, true), Some(4));
        assert_eq!(width(TypeId::INT8, true), Some(8));
        assert_eq!(width(TypeId::TIMESTAMPTZ, false), Some(9));
        assert_eq!(width(TypeId::NUMERIC, true), None);
        let mut out = Vec::new();
        encode(ValueRef::Date(datetime::DATE_INFINITY), TypeId::DATE, false, false, true, &mut out);
        assert_eq!(out, [0xff; 4]);
        let mut key = Vec::new();
        let mut numeric = Vec::new();
        Numeric::parse("12345.67").unwrap().encode(&mut numeric);
        encode(ValueRef::Numeric(&numeric), TypeId::NUMERIC, false, false, true, &mut key);
        assert_eq!(key.len(), 6, "a head, four pairs, an end");
    }
}
