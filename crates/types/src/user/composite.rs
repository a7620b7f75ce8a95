//! Composite types: rows of named fields, as values ([`crate::catalog::record`]).
//!
//! A part of the definition is a field: its name and type. Those that a changed definition has behind the
//! others are NULL in values that were made before it; whoever changes one otherwise sees to it that there
//! are no such values.
//!
//! The rows of a table are of such a type, too, which is made of the table's columns where it is asked for
//! ([`of_table`]) and is not in the dictionary. Its number, and that of the arrays of it, follow from the
//! table's.
//!
//! Source: PostgreSQL 15's documentation, 8.16, CREATE TYPE and ALTER TYPE, and its answers.

use super::{Items, Kind, Part, Shape, UserDef};
use crate::catalog::record;
use crate::func::{FuncDef, OperatorDef};
use crate::ty::{Category, Class, Modifier};
use crate::{SqlError, SqlResult, Type, TypeId, name, sqlstate};

/// The kind's code.
pub const CODE: &str = "composite";
/// That of the rows of tables.
pub const ROW: &str = "row";

/// Composite types lie in each other at most so deep.
const MOST_DEEP: usize = 64;

/// What the number of the relation that a composite type is has beside the type's number.
const CLASS: u32 = 1 << 28;
/// What the number of the type of a table's rows has beside the table's number.
const OF_ROWS: u32 = 1 << 29;
/// That of the arrays of them.
const ARRAY_OF_ROWS: u32 = 1 << 30;

const fn kind(code: &'static str) -> Kind {
    Kind {
        code,
        shape: |_| Shape {
            category: Category::Composite,
            class: Class::Opaque(&record::FORM),
            modifier: Modifier::None,
        },
        items: Items::Alike(TypeId::RECORD),
        create: |_, called, fields| format!("CREATE TYPE {called} AS ({fields});"),
    }
}

pub(super) const KIND: Kind = kind(CODE);
pub(super) const ROW_KIND: Kind = kind(ROW);

pub(super) mod id {}
pub(super) const DEFS: &[FuncDef] = &[];
pub(super) const OPERATORS: &[&[OperatorDef]] = &[];

/// The definition of a type, without its numbers.
pub fn define(schema: u32, name: &str, fields: Vec<(String, Type)>) -> SqlResult<UserDef> {
    let mut def = UserDef {
        number: 0,
        array: 0,
        schema,
        name: name.to_string(),
        kind: CODE,
        base: None,
        not_null: false,
        default: None,
        parts: Vec::with_capacity(fields.len()),
        fresh: None,
    };
    for (name, ty) in fields {
        if def.parts.iter().any(|p| p.name == name) {
            let message = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(sqlstate::DUPLICATE_COLUMN, message));
        }
        def.push(name, ty)
    }
    def.checked()
}

/// The type of a table's rows.
pub fn of_table(table: u32, schema: u32, name: &str, columns: impl Iterator<Item = (String, Type)>) -> UserDef {
    let (base, not_null, default) = (None, false, None);
    let mut def = UserDef {
        number: type_of_rows(table),
        array: array_of_rows(table),
        schema,
        name: name.to_string(),
        kind: ROW,
        base,
        not_null,
        default,
        parts: Vec::new(),
        fresh: None,
    };
    columns.for_each(|(name, ty)| def.push(name, ty));
    def
}

/// The number of the relation that a composite type of the number is, and the other way.
pub fn class_of(number: u32) -> u32 {
    number ^ CLASS
}

/// The number of the type of a table's rows.
pub fn type_of_rows(table: u32) -> u32 {
    table | OF_ROWS
}

/// The number of the arrays of a table's rows.
pub fn array_of_rows(table: u32) -> u32 {
    table | ARRAY_OF_ROWS
}

/// The number of the table whose rows, or arrays of whose rows, have the type of a number; and whether it is
/// the arrays'. `None` if it is no such number.
pub fn table_of(number: u32) -> Option<(u32, bool)> {
    let table = number & !(OF_ROWS | ARRAY_OF_ROWS);
    match number ^ table {
        OF_ROWS => Some((table, false)),
        ARRAY_OF_ROWS => Some((table, true)),
        _ => None,
    }
}

