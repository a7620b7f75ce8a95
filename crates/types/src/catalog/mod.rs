//! Types that only their own functions understand: to add one is to write a file here and a line in the list
//! below.
//!
//! To all else a value of such a type is its number and bytes ([`crate::Value::Opaque`]). The type's file has
//!
//! - `TYPE`, its descriptor, in which [`Form`] says how its bytes are read, written, compared and brought
//!   into keys;
//! - `DEFS`, `OPERATORS`, `CASTS` and `AGGREGATES`: its functions, and what uses them;
//! - `SAMPLES`, for tests: texts of its values, in order.
//!
//! Invariants:
//! - **O1** Bytes of a type are made by its own functions alone, and have the length that its [`Form`] tells.
//!   Bytes that come from a damaged file may be others: no function panics for it.
//! - **O2** `compare` is a total order; two values are equal exactly if their keys are; and keys compare as
//!   the values do.
//! - **O3** The text that `output` writes is read back by `input` to an equal value.

use crate::agg::AggDef;
use crate::cast::CastContext;
use crate::func::operator::binary;
use crate::func::{Context, FuncDef, FuncId, OperatorDef};
use crate::ty::TypeDef;
use crate::{SqlResult, Type, TypeId, Value, ValueRef};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::LazyLock;

pub mod in_range;
mod internal;
pub mod interval;
pub mod json;
pub mod name;
pub mod oid;
pub mod quoted_char;
pub mod real;
pub mod record;
pub mod registered;
pub mod tid;
pub(crate) mod time;
pub(crate) mod timetz;
pub mod uuid;
pub mod vector;
mod xid;

pub use internal::node_tree;

/// The functions of rows as values.
pub(crate) const RECORDS: &[FuncDef] = record::DEFS;
/// The operators of rows.
pub(crate) const RECORD_OPERATORS: &[&[OperatorDef]] = record::OPERATORS;

