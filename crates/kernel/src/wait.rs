//! Waiting for other sessions: for rows' locks, for what data definition needs; with deadlock detection.
//!
//! ```text
//! a row's queue    told | waits | waits | waits        in the order in which they came
//!                   |                                  QUEUED stands in the slot's word 1 meanwhile
//!                   `- tries to take the row: takes it, or waits again where it stood, or gives up
//! ```
//! Who takes a free row pays nothing for the queues: it exchanges the row's header, and finds flags in the
//! word that it writes anyway. All else happens under the table's mutex.
//!
//! - **W1** *Order.* Who would own a row and finds somebody in the way (transaction/lock/L1) stands at the
//!   end of its queue, but before everyone else if it has a lock on the row itself, since the others may wait
//!   for it, too. Who takes a free row and then finds that others stand before it who could have it overtakes
//!   them (W10), or steps back and queues. Who would share a row whose owner is not in the way does so at
//!   once, whoever queues (as in PostgreSQL: a writer may have to wait for readers that keep coming).
//! - **W2** *Letting go.* A transaction that lets go of a row it owned, or of a part of what it had there,
//!   stores that in the row's header, then looks whether it is `waited` for. Who waits for an owned row sets
//!   `waited` of the owner, then looks at the header again, before it parks. Sequential consistency lets at
//!   least one of them see the other. The owner finds the rows to look after in `held`: entered under the
//!   mutex, which it takes to look.
//! - **W3** *Sharing.* A transaction that shares a row registers, then looks for an owner; one that would own
//!   a row takes it, then looks for sharers. Whichever finds the other, and that it is in the way, steps
//!   back. Who has ceased to share looks whether somebody queues (sharers/H3).
//! - **W4** *Who is told.* Of a queue may go, from the first to the last, all in whose way are neither the
//!   row's owner nor its sharers, nor one that may go before them. So nobody stands behind one that cannot
//!   go, if it can itself: what is before it would be no edge (W6). They are told when the row is let go,
//!   when one of its sharers has ceased to share it, when one of the queue has left it or waits anew. A dead
//!   row is nobody's any more: all are told.
//! - **W5** *No wake-up is lost.* Whoever is told runs, and ends that in one of four ways: it waits anew at
//!   a row whose owner is in its way, and sees to it that the owner knows (W2), and tells others by W4; it
//!   waits anew for another reason, and tells others by W4; it takes the row, and if others are left in the
//!   queue sets its own `waited` and enters the row in `held`, or shares it, and looks at the queue when it
//!   ceases to; or it leaves the queue, for whatever reason, and tells others by W4. Who has just come
//!   counts as told. Who takes the row and steps back was in the way of those who were to be told meanwhile:
//!   it lets go as any owner does, whether it queues afterwards or not. So in the way of each who stands in
//!   a queue and was not told is at all times (a) one before it who was told and runs, or (b) the row's
//!   owner, who knows, or (c) a sharer. (b) and (c) end by W2 and W3 in telling by W4.
//! - **W6** *Deadlock.* Who waits has edges to the present owner of its row and to its sharers, as far as
//!   they are in its way. They are read when they are followed, and who was told has none. An edge is made
//!   only by one who begins to wait, or to one who runs (who took the row, or joined the sharers). So of each
//!   cycle the last who begins to wait finds it, under the mutex, and gives up with 40P01: nobody looks again
//!   later. Edges to those who stand before it are not needed: what they wait for keeps it waiting, too, or
//!   else it is told (W4).
//! - **W7** *Keys.* Who waits for what a transaction makes of a unique key looks on at that transaction's
//!   row: it takes nothing, has no place in the order and no flag, and is told when the row is let go,
//!   whoever takes it next. The row's slot may be free and taken anew by then: it goes back to the key and
//!   never looks at the row again. So of several that want a key whose insert was taken back all are told,
//!   and all but one wait anew.
//! - **W8** *Slots.* A queue's flag is set and cleared only while somebody stands in it. These have their
//!   snapshots published, which keep the slot of the row that they found; and a slot that never was more than
//!   a taken-back insert stays a slot of its heap. So the flag never strays into other bytes. A queue belongs
//!   to the place: one that outlived its row would make the next row's writers queue in vain, never wait in
//!   vain.
//! - **W9** Transactions' numbers come again after 2^32 transactions of a session. Nothing here outlives a
//!   transaction: `held` ends with it, and an edge is followed by the number that stands in the header now.
//! - **W10** *Overtaking.* A row that is let go is free until the one that was told runs. Who runs already
//!   may take it meanwhile, or all would go on at the pace at which the system wakes threads. But the first
//!   of a queue is overtaken [`OVERTAKINGS`] times at most while it is the first; then the row is free for
//!   nobody else. So who queues to own a row waits for so many transactions for each that stands before it,
//!   and for itself. Those in a queue do not overtake each other.
//! - **W11** *Stepping aside.* A deadlock's victim that is rolled back whole is told so when the owner of the
//!   row that it was to have has let go of it, or after [`ASIDE`]: it looks on (W7). Whoever tries again at
//!   once would most often make the next deadlock. It has no row any more, and its wait is no edge (W6):
//!   it ends by itself, whoever waits for what else the transaction had (a table, an advisory lock).
//!
//! A wait ends early by its deadline or by a wish to cancel, whose author unparks the session. Who was told
//! by then goes on trying in the first case, and gives up and tells the next in the second.
//!
//! One mutex serves all waits: they are the slow path. It is where many contended locks stop scaling. Waits
//! for definitions are few; all of them are told of each change of a definition.
use crate::error::{Error, Result};
use crate::memory::Space;
use crate::registry;
use crate::sharers::{Holders, Sharers};
use crate::slot::{self, ID, LIVE, OWNED, row};
use crate::transaction::{LockMode, TxnState};
use crate::version::QUEUED;
use ondol_base::cancel::Cancel;
use ondol_base::clock;
use ondol_base::epoch::Participant;
use ondol_base::fiber::take_turns;
use ondol_base::oid::Oid;
use ondol_base::park::Parker;
use ondol_base::sim::mutated;
use ondol_base::sync::{Mutex, MutexGuard, spin_wait, yield_point};
use ondol_durability::TxnId;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// Tells of each session that keeps the waiting one waiting, as of now.
pub type Blockers = dyn Fn(&mut dyn FnMut(SessionId)) + Send + Sync;

