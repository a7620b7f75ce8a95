//! time with time zone: a time of day, and how far the clock that shows it is from Greenwich's.
//!
//! 1. A value has 12 bytes: microseconds since midnight (8), and the seconds that its zone is west (4), each
//!    with the highest byte first, as PostgreSQL sends them.
//! 2. Values are ordered by what Greenwich's clock shows then, and where that is the same by their zone, the
//!    eastern first.
//!
//! Source: PostgreSQL 15's documentation, 8.5 and 9.9, its catalogue, and its answers.

use super::time::{double, exact, known_field, of_day, part, rounded};
use super::{Cast, Form, Key, compares, comparisons};
use crate::agg::AggDef;
use crate::cast::CastContext::{Assignment, Implicit};
use crate::datetime::{self as dt, Field, USECS_PER_DAY, USECS_PER_SEC};
use crate::func::format::place;
use crate::func::operator::binary;
use crate::func::{Call, OperatorDef, functions};
use crate::ty::{Category, Modifier, TypeDef};
use crate::{SqlResult, TypeId, Value, ValueRef};

pub(super) const TYPE: TypeDef =
    TypeDef::opaque(1266, "timetz", "time with time zone", Category::DateTime, &FORM)
        .array(1270)
        .modified(Modifier::Seconds { word: "TIME", zone: " WITH TIME ZONE" });

static FORM: Form = Form {
    width: Some(12),
    input: |text, _, ctx| {
        let (micros, east) = dt::parse_timetz(text, NAME, ctx)?;
        Ok(Zoned { micros, west: -east as i32 }.value())
    },
    output: |_, b, out| Zoned::of(b).write(out),
    compare: |a, b| Zoned::of(a).order().cmp(&Zoned::of(b).order()),
    key: Key::Fixed {
        width: 12,
        make: |b| {
            let (at, west) = Zoned::of(b).order();
            let mut key = [0; 16];
            key[..8].copy_from_slice(&((at as u64) ^ 1 << 63).to_be_bytes());
            key[8..12].copy_from_slice(&((west as u32) ^ 1 << 31).to_be_bytes());
            key
        },
    },
};

const NAME: &str = "time with time zone";
const SECONDS_PER_DAY: i32 = 86_400;

#[derive(Clone, Copy)]
struct Zoned {
    micros: i64,
    /// Seconds.
    west: i32,
}

impl Zoned {
    /// By invariant 1; bytes that a damaged file may hold are some time.
    fn of(bytes: &[u8]) -> Zoned {
        let read = || {
            let (micros, rest) = bytes.split_first_chunk()?;
            let west = i32::from_be_bytes(*rest.first_chunk()?);
            let micros = i64::from_be_bytes(*micros).clamp(0, USECS_PER_DAY);
            Some(Zoned { micros, west: west.clamp(-SECONDS_PER_DAY, SECONDS_PER_DAY) })
        };
        read().unwrap_or(Zoned { micros: 0, west: 0 })
    }

    fn value(self) -> Value {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&self.micros.to_be_bytes());
        bytes[8..].copy_from_slice(&self.west.to_be_bytes());
        Value::Opaque(TypeId::TIMETZ, Box::new(bytes))
    }

    /// Invariant 2.
    fn order(self) -> (i64, i32) {
        (self.micros + i64::from(self.west) * USECS_PER_SEC, self.west)
    }

    /// `04:05:06.789-08:30`
    fn write(self, out: &mut String) {
        dt::write_time(self.micros, out);
        let (sign, far) = if self.west > 0 { ('-', self.west) } else { ('+', -self.west) };
        out.push(sign);
        let (hours, minutes, seconds) = (far / 3600, far / 60 % 60, far % 60);
        out.push_str(&match (minutes, seconds) {
            (0, 0) => format!("{hours:02}"),
            (_, 0) => format!("{hours:02}:{minutes:02}"),
            _ => format!("{hours:02}:{minutes:02}:{seconds:02}"),
        });
    }

    fn later(self, micros: i64) -> Zoned {
        Zoned { micros: of_day(i128::from(self.micros) + i128::from(micros)), ..self }
    }

    /// The same moment as another zone's clock shows it; `east` in microseconds.
    fn in_zone(self, east: i64) -> Zoned {
        let greenwich = i128::from(self.order().0);
        Zoned { micros: of_day(greenwich + i128::from(east)), west: (-east / USECS_PER_SEC) as i32 }
    }

    /// The moment on a day; that of an infinite one is its infinity.
    fn on(self, date: i32) -> SqlResult<Value> {
        let midnight = dt::date_to_timestamp(date)?;
        if !dt::timestamp_is_finite(midnight) {
            return Ok(Value::Timestamptz(midnight));
        }
        let t = midnight.checked_add(self.order().0).and_then(dt::check_timestamp);
        t.map(Value::Timestamptz).ok_or_else(|| dt::out_of_range("timestamp"))
    }
}

