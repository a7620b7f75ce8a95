//! int2vector and oidvector: arrays of one dimension with subscripts from 0, written with blanks between the
//! items. Their bytes are those of such an array.
//!
//! Source: PostgreSQL 15's catalogue and its answers.

use super::{Cast, Form, Key};
use crate::agg::AggDef;
use crate::array::{self, Array, Builder, Dimension};
use crate::cast::CastContext::Implicit;
use crate::func::{Context, FuncDef, OperatorDef};
use crate::ty::{Category, TypeDef};
use crate::{SqlResult, Type, TypeId, Value, ValueRef, text};

fn of_items(ty: TypeId, item: TypeId, items: impl ExactSizeIterator<Item = Value>) -> SqlResult<Value> {
    let mut out = Builder::new(item);
    let length = items.len() as i32;
    for v in items {
        out.push(v.as_ref(&mut Vec::new()))?;
    }
    Ok(match out.finish(&[Dimension { length, lower: 0 }])? {
        Value::Opaque(_, bytes) => Value::Opaque(ty, bytes),
        other => other,
    })
}

/// An oidvector.
pub fn oids(numbers: &[u32]) -> SqlResult<Value> {
    of_items(TypeId::OIDVECTOR, TypeId::OID, numbers.iter().map(|n| super::oid::oid(*n)))
}

/// An int2vector.
pub fn int2s(numbers: &[i16]) -> SqlResult<Value> {
    of_items(TypeId::INT2VECTOR, TypeId::INT2, numbers.iter().map(|n| Value::Int2(*n)))
}

/// The type of arrays whose items such a type has; `None` of any other type.
pub fn array_of(ty: TypeId) -> Option<TypeId> {
    match ty {
        TypeId::INT2VECTOR => TypeId::INT2.array(),
        TypeId::OIDVECTOR => TypeId::OID.array(),
        _ => None,
    }
}

fn read(written: &str, ty: TypeId, item: TypeId, ctx: &Context<'_>) -> SqlResult<Value> {
    let items: SqlResult<Vec<Value>> =
        written.split_ascii_whitespace().map(|w| text::input(w, Type::new(item), ctx)).collect();
    of_items(ty, item, items?.into_iter())
}

fn write(_: TypeId, bytes: &[u8], out: &mut String) {
    for (n, item) in Array::of(bytes).items().enumerate() {
        if n > 0 {
            out.push(' ')
        }
        text::output(item, Type::TEXT, out)
    }
}

fn to_array(v: ValueRef<'_>, to: Type, _: &Context<'_>) -> SqlResult<Value> {
    Ok(match v {
        ValueRef::Opaque(_, b) => Value::Opaque(to.id, b.into()),
        other => other.to_owned(),
    })
}

macro_rules! vectors {
    ($($module:ident $constant:ident $item:ident $oid:literal $array:literal $name:literal $samples:expr;)*) => {
        $(pub mod $module {
            use super::*;

            static FORM: Form = Form {
                width: None,
                input: |text, _, ctx| read(text, TypeId::$constant, TypeId::$item, ctx),
                output: write,
                compare: array::FORM.compare,
                key: Key::Ended(array::push_key),
            };
            pub(in crate::catalog) const TYPE: TypeDef =
                TypeDef::opaque($oid, $name, $name, Category::Array, &FORM).array($array);
            pub mod id {}
            pub(in crate::catalog) const DEFS: &[FuncDef] = &[];
            pub(in crate::catalog) const OPERATORS: &[&[OperatorDef]] = &[];
            pub(in crate::catalog) const CASTS: &[Cast] = &[Cast {
                from: TypeId::$constant,
                to: TypeId::$item.of_arrays(),
                context: Implicit,
                run: to_array,
            }];
            pub(in crate::catalog) const AGGREGATES: &[AggDef] = &[];
            #[cfg(test)]
            pub(in crate::catalog) const SAMPLES: &[&[&str]] = $samples;
        })*
    };
}

vectors! {
    int2vector INT2VECTOR INT2 22 1006 "int2vector" &[&["", " "], &["-1"], &["1", " 1 "], &["1 2"], &["2"]];
    oidvector OIDVECTOR OID 30 1013 "oidvector" &[&["", " "], &["1", " 1 "], &["1 2"], &["2"], &["4294967295"]];
}
