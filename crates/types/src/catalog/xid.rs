//! xid: the number of a transaction, 32 bits, lowest byte first. Here it is a type alone: rows do not tell
//! which transaction made them.
//!
//! Source: PostgreSQL 15's documentation, 8.19, and its answers.

use super::oid::{KEY, number};
use super::{Cast, Form, compares};
use crate::agg::AggDef;
use crate::func::operator::binary;
use crate::func::{Call, OperatorDef, functions};
use crate::ty::{Category, TypeDef};
use crate::{SqlResult, TypeId, Value, ValueRef};

pub(super) const TYPE: TypeDef = TypeDef::opaque(28, "xid", "xid", Category::User, &FORM).array(1011);

static FORM: Form = Form {
    width: Some(4),
    input: |text, _, _| Ok(Value::Opaque(TypeId::XID, read(text).to_le_bytes().into())),
    output: |_, b, out| out.push_str(&number(b).to_string()),
    compare: |a, b| number(a).cmp(&number(b)),
    key: KEY,
};

/// The number that a text begins with, as C's `strtoul` reads it: what follows does not count, nor does a
/// text without one.
fn read(text: &str) -> u32 {
    let text = text.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
    let (minus, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hex = digits.strip_prefix("0x").or(digits.strip_prefix("0X"));
    let (radix, digits) = match hex.filter(|h| h.starts_with(|c: char| c.is_ascii_hexdigit())) {
        Some(digits) => (16, digits),
        None => (if digits.starts_with('0') { 8 } else { 10 }, digits),
    };
    let digits = digits.chars().map_while(|c| c.to_digit(radix));
    let value = digits.fold(0u64, |n, d| n.saturating_mul(radix.into()).saturating_add(d.into()));
    // Its lower half counts; what is too large is the largest number there is, with or without a sign.
    (if minus && value < u64::MAX { value.wrapping_neg() } else { value }) as u32
}

/// Whether a number of a transaction is an integer's.
fn is_integer(c: &Call<'_>) -> SqlResult<bool> {
    let own = match c.args[0] {
        ValueRef::Opaque(_, bytes) => number(bytes),
        _ => 0,
    };
    Ok(own == c.int4(1)? as u32)
}

functions! {
    1800 XID_EQ "xideq" (Xid, Xid) -> Bool = compares!(is_eq);
    1801 XID_NE "xidneq" (Xid, Xid) -> Bool = compares!(is_ne);
    1802 XID_EQ_INT4 "xideqint4" (Xid, Int4) -> Bool = |c| is_integer(c).map(Value::Bool);
    1803 XID_NE_INT4 "xidneqint4" (Xid, Int4) -> Bool = |c| is_integer(c).map(|is| Value::Bool(!is));
}

pub(super) const OPERATORS: &[&[OperatorDef]] = &[&[
    binary("=", TypeId::XID, TypeId::XID, id::XID_EQ, "=", "<>"),
    binary("<>", TypeId::XID, TypeId::XID, id::XID_NE, "<>", "="),
    binary("=", TypeId::XID, TypeId::INT4, id::XID_EQ_INT4, "", "<>"),
    binary("<>", TypeId::XID, TypeId::INT4, id::XID_NE_INT4, "", "="),
]];
pub(super) const CASTS: &[Cast] = &[];
pub(super) const AGGREGATES: &[AggDef] = &[];

#[cfg(test)]
pub(super) const SAMPLES: &[&[&str]] = &[
    &["0", "", "asdf", "0x", "-0"],
    &["1", "01", "  +1 and more"],
    &["8", "010"],
    &["4294967295", "-1", "0xffffffff", "4294967295x"],
];
