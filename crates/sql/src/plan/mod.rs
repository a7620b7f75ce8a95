//! The planner: from bound statements to the physical trees that code is generated for.
//!
//! ```text
//! bound statement -> lower -> logical tree -> rewrites -> operators -> physical tree -> code::generate
//!                                                            |-> join (order, methods)       `-> explain
//!                                                            `-> access (index, range, scan)
//! ```
//! - **L1** A plan never changes a query's answer, only the way to it: conditions are evaluated where all
//!   they refer to is bound (physical/T1), outer joins keep their NULL rows (join/J1 and join/J2), what an
//!   index finds is checked again.
//! - **L2** There are no statistics: row counts are guessed from the sizes of tables and indexes (see
//!   `access`), so a plan is the same for the same dictionary and sizes.
//!
//! Not here: names and types (the binder), byte code (`code`), anything at run time.
pub mod access;
pub mod classify;
pub mod equality;
pub mod explain;
pub mod join;
pub mod logical;
pub mod lower;
pub mod operators;
pub mod physical;
pub mod prefix;
pub mod price;
pub mod refs;
pub mod rewrite;
pub mod show;
pub mod ways;
