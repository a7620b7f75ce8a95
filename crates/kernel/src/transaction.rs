//! Sessions and their transactions: locking, changing, committing, undoing.
//!
//! ```text
//! begin -> statement (snapshot, command) -> lock, insert, update, delete ... -> commit | abort
//! ```
//! - **T1** Every write is entered in the write set, in order; rolling back to a savepoint undoes each slot's from the end.
//! - **T2** At commit: what can fail is done (fragments, log space); then the timestamp is taken, the record copied,
//!   the rows installed, the waiters woken; then durability is waited for. Locks are not held while the log syncs.
//! - **T3** A serializable transaction takes its timestamp in state PREPARING, waits for all earlier commits to be
//!   installed, and then checks that everything it read still stands. Checking before would admit the read-only
//!   anomaly; checking index leaves alone would admit write skew.
use crate::collect::{Garbage, Item};
use crate::error::{Error, Result};
use crate::heap::{Claims, Heap, LARGEST_ROW, LARGEST_RUN};
use crate::kernel::Kernel;
use crate::memory::{Budget, header};
use crate::registry::{self, COMMITTING, IDLE, SNAPSHOT};
use crate::slot::{self, FRESH, ID, INSTALLING, LIVE, OWNED, Status, View, row};
use crate::table::{Committed, IndexStore, TableStore};
use crate::version::{
    LATCHED, MARK, POINTER, SHARED, SMALL, Version, difference, latch, node, set_head, unlatch,
};
use crate::wait::{Patience, SessionId};
use ondol_base::epoch::{Guard, Line, Participant};
use ondol_base::oid::Oid;
use ondol_base::sync::{Mutex, MutexGuard, spin_wait, yield_point};
use ondol_durability::delta::Changes;
use ondol_durability::log::{Log, StreamId};
use ondol_durability::page::PageId;
use ondol_durability::record::Kind;
use ondol_durability::{CommitTs, TxnId};
use ondol_index::{Inserted, Seen};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Isolation {
    #[default]
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    Share,
    Update,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    Block,
    NoWait,
    Skip,
}

/// What locking a row found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    /// Ours, and as the snapshot shows it.
    Same,
    /// Ours, and changed since the snapshot.
    Changed,
    /// Deleted since the snapshot; not locked.
    Gone,
    /// Somebody else's, and [`Wait::Skip`] was asked for.
    Skipped,
}

const PREPARING: u64 = 1 << 62;
const COMMITTED: u64 = 1 << 63;
const ABORTED: u64 = COMMITTED | PREPARING;

/// What others see of a transaction.
pub struct TxnState {
    pub id: TxnId,
    pub session: SessionId,
    state: AtomicU64,
    /// Somebody waits, or waited, for its end.
    pub waited: AtomicBool,
}

impl TxnState {
    pub fn get(&self) -> Status {
        let s = self.state.load(Ordering::Acquire);
        match s & ABORTED {
            0 => Status::Active,
            PREPARING => Status::Preparing(s & !ABORTED),
            COMMITTED => Status::Committed(s & !ABORTED),
            _ => Status::Aborted,
        }
    }
    fn set(&self, s: Status) {
        let v = match s {
            Status::Active => 0,
            Status::Preparing(c) => PREPARING | c,
            Status::Committed(c) => COMMITTED | c,
            Status::Aborted => ABORTED,
        };
        self.state.store(v, Ordering::SeqCst)
    }
}

