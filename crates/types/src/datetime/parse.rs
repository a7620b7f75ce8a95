//! Dates and timestamps read from text: ISO 8601, the order that the session has for year, month and day,
//! month names, eras, zones, and the words for special values.
//!
//! The text is cut into fields by their look (numbers, dates with separators, times, words, zones), and the
//! fields are then read from left to right, each in the light of what is known already: what a number means
//! depends on its length and on which of year, month and day are still missing. The usual ISO forms take a
//! shortcut.
//!
//! What has no zone of its own is what the clocks of the session's zone show.
//!
//! Source: PostgreSQL 15's documentation, appendix B.1 and B.2, and its answers.

use super::{
    DATE_INFINITY, DATE_NEG_INFINITY, EPOCH_JULIAN, TIMESTAMP_INFINITY, TIMESTAMP_NEG_INFINITY,
    UNIX_EPOCH_DAYS, USECS_PER_DAY, USECS_PER_SEC, check_date, check_timestamp, civil_from_days,
    days_from_civil, days_in_month, is_leap_year, split,
    word::{Label, Word, word},
    zone::Place,
};
use crate::func::Context;
use crate::style::DateOrder;
use crate::text::is_space;
use crate::{SqlError, SqlResult, sqlstate};

/// More fields than this are no date.
const MAX_FIELDS: usize = 25;
/// Longer text is no date.
const MAX_LENGTH: usize = 153;
/// Hours of a zone's displacement.
const MAX_ZONE_HOURS: i64 = 15;

/// Why a text is no date.
#[derive(Clone, PartialEq, Debug)]
enum Fault {
    Format,
    Range,
    /// A day or month is out of range, perhaps because the order was taken wrongly.
    DayOrMonth,
    Displacement,
    Zone(String),
    Refused(Box<SqlError>),
}

impl Fault {
    fn error(self, text: &str, ty: &str) -> SqlError {
        match self {
            Fault::Format => SqlError::new(
                sqlstate::INVALID_DATETIME_FORMAT,
                format!("invalid input syntax for type {ty}: \"{text}\""),
            ),
            Fault::Range => range_error("date/time field value", text),
            Fault::DayOrMonth => range_error("date/time field value", text)
                .hint("Perhaps you need a different \"datestyle\" setting."),
            Fault::Displacement => {
                SqlError::new("22009", format!("time zone displacement out of range: \"{text}\""))
            }
            Fault::Zone(name) => SqlError::new(
                sqlstate::INVALID_PARAMETER_VALUE,
                format!("time zone \"{name}\" not recognized"),
            ),
            Fault::Refused(error) => *error,
        }
    }
}

fn range_error(what: &str, text: &str) -> SqlError {
    SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, format!("{what} out of range: \"{text}\""))
}

pub fn parse_date(text: &str, ctx: &Context<'_>) -> SqlResult<i32> {
    if let Some((day, [])) = iso_day(text.as_bytes()) {
        return Ok(day);
    }
    let value = read(text, Wanted::Moment, ctx).map_err(|f| f.error(text, "date"))?;
    let parts = match value {
        Moment::Infinity => return Ok(DATE_INFINITY),
        Moment::NegInfinity => return Ok(DATE_NEG_INFINITY),
        Moment::Epoch => return Ok(-UNIX_EPOCH_DAYS),
        Moment::Parts(parts) => parts,
    };
    parts.days().and_then(check_date).ok_or_else(|| range_error("date", text))
}

pub fn parse_timestamp(text: &str, ctx: &Context<'_>) -> SqlResult<i64> {
    parse_moment(text, "timestamp", false, ctx)
}

pub fn parse_timestamptz(text: &str, ctx: &Context<'_>) -> SqlResult<i64> {
    parse_moment(text, "timestamp with time zone", true, ctx)
}

fn parse_moment(text: &str, ty: &str, zoned: bool, ctx: &Context<'_>) -> SqlResult<i64> {
    let range = || range_error("timestamp", text);
    if let Some(t) = iso_moment(text.as_bytes()) {
        return if zoned { ctx.styles.zone.moment(t).map_err(|_| range()) } else { Ok(t) };
    }
    let parts = match read(text, Wanted::Moment, ctx).map_err(|f| f.error(text, ty))? {
        Moment::Infinity => return Ok(TIMESTAMP_INFINITY),
        Moment::NegInfinity => return Ok(TIMESTAMP_NEG_INFINITY),
        Moment::Epoch => return Ok(-i64::from(UNIX_EPOCH_DAYS) * USECS_PER_DAY),
        Moment::Parts(parts) => parts,
    };
    let t = parts.days().and_then(|d| d.checked_mul(USECS_PER_DAY)?.checked_add(parts.usecs_of_day()));
    let shift = |t: i64| if zoned { parts.east(t, ctx) * USECS_PER_SEC } else { 0 };
    t.and_then(|t| check_timestamp(t.checked_sub(shift(t))?)).ok_or_else(range)
}

