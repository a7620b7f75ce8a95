//! jsonb: a value of JSON, in a form in which what is asked for is found without looking at the rest.

use super::change::{self, Change, wrong};
use super::find::{PathStep, in_value};
use super::plain::items;
use super::spread::{self, Refusal, Wanted};
use super::stored::{self, Node};
use super::{
    Gathers, build, make, order, pairs_of, path_of, populate, populated, populated_rows, push_json, show,
    template_of, uneven,
};
use crate::agg::{AggDef, Kind, aggregates};
use crate::array::Array;
use crate::cast::CastContext::{Assignment, Explicit};
use crate::catalog::{Cast, Form, Key, compares, comparisons};
use crate::func::operator::binary;
use crate::func::{Call, Context, FuncId, OperatorDef, functions};
use crate::limits::Limits;
use crate::ty::{Category, TypeDef};
use crate::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, cast, sqlstate};

pub(in crate::catalog) const TYPE: TypeDef =
    TypeDef::opaque(3802, "jsonb", "jsonb", Category::User, &FORM).array(3807);

static FORM: Form = Form {
    width: None,
    input: |text, _, ctx| read(text, ctx),
    output: |_, bytes, out| {
        let before = out.len();
        if push_json(bytes, &Limits::NONE, out).is_err() {
            out.truncate(before);
            out.push_str("null");
        }
    },
    compare: order::compare,
    key: Key::Ended(order::push_key),
};

/// The value that a text is.
pub(super) fn read(text: &str, ctx: &Context<'_>) -> SqlResult<Value> {
    build::of_text(text, &ctx.limits)
}

fn found(c: &Call<'_>, path: &[PathStep<'_>], as_text: bool) -> SqlResult<Value> {
    let Some(node) = in_value(c.opaque(0)?, path)? else { return Ok(Value::Null) };
    c.limits().take(node.len())?;
    match as_text {
        true => Ok(show::as_text(node, c.limits())?.map_or(Value::Null, Value::Text)),
        false => Ok(stored::of_node(node)),
    }
}

fn at_path(c: &Call<'_>, steps: &[Option<&str>], as_text: bool) -> SqlResult<Value> {
    path_of(steps).map_or(Ok(Value::Null), |path| found(c, &path, as_text))
}

fn spread_as(c: &Call<'_>, wanted: Wanted, ty: TypeId, refusal: [&'static str; 2]) -> SqlResult<Value> {
    let [array, scalar] = refusal;
    spread::of_value(c.opaque(0)?, wanted, ty, &Refusal { array, scalar }, c.ctx)
}

const NO_ITEMS: [&str; 2] =
    ["cannot extract elements from an object", "cannot extract elements from a scalar"];
const NO_EACH: [&str; 2] = ["cannot call jsonb_each on a non-object"; 2];
const NO_EACH_TEXT: [&str; 2] = ["cannot call jsonb_each_text on a non-object"; 2];
const NO_KEYS: [&str; 2] =
    ["cannot call jsonb_object_keys on an array", "cannot call jsonb_object_keys on a scalar"];

fn made(c: &Call<'_>, fill: impl FnOnce(&mut build::Builder) -> SqlResult<()>) -> SqlResult<Value> {
    let mut out = build::Builder::new();
    fill(&mut out)?;
    out.finish(c.limits())
}

fn object_of(c: &Call<'_>, values: &[ValueRef<'_>]) -> SqlResult<Value> {
    let (pairs, []) = values.as_chunks::<2>() else { return Err(uneven("jsonb_build_object")) };
    made(c, |out| {
        out.object_start()?;
        for (n, [key, value]) in pairs.iter().enumerate() {
            if key.is_null() {
                return Err(wrong(format!("argument {}: key must not be null", 2 * n + 1)));
            }
            out.key(&make::key(*key, &c.ctx.styles)?)?;
            make::add(*value, &c.ctx.styles, c.limits(), out)?;
        }
        out.end();
        Ok(())
    })
}

fn array_of(c: &Call<'_>, values: &[ValueRef<'_>]) -> SqlResult<Value> {
    made(c, |out| {
        out.array_start()?;
        values.iter().try_for_each(|v| make::add(*v, &c.ctx.styles, c.limits(), out))?;
        out.end();
        Ok(())
    })
}

