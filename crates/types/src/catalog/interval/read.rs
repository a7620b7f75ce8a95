//! Intervals read from text.
//!
//! There are two ways to write one. Numbers with units, times and years with months (`1 year 2 mons -3 days
//! 04:05:06 ago`, `1-2 3 4:05`) are cut into the fields of [`dt::fields`] and read from the right to the
//! left, so that a unit is known before its number; a number without a unit has the one that the fields of
//! the type end with, or else that in front of what was read last. Whatever that does not understand is taken
//! to be ISO 8601 (`P1Y2M3DT4H5M6S`, `P0001-02-03T04:05:06`).
//!
//! A fraction of a year is rounded to months, one of a month becomes days (thirty are a month) and, like a
//! fraction of a week or day, microseconds.
//!
//! Source: PostgreSQL 15's documentation, 8.5.4, and its answers.

use super::{Fields, Interval, MONTHS_PER_YEAR};
use crate::datetime::{self as dt, Field, Look, USECS_PER_DAY, USECS_PER_SEC};
use crate::style::IntervalStyle;
use crate::{SqlError, SqlResult, sqlstate};

/// The room that the fields of a text take, each with an end.
const ROOM: usize = 256;
const USECS_PER_MINUTE: i64 = 60 * USECS_PER_SEC;
const USECS_PER_HOUR: i64 = 60 * USECS_PER_MINUTE;

/// Why a text is no interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Format,
    Range,
}

type Read<T> = Result<T, Fault>;

/// Reads an interval for a type of some fields.
pub fn interval(text: &str, fields: Fields, style: IntervalStyle) -> SqlResult<Interval> {
    let sum = match with_units(text, fields, style) {
        Err(Fault::Format) => iso(text),
        other => other,
    };
    let sum = sum.map_err(|fault| match fault {
        Fault::Format => SqlError::new(
            sqlstate::INVALID_DATETIME_FORMAT,
            format!("invalid input syntax for type interval: \"{text}\""),
        ),
        Fault::Range => SqlError::new("22015", format!("interval field value out of range: \"{text}\"")),
    })?;
    let months = i64::from(sum.years) * i64::from(MONTHS_PER_YEAR) + i64::from(sum.months);
    match i32::try_from(months) {
        Ok(months) => Ok(Interval { months, days: sum.days, micros: sum.micros }),
        Err(_) => Err(dt::out_of_range("interval")),
    }
}

/// What was read so far.
#[derive(Clone, Copy, Default)]
struct Sum {
    years: i32,
    months: i32,
    days: i32,
    micros: i64,
}

fn add(to: &mut i32, whole: i64, scale: i32) -> Read<()> {
    let sum = || to.checked_add(i32::try_from(whole).ok()?.checked_mul(scale)?);
    *to = sum().ok_or(Fault::Range)?;
    Ok(())
}

impl Sum {
    /// Adds so many units and a part of one.
    fn add(&mut self, unit: Field, whole: i64, part: f64) -> Read<()> {
        let years = match unit {
            Field::Microsecond => return self.add_time(whole, part, 1),
            Field::Millisecond => return self.add_time(whole, part, 1000),
            Field::Second => return self.add_time(whole, part, USECS_PER_SEC),
            Field::Minute => return self.add_time(whole, part, USECS_PER_MINUTE),
            Field::Hour => return self.add_time(whole, part, USECS_PER_HOUR),
            Field::Day => {
                add(&mut self.days, whole, 1)?;
                return self.add_time(0, part, USECS_PER_DAY);
            }
            Field::Week => {
                add(&mut self.days, whole, 7)?;
                return self.add_part_of_days(part * 7.0);
            }
            Field::Month => {
                add(&mut self.months, whole, 1)?;
                return self.add_part_of_days(part * 30.0);
            }
            Field::Year => 1,
            Field::Decade => 10,
            Field::Century => 100,
            Field::Millennium => 1000,
            _ => return Err(Fault::Format),
        };
        add(&mut self.years, whole, years)?;
        let months = part * f64::from(years) * f64::from(MONTHS_PER_YEAR);
        add(&mut self.months, months.round_ties_even() as i64, 1)
    }

