//! PostgreSQL's WAL through a durable ring: a cluster's folders and their mark, bringing the ring's entries
//! home, and the command `ondol pgwal` (also `ondol-pgwal`, for machines without the engine). What it rests
//! on: `docs/pgwal.md`.
//!
//! `cluster`, `mark` and `recover` also run inside of PostgreSQL, in the library that is preloaded (crate
//! `ondol-preload`): there, nothing is allocated.
#![allow(unsafe_code)] // System calls.

pub mod cluster;
pub mod command;
pub mod destage;
mod doctor;
pub mod mark;
pub mod recover;
