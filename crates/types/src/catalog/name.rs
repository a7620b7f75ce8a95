//! name: what PostgreSQL has for names of objects, at most 63 bytes. A longer text is cut, between two
//! characters.
//!
//! Source: PostgreSQL 15's documentation, 8.3, its catalogue and its answers.

use super::{Cast, Form, Key, compares, comparisons};
use crate::agg::AggDef;
use crate::cast::CastContext::{self, Assignment, Implicit};
use crate::func::{Call, Context, OperatorDef, functions};
use crate::ty::{Category, TypeDef};
use crate::{SqlResult, Type, TypeId, Value, ValueRef, cast};
use std::cmp::Ordering;

pub(super) const TYPE: TypeDef = TypeDef::opaque(19, "name", "name", Category::String, &FORM).array(1003);

/// Bytes of a name at most.
const MOST: usize = 63;

static FORM: Form = Form {
    width: None,
    input: |text, _, _| Ok(name(text)),
    output: |_, bytes, out| out.push_str(&String::from_utf8_lossy(bytes)),
    compare: |a, b| a.cmp(b),
    // No name has a zero in it, so that one ends it.
    key: Key::Ended(|bytes, out| {
        out.extend(bytes.iter().copied().filter(|b| *b != 0));
        out.push(0)
    }),
};

/// A value of the type.
pub fn name(text: &str) -> Value {
    let most = MOST.min(text.len());
    let cut = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    Value::Opaque(TypeId::NAME, text.as_bytes()[..cut].into())
}

/// The bytes of a name, or of a text.
fn bytes<'a>(v: ValueRef<'a>) -> &'a [u8] {
    match v {
        ValueRef::Opaque(_, b) => b,
        ValueRef::Text(s) => s.as_bytes(),
        _ => &[],
    }
}

fn order(c: &Call<'_>) -> Ordering {
    bytes(c.args[0]).cmp(bytes(c.args[1]))
}

/// A comparison of a name with a text.
macro_rules! by {
    ($test:ident) => {
        |c| Ok(Value::Bool(order(c).$test()))
    };
}

functions! {
    982 NAME_LT "namelt" (Name, Name) -> Bool = compares!(is_lt);
    983 NAME_LE "namele" (Name, Name) -> Bool = compares!(is_le);
    984 NAME_EQ "nameeq" (Name, Name) -> Bool = compares!(is_eq);
    985 NAME_NE "namene" (Name, Name) -> Bool = compares!(is_ne);
    986 NAME_GE "namege" (Name, Name) -> Bool = compares!(is_ge);
    987 NAME_GT "namegt" (Name, Name) -> Bool = compares!(is_gt);
    988 NAME_LT_TEXT "namelttext" (Name, Text) -> Bool = by!(is_lt);
    989 NAME_LE_TEXT "nameletext" (Name, Text) -> Bool = by!(is_le);
    990 NAME_EQ_TEXT "nameeqtext" (Name, Text) -> Bool = by!(is_eq);
    991 NAME_NE_TEXT "namenetext" (Name, Text) -> Bool = by!(is_ne);
    992 NAME_GE_TEXT "namegetext" (Name, Text) -> Bool = by!(is_ge);
    993 NAME_GT_TEXT "namegttext" (Name, Text) -> Bool = by!(is_gt);
    994 TEXT_LT_NAME "textltname" (Text, Name) -> Bool = by!(is_lt);
    995 TEXT_LE_NAME "textlename" (Text, Name) -> Bool = by!(is_le);
    996 TEXT_EQ_NAME "texteqname" (Text, Name) -> Bool = by!(is_eq);
    997 TEXT_NE_NAME "textnename" (Text, Name) -> Bool = by!(is_ne);
    998 TEXT_GE_NAME "textgename" (Text, Name) -> Bool = by!(is_ge);
    999 TEXT_GT_NAME "textgtname" (Text, Name) -> Bool = by!(is_gt);
}

pub(super) const OPERATORS: &[&[OperatorDef]] = &[
    &comparisons(
        (TypeId::NAME, TypeId::NAME),
        [id::NAME_LT, id::NAME_LE, id::NAME_EQ, id::NAME_NE, id::NAME_GE, id::NAME_GT],
    ),
    &comparisons(
        (TypeId::NAME, TypeId::TEXT),
        [
            id::NAME_LT_TEXT,
            id::NAME_LE_TEXT,
            id::NAME_EQ_TEXT,
            id::NAME_NE_TEXT,
            id::NAME_GE_TEXT,
            id::NAME_GT_TEXT,
        ],
    ),
    &comparisons(
        (TypeId::TEXT, TypeId::NAME),
        [
            id::TEXT_LT_NAME,
            id::TEXT_LE_NAME,
            id::TEXT_EQ_NAME,
            id::TEXT_NE_NAME,
            id::TEXT_GE_NAME,
            id::TEXT_GT_NAME,
        ],
    ),
];

fn of_text(v: ValueRef<'_>, _: Type, _: &Context<'_>) -> SqlResult<Value> {
    Ok(match v {
        ValueRef::Text(s) => name(s),
        other => other.to_owned(),
    })
}

fn to_text(v: ValueRef<'_>, to: Type, ctx: &Context<'_>) -> SqlResult<Value> {
    match v {
        ValueRef::Opaque(_, b) => {
            let text = Value::Text(String::from_utf8_lossy(b).into_owned());
            cast::cast(text, TypeId::TEXT, to, false, ctx)
        }
        other => Ok(other.to_owned()),
    }
}

const fn cast_from(from: TypeId) -> Cast {
    Cast { from, to: TypeId::NAME, context: Implicit, run: of_text }
}
const fn cast_to(to: TypeId, context: CastContext) -> Cast {
    Cast { from: TypeId::NAME, to, context, run: to_text }
}

pub(super) const CASTS: &[Cast] = &[
    cast_from(TypeId::TEXT),
    cast_from(TypeId::VARCHAR),
    cast_from(TypeId::BPCHAR),
    cast_to(TypeId::TEXT, Implicit),
    cast_to(TypeId::VARCHAR, Assignment),
    cast_to(TypeId::BPCHAR, Assignment),
];
pub(super) const AGGREGATES: &[AggDef] = &[];

#[cfg(test)]
pub(super) const SAMPLES: &[&[&str]] = &[
    &["A", "A"],
    &["a"],
    &["ab"],
    &[
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxy",
    ],
    // The character that would be cut in two goes as a whole.
    &[
        "zxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "zxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\u{20ac}",
    ],
    &["ä"],
];