/// The microseconds of a day.
pub(crate) fn parse_time(text: &str, ty: &str, ctx: &Context<'_>) -> SqlResult<i64> {
    match iso_time(text.as_bytes()) {
        Some(t) => Ok(t),
        None => read_time(text, ty, ctx).map(|p| p.usecs_of_day()),
    }
}

/// The microseconds of a day, and the seconds that its zone is east: where none is told, as the session's
/// zone is on that day, or on this one if there is no date.
pub(crate) fn parse_timetz(text: &str, ty: &str, ctx: &Context<'_>) -> SqlResult<(i64, i64)> {
    let parts = match iso_time(text.as_bytes()) {
        Some(t) => {
            let mut parts = Parts::default();
            parts.set_time(t);
            parts
        }
        None => read_time(text, ty, ctx)?,
    };
    let day = match parts.known & known::DATE == known::DATE {
        true => parts.days().ok_or_else(|| range_error("timestamp", text))?,
        false => i64::from(split(ctx.styles.zone.local(ctx.now_us)).0),
    };
    let local = day.saturating_mul(USECS_PER_DAY).saturating_add(parts.usecs_of_day());
    Ok((parts.usecs_of_day(), parts.east(local, ctx)))
}

fn read_time(text: &str, ty: &str, ctx: &Context<'_>) -> SqlResult<Parts> {
    match read(text, Wanted::Time, ctx).map_err(|f| f.error(text, ty))? {
        // What a zone's clocks are depends on the day.
        Moment::Parts(p) if p.known & known::DATE != known::DATE && p.has_moving_zone() => {
            Err(Fault::Format.error(text, ty))
        }
        Moment::Parts(p) => Ok(p),
        _ => Err(Fault::Format.error(text, ty)),
    }
}

/// Two digits.
#[inline]
fn two(a: u8, b: u8) -> Option<u32> {
    let (a, b) = (a.wrapping_sub(b'0'), b.wrapping_sub(b'0'));
    (a < 10 && b < 10).then_some(u32::from(a) * 10 + u32::from(b))
}

/// `YYYY-MM-DD` of a day that exists, and what follows; anything else is left to the long way.
#[inline]
fn iso_day(b: &[u8]) -> Option<(i32, &[u8])> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, rest @ ..] = b else { return None };
    let (year, month, day) = (two(*y1, *y2)? * 100 + two(*y3, *y4)?, two(*m1, *m2)?, two(*d1, *d2)?);
    let exists =
        year > 0 && (1..=12).contains(&month) && day >= 1 && day <= days_in_month(year as i32, month);
    exists.then(|| (days_from_civil(year as i32, month, day), rest))
}

/// `YYYY-MM-DD` alone or with `hh:mm:ss` and up to six decimals, without a zone.
#[inline]
fn iso_moment(b: &[u8]) -> Option<i64> {
    let (day, rest) = iso_day(b)?;
    let midnight = i64::from(day) * USECS_PER_DAY;
    match rest {
        [] => Some(midnight),
        [b' ' | b'T', time @ ..] => Some(midnight + iso_time(time)?),
        _ => None,
    }
}

/// `hh:mm:ss` and up to six decimals, without a zone.
#[inline]
fn iso_time(b: &[u8]) -> Option<i64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2, fraction @ ..] = b else { return None };
    let (hour, minute, second) = (two(*h1, *h2)?, two(*m1, *m2)?, two(*s1, *s2)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut usecs = i64::from(hour * 3600 + minute * 60 + second) * USECS_PER_SEC;
    if let [b'.', digits @ ..] = fraction {
        if digits.is_empty() || digits.len() > 6 || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let n = digits.iter().fold(0, |n, d| n * 10 + i64::from(d - b'0'));
        usecs += n * 10i64.pow(6 - digits.len() as u32);
    } else if !fraction.is_empty() {
        return None;
    }
    Some(usecs)
}

/// What the text says.
enum Moment {
    Parts(Parts),
    Epoch,
    Infinity,
    NegInfinity,
}

/// How a field looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// Digits, perhaps with a fraction.
    Number,
    /// Digits and separators, or words and digits with separators.
    Date,
    /// Digits and colons.
    Time,
    Word,
    /// A sign and digits.
    Zone,
    /// A sign and a word.
    Special,
}

