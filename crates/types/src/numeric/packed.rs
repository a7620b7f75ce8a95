//! A NUMERIC as one word: the form of columns declared numeric(p, s) whose every value fits it.
//!
//! ```text
//! word = value * 10^scale      the scale is the column's, and not in the word
//! ```
//!
//! Invariants:
//! 1. A word is within ±(10^18 - 1), or it is [`Packed::NAN`]'s. Any other word reads as NaN: checksums are
//!    what finds damage, and a reader must not fall over.
//! 2. NaN's word is the greatest, so of one scale words are ordered as their values are.
//! 3. The value is shown with exactly `scale` decimals, as every value of such a column is: so the form loses
//!    nothing.
//! 4. There is no word for an infinity, which a numeric(p, s) cannot hold.

use super::code::{read_short, read_small, write_packed};
use super::form::write_scaled;
use super::{MAX_SCALE, NaN, Numeric, POW10, Small, cmp_small};
use crate::Type;
use crate::text::Out;
use std::cmp::Ordering;

/// Digits of a word at most.
const DIGITS: i32 = 18;
/// What a word stays below, whatever its sign.
const LIMIT: u64 = 10u64.pow(DIGITS as u32);
/// Bytes of the longest stored form: a head, a scale of two bytes, a mantissa.
pub const LONGEST: usize = 11;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packed {
    word: i64,
    /// As wide as the place it takes: copied with what would lie beside it, two bytes that were just written
    /// make the processor wait.
    scale: u64,
}

impl Type {
    /// The scale of the words that values of the type can be kept as; `None` where some value would not fit.
    /// A negative scale leaves zeros at the end, which count as digits here.
    pub fn packed_scale(self) -> Option<u16> {
        let (precision, scale) = self.numeric_mod()?;
        let digits = precision as i32 + (-scale).max(0);
        (digits <= DIGITS).then_some(scale.max(0) as u16)
    }
}

impl Packed {
    /// The word of NaN.
    const NAN: i64 = i64::MAX;

    /// A word as a row has it; NaN where word or scale is none that a row can have.
    #[inline(always)]
    pub fn new(word: i64, scale: u16) -> Packed {
        let is_one = word.unsigned_abs() < LIMIT && scale as usize <= MAX_SCALE;
        Packed { word: if is_one { word } else { Packed::NAN }, scale: scale.into() }
    }

    #[inline(always)]
    pub fn word(self) -> i64 {
        self.word
    }

    #[inline(always)]
    pub fn scale(self) -> u16 {
        self.scale as u16
    }

    /// The value times `10^scale`; nothing of NaN.
    #[inline(always)]
    pub fn units(self) -> Option<i64> {
        (self.word != Packed::NAN).then_some(self.word)
    }

    #[inline]
    pub fn numeric(self) -> Numeric {
        Numeric(match self.units() {
            Some(m) => Small { m: m.into(), scale: self.scale() },
            None => NaN,
        })
    }

    /// `None` unless the value with that scale is the same, and fits a word.
    fn scaled(m: i128, own: u16, scale: u16) -> Option<Packed> {
        if m == 0 {
            return Some(Packed { word: 0, scale: scale.into() });
        }
        let factor = i128::try_from(*POW10.get(usize::from(own.abs_diff(scale)))?).ok()?;
        let m = if own <= scale {
            m.checked_mul(factor)?
        } else if m % factor == 0 {
            m / factor
        } else {
            return None;
        };
        let word = i64::try_from(m).ok().filter(|w| w.unsigned_abs() < LIMIT)?;
        Some(Packed { word, scale: scale.into() })
    }

    /// The value in a column of that scale. `None` where it is not one of such a column's.
    pub fn of(n: &Numeric, scale: u16) -> Option<Packed> {
        match n.0 {
            Small { m, scale: own } => Packed::scaled(m, own, scale),
            NaN => Some(Packed { word: Packed::NAN, scale: scale.into() }),
            _ => None,
        }
    }

