//! time: a time of day, from 00:00:00 to 24:00:00.
//!
//! 1. A value has 8 bytes: microseconds since midnight, at most a day of them, with the highest byte first,
//!    as PostgreSQL sends them. They are its key, too.
//! 2. What computes one takes what is left of whole days; 24:00:00 comes from text and casts alone.
//!
//! Source: PostgreSQL 15's documentation, 8.5 and 9.9, its catalogue, and its answers.

use super::interval::Interval;
use super::{Cast, Form, Key, compares, comparisons};
use crate::agg::AggDef;
use crate::cast::CastContext::{Assignment, Implicit};
use crate::datetime::{self as dt, Field, USECS_PER_DAY, USECS_PER_SEC};
use crate::func::operator::binary;
use crate::func::{Call, Context, OperatorDef, functions};
use crate::ty::{Category, Modifier, TypeDef};
use crate::{Numeric, SqlResult, TypeId, Value, ValueRef};

pub(super) const TYPE: TypeDef =
    TypeDef::opaque(1083, "time", "time without time zone", Category::DateTime, &FORM)
        .array(1183)
        .modified(Modifier::Seconds { word: "TIME", zone: "" });

static FORM: Form = Form {
    width: Some(8),
    input: |text, _, ctx| dt::parse_time(text, "time", ctx).map(value),
    output: |_, b, out| dt::write_time(of(b), out),
    compare: |a, b| of(a).cmp(&of(b)),
    key: Key::Fixed {
        width: 8,
        make: |b| {
            let mut key = [0; 16];
            key[..8].copy_from_slice(&of(b).to_be_bytes());
            key
        },
    },
};

const NAME: &str = "time without time zone";

/// By invariant 1; bytes that a damaged file may hold are some time of a day.
pub(crate) fn of(bytes: &[u8]) -> i64 {
    bytes.first_chunk().map_or(0, |b| i64::from_be_bytes(*b).clamp(0, USECS_PER_DAY))
}

pub(super) fn value(micros: i64) -> Value {
    Value::Opaque(TypeId::TIME, Box::new(micros.to_be_bytes()))
}

/// Invariant 2.
pub(super) fn of_day(micros: i128) -> i64 {
    micros.rem_euclid(i128::from(USECS_PER_DAY)) as i64
}

/// Rounds to so many digits of a second's fraction, halves up.
pub(super) fn rounded(micros: i64, digits: i32) -> i64 {
    if !(0..6).contains(&digits) {
        return micros;
    }
    let unit = 10i64.pow((6 - digits) as u32);
    (micros + unit / 2) / unit * unit
}

fn later(micros: i64, i: Interval) -> SqlResult<Value> {
    Ok(value(of_day(i128::from(micros) + i128::from(i.micros))))
}

/// A time of a day; that of an infinite one is its infinity.
fn on(date: i32, micros: i64) -> SqlResult<Value> {
    let midnight = dt::date_to_timestamp(date)?;
    if !dt::timestamp_is_finite(midnight) {
        return Ok(Value::Timestamp(midnight));
    }
    let t = midnight.checked_add(micros).and_then(dt::check_timestamp);
    t.map(Value::Timestamp).ok_or_else(|| dt::out_of_range("timestamp"))
}

/// What a name means to EXTRACT of a time.
pub(super) fn known_field(name: &str, ty: &str) -> SqlResult<Field> {
    dt::field(name).filter(|f| *f != Field::Other).ok_or_else(|| dt::not_recognized(name, ty))
}

/// A field of a time as a whole number and the digits of it that are a fraction; `None` for those that a time
/// has not.
pub(super) fn part(micros: i64, field: Field) -> Option<(i64, u16)> {
    let of_minute = micros % (60 * USECS_PER_SEC);
    Some(match field {
        Field::Microsecond => (of_minute, 0),
        Field::Millisecond => (of_minute, 3),
        Field::Second => (of_minute, 6),
        Field::Minute => (micros / (60 * USECS_PER_SEC) % 60, 0),
        Field::Hour => (micros / (3600 * USECS_PER_SEC), 0),
        Field::Epoch => (micros, 6),
        _ => return None,
    })
}

/// A part as EXTRACT gives it.
pub(super) fn exact((n, digits): (i64, u16)) -> SqlResult<Value> {
    Ok(Value::Numeric(match digits {
        0 => Numeric::from(n),
        digits => Numeric::from_scaled(n.into(), digits),
    }))
}

