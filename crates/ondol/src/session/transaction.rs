//! Transactions that end with their scope.
//!
//! - **G1** A [`Transaction`] that is dropped without having been committed rolls back, a [`Savepoint`] that
//!   was not released too: an early return, `?` and a panic leave nothing behind.
//! - **G2** A guard ends only what it began. What was begun is numbered; when a statement (`COMMIT`) ended it
//!   meanwhile, the guard's own end is an error, and its drop does nothing.
//! - **G3** A savepoint that cannot be gone back to when its guard is dropped fails the transaction: nothing
//!   of what it was to undo is committed.
use crate::session::Session;
use ondol_engine::{Access, Isolation, Token};
use ondol_sql::bound::Modes;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::ops::{Deref, DerefMut};

/// How a transaction is begun; what is not said is as the session's settings have it
/// (`default_transaction_isolation`, `default_transaction_read_only`).
#[derive(Clone, Copy, Debug, Default)]
pub struct TransactionOptions {
    isolation: Option<Isolation>,
    access: Option<Access>,
}

impl TransactionOptions {
    pub fn new() -> TransactionOptions {
        TransactionOptions::default()
    }
    pub fn isolation(mut self, level: Isolation) -> Self {
        self.isolation = Some(level);
        self
    }
    pub fn read_only(mut self, yes: bool) -> Self {
        self.access = Some(if yes { Access::ReadOnly } else { Access::ReadWrite });
        self
    }
}

/// A transaction of a session, which is used through it: all calls of [`Session`] are its calls. Dropped, it
/// rolls back.
#[derive(Debug)]
pub struct Transaction<'s> {
    session: &'s mut Session,
    number: u64,
}

/// A part of a transaction that can be undone by itself. Dropped, it is.
#[derive(Debug)]
pub struct Savepoint<'t> {
    session: &'t mut Session,
    number: u64,
    name: String,
    released: bool,
}

impl Session {
    /// Begins a transaction, with the session's defaults; it rolls back unless it is committed.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let db = ondol::Database::open(folder.path())?;
    /// # let mut session = db.session();
    /// use ondol::params;
    /// session.execute("CREATE TABLE account (id integer PRIMARY KEY, balance integer)")?;
    /// session.execute("INSERT INTO account VALUES (1, 100), (2, 0)")?;
    ///
    /// fn pay(session: &mut ondol::Session, from: i32, to: i32, amount: i32) -> ondol::Result<Option<ondol::Token>> {
    ///     let mut transaction = session.transaction()?;
    ///     for (id, change) in [(from, -amount), (to, amount)] {
    ///         let sql = "UPDATE account SET balance = balance + $2 WHERE id = $1";
    ///         if transaction.query(sql, &params![id, change])?.count == 0 {
    ///             return Ok(None); // no such account: dropped, the transaction rolls back
    ///         }
    ///     }
    ///     transaction.commit()
    /// }
    /// assert!(pay(&mut session, 1, 2, 30)?.is_some());
    /// assert!(pay(&mut session, 1, 3, 30)?.is_none());
    /// assert_eq!(session.query("SELECT balance FROM account WHERE id = 1", &[])?.row(0).get::<i32>(0)?, 70);
    /// # Ok(())
    /// # }
    /// ```
    pub fn transaction(&mut self) -> SqlResult<Transaction<'_>> {
        self.transaction_with(TransactionOptions::new())
    }

    /// The same, with an isolation level, or for reading only.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let db = ondol::Database::open(folder.path())?;
    /// # let mut session = db.session();
    /// use ondol::{Isolation, TransactionOptions};
    /// session.execute("CREATE TABLE t (a integer)")?;
    /// let options = TransactionOptions::new().isolation(Isolation::RepeatableRead).read_only(true);
    /// let mut report = session.transaction_with(options)?;
    /// assert_eq!(report.query("SELECT count(*) FROM t", &[])?.row(0).get::<i64>(0)?, 0);
    /// assert_eq!(report.query("INSERT INTO t VALUES (1)", &[]).unwrap_err().sqlstate(), "25006");
    /// # Ok(())
    /// # }
    /// ```
    pub fn transaction_with(&mut self, options: TransactionOptions) -> SqlResult<Transaction<'_>> {
        if self.in_transaction() {
            return Err(SqlError::new(
                sqlstate::ACTIVE_SQL_TRANSACTION,
                "there is already a transaction in progress",
            )
            .hint("Transaction::savepoint begins a part that can be undone by itself."));
        }
        let isolation = options.isolation.map(Into::into);
        self.start_transaction(Modes { isolation, access: options.access, deferrable: None })?;
        Ok(Transaction { number: self.transactions, session: self })
    }

    /// Whether the transaction of that number goes on.
    fn is_in(&self, number: u64) -> bool {
        self.in_transaction() && self.transactions == number
    }
    fn must_be_in(&self, number: u64) -> SqlResult<()> {
        match self.is_in(number) {
            true => Ok(()),
            false => Err(SqlError::new(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                "the transaction was ended by a statement before its guard",
            )),
        }
    }

    fn guarded_savepoint(&mut self, number: u64) -> SqlResult<Savepoint<'_>> {
        self.must_be_in(number)?;
        self.savepoints += 1;
        // A name that no statement has without quotes.
        let name = format!("guard {}", self.savepoints);
        Session::savepoint(self, &name)?;
        Ok(Savepoint { session: self, number, name, released: false })
    }
}

