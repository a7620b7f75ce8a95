//! Commit: the timestamp, the check of what was read, the record, the rows.
use super::{Did, LockMode, Session, Write};
use crate::collect::Item;
use crate::error::{Error, Result};
use crate::heap::Heap;
use crate::kernel::Kernel;
use crate::memory::{Space, header};
use crate::registry::{self, COMMITTING, IDLE};
use crate::slot::{FRESH, ID, INSTALLING, LIVE, OWNED, Status, row};
use crate::table::{IndexStore, TableStore};
use crate::version::{MARK, POINTER, Version, latch, node, set_head, unlatch};
use ondol_base::epoch::{Guard, Participant};
use ondol_base::oid::Oid;
use ondol_base::sync::{spin_wait, yield_point};
use ondol_durability::CommitTs;
use ondol_durability::delta::Changes;
use ondol_durability::log::Log;
use ondol_durability::page::PageId;
use ondol_durability::record::Kind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

impl Session {
    /// Commits. `None`: there was nothing to commit. The outcome is durable once the log says so of the
    /// timestamp.
    pub fn commit(&mut self) -> Result<Option<CommitTs>> {
        let Some(t) = self.txn.as_ref() else { return Ok(None) };
        if let Some(e) = t.broken.clone() {
            self.abort();
            return Err(e);
        }
        if !t.changed {
            // Only locks, if anything. What it read is promised by waiting for its snapshot.
            self.undo_to(0);
            self.end(Status::Aborted);
            return Ok(None);
        }
        let _phase = ondol_base::sim::phase("commit");
        let mut changes = std::mem::take(&mut self.changes);
        let taken = self.take_timestamp(&mut changes);
        changes.clear();
        self.changes = changes;
        match taken {
            Ok(c) => {
                yield_point();
                self.install(c);
                self.participant.line().words[COMMITTING].store(IDLE, Ordering::Release);
                self.committed(c);
                self.end(Status::Committed(c));
                Ok(Some(c))
            }
            Err(e) => {
                self.participant.line().words[COMMITTING].store(IDLE, Ordering::Release);
                self.abort();
                Err(e)
            }
        }
    }

    /// Commits are newer than whatever the session was shown.
    #[inline]
    pub(super) fn committed(&mut self, c: CommitTs) {
        (self.last_commit, self.floor, self.shown) = (c, c, 0)
    }

    fn take_timestamp(&mut self, changes: &mut Changes) -> Result<CommitTs> {
        changes.clear();
        let mut large = false;
        let kernel = &*self.kernel;
        let t = self.txn.as_mut().expect("committing");
        let volatile = has_volatile(&t.tables);
        for w in &t.writes[t.first_unspilled..] {
            if volatile && is_unlogged(&t.tables[w.table as usize]) {
                continue;
            }
            each_piece(kernel, w, |oid, offset, bytes| {
                if changes.len() + bytes.len() + 64 > Log::MAX_RECORD {
                    large = true;
                } else if !large {
                    changes.push(oid, offset, bytes)
                }
                Ok(())
            })?;
            if large {
                break;
            }
        }
        if large {
            self.changes.clear();
            self.spill(true)?;
            changes.clear();
        }
        let serializable = self.is_serializable();
        // There may be no space in the log.
        registry::assert_parkable(&self.participant);
        let committing = &self.participant.line().words[COMMITTING];
        let t = self.txn.as_ref().expect("committing");
        let state = t.state();
        let reservation = self.kernel.log.reserve(
            self.stream,
            changes.len(),
            Kind::Commit,
            state.id,
            t.fragments,
            |c| {
                // registry/R2: under the commit latch, so whoever learns of a later timestamp sees it.
                committing.store(c, Ordering::Relaxed);
                state.set(if serializable { Status::Preparing(c) } else { Status::Committed(c) })
            },
        )?;
        let c = reservation.ts();
        yield_point();
        if serializable {
            if !ondol_base::sim::mutated("serializable_unchecked") && !self.reads_stand(c) {
                state.set(Status::Aborted);
                reservation.void();
                return Err(Error::Serialization);
            }
            state.set(Status::Committed(c));
        }
        reservation.commit(changes);
        Ok(c)
    }

