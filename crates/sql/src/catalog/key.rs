//! Indexes and constraints: pg_index, pg_constraint.

use super::describe::domain_text;
use super::rows::{Char, Each, Name, Null, Oid, Wanted, row, small};
use super::sight::{Object, Sight, oid_of, schema_oid};
use super::table::{facts, method, part};
use super::{FIRST_OID, fixed};
use crate::deparse::{DomainText, index};
use ondol_engine::{ForeignDef, IndexDef, KeyAction, Table};
use ondol_types::catalog::{node_tree, vector};
use ondol_types::user::domain;
use ondol_types::{SqlResult, TypeId, Value};
use std::sync::Arc;

/// PostgreSQL's number of a collation.
pub fn collation_number(name: &str) -> u32 {
    match name {
        "C" => 950,
        "POSIX" => 951,
        "ucs_basic" => 962,
        _ => 100,
    }
}

/// The first place of a table's checks among its parts, behind its columns.
const CHECKS: usize = 1600;

pub fn indexes(sight: &Sight<'_>, wanted: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    if let Some(oid) = wanted.number("indexrelid") {
        return match sight.relation(oid).as_ref().and_then(Object::index) {
            Some((t, i)) => index(sight, t, i, each),
            None => Ok(()),
        };
    }
    let of = |t: &Arc<Table>, each: Each<'_>| t.def.indexes.iter().try_for_each(|i| index(sight, t, i, each));
    match wanted.number("indrelid") {
        Some(oid) => sight.table(oid).map_or(Ok(()), |t| of(&t, each)),
        None => sight.tables().try_for_each(|t| of(t, each)),
    }
}

/// The number of a column in an index's lists; 0 of an expression.
fn number(t: &Table, column: usize) -> i16 {
    if t.def.columns[column].is_hidden() { 0 } else { small(column + 1) }
}

fn index(sight: &Sight<'_>, t: &Table, i: &IndexDef, each: Each<'_>) -> SqlResult<()> {
    let types: Vec<TypeId> = i.keys().iter().map(|c| t.def.columns[c.column].ty.id).collect();
    let all = i.keys().iter().map(|c| c.column).chain(i.options.include.iter().copied());
    let numbers: Vec<i16> = all.map(|c| number(t, c)).collect();
    let expressions: Vec<String> = (i.keys().iter().filter(|c| t.def.columns[c.column].is_hidden()))
        .map(|c| crate::bind::index::text_of(&t.def.columns[c.column]).to_string())
        .collect();
    let expressions = (!expressions.is_empty()).then(|| node_tree(&expressions.join(", ")));
    let predicate = index::predicate(sight.catalog, &t.def, i, false).map(|p| node_tree(&p));
    let form = |n: usize| i.options.forms.iter().find(|(place, _)| *place == n).map_or("", |f| f.1.as_str());
    let collation = |(n, ty): (usize, &TypeId)| {
        let said =
            form(n).strip_prefix(" COLLATE ").map(|f| f.split(' ').next().unwrap_or(f).trim_matches('"'));
        let own = t.def.columns[i.keys()[n].column].collation.as_deref();
        said.or(own).map_or(facts(*ty).collation, collation_number)
    };
    let collations: Vec<u32> = types.iter().enumerate().map(collation).collect();
    let class = |(n, ty): (usize, &TypeId)| {
        let named = form(n).rsplit(' ').next().filter(|c| c.ends_with("_ops"));
        let named = named.and_then(|c| fixed::operator_class_named(method(i.kind), c));
        named.unwrap_or_else(|| fixed::operator_class(method(i.kind), *ty))
    };
    let classes: Vec<u32> = types.iter().enumerate().map(class).collect();
    let options: Vec<i16> =
        i.keys().iter().map(|c| i16::from(c.desc) | i16::from(c.nulls_first) << 1).collect();
    each(&row![
        Oid(oid_of(i.id)),
        Oid(oid_of(t.def.id)),
        small(numbers.len()),
        small(i.keys().len()),
        i.unique && !i.options.exclusion,
        i.options.nulls_not_distinct,
        i.primary,
        i.options.exclusion,
        true,
        false,
        crate::bind::index::outdated(sight.catalog, &t.def, i).is_empty(),
        false,
        true,
        true,
        false,
        vector::int2s(&numbers)?,
        vector::oids(&collations)?,
        vector::oids(&classes)?,
        vector::int2s(&options)?,
        expressions.unwrap_or(Value::Null),
        predicate.unwrap_or(Value::Null),
    ])
}

