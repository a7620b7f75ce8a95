//! Waiting for other sessions (for a transaction's end, or for what data definition needs), with deadlock
//! detection; and shared row locks, which live beside the rows.
//!
//! - **W1** A transaction that waits has edges to those it waits for, entered under the table's mutex. The
//!   transaction that closes a cycle finds it, and gives up. The edges are asked for anew at each look.
//! - **W2** A transaction that lets go of a row stores that (its end, or the row's header), then looks
//!   whether it is waited for; a transaction that waits enters the flag, then looks. Sequential consistency
//!   lets at least one of them see the other.
//! - **W3** A transaction that shares a row registers, then looks for an owner; one that would own a row
//!   takes it, then looks for sharers. Whichever finds the other steps back. So locks come and go before
//!   their transaction ends: one is waited for only while it is held, else two that stepped back from each
//!   other would wait for each other's end.
//!
//! One mutex serves all waits: they are the slow path. It is where many contended locks stop scaling.
use crate::error::{Error, Result};
use crate::memory::Space;
use crate::slot::{ID, OWNED, Status};
use crate::transaction::TxnState;
use ondol_base::clock;
use ondol_base::oid::Oid;
use ondol_base::sync::{Condvar, Mutex};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

/// Tells of each session that keeps the waiting one waiting, as of now.
pub type Blockers = dyn Fn(&mut dyn FnMut(SessionId)) + Send + Sync;

/// A session, for as long as it lives.
pub type SessionId = u64;

/// How a transaction holds a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    Owns,
    Shares,
}

/// A row that a transaction holds, or held.
pub struct Held {
    pub space: Arc<Space>,
    pub oid: Oid,
    pub hold: Hold,
    pub txn: Arc<TxnState>,
}

/// Row -> transactions that share a lock on it.
type Shares = HashMap<u64, Vec<Arc<TxnState>>>;

impl Held {
    fn is_over(&self, shares: &Shares) -> bool {
        if matches!(self.txn.get(), Status::Committed(_) | Status::Aborted) {
            return true;
        }
        !match self.hold {
            Hold::Owns => {
                let w0 = self.space.word(self.oid.bits()).load(Ordering::SeqCst);
                w0 & OWNED != 0 && w0 & ID == self.txn.id
            }
            Hold::Shares => is_shared(shares, self.oid, self.txn.id),
        }
    }
}

fn is_shared(shares: &Shares, oid: Oid, txn: u64) -> bool {
    shares.get(&oid.bits()).is_some_and(|holders| holders.iter().any(|h| h.id == txn))
}

/// What keeps a session waiting.
enum Edge {
    Row(Arc<Held>),
    Sessions(Box<Blockers>),
}

#[derive(Default)]
struct WaitTable {
    /// Who waits, and for what.
    edges: HashMap<SessionId, Edge>,
    shares: Shares,
}

impl WaitTable {
    /// Whether somebody whom `me` waits for waits, in the end, for `me`.
    fn is_cycle(&self, me: SessionId) -> bool {
        let (mut todo, mut met) = (vec![me], vec![]);
        while let Some(at) = todo.pop() {
            let mut meet = |b| {
                if !met.contains(&b) {
                    met.push(b);
                    todo.push(b)
                }
            };
            match self.edges.get(&at) {
                Some(Edge::Row(held)) if !held.is_over(&self.shares) => meet(held.txn.session),
                Some(Edge::Sessions(blockers)) => blockers(&mut meet),
                _ => {}
            }
        }
        met.contains(&me)
    }
}

#[derive(Default)]
pub struct Waits {
    table: Mutex<WaitTable>,
    over: Condvar,
}

/// How often a wait looks whether it was cancelled.
const POLL: Duration = Duration::from_millis(50);

/// How long a wait may last, and what may break it off.
#[derive(Clone, Default)]
pub struct Patience {
    pub timeout: Option<Duration>,
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Patience {
    /// Whether to go on: for those who work for long without waiting.
    pub fn look(&self) -> Result<()> {
        match &self.cancel {
            Some(c) if c.load(Ordering::Relaxed) => Err(Error::Canceled),
            _ => Ok(()),
        }
    }
}

impl Waits {
    /// Waits until the row is held no more.
    pub fn wait_for(&self, me: SessionId, held: Held, patience: &Patience) -> Result<()> {
        held.txn.waited.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let held = Arc::new(held);
        self.wait_until(me, Edge::Row(held.clone()), POLL, patience, |shares| held.is_over(shares))
    }

