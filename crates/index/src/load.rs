//! Filling an empty index with entries in no order, by several threads: what fillers ask of an index that can
//! be built at once.
use crate::OutOfMemory;
use ondol_base::oid::Oid;
use std::sync::Arc;

/// Why an index was not built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BulkError {
    OutOfMemory,
    /// An entry is not above the one before it, in its run or in the run before.
    NotSorted,
}
impl From<OutOfMemory> for BulkError {
    fn from(_: OutOfMemory) -> Self {
        BulkError::OutOfMemory
    }
}

/// Takes entries in any order, each perhaps several times.
pub trait Gather: Send {
    fn push(&mut self, key: &[u8], oid: Oid) -> Result<(), OutOfMemory>;
}

/// Told of each entry of a part whose key another one has as well, in order; `first`: it is the key's first.
pub type Twins<'a> = dyn FnMut(&[u8], Oid, bool) + 'a;

/// An index being filled. Until [`Load::finish`] it stays empty.
pub trait Load: Send + Sync {
    /// For one thread. When it is dropped, what it gathered belongs to the load.
    fn gatherer(self: Arc<Self>) -> Box<dyn Gather>;
    fn parts(&self) -> usize;
    /// Makes leaves of a part, each part once, after all gatherers were dropped. Gives the number of entries.
    /// `twins` is asked for of unique indexes.
    fn part(&self, part: usize, twins: Option<&mut Twins<'_>>) -> Result<u64, BulkError>;
    /// Makes them the index's entries, after all parts.
    fn finish(&self) -> Result<(), BulkError>;
}
