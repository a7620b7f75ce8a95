//! Fields of dates and timestamps: EXTRACT, `date_part` and `date_trunc`.

use super::{
    DATE_INFINITY, EPOCH_JULIAN, TIMESTAMP_INFINITY, UNIX_EPOCH_DAYS, USECS_PER_DAY, USECS_PER_SEC,
    check_timestamp, civil_from_days, date_is_finite, days_from_civil, out_of_range, split,
    timestamp_is_finite,
    zone::{Place, Zone, earlier},
};
use crate::{Numeric, SqlError, SqlResult, sqlstate};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Field {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
    Century,
    Millennium,
    Julian,
    IsoYear,
    Dow,
    IsoDow,
    Doy,
    Epoch,
    Timezone,
    TimezoneHour,
    TimezoneMinute,
    /// Words that name no field but that PostgreSQL knows, and so refuses with other words.
    Other,
}

/// Words are told apart by as many characters.
const WORD: usize = 10;

/// The field that a name means to EXTRACT.
pub(crate) fn field(name: &str) -> Option<Field> {
    use Field::*;
    let lower = name.to_ascii_lowercase();
    let cut = lower.char_indices().nth(WORD).map_or(lower.len(), |(i, _)| i);
    Some(match &lower[..cut] {
        "microsecon" | "us" | "usec" | "usecond" | "useconds" | "usecs" => Microsecond,
        "millisecon" | "ms" | "msec" | "msecond" | "mseconds" | "msecs" => Millisecond,
        "s" | "sec" | "second" | "seconds" | "secs" => Second,
        "m" | "mm" | "min" | "mins" | "minute" | "minutes" => Minute,
        "h" | "hour" | "hours" | "hr" | "hrs" => Hour,
        "d" | "day" | "days" => Day,
        "w" | "week" | "weeks" => Week,
        "mon" | "mons" | "month" | "months" => Month,
        "qtr" | "quarter" => Quarter,
        "y" | "year" | "years" | "yr" | "yrs" => Year,
        "dec" | "decade" | "decades" | "decs" => Decade,
        "c" | "cent" | "centuries" | "century" => Century,
        "mil" | "millennia" | "millennium" | "mils" => Millennium,
        "julian" | "j" | "jd" => Julian,
        "isoyear" => IsoYear,
        "dow" => Dow,
        "isodow" => IsoDow,
        "doy" => Doy,
        "epoch" => Epoch,
        "timezone" => Timezone,
        "timezone_h" => TimezoneHour,
        "timezone_m" => TimezoneMinute,
        "infinity" | "-infinity" | "now" | "today" | "tomorrow" | "yesterday" | "allballs" => Other,
        _ => return None,
    })
}

/// The field that a name means as a unit of time: to `date_trunc`, and in an interval's text.
pub(crate) fn unit(name: &str) -> Option<Field> {
    use Field::*;
    let is_unit = |f: &Field| !matches!(f, Julian | Dow | IsoDow | Doy | Epoch | IsoYear | Other);
    // A word for EXTRACT alone.
    field(name).filter(is_unit).filter(|_| !name.eq_ignore_ascii_case("mm"))
}

pub(crate) fn not_recognized(name: &str, ty: &str) -> SqlError {
    SqlError::new(
        sqlstate::INVALID_PARAMETER_VALUE,
        format!("unit \"{}\" not recognized for type {ty}", name.to_ascii_lowercase()),
    )
}

pub(crate) fn not_supported(name: &str, ty: &str) -> SqlError {
    SqlError::new(
        sqlstate::FEATURE_NOT_SUPPORTED,
        format!("unit \"{}\" not supported for type {ty}", name.to_ascii_lowercase()),
    )
}

const DATE: &str = "date";
const TIMESTAMP: &str = "timestamp without time zone";
const TIMESTAMPTZ: &str = "timestamp with time zone";

/// 0 is Sunday. The first of January 2000 was a Saturday.
fn day_of_week(days: i32) -> i64 {
    (i64::from(days) + 6).rem_euclid(7)
}

