//! Tables, indexes, and the catalogue's own relations: pg_class, pg_attribute, pg_attrdef.

use super::fixed;
use super::name::named;
use super::role;
use super::rows::{Char, Each, Name, Null, Oid, Wanted, row, small};
use super::sight::{Object, Sight, oid_of, schema_oid};
use ondol_engine::name::TEMPORARY;
use ondol_engine::{ColumnDef, Generated, IndexKind, Layout, Table, later};
use ondol_types::catalog::node_tree;
use ondol_types::user::composite;
use ondol_types::{SqlResult, Type, TypeId, Value};
use std::sync::Arc;

const HEAP: u32 = 2;
const BTREE: u32 = 403;
const HASH: u32 = 405;
/// Bytes of a page, as PostgreSQL counts them.
const PAGE: u64 = 8192;

/// The access method of a kind of index.
pub fn method(kind: IndexKind) -> u32 {
    match kind {
        IndexKind::Btree => BTREE,
        IndexKind::Hash => HASH,
        IndexKind::Crtree { .. } => fixed::CRTREE,
    }
}

/// The bytes that a table's rows take.
pub fn bytes(t: &Table) -> u64 {
    (t.store.rows.bytes() + t.store.strings.bytes()) as u64
}

/// The bytes of an index, by its place among the table's.
pub fn index_bytes(t: &Table, n: usize) -> u64 {
    t.indexes.get(n).map_or(0, |i| i.index.memory_bytes() as u64)
}

fn pages(bytes: u64) -> i32 {
    i32::try_from(bytes.div_ceil(PAGE)).unwrap_or(i32::MAX)
}

pub fn classes(sight: &Sight<'_>, wanted: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    if let Some(oid) = wanted.number("oid") {
        return sight.relation(oid).map_or(Ok(()), |o| class(sight, &o, each));
    }
    if let Some(name) = wanted.text("relname") {
        return sight.relations_named(name).iter().try_for_each(|o| class(sight, o, each));
    }
    sight.relations().try_for_each(|o| class(sight, &o, each))
}

/// What pg_class says of a relation.
struct Class {
    method: u32,
    kind: u8,
    pages: i32,
    tuples: f32,
    has_index: bool,
    attributes: usize,
    checks: usize,
    identity: u8,
}