/// A session, for as long as it lives: its line's number, never 0.
pub type SessionId = u64;

/// How often the first of a row's queue is overtaken (W10).
pub const OVERTAKINGS: u32 = 4;

/// For how long the victim of a deadlock steps aside at most (W11).
pub const ASIDE: Duration = Duration::from_millis(10);

/// What one waits for at a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    Lock(LockMode),
    /// That this transaction owns it no more (W7).
    Over(TxnId),
    /// The same, of a deadlock's victim (W11).
    Aside(TxnId),
}

/// Who waits.
#[derive(Clone, Copy)]
pub struct Waiter<'a> {
    pub session: SessionId,
    /// 0: none.
    pub txn: TxnId,
    pub participant: &'a Participant,
    pub parker: &'a Arc<Parker>,
    pub patience: &'a Patience,
}

/// How long a wait may last, and what may break it off.
#[derive(Clone, Default)]
pub struct Patience {
    pub timeout: Option<Duration>,
    /// Whoever tells it unparks the session afterwards.
    pub cancel: Option<Arc<Cancel>>,
}

impl Waiter<'_> {
    /// Parks until told or the deadline (see [`Parker::park`]).
    fn park(&self, deadline: Option<Duration>) -> bool {
        let _pin = mutated("parks_pinned").then(|| self.participant.pin());
        registry::assert_parkable(self.participant);
        match mutated("thread_kept") {
            true => self.parker.block(deadline),
            false => self.parker.park(deadline),
        }
    }
}

impl Patience {
    /// Whether to go on: for those who work for long without waiting.
    pub fn look(&self) -> Result<()> {
        match &self.cancel {
            Some(c) if c.is_told() => Err(Error::Canceled),
            _ => Ok(()),
        }
    }
    /// The same for those who hold nothing: others of their thread have their turn (fiber/F7).
    pub fn look_around(&self) -> Result<()> {
        take_turns();
        self.look()
    }
    fn deadline(&self) -> Option<Duration> {
        self.timeout.map(|t| clock::now() + t)
    }
}

/// One who waits, as it is shown.
#[derive(Clone, Debug)]
pub struct Stuck {
    pub session: SessionId,
    /// The row, and how it is to be locked; without a mode, who waits for the fate of a key. Without a row it
    /// is a definition, a table's lock or an advisory one.
    pub row: Option<(Oid, Option<LockMode>)>,
    pub blockers: Vec<SessionId>,
    /// The transaction that owns the row.
    pub owner: Option<TxnId>,
}

