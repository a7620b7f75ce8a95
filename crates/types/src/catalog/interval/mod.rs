//! interval: a span of time of months, days and microseconds.
//!
//! The three are kept apart, since a month has no certain number of days, nor a day one of hours where clocks
//! are changed: a month after January 31 is the end of February. Each has a sign of its own.
//!
//! 1. A value has 16 bytes: microseconds (8), days (4) and months (4), each with the highest byte first, as
//!    PostgreSQL sends them. Any 16 bytes are an interval.
//! 2. Intervals are compared by their length, with 24 hours to a day and 30 days to a month. So two may be
//!    equal and not the same: `1 mon` and `30 days`.
//! 3. A number that leaves its range is an error (22008). Fractions go down, from months to days to
//!    microseconds; nothing goes up, but by the functions named `justify`.
//! 4. The fields of a type (`INTERVAL YEAR TO MONTH`) say which unit a number in a literal has, and what is
//!    cut off; they are a set of bits in the modifier, above the digits of a second's fraction.
//!
//! The parts: `read` reads text, `write` shows the other styles of a session (`IntervalStyle`), `arithmetic`
//! computes.
//!
//! Not here: OVERLAPS.
//!
//! Sources: PostgreSQL 15's documentation, 8.5.4 and 9.9, its catalogue, and its answers.

pub(super) mod arithmetic;
mod read;
mod write;

use self::arithmetic::{age, date_bin, difference, timestamp_minus, timestamp_plus};
pub(crate) use self::write::write_styled;
use super::{Cast, Form, Key, compares, comparisons};
use crate::agg::{AggDef, Own};
use crate::cast::CastContext::Implicit;
use crate::datetime::{self as dt, Field, USECS_PER_DAY, USECS_PER_SEC, zone::Zone};
use crate::func::format::{Shown, shifted};
use crate::func::operator::{binary, prefix};
use crate::func::{Call, Context, OperatorDef, functions};
use crate::ty::{Category, Modifier, OwnModifier, TypeDef, bad_modifier};
use crate::{Numeric, SqlError, SqlResult, Type, TypeId, Value, ValueRef, sqlstate, text};

pub(super) const TYPE: TypeDef = TypeDef::opaque(1186, "interval", "interval", Category::Timespan, &FORM)
    .array(1187)
    .preferred()
    .modified(Modifier::Own(&MODIFIER));

static FORM: Form = Form {
    width: Some(16),
    input: |text, ty, ctx| read::interval(text, Fields::of(ty), ctx.styles.interval).map(Interval::value),
    output: |_, b, out| Interval::of(b).write(out),
    compare: |a, b| Interval::of(a).span().cmp(&Interval::of(b).span()),
    key: Key::Fixed { width: KEY_WIDTH as u8, make: |b| Interval::of(b).key() },
};

const NAME: &str = "interval";
const MONTHS_PER_YEAR: i32 = 12;
const DAYS_PER_MONTH: i32 = 30;
/// No span has more bytes, with its sign.
const KEY_WIDTH: usize = 10;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Interval {
    pub months: i32,
    pub days: i32,
    pub micros: i64,
}

/// An interval as it is shown: years of twelve months, and hours, minutes and seconds; each with its sign.
struct Parts {
    years: i32,
    months: i32,
    hours: i64,
    minutes: i64,
    /// Microseconds of the minute.
    micros: i64,
}

impl Interval {
    /// By invariant 1; bytes of another length, which a damaged file may hold, are no time at all.
    pub fn of(bytes: &[u8]) -> Interval {
        let read = || {
            let (micros, rest) = bytes.split_first_chunk()?;
            let (days, rest) = rest.split_first_chunk()?;
            let (micros, days) = (i64::from_be_bytes(*micros), i32::from_be_bytes(*days));
            Some(Interval { months: i32::from_be_bytes(rest.try_into().ok()?), days, micros })
        };
        read().unwrap_or_default()
    }

    fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.micros.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.days.to_be_bytes());
        bytes[12..].copy_from_slice(&self.months.to_be_bytes());
        bytes
    }

    pub fn value(self) -> Value {
        Value::Opaque(TypeId::INTERVAL, Box::new(self.bytes()))
    }

    /// The length by which intervals are compared, in microseconds.
    pub fn span(self) -> i128 {
        let days = i64::from(self.months) * i64::from(DAYS_PER_MONTH) + i64::from(self.days);
        i128::from(days) * i128::from(USECS_PER_DAY) + i128::from(self.micros)
    }

    /// The span with its sign turned over, the highest byte first, in the first of the bytes.
    fn key(self) -> [u8; 16] {
        let biased = self.span() + (1 << (8 * KEY_WIDTH - 1));
        (biased << (8 * (16 - KEY_WIDTH))).to_be_bytes()
    }

    fn parts(self) -> Parts {
        let minutes = self.micros / (60 * USECS_PER_SEC);
        Parts {
            years: self.months / MONTHS_PER_YEAR,
            months: self.months % MONTHS_PER_YEAR,
            hours: minutes / 60,
            minutes: minutes % 60,
            micros: self.micros % (60 * USECS_PER_SEC),
        }
    }

    /// `1 year 2 mons -3 days +04:05:06.789`: a number behind a negative one shows its sign.
    fn write(self, out: &mut String) {
        let parts = self.parts();
        let (mut is_first, mut is_after_negative) = (true, false);
        for (n, unit) in [(parts.years, "year"), (parts.months, "mon"), (self.days, "day")] {
            if n == 0 {
                continue;
            }
            out.push_str(if is_first { "" } else { " " });
            out.push_str(if is_after_negative && n > 0 { "+" } else { "" });
            text::write_i64(n.into(), out);
            out.push(' ');
            out.push_str(unit);
            out.push_str(if n == 1 { "" } else { "s" });
            (is_first, is_after_negative) = (false, n < 0);
        }
        if self.micros == 0 && !is_first {
            return;
        }
        out.push_str(if is_first { "" } else { " " });
        out.push_str(match self.micros {
            ..0 => "-",
            _ if is_after_negative => "+",
            _ => "",
        });
        let (seconds, fraction) =
            ((parts.micros / USECS_PER_SEC).abs(), (parts.micros % USECS_PER_SEC).abs());
        out.push_str(&format!("{:02}:{:02}:{seconds:02}", parts.hours.abs(), parts.minutes.abs()));
        if fraction != 0 {
            out.push_str(format!(".{fraction:06}").trim_end_matches('0'));
        }
    }

    /// Brings the interval into a type's fields and precision.
    fn fit(mut self, ty: Type) -> SqlResult<Interval> {
        let fields = Fields::of(ty);
        match fields.last() {
            Field::Year => self = Interval { months: self.months - self.months % 12, days: 0, micros: 0 },
            Field::Month => self = Interval { months: self.months, days: 0, micros: 0 },
            Field::Day => self.micros = 0,
            Field::Hour => self.micros -= self.micros % (3600 * USECS_PER_SEC),
            Field::Minute => self.micros -= self.micros % (60 * USECS_PER_SEC),
            _ => {}
        }
        if let Some(digits) = fields.digits() {
            let unit = 10i64.pow(6 - digits);
            // Halves away from zero.
            let half = if self.micros < 0 { -unit / 2 } else { unit / 2 };
            let rounded = self.micros.checked_add(half).ok_or_else(|| dt::out_of_range(NAME))?;
            self.micros = rounded - rounded % unit;
        }
        Ok(self)
    }

    /// Cuts off what is less than a unit.
    fn truncate(self, name: &str) -> SqlResult<Interval> {
        let unit = dt::unit(name).ok_or_else(|| dt::not_recognized(name, NAME))?;
        let to_months =
            |months: i32| Interval { months: self.months - self.months % months, days: 0, micros: 0 };
        let to_micros = |micros: i64| Interval { micros: self.micros - self.micros % micros, ..self };
        Ok(match unit {
            Field::Millennium => to_months(12_000),
            Field::Century => to_months(1200),
            Field::Decade => to_months(120),
            Field::Year => to_months(12),
            Field::Quarter => to_months(3),
            Field::Month => to_months(1),
            Field::Day => Interval { micros: 0, ..self },
            Field::Hour => to_micros(3600 * USECS_PER_SEC),
            Field::Minute => to_micros(60 * USECS_PER_SEC),
            Field::Second => to_micros(USECS_PER_SEC),
            Field::Millisecond => to_micros(1000),
            Field::Microsecond => self,
            Field::Week => {
                return Err(dt::not_supported(name, NAME).detail("Months usually have fractional weeks."));
            }
            _ => return Err(dt::not_supported(name, NAME)),
        })
    }

    /// A field that is a whole number.
    fn whole_field(self, field: Field) -> Option<i64> {
        let parts = self.parts();
        Some(match field {
            Field::Microsecond => parts.micros,
            Field::Minute => parts.minutes,
            Field::Hour => parts.hours,
            Field::Day => self.days.into(),
            Field::Month => parts.months.into(),
            Field::Quarter => i64::from(parts.months / 3) + 1,
            Field::Year => parts.years.into(),
            Field::Decade => i64::from(parts.years / 10),
            Field::Century => i64::from(parts.years / 100),
            Field::Millennium => i64::from(parts.years / 1000),
            _ => return None,
        })
    }

    /// EXTRACT
    fn extract(self, name: &str) -> SqlResult<Numeric> {
        let micros = i128::from(self.parts().micros);
        Ok(match known_field(name)? {
            Field::Second => Numeric::from_scaled(micros, 6),
            Field::Millisecond => Numeric::from_scaled(micros, 3),
            Field::Epoch => {
                // A year has 365.25 days here. So these are quarters of days.
                let Parts { years, months, .. } = self.parts();
                let quarters =
                    1461 * i128::from(years) + 120 * i128::from(months) + 4 * i128::from(self.days);
                let micros = quarters * i128::from(USECS_PER_DAY / 4) + i128::from(self.micros);
                Numeric::from_scaled(micros, 6)
            }
            field => Numeric::from(self.whole_field(field).ok_or_else(|| dt::not_supported(name, NAME))?),
        })
    }

    /// `date_part`: the same in floating point, summed up as PostgreSQL does.
    fn date_part(self, name: &str) -> SqlResult<f64> {
        let parts = self.parts();
        let (seconds, micros) =
            ((parts.micros / USECS_PER_SEC) as f64, (parts.micros % USECS_PER_SEC) as f64);
        Ok(match known_field(name)? {
            Field::Second => seconds + micros / 1e6,
            Field::Millisecond => seconds * 1e3 + micros / 1e3,
            Field::Epoch => {
                const DAY: f64 = 86_400.0;
                let years = 365.25 * DAY * f64::from(parts.years);
                let months = f64::from(DAYS_PER_MONTH) * DAY * f64::from(parts.months);
                self.micros as f64 / 1e6 + years + months + DAY * f64::from(self.days)
            }
            field => self.whole_field(field).ok_or_else(|| dt::not_supported(name, NAME))? as f64,
        })
    }
}

