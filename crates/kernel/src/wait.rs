//! Waiting for another transaction's end, with deadlock detection; and shared row locks, which live beside the
//! rows.
//!
//! - **W1** Who waits has an edge to the one it waits for, entered under the table's mutex; a cycle is found by
//!   whoever would close it, and that one gives up.
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

#[derive(Default)]
struct Table {
    /// Who waits for whom.
    edges: HashMap<u64, u64>,
    /// Row -> transactions that share a lock on it.
    shares: HashMap<u64, Vec<Arc<TxnState>>>,
}

#[derive(Default)]
pub struct Waits {
    table: Mutex<Table>,
    ended: Condvar,
}

/// How long a wait may last, and what may break it off.
#[derive(Clone, Default)]
pub struct Patience {
    pub timeout: Option<Duration>,
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Waits {
    /// Waits until `holder` has ended.
    pub fn wait_for(&self, me: u64, holder: &TxnState, patience: &Patience) -> Result<()> {
        let deadline = patience.timeout.map(|t| clock::now() + t);
        let mut table = self.table.lock();
        holder.waited.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let mut at = holder.id;
        let mut steps = 0;
        while let Some(&next) = table.edges.get(&at) {
            if next == me || steps > table.edges.len() {
                return Err(Error::Deadlock);
            }
            at = next;
            steps += 1;
        }
        table.edges.insert(me, holder.id);
        let outcome = loop {
            if matches!(holder.get(), Status::Committed(_) | Status::Aborted) {
                break Ok(());
            }
            if patience.cancel.as_ref().is_some_and(|c| c.load(Ordering::Relaxed)) {
                break Err(Error::Canceled);
            }
            let mut limit = Duration::from_millis(50);
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