/// The year a day's ISO week belongs to, and the week's number.
pub(crate) fn iso_week(days: i32) -> (i32, i64) {
    // A week belongs to the year of its Thursday.
    let thursday = i64::from(days) - (day_of_week(days) + 6) % 7 + 3;
    let (year, ..) = civil_from_days(thursday as i32);
    let first = days_from_civil(year, 1, 1);
    (year, (thursday - i64::from(first)) / 7 + 1)
}

/// Fields that depend on the day alone.
fn of_day(f: Field, days: i32) -> Option<i64> {
    let (year, month, day) = civil_from_days(days);
    let y = i64::from(year);
    // In text there is no year 0.
    let shown = |y: i64| if y > 0 { y } else { y - 1 };
    // Spans of years count from the year 1 on in both directions.
    let span = |n: i64| if y > 0 { (y + n - 1) / n } else { -((n - 1 - (y - 1)) / n) };
    Some(match f {
        Field::Day => i64::from(day),
        Field::Month => i64::from(month),
        Field::Quarter => (i64::from(month) - 1) / 3 + 1,
        Field::Week => iso_week(days).1,
        Field::Year => shown(y),
        Field::Decade => y.div_euclid(10),
        Field::Century => span(100),
        Field::Millennium => span(1000),
        Field::Julian => i64::from(days) + i64::from(EPOCH_JULIAN),
        Field::IsoYear => shown(i64::from(iso_week(days).0)),
        Field::Dow => day_of_week(days),
        Field::IsoDow => (day_of_week(days) + 6) % 7 + 1,
        Field::Doy => i64::from(days) - i64::from(days_from_civil(year, 1, 1)) + 1,
        _ => return None,
    })
}

/// The field of an infinite value: infinite where the field grows with time, NULL where it comes round.
fn of_infinity(f: Field, positive: bool) -> Option<Numeric> {
    use Field::*;
    match f {
        Year | Decade | Century | Millennium | Julian | IsoYear | Epoch => {
            Some(if positive { Numeric::INFINITY } else { Numeric::NEG_INFINITY })
        }
        _ => None,
    }
}

/// EXTRACT from a date; `None` is NULL.
pub fn extract_date(name: &str, d: i32) -> SqlResult<Option<Numeric>> {
    let f = field(name).ok_or_else(|| not_recognized(name, DATE))?;
    let known = of_day(f, 0).is_some() || f == Field::Epoch;
    if !known {
        return Err(not_supported(name, DATE));
    }
    if !date_is_finite(d) {
        return Ok(of_infinity(f, d == DATE_INFINITY));
    }
    Ok(Some(match of_day(f, d) {
        Some(v) => Numeric::from(v),
        None => Numeric::from((i64::from(d) + i64::from(UNIX_EPOCH_DAYS)) * 86_400),
    }))
}

/// EXTRACT from a timestamp; `None` is NULL.
pub fn extract_timestamp(name: &str, t: i64) -> SqlResult<Option<Numeric>> {
    extract(name, t, None)
}

/// EXTRACT from a timestamptz, as the zone's clocks show it; `None` is NULL.
pub fn extract_timestamptz(name: &str, t: i64, zone: Zone) -> SqlResult<Option<Numeric>> {
    extract(name, t, Some(zone))
}

fn extract(name: &str, t: i64, shown_in: Option<Zone>) -> SqlResult<Option<Numeric>> {
    let ty = if shown_in.is_some() { TIMESTAMPTZ } else { TIMESTAMP };
    let f = field(name).ok_or_else(|| not_recognized(name, ty))?;
    let zone = matches!(f, Field::Timezone | Field::TimezoneHour | Field::TimezoneMinute);
    if f == Field::Other {
        return Err(not_supported(name, ty));
    }
    if !timestamp_is_finite(t) {
        return Ok(of_infinity(f, t == TIMESTAMP_INFINITY));
    }
    if zone && shown_in.is_none() {
        return Err(not_supported(name, ty));
    }
    let east = shown_in.map_or(0, |zone| zone.at(t).east);
    let (days, usecs) = split(t + i64::from(east) * USECS_PER_SEC);
    let of_minute = usecs % (60 * USECS_PER_SEC);
    Ok(Some(match f {
        Field::Microsecond => Numeric::from(of_minute),
        Field::Millisecond => Numeric::from_scaled(i128::from(of_minute), 3),
        Field::Second => Numeric::from_scaled(i128::from(of_minute), 6),
        Field::Minute => Numeric::from(usecs / (60 * USECS_PER_SEC) % 60),
        Field::Hour => Numeric::from(usecs / (3600 * USECS_PER_SEC)),
        Field::Epoch => {
            let from_1970 = i128::from(t) + i128::from(UNIX_EPOCH_DAYS) * i128::from(USECS_PER_DAY);
            Numeric::from_scaled(from_1970, 6)
        }
        Field::Julian => {
            let day = Numeric::from(i64::from(days) + i64::from(EPOCH_JULIAN));
            day.add(&Numeric::from(usecs).div(&Numeric::from(USECS_PER_DAY))?)?
        }
        Field::Timezone => Numeric::from(i64::from(east)),
        Field::TimezoneHour => Numeric::from(i64::from(east / 3600)),
        Field::TimezoneMinute => Numeric::from(i64::from(east / 60 % 60)),
        f => Numeric::from(of_day(f, days).ok_or_else(|| not_supported(name, ty))?),
    }))
}