/// What keeps a session waiting.
enum Edge {
    Row(Oid, Want),
    Sessions(Box<Blockers>),
}

struct Waiting {
    txn: TxnId,
    edge: Edge,
    /// It runs, and will try, wait again or leave.
    told: bool,
    parker: Arc<Parker>,
}

impl Waiting {
    /// Whether it needs another to go on.
    fn is_stuck(&self) -> bool {
        !self.told && !matches!(self.edge, Edge::Row(_, Want::Aside(_)))
    }
}

#[derive(Default)]
struct Queue {
    /// Who would own or share the row, in order.
    line: VecDeque<(SessionId, LockMode)>,
    /// How many of them there are of each mode.
    modes: [usize; 4],
    /// How often the first of them was overtaken (W10).
    overtaken: u32,
    /// Who looks on (W7), and at whom.
    onlookers: Vec<SessionId>,
}

impl Queue {
    fn leave(&mut self, at: usize) {
        if let Some((_, mode)) = self.line.remove(at) {
            self.modes[mode as usize] -= 1
        }
        if at == 0 {
            self.overtaken = 0
        }
    }
}

#[derive(Default)]
struct WaitTable {
    waiting: Map<SessionId, Waiting>,
    /// The transactions of those.
    sessions: Map<TxnId, SessionId>,
    queues: Map<u64, Queue>,
    /// Owner -> rows of its that are queued for, or were.
    held: Map<TxnId, Set<u64>>,
    /// Who waits for definitions or their users, in order.
    definers: Vec<(SessionId, Arc<Parker>)>,
    /// Those who were told, to be unparked when the mutex is given back: they would run into it.
    calls: Vec<Arc<Parker>>,
}

/// The table while its mutex is held; afterwards those who were told are unparked.
struct TableGuard<'a> {
    guard: MutexGuard<'a, WaitTable>,
    // Dropped after the guard.
    told: Calls,
}
#[derive(Default)]
struct Calls(Vec<Arc<Parker>>);

impl Deref for TableGuard<'_> {
    type Target = WaitTable;
    fn deref(&self) -> &WaitTable {
        &self.guard
    }
}
impl DerefMut for TableGuard<'_> {
    fn deref_mut(&mut self) -> &mut WaitTable {
        &mut self.guard
    }
}
impl Drop for TableGuard<'_> {
    fn drop(&mut self) {
        self.told.0 = std::mem::take(&mut self.guard.calls)
    }
}
impl Drop for Calls {
    fn drop(&mut self) {
        self.0.iter().for_each(|parker| parker.unpark())
    }
}

/// Hashes numbers that are unlike each other in their middle bits.
#[derive(Default)]
pub struct Mix(u64);
impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64((*b).into()))
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;
type Set<K> = HashSet<K, BuildHasherDefault<Mix>>;

/// What is in the way of one who waits.
enum Obstacle {
    None,
    /// It will be told when to look again.
    Held,
    /// Somebody who is about to let go: to be looked at again soon.
    Passing,
}

impl WaitTable {
    fn enter(&mut self, who: &Waiter<'_>, edge: Edge) {
        let waiting = Waiting { txn: who.txn, edge, told: true, parker: who.parker.clone() };
        let before = self.waiting.insert(who.session, waiting);
        debug_assert!(before.is_none(), "a session waits for one thing at a time");
        if who.txn != 0 {
            self.sessions.insert(who.txn, who.session);
        }
    }
    fn leave(&mut self, session: SessionId) -> Option<Waiting> {
        let was = self.waiting.remove(&session)?;
        if was.txn != 0 {
            self.sessions.remove(&was.txn);
        }
        Some(was)
    }
    fn tell(&mut self, session: SessionId) {
        if let Some(w) = self.waiting.get_mut(&session).filter(|w| !w.told) {
            w.told = true;
            self.calls.push(w.parker.clone())
        }
    }
    /// Whether neither the row's owner nor its sharers are in the way of a session that queues.
    fn may_go(&self, w0: u64, holders: &Holders, session: SessionId, mode: LockMode) -> bool {
        let txn = self.waiting.get(&session).map_or(0, |w| w.txn);
        !is_owned_against(w0, txn, mode) && !holders.block(txn, mode)
    }

