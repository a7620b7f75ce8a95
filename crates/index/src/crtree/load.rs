//! A tree built from all of its entries at once: sort-tile-recursive (Leutenegger, López, Edgington, ICDE
//! 1997). By the first dimension the points are cut into slabs, each slab by the second dimension, and so on;
//! what is cut last are leaves. It goes by ranks alone, so that units do not matter.
//!
//! ```text
//! sample ──> cuts             parts of about equal size by the first dimension, before anything is gathered
//! Gatherer, one a thread      each point goes to its part
//! Load::part, on any thread   a part becomes slabs of the whole tree's width, and leaves
//! Load::finish                the levels above
//! ```
//! - **L1** What is gathered is charged, and given back part by part as leaves take its place.
//! - **L2** Nodes that were made go back unless the tree is finished.
use super::grid::{from_word, to_word};
use super::node::{Columns, Item};
use super::{CrTree, Keys, MOST, Rect, Tree};
use crate::latch::SpareNodes;
use crate::load::{BulkError, Gather, Load, Twins};
use crate::{Budget, OutOfMemory};
use ondol_base::oid::Oid;
use ondol_base::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A point of D dimensions, and the bits of an OID or the line of a node.
#[derive(Clone, Copy, Debug)]
pub struct Entry<const D: usize> {
    pub at: [f64; D],
    pub word: u64,
}

/// Points of a part to aim at.
const PART: u64 = 64 << 10;
const MOST_PARTS: u64 = 256;
/// Points that a thread hands on at once.
const BLOCK: usize = 256;

/// How many entries a node gets: the next ones shall not split it.
fn filled(columns: &Columns) -> usize {
    columns.capacity - columns.capacity / 16
}

/// Cuts points into runs of `most` at most, and hands these out. `slabs`: how many the first cut makes.
fn tile<const D: usize>(
    entries: &mut [Entry<D>],
    d: usize,
    most: usize,
    slabs: Option<usize>,
    put: &mut impl FnMut(&[Entry<D>]) -> Result<(), OutOfMemory>,
) -> Result<(), OutOfMemory> {
    let runs = entries.len().div_ceil(most);
    if runs > 1 {
        entries.sort_unstable_by_key(|e| to_word(e.at[d]));
    }
    if runs <= 1 || d + 1 == D {
        // All of about one length.
        let mut rest = &*entries;
        for left in (1..=runs).rev() {
            let (run, after) = rest.split_at(rest.len().div_ceil(left));
            put(run)?;
            rest = after
        }
        return Ok(());
    }
    let slabs = slabs.unwrap_or_else(|| slabs_of(runs as f64, D - d) as usize).max(1);
    let each = entries.len().div_ceil(slabs);
    entries.chunks_mut(each).try_for_each(|slab| tile(slab, d + 1, most, None, put))
}

/// Into how many slabs so many runs are cut by the first of some dimensions.
fn slabs_of(runs: f64, dimensions: usize) -> f64 {
    runs.powf(1.0 / dimensions as f64).ceil()
}

/// Points, charged (L1).
struct Pile<const D: usize> {
    entries: Vec<Entry<D>>,
    charged: usize,
    budget: Arc<dyn Budget>,
}

impl<const D: usize> Pile<D> {
    fn new(budget: Arc<dyn Budget>) -> Pile<D> {
        Pile { entries: vec![], charged: 0, budget }
    }
    /// Charges room for more; false where that is refused.
    fn reserve(&mut self, more: usize) -> bool {
        let (have, room) = (self.entries.len(), self.entries.capacity());
        if have + more <= room {
            return true;
        }
        let wanted = (have + more).max(room + room / 2);
        let bytes = (wanted - room) * size_of::<Entry<D>>();
        let is_charged = self.budget.charge(bytes);
        if is_charged {
            self.charged += bytes;
            self.entries.reserve_exact(wanted - have)
        }
        is_charged
    }
}
impl<const D: usize> Drop for Pile<D> {
    fn drop(&mut self) {
        self.budget.release(self.charged)
    }
}

