//! Values of every type as JSON.
//!
//! Dates and times are in ISO 8601's form, whatever the session's is; numbers that JSON has not are strings;
//! arrays and rows are arrays and objects; everything else is its text.

use super::build::Builder;
use super::{push_json, quote};
use crate::array::{Array, Dimension};
use crate::catalog::{record, vector};
use crate::func::Context;
use crate::limits::Limits;
use crate::style::{DateStyle, Styles};
use crate::{Numeric, SqlError, SqlResult, Type, TypeId, ValueRef, sqlstate, text};

/// How a value becomes JSON.
enum Kind<'a> {
    Null,
    Bool(bool),
    Number,
    Json(&'a str),
    Jsonb(&'a [u8]),
    Array(Array<'a>),
    Row(TypeId, &'a [u8]),
    Text,
}

fn kind_of(v: ValueRef<'_>) -> Kind<'_> {
    match v {
        ValueRef::Null => Kind::Null,
        ValueRef::Bool(b) => Kind::Bool(b),
        ValueRef::Int2(_) | ValueRef::Int4(_) | ValueRef::Int8(_) | ValueRef::Float8(_) => Kind::Number,
        ValueRef::Numeric(_) | ValueRef::Packed(_) | ValueRef::Opaque(TypeId::FLOAT4, _) => Kind::Number,
        ValueRef::Opaque(TypeId::JSON, b) => Kind::Json(std::str::from_utf8(b).unwrap_or("null")),
        ValueRef::Opaque(TypeId::JSONB, b) => Kind::Jsonb(b),
        ValueRef::Opaque(ty, b) if ty.is_array() => Kind::Array(Array::of_type(ty, b)),
        ValueRef::Opaque(ty, b) if let Some(array) = vector::array_of(ty) => {
            Kind::Array(Array::of_type(array, b))
        }
        ValueRef::Opaque(ty, b) if record::is_row(ty) => Kind::Row(ty, b),
        _ => Kind::Text,
    }
}

/// Whether it becomes an array or an object of its own.
pub(super) fn is_structured(v: ValueRef<'_>) -> bool {
    matches!(kind_of(v), Kind::Array(_) | Kind::Row(..))
}

/// A scalar's text.
fn shown(v: ValueRef<'_>, styles: &Styles) -> String {
    let iso = Styles { date: DateStyle::Iso, ..*styles };
    let mut out = String::new();
    match v {
        ValueRef::Bool(b) => out.push_str(if b { "true" } else { "false" }),
        v => text::styled(v, Type::TEXT, &iso, &mut out),
    }
    match v {
        ValueRef::Timestamp(_) => out.replacen(' ', "T", 1),
        ValueRef::Timestamptz(_) if out.contains(' ') => {
            let mut out = out.replacen(' ', "T", 1);
            // Minutes stand behind the hours of the zone.
            let end = out.find(' ').unwrap_or(out.len());
            if out[..end].rfind(['+', '-']).is_some_and(|sign| end - sign == 3) {
                out.insert_str(end, ":00");
            }
            out
        }
        _ => out,
    }
}

/// Whether a number's text is one of JSON as well: NaN and the infinities are none.
fn is_number(shown: &str) -> bool {
    shown.ends_with(|c: char| c.is_ascii_digit())
}

/// Appends a value. `lines`: a line for each item or field of the outermost array or row.
pub(super) fn push(
    v: ValueRef<'_>,
    styles: &Styles,
    lines: bool,
    limits: &Limits<'_>,
    out: &mut String,
) -> SqlResult<()> {
    match kind_of(v) {
        Kind::Null => out.push_str("null"),
        Kind::Bool(b) => out.push_str(if b { "true" } else { "false" }),
        Kind::Number => match shown(v, styles) {
            number if is_number(&number) => out.push_str(&number),
            other => quote(&other, out),
        },
        Kind::Json(json) => out.push_str(json),
        Kind::Jsonb(value) => push_json(value, limits, out)?,
        Kind::Text => quote(&shown(v, styles), out),
        Kind::Array(array) => {
            let dimensions: Vec<Dimension> = array.dimensions().collect();
            match &dimensions[..] {
                [] => out.push_str("[]"),
                dimensions => dimension(&array, dimensions, &mut 0, styles, lines, limits, out)?,
            }
        }
        Kind::Row(ty, row) => {
            out.push('{');
            for (n, (name, v)) in record::named_fields(ty, row).into_iter().enumerate() {
                if n > 0 {
                    out.push_str(if lines { ",\n " } else { "," });
                }
                quote(&name, out);
                out.push(':');
                push(v, styles, false, limits, out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

/// The items of the outermost of some dimensions, from a place on.
fn dimension(
    array: &Array<'_>,
    dimensions: &[Dimension],
    place: &mut usize,
    styles: &Styles,
    lines: bool,
    limits: &Limits<'_>,
    out: &mut String,
) -> SqlResult<()> {
    let Some((first, inner)) = dimensions.split_first() else {
        limits.turn(*place)?;
        push(array.stored(*place), styles, false, limits, out)?;
        *place += 1;
        return Ok(());
    };
    out.push('[');
    for n in 0..first.length {
        if n > 0 {
            out.push_str(if lines { ",\n " } else { "," });
        }
        dimension(array, inner, place, styles, false, limits, out)?;
    }
    out.push(']');
    Ok(())
}

/// Puts a value into one of type jsonb.
pub(super) fn add(v: ValueRef<'_>, styles: &Styles, limits: &Limits<'_>, out: &mut Builder) -> SqlResult<()> {
    match kind_of(v) {
        Kind::Null => out.null(),
        Kind::Bool(b) => out.bool(b),
        Kind::Number => match (v.numeric(), shown(v, styles)) {
            (Some(n), _) => out.number(&n)?,
            (None, number) if is_number(&number) => out.number(&Numeric::parse(&number)?)?,
            (None, other) => out.string(&other)?,
        },
        Kind::Json(json) => out.text(json, limits)?,
        Kind::Jsonb(value) => out.node(super::stored::root(value)?),
        Kind::Text => out.string(&shown(v, styles))?,
        Kind::Array(array) => {
            let dimensions: Vec<Dimension> = array.dimensions().collect();
            match &dimensions[..] {
                [] => {
                    out.array_start()?;
                    out.end()
                }
                dimensions => add_dimension(&array, dimensions, &mut 0, styles, limits, out)?,
            }
        }
        Kind::Row(ty, row) => {
            out.object_start()?;
            for (name, v) in record::named_fields(ty, row) {
                out.key(&name)?;
                add(v, styles, limits, out)?;
            }
            out.end()
        }
    }
    out.turn(limits)
}

fn add_dimension(
    array: &Array<'_>,
    dimensions: &[Dimension],
    place: &mut usize,
    styles: &Styles,
    limits: &Limits<'_>,
    out: &mut Builder,
) -> SqlResult<()> {
    let Some((first, inner)) = dimensions.split_first() else {
        add(array.stored(*place), styles, limits, out)?;
        *place += 1;
        return Ok(());
    };
    out.array_start()?;
    (0..first.length).try_for_each(|_| add_dimension(array, inner, place, styles, limits, out))?;
    out.end();
    Ok(())
}

/// The key that a value makes, which is not NULL.
pub(super) fn key(v: ValueRef<'_>, styles: &Styles) -> SqlResult<String> {
    match kind_of(v) {
        Kind::Json(_) | Kind::Jsonb(_) | Kind::Array(_) | Kind::Row(..) => {
            let message = "key value must be scalar, not array, composite, or json";
            Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message))
        }
        _ => Ok(shown(v, styles)),
    }
}

/// A value's text of JSON.
pub(super) fn to_text(v: ValueRef<'_>, lines: bool, ctx: &Context<'_>) -> SqlResult<String> {
    let mut out = String::new();
    ctx.limits.take(2 * v.byte_len())?;
    push(v, &ctx.styles, lines, &ctx.limits, &mut out)?;
    Ok(out)
}