    /// Whether one stands before the session, or in its row's queue at all if it does not stand there itself,
    /// who may go and is in its way (W4).
    fn is_behind(&self, oid: Oid, w0: u64, holders: &Holders, session: SessionId, mode: LockMode) -> bool {
        let Some(queue) = self.queues.get(&oid.bits()) else { return false };
        let mut closed = [false; 4];
        for (before, wanted) in queue.line.iter().take_while(|(s, _)| *s != session) {
            if !closed[*wanted as usize] && self.may_go(w0, holders, *before, *wanted) {
                LockMode::ALL.iter().for_each(|m| closed[*m as usize] |= wanted.conflicts(*m));
                if closed[mode as usize] {
                    return true;
                }
            }
        }
        false
    }

    /// Tells those who can go on with a row that somebody has let go, or whose queue one has left (W4).
    fn advance(&mut self, space: &Space, sharers: &Sharers, oid: Oid) {
        let Some(queue) = self.queues.get(&oid.bits()) else { return };
        let w0 = space.word(oid.bits()).load(Ordering::SeqCst);
        let mut told: Vec<SessionId> = vec![];
        let owns = |of: TxnId| w0 & OWNED != 0 && w0 & ID == of;
        let looks_at_it = |s: &SessionId| match self.waiting.get(s).map(|w| &w.edge) {
            Some(Edge::Row(_, Want::Over(of) | Want::Aside(of))) => owns(*of),
            _ => false,
        };
        told.extend(queue.onlookers.iter().filter(|s| !looks_at_it(s)));
        let dead = w0 & OWNED == 0 && space.word(row(oid)).load(Ordering::Acquire) & LIVE as u64 == 0;
        if dead {
            told.extend(queue.line.iter().map(|(s, _)| *s))
        } else if !queue.line.is_empty() {
            let holders = sharers.of(space, oid);
            // The modes in which somebody may go yet. An owner that queues to be a stronger one goes by
            // itself.
            let mut open = LockMode::ALL.map(|mode| queue.modes[mode as usize] > 0);
            let owner = (w0 & OWNED != 0).then_some(w0 & ID);
            if owner.is_some_and(|id| !self.sessions.contains_key(&id)) {
                let owned = slot::owner_mode(w0);
                LockMode::ALL.iter().for_each(|m| open[*m as usize] &= !owned.conflicts(*m))
            }
            for (session, mode) in &queue.line {
                if !open.contains(&true) {
                    break;
                }
                if open[*mode as usize] && self.may_go(w0, &holders, *session, *mode) {
                    told.push(*session);
                    LockMode::ALL.iter().for_each(|m| open[*m as usize] &= !mode.conflicts(*m))
                }
            }
        }
        told.into_iter().for_each(|s| self.tell(s))
    }

    /// Of one who has taken a row and steps back: if somebody queues, letting go tells them (W5).
    fn owe(&mut self, oid: Oid, state: &TxnState) {
        let is_queued = self.queues.get(&oid.bits()).is_some_and(|queue| !queue.line.is_empty());
        if is_queued && !mutated("stepped_back_silently") {
            state.waited.store(true, Ordering::Relaxed);
            self.held.entry(state.id).or_default().insert(oid.bits());
        }
    }

    /// Whether somebody whom `me` waits for waits, in the end, for `me` (W6).
    fn is_cycle(&self, space: &Space, sharers: &Sharers, me: SessionId) -> bool {
        let (mut todo, mut met) = (vec![me], Set::default());
        while let Some(at) = todo.pop() {
            let mut meet = |s| {
                if met.insert(s) {
                    todo.push(s)
                }
            };
            let Some(waiting) = self.waiting.get(&at).filter(|w| w.is_stuck()) else { continue };
            match &waiting.edge {
                Edge::Sessions(blockers) => blockers(&mut meet),
                Edge::Row(oid, want) => {
                    let w0 = space.word(oid.bits()).load(Ordering::SeqCst);
                    let in_the_way = match want {
                        Want::Lock(mode) => is_owned_against(w0, waiting.txn, *mode),
                        Want::Over(of) | Want::Aside(of) => w0 & OWNED != 0 && w0 & ID == *of,
                    };
                    if in_the_way && let Some(session) = self.sessions.get(&(w0 & ID)) {
                        meet(*session)
                    }
                    if let Want::Lock(mode) = want {
                        sharers.of(space, *oid).blockers(waiting.txn, *mode).for_each(&mut meet)
                    }
                }
            }
        }
        met.contains(&me)
    }
}

