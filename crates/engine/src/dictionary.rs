//! The dictionary: ordinary tables that describe all others, and how it becomes a [`Catalog`].
//!
//! - **D1** The dictionary's own tables have fixed numbers and are not described in themselves.
//! - **D2** Object numbers and heap numbers come from one sequence and are never given twice.
//! - **D3** Where a type's number is stored, a type that users define has its object number, negative;
//!   arrays of it have a number of their own. A program that does not know such numbers refuses to open the
//!   database.
//! - **D4** A database in which no type was ever defined has format 1: the tables of types are empty, as are
//!   those of a folder written before they were there. The first definition of a type writes format 2.
//! - **D5** The first column whose values are packed (engine/layout/L5) writes format 3, and each is listed
//!   in a table of them. Numerics of the other columns are strings, as all are in a folder of an older
//!   format, whose tables stay as they are.
//! - **D6** The first check of a table writes format 4: who does not know it would take in rows that the
//!   check forbids. A folder written before has no checks.
//! - **D7** The first schema writes format 5: who does not know it would take two tables of one name for one.
//!   The table of schemas has those that were made, and `public` if it has another name or none any more.
//!   The table of places has the schema of each table, view, type and function that is not in `public`, and
//!   the path of each registered query that was made with another than the usual one, which writes format 5
//!   as well. In a folder written before, all is in `public`.
//! - **D8** The first sequence, identity column or generated column writes format 6: who does not know them
//!   would drop what they stand for. A folder written before has none.
//! - **D9** The first foreign key writes format 7, for the same reason. It names the table and the unique
//!   index that it refers to by their numbers, which they keep; the columns there are the index's.
//! - **D10** The first view or comment writes format 8. Its columns are listed as those of a table are.
//! - **D11** What a definition takes out of the dictionary is found by indexes of the numbers that rows begin
//!   with. They are made when the database is opened, as all indexes are, and are in no list.
//! - **D12** The first materialised view writes format 11, and so does the first unlogged table or sequence,
//!   a view with options beside CHECK OPTION, and the first comment on a schema. A materialised view is
//!   listed as a table, and its query beside. An unlogged table's heaps, and an unlogged sequence's counter,
//!   have the number of a temporary object, which says no more than that: another is given when it is read
//!   (temporary/E8).
//! - **D13** The first index with an option (one that is partial, has INCLUDE, NULLS NOT DISTINCT, the name
//!   of an order, or is an exclusion constraint's) and the first hidden column write format 9: who does not
//!   know them would show the column, or refuse a row that the index does not. A hidden column is listed as
//!   others are, as one that is computed; an index's options in a table of their own. A folder written before
//!   has none.
//! - **D14** The first composite type writes format 10. A field is a part of it, whose text is its type.
//!   The types of tables' rows are not stored: where one is named, its number tells the table.
//! - **D15** The first table whose rows take runs of pages (engine/layout/L6), and the first value in pieces
//!   (kernel/string/L1), write format 12: who does not know them would find other bytes there. The latter is
//!   written by the transaction that stores the value, and goes with it if it is undone.
//! - **D16** The first table that was made with room for columns that are added later, and the first such
//!   column (engine/layout/L7), write format 13: who does not know them would read other bytes. A table is
//!   listed as one with room where its rows would have none without, and once there is such a column, with
//!   how many there ever were; the columns with their places and what they are where rows do not say. So does
//!   the first column that is dropped whose bytes stay in the rows (engine/layout/L8): the columns are listed
//!   with their ranks. A folder written before has none; its tables have room where zeros are left.
//! - **D17** The first column with a collation writes format 15: who does not know them would forget it when
//!   the table is made anew. A folder written before has none.
//! - **D18** The first function that has defaults of arguments, or takes any number of one, writes format 15,
//!   too: who does not know them would not find it where they are left out. A folder written before has none.
//! - **D19** The first column of regclass or its like writes format 15 as well: who does not know them would
//!   look for strings in the place of numbers (engine/layout/L9). A folder written before has none.
//! - **D20** The first hidden column whose values depend on data that other builds have in other versions
//!   writes format 16: who does not know of versions would change rows without telling that it computes by
//!   others. For each such column the versions are listed with which *all* of its values were computed. A
//!   folder written before lists none: its values are of the versions in use until then.
//! - **D21** The first role, the first owner that is not the bootstrap role, and the first privilege that is
//!   given or taken away write format 17: who does not know them would let everybody do everything. Roles
//!   that are there from the beginning have a row once they were changed. In a folder written before, all is
//!   as it is from the beginning (rights/H1).
//! - **D22** The first column that is added later to rows with a word of 6 bytes (engine/layout/L7) writes
//!   format 18: who does not know such words would take the rows for longer ones. A table that was made with
//!   room in a folder written before keeps its longer rows.
//! - **D23** The first setting of a role or of the database writes format 19: who does not know them would
//!   let sessions write that are to begin read-only. A folder written before has none.
//! - **D24** The first foreign table writes format 20: who does not know them would find it empty, and let
//!   rows be inserted. It is listed as a table, and where its rows are beside. A folder written before has
//!   none.
//! - **D25** The first CR-tree writes format 21: who does not know them would take it for a B+-tree. Its bits
//!   are among the index's options. A folder written before has none.
use crate::acl::Acl;
use crate::catalog::{
    Catalog, CheckDef, ColumnDef, ForeignDef, ForeignSource, FunctionDef, Generated, HIDDEN, IndexColumn,
    IndexDef, IndexKind, IndexOptions, KeyAction, Later, Material, Nature, Reference, Relation, Returns,
    Room, TableDef,
};
use crate::comment::{CommentKind, Commented};
use crate::name::{Name, PUBLIC, SchemaDef, USUAL_PATH};
use crate::rights::ObjectRights;
use crate::role::{Membership, RoleDef};
use crate::row;
use crate::sequence::{Bounds, Sequence, SequenceDef, SequenceOptions, begin};
use crate::settings::{Scope, ScopeSettings};
use crate::table::{Table, TableIndex};
use crate::temporary;
use crate::view::{ViewCheck, ViewDef};
use ondol_base::oid::Oid;
use ondol_base::sim::mutated;
use ondol_durability::Given;
use ondol_kernel::heap::PIECE;
use ondol_kernel::transaction::{Newest, Session};
use ondol_kernel::{Kernel, LockMode, TableStore, Wait};
use ondol_types::catalog::registered;
use ondol_types::data::{Data, DataVersions};
use ondol_types::func::Volatility;
use ondol_types::user::{Part, UserDef, composite, kind_code};
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, sqlstate};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The sequence of D2 in the log.
pub const OBJECTS: u64 = 1;
/// The first number of a user's object.
pub const FIRST_OBJECT: u32 = 100;
/// The newest format of the dictionary (D4 to D25).
const FORMAT: i32 = 21;
/// The format of a dictionary that has types of users (D4).
const WITH_TYPES: i32 = 2;
/// The format of one that has packed columns (D5).
const WITH_PACKED: i32 = 3;
/// The format of one that has checks of tables (D6).
const WITH_CHECKS: i32 = 4;
/// The format of one that has schemas (D7).
const WITH_SCHEMAS: i32 = 5;
/// The format of one that has sequences, identity columns or generated columns (D8).
const WITH_SEQUENCES: i32 = 6;
/// The format of one that has foreign keys (D9).
const WITH_FOREIGN: i32 = 7;
/// The format of one that has views or comments (D10).
const WITH_VIEWS: i32 = 8;
/// The format of one that has materialised views (D12).
const WITH_MATERIAL: i32 = 11;
/// The format of one that has unlogged tables or sequences (D12).
const WITH_UNLOGGED: i32 = 11;
/// The format of one that has indexes with options, or hidden columns (D13).
const WITH_OPTIONS: i32 = 9;
/// The format of one that has composite types (D14).
const WITH_COMPOSITES: i32 = 10;
/// The format of one that has long rows or values in pieces (D15).
const WITH_LONG: i32 = 12;
/// The format of one that has tables made with room, or columns that were added later (D16).
const WITH_LATER: i32 = 13;
/// The format of one that has columns with collations (D17).
const WITH_COLLATIONS: i32 = 15;
/// The format of one that has functions with defaults, or that take any number of arguments (D18).
const WITH_DEFAULTS: i32 = 15;
/// The format of one that has columns of regclass or its like (D19).
const WITH_REGISTERED: i32 = 15;
/// The format of one that has columns with versions of data (D20).
const WITH_VERSIONS: i32 = 16;
/// The format of one that has roles, owners or privileges (D21).
const WITH_ROLES: i32 = 17;

/// The format of one that has columns added later in rows with a word of 6 bytes (D22).
const WITH_SHORT_ROOM: i32 = 18;
/// The format of one that has settings of roles or of the database (D23).
const WITH_SETTINGS: i32 = 19;
/// The format of one that has foreign tables (D24).
const WITH_SOURCES: i32 = 20;
/// The format of one that has CR-trees (D25).
const WITH_CRTREES: i32 = 21;

/// The dictionary's tables.
pub struct Dictionary {
    pub tables: Arc<Table>,
    pub columns: Arc<Table>,
    pub indexes: Arc<Table>,
    pub functions: Arc<Table>,
    pub types: Arc<Table>,
    pub parts: Arc<Table>,
    pub formats: Arc<Table>,
    pub packed: Arc<Table>,
    pub checks: Arc<Table>,
    pub schemas: Arc<Table>,
    pub places: Arc<Table>,
    pub sequences: Arc<Table>,
    pub owned: Arc<Table>,
    pub foreign: Arc<Table>,
    pub views: Arc<Table>,
    pub comments: Arc<Table>,
    pub materials: Arc<Table>,
    pub sources: Arc<Table>,
    pub options: Arc<Table>,
    pub stored: Arc<Table>,
    pub collations: Arc<Table>,
    pub function_options: Arc<Table>,
    pub versions: Arc<Table>,
    pub roles: Arc<Table>,
    pub memberships: Arc<Table>,
    pub defaults: Arc<Table>,
    pub rights: Arc<Table>,
    pub column_rights: Arc<Table>,
    pub settings: Arc<Table>,
}

