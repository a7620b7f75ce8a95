//! Clients of Ondol's server: PostgreSQL's protocol, on the same machine in memory that both processes have.
//! There no message takes a system call while both are awake.
//!
//! | to | use |
//! | --- | --- |
//! | run prepared statements, and many of them in one message | [`Client`], [`Batch`] |
//! | have another client talk in memory, one that waits | [`MemoryStream`] |
//! | the same for `tokio-postgres` | [`tokio::MemoryStream`], which its `Config::connect_raw` takes |
//!
//! The protocol in the memory is PostgreSQL's, from the startup packet on, without TLS. Who may connect is as
//! over the socket: the operating system's user is believed, if the role has its name, or the user owns the
//! database's folder.
//!
//! ```no_run
//! use ondol_client::{Client, ValueRef};
//!
//! # fn main() -> ondol_client::Result<()> {
//! let mut client = Client::connect("data")?; // as `ondol serve data` has it, in its memory
//! let find = client.prepare("SELECT name FROM subscriber WHERE id = $1")?;
//! for row in client.query(&find, &[ValueRef::Int8(7)])?.rows(0)? {
//!     println!("{}", row.get::<&str>(0)?)
//! }
//! # Ok(())
//! # }
//! ```
//!
//! | feature | is |
//! | --- | --- |
//! | `client` (usual) | [`Client`] |
//! | `tls` | its connections by TCP encrypted |
//! | `tokio` | [`tokio::MemoryStream`] |
#![forbid(unsafe_code)]

#[cfg(feature = "client")]
mod address;
#[cfg(feature = "client")]
mod answers;
#[cfg(feature = "client")]
mod batch;
#[cfg(feature = "client")]
mod carrier;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
pub mod message;
mod stream;
#[cfg(feature = "client")]
pub mod talk;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use stream::MemoryStream;
#[cfg(feature = "client")]
pub use {
    address::{Address, SharedMemory},
    answers::{Answers, FromSent, Iter, SentRow, SentRows},
    batch::{Batch, Commit},
    client::{Canceller, Client, Notice, refuse_copy},
    ondol_types::{Numeric, SqlError as Error, SqlResult as Result, Type, TypeId, Value, ValueRef},
    statement::{Column, Statement},
};
#[cfg(feature = "client")]
mod statement;
