//! Dates and timestamps as text in ISO style.

use super::{
    DATE_INFINITY, DATE_NEG_INFINITY, TIMESTAMP_INFINITY, TIMESTAMP_NEG_INFINITY, USECS_PER_SEC, civil_from_days,
    split,
};
use crate::text::{push_two, write_i64};

/// Writes year, month and day; says whether the year is BC.
fn push_day(days: i32, out: &mut String) -> bool {
    let (year, month, day) = civil_from_days(days);
    let bc = year <= 0;
    let shown = if bc { 1 - year } else { year } as u32;
    if shown <= 9999 {
        push_two(shown / 100, out);
        push_two(shown % 100, out);
    } else {
        write_i64(i64::from(shown), out);
    }
    out.push('-');
    push_two(month, out);
    out.push('-');
    push_two(day, out);
    bc
}

pub fn write_date(d: i32, out: &mut String) {
    match d {
        DATE_INFINITY => out.push_str("infinity"),
        DATE_NEG_INFINITY => out.push_str("-infinity"),
        d => {
            if push_day(d, out) {
                out.push_str(" BC");
            }
        }
    }
}

fn write_with_zone(t: i64, zone: &str, out: &mut String) {
    match t {
        TIMESTAMP_INFINITY => return out.push_str("infinity"),
        TIMESTAMP_NEG_INFINITY => return out.push_str("-infinity"),
        _ => {}
    }
    let (days, usecs) = split(t);
    let bc = push_day(days, out);
    let seconds = (usecs / USECS_PER_SEC) as u32;
    let mut fraction = (usecs % USECS_PER_SEC) as u32;
    out.push(' ');
    push_two(seconds / 3600, out);
    out.push(':');
    push_two(seconds / 60 % 60, out);
    out.push(':');
    push_two(seconds % 60, out);
    if fraction != 0 {
        // Six digits without the zeros at the end.
        let mut digits = 6;
        while fraction.is_multiple_of(10) {
            fraction /= 10;
            digits -= 1;
        }
        let mut buf = [b'.'; 7];
        for b in buf[1..=digits].iter_mut().rev() {
            *b = b'0' + (fraction % 10) as u8;
            fraction /= 10;
        }
        out.push_str(std::str::from_utf8(&buf[..=digits]).unwrap_or_default());
    }
    out.push_str(zone);
    if bc {
        out.push_str(" BC");
    }
}

pub fn write_timestamp(t: i64, out: &mut String) {
    write_with_zone(t, "", out);
}

/// The session's zone is UTC.
pub fn write_timestamptz(t: i64, out: &mut String) {
    write_with_zone(t, "+00", out);
}
