//! What the recorded answers of PostgreSQL (`func/cases.txt`) do not show.

use super::*;
use crate::func;
use std::collections::BTreeMap;

const EDGES: [Interval; 8] = [
    Interval { months: 0, days: 0, micros: 0 },
    Interval { months: 1, days: -30, micros: 0 },
    Interval { months: -1, days: 1, micros: -1 },
    Interval { months: 0, days: 0, micros: i64::MIN },
    Interval { months: 0, days: 0, micros: i64::MAX },
    Interval { months: i32::MIN, days: i32::MIN, micros: i64::MIN },
    Interval { months: i32::MAX, days: i32::MAX, micros: i64::MAX },
    Interval { months: i32::MIN, days: i32::MAX, micros: 86_399_999_999 },
];

/// Intervals of all sizes, many with small numbers.
fn intervals(count: usize) -> impl Iterator<Item = Interval> {
    let mut state = 7u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 11) ^ (state << 31)
    };
    let mut number = move |bits: u32| (random() as i64) >> (64 - bits + (random() % u64::from(bits)) as u32);
    let some = (0..count).map(move |_| Interval {
        months: number(32) as i32,
        days: number(32) as i32,
        micros: number(64),
    });
    EDGES.into_iter().chain(some)
}

fn shown(i: Interval) -> String {
    let mut out = String::new();
    i.write(&mut out);
    out
}

#[test]
fn what_is_written_is_read() {
    for i in intervals(20_000) {
        let text = shown(i);
        assert_eq!(
            read::interval(&text, Fields::of(Type::new(INTERVAL)), crate::style::IntervalStyle::Postgres),
            Ok(i),
            "{text}"
        );
        assert_eq!(Interval::of(&i.bytes()), i);
    }
}

/// Invariant 2.
#[test]
fn keys_are_in_the_order_of_spans() {
    let keys: BTreeMap<_, _> = intervals(5000).map(|i| (i.key(), i.span())).collect();
    assert!(keys.values().is_sorted_by(|a, b| a < b));
    let spans: std::collections::BTreeSet<_> = intervals(5000).map(Interval::span).collect();
    assert_eq!(keys.len(), spans.len());
    let [month, days] = ["1 month", "29 days 24:00:00"].map(|text| {
        read::interval(text, Fields::of(Type::new(INTERVAL)), crate::style::IntervalStyle::Postgres)
            .expect("an interval")
    });
    assert_eq!(month.key(), days.key());
    assert_ne!(month, days);
}

/// catalog/O1: neither any bytes nor any interval makes a function panic.
#[test]
fn no_bytes_are_too_odd() {
    let mut odd: Vec<Vec<u8>> = [0, 1, 8, 15, 17, 400].map(|n| vec![0xff; n]).into();
    odd.extend(intervals(50).map(|i| i.bytes().to_vec()));
    let mut text = String::new();
    for b in &odd {
        (FORM.output)(TypeId::INTERVAL, b, &mut text);
        FORM.key.push(b, &mut Vec::new());
        assert!((FORM.compare)(b, b).is_eq());
        let v = ValueRef::Opaque(INTERVAL, b);
        for typmod in [-1, 0, 5, i32::MAX, bit::YEAR << 16 | 0xffff, bit::ALL << 16] {
            let _ = (CASTS[0].run)(v, Type::with(INTERVAL, typmod), &Context::EMPTY);
        }
        for own in [&SUM, &AVG] {
            let mut state = Value::Null;
            for w in odd.iter().take(10) {
                let _ = (own.step)(&mut state, ValueRef::Opaque(INTERVAL, w));
                let _ = (own.finish)(state.as_ref(&mut Vec::new()));
            }
        }
    }
    let others = [
        (TypeId::FLOAT8, [0.0, -1.5, 1e300, f64::NAN, f64::INFINITY].map(Value::Float8).to_vec()),
        (TypeId::DATE, [i32::MIN, 0, 2_145_031_948, i32::MAX].map(Value::Date).into()),
        (TypeId::TIMESTAMP, [i64::MIN, i64::MIN + 1, 0, i64::MAX].map(Value::Timestamp).into()),
        (TypeId::TIMESTAMPTZ, [i64::MIN, i64::MIN + 1, 0, i64::MAX].map(Value::Timestamptz).into()),
        (TypeId::INT4, [i32::MIN, 7, i32::MAX].map(Value::Int4).into()),
        (TypeId::TEXT, ["year", "epoch", "week", "quarter", "now"].map(|s| Value::Text(s.into())).into()),
        (INTERVAL, odd.iter().map(|b| Value::Opaque(INTERVAL, b[..].into())).collect()),
    ];
    let of = |t: &TypeId| &others.iter().find(|o| o.0 == *t).expect("values of the type").1;
    for f in DEFS {
        let count = f.args.iter().map(|t| of(t).len()).max().unwrap_or(1);
        for i in 0..count * count {
            let args: Vec<&Value> =
                f.args.iter().enumerate().map(|(n, t)| &of(t)[(i + n * (i / count)) % of(t).len()]).collect();
            let mut scratch = vec![Vec::new(); args.len()];
            let args: Vec<_> = args.iter().zip(&mut scratch).map(|(a, s)| a.as_ref(s)).collect();
            let _ = func::call(f.id, &args, &Context::EMPTY);
        }
    }
}