/// The same as `date_part` gives it.
pub(super) fn double((n, digits): (i64, u16)) -> SqlResult<Value> {
    Ok(Value::Float8(n as f64 / 10f64.powi(digits.into())))
}

fn field(c: &Call<'_>) -> SqlResult<(i64, u16)> {
    let name = c.text(0)?;
    part(c.time(1)?, known_field(name, NAME)?).ok_or_else(|| dt::not_supported(name, NAME))
}

/// A time, and another or how much later that is.
fn period(c: &Call<'_>, i: usize) -> dt::Period<i64> {
    let time = |i: usize| match c.args.get(i) {
        Some(ValueRef::Opaque(TypeId::TIME, b)) => Some(of(b)),
        _ => None,
    };
    let start = time(i);
    match (start, c.args.get(i + 1)) {
        (Some(t), Some(ValueRef::Opaque(TypeId::INTERVAL, b))) => {
            (start, Some(of_day(i128::from(t) + i128::from(Interval::of(b).micros))))
        }
        _ => (start, time(i + 1)),
    }
}

fn overlaps(c: &Call<'_>) -> SqlResult<Value> {
    Ok(dt::overlap(period(c, 0), period(c, 2)).map_or(Value::Null, Value::Bool))
}

impl Call<'_> {
    /// Microseconds.
    pub(super) fn time(&self, i: usize) -> SqlResult<i64> {
        self.opaque(i).map(of)
    }
}

functions! {
    1350 TIME_LT "time_lt" (Time, Time) -> Bool = compares!(is_lt);
    1351 TIME_LE "time_le" (Time, Time) -> Bool = compares!(is_le);
    1352 TIME_EQ "time_eq" (Time, Time) -> Bool = compares!(is_eq);
    1353 TIME_NE "time_ne" (Time, Time) -> Bool = compares!(is_ne);
    1354 TIME_GE "time_ge" (Time, Time) -> Bool = compares!(is_ge);
    1355 TIME_GT "time_gt" (Time, Time) -> Bool = compares!(is_gt);
    1356 TIME_PLUS_INTERVAL "time_pl_interval" (Time, Interval) -> Time = |c| later(c.time(0)?, c.interval(1)?);
    1357 INTERVAL_PLUS_TIME "interval_pl_time" (Interval, Time) -> Time = |c| later(c.time(1)?, c.interval(0)?);
    1358 TIME_MINUS_INTERVAL "time_mi_interval" (Time, Interval) -> Time =
        |c| Ok(value(of_day(i128::from(c.time(0)?) - i128::from(c.interval(1)?.micros))));
    1359 TIME_SUB "time_mi_time" (Time, Time) -> Interval =
        |c| Ok(Interval { months: 0, days: 0, micros: c.time(0)? - c.time(1)? }.value());
    1360 DATE_PLUS_TIME "datetime_pl" (Date, Time) -> Timestamp = |c| on(c.date(0)?, c.time(1)?);
    1361 TIME_PLUS_DATE "timedate_pl" (Time, Date) -> Timestamp = |c| on(c.date(1)?, c.time(0)?);
    1362 EXTRACT_TIME "extract" (Text, Time) -> Numeric = |c| exact(field(c)?);
    1363 DATE_PART_TIME "date_part" (Text, Time) -> Float8 = |c| double(field(c)?);
    1393 OVERLAPS_TIME "overlaps" (Time, Time, Time, Time) -> Bool = |c| overlaps(c), lax;
    1394 OVERLAPS_TIME_TO_SPAN "overlaps" (Time, Time, Time, Interval) -> Bool = |c| overlaps(c), lax;
    1395 OVERLAPS_TIME_SPAN_TO "overlaps" (Time, Interval, Time, Time) -> Bool = |c| overlaps(c), lax;
    1396 OVERLAPS_TIME_SPANS "overlaps" (Time, Interval, Time, Interval) -> Bool = |c| overlaps(c), lax;
    1364 MAKE_TIME "make_time" (Int4, Int4, Float8) -> Time =
        |c| dt::make_time(c.int4(0)?, c.int4(1)?, c.float8(2)?).map(value);
}

const TIME: TypeId = TypeId::TIME;