struct Loading<const D: usize> {
    tree: Arc<Tree>,
    /// Part i has what is below cut i and not below cut i - 1, as words.
    cuts: Vec<u64>,
    parts: Vec<Mutex<Pile<D>>>,
    /// Points that were gathered.
    count: AtomicU64,
    made: Mutex<Made<D>>,
}

/// The nodes made so far.
#[derive(Default)]
struct Made<const D: usize> {
    /// All of them, to go back (L2).
    nodes: Vec<u32>,
    /// Of the level that was made last, each by the middle of its rectangle.
    level: Vec<Entry<D>>,
    entries: u64,
}

struct Gatherer<const D: usize> {
    load: Arc<Loading<D>>,
    /// By part.
    open: Vec<Vec<Entry<D>>>,
}

impl<const D: usize> Loading<D> {
    fn begin(tree: &Arc<Tree>, expected: u64, sample: &[(Vec<u8>, Oid)]) -> Loading<D> {
        let first = |key: &[u8]| key.first_chunk().map(|word| u64::from_be_bytes(*word));
        let mut sample: Vec<u64> = sample.iter().filter_map(|(key, _)| first(key)).collect();
        sample.sort_unstable();
        let parts = (expected / PART).clamp(1, MOST_PARTS) as usize;
        let mut cuts: Vec<u64> = match sample.is_empty() {
            true => vec![],
            false => (1..parts).map(|i| sample[i * sample.len() / parts]).collect(),
        };
        // With few different coordinates there are fewer cuts.
        cuts.dedup();
        let parts = (0..=cuts.len()).map(|_| Mutex::new(Pile::new(tree.budget.clone()))).collect();
        Loading { tree: tree.clone(), cuts, parts, count: AtomicU64::new(0), made: Mutex::default() }
    }

    /// Makes nodes of one level, and gives them by their middles.
    fn level(
        &self,
        level: u32,
        entries: &mut [Entry<D>],
        slabs: Option<usize>,
    ) -> Result<Vec<Entry<D>>, OutOfMemory> {
        let form = &self.tree.form;
        let most = filled(form.of(level));
        let mut above = Vec::with_capacity(entries.len() / most + 1);
        let mut items = Vec::with_capacity(most);
        let (mut nodes, mut count) = (vec![], 0);
        let made = tile(entries, 0, most, slabs, &mut |run| {
            let node = self.tree.alloc(level)?;
            nodes.push(node.line);
            items.clear();
            items.extend(run.iter().map(|e| self.tree.item(level, e)));
            node.fill(form, level, &mut items, &[i32::MIN; MOST]);
            count += node.count() as u64;
            let rect = node.rect(form);
            let middle = |d: usize| rect.low[d] * 0.5 + rect.high[d] * 0.5;
            above.push(Entry { at: std::array::from_fn(middle), word: u64::from(node.line) });
            Ok(())
        });
        let mut all = self.made.lock();
        all.nodes.append(&mut nodes);
        if level == 0 {
            all.entries += count
        }
        made.map(|()| above)
    }
}

impl<const D: usize> Gather for Gatherer<D> {
    fn push(&mut self, key: &[u8], oid: Oid) -> Result<(), OutOfMemory> {
        let (words, _) = key.as_chunks::<8>();
        // A key without bytes has no entry.
        let Ok(words) = <&[[u8; 8]; D]>::try_from(words) else { return Ok(()) };
        let words = words.map(u64::from_be_bytes);
        let part = self.load.cuts.partition_point(|cut| *cut <= words[0]);
        let open = &mut self.open[part];
        open.push(Entry { at: words.map(from_word), word: oid.bits() });
        if open.len() == BLOCK {
            let mut pile = self.load.parts[part].lock();
            if !pile.reserve(BLOCK) {
                return Err(OutOfMemory);
            }
            self.load.count.fetch_add(BLOCK as u64, Ordering::AcqRel);
            pile.entries.append(open)
        }
        Ok(())
    }
}

