//! Dates and timestamps: the calendar, text, arithmetic, and the modifiers.
//!
//! A date is days from 2000-01-01, a timestamp microseconds from its midnight; both are of the proleptic
//! Gregorian calendar. A timestamptz is a timestamp in UTC. A session has a time zone ([`zone`]): its clocks
//! tell what day and hour a moment is, in text, in fields and in conversions.
//!
//! Invariants:
//! 1. The least and the greatest integer are -infinity and infinity; no finite value is one of them.
//! 2. Finite dates lie in 4714-11-24 BC ..= 5874897-12-31, finite timestamps in 4714-11-24 BC ..=
//!    294276-12-31; whatever computes one checks it.
//! 3. Years count through zero inside (0 is 1 BC) and without it in text.
//!
//! The parts: `parse` reads, `write` shows, `field` extracts and truncates, `word` and
//! `zone` know the words.
//!
//! Sources: PostgreSQL 15's documentation, 8.5, 9.9 and appendix B, and its answers; the calendar's
//! arithmetic is that of Howard Hinnant's "chrono-compatible low-level date algorithms".

mod field;
mod overlap;
mod parse;
mod word;
mod write;
pub mod zone;

pub(crate) use field::{Field, field, iso_week, not_recognized, not_supported, unit};
pub use field::{
    date_part_timestamp, date_part_timestamptz, date_trunc_timestamp, date_trunc_timestamptz, extract_date,
    extract_timestamp, extract_timestamptz,
};
pub(crate) use overlap::{Period, overlap};
pub(crate) use parse::{Look, fields, parse_time, parse_timetz};
pub use parse::{parse_date, parse_timestamp, parse_timestamptz};
pub(crate) use write::write_time;
pub use write::{
    write_date, write_styled_date, write_styled_timestamp, write_styled_timestamptz, write_timestamp,
    write_timestamptz,
};

use crate::{SqlError, SqlResult, sqlstate};
use std::cmp::Ordering;

pub const USECS_PER_SEC: i64 = 1_000_000;
pub const USECS_PER_DAY: i64 = 86_400 * USECS_PER_SEC;
pub const DATE_INFINITY: i32 = i32::MAX;
pub const DATE_NEG_INFINITY: i32 = i32::MIN;
pub const TIMESTAMP_INFINITY: i64 = i64::MAX;
pub const TIMESTAMP_NEG_INFINITY: i64 = i64::MIN;
/// From 1970-01-01 to 2000-01-01.
pub const UNIX_EPOCH_DAYS: i32 = 10_957;
/// The Julian day of 2000-01-01.
pub const EPOCH_JULIAN: i32 = 2_451_545;

/// The first date and the one after the last.
const DATES: std::ops::Range<i64> = -(EPOCH_JULIAN as i64)..2_147_483_494 - EPOCH_JULIAN as i64;
/// The first timestamp and the one after the last.
const TIMESTAMPS: std::ops::Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;

pub(crate) fn out_of_range(what: &str) -> SqlError {
    SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"))
}

/// A number of days from 2000-01-01 as a finite date, if it is one.
pub fn check_date(days: i64) -> Option<i32> {
    DATES.contains(&days).then_some(days as i32)
}

/// A number of microseconds from 2000-01-01 as a finite timestamp, if it is one.
pub fn check_timestamp(t: i64) -> Option<i64> {
    TIMESTAMPS.contains(&t).then_some(t)
}

pub fn date_is_finite(d: i32) -> bool {
    d != DATE_INFINITY && d != DATE_NEG_INFINITY
}

pub fn timestamp_is_finite(t: i64) -> bool {
    t != TIMESTAMP_INFINITY && t != TIMESTAMP_NEG_INFINITY
}

/// Days from 2000-01-01 to a day of the calendar. Year 0 is 1 BC; the day may lie beyond its month's end.
pub fn days_from_civil(year: i32, month: u32, day: u32) -> i32 {
    // The year begins in March here, so that the leap day is its last.
    let y = i64::from(year) - i64::from(month <= 2);
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era - 730_425) as i32
}

