//! real: a float of 32 bits, in 4 bytes, the lowest first.
//!
//! It computes with itself in 32 bits and with double precision in 64. Results that leave the range of finite
//! numbers are errors where no argument was infinite, and so are results other than zero that vanish.
//!
//! Source: PostgreSQL 15's documentation, 8.1, its catalogue and its answers.

use super::{Cast, Form, Key, comparisons};
use crate::agg::{AggDef, Own};
use crate::cast::CastContext::{self, Assignment, Implicit};
use crate::func::float::{overflow, underflow};
use crate::func::operator::{binary, prefix};
use crate::func::{Call, Context, OperatorDef, compare, division_by_zero, functions};
use crate::style::Styles;
use crate::ty::{Category, TypeDef};
use crate::{Numeric, SqlResult, Type, TypeId, Value, ValueRef, cast, text};
use std::cmp::Ordering;

pub(super) const TYPE: TypeDef = TypeDef::opaque(700, "float4", "real", Category::Numeric, &FORM).array(1021);

static FORM: Form = Form {
    width: Some(4),
    input: |text, _, _| {
        let nearest = |number: &str| number.parse::<f32>().ok().map(f64::from);
        text::parse_float(text, "real", nearest, |f| f64::from(f as f32)).map(|f| real(f as f32))
    },
    output: |_, b, out| write(number(b), out),
    compare: |a, b| order(number(a).into(), number(b).into()),
    key: Key::Fixed { width: 4, make: key },
};

fn key(bytes: &[u8]) -> [u8; 16] {
    let f = number(bytes);
    // One zero, and one NaN above infinity.
    let bits = if f.is_nan() { f32::NAN.to_bits() & !(1 << 31) } else { (f + 0.0).to_bits() };
    let ordered = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
    let mut key = [0; 16];
    key[..4].copy_from_slice(&ordered.to_be_bytes());
    key
}

pub(crate) fn number(bytes: &[u8]) -> f32 {
    bytes.first_chunk().map_or(0.0, |b| f32::from_le_bytes(*b))
}

/// A value of the type.
pub fn real(f: f32) -> Value {
    Value::Opaque(TypeId::FLOAT4, Box::new(f.to_le_bytes()))
}

fn order(a: f64, b: f64) -> Ordering {
    compare::float8_cmp(a, b)
}

/// In a session's styles.
pub(crate) fn write_styled(bytes: &[u8], styles: &Styles, out: &mut String) {
    let f = number(bytes);
    text::write_float(f.into(), 6, styles, out, |_, out| write(f, out))
}

/// The fewest digits that read back to the number.
fn write(f: f32, out: &mut String) {
    if f.is_nan() {
        return out.push_str("NaN");
    }
    if f.is_sign_negative() {
        out.push('-');
    }
    let f = f.abs();
    if f.is_infinite() {
        return out.push_str("Infinity");
    }
    let mut shortest = format!("{f:e}");
    if f != 0.0 && stands_between(f, &shortest) {
        // The nearest of one digit more does not.
        let digits = shortest.bytes().take_while(|b| *b != b'e').filter(u8::is_ascii_digit).count();
        shortest = format!("{f:.digits$e}");
    } else if let Some(even) = even_of_tie(f, &shortest) {
        shortest = even
    }
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let digits = mantissa.replace('.', "");
    text::write_digits(&digits, exponent.parse().unwrap_or(0), 6, out)
}

/// The decimal one below in its last digit, which is even, where the number lies in the middle between
/// the two and it reads back to the number as well.
fn even_of_tie(f: f32, decimal: &str) -> Option<String> {
    let (mantissa, exponent) = decimal.split_once('e')?;
    let last = mantissa.bytes().last().filter(|d| d % 2 == 1)?;
    let even = format!("{}{}", &mantissa[..mantissa.len() - 1], char::from(last - 1));
    // All of its digits: fewer than 120.
    let exact = format!("{:.120e}", f64::from(f));
    let point = if even.contains('.') { "" } else { "." };
    let middle = exact.strip_prefix(&format!("{even}{point}5"))?;
    let is_middle = middle.trim_start_matches('0').starts_with('e');
    let even = format!("{even}e{exponent}");
    (is_middle && even.parse() == Ok(f)).then_some(even)
}

/// Whether a decimal lies exactly in the middle between a number and a neighbour: such a middle is a double.
fn stands_between(f: f32, decimal: &str) -> bool {
    let middle = |neighbour: f32| (f64::from(f) + f64::from(neighbour)) / 2.0;
    decimal.parse::<f64>().is_ok_and(|d| d == middle(f.next_up()) || d == middle(f.next_down()))
}

