//! Who shares a lock on which row: FOR KEY SHARE and FOR SHARE.
//!
//! ```text
//! parts   [ row -> holders ] [ row -> holders ] ...        a session enters its locks in the part that is its
//! slot    word 1: KEY_SHARED, SHARED                       some part may have a holder, or had one
//! ```
//! - **H1** *Many sharers of one row.* Holders lie in parts by their sessions, not by the row: those that
//!   share one row (children of one parent) take different mutexes and, once the row is flagged, write
//!   nothing that another reads. Only who would have the row in a mode that one of them is in the way of
//!   looks through all parts, and only if the row is flagged.
//! - **H2** *Flags.* Whoever enters a holder sees to the flag while it has its part. Flags stay when holders
//!   leave. Who finds one and no holder takes it away with all parts held, so that none is lost. A flag that
//!   is left over costs its finder a look, and no more: it may outlive its row, in the slot's next one.
//! - **H3** *Order.* A holder enters its part, then reads the row's header; who would own the row writes the
//!   header, then reads the flags and parts. A holder leaves its part, then looks whether somebody queues;
//!   who queues sets QUEUED, then looks through the parts. The part's mutex orders both pairs: one of the two
//!   sees the other.
use crate::memory::Space;
use crate::transaction::{LockMode, TxnState};
use crate::version::{KEY_SHARED, SHARED};
use crate::wait::{Map, SessionId};
use ondol_base::oid::Oid;
use ondol_base::sim::mutated;
use ondol_base::sync::Mutex;
use ondol_durability::TxnId;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A transaction that shares a lock on a row, in one mode or both.
struct Holder {
    txn: Arc<TxnState>,
    key: bool,
    whole: bool,
}

impl Holder {
    fn part(&mut self, mode: LockMode) -> &mut bool {
        match mode {
            LockMode::KeyShare => &mut self.key,
            _ => &mut self.whole,
        }
    }
}

/// Apart from its neighbours' cache lines.
#[repr(align(128))]
#[derive(Default)]
struct Part(Mutex<Map<u64, Vec<Holder>>>);

pub struct Sharers {
    parts: [Part; Sharers::PARTS],
}

/// Those who share one row, as of a look.
#[derive(Default)]
pub struct Holders {
    by: Map<TxnId, (SessionId, bool)>,
    /// How many of them hold FOR SHARE.
    wholes: usize,
}

impl Holders {
    pub fn holds(&self, txn: TxnId) -> bool {
        self.by.contains_key(&txn)
    }
    pub fn is_empty(&self) -> bool {
        self.by.is_empty()
    }
    /// Whether others than this transaction are in the way of the mode.
    pub fn block(&self, txn: TxnId, mode: LockMode) -> bool {
        let own = self.by.get(&txn);
        match mode {
            LockMode::KeyShare | LockMode::Share => false,
            LockMode::NoKeyUpdate => self.wholes > usize::from(own.is_some_and(|(_, whole)| *whole)),
            LockMode::Update if mutated("key_shares_ignored") => self.block(txn, LockMode::NoKeyUpdate),
            LockMode::Update => self.by.len() > usize::from(own.is_some()),
        }
    }
    /// The sessions of those that are in the way.
    pub fn blockers(&self, txn: TxnId, mode: LockMode) -> impl Iterator<Item = SessionId> {
        let stand = move |whole: bool| match whole {
            true => LockMode::Share.conflicts(mode),
            false => LockMode::KeyShare.conflicts(mode),
        };
        self.by.iter().filter(move |(id, (_, whole))| **id != txn && stand(*whole)).map(|(_, (s, _))| *s)
    }
}

impl Default for Sharers {
    fn default() -> Sharers {
        Sharers { parts: std::array::from_fn(|_| Part::default()) }
    }
}

impl Sharers {
    const PARTS: usize = 32;

    fn part(&self, session: SessionId) -> &Part {
        &self.parts[session as usize % Self::PARTS]
    }

    /// Enters a transaction as sharing the row, in a mode that shares. False if it held that much before.
    /// Afterwards the caller looks for an owner (H3).
    pub fn enter(&self, space: &Space, oid: Oid, txn: &Arc<TxnState>, mode: LockMode) -> bool {
        let mut part = self.part(txn.session).0.lock();
        let holders = part.entry(oid.bits()).or_default();
        let at = holders.iter().position(|h| h.txn.id == txn.id).unwrap_or_else(|| {
            holders.push(Holder { txn: txn.clone(), key: false, whole: false });
            holders.len() - 1
        });
        let holder = &mut holders[at];
        if holder.whole || *holder.part(mode) {
            return false;
        }
        *holder.part(mode) = true;
        let flag = if mode == LockMode::KeyShare { KEY_SHARED } else { SHARED };
        let word1 = space.word(oid.bits() + 8);
        if word1.load(Ordering::SeqCst) & flag == 0 {
            word1.fetch_or(flag, Ordering::SeqCst);
        }
        true
    }

    /// Takes back what [`Sharers::enter`] entered. Afterwards the caller looks for who queues (H3).
    pub fn leave(&self, oid: Oid, txn: &TxnState, mode: LockMode) {
        let mut part = self.part(txn.session).0.lock();
        let Some(holders) = part.get_mut(&oid.bits()) else { return };
        if let Some(at) = holders.iter().position(|h| h.txn.id == txn.id) {
            *holders[at].part(mode) = false;
            if !holders[at].key && !holders[at].whole {
                holders.swap_remove(at);
            }
        }
        if holders.is_empty() {
            part.remove(&oid.bits());
        }
    }

    /// The strongest mode in which the transaction shares the row.
    pub fn mode_of(&self, oid: Oid, session: SessionId, txn: TxnId) -> Option<LockMode> {
        let part = self.part(session).0.lock();
        let holder = part.get(&oid.bits())?.iter().find(|h| h.txn.id == txn)?;
        Some(if holder.whole { LockMode::Share } else { LockMode::KeyShare })
    }

    /// All who share the row.
    pub fn of(&self, space: &Space, oid: Oid) -> Holders {
        let mut found = Holders::default();
        if space.word(oid.bits() + 8).load(Ordering::SeqCst) & (SHARED | KEY_SHARED) == 0 {
            return found;
        }
        for part in &self.parts {
            if let Some(holders) = part.0.lock().get(&oid.bits()) {
                for h in holders {
                    found.by.insert(h.txn.id, (h.txn.session, h.whole));
                    found.wholes += usize::from(h.whole)
                }
            }
        }
        found
    }

    /// Takes the row's flags away if nobody shares it (H2).
    pub fn unflag(&self, space: &Space, oid: Oid) {
        let parts: Vec<_> = self.parts.iter().map(|p| p.0.lock()).collect();
        if parts.iter().all(|p| !p.contains_key(&oid.bits())) {
            space.word(oid.bits() + 8).fetch_and(!(SHARED | KEY_SHARED), Ordering::SeqCst);
        }
    }
}
