//! Collection of what no snapshot needs any more: version nodes, index entries, slots.
//!
//! Every commit leaves items in its session's queue, in commit order. The session itself works on its queue
//! when it grows, a background thread on all that are not empty.
//!
//! - **C1** An item of commit c is final once every live snapshot is at or past c.
//! - **C2** Before that, the chain is thinned: of a run of neighbouring nodes between which no snapshot can
//!   lie, one is made once there are [`RUN`] of them. So whoever changes a row beside an old snapshot pays
//!   for a fold each [`RUN`] - 1 times, and a chain is never longer than [`RUN`] - 1 nodes for each of the
//!   live snapshots + 1 (and what is not visible yet).
//! - **C3** A slot whose chain cannot be emptied yet is flagged HELD and waits in one list once, whatever
//!   happens to it meanwhile.
//! - **C4** An index entry goes only when no remaining version, committed or not, has its key; this is asked
//!   under the node's latch, and writers put their difference on the chain before they insert the entry.
//! - **C5** Where only uncommitted versions have the key, the item waits, and the question is put again. A
//!   transaction that takes such a version back asks for the indexes that it has then. One that it has
//!   dropped is not among them, and comes back with the same rollback.
//! - **C6** A queue that is not empty is in the collector's list, or about to be put there by whoever filled
//!   it. So sessions that leave nothing behind cost nothing, however many they are. The list's lock may be
//!   held while that of a queue's fresh items is taken, not the other way round.
//! - **C7** An old snapshot that goes leaves as much to do as was changed beside it. No commit waits for it:
//!   who works on a queue has its kept items, and holds the fresh ones for as long as it takes some into its
//!   hand. So at most one works on a queue, and items are worked on in the order that they came in. A session
//!   does a share of the work each time; where it finds the collector at it, that one leaves the queue to it.
use crate::heap::Heap;
use crate::kernel::Kernel;
use crate::memory::{Budget, Space};
use crate::registry::{self, Horizon};
use crate::slot;
use crate::table::{Committed, IndexStore, TableStore};
use crate::version::{HELD, MARK, PENDING, POINTER, Version, fold, latch, node, unlatch};
use ondol_base::barrier::Seldom;
use ondol_base::epoch::{Guard, Participant};
use ondol_base::oid::Oid;
use ondol_base::sim::mutated;
use ondol_base::sync::{Mutex, MutexGuard, yield_point};
use ondol_durability::page::PageId;
use ondol_durability::{CommitTs, HeapId};
use ondol_index::Moves;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub enum Item {
    /// The slot got a node.
    Prune { oid: Oid, heap: HeapId },
    /// The row had this key, and has it no more.
    Entry { oid: Oid, table: Arc<TableStore>, index: Arc<IndexStore>, key: Box<[u8]> },
    /// The row (or string) is dead; its entries come before it in the queue.
    Slot { oid: Oid, heap: Arc<Heap> },
}

/// One session's queue.
pub struct Garbage {
    fresh: Mutex<Fresh>,
    kept: Mutex<Kept>,
    /// Items that are in neither, or kept: changed with `fresh` held where it grows (C7).
    waiting: AtomicUsize,
    /// The session found somebody else at work (C7).
    wanted: AtomicBool,
}

/// Not visible yet, or not looked at yet.
pub struct Fresh {
    items: VecDeque<(CommitTs, Item)>,
    charge: Charge,
    /// See C6.
    listed: bool,
}

/// What was looked at, whose lock is held by whoever works on the queue (C7).
struct Kept {
    /// Waiting for old snapshots to go.
    held: VecDeque<(CommitTs, Item)>,
    /// Waiting for transactions to end (C5).
    blocked: VecDeque<(CommitTs, Item)>,
    charge: Charge,
}

/// What items take, and how much of it is charged. A commit cannot fail any more, so it is charged in any
/// case, and later statements are refused.
struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
    charged: usize,
}

/// Takes out the first item, if its commit is not later than that.
fn next(items: &mut VecDeque<(CommitTs, Item)>, until: CommitTs) -> Option<(CommitTs, Item)> {
    match items.front() {
        Some((c, _)) if *c <= until => items.pop_front(),
        _ => None,
    }
}

/// Bytes of items that are charged at once; as many are free.
const STEP: usize = 64 << 10;

