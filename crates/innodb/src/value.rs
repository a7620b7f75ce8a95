//! What a stored field means: numbers, dates, and the text that the server would show.
//!
//! Each function takes a field's stored bytes and answers `None` where they cannot be a value of the type:
//! too short, or a digit that is none.
use crate::table::{DIGIT_BYTES, Type};
use std::sync::LazyLock;

/// A big-endian integer of 1 to 8 bytes, its sign bit flipped.
#[inline]
pub fn signed(bytes: &[u8]) -> Option<i64> {
    let n = bytes.len();
    if n == 0 || n > 8 {
        return None;
    }
    let raw = unsigned(bytes)?;
    let shift = 64 - 8 * n as u32;
    // Flip the sign bit back, then let it fill what is above.
    Some(((raw << shift) ^ (1 << 63)) as i64 >> shift)
}

/// A big-endian integer of 1 to 8 bytes.
#[inline]
pub fn unsigned(bytes: &[u8]) -> Option<u64> {
    match bytes.len() {
        4 => Some(u32::from_be_bytes(bytes.try_into().ok()?) as u64),
        8 => Some(u64::from_be_bytes(bytes.try_into().ok()?)),
        0 | 9.. => None,
        _ => Some(bytes.iter().fold(0, |n, &b| n << 8 | b as u64)),
    }
}

const POWERS: [u32; 10] =
    [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// Takes a DECIMAL apart: `each` is given how many digits come next, 1 to 9, and their number. Whether it is
/// negative.
///
/// Digits lie in words of 4 bytes for 9 of them, counted from the point; what is left over at both ends takes
/// as few bytes as it needs. The first bit is flipped; of a negative number, all are.
#[inline]
fn words(bytes: &[u8], precision: u8, scale: u8, mut each: impl FnMut(usize, u32)) -> Option<bool> {
    let (whole, fraction) = ((precision - scale) as usize, scale as usize);
    if bytes.len() != crate::table::decimal_bytes(precision, scale) || bytes.is_empty() {
        return None;
    }
    let negative = bytes[0] & 0x80 == 0;
    let mask = if negative { 0xff } else { 0 };
    let mut flip = 0x80;
    let mut rest = bytes;
    let mut take = |digits: usize| -> Option<()> {
        let (here, behind) = rest.split_at(DIGIT_BYTES[digits] as usize);
        let mut word = 0u32;
        for &b in here {
            word = word << 8 | (b ^ flip ^ mask) as u32;
            flip = 0;
        }
        rest = behind;
        (word < POWERS[digits]).then(|| each(digits, word))
    };
    if !whole.is_multiple_of(9) {
        take(whole % 9)?;
    }
    for _ in 0..whole / 9 + fraction / 9 {
        take(9)?;
    }
    if !fraction.is_multiple_of(9) {
        take(fraction % 9)?;
    }
    Some(negative)
}

/// How a DECIMAL lies that takes up to 8 bytes, and so has up to 18 digits: at most three groups of digits.
#[derive(Clone, Copy)]
pub struct Digits {
    pub bytes: usize,
    /// Bits of a word above it, the place of its first bit, and the other bits.
    above: u32,
    first: u32,
    others: u64,
    groups: [Group; 3],
}
#[derive(Clone, Copy)]
struct Group {
    shift: u32,
    mask: u64,
    /// Its digits are below it.
    limit: u64,
    /// What it counts for before the point, and behind it.
    whole: u64,
    fraction: u64,
}
/// A DECIMAL, taken apart at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    pub negative: bool,
    pub whole: u64,
    /// As many digits as the scale says.
    pub fraction: u64,
}
impl Digits {
    const NONE: Group = Group { shift: 0, mask: 0, limit: 1, whole: 0, fraction: 0 };