/// `date_part` of a timestamp; `None` is NULL.
pub fn date_part_timestamp(name: &str, t: i64) -> SqlResult<Option<f64>> {
    extract_timestamp(name, t)?.map(|n| n.to_f64()).transpose()
}

/// `date_part` of a timestamptz; `None` is NULL.
pub fn date_part_timestamptz(name: &str, t: i64, zone: Zone) -> SqlResult<Option<f64>> {
    extract_timestamptz(name, t, zone)?.map(|n| n.to_f64()).transpose()
}

/// `date_trunc` of a timestamp.
pub fn date_trunc_timestamp(name: &str, t: i64) -> SqlResult<i64> {
    truncate(name, t, TIMESTAMP)
}

/// `date_trunc` of a timestamptz, as the clocks of a place show it. What is cut to hours or less stays on the
/// side of a change of the clocks that it is on.
pub fn date_trunc_timestamptz(name: &str, t: i64, place: Place) -> SqlResult<i64> {
    if !timestamp_is_finite(t) {
        return Ok(t);
    }
    let east = place.at(t);
    let cut = truncate(name, earlier(t, -east)?, TIMESTAMPTZ)?;
    match unit(name) {
        Some(Field::Microsecond | Field::Millisecond | Field::Second | Field::Minute | Field::Hour) => {
            earlier(cut, east)
        }
        _ => place.moment(cut),
    }
}

fn truncate(name: &str, t: i64, ty: &str) -> SqlResult<i64> {
    if !timestamp_is_finite(t) {
        return Ok(t);
    }
    let f = unit(name).ok_or_else(|| not_recognized(name, ty))?;
    let (days, usecs) = split(t);
    let (year, month, _) = civil_from_days(days);
    let cut = |unit: i64| Ok(i64::from(days) * USECS_PER_DAY + usecs - usecs % unit);
    let day = |d: i64| {
        d.checked_mul(USECS_PER_DAY).and_then(check_timestamp).ok_or_else(|| out_of_range("timestamp"))
    };
    let first_of = |year: i32, month: u32| day(i64::from(days_from_civil(year, month, 1)));
    // The first year of a span that counts from the year 1 on in both directions.
    let span =
        |n: i32| if year > 0 { (year + n - 1) / n * n - n + 1 } else { -((n - 1 - (year - 1)) / n) * n + 1 };
    match f {
        Field::Microsecond => Ok(t),
        Field::Millisecond => cut(1000),
        Field::Second => cut(USECS_PER_SEC),
        Field::Minute => cut(60 * USECS_PER_SEC),
        Field::Hour => cut(3600 * USECS_PER_SEC),
        Field::Day => day(i64::from(days)),
        Field::Week => day(i64::from(days) - (day_of_week(days) + 6) % 7),
        Field::Month => first_of(year, month),
        Field::Quarter => first_of(year, (month - 1) / 3 * 3 + 1),
        Field::Year => first_of(year, 1),
        Field::Decade => first_of(year.div_euclid(10) * 10, 1),
        Field::Century => first_of(span(100), 1),
        Field::Millennium => first_of(span(1000), 1),
        _ => Err(not_supported(name, ty)),
    }
}
