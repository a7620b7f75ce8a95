//! json: a text that was looked at, and is kept as it was written. It has no equality.

use super::find::{PathStep, in_text};
use super::parse::{Parser, Part};
use super::spread::{self, Refusal, Wanted};
use super::{
    check, make, pairs_of, path_of, plain_value, populate, populated, populated_rows, quote, template_of,
    uneven,
};
use crate::agg::{AggDef, Kind, aggregates};
use crate::array::Array;
use crate::cast::CastContext::Assignment;
use crate::catalog::json::{Gathers, binary, change::wrong};
use crate::catalog::{Cast, Form, Key};
use crate::func::operator::binary as operator;
use crate::func::{Call, OperatorDef, functions};
use crate::ty::{Category, TypeDef};
use crate::{SqlResult, TypeId, Value, ValueRef};

pub(in crate::catalog) const TYPE: TypeDef =
    TypeDef::opaque(114, "json", "json", Category::User, &FORM).array(199);

static FORM: Form = Form {
    width: None,
    input: |text, _, ctx| {
        ctx.limits.take(text.len())?;
        check(text, ctx)?;
        Ok(plain_value(text.to_string()))
    },
    output: |_, bytes, out| out.push_str(&String::from_utf8_lossy(bytes)),
    // There is none in SQL. What is kept apart by values needs some.
    compare: |a, b| a.cmp(b),
    key: Key::Ended(|bytes, out| {
        out.extend(bytes.iter().copied().filter(|b| *b != 0));
        out.push(0)
    }),
};

/// What was found at a path, as JSON or as text.
fn found(c: &Call<'_>, path: &[PathStep<'_>], as_text: bool) -> SqlResult<Value> {
    let text = c.json(0)?;
    Ok(match in_text(text, path)? {
        None => Value::Null,
        Some((Part::Null, _)) if as_text => Value::Null,
        Some((Part::String(s), _)) if as_text => Value::Text(s.into_owned()),
        Some((_, place)) => {
            let found = text.get(place).unwrap_or_default().to_string();
            if as_text { Value::Text(found) } else { plain_value(found) }
        }
    })
}

fn at_path(c: &Call<'_>, steps: &[Option<&str>], as_text: bool) -> SqlResult<Value> {
    path_of(steps).map_or(Ok(Value::Null), |path| found(c, &path, as_text))
}

fn spread_as(c: &Call<'_>, wanted: Wanted, ty: TypeId, refusal: [&'static str; 2]) -> SqlResult<Value> {
    let [array, scalar] = refusal;
    spread::of_text(c.json(0)?, wanted, ty, &Refusal { array, scalar }, c.ctx)
}

const NO_PAIRS: [&str; 2] = ["cannot deconstruct an array as an object", "cannot deconstruct a scalar"];

fn kind(c: &Call<'_>) -> SqlResult<Value> {
    let kind = match Parser::new(c.json(0)?, false).next()? {
        Some(Part::ObjectStart) => "object",
        Some(Part::ArrayStart) => "array",
        Some(Part::String(_)) => "string",
        Some(Part::Number(_)) => "number",
        Some(Part::Bool(_)) => "boolean",
        _ => "null",
    };
    Ok(Value::Text(kind.into()))
}

fn converted(c: &Call<'_>, lines: bool) -> SqlResult<Value> {
    make::to_text(c.args[0], lines, c.ctx).map(plain_value)
}

fn object_of(c: &Call<'_>, values: &[ValueRef<'_>]) -> SqlResult<Value> {
    let (pairs, []) = values.as_chunks::<2>() else { return Err(uneven("json_build_object")) };
    let mut out = String::from("{");
    for (n, [key, value]) in pairs.iter().enumerate() {
        if n > 0 {
            out.push_str(", ")
        }
        if key.is_null() {
            let message = format!("argument {} cannot be null", 2 * n + 1);
            return Err(wrong(message).hint("Object keys should be text."));
        }
        quote(&make::key(*key, &c.ctx.styles)?, &mut out);
        out.push_str(" : ");
        make::push(*value, &c.ctx.styles, false, c.limits(), &mut out)?;
    }
    out.push('}');
    c.limits().take(out.len())?;
    Ok(plain_value(out))
}

fn array_of(c: &Call<'_>, values: &[ValueRef<'_>]) -> SqlResult<Value> {
    let mut out = String::from("[");
    for (n, value) in values.iter().enumerate() {
        if n > 0 {
            out.push_str(", ")
        }
        make::push(*value, &c.ctx.styles, false, c.limits(), &mut out)?;
    }
    out.push(']');
    c.limits().take(out.len())?;
    Ok(plain_value(out))
}

