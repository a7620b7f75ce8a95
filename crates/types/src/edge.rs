//! The end of a range of values, in another type than the one that it was given in.
//!
//! - **E1** An end never cuts: each value of the wanted type that compares as `>=` with what was given is not
//!   below the lower end that it becomes, and none that compares as `<=` is above the upper one. There may be
//!   others in between, so whoever reads the range compares once more.
//! - **E2** Where a zone's clocks are put back or forward, what they show does not rise with time. Their
//!   farthest offsets of two days around are taken; no change is larger.
use crate::datetime::zone::Zone;
use crate::datetime::{DATE_INFINITY, DATE_NEG_INFINITY, USECS_PER_DAY, USECS_PER_SEC, timestamp_is_finite};
use crate::{TypeId, Value, ValueRef};

/// A date's midnight in microseconds, on a scale where no date overflows.
pub(crate) fn midnight(date: i32) -> i128 {
    match date {
        DATE_NEG_INFINITY => i64::MIN.into(),
        DATE_INFINITY => i128::MAX,
        d => i128::from(d) * i128::from(USECS_PER_DAY),
    }
}

/// A timestamp on the scale of [`midnight`].
pub(crate) fn instant(us: i64) -> i128 {
    if us == i64::MAX { i128::MAX } else { us.into() }
}

/// Whether values of `from` become ends of ranges of `to` by [`end`], and not as they are: the two types
/// compare with each other, and not every value of the first is one of the second.
pub fn is_rounded(from: TypeId, to: TypeId) -> bool {
    let is_time = |t| matches!(t, TypeId::DATE | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ);
    match (from, to) {
        (TypeId::INT8, TypeId::INT4 | TypeId::INT2) | (TypeId::INT4, TypeId::INT2) => true,
        _ => from != to && is_time(from) && is_time(to),
    }
}

/// A value as the lower or upper end of a range of `to`, the range taken with its end (E1). None where
/// [`is_rounded`] says no. `zone` is the session's.
pub fn end(value: ValueRef<'_>, to: TypeId, lower: bool, zone: Zone) -> Option<Value> {
    if let TypeId::INT2 | TypeId::INT4 = to {
        let n = match value {
            ValueRef::Int8(n) => n,
            ValueRef::Int4(n) => n.into(),
            _ => return None,
        };
        return Some(match to {
            TypeId::INT2 => Value::Int2(n.clamp(i16::MIN.into(), i16::MAX.into()) as i16),
            _ => Value::Int4(n.clamp(i32::MIN.into(), i32::MAX.into()) as i32),
        });
    }
    let (given, is_moment) = match value {
        ValueRef::Date(d) => (midnight(d), false),
        ValueRef::Timestamp(t) => (instant(t), false),
        ValueRef::Timestamptz(t) => (instant(t), true),
        _ => return None,
    };
    let at = match (is_moment, to == TypeId::TIMESTAMPTZ) {
        (true, false) => given + i128::from(offset(given, zone, lower)) * i128::from(USECS_PER_SEC),
        (false, true) => given - i128::from(offset(given, zone, !lower)) * i128::from(USECS_PER_SEC),
        _ => given,
    };
    let near = || at.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    Some(match to {
        TypeId::DATE if at <= i64::MIN.into() => Value::Date(DATE_NEG_INFINITY),
        TypeId::DATE => {
            let day = at.div_euclid(USECS_PER_DAY.into());
            Value::Date(day.clamp(DATE_NEG_INFINITY.into(), DATE_INFINITY.into()) as i32)
        }
        TypeId::TIMESTAMP => Value::Timestamp(near()),
        TypeId::TIMESTAMPTZ => Value::Timestamptz(near()),
        _ => return None,
    })
}

