//! Values as coordinates: floating-point numbers that have the order of the values, and their distances as
//! far as doubles tell them apart.
//!
//! - **C1** Each is the double next to the value: whole numbers and decimals as they are, dates in days,
//!   times in microseconds. Rounding never turns two values round, so what is between two values has a
//!   coordinate between theirs, or one of these.
//! - **C2** They are finite: infinities are the outermost numbers, and so is NaN, above all as in
//!   PostgreSQL's order. There is one zero.
use crate::func::{Call, functions};
use crate::numeric::Numeric;
use crate::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, catalog, sqlstate};

/// The most dimensions that a distance is measured in.
pub const MOST: usize = 6;

/// Whether all values of a type have coordinates.
pub fn has_coordinates(ty: Type) -> bool {
    match ty.id {
        TypeId::NUMERIC => ty.packed_scale().is_some(),
        TypeId::INT2 | TypeId::INT4 | TypeId::INT8 | TypeId::FLOAT4 | TypeId::FLOAT8 => true,
        TypeId::DATE | TypeId::TIME | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ => true,
        _ => false,
    }
}

/// What has a distance from values of a type: they are measured alike.
pub fn measured_alike(a: TypeId, b: TypeId) -> bool {
    let is_number = |ty| {
        use TypeId as T;
        matches!(ty, T::INT2 | T::INT4 | T::INT8 | T::FLOAT4 | T::FLOAT8 | T::NUMERIC)
    };
    let is_other = |ty| matches!(ty, TypeId::DATE | TypeId::TIME | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ);
    is_number(a) && is_number(b) || a == b && is_other(a)
}

/// The coordinate of a value of such a type (C1), or of any numeric; `None` of NULL and others.
pub fn coordinate(value: ValueRef<'_>) -> Option<f64> {
    let x = match value {
        ValueRef::Int2(n) => n.into(),
        ValueRef::Int4(n) => n.into(),
        ValueRef::Int8(n) => n as f64,
        ValueRef::Float8(x) => x,
        ValueRef::Packed(p) => of_numeric(&p.numeric()),
        ValueRef::Numeric(bytes) => of_numeric(&Numeric::decode(bytes)),
        ValueRef::Date(days) => days.into(),
        ValueRef::Timestamp(micros) | ValueRef::Timestamptz(micros) => micros as f64,
        ValueRef::Opaque(TypeId::FLOAT4, bytes) => catalog::real::number(bytes).into(),
        ValueRef::Opaque(TypeId::TIME, bytes) => catalog::time::of(bytes) as f64,
        _ => return None,
    };
    Some(finite(x))
}

/// C2.
fn finite(x: f64) -> f64 {
    if x.is_nan() { f64::MAX } else { x.clamp(f64::MIN, f64::MAX) + 0.0 }
}

/// The distance of two points: the square root of the sum of the squares by which their coordinates differ,
/// in whichever order these come. Where it is greater than all numbers it is infinite.
///
/// # Panics
/// If there are more than six dimensions.
pub fn distance(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut away, mut count) = ([0.0; MOST], 0);
    for (a, b) in pairs {
        away[count] = (a - b).abs();
        count += 1
    }
    let away = &mut away[..count];
    away.sort_unstable_by(|a, b| b.total_cmp(a));
    let most = away.first().copied().unwrap_or(0.0);
    // Squares of what is very large or very small are no numbers any more: they are taken of multiples of a
    // power of two.
    let unit = match most {
        0.0 | f64::INFINITY => 1.0,
        _ if (1e-140..1e140).contains(&most) => 1.0,
        _ => f64::from_bits(most.to_bits() & !(u64::MAX >> 12)).max(f64::MIN_POSITIVE),
    };
    away.iter().map(|x| (x / unit) * (x / unit)).sum::<f64>().sqrt() * unit
}

/// The arguments are the coordinates of one point, then as many of another.
fn distance_of(c: &Call<'_>) -> SqlResult<Value> {
    let (a, b) = c.args.split_at(c.args.len() / 2);
    let mut pairs = [(0.0, 0.0); MOST];
    if a.len() != b.len() || a.len() > MOST {
        return Err(SqlError::new(sqlstate::INTERNAL_ERROR, "a distance of other than two points"));
    }
    for (pair, (a, b)) in pairs.iter_mut().zip(a.iter().zip(b)) {
        let (Some(a), Some(b)) = (coordinate(*a), coordinate(*b)) else { return Ok(Value::Null) };
        *pair = (a, b)
    }
    Ok(Value::Float8(distance(pairs[..a.len()].iter().copied())))
}

functions! {
    1670 CRTREE_DISTANCE "crtree_distance" (Any) -> Float8 = |c| distance_of(c), variadic;
}

/// What is too large for a double is at its end.
fn of_numeric(n: &Numeric) -> f64 {
    n.to_f64().unwrap_or(if n.to_string().starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Packed;

    #[test]
    fn distances_are_numbers_wherever_there_are_such() {
        let of = |pairs: &[(f64, f64)]| distance(pairs.iter().copied());
        assert_eq!(of(&[(1.0, 4.0), (2.0, -2.0)]), 5.0);
        assert_eq!(of(&[(2.0, -2.0), (1.0, 4.0)]), 5.0);
        for unit in [1e200, 1e-200] {
            let found = of(&[(3.0 * unit, 0.0), (0.0, 4.0 * unit)]);
            assert!((found / unit - 5.0).abs() < 1e-14, "{found}");
        }
        assert_eq!(of(&[(7.0, 7.0), (f64::MAX, f64::MAX)]), 0.0);
        assert_eq!(of(&[(f64::MAX, f64::MIN)]), f64::INFINITY);
        assert_eq!(of(&[(f64::MAX, 0.0), (f64::MAX, 0.0)]), f64::INFINITY);
        assert_eq!(of(&[(5e-324, 0.0)]), 5e-324);
        assert_eq!(finite(-0.0).to_bits(), 0);
        assert_eq!([f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(finite), [f64::MAX, f64::MAX, f64::MIN]);
    }

    #[test]
    fn decimals_of_any_scale_have_one_coordinate() {
        let of = |text: &str| Numeric::parse(text).expect("a number");
        for (text, x) in [("0.3", 0.3), ("-17.05", -17.05), ("123456789012345678", 123456789012345678.0)] {
            let n = of(text);
            let mut bytes = vec![];
            n.encode(&mut bytes);
            assert_eq!(coordinate(ValueRef::Numeric(&bytes)), Some(x));
            if let Some(packed) = Packed::of(&n, 2) {
                assert_eq!(coordinate(ValueRef::Packed(packed)), Some(x));
            }
        }
        // 3 and a third in twenty digits, beside what is next to it.
        let (a, b) = (of("0.33333333333333333333"), of("0.33333333333333333334"));
        assert!(of_numeric(&a) <= of_numeric(&b));
        assert_eq!(of_numeric(&of("-1e400")), f64::NEG_INFINITY);
    }
}
