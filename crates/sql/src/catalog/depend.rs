//! What depends on what, and what is said of it: pg_depend, pg_rewrite, pg_description.

use super::key::{constraint_oid, constraints_of, constraints_of_domain, referenced};
use super::rows::{Char, Each, Name, Oid, Wanted, row};
use super::sight::{Object, Sight, oid_of, schema_oid};
use super::table::part;
use crate::bind::sequence::sequences_of;
use ondol_engine::view::{Slot, slots};
use ondol_engine::{CommentKind, Commented, Table, ViewDef, schema_id};
use ondol_types::catalog::node_tree;
use ondol_types::user::composite;
use ondol_types::{SqlResult, TypeId};
use std::sync::Arc;

const PG_TYPE: u32 = 1247;
const PG_PROC: u32 = 1255;
const PG_CLASS: u32 = 1259;
const PG_ATTRDEF: u32 = 2604;
const PG_CONSTRAINT: u32 = 2606;
const PG_NAMESPACE: u32 = 2615;
const PG_REWRITE: u32 = 2618;

/// The number of the rule that a view is.
pub fn rule_oid(view: u32) -> u32 {
    1 << 31 | view << 11 | 0x7ff
}

/// A thing: the catalogue that has it, its number there, and which column of it.
type Thing = (u32, u32, i32);

/// The columns that a text over a table's columns names, from 1.
fn numbers(columns: &[i16], of: u32) -> Vec<Thing> {
    columns.iter().map(|n| (PG_CLASS, of, i32::from(*n))).collect()
}

pub fn dependencies(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    let mut tell = |(class, id, sub): Thing, on: Thing, kind: u8| {
        each(&row![Oid(class), Oid(id), sub, Oid(on.0), Oid(on.1), on.2, Char(kind)])
    };
    for o in sight.relations() {
        let own = (PG_CLASS, Sight::oid(&o), 0);
        // Indexes are where their tables are, and PostgreSQL's own depend on nothing.
        if !matches!(o, Object::Index(..) | Object::System(_) | Object::Composite(_)) {
            tell(own, (PG_NAMESPACE, o.schema(), 0), b'n')?
        }
        // The type of a relation's rows goes with it, and a composite type's relation with the type.
        let rows = match &o {
            Object::Table(t) => Some(t.def.id),
            Object::View(v) => Some(v.id),
            _ => None,
        };
        if let Some(id) = rows {
            let [item, array] = [composite::type_of_rows(id), composite::array_of_rows(id)].map(oid_of);
            tell((PG_TYPE, item, 0), own, b'i')?;
            tell((PG_TYPE, array, 0), (PG_TYPE, item, 0), b'i')?
        }
        if let Object::Composite(u) = &o {
            tell(own, (PG_TYPE, oid_of(u.number), 0), b'i')?
        }
        if let Object::Table(t) = &o {
            of_table(sight, t, &mut tell)?
        }
    }
    for v in sight.catalog.queries() {
        of_view(sight, v, &mut tell)?
    }
    for f in sight.catalog.functions.values() {
        tell((PG_PROC, oid_of(f.id), 0), (PG_NAMESPACE, schema_oid(f.schema), 0), b'n')?;
        for ty in f.arg_types().filter(|t| t.is_user()) {
            tell((PG_PROC, oid_of(f.id), 0), (PG_TYPE, ty.oid(), 0), b'n')?
        }
    }
    for ty in sight.user_types() {
        let own = (PG_TYPE, ty.oid(), 0);
        match ty.element() {
            Some(of) if ty.is_array() => tell(own, (PG_TYPE, of.oid(), 0), b'i')?,
            _ => tell(own, (PG_NAMESPACE, sight.schema_of_type(ty), 0), b'n')?,
        }
        for c in constraints_of_domain(sight, ty) {
            tell((PG_CONSTRAINT, c.oid, 0), own, b'a')?
        }
    }
    Ok(())
}

fn of_table(
    sight: &Sight<'_>,
    t: &Arc<Table>,
    tell: &mut dyn FnMut(Thing, Thing, u8) -> SqlResult<()>,
) -> SqlResult<()> {
    let own = oid_of(t.def.id);
    for (n, c) in t.def.shown().iter().enumerate() {
        let column = (PG_CLASS, own, n as i32 + 1);
        if let Some(ty) = Some(super::table::declared(c).id).filter(|t| t.is_user()) {
            tell(column, (PG_TYPE, ty.oid(), 0), b'n')?
        }
        // A sequence goes with the column that owns it, or whose identity it is.
        for id in c.sequences() {
            let kind = if c.identity() == Some(id) { b'i' } else { b'a' };
            tell((PG_CLASS, oid_of(id), 0), column, kind)?
        }
        let value = (PG_ATTRDEF, part(t, n), 0);
        if let Some(text) = c.computed() {
            for on in numbers(&super::key::columns_of(t, text), own) {
                tell(value, on, b'n')?
            }
            tell(value, column, b'i')?
        } else if c.default.is_some() {
            tell(value, column, b'a')?;
            for id in sequences_of(sight.catalog, c) {
                tell(value, (PG_CLASS, oid_of(id), 0), b'n')?
            }
        }
    }
    for i in &t.def.indexes {
        let index = (PG_CLASS, oid_of(i.id), 0);
        if i.constraint || i.primary {
            tell(index, (PG_CONSTRAINT, constraint_oid(i.id), 0), b'i')?;
            continue;
        }
        let mut on: Vec<Thing> = Vec::new();
        for place in i.all_columns() {
            let column = &t.def.columns[place];
            on.extend(match column.computed().filter(|_| column.is_hidden()) {
                Some(text) => numbers(&super::key::columns_of(t, text), own),
                None => vec![(PG_CLASS, own, place as i32 + 1)],
            })
        }
        on.sort_unstable();
        on.dedup();
        on.into_iter().try_for_each(|column| tell(index, column, b'a'))?
    }
    for c in constraints_of(t) {
        let constraint = (PG_CONSTRAINT, c.oid, 0);
        for on in numbers(&c.columns, own) {
            tell(constraint, on, b'a')?;
            if c.check.is_some() {
                tell(constraint, on, b'n')?
            }
        }
        let Some(f) = c.foreign else { continue };
        for column in referenced(sight, f) {
            tell(constraint, (PG_CLASS, oid_of(f.table), column as i32 + 1), b'n')?
        }
        tell(constraint, (PG_CLASS, oid_of(f.index), 0), b'n')?
    }
    Ok(())
}