    fn add_part_of_days(&mut self, days: f64) -> Read<()> {
        add(&mut self.days, days as i64, 1)?;
        self.add_time(0, days - days.trunc(), USECS_PER_DAY)
    }

    /// A part of a microsecond counts as one if it is more than a half.
    fn add_time(&mut self, whole: i64, part: f64, scale: i64) -> Read<()> {
        let part = part * scale as f64;
        let rest = part - part.trunc();
        let part = part as i64 + i64::from(rest > 0.5) - i64::from(rest < -0.5);
        let sum = || whole.checked_mul(scale)?.checked_add(self.micros)?.checked_add(part);
        self.micros = sum().ok_or(Fault::Range)?;
        Ok(())
    }

    fn negated(self) -> Option<Sum> {
        Some(Sum {
            years: self.years.checked_neg()?,
            months: self.months.checked_neg()?,
            days: self.days.checked_neg()?,
            micros: self.micros.checked_neg()?,
        })
    }
}

/// The units that a text has named: none may be named twice.
#[derive(Clone, Copy)]
struct Units(u32);

impl Units {
    const fn one(unit: Field) -> Units {
        Units(1 << unit as u32)
    }
    /// Parts of a second.
    const PARTS: u32 = Units::one(Field::Millisecond).0 | Units::one(Field::Microsecond).0;
    const SECONDS: Units = Units(Units::one(Field::Second).0 | Units::PARTS);
    const TIME: Units = Units(Units::SECONDS.0 | Units::one(Field::Minute).0 | Units::one(Field::Hour).0);

    fn take(&mut self, new: Units) -> Read<()> {
        if self.0 & new.0 != 0 {
            return Err(Fault::Format);
        }
        self.0 |= new.0;
        Ok(())
    }
}

fn with_units(text: &str, of_type: Fields, style: IntervalStyle) -> Read<Sum> {
    let fields = dt::fields(text).filter(|f| f.iter().map(|(_, f)| f.len() + 1).sum::<usize>() <= ROOM);
    let mut sum = Sum::default();
    let mut named = Units(0);
    let mut unit = None;
    let mut is_negated = false;
    let fields = fields.ok_or(Fault::Format)?;
    let has_sign = |f: &(Look, String)| f.1.starts_with(['+', '-']);
    // As the standard has it, a sign in front of all is that of each field.
    let is_signed = style == IntervalStyle::SqlStandard
        && fields.first().is_some_and(|f| f.1.starts_with('-'))
        && !fields[1..].iter().any(has_sign);
    for (look, field) in fields.iter().rev() {
        let time_of_day = match look {
            Look::Time => Some(time(field, 1, of_type)?),
            Look::Zone => signed_time(field, of_type),
            _ => None,
        };
        if let Some(micros) = time_of_day {
            // It takes the place of fractions of days behind it, as in PostgreSQL.
            sum.micros = if is_signed && micros > 0 { -micros } else { micros };
            unit = Some(Field::Day);
            named.take(Units::TIME)?;
            continue;
        }
        match look {
            Look::Time | Look::Zone | Look::Date | Look::Number => {
                let (next, new) = number(field, unit.unwrap_or(of_type.last()), is_signed, &mut sum)?;
                unit = Some(next);
                named.take(new)?;
            }
            Look::Word | Look::Special if field == "ago" => {
                is_negated = true;
                // A number in front of it needs a unit.
                unit = Some(Field::Other);
            }
            Look::Word | Look::Special => unit = Some(dt::unit(field).ok_or(Fault::Format)?),
        }
    }
    match named {
        Units(0) => Err(Fault::Format),
        _ if is_negated => sum.negated().ok_or(Fault::Range),
        _ => Ok(sum),
    }
}

