//! OWNER TO: whose something is.
use super::Binder;
use super::role::{Holder, RoleStatement, role_statement};
use super::tree::{kind, need, string, unexpected};
use crate::bound::Statement;
use crate::parse::tree::{AlterOwnerStmt, AlterTableStmt, ObjectType, node::Node as Kind};
use ondol_engine::{Name, Relation};
use ondol_types::{SqlError, SqlResult, sqlstate};

impl<'a> Binder<'a> {
    /// ALTER TABLE, VIEW, ... with OWNER TO alone: of any relation.
    pub(super) fn relation_owner(&mut self, s: &'a AlterTableStmt) -> SqlResult<Statement> {
        let (tag, what) = match s.objtype() {
            ObjectType::ObjectView => ("ALTER VIEW", "a view"),
            ObjectType::ObjectSequence => ("ALTER SEQUENCE", "a sequence"),
            ObjectType::ObjectIndex => ("ALTER INDEX", "an index"),
            ObjectType::ObjectMatview => ("ALTER MATERIALIZED VIEW", "a materialized view"),
            ObjectType::ObjectForeignTable => ("ALTER FOREIGN TABLE", "a foreign table"),
            ObjectType::ObjectType => ("ALTER TYPE", "a composite type"),
            _ => ("ALTER TABLE", "a table"),
        };
        let relation = s.relation.as_ref().ok_or_else(|| unexpected(tag))?;
        if let Some(skipped) = self.skipped(relation, s.missing_ok, tag) {
            return Ok(skipped);
        }
        self.relation_name(&s.relation)?;
        let Some((name, found)) = self.relation_of(relation) else {
            let message = format!("relation \"{}\" does not exist", super::names::written(relation));
            return Err(SqlError::new(sqlstate::UNDEFINED_TABLE, message));
        };
        let fits = match s.objtype() {
            ObjectType::ObjectView => matches!(found, Relation::View(_)),
            ObjectType::ObjectSequence => matches!(found, Relation::Sequence(_)),
            ObjectType::ObjectIndex => matches!(found, Relation::Index { .. }),
            ObjectType::ObjectMatview => matches!(found, Relation::Table(t) if t.def.is_material()),
            ObjectType::ObjectForeignTable => matches!(found, Relation::Table(t) if t.def.is_foreign()),
            _ => true,
        };
        if !fits {
            let message = format!("\"{}\" is not {what}", name.name);
            return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message));
        }
        let [node] = &s.cmds[..] else {
            return Err(SqlError::unsupported("OWNER TO together with other actions"));
        };
        let Kind::AlterTableCmd(c) = kind(node)? else { return Err(unexpected(tag)) };
        let to = self.role_id(c.newowner.as_ref().ok_or_else(|| unexpected("OWNER TO"))?)?;
        if let Relation::Index { .. } = found {
            if self.catalog.rights_number(found).is_some_and(|(_, id)| self.catalog.owner(id) != to) {
                let message = format!("cannot change owner of index \"{}\"", name.name);
                self.notices.push(("01000", message));
            }
            return Ok(Statement::Nothing { tag, notice: String::new() });
        }
        if let Relation::Sequence(q) = found
            && let Some((table, _)) = self.catalog.owner_of(q.def.id)
        {
            let message = format!("cannot change owner of sequence \"{}\"", name.name);
            let detail = format!("Sequence \"{}\" is linked to table \"{}\".", name.name, table.def.name);
            return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message).detail(detail));
        }
        let holder = Holder::relation(self.catalog, &name).ok_or_else(|| unexpected(tag))?;
        Ok(role_statement(RoleStatement::Owner { holder, to, tag }))
    }

    /// The same of what is not a relation.
    pub(super) fn change_owner(&mut self, s: &'a AlterOwnerStmt) -> SqlResult<Statement> {
        let to = self.role_id(s.newowner.as_ref().ok_or_else(|| unexpected("OWNER TO"))?)?;
        let object = need(&s.object)?;
        let (holder, tag) = match s.object_type() {
            ObjectType::ObjectSchema => {
                let name = string(object)?;
                self.names().schema(name, -1)?;
                if self.catalog.schema(name).is_some_and(|s| s.is_system()) {
                    return Err(SqlError::unsupported(format_args!("ALTER SCHEMA {name} OWNER")));
                }
                (Holder::schema_of(self.catalog, name), "ALTER SCHEMA")
            }
            ObjectType::ObjectDatabase => {
                let name = string(object)?;
                super::role::known_database(name)?;
                (Some(Holder::database(name)), "ALTER DATABASE")
            }
            of @ (ObjectType::ObjectType | ObjectType::ObjectDomain) => {
                let Kind::List(list) = kind(object)? else { return Err(unexpected("OWNER TO")) };
                let (user, written) = self.type_named(&list.items)?;
                let Some(user) = user else {
                    let message = format!("type \"{written}\" does not exist");
                    return Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, message));
                };
                let tag = if of == ObjectType::ObjectDomain { "ALTER DOMAIN" } else { "ALTER TYPE" };
                (Holder::ty(self.catalog, &Name::new(user.schema, &*user.name)), tag)
            }
            of @ (ObjectType::ObjectFunction | ObjectType::ObjectRoutine) => {
                let Kind::ObjectWithArgs(o) = kind(object)? else { return Err(unexpected("OWNER TO")) };
                let id = self.function_meant(o)?;
                let tag = if of == ObjectType::ObjectFunction { "ALTER FUNCTION" } else { "ALTER ROUTINE" };
                (Holder::function(self.catalog, id), tag)
            }
            other => {
                let what = super::ddl::upper_words(&format!("{other:?}"), "Object");
                return Err(SqlError::unsupported(format_args!("ALTER {what} ... OWNER")));
            }
        };
        let holder = holder.ok_or_else(|| unexpected("OWNER TO"))?;
        Ok(role_statement(RoleStatement::Owner { holder, to, tag }))
    }
}