/// The index of the numbers in a column of a table of the dictionary (D11).
fn number_index(table: u32, column: usize) -> IndexDef {
    let columns = vec![IndexColumn { column, desc: false, nulls_first: false }];
    let (name, kind) = (String::new(), IndexKind::Btree);
    let options = IndexOptions::default();
    IndexDef { id: table, name, kind, unique: false, primary: false, constraint: false, columns, options }
}

const T: Type = Type::TEXT;
const I: Type = Type::INT4;
const B: Type = Type::BOOL;
const L: Type = Type::INT8;

impl Dictionary {
    pub fn new(kernel: &Kernel) -> SqlResult<Dictionary> {
        let refused = OnceCell::new();
        let make = |id: u32, name: &str, columns: &[(&str, Type)]| {
            let numbers = columns.iter().take_while(|(n, _)| *n == "id" || n.ends_with("_id"));
            let indexes: Vec<_> = (0..numbers.count()).map(|column| number_index(id, column)).collect();
            let columns = columns.iter().map(|(n, t)| ColumnDef::new(*n, *t)).collect();
            let (schema, name) = (PUBLIC, name.to_string());
            let (checks, foreign) = (vec![], vec![]);
            let nature = Nature::default();
            let def = TableDef { id, schema, name, columns, indexes, checks, foreign, nature };
            let layout = Table::layout_of(&def);
            let made = def.indexes.iter().map(|i| TableIndex::new(kernel, &def, &layout, i.clone(), 0));
            let made = made.collect::<SqlResult<Vec<_>>>().unwrap_or_else(|e| {
                let _ = refused.set(e);
                vec![]
            });
            Table::new(kernel, def, id, made, None)
        };
        let dictionary = Dictionary {
            tables: make(1, "tables", &[("id", I), ("name", T), ("heaps", I)]),
            columns: make(
                2,
                "columns",
                &[
                    ("table_id", I),
                    ("position", I),
                    ("name", T),
                    ("type", I),
                    ("typmod", I),
                    ("not_null", B),
                    ("default", T),
                ],
            ),
            indexes: make(
                3,
                "indexes",
                &[
                    ("id", I),
                    ("table_id", I),
                    ("name", T),
                    ("hash", B),
                    ("unique", B),
                    ("primary", B),
                    ("constraint", B),
                    ("columns", T),
                ],
            ),
            functions: make(
                4,
                "functions",
                &[
                    ("id", I),
                    ("name", T),
                    ("args", T),
                    ("returns", T),
                    ("body", T),
                    ("code", Type::new(TypeId::BYTEA)),
                    ("volatility", T),
                ],
            ),
            types: make(
                5,
                "types",
                &[
                    ("id", I),
                    ("array_id", I),
                    ("name", T),
                    ("kind", T),
                    ("base", I),
                    ("typmod", I),
                    ("not_null", B),
                    ("default", T),
                ],
            ),
            parts: make(6, "type_parts", &[("type_id", I), ("key", Type::INT8), ("name", T), ("text", T)]),
            formats: make(7, "formats", &[("format", I)]),
            packed: make(8, "packed", &[("table_id", I), ("position", I)]),
            checks: make(
                9,
                "checks",
                &[("table_id", I), ("name", T), ("text", T), ("validated", B), ("no_inherit", B)],
            ),
            schemas: make(10, "schemas", &[("id", I), ("name", T)]),
            places: make(11, "places", &[("object_id", I), ("schema_id", I), ("path", T)]),
            sequences: make(
                12,
                "sequences",
                &[
                    ("id", I),
                    ("name", T),
                    ("counter", I),
                    ("type", I),
                    ("start", L),
                    ("increment", L),
                    ("min", L),
                    ("max", L),
                    ("cache", L),
                    ("cycle", B),
                    ("value", L),
                    ("given", B),
                ],
            ),
            owned: make(
                13,
                "owned",
                &[("table_id", I), ("position", I), ("kind", T), ("sequence_id", I), ("text", T)],
            ),
            foreign: make(
                14,
                "foreign_keys",
                &[
                    ("table_id", I),
                    ("id", I),
                    ("name", T),
                    ("columns", T),
                    ("referenced_id", I),
                    ("index_id", I),
                    ("parts", T),
                    ("full", B),
                    ("on_delete", T),
                    ("on_update", T),
                    ("set", T),
                    ("deferrable", B),
                    ("deferred", B),
                    ("validated", B),
                ],
            ),
            comments: make(16, "comments", &[("id", I), ("kind", T), ("part", T), ("text", T)]),
            options: make(18, "index_options", &[("index_id", I), ("kind", T), ("columns", T)]),
            views: make(15, "views", &[("id", I), ("name", T), ("query", T), ("check", T)]),
            collations: make(30, "collations", &[("table_id", I), ("position", I), ("name", T)]),
            function_options: make(
                31,
                "function_options",
                &[("function_id", I), ("kind", T), ("place", I), ("text", T)],
            ),
            versions: make(
                40,
                "data_versions",
                &[("table_id", I), ("position", I), ("data", T), ("version", T)],
            ),
            roles: make(
                34,
                "roles",
                &[
                    ("id", I),
                    ("name", T),
                    ("attributes", T),
                    ("connection_limit", I),
                    ("password", T),
                    ("valid_until", L),
                ],
            ),
            memberships: make(
                35,
                "memberships",
                &[("member_id", I), ("role", I), ("grantor", I), ("admin", B)],
            ),
            defaults: make(
                36,
                "default_privileges",
                &[("role_id", I), ("schema", I), ("kind", T), ("acl", T)],
            ),
            rights: make(37, "rights", &[("object_id", I), ("owner", I), ("acl", T)]),
            column_rights: make(38, "column_rights", &[("object_id", I), ("name", T), ("acl", T)]),
            settings: make(
                44,
                "settings",
                &[("role_id", I), ("in_database", B), ("place", I), ("name", T), ("value", T)],
            ),
            materials: make(22, "materialized", &[("table_id", I), ("query", T), ("populated", B)]),
            sources: make(
                48,
                "foreign_tables",
                &[("table_id", I), ("position", I), ("name", T), ("value", T)],
            ),
            stored: make(
                26,
                "stored",
                &[
                    ("table_id", I),
                    ("position", I),
                    ("kind", T),
                    ("number", I),
                    ("value", Type::new(TypeId::BYTEA)),
                ],
            ),
        };
        refused.into_inner().map_or(Ok(dictionary), Err)
    }

    pub fn all(&self) -> Vec<&Arc<Table>> {
        let mut all = vec![&self.tables, &self.columns, &self.indexes, &self.functions, &self.types];
        all.extend([&self.parts, &self.formats, &self.packed, &self.checks, &self.schemas, &self.places]);
        all.extend([&self.sequences, &self.owned]);
        all.push(&self.foreign);
        all.extend([&self.views, &self.comments, &self.materials, &self.sources]);
        all.push(&self.options);
        all.push(&self.stored);
        all.extend([&self.collations, &self.function_options, &self.versions]);
        all.extend([&self.roles, &self.memberships, &self.defaults]);
        all.extend([&self.rights, &self.column_rights]);
        all.push(&self.settings);
        all
    }
}

/// Every row of a dictionary table as it is now, with what the running statement has done: one that changes
/// an object twice (`TRUNCATE t, t`) takes out what it has just put in.
pub fn rows(session: &Session, table: &Table) -> Vec<(Oid, Vec<Value>)> {
    let mut out = vec![];
    let mut slots = ondol_kernel::heap::Slots::default();
    slots.start(&table.store.rows);
    let mut bytes = vec![0; table.layout.row_size];
    while let Some(oid) = slots.next(&session.kernel().space) {
        if session.read_newest(oid, &mut bytes) {
            let values = (0..table.def.columns.len())
                .map(|i| {
                    let mut scratch = vec![];
                    row::column(&table.layout, &bytes, i, &Newest(session), &mut scratch).to_owned()
                })
                .collect();
            out.push((oid, values))
        }
    }
    out
}

/// Adds a row.
pub fn add(session: &mut Session, table: &Table, values: &[Value]) -> SqlResult<()> {
    put(session, table, values).map_err(crate::error::kernel)
}
fn put(session: &mut Session, table: &Table, values: &[Value]) -> ondol_kernel::Result<()> {
    let mut scratch: Vec<Vec<u8>> = values.iter().map(|_| vec![]).collect();
    let refs: Vec<ValueRef<'_>> = values.iter().zip(&mut scratch).map(|(v, s)| v.as_ref(s)).collect();
    let mut bytes = vec![];
    let mut put = |b: &[u8]| match b.len() {
        // The dictionary's own are in one piece (D15).
        bytes if bytes > PIECE => Err(ondol_kernel::Error::TooLarge { bytes, limit: PIECE }),
        _ => session.put_string(&table.store, b),
    };
    row::encode(&table.layout, &refs, &mut bytes, &mut put)?;
    session.insert(&table.store, &bytes)?;
    Ok(())
}

/// Stores a string of a row that is no row of the dictionary's.
#[inline]
pub fn put_string(
    session: &mut Session,
    d: &Dictionary,
    table: &Arc<TableStore>,
    bytes: &[u8],
) -> ondol_kernel::Result<u64> {
    if bytes.len() > PIECE && !table.rows.is_volatile() {
        write_long(session, d)?
    }
    session.put_string(table, bytes)
}
/// D15
#[cold]
pub(crate) fn write_long(session: &mut Session, d: &Dictionary) -> ondol_kernel::Result<()> {
    match format_of(session, d) < WITH_LONG {
        true => put(session, &d.formats, &[Value::Int4(WITH_LONG)]),
        false => Ok(()),
    }
}