/// What a name means to EXTRACT.
fn known_field(name: &str) -> SqlResult<Field> {
    dt::field(name).filter(|f| *f != Field::Other).ok_or_else(|| dt::not_recognized(name, NAME))
}

/// The fields of a type and the digits of its second's fraction, as the modifier codes them (invariant 4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Fields {
    set: i32,
    digits: i32,
}

/// PostgreSQL's numbers of the fields.
mod bit {
    pub const MONTH: i32 = 1 << 1;
    pub const YEAR: i32 = 1 << 2;
    pub const DAY: i32 = 1 << 3;
    pub const HOUR: i32 = 1 << 10;
    pub const MINUTE: i32 = 1 << 11;
    pub const SECOND: i32 = 1 << 12;
    pub const ALL: i32 = 0x7fff;
}

/// The sets that a type may have, how they are shown, and the field that each ends with.
const SETS: [(i32, &str, Field); 14] = [
    (bit::YEAR, " year", Field::Year),
    (bit::MONTH, " month", Field::Month),
    (bit::DAY, " day", Field::Day),
    (bit::HOUR, " hour", Field::Hour),
    (bit::MINUTE, " minute", Field::Minute),
    (bit::SECOND, " second", Field::Second),
    (bit::YEAR | bit::MONTH, " year to month", Field::Month),
    (bit::DAY | bit::HOUR, " day to hour", Field::Hour),
    (bit::DAY | bit::HOUR | bit::MINUTE, " day to minute", Field::Minute),
    (bit::DAY | bit::HOUR | bit::MINUTE | bit::SECOND, " day to second", Field::Second),
    (bit::HOUR | bit::MINUTE, " hour to minute", Field::Minute),
    (bit::HOUR | bit::MINUTE | bit::SECOND, " hour to second", Field::Second),
    (bit::MINUTE | bit::SECOND, " minute to second", Field::Second),
    (bit::ALL, "", Field::Second),
];

impl Fields {
    /// In the place of a number of digits: as many as there are.
    const ALL_DIGITS: i32 = 0xffff;
    const MAX_DIGITS: i32 = 6;

