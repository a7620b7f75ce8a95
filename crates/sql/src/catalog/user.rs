//! Types that users have defined: pg_type, pg_enum.

use super::rows::{Char, Each, Name, Null, Oid, Wanted, row};
use super::sight::{Sight, oid_of, schema_oid};
use super::table::{facts, function};
use super::{FIRST_OID, fixed};
use crate::deparse::DomainText;
use ondol_types::catalog::node_tree;
use ondol_types::user::{composite, domain, enumeration};
use ondol_types::{SqlResult, Type, TypeId, Value};

/// The number of a function of PostgreSQL's by its name.
fn numbered(name: &str) -> u32 {
    fixed::functions().iter().find(|f| f.name == name).map_or(0, |f| f.oid)
}

pub fn types(sight: &Sight<'_>, wanted: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    sight.user_types().try_for_each(|ty| user_type(sight, ty, each))?;
    // Those of relations' rows, which are not made for this.
    let relation = |number: u32, schema: u32, name: &str, each: Each<'_>| {
        let (item, array) =
            (oid_of(composite::type_of_rows(number)), oid_of(composite::array_of_rows(number)));
        let of_arrays = sight.catalog.array_name(&ondol_engine::Name::new(schema, name));
        let schema = schema_oid(schema);
        let owner = sight.catalog.owner(number);
        let row = RowType { oid: item, array, relation: oid_of(number), schema, owner };
        composite_row(sight, name, &row, each)?;
        array_row(sight, &of_arrays, array, item, (schema, owner), each)
    };
    if let Some(oid) = wanted.number("oid") {
        let Some((number, _)) = oid.checked_sub(FIRST_OID).and_then(composite::table_of) else {
            return Ok(());
        };
        if let Some(t) = sight.catalog.table_by_id(number) {
            return relation(number, t.def.schema, &t.def.name, each);
        }
        let view = sight.catalog.view_by_id(number);
        return view.map_or(Ok(()), |v| relation(number, v.schema, &v.name, each));
    }
    sight.tables().try_for_each(|t| relation(t.def.id, t.def.schema, &t.def.name, each))?;
    sight.catalog.views.values().try_for_each(|v| relation(v.id, v.schema, &v.name, each))
}

/// What pg_type says of a type of rows.
struct RowType {
    oid: u32,
    array: u32,
    relation: u32,
    schema: u32,
    owner: u32,
}

fn composite_row(sight: &Sight<'_>, name: &str, t: &RowType, each: Each<'_>) -> SqlResult<()> {
    let names = ["record_in", "record_out", "record_recv", "record_send"].map(numbered);
    let kind =
        Kind { code: b'c', category: b'C', relation: t.relation, element: 0, array: t.array, owner: t.owner };
    plain_row(sight, name, t.oid, t.schema, &kind, names, b'd', each)
}

fn array_row(
    sight: &Sight<'_>,
    name: &str,
    oid: u32,
    element: u32,
    (schema, owner): (u32, u32),
    each: Each<'_>,
) -> SqlResult<()> {
    let names = ["array_in", "array_out", "array_recv", "array_send"].map(numbered);
    let kind = Kind { code: b'b', category: b'A', relation: 0, element, array: 0, owner };
    plain_row(sight, name, oid, schema, &kind, names, b'd', each)
}

struct Kind {
    code: u8,
    category: u8,
    relation: u32,
    element: u32,
    array: u32,
    owner: u32,
}

#[allow(clippy::too_many_arguments)] // what is the same in both kinds of rows
fn plain_row(
    sight: &Sight<'_>,
    name: &str,
    oid: u32,
    schema: u32,
    kind: &Kind,
    names: [u32; 4],
    align: u8,
    each: Each<'_>,
) -> SqlResult<()> {
    let [input, output, receive, send] = names.map(|n| function(sight, n));
    let is_array = kind.code == b'b';
    each(&row![
        Oid(oid),
        Name(name),
        Oid(schema),
        Oid(kind.owner),
        small_length(),
        false,
        Char(kind.code),
        Char(kind.category),
        false,
        true,
        Char(b','),
        Oid(kind.relation),
        function(sight, if is_array { numbered("array_subscript_handler") } else { 0 }),
        Oid(kind.element),
        Oid(kind.array),
        input,
        output,
        receive,
        send,
        function(sight, 0),
        function(sight, 0),
        function(sight, if is_array { numbered("array_typanalyze") } else { 0 }),
        Char(align),
        Char(b'x'),
        false,
        Oid(0),
        -1,
        0,
        Oid(0),
        Null,
        Null,
        Null,
    ])
}

/// That of values of different lengths.
fn small_length() -> i16 {
    -1
}

