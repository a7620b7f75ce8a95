//! Dates and timestamps as text in ISO style.
//!
//! The text is put together in a small buffer and appended at once; this runs for every row that is copied
//! out.

use super::{
    DATE_INFINITY, DATE_NEG_INFINITY, TIMESTAMP_INFINITY, TIMESTAMP_NEG_INFINITY, USECS_PER_SEC,
    civil_from_days, split,
};
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
    let seconds = (usecs / USECS_PER_SEC) as u32;
    let fraction = (usecs % USECS_PER_SEC) as u32;
    b.push_two(b' ', seconds / 3600);
    b.push_two(b':', seconds / 60 % 60);
    b.push_two(b':', seconds % 60);
    if fraction != 0 {
        b.push_two(b'.', fraction / 10_000);
        b.push(&pair(fraction / 100 % 100));
        b.push(&pair(fraction % 100));
        // Six digits without the zeros at the end.
        while b.bytes[b.len - 1] == b'0' {
            b.len -= 1;
        }
    }
    b.push(zone);
    if bc {
        b.push(b" BC");
    }
    b.append_to(out);
}

pub fn write_timestamp(t: i64, out: &mut impl Out) {
    write_with_zone(t, b"", out);
}

/// The session's zone is UTC.
pub fn write_timestamptz(t: i64, out: &mut impl Out) {
    write_with_zone(t, b"+00", out);
}
