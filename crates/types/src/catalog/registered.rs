//! regclass and its like: numbers of objects that are read and shown as the objects' names.
//!
//! A value's bytes are the number, the lowest byte first, and then the name that is shown for it, which was
//! asked for when the value was made ([`crate::objects`]): so a value can be shown wherever it comes to. Two
//! values are equal if their numbers are. A number that is no object's has no name.
//!
//! In a column a value has the number alone (engine/layout/L9): the name would outlive the object's. A value
//! of a column is given the name that the object has when it is read, and so is one that becomes a text.
//!
//! Source: PostgreSQL 15's documentation, 8.19, its catalogue and its answers.

use super::oid::{KEY, number};
use super::{Cast, Form};
use crate::agg::{self, AggDef};
use crate::cast::CastContext::{self, Assignment, Implicit};
use crate::func::{self, Context, FuncDef, OperatorDef};
use crate::objects::ObjectKind;
use crate::ty::{Category, TypeDef};
use crate::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, known, sqlstate, window};
use std::cmp::Ordering;

/// A value of such a type with the name that is shown.
pub fn named(ty: TypeId, number: u32, name: &str) -> Value {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend_from_slice(name.as_bytes());
    Value::Opaque(ty, bytes.into())
}

/// A value of such a type.
pub fn value(ty: TypeId, number: u32, ctx: &Context<'_>) -> SqlResult<Value> {
    let name = match kind(ty) {
        Some(kind) if number != 0 => ctx.objects.name(kind, number)?,
        _ => None,
    };
    Ok(named(ty, number, name.as_deref().unwrap_or_default()))
}

/// What the values of the type name; `None` of any other type.
pub fn kind(ty: TypeId) -> Option<ObjectKind> {
    KINDS.iter().find(|k| k.0 == ty).map(|k| k.1)
}

/// How the number of no object is written: a minus is an operator.
fn nothing(ty: TypeId) -> &'static str {
    if ty == TypeId::REGOPER || ty == TypeId::REGOPERATOR { "0" } else { "-" }
}

fn write(ty: TypeId, bytes: &[u8], out: &mut String) {
    match (number(bytes), bytes.get(4..).unwrap_or_default()) {
        (0, []) => out.push_str(nothing(ty)),
        (n, []) => out.push_str(&n.to_string()),
        (_, name) => out.push_str(&String::from_utf8_lossy(name)),
    }
}

fn read(text: &str, ty: Type, ctx: &Context<'_>) -> SqlResult<Value> {
    if text == nothing(ty.id) {
        return Ok(named(ty.id, 0, ""));
    }
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        let Value::Opaque(_, b) = super::oid::read(text)? else { return Ok(Value::Null) };
        return value(ty.id, number(&b), ctx);
    }
    let Some(kind) = kind(ty.id) else { return Ok(Value::Null) };
    match ctx.objects.find(kind, text)? {
        Some(n) => value(ty.id, n, ctx),
        None => Err(missing(kind, text)),
    }
}

/// The error of a name that is no object's.
pub fn missing(kind: ObjectKind, text: &str) -> SqlError {
    use ObjectKind as O;
    let (state, message) = match kind {
        O::Relation => (sqlstate::UNDEFINED_TABLE, format!("relation \"{text}\" does not exist")),
        O::Type => (sqlstate::UNDEFINED_OBJECT, format!("type \"{text}\" does not exist")),
        O::Function | O::Procedure if is_missing_function(text) => {
            return SqlError::unsupported(format_args!("function {text}"));
        }
        O::Function | O::Procedure => {
            (sqlstate::UNDEFINED_FUNCTION, format!("function \"{text}\" does not exist"))
        }
        O::Operator | O::TypedOperator => {
            (sqlstate::UNDEFINED_FUNCTION, format!("operator does not exist: {text}"))
        }
        O::Schema => ("3F000", format!("schema \"{text}\" does not exist")),
        O::Role => (sqlstate::UNDEFINED_OBJECT, format!("role \"{text}\" does not exist")),
        O::Collation => {
            (sqlstate::UNDEFINED_OBJECT, format!("collation \"{text}\" for encoding \"UTF8\" does not exist"))
        }
        O::TextSearchConfiguration => {
            (sqlstate::UNDEFINED_OBJECT, format!("text search configuration \"{text}\" does not exist"))
        }
        O::TextSearchDictionary => {
            (sqlstate::UNDEFINED_OBJECT, format!("text search dictionary \"{text}\" does not exist"))
        }
    };
    SqlError::new(state, message)
}

/// Whether a text names a function that only PostgreSQL has.
fn is_missing_function(text: &str) -> bool {
    let name = text.split('(').next().unwrap_or_default();
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    let is_here =
        || !func::by_name(name).is_empty() || agg::is_aggregate(name) || window::is_window_function(name);
    known::is_function(name) && !is_here()
}

/// The bytes of a value in a column.
pub const STORED: u8 = 4;

/// How many bytes a value of the type takes in a column, if it is such a type.
#[inline]
pub fn stored_width(ty: TypeId) -> Option<u8> {
    (ty.category() == Category::Numeric && kind(ty).is_some()).then_some(STORED)
}

