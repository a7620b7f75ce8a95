//! Roots, logarithms and powers of NUMERIC.
//!
//! The scale of a result follows PostgreSQL's rules, which estimate how many digits stand before the point
//! (or how many zeros follow it) and leave at least 16 significant digits. The digits are computed with more
//! precision than is shown and then rounded half away from zero, so they are those of the true value unless
//! that lies within the working error of a half.
//!
//! Sources: PostgreSQL 15's documentation and answers; ln by square roots and the series of the inverse
//! hyperbolic tangent, exp by halving the argument and squaring the result (Brent and Zimmermann, Modern
//! Computer Arithmetic, 4.3 and 4.4).

use super::dec::Dec;
use super::mag::Cut;
use super::{MAX_RESULT_SCALE, MAX_SCALE, MIN_SIGNIFICANT, Numeric, division_by_zero, overflow};
use crate::limits::Limits;
use crate::{SqlError, SqlResult};
use std::cmp::Ordering;

/// Decimal digits of one of PostgreSQL's digit groups.
const GROUP: i32 = 4;
/// Results whose natural logarithm is greater by far are refused, smaller ones are zero.
const MAX_EXPONENT: f64 = 2000.0;
/// log10(e) with the digits PostgreSQL estimates with: one more could change a scale.
#[allow(clippy::approx_constant)]
const LOG10_E: f64 = 0.434294481903252;
const LN_10: f64 = std::f64::consts::LN_10;
/// The greatest weight, in digit groups, of an intermediate power.
const MAX_WEIGHT: i32 = i16::MAX as i32;
/// Digits computed beyond those that are shown.
const GUARD: usize = 14;

const INVALID_LOGARITHM: &str = "2201E";
const INVALID_POWER: &str = "2201F";

fn result_scale(wanted: i32, at_least: &[usize]) -> usize {
    let most = at_least.iter().fold(wanted, |s, a| s.max(*a as i32));
    most.clamp(0, MAX_RESULT_SCALE) as usize
}

/// The result of a function at a scale that may be zero because it is too small to see.
fn zero(scale: usize) -> Numeric {
    Numeric::pack(Dec::zero(scale.min(MAX_SCALE)))
}

impl Numeric {
    pub fn sqrt(&self, limits: &Limits<'_>) -> SqlResult<Numeric> {
        if self.signum() < 0 {
            return Err(SqlError::new(INVALID_POWER, "cannot take square root of a negative number"));
        }
        let Some(d) = self.dec() else { return Ok(self.clone()) };
        let weight = (d.head().0 + 1) * GROUP / 2 - 1;
        let scale = result_scale(MIN_SIGNIFICANT - weight, &[d.scale]);
        Numeric::checked(d.sqrt(scale + 1, limits)?.round(scale))
    }

    /// The square root with as many decimals as the number has.
    pub fn root_at_own_scale(&self, limits: &Limits<'_>) -> SqlResult<Numeric> {
        match self.dec() {
            Some(d) if self.signum() > 0 => Numeric::checked(d.sqrt(d.scale + 1, limits)?.round(d.scale)),
            _ => self.sqrt(limits),
        }
    }

    pub fn exp(&self, limits: &Limits<'_>) -> SqlResult<Numeric> {
        let Some(d) = self.dec() else {
            return Ok(if self.signum() < 0 { Numeric::ZERO } else { self.clone() });
        };
        let digits = (d.approx() * LOG10_E).clamp(-MAX_EXPONENT, MAX_EXPONENT);
        let scale = result_scale(MIN_SIGNIFICANT - digits as i32, &[d.scale]);
        Numeric::checked(exp(&d, scale, limits)?)
    }

    pub fn ln(&self, limits: &Limits<'_>) -> SqlResult<Numeric> {
        self.check_logarithm()?;
        let Some(d) = self.dec() else { return Ok(self.clone()) };
        let scale = result_scale(MIN_SIGNIFICANT - ln_weight(&d), &[d.scale]);
        Numeric::checked(ln(&d, scale, limits)?)
    }

    pub fn log10(&self, limits: &Limits<'_>) -> SqlResult<Numeric> {
        Numeric::from(10i32).log(self, limits)
    }

