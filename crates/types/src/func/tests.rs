//! The catalogue against its recorded list, and functions against PostgreSQL's answers.
//!
//! `catalogue.txt` is the recorded list; where a change is meant, write it anew with
//! `ONDOL_BLESS=1 cargo test -p ondol-types`. `cases.txt` holds calls and what PostgreSQL 15 answered: a
//! name, typed arguments, "=", and the result as text, NULL, or "!" with SQLSTATE and message; fields are
//! parted by tabs, and `\\`, `\n` and `\t` stand for a backslash, a line end and a tab.

use super::*;
use crate::style::Styles;
use crate::{Type, resolve};

/// A field of a golden file with its escapes undone.
pub(crate) fn unescape(s: &str) -> String {
    let mut out = String::new();
    let mut chars = s.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, false) => out.push(c),
            _ => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some(other) => out.push(other),
                None => panic!("a backslash at the end of {s:?}"),
            },
        }
    }
    out
}

/// "integer:5" as a type and a value.
pub(crate) fn argument(field: &str) -> SqlResult<(TypeId, Value)> {
    let (name, text) = field.split_once(':').expect("an argument is type:value");
    let id = type_id(name);
    if text == "NULL" {
        return Ok((id, Value::Null));
    }
    Ok((id, crate::text::input(&unescape(text), Type::new(id), &Context::EMPTY)?))
}

pub(crate) fn type_id(name: &str) -> TypeId {
    Type::by_name(name, &[]).expect("a type of a golden file").id
}

/// A result as golden files write it.
pub(crate) fn written(result: SqlResult<(Value, TypeId)>) -> String {
    match result {
        Ok((Value::Null, _)) => "NULL".into(),
        Ok((v, t)) => {
            let (mut scratch, mut out) = (Vec::new(), String::new());
            crate::text::output(v.as_ref(&mut scratch), Type::new(t), &mut out);
            out
        }
        Err(e) => format!("!{} {e}", e.sqlstate()),
    }
}

