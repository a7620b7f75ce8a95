//! Names: of schemas, of what is in them, and how those without a schema are looked up.
//!
//! - **A1** A name is one of a schema, by the schema's number: another name for a schema is one row, and
//!   nothing in it is touched. Relations (tables, indexes) have one space of names in each schema, types have
//!   another, and a table's rows have a type of its name; functions are told apart by their arguments, too.
//! - **A2** An index is in the schema of its table.
//! - **A3** `pg_catalog`, in which all is that is built in, is looked through first unless a path says where,
//!   and `pg_temp`, with the session's own tables (temporary/E1), before that.
//! - **A4** A path is made for one dictionary: what it lists and is not there is passed over. What is made
//!   without a schema goes to the first that is listed and there.
//! - **A5** Texts that the dictionary keeps (defaults, checks, domains' conditions) are looked up by
//!   [`Path::public`], whoever uses them: what they name elsewhere they name with its schema. A registered
//!   query is looked up by the path that it was made with.
use crate::catalog::{Catalog, FunctionDef, Relation};
use crate::table::Table;
pub use ondol_types::name::{INFORMATION_SCHEMA, PG_CATALOG, PUBLIC, TEMPORARY};
use ondol_types::user::composite;
use ondol_types::{Type, TypeId, name};
use std::sync::{Arc, LazyLock};

/// The path of a session that has set none, and of registered queries that were made so.
pub const USUAL_PATH: &str = "\"$user\", public";
/// The name of the only user: whoever can read the folder.
pub const USER: &str = "postgres";

/// The name of something in a schema (A1). A string alone is a name in `public`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The schema's number.
    pub schema: u32,
    pub name: String,
}