    /// transaction/T3. All commits before `c` are installed or void when this looks.
    fn reads_stand(&self, c: CommitTs) -> bool {
        let kernel = &*self.kernel;
        let t = self.txn.as_ref().expect("committing");
        let space = &kernel.space;
        let reads = t.reads.borrow();
        if reads.rows.is_empty() && reads.nodes.is_empty() && reads.heaps.is_empty() {
            return true;
        }
        registry::wait_installed(&kernel.epochs, c - 1, Some(&self.participant.line().words[COMMITTING]));
        let snapshot = self.view.snapshot;
        let _pin = self.participant.pin();
        // The newest timestamp at or below c that the slot's committed versions have; 0: none, or ours.
        let newest = |oid: Oid| {
            let mut turn = 0;
            loop {
                match turn {
                    0 => yield_point(), // nothing is waited for yet: the simulator takes who spins for idle
                    _ => spin_wait(turn),
                }
                turn += 1;
                let w0 = space.word(oid.bits()).load(Ordering::Acquire);
                let mut next = space.word(oid.bits() + 8).load(Ordering::Acquire);
                let mut base = w0;
                if w0 & OWNED != 0 {
                    // What is fresh and not ours commits later than c, if at all.
                    if w0 & ID == t.state().id || w0 & FRESH != 0 {
                        return 0;
                    }
                    // SAFETY: pinned.
                    match unsafe { node(next) } {
                        Some(v) if w0 & INSTALLING != 0 || v.is_pending() => base = v.prev,
                        _ => continue,
                    }
                }
                // Nodes later than our snapshot are kept, and are not folded across c (the horizon's visible
                // timestamp stays below a commit that is under way).
                while base > c {
                    // SAFETY: pinned.
                    match unsafe { node(next) } {
                        Some(v) => {
                            base = base.min(v.prev);
                            next = v.next.load(Ordering::Acquire)
                        }
                        None => base = 0,
                    }
                }
                fence(Ordering::Acquire);
                if space.word(oid.bits()).load(Ordering::Relaxed) == w0 {
                    return base;
                }
            }
        };
        let stands = |oid: &Oid| newest(*oid) <= snapshot;
        reads.rows.iter().all(stands)
            // SAFETY: the index is held by the entry (index/I3).
            && reads.nodes.iter().all(|(_, s)| unsafe { (*s.node).load(Ordering::Acquire) } == s.version)
            && reads.heaps.iter().all(|h| {
                let mut slots = crate::heap::Slots::default();
                slots.start(h);
                std::iter::from_fn(|| slots.next(space)).all(|oid| stands(&oid))
            })
    }

