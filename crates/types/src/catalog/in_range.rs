//! Ends of frames by RANGE: whether a value is within some distance of another, in the order of its type.
//!
//! - **R1** The end is `base + offset` or `base - offset`. A sum beyond the type's range is beyond all values
//!   of it, for integers and times of day; for other types it is the error that computing it is.
//! - **R2** A distance below zero, or one that is no number, is refused (22013).
//! - **R3** NaN is beyond all numbers and at no distance from itself. An infinite distance from the infinity
//!   that it leads away from has every value within it.
//!
//! Source: PostgreSQL 15's catalogue (the support functions `in_range`), and its answers.

use super::interval::Interval;
use super::interval::arithmetic::{timestamp_minus, timestamp_plus};
use super::{real, time, timetz};
use crate::datetime::{date_to_timestamp, zone::Zone};
use crate::func::{compare::float8_cmp, internal};
use crate::{Numeric, SqlError, SqlResult, TypeId, ValueRef};
use std::cmp::Ordering;

/// The types that a distance may have for values of a type; none for most types.
pub fn distances(of: TypeId) -> &'static [TypeId] {
    match of {
        TypeId::INT2 | TypeId::INT4 => &[TypeId::INT8, TypeId::INT4, TypeId::INT2],
        TypeId::INT8 => &[TypeId::INT8],
        TypeId::FLOAT4 | TypeId::FLOAT8 => &[TypeId::FLOAT8],
        TypeId::NUMERIC => &[TypeId::NUMERIC],
        TypeId::DATE
        | TypeId::TIMESTAMP
        | TypeId::TIMESTAMPTZ
        | TypeId::INTERVAL
        | TypeId::TIME
        | TypeId::TIMETZ => &[TypeId::INTERVAL],
        _ => &[],
    }
}

/// Which end of a frame is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Side {
    /// The end is `base - offset`.
    pub before: bool,
    /// Whether the value is at most there, not at least.
    pub at_most: bool,
}

impl Side {
    fn holds(self, order: Ordering) -> bool {
        if self.at_most { order.is_le() } else { order.is_ge() }
    }
}

#[cold]
fn invalid() -> SqlError {
    SqlError::new("22013", "invalid preceding or following size in window function")
}

fn integer(v: ValueRef<'_>) -> Option<i128> {
    match v {
        ValueRef::Int2(n) => Some(n.into()),
        ValueRef::Int4(n) => Some(n.into()),
        ValueRef::Int8(n) => Some(n.into()),
        _ => None,
    }
}

fn double(v: ValueRef<'_>) -> Option<f64> {
    match v {
        ValueRef::Float8(f) => Some(f),
        ValueRef::Opaque(TypeId::FLOAT4, b) => Some(real::number(b).into()),
        _ => None,
    }
}

/// Whether `value` is on that side of the end that lies `offset` from `base`; none of them is NULL. `zone` is
/// the one that days of a timestamptz are counted in.
pub fn in_range(
    value: ValueRef<'_>,
    base: ValueRef<'_>,
    offset: ValueRef<'_>,
    side: Side,
    zone: Zone,
) -> SqlResult<bool> {
    if let (Some(v), Some(b), Some(o)) = (integer(value), integer(base), integer(offset)) {
        if o < 0 {
            return Err(invalid());
        }
        return Ok(side.holds(v.cmp(&if side.before { b - o } else { b + o })));
    }
    if let (Some(v), Some(b), Some(o)) = (double(value), double(base), double(offset)) {
        return doubles(v, b, o, side);
    }
    if let (Some(v), Some(b), Some(o)) = (value.numeric(), base.numeric(), offset.numeric()) {
        return numerics(&v, &b, &o, side);
    }
    let ValueRef::Opaque(TypeId::INTERVAL, bytes) = offset else { return Err(wrong(offset)) };
    let by = Interval::of(bytes);
    match (value, base) {
        (ValueRef::Date(v), ValueRef::Date(b)) => {
            timestamps(date_to_timestamp(v)?, date_to_timestamp(b)?, by, side, Zone::UTC)
        }
        (ValueRef::Timestamp(v), ValueRef::Timestamp(b)) => timestamps(v, b, by, side, Zone::UTC),
        (ValueRef::Timestamptz(v), ValueRef::Timestamptz(b)) => timestamps(v, b, by, side, zone),
        (ValueRef::Opaque(TypeId::INTERVAL, v), ValueRef::Opaque(TypeId::INTERVAL, b)) => {
            if by.span() < 0 {
                return Err(invalid());
            }
            let b = Interval::of(b);
            let end = if side.before { b.checked_sub(by)? } else { b.checked_add(by)? };
            Ok(side.holds(Interval::of(v).span().cmp(&end.span())))
        }
        // Months and days do not count for a time of day, and it does not come round.
        (ValueRef::Opaque(TypeId::TIME, v), ValueRef::Opaque(TypeId::TIME, b)) => {
            let end = moved(time::of(b), by, side)?;
            Ok(side.holds(i128::from(time::of(v)).cmp(&end)))
        }
        (ValueRef::Opaque(TypeId::TIMETZ, v), ValueRef::Opaque(TypeId::TIMETZ, b)) => {
            let ((v, west), (b, base_west)) = (timetz::order(v), timetz::order(b));
            let end = moved(b, by, side)?;
            Ok(side.holds((i128::from(v), west).cmp(&(end, base_west))))
        }
        _ => Err(wrong(value)),
    }
}