fn object(c: &Call<'_>) -> SqlResult<Value> {
    let pairs = pairs_of(c)?;
    made(c, |out| {
        out.object_start()?;
        for (key, value) in pairs {
            out.key(&key)?;
            match value {
                Some(value) => out.string(&value)?,
                None => out.null(),
            }
        }
        out.end();
        Ok(())
    })
}

/// The path that an array is.
fn path<'a>(c: &Call<'a>, i: usize) -> SqlResult<Vec<Option<&'a str>>> {
    let array = Array::of_type(TypeId::TEXT.of_arrays(), c.opaque(i)?);
    if array.dimensions().len() > 1 {
        return Err(change::wrong_subscripts());
    }
    c.texts(i)
}

/// The value with a change at a path.
fn changed(c: &Call<'_>, change: Change<'_>, what: &str) -> SqlResult<Value> {
    let value = c.opaque(0)?;
    let path = path(c, 1)?;
    let node = stored::root(value)?;
    let count = match Node::read(node)? {
        Node::Array(list) => list.len(),
        Node::Object(pairs) => pairs.len(),
        _ => return Err(wrong(format!("cannot {what} path in scalar"))),
    };
    let makes = !matches!(change, Change::Delete | Change::Set { create: false, .. });
    if path.is_empty() || count == 0 && !makes {
        return Ok(stored::of_node(node));
    }
    change::at_path(node, &path, change, c.limits())
}

fn set(c: &Call<'_>, create: bool) -> SqlResult<Value> {
    changed(c, Change::Set { new: stored::root(c.opaque(2)?)?, create }, "set")
}

fn insert(c: &Call<'_>, after: bool) -> SqlResult<Value> {
    changed(c, Change::Insert { new: stored::root(c.opaque(2)?)?, after }, "set")
}

/// jsonb_set, where a new value that is NULL means something.
fn set_lax(c: &Call<'_>) -> SqlResult<Value> {
    if c.is_null(0) || c.is_null(1) || c.args.len() > 3 && c.is_null(3) {
        return Ok(Value::Null);
    }
    let create = if c.args.len() > 3 { c.bool(3)? } else { true };
    let treatment = match c.args.get(4) {
        None => "use_json_null",
        Some(ValueRef::Text(treatment)) => treatment,
        Some(_) => "",
    };
    const KNOWN: [&str; 4] = ["delete_key", "return_target", "use_json_null", "raise_exception"];
    if !KNOWN.contains(&treatment) {
        let message = "null_value_treatment must be \"delete_key\", \"return_target\", \"use_json_null\", \
                       or \"raise_exception\"";
        return Err(wrong(message));
    }
    if !c.is_null(2) {
        return set(c, create);
    }
    match treatment {
        "raise_exception" => {
            Err(SqlError::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "JSON value must not be null")
                .detail("Exception was raised because null_value_treatment is \"raise_exception\".")
                .hint(
                    "To avoid, either change the null_value_treatment argument or ensure that an SQL NULL is \
                 not passed.",
                ))
        }
        "use_json_null" => changed(c, Change::Set { new: &[stored::NULL], create }, "set"),
        "return_target" => Ok(c.args[0].to_owned()),
        _ => changed(c, Change::Delete, "delete"),
    }
}

/// The value of a subscripted column after an assignment: (before, new value, subscripts).
fn assign(c: &Call<'_>) -> SqlResult<Value> {
    let path = c.texts_from(2)?;
    if path.contains(&None) {
        let message = "jsonb subscript in assignment must not be null";
        return Err(SqlError::new(sqlstate::NULL_VALUE_NOT_ALLOWED, message));
    }
    let null = [stored::NULL];
    let new = if c.is_null(1) { &null[..] } else { stored::root(c.opaque(1)?)? };
    let empty = match path.first() {
        Some(Some(step)) if super::find::place_of(step).is_some() => "[]",
        _ => "{}",
    };
    let made;
    let before = match c.args[0] {
        ValueRef::Opaque(_, b) => b,
        _ => match build::of_text(empty, c.limits())? {
            Value::Opaque(_, b) => {
                made = b;
                &made[..]
            }
            _ => return Ok(Value::Null),
        },
    };
    change::at_path(stored::root(before)?, &path, Change::Assign { new }, c.limits())
}