/// A constraint, as pg_constraint has it.
pub struct Constraint<'a> {
    pub oid: u32,
    pub name: &'a str,
    pub schema: u32,
    pub kind: u8,
    pub validated: bool,
    pub table: u32,
    pub ty: u32,
    pub index: u32,
    pub no_inherit: bool,
    /// Numbers of columns from 1; none of a domain's.
    pub columns: Vec<i16>,
    pub check: Option<&'a str>,
    pub foreign: Option<&'a ForeignDef>,
    pub key: Option<&'a IndexDef>,
}

/// What the number of a constraint has beside that of its index.
const OF_INDEX: u32 = 1 << 27;

/// The number of the constraint that an index is of.
pub fn constraint_oid(index: u32) -> u32 {
    oid_of(index ^ OF_INDEX)
}

/// The constraints of a table.
pub fn constraints_of(t: &Table) -> Vec<Constraint<'_>> {
    let keys = t.def.indexes.iter().filter(|i| i.constraint || i.primary).map(|i| Constraint {
        oid: constraint_oid(i.id),
        name: &i.name,
        schema: schema_oid(t.def.schema),
        kind: match (i.primary, i.options.exclusion) {
            (true, _) => b'p',
            (_, true) => b'x',
            _ => b'u',
        },
        validated: true,
        table: oid_of(t.def.id),
        ty: 0,
        index: oid_of(i.id),
        no_inherit: true,
        columns: i.keys().iter().map(|c| number(t, c.column)).collect(),
        check: None,
        foreign: None,
        key: Some(i),
    });
    let checks = t.def.checks.iter().enumerate().map(|(n, c)| Constraint {
        oid: part(t, CHECKS + n),
        name: &c.name,
        schema: schema_oid(t.def.schema),
        kind: b'c',
        validated: c.validated,
        table: oid_of(t.def.id),
        ty: 0,
        index: 0,
        no_inherit: c.no_inherit,
        columns: columns_of(t, &c.text),
        check: Some(&c.text),
        foreign: None,
        key: None,
    });
    let foreign = t.foreign_keys().map(|f| Constraint {
        oid: oid_of(f.id),
        name: &f.name,
        schema: schema_oid(t.def.schema),
        kind: b'f',
        validated: f.validated,
        table: oid_of(t.def.id),
        ty: 0,
        index: oid_of(f.index),
        no_inherit: true,
        columns: f.columns.iter().map(|c| small(c + 1)).collect(),
        check: None,
        foreign: Some(f),
        key: None,
    });
    keys.chain(checks).chain(foreign).collect()
}

/// The columns that a condition names, from 1.
pub fn columns_of(t: &Table, condition: &str) -> Vec<i16> {
    use crate::parse::lexer::{TokenKind, Tokens};
    let mut found = Vec::new();
    for token in Tokens::new(condition) {
        let text = &condition[token.start..token.end];
        let name = match token.kind {
            TokenKind::Quoted => text.trim_matches('"').replace("\"\"", "\""),
            TokenKind::Word => text.to_lowercase(),
            _ => continue,
        };
        if let Some(n) = t.def.column(&name)
            && !found.contains(&small(n + 1))
        {
            found.push(small(n + 1));
        }
    }
    found.sort_unstable();
    found
}

/// The constraints of a domain; none of another type.
pub fn constraints_of_domain<'a>(sight: &Sight<'_>, ty: TypeId) -> Vec<Constraint<'a>> {
    let Some(user) = ty.user().filter(|u| u.kind == domain::CODE && !ty.is_array()) else {
        return Vec::new();
    };
    let check = |(n, c): (usize, &'static ondol_types::user::Part)| Constraint {
        oid: 3 << 30 | user.number << 11 | n as u32 & 0x7ff,
        name: &c.name,
        schema: sight.schema_of_type(ty),
        kind: b'c',
        validated: true,
        table: 0,
        ty: ty.oid(),
        index: 0,
        no_inherit: false,
        columns: Vec::new(),
        check: c.text.as_deref(),
        foreign: None,
        key: None,
    };
    user.parts.iter().enumerate().map(check).collect()
}

