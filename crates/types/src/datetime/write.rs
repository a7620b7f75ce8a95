//! Dates and timestamps as text: in ISO style, and in the others that a session may have.
//!
//! The text is put together in a small buffer and appended at once; this runs for every row that is copied
//! out.

use super::zone::Clock;
use super::{
    DATE_INFINITY, DATE_NEG_INFINITY, TIMESTAMP_INFINITY, TIMESTAMP_NEG_INFINITY, USECS_PER_SEC,
    civil_from_days, split,
};
use crate::style::{DateOrder, DateStyle, Styles};
use crate::text::{Out, ZEROS, eight_digits, pair};

/// Room for the longest form, a year of seven digits with microseconds, zone and era.
struct Buffer {
    bytes: [u8; 48],
    len: usize,
}

impl Buffer {
    fn new() -> Buffer {
        Buffer { bytes: [0; 48], len: 0 }
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    #[inline]
    fn push_two(&mut self, mark: u8, v: u32) {
        let [a, b] = pair(v);
        self.push(&[mark, a, b]);
    }

    /// Writes year, month and day; says whether the year is BC.
    #[inline]
    fn push_day(&mut self, days: i32) -> bool {
        let (year, month, day) = civil_from_days(days);
        let bc = year <= 0;
        let shown = if bc { 1 - year } else { year } as u32;
        if shown > 9999 {
            // One to three digits more.
            let high = shown / 10_000;
            let [b, c] = pair(high);
            let digits = [b'0' + (high / 100 % 10) as u8, b, c];
            let zeros = digits.iter().take_while(|d| **d == b'0').count();
            self.push(&digits[zeros..]);
        }
        self.push(&pair(shown / 100 % 100));
        self.push(&pair(shown % 100));
        self.push_two(b'-', month);
        self.push_two(b'-', day);
        bc
    }

    /// `hh:mm:ss`, with decimals where there are some.
    #[inline]
    fn push_time(&mut self, usecs: i64) {
        let seconds = (usecs / USECS_PER_SEC) as u32;
        let fraction = (usecs % USECS_PER_SEC) as u32;
        self.push(&pair(seconds / 3600));
        self.push_two(b':', seconds / 60 % 60);
        self.push_two(b':', seconds % 60);
        if fraction != 0 {
            self.push_two(b'.', fraction / 10_000);
            self.push(&pair(fraction / 100 % 100));
            self.push(&pair(fraction % 100));
            // Six digits without the zeros at the end.
            while self.bytes[self.len - 1] == b'0' {
                self.len -= 1;
            }
        }
    }

    fn append_to(&self, out: &mut impl Out) {
        out.ascii(&self.bytes[..self.len]);
    }
}

#[inline]
pub fn write_date(d: i32, out: &mut impl Out) {
    let (year, month, day) = civil_from_days(d);
    if !(1..=9999).contains(&year) {
        return write_far_date(d, out);
    }
    let digits = eight_digits(10_000 * year as u32 + 100 * month + day) | ZEROS as u64;
    const DASH: u128 = b'-' as u128;
    let (year, month, day) = (digits & 0xffff_ffff, digits >> 32 & 0xffff, digits >> 48);
    let word = u128::from(year) | DASH << 32 | u128::from(month) << 40 | DASH << 56 | u128::from(day) << 64;
    out.beginning(word.to_le_bytes(), 10)
}

/// A year of more than four digits, or before the first, or an infinity.
#[inline(never)]
fn write_far_date(d: i32, out: &mut impl Out) {
    match d {
        DATE_INFINITY => out.ascii(b"infinity"),
        DATE_NEG_INFINITY => out.ascii(b"-infinity"),
        d => {
            let mut b = Buffer::new();
            if b.push_day(d) {
                b.push(b" BC");
            }
            b.append_to(out);
        }
    }
}

fn write_with_zone(t: i64, zone: &[u8], out: &mut impl Out) {
    match t {
        TIMESTAMP_INFINITY => return out.ascii(b"infinity"),
        TIMESTAMP_NEG_INFINITY => return out.ascii(b"-infinity"),
        _ => {}
    }
    let (days, usecs) = split(t);
    let mut b = Buffer::new();
    let bc = b.push_day(days);
    b.push(b" ");
    b.push_time(usecs);
    b.push(zone);
    if bc {
        b.push(b" BC");
    }
    b.append_to(out);
}

/// A time of day, up to 24:00:00.
pub(crate) fn write_time(usecs: i64, out: &mut impl Out) {
    let mut b = Buffer::new();
    b.push_time(usecs);
    b.append_to(out);
}

pub fn write_timestamp(t: i64, out: &mut impl Out) {
    write_with_zone(t, b"", out);
}

/// As the clocks of Greenwich show it.
pub fn write_timestamptz(t: i64, out: &mut impl Out) {
    write_with_zone(t, b"+00", out);
}

/// The first days of 2000 and their names: the week's day is that of a day as far on.
const WEEKDAYS: [&str; 7] = ["Sat", "Sun", "Mon", "Tue", "Wed", "Thu", "Fri"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Year as it is shown, month, day, and what tells that the year is BC.
fn shown_day(days: i32) -> (i32, u32, u32, &'static str) {
    let (year, month, day) = civil_from_days(days);
    if year <= 0 { (1 - year, month, day, " BC") } else { (year, month, day, "") }
}

/// `02/01/2020`, by the style's order and separator.
fn numbers(days: i32, styles: &Styles) -> String {
    let (year, month, day, _) = shown_day(days);
    match (styles.date, styles.order) {
        (DateStyle::Iso, _) => format!("{year:04}-{month:02}-{day:02}"),
        (DateStyle::German, _) => format!("{day:02}.{month:02}.{year:04}"),
        (DateStyle::Sql, DateOrder::Dmy) => format!("{day:02}/{month:02}/{year:04}"),
        (DateStyle::Sql, _) => format!("{month:02}/{day:02}/{year:04}"),
        (DateStyle::Postgres, DateOrder::Dmy) => format!("{day:02}-{month:02}-{year:04}"),
        (DateStyle::Postgres, _) => format!("{month:02}-{day:02}-{year:04}"),
    }
}

/// Appends a date in a session's style.
pub fn write_styled_date(d: i32, styles: &Styles, out: &mut impl Out) {
    match d {
        _ if styles.date == DateStyle::Iso => write_date(d, out),
        DATE_INFINITY | DATE_NEG_INFINITY => write_date(d, out),
        d => {
            out.text(&numbers(d, styles));
            out.text(shown_day(d).3)
        }
    }
}

/// How far a zone is east: `+01`, `-03:30`, `+00:09:21`.
fn displacement(east: i32) -> String {
    let (sign, seconds) = (if east < 0 { '-' } else { '+' }, east.abs());
    match (seconds / 60 % 60, seconds % 60) {
        (0, 0) => format!("{sign}{:02}", seconds / 3600),
        (minutes, 0) => format!("{sign}{:02}:{minutes:02}", seconds / 3600),
        (minutes, rest) => format!("{sign}{:02}:{minutes:02}:{rest:02}", seconds / 3600),
    }
}

/// Appends a timestamptz in a session's style: what its clocks show, and how far they are from Greenwich's or
/// what their time is called.
pub fn write_styled_timestamptz(t: i64, styles: &Styles, out: &mut impl Out) {
    if matches!(t, TIMESTAMP_INFINITY | TIMESTAMP_NEG_INFINITY) || *styles == Styles::USUAL {
        return write_timestamptz(t, out);
    }
    let clock = styles.zone.at(t);
    write_shown(t + i64::from(clock.east) * USECS_PER_SEC, Some(clock), styles, out)
}

/// Appends a timestamp in a session's style.
pub fn write_styled_timestamp(t: i64, styles: &Styles, out: &mut impl Out) {
    write_shown(t, None, styles, out)
}

fn write_shown(t: i64, zone: Option<Clock>, styles: &Styles, out: &mut impl Out) {
    if styles.date == DateStyle::Iso || matches!(t, TIMESTAMP_INFINITY | TIMESTAMP_NEG_INFINITY) {
        let zone = zone.map(|z| displacement(z.east)).unwrap_or_default();
        return write_with_zone(t, zone.as_bytes(), out);
    }
    let (days, usecs) = split(t);
    let (year, month, day, era) = shown_day(days);
    let (seconds, fraction) = (usecs / USECS_PER_SEC, usecs % USECS_PER_SEC);
    let mut time = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if fraction != 0 {
        time += format!(".{fraction:06}").trim_end_matches('0')
    }
    out.text(&match (styles.date, styles.order) {
        (DateStyle::Postgres, order) => {
            let weekday = WEEKDAYS[days.rem_euclid(7) as usize];
            let month = MONTHS[month as usize - 1];
            let date = match order {
                DateOrder::Dmy => format!("{day:02} {month}"),
                _ => format!("{month} {day:02}"),
            };
            format!("{weekday} {date} {time} {year:04}")
        }
        _ => format!("{} {time}", numbers(days, styles)),
    });
    if let Some(zone) = zone {
        out.text(" ");
        out.text(zone.abbreviation)
    }
    out.text(era)
}