/// Removes the rows that have the number in that column, as they are now: a transaction whose snapshot is
/// older than a definition changes it all the same, since names are looked up in the newest catalog, and a
/// statement that changes an object twice (`TRUNCATE t, t`) takes out what it has just put in. Nobody else
/// changes these rows, whose object is claimed (definers/G1).
fn remove(session: &mut Session, table: &Table, column: usize, number: u32) -> SqlResult<()> {
    let snapshot = session.view.snapshot;
    session.view.snapshot = snapshot.max(session.kernel().log.clock() - 1);
    let done = remove_newest(session, table, column, number as i32);
    session.view.snapshot = snapshot;
    done
}
fn remove_newest(session: &mut Session, table: &Table, column: usize, number: i32) -> SqlResult<()> {
    let mut bytes = vec![0; table.layout.row_size];
    let found = with_number(session, table, column, number)?;
    for oid in found {
        session.lock(&table.store, oid, LockMode::Update, Wait::Block).map_err(crate::error::kernel)?;
        if !session.read_newest(oid, &mut bytes) {
            continue;
        }
        let mut strings = vec![];
        row::strings_of(&table.layout, &bytes, &Newest(session), |o, n| strings.push((o, n)));
        session.delete(&table.store, oid, &bytes).map_err(crate::error::kernel)?;
        for (o, n) in strings {
            session.drop_string(&table.store, o, n).map_err(crate::error::kernel)?
        }
    }
    Ok(())
}

/// The rows that have the number in that column, as they are now.
fn with_number(session: &Session, table: &Table, column: usize, number: i32) -> SqlResult<Vec<Oid>> {
    let index = table.indexes.iter().find(|i| i.def.columns[0].column == column);
    let Some((index, tree)) = index.and_then(|i| Some((i, i.index.as_btree()?))) else {
        return Err(damaged(&format!("table {} has no index of numbers", table.def.name)));
    };
    let (mut key, mut found) = (vec![], vec![]);
    index.key.encode(&[ValueRef::Int4(number)], &mut key);
    let mut note = |oid| {
        found.push(oid);
        true
    };
    tree.probe(&session.pin(), &key, &mut note);
    let mut bytes = vec![0; table.layout.row_size];
    // Of others' rows, whose slots may be among them, nothing is read but the number.
    found.retain(|oid| {
        let is = |bytes: &[u8]| {
            row::column(&table.layout, bytes, column, &Newest(session), &mut vec![]).to_owned()
        };
        session.read_newest(*oid, &mut bytes) && int(&is(&bytes)) == number
    });
    Ok(found)
}

fn int(v: &Value) -> i32 {
    match v {
        Value::Int4(i) => *i,
        _ => 0,
    }
}
fn string(v: &Value) -> String {
    match v {
        Value::Text(s) => s.clone(),
        _ => String::new(),
    }
}
fn flag(v: &Value) -> bool {
    matches!(v, Value::Bool(true))
}

fn long(v: &Value) -> i64 {
    match v {
        Value::Int8(i) => *i,
        _ => 0,
    }
}

fn damaged(what: &str) -> SqlError {
    SqlError::new(sqlstate::DATA_CORRUPTED, format!("the dictionary is damaged: {what}"))
}

/// The format of the dictionary (D4).
fn format_of(session: &Session, d: &Dictionary) -> i32 {
    rows(session, &d.formats).iter().map(|(_, r)| int(&r[0])).max().unwrap_or(1)
}

/// Makes the dictionary's format this one, if it is an earlier one.
fn raise_format(session: &mut Session, d: &Dictionary, format: i32) -> SqlResult<()> {
    if format_of(session, d) < format {
        add(session, &d.formats, &[Value::Int4(format)])?;
    }
    Ok(())
}

