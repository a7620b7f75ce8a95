//! Indexes: normalised keys to OIDs, with optimistic traversal.
//!
//! Owns: the hash index, the B+-tree and the CR-tree. Knows nothing of: rows, versions, visibility, types. A
//! key is bytes whose order under `memcmp` is the order of the values; an entry is a pair (key, OID) and
//! stands at most once. The CR-tree's keys are points, and what it has of them is rounded.
//!
//! - **I1** Readers take no latch: they read a node's version, copy, fence, check the version, and only then
//!   interpret (OLFIT: Cha, Hwang, Kim, Kwon, VLDB 2001).
//! - **I2** A writer latches by CAS(Acquire) on the version word, `fence(Release)`, relaxed stores, then
//!   stores version + 2 (Release).
//! - **I3** Node memory stays a node of this index until the index goes, so that a version word that a
//!   transaction remembered can be read again at its commit.
//! - **I4** Readers recheck the key in the row version they see: an index may hold entries of versions that
//!   are uncommitted, aborted or dead.
//! - **I5** An insert changes the version of the node that it goes to, also when the pair stood there
//!   already: a reader that met the entry of a dead version must learn that the key came to life again.
//! - **I6** The OIDs that an index gives are those that were put into it: an OID is one word, read and
//!   written as a whole, or is copied out of a node that did not change meanwhile (I1).
#![allow(unsafe_code)] // Nodes are raw memory that optimistic readers share with writers: see I1 to I3.
use ondol_base::epoch::Guard;
use ondol_base::oid::Oid;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub mod btree;
pub mod crtree;
pub mod hash;
mod latch;
pub mod load;
mod slab;
mod stripes;

/// The charge against a memory limit; refusing a charge refuses the statement.
pub trait Budget: Send + Sync {
    /// False when `bytes` more would pass the limit.
    fn charge(&self, bytes: usize) -> bool;
    fn release(&self, bytes: usize);
}

/// The OID that an entry has.
#[inline(always)]
fn entry_oid(bits: u64) -> Oid {
    // SAFETY: I6; whoever put it in had it as such (base/oid/O1).
    unsafe { Oid::from_bits(bits) }
}

/// The memory limit was reached; nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;

/// A node (leaf or bucket) that a reader saw, with the version it had. Valid while the index lives (I3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub node: *const AtomicU64,
    pub version: u64,
}
// SAFETY: only ever dereferenced while the index that owns the node is held.
unsafe impl Send for Seen {}
impl Seen {
    /// Whether the node still has the version that was seen. False while a writer has it latched.
    ///
    /// # Safety
    /// The index that owns the node must still live (I3).
    #[inline]
    pub unsafe fn unchanged(&self) -> bool {
        // SAFETY: the caller holds the index, and by I3 the word stays readable with it.
        unsafe { (*self.node).load(std::sync::atomic::Ordering::Acquire) == self.version }
    }
}

/// How a change moved what a reader remembers, told to the transaction that made the change: if it had seen
/// `from`, it may remember `to` in its place, and `also` where there is one. What another changed before or
/// since then is noticed all the same: versions only grow, `from` is what the node had when it was latched
/// for the change, and `to` and `also` are what the nodes had when the latch was let go; together they cover
/// every place that `from` covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    pub from: Seen,
    pub to: Seen,
    /// The other half, where a node was split.
    pub also: Option<Seen>,
}

/// Where a transaction that may have seen the nodes wants to be told of its own changes, in their order.
pub type Moves<'a> = Option<&'a mut Vec<Moved>>;

/// Asks whether an entry is dead, given a function that says of another key whether the entry stands for it
/// too.
pub type Dead<'a> = dyn FnMut(&dyn Fn(&[u8]) -> bool) -> bool + 'a;

pub trait Index: Send + Sync {
    /// Puts the pair (key, oid) in; false if it stood there already.
    fn insert(&self, guard: &Guard<'_>, key: &[u8], oid: Oid, moves: Moves<'_>) -> Result<bool, OutOfMemory>;
    /// Puts the pair in if it is plain at once that nothing else stands under the key, its own pair included.
    /// False: something may, and no entry was made. The caller sees to it that no other inserts under the key
    /// meanwhile.
    fn insert_alone(
        &self,
        guard: &Guard<'_>,
        key: &[u8],
        oid: Oid,
        moves: Moves<'_>,
    ) -> Result<bool, OutOfMemory>;
    /// Takes the pair out if `dead()` says so, asked while the node is latched: an insert of the same pair
    /// comes wholly before the question or wholly after the removal. True if it was there and is gone.
    ///
    /// A hash index keeps only a part of a key's hash, so that two keys of one OID may share an entry; where
    /// an OID may stand under several keys, [`Index::remove_dead`] is the one to call.
    fn remove_if(&self, guard: &Guard<'_>, key: &[u8], oid: Oid, dead: &mut dyn FnMut() -> bool) -> bool {
        self.remove_dead(guard, key, oid, &mut |_| dead(), None)
    }
    /// As [`Index::remove_if`], but the question comes with a function that says of another key whether the
    /// entry about to go stands for that key too (in a B+-tree: whether the keys are equal). The entry is
    /// dead only if it stands for the key of no version that remains.
    fn remove_dead(
        &self,
        guard: &Guard<'_>,
        key: &[u8],
        oid: Oid,
        dead: &mut Dead<'_>,
        moves: Moves<'_>,
    ) -> bool;
    /// Appends to `out` every OID that stands under `key` (a hash index may add others of the same tag), and
    /// to `seen` each node looked at, also when nothing was found.
    fn lookup(&self, guard: &Guard<'_>, key: &[u8], out: &mut Vec<Oid>, seen: Option<&mut Vec<Seen>>);
    /// Brings what an insert or a lookup of the key will look at into the cache: for several keys at once,
    /// before the first is looked up.
    fn prefetch(&self, guard: &Guard<'_>, key: &[u8]) {
        let _ = (guard, key);
    }
    fn entries(&self) -> u64;
    fn memory_bytes(&self) -> usize;
    /// Verifies the structure; the index must be at rest. Describes the first fault found. Calls `each` with
    /// every entry (the key where the index stores it, else what is known of its hash as 8 bytes, big-endian:
    /// see [`hash::HashIndex::verify_bits`]).
    fn verify(&self, each: &mut dyn FnMut(&[u8], Oid)) -> Result<(), String>;
    /// Begins to fill the index, which must be empty and which nobody else changes before it is finished, if
    /// it can be built at once. `expected`: entries to come; `sample`: some thousand of them.
    fn load(&self, unique: bool, expected: u64, sample: &[(Vec<u8>, Oid)]) -> Option<Arc<dyn load::Load>> {
        let _ = (unique, expected, sample);
        None
    }
    fn as_btree(&self) -> Option<&btree::BTree> {
        None
    }
    fn as_hash(&self) -> Option<&hash::HashIndex> {
        None
    }
    fn as_crtree(&self) -> Option<&crtree::CrTree> {
        None
    }
}

pub type IndexRef = Arc<dyn Index>;
