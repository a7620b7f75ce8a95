//! `to_timestamp` and `to_date` with a format.
//!
//! - **R1** A pattern takes as many digits as it has letters, or as many as there are where what follows is
//!   no digit, where FM stands before it or TH behind it.
//! - **R2** Blanks before and behind fields are skipped. A separator or blank of the format takes one of the
//!   text, or nothing if there is none; other text takes as many characters, less those skipped before. After
//!   FX nothing is skipped: each character of the format takes one.
//! - **R3** What is told twice must be the same, and Gregorian dates and ISO weeks do not go together.
//!
//! Source: PostgreSQL 15's documentation, 9.8, and its answers.

use super::format::{DAYS, MONTHS, Piece, ROMAN, pieces, place};
use crate::datetime::zone::{Place, Zone};
use crate::datetime::{self as dt, USECS_PER_SEC};
use crate::{SqlError, SqlResult, Value, sqlstate};

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Convention {
    #[default]
    None,
    Gregorian,
    IsoWeek,
}

/// What the fields told; zero is nothing.
#[derive(Default)]
struct Told {
    convention: Convention,
    hour: i32,
    minute: i32,
    second: i32,
    /// Seconds of the day.
    seconds: i32,
    millis: i32,
    micros: i32,
    /// Of a fraction with so many digits: what the moment is rounded to.
    precision: Option<i32>,
    /// Of the week, Sunday being 1.
    weekday: i32,
    day: i32,
    day_of_year: i32,
    month: i32,
    year: i32,
    /// Digits of the year.
    year_digits: i32,
    century: i32,
    is_before: i32,
    is_late: i32,
    has_half_days: bool,
    julian: i32,
    week: i32,
    week_of_month: i32,
    zone_sign: i32,
    zone_hour: i32,
    zone_minute: i32,
}

fn invalid(message: String) -> SqlError {
    SqlError::new(sqlstate::INVALID_DATETIME_FORMAT, message)
}

/// How many digits a pattern has of its own, and whether it is one of digits.
fn width(word: &str) -> (usize, bool) {
    let upper = word.to_ascii_uppercase();
    let is_digits = !matches!(
        upper.as_str(),
        "A.D."
            | "A.M."
            | "AD"
            | "AM"
            | "B.C."
            | "BC"
            | "P.M."
            | "PM"
            | "DAY"
            | "DY"
            | "FX"
            | "MONTH"
            | "MON"
            | "OF"
            | "RM"
            | "TZ"
            | "TZH"
    );
    (word.len(), is_digits)
}

