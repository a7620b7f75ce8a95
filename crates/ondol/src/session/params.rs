//! Typed parameters: from Rust values to SQL values, and to the types that a statement wants.
use ondol_types::cast::{self, CastContext};
use ondol_types::catalog::record;
use ondol_types::func::Context;
use ondol_types::{Numeric, SqlError, SqlResult, Type, TypeId, Value, ValueRef, sqlstate, text};
use std::borrow::{Borrow, Cow};

/// What can be given as a parameter. `None` is NULL.
pub trait IntoValue {
    fn into_value(self) -> Value;
}

macro_rules! into_value {
    ($($from:ty => |$v:ident| $to:expr;)*) => {
        $(impl IntoValue for $from {
            fn into_value(self) -> Value {
                let $v = self;
                $to
            }
        })*
    };
}

into_value! {
    Value => |v| v;
    bool => |v| Value::Bool(v);
    i16 => |v| Value::Int2(v);
    i32 => |v| Value::Int4(v);
    u16 => |v| Value::Int4(v.into());
    i64 => |v| Value::Int8(v);
    u32 => |v| Value::Int8(v.into());
    f64 => |v| Value::Float8(v);
    f32 => |v| Value::Float8(v.into());
    Numeric => |v| Value::Numeric(v);
    &str => |v| Value::Text(v.to_string());
    &String => |v| Value::Text(v.clone());
    String => |v| Value::Text(v);
    &[u8] => |v| Value::Bytea(v.to_vec());
    Vec<u8> => |v| Value::Bytea(v);
}

impl<T: IntoValue> IntoValue for Option<T> {
    fn into_value(self) -> Value {
        self.map_or(Value::Null, T::into_value)
    }
}

/// An array of parameters: `params![7i64, "name", None::<i32>]`.
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        [$($crate::IntoValue::into_value($value)),*] as [$crate::Value; $crate::params!(@count $($value),*)]
    };
    (@count) => { 0 };
    (@count $head:expr $(, $tail:expr)*) => { 1 + $crate::params!(@count $($tail),*) };
}

/// Brings given values to the types of a statement's parameters. A text is read as a literal of the wanted
/// type; other values take the casts that an assignment would.
pub(crate) fn fit<'v>(
    given: &'v [Value],
    wanted: &[TypeId],
    ctx: &Context<'_>,
) -> SqlResult<Vec<Cow<'v, Value>>> {
    if given.len() != wanted.len() {
        return Err(count_mismatch(given.len(), wanted.len()));
    }
    given.iter().zip(wanted).enumerate().map(|(i, (v, &ty))| fit_one(v, ty, i, ctx)).collect()
}

pub(crate) fn count_mismatch(given: usize, wanted: usize) -> SqlError {
    SqlError::new("08P01", format!("the statement takes {wanted} parameters, but {given} were given"))
}

/// Whether all values are taken as they are, as most are.
pub(crate) fn are_fitted(given: &[Value], wanted: &[TypeId]) -> bool {
    given.len() == wanted.len()
        && given.iter().zip(wanted).all(|(v, ty)| v.type_id().is_none_or(|from| is_fitted(v, from, *ty)))
}

/// Whether a value, of the type `from`, is taken as it is. The frame takes a char's blanks off.
fn is_fitted(value: &Value, from: TypeId, ty: TypeId) -> bool {
    from == ty || matches!((value, ty), (Value::Text(_), TypeId::VARCHAR | TypeId::BPCHAR | TypeId::UNKNOWN))
}

fn fit_one<'v>(value: &'v Value, ty: TypeId, i: usize, ctx: &Context<'_>) -> SqlResult<Cow<'v, Value>> {
    let Some(from) = value.type_id() else { return Ok(Cow::Borrowed(value)) };
    match (value, ty) {
        _ if is_fitted(value, from, ty) => Ok(Cow::Borrowed(value)),
        (Value::Text(s), _) => text::input(s, Type::new(ty), ctx).map(Cow::Owned),
        // A row of the type before it got more fields.
        (Value::Opaque(_, b), _) if record::are_one(from, ty) => Ok(Cow::Owned(Value::Opaque(ty, b.clone()))),
        // Of the type before it was changed: the label tells.
        _ if from.is_user() && ty.is_user() => {
            text::input(&value.to_string(), Type::new(ty), ctx).map(Cow::Owned)
        }
        _ if cast::cast_context(from, ty).is_some_and(|c| c <= CastContext::Assignment) => {
            cast::cast(value.clone(), from, Type::new(ty), false, ctx).map(Cow::Owned)
        }
        _ => Err(SqlError::new(
            sqlstate::DATATYPE_MISMATCH,
            format!("parameter ${} is of type {} but the value given is {}", i + 1, ty.name(), from.name()),
        )),
    }
}

/// Borrowed forms of values, NUMERICs encoded.
pub(crate) fn with_refs<R>(values: &[impl Borrow<Value>], f: impl FnOnce(&[ValueRef<'_>]) -> R) -> R {
    /// So many without an allocation.
    const FEW: usize = 8;
    if values.len() <= FEW {
        let mut scratch: [Vec<u8>; FEW] = Default::default();
        let mut refs = [ValueRef::Null; FEW];
        for ((r, v), s) in refs.iter_mut().zip(values).zip(&mut scratch) {
            *r = v.borrow().as_ref(s)
        }
        return f(&refs[..values.len()]);
    }
    let mut scratch: Vec<Vec<u8>> = vec![Vec::new(); values.len()];
    let refs: Vec<ValueRef<'_>> =
        values.iter().zip(&mut scratch).map(|(v, s)| v.borrow().as_ref(s)).collect();
    f(&refs)
}