/// Whether the row that has this header is owned by another than `txn`, who is in the way of the mode.
fn is_owned_against(w0: u64, txn: TxnId, mode: LockMode) -> bool {
    w0 & OWNED != 0 && w0 & ID != txn && slot::owner_mode(w0).conflicts(mode)
}

pub struct Waits {
    space: Arc<Space>,
    pub sharers: Sharers,
    table: Mutex<WaitTable>,
}

impl Waits {
    pub fn new(space: Arc<Space>) -> Waits {
        Waits { space, sharers: Sharers::default(), table: Mutex::default() }
    }
    fn table(&self) -> TableGuard<'_> {
        TableGuard { guard: self.table.lock(), told: Calls::default() }
    }

    /// Stands in the row's queue. Afterwards call [`Place::turn`], try to take the row, and so on until that
    /// succeeds; then, or to give up, drop it.
    pub fn queue(&self, who: &Waiter<'_>, oid: Oid, want: Want) -> Place<'_> {
        let mut table = self.table();
        table.enter(who, Edge::Row(oid, want));
        let w0 = self.space.word(oid.bits()).load(Ordering::SeqCst);
        let owns = w0 & OWNED != 0 && w0 & ID == who.txn;
        let first = owns || self.sharers.mode_of(oid, who.session, who.txn).is_some();
        let queue = table.queues.entry(oid.bits()).or_default();
        match want {
            Want::Over(_) | Want::Aside(_) => queue.onlookers.push(who.session),
            Want::Lock(mode) => {
                if queue.line.is_empty() {
                    self.space.word(oid.bits() + 8).fetch_or(QUEUED, Ordering::SeqCst);
                }
                // W1
                match first {
                    true => queue.line.push_front((who.session, mode)),
                    false => queue.line.push_back((who.session, mode)),
                }
                queue.modes[mode as usize] += 1
            }
        }
        Place { waits: self, session: who.session, oid, want, deadline: who.patience.deadline() }
    }

    fn obstacle(&self, table: &mut WaitTable, who: &Waiter<'_>, oid: Oid, want: Want) -> Obstacle {
        let word0 = self.space.word(oid.bits());
        let w0 = word0.load(Ordering::SeqCst);
        match want {
            Want::Over(of) | Want::Aside(of) if w0 & OWNED == 0 || w0 & ID != of => return Obstacle::None,
            Want::Lock(mode) if !is_owned_against(w0, who.txn, mode) => {
                let holders = self.sharers.of(&self.space, oid);
                let kept =
                    holders.block(who.txn, mode) || table.is_behind(oid, w0, &holders, who.session, mode);
                return if kept { Obstacle::Held } else { Obstacle::None };
            }
            _ => {}
        }
        // Another has told it.
        if table.held.get(&(w0 & ID)).is_some_and(|rows| rows.contains(&oid.bits())) {
            return Obstacle::Held;
        }
        // W2
        let pin = who.participant.pin();
        let Some(owner) = slot::owner(&self.space, &pin, oid, w0) else { return Obstacle::Passing };
        let late = mutated("owner_flagged_late") && word0.load(Ordering::SeqCst) & ID == w0 & ID;
        if late {
            (0..30).for_each(|_| yield_point())
        }
        owner.waited.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        yield_point();
        let now = word0.load(Ordering::SeqCst);
        if !late && (now & OWNED == 0 || now & ID != w0 & ID) {
            return Obstacle::Passing;
        }
        table.held.entry(w0 & ID).or_default().insert(oid.bits());
        Obstacle::Held
    }

    /// Whether the transaction that has just taken a row in this mode, or made its lock a stronger one, may
    /// keep it so (W1, W3): else it has to step back. If it stood in the row's queue, it does not any more
    /// when it may.
    pub fn keep(&self, oid: Oid, session: SessionId, state: &TxnState, mode: LockMode, owned: bool) -> bool {
        fence(Ordering::SeqCst);
        let mut table = self.table();
        let holders = self.sharers.of(&self.space, oid);
        if holders.block(state.id, mode) {
            table.owe(oid, state);
            return false;
        }
        if holders.is_empty() {
            self.sharers.unflag(&self.space, oid)
        }
        // As if the row were free still.
        let behind = !owned && !holders.holds(state.id) && table.is_behind(oid, 0, &holders, session, mode);
        let Some(queue) = table.queues.get_mut(&oid.bits()) else { return true };
        let at = queue.line.iter().position(|(s, _)| *s == session);
        if behind {
            // W10
            let may = at.is_none() && queue.overtaken < OVERTAKINGS;
            if !may && !mutated("overtaken_without_end") {
                table.owe(oid, state);
                return false;
            }
            queue.overtaken += 1
        }
        if let Some(at) = at {
            queue.leave(at)
        }
        if queue.line.is_empty() {
            self.space.word(oid.bits() + 8).fetch_and(!QUEUED, Ordering::SeqCst);
        } else if !mutated("taker_unflagged") {
            // W5
            state.waited.store(true, Ordering::Relaxed);
            table.held.entry(state.id).or_default().insert(oid.bits());
        }
        true
    }

    /// Waits until `over` says so. Whoever makes it so calls [`Waits::changed`], or `over` is asked every
    /// `poll`. Sessions may leave the blockers at any time; a session that joins them is not waiting then.
    pub fn wait(
        &self,
        who: &Waiter<'_>,
        blockers: Box<Blockers>,
        poll: Option<Duration>,
        mut over: impl FnMut() -> bool,
    ) -> Result<()> {
        let deadline = who.patience.deadline();
        let mut table = self.table();
        table.enter(who, Edge::Sessions(blockers));
        table.definers.push((who.session, who.parker.clone()));
        let mut begins = true;
        let outcome = loop {
            if over() {
                break Ok(());
            }
            if let Some(w) = table.waiting.get_mut(&who.session) {
                w.told = false
            }
            let looks = std::mem::take(&mut begins) && !mutated("definers_cycle_unseen");
            if looks && table.is_cycle(&self.space, &self.sharers, who.session) {
                break Err(Error::Deadlock);
            }
            if let Err(canceled) = who.patience.look() {
                break Err(canceled);
            }
            if deadline.is_some_and(|d| clock::now() >= d) {
                break Err(Error::LockNotAvailable { timeout: true });
            }
            drop(table);
            let look = poll.map(|p| clock::now() + p);
            who.park(look.into_iter().chain(deadline).min());
            table = self.table();
        };
        table.leave(who.session);
        table.definers.retain(|(session, _)| *session != who.session);
        outcome
    }

    /// Whether the session waits for somebody, as of now: once it was told it does not, even before it has
    /// noticed. Who steps aside does not (W11).
    pub fn is_waiting(&self, session: SessionId) -> bool {
        self.table().waiting.get(&session).is_some_and(Waiting::is_stuck)
    }

    /// All who wait, as of now, with those who are in their way or go before them.
    pub fn stuck(&self) -> Vec<Stuck> {
        let table = self.table();
        let waiting = table.waiting.iter().filter(|(_, w)| w.is_stuck());
        let one = |(session, w): (&SessionId, &Waiting)| {
            let mut found = Stuck { session: *session, row: None, blockers: vec![], owner: None };
            match &w.edge {
                Edge::Sessions(blockers) => blockers(&mut |s| found.blockers.push(s)),
                Edge::Row(oid, want) => {
                    let w0 = self.space.word(oid.bits()).load(Ordering::SeqCst);
                    let (mode, is_owned) = match want {
                        Want::Lock(mode) => (Some(*mode), is_owned_against(w0, w.txn, *mode)),
                        Want::Over(of) | Want::Aside(of) => (None, w0 & OWNED != 0 && w0 & ID == *of),
                    };
                    found.row = Some((*oid, mode));
                    found.owner = is_owned.then_some(w0 & ID);
                    if let Some(mode) = mode {
                        found.blockers.extend(self.sharers.of(&self.space, *oid).blockers(w.txn, mode));
                        let queue = table.queues.get(&oid.bits()).map(|q| q.line.iter());
                        let before = queue.into_iter().flatten().take_while(|(s, _)| s != session);
                        found.blockers.extend(before.filter(|(_, m)| m.conflicts(mode)).map(|(s, _)| *s))
                    }
                }
            }
            found
        };
        waiting.map(one).collect()
    }

    /// Something that data definition waits for, or that waits for it, may have come to pass.
    pub fn changed(&self) {
        let mut table = self.table();
        let parkers: Vec<_> = table.definers.iter().map(|(_, parker)| parker.clone()).collect();
        table.calls.extend(parkers)
    }

    /// To be called by a transaction that let go of rows it owned: after its end is stored and its slots are
    /// stamped, or after their headers are as they were (W2).
    pub fn let_go(&self, txn: &TxnState) {
        fence(Ordering::SeqCst);
        if txn.waited.load(Ordering::SeqCst) && !mutated("wake_up_dropped") {
            self.hand_over(txn)
        }
    }
    #[cold]
    fn hand_over(&self, txn: &TxnState) {
        let mut table = self.table();
        let Some(mut rows) = table.held.remove(&txn.id) else { return };
        rows.retain(|bits| {
            // SAFETY: made of a row's number.
            table.advance(&self.space, &self.sharers, unsafe { Oid::from_bits(*bits) });
            let w0 = self.space.word(*bits).load(Ordering::SeqCst);
            w0 & OWNED != 0 && w0 & ID == txn.id
        });
        if !rows.is_empty() {
            table.held.insert(txn.id, rows);
        }
    }

    /// Gives a shared lock back.
    pub fn unshare(&self, oid: Oid, txn: &TxnState, mode: LockMode) {
        self.sharers.leave(oid, txn, mode);
        if self.space.word(oid.bits() + 8).load(Ordering::SeqCst) & QUEUED != 0 && !mutated("leaver_silent") {
            self.table().advance(&self.space, &self.sharers, oid)
        }
    }
}

