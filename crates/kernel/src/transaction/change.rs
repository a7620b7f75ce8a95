//! Writes: rows made, changed and deleted, their strings and index keys.
use super::lock::push;
use super::{Did, Locked, Newest, Session, Wait, Write, read_string};
use crate::error::{Error, Result};
use crate::heap::{Heap, LARGEST_ROW, PIECE};
use crate::kernel::Kernel;
use crate::slot::{self, FRESH, ID, LIVE, OWNED, Status, View, row};
use crate::string::{LONGEST, pieces};
use crate::table::{IndexStore, Strings, TableStore};
use crate::version::{MARK, POINTER, SMALL, UNCHANGED, Version, difference, node, set_head};
use ondol_base::oid::Oid;
use ondol_base::sim::mutated;
use ondol_base::sync::{MutexGuard, spin_wait, yield_point};
use ondol_durability::TxnId;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A key that a changed row has and had not before.
struct NewKey {
    index: Arc<IndexStore>,
    key: Vec<u8>,
    /// A part of it is null, so that it equals no other.
    nulls: bool,
}

/// Whether a row has a key.
pub(super) enum Has {
    No,
    /// Its newest version has it, of this commit, or our own (0).
    Yes(u64),
    /// Some version has it, and this transaction could yet make or unmake that.
    Perhaps(TxnId),
}

impl Session {
    /// A new row; `bytes` are the whole row (a multiple of 16, live bit set). Index entries are made and
    /// unique indexes checked.
    pub fn insert(&mut self, table: &Arc<TableStore>, bytes: &[u8]) -> Result<Oid> {
        debug_assert!(bytes.len().is_multiple_of(16) && bytes[0] & LIVE != 0);
        let oid = self.place(table, bytes)?;
        for index in table.entered() {
            self.buffer.clear();
            let mut key = std::mem::take(&mut self.buffer);
            let nulls = index.key.key(bytes, &Newest(self), &mut key);
            let done = self.enter_key(table, index, &key, nulls, oid);
            self.buffer = key;
            done?
        }
        self.spill_if_large()?;
        Ok(oid)
    }

    /// A slot with the row, which no index knows of yet.
    #[inline(always)]
    pub(super) fn place(&mut self, table: &Arc<TableStore>, bytes: &[u8]) -> Result<Oid> {
        if bytes.len() > LARGEST_ROW {
            return self.place_run(table, bytes);
        }
        self.room()?;
        let units = ((bytes.len() + 16) / 16) as u8;
        let oid = table.rows.allocate(&mut self.claims, &self.kernel.log, units)?;
        self.enter_fresh(table, oid, bytes, false);
        Ok(oid)
    }

    /// The same for a row that is longer than a page's slot.
    #[cold]
    fn place_run(&mut self, table: &Arc<TableStore>, bytes: &[u8]) -> Result<Oid> {
        self.room()?;
        let oid = table.rows.allocate_run(&self.kernel.log, bytes.len())?;
        self.enter_fresh(table, oid, bytes, false);
        Ok(oid)
    }

    /// [`Session::insert`] for each of several rows, one behind the other in `rows`, in their order. `done`
    /// counts them up: an error is that of the row that follows those. `each` is told of each.
    pub fn insert_rows(
        &mut self,
        table: &Arc<TableStore>,
        rows: &[u8],
        done: &mut usize,
        each: &mut dyn FnMut(Oid),
    ) -> Result<()> {
        /// Rows whose places in the indexes are brought into the cache together.
        const AHEAD: usize = 16;
        for group in rows.chunks(table.row_size * AHEAD) {
            let mut key = std::mem::take(&mut self.buffer);
            {
                let guard = self.participant.pin();
                for index in table.entered() {
                    for row in group.chunks_exact(table.row_size) {
                        key.clear();
                        index.key.key(row, &Newest(self), &mut key);
                        index.index.prefetch(&guard, &key)
                    }
                }
            }
            self.buffer = key;
            for row in group.chunks_exact(table.row_size) {
                each(self.insert(table, row)?);
                *done += 1
            }
        }
        Ok(())
    }

