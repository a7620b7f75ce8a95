//! What a statement sees, lent to readers on other threads.
//!
//! ```text
//! the statement's thread   start_statement ── lend( hand the loan out ... wait for its end ) ── end_statement
//! readers                                        └─ reader: pin, read rows, unpin ─┘
//! ```
//! - **O1** The lender's line keeps the snapshot and the tables published until the last loan is given back:
//!   `lend` returns only then, by a panic too. So collectors (registry/R1, kernel/K4) and whoever changes
//!   definitions (connection/N1) go by the lender's line alone, and readers publish nothing but their pins.
//! - **O2** Readers pin in lines of their own (epoch/E3): what a version chain or an index leads to stays
//!   while they look at it.
//! - **O3** The lender's connection is borrowed meanwhile. So its transaction, whose changes readers see up
//!   to its present command, changes nothing but by inserters (O5), whose rows are of the present command.
//! - **O4** A reader only reads. It has no transaction: what a serializable one must remember, the lender
//!   remembers ([`Scan::parts`](crate::Scan::parts)).
//! - **O5** An inserter inserts for the lender's transaction, into a table without indexes that its statement
//!   uses; what it wrote is the lender's before `lend_writing` returns, by a panic too (share/D2).
use crate::charge::Charge;
use crate::connection::Connection;
use crate::database::Database;
use crate::error;
use crate::row::RowBatch;
use crate::table::Table;
use ondol_base::sync::{Condvar, Mutex};
use ondol_kernel::slot::View;
use ondol_kernel::transaction::{Session, Shared};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::Arc;

/// A running statement's view, to be handed to other threads. It is given back when it is dropped.
#[derive(Clone)]
pub struct Loan {
    // Gone before the loan is given back: whoever goes on then may be the last that has the database, and its
    // folder is to be free when that is dropped.
    lent: Arc<Lent>,
    _out: Out,
}

struct Lent {
    db: Arc<Database>,
    view: View,
    /// The lender's transaction, if it is lent too.
    shared: Option<Arc<Shared>>,
}

/// Loans that are out.
#[derive(Default)]
struct Count {
    out: Mutex<usize>,
    back: Condvar,
}
/// One of them.
struct Out(Arc<Count>);

impl Out {
    fn of(count: &Arc<Count>) -> Out {
        *count.out.lock() += 1;
        Out(count.clone())
    }
}
impl Clone for Out {
    fn clone(&self) -> Out {
        Out::of(&self.0)
    }
}
impl Drop for Out {
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

/// Inserts for the lender's transaction. What it inserted is given back when it is dropped.
pub struct Inserter {
    // Gone before the loan is given back.
    connection: Connection,
    /// For the memory of the rows that it is given, which whoever makes them uses again.
    charge: Charge,
    _loan: Loan,
}

impl Loan {
    /// `None`: only what is seen was lent.
    pub fn inserter(&self) -> Option<Inserter> {
        let lent = &self.lent;
        let connection = Connection::over(lent.db.clone(), lent.shared.as_ref()?.helper());
        let charge = connection.charge();
        Some(Inserter { connection, charge, _loan: self.clone() })
    }
    pub fn reader(&self) -> Reader {
        let lent = &self.lent;
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

impl Inserter {
    /// Inserts rows of the table's layout. After an error the lender's statement has failed.
    pub fn insert_rows(&mut self, table: &Arc<Table>, rows: &mut RowBatch) -> SqlResult<()> {
        if table.kept_up().next().is_some() || !table.def.foreign.is_empty() {
            let name = &table.def.name;
            let message = format!(
                "rows of table \"{name}\", which has an index or a foreign key, are inserted by one thread"
            );
            return Err(SqlError::new(sqlstate::INTERNAL_ERROR, message));
        }
        self.charge.resize(rows.memory())?;
        self.connection.insert_rows(table, rows).map_err(|(_, e)| e)
    }
}

/// O5: takes over what inserters wrote.
struct Sharer<'a> {
    session: &'a mut Session,
    shared: Arc<Shared>,
}
impl Drop for Sharer<'_> {
    fn drop(&mut self) {
        // By then nothing is left to take over, unless there was a panic; and a transaction that the log
        // refused a part of says so when it is to commit.
        let _ = self.session.gather(&self.shared);
    }
}

pub(crate) fn lend_writing<R>(
    db: &Arc<Database>,
    session: &mut Session,
    f: impl FnOnce(&Loan) -> R,
) -> SqlResult<R> {
    let shared = session.share().map_err(error::kernel)?;
    let sharer = Sharer { session, shared };
    let done = lend(db, sharer.session.view, Some(sharer.shared.clone()), f);
    sharer.session.gather(&sharer.shared).map_err(error::kernel)?;
    Ok(done)
}

/// O1: waits for every loan to be given back.
struct Lender(Arc<Count>);
impl Drop for Lender {
    fn drop(&mut self) {
        let mut out = self.0.out.lock();
        while *out > 0 {
            out = self.0.back.wait(out)
        }
    }
}

pub(crate) fn lend<R>(
    db: &Arc<Database>,
    view: View,
    shared: Option<Arc<Shared>>,
    f: impl FnOnce(&Loan) -> R,
) -> R {
    let lender = Lender(Arc::default());
    let loan = Loan { lent: Arc::new(Lent { db: db.clone(), view, shared }), _out: Out::of(&lender.0) };
    f(&loan)
}
