//! Locks of rows: in their headers, shared ones in the table of waits.
use super::{Did, Isolation, LockMode, Locked, SHARE_BYTES, Session, TxnState, Wait, Write};
use crate::error::{Error, Result};
use crate::slot::{self, FRESH, ID, INSTALLING, LIVE, OWNED, Status, row};
use crate::table::TableStore;
use crate::version::{LATCHED, MARK, POINTER, SHARED, SMALL, Version, node};
use crate::wait::{Held, Hold};
use ondol_base::oid::Oid;
use ondol_base::sync::{spin_wait, yield_point};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

impl Session {
    /// Takes the row's lock for this transaction.
    pub fn lock(&mut self, table: &Arc<TableStore>, oid: Oid, mode: LockMode, wait: Wait) -> Result<Locked> {
        match mode {
            LockMode::Update => self.lock_update(table, oid, wait, false),
            LockMode::Share => self.lock_share(table, oid, wait),
        }
    }

    /// Waits until `txn` does not hold the row any more; false when it is to be skipped.
    pub(super) fn wait_for(&mut self, oid: Oid, hold: Hold, txn: Arc<TxnState>, wait: Wait) -> Result<bool> {
        match wait {
            Wait::NoWait => Err(Error::LockNotAvailable { timeout: false }),
            Wait::Skip => Ok(false),
            Wait::Block => {
                let held = Held { space: self.kernel.space.clone(), oid, hold, txn };
                self.kernel.waits.wait_for(self.id(), held, &self.patience)?;
                Ok(true)
            }
        }
    }

    /// The owner of a slot as a state that outlives our pin.
    pub(super) fn owner_of(&self, oid: Oid, w0: u64) -> Option<Arc<TxnState>> {
        let _pin = self.participant.pin();
        let link = self.kernel.space.word(oid.bits() + 8).load(Ordering::Acquire);
        // SAFETY: pinned.
        let state = &unsafe { slot::mark_of(link) }?.txn;
        (state.id == w0 & ID).then(|| state.clone())
    }

    /// Waits for the owner of a slot, or until the owner is clear; false when the slot is to be skipped.
    fn wait_for_owner(&mut self, oid: Oid, w0: u64, wait: Wait, turn: &mut u32) -> Result<bool> {
        if let Some(owner) = (w0 & INSTALLING == 0).then(|| self.owner_of(oid, w0)).flatten()
            && matches!(owner.get(), Status::Active | Status::Preparing(_))
            && !self.kernel.waits.shares(oid, self.view.txn)
        {
            *turn = 0;
            return self.wait_for(oid, Hold::Owns, owner, wait);
        }
        spin_wait(*turn);
        *turn += 1;
        Ok(true)
    }

