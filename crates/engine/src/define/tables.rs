//! A table's definition, changed: names, defaults, what may be NULL, which indexes it has.
//!
//! The new definition takes the old one's place. Where rows lie in bytes as they did, nothing else is done,
//! also where columns are added to them; where they do not, they are copied to heaps of the new layout,
//! beside the table's users where that can be ([`crate::beside`], [`crate::rebuild`]).
use super::{Catalog, Connection, FunctionDef, Name, Table, TableIndex};
use super::{claims, d, few_columns, find, free_name, there_is_schema};
use crate::catalog::{ColumnDef, HIDDEN, IndexColumn, Later, Returns, Room, TableDef};
use crate::comment::followed;
use crate::later;
use crate::layout::{ColumnLayout, Layout, MAX_COLUMNS, Storage, Word};
use crate::rebuild::Origin;
use crate::table::KeySpec;
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

/// What `def` says, of rows that stay as they are: its new columns are added to them (engine/layout/L7).
/// `None` where the rows have to be copied, and where there are none, so that all columns get their places in
/// those that come.
fn of_same_rows(old: &Table, def: &TableDef, origins: &[Origin]) -> Option<TableDef> {
    let mut def = def.clone();
    let mut places = old.def.nature.room.map_or(0, |r| r.places);
    let mut from = Vec::with_capacity(origins.len());
    for (column, origin) in def.columns.iter_mut().zip(origins) {
        from.push(match origin {
            Origin::Column(n) => {
                let was = old.def.columns.get(*n)?;
                column.later = was.later.clone();
                column.bit = match was.has_bit() {
                    true => column.not_null.then_some(true),
                    false if column.is_left() => was.bit,
                    // Only a string has room to say it (later/N1).
                    false if !column.not_null && was.later.is_none() => return None,
                    false => None,
                };
                Some((*n, was))
            }
            Origin::Value(value) => {
                let there = old.layout.word.is_some() && old.store.rows.segment_count() > 0;
                if !there || value.is_null() && column.not_null || usize::from(places) >= MAX_COLUMNS {
                    return None;
                }
                let storage = Layout::later_storage(column.ty, column.packed);
                let missing = later::bytes(storage, &value.as_ref(&mut vec![])).ok()?;
                column.later = Some(Later { place: places, missing: missing.map(Into::into) });
                places += 1;
                None
            }
            Origin::Converted(..) | Origin::Computed { .. } | Origin::Nulls => return None,
        })
    }
    // As the dictionary will tell of it (dictionary/D16).
    let longer = old.layout.word.is_none_or(Word::has_length);
    def.nature.room = if places > 0 { Some(Room { places, longer }) } else { old.def.nature.room };
    // Each column that was is there once more, but for those that are dropped: of these the bytes stay
    // (engine/layout/L8), or their places (later/N5).
    let mut kept = vec![0; old.def.columns.len()];
    from.iter().flatten().for_each(|(n, _)| kept[*n] += 1);
    if from.len() != def.columns.len() || kept.iter().any(|n| *n > 1) {
        return None;
    }
    let gone = |(n, c): &(usize, &ColumnDef)| kept[*n] == 0 && c.later.is_none();
    for (n, was) in old.def.columns.iter().enumerate().filter(gone) {
        // A type that users have defined may go as well.
        let stays = was.ty.id.user().is_none() && old.store.rows.segment_count() > 0;
        if !stays || def.columns.len() >= MAX_COLUMNS {
            return None;
        }
        let rank = was.rank.unwrap_or(n as u16);
        let name = format!("{HIDDEN}dropped {rank}");
        let (packed, bit) = (was.packed, (!was.has_bit()).then_some(false));
        def.columns.push(ColumnDef { packed, bit, rank: Some(rank), ..ColumnDef::new(name, was.ty) });
        from.push(Some((n, was)))
    }
    if def.columns.iter().any(|c| c.rank.is_some()) {
        for (column, from) in def.columns.iter_mut().zip(&from) {
            let rank = |(n, was): &(usize, &ColumnDef)| was.rank.unwrap_or(*n as u16);
            column.rank = from.as_ref().filter(|(_, was)| was.later.is_none()).map(rank)
        }
    }
    // An index has the keys of the columns that it had, which depend on their types, and on whether they may
    // be NULL. A new one is made with a copy.
    let same_column = |(c, o): (&IndexColumn, &IndexColumn)| {
        let now = &def.columns[c.column];
        from[c.column]
            .is_some_and(|(n, was)| n == o.column && was.ty.id == now.ty.id && was.has_bit() == now.has_bit())
    };
    let same_keys = def.indexes.iter().all(|i| {
        let was = old.def.indexes.iter().find(|o| o.id == i.id);
        was.is_some_and(|o| {
            o.columns.len() == i.columns.len() && i.columns.iter().zip(&o.columns).all(same_column)
        })
    });
    let layout = Table::layout_of(&def);
    let stored = |layout: &Layout, n: usize| match layout.columns[n].storage {
        Storage::Later { place } => {
            layout.later[usize::from(place)].as_ref().map(|c| (c.storage, c.missing.clone()))
        }
        _ => None,
    };
    let same_layout = layout.row_size == old.layout.row_size
        && layout.word == old.layout.word
        && from.iter().enumerate().filter_map(|(n, f)| Some((n, f.as_ref()?.0))).all(|(n, was)| {
            let lies = |layout: &Layout, n: usize| {
                let c: &ColumnLayout = &layout.columns[n];
                (c.storage, c.offset, c.null_bit)
            };
            lies(&layout, n) == lies(&old.layout, was) && stored(&layout, n) == stored(&old.layout, was)
        });
    (same_keys && same_layout && old.def.nature.unlogged == def.nature.unlogged).then_some(def)
}

