//! "char": one byte, which PostgreSQL's catalogue has for codes of kinds. It is no char(1), and always
//! written in quotes.
//!
//! A byte beyond ASCII, which is no character of its own in UTF-8, is written as a backslash and three octal
//! digits, and read so, as PostgreSQL does since 16; the byte zero is an empty text.
//!
//! Source: PostgreSQL 15's documentation, 8.3, its catalogue and its answers.

use super::{Cast, Form, Key, compares, comparisons};
use crate::agg::AggDef;
use crate::cast::CastContext::{self, Assignment, Explicit, Implicit};
use crate::func::{Context, OperatorDef, functions};
use crate::ty::{Category, TypeDef};
use crate::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, cast, sqlstate};

pub(super) const TYPE: TypeDef =
    TypeDef::opaque(18, "char", "\"char\"", Category::Internal, &FORM).array(1002);

static FORM: Form = Form {
    width: Some(1),
    input: |text, _, _| Ok(read(text)),
    output: |_, bytes, out| write(byte(bytes), out),
    compare: |a, b| byte(a).cmp(&byte(b)),
    key: Key::Fixed {
        width: 1,
        make: |bytes| {
            let mut key = [0; 16];
            key[0] = byte(bytes);
            key
        },
    },
};

fn byte(bytes: &[u8]) -> u8 {
    bytes.first().copied().unwrap_or(0)
}

/// A value of the type.
pub fn value(byte: u8) -> Value {
    Value::Opaque(TypeId::QUOTED_CHAR, Box::new([byte]))
}

/// The first byte of a text, or the one whose octal number it is; the rest is cut.
fn read(text: &str) -> Value {
    let octal = |d: u8| (b'0'..b'8').contains(&d).then(|| u32::from(d - b'0'));
    value(match text.as_bytes() {
        [b'\\', a, b, c] if let (Some(a), Some(b), Some(c)) = (octal(*a), octal(*b), octal(*c)) => {
            (a << 6 | b << 3 | c) as u8
        }
        bytes => byte(bytes),
    })
}

fn write(byte: u8, out: &mut String) {
    match byte {
        0 => {}
        0x80.. => out.push_str(&format!("\\{byte:03o}")),
        _ => out.push(byte.into()),
    }
}

functions! {
    1000 QUOTED_CHAR_LT "charlt" (QuotedChar, QuotedChar) -> Bool = compares!(is_lt);
    1001 QUOTED_CHAR_LE "charle" (QuotedChar, QuotedChar) -> Bool = compares!(is_le);
    1002 QUOTED_CHAR_EQ "chareq" (QuotedChar, QuotedChar) -> Bool = compares!(is_eq);
    1003 QUOTED_CHAR_NE "charne" (QuotedChar, QuotedChar) -> Bool = compares!(is_ne);
    1004 QUOTED_CHAR_GE "charge" (QuotedChar, QuotedChar) -> Bool = compares!(is_ge);
    1005 QUOTED_CHAR_GT "chargt" (QuotedChar, QuotedChar) -> Bool = compares!(is_gt);
}

const CHAR: TypeId = TypeId::QUOTED_CHAR;

pub(super) const OPERATORS: &[&[OperatorDef]] = &[&comparisons(
    (CHAR, CHAR),
    [
        id::QUOTED_CHAR_LT,
        id::QUOTED_CHAR_LE,
        id::QUOTED_CHAR_EQ,
        id::QUOTED_CHAR_NE,
        id::QUOTED_CHAR_GE,
        id::QUOTED_CHAR_GT,
    ],
)];

fn of_other(v: ValueRef<'_>, _: Type, _: &Context<'_>) -> SqlResult<Value> {
    Ok(match v {
        ValueRef::Text(s) => read(s),
        // With its sign, as C's char has one.
        ValueRef::Int4(i) => value(
            i8::try_from(i)
                .map_err(|_| SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "\"char\" out of range"))?
                as u8,
        ),
        other => other.to_owned(),
    })
}

fn to_other(v: ValueRef<'_>, to: Type, ctx: &Context<'_>) -> SqlResult<Value> {
    match v {
        ValueRef::Opaque(_, b) if to.id == TypeId::INT4 => Ok(Value::Int4((byte(b) as i8).into())),
        ValueRef::Opaque(_, b) => {
            let mut text = String::new();
            write(byte(b), &mut text);
            cast::cast(Value::Text(text), TypeId::TEXT, to, false, ctx)
        }
        other => Ok(other.to_owned()),
    }
}

const fn cast_from(from: TypeId, context: CastContext) -> Cast {
    Cast { from, to: CHAR, context, run: of_other }
}
const fn cast_to(to: TypeId, context: CastContext) -> Cast {
    Cast { from: CHAR, to, context, run: to_other }
}

pub(super) const CASTS: &[Cast] = &[
    cast_from(TypeId::TEXT, Assignment),
    cast_from(TypeId::VARCHAR, Assignment),
    cast_from(TypeId::BPCHAR, Assignment),
    cast_from(TypeId::INT4, Explicit),
    cast_to(TypeId::TEXT, Implicit),
    cast_to(TypeId::VARCHAR, Assignment),
    cast_to(TypeId::BPCHAR, Assignment),
    cast_to(TypeId::INT4, Explicit),
];
pub(super) const AGGREGATES: &[AggDef] = &[];

#[cfg(test)]
pub(super) const SAMPLES: &[&[&str]] =
    &[&["0", "\\060"], &["a", "abc", "\\141"], &["\\303", "ä"], &["\\377"]];
