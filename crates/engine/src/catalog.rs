//! The dictionary as statements see it: an immutable snapshot, shared by reference. The one that a definition
//! makes shares with the one before all that it does not change.
use crate::comment::Comments;
use crate::name::{INFORMATION_SCHEMA, Name, PG_CATALOG, PUBLIC, SchemaDef, TEMPORARY};
use crate::relations::Relations;
use crate::rights::Rights;
use crate::role::{self, RoleDef};
use crate::sequence::Sequence;
use crate::settings::Settings;
use crate::shared::SharedMap;
use crate::table::Table;
use crate::view::{self, ViewDef};
use ondol_types::data::{Data, DataVersions};
use ondol_types::func::Volatility;
use ondol_types::user::composite;
use ondol_types::{SqlResult, Type, TypeId};
use std::sync::Arc;

/// What the names of hidden columns begin with, which no user's name can hold; the expression follows.
pub const HIDDEN: char = '\0';

#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDef {
    pub name: String,
    pub ty: Type,
    pub not_null: bool,
    /// An SQL expression, bound anew by those who use it.
    pub default: Option<String>,
    /// The domain that the column was declared with; its values are of `ty`, which the domain is made of.
    pub domain: Option<TypeId>,
    /// Whether a numeric of few digits is stored as a number (engine/layout/L5). So it is in a new table; a
    /// column that was made without keeps its rows as they are.
    pub packed: bool,
    /// What is put in where a statement says nothing, or may not say anything.
    pub generated: Option<Generated>,
    /// The numbers of sequences that go with the column: those of serial, and of OWNED BY.
    pub owns: Vec<u32>,
    /// COLLATE, where it is not what the type has anyway. All collations that there are have one order, so
    /// that it is only told of.
    pub collation: Option<String>,
    /// It was added while there were rows, which stayed as they were (engine/layout/L7).
    pub later: Option<Later>,
    /// Its place in the order in which rows have the table's columns, where that is not the columns' own: one
    /// was dropped whose bytes stay in the rows (engine/layout/L8).
    pub rank: Option<u16>,
    /// Whether rows and keys can say that it is NULL, where NOT NULL does not tell: it was declared otherwise
    /// when rows were laid out.
    pub bit: Option<bool>,
    /// Of a hidden column: the versions of the data that its values were computed with (dictionary/D20).
    pub data: DataVersions,
}

/// A column that was added later.
#[derive(Clone, Debug, PartialEq)]
pub struct Later {
    /// Its place among those of the table.
    pub place: u16,
    /// What it is in the rows that were there, as [`crate::layout::LaterColumn::missing`].
    pub missing: Option<Arc<[u8]>>,
}

/// GENERATED
#[derive(Clone, Debug, PartialEq)]
pub enum Generated {
    /// AS IDENTITY: ALWAYS or BY DEFAULT, from the sequence of that number, which goes with the column.
    Identity { always: bool, sequence: u32 },
    /// AS (...) STORED: an SQL expression over the table's columns, each by its bare name.
    Stored(String),
}