impl Name {
    pub fn new(schema: u32, name: impl Into<String>) -> Name {
        Name { schema, name: name.into() }
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Name {
        Name::new(PUBLIC, name)
    }
}
impl From<String> for Name {
    fn from(name: String) -> Name {
        Name::new(PUBLIC, name)
    }
}
impl From<&String> for Name {
    fn from(name: &String) -> Name {
        Name::new(PUBLIC, name)
    }
}
impl From<&Name> for Name {
    fn from(name: &Name) -> Name {
        name.clone()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaDef {
    pub number: u32,
}

impl SchemaDef {
    /// Whether it is one of PostgreSQL's own, in which nothing is made.
    pub fn is_system(&self) -> bool {
        is_system(self.number)
    }
}

/// Whether the number is that of one of PostgreSQL's own schemas.
pub fn is_system(schema: u32) -> bool {
    matches!(schema, PG_CATALOG | INFORMATION_SCHEMA | TEMPORARY)
}

/// Where names without a schema are looked for (A4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// The numbers of the schemas, in order; `pg_catalog` is among them (A3).
    pub schemas: Vec<u32>,
    /// How many of them, at the beginning, are not listed.
    implied: usize,
    /// Where what is made goes.
    pub makes_in: Option<u32>,
}

impl Path {
    /// The path of texts that the dictionary keeps (A5).
    pub fn public() -> &'static Path {
        static PATH: LazyLock<Path> =
            LazyLock::new(|| Path { schemas: vec![PG_CATALOG, PUBLIC], implied: 1, makes_in: Some(PUBLIC) });
        &PATH
    }
    /// The path that a setting lists.
    pub fn of(catalog: &Catalog, listed: &str) -> Path {
        let mut path = Path { schemas: Vec::new(), implied: 0, makes_in: None };
        for name in name::list(listed).unwrap_or_default() {
            let name = if name == "$user" { USER } else { &name };
            let Some(schema) = catalog.schemas.get(name) else { continue };
            path.makes_in = path.makes_in.or(Some(schema.number));
            if !path.schemas.contains(&schema.number) {
                path.schemas.push(schema.number)
            }
        }
        for implied in [PG_CATALOG, TEMPORARY] {
            if !path.schemas.contains(&implied) {
                path.schemas.insert(0, implied);
                path.implied += 1
            }
        }
        path
    }
    /// The schemas that it lists: not those that are only implied.
    pub fn listed(&self) -> &[u32] {
        &self.schemas[self.implied..]
    }
}

impl Catalog {
    pub fn schema(&self, name: &str) -> Option<&SchemaDef> {
        self.schemas.get(name)
    }
    /// The name of the schema of that number; nothing where there is none.
    pub fn schema_name(&self, number: u32) -> &str {
        self.schemas.iter().find(|(_, s)| s.number == number).map_or("", |s| s.0)
    }
    pub fn is_schema(&self, number: u32) -> bool {
        self.schemas.values().any(|s| s.number == number)
    }
    /// What a relation's name without a schema means.
    pub fn find(&self, path: &Path, name: &str) -> Option<(Name, &Relation)> {
        path.schemas.iter().find_map(|s| {
            let name = Name::new(*s, name);
            self.relations.get(&name).map(|r| (name, r))
        })
    }
    /// What a type's name without a schema means, of those that users have defined.
    pub fn find_type(&self, path: &Path, name: &str) -> Option<TypeId> {
        path.schemas.iter().find_map(|s| self.types.get(&Name::new(*s, name)).copied())
    }
    /// The type of the rows of a table or view that a name means.
    pub fn row_type_named(&self, name: &Name) -> Option<TypeId> {
        match (self.table(name), self.view(name)) {
            (Some(t), _) => self.row_type(&t.def).ok(),
            (_, Some(v)) => self.view_type(v).ok(),
            _ => None,
        }
    }
    /// The functions that a name without a schema may mean: those of a schema that is looked through earlier
    /// stand before those of the same arguments.
    pub fn find_functions<'a>(&'a self, path: &Path, name: &str) -> Vec<&'a Arc<FunctionDef>> {
        let mut found: Vec<&Arc<FunctionDef>> = Vec::new();
        for schema in &path.schemas {
            for f in self.functions.values().filter(|f| f.schema == *schema && f.name == name) {
                let is_same = |o: &&&Arc<FunctionDef>| o.arg_types().eq(f.arg_types());
                if !found.iter().any(|o| is_same(&o)) {
                    found.push(f)
                }
            }
        }
        found
    }
    /// A name as SQL has it, with its schema.
    pub fn qualified(&self, name: &Name) -> String {
        name::qualified(self.schema_name(name.schema), &name.name)
    }
    /// A relation's name as messages have it: with its schema unless it is found without.
    pub fn shown(&self, path: &Path, name: &Name) -> String {
        match self.find(path, &name.name) {
            Some((found, _)) if found == *name => name::quote(&name.name),
            _ => self.qualified(name),
        }
    }
    /// A type as SQL has it: one that users have defined with its schema unless it is found without.
    pub fn shown_type(&self, path: &Path, ty: Type) -> String {
        let Some(user) = ty.id.user() else { return ty.to_string() };
        if user.kind == composite::ROW {
            let array = if ty.id.is_array() { "[]" } else { "" };
            return self.shown(path, &Name::new(user.schema, &*user.name)) + array;
        }
        let is_it = |t: TypeId| t.user().is_some_and(|u| u.is_same_type(user));
        match self.find_type(path, &user.name).is_some_and(is_it) {
            true => ty.to_string(),
            false => format!("{}.{ty}", name::quote(self.schema_name(user.schema))),
        }
    }
    /// Whether the table is what its name means on the path, or can be meant with its schema only.
    pub fn is_in_sight(&self, path: &Path, table: &Table) -> bool {
        let name = table.def.full_name();
        let before = path.schemas.iter().take_while(|s| **s != name.schema);
        let hidden = path.schemas.contains(&name.schema)
            && before.into_iter().any(|s| self.relations.contains_key(&Name::new(*s, &*name.name)));
        !hidden
    }
}