/// The year (0 is 1 BC), month and day of a number of days from 2000-01-01.
#[inline]
pub fn civil_from_days(days: i32) -> (i32, u32, u32) {
    // So many eras of 400 years that no day is before the first, which begins in March of its year 0.
    const ERAS: i64 = 14_700;
    let day = (i64::from(days) + 730_425 + ERAS * 146_097) as u64;
    // Years begin in March, and what is left of a division by a number of quarters of days has its quarter
    // cut.
    let quarters = 4 * day + 3;
    let (century, day) = (quarters / 146_097, (quarters % 146_097 / 4) as u32);
    // A multiplication and both of its halves, for a division by 1461 and what is left of it.
    const YEAR: u32 = 2_939_745;
    let product = u64::from(YEAR) * u64::from(4 * day + 3);
    let (year, day) = ((product >> 32) as u32, product as u32 / YEAR / 4);
    // Months have 30.6 days, by and large: 2141 / 65536 is that, turned round.
    let months = 2141 * day + 197_913;
    let (month, day) = (months >> 16, (months & 0xffff) / 2141);
    let next = month > 12;
    let year = (100 * century) as i64 + i64::from(year) + i64::from(next) - 400 * ERAS;
    (year as i32, if next { month - 12 } else { month }, day + 1)
}

