//! What each definition claims, by what the dictionary says (definers/G2, definers/G3).
use super::{Claim, Thing};
use crate::catalog::{
    Catalog, CheckDef, ColumnDef, ForeignDef, FunctionDef, Generated, IndexDef, Returns, TableDef,
};
use crate::define::{functions_of, unvalidated};
use crate::name::Name;
use crate::settings::Scope;
use crate::view::{Slot, ViewDef, slots};
use ondol_types::TypeId;
use ondol_types::user::{UserDef, in_order};
use std::collections::BTreeSet;

/// A name, or what has it, for the transaction alone.
pub fn name(name: impl Into<Name>) -> Claim {
    Claim { thing: Thing::Name(name.into()), alone: true }
}

fn stay(table: &Name, alone: bool) -> Claim {
    Claim { thing: Thing::Stay(table.clone()), alone }
}

/// That something is made there.
fn within(schema: u32) -> Claim {
    Claim { thing: Thing::Schema(schema), alone: false }
}

fn schema_name(name: &str) -> Claim {
    Claim { thing: Thing::SchemaName(name.to_string()), alone: true }
}

/// A role, by its name; or that it stays what it is.
pub fn role(name: &str, alone: bool) -> Claim {
    Claim { thing: Thing::Role(name.to_string()), alone }
}

/// What sessions of a role, or of everybody, begin with.
pub fn settings(c: &Catalog, scope: Scope) -> Vec<Claim> {
    match c.role(scope.role) {
        Some(r) => vec![role(&r.name, true)],
        None => vec![database()],
    }
}

/// The rights of the database.
pub fn database() -> Claim {
    // No role has this name.
    role("", true)
}

pub fn create_schema(name: &str) -> Vec<Claim> {
    vec![schema_name(name)]
}

/// It gets another name, or goes.
pub fn change_schema(c: &Catalog, name: &str) -> Vec<Claim> {
    let stays = c.schema(name).map(|s| Claim { thing: Thing::Schema(s.number), alone: true });
    [Some(schema_name(name)), stays].into_iter().flatten().collect()
}

fn signature(f: &FunctionDef) -> Claim {
    let args: Vec<&str> = f.arg_types().map(|t| t.name()).collect();
    Claim { thing: Thing::Function(f.schema, format!("{}({})", f.name, args.join(","))), alone: true }
}

/// Types that users define are rested on.
fn types(of: impl IntoIterator<Item = TypeId>, claims: &mut Vec<Claim>) {
    for user in of.into_iter().filter_map(|t| t.user()) {
        claims.push(Claim { thing: Thing::Name(Name::new(user.schema, &*user.name)), alone: false })
    }
}

/// Schemas, types, sequences and functions whose names stand in a text: more than it means, perhaps.
fn named_in<'a>(c: &Catalog, texts: impl IntoIterator<Item = &'a String>, claims: &mut Vec<Claim>) {
    for text in texts.into_iter().map(|t| t.to_lowercase()) {
        let schemas = c.schemas.iter().filter(|(n, _)| text.contains(&n.to_lowercase()));
        claims.extend(schemas.map(|(_, s)| within(s.number)));
        let named = c.types.keys().filter(|n| text.contains(&n.name.to_lowercase()));
        claims.extend(named.map(|n| Claim { thing: Thing::Name(n.clone()), alone: false }));
        let numbered = c.sequences().filter(|s| text.contains(&s.def.name.to_lowercase()));
        claims.extend(numbered.map(|s| Claim { thing: Thing::Name(s.def.full_name()), alone: false }));
        let called = c.functions.values().filter(|f| text.contains(&f.name.to_lowercase()));
        claims.extend(called.map(|f| Claim { alone: false, ..signature(f) }))
    }
}

/// What a column's values come from where a statement gives none.
fn texts(c: &ColumnDef) -> impl Iterator<Item = &String> {
    let computed = match &c.generated {
        Some(Generated::Stored(text)) => Some(text),
        _ => None,
    };
    c.default.iter().chain(computed)
}

pub fn create_table(c: &Catalog, table: impl Into<Name>, columns: &[ColumnDef]) -> Vec<Claim> {
    let table = table.into();
    let mut claims = vec![within(table.schema), name(table)];
    types(columns.iter().map(|c| c.domain.unwrap_or(c.ty.id)), &mut claims);
    named_in(c, columns.iter().flat_map(texts), &mut claims);
    claims
}