    fn of(ty: Type) -> Fields {
        match ty.typmod {
            ..0 => Fields { set: bit::ALL, digits: Fields::ALL_DIGITS },
            code => Fields { set: code >> 16, digits: code & 0xffff },
        }
    }

    /// The smallest of the fields, which is also the unit of a number without one.
    fn last(self) -> Field {
        SETS.iter().find(|s| s.0 == self.set).map_or(Field::Second, |s| s.2)
    }

    fn is_minute_to_second(self) -> bool {
        self.set == bit::MINUTE | bit::SECOND
    }

    fn digits(self) -> Option<u32> {
        (0..Fields::MAX_DIGITS).contains(&self.digits).then_some(self.digits as u32)
    }
}

static MODIFIER: OwnModifier = OwnModifier {
    code: |written| {
        let (set, digits) = match *written {
            [bit::ALL] => return Ok(-1),
            [set] => (set, Fields::ALL_DIGITS),
            [_, digits] if digits < 0 => {
                return Err(bad_modifier(format!("INTERVAL({digits}) precision must not be negative")));
            }
            // More digits than there are mean all, as in PostgreSQL (which adds a warning).
            [set, digits] => (set, digits.min(Fields::MAX_DIGITS)),
            _ => (0, 0),
        };
        match SETS.iter().any(|s| s.0 == set) {
            true => Ok(set << 16 | digits),
            false => Err(bad_modifier("invalid INTERVAL type modifier")),
        }
    },
    show: |code| {
        let fields = Fields::of(Type::with(TypeId::INTERVAL, code));
        let set = SETS.iter().find(|s| s.0 == fields.set).map_or("", |s| s.1);
        if fields.digits == Fields::ALL_DIGITS { set.into() } else { format!("{set}({})", fields.digits) }
    },
    written: " [fields] [(p)]",
    is_read_with: true,
};

impl Call<'_> {
    pub(super) fn interval(&self, i: usize) -> SqlResult<Interval> {
        self.opaque(i).map(Interval::of)
    }
}

fn interval(i: SqlResult<Interval>) -> SqlResult<Value> {
    i.map(Interval::value)
}

fn timestamp(t: SqlResult<i64>) -> SqlResult<Value> {
    t.map(Value::Timestamp)
}

fn timestamptz(t: SqlResult<i64>) -> SqlResult<Value> {
    t.map(Value::Timestamptz)
}

/// The midnight of a date in an argument.
fn midnight(c: &Call<'_>, i: usize) -> SqlResult<i64> {
    dt::date_to_timestamp(c.date(i)?)
}

/// The midnight of today.
fn today(ctx: &Context<'_>) -> SqlResult<i64> {
    dt::date_to_timestamp(dt::timestamp_to_date(ctx.styles.zone.local(ctx.now_us))?)
}

/// The session's.
fn zone(c: &Call<'_>) -> Zone {
    c.ctx.styles.zone
}

/// A moment, and another or how much later that is.
fn period(c: &Call<'_>, i: usize) -> SqlResult<dt::Period<i64>> {
    let moment = |v: Option<&ValueRef<'_>>| match v {
        Some(ValueRef::Timestamp(t) | ValueRef::Timestamptz(t)) => Some(*t),
        _ => None,
    };
    let start = moment(c.args.get(i));
    Ok(match (start, c.args.get(i + 1)) {
        (Some(t), Some(ValueRef::Opaque(_, b))) => {
            let zone = match c.args.get(i) {
                Some(ValueRef::Timestamptz(_)) => zone(c),
                _ => Zone::UTC,
            };
            (start, Some(timestamp_plus(t, Interval::of(b), zone)?))
        }
        (_, end) => (start, moment(end)),
    })
}

fn overlaps(c: &Call<'_>) -> SqlResult<Value> {
    Ok(dt::overlap(period(c, 0)?, period(c, 2)?).map_or(Value::Null, Value::Bool))
}

/// Of years, months, weeks, days, hours, minutes and seconds, as many as are given: the others are zero.
fn make(c: &Call<'_>) -> SqlResult<Value> {
    let mut whole = [0; 6];
    for (i, n) in whole.iter_mut().enumerate().take(c.args.len()) {
        *n = c.int4(i)?;
    }
    let seconds = if c.args.len() > whole.len() { c.float8(whole.len())? } else { 0.0 };
    interval(Interval::make(whole, seconds))
}