/// Runs each line of a golden file: fields before "=", and what is expected.
pub(crate) fn check_lines(golden: &str, run: impl Fn(&[&str]) -> String) {
    let mut wrong = Vec::new();
    for line in golden.lines() {
        let (call, expected) = line.rsplit_once("\t=\t").expect("a case has an answer");
        let fields: Vec<&str> = call.split('\t').collect();
        let found = run(&fields);
        if found != unescape(expected) {
            wrong.push(format!("{call:?}: expected {:?}, found {found:?}", unescape(expected)));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

pub(crate) fn call_by_name(fields: &[&str]) -> SqlResult<(Value, TypeId)> {
    let args = fields[1..].iter().map(|f| argument(f)).collect::<SqlResult<Vec<_>>>()?;
    let types: Vec<_> = args.iter().map(|a| a.0).collect();
    let def = resolve::resolve_function(fields[0], &types)?;
    let shape = resolve::polymorphic::concrete(def.args, def.ret, &types)?;
    let given = args.into_iter().zip(&shape.args);
    let mut values: Vec<Value> = given
        .map(|((from, v), to)| match *to {
            ANY => Ok(v),
            to => crate::cast::cast(v, from, Type::new(to), false, &Context::EMPTY),
        })
        .collect::<SqlResult<_>>()?;
    if def.template {
        values.push(crate::array::empty(shape.ret));
    }
    let mut scratch = vec![Vec::new(); values.len()];
    let refs: Vec<_> = values.iter().zip(&mut scratch).map(|(v, s)| v.as_ref(s)).collect();
    Ok((call(def.id, &refs, &Context::EMPTY)?, shape.ret))
}

#[test]
fn functions_answer_as_postgresql_does() {
    check_lines(include_str!("cases.txt"), |fields| written(call_by_name(fields)));
}

fn type_list(types: &[TypeId]) -> String {
    let name = |t: &TypeId| if *t == ANY { "any" } else { t.name() };
    types.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Invariant 1: numbers, names and signatures are those on record.
#[test]
fn the_catalogue_is_the_recorded_one() {
    let mut now = String::new();
    for d in all() {
        now += &format!("{} {}({}) -> {}", d.id.0, d.name, type_list(d.args), d.ret.name());
        if d.variadic {
            now += " variadic";
        }
        if !d.strict {
            now += " called-on-null";
        }
        if d.volatility != Volatility::Immutable {
            now += &format!(" {:?}", d.volatility).to_lowercase();
        }
        if let Some(data) = d.data {
            now += &format!(" by {}", data.code());
        }
        now.push('\n');
    }
    for d in crate::agg::all() {
        let ret = d.ret.name();
        now += &format!("aggregate {} {}({}) -> {ret}\n", d.id.0, d.name, type_list(d.args));
    }
    for d in crate::window::all() {
        let ret = d.ret.name();
        now += &format!("window {} {}({}) -> {ret}\n", d.id.0, d.name, type_list(d.args));
    }
    for o in operators() {
        let left = o.left.map_or(String::new(), |l| type_list(&[l]) + " ");
        now += &format!("operator {left}{} {} = {}\n", o.name, type_list(&[o.right]), o.func.0);
    }
    if std::env::var_os("ONDOL_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/func/catalogue.txt");
        std::fs::write(path, &now).expect("the list can be written");
        return;
    }
    for (now, recorded) in now.lines().zip(include_str!("catalogue.txt").lines()) {
        assert_eq!(now, recorded);
    }
    assert_eq!(now.lines().count(), include_str!("catalogue.txt").lines().count());
}

#[test]
fn strict_functions_are_not_run_on_null() {
    let null = [ValueRef::Null; 7];
    for d in all().filter(|d| d.strict && !d.args.is_empty()) {
        let found = call(d.id, &null[..d.args.len()], &Context::EMPTY).expect("NULL is no error");
        assert_eq!(found, Value::Null, "{d:?}");
    }
}

/// Invariant 4: neither wrong types nor wrong counts may panic.
#[test]
fn wrong_arguments_are_internal_errors() {
    let wrong = [ValueRef::Bool(true), ValueRef::Bytea(b"\xff"), ValueRef::Int8(1), ValueRef::Numeric(b"")];
    for d in all().filter(|d| !d.args.contains(&ANY)) {
        for w in wrong {
            // Those that happen to fit are no mistake.
            let _ = call(d.id, &vec![w; d.args.len()], &Context::EMPTY);
        }
        let e = call(d.id, &[ValueRef::Int4(1); 9], &Context::EMPTY).expect_err("no function takes nine");
        assert_eq!(e.sqlstate(), sqlstate::INTERNAL_ERROR, "{d:?}");
    }
    let e =
        call(id::INT4_ADD, &[ValueRef::Int8(1), ValueRef::Int4(1)], &Context::EMPTY).expect_err("a bigint");
    assert_eq!(e.to_string(), "argument 1 should be Int4, found Some(Int8(1))");
    assert!(find(FuncId(u16::MAX)).is_none());
    assert!(call(FuncId(u16::MAX), &[], &Context::EMPTY).is_err());
}

/// Values to hold against each other, of every type that has an order.
fn samples(t: TypeId) -> Vec<Value> {
    match t {
        TypeId::BOOL => vec![Value::Bool(false), Value::Bool(true)],
        TypeId::INT2 => [i16::MIN, -1, 0, 7, i16::MAX].map(Value::Int2).into(),
        TypeId::INT4 => [i32::MIN, -1, 0, 7, i32::MAX].map(Value::Int4).into(),
        TypeId::INT8 => [i64::MIN, -1, 0, 7, 1 << 31, i64::MAX].map(Value::Int8).into(),
        TypeId::FLOAT8 => [f64::NEG_INFINITY, -0.0, 0.0, 1.5, f64::NAN].map(Value::Float8).into(),
        TypeId::NUMERIC => ["-1.50", "0", "1.5", "1.500", "NaN", "Infinity"]
            .map(|n| Value::Numeric(Numeric::parse(n).expect("a number")))
            .into(),
        TypeId::ANYARRAY => ["{}", "{1}", "{NULL}", "{1,2}", "{{1,2}}", "[0:1]={1,2}", "{2,NULL}"]
            .map(|t| crate::text::input(t, Type::new(sig::Int4Array), &Context::EMPTY).expect("an array"))
            .into(),
        sig::TextArray => ["{}", "{a}", "{a,NULL}", "{b,a}"]
            .map(|t| crate::text::input(t, Type::new(sig::TextArray), &Context::EMPTY).expect("an array"))
            .into(),
        TypeId::RECORD => crate::catalog::record::samples(),
        TypeId::BPCHAR | TypeId::TEXT => ["", "a", "ab", "b", "ä"].map(|s| Value::Text(s.into())).into(),
        TypeId::BYTEA => [&b""[..], b"a", b"\xff"].map(|b| Value::Bytea(b.into())).into(),
        TypeId::DATE => [i32::MIN, -1, 0, 1, 2_145_031_948, i32::MAX].map(Value::Date).into(),
        TypeId::TIMESTAMP => [i64::MIN, -1, 0, 86_400_000_000, i64::MAX].map(Value::Timestamp).into(),
        TypeId::TIMESTAMPTZ => [i64::MIN, -1, 0, 86_400_000_000, i64::MAX].map(Value::Timestamptz).into(),
        other => {
            let (_, texts) =
                crate::catalog::SAMPLES.iter().find(|(t, _)| *t == other).expect("samples of every type");
            let read = |t: &&str| crate::text::input(t, Type::new(other), &Context::EMPTY).expect("a value");
            texts.iter().copied().flatten().map(read).collect()
        }
    }
}

fn apply(o: &OperatorDef, a: &Value, b: &Value) -> SqlResult<Value> {
    let (mut sa, mut sb) = (Vec::new(), Vec::new());
    call(o.func, &[a.as_ref(&mut sa), b.as_ref(&mut sb)], &Context::EMPTY)
}

/// `b op2 a` is `a op b` for a commutator, and `a op2 b` is `NOT (a op b)` for a negator.
#[test]
fn commutators_and_negators_are_what_they_say() {
    let mut checked = 0;
    for o in operators().iter().filter(|o| {
        o.left.is_some() && !o.args().iter().any(|t| t.is_polymorphic() && *t != TypeId::ANYARRAY)
    }) {
        let left = o.left.expect("binary operators only");
        let other = |name: &str, l, r| {
            operator::by_symbol(name, false)
                .find(|c| c.left == Some(l) && c.right == r)
                .unwrap_or_else(|| panic!("{o:?} names {name}, which is not there"))
        };
        let swapped = o.commutator.map(|n| other(n, o.right, left));
        let negated = o.negator.map(|n| other(n, left, o.right));
        for (a, b) in
            samples(left).iter().flat_map(|a| samples(o.right).into_iter().map(move |b| (a.clone(), b)))
        {
            let found = apply(o, &a, &b);
            // NaN differs from itself to Rust, so results are compared as they print.
            let shown = |r: &SqlResult<Value>| format!("{r:?}");
            if let Some(c) = swapped {
                assert_eq!(shown(&found), shown(&apply(c, &b, &a)), "{a:?} {} {b:?}", o.name);
                checked += 1;
            }
            if let (Some(n), Ok(Value::Bool(yes))) = (negated, &found) {
                assert_eq!(apply(n, &a, &b).ok(), Some(Value::Bool(!yes)), "{a:?} {} {b:?}", o.name);
                checked += 1;
            }
        }
    }
    assert!(checked > 5000, "only {checked} pairs were compared");
}

#[test]
fn the_context_is_what_the_clock_functions_read() {
    let ctx = Context {
        now_us: 86_400_000_001,
        statement_us: 5,
        clock: &|| 7,
        random: &|| u64::MAX,
        user: "u",
        session_user: "s",
        database: "d",
        version: "v",
        limits: Limits::NONE,
        caller: &super::NoCaller,
        objects: &crate::objects::Nothing,
        styles: Styles::USUAL,
    };
    let run = |f| call(f, &[], &ctx).expect("no arguments, no errors");
    assert_eq!(run(id::NOW), Value::Timestamptz(86_400_000_001));
    assert_eq!(run(id::CURRENT_DATE), Value::Date(1));
    assert_eq!(run(id::LOCALTIMESTAMP), Value::Timestamp(86_400_000_001));
    assert_eq!(run(id::STATEMENT_TIMESTAMP), Value::Timestamptz(5));
    assert_eq!(run(id::CLOCK_TIMESTAMP), Value::Timestamptz(7));
    assert_eq!(run(id::CURRENT_USER), Value::Text("u".into()));
    assert_eq!(run(id::CURRENT_DATABASE), Value::Text("d".into()));
    assert_eq!(run(id::VERSION), Value::Text("v".into()));
    let Value::Float8(r) = run(id::RANDOM) else { panic!("random() is a double") };
    assert!((0.999..1.0).contains(&r));
}

#[test]
fn padding_is_given_back_where_it_is_seen() {
    let args = [ValueRef::Text("äb"), ValueRef::Int4(4)];
    assert_eq!(call(id::BPCHAR_PAD, &args, &Context::EMPTY), Ok(Value::Text("äb  ".into())));
    assert!(sees_padding(id::BPCHAR_LIKE) && !sees_padding(id::BPCHAR_EQ));
}

#[test]
fn operators_are_in_order() {
    assert!(operators().is_sorted_by_key(|o| o.name));
    assert_eq!(operator::by_symbol("!=", false).count(), operator::by_symbol("<>", false).count());
    assert_eq!((operator::by_symbol("-", true).count(), operator::by_symbol("-", false).count()), (7, 28));
    assert_eq!(operator::by_symbol("???", false).count(), 0);
}

#[test]
fn operators_are_found_by_function() {
    let of = |f| operator::of_function(f).map(|o| o.name);
    assert_eq!((of(id::INT4_ADD), of(id::TEXT_LIKE), of(id::LOWER)), (Some("+"), Some("~~"), None));
}