fn wrong(found: ValueRef<'_>) -> SqlError {
    internal(format!("a range of {found:?}"))
}

fn moved(micros: i64, by: Interval, side: Side) -> SqlResult<i128> {
    if by.micros < 0 {
        return Err(invalid());
    }
    let (t, by) = (i128::from(micros), i128::from(by.micros));
    Ok(if side.before { t - by } else { t + by })
}

fn timestamps(v: i64, b: i64, by: Interval, side: Side, zone: Zone) -> SqlResult<bool> {
    if by.span() < 0 {
        return Err(invalid());
    }
    let end = if side.before { timestamp_minus(b, by, zone)? } else { timestamp_plus(b, by, zone)? };
    Ok(side.holds(v.cmp(&end)))
}

fn doubles(v: f64, b: f64, o: f64, side: Side) -> SqlResult<bool> {
    if o.is_nan() || o < 0.0 {
        return Err(invalid());
    }
    // R3
    if v.is_nan() || b.is_nan() {
        return Ok(side.holds(float8_cmp(v, b)));
    }
    if o.is_infinite() && b.is_infinite() && (b > 0.0) == side.before {
        return Ok(true);
    }
    Ok(side.holds(float8_cmp(v, if side.before { b - o } else { b + o })))
}

fn numerics(v: &Numeric, b: &Numeric, o: &Numeric, side: Side) -> SqlResult<bool> {
    if o.is_nan() || o.signum() < 0 {
        return Err(invalid());
    }
    // R3
    if v.is_nan() || b.is_nan() {
        return Ok(side.holds(v.cmp(b)));
    }
    if o.is_infinite() && b.is_infinite() && (b.signum() > 0) == side.before {
        return Ok(true);
    }
    // Beyond the limits of a stored number there is still a sum to compare with.
    let end = b.add_wide(&if side.before { o.neg() } else { o.clone() });
    Ok(side.holds(v.cmp(&end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_LEAST_BEFORE: Side = Side { before: true, at_most: false };
    const AT_MOST_BEHIND: Side = Side { before: false, at_most: true };

    fn ints(v: i64, b: i64, o: i64, side: Side) -> SqlResult<bool> {
        in_range(ValueRef::Int8(v), ValueRef::Int8(b), ValueRef::Int8(o), side, Zone::UTC)
    }

    #[test]
    fn integers_have_no_end_at_their_range() {
        assert!(ints(3, 5, 2, AT_LEAST_BEFORE).unwrap());
        assert!(!ints(2, 5, 2, AT_LEAST_BEFORE).unwrap());
        assert!(ints(i64::MAX, i64::MAX - 1, i64::MAX, AT_MOST_BEHIND).unwrap());
        assert!(ints(i64::MIN, i64::MIN + 1, i64::MAX, AT_LEAST_BEFORE).unwrap());
        assert_eq!(ints(1, 1, -1, AT_MOST_BEHIND).unwrap_err().sqlstate(), "22013");
    }

    #[test]
    fn what_is_no_number_is_beyond_all_that_are() {
        let inf = f64::INFINITY;
        assert!(doubles(f64::NAN, f64::NAN, 1.0, AT_LEAST_BEFORE).unwrap());
        assert!(!doubles(f64::NAN, 1.0, inf, AT_MOST_BEHIND).unwrap());
        assert!(doubles(1.0, f64::NAN, 1.0, AT_MOST_BEHIND).unwrap());
        assert!(doubles(-inf, inf, inf, AT_LEAST_BEFORE).unwrap());
        assert!(doubles(1.0, 1.0, f64::NAN, AT_LEAST_BEFORE).is_err());
    }
}
