//! A table's definition, changed: names, defaults, what may be NULL, which indexes it has.
//!
//! The new definition takes the old one's place. Where rows lie in bytes as they did, nothing else is done;
//! where they do not, they are copied to heaps of the new layout, beside the table's users where that can be
//! ([`crate::beside`], [`crate::rebuild`]).
use super::{Catalog, Connection, FunctionDef, Name, Table, TableIndex};
use super::{claims, d, few_columns, find, free_name, there_is_schema};
use crate::catalog::{Returns, TableDef};
use crate::comment::followed;
use crate::rebuild::Origin;
use ondol_base::sim::mutated;
use ondol_types::{SqlError, SqlResult, Type, sqlstate};
use std::sync::Arc;

/// The functions that take or return rows of the table, as they must be declared when it is what `def` says;
/// only those that change. Their code is made anew from their bodies, which name what they name as before.
pub(crate) fn functions_of(c: &Catalog, table: &Name, def: &TableDef) -> Vec<FunctionDef> {
    let of = |ty: &Type| match ty.id.is_row_of(def.id) {
        true => c.row_type(def).map_or(*ty, |now| {
            let id = if ty.id.is_array() { now.array().unwrap_or(now) } else { now };
            Type::with(id, ty.typmod)
        }),
        false => *ty,
    };
    let follow = |f: &FunctionDef| {
        let returns = match &f.returns {
            Returns::Rows { of: Some(of), set, .. } if of == table => {
                let columns = def.shown().iter().map(|c| (c.name.clone(), c.ty)).collect();
                Returns::Rows { of: Some(def.full_name()), columns, set: *set }
            }
            Returns::Scalar { ty, set } => Returns::Scalar { ty: of(ty), set: *set },
            other => other.clone(),
        };
        let args: Vec<_> = f.args.iter().map(|(n, t)| (n.clone(), of(t))).collect();
        let is_same = returns == f.returns && args == f.args;
        (!is_same).then(|| FunctionDef { args, returns, code: Vec::new(), ..f.clone() })
    };
    c.functions.values().filter_map(|f| follow(f)).collect()
}

