//! A statement of a connection: what it announces, its snapshot, its end (connection/N1).
//!
//! ```text
//! start_statement -> rows are read, locked, changed -> end_statement | abort_statement
//! ```
//! Two kinds of statements are done in one call, as their own transactions: one that reads a row by its key
//! ([`Connection::glance`]), and one that changes such a row ([`Connection::assign`]).
use super::transaction::failed;
use super::{Access, Connection, Isolation, Token};
use crate::error;
use crate::loan::{self, Loan};
use crate::patch::{Bits, Patch};
use crate::point::{Numbers, PointIndex};
use crate::table::Table;
use crate::table_lock::GUARDED;
use ondol_base::barrier;
use ondol_base::clock;
use ondol_base::epoch::Guard;
use ondol_base::sim::mutated;
use ondol_kernel::registry::{self, CHANGES, FIRST_TABLE, IDLE, LOCKS, TABLE_COUNT, TABLES};
use ondol_kernel::transaction::Savepoint;
use ondol_kernel::wait::{Blockers, SessionId};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// SQLSTATE-like marker of a plan made for an older dictionary; never reaches a user.
pub const STALE: &str = "ONSTL";

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Statement {
    None,
    Read,
    Write,
}

/// What a statement does to rows of its tables, beside reading them (table_lock/L2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses(u32);

impl Uses {
    /// It only reads.
    pub const READS: Uses = Uses(0);
    /// It changes rows of any of them.
    pub const CHANGES: Uses = Uses(0xffff);
    /// It locks rows of any of them.
    pub const LOCKS: Uses = Uses(0xffff << 16);
    /// Bits of each kind; the last one is for all tables behind.
    const MOST: usize = 15;

    /// It changes rows of its table of that number as well, or locks some.
    pub fn and(self, table: usize, changes: bool) -> Uses {
        Uses(self.0 | 1 << (table.min(Uses::MOST) + if changes { 0 } else { 16 }))
    }
    pub fn or(self, other: Uses) -> Uses {
        Uses(self.0 | other.0)
    }
    /// What it does to rows of its table of that number: whether it changes some, and whether it locks some.
    pub fn at(self, table: usize) -> (bool, bool) {
        let bits = self.0 >> table.min(Uses::MOST);
        (bits & 1 != 0, bits >> 16 & 1 != 0)
    }
    /// What it does to rows of its table of that number, as bits of a line's word.
    #[inline(always)]
    pub(crate) fn of(self, table: usize) -> u64 {
        let bits = u64::from(self.0 >> table.min(Uses::MOST));
        (bits & 1) << CHANGES | (bits >> 16 & 1) << LOCKS
    }
}

/// One that writes may change rows of any of its tables.
impl From<bool> for Uses {
    fn from(writes: bool) -> Uses {
        if writes { Uses::CHANGES } else { Uses::READS }
    }
}