pub(super) const OPERATORS: &[&[OperatorDef]] = &[
    &comparisons(
        (TIME, TIME),
        [id::TIME_LT, id::TIME_LE, id::TIME_EQ, id::TIME_NE, id::TIME_GE, id::TIME_GT],
    ),
    &[
        binary("+", TIME, TypeId::INTERVAL, id::TIME_PLUS_INTERVAL, "+", ""),
        binary("+", TypeId::INTERVAL, TIME, id::INTERVAL_PLUS_TIME, "+", ""),
        binary("-", TIME, TypeId::INTERVAL, id::TIME_MINUS_INTERVAL, "", ""),
        binary("-", TIME, TIME, id::TIME_SUB, "", ""),
        binary("+", TypeId::DATE, TIME, id::DATE_PLUS_TIME, "+", ""),
        binary("+", TIME, TypeId::DATE, id::TIME_PLUS_DATE, "+", ""),
    ],
];

/// A value's time of day, as the type has it; NULL stays.
fn cast_value(v: ValueRef<'_>, digits: i32, ctx: &Context<'_>) -> SqlResult<Value> {
    let micros = match v {
        ValueRef::Opaque(TypeId::INTERVAL, b) => of_day(Interval::of(b).micros.into()),
        ValueRef::Opaque(_, b) => of(b),
        // That of an infinite moment is none.
        ValueRef::Timestamp(t) | ValueRef::Timestamptz(t) if !dt::timestamp_is_finite(t) => {
            return Ok(Value::Null);
        }
        ValueRef::Timestamp(t) => of_day(t.into()),
        ValueRef::Timestamptz(t) => of_day(ctx.styles.zone.local(t).into()),
        other => return Ok(other.to_owned()),
    };
    Ok(value(rounded(micros, digits)))
}

pub(super) const CASTS: &[Cast] = &[
    Cast { from: TIME, to: TIME, context: Implicit, run: |v, to, ctx| cast_value(v, to.typmod, ctx) },
    Cast {
        from: TIME,
        to: TypeId::INTERVAL,
        context: Implicit,
        run: |v, to, ctx| match v {
            ValueRef::Opaque(_, b) => {
                let i = Interval { months: 0, days: 0, micros: of(b) }.value();
                crate::cast::cast(i, TypeId::INTERVAL, to, true, ctx)
            }
            other => Ok(other.to_owned()),
        },
    },
    Cast {
        from: TypeId::INTERVAL,
        to: TIME,
        context: Assignment,
        run: |v, to, ctx| cast_value(v, to.typmod, ctx),
    },
    Cast {
        from: TypeId::TIMESTAMP,
        to: TIME,
        context: Assignment,
        run: |v, to, ctx| cast_value(v, to.typmod, ctx),
    },
    Cast {
        from: TypeId::TIMESTAMPTZ,
        to: TIME,
        context: Assignment,
        run: |v, to, ctx| cast_value(v, to.typmod, ctx),
    },
];

mod aggregates {
    use crate::agg::{Kind, aggregates};

    aggregates! {
        150 MIN_TIME "min" (Time) -> Time = Kind::Min;
        151 MAX_TIME "max" (Time) -> Time = Kind::Max;
    }
}
pub(super) const AGGREGATES: &[AggDef] = aggregates::DEFS;

#[cfg(test)]
pub(super) const SAMPLES: &[&[&str]] = &[
    &["00:00:00", "allballs", "12:00 AM", "0000", "00:00:00-08"],
    &["00:00:00.000001"],
    &["04:05:06.789", "040506.789", "T04:05:06.789", "2001-02-03 04:05:06.789"],
    &["16:05:00", "4:05 PM", "1605", "16:05:00+03:30", "16:04:60"],
    &["23:59:59.999999"],
    &["24:00:00", "23:59:60"],
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tests::is_refused;

    #[test]
    fn what_is_no_time_is_refused() {
        for wrong in ["", "now today", "25", "4.5", "today", "infinity", "monday 04:05", "04:05 2001-02-03 x"]
        {
            let message = format!("invalid input syntax for type time: \"{wrong}\"");
            is_refused(TypeId::TIME, wrong, "22007", &message);
        }
        for far in ["25:00:00", "24:00:01", "04:60", "23:59:61", "2500", "13:00 PM"] {
            let message = format!("date/time field value out of range: \"{far}\"");
            is_refused(TypeId::TIME, far, "22008", &message);
        }
    }
}
