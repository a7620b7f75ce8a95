//! Foreign keys as parts of definitions: both tables know of each, and rows are looked at beside writers.
//!
//! ```text
//! announce   a catalog in which both tables have the key, as one that is coming
//!                                                       nobody waits but the definer: for earlier writers
//! look       at the rows, by a snapshot that is taken then
//!                                                       only who would break the key waits for the definer
//! publish    the dictionary's record, durable           it is there
//! ```
//! - **R1** A foreign key is in the definition of the table that has it. The table that it refers to has a
//!   list of those that do. Whoever changes a foreign key, or drops its table, changes the list with it: both
//!   tables are claimed, and marked unless the key is a new one, so that nobody drops one, or its key, beside
//!   a new one of the other. Whether the rows are known to hold it is told by the definition only: that
//!   concerns nobody who changes rows.
//! - **R2** *Announced.* Who adds foreign keys at READ COMMITTED, to a table that everyone has as it has it
//!   itself, marks neither table. Both take their old ones' places in everyone's catalog under other names in
//!   lines, at once: the one with the keys, which are coming, and those that they refer to with them in their
//!   lists. Then it waits for all who change rows of a table under an earlier name (online/O3,
//!   table_lock/L2). Nobody waits for it who only uses them, and it for nobody who only reads.
//! - **R3** *Who knows.* When that is over, whoever has changed rows and knew nothing of the keys has ended:
//!   what they did is committed, or was taken back. All others note what they do to either table
//!   (connection/foreign/K1): a statement goes by the newest dictionary, whatever its transaction has seen.
//! - **R4** *The look.* Then a snapshot is taken, and by it the rows are looked at, and those that they name.
//!   A row that it does not show, or that gets its key later, is of one who knows, and keeps the row that it
//!   names until it is committed (connection/foreign/K2). A row that is named in the snapshot is taken away
//!   later, or was being taken away, by one who knows, and who finds the rows that name it in their newest
//!   versions, those that the snapshot shows among them (connection/foreign/K3). So what holds in the
//!   snapshot holds from then on. An earlier snapshot may be older than rows of those who did not know.
//! - **R5** *Coming.* Until the definer has committed there is no such constraint. A transaction that would
//!   break it, or do something to rows on its account, waits for the definer to end, and looks again: then
//!   it is there, or has never been. Whoever has changed rows before it was announced closes a cycle by that
//!   (wait/W6).
//! - **R6** *VALIDATE.* A foreign key that is in everyone's dictionary was waited for by R2, or with guards,
//!   before it got there, so a snapshot taken now is late enough for R4. The table that has it is claimed,
//!   which keeps the key; the one that it refers to is used as by a reader, so that it stays what it is. The
//!   same holds for checks: whoever changes rows has held them to it since before it was in the dictionary.
//! - **R7** The only durable trace is the dictionary's record. A failure before, or going back to a
//!   savepoint, puts the tables that were announced back as they were, under names that are later still.
//!
//! Above READ COMMITTED, and where the transaction has changed one of the tables itself, or rows of one, they
//! are guarded (table_lock/L2), and looked at while nobody else changes rows: who takes away what a row names
//! finds only rows that others have committed, or such as keep what they name.
use super::{Connection, claims, find};
use crate::catalog::{ForeignDef, Reference, Relation, TableDef};
use crate::connection::{Isolation, Look, can_name};
use crate::name::Name;
use crate::table::{Coming, Table};
use ondol_base::sim::mutated;
use ondol_kernel::registry;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Foreign keys but for whether rows are known to hold them (R1).
pub(crate) fn unvalidated<'k>(keys: impl IntoIterator<Item = &'k ForeignDef>) -> Vec<ForeignDef> {
    keys.into_iter().map(|k| ForeignDef { validated: false, ..k.clone() }).collect()
}

/// The list of a table to which a table of that definition refers, or referred.
fn references_with(parent: &Table, child: u32, now: Option<&TableDef>) -> Vec<Reference> {
    let mut list: Vec<Reference> = parent.references.iter().filter(|r| r.table != child).cloned().collect();
    list.extend(now.iter().flat_map(|d| {
        let named = d.foreign.iter().filter(|f| f.table == parent.def.id);
        named.map(|f| Reference { table: d.id, name: d.full_name(), key: f.clone() })
    }));
    list.sort_by_key(|r| r.key.id);
    list
}

impl Connection {
    /// Tells the tables that a table's foreign keys referred to, and those that they refer to (R1).
    pub(crate) fn relink(&mut self, old: &TableDef, new: Option<&TableDef>) -> SqlResult<()> {
        self.retell(old, new, |me, parent| me.mark_table(parent, "ALTER TABLE"))
    }