impl Connection {
    /// Makes the table what `def` says. Its indexes are some of those that it has, perhaps under other names;
    /// those left out go. Where rows are copied there may be new ones, without a number. `origins` says where
    /// each column's values come from. As with PostgreSQL's rewriting forms of ALTER TABLE, a snapshot older
    /// than the commit finds no rows where they are copied, or is refused (beside/B4); it finds them where
    /// columns are added, in no time that depends on how many rows there are.
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
                // Views of other sessions name columns by their places, and have their types.
                let stays_so = |(n, c): (usize, &ColumnDef)| {
                    matches!(origins.get(n), Some(Origin::Column(o)) if *o == n)
                        && def.columns.get(n).is_some_and(|now| now.ty == c.ty)
                };
                if !old.def.columns.iter().enumerate().all(stays_so) {
                    me.refuse_rested(old.def.id, &format!("a column of table {}", name.name))?
                }
                let new = me.redefined(&old, def, origins)?;
                let stays = |s: &u32| kept.contains(s) || new.def.sequences().any(|n| n == *s);
                for sequence in old.def.sequences().filter(|s| !stays(s)) {
                    me.remove_sequence(sequence)?
                }
                let comments = followed(c.comments_on(old.def.id), &old.def, &new.def, origins);
                me.set_comments(c, old.def.id, &comments)?;
                me.follow_rights(c, old.def.id, |all| followed(all, &old.def, &new.def, origins))?;
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

    /// The table with another definition, of the same rows where these can stay as they are. It is marked
    /// when this returns.
    pub(crate) fn redefined(
        &mut self,
        old: &Arc<Table>,
        def: TableDef,
        origins: &[Origin],
    ) -> SqlResult<Arc<Table>> {
        let same = of_same_rows(old, &def, origins);
        if same.is_none() && self.may_copy_beside(old) {
            return self.rebuild_beside(old, def, origins);
        }
        self.mark_table(old, "ALTER TABLE")?;
        let Some(def) = same else { return self.rebuild(old, def, origins) };
        let forbidden: Vec<(usize, String)> = (origins.iter().zip(&def.columns))
            .filter_map(|(origin, now)| match origin {
                Origin::Column(n) if now.not_null && !old.def.columns[*n].not_null => {
                    Some((*n, now.name.clone()))
                }
                _ => None,
            })
            .collect();
        self.refuse_nulls(old, &forbidden)?;
        self.put_in_place(old, def)
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
            // Its columns may have other places.
            let key = KeySpec::new(&def, i);
            indexes.push(match was.def == *i && was.key == key {
                true => was.clone(),
                false => Arc::new(TableIndex {
                    def: i.clone(),
                    key,
                    index: was.index.clone(),
                    store: was.store.clone(),
                    point: was.point.clone(),
                }),
            });
        }
        Ok(Table::new(&db.kernel, def, old.heaps, indexes, Some(old)))
    }
}
