//! A connection: one user of a database, one transaction at a time.
//!
//! - **N1** A statement publishes its snapshot and the tables it uses in its own cache line, passes the light
//!   side of a barrier, and then checks that none of them is being changed and that its plan's dictionary is
//!   still the current one. A connection that changes a definition marks the table, passes the heavy side,
//!   and waits until no line names it.
//! - **N2** One transaction at a time changes definitions; its own dictionary takes the place of everyone's when it
//!   commits.
use crate::catalog::Catalog;
use crate::charge::Charge;
use crate::database::Database;
use crate::error;
use crate::loan::{self, Loan};
use crate::outdated::Outdated;
use crate::patch::{Bits, Patch};
use crate::point::{Numbers, PointIndex};
use crate::row;
use crate::table::{Table, TableIndex};
use ondol_base::barrier;
use ondol_base::epoch::Guard;
use ondol_base::oid::Oid;
use ondol_kernel::LockMode;
use ondol_kernel::heap::Slots;
use ondol_kernel::registry::{self, FIRST_TABLE, IDLE, TABLE_COUNT, TABLES};
use ondol_kernel::transaction::{Newest, Savepoint, Session};
use ondol_kernel::wait::{Blockers, SessionId};
use ondol_types::{SqlError, SqlResult, ValueRef, sqlstate};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use ondol_kernel::Isolation;
pub use ondol_kernel::heap::Part;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    ReadWrite,
    ReadOnly,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockStrength {
    Share,
    Update,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// As long as the lock timeout allows.
    Block,
    /// Refuse with 55P03.
    NoWait,
    /// Leave the row out.
    SkipLocked,
}

/// What locking a row found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    /// Ours; the row is as the statement's snapshot showed it.
    Same,
    /// Ours; the row was changed since the snapshot (READ COMMITTED only): read it again by
    /// [`Connection::read_newest`] and recheck the statement's condition.
    Changed,
    /// The row was deleted since the snapshot (READ COMMITTED only).
    Gone,
    /// Somebody else's, and SKIP LOCKED was asked for.
    Skipped,
}

/// A commit that can be waited for: durable once the database's durable timestamp has reached it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(pub u64);

/// SQLSTATE-like marker of a plan made for an older dictionary; never reaches a user.
pub const STALE: &str = "ONSTL";

struct Explicit {
    isolation: Isolation,
    access: Access,
    failed: bool,
    /// The snapshot of the whole transaction is taken.
    started: bool,
    /// The dictionary before that.
    catalog: u64,
    savepoints: Vec<Mark>,
    time_us: i64,
}

impl Explicit {
    /// Whether something may yet be written: also what is read-only since a savepoint is not once that is gone back to.
    fn may_write(&self) -> bool {
        self.access == Access::ReadWrite || self.savepoints.iter().any(|s| s.access == Access::ReadWrite)
    }
}

/// A savepoint, and the transaction's state when it was set.
#[derive(Clone)]
struct Mark {
    name: String,
    savepoint: Savepoint,
    definitions: Definitions,
    access: Access,
}