    /// `None` if it takes more than 8 bytes.
    #[inline]
    pub fn known(precision: u8, scale: u8) -> Option<&'static Digits> {
        /// By precision and scale.
        static KNOWN: LazyLock<Vec<Option<Digits>>> = LazyLock::new(|| {
            let each = (0..=18).flat_map(|precision| (0..=18).map(move |scale| (precision, scale)));
            each.map(|(precision, scale)| Digits::new(precision, scale)).collect()
        });
        if precision > 18 || scale > 18 {
            return None;
        }
        KNOWN[precision as usize * 19 + scale as usize].as_ref()
    }
    fn new(precision: u8, scale: u8) -> Option<Digits> {
        if scale > precision {
            return None;
        }
        let bytes = crate::table::decimal_bytes(precision, scale);
        if bytes == 0 || bytes > 8 {
            return None;
        }
        let (before, behind) = ((precision - scale) as usize, scale as usize);
        // Each group's digits, and how many digits are behind it on its side of the point.
        let first = (before % 9 > 0).then_some((true, before % 9, before - before % 9));
        let words = (1..=before / 9).map(|n| (true, 9, before - before % 9 - 9 * n));
        let behind_words = (1..=behind / 9).map(|n| (false, 9, behind - 9 * n));
        let last = (behind % 9 > 0).then_some((false, behind % 9, 0));
        let mut groups = [Self::NONE; 3];
        let mut left = bytes;
        for (n, (is_whole, digits, after)) in
            first.into_iter().chain(words).chain(behind_words).chain(last).enumerate()
        {
            let width = DIGIT_BYTES[digits] as usize;
            left -= width;
            let power = 10u64.pow(after as u32);
            *groups.get_mut(n)? = Group {
                shift: 8 * left as u32,
                mask: u64::MAX >> (64 - 8 * width),
                limit: POWERS[digits] as u64,
                whole: if is_whole { power } else { 0 },
                fraction: if is_whole { 0 } else { power },
            };
        }
        let first = 8 * bytes as u32 - 1;
        Some(Digits { bytes, above: 63 - first, first, others: (1 << first) - 1, groups })
    }
    /// Calls `each` for the groups of a field of so many bytes, which are the first of these 8. Whether it is
    /// negative.
    #[inline(always)]
    fn each(&self, field: [u8; 8], mut each: impl FnMut(u64, &Group)) -> Option<bool> {
        let bits = u64::from_be_bytes(field) >> self.above;
        let negative = bits >> self.first == 0;
        // The first bit is flipped; of a negative number, all are.
        let bits = (bits ^ if negative { self.others } else { 0 }) & self.others;
        let mut wrong = false;
        for group in &self.groups {
            let digits = bits >> group.shift & group.mask;
            wrong |= digits >= group.limit;
            each(digits, group);
        }
        (!wrong).then_some(negative)
    }
    #[inline(always)]
    pub fn parts(&self, field: [u8; 8]) -> Option<Parts> {
        let (mut whole, mut fraction) = (0, 0);
        let negative = self.each(field, |digits, group| {
            whole += digits * group.whole;
            fraction += digits * group.fraction;
        })?;
        Some(Parts { negative, whole, fraction })
    }
    /// The value, times 10 to its scale.
    #[inline(always)]
    pub fn scaled(&self, field: [u8; 8]) -> Option<i64> {
        let mut n = 0u64;
        let negative =
            self.each(field, |digits, group| n = n.wrapping_mul(group.limit).wrapping_add(digits))?;
        Some(if negative { -(n as i64) } else { n as i64 })
    }
    /// Turns fields, big-endian words, into the bits of such values. False if one is no value; then they mean
    /// nothing.
    ///
    /// There is no branch, and no product of more than 32 bits by 32, so that the compiler makes several at
    /// once.
    pub fn scale_all(&self, fields: &mut [u64]) -> bool {
        ondol_base::widest!(
            fn scale(digits: &Digits, fields: &mut [u64]) -> bool {
                digits.scale_each(fields)
            }
        );
        scale(self, fields)
    }
    #[inline(always)]
    fn scale_each(&self, fields: &mut [u64]) -> bool {
        let [first, second, third] = self.groups;
        // Below zero if a group has more than its digits can be.
        let mut least = 0;
        for field in fields {
            let bits = *field >> self.above;
            let negative = (bits >> self.first).wrapping_sub(1);
            let bits = (bits ^ negative) & self.others;
            let digits = |group: Group| (bits >> group.shift & group.mask) as u32 as u64;
            let left = |group: Group| (group.limit - 1).wrapping_sub(digits(group));
            least |= left(first) | left(second) | left(third);
            let times = |n: u64, group: Group| {
                let limit = group.limit as u32 as u64;
                (n as u32 as u64 * limit).wrapping_add((n >> 32).wrapping_mul(limit) << 32)
            };
            let n = times(digits(first), second).wrapping_add(digits(second));
            let n = times(n, third).wrapping_add(digits(third));
            *field = (n ^ negative).wrapping_sub(negative);
        }
        least >> 63 == 0
    }
}

/// A DECIMAL of up to 38 digits, times 10 to its scale.
pub fn decimal(bytes: &[u8], precision: u8, scale: u8) -> Option<i128> {
    if precision > 38 {
        return None;
    }
    let mut value = 0i128;
    let negative =
        words(bytes, precision, scale, |digits, word| value = value * POWERS[digits] as i128 + word as i128)?;
    Some(if negative { -value } else { value })
}