    /// Stamps and changes the rows. Nothing here can fail.
    fn install(&mut self, c: CommitTs) {
        let space = &self.kernel.space;
        let Some(t) = self.txn.as_mut() else { return };
        let rekeyed = all_indexes(&mut t.tables) || t.rekeyed;
        // Nodes unlinked below are looked at again.
        let pin = self.participant.pin();
        let mut garbage = self.garbage.fresh();
        let id = t.state().id;
        let mut shares = false;
        // From the first to the last: a slot's nodes come in the order they were pushed, and it is installed
        // with all of them when the first is met. Rows before strings: the keys that a row had are made of
        // its strings, which are there until they are installed.
        let rows = t.writes.iter().filter(|w| !w.string);
        for w in rows.chain(t.writes.iter().filter(|w| w.string)) {
            yield_point();
            let word0 = space.word(w.oid.bits());
            match w.did {
                Did::Share | Did::KeyShare => {
                    shares = true;
                    continue;
                }
                Did::Merged | Did::Whole => continue,
                Did::Insert | Did::Node => {}
            }
            let w0 = word0.load(Ordering::Relaxed);
            if w0 & OWNED == 0 || w0 & ID != id {
                continue;
            }
            let word1 = space.word(w.oid.bits() + 8);
            let link = word1.load(Ordering::Acquire);
            if link & MARK != 0 {
                space.header(PageId::of(w.oid), header::LAST_COMMIT).fetch_max(c, Ordering::Relaxed);
                set_head(word1, 0);
                word0.store(c, Ordering::Release);
                continue;
            }
            // SAFETY: pinned; our own nodes are the pending ones at the head.
            let pending = |link| unsafe { node(link) }.filter(|v| v.is_pending());
            let Some(first) = pending(link) else { continue };
            // There is one, nearly always.
            let mut next = pending(first.next.load(Ordering::Acquire));
            let all: Vec<&Version>;
            let nodes: &[&Version] = if next.is_none() {
                std::slice::from_ref(&first)
            } else {
                all = std::iter::once(first)
                    .chain(std::iter::from_fn(|| {
                        let v = next?;
                        next = pending(v.next.load(Ordering::Acquire));
                        Some(v)
                    }))
                    .collect();
                &all
            };
            let fresh = w0 & FRESH != 0;
            if !fresh && nodes.iter().all(|v| v.is_empty()) {
                // Only locked.
                unlink_pending(word1, &self.participant, &mut self.credit);
                word0.store(first.prev, Ordering::Release);
                continue;
            }
            word0.store(w0 | INSTALLING, Ordering::Relaxed);
            fence(Ordering::Release);
            yield_point();
            space.header(PageId::of(w.oid), header::LAST_COMMIT).fetch_max(c, Ordering::Relaxed);
            let base = row(w.oid);
            for v in nodes {
                apply(space, base, v);
                if !fresh {
                    v.ts.store(c, Ordering::Release)
                }
            }
            if fresh {
                // Nobody ever saw what was before: the row simply begins at c.
                unlink_pending(word1, &self.participant, &mut self.credit)
            }
            let dead = space.word(base).load(Ordering::Relaxed) & LIVE as u64 == 0;
            word0.store(c, Ordering::Release);
            let table = &t.tables[w.table as usize];
            let heap = if w.string { &table.strings } else { &table.rows };
            if !fresh {
                garbage.push(c, Item::Prune { oid: w.oid, heap: heap.id });
            }
            if !w.string && (dead || rekeyed) && !table.indexes.is_empty() {
                changed_keys(table, w.oid, (space, &pin), nodes, dead, &mut |index, key| {
                    garbage.push(c, Item::Entry { oid: w.oid, table: table.clone(), index, key })
                });
            }
            if dead {
                garbage.push(c, Item::Slot { oid: w.oid, heap: heap.clone() })
            }
        }
        self.overdue = garbage.is_overdue();
        let unlisted = garbage.is_to_be_listed();
        drop(garbage);
        if unlisted {
            self.kernel.collector.list(&self.garbage)
        }
        if shares {
            let mode = |did| match did {
                Did::Share => Some(LockMode::Share),
                Did::KeyShare => Some(LockMode::KeyShare),
                _ => None,
            };
            let shared: Vec<(Oid, LockMode)> =
                t.writes.iter().filter_map(|w| Some((w.oid, mode(w.did)?))).collect();
            for (oid, mode) in shared {
                self.unshare(oid, mode)
            }
        }
    }
}

/// Whether the log has nothing of writes to the table (heap/A5).
pub(super) fn is_unlogged(table: &TableStore) -> bool {
    table.rows.is_volatile() && !ondol_base::sim::mutated("volatile_logged")
}
/// Whether there is such a table.
pub(super) fn has_volatile(tables: &[Arc<TableStore>]) -> bool {
    tables.iter().any(|t| t.rows.is_volatile())
}

/// Calls `f` with the difference that a write makes, in pieces of bounded length: (oid, offset in row,
/// bytes).
pub(super) fn each_piece(
    kernel: &Kernel,
    w: &Write,
    f: impl FnMut(Oid, usize, &[u8]) -> Result<()>,
) -> Result<()> {
    // Nearly all are short, and clearing a large buffer would be most of what they cost.
    const SHORT: usize = 256;
    const MIDDLE: usize = 1 << 10;
    let len = match w.did {
        Did::Insert if w.string => {
            let head = kernel.space.word(row(w.oid)).load(Ordering::Relaxed);
            (8 + (head >> 32) as usize).next_multiple_of(8)
        }
        Did::Insert => Heap::row_bytes(&kernel.space, w.oid),
        Did::Node | Did::Share | Did::KeyShare | Did::Whole | Did::Merged => 0,
    };
    if len <= SHORT {
        each_piece_of::<SHORT>(kernel, w, len, f)
    } else if len <= MIDDLE {
        each_piece_of::<MIDDLE>(kernel, w, len, f)
    } else {
        each_piece_of::<LONG>(kernel, w, len, f)
    }
}

/// The longest piece, in bytes.
const LONG: usize = 8 << 10;

