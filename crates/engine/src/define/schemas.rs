//! Schemas: made, renamed, dropped; and functions moved from one to another.
use super::{Connection, claims, d, there_is_schema};
use crate::catalog::{Catalog, FunctionDef};
use crate::comment::schema_id;
use crate::name::{PUBLIC, SchemaDef};
use crate::rights::RightsOf;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::Arc;

fn missing(name: &str) -> SqlError {
    SqlError::new("3F000", format!("schema \"{name}\" does not exist"))
}

fn free(c: &Catalog, name: &str) -> SqlResult<()> {
    match c.schema(name) {
        None => Ok(()),
        Some(_) => Err(SqlError::new("42P06", format!("schema \"{name}\" already exists"))),
    }
}

/// A schema that may be changed.
fn find<'a>(c: &'a Catalog, name: &str) -> SqlResult<&'a SchemaDef> {
    let schema = c.schema(name).ok_or_else(|| missing(name))?;
    match schema.is_system() {
        false => Ok(schema),
        true => Err(SqlError::unsupported(format_args!("changing schema {name}"))),
    }
}

impl Connection {
    /// Gives its number.
    pub fn create_schema(&mut self, name: &str) -> SqlResult<u32> {
        self.defining(
            |_| claims::create_schema(name),
            |me, c| {
                free(c, name)?;
                let db = me.db.clone();
                let number = db.next_schema()?;
                d::add_schema(&mut me.session, &db.dictionary, number, Some(name))?;
                me.draft().schema(name, Some(SchemaDef { number }));
                me.own(c, RightsOf::Schema, number, schema_id(number))?;
                Ok(number)
            },
        )
    }

    pub fn rename_schema(&mut self, name: &str, to: &str) -> SqlResult<()> {
        self.defining(
            |c| [claims::change_schema(c, name), claims::create_schema(to)].concat(),
            |me, c| {
                let schema = find(c, name)?.clone();
                free(c, to)?;
                let db = me.db.clone();
                d::remove_schema(&mut me.session, &db.dictionary, schema.number)?;
                d::add_schema(&mut me.session, &db.dictionary, schema.number, Some(to))?;
                let draft = me.draft();
                draft.schema(name, None);
                draft.schema(to, Some(schema));
                Ok(())
            },
        )
    }

    /// Removes a schema in which there is nothing.
    pub fn drop_schema(&mut self, name: &str) -> SqlResult<()> {
        self.defining(
            |c| claims::change_schema(c, name),
            |me, c| {
                let number = find(c, name)?.number;
                let is_empty = !c.has_relations(number)
                    && !c.types.keys().any(|n| n.schema == number)
                    && !c.functions.values().any(|f| f.schema == number);
                if !is_empty {
                    let message = format!("cannot drop schema {name} because other objects depend on it");
                    return Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message));
                }
                let db = me.db.clone();
                d::remove_schema(&mut me.session, &db.dictionary, number)?;
                if number == PUBLIC {
                    // It is there where nothing says otherwise (dictionary/D7).
                    d::add_schema(&mut me.session, &db.dictionary, number, None)?
                }
                me.drop_comments(c, [schema_id(number)])?;
                me.drop_rights(c, schema_id(number))?;
                me.draft().schema(name, None);
                Ok(())
            },
        )
    }

    /// Puts a function into another schema.
    pub fn move_function(&mut self, id: u32, schema: u32) -> SqlResult<()> {
        self.defining(
            |c| claims::move_function(c, id, schema),
            |me, c| {
                let Some(old) = c.functions.get(&id).cloned() else {
                    let message = format!("function number {id} does not exist");
                    return Err(SqlError::new(sqlstate::UNDEFINED_FUNCTION, message));
                };
                there_is_schema(c, schema)?;
                let is_same = |f: &&Arc<FunctionDef>| {
                    f.schema == schema && f.name == old.name && f.arg_types().eq(old.arg_types())
                };
                if c.functions.values().any(|f| is_same(&f)) {
                    let message =
                        format!("function \"{}\" already exists with same argument types", old.name);
                    return Err(SqlError::new(sqlstate::DUPLICATE_FUNCTION, message));
                }
                let db = me.db.clone();
                let new = FunctionDef { schema, ..(*old).clone() };
                d::remove_function(&mut me.session, &db.dictionary, id)?;
                d::add_function(&mut me.session, &db.dictionary, &new)?;
                me.draft().function(id, Some(Arc::new(new)));
                Ok(())
            },
        )
    }
}