    fn enter_fresh(&mut self, table: &Arc<TableStore>, oid: Oid, bytes: &[u8], string: bool) {
        let mark = self.mark();
        let number = self.table_number(table);
        let space = &self.kernel.space;
        set_head(space.word(oid.bits() + 8), mark as u64 | MARK);
        yield_point();
        space.word(oid.bits()).store(OWNED | FRESH | self.view.txn, Ordering::Release);
        space.copy_in(row(oid), bytes);
        let t = self.open();
        t.changed = true;
        t.unspilled += bytes.len() + 16;
        t.writes.push(Write {
            oid,
            node: std::ptr::null_mut(),
            table: number,
            did: Did::Insert,
            spilled: false,
            string,
            rekeyed: false,
        });
    }

    /// Puts a row's key into an index and, where it is unique, makes sure that no other row has it
    /// (key_latch/U1). The row is a new one of this transaction, or, where the index is young, one that was
    /// committed without it.
    pub fn enter_key(
        &mut self,
        table: &Arc<TableStore>,
        index: &Arc<IndexStore>,
        key: &[u8],
        nulls: bool,
        oid: Oid,
    ) -> Result<()> {
        if !index.unique || nulls {
            return self.put_entry(index, key, oid);
        }
        // Nearly always nothing stands under the key yet.
        if self.enter_alone(index, key, oid)? {
            return Ok(());
        }
        while let Some((oid, owner)) = self.enter_beside(table, index, key, oid)? {
            self.wait_over(oid, owner)?
        }
        Ok(())
    }

    /// Puts a key into a unique index, if nothing stands under it.
    #[inline(always)]
    pub(super) fn enter_alone(&mut self, index: &Arc<IndexStore>, key: &[u8], oid: Oid) -> Result<bool> {
        let remembers = self.is_serializable();
        let alone = {
            let latches = &self.kernel.key_latches;
            let _latch = latches.latch(latches.number(index.id, key));
            let guard = self.participant.pin();
            index.index.insert_alone(&guard, key, oid, remembers.then_some(&mut self.moves))
        };
        if remembers {
            self.follow(index)
        }
        alone.map_err(|_| self.no_memory())
    }

    /// Puts a key into a unique index, beside what stands under it, unless that is or may become another
    /// row's: gives the row and the transaction to wait for, or the error.
    pub(super) fn enter_beside(
        &mut self,
        table: &Arc<TableStore>,
        index: &Arc<IndexStore>,
        key: &[u8],
        oid: Oid,
    ) -> Result<Option<(Oid, TxnId)>> {
        let kernel = self.kernel.clone();
        let _latch = kernel.key_latches.latch(kernel.key_latches.number(index.id, key));
        match self.twin(table, index, key, oid)? {
            None => self.put_entry(index, key, oid).map(|()| None),
            some => Ok(some),
        }
    }

    /// Puts a key into an index and asks nothing.
    pub fn put_entry(&mut self, index: &Arc<IndexStore>, key: &[u8], oid: Oid) -> Result<()> {
        let remembers = self.is_serializable();
        let done = {
            let guard = self.participant.pin();
            index.index.insert(&guard, key, oid, remembers.then_some(&mut self.moves))
        };
        if remembers {
            self.follow(index)
        }
        done.map(drop).map_err(|_| self.no_memory())
    }
    #[cold]
    fn no_memory(&self) -> Error {
        Error::OutOfMemory { limit: self.kernel.space.budget.limit() }
    }