functions! {
    860 INTERVAL_LT "interval_lt" (Interval, Interval) -> Bool = compares!(is_lt);
    861 INTERVAL_LE "interval_le" (Interval, Interval) -> Bool = compares!(is_le);
    862 INTERVAL_EQ "interval_eq" (Interval, Interval) -> Bool = compares!(is_eq);
    863 INTERVAL_NE "interval_ne" (Interval, Interval) -> Bool = compares!(is_ne);
    864 INTERVAL_GE "interval_ge" (Interval, Interval) -> Bool = compares!(is_ge);
    865 INTERVAL_GT "interval_gt" (Interval, Interval) -> Bool = compares!(is_gt);
    866 INTERVAL_NEG "interval_um" (Interval) -> Interval = |c| interval(c.interval(0)?.checked_neg());
    867 INTERVAL_ADD "interval_pl" (Interval, Interval) -> Interval =
        |c| interval(c.interval(0)?.checked_add(c.interval(1)?));
    868 INTERVAL_SUB "interval_mi" (Interval, Interval) -> Interval =
        |c| interval(c.interval(0)?.checked_sub(c.interval(1)?));
    869 INTERVAL_MUL "interval_mul" (Interval, Float8) -> Interval = |c| interval(c.interval(0)?.times(c.float8(1)?));
    870 FLOAT8_MUL_INTERVAL "mul_d_interval" (Float8, Interval) -> Interval =
        |c| interval(c.interval(1)?.times(c.float8(0)?));
    871 INTERVAL_DIV "interval_div" (Interval, Float8) -> Interval =
        |c| interval(c.interval(0)?.divided_by(c.float8(1)?));
    872 DATE_PLUS_INTERVAL "date_pl_interval" (Date, Interval) -> Timestamp =
        |c| timestamp(timestamp_plus(midnight(c, 0)?, c.interval(1)?, Zone::UTC));
    873 DATE_MINUS_INTERVAL "date_mi_interval" (Date, Interval) -> Timestamp =
        |c| timestamp(timestamp_minus(midnight(c, 0)?, c.interval(1)?, Zone::UTC));
    874 TIMESTAMP_PLUS_INTERVAL "timestamp_pl_interval" (Timestamp, Interval) -> Timestamp =
        |c| timestamp(timestamp_plus(c.timestamp(0)?, c.interval(1)?, Zone::UTC));
    875 TIMESTAMP_MINUS_INTERVAL "timestamp_mi_interval" (Timestamp, Interval) -> Timestamp =
        |c| timestamp(timestamp_minus(c.timestamp(0)?, c.interval(1)?, Zone::UTC));
    876 TIMESTAMPTZ_PLUS_INTERVAL "timestamptz_pl_interval" (Timestamptz, Interval) -> Timestamptz =
        |c| timestamptz(timestamp_plus(c.timestamptz(0)?, c.interval(1)?, zone(c))), stable;
    877 TIMESTAMPTZ_MINUS_INTERVAL "timestamptz_mi_interval" (Timestamptz, Interval) -> Timestamptz =
        |c| timestamptz(timestamp_minus(c.timestamptz(0)?, c.interval(1)?, zone(c))), stable;
    878 INTERVAL_PLUS_DATE "interval_pl_date" (Interval, Date) -> Timestamp =
        |c| timestamp(timestamp_plus(midnight(c, 1)?, c.interval(0)?, Zone::UTC));
    879 INTERVAL_PLUS_TIMESTAMP "interval_pl_timestamp" (Interval, Timestamp) -> Timestamp =
        |c| timestamp(timestamp_plus(c.timestamp(1)?, c.interval(0)?, Zone::UTC));
    880 INTERVAL_PLUS_TIMESTAMPTZ "interval_pl_timestamptz" (Interval, Timestamptz) -> Timestamptz =
        |c| timestamptz(timestamp_plus(c.timestamptz(1)?, c.interval(0)?, zone(c))), stable;
    881 TIMESTAMP_SUB "timestamp_mi" (Timestamp, Timestamp) -> Interval =
        |c| interval(difference(c.timestamp(0)?, c.timestamp(1)?));
    882 TIMESTAMPTZ_SUB "timestamptz_mi" (Timestamptz, Timestamptz) -> Interval =
        |c| interval(difference(c.timestamptz(0)?, c.timestamptz(1)?));
    883 AGE "age" (Timestamp, Timestamp) -> Interval = |c| interval(age(c.timestamp(0)?, c.timestamp(1)?));
    884 AGE_TZ "age" (Timestamptz, Timestamptz) -> Interval =
        |c| interval(age(zone(c).local(c.timestamptz(0)?), zone(c).local(c.timestamptz(1)?))), stable;
    885 AGE_TODAY "age" (Timestamp) -> Interval = |c| interval(age(today(c.ctx)?, c.timestamp(0)?)), stable;
    886 AGE_TODAY_TZ "age" (Timestamptz) -> Interval =
        |c| interval(age(today(c.ctx)?, zone(c).local(c.timestamptz(0)?))), stable;
    887 JUSTIFY_HOURS "justify_hours" (Interval) -> Interval = |c| interval(c.interval(0)?.justify_hours());
    888 JUSTIFY_DAYS "justify_days" (Interval) -> Interval = |c| interval(c.interval(0)?.justify_days());
    889 JUSTIFY_INTERVAL "justify_interval" (Interval) -> Interval = |c| interval(c.interval(0)?.justify());
    890 MAKE_INTERVAL "make_interval" () -> Interval = |c| make(c);
    891 MAKE_INTERVAL_1 "make_interval" (Int4) -> Interval = |c| make(c);
    892 MAKE_INTERVAL_2 "make_interval" (Int4, Int4) -> Interval = |c| make(c);
    893 MAKE_INTERVAL_3 "make_interval" (Int4, Int4, Int4) -> Interval = |c| make(c);
    894 MAKE_INTERVAL_4 "make_interval" (Int4, Int4, Int4, Int4) -> Interval = |c| make(c);
    895 MAKE_INTERVAL_5 "make_interval" (Int4, Int4, Int4, Int4, Int4) -> Interval = |c| make(c);
    896 MAKE_INTERVAL_6 "make_interval" (Int4, Int4, Int4, Int4, Int4, Int4) -> Interval = |c| make(c);
    897 MAKE_INTERVAL_7 "make_interval" (Int4, Int4, Int4, Int4, Int4, Int4, Float8) -> Interval = |c| make(c);
    898 DATE_TRUNC_INTERVAL "date_trunc" (Text, Interval) -> Interval =
        |c| interval(c.interval(1)?.truncate(c.text(0)?));
    899 DATE_PART_INTERVAL "date_part" (Text, Interval) -> Float8 =
        |c| c.interval(1)?.date_part(c.text(0)?).map(Value::Float8);
    900 EXTRACT_INTERVAL "extract" (Text, Interval) -> Numeric =
        |c| c.interval(1)?.extract(c.text(0)?).map(Value::Numeric);
    901 ISFINITE_INTERVAL "isfinite" (Interval) -> Bool = |c| c.interval(0).map(|_| Value::Bool(true));
    902 DATE_BIN "date_bin" (Interval, Timestamp, Timestamp) -> Timestamp =
        |c| timestamp(date_bin(c.interval(0)?, c.timestamp(1)?, c.timestamp(2)?));
    1385 OVERLAPS_TIMESTAMP "overlaps" (Timestamp, Timestamp, Timestamp, Timestamp) -> Bool = |c| overlaps(c), lax;
    1386 OVERLAPS_TIMESTAMP_TO_SPAN "overlaps" (Timestamp, Timestamp, Timestamp, Interval) -> Bool = |c| overlaps(c), lax;
    1387 OVERLAPS_TIMESTAMP_SPAN_TO "overlaps" (Timestamp, Interval, Timestamp, Timestamp) -> Bool = |c| overlaps(c), lax;
    1388 OVERLAPS_TIMESTAMP_SPANS "overlaps" (Timestamp, Interval, Timestamp, Interval) -> Bool = |c| overlaps(c), lax;
    1389 OVERLAPS_TIMESTAMPTZ "overlaps" (Timestamptz, Timestamptz, Timestamptz, Timestamptz) -> Bool =
        |c| overlaps(c), lax;
    1390 OVERLAPS_TIMESTAMPTZ_TO_SPAN "overlaps" (Timestamptz, Timestamptz, Timestamptz, Interval) -> Bool =
        |c| overlaps(c), lax, stable;
    1391 OVERLAPS_TIMESTAMPTZ_SPAN_TO "overlaps" (Timestamptz, Interval, Timestamptz, Timestamptz) -> Bool =
        |c| overlaps(c), lax, stable;
    1392 OVERLAPS_TIMESTAMPTZ_SPANS "overlaps" (Timestamptz, Interval, Timestamptz, Interval) -> Bool =
        |c| overlaps(c), lax, stable;
    903 DATE_BIN_TZ "date_bin" (Interval, Timestamptz, Timestamptz) -> Timestamptz =
        |c| timestamptz(date_bin(c.interval(0)?, c.timestamptz(1)?, c.timestamptz(2)?));
    1344 TO_CHAR_INTERVAL "to_char" (Interval, Text) -> Text = |c| to_char(c.interval(0)?, c.text(1)?), stable;
    1345 TIMEZONE_OF_INTERVAL "timezone" (Interval, Timestamptz) -> Timestamp =
        |c| timestamp(shifted(c.timestamptz(1)?, east(c.interval(0)?)?));
    1346 TIMEZONE_IN_INTERVAL "timezone" (Interval, Timestamp) -> Timestamptz =
        |c| timestamptz(shifted(c.timestamp(1)?, -east(c.interval(0)?)?));
}