/// A result in 32 bits, unless it became infinite from finite arguments, or zero where it may not.
fn narrow(r: f32, finite_args: bool, may_vanish: bool) -> SqlResult<Value> {
    match r {
        _ if r.is_infinite() && finite_args => Err(overflow()),
        0.0 if !may_vanish => Err(underflow()),
        _ => Ok(real(r)),
    }
}

fn add(a: f32, b: f32) -> SqlResult<Value> {
    narrow(a + b, a.is_finite() && b.is_finite(), true)
}

fn sub(a: f32, b: f32) -> SqlResult<Value> {
    narrow(a - b, a.is_finite() && b.is_finite(), true)
}

fn mul(a: f32, b: f32) -> SqlResult<Value> {
    narrow(a * b, !a.is_infinite() && !b.is_infinite(), a == 0.0 || b == 0.0)
}

fn div(a: f32, b: f32) -> SqlResult<Value> {
    if b == 0.0 && !a.is_nan() {
        return Err(division_by_zero());
    }
    narrow(a / b, !a.is_infinite(), a == 0.0 || b.is_infinite())
}

/// Either kind of float.
fn double(c: &Call<'_>, i: usize) -> SqlResult<f64> {
    match c.args[i] {
        ValueRef::Opaque(_, b) => Ok(number(b).into()),
        _ => c.float8(i),
    }
}

macro_rules! two {
    ($fun:expr) => {
        |c| $fun(number(c.opaque(0)?), number(c.opaque(1)?))
    };
}
/// A function without errors.
macro_rules! plain {
    ($fun:expr) => {
        |c| Ok(real($fun(number(c.opaque(0)?))))
    };
}
/// A comparison in which one side may be a double.
macro_rules! by {
    ($test:ident) => {
        |c| Ok(Value::Bool(order(double(c, 0)?, double(c, 1)?).$test()))
    };
}
/// Arithmetic with a double.
macro_rules! wide {
    ($fun:ident) => {
        |c| crate::func::float::$fun(double(c, 0)?, double(c, 1)?)
    };
}

functions! {
    1398 FLOAT4_SEND "float4send" (Float4) -> Bytea =
        |c| Ok(Value::Bytea(number(c.opaque(0)?).to_be_bytes().to_vec()));
    820 FLOAT4_LT "float4lt" (Float4, Float4) -> Bool = by!(is_lt);
    821 FLOAT4_LE "float4le" (Float4, Float4) -> Bool = by!(is_le);
    822 FLOAT4_EQ "float4eq" (Float4, Float4) -> Bool = by!(is_eq);
    823 FLOAT4_NE "float4ne" (Float4, Float4) -> Bool = by!(is_ne);
    824 FLOAT4_GE "float4ge" (Float4, Float4) -> Bool = by!(is_ge);
    825 FLOAT4_GT "float4gt" (Float4, Float4) -> Bool = by!(is_gt);
    826 FLOAT48_LT "float48lt" (Float4, Float8) -> Bool = by!(is_lt);
    827 FLOAT48_LE "float48le" (Float4, Float8) -> Bool = by!(is_le);
    828 FLOAT48_EQ "float48eq" (Float4, Float8) -> Bool = by!(is_eq);
    829 FLOAT48_NE "float48ne" (Float4, Float8) -> Bool = by!(is_ne);
    830 FLOAT48_GE "float48ge" (Float4, Float8) -> Bool = by!(is_ge);
    831 FLOAT48_GT "float48gt" (Float4, Float8) -> Bool = by!(is_gt);
    832 FLOAT84_LT "float84lt" (Float8, Float4) -> Bool = by!(is_lt);
    833 FLOAT84_LE "float84le" (Float8, Float4) -> Bool = by!(is_le);
    834 FLOAT84_EQ "float84eq" (Float8, Float4) -> Bool = by!(is_eq);
    835 FLOAT84_NE "float84ne" (Float8, Float4) -> Bool = by!(is_ne);
    836 FLOAT84_GE "float84ge" (Float8, Float4) -> Bool = by!(is_ge);
    837 FLOAT84_GT "float84gt" (Float8, Float4) -> Bool = by!(is_gt);
    838 FLOAT4_ADD "float4pl" (Float4, Float4) -> Float4 = two!(add);
    839 FLOAT4_SUB "float4mi" (Float4, Float4) -> Float4 = two!(sub);
    840 FLOAT4_MUL "float4mul" (Float4, Float4) -> Float4 = two!(mul);
    841 FLOAT4_DIV "float4div" (Float4, Float4) -> Float4 = two!(div);
    842 FLOAT48_ADD "float48pl" (Float4, Float8) -> Float8 = wide!(add);
    843 FLOAT48_SUB "float48mi" (Float4, Float8) -> Float8 = wide!(sub);
    844 FLOAT48_MUL "float48mul" (Float4, Float8) -> Float8 = wide!(mul);
    845 FLOAT48_DIV "float48div" (Float4, Float8) -> Float8 = wide!(div);
    846 FLOAT84_ADD "float84pl" (Float8, Float4) -> Float8 = wide!(add);
    847 FLOAT84_SUB "float84mi" (Float8, Float4) -> Float8 = wide!(sub);
    848 FLOAT84_MUL "float84mul" (Float8, Float4) -> Float8 = wide!(mul);
    849 FLOAT84_DIV "float84div" (Float8, Float4) -> Float8 = wide!(div);
    850 FLOAT4_NEG "float4um" (Float4) -> Float4 = plain!(|f: f32| -f);
    851 FLOAT4_PLUS "float4up" (Float4) -> Float4 = plain!(|f: f32| f);
    852 FLOAT4_ABS_OP "float4abs" (Float4) -> Float4 = plain!(f32::abs);
    853 FLOAT4_ABS "abs" (Float4) -> Float4 = plain!(f32::abs);
}

