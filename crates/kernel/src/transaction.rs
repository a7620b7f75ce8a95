//! Sessions and their transactions: locking, changing, committing, undoing.
//!
//! ```text
//! begin -> statement (snapshot, command) -> lock, insert, update, delete ... -> commit | abort
//! ```
//! - **T1** Every write is entered in the write set, in order; rolling back to a savepoint undoes each slot's
//!   from the end.
//! - **T2** At commit: what can fail is done (fragments, log space); then the timestamp is taken, the record
//!   copied, the rows installed, the waiters woken; then durability is waited for. Locks are not held while
//!   the log syncs.
//! - **T3** A serializable transaction takes its timestamp in state PREPARING, waits for all earlier commits
//!   to be installed, and then checks that everything it read still stands. Checking before would admit the
//!   read-only anomaly; checking index leaves alone would admit write skew.
//! - **T4** A session's snapshots never go back. A transaction reads what is committed, durable or not; if it
//!   ends without a commit, what it was shown may be newer than what readers are shown. The session's next
//!   reader stands on that, once it is durable or the caller has it covered. If the log fails first, nobody
//!   will ever be shown it, and the session forgets it, as it does its own commits that were not durable.
use crate::collect::Garbage;
use crate::error::{Error, Result};
use crate::heap::{Claims, Heap, LARGEST_RUN, PIECE};
use crate::kernel::Kernel;
use crate::memory::Budget;
use crate::registry::{self, IDLE, SNAPSHOT};
use crate::slot::{self, ID, Status, View};
use crate::string;
use crate::table::{IndexStore, TableStore};
use crate::version::Version;
use crate::wait::{Patience, SessionId};
use ondol_base::barrier;
use ondol_base::epoch::{Guard, Line, Participant};
use ondol_base::oid::Oid;
use ondol_base::park::Parker;
use ondol_durability::delta::Changes;
use ondol_durability::log::{Log, StreamId};
use ondol_durability::{CommitTs, TxnId};
use ondol_index::{Moved, Seen};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

mod change;
mod commit;
mod kept;
mod lock;
mod merge;
mod parent;
mod rival;
mod share;
mod single;
mod undo;

pub use kept::KeptView;
pub use rival::Rival;
pub use share::Shared;
pub use single::Found;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Isolation {
    #[default]
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// How a row is locked, the weakest first (transaction/lock/L1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockMode {
    KeyShare,
    Share,
    NoKeyUpdate,
    Update,
}

impl LockMode {
    pub const ALL: [LockMode; 4] =
        [LockMode::KeyShare, LockMode::Share, LockMode::NoKeyUpdate, LockMode::Update];