/// What a fresh slot or a pending node points to: its transaction, and the command that made it.
pub struct Mark {
    txn: Arc<TxnState>,
    pub command: u32,
}
impl Mark {
    /// For epochs.
    ///
    /// # Safety
    /// `at` is the address of a mark that came out of its box and that nobody can look at any more.
    unsafe fn free_at(at: usize) {
        // SAFETY: by the contract above.
        drop(unsafe { Box::from_raw(at as *mut Mark) })
    }
    pub fn state(&self) -> &TxnState {
        &self.txn
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Did {
    Insert,
    /// A pending node: a change, or nothing but the lock.
    Node,
    Share,
}

/// An entry of the write set.
struct Write {
    oid: Oid,
    /// The node pushed, for [`Did::Node`].
    node: *mut Version,
    /// Index into `tables`.
    table: u32,
    did: Did,
    /// Already in the log as part of a fragment.
    spilled: bool,
    /// A string of the table, not a row.
    string: bool,
}

/// A point to which a transaction can be rolled back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Savepoint {
    writes: usize,
}

struct Txn {
    state: Arc<TxnState>,
    // Slots and nodes point to marks, so each keeps its place.
    #[allow(clippy::vec_box)]
    marks: Vec<Box<Mark>>,
    isolation: Isolation,
    writes: Vec<Write>,
    tables: Vec<Arc<TableStore>>,
    /// Nodes pushed before the last savepoint must not be filled after it.
    fill_from: usize,
    fragments: u32,
    /// Bytes of differences that are not in the log yet, roughly.
    unspilled: usize,
    first_unspilled: usize,
    changed: bool,
    /// The log refused a part of it, so that it no longer is what the write set says: the transaction can only be aborted.
    broken: Option<Error>,
    /// Bytes charged for the write set and for shared locks, from the session's credit.
    charged: usize,
    reads: std::cell::RefCell<Reads>,
}

/// A key that a changed row has and had not before.
struct NewKey {
    index: Arc<IndexStore>,
    key: Vec<u8>,
    /// A part of it is null, so that it equals no other.
    nulls: bool,
}

impl Txn {
    fn new(state: Arc<TxnState>, isolation: Isolation) -> Txn {
        Txn {
            state,
            marks: vec![],
            isolation,
            writes: vec![],
            tables: vec![],
            fill_from: 0,
            fragments: 0,
            unspilled: 0,
            first_unspilled: 0,
            changed: false,
            broken: None,
            charged: 0,
            reads: Default::default(),
        }
    }
    /// As new but for its state, some memory kept. The marks were given away.
    fn clear(&mut self) {
        const KEEP: usize = 1 << 10;
        debug_assert!(self.marks.is_empty());
        self.writes.clear();
        self.writes.shrink_to(KEEP);
        self.tables.clear();
        self.fill_from = 0;
        self.fragments = 0;
        self.unspilled = 0;
        self.first_unspilled = 0;
        self.changed = false;
        self.broken = None;
        self.charged = 0;
        *self.reads.get_mut() = Reads::default();
    }
}

/// What a serializable transaction saw.
#[derive(Default)]
struct Reads {
    rows: Vec<Oid>,
    nodes: Vec<(Arc<IndexStore>, Seen)>,
    heaps: Vec<Arc<Heap>>,
    /// Bytes charged for them.
    charged: usize,
}

/// Makes room for more to be remembered. Beyond a few it is charged, in growing steps.
fn remember_more<T>(list: &mut Vec<T>, more: usize, charged: &mut usize, budget: &Budget) -> Result<()> {
    const FEW: usize = 64;
    if list.capacity() - list.len() < more {
        let add = list.capacity().max(FEW).max(more);
        if list.capacity() + add > FEW {
            let bytes = add * size_of::<T>();
            budget.try_charge(bytes)?;
            *charged += bytes;
        }
        list.reserve_exact(add)
    }
    Ok(())
}

/// What a shared lock takes beside its write: its entry in the table of waits.
const SHARE_BYTES: usize = 160;

/// Bytes of differences after which a transaction spills a fragment.
const SPILL: usize = Log::MAX_RECORD / 2;

/// One user of the kernel: at most one transaction at a time.
pub struct Session {
    kernel: Arc<Kernel>,
    participant: Participant,
    claims: Claims,
    garbage: Arc<Mutex<Garbage>>,
    number: u64,
    sequence: u64,
    pub stream: StreamId,
    pub view: View,
    txn: Option<Box<Txn>>,
    /// The last transaction's memory, for the next one.
    spare: Option<Box<Txn>>,
    /// The last commit of this session, durable or not.
    last_commit: CommitTs,
    /// The newest commit that locking a row showed to the transaction, beyond its snapshot.
    seen: CommitTs,
    pub patience: Patience,
    /// Version bytes charged ahead.
    credit: usize,
    changes: Changes,
    pieces: Vec<u64>,
    buffer: Vec<u8>,
    old_row: Vec<u8>,
    oids: Vec<Oid>,
}

// SAFETY: raw node pointers in the write set are owned by the transaction; a session is used by one thread at a time
// (E3), which may change between calls.
unsafe impl Send for Session {}

impl Session {
    pub fn new(kernel: Arc<Kernel>) -> Session {
        let participant = kernel.epochs.join(IDLE);
        let garbage = kernel.collector.register(&kernel.space.budget);
        let number = kernel.session_numbers.fetch_add(1, Ordering::Relaxed) & 0xfff_ffff;
        let stream = StreamId((number % kernel.log.streams().max(1) as u64) as u16);
        Session {
            participant,
            claims: Claims::default(),
            garbage,
            number,
            sequence: 0,
            stream,
            view: View::default(),
            txn: None,
            spare: None,
            last_commit: 0,
            seen: 0,
            patience: Patience::default(),
            credit: 0,
            changes: Changes::default(),
            pieces: vec![],
            buffer: vec![],
            old_row: vec![],
            oids: vec![],
            kernel,
        }
    }
    #[inline]
    pub fn kernel(&self) -> &Arc<Kernel> {
        &self.kernel
    }
    #[inline]
    pub fn participant(&self) -> &Participant {
        &self.participant
    }
    /// Tells this session from the others that are.
    pub fn id(&self) -> SessionId {
        session_of(self.participant.line())
    }
    #[inline]
    pub fn pin(&self) -> Guard<'_> {
        self.participant.pin()
    }

    // ---- snapshots

