//! An open database, shared by its sessions.
use crate::session::Session;
use crate::session::activity::Board;
use crate::session::notify::Channels;
use crate::session::output::Notice;
use crate::session::plans::SharedPlans;
use crate::session::settings::Settings;
use crate::upkeep::check::Held;
use crate::upkeep::renew;
use ondol_base::media::Storage;
pub use ondol_engine::database::{Opened, Opening};
use ondol_engine::{LogRing, Memory, Options, Token};
use ondol_types::SqlResult;
use std::path::Path;
use std::sync::Arc;

/// How a database is opened.
///
/// ```
/// # fn main() -> ondol::Result<()> {
/// # let folder = ondol::TempFolder::new()?;
/// # let path = folder.path().join("db");
/// let db = ondol::OpenOptions::new().memory_limit(256 << 20).open(&path)?;
/// assert!(ondol::OpenOptions::new().open(&path).is_err(), "one process at a time, and one handle");
/// db.close()?;
/// assert!(ondol::OpenOptions::new().create(false).open(folder.path().join("nothing")).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions(Options);

impl Default for OpenOptions {
    fn default() -> Self {
        OpenOptions::new()
    }
}

impl OpenOptions {
    pub fn new() -> OpenOptions {
        OpenOptions(Options::default())
    }
    /// Whether to make the database when the folder has none; yes unless told otherwise.
    pub fn create(mut self, yes: bool) -> Self {
        self.0.create = yes;
        self
    }
    /// The name of a file that may lie in the folder already when the database is made there. Anything else
    /// that is not a database's is an error, since the folder is to be its own.
    pub fn beside(mut self, name: impl Into<String>) -> Self {
        self.0.beside.push(name.into());
        self
    }
    /// Bytes that data, indexes, versions, transactions, and what statements need (parameters, plans,
    /// intermediate rows and values, and the result until it is the caller's) may take together. A statement
    /// that would take more is refused with SQLSTATE 53200; what is there stays readable and removable.
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.0.memory_limit = bytes;
        self
    }
    /// Log bytes after which a checkpoint starts by itself.
    pub fn checkpoint_log_bytes(mut self, bytes: u64) -> Self {
        self.0.checkpoint_log_bytes = bytes;
        self
    }
    /// Seconds after which a checkpoint starts by itself when anything was written.
    pub fn checkpoint_interval_s(mut self, seconds: u64) -> Self {
        self.0.checkpoint_interval_s = seconds;
        self
    }
    /// A further folder to log into, preferably on a disk of its own; each is written in parallel.
    pub fn log_folder(mut self, path: impl Into<String>) -> Self {
        self.0.log_folders.push(path.into());
        self
    }
    /// A ring in persistent memory. Each commit's log record goes to it as well, so the commit does not wait
    /// for the log's files to be synced. After an unclean shutdown the ring is required, also for `check`,
    /// `dump` and `backup`.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let (path, ring) = (folder.path().join("db"), folder.path().join("ring"));
    /// use ondol::{LogRing, LogRingPromise};
    /// // Without this promise the ring must be on persistent memory.
    /// let ring = LogRing { promise: Some(LogRingPromise::ServerCrash), ..LogRing::at(ring) };
    /// let db = ondol::OpenOptions::new().log_ring(ring).open(&path)?;
    /// assert_eq!(db.opened().recovered.ring.as_ref().map(|r| r.size), Some(64 << 20));
    /// db.close()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn log_ring(mut self, ring: LogRing) -> Self {
        self.0.log_ring = Some(ring);
        self
    }
    /// Opens a database with its files alone if its ring is missing or not its own; commits that only the
    /// ring holds are lost. Without this such a database is refused.
    pub fn lose_acknowledged_commits(mut self, yes: bool) -> Self {
        self.0.lose_acknowledged_commits = yes;
        self
    }
    /// Log files so small that a test sees them being filled and used again.
    pub(crate) fn small_log_files(mut self) -> Self {
        self.0.log_file_size = 128 << 10;
        self.0.log_buffer_size = 64 << 10;
        self.0.reserved = 1 << 30;
        self
    }
    /// As another program would that computes with these versions of data.
    #[cfg(test)]
    pub(crate) fn computing_with(mut self, data: ondol_types::data::DataVersions) -> Self {
        self.0.data = data;
        self
    }
    /// On a storage other than a folder of the disk: a simulated one.
    pub(crate) fn open_on(self, storage: Arc<dyn Storage>) -> SqlResult<Database> {
        let work_limit = (self.0.memory_limit / 4).max(64 << 20);
        let engine = ondol_engine::Database::open_on(storage, Vec::new(), None, self.0, &|_| {})?;
        Database::new(engine, "simulated", work_limit).renewed()
    }
    pub fn open(self, path: impl AsRef<Path>) -> SqlResult<Database> {
        self.open_reporting(path, &|_| {})
    }
    /// The same; `progress` is told how far recovery and the building of indexes are.
    pub fn open_reporting(self, path: impl AsRef<Path>, progress: &dyn Fn(Opening)) -> SqlResult<Database> {
        let work_limit = (self.0.memory_limit / 4).max(64 << 20);
        let engine = ondol_engine::Database::open_reporting(path.as_ref(), self.0, progress)?;
        let name = path.as_ref().file_name().map_or("ondol".into(), |n| n.to_string_lossy().into_owned());
        Database::new(engine, &name, work_limit).renewed()
    }
}

