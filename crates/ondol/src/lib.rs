//! Ondol: a main-memory transactional SQL database that lives in your process.
//!
//! A database is a folder. [`Database::open`] opens it (recovering first what a crash left behind), a
//! [`Session`] runs statements in it, and what a commit acknowledged is on disk.
//!
//! ```
//! use ondol::{Database, params};
//!
//! # fn main() -> ondol::Result<()> {
//! # let folder = ondol::TempFolder::new()?;
//! # let path = folder.path();
//! let db = Database::open(path)?;
//! let mut session = db.session();
//! session.execute("CREATE TABLE account (id bigint PRIMARY KEY, owner text, balance numeric(12, 2))")?;
//! session.query("INSERT INTO account VALUES ($1, $2, $3)", &params![1i64, "Ann", "100.00"])?;
//! for row in session.query("SELECT owner, balance FROM account WHERE id = $1", &params![1i64])?.iter() {
//!     println!("{} has {}", row.get::<&str>(0)?, row.get::<String>(1)?);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | to | use |
//! | --- | --- |
//! | run a statement, with parameters | [`Session::query`]: rows, count, tag and token in an [`Outcome`] |
//! | run a script | [`Session::execute`]: an [`Outcome`] for each statement |
//! | run it often | [`Session::prepare`], [`Session::execute_prepared`] |
//! | run it as fast as it goes | [`Session::call_prepared`] and [`Session::call_each`], or `CREATE FUNCTION`, then [`Session::call`] and [`Session::call_batch`] by [`QueryId`] |
//! | group statements | [`Session::transaction`], [`Transaction::commit`], [`Transaction::savepoint`]; [`Session::begin`] where no scope fits |
//! | not wait for the disk | [`Transaction::commit_async`], [`Session::call_async`], and [`Database::wait`] on their [`Token`] |
//! | serve others while the disk works | [`Session::held`], and [`Database::when_durable`] or a [`TokenQueue`] |
//! | take rows in pieces | [`Session::open`], [`Session::fetch`]: a [`Cursor`] |
//! | keep no rows | [`Session::for_each`], or [`Session::run`] with an [`Output`] of one's own |
//! | see what takes memory | [`Database::memory`] |
//! | move bulk data | [`Session::copy_in`], [`Session::copy_out`] |
//!
//! Built with `default-features = false` it is the engine and SQL alone. What else there is, cargo's features
//! add; a statement that needs one that is not built in is refused with SQLSTATE 0A000.
//!
//! | feature | is |
//! | --- | --- |
//! | `scan` | several threads for one statement's scan of a large table |
//! | `columnar` | COPY to and from Parquet, with `scan` |
//! | `innodb` | tables of MySQL and MariaDB: `innodb_scan` in SQL, and `Session::import`, with `scan` |
//! | `server` | a database served to PostgreSQL's clients: [`server`] |
//! | `connect` | databases by one kind of connection, in this process or through a server: [`connect`], with `server` |
//! | `command` | the command `ondol`, with `innodb` |
//!
//! Errors are PostgreSQL's: a SQLSTATE, a message, often a position and a hint ([`Error`]).
//!
//! Owns: sessions, settings, the plan cache, the outcome of statements. Must not know: how rows are stored,
//! how the log is written, what statements mean; those are the crates below.
#![forbid(unsafe_code)]

#[cfg(feature = "connect")]
pub mod connect;
mod database;
#[cfg(feature = "innodb")]
mod innodb;
#[cfg(feature = "server")]
pub mod server;
mod session;
mod temporary;
mod transfer;
mod upkeep;

pub use database::{Database, OpenOptions, Opened, Opening};
#[cfg(feature = "innodb")]
pub use innodb::import::{Import, Imported};
#[cfg(feature = "innodb")]
pub use innodb::schema::ImportedSchema;
pub use ondol_base::pool::{set_workers, workers};
pub use ondol_durability::recovery::Progress as RecoveryProgress;
pub use ondol_durability::ring_file::Promise as LogRingPromise;
pub use ondol_engine::name::USER;
pub use ondol_engine::{
    Catalog, ColumnDef, FunctionDef, IndexDef, IndexKind, Isolation, LogRing, Memory, MemoryKind, MemoryPart,
    Name, Path, Relation, Returns, SchemaDef, Table, TableDef, Token, Waiter,
};
#[cfg(feature = "innodb")]
pub use ondol_innodb::folder::Absent as TableLeftOut;
#[cfg(feature = "innodb")]
pub use ondol_innodb::value::{ZeroBytes, ZeroDates};
pub use ondol_types::{
    Numeric, Packed, SqlError as Error, SqlResult as Result, Type, TypeId, Value, ValueRef, sqlstate,
};
pub use session::batch::Batch;
pub use session::cursor::Cursor;
pub use session::held::TokenQueue;
pub use session::notify::Notification;
pub use session::output::{CopiedRows, Encode, Notice, Outcome, Output, Progress};
pub use session::params::IntoValue;
pub use session::prepared::Prepared;
pub use session::rows::{Column, FromValue, Iter, Row, Rows};
pub use session::runtime::Canceller;
pub use session::split;
pub use session::transaction::{Savepoint, Transaction, TransactionOptions};
pub use session::{Called, QueryId, Session};
pub use temporary::TempFolder;
pub use transfer::dump;
pub use transfer::unfinished::Unfinished;
pub use upkeep::{backup, check, simulate};
