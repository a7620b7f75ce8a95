//! A tree built from all of its entries at once: sort-tile-recursive (Leutenegger, López, Edgington, ICDE
//! 1997). Sorted by the first dimension, the points are cut into slabs, each slab by the second dimension,
//! and so on; what is cut last are leaves. It goes by ranks alone, so that units do not matter.
use super::grid::to_word;
use super::node::{Columns, Item};
use super::{CrTree, Keys, MOST, Rect, Tree};
use crate::{Budget, OutOfMemory};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A point of D dimensions, and the bits of an OID.
#[derive(Clone, Copy, Debug)]
pub struct Entry<const D: usize> {
    pub at: [f64; D],
    pub word: u64,
}

/// How many entries a node gets: the next ones shall not split it.
fn filled(columns: &Columns) -> usize {
    columns.capacity - columns.capacity / 16
}

/// Cuts points into runs of `most` at most, and hands these out.
fn tile<const D: usize>(
    entries: &mut [Entry<D>],
    d: usize,
    most: usize,
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
    let slabs = (runs as f64).powf(1.0 / (D - d) as f64).ceil() as usize;
    let each = entries.len().div_ceil(slabs);
    entries.chunks_mut(each).try_for_each(|slab| tile(slab, d + 1, most, put))
}

impl CrTree {
    /// A tree of these entries, whose coordinates are such as [`super::coordinate`] gives.
    ///
    /// # Panics
    /// If D is not 1 to 6, or `bits` not 8, 16 or 64.
    pub fn bulk<const D: usize>(
        bits: u32,
        keys: Arc<dyn Keys>,
        budget: Arc<dyn Budget>,
        mut entries: Vec<Entry<D>>,
    ) -> Result<CrTree, OutOfMemory> {
        let tree = Tree::new(D, bits, keys, budget)?;
        let form = tree.form;
        let count = entries.len();
        let mut level = 0;
        loop {
            let mut above = Vec::with_capacity(entries.len() / filled(form.of(level)) + 1);
            let mut items = Vec::new();
            tile(&mut entries, 0, filled(form.of(level)), &mut |run| {
                let node = tree.alloc(level)?;
                items.clear();
                items.extend(run.iter().map(|e| tree.item(level, e)));
                node.fill(&form, level, &items, &[i32::MIN; MOST]);
                let rect = node.rect(&form);
                let middle = |d: usize| rect.low[d] * 0.5 + rect.high[d] * 0.5;
                above.push(Entry { at: std::array::from_fn(middle), word: u64::from(node.line) });
                Ok(())
            })?;
            match above[..] {
                [] => tree.root.store(tree.alloc(0)?.line, Ordering::Release),
                [root] => tree.root.store(root.word as u32, Ordering::Release),
                _ => {
                    (entries, level) = (above, level + 1);
                    continue;
                }
            }
            break;
        }
        tree.entries.add(0, count as i64);
        Ok(CrTree { tree: Arc::new(tree) })
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
