//! json, as the result of `json_build_object` alone: its text. There is no other way yet to make or read it,
//! and no name of it in SQL.
//!
//! Source: PostgreSQL 15's documentation, 8.14 and 9.16, and its answers.

use super::{Form, Key};
use crate::array::Array;
use crate::func::{Call, functions};
use crate::style::Styles;
use crate::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, sqlstate, text};

pub(crate) static FORM: Form = Form {
    width: None,
    input: |_, _, _| Err(SqlError::unsupported("reading json")),
    output: |_, bytes, out| out.push_str(&String::from_utf8_lossy(bytes)),
    compare: |a, b| a.cmp(b),
    key: Key::Ended(|bytes, out| {
        out.extend(bytes.iter().copied().filter(|b| *b != 0));
        out.push(0)
    }),
};

/// Appends a text in quotes, as JSON has it.
pub fn quote(s: &str, out: &mut String) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"')
}

fn shown(v: ValueRef<'_>, styles: &Styles) -> String {
    let mut out = String::new();
    text::styled(v, Type::TEXT, styles, &mut out);
    out
}

fn push(v: ValueRef<'_>, styles: &Styles, out: &mut String) {
    match v {
        ValueRef::Null => out.push_str("null"),
        ValueRef::Bool(b) => out.push_str(if b { "true" } else { "false" }),
        ValueRef::Opaque(TypeId::JSON, _) => out.push_str(&shown(v, styles)),
        ValueRef::Opaque(ty, b) if ty.is_array() => {
            let array = Array::of_type(ty, b);
            let lengths: Vec<usize> = array.dimensions().map(|d| d.length as usize).collect();
            let mut place = 0;
            match &lengths[..] {
                [] => out.push_str("[]"),
                lengths => dimension(&array, lengths, &mut place, styles, out),
            }
        }
        ValueRef::Int2(_)
        | ValueRef::Int4(_)
        | ValueRef::Int8(_)
        | ValueRef::Float8(_)
        | ValueRef::Numeric(_)
        | ValueRef::Packed(_)
        | ValueRef::Opaque(TypeId::FLOAT4, _) => {
            let number = shown(v, styles);
            // NaN and the infinities are no numbers there.
            match number.ends_with(|c: char| c.is_ascii_digit()) {
                true => out.push_str(&number),
                false => quote(&number, out),
            }
        }
        ValueRef::Timestamp(_) => quote(&shown(v, styles).replacen(' ', "T", 1), out),
        ValueRef::Timestamptz(_) => {
            let mut written = shown(v, styles).replacen(' ', "T", 1);
            // Minutes stand behind the hours of the zone.
            if written.rfind(['+', '-']).is_some_and(|at| written.len() - at == 3) && written.contains('T') {
                written += ":00";
            }
            quote(&written, out)
        }
        v => quote(&shown(v, styles), out),
    }
}

/// The items of the outermost of some dimensions, from a place on.
fn dimension(array: &Array<'_>, lengths: &[usize], place: &mut usize, styles: &Styles, out: &mut String) {
    let Some((length, inner)) = lengths.split_first() else {
        push(array.stored(*place), styles, out);
        *place += 1;
        return;
    };
    out.push('[');
    for n in 0..*length {
        if n > 0 {
            out.push(',')
        }
        dimension(array, inner, place, styles, out)
    }
    out.push(']')
}

fn build(c: &Call<'_>) -> SqlResult<Value> {
    let wrong = |message: &str| SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, message);
    let (pairs, []) = c.args.as_chunks::<2>() else {
        return Err(wrong("argument list must have even number of elements")
            .hint("The arguments of json_build_object() must consist of alternating keys and values."));
    };
    // In ISO 8601's form, whatever the session's is.
    let styles = Styles { zone: c.ctx.styles.zone, ..Styles::USUAL };
    let mut out = String::from("{");
    for (n, [key, value]) in pairs.iter().enumerate() {
        if n > 0 {
            out.push_str(", ")
        }
        match key {
            ValueRef::Null => {
                let message = format!("argument {} cannot be null", 2 * n + 1);
                return Err(wrong(&message).hint("Object keys should be text."));
            }
            ValueRef::Opaque(ty, _) if ty.is_array() || *ty == TypeId::JSON || super::record::is_row(*ty) => {
                return Err(wrong("key value must be scalar, not array, composite, or json"));
            }
            ValueRef::Bool(b) => quote(if *b { "true" } else { "false" }, &mut out),
            key => quote(&shown(*key, &styles), &mut out),
        }
        out.push_str(" : ");
        push(*value, &styles, &mut out)
    }
    out.push('}');
    Ok(Value::Opaque(TypeId::JSON, out.into_bytes().into()))
}

functions! {
    1287 JSON_BUILD_OBJECT "json_build_object" (Any) -> Json = |c| build(c), variadic, lax, stable;
    1288 JSON_BUILD_EMPTY_OBJECT "json_build_object" () -> Json = |c| build(c), lax, stable;
}
