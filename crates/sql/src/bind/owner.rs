//! OWNER TO: whose something is. There is one role, whose everything is: what is named must be there, and so
//! must the role, and then nothing is to be done.
use super::Binder;
use super::schema::role;
use super::tree::{kind, need, string, unexpected};
use crate::bound::Statement;
use crate::parse::tree::{AlterOwnerStmt, AlterTableCmd, AlterTableStmt, ObjectType, node::Node as Kind};
use ondol_engine::Relation;
use ondol_types::{SqlError, SqlResult, sqlstate};

fn done(tag: &'static str) -> Statement {
    Statement::Nothing { tag, notice: String::new() }
}

/// An action of ALTER TABLE.
pub(super) fn check_owner(c: &AlterTableCmd) -> SqlResult<()> {
    role(c.newowner.as_ref().ok_or_else(|| unexpected("OWNER TO"))?).map(drop)
}

impl<'a> Binder<'a> {
    /// ALTER TABLE, VIEW, ... with OWNER TO alone: of any relation.
    pub(super) fn relation_owner(&mut self, s: &'a AlterTableStmt) -> SqlResult<Statement> {
        let (tag, what) = match s.objtype() {
            ObjectType::ObjectView => ("ALTER VIEW", "a view"),
            ObjectType::ObjectSequence => ("ALTER SEQUENCE", "a sequence"),
            ObjectType::ObjectIndex => ("ALTER INDEX", "an index"),
            ObjectType::ObjectMatview => ("ALTER MATERIALIZED VIEW", "a materialized view"),
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
            _ => true,
        };
        if !fits {
            let message = format!("\"{}\" is not {what}", name.name);
            return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message));
        }
        for node in &s.cmds {
            let Kind::AlterTableCmd(c) = kind(node)? else { return Err(unexpected(tag)) };
            check_owner(c)?
        }
        Ok(done(tag))
    }

    /// The same of what is not a relation.
    pub(super) fn change_owner(&mut self, s: &'a AlterOwnerStmt) -> SqlResult<Statement> {
        role(s.newowner.as_ref().ok_or_else(|| unexpected("OWNER TO"))?)?;
        let object = need(&s.object)?;
        Ok(done(match s.object_type() {
            ObjectType::ObjectSchema => {
                self.names().schema(string(object)?, -1)?;
                "ALTER SCHEMA"
            }
            of @ (ObjectType::ObjectType | ObjectType::ObjectDomain) => {
                let Kind::List(list) = kind(object)? else { return Err(unexpected("OWNER TO")) };
                let (user, written) = self.type_named(&list.items)?;
                if user.is_none() {
                    let message = format!("type \"{written}\" does not exist");
                    return Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, message));
                }
                if of == ObjectType::ObjectDomain { "ALTER DOMAIN" } else { "ALTER TYPE" }
            }
            of @ (ObjectType::ObjectFunction | ObjectType::ObjectRoutine) => {
                let Kind::ObjectWithArgs(o) = kind(object)? else { return Err(unexpected("OWNER TO")) };
                self.function_meant(o)?;
                if of == ObjectType::ObjectFunction { "ALTER FUNCTION" } else { "ALTER ROUTINE" }
            }
            other => {
                let what = super::ddl::upper_words(&format!("{other:?}"), "Object");
                return Err(SqlError::unsupported(format_args!("ALTER {what} ... OWNER")));
            }
        }))
    }
}
