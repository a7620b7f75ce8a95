//! A connection's transaction, begun and ended, with its savepoints. Outside an explicit transaction each
//! statement is one (see `statement`).
use super::foreign::Modes;
use super::{Access, Connection, Isolation, Statement, Token};
use crate::draft::Draft;
use crate::error;
use ondol_kernel::transaction::Savepoint;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::Arc;

pub(super) struct Explicit {
    pub(super) isolation: Isolation,
    pub(super) access: Access,
    pub(super) failed: bool,
    /// The snapshot of the whole transaction is taken.
    started: bool,
    /// The dictionary before that.
    pub(super) catalog: u64,
    pub(super) savepoints: Vec<Mark>,
    time_us: i64,
    /// It is one statement's.
    alone: bool,
}

impl Explicit {
    /// Whether something may yet be written: also what is read-only since a savepoint is not once that is
    /// gone back to.
    pub(super) fn may_write(&self) -> bool {
        self.access == Access::ReadWrite || self.savepoints.iter().any(|s| s.access == Access::ReadWrite)
    }
}

/// A savepoint, and the transaction's state when it was set.
#[derive(Clone)]
pub(super) struct Mark {
    name: String,
    pub(super) savepoint: Savepoint,
    definitions: Definitions,
    keys: (usize, Modes),
    access: Access,
}

/// How far definitions were changed, for savepoints.
#[derive(Clone, Default)]
pub(super) struct Definitions {
    draft: Option<Arc<Draft>>,
    dropped: usize,
    made: usize,
    marked: usize,
    counters: [usize; 3],
    claims: usize,
    advice: usize,
    announced: usize,
    guards: usize,
}