/// Reads the whole dictionary. Indexes are made empty, to be filled by the caller. `given`: what sequences
/// have given out, by their counters' numbers. `volatile` gives numbers to what is unlogged (D12).
pub fn load(
    session: &Session,
    dictionary: &Dictionary,
    version: u64,
    given: &BTreeMap<u64, Given>,
    volatile: &dyn Fn() -> u32,
) -> SqlResult<Catalog> {
    let kernel = session.kernel();
    let format = format_of(session, dictionary);
    if format > FORMAT {
        return Err(SqlError::unsupported(format_args!(
            "a dictionary of format {format}: this program knows formats up to {FORMAT}"
        )));
    }
    let mut catalog = Catalog { version, ..Catalog::default() };
    load_roles(session, dictionary, &mut catalog)?;
    load_rights(session, dictionary, &mut catalog)?;
    load_settings(session, dictionary, &mut catalog);
    for (_, r) in rows(session, &dictionary.schemas) {
        let number = int(&r[0]) as u32;
        catalog.schemas.retain(|_, s| s.number != number);
        if let Value::Text(name) = &r[1]
            && !mutated("schemas_forgotten")
        {
            catalog.schemas.insert(name.clone(), SchemaDef { number });
        }
    }
    let places = load_places(session, dictionary);
    let schema_of = |id: i32| places.get(&id).map_or(PUBLIC, |p| p.0);
    let mut types = load_types(session, dictionary, &places)?;
    catalog.types = (types.iter().filter(|t| !t.1.is_array()))
        .filter_map(|t| t.1.user().map(|u| (Name::new(u.schema, &*u.name), *t.1)))
        .collect();
    let packed: BTreeSet<(i32, i32)> =
        rows(session, &dictionary.packed).iter().map(|(_, r)| (int(&r[0]), int(&r[1]))).collect();
    for (_, r) in rows(session, &dictionary.sequences) {
        let mut def = sequence_of(&types, schema_of(int(&r[0])), &r)?;
        if temporary::is_temporary(def.counter) {
            def.counter = volatile()
        }
        let sequence = Sequence::new(def, given.get(&(int(&r[2]) as u64)).copied());
        catalog.relations.insert(sequence.def.full_name(), Relation::Sequence(sequence));
    }
    let mut owned: BTreeMap<(i32, i32), (Option<Generated>, Vec<u32>)> = BTreeMap::new();
    for (_, r) in rows(session, &dictionary.owned) {
        let entry = owned.entry((int(&r[0]), int(&r[1]))).or_default();
        let sequence = int(&r[3]) as u32;
        match string(&r[2]).as_str() {
            "owned" => entry.1.push(sequence),
            "always" => entry.0 = Some(Generated::Identity { always: true, sequence }),
            "default" => entry.0 = Some(Generated::Identity { always: false, sequence }),
            "stored" => entry.0 = Some(Generated::Stored(string(&r[4]))),
            other => return Err(damaged(&format!("a column that is generated {other:?}"))),
        }
    }
    let mut collations: BTreeMap<(i32, i32), String> = BTreeMap::new();
    for (_, r) in rows(session, &dictionary.collations) {
        collations.insert((int(&r[0]), int(&r[1])), string(&r[2]));
    }
    let mut versions: BTreeMap<(i32, i32), DataVersions> = BTreeMap::new();
    for (_, r) in rows(session, &dictionary.versions) {
        let code = string(&r[2]);
        let data = Data::of_code(&code).ok_or_else(|| damaged(&format!("a version of {code}")))?;
        versions.entry((int(&r[0]), int(&r[1]))).or_default().insert(data, string(&r[3]));
    }
    let (mut rooms, mut later) = (BTreeMap::<i32, Room>::new(), BTreeMap::<(i32, i32), Later>::new());
    let (mut ranks, mut bits) = (BTreeMap::<(i32, i32), u16>::new(), BTreeMap::<(i32, i32), bool>::new());
    for (_, r) in rows(session, &dictionary.stored) {
        let (table, position, kind) = (int(&r[0]), int(&r[1]), string(&r[2]));
        let number = u16::try_from(int(&r[3])).map_err(|_| damaged("the place of a column"))?;
        match kind.as_str() {
            "room" | "short room" => {
                rooms.insert(table, Room { places: number, longer: kind == "room" });
            }
            "later" => {
                let missing = match &r[4] {
                    Value::Bytea(b) if !mutated("missing_forgotten") => Some(b[..].into()),
                    _ => None,
                };
                later.insert((table, position), Later { place: number, missing });
            }
            "rank" => {
                ranks.insert((table, position), number);
            }
            "bit" => {
                bits.insert((table, position), number > 0);
            }
            other => return Err(damaged(&format!("a column that is stored as {other:?}"))),
        }
    }
    let stored = rows(session, &dictionary.columns);
    add_row_types(session, dictionary, &stored, &schema_of, &mut types);
    let mut columns: BTreeMap<i32, Vec<(i32, ColumnDef)>> = BTreeMap::new();
    for (_, r) in stored {
        let id = type_of(&types, int(&r[3])).ok_or_else(|| damaged("a column of an unknown type"))?;
        let declared = Type::with(id, int(&r[4]));
        let (generated, mut owns) = owned.remove(&(int(&r[0]), int(&r[1]))).unwrap_or_default();
        owns.sort_unstable();
        columns.entry(int(&r[0])).or_default().push((
            int(&r[1]),
            ColumnDef {
                name: string(&r[2]),
                ty: declared.base(),
                domain: (declared.base() != declared).then_some(id),
                not_null: flag(&r[5]),
                default: match &r[6] {
                    Value::Text(s) => Some(s.clone()),
                    _ => None,
                },
                packed: packed.contains(&(int(&r[0]), int(&r[1]))) && !mutated("packed_forgotten"),
                generated,
                owns,
                later: later.remove(&(int(&r[0]), int(&r[1]))),
                rank: ranks.remove(&(int(&r[0]), int(&r[1]))),
                bit: bits.remove(&(int(&r[0]), int(&r[1]))),
                collation: collations.remove(&(int(&r[0]), int(&r[1]))),
                data: versions.remove(&(int(&r[0]), int(&r[1]))).unwrap_or_default(),
            },
        ));
    }
    let mut options: BTreeMap<i32, IndexOptions> = BTreeMap::new();
    let mut crtrees: BTreeMap<i32, u8> = BTreeMap::new();
    for (_, r) in rows(session, &dictionary.options) {
        if string(&r[1]) == "crtree" {
            let bits = string(&r[2]).parse().ok().filter(|bits| [8, 16].contains(bits));
            crtrees.insert(int(&r[0]), bits.ok_or_else(|| damaged("a CR-tree's bits"))?);
            continue;
        }
        let of = options.entry(int(&r[0])).or_default();
        match string(&r[1]).as_str() {
            "partial" => of.partial = true,
            "include" => {
                let columns = parse_numbers(&string(&r[2]));
                of.include = columns.ok_or_else(|| damaged("an index's included columns"))?
            }
            "nulls not distinct" => of.nulls_not_distinct = true,
            "exclusion" => of.exclusion = true,
            "form" => {
                let text = string(&r[2]);
                let (place, form) = text.split_once(' ').unwrap_or((text.as_str(), ""));
                let place = place.parse().map_err(|_| damaged("the form of an index's key"))?;
                of.forms.push((place, format!(" {form}")));
                of.forms.sort()
            }
            other => return Err(damaged(&format!("an index with the option {other:?}"))),
        }
    }
    let mut indexes: BTreeMap<i32, Vec<IndexDef>> = BTreeMap::new();
    for (_, r) in rows(session, &dictionary.indexes) {
        indexes.entry(int(&r[1])).or_default().push(IndexDef {
            id: int(&r[0]) as u32,
            name: string(&r[2]),
            kind: match crtrees.get(&int(&r[0])) {
                Some(bits) => IndexKind::Crtree { bits: *bits },
                None if flag(&r[3]) => IndexKind::Hash,
                None => IndexKind::Btree,
            },
            unique: flag(&r[4]),
            primary: flag(&r[5]),
            constraint: flag(&r[6]),
            columns: parse_columns(&string(&r[7])).ok_or_else(|| damaged("an index's columns"))?,
            options: options.remove(&int(&r[0])).unwrap_or_default(),
        });
    }
    let mut checks: BTreeMap<i32, Vec<CheckDef>> = BTreeMap::new();
    for (_, r) in rows(session, &dictionary.checks) {
        if mutated("checks_forgotten") {
            break;
        }
        checks.entry(int(&r[0])).or_default().push(CheckDef {
            name: string(&r[1]),
            text: string(&r[2]),
            validated: flag(&r[3]),
            no_inherit: flag(&r[4]),
        });
    }
    let mut foreign: BTreeMap<i32, Vec<ForeignDef>> = BTreeMap::new();
    for (_, r) in rows(session, &dictionary.foreign) {
        let bad = || damaged("a foreign key");
        foreign.entry(int(&r[0])).or_default().push(ForeignDef {
            id: int(&r[1]) as u32,
            name: string(&r[2]),
            columns: parse_numbers(&string(&r[3])).ok_or_else(bad)?,
            table: int(&r[4]) as u32,
            index: int(&r[5]) as u32,
            parts: parse_numbers(&string(&r[6])).ok_or_else(bad)?,
            full: flag(&r[7]),
            on_delete: action_of(&string(&r[8])).ok_or_else(bad)?,
            on_update: action_of(&string(&r[9])).ok_or_else(bad)?,
            set: parse_numbers(&string(&r[10])).ok_or_else(bad)?,
            deferrable: flag(&r[11]),
            deferred: flag(&r[12]),
            validated: flag(&r[13]),
        });
    }
    for (_, r) in rows(session, &dictionary.comments) {
        let code = string(&r[1]);
        let kind = CommentKind::ALL.into_iter().find(|k| k.code() == code);
        let kind = kind.ok_or_else(|| damaged(&format!("a comment on a {code}")))?;
        let on = Commented::part(kind, int(&r[0]) as u32, &string(&r[2]));
        catalog.comments.insert(on, string(&r[3]).into());
    }
    for (_, r) in rows(session, &dictionary.views) {
        let options = read_options(&string(&r[3]));
        let mut columns = columns.remove(&int(&r[0])).unwrap_or_default();
        columns.sort_by_key(|c| c.0);
        let view = ViewDef {
            id: int(&r[0]) as u32,
            schema: schema_of(int(&r[0])),
            name: string(&r[1]),
            columns: columns.into_iter().map(|c| c.1).collect(),
            query: string(&r[2]),
            check: match options.iter().find(|(name, _)| name == CHECK_OPTION).map(|o| o.1.as_str()) {
                None => None,
                Some("local") => Some(ViewCheck::Local),
                Some("cascaded") => Some(ViewCheck::Cascaded),
                Some(other) => return Err(damaged(&format!("a view with the check {other:?}"))),
            },
            options,
        };
        let view = Arc::new(view);
        catalog.relations.insert(view.full_name(), Relation::View(view.clone()));
        catalog.views.insert(view.id, view);
    }
    let mut natures: BTreeMap<i32, Nature> = BTreeMap::new();
    for (_, r) in rows(session, &dictionary.materials) {
        let material = Material { query: string(&r[1]), populated: flag(&r[2]) };
        natures.entry(int(&r[0])).or_default().material = Some(material)
    }
    let mut told: Vec<_> = rows(session, &dictionary.sources).into_iter().map(|(_, r)| r).collect();
    told.sort_by_key(|r| (int(&r[0]), int(&r[1])));
    for r in told {
        let (name, value) = (string(&r[2]), string(&r[3]));
        match &mut natures.entry(int(&r[0])).or_default().source {
            // The first row has the server.
            none @ None => *none = Some(ForeignSource { server: value, options: Vec::new() }),
            Some(source) => source.options.push((name, value)),
        }
    }
    for (_, r) in rows(session, &dictionary.tables) {
        let (id, name, mut heaps) = (int(&r[0]), string(&r[1]), int(&r[2]) as u32);
        let mut nature = natures.remove(&id).unwrap_or_default();
        nature.room = rooms.remove(&id);
        if temporary::is_temporary(heaps) {
            (heaps, nature.unlogged) = (volatile(), true)
        }
        let mut cs = columns.remove(&id).unwrap_or_default();
        cs.sort_by_key(|c| c.0);
        let mut defs = indexes.remove(&id).unwrap_or_default();
        defs.sort_by_key(|d| d.id);
        let mut checks = checks.remove(&id).unwrap_or_default();
        checks.sort_by(|a, b| a.name.cmp(&b.name));
        let mut foreign = foreign.remove(&id).unwrap_or_default();
        foreign.sort_by_key(|f| f.id);
        let def = TableDef {
            id: id as u32,
            schema: schema_of(id),
            name: name.clone(),
            columns: cs.into_iter().map(|c| c.1).collect(),
            indexes: defs.clone(),
            checks,
            foreign,
            nature,
        };
        if defs.iter().any(|d| d.all_columns().any(|c| c >= def.columns.len())) {
            return Err(damaged(&format!("an index of table {name} names a column that is not there")));
        }
        let layout = Table::layout_of(&def);
        let in_room = |l: &Later| layout.word.is_some() && usize::from(l.place) < layout.later.len();
        if !def.columns.iter().flat_map(|c| &c.later).all(in_room) {
            return Err(damaged(&format!("table {name} has no room for columns that it has")));
        }
        let rows = if defs.is_empty() { 0 } else { kernel.heap(heaps * 2).taken() };
        let made = defs
            .into_iter()
            .map(|d| TableIndex::new(kernel, &def, &layout, d, rows))
            .collect::<SqlResult<Vec<_>>>()?;
        let name = def.full_name();
        for i in &made {
            let index = Relation::Index { table: name.clone() };
            catalog.relations.insert(def.index_name(&i.def), index);
        }
        if let Some(shown) = ViewDef::of_material(&def) {
            catalog.materials.insert(shown.id, Arc::new(shown));
        }
        let table = Table::new(kernel, def, heaps, made, None);
        catalog.relations.insert(name, Relation::Table(table));
    }
    let mut references: BTreeMap<u32, Vec<Reference>> = BTreeMap::new();
    for table in catalog.tables() {
        for key in &table.def.foreign {
            let parent = catalog.table_by_id(key.table);
            let named = |c: &&usize| **c < table.def.columns.len();
            let index = parent.and_then(|p| p.def.indexes.iter().find(|i| i.id == key.index));
            let parts = index.is_some_and(|i| {
                i.columns.len() == key.parts.len() && key.parts.iter().all(|p| *p < i.columns.len())
            });
            if !parts
                || key.columns.len() != key.parts.len()
                || key.columns.iter().filter(named).count() != key.parts.len()
            {
                return Err(damaged(&format!("foreign key {} of table {}", key.name, table.def.name)));
            }
            let (id, name) = (table.def.id, table.def.full_name());
            references.entry(key.table).or_default().push(Reference { table: id, name, key: key.clone() })
        }
    }
    references.values_mut().for_each(|list| list.sort_by_key(|r| r.key.id));
    for (number, list) in references {
        if let Some(table) = catalog.table_by_id(number).map(|t| t.with_references(kernel, list.into())) {
            catalog.relations.insert(table.def.full_name(), Relation::Table(table));
        }
    }
    let mut defaults: BTreeMap<i32, BTreeMap<i32, String>> = BTreeMap::new();
    let (mut variadic, mut definers) = (BTreeSet::<i32>::new(), BTreeSet::<i32>::new());
    for (_, r) in rows(session, &dictionary.function_options) {
        match string(&r[1]).as_str() {
            "default" => drop(defaults.entry(int(&r[0])).or_default().insert(int(&r[2]), string(&r[3]))),
            "variadic" => drop(variadic.insert(int(&r[0]))),
            "definer" => drop(definers.insert(int(&r[0]))),
            other => return Err(damaged(&format!("a function with the option {other:?}"))),
        }
    }
    for (_, r) in rows(session, &dictionary.functions) {
        let place = places.get(&int(&r[0]));
        let f = FunctionDef {
            id: int(&r[0]) as u32,
            schema: place.map_or(PUBLIC, |p| p.0),
            name: string(&r[1]),
            path: place.and_then(|p| p.1.clone()).unwrap_or_else(|| USUAL_PATH.into()),
            args: parse_args(&types, &string(&r[2])).ok_or_else(|| damaged("a function's arguments"))?,
            defaults: defaults.remove(&int(&r[0])).map_or(vec![], |d| d.into_values().collect()),
            variadic: variadic.contains(&int(&r[0])),
            definer: definers.contains(&int(&r[0])),
            returns: parse_returns(&types, &string(&r[3])).ok_or_else(|| damaged("a function's result"))?,
            body: string(&r[4]),
            code: match &r[5] {
                Value::Bytea(b) => b.clone(),
                _ => vec![],
            },
            // What an earlier version did not know is the word's default.
            volatility: Volatility::of_word(&string(&r[6])).unwrap_or(Volatility::Volatile),
        };
        let takes = |(_, ty): &(Option<String>, Type)| ty.base().id.is_array();
        if f.defaults.len() > f.args.len() || f.variadic && !f.args.last().is_some_and(takes) {
            return Err(damaged(&format!("the arguments of function {}", f.name)));
        }
        catalog.functions.insert(f.id, Arc::new(f));
    }
    Ok(catalog)
}

