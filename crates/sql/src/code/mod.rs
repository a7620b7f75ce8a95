//! Byte code: what plans compile to and registered queries are stored as.
//!
//! ```text
//! plan -> generate (generate/) -> Program: ops + constants + definitions of cursors, stores, sorters ->
//! interpret/
//!                                    |  ^
//!                                 encode decode + verify    (the dictionary's bytes)
//! ```
//! - **C1** The opcode table ([`op`]) is the only definition of the instructions; stored form, EXPLAIN and
//!   checks follow.
//! - **C2** The interpreter runs only programs that [`verify::verify`] accepts: registers, jumps, cursors,
//!   stores, constants and columns are in range and widths agree. What a register holds at a time is not
//!   proved: the interpreter treats a value of another type as some value, never as an address.
//! - **C3** Stored code names tables, indexes and functions by id and carries a fingerprint of each table;
//!   where one no longer matches, decoding says [`program::Rejected::Stale`] and the query is compiled from
//!   its text again.
//!
//! What a crash leaves: nothing; programs are bytes in the dictionary's rows.
pub mod explain;
pub mod generate;
pub mod op;
pub mod operand;
pub mod program;
pub mod stored;
pub mod verify;
pub mod window;

/// The stored form's number; code of another number is compiled anew.
pub const FORMAT: u16 = 8;

pub use op::Op;
pub use program::{Program, Rejected};