fn delete_keys(c: &Call<'_>) -> SqlResult<Value> {
    let keys: Vec<&str> = path(c, 1)?.into_iter().flatten().collect();
    change::without_keys(c.opaque(0)?, &keys, c.limits())
}

fn exists(c: &Call<'_>, all: bool) -> SqlResult<Value> {
    let mut has = all;
    for (n, key) in c.texts(1)?.into_iter().flatten().enumerate() {
        c.limits().turn(n)?;
        has = change::has_key(c.opaque(0)?, key)?;
        if has != all {
            break;
        }
    }
    Ok(Value::Bool(has))
}

fn contains(c: &Call<'_>, value: usize, wanted: usize) -> SqlResult<Value> {
    change::contains(c.opaque(value)?, c.opaque(wanted)?, c.limits()).map(Value::Bool)
}

fn pretty(c: &Call<'_>) -> SqlResult<Value> {
    let mut out = String::new();
    show::write(stored::root(c.opaque(0)?)?, show::Layout::Lines, c.limits(), &mut out)?;
    Ok(Value::Text(out))
}

fn kind(c: &Call<'_>) -> SqlResult<Value> {
    Ok(Value::Text(Node::of(c.opaque(0)?)?.kind().into()))
}

functions! {
    1580 JSONB_FIELD "jsonb_object_field" (Jsonb, Text) -> Jsonb =
        |c| found(c, &[PathStep::Key(c.text(1)?)], false);
    1581 JSONB_FIELD_TEXT "jsonb_object_field_text" (Jsonb, Text) -> Text =
        |c| found(c, &[PathStep::Key(c.text(1)?)], true);
    1582 JSONB_ITEM "jsonb_array_element" (Jsonb, Int4) -> Jsonb =
        |c| found(c, &[PathStep::Place(c.int4(1)?)], false);
    1583 JSONB_ITEM_TEXT "jsonb_array_element_text" (Jsonb, Int4) -> Text =
        |c| found(c, &[PathStep::Place(c.int4(1)?)], true);
    1584 JSONB_AT "$jsonb_extract_path" (Jsonb, TextArray) -> Jsonb = |c| at_path(c, &c.texts(1)?, false);
    1585 JSONB_EXTRACT_PATH "jsonb_extract_path" (Jsonb, Text) -> Jsonb =
        |c| at_path(c, &c.texts_from(1)?, false), variadic;
    1586 JSONB_TEXT_AT "$jsonb_extract_path_text" (Jsonb, TextArray) -> Text =
        |c| at_path(c, &c.texts(1)?, true);
    1587 JSONB_EXTRACT_PATH_TEXT "jsonb_extract_path_text" (Jsonb, Text) -> Text =
        |c| at_path(c, &c.texts_from(1)?, true), variadic;
    1588 JSONB_ARRAY_LENGTH "jsonb_array_length" (Jsonb) -> Int4 =
        |c| spread::length_of_value(c.opaque(0)?).map(Value::Int4);
    1589 JSONB_TYPEOF "jsonb_typeof" (Jsonb) -> Text = |c| kind(c);
    1590 JSONB_STRIP_NULLS "jsonb_strip_nulls" (Jsonb) -> Jsonb =
        |c| change::without_nulls(c.opaque(0)?, c.limits());
    1591 JSONB_KEYS "$jsonb_object_keys" (Jsonb) -> TextArray =
        |c| spread_as(c, Wanted::Keys, TypeId::TEXT, NO_KEYS);
    1592 JSONB_ITEMS "$jsonb_array_elements" (Jsonb) -> JsonbArray =
        |c| spread_as(c, Wanted::Items, TypeId::JSONB, NO_ITEMS);
    1593 JSONB_ITEM_TEXTS "$jsonb_array_elements_text" (Jsonb) -> TextArray =
        |c| spread_as(c, Wanted::Items, TypeId::TEXT, NO_ITEMS);
    1594 JSONB_EACH_KEY "$jsonb_each_key" (Jsonb) -> TextArray =
        |c| spread_as(c, Wanted::Keys, TypeId::TEXT, NO_EACH);
    1595 JSONB_EACH_VALUE "$jsonb_each_value" (Jsonb) -> JsonbArray =
        |c| spread_as(c, Wanted::Values, TypeId::JSONB, NO_EACH);
    1596 JSONB_EACH_TEXT "$jsonb_each_text" (Jsonb) -> TextArray =
        |c| spread_as(c, Wanted::Values, TypeId::TEXT, NO_EACH_TEXT);
    1597 TO_JSONB "to_jsonb" (AnyElement) -> Jsonb =
        |c| made(c, |out| make::add(c.args[0], &c.ctx.styles, c.limits(), out)), stable;
    1598 JSONB_BUILD_OBJECT "jsonb_build_object" (Any) -> Jsonb =
        |c| object_of(c, c.args), variadic, lax, stable;
    1599 JSONB_BUILD_EMPTY_OBJECT "jsonb_build_object" () -> Jsonb = |c| object_of(c, &[]), lax, stable;
    1600 JSONB_BUILD_ARRAY "jsonb_build_array" (Any) -> Jsonb =
        |c| array_of(c, c.args), variadic, lax, stable;
    1601 JSONB_BUILD_EMPTY_ARRAY "jsonb_build_array" () -> Jsonb = |c| array_of(c, &[]), lax, stable;
    1602 JSONB_OBJECT_OF "$jsonb_build_object" (AnyArray) -> Jsonb = |c| object_of(c, &items(c)), stable;
    1603 JSONB_ARRAY_OF "$jsonb_build_array" (AnyArray) -> Jsonb = |c| array_of(c, &items(c)), stable;
    1604 JSONB_OBJECT "jsonb_object" (TextArray) -> Jsonb = |c| object(c);
    1605 JSONB_OBJECT_OF_TWO "jsonb_object" (TextArray, TextArray) -> Jsonb = |c| object(c);
    1606 JSONB_POPULATE_RECORD "jsonb_populate_record" (AnyElement, Jsonb) -> AnyElement =
        |c| populated(c), lax, stable, template;
    1607 JSONB_POPULATE_ROWS "$jsonb_populate_recordset" (AnyElement, Jsonb) -> AnyArray =
        |c| populated_rows(c, "jsonb_populate_recordset"), lax, stable, template;
    // (the template, the object)
    1608 JSONB_TO_RECORD "$jsonb_to_record" (Any, Jsonb) -> Record = |c| {
        let (ty, fields) = template_of(c)?;
        populate::row(&populate::Source::of(c.args[1])?, ty, &fields, ValueRef::Null, c.ctx)
    }, stable;
    1609 JSONB_TO_RECORDSET "$jsonb_to_recordset" (Any, Jsonb) -> RecordArray = |c| {
        let (ty, fields) = template_of(c)?;
        let of = populate::Source::of(c.args[1])?;
        populate::rows(&of, ty, &fields, ValueRef::Null, "jsonb_to_recordset", c.ctx)
    }, stable;
    1610 JSONB_CONTAINS "jsonb_contains" (Jsonb, Jsonb) -> Bool = |c| contains(c, 0, 1);
    1611 JSONB_CONTAINED "jsonb_contained" (Jsonb, Jsonb) -> Bool = |c| contains(c, 1, 0);
    1612 JSONB_EXISTS "jsonb_exists" (Jsonb, Text) -> Bool =
        |c| change::has_key(c.opaque(0)?, c.text(1)?).map(Value::Bool);
    1613 JSONB_EXISTS_ANY "jsonb_exists_any" (Jsonb, TextArray) -> Bool = |c| exists(c, false);
    1614 JSONB_EXISTS_ALL "jsonb_exists_all" (Jsonb, TextArray) -> Bool = |c| exists(c, true);
    1615 JSONB_CONCAT "jsonb_concat" (Jsonb, Jsonb) -> Jsonb =
        |c| change::joined(c.opaque(0)?, c.opaque(1)?, c.limits());
    1616 JSONB_DELETE "jsonb_delete" (Jsonb, Text) -> Jsonb =
        |c| change::without_keys(c.opaque(0)?, &[c.text(1)?], c.limits());
    1617 JSONB_DELETE_ITEM "jsonb_delete" (Jsonb, Int4) -> Jsonb =
        |c| change::without_item(c.opaque(0)?, c.int4(1)?, c.limits());
    1618 JSONB_DELETE_KEYS "$jsonb_delete" (Jsonb, TextArray) -> Jsonb = |c| delete_keys(c);
    1619 JSONB_DELETE_PATH "jsonb_delete_path" (Jsonb, TextArray) -> Jsonb =
        |c| changed(c, Change::Delete, "delete");
    1620 JSONB_SET "jsonb_set" (Jsonb, TextArray, Jsonb, Bool) -> Jsonb = |c| set(c, c.bool(3)?);
    1621 JSONB_SET_OR_CREATE "jsonb_set" (Jsonb, TextArray, Jsonb) -> Jsonb = |c| set(c, true);
    1622 JSONB_INSERT "jsonb_insert" (Jsonb, TextArray, Jsonb, Bool) -> Jsonb = |c| insert(c, c.bool(3)?);
    1623 JSONB_INSERT_BEFORE "jsonb_insert" (Jsonb, TextArray, Jsonb) -> Jsonb = |c| insert(c, false);
    1624 JSONB_SET_LAX "jsonb_set_lax" (Jsonb, TextArray, Jsonb, Bool, Text) -> Jsonb = |c| set_lax(c), lax;
    1625 JSONB_SET_LAX_NULL "jsonb_set_lax" (Jsonb, TextArray, Jsonb, Bool) -> Jsonb = |c| set_lax(c), lax;
    1626 JSONB_SET_LAX_CREATE "jsonb_set_lax" (Jsonb, TextArray, Jsonb) -> Jsonb = |c| set_lax(c), lax;
    1627 JSONB_PRETTY "jsonb_pretty" (Jsonb) -> Text = |c| pretty(c);
    1628 JSONB_LT "jsonb_lt" (Jsonb, Jsonb) -> Bool = compares!(is_lt);
    1629 JSONB_LE "jsonb_le" (Jsonb, Jsonb) -> Bool = compares!(is_le);
    1630 JSONB_EQ "jsonb_eq" (Jsonb, Jsonb) -> Bool = compares!(is_eq);
    1631 JSONB_NE "jsonb_ne" (Jsonb, Jsonb) -> Bool = compares!(is_ne);
    1632 JSONB_GE "jsonb_ge" (Jsonb, Jsonb) -> Bool = compares!(is_ge);
    1633 JSONB_GT "jsonb_gt" (Jsonb, Jsonb) -> Bool = compares!(is_gt);
    1634 JSONB_CMP "jsonb_cmp" (Jsonb, Jsonb) -> Int4 =
        |c| Ok(Value::Int4(order::compare(c.opaque(0)?, c.opaque(1)?) as i32));
    1636 JSONB_SUBSCRIPT "$jsonb_subscript" (Jsonb, Text) -> Jsonb =
        |c| at_path(c, &c.texts_from(1)?, false), variadic;
    1638 JSONB_EACH_TEXT_KEY "$jsonb_each_text_key" (Jsonb) -> TextArray =
        |c| spread_as(c, Wanted::Keys, TypeId::TEXT, NO_EACH_TEXT);
    // (before, the new value, the subscripts)
    1637 JSONB_ASSIGN "$jsonb_assign" (Jsonb, Jsonb, Text) -> Jsonb = |c| assign(c), variadic, lax;
}