/// The least, or the most, seconds east that the zone's clocks are within two days of a moment (E2).
fn offset(at: i128, zone: Zone, least: bool) -> i32 {
    let Some(at) = i64::try_from(at).ok().filter(|t| timestamp_is_finite(*t)) else { return 0 };
    let all = [-2, -1, 0, 1, 2].map(|days| zone.at(at.saturating_add(days * USECS_PER_DAY)).east);
    all.into_iter().fold(all[0], |a, b| if (b < a) == least { b } else { a })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::func::{self, Context, FuncId, id};

    const DAY: i64 = USECS_PER_DAY;

    /// Its place among the values of its type.
    fn place(v: &Value) -> i64 {
        match *v {
            Value::Int2(n) => n.into(),
            Value::Int4(n) | Value::Date(n) => n.into(),
            Value::Int8(n) | Value::Timestamp(n) | Value::Timestamptz(n) => n,
            _ => unreachable!("{v:?}"),
        }
    }

    /// E1, for each pair of types: values around each other, and at the ends of what there is.
    #[test]
    fn an_end_never_cuts() {
        let zones = ["UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Pacific/Kwajalein"];
        let mut moments = vec![i64::MIN, i64::MAX, -211_813_488_000_000_000, 9_223_371_331_199_999_999];
        // The epoch, the days that Samoa and Kwajalein lost, and the ends of summers and winters.
        for day in [0, 4381, -2325, 8851, 9033, 8844, 9047] {
            moments.extend((-30..30).map(|h| day * DAY + h * 3_600_000_000 + 1_800_000_000 * (h % 2)))
        }
        let day = |t: &i64| match *t {
            i64::MIN => i32::MIN,
            i64::MAX => i32::MAX,
            t => t.div_euclid(DAY) as i32,
        };
        let dates = moments.iter().map(day).chain([2_145_031_948]).map(Value::Date).collect();
        let local = moments.iter().copied().map(Value::Timestamp).collect();
        let moments = moments.iter().copied().map(Value::Timestamptz).collect();
        let ints = [i64::MIN, i64::MAX, 0, 1 << 15, -(1 << 15), 1 << 31, -(1 << 31)];
        let ints = ints.map(|n| [n.saturating_sub(1), n, n.saturating_add(1)]).concat();
        let two = ints.iter().filter_map(|n| i16::try_from(*n).ok()).map(Value::Int2).collect();
        let four = ints.iter().filter_map(|n| i32::try_from(*n).ok()).map(Value::Int4).collect();
        let eight = ints.iter().copied().map(Value::Int8).collect();
        let pairs: [(&Vec<Value>, &Vec<Value>, FuncId, FuncId); 9] = [
            (&dates, &local, id::DATE_GE_TIMESTAMP, id::DATE_LE_TIMESTAMP),
            (&dates, &moments, id::DATE_GE_TIMESTAMPTZ, id::DATE_LE_TIMESTAMPTZ),
            (&local, &dates, id::TIMESTAMP_GE_DATE, id::TIMESTAMP_LE_DATE),
            (&local, &moments, id::TIMESTAMP_GE_TIMESTAMPTZ, id::TIMESTAMP_LE_TIMESTAMPTZ),
            (&moments, &dates, id::TIMESTAMPTZ_GE_DATE, id::TIMESTAMPTZ_LE_DATE),
            (&moments, &local, id::TIMESTAMPTZ_GE_TIMESTAMP, id::TIMESTAMPTZ_LE_TIMESTAMP),
            (&two, &four, id::INT24_GE, id::INT24_LE),
            (&two, &eight, id::INT28_GE, id::INT28_LE),
            (&four, &eight, id::INT48_GE, id::INT48_LE),
        ];
        for name in zones {
            let zone = Zone::named(name).expect("a zone");
            let mut context = Context::EMPTY;
            context.styles.zone = zone;
            let (mut between, mut all) = (0, 0);
            for (values, ends, ge, le) in pairs {
                for given in ends {
                    let (mut a, mut b) = (Vec::new(), Vec::new());
                    let given = given.as_ref(&mut b);
                    let ty = values[0].type_id().expect("a value");
                    let [low, high] =
                        [true, false].map(|lower| end(given, ty, lower, zone).expect("a type that has ends"));
                    for v in values {
                        let mut holds = |f| {
                            let args = [v.as_ref(&mut a), given];
                            func::call(f, &args, &context).expect("compares") == Value::Bool(true)
                        };
                        let (ge, le) = (holds(ge), holds(le));
                        let (above, below) = (place(v) >= place(&low), place(v) <= place(&high));
                        let told = || format!("{v:?} and {given:?} in {name}: {low:?} to {high:?}");
                        assert!(!ge || above, "{}", told());
                        assert!(!le || below, "{}", told());
                        between += usize::from(above && !ge) + usize::from(below && !le);
                        all += 2;
                    }
                }
            }
            // The ends are near: few values are compared in vain.
            assert!(between * 50 < all, "{between} of {all} in {name}");
        }
    }

    #[test]
    fn types_that_have_ends() {
        for (from, to, rounded) in [
            (TypeId::INT8, TypeId::INT4, true),
            (TypeId::INT4, TypeId::INT8, false),
            (TypeId::DATE, TypeId::TIMESTAMPTZ, true),
            (TypeId::DATE, TypeId::DATE, false),
            (TypeId::TEXT, TypeId::DATE, false),
        ] {
            assert_eq!(is_rounded(from, to), rounded, "{from:?} {to:?}");
        }
    }
}
