//! Exact NUMERIC with PostgreSQL's answers: NaN, the infinities, and decimals of up to 131072 digits before
//! the point and 16383 after it, each with the number of decimals it is shown with (its *scale*).
//!
//! ```text
//! Numeric ─ Small  i128 × 10^-scale          the usual values: no allocation, machine arithmetic
//!         ├ Big    limbs of nine digits      the rest
//!         └ NaN, Infinity, -Infinity
//! ```
//!
//! Invariants:
//! 1. A finite value whose magnitude times `10^scale` is at most `i128::MAX` is Small, every other is Big: so
//!    a value with its scale has one form, and negating a Small cannot overflow.
//! 2. The scale is at most [`MAX_SCALE`] and there are at most [`MAX_WHOLE_DIGITS`] digits before the point;
//!    an operation whose result would break this is an error ("value overflows numeric format").
//! 3. Values are compared and hashed without regard to scale: 1.0 = 1.00. NaN equals itself and is the
//!    greatest.
//! 4. There is no negative zero.
//!
//! The parts: [`mag`] natural numbers, [`dec`] decimals of any precision, `form` text, `code` the stored
//! form, `packed` the form of columns of few digits, `math` roots, logarithms and powers.
//!
//! Sources: PostgreSQL 15's documentation, 8.1.2 and 9.3, and its answers; the rule for a quotient's scale is
//! that of its function select_div_scale.

mod code;
pub(crate) use code::is_within;
pub mod dec;
mod form;
pub mod mag;
mod math;
mod packed;
pub use packed::{LONGEST as LONGEST_PACKED, Packed};

use crate::{SqlError, SqlResult, sqlstate};
use dec::Dec;
use mag::{Cut, Mag};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// The greatest scale.
pub const MAX_SCALE: usize = 16383;
/// The greatest number of digits before the point.
pub const MAX_WHOLE_DIGITS: usize = 131_072;
/// Significant digits that an inexact result has at least.
const MIN_SIGNIFICANT: i32 = 16;
/// The greatest scale an inexact result is given.
const MAX_RESULT_SCALE: i32 = 1000;

#[derive(Clone)]
pub struct Numeric(Repr);

#[derive(Clone)]
enum Repr {
    Small { m: i128, scale: u16 },
    Big(Box<Dec>),
    NaN,
    Infinity,
    NegInfinity,
}
use Repr::{Big, Infinity, NaN, NegInfinity, Small};

/// The powers of ten that fit.
static POW10: [u128; 39] = {
    let mut table = [1u128; 39];
    let mut i = 1;
    while i < 39 {
        table[i] = table[i - 1] * 10;
        i += 1;
    }
    table
};

