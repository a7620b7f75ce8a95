//! The kernel: memory, records, versions, transactions, and the upkeep of indexes.
//!
//! Owns: the address range with its segments and pages, slot headers and version chains, transactions with
//! their locks and snapshots, garbage collection. Knows nothing of: SQL types (a row is bytes; a key comes
//! from a [`table::KeyOf`]), the dictionary, files (the log and checkpoints are `ondol-durability`'s).
//!
//! - **K1** Row bytes of a committed slot change only while its header says INSTALLING, and then end under a
//!   new, unique commit timestamp: a reader that finds the same header before and after copying has a whole
//!   version.
//! - **K2** An uncommitted difference waits in a version node; only the owner of the slot (header word 0)
//!   pushes nodes.
//! - **K3** A fresh slot's bytes may be written at once: nobody reads them before its transaction is
//!   committed.
//! - **K4** A version node is dropped only when every live snapshot is at or past its timestamp; neighbours
//!   are folded only when no live snapshot, now or later, can lie between them.
//! - **K5** A slot is reused only after its index entries are gone and an epoch has passed.
//! - **K6** Everything that can fail, fails before the commit timestamp is taken.
#![allow(unsafe_code)] // Slots and version nodes are raw memory; every block names its invariant.

pub mod collect;
pub mod error;
pub mod heap;
pub mod kernel;
pub mod key_latch;
pub mod memory;
mod recover;
pub mod registry;
pub mod sharers;
pub mod slot;
pub mod string;
pub mod table;
pub mod transaction;
pub mod version;
pub mod wait;

pub use error::{Error, Result};
pub use kernel::{Kernel, KernelConfig};
pub use ondol_base::oid::Oid;
pub use ondol_durability::{CommitTs, HeapId, TxnId};
pub use table::{IndexStore, KeyOf, Strings, TableStore, VersionKeys};
pub use transaction::{Isolation, LockMode, Locked, Savepoint, Session, Wait};
