//! NUMERIC: the catalogue's entries; the arithmetic itself is [`crate::numeric`]'s.

use crate::limits::Limits;
use crate::numeric::Numeric;
use crate::{SqlError, SqlResult, Value, sqlstate};

fn out(n: Numeric) -> SqlResult<Value> {
    Ok(Value::Numeric(n))
}

/// Euclid's algorithm on exact remainders; the result has the larger of the two scales.
fn gcd(a: &Numeric, b: &Numeric, limits: &Limits<'_>) -> SqlResult<Numeric> {
    if a.is_nan() || b.is_nan() || a.is_infinite() || b.is_infinite() {
        return Ok(Numeric::NAN);
    }
    let scale = a.scale().max(b.scale()).unwrap_or(0);
    let (mut a, mut b) = (a.abs(), b.abs());
    while !b.is_zero() {
        limits.turn(b.limbs())?;
        let r = a.rem(&b)?;
        (a, b) = (b, r);
    }
    a.round(scale.into())
}

fn lcm(a: &Numeric, b: &Numeric, limits: &Limits<'_>) -> SqlResult<Numeric> {
    if a.is_nan() || b.is_nan() || a.is_infinite() || b.is_infinite() {
        return Ok(Numeric::NAN);
    }
    let scale = i32::from(a.scale().max(b.scale()).unwrap_or(0));
    if a.is_zero() || b.is_zero() {
        return Numeric::ZERO.round(scale);
    }
    a.div_trunc(&gcd(a, b, limits)?)?.mul(b)?.abs().round(scale)
}

/// `n!`; more digits than a numeric holds are an error.
fn factorial(n: i64, limits: &Limits<'_>) -> SqlResult<Value> {
    if n < 0 {
        let message = "factorial of a negative number is undefined";
        return Err(SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    // 32177! is the largest with fewer digits than a numeric may have.
    if n > 32177 {
        let message = "value overflows numeric format";
        return Err(SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    let mut product = Numeric::ONE;
    let mut i = 1;
    while i <= n {
        limits.turn(product.limbs())?;
        // Small factors are gathered, so that the long product is multiplied less often.
        let mut factor = i128::from(i);
        while i < n && factor < 1 << 100 {
            i += 1;
            factor *= i128::from(i);
        }
        product = product.mul(&Numeric::from(factor))?;
        i += 1;
    }
    out(product)
}

macro_rules! two {
    ($op:ident) => {
        |c| out(c.numeric(0)?.$op(&c.numeric(1)?)?)
    };
}
macro_rules! one {
    ($op:ident) => {
        |c| out(c.numeric(0)?.$op()?)
    };
}
/// In many steps, between which somebody may want an end.
macro_rules! long {
    ($op:ident) => {
        |c| out(c.numeric(0)?.$op(c.limits())?)
    };
    ($op:ident of two) => {
        |c| out(c.numeric(0)?.$op(&c.numeric(1)?, c.limits())?)
    };
}
/// Without errors.
macro_rules! plain {
    ($op:ident) => {
        |c| out(c.numeric(0)?.$op())
    };
}
/// A scale as a result; NULL for NaN and the infinities, which have none.
macro_rules! scale {
    ($op:ident) => {
        |c| Ok(c.numeric(0)?.$op().map_or(Value::Null, |s| Value::Int4(s.into())))
    };
}

functions! {
    420 NUMERIC_ADD "numeric_add" (Numeric, Numeric) -> Numeric = two!(add);
    421 NUMERIC_SUB "numeric_sub" (Numeric, Numeric) -> Numeric = two!(sub);
    422 NUMERIC_MUL "numeric_mul" (Numeric, Numeric) -> Numeric = two!(mul);
    423 NUMERIC_DIV "numeric_div" (Numeric, Numeric) -> Numeric = two!(div);
    424 NUMERIC_REM "numeric_mod" (Numeric, Numeric) -> Numeric = two!(rem);
    425 NUMERIC_MOD "mod" (Numeric, Numeric) -> Numeric = two!(rem);
    426 NUMERIC_NEG "numeric_uminus" (Numeric) -> Numeric = plain!(neg);
    427 NUMERIC_PLUS "numeric_uplus" (Numeric) -> Numeric = |c| out(c.numeric(0)?);
    428 NUMERIC_ABS "abs" (Numeric) -> Numeric = plain!(abs);
    429 NUMERIC_ABS_OP "numeric_abs" (Numeric) -> Numeric = plain!(abs);
    430 NUMERIC_POW_OP "numeric_power" (Numeric, Numeric) -> Numeric = long!(power of two);
    431 NUMERIC_POWER "power" (Numeric, Numeric) -> Numeric = long!(power of two);
    432 NUMERIC_POW "pow" (Numeric, Numeric) -> Numeric = long!(power of two);
    433 NUMERIC_CEIL "ceil" (Numeric) -> Numeric = one!(ceil);
    434 NUMERIC_CEILING "ceiling" (Numeric) -> Numeric = one!(ceil);
    435 NUMERIC_FLOOR "floor" (Numeric) -> Numeric = one!(floor);
    436 NUMERIC_ROUND "round" (Numeric) -> Numeric = |c| out(c.numeric(0)?.round(0)?);
    437 NUMERIC_ROUND_SCALE "round" (Numeric, Int4) -> Numeric = |c| out(c.numeric(0)?.round(c.int4(1)?)?);
    438 NUMERIC_TRUNC "trunc" (Numeric) -> Numeric = |c| out(c.numeric(0)?.trunc(0)?);
    439 NUMERIC_TRUNC_SCALE "trunc" (Numeric, Int4) -> Numeric = |c| out(c.numeric(0)?.trunc(c.int4(1)?)?);
    440 NUMERIC_SIGN "sign" (Numeric) -> Numeric = plain!(sign);
    441 NUMERIC_SQRT "sqrt" (Numeric) -> Numeric = long!(sqrt);
    442 NUMERIC_EXP "exp" (Numeric) -> Numeric = long!(exp);
    443 NUMERIC_LN "ln" (Numeric) -> Numeric = long!(ln);
    444 NUMERIC_LOG "log" (Numeric) -> Numeric = long!(log10);
    445 NUMERIC_LOG10 "log10" (Numeric) -> Numeric = long!(log10);
    446 NUMERIC_LOG_BASE "log" (Numeric, Numeric) -> Numeric = long!(log of two);
    447 NUMERIC_DIV_TRUNC "div" (Numeric, Numeric) -> Numeric = two!(div_trunc);
    448 NUMERIC_GCD "gcd" (Numeric, Numeric) -> Numeric = |c| out(gcd(&c.numeric(0)?, &c.numeric(1)?, c.limits())?);
    449 NUMERIC_LCM "lcm" (Numeric, Numeric) -> Numeric = |c| out(lcm(&c.numeric(0)?, &c.numeric(1)?, c.limits())?);
    450 FACTORIAL "factorial" (Int8) -> Numeric = |c| factorial(c.int8(0)?, c.limits());
    451 SCALE "scale" (Numeric) -> Int4 = scale!(scale);
    452 MIN_SCALE "min_scale" (Numeric) -> Int4 = scale!(min_scale);
    453 TRIM_SCALE "trim_scale" (Numeric) -> Numeric = plain!(trim_scale);
}