/// Words as they lie in a row.
pub(super) fn bytes_of(words: &[u64]) -> &[u8] {
    const { assert!(cfg!(target_endian = "little")) };
    // SAFETY: all of a word's bytes are initialised, and bytes need no alignment.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

fn each_piece_of<const CHUNK: usize>(
    kernel: &Kernel,
    w: &Write,
    len: usize,
    mut f: impl FnMut(Oid, usize, &[u8]) -> Result<()>,
) -> Result<()> {
    match w.did {
        Did::Share | Did::KeyShare | Did::Whole | Did::Merged => Ok(()),
        Did::Insert => {
            let mut buf = [0; CHUNK];
            let mut at = 0;
            while at < len {
                let n = (len - at).min(CHUNK);
                kernel.space.copy_out(row(w.oid) + at as u64, &mut buf[..n]);
                f(w.oid, at, &buf[..n])?;
                at += n
            }
            Ok(())
        }
        Did::Node => {
            // SAFETY: our own node.
            let v = unsafe { &*w.node };
            for (at, words) in v.pieces() {
                for (i, chunk) in words.chunks(LONG / 8).enumerate() {
                    f(w.oid, at * 8 + i * LONG, bytes_of(chunk))?
                }
            }
            Ok(())
        }
    }
}

/// Changes a row in place by a node's difference. Its header says that it is being installed.
pub(super) fn apply(space: &Space, row: u64, v: &Version) {
    for (at, words) in v.pieces() {
        for (x, word) in words.iter().zip(space.words(row + at as u64 * 8, words.len())) {
            word.store(word.load(Ordering::Relaxed) ^ x, Ordering::Relaxed)
        }
        yield_point();
    }
}

/// Takes all our pending nodes off a chain and frees them when nobody can look at them any more.
fn unlink_pending(word1: &AtomicU64, participant: &Participant, credit: &mut usize) {
    let mut nodes = vec![];
    let mut next = latch(word1);
    // SAFETY: the chain is latched.
    while let Some(v) = unsafe { node(next) } {
        if !v.is_pending() {
            break;
        }
        nodes.push((next & POINTER) as usize);
        *credit += v.size();
        next = v.next.load(Ordering::Acquire);
    }
    unlatch(word1, if next & MARK != 0 { 0 } else { next });
    let guard = participant.pin();
    guard.retire(move || {
        for p in nodes {
            // SAFETY: unlinked; readers are waited for (epoch/E2).
            unsafe { Version::free(p as *mut Version) }
        }
    });
}

/// Where a transaction changed definitions it has several views of a table. Each gets the indexes of all of
/// them: one made in its midst holds keys of rows that were changed before, one whose removal was taken back
/// those that were changed after. True if there was such a table.
fn all_indexes(tables: &mut [Arc<TableStore>]) -> bool {
    let mut several = false;
    for i in 1..tables.len() {
        for k in 0..i {
            if tables[k].rows.id != tables[i].rows.id {
                continue;
            }
            several = true;
            let mut indexes = tables[k].indexes.clone();
            indexes.extend(
                tables[i]
                    .indexes
                    .iter()
                    .filter(|x| !tables[k].indexes.iter().any(|y| Arc::ptr_eq(x, y)))
                    .cloned(),
            );
            let t = &tables[i];
            let all = TableStore {
                rows: t.rows.clone(),
                strings: t.strings.clone(),
                row_size: t.row_size,
                entered: indexes.len(),
                indexes,
            };
            let all = Arc::new(all);
            tables[k] = all.clone();
            tables[i] = all
        }
    }
    several
}

/// The keys that the row's earlier versions within this commit had and its newest has not.
fn changed_keys(
    table: &Arc<TableStore>,
    oid: Oid,
    (space, pin): (&Space, &Guard<'_>),
    nodes: &[&Version],
    dead: bool,
    f: &mut dyn FnMut(Arc<IndexStore>, Box<[u8]>),
) {
    // Usual updates change no key: look at the pieces only.
    let touched = |v: &&Version| v.pieces().any(|(at, words)| table.touches_keys(at, words));
    if !dead && !nodes.iter().any(touched) {
        return;
    }
    let mut bytes = vec![0; table.row_size];
    space.copy_out(row(oid), &mut bytes);
    let strings = crate::table::Committed(space, pin);
    let newest: Vec<Vec<u8>> = table
        .indexes
        .iter()
        .map(|i| {
            let mut k = vec![];
            if !dead {
                i.key.key(&bytes, &strings, &mut k);
            }
            k
        })
        .collect();
    for v in nodes {
        v.apply(0, &mut bytes);
        if bytes[0] & LIVE != 0 {
            for (i, newest) in table.indexes.iter().zip(&newest) {
                let mut k = vec![];
                i.key.key(&bytes, &strings, &mut k);
                if dead || k != *newest {
                    f(i.clone(), k.into())
                }
            }
        }
    }
}