fn overflow() -> SqlError {
    SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

fn division_by_zero() -> SqlError {
    SqlError::new(sqlstate::DIVISION_BY_ZERO, "division by zero")
}

/// `m * 10^k` where it fits; the common case needs no overflow check of 128 bits.
#[inline]
fn scale_up(m: i128, k: usize) -> Option<i128> {
    if k <= 18
        && let Ok(small) = i64::try_from(m)
    {
        return Some(i128::from(small) * POW10[k] as i64 as i128);
    }
    let p = i128::try_from(*POW10.get(k)?).ok()?;
    m.checked_mul(p).filter(|v| *v != i128::MIN)
}

/// Decimal digits; 0 for zero.
fn digits_of(m: u128) -> usize {
    if m == 0 { 0 } else { m.ilog10() as usize + 1 }
}

/// A magnitude divided by a power of ten.
fn cut_u128(m: u128, k: usize, cut: Cut) -> u128 {
    let Some(&p) = POW10.get(k) else {
        // 10^39 and more: half of it is greater than any i128.
        return 0;
    };
    let (q, r) = (m / p, m % p);
    if cut == Cut::Round && r >= p - r { q + 1 } else { q }
}

impl Numeric {
    pub const NAN: Numeric = Numeric(NaN);
    pub const INFINITY: Numeric = Numeric(Infinity);
    pub const NEG_INFINITY: Numeric = Numeric(NegInfinity);
    pub const ZERO: Numeric = Numeric(Small { m: 0, scale: 0 });
    pub const ONE: Numeric = Numeric(Small { m: 1, scale: 0 });

    /// `mantissa * 10^-scale`; scales beyond [`MAX_SCALE`] are rounded to it.
    #[inline]
    pub fn from_scaled(mantissa: i128, scale: u16) -> Numeric {
        if mantissa == i128::MIN || scale as usize > MAX_SCALE {
            let d = Dec::from_i128(mantissa, scale as usize);
            return Numeric::pack(d.round(MAX_SCALE.min(scale as usize)));
        }
        Numeric(Small { m: mantissa, scale })
    }

    /// How long the number is, in digits of nine.
    pub fn limbs(&self) -> usize {
        match &self.0 {
            Big(d) => d.mag.limbs().len(),
            _ => 0,
        }
    }

    /// The mantissa and scale of an inline value.
    #[inline]
    pub fn as_scaled(&self) -> Option<(i128, u16)> {
        match self.0 {
            Small { m, scale } => Some((m, scale)),
            _ => None,
        }
    }

    /// Puts a decimal within the limits into its form (invariant 1).
    fn pack(d: Dec) -> Numeric {
        debug_assert!(d.scale <= MAX_SCALE);
        Numeric::pack_wide(d)
    }

    /// The same for a decimal of any length whose scale is at most twice NUMERIC's.
    fn pack_wide(d: Dec) -> Numeric {
        debug_assert!(d.scale <= 2 * MAX_SCALE);
        match d.mag.to_u128().and_then(|m| i128::try_from(m).ok()) {
            Some(m) => Numeric(Small { m: if d.neg { -m } else { m }, scale: d.scale as u16 }),
            None => Numeric(Big(Box::new(d))),
        }
    }

    /// Checks the limits (invariant 2) and packs.
    fn checked(d: Dec) -> SqlResult<Numeric> {
        if d.scale > MAX_SCALE || d.mag.digits() > MAX_WHOLE_DIGITS + d.scale {
            return Err(overflow());
        }
        Ok(Numeric::pack(d))
    }

    /// The value as a decimal; `None` for NaN and the infinities.
    fn dec(&self) -> Option<Dec> {
        match &self.0 {
            Small { m, scale } => Some(Dec::from_i128(*m, *scale as usize)),
            Big(d) => Some((**d).clone()),
            _ => None,
        }
    }

    pub fn is_nan(&self) -> bool {
        matches!(self.0, NaN)
    }

    pub fn is_infinite(&self) -> bool {
        matches!(self.0, Infinity | NegInfinity)
    }

    pub fn is_zero(&self) -> bool {
        matches!(self.0, Small { m: 0, .. })
    }

    /// -1, 0 or 1; 0 for NaN.
    pub fn signum(&self) -> i32 {
        match &self.0 {
            Small { m, .. } => m.signum() as i32,
            Big(d) => 1 - 2 * i32::from(d.neg),
            Infinity => 1,
            NegInfinity => -1,
            NaN => 0,
        }
    }

    /// Whether nothing stands after the point but zeros; true for the infinities, false for NaN.
    fn is_integral(&self) -> bool {
        match &self.0 {
            Small { .. } | Big(_) => self.min_scale() == Some(0),
            Infinity | NegInfinity => true,
            NaN => false,
        }
    }

    /// The number of decimals it is shown with; `None` for NaN and the infinities.
    pub fn scale(&self) -> Option<u16> {
        match &self.0 {
            Small { scale, .. } => Some(*scale),
            Big(d) => Some(d.scale as u16),
            _ => None,
        }
    }

    /// The number of decimals it needs.
    pub fn min_scale(&self) -> Option<u16> {
        match &self.0 {
            Small { m: 0, .. } => Some(0),
            Small { m, scale } => {
                let (mut m, mut s) = (*m, *scale);
                while s > 0 && m % 10 == 0 {
                    m /= 10;
                    s -= 1;
                }
                Some(s)
            }
            Big(d) => Some(d.scale.saturating_sub(d.mag.trailing_zeros()) as u16),
            _ => None,
        }
    }

    /// Without the decimals it does not need.
    pub fn trim_scale(&self) -> Numeric {
        match (self.min_scale(), self.dec()) {
            (Some(s), Some(d)) => Numeric::pack(d.rescale(s as usize, Cut::Truncate)),
            _ => self.clone(),
        }
    }

    pub fn neg(&self) -> Numeric {
        Numeric(match &self.0 {
            Small { m, scale } => Small { m: -m, scale: *scale },
            Big(d) => Big(Box::new((**d).clone().negated())),
            NaN => NaN,
            Infinity => NegInfinity,
            NegInfinity => Infinity,
        })
    }

    pub fn abs(&self) -> Numeric {
        if self.signum() < 0 { self.neg() } else { self.clone() }
    }

    /// -1, 0 or 1; NaN for NaN.
    pub fn sign(&self) -> Numeric {
        if self.is_nan() { Numeric::NAN } else { Numeric::from(self.signum()) }
    }

    #[inline]
    pub fn add(&self, o: &Numeric) -> SqlResult<Numeric> {
        if let (Small { m: a, scale: s }, Small { m: b, scale: t }) = (&self.0, &o.0)
            && let Some(sum) = add_small(*a, *s, *b, *t)
        {
            return Ok(sum);
        }
        self.add_slow(o)
    }

    fn add_slow(&self, o: &Numeric) -> SqlResult<Numeric> {
        self.add_wide(o).within_limits()
    }

    /// A sum in which NaN or an infinity takes part.
    fn add_special(&self, o: &Numeric) -> Numeric {
        match (&self.0, &o.0) {
            (NaN, _) | (_, NaN) | (Infinity, NegInfinity) | (NegInfinity, Infinity) => Numeric::NAN,
            (Infinity, _) | (_, Infinity) => Numeric::INFINITY,
            _ => Numeric::NEG_INFINITY,
        }
    }

    /// The sum, which may be longer than a NUMERIC (see [`Numeric::mul_wide`]).
    pub fn add_wide(&self, o: &Numeric) -> Numeric {
        if let (Small { m: a, scale: s }, Small { m: b, scale: t }) = (&self.0, &o.0)
            && let Some(sum) = add_small(*a, *s, *b, *t)
        {
            return sum;
        }
        match (self.dec(), o.dec()) {
            (Some(a), Some(b)) => Numeric::pack_wide(a.add(&b)),
            _ => self.add_special(o),
        }
    }

    /// Itself, if it is no longer than a NUMERIC can be (see [`Numeric::mul_wide`]).
    pub fn within_limits(self) -> SqlResult<Numeric> {
        match self.0 {
            Big(d) => Numeric::checked(*d),
            _ => Ok(self),
        }
    }

    /// The exact product of two NUMERICs, which may be longer than one: up to twice as many digits and
    /// decimals. It is to be added (`add_wide`), negated, and divided, which brings it back within the
    /// limits.
    pub fn mul_wide(&self, o: &Numeric) -> Numeric {
        if let (Small { m: a, scale: s }, Small { m: b, scale: t }) = (&self.0, &o.0)
            && let Some(m) = a.checked_mul(*b).filter(|m| *m != i128::MIN)
        {
            return Numeric(Small { m, scale: s + t });
        }
        match (self.dec(), o.dec()) {
            (Some(a), Some(b)) => Numeric::pack_wide(a.mul(&b)),
            _ => self.mul_special(o),
        }
    }

    #[inline]
    pub fn sub(&self, o: &Numeric) -> SqlResult<Numeric> {
        if let (Small { m: a, scale: s }, Small { m: b, scale: t }) = (&self.0, &o.0)
            && let Some(sum) = add_small(*a, *s, -*b, *t)
        {
            return Ok(sum);
        }
        self.add_slow(&o.neg())
    }

    #[inline]
    pub fn mul(&self, o: &Numeric) -> SqlResult<Numeric> {
        if let (Small { m: a, scale: s }, Small { m: b, scale: t }) = (&self.0, &o.0) {
            let scale = s + t;
            if scale as usize <= MAX_SCALE {
                if let (Ok(a), Ok(b)) = (i64::try_from(*a), i64::try_from(*b)) {
                    return Ok(Numeric(Small { m: i128::from(a) * i128::from(b), scale }));
                }
                if let Some(m) = a.checked_mul(*b).filter(|m| *m != i128::MIN) {
                    return Ok(Numeric(Small { m, scale }));
                }
            }
        }
        match (self.dec(), o.dec()) {
            (Some(a), Some(b)) => {
                let scale = (a.scale + b.scale).min(MAX_SCALE);
                Numeric::checked(a.mul_round(&b, scale))
            }
            _ => Ok(self.mul_special(o)),
        }
    }

    /// A product in which NaN or an infinity takes part.
    fn mul_special(&self, o: &Numeric) -> Numeric {
        match self.signum() * o.signum() {
            1 => Numeric::INFINITY,
            -1 => Numeric::NEG_INFINITY,
            _ => Numeric::NAN,
        }
    }

    /// The quotient with at least 16 significant digits.
    pub fn div(&self, o: &Numeric) -> SqlResult<Numeric> {
        if let (Small { m: a, scale: s }, Small { m: b, scale: t }) = (&self.0, &o.0) {
            if *b == 0 {
                return Err(division_by_zero());
            }
            let scale = div_scale(head_small(*a, *s), head_small(*b, *t), *s as usize, *t as usize);
            // A dividend with more decimals than the quotient is to have is too long for the machine.
            let up = (scale + *t as usize).checked_sub(*s as usize);
            if let Some(q) = up.and_then(|up| div_small(*a, *b, up)) {
                return Ok(Numeric(Small { m: q, scale: scale as u16 }));
            }
        }
        if o.is_zero() && !self.is_nan() {
            return Err(division_by_zero());
        }
        match (self.dec(), o.dec()) {
            (Some(a), Some(b)) => {
                let scale = div_scale(a.head(), b.head(), a.scale, b.scale);
                Numeric::checked(a.div(&b, scale, Cut::Round))
            }
            _ => Ok(self.div_special(o)),
        }
    }

    /// A quotient in which NaN or an infinity takes part and the divisor is not zero.
    fn div_special(&self, o: &Numeric) -> Numeric {
        match (&self.0, &o.0) {
            (NaN, _) | (_, NaN) | (Infinity | NegInfinity, Infinity | NegInfinity) => Numeric::NAN,
            (Infinity | NegInfinity, _) if self.signum() == o.signum() => Numeric::INFINITY,
            (Infinity | NegInfinity, _) => Numeric::NEG_INFINITY,
            _ => Numeric::ZERO,
        }
    }

    /// The integer part of the quotient: `div(a, b)`.
    pub fn div_trunc(&self, o: &Numeric) -> SqlResult<Numeric> {
        if o.is_zero() && !self.is_nan() {
            return Err(division_by_zero());
        }
        match (self.dec(), o.dec()) {
            (Some(a), Some(b)) => Numeric::checked(a.div(&b, 0, Cut::Truncate)),
            _ => Ok(self.div_special(o)),
        }
    }

    /// The remainder with the sign of `self`.
    pub fn rem(&self, o: &Numeric) -> SqlResult<Numeric> {
        if o.is_zero() && !self.is_nan() {
            return Err(division_by_zero());
        }
        if let (Small { m: a, scale: s }, Small { m: b, scale: t }) = (&self.0, &o.0) {
            let scale = *s.max(t);
            if let (Some(a), Some(b)) =
                (scale_up(*a, (scale - s) as usize), scale_up(*b, (scale - t) as usize))
            {
                return Ok(Numeric(Small { m: a % b, scale }));
            }
        }
        match (self.dec(), o.dec()) {
            (Some(a), Some(b)) => {
                let whole = a.div(&b, 0, Cut::Truncate);
                Numeric::checked(a.sub(&whole.mul(&b)))
            }
            _ if self.is_nan() || o.is_nan() || self.is_infinite() => Ok(Numeric::NAN),
            _ => Ok(self.clone()),
        }
    }

    /// Half away from zero to a number of decimals, which may be negative.
    pub fn round(&self, scale: i32) -> SqlResult<Numeric> {
        self.cut(scale, Cut::Round)
    }

    /// Toward zero to a number of decimals, which may be negative.
    pub fn trunc(&self, scale: i32) -> SqlResult<Numeric> {
        self.cut(scale, Cut::Truncate)
    }

    fn cut(&self, scale: i32, cut: Cut) -> SqlResult<Numeric> {
        // One place above the first digit rounds to zero.
        let scale = scale.clamp(-(MAX_WHOLE_DIGITS as i32) - 1, MAX_SCALE as i32);
        if let Small { m, scale: have } = self.0 {
            if scale == i32::from(have) {
                return Ok(self.clone());
            }
            if scale >= 0 && scale < i32::from(have) {
                let q = cut_u128(m.unsigned_abs(), (i32::from(have) - scale) as usize, cut) as i128;
                return Ok(Numeric(Small { m: if m < 0 { -q } else { q }, scale: scale as u16 }));
            }
            if scale > i32::from(have)
                && let Some(m) = scale_up(m, (scale - i32::from(have)) as usize)
            {
                return Ok(Numeric(Small { m, scale: scale as u16 }));
            }
        }
        match self.dec() {
            Some(d) => Numeric::checked(d.cut_at(scale, cut)),
            None => Ok(self.clone()),
        }
    }

    pub fn ceil(&self) -> SqlResult<Numeric> {
        let t = self.trunc(0)?;
        if self.signum() > 0 && t != *self { t.add(&Numeric::ONE) } else { Ok(t) }
    }

    pub fn floor(&self) -> SqlResult<Numeric> {
        let t = self.trunc(0)?;
        if self.signum() < 0 && t != *self { t.sub(&Numeric::ONE) } else { Ok(t) }
    }

    /// Brings the value into `numeric(precision, scale)`.
    pub fn apply_typmod(&self, precision: u32, scale: i32) -> SqlResult<Numeric> {
        let overflow = |detail: String| {
            Err(SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").detail(detail))
        };
        match self.0 {
            NaN => return Ok(Numeric::NAN),
            Infinity | NegInfinity => {
                return overflow(format!(
                    "A field with precision {precision}, scale {scale} cannot hold an infinite value."
                ));
            }
            _ => {}
        }
        let rounded = self.round(scale)?;
        // The digits before the point that the field has room for; negative where it must even begin with
        // zeros.
        let room = precision as i32 - scale;
        let fits = match &rounded.0 {
            Small { m: 0, .. } => true,
            Small { m, scale: s } => digits_of(m.unsigned_abs()) as i32 - i32::from(*s) <= room,
            Big(d) => d.mag.digits() as i32 - d.scale as i32 <= room,
            _ => true,
        };
        if fits {
            return Ok(rounded);
        }
        let limit = if room == 0 { "1".to_string() } else { format!("10^{room}") };
        overflow(format!(
            "A field with precision {precision}, scale {scale} must round to an absolute value less than {limit}."
        ))
    }

    /// Rounded to an integer, if it fits an `i128`; the name is for the error.
    fn to_integer(&self, name: &str) -> SqlResult<i128> {
        let special = |what: &str| {
            Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, format!("cannot convert {what} to {name}")))
        };
        match self.0 {
            NaN => return special("NaN"),
            Infinity | NegInfinity => return special("infinity"),
            _ => {}
        }
        match self.round(0)?.0 {
            Small { m, .. } => Ok(m),
            // Too large for any integer type: the caller's range check says so.
            _ => Ok(i128::MAX),
        }
    }

    pub fn to_i16(&self) -> SqlResult<i16> {
        i16::try_from(self.to_integer("smallint")?).map_err(|_| out_of_range("smallint"))
    }

    pub fn to_i32(&self) -> SqlResult<i32> {
        i32::try_from(self.to_integer("integer")?).map_err(|_| out_of_range("integer"))
    }

    pub fn to_i64(&self) -> SqlResult<i64> {
        i64::try_from(self.to_integer("bigint")?).map_err(|_| out_of_range("bigint"))
    }
}

