//! What the recorded answers of PostgreSQL (`tests/answers`) do not show.

use super::*;
use crate::func::Context;

const NOON: i64 = 12 * 3600 * USECS_PER_SEC;

fn context() -> Context<'static> {
    // 2024-02-29 12:00:00
    Context { now_us: 8825 * USECS_PER_DAY + NOON, ..Context::EMPTY }
}

fn shown(t: i64) -> String {
    let mut out = String::new();
    write_timestamp(t, &mut out);
    out
}

#[test]
fn the_calendar_leads_back() {
    let (first, last) = (DATES.start as i32, (DATES.end - 1) as i32);
    assert_eq!(civil_from_days(first), (-4713, 11, 24));
    assert_eq!(civil_from_days(last), (5_874_897, 12, 31));
    assert_eq!(civil_from_days(0), (2000, 1, 1));
    let edges = (first..first + 1000).chain(last - 1000..=last);
    for d in edges.chain(-800_000..800_000).chain((first..last - 100_000).step_by(99_991)) {
        let (y, m, day) = civil_from_days(d);
        assert!(day >= 1 && day <= days_in_month(y, m), "{d}");
        assert_eq!(days_from_civil(y, m, day), d);
        let (mut text, mut bytes) = (String::new(), vec![]);
        write_date(d, &mut text);
        write_date(d, &mut bytes);
        let (year, era) = if y > 0 { (y, "") } else { (1 - y, " BC") };
        assert_eq!(text, format!("{year:04}-{m:02}-{day:02}{era}"));
        assert_eq!(bytes, text.as_bytes());
    }
}

#[test]
fn words_for_now_use_the_transactions_time() {
    let ctx = context();
    let parse = |s: &str| shown(parse_timestamp(s, &ctx).unwrap());
    assert_eq!(parse("now"), "2024-02-29 12:00:00");
    assert_eq!(parse("today"), "2024-02-29 00:00:00");
    assert_eq!(parse("tomorrow"), "2024-03-01 00:00:00");
    assert_eq!(parse("yesterday 13:14"), "2024-02-28 13:14:00");
    assert_eq!(parse_date("now", &ctx).unwrap(), 8825);
    assert_eq!(
        parse_timestamptz("today 10:00 EST", &ctx).unwrap(),
        8825 * USECS_PER_DAY + 15 * 3600 * USECS_PER_SEC
    );
    assert_eq!(parse_timestamp("yesterday today", &ctx).unwrap_err().sqlstate(), "22007");
}

#[test]
fn what_is_written_is_read() {
    let ctx = Context::EMPTY;
    let mut t = TIMESTAMPS.start;
    let mut step = 1;
    while t < TIMESTAMPS.end {
        let mut out = shown(t);
        assert_eq!(parse_timestamp(&out, &ctx).unwrap(), t, "{out}");
        out.clear();
        write_timestamptz(t, &mut out);
        assert_eq!(parse_timestamptz(&out, &ctx).unwrap(), t, "{out}");
        out.clear();
        let d = timestamp_to_date(t).unwrap();
        write_date(d, &mut out);
        assert_eq!(parse_date(&out, &ctx).unwrap(), d, "{out}");
        step = (step * 7 + 1) % 9_000_000_000_000_003;
        t = t.saturating_add(step);
    }
    for t in [TIMESTAMP_INFINITY, TIMESTAMP_NEG_INFINITY] {
        assert_eq!(parse_timestamp(&shown(t), &ctx).unwrap(), t);
    }
}

#[test]
fn any_text_is_an_error_at_worst() {
    let pieces = [
        "2024",
        "-",
        "é",
        "Jan",
        "12:",
        "+",
        "T",
        "99999999999999999999",
        ".",
        "\0",
        "bc",
        "J",
        "1",
        "/",
        " ",
    ];
    let mut s = 1u64;
    for _ in 0..50_000 {
        let mut text = String::new();
        for _ in 0..s % 9 {
            s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            text.push_str(pieces[(s >> 33) as usize % pieces.len()]);
        }
        s = s.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407) >> 1;
        if let Ok(t) = parse_timestamptz(&text, &Context::EMPTY) {
            assert!(TIMESTAMPS.contains(&t) || !timestamp_is_finite(t), "{text}");
        }
        let _ = parse_date(&text, &Context::EMPTY);
    }
}

#[test]
fn parts_make_dates() {
    let message = |r: SqlResult<i64>| r.unwrap_err().to_string();
    let days = |y, m, d| make_date(y, m, d).map(i64::from);
    assert_eq!(days(2000, 3, 1).unwrap(), 60);
    assert_eq!(civil_from_days(make_date(-44, 3, 15).unwrap()), (-43, 3, 15));
    assert_eq!(message(days(2024, 2, 30)), "date field value out of range: 2024-02-30");
    assert_eq!(message(days(0, 2, 3)), "date field value out of range: 0-02-03");
    assert_eq!(message(days(5_874_898, 1, 1)), "date out of range: 5874898-01-01");
    let time = |h, s| make_timestamp(2024, 1, 1, h, 0, s);
    assert_eq!(shown(time(24, 0.0).unwrap()), "2024-01-02 00:00:00");
    assert_eq!(message(time(24, 0.5)), "time field value out of range: 24:00:0.5");
    let late = make_timestamp(294_277, 1, 1, 24, 0, 0.0);
    assert_eq!(message(late), "timestamp out of range: 294277-01-01 24:00:00");
}

#[test]
fn arithmetic_stays_in_range() {
    let last = (DATES.end - 1) as i32;
    assert_eq!(date_plus(last, 1).unwrap_err().to_string(), "date out of range");
    assert_eq!(date_minus(0, i32::MIN).unwrap_err().to_string(), "date out of range");
    assert_eq!(date_plus(DATE_INFINITY, -5).unwrap(), DATE_INFINITY);
    assert_eq!(date_difference(60, 0).unwrap(), 60);
    assert_eq!(date_difference(0, DATE_INFINITY).unwrap_err().to_string(), "cannot subtract infinite dates");
    assert_eq!(date_to_timestamp(last).unwrap_err().to_string(), "date out of range for timestamp");
    assert_eq!(cmp_date_timestamp(last, TIMESTAMPS.end - 1), Ordering::Greater);
    assert_eq!(cmp_date_timestamp(last, TIMESTAMP_INFINITY), Ordering::Less);
    assert_eq!(cmp_date_timestamp(DATE_INFINITY, TIMESTAMP_INFINITY), Ordering::Equal);
    assert_eq!(cmp_date_timestamp(1, USECS_PER_DAY), Ordering::Equal);
}

#[test]
fn epochs_make_timestamps() {
    assert_eq!(shown(to_timestamp(1706704496.789).unwrap()), "2024-01-31 12:34:56.789");
    assert_eq!(to_timestamp(f64::NEG_INFINITY).unwrap(), TIMESTAMP_NEG_INFINITY);
    assert_eq!(to_timestamp(f64::NAN).unwrap_err().to_string(), "timestamp cannot be NaN");
    assert_eq!(to_timestamp(1e20).unwrap_err().to_string(), "timestamp out of range: \"1e+20\"");
}