/// Outside an explicit transaction each statement is one: `start_statement` begins it and `end_statement`
/// commits it (or `abort_statement` rolls it back).
impl Connection {
    /// Begins a statement: takes its snapshot and announces the tables it uses, so that DDL waits for it.
    /// Fails with a retryable [`STALE`] error when `catalog_version` is no longer the catalog's: plan again.
    #[inline]
    pub fn start_statement(
        &mut self,
        catalog_version: u64,
        tables: &[Arc<Table>],
        uses: impl Into<Uses>,
    ) -> SqlResult<()> {
        let uses: Uses = uses.into();
        let writes = uses != Uses::READS;
        debug_assert!(self.statement == Statement::None);
        debug_assert!(!self.must_rest(), "connection/N3");
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
        if self.session.shown() != 0 && self.explicit.as_ref().map_or(!writes, |e| !e.may_write()) {
            self.stand_on_shown()
        }
        // connection/N1: announced before the snapshot's barrier, or before one of their own where no
        // snapshot is taken.
        let announced = self.enter_tables(tables, uses);
        if self.explicit.is_some() {
            self.start_explicit()?;
            if self.session.is_open() {
                self.begin_command()
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
        // The marks first: who changes a definition publishes the new dictionary before it takes its marks
        // away.
        let busy = tables.iter().enumerate().find(|(n, t)| {
            let l = t.locked.load(Ordering::SeqCst);
            l != 0 && l != self.session.id() && self.is_barred(t, l, uses.of(*n), announced)
        });
        ondol_base::sync::yield_point();
        let stale = !self.is_current(catalog_version);
        if stale || busy.is_some() {
            let busy = busy.map(|(n, t)| (t.clone(), uses.of(n)));
            self.withdraw_tables(announced);
            if self.explicit.is_none() {
                self.session.abort();
                self.session.unpublish()
            }
            if let Some((t, does)) = busy {
                self.wait_unlocked(&t, does)?
            }
            return Err(SqlError::new(STALE, "the dictionary has changed"));
        }
        // Rows that an index has always kept apart may have been equal at a snapshot that is older than the
        // index.
        if let Some(e) = &self.explicit
            && e.isolation != Isolation::ReadCommitted
            && e.catalog != catalog_version
        {
            // beside/B4
            if tables.iter().any(|t| t.store.rows.since() > self.session.view.snapshot) {
                self.withdraw_tables(announced);
                self.fail();
                return Err(error::kernel(ondol_kernel::Error::Conflict));
            }
            self.session.view.twins = true
        }
        self.statement = if writes { Statement::Write } else { Statement::Read };
        Ok(())
    }
    #[inline(always)]
    fn begin_command(&mut self) {
        self.session.next_command();
        let last = self.explicit.as_ref().and_then(|e| e.savepoints.last());
        let last = last.map_or_else(Savepoint::default, |s| s.savepoint);
        self.session.may_roll_back_to(last.max(self.portals.newest()));
        // What the statement changes is not put into what was changed before.
        self.session.savepoint();
    }
    /// Begins to read for what a statement of the explicit transaction has left open, or to lock what it
    /// reads (portal/P3, portal/P5).
    pub(crate) fn start_reading(&mut self, locks: bool) -> SqlResult<()> {
        debug_assert!(self.statement == Statement::None);
        debug_assert!(!self.must_rest(), "connection/N3");
        if self.is_failed() {
            return Err(failed());
        }
        self.session.removes = false;
        self.statement = if locks { Statement::Write } else { Statement::Read };
        if locks && self.session.is_open() {
            self.begin_command()
        }
        Ok(())
    }
    /// Runs `f` as a command nested in the running statement, of which it sees what it has changed so far:
    /// that of a volatile function. Afterwards the statement sees what it saw before.
    pub fn nested_command<R>(&mut self, f: impl FnOnce(&mut Connection) -> R) -> R {
        let outer = self.session.enter_command();
        let done = f(self);
        self.session.leave_command(outer);
        done
    }
    /// Runs `f` as a statement of its own that reads one table, outside a transaction: what `start_statement`
    /// and `end_statement` do, with one barrier for the announcement, the snapshot and the pin together
    /// (connection/N1). `None` if the dictionary is no longer that of `catalog_version`, the table is being
    /// changed, or the snapshot has to be waited for: nothing was done, and `start_statement` tells what to
    /// do.
    #[inline]
    pub fn glance<R>(
        &mut self,
        catalog_version: u64,
        table: &Table,
        f: impl FnOnce(&Connection, &Guard<'_>) -> R,
    ) -> Option<R> {
        debug_assert!(self.statement == Statement::None && self.explicit.is_none());
        debug_assert!(!self.must_rest(), "connection/N3");
        if self.session.shown() != 0 {
            return None;
        }
        let words = &self.session.participant().line().words;
        words[FIRST_TABLE].store(table.name(), Ordering::Release);
        words[TABLE_COUNT].store(1, Ordering::Release);
        let pin = loop {
            self.session.offer_visible();
            // The first pin, as nobody holds one of a connection that is borrowed alone: so it passes the
            // barrier.
            let pin = self.session.pin();
            if self.session.is_taken() {
                break pin;
            }
        };
        // The mark first, as in `start_statement`.
        let busy = table.locked.load(Ordering::SeqCst) != 0;
        ondol_base::sync::yield_point();
        if busy || !self.is_current(catalog_version) {
            drop(pin);
            self.turned_away();
            return None;
        }
        let done = f(self, &pin);
        drop(pin);
        self.session.unpublish();
        self.leave_tables();
        Some(done)
    }
    /// Ends what `glance` began and may not go on with.
    #[cold]
    fn turned_away(&mut self) {
        self.session.unpublish();
        self.leave_tables()
    }
    /// Sets columns of the row that has the key made of `key`, as a statement and transaction of its own at
    /// READ COMMITTED: what `start_statement`, the lookup, `lock`, `update` and `end_statement` do for the
    /// case in which nothing is out of the ordinary. `None` where something is (no such row, or one that is
    /// owned; a NULL that may not be; a value that changes nothing; another dictionary than that of
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
        words[TABLE_COUNT].store(1 | 1 << CHANGES, Ordering::Release);
        let mut row = std::mem::take(&mut self.row);
        row.resize(table.layout.row_size, 0);
        let (db, draft) = (&self.db, &self.draft);
        let done = self.session.write_one(&table.store, |session, pin, pieces| {
            // connection/N1: the pin has passed the barrier for the announcement, since nobody holds another
            // of a connection that is borrowed alone. The mark first, as in `start_statement`.
            let busy = table.locked.load(Ordering::SeqCst) != 0;
            ondol_base::sync::yield_point();
            if busy || draft.is_some() || db.version() != catalog_version {
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
    /// Waits until nobody changes the table's definition, or keeps away what would be done to its rows.
    pub(crate) fn wait_unlocked(&mut self, table: &Arc<Table>, does: u64) -> SqlResult<()> {
        let (db, theirs, me) = (self.db.clone(), table.clone(), self.session.id());
        let blockers = move |f: &mut dyn FnMut(SessionId)| match theirs.locked.load(Ordering::SeqCst) {
            0 => {}
            GUARDED => db.guards.barring(theirs.def.id, me, does, f),
            definer => f(definer),
        };
        let over = || match table.locked.load(Ordering::SeqCst) {
            0 => true,
            GUARDED => !self.db.guards.bar(table.def.id, me, does),
            _ => false,
        };
        self.wait_for_definition(Box::new(blockers), None, over).map_err(|e| {
            self.fail();
            e.detail(format!(
                "The statement waited for another transaction that changes the definition of table \"{}\", or \
                 has locked it.",
                table.def.name
            ))
        })
    }
    /// Waits for what data definition waits for, or what waits for it, as for a row's lock. Without `poll`
    /// whoever ends that tells so.
    pub(crate) fn wait_for_definition(
        &self,
        blockers: Box<Blockers>,
        poll: Option<Duration>,
        over: impl FnMut() -> bool,
    ) -> SqlResult<()> {
        self.db.kernel.waits.wait(&self.session.waiter(), blockers, poll, over).map_err(error::kernel)
    }
    /// Names tables in our line, and what is done to their rows; gives what the line's word said before.
    #[inline]
    pub(crate) fn enter_tables(&mut self, tables: &[Arc<Table>], uses: Uses) -> u64 {
        let words = &self.session.participant().line().words;
        let before = match words[TABLE_COUNT].load(Ordering::Relaxed) {
            IDLE => 0,
            n => n,
        };
        let (mut n, mut does) = (before as u32 as usize, before >> CHANGES << CHANGES);
        for (i, t) in tables.iter().enumerate() {
            let name = t.name();
            let named = &words[FIRST_TABLE..FIRST_TABLE + n.min(TABLES)];
            let known = named.iter().position(|w| w.load(Ordering::Relaxed) == name);
            if uses != Uses::READS {
                does |= uses.of(i) << known.unwrap_or(n.min(TABLES))
            }
            if known.is_some() || n > TABLES {
                continue;
            }
            if n < TABLES {
                // Release: whoever finds another name here knows what was done under the one before.
                words[FIRST_TABLE + n].store(name, Ordering::Release);
            }
            n += 1;
        }
        words[TABLE_COUNT].store(n as u64 | does, Ordering::Release);
        before
    }
    /// Whether an earlier statement of the transaction uses the table: then whoever changes its definition
    /// waits for us.
    #[cold]
    pub(crate) fn used_before(&self, table: &Table, announced: u64) -> bool {
        let words = &self.session.participant().line().words;
        let named = &words[FIRST_TABLE..FIRST_TABLE + TABLES.min(announced as u32 as usize)];
        named.iter().any(|w| registry::same_table(w.load(Ordering::Relaxed), table.name()))
    }
    /// Whether a table that is marked or guarded by `l` is kept from who would do that to its rows, and had
    /// announced so much before.
    #[cold]
    pub(crate) fn is_barred(&self, table: &Table, l: u64, does: u64, announced: u64) -> bool {
        if l != GUARDED {
            return !self.used_before(table, announced);
        }
        if mutated("guards_unseen") {
            return false;
        }
        let words = &self.session.participant().line().words;
        let named = &words[FIRST_TABLE..FIRST_TABLE + TABLES.min(announced as u32 as usize)];
        // Whoever locks the table waits for what is done already.
        let mut before = named
            .iter()
            .enumerate()
            .filter(|(_, w)| registry::same_table(w.load(Ordering::Relaxed), table.name()));
        let changes = 1 << CHANGES;
        let enough = if does & changes != 0 { changes } else { changes | 1 << LOCKS };
        let is_at_it = before.any(|(i, _)| announced >> i & enough != 0);
        if does & changes != 0 {
            self.brake(table.def.id)
        }
        !is_at_it && self.db.guards.bar(table.def.id, self.session.id(), does)
    }
    /// table_lock/L6
    fn brake(&self, table: u32) {
        let each = self.db.guards.brake(table);
        if !each.is_zero() {
            let until = clock::now() + each;
            registry::assert_parkable(self.session.participant());
            // Whoever tells it something else is heard when it looks.
            while self.session.waiter().parker.park(Some(until)) && clock::now() < until {}
        }
    }
    #[inline]
    pub(crate) fn withdraw_tables(&self, to: u64) {
        self.session.participant().line().words[TABLE_COUNT].store(to, Ordering::Release)
    }
    #[inline]
    pub(super) fn leave_tables(&self) {
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
    /// The same of a writing statement, whose transaction is lent, too: [`Loan::inserter`]. An error is the
    /// log's, before `f` was called, or when what was inserted is taken over; then the transaction can only
    /// be aborted.
    pub fn lend_writing<R>(&mut self, f: impl FnOnce(&Loan) -> R) -> SqlResult<R> {
        debug_assert!(self.statement == Statement::Write);
        loan::lend_writing(&self.db, &mut self.session, f)
    }
    /// The statement succeeded, if its foreign keys hold. Outside an explicit transaction this commits.
    #[inline]
    pub fn end_statement(&mut self) -> SqlResult<Option<Token>> {
        if self.keys.is_due()
            && let Err(e) = self.settle_plainly()
        {
            self.abort_statement();
            return Err(e);
        }
        let was = std::mem::replace(&mut self.statement, Statement::None);
        if self.explicit.is_some() {
            // sequence/S3
            if was == Statement::Read {
                self.cover()?
            }
            return Ok(None);
        }
        match was {
            Statement::Write => {
                let seen = self.session.seen();
                let token = self.finish()?;
                if token.is_none() {
                    self.promise(seen)?;
                    self.cover()?
                }
                Ok(token)
            }
            _ => {
                self.session.unpublish();
                self.leave_tables();
                self.end_advice(0);
                self.cover()?;
                Ok(None)
            }
        }
    }
    /// The statement failed: its effects are undone; an explicit transaction is failed from now on.
    pub fn abort_statement(&mut self) {
        self.statement = Statement::None;
        self.keys.drop_statement();
        if self.explicit.is_none() {
            self.rollback();
            return;
        }
        self.fail()
    }
}
