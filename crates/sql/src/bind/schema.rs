//! CREATE, ALTER and DROP SCHEMA; ALTER ... SET SCHEMA; current_schema and current_schemas.

use super::alter::renamed;
use super::names::no_schema;
use super::tree::{kind, need, place, refuse, refuse_at, string, unexpected};
use super::user_type::no_type;
use super::{Binder, constant};
use crate::bound::{Dropped, Expr, Statement};
use crate::parse::statement_text;
use crate::parse::tree::{
    AlterObjectSchemaStmt, CreateSchemaStmt, DropBehavior, DropStmt, ObjectType, RangeVar, node::Node as Kind,
};
use ondol_engine::name::{TEMPORARY, is_system};
use ondol_engine::{Name, Relation, TableDef, ViewDef};
use ondol_types::user::{UserDef, domain};
use ondol_types::{SqlError, SqlResult, Type, Value, sqlstate};

fn is_reserved(name: &str) -> SqlResult<()> {
    if !name.starts_with("pg_") {
        return Ok(());
    }
    let message = format!("unacceptable schema name \"{name}\"");
    Err(SqlError::new("42939", message).detail("The prefix \"pg_\" is reserved for system schemas."))
}

impl<'a> Binder<'a> {
    pub(super) fn create_schema(&mut self, s: &'a CreateSchemaStmt) -> SqlResult<Statement> {
        let owner = s.authrole.as_ref().map(|r| self.role_id(r)).transpose()?;
        let name = match (s.schemaname.as_str(), owner) {
            ("", Some(owner)) => self.catalog.role_name(owner),
            (name, _) => name.to_string(),
        };
        is_reserved(&name)?;
        if !s.if_not_exists && self.catalog.schema(&name).is_some() {
            return Err(SqlError::new("42P06", format!("schema \"{name}\" already exists")));
        }
        let mut elements: Vec<(u8, String)> = Vec::with_capacity(s.schema_elts.len());
        for node in &s.schema_elts {
            // In the order in which PostgreSQL makes them.
            let (turn, relation) = match kind(node)? {
                Kind::CreateSeqStmt(e) => (0, e.sequence.as_ref()),
                Kind::CreateStmt(e) => (1, e.relation.as_ref()),
                Kind::ViewStmt(e) => (2, e.view.as_ref()),
                Kind::IndexStmt(e) => (3, e.relation.as_ref()),
                Kind::GrantStmt(_) => (4, None),
                other => {
                    let what = super::utility::statement_name(other);
                    return Err(SqlError::unsupported(format_args!("{what} in CREATE SCHEMA")));
                }
            };
            if relation.is_some_and(|r| r.relpersistence == "t") {
                let message = "cannot create temporary relation in non-temporary schema";
                return Err(SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message));
            }
            let given = relation.map_or("", |r: &RangeVar| &r.schemaname);
            if !given.is_empty() && given != name {
                let message = format!(
                    "CREATE specifies a schema ({given}) different from the one being created ({name})"
                );
                return Err(SqlError::new("42P15", message));
            }
            elements.push((turn, statement_text(node)?));
        }
        elements.sort_by_key(|e| e.0);
        let elements = elements.into_iter().map(|e| e.1).collect();
        Ok(Statement::CreateSchema { name, if_not_exists: s.if_not_exists, elements, owner })
    }

    pub(super) fn rename_schema(&mut self, name: &str, to: &str) -> SqlResult<Statement> {
        let schema = self.catalog.schema(name).ok_or_else(|| no_schema(name))?;
        if self.catalog.schema(to).is_some() {
            return Err(SqlError::new("42P06", format!("schema \"{to}\" already exists")));
        }
        is_reserved(to)?;
        refuse(schema.is_system(), format_args!("renaming schema {name}"))?;
        Ok(Statement::RenameSchema { name: name.to_string(), to: to.to_string() })
    }

    pub(super) fn drop_schema(&mut self, s: &'a DropStmt) -> SqlResult<Statement> {
        let mut names: Vec<Dropped<String>> = Vec::with_capacity(s.objects.len());
        for node in &s.objects {
            let name = string(node)?;
            let dropped = match self.catalog.schema(name) {
                Some(schema) if schema.is_system() => {
                    let message =
                        format!("cannot drop schema {name} because it is required by the database system");
                    return Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message));
                }
                Some(_) => Dropped::There(name.to_string()),
                None if s.missing_ok => Dropped::Missing(format!("{}, skipping", no_schema(name).0.message)),
                None => return Err(no_schema(name)),
            };
            if !names.contains(&dropped) {
                names.push(dropped)
            }
        }
        Ok(Statement::DropSchema { names, cascade: s.behavior() == DropBehavior::DropCascade })
    }

    /// The schema that something is to get into, which was in that one.
    fn new_schema(&self, to: &str, was: u32) -> SqlResult<u32> {
        let number = self.names().schema(to, -1)?;
        if number != was && (number == TEMPORARY || was == TEMPORARY) {
            let message = "cannot move objects into or out of temporary schemas";
            return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
        }
        refuse(is_system(number) && number != was, format_args!("SET SCHEMA {to}"))?;
        Ok(number)
    }

    /// ALTER ... SET SCHEMA
    pub(super) fn set_schema(&mut self, s: &'a AlterObjectSchemaStmt) -> SqlResult<Statement> {
        let to = &s.newschema;
        match s.object_type() {
            ObjectType::ObjectTable
            | ObjectType::ObjectView
            | ObjectType::ObjectMatview
            | ObjectType::ObjectForeignTable => {
                let relation = s.relation.as_ref().ok_or_else(|| unexpected("SET SCHEMA"))?;
                refuse_at(!relation.catalogname.is_empty(), "a database name before a schema", -1)?;
                let of_view = s.object_type() == ObjectType::ObjectView;
                let of_material = s.object_type() == ObjectType::ObjectMatview;
                let tag = match s.object_type() {
                    ObjectType::ObjectView => "ALTER VIEW",
                    ObjectType::ObjectMatview => "ALTER MATERIALIZED VIEW",
                    ObjectType::ObjectForeignTable => "ALTER FOREIGN TABLE",
                    _ => "ALTER TABLE",
                };
                if let Some(skipped) = self.skipped(relation, s.missing_ok, tag) {
                    return Ok(skipped);
                }
                self.relation_name(&s.relation)?;
                let view = self.relation_of(relation).and_then(|f| f.1.view());
                if of_view && view.is_none() {
                    return Err(self.no_view(relation));
                }
                if of_material {
                    self.material_of(relation)?;
                }
                if let Some(view) = view {
                    let schema = self.new_schema(to, view.schema)?;
                    let def = ViewDef { schema, ..(**view).clone() };
                    if schema != view.schema {
                        self.free_place(&def.full_name(), to)?;
                    }
                    return Ok(Statement::AlterView { name: view.full_name(), def, tag });
                }
                if let Some((index, Relation::Index { .. })) = self.relation_of(relation) {
                    let message = format!("\"{}\" is an index", index.name);
                    return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message));
                }
                let table = self.any_table(relation).map_err(|mut e| {
                    e.0.position = None;
                    e
                })?;
                if s.object_type() == ObjectType::ObjectForeignTable && !table.def.is_foreign() {
                    let message = format!("\"{}\" is not a foreign table", table.def.name);
                    return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message));
                }
                let schema = self.new_schema(to, table.def.schema)?;
                let def = TableDef { schema, ..table.def.clone() };
                if schema != table.def.schema {
                    self.free_place(&def.full_name(), to)?;
                    for i in &def.indexes {
                        self.free_place(&def.index_name(i), to)?
                    }
                    for s in def.sequences().filter_map(|s| self.catalog.sequence_by_id(s)) {
                        self.free_place(&Name::new(schema, &*s.def.name), to)?
                    }
                }
                Ok(renamed(&table.def, def, tag))
            }
            ObjectType::ObjectType | ObjectType::ObjectDomain => {
                let is_domain = s.object_type() == ObjectType::ObjectDomain;
                let Kind::List(list) = kind(need(&s.object)?)? else { return Err(unexpected("SET SCHEMA")) };
                let (user, written) = self.type_named(&list.items)?;
                let user = user.ok_or_else(|| no_type(&written))?;
                if is_domain && user.kind != domain::CODE {
                    let message = format!("{written} is not a domain");
                    return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message));
                }
                let schema = self.new_schema(to, user.schema)?;
                let place = Name::new(schema, &*user.name);
                if schema != user.schema {
                    let taken = self.catalog.ty(&place).is_some() || self.catalog.table(&place).is_some();
                    if taken {
                        let message = format!("type \"{}\" already exists in schema \"{to}\"", user.name);
                        return Err(SqlError::new(sqlstate::DUPLICATE_OBJECT, message));
                    }
                }
                let def = UserDef { schema, ..user.clone() };
                let tag = if is_domain { "ALTER DOMAIN" } else { "ALTER TYPE" };
                Ok(Statement::AlterType { name: Name::new(user.schema, &*user.name), def, tag })
            }
            ObjectType::ObjectFunction | ObjectType::ObjectRoutine => {
                let Kind::ObjectWithArgs(o) = kind(need(&s.object)?)? else {
                    return Err(unexpected("SET SCHEMA"));
                };
                let function = self.function_meant(o)?;
                let Some(f) = self.catalog.functions.get(&function) else {
                    return Err(unexpected("a function that is not there"));
                };
                let schema = self.new_schema(to, f.schema)?;
                let named = self.functions(Some(schema), &f.name);
                if schema != f.schema && named.iter().any(|o| o.arg_types().eq(f.arg_types())) {
                    let args: Vec<&str> = f.arg_types().map(super::name_of).collect();
                    let message =
                        format!("function {}({}) already exists in schema \"{to}\"", f.name, args.join(","));
                    return Err(SqlError::new(sqlstate::DUPLICATE_FUNCTION, message));
                }
                Ok(Statement::MoveFunction { function, schema })
            }
            other => {
                let what = super::ddl::upper_words(&format!("{other:?}"), "Object");
                Err(SqlError::unsupported(format_args!("ALTER {what} ... SET SCHEMA")))
            }
        }
    }

    fn free_place(&self, name: &Name, schema: &str) -> SqlResult<()> {
        if self.catalog.relations.contains_key(name) {
            let message = format!("relation \"{}\" already exists in schema \"{schema}\"", name.name);
            return Err(SqlError::new(sqlstate::DUPLICATE_TABLE, message));
        }
        if self.catalog.ty(name).is_some() {
            let message = format!("type \"{}\" already exists in schema \"{schema}\"", name.name);
            return Err(SqlError::new(sqlstate::DUPLICATE_OBJECT, message));
        }
        Ok(())
    }

    /// The schemas of the path, those that are implied if they are asked for.
    pub(super) fn current_schemas(&mut self, implied: bool, location: i32) -> SqlResult<Expr> {
        let numbers = if implied { &self.path.schemas[..] } else { self.path.listed() };
        let numbers = numbers.iter().filter(|s| **s != TEMPORARY);
        let item = |s: &u32| {
            let name = self.catalog.schema_name(*s);
            format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
        };
        let items = numbers.map(item).collect::<Vec<_>>().join(",");
        let ty = Type::TEXT.array().ok_or_else(|| unexpected("an array of texts"))?;
        let literal = constant(Value::Text(format!("{{{items}}}")), Type::UNKNOWN, place(location));
        self.cast(literal, ty, true)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_of_systems_are_reserved() {
        assert!(super::is_reserved("pg_mine").is_err() && super::is_reserved("pgmine").is_ok());
    }
}