pub fn is_leap_year(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days of a month from 1 to 12.
pub fn days_in_month(year: i32, month: u32) -> u32 {
    match month {
        2 => 28 + u32::from(is_leap_year(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A day of the calendar that exists, as days; `None` if it does not or is out of range.
fn checked_civil(year: i64, month: i64, day: i64) -> Option<i32> {
    let year = i32::try_from(year).ok().filter(|y| (-4800..5_900_000).contains(y))?;
    if !(1..=12).contains(&month) || day < 1 || day > i64::from(days_in_month(year, month as u32)) {
        return None;
    }
    Some(days_from_civil(year, month as u32, day as u32))
}

/// The days and the microseconds into the day of a finite timestamp.
#[inline]
pub(crate) fn split(t: i64) -> (i32, i64) {
    (t.div_euclid(USECS_PER_DAY) as i32, t.rem_euclid(USECS_PER_DAY))
}

/// Midnight of a date.
pub fn date_to_timestamp(d: i32) -> SqlResult<i64> {
    match d {
        DATE_INFINITY => Ok(TIMESTAMP_INFINITY),
        DATE_NEG_INFINITY => Ok(TIMESTAMP_NEG_INFINITY),
        d => i64::from(d).checked_mul(USECS_PER_DAY).and_then(check_timestamp).ok_or_else(|| {
            SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, "date out of range for timestamp")
        }),
    }
}

/// The day of a timestamp.
pub fn timestamp_to_date(t: i64) -> SqlResult<i32> {
    Ok(match t {
        TIMESTAMP_INFINITY => DATE_INFINITY,
        TIMESTAMP_NEG_INFINITY => DATE_NEG_INFINITY,
        t => split(t).0,
    })
}

/// Compares a date's midnight with a timestamp; no date is too far out for it.
pub fn cmp_date_timestamp(d: i32, t: i64) -> Ordering {
    let midnight = match d {
        DATE_INFINITY => i128::from(TIMESTAMP_INFINITY),
        DATE_NEG_INFINITY => i128::from(TIMESTAMP_NEG_INFINITY),
        // A date after the last timestamp is still before infinity.
        d => (i128::from(d) * i128::from(USECS_PER_DAY)).min(i128::from(TIMESTAMP_INFINITY) - 1),
    };
    midnight.cmp(&i128::from(t))
}

/// Rounds to `timestamp(precision)`: halves away from 2000-01-01.
pub fn round_timestamp(t: i64, precision: i32) -> SqlResult<i64> {
    if !timestamp_is_finite(t) || precision == 6 {
        return Ok(t);
    }
    if !(0..=6).contains(&precision) {
        return Err(SqlError::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("timestamp({precision}) precision must be between 0 and 6"),
        ));
    }
    let unit = 10i64.pow((6 - precision) as u32);
    let rounded = (t.abs() + unit / 2) / unit * unit;
    Ok(if t < 0 { -rounded } else { rounded })
}

/// A date some days later.
pub fn date_plus(d: i32, days: i32) -> SqlResult<i32> {
    if !date_is_finite(d) {
        return Ok(d);
    }
    check_date(i64::from(d) + i64::from(days)).ok_or_else(|| out_of_range("date"))
}

/// A date some days earlier.
pub fn date_minus(d: i32, days: i32) -> SqlResult<i32> {
    if !date_is_finite(d) {
        return Ok(d);
    }
    check_date(i64::from(d) - i64::from(days)).ok_or_else(|| out_of_range("date"))
}

/// The days from `b` to `a`.
pub fn date_difference(a: i32, b: i32) -> SqlResult<i32> {
    if !date_is_finite(a) || !date_is_finite(b) {
        return Err(SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, "cannot subtract infinite dates"));
    }
    // Both are within the range of dates, so the difference fits.
    Ok(a.wrapping_sub(b))
}

/// A date from its parts; negative years are BC, and there is no year 0.
pub fn make_date(year: i32, month: i32, day: i32) -> SqlResult<i32> {
    make_day(year, month, day, "date", "")
}

/// The day of `make_date` and `make_timestamp`, with the latter's wording of what is out of range.
fn make_day(year: i32, month: i32, day: i32, what: &str, rest: &str) -> SqlResult<i32> {
    let shown = format!("{year}-{month:02}-{day:02}");
    let error = |message| Err(SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, message));
    let inner = if year < 0 { i64::from(year) + 1 } else { i64::from(year) };
    let (month, day) = (i64::from(month), i64::from(day));
    let exists = year != 0
        && (1..=12).contains(&month)
        && day >= 1
        && i32::try_from(inner).is_ok_and(|y| day <= i64::from(days_in_month(y, month as u32)));
    if !exists {
        return error(format!("date field value out of range: {shown}"));
    }
    match checked_civil(inner, month, day).and_then(|d| check_date(i64::from(d))) {
        Some(d) => Ok(d),
        None => error(format!("{what} out of range: {shown}{rest}")),
    }
}

/// A timestamp from its parts. 24:00:00 and a sixtieth second mean what follows.
pub fn make_timestamp(
    year: i32,
    month: i32,
    day: i32,
    hour: i32,
    minute: i32,
    second: f64,
) -> SqlResult<i64> {
    let rest = format!(" {hour}:{minute:02}:{}", show_seconds(second));
    let days = make_day(year, month, day, "timestamp", &rest)?;
    let of_day = make_time(hour, minute, second)?;
    let t = i64::from(days).checked_mul(USECS_PER_DAY).and_then(|m| m.checked_add(of_day));
    t.and_then(check_timestamp).ok_or_else(|| {
        SqlError::new(
            sqlstate::DATETIME_FIELD_OVERFLOW,
            format!("timestamp out of range: {year}-{month:02}-{day:02}{rest}"),
        )
    })
}

/// The microseconds of a day.
pub fn make_time(hour: i32, minute: i32, second: f64) -> SqlResult<i64> {
    let usecs = (second * USECS_PER_SEC as f64).round_ties_even();
    let in_range = (0..=24).contains(&hour)
        && (0..60).contains(&minute)
        && (0.0..=60.0).contains(&second)
        && !second.is_nan();
    // The sum is looked at only where it can be made.
    let usecs = if in_range { usecs } else { 0.0 };
    let of_day = (i64::from(hour) * 60 + i64::from(minute)) * 60 * USECS_PER_SEC + usecs as i64;
    if !in_range || of_day > USECS_PER_DAY {
        return Err(SqlError::new(
            sqlstate::DATETIME_FIELD_OVERFLOW,
            format!("time field value out of range: {hour}:{minute:02}:{}", show_seconds(second)),
        ));
    }
    Ok(of_day)
}

/// Seconds as the messages show them: at least two characters.
fn show_seconds(second: f64) -> String {
    let mut out = String::new();
    crate::text::write_f64(second, &mut out);
    if out.len() < 2 {
        out.insert(0, '0');
    }
    out
}

/// The timestamp of a number of seconds from 1970-01-01.
pub fn to_timestamp(epoch: f64) -> SqlResult<i64> {
    let error = |message| Err(SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, message));
    if epoch.is_nan() {
        return error("timestamp cannot be NaN".to_string());
    }
    if epoch.is_infinite() {
        return Ok(if epoch > 0.0 { TIMESTAMP_INFINITY } else { TIMESTAMP_NEG_INFINITY });
    }
    let seconds = epoch - f64::from(UNIX_EPOCH_DAYS) * 86_400.0;
    let usecs = (seconds * USECS_PER_SEC as f64).round_ties_even();
    let t = (usecs.abs() < 9.3e18).then_some(usecs as i64);
    match t.and_then(check_timestamp) {
        Some(t) => Ok(t),
        None => {
            let mut shown = String::new();
            crate::text::write_f64(epoch, &mut shown);
            error(format!("timestamp out of range: \"{shown}\""))
        }
    }
}

#[cfg(test)]
mod tests;
