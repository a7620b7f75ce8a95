//! Types that users define: what is common to their kinds. Each kind's own statements stand in a file of its
//! own.
use super::Binder;
use super::ddl::upper_words;
use super::tree::{at, kind, refuse, strings, unexpected};
use crate::bound::Statement;
use crate::parse::tree::{DropBehavior, DropStmt, Node, ObjectType, RenameStmt, node::Node as Kind};
use ondol_types::user::{UserDef, domain};
use ondol_types::{SqlError, SqlResult, TypeId, known, sqlstate};

/// The name of a type that is dropped or changed, without its schema.
pub fn plain_type_name(nodes: &[Node]) -> SqlResult<&str> {
    match strings(nodes)?[..] {
        [name] | ["public", name] => Ok(name),
        [schema, name] if schema == "pg_catalog" => {
            Err(SqlError::unsupported(format_args!("changing the type {name} of schema {schema}")))
        }
        [schema, _] => Err(SqlError::new("3F000", format!("schema \"{schema}\" does not exist"))),
        _ => Err(SqlError::unsupported("a database name before a type")),
    }
}

pub fn no_type(name: &str) -> SqlError {
    SqlError::new(sqlstate::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}

impl<'a> Binder<'a> {
    /// Whether a new type can have the name.
    pub(super) fn free_type_name(&self, name: &str) -> SqlResult<()> {
        let taken =
            super::types::user_type(self.catalog, name).is_some() || self.catalog.table(name).is_some();
        if taken {
            let message = format!("type \"{name}\" already exists");
            return Err(SqlError::new(sqlstate::DUPLICATE_OBJECT, message));
        }
        // In PostgreSQL the type could be named by its schema only.
        let hidden = TypeId::from_name(name).is_some() || known::is_type(name);
        refuse(hidden, format_args!("a type of the name of PostgreSQL's type {name}"))
    }

    /// The definition of a type of some kind; `called` is the kind in messages.
    pub(super) fn type_of_kind(
        &self,
        name: &str,
        code: &'static str,
        called: &str,
    ) -> SqlResult<&'static UserDef> {
        let user = self.catalog.types.get(name).and_then(|t| t.user()).ok_or_else(|| no_type(name))?;
        if user.kind == code {
            return Ok(user);
        }
        let message = format!("{} is not {called}", ondol_types::name::quote(name));
        Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message))
    }

    pub(super) fn drop_type(&mut self, s: &'a DropStmt) -> SqlResult<Statement> {
        let is_domain = s.remove_type() == ObjectType::ObjectDomain;
        let mut names = Vec::with_capacity(s.objects.len());
        for object in &s.objects {
            let Kind::TypeName(t) = kind(object)? else { return Err(unexpected("DROP TYPE")) };
            if let ["pg_catalog", name] = strings(&t.names)?[..] {
                let shown = TypeId::from_name(name).map_or(name.to_string(), |t| t.name().to_string());
                let message =
                    format!("cannot drop type {shown} because it is required by the database system");
                return Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message));
            }
            let name = plain_type_name(&t.names).map_err(|e| at(e, t.location))?;
            if let Some(user) = self.catalog.types.get(name).and_then(|t| t.user()) {
                if is_domain && user.kind != domain::CODE {
                    let message = format!("\"{name}\" is not a domain");
                    return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message));
                }
            } else if !s.missing_ok {
                return Err(no_type(name));
            }
            names.push(name.to_string());
        }
        Ok(Statement::DropType {
            names,
            if_exists: s.missing_ok,
            cascade: s.behavior() == DropBehavior::DropCascade,
            what: if is_domain { "domain" } else { "type" },
            tag: if is_domain { "DROP DOMAIN" } else { "DROP TYPE" },
        })
    }

    pub(super) fn rename(&mut self, s: &'a RenameStmt) -> SqlResult<Statement> {
        if let Some(statement) = self.rename_in_table(s)? {
            return Ok(statement);
        }
        let what = s.rename_type();
        let tag = match what {
            ObjectType::ObjectType => "ALTER TYPE",
            ObjectType::ObjectDomain => "ALTER DOMAIN",
            ObjectType::ObjectDomconstraint => {
                let object = s.object.as_deref().ok_or_else(|| unexpected("RENAME"))?;
                let names = match kind(object)? {
                    Kind::List(list) => &list.items,
                    Kind::TypeName(name) => &name.names,
                    _ => return Err(unexpected("RENAME")),
                };
                return self.rename_check(names, &s.subname, &s.newname);
            }
            other => {
                let what = upper_words(&format!("{other:?}"), "Object");
                return Err(SqlError::unsupported(format_args!("ALTER {what} ... RENAME")));
            }
        };
        let object = s.object.as_deref().ok_or_else(|| unexpected("RENAME"))?;
        let Kind::List(list) = kind(object)? else { return Err(unexpected("RENAME")) };
        let name = plain_type_name(&list.items)?;
        let user = self.catalog.types.get(name).and_then(|t| t.user()).ok_or_else(|| no_type(name))?;
        if what == ObjectType::ObjectDomain && user.kind != domain::CODE {
            let message = format!("{name} is not a domain");
            return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message));
        }
        self.free_type_name(&s.newname)?;
        let def = UserDef { name: s.newname.clone(), ..user.clone() };
        Ok(Statement::AlterType { name: name.to_string(), def, tag })
    }
}