    /// The logarithm of `num` to the base `self`.
    pub fn log(&self, num: &Numeric, limits: &Limits<'_>) -> SqlResult<Numeric> {
        if self.is_nan() || num.is_nan() {
            return Ok(Numeric::NAN);
        }
        if self.is_infinite() || num.is_infinite() {
            // Here a negative number is reported before a zero, elsewhere the base before the number.
            let negative = if self.signum() < 0 { self } else { num };
            negative.check_logarithm()?;
        }
        self.check_logarithm()?;
        num.check_logarithm()?;
        let (base, num) = match (self.dec(), num.dec()) {
            (Some(base), Some(num)) => (base, num),
            // infinity to the base infinity is undefined, anything else to it is nothing.
            (None, None) => return Ok(Numeric::NAN),
            (None, Some(_)) => return Ok(Numeric::ZERO),
            (Some(_), None) => return Ok(Numeric::INFINITY),
        };
        let (base_weight, num_weight) = (ln_weight(&base), ln_weight(&num));
        let weight = num_weight - base_weight;
        let scale = result_scale(MIN_SIGNIFICANT - weight, &[base.scale, num.scale]);
        let working = |w: i32| (scale as i32 + weight - w + 8).max(0) as usize;
        let (ln_base, ln_num) =
            (ln(&base, working(base_weight), limits)?, ln(&num, working(num_weight), limits)?);
        if ln_base.is_zero() {
            return Err(division_by_zero());
        }
        Numeric::checked(ln_num.div(&ln_base, scale, Cut::Round))
    }

    fn check_logarithm(&self) -> SqlResult<()> {
        if self.is_zero() {
            Err(SqlError::new(INVALID_LOGARITHM, "cannot take logarithm of zero"))
        } else if self.signum() < 0 {
            Err(SqlError::new(INVALID_LOGARITHM, "cannot take logarithm of a negative number"))
        } else {
            Ok(())
        }
    }

    pub fn power(&self, exp: &Numeric, limits: &Limits<'_>) -> SqlResult<Numeric> {
        if self.is_nan() || exp.is_nan() {
            let one = exp.is_zero() || *self == Numeric::ONE;
            return Ok(if one { Numeric::ONE } else { Numeric::NAN });
        }
        if self.is_zero() && exp.signum() < 0 {
            return Err(SqlError::new(INVALID_POWER, "zero raised to a negative power is undefined"));
        }
        if self.signum() < 0 && !exp.is_integral() {
            let message = "a negative number raised to a non-integer power yields a complex result";
            return Err(SqlError::new(INVALID_POWER, message));
        }
        match (self.dec(), exp.dec()) {
            (Some(b), Some(e)) => power(&b, &e, limits),
            _ => Ok(self.power_special(exp)),
        }
    }

    /// With an infinity on either side: the rules of POSIX for pow.
    fn power_special(&self, exp: &Numeric) -> Numeric {
        if *self == Numeric::ONE || exp.is_zero() {
            return Numeric::ONE;
        }
        if self.is_zero() {
            return Numeric::ZERO;
        }
        if exp.is_infinite() {
            return match self.abs().cmp(&Numeric::ONE) {
                Ordering::Equal => Numeric::ONE,
                above => {
                    if (above == Ordering::Greater) == (exp.signum() > 0) {
                        Numeric::INFINITY
                    } else {
                        Numeric::ZERO
                    }
                }
            };
        }
        if exp.signum() < 0 {
            return Numeric::ZERO;
        }
        if self.signum() < 0 && exp.dec().is_some_and(|e| is_odd(&e)) {
            self.clone()
        } else {
            Numeric::INFINITY
        }
    }
}

/// Whether an integer is odd.
fn is_odd(d: &Dec) -> bool {
    d.cut_at(0, Cut::Truncate).mag.is_odd()
}

