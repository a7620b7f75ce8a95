//! Domains: another type with conditions on its values.
//!
//! A value of a domain is one of the type that it is made of, and is known as such everywhere: only what is
//! stored or cast as the domain's is looked at. A part of the definition is a condition: its name, and its
//! text, in which VALUE is the value. Conditions are bound anew by those who use them, as defaults are.
//!
//! Source: PostgreSQL 15's documentation, 8.18, CREATE DOMAIN and ALTER DOMAIN, and its answers.

use super::{Items, Kind, Part, Shape, UserDef};
use crate::func::{Call, OperatorDef, functions};
use crate::{SqlError, SqlResult, TypeId, Value, name, sqlstate};

/// The kind's code.
pub const CODE: &str = "domain";

pub(super) const KIND: Kind = Kind {
    code: CODE,
    shape: |def| {
        let base = def.base.map_or(TypeId::TEXT, |b| b.base().id).def();
        Shape { category: base.category, class: base.class, modifier: crate::ty::Modifier::None }
    },
    items: Items::OfBase,
    create,
};

fn create(def: &UserDef, called: &str, base: &str) -> String {
    let mut text = format!("CREATE DOMAIN {called} AS {base}");
    if let Some(default) = &def.default {
        text += &format!(" DEFAULT {default}");
    }
    if def.not_null {
        text += " NOT NULL";
    }
    for check in &def.parts {
        let condition = check.text.as_deref().unwrap_or("true");
        text += &format!(" CONSTRAINT {} CHECK ({condition})", name::quote(&check.name));
    }
    text + ";"
}

impl UserDef {
    /// The domain, and those that it is made of, the innermost last; nothing of a type of another kind.
    pub fn domains(&self) -> impl Iterator<Item = &UserDef> {
        let inner = |d: &&UserDef| d.base.filter(|b| !b.id.is_array()).and_then(|b| b.id.user());
        let is_domain = |d: &&UserDef| d.kind == CODE;
        std::iter::successors(Some(self), inner).take_while(is_domain)
    }

    /// The domain with another condition; no two of it have one name.
    pub fn with_check(mut self, check: &str, text: String) -> SqlResult<UserDef> {
        if self.parts.iter().any(|c| c.name == check) {
            let message = format!("constraint \"{check}\" for domain \"{}\" already exists", self.name);
            return Err(SqlError::new(sqlstate::DUPLICATE_OBJECT, message));
        }
        let key = self.parts.last().map_or(0, |c| c.key + 1);
        self.parts.push(Part { key, name: check.to_string(), text: Some(text), ty: None });
        Ok(self)
    }
}

// What a value that is none of the domain comes to: (the value, the domain as messages have it, its schema
// and its name, the condition).
functions! {
    970 NOT_OF_DOMAIN "$not_of_domain" (Any, Text, Text, Text, Text) -> AnyElement = |c| violates(c), stable, lax;
    971 NO_NULL_IN_DOMAIN "$no_null_in_domain" (Any, Text, Text, Text) -> AnyElement = |c| is_null(c), stable, lax;
}

pub(super) const OPERATORS: &[&[OperatorDef]] = &[];

fn violates(c: &Call<'_>) -> SqlResult<Value> {
    let (domain, check) = (c.text(1)?, c.text(4)?);
    let message = format!("value for domain {domain} violates check constraint \"{check}\"");
    Err(SqlError::new(sqlstate::CHECK_VIOLATION, message).data_type(c.text(2)?, c.text(3)?).constraint(check))
}

fn is_null(c: &Call<'_>) -> SqlResult<Value> {
    let message = format!("domain {} does not allow null values", c.text(1)?);
    Err(SqlError::new(sqlstate::NOT_NULL_VIOLATION, message).data_type(c.text(2)?, c.text(3)?))
}