fn out_of_range(name: &str) -> SqlError {
    SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, format!("{name} out of range"))
}

#[inline]
fn add_small(a: i128, s: u16, b: i128, t: u16) -> Option<Numeric> {
    let (a, b, scale) = match s.cmp(&t) {
        Ordering::Equal => (a, b, s),
        Ordering::Less => (scale_up(a, (t - s) as usize)?, b, t),
        Ordering::Greater => (a, scale_up(b, (s - t) as usize)?, s),
    };
    let m = a.checked_add(b).filter(|m| *m != i128::MIN)?;
    Some(Numeric(Small { m, scale }))
}

/// See [`Dec::head`].
fn head_small(m: i128, scale: u16) -> (i32, u32) {
    let m = m.unsigned_abs();
    if m == 0 {
        return (0, 0);
    }
    let scale = i32::from(scale);
    let weight = (digits_of(m) as i32 - 1 - scale).div_euclid(4);
    let down = scale + 4 * weight;
    let group = match u64::try_from(m) {
        // Fewer than 10^4 remain, so that 10^down is within the range of m and a group of four digits.
        Ok(m) if (0..=19).contains(&down) => m / POW10[down as usize] as u64,
        _ if down >= 0 => (m / POW10[down as usize]) as u64,
        _ => (m * POW10[-down as usize]) as u64,
    };
    (weight, group as u32)
}

