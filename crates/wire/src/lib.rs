//! PostgreSQL's protocol, version 3, as bytes: what clients send ([`front`]), what a server answers
//! ([`back`]), values as the fields of rows ([`field`]) and in their binary forms ([`binary`]), proving a
//! password ([`scram`]), and what that needs of a server's certificate ([`certificate`]).
//!
//! - **W1** What a client sends is looked at before it is believed: lengths, counts, texts. No message makes
//!   this crate panic, or take more memory than the message has bytes.
//! - **W2** A message is read where it lies: texts and values are borrowed from the input.
//!
//! Must not know: sockets, sessions, what statements mean.
//!
//! Source: PostgreSQL 15's documentation, chapter 55, and its answers.
#![forbid(unsafe_code)]

pub mod back;
pub mod binary;
pub mod certificate;
pub mod field;
pub mod front;
pub mod scram;
