//! COMMENT: what is commented.
use super::Binder;
use super::names::parts;
use super::tree::{kind, list, need, string, strings, unexpected};
use crate::bound::Statement;
use crate::parse::tree::{self, Node, ObjectType, node::Node as Kind};
use ondol_engine::{CommentKind, Commented, Name, Relation, schema_id};
use ondol_types::user::UserDef;
use ondol_types::{SqlError, SqlResult, sqlstate};

fn wrong(state: &'static str, message: String) -> SqlError {
    SqlError::new(state, message)
}

impl<'a> Binder<'a> {
    pub(super) fn comment(&mut self, s: &'a tree::CommentStmt) -> SqlResult<Statement> {
        let object = need(&s.object)?;
        // PostgreSQL takes an empty text as none.
        let text = (!s.comment.is_empty()).then(|| s.comment.clone());
        let (on, name) = match s.objtype() {
            ObjectType::ObjectTable => self.commented_relation(list(object)?, "table", "a table")?,
            ObjectType::ObjectMatview => {
                self.commented_relation(list(object)?, "materialized view", "a materialized view")?
            }
            ObjectType::ObjectForeignTable => {
                self.commented_relation(list(object)?, "foreign table", "a foreign table")?
            }
            ObjectType::ObjectView => self.commented_relation(list(object)?, "view", "a view")?,
            ObjectType::ObjectIndex => self.commented_relation(list(object)?, "index", "an index")?,
            ObjectType::ObjectSequence => self.commented_relation(list(object)?, "sequence", "a sequence")?,
            ObjectType::ObjectColumn => self.commented_column(list(object)?)?,
            ObjectType::ObjectTabconstraint => self.commented_constraint(list(object)?)?,
            ObjectType::ObjectFunction | ObjectType::ObjectRoutine => {
                let Kind::ObjectWithArgs(o) = kind(object)? else { return Err(unexpected("COMMENT")) };
                let id = self.function_meant(o)?;
                return Ok(Statement::Comment {
                    on: Commented::whole(CommentKind::Function, id),
                    name: None,
                    text,
                });
            }
            ObjectType::ObjectType | ObjectType::ObjectDomain => {
                let user = self.commented_type(object)?;
                (Commented::whole(CommentKind::Type, user.number), Name::new(user.schema, &*user.name))
            }
            ObjectType::ObjectDomconstraint => {
                let [of, constraint] = list(object)? else { return Err(unexpected("COMMENT")) };
                let user = self.commented_type(of)?;
                let (constraint, name) = (string(constraint)?, Name::new(user.schema, &*user.name));
                let is_domain = user.kind == ondol_types::user::domain::CODE;
                if !is_domain || !user.parts.iter().any(|p| p.name == constraint) {
                    let message =
                        format!("constraint \"{constraint}\" for domain {} does not exist", user.name);
                    return Err(wrong(sqlstate::UNDEFINED_OBJECT, message));
                }
                (Commented::part(CommentKind::TypeConstraint, user.number, constraint), name)
            }
            ObjectType::ObjectSchema => {
                let name = string(object)?;
                let number = self.names().schema(name, -1)?;
                let on = Commented::whole(CommentKind::Schema, schema_id(number));
                return Ok(Statement::Comment { on, name: None, text });
            }
            other => {
                let what = super::ddl::upper_words(&format!("{other:?}"), "Object");
                return Err(SqlError::unsupported(format_args!("COMMENT ON {what}")));
            }
        };
        Ok(Statement::Comment { on, name: Some(name), text })
    }

    /// A relation, with its number and what it is.
    fn relation_named(&self, names: &'a [Node]) -> SqlResult<(Name, &'a Relation, u32, &'static str)> {
        let (schema, written) = parts(names)?;
        let found = match schema {
            None => self.catalog.find(self.path, written),
            Some(s) => {
                let name = Name::new(self.names().schema(s, -1)?, written);
                self.catalog.relations.get(&name).map(|r| (name, r))
            }
        };
        let Some((name, relation)) = found else {
            let written = strings(names)?.join(".");
            return Err(wrong(sqlstate::UNDEFINED_TABLE, format!("relation \"{written}\" does not exist")));
        };
        let (id, what) = match relation {
            Relation::Table(t) => (t.def.id, t.def.kind_name()),
            Relation::View(v) => (v.id, "view"),
            Relation::Sequence(s) => (s.def.id, "sequence"),
            Relation::Index { table } => {
                let table = self.catalog.table(table);
                let index = table.and_then(|t| t.def.indexes.iter().find(|i| i.name == name.name));
                (index.map_or(0, |i| i.id), "index")
            }
        };
        Ok((name, relation, id, what))
    }

    fn commented_relation(
        &self,
        names: &'a [Node],
        wanted: &str,
        shown: &str,
    ) -> SqlResult<(Commented, Name)> {
        let (name, _, id, what) = self.relation_named(names)?;
        if what != wanted {
            return Err(wrong(sqlstate::WRONG_OBJECT_TYPE, format!("\"{}\" is not {shown}", name.name)));
        }
        Ok((Commented::whole(CommentKind::Relation, id), name))
    }

    fn commented_column(&self, names: &'a [Node]) -> SqlResult<(Commented, Name)> {
        let Some((column, of)) = names.split_last().filter(|n| !n.1.is_empty()) else {
            return Err(wrong(sqlstate::SYNTAX_ERROR, "column name must be qualified".into()));
        };
        let column = string(column)?;
        let (name, relation, id, _) = self.relation_named(of)?;
        let has_it = match relation {
            Relation::Table(t) => t.def.column(column).is_some(),
            Relation::View(v) => v.column(column).is_some(),
            Relation::Index { .. } | Relation::Sequence(_) => {
                let kind = if let Relation::Index { .. } = relation { "indexes" } else { "sequences" };
                let message = format!("cannot set comment on relation \"{}\"", name.name);
                return Err(wrong(sqlstate::WRONG_OBJECT_TYPE, message)
                    .detail(format!("This operation is not supported for {kind}.")));
            }
        };
        if !has_it {
            let message = format!("column \"{column}\" of relation \"{}\" does not exist", name.name);
            return Err(wrong(sqlstate::UNDEFINED_COLUMN, message));
        }
        Ok((Commented::part(CommentKind::Column, id, column), name))
    }

    fn commented_constraint(&self, names: &'a [Node]) -> SqlResult<(Commented, Name)> {
        let Some((constraint, of)) = names.split_last() else { return Err(unexpected("COMMENT")) };
        let constraint = string(constraint)?;
        let (name, relation, id, _) = self.relation_named(of)?;
        if !relation.table().is_some_and(|t| t.def.is_constraint(constraint)) {
            let message = format!("constraint \"{constraint}\" for table \"{}\" does not exist", name.name);
            return Err(wrong(sqlstate::UNDEFINED_OBJECT, message));
        }
        Ok((Commented::part(CommentKind::Constraint, id, constraint), name))
    }

    fn commented_type(&self, node: &'a Node) -> SqlResult<&'static UserDef> {
        let Kind::TypeName(name) = kind(node)? else { return Err(unexpected("COMMENT ON TYPE")) };
        let (user, written) = self.type_named(&name.names)?;
        user.ok_or_else(|| match ondol_types::TypeId::from_name(&written) {
            Some(_) => SqlError::unsupported(format_args!("a comment on type {written}")),
            None => wrong(sqlstate::UNDEFINED_OBJECT, format!("type \"{written}\" does not exist")),
        })
    }
}
