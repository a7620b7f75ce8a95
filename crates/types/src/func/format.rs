//! `to_char` of times and intervals, and AT TIME ZONE.
//!
//! A format is cut into patterns and text. A pattern is the longest word of [`WORDS`] that stands at a place,
//! with a modifier before it (FM, which takes blanks and zeros away, or TM, which does so with names) and one
//! behind it (TH). Text in double quotes is taken as it is.
//!
//! Not here: numbers ([`super::number`]), and the way back ([`super::moment`]).
//!
//! Source: PostgreSQL 15's documentation, 9.8 and 9.9.4, and its answers.

use crate::datetime::zone::{Clock, Place, Zone};
use crate::datetime::{self as dt, USECS_PER_SEC};
use crate::{SqlError, SqlResult, Value, sqlstate};

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
pub(super) const ROMAN: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];
/// The width of the names of months and days, and of Roman months.
const NAME_WIDTH: usize = 9;
const ROMAN_WIDTH: usize = 4;

/// The patterns. Each but the first few, whose case is that of what they give, may be in lower case as well.
const WORDS: &[&str] = &[
    "Month", "Mon", "Day", "Dy", "month", "mon", "day", "dy", "a.d.", "a.m.", "b.c.", "p.m.", "ad", "am",
    "bc", "pm", "rm", "tz", "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DAY", "DDD", "DD", "DY", "D",
    "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "FX", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY",
    "IY", "I", "J", "MI", "MM", "MONTH", "MON", "MS", "OF", "P.M.", "PM", "Q", "RM", "SSSSS", "SSSS", "SS",
    "TZH", "TZM", "TZ", "US", "WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y",
];

/// A piece of a format.
pub(super) enum Piece<'a> {
    Text(&'a str),
    /// The same in quotes.
    Quoted(&'a str),
    Pattern {
        word: &'static str,
        /// FM or TM.
        bare: Option<&'static str>,
        /// TH or th.
        ordinal: Option<&'static str>,
    },
}

/// The pattern that a text begins with, and how long it is.
fn pattern_of(text: &str) -> Option<&'static str> {
    let begins = |w: &str| text.starts_with(w);
    // "tzh" is more than "tz".
    let lower =
        |w: &str| text.len() >= w.len() && text.as_bytes()[..w.len()] == *w.to_ascii_lowercase().as_bytes();
    let cased: &[&str] = &WORDS[..18];
    let longest = WORDS[18..].iter().filter(|w| begins(w) || lower(w)).max_by_key(|w| w.len());
    let own = cased.iter().filter(|w| begins(w)).max_by_key(|w| w.len());
    match (own, longest) {
        (Some(own), Some(other)) if own.len() >= other.len() => Some(*own),
        (_, Some(other)) => Some(*other),
        (own, None) => own.copied(),
    }
}

pub(super) fn pieces(format: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut rest = format;
    while !rest.is_empty() {
        let modifier = ["FM", "TM", "fm", "tm"].into_iter().find(|m| rest.starts_with(m));
        let behind = modifier.map_or(rest, |m| &rest[m.len()..]);
        if let Some(word) = pattern_of(behind) {
            let after = &behind[word.len()..];
            let ordinal = ["TH", "th"].into_iter().find(|m| after.starts_with(m));
            let spelled = Some("SP").filter(|m| after.starts_with(m));
            found.push(Piece::Pattern { word, bare: modifier, ordinal });
            rest = &after[ordinal.or(spelled).map_or(0, str::len)..];
            continue;
        }
        // A modifier of nothing is nothing.
        rest = behind;
        let Some(c) = rest.chars().next() else { break };
        if c == '"' {
            rest = &rest[1..];
            while let Some(c) = rest.chars().next() {
                let skip = usize::from(c == '\\' && rest.len() > 1);
                if c == '"' {
                    rest = &rest[1..];
                    break;
                }
                rest = &rest[skip..];
                let end = rest.chars().next().map_or(0, char::len_utf8);
                found.push(Piece::Quoted(&rest[..end]));
                rest = &rest[end..];
            }
            continue;
        }
        if rest.starts_with("\\\"") {
            rest = &rest[1..]
        }
        let end = rest.chars().next().map_or(0, char::len_utf8);
        found.push(Piece::Text(&rest[..end]));
        rest = &rest[end..];
    }
    found
}

