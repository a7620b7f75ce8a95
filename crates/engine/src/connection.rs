//! A connection: one user of a database, one transaction at a time.
//!
//! - **N1** A statement publishes its snapshot and the tables it uses in its own cache line, passes the light
//!   side of a barrier, and then checks that none of them is being changed and that its plan's dictionary is
//!   still the current one. A connection that changes a definition marks the table, passes the heavy side,
//!   and waits until no line names it.
//! - **N2** A transaction that changes definitions goes by a dictionary of its own: the newest, with what it
//!   has changed over it (`draft`). It has claimed that (`definers`), and others see it when it has
//!   committed.
//! - **N3** A held commit ([`Connection::defer`], [`Connection::hold`]) is visible to others when it is
//!   durable, as any synchronous one is, but to its own connection at once, with all earlier commits. So what
//!   the connection does next rests on it: while it holds, the token of that covers the former ones; and when
//!   it holds no longer, it waits for them first ([`Connection::rest`]).
use crate::advisory::Advice;
use crate::catalog::Catalog;
use crate::charge::Charge;
use crate::database::Database;
use crate::definers::Claim;
use crate::draft::{Draft, View};
use crate::error;
use crate::outdated::Outdated;
use crate::portal::Portals;
use crate::sequence::{Counters, Sequences};
use crate::table::Table;
use ondol_base::cancel::Cancel;
use ondol_base::oid::Oid;
use ondol_base::park::Parker;
use ondol_kernel::transaction::Session;
use ondol_kernel::wait::SessionId;
use ondol_types::SqlResult;
use statement::Statement;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use transaction::Explicit;

mod conflict;
mod foreign;
mod rows;
mod statement;
mod transaction;

pub(crate) use foreign::Look;
pub use foreign::{Ask, NewValue, can_name};
pub use ondol_kernel::Isolation;
pub use ondol_kernel::heap::Part;
pub(crate) use rows::shown_value;
pub use rows::{KEYS_SHARED, LockStrength, Locked, Scan, Wait};
pub use statement::{STALE, Uses};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    ReadWrite,
    ReadOnly,
}

/// A commit that can be waited for: durable once the database's durable timestamp has reached it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(pub u64);

/// Tells, from elsewhere, whether a connection waits for others.
#[derive(Clone)]
pub struct Waiter {
    db: Arc<Database>,
    session: SessionId,
}

impl Waiter {
    /// Whether its statement waits for the end of another transaction, as of now.
    pub fn is_waiting(&self) -> bool {
        self.db.kernel.waits.is_waiting(self.session)
    }
}

pub struct Connection {
    pub(crate) db: Arc<Database>,
    pub(crate) session: Session,
    explicit: Option<Explicit>,
    statement: Statement,
    /// Of the explicit transaction.
    pub(crate) portals: Portals,
    /// While rows are locked for one: the present command (portal/P5).
    pub(crate) locking: Option<u32>,
    synchronous: bool,
    /// From `defer` to `settle` or `hold`: the newest commit that is to be durable at the end.
    owed: Option<u64>,
    /// The newest commit that was held, until it is known to be durable; 0: none (N3).
    held: u64,
    /// When the writing statement that is a transaction of its own first asked for the time; 0: not yet.
    time_us: std::cell::Cell<i64>,
    /// Definitions changed by the open transaction, over the session's own tables, if there are any of these.
    pub(crate) draft: Option<Arc<Draft>>,
    /// The session's own tables as they were committed (temporary/E1).
    pub(crate) temporary: Option<Arc<Draft>>,
    /// The dictionary with the draft over it, as it was last looked at.
    pub(crate) view: RefCell<Option<View>>,
    /// Tables from which the open transaction keeps writers, in order, and whether those who lock rows, too.
    pub(crate) guards: Vec<(Arc<Table>, bool)>,
    /// What the open transaction has claimed, in order.
    pub(crate) claims: Vec<Claim>,
    /// Advisory locks taken for the open transaction, in order, and for the session.
    pub(crate) advice: Vec<Advice>,
    pub(crate) own_advice: Vec<Advice>,
    /// As whom it makes objects.
    pub(crate) role: u32,
    /// Heap numbers to be given up when the transaction commits, or when it aborts.
    pub(crate) dropped: Vec<u32>,
    pub(crate) made: Vec<u32>,
    /// Those that were made, and given up by going back to a savepoint (draft/D5).
    pub(crate) orphans: Vec<u32>,
    /// The same of counters, and those that nobody else takes from meanwhile.
    pub(crate) counters: Counters,
    /// Values that the connection was given.
    pub(crate) sequences: Sequences,
    /// Entries of indexes made by the open transaction that its commit makes superfluous.
    pub(crate) outdated: Outdated,
    /// Tables marked as being changed by us.
    pub(crate) marked: Vec<Arc<Table>>,
    /// The table that everyone has with an index that we build.
    pub(crate) registered: Option<Arc<Table>>,
    /// Tables as they were before everyone was told of foreign keys that we add (define/foreign/R2).
    pub(crate) announced: Vec<Arc<Table>>,
    /// Something was claimed, or changed of definitions.
    pub(crate) defining: bool,
    /// Whether the transaction that has added labels to enums is open; none if it has added none.
    pub(crate) fresh_labels: Option<Arc<AtomicBool>>,
    /// A table was copied beside its users (beside/B4).
    pub(crate) copied: bool,
    /// What foreign keys have to say of what was changed.
    keys: foreign::Keys,
    /// The row that was inserted last.
    inserted: Oid,
    changes: Vec<u8>,
    row: Vec<u8>,
    gone: Vec<(u64, usize)>,
}

