//! double precision: arithmetic, rounding, powers, logarithms, angles, and random().
//!
//! Results that leave the range of finite doubles are errors where no argument was infinite, and so are
//! non-zero results that vanish ("value out of range: overflow", "... underflow"); NaN passes through.

use super::{division_by_zero, state};
use crate::{SqlError, SqlResult, Value, sqlstate};

pub(crate) fn overflow() -> SqlError {
    SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

pub(crate) fn underflow() -> SqlError {
    SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow")
}

fn out_of_domain() -> SqlError {
    SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")
}

/// `r`, unless it became infinite from finite arguments, or zero where `may_vanish` does not allow it.
#[inline]
fn result(r: f64, finite_args: bool, may_vanish: bool) -> SqlResult<Value> {
    if r.is_infinite() && finite_args {
        return Err(overflow());
    }
    if r == 0.0 && !may_vanish {
        return Err(underflow());
    }
    Ok(Value::Float8(r))
}

pub(crate) fn add(a: f64, b: f64) -> SqlResult<Value> {
    result(a + b, !a.is_infinite() && !b.is_infinite(), true)
}

pub(crate) fn sub(a: f64, b: f64) -> SqlResult<Value> {
    result(a - b, !a.is_infinite() && !b.is_infinite(), true)
}

pub(crate) fn mul(a: f64, b: f64) -> SqlResult<Value> {
    result(a * b, !a.is_infinite() && !b.is_infinite(), a == 0.0 || b == 0.0)
}

pub(crate) fn div(a: f64, b: f64) -> SqlResult<Value> {
    if b == 0.0 && !a.is_nan() {
        return Err(division_by_zero());
    }
    result(a / b, !a.is_infinite(), a == 0.0 || b.is_infinite())
}

fn power(a: f64, b: f64) -> SqlResult<Value> {
    if a == 0.0 && b < 0.0 {
        return Err(SqlError::new(state::INVALID_POWER, "zero raised to a negative power is undefined"));
    }
    if a < 0.0 && b.is_finite() && b.floor() != b {
        let message = "a negative number raised to a non-integer power yields a complex result";
        return Err(SqlError::new(state::INVALID_POWER, message));
    }
    let finite = a.is_finite() && b.is_finite();
    result(a.powf(b), finite, a == 0.0 || !finite)
}

fn sqrt(a: f64) -> SqlResult<Value> {
    if a < 0.0 {
        return Err(SqlError::new(state::INVALID_POWER, "cannot take square root of a negative number"));
    }
    Ok(Value::Float8(a.sqrt()))
}

fn exp(a: f64) -> SqlResult<Value> {
    result(a.exp(), !a.is_infinite(), a.is_infinite())
}

fn logarithm(a: f64, log: fn(f64) -> f64) -> SqlResult<Value> {
    if a == 0.0 {
        return Err(SqlError::new(state::INVALID_LOGARITHM, "cannot take logarithm of zero"));
    }
    if a < 0.0 {
        return Err(SqlError::new(state::INVALID_LOGARITHM, "cannot take logarithm of a negative number"));
    }
    Ok(Value::Float8(log(a)))
}

/// A function of an angle, for which infinity has no answer.
fn angle(a: f64, f: fn(f64) -> f64) -> SqlResult<Value> {
    if a.is_infinite() {
        return Err(out_of_domain());
    }
    Ok(Value::Float8(f(a)))
}

/// A function that is defined on `domain` and for NaN.
fn within(a: f64, domain: std::ops::RangeInclusive<f64>, f: fn(f64) -> f64) -> SqlResult<Value> {
    if !a.is_nan() && !domain.contains(&a) {
        return Err(out_of_domain());
    }
    Ok(Value::Float8(f(a)))
}

/// Beyond this, `x` squared hides the one that is added to it: 2^28.
const HUGE: f64 = 268_435_456.0;

/// The inverse hyperbolic functions: of several equal formulas, each range of arguments takes the one that
/// loses no digits to cancellation there (the ranges are those of fdlibm).
fn asinh(x: f64) -> f64 {
    let a = x.abs();
    let r = if a > HUGE {
        a.ln() + std::f64::consts::LN_2
    } else if a > 2.0 {
        (2.0 * a + 1.0 / ((x * x + 1.0).sqrt() + a)).ln()
    } else {
        (a + x * x / (1.0 + (1.0 + x * x).sqrt())).ln_1p()
    };
    r.copysign(x)
}

fn acosh(x: f64) -> f64 {
    if x > HUGE {
        x.ln() + std::f64::consts::LN_2
    } else if x > 2.0 {
        (2.0 * x - 1.0 / (x + (x * x - 1.0).sqrt())).ln()
    } else {
        let t = x - 1.0;
        (t + (2.0 * t + t * t).sqrt()).ln_1p()
    }
}

fn atanh(x: f64) -> f64 {
    let a = x.abs();
    let double = a + a;
    let r = if a < 0.5 { (double + double * a / (1.0 - a)).ln_1p() } else { (double / (1.0 - a)).ln_1p() };
    (0.5 * r).copysign(x)
}

fn sign(a: f64) -> f64 {
    if a > 0.0 {
        1.0
    } else if a < 0.0 {
        -1.0
    } else {
        0.0
    }
}

const RADIANS_PER_DEGREE: f64 = 0.017_453_292_519_943_295;

/// A double in [0, 1) out of sixty-four random bits.
fn fraction(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

macro_rules! two {
    ($fun:expr) => {
        |c| $fun(c.float8(0)?, c.float8(1)?)
    };
}
macro_rules! one {
    ($fun:expr) => {
        |c| $fun(c.float8(0)?)
    };
}
/// A function without errors.
macro_rules! plain {
    ($fun:expr) => {
        |c| Ok(Value::Float8($fun(c.float8(0)?)))
    };
}

functions! {
    350 FLOAT8_ADD "float8pl" (Float8, Float8) -> Float8 = two!(add);
    351 FLOAT8_SUB "float8mi" (Float8, Float8) -> Float8 = two!(sub);
    352 FLOAT8_MUL "float8mul" (Float8, Float8) -> Float8 = two!(mul);
    353 FLOAT8_DIV "float8div" (Float8, Float8) -> Float8 = two!(div);
    354 FLOAT8_NEG "float8um" (Float8) -> Float8 = plain!(|a: f64| -a);
    355 FLOAT8_PLUS "float8up" (Float8) -> Float8 = plain!(|a: f64| a);
    356 FLOAT8_ABS "abs" (Float8) -> Float8 = plain!(f64::abs);
    357 FLOAT8_ABS_OP "float8abs" (Float8) -> Float8 = plain!(f64::abs);
    358 FLOAT8_POW_OP "dpow" (Float8, Float8) -> Float8 = two!(power);
    359 FLOAT8_POWER "power" (Float8, Float8) -> Float8 = two!(power);
    360 FLOAT8_POW "pow" (Float8, Float8) -> Float8 = two!(power);
    361 FLOAT8_SQRT_OP "dsqrt" (Float8) -> Float8 = one!(sqrt);
    362 FLOAT8_SQRT "sqrt" (Float8) -> Float8 = one!(sqrt);
    363 FLOAT8_CBRT_OP "dcbrt" (Float8) -> Float8 = plain!(f64::cbrt);
    364 FLOAT8_CBRT "cbrt" (Float8) -> Float8 = plain!(f64::cbrt);
    365 FLOAT8_CEIL "ceil" (Float8) -> Float8 = plain!(f64::ceil);
    366 FLOAT8_CEILING "ceiling" (Float8) -> Float8 = plain!(f64::ceil);
    367 FLOAT8_FLOOR "floor" (Float8) -> Float8 = plain!(f64::floor);
    368 FLOAT8_ROUND "round" (Float8) -> Float8 = plain!(f64::round_ties_even);
    369 FLOAT8_TRUNC "trunc" (Float8) -> Float8 = plain!(f64::trunc);
    370 FLOAT8_SIGN "sign" (Float8) -> Float8 = plain!(sign);
    371 FLOAT8_EXP "exp" (Float8) -> Float8 = one!(exp);
    372 FLOAT8_LN "ln" (Float8) -> Float8 = one!(|a| logarithm(a, f64::ln));
    373 FLOAT8_LOG "log" (Float8) -> Float8 = one!(|a| logarithm(a, f64::log10));
    374 FLOAT8_LOG10 "log10" (Float8) -> Float8 = one!(|a| logarithm(a, f64::log10));
    375 PI "pi" () -> Float8 = |_| Ok(Value::Float8(std::f64::consts::PI));
    376 DEGREES "degrees" (Float8) -> Float8 = one!(|a| div(a, RADIANS_PER_DEGREE));
    377 RADIANS "radians" (Float8) -> Float8 = one!(|a| mul(a, RADIANS_PER_DEGREE));
    378 SIN "sin" (Float8) -> Float8 = one!(|a| angle(a, f64::sin));
    379 COS "cos" (Float8) -> Float8 = one!(|a| angle(a, f64::cos));
    380 TAN "tan" (Float8) -> Float8 = one!(|a| angle(a, f64::tan));
    381 COT "cot" (Float8) -> Float8 = one!(|a| angle(a, |a| 1.0 / a.tan()));
    382 ASIN "asin" (Float8) -> Float8 = one!(|a| within(a, -1.0..=1.0, f64::asin));
    383 ACOS "acos" (Float8) -> Float8 = one!(|a| within(a, -1.0..=1.0, f64::acos));
    384 ATAN "atan" (Float8) -> Float8 = plain!(f64::atan);
    385 ATAN2 "atan2" (Float8, Float8) -> Float8 = two!(|a: f64, b: f64| Ok(Value::Float8(a.atan2(b))));
    386 SINH "sinh" (Float8) -> Float8 = plain!(f64::sinh);
    387 COSH "cosh" (Float8) -> Float8 = plain!(f64::cosh);
    388 TANH "tanh" (Float8) -> Float8 = plain!(f64::tanh);
    389 ASINH "asinh" (Float8) -> Float8 = plain!(asinh);
    390 ACOSH "acosh" (Float8) -> Float8 = one!(|a| within(a, 1.0..=f64::INFINITY, acosh));
    391 ATANH "atanh" (Float8) -> Float8 = one!(|a| within(a, -1.0..=1.0, atanh));
    392 RANDOM "random" () -> Float8 = |c| Ok(Value::Float8(fraction((c.ctx.random)()))), volatile;
}