impl ColumnDef {
    /// A column as a new table has it, without constraint or default.
    pub fn new(name: impl Into<String>, ty: Type) -> ColumnDef {
        let (name, owns) = (name.into(), Vec::new());
        let (not_null, packed, later, rank, bit) = (false, true, None, None, None);
        let (default, domain, generated, collation) = (None, None, None, None);
        let data = DataVersions::new();
        ColumnDef {
            name,
            ty,
            not_null,
            default,
            domain,
            packed,
            generated,
            owns,
            collation,
            later,
            rank,
            bit,
            data,
        }
    }
    /// The sequence of an identity column.
    pub fn identity(&self) -> Option<u32> {
        match &self.generated {
            Some(Generated::Identity { sequence, .. }) => Some(*sequence),
            _ => None,
        }
    }
    /// The expression that its values are computed by.
    pub fn computed(&self) -> Option<&str> {
        match &self.generated {
            Some(Generated::Stored(text)) => Some(text),
            _ => None,
        }
    }
    /// Whether it is an index's, which no statement sees: an expression of its key, or its predicate. A
    /// hidden column's name begins with [`HIDDEN`]; it stands behind all columns that are seen. One that is
    /// computed by nothing any more is no index's: its values mean nothing, and it goes when rows are next
    /// copied.
    pub fn is_hidden(&self) -> bool {
        self.name.starts_with(HIDDEN)
    }
    /// Whether it is a hidden column that is no index's any more, or one that was dropped: only its bytes are
    /// there.
    pub fn is_left(&self) -> bool {
        self.is_hidden() && self.generated.is_none()
    }
    /// Whether rows and keys can say that it is NULL.
    pub fn has_bit(&self) -> bool {
        self.bit.unwrap_or(!self.not_null)
    }
    /// Its name, or the expression that it is.
    pub fn label(&self) -> &str {
        self.name.trim_start_matches(HIDDEN)
    }
    /// The numbers of the sequences that go with it.
    pub fn sequences(&self) -> impl Iterator<Item = u32> {
        self.identity().into_iter().chain(self.owns.iter().copied())
    }
    /// Whether its values are stored so.
    pub fn is_packed(&self) -> bool {
        self.packed && self.ty.packed_scale().is_some()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    Hash,
    Btree,
    /// Points in boxes: of two to six columns, whose values have so many bits.
    Crtree {
        bits: u8,
    },
}

/// How many columns a CR-tree has.
pub const DIMENSIONS: std::ops::RangeInclusive<usize> = 2..=ondol_index::crtree::MOST;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexColumn {
    /// Position in the table's columns.
    pub column: usize,
    pub desc: bool,
    pub nulls_first: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct IndexDef {
    pub id: u32,
    pub name: String,
    pub kind: IndexKind,
    pub unique: bool,
    /// The index of the table's PRIMARY KEY.
    pub primary: bool,
    /// Made by a PRIMARY KEY or UNIQUE constraint, so not to be dropped alone.
    pub constraint: bool,
    pub columns: Vec<IndexColumn>,
    pub options: IndexOptions,
}

/// What few indexes have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexOptions {
    /// It is a partial index. Its first column is hidden: true where the predicate is true, else NULL. What
    /// is NULL there is in nobody's way, and no query looks for it.
    pub partial: bool,
    /// INCLUDE: columns that are no part of the key, by their places in the table. They are only told of:
    /// whoever has found a row in memory has all of its columns.
    pub include: Vec<usize>,
    /// Two keys are equal where they are NULL, too.
    pub nulls_not_distinct: bool,
    /// It is an exclusion constraint's, whose operators are all equality.
    pub exclusion: bool,
    /// What was said of the order of keys that have the order that they have anyway: COLLATE "C", an operator
    /// class; by their places among [`IndexDef::keys`], as it stands behind them.
    pub forms: Vec<(usize, String)>,
}

impl IndexDef {
    /// The columns that its key was declared with.
    pub fn keys(&self) -> &[IndexColumn] {
        self.columns.get(usize::from(self.options.partial)..).unwrap_or_default()
    }
    /// The column that says which rows are in it.
    pub fn predicate(&self) -> Option<usize> {
        self.columns.first().filter(|_| self.options.partial).map(|c| c.column)
    }
    /// All columns of the table that it is about, hidden ones too.
    pub fn all_columns(&self) -> impl Iterator<Item = usize> {
        self.columns.iter().map(|c| c.column).chain(self.options.include.iter().copied())
    }
    fn each_column_mut(&mut self, f: &mut dyn FnMut(&mut usize)) {
        self.columns.iter_mut().map(|c| &mut c.column).chain(&mut self.options.include).for_each(f)
    }
}

/// A CHECK constraint of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckDef {
    pub name: String,
    /// An SQL expression over the table's columns, each by its bare name, bound anew by those who use it.
    pub text: String,
    /// Whether all rows are known to hold it, as they are not when it was added NOT VALID.
    pub validated: bool,
    pub no_inherit: bool,
}

/// What a foreign key does with the rows that name another, when that goes or gets another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAction {
    NoAction,
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

/// A FOREIGN KEY constraint of the table that has the referencing columns.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignDef {
    /// The constraint's number; 0: it is given when the table is made so. Those of a lower one are looked at
    /// first.
    pub id: u32,
    pub name: String,
    /// The referencing columns.
    pub columns: Vec<usize>,
    /// The referenced table's number.
    pub table: u32,
    /// The number of the referenced table's unique index by which rows are found.
    pub index: u32,
    /// For each of the columns, which of the index's columns it names.
    pub parts: Vec<usize>,
    /// MATCH FULL.
    pub full: bool,
    pub on_delete: KeyAction,
    pub on_update: KeyAction,
    /// Which of the columns ON DELETE SET NULL and SET DEFAULT set; none: all.
    pub set: Vec<usize>,
    pub deferrable: bool,
    pub deferred: bool,
    /// Whether all rows are known to hold it, as they are not when it was added NOT VALID.
    pub validated: bool,
}