    /// Whether two transactions cannot hold a row in these modes at once.
    #[inline]
    pub fn conflicts(self, other: LockMode) -> bool {
        self as u8 + other as u8 >= LockMode::Update as u8
    }
    /// Several may hold it.
    #[inline]
    pub fn shares(self) -> bool {
        self <= LockMode::Share
    }
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
    /// Somebody waits, or waited, for a row that it owns (wait/W2).
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
    /// Set before anything points here.
    command: AtomicU32,
}
impl Mark {
    /// For epochs.
    ///
    /// # Safety
    /// `at` came from [`Arc::into_raw`], and nobody can look at the mark by that reference any more.
    unsafe fn free_at(at: usize) {
        // SAFETY: by the contract above.
        drop(unsafe { Arc::from_raw(at as *const Mark) })
    }
    pub fn state(&self) -> &TxnState {
        &self.txn
    }
    pub fn command(&self) -> u32 {
        self.command.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Did {
    Insert,
    /// A pending node: a change, or nothing but the lock.
    Node,
    Share,
    KeyShare,
    /// The row's lock, taken before, was made FOR UPDATE.
    Whole,
    /// A change that is part of an earlier entry's by now (merge/M1 to merge/M4).
    Merged,
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
    /// The change gave the row a key that it had not before.
    rekeyed: bool,
}

/// A point to which a transaction can be rolled back; later ones are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint {
    writes: usize,
}

struct Txn {
    /// Of the first command that wrote, and those of later ones. Slots and nodes point to them.
    mark: Arc<Mark>,
    marks: Vec<Arc<Mark>>,
    /// Something may point to the first mark.
    marked: bool,
    isolation: Isolation,
    writes: Vec<Write>,
    tables: Vec<Arc<TableStore>>,
    /// Nodes pushed before the last savepoint must not be filled after it.
    fill_from: usize,
    /// Where the innermost savepoint is that may be rolled back to, but for the running statement's.
    merge_from: usize,
    fragments: u32,
    /// Bytes of differences that are not in the log yet, roughly.
    unspilled: usize,
    first_unspilled: usize,
    changed: bool,
    /// A row has got a key that it had not before.
    rekeyed: bool,
    /// The log refused a part of it, so that it no longer is what the write set says: the transaction can
    /// only be aborted.
    broken: Option<Error>,
    /// Bytes charged for the write set and for shared locks, from the session's credit.
    charged: usize,
    reads: std::cell::RefCell<Reads>,
    /// Of a helper's: the transaction that it inserts for.
    lender: Option<Arc<Shared>>,
}

impl Txn {
    fn new(mark: Arc<Mark>, isolation: Isolation) -> Txn {
        Txn {
            mark,
            marks: vec![],
            marked: false,
            isolation,
            writes: vec![],
            tables: vec![],
            fill_from: 0,
            merge_from: 0,
            fragments: 0,
            unspilled: 0,
            first_unspilled: 0,
            changed: false,
            rekeyed: false,
            broken: None,
            charged: 0,
            reads: Default::default(),
            lender: None,
        }
    }
    fn state(&self) -> &Arc<TxnState> {
        &self.mark.txn
    }
    /// As new but for its first mark, some memory kept. The other marks were given away.
    fn clear(&mut self) {
        const KEEP: usize = 1 << 10;
        debug_assert!(self.marks.is_empty());
        self.marked = false;
        self.writes.clear();
        self.writes.shrink_to(KEEP);
        self.tables.clear();
        self.fill_from = 0;
        self.merge_from = 0;
        self.fragments = 0;
        self.unspilled = 0;
        self.first_unspilled = 0;
        self.changed = false;
        self.rekeyed = false;
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

/// A command while another is nested in it.
pub struct Outer {
    command: u32,
    upserts: (TxnId, u32),
}

/// One user of the kernel: at most one transaction at a time.
pub struct Session {
    kernel: Arc<Kernel>,
    participant: Participant,
    claims: Claims,
    garbage: Arc<Garbage>,
    number: u64,
    sequence: u64,
    pub stream: StreamId,
    pub view: View,
    /// The command of the statement that the caller runs, not of one nested in it.
    outermost: u32,
    /// The highest command that has changed something.
    top: u32,
    txn: Option<Box<Txn>>,
    /// The last transaction's memory, for the next one.
    spare: Option<Box<Txn>>,
    /// Marks of earlier transactions, for later ones once nobody can look at them, the oldest first.
    resting: VecDeque<Arc<Mark>>,
    /// The queue of garbage has grown long.
    overdue: bool,
    /// The last commit of this session, durable or not.
    last_commit: CommitTs,
    /// Readers' snapshots are no older (T4); the last commit's timestamp is included.
    floor: CommitTs,
    /// The newest that was shown to transactions without a commit, beyond what readers are shown; 0: nothing
    /// (T4).
    shown: CommitTs,
    /// The newest commit that locking a row showed to the transaction, beyond its snapshot.
    seen: CommitTs,
    pub patience: Patience,
    /// The row that its transaction was to have as the victim of a deadlock, and who had it (wait/W11).
    rival: Option<(Oid, TxnId)>,
    /// Where it waits for others.
    parker: Arc<Parker>,
    /// The running statement deletes rows. It may take memory beyond the limit: what is there can be removed,
    /// however much it is.
    pub removes: bool,
    /// The last command that changed a row which it met where it would insert, and its transaction: what it
    /// changes is its own, also where the bytes stay the same (rival/R6).
    upserts: (TxnId, u32),
    /// Version bytes charged ahead.
    credit: usize,
    changes: Changes,
    pieces: Vec<u64>,
    buffer: Vec<u8>,
    old_row: Vec<u8>,
    oids: Vec<Oid>,
    moves: Vec<Moved>,
}

// SAFETY: raw node pointers in the write set are owned by the transaction; a session is used by one thread at
// a time (epoch/E3), which may change between calls.
unsafe impl Send for Session {}

impl Session {
    pub fn new(kernel: Arc<Kernel>) -> Session {
        let number = kernel.session_numbers.fetch_add(1, Ordering::Relaxed) & 0xfff_ffff;
        Session::numbered(kernel, number)
    }
    /// A session that only reads, what another sees: the other keeps its snapshot published, and writes
    /// nothing, while this one lives.
    pub fn reader(kernel: Arc<Kernel>, view: View) -> Session {
        // It never begins a transaction, so no number has to tell it from others.
        let mut session = Session::numbered(kernel, 0);
        session.view = view;
        session
    }
    fn numbered(kernel: Arc<Kernel>, number: u64) -> Session {
        let participant = kernel.epochs.join(IDLE);
        let garbage = Arc::new(Garbage::new(&kernel.space.budget));
        let stream = StreamId((number % kernel.log.streams().max(1) as u64) as u16);
        Session {
            participant,
            claims: Claims::default(),
            garbage,
            number,
            sequence: 0,
            stream,
            view: View::default(),
            outermost: 0,
            top: 0,
            txn: None,
            spare: None,
            resting: VecDeque::new(),
            overdue: false,
            last_commit: 0,
            floor: 0,
            shown: 0,
            seen: 0,
            patience: Patience::default(),
            rival: None,
            parker: Arc::default(),
            removes: false,
            upserts: (0, 0),
            credit: 0,
            changes: Changes::default(),
            pieces: vec![],
            buffer: vec![],
            old_row: vec![],
            oids: vec![],
            moves: vec![],
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
    /// The number that its transactions have above their own ([`number_of`]).
    pub fn number(&self) -> u64 {
        self.number
    }
    /// Unparking it makes a wait look whether it was cancelled.
    pub fn parker(&self) -> &Arc<Parker> {
        &self.parker
    }
    #[inline]
    pub fn pin(&self) -> Guard<'_> {
        self.participant.pin()
    }

    /// Gives up the memory that it keeps for later transactions, and what is charged ahead for them.
    pub fn shrink(&mut self) {
        self.spare = None;
        // Slots may point to them still; the marks are gone when the last of these has let go.
        self.resting = VecDeque::new();
        self.kernel.space.budget.give_back(std::mem::take(&mut self.credit));
        self.changes = Changes::default();
        self.pieces = vec![];
        self.buffer = vec![];
        self.old_row = vec![];
        self.oids = vec![];
        self.moves = vec![]
    }

    // ---- snapshots

    /// What transactions of this session were shown, and readers not yet: to be made durable, or covered, and
    /// then handed to [`Session::stand_on`], before the next visible snapshot is taken (T4). 0: nothing.
    #[inline]
    pub fn shown(&self) -> CommitTs {
        self.shown
    }
    /// Readers' snapshots are no older than `c` from now on (T4).
    pub fn stand_on(&mut self, c: CommitTs) {
        self.floor = self.floor.max(c);
        self.shown = 0
    }
    /// The log has failed: what is not durable will not be (T4).
    pub fn forget_undurable(&mut self) {
        (self.floor, self.shown) = (0, 0)
    }
    /// Publishes a snapshot for reading what is visible now: read-only, never waits for a flush.
    #[inline]
    pub fn snapshot_visible(&mut self) {
        loop {
            self.offer_visible();
            barrier::light();
            if self.is_taken() {
                return;
            }
        }
    }
    /// The same without the barrier, for callers that pass one anyway, as pinning does: until
    /// [`Session::is_taken`] is true after it, there is no snapshot (registry/R1).
    #[inline]
    pub fn offer_visible(&mut self) {
        let mut s = self.kernel.log.visible_ts().max(self.floor);
        if ondol_base::sim::mutated("readers_see_unflushed") {
            s = self.kernel.log.clock() - 1
        }
        self.offer(s)
    }
    /// Whether the snapshot offered before a barrier may be used.
    #[inline]
    pub fn is_taken(&self) -> bool {
        self.kernel.log.visible_ts() <= self.view.snapshot
    }
    /// Publishes a snapshot of everything committed so far, durable or not.
    #[inline]
    pub fn snapshot_newest(&mut self) {
        loop {
            self.offer(self.kernel.log.clock() - 1);
            barrier::light();
            if self.is_taken() {
                return;
            }
        }
    }
    #[inline]
    fn offer(&mut self, s: u64) {
        self.participant.line().words[SNAPSHOT].store(s, Ordering::Relaxed);
        self.view.snapshot = s;
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
        let mark = self.fresh_mark(id);
        self.view.txn = id;
        self.view.command = 1;
        (self.outermost, self.top) = (1, 0);
        self.seen = 0;
        self.txn = Some(match self.spare.take() {
            Some(mut t) => {
                let former = std::mem::replace(&mut t.mark, mark);
                self.rest_mark(former);
                t.isolation = isolation;
                t
            }
            None => Box::new(Txn::new(mark, isolation)),
        });
    }
    /// The first mark of a transaction.
    fn fresh_mark(&mut self, id: TxnId) -> Arc<Mark> {
        let session = self.id();
        let new =
            || Arc::new(TxnState { id, session, state: AtomicU64::new(0), waited: AtomicBool::new(false) });
        let Some(mut rested) = self.rested_mark() else {
            return Arc::new(Mark { txn: new(), command: AtomicU32::new(0) });
        };
        if let Some(mark) = Arc::get_mut(&mut rested) {
            // Its transaction may have had other marks, which rest too.
            match Arc::get_mut(&mut mark.txn) {
                Some(state) => {
                    state.id = id;
                    *state.state.get_mut() = 0;
                    *state.waited.get_mut() = false;
                }
                None => mark.txn = new(),
            }
        }
        rested
    }
    /// The mark of a later command.
    fn further_mark(&mut self, txn: Arc<TxnState>, command: u32) -> Arc<Mark> {
        let Some(mut rested) = self.rested_mark() else {
            return Arc::new(Mark { txn, command: AtomicU32::new(command) });
        };
        if let Some(mark) = Arc::get_mut(&mut rested) {
            mark.txn = txn;
            *mark.command.get_mut() = command;
        }
        rested
    }
    /// A mark of an earlier transaction that nobody can look at any more.
    fn rested_mark(&mut self) -> Option<Arc<Mark>> {
        Arc::get_mut(self.resting.front_mut()?)?;
        self.resting.pop_front()
    }
    fn rest_mark(&mut self, mark: Arc<Mark>) {
        /// Somewhat more than are retired between two looks at what the epochs let go.
        const ENOUGH: usize = 192;
        if self.resting.len() < ENOUGH {
            self.resting.push_back(mark)
        }
    }
    /// The next command: sees what the ones before it did.
    pub fn next_command(&mut self) {
        self.view.command = self.view.command.max(self.top) + 1;
        self.outermost = self.view.command
    }
    /// Begins a command nested in the present one, of which it sees what it has changed so far. Returns what
    /// `leave_command` needs.
    pub fn enter_command(&mut self) -> Outer {
        let outer = Outer { command: self.view.command, upserts: self.upserts };
        self.view.command = outer.command.max(self.top + 1);
        outer
    }
    /// The command `outer` goes on: it sees what it saw before, and nothing of what was nested in it.
    pub fn leave_command(&mut self, outer: Outer) {
        self.view.command = outer.command;
        self.upserts = outer.upserts
    }
    fn open(&mut self) -> &mut Txn {
        self.txn.as_mut().expect("a write outside a transaction")
    }
    fn mark(&mut self) -> *const Mark {
        let command = self.view.command;
        self.top = self.top.max(command);
        let t = self.open();
        if !t.marked {
            t.marked = true;
            t.mark.command.store(command, Ordering::Relaxed);
        }
        let last = t.marks.last().unwrap_or(&t.mark);
        if last.command() == command {
            return Arc::as_ptr(last);
        }
        let txn = t.state().clone();
        let mark = self.further_mark(txn, command);
        let at = Arc::as_ptr(&mark);
        self.open().marks.push(mark);
        at
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
            let budget = &self.kernel.space.budget;
            match budget.try_charge(bytes.max(STEP)) {
                Err(_) if self.removes => budget.force(bytes.max(STEP)),
                charged => charged?,
            }
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
        let pin = self.participant.pin();
        slot::read(&self.kernel.space, &pin, oid, &self.view, out)
    }
    /// The same, for a caller that holds a pin already.
    #[inline(always)]
    pub fn read_pinned(&self, pin: &Guard<'_>, oid: Oid, out: &mut [u8]) -> bool {
        slot::read(&self.kernel.space, pin, oid, &self.view, out)
    }
    /// Copies the newest version: our own, or the last committed.
    pub fn read_newest(&self, oid: Oid, out: &mut [u8]) -> bool {
        let pin = self.participant.pin();
        let view = View { snapshot: ID, command: u32::MAX, ..self.view };
        slot::read(&self.kernel.space, &pin, oid, &view, out)
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
    /// An index node that this transaction had seen and changed itself has not been changed by another.
    fn follow(&mut self, index: &Arc<IndexStore>) {
        let moves = self.moves.drain(..);
        let Some(t) = self.txn.as_mut() else { return };
        let reads = t.reads.get_mut();
        for m in moves {
            let has = |nodes: &[(Arc<IndexStore>, Seen)], seen: Seen| {
                nodes.iter().any(|(i, s)| *s == seen && Arc::ptr_eq(i, index))
            };
            let mut met = has(&reads.nodes, m.from);
            let also = m.also.filter(|s| met && !has(&reads.nodes, *s));
            if also.is_some() {
                // Refused, the transaction remembers what is outdated, and will not commit.
                met =
                    remember_more(&mut reads.nodes, 1, &mut reads.charged, &self.kernel.space.budget).is_ok();
            }
            if met {
                for (i, s) in reads.nodes.iter_mut() {
                    if *s == m.from && Arc::ptr_eq(i, index) {
                        *s = m.to
                    }
                }
                reads.nodes.extend(also.map(|s| (index.clone(), s)))
            }
        }
    }
    pub fn remember_heap(&self, table: &TableStore) {
        if let Some(t) = self.txn.as_ref().filter(|t| t.isolation == Isolation::Serializable) {
            let mut reads = t.reads.borrow_mut();
            if !reads.heaps.iter().any(|h| h.id == table.rows.id) {
                reads.heaps.push(table.rows.clone())
            }
        }
    }

    /// Makes commits up to `c` visible to everyone before they are durable; a background round follows.
    pub fn acknowledge_async(&self, c: CommitTs) {
        self.kernel.log.acknowledge_async(c)
    }
    /// Commits up to `c` become durable soon, and visible then, though nobody waits for it.
    pub fn hold(&self, c: CommitTs) {
        self.kernel.log.hold(c)
    }
    /// Waits until commits up to `c` are durable.
    pub fn wait_durable(&self, c: CommitTs) -> Result<()> {
        // Asked also where there is nothing to wait for.
        registry::assert_parkable(&self.participant);
        Ok(self.kernel.log.wait_durable(c)?)
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
    }
}

/// The session whose line it is.
pub fn session_of(line: &Line) -> SessionId {
    line.number()
}

/// Strings as the session's newest state names them.
pub struct Newest<'a>(pub &'a Session);
impl crate::table::Strings for Newest<'_> {
    fn string(&self, slot: u64, len: usize, out: &mut Vec<u8>) {
        let view = View { snapshot: ID, command: u32::MAX, ..self.0.view };
        if !read_string(self.0, &view, slot, len, out) {
            // Named by an older version: the bytes are in the chain.
            let view = View { snapshot: self.0.view.snapshot, ..view };
            read_string(self.0, &view, slot, len, out);
        }
    }
}

fn read_string(s: &Session, view: &View, slot: u64, len: usize, out: &mut Vec<u8>) -> bool {
    if len > PIECE {
        let read = &mut |slot, len, out: &mut Vec<u8>| read_string(s, view, slot, len, out);
        return string::read_pieces(slot, len, out, read);
    }
    let pin = s.participant.pin();
    let space = &s.kernel.space;
    let start = out.len();
    let padded = (8 + len).next_multiple_of(8);
    debug_assert!(padded <= LARGEST_RUN);
    out.resize(start + padded, 0);
    // The bits are proved to be a slot's where more than its bytes is looked at.
    let found = slot::read_settled(space, slot, view.snapshot, &mut out[start..]).unwrap_or_else(|| {
        space.locate(slot).is_some_and(|oid| slot::read(space, &pin, oid, view, &mut out[start..]))
    });
    if !found {
        out.truncate(start);
        return false;
    }
    out.copy_within(start + 8..start + 8 + len, start);
    out.truncate(start + len);
    true
}