fn load_acl(v: &Value) -> SqlResult<Acl> {
    Acl::read(&string(v)).ok_or_else(|| damaged("a list of privileges"))
}

fn load_roles(session: &Session, d: &Dictionary, catalog: &mut Catalog) -> SqlResult<()> {
    let mut memberships: BTreeMap<i32, Vec<Membership>> = BTreeMap::new();
    for (_, r) in rows(session, &d.memberships) {
        let (role, grantor, admin) = (int(&r[1]) as u32, int(&r[2]) as u32, flag(&r[3]));
        if !mutated("memberships_forgotten") {
            memberships.entry(int(&r[0])).or_default().push(Membership { role, grantor, admin })
        }
    }
    let mut defaults: BTreeMap<i32, BTreeMap<(u32, char), Acl>> = BTreeMap::new();
    for (_, r) in rows(session, &d.defaults) {
        let kind = string(&r[2]).chars().next().ok_or_else(|| damaged("privileges of no kind"))?;
        defaults.entry(int(&r[0])).or_default().insert((int(&r[1]) as u32, kind), load_acl(&r[3])?);
    }
    for (_, r) in rows(session, &d.roles) {
        let attributes = string(&r[2]);
        let has = |word: &str| attributes.split(' ').any(|w| w == word);
        let id = int(&r[0]);
        let mut memberships = memberships.remove(&id).unwrap_or_default();
        memberships.sort_by_key(|m| m.role);
        let def = RoleDef {
            id: id as u32,
            name: string(&r[1]),
            superuser: has("superuser"),
            inherit: has("inherit"),
            create_role: has("createrole"),
            create_db: has("createdb"),
            login: has("login"),
            replication: has("replication"),
            bypass_rls: has("bypassrls"),
            connection_limit: int(&r[3]),
            password: (!r[4].is_null()).then(|| string(&r[4])),
            valid_until: (!r[5].is_null()).then(|| long(&r[5])),
            memberships,
            defaults: defaults.remove(&id).unwrap_or_default(),
        };
        catalog.roles.insert(def.id, Arc::new(def));
    }
    Ok(())
}

/// A role with all that belongs to it.
pub fn add_role(session: &mut Session, d: &Dictionary, def: &RoleDef) -> SqlResult<()> {
    raise_format(session, d, WITH_ROLES)?;
    let attributes: Vec<&str> = [
        (def.superuser, "superuser"),
        (def.inherit, "inherit"),
        (def.create_role, "createrole"),
        (def.create_db, "createdb"),
        (def.login, "login"),
        (def.replication, "replication"),
        (def.bypass_rls, "bypassrls"),
    ]
    .into_iter()
    .filter_map(|(is, word)| is.then_some(word))
    .collect();
    let id = Value::Int4(def.id as i32);
    add(
        session,
        &d.roles,
        &[
            id.clone(),
            Value::Text(def.name.clone()),
            Value::Text(attributes.join(" ")),
            Value::Int4(def.connection_limit),
            def.password.clone().map_or(Value::Null, Value::Text),
            def.valid_until.map_or(Value::Null, Value::Int8),
        ],
    )?;
    for m in &def.memberships {
        let [role, grantor] = [m.role, m.grantor].map(|n| Value::Int4(n as i32));
        add(session, &d.memberships, &[id.clone(), role, grantor, Value::Bool(m.admin)])?
    }
    for ((schema, kind), acl) in &def.defaults {
        let schema = Value::Int4(*schema as i32);
        add(
            session,
            &d.defaults,
            &[id.clone(), schema, Value::Text(kind.to_string()), Value::Text(acl.write())],
        )?
    }
    Ok(())
}

pub fn remove_role(session: &mut Session, d: &Dictionary, id: u32) -> SqlResult<()> {
    remove(session, &d.roles, 0, id)?;
    remove(session, &d.memberships, 0, id)?;
    remove(session, &d.defaults, 0, id)
}

fn load_rights(session: &Session, d: &Dictionary, catalog: &mut Catalog) -> SqlResult<()> {
    let mut columns: BTreeMap<i32, BTreeMap<String, Acl>> = BTreeMap::new();
    for (_, r) in rows(session, &d.column_rights) {
        columns.entry(int(&r[0])).or_default().insert(string(&r[1]), load_acl(&r[2])?);
    }
    for (_, r) in rows(session, &d.rights) {
        if mutated("rights_forgotten") {
            break;
        }
        let acl = if r[2].is_null() { None } else { Some(load_acl(&r[2])?) };
        let columns = columns.remove(&int(&r[0])).unwrap_or_default();
        let rights = ObjectRights { owner: int(&r[1]) as u32, acl, columns };
        catalog.rights.insert(int(&r[0]) as u32, Arc::new(rights));
    }
    Ok(())
}

/// The rights of an object: these and no others.
pub fn put_rights(session: &mut Session, d: &Dictionary, id: u32, rights: &ObjectRights) -> SqlResult<()> {
    if temporary::is_temporary(id) {
        return Ok(());
    }
    remove(session, &d.rights, 0, id)?;
    remove(session, &d.column_rights, 0, id)?;
    if rights.is_usual(id) {
        return Ok(());
    }
    raise_format(session, d, WITH_ROLES)?;
    let number = Value::Int4(id as i32);
    let acl = rights.acl.as_ref().map_or(Value::Null, |a| Value::Text(a.write()));
    add(session, &d.rights, &[number.clone(), Value::Int4(rights.owner as i32), acl])?;
    for (name, acl) in &rights.columns {
        let row = [number.clone(), Value::Text(name.clone()), Value::Text(acl.write())];
        add(session, &d.column_rights, &row)?
    }
    Ok(())
}

fn load_settings(session: &Session, d: &Dictionary, catalog: &mut Catalog) {
    let mut all: BTreeMap<(Scope, i32), (String, String)> = BTreeMap::new();
    for (_, r) in rows(session, &d.settings) {
        let scope = Scope { role: int(&r[0]) as u32, in_database: flag(&r[1]) };
        all.insert((scope, int(&r[2])), (string(&r[3]), string(&r[4])));
    }
    let mut scopes: BTreeMap<Scope, ScopeSettings> = BTreeMap::new();
    for ((scope, _), setting) in all {
        scopes.entry(scope).or_default().push(setting)
    }
    catalog.settings = scopes.into_iter().map(|(s, all)| (s, Arc::new(all))).collect()
}

/// The settings of a role, or of everybody: these and no others.
pub fn put_settings(
    session: &mut Session,
    d: &Dictionary,
    role: u32,
    scopes: &[(Scope, Arc<ScopeSettings>)],
) -> SqlResult<()> {
    remove(session, &d.settings, 0, role)?;
    for (scope, all) in scopes {
        for (place, (name, value)) in all.iter().enumerate() {
            raise_format(session, d, WITH_SETTINGS)?;
            let row = [
                Value::Int4(role as i32),
                Value::Bool(scope.in_database),
                Value::Int4(place as i32),
                Value::Text(name.clone()),
                Value::Text(value.clone()),
            ];
            add(session, &d.settings, &row)?
        }
    }
    Ok(())
}

/// The types that users have defined, and their arrays, by their numbers.
type Types = BTreeMap<i32, TypeId>;

/// The type of a stored number (D3).
fn type_of(types: &Types, number: i32) -> Option<TypeId> {
    match u16::try_from(number) {
        Ok(listed) => TypeId::from_number(listed),
        Err(_) => types.get(&number.checked_neg()?).copied(),
    }
}