macro_rules! catalog {
    ($($(#[$doc:meta])* $number:literal $constant:ident $name:ident $($module:ident)::+;)*) => {
        impl TypeId {
            $($(#[$doc])* pub const $constant: TypeId = TypeId::of_number($number);)*
        }
        /// The names that the tables of functions write these types with.
        #[allow(non_upper_case_globals, dead_code)]
        pub(crate) mod sig {
            use crate::TypeId;
            $(pub const $name: TypeId = TypeId::$constant;)*
        }
        /// The constants of these types' functions.
        #[allow(unused_imports)] // some types have none
        pub(crate) mod id {
            $(pub use super::$($module)::+::id::*;)*
        }
        pub(crate) const TYPES: &[TypeDef] = &[$(TypeDef { id: TypeId::$constant, ..$($module)::+::TYPE }),*];
        pub(crate) const FUNCTIONS: &[&[FuncDef]] = &[$($($module)::+::DEFS),*];
        pub(crate) const OPERATORS: &[&[&[OperatorDef]]] = &[$($($module)::+::OPERATORS),*];
        pub(crate) const AGGREGATES: &[&[AggDef]] = &[$($($module)::+::AGGREGATES),*];
        const CASTS: &[&[Cast]] = &[$($($module)::+::CASTS),*];
        /// Texts of each type's values: groups of equal ones, in ascending order.
        #[cfg(test)]
        pub(crate) const SAMPLES: &[(TypeId, &[&[&str]])] = &[$((TypeId::$constant, $($module)::+::SAMPLES)),*];
    };
}

catalog! {
    /// real
    15 FLOAT4 Float4 real;
    16 UUID Uuid uuid;
    17 INTERVAL Interval interval;
    18 OID Oid oid;
    19 NAME Name name;
    /// "char", which is not char(n)
    20 QUOTED_CHAR QuotedChar quoted_char;
    21 REGPROC Regproc registered::regproc;
    22 REGPROCEDURE Regprocedure registered::regprocedure;
    23 REGOPER Regoper registered::regoper;
    24 REGOPERATOR Regoperator registered::regoperator;
    25 REGCLASS Regclass registered::regclass;
    26 REGTYPE Regtype registered::regtype;
    27 REGROLE Regrole registered::regrole;
    28 REGNAMESPACE Regnamespace registered::regnamespace;
    29 REGCOLLATION Regcollation registered::regcollation;
    30 REGCONFIG Regconfig registered::regconfig;
    31 REGDICTIONARY Regdictionary registered::regdictionary;
    32 INT2VECTOR Int2vector vector::int2vector;
    33 OIDVECTOR Oidvector vector::oidvector;
    /// An expression of the catalogue.
    34 PG_NODE_TREE PgNodeTree internal::pg_node_tree;
    /// A privilege.
    35 ACLITEM Aclitem internal::aclitem;
    36 XID Xid xid;
    37 TIME Time time;
    38 TIMETZ Timetz timetz;
    39 TID Tid tid;
    40 JSON Json json::plain;
    41 JSONB Jsonb json::binary;
}

/// How the bytes of an opaque type are computed with. Bytes are those of a value, without NULL.
#[derive(Debug)]
pub struct Form {
    /// The bytes that every value has, at most 255: they lie in a row as they are. `None` for values of
    /// different lengths.
    pub width: Option<u8>,
    /// Reads a value of the type. The type's cast to itself, if it has one, brings the value into the
    /// modifier afterwards.
    pub input: fn(&str, Type, &Context<'_>) -> SqlResult<Value>,
    /// Appends the text of a value of the type.
    pub output: fn(TypeId, &[u8], &mut String),
    pub compare: fn(&[u8], &[u8]) -> Ordering,
    pub key: Key,
}

/// How a value is brought into a key (`crate::key`, invariants 1 to 4).
#[derive(Debug)]
pub enum Key {
    /// Every key has so many bytes, at most 16: the first of what the function gives.
    Fixed { width: u8, make: fn(&[u8]) -> [u8; 16] },
    /// Appends a key that ends itself.
    Ended(fn(&[u8], &mut Vec<u8>)),
}

impl Key {
    /// Appends the key of a value.
    pub fn push(&self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            Key::Fixed { width, make } => out.extend_from_slice(&make(bytes)[..usize::from(*width)]),
            Key::Ended(push) => push(bytes, out),
        }
    }

    /// The bytes of every key; `None` if they differ in length.
    pub fn width(&self) -> Option<usize> {
        match self {
            Key::Fixed { width, .. } => Some(usize::from(*width)),
            Key::Ended(_) => None,
        }
    }
}

/// A cast from an opaque type, or to one, other than through text.
#[derive(Debug)]
pub struct Cast {
    pub from: TypeId,
    pub to: TypeId,
    pub context: CastContext,
    /// The value has the type `from`; the result's modifier is applied by `run`.
    pub run: fn(ValueRef<'_>, Type, &Context<'_>) -> SqlResult<Value>,
}

/// The casts by their types.
static BY_TYPES: LazyLock<HashMap<(TypeId, TypeId), &'static Cast>> =
    LazyLock::new(|| CASTS.iter().copied().flatten().map(|c| ((c.from, c.to), c)).collect());

/// The cast between two types, if one is listed.
pub(crate) fn cast(from: TypeId, to: TypeId) -> Option<&'static Cast> {
    BY_TYPES.get(&(from, to)).copied()
}

/// A comparison of two values of one type, as the code of a function.
macro_rules! compares {
    ($test:ident) => {
        |c| Ok(crate::Value::Bool(crate::value::compare(c.args[0], c.args[1]).$test()))
    };
}
pub(crate) use compares;

/// The operators of the six comparisons of two types: of the functions for `<`, `<=`, `=`, `<>`, `>=`, `>`.
pub(crate) const fn comparisons((a, b): (TypeId, TypeId), functions: [FuncId; 6]) -> [OperatorDef; 6] {
    let [lt, le, eq, ne, ge, gt] = functions;
    [
        binary("<", a, b, lt, ">", ">="),
        binary("<=", a, b, le, ">=", ">"),
        binary("=", a, b, eq, "=", "<>"),
        binary("<>", a, b, ne, "<>", "="),
        binary(">=", a, b, ge, "<=", "<"),
        binary(">", a, b, gt, "<", "<="),
    ]
}

#[cfg(test)]
pub(crate) mod tests;
