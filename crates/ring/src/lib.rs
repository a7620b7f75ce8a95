//! A ring in persistent memory that makes writes to log files durable before their files are synced, shared
//! by the processes of one server. Rules, format and the argument for each: `docs/pgwal.md`; their model:
//! `tests/model.rs`.
//!
//! It runs inside of foreign processes, whenever they write: so it does not allocate, has no thread-local
//! storage, does not panic on what it finds in the ring, and needs nothing but system calls.
//!
//! What is deliberately absent: which files a server's log consists of, and what is in them.
#![no_std]
#![allow(unsafe_code)] // Memory that other processes write, and system calls.

mod crc;
mod entry;
pub mod file;
mod hold;
mod memory;
mod ring;

pub use crc::crc32c;
pub use entry::{DATA, Entry, SLOT, Segment};
pub use hold::Holds;
pub use memory::Memory;
pub use ring::{Error, FREED, Files, HEADER, Held, LEAST, Replay, Ring, Status};