/// Adds the types of the rows of those tables and views that columns of views, and functions, name (D14):
/// they are made of the columns, some of which may have such types themselves.
fn add_row_types(
    session: &Session,
    d: &Dictionary,
    columns: &[(Oid, Vec<Value>)],
    schema_of: &dyn Fn(i32) -> u32,
    types: &mut Types,
) {
    let of_rows = |number: i32| u32::try_from(number.checked_neg()?).ok().and_then(composite::table_of);
    let mut wanted: BTreeSet<u32> =
        columns.iter().filter_map(|(_, r)| of_rows(int(&r[3]))).map(|t| t.0).collect();
    for (_, r) in rows(session, &d.functions) {
        let texts = [string(&r[2]), string(&r[3])];
        // Behind a type's number its modifier follows ([`write_type`]).
        let words = texts.iter().flat_map(|t| t.split([' ', '\n', ':'])).filter_map(|w| w.parse().ok());
        wanted.extend(words.filter_map(of_rows).map(|t| t.0))
    }
    if wanted.is_empty() {
        return;
    }
    let named = rows(session, &d.tables).into_iter().chain(rows(session, &d.views));
    let names: BTreeMap<u32, String> = named.map(|(_, r)| (int(&r[0]) as u32, string(&r[1]))).collect();
    let mut shown: BTreeMap<u32, BTreeMap<i32, (String, i32, i32)>> = BTreeMap::new();
    for (_, r) in columns.iter().filter(|(_, r)| wanted.contains(&(int(&r[0]) as u32))) {
        let of = shown.entry(int(&r[0]) as u32).or_default();
        of.insert(int(&r[1]), (string(&r[2]), int(&r[3]), int(&r[4])));
    }
    loop {
        let before = wanted.len();
        wanted.retain(|relation| {
            let none = BTreeMap::new();
            let columns = shown.get(relation).unwrap_or(&none).values();
            let columns = columns.take_while(|(name, ..)| !name.starts_with(HIDDEN));
            let all: Option<Vec<(String, Type)>> = columns
                .map(|(name, ty, typmod)| {
                    let declared = Type::with(type_of(types, *ty)?, *typmod);
                    let is_domain = declared.base() != declared;
                    Some((name.clone(), if is_domain { Type::new(declared.id) } else { declared }))
                })
                .collect();
            let (Some(all), Some(name)) = (all, names.get(relation)) else { return true };
            let def = composite::of_table(*relation, schema_of(*relation as i32), name, all.into_iter());
            let row = def.type_id().ok();
            for ty in row.into_iter().chain(row.and_then(TypeId::array)) {
                types.insert(-type_number(ty), ty);
            }
            false
        });
        if wanted.len() == before {
            return;
        }
    }
}

/// The number that a type is stored by (D3).
fn type_number(ty: TypeId) -> i32 {
    match ty.user() {
        Some(user) => -((if ty.is_array() { user.array } else { user.number }) as i32),
        None => ty.number().into(),
    }
}

/// The schemas of objects that are not in `public`, and the paths of functions that have one of their own, by
/// the objects' numbers (D7).
type Places = BTreeMap<i32, (u32, Option<String>)>;

fn load_places(session: &Session, d: &Dictionary) -> Places {
    let path = |v: &Value| (!v.is_null()).then(|| string(v));
    let place = |r: &[Value]| (int(&r[0]), (int(&r[1]) as u32, path(&r[2])));
    rows(session, &d.places).iter().map(|(_, r)| place(r)).collect()
}

pub fn add_schema(session: &mut Session, d: &Dictionary, number: u32, name: Option<&str>) -> SqlResult<()> {
    raise_format(session, d, WITH_SCHEMAS)?;
    let name = name.map_or(Value::Null, |n| Value::Text(n.into()));
    add(session, &d.schemas, &[Value::Int4(number as i32), name])
}

pub fn remove_schema(session: &mut Session, d: &Dictionary, number: u32) -> SqlResult<()> {
    remove(session, &d.schemas, 0, number)
}

/// Says in which schema an object is, and by which path it is to be read, where these are not the usual ones.
fn add_place(session: &mut Session, d: &Dictionary, id: u32, schema: u32, path: &str) -> SqlResult<()> {
    let is_usual = path == USUAL_PATH;
    if schema == PUBLIC && is_usual {
        return Ok(());
    }
    raise_format(session, d, WITH_SCHEMAS)?;
    let path = if is_usual { Value::Null } else { Value::Text(path.into()) };
    add(session, &d.places, &[Value::Int4(id as i32), Value::Int4(schema as i32), path])
}

fn load_types(session: &Session, d: &Dictionary, places: &Places) -> SqlResult<Types> {
    let mut parts: BTreeMap<i32, Vec<Part>> = BTreeMap::new();
    for (_, r) in rows(session, &d.parts) {
        let key = match r[1] {
            Value::Int8(key) => key,
            _ => return Err(damaged("a part of a type without a key")),
        };
        let text = (!r[3].is_null()).then(|| string(&r[3]));
        parts.entry(int(&r[0])).or_default().push(Part { key, name: string(&r[2]), text, ty: None });
    }
    let mut all: Vec<_> = rows(session, &d.types).into_iter().map(|(_, r)| r).collect();
    all.sort_by_key(|r| std::cmp::Reverse(int(&r[0])));
    let mut types = Types::new();
    // A type is made of earlier ones, but for fields that were added: then it is looked at again. The first
    // of those that wait stands there as what was not to be waited for.
    let mut waiting: Vec<Vec<Value>> = Vec::new();
    let mut count = all.len();
    loop {
        let Some(r) = all.pop() else {
            if waiting.is_empty() {
                break;
            }
            if waiting.len() == count {
                return Err(damaged("a type made of an unknown one"));
            }
            count = waiting.len();
            waiting.reverse();
            all = std::mem::take(&mut waiting);
            continue;
        };
        let (number, array, kind) = (int(&r[0]), int(&r[1]), string(&r[3]));
        let base = match r[4] {
            Value::Null => None,
            _ => Some(type_of(&types, int(&r[4])).ok_or_else(|| damaged("a type made of an unknown one"))?),
        };
        let mut parts_of = parts.get(&number).cloned().unwrap_or_default();
        parts_of.sort_by_key(|p| p.key);
        if kind == composite::CODE {
            let known = parts_of.iter_mut().all(|p| {
                p.ty = p.text.take().and_then(|t| parse_type(&types, &t));
                p.ty.is_some()
            });
            if !known {
                waiting.push(r);
                continue;
            }
            if mutated("fields_forgotten") {
                parts_of.truncate(2)
            }
        }
        let parts = parts_of;
        let kind = kind_code(&kind).ok_or_else(|| damaged(&format!("a type of unknown kind {kind:?}")))?;
        let def = UserDef {
            number: number as u32,
            array: array as u32,
            schema: places.get(&number).map_or(PUBLIC, |p| p.0),
            name: string(&r[2]),
            kind,
            base: base.map(|b| Type::with(b, int(&r[5]))),
            not_null: flag(&r[6]),
            default: (!r[7].is_null()).then(|| string(&r[7])),
            parts,
            fresh: None,
        };
        let ty = def.type_id()?;
        types.insert(number, ty);
        if let Some(of) = ty.array() {
            types.insert(array, of);
        }
    }
    Ok(types)
}

fn sequence_of(types: &Types, schema: u32, r: &[Value]) -> SqlResult<SequenceDef> {
    let bounds = Bounds { increment: long(&r[5]), min: long(&r[6]), max: long(&r[7]), cycle: flag(&r[9]) };
    if bounds.increment == 0 {
        return Err(damaged("a sequence that does not go on"));
    }
    let ty = type_of(types, int(&r[3])).ok_or_else(|| damaged("a sequence of an unknown type"))?;
    Ok(SequenceDef {
        id: int(&r[0]) as u32,
        schema,
        name: string(&r[1]),
        options: SequenceOptions { ty, start: long(&r[4]), bounds, cache: long(&r[8]) },
        counter: int(&r[2]) as u32,
        initial: begin(long(&r[10]), flag(&r[11])),
    })
}

pub fn add_sequence(session: &mut Session, d: &Dictionary, def: &SequenceDef) -> SqlResult<()> {
    if temporary::is_temporary(def.id) {
        return Ok(());
    }
    raise_format(session, d, WITH_SEQUENCES)?;
    if def.is_unlogged() {
        raise_format(session, d, WITH_UNLOGGED)?
    }
    add_place(session, d, def.id, def.schema, USUAL_PATH)?;
    let SequenceOptions { ty, start, bounds, cache } = def.options;
    add(
        session,
        &d.sequences,
        &[
            Value::Int4(def.id as i32),
            Value::Text(def.name.clone()),
            Value::Int4(def.counter as i32),
            Value::Int4(type_number(ty)),
            Value::Int8(start),
            Value::Int8(bounds.increment),
            Value::Int8(bounds.min),
            Value::Int8(bounds.max),
            Value::Int8(cache),
            Value::Bool(bounds.cycle),
            Value::Int8(def.initial.value),
            Value::Bool(def.initial.steps > 0),
        ],
    )
}

pub fn remove_sequence(session: &mut Session, d: &Dictionary, id: u32) -> SqlResult<()> {
    if temporary::is_temporary(id) {
        return Ok(());
    }
    remove(session, &d.places, 0, id)?;
    remove(session, &d.sequences, 0, id)
}

/// What a column generates its values by, and the sequences that go with it.
fn add_owned(
    session: &mut Session,
    d: &Dictionary,
    table: &Value,
    position: usize,
    c: &ColumnDef,
) -> SqlResult<()> {
    let mut rows = Vec::new();
    match &c.generated {
        None => {}
        Some(Generated::Identity { always, sequence }) => {
            rows.push((if *always { "always" } else { "default" }, *sequence, Value::Null))
        }
        Some(Generated::Stored(text)) => rows.push(("stored", 0, Value::Text(text.clone()))),
    }
    rows.extend(c.owns.iter().map(|s| ("owned", *s, Value::Null)));
    for (kind, sequence, text) in rows {
        raise_format(session, d, WITH_SEQUENCES)?;
        let (place, kind) = (Value::Int4(position as i32), Value::Text(kind.into()));
        add(session, &d.owned, &[table.clone(), place, kind, Value::Int4(sequence as i32), text])?
    }
    Ok(())
}