/// A DECIMAL of any length as text.
pub fn push_decimal(into: &mut Vec<u8>, bytes: &[u8], precision: u8, scale: u8) -> Option<()> {
    let mut digits = Vec::with_capacity(precision as usize);
    let negative = words(bytes, precision, scale, |n, word| {
        digits.extend((0..n as u32).rev().map(|i| b'0' + (word / 10u32.pow(i) % 10) as u8));
    })?;
    let (whole, fraction) = digits.split_at((precision - scale) as usize);
    let zeros = whole.iter().take_while(|d| **d == b'0').count().min(whole.len().saturating_sub(1));
    if negative {
        into.push(b'-');
    }
    into.extend_from_slice(if whole.is_empty() { b"0" } else { &whole[zeros..] });
    if !fraction.is_empty() {
        into.push(b'.');
        into.extend_from_slice(fraction);
    }
    Some(())
}

/// What becomes of dates that are no days of the calendar: zero dates, zero months and days, the 31st of
/// February.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZeroDates {
    #[default]
    Refuse,
    Null,
    /// Columns of dates become texts, all of their values.
    Text,
}

/// What becomes of zero bytes in texts, which PostgreSQL's texts cannot have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZeroBytes {
    /// An error.
    #[default]
    Refuse,
    Remove,
    /// U+FFFD, the replacement character, stands for each.
    Replace,
}

/// A date as it is stored, which need not be one: months and days may be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    pub year: u16,
    pub month: u8,
    pub day: u8,
}
/// A DATE: year * 512 + month * 32 + day.
#[inline]
pub fn date(bytes: &[u8]) -> Option<Date> {
    let n = signed(bytes)?;
    if bytes.len() != 3 || n < 0 {
        return None;
    }
    let (year, month, day) = (n >> 9, n >> 5 & 15, n & 31);
    (year <= 9999 && month <= 12).then_some(Date { year: year as u16, month: month as u8, day: day as u8 })
}
impl Date {
    /// Days since 1970-01-01, if it is a day of the calendar.
    #[inline]
    pub fn days(self) -> Option<i32> {
        let (year, month) = (self.year as u32, self.month as u32);
        let is_leap = || year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let day = *DAYS.get((month << 5) as usize | self.day as usize)? as u32;
        if day == 0 || self.day > 31 || year == 0 || day == LEAP_DAY as u32 && !is_leap() {
            return None;
        }
        // Years begin in March, so that a leap day is their last (Hinnant, "chrono-compatible low-level date
        // algorithms"). Years have four digits, so all fits 32 bits.
        let year = year - (month <= 2) as u32;
        Some((365 * year + year / 4 - year / 100 + year / 400 + day) as i32 - 719_469)
    }
}

/// Integers of one width, each the first bytes of a big-endian word.
#[derive(Clone, Copy)]
pub struct Integers {
    shift: u32,
    /// The least that they can be, since the sign's bit is stored flipped.
    least: u64,
}
impl Integers {
    /// Of 1 to 8 bytes.
    pub fn new(bytes: usize, unsigned: bool) -> Integers {
        let bits = 8 * bytes as u32;
        Integers { shift: 64 - bits, least: if unsigned { 0 } else { 1 << (bits - 1) } }
    }
    /// The number: a u64's bits, or an i64's.
    #[inline(always)]
    pub fn of(self, field: u64) -> u64 {
        (field >> self.shift).wrapping_sub(self.least)
    }
    /// Turns fields into numbers.
    pub fn of_all(self, fields: &mut [u64]) {
        ondol_base::widest!(
            fn turn(integers: Integers, fields: &mut [u64]) {
                for field in fields {
                    *field = integers.of(*field);
                }
            }
        );
        turn(self, fields)
    }
}

ondol_base::widest! {
    /// Turns DATEs, each the first three bytes of a big-endian word, into numbers whose digits are year,
    /// month and day. What is none has more than eight digits.
    pub fn dates_all(fields: &mut [u64]) {
        for field in fields {
            let n = (*field >> 40) as u32 ^ 0x80_0000;
            let (year, month, day) = (n >> 9, n >> 5 & 15, n & 31);
            let wrong = 9999u32.wrapping_sub(year) | 12u32.wrapping_sub(month);
            let number = (year & 0x3fff) * 10_000 + month * 100 + day;
            *field = (number | wrong & 1 << 31) as u64;
        }
    }
}

ondol_base::widest! {
    /// Turns DATEs, big-endian words of which the first three bytes are one, into days since 1970-01-01, an
    /// i32's bits. False if one is no day of the calendar; then they mean nothing.
    ///
    /// There is neither a branch nor a table, so that the compiler makes several at once.
    pub fn days_all(fields: &mut [u32]) -> bool {
        // Below zero if a part of a date is less than it can be, or more.
        let mut least = 0u32;
        for field in fields {
            // What is negative has too large a year.
            let n = *field >> 8 ^ 0x80_0000;
            let (year, month, day) = (n >> 9, n >> 5 & 15, n & 31);
            let quarter = (year * 5243) >> 17;
            let is_leap = year & 3 == 0 && (year != quarter * 25 || year & 15 == 0);
            let length = if month == 2 { 28 + is_leap as u32 } else { 30 + ((month ^ month >> 3) & 1) };
            let within = |n: u32, low: u32, high: u32| n.wrapping_sub(low) | high.wrapping_sub(n);
            least |= within(year, 1, 9999) | within(month, 1, 12) | within(day, 1, length);
            // Years and months of years that begin in March (Neri and Schneider, "Euclidean affine functions
            // and their application to calendar algorithms").
            let ends_year = (month <= 2) as u32;
            let (year, month) = (year.wrapping_sub(ends_year), month + 12 * ends_year);
            let century = year.wrapping_mul(5243) >> 19;
            let years = (year.wrapping_mul(1461) >> 2).wrapping_sub(century).wrapping_add(century >> 2);
            let months = (979 * month).wrapping_sub(2919) >> 5;
            *field = years.wrapping_add(months).wrapping_add(day).wrapping_sub(719_469);
        }
        least >> 31 == 0
    }
}

