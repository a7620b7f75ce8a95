//! Filling an empty tree with entries in no order, by several threads.
//!
//! ```text
//! sample ──> cuts                       the order is cut into parts of about equal size, before anything is gathered
//! Gatherer, one a thread ──> blocks     each entry goes to its part's block
//! Load::part, on any thread ──> a run   a part is sorted while it is in the cache, and fills leaves
//! Load::finish ──> the tree             the runs are strung together
//! ```
//! - **L1** In a unique tree equal keys are of one part: a cut has no OID there.
//! - **L2** What is gathered is charged by blocks, and given back part by part as leaves take its place.
//!
//! Entries that come in order, or in a few runs that do, are recognised by the sort, which then only merges.
use super::bulk::{Builder, Run};
use super::{BTree, KeyShape};
use crate::load::{BulkError, Gather, Load, Twins};
use crate::{Budget, OutOfMemory, entry_oid};
use ondol_base::oid::Oid;
use ondol_base::sync::Mutex;
use std::cmp::Ordering;
use std::sync::Arc;

/// Entries of a part that fill a block.
const BLOCK: usize = 512;
/// Bytes that a block of long keys is charged ahead.
const STEP: usize = 16 << 10;
/// Entries of a part to aim at: some hundred kilobytes, which the cache of a core holds.
const PART: u64 = 32 << 10;
/// More parts than this would make gathering miss the cache instead.
const MOST_PARTS: u64 = 512;

impl BTree {
    /// Begins to fill the tree, which must be empty and which nobody else changes before [`Load::finish`].
    /// `expected`: entries to come; `sample`: some thousand of them.
    pub fn load(&self, unique: bool, expected: u64, sample: &[(Vec<u8>, Oid)]) -> Arc<dyn Load> {
        match self.shape() {
            KeyShape::Fixed(n) if n <= Short::WIDTH => {
                Loading::<Short>::begin(self, n, unique, expected, sample)
            }
            KeyShape::Fixed(n) if n <= Middle::WIDTH => {
                Loading::<Middle>::begin(self, n, unique, expected, sample)
            }
            _ => Loading::<Long>::begin(self, 0, unique, expected, sample),
        }
    }
}

/// A key and an OID, in the order of the tree. Keys are of one width, but for [`Long`].
trait Entry: Ord + Send + Sync + 'static {
    fn new(key: &[u8], oid: u64) -> Self;
    fn read<T>(&self, width: usize, f: impl FnOnce(&[u8], Oid) -> T) -> T;
    fn same_key(&self, other: &Self) -> bool;
    /// Bytes that it takes elsewhere.
    fn elsewhere(&self) -> usize {
        0
    }
}

/// The key's bytes from the top, the OID at the bottom.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Short(u128);
impl Short {
    const WIDTH: usize = 10;
}
impl Entry for Short {
    #[inline(always)]
    fn new(key: &[u8], oid: u64) -> Short {
        let mut b = [0; 16];
        b[..key.len()].copy_from_slice(key);
        Short(u128::from_be_bytes(b) | oid as u128)
    }
    #[inline(always)]
    fn read<T>(&self, width: usize, f: impl FnOnce(&[u8], Oid) -> T) -> T {
        f(&self.0.to_be_bytes()[..width], entry_oid(self.0 as u64 & Oid::MASK))
    }
    fn same_key(&self, other: &Short) -> bool {
        (self.0 ^ other.0) >> 48 == 0
    }
}

/// The same in three words.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Middle(u64, u64, u64);
impl Middle {
    const WIDTH: usize = 18;
}
impl Entry for Middle {
    #[inline(always)]
    fn new(key: &[u8], oid: u64) -> Middle {
        let w = |at| super::key::word_at(key, at);
        Middle(w(0), w(8), w(16) | oid)
    }
    #[inline(always)]
    fn read<T>(&self, width: usize, f: impl FnOnce(&[u8], Oid) -> T) -> T {
        let mut b = [0; 24];
        for (b, w) in b.chunks_exact_mut(8).zip([self.0, self.1, self.2]) {
            b.copy_from_slice(&w.to_be_bytes())
        }
        f(&b[..width], entry_oid(self.2 & Oid::MASK))
    }
    fn same_key(&self, other: &Middle) -> bool {
        self.0 == other.0 && self.1 == other.1 && (self.2 ^ other.2) >> 48 == 0
    }
}

/// A key of any length, and its first bytes where a comparison finds them at once.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Long {
    first: u64,
    key: Box<[u8]>,
    oid: u64,
}
impl Entry for Long {
    fn new(key: &[u8], oid: u64) -> Long {
        Long { first: super::key::word_at(key, 0), key: key.into(), oid }
    }
    fn read<T>(&self, _width: usize, f: impl FnOnce(&[u8], Oid) -> T) -> T {
        f(&self.key, entry_oid(self.oid))
    }
    fn same_key(&self, other: &Long) -> bool {
        self.key.cmp(&other.key) == Ordering::Equal
    }
    fn elsewhere(&self) -> usize {
        (self.key.len() + 8).next_multiple_of(16)
    }
}