/// What is shown: a moment, or an interval, whose parts have signs of their own.
pub(crate) struct Shown {
    /// 0 is 1 BC.
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub micros: i64,
    /// Days from 2000-01-01.
    date: i32,
    is_interval: bool,
    clock: Option<Clock>,
}

impl Shown {
    fn moment(t: i64, zone: Option<Zone>) -> Shown {
        let clock = zone.map(|zone| zone.at(t));
        let east = clock.map_or(0, |c| i64::from(c.east));
        let (date, usecs) = dt::split(t + east * USECS_PER_SEC);
        let (year, month, day) = dt::civil_from_days(date);
        let seconds = usecs / USECS_PER_SEC;
        Shown {
            year: year.into(),
            month: month.into(),
            day: day.into(),
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            micros: usecs % USECS_PER_SEC,
            date,
            is_interval: false,
            clock,
        }
    }

    pub(crate) fn interval(months: i32, days: i32, micros: i64) -> Shown {
        let seconds = micros / USECS_PER_SEC;
        Shown {
            year: (months / 12).into(),
            month: (months % 12).into(),
            day: days.into(),
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            micros: micros % USECS_PER_SEC,
            date: dt::days_from_civil(months / 12, (months % 12).max(1) as u32, 1)
                .saturating_add(days.saturating_sub(1)),
            is_interval: true,
            clock: None,
        }
    }

    /// The year as it is written.
    fn shown_year(&self, year: i64) -> i64 {
        if self.is_interval || year > 0 { year } else { 1 - year }
    }

    pub(crate) fn format(&self, format: &str) -> SqlResult<String> {
        let mut out = String::new();
        for piece in pieces(format) {
            match piece {
                Piece::Text(text) | Piece::Quoted(text) => out.push_str(text),
                Piece::Pattern { word, bare, ordinal } => {
                    let at = out.len();
                    self.pattern(word, bare, &mut out)?;
                    let is_zone = ["TZH", "TZM", "OF"].contains(&word);
                    let is_number = out[at..].ends_with(|c: char| c.is_ascii_digit()) && !is_zone;
                    if let Some(case) = ordinal
                        && is_number
                    {
                        let ending = ordinal_ending(&out[at..]);
                        out.push_str(&if case == "TH" { ending.to_uppercase() } else { ending.to_string() })
                    }
                }
            }
        }
        Ok(out)
    }