/// About the power of ten of the natural logarithm's first digit.
fn ln_weight(d: &Dec) -> i32 {
    let tenth = |v| Dec::from_i128(v, 1);
    if d.is_zero() || d.neg {
        return 0;
    }
    if d.compare(&tenth(9)) != Ordering::Less && d.compare(&tenth(11)) != Ordering::Greater {
        // Here ln(1 + x) is nearly x.
        let x = d.sub(&Dec::one()).abs();
        let (weight, first) = x.head();
        return if x.is_zero() { 0 } else { weight * GROUP + f64::from(first).log10() as i32 };
    }
    // The first two digit groups decide.
    let (weight, first) = d.head();
    let more = d.sub(&group_at(first, weight));
    let second = more.head();
    let mut digits = f64::from(first);
    let mut place = weight * GROUP;
    if !more.is_zero() {
        let next = if second.0 == weight - 1 { f64::from(second.1) } else { 0.0 };
        digits = digits * 1e4 + next;
        place -= GROUP;
    }
    (digits.ln() + f64::from(place) * LN_10).abs().log10() as i32
}

/// `group * 10000^weight`
fn group_at(group: u32, weight: i32) -> Dec {
    let d = Dec::from_i128(i128::from(group), 0);
    let places = (weight * GROUP).unsigned_abs() as usize;
    if weight < 0 { Dec { scale: places, ..d } } else { Dec { mag: d.mag.shift_up(places), ..d } }
}

/// The natural logarithm of a positive number.
fn ln(d: &Dec, scale: usize, limits: &Limits<'_>) -> SqlResult<Dec> {
    let working = scale + GUARD;
    // Numbers well below one are inverted: above one, a fixed number of decimals is enough precision.
    let invert = d.compare(&Dec::from_i128(9, 1)) == Ordering::Less;
    let mut x = if invert { Dec::one().div(d, working, Cut::Truncate) } else { d.clone() };
    let near = Dec::from_i128(11, 1);
    let mut factor = 2i128;
    while x.compare(&near) == Ordering::Greater {
        x = x.sqrt(working, limits)?;
        factor *= 2;
    }
    // ln(x) = 2 artanh((x - 1) / (x + 1))
    let z = x.sub(&Dec::one()).div(&x.add(&Dec::one()), working, Cut::Truncate);
    let square = z.mul_round(&z, working);
    let mut sum = z.clone();
    let mut power = z;
    let mut n = 1;
    loop {
        limits.turn(power.mag.limbs().len())?;
        power = power.mul_round(&square, working);
        n += 2;
        let term = Dec { mag: power.mag.divrem_small(n).0, ..power.clone() };
        if term.is_zero() {
            break;
        }
        sum = sum.add(&term);
    }
    let result = sum.mul(&Dec::from_i128(factor, 0)).round(scale);
    Ok(if invert && !result.is_zero() { result.negated() } else { result })
}

/// e to a power.
fn exp(d: &Dec, scale: usize, limits: &Limits<'_>) -> SqlResult<Dec> {
    let value = d.approx();
    if value.abs() >= MAX_EXPONENT * 3.0 {
        return if value > 0.0 { Err(overflow()) } else { Ok(Dec::zero(scale)) };
    }
    // Squaring keeps digits, not decimals: what stands before the point of the result is needed beside its
    // decimals.
    let whole = (value.abs() / LN_10) as usize + 1;
    let mut working = GUARD + if d.neg { scale } else { scale + whole };
    let mut halvings = 0;
    let mut size = value.abs();
    while size > 0.01 {
        size /= 2.0;
        halvings += 1;
    }
    working += halvings / 3;
    let mut two = Dec::one();
    two.mag = super::Mag::from_u128(1 << halvings);
    let x = d.clone().abs().div(&two, working, Cut::Truncate);
    let mut sum = Dec::one().add(&x);
    let mut term = x.clone();
    let mut n = 1;
    loop {
        n += 1;
        limits.turn(term.mag.limbs().len())?;
        term = term.mul_round(&x, working);
        term.mag = term.mag.divrem_small(n).0;
        if term.is_zero() {
            break;
        }
        sum = sum.add(&term);
    }
    for _ in 0..halvings {
        limits.turn(sum.mag.limbs().len())?;
        sum = sum.mul_round(&sum, working);
    }
    Ok(if d.neg { Dec::one().div(&sum, scale, Cut::Round) } else { sum.round(scale) })
}