impl Connection {
    pub(crate) fn new(db: Arc<Database>) -> Connection {
        let session = Session::new(db.kernel.clone());
        Connection::over(db, session)
    }
    pub(crate) fn over(db: Arc<Database>, session: Session) -> Connection {
        let outdated = Outdated::new(&db.kernel.space.budget);
        Connection {
            session,
            explicit: None,
            statement: Statement::None,
            portals: Portals::default(),
            locking: None,
            synchronous: true,
            owed: None,
            held: 0,
            time_us: Default::default(),
            draft: None,
            temporary: None,
            view: RefCell::default(),
            guards: vec![],
            claims: vec![],
            advice: vec![],
            own_advice: vec![],
            role: crate::role::BOOTSTRAP,
            dropped: vec![],
            made: vec![],
            orphans: vec![],
            counters: Counters::default(),
            sequences: Sequences::default(),
            outdated,
            marked: vec![],
            registered: None,
            announced: vec![],
            defining: false,
            fresh_labels: None,
            copied: false,
            keys: foreign::Keys::new(db.charge()),
            inserted: Oid::NONE,
            changes: vec![],
            row: vec![],
            gone: vec![],
            db,
        }
    }
    pub fn database(&self) -> &Arc<Database> {
        &self.db
    }
    /// An empty charge against the database's memory limit.
    pub fn charge(&self) -> Charge {
        self.db.charge()
    }
    /// The dictionary as the current transaction sees it (own uncommitted DDL included).
    pub fn catalog(&self) -> Arc<Catalog> {
        match &self.draft {
            Some(draft) => self.view_with(draft).1,
            None => self.db.catalog(),
        }
    }
    /// The same, with the version of the dictionary that others have changed last, below what the
    /// transaction has.
    pub fn catalog_and_base(&self) -> (Arc<Catalog>, u64) {
        match &self.draft {
            Some(draft) => {
                let (base, catalog) = self.view_with(draft);
                (catalog, base)
            }
            None => {
                let catalog = self.db.catalog();
                let base = catalog.version;
                (catalog, base)
            }
        }
    }
    /// Whether the current transaction has changed definitions, or the session has tables of its own.
    pub fn has_own_catalog(&self) -> bool {
        self.draft.is_some()
    }
    /// The version of [`Connection::catalog`], without taking the catalog.
    #[inline]
    pub fn catalog_version(&self) -> u64 {
        match &self.draft {
            Some(draft) => self.view_with(draft).1.version,
            None => self.db.version(),
        }
    }
    /// Whether that is the version of [`Connection::catalog`].
    #[inline]
    fn is_current(&self, catalog_version: u64) -> bool {
        match &self.draft {
            Some(_) => self.is_view_current(catalog_version),
            None => self.db.version() == catalog_version,
        }
    }
    /// Whether commits wait for durability (`synchronous_commit`).
    #[inline]
    pub fn set_synchronous(&mut self, on: bool) {
        self.synchronous = on
    }
    pub fn set_lock_timeout(&mut self, limit: Option<Duration>) {
        self.session.patience.timeout = limit
    }
    /// What breaks off waits for locks. Whoever tells it has to unpark [`Connection::parker`] afterwards, or
    /// a wait that has begun goes on.
    pub fn set_cancel(&mut self, cancel: Arc<Cancel>) {
        self.session.patience.cancel = Some(cancel)
    }
    /// Where this connection waits for others.
    pub fn parker(&self) -> &Arc<Parker> {
        self.session.parker()
    }
    /// Whether a pin of its epochs is held, with which nobody may wait.
    pub fn is_pinned(&self) -> bool {
        self.session.participant().is_pinned()
    }
    /// Tells from elsewhere whether this connection waits.
    pub fn waiter(&self) -> Waiter {
        Waiter { db: self.db.clone(), session: self.session.id() }
    }
    /// Gives up the memory that it keeps for later statements.
    pub fn shrink(&mut self) {
        self.changes = vec![];
        self.row = vec![];
        self.gone = vec![];
        self.session.shrink()
    }
    /// The log stream that this connection's commits go to.
    pub fn set_stream(&mut self, stream: u16) {
        self.session.stream = ondol_durability::log::StreamId(stream)
    }
    pub fn wait_durable(&self, token: Token) -> SqlResult<()> {
        self.session.wait_durable(token.0).map_err(error::kernel)
    }
    /// The last commit of this connection.
    pub fn last_token(&self) -> Token {
        Token(self.session.last_commit())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.rollback();
        self.let_go_of_all_advisory();
        self.forget_temporary()
    }
}