/// The items of an array that stands for arguments.
pub(super) fn items<'a>(c: &Call<'a>) -> Vec<ValueRef<'a>> {
    match c.args.first() {
        Some(ValueRef::Opaque(ty, b)) => {
            let array = Array::of_type(*ty, b);
            (0..array.len()).map(|i| array.stored(i)).collect()
        }
        _ => Vec::new(),
    }
}

fn object(c: &Call<'_>) -> SqlResult<Value> {
    let mut out = String::from("{");
    for (n, (key, value)) in pairs_of(c)?.into_iter().enumerate() {
        if n > 0 {
            out.push_str(", ")
        }
        quote(&key, &mut out);
        out.push_str(" : ");
        match value {
            Some(value) => quote(&value, &mut out),
            None => out.push_str("null"),
        }
    }
    out.push('}');
    Ok(plain_value(out))
}

functions! {
    1287 JSON_BUILD_OBJECT "json_build_object" (Any) -> Json =
        |c| object_of(c, c.args), variadic, lax, stable;
    1288 JSON_BUILD_EMPTY_OBJECT "json_build_object" () -> Json = |c| object_of(c, &[]), lax, stable;
    1540 JSON_FIELD "json_object_field" (Json, Text) -> Json =
        |c| found(c, &[PathStep::Key(c.text(1)?)], false);
    1541 JSON_FIELD_TEXT "json_object_field_text" (Json, Text) -> Text =
        |c| found(c, &[PathStep::Key(c.text(1)?)], true);
    1542 JSON_ITEM "json_array_element" (Json, Int4) -> Json =
        |c| found(c, &[PathStep::Place(c.int4(1)?)], false);
    1543 JSON_ITEM_TEXT "json_array_element_text" (Json, Int4) -> Text =
        |c| found(c, &[PathStep::Place(c.int4(1)?)], true);
    1544 JSON_AT "$json_extract_path" (Json, TextArray) -> Json = |c| at_path(c, &c.texts(1)?, false);
    1545 JSON_EXTRACT_PATH "json_extract_path" (Json, Text) -> Json =
        |c| at_path(c, &c.texts_from(1)?, false), variadic;
    1546 JSON_TEXT_AT "$json_extract_path_text" (Json, TextArray) -> Text =
        |c| at_path(c, &c.texts(1)?, true);
    1547 JSON_EXTRACT_PATH_TEXT "json_extract_path_text" (Json, Text) -> Text =
        |c| at_path(c, &c.texts_from(1)?, true), variadic;
    1548 JSON_ARRAY_LENGTH "json_array_length" (Json) -> Int4 =
        |c| spread::length_of_text(c.json(0)?).map(Value::Int4);
    1549 JSON_TYPEOF "json_typeof" (Json) -> Text = |c| kind(c);
    1550 JSON_STRIP_NULLS "json_strip_nulls" (Json) -> Json =
        |c| spread::without_nulls(c.json(0)?, c.ctx).map(plain_value);
    1551 JSON_KEYS "$json_object_keys" (Json) -> TextArray = |c| spread_as(c, Wanted::Keys, TypeId::TEXT,
        ["cannot call json_object_keys on an array", "cannot call json_object_keys on a scalar"]);
    1552 JSON_ITEMS "$json_array_elements" (Json) -> JsonArray = |c| spread_as(c, Wanted::Items, TypeId::JSON,
        ["cannot call json_array_elements on a non-array", "cannot call json_array_elements on a scalar"]);
    1553 JSON_ITEM_TEXTS "$json_array_elements_text" (Json) -> TextArray =
        |c| spread_as(c, Wanted::Items, TypeId::TEXT, ["cannot call json_array_elements_text on a non-array",
            "cannot call json_array_elements_text on a scalar"]);
    1554 JSON_EACH_KEY "$json_each_key" (Json) -> TextArray =
        |c| spread_as(c, Wanted::Keys, TypeId::TEXT, NO_PAIRS);
    1555 JSON_EACH_VALUE "$json_each_value" (Json) -> JsonArray =
        |c| spread_as(c, Wanted::Values, TypeId::JSON, NO_PAIRS);
    1556 JSON_EACH_TEXT "$json_each_text" (Json) -> TextArray =
        |c| spread_as(c, Wanted::Values, TypeId::TEXT, NO_PAIRS);
    1557 TO_JSON "to_json" (AnyElement) -> Json = |c| converted(c, false), stable;
    1558 ARRAY_TO_JSON "array_to_json" (AnyArray) -> Json = |c| converted(c, false), stable;
    1559 ARRAY_TO_JSON_LINES "array_to_json" (AnyArray, Bool) -> Json = |c| converted(c, c.bool(1)?), stable;
    1560 ROW_TO_JSON "row_to_json" (Record) -> Json = |c| converted(c, false), stable;
    1561 ROW_TO_JSON_LINES "row_to_json" (Record, Bool) -> Json = |c| converted(c, c.bool(1)?), stable;
    1562 JSON_BUILD_ARRAY "json_build_array" (Any) -> Json = |c| array_of(c, c.args), variadic, lax, stable;
    1563 JSON_BUILD_EMPTY_ARRAY "json_build_array" () -> Json = |c| array_of(c, &[]), lax, stable;
    1564 JSON_OBJECT_OF "$json_build_object" (AnyArray) -> Json = |c| object_of(c, &items(c)), stable;
    1565 JSON_ARRAY_OF "$json_build_array" (AnyArray) -> Json = |c| array_of(c, &items(c)), stable;
    1566 JSON_OBJECT "json_object" (TextArray) -> Json = |c| object(c);
    1567 JSON_OBJECT_OF_TWO "json_object" (TextArray, TextArray) -> Json = |c| object(c);
    1568 JSON_POPULATE_RECORD "json_populate_record" (AnyElement, Json, Bool) -> AnyElement =
        |c| populated(c), lax, stable, template;
    1569 JSON_POPULATE "json_populate_record" (AnyElement, Json) -> AnyElement =
        |c| populated(c), lax, stable, template;
    1570 JSON_POPULATE_ROWS "$json_populate_recordset" (AnyElement, Json) -> AnyArray =
        |c| populated_rows(c, "json_populate_recordset"), lax, stable, template;
    1571 JSON_POPULATE_RECORDSET "$json_populate_recordset" (AnyElement, Json, Bool) -> AnyArray =
        |c| populated_rows(c, "json_populate_recordset"), lax, stable, template;
    // (the template, the object)
    1572 JSON_TO_RECORD "$json_to_record" (Any, Json) -> Record = |c| {
        let (ty, fields) = template_of(c)?;
        populate::row(&populate::Source::of(c.args[1])?, ty, &fields, ValueRef::Null, c.ctx)
    }, stable;
    1573 JSON_TO_RECORDSET "$json_to_recordset" (Any, Json) -> RecordArray = |c| {
        let (ty, fields) = template_of(c)?;
        let of = populate::Source::of(c.args[1])?;
        populate::rows(&of, ty, &fields, ValueRef::Null, "json_to_recordset", c.ctx)
    }, stable;
    // The session's styles, for aggregates.
    1574 STYLES "$styles" () -> Text = |c| Ok(Value::Text(c.ctx.styles.written())), stable;
}

