//! Temporary tables, views and sequences: a session's own, in schema `pg_temp`.
//!
//! ```text
//! the newest dictionary \
//! the session's own      > what its statements go by (draft/D2)
//! the open draft        /
//! ```
//! - **E1** They are in no dictionary but the connection's: a draft that stays when its transaction commits
//!   ([`Draft::temporary`]), with the comments on them. What a transaction makes, changes or drops of them is
//!   in its draft, and goes back with it, to a savepoint or whole. Each session's own are in a schema of the
//!   same number, which others find empty.
//! - **E2** Their numbers are from [`FIRST`] on, and given anew by each process: the dictionary's tables have
//!   no rows of them. So their heaps are volatile (heap/A5), and so are their sequences' counters
//!   (durability/sequence/Q10): the log has nothing of them, nor has a checkpoint, and a crash leaves none.
//! - **E3** Nothing of them is claimed, and no claim is waited for: nobody else knows of them.
//! - **E4** ON COMMIT is done by the transaction itself before it commits: a table that is to be empty gets
//!   heaps of its own then, as by TRUNCATE, and one that is to go is dropped with what rests on it. A table
//!   is not emptied under one that refers to it and keeps its rows: the commit fails. So what fails, fails
//!   before.
//! - **E5** Nothing that stays rests on them: a view over one is temporary, no stored code names one, no
//!   function returns their rows, and no other table's default takes values of their sequences.
//! - **E6** When the session ends, their memory is given up, as that of dropped tables.
//! - **E7** What a temporary view rests on is kept for it: the database counts, for each object, the sessions
//!   that have such views, and others neither drop it nor give its columns other places. It is counted before
//!   the claims of the transaction that made the view are let go of (definers/G3).
//! - **E8** An unlogged table is in the dictionary as others are, and all sessions see it; but its heaps, and
//!   the counters of unlogged sequences, are volatile, too, and have numbers that each process gives anew. So
//!   the table is empty whenever a database was opened, and the sequence begins anew.
use crate::catalog::Reference;
use crate::connection::Connection;
use crate::draft::Draft;
use crate::name::{Name, TEMPORARY};
use crate::table::{Table, TableIndex};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::Arc;

/// The first number of a temporary object; heaps' numbers are twice theirs.
pub const FIRST: u32 = 1 << 30;
const _: () = assert!(FIRST * 2 == ondol_kernel::heap::VOLATILE);

/// Whether the number is that of a temporary object (E2).
pub fn is_temporary(id: u32) -> bool {
    id >= FIRST
}

/// What is done to a temporary table when a transaction commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCommit {
    #[default]
    Preserve,
    Delete,
    Drop,
}

impl Connection {
    /// Says what is done to a temporary table that the open transaction has made.
    pub fn set_on_commit(&mut self, name: &Name, action: OnCommit) -> SqlResult<()> {
        let Some(id) = self.catalog().table(name).filter(|_| name.schema == TEMPORARY).map(|t| t.def.id)
        else {
            return Err(SqlError::new(sqlstate::UNDEFINED_TABLE, "a temporary table that is not there"));
        };
        if action != OnCommit::Preserve {
            self.draft().on_commit.insert(id, action);
        }
        Ok(())
    }

    /// Whether the session has tables of its own.
    pub fn has_temporary(&self) -> bool {
        self.draft.as_ref().is_some_and(|d| d.temporary_tables().next().is_some())
    }