/// The scale of a quotient: at least 16 significant digits, at least the scale of either operand.
fn div_scale((w1, first1): (i32, u32), (w2, first2): (i32, u32), s1: usize, s2: usize) -> usize {
    let mut weight = w1 - w2;
    if first1 <= first2 {
        weight -= 1;
    }
    (MIN_SIGNIFICANT - 4 * weight).max(s1 as i32).max(s2 as i32).clamp(0, MAX_RESULT_SCALE) as usize
}

/// `a * 10^up / b` rounded, if the machine can.
fn div_small(a: i128, b: i128, up: usize) -> Option<i128> {
    let n = a.unsigned_abs().checked_mul(*POW10.get(up)?)?;
    let d = b.unsigned_abs();
    let (q, r) = match (u64::try_from(n), u64::try_from(d)) {
        (Ok(n), Ok(d)) => (u128::from(n / d), u128::from(n % d)),
        _ => (n / d, n % d),
    };
    let q = i128::try_from(if r >= d - r { q + 1 } else { q }).ok()?;
    Some(if (a < 0) != (b < 0) { -q } else { q })
}

macro_rules! from_int {
    ($($t:ty)*) => {
        $(impl From<$t> for Numeric {
            #[inline]
            fn from(v: $t) -> Numeric {
                Numeric::from_scaled(i128::from(v), 0)
            }
        })*
    };
}
from_int!(i16 i32 i64 u32 u64 i128);

