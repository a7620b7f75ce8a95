//! The row that a foreign key names: looked for, and kept.
//!
//! - **F1** The row is looked for as it is now, whatever the snapshot: its newest committed version, or our
//!   own. What another inserts, or gives the key to, is not there before it is committed, and is not waited
//!   for; what another deletes, or takes the key from, is there until that is committed, and is waited for.
//! - **F2** The row is locked FOR KEY SHARE, and looked at again under the lock: so it is there, and has the
//!   key, until the transaction ends.
//! - **F3** Above READ COMMITTED a row that the snapshot does not show is none; one that it shows and that
//!   has gone since, or has another key, is a conflict (40001). Nothing else of it matters (lock/L5). So what
//!   was found need not be remembered by a serializable transaction; that nothing was found is.
use super::{Isolation, LockMode, Locked, Newest, Session, Wait};
use crate::error::{Error, Result};
use crate::slot::{self, FRESH, ID, OWNED, Status, View};
use crate::table::{IndexStore, TableStore};
use ondol_base::oid::Oid;
use ondol_base::sim::mutated;
use ondol_base::sync::spin_wait;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Session {
    /// The row that has this unique key, locked FOR KEY SHARE (F2).
    pub fn share_key(
        &mut self,
        table: &Arc<TableStore>,
        index: &Arc<IndexStore>,
        key: &[u8],
    ) -> Result<Option<Oid>> {
        let settled = self.open().isolation == Isolation::ReadCommitted;
        let (mut oids, mut seen) = (vec![], vec![]);
        let mut row = vec![0; table.row_size];
        'again: loop {
            self.patience.look()?;
            oids.clear();
            seen.clear();
            {
                let remembers = self.is_serializable();
                let guard = self.participant.pin();
                index.index.lookup(&guard, key, &mut oids, remembers.then_some(&mut seen));
            }
            for &oid in &oids {
                let of_snapshot = mutated("keys_of_snapshot");
                let shown = match settled && !of_snapshot {
                    true => false,
                    false => self.shows_key(index, key, oid, &mut row),
                };
                if of_snapshot && shown {
                    return Ok(Some(oid));
                }
                if self.newest_has(index, key, oid, &mut row) != Some(true) {
                    if shown {
                        return Err(Error::Conflict);
                    }
                    continue;
                }
                let w0 = self.kernel.space.word(oid.bits()).load(Ordering::Acquire);
                if w0 & OWNED != 0 && w0 & ID == self.view.txn {
                    return Ok(Some(oid));
                }
                if !settled && !shown {
                    continue;
                }
                if mutated("key_share_left_out") {
                    return Ok(Some(oid));
                }
                let since = self.here();
                let locked = self.lock(table, oid, LockMode::KeyShare, Wait::Block)?;
                if locked != Locked::Gone && self.newest_has(index, key, oid, &mut row) == Some(true) {
                    return Ok(Some(oid));
                }
                self.rollback_to(since)?;
                continue 'again;
            }
            self.remember_nodes(index, &mut seen)?;
            for oid in &oids {
                self.remember_row(*oid)?
            }
            return Ok(None);
        }
    }

    /// Whether the transaction's snapshot, with all that it has done itself, shows a row with the key.
    fn shows_key(&self, index: &IndexStore, key: &[u8], oid: Oid, row: &mut [u8]) -> bool {
        let shown = {
            let view = View { command: u32::MAX, ..self.view };
            let pin = self.participant.pin();
            slot::read(&self.kernel.space, &pin, oid, &view, row)
        };
        let mut has = vec![];
        shown && {
            index.key.key(row, &Newest(self), &mut has);
            has == key
        }
    }

    /// Waits until nobody else deletes the row or changes its keys.
    pub fn wait_for_keys(&mut self, oid: Oid) -> Result<()> {
        let mut turn = 0;
        loop {
            let w0 = self.kernel.space.word(oid.bits()).load(Ordering::Acquire);
            let others = w0 & OWNED != 0 && w0 & ID != self.view.txn && w0 & FRESH == 0;
            if !others || !slot::owner_mode(w0).conflicts(LockMode::KeyShare) {
                return Ok(());
            }
            match self.owner_status(oid, w0) {
                Some(Status::Active | Status::Preparing(_)) => self.wait_over(oid, w0 & ID)?,
                _ => {
                    spin_wait(turn);
                    turn += 1
                }
            }
        }
    }

    /// Whether the transaction's statements each have a snapshot of their own.
    pub fn is_read_committed(&self) -> bool {
        self.txn.as_ref().is_none_or(|t| t.isolation == Isolation::ReadCommitted)
    }
}