    fn pattern(&self, word: &str, bare: Option<&str>, out: &mut String) -> SqlResult<()> {
        let is_filled = !matches!(bare, Some("FM" | "fm"));
        // A sign takes a place of its own; in `plain` it does not.
        let padded = |n: i64, width: usize| match is_filled {
            true if n < 0 => format!("{n:0w$}", w = width + 1),
            true => format!("{n:0width$}"),
            false => n.to_string(),
        };
        let plain = |n: i64, width: usize| if is_filled { format!("{n:0width$}") } else { n.to_string() };
        let cased = |name: &str, width: usize| {
            let name = match word {
                w if w.starts_with(|c: char| c.is_lowercase()) => name.to_lowercase(),
                w if w[1..].starts_with(|c: char| c.is_lowercase()) => name.to_string(),
                _ => name.to_uppercase(),
            };
            if is_filled && bare.is_none() { format!("{name:width$}") } else { name }
        };
        let dated = || match self.is_interval {
            true => Err(SqlError::new(
                sqlstate::INVALID_DATETIME_FORMAT,
                "invalid format specification for an interval value",
            )
            .hint("Intervals are not tied to specific calendar dates.")),
            false => Ok(()),
        };
        let year_day = || match self.is_interval {
            true => (self.year * 12 + self.month) * 30 + self.day,
            false => i64::from(self.date - dt::days_from_civil(self.year as i32, 1, 1)) + 1,
        };
        let weekday = || i64::from((self.date.rem_euclid(7) + 6) % 7);
        let iso = || dt::iso_week(self.date);
        let upper = word.to_ascii_uppercase();
        let text = match upper.as_str() {
            "A.M." | "P.M." | "AM" | "PM" => {
                let is_late = self.hour % 24 >= 12;
                let dotted = if is_late { "P.M." } else { "A.M." };
                let text = if word.contains('.') { dotted.to_string() } else { dotted.replace('.', "") };
                if word.starts_with(|c: char| c.is_lowercase()) { text.to_lowercase() } else { text }
            }
            "A.D." | "B.C." | "AD" | "BC" => {
                dated()?;
                let dotted = if self.year <= 0 { "B.C." } else { "A.D." };
                let text = if word.contains('.') { dotted.to_string() } else { dotted.replace('.', "") };
                if word.starts_with(|c: char| c.is_lowercase()) { text.to_lowercase() } else { text }
            }
            "HH" | "HH12" => padded(if self.hour % 12 == 0 { 12 } else { self.hour % 12 }, 2),
            "HH24" => padded(self.hour, 2),
            "MI" => padded(self.minute, 2),
            "SS" => padded(self.second, 2),
            "FF1" => format!("{:01}", self.micros / 100_000),
            "FF2" => format!("{:02}", self.micros / 10_000),
            "FF3" | "MS" => format!("{:03}", self.micros / 1000),
            "FF4" => format!("{:04}", self.micros / 100),
            "FF5" => format!("{:05}", self.micros / 10),
            "FF6" | "US" => format!("{:06}", self.micros),
            "SSSS" | "SSSSS" => (self.hour * 3600 + self.minute * 60 + self.second).to_string(),
            "TZ" => {
                dated()?;
                let name = self.clock.map_or("", |c| c.abbreviation);
                if word == "tz" { name.to_lowercase() } else { name.to_string() }
            }
            "TZH" | "TZM" | "OF" => {
                dated()?;
                let east = self.clock.map_or(0, |c| c.east);
                let (sign, hours, minutes) =
                    (if east < 0 { '-' } else { '+' }, east.abs() / 3600, east.abs() / 60 % 60);
                match upper.as_str() {
                    "TZH" => format!("{sign}{hours:02}"),
                    "TZM" => format!("{minutes:02}"),
                    _ => {
                        let hours = if is_filled { format!("{hours:02}") } else { hours.to_string() };
                        let minutes = if minutes == 0 { String::new() } else { format!(":{minutes:02}") };
                        format!("{sign}{hours}{minutes}")
                    }
                }
            }
            "MONTH" | "MON" => {
                dated()?;
                let name = MONTHS[(self.month - 1) as usize];
                if upper == "MON" { cased(&name[..3], 0) } else { cased(name, NAME_WIDTH) }
            }
            "DAY" | "DY" => {
                dated()?;
                let name = DAYS[weekday() as usize];
                if upper == "DY" { cased(&name[..3], 0) } else { cased(name, NAME_WIDTH) }
            }
            "MM" => padded(self.month, 2),
            "DDD" => plain(year_day(), 3),
            "IDDD" => {
                let (year, _) = iso();
                let first = dt::days_from_civil(year, 1, 4);
                // The Monday of the week with January 4.
                let monday = first - (first.rem_euclid(7) + 5) % 7;
                plain(i64::from(self.date - monday) + 1, 3)
            }
            "DD" => plain(self.day, 2),
            "D" => {
                dated()?;
                (weekday() + 1).to_string()
            }
            "ID" => {
                dated()?;
                (if weekday() == 0 { 7 } else { weekday() }).to_string()
            }
            "WW" => plain((year_day() - 1) / 7 + 1, 2),
            "IW" => plain(iso().1, 2),
            "Q" => match self.month {
                0 => String::new(),
                month => ((month - 1) / 3 + 1).to_string(),
            },
            "CC" => padded(
                match self.year {
                    year if self.is_interval => year / 100,
                    year if year > 0 => (year - 1) / 100 + 1,
                    year => year / 100 - 1,
                },
                2,
            ),
            "Y,YYY" => {
                let year = self.shown_year(self.year);
                format!("{},{:03}", year / 1000, year % 1000)
            }
            "YYYY" | "YYY" | "YY" | "Y" | "IYYY" | "IYY" | "IY" | "I" => {
                let year = match upper.starts_with('I') && !self.is_interval {
                    true => i64::from(iso().0),
                    false => self.year,
                };
                let digits = upper.len();
                let year = self.shown_year(year);
                let part = if digits == 4 { year } else { year % 10i64.pow(digits as u32) };
                if digits == 1 { part.to_string() } else { padded(part, digits) }
            }
            "RM" => match (self.month, self.year) {
                (0, 0) => String::new(),
                (month, year) => {
                    let at = match month {
                        0 if year >= 0 => 11,
                        0 => 0,
                        1.. => month - 1,
                        _ => 12 + month,
                    };
                    let name = ROMAN[at.rem_euclid(12) as usize];
                    let name = if word == "rm" { name.to_lowercase() } else { name.to_string() };
                    if is_filled { format!("{name:ROMAN_WIDTH$}") } else { name }
                }
            },
            "W" => ((self.day - 1) / 7 + 1).to_string(),
            "J" => (i64::from(self.date) + i64::from(dt::EPOCH_JULIAN)).to_string(),
            // FX is about reading.
            _ => String::new(),
        };
        out.push_str(&text);
        Ok(())
    }
}