/// A foreign key as the table knows it whose rows it names.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// The number of the table that has it.
    pub table: u32,
    /// The name that this table had when it was last looked at.
    pub name: Name,
    pub key: ForeignDef,
}

/// A materialised view is a table whose rows are those that a query gave when it was last refreshed.
#[derive(Clone, Debug, PartialEq)]
pub struct Material {
    /// view/V1
    pub query: String,
    /// Whether it was filled; if not, it is not to be read.
    pub populated: bool,
}

/// Where the rows of a foreign table are, which has none of its own: what reads them is told by the options.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignSource {
    pub server: String,
    pub options: Vec<(String, String)>,
}

/// What a table is beside its columns and constraints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Nature {
    /// Of a materialised view.
    pub material: Option<Material>,
    /// Of a foreign table.
    pub source: Option<ForeignSource>,
    /// Its rows are not in the log (temporary/E8).
    pub unlogged: bool,
    /// Of a table that was made with room for columns that are added later, or has such columns; of another,
    /// rows have room where their layout leaves it.
    pub room: Option<Room>,
}

/// A table's room for columns that are added later (engine/layout/L7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// How many places were given to such columns.
    pub places: u16,
    /// Rows are longer for it, where fewer than 8 bytes are left.
    pub longer: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TableDef {
    pub id: u32,
    /// The number of its schema.
    pub schema: u32,
    pub name: String,
    pub columns: Vec<ColumnDef>,
    pub indexes: Vec<IndexDef>,
    pub checks: Vec<CheckDef>,
    pub foreign: Vec<ForeignDef>,
    pub nature: Nature,
}

impl TableDef {
    /// Whether it is a materialised view.
    pub fn is_material(&self) -> bool {
        self.nature.material.is_some()
    }
    /// Whether it is a materialised view that is not to be read.
    pub fn is_unpopulated(&self) -> bool {
        self.nature.material.as_ref().is_some_and(|m| !m.populated)
    }
    /// Whether its rows are elsewhere: it is read only.
    pub fn is_foreign(&self) -> bool {
        self.nature.source.is_some()
    }
    /// What messages call it.
    pub fn kind_name(&self) -> &'static str {
        match &self.nature {
            Nature { material: Some(_), .. } => "materialized view",
            Nature { source: Some(_), .. } => "foreign table",
            _ => "table",
        }
    }
    pub fn full_name(&self) -> Name {
        Name::new(self.schema, &*self.name)
    }
    /// The name of an index of it (name/A2).
    pub fn index_name(&self, index: &IndexDef) -> Name {
        Name::new(self.schema, &*index.name)
    }
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }
    /// The columns that statements see.
    pub fn shown(&self) -> &[ColumnDef] {
        let seen = self.columns.iter().position(ColumnDef::is_hidden).unwrap_or(self.columns.len());
        &self.columns[..seen]
    }
    /// As of a table that gets rows of its own: all columns are laid out in them, with room for others.
    pub(crate) fn lay_anew(&mut self) {
        self.columns.iter_mut().for_each(|c| (c.later, c.rank, c.bit) = (None, None, None));
        self.nature.room = None;
        // As the dictionary will tell of it (dictionary/D16).
        let left = Table::layout_of(self).word;
        self.nature.room = left.is_none().then_some(Room { places: 0, longer: true })
    }
    /// Puts a column in, before those from this place on.
    pub fn insert_column(&mut self, place: usize, column: ColumnDef) {
        self.columns.insert(place, column);
        self.renumber(&|c| if c >= place { c + 1 } else { c })
    }
    /// Takes a column out that no index and no foreign key is about.
    pub fn remove_column(&mut self, place: usize) -> ColumnDef {
        self.renumber(&|c| if c > place { c - 1 } else { c });
        self.columns.remove(place)
    }
    fn renumber(&mut self, place: &dyn Fn(usize) -> usize) {
        self.indexes.iter_mut().for_each(|i| i.each_column_mut(&mut |c| *c = place(*c)));
        let named = self.foreign.iter_mut().flat_map(|f| f.columns.iter_mut().chain(&mut f.set));
        named.for_each(|c| *c = place(*c))
    }
    /// Whether an index is about the column.
    pub fn is_indexed(&self, column: usize) -> bool {
        self.indexes.iter().any(|i| i.all_columns().any(|c| c == column))
    }
    /// Hidden columns that no index has any more are computed no longer.
    pub fn quiet_hidden(&mut self) {
        for n in 0..self.columns.len() {
            if self.columns[n].is_hidden() && !self.is_indexed(n) {
                self.columns[n].generated = None
            }
        }
    }
    /// The numbers of the sequences that go with its columns.
    pub fn sequences(&self) -> impl Iterator<Item = u32> {
        self.columns.iter().flat_map(ColumnDef::sequences)
    }
    /// Whether one of its constraints has the name.
    pub fn is_constraint(&self, name: &str) -> bool {
        self.indexes.iter().any(|i| i.constraint && i.name == name)
            || self.checks.iter().any(|c| c.name == name)
            || self.foreign.iter().any(|f| f.name == name)
    }
    /// The foreign keys of which the column is a part.
    pub fn foreign_of(&self, column: usize) -> impl Iterator<Item = &ForeignDef> {
        self.foreign.iter().filter(move |f| f.columns.contains(&column))
    }
}