fn class(sight: &Sight<'_>, object: &Object, each: Each<'_>) -> SqlResult<()> {
    let c = match object {
        Object::Table(t) if t.def.is_foreign() => Class {
            method: 0,
            kind: b'f',
            pages: 0,
            tuples: -1.0,
            has_index: !t.def.indexes.is_empty(),
            attributes: t.def.shown().len(),
            checks: 0,
            identity: b'd',
        },
        Object::Table(t) => Class {
            method: HEAP,
            kind: if t.def.is_material() { b'm' } else { b'r' },
            pages: pages(bytes(t)),
            tuples: t.estimate_rows() as f32,
            has_index: !t.def.indexes.is_empty(),
            attributes: t.def.shown().len(),
            checks: t.def.checks.len(),
            identity: b'd',
        },
        Object::Index(t, n) => {
            let index = &t.def.indexes[*n];
            Class {
                method: method(index.kind),
                kind: b'i',
                pages: pages(index_bytes(t, *n)),
                tuples: t.estimate_rows() as f32,
                has_index: false,
                attributes: index.keys().len() + index.options.include.len(),
                checks: 0,
                identity: b'n',
            }
        }
        Object::Sequence(_) => Class {
            method: 0,
            kind: b'S',
            pages: 1,
            tuples: 1.0,
            has_index: false,
            attributes: 3,
            checks: 0,
            identity: b'n',
        },
        Object::View(v) => Class {
            method: 0,
            kind: b'v',
            pages: 0,
            tuples: -1.0,
            has_index: false,
            attributes: v.columns.len(),
            checks: 0,
            identity: b'n',
        },
        Object::Composite(u) => Class {
            method: 0,
            kind: b'c',
            pages: 0,
            tuples: -1.0,
            has_index: false,
            attributes: u.parts.len(),
            checks: 0,
            identity: b'n',
        },
        Object::System(r) => Class {
            method: if r.is_view { 0 } else { HEAP },
            kind: if r.is_view { b'v' } else { b'r' },
            pages: 0,
            tuples: -1.0,
            has_index: false,
            attributes: r.columns.len(),
            checks: 0,
            identity: b'n',
        },
    };
    let oid = Sight::oid(object);
    let is_populated = !matches!(object, Object::Table(t) if t.def.is_unpopulated());
    let has_file = !matches!(c.kind, b'v' | b'c' | b'f');
    let is_unlogged = match object {
        Object::Table(t) | Object::Index(t, _) => t.def.nature.unlogged,
        Object::Sequence(s) => s.def.is_unlogged(),
        _ => false,
    };
    let persistence = match object.schema() == schema_oid(TEMPORARY) {
        true => b't',
        false if is_unlogged => b'u',
        false => b'p',
    };
    let rows = match object {
        Object::Table(t) => oid_of(composite::type_of_rows(t.def.id)),
        Object::View(v) => oid_of(composite::type_of_rows(v.id)),
        Object::Composite(u) => oid_of(u.number),
        _ => 0,
    };
    let list = match object {
        Object::Table(_) | Object::View(_) | Object::Sequence(_) => {
            role::rights_id(object).map_or(Ok(Value::Null), |id| role::list_of(sight, id))?
        }
        _ => Value::Null,
    };
    each(&row![
        Oid(oid),
        Name(object.name()),
        Oid(object.schema()),
        Oid(rows),
        Oid(0),
        Oid(role::owner_of(sight, object)),
        Oid(c.method),
        Oid(if has_file { oid } else { 0 }),
        Oid(0),
        c.pages,
        c.tuples,
        0,
        Oid(0),
        c.has_index,
        false,
        Char(persistence),
        Char(c.kind),
        small(c.attributes),
        small(c.checks),
        matches!(c.kind, b'v' | b'm'),
        // Foreign keys are triggers in PostgreSQL: psql asks for keys only where there are any.
        matches!(object, Object::Table(t) if !t.def.foreign.is_empty() || !t.references.is_empty()),
        false,
        false,
        false,
        is_populated,
        Char(c.identity),
        false,
        Oid(0),
        xid(0),
        xid(0),
        list,
        options_of(object)?,
        Null,
    ])
}

/// What WITH said of a view.
fn options_of(object: &Object) -> SqlResult<Value> {
    match object {
        Object::View(v) if !v.options.is_empty() => {
            let all = v.options.iter().map(|(name, value)| Value::Text(format!("{name}={value}")));
            ondol_types::array::of_values(TypeId::TEXT, &all.collect::<Vec<_>>())
        }
        _ => Ok(Value::Null),
    }
}

/// A number of a transaction.
pub fn xid(n: u32) -> Value {
    Value::Opaque(TypeId::XID, Box::new(n.to_le_bytes()))
}

/// What pg_attribute says of a column.
struct Attribute<'a> {
    relation: u32,
    name: &'a str,
    ty: Type,
    number: usize,
    not_null: bool,
    has_default: bool,
    /// GENERATED AS IDENTITY: ALWAYS or BY DEFAULT; and STORED.
    identity: u8,
    generated: u8,
    collation: Option<&'a str>,
    /// The list of its privileges.
    acl: Value,
}

