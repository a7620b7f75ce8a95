//! LOCK TABLE: a table's lock for the rest of the transaction.
//!
//! ```text
//!                            AS  RS  RE  SUE  S  SRE  E  AE
//!   ACCESS SHARE                                        x     named                  x: two transactions
//!   ROW SHARE                                       x   x     named, locks rows         cannot have both
//!   ROW EXCLUSIVE                         x   x     x   x     named, changes rows
//!   SHARE UPDATE EXCLUSIVE            x   x   x     x   x     claimed
//!   SHARE                        x    x       x     x   x     claimed with others, guarded
//!   SHARE ROW EXCLUSIVE          x    x   x   x     x   x     claimed, guarded
//!   EXCLUSIVE                x   x    x   x   x     x   x     claimed, guarded from those who lock rows, too
//!   ACCESS EXCLUSIVE     x   x   x    x   x   x     x   x     claimed, marked
//! ```
//! - **L1** What uses a table names it in its line (connection/N1), and what changes its definition claims
//!   its name and marks it. The modes are made of these.
//! - **L2** *Guards.* The modes that keep writers away and let readers in guard the table: the word in which
//!   a mark would stand says that there are guards, and a list has them. Statements say in their lines which
//!   tables they change rows of, and which they lock rows of. One that finds the word asks the list whether
//!   that is kept away, unless the transaction does so to the table already. Whoever has put the word there
//!   passes the heavy side of the barrier, and waits for those whose lines say so. So a statement pays for
//!   guards what it pays for marks: nothing where there are none.
//! - **L3** No snapshot is taken: what the transaction reads next is as new as the lock.
//! - **L4** A table is marked by who has claimed it alone, so nobody else guards it then; the guards of who
//!   has marked it are there again when the mark goes.
//! - **L5** Guards go with the claims: at the transaction's end, and when a savepoint from before them is
//!   gone back to. What lines say stays until the end.
//! - **L6** *Brakes.* The same word and list slow down those who change rows of a table that is copied
//!   (beside/B9): each of their statements waits for a moment, with nothing held but what its transaction
//!   has, and goes on.
use crate::connection::{Connection, Uses};
use crate::database::find;
use crate::definers::claims;
use crate::name::{Name, TEMPORARY};
use crate::table::Table;
use ondol_base::barrier;
use ondol_base::epoch::Line;
use ondol_base::sim::mutated;
use ondol_base::sync::Mutex;
use ondol_kernel::registry::{self, CHANGES};
use ondol_kernel::wait::SessionId;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// PostgreSQL's modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableLock {
    AccessShare,
    RowShare,
    RowExclusive,
    ShareUpdateExclusive,
    Share,
    ShareRowExclusive,
    Exclusive,
    AccessExclusive,
}

/// What stands in the word of a mark where there are guards (L2); no session has that number.
pub(crate) const GUARDED: u64 = 1 << 63;

/// What is asked of those who come to a table.
#[derive(Default)]
struct Kept {
    /// Who guards it, and whether from those who lock rows, too.
    guards: Vec<(SessionId, bool)>,
    /// How long each statement that changes rows waits (L6).
    brake: Duration,
}

/// Tables that are guarded, or have a brake.
#[derive(Default)]
pub(crate) struct Guards {
    tables: Mutex<BTreeMap<u32, Kept>>,
}

impl Guards {
    fn change(&self, table: &Table, f: impl FnOnce(&mut Kept)) {
        let mut tables = self.tables.lock();
        let kept = tables.entry(table.def.id).or_default();
        f(kept);
        let (from, to) = match kept.guards.is_empty() && kept.brake.is_zero() {
            true => (GUARDED, 0),
            false => (0, GUARDED),
        };
        if to == 0 {
            tables.remove(&table.def.id);
        }
        // A mark is ours (L4).
        if table.locked.load(Ordering::SeqCst) == from {
            table.locked.store(to, Ordering::SeqCst)
        }
    }
    fn add(&self, table: &Table, me: SessionId, strict: bool) {
        self.change(table, |kept| kept.guards.push((me, strict)))
    }
    fn remove(&self, table: &Table, me: SessionId, strict: bool) {
        self.change(table, |kept| {
            if let Some(n) = kept.guards.iter().rposition(|g| *g == (me, strict)) {
                kept.guards.remove(n);
            }
        })
    }
    /// Slows down whoever changes rows of the table; zero: no more (L6).
    pub fn set_brake(&self, table: &Table, each: Duration) {
        self.change(table, |kept| kept.brake = each)
    }
    /// How long one who changes rows of the table is to wait.
    pub fn brake(&self, table: u32) -> Duration {
        self.tables.lock().get(&table).map_or(Duration::ZERO, |kept| kept.brake)
    }
    /// Takes a mark away (L4).
    pub fn unmark(&self, table: &Table) {
        let tables = self.tables.lock();
        let word = if tables.contains_key(&table.def.id) { GUARDED } else { 0 };
        table.locked.store(word, Ordering::SeqCst)
    }
    /// Tells of each other session that keeps from the table's rows what would be done to them: bits of a
    /// line's word.
    pub fn barring(&self, table: u32, me: SessionId, does: u64, f: &mut dyn FnMut(SessionId)) {
        if does == 0 {
            return;
        }
        let barring: Vec<SessionId> = match self.tables.lock().get(&table) {
            Some(kept) => kept
                .guards
                .iter()
                .filter(|(session, strict)| *session != me && (*strict || does >> CHANGES & 1 != 0))
                .map(|(session, _)| *session)
                .collect(),
            None => return,
        };
        barring.into_iter().for_each(f)
    }
    /// Whether there is one.
    pub fn bar(&self, table: u32, me: SessionId, does: u64) -> bool {
        let mut is_barred = false;
        self.barring(table, me, does, &mut |_| is_barred = true);
        is_barred
    }
}