/// What its checks name is rested on as well.
pub fn create_checked_table(
    c: &Catalog,
    table: impl Into<Name>,
    columns: &[ColumnDef],
    checks: &[CheckDef],
) -> Vec<Claim> {
    let mut claims = create_table(c, table, columns);
    named_in(c, checks.iter().map(|c| &c.text), &mut claims);
    claims
}

/// The sequences of those numbers.
fn sequences<'a>(c: &'a Catalog, of: impl Iterator<Item = u32> + 'a) -> impl Iterator<Item = Claim> + 'a {
    of.filter_map(|s| c.sequence_by_id(s)).map(|s| name(s.def.full_name()))
}

/// Its rows are removed, and perhaps its sequences begin again.
pub fn truncate(c: &Catalog, table: &Name, restart: bool) -> Vec<Claim> {
    let mut claims = change_table(c, table);
    if let Some(t) = c.table(table).filter(|_| restart) {
        claims.extend(sequences(c, t.def.sequences()))
    }
    claims
}

/// The table's definition is changed, or its rows are removed.
pub fn change_table(c: &Catalog, table: impl Into<Name>) -> Vec<Claim> {
    let table = table.into();
    c.table(&table).map(|_| name(&table)).into_iter().collect()
}

/// The table is locked, by this transaction alone or with others.
pub fn lock_table(c: &Catalog, table: &Name, alone: bool) -> Vec<Claim> {
    change_table(c, table).into_iter().map(|claim| Claim { alone, ..claim }).collect()
}

/// The other tables that a table's foreign keys refer to: they have to know of it.
fn referenced(c: &Catalog, def: &TableDef) -> Vec<Claim> {
    let others = def.foreign.iter().filter(|f| f.table != def.id);
    others.filter_map(|f| c.table_by_id(f.table)).map(|t| name(t.def.full_name())).collect()
}

/// A table's definition is changed, and those that its foreign keys refer to stay what they are.
pub fn change_keys(c: &Catalog, table: &Name) -> Vec<Claim> {
    let others = c.table(table).map_or(vec![], |t| referenced(c, &t.def));
    change_table(c, table).into_iter().chain(others).collect()
}

/// Foreign keys are added to a table: what they refer to has to know of them.
pub fn add_foreign_keys(c: &Catalog, table: &Name, keys: &[ForeignDef]) -> Vec<Claim> {
    let named = keys.iter().filter_map(|k| c.table_by_id(k.table)).map(|t| name(t.def.full_name()));
    change_table(c, table).into_iter().chain(named).collect()
}

/// `def` takes the place of the table: what has its name has another then, or is made anew.
pub fn redefine_table(c: &Catalog, table: impl Into<Name>, def: &TableDef) -> Vec<Claim> {
    let table = &table.into();
    let Some(old) = c.table(table) else { return vec![] };
    let mut claims = vec![name(table)];
    let now = def.full_name();
    if now.schema != table.schema {
        claims.push(within(now.schema))
    }
    let renamed = now != *table;
    if renamed {
        claims.extend([name(&now), stay(table, true), stay(&now, true)])
    }
    // Indexes stand under their table's name.
    let differs = |i: &&IndexDef| renamed || !old.def.indexes.contains(i) || !def.indexes.contains(i);
    for d in [&old.def, def] {
        claims.extend(d.indexes.iter().filter(differs).map(|i| name(d.index_name(i))))
    }
    // What a function that returns its rows was declared with.
    let rows = |d: &TableDef| d.shown().iter().map(|c| (c.name.clone(), c.ty)).collect::<Vec<_>>();
    if rows(&old.def) != rows(def) {
        claims.push(stay(table, true))
    }
    let functions = functions_of(c, table, def);
    claims.extend(functions.iter().map(signature));
    let is_new = |d: &&ColumnDef| !old.def.columns.contains(d);
    types(def.columns.iter().filter(is_new).map(|c| c.domain.unwrap_or(c.ty.id)), &mut claims);
    named_in(c, def.columns.iter().filter(is_new).flat_map(texts), &mut claims);
    // Views name its columns by their places.
    let names = |d: &TableDef| d.shown().iter().map(|c| c.name.clone()).collect::<Vec<_>>();
    if !names(def).starts_with(&names(&old.def)) {
        claims.extend(c.views_over(old.def.id).map(|v| name(v.full_name())))
    }
    let checks = def.checks.iter().filter(|c| !old.def.checks.contains(c));
    named_in(c, checks.map(|c| &c.text), &mut claims);
    let gone = old.def.sequences().filter(|s| !def.sequences().any(|n| n == *s));
    claims.extend(sequences(c, gone));
    // The column that they go with.
    let taken = def.sequences().filter(|s| !old.def.sequences().any(|o| o == *s));
    claims.extend(sequences(c, taken));
    if unvalidated(&old.def.foreign) != unvalidated(&def.foreign) {
        claims.extend(referenced(c, &old.def));
        claims.extend(referenced(c, def))
    }
    // What is looked at again where a key's type is another.
    let types = |d: &TableDef| d.columns.iter().map(|c| c.ty).collect::<Vec<_>>();
    if types(&old.def) != types(def) {
        let tables = old.references.iter().filter_map(|r| c.table_of(r.table, &r.name));
        claims.extend(tables.filter(|t| t.def.id != old.def.id).map(|t| name(t.def.full_name())))
    }
    claims
}

