//! Type names of parse trees.

use super::tree::{at, check_schema, kind, refuse_at, strings};
use crate::parse::tree::{TypeName, a_const::Val, node::Node as Kind};
use ondol_engine::Catalog;
use ondol_types::{SqlError, SqlResult, Type, TypeId, sqlstate};

/// The type that a name means. A column, argument or cast may not have `unknown` or `void`.
pub fn bind_type(catalog: &Catalog, name: &TypeName) -> SqlResult<Type> {
    let ty = any_type(catalog, name)?;
    if matches!(ty.id, TypeId::UNKNOWN | TypeId::VOID) {
        let message = format!("type \"{}\" cannot be used here", ty.id.name());
        return Err(at(SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message), name.location));
    }
    Ok(ty)
}

/// The same, with `void` allowed, as a function's result may be.
pub fn any_type(catalog: &Catalog, name: &TypeName) -> SqlResult<Type> {
    let location = name.location;
    refuse_at(name.pct_type, "%TYPE", location)?;
    refuse_at(name.setof, "SETOF here", location)?;
    let names = strings(&name.names)?;
    let (plain, user) = match names[..] {
        // The grammar makes another name of one that is not in quotes.
        ["char"] | ["pg_catalog", "char"] => (TypeId::QUOTED_CHAR.name(), None),
        [n] => (n, if TypeId::from_name(n).is_none() { user_type(catalog, n) } else { None }),
        ["pg_catalog", n] => (n, None),
        [schema, n] => {
            check_schema("", schema, location)?;
            let missing = || {
                let message = format!("type \"{schema}.{n}\" does not exist");
                at(SqlError::new(sqlstate::UNDEFINED_OBJECT, message), location)
            };
            (n, Some(user_type(catalog, n).ok_or_else(missing)?))
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
    let ty = match user {
        Some(_) if !modifiers.is_empty() => {
            let message = format!("type modifier is not allowed for type \"{plain}\"");
            return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), location));
        }
        Some(id) => Type::new(id),
        None => Type::by_name(plain, &modifiers).map_err(|e| at(e, location))?,
    };
    // How many dimensions and items were written tells nothing, as in PostgreSQL.
    if name.array_bounds.is_empty() || ty.id.is_array() {
        return Ok(ty);
    }
    ty.array().ok_or_else(|| {
        if ty.base().id.is_array() {
            return at(SqlError::unsupported(format_args!("arrays of {ty}, a domain of arrays")), location);
        }
        let message = format!("could not find array type for data type {}", ty.id);
        at(SqlError::new(sqlstate::UNDEFINED_OBJECT, message), location)
    })
}

/// A type that users have defined, or the arrays of it, which have its name behind an underscore.
pub fn user_type(catalog: &Catalog, name: &str) -> Option<TypeId> {
    let of = |n: &str| catalog.types.get(n).copied();
    of(name).or_else(|| of(name.strip_prefix('_')?)?.array())
}

/// The name a cast to the type gives a column: the last part of the type's name.
pub fn type_label(name: &TypeName) -> Option<&str> {
    strings(&name.names).ok().and_then(|n| n.last().copied())
}
