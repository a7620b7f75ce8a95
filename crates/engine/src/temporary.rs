//! Temporary tables: a session's own, in schema `pg_temp`.
//!
//! ```text
//! the newest dictionary \
//! the session's own      > what its statements go by (draft/D2)
//! the open draft        /
//! ```
//! - **E1** They are in no dictionary but the connection's: a draft that stays when its transaction commits
//!   ([`Draft::temporary`]). What a transaction makes, changes or drops of them is in its draft, and goes
//!   back with it, to a savepoint or whole. Each session's own are in a schema of the same number, which
//!   others find empty.
//! - **E2** Their numbers are from [`FIRST`] on, and given anew by each process: the dictionary's tables have
//!   no rows of them. So their heaps are volatile (heap/A5): the log has nothing of their rows, nor has a
//!   checkpoint, and a crash leaves nothing.
//! - **E3** Nothing of them is claimed, and no claim is waited for: nobody else knows of them.
//! - **E4** ON COMMIT is done by the transaction itself before it commits: a table that is to be empty gets
//!   heaps of its own then, as by TRUNCATE, and one that is to go is dropped. So what fails, fails before.
//! - **E5** Nothing that stays rests on them: no stored code names one, and no function returns their rows.
//! - **E6** When the session ends, their memory is given up, as that of dropped tables.
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
        for old in draft.temporary_tables() {
            let name = old.def.full_name();
            match draft.on_commit.get(&old.def.id) {
                Some(OnCommit::Delete) if old.count_rows() > 0 => {
                    let heaps = db.next_object_in(TEMPORARY)?;
                    self.made.push(heaps);
                    let layout = Table::layout_of(&old.def);
                    let new =
                        |i: &crate::IndexDef| TableIndex::new(&db.kernel, &old.def, &layout, i.clone(), 0);
                    let indexes = old.def.indexes.iter().map(new).collect::<SqlResult<Vec<_>>>()?;
                    self.dropped.push(old.heaps);
                    let new = Table::new(&db.kernel, old.def.clone(), heaps, indexes, Some(old));
                    self.draft().table(&name, Some(new));
                }
                Some(OnCommit::Drop) => self.drop_own(old),
                _ => {}
            }
        }
        Ok(())
    }
    fn drop_own(&mut self, table: &Arc<Table>) {
        self.dropped.push(table.heaps);
        let draft = self.draft();
        draft.table(&table.def.full_name(), None);
        draft.on_commit.remove(&table.def.id);
        table.def.indexes.iter().for_each(|i| draft.index(table.def.index_name(i), None));
    }

    /// E6, when no transaction is open.
    pub(crate) fn forget_temporary(&mut self) {
        let Some(own) = self.temporary.take() else { return };
        self.set_draft(None);
        for n in own.temporary_tables().flat_map(|t| [t.heaps * 2, t.heaps * 2 + 1]) {
            self.session.forget_heap(n);
            self.db.kernel.drop_heap(n)
        }
    }
}