impl<const D: usize> Drop for Gatherer<D> {
    fn drop(&mut self) {
        for (open, part) in self.open.iter_mut().zip(&self.load.parts) {
            self.load.count.fetch_add(open.len() as u64, Ordering::AcqRel);
            let mut pile = part.lock();
            // Less than a block is not worth failing for.
            pile.reserve(open.len());
            pile.entries.append(open)
        }
    }
}
impl<const D: usize> Drop for Loading<D> {
    fn drop(&mut self) {
        self.made.lock().nodes.iter().for_each(|line| self.tree.give_back(self.tree.node(*line)))
    }
}

impl<const D: usize> Load for Loading<D> {
    fn gatherer(self: Arc<Self>) -> Box<dyn Gather> {
        let open = self.parts.iter().map(|_| Vec::with_capacity(BLOCK)).collect();
        Box::new(Gatherer { load: self, open })
    }
    fn parts(&self) -> usize {
        self.parts.len()
    }
    fn part(&self, part: usize, _: Option<&mut Twins<'_>>) -> Result<u64, BulkError> {
        let mut pile = std::mem::replace(&mut *self.parts[part].lock(), Pile::new(self.tree.budget.clone()));
        let (own, all) = (pile.entries.len(), self.count.load(Ordering::Acquire));
        // As many slabs as this part has of those of the whole tree.
        let runs = all as f64 / filled(&self.tree.form.leaf) as f64;
        let slabs = (slabs_of(runs.ceil(), D) * own as f64 / all as f64).round() as usize;
        let mut above = self.level(0, &mut pile.entries, Some(slabs))?;
        self.made.lock().level.append(&mut above);
        Ok(own as u64)
    }
    fn finish(&self) -> Result<(), BulkError> {
        let mut nodes = std::mem::take(&mut self.made.lock().level);
        for level in 1.. {
            match nodes[..] {
                [] => return Ok(()),
                [Entry { word: root, .. }] => {
                    let before = self.tree.root.swap(root as u32, Ordering::AcqRel);
                    self.tree.give_back(self.tree.node(before));
                    let made = std::mem::take(&mut *self.made.lock());
                    self.tree.entries.add(0, made.entries as i64);
                    break;
                }
                _ => nodes = self.level(level, &mut nodes, None)?,
            }
        }
        Ok(())
    }
}

impl CrTree {
    /// Begins to fill the tree, which must be empty and which nobody else changes before [`Load::finish`].
    /// `expected`: entries to come; `sample`: some thousand of them.
    pub fn load(&self, expected: u64, sample: &[(Vec<u8>, Oid)]) -> Arc<dyn Load> {
        fn of<const D: usize>(tree: &CrTree, expected: u64, sample: &[(Vec<u8>, Oid)]) -> Arc<dyn Load> {
            Arc::new(Loading::<D>::begin(&tree.tree, expected, sample))
        }
        match self.dimensions() {
            1 => of::<1>(self, expected, sample),
            2 => of::<2>(self, expected, sample),
            3 => of::<3>(self, expected, sample),
            4 => of::<4>(self, expected, sample),
            5 => of::<5>(self, expected, sample),
            _ => of::<6>(self, expected, sample),
        }
    }
    /// A tree of these entries.
    ///
    /// # Panics
    /// If D is not 1 to 6, or `bits` not 8, 16 or 64.
    pub fn bulk<const D: usize>(
        bits: u32,
        keys: Arc<dyn Keys>,
        budget: Arc<dyn Budget>,
        entries: Vec<Entry<D>>,
    ) -> Result<CrTree, OutOfMemory> {
        let tree = CrTree::new(D, bits, keys, budget)?;
        let load = Loading::<D>::begin(&tree.tree, 0, &[]);
        load.count.store(entries.len() as u64, Ordering::Release);
        load.parts[0].lock().entries = entries;
        match load.part(0, None).and_then(|_| load.finish()) {
            Ok(()) => Ok(tree),
            Err(_) => Err(OutOfMemory),
        }
    }
}

impl Tree {
    fn item<const D: usize>(&self, level: u32, e: &Entry<D>) -> Item {
        let mut rect = Rect::ZERO;
        if level > 0 {
            rect = self.node(e.word as u32).rect(&self.form)
        } else {
            rect.low[..D].copy_from_slice(&e.at);
            rect.high[..D].copy_from_slice(&e.at)
        }
        Item { rect, word: e.word }
    }
}
