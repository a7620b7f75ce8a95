//! The recorded answers of PostgreSQL 15 against ours: every line of `answers/*.txt` is a function, its
//! arguments, and what PostgreSQL said, errors included.
//!
//! The cases were drawn by hand where corners are (limits, signs, infinities, malformed text, odd dates) and
//! at random around them. One line of exp() is left out on purpose: PostgreSQL's own last digit is wrong
//! there.

use ondol_types::func::Context;
use ondol_types::limits::Limits;
use ondol_types::{Numeric, SqlResult, Type, TypeId, Value, ValueRef, cast, datetime, key, text};
use std::cmp::Ordering;

/// `name` or `name:modifier`.
fn parse_type(s: &str) -> Type {
    let (name, modifier) = s.split_once(':').unwrap_or((s, "-1"));
    Type::with(TypeId::from_name(name).expect("a type's name"), modifier.parse().expect("a modifier"))
}

fn show(v: SqlResult<Value>, id: TypeId) -> String {
    match v {
        Ok(Value::Null) => "NULL".to_string(),
        Ok(v) => {
            let (mut scratch, mut out) = (Vec::new(), String::new());
            text::output(v.as_ref(&mut scratch), Type::new(id), &mut out);
            out
        }
        Err(e) => {
            let f = &e.0;
            let part = |p: &Option<String>| p.clone().unwrap_or_default();
            format!("ERR {} {} | {} | {}", f.sqlstate, f.message, part(&f.detail), part(&f.hint))
        }
    }
}

fn numeric_key(encoded: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    key::encode(ValueRef::Numeric(encoded), TypeId::NUMERIC, false, false, true, &mut out);
    out
}

/// Compares in the three ways there are, which must agree.
fn compare(a: &Numeric, b: &Numeric) -> Ordering {
    let (mut x, mut y) = (Vec::new(), Vec::new());
    a.encode(&mut x);
    b.encode(&mut y);
    let order = a.cmp(b);
    assert_eq!(Numeric::cmp_encoded(&x, &y), order, "{a} {b}");
    assert_eq!(numeric_key(&x).cmp(&numeric_key(&y)), order, "{a} {b}");
    order
}

fn answer(f: &[&str]) -> String {
    let ctx = Context::EMPTY;
    let numeric = |r: SqlResult<Numeric>| show(r.map(Value::Numeric), TypeId::NUMERIC);
    let field = |r: SqlResult<Option<Numeric>>| {
        show(r.map(|v| v.map_or(Value::Null, Value::Numeric)), TypeId::NUMERIC)
    };
    let one = |g: fn(&Numeric) -> SqlResult<Numeric>| numeric(Numeric::parse(f[1]).and_then(|a| g(&a)));
    let two = |g: fn(&Numeric, &Numeric) -> SqlResult<Numeric>| {
        numeric(Numeric::parse(f[1]).and_then(|a| g(&a, &Numeric::parse(f[2])?)))
    };
    let scale = |g: fn(&Numeric, i32) -> SqlResult<Numeric>| {
        numeric(Numeric::parse(f[1]).and_then(|a| g(&a, f[2].parse().expect("a scale"))))
    };
    match f[0] {
        "in" => {
            let ty = parse_type(f[1]);
            show(text::input(f[2], ty, &ctx), ty.id)
        }
        "cast" => {
            let (from, to) = (parse_type(f[1]), parse_type(f[2]));
            let v = text::input(f[3], from, &ctx);
            show(v.and_then(|v| cast::cast(v, from.id, to, f[4] == "e", &ctx)), to.id)
        }
        "add" => two(Numeric::add),
        "sub" => two(Numeric::sub),
        "mul" => two(Numeric::mul),
        "div" => two(Numeric::div),
        "divt" => two(Numeric::div_trunc),
        "rem" => two(Numeric::rem),
        "pow" => two(|a, b| a.power(b, &Limits::NONE)),
        "log" => two(|a, b| a.log(b, &Limits::NONE)),
        "sqrt" => one(|a| a.sqrt(&Limits::NONE)),
        "exp" => one(|a| a.exp(&Limits::NONE)),
        "ln" => one(|a| a.ln(&Limits::NONE)),
        "ceil" => one(Numeric::ceil),
        "floor" => one(Numeric::floor),
        "trim" => one(|a| Ok(a.trim_scale())),
        "round" => scale(Numeric::round),
        "trunc" => scale(Numeric::trunc),
        "cmp" => {
            let parse = |s| Numeric::parse(s).expect("a number");
            (compare(&parse(f[1]), &parse(f[2])) as i32).to_string()
        }
        "ext" => {
            field(datetime::parse_timestamp(f[2], &ctx).and_then(|t| datetime::extract_timestamp(f[1], t)))
        }
        "extd" => field(datetime::parse_date(f[2], &ctx).and_then(|d| datetime::extract_date(f[1], d))),
        "trn" => {
            let t =
                datetime::parse_timestamp(f[2], &ctx).and_then(|t| datetime::date_trunc_timestamp(f[1], t));
            show(t.map(Value::Timestamp), TypeId::TIMESTAMP)
        }
        other => panic!("the answers name no function {other}"),
    }
}

fn check(file: &str, answers: &str) {
    let mut wrong = Vec::new();
    let mut lines = 0;
    for line in answers.lines().filter(|l| !l.starts_with('#')) {
        let (question, expected) = line.rsplit_once('\t').expect("a question and its answer");
        let fields: Vec<&str> = question.split('\t').collect();
        let found = answer(&fields);
        lines += 1;
        if found != expected {
            wrong.push(format!("{fields:?}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(lines > 100, "{file} has only {lines} answers");
    assert!(wrong.is_empty(), "{file}: {} of {lines} differ\n{}", wrong.len(), wrong.join("\n"));
}

macro_rules! answers {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(stringify!($name), include_str!(concat!("answers/", stringify!($name), ".txt")));
        })*
    };
}
answers!(numeric math float cast datetime interval);