impl Connection {
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
            alone: false,
        });
        Ok(())
    }
    /// The same at READ COMMITTED for one statement, which changes definitions in several steps and is a
    /// transaction by itself for who uses the connection.
    pub fn begin_alone(&mut self) -> SqlResult<()> {
        self.begin(Isolation::ReadCommitted, Access::ReadWrite)?;
        self.explicit.iter_mut().for_each(|e| e.alone = true);
        Ok(())
    }
    /// Whether the statement that runs is a transaction by itself.
    pub(crate) fn is_alone(&self) -> bool {
        self.explicit.as_ref().is_none_or(|e| e.alone)
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
    /// Whether it can still be said that the open transaction is DEFERRABLE, or not.
    pub fn may_defer(&self) -> SqlResult<()> {
        let Some(e) = &self.explicit else { return Ok(()) };
        let when = match (e.savepoints.is_empty(), e.started) {
            (false, _) => "cannot be called within a subtransaction",
            (true, true) => "must be called before any query",
            (true, false) => return Ok(()),
        };
        let message = format!("SET TRANSACTION [NOT] DEFERRABLE {when}");
        Err(SqlError::new(sqlstate::ACTIVE_SQL_TRANSACTION, message))
    }
    #[inline]
    pub fn in_transaction(&self) -> bool {
        self.explicit.is_some()
    }
    pub fn transaction_isolation(&self) -> Option<Isolation> {
        self.explicit.as_ref().map(|e| e.isolation)
    }
    /// How many savepoints are set.
    pub(crate) fn savepoints(&self) -> usize {
        self.explicit.as_ref().map_or(0, |e| e.savepoints.len())
    }
    pub fn transaction_access(&self) -> Option<Access> {
        self.explicit.as_ref().map(|e| e.access)
    }
    /// An explicit transaction in which a statement failed: only ROLLBACK [TO] is taken.
    #[inline]
    pub fn is_failed(&self) -> bool {
        self.explicit.as_ref().is_some_and(|e| e.failed)
    }
    /// Fails the explicit transaction: for errors outside a statement's run (a name that is not there). What
    /// it did is undone at once as far as that is certain already, all of it or back to the newest savepoint,
    /// so that nobody waits for its rows and keys any more.
    pub fn fail(&mut self) {
        let Some(e) = &mut self.explicit else { return };
        if std::mem::replace(&mut e.failed, true) {
            return;
        }
        match e.savepoints.last().cloned() {
            Some(mark) => {
                // If the log takes no more, the differences stay until the whole transaction is rolled back,
                // and so does what was changed of definitions.
                if !self.session.is_open() || self.session.rollback_to(mark.savepoint).is_ok() {
                    self.restore(&mark.definitions)
                }
                self.keys.restore(mark.keys);
                self.portals.close_from(self.savepoints())
            }
            None => self.undo_all(),
        }
    }
    pub(super) fn start_explicit(&mut self) -> SqlResult<()> {
        let Some(e) = &mut self.explicit else { return Ok(()) };
        let first = !e.started;
        e.started = true;
        if first {
            e.catalog = self.db.version()
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
    /// Ends the explicit transaction; durable when this returns unless `set_synchronous(false)`. A failed one
    /// rolls back and gives `Ok(None)`, as does one that wrote nothing.
    pub fn commit(&mut self) -> SqlResult<Option<Token>> {
        let Some(e) = &self.explicit else { return Ok(None) };
        if e.failed {
            self.rollback();
            return Ok(None);
        }
        debug_assert!(self.session.is_open() || !e.started || !e.may_write());
        let late = ondol_base::sim::mutated("deferred_after_timestamp");
        if self.has_deferred()
            && !late
            && let Err(e) = self.settle_deferred(true)
        {
            self.rollback();
            return Err(e);
        }
        let read_write = self.session.is_open();
        let seen = self.session.seen();
        self.explicit = None;
        self.portals.close_all();
        self.session.view.twins = false;
        let token = self.finish()?;
        if token.is_none() {
            if read_write {
                self.promise(seen)?
            }
            self.cover()?
        }
        Ok(token)
    }
    /// What a transaction without a commit of its own saw is a promise now: it may rest on commits that are
    /// not durable yet.
    pub(super) fn promise(&mut self, seen: u64) -> SqlResult<()> {
        if !self.synchronous {
            return Ok(());
        }
        let c = seen.min(self.db.kernel.log.clock() - 1);
        self.wait_or_owe(c).map_err(error::kernel)
    }
    pub(super) fn wait_or_owe(&mut self, c: u64) -> ondol_kernel::Result<()> {
        match &mut self.owed {
            Some(owed) => {
                *owed = c.max(*owed);
                Ok(())
            }
            None => self.wait_for_own(c),
        }
    }
    /// What was given is durable after this, if commits are, or soon; or what is owed covers it.
    pub(crate) fn wait_or_hold(&mut self, c: u64) -> SqlResult<()> {
        if !self.synchronous {
            self.db.kernel.log.hold(c);
            return Ok(());
        }
        self.wait_or_owe(c).map_err(error::kernel)
    }
    /// Waits until what this connection did, or was shown, is durable. If it cannot be, that is told once.
    fn wait_for_own(&mut self, c: u64) -> ondol_kernel::Result<()> {
        self.session.wait_durable(c).inspect_err(|_| self.session.forget_undurable())
    }
    /// Before a snapshot of what is visible: what transactions of this connection were shown is durable by
    /// then, or rests on the token of what is held (kernel: transaction/T4).
    #[cold]
    pub(super) fn stand_on_shown(&mut self) {
        let c = self.session.shown();
        if self.wait_or_owe(c).is_ok() {
            self.session.stand_on(c)
        }
    }
    /// From now on commits that should wait for durability do not; nor are they acknowledged, so that no
    /// reader sees them before they are durable. [`Connection::settle`] waits for all of them,
    /// [`Connection::hold`] for none. Whether this is new: otherwise whoever began it ends it.
    pub fn defer(&mut self) -> bool {
        let new = self.owed.is_none();
        self.owed.get_or_insert(0);
        new
    }
    /// Ends what [`Connection::defer`] began, without waiting.
    pub fn hold(&mut self) {
        self.held = self.held.max(self.owed.take().unwrap_or(0));
        if self.held_token().is_some() {
            self.session.hold(self.held)
        }
    }
    /// What is to be durable before anything is told that was done while commits were deferred
    /// (connection/N3); `None`: it is.
    pub fn held_token(&mut self) -> Option<Token> {
        let newest = self.held.max(self.owed.unwrap_or(0));
        (newest > self.db.durable_ts()).then_some(Token(newest))
    }
    /// Waits until what was held is durable, unless commits are deferred again (connection/N3).
    #[inline]
    pub fn rest(&mut self) -> SqlResult<()> {
        if self.must_rest() { self.rest_of_held() } else { Ok(()) }
    }
    /// Whether [`Connection::rest`] may have to wait.
    #[inline]
    pub fn must_rest(&self) -> bool {
        self.held != 0 && self.owed.is_none()
    }
    #[cold]
    fn rest_of_held(&mut self) -> SqlResult<()> {
        let held = std::mem::take(&mut self.held);
        self.wait_for_own(held).map_err(error::kernel)
    }
    /// Waits until everything that [`Connection::defer`] put off is durable.
    pub fn settle(&mut self) -> SqlResult<()> {
        match self.owed.take() {
            None | Some(0) => Ok(()),
            Some(c) => self.wait_for_own(c).map_err(error::kernel),
        }
    }
    /// Commits the kernel's transaction, publishes definitions, waits for durability.
    pub(super) fn finish(&mut self) -> SqlResult<Option<Token>> {
        if let Err(e) = self.act_on_commit() {
            self.undo_all();
            return Err(e);
        }
        let committed = self.session.commit();
        self.keys.clear();
        self.session.unpublish();
        self.leave_tables();
        if ondol_base::sim::mutated("claims_let_go_early") {
            self.let_go_of_claims(0);
            self.tell_definers()
        }
        match committed {
            Ok(c) => {
                let wait = match c {
                    // What all sessions go by is durable before they do.
                    Some(c) if self.draft.as_ref().is_some_and(|d| d.concerns_others()) => {
                        self.wait_for_own(c)
                    }
                    Some(c) if self.synchronous => self.wait_or_owe(c),
                    Some(c) => {
                        self.session.acknowledge_async(c);
                        Ok(())
                    }
                    None => Ok(()),
                };
                // beside/B4: it may not be durable ever, and readers are never as new as it then.
                self.end_definitions(wait.is_ok() || !self.copied);
                self.end_advice(0);
                if c.is_some() && wait.is_ok() {
                    self.covered_by_commit()
                }
                wait.map_err(error::kernel)?;
                Ok(c.map(Token))
            }
            Err(e) => {
                self.end_definitions(false);
                self.end_advice(0);
                Err(error::kernel(e))
            }
        }
    }
    pub fn rollback(&mut self) {
        self.explicit = None;
        self.session.view.twins = false;
        self.statement = Statement::None;
        self.undo_all()
    }
    fn undo_all(&mut self) {
        self.portals.close_all();
        self.keys.clear();
        self.session.abort();
        self.session.unpublish();
        self.leave_tables();
        self.end_definitions(false);
        self.end_advice(0);
    }
    pub(super) fn definitions(&self) -> Definitions {
        Definitions {
            draft: self.draft.clone(),
            dropped: self.dropped.len(),
            made: self.made.len(),
            marked: self.marked.len(),
            counters: self.counters.counts(),
            claims: self.claims.len(),
            advice: self.advice.len(),
            announced: self.announced.len(),
            guards: self.guards.len(),
        }
    }
    /// Goes back to what was changed of definitions then; the rows of the dictionary are as they were.
    fn restore(&mut self, d: &Definitions) {
        self.end_advice(d.advice);
        if !self.defining {
            return;
        }
        if !ondol_base::sim::mutated("draft_kept") {
            self.set_draft(d.draft.clone());
            // Heaps made since are empty again or never named; they go with the transaction.
            self.orphans.extend(self.made.drain(d.made..));
        }
        self.dropped.truncate(d.dropped);
        self.restore_counters(d.counters);
        self.withdraw_keys(d.announced);
        self.unmark(d.marked);
        self.unguard(d.guards);
        self.let_go_of_claims(d.claims);
        self.tell_definers()
    }
    pub fn savepoint(&mut self, name: &str) -> SqlResult<()> {
        let access = self.open_transaction("SAVEPOINT")?.access;
        let definitions = self.definitions();
        // It is no query: a transaction that has not begun to read takes its snapshot later.
        let savepoint = if self.session.is_open() { self.session.savepoint() } else { Savepoint::default() };
        let mark = Mark { name: name.to_string(), savepoint, definitions, keys: self.keys.mark(), access };
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
        self.portals.release(i);
        Ok(())
    }
    pub fn rollback_to_savepoint(&mut self, name: &str) -> SqlResult<()> {
        let i = self.find_savepoint(name, "ROLLBACK TO SAVEPOINT")?;
        let e = self.explicit.as_mut().expect("found");
        e.savepoints.truncate(i + 1);
        e.failed = false;
        let mark = e.savepoints[i].clone();
        e.access = mark.access;
        self.portals.close_from(i + 1);
        if self.session.is_open()
            && let Err(e) = self.session.rollback_to(mark.savepoint)
        {
            // The log took no more: only a full rollback is left.
            self.explicit.as_mut().expect("found").failed = true;
            return Err(error::kernel(e));
        }
        self.keys.restore(mark.keys);
        self.restore(&mark.definitions);
        Ok(())
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

pub(super) fn failed() -> SqlError {
    SqlError::new(
        sqlstate::IN_FAILED_SQL_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

/// µs from 2000-01-01 UTC.
fn now_us() -> i64 {
    ondol_base::clock::wall_us() - 946_684_800_000_000
}