    /// Takes the latches of the unique keys that a changed row is about to have, once none of them is another
    /// row's. The change has to be made under them: the row's entry may stand already, of an older version.
    fn claim_keys<'k>(
        &mut self,
        kernel: &'k Kernel,
        table: &Arc<TableStore>,
        keys: &[NewKey],
        oid: Oid,
    ) -> Result<Vec<MutexGuard<'k, ()>>> {
        let unique = || keys.iter().filter(|k| k.index.unique && !k.nulls);
        let mut numbers: Vec<usize> =
            unique().map(|k| kernel.key_latches.number(k.index.id, &k.key)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        'again: loop {
            let latches = numbers.iter().map(|n| kernel.key_latches.latch(*n)).collect();
            for k in unique() {
                if let Some((oid, owner)) = self.twin(table, &k.index, &k.key, oid)? {
                    drop::<Vec<_>>(latches);
                    self.wait_over(oid, owner)?;
                    continue 'again;
                }
            }
            return Ok(latches);
        }
    }

    /// Looks, under the key's latch, whether another row has the key: an error if it is there to stay, the
    /// row and the transaction to wait for if that could yet make or unmake it. Sees uncommitted and dead
    /// entries.
    fn twin(
        &mut self,
        table: &Arc<TableStore>,
        index: &Arc<IndexStore>,
        key: &[u8],
        me: Oid,
    ) -> Result<Option<(Oid, TxnId)>> {
        let mut oids = std::mem::take(&mut self.oids);
        oids.clear();
        {
            let guard = self.participant.pin();
            index.index.lookup(&guard, key, &mut oids, None);
        }
        let mut outcome = Ok(None);
        for &oid in oids.iter().filter(|o| **o != me) {
            outcome = match self.has_key(table, index, key, oid) {
                Has::No => Ok(None),
                Has::Yes(_) => Err(Error::UniqueViolation { index: index.id }),
                // Whoever only locks a row leaves its key as it is (rival/R3).
                Has::Perhaps(owner) => match self.only_locked(table, index, key, oid) {
                    Some(_) => Err(Error::UniqueViolation { index: index.id }),
                    None => Ok(Some((oid, owner))),
                },
            };
            if !matches!(outcome, Ok(None)) {
                break;
            }
            self.view.twins |= self.shows(table, oid) && !ondol_base::sim::mutated("twins_unseen");
        }
        self.oids = oids;
        outcome
    }

    /// Whether the transaction will go on seeing a row that is not in the way of its own.
    fn shows(&mut self, table: &TableStore, oid: Oid) -> bool {
        let mut row = std::mem::take(&mut self.old_row);
        row.resize(table.row_size, 0);
        let view = View { command: u32::MAX, ..self.view };
        let shown = {
            let pin = self.participant.pin();
            slot::read(&self.kernel.space, &pin, oid, &view, &mut row)
        };
        self.old_row = row;
        shown
    }

    /// Whether a row has a key. Sees uncommitted and dead versions.
    pub(super) fn has_key(
        &mut self,
        table: &Arc<TableStore>,
        index: &Arc<IndexStore>,
        key: &[u8],
        oid: Oid,
    ) -> Has {
        let kernel = self.kernel.clone();
        let space = &kernel.space;
        let mut turn = 0;
        loop {
            let pin = self.participant.pin();
            let w0 = space.word(oid.bits()).load(Ordering::Acquire);
            if w0 == 0 {
                return Has::No;
            }
            let mut buf = std::mem::take(&mut self.old_row);
            buf.resize(table.row_size, 0);
            let mine = w0 & OWNED != 0 && w0 & ID == self.view.txn;
            let other = w0 & OWNED != 0 && !mine;
            let same = |buf: &[u8]| {
                let mut k = Vec::with_capacity(key.len());
                // Strings of another's pending versions are seen by no view.
                match other && !ondol_base::sim::mutated("pending_strings_unread") {
                    true => index.key.key(buf, &crate::table::Committed(space, &pin), &mut k),
                    false => index.key.key(buf, &Newest(self), &mut k),
                };
                k == key
            };
            let verdict = if !other {
                // Our newest, or the newest committed.
                self.read_newest(oid, &mut buf) && same(&buf)
            } else {
                slot::any_version(space, &pin, oid, &mut buf, false, &mut |b, _| same(b))
            };
            let changed = space.word(oid.bits()).load(Ordering::Acquire) != w0;
            drop(pin);
            self.old_row = buf;
            if !changed {
                if !verdict {
                    return Has::No;
                }
                if !other {
                    return Has::Yes(if mine { 0 } else { w0 });
                }
                if matches!(self.owner_status(oid, w0), Some(Status::Active | Status::Preparing(_))) {
                    return Has::Perhaps(w0 & ID);
                }
            }
            spin_wait(turn);
            turn += 1;
        }
    }

    /// Changes a row that is locked by us: `old` is its newest version, `new` has the same length. `keyed`
    /// unless the caller knows that no index's key depends on what was changed.
    pub fn update(
        &mut self,
        table: &Arc<TableStore>,
        oid: Oid,
        old: &[u8],
        new: &[u8],
        keyed: bool,
    ) -> Result<()> {
        self.update_or_let_go(table, oid, old, new, keyed, false)
    }
    /// The same; `lets_go`: if others share the row's keys, which would be others, and this command has only
    /// locked it yet, it is given back, and the error is [`Error::KeysShared`] (lock/L6).
    pub fn update_or_let_go(
        &mut self,
        table: &Arc<TableStore>,
        oid: Oid,
        old: &[u8],
        new: &[u8],
        keyed: bool,
        lets_go: bool,
    ) -> Result<()> {
        debug_assert!(self.is_newest(oid, old), "a row is changed from bytes that are not its newest");
        let keys = if keyed { self.new_keys(table, old, new) } else { vec![] };
        let noted = || table.indexes[table.entered..].iter().any(|i| !i.key.unaffected(old, new));
        let rekeyed = !keys.is_empty() || keyed && noted();
        self.open().rekeyed |= rekeyed;
        if keys.iter().any(|k| k.index.unique) {
            // lock/L3: what may be referenced is changed.
            if lets_go {
                self.let_go_if_shared(table, oid)?
            }
            self.lock_own(table, oid, true, Wait::Block, true)?;
        }
        if keys.iter().any(|k| k.index.unique && !k.nulls) {
            let kernel = self.kernel.clone();
            let _latches = self.claim_keys(&kernel, table, &keys, oid)?;
            self.change(table, oid, old, new, &keys, rekeyed)?
        } else {
            self.change(table, oid, old, new, &keys, rekeyed)?
        }
        self.spill_if_large()
    }

    /// Whether these are a row's newest bytes: its difference is formed from them, and laid over those.
    fn is_newest(&self, oid: Oid, bytes: &[u8]) -> bool {
        let mut now = vec![0; bytes.len()];
        // That wrong variant is to be seen by its answers.
        self.read_newest(oid, &mut now) && now == bytes || ondol_base::sim::mutated("rival_of_snapshot")
    }

    fn change(
        &mut self,
        table: &Arc<TableStore>,
        oid: Oid,
        old: &[u8],
        new: &[u8],
        keys: &[NewKey],
        rekeyed: bool,
    ) -> Result<()> {
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        difference(old, new, &mut pieces);
        let done = self.push_difference(table, oid, &pieces, false, rekeyed);
        self.pieces = pieces;
        if !done? {
            return Ok(());
        }
        for k in keys {
            self.put_entry(&k.index, &k.key, oid)?
        }
        Ok(())
    }

    /// The keys that the row has and had not before.
    fn new_keys(&self, table: &TableStore, old: &[u8], new: &[u8]) -> Vec<NewKey> {
        let mut keys = vec![];
        if new[0] & LIVE == 0 {
            return keys;
        }
        for index in table.entered().iter().filter(|i| !i.key.unaffected(old, new)) {
            let (mut before, mut key) = (vec![], vec![]);
            index.key.key(old, &Newest(self), &mut before);
            let nulls = index.key.key(new, &Newest(self), &mut key);
            if before != key {
                keys.push(NewKey { index: index.clone(), key, nulls })
            }
        }
        keys
    }

    /// Deletes a row that is locked by us: `old` is its newest version.
    pub fn delete(&mut self, table: &Arc<TableStore>, oid: Oid, old: &[u8]) -> Result<()> {
        let zero = vec![0; old.len()];
        self.update(table, oid, old, &zero, false)
    }

    /// Whether this transaction has inserted or changed the row, which it has locked.
    fn has_written(&self, oid: Oid) -> bool {
        let space = &self.kernel.space;
        if space.word(oid.bits()).load(Ordering::Relaxed) & FRESH != 0 {
            return true;
        }
        let _pin = self.participant.pin();
        let mut next = space.word(oid.bits() + 8).load(Ordering::Acquire);
        // SAFETY: pinned.
        while let Some(v) = unsafe { node(next) }.filter(|v| v.is_pending()) {
            if !v.is_empty() {
                return true;
            }
            next = v.next.load(Ordering::Acquire)
        }
        false
    }

    /// Puts a difference on the slot's chain; false when there is none. A row that is set to the bytes that
    /// it has is written all the same: it gets the commit's timestamp, so that whoever set it likewise meets
    /// a conflict. The log needs no byte for that.
    fn push_difference(
        &mut self,
        table: &Arc<TableStore>,
        oid: Oid,
        mut pieces: &[u64],
        string: bool,
        rekeyed: bool,
    ) -> Result<bool> {
        if pieces.is_empty() {
            let written = match self.upserts == (self.view.txn, self.view.command) {
                true => self.is_of_this_command(oid),
                false => self.has_written(oid),
            };
            if string || written || ondol_base::sim::mutated("same_bytes_unwritten") {
                return Ok(false);
            }
            pieces = &UNCHANGED
        }
        let word1 = self.kernel.space.word(oid.bits() + 8);
        let link = word1.load(Ordering::Acquire);
        let command = self.view.command;
        let size = pieces.len() * 8;
        // SAFETY: the slot is ours: its head cannot be freed.
        let head = unsafe { node(link) };
        let fill_from = self.open().fill_from;
        let fits = head.is_some_and(|h| {
            // SAFETY: a pending node's mark is one of ours.
            h.is_empty()
                && h.capacity() >= pieces.len()
                && h.is_pending()
                && unsafe { (*h.mark).command() } == command
        }) && {
            // The lock was taken by this command; if that was after the last savepoint, its node may serve.
            let p = (link & POINTER) as *mut Version;
            // Not if a string was stored since: undone from the end, the string would be gone before the row
            // that names it, and so would the key by which the row's index entry is found.
            let since = self.open().writes[fill_from..].iter().rev().take(16);
            since.take_while(|w| !(w.string && w.did == Did::Insert)).any(|w| w.node == p)
        };
        if fits {
            // SAFETY: the slot is ours and the node empty.
            unsafe { Version::fill((link & POINTER) as *mut Version, pieces) };
            if let Some(h) = head
                && rekeyed
            {
                self.open().writes[h.entry()].rekeyed = true
            }
        } else {
            self.room()?;
            if !string {
                self.merge(oid)
            }
            let link = self.kernel.space.word(oid.bits() + 8).load(Ordering::Acquire);
            // SAFETY: as above.
            let head = unsafe { node(link) };
            self.charge(Version::bytes(pieces.len().max(SMALL)))?;
            let mark = self.mark();
            let number = self.table_number(table);
            let space = &self.kernel.space;
            let w0 = space.word(oid.bits()).load(Ordering::Relaxed);
            let prev = match head {
                _ if w0 & FRESH != 0 => 0,
                Some(h) => h.prev,
                None => 0,
            };
            let Some(v) = Version::new(pieces.len(), prev, 0, mark) else {
                return Err(Error::OutOfMemory { limit: space.budget.limit() });
            };
            // SAFETY: not shared yet.
            unsafe {
                Version::fill(v, pieces);
                (*v).set_entry(self.txn.as_ref().map_or(0, |t| t.writes.len()))
            }
            push(space.word(oid.bits() + 8), v);
            self.open().writes.push(Write {
                oid,
                node: v,
                table: number,
                did: Did::Node,
                spilled: false,
                string,
                rekeyed,
            });
        }
        let t = self.open();
        t.changed = true;
        t.unspilled += size + 16;
        Ok(true)
    }

    /// Stores a string in the table's string heap; gives the bits by which a row names it.
    #[inline]
    pub fn put_string(&mut self, table: &Arc<TableStore>, bytes: &[u8]) -> Result<u64> {
        if bytes.len() > PIECE {
            return self.put_pieces(table, bytes);
        }
        self.put_piece(table, bytes)
    }
    /// string/L1
    #[cold]
    fn put_pieces(&mut self, table: &Arc<TableStore>, bytes: &[u8]) -> Result<u64> {
        if bytes.len() > LONGEST {
            return Err(Error::TooLarge { bytes: bytes.len(), limit: LONGEST });
        }
        let mut list = Vec::with_capacity(8 * bytes.len().div_ceil(PIECE));
        for piece in bytes.chunks(PIECE) {
            list.extend_from_slice(&self.put_piece(table, piece)?.to_le_bytes());
            self.patience.look()?
        }
        self.put_piece(table, &list)
    }
    /// Its row bytes: live byte, 3 zero bytes, u32 length, the bytes.
    fn put_piece(&mut self, table: &Arc<TableStore>, bytes: &[u8]) -> Result<u64> {
        let len = 8 + bytes.len();
        self.room()?;
        let oid = match Heap::units_for_string(len) {
            Some(units) => table.strings.allocate(&mut self.claims, &self.kernel.log, units)?,
            None => table.strings.allocate_run(&self.kernel.log, len)?,
        };
        let mut image = Vec::with_capacity(len);
        image.extend_from_slice(&[LIVE, 0, 0, 0]);
        image.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        image.extend_from_slice(bytes);
        self.enter_fresh(table, oid, &image, true);
        self.spill_if_large()?;
        Ok(oid.bits())
    }
    /// The string is named by no version of ours any more. Bits that name none do nothing.
    #[inline]
    pub fn drop_string(&mut self, table: &Arc<TableStore>, slot: u64, len: usize) -> Result<()> {
        if len > PIECE {
            return self.drop_pieces(table, slot, len);
        }
        self.drop_piece(table, slot, len)
    }
    /// string/L1
    #[cold]
    fn drop_pieces(&mut self, table: &Arc<TableStore>, slot: u64, len: usize) -> Result<()> {
        let mut list = vec![];
        Strings::string(&Newest(self), slot, 8 * len.div_ceil(PIECE), &mut list);
        for (slot, len) in pieces(&list, len) {
            if !mutated("pieces_kept") {
                self.drop_piece(table, slot, len)?
            }
        }
        self.drop_piece(table, slot, list.len())
    }
    fn drop_piece(&mut self, table: &Arc<TableStore>, slot: u64, len: usize) -> Result<()> {
        let Some(oid) = table.strings.slot_at(slot) else { return Ok(()) };
        let len = (8 + len).next_multiple_of(8).min(Heap::row_bytes(&self.kernel.space, oid));
        if self.lock_own(table, oid, false, Wait::Block, true)? != Locked::Same {
            return Ok(());
        }
        if let Some(w) = self.open().writes.last_mut()
            && w.oid == oid
        {
            w.string = true
        }
        let mut old = vec![0; len];
        self.read_newest(oid, &mut old);
        let zero = vec![0; len];
        let mut pieces = vec![];
        difference(&old, &zero, &mut pieces);
        self.push_difference(table, oid, &pieces, true, false)?;
        self.spill_if_large()
    }
    /// Appends a string's bytes as the statement sees them. Strings are immutable, so any version that names
    /// one finds the same bytes.
    pub fn read_string(&self, slot: u64, len: usize, out: &mut Vec<u8>) -> bool {
        read_string(self, &self.view, slot, len, out)
    }
}
