//! Taking back: fragments, savepoints, the end without effect.
use super::commit::{each_piece, is_unlogged};
use super::{Did, LockMode, Mark, SPILL, Savepoint, Session, Shared};
use crate::collect::remove_entry;
use crate::error::Result;
use crate::heap::Heap;
use crate::registry;
use crate::slot::{LIVE, Status, WHOLE, row};
use crate::table::{Committed, TableStore};
use crate::version::{MARK, Version, latch, node, set_head, unlatch};
use ondol_base::oid::Oid;
use ondol_durability::TxnId;
use ondol_durability::delta::Changes;
use ondol_durability::log::{Log, StreamId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Differences on their way into the log as fragments of an open transaction (protocol/P2).
struct Fragments<'a> {
    log: &'a Log,
    stream: StreamId,
    txn: TxnId,
    /// The next fragment's number, or where helpers have it from (share/D1).
    next: &'a mut u32,
    lender: Option<&'a Shared>,
    changes: &'a mut Changes,
}

impl Fragments<'_> {
    fn push(&mut self, oid: Oid, offset: usize, bytes: &[u8]) -> Result<()> {
        if self.changes.len() + bytes.len() + 64 > Log::MAX_RECORD {
            self.finish()?;
        }
        self.changes.push(oid, offset, bytes);
        Ok(())
    }
    /// Logs what is left.
    fn finish(&mut self) -> Result<()> {
        if !self.changes.is_empty() {
            let n = match self.lender {
                Some(shared) => shared.fragments.fetch_add(1, Ordering::AcqRel),
                None => *self.next,
            };
            self.log.fragment(self.stream, self.txn, n, self.changes)?;
            *self.next = n + 1;
            self.changes.clear();
        }
        Ok(())
    }
}

impl Session {
    pub(super) fn spill_if_large(&mut self) -> Result<()> {
        if self.txn.as_ref().is_some_and(|t| t.unspilled > SPILL) { self.spill(false) } else { Ok(()) }
    }

    /// Logs what is not in the log yet as fragments (protocol/P2): all of it, or only what fills whole
    /// fragments.
    pub(super) fn spill(&mut self, all: bool) -> Result<()> {
        if let Some(e) = &self.open().broken {
            return Err(e.clone());
        }
        // There may be no space in the log.
        registry::assert_parkable(&self.participant);
        let kernel = self.kernel.clone();
        let stream = self.stream;
        let mut changes = std::mem::take(&mut self.changes);
        changes.clear();
        let t = self.open();
        let id = t.state().id;
        let (next, lender) = (&mut t.fragments, t.lender.as_deref());
        let mut fragments =
            Fragments { log: &kernel.log, stream, txn: id, next, lender, changes: &mut changes };
        let mut outcome = Ok(());
        let mut i = t.first_unspilled;
        while i < t.writes.len() {
            let w = &t.writes[i];
            // The last entry's node may still be filled.
            if !all && i + 1 == t.writes.len() && w.did == Did::Node {
                break;
            }
            let logged = !is_unlogged(&t.tables[w.table as usize]);
            let push = |oid, offset, bytes: &[u8]| fragments.push(oid, offset, bytes);
            if logged && let Err(e) = each_piece(&kernel, w, push) {
                outcome = Err(e);
                break;
            }
            t.writes[i].spilled = logged;
            i += 1;
        }
        outcome = outcome.and_then(|()| fragments.finish());
        // Writes that are marked as spilled may have been in the fragment that was refused.
        t.broken = outcome.as_ref().err().cloned();
        t.first_unspilled = i;
        t.unspilled = 0;
        // What was spilled must not be filled any more.
        t.fill_from = t.fill_from.max(i);
        changes.clear();
        self.changes = changes;
        outcome
    }

    /// What statements do from now on may be rolled back to `to`, and to nothing later but their own
    /// beginnings.
    pub fn may_roll_back_to(&mut self, to: Savepoint) {
        self.open().merge_from = to.writes
    }

    pub fn savepoint(&mut self) -> Savepoint {
        let t = self.open();
        t.fill_from = t.writes.len();
        Savepoint { writes: t.writes.len() }
    }