/// By a month's and a day's bits, as a DATE has them: which day it is in a year that begins in March, from 1;
/// or 0, where there is none. A leap day is the last.
static DAYS: [u16; 512] = {
    let mut days = [0; 512];
    let (mut n, mut month) = (1, 3);
    while month <= 14 {
        // January and February end it.
        let of_year = if month > 12 { month - 12 } else { month };
        let length = match of_year {
            2 => 29,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let mut day = 1;
        while day <= length {
            days[of_year << 5 | day] = n;
            n += 1;
            day += 1;
        }
        month += 1;
    }
    days
};
const LEAP_DAY: u16 = 366;

/// A DATETIME's or TIME's parts. Hours of a TIME go to 838.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    pub negative: bool,
    pub hour: u16,
    pub minute: u8,
    pub second: u8,
    pub micros: u32,
}
impl Time {
    /// Microseconds, from midnight if it is a time of day.
    pub fn micros(self) -> i64 {
        let seconds = (self.hour as i64 * 60 + self.minute as i64) * 60 + self.second as i64;
        let micros = seconds * 1_000_000 + self.micros as i64;
        if self.negative { -micros } else { micros }
    }
}
/// Hours, minutes and seconds as the digits of one number.
fn digits(n: u64) -> Option<Time> {
    let (hour, minute, second) = (u16::try_from(n / 10_000).ok()?, (n / 100 % 100) as u8, (n % 100) as u8);
    (minute < 60 && second < 60).then_some(Time { negative: false, hour, minute, second, micros: 0 })
}
/// A TIME of servers before 5.6.4: HHMMSS as a number.
pub fn old_time(bytes: &[u8]) -> Option<Time> {
    let n = signed(bytes)?;
    Some(Time { negative: n < 0, ..digits(n.unsigned_abs())? })
}
/// A DATETIME of theirs: YYYYMMDDHHMMSS as a number.
pub fn old_datetime(bytes: &[u8]) -> Option<(Date, Time)> {
    let n = u64::try_from(signed(bytes)?).ok()?;
    let (d, time) = (n / 1_000_000, digits(n % 1_000_000)?);
    let year = u16::try_from(d / 10_000).ok().filter(|y| *y <= 9999)?;
    Some((Date { year, month: (d / 100 % 100) as u8, day: (d % 100) as u8 }, time))
}

/// Microseconds of a fraction: its bytes hold 2, 4 or 6 digits.
fn fraction(bytes: &[u8], fsp: u8) -> Option<u32> {
    if bytes.len() != (fsp as usize).div_ceil(2) {
        return None;
    }
    let n = bytes.iter().fold(0u32, |n, &b| n << 8 | b as u32);
    let micros = n * [1, 10_000, 100, 1][bytes.len()];
    (micros < 1_000_000).then_some(micros)
}

/// A TIME: 10 bits of hours and 6 each of minutes and seconds, then the fraction; one number, of which a
/// constant was taken away so that it sorts.
pub fn time(bytes: &[u8], fsp: u8) -> Option<Time> {
    let bits = 8 * (fsp as u32).div_ceil(2);
    if bytes.len() != 3 + (fsp as usize).div_ceil(2) {
        return None;
    }
    let offset = 0x80_0000i64 << bits;
    let packed = unsigned(bytes)? as i64 - offset;
    let negative = packed < 0;
    let packed = packed.unsigned_abs();
    let rest = packed & ((1 << bits) - 1);
    let whole = packed >> bits;
    let rest = rest.to_be_bytes();
    let micros = fraction(&rest[8 - bits as usize / 8..], fsp)?;
    let (hour, minute, second) = ((whole >> 12 & 0x3ff) as u16, (whole >> 6 & 63) as u8, (whole & 63) as u8);
    (minute < 60 && second < 60).then_some(Time { negative, hour, minute, second, micros })
}

