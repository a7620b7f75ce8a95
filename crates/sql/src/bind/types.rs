//! Type names of parse trees.

use super::names::Names;
use super::tree::{at, kind, refuse_at, strings};
use crate::parse::tree::{TypeName, a_const::Val, node::Node as Kind};
use ondol_engine::{Catalog, Name};
use ondol_types::catalog::registered;
use ondol_types::user::{UserDef, composite};
use ondol_types::{SqlError, SqlResult, Type, TypeId, sqlstate};

/// The type that a name means. A column, argument or cast may not have `unknown` or `void`.
pub fn bind_type(of: Names<'_>, name: &TypeName) -> SqlResult<Type> {
    let ty = any_type(of, name)?;
    if matches!(ty.id, TypeId::UNKNOWN | TypeId::VOID) {
        let message = format!("type \"{}\" cannot be used here", ty.id.name());
        return Err(at(SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message), name.location));
    }
    Ok(ty)
}

/// Refuses a column of a type whose values are not stored.
pub fn check_stored(ty: TypeId) -> SqlResult<()> {
    // The number is (`ondol_types::catalog::registered`).
    if registered::kind(ty).is_some() {
        return Ok(());
    }
    check_stored_within(ty)
}

/// The same of what lies within values of a column.
pub fn check_stored_within(ty: TypeId) -> SqlResult<()> {
    let item = ty.element().unwrap_or(ty);
    let of_rows = |u: &UserDef| u.kind == composite::ROW;
    if item.user().is_some_and(of_rows) {
        return Err(SqlError::unsupported(format_args!("a column of the type of the rows of {item}")));
    }
    if item == TypeId::RECORD {
        return Err(SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, "a column has pseudo-type record"));
    }
    match registered::kind(item) {
        Some(_) => Err(SqlError::unsupported(format_args!("a column of type {ty}"))
            .hint("A column of type oid can be shown as the name by a cast.")),
        None => Ok(()),
    }
}

/// The same, with `void` allowed, as a function's result may be.
pub fn any_type(of: Names<'_>, name: &TypeName) -> SqlResult<Type> {
    let location = name.location;
    refuse_at(name.pct_type, "%TYPE", location)?;
    refuse_at(name.setof, "SETOF here", location)?;
    let names = strings(&name.names)?;
    let (plain, user) = match names[..] {
        // The grammar makes another name of one that is not in quotes.
        ["char"] | ["pg_catalog", "char"] => (TypeId::QUOTED_CHAR.name(), None),
        ["record"] | ["pg_catalog", "record"] => ("record", Some(TypeId::RECORD)),
        ["_record"] | ["pg_catalog", "_record"] => ("record[]", TypeId::RECORD.array()),
        [n] => (n, if TypeId::from_name(n).is_none() { found_type(of, n, location) } else { None }),
        ["pg_catalog", n] => (n, None),
        [schema, n] => {
            let schema_number = of.schema(schema, location)?;
            let missing = || {
                let message = format!("type \"{schema}.{n}\" does not exist");
                at(SqlError::new(sqlstate::UNDEFINED_OBJECT, message), location)
            };
            (n, Some(user_type(of.catalog, &Name::new(schema_number, n)).ok_or_else(missing)?))
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

/// A type that users have defined, or that of a relation's rows.
fn item_type(catalog: &Catalog, name: &Name) -> Option<TypeId> {
    catalog.ty(name).or_else(|| catalog.row_type_named(name))
}

/// A type that users have defined, that of a relation's rows, or the arrays of one (engine/name/A6).
fn user_type(catalog: &Catalog, name: &Name) -> Option<TypeId> {
    item_type(catalog, name).or_else(|| item_type(catalog, &catalog.item_of_array(name)?)?.array())
}

/// Whether a new type, or a relation, cannot have the name. The name of arrays is in nobody's way.
pub fn is_taken(catalog: &Catalog, name: &Name) -> bool {
    item_type(catalog, name).is_some()
}

/// The same of a name without a schema.
fn found_type(of: Names<'_>, name: &str, location: i32) -> Option<TypeId> {
    let found = of.path.schemas.iter().find_map(|s| user_type(of.catalog, &Name::new(*s, name)))?;
    of.note(location, found.user().map_or(0, |u| u.schema));
    Some(found)
}

/// The name a cast to the type gives a column: the last part of the type's name.
pub fn type_label(name: &TypeName) -> Option<&str> {
    strings(&name.names).ok().and_then(|n| n.last().copied())
}