/// A year of fewer digits is one close to 2020.
fn near_2020(year: i32) -> i32 {
    match year {
        ..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

struct MomentReader<'a> {
    rest: &'a str,
    /// The character before the rest.
    before: Option<char>,
    /// Characters skipped beyond what the format has.
    skipped: i32,
    is_fixed: bool,
    told: Told,
}

impl<'a> MomentReader<'a> {
    fn skip(&mut self) {
        let mut chars = self.rest.chars();
        if let Some(c) = chars.next() {
            self.before = Some(c);
            self.rest = chars.as_str()
        }
    }
    fn is_blank(&self) -> bool {
        self.rest.starts_with(|c: char| c.is_ascii_whitespace() || c == '\x0b')
    }
    fn skip_blanks(&mut self) {
        while self.is_blank() {
            self.skip();
            self.skipped += 1
        }
    }

    /// An integer: a sign and digits at the beginning of a text, after blanks. How long it is.
    fn integer(text: &str) -> (Option<i64>, usize) {
        let blanks =
            text.len() - text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b').len();
        let behind = &text[blanks..];
        let sign = usize::from(behind.starts_with(['+', '-']));
        let digits = behind[sign..].bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return (None, 0);
        }
        let written = &behind[..sign + digits];
        let far = if written.starts_with('-') { i64::MIN } else { i64::MAX };
        (Some(written.parse().unwrap_or(far)), blanks + sign + digits)
    }

    /// R1: the number, and how many characters it took.
    fn number(&mut self, word: &str, digits: usize, is_free: bool) -> SqlResult<(i32, usize)> {
        const HINT: &str = "If your source string is not fixed-width, try using the \"FM\" modifier.";
        let from = self.rest;
        let (value, used) = if is_free {
            Self::integer(from)
        } else {
            let behind = from.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
            if behind.len() < digits {
                return Err(invalid(format!("source string too short for \"{word}\" formatting field"))
                    .detail(format!("Field requires {digits} characters, but only {} remain.", behind.len()))
                    .hint(HINT));
            }
            let end = (0..=digits).rev().find(|n| behind.is_char_boundary(*n)).unwrap_or(0);
            let own = &behind[..end];
            let (value, used) = Self::integer(own);
            if used > 0 && used < digits {
                return Err(invalid(format!("invalid value \"{own}\" for \"{word}\""))
                    .detail(format!("Field requires {digits} characters, but only {used} could be parsed."))
                    .hint(HINT));
            }
            (value, if used > 0 { from.len() - behind.len() + used } else { 0 })
        };
        let Some(value) = value else {
            let end = (0..=digits.min(from.len())).rev().find(|n| from.is_char_boundary(*n)).unwrap_or(0);
            return Err(invalid(format!("invalid value \"{}\" for \"{word}\"", &from[..end]))
                .detail("Value must be an integer."));
        };
        let Ok(value) = i32::try_from(value) else {
            let message = format!("value for \"{word}\" in source string is out of range");
            return Err(SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, message).detail(format!(
                "Value must be in the range {} to {}.",
                i32::MIN,
                i32::MAX
            )));
        };
        self.before = from[..used].chars().next_back();
        self.rest = &from[used..];
        Ok((value, used))
    }

    /// The place of one of these words, which the text goes on with.
    fn one_of(&mut self, word: &str, among: &[&str]) -> SqlResult<i32> {
        let is_it = |w: &str| {
            self.rest.get(..w.len()).is_some_and(|own| own.eq_ignore_ascii_case(w)) && !w.is_empty()
        };
        match among.iter().position(|w| is_it(w)) {
            Some(n) => {
                for _ in among[n].chars() {
                    self.skip()
                }
                Ok(n as i32)
            }
            None => {
                let end = self.rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(self.rest.len());
                Err(invalid(format!("invalid value \"{}\" for \"{word}\"", &self.rest[..end]))
                    .detail("The given value did not match any of the allowed values for this field."))
            }
        }
    }

    /// R3
    fn follow(&mut self, convention: Convention) -> SqlResult<()> {
        if convention == Convention::None {
            return Ok(());
        }
        if self.told.convention != Convention::None && self.told.convention != convention {
            return Err(invalid("invalid combination of date conventions".into())
                .hint("Do not mix Gregorian and ISO week date conventions in a formatting template."));
        }
        self.told.convention = convention;
        Ok(())
    }

    fn field(&mut self, word: &str, is_free: bool) -> SqlResult<()> {
        let (own, _) = width(word);
        let upper = word.to_ascii_uppercase();
        let set = |field: &mut i32, value: i32| -> SqlResult<()> {
            if *field != 0 && *field != value {
                return Err(invalid(format!("conflicting values for \"{word}\" field in formatting string"))
                    .detail("This value contradicts a previous setting for the same field type."));
            }
            *field = value;
            Ok(())
        };
        self.follow(match upper.as_str() {
            "DDD" | "DD" | "D" | "MM" | "MON" | "MONTH" | "RM" | "WW" | "W" | "Y,YYY" | "YYYY" | "YYY"
            | "YY" | "Y" => Convention::Gregorian,
            "IDDD" | "ID" | "IW" | "IYYY" | "IYY" | "IY" | "I" => Convention::IsoWeek,
            _ => Convention::None,
        })?;
        let short = |names: &[&'static str]| -> Vec<&'static str> { names.iter().map(|n| &n[..3]).collect() };
        match upper.as_str() {
            "A.M." | "P.M." | "AM" | "PM" => {
                let words = if word.contains('.') { ["a.m.", "p.m."] } else { ["am", "pm"] };
                let n = self.one_of(word, &words)?;
                set(&mut self.told.is_late, n)?;
                self.told.has_half_days = true
            }
            "A.D." | "B.C." | "AD" | "BC" => {
                let words = if word.contains('.') { ["a.d.", "b.c."] } else { ["ad", "bc"] };
                let n = self.one_of(word, &words)?;
                set(&mut self.told.is_before, n)?
            }
            "MONTH" => {
                let n = self.one_of(word, &MONTHS)?;
                set(&mut self.told.month, n + 1)?
            }
            "MON" => {
                let n = self.one_of(word, &short(&MONTHS))?;
                set(&mut self.told.month, n + 1)?
            }
            "DAY" => {
                let n = self.one_of(word, &DAYS)?;
                set(&mut self.told.weekday, n)?;
                self.told.weekday += 1
            }
            "DY" => {
                let n = self.one_of(word, &short(&DAYS))?;
                set(&mut self.told.weekday, n)?;
                self.told.weekday += 1
            }
            "RM" => {
                // The longer of two that begin alike first.
                let mut names: Vec<&str> = ROMAN.to_vec();
                names.reverse();
                let n = self.one_of(word, &names)?;
                set(&mut self.told.month, 12 - n)?
            }
            "TZ" | "OF" => {
                let message = format!("formatting field \"{word}\" is only supported in to_char");
                return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
            }
            "TZH" => {
                // A minus may have been skipped as a separator.
                let first = self.rest.chars().next();
                self.told.zone_sign = match first {
                    Some('-') => -1,
                    Some('+' | ' ') => 1,
                    _ if self.skipped > 0 && self.before == Some('-') => -1,
                    _ => 1,
                };
                if matches!(first, Some('-' | '+' | ' ')) {
                    self.skip()
                }
                let (n, _) = self.number(word, 2, is_free)?;
                set(&mut self.told.zone_hour, n)?
            }
            "TZM" => {
                if self.told.zone_sign == 0 {
                    self.told.zone_sign = 1
                }
                let (n, _) = self.number(word, 2, is_free)?;
                set(&mut self.told.zone_minute, n)?
            }
            "Y,YYY" => {
                let text = self.rest;
                let (thousands, used) = Self::integer(text);
                let years = text.get(used..).and_then(|t| t.strip_prefix(',')).map(|t| {
                    let n = t.bytes().take(3).take_while(u8::is_ascii_digit).count();
                    (t[..n].parse::<i32>().ok(), used + 1 + n)
                });
                let (Some(thousands), Some((Some(years), end))) = (thousands, years) else {
                    return Err(invalid("invalid input string for \"Y,YYY\"".into()));
                };
                let year =
                    i32::try_from(thousands).ok().and_then(|t| t.checked_mul(1000)?.checked_add(years));
                let year = year.ok_or_else(|| {
                    let message = "value for \"Y,YYY\" in source string is out of range";
                    SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, message)
                })?;
                set(&mut self.told.year, year)?;
                self.told.year_digits = 4;
                self.before = text[..end].chars().next_back();
                self.rest = &text[end..]
            }
            "FX" => {}
            _ => {
                let digits = match upper.as_str() {
                    "HH" | "HH12" | "HH24" => 2,
                    "MS" => 3,
                    "US" | "FF6" => 6,
                    "FF1" => 1,
                    "FF2" => 2,
                    "FF3" => 3,
                    "FF4" => 4,
                    "FF5" => 5,
                    "IDDD" => 3,
                    "ID" => 1,
                    _ => own,
                };
                let (n, used) = self.number(word, digits, is_free)?;
                let t = &mut self.told;
                let fraction = |most: usize| {
                    let missing = most.saturating_sub(used.max(1)).min(most - 1) as u32;
                    n.wrapping_mul(10i32.pow(missing))
                };
                match upper.as_str() {
                    "HH" | "HH12" => {
                        set(&mut t.hour, n)?;
                        t.has_half_days = true
                    }
                    "HH24" => set(&mut t.hour, n)?,
                    "MI" => set(&mut t.minute, n)?,
                    "SS" => set(&mut t.second, n)?,
                    "MS" => {
                        set(&mut t.millis, n)?;
                        t.millis = fraction(3)
                    }
                    "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                        set(&mut t.micros, n)?;
                        t.micros = fraction(6);
                        if upper != "US" {
                            t.precision = Some(digits as i32)
                        }
                    }
                    "SSSS" | "SSSSS" => set(&mut t.seconds, n)?,
                    "MM" => set(&mut t.month, n)?,
                    "DDD" | "IDDD" => set(&mut t.day_of_year, n)?,
                    "DD" => set(&mut t.day, n)?,
                    "D" => set(&mut t.weekday, n)?,
                    "ID" => {
                        set(&mut t.weekday, n)?;
                        t.weekday = if n >= 7 { 1 } else { n + 1 }
                    }
                    "WW" | "IW" => set(&mut t.week, n)?,
                    // Which day of a quarter cannot be told.
                    "Q" => {}
                    "CC" => set(&mut t.century, n)?,
                    "W" => set(&mut t.week_of_month, n)?,
                    "J" => set(&mut t.julian, n)?,
                    _ => {
                        set(&mut t.year, n)?;
                        let digits = upper.len() as i32;
                        if digits < 4 && used < 4 {
                            t.year = near_2020(n)
                        }
                        t.year_digits = digits
                    }
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, format: &str) -> SqlResult<()> {
        let pieces = pieces(format);
        for (n, piece) in pieces.iter().enumerate() {
            if self.rest.is_empty() {
                break;
            }
            let is_fx = matches!(piece, Piece::Pattern { word: "FX", .. });
            let is_pattern = matches!(piece, Piece::Pattern { .. });
            if !self.is_fixed && !is_fx && (is_pattern || n == 0) {
                self.skip_blanks();
            }
            let (word, bare, ordinal) = match piece {
                Piece::Text(text) if is_separator(text) && !self.is_fixed => {
                    // R2
                    self.skipped -= 1;
                    let next = self.rest.get(..1).is_some_and(is_separator);
                    if next || self.is_blank() {
                        self.skip();
                        self.skipped += 1
                    }
                    continue;
                }
                Piece::Text(_) | Piece::Quoted(_) => {
                    match self.skipped > 0 && !self.is_fixed {
                        true => self.skipped -= 1,
                        false => self.skip(),
                    }
                    continue;
                }
                Piece::Pattern { word, bare, ordinal } => (*word, bare, ordinal),
            };
            if is_fx {
                self.is_fixed = true;
                continue;
            }
            let is_bare = matches!(bare, Some("FM" | "fm"));
            let is_free = is_bare || ordinal.is_some() || is_end_of_digits(pieces.get(n + 1));
            self.field(word, is_free)?;
            if ordinal.is_some() && width(word).1 {
                self.skip();
                self.skip()
            }
            if !self.is_fixed {
                self.skipped = 0;
                self.skip_blanks()
            }
        }
        Ok(())
    }
}

/// What a separator of a format is: no letter, no digit.
fn is_separator(text: &str) -> bool {
    text.bytes().all(|b| (0x20..0x7f).contains(&b) && !b.is_ascii_alphanumeric() || b.is_ascii_whitespace())
}

/// Whether digits end where the format goes on with that.
fn is_end_of_digits(next: Option<&Piece<'_>>) -> bool {
    match next {
        None => true,
        Some(Piece::Pattern { word, .. }) => !width(word).1,
        Some(Piece::Text(t) | Piece::Quoted(t)) => !t.starts_with(|c: char| c.is_ascii_digit()),
    }
}

/// The Monday of a week, in days from 2000.
fn monday(year: i32, week: i32) -> i64 {
    let fourth = i64::from(dt::days_from_civil(year, 1, 4));
    // 2000-01-01 was a Saturday.
    fourth - (fourth + 5).rem_euclid(7) + (i64::from(week) - 1) * 7
}

/// A moment that was read: the date in days from 2000, the time of day, and how far the zone is east, in
/// microseconds.
struct Moment {
    date: i64,
    time: i64,
    east: Option<i64>,
    precision: Option<i32>,
}

fn moment(text: &str, format: &str) -> SqlResult<Moment> {
    let mut r = MomentReader { rest: text, before: None, skipped: 0, is_fixed: false, told: Told::default() };
    r.read(format)?;
    let mut t = r.told;
    let out_of_range = || {
        let message = format!("date/time field value out of range: \"{text}\"");
        SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, message)
    };
    let (mut hour, mut minute, mut second) = (t.seconds / 3600, t.seconds / 60 % 60, t.seconds % 60);
    for (part, told) in [(&mut second, t.second), (&mut minute, t.minute), (&mut hour, t.hour)] {
        if told != 0 {
            *part = told
        }
    }
    if t.has_half_days {
        if !(1..=12).contains(&hour) {
            return Err(invalid(format!("hour \"{hour}\" is invalid for the 12-hour clock"))
                .hint("Use the 24-hour clock, or give an hour between 1 and 12."));
        }
        hour = hour % 12 + if t.is_late != 0 { 12 } else { 0 }
    }

    // What was told of the date: (year, month, day), 0 being 1 BC.
    let (mut year, mut month, mut day) = (0, 1, 1);
    let (mut has_month, mut has_day) = (false, false);
    let mut whole = None;
    if t.is_before != 0 {
        t.century = t.century.wrapping_neg()
    }
    if t.year != 0 {
        if t.century != 0 && t.year_digits <= 2 {
            let part = t.year % 100;
            let before = t.century < 0;
            year = match part {
                0 => t.century.wrapping_mul(100) + i32::from(before),
                _ if before => (t.century + 1).wrapping_mul(100) - part + 1,
                _ => (t.century - 1).wrapping_mul(100) + part,
            }
        } else {
            year = if t.is_before != 0 { t.year.wrapping_neg() } else { t.year };
            year += i32::from(year < 0)
        }
    } else if t.century != 0 {
        let first = if t.century < 0 { t.century } else { t.century - 1 };
        year = first.wrapping_mul(100).wrapping_add(1)
    }
    if t.julian != 0 {
        whole = Some(i64::from(t.julian) - i64::from(dt::EPOCH_JULIAN))
    }
    if t.week != 0 {
        if t.convention == Convention::IsoWeek {
            let weekday = match t.weekday {
                0 => 0,
                1 => 6,
                d => i64::from(d) - 2,
            };
            check_year(year).ok_or_else(out_of_range)?;
            whole = Some(monday(year, t.week) + weekday)
        } else {
            t.day_of_year = (t.week - 1).wrapping_mul(7).wrapping_add(1)
        }
    }
    if t.week_of_month != 0 {
        t.day = (t.week_of_month - 1).wrapping_mul(7).wrapping_add(1)
    }
    if let Some(date) = whole {
        let days = i32::try_from(date).map_err(|_| out_of_range())?;
        let (y, m, d) = dt::civil_from_days(days);
        (year, month, day) = (y, m as i32, d as i32);
        (has_month, has_day) = (true, true)
    }
    if t.day != 0 {
        (day, has_day) = (t.day, true)
    }
    if t.month != 0 {
        (month, has_month) = (t.month, true)
    }
    check_year(year).ok_or_else(out_of_range)?;
    if t.day_of_year != 0 && (month <= 1 || day <= 1) {
        if year == 0 && t.is_before == 0 {
            return Err(invalid("cannot calculate day of year without year information".into()));
        }
        if t.convention == Convention::IsoWeek {
            let days = monday(year, 1) - 1 + i64::from(t.day_of_year);
            let days = i32::try_from(days).map_err(|_| out_of_range())?;
            let (y, m, d) = dt::civil_from_days(days);
            (year, month, day) = (y, m as i32, d as i32)
        } else {
            let (mut m, mut rest) = (1, t.day_of_year);
            while m < 13 && rest > month_length(year, m) {
                rest -= month_length(year, m);
                m += 1
            }
            if month <= 1 {
                month = m as i32
            }
            if day <= 1 {
                day = rest
            }
        }
        (has_month, has_day) = (true, true)
    }
    let has_year = t.year != 0 || t.century != 0 || whole.is_some() || t.day_of_year != 0;
    if has_month && !(1..=12).contains(&month)
        || has_day && !(1..=31).contains(&day)
        || has_year && has_month && has_day && day > month_length(year, month as u32)
    {
        return Err(out_of_range());
    }
    let part = i64::from(t.millis) * 1000 + i64::from(t.micros);
    if !(0..24).contains(&hour)
        || !(0..60).contains(&minute)
        || !(0..60).contains(&second)
        || !(0..USECS_PER_SEC).contains(&part)
    {
        return Err(out_of_range());
    }
    let mut east = None;
    if t.zone_sign != 0 {
        if !(0..=15).contains(&t.zone_hour) || !(0..60).contains(&t.zone_minute) {
            let message = format!("time zone displacement out of range: \"{text}\"");
            return Err(SqlError::new("22009", message));
        }
        let minutes = i64::from(t.zone_sign) * i64::from(t.zone_hour * 60 + t.zone_minute);
        east = Some(minutes * 60 * USECS_PER_SEC)
    }
    let date = i64::from(dt::days_from_civil(year, month as u32, day as u32));
    let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    Ok(Moment { date, time: seconds * USECS_PER_SEC + part, east, precision: t.precision })
}