/// Adds a number of units, with a fraction perhaps, or of years and months (`1-2`). Gives the unit of a
/// number in front of it, and what was named. `is_signed`: the sign in front of all is this one's, too.
fn number(field: &str, unit: Field, is_signed: bool, sum: &mut Sum) -> Read<(Field, Units)> {
    let (whole, rest) = integer(field)?;
    let whole = if is_signed && whole > 0 { -whole } else { whole };
    let is_negative = is_signed || field.starts_with('-');
    if let Some(months) = rest.strip_prefix('-') {
        let (months, rest) = integer(months)?;
        if !(0..i64::from(MONTHS_PER_YEAR)).contains(&months) {
            return Err(Fault::Range);
        }
        if !rest.is_empty() {
            return Err(Fault::Format);
        }
        let months = if is_negative { -months } else { months };
        let all = whole.checked_mul(MONTHS_PER_YEAR.into()).and_then(|m| m.checked_add(months));
        sum.add(Field::Month, all.ok_or(Fault::Range)?, 0.0)?;
        return Ok((Field::Month, Units::one(Field::Month)));
    }
    let part = if rest.is_empty() { 0.0 } else { fraction(rest)? };
    sum.add(unit, whole, if is_negative { -part } else { part })?;
    Ok(match unit {
        // A fraction of a second names its parts.
        Field::Second if part != 0.0 => (unit, Units::SECONDS),
        Field::Hour => (Field::Day, Units::one(unit)),
        _ => (unit, Units::one(unit)),
    })
}

/// The integer that a text begins with, zero if there is none, and what follows.
fn integer(text: &str) -> Read<(i64, &str)> {
    let sign = usize::from(text.starts_with(['+', '-']));
    let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return Ok((0, text));
    }
    let (number, rest) = text.split_at(sign + digits);
    Ok((number.parse().map_err(|_| Fault::Range)?, rest))
}

/// The same, of 32 bits.
fn small(text: &str) -> Read<(i64, &str)> {
    integer(text).and_then(|(n, rest)| i32::try_from(n).map(|n| (n.into(), rest)).map_err(|_| Fault::Range))
}

/// A point and digits, perhaps none.
fn fraction(text: &str) -> Read<f64> {
    match text.strip_prefix('.') {
        Some("") => Ok(0.0),
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => text.parse().map_err(|_| Fault::Format),
        _ => Err(Fault::Format),
    }
}

/// Hours and minutes, perhaps seconds; or minutes and seconds, if these have a fraction or the type says so.
fn time(text: &str, sign: i64, of_type: Fields) -> Read<i64> {
    let (a, rest) = integer(text)?;
    let (b, rest) = small(rest.strip_prefix(':').ok_or(Fault::Format)?)?;
    let (hours, minutes, seconds, rest) = match rest.strip_prefix(':') {
        Some(rest) => {
            let (c, rest) = small(rest)?;
            (a, b, c, rest)
        }
        None if rest.starts_with('.') || rest.is_empty() && of_type.is_minute_to_second() => (0, a, b, rest),
        None => (a, b, 0, rest),
    };
    let part = if rest.is_empty() { 0.0 } else { fraction(rest)? };
    if hours < 0 || !(0..60).contains(&minutes) || !(0..=60).contains(&seconds) {
        return Err(Fault::Range);
    }
    let mut sum = Sum::default();
    sum.add(Field::Hour, sign * hours, 0.0)?;
    sum.add(Field::Minute, sign * minutes, 0.0)?;
    sum.add(Field::Second, sign * seconds, 0.0)?;
    let part = (part * USECS_PER_SEC as f64).round_ties_even() as i64;
    sum.add(Field::Microsecond, sign * part, 0.0)?;
    Ok(sum.micros)
}

/// A time with a sign; `None` if it is none. Other than in PostgreSQL, the longest negative one is read back.
fn signed_time(field: &str, of_type: Fields) -> Option<i64> {
    let (sign, text) = field.split_at_checked(1)?;
    time(text, if sign == "-" { -1 } else { 1 }, of_type).ok()
}