pub fn add_type(session: &mut Session, d: &Dictionary, def: &UserDef) -> SqlResult<()> {
    raise_format(session, d, if def.is_composite() { WITH_COMPOSITES } else { WITH_TYPES })?;
    add_place(session, d, def.number, def.schema, USUAL_PATH)?;
    let id = Value::Int4(def.number as i32);
    let text = |t: &Option<String>| t.clone().map_or(Value::Null, Value::Text);
    add(
        session,
        &d.types,
        &[
            id.clone(),
            Value::Int4(def.array as i32),
            Value::Text(def.name.clone()),
            Value::Text(def.kind.into()),
            def.base.map_or(Value::Null, |b| Value::Int4(type_number(b.id))),
            def.base.map_or(Value::Null, |b| Value::Int4(b.typmod)),
            Value::Bool(def.not_null),
            text(&def.default),
        ],
    )?;
    for p in &def.parts {
        let text = p.ty.map_or(text(&p.text), |t| Value::Text(write_type(t)));
        let row = [id.clone(), Value::Int8(p.key), Value::Text(p.name.clone()), text];
        add(session, &d.parts, &row)?;
    }
    Ok(())
}

pub fn remove_type(session: &mut Session, d: &Dictionary, number: u32) -> SqlResult<()> {
    remove(session, &d.types, 0, number)?;
    remove(session, &d.places, 0, number)?;
    remove(session, &d.parts, 0, number)
}

pub fn add_table(session: &mut Session, d: &Dictionary, def: &TableDef, heaps: u32) -> SqlResult<()> {
    if temporary::is_temporary(def.id) {
        return Ok(());
    }
    if def.nature.unlogged {
        raise_format(session, d, WITH_UNLOGGED)?
    }
    let id = Value::Int4(def.id as i32);
    add(session, &d.tables, &[id.clone(), Value::Text(def.name.clone()), Value::Int4(heaps as i32)])?;
    add_place(session, d, def.id, def.schema, USUAL_PATH)?;
    for (i, c) in def.columns.iter().enumerate() {
        add_column(session, d, def.id, i, c)?;
        if c.is_hidden() {
            raise_format(session, d, WITH_OPTIONS)?
        }
        if c.is_packed() {
            raise_format(session, d, WITH_PACKED)?;
            add(session, &d.packed, &[id.clone(), Value::Int4(i as i32)])?
        }
        if let Some(Later { place, missing }) = &c.later {
            let missing = missing.as_ref().map_or(Value::Null, |m| Value::Bytea(m.to_vec()));
            add_stored(session, d, &id, i, "later", *place, missing)?
        }
        if let Some(rank) = c.rank {
            add_stored(session, d, &id, i, "rank", rank, Value::Null)?
        }
        if let Some(bit) = c.bit {
            add_stored(session, d, &id, i, "bit", bit.into(), Value::Null)?
        }
        add_owned(session, d, &id, i, c)?;
        for (data, version) in c.data.iter().filter(|_| !c.is_left()) {
            raise_format(session, d, WITH_VERSIONS)?;
            let [data, version] = [data.code(), version].map(|s| Value::Text(s.to_string()));
            add(session, &d.versions, &[id.clone(), Value::Int4(i as i32), data, version])?
        }
    }
    if let Some(Room { places, longer }) = def.nature.room {
        if !longer {
            raise_format(session, d, WITH_SHORT_ROOM)?
        }
        let kind = if longer { "room" } else { "short room" };
        add_stored(session, d, &id, 0, kind, places, Value::Null)?
    }
    for i in &def.indexes {
        add_index(session, d, def.id, i)?
    }
    if Table::layout_of(def).is_long() {
        raise_format(session, d, WITH_LONG)?
    }
    for c in &def.checks {
        raise_format(session, d, WITH_CHECKS)?;
        let (name, text) = (Value::Text(c.name.clone()), Value::Text(c.text.clone()));
        let row = [id.clone(), name, text, Value::Bool(c.validated), Value::Bool(c.no_inherit)];
        add(session, &d.checks, &row)?
    }
    for f in &def.foreign {
        raise_format(session, d, WITH_FOREIGN)?;
        add(
            session,
            &d.foreign,
            &[
                id.clone(),
                Value::Int4(f.id as i32),
                Value::Text(f.name.clone()),
                write_numbers(&f.columns),
                Value::Int4(f.table as i32),
                Value::Int4(f.index as i32),
                write_numbers(&f.parts),
                Value::Bool(f.full),
                Value::Text(action_word(f.on_delete).into()),
                Value::Text(action_word(f.on_update).into()),
                write_numbers(&f.set),
                Value::Bool(f.deferrable),
                Value::Bool(f.deferred),
                Value::Bool(f.validated),
            ],
        )?
    }
    if let Some(ForeignSource { server, options }) = &def.nature.source {
        raise_format(session, d, WITH_SOURCES)?;
        let head = ("server".to_string(), server.clone());
        for (n, (name, value)) in std::iter::once(&head).chain(options).enumerate() {
            let [name, value] = [name, value].map(|t| Value::Text(t.clone()));
            add(session, &d.sources, &[id.clone(), Value::Int4(n as i32), name, value])?
        }
    }
    put_material(session, d, def)
}

/// How a table's rows are stored, or what they have of a column, where its definition does not tell (D16).
fn add_stored(
    session: &mut Session,
    d: &Dictionary,
    table: &Value,
    position: usize,
    kind: &str,
    number: u16,
    value: Value,
) -> SqlResult<()> {
    raise_format(session, d, WITH_LATER)?;
    let (position, number) = (Value::Int4(position as i32), Value::Int4(number.into()));
    add(session, &d.stored, &[table.clone(), position, Value::Text(kind.into()), number, value])
}

/// The query of a materialised view, and whether it was filled; nothing of another table.
pub fn put_material(session: &mut Session, d: &Dictionary, def: &TableDef) -> SqlResult<()> {
    let Some(material) = &def.nature.material else { return Ok(()) };
    remove(session, &d.materials, 0, def.id)?;
    raise_format(session, d, WITH_MATERIAL)?;
    let (query, populated) = (Value::Text(material.query.clone()), Value::Bool(material.populated));
    add(session, &d.materials, &[Value::Int4(def.id as i32), query, populated])
}

fn add_column(session: &mut Session, d: &Dictionary, of: u32, place: usize, c: &ColumnDef) -> SqlResult<()> {
    if registered::kind(c.ty.id).is_some() {
        raise_format(session, d, WITH_REGISTERED)?
    }
    if let Some(name) = &c.collation {
        raise_format(session, d, WITH_COLLATIONS)?;
        let row = [Value::Int4(of as i32), Value::Int4(place as i32), Value::Text(name.clone())];
        add(session, &d.collations, &row)?
    }
    add(
        session,
        &d.columns,
        &[
            Value::Int4(of as i32),
            Value::Int4(place as i32),
            Value::Text(c.name.clone()),
            Value::Int4(type_number(c.domain.unwrap_or(c.ty.id))),
            Value::Int4(c.ty.typmod),
            Value::Bool(c.not_null),
            c.default.clone().map_or(Value::Null, Value::Text),
        ],
    )
}

pub fn add_view(session: &mut Session, d: &Dictionary, def: &ViewDef) -> SqlResult<()> {
    if temporary::is_temporary(def.id) {
        return Ok(());
    }
    raise_format(session, d, WITH_VIEWS)?;
    if def.options.iter().any(|(name, _)| name != CHECK_OPTION) {
        raise_format(session, d, WITH_MATERIAL)?
    }
    let check = &write_options(&def.options);
    let [name, query, check] = [&def.name, &def.query, check].map(|s| Value::Text(s.to_string()));
    add(session, &d.views, &[Value::Int4(def.id as i32), name, query, check])?;
    add_place(session, d, def.id, def.schema, USUAL_PATH)?;
    def.columns.iter().enumerate().try_for_each(|(i, c)| add_column(session, d, def.id, i, c))
}

/// The option that says CHECK OPTION.
const CHECK_OPTION: &str = "check_option";

/// A view's options: CHECK OPTION alone by its word, as before there were others (D12).
fn write_options(options: &[(String, String)]) -> String {
    match options {
        [] => String::new(),
        [(name, value)] if name == CHECK_OPTION => value.clone(),
        all => all.iter().map(|(name, value)| format!("{name}={value}\n")).collect(),
    }
}
fn read_options(text: &str) -> Vec<(String, String)> {
    let pair = |(name, value): (&str, &str)| (name.to_string(), value.to_string());
    match text {
        "" => Vec::new(),
        word if !word.contains('=') => vec![pair((CHECK_OPTION, word))],
        all => all.lines().filter_map(|l| l.split_once('=')).map(pair).collect(),
    }
}

/// The comments on an object and its parts: these and no others.
pub fn put_comments(
    session: &mut Session,
    d: &Dictionary,
    id: u32,
    comments: &[(Commented, Arc<str>)],
) -> SqlResult<()> {
    if temporary::is_temporary(id) {
        return Ok(());
    }
    remove(session, &d.comments, 0, id)?;
    for (on, text) in comments {
        let of_schema = on.kind == CommentKind::Schema;
        raise_format(session, d, if of_schema { WITH_MATERIAL } else { WITH_VIEWS })?;
        let [kind, part, text] = [on.kind.code(), &on.part, text].map(|s| Value::Text(s.to_string()));
        add(session, &d.comments, &[Value::Int4(id as i32), kind, part, text])?
    }
    Ok(())
}

pub fn remove_view(session: &mut Session, d: &Dictionary, id: u32) -> SqlResult<()> {
    if temporary::is_temporary(id) {
        return Ok(());
    }
    remove(session, &d.views, 0, id)?;
    remove(session, &d.places, 0, id)?;
    remove(session, &d.collations, 0, id)?;
    remove(session, &d.columns, 0, id)
}