pub fn drop_table(c: &Catalog, table: impl Into<Name>) -> Vec<Claim> {
    let table = &table.into();
    let Some(t) = c.table(table) else { return vec![] };
    let indexes = t.def.indexes.iter().map(|i| name(t.def.index_name(i)));
    let owned = sequences(c, t.def.sequences());
    let mut claims: Vec<Claim> = [name(table), stay(table, true)].into_iter().chain(indexes).collect();
    claims.extend(owned);
    claims.extend(referenced(c, &t.def));
    claims
}

pub fn create_index(c: &Catalog, table: impl Into<Name>, index: &str) -> Vec<Claim> {
    let table = table.into();
    let mut claims = change_table(c, &table);
    claims.push(name(Name::new(table.schema, index)));
    claims
}

pub fn drop_index(c: &Catalog, index: impl Into<Name>) -> Vec<Claim> {
    let index = index.into();
    c.table_of_index(&index).map_or(vec![], |t| vec![name(t.def.full_name()), name(index)])
}

pub fn create_function(c: &Catalog, f: &FunctionDef) -> Vec<Claim> {
    let mut claims = vec![within(f.schema), signature(f)];
    types(types_of(f), &mut claims);
    named_in(c, &f.defaults, &mut claims);
    // Of two claims of one function the one that is for the transaction alone holds.
    let own = signature(f).thing;
    claims.retain(|claim| claim.alone || claim.thing != own);
    if let Returns::Rows { of: Some(table), .. } = &f.returns {
        claims.push(stay(table, false))
    }
    claims
}

/// What a view's query names is rested on.
pub fn create_view(c: &Catalog, view: impl Into<Name>, query: &str) -> Vec<Claim> {
    let view = view.into();
    let mut claims = vec![within(view.schema), name(&view)];
    let shared = |name: Name| Claim { thing: Thing::Name(name), alone: false };
    for slot in slots(query) {
        match slot {
            Slot::Relation(n) => {
                let table = c.table_by_id(n).map(|t| t.def.full_name());
                let named = table.or_else(|| c.view_by_id(n).map(|v| v.full_name()));
                claims.extend(named.filter(|n| *n != view).map(shared))
            }
            Slot::Column { .. } => {}
            Slot::Function(n) => {
                claims.extend(c.functions.get(&n).map(|f| Claim { alone: false, ..signature(f) }))
            }
            Slot::Type(n) => {
                let named = c.types.iter().filter(|(_, t)| t.user().is_some_and(|u| u.number == n));
                claims.extend(named.map(|(name, _)| shared(name.clone())))
            }
        }
    }
    claims
}

/// A table that has the query's rows.
pub fn create_material(c: &Catalog, table: &Name, columns: &[ColumnDef], query: &str) -> Vec<Claim> {
    [create_table(c, table, columns), create_view(c, table, query)].concat()
}

