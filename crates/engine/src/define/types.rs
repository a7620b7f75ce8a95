//! Types that users define: made, changed, dropped.
//!
//! A changed type has another number (user/U2), so all that names the type is made anew with it in the
//! catalog: types made of it, columns, functions. Rows and keys stay as they are (user/U3).
use super::{Catalog, ColumnDef, Connection, FunctionDef, Name, Table, claims, d, there_is_schema};
use crate::catalog::{Returns, TableDef};
use crate::rights::RightsOf;
use crate::view::{Slot, ViewDef};
use ondol_types::user::{Fresh, Part, UserDef, enumeration, in_order};
use ondol_types::{SqlError, SqlResult, Type, TypeId, sqlstate};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Types before and after a change.
type Changed = BTreeMap<TypeId, TypeId>;

fn missing(name: &Name) -> SqlError {
    SqlError::new(sqlstate::UNDEFINED_OBJECT, format!("type \"{}\" does not exist", name.name))
}

fn full_name(def: &UserDef) -> Name {
    Name::new(def.schema, &*def.name)
}

/// Whether a type can have the name: a table's rows have one, too.
fn free(c: &Catalog, name: &Name) -> SqlResult<()> {
    if c.types.contains_key(name) || c.table(name).is_some() || c.view(name).is_some() {
        let message = format!("type \"{}\" already exists", name.name);
        return Err(SqlError::new(sqlstate::DUPLICATE_OBJECT, message));
    }
    Ok(())
}

/// The type itself, and the arrays of it.
fn note(changed: &mut Changed, from: TypeId, to: TypeId) {
    changed.insert(from, to);
    if let (Some(from), Some(to)) = (from.array(), to.array()) {
        changed.insert(from, to);
    }
}

fn is_column_of(changed: &Changed, c: &ColumnDef) -> bool {
    changed.contains_key(&c.ty.id) || c.domain.is_some_and(|d| changed.contains_key(&d))
}

fn column_of(changed: &Changed, c: &ColumnDef) -> ColumnDef {
    let domain = c.domain.map(|d| changed.get(&d).copied().unwrap_or(d));
    ColumnDef { ty: type_of(changed, c.ty), domain, ..c.clone() }
}

fn type_of(changed: &Changed, ty: Type) -> Type {
    changed.get(&ty.id).map_or(ty, |id| Type::with(*id, ty.typmod))
}

/// A function whose types are the changed ones. Its code is made anew from its body.
fn function_of(changed: &Changed, f: &FunctionDef) -> FunctionDef {
    let of = |ty: &Type| type_of(changed, *ty);
    let returns = match &f.returns {
        Returns::Void => Returns::Void,
        Returns::Scalar { ty, set } => Returns::Scalar { ty: of(ty), set: *set },
        Returns::Rows { of: table, columns, set } => Returns::Rows {
            of: table.clone(),
            columns: columns.iter().map(|(n, t)| (n.clone(), of(t))).collect(),
            set: *set,
        },
    };
    let args = f.args.iter().map(|(n, t)| (n.clone(), of(t))).collect();
    FunctionDef { args, returns, code: Vec::new(), ..f.clone() }
}

fn names_one(changed: &Changed, f: &FunctionDef) -> bool {
    let same = function_of(changed, f);
    same.args != f.args || same.returns != f.returns
}

impl Connection {
    /// Adds a type; its numbers are given here.
    pub fn create_type(&mut self, mut def: UserDef) -> SqlResult<()> {
        let wanted = def.clone();
        self.defining(
            |c| claims::create_type(c, &wanted),
            |me, c| {
                let name = full_name(&def);
                there_is_schema(c, name.schema)?;
                free(c, &name)?;
                let db = me.db.clone();
                def.number = db.next_object()?;
                def.array = db.next_object()?;
                me.draft().ty(&name, Some(def.type_id()?));
                d::add_type(&mut me.session, &db.dictionary, &def)?;
                me.own(c, RightsOf::Type, def.schema, def.number)
            },
        )
    }