fn of_view(
    sight: &Sight<'_>,
    v: &ViewDef,
    tell: &mut dyn FnMut(Thing, Thing, u8) -> SqlResult<()>,
) -> SqlResult<()> {
    let (own, rule) = ((PG_CLASS, oid_of(v.id), 0), (PG_REWRITE, rule_oid(v.id), 0));
    tell(rule, own, b'i')?;
    tell(rule, own, b'n')?;
    // Of a materialised view, the table has said so.
    for (n, c) in v.columns.iter().enumerate().filter(|_| sight.catalog.views.contains_key(&v.id)) {
        if let Some(ty) = Some(super::table::declared(c).id).filter(|t| t.is_user()) {
            tell((PG_CLASS, oid_of(v.id), n as i32 + 1), (PG_TYPE, ty.oid(), 0), b'n')?
        }
    }
    let named = slots(&v.query);
    for slot in &named {
        let on = match *slot {
            Slot::Column { relation, column } => (PG_CLASS, oid_of(relation), column as i32 + 1),
            Slot::Relation(n) => {
                // Of what has columns named these alone are told.
                let by_column = |s: &Slot| matches!(s, Slot::Column { relation, .. } if *relation == n);
                if named.iter().any(by_column) {
                    continue;
                }
                (PG_CLASS, oid_of(n), 0)
            }
            Slot::Function(n) => (PG_PROC, oid_of(n), 0),
            Slot::Type(n) => {
                let is_it = |t: &TypeId| t.user().is_some_and(|u| u.number == n) && !t.is_array();
                match sight.user_types().find(is_it) {
                    Some(ty) => (PG_TYPE, ty.oid(), 0),
                    None => continue,
                }
            }
        };
        tell(rule, on, b'n')?
    }
    Ok(())
}

pub fn rules(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    for v in sight.catalog.queries() {
        each(&row![
            Oid(rule_oid(v.id)),
            Name("_RETURN"),
            Oid(oid_of(v.id)),
            Char(b'1'),
            Char(b'O'),
            true,
            node_tree("<>"),
            node_tree(&v.query),
        ])?
    }
    Ok(())
}

/// What a comment is on.
fn commented(sight: &Sight<'_>, on: &Commented) -> Option<Thing> {
    let oid = oid_of(on.id);
    Some(match on.kind {
        CommentKind::Relation => (PG_CLASS, oid, 0),
        CommentKind::Function => (PG_PROC, oid, 0),
        CommentKind::Type => (PG_TYPE, oid, 0),
        CommentKind::Schema => {
            let is_it = |s: &&ondol_engine::SchemaDef| schema_id(s.number) == on.id;
            (PG_NAMESPACE, schema_oid(sight.catalog.schemas.values().find(is_it)?.number), 0)
        }
        CommentKind::Column => {
            let place = match sight.relation(oid)? {
                Object::Table(t) => t.def.column(&on.part),
                Object::View(v) => v.column(&on.part),
                _ => None,
            };
            (PG_CLASS, oid, place? as i32 + 1)
        }
        CommentKind::Constraint => {
            let table = sight.table(oid)?;
            let all = constraints_of(&table);
            (PG_CONSTRAINT, all.iter().find(|c| c.name == on.part)?.oid, 0)
        }
        CommentKind::TypeConstraint => {
            let ty = sight.user_types().find(|t| t.oid() == oid)?;
            let all = constraints_of_domain(sight, ty);
            (PG_CONSTRAINT, all.iter().find(|c| c.name == on.part)?.oid, 0)
        }
    })
}

pub fn descriptions(sight: &Sight<'_>, _: &Wanted<'_>, each: Each<'_>) -> SqlResult<()> {
    for (on, text) in &sight.catalog.comments {
        if let Some((class, id, column)) = commented(sight, on) {
            each(&row![Oid(id), Oid(class), column, &**text])?
        }
    }
    Ok(())
}

/// The comment on a constraint or a schema of that number.
pub fn other_comment(sight: &Sight<'_>, oid: u32) -> Option<String> {
    let others = sight.catalog.comments.iter().filter(|(on, _)| {
        matches!(on.kind, CommentKind::Constraint | CommentKind::TypeConstraint | CommentKind::Schema)
    });
    let mut found = others.filter(|(on, _)| commented(sight, on).is_some_and(|c| c.1 == oid));
    found.next().map(|(_, text)| text.to_string())
}
