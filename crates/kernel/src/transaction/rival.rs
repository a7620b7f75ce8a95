//! Inserting a row unless another has one of its unique keys.
//!
//! ```text
//! look: nobody has its keys ---> insert it ---> done
//!   ^ ^                            |
//!   | |                            `--> one of them is taken meanwhile: it is taken back
//!   | `-- wait, if that is not decided yet <--'
//!   |
//!   `---- look: somebody has one: the row is the answer
//! ```
//! - **R1** Nothing is made before a look found nobody, so who meets a row has paid for the look alone.
//! - **R2** What an attempt made (slot, strings, index entries) is taken back before its transaction waits
//!   for another: nobody waits for a row that is not going to be, and of two that meet on several keys the
//!   one that gives way holds none of them.
//! - **R3** The row that is met is the newest: another's that is not committed yet is waited for, as is one
//!   that another changes or deletes. Whoever only locks a row leaves its key as it is, and is not waited for
//!   here.
//! - **R4** Above READ COMMITTED a row that the snapshot does not show is a conflict (40001), whatever is to
//!   be done about it. What is met is read: a serializable transaction remembers the row.
//! - **R5** A row that is met is locked before it is looked at for good: whether it still has the key is
//!   asked again under the lock, and of its newest version. If not, the lock is given back.
//! - **R6** A row whose newest version is of the running command is not met to be changed again: that is an
//!   error, whatever the version was made of.
use super::{Isolation, LockMode, Locked, Newest, Savepoint, Session, Wait};
use crate::error::{Error, Result};
use crate::slot::{self, FRESH, ID, LIVE, OWNED};
use crate::table::{IndexStore, TableStore};
use crate::transaction::change::Has;
use crate::version::node;
use ondol_base::oid::Oid;
use ondol_base::sim::mutated;
use ondol_base::sync::yield_point;
use ondol_durability::TxnId;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A row that has a key which another was to be inserted with.
#[derive(Clone, Copy, Debug)]
pub struct Rival {
    pub oid: Oid,
    /// The commit that made its newest version; 0: it is this transaction's own.
    commit: u64,
}

/// What one look at a key came to.
enum Look {
    Nobody,
    Rival(Rival),
    /// The row of a transaction that could yet make or unmake it.
    Undecided(Oid, TxnId),
}

impl Session {
    /// The row that has this unique key; whoever could yet make or unmake it is waited for (R3).
    pub fn rival(
        &mut self,
        table: &Arc<TableStore>,
        index: &Arc<IndexStore>,
        key: &[u8],
    ) -> Result<Option<Rival>> {
        loop {
            self.patience.look()?;
            match self.look(table, index, key) {
                Look::Nobody => return Ok(None),
                Look::Rival(rival) => return Ok(Some(rival)),
                Look::Undecided(oid, owner) => self.wait_over(oid, owner)?,
            }
        }
    }

    fn look(&mut self, table: &Arc<TableStore>, index: &Arc<IndexStore>, key: &[u8]) -> Look {
        let mut oids = std::mem::take(&mut self.oids);
        oids.clear();
        {
            let guard = self.participant.pin();
            index.index.lookup(&guard, key, &mut oids, None);
        }
        let mut found = Look::Nobody;
        for &oid in &oids {
            found = match self.has_key(table, index, key, oid) {
                Has::No => continue,
                Has::Yes(commit) => Look::Rival(Rival { oid, commit }),
                Has::Perhaps(owner) => match self.only_locked(table, index, key, oid) {
                    Some(commit) => Look::Rival(Rival { oid, commit }),
                    None => Look::Undecided(oid, owner),
                },
            };
            break;
        }
        self.oids = oids;
        found
    }

    /// The commit of a row with this key that another owns and has changed nothing of. The owner may be
    /// another by now, and the row too, than when the key was found: both are asked of what is there now.
    pub(super) fn only_locked(
        &self,
        table: &TableStore,
        index: &IndexStore,
        key: &[u8],
        oid: Oid,
    ) -> Option<u64> {
        let space = &self.kernel.space;
        let _pin = self.participant.pin();
        let w0 = space.word(oid.bits()).load(Ordering::Acquire);
        if w0 & OWNED == 0 || w0 & FRESH != 0 {
            return None;
        }
        let mut next = space.word(oid.bits() + 8).load(Ordering::Acquire);
        let mut commit = None;
        // SAFETY: pinned.
        while let Some(v) = unsafe { node(next) }.filter(|v| v.is_pending()) {
            if !v.is_empty() {
                return None;
            }
            commit = Some(v.prev);
            next = v.next.load(Ordering::Acquire)
        }
        // What is committed stays while the row is owned.
        let has = self.newest_has(index, key, oid, &mut vec![0; table.row_size]);
        commit.filter(|_| has == Some(true) && space.word(oid.bits()).load(Ordering::Acquire) == w0)
    }