/// A place in a row's queue; dropped, it is given up.
#[must_use = "a place in a queue is to be waited in"]
pub struct Place<'a> {
    waits: &'a Waits,
    session: SessionId,
    oid: Oid,
    want: Want,
    deadline: Option<Duration>,
}

impl Place<'_> {
    /// Waits until there is something to try: the row may be free for the one who stands here.
    pub fn turn(&self, who: &Waiter<'_>) -> Result<()> {
        let waits = self.waits;
        let mut turn = 0;
        let mut table = waits.table();
        loop {
            match waits.obstacle(&mut table, who, self.oid, self.want) {
                Obstacle::None => return Ok(()),
                Obstacle::Held => break,
                Obstacle::Passing => {
                    drop(table);
                    spin_wait(turn);
                    turn += 1;
                    who.patience.look()?;
                    table = waits.table()
                }
            }
        }
        if let Some(w) = table.waiting.get_mut(&self.session) {
            w.told = false
        }
        // W5
        // That look would make up for an owner that was flagged late.
        if !mutated("waits_anew_silently") && !mutated("owner_flagged_late") {
            table.advance(&waits.space, &waits.sharers, self.oid)
        }
        if !mutated("cycle_unseen") && table.is_cycle(&waits.space, &waits.sharers, self.session) {
            return Err(Error::Deadlock);
        }
        loop {
            drop(table);
            who.patience.look()?;
            let in_time = who.park(self.deadline);
            table = waits.table();
            // Lost only with the mutex held, so that who was told does not miss it.
            if table.waiting.get(&self.session).is_none_or(|w| w.told) {
                drop(table);
                return who.patience.look();
            }
            if !in_time {
                return Err(Error::LockNotAvailable { timeout: true });
            }
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let bits = self.oid.bits();
        let mut table = self.waits.table();
        let told = table.leave(self.session).is_some_and(|w| w.told);
        let Some(queue) = table.queues.get_mut(&bits) else { return };
        match self.want {
            Want::Over(_) | Want::Aside(_) => queue.onlookers.retain(|s| *s != self.session),
            _ => {
                let at = queue.line.iter().position(|(s, _)| *s == self.session);
                if let Some(at) = at {
                    queue.leave(at);
                    if queue.line.is_empty() {
                        self.waits.space.word(bits + 8).fetch_and(!QUEUED, Ordering::SeqCst);
                    } else if told && !mutated("turn_kept") {
                        table.advance(&self.waits.space, &self.waits.sharers, self.oid)
                    }
                }
            }
        }
        if let Some(queue) = table.queues.get(&bits)
            && queue.line.is_empty()
            && queue.onlookers.is_empty()
        {
            table.queues.remove(&bits);
        }
    }
}