/// What is known; a set of these.
mod known {
    pub const YEAR: u16 = 1;
    pub const MONTH: u16 = 2;
    pub const DAY: u16 = 4;
    pub const DATE: u16 = YEAR | MONTH | DAY;
    pub const HOUR: u16 = 8;
    pub const MINUTE: u16 = 2048;
    pub const SECOND: u16 = 4096;
    pub const TIME: u16 = HOUR | MINUTE | SECOND;
    pub const ZONE: u16 = 16;
    pub const DAY_OF_YEAR: u16 = 32;
    pub const ERA: u16 = 64;
    pub const HALF: u16 = 128;
    pub const WEEKDAY: u16 = 256;
    pub const ZONE_MODIFIER: u16 = 512;
    /// A word for a whole moment.
    pub const SPECIAL: u16 = 1024;
}

/// Cuts a text into fields in lower case; `None` if it is no date, time or interval.
pub(crate) fn fields(text: &str) -> Option<Vec<(Look, String)>> {
    let b = text.as_bytes();
    let mut found = Vec::new();
    let mut i = 0;
    while i < b.len() {
        let c = b[i];
        if is_space(c) {
            i += 1;
            continue;
        }
        let start = i;
        let run = |mut i: usize, good: &dyn Fn(u8) -> bool| {
            while i < b.len() && good(b[i]) {
                i += 1;
            }
            i
        };
        let digit = |c: u8| c.is_ascii_digit();
        let next = |i: usize| b.get(i).copied().unwrap_or(0);
        let look = if digit(c) {
            i = run(i, &digit);
            match next(i) {
                b':' => {
                    i = run(i, &|c| digit(c) || c == b':' || c == b'.');
                    Look::Time
                }
                mark @ (b'-' | b'/' | b'.') => {
                    i += 1;
                    if digit(next(i)) {
                        i = run(i, &digit);
                        if next(i) == mark {
                            i = run(i, &|c| digit(c) || c == mark);
                            Look::Date
                        } else if mark == b'.' {
                            Look::Number
                        } else {
                            Look::Date
                        }
                    } else {
                        i = run(i, &|c| c.is_ascii_alphanumeric() || c == mark);
                        Look::Date
                    }
                }
                _ => Look::Number,
            }
        } else if c == b'.' {
            i = run(i + 1, &digit);
            Look::Number
        } else if c.is_ascii_alphabetic() {
            i = run(i, &|c| c.is_ascii_alphabetic());
            let is_date = match next(i) {
                b'-' | b'/' | b'.' => true,
                // A word that is none of ours may be a zone's name with digits in it.
                c if c == b'+' || digit(c) => word(&text[start..i].to_ascii_lowercase()).is_none(),
                _ => false,
            };
            if is_date {
                let more =
                    |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'-' | b'/' | b'_' | b'.' | b':');
                i = run(i, &more);
                Look::Date
            } else {
                Look::Word
            }
        } else if c == b'+' || c == b'-' {
            i = run(i + 1, &is_space);
            let from = i;
            let look = if digit(next(i)) {
                i = run(i, &|c| digit(c) || matches!(c, b':' | b'.' | b'-'));
                Look::Zone
            } else if next(i).is_ascii_alphabetic() {
                i = run(i, &|c| c.is_ascii_alphabetic());
                Look::Special
            } else {
                return None;
            };
            found.push((look, format!("{}{}", c as char, text[from..i].to_ascii_lowercase())));
            if found.len() > MAX_FIELDS {
                return None;
            }
            continue;
        } else if c.is_ascii_punctuation() {
            i += 1;
            continue;
        } else {
            return None;
        };
        found.push((look, text[start..i].to_ascii_lowercase()));
        if found.len() > MAX_FIELDS {
            return None;
        }
    }
    Some(found)
}

/// The parts as they become known.
#[derive(Default)]
struct Parts {
    order: DateOrder,
    known: u16,
    year: i64,
    month: i64,
    day: i64,
    day_of_year: i64,
    hour: i64,
    minute: i64,
    second: i64,
    fraction: i64,
    /// None if it is the session's.
    zone: Option<Place>,
    /// Seconds that the clocks are set forward beside that.
    summer: i64,
    /// The year was written in one or two digits.
    short_year: bool,
    /// The month was written as a word.
    text_month: bool,
    julian: bool,
    bc: bool,
    afternoon: Option<bool>,
}

/// What the field before says about the next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Nothing,
    Time,
    Julian,
    Label(Label),
}

