//! Differences, log streams, rounds, checkpoint and recovery.
//!
//! Owns: the form of a difference in the log, the global commit clock, streams and rounds, log files, images,
//! the manifest, and recovery's proof. Knows nothing of: versions, locks, snapshots, indexes, SQL. It sees
//! memory as pages of slots through [`checkpoint::Source`] and [`recovery::Target`].
//!
//! The protocol, with the argument for each rule, is `docs/protocol.md` (protocol/P1 to protocol/P10).

#![forbid(unsafe_code)]

pub mod block;
pub mod checkpoint;
pub mod delta;
pub mod error;
pub mod files;
pub mod image;
pub mod inspect;
pub mod log;
pub mod manifest;
pub mod mark;
pub mod page;
pub(crate) mod pages;
pub(crate) mod reader;
pub mod record;
pub mod recovery;
pub(crate) mod replay;
pub mod ring_file;
pub(crate) mod ringed;
pub(crate) mod round;
pub(crate) mod scan;
pub mod sequence;
pub(crate) mod stream;

pub use delta::Changes;
pub use error::{CheckpointError, LogError, RecoveryError, RingError};
pub use files::{Config, Place};
pub use log::{Log, Reservation, StreamId};
pub use record::{Kind, System};
pub use sequence::Given;

/// A commit timestamp: the place of a commit in the one global order, from 1 on without holes.
pub type CommitTs = u64;
/// A transaction's number, unique within one incarnation of the database.
pub type TxnId = u64;
/// A heap: the pages of one table (rows and strings together).
pub type HeapId = u32;
