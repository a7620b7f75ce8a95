//! LOCK TABLE: a table's lock for the rest of the transaction.
//!
//! - **L1** What uses a table names it in its line (connection/N1), and what changes its definition claims
//!   its name and marks it. The modes are made of these: those that only ACCESS EXCLUSIVE is in the way of
//!   (ACCESS SHARE, ROW SHARE, ROW EXCLUSIVE) name the table; SHARE UPDATE EXCLUSIVE, which is in its own way
//!   and in that of CREATE INDEX, claims it as well; ACCESS EXCLUSIVE claims and marks it.
//! - **L2** The modes that keep writers away and let readers in (SHARE, SHARE ROW EXCLUSIVE, EXCLUSIVE) are
//!   not there: a line does not tell who writes.
//! - **L3** No snapshot is taken: what the transaction reads next is as new as the lock.
use crate::connection::Connection;
use crate::database::find;
use crate::definers::claims;
use crate::name::Name;
use ondol_base::barrier;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The modes that there are (L2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableLock {
    /// ACCESS SHARE, ROW SHARE and ROW EXCLUSIVE.
    Use,
    /// SHARE UPDATE EXCLUSIVE.
    Update,
    /// ACCESS EXCLUSIVE.
    Exclusive,
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
        if mode != TableLock::Use {
            self.claim(|c| claims::change_table(c, name))?;
        }
        // What is claimed stays; what is only used may be another by the time it is named.
        loop {
            let table = find(&self.catalog(), name)?.clone();
            if mode == TableLock::Exclusive {
                return self.mark(&table);
            }
            let before = self.enter_tables(std::slice::from_ref(&table));
            barrier::light();
            let marked = table.locked.load(Ordering::SeqCst);
            let is_other = !find(&self.catalog(), name).is_ok_and(|t| std::sync::Arc::ptr_eq(t, &table));
            let is_free = marked == 0 || marked == self.session.id() || self.used_before(&table, before);
            if is_free && !is_other {
                return Ok(());
            }
            self.withdraw_tables(before);
            if !is_free {
                self.wait_unlocked(&table)?
            }
        }
    }
}
