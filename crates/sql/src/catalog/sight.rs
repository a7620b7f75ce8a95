//! The objects that a statement sees, by their numbers and by their names.

use super::activity::{Backend, StatementRow, Totals};
use super::{FIRST_OID, describe, fixed, name, relation};
use ondol_engine::activity::{Advised, TableUse, Waiting};
use ondol_engine::name::TEMPORARY;
pub use ondol_engine::name::{INFORMATION_SCHEMA, PG_CATALOG, PUBLIC, USER};
use ondol_engine::{Catalog, FunctionDef, IndexDef, Name, Path, Relation, Sequence, Table, ViewDef};
use ondol_types::func::FuncId;
use ondol_types::objects::{ObjectKind, Objects};
use ondol_types::user::{UserDef, composite};
use ondol_types::{SqlResult, TypeId, Value, ValueRef};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// The number of the only role.
pub const OWNER: u32 = 10;
/// That of the only database.
pub const DATABASE: u32 = 5;

/// A setting, as pg_settings has it.
pub struct Setting {
    pub name: &'static str,
    pub setting: String,
    pub unit: Option<&'static str>,
    pub category: &'static str,
    pub short_desc: &'static str,
    pub extra_desc: Option<&'static str>,
    pub context: &'static str,
    pub vartype: &'static str,
    pub source: &'static str,
    pub min_val: Option<&'static str>,
    pub max_val: Option<&'static str>,
    pub enumvals: Option<Vec<&'static str>>,
    pub boot_val: String,
    pub reset_val: String,
}

/// An open cursor, as pg_cursors has it; none is binary.
pub struct OpenCursor {
    pub name: String,
    pub statement: String,
    pub is_holdable: bool,
    pub is_scrollable: bool,
    /// Microseconds from 2000-01-01.
    pub creation_us: i64,
}

/// A prepared statement with a name, as pg_prepared_statements has it.
pub struct PreparedStatement {
    pub name: String,
    pub statement: Arc<str>,
    /// Microseconds from 2000-01-01.
    pub prepared_us: i64,
    pub types: Vec<TypeId>,
    /// PREPARE made it, and no message of a client's.
    pub from_sql: bool,
    /// How often it was executed: by a plan for all values.
    pub executed: i64,
}

/// What a session knows of itself.
pub trait Session: Sync {
    /// All settings that are to be seen.
    fn settings(&self) -> Vec<Setting>;
    /// The cursors that are open.
    fn cursors(&self) -> Vec<OpenCursor>;
    /// The statements that PREPARE made.
    fn prepared(&self) -> &[PreparedStatement];
    /// The number of the process, as clients are told.
    fn process(&self) -> i32;
    /// When the transaction began.
    fn now_us(&self) -> i64;
    /// The sessions of the server.
    fn backends(&self) -> Vec<Backend> {
        vec![]
    }
    /// Breaks off what another session does, or with `ends` ends it; false if there is none of that number.
    fn signal(&self, process: i32, ends: bool) -> bool {
        let _ = (process, ends);
        false
    }
    /// Has the settings read again; false if there is nobody who does.
    fn reload(&self) -> bool {
        false
    }
    /// When the server began, and when it has read its settings last.
    fn started_us(&self) -> (i64, i64) {
        (0, 0)
    }
    /// What the sessions of a server did, if there is or was one.
    fn totals(&self) -> Option<Totals> {
        None
    }
    /// What statements took.
    fn statements(&self) -> Vec<StatementRow> {
        vec![]
    }
    /// Counts anew the statements of a role, those of a number, or both; 0 stands for any.
    fn forget_statements(&self, role: u32, id: i64) {
        let _ = (role, id);
    }
    /// What sessions wait for, which tables they use, and which advisory locks they have.
    fn locks(&self) -> Locks {
        Locks::default()
    }
}