/// A DATETIME: 17 bits of year * 13 + month, 5 of the day, 5 of the hour, 6 each of minute and second; the
/// first bit flipped; then the fraction.
pub fn datetime(bytes: &[u8], fsp: u8) -> Option<(Date, Time)> {
    if bytes.len() != 5 + (fsp as usize).div_ceil(2) {
        return None;
    }
    let n = unsigned(&bytes[..5])?.checked_sub(1 << 39)?;
    let micros = fraction(&bytes[5..], fsp)?;
    let (ymd, hms) = (n >> 17, n & 0x1ffff);
    let (months, day) = (ymd >> 5, (ymd & 31) as u8);
    let (hour, minute, second) = ((hms >> 12) as u16, (hms >> 6 & 63) as u8, (hms & 63) as u8);
    if hour > 23 || minute > 59 || second > 59 || months / 13 > 9999 {
        return None;
    }
    Some((
        Date { year: (months / 13) as u16, month: (months % 13) as u8, day },
        Time { negative: false, hour, minute, second, micros },
    ))
}

/// A TIMESTAMP: seconds since 1970 in UTC, and microseconds. Zero is not 1970 but the zero date.
pub fn timestamp(bytes: &[u8], fsp: u8) -> Option<(u32, u32)> {
    if bytes.len() != 4 + (fsp as usize).div_ceil(2) {
        return None;
    }
    Some((unsigned(&bytes[..4])? as u32, fraction(&bytes[4..], fsp)?))
}

/// The calendar date and time of day of seconds since 1970.
pub fn civil(seconds: i64) -> (Date, Time) {
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + (month <= 2) as i64;
    let date = Date { year: year as u16, month: month as u8, day: day as u8 };
    let time = Time {
        negative: false,
        hour: (of_day / 3600) as u16,
        minute: (of_day / 60 % 60) as u8,
        second: (of_day % 60) as u8,
        micros: 0,
    };
    (date, time)
}

/// A float as the servers show it: the shortest digits that read back the same (FLOAT: six at most), with an
/// exponent where the point would stand more than 15 digits away and no digit behind it, or where it would be
/// wider than `width` characters.
pub fn push_float(into: &mut Vec<u8>, value: f64, is_float: bool, decimals: Option<u8>, width: usize) {
    use std::io::Write;
    if let Some(decimals) = decimals.map(usize::from) {
        // Where there are no more digits than are shown, those are the shortest that read back the same, and
        // zeros; else the value is rounded.
        let text = shortest(value);
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        let behind = digits.len() as i32 - 1 - exponent.parse().unwrap_or(0);
        if value == 0.0 || !value.is_finite() || behind > decimals as i32 {
            // Writing to memory does not fail.
            let _ = write!(into, "{value:.decimals$}");
            return;
        }
        // The digits of a whole number of the last decimals, one before the point at least.
        let whole = format!("{digits:0<width$}", width = digits.len() + (decimals as i32 - behind) as usize);
        let whole = format!("{whole:0>width$}", width = decimals + 1);
        let (before, fraction) = whole.split_at(whole.len() - decimals);
        let (sign, point) = (if value < 0.0 { "-" } else { "" }, if decimals > 0 { "." } else { "" });
        let _ = write!(into, "{sign}{before}{point}{fraction}");
        return;
    }
    if value == 0.0 {
        into.extend_from_slice(if value.is_sign_negative() { b"-0" } else { b"0" });
        return;
    }
    let text = if is_float { format!("{value:.5e}") } else { shortest(value) };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let digits = digits.trim_end_matches('0');
    // Where the point stands, in digits from the first.
    let point = exponent + 1;
    into.extend_from_slice(sign.as_bytes());
    let places = point.unsigned_abs() as usize;
    let is_whole = point > 0 && digits.len() <= places;
    let wide = match point {
        ..=0 => digits.len() + 2 + places,
        _ if is_whole => places,
        _ => digits.len() + 1,
    };
    if point < -14 || point > 15 && is_whole || sign.len() + wide > width {
        into.extend_from_slice(&digits.as_bytes()[..1]);
        if digits.len() > 1 {
            into.push(b'.');
            into.extend_from_slice(&digits.as_bytes()[1..]);
        }
        let _ = write!(into, "e{exponent}");
    } else if point <= 0 {
        into.extend_from_slice(b"0.");
        into.resize(into.len() + -point as usize, b'0');
        into.extend_from_slice(digits.as_bytes());
    } else if digits.len() <= point as usize {
        into.extend_from_slice(digits.as_bytes());
        into.resize(into.len() + point as usize - digits.len(), b'0');
    } else {
        let (whole, rest) = digits.split_at(point as usize);
        into.extend_from_slice(whole.as_bytes());
        into.push(b'.');
        into.extend_from_slice(rest.as_bytes());
    }
}

