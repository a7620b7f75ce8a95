//! Portals: open results, each of which reads what its statement saw when it was opened.
//!
//! ```text
//! start_statement -> open_portal -> end_statement   other statements   read_portal ...   dropped, or closed
//! ```
//! - **P1** A portal belongs to an explicit transaction, whose own line names its tables to the end: so
//!   whoever changes their definition elsewhere waits (connection/N1). The end of the transaction closes it,
//!   and so does rolling back to a savepoint that was set before it was opened.
//! - **P2** It reads by the view of the command that it was opened in: nothing that others commit later, and
//!   nothing that its own transaction changes later. Its snapshot is kept published (kept/V1) until it is
//!   closed; its transaction's changes before and after are not merged (kept/V2).
//! - **P3** Its reading is its transaction's: a serializable one remembers it, as what its statements read.
//! - **P4** Its own session does not change the definition of a table that it reads (55006). Waiting for its
//!   line, the session would wait for itself.
//! - **P5** Rows that it locks are locked by the command that fetches them, in their newest version: one that
//!   its own transaction has changed since it was opened is as good as gone, as in PostgreSQL. What else it
//!   gives is what its view shows.
use crate::connection::{Connection, Isolation};
use crate::table::Table;
use ondol_base::sync::Mutex;
use ondol_kernel::transaction::{KeptView, Savepoint};
use ondol_kernel::wait::SessionId;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::{Arc, Weak};

/// An open result's view. Dropping it closes it.
pub struct Portal(Arc<Open>);

/// A portal as its connection knows it.
pub(crate) struct Open {
    session: SessionId,
    /// What the transaction had written when it was opened.
    from: Savepoint,
    tables: Vec<Arc<Table>>,
    state: Mutex<State>,
}

struct State {
    /// How many savepoints there were; those that are released no longer count.
    savepoints: usize,
    /// `None`: all was read.
    view: Option<KeptView>,
    closed: bool,
}

impl Portal {
    /// Whether its transaction, or the savepoint that it was opened in, is over.
    pub fn is_closed(&self) -> bool {
        self.0.state.lock().closed
    }
    /// Nothing more is read: what it kept from being collected may go. It stays open.
    pub fn read_out(&self) {
        let view = self.0.state.lock().view.take();
        drop(view)
    }
}

impl Open {
    fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let view = state.view.take();
        drop(state);
        drop(view)
    }
}

/// The open portals of a connection, the oldest first; some may be gone.
#[derive(Default)]
pub(crate) struct Portals(Vec<Weak<Open>>);

impl Portals {
    /// Where the newest was opened: changes before that are not to be merged with later ones (P2).
    #[inline]
    pub fn newest(&mut self) -> Savepoint {
        if self.0.is_empty() { Savepoint::default() } else { self.find_newest() }
    }
    #[cold]
    fn find_newest(&mut self) -> Savepoint {
        if ondol_base::sim::mutated("merged_over_portal") {
            return Savepoint::default();
        }
        while let Some(last) = self.0.last() {
            match last.upgrade() {
                Some(open) => return open.from,
                None => drop(self.0.pop()),
            }
        }
        Savepoint::default()
    }
    fn add(&mut self, open: &Arc<Open>) {
        if self.0.len() == self.0.capacity() {
            self.0.retain(|o| o.strong_count() > 0)
        }
        self.0.push(Arc::downgrade(open))
    }
    #[inline]
    pub fn close_all(&mut self) {
        if !self.0.is_empty() {
            self.close_from(0)
        }
    }
    /// Closes those that were opened when there were so many savepoints, or more.
    #[cold]
    pub fn close_from(&mut self, savepoints: usize) {
        self.0.retain(|o| {
            let Some(open) = o.upgrade() else { return false };
            let stays = open.state.lock().savepoints < savepoints;
            if !stays {
                open.close()
            }
            stays
        })
    }
    /// Savepoints were released down to so many: what was opened in them is the one's around them.
    pub fn release(&mut self, savepoints: usize) {
        for open in self.0.iter().filter_map(Weak::upgrade) {
            let mut state = open.state.lock();
            state.savepoints = state.savepoints.min(savepoints)
        }
    }
    fn read(&self, table: &Table) -> bool {
        let reads = |o: Arc<Open>| o.tables.iter().any(|t| t.def.id == table.def.id);
        self.0.iter().filter_map(Weak::upgrade).any(reads)
    }
}

/// The error of reading on from what was closed.
pub fn closed() -> SqlError {
    SqlError::new(sqlstate::INVALID_CURSOR_NAME, "the cursor is closed")
        .detail("Its transaction has ended, or was rolled back to a savepoint before it.")
}

impl Connection {
    /// Opens a portal for the reading statement that was begun last and has not read anything yet, with the
    /// tables that it uses.
    pub fn open_portal(&mut self, tables: &[Arc<Table>]) -> SqlResult<Portal> {
        let (Some(isolation), savepoints) = (self.transaction_isolation(), self.savepoints()) else {
            let message = "a cursor can only be opened in transaction blocks";
            return Err(SqlError::new(sqlstate::NO_ACTIVE_SQL_TRANSACTION, message));
        };
        let view = self.session.keep_view(isolation == Isolation::ReadCommitted);
        let open = Arc::new(Open {
            session: self.session.id(),
            from: if self.session.is_open() { self.session.savepoint() } else { Savepoint::default() },
            tables: tables.to_vec(),
            state: Mutex::new(State { savepoints, view: Some(view), closed: false }),
        });
        self.portals.add(&open);
        Ok(Portal(open))
    }

    /// Runs `f`, which reads by a portal's view and changes nothing, but may lock rows if `locks` says so.
    /// After an error the transaction has failed, as after that of a statement.
    pub fn read_portal<R>(
        &mut self,
        portal: &Portal,
        locks: bool,
        f: impl FnOnce(&mut Connection) -> SqlResult<R>,
    ) -> SqlResult<R> {
        let view = {
            let state = portal.0.state.lock();
            match &state.view {
                Some(kept) if !state.closed && portal.0.session == self.session.id() => kept.view(),
                _ => return Err(closed()),
            }
        };
        self.start_reading(locks)?;
        let present = self.session.look_by(view);
        self.locking = locks.then_some(present.command);
        let done = f(self);
        self.locking = None;
        self.session.look_by(present);
        match done {
            Ok(r) => {
                self.end_statement()?;
                Ok(r)
            }
            Err(e) => {
                self.abort_statement();
                Err(e)
            }
        }
    }

    /// Opens a portal that reads nothing: what it is for ends when it is closed.
    pub fn open_mark(&mut self, catalog_version: u64) -> SqlResult<Portal> {
        self.start_statement(catalog_version, &[], false)?;
        let opened = self.open_portal(&[]);
        match &opened {
            Ok(portal) => {
                portal.read_out();
                self.end_statement()?;
            }
            Err(_) => self.abort_statement(),
        }
        opened
    }
    /// Whether the portal is this connection's, and open.
    pub fn has_portal(&self, portal: &Portal) -> bool {
        portal.0.session == self.session.id() && !portal.is_closed()
    }
    /// P4. `what`: the statement that would change the definition, and `name` what it changes.
    pub(crate) fn refuse_in_use(&self, table: &Table, what: &str, name: &str) -> SqlResult<()> {
        if !self.portals.read(table) {
            return Ok(());
        }
        Err(SqlError::new(
            sqlstate::OBJECT_IN_USE,
            format!("cannot {what} \"{name}\" because it is being used by active queries in this session"),
        ))
    }
}
