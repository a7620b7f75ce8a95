//! What the benches share. It stands outside the house: it sees the database through its public API alone,
//! and links what it is compared with.
//!
//! Owns: alternating rounds, judging, reports, the machine's description, the subscriber table, TPC-H's
//! lineitem, the TPC-C driver, servers of others that a run starts, points. Must not know: anything of Ondol
//! that `ondol` does not export, but for the CR-tree, which is measured by itself too.
#![deny(unsafe_code)]

pub mod bare;
pub mod chart;
pub mod clients;
#[cfg(feature = "peers")]
pub mod cluster;
pub mod customers;
#[cfg(feature = "peers")]
pub mod encoder;
pub mod histogram;
pub mod lineitem;
pub mod machine;
#[cfg(all(target_arch = "x86_64", feature = "peers"))]
pub mod mapped;
pub mod options;
pub mod ours;
#[cfg(feature = "peers")]
pub mod points;
pub mod process;
pub mod random;
pub mod report;
pub mod rounds;
pub mod tpcc;

/// Whatever went wrong: a bench says it and ends.
pub type Error = Box<dyn std::error::Error + Send + Sync>;
pub type Result<T> = std::result::Result<T, Error>;