impl Ord for Numeric {
    fn cmp(&self, o: &Numeric) -> Ordering {
        let class = |n: &Numeric| match n.0 {
            NegInfinity => 0,
            Small { .. } | Big(_) => 1,
            Infinity => 2,
            NaN => 3,
        };
        match (&self.0, &o.0) {
            (Small { m: a, scale: s }, Small { m: b, scale: t }) => cmp_small(*a, *s, *b, *t),
            _ => match (self.dec(), o.dec()) {
                (Some(a), Some(b)) => a.compare(&b),
                _ => class(self).cmp(&class(o)),
            },
        }
    }
}

#[inline]
fn cmp_small(a: i128, s: u16, b: i128, t: u16) -> Ordering {
    match s.cmp(&t) {
        Ordering::Equal => a.cmp(&b),
        Ordering::Less => match scale_up(a, (t - s) as usize) {
            Some(a) => a.cmp(&b),
            // Beyond an i128, so beyond b as well: the sign decides. Zero always fits or is told by its sign.
            None => a.cmp(&0).then_with(|| 0.cmp(&b)),
        },
        Ordering::Greater => cmp_small(b, t, a, s).reverse(),
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, o: &Numeric) -> Option<Ordering> {
        Some(self.cmp(o))
    }
}

impl PartialEq for Numeric {
    fn eq(&self, o: &Numeric) -> bool {
        self.cmp(o) == Ordering::Equal
    }
}