impl<'a> Attribute<'a> {
    /// Of a column at a place, from 0, of which nothing else is to be said.
    fn new(relation: u32, place: usize, name: &'a str, ty: Type) -> Attribute<'a> {
        let (not_null, has_default, identity, generated, collation) = (false, false, 0, 0, None);
        let number = place + 1;
        let acl = Value::Null;
        Attribute { relation, name, ty, number, not_null, has_default, identity, generated, collation, acl }
    }
}

fn attribute(a: &Attribute<'_>, each: Each<'_>) -> SqlResult<()> {
    attribute_missing(a, Value::Null, each)
}

/// The same; `missing`: what the column is in rows that do not say, as an array of texts.
fn attribute_missing(a: &Attribute<'_>, missing: Value, each: Each<'_>) -> SqlResult<()> {
    let f = facts(a.ty.id);
    each(&row![
        Oid(a.relation),
        Name(a.name),
        Oid(a.ty.id.oid()),
        -1,
        f.length,
        small(a.number),
        i32::from(a.ty.id.is_array()),
        -1,
        a.ty.typmod,
        f.by_value,
        Char(f.align),
        Char(f.storage),
        Char(0),
        a.not_null,
        a.has_default,
        !missing.is_null(),
        Char(a.identity),
        Char(a.generated),
        false,
        true,
        0,
        Oid(a.collation.map_or(f.collation, super::key::collation_number)),
        a.acl.clone(),
        Null,
        Null,
        missing,
    ])
}

/// What a column is in rows that were there before it was added, where that is not NULL.
fn missing(c: &ColumnDef) -> SqlResult<Value> {
    let Some(bytes) = c.later.as_ref().and_then(|l| l.missing.as_deref()) else { return Ok(Value::Null) };
    let value = later::value(Layout::later_storage(c.ty, c.packed), bytes);
    let mut item = String::new();
    ondol_types::text::output(value, c.ty, &mut item);
    // There are no arrays of arrays, whose text this would be.
    ondol_types::array::of_values(TypeId::TEXT, &[Value::Text(item)])
}

/// What stands in pg_type of a type, one that users have defined among them.
pub fn facts(ty: TypeId) -> fixed::TypeFacts {
    if let Some(facts) = fixed::facts(ty.oid()) {
        return facts;
    }
    let base = Type::new(ty).base().id;
    let collation = fixed::facts(base.element().unwrap_or(base).oid()).map_or(0, |f| f.collation);
    if ty.is_array() {
        let (length, by_value, align, storage) = (-1, false, b'i', b'x');
        return fixed::TypeFacts { name: "", length, by_value, align, storage, collation };
    }
    if base.user().is_some_and(|u| u.is_composite()) {
        let (length, by_value, align, storage) = (-1, false, b'd', b'x');
        return fixed::TypeFacts { name: "", length, by_value, align, storage, collation: 0 };
    }
    match fixed::facts(base.oid()) {
        Some(facts) => facts,
        // An enum.
        None => {
            fixed::TypeFacts { name: "", length: 4, by_value: true, align: b'i', storage: b'p', collation: 0 }
        }
    }
}

/// The type that a column was declared with.
pub fn declared(c: &ColumnDef) -> Type {
    c.domain.map_or(c.ty, Type::new)
}

pub fn attributes(sight: &Sight<'_>, wanted: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    match wanted.number("attrelid") {
        Some(oid) => sight.relation(oid).map_or(Ok(()), |o| attributes_of(sight, &o, each)),
        None => sight.relations().try_for_each(|o| attributes_of(sight, &o, each)),
    }
}

/// The columns that PostgreSQL gives each table beside its own: their names, types, lengths, whether values
/// are passed as they are, and how they lie. Their numbers go down from -1.
const SYSTEM_COLUMNS: [(&str, u32, i16, bool, u8); 6] = [
    ("ctid", 27, 6, false, b's'),
    ("xmin", 28, 4, true, b'i'),
    ("cmin", 29, 4, true, b'i'),
    ("xmax", 28, 4, true, b'i'),
    ("cmax", 29, 4, true, b'i'),
    ("tableoid", 26, 4, true, b'i'),
];

fn system_attributes(relation: u32, each: Each<'_>) -> SqlResult<()> {
    SYSTEM_COLUMNS.iter().enumerate().try_for_each(|(n, (name, ty, length, by_value, align))| {
        each(&row![
            Oid(relation),
            Name(name),
            Oid(*ty),
            0,
            *length,
            -1 - small(n),
            0,
            -1,
            -1,
            *by_value,
            Char(*align),
            Char(b'p'),
            Char(0),
            true,
            false,
            false,
            Char(0),
            Char(0),
            false,
            true,
            0,
            Oid(0),
            Null,
            Null,
            Null,
            Null,
        ])
    })
}