    /// Publishes a snapshot for reading what is visible now: read-only, never waits for a flush.
    #[inline]
    pub fn snapshot_visible(&mut self) {
        loop {
            let mut s = self.kernel.log.visible_ts().max(self.last_commit);
            if ondol_base::sim::mutated("readers_see_unflushed") {
                s = self.kernel.log.clock() - 1
            }
            if self.publish(s) {
                return;
            }
        }
    }
    /// Publishes a snapshot of everything committed so far, durable or not.
    #[inline]
    pub fn snapshot_newest(&mut self) {
        loop {
            let s = self.kernel.log.clock() - 1;
            if self.publish(s) {
                return;
            }
        }
    }
    /// R1.
    #[inline]
    fn publish(&mut self, s: u64) -> bool {
        self.participant.line().words[SNAPSHOT].store(s, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.view.snapshot = s;
        self.kernel.log.visible_ts() <= s
    }
    /// The snapshot is needed no more.
    #[inline]
    pub fn unpublish(&mut self) {
        self.participant.line().words[SNAPSHOT].store(IDLE, Ordering::Release);
    }

    // ---- the transaction

    pub fn is_open(&self) -> bool {
        self.txn.is_some()
    }
    pub fn has_changes(&self) -> bool {
        self.txn.as_ref().is_some_and(|t| t.changed)
    }
    /// Starts a read-write transaction. The caller takes snapshots.
    pub fn begin(&mut self, isolation: Isolation) {
        debug_assert!(self.txn.is_none());
        self.sequence += 1;
        let id = (self.number << 32 | self.sequence & 0xffff_ffff) & ID;
        let state = Arc::new(TxnState {
            id,
            session: self.id(),
            state: AtomicU64::new(0),
            waited: AtomicBool::new(false),
        });
        self.view.txn = id;
        self.view.command = 1;
        self.seen = 0;
        self.txn = Some(match self.spare.take() {
            Some(mut t) => {
                t.state = state;
                t.isolation = isolation;
                t
            }
            None => Box::new(Txn::new(state, isolation)),
        });
    }
    /// The next command: sees what the ones before it did.
    pub fn next_command(&mut self) {
        self.view.command += 1;
    }
    fn open(&mut self) -> &mut Txn {
        self.txn.as_mut().expect("a write outside a transaction")
    }
    fn mark(&mut self) -> *const Mark {
        let command = self.view.command;
        let t = self.open();
        match t.marks.last() {
            Some(m) if m.command == command => &**m,
            _ => {
                t.marks.push(Box::new(Mark { txn: t.state.clone(), command }));
                &**t.marks.last().expect("just pushed")
            }
        }
    }
    fn table_number(&mut self, table: &Arc<TableStore>) -> u32 {
        let t = self.open();
        match t.tables.iter().rposition(|x| Arc::ptr_eq(x, table)) {
            Some(i) => i as u32,
            None => {
                t.tables.push(table.clone());
                t.tables.len() as u32 - 1
            }
        }
    }
    fn charge(&mut self, bytes: usize) -> Result<()> {
        const STEP: usize = 64 << 10;
        if self.credit < bytes {
            self.kernel.space.budget.try_charge(bytes.max(STEP))?;
            self.credit += bytes.max(STEP);
        }
        self.credit -= bytes;
        Ok(())
    }
    /// Makes room for one more write: what can be refused is refused before the write is made.
    #[inline]
    fn room(&mut self) -> Result<()> {
        let t = self.open();
        if t.writes.len() < t.writes.capacity() { Ok(()) } else { self.more_room() }
    }
    #[inline(never)]
    fn more_room(&mut self) -> Result<()> {
        let more = self.open().writes.capacity().max(4);
        let bytes = more * size_of::<Write>();
        self.charge(bytes)?;
        let t = self.open();
        t.writes.reserve_exact(more);
        t.charged += bytes;
        Ok(())
    }

    // ---- reading

    /// Copies row bytes as the statement sees them. The buffer has the row's size.
    #[inline]
    pub fn read(&self, oid: Oid, out: &mut [u8]) -> bool {
        let _pin = self.participant.pin();
        slot::read(&self.kernel.space, oid, &self.view, 0, out)
    }
    /// The same, by who holds a pin already.
    #[inline]
    pub fn read_pinned(&self, _pin: &Guard<'_>, oid: Oid, out: &mut [u8]) -> bool {
        slot::read(&self.kernel.space, oid, &self.view, 0, out)
    }
    /// Copies the newest version: our own, or the last committed.
    pub fn read_newest(&self, oid: Oid, out: &mut [u8]) -> bool {
        let _pin = self.participant.pin();
        let view = View { snapshot: ID, txn: self.view.txn, command: u32::MAX };
        slot::read(&self.kernel.space, oid, &view, 0, out)
    }
    #[inline]
    pub fn is_serializable(&self) -> bool {
        self.txn.as_ref().is_some_and(|t| t.isolation == Isolation::Serializable)
    }
    /// Serializable transactions remember what they looked at, found or not.
    pub fn remember_row(&self, oid: Oid) -> Result<()> {
        if let Some(t) = self.txn.as_ref().filter(|t| t.isolation == Isolation::Serializable) {
            let reads = &mut *t.reads.borrow_mut();
            remember_more(&mut reads.rows, 1, &mut reads.charged, &self.kernel.space.budget)?;
            reads.rows.push(oid)
        }
        Ok(())
    }
    pub fn remember_nodes(&self, index: &Arc<IndexStore>, seen: &mut Vec<Seen>) -> Result<()> {
        if let Some(t) = self.txn.as_ref().filter(|t| t.isolation == Isolation::Serializable) {
            let reads = &mut *t.reads.borrow_mut();
            remember_more(&mut reads.nodes, seen.len(), &mut reads.charged, &self.kernel.space.budget)?;
            reads.nodes.extend(seen.iter().map(|s| (index.clone(), *s)))
        }
        seen.clear();
        Ok(())
    }
    pub fn remember_heap(&self, table: &TableStore) {
        if let Some(t) = self.txn.as_ref().filter(|t| t.isolation == Isolation::Serializable) {
            let mut reads = t.reads.borrow_mut();
            if !reads.heaps.iter().any(|h| h.id == table.rows.id) {
                reads.heaps.push(table.rows.clone())
            }
        }
    }

    // ---- locking

    /// Takes the row's lock for this transaction.
    pub fn lock(&mut self, table: &Arc<TableStore>, oid: Oid, mode: LockMode, wait: Wait) -> Result<Locked> {
        match mode {
            LockMode::Update => self.lock_update(table, oid, wait, false),
            LockMode::Share => self.lock_share(table, oid, wait),
        }
    }

    fn wait_for(&mut self, holder: &Arc<TxnState>, wait: Wait) -> Result<bool> {
        match wait {
            Wait::NoWait => Err(Error::LockNotAvailable { timeout: false }),
            Wait::Skip => Ok(false),
            Wait::Block => {
                self.kernel.waits.wait_for(self.id(), holder, &self.patience)?;
                Ok(true)
            }
        }
    }

    /// The owner of a slot as a state that outlives our pin.
    fn owner_of(&self, oid: Oid, w0: u64) -> Option<Arc<TxnState>> {
        let _pin = self.participant.pin();
        let link = self.kernel.space.word(oid.0 + 8).load(Ordering::Acquire);
        let p = if link & MARK != 0 {
            (link & POINTER) as *const Mark
        } else {
            // SAFETY: pinned.
            let v = unsafe { node(link) }?;
            if v.ts.load(Ordering::Acquire) != 0 {
                return None;
            }
            v.mark
        };
        // SAFETY: pinned, so the mark is not freed yet.
        let state = unsafe { p.as_ref() }?.txn.clone();
        (state.id == w0 & ID).then_some(state)
    }

    fn lock_update(&mut self, table: &Arc<TableStore>, oid: Oid, wait: Wait, any: bool) -> Result<Locked> {
        let kernel = self.kernel.clone();
        let space = &kernel.space;
        let mut turn = 0;
        loop {
            let w0 = space.word(oid.0).load(Ordering::Acquire);
            if w0 == 0 {
                return Ok(Locked::Gone);
            }
            if w0 & OWNED != 0 {
                if w0 & ID == self.view.txn {
                    return Ok(if any { Locked::Same } else { self.locked_before(oid, w0) });
                }
                if let Some(owner) = (w0 & INSTALLING == 0).then(|| self.owner_of(oid, w0)).flatten()
                    && matches!(owner.get(), Status::Active | Status::Preparing(_))
                    && !kernel.waits.shares(oid, self.view.txn)
                {
                    if !self.wait_for(&owner, wait)? {
                        return Ok(Locked::Skipped);
                    }
                    turn = 0;
                    continue;
                }
                spin_wait(turn);
                turn += 1;
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
            let Some(v) = Version::new(SMALL, w0, 0, mark) else {
                return Err(Error::OutOfMemory { limit: space.budget.limit() });
            };
            // Dead rows are never owned: their slot may be freed at any time. While we are pinned it is not freed and
            // taken anew, so an unchanged header means the same version, which is alive.
            let pin = self.participant.pin();
            let dead = space.word(row(oid)).load(Ordering::Acquire) & LIVE as u64 == 0;
            let taken = !dead
                && space
                    .word(oid.0)
                    .compare_exchange(w0, OWNED | self.view.txn, Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok();
            let unchanged = taken || space.word(oid.0).load(Ordering::Acquire) == w0;
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
            let link = push(space.word(oid.0 + 8), v);
            self.open().writes.push(Write {
                oid,
                node: v,
                table: number,
                did: Did::Node,
                spilled: false,
                string: false,
            });
            // W3
            if link & SHARED != 0
                && let Some(holder) = kernel.waits.sharer(oid, self.view.txn)
            {
                self.undo_last();
                if !self.wait_for(&holder, wait)? {
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

    /// What locking a row again finds. What this statement has locked and not changed may be newer than its snapshot: another
    /// name of the same row in the statement has still to learn that.
    fn locked_before(&self, oid: Oid, w0: u64) -> Locked {
        if w0 & FRESH != 0 {
            return Locked::Same;
        }
        // SAFETY: the slot is ours: its head cannot be freed.
        match unsafe { node(self.kernel.space.word(oid.0 + 8).load(Ordering::Acquire)) } {
            Some(v) if v.is_empty() && v.prev > self.view.snapshot => Locked::Changed,
            _ => Locked::Same,
        }
    }

    fn lock_share(&mut self, table: &Arc<TableStore>, oid: Oid, wait: Wait) -> Result<Locked> {
        let kernel = self.kernel.clone();
        let space = &kernel.space;
        let mut turn = 0;
        loop {
            let w0 = space.word(oid.0).load(Ordering::Acquire);
            if w0 == 0 {
                return Ok(Locked::Gone);
            }
            if w0 & OWNED != 0 {
                if w0 & ID == self.view.txn {
                    return Ok(self.locked_before(oid, w0));
                }
                if let Some(owner) = (w0 & INSTALLING == 0).then(|| self.owner_of(oid, w0)).flatten()
                    && matches!(owner.get(), Status::Active | Status::Preparing(_))
                    && !kernel.waits.shares(oid, self.view.txn)
                {
                    if !self.wait_for(&owner, wait)? {
                        return Ok(Locked::Skipped);
                    }
                    turn = 0;
                    continue;
                }
                spin_wait(turn);
                turn += 1;
                continue;
            }
            let newer = w0 > self.view.snapshot;
            if newer && self.open().isolation != Isolation::ReadCommitted {
                return Err(Error::Conflict);
            }
            self.room()?;
            self.charge(SHARE_BYTES)?;
            self.open().charged += SHARE_BYTES;
            let state = self.open().state.clone();
            let new = kernel.waits.share(oid, &state, || {
                space.word(oid.0 + 8).fetch_or(SHARED, Ordering::SeqCst);
            });
            yield_point();
            if space.word(oid.0).load(Ordering::SeqCst) != w0 {
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
    fn unshare(&self, oid: Oid) {
        let space = &self.kernel.space;
        self.kernel.waits.unshare(oid, self.view.txn, || {
            space.word(oid.0 + 8).fetch_and(!SHARED, Ordering::SeqCst);
        })
    }

    // ---- changing

    /// A new row; `bytes` are the whole row (a multiple of 16, live bit set). Index entries are made and unique
    /// indexes checked.
    pub fn insert(&mut self, table: &Arc<TableStore>, bytes: &[u8]) -> Result<Oid> {
        debug_assert!(bytes.len().is_multiple_of(16) && bytes[0] & LIVE != 0);
        if bytes.len() > LARGEST_ROW {
            return Err(Error::TooLarge { bytes: bytes.len(), limit: LARGEST_ROW });
        }
        self.room()?;
        let units = ((bytes.len() + 16) / 16) as u8;
        let oid = table.rows.allocate(&mut self.claims, &self.kernel.log, units)?;
        self.enter_fresh(table, oid, bytes, false);
        for index in table.indexes.iter() {
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

    /// [`Session::insert`] for each of several rows, one behind the other in `rows`, in their order. `done` counts them up:
    /// an error is that of the row that follows those.
    pub fn insert_rows(&mut self, table: &Arc<TableStore>, rows: &[u8], done: &mut usize) -> Result<()> {
        /// Rows whose places in the indexes are brought into the cache together.
        const AHEAD: usize = 16;
        for group in rows.chunks(table.row_size * AHEAD) {
            let mut key = std::mem::take(&mut self.buffer);
            {
                let guard = self.participant.pin();
                for index in &table.indexes {
                    for row in group.chunks_exact(table.row_size) {
                        key.clear();
                        index.key.key(row, &Newest(self), &mut key);
                        index.index.prefetch(&guard, &key)
                    }
                }
            }
            self.buffer = key;
            for row in group.chunks_exact(table.row_size) {
                self.insert(table, row)?;
                *done += 1
            }
        }
        Ok(())
    }

    fn enter_fresh(&mut self, table: &Arc<TableStore>, oid: Oid, bytes: &[u8], string: bool) {
        let mark = self.mark();
        let number = self.table_number(table);
        let space = &self.kernel.space;
        set_head(space.word(oid.0 + 8), mark as u64 | MARK);
        yield_point();
        space.word(oid.0).store(OWNED | FRESH | self.view.txn, Ordering::Release);
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
        });
    }

    /// Puts a new row's key into an index and, where it is unique, makes sure that no other row has it (U1).
    fn enter_key(
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
        let kernel = self.kernel.clone();
        loop {
            let latch = kernel.key_latches.latch(kernel.key_latches.number(index.id, key));
            match self.twin(table, index, key, oid)? {
                None => return self.put_entry(index, key, oid),
                Some(owner) => {
                    drop(latch);
                    self.wait_for(&owner, Wait::Block)?;
                }
            }
        }
    }

    fn put_entry(&mut self, index: &Arc<IndexStore>, key: &[u8], oid: Oid) -> Result<()> {
        let inserted = {
            let guard = self.participant.pin();
            index.index.insert(&guard, key, oid)
        }
        .map_err(|_| Error::OutOfMemory { limit: self.kernel.space.budget.limit() })?;
        self.own_change(index, &inserted);
        Ok(())
    }

    /// Takes the latches of the unique keys that a changed row is about to have, once none of them is another row's. The
    /// change has to be made under them: the row's entry may stand already, of an older version.
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
                if let Some(owner) = self.twin(table, &k.index, &k.key, oid)? {
                    drop::<Vec<_>>(latches);
                    self.wait_for(&owner, Wait::Block)?;
                    continue 'again;
                }
            }
            return Ok(latches);
        }
    }

    /// An index node that this transaction had seen and changed itself has not been changed by another.
    fn own_change(&mut self, index: &Arc<IndexStore>, did: &Inserted) {
        // Also an entry that stood there already makes a new version (I5 of the index).
        if did.before.node != did.after.node {
            return;
        }
        if let Some(t) = self.txn.as_mut().filter(|t| t.isolation == Isolation::Serializable) {
            for (i, s) in t.reads.get_mut().nodes.iter_mut() {
                if s.node == did.before.node && s.version == did.before.version && Arc::ptr_eq(i, index) {
                    s.version = did.after.version
                }
            }
        }
    }

    /// Looks, under the key's latch, whether another row has the key: an error if it is there to stay, the transaction to
    /// wait for if that could yet make or unmake it. Sees uncommitted and dead entries.
    fn twin(
        &mut self,
        table: &Arc<TableStore>,
        index: &Arc<IndexStore>,
        key: &[u8],
        me: Oid,
    ) -> Result<Option<Arc<TxnState>>> {
        let mut oids = std::mem::take(&mut self.oids);
        oids.clear();
        {
            let guard = self.participant.pin();
            index.index.lookup(&guard, key, &mut oids, None);
        }
        let mut outcome = Ok(None);
        for &oid in oids.iter().filter(|o| **o != me) {
            outcome = self.has_key(table, index, key, oid);
            if !matches!(outcome, Ok(None)) {
                break;
            }
        }
        self.oids = oids;
        outcome
    }

    /// The same of one row.
    fn has_key(
        &mut self,
        table: &Arc<TableStore>,
        index: &Arc<IndexStore>,
        key: &[u8],
        oid: Oid,
    ) -> Result<Option<Arc<TxnState>>> {
        let kernel = self.kernel.clone();
        let space = &kernel.space;
        let mut turn = 0;
        loop {
            let pin = self.participant.pin();
            let w0 = space.word(oid.0).load(Ordering::Acquire);
            if w0 == 0 {
                return Ok(None);
            }
            let mut buf = std::mem::take(&mut self.old_row);
            buf.resize(table.row_size, 0);
            let mine = w0 & OWNED != 0 && w0 & ID == self.view.txn;
            let other = w0 & OWNED != 0 && !mine;
            let same = |buf: &[u8]| {
                let mut k = Vec::with_capacity(key.len());
                index.key.key(buf, &Newest(self), &mut k);
                k == key
            };
            let verdict = if !other {
                // Our newest, or the newest committed.
                self.read_newest(oid, &mut buf) && same(&buf)
            } else {
                slot::any_version(space, oid, &mut buf, false, &mut |b| same(b))
            };
            let changed = space.word(oid.0).load(Ordering::Acquire) != w0;
            drop(pin);
            self.old_row = buf;
            if !changed {
                if !verdict {
                    return Ok(None);
                }
                if !other {
                    return Err(Error::UniqueViolation { index: index.id });
                }
                if let Some(owner) = self.owner_of(oid, w0)
                    && matches!(owner.get(), Status::Active | Status::Preparing(_))
                {
                    return Ok(Some(owner));
                }
            }
            spin_wait(turn);
            turn += 1;
        }
    }

    /// Changes a row that is locked by us: `old` is its newest version, `new` has the same length.
    pub fn update(&mut self, table: &Arc<TableStore>, oid: Oid, old: &[u8], new: &[u8]) -> Result<()> {
        let keys = self.new_keys(table, old, new);
        let kernel = self.kernel.clone();
        let latches = match keys.iter().any(|k| k.index.unique && !k.nulls) {
            true => self.claim_keys(&kernel, table, &keys, oid)?,
            false => vec![],
        };
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        difference(old, new, &mut pieces);
        let done = self.push_difference(table, oid, &pieces, false);
        self.pieces = pieces;
        if !done? {
            return Ok(());
        }
        for k in &keys {
            self.put_entry(&k.index, &k.key, oid)?
        }
        drop(latches);
        self.spill_if_large()
    }

    /// The keys that the row has and had not before.
    fn new_keys(&self, table: &TableStore, old: &[u8], new: &[u8]) -> Vec<NewKey> {
        let mut keys = vec![];
        if new[0] & LIVE == 0 {
            return keys;
        }
        for index in table.indexes.iter().filter(|i| !i.key.unaffected(old, new)) {
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
        self.update(table, oid, old, &zero)
    }

    /// Puts a difference on the slot's chain; false when there is none.
    fn push_difference(
        &mut self,
        table: &Arc<TableStore>,
        oid: Oid,
        pieces: &[u64],
        string: bool,
    ) -> Result<bool> {
        if pieces.is_empty() {
            return Ok(false);
        }
        let word1 = self.kernel.space.word(oid.0 + 8);
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
                && h.ts.load(Ordering::Relaxed) == 0
                && unsafe { (*h.mark).command } == command
        }) && {
            // The lock was taken by this command; if that was after the last savepoint, its node may serve.
            let p = (link & POINTER) as *mut Version;
            // Not if a string was stored since: undone from the end, the string would be gone before the row that names it, and
            // so would the key by which the row's index entry is found.
            let since = self.open().writes[fill_from..].iter().rev().take(16);
            since.take_while(|w| !(w.string && w.did == Did::Insert)).any(|w| w.node == p)
        };
        if fits {
            // SAFETY: the slot is ours and the node empty.
            unsafe { Version::fill((link & POINTER) as *mut Version, pieces) };
        } else {
            self.room()?;
            self.charge(Version::bytes(pieces.len().max(SMALL)))?;
            let mark = self.mark();
            let number = self.table_number(table);
            let space = &self.kernel.space;
            let w0 = space.word(oid.0).load(Ordering::Relaxed);
            let prev = match head {
                _ if w0 & FRESH != 0 => 0,
                Some(h) => h.prev,
                None => 0,
            };
            let Some(v) = Version::new(pieces.len(), prev, 0, mark) else {
                return Err(Error::OutOfMemory { limit: space.budget.limit() });
            };
            // SAFETY: not shared yet.
            unsafe { Version::fill(v, pieces) };
            push(space.word(oid.0 + 8), v);
            self.open().writes.push(Write {
                oid,
                node: v,
                table: number,
                did: Did::Node,
                spilled: false,
                string,
            });
        }
        let t = self.open();
        t.changed = true;
        t.unspilled += size + 16;
        Ok(true)
    }

    // ---- strings

    /// Stores a string in the table's string heap. Its row bytes: live byte, 3 zero bytes, u32 length, the bytes.
    pub fn put_string(&mut self, table: &Arc<TableStore>, bytes: &[u8]) -> Result<Oid> {
        let len = 8 + bytes.len();
        if len > LARGEST_RUN {
            return Err(Error::TooLarge { bytes: bytes.len(), limit: LARGEST_RUN - 8 });
        }
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
        Ok(oid)
    }
    /// The string is named by no version of ours any more.
    pub fn drop_string(&mut self, table: &Arc<TableStore>, oid: Oid, len: usize) -> Result<()> {
        let len = (8 + len).next_multiple_of(8);
        if self.lock_update(table, oid, Wait::Block, true)? != Locked::Same {
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
        self.push_difference(table, oid, &pieces, true)?;
        self.spill_if_large()
    }
    /// Appends a string's bytes as the statement sees them. Strings are immutable, so any version that names one
    /// finds the same bytes.
    pub fn read_string(&self, oid: Oid, len: usize, out: &mut Vec<u8>) -> bool {
        read_string(self, &self.view, oid, len, out)
    }

    // ---- spilling, savepoints, abort

    fn spill_if_large(&mut self) -> Result<()> {
        if self.txn.as_ref().is_some_and(|t| t.unspilled > SPILL) { self.spill(false) } else { Ok(()) }
    }

    /// Logs what is not in the log yet as fragments (P2): all of it, or only what fills whole fragments.
    fn spill(&mut self, all: bool) -> Result<()> {
        let kernel = self.kernel.clone();
        let stream = self.stream;
        let mut changes = std::mem::take(&mut self.changes);
        changes.clear();
        let t = self.open();
        let mut outcome = Ok(());
        let mut i = t.first_unspilled;
        while i < t.writes.len() {
            let w = &t.writes[i];
            // The last entry's node may still be filled.
            if !all && i + 1 == t.writes.len() && w.did == Did::Node {
                break;
            }
            let more = each_piece(&kernel, w, |oid, offset, bytes| {
                if changes.len() + bytes.len() + 64 > Log::MAX_RECORD && !changes.is_empty() {
                    kernel.log.fragment(stream, t.state.id, t.fragments, &changes)?;
                    t.fragments += 1;
                    changes.clear();
                }
                changes.push(oid, offset, bytes);
                Ok(())
            });
            if let Err(e) = more {
                outcome = Err(e);
                break;
            }
            t.writes[i].spilled = true;
            i += 1;
        }
        if outcome.is_ok() && !changes.is_empty() {
            outcome = kernel.log.fragment(stream, t.state.id, t.fragments, &changes).map_err(Error::from);
            t.fragments += 1;
        }
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

    pub fn savepoint(&mut self) -> Savepoint {
        let t = self.open();
        t.fill_from = t.writes.len();
        Savepoint { writes: t.writes.len() }
    }

    /// Undoes everything since the savepoint. Fails only if the log does, now or earlier in the transaction, which then can
    /// only be aborted.
    pub fn rollback_to(&mut self, to: Savepoint) -> Result<()> {
        if let Some(e) = &self.open().broken {
            return Err(e.clone());
        }
        if let Err(e) = self.take_back(to) {
            self.open().broken = Some(e.clone());
            return Err(e);
        }
        self.undo_to(to.writes);
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
        if t.first_unspilled > to.writes {
            for w in t.writes[to.writes..t.first_unspilled].iter().filter(|w| w.spilled) {
                each_piece(&kernel, w, |oid, offset, bytes| {
                    if changes.len() + bytes.len() + 64 > Log::MAX_RECORD && !changes.is_empty() {
                        kernel.log.fragment(stream, t.state.id, t.fragments, &changes)?;
                        t.fragments += 1;
                        changes.clear();
                    }
                    changes.push(oid, offset, bytes);
                    Ok(())
                })?
            }
            if !changes.is_empty() {
                kernel.log.fragment(stream, t.state.id, t.fragments, &changes)?;
                t.fragments += 1;
            }
            t.first_unspilled = to.writes;
        }
        Ok(())
    }

    fn undo_last(&mut self) {
        let n = self.open().writes.len();
        self.undo_to(n - 1)
    }

    /// Takes writes back from the end, without the log.
    fn undo_to(&mut self, keep: usize) {
        let kernel = self.kernel.clone();
        let space = &kernel.space;
        let undone = self.open().writes.split_off(keep);
        // Rows before strings: an entry is found by its key, and that is made of strings which the row's lock may be older
        // than.
        let rows = undone.iter().rev().filter(|w| !w.string);
        for w in rows.chain(undone.iter().rev().filter(|w| w.string)) {
            let table = self.open().tables[w.table as usize].clone();
            match w.did {
                Did::Share => self.unshare(w.oid),
                Did::Node => {
                    // SAFETY: our own node, at the head of its chain (T1).
                    let v = unsafe { &*w.node };
                    let changed_keys = !v.is_empty() && !w.string && !table.indexes.is_empty();
                    let mut new = vec![];
                    if changed_keys {
                        new.resize(table.row_size, 0);
                        self.read_newest(w.oid, &mut new);
                    }
                    if pop(space.word(w.oid.0 + 8), v) {
                        space.word(w.oid.0).store(v.prev, Ordering::Release)
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
                    // The bitmap keeps the slot until it is freed, after the entries and an epoch (K5). Its mark may go
                    // before that, so it must not be followed any more. The header says free from now on: any timestamp
                    // would be one that comes back when the slot's next insert is undone too (K1).
                    set_head(space.word(w.oid.0 + 8), 0);
                    space.word(w.oid.0).store(0, Ordering::Release);
                    let heap = if w.string { table.strings.clone() } else { table.rows.clone() };
                    let oid = w.oid;
                    let guard = self.participant.pin();
                    guard.retire(move || heap.free(oid));
                }
            }
        }
    }

    /// Takes index entries out whose key no version of the row has (any more).
    fn forget_keys(&mut self, table: &Arc<TableStore>, oid: Oid, of: &[u8]) {
        // Also those that this transaction has dropped since.
        let strings = Committed(&self.kernel.space);
        let _pin = self.participant.pin();
        for index in table.indexes.iter() {
            let mut key = vec![];
            index.key.key(of, &strings, &mut key);
            crate::collect::remove_entry(&self.kernel.space, &self.participant, table, index, &key, oid)
        }
    }

    /// Ends the transaction without effect.
    pub fn abort(&mut self) {
        if self.txn.is_none() {
            return;
        }
        self.undo_to(0);
        let t = self.open();
        let (id, fragments) = (t.state.id, t.fragments);
        if fragments > 0 {
            self.kernel.log.abandon(id)
        }
        self.end(Status::Aborted)
    }

    fn end(&mut self, status: Status) {
        let Some(mut t) = self.txn.take() else { return };
        if status == Status::Aborted {
            t.state.set(status)
        }
        self.kernel.waits.ended(&t.state);
        if !t.marks.is_empty() {
            let guard = self.participant.pin();
            for m in t.marks.drain(..) {
                // SAFETY: its slots are stamped, so no new reader finds it; it came out of its box here.
                unsafe { guard.retire_raw(Box::into_raw(m) as usize, Mark::free_at) }
            }
        }
        self.view.txn = 0;
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
        self.kernel.collector.help(&self.garbage, &self.participant, &self.kernel);
    }

    // ---- commit

    /// Commits. `None`: there was nothing to commit. The outcome is durable once the log says so of the timestamp.
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
        let kernel = self.kernel.clone();
        let mut changes = std::mem::take(&mut self.changes);
        let taken = self.take_timestamp(&kernel, &mut changes);
        changes.clear();
        self.changes = changes;
        match taken {
            Ok(c) => {
                yield_point();
                self.install(&kernel, c);
                self.participant.line().words[COMMITTING].store(IDLE, Ordering::Release);
                self.last_commit = c;
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

    fn take_timestamp(&mut self, kernel: &Arc<Kernel>, changes: &mut Changes) -> Result<CommitTs> {
        changes.clear();
        let mut large = false;
        let t = self.open();
        for w in &t.writes[t.first_unspilled..] {
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
        let committing = &self.participant.line().words[COMMITTING];
        let t = self.txn.as_ref().expect("committing");
        let state = &t.state;
        let reservation =
            kernel.log.reserve(self.stream, changes.len(), Kind::Commit, state.id, t.fragments, |c| {
                // R2: under the commit latch, so whoever learns of a later timestamp sees it.
                committing.store(c, Ordering::Relaxed);
                state.set(if serializable { Status::Preparing(c) } else { Status::Committed(c) })
            })?;
        let c = reservation.ts();
        yield_point();
        if serializable {
            if !ondol_base::sim::mutated("serializable_unchecked") && !self.reads_stand(kernel, c) {
                self.open().state.set(Status::Aborted);
                reservation.void();
                return Err(Error::Serialization);
            }
            self.open().state.set(Status::Committed(c));
        }
        reservation.commit(changes);
        Ok(c)
    }

    /// T3. All commits before `c` are installed or void when this looks.
    fn reads_stand(&self, kernel: &Arc<Kernel>, c: CommitTs) -> bool {
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
                spin_wait(turn);
                turn += 1;
                let w0 = space.word(oid.0).load(Ordering::Acquire);
                let mut next = space.word(oid.0 + 8).load(Ordering::Acquire);
                let mut base = w0;
                if w0 & OWNED != 0 {
                    // What is fresh and not ours commits later than c, if at all.
                    if w0 & ID == t.state.id || w0 & FRESH != 0 {
                        return 0;
                    }
                    // SAFETY: pinned.
                    match unsafe { node(next) } {
                        Some(v) if w0 & INSTALLING != 0 || v.ts.load(Ordering::Acquire) == 0 => base = v.prev,
                        _ => continue,
                    }
                }
                // Nodes later than our snapshot are kept, and are not folded across c (the horizon's visible timestamp
                // stays below a commit that is under way).
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
                if space.word(oid.0).load(Ordering::Relaxed) == w0 {
                    return base;
                }
            }
        };
        let stands = |oid: &Oid| newest(*oid) <= snapshot;
        reads.rows.iter().all(stands)
            // SAFETY: the index is held by the entry (I3).
            && reads.nodes.iter().all(|(_, s)| unsafe { (*s.node).load(Ordering::Acquire) } == s.version)
            && reads.heaps.iter().all(|h| {
                let mut slots = crate::heap::Slots::default();
                slots.start(h);
                std::iter::from_fn(|| slots.next(space)).all(|oid| stands(&oid))
            })
    }

    /// Stamps and changes the rows. Nothing here can fail.
    fn install(&mut self, kernel: &Arc<Kernel>, c: CommitTs) {
        let space = &kernel.space;
        let Some(t) = self.txn.as_mut() else { return };
        all_indexes(&mut t.tables);
        // Nodes unlinked below are looked at again.
        let _pin = self.participant.pin();
        let mut garbage = self.garbage.lock();
        let mut nodes: Vec<&Version> = vec![];
        // From the first to the last: a slot's nodes come in the order they were pushed, and it is installed with all of
        // them when the first is met.
        // Rows before strings: the keys that a row had are made of its strings, which are there until they are installed.
        let rows = t.writes.iter().filter(|w| !w.string);
        for w in rows.chain(t.writes.iter().filter(|w| w.string)) {
            let word0 = space.word(w.oid.0);
            match w.did {
                Did::Share => continue,
                Did::Insert | Did::Node => {}
            }
            let w0 = word0.load(Ordering::Relaxed);
            if w0 & OWNED == 0 || w0 & ID != t.state.id {
                continue;
            }
            let word1 = space.word(w.oid.0 + 8);
            let link = word1.load(Ordering::Acquire);
            if link & MARK != 0 {
                space.header(PageId::of(w.oid), header::LAST_COMMIT).fetch_max(c, Ordering::Relaxed);
                set_head(word1, 0);
                word0.store(c, Ordering::Release);
                continue;
            }
            nodes.clear();
            let mut next = link;
            // SAFETY: pinned; our own nodes are the pending ones at the head.
            while let Some(v) = unsafe { node(next) } {
                if v.ts.load(Ordering::Relaxed) != 0 {
                    break;
                }
                nodes.push(v);
                next = v.next.load(Ordering::Acquire);
            }
            let Some(first) = nodes.first() else { continue };
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
            for v in &nodes {
                for (at, words) in v.pieces() {
                    for (x, word) in words.iter().zip(space.words(base + at as u64 * 8, words.len())) {
                        word.store(word.load(Ordering::Relaxed) ^ x, Ordering::Relaxed)
                    }
                    yield_point();
                }
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
            if !w.string && !table.indexes.is_empty() {
                changed_keys(table, w.oid, space, &nodes, dead, &mut |index, key| {
                    garbage.push(c, Item::Entry { oid: w.oid, table: table.clone(), index, key })
                });
            }
            if dead {
                garbage.push(c, Item::Slot { oid: w.oid, heap: heap.clone() })
            }
        }
        drop(garbage);
        let shares: Vec<Oid> = t.writes.iter().filter(|w| w.did == Did::Share).map(|w| w.oid).collect();
        for oid in shares {
            self.unshare(oid)
        }
    }

    /// Makes commits up to `c` visible to everyone before they are durable; a background round follows.
    pub fn acknowledge_async(&self, c: CommitTs) {
        self.kernel.log.acknowledge_async(c)
    }
    /// Waits until commits up to `c` are durable.
    pub fn wait_durable(&self, c: CommitTs) -> Result<()> {
        if self.kernel.log.durable_ts() >= c { Ok(()) } else { Ok(self.kernel.log.wait_durable(c)?) }
    }
    /// The newest commit that the transaction may have seen: once it ends, what it answered rests on that.
    pub fn seen(&self) -> CommitTs {
        self.view.snapshot.max(self.seen)
    }
    pub fn last_commit(&self) -> CommitTs {
        self.last_commit
    }
    /// Forgets claims on a heap that is to be dropped.
    pub fn forget_heap(&mut self, heap: ondol_durability::HeapId) {
        self.claims.forget(heap)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.abort();
        self.unpublish();
        self.claims.release();
        self.kernel.space.budget.give_back(self.credit);
        self.kernel.collector.orphan(&self.garbage);
    }
}

/// The session whose line it is.
pub fn session_of(line: &Line) -> SessionId {
    std::ptr::from_ref(line).addr() as SessionId
}

/// Calls `f` with the difference that a write makes, in pieces of bounded length: (oid, offset in row, bytes).
fn each_piece(kernel: &Kernel, w: &Write, f: impl FnMut(Oid, usize, &[u8]) -> Result<()>) -> Result<()> {
    // Nearly all are short, and clearing a large buffer would be most of what they cost.
    const SHORT: usize = 256;
    let short = match w.did {
        Did::Share => return Ok(()),
        Did::Insert => !w.string && Heap::row_bytes(&kernel.space, w.oid) <= SHORT,
        // SAFETY: our own node.
        Did::Node => unsafe { &*w.node }.words().len() <= SHORT / 8,
    };
    if short { each_piece_of::<SHORT>(kernel, w, f) } else { each_piece_of::<{ 8 << 10 }>(kernel, w, f) }
}

fn each_piece_of<const CHUNK: usize>(
    kernel: &Kernel,
    w: &Write,
    mut f: impl FnMut(Oid, usize, &[u8]) -> Result<()>,
) -> Result<()> {
    match w.did {
        Did::Share => Ok(()),
        Did::Insert => {
            let len = if w.string {
                let head = kernel.space.word(row(w.oid)).load(Ordering::Relaxed);
                (8 + (head >> 32) as usize).next_multiple_of(8)
            } else {
                Heap::row_bytes(&kernel.space, w.oid)
            };
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
            let mut buf = [0; CHUNK];
            for (at, words) in v.pieces() {
                for (i, chunk) in words.chunks(CHUNK / 8).enumerate() {
                    for (o, x) in buf.chunks_exact_mut(8).zip(chunk) {
                        o.copy_from_slice(&x.to_le_bytes())
                    }
                    f(w.oid, at * 8 + i * CHUNK, &buf[..chunk.len() * 8])?
                }
            }
            Ok(())
        }
    }
}

/// Puts a node at the head of a chain, flags kept; gives the link that was there. The slot is ours, but a collector
/// may have the chain latched.
fn push(word1: &AtomicU64, v: *mut Version) -> u64 {
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

/// Takes our node off the head; true if it was our last one there.
fn pop(word1: &AtomicU64, v: &Version) -> bool {
    latch(word1);
    let next = v.next.load(Ordering::Acquire);
    // SAFETY: the chain is latched. The next node is pending exactly if it is ours too.
    let last = next & MARK == 0 && unsafe { node(next) }.is_none_or(|n| n.ts.load(Ordering::Relaxed) != 0);
    unlatch(word1, next);
    last
}

/// Takes all our pending nodes off a chain and frees them when nobody can look at them any more.
fn unlink_pending(word1: &AtomicU64, participant: &Participant, credit: &mut usize) {
    let mut nodes = vec![];
    let mut next = latch(word1);
    // SAFETY: the chain is latched.
    while let Some(v) = unsafe { node(next) } {
        if v.ts.load(Ordering::Relaxed) != 0 {
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
            // SAFETY: unlinked; readers are waited for (E2).
            unsafe { Version::free(p as *mut Version) }
        }
    });
}

/// Where a transaction changed definitions it has several views of a table. Each gets the indexes of all of them: one made
/// in its midst holds keys of rows that were changed before, one whose removal was taken back those that were changed after.
fn all_indexes(tables: &mut [Arc<TableStore>]) {
    for i in 1..tables.len() {
        for k in 0..i {
            if tables[k].rows.id != tables[i].rows.id {
                continue;
            }
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
                indexes,
            };
            let all = Arc::new(all);
            tables[k] = all.clone();
            tables[i] = all
        }
    }
}

/// The keys that the row's earlier versions within this commit had and its newest has not.
fn changed_keys(
    table: &Arc<TableStore>,
    oid: Oid,
    space: &crate::memory::Space,
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
    let strings = crate::table::Committed(space);
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

/// Strings as the session's newest state names them.
pub struct Newest<'a>(pub &'a Session);
impl crate::table::Strings for Newest<'_> {
    fn string(&self, oid: Oid, len: usize, out: &mut Vec<u8>) {
        let view = View { snapshot: ID, txn: self.0.view.txn, command: u32::MAX };
        if !read_string(self.0, &view, oid, len, out) {
            // Named by an older version: the bytes are in the chain.
            let view = View { snapshot: self.0.view.snapshot, ..view };
            read_string(self.0, &view, oid, len, out);
        }
    }
}

fn read_string(s: &Session, view: &View, oid: Oid, len: usize, out: &mut Vec<u8>) -> bool {
    let _pin = s.participant.pin();
    let start = out.len();
    let padded = (8 + len).next_multiple_of(8);
    if !s.kernel.space.contains(oid, padded + 16) {
        return false;
    }
    out.resize(start + padded, 0);
    let found = slot::read(&s.kernel.space, oid, view, 0, &mut out[start..]);
    if !found {
        out.truncate(start);
        return false;
    }
    out.copy_within(start + 8..start + 8 + len, start);
    out.truncate(start + len);
    true
}
