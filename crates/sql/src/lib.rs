//! SQL: parser, binder, plan, byte code, interpreter.
//!
//! ```text
//! text -> parse (PostgreSQL's own grammar) -> bind (bound.rs) -> plan -> byte code -> interpreter
//! ```
//! Owns: the meaning of statements. Knows nothing of: files, threads, the wire, terminals.
#![forbid(unsafe_code)]

pub mod bind;
pub mod bound;
pub mod catalog;
pub mod code;
pub mod compile;
pub mod copy;
pub mod deparse;
pub mod foreign;
mod imply;
pub mod interpret;
pub mod level;
pub mod needs;
pub mod parse;
pub mod plan;