/// Days are counted in years that are not farther.
fn check_year(year: i32) -> Option<i32> {
    (-5000..=5_900_000).contains(&year).then_some(year)
}

fn month_length(year: i32, month: u32) -> i32 {
    dt::days_in_month(year, month) as i32
}

fn to_timestamp(text: &str, format: &str, zone: Zone) -> SqlResult<Value> {
    let m = moment(text, format)?;
    let usecs = m.date.checked_mul(86_400 * USECS_PER_SEC).and_then(|d| d.checked_add(m.time));
    let east = |t: i64| m.east.unwrap_or_else(|| i64::from(zone.of_local(t).east) * USECS_PER_SEC);
    let usecs = usecs.and_then(|t| t.checked_sub(east(t))).and_then(dt::check_timestamp);
    let usecs = usecs.ok_or_else(|| dt::out_of_range("timestamp"))?;
    m.precision.map_or(Ok(usecs), |p| dt::round_timestamp(usecs, p)).map(Value::Timestamptz)
}

fn to_date(text: &str, format: &str) -> SqlResult<Value> {
    let m = moment(text, format)?;
    dt::check_date(m.date).map(Value::Date).ok_or_else(|| {
        let message = format!("date out of range: \"{text}\"");
        SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, message)
    })
}

/// A zone's name, or, with a sign, a number of hours, by ISO 8601.
fn numbered_place(zone: &str) -> SqlResult<Place> {
    let invalid = |message: String| SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message);
    if zone.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(invalid(format!("invalid input syntax for type numeric time zone: \"{zone}\""))
            .hint("Numeric time zones must have \"-\" or \"+\" as first character."));
    }
    let Some(number) = zone.strip_prefix(['+', '-']).filter(|n| n.starts_with(|c: char| c.is_ascii_digit()))
    else {
        return place(zone);
    };
    let unknown = || invalid(format!("time zone \"{zone}\" not recognized"));
    // What stands behind a colon may be left out.
    let part = |p: &str| if p.is_empty() { Ok(0) } else { p.parse() };
    let parts: Vec<i32> = number.split(':').map(part).collect::<Result<_, _>>().map_err(|_| unknown())?;
    let (hours, minutes, seconds) = match parts[..] {
        [n] if number.len() > 2 => (n / 100, n % 100, 0),
        [h] => (h, 0, 0),
        [h, m] => (h, m, 0),
        [h, m, s] => (h, m, s),
        _ => return Err(unknown()),
    };
    if !(0..=15).contains(&hours) || !(0..60).contains(&minutes) || !(0..60).contains(&seconds) {
        return Err(invalid(format!("numeric time zone \"{zone}\" out of range")));
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    Ok(Place::Offset(sign * (hours * 3600 + minutes * 60 + seconds)))
}

functions! {
    1511 TO_TIMESTAMP_FORMAT "to_timestamp" (Text, Text) -> Timestamptz =
        |c| to_timestamp(c.text(0)?, c.text(1)?, c.ctx.styles.zone), stable;
    1513 MAKE_TIMESTAMPTZ_ZONE "make_timestamptz" (Int4, Int4, Int4, Int4, Int4, Float8, Text)
        -> Timestamptz = |c| {
        let t = dt::make_timestamp(
            c.int4(0)?, c.int4(1)?, c.int4(2)?, c.int4(3)?, c.int4(4)?, c.float8(5)?,
        )?;
        numbered_place(c.text(6)?)?.moment(t).map(Value::Timestamptz)
    }, stable, zones;
    1514 DATE_TRUNC_ZONE "date_trunc" (Text, Timestamptz, Text) -> Timestamptz = |c| {
        let t = dt::date_trunc_timestamptz(c.text(0)?, c.timestamptz(1)?, place(c.text(2)?)?)?;
        Ok(Value::Timestamptz(t))
    }, stable, zones;
    1512 TO_DATE_FORMAT "to_date" (Text, Text) -> Date = |c| to_date(c.text(0)?, c.text(1)?), stable;
}