/// The same value with the name that its object has now.
pub fn renamed(ty: TypeId, bytes: &[u8], ctx: &Context<'_>) -> SqlResult<Value> {
    value(ty, number(bytes), ctx)
}

/// Whether a value has a number and no name, as in a column.
pub fn is_bare(bytes: &[u8]) -> bool {
    bytes.len() == usize::from(STORED) && number(bytes) != 0
}

/// The number of a value.
pub fn number_of(bytes: &[u8]) -> u32 {
    number(bytes)
}

fn compare(a: &[u8], b: &[u8]) -> Ordering {
    number(a).cmp(&number(b))
}

static FORM: Form = Form { width: None, input: read, output: write, compare, key: KEY };

/// From an integer, an oid, or another type of the kind.
fn of_number(v: ValueRef<'_>, to: Type, ctx: &Context<'_>) -> SqlResult<Value> {
    match v {
        ValueRef::Opaque(_, b) => value(to.id, number(b), ctx),
        ValueRef::Null => Ok(Value::Null),
        v => match super::oid::of_integer(v, to, ctx)? {
            Value::Opaque(_, b) => value(to.id, number(&b), ctx),
            other => Ok(other),
        },
    }
}

fn of_text(v: ValueRef<'_>, to: Type, ctx: &Context<'_>) -> SqlResult<Value> {
    match v {
        ValueRef::Text(s) => read(s, to, ctx),
        other => Ok(other.to_owned()),
    }
}

fn to_number(v: ValueRef<'_>, to: Type, _: &Context<'_>) -> SqlResult<Value> {
    Ok(match v {
        ValueRef::Opaque(_, b) => match to.id {
            TypeId::INT4 => Value::Int4(number(b) as i32),
            TypeId::INT8 => Value::Int8(number(b).into()),
            _ => super::oid::oid(number(b)),
        },
        other => other.to_owned(),
    })
}

const fn from(from: TypeId, to: TypeId) -> Cast {
    Cast { from, to, context: Implicit, run: of_number }
}
const fn to(from: TypeId, to: TypeId, context: CastContext) -> Cast {
    Cast { from, to, context, run: to_number }
}
const fn from_text(from: TypeId, to: TypeId) -> Cast {
    Cast { from, to, context: Implicit, run: of_text }
}

/// A module for each of the types, as the list of types wants them.
macro_rules! registered {
    ($($module:ident $constant:ident $oid:literal $array:literal $name:literal $kind:ident
        [$($cast:expr),*];)*) => {
        const KINDS: &[(TypeId, ObjectKind)] = &[$((TypeId::$constant, ObjectKind::$kind)),*];
        $(pub mod $module {
            use super::*;

            pub(in crate::catalog) const TYPE: TypeDef =
                TypeDef::opaque($oid, $name, $name, Category::Numeric, &FORM).array($array);
            pub mod id {}
            pub(in crate::catalog) const DEFS: &[FuncDef] = &[];
            pub(in crate::catalog) const OPERATORS: &[&[OperatorDef]] = &[];
            pub(in crate::catalog) const CASTS: &[Cast] = &[
                from(TypeId::OID, TypeId::$constant),
                from(TypeId::INT2, TypeId::$constant),
                from(TypeId::INT4, TypeId::$constant),
                from(TypeId::INT8, TypeId::$constant),
                to(TypeId::$constant, TypeId::OID, Implicit),
                to(TypeId::$constant, TypeId::INT4, Assignment),
                to(TypeId::$constant, TypeId::INT8, Assignment),
                $($cast),*
            ];
            pub(in crate::catalog) const AGGREGATES: &[AggDef] = &[];
            #[cfg(test)]
            pub(in crate::catalog) const SAMPLES: &[&[&str]] = &[&["0", "00"], &["1", "01"], &["4294967295"]];
        })*
    };
}

registered! {
    regproc REGPROC 24 1008 "regproc" Function [from(TypeId::REGPROCEDURE, TypeId::REGPROC)];
    regprocedure REGPROCEDURE 2202 2207 "regprocedure" Procedure
        [from(TypeId::REGPROC, TypeId::REGPROCEDURE)];
    regoper REGOPER 2203 2208 "regoper" Operator [from(TypeId::REGOPERATOR, TypeId::REGOPER)];
    regoperator REGOPERATOR 2204 2209 "regoperator" TypedOperator
        [from(TypeId::REGOPER, TypeId::REGOPERATOR)];
    regclass REGCLASS 2205 2210 "regclass" Relation
        [from_text(TypeId::TEXT, TypeId::REGCLASS), from_text(TypeId::VARCHAR, TypeId::REGCLASS)];
    regtype REGTYPE 2206 2211 "regtype" Type [];
    regrole REGROLE 4096 4097 "regrole" Role [];
    regnamespace REGNAMESPACE 4089 4090 "regnamespace" Schema [];
    regcollation REGCOLLATION 4191 4192 "regcollation" Collation [];
    regconfig REGCONFIG 3734 3735 "regconfig" TextSearchConfiguration [];
    regdictionary REGDICTIONARY 3769 3770 "regdictionary" TextSearchDictionary [];
}
