//! What a statement sees, lent to readers on other threads.
//!
//! ```text
//! the statement's thread   start_statement ── lend( hand the loan out ... wait for its end ) ── end_statement
//! readers                                        └─ reader: pin, read rows, unpin ─┘
//! ```
//! - **O1** The lender's line keeps the snapshot and the tables published until the last loan is given back: `lend` returns only then, by a panic
//!   too. So collectors (R1, K4) and whoever changes definitions (N1) go by the lender's line alone, and readers publish nothing but their pins.
//! - **O2** Readers pin in lines of their own (E3): what a version chain or an index leads to stays while they look at it.
//! - **O3** The lender's connection is borrowed meanwhile. So its transaction, whose changes readers see up to its present command, changes nothing.
//! - **O4** A reader only reads. It has no transaction: what a serializable one must remember, the lender remembers ([`Scan::parts`](crate::Scan::parts)).
use crate::connection::Connection;
use crate::database::Database;
use ondol_base::sync::{Condvar, Mutex};
use ondol_kernel::slot::View;
use ondol_kernel::transaction::Session;
use std::sync::Arc;

/// A running statement's view, to be handed to other threads. Given back when it is dropped.
pub struct Loan(Arc<Lent>);

struct Lent {
    db: Arc<Database>,
    view: View,
    /// Loans that are out.
    out: Mutex<usize>,
    back: Condvar,
}

impl Clone for Loan {
    fn clone(&self) -> Loan {
        *self.0.out.lock() += 1;
        Loan(self.0.clone())
    }
}
impl Drop for Loan {
    fn drop(&mut self) {
        *self.0.out.lock() -= 1;
        self.0.back.notify_all()
    }
}

/// A connection that reads what the lender's statement sees.
pub struct Reader {
    // Gone before the loan is given back.
    connection: Connection,
    _loan: Loan,
}

impl Loan {
    pub fn reader(&self) -> Reader {
        let lent = &self.0;
        let session = Session::reader(lent.db.kernel.clone(), lent.view);
        Reader { connection: Connection::over(lent.db.clone(), session), _loan: self.clone() }
    }
}

impl Reader {
    /// For reading, within the lender's statement: none is to be started here.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// O1: waits for every loan to be given back.
struct Lender(Arc<Lent>);
impl Drop for Lender {
    fn drop(&mut self) {
        let mut out = self.0.out.lock();
        while *out > 0 {
            out = self.0.back.wait(out)
        }
    }
}

pub(crate) fn lend<R>(db: &Arc<Database>, view: View, f: impl FnOnce(&Loan) -> R) -> R {
    let lender = Lender(Arc::new(Lent { db: db.clone(), view, out: Mutex::new(1), back: Condvar::new() }));
    let loan = Loan(lender.0.clone());
    f(&loan)
}
