//! What each definition claims, by what the dictionary says (definers/G2, definers/G3).
use super::{Claim, Thing};
use crate::catalog::{Catalog, CheckDef, ColumnDef, FunctionDef, IndexDef, Returns, TableDef};
use crate::define::functions_of;
use ondol_types::TypeId;
use ondol_types::user::UserDef;
use std::collections::BTreeSet;

/// A name, or what has it, for the transaction alone.
pub fn name(name: &str) -> Claim {
    Claim { thing: Thing::Name(name.to_string()), alone: true }
}

fn stay(table: &str, alone: bool) -> Claim {
    Claim { thing: Thing::Stay(table.to_string()), alone }
}

fn signature(f: &FunctionDef) -> Claim {
    let args: Vec<&str> = f.args.iter().map(|a| a.1.id.name()).collect();
    Claim { thing: Thing::Function(format!("{}({})", f.name, args.join(","))), alone: true }
}

/// Types that users define are rested on.
fn types(of: impl IntoIterator<Item = TypeId>, claims: &mut Vec<Claim>) {
    for user in of.into_iter().filter_map(|t| t.user()) {
        claims.push(Claim { thing: Thing::Name(user.name.clone()), alone: false })
    }
}

/// Types and functions whose names stand in a text: more than it means, perhaps.
fn named_in<'a>(c: &Catalog, texts: impl IntoIterator<Item = &'a String>, claims: &mut Vec<Claim>) {
    for text in texts.into_iter().map(|t| t.to_lowercase()) {
        let named = c.types.keys().filter(|n| text.contains(&n.to_lowercase()));
        claims.extend(named.map(|n| Claim { thing: Thing::Name(n.clone()), alone: false }));
        let called = c.functions.values().filter(|f| text.contains(&f.name.to_lowercase()));
        claims.extend(called.map(|f| Claim { alone: false, ..signature(f) }))
    }
}

pub fn create_table(c: &Catalog, table: &str, columns: &[ColumnDef]) -> Vec<Claim> {
    let mut claims = vec![name(table)];
    types(columns.iter().map(|c| c.domain.unwrap_or(c.ty.id)), &mut claims);
    named_in(c, columns.iter().filter_map(|c| c.default.as_ref()), &mut claims);
    claims
}

/// What its checks name is rested on as well.
pub fn create_checked_table(
    c: &Catalog,
    table: &str,
    columns: &[ColumnDef],
    checks: &[CheckDef],
) -> Vec<Claim> {
    let mut claims = create_table(c, table, columns);
    named_in(c, checks.iter().map(|c| &c.text), &mut claims);
    claims
}

/// The table's definition is changed, or its rows are removed.
pub fn change_table(c: &Catalog, table: &str) -> Vec<Claim> {
    c.table(table).map(|_| name(table)).into_iter().collect()
}

/// `def` takes the place of the table: what has its name has another then, or is made anew.
pub fn redefine_table(c: &Catalog, table: &str, def: &TableDef) -> Vec<Claim> {
    let Some(old) = c.table(table) else { return vec![] };
    let mut claims = vec![name(table)];
    let renamed = def.name != table;
    if renamed {
        claims.extend([name(&def.name), stay(table, true), stay(&def.name, true)])
    }
    // Indexes stand under their table's name.
    let differs = |i: &&IndexDef| renamed || !old.def.indexes.contains(i) || !def.indexes.contains(i);
    claims.extend(old.def.indexes.iter().chain(&def.indexes).filter(differs).map(|i| name(&i.name)));
    // What a function that returns its rows was declared with.
    let rows = |d: &TableDef| d.columns.iter().map(|c| (c.name.clone(), c.ty)).collect::<Vec<_>>();
    if rows(&old.def) != rows(def) {
        claims.push(stay(table, true))
    }
    let functions = functions_of(c, table, def);
    claims.extend(functions.iter().map(signature));
    let is_new = |d: &&ColumnDef| !old.def.columns.contains(d);
    types(def.columns.iter().filter(is_new).map(|c| c.domain.unwrap_or(c.ty.id)), &mut claims);
    named_in(c, def.columns.iter().filter(is_new).filter_map(|c| c.default.as_ref()), &mut claims);
    let checks = def.checks.iter().filter(|c| !old.def.checks.contains(c));
    named_in(c, checks.map(|c| &c.text), &mut claims);
    claims
}

