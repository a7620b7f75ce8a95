//! The library for C and C++: what `include/ondol.h` declares, over [`ondol::connect`].
//!
//! - **P1** A pointer that is given is NULL, which is an error, or one that this library has given out and
//!   that was not freed, or one to as many bytes as are said to be there; for one thread at a time. The
//!   header says so, and nobody can check it.
//! - **P2** No panic goes on into C: it is an error, XX000.
//! - **P3** A text that is given out lives in the connection, until what is told of it in the header.
#![allow(unsafe_code, reason = "C calls it")]

mod calls;
mod connection;
mod error;
mod values;

pub use calls::ondol_calls;
pub use connection::ondol;