/// The fields of a type that has some.
pub fn fields(ty: TypeId) -> Option<&'static [Part]> {
    let user = ty.user().filter(|u| u.is_composite() && !ty.is_array())?;
    Some(&user.parts)
}

impl TypeId {
    /// Whether it is the type of the rows of a table of the number, or of arrays of them.
    pub fn is_row_of(self, table: u32) -> bool {
        self.user().is_some_and(|u| u.kind == ROW && u.number == type_of_rows(table))
    }
}

impl Part {
    /// The type of a field.
    pub fn of(&self) -> Type {
        self.ty.unwrap_or(Type::TEXT)
    }
}

impl UserDef {
    /// Whether it has fields.
    pub fn is_composite(&self) -> bool {
        matches!(self.kind, CODE | ROW)
    }

    /// Whether fields of it, or fields of fields, are a domain's. There are no arrays of such a type.
    pub fn has_domains(&self) -> bool {
        self.parts.iter().filter_map(|p| p.ty).any(|t| {
            let inner = t.id.user().is_some_and(|u| u.kind == super::domain::CODE || u.has_domains());
            inner || t.base() != t
        })
    }

    fn push(&mut self, name: String, ty: Type) {
        let key = self.parts.last().map_or(0, |p| p.key + 1);
        self.parts.push(Part { key, name, text: None, ty: Some(ty) })
    }

    fn checked(self) -> SqlResult<UserDef> {
        const MOST: usize = 1600;
        if self.parts.len() > MOST {
            let message = format!("tables can have at most {MOST} columns");
            return Err(SqlError::new("54011", message));
        }
        if self.depth() > MOST_DEEP {
            let message = format!("composite types within each other, more than {MOST_DEEP} deep");
            return Err(SqlError::unsupported(message));
        }
        Ok(self)
    }

    fn field(&self, name: &str) -> Option<usize> {
        self.parts.iter().position(|p| p.name == name)
    }

    /// The place of a field that must be there.
    pub fn the_field(&self, name: &str) -> SqlResult<usize> {
        self.field(name).ok_or_else(|| {
            let message = format!("column \"{name}\" of relation \"{}\" does not exist", self.name);
            SqlError::new(sqlstate::UNDEFINED_COLUMN, message)
        })
    }

    fn free(&self, name: &str) -> SqlResult<()> {
        match self.field(name) {
            None => Ok(()),
            Some(_) => {
                let message = format!("column \"{name}\" of relation \"{}\" already exists", self.name);
                Err(SqlError::new(sqlstate::DUPLICATE_COLUMN, message))
            }
        }
    }

    /// The type with one more field, of a type that is not made of it.
    fn refuse_itself(&self, ty: Type) -> SqlResult<()> {
        let within = |u: &UserDef| u.is_same_type(self) || u.is_made_of(self.number);
        if ty.id.user().is_some_and(within) {
            let message =
                format!("composite type {} cannot be made a member of itself", name::quote(&self.name));
            return Err(SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message));
        }
        Ok(())
    }

    pub fn with_field(mut self, name: &str, ty: Type) -> SqlResult<UserDef> {
        self.free(name)?;
        self.refuse_itself(ty)?;
        self.push(name.to_string(), ty);
        self.checked()
    }

    pub fn without_field(mut self, name: &str) -> SqlResult<UserDef> {
        let place = self.the_field(name)?;
        self.parts.remove(place);
        Ok(self)
    }

    pub fn with_field_of(mut self, name: &str, ty: Type) -> SqlResult<UserDef> {
        let place = self.the_field(name)?;
        self.refuse_itself(ty)?;
        self.parts[place].ty = Some(ty);
        self.checked()
    }

    pub fn with_renamed_field(mut self, from: &str, to: &str) -> SqlResult<UserDef> {
        let missing = || {
            let message = format!("column \"{from}\" does not exist");
            SqlError::new(sqlstate::UNDEFINED_COLUMN, message)
        };
        let place = self.field(from).ok_or_else(missing)?;
        self.free(to)?;
        self.parts[place].name = to.to_string();
        Ok(self)
    }
}