/// A number in full; too many digits are out of range.
fn number(text: &str) -> Result<i64, Fault> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Fault::Format);
    }
    text.parse::<i32>().map(i64::from).map_err(|_| Fault::Range)
}

/// The decimals of a second, without the point, as microseconds.
fn fraction(digits: &str) -> Result<i64, Fault> {
    if digits.is_empty() {
        return Ok(0);
    }
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Fault::Format);
    }
    let f: f64 = format!("0.{digits}").parse().map_err(|_| Fault::Format)?;
    Ok((f * 1e6).round_ties_even() as i64)
}

/// What a text is read for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Moment,
    /// A time of day: a date may stand before it, a zone behind it.
    Time,
}

fn read(text: &str, wanted: Wanted, ctx: &Context<'_>) -> Result<Moment, Fault> {
    let short = Some(text).filter(|t| t.len() <= MAX_LENGTH);
    let fields = short.and_then(fields).ok_or(Fault::Format)?;
    let mut p = Parts { order: ctx.styles.order, ..Parts::default() };
    let mut special = None;
    let mut expect = Expect::Nothing;
    for (i, (look, field)) in fields.iter().enumerate() {
        let before = p.known;
        let expected = std::mem::replace(&mut expect, Expect::Nothing);
        let new = match look {
            Look::Date if wanted == Wanted::Time => {
                let (first, last) = (fields.get(1).map(|f| f.0), fields.last().map(|f| f.0));
                if i == 0 && fields.len() > 1 && (first == Some(Look::Time) || last == Some(Look::Date)) {
                    p.date(field)?
                } else {
                    p.time_with_zone_or_zone(field, p.known | known::DATE)?
                }
            }
            Look::Date => {
                let in_year = known::MONTH | known::DAY;
                if expected == Expect::Julian {
                    p.julian_day_with_zone(field)?
                } else if matches!(expected, Expect::Label(_)) {
                    return Err(Fault::Format);
                } else if expected == Expect::Time || p.known & in_year == in_year {
                    p.time_with_zone_or_zone(field, p.known)?
                } else {
                    p.date(field)?
                }
            }
            Look::Time => {
                if matches!(expected, Expect::Julian | Expect::Label(_)) {
                    return Err(Fault::Format);
                }
                p.time(field)?
            }
            Look::Zone => {
                p.zone = Some(Place::Offset(displacement(field)? as i32));
                known::ZONE
            }
            Look::Number => match expected {
                Expect::Julian => p.julian_day(field)?,
                Expect::Label(label) => p.labelled(label, field)?,
                Expect::Time => {
                    let new = p.run_together(field, p.known | known::DATE)?;
                    if new != known::TIME {
                        return Err(Fault::Format);
                    }
                    new
                }
                Expect::Nothing if wanted == Wanted::Time => {
                    let whole = field.split('.').next().unwrap_or_default().len();
                    match whole < field.len() && whole <= 2 {
                        true => return Err(Fault::Format),
                        false => p.run_together(field, p.known | known::DATE)?,
                    }
                }
                Expect::Nothing => p.number_field(field)?,
            },
            Look::Word | Look::Special => {
                // A label that no number follows means nothing.
                if matches!(expected, Expect::Time | Expect::Julian) {
                    return Err(Fault::Format);
                }
                match word(field) {
                    None if *look == Look::Word => {
                        p.zone = Some(place(field)?.ok_or(Fault::Format)?);
                        known::ZONE
                    }
                    None => return Err(Fault::Format),
                    Some(Word::Ignore) => continue,
                    Some(Word::TimeMark) => {
                        let follows = fields.get(i + 1).map(|f| f.0);
                        let fits = matches!(follows, Some(Look::Number | Look::Time | Look::Date));
                        let is_late = wanted == Wanted::Time || p.known & known::DATE == known::DATE;
                        if !is_late || !fits {
                            return Err(Fault::Format);
                        }
                        expect = Expect::Time;
                        continue;
                    }
                    Some(Word::Julian) => {
                        expect = Expect::Julian;
                        continue;
                    }
                    Some(Word::Label(label)) => {
                        expect = Expect::Label(label);
                        continue;
                    }
                    Some(
                        Word::Month(_)
                        | Word::Weekday
                        | Word::Day(_)
                        | Word::Epoch
                        | Word::Infinity
                        | Word::NegInfinity,
                    ) if wanted == Wanted::Time => return Err(Fault::Format),
                    Some(w) => p.word(w, &mut special, ctx)?,
                }
            }
        };
        if new & before != 0 {
            return Err(Fault::Format);
        }
        p.known = before | new;
    }
    p.check_day()?;
    match special {
        Some(Word::Epoch) => return Ok(Moment::Epoch),
        Some(Word::Infinity) => return Ok(Moment::Infinity),
        Some(Word::NegInfinity) => return Ok(Moment::NegInfinity),
        _ => {}
    }
    p.finish(wanted)?;
    Ok(Moment::Parts(p))
}