/// What is known of locks, as of one moment.
#[derive(Default)]
pub struct Locks {
    pub waiting: Vec<Waiting>,
    pub tables: Vec<TableUse>,
    pub advisory: Vec<Advised>,
}

/// A session that knows nothing, for what is bound and not run.
pub struct NoSession;

impl Session for NoSession {
    fn settings(&self) -> Vec<Setting> {
        Vec::new()
    }
    fn cursors(&self) -> Vec<OpenCursor> {
        Vec::new()
    }
    fn prepared(&self) -> &[PreparedStatement] {
        &[]
    }
    fn process(&self) -> i32 {
        0
    }
    fn now_us(&self) -> i64 {
        0
    }
}

/// A relation that there is.
#[derive(Clone)]
pub enum Object {
    Table(Arc<Table>),
    /// An index, by its place among the table's.
    Index(Arc<Table>, usize),
    Sequence(Arc<Sequence>),
    View(Arc<ViewDef>),
    Composite(&'static UserDef),
    System(&'static super::Relation),
}

impl Object {
    pub fn name(&self) -> &str {
        match self {
            Object::Table(t) => &t.def.name,
            Object::Index(t, n) => &t.def.indexes[*n].name,
            Object::Sequence(s) => &s.def.name,
            Object::View(v) => &v.name,
            Object::Composite(u) => &u.name,
            Object::System(r) => r.name,
        }
    }
    pub fn schema(&self) -> u32 {
        match self {
            Object::Table(t) | Object::Index(t, _) => schema_oid(t.def.schema),
            Object::Sequence(s) => schema_oid(s.def.schema),
            Object::View(v) => schema_oid(v.schema),
            Object::Composite(u) => schema_oid(u.schema),
            Object::System(r) => schema_number(r.schema),
        }
    }
    pub fn index(&self) -> Option<(&Arc<Table>, &IndexDef)> {
        match self {
            Object::Index(t, n) => Some((t, &t.def.indexes[*n])),
            _ => None,
        }
    }
}

/// The number that a schema has as an OID: PostgreSQL's own have theirs.
pub fn schema_oid(number: u32) -> u32 {
    match number {
        PG_CATALOG | INFORMATION_SCHEMA | PUBLIC => number,
        other => oid_of(other),
    }
}

fn schema_number(name: &str) -> u32 {
    if name == "pg_catalog" { PG_CATALOG } else { INFORMATION_SCHEMA }
}

/// The number that an object of the dictionary has as an OID.
pub fn oid_of(number: u32) -> u32 {
    FIRST_OID.wrapping_add(number)
}

/// Tables and indexes by their OIDs.
type Numbers = HashMap<u32, Object>;

/// What a statement sees.
pub struct Sight<'a> {
    pub catalog: &'a Catalog,
    /// Where names without a schema are looked for.
    pub path: &'a Path,
    pub database: &'a str,
    pub user: &'a str,
    /// The number of the role that looks.
    pub role: u32,
    pub session: &'a dyn Session,
    numbers: OnceLock<Numbers>,
    /// How many relations were asked for by their numbers.
    asked: AtomicU32,
}

impl<'a> Sight<'a> {
    pub fn new(
        catalog: &'a Catalog,
        path: &'a Path,
        database: &'a str,
        (user, role): (&'a str, u32),
        session: &'a dyn Session,
    ) -> Sight<'a> {
        Sight {
            catalog,
            path,
            database,
            user,
            role,
            session,
            numbers: OnceLock::new(),
            asked: AtomicU32::new(0),
        }
    }
    /// For what is bound and not run.
    pub fn of_catalog(catalog: &'a Catalog, path: &'a Path) -> Sight<'a> {
        Sight::new(catalog, path, "", (USER, ondol_engine::role::BOOTSTRAP), &NoSession)
    }

