//! The scan pipeline: a table is cut into parts, workers read and convert each part whole, and one thread gathers what they made.
//!
//! It knows no format: a *source* (InnoDB's files, the engine's pages) gives parts and reads them, an *output* ([`csv`]) says what a part becomes.

pub mod csv;
pub mod pipeline;
