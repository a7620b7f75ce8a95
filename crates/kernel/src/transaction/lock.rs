//! Locks of rows: in their headers, shared ones in a table of their own (see `sharers`).
//!
//! ```text
//!                    KEY SHARE   SHARE   NO KEY UPDATE   UPDATE
//!   KEY SHARE                                              x        x: two transactions cannot have both
//!   SHARE                                      x           x
//!   NO KEY UPDATE                  x           x           x
//!   UPDATE             x           x           x           x
//! ```
//! - **L1** *Modes.* They are PostgreSQL's. The two that update are in the row's header, which names the one
//!   owner, and WHOLE there tells them apart; who has inserted the row has it FOR UPDATE. The two that share
//!   are in the table of sharers, and leave the header alone.
//! - **L2** *Sharing an owned row.* FOR KEY SHARE goes beside an owner FOR NO KEY UPDATE: the version that is
//!   shared is the committed one, and the keys that it has will be those of the owner's, too.
//! - **L3** *Keys.* DELETE locks FOR UPDATE. UPDATE locks FOR NO KEY UPDATE, and makes that FOR UPDATE before
//!   it changes a row so that its key in a unique index is another: what values are set decides, not what
//!   columns. So who shares a row's keys knows that it stays, and keeps them.
//! - **L4** *Stronger.* A transaction that owns a row sets WHOLE, then looks for sharers; if others are there
//!   it takes WHOLE back, and queues, before all others, still owning the row. A write in the transaction's
//!   list says so, and going back to a savepoint before it makes the lock what it was, which may be what
//!   others wait for.
//! - **L5** *Snapshots.* Above READ COMMITTED a row that was changed since the snapshot is a conflict
//!   (40001). For KEY SHARE it is none if the row has the unique keys that it had: what is locked did not
//!   change.
//! - **L6** *Given back.* Who waits as L4 says owns the row meanwhile, and one of the sharers who would then
//!   change it closes a cycle. So an UPDATE that finds sharers gives back a row that its command has locked
//!   and done nothing to, waits for it as for any other, for UPDATE, and looks at it anew.
use super::{
    Did, Isolation, LockMode, Locked, Newest, SHARE_BYTES, Savepoint, Session, TxnState, Wait, Write,
};
use crate::error::{Error, Result};
use crate::slot::{self, FRESH, ID, INSTALLING, LIVE, OWNED, Status, WHOLE, row};
use crate::table::TableStore;
use crate::version::{KEY_SHARED, LATCHED, MARK, POINTER, QUEUED, SHARED, SMALL, Version, node};
use crate::wait::{ASIDE, Patience, Waiter, Want};
use ondol_base::oid::Oid;
use ondol_base::sim::mutated;
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
            LockMode::NoKeyUpdate => self.lock_own(table, oid, mutated("keys_always_locked"), wait, false),
            LockMode::Update => self.lock_own(table, oid, true, wait, false),
            _ => match self.try_share(table, oid, mode)? {
                Tried::Done(locked) => Ok(locked),
                tried => {
                    self.lock_in_turn(oid, mode, wait, tried, |session| session.try_share(table, oid, mode))
                }
            },
        }
    }

    /// Owns the row, for its keys too if it is to be had `whole`; `any` version of it.
    pub(super) fn lock_own(
        &mut self,
        table: &Arc<TableStore>,
        oid: Oid,
        whole: bool,
        wait: Wait,
        any: bool,
    ) -> Result<Locked> {
        match self.try_own(table, oid, whole, any)? {
            Tried::Done(locked) => Ok(locked),
            tried => {
                let mode = if whole { LockMode::Update } else { LockMode::NoKeyUpdate };
                self.lock_in_turn(oid, mode, wait, tried, |session| session.try_own(table, oid, whole, any))
            }
        }
    }

    /// Goes on to lock a row where a first attempt met others.
    #[cold]
    #[inline(never)]
    fn lock_in_turn(
        &mut self,
        oid: Oid,
        mode: LockMode,
        wait: Wait,
        mut tried: Tried,
        mut again: impl FnMut(&mut Session) -> Result<Tried>,
    ) -> Result<Locked> {
        // Nobody queues for what is about to be let go, and it keeps nobody from having it at once.
        while let Tried::Owned = tried
            && self.is_passing(oid, mode)
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
        let place = kernel.waits.queue(&self.waiter(), oid, Want::Lock(mode));
        loop {
            if let Err(e) = place.turn(&self.waiter()) {
                if matches!(e, Error::Deadlock) {
                    // wait/W11
                    let w0 = self.kernel.space.word(oid.bits()).load(Ordering::Acquire);
                    self.rival = (w0 & OWNED != 0).then_some((oid, w0 & ID))
                }
                return Err(e);
            }
            if let Tried::Done(locked) = again(self)? {
                return Ok(locked);
            }
        }
    }

    /// Whether whoever is in the way as the row's owner, or was just now, lets go without waiting for
    /// anybody; waits for that.
    fn is_passing(&self, oid: Oid, mode: LockMode) -> bool {
        let mut turn = 0;
        loop {
            let w0 = self.kernel.space.word(oid.bits()).load(Ordering::Acquire);
            if w0 & OWNED == 0 || w0 & ID == self.view.txn {
                return true;
            }
            if w0 & INSTALLING == 0
                && matches!(self.owner_status(oid, w0), Some(Status::Active | Status::Preparing(_)))
            {
                let (owner, sharers) = (slot::owner_mode(w0), &self.kernel.waits.sharers);
                if !owner.conflicts(mode) {
                    return true;
                }
                // wait/W3: it is about to find what we share, and to step back.
                let shared = sharers.mode_of(oid, self.id(), self.view.txn);
                if shared.is_none_or(|shared| !shared.conflicts(owner)) {
                    return false;
                }
            }
            spin_wait(turn);
            turn += 1;
        }
    }

    /// The victim of a deadlock, rolled back, waits for whoever had its row (wait/W11). Its snapshot is
    /// published still.
    #[cold]
    pub(super) fn step_aside(&self, (oid, owner): (Oid, TxnId)) {
        let patience = Patience { timeout: Some(ASIDE), cancel: self.patience.cancel.clone() };
        let who = Waiter { txn: 0, patience: &patience, ..self.waiter() };
        // Whatever ends the wait: the error is the deadlock.
        let _ = self.kernel.waits.queue(&who, oid, Want::Aside(owner)).turn(&who);
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
    fn try_own(&mut self, table: &Arc<TableStore>, oid: Oid, whole: bool, any: bool) -> Result<Tried> {
        loop {
            let space = &self.kernel.space;
            let w0 = space.word(oid.bits()).load(Ordering::Acquire);
            if w0 == 0 {
                return Ok(Tried::Done(Locked::Gone));
            }
            if w0 & OWNED != 0 {
                if w0 & ID == self.view.txn {
                    if whole && w0 & (WHOLE | FRESH) == 0 && !self.strengthen(table, oid)? {
                        return Ok(Tried::Queued);
                    }
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
            let (owner, flags) = match whole {
                true => (OWNED | WHOLE, KEY_SHARED | SHARED | QUEUED),
                false => (OWNED, SHARED | QUEUED),
            };
            // Dead rows are never owned: their slot may be freed at any time. While we are pinned it is not
            // freed and taken anew, so an unchanged header means the same version, which is alive.
            let pin = self.participant.pin();
            let dead = space.word(row(oid)).load(Ordering::Acquire) & LIVE as u64 == 0;
            let taken = !dead
                && space
                    .word(oid.bits())
                    .compare_exchange(w0, owner | self.view.txn, Ordering::SeqCst, Ordering::Relaxed)
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
            if link & flags != 0 && !self.may_keep(oid, whole) {
                return Ok(Tried::Queued);
            }
            if newer {
                self.seen = self.seen.max(w0)
            }
            return Ok(Tried::Done(if newer { Locked::Changed } else { Locked::Same }));
        }
    }

    /// Makes the lock of a row that we own FOR UPDATE (L4); false if others share its keys.
    #[cold]
    #[inline(never)]
    fn strengthen(&mut self, table: &Arc<TableStore>, oid: Oid) -> Result<bool> {
        self.room()?;
        let table = self.table_number(table);
        self.kernel.space.word(oid.bits()).fetch_or(WHOLE, Ordering::SeqCst);
        yield_point();
        let node = std::ptr::null_mut();
        let did = Did::Whole;
        self.open().writes.push(Write {
            oid,
            node,
            table,
            did,
            spilled: false,
            string: false,
            rekeyed: false,
        });
        let link = self.kernel.space.word(oid.bits() + 8).load(Ordering::SeqCst);
        let unasked = mutated("strengthened_unasked");
        Ok(link & (KEY_SHARED | SHARED | QUEUED) == 0 || unasked || self.may_keep(oid, true))
    }

    /// Gives back a row that is ours, if others share its keys and this command has only locked it (L6).
    #[cold]
    pub(super) fn let_go_if_shared(&mut self, table: &Arc<TableStore>, oid: Oid) -> Result<()> {
        let (command, fill_from) = (self.view.command, self.open().fill_from);
        // Behind the lock there are at most the strings of the row as it would become.
        let writes = &self.open().writes;
        let at = writes.iter().rposition(|w| !(w.string && w.did == Did::Insert));
        let Some(at) = at.filter(|at| *at >= fill_from) else { return Ok(()) };
        let w = &writes[at];
        let is_lock = w.oid == oid && w.did == Did::Node && !w.string && {
            // SAFETY: our own node, which is pending; so its mark is one of ours.
            let (is_empty, by) = unsafe { ((*w.node).is_empty(), (*(*w.node).mark).command()) };
            is_empty && by == command
        };
        if !is_lock {
            return Ok(());
        }
        match self.try_own(table, oid, true, true)? {
            Tried::Done(_) => Ok(()),
            _ => {
                self.rollback_to(Savepoint { writes: at })?;
                Err(Error::KeysShared)
            }
        }
    }

    /// Whether others leave us the row that we have just taken; else we have stepped back.
    #[cold]
    fn may_keep(&mut self, oid: Oid, whole: bool) -> bool {
        let (kernel, session) = (self.kernel.clone(), self.id());
        let mode = if whole { LockMode::Update } else { LockMode::NoKeyUpdate };
        let before = self.open().writes.last().is_some_and(|w| w.did == Did::Whole);
        if kernel.waits.keep(oid, session, self.open().state(), mode, before) {
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

    /// Whether the transaction itself has changed a row by the command `since`, or a later one.
    pub fn has_changed(&self, oid: Oid, since: u32) -> bool {
        let _pin = self.participant.pin();
        let space = &self.kernel.space;
        let w0 = space.word(oid.bits()).load(Ordering::Acquire);
        if w0 & OWNED == 0 || w0 & ID != self.view.txn {
            return false;
        }
        let mut next = space.word(oid.bits() + 8).load(Ordering::Acquire);
        // SAFETY: the slot is ours, and we are pinned: neither its nodes nor their marks are freed.
        while let Some(v) = unsafe { node(next) }.filter(|v| v.is_pending()) {
            // SAFETY: likewise.
            if !v.is_empty() && unsafe { (*v.mark).command() } >= since {
                return true;
            }
            next = v.next.load(Ordering::Acquire);
        }
        false
    }

    fn try_share(&mut self, table: &Arc<TableStore>, oid: Oid, mode: LockMode) -> Result<Tried> {
        let kernel = self.kernel.clone();
        let space = &kernel.space;
        let mut turn = 0;
        loop {
            let w0 = space.word(oid.bits()).load(Ordering::Acquire);
            if w0 == 0 {
                return Ok(Tried::Done(Locked::Gone));
            }
            let owned = w0 & OWNED != 0;
            if owned {
                if w0 & ID == self.view.txn {
                    return Ok(Tried::Done(self.locked_before(oid, w0)));
                }
                if w0 & INSTALLING != 0 || slot::owner_mode(w0).conflicts(mode) {
                    return Ok(Tried::Owned);
                }
            }
            // L2
            let Some(commit) = (if owned { self.commit_below(oid, w0) } else { Some(w0) }) else {
                spin_wait(turn);
                turn += 1;
                continue;
            };
            let newer = commit > self.view.snapshot;
            let conflict = newer && self.open().isolation != Isolation::ReadCommitted;
            if conflict && mode != LockMode::KeyShare {
                return Err(Error::Conflict);
            }
            self.room()?;
            self.charge(SHARE_BYTES)?;
            self.open().charged += SHARE_BYTES;
            let state = self.open().state().clone();
            let new = kernel.waits.sharers.enter(space, oid, &state, mode);
            yield_point();
            let step_back = || {
                if new {
                    kernel.waits.unshare(oid, &state, mode)
                }
            };
            if space.word(oid.bits()).load(Ordering::SeqCst) != w0 {
                step_back();
                continue;
            }
            let dead = || space.word(row(oid)).load(Ordering::Relaxed) & LIVE as u64 == 0;
            // L5
            if conflict && (dead() || !self.has_kept_keys(table, oid)) {
                step_back();
                return Err(Error::Conflict);
            }
            if newer && !conflict {
                self.seen = self.seen.max(commit)
            }
            if dead() {
                step_back();
                return Ok(Tried::Done(Locked::Gone));
            }
            // Shared once only: else the rollback of a later statement would give an earlier one's lock back.
            if new {
                let number = self.table_number(table);
                let write = Write {
                    oid,
                    node: std::ptr::null_mut(),
                    table: number,
                    did: if mode == LockMode::KeyShare { Did::KeyShare } else { Did::Share },
                    spilled: false,
                    string: false,
                    rekeyed: false,
                };
                self.open().writes.push(write);
            }
            return Ok(Tried::Done(if newer && !conflict { Locked::Changed } else { Locked::Same }));
        }
    }

    /// The commit of the version below what another is changing, if it can be told right now.
    fn commit_below(&self, oid: Oid, w0: u64) -> Option<u64> {
        let space = &self.kernel.space;
        let pin = self.participant.pin();
        let Status::Active = slot::owner(space, &pin, oid, w0)?.get() else { return None };
        // SAFETY: pinned.
        let v = unsafe { node(space.word(oid.bits() + 8).load(Ordering::Acquire)) }?;
        let commit = v.is_pending().then_some(v.prev)?;
        (space.word(oid.bits()).load(Ordering::Acquire) == w0).then_some(commit)
    }

    /// Whether a row's newest version has the unique keys that the snapshot's has.
    fn has_kept_keys(&mut self, table: &TableStore, oid: Oid) -> bool {
        let (mut old, mut new) = (vec![0; table.row_size], vec![0; table.row_size]);
        if !self.read(oid, &mut old) || !self.read_newest(oid, &mut new) {
            return false;
        }
        let key = |index: &crate::table::IndexStore, row: &[u8]| {
            let mut key = vec![];
            index.key.key(row, &Newest(self), &mut key);
            key
        };
        table.entered().iter().filter(|i| i.unique).all(|i| key(i, &old) == key(i, &new))
    }

    pub(super) fn unshare(&self, oid: Oid, mode: LockMode) {
        if let Some(t) = &self.txn {
            self.kernel.waits.unshare(oid, t.state(), mode)
        }
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