/// What a registered query gives back.
#[derive(Clone, Debug, PartialEq)]
pub enum Returns {
    Void,
    /// One value (the first row's), or SETOF a type.
    Scalar {
        ty: Type,
        set: bool,
    },
    /// Rows: of a table, which has to stay, or of TABLE(...) columns.
    Rows {
        of: Option<Name>,
        columns: Vec<(String, Type)>,
        set: bool,
    },
}

/// A registered query: a function in SQL, stored with its byte code.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionDef {
    pub id: u32,
    /// The number of its schema.
    pub schema: u32,
    pub name: String,
    /// The setting `search_path` that its body was written for (name/A5).
    pub path: String,
    pub args: Vec<(Option<String>, Type)>,
    /// What the last of them are where a call leaves them out: SQL expressions, bound anew by those who use
    /// them.
    pub defaults: Vec<String>,
    /// VARIADIC: the last argument is an array of what calls have in its place, in any number from one.
    pub variadic: bool,
    pub returns: Returns,
    pub body: String,
    /// Byte code, opaque here; empty when it is to be compiled from the body at first use.
    pub code: Vec<u8>,
    pub volatility: Volatility,
    /// SECURITY DEFINER: it does what it does with its owner's rights, whoever calls it.
    pub definer: bool,
}

impl FunctionDef {
    /// The types of its arguments.
    pub fn arg_types(&self) -> impl Iterator<Item = TypeId> {
        self.args.iter().map(|a| a.1.id)
    }
    /// The default of the argument of that place.
    pub fn default_of(&self, place: usize) -> Option<&str> {
        let required = self.args.len().saturating_sub(self.defaults.len());
        place.checked_sub(required).and_then(|n| self.defaults.get(n)).map(String::as_str)
    }
}

/// What a name of the space of relations stands for (name/A1).
#[derive(Clone)]
pub enum Relation {
    Table(Arc<Table>),
    /// An index of the table.
    Index {
        table: Name,
    },
    Sequence(Arc<Sequence>),
    View(Arc<ViewDef>),
}

impl Relation {
    pub fn table(&self) -> Option<&Arc<Table>> {
        match self {
            Relation::Table(t) => Some(t),
            Relation::Index { .. } | Relation::Sequence(_) | Relation::View(_) => None,
        }
    }
    pub fn sequence(&self) -> Option<&Arc<Sequence>> {
        match self {
            Relation::Sequence(s) => Some(s),
            Relation::Table(_) | Relation::Index { .. } | Relation::View(_) => None,
        }
    }
    pub fn view(&self) -> Option<&Arc<ViewDef>> {
        match self {
            Relation::View(v) => Some(v),
            Relation::Index { .. } | Relation::Table(_) | Relation::Sequence(_) => None,
        }
    }
}

/// All objects, as of one moment. `version` differs whenever the content does.
#[derive(Clone)]
pub struct Catalog {
    pub version: u64,
    pub schemas: SharedMap<String, SchemaDef>,
    pub relations: Relations,
    pub functions: SharedMap<u32, Arc<FunctionDef>>,
    /// The types that users have defined.
    pub types: SharedMap<Name, TypeId>,
    /// The views that are among the relations, by their numbers.
    pub views: SharedMap<u32, Arc<ViewDef>>,
    /// What the materialised views among the tables show, by their numbers: the same as their definitions
    /// say, for those who look for queries over something.
    pub materials: SharedMap<u32, Arc<ViewDef>>,
    pub comments: Comments,
    /// The versions of data that this program computes with. They stay what they are.
    pub data: Arc<DataVersions>,
    /// By their numbers, which are their OIDs (role/R1).
    pub roles: SharedMap<u32, Arc<RoleDef>>,
    /// rights/H1
    pub rights: Rights,
    /// ALTER ROLE ... SET and ALTER DATABASE ... SET.
    pub settings: Settings,
}