/// An open database. Clones are the same database.
#[derive(Clone)]
pub struct Database {
    /// They go before the engine does.
    pub(crate) plans: Arc<SharedPlans>,
    pub(crate) engine: Arc<ondol_engine::Database>,
    pub(crate) name: Arc<str>,
    /// Bytes that one statement's sorts, hash tables and lists may take.
    pub(crate) work_limit: usize,
    /// With which each session begins: it shares them until it changes one.
    pub(crate) settings: Settings,
    pub(crate) notices: Arc<[Notice]>,
    /// What its sessions tell each other.
    pub(crate) channels: Arc<Channels>,
    /// The sessions of its server.
    pub(crate) board: Arc<Board>,
}

impl Database {
    fn new(engine: Arc<ondol_engine::Database>, name: &str, work_limit: usize) -> Database {
        let plans = Arc::new(SharedPlans::new(&engine.charge()));
        let settings = Settings::new(engine.log_ring());
        let notices = Arc::default();
        let (channels, board) = (Arc::default(), Arc::default());
        Database { plans, engine, name: name.into(), work_limit, settings, notices, channels, board }
    }
    /// Opens the database in the folder `path`, which is made if it is not there; what a crash left behind is
    /// recovered first.
    pub fn open(path: impl AsRef<Path>) -> SqlResult<Database> {
        OpenOptions::new().open(path)
    }
    /// Opens a database in memory, on top of its files. None of them is changed: writes are gone when it is
    /// closed.
    pub fn open_held(held: &Held) -> SqlResult<Database> {
        let work_limit = (ondol_engine::Options::default().memory_limit / 4).max(64 << 20);
        let database = Database::new(held.open_engine()?, "ondol", work_limit);
        let notices = renew::outdated(&database.engine.catalog()).into();
        Ok(Database { notices, ..database })
    }
    /// With the indexes rebuilt whose keys were computed by other versions of data.
    fn renewed(self) -> SqlResult<Database> {
        let notices = renew::renew(&self)?.into();
        Ok(Database { notices, ..self })
    }
    /// What is to be told of the opening: indexes that were rebuilt, or could not be, since this program
    /// computes with other versions of Unicode or of the time zone database than the one that filled them.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }
    /// A new session: one user, one transaction at a time. Sessions may live on different threads.
    pub fn session(&self) -> Session {
        Session::new(self)
    }
    /// Writes a checkpoint: the log before it is no longer needed. Transactions go on meanwhile.
    pub fn checkpoint(&self) -> SqlResult<()> {
        self.engine.checkpoint()
    }
    /// Waits until the commit of the token is durable.
    pub fn wait(&self, token: Token) -> SqlResult<()> {
        self.engine.wait_durable(token)
    }
    /// Whether the commit of the token is durable; asynchronous ones become so within milliseconds.
    pub fn is_durable(&self, token: Token) -> bool {
        token.0 <= self.engine.durable_ts()
    }
    /// What opening found and took.
    pub fn opened(&self) -> &Opened {
        self.engine.opened()
    }
    /// What takes memory, as the view `ondol_memory` shows it, too.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// use ondol::MemoryKind;
    /// let db = ondol::OpenOptions::new().memory_limit(64 << 20).open(folder.path())?;
    /// db.session().execute("CREATE TABLE t (a integer PRIMARY KEY); INSERT INTO t VALUES (1), (2)")?;
    /// let memory = db.memory();
    /// assert!(memory.used <= memory.limit && memory.limit <= 64 << 20);
    /// let table = memory.of(MemoryKind::Table).next().expect("there is one table");
    /// assert_eq!((table.name.as_str(), table.entries), ("t", 2));
    /// assert!(table.bytes > 0 && table.bytes < memory.used);
    /// # Ok(())
    /// # }
    /// ```
    pub fn memory(&self) -> Memory {
        self.engine.memory()
    }
    /// Closes the database: what was acknowledged asynchronously is made durable. Sessions that still live
    /// can commit no more; the lock on the folder is given up with the last of them.
    pub fn close(self) -> SqlResult<()> {
        self.engine.close()
    }
}
