//! Building a tree from sorted entries: leaves first, filled to the fifteenth sixteenth, then the levels
//! above.
//!
//! Several threads may each fill a [`Run`] of leaves; [`Builder::finish`] strings the runs together. Nobody
//! sees the tree before.
use super::key::Position;
use super::node::{Columns, Node};
use super::{BTree, Blob, KeyShape, Probe, SHORT, Tree, WORDS};
use crate::latch::SpareNodes;
use crate::load::BulkError;
use crate::{Budget, OutOfMemory};
use ondol_base::oid::Oid;
use std::cmp::Ordering::Less;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A tree under construction. Dropped, it gives back all it took.
pub struct Builder {
    tree: Arc<Tree>,
}

/// A node and the separator to its left.
type Piece = (Node, [u64; WORDS], u64);

/// A run of leaves that one thread fills.
pub struct Run {
    tree: Arc<Tree>,
    leaves: Leaves,
    /// Taken over by the tree.
    used: bool,
}

struct Leaves {
    pieces: Vec<Piece>,
    leaf: Node,
    count: usize,
    full: usize,
    first: Position,
    last: Position,
    entries: i64,
}

fn filled(columns: &Columns) -> usize {
    columns.capacity - columns.capacity / 16
}

impl BTree {
    /// A tree of sorted entries, each above the one before by key, then OID.
    pub fn bulk<'k>(
        shape: KeyShape,
        budget: Arc<dyn Budget>,
        entries: impl IntoIterator<Item = (&'k [u8], Oid)>,
    ) -> Result<BTree, BulkError> {
        let builder = BTree::builder(shape, budget)?;
        let mut run = builder.run();
        for (key, oid) in entries {
            run.push(key, oid)?
        }
        builder.finish(vec![run])
    }
    pub fn builder(shape: KeyShape, budget: Arc<dyn Budget>) -> Result<Builder, OutOfMemory> {
        Ok(Builder { tree: Arc::new(Tree::new(shape, budget)?) })
    }
}

impl Run {
    /// Adds an entry above all before it.
    #[inline]
    pub fn push(&mut self, key: &[u8], oid: Oid) -> Result<(), BulkError> {
        self.leaves.push(&self.tree, key, oid)
    }
}

impl Leaves {
    #[inline(always)]
    fn push(&mut self, tree: &Tree, key: &[u8], oid: Oid) -> Result<(), BulkError> {
        let form = &tree.form;
        let p = tree.place(key, oid.bits());
        if self.entries > 0 && self.last.cmp(form.words, &p) != Less {
            return Err(BulkError::NotSorted);
        }
        if self.count == self.full || self.leaf.is_none() {
            self.next_leaf(tree, &p)?;
        }
        let mut words = p.words;
        if form.variable {
            words[form.words] = if p.is_long() { tree.blobs.alloc(p.rest)?.0 } else { p.len };
        }
        self.leaf.set_entry(form, &form.leaf, self.count, &words, oid.bits());
        self.count += 1;
        self.entries += 1;
        self.last.set(&p);
        Ok(())
    }

    #[inline(never)]
    fn next_leaf(&mut self, tree: &Tree, p: &Probe<'_>) -> Result<(), BulkError> {
        self.close();
        let leaf = tree.alloc(0)?;
        if self.pieces.is_empty() {
            // The separator before a run is made when it is strung to another.
            self.first.set(p);
            self.pieces.push((leaf, [0; WORDS], 0));
        } else {
            let mut right = Position::default();
            right.set(p);
            let (words, oid) = match tree.separator(&self.last, &right) {
                Ok(s) => s,
                Err(e) => {
                    tree.give_back(leaf);
                    return Err(e.into());
                }
            };
            self.leaf.set(2, leaf.to_word());
            self.pieces.push((leaf, words, oid));
        }
        self.leaf = leaf;
        self.count = 0;
        Ok(())
    }