    /// Undoes everything since the savepoint. Fails only if the log does, now or earlier in the transaction,
    /// which then can only be aborted.
    pub fn rollback_to(&mut self, to: Savepoint) -> Result<()> {
        if let Some(e) = &self.open().broken {
            return Err(e.clone());
        }
        if let Err(e) = self.take_back(to) {
            self.open().broken = Some(e.clone());
            return Err(e);
        }
        self.undo_to(to.writes);
        // It may go on, and have other rows of others'.
        self.rival = None;
        let t = self.open();
        t.fill_from = t.writes.len();
        Ok(())
    }

    fn take_back(&mut self, to: Savepoint) -> Result<()> {
        let kernel = self.kernel.clone();
        // What already went into fragments is taken back by the same differences once more.
        let mut changes = Changes::default();
        let stream = self.stream;
        let t = self.open();
        let id = t.state().id;
        if t.first_unspilled > to.writes {
            let next = &mut t.fragments;
            let mut fragments =
                Fragments { log: &kernel.log, stream, txn: id, next, lender: None, changes: &mut changes };
            for w in t.writes[to.writes..t.first_unspilled].iter().filter(|w| w.spilled) {
                each_piece(&kernel, w, |oid, offset, bytes| fragments.push(oid, offset, bytes))?
            }
            fragments.finish()?;
            t.first_unspilled = to.writes;
        }
        Ok(())
    }

    pub(super) fn undo_last(&mut self) {
        let n = self.open().writes.len();
        self.undo_to(n - 1)
    }

    /// Takes writes back from the end, without the log.
    pub(super) fn undo_to(&mut self, keep: usize) {
        let kernel = self.kernel.clone();
        let space = &kernel.space;
        let undone = self.open().writes.split_off(keep);
        // Rows before strings: an entry is found by its key, and that is made of strings which the row's lock
        // may be older than.
        let rows = undone.iter().rev().filter(|w| !w.string);
        for w in rows.chain(undone.iter().rev().filter(|w| w.string)) {
            let table = self.open().tables[w.table as usize].clone();
            match w.did {
                Did::Merged => {}
                Did::Share => self.unshare(w.oid, LockMode::Share),
                Did::KeyShare => self.unshare(w.oid, LockMode::KeyShare),
                Did::Whole => {
                    space.word(w.oid.bits()).fetch_and(!WHOLE, Ordering::SeqCst);
                }
                Did::Node => {
                    // SAFETY: our own node, at the head of its chain (transaction/T1).
                    let v = unsafe { &*w.node };
                    let changed_keys = !v.is_empty() && !w.string && !table.indexes.is_empty();
                    let mut new = vec![];
                    if changed_keys {
                        new.resize(table.row_size, 0);
                        self.read_newest(w.oid, &mut new);
                    }
                    if pop(space.word(w.oid.bits() + 8), v) {
                        space.word(w.oid.bits()).store(v.prev, Ordering::Release)
                    }
                    self.credit += v.size();
                    // SAFETY: unlinked above; readers are waited for by the epoch.
                    unsafe { self.participant.pin().retire_raw(w.node as usize, Version::free_at) };
                    if changed_keys && new[0] & LIVE != 0 {
                        self.forget_keys(&table, w.oid, &new)
                    }
                }
                Did::Insert => {
                    let mut old = vec![];
                    if !w.string && !table.indexes.is_empty() {
                        old.resize(table.row_size, 0);
                        space.copy_out(row(w.oid), &mut old);
                    }
                    let len = Heap::row_bytes(space, w.oid);
                    space.zero(row(w.oid), len);
                    if !old.is_empty() {
                        self.forget_keys(&table, w.oid, &old)
                    }
                    // The bitmap keeps the slot until it is freed, after the entries and an epoch
                    // (kernel/K5). Its mark may go before that, so it must not be followed any more. The
                    // header says free from now on: any timestamp would be one that comes back when the
                    // slot's next insert is undone too (kernel/K1).
                    set_head(space.word(w.oid.bits() + 8), 0);
                    space.word(w.oid.bits()).store(0, Ordering::Release);
                    let heap = if w.string { table.strings.clone() } else { table.rows.clone() };
                    let oid = w.oid;
                    let guard = self.participant.pin();
                    guard.retire(move || heap.free(oid));
                }
            }
        }
        kernel.waits.let_go(self.open().state());
    }