const J: TypeId = TypeId::JSONB;
const TEXTS: TypeId = TypeId::TEXT.of_arrays();

const fn of(name: &'static str, right: TypeId, func: FuncId) -> OperatorDef {
    binary(name, J, right, func, "", "")
}

pub(in crate::catalog) const OPERATORS: &[&[OperatorDef]] = &[
    &comparisons(
        (J, J),
        [id::JSONB_LT, id::JSONB_LE, id::JSONB_EQ, id::JSONB_NE, id::JSONB_GE, id::JSONB_GT],
    ),
    &[
        of("->", TypeId::TEXT, id::JSONB_FIELD),
        of("->", TypeId::INT4, id::JSONB_ITEM),
        of("->>", TypeId::TEXT, id::JSONB_FIELD_TEXT),
        of("->>", TypeId::INT4, id::JSONB_ITEM_TEXT),
        of("#>", TEXTS, id::JSONB_AT),
        of("#>>", TEXTS, id::JSONB_TEXT_AT),
        binary("@>", J, J, id::JSONB_CONTAINS, "<@", ""),
        binary("<@", J, J, id::JSONB_CONTAINED, "@>", ""),
        of("?", TypeId::TEXT, id::JSONB_EXISTS),
        of("?|", TEXTS, id::JSONB_EXISTS_ANY),
        of("?&", TEXTS, id::JSONB_EXISTS_ALL),
        of("||", J, id::JSONB_CONCAT),
        of("-", TypeId::TEXT, id::JSONB_DELETE),
        of("-", TypeId::INT4, id::JSONB_DELETE_ITEM),
        of("-", TEXTS, id::JSONB_DELETE_KEYS),
        of("#-", TEXTS, id::JSONB_DELETE_PATH),
    ],
];