const REAL: TypeId = TypeId::FLOAT4;
const DOUBLE: TypeId = TypeId::FLOAT8;

pub(super) const OPERATORS: &[&[OperatorDef]] = &[
    &comparisons(
        (REAL, REAL),
        [id::FLOAT4_LT, id::FLOAT4_LE, id::FLOAT4_EQ, id::FLOAT4_NE, id::FLOAT4_GE, id::FLOAT4_GT],
    ),
    &comparisons(
        (REAL, DOUBLE),
        [id::FLOAT48_LT, id::FLOAT48_LE, id::FLOAT48_EQ, id::FLOAT48_NE, id::FLOAT48_GE, id::FLOAT48_GT],
    ),
    &comparisons(
        (DOUBLE, REAL),
        [id::FLOAT84_LT, id::FLOAT84_LE, id::FLOAT84_EQ, id::FLOAT84_NE, id::FLOAT84_GE, id::FLOAT84_GT],
    ),
    &[
        binary("+", REAL, REAL, id::FLOAT4_ADD, "+", ""),
        binary("-", REAL, REAL, id::FLOAT4_SUB, "", ""),
        binary("*", REAL, REAL, id::FLOAT4_MUL, "*", ""),
        binary("/", REAL, REAL, id::FLOAT4_DIV, "", ""),
        binary("+", REAL, DOUBLE, id::FLOAT48_ADD, "+", ""),
        binary("-", REAL, DOUBLE, id::FLOAT48_SUB, "", ""),
        binary("*", REAL, DOUBLE, id::FLOAT48_MUL, "*", ""),
        binary("/", REAL, DOUBLE, id::FLOAT48_DIV, "", ""),
        binary("+", DOUBLE, REAL, id::FLOAT84_ADD, "+", ""),
        binary("-", DOUBLE, REAL, id::FLOAT84_SUB, "", ""),
        binary("*", DOUBLE, REAL, id::FLOAT84_MUL, "*", ""),
        binary("/", DOUBLE, REAL, id::FLOAT84_DIV, "", ""),
        prefix("-", REAL, id::FLOAT4_NEG),
        prefix("+", REAL, id::FLOAT4_PLUS),
        prefix("@", REAL, id::FLOAT4_ABS_OP),
    ],
];

/// A cast of a real to another number: of its double, or for a numeric of the six digits that are sure.
fn to_number(v: ValueRef<'_>, to: Type, ctx: &Context<'_>) -> SqlResult<Value> {
    let f = match v {
        ValueRef::Opaque(_, b) => f64::from(number(b)),
        other => return Ok(other.to_owned()),
    };
    match to.id {
        TypeId::NUMERIC => cast::apply_typmod(Value::Numeric(Numeric::from_float(f, 6)), to, false, ctx),
        _ => cast::cast(Value::Float8(f), DOUBLE, to, false, ctx),
    }
}

/// A cast of another number to real.
fn of_number(v: ValueRef<'_>, _: Type, _: &Context<'_>) -> SqlResult<Value> {
    Ok(match v {
        ValueRef::Int2(i) => real(i.into()),
        ValueRef::Int4(i) => real(i as f32),
        ValueRef::Int8(i) => real(i as f32),
        // By its text, so that it is rounded once.
        v if let Some(n) = v.numeric() => {
            return (FORM.input)(&n.to_string(), Type::new(REAL), &Context::EMPTY);
        }
        ValueRef::Float8(f) => return narrow(f as f32, f.is_finite(), f == 0.0),
        other => other.to_owned(),
    })
}