fn power(base: &Dec, exponent: &Dec, limits: &Limits<'_>) -> SqlResult<Numeric> {
    let whole = exponent.cut_at(0, Cut::Truncate);
    let integral = whole.compare(exponent) == Ordering::Equal;
    if integral
        && let Some(e) = whole.mag.to_u128().and_then(|m| i64::try_from(m).ok())
        && let Ok(e) = i32::try_from(if whole.neg { -e } else { e })
    {
        let scale = result_scale(MIN_SIGNIFICANT, &[base.scale]);
        return power_int(base, e, scale, limits);
    }
    if base.is_zero() {
        return Ok(zero(MIN_SIGNIFICANT as usize));
    }
    let negative = base.neg && is_odd(&whole);
    let base = base.clone().abs();
    let weight = ln_weight(&base);
    // A rough logarithm of the result gives its size.
    let rough_scale = (8 - weight).max(0) as usize;
    let rough = ln(&base, rough_scale, limits)?.mul_round(exponent, rough_scale).approx();
    if rough.abs() > MAX_EXPONENT * 3.01 {
        return if rough > 0.0 { Err(overflow()) } else { Ok(zero(MAX_RESULT_SCALE as usize)) };
    }
    let digits = (rough * LOG10_E) as i32;
    let scale = result_scale(MIN_SIGNIFICANT - digits, &[base.scale, exponent.scale]);
    let significant = (scale as i32 + digits).max(0);
    let working = (significant - weight + 8).max(0) as usize;
    let logarithm = ln(&base, working, limits)?.mul_round(exponent, working);
    let result = exp(&logarithm, scale, limits)?;
    Numeric::checked(if negative && !result.is_zero() { result.negated() } else { result })
}

/// A power by repeated squaring, with just the digits that the result shows and a few more.
fn power_int(base: &Dec, exponent: i32, scale: usize, limits: &Limits<'_>) -> SqlResult<Numeric> {
    match exponent {
        0 => return Numeric::checked(Dec::one().round(scale)),
        1 => return Numeric::checked(base.round(scale)),
        2 => return Numeric::checked(base.mul_round(base, scale)),
        -1 if !base.is_zero() => return Numeric::checked(Dec::one().div(base, scale, Cut::Round)),
        _ => {}
    }
    if base.is_zero() {
        return if exponent < 0 { Err(division_by_zero()) } else { Ok(zero(scale)) };
    }
    let (f, place) = base.mag.leading_f64();
    let size = f64::from(exponent) * (f.log10() + f64::from(place) - base.scale as f64);
    if size > f64::from(3 * MAX_WEIGHT * GROUP) {
        return Err(overflow());
    }
    if size + 1.0 < -(scale as f64) || size + 1.0 < f64::from(-MAX_RESULT_SCALE) {
        return Ok(zero(scale));
    }
    let mut significant = 1 + scale as i32 + size as i32;
    significant += f64::from(exponent).abs().ln() as i32 + 8;
    let cut = |places: i32, most: usize| (significant - places).min(most as i32).max(0) as usize;
    let mut mask = exponent.unsigned_abs();
    let mut square = base.clone();
    let mut result = if mask & 1 == 1 { base.clone() } else { Dec::one() };
    loop {
        mask >>= 1;
        if mask == 0 {
            break;
        }
        limits.turn(square.mag.limbs().len())?;
        let w = square.head().0;
        square = square.mul_round(&square, cut(2 * w * GROUP, 2 * square.scale));
        if mask & 1 == 1 {
            let places = (square.head().0 + result.head().0) * GROUP;
            result = square.mul_round(&result, cut(places, square.scale + result.scale));
        }
        if square.head().0 > MAX_WEIGHT || result.head().0 > MAX_WEIGHT {
            return if exponent < 0 { Ok(zero(scale)) } else { Err(overflow()) };
        }
    }
    if exponent > 0 {
        Numeric::checked(result.round(scale))
    } else if result.is_zero() {
        Err(division_by_zero())
    } else {
        Numeric::checked(Dec::one().div(&result, scale, Cut::Round))
    }
}
