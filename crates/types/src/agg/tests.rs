//! Aggregates against PostgreSQL's answers. Each line of `cases.txt`: name, argument type, the rows' values,
//! "=", and the result; `string_agg` has a comma for its second argument.

use super::*;
use crate::func::tests::{argument, check_lines, type_id, written};
use crate::{SqlResult, Value, ValueRef};

fn feed(state: &mut AggState, type_name: &str, rows: &[&str]) -> SqlResult<()> {
    for row in rows {
        let (t, v) = argument(&format!("{type_name}:{row}"))?;
        let mut scratch = Vec::new();
        let v = v.as_ref(&mut scratch);
        let _kept = match (state.def().args, t) {
            ([_, _], TypeId::BYTEA) => state.step(&[v, ValueRef::Bytea(b",")])?,
            ([_, _], _) => state.step(&[v, ValueRef::Text(",")])?,
            ([], _) => state.step(&[])?,
            _ => state.step(&[v])?,
        };
    }
    Ok(())
}

fn state(name: &str, type_name: &str) -> SqlResult<AggState> {
    let t = type_id(type_name);
    let types = if name == "string_agg" { vec![t, t] } else { vec![t] };
    Ok(AggState::new(resolve_aggregate(name, &types)?.id))
}

fn whole(name: &str, type_name: &str, rows: &[&str]) -> SqlResult<(Value, TypeId)> {
    let mut s = state(name, type_name)?;
    feed(&mut s, type_name, rows)?;
    Ok((s.finish()?, s.def().ret))
}

#[test]
fn aggregates_answer_as_postgresql_does() {
    check_lines(include_str!("cases.txt"), |f| written(whole(f[0], f[1], &f[2..])));
}

/// Two states over the two parts of the rows, merged, answer as one over all; sums of doubles excepted, whose
/// last digit depends on the order of additions.
#[test]
fn merged_states_answer_as_one() {
    for line in include_str!("cases.txt").lines() {
        let (call, _) = line.rsplit_once("\t=\t").expect("a case has an answer");
        let f: Vec<&str> = call.split('\t').collect();
        if f[1] == "double precision" && !matches!(f[0], "min" | "max" | "count") {
            continue;
        }
        let expected = written(whole(f[0], f[1], &f[2..]));
        for cut in 2..=f.len() {
            let merged = || {
                let (mut a, mut b) = (state(f[0], f[1])?, state(f[0], f[1])?);
                feed(&mut a, f[1], &f[2..cut])?;
                feed(&mut b, f[1], &f[cut..])?;
                a.merge(&b)?;
                Ok((a.finish()?, a.def().ret))
            };
            assert_eq!(written(merged()), expected, "{call:?} cut at {cut}");
        }
    }
}

#[test]
fn rows_are_counted_without_arguments() {
    let mut s = AggState::new(resolve_aggregate("count", &[]).expect("count(*)").id);
    s.step(&[]).and_then(|_| s.step(&[])).expect("rows are countable");
    assert_eq!(s.finish(), Ok(Value::Int8(2)));
}

/// A sum may leave the range on its way if it comes back.
#[test]
fn integer_sums_are_exact_until_the_end() {
    let mut s = AggState::new(id::SUM_INT4);
    let all = i64::from(i32::MAX);
    for _ in 0..3 {
        s.step(&[ValueRef::Int4(i32::MAX)]).expect("an integer");
    }
    assert_eq!(s.finish(), Ok(Value::Int8(all * 3)));
    let mut s = AggState::new(id::SUM_INT8);
    for n in [i64::MAX, i64::MAX, i64::MIN] {
        s.step(&[ValueRef::Int8(n)]).expect("a bigint");
    }
    assert_eq!(s.finish(), Ok(Value::Numeric((i128::from(i64::MAX) - 1).into())));
}

#[test]
fn wrong_rows_and_foreign_states_are_errors() {
    for d in all() {
        let mut s = AggState::new(d.id);
        assert!(s.step(&[ValueRef::Int4(1); 3]).is_err(), "{d:?}");
        for w in [ValueRef::Bool(true), ValueRef::Bytea(b"\xff"), ValueRef::Text("x"), ValueRef::Float8(1.0)]
        {
            // Wrong types must not panic, whether or not they are noticed.
            let _ = s.step(&vec![w; d.args.len()]).and_then(|_| s.finish().map(drop));
        }
    }
    let mut s = AggState::new(id::SUM_INT4);
    assert!(s.merge(&AggState::new(id::SUM_INT8)).is_err());
    assert!(find(AggId(u16::MAX)).is_none());
    // A number means one aggregate.
    assert!(all().all(|d| find(d.id).is_some_and(|found| std::ptr::eq(found, d))));
}

#[test]
fn separators_may_be_null_and_differ() {
    let mut s = AggState::new(id::STRING_AGG);
    for (v, sep) in [("a", Some("1")), ("b", None), ("c", Some("-"))] {
        s.step(&[ValueRef::Text(v), sep.map_or(ValueRef::Null, ValueRef::Text)]).expect("text");
    }
    assert_eq!(s.finish(), Ok(Value::Text("ab-c".into())));
    assert!(s.heap_bytes() >= 5);
}