/// Entries, charged (L2).
struct Block<E> {
    entries: Vec<E>,
    charged: usize,
    /// What of the charge is not used yet by bytes elsewhere.
    ahead: usize,
    budget: Arc<dyn Budget>,
}
impl<E: Entry> Block<E> {
    fn new(budget: &Arc<dyn Budget>, entries: usize) -> Result<Block<E>, OutOfMemory> {
        let bytes = entries * size_of::<E>();
        if !budget.charge(bytes) {
            return Err(OutOfMemory);
        }
        Ok(Block { entries: Vec::with_capacity(entries), charged: bytes, ahead: 0, budget: budget.clone() })
    }
    #[inline(always)]
    fn push(&mut self, e: E) -> Result<(), OutOfMemory> {
        let elsewhere = e.elsewhere();
        if elsewhere > self.ahead {
            let step = elsewhere.max(STEP);
            if !self.budget.charge(step) {
                return Err(OutOfMemory);
            }
            self.charged += step;
            self.ahead += step;
        }
        self.ahead -= elsewhere;
        self.entries.push(e);
        Ok(())
    }
}
impl<E> Drop for Block<E> {
    fn drop(&mut self) {
        self.budget.release(self.charged)
    }
}

struct Loading<E> {
    builder: Builder,
    budget: Arc<dyn Budget>,
    width: usize,
    /// Part i has what is below cut i and not below cut i - 1.
    cuts: Vec<E>,
    parts: Vec<Mutex<Part<E>>>,
}

struct Part<E> {
    blocks: Vec<Block<E>>,
    run: Option<Run>,
}

struct Gatherer<E: Entry> {
    load: Arc<Loading<E>>,
    /// By part.
    open: Vec<Option<Block<E>>>,
}

impl<E: Entry> Loading<E> {
    fn begin(
        tree: &BTree,
        width: usize,
        unique: bool,
        expected: u64,
        sample: &[(Vec<u8>, Oid)],
    ) -> Arc<dyn Load> {
        let mut sample: Vec<E> =
            sample.iter().map(|(k, o)| E::new(k, if unique { 0 } else { o.bits() })).collect();
        sample.sort_unstable();
        sample.dedup();
        let parts = (expected / PART).clamp(1, MOST_PARTS) as usize;
        // Cut i stands at i/parts of the sample; with few different keys there are fewer cuts.
        let (n, mut next) = (sample.len(), 1);
        let mut cuts = vec![];
        for (i, e) in sample.into_iter().enumerate() {
            if next < parts && i > 0 && i * parts >= next * n {
                cuts.push(e);
                next = i * parts / n + 1
            }
        }
        let parts = (0..=cuts.len()).map(|_| Mutex::new(Part { blocks: vec![], run: None })).collect();
        let builder = Builder::of(tree);
        Arc::new(Loading { budget: builder.budget(), builder, width, cuts, parts })
    }
}

impl<E: Entry> Gather for Gatherer<E> {
    #[inline]
    fn push(&mut self, key: &[u8], oid: Oid) -> Result<(), OutOfMemory> {
        let e = E::new(key, oid.bits() & Oid::MASK);
        let part = self.load.cuts.partition_point(|c| *c <= e);
        match &mut self.open[part] {
            Some(b) if b.entries.len() < BLOCK => b.push(e),
            open => {
                let mut fresh = Block::new(&self.load.budget, BLOCK)?;
                fresh.push(e)?;
                if let Some(full) = open.replace(fresh) {
                    self.load.parts[part].lock().blocks.push(full)
                }
                Ok(())
            }
        }
    }
}
impl<E: Entry> Drop for Gatherer<E> {
    fn drop(&mut self) {
        for (block, part) in self.open.drain(..).zip(&self.load.parts) {
            if let Some(b) = block {
                part.lock().blocks.push(b)
            }
        }
    }
}

impl<E: Entry> Load for Loading<E> {
    fn gatherer(self: Arc<Self>) -> Box<dyn Gather> {
        let open = self.parts.iter().map(|_| None).collect();
        Box::new(Gatherer { load: self, open })
    }
    fn parts(&self) -> usize {
        self.parts.len()
    }
    fn part(&self, part: usize, mut twins: Option<&mut Twins<'_>>) -> Result<u64, BulkError> {
        let blocks = std::mem::take(&mut self.parts[part].lock().blocks);
        let n = blocks.iter().map(|b| b.entries.len()).sum();
        // All in one piece, and the room that sorting takes.
        let mut all = Block::<E>::new(&self.budget, 2 * n)?;
        all.entries = Vec::with_capacity(n);
        for mut b in blocks {
            all.entries.append(&mut b.entries);
            // What lies elsewhere stays charged with the entries.
            all.charged += std::mem::replace(&mut b.charged, BLOCK * size_of::<E>()) - BLOCK * size_of::<E>();
        }
        // The stable sort knows runs when it meets them.
        all.entries.sort();
        all.entries.dedup();
        let mut run = self.builder.run();
        for e in &all.entries {
            e.read(self.width, |key, oid| run.push(key, oid))?
        }
        if let Some(twins) = &mut twins {
            for pair in all.entries.chunk_by(E::same_key).filter(|c| c.len() > 1) {
                for (i, e) in pair.iter().enumerate() {
                    e.read(self.width, |key, oid| twins(key, oid, i == 0))
                }
            }
        }
        self.parts[part].lock().run = Some(run);
        Ok(all.entries.len() as u64)
    }
    fn finish(&self) -> Result<(), BulkError> {
        let runs = self.parts.iter().filter_map(|p| p.lock().run.take()).collect();
        self.builder.string(runs)
    }
}