fn place(name: &str) -> Result<Option<Place>, Fault> {
    Place::of(name).map_err(|e| Fault::Refused(Box::new(e)))
}

/// The digits at the start of a text as a number, 0 if there are none, and what follows.
fn leading_number(text: &str) -> Result<(i64, &str), Fault> {
    let n = text.bytes().take_while(u8::is_ascii_digit).count();
    let v = if n == 0 { 0 } else { number(&text[..n])? };
    Ok((v, &text[n..]))
}

/// A zone's displacement in seconds east: `+hh`, `+hhmm`, `+hh:mm` or `+hh:mm:ss`.
fn displacement(field: &str) -> Result<i64, Fault> {
    let (west, digits) = match field.split_at_checked(1) {
        Some(("-", rest)) => (true, rest),
        Some(("+", rest)) => (false, rest),
        _ => return Err(Fault::Format),
    };
    fn read(text: &str) -> Result<(i64, &str), Fault> {
        leading_number(text).map_err(|f| if f == Fault::Range { Fault::Displacement } else { f })
    }
    // Minutes and seconds may have a sign before them, which only zero can bear.
    fn read_part(text: &str) -> Result<(i64, &str), Fault> {
        match text.strip_prefix('-') {
            Some(text) if text.starts_with(|c: char| c.is_ascii_digit()) => {
                read(text).map(|(n, rest)| (-n, rest))
            }
            _ => read(text),
        }
    }
    let (mut hours, mut rest) = read(digits)?;
    let (mut minutes, mut seconds) = (0, 0);
    if let Some(after) = rest.strip_prefix(':') {
        (minutes, rest) = read_part(after)?;
        if let Some(after) = rest.strip_prefix(':') {
            (seconds, rest) = read_part(after)?;
        }
    } else if rest.is_empty() && digits.len() > 2 {
        (hours, minutes) = (hours / 100, hours % 100);
    }
    if hours > MAX_ZONE_HOURS || !(0..60).contains(&minutes) || !(0..60).contains(&seconds) {
        return Err(Fault::Displacement);
    }
    if !rest.is_empty() {
        return Err(Fault::Format);
    }
    let east = (hours * 60 + minutes) * 60 + seconds;
    Ok(if west { -east } else { east })
}

impl Parts {
    /// A word that is neither filler nor mark; gives what it makes known.
    fn word(&mut self, w: Word, special: &mut Option<Word>, ctx: &Context<'_>) -> Result<u16, Fault> {
        Ok(match w {
            Word::Month(m) => {
                // A number taken for the month before a month's name was the day.
                let mut new = known::MONTH;
                let retake = self.known & known::MONTH != 0
                    && !self.text_month
                    && self.known & known::DAY == 0
                    && (1..=31).contains(&self.month);
                if retake {
                    self.day = self.month;
                    new = known::DAY;
                }
                self.text_month = true;
                self.month = m;
                new
            }
            Word::Weekday => known::WEEKDAY,
            Word::Am | Word::Pm => {
                self.afternoon = Some(w == Word::Pm);
                known::HALF
            }
            Word::Ad | Word::Bc => {
                self.bc = w == Word::Bc;
                known::ERA
            }
            Word::SummerTime => {
                self.summer = 3600;
                known::ZONE_MODIFIER
            }
            Word::Now | Word::Day(_) => {
                let shift = if let Word::Day(n) = w { n } else { 0 };
                let (days, usecs) = split(ctx.styles.zone.local(ctx.now_us));
                let (year, month, day) = civil_from_days((i64::from(days) + shift) as i32);
                (self.year, self.month, self.day) = (i64::from(year), i64::from(month), i64::from(day));
                // The year may be before our era already; it needs no further look.
                self.julian = true;
                if w == Word::Now {
                    self.set_time(usecs);
                    self.zone = Some(Place::Offset(ctx.styles.zone.at(ctx.now_us).east));
                    known::DATE | known::TIME | known::ZONE
                } else {
                    known::DATE
                }
            }
            Word::Midnight => {
                self.set_time(0);
                self.zone = Some(Place::Offset(0));
                known::TIME | known::ZONE
            }
            Word::Epoch | Word::Infinity | Word::NegInfinity => {
                *special = Some(w);
                known::SPECIAL
            }
            Word::Label(_) | Word::Ignore | Word::TimeMark | Word::Julian => return Err(Fault::Format),
        })
    }