/// A scalar as a value of another type.
fn scalar(v: ValueRef<'_>, to: Type, ctx: &Context<'_>) -> SqlResult<Value> {
    let ValueRef::Opaque(_, bytes) = v else { return Ok(v.to_owned()) };
    let value = match Node::of(bytes)? {
        Node::Bool(b) if to.id == TypeId::BOOL => return Ok(Value::Bool(b)),
        Node::Number(n) if to.id != TypeId::BOOL => ValueRef::Numeric(n).to_owned(),
        Node::Number(_) => return Err(wrong("cannot cast jsonb numeric to type boolean")),
        other => return Err(wrong(format!("cannot cast jsonb {} to type {}", other.kind(), to.id))),
    };
    cast::cast(value, TypeId::NUMERIC, to, true, ctx)
}

const fn to(id: TypeId) -> Cast {
    Cast { from: J, to: id, context: Explicit, run: scalar }
}

pub(in crate::catalog) const CASTS: &[Cast] = &[
    Cast {
        from: J,
        to: TypeId::JSON,
        context: Assignment,
        run: |v, _, ctx| match v {
            ValueRef::Opaque(_, b) => {
                let mut out = String::new();
                push_json(b, &ctx.limits, &mut out)?;
                Ok(super::plain_value(out))
            }
            other => Ok(other.to_owned()),
        },
    },
    to(TypeId::BOOL),
    to(TypeId::NUMERIC),
    to(TypeId::INT2),
    to(TypeId::INT4),
    to(TypeId::INT8),
    to(TypeId::FLOAT4),
    to(TypeId::FLOAT8),
];