    pub(super) fn lock_update(
        &mut self,
        table: &Arc<TableStore>,
        oid: Oid,
        wait: Wait,
        any: bool,
    ) -> Result<Locked> {
        let mut turn = 0;
        loop {
            let space = &self.kernel.space;
            let w0 = space.word(oid.bits()).load(Ordering::Acquire);
            if w0 == 0 {
                return Ok(Locked::Gone);
            }
            if w0 & OWNED != 0 {
                if w0 & ID == self.view.txn {
                    return Ok(if any { Locked::Same } else { self.locked_before(oid, w0) });
                }
                if !self.wait_for_owner(oid, w0, wait, &mut turn)? {
                    return Ok(Locked::Skipped);
                }
                continue;
            }
            let newer = w0 > self.view.snapshot && !any;
            if newer && self.open().isolation != Isolation::ReadCommitted {
                return Err(Error::Conflict);
            }
            self.room()?;
            self.charge(Version::bytes(SMALL))?;
            let mark = self.mark();
            let number = self.table_number(table);
            let space = &self.kernel.space;
            let Some(v) = Version::new(SMALL, w0, 0, mark) else {
                return Err(Error::OutOfMemory { limit: space.budget.limit() });
            };
            // Dead rows are never owned: their slot may be freed at any time. While we are pinned it is not
            // freed and taken anew, so an unchanged header means the same version, which is alive.
            let pin = self.participant.pin();
            let dead = space.word(row(oid)).load(Ordering::Acquire) & LIVE as u64 == 0;
            let taken = !dead
                && space
                    .word(oid.bits())
                    .compare_exchange(w0, OWNED | self.view.txn, Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok();
            let unchanged = taken || space.word(oid.bits()).load(Ordering::Acquire) == w0;
            drop(pin);
            if !taken {
                self.credit += Version::bytes(SMALL);
                // SAFETY: never shared.
                unsafe { Version::free(v) };
                if dead && unchanged {
                    self.seen = self.seen.max(w0);
                    return Ok(Locked::Gone);
                }
                continue;
            }
            yield_point();
            // SAFETY: not shared yet.
            unsafe { (*v).set_entry(self.txn.as_ref().map_or(0, |t| t.writes.len())) };
            let link = push(space.word(oid.bits() + 8), v);
            self.open().writes.push(Write {
                oid,
                node: v,
                table: number,
                did: Did::Node,
                spilled: false,
                string: false,
                rekeyed: false,
            });
            // wait/W3
            if link & SHARED != 0
                && let Some(holder) = self.kernel.waits.sharer(oid, self.view.txn)
            {
                yield_point();
                self.undo_last();
                if !self.wait_for(oid, Hold::Shares, holder, wait)? {
                    return Ok(Locked::Skipped);
                }
                continue;
            }
            if newer {
                self.seen = self.seen.max(w0)
            }
            return Ok(if newer { Locked::Changed } else { Locked::Same });
        }
    }

    /// What locking a row again finds. What this statement has locked and not changed may be newer than its
    /// snapshot: another name of the same row in the statement has still to learn that.
    fn locked_before(&self, oid: Oid, w0: u64) -> Locked {
        if w0 & FRESH != 0 {
            return Locked::Same;
        }
        // SAFETY: the slot is ours: its head cannot be freed.
        match unsafe { node(self.kernel.space.word(oid.bits() + 8).load(Ordering::Acquire)) } {
            Some(v) if v.is_empty() && v.prev > self.view.snapshot => Locked::Changed,
            _ => Locked::Same,
        }
    }

    fn lock_share(&mut self, table: &Arc<TableStore>, oid: Oid, wait: Wait) -> Result<Locked> {
        let kernel = self.kernel.clone();
        let space = &kernel.space;
        let mut turn = 0;
        loop {
            let w0 = space.word(oid.bits()).load(Ordering::Acquire);
            if w0 == 0 {
                return Ok(Locked::Gone);
            }
            if w0 & OWNED != 0 {
                if w0 & ID == self.view.txn {
                    return Ok(self.locked_before(oid, w0));
                }
                if !self.wait_for_owner(oid, w0, wait, &mut turn)? {
                    return Ok(Locked::Skipped);
                }
                continue;
            }
            let newer = w0 > self.view.snapshot;
            if newer && self.open().isolation != Isolation::ReadCommitted {
                return Err(Error::Conflict);
            }
            self.room()?;
            self.charge(SHARE_BYTES)?;
            self.open().charged += SHARE_BYTES;
            let state = self.open().state().clone();
            let new = kernel.waits.share(oid, &state, || {
                space.word(oid.bits() + 8).fetch_or(SHARED, Ordering::SeqCst);
            });
            yield_point();
            if space.word(oid.bits()).load(Ordering::SeqCst) != w0 {
                if new {
                    self.unshare(oid);
                }
                continue;
            }
            // Shared once only: else the rollback of a later statement would give an earlier one's lock back.
            if new {
                let number = self.table_number(table);
                let write = Write {
                    oid,
                    node: std::ptr::null_mut(),
                    table: number,
                    did: Did::Share,
                    spilled: false,
                    string: false,
                    rekeyed: false,
                };
                self.open().writes.push(write);
            }
            if newer {
                self.seen = self.seen.max(w0)
            }
            return Ok(match newer {
                false => Locked::Same,
                true if space.word(row(oid)).load(Ordering::Relaxed) & LIVE as u64 == 0 => Locked::Gone,
                true => Locked::Changed,
            });
        }
    }
    pub(super) fn unshare(&self, oid: Oid) {
        let space = &self.kernel.space;
        self.kernel.waits.unshare(oid, self.view.txn, || {
            space.word(oid.bits() + 8).fetch_and(!SHARED, Ordering::SeqCst);
        })
    }
}

/// Puts a node at the head of a chain, flags kept; gives the link that was there. The slot is ours, but a
/// collector may have the chain latched.
pub(super) fn push(word1: &AtomicU64, v: *mut Version) -> u64 {
    let mut turn = 0;
    loop {
        let link = word1.load(Ordering::Acquire);
        if link & LATCHED == 0 {
            // SAFETY: not shared yet.
            unsafe { (*v).next.store(link & (POINTER | MARK), Ordering::Relaxed) };
            let new = v as u64 | link & !(POINTER | MARK);
            if word1.compare_exchange(link, new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return link;
            }
        }
        spin_wait(turn);
        turn += 1;
    }
}