    /// The tables in the order of their names.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.catalog.tables()
    }

    /// All relations: tables, each with its indexes behind it, and the catalogue's.
    pub fn relations(&self) -> impl Iterator<Item = Object> {
        let indexes = |t: &Arc<Table>| {
            let t = t.clone();
            (0..t.def.indexes.len()).map(move |n| Object::Index(t.clone(), n))
        };
        let own =
            self.tables().flat_map(move |t| std::iter::once(Object::Table(t.clone())).chain(indexes(t)));
        let sequences = self.catalog.sequences().map(|s| Object::Sequence(s.clone()));
        let views = self.catalog.views.values().map(|v| Object::View(v.clone()));
        let composites = self.composites().map(Object::Composite);
        own.chain(sequences).chain(views).chain(composites).chain(relation::all().iter().map(Object::System))
    }

    pub fn oid(object: &Object) -> u32 {
        match object {
            Object::Table(t) => oid_of(t.def.id),
            Object::Index(t, n) => oid_of(t.def.indexes[*n].id),
            Object::Sequence(s) => oid_of(s.def.id),
            Object::View(v) => oid_of(v.id),
            Object::Composite(u) => oid_of(composite::class_of(u.number)),
            Object::System(r) => r.oid,
        }
    }

    /// The relation of a number. Of many that are asked for all are put in order first.
    pub fn relation(&self, oid: u32) -> Option<Object> {
        /// So many are looked for one by one.
        const FEW: u32 = 8;
        if self.asked.fetch_add(1, Ordering::Relaxed) < FEW {
            return self.relation_among(oid);
        }
        let all = || self.relations().map(|o| (Sight::oid(&o), o)).collect();
        self.numbers.get_or_init(all).get(&oid).cloned()
    }

    fn relation_among(&self, oid: u32) -> Option<Object> {
        let Some(number) = oid.checked_sub(FIRST_OID) else {
            return relation::all().iter().find(|r| r.oid == oid).map(Object::System);
        };
        if let Some(v) = self.catalog.views.get(&number) {
            return Some(Object::View(v.clone()));
        }
        if let Some(s) = self.catalog.sequence_by_id(number) {
            return Some(Object::Sequence(s.clone()));
        }
        if let Some(u) = self.composites().find(|u| composite::class_of(u.number) == number) {
            return Some(Object::Composite(u));
        }
        if let Some(t) = self.catalog.table_by_id(number) {
            return Some(Object::Table(t.clone()));
        }
        self.catalog.index_by_id(number).map(|(t, n)| Object::Index(t.clone(), n))
    }

    /// The relation of a name, found without a schema (an empty one) or with.
    pub fn relation_named(&self, schema: &str, name: &str) -> Option<Object> {
        if schema.is_empty() {
            return self.path.schemas.iter().find_map(|s| self.relation_in(*s, name));
        }
        self.relation_in(self.catalog.schema(schema)?.number, name)
    }

    /// The relation of a name in the schema of the number.
    pub fn relation_in(&self, schema: u32, name: &str) -> Option<Object> {
        if matches!(schema, PG_CATALOG | INFORMATION_SCHEMA) {
            return relation::relation(self.catalog.schema_name(schema), name).map(Object::System);
        }
        let Some(relation) = self.catalog.relations.get(&Name::new(schema, name)) else {
            let user = self.catalog.ty(Name::new(schema, name)).and_then(|t| t.user());
            return user.filter(|u| u.is_composite()).map(Object::Composite);
        };
        if let Some(t) = relation.table() {
            return Some(Object::Table(t.clone()));
        }
        match relation {
            Relation::Sequence(s) => return Some(Object::Sequence(s.clone())),
            Relation::View(v) => return Some(Object::View(v.clone())),
            _ => {}
        }
        let Relation::Index { table } = relation else { return None };
        let t = self.catalog.table(table)?;
        let n = t.def.indexes.iter().position(|i| i.name == name)?;
        Some(Object::Index(t.clone(), n))
    }

    /// All relations of a name.
    pub fn relations_named(&self, name: &str) -> Vec<Object> {
        self.catalog.schemas.values().filter_map(|s| self.relation_in(s.number, name)).collect()
    }

    /// The table of a number.
    pub fn table(&self, oid: u32) -> Option<Arc<Table>> {
        match self.relation(oid)? {
            Object::Table(t) => Some(t),
            _ => None,
        }
    }

    /// Schemas: their numbers as OIDs, and their names; that of temporary tables where there are some.
    pub fn schemas(&self) -> Vec<(u32, &str)> {
        let is_there = |number: u32| number != TEMPORARY || self.catalog.has_relations(TEMPORARY);
        let there = self.catalog.schemas.iter().filter(|(_, s)| is_there(s.number));
        there.map(|(name, s)| (schema_oid(s.number), &**name)).collect()
    }
    pub fn schema_name(&self, oid: u32) -> Option<&str> {
        self.schemas().into_iter().find(|s| s.0 == oid).map(|s| s.1)
    }

    /// The composite types that users have defined.
    fn composites(&self) -> impl Iterator<Item = &'static UserDef> {
        self.catalog.types.values().filter_map(|t| t.user()).filter(|u| u.is_composite())
    }
    /// The types that users have defined, with their arrays.
    pub fn user_types(&self) -> impl Iterator<Item = TypeId> {
        self.catalog.types.values().flat_map(|t| std::iter::once(*t).chain(t.array()))
    }
    /// The schema of a type that users have defined.
    pub fn schema_of_type(&self, ty: TypeId) -> u32 {
        ty.user().map_or(PG_CATALOG, |u| schema_oid(u.schema))
    }
    /// Whether a type is found by its name alone.
    pub fn is_type_found(&self, ty: TypeId) -> bool {
        let Some(user) = ty.user() else { return true };
        if user.kind == composite::ROW {
            let table = composite::table_of(user.number).map_or(0, |t| t.0);
            return self.relation_named("", &user.name).is_some_and(|o| Sight::oid(&o) == oid_of(table));
        }
        let found = self.catalog.find_type(self.path, &user.name);
        found.and_then(TypeId::user).is_some_and(|u| u.is_same_type(user))
    }
    /// The type of a number, but of one of a relation's rows ([`Sight::rows_of`]).
    pub fn ty(&self, oid: u32) -> Option<TypeId> {
        match oid {
            ..FIRST_OID => fixed::type_of(oid).filter(|t| t.oid() == oid),
            _ => self.user_types().find(|t| t.oid() == oid),
        }
    }

    /// The relation whose rows have the type of the number, and whether it is that of arrays of them. The
    /// type itself is not made, since the process keeps all that are (user/U2).
    pub fn rows_of(&self, oid: u32) -> Option<(Object, bool)> {
        let (number, is_array) = composite::table_of(oid.checked_sub(FIRST_OID)?)?;
        self.relation(oid_of(number)).map(|o| (o, is_array))
    }

    /// A function that users have defined.
    pub fn function(&self, oid: u32) -> Option<&Arc<FunctionDef>> {
        self.catalog.functions.get(&oid.checked_sub(FIRST_OID)?)
    }
    pub fn schema_of_function(&self, f: &FunctionDef) -> u32 {
        schema_oid(f.schema)
    }
    /// Whether a function is found by its name and arguments alone.
    pub fn is_function_found(&self, f: &FunctionDef) -> bool {
        self.catalog.find_functions(self.path, &f.name).iter().any(|o| o.id == f.id)
    }
}

impl Objects for Sight<'_> {
    fn find(&self, kind: ObjectKind, text: &str) -> SqlResult<Option<u32>> {
        name::find(self, kind, text)
    }
    fn name(&self, kind: ObjectKind, number: u32) -> SqlResult<Option<String>> {
        Ok(name::shown(self, kind, number))
    }
    fn call(&self, function: FuncId, args: &[ValueRef<'_>]) -> SqlResult<Value> {
        describe::call(self, function, args)
    }
}