impl Connection {
    /// Locks the table. With `now` it waits for nobody (55P03).
    pub fn lock_table(&mut self, name: &Name, mode: TableLock, now: bool) -> SqlResult<()> {
        if !self.in_transaction() {
            return Err(SqlError::new(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                "LOCK TABLE can only be used in transaction blocks",
            ));
        }
        let patience = self.session.patience.timeout;
        if now {
            self.session.patience.timeout = Some(Duration::ZERO)
        }
        let done = self.lock_table_patiently(name, mode);
        self.session.patience.timeout = patience;
        done.map_err(|e| match now && e.sqlstate() == sqlstate::LOCK_NOT_AVAILABLE {
            true => SqlError::new(
                sqlstate::LOCK_NOT_AVAILABLE,
                format!("could not obtain lock on relation \"{}\"", name.name),
            ),
            false => e,
        })
    }

    fn lock_table_patiently(&mut self, name: &Name, mode: TableLock) -> SqlResult<()> {
        let uses = match mode {
            TableLock::RowShare => Uses::LOCKS,
            TableLock::RowExclusive => Uses::CHANGES,
            _ => Uses::READS,
        };
        if !matches!(mode, TableLock::AccessShare | TableLock::RowShare | TableLock::RowExclusive) {
            self.claim(|c| claims::lock_table(c, name, mode != TableLock::Share))?;
        }
        // What is claimed stays; what is only used may be another by the time it is named.
        loop {
            let table = find(&self.catalog(), name)?.clone();
            match mode {
                TableLock::AccessExclusive => return self.mark(&table),
                TableLock::Share | TableLock::ShareRowExclusive => return self.guard(&table, false),
                TableLock::Exclusive => return self.guard(&table, true),
                _ => {}
            }
            let before = self.enter_tables(std::slice::from_ref(&table), uses);
            barrier::light();
            let l = table.locked.load(Ordering::SeqCst);
            let is_other = !find(&self.catalog(), name).is_ok_and(|t| Arc::ptr_eq(t, &table));
            let is_free = l == 0 || l == self.session.id() || !self.is_barred(&table, l, uses.of(0), before);
            if is_free && !is_other {
                return Ok(());
            }
            self.withdraw_tables(before);
            if !is_free {
                self.wait_unlocked(&table, uses.of(0))?
            }
        }
    }

    /// Keeps from the table, which is claimed, whoever would change rows, with `strict` or lock some (L2).
    pub(crate) fn guard(&mut self, table: &Arc<Table>, strict: bool) -> SqlResult<()> {
        let (id, name) = (table.def.id, table.name());
        let has = self.guards.iter().any(|(t, s)| t.def.id == id && (*s || !strict));
        if has || table.def.schema == TEMPORARY {
            return Ok(());
        }
        self.db.guards.add(table, self.session.id(), strict);
        self.guards.push((table.clone(), strict));
        if mutated("guards_unwaited") {
            return Ok(());
        }
        let uses = move |l: &Line| registry::changes(l, strict, |n| registry::same_table(n, name));
        self.wait_for_lines(table, uses).inspect_err(|_| {
            self.unguard(self.guards.len() - 1);
            self.tell_definers()
        })
    }

    /// Lets writers to the tables that were guarded when so many were, and later; the caller tells.
    pub(crate) fn unguard(&mut self, from: usize) {
        let me = self.session.id();
        for (table, strict) in self.guards.drain(from..) {
            self.db.guards.remove(&table, me, strict)
        }
    }
}