/// By what values are ordered: microseconds from midnight in Greenwich, and seconds to the west.
pub(super) fn order(bytes: &[u8]) -> (i64, i32) {
    Zoned::of(bytes).order()
}

fn field(c: &Call<'_>) -> SqlResult<(i64, u16)> {
    let (name, t) = (c.text(0)?, c.zoned(1)?);
    let east = i64::from(-t.west);
    let found = match known_field(name, NAME)? {
        Field::Timezone => Some((east, 0)),
        Field::TimezoneHour => Some((east / 3600, 0)),
        Field::TimezoneMinute => Some((east / 60 % 60, 0)),
        Field::Epoch => Some((t.order().0, 6)),
        field => part(t.micros, field),
    };
    found.ok_or_else(|| dt::not_supported(name, NAME))
}

fn overlaps(c: &Call<'_>) -> SqlResult<Value> {
    let time = |i: usize| match c.args.get(i) {
        Some(ValueRef::Opaque(_, b)) => Some(Zoned::of(b).order()),
        _ => None,
    };
    let (a, b) = ((time(0), time(1)), (time(2), time(3)));
    Ok(dt::overlap(a, b).map_or(Value::Null, Value::Bool))
}

impl Call<'_> {
    fn zoned(&self, i: usize) -> SqlResult<Zoned> {
        self.opaque(i).map(Zoned::of)
    }
}

functions! {
    1370 TIMETZ_LT "timetz_lt" (Timetz, Timetz) -> Bool = compares!(is_lt);
    1371 TIMETZ_LE "timetz_le" (Timetz, Timetz) -> Bool = compares!(is_le);
    1372 TIMETZ_EQ "timetz_eq" (Timetz, Timetz) -> Bool = compares!(is_eq);
    1373 TIMETZ_NE "timetz_ne" (Timetz, Timetz) -> Bool = compares!(is_ne);
    1374 TIMETZ_GE "timetz_ge" (Timetz, Timetz) -> Bool = compares!(is_ge);
    1375 TIMETZ_GT "timetz_gt" (Timetz, Timetz) -> Bool = compares!(is_gt);
    1376 TIMETZ_PLUS_INTERVAL "timetz_pl_interval" (Timetz, Interval) -> Timetz =
        |c| Ok(c.zoned(0)?.later(of_day(c.interval(1)?.micros.into())).value());
    1377 INTERVAL_PLUS_TIMETZ "interval_pl_timetz" (Interval, Timetz) -> Timetz =
        |c| Ok(c.zoned(1)?.later(of_day(c.interval(0)?.micros.into())).value());
    1378 TIMETZ_MINUS_INTERVAL "timetz_mi_interval" (Timetz, Interval) -> Timetz =
        |c| Ok(c.zoned(0)?.later(-of_day(c.interval(1)?.micros.into())).value());
    1379 DATE_PLUS_TIMETZ "datetimetz_pl" (Date, Timetz) -> Timestamptz = |c| c.zoned(1)?.on(c.date(0)?);
    1380 TIMETZ_PLUS_DATE "timetzdate_pl" (Timetz, Date) -> Timestamptz = |c| c.zoned(0)?.on(c.date(1)?);
    1381 EXTRACT_TIMETZ "extract" (Text, Timetz) -> Numeric = |c| exact(field(c)?);
    1382 DATE_PART_TIMETZ "date_part" (Text, Timetz) -> Float8 = |c| double(field(c)?);
    1397 OVERLAPS_TIMETZ "overlaps" (Timetz, Timetz, Timetz, Timetz) -> Bool = |c| overlaps(c), lax;
    1383 TIMEZONE_TIMETZ "timezone" (Text, Timetz) -> Timetz =
        |c| {
            let east = i64::from(place(c.text(0)?)?.at(c.ctx.now_us)) * USECS_PER_SEC;
            Ok(c.zoned(1)?.in_zone(east).value())
        }, stable, zones;
    1384 TIMEZONE_INTERVAL_TIMETZ "timezone" (Interval, Timetz) -> Timetz =
        |c| Ok(c.zoned(1)?.in_zone(super::interval::east(c.interval(0)?)?).value());
}