impl Transaction<'_> {
    /// Commits; durable when this returns, unless `synchronous_commit` is off. The token names the commit, if
    /// anything was written. When this is an error, the transaction was rolled back.
    pub fn commit(self) -> SqlResult<Option<Token>> {
        self.session.must_be_in(self.number)?;
        self.session.commit()
    }
    /// Commits without waiting for durability: others see it at once, and
    /// [`Database::wait`](crate::Database::wait) waits for the token.
    pub fn commit_async(self) -> SqlResult<Option<Token>> {
        self.session.must_be_in(self.number)?;
        self.session.commit_async()
    }
    /// Rolls back, as dropping does.
    pub fn rollback(self) {}
    /// Begins a part that can be undone by itself, also after an error in it.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let db = ondol::Database::open(folder.path())?;
    /// # let mut session = db.session();
    /// session.execute("CREATE TABLE t (a integer PRIMARY KEY)")?;
    /// let mut transaction = session.transaction()?;
    /// for a in [1, 2, 1] {
    ///     let mut part = transaction.savepoint()?;
    ///     if part.query("INSERT INTO t VALUES ($1)", &ondol::params![a]).is_ok() {
    ///         part.release()?;
    ///     }
    /// }
    /// transaction.commit()?;
    /// assert_eq!(session.query("SELECT a FROM t", &[])?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn savepoint(&mut self) -> SqlResult<Savepoint<'_>> {
        self.session.guarded_savepoint(self.number)
    }
}

impl Savepoint<'_> {
    /// Keeps what was done, as a part of what is around it. When this is an error, it was undone.
    pub fn release(mut self) -> SqlResult<()> {
        self.session.must_be_in(self.number)?;
        Session::release(self.session, &self.name)?;
        self.released = true;
        Ok(())
    }
    /// Undoes what was done, as dropping does.
    pub fn rollback(self) {}
    /// A part of this part.
    pub fn savepoint(&mut self) -> SqlResult<Savepoint<'_>> {
        self.session.guarded_savepoint(self.number)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // G2.
        if self.session.is_in(self.number) {
            self.session.rollback()
        }
    }
}

impl Drop for Savepoint<'_> {
    fn drop(&mut self) {
        if self.released || !self.session.is_in(self.number) {
            return;
        }
        let undone =
            self.session.rollback_to(&self.name).and_then(|()| Session::release(self.session, &self.name));
        if undone.is_err() {
            // G3.
            self.session.connection.fail()
        }
    }
}

macro_rules! is_its_session {
    ($($guard:ident),*) => {
        $(
            impl Deref for $guard<'_> {
                type Target = Session;
                fn deref(&self) -> &Session {
                    self.session
                }
            }
            impl DerefMut for $guard<'_> {
                fn deref_mut(&mut self) -> &mut Session {
                    self.session
                }
            }
        )*
    };
}
is_its_session!(Transaction, Savepoint);