/// How far definitions were changed, for savepoints.
#[derive(Clone, Default)]
struct Definitions {
    catalog: Option<Arc<Catalog>>,
    dropped: usize,
    made: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Statement {
    None,
    Read,
    Write,
}

/// Tells, from elsewhere, whether a connection waits for others.
#[derive(Clone)]
pub struct Waiter {
    db: Arc<Database>,
    session: ondol_kernel::wait::SessionId,
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
    /// Where the running statement began, in an explicit transaction.
    began: Option<(Savepoint, Definitions)>,
    synchronous: bool,
    /// Between `defer` and `settle`: the newest commit that is to be durable at the end.
    owed: Option<u64>,
    /// When the writing statement that is a transaction of its own first asked for the time; 0: not yet.
    time_us: std::cell::Cell<i64>,
    /// Definitions changed by the open transaction.
    pub(crate) catalog: Option<Arc<Catalog>>,
    /// Heap numbers to be given up when the transaction commits, or when it aborts.
    pub(crate) dropped: Vec<u32>,
    pub(crate) made: Vec<u32>,
    /// Entries of indexes made by the open transaction that its commit makes superfluous.
    pub(crate) outdated: Outdated,
    /// Tables marked as being changed by us.
    pub(crate) marked: Vec<Arc<Table>>,
    /// The table that everyone has with an index that we build.
    pub(crate) registered: Option<Arc<Table>>,
    pub(crate) defining: bool,
    changes: Vec<u8>,
    row: Vec<u8>,
    gone: Vec<(u64, usize)>,
}

/// A scan of all rows of a table, in storage order.
#[derive(Default)]
pub struct Scan {
    slots: Slots,
}

impl Scan {
    /// The parts, of at most `pages` pages each, that make up the scan of a whole table, in its order.
    pub fn parts(connection: &Connection, table: &Table, pages: usize) -> Vec<Part> {
        connection.session.remember_heap(&table.store);
        table.store.rows.parts(pages.max(1))
    }
    /// Begins the scan of a part, or of nothing.
    pub fn start_part(&mut self, part: Option<&Part>) {
        match part {
            Some(p) => self.slots.start_part(p),
            None => self.slots = Slots::default(),
        }
    }
    pub fn start(&mut self, connection: &Connection, table: &Arc<Table>) {
        connection.session.remember_heap(&table.store);
        self.slots.start(&table.store.rows);
    }
    /// Copies the next visible row into `row` (of the layout's row size).
    pub fn next(&mut self, connection: &Connection, row: &mut [u8]) -> SqlResult<Option<Oid>> {
        let session = &connection.session;
        let space = &session.kernel().space;
        let _pin = session.pin();
        while let Some(oid) = self.slots.next(space) {
            if session.read(oid, row) {
                return Ok(Some(oid));
            }
        }
        Ok(None)
    }
}

fn unpack(l: ondol_kernel::Locked) -> Locked {
    match l {
        ondol_kernel::Locked::Same => Locked::Same,
        ondol_kernel::Locked::Changed => Locked::Changed,
        ondol_kernel::Locked::Gone => Locked::Gone,
        ondol_kernel::Locked::Skipped => Locked::Skipped,
    }
}

/// Transactions. Outside an explicit transaction each statement is one: `start_statement` begins it and
/// `end_statement` commits it (or `abort_statement` rolls it back).
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
            began: None,
            synchronous: true,
            owed: None,
            time_us: Default::default(),
            catalog: None,
            dropped: vec![],
            made: vec![],
            outdated,
            marked: vec![],
            registered: None,
            defining: false,
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
        Charge::new(self.db.kernel.space.budget.clone())
    }
    /// The dictionary as the current transaction sees it (own uncommitted DDL included).
    pub fn catalog(&self) -> Arc<Catalog> {
        match &self.catalog {
            Some(c) => c.clone(),
            None => self.db.catalog(),
        }
    }
    /// The version of [`Connection::catalog`], without taking the catalog.
    #[inline]
    pub fn catalog_version(&self) -> u64 {
        match &self.catalog {
            Some(c) => c.version,
            None => self.db.version(),
        }
    }
    /// Starts an explicit transaction.
    pub fn begin(&mut self, isolation: Isolation, access: Access) -> SqlResult<()> {
        if self.explicit.is_some() {
            return Err(SqlError::new(
                sqlstate::ACTIVE_SQL_TRANSACTION,
                "there is already a transaction in progress",
            ));
        }
        self.explicit = Some(Explicit {
            isolation,
            access,
            failed: false,
            started: false,
            catalog: 0,
            savepoints: vec![],
            time_us: now_us(),
        });
        Ok(())
    }
    /// Changes the mode of the open transaction; what is given is what changes. The level, and reading to
    /// writing, can change before the transaction takes its snapshot, and outside of savepoints. Writing to
    /// reading can change at any time; if that is inside a savepoint, it lasts until the savepoint is
    /// released or gone back to.
    pub fn set_transaction(&mut self, isolation: Option<Isolation>, access: Option<Access>) -> SqlResult<()> {
        let Some(e) = &mut self.explicit else {
            return Err(SqlError::new(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                "there is no transaction in progress",
            ));
        };
        let refused = |message: &str| Err(SqlError::new(sqlstate::ACTIVE_SQL_TRANSACTION, message));
        if let Some(i) = isolation {
            if e.started {
                return refused("SET TRANSACTION ISOLATION LEVEL must be called before any query");
            }
            if !e.savepoints.is_empty() {
                return refused("SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction");
            }
            e.isolation = i
        }
        match access {
            Some(Access::ReadWrite) if e.access == Access::ReadOnly && !e.savepoints.is_empty() => {
                return refused("cannot set transaction read-write mode inside a read-only transaction");
            }
            Some(Access::ReadWrite) if e.access == Access::ReadOnly && e.started => {
                return refused("transaction read-write mode must be set before any query");
            }
            Some(a) => e.access = a,
            None => {}
        }
        Ok(())
    }
    #[inline]
    pub fn in_transaction(&self) -> bool {
        self.explicit.is_some()
    }
    pub fn transaction_isolation(&self) -> Option<Isolation> {
        self.explicit.as_ref().map(|e| e.isolation)
    }
    pub fn transaction_access(&self) -> Option<Access> {
        self.explicit.as_ref().map(|e| e.access)
    }
    /// An explicit transaction in which a statement failed: only ROLLBACK [TO] is taken.
    #[inline]
    pub fn is_failed(&self) -> bool {
        self.explicit.as_ref().is_some_and(|e| e.failed)
    }
    /// Fails the explicit transaction: for errors outside a statement's run (a name that is not there). What it did is undone at
    /// once as far as that is certain already, all of it or back to the newest savepoint, so that nobody waits for its rows and keys any more.
    pub fn fail(&mut self) {
        let Some(e) = &mut self.explicit else { return };
        if std::mem::replace(&mut e.failed, true) {
            return;
        }
        self.began = None;
        match e.savepoints.last().cloned() {
            Some(mark) => {
                if self.session.is_open() {
                    // If the log takes no more, the differences stay until the whole transaction is rolled back.
                    let _ = self.session.rollback_to(mark.savepoint);
                }
                self.restore(&mark.definitions)
            }
            None => self.undo_all(),
        }
    }
    /// Ends the explicit transaction; durable when this returns unless `set_synchronous(false)`. A failed one rolls
    /// back and gives `Ok(None)`, as does one that wrote nothing.
    pub fn commit(&mut self) -> SqlResult<Option<Token>> {
        let Some(e) = &self.explicit else { return Ok(None) };
        if e.failed {
            self.rollback();
            return Ok(None);
        }
        debug_assert!(self.session.is_open() || !e.started || !e.may_write());
        let read_write = self.session.is_open();
        let seen = self.session.seen();
        self.explicit = None;
        self.session.view.twins = false;
        let token = self.finish()?;
        if token.is_none() && read_write {
            self.promise(seen)?
        }
        Ok(token)
    }
    /// What a transaction without a commit of its own saw is a promise now: it may rest on commits that are not durable yet.
    fn promise(&mut self, seen: u64) -> SqlResult<()> {
        if !self.synchronous {
            return Ok(());
        }
        let c = seen.min(self.db.kernel.log.clock() - 1);
        self.wait_or_owe(c).map_err(error::kernel)
    }
    fn wait_or_owe(&mut self, c: u64) -> ondol_kernel::Result<()> {
        match &mut self.owed {
            Some(owed) => {
                *owed = c.max(*owed);
                Ok(())
            }
            None => self.session.wait_durable(c),
        }
    }
    /// From now on commits that should wait for durability do not; nor are they acknowledged, so that no reader sees them
    /// before they are durable. [`Connection::settle`] waits for all of them.
    pub fn defer(&mut self) {
        self.owed = Some(0)
    }
    /// Waits until everything that [`Connection::defer`] put off is durable.
    pub fn settle(&mut self) -> SqlResult<()> {
        match self.owed.take() {
            None | Some(0) => Ok(()),
            Some(c) => self.session.wait_durable(c).map_err(error::kernel),
        }
    }
    /// Commits the kernel's transaction, publishes definitions, waits for durability.
    fn finish(&mut self) -> SqlResult<Option<Token>> {
        let committed = self.session.commit();
        self.session.unpublish();
        self.leave_tables();
        match committed {
            Ok(c) => {
                let wait = match c {
                    Some(c) if self.defining => self.session.wait_durable(c),
                    Some(c) if self.synchronous => self.wait_or_owe(c),
                    Some(c) => {
                        self.session.acknowledge_async(c);
                        Ok(())
                    }
                    None => Ok(()),
                };
                self.end_definitions(true);
                wait.map_err(error::kernel)?;
                Ok(c.map(Token))
            }
            Err(e) => {
                self.end_definitions(false);
                Err(error::kernel(e))
            }
        }
    }
    pub fn rollback(&mut self) {
        self.explicit = None;
        self.session.view.twins = false;
        self.began = None;
        self.statement = Statement::None;
        self.undo_all()
    }
    fn undo_all(&mut self) {
        self.session.abort();
        self.session.unpublish();
        self.leave_tables();
        self.end_definitions(false);
    }
    fn definitions(&self) -> Definitions {
        Definitions { catalog: self.catalog.clone(), dropped: self.dropped.len(), made: self.made.len() }
    }
    fn restore(&mut self, d: &Definitions) {
        self.catalog = d.catalog.clone();
        self.dropped.truncate(d.dropped);
        // Heaps made since are empty again or never named; they go with the transaction.
        let orphans = self.made.split_off(d.made);
        self.db.later.lock().extend(orphans);
    }
    pub fn savepoint(&mut self, name: &str) -> SqlResult<()> {
        let access = self.open_transaction("SAVEPOINT")?.access;
        let definitions = self.definitions();
        // It is no query: a transaction that has not begun to read takes its snapshot later.
        let savepoint = if self.session.is_open() { self.session.savepoint() } else { Savepoint::default() };
        let mark = Mark { name: name.to_string(), savepoint, definitions, access };
        self.explicit.as_mut().expect("checked").savepoints.push(mark);
        Ok(())
    }
    fn open_transaction(&self, what: &str) -> SqlResult<&Explicit> {
        match &self.explicit {
            None => Err(SqlError::new(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                format!("{what} can only be used in transaction blocks"),
            )),
            Some(e) if e.failed && what != "ROLLBACK TO SAVEPOINT" => Err(failed()),
            Some(e) => Ok(e),
        }
    }
    fn find_savepoint(&self, name: &str, what: &str) -> SqlResult<usize> {
        let e = self.open_transaction(what)?;
        e.savepoints.iter().rposition(|s| s.name == name).ok_or_else(|| {
            SqlError::new(
                sqlstate::INVALID_SAVEPOINT_SPECIFICATION,
                format!("savepoint \"{name}\" does not exist"),
            )
        })
    }
    pub fn release_savepoint(&mut self, name: &str) -> SqlResult<()> {
        let i = self.find_savepoint(name, "RELEASE SAVEPOINT")?;
        let e = self.explicit.as_mut().expect("found");
        e.access = e.savepoints[i].access;
        e.savepoints.truncate(i);
        Ok(())
    }
    pub fn rollback_to_savepoint(&mut self, name: &str) -> SqlResult<()> {
        let i = self.find_savepoint(name, "ROLLBACK TO SAVEPOINT")?;
        let e = self.explicit.as_mut().expect("found");
        e.savepoints.truncate(i + 1);
        e.failed = false;
        let mark = e.savepoints[i].clone();
        e.access = mark.access;
        if self.session.is_open()
            && let Err(e) = self.session.rollback_to(mark.savepoint)
        {
            // The log took no more: only a full rollback is left.
            self.explicit.as_mut().expect("found").failed = true;
            return Err(error::kernel(e));
        }
        self.restore(&mark.definitions);
        Ok(())
    }
    /// Whether commits wait for durability (`synchronous_commit`).
    #[inline]
    pub fn set_synchronous(&mut self, on: bool) {
        self.synchronous = on
    }
    pub fn set_lock_timeout(&mut self, limit: Option<Duration>) {
        self.session.patience.timeout = limit
    }
    /// A flag that breaks off waits for locks.
    pub fn set_cancel(&mut self, flag: Arc<AtomicBool>) {
        self.session.patience.cancel = Some(flag)
    }
    /// Tells from elsewhere whether this connection waits.
    pub fn waiter(&self) -> Waiter {
        Waiter { db: self.db.clone(), session: self.session.id() }
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

    fn start_explicit(&mut self) -> SqlResult<()> {
        let version = self.catalog_version();
        let Some(e) = &mut self.explicit else { return Ok(()) };
        let first = !e.started;
        e.started = true;
        if first {
            e.catalog = version
        }
        let isolation = e.isolation;
        if first && e.may_write() {
            self.session.begin(isolation)
        }
        if first || isolation == Isolation::ReadCommitted {
            match self.session.is_open() {
                true => self.session.snapshot_newest(),
                false => self.session.snapshot_visible(),
            }
        }
        Ok(())
    }

    /// Begins a statement: takes its snapshot and announces the tables it uses, so that DDL waits for it. Fails
    /// with a retryable [`STALE`] error when `catalog_version` is no longer the catalog's: plan again.
    #[inline]
    pub fn start_statement(
        &mut self,
        catalog_version: u64,
        tables: &[Arc<Table>],
        writes: bool,
    ) -> SqlResult<()> {
        debug_assert!(self.statement == Statement::None);
        self.session.removes = false;
        if let Some(e) = &self.explicit {
            if e.failed {
                return Err(failed());
            }
            if writes && e.access == Access::ReadOnly {
                return Err(SqlError::new(
                    sqlstate::READ_ONLY_SQL_TRANSACTION,
                    "cannot write in a read-only transaction",
                ));
            }
        }
        // N1: announced before the snapshot's barrier, or before one of their own where no snapshot is taken.
        let announced = self.enter_tables(tables);
        if self.explicit.is_some() {
            self.start_explicit()?;
            if self.session.is_open() {
                self.session.next_command();
                let last = self.explicit.as_ref().and_then(|e| e.savepoints.last());
                self.session.may_roll_back_to(last.map_or_else(Savepoint::default, |s| s.savepoint));
                self.began = Some((self.session.savepoint(), self.definitions()))
            }
            barrier::light();
        } else if writes {
            self.time_us.set(0);
            self.session.begin(Isolation::ReadCommitted);
            self.session.snapshot_newest();
            self.session.next_command();
        } else {
            self.session.snapshot_visible()
        }
        // The marks first: who changes a definition publishes the new dictionary before it takes its marks away.
        let busy = tables.iter().find(|t| {
            let l = t.locked.load(Ordering::SeqCst);
            l != 0 && l != self.session.id() && !self.used_before(t, announced)
        });
        ondol_base::sync::yield_point();
        let stale = self.catalog_version() != catalog_version;
        if stale || busy.is_some() {
            let busy = busy.cloned();
            self.withdraw_tables(announced);
            if self.explicit.is_none() {
                self.session.abort();
                self.session.unpublish()
            }
            if let Some(t) = busy {
                self.wait_unlocked(&t)?
            }
            return Err(SqlError::new(STALE, "the dictionary has changed"));
        }
        // Rows that an index has always kept apart may have been equal at a snapshot that is older than the index.
        if let Some(e) = &self.explicit
            && e.isolation != Isolation::ReadCommitted
            && e.catalog != catalog_version
        {
            self.session.view.twins = true
        }
        self.statement = if writes { Statement::Write } else { Statement::Read };
        Ok(())
    }

    /// Runs `f` as a statement of its own that reads one table, outside a transaction: what `start_statement` and
    /// `end_statement` do, with one barrier for the announcement, the snapshot and the pin together (N1). `None` if the dictionary is
    /// no longer that of `catalog_version` or the table is being changed: nothing was done, and `start_statement` tells what to do.
    #[inline]
    pub fn glance<R>(
        &mut self,
        catalog_version: u64,
        table: &Table,
        f: impl FnOnce(&Connection, &Guard<'_>) -> R,
    ) -> Option<R> {
        debug_assert!(self.statement == Statement::None && self.explicit.is_none());
        let words = &self.session.participant().line().words;
        words[FIRST_TABLE].store(table.name(), Ordering::Release);
        words[TABLE_COUNT].store(1, Ordering::Release);
        let pin = loop {
            self.session.offer_visible();
            // The first pin, as nobody holds one of a connection that is borrowed alone: so it passes the barrier.
            let pin = self.session.pin();
            if self.session.is_taken() {
                break pin;
            }
        };
        // The mark first, as in `start_statement`.
        let busy = table.locked.load(Ordering::SeqCst) != 0;
        ondol_base::sync::yield_point();
        let done = (!busy && self.catalog_version() == catalog_version).then(|| f(self, &pin));
        drop(pin);
        self.session.unpublish();
        self.leave_tables();
        done
    }

    /// Sets columns of the row that has the key made of `key`, as a statement and transaction of its own at READ COMMITTED: what
    /// `start_statement`, the lookup, `lock`, `update` and `end_statement` do for the case in which nothing is out of the
    /// ordinary. `None` where something is (no such row, or one that is owned; a NULL that may not be; a value that changes nothing; another dictionary than that of
    /// `catalog_version`, or a table that is being changed): nothing was done.
    #[inline]
    pub fn assign(
        &mut self,
        catalog_version: u64,
        table: &Table,
        index: &PointIndex,
        key: &Numbers,
        patch: &Patch,
        value: impl Fn(usize) -> Bits,
    ) -> Option<SqlResult<Token>> {
        debug_assert!(self.statement == Statement::None && self.explicit.is_none());
        let number = |i: usize| key[i];
        // On its way while the transaction begins.
        let aim = index.aim(number);
        let words = &self.session.participant().line().words;
        words[FIRST_TABLE].store(table.name(), Ordering::Release);
        words[TABLE_COUNT].store(1, Ordering::Release);
        let mut row = std::mem::take(&mut self.row);
        row.resize(table.layout.row_size, 0);
        let (db, catalog) = (&self.db, &self.catalog);
        let done = self.session.write_one(&table.store, |session, pin, pieces| {
            // N1: the pin has passed the barrier for the announcement, since nobody holds another of a connection that is
            // borrowed alone. The mark first, as in `start_statement`.
            let busy = table.locked.load(Ordering::SeqCst) != 0;
            ondol_base::sync::yield_point();
            if busy || catalog.is_some() || db.version() != catalog_version {
                return None;
            }
            let found = Connection::find_current(session, pin, index, aim, number, &mut row)?;
            patch.apply(value, &mut row, pieces).then_some(found)
        });
        self.row = row;
        self.leave_tables();
        match done {
            Ok(None) => None,
            Ok(Some(c)) => {
                let wait = if self.synchronous {
                    self.wait_or_owe(c)
                } else {
                    self.session.acknowledge_async(c);
                    Ok(())
                };
                Some(wait.map(|()| Token(c)).map_err(error::kernel))
            }
            Err(e) => Some(Err(error::kernel(e))),
        }
    }

    /// Waits until nobody changes the table's definition.
    fn wait_unlocked(&mut self, table: &Table) -> SqlResult<()> {
        let locked = table.locked.clone();
        let blockers = move |f: &mut dyn FnMut(SessionId)| match locked.load(Ordering::SeqCst) {
            0 => {}
            definer => f(definer),
        };
        let over = || table.locked.load(Ordering::SeqCst) == 0;
        self.wait_for_definition(Box::new(blockers), over).map_err(|e| {
            self.fail();
            e.detail(format!(
                "The statement waited for another transaction that changes the definition of table \"{}\".",
                table.def.name
            ))
        })
    }

    /// Waits for what data definition waits for, or what waits for it, as for a row's lock.
    pub(crate) fn wait_for_definition(
        &self,
        blockers: Box<Blockers>,
        over: impl FnMut() -> bool,
    ) -> SqlResult<()> {
        // Who leaves a table tells nobody.
        const POLL: Duration = Duration::from_micros(500);
        let patience = &self.session.patience;
        let waits = &self.db.kernel.waits;
        waits.wait(self.session.id(), blockers, POLL, patience, over).map_err(error::kernel)
    }

    /// Names tables in our line; gives how many were named before.
    #[inline]
    fn enter_tables(&mut self, tables: &[Arc<Table>]) -> u64 {
        let words = &self.session.participant().line().words;
        let before = match words[TABLE_COUNT].load(Ordering::Relaxed) {
            IDLE => 0,
            n => n,
        };
        let mut n = before as usize;
        for t in tables {
            let name = t.name();
            if n > TABLES {
                break;
            }
            if words[FIRST_TABLE..FIRST_TABLE + n].iter().any(|w| w.load(Ordering::Relaxed) == name) {
                continue;
            }
            if n < TABLES {
                // Release: whoever finds another name here knows what was done under the one before.
                words[FIRST_TABLE + n].store(name, Ordering::Release);
            }
            n += 1;
        }
        words[TABLE_COUNT].store(n as u64, Ordering::Release);
        before
    }
    /// Whether an earlier statement of the transaction uses the table: then whoever changes its definition waits for us.
    #[cold]
    fn used_before(&self, table: &Table, announced: u64) -> bool {
        let words = &self.session.participant().line().words;
        let named = &words[FIRST_TABLE..FIRST_TABLE + TABLES.min(announced as usize)];
        named.iter().any(|w| registry::same_table(w.load(Ordering::Relaxed), table.name()))
    }
    #[inline]
    fn withdraw_tables(&self, to: u64) {
        self.session.participant().line().words[TABLE_COUNT].store(to, Ordering::Release)
    }
    #[inline]
    fn leave_tables(&self) {
        self.withdraw_tables(0)
    }

    /// Lends the running statement's view to readers on other threads (see [`Loan`]).
    pub fn lend<R>(&mut self, f: impl FnOnce(&Loan) -> R) -> R {
        debug_assert!(self.statement != Statement::None);
        if ondol_base::sim::mutated("lent_unpublished") {
            self.session.unpublish()
        }
        loan::lend(&self.db, self.session.view, None, f)
    }

    /// The same of a writing statement, whose transaction is lent, too: [`Loan::inserter`]. An error is the log's, before `f` was called, or when what was inserted is
    /// taken over; then the transaction can only be aborted.
    pub fn lend_writing<R>(&mut self, f: impl FnOnce(&Loan) -> R) -> SqlResult<R> {
        debug_assert!(self.statement == Statement::Write);
        loan::lend_writing(&self.db, &mut self.session, f)
    }

    /// The statement succeeded. Outside an explicit transaction this commits.
    #[inline]
    pub fn end_statement(&mut self) -> SqlResult<Option<Token>> {
        let was = std::mem::replace(&mut self.statement, Statement::None);
        if self.explicit.is_some() {
            self.began = None;
            return Ok(None);
        }
        match was {
            Statement::Write => {
                let seen = self.session.seen();
                let token = self.finish()?;
                if token.is_none() {
                    self.promise(seen)?
                }
                Ok(token)
            }
            _ => {
                self.session.unpublish();
                self.leave_tables();
                Ok(None)
            }
        }
    }
    /// The statement failed: its effects are undone; an explicit transaction is failed from now on.
    pub fn abort_statement(&mut self) {
        self.statement = Statement::None;
        if self.explicit.is_none() {
            self.rollback();
            return;
        }
        self.fail()
    }
    /// The transaction's timestamp, µs from 2000-01-01 UTC.
    pub fn transaction_time_us(&self) -> i64 {
        match &self.explicit {
            Some(e) => e.time_us,
            None if self.statement == Statement::Write => {
                if self.time_us.get() == 0 {
                    self.time_us.set(now_us())
                }
                self.time_us.get()
            }
            None => now_us(),
        }
    }
}

fn failed() -> SqlError {
    SqlError::new(
        sqlstate::IN_FAILED_SQL_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

/// µs from 2000-01-01 UTC.
fn now_us() -> i64 {
    ondol_base::clock::wall_us() - 946_684_800_000_000
}

/// Rows. All between `start_statement` and its end.
impl Connection {
    /// Copies the row as the statement sees it; false when it does not see it.
    #[inline]
    pub fn read(&self, table: &Table, oid: Oid, row: &mut [u8]) -> bool {
        let _ = table;
        self.session.read(oid, row)
    }
    /// Copies the newest version (committed, or our own), after [`Locked::Changed`].
    pub fn read_newest(&self, table: &Table, oid: Oid, row: &mut [u8]) -> bool {
        let _ = table;
        self.session.read_newest(oid, row)
    }
    /// Brings a row into the cache.
    #[inline]
    pub fn prefetch(&self, oid: Oid) {
        self.session.kernel().space.prefetch(oid)
    }
    /// Brings the header of a row's page into the cache, which a change of the row marks.
    #[inline]
    pub fn prefetch_page(&self, oid: Oid) {
        self.session.kernel().space.prefetch_page(oid)
    }
    /// Pins the epoch while the result lives.
    #[inline]
    pub fn pin(&self) -> Guard<'_> {
        self.session.pin()
    }
    /// Appends the normalised key that a row which the statement reads has in an index.
    #[inline]
    pub fn row_key(&self, index: &TableIndex, row: &[u8], out: &mut Vec<u8>) {
        index.store.key.key(row, self, out);
    }
    /// Appends the bytes of a string, which a row that the statement reads names by these bits.
    pub fn read_string(&self, slot: u64, len: usize, out: &mut Vec<u8>) {
        use ondol_kernel::Strings;
        if !self.session.read_string(slot, len, out) {
            Newest(&self.session).string(slot, len, out)
        }
    }
    /// The row of the table that these bits name, if they do, whether or not the statement sees it: a number that was
    /// an OID's bits may have become any other since.
    pub fn row_at(&self, table: &Table, bits: u64) -> Option<Oid> {
        table.store.rows.slot_at(bits)
    }
    /// Appends every OID that stands under the key of these values, which are all the index's columns; the row's
    /// key must be rechecked by the caller.
    pub fn lookup(&self, index: &TableIndex, key: &[u8], out: &mut Vec<Oid>) -> SqlResult<()> {
        let start = out.len();
        if !self.session.is_serializable() {
            let guard = self.session.pin();
            index.index.lookup(&guard, key, out, None);
            return Ok(());
        }
        let mut seen = vec![];
        {
            let guard = self.session.pin();
            index.index.lookup(&guard, key, out, Some(&mut seen));
        }
        self.session.remember_nodes(&index.store, &mut seen).map_err(error::kernel)?;
        for oid in &out[start..] {
            self.session.remember_row(*oid).map_err(error::kernel)?
        }
        Ok(())
    }
    #[inline]
    pub fn is_serializable(&self) -> bool {
        self.session.is_serializable()
    }
    /// Whether the transaction may see two rows under one unique key: its own, and one that others have taken away since its
    /// snapshot.
    #[inline]
    pub fn may_see_twins(&self) -> bool {
        self.session.view.twins
    }
    pub fn lock(
        &mut self,
        table: &Arc<Table>,
        oid: Oid,
        strength: LockStrength,
        wait: Wait,
    ) -> SqlResult<Locked> {
        let mode = match strength {
            LockStrength::Share => LockMode::Share,
            LockStrength::Update => LockMode::Update,
        };
        let wait = match wait {
            Wait::Block => ondol_kernel::Wait::Block,
            Wait::NoWait => ondol_kernel::Wait::NoWait,
            Wait::SkipLocked => ondol_kernel::Wait::Skip,
        };
        self.session.lock(&table.store, oid, mode, wait).map(unpack).map_err(|e| match e {
            ondol_kernel::Error::LockNotAvailable { timeout: false } => SqlError::new(
                sqlstate::LOCK_NOT_AVAILABLE,
                format!("could not obtain lock on row in relation \"{}\"", table.def.name),
            ),
            e => error::kernel(e),
        })
    }

    fn not_null(&self, table: &Table, column: usize, values: &dyn Fn(&mut String)) -> SqlError {
        let mut row = String::from("Failing row contains (");
        values(&mut row);
        row.push_str(").");
        SqlError::new(
            sqlstate::NOT_NULL_VIOLATION,
            format!(
                "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                table.def.columns[column].name, table.def.name
            ),
        )
        .detail(row)
    }

    /// A kernel error of a change to `table`, the new row being `bytes`.
    fn change_error(&self, table: &Table, e: ondol_kernel::Error, bytes: &[u8]) -> SqlError {
        let ondol_kernel::Error::UniqueViolation { index } = e else { return error::kernel(e) };
        let Some(i) = table.kept_up().find(|i| i.def.id == index) else { return error::kernel(e) };
        let (mut names, mut values) = (vec![], vec![]);
        for c in &i.def.columns {
            let def = &table.def.columns[c.column];
            names.push(def.name.clone());
            let mut scratch = vec![];
            let v = row::column(&table.layout, bytes, c.column, &Newest(&self.session), &mut scratch);
            let mut text = String::new();
            ondol_types::text::output(v, def.ty, &mut text);
            values.push(text)
        }
        SqlError::new(
            sqlstate::UNIQUE_VIOLATION,
            format!("duplicate key value violates unique constraint \"{}\"", i.def.name),
        )
        .detail(format!("Key ({})=({}) already exists.", names.join(", "), values.join(", ")))
    }

    /// A new row; one value for each column, of the column's type (typmod applied). NOT NULL and uniqueness are
    /// checked here, index entries made.
    pub fn insert(&mut self, table: &Arc<Table>, values: &[ValueRef<'_>]) -> SqlResult<Oid> {
        for (i, v) in values.iter().enumerate() {
            if v.is_null() && table.def.columns[i].not_null {
                return Err(self.not_null(table, i, &|out| describe(table, values.iter().copied(), out)));
            }
        }
        let mut bytes = std::mem::take(&mut self.row);
        let session = &mut self.session;
        let done =
            row::encode(&table.layout, values, &mut bytes, &mut |b| session.put_string(&table.store, b))
                .and_then(|()| session.insert(&table.store, &bytes))
                .map_err(|e| self.change_error(table, e, &bytes));
        self.row = bytes;
        done
    }
    /// Inserts rows of the table's layout, in their order. An error comes with the number of its row.
    pub fn insert_rows(
        &mut self,
        table: &Arc<Table>,
        rows: &mut row::RowBatch,
    ) -> Result<(), (usize, SqlError)> {
        /// Rows whose strings are stored before they are.
        const GROUP: usize = 64;
        let size = table.layout.row_size;
        let mut done = 0;
        while done < rows.len() {
            let end = (done + GROUP).min(rows.len());
            if rows.has_strings() {
                let session = &mut self.session;
                for n in done..end {
                    rows.place_strings(n, &mut |b| session.put_string(&table.store, b))
                        .map_err(|e| (n, error::kernel(e)))?
                }
            }
            let group = &rows.bytes[done * size..end * size];
            self.session.insert_rows(&table.store, group, &mut done).map_err(|e| {
                let failed = &rows.bytes[done * size..][..size];
                (done, self.change_error(table, e, failed))
            })?
        }
        Ok(())
    }
    /// Changes columns of a row that is locked by us (`lock` first); `row` is its newest bytes.
    pub fn update(
        &mut self,
        table: &Arc<Table>,
        oid: Oid,
        row: &[u8],
        changes: &[(usize, ValueRef<'_>)],
    ) -> SqlResult<()> {
        if let Some((i, _)) = changes.iter().find(|(i, v)| v.is_null() && table.def.columns[*i].not_null) {
            let all = |out: &mut String| {
                let mut scratch: Vec<Vec<u8>> = table.def.columns.iter().map(|_| vec![]).collect();
                let strings = Newest(&self.session);
                let values: Vec<ValueRef<'_>> = scratch
                    .iter_mut()
                    .enumerate()
                    .map(|(c, s)| match changes.iter().rev().find(|x| x.0 == c) {
                        Some((_, v)) => *v,
                        None => row::column(&table.layout, row, c, &strings, s),
                    })
                    .collect();
                describe(table, values.into_iter(), out)
            };
            return Err(self.not_null(table, *i, &all));
        }
        let mut new = std::mem::take(&mut self.changes);
        let mut gone = std::mem::take(&mut self.gone);
        gone.clear();
        let done = self.change(table, oid, row, changes, &mut new, &mut gone);
        self.changes = new;
        self.gone = gone;
        done
    }
    fn change(
        &mut self,
        table: &Arc<Table>,
        oid: Oid,
        row: &[u8],
        changes: &[(usize, ValueRef<'_>)],
        new: &mut Vec<u8>,
        gone: &mut Vec<(u64, usize)>,
    ) -> SqlResult<()> {
        let mut put = vec![];
        {
            // New strings are stored first, old ones dropped last: a reader of the old version finds its own.
            let session = std::cell::RefCell::new(&mut self.session);
            let strings = Through(&session);
            row::change(
                &table.layout,
                row,
                changes,
                new,
                &strings,
                &mut |b| {
                    let slot = session.borrow_mut().put_string(&table.store, b)?;
                    put.push(slot);
                    Ok(slot)
                },
                gone,
            )
            .map_err(error::kernel)?;
        }
        let keyed = changes.iter().any(|(c, _)| table.is_keyed(*c));
        self.session
            .update(&table.store, oid, row, new, keyed)
            .map_err(|e| self.change_error(table, e, new))?;
        for (o, n) in gone.iter() {
            self.session.drop_string(&table.store, *o, *n).map_err(error::kernel)?
        }
        Ok(())
    }
    /// The statement that began deletes rows: for that it is not refused memory.
    pub fn removes_rows(&mut self) {
        self.session.removes = true
    }
    /// Deletes a row that is locked by us; `row` is its newest bytes.
    pub fn delete(&mut self, table: &Arc<Table>, oid: Oid, row: &[u8]) -> SqlResult<()> {
        self.session.delete(&table.store, oid, row).map_err(error::kernel)?;
        let mut gone = std::mem::take(&mut self.gone);
        gone.clear();
        row::strings_of(&table.layout, row, |o, n| gone.push((o, n)));
        for (o, n) in &gone {
            self.session.drop_string(&table.store, *o, *n).map_err(error::kernel)?
        }
        self.gone = gone;
        Ok(())
    }
}

/// Strings as the running statement sees them.
impl ondol_kernel::Strings for Connection {
    fn string(&self, slot: u64, len: usize, out: &mut Vec<u8>) {
        self.read_string(slot, len, out)
    }
}

/// The session's strings while it is also written through.
struct Through<'a, 'b>(&'a std::cell::RefCell<&'b mut Session>);
impl ondol_kernel::Strings for Through<'_, '_> {
    fn string(&self, slot: u64, len: usize, out: &mut Vec<u8>) {
        let s = self.0.borrow();
        Newest(&s).string(slot, len, out)
    }
}

/// A row's values as PostgreSQL shows them in errors.
fn describe<'v>(table: &Table, values: impl Iterator<Item = ValueRef<'v>>, out: &mut String) {
    for (i, v) in values.enumerate() {
        if i > 0 {
            out.push_str(", ")
        }
        if v.is_null() {
            out.push_str("null")
        } else {
            let mut text = String::new();
            ondol_types::text::output(v, table.def.columns[i].ty, &mut text);
            if text.chars().count() > 64 {
                text = text.chars().take(64).collect::<String>() + "..."
            }
            out.push_str(&text)
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.rollback()
    }
}