/// The shortest digits that read back the same, with an exponent. Where two such are as near, the servers
/// take the even one, Rust the larger.
fn shortest(value: f64) -> String {
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count() as i32;
    let behind = digits - 1 - exponent.parse().unwrap_or(0);
    // A double with just one decimal more is half way, and an odd multiple of 2^-(behind + 1).
    if behind > 0 && value.abs() * 2f64.powi(behind + 1) % 2.0 == 1.0 {
        return format!("{value:.*e}", digits as usize - 1);
    }
    text
}

/// What a SET's bits say: its elements, each behind a comma unless nothing is before it. `None`: bits of no
/// element.
pub fn set<'a>(n: u64, elements: impl ExactSizeIterator<Item = &'a [u8]>, comma: &[u8]) -> Option<Vec<u8>> {
    if elements.len() < 64 && n >> elements.len() != 0 {
        return None;
    }
    let mut text = Vec::new();
    for (_, element) in elements.enumerate().filter(|(i, _)| n >> i & 1 != 0) {
        if !text.is_empty() {
            text.extend_from_slice(comma);
        }
        text.extend_from_slice(element);
    }
    Some(text)
}

/// The stored bytes of a key's value, given as SQL writes it. They compare as the values do. `None`: this
/// type cannot be a range key. `Some(None)`: the text is not a value of the type.
pub fn stored_key(ty: &Type, text: &str) -> Option<Option<Vec<u8>>> {
    let numbers = |text: &str, separator: char| -> Option<Vec<u64>> {
        let is_number = |s: &&str| !s.is_empty() && s.len() <= 4 && s.bytes().all(|b| b.is_ascii_digit());
        text.split(separator).map(|s| Some(s).filter(is_number)?.parse().ok()).collect()
    };
    let date = |text: &str| match numbers(text, '-')?[..] {
        [year, month @ 0..=12, day @ 0..=31] => Some((year, month, day)),
        _ => None,
    };
    Some(match ty {
        Type::Int { bytes, unsigned, .. } => text.trim().parse::<i128>().ok().and_then(|n| {
            let bits = 8 * *bytes as u32;
            // What is below zero comes first in its stored form.
            let n = if *unsigned { n } else { n + (1 << (bits - 1)) };
            (0..1i128 << bits).contains(&n).then(|| n.to_be_bytes()[16 - *bytes as usize..].to_vec())
        }),
        Type::Date => date(text.trim())
            .map(|(year, month, day)| ((1 << 23) | year << 9 | month << 5 | day).to_be_bytes()[5..].to_vec()),
        Type::DateTime { fsp } => (|| {
            let (day, time) = text.trim().split_once([' ', 'T']).unwrap_or((text.trim(), "0:0:0"));
            let (year, month, day) = date(day)?;
            let (whole, fraction) = time.split_once('.').unwrap_or((time, ""));
            let [hour @ 0..24, minute @ 0..60, second @ 0..60] = numbers(whole, ':')?[..] else {
                return None;
            };
            if fraction.len() > *fsp as usize || !fraction.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            let whole = 1 << 39 | (year * 13 + month) << 22 | day << 17 | hour << 12 | minute << 6 | second;
            let mut stored = whole.to_be_bytes()[3..].to_vec();
            let pairs = (*fsp as usize).div_ceil(2);
            if pairs > 0 {
                let digits: u64 = format!("{fraction:0<width$}", width = 2 * pairs).parse().ok()?;
                stored.extend_from_slice(&digits.to_be_bytes()[8 - pairs..]);
            }
            Some(stored)
        })(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_width() {
        assert_eq!(signed(&[0x80]), Some(0));
        assert_eq!(signed(&[0x7f]), Some(-1));
        assert_eq!(signed(&[0, 0, 0]), Some(-8_388_608));
        assert_eq!(signed(&[0xff; 8]), Some(i64::MAX));
        assert_eq!(signed(&[]), None);
        assert_eq!(unsigned(&[0xff; 8]), Some(u64::MAX));
        assert_eq!(unsigned(&[1; 9]), None);
    }

    #[test]
    fn keys_are_stored_as_they_are_read() {
        let int = |bytes, unsigned| Type::Int { bytes, unsigned, zerofill: None };
        for n in [-8_388_608i64, -1, 0, 77, 8_388_607] {
            let bytes = stored_key(&int(3, false), &n.to_string()).unwrap().unwrap();
            assert_eq!((bytes.len(), signed(&bytes)), (3, Some(n)));
        }
        let most = stored_key(&int(8, true), "18446744073709551615").unwrap().unwrap();
        assert_eq!(unsigned(&most), Some(u64::MAX));
        for wrong in ["8388608", "-8388609", "x", "", "1.5"] {
            assert_eq!(stored_key(&int(3, false), wrong), Some(None), "{wrong}");
        }
        let day = stored_key(&Type::Date, "2024-02-29").unwrap().unwrap();
        assert_eq!(date(&day), Some(Date { year: 2024, month: 2, day: 29 }));
        let moment = stored_key(&Type::DateTime { fsp: 3 }, "2024-02-29 12:34:56.78").unwrap().unwrap();
        let (d, t) = datetime(&moment, 3).unwrap();
        assert_eq!((d.year, d.month, d.day, t.hour, t.second, t.micros), (2024, 2, 29, 12, 56, 780_000));
        assert_eq!(stored_key(&Type::DateTime { fsp: 0 }, "2024-02-30 25:00:00"), Some(None));
        assert_eq!(stored_key(&Type::Year { digits: 4 }, "2024"), None);
    }

    #[test]
    fn decimals_of_both_signs() {
        // 1234567890.1234 as DECIMAL(14,4), from MySQL's own description of the format.
        let bytes = [0x81, 0x0D, 0xFB, 0x38, 0xD2, 0x04, 0xD2];
        assert_eq!(decimal(&bytes, 14, 4), Some(12_345_678_901_234));
        let negative: Vec<u8> = bytes.iter().map(|b| !b).collect();
        assert_eq!(decimal(&negative, 14, 4), Some(-12_345_678_901_234));
        let mut text = Vec::new();
        assert_eq!(push_decimal(&mut text, &negative, 14, 4), Some(()));
        assert_eq!(text, b"-1234567890.1234");
        assert_eq!(push_decimal(&mut text, &[0xff; 7], 14, 4), None, "digits beyond 9");
        assert_eq!(decimal(&[0xff; 7], 14, 4), None, "digits beyond 9");
        assert_eq!(decimal(&[0x80], 14, 4), None);
    }

    /// Each precision and scale, by the general way: bytes of random digits, and bytes that are any.
    #[test]
    fn digits_in_one_word_are_the_same_digits() {
        let mut random = ondol_base::sim::Random::new(1);
        for precision in 1..=18u8 {
            for scale in 0..=precision {
                let bytes = crate::table::decimal_bytes(precision, scale);
                let Some(digits) = Digits::known(precision, scale) else {
                    assert!(bytes > 8, "DECIMAL({precision},{scale})");
                    continue;
                };
                assert_eq!(digits.bytes, bytes);
                let mut found = 0;
                for _ in 0..2000 {
                    let mut field = random.next().to_be_bytes();
                    if random.below(2) == 0 {
                        // Small bytes, so that their digits are few enough.
                        field = field.map(|_| if random.below(4) == 0 { random.below(4) as u8 } else { 0 });
                        let mask = if random.below(2) == 0 { 0xff } else { 0 };
                        field.iter_mut().for_each(|b| *b ^= mask);
                        field[0] ^= 0x80;
                    }
                    let expected = decimal(&field[..bytes], precision, scale);
                    assert_eq!(
                        digits.scaled(field).map(i128::from),
                        expected,
                        "DECIMAL({precision},{scale}) {field:x?}"
                    );
                    let mut words = [u64::from_be_bytes(field); 3];
                    assert_eq!(digits.scale_all(&mut words), expected.is_some());
                    assert!(expected.is_none_or(|n| words.iter().all(|w| i128::from(*w as i64) == n)));
                    // One that is none is noticed wherever it is.
                    words = [u64::from_be_bytes([128, 0, 0, 0, 0, 0, 0, 0]); 3];
                    words[random.below(3) as usize] = u64::from_be_bytes(field);
                    assert_eq!(digits.scale_all(&mut words), expected.is_some());
                    found += expected.is_some() as u32;
                }
                assert!(found > 100, "DECIMAL({precision},{scale}): {found} values");
            }
        }
    }

    #[test]
    fn days_and_their_calendar_agree() {
        for days in (-500_000..500_000).step_by(37) {
            let (date, _) = civil(days as i64 * 86_400);
            if (1..=9999).contains(&date.year) {
                assert_eq!(date.days(), Some(days), "{date:?}");
            }
        }
        assert_eq!(Date { year: 2023, month: 2, day: 29 }.days(), None);
        assert_eq!(Date { year: 0, month: 0, day: 0 }.days(), None);
        // Whatever a month and a day may be, it is a day of the calendar if that leads back to it.
        for (year, month, day) in
            (1995..2005).flat_map(|y| (0..=255u8).flat_map(move |m| (0..=255u8).map(move |d| (y, m, d))))
        {
            let date = Date { year, month, day };
            let known = date.days().is_some();
            let is_day = (1..=12).contains(&month) && (1..=31).contains(&day) && {
                let leap = year == 1996 || year == 2000 || year == 2004;
                day <= [31, 28 + leap as u8, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month as usize - 1]
            };
            assert_eq!(known, is_day, "{date:?}");
        }
        assert_eq!(Date { year: 1900, month: 2, day: 29 }.days(), None);
        assert_eq!(Date { year: 0, month: 3, day: 1 }.days(), None);
    }

    /// Every DATE that three bytes can be.
    #[test]
    fn days_of_many_dates_are_those_of_each() {
        for year in 0..1u32 << 15 {
            let dates = (0..1 << 9).map(|day| (year << 9 | day) << 8);
            let days: Vec<Option<i32>> = dates.clone().map(|n| date(&n.to_be_bytes()[..3])?.days()).collect();
            let (mut good, mut bad): (Vec<u32>, Vec<u32>) = Default::default();
            for (n, days) in dates.zip(&days) {
                if days.is_some() { good.push(n) } else { bad.push(n) }
            }
            // What is behind the three bytes means nothing.
            good.iter_mut().for_each(|n| *n |= *n >> 9 & 0xff);
            assert!(days_all(&mut good));
            assert!(good.iter().map(|days| *days as i32).eq(days.into_iter().flatten()), "year {year}");
            assert!(bad.iter().all(|n| !days_all(&mut [*n])), "year {year}");
        }
        let day = (1 << 23 | 2024 << 9 | 2 << 5 | 29) << 8;
        assert!(!days_all(&mut [day, day, day + (1 << 8), day, day]));
    }

    #[test]
    fn floats_as_the_servers_show_them() {
        let text = |v: f64, is_float| {
            let mut out = Vec::new();
            push_float(&mut out, v, is_float, None, usize::MAX);
            String::from_utf8(out).unwrap()
        };
        for (value, expected) in [
            (1.5, "1.5"),
            (0.0, "0"),
            (-0.001, "-0.001"),
            (1e15, "1e15"),
            (1e14, "100000000000000"),
            (1e-300, "1e-300"),
            (123456789012345.0, "123456789012345"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1.2345e-15, "0.0000000000000012345"),
            (1.2345e-16, "1.2345e-16"),
            (1.2345e-14, "0.000000000000012345"),
            (1234567890123456.5, "1234567890123456.5"),
            (1234567890123456.0, "1.234567890123456e15"),
            // Half way between two shortest forms.
            (1886071491525701.0 + 0.25, "1886071491525701.2"),
            (1886071491525701.0 + 0.75, "1886071491525701.8"),
            (-(81611336093299.0 + 0.625), "-81611336093299.62"),
            (81611336093299.0 + 0.375, "81611336093299.38"),
        ] {
            assert_eq!(text(value, false), expected);
        }
        assert_eq!(text(f32::MAX as f64, true), "3.40282e38");
        assert_eq!(text(0.1f32 as f64, true), "0.1");
        // MySQL's widths.
        let narrow = |v: f64, is_float, width| {
            let mut out = Vec::new();
            push_float(&mut out, v, is_float, None, width);
            String::from_utf8(out).unwrap()
        };
        for (value, expected) in [
            (1.23456e-5f32, "0.0000123456"),
            (-1.23456e-5, "-1.23456e-5"),
            (1.23456e11, "123456000000"),
            (-1.23456e10, "-12345600000"),
            (-1.23456e11, "-1.23456e11"),
            (1.23456e12, "1.23456e12"),
            (1.5e-10, "1.5e-10"),
        ] {
            assert_eq!(narrow(value as f64, true, 12), expected);
        }
        assert_eq!(narrow(-1.2345678901234567e-300, false, 24), "-1.2345678901234568e-300");
        assert_eq!(narrow(-8.705123682449036e-7, false, 24), "-8.705123682449036e-7");
        assert_eq!(narrow(8.705123682449037e-6, false, 24), "0.000008705123682449037");
    }

    #[test]
    fn integers_and_dates_at_once() {
        let mut random = ondol_base::sim::Random::new(12);
        let words: Vec<u64> =
            (0..4000).map(|_| random.next() << (random.below(8) * 8)).chain([0, u64::MAX]).collect();
        for bytes in 1..=8 {
            for is_unsigned in [false, true] {
                let mut numbers = words.clone();
                Integers::new(bytes, is_unsigned).of_all(&mut numbers);
                for (word, number) in words.iter().zip(numbers) {
                    let field = &word.to_be_bytes()[..bytes];
                    let expected =
                        if is_unsigned { unsigned(field) } else { signed(field).map(|n| n as u64) };
                    assert_eq!(Some(number), expected, "{field:?}");
                }
            }
        }
        // Every DATE that there can be, and every one that there cannot.
        let fields: Vec<u64> = (0..1 << 24).map(|n| n << 40 | random.next() >> 24).collect();
        let mut digits = fields.clone();
        dates_all(&mut digits);
        for (field, digits) in fields.iter().zip(digits) {
            match date(&field.to_be_bytes()[..3]) {
                Some(d) => {
                    assert_eq!(digits, d.year as u64 * 10_000 + d.month as u64 * 100 + d.day as u64)
                }
                None => assert!(digits >= 100_000_000, "{field:#x}"),
            }
        }
    }
}