/// Nothing for a format that is empty.
fn to_char(i: Interval, format: &str) -> SqlResult<Value> {
    match format {
        "" => Ok(Value::Null),
        format => Shown::interval(i.months, i.days, i.micros).format(format).map(Value::Text),
    }
}

/// How far a zone is east of Greenwich, in microseconds; parts of a second do not count.
pub(super) fn east(i: Interval) -> SqlResult<i64> {
    if i.months != 0 || i.days != 0 {
        let mut shown = String::new();
        i.write(&mut shown);
        return Err(SqlError::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("interval time zone \"{shown}\" must not include months or days"),
        ));
    }
    Ok(i.micros - i.micros % USECS_PER_SEC)
}

/// An interval's months, days and microseconds, read from text.
pub fn parts(text: &str) -> SqlResult<(i32, i32, i64)> {
    let value = text::input(text, Type::new(INTERVAL), &Context::EMPTY)?;
    let Value::Opaque(_, bytes) = value else { return Ok((0, 0, 0)) };
    let i = Interval::of(&bytes);
    Ok((i.months, i.days, i.micros))
}

const INTERVAL: TypeId = TypeId::INTERVAL;

pub(super) const OPERATORS: &[&[OperatorDef]] = &[
    &comparisons(
        (INTERVAL, INTERVAL),
        [
            id::INTERVAL_LT,
            id::INTERVAL_LE,
            id::INTERVAL_EQ,
            id::INTERVAL_NE,
            id::INTERVAL_GE,
            id::INTERVAL_GT,
        ],
    ),
    &[
        prefix("-", INTERVAL, id::INTERVAL_NEG),
        binary("+", INTERVAL, INTERVAL, id::INTERVAL_ADD, "+", ""),
        binary("-", INTERVAL, INTERVAL, id::INTERVAL_SUB, "", ""),
        binary("*", INTERVAL, TypeId::FLOAT8, id::INTERVAL_MUL, "*", ""),
        binary("*", TypeId::FLOAT8, INTERVAL, id::FLOAT8_MUL_INTERVAL, "*", ""),
        binary("/", INTERVAL, TypeId::FLOAT8, id::INTERVAL_DIV, "", ""),
        binary("+", TypeId::DATE, INTERVAL, id::DATE_PLUS_INTERVAL, "+", ""),
        binary("+", TypeId::TIMESTAMP, INTERVAL, id::TIMESTAMP_PLUS_INTERVAL, "+", ""),
        binary("+", TypeId::TIMESTAMPTZ, INTERVAL, id::TIMESTAMPTZ_PLUS_INTERVAL, "+", ""),
        binary("+", INTERVAL, TypeId::DATE, id::INTERVAL_PLUS_DATE, "+", ""),
        binary("+", INTERVAL, TypeId::TIMESTAMP, id::INTERVAL_PLUS_TIMESTAMP, "+", ""),
        binary("+", INTERVAL, TypeId::TIMESTAMPTZ, id::INTERVAL_PLUS_TIMESTAMPTZ, "+", ""),
        binary("-", TypeId::DATE, INTERVAL, id::DATE_MINUS_INTERVAL, "", ""),
        binary("-", TypeId::TIMESTAMP, INTERVAL, id::TIMESTAMP_MINUS_INTERVAL, "", ""),
        binary("-", TypeId::TIMESTAMPTZ, INTERVAL, id::TIMESTAMPTZ_MINUS_INTERVAL, "", ""),
        binary("-", TypeId::TIMESTAMP, TypeId::TIMESTAMP, id::TIMESTAMP_SUB, "", ""),
        binary("-", TypeId::TIMESTAMPTZ, TypeId::TIMESTAMPTZ, id::TIMESTAMPTZ_SUB, "", ""),
    ],
];

