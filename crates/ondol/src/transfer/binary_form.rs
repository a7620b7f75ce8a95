//! Values of COPY's binary format: the forms that clients know of parameters and results (`ondol_wire`). What
//! is built without the server has none, and refuses the format before any value comes here.
#[cfg(feature = "server")]
use crate::transfer::load::held;
use ondol_types::func::Context;
use ondol_types::{SqlResult, Type, ValueRef};
#[cfg(feature = "server")]
use ondol_types::{TypeId, Value, cast, text, ty::Class};
#[cfg(feature = "server")]
use ondol_wire::binary;

/// Whether values of a type have such a form.
#[cfg(feature = "server")]
pub fn is_sent(ty: Type) -> SqlResult<()> {
    binary::check_sent(ty.id)
}

/// Whether they are read from one.
#[cfg(feature = "server")]
pub fn is_read(ty: Type) -> SqlResult<()> {
    binary::check_read(ty.id)
}

/// Appends a value, or NULL, behind its length.
#[cfg(feature = "server")]
pub fn put(value: ValueRef<'_>, ty: Type, out: &mut Vec<u8>) -> SqlResult<()> {
    binary::write_item(value, ty, out)
}

/// A field's value, of the column's type.
#[cfg(feature = "server")]
pub fn convert<'a>(
    bytes: &'a [u8],
    ty: Type,
    ctx: &Context<'_>,
    scratch: &'a mut Vec<u8>,
) -> SqlResult<ValueRef<'a>> {
    if ty.typmod < 0
        && let Some(value) = binary::borrow(bytes, ty.id)
    {
        return Ok(value);
    }
    let value = match binary::read(bytes, ty.id)? {
        // What is sent as a text.
        Value::Text(t) if !matches!(ty.id.class(), Class::Text) => text::input(&t, ty, ctx)?,
        Value::Opaque(TypeId::OID, b) if ty.id != TypeId::OID => {
            cast::cast(Value::Opaque(TypeId::OID, b), TypeId::OID, ty, false, ctx)?
        }
        value => cast::apply_typmod(value, ty, false, ctx)?,
    };
    Ok(held(value, scratch))
}

#[cfg(not(feature = "server"))]
mod without {
    use super::*;

    fn none<T>() -> SqlResult<T> {
        Err(super::super::no_binary())
    }
    pub fn is_sent(_: Type) -> SqlResult<()> {
        none()
    }
    pub fn is_read(_: Type) -> SqlResult<()> {
        none()
    }
    pub fn put(_: ValueRef<'_>, _: Type, _: &mut Vec<u8>) -> SqlResult<()> {
        none()
    }
    pub fn convert<'a>(_: &'a [u8], _: Type, _: &Context<'_>, _: &'a mut Vec<u8>) -> SqlResult<ValueRef<'a>> {
        none()
    }
}
#[cfg(not(feature = "server"))]
pub use without::{convert, is_read, is_sent, put};