    /// The same, with what is to be done to such a table first.
    fn retell(
        &mut self,
        old: &TableDef,
        new: Option<&TableDef>,
        hold: impl Fn(&mut Connection, &Arc<Table>) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let now = new.map_or(&[][..], |d| &d.foreign);
        let tables: BTreeSet<u32> = old.foreign.iter().chain(now).map(|f| f.table).collect();
        for id in tables {
            // Dropped, it need not know.
            let Some(parent) = self.catalog().table_by_id(id).cloned() else { continue };
            let list = references_with(&parent, old.id, new);
            let plain = |l: &[Reference]| {
                let tables: Vec<u32> = l.iter().map(|r| r.table).collect();
                (tables, unvalidated(l.iter().map(|r| &r.key)))
            };
            if plain(&list) == plain(&parent.references) {
                continue;
            }
            hold(self, &parent)?;
            let told = parent.with_references(&self.db.kernel, list.into());
            self.draft().table(&parent.def.full_name(), Some(told))
        }
        Ok(())
    }

    /// Looks at the rows by foreign keys that are new, or whose columns have another type.
    pub(super) fn look_at_keys(&mut self, old: &TableDef, new: &Arc<Table>) -> SqlResult<()> {
        let types = |d: &TableDef, columns: &[usize]| -> Vec<_> {
            columns.iter().map(|c| d.columns.get(*c).map(|c| (c.name.clone(), c.ty))).collect()
        };
        for key in new.def.foreign.iter().filter(|k| k.validated) {
            let same = |k: &&crate::catalog::ForeignDef| {
                k.validated && k.name == key.name && k.table == key.table && k.index == key.index
            };
            let was = old.foreign.iter().find(same);
            if was.is_some_and(|k| types(old, &k.columns) == types(&new.def, &key.columns)) {
                continue;
            }
            self.hold_to_key(new, key, Look::Newest)?
        }
        let references: Vec<Reference> = new.references.to_vec();
        for r in references.iter().filter(|r| r.table != new.def.id) {
            let index = |d: &TableDef| d.indexes.iter().find(|i| i.id == r.key.index).cloned();
            let (Some(before), Some(after)) = (index(old), index(&new.def)) else { continue };
            let of = |d: &TableDef, i: &crate::catalog::IndexDef| {
                i.columns.iter().map(|c| d.columns[c.column].ty).collect::<Vec<_>>()
            };
            if of(old, &before) == of(&new.def, &after) {
                continue;
            }
            let Some(child) = self.catalog().table_of(r.table, &r.name).cloned() else { continue };
            self.mark_table(&child, "ALTER TABLE")?;
            for (column, part) in r.key.columns.iter().zip(&r.key.parts) {
                let (c, p) = (&child.def.columns[*column], &new.def.columns[after.columns[*part].column]);
                if !can_name(c.ty.id, p.ty.id) {
                    return Err(incompatible(&r.key.name, (&c.name, c.ty), (&p.name, p.ty)));
                }
            }
            if child.def.foreign.iter().any(|f| f.id == r.key.id && f.validated) {
                self.hold_to_key(&child, &r.key, Look::Newest)?
            }
        }
        Ok(())
    }

    // ---- beside writers

    /// Whether rows of the table can be looked at beside those who change them: the transaction's statements
    /// have snapshots of their own, it has changed no rows of the table itself, and what it has changed of
    /// its definition, if anything, was changed beside them.
    fn may_look_beside(&self, table: &Arc<Table>) -> bool {
        let (line, id) = (self.session.participant().line(), table.def.id);
        if registry::changes(line, false, |name| registry::same_table(name, id.into())) {
            return false;
        }
        let settled = matches!(self.transaction_isolation(), None | Some(Isolation::ReadCommitted));
        let everyone = self.db.catalog();
        let there = everyone.table_by_id(table.def.id).is_some_and(|t| t.heaps == table.heaps);
        settled && there && !self.marked.iter().any(|t| t.def.id == table.def.id)
    }

    /// Whether everyone can be told of foreign keys of the table (R2).
    fn may_announce(&self, table: &Arc<Table>) -> bool {
        let everyone = self.db.catalog();
        let same = everyone.table(table.def.full_name()).is_some_and(|t| Arc::ptr_eq(t, table));
        same && self.may_look_beside(table)
    }

    /// Adds foreign keys to a table, and looks at its rows by those that are to be valid at once.
    pub fn add_foreign_keys(&mut self, table: impl Into<Name>, keys: &[ForeignDef]) -> SqlResult<()> {
        let table = &table.into();
        self.defining(
            |c| claims::add_foreign_keys(c, table, keys),
            |me, c| {
                let old = find(c, table)?.clone();
                let mut def = old.def.clone();
                let mut ids = vec![];
                for key in keys {
                    let id = me.db.next_object_in(def.schema)?;
                    ids.push(id);
                    def.foreign.push(ForeignDef { id, ..key.clone() })
                }
                def.foreign.sort_by_key(|f| f.id);
                let numbers: BTreeSet<u32> = keys.iter().map(|k| k.table).filter(|t| *t != def.id).collect();
                let parents: Vec<Arc<Table>> =
                    numbers.iter().filter_map(|t| c.table_by_id(*t).cloned()).collect();
                let all = || [&old].into_iter().chain(&parents);
                for t in all() {
                    me.refuse_own_use(t, "ALTER TABLE")?
                }
                if !all().all(|t| me.may_announce(t)) {
                    all().try_for_each(|t| me.guard(t, false))?;
                    let new = me.put_in_place(&old, def)?;
                    me.draft().table(table, Some(new.clone()));
                    me.retell(&old.def, Some(&new.def), |me, parent| me.guard(parent, false))?;
                    return me.look_at_keys(&old.def, &new);
                }
                let child = me.announce(&old, &parents, &def, ids.clone())?;
                for key in def.foreign.iter().filter(|k| k.validated && ids.contains(&k.id)) {
                    me.hold_to_key(&child, key, Look::Snapshot)?
                }
                let new = me.put_in_place(&child, def)?;
                me.draft().table(table, Some(new));
                Ok(())
            },
        )
    }