impl Connection {
    /// Makes the table what `def` says. Its indexes are some of those that it has, perhaps under other names;
    /// those left out go. Where rows are copied there may be new ones, without a number. `origins` says where
    /// each column's values come from. As with PostgreSQL's rewriting forms of ALTER TABLE, a snapshot older
    /// than the commit finds no rows where they are copied; or it is refused (beside/B4).
    pub fn redefine_table(
        &mut self,
        name: impl Into<Name>,
        def: &TableDef,
        origins: &[Origin],
    ) -> SqlResult<()> {
        self.redefine_keeping(&name.into(), def, origins, &[])
    }
    /// The same; of the sequences that went with its columns and do so no longer, these stay.
    pub fn redefine_keeping(
        &mut self,
        name: &Name,
        def: &TableDef,
        origins: &[Origin],
        kept: &[u32],
    ) -> SqlResult<()> {
        self.defining(
            |c| claims::redefine_table(c, name, def),
            |me, c| {
                let old = find(c, name)?.clone();
                let new_name = def.full_name();
                if new_name != *name {
                    there_is_schema(c, new_name.schema)?;
                    free_name(c, &new_name)?;
                }
                let named = |n: Name| old.def.indexes.iter().any(|i| old.def.index_name(i) == n);
                for i in def.indexes.iter().filter(|i| !named(def.index_name(i))) {
                    free_name(c, &def.index_name(i))?
                }
                let mut def = def.clone();
                if let Some(c) = def.columns.iter().enumerate().find(|(n, c)| def.column(&c.name) != Some(*n))
                {
                    let message = format!("column \"{}\" specified more than once", c.1.name);
                    return Err(SqlError::new(sqlstate::DUPLICATE_COLUMN, message));
                }
                // As the dictionary will tell of it (dictionary/D5).
                def.columns.iter_mut().for_each(|c| c.packed = c.is_packed());
                def.checks.sort_by(|a, b| a.name.cmp(&b.name));
                for f in def.foreign.iter_mut().filter(|f| f.id == 0) {
                    f.id = me.db.next_object_in(def.schema)?
                }
                def.foreign.sort_by_key(|f| f.id);
                for i in def.indexes.iter_mut().filter(|i| i.id == 0) {
                    i.id = me.db.next_object_in(def.schema)?
                }
                few_columns(&def.columns)?;
                let layout = Table::layout_of(&def);
                // Views of other sessions name columns by their places, and have their types.
                let stays_so = |(n, c): (usize, &crate::catalog::ColumnDef)| {
                    matches!(origins.get(n), Some(Origin::Column(o)) if *o == n)
                        && def.columns.get(n).is_some_and(|now| now.ty == c.ty)
                };
                if !old.def.columns.iter().enumerate().all(stays_so) {
                    me.refuse_rested(old.def.id, &format!("a column of table {}", name.name))?
                }
                let stays = |(n, o): (usize, &Origin)| matches!(o, Origin::Column(c) if *c == n);
                // An index's key depends on the types of its columns.
                let same_keys = def.indexes.iter().flat_map(|i| &i.columns).all(|c| {
                    let was = match origins.get(c.column) {
                        Some(Origin::Column(n)) => old.def.columns.get(*n),
                        _ => None,
                    };
                    was.is_some_and(|was| was.ty.id == def.columns[c.column].ty.id)
                });
                let same_rows = same_keys
                    && old.def.nature.unlogged == def.nature.unlogged
                    && origins.len() == old.def.columns.len()
                    && layout.row_size == old.layout.row_size
                    && layout.columns == old.layout.columns
                    && origins.iter().enumerate().all(stays);
                let beside = !same_rows && me.may_copy_beside(&old);
                if !beside {
                    me.mark_table(&old, "ALTER TABLE")?
                }
                let new = match same_rows {
                    true => me.put_in_place(&old, def)?,
                    false if beside => me.rebuild_beside(&old, def, origins)?,
                    false => me.rebuild(&old, def, origins)?,
                };
                let stays = |s: &u32| kept.contains(s) || new.def.sequences().any(|n| n == *s);
                for sequence in old.def.sequences().filter(|s| !stays(s)) {
                    me.remove_sequence(sequence)?
                }
                let comments = followed(c.comments_on(old.def.id), &old.def, &new.def, origins);
                me.set_comments(c, old.def.id, &comments)?;
                let gone = |i: &&crate::catalog::IndexDef| !new.def.indexes.iter().any(|n| n.id == i.id);
                me.drop_comments(c, old.def.indexes.iter().filter(gone).map(|i| i.id))?;
                me.follow_columns(c, new.def.id, &|n| {
                    origins.iter().position(|o| o.was() == Some(n as usize)).map(|n| n as u32)
                })?;
                for f in functions_of(c, name, &new.def) {
                    let db = me.db.clone();
                    d::remove_function(&mut me.session, &db.dictionary, f.id)?;
                    d::add_function(&mut me.session, &db.dictionary, &f)?;
                    me.draft().function(f.id, Some(Arc::new(f)));
                }
                let draft = me.draft();
                // What goes before what comes: they share one space of names.
                draft.table(name, None);
                old.def.indexes.iter().for_each(|i| draft.index(old.def.index_name(i), None));
                let of = if mutated("indexes_not_renamed") { name } else { &new_name };
                new.def.indexes.iter().for_each(|i| draft.index(new.def.index_name(i), Some(of)));
                draft.table(&new_name, Some(new.clone()));
                me.relink(&old.def, Some(&new.def))?;
                me.look_at_keys(&old.def, &new)
            },
        )
    }

    /// The table with another definition of the same rows.
    pub(super) fn put_in_place(&mut self, old: &Arc<Table>, def: TableDef) -> SqlResult<Arc<Table>> {
        let db = self.db.clone();
        d::remove_table(&mut self.session, &db.dictionary, def.id)?;
        d::add_table(&mut self.session, &db.dictionary, &def, old.heaps)?;
        let damaged = || SqlError::new(sqlstate::INTERNAL_ERROR, "an index that is not there stays");
        let mut indexes = Vec::with_capacity(def.indexes.len());
        for i in &def.indexes {
            let was = old.indexes.iter().find(|o| o.def.id == i.id).ok_or_else(damaged)?;
            indexes.push(match was.def == *i {
                true => was.clone(),
                false => Arc::new(TableIndex {
                    def: i.clone(),
                    key: was.key.clone(),
                    index: was.index.clone(),
                    store: was.store.clone(),
                    point: was.point.clone(),
                }),
            });
        }
        Ok(Table::new(&db.kernel, def, old.heaps, indexes, Some(old)))
    }
}
