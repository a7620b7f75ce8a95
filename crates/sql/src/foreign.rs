//! Tables that are read from where the engine's are not: what a function in FROM that reads such a one has to
//! give.
//!
//! - **F1** What is found when a statement is bound (columns, types, files that are open) is the statement's
//!   alone: no plan with such a table is kept, and no registered query can have one.
//! - **F2** A range of the key is a wish. Rows outside of it may come, and each row's conditions are
//!   evaluated whatever was wished.
//! - **F3** Rows come one at a time and are not kept here.
//! - **F4** What is read can be cut into parts, which several threads read; one after the other they are the
//!   whole, in its order.
use ondol_types::{SqlResult, Type, Value, ValueRef};
use std::ops::Range;
use std::sync::Arc;

/// The functions in FROM that read such tables.
pub const FUNCTIONS: &[&str] = &["innodb_scan"];

/// An argument as it was written: a name, if one was given, and a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    pub name: Option<String>,
    /// `None`: NULL.
    pub value: Option<String>,
}

/// Whoever knows such tables.
pub trait Foreign {
    /// Opens the table that one of [`FUNCTIONS`] reads.
    fn open(&self, function: &str, arguments: &[Argument]) -> SqlResult<Arc<dyn ForeignTable>>;
}

/// A table that is open.
pub trait ForeignTable: Send + Sync {
    /// For EXPLAIN.
    fn name(&self) -> String;
    /// What whoever reads it should know: a NOTICE each time a statement is bound.
    fn notice(&self) -> Option<String> {
        None
    }
    fn columns(&self) -> &[(String, Type)];
    /// A guess.
    fn estimate_rows(&self) -> f64;
    /// How large it is, in pages of 4 KiB.
    fn pages(&self) -> usize;
    /// The column of which a range can be wished.
    fn key(&self) -> Option<u16>;
    /// What is to be read: the values of `columns`, and of `low` to `high` of the key, both included, NULL
    /// being open. A bound that is of no use is ignored. Cut into so many `parts` at least, if it can be.
    fn range(
        &self,
        columns: &[u16],
        low: &Value,
        high: &Value,
        parts: usize,
    ) -> SqlResult<Arc<dyn ForeignRange>>;
}

/// What is to be read of such a table.
pub trait ForeignRange: Send + Sync {
    fn parts(&self) -> usize;
    /// Begins to read these parts.
    fn rows(&self, parts: Range<usize>) -> Box<dyn ForeignRows>;
}

/// Asks whether to go on; the error ends the reading.
pub type GoOn<'a> = &'a dyn Fn() -> SqlResult<()>;

/// Rows that are being read. After an error there are none.
pub trait ForeignRows: Send {
    /// Gives the values of the next row to `put`, with the places of their columns in the list that was
    /// wanted. False: there are no more rows.
    fn next(&mut self, go_on: GoOn<'_>, put: &mut dyn FnMut(usize, ValueRef<'_>)) -> SqlResult<bool>;
    /// How many rows are left, which are not looked at; by so many threads beside this one.
    fn count(&mut self, workers: usize, go_on: GoOn<'_>) -> SqlResult<u64>;
}
