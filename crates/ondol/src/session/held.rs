//! Commits that are not waited for, nor acknowledged before they are durable: held ones.
//!
//! - **H1** What a session commits while it holds is visible to other sessions once it is durable, as if it
//!   had been waited for. The session itself goes on at once, and sees it.
//! - **H2** So everything that the session does after a held commit rests on it, reading too. The token that
//!   [`Session::held`] gives covers all that was held before: answers may be told when it is durable, in any
//!   order of looking. A statement outside of `held` waits for what was held before it begins.
//! - **H3** Nobody has to wait, ask or keep the token: the commit becomes durable within milliseconds anyway.
//!   Whoever asks ([`Database::wait`], [`Database::when_durable`], [`TokenQueue::add`]) has it at once.
//! - **H4** If the log fails first, every way of asking tells so, once for each time of asking. The commit
//!   may or may not be there after the database is opened again, as after a power failure before the token
//!   was durable; and nobody but its own session has seen it.
//! - **H5** Definitions are waited for where they are committed, since all sessions go by them at once.
use crate::database::Database;
use crate::session::Session;
use ondol_base::event::Event;
use ondol_base::net::{Descriptor, Source};
use ondol_base::sync::Mutex;
use ondol_engine::Token;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

impl Session {
    /// Runs `f`, whose commits are not waited for and become visible to other sessions when they are durable.
    /// With what `f` gave comes the token to wait for before anything of it is told, also if it is an error,
    /// as there may have been commits before; none, if all is durable.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let db = ondol::Database::open(folder.path())?;
    /// # let (mut session, mut other) = (db.session(), db.session());
    /// session.execute("CREATE TABLE t (a integer)")?;
    /// let (inserted, token) = session.held(|s| s.query("INSERT INTO t VALUES (1)", &[]));
    /// assert_eq!(inserted?.tag, "INSERT 0 1");
    /// // The session can go on now, and be answered for later.
    /// if let Some(token) = token {
    ///     db.wait(token)?;
    /// }
    /// assert_eq!(other.query("SELECT a FROM t", &[])?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn held<T>(&mut self, f: impl FnOnce(&mut Session) -> SqlResult<T>) -> (SqlResult<T>, Option<Token>) {
        /// Ends it also when `f` panics.
        struct Holding<'s>(&'s mut Session, bool);
        impl Drop for Holding<'_> {
            fn drop(&mut self) {
                if self.1 {
                    self.0.connection.hold()
                }
                // A call's short way does not look whether something is held.
                self.0.look_for_held()
            }
        }
        let new = self.connection.defer();
        self.look_for_held();
        let holding = Holding(self, new);
        let done = f(holding.0);
        drop(holding);
        (done, self.connection.held_token())
    }
}

impl Database {
    /// Whether the commit of the token is durable; an error, if the log failed before it was.
    pub fn poll(&self, token: Token) -> SqlResult<bool> {
        self.engine.poll_durable(token)
    }
    /// Calls `tell` once, when the commit of the token is durable or cannot become so: at once if that is
    /// known, else on the thread that makes it durable. That one has others to serve: `tell` should be short,
    /// and must not use sessions, nor be the last to keep the database open.
    pub fn when_durable(&self, token: Token, tell: impl FnOnce(SqlResult<()>) + Send + 'static) {
        self.engine.when_durable(token, tell)
    }
    /// A queue for tokens of this database.
    pub fn token_queue(&self) -> SqlResult<TokenQueue> {
        let event = Event::new().map_err(|e| {
            SqlError::new(sqlstate::IO_ERROR, format!("could not make an event descriptor: {e}"))
        })?;
        Ok(TokenQueue { database: self.clone(), told: Arc::new(Told { event, list: Mutex::default() }) })
    }
}

/// Tokens that are waited for together, with one descriptor that is readable when some are durable.
///
/// ```
/// # fn main() -> ondol::Result<()> {
/// # let folder = ondol::TempFolder::new()?;
/// # let db = ondol::Database::open(folder.path())?;
/// # let mut session = db.session();
/// session.execute("CREATE TABLE t (a integer)")?;
/// let queue = db.token_queue()?;
/// for a in 0..3 {
///     let (done, token) = session.held(|s| s.query("INSERT INTO t VALUES ($1)", &ondol::params![a]));
///     done?;
///     match token {
///         Some(token) => queue.add(token, a as u64),
///         None => println!("{a} is durable already"),
///     }
/// }
/// let mut told = Vec::new();
/// while queue.waiting() > 0 {
///     // A server waits here until the descriptor is readable, by epoll.
///     queue.take(&mut told);
/// }
/// assert!(told.iter().all(|(_, fate)| fate.is_ok()));
/// # Ok(())
/// # }
/// ```
pub struct TokenQueue {
    database: Database,
    told: Arc<Told>,
}

struct Told {
    event: Event,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    waiting: usize,
    told: Vec<(u64, SqlResult<()>)>,
}

impl TokenQueue {
    /// Waits for the commit of `token`; `tag` is what [`TokenQueue::take`] gives then.
    pub fn add(&self, token: Token, tag: u64) {
        self.told.list.lock().waiting += 1;
        let told = self.told.clone();
        self.database.when_durable(token, move |fate| {
            let mut list = told.list.lock();
            list.told.push((tag, fate));
            if list.told.len() == 1 {
                told.event.set()
            }
        })
    }
    /// How many were added and not taken.
    pub fn waiting(&self) -> usize {
        self.told.list.lock().waiting
    }
    /// Appends the tags of the tokens whose fate is known, with it: durable, or why not. Does not wait; the
    /// descriptor is not readable any more.
    pub fn take(&self, into: &mut Vec<(u64, SqlResult<()>)>) {
        let mut list = self.told.list.lock();
        if !list.told.is_empty() {
            self.told.event.clear();
            list.waiting -= list.told.len();
            into.append(&mut list.told)
        }
    }
}

/// Readable while there is something to take.
impl AsFd for TokenQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.told.event.as_fd()
    }
}

impl Source for TokenQueue {
    fn descriptor(&self) -> Descriptor<'_> {
        self.told.event.descriptor()
    }
}