impl Default for Catalog {
    /// With the schemas that are there from the beginning.
    fn default() -> Catalog {
        let own = [
            ("information_schema", INFORMATION_SCHEMA),
            ("pg_catalog", PG_CATALOG),
            ("pg_temp", TEMPORARY),
            ("public", PUBLIC),
        ];
        let schemas = own.map(|(name, number)| (name.to_string(), SchemaDef { number }));
        Catalog {
            version: 0,
            schemas: schemas.into(),
            relations: Relations::default(),
            functions: SharedMap::new(),
            types: SharedMap::new(),
            views: SharedMap::new(),
            materials: SharedMap::new(),
            comments: Comments::new(),
            data: Arc::new(Data::versions()),
            roles: role::first().map(|r| (r.id, Arc::new(r))).collect(),
            rights: Rights::new(),
            settings: Settings::new(),
        }
    }
}

/// What names mean that are not those of tables and indexes. A plan made with other tables beside its own, or
/// other indexes on others than its own, is as good as before while these are the same, unless a table stands
/// before one of its own now ([`Catalog::is_in_sight`]).
#[derive(Clone, Default)]
pub struct Meanings {
    schemas: SharedMap<String, SchemaDef>,
    functions: SharedMap<u32, Arc<FunctionDef>>,
    /// A type that was changed has another number.
    types: SharedMap<Name, TypeId>,
    sequences: SharedMap<Name, Arc<Sequence>>,
    views: SharedMap<u32, Arc<ViewDef>>,
}

impl Meanings {
    pub fn of(catalog: &Catalog) -> Meanings {
        // Whoever adds a kind of object to the catalog has to say here what plans know of it.
        // To who reads it, a materialised view is a table.
        let Catalog { version: _, schemas, relations, functions, types, views, .. } = catalog;
        let Catalog { materials: _, comments: _, data: _, .. } = catalog;
        // What a plan needs is looked at beside it (rights/H4).
        let Catalog { roles: _, rights: _, settings: _, .. } = catalog;
        let sequences = relations.sequences().clone();
        let (schemas, functions, views) = (schemas.clone(), functions.clone(), views.clone());
        Meanings { schemas, functions, types: types.clone(), sequences, views }
    }
    /// Whether they are those of the catalog.
    pub fn are(&self, catalog: &Catalog) -> bool {
        fn are<V>(a: &SharedMap<u32, Arc<V>>, b: &SharedMap<u32, Arc<V>>) -> bool {
            a.is_same(b) || a.len() == b.len() && a.values().zip(b.values()).all(|(a, b)| Arc::ptr_eq(a, b))
        }
        let Catalog { schemas, relations, functions, types, views, .. } = catalog;
        self.types == *types
            && self.schemas == *schemas
            && are_sequences(&self.sequences, relations.sequences())
            && are(&self.functions, functions)
            && are(&self.views, views)
    }
}

/// Whether their names mean the same numbers.
fn are_sequences(a: &SharedMap<Name, Arc<Sequence>>, b: &SharedMap<Name, Arc<Sequence>>) -> bool {
    let all = || a.iter().zip(b).all(|(a, b)| a.0 == b.0 && a.1.def.id == b.1.def.id);
    a.is_same(b) || a.len() == b.len() && all()
}