    /// Takes index entries out whose key no version of the row has (any more).
    fn forget_keys(&mut self, table: &Arc<TableStore>, oid: Oid, of: &[u8]) {
        // Also those that this transaction has dropped since.
        let kernel = self.kernel.clone();
        let remembers = self.is_serializable();
        for index in table.indexes.iter() {
            let mut key = vec![];
            let moves = remembers.then_some(&mut self.moves);
            {
                let pin = self.participant.pin();
                index.key.key(of, &Committed(&kernel.space, &pin), &mut key);
                // An uncommitted version that has it is an earlier one of ours.
                remove_entry(&kernel.space, &self.participant, table, index, &key, oid, moves);
            }
            if remembers {
                self.follow(index)
            }
        }
    }

    /// Ends the transaction without effect.
    pub fn abort(&mut self) {
        let Some(t) = &self.txn else { return };
        if let Some(shared) = t.lender.clone() {
            return self.give_back(&shared);
        }
        // What it saw matters no more, and need not be followed.
        self.open().reads.get_mut().nodes.clear();
        self.undo_to(0);
        let t = self.open();
        let (id, fragments) = (t.state().id, t.fragments);
        if fragments > 0 {
            self.kernel.log.abandon(id)
        }
        self.end(Status::Aborted)
    }

    pub(super) fn end(&mut self, status: Status) {
        let Some(mut t) = self.txn.take() else { return };
        if status == Status::Aborted {
            t.state().set(status);
            if self.seen() > self.kernel.log.visible_ts().max(self.floor)
                && !ondol_base::sim::mutated("shown_forgotten")
            {
                self.shown = self.shown.max(self.seen())
            }
        }
        self.kernel.waits.let_go(t.state());
        if let Some(rival) = self.rival.take() {
            self.step_aside(rival)
        }
        if t.marked {
            let marks = t.marks.iter().chain([&t.mark]);
            let guard = self.participant.pin();
            // SAFETY: their slots are stamped, so no new reader finds them.
            unsafe { guard.retire_all(marks.map(|m| Arc::into_raw(m.clone()) as usize), Mark::free_at) }
        }
        for m in t.marks.drain(..) {
            self.rest_mark(m)
        }
        self.view.txn = 0;
        self.view.twins = false;
        self.unpublish();
        self.credit += t.charged;
        self.kernel.space.budget.give_back(t.reads.get_mut().charged);
        t.clear();
        self.spare = Some(t);
        if self.credit > 256 << 10 {
            let back = self.credit - (64 << 10);
            self.credit -= back;
            self.kernel.space.budget.give_back(back)
        }
        self.help_if_overdue()
    }

    /// The end of the transaction whose only mark it is: its slots are stamped or given back.
    pub(super) fn retire_mark(&mut self, mark: Arc<Mark>) {
        self.kernel.waits.let_go(&mark.txn);
        {
            let guard = self.participant.pin();
            // SAFETY: its slot is stamped, so no new reader finds it.
            unsafe { guard.retire_raw(Arc::into_raw(mark.clone()) as usize, Mark::free_at) }
        }
        self.rest_mark(mark)
    }

    /// A session's share of the collecting, after a commit that found its queue long.
    pub(super) fn help_if_overdue(&mut self) {
        if std::mem::take(&mut self.overdue) {
            self.kernel.collector.help(&self.garbage, &self.participant, &self.kernel)
        }
    }
}

/// Takes our node off the head; true if it was our last one there.
pub(super) fn pop(word1: &AtomicU64, v: &Version) -> bool {
    latch(word1);
    let next = v.next.load(Ordering::Acquire);
    // SAFETY: the chain is latched. The next node is pending exactly if it is ours too.
    let last = next & MARK == 0 && unsafe { node(next) }.is_none_or(|n| !n.is_pending());
    unlatch(word1, next);
    last
}
