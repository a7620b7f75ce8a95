//! Types that stand in PostgreSQL's catalogue alone: stored expressions, privileges. Their values are made by
//! the database and not read from text.
//!
//! Source: PostgreSQL 15's catalogue and its answers.

use super::{Cast, Form, Key};
use crate::agg::AggDef;
use crate::cast::CastContext::Implicit;
use crate::func::{Context, FuncDef, OperatorDef};
use crate::ty::{Category, TypeDef};
use crate::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, sqlstate};

/// A stored expression, of which the text is kept.
pub fn node_tree(text: &str) -> Value {
    Value::Opaque(TypeId::PG_NODE_TREE, text.as_bytes().into())
}

fn refused(name: &str) -> SqlResult<Value> {
    let message = format!("cannot accept a value of type {name}");
    Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message))
}

fn to_text(v: ValueRef<'_>, _: Type, _: &Context<'_>) -> SqlResult<Value> {
    Ok(match v {
        ValueRef::Opaque(_, b) => Value::Text(String::from_utf8_lossy(b).into_owned()),
        other => other.to_owned(),
    })
}

fn write(_: TypeId, bytes: &[u8], out: &mut String) {
    out.push_str(&String::from_utf8_lossy(bytes))
}

fn ended(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(bytes.iter().copied().filter(|b| *b != 0));
    out.push(0)
}

macro_rules! internal {
    ($($module:ident $type:expr, $form:expr, $casts:expr, $samples:expr;)*) => {
        $(pub mod $module {
            use super::*;

            static FORM: Form = $form;
            pub(in crate::catalog) const TYPE: TypeDef = $type;
            pub mod id {}
            pub(in crate::catalog) const DEFS: &[FuncDef] = &[];
            pub(in crate::catalog) const OPERATORS: &[&[OperatorDef]] = &[];
            pub(in crate::catalog) const CASTS: &[Cast] = $casts;
            pub(in crate::catalog) const AGGREGATES: &[AggDef] = &[];
            #[cfg(test)]
            pub(in crate::catalog) const SAMPLES: &[&[&str]] = $samples;
        })*
    };
}

internal! {
    pg_node_tree TypeDef::opaque(194, "pg_node_tree", "pg_node_tree", Category::Internal, &FORM),
        Form {
            width: None,
            input: |_, _, _| refused("pg_node_tree"),
            output: write,
            compare: |a, b| a.cmp(b),
            key: Key::Ended(ended),
        },
        &[Cast { from: TypeId::PG_NODE_TREE, to: TypeId::TEXT, context: Implicit, run: to_text }],
        &[];
    aclitem TypeDef::opaque(1033, "aclitem", "aclitem", Category::User, &FORM).array(1034),
        Form {
            width: None,
            input: |_, _, _| refused("aclitem"),
            output: write,
            compare: |a, b| a.cmp(b),
            key: Key::Ended(ended),
        },
        &[],
        &[];
}