    /// The same of a stored form.
    #[inline]
    pub fn of_encoded(b: &[u8], scale: u16) -> Option<Packed> {
        match read_short(b) {
            Some((word, own)) if own == u32::from(scale) && word.unsigned_abs() < LIMIT => {
                Some(Packed { word, scale: scale.into() })
            }
            _ => Packed::of(&Numeric::decode(b), scale),
        }
    }

    /// The same value in a column of another scale, if it is one of such a column's.
    #[inline]
    pub fn with_scale(self, scale: u16) -> Option<Packed> {
        match self.units() {
            _ if self.scale() == scale => Some(self),
            None => Some(Packed { scale: scale.into(), ..self }),
            Some(m) => Packed::scaled(m.into(), self.scale(), scale),
        }
    }

    /// The stored form, in the buffer.
    #[inline]
    pub fn encoded(self, buffer: &mut [u8; LONGEST]) -> &[u8] {
        let len = write_packed(self.units(), self.scale(), buffer);
        &buffer[..len]
    }

    /// Appends the stored form.
    #[inline]
    pub fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.encoded(&mut [0; LONGEST]))
    }

    /// Whether a cast to the type surely leaves it as it is.
    #[inline]
    pub(crate) fn stays(self, to: Type) -> bool {
        let Some((precision, scale)) = to.numeric_mod() else { return true };
        let limit = POW10.get(precision as usize).copied().unwrap_or(u128::MAX);
        i32::from(self.scale()) == scale && self.units().is_some_and(|m| u128::from(m.unsigned_abs()) < limit)
    }

    /// Appends the text PostgreSQL shows.
    #[inline]
    pub fn write(self, out: &mut impl Out) {
        match self.units() {
            Some(m) => write_scaled(m, self.scale().into(), out),
            None => out.ascii(b"NaN"),
        }
    }

    /// The order of two values.
    #[inline]
    pub fn order(self, other: Packed) -> Ordering {
        match (self.units(), other.units()) {
            _ if self.scale == other.scale => self.word.cmp(&other.word),
            (Some(a), Some(b)) => cmp_small(a.into(), self.scale(), b.into(), other.scale()),
            (a, b) => a.is_none().cmp(&b.is_none()),
        }
    }

    /// The order of a value and one in its stored form.
    #[inline]
    pub fn order_encoded(self, b: &[u8]) -> Ordering {
        match (self.units(), read_small(b)) {
            (Some(m), Some((n, scale))) => cmp_small(m.into(), self.scale(), n, scale),
            _ => self.numeric().cmp(&Numeric::decode(b)),
        }
    }
}