const fn found_by(name: &'static str, right: TypeId, func: crate::func::FuncId) -> OperatorDef {
    operator(name, TypeId::JSON, right, func, "", "")
}

pub(in crate::catalog) const OPERATORS: &[&[OperatorDef]] = &[&[
    found_by("->", TypeId::TEXT, id::JSON_FIELD),
    found_by("->", TypeId::INT4, id::JSON_ITEM),
    found_by("->>", TypeId::TEXT, id::JSON_FIELD_TEXT),
    found_by("->>", TypeId::INT4, id::JSON_ITEM_TEXT),
    found_by("#>", TypeId::TEXT.of_arrays(), id::JSON_AT),
    found_by("#>>", TypeId::TEXT.of_arrays(), id::JSON_TEXT_AT),
]];

pub(in crate::catalog) const CASTS: &[Cast] = &[Cast {
    from: TypeId::JSON,
    to: TypeId::JSONB,
    context: Assignment,
    run: |v, _, ctx| match v {
        ValueRef::Opaque(_, b) => binary::read(std::str::from_utf8(b).unwrap_or("null"), ctx),
        other => Ok(other.to_owned()),
    },
}];

mod aggregates {
    use super::*;
    aggregates! {
        180 JSON_AGG "json_agg" (AnyElement) -> Json =
            Kind::Json(Gathers { is_binary: false, is_object: false });
        181 JSON_OBJECT_AGG "json_object_agg" (crate::func::ANY, crate::func::ANY) -> Json =
            Kind::Json(Gathers { is_binary: false, is_object: true });
    }
}
pub(in crate::catalog) const AGGREGATES: &[AggDef] = aggregates::DEFS;

/// Each is equal to itself alone.
#[cfg(test)]
pub(in crate::catalog) const SAMPLES: &[&[&str]] =
    &[&[" [1, 2 ]"], &["\"x\""], &["1"], &["1.0"], &["null"], &["{\"b\":1, \"a\":2, \"b\":3}"]];
