//! The planner: from bound statements to programs.
//!
//! ```text
//! bound query -> join (order, methods) -> node tree -> code::generate -> program
//!                  `-> access (index, range, scan)
//! ```
//! - **L1** A plan never changes a query's answer, only the way to it: conditions are evaluated where all
//!   they refer to is bound (node/T1), outer joins keep their NULL rows (join/J1 to join/J3), what an index
//!   finds is checked again.
//! - **L2** There are no statistics: row counts are guessed from the sizes of indexes (see `access`), so a
//!   plan is the same for the same dictionary and sizes.
//!
//! Not here: names and types (the binder), byte code (`code`), anything at run time.
pub mod access;
pub mod classify;
pub mod join;
pub mod node;
pub mod refs;
pub mod show;

use crate::bound::Bound;
use crate::code::Program;
use crate::code::generate::{FindFunction, generate};
use ondol_types::SqlResult;
use ondol_types::limits::Limits;

/// Plans and compiles a query, INSERT, UPDATE or DELETE (or the statement below an EXPLAIN), until the limits
/// say that it is to end.
pub fn compile(bound: &Bound, find_function: FindFunction<'_>, limits: Limits<'_>) -> SqlResult<Program> {
    generate(bound, find_function, limits, false)
}

/// The same, with counters for EXPLAIN ANALYZE.
pub fn compile_measured(
    bound: &Bound,
    find_function: FindFunction<'_>,
    limits: Limits<'_>,
) -> SqlResult<Program> {
    generate(bound, find_function, limits, true)
}

/// The lines of EXPLAIN.
pub fn explain(program: &Program) -> Vec<String> {
    crate::code::explain::lines(program, None, 0)
}