impl Numeric {
    /// Adds a packed value to this one.
    #[inline]
    pub fn add_packed(&mut self, p: Packed) {
        if let (Small { m, scale }, Some(n)) = (&mut self.0, p.units())
            && *scale == p.scale()
            && let Some(sum) = m.checked_add(n.into()).filter(|m| *m != i128::MIN)
        {
            *m = sum;
            return;
        }
        *self = self.add_wide(&p.numeric())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::compare;
    use crate::{TypeId, ValueRef};
    use std::hash::Hasher;

    /// The least number of 128 bits is no mantissa (numeric/mod, invariant 1).
    #[test]
    fn sums_at_the_end_of_what_is_small() {
        for (least, word) in [(i128::MIN + 1, -1), (i128::MAX, 1), (i128::MIN + 1, 1)] {
            let mut sum = Numeric::from_scaled(least, 2);
            let other = sum.clone().add(&Numeric::from_scaled(word.into(), 2)).unwrap();
            sum.add_packed(Packed::new(word, 2));
            let mut bytes = vec![];
            sum.encode(&mut bytes);
            assert_eq!(sum.to_string(), other.to_string());
            assert_eq!(Numeric::decode(&bytes).to_string(), other.to_string());
        }
        assert!(Packed::new(1, u16::MAX).units().is_none());
    }

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*state >> 11) ^ (*state << 31)
    }

    fn declared(precision: i32, scale: i32) -> Type {
        Type::with(TypeId::NUMERIC, (precision << 16 | scale & 0x7ff) + 4)
    }

    fn hashed(v: ValueRef<'_>) -> u64 {
        let mut h = std::hash::DefaultHasher::new();
        crate::value::hash_value(v, &mut h);
        h.finish()
    }

    fn key(v: ValueRef<'_>) -> Vec<u8> {
        let mut key = vec![];
        crate::key::encode(v, TypeId::NUMERIC, false, false, true, &mut key);
        key
    }

    /// The value, its scale and its stored form.
    fn shown(n: &Numeric) -> (String, Option<u16>, Vec<u8>) {
        let mut bytes = vec![];
        n.encode(&mut bytes);
        (n.to_string(), n.scale(), bytes)
    }

    #[test]
    fn the_types_that_are_packed() {
        for (precision, scale, want) in [
            (1, 0, Some(0)),
            (18, 0, Some(0)),
            (18, 18, Some(18)),
            (19, 0, None),
            (19, 2, None),
            (1000, 0, None),
            (3, 5, Some(5)),
            (18, 1000, Some(1000)),
            (16, -2, Some(0)),
            (17, -2, None),
            (1, -17, Some(0)),
            (1, -18, None),
        ] {
            assert_eq!(declared(precision, scale).packed_scale(), want, "numeric({precision},{scale})");
        }
        assert_eq!(Type::new(TypeId::NUMERIC).packed_scale(), None);
        assert_eq!(Type::INT8.packed_scale(), None);
    }

    /// Of every type that is packed, values at the edges, near zero and between come back as they went, in
    /// each way of reading them: NaN, zero, and what rounds to the greatest.
    #[test]
    fn what_is_packed_comes_back() {
        let mut seed = 0x7061_636b;
        let mut tried = 0;
        for precision in 1..=18 {
            for scale in [-18, -17, -3, -2, -1, 30, 127, 128, 1000].into_iter().chain(0..=20) {
                let ty = declared(precision, scale);
                let Some(s) = ty.packed_scale() else { continue };
                let top = 10i128.pow(precision as u32) - 1;
                let mut units = vec![0, 1, -1, top, -top, top - 1, top / 2, -(top / 3)];
                units.extend((0..20).map(|_| i128::from(random(&mut seed) as i64) % (top + 1)));
                let zeros = 10i128.pow((-scale).max(0) as u32);
                let finite = units.into_iter().map(|u| Numeric::from_scaled(u * zeros, s));
                for n in finite.chain([Numeric::NAN]) {
                    let n = n.apply_typmod(precision as u32, scale).unwrap();
                    let p = Packed::of(&n, s).unwrap_or_else(|| panic!("{n} as {ty}"));
                    assert_eq!(shown(&p.numeric()), shown(&n), "{ty}");
                    assert_eq!(Packed::new(p.word(), s), p);
                    let bytes = shown(&n).2;
                    assert_eq!(Packed::of_encoded(&bytes, s), Some(p));
                    let mut again = vec![];
                    p.encode(&mut again);
                    assert_eq!(again, bytes, "{n} as {ty}");
                    let mut text = String::new();
                    p.write(&mut text);
                    assert_eq!(text, n.to_string(), "{ty}");
                    // A NaN is left to the cast, which leaves it as it is as well.
                    assert_eq!(p.stays(ty), !n.is_nan() && i32::from(s) == scale, "{n} as {ty}");
                    tried += 1;
                }
            }
        }
        assert!(tried > 10_000, "{tried}");
    }

    #[test]
    fn what_is_no_value_of_the_column_is_refused() {
        let n = |text: &str| Numeric::parse(text).unwrap();
        for (text, scale, want) in [
            ("1.5", 2, Some(150)),
            ("1.500", 2, Some(150)),
            ("-1.505", 2, None),
            ("0.00000", 0, Some(0)),
            ("0", 1000, Some(0)),
            ("1e-30", 30, Some(1)),
            ("1", 18, None),
            ("-0.999999999999999999", 18, Some(1 - 10i64.pow(18))),
            ("999999999999999999", 0, Some(10i64.pow(18) - 1)),
            ("1000000000000000000", 0, None),
            ("-1000000000000000000", 0, None),
            ("1e40", 0, None),
            ("Infinity", 0, None),
            ("-Infinity", 5, None),
            ("NaN", 3, Some(i64::MAX)),
        ] {
            let bytes = shown(&n(text)).2;
            assert_eq!(Packed::of(&n(text), scale).map(Packed::word), want, "{text}");
            assert_eq!(Packed::of_encoded(&bytes, scale).map(Packed::word), want, "{text}");
        }
        let of = |word| Packed::new(word, 2);
        assert_eq!(of(150).with_scale(1).map(Packed::word), Some(15));
        assert_eq!(of(155).with_scale(1), None);
        assert_eq!(of(155).with_scale(4).map(Packed::word), Some(15500));
        assert_eq!(of(10i64.pow(17)).with_scale(3), None);
        assert_eq!(of(Packed::NAN).with_scale(3).map(Packed::word), Some(Packed::NAN));
        assert_eq!(of(155).with_scale(2), Some(of(155)));
    }

    /// Invariant 1.
    #[test]
    fn words_that_mean_nothing_read_as_nan() {
        let limit = 10i64.pow(18);
        for word in [limit, -limit, i64::MIN, i64::MAX, limit + 1, i64::MIN + 1] {
            let p = Packed::new(word, 2);
            assert!(p.numeric().is_nan() && p.units().is_none(), "{word}");
            assert_eq!(p, Packed::new(i64::MAX, 2));
        }
        assert_eq!(Packed::new(limit - 1, 0).units(), Some(limit - 1));
        assert_eq!(Packed::new(1 - limit, 0).units(), Some(1 - limit));
    }

    /// Packed values, among themselves and with others, are ordered, hashed and added as NUMERICs are, and
    /// have their keys.
    #[test]
    fn packed_values_behave_as_the_numerics_that_they_are() {
        let mut seed = 77;
        let word = |r: u64| match r % 8 {
            0 => Packed::NAN,
            1 => 10i64.pow(18) - 1,
            2 => 1 - 10i64.pow(18),
            3 => (r >> 32) as i64 % 20 * 10i64.pow((r >> 8) as u32 % 16),
            4 => (r as i64) % 10i64.pow(18),
            _ => (r >> 32) as i64 % 21 - 10,
        };
        let mut sum = (Numeric::ZERO, Numeric::ZERO);
        for _ in 0..20_000 {
            let mut one = || {
                let p = Packed::new(
                    word(random(&mut seed)),
                    [0, 0, 2, 2, 3, 18, 40][random(&mut seed) as usize % 7],
                );
                (p, p.numeric(), shown(&p.numeric()).2)
            };
            let ((p, a, _), (q, b, encoded)) = (one(), one());
            assert_eq!(p.order(q), a.cmp(&b), "{a} {b}");
            assert_eq!(p.order_encoded(&encoded), a.cmp(&b), "{a} {b}");
            let (packed, stored) = (ValueRef::Packed(p), ValueRef::Numeric(&encoded));
            for (x, y) in [(packed, stored), (packed, ValueRef::Packed(q))] {
                assert_eq!(compare(x, y), a.cmp(&b), "{a} {b}");
                assert_eq!(compare(y, x), b.cmp(&a), "{a} {b}");
            }
            // Of another scale and in the longer form, it is the same.
            let same = a.round(i32::from(p.scale()) + 3).unwrap();
            let same = shown(&same).2;
            let same = ValueRef::Numeric(&same);
            assert_eq!(compare(packed, same), Ordering::Equal, "{a}");
            assert_eq!(hashed(packed), hashed(same), "{a}");
            assert_eq!(key(packed), key(same), "{a}");
            assert_eq!(key(packed).cmp(&key(stored)), a.cmp(&b), "{a} {b}");
            if !a.is_nan() {
                sum.0.add_packed(p);
                sum.1 = sum.1.add_wide(&a);
                assert_eq!(shown(&sum.0), shown(&sum.1));
            }
        }
        let mut nan = Numeric::ONE;
        nan.add_packed(Packed::new(Packed::NAN, 2));
        assert!(nan.is_nan());
    }
}