fn attributes_of(sight: &Sight<'_>, object: &Object, each: Each<'_>) -> SqlResult<()> {
    let relation = Sight::oid(object);
    if matches!(object, Object::Table(_) | Object::Sequence(_)) {
        system_attributes(relation, each)?
    }
    if let Object::System(r) = object
        && !r.is_view
    {
        system_attributes(relation, each)?
    }
    match object {
        Object::Table(t) => (t.def.shown().iter().enumerate()).try_for_each(|(n, c)| {
            let (identity, generated) = match &c.generated {
                None => (0, 0),
                Some(Generated::Identity { always: true, .. }) => (b'a', 0),
                Some(Generated::Identity { always: false, .. }) => (b'd', 0),
                Some(Generated::Stored(_)) => (0, b's'),
            };
            let a = Attribute {
                not_null: c.not_null,
                has_default: c.default.is_some() || c.computed().is_some(),
                identity,
                generated,
                collation: c.collation.as_deref(),
                acl: role::list_of_column(sight, t.def.id, &c.name)?,
                ..Attribute::new(relation, n, &c.name, declared(c))
            };
            attribute_missing(&a, missing(c)?, each)
        }),
        Object::Index(t, n) => {
            let index = &t.def.indexes[*n];
            let all = index.keys().iter().map(|c| c.column).chain(index.options.include.iter().copied());
            let names = crate::bind::index::names(&t.def, index);
            all.zip(&names).enumerate().try_for_each(|(n, (column, name))| {
                let c = &t.def.columns[column];
                let collation = c.collation.as_deref();
                let a = Attribute { collation, ..Attribute::new(relation, n, name, declared(c)) };
                attribute(&a, each)
            })
        }
        Object::Sequence(_) => {
            let columns =
                [("last_value", TypeId::INT8), ("log_cnt", TypeId::INT8), ("is_called", TypeId::BOOL)];
            columns.iter().enumerate().try_for_each(|(n, (name, ty))| {
                let a = Attribute { not_null: true, ..Attribute::new(relation, n, name, Type::new(*ty)) };
                attribute(&a, each)
            })
        }
        Object::View(v) => v.columns.iter().enumerate().try_for_each(|(n, c)| {
            let (has_default, collation) = (c.default.is_some(), c.collation.as_deref());
            let acl = role::list_of_column(sight, v.id, &c.name)?;
            let base = Attribute::new(relation, n, &c.name, declared(c));
            let a = Attribute { has_default, collation, acl, ..base };
            attribute(&a, each)
        }),
        Object::Composite(u) => u
            .parts
            .iter()
            .enumerate()
            .try_for_each(|(n, p)| attribute(&Attribute::new(relation, n, &p.name, p.of()), each)),
        Object::System(r) => r.columns.iter().enumerate().try_for_each(|(n, c)| {
            let not_null = c.not_null;
            let a = Attribute { not_null, ..Attribute::new(relation, n, c.name, Type::new(c.ty)) };
            attribute(&a, each)
        }),
    }
}

/// The number of something of a table that has none of its own: of its part with the place.
pub fn part(table: &Table, place: usize) -> u32 {
    1 << 31 | table.def.id << 11 | (place as u32 & 0x7ff)
}

pub fn defaults(sight: &Sight<'_>, wanted: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    let of = |t: &Arc<Table>, each: Each<'_>| {
        let relation = Sight::oid(&Object::Table(t.clone()));
        (t.def.shown().iter().enumerate()).try_for_each(|(n, c)| {
            match c.default.as_deref().or(c.computed()) {
                Some(text) => each(&row![Oid(part(t, n)), Oid(relation), small(n + 1), node_tree(text)]),
                None => Ok(()),
            }
        })
    };
    match wanted.number("adrelid") {
        Some(oid) => sight.table(oid).map_or(Ok(()), |t| of(&t, each)),
        None => sight.tables().try_for_each(|t| of(t, each)),
    }
}

/// A function of PostgreSQL's, to stand in a row.
pub fn function(sight: &Sight<'_>, oid: u32) -> Value {
    named(sight, TypeId::REGPROC, oid)
}