/// ISO 8601: numbers with a letter behind each, or in its alternative forms a date and a time, with
/// separators or without.
fn iso(text: &str) -> Read<Sum> {
    let mut rest = text.strip_prefix('P').filter(|rest| !rest.is_empty()).ok_or(Fault::Format)?;
    let mut sum = Sum::default();
    let mut in_time = false;
    // Whether a number with a letter was read since the beginning or the T.
    let mut has_letters = false;
    while !rest.is_empty() {
        if let Some(behind) = rest.strip_prefix('T') {
            (rest, in_time, has_letters) = (behind, true, false);
            continue;
        }
        let digits = rest.strip_prefix('-').unwrap_or(rest).bytes().take_while(u8::is_ascii_digit).count();
        let (whole, part, behind) = iso_number(rest)?;
        let letter = behind.bytes().next();
        let unit = match (in_time, letter) {
            (false, Some(b'Y')) => Field::Year,
            (false, Some(b'M')) => Field::Month,
            (false, Some(b'W')) => Field::Week,
            (false, Some(b'D')) => Field::Day,
            (true, Some(b'H')) => Field::Hour,
            (true, Some(b'M')) => Field::Minute,
            (true, Some(b'S')) => Field::Second,
            (false, None | Some(b'T')) if digits == 8 && !has_letters => {
                sum.add(Field::Year, whole / 10_000, 0.0)?;
                sum.add(Field::Month, whole / 100 % 100, 0.0)?;
                sum.add(Field::Day, whole % 100, part)?;
                rest = behind;
                continue;
            }
            (true, None) if digits == 6 && !has_letters => {
                sum.add(Field::Hour, whole / 10_000, 0.0)?;
                sum.add(Field::Minute, whole / 100 % 100, 0.0)?;
                sum.add(Field::Second, whole % 100, 0.0)?;
                sum.add(Field::Microsecond, 0, part)?;
                return Ok(sum);
            }
            (false, None | Some(b'T' | b'-')) if !has_letters => {
                rest = separated(rest, '-', [Field::Year, Field::Month, Field::Day], &mut sum)?;
                if !rest.is_empty() && !rest.starts_with('T') {
                    return Err(Fault::Format);
                }
                continue;
            }
            (true, None | Some(b':')) if !has_letters => {
                rest = separated(rest, ':', [Field::Hour, Field::Minute, Field::Second], &mut sum)?;
                return if rest.is_empty() { Ok(sum) } else { Err(Fault::Format) };
            }
            _ => return Err(Fault::Format),
        };
        sum.add(unit, whole, part)?;
        (rest, has_letters) = (&behind[1..], true);
    }
    Ok(sum)
}

/// Up to three numbers with a separator between them, of which the later may be missing.
fn separated<'t>(text: &'t str, separator: char, units: [Field; 3], sum: &mut Sum) -> Read<&'t str> {
    let mut rest = text;
    for (i, unit) in units.into_iter().enumerate() {
        if i > 0 {
            match rest.strip_prefix(separator) {
                Some(behind) => rest = behind,
                None => break,
            }
        }
        let (whole, part, behind) = iso_number(rest)?;
        sum.add(unit, whole, part)?;
        rest = behind;
    }
    Ok(rest)
}

/// A decimal number, perhaps with an exponent, as an integer and a fraction; and what follows.
fn iso_number(text: &str) -> Read<(i64, f64, &str)> {
    /// Above it, a double has not both.
    const LIMIT: f64 = 1e15;
    let digits = |from: usize| text[from..].bytes().take_while(u8::is_ascii_digit).count();
    let start = usize::from(text.starts_with('-'));
    let whole = digits(start);
    let mut end = start + whole;
    let mut decimals = 0;
    if text[end..].starts_with('.') {
        decimals = digits(end + 1);
        end += 1 + decimals;
    }
    if whole + decimals == 0 {
        return Err(Fault::Format);
    }
    let is_zero = text[start..end].bytes().all(|b| matches!(b, b'0' | b'.'));
    if text[end..].starts_with(['e', 'E']) {
        let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
        let exponent = digits(end + 1 + sign);
        end += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    let (number, rest) = text.split_at(end);
    let number: f64 = number.parse().map_err(|_| Fault::Format)?;
    if number.is_infinite() || !is_zero && !number.is_normal() {
        return Err(Fault::Format);
    }
    if number.abs() > LIMIT {
        return Err(Fault::Range);
    }
    Ok((number as i64, number - number.trunc(), rest))
}
