//! Type names of parse trees.

use super::tree::{at, check_schema, kind, refuse_at, strings};
use crate::parse::tree::{TypeName, a_const::Val, node::Node as Kind};
use ondol_types::{SqlError, SqlResult, Type, sqlstate};

/// The type that a name means. A column, argument or cast may not have `unknown` or `void`.
pub fn bind_type(name: &TypeName) -> SqlResult<Type> {
    let ty = any_type(name)?;
    if matches!(ty.id, ondol_types::TypeId::UNKNOWN | ondol_types::TypeId::VOID) {
        let message = format!("type \"{}\" cannot be used here", ty.id.name());
        return Err(at(SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message), name.location));
    }
    Ok(ty)
}

/// The same, with `void` allowed, as a function's result may be.
pub fn any_type(name: &TypeName) -> SqlResult<Type> {
    let location = name.location;
    refuse_at(name.pct_type, "%TYPE", location)?;
    refuse_at(name.setof, "SETOF here", location)?;
    let names = strings(&name.names)?;
    let plain = match names[..] {
        ["char"] => return Err(at(SqlError::unsupported("type \"char\""), location)),
        [n] | ["pg_catalog", n] => n,
        [schema, n] => {
            check_schema("", schema, location)?;
            return Err(at(
                SqlError::new(sqlstate::UNDEFINED_OBJECT, format!("type \"{schema}.{n}\" does not exist")),
                location,
            ));
        }
        _ => return Err(at(SqlError::unsupported("a database name before a type"), location)),
    };
    let mut modifiers = Vec::with_capacity(name.typmods.len());
    for m in &name.typmods {
        let value = match kind(m)? {
            Kind::AConst(c) => match &c.val {
                Some(Val::Ival(i)) => Some(i.ival),
                _ => None,
            },
            _ => None,
        };
        modifiers.push(value.ok_or_else(|| {
            let message = "type modifiers must be simple constants or identifiers";
            at(SqlError::new(sqlstate::SYNTAX_ERROR, message), location)
        })?);
    }
    let ty = Type::by_name(plain, &modifiers).map_err(|e| at(e, location))?;
    // How many dimensions and items were written tells nothing, as in PostgreSQL.
    if name.array_bounds.is_empty() || ty.id.is_array() {
        return Ok(ty);
    }
    ty.array().ok_or_else(|| {
        let message = format!("could not find array type for data type {}", ty.id);
        at(SqlError::new(sqlstate::UNDEFINED_OBJECT, message), location)
    })
}

/// The name a cast to the type gives a column: the last part of the type's name.
pub fn type_label(name: &TypeName) -> Option<&str> {
    strings(&name.names).ok().and_then(|n| n.last().copied())
}