/// A materialised view's rows are made anew of what its query names, which stays meanwhile.
pub fn refresh(c: &Catalog, table: &Name) -> Vec<Claim> {
    let mut claims = change_table(c, table);
    if let Some(material) = c.table(table).and_then(|t| t.def.nature.material.as_ref()) {
        let named = create_view(c, table, &material.query);
        claims.extend(named.into_iter().filter(|claim| !claim.alone))
    }
    claims
}

/// `def` takes the view's place, perhaps under another name.
pub fn replace_view(c: &Catalog, view: impl Into<Name>, def: &ViewDef) -> Vec<Claim> {
    let view = view.into();
    let Some(old) = c.view(&view) else { return vec![] };
    let mut claims = vec![name(&view)];
    claims.extend(create_view(c, def.full_name(), &def.query));
    named_in(c, def.columns.iter().filter_map(|c| c.default.as_ref()), &mut claims);
    // A view that names columns that get other places.
    let names = |d: &ViewDef| d.columns.iter().map(|c| c.name.clone()).collect::<Vec<_>>();
    if !names(def).starts_with(&names(old)) {
        claims.extend(c.views_over(old.id).map(|v| name(v.full_name())))
    }
    claims
}

/// A view or a materialised view.
pub fn drop_view(c: &Catalog, view: impl Into<Name>) -> Vec<Claim> {
    let view = view.into();
    if c.table(&view).is_some_and(|t| t.def.is_material()) {
        return drop_table(c, view);
    }
    c.view(&view).map(|_| name(&view)).into_iter().collect()
}

fn types_of(f: &FunctionDef) -> Vec<TypeId> {
    let mut types: Vec<TypeId> = f.arg_types().collect();
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
    let mut claims = vec![within(def.schema), name(Name::new(def.schema, &*def.name))];
    types(def.made_of().map(|b| b.id), &mut claims);
    let texts = def.parts.iter().filter_map(|p| p.text.as_ref()).chain(&def.default);
    named_in(c, texts, &mut claims);
    claims
}

/// `def` takes the place of the type: all that is made of it is made anew.
pub fn replace_type(c: &Catalog, old: impl Into<Name>, def: &UserDef) -> Vec<Claim> {
    let old = old.into();
    let Some(ty) = c.ty(&old) else { return vec![] };
    let mut claims = vec![name(old)];
    claims.extend(create_type(c, def));
    let mut reached: BTreeSet<TypeId> = [Some(ty), ty.array()].into_iter().flatten().collect();
    for user in in_order(c.types.values().filter_map(|t| t.user()).collect()) {
        if user.made_of().any(|b| reached.contains(&b.id)) {
            let t = user.type_id().ok();
            reached.extend([t, t.and_then(TypeId::array)].into_iter().flatten());
            claims.push(name(Name::new(user.schema, &*user.name)))
        }
    }
    let is_reached =
        |c: &ColumnDef| reached.contains(&c.ty.id) || c.domain.is_some_and(|d| reached.contains(&d));
    for t in c.tables() {
        if t.def.columns.iter().any(is_reached) {
            claims.push(name(t.def.full_name()))
        }
    }
    for v in c.views.values() {
        if v.columns.iter().any(is_reached) {
            claims.push(name(v.full_name()))
        }
    }
    let reached = |f: &&FunctionDef| types_of(f).iter().any(|t| reached.contains(t));
    claims.extend(c.functions.values().map(|f| &**f).filter(reached).map(signature));
    claims
}

/// The function's place is taken by one of another schema, with the same name and arguments.
pub fn move_function(c: &Catalog, id: u32, schema: u32) -> Vec<Claim> {
    let Some(f) = c.functions.get(&id) else { return vec![] };
    vec![signature(f), within(schema), signature(&FunctionDef { schema, ..(**f).clone() })]
}

pub fn drop_type(c: &Catalog, ty: impl Into<Name>) -> Vec<Claim> {
    let ty = ty.into();
    c.ty(&ty).map(|_| name(ty)).into_iter().collect()
}

/// A sequence that is made.
pub fn create_sequence(sequence: &Name) -> Vec<Claim> {
    vec![within(sequence.schema), name(sequence)]
}

/// A sequence that is changed or dropped.
pub fn change_sequence(c: &Catalog, sequence: &Name) -> Vec<Claim> {
    c.sequence(sequence).map(|_| name(sequence)).into_iter().collect()
}
