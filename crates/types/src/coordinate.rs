//! Values as coordinates: floating-point numbers that have the order of the values, and their distances as
//! far as doubles tell them apart.
//!
//! - **C1** Each is the double next to the value: whole numbers and decimals as they are, dates in days,
//!   times in microseconds. Rounding never turns two values round, so what is between two values has a
//!   coordinate between theirs, or one of these.
use crate::numeric::Numeric;
use crate::{Type, TypeId, ValueRef, catalog};

/// Whether all values of a type have coordinates.
pub fn has_coordinates(ty: Type) -> bool {
    match ty.id {
        TypeId::NUMERIC => ty.packed_scale().is_some(),
        TypeId::INT2 | TypeId::INT4 | TypeId::INT8 | TypeId::FLOAT4 | TypeId::FLOAT8 => true,
        TypeId::DATE | TypeId::TIME | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ => true,
        _ => false,
    }
}

/// The coordinate of a value of such a type (C1), or of any numeric; `None` of NULL and others.
pub fn coordinate(value: ValueRef<'_>) -> Option<f64> {
    Some(match value {
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
    })
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