impl Charge {
    fn new(budget: &Arc<Budget>) -> Charge {
        Charge { budget: budget.clone(), bytes: 0, charged: 0 }
    }
    fn add(&mut self, item: &Item) {
        self.bytes += item.bytes();
        if self.bytes > self.charged + STEP {
            self.budget.force(STEP);
            self.charged += STEP
        }
    }
    fn take_off(&mut self, item: &Item) {
        self.bytes -= item.bytes();
        if self.charged >= self.bytes + STEP {
            self.budget.give_back(STEP);
            self.charged -= STEP
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.give_back(self.charged)
    }
}

impl Garbage {
    pub fn new(budget: &Arc<Budget>) -> Garbage {
        let fresh = Fresh { items: VecDeque::new(), charge: Charge::new(budget), listed: false };
        let (held, blocked) = (VecDeque::new(), VecDeque::new());
        Garbage {
            fresh: Mutex::new(fresh),
            kept: Mutex::new(Kept { held, blocked, charge: Charge::new(budget) }),
            waiting: AtomicUsize::new(0),
            wanted: AtomicBool::new(false),
        }
    }
    /// To be filled. Nobody holds it for long (C7).
    pub fn fresh(&self) -> MutexGuard<'_, Fresh> {
        self.fresh.lock()
    }
    /// Takes items that are visible to everyone into the caller's hand.
    fn take(&self, until: CommitTs, hand: &mut Vec<(CommitTs, Item)>) {
        let mut fresh = self.fresh.lock();
        while hand.len() < TURN
            && let Some(next) = next(&mut fresh.items, until)
        {
            fresh.charge.take_off(&next.1);
            hand.push(next)
        }
        self.waiting.fetch_add(hand.len(), Ordering::Relaxed);
    }
    /// Leaves the list if it is empty: with it goes most of the memory of what was there.
    fn is_done(&self) -> bool {
        let mut fresh = self.fresh.lock();
        let done = fresh.items.is_empty() && self.waiting.load(Ordering::Relaxed) == 0;
        if done {
            fresh.listed = false;
            fresh.items.shrink_to(KEPT)
        }
        done
    }
    pub fn len(&self) -> usize {
        let fresh = self.fresh.lock();
        fresh.items.len() + self.waiting.load(Ordering::Relaxed)
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Fresh {
    pub fn push(&mut self, c: CommitTs, item: Item) {
        self.charge.add(&item);
        self.items.push_back((c, item))
    }
    /// Whether the caller, who has filled it, is to call [`Collector::list`] once it has let go of it (C6).
    #[inline]
    pub fn is_to_be_listed(&mut self) -> bool {
        !self.listed && !self.items.is_empty() && {
            self.listed = !mutated("garbage_unlisted");
            self.listed
        }
    }
    /// The session itself should work on it. What cannot go yet makes that no more frequent.
    pub fn is_overdue(&self) -> bool {
        self.items.len() >= PATIENCE && self.items.len() % PATIENCE < 16
    }
}

impl Kept {
    fn hold(&mut self, c: CommitTs, item: Item) {
        self.charge.add(&item);
        self.held.push_back((c, item))
    }
    fn block(&mut self, c: CommitTs, item: Item) {
        self.charge.add(&item);
        self.blocked.push_back((c, item))
    }
    /// Lets the blocked items be looked at again once the row of one is nobody's: most are blocked by one
    /// transaction, so one speaks for all, another one each time.
    fn unblock(&mut self, space: &Space) {
        let Some((_, item)) = self.blocked.front() else { return };
        if slot::header_of(space, item.oid()) & slot::OWNED != 0 {
            self.blocked.rotate_left(1)
        } else {
            self.blocked.drain(..).rev().for_each(|blocked| self.held.push_front(blocked))
        }
    }
    fn next_held(&mut self, until: CommitTs) -> Option<(CommitTs, Item)> {
        let next = next(&mut self.held, until)?;
        self.charge.take_off(&next.1);
        Some(next)
    }
    fn len(&self) -> usize {
        self.held.len() + self.blocked.len()
    }
}

#[derive(Default)]
pub struct Collector {
    /// The queues that are not empty (C6).
    queues: Mutex<Vec<Arc<Garbage>>>,
    /// The last horizon: good for a while, since asking for one interrupts all who run.
    horizon: Mutex<Horizon>,
    seldom: Seldom,
}

/// How long a session lets its queue grow before it works on it.
const PATIENCE: usize = 512;
/// How many items it works on then, at the least: more than have come since, so that what an old snapshot has
/// kept gets less.
const SHARE: usize = 2 * PATIENCE;
/// Items that an empty queue keeps the memory of.
const KEPT: usize = 32;

impl Collector {
    /// See C6.
    #[cold]
    pub fn list(&self, queue: &Arc<Garbage>) {
        self.queues.lock().push(queue.clone())
    }

    /// A session's share of the work, after a commit that found its queue [`Fresh::is_overdue`] (C7).
    pub fn help(&self, queue: &Garbage, participant: &Participant, kernel: &Kernel) {
        let Some(mut kept) = queue.kept.try_lock() else {
            queue.wanted.store(true, Ordering::Relaxed);
            return;
        };
        let h = self.recent_horizon(kernel);
        work(queue, &mut kept, &h, participant, kernel, |done| done >= SHARE);
        drop(kept);
        participant.collect_paced()
    }

    fn new_horizon(&self, kernel: &Kernel) -> Horizon {
        let h = registry::horizon(&kernel.epochs, || kernel.log.visible_ts());
        *self.horizon.lock() = h.clone();
        h
    }
    /// One as of not long ago: what it keeps beyond need goes the next time.
    fn recent_horizon(&self, kernel: &Kernel) -> Horizon {
        self.seldom.run(|| self.new_horizon(kernel)).unwrap_or_else(|| self.horizon.lock().clone())
    }

    /// One pass over all queues; true if something is left.
    pub fn pass(&self, participant: &Participant, kernel: &Kernel) -> bool {
        let queues = self.queues.lock().clone();
        let mut left = false;
        let mut h = None;
        for q in &queues {
            if !q.is_empty() {
                let next = if h.is_none() { self.new_horizon(kernel) } else { self.recent_horizon(kernel) };
                let is_wanted = |_| q.wanted.swap(false, Ordering::Relaxed);
                work(q, &mut q.kept.lock(), h.insert(next), participant, kernel, is_wanted);
                left |= !q.is_empty()
            }
        }
        drop(queues);
        self.queues.lock().retain(|q| !q.is_done());
        participant.collect();
        left
    }

    pub fn backlog(&self) -> usize {
        self.queues.lock().iter().map(|q| q.len()).sum()
    }
}

impl Item {
    /// What it takes in a queue.
    pub fn bytes(&self) -> usize {
        let key = match self {
            Item::Entry { key, .. } => key.len() + 16,
            _ => 0,
        };
        size_of::<(CommitTs, Item)>() + key
    }
    fn oid(&self) -> Oid {
        match self {
            Item::Prune { oid, .. } | Item::Entry { oid, .. } | Item::Slot { oid, .. } => *oid,
        }
    }
    /// Whether the slot is still its heap's (heap/A2); asked pinned.
    fn stands(&self, space: &Space) -> bool {
        let heap = match self {
            Item::Prune { heap, .. } => *heap,
            Item::Entry { table, .. } => table.rows.id,
            Item::Slot { heap, .. } => heap.id,
        };
        space.is_of(PageId::of(self.oid()), heap)
    }
}

/// Nodes taken off chains, to be retired together: a fence for all, and the budget, which is everyone's, is
/// touched once.
#[derive(Default)]
struct Unlinked {
    nodes: Vec<usize>,
    bytes: usize,
}

impl Unlinked {
    fn retire(&mut self, guard: &Guard<'_>, space: &Space) {
        if self.bytes > 0 {
            space.budget.give_back(std::mem::take(&mut self.bytes))
        }
        if !self.nodes.is_empty() {
            // SAFETY: unlinked under their chains' latches; readers are waited for (epoch/E2).
            unsafe { guard.retire_all(self.nodes.drain(..), Version::free_at) }
        }
    }
}

/// Items under one pin.
const TURN: usize = 64;

/// Works on a queue until nothing is left that can go, or `is_enough` of what was done, an item at a time.
fn work(
    q: &Garbage,
    kept: &mut Kept,
    h: &Horizon,
    participant: &Participant,
    kernel: &Kernel,
    is_enough: impl Fn(usize) -> bool,
) {
    let mut unlinked = Unlinked::default();
    let mut last = Oid::NONE;
    kept.unblock(&kernel.space);
    let (mut hand, mut done) = (Vec::with_capacity(TURN), 0);
    while !is_enough(done) {
        // What is held while the others are looked at waits for a later horizon.
        let held = kept.held.front().is_some_and(|(c, _)| *c <= h.oldest);
        match held {
            true => hand.extend(std::iter::from_fn(|| kept.next_held(h.oldest)).take(TURN)),
            false => q.take(h.visible, &mut hand),
        }
        if hand.is_empty() {
            break;
        }
        done += hand.len();
        let pin = participant.pin();
        for (c, item) in hand.drain(..) {
            if !item.stands(&kernel.space) {
                continue;
            }
            match item {
                Item::Prune { oid, heap } if !held => {
                    if oid != last {
                        last = oid;
                        prune(oid, heap, c, h, &mut unlinked, kernel, kept)
                    }
                }
                item if held || c <= h.oldest => finish(item, c, h, participant, &mut unlinked, kernel, kept),
                item => kept.hold(c, item),
            }
        }
        unlinked.retire(&pin, &kernel.space);
        q.waiting.store(kept.len(), Ordering::Relaxed)
    }
    for queue in [&mut kept.held, &mut kept.blocked] {
        if queue.is_empty() {
            queue.shrink_to(KEPT)
        }
    }
}

fn finish(
    item: Item,
    c: CommitTs,
    h: &Horizon,
    participant: &Participant,
    unlinked: &mut Unlinked,
    kernel: &Kernel,
    kept: &mut Kept,
) {
    match item {
        Item::Prune { oid, heap } => {
            kernel.space.word(oid.bits() + 8).fetch_and(!HELD, Ordering::AcqRel);
            prune(oid, heap, c, h, unlinked, kernel, kept)
        }
        Item::Entry { oid, table, index, key } => {
            thin(&kernel.space, oid, h, unlinked);
            let gone = remove_entry(&kernel.space, participant, &table, &index, &key, oid, None);
            if !gone && !mutated("entry_given_up") {
                kept.block(c, Item::Entry { oid, table, index, key })
            }
        }
        Item::Slot { oid, heap } => {
            thin(&kernel.space, oid, h, unlinked);
            let guard = participant.pin();
            guard.retire(move || heap.free(oid));
        }
    }
}

/// Thins a chain; if nodes must stay for old snapshots, remembers to come back, once.
fn prune(
    oid: Oid,
    heap: HeapId,
    c: CommitTs,
    h: &Horizon,
    unlinked: &mut Unlinked,
    kernel: &Kernel,
    kept: &mut Kept,
) {
    let left = thin(&kernel.space, oid, h, unlinked);
    if left && kernel.space.word(oid.bits() + 8).fetch_or(HELD, Ordering::AcqRel) & HELD == 0 {
        kept.hold(c.max(h.oldest + 1), Item::Prune { oid, heap })
    }
}

/// Nodes that are folded into one, at the least (C2).
const RUN: usize = 4;

/// The nodes from `first` on between which no snapshot lies.
///
/// # Safety
/// The chain is latched, by a caller that is pinned.
unsafe fn run<'a>(first: &'a Version, h: &Horizon, nodes: &mut Vec<&'a Version>) {
    nodes.clear();
    nodes.push(first);
    let (mut newer, mut next) = (first.ts.load(Ordering::Acquire), first.next.load(Ordering::Acquire));
    // SAFETY: by the contract above.
    while let Some(v) = unsafe { node(next) } {
        let ts = v.ts.load(Ordering::Acquire);
        // A snapshot in [ts, newer) needs the state between them.
        if ts <= h.oldest || h.snapshots.iter().any(|s| *s >= ts && *s < newer) {
            break;
        }
        nodes.push(v);
        (newer, next) = (ts, v.next.load(Ordering::Acquire))
    }
}

/// Drops nodes that every snapshot is past, folds those between which no snapshot lies (C2); true if visible
/// nodes are left. The caller is pinned until what was unlinked is retired.
fn thin(space: &Space, oid: Oid, h: &Horizon, unlinked: &mut Unlinked) -> bool {
    let word1 = space.word(oid.bits() + 8);
    let link = latch(word1);
    yield_point();
    // The chain that was cut off.
    let mut tail = 0;
    let mut left = false;
    // `at` is the place that holds the link to the next node: word 1 itself, or a kept node.
    let mut before: Option<&Version> = None;
    let mut next = link;
    let mut nodes = Vec::new();
    // The head as it will be; flags are put back when the latch is released.
    let mut head = link & (POINTER | MARK);
    let set = |before: Option<&Version>, to: u64, head: &mut u64| match before {
        Some(v) => v.next.store(to & (POINTER | MARK), Ordering::Release),
        None => *head = to & (POINTER | MARK),
    };
    // SAFETY: pinned, and the chain is latched: nodes go only here.
    while let Some(v) = unsafe { node(next) } {
        let ts = v.ts.load(Ordering::Acquire);
        let after = v.next.load(Ordering::Acquire);
        if ts & PENDING != 0 || ts > h.visible {
            before = Some(v);
            next = after;
            continue;
        }
        if ts <= h.oldest {
            // All below is older still.
            set(before, 0, &mut head);
            tail = next;
            break;
        }
        left = true;
        // SAFETY: as above.
        unsafe { run(v, h, &mut nodes) };
        let last = nodes[nodes.len() - 1];
        let to = last.next.load(Ordering::Acquire);
        if nodes.len() >= RUN {
            let data = fold(&nodes);
            if let Some(f) = Version::new(data.len(), last.prev, to, std::ptr::null()) {
                // SAFETY: not shared yet; then reachable, and the chain is latched.
                let folded = unsafe {
                    Version::fill(f, &data);
                    (*f).ts.store(ts, Ordering::Release);
                    &*f
                };
                set(before, f as u64, &mut head);
                let size: usize = nodes.iter().map(|v| v.size()).sum();
                unlinked.bytes += size.saturating_sub(folded.size());
                unlinked.nodes.extend(nodes.iter().map(|v| *v as *const Version as usize));
                (before, next) = (Some(folded), to);
                continue;
            }
        }
        (before, next) = (Some(last), to)
    }
    unlatch(word1, head);
    // SAFETY: they are not retired yet.
    while let Some(v) = unsafe { node(tail) } {
        unlinked.nodes.push((tail & POINTER) as usize);
        unlinked.bytes += v.size();
        tail = v.next.load(Ordering::Acquire);
    }
    left
}

/// Takes an entry out if it is nobody's any more (C4). False if it is there for uncommitted versions alone
/// (C5). `moves`: where the caller's transaction, if it is one that remembers nodes, is told what that did to
/// them.
pub fn remove_entry(
    space: &Space,
    participant: &Participant,
    table: &TableStore,
    index: &IndexStore,
    key: &[u8],
    oid: Oid,
    moves: Moves<'_>,
) -> bool {
    let guard = participant.pin();
    let mut buf = vec![0; table.row_size];
    let mut pending = false;
    // Two keys of one row may share an entry (a hash index stores part of the hash): ask for all that it
    // stands for. A CR-tree may ask in several leaves, and one that keeps its entry is enough to wait.
    let dead = &mut |same: &dyn Fn(&[u8]) -> bool| {
        let strings = Committed(space, &guard);
        // What is committed is met first, and ends it.
        !slot::any_version(space, &guard, oid, &mut buf, true, &mut |row, uncommitted| {
            let mut k = Vec::with_capacity(key.len());
            index.key.key(row, &strings, &mut k);
            let same = same(&k);
            pending |= same && uncommitted;
            same
        })
    };
    index.index.remove_dead(&guard, key, oid, dead, moves);
    !pending
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_to_be_collected_is_charged() {
        let budget = Budget::new(64 << 20);
        let q = Garbage::new(&budget);
        for c in 1..=20_000 {
            // SAFETY: nobody follows it.
            let oid = unsafe { Oid::from_bits(c * 64) };
            q.fresh().push(c, Item::Prune { oid, heap: 2 })
        }
        let all = 20_000 * size_of::<(CommitTs, Item)>();
        assert!(budget.used() + STEP >= all && budget.used() <= all, "{} of {all}", budget.used());
        let mut hand = Vec::new();
        loop {
            q.take(15_000, &mut hand);
            if hand.is_empty() {
                break;
            }
            let even = hand.drain(..).filter(|(c, _)| c % 2 == 0);
            even.for_each(|(c, item)| q.kept.lock().hold(c, item))
        }
        let left = 12_500 * size_of::<(CommitTs, Item)>();
        assert!(budget.used().abs_diff(left) <= 2 * STEP, "{} of {left}", budget.used());
        drop(q);
        assert_eq!(budget.used(), 0);
    }
}
