//! A table as the kernel has it: a heap of rows, a heap of strings, and indexes whose keys it can ask for.
use crate::heap::{Heap, PIECE};
use crate::memory::Space;
use crate::slot::{self, View};
use crate::string;
use ondol_base::epoch::Guard;
use ondol_base::oid::Oid;
use ondol_index::IndexRef;
use ondol_index::crtree::Keys;
use std::sync::Arc;

/// Where a row's long values are read from.
pub trait Strings {
    /// Appends the bytes of a string, which a row names by the bits of its slot's OID.
    fn string(&self, slot: u64, len: usize, out: &mut Vec<u8>);
}

/// How an index's key is made of a row's bytes. A row is bytes and a layout here; types are known above.
pub trait KeyOf: Send + Sync {
    /// Appends the normalised key; true if a part of it is null (which is never equal to another).
    fn key(&self, row: &[u8], strings: &dyn Strings, out: &mut Vec<u8>) -> bool;
    /// Whether the two rows surely have the same key: asked before keys are made.
    fn unaffected(&self, old: &[u8], new: &[u8]) -> bool;
    /// The row bytes that the key depends on: (offset, length) ranges.
    fn ranges(&self) -> &[(usize, usize)];
}

/// The keys of rows, of all their versions, for an index that does not have them in full.
pub struct VersionKeys {
    space: Arc<Space>,
    row_size: usize,
    key: Arc<dyn KeyOf>,
}

impl VersionKeys {
    /// Of rows of so many bytes.
    pub fn new(space: Arc<Space>, row_size: usize, key: Arc<dyn KeyOf>) -> VersionKeys {
        VersionKeys { space, row_size, key }
    }
}

impl Keys for VersionKeys {
    fn each(&self, guard: &Guard<'_>, oid: Oid, each: &mut dyn FnMut(&[u8])) {
        let mut row = vec![0; self.row_size];
        let strings = Committed(&self.space, guard);
        let mut key = Vec::new();
        slot::any_version(&self.space, guard, oid, &mut row, true, &mut |row, _| {
            key.clear();
            self.key.key(row, &strings, &mut key);
            each(&key);
            false
        });
    }
    fn prefetch(&self, oid: Oid) {
        self.space.prefetch(oid)
    }
}

pub struct IndexStore {
    /// The number that errors name.
    pub id: u32,
    pub unique: bool,
    pub index: IndexRef,
    pub key: Arc<dyn KeyOf>,
}

pub struct TableStore {
    pub rows: Arc<Heap>,
    pub strings: Arc<Heap>,
    /// Row bytes, a multiple of 16.
    pub row_size: usize,
    /// The first `entered` of them take the keys of every version; of the others, which are being built, only
    /// keys that grow old are noted for the collector.
    pub indexes: Vec<Arc<IndexStore>>,
    pub entered: usize,
}

impl TableStore {
    pub fn entered(&self) -> &[Arc<IndexStore>] {
        &self.indexes[..self.entered]
    }
    /// Whether a difference, its words beginning with the row's word `at`, could change an index's key.
    /// Columns share words, so this looks at bytes.
    pub fn touches_keys(&self, at: usize, words: &[u64]) -> bool {
        let touched = |&(offset, len): &(usize, usize)| {
            words.iter().enumerate().any(|(i, word)| {
                let start = (at + i) * 8;
                let (from, to) = (offset.max(start), (offset + len).min(start + 8));
                from < to && word >> (8 * (from - start)) << (64 - 8 * (to - from)) != 0
            })
        };
        self.indexes.iter().any(|i| i.key.ranges().iter().any(touched))
    }
}

/// Strings as whatever version still has them: for collectors, which ask about versions of any age.
pub struct Committed<'a>(pub &'a Space, pub &'a Guard<'a>);
impl Strings for Committed<'_> {
    fn string(&self, slot: u64, len: usize, out: &mut Vec<u8>) {
        if len > PIECE {
            let read = &mut |slot, len, out: &mut Vec<u8>| {
                let had = out.len();
                self.string(slot, len, out);
                out.len() == had + len
            };
            string::read_pieces(slot, len, out, read);
            return;
        }
        let Committed(space, pin) = *self;
        let padded = (8 + len).next_multiple_of(8);
        let Some(oid) = space.locate(slot) else { return };
        let mut buf = vec![0; padded];
        // A string is immutable: any version of its slot that is alive has the bytes.
        let found = slot::any_version(space, pin, oid, &mut buf, true, &mut |_, _| true)
            || slot::read(space, pin, oid, &View { snapshot: slot::ID, ..View::default() }, &mut buf);
        if found {
            out.extend_from_slice(&buf[8..8 + len])
        }
    }
}