    /// Waits until `over` says so, asked at least every `poll`. An end that comes without [`Waits::changed`]
    /// is noticed that late. Sessions may leave the blockers at any time; a session that joins them is not
    /// waiting then.
    pub fn wait(
        &self,
        me: SessionId,
        blockers: Box<Blockers>,
        poll: Duration,
        patience: &Patience,
        mut over: impl FnMut() -> bool,
    ) -> Result<()> {
        self.wait_until(me, Edge::Sessions(blockers), poll, patience, |_| over())
    }

    fn wait_until(
        &self,
        me: SessionId,
        edge: Edge,
        poll: Duration,
        patience: &Patience,
        mut over: impl FnMut(&Shares) -> bool,
    ) -> Result<()> {
        let deadline = patience.timeout.map(|t| clock::now() + t);
        let mut table = self.table.lock();
        table.edges.insert(me, edge);
        let outcome = loop {
            if over(&table.shares) {
                break Ok(());
            }
            // Only who begins to wait closes a cycle, but looking costs nothing here.
            if table.is_cycle(me) {
                break Err(Error::Deadlock);
            }
            if let Err(canceled) = patience.look() {
                break Err(canceled);
            }
            let mut limit = poll;
            if let Some(d) = deadline {
                match d.checked_sub(clock::now()) {
                    Some(left) if !left.is_zero() => limit = limit.min(left),
                    _ => break Err(Error::LockNotAvailable { timeout: true }),
                }
            }
            table = self.over.wait_timeout(table, limit).0;
        };
        table.edges.remove(&me);
        outcome
    }

    /// Whether the session waits for somebody, as of now: once what it waits for is over it does not, even
    /// before it has noticed.
    pub fn is_waiting(&self, session: SessionId) -> bool {
        let table = self.table.lock();
        match table.edges.get(&session) {
            Some(Edge::Row(held)) => !held.is_over(&table.shares),
            Some(Edge::Sessions(_)) => true,
            None => false,
        }
    }

    /// Something that is waited for, other than a transaction's end, may have come to pass.
    pub fn changed(&self) {
        let _table = self.table.lock();
        self.over.notify_all();
    }

    /// To be called by a transaction that let go of rows it owned: after its end is stored and its slots are
    /// stamped, or after their headers are as they were (W2).
    pub fn let_go(&self, txn: &TxnState) {
        fence(Ordering::SeqCst);
        if txn.waited.load(Ordering::SeqCst) {
            let _table = self.table.lock();
            self.over.notify_all();
        }
    }

    /// Registers `txn` as sharing the row, with the row's flag; the caller looks for an owner afterwards.
    /// False if it was registered before.
    pub fn share(&self, oid: Oid, txn: &Arc<TxnState>, flag: impl FnOnce()) -> bool {
        let mut table = self.table.lock();
        let holders = table.shares.entry(oid.bits()).or_default();
        let new = !holders.iter().any(|h| h.id == txn.id);
        if new {
            holders.push(txn.clone())
        }
        flag();
        fence(Ordering::SeqCst);
        new
    }
    /// Whether the transaction shares the row: whoever owns it then is about to find that, and to step back
    /// (W3).
    pub fn shares(&self, oid: Oid, txn: u64) -> bool {
        is_shared(&self.table.lock().shares, oid, txn)
    }
    /// Gives a shared lock back; `unflag` clears the row's flag when nobody shares it any more.
    pub fn unshare(&self, oid: Oid, txn: u64, unflag: impl FnOnce()) {
        let mut table = self.table.lock();
        if let Some(holders) = table.shares.get_mut(&oid.bits()) {
            holders.retain(|h| h.id != txn);
            if holders.is_empty() {
                table.shares.remove(&oid.bits());
                unflag()
            }
        }
        self.over.notify_all();
    }
    /// Somebody else who shares the row.
    pub fn sharer(&self, oid: Oid, me: u64) -> Option<Arc<TxnState>> {
        fence(Ordering::SeqCst);
        let table = self.table.lock();
        table.shares.get(&oid.bits())?.iter().find(|h| h.id != me).cloned()
    }
}