const fn cast_to(to: TypeId, context: CastContext) -> Cast {
    Cast { from: REAL, to, context, run: to_number }
}

const fn cast_from(from: TypeId, context: CastContext) -> Cast {
    Cast { from, to: REAL, context, run: of_number }
}

pub(super) const CASTS: &[Cast] = &[
    cast_to(DOUBLE, Implicit),
    cast_to(TypeId::NUMERIC, Assignment),
    cast_to(TypeId::INT8, Assignment),
    cast_to(TypeId::INT4, Assignment),
    cast_to(TypeId::INT2, Assignment),
    cast_from(TypeId::INT2, Implicit),
    cast_from(TypeId::INT4, Implicit),
    cast_from(TypeId::INT8, Implicit),
    cast_from(TypeId::NUMERIC, Implicit),
    cast_from(DOUBLE, Assignment),
];

/// The sum, in 32 bits like PostgreSQL's.
static SUM: Own = Own {
    step: |sum, v| {
        *sum = match (&*sum, v) {
            (Value::Opaque(_, a), ValueRef::Opaque(_, b)) => add(number(a), number(b))?,
            (_, v) => v.to_owned(),
        };
        Ok(())
    },
    merge: |sum, other| (SUM.step)(sum, other),
    finish: |sum| Ok(sum.to_owned()),
};

mod aggregates {
    use super::{DOUBLE, SUM};
    use crate::agg::{Kind, STDDEV_POP, STDDEV_SAMP, VAR_POP, VAR_SAMP, aggregates};

    aggregates! {
        80 SUM_FLOAT4 "sum" (Float4) -> Float4 = Kind::Own(&SUM);
        81 MIN_FLOAT4 "min" (Float4) -> Float4 = Kind::Min;
        82 MAX_FLOAT4 "max" (Float4) -> Float4 = Kind::Max;
        83 AVG_FLOAT4 "avg" (Float4) -> Float8 = Kind::Avg, as DOUBLE;
        84 VAR_POP_FLOAT4 "var_pop" (Float4) -> Float8 = VAR_POP, as DOUBLE;
        85 VAR_SAMP_FLOAT4 "var_samp" (Float4) -> Float8 = VAR_SAMP, as DOUBLE;
        86 VARIANCE_FLOAT4 "variance" (Float4) -> Float8 = VAR_SAMP, as DOUBLE;
        87 STDDEV_POP_FLOAT4 "stddev_pop" (Float4) -> Float8 = STDDEV_POP, as DOUBLE;
        88 STDDEV_SAMP_FLOAT4 "stddev_samp" (Float4) -> Float8 = STDDEV_SAMP, as DOUBLE;
        89 STDDEV_FLOAT4 "stddev" (Float4) -> Float8 = STDDEV_SAMP, as DOUBLE;
    }
}
pub(super) const AGGREGATES: &[AggDef] = aggregates::DEFS;

#[cfg(test)]
pub(super) const SAMPLES: &[&[&str]] = &[
    &["-Infinity", "-inf"],
    &["-3.4028235e38"],
    &["-1.5"],
    &["-1e-45"],
    &["0", "-0", "0.0"],
    &["1e-45", "1.4e-45"],
    &["0.1", "0.100000001"],
    &["16777216", "16777217", "0x1000000"],
    &["16777218"],
    &["9.0071998e15"],
    &["Infinity", "+infinity"],
    &["NaN", "nan"],
];

#[cfg(test)]
mod tests {
    use crate::TypeId;
    use crate::catalog::tests::is_refused;

    #[test]
    fn between_two_shortest_texts_the_even_one_is_taken() {
        for (f, text) in
            [(13765921.0 / 4.0, "3.4414802e+06"), (13765923.0 / 4.0, "3.4414808e+06"), (0.1, "0.1")]
        {
            let mut out = String::new();
            super::write(f, &mut out);
            assert_eq!(out, text)
        }
    }
    #[test]
    fn what_is_no_real_is_refused() {
        is_refused(TypeId::FLOAT4, "x", "22P02", "invalid input syntax for type real: \"x\"");
        is_refused(TypeId::FLOAT4, "1e39", "22003", "\"1e39\" is out of range for type real");
        is_refused(TypeId::FLOAT4, "1e-60", "22003", "\"1e-60\" is out of range for type real");
    }
}