impl Eq for Numeric {}

/// The modulus of the hash, a Mersenne prime.
const HASH_PRIME: u64 = (1 << 61) - 1;
/// The inverse of ten modulo [`HASH_PRIME`].
const HASH_TENTH: u64 = 2_075_258_708_292_324_556;

fn hash_mul(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(HASH_PRIME)) as u64
}

/// `10^-k` modulo the prime.
fn hash_shift(mut k: usize) -> u64 {
    static SMALL: [u64; 20] = {
        let mut table = [1u64; 20];
        let mut i = 1;
        while i < 20 {
            table[i] = (table[i - 1] as u128 * HASH_TENTH as u128 % HASH_PRIME as u128) as u64;
            i += 1;
        }
        table
    };
    if let Some(v) = SMALL.get(k) {
        return *v;
    }
    let (mut result, mut base) = (1, HASH_TENTH);
    while k > 0 {
        if k & 1 == 1 {
            result = hash_mul(result, base);
        }
        base = hash_mul(base, base);
        k >>= 1;
    }
    result
}

/// The value as a fraction in the field of the integers modulo a prime, as Python hashes its numbers: equal
/// values give equal results whatever their scales, and no zeros need be stripped.
impl Hash for Numeric {
    fn hash<H: Hasher>(&self, h: &mut H) {
        let (neg, residue, scale) = match &self.0 {
            Small { m, scale } => {
                let m = m.unsigned_abs();
                let residue = match u64::try_from(m) {
                    Ok(m) => m % HASH_PRIME,
                    Err(_) => (m % u128::from(HASH_PRIME)) as u64,
                };
                (self.signum() < 0, residue, *scale as usize)
            }
            Big(d) => (d.neg, d.mag.mod_u64(HASH_PRIME), d.scale),
            Infinity => return h.write_u64(u64::MAX),
            NegInfinity => return h.write_u64(u64::MAX - 1),
            NaN => return h.write_u64(u64::MAX - 2),
        };
        let v = hash_mul(residue, hash_shift(scale));
        h.write_u64(if neg && v != 0 { HASH_PRIME - v } else { v });
    }
}

#[cfg(test)]
mod tests;
