//! Clients of Ondol's server on the same machine: what is said over a Unix socket elsewhere goes through
//! memory that both processes have. While both are awake no message takes a system call.
//!
//! [`MemoryStream`] is for clients that wait, [`tokio::MemoryStream`] (feature `tokio`) for those that do
//! not, as `tokio-postgres`: its `Config::connect_raw` takes it. The protocol in it is PostgreSQL's, from the
//! startup packet on, without TLS.
//!
//! Who may connect is as over the socket: the operating system's user is believed, if the role has its name,
//! or the user owns the database's folder.
#![forbid(unsafe_code)]

mod stream;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use stream::MemoryStream;