/// The constraint of a number, with its table if it is one's.
pub fn with_constraint<T>(
    sight: &Sight<'_>,
    oid: u32,
    f: impl FnOnce(Option<&Arc<Table>>, &Constraint<'_>) -> T,
) -> Option<T> {
    let index = oid.checked_sub(FIRST_OID).filter(|n| n & OF_INDEX != 0).map(|n| n ^ OF_INDEX);
    let of_index = index.and_then(|n| sight.catalog.index_by_id(n)).map(|(t, _)| t.clone());
    let table = of_index.or_else(|| {
        let number = (oid & 0x7fff_ffff) >> 11;
        let has_it = |t: &&Arc<Table>| t.foreign_keys().any(|f| oid_of(f.id) == oid);
        match oid >> 30 == 2 {
            true => sight.catalog.table_by_id(number).cloned(),
            false => sight.tables().find(has_it).cloned(),
        }
    });
    if let Some(t) = table {
        let all = constraints_of(&t);
        return all.iter().find(|c| c.oid == oid).map(|c| f(Some(&t), c));
    }
    let domains = sight.user_types().flat_map(|ty| constraints_of_domain(sight, ty));
    domains.into_iter().find(|c| c.oid == oid).map(|c| f(None, &c))
}

pub fn constraints(sight: &Sight<'_>, wanted: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    let of = |t: &Arc<Table>, each: Each<'_>| {
        constraints_of(t).iter().try_for_each(|c| constraint(sight, c, each))
    };
    let of_domain = |ty: TypeId, each: Each<'_>| {
        constraints_of_domain(sight, ty).iter().try_for_each(|c| constraint(sight, c, each))
    };
    if let Some(oid) = wanted.number("contypid").filter(|n| *n != 0) {
        return sight.ty(oid).map_or(Ok(()), |ty| of_domain(ty, each));
    }
    if let Some(oid) = wanted.number("conrelid").filter(|n| *n != 0) {
        return sight.table(oid).map_or(Ok(()), |t| of(&t, each));
    }
    sight.tables().try_for_each(|t| of(t, each))?;
    sight.user_types().try_for_each(|ty| of_domain(ty, each))
}

/// The columns that a foreign key names, in its order.
pub fn referenced(sight: &Sight<'_>, f: &ForeignDef) -> Vec<usize> {
    let parent = sight.catalog.table_by_id(f.table);
    let index = parent.and_then(|t| t.def.indexes.iter().find(|i| i.id == f.index));
    index.map_or(Vec::new(), |i| f.parts.iter().map(|p| i.columns[*p].column).collect())
}

fn constraint(sight: &Sight<'_>, c: &Constraint<'_>, each: Each<'_>) -> SqlResult<()> {
    let action = |a: KeyAction| match a {
        KeyAction::NoAction => b'a',
        KeyAction::Restrict => b'r',
        KeyAction::Cascade => b'c',
        KeyAction::SetNull => b'n',
        KeyAction::SetDefault => b'd',
    };
    let f = c.foreign;
    let numbers = |columns: &[usize]| int2s(&columns.iter().map(|c| small(c + 1)).collect::<Vec<_>>());
    let (named, set) = match f {
        Some(f) if f.set.is_empty() => (numbers(&referenced(sight, f))?, Value::Null),
        Some(f) => (numbers(&referenced(sight, f))?, numbers(&f.set)?),
        None => (Value::Null, Value::Null),
    };
    let columns = match &c.columns[..] {
        [] if c.table == 0 => Value::Null,
        columns => int2s(columns)?,
    };
    // That of a table is shown as it should be by who reads it.
    let condition = c.check.map(|text| {
        let domain = sight.ty(c.ty).and_then(|t| t.user());
        let shown = domain.and_then(|d| domain_text(sight, d, DomainText::Condition(text), false));
        shown.unwrap_or_else(|| text.to_string())
    });
    each(&row![
        Oid(c.oid),
        Name(c.name),
        Oid(c.schema),
        Char(c.kind),
        f.is_some_and(|f| f.deferrable),
        f.is_some_and(|f| f.deferred),
        c.validated,
        Oid(c.table),
        Oid(c.ty),
        Oid(c.index),
        Oid(0),
        Oid(f.map_or(0, |f| oid_of(f.table))),
        Char(f.map_or(b' ', |f| action(f.on_update))),
        Char(f.map_or(b' ', |f| action(f.on_delete))),
        Char(f.map_or(b' ', |f| if f.full { b'f' } else { b's' })),
        true,
        0,
        c.no_inherit,
        columns,
        named,
        Null,
        Null,
        Null,
        set,
        Null,
        condition.as_deref().map(node_tree),
    ])
}

/// An array of smallints.
fn int2s(numbers: &[i16]) -> SqlResult<Value> {
    let items: Vec<Value> = numbers.iter().map(|n| Value::Int2(*n)).collect();
    ondol_types::array::of_values(TypeId::INT2, &items)
}