impl Catalog {
    /// A type that was known before the dictionary changed, as it is now; others are what they are.
    pub fn current(&self, ty: TypeId) -> TypeId {
        let Some(old) = ty.user() else { return ty };
        let is_it = |t: &&TypeId| t.user().is_some_and(|u| u.is_same_type(old));
        match self.types.values().find(is_it) {
            Some(now) if ty.is_array() => now.array().unwrap_or(ty),
            Some(now) => *now,
            None => ty,
        }
    }
    /// The type of a table's rows.
    pub fn row_type(&self, table: &TableDef) -> SqlResult<TypeId> {
        let columns = table.shown().iter().map(|c| (c.name.clone(), c.domain.map_or(c.ty, Type::new)));
        composite::of_table(table.id, table.schema, &table.name, columns).type_id()
    }
    /// The type of a view's rows.
    pub fn view_type(&self, view: &ViewDef) -> SqlResult<TypeId> {
        let columns = view.columns.iter().map(|c| (c.name.clone(), c.domain.map_or(c.ty, Type::new)));
        composite::of_table(view.id, view.schema, &view.name, columns).type_id()
    }
    pub fn table(&self, name: impl Into<Name>) -> Option<&Arc<Table>> {
        self.relations.get(&name.into())?.table()
    }
    /// All tables, by their names.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.relations.values().filter_map(Relation::table)
    }
    /// The table of a number; `name` is the one that it had when it was last looked at.
    pub fn table_of(&self, id: u32, name: &Name) -> Option<&Arc<Table>> {
        self.table(name).filter(|t| t.def.id == id).or_else(|| self.table_by_id(id))
    }
    pub fn table_by_id(&self, id: u32) -> Option<&Arc<Table>> {
        self.relations.table_by_id(id)
    }
    /// Whether there are relations in the schema.
    pub fn has_relations(&self, schema: u32) -> bool {
        self.relations.from(&Name::new(schema, "")).next().is_some_and(|(name, _)| name.schema == schema)
    }
    /// The tables of a schema, by their names.
    pub fn tables_in(&self, schema: u32) -> impl Iterator<Item = &Arc<Table>> {
        let of_it = self.relations.from(&Name::new(schema, "")).take_while(move |r| r.0.schema == schema);
        of_it.filter_map(|(_, r)| r.table())
    }
    /// The table that the index of the name is of.
    pub fn table_of_index(&self, name: impl Into<Name>) -> Option<&Arc<Table>> {
        match self.relations.get(&name.into())? {
            Relation::Index { table } => self.table(table),
            _ => None,
        }
    }
    /// Indexes by their names, each with its table's.
    pub fn indexes(&self) -> impl Iterator<Item = (&Name, &Name)> {
        self.relations.iter().filter_map(|(name, r)| match r {
            Relation::Index { table } => Some((name, table)),
            _ => None,
        })
    }
    pub fn sequence(&self, name: impl Into<Name>) -> Option<&Arc<Sequence>> {
        self.relations.get(&name.into())?.sequence()
    }
    /// All sequences, by their names.
    pub fn sequences(&self) -> impl Iterator<Item = &Arc<Sequence>> {
        self.relations.sequences().values()
    }
    pub fn sequence_by_id(&self, id: u32) -> Option<&Arc<Sequence>> {
        self.relations.sequence_by_id(id)
    }
    /// The table that has the index of the number, and which of its indexes it is.
    pub fn index_by_id(&self, id: u32) -> Option<(&Arc<Table>, usize)> {
        let table = self.relations.table_with(id)?;
        Some((table, table.def.indexes.iter().position(|i| i.id == id)?))
    }
    /// The table and the column that the sequence goes with.
    pub fn owner_of(&self, sequence: u32) -> Option<(&Arc<Table>, usize)> {
        let owns = |c: &ColumnDef| c.sequences().any(|s| s == sequence);
        let table = self.relations.table_with(sequence)?;
        Some((table, table.def.columns.iter().position(owns)?))
    }
    pub fn view(&self, name: impl Into<Name>) -> Option<&Arc<ViewDef>> {
        self.relations.get(&name.into())?.view()
    }
    pub fn view_by_id(&self, id: u32) -> Option<&Arc<ViewDef>> {
        self.views.get(&id)
    }
    /// The views and the materialised views.
    pub fn queries(&self) -> impl Iterator<Item = &Arc<ViewDef>> {
        self.views.values().chain(self.materials.values())
    }
    /// The view or the materialised view of a number.
    pub fn query_by_id(&self, id: u32) -> Option<&Arc<ViewDef>> {
        self.views.get(&id).or_else(|| self.materials.get(&id))
    }
    /// The views, materialised ones among them, whose queries name a table or a view.
    pub fn views_over(&self, id: u32) -> impl Iterator<Item = &Arc<ViewDef>> {
        self.queries().filter(move |v| view::uses_relation(&v.query, id))
    }
    /// A type that users have defined.
    pub fn ty(&self, name: impl Into<Name>) -> Option<TypeId> {
        self.types.get(&name.into()).copied()
    }
    /// The functions of that name in all schemas (overloads differ in argument types).
    pub fn functions_named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Arc<FunctionDef>> {
        self.functions.values().filter(move |f| f.name == name)
    }
}
