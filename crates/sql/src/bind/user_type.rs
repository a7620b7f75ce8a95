//! Types that users define: what is common to their kinds. Each kind's own statements stand in a file of its
//! own.
use super::Binder;
use super::ddl::upper_words;
use super::names::parts;
use super::tree::{kind, refuse, strings, unexpected};
use super::types::is_taken;
use crate::bound::{Dropped, Statement};
use crate::parse::tree::{DropBehavior, DropStmt, Node, ObjectType, RenameStmt, node::Node as Kind};
use ondol_engine::Name;
use ondol_types::user::{UserDef, domain};
use ondol_types::{SqlError, SqlResult, TypeId, known, sqlstate};

pub fn no_type(name: &str) -> SqlError {
    SqlError::new(sqlstate::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}

impl<'a> Binder<'a> {
    /// A type that is dropped or changed, and its name as it was written.
    pub(super) fn type_named(&self, nodes: &[Node]) -> SqlResult<(Option<&'static UserDef>, String)> {
        let (schema, name) = parts(nodes)?;
        let (found, written) = match schema {
            None => (self.catalog.find_type(self.path, name), name.to_string()),
            Some("pg_catalog") => {
                let message = format!("changing the type {name} of schema pg_catalog");
                return Err(SqlError::unsupported(message));
            }
            Some(schema) => {
                let number = self.names().schema(schema, -1)?;
                (self.catalog.ty(Name::new(number, name)), format!("{schema}.{name}"))
            }
        };
        Ok((found.and_then(|t| t.user()), written))
    }

    /// What the arrays of a name are arrays of, as it is shown.
    fn array_named(&self, nodes: &[Node]) -> SqlResult<Option<String>> {
        let item = |schema, name| self.catalog.item_of_array(&Name::new(schema, name));
        let found = match parts(nodes)? {
            (None, name) => self.path.schemas.iter().find_map(|s| item(*s, name)),
            (Some("pg_catalog"), _) => None,
            (Some(schema), name) => item(self.names().schema(schema, -1)?, name),
        };
        Ok(found.map(|item| self.catalog.shown(self.path, &item)))
    }

    /// Whether a new type can have the name.
    pub(super) fn free_type_name(&self, place: &Name) -> SqlResult<()> {
        let name = &place.name;
        if is_taken(self.catalog, place) {
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
        name: &[Node],
        code: &'static str,
        called: &str,
    ) -> SqlResult<&'static UserDef> {
        let (user, written) = self.type_named(name)?;
        let user = user.ok_or_else(|| no_type(&written))?;
        if user.kind == code {
            return Ok(user);
        }
        let message = format!("{} is not {called}", ondol_types::name::quote(&user.name));
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
            let (user, written) = match self.type_named(&t.names) {
                Err(e) if s.missing_ok && e.sqlstate() == "3F000" => {
                    names.push(Dropped::Missing(format!("{}, skipping", e.0.message)));
                    continue;
                }
                found => found?,
            };
            let table = || match self.names().found_relation(&t.names) {
                Some(table) if self.catalog.row_type_named(&table).is_some() => Some(table),
                _ => None,
            };
            if user.is_none()
                && let Some(table) = table()
            {
                let what = if self.catalog.view(&table).is_some() { "view" } else { "table" };
                let message = format!("cannot drop type {written} because {what} {written} requires it");
                return Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
                    .hint(format!("You can drop {what} {written} instead.")));
            }
            let array = match user {
                None => self.array_named(&t.names)?,
                Some(_) => None,
            };
            if let Some(item) = array {
                let message = format!("cannot drop type {item}[] because type {item} requires it");
                return Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
                    .hint(format!("You can drop type {item} instead.")));
            }
            let Some(user) = user else {
                if !s.missing_ok {
                    return Err(no_type(&written));
                }
                names.push(Dropped::Missing(format!("{}, skipping", no_type(&written).0.message)));
                continue;
            };
            if is_domain && user.kind != domain::CODE {
                let message = format!("\"{written}\" is not a domain");
                return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message));
            }
            names.push(Dropped::There(Name::new(user.schema, &*user.name)));
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
        if s.rename_type() == ObjectType::ObjectAttribute {
            return self.rename_field(s);
        }
        if let Some(statement) = self.rename_in_table(s)? {
            return Ok(statement);
        }
        let what = s.rename_type();
        if what == ObjectType::ObjectRole {
            return self.rename_role(&s.subname, &s.newname);
        }
        if what == ObjectType::ObjectSchema {
            return self.rename_schema(&s.subname, &s.newname);
        }
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
        let (user, written) = self.type_named(&list.items)?;
        let user = user.ok_or_else(|| no_type(&written))?;
        let name = &user.name;
        if what == ObjectType::ObjectDomain && user.kind != domain::CODE {
            let message = format!("{name} is not a domain");
            return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message));
        }
        self.free_type_name(&Name::new(user.schema, &*s.newname))?;
        let def = UserDef { name: s.newname.clone(), ..user.clone() };
        Ok(Statement::AlterType { name: Name::new(user.schema, name), def, tag })
    }
}