pub fn remove_table(session: &mut Session, d: &Dictionary, id: u32) -> SqlResult<()> {
    if temporary::is_temporary(id) {
        return Ok(());
    }
    remove(session, &d.tables, 0, id)?;
    remove(session, &d.places, 0, id)?;
    remove(session, &d.columns, 0, id)?;
    remove(session, &d.collations, 0, id)?;
    remove(session, &d.packed, 0, id)?;
    remove(session, &d.checks, 0, id)?;
    remove(session, &d.owned, 0, id)?;
    remove(session, &d.foreign, 0, id)?;
    remove(session, &d.materials, 0, id)?;
    remove(session, &d.sources, 0, id)?;
    remove(session, &d.stored, 0, id)?;
    remove(session, &d.versions, 0, id)?;
    indexes_of(session, d, id)?.into_iter().try_for_each(|i| remove(session, &d.options, 0, i))?;
    remove(session, &d.indexes, 1, id)
}

/// The numbers of a table's indexes, as they are now.
fn indexes_of(session: &Session, d: &Dictionary, id: u32) -> SqlResult<Vec<u32>> {
    let table = &d.indexes;
    let mut bytes = vec![0; table.layout.row_size];
    let mut number = |oid| {
        session.read_newest(oid, &mut bytes);
        int(&row::column(&table.layout, &bytes, 0, &Newest(session), &mut vec![]).to_owned()) as u32
    };
    Ok(with_number(session, table, 1, id as i32)?.into_iter().map(&mut number).collect())
}

pub fn add_index(session: &mut Session, d: &Dictionary, table: u32, i: &IndexDef) -> SqlResult<()> {
    if temporary::is_temporary(table) {
        return Ok(());
    }
    let columns: Vec<String> = i
        .columns
        .iter()
        .map(|c| {
            format!("{}{}{}", c.column, if c.desc { "d" } else { "" }, if c.nulls_first { "f" } else { "" })
        })
        .collect();
    add(
        session,
        &d.indexes,
        &[
            Value::Int4(i.id as i32),
            Value::Int4(table as i32),
            Value::Text(i.name.clone()),
            Value::Bool(i.kind == IndexKind::Hash),
            Value::Bool(i.unique),
            Value::Bool(i.primary),
            Value::Bool(i.constraint),
            Value::Text(columns.join(" ")),
        ],
    )?;
    if let IndexKind::Crtree { bits } = i.kind {
        raise_format(session, d, WITH_CRTREES)?;
        let row = [Value::Int4(i.id as i32), Value::Text("crtree".into()), Value::Text(bits.to_string())];
        add(session, &d.options, &row)?
    }
    let IndexOptions { partial, include, nulls_not_distinct, exclusion, forms } = &i.options;
    for (place, form) in forms {
        raise_format(session, d, WITH_OPTIONS)?;
        let row =
            [Value::Int4(i.id as i32), Value::Text("form".into()), Value::Text(format!("{place}{form}"))];
        add(session, &d.options, &row)?
    }
    for (is, kind, columns) in [
        (*partial, "partial", Value::Null),
        (!include.is_empty(), "include", write_numbers(include)),
        (*nulls_not_distinct, "nulls not distinct", Value::Null),
        (*exclusion, "exclusion", Value::Null),
    ] {
        if is {
            raise_format(session, d, WITH_OPTIONS)?;
            add(session, &d.options, &[Value::Int4(i.id as i32), Value::Text(kind.into()), columns])?
        }
    }
    Ok(())
}

pub fn remove_index(session: &mut Session, d: &Dictionary, id: u32) -> SqlResult<()> {
    if temporary::is_temporary(id) {
        return Ok(());
    }
    remove(session, &d.options, 0, id)?;
    remove(session, &d.indexes, 0, id)
}

pub fn add_function(session: &mut Session, d: &Dictionary, f: &FunctionDef) -> SqlResult<()> {
    let of_rows = |t: TypeId| t.user().is_some_and(|u| u.is_composite());
    let returned = match &f.returns {
        Returns::Scalar { ty, .. } => Some(ty.id),
        _ => None,
    };
    if f.arg_types().chain(returned).any(of_rows) {
        raise_format(session, d, WITH_COMPOSITES)?;
    }
    add(
        session,
        &d.functions,
        &[
            Value::Int4(f.id as i32),
            Value::Text(f.name.clone()),
            Value::Text(write_args(&f.args)),
            Value::Text(write_returns(&f.returns)),
            Value::Text(f.body.clone()),
            Value::Bytea(f.code.clone()),
            Value::Text(f.volatility.word().into()),
        ],
    )?;
    let texts = f.defaults.iter().enumerate().map(|(n, text)| ("default", n as i32, text.as_str()));
    let texts = texts.chain(f.variadic.then_some(("variadic", 0, "")));
    for (kind, place, text) in texts.chain(f.definer.then_some(("definer", 0, ""))) {
        raise_format(session, d, if kind == "definer" { WITH_ROLES } else { WITH_DEFAULTS })?;
        let [id, place] = [f.id as i32, place].map(Value::Int4);
        let [kind, text] = [kind, text].map(|s| Value::Text(s.into()));
        add(session, &d.function_options, &[id, kind, place, text])?
    }
    add_place(session, d, f.id, f.schema, &f.path)
}

pub fn remove_function(session: &mut Session, d: &Dictionary, id: u32) -> SqlResult<()> {
    remove(session, &d.functions, 0, id)?;
    remove(session, &d.function_options, 0, id)?;
    remove(session, &d.places, 0, id)
}

/// A foreign key's actions as they are stored.
const ACTIONS: [(KeyAction, &str); 5] = [
    (KeyAction::NoAction, "no action"),
    (KeyAction::Restrict, "restrict"),
    (KeyAction::Cascade, "cascade"),
    (KeyAction::SetNull, "set null"),
    (KeyAction::SetDefault, "set default"),
];

/// The words of an action, in lower case.
pub fn action_word(action: KeyAction) -> &'static str {
    ACTIONS.iter().find(|a| a.0 == action).map_or("", |a| a.1)
}
fn action_of(word: &str) -> Option<KeyAction> {
    ACTIONS.iter().find(|a| a.1 == word).map(|a| a.0)
}

fn write_numbers(numbers: &[usize]) -> Value {
    Value::Text(numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(" "))
}
fn parse_numbers(text: &str) -> Option<Vec<usize>> {
    text.split_whitespace().map(|w| w.parse().ok()).collect()
}

fn parse_columns(text: &str) -> Option<Vec<IndexColumn>> {
    text.split_whitespace()
        .map(|w| {
            let digits = w.trim_end_matches(['d', 'f']);
            let flags = &w[digits.len()..];
            Some(IndexColumn {
                column: digits.parse().ok()?,
                desc: flags.contains('d'),
                nulls_first: flags.contains('f'),
            })
        })
        .collect()
}

/// Types and names as text, one field a line. Names may hold anything; a line feed is escaped.
fn escape(s: &str) -> String {
    s.replace('\\', "\\\\").replace('\n', "\\n")
}
fn unescape(s: &str) -> String {
    let mut out = String::new();
    let mut chars = s.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some(c) => out.push(c),
                None => {}
            },
            c => out.push(c),
        }
    }
    out
}

fn write_type(t: Type) -> String {
    format!("{}:{}", type_number(t.id), t.typmod)
}
fn parse_type(types: &Types, s: &str) -> Option<Type> {
    let (id, typmod) = s.split_once(':')?;
    Some(Type::with(type_of(types, id.parse().ok()?)?, typmod.parse().ok()?))
}

fn write_args(args: &[(Option<String>, Type)]) -> String {
    let lines: Vec<String> = args
        .iter()
        .map(|(n, t)| match n {
            Some(n) => format!("{} {}", write_type(*t), escape(n)),
            None => write_type(*t),
        })
        .collect();
    lines.join("\n")
}
fn parse_args(types: &Types, text: &str) -> Option<Vec<(Option<String>, Type)>> {
    text.lines()
        .map(|l| match l.split_once(' ') {
            Some((t, n)) => Some((Some(unescape(n)), parse_type(types, t)?)),
            None => Some((None, parse_type(types, l)?)),
        })
        .collect()
}

fn write_returns(r: &Returns) -> String {
    match r {
        Returns::Void => "void".into(),
        Returns::Scalar { ty, set } => format!("scalar {set} {}", write_type(*ty)),
        Returns::Rows { of, columns, set } => {
            let mut s = match of {
                Some(of) if of.schema != PUBLIC => {
                    format!("rows_in {set} {} {}", of.schema, escape(&of.name))
                }
                Some(of) => format!("rows {set} {}", escape(&of.name)),
                None => format!("rows {set} "),
            };
            for (n, t) in columns {
                s += &format!("\n{} {}", write_type(*t), escape(n))
            }
            s
        }
    }
}
fn parse_returns(types: &Types, text: &str) -> Option<Returns> {
    let mut lines = text.lines();
    let first = lines.next()?;
    let mut words = first.splitn(3, ' ');
    match words.next()? {
        "void" => Some(Returns::Void),
        "scalar" => {
            let set = words.next()? == "true";
            Some(Returns::Scalar { ty: parse_type(types, words.next()?)?, set })
        }
        kind @ ("rows" | "rows_in") => {
            let set = words.next()? == "true";
            let of = match words.next().filter(|s| !s.is_empty()) {
                Some(of) if kind == "rows_in" => {
                    let (schema, name) = of.split_once(' ')?;
                    Some(Name::new(schema.parse().ok()?, unescape(name)))
                }
                of => of.map(|name| Name::from(unescape(name))),
            };
            let columns = lines
                .map(|l| {
                    let (t, n) = l.split_once(' ')?;
                    Some((unescape(n), parse_type(types, t)?))
                })
                .collect::<Option<_>>()?;
            Some(Returns::Rows { of, columns, set })
        }
        _ => None,
    }
}