    /// Whether a row's newest version, which is in `row` then, has the key; none if there is no row.
    pub(super) fn newest_has(
        &self,
        index: &IndexStore,
        key: &[u8],
        oid: Oid,
        row: &mut [u8],
    ) -> Option<bool> {
        let mut has = vec![];
        self.read_newest(oid, row).then(|| {
            index.key.key(row, &Newest(self), &mut has);
            has == key
        })
    }

    /// Where the transaction is: what it does from here on can be undone.
    pub fn here(&mut self) -> Savepoint {
        Savepoint { writes: self.open().writes.len() }
    }

    /// As [`Session::insert`], but `None` if one of the row's keys may become another's, or is no other's any
    /// more: then all that was done since `since` is undone, and that was waited for (R2). It is undone as
    /// well if a key is another's for good, which is an error.
    pub fn insert_if_free(
        &mut self,
        table: &Arc<TableStore>,
        bytes: &[u8],
        since: Savepoint,
    ) -> Result<Option<Oid>> {
        debug_assert!(bytes.len().is_multiple_of(16) && bytes[0] & LIVE != 0);
        let oid = self.place(table, bytes)?;
        for index in table.entered() {
            let mut key = std::mem::take(&mut self.buffer);
            key.clear();
            let nulls = index.key.key(bytes, &Newest(self), &mut key);
            let met = match !index.unique || nulls {
                true => self.put_entry(index, &key, oid).map(|()| None),
                false => match self.enter_alone(index, &key, oid) {
                    Ok(true) => Ok(None),
                    Ok(false) => self.enter_beside(table, index, &key, oid),
                    Err(e) => Err(e),
                },
            };
            self.buffer = key;
            yield_point();
            match met {
                Ok(None) => {}
                Ok(Some((row, owner))) => {
                    if !mutated("attempt_kept") {
                        self.rollback_to(since)?
                    }
                    self.wait_over(row, owner)?;
                    return Ok(None);
                }
                Err(e) => {
                    if let Error::UniqueViolation { .. } = e {
                        self.rollback_to(since)?
                    }
                    return Err(e);
                }
            }
        }
        self.spill_if_large()?;
        Ok(Some(oid))
    }

    /// Leaves a row alone that was met, for the answer to rest on it (R4).
    pub fn leave(&mut self, rival: Rival) -> Result<()> {
        if rival.commit > self.view.snapshot {
            if self.open().isolation != Isolation::ReadCommitted {
                return Err(Error::Conflict);
            }
            self.seen = self.seen.max(rival.commit)
        }
        match mutated("rival_unread") {
            true => Ok(()),
            false => self.remember_row(rival.oid),
        }
    }

    /// Locks a row that was met, whose newest version is then in `row`; false if it has not the key any more
    /// (R5).
    pub fn lock_rival(
        &mut self,
        table: &Arc<TableStore>,
        index: &IndexStore,
        key: &[u8],
        rival: Rival,
        row: &mut [u8],
    ) -> Result<bool> {
        // R6
        self.upserts = (self.view.txn, self.view.command);
        if self.is_of_this_command(rival.oid) {
            return Err(Error::SecondTime);
        }
        let since = self.here();
        let locked = self.lock(table, rival.oid, LockMode::NoKeyUpdate, Wait::Block)?;
        if locked != Locked::Gone
            && let Some(has) = self.newest_has(index, key, rival.oid, row)
            && (has || mutated("rival_unlooked"))
        {
            // The lock alone would be given back by going back to a savepoint, and what was told of the row
            // rest on nothing.
            self.remember_row(rival.oid)?;
            return Ok(true);
        }
        self.rollback_to(since)?;
        Ok(false)
    }

    /// Whether the newest version of a row of ours was made by the running command, or by one nested in it.
    pub fn is_of_this_command(&self, oid: Oid) -> bool {
        let space = &self.kernel.space;
        let _pin = self.participant.pin();
        let w0 = space.word(oid.bits()).load(Ordering::Acquire);
        if w0 & OWNED == 0 || w0 & ID != self.view.txn {
            return false;
        }
        let command = self.view.command;
        let mut next = space.word(oid.bits() + 8).load(Ordering::Acquire);
        // SAFETY: pinned; the slot is ours, and so are its pending nodes, whose marks live as long as the
        // transaction.
        while let Some(v) = unsafe { node(next) }.filter(|v| v.is_pending()) {
            if !v.is_empty() {
                // SAFETY: as above.
                return unsafe { (*v.mark).command() } >= command;
            }
            next = v.next.load(Ordering::Acquire)
        }
        // SAFETY: the end of a fresh slot's chain is its mark.
        w0 & FRESH != 0 && unsafe { slot::mark_of(next) }.is_some_and(|m| m.command() >= command)
    }
}