    fn set_time(&mut self, usecs: i64) {
        self.fraction = usecs % USECS_PER_SEC;
        let seconds = usecs / USECS_PER_SEC;
        (self.hour, self.minute, self.second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    }

    /// Numbers and words with separators.
    fn date(&mut self, field: &str) -> Result<u16, Fault> {
        let before = self.known;
        let mut pieces: Vec<&str> = Vec::new();
        let mut rest = field;
        while !rest.is_empty() {
            rest = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
            let Some(first) = rest.chars().next() else { return Err(Fault::Format) };
            let same = |c: char| {
                if first.is_ascii_digit() { c.is_ascii_digit() } else { c.is_ascii_alphabetic() }
            };
            let end = rest.find(|c| !same(c)).unwrap_or(rest.len());
            pieces.push(&rest[..end]);
            // The character after a piece is a separator, whatever it is.
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        // A month's name can only be the month, so it is read first.
        for piece in &pieces {
            if piece.starts_with(|c: char| c.is_ascii_alphabetic()) {
                match word(piece) {
                    Some(Word::Month(m)) if self.known & known::MONTH == 0 => {
                        self.month = m;
                        self.text_month = true;
                        self.known |= known::MONTH;
                    }
                    _ => return Err(Fault::Format),
                }
            }
        }
        for piece in &pieces {
            if piece.starts_with(|c: char| c.is_ascii_digit()) {
                let new = self.one_number(piece)?;
                if new & self.known != 0 {
                    return Err(Fault::Format);
                }
                self.known |= new;
            }
        }
        let all = std::mem::replace(&mut self.known, before);
        if all & !(known::DAY_OF_YEAR | known::ZONE) != known::DATE {
            return Err(Fault::Format);
        }
        Ok(all & !before)
    }

    /// A date-like field after the date: a zone's name, or a time run together with a zone.
    /// `have`: what is known, for the time.
    fn time_with_zone_or_zone(&mut self, field: &str, have: u16) -> Result<u16, Fault> {
        if !field.starts_with(|c: char| c.is_ascii_digit()) {
            self.zone = Some(place(field)?.ok_or_else(|| Fault::Zone(field.to_string()))?);
            return Ok(known::ZONE);
        }
        if self.known & known::TIME == known::TIME {
            return Err(Fault::Format);
        }
        let at = field.find('-').ok_or(Fault::Format)?;
        self.zone = Some(Place::Offset(displacement(&field[at..])? as i32));
        Ok(self.run_together(&field[..at], have)? | known::ZONE)
    }

    fn time(&mut self, field: &str) -> Result<u16, Fault> {
        let (whole, decimals) = match field.split_once('.') {
            Some((w, d)) => (w, Some(d)),
            None => (field, None),
        };
        // Behind a colon a number may be missing, which is zero.
        let mut numbers = whole.split(':').map(|n| if n.is_empty() { Ok(0) } else { number(n) });
        let mut next = || numbers.next().transpose();
        let (a, b, c) = (next()?, next()?, next()?);
        if next()?.is_some() {
            return Err(Fault::Format);
        }
        let (a, b) = (a.ok_or(Fault::Format)?, b.ok_or(Fault::Format)?);
        (self.hour, self.minute, self.second) = match (c, decimals) {
            (Some(c), _) => (a, b, c),
            // With decimals the last number is seconds.
            (None, Some(_)) => (0, a, b),
            (None, None) => (a, b, 0),
        };
        self.fraction = decimals.map_or(Ok(0), fraction)?;
        self.check_time()?;
        Ok(known::TIME)
    }

    /// A time that a clock shows, or the end of its day.
    fn check_time(&self) -> Result<(), Fault> {
        match self.minute > 59 || self.second > 60 || self.usecs_of_day() > USECS_PER_DAY || self.hour > 24 {
            true => Err(Fault::Range),
            false => Ok(()),
        }
    }

    /// A number on its own.
    fn number_field(&mut self, field: &str) -> Result<u16, Fault> {
        let whole = field.split('.').next().unwrap_or_default().len();
        let point = whole < field.len();
        let (date, time) = (self.known & known::DATE, self.known & known::TIME);
        if point && date == 0 {
            self.date(field)
        } else if point && whole > 2 || !point && field.len() >= 6 && (date == 0 || time == 0) {
            self.run_together(field, self.known)
        } else {
            self.one_number(field)
        }
    }

    /// One part of a date, by its length and by what is missing.
    fn one_number(&mut self, field: &str) -> Result<u16, Fault> {
        use known::{DATE, DAY, DAY_OF_YEAR, MONTH, YEAR};
        let (whole, decimals) = match field.split_once('.') {
            Some((w, d)) => (w, Some(d)),
            None => (field, None),
        };
        let v = number(whole)?;
        if let Some(d) = decimals {
            if whole.len() > 2 {
                return self.run_together(field, self.known | DATE);
            }
            self.fraction = fraction(d)?;
        }
        let length = field.len();
        let have = self.known & DATE;
        if length == 3 && have == YEAR && (1..=366).contains(&v) {
            self.day_of_year = v;
            return Ok(DAY_OF_YEAR | MONTH | DAY);
        }
        let new = match have {
            0 if length >= 3 || self.order == DateOrder::Ymd => YEAR,
            0 if self.order == DateOrder::Dmy => DAY,
            0 => MONTH,
            YEAR | DAY => MONTH,
            MONTH if self.text_month && (length >= 3 || self.order == DateOrder::Ymd) => YEAR,
            MONTH => DAY,
            h if h == YEAR | MONTH => {
                if self.text_month && length >= 3 && self.short_year {
                    // The number taken for a short year was the day.
                    self.day = self.year;
                    self.year = v;
                    self.short_year = false;
                    return Ok(DAY);
                }
                DAY
            }
            h if h == MONTH | DAY => YEAR,
            DATE => return self.run_together(field, self.known),
            _ => return Err(Fault::Format),
        };
        match new {
            YEAR => {
                self.year = v;
                self.short_year = length <= 2;
            }
            MONTH => self.month = v,
            _ => self.day = v,
        }
        Ok(new)
    }

    /// Digits that are a whole date (yymmdd, yyyymmdd, with more digits for the year) or a time (hhmm,
    /// hhmmss, with decimals).
    fn run_together(&mut self, field: &str, have: u16) -> Result<u16, Fault> {
        let (whole, decimals) = match field.split_once('.') {
            Some((w, d)) => (w, Some(d)),
            None => (field, None),
        };
        if !whole.bytes().all(|b| b.is_ascii_digit()) {
            return Err(Fault::Format);
        }
        let n = whole.len();
        if let Some(d) = decimals {
            self.fraction = fraction(d)?;
        } else if have & known::DATE != known::DATE && n >= 6 {
            self.year = whole[..n - 4].parse().map_err(|_| Fault::Range)?;
            self.month = number(&whole[n - 4..n - 2])?;
            self.day = number(&whole[n - 2..])?;
            self.short_year = n == 6;
            return Ok(known::DATE);
        }
        if have & known::TIME != known::TIME && (n == 4 || n == 6) {
            self.hour = number(&whole[..2])?;
            self.minute = number(&whole[2..4])?;
            self.second = if n == 6 { number(&whole[4..])? } else { 0 };
            return Ok(known::TIME);
        }
        Err(Fault::Format)
    }

    /// A number whose place was told by the label before it.
    fn labelled(&mut self, label: Label, field: &str) -> Result<u16, Fault> {
        let (whole, decimals) = match field.split_once('.') {
            Some((w, d)) => (w, Some(d)),
            None => (field, None),
        };
        if decimals.is_some() && label != Label::Second {
            return Err(Fault::Format);
        }
        let v = if whole.is_empty() { 0 } else { number(whole)? };
        let has = |what: u16| self.known & what != 0;
        let minute = label == Label::Month && has(known::MONTH) && has(known::HOUR);
        let (place, new) = match label {
            Label::Year => (&mut self.year, known::YEAR),
            // Behind a month and an hour it means minutes.
            Label::Month if !minute => (&mut self.month, known::MONTH),
            Label::Month | Label::Minute => (&mut self.minute, known::MINUTE),
            Label::Day => (&mut self.day, known::DAY),
            Label::Hour => (&mut self.hour, known::HOUR),
            Label::Second => (&mut self.second, known::SECOND),
            Label::Other => return Err(Fault::Format),
        };
        *place = v;
        if let (Label::Second, Some(d)) = (label, decimals) {
            self.fraction = fraction(d)?;
        }
        Ok(new)
    }

    /// A Julian day number and a zone in one field.
    fn julian_day_with_zone(&mut self, field: &str) -> Result<u16, Fault> {
        let (days, zone) = leading_number(field)?;
        let days = field.get(..field.len() - zone.len()).filter(|_| days >= 0).ok_or(Fault::Format)?;
        let new = self.julian_day(days)?;
        self.zone = Some(Place::Offset(displacement(zone)? as i32));
        Ok(new | known::TIME | known::ZONE)
    }

    /// The day of a Julian day number; a fraction of it is the time.
    fn julian_day(&mut self, field: &str) -> Result<u16, Fault> {
        let (whole, decimals) = field.split_once('.').unwrap_or((field, ""));
        if whole.is_empty() && decimals.is_empty() {
            return Err(Fault::Format);
        }
        let (days, _) = leading_number(whole)?;
        let date = i32::try_from(days - i64::from(EPOCH_JULIAN)).map_err(|_| Fault::Range)?;
        let (year, month, day) = civil_from_days(date);
        (self.year, self.month, self.day) = (i64::from(year), i64::from(month), i64::from(day));
        self.julian = true;
        if !field.contains('.') {
            return Ok(known::DATE);
        }
        let f: f64 = format!("0.{decimals}").parse().map_err(|_| Fault::Format)?;
        self.set_time((f * USECS_PER_DAY as f64) as i64);
        Ok(known::DATE | known::TIME)
    }

    /// Completes the year and checks month and day.
    fn check_day(&mut self) -> Result<(), Fault> {
        let has = |what: u16| self.known & what == what;
        if has(known::YEAR) && !self.julian {
            if self.bc {
                if self.year <= 0 {
                    return Err(Fault::Range);
                }
                self.year = 1 - self.year;
            } else if self.short_year {
                self.year += if self.year < 70 { 2000 } else { 1900 };
            } else if self.year <= 0 {
                return Err(Fault::Range);
            }
        }
        if has(known::DAY_OF_YEAR) {
            let year = i32::try_from(self.year).map_err(|_| Fault::Range)?;
            if self.day_of_year > 365 + i64::from(is_leap_year(year)) {
                // The day after the last of the year is the next year's first.
                (self.year, self.month, self.day) = (self.year + 1, 1, 1);
            } else {
                let (_, month, day) = civil_from_days(days_from_civil(year, 1, self.day_of_year as u32));
                (self.month, self.day) = (i64::from(month), i64::from(day));
            }
        }
        if has(known::MONTH) && !(1..=12).contains(&self.month) {
            return Err(Fault::DayOrMonth);
        }
        if has(known::DAY) && !(1..=31).contains(&self.day) {
            return Err(Fault::DayOrMonth);
        }
        if has(known::DATE) {
            // Leap years come round every four hundred.
            let year = self.year.rem_euclid(400) as i32;
            if self.day > i64::from(days_in_month(year, self.month as u32)) {
                return Err(Fault::Range);
            }
        }
        Ok(())
    }

    /// Turns the clock to twenty-four hours and checks that nothing is missing.
    fn finish(&mut self, wanted: Wanted) -> Result<(), Fault> {
        let has = |what: u16| self.known & what == what;
        if let Some(afternoon) = self.afternoon {
            if self.hour > 12 {
                return Err(Fault::Range);
            }
            self.hour = self.hour % 12 + if afternoon { 12 } else { 0 };
        }
        // Summer time is an hour more than a zone, so there must be one.
        let needed = if wanted == Wanted::Time { known::TIME } else { known::DATE };
        if !has(needed) || has(known::ZONE_MODIFIER) && !has(known::ZONE) {
            return Err(Fault::Format);
        }
        if wanted == Wanted::Time {
            self.check_time()?
        }
        // Times that were run together are not held against the clock: as in PostgreSQL, 2500 is one o'clock
        // of the next day.
        Ok(())
    }

    /// Days from 2000-01-01; `None` for years that no calendar here reaches.
    fn days(&self) -> Option<i64> {
        let year = i32::try_from(self.year).ok().filter(|y| (-4800..5_900_000).contains(y))?;
        Some(i64::from(days_from_civil(year, self.month as u32, self.day as u32)))
    }

    /// Seconds that the zone is east when its clocks show a time.
    fn east(&self, local: i64, ctx: &Context<'_>) -> i64 {
        let place = self.zone.unwrap_or(Place::Zone(ctx.styles.zone));
        i64::from(place.of_local(local)) + self.summer
    }

    fn has_moving_zone(&self) -> bool {
        matches!(self.zone, Some(Place::Zone(_) | Place::Moving(..)))
    }

    fn usecs_of_day(&self) -> i64 {
        ((self.hour * 60 + self.minute) * 60 + self.second) * USECS_PER_SEC + self.fraction
    }
}
