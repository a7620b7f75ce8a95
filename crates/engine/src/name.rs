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
//! - **A6** The arrays of a type, and of a relation's rows, have a type of the same schema: its name is that
//!   with an underscore in front, or with as many as it takes to be another than all that are there. A name
//!   that is given pushes an array's aside. What arrays are named is not stored: it follows from the names
//!   that there are, as if they had been given in the order in which their types were made.
use crate::catalog::{Catalog, FunctionDef, Relation};
use crate::table::Table;
pub use ondol_types::name::{INFORMATION_SCHEMA, PG_CATALOG, PUBLIC, TEMPORARY};
use ondol_types::user::{UserDef, composite};
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

/// The most bytes of a name.
const LONGEST: usize = 63;

/// Names that differ only in how many underscores stand in front.
struct Alike<'a> {
    schema: u32,
    /// What stands behind them.
    rest: &'a str,
    /// Of each that is a type's or a relation's, their number, and that of the arrays' name (A6).
    arrays: Vec<(usize, usize)>,
}

impl<'a> Alike<'a> {
    fn of(catalog: &Catalog, name: &'a Name) -> Alike<'a> {
        let rest = name.name.trim_start_matches('_');
        let mut alike = Alike { schema: name.schema, rest, arrays: Vec::new() };
        let longest = LONGEST.saturating_sub(rest.len());
        let item = |n| catalog.item_named(&alike.name(n)).map(|number| (number, n));
        let mut items: Vec<_> = (0..=longest).filter_map(item).collect();
        items.sort_unstable();
        for (made, (_, n)) in items.iter().enumerate() {
            if let Some(aside) = alike.arrays.iter().position(|a| a.1 == *n) {
                alike.arrays[aside].1 = alike.free(*n, &items[..=made])
            }
            let own = alike.free(*n, &items[..=made]);
            alike.arrays.push((*n, own))
        }
        alike
    }
    fn name(&self, underscores: usize) -> Name {
        let mut name = "_".repeat(underscores) + self.rest;
        while name.len() > LONGEST {
            name.pop();
        }
        Name::new(self.schema, name)
    }
    /// The first number behind this one that no name has.
    fn free(&self, behind: usize, items: &[(u32, usize)]) -> usize {
        let taken = |n: usize| items.iter().any(|i| i.1 == n) || self.arrays.iter().any(|a| a.1 == n);
        (behind + 1..).find(|n| !taken(*n)).unwrap_or(behind)
    }
}

impl Catalog {
    /// The name of the arrays of the type, or of the relation's rows, that has a name (A6).
    pub fn array_name(&self, item: &Name) -> String {
        let usual = Name::new(item.schema, format!("_{}", item.name));
        if !item.name.starts_with('_') && item.name.len() < LONGEST && self.item_named(&usual).is_none() {
            return usual.name;
        }
        let alike = Alike::of(self, item);
        let underscores = item.name.len() - alike.rest.len();
        let array = alike.arrays.iter().find(|a| a.0 == underscores).map_or(underscores + 1, |a| a.1);
        alike.name(array).name
    }
    /// The name of the type, or of the relation, that a name is the arrays' of (A6).
    pub fn item_of_array(&self, array: &Name) -> Option<Name> {
        let underscores = array.name.len() - array.name.trim_start_matches('_').len();
        if underscores == 0 || self.item_named(array).is_some() {
            return None;
        }
        let alike = Alike::of(self, array);
        alike.arrays.iter().find(|a| a.1 == underscores).map(|a| alike.name(a.0))
    }
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
    /// The number of what has a name in the space of types: a type's own, or that of the relation whose rows
    /// have it.
    fn item_named(&self, name: &Name) -> Option<u32> {
        let user = self.ty(name).and_then(|t| t.user()).map(|u| u.number);
        let table = || self.table(name).map(|t| t.def.id);
        user.or_else(table).or_else(|| self.view(name).map(|v| v.id))
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
    /// The name of a type that users have defined, with its schema unless it is found without.
    pub fn shown_user(&self, path: &Path, user: &UserDef) -> String {
        match self.find_type(path, &user.name).is_some_and(|t| t.user().is_some_and(|u| u.is_same_type(user)))
        {
            true => name::quote(&user.name),
            false => self.qualified(&Name::new(user.schema, &*user.name)),
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
