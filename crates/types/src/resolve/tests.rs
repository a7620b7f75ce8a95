//! Choices against PostgreSQL's. Each line of `cases.txt` is a question, "=", and PostgreSQL 15's answer:
//! `operator symbol left right` (the function behind it; "-" for no left side), `function name types...` and
//! `aggregate name types...` (the declared arguments), `case types...` (the common type),
//! `type name modifiers...` (as format_type writes it). What PostgreSQL has and this database has not is
//! answered with 0A000 there.

use super::*;
use crate::func::tests::{check_lines, type_id};

fn arguments(args: &[TypeId]) -> String {
    let name = |t: &TypeId| if *t == ANY { "any" } else { t.name() };
    args.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn answer(fields: &[&str]) -> SqlResult<String> {
    let types = |names: &[&str]| names.iter().map(|n| type_id(n)).collect::<Vec<_>>();
    match fields {
        ["operator", name, left, right] => {
            let left = (*left != "-").then(|| type_id(left));
            resolve_operator(name, left, type_id(right)).map(|o| o.def().name.to_string())
        }
        ["function", name, given @ ..] => resolve_function(name, &types(given)).map(|d| arguments(d.args)),
        ["aggregate", name, given @ ..] => {
            crate::agg::resolve_aggregate(name, &types(given)).map(|d| arguments(d.args))
        }
        ["case", given @ ..] => common_type(&types(given), "CASE").map(|t| t.name().to_string()),
        ["type", name, modifiers @ ..] => {
            let modifiers: Vec<i32> = modifiers.iter().map(|m| m.parse().expect("a number")).collect();
            Type::by_name(name, &modifiers).map(|t| t.to_string())
        }
        other => panic!("what is {other:?}?"),
    }
}

#[test]
fn choices_are_postgresqls() {
    check_lines(include_str!("cases.txt"), |fields| match answer(fields) {
        Ok(found) => found,
        Err(e) => format!("!{} {e}", e.sqlstate()),
    });
}

fn fields(e: &SqlError) -> (&str, &str, Option<&str>) {
    (e.sqlstate(), &e.0.message, e.0.hint.as_deref())
}

#[test]
fn errors_have_postgresqls_hints() {
    let e = resolve_function("foo", &[TypeId::INT4, TypeId::UNKNOWN]).expect_err("no such function");
    let hint =
        "No function matches the given name and argument types. You might need to add explicit type casts.";
    assert_eq!(fields(&e), ("42883", "function foo(integer, unknown) does not exist", Some(hint)));

    let e = resolve_operator("+", Some(TypeId::TEXT), TypeId::INT4).expect_err("no such operator");
    let hint =
        "No operator matches the given name and argument types. You might need to add explicit type casts.";
    assert_eq!(fields(&e), ("42883", "operator does not exist: text + integer", Some(hint)));

    let e = resolve_operator("-", None, TypeId::TEXT).expect_err("no such operator");
    let hint =
        "No operator matches the given name and argument type. You might need to add an explicit type cast.";
    assert_eq!(fields(&e), ("42883", "operator does not exist: - text", Some(hint)));

    let e = resolve_operator("+", Some(TypeId::UNKNOWN), TypeId::UNKNOWN).expect_err("ambiguous");
    let hint = "Could not choose a best candidate operator. You might need to add explicit type casts.";
    assert_eq!(fields(&e), ("42725", "operator is not unique: unknown + unknown", Some(hint)));

    let e = resolve_function("date_trunc", &[TypeId::UNKNOWN, TypeId::UNKNOWN]).expect_err("ambiguous");
    let hint = "Could not choose a best candidate function. You might need to add explicit type casts.";
    assert_eq!(fields(&e), ("42725", "function date_trunc(unknown, unknown) is not unique", Some(hint)));
}

#[test]
fn what_only_postgresql_has_is_not_supported() {
    for e in [
        resolve_function("to_tsvector", &[TypeId::TEXT]).err(),
        resolve_operator("@@", Some(TypeId::TEXT), TypeId::TEXT).err(),
        crate::agg::resolve_aggregate("regr_count", &[TypeId::FLOAT8, TypeId::FLOAT8]).err(),
        Type::by_name("inet", &[]).err(),
        Type::by_name("bit varying", &[]).err(),
    ] {
        assert_eq!(e.map(|e| e.sqlstate()), Some("0A000"));
    }
    let e = Type::by_name("nosuch", &[]).expect_err("no such type");
    assert_eq!(fields(&e), ("42704", "type \"nosuch\" does not exist", None));
}

#[test]
fn a_variadic_function_takes_any_number() {
    let concat = resolve_function("concat", &[TypeId::INT4, TypeId::UNKNOWN, TypeId::BOOL, TypeId::TEXT])
        .expect("concat takes anything");
    assert_eq!(concat.id, func::id::CONCAT);
    assert!(resolve_function("concat", &[]).is_err());
    assert!(resolve_function("concat_ws", &[TypeId::TEXT]).is_err());
}

#[test]
fn calls_by_type_names_are_casts() {
    assert_eq!(cast_by_function_name("date", TypeId::TIMESTAMPTZ), Some(TypeId::DATE));
    assert_eq!(cast_by_function_name("text", TypeId::INT4), Some(TypeId::TEXT));
    assert_eq!(cast_by_function_name("int4", TypeId::UNKNOWN), Some(TypeId::INT4));
    assert_eq!(cast_by_function_name("date", TypeId::BOOL), None);
    assert_eq!(cast_by_function_name("integer", TypeId::INT4), None);
}

#[test]
fn a_common_modifier_is_kept_only_if_all_share_it() {
    let v = |n| Type::with(TypeId::VARCHAR, n);
    assert_eq!(common_typmod(&[v(24), v(24)], TypeId::VARCHAR), 24);
    assert_eq!(common_typmod(&[v(24), v(14)], TypeId::VARCHAR), -1);
    assert_eq!(common_typmod(&[v(24), v(24)], TypeId::TEXT), -1);
    assert_eq!(common_typmod(&[], TypeId::TEXT), -1);
}

/// What PostgreSQL 15 makes of calls with arrays: the types that the arguments are cast to, and the result's.
#[test]
fn polymorphic_arguments_agree() {
    let function = |name: &str, given: &[&str]| {
        let given: Vec<TypeId> = given.iter().map(|t| type_id(t)).collect();
        let def = resolve_function(name, &given)?;
        let shape = polymorphic::concrete(def.args, def.ret, &given)?;
        Ok(format!("{} -> {}", arguments(&shape.args), shape.ret))
    };
    let told = |r: SqlResult<String>| r.unwrap_or_else(|e| format!("!{} {e}", e.sqlstate()));
    for (name, given, found) in [
        ("array_append", &["integer[]", "unknown"][..], "integer[], integer -> integer[]"),
        ("array_append", &["integer[]", "numeric"], "numeric[], numeric -> numeric[]"),
        ("array_append", &["unknown", "integer"], "integer[], integer -> integer[]"),
        ("array_append", &["unknown", "unknown"], "text[], text -> text[]"),
        (
            "array_cat",
            &["_varchar", "text[]"],
            "character varying[], character varying[] -> character varying[]",
        ),
        ("array_fill", &["date", "unknown"], "date, integer[] -> date[]"),
        ("array_eq", &["integer[]", "unknown"], "integer[], integer[] -> boolean"),
        (
            "array_append",
            &["integer[]", "text"],
            "!42883 function array_append(integer[], text) does not exist",
        ),
        (
            "array_eq",
            &["integer[]", "bigint[]"],
            "!42883 function array_eq(integer[], bigint[]) does not exist",
        ),
        (
            "array_length",
            &["unknown", "integer"],
            "!42804 could not determine polymorphic type because input has type unknown",
        ),
        (
            "array_fill",
            &["integer[]", "integer[]"],
            "!42704 could not find array type for data type integer[]",
        ),
    ] {
        assert_eq!(told(function(name, given)), found, "{name} {given:?}");
    }
    let operator = |left: &str, right: &str| {
        resolve_operator("||", Some(type_id(left)), type_id(right)).map(|o| o.def().name.to_string())
    };
    for (left, right, found) in [
        ("integer[]", "unknown", "array_cat"),
        ("unknown", "integer[]", "array_cat"),
        ("integer[]", "integer", "array_append"),
        ("bigint", "integer[]", "array_prepend"),
        ("text", "unknown", "textcat"),
        ("unknown", "unknown", "textcat"),
        ("text", "integer", "textanycat"),
        ("text", "integer[]", "!42883 operator does not exist: text || integer[]"),
    ] {
        assert_eq!(told(operator(left, right)), found, "{left} || {right}");
    }
}