pub fn drop_table(c: &Catalog, table: &str) -> Vec<Claim> {
    let Some(t) = c.table(table) else { return vec![] };
    let indexes = t.def.indexes.iter().map(|i| name(&i.name));
    [name(table), stay(table, true)].into_iter().chain(indexes).collect()
}

pub fn create_index(c: &Catalog, table: &str, index: &str) -> Vec<Claim> {
    let mut claims = change_table(c, table);
    claims.push(name(index));
    claims
}

pub fn drop_index(c: &Catalog, index: &str) -> Vec<Claim> {
    c.indexes.get(index).map_or(vec![], |table| vec![name(table), name(index)])
}

pub fn create_function(f: &FunctionDef) -> Vec<Claim> {
    let mut claims = vec![signature(f)];
    types(types_of(f), &mut claims);
    if let Returns::Rows { of: Some(table), .. } = &f.returns {
        claims.push(stay(table, false))
    }
    claims
}

fn types_of(f: &FunctionDef) -> Vec<TypeId> {
    let mut types: Vec<TypeId> = f.args.iter().map(|a| a.1.id).collect();
    match &f.returns {
        Returns::Void => {}
        Returns::Scalar { ty, .. } => types.push(ty.id),
        Returns::Rows { columns, .. } => types.extend(columns.iter().map(|c| c.1.id)),
    }
    types
}

pub fn drop_function(c: &Catalog, id: u32) -> Vec<Claim> {
    c.functions.get(&id).map(|f| signature(f)).into_iter().collect()
}

pub fn create_type(c: &Catalog, def: &UserDef) -> Vec<Claim> {
    let mut claims = vec![name(&def.name)];
    types(def.base.map(|b| b.id), &mut claims);
    let texts = def.parts.iter().filter_map(|p| p.text.as_ref()).chain(&def.default);
    named_in(c, texts, &mut claims);
    claims
}

/// `def` takes the place of the type: all that is made of it is made anew.
pub fn replace_type(c: &Catalog, old: &str, def: &UserDef) -> Vec<Claim> {
    let Some(ty) = c.types.get(old).copied() else { return vec![] };
    let mut claims = vec![name(old)];
    claims.extend(create_type(c, def));
    let mut reached: BTreeSet<TypeId> = [Some(ty), ty.array()].into_iter().flatten().collect();
    let mut all: Vec<TypeId> = c.types.values().copied().collect();
    // A type is made of earlier ones.
    all.sort_by_key(|t| t.user().map_or(0, |u| u.number));
    for t in all {
        let Some(user) = t.user() else { continue };
        if user.base.is_some_and(|b| reached.contains(&b.id)) {
            reached.extend([Some(t), t.array()].into_iter().flatten());
            claims.push(name(&user.name))
        }
    }
    for t in c.tables.values() {
        let is_reached =
            |c: &ColumnDef| reached.contains(&c.ty.id) || c.domain.is_some_and(|d| reached.contains(&d));
        if t.def.columns.iter().any(is_reached) {
            claims.push(name(&t.def.name))
        }
    }
    let reached = |f: &&FunctionDef| types_of(f).iter().any(|t| reached.contains(t));
    claims.extend(c.functions.values().map(|f| &**f).filter(reached).map(signature));
    claims
}

pub fn drop_type(c: &Catalog, ty: &str) -> Vec<Claim> {
    c.types.get(ty).map(|_| name(ty)).into_iter().collect()
}
