//! Intervals as text in a session's style.

use super::{Interval, Parts};
use crate::datetime::USECS_PER_SEC;
use crate::style::{IntervalStyle, Styles};

/// Appends an interval, by its bytes.
pub(crate) fn write_styled(bytes: &[u8], styles: &Styles, out: &mut String) {
    let interval = Interval::of(bytes);
    match styles.interval {
        IntervalStyle::Postgres => interval.write(out),
        IntervalStyle::PostgresVerbose => verbose(interval, out),
        IntervalStyle::SqlStandard => standard(interval, out),
        IntervalStyle::Iso => iso(interval, out),
    }
}

/// Seconds without a sign, with their fraction.
fn seconds(micros: i64, width: usize, out: &mut String) {
    let (whole, fraction) = ((micros / USECS_PER_SEC).abs(), (micros % USECS_PER_SEC).abs());
    *out += &format!("{whole:0width$}");
    if fraction != 0 {
        *out += format!(".{fraction:06}").trim_end_matches('0')
    }
}

/// `@ 1 year 2 mons 3 days 4 hours 5 mins 6.7 secs ago`: the first part's sign is that of all.
fn verbose(interval: Interval, out: &mut String) {
    let Parts { years, months, hours, minutes, micros } = interval.parts();
    let units = [
        (i64::from(years), "year"),
        (i64::from(months), "mon"),
        (i64::from(interval.days), "day"),
        (hours, "hour"),
        (minutes, "min"),
    ];
    out.push('@');
    // The sign of the first part that is not zero.
    let mut is_ago = None;
    for (n, unit) in units {
        if n != 0 {
            let n = if *is_ago.get_or_insert(n < 0) { -n } else { n };
            *out += &format!(" {n} {unit}{}", if n == 1 { "" } else { "s" });
        }
    }
    if micros != 0 {
        let is_ago = *is_ago.get_or_insert(micros < 0);
        *out += if (micros < 0) == is_ago { " " } else { " -" };
        seconds(micros, 1, out);
        *out += if micros.abs() == USECS_PER_SEC { " sec" } else { " secs" };
    }
    match is_ago {
        None => *out += " 0",
        Some(true) => *out += " ago",
        Some(false) => {}
    }
}

/// `1-2` or `3 4:05:06.7`, as the standard writes them, where one of the two says it; else all parts, each
/// with a sign.
fn standard(interval: Interval, out: &mut String) {
    let Parts { years, months, hours, minutes, micros } = interval.parts();
    let Interval { months: all_months, days, micros: all_micros } = interval;
    let has_negative = all_months < 0 || days < 0 || all_micros < 0;
    let has_positive = all_months > 0 || days > 0 || all_micros > 0;
    let has_time = days != 0 || all_micros != 0;
    if !has_negative && !has_positive {
        return out.push('0');
    }
    let date = format!("{}-{}", years.unsigned_abs(), months.unsigned_abs());
    let time = |out: &mut String| {
        *out += &format!("{}:{:02}:", hours.unsigned_abs(), minutes.unsigned_abs());
        seconds(micros, 2, out)
    };
    if has_negative && has_positive || all_months != 0 && has_time {
        let sign = |is_negative: bool| if is_negative { '-' } else { '+' };
        *out += &format!("{}{date} {}{} ", sign(all_months < 0), sign(days < 0), days.unsigned_abs());
        out.push(sign(all_micros < 0));
        return time(out);
    }
    if has_negative {
        out.push('-')
    }
    if all_months != 0 {
        return out.push_str(&date);
    }
    if days != 0 {
        *out += &format!("{} ", days.unsigned_abs())
    }
    time(out)
}

/// `P1Y2M3DT4H5M6.7S`, each part with its sign.
fn iso(interval: Interval, out: &mut String) {
    let Parts { years, months, hours, minutes, micros } = interval.parts();
    if (interval.months, interval.days, interval.micros) == (0, 0, 0) {
        return out.push_str("PT0S");
    }
    out.push('P');
    let mut part = |n: i64, unit: char| {
        if n != 0 {
            *out += &format!("{n}{unit}")
        }
    };
    part(years.into(), 'Y');
    part(months.into(), 'M');
    part(interval.days.into(), 'D');
    if interval.micros == 0 {
        return;
    }
    out.push('T');
    let mut part = |n: i64, unit: char| {
        if n != 0 {
            *out += &format!("{n}{unit}")
        }
    };
    part(hours, 'H');
    part(minutes, 'M');
    if micros != 0 {
        *out += if micros < 0 { "-" } else { "" };
        seconds(micros, 1, out);
        out.push('S')
    }
}
