//! A transaction of one write: a statement of its own that changes one row.
//!
//! ```text
//! look (pinned) -> own -> push the filled node -> timestamp -> record -> install -> end
//! ```
//! What [`super::Session::begin`], `lock`, `update` and `commit` do one after the other, for the one case in
//! which nothing is out of the ordinary: no write set, no snapshot, no savepoint.
//!
//! - **S1** Only a row is changed that nobody owns, shares or queues for. Whatever else is met, nothing is
//!   left behind, and the caller goes the long way, which waits, looks again or refuses.
//! - **S2** No snapshot is published. The row is read under a pin as it is, and owned by exchanging the very
//!   header under which it was read: while we are pinned, an unchanged header means the same version
//!   (kernel/K1, kernel/K5). The moment of that reading is the statement's snapshot: a commit that had its
//!   timestamp by then and was not installed yet would own the row.
//! - **S3** The node is filled before others can reach it, so none that is half made is ever seen.
//! - **S4** As transaction/T2: what can fail is done before the timestamp is taken; if it fails, the node is
//!   taken off again.
//!
//! A crash leaves what it leaves of any commit: the whole of it or nothing.
use super::Session;
use super::undo::pop;
use crate::collect::Item;
use crate::error::{Error, Result};
use crate::memory::header;
use crate::registry::{self, COMMITTING, IDLE};
use crate::slot::{ID, INSTALLING, OWNED, Status, row};
use crate::table::TableStore;
use crate::transaction::commit::{apply, bytes_of};
use crate::transaction::lock::push;
use crate::version::{QUEUED, SHARED, SMALL, Version};
use ondol_base::epoch::Guard;
use ondol_base::oid::Oid;
use ondol_base::sync::yield_point;
use ondol_durability::CommitTs;
use ondol_durability::page::PageId;
use ondol_durability::record::Kind;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// A row as it was found: where it is, and the header under which it was read (see
/// [`crate::slot::read_current`]).
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub oid: Oid,
    pub header: u64,
}

impl Session {
    /// Changes one row in a transaction of its own, at READ COMMITTED. `look` reads a row of `table` under
    /// the pin that it is given and says in `pieces` (as [`crate::version::difference`] does) what is to be
    /// changed; no index's key may depend on that. `None`: nothing was done, because `look` gave none, or
    /// because the row needs the general path. The commit is durable once the log says so of its timestamp.
    pub fn write_one(
        &mut self,
        table: &TableStore,
        look: impl FnOnce(&Session, &Guard<'_>, &mut Vec<u64>) -> Option<Found>,
    ) -> Result<Option<CommitTs>> {
        debug_assert!(self.txn.is_none());
        // The long way leaves its difference out of the log (heap/A5).
        if table.rows.is_volatile() {
            return Ok(None);
        }
        self.sequence += 1;
        let id = (self.number << 32 | self.sequence & 0xffff_ffff) & ID;
        let mark = self.fresh_mark(id);
        mark.command.store(1, Ordering::Relaxed);
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        let node = self.own_one(OWNED | id, Arc::as_ptr(&mark), &mut pieces, look);
        self.pieces = pieces;
        let Some((oid, node)) = node else {
            // Nobody has seen it.
            self.resting.push_front(mark);
            return Ok(None);
        };
        yield_point();
        // SAFETY: our own node, which only the collector takes off, and only once it is committed.
        let v = unsafe { &*node };
        let word0 = self.kernel.space.word(oid.bits());
        let word1 = self.kernel.space.word(oid.bits() + 8);
        // wait/W1, wait/W3
        let met = push(word1, node) & (SHARED | QUEUED) != 0;
        let committed = if met {
            None
        } else {
            let changes = &mut self.changes;
            changes.clear();
            for (at, words) in v.pieces() {
                changes.push(oid, at * 8, bytes_of(words));
            }
            // There may be no space in the log.
            registry::assert_parkable(&self.participant);
            let committing = &self.participant.line().words[COMMITTING];
            let state = &mark.txn;
            let reserved = self.kernel.log.reserve(self.stream, changes.len(), Kind::Commit, id, 0, |c| {
                // registry/R2
                committing.store(c, Ordering::Relaxed);
                state.set(Status::Committed(c))
            });
            let done = reserved.map(|r| {
                let c = r.ts();
                yield_point();
                r.commit(changes);
                c
            });
            changes.clear();
            Some(done)
        };
        if let Some(Ok(c)) = committed {
            yield_point();
            word0.store(OWNED | id | INSTALLING, Ordering::Relaxed);
            fence(Ordering::Release);
            yield_point();
            let space = &self.kernel.space;
            space.header(PageId::of(oid), header::LAST_COMMIT).fetch_max(c, Ordering::Relaxed);
            apply(space, row(oid), v);
            v.ts.store(c, Ordering::Release);
            word0.store(c, Ordering::Release);
            let mut garbage = self.garbage.fresh();
            garbage.push(c, Item::Prune { oid, heap: table.rows.id });
            self.overdue = garbage.is_overdue();
            let unlisted = garbage.is_to_be_listed();
            drop(garbage);
            if unlisted {
                self.kernel.collector.list(&self.garbage)
            }
            self.committed(c);
        } else {
            if pop(word1, v) {
                word0.store(v.prev, Ordering::Release)
            }
            self.credit += v.size();
            // SAFETY: unlinked above; readers are waited for by the epoch.
            unsafe { self.participant.pin().retire_raw(node as usize, Version::free_at) };
            mark.txn.set(Status::Aborted);
            // wait/W2: who came to the row meanwhile.
            self.kernel.waits.let_go(&mark.txn);
        }
        self.participant.line().words[COMMITTING].store(IDLE, Ordering::Release);
        self.retire_mark(mark);
        self.help_if_overdue();
        match committed {
            None => Ok(None),
            Some(done) => Ok(Some(done.map_err(Error::from)?)),
        }
    }

    /// Looks, makes the node and owns the row; the node is not on the chain yet.
    #[inline]
    fn own_one(
        &mut self,
        owner: u64,
        mark: *const super::Mark,
        pieces: &mut Vec<u64>,
        look: impl FnOnce(&Session, &Guard<'_>, &mut Vec<u64>) -> Option<Found>,
    ) -> Option<(Oid, *mut Version)> {
        let (found, bytes, node) = {
            let pin = self.participant.pin();
            let found = look(self, &pin, pieces).filter(|_| !pieces.is_empty())?;
            let bytes = Version::bytes(pieces.len().max(SMALL));
            // What is beyond the credit is charged on the long way.
            if self.credit < bytes {
                return None;
            }
            let node = Version::new(pieces.len(), found.header, 0, mark)?;
            // SAFETY: not shared yet.
            unsafe { Version::fill(node, pieces) };
            yield_point();
            let word0 = self.kernel.space.word(found.oid.bits());
            let mut header = found.header;
            if ondol_base::sim::mutated("one_write_unchecked") {
                (0..30).for_each(|_| yield_point());
                header = word0.load(Ordering::Relaxed) & !OWNED
            }
            let taken = word0.compare_exchange(header, owner, Ordering::SeqCst, Ordering::Relaxed).is_ok();
            if !taken {
                // SAFETY: never shared.
                unsafe { Version::free(node) };
                return None;
            }
            (found, bytes, node)
        };
        self.credit -= bytes;
        Some((found.oid, node))
    }
}