    /// E4, where there is something to do.
    #[inline]
    pub(crate) fn act_on_commit(&mut self) -> SqlResult<()> {
        match &self.draft {
            Some(draft) if !draft.on_commit.is_empty() => {
                let draft = draft.clone();
                self.act_by(&draft)
            }
            _ => Ok(()),
        }
    }
    #[cold]
    fn act_by(&mut self, draft: &Draft) -> SqlResult<()> {
        let db = self.db.clone();
        let action = |id: u32| draft.on_commit.get(&id).copied().unwrap_or_default();
        for table in draft.temporary_tables().filter(|t| action(t.def.id) == OnCommit::Delete) {
            let keeps = |r: &&Reference| action(r.table) != OnCommit::Delete;
            if let Some(r) = table.references.iter().find(keeps) {
                let message = "unsupported ON COMMIT and foreign key combination";
                return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message).detail(format!(
                    "Table \"{}\" references \"{}\", but they do not have the same ON COMMIT setting.",
                    r.name.name, table.def.name
                )));
            }
        }
        let ids: Vec<u32> = draft.temporary_tables().map(|t| t.def.id).collect();
        for id in ids {
            // What was done to another may have changed it.
            let catalog = self.catalog();
            let Some(old) = catalog.table_by_id(id) else { continue };
            let name = old.def.full_name();
            match draft.on_commit.get(&old.def.id) {
                Some(OnCommit::Delete) if old.count_rows() > 0 => {
                    let heaps = db.next_heaps(&old.def)?;
                    self.made.push(heaps);
                    let layout = Table::layout_of(&old.def);
                    let new =
                        |i: &crate::IndexDef| TableIndex::new(&db.kernel, &old.def, &layout, i.clone(), 0);
                    let indexes = old.def.indexes.iter().map(new).collect::<SqlResult<Vec<_>>>()?;
                    self.dropped.push(old.heaps);
                    let new = Table::new(&db.kernel, old.def.clone(), heaps, indexes, Some(old));
                    self.draft().table(&name, Some(new));
                }
                Some(OnCommit::Drop) => self.drop_own(old)?,
                _ => {}
            }
        }
        Ok(())
    }
    /// Drops a table of the session's own with all that rests on it, which is its own as well.
    fn drop_own(&mut self, table: &Arc<Table>) -> SqlResult<()> {
        self.drop_own_views(table.def.id);
        for r in table.references.iter().filter(|r| r.table != table.def.id) {
            let Some(child) = self.catalog().table_by_id(r.table).cloned() else { continue };
            let mut def = child.def.clone();
            def.foreign.retain(|f| f.id != r.key.id);
            let (kernel, name) = (self.db.kernel.clone(), def.full_name());
            let without = Table::new(&kernel, def, child.heaps, child.indexes.clone(), Some(&child));
            self.draft().table(&name, Some(without))
        }
        self.relink(&table.def, None)?;
        for sequence in table.def.sequences() {
            self.remove_sequence(sequence)?
        }
        self.dropped.push(table.heaps);
        let catalog = self.catalog();
        let draft = self.draft();
        draft.table(&table.def.full_name(), None);
        draft.on_commit.remove(&table.def.id);
        table.def.indexes.iter().for_each(|i| draft.index(table.def.index_name(i), None));
        for id in table.def.indexes.iter().map(|i| i.id).chain([table.def.id]) {
            catalog.comments_on(id).into_iter().for_each(|(on, _)| draft.comment(on, None))
        }
        draft.rights(table.def.id, None);
        Ok(())
    }
    fn drop_own_views(&mut self, over: u32) {
        let catalog = self.catalog();
        for view in catalog.views_over(over).filter(|v| is_temporary(v.id)) {
            self.drop_own_views(view.id);
            let draft = self.draft();
            draft.drop_view(view);
            draft.rights(view.id, None);
            catalog.comments_on(view.id).into_iter().for_each(|(on, _)| draft.comment(on, None))
        }
    }

    /// DISCARD TEMP: drops all that is the session's own.
    pub fn discard_temporary(&mut self) -> SqlResult<()> {
        self.as_definition(|me| {
            let catalog = me.catalog();
            for table in catalog.tables().filter(|t| is_temporary(t.def.id)) {
                me.mark_table(table, "DROP TABLE")?
            }
            for view in catalog.views.values().filter(|v| is_temporary(v.id)) {
                let draft = me.draft();
                draft.drop_view(view);
                draft.rights(view.id, None);
                catalog.comments_on(view.id).into_iter().for_each(|(on, _)| draft.comment(on, None))
            }
            let ids: Vec<u32> = catalog.tables().map(|t| t.def.id).filter(|id| is_temporary(*id)).collect();
            for id in ids {
                if let Some(table) = me.catalog().table_by_id(id).cloned() {
                    me.drop_own(&table)?
                }
            }
            let ids: Vec<u32> =
                me.catalog().sequences().map(|s| s.def.id).filter(|i| is_temporary(*i)).collect();
            ids.into_iter().try_for_each(|id| me.remove_sequence(id))
        })
    }

    /// Something goes that others have no views over (E7).
    pub(crate) fn refuse_rested(&self, id: u32, what: &str) -> SqlResult<()> {
        let all = self.db.rested.lock().get(&id).copied().unwrap_or(0);
        let own = all > 0 && self.temporary.as_ref().is_some_and(|t| t.rested_on().contains(&id));
        if all == u32::from(own) {
            return Ok(());
        }
        let message = format!("cannot drop {what} because other objects depend on it");
        Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .detail(format!("A temporary view of another session depends on {what}.")))
    }

    /// What the session has of its own from now on.
    pub(crate) fn set_temporary(&mut self, own: Option<Arc<Draft>>) {
        let rested = |d: &Option<Arc<Draft>>| d.as_ref().map_or_else(Default::default, |d| d.rested_on());
        let (before, now) = (rested(&self.temporary), rested(&own));
        if before != now {
            let mut counts = self.db.rested.lock();
            now.difference(&before).for_each(|id| *counts.entry(*id).or_default() += 1);
            for id in before.difference(&now) {
                if let Some(n) = counts.get_mut(id) {
                    *n -= 1
                }
            }
            counts.retain(|_, n| *n > 0)
        }
        self.temporary = own
    }

    /// E6, when no transaction is open.
    pub(crate) fn forget_temporary(&mut self) {
        let Some(own) = self.temporary.clone() else { return };
        self.set_temporary(None);
        self.set_draft(None);
        for n in own.temporary_tables().flat_map(|t| [t.heaps * 2, t.heaps * 2 + 1]) {
            self.session.forget_heap(n);
            self.db.kernel.drop_heap(n)
        }
    }
}