const TIMETZ: TypeId = TypeId::TIMETZ;

pub(super) const OPERATORS: &[&[OperatorDef]] = &[
    &comparisons(
        (TIMETZ, TIMETZ),
        [id::TIMETZ_LT, id::TIMETZ_LE, id::TIMETZ_EQ, id::TIMETZ_NE, id::TIMETZ_GE, id::TIMETZ_GT],
    ),
    &[
        binary("+", TIMETZ, TypeId::INTERVAL, id::TIMETZ_PLUS_INTERVAL, "+", ""),
        binary("+", TypeId::INTERVAL, TIMETZ, id::INTERVAL_PLUS_TIMETZ, "+", ""),
        binary("-", TIMETZ, TypeId::INTERVAL, id::TIMETZ_MINUS_INTERVAL, "", ""),
        binary("+", TypeId::DATE, TIMETZ, id::DATE_PLUS_TIMETZ, "+", ""),
        binary("+", TIMETZ, TypeId::DATE, id::TIMETZ_PLUS_DATE, "+", ""),
    ],
];

pub(super) const CASTS: &[Cast] = &[
    Cast {
        from: TIMETZ,
        to: TIMETZ,
        context: Implicit,
        run: |v, to, _| match v {
            ValueRef::Opaque(_, b) => {
                let t = Zoned::of(b);
                Ok(Zoned { micros: rounded(t.micros, to.typmod), ..t }.value())
            }
            other => Ok(other.to_owned()),
        },
    },
    Cast {
        from: TIMETZ,
        to: TypeId::TIME,
        context: Assignment,
        run: |v, to, _| match v {
            ValueRef::Opaque(_, b) => Ok(super::time::value(rounded(Zoned::of(b).micros, to.typmod))),
            other => Ok(other.to_owned()),
        },
    },
    // As the session's zone is today.
    Cast {
        from: TypeId::TIME,
        to: TIMETZ,
        context: Implicit,
        run: |v, to, ctx| match v {
            ValueRef::Opaque(_, b) => {
                let micros = rounded(super::time::of(b), to.typmod);
                let zone = ctx.styles.zone;
                let day = dt::split(zone.local(ctx.now_us)).0;
                let clock = zone.of_local(i64::from(day) * dt::USECS_PER_DAY + micros);
                Ok(Zoned { micros, west: -clock.east }.value())
            }
            other => Ok(other.to_owned()),
        },
    },
    Cast {
        from: TypeId::TIMESTAMPTZ,
        to: TIMETZ,
        context: Assignment,
        run: |v, to, ctx| match v {
            ValueRef::Timestamptz(t) if dt::timestamp_is_finite(t) => {
                let zone = ctx.styles.zone;
                let micros = rounded(of_day(zone.local(t).into()), to.typmod);
                Ok(Zoned { micros, west: -zone.at(t).east }.value())
            }
            // The time of an infinite moment is none.
            _ => Ok(Value::Null),
        },
    },
];

mod aggregates {
    use crate::agg::{Kind, aggregates};

    aggregates! {
        152 MIN_TIMETZ "min" (Timetz) -> Timetz = Kind::Min;
        153 MAX_TIMETZ "max" (Timetz) -> Timetz = Kind::Max;
    }
}
pub(super) const AGGREGATES: &[AggDef] = aggregates::DEFS;

#[cfg(test)]
pub(super) const SAMPLES: &[&[&str]] = &[
    &["00:00:00+15:59"],
    &["00:00:00+05:30:15"],
    &["01:00:00+01"],
    &["00:00:00", "00:00:00Z", "allballs", "00:00+00", "00:00 GMT"],
    &["04:05:06.789+00", "040506.789+00", "2001-02-03 04:05:06.789"],
    &["04:05:06-08:30", "04:05:06-0830", "4:05:06 AM -8:30"],
    &["24:00:00"],
    &["24:00:00-15:59"],
];