    /// Tells everyone of the foreign keys in `def` that are coming, and waits for those who do not know (R2).
    /// Gives the table as everyone has it now.
    fn announce(
        &mut self,
        old: &Arc<Table>,
        parents: &[Arc<Table>],
        def: &TableDef,
        keys: Vec<u32>,
    ) -> SqlResult<Arc<Table>> {
        let kernel = self.db.kernel.clone();
        let own = match def.foreign.iter().any(|f| f.table == def.id) {
            true => references_with(old, def.id, Some(def)).into(),
            false => old.references.clone(),
        };
        let coming = Some(Coming { by: self.session.id(), keys });
        let child = old.announcing(&kernel, def.clone(), own, coming);
        let mut told = vec![child.clone()];
        for parent in parents {
            let list = references_with(parent, def.id, Some(def)).into();
            told.push(parent.announcing(&kernel, parent.def.clone(), list, None))
        }
        self.announced.extend([old].into_iter().chain(parents).cloned());
        self.put_all_in_catalog(&told);
        for t in told.iter().filter(|_| !mutated("key_unwaited")) {
            let name = t.name();
            let earlier = move |n| registry::same_table(n, name) && n < name;
            self.wait_for_lines(t, move |l| registry::changes(l, false, earlier))?
        }
        Ok(child)
    }

    fn put_all_in_catalog(&self, tables: &[Arc<Table>]) {
        self.db.publish(|c| {
            for t in tables {
                c.relations.insert(t.def.full_name(), Relation::Table(t.clone()));
            }
        })
    }

    /// Puts tables back that were announced when so many were, and later (R7); the caller tells.
    pub(crate) fn withdraw_keys(&mut self, from: usize) {
        if self.announced.len() <= from {
            return;
        }
        let everyone = self.db.catalog();
        // Of one that was announced twice, as it was first.
        let mut before: Vec<Arc<Table>> = self.announced.drain(from..).collect();
        before.reverse();
        let mut tables: Vec<Arc<Table>> = vec![];
        for t in before {
            let Some(now) = everyone.table_by_id(t.def.id) else { continue };
            tables.retain(|other| other.def.id != t.def.id);
            tables.push(now.announcing(
                &self.db.kernel,
                t.def.clone(),
                t.references.clone(),
                t.coming.clone(),
            ))
        }
        self.put_all_in_catalog(&tables)
    }

    /// From now on a table's rows are known to hold foreign keys and checks that were added NOT VALID, those
    /// of these names. The rows are looked at by the keys here; by the checks a statement of this transaction
    /// has looked at them (R6).
    pub fn validate(&mut self, table: impl Into<Name>, keys: &[String], checks: &[String]) -> SqlResult<()> {
        let table = &table.into();
        let beside = self.catalog().table(table).is_none_or(|t| self.may_look_beside(t));
        self.defining(
            |c| match beside {
                true => claims::change_table(c, table),
                false => claims::change_keys(c, table),
            },
            |me, c| {
                let old = find(c, table)?.clone();
                me.refuse_own_use(&old, "ALTER TABLE")?;
                if !beside {
                    me.guard(&old, false)?
                }
                let mut def = old.def.clone();
                for key in def.foreign.iter_mut().filter(|f| !f.validated && keys.contains(&f.name)) {
                    key.validated = true;
                    if beside {
                        me.hold_to_key(&old, key, Look::Snapshot)?;
                        continue;
                    }
                    if let Some(parent) = me.catalog().table_by_id(key.table) {
                        me.guard(parent, false)?
                    }
                    me.hold_to_key(&old, key, Look::Newest)?
                }
                def.checks.iter_mut().filter(|c| checks.contains(&c.name)).for_each(|c| c.validated = true);
                let new = me.put_in_place(&old, def)?;
                me.draft().table(table, Some(new));
                Ok(())
            },
        )
    }
}

/// The error of a foreign key whose column cannot be compared with the one that it names.
pub fn incompatible(name: &str, from: (&str, ondol_types::Type), to: (&str, ondol_types::Type)) -> SqlError {
    let message = format!("foreign key constraint \"{name}\" cannot be implemented");
    let plain = |t: ondol_types::Type| t.id.name();
    SqlError::new(sqlstate::DATATYPE_MISMATCH, message).detail(format!(
        "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
        from.0,
        to.0,
        plain(from.1),
        plain(to.1)
    ))
}