/// PostgreSQL's numbers come round in these.
#[test]
fn what_leaves_its_range_is_an_error() {
    let most = Interval { months: i32::MAX, days: i32::MAX, micros: i64::MAX };
    let least = Interval { months: i32::MIN, days: i32::MIN, micros: i64::MIN };
    let half = |i: Interval| i.divided_by(0.5);
    for wrong in [
        half(most),
        half(least),
        most.divided_by(f64::NAN),
        Interval::make([i32::MAX, 0, 0, 0, 0, 0], 0.0),
        Interval::make([0, 0, i32::MAX, 0, 0, 0], 0.0),
        Interval::make([0; 6], 1e13),
        Interval::make([0; 6], f64::NAN),
        difference(9_223_371_331_199_999_999, -211_813_488_000_000_000),
        most.fit(Type::with(INTERVAL, bit::ALL << 16)),
    ] {
        let e = wrong.expect_err("out of range");
        assert_eq!((e.sqlstate(), &*e.to_string()), ("22008", "interval out of range"));
    }
    let e = timestamp_plus(0, Interval { months: 0, days: 0, micros: i64::MAX }, Zone::UTC)
        .expect_err("out of range");
    assert_eq!((e.sqlstate(), &*e.to_string()), ("22008", "timestamp out of range"));
}

#[test]
fn modifiers_are_shown_as_they_are_written() {
    for (written, shown) in [
        (&[][..], "interval"),
        (&[bit::ALL], "interval"),
        (&[bit::ALL, 3], "interval(3)"),
        (&[bit::ALL, 9], "interval(6)"),
        (&[bit::YEAR], "interval year"),
        (&[bit::YEAR | bit::MONTH], "interval year to month"),
        (&[bit::DAY | bit::HOUR | bit::MINUTE | bit::SECOND, 0], "interval day to second(0)"),
    ] {
        assert_eq!(Type::by_name("interval", written).map(|t| t.to_string()), Ok(shown.into()));
    }
    for (written, message) in [
        (&[1000][..], "invalid INTERVAL type modifier"),
        (&[bit::ALL, 1, 1], "invalid INTERVAL type modifier"),
        (&[bit::ALL, -1], "INTERVAL(-1) precision must not be negative"),
    ] {
        let e = Type::by_name("interval", written).expect_err("no modifier");
        assert_eq!((e.sqlstate(), &*e.to_string()), ("22023", message));
    }
}

#[test]
fn fields_of_a_type_are_the_unit_of_a_number_and_cut_off_what_is_less() {
    let read = |text: &str, written: &[i32]| {
        let ty = Type::by_name("interval", written).expect("a type");
        let v = text::input(text, ty, &Context::EMPTY).map(|v| match v {
            Value::Opaque(_, b) => shown(Interval::of(&b)),
            other => panic!("{other:?} is no interval"),
        });
        v.unwrap_or_else(|e| format!("{} {e}", e.sqlstate()))
    };
    for (text, written, expected) in [
        ("1", &[bit::YEAR][..], "1 year"),
        ("1.5", &[bit::YEAR], "1 year"),
        ("18 months", &[bit::YEAR], "1 year"),
        ("2", &[bit::YEAR | bit::MONTH], "2 mons"),
        ("1-2 3", &[bit::YEAR | bit::MONTH], "22007 invalid input syntax for type interval: \"1-2 3\""),
        ("1:30", &[bit::MINUTE | bit::SECOND], "00:01:30"),
        ("1:30", &[bit::HOUR | bit::MINUTE], "01:30:00"),
        ("3 4:05:06.789", &[bit::DAY | bit::HOUR], "3 days 04:00:00"),
        ("3 4:05:06.789", &[bit::ALL, 1], "3 days 04:05:06.8"),
        ("-0.05", &[bit::SECOND, 1], "-00:00:00.1"),
    ] {
        assert_eq!(read(text, written), expected, "{text}");
    }
}
