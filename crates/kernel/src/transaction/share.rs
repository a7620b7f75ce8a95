//! Inserting by several threads, in one transaction.
//!
//! ```text
//! the transaction's session   share ── (lent) ─────────────────── gather ── goes on
//! helpers, sessions too         └─ insert, spill fragments ── give back ─┘
//! ```
//! - **D1** Helpers enter what they insert under the transaction's number, with its mark, in write sets of
//!   their own; its session does nothing meanwhile. Each takes the numbers of its fragments from the one
//!   count, so that recovery finds all of them or none counts (protocol/P2): their order means nothing there.
//! - **D2** What a helper wrote comes back to the transaction's write set whole, whatever happened: it is
//!   undone, or installed, there. All of it is in the log as fragments by then, or the transaction is broken
//!   and can only be aborted. So is one of which a helper, or its own thread meanwhile, panicked: a fragment
//!   may be logged twice then, or its number not at all.
//! - **D3** Helpers insert rows without indexes alone: so they wait for nobody's lock, and no row of theirs
//!   has more than one write (transaction/T1).
use super::{Isolation, Mark, Session, Txn};
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::slot::View;
use ondol_base::sync::Mutex;
use ondol_durability::log::StreamId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// An open transaction, as its helpers have it.
pub struct Shared {
    kernel: Arc<Kernel>,
    number: u64,
    stream: StreamId,
    view: View,
    isolation: Isolation,
    mark: Arc<Mark>,
    /// The next fragment's number.
    pub(super) fragments: AtomicU32,
    given: Mutex<Vec<Given>>,
}

/// A helper's write set.
struct Given(Box<Txn>);
// SAFETY: as of a session: what its pointers lead to is the transaction's, and one thread at a time has it.
unsafe impl Send for Given {}

impl Session {
    /// Begins to share the open transaction's running statement. [`Session::gather`] has to follow once all
    /// helpers have gone.
    pub fn share(&mut self) -> Result<Arc<Shared>> {
        // D2: what was written before comes before what helpers write, and so in the log.
        self.spill(true)?;
        self.mark();
        let t = self.txn.as_ref().expect("a write outside a transaction");
        Ok(Arc::new(Shared {
            kernel: self.kernel.clone(),
            number: self.number,
            stream: self.stream,
            view: self.view,
            isolation: t.isolation,
            mark: t.marks.last().unwrap_or(&t.mark).clone(),
            fragments: AtomicU32::new(t.fragments),
            given: Mutex::default(),
        }))
    }

    /// Takes over what helpers wrote (D2). An error: the log refused a part of it.
    pub fn gather(&mut self, shared: &Shared) -> Result<()> {
        let t = self.txn.as_mut().expect("a shared transaction");
        if !ondol_base::sim::mutated("helpers_uncounted") {
            t.fragments = shared.fragments.load(Ordering::Acquire)
        }
        let given = std::mem::take(&mut *shared.given.lock());
        t.writes.reserve_exact(given.iter().map(|Given(theirs)| theirs.writes.len()).sum());
        for Given(mut theirs) in given {
            // Helpers have a table or two.
            let numbers: Vec<u32> = (theirs.tables.drain(..))
                .map(|table| match t.tables.iter().position(|x| Arc::ptr_eq(x, &table)) {
                    Some(n) => n as u32,
                    None => {
                        t.tables.push(table);
                        t.tables.len() as u32 - 1
                    }
                })
                .collect();
            // Their memory was charged when they made room for them.
            t.writes.extend(theirs.writes.drain(..).map(|mut w| {
                w.table = numbers[w.table as usize];
                w
            }));
            t.charged += std::mem::take(&mut theirs.charged);
            t.changed |= theirs.changed;
            t.broken = t.broken.take().or(theirs.broken.take());
        }
        if std::thread::panicking() {
            t.broken = Some(Error::Panicked)
        }
        t.first_unspilled = t.writes.len();
        t.fill_from = t.writes.len();
        t.broken.clone().map_or(Ok(()), Err)
    }

    /// A helper's write set goes back to its transaction.
    pub(super) fn give_back(&mut self, shared: &Shared) {
        if std::thread::panicking() {
            self.open().broken = Some(Error::Panicked)
        }
        // Refused by the log, or broken, the write set says so.
        let _ = self.spill(true);
        if let Some(t) = self.txn.take() {
            shared.given.lock().push(Given(t))
        }
        self.view = View::default();
    }
}

impl Shared {
    /// A session that inserts for the transaction (D3). What it wrote is given back when it aborts, or is
    /// dropped.
    pub fn helper(self: &Arc<Shared>) -> Session {
        let mut helper = Session::numbered(self.kernel.clone(), self.number);
        helper.view = self.view;
        helper.stream = self.stream;
        let mut t = Txn::new(self.mark.clone(), self.isolation);
        t.marked = true;
        t.lender = Some(self.clone());
        helper.txn = Some(Box::new(t));
        helper
    }
}
