//! What is known from elsewhere of what connections do: who waits for whom, what their transactions use, and
//! advisory locks. All of it is of the moment when it was looked at, and costs nothing those who are looked
//! at.
use crate::Connection;
use crate::advisory::Number;
use crate::database::Database;
use ondol_base::park::Parker;
use ondol_kernel::registry::{CHANGES, FIRST_TABLE, IDLE, LOCKS, TABLE_COUNT, TABLES};
use ondol_kernel::transaction::{LockMode, session_of};
use ondol_kernel::wait::SessionId;
use ondol_types::SqlResult;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How a connection is known: by its session, and by what the numbers of its transactions begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Known {
    pub session: SessionId,
    pub transactions: u64,
}

/// What a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A row, to lock it so.
    Row(LockMode),
    /// Whether another transaction keeps a key that would be there twice.
    Key,
    /// A definition, a table's lock or an advisory lock.
    Other,
}

/// One who waits.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub session: SessionId,
    pub awaited: Awaited,
    /// Those who are in its way, or go before it.
    pub blockers: Vec<SessionId>,
    /// With what the number of the transaction begins that has the row ([`Known::transactions`]).
    pub owner: Option<u64>,
}

/// What a transaction does with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableUse {
    pub session: SessionId,
    pub table: u32,
    pub changes: bool,
    pub locks: bool,
}

/// An advisory lock that a session has, or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advised {
    pub session: SessionId,
    pub number: Number,
    pub alone: bool,
    pub granted: bool,
}

impl Database {
    /// All who wait for other sessions.
    pub fn waiting(&self) -> Vec<Waiting> {
        let stuck = self.kernel.waits.stuck().into_iter();
        let one = |s: ondol_kernel::wait::Stuck| Waiting {
            session: s.session,
            awaited: match s.row {
                Some((_, Some(mode))) => Awaited::Row(mode),
                Some((_, None)) => Awaited::Key,
                None => Awaited::Other,
            },
            blockers: s.blockers,
            owner: s.owner.map(|txn| txn >> 32),
        };
        stuck.map(one).collect()
    }
    /// The tables that open transactions use. One that uses more than a line names has those that are named.
    pub fn table_uses(&self) -> Vec<TableUse> {
        let mut all = vec![];
        self.kernel.epochs.for_each(|line| {
            let word = line.words[TABLE_COUNT].load(Ordering::Acquire);
            if word == IDLE {
                return;
            }
            let named = (word as u32 as usize).min(TABLES);
            for (i, name) in line.words[FIRST_TABLE..FIRST_TABLE + named].iter().enumerate() {
                all.push(TableUse {
                    session: session_of(line),
                    table: name.load(Ordering::Acquire) as u32,
                    changes: word >> CHANGES >> i & 1 != 0,
                    locks: word >> LOCKS >> i & 1 != 0,
                })
            }
        });
        all
    }
    pub fn advisory_locks(&self) -> Vec<Advised> {
        let mut all = vec![];
        self.advisory.each(&mut |a| all.push(a));
        all
    }
}

impl Connection {
    pub fn known(&self) -> Known {
        Known { session: self.session.id(), transactions: self.session.number() & 0xfff_ffff }
    }
    /// Does nothing for so long, unless it is cancelled.
    pub fn sleep(&self, time: Duration) -> SqlResult<()> {
        let parker: &Arc<Parker> = self.session.parker();
        let until = ondol_base::clock::now() + time;
        loop {
            self.session.patience.look().map_err(crate::error::kernel)?;
            // Whoever unparks it may have meant something that is over.
            if !parker.park(Some(until)) {
                return Ok(());
            }
        }
    }
}
