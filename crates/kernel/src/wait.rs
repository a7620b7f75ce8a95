//! Waiting for other sessions (for a transaction's end, or for what data definition needs), with deadlock detection;
//! and shared row locks, which live beside the rows.
//!
//! - **W1** Who waits has edges to those it waits for, entered under the table's mutex; a cycle is found by whoever
//!   closes it, and that one gives up. The edges are asked for anew whenever somebody looks.
//! - **W2** A transaction that ends stores its state, then looks whether it is waited for; who waits enters the flag,
//!   then looks at the state. Sequential consistency lets at least one of them see the other.
//! - **W3** Who shares a row registers, then looks for an owner; who would own a row takes it, then looks for sharers.
//!
//! One mutex serves all waits: they are the slow path. It is where many contended locks stop scaling.
use crate::error::{Error, Result};
use crate::slot::Status;
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

#[derive(Default)]
struct Table {
    /// Who waits, and for whom.
    edges: HashMap<SessionId, Box<Blockers>>,
    /// Row -> transactions that share a lock on it.
    shares: HashMap<u64, Vec<Arc<TxnState>>>,
}

impl Table {
    /// Whether somebody whom `me` waits for waits, in the end, for `me`.
    fn is_cycle(&self, me: SessionId) -> bool {
        let (mut todo, mut met) = (vec![me], vec![]);
        while let Some(at) = todo.pop() {
            let Some(blockers) = self.edges.get(&at) else { continue };
            blockers(&mut |b| {
                if !met.contains(&b) {
                    met.push(b);
                    todo.push(b)
                }
            })
        }
        met.contains(&me)
    }
}

#[derive(Default)]
pub struct Waits {
    table: Mutex<Table>,
    ended: Condvar,
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
    /// Waits until `holder` has ended.
    pub fn wait_for(&self, me: SessionId, holder: &Arc<TxnState>, patience: &Patience) -> Result<()> {
        let ended = |h: &TxnState| matches!(h.get(), Status::Committed(_) | Status::Aborted);
        holder.waited.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let theirs = holder.clone();
        let blockers = move |f: &mut dyn FnMut(SessionId)| {
            if !ended(&theirs) {
                f(theirs.session)
            }
        };
        self.wait(me, Box::new(blockers), POLL, patience, || ended(holder))
    }

    /// Waits until `over` says so, asked at least every `poll`. Whatever makes an end of it without [`Waits::changed`] is
    /// noticed that late. Sessions may leave the blockers at any time; who joins them is not waiting then.
    pub fn wait(
        &self,
        me: SessionId,
        blockers: Box<Blockers>,
        poll: Duration,
        patience: &Patience,
        mut over: impl FnMut() -> bool,
    ) -> Result<()> {
        let deadline = patience.timeout.map(|t| clock::now() + t);
        let mut table = self.table.lock();
        table.edges.insert(me, blockers);
        let outcome = loop {
            if over() {
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
            table = self.ended.wait_timeout(table, limit).0;
        };
        table.edges.remove(&me);
        outcome
    }

    /// Something that is waited for, other than a transaction's end, may have come to pass.
    pub fn changed(&self) {
        let _table = self.table.lock();
        self.ended.notify_all();
    }

    /// To be called by a transaction after its end is stored and its slots are stamped.
    pub fn ended(&self, txn: &TxnState) {
        fence(Ordering::SeqCst);
        if txn.waited.load(Ordering::SeqCst) {
            let _table = self.table.lock();
            self.ended.notify_all();
        }
    }

    /// Registers `txn` as sharing the row, with the row's flag; the caller looks for an owner afterwards. False if it was
    /// registered before.
    pub fn share(&self, oid: Oid, txn: &Arc<TxnState>, flag: impl FnOnce()) -> bool {
        let mut table = self.table.lock();
        let holders = table.shares.entry(oid.0).or_default();
        let new = !holders.iter().any(|h| h.id == txn.id);
        if new {
            holders.push(txn.clone())
        }
        flag();
        fence(Ordering::SeqCst);
        new
    }
    /// Whether the transaction shares the row: whoever owns it then is about to find that, and to step back (W3).
    pub fn shares(&self, oid: Oid, txn: u64) -> bool {
        self.table.lock().shares.get(&oid.0).is_some_and(|holders| holders.iter().any(|h| h.id == txn))
    }
    /// Gives a shared lock back; `unflag` clears the row's flag when nobody shares it any more.
    pub fn unshare(&self, oid: Oid, txn: u64, unflag: impl FnOnce()) {
        let mut table = self.table.lock();
        if let Some(holders) = table.shares.get_mut(&oid.0) {
            holders.retain(|h| h.id != txn);
            if holders.is_empty() {
                table.shares.remove(&oid.0);
                unflag()
            }
        }
        self.ended.notify_all();
    }
    /// Somebody else who shares the row.
    pub fn sharer(&self, oid: Oid, me: u64) -> Option<Arc<TxnState>> {
        fence(Ordering::SeqCst);
        let table = self.table.lock();
        table.shares.get(&oid.0)?.iter().find(|h| h.id != me).cloned()
    }
}