    /// Puts another definition of the same number into a type's place, perhaps under another name.
    pub fn replace_type(&mut self, name: impl Into<Name>, def: UserDef) -> SqlResult<()> {
        let name = &name.into();
        self.defining(
            |c| claims::replace_type(c, name, &def),
            |me, c| {
                let old = c.types.get(name).copied().ok_or_else(|| missing(name))?;
                let new_name = full_name(&def);
                if new_name != *name {
                    there_is_schema(c, new_name.schema)?;
                    free(c, &new_name)?;
                }
                me.refuse_rested(def.number, &format!("type {}", name.name))?;
                let db = me.db.clone();
                d::remove_type(&mut me.session, &db.dictionary, def.number)?;
                d::add_type(&mut me.session, &db.dictionary, &def)?;
                let mut changed = Changed::new();
                let new = me.with_fresh_labels(old, &def).type_id()?;
                note(&mut changed, old, new);
                let draft = me.draft();
                draft.ty(name, None);
                draft.ty(&new_name, Some(new));
                follow(c, &mut changed, |name, ty| draft.ty(name, Some(ty)))?;
                let tables: Vec<_> = (c.tables())
                    .filter(|t| t.def.columns.iter().any(|c| is_column_of(&changed, c)))
                    .cloned()
                    .collect();
                for old in tables {
                    me.mark_table(&old, "ALTER TYPE")?;
                    let columns = old.def.columns.iter().map(|c| column_of(&changed, c)).collect();
                    let def = TableDef { columns, ..old.def.clone() };
                    let table = Table::new(&db.kernel, def, old.heaps, old.indexes.clone(), Some(&old));
                    me.draft().table(&old.def.full_name(), Some(table));
                }
                let shows = |v: &ViewDef| v.columns.iter().any(|c| is_column_of(&changed, c));
                for v in c.views.values().filter(|v| shows(v)) {
                    let columns = v.columns.iter().map(|c| column_of(&changed, c)).collect();
                    me.draft().view(&Arc::new(ViewDef { columns, ..(**v).clone() }));
                }
                for f in c.functions.values().filter(|f| names_one(&changed, f)) {
                    me.draft().function(f.id, Some(Arc::new(function_of(&changed, f))));
                }
                Ok(())
            },
        )
    }

    /// A changed definition that knows which of an enum's labels the transaction has added
    /// (user/enumeration/G3).
    fn with_fresh_labels(&mut self, old: TypeId, def: &UserDef) -> UserDef {
        let mut def = def.clone();
        let Some(old) = old.user().filter(|_| def.kind == enumeration::CODE) else { return def };
        let own = self.fresh_labels.clone();
        let before = old.fresh.iter().filter(|f| own.as_ref().is_some_and(|o| Arc::ptr_eq(o, &f.open)));
        let mut keys: Vec<i64> = before.flat_map(|f| f.keys.iter().copied()).collect();
        keys.extend(def.parts.iter().map(|p| p.key).filter(|k| !old.parts.iter().any(|p| p.key == *k)));
        def.fresh = None;
        if !keys.is_empty() {
            let open = self.fresh_labels.get_or_insert_with(|| Arc::new(AtomicBool::new(true))).clone();
            def.fresh = Some(Fresh { keys, open })
        }
        def
    }

    /// Removes a type on which nothing depends.
    pub fn drop_type(&mut self, name: impl Into<Name>) -> SqlResult<()> {
        let name = &name.into();
        self.defining(
            |c| claims::drop_type(c, name),
            |me, c| {
                let ty = c.types.get(name).copied().ok_or_else(|| missing(name))?;
                let mut gone = Changed::new();
                note(&mut gone, ty, TypeId::UNKNOWN);
                if let Some(array) = ty.array() {
                    gone.insert(array, TypeId::UNKNOWN);
                }
                let made_of =
                    |t: &TypeId| t.user().is_some_and(|u| u.made_of().any(|b| gone.contains_key(&b.id)));
                let number = ty.user().map_or(0, |u| u.number);
                super::views::refuse_views_of(c, Slot::Type(number), &format!("type {}", name.name))?;
                me.refuse_rested(number, &format!("type {}", name.name))?;
                let used = c.tables().any(|t| t.def.columns.iter().any(|c| is_column_of(&gone, c)))
                    || c.functions.values().any(|f| names_one(&gone, f))
                    || c.views.values().any(|v| v.columns.iter().any(|c| is_column_of(&gone, c)))
                    || c.types.values().any(made_of);
                if used {
                    let message =
                        format!("cannot drop type {} because other objects depend on it", name.name);
                    return Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message));
                }
                let db = me.db.clone();
                d::remove_type(&mut me.session, &db.dictionary, number)?;
                me.drop_comments(c, [number])?;
                me.drop_rights(c, number)?;
                me.draft().ty(name, None);
                Ok(())
            },
        )
    }
}

/// The types that are made of changed ones change with them.
fn follow(c: &Catalog, changed: &mut Changed, mut put: impl FnMut(&Name, TypeId)) -> SqlResult<()> {
    for user in in_order(c.types.values().filter_map(|t| t.user()).collect()) {
        if !user.made_of().any(|b| changed.contains_key(&b.id)) {
            continue;
        }
        let of = |ty: Type| type_of(changed, ty);
        let parts = user.parts.iter().map(|p| Part { ty: p.ty.map(of), ..p.clone() }).collect();
        let new = UserDef { base: user.base.map(of), parts, ..user.clone() }.type_id()?;
        note(changed, user.type_id()?, new);
        put(&full_name(user), new);
    }
    Ok(())
}