fn user_type(sight: &Sight<'_>, ty: TypeId, each: Each<'_>) -> SqlResult<()> {
    let Some(user) = ty.user() else { return Ok(()) };
    let of_arrays = || sight.catalog.array_name(&ondol_engine::Name::new(user.schema, &*user.name));
    if user.is_composite() {
        let (item, schema) = (oid_of(user.number), sight.schema_of_type(ty));
        let owner = sight.catalog.owner(user.number);
        return match ty.is_array() {
            true => array_row(sight, &of_arrays(), ty.oid(), item, (schema, owner), each),
            false => {
                let array = ty.array().map_or(0, TypeId::oid);
                let relation = oid_of(composite::class_of(user.number));
                let row = RowType { oid: item, array, relation, schema, owner };
                composite_row(sight, &user.name, &row, each)
            }
        };
    }
    let f = facts(ty);
    let is_domain = user.kind == domain::CODE && !ty.is_array();
    let is_enum = user.kind == enumeration::CODE && !ty.is_array();
    let base = user.base.filter(|_| is_domain);
    let names = if ty.is_array() {
        ["array_in", "array_out", "array_recv", "array_send"].map(numbered)
    } else if is_enum {
        ["enum_in", "enum_out", "enum_recv", "enum_send"].map(numbered)
    } else {
        // A domain is written as what it is made of.
        let of_base = base.map_or(TypeId::TEXT, |b| b.base().id).oid();
        let output = fixed_number(of_base, "typoutput");
        let send = fixed_number(of_base, "typsend");
        [numbered("domain_in"), output, numbered("domain_recv"), send]
    };
    let [input, output, receive, send] = names.map(|n| function(sight, n));
    let (kind, category) = match ty.is_array() {
        true => (b'b', b'A'),
        false if is_domain => (b'd', category(base.map_or(TypeId::TEXT, |b| b.base().id))),
        false if is_enum => (b'e', b'E'),
        false => (b'b', b'U'),
    };
    let name = if ty.is_array() { of_arrays() } else { user.name.clone() };
    let inherited = || user.domains().find_map(|d| d.default.as_deref());
    let default = inherited().filter(|_| is_domain).map(|text| {
        let shown = super::describe::domain_text(sight, user, DomainText::Default(text), false);
        shown.unwrap_or_else(|| text.to_string())
    });
    let subscript = if ty.is_array() { numbered("array_subscript_handler") } else { 0 };
    let analyze = if ty.is_array() { numbered("array_typanalyze") } else { 0 };
    each(&row![
        Oid(ty.oid()),
        Name(&name),
        Oid(sight.schema_of_type(ty)),
        Oid(sight.catalog.owner(user.number)),
        f.length,
        f.by_value,
        Char(kind),
        Char(category),
        false,
        true,
        Char(b','),
        Oid(0),
        function(sight, subscript),
        Oid(ty.element().map_or(0, TypeId::oid)),
        Oid(ty.array().map_or(0, TypeId::oid)),
        input,
        output,
        receive,
        send,
        function(sight, 0),
        function(sight, 0),
        function(sight, analyze),
        Char(f.align),
        Char(f.storage),
        is_domain && user.not_null,
        Oid(base.map_or(0, |b| b.id.oid())),
        base.map_or(-1, |b| b.typmod),
        base.map_or(0, |b| i32::from(b.id.is_array())),
        Oid(f.collation),
        default.as_deref().map(node_tree),
        default.as_deref(),
        if ty.is_array() { Value::Null } else { super::role::list_of(sight, user.number)? },
    ])
}

/// A number in a column of the fixed row of a type.
fn fixed_number(ty: u32, column: &str) -> u32 {
    let Some(place) = super::relation::by_key("pg_type").and_then(|r| r.column(column)) else { return 0 };
    let number = |v: &Value| match v {
        Value::Opaque(_, b) => b.first_chunk().map_or(0, |b| u32::from_le_bytes(*b)),
        _ => 0,
    };
    let is_it = |row: &&Vec<Value>| row.first().is_some_and(|v| number(v) == ty);
    fixed::rows("pg_type").iter().find(is_it).and_then(|row| row.get(place)).map_or(0, number)
}

/// The category of a type, as pg_type has it.
fn category(ty: TypeId) -> u8 {
    use ondol_types::ty::Category;
    match Type::new(ty).base().id.category() {
        Category::Boolean => b'B',
        Category::Numeric => b'N',
        Category::String => b'S',
        Category::DateTime => b'D',
        Category::Timespan => b'T',
        Category::Array => b'A',
        Category::Composite => b'C',
        Category::Enum => b'E',
        Category::User => b'U',
        Category::Internal => b'Z',
        Category::Unknown => b'X',
        Category::Pseudo => b'P',
    }
}

pub fn labels(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    for ty in sight.user_types().filter(|t| !t.is_array()) {
        let Some(user) = ty.user().filter(|u| u.kind == enumeration::CODE) else { continue };
        for (n, label) in user.parts.iter().enumerate() {
            let oid = FIRST_OID | 1 << 31 | user.number << 11 | (n as u32 & 0x7ff);
            each(&row![Oid(oid), Oid(ty.oid()), enumeration::order_of(label), Name(&label.name)])?;
        }
    }
    Ok(())
}