/// Into the modifier.
pub(super) const CASTS: &[Cast] = &[Cast {
    from: INTERVAL,
    to: INTERVAL,
    context: Implicit,
    run: |v, to, _| match v {
        ValueRef::Opaque(_, b) => interval(Interval::of(b).fit(to)),
        other => Ok(other.to_owned()),
    },
}];

static SUM: Own = Own {
    step: |sum, v| {
        match (&mut *sum, v) {
            (Value::Opaque(_, sum), ValueRef::Opaque(_, b)) => {
                *sum = Box::new(Interval::of(sum).checked_add(Interval::of(b))?.bytes());
            }
            (_, v) => *sum = v.to_owned(),
        }
        Ok(())
    },
    merge: |sum, other| (SUM.step)(sum, other),
    finish: |sum| Ok(sum.to_owned()),
};

/// The state is the sum's bytes, and those of the number of rows.
static AVG: Own = Own {
    step: |state, v| match v {
        ValueRef::Opaque(_, b) => add_rows(state, Interval::of(b), 1),
        _ => Ok(()),
    },
    merge: |state, other| match other {
        ValueRef::Bytea(b) => {
            let (sum, rows) = sum_and_rows(b);
            add_rows(state, sum, rows)
        }
        _ => Ok(()),
    },
    finish: |state| match state {
        ValueRef::Bytea(b) => {
            let (sum, rows) = sum_and_rows(b);
            interval(sum.divided_by(rows as f64))
        }
        _ => Ok(Value::Null),
    },
};