    fn close(&mut self) {
        if !self.leaf.is_none() {
            self.leaf.set_meta(self.count, 0)
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.used {
            self.leaves.close();
            for p in &self.leaves.pieces {
                free_piece(&self.tree, p)
            }
        }
    }
}

/// Frees a piece that did not become part of a tree: its blobs, and its nodes for others to use.
fn free_piece(tree: &Tree, piece: &Piece) {
    if tree.form.variable {
        tree.free_blobs(piece.0);
        let tail = piece.1[tree.form.words];
        if tail > SHORT as u64 {
            // SAFETY: no node has this separator.
            unsafe { tree.blobs.free(Blob(tail)) }
        }
    }
    give_back_all(tree, piece.0)
}

fn give_back_all(tree: &Tree, node: Node) {
    if node.level() > 0 {
        (0..=node.count()).for_each(|i| give_back_all(tree, node.child(&tree.form, i)))
    }
    tree.give_back(node)
}

impl Builder {
    /// A run to be filled by one thread, and given to [`Builder::finish`] in its place.
    pub fn run(&self) -> Run {
        Run {
            tree: self.tree.clone(),
            leaves: Leaves {
                pieces: Vec::new(),
                leaf: Node::NONE,
                count: 0,
                full: filled(&self.tree.form.leaf),
                first: Position::default(),
                last: Position::default(),
                entries: 0,
            },
            used: false,
        }
    }

    /// A builder of a tree that is there already, and empty.
    pub(super) fn of(tree: &BTree) -> Builder {
        Builder { tree: tree.tree.clone() }
    }
    pub(super) fn budget(&self) -> Arc<dyn Budget> {
        self.tree.blobs.budget.clone()
    }

    /// Strings the runs together in the order given, and builds what is above them.
    pub fn finish(self, runs: Vec<Run>) -> Result<BTree, BulkError> {
        self.string(runs)?;
        Ok(BTree { tree: self.tree })
    }

    /// As [`Builder::finish`]; the tree has what the runs have from then on.
    pub(super) fn string(&self, runs: Vec<Run>) -> Result<(), BulkError> {
        let tree = &self.tree;
        let mut runs: Vec<Run> = runs.into_iter().filter(|r| r.leaves.entries > 0).collect();
        // Leaves of another builder are other memory.
        let strange = runs.iter().any(|r| !Arc::ptr_eq(&r.tree, tree));
        let mut pairs = runs.windows(2).map(|r| (&r[0].leaves.last, &r[1].leaves.first));
        if strange || pairs.any(|(a, b)| a.cmp(tree.form.words, &b.probe()) != Less) {
            return Err(BulkError::NotSorted);
        }
        for i in 1..runs.len() {
            let (words, oid) = tree.separator(&runs[i - 1].leaves.last, &runs[i].leaves.first)?;
            let piece = &mut runs[i].leaves.pieces[0];
            (piece.1, piece.2) = (words, oid);
        }
        let mut pieces: Vec<Piece> = Vec::new();
        let mut previous = Node::NONE;
        for run in &mut runs {
            let leaves = &mut run.leaves;
            leaves.close();
            let first = leaves.pieces[0].0;
            if !previous.is_none() {
                previous.set(2, first.to_word())
            }
            previous = leaves.leaf;
            tree.entries.add(pieces.len() as u64, leaves.entries);
            pieces.append(&mut leaves.pieces);
            run.used = true;
        }
        if pieces.is_empty() {
            pieces.push((tree.alloc(0)?, [0; WORDS], 0))
        }
        let mut level = 1;
        while pieces.len() > 1 {
            match raise(tree, &pieces, level) {
                Ok(above) => pieces = above,
                Err(e) => {
                    pieces.iter().for_each(|p| free_piece(tree, p));
                    return Err(e.into());
                }
            }
            level += 1;
        }
        let before = Node(tree.root.swap(pieces[0].0.0.cast_mut(), Ordering::AcqRel));
        if !before.is_none() {
            debug_assert!(
                before.level() == 0 && before.count() == 0,
                "bulk loading into a tree with entries"
            );
            tree.give_back(before)
        }
        Ok(())
    }
}

/// The inner nodes over a row of nodes. Refused, the row is as it was.
fn raise(tree: &Tree, below: &[Piece], level: u32) -> Result<Vec<Piece>, OutOfMemory> {
    let form = &tree.form;
    // Even shares, so that the last node is not nearly empty.
    let most = filled(&form.inner) + 1;
    let parts = below.len().div_ceil(most);
    let mut above: Vec<Piece> = Vec::with_capacity(parts);
    for i in 0..parts {
        let node = match tree.alloc(level) {
            Ok(n) => n,
            Err(e) => {
                above.iter().for_each(|p| tree.give_back(p.0));
                return Err(e);
            }
        };
        let share = &below[below.len() * i / parts..below.len() * (i + 1) / parts];
        for (j, (child, words, oid)) in share.iter().enumerate() {
            node.set(form.inner.children + j, child.to_word());
            if j > 0 {
                node.set_entry(form, &form.inner, j - 1, words, *oid)
            }
        }
        node.set_meta(share.len() - 1, level);
        above.push((node, share[0].1, share[0].2));
    }
    Ok(above)
}
