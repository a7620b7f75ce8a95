//! PostgreSQL's types, functions and operators as plain values.
//!
//! Owns: type identities and modifiers, values, text input and output, casts, comparison, normalised keys,
//! exact NUMERIC, dates and times, functions, operators, aggregates, and PostgreSQL's rules for choosing
//! among them. Knows nothing of: tables, rows, storage, parse trees.
//!
//! Everything here is a pure function of its arguments (and of [`func::Context`], which carries the
//! transaction's time), with PostgreSQL 15's answers, its error messages and its SQLSTATEs.

#![forbid(unsafe_code)]

pub mod agg;
pub mod array;
pub mod cast;
pub mod catalog;
pub mod coordinate;
pub mod data;
pub mod datetime;
pub mod edge;
pub mod error;
pub mod func;
pub mod key;
pub mod known;
pub mod limits;
pub mod name;
pub mod numeric;
pub mod objects;
mod regex;
pub mod resolve;
pub mod style;
pub mod text;
pub mod ty;
pub mod user;
pub mod value;
pub mod window;

pub use error::{SqlError, SqlResult, sqlstate};
pub use numeric::{Numeric, Packed};
pub use ty::{Type, TypeId};
pub use value::{Value, ValueRef};