mod aggregates {
    use super::*;
    aggregates! {
        182 JSONB_AGG "jsonb_agg" (AnyElement) -> Jsonb =
            Kind::Json(Gathers { is_binary: true, is_object: false });
        183 JSONB_OBJECT_AGG "jsonb_object_agg" (crate::func::ANY, crate::func::ANY) -> Jsonb =
            Kind::Json(Gathers { is_binary: true, is_object: true });
    }
}
pub(in crate::catalog) const AGGREGATES: &[AggDef] = aggregates::DEFS;

#[cfg(test)]
pub(in crate::catalog) const SAMPLES: &[&[&str]] = &[
    &["[]", " [ ] "],
    &["null"],
    &["\"\""],
    &["\"a\"", "\"\\u0061\""],
    &["\"aa\""],
    &["\"b\""],
    &["-1.5"],
    &["0", "0.00", "-0"],
    &["1e3", "1000", "1000.0"],
    &["false"],
    &["true"],
    &["[null]"],
    &["[[]]"],
    &["[1, 2]"],
    &["{}"],
    &["{\"a\": 1}", "{\"a\": 2, \"a\": 1}"],
    &["{\"a\": []}"],
    &["{\"b\": 1}"],
    &["{\"aa\": 1, \"b\": 2}", "{\"b\": 2, \"aa\": 1.0}"],
];
