//! Locks of rows: in their headers, shared ones in the table of waits, where the queues are, too.
use super::{Did, Isolation, LockMode, Locked, SHARE_BYTES, Session, TxnState, Wait, Write};
use crate::error::{Error, Result};
use crate::slot::{self, FRESH, ID, INSTALLING, LIVE, OWNED, Status, row};
use crate::table::TableStore;
use crate::version::{LATCHED, MARK, POINTER, QUEUED, SHARED, SMALL, Version, node};
use crate::wait::{Waiter, Want};
use ondol_base::oid::Oid;
use ondol_base::sync::{spin_wait, yield_point};
use ondol_durability::TxnId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What an attempt to lock a row came to.
enum Tried {
    Done(Locked),
    /// Another transaction owns it.
    Owned,
    /// Others share it, or queue for it.
    Queued,
}

impl Session {
    /// Takes the row's lock for this transaction.
    pub fn lock(&mut self, table: &Arc<TableStore>, oid: Oid, mode: LockMode, wait: Wait) -> Result<Locked> {
        match mode {
            LockMode::Update => self.lock_update(table, oid, wait, false),
            LockMode::Share => match self.try_share(table, oid)? {
                Tried::Done(locked) => Ok(locked),
                tried => {
                    self.lock_in_turn(oid, Want::Share, wait, tried, |session| session.try_share(table, oid))
                }
            },
        }
    }

    pub(super) fn lock_update(
        &mut self,
        table: &Arc<TableStore>,
        oid: Oid,
        wait: Wait,
        any: bool,
    ) -> Result<Locked> {
        match self.try_update(table, oid, any)? {
            Tried::Done(locked) => Ok(locked),
            tried => {
                self.lock_in_turn(oid, Want::Own, wait, tried, |session| session.try_update(table, oid, any))
            }
        }
    }

    /// Goes on to lock a row where a first attempt met others.
    #[cold]
    #[inline(never)]
    fn lock_in_turn(
        &mut self,
        oid: Oid,
        want: Want,
        wait: Wait,
        mut tried: Tried,
        mut again: impl FnMut(&mut Session) -> Result<Tried>,
    ) -> Result<Locked> {
        // Nobody queues for what is about to be let go, and it keeps nobody from having it at once.
        while let Tried::Owned = tried
            && self.is_passing(oid)
        {
            match again(self)? {
                Tried::Done(locked) => return Ok(locked),
                other => tried = other,
            }
        }
        match wait {
            Wait::NoWait => return Err(Error::LockNotAvailable { timeout: false }),
            Wait::Skip => return Ok(Locked::Skipped),
            Wait::Block => {}
        }
        let kernel = self.kernel.clone();
        let place = kernel.waits.queue(&self.waiter(), oid, want);
        loop {
            place.turn(&self.waiter())?;
            if let Tried::Done(locked) = again(self)? {
                return Ok(locked);
            }
        }
    }

    /// Whether whoever owns the row, or owned it just now, lets go without waiting for anybody; waits for
    /// that.
    fn is_passing(&self, oid: Oid) -> bool {
        let mut turn = 0;
        loop {
            let w0 = self.kernel.space.word(oid.bits()).load(Ordering::Acquire);
            if w0 & OWNED == 0 || w0 & ID == self.view.txn {
                return true;
            }
            if w0 & INSTALLING == 0
                && matches!(self.owner_status(oid, w0), Some(Status::Active | Status::Preparing(_)))
                && !self.kernel.waits.shares(oid, self.view.txn)
            {
                return false;
            }
            spin_wait(turn);
            turn += 1;
        }
    }

    /// How far the owner of a slot is, if it can be told right now.
    pub(super) fn owner_status(&self, oid: Oid, w0: u64) -> Option<Status> {
        let pin = self.participant.pin();
        slot::owner(&self.kernel.space, &pin, oid, w0).map(TxnState::get)
    }

    pub fn waiter(&self) -> Waiter<'_> {
        Waiter {
            session: self.id(),
            txn: self.view.txn,
            participant: &self.participant,
            parker: &self.parker,
            patience: &self.patience,
        }
    }

    /// Waits until `owner` does not own the row any more (wait/W7).
    pub(super) fn wait_over(&self, oid: Oid, owner: TxnId) -> Result<()> {
        let who = self.waiter();
        self.kernel.waits.queue(&who, oid, Want::Over(owner)).turn(&who)
    }

    #[inline(always)]
    fn try_update(&mut self, table: &Arc<TableStore>, oid: Oid, any: bool) -> Result<Tried> {
        loop {
            let space = &self.kernel.space;
            let w0 = space.word(oid.bits()).load(Ordering::Acquire);
            if w0 == 0 {
                return Ok(Tried::Done(Locked::Gone));
            }
            if w0 & OWNED != 0 {
                if w0 & ID == self.view.txn {
                    return Ok(Tried::Done(if any { Locked::Same } else { self.locked_before(oid, w0) }));
                }
                return Ok(Tried::Owned);
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
                    return Ok(Tried::Done(Locked::Gone));
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
            // wait/W1, wait/W3
            if link & (SHARED | QUEUED) != 0 && !self.may_keep(oid) {
                return Ok(Tried::Queued);
            }
            if newer {
                self.seen = self.seen.max(w0)
            }
            return Ok(Tried::Done(if newer { Locked::Changed } else { Locked::Same }));
        }
    }

    /// Whether others leave us the row that we have just taken; else we have stepped back.
    #[cold]
    fn may_keep(&mut self, oid: Oid) -> bool {
        let (kernel, session) = (self.kernel.clone(), self.id());
        if kernel.waits.keep(oid, session, self.open().state()) {
            return true;
        }
        yield_point();
        self.undo_last();
        false
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

    fn try_share(&mut self, table: &Arc<TableStore>, oid: Oid) -> Result<Tried> {
        let kernel = self.kernel.clone();
        let space = &kernel.space;
        loop {
            let w0 = space.word(oid.bits()).load(Ordering::Acquire);
            if w0 == 0 {
                return Ok(Tried::Done(Locked::Gone));
            }
            if w0 & OWNED != 0 {
                if w0 & ID == self.view.txn {
                    return Ok(Tried::Done(self.locked_before(oid, w0)));
                }
                return Ok(Tried::Owned);
            }
            let newer = w0 > self.view.snapshot;
            if newer && self.open().isolation != Isolation::ReadCommitted {
                return Err(Error::Conflict);
            }
            self.room()?;
            self.charge(SHARE_BYTES)?;
            self.open().charged += SHARE_BYTES;
            let state = self.open().state().clone();
            let new = kernel.waits.share(oid, &state);
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
            return Ok(Tried::Done(match newer {
                false => Locked::Same,
                true if space.word(row(oid)).load(Ordering::Relaxed) & LIVE as u64 == 0 => Locked::Gone,
                true => Locked::Changed,
            }));
        }
    }
    pub(super) fn unshare(&self, oid: Oid) {
        self.kernel.waits.unshare(oid, self.view.txn)
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
