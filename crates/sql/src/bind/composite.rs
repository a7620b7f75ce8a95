//! CREATE TYPE ... AS (...), ALTER TYPE of its fields.
use super::Binder;
use super::tree::{kind, need, refuse, unexpected};
use super::types::{any_type, check_stored_within};
use crate::bound::Statement;
use crate::parse::tree::{
    AlterTableStmt, AlterTableType, ColumnDef, CompositeTypeStmt, RangeVar, RenameStmt, node::Node as Kind,
};
use ondol_engine::Name;
use ondol_types::user::{UserDef, composite};
use ondol_types::{SqlError, SqlResult, Type, TypeId, sqlstate};

impl<'a> Binder<'a> {
    pub(super) fn create_composite(&mut self, s: &'a CompositeTypeStmt) -> SqlResult<Statement> {
        let var = s.typevar.as_ref().ok_or_else(|| unexpected("CREATE TYPE"))?;
        let place = self.names().place(&var.schemaname, &var.relname, -1)?;
        if self.catalog.table(&place).is_some() || self.catalog.view(&place).is_some() {
            let message = format!("relation \"{}\" already exists", place.name);
            return Err(SqlError::new(sqlstate::DUPLICATE_TABLE, message));
        }
        self.free_type_name(&place)?;
        let mut fields = Vec::with_capacity(s.coldeflist.len());
        for node in &s.coldeflist {
            let Kind::ColumnDef(c) = kind(node)? else { return Err(unexpected("CREATE TYPE")) };
            fields.push((c.colname.clone(), self.field_type(c)?));
        }
        let def = composite::define(place.schema, &place.name, fields)?;
        Ok(Statement::CreateType { def, tag: "CREATE TYPE" })
    }

    fn field_type(&self, c: &ColumnDef) -> SqlResult<Type> {
        refuse(c.coll_clause.is_some(), "COLLATE of an attribute")?;
        let name = c.type_name.as_ref().ok_or_else(|| unexpected("an attribute without a type"))?;
        let ty = any_type(self.names(), name)?;
        if matches!(ty.id, TypeId::UNKNOWN | TypeId::VOID | TypeId::RECORD) {
            let message = format!("column \"{}\" has pseudo-type {}", c.colname, ty.id);
            return Err(SqlError::new(sqlstate::INVALID_TABLE_DEFINITION, message));
        }
        check_stored_within(ty.base().id)?;
        Ok(ty)
    }

    /// The composite type of a name that stands where a relation's does.
    fn composite_named(&self, var: &'a RangeVar) -> SqlResult<&'static UserDef> {
        let (schema, name) = (&var.schemaname, &var.relname);
        let found = match schema.as_str() {
            "" => self.catalog.find_type(self.path, name),
            schema => self.catalog.ty(Name::new(self.names().schema(schema, -1)?, &**name)),
        };
        let Some(user) = found.and_then(|t| t.user()) else {
            let message = format!("relation \"{}\" does not exist", super::names::written(var));
            return Err(match self.relation_of(var) {
                Some(_) => {
                    let message = format!("\"{name}\" is not a composite type");
                    SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message)
                }
                None => SqlError::new(sqlstate::UNDEFINED_TABLE, message),
            });
        };
        match user.kind {
            composite::CODE => Ok(user),
            _ => {
                let message = format!("relation \"{}\" does not exist", super::names::written(var));
                Err(SqlError::new(sqlstate::UNDEFINED_TABLE, message))
            }
        }
    }

    /// A column that has values of the type within its own.
    fn column_with(&self, user: &UserDef) -> Option<String> {
        self.catalog.tables().find_map(|t| {
            let is_one = |u: &UserDef| u.is_same_type(user) || u.is_made_of(user.number);
            let of = |c: &&ondol_engine::ColumnDef| c.domain.unwrap_or(c.ty.id).user().is_some_and(is_one);
            let column = t.def.columns.iter().find(of)?;
            Some(format!("{}.{}", t.def.name, column.name))
        })
    }

    /// ALTER TYPE ... ADD, DROP and ALTER ATTRIBUTE
    pub(super) fn alter_composite(&mut self, s: &'a AlterTableStmt) -> SqlResult<Statement> {
        let relation = s.relation.as_ref().ok_or_else(|| unexpected("ALTER TYPE"))?;
        let old = self.composite_named(relation)?;
        let mut def = old.clone();
        for node in &s.cmds {
            let Kind::AlterTableCmd(c) = kind(node)? else { return Err(unexpected("ALTER TYPE")) };
            let column = || match kind(need(&c.def)?)? {
                Kind::ColumnDef(column) => Ok(&**column),
                _ => Err(unexpected("ALTER TYPE")),
            };
            // CASCADE is about tables that are declared to be of the type, which there are none of.
            match c.subtype() {
                AlterTableType::AtAddColumn => {
                    let column = column()?;
                    def = def.with_field(&column.colname, self.field_type(column)?)?;
                }
                AlterTableType::AtDropColumn => {
                    if c.missing_ok && def.the_field(&c.name).is_err() {
                        let notice = format!(
                            "column \"{}\" of relation \"{}\" does not exist, skipping",
                            c.name, def.name
                        );
                        self.notices.push(("00000", notice));
                        continue;
                    }
                    def.the_field(&c.name)?;
                    if let Some(column) = self.column_with(old) {
                        let feature = "dropping an attribute of a type that columns have";
                        let detail = format!("Column {column} uses it.");
                        return Err(SqlError::unsupported(feature).detail(detail));
                    }
                    def = def.without_field(&c.name)?;
                }
                AlterTableType::AtAlterColumnType => {
                    let ty = self.field_type(column()?)?;
                    def.the_field(&c.name)?;
                    if let Some(column) = self.column_with(old) {
                        let message =
                            format!("cannot alter type \"{}\" because column \"{column}\" uses it", def.name);
                        return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
                    }
                    def = def.with_field_of(&c.name, ty)?;
                }
                _ => return Err(SqlError::unsupported("this form of ALTER TYPE")),
            }
        }
        if def.has_domains()
            && !old.has_domains()
            && let Some(column) = self.column_with(old)
        {
            let feature = "an attribute of a domain in a type that columns have";
            return Err(SqlError::unsupported(feature).detail(format!("Column {column} uses it.")));
        }
        Ok(Statement::AlterType { name: Name::new(old.schema, &*old.name), def, tag: "ALTER TYPE" })
    }

    /// ALTER TYPE ... RENAME ATTRIBUTE
    pub(super) fn rename_field(&mut self, s: &'a RenameStmt) -> SqlResult<Statement> {
        let relation = s.relation.as_ref().ok_or_else(|| unexpected("RENAME ATTRIBUTE"))?;
        let old = self.composite_named(relation)?;
        let def = old.clone().with_renamed_field(&s.subname, &s.newname)?;
        Ok(Statement::AlterType { name: Name::new(old.schema, &*old.name), def, tag: "ALTER TYPE" })
    }
}