pub(super) fn ordinal_ending(number: &str) -> &'static str {
    let digits: Vec<u8> = number.bytes().rev().take(2).collect();
    match digits[..] {
        [_, b'1'] => "th",
        [b'1', ..] => "st",
        [b'2', ..] => "nd",
        [b'3', ..] => "rd",
        _ => "th",
    }
}

/// Nothing for a format that is empty, or for no moment.
fn to_char(t: i64, zone: Option<Zone>, format: &str) -> SqlResult<Value> {
    match dt::timestamp_is_finite(t) && !format.is_empty() {
        true => Shown::moment(t, zone).format(format).map(Value::Text),
        false => Ok(Value::Null),
    }
}

/// The place that a zone's name or abbreviation means.
pub(crate) fn place(zone: &str) -> SqlResult<Place> {
    Place::of(&zone.to_ascii_lowercase())?.ok_or_else(|| {
        SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, format!("time zone \"{zone}\" not recognized"))
    })
}

/// A timestamp so much later; infinity stays.
pub(crate) fn shifted(t: i64, by: i64) -> SqlResult<i64> {
    match dt::timestamp_is_finite(t) {
        true => t.checked_add(by).and_then(dt::check_timestamp).ok_or_else(|| dt::out_of_range("timestamp")),
        false => Ok(t),
    }
}

functions! {
    1340 TO_CHAR_TIMESTAMP "to_char" (Timestamp, Text) -> Text
        = |c| to_char(c.timestamp(0)?, None, c.text(1)?), stable;
    1341 TO_CHAR_TIMESTAMPTZ "to_char" (Timestamptz, Text) -> Text
        = |c| to_char(c.timestamptz(0)?, Some(c.ctx.styles.zone), c.text(1)?), stable;
    1342 TIMEZONE_OF "timezone" (Text, Timestamptz) -> Timestamp
        = |c| place(c.text(0)?)?.local(c.timestamptz(1)?).map(Value::Timestamp), zones;
    1343 TIMEZONE_IN "timezone" (Text, Timestamp) -> Timestamptz
        = |c| place(c.text(0)?)?.moment(c.timestamp(1)?).map(Value::Timestamptz), zones;
}