fn sum_and_rows(state: &[u8]) -> (Interval, i64) {
    let (sum, rows) = state.split_at_checked(16).unwrap_or_default();
    (Interval::of(sum), rows.first_chunk().map_or(0, |b| i64::from_be_bytes(*b)))
}

fn add_rows(state: &mut Value, more: Interval, more_rows: i64) -> SqlResult<()> {
    let (sum, rows) = match &*state {
        Value::Bytea(b) => sum_and_rows(b),
        _ => sum_and_rows(&[]),
    };
    let (sum, rows) = (sum.checked_add(more)?, rows + more_rows);
    if !matches!(state, Value::Bytea(_)) {
        *state = Value::Bytea(Vec::with_capacity(24));
    }
    if let Value::Bytea(b) = state {
        b.clear();
        b.extend_from_slice(&sum.bytes());
        b.extend_from_slice(&rows.to_be_bytes());
    }
    Ok(())
}

mod aggregates {
    use super::{AVG, SUM};
    use crate::agg::{Kind, aggregates};

    aggregates! {
        90 SUM_INTERVAL "sum" (Interval) -> Interval = Kind::Own(&SUM);
        91 AVG_INTERVAL "avg" (Interval) -> Interval = Kind::Own(&AVG);
        92 MIN_INTERVAL "min" (Interval) -> Interval = Kind::Min;
        93 MAX_INTERVAL "max" (Interval) -> Interval = Kind::Max;
    }
}
pub(super) const AGGREGATES: &[AggDef] = aggregates::DEFS;

#[cfg(test)]
pub(super) const SAMPLES: &[&[&str]] = &[
    &["-178956970 years -8 mons -2147483648 days -2562047788:00:54.775808"],
    &["-2147483648 days"],
    &["-1 mon", "-30 days", "-720:00"],
    &["-1 day -00:00:00.000001"],
    &["-1 day", "-24:00"],
    &["-1 mon +29 days +23:59:59.999999"],
    &["0", "1 mon -30 days", "-1 day 24:00", "PT"],
    &["00:00:00.000001", "1 us"],
    &["1.5 days", "1 day 12:00", "36:00", "P1.5D"],
    &["1 mon", "30 days", "29 days 24:00"],
    &["1 year", "1-0", "12 mons", "360 days", "P0001-00-00T00:00:00"],
    &["9223372036854775807 us"],
    &["178956970 years 7 mons 2147483647 days 2562047788:00:54.775807"],
];

#[cfg(test)]
mod tests;
