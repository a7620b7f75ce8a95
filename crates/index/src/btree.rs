//! A B+-tree over normalised keys, with optimistic lock coupling.
//!
//! Entries are pairs (key, OID) in the order of the key's bytes, then of the OID, in nodes of fixed size
//! (layout: [`node`], keys: [`key`]).
//!
//! - **B1** A reader goes down from version to version: it reads the child's version, then checks the
//!   parent's, and only then believes what it read in the parent (optimistic lock coupling: Leis,
//!   Haubenschild, Kemper, Neumann, IEEE Data Eng. Bull. 2019; OLFIT before it). It never waits for more than
//!   a latched node.
//! - **B2** A writer latches only by replacing the version it read (never waits with a latch in hand, so
//!   there is no deadlock), from the top down; whatever can be refused is asked for before the first change.
//! - **B3** The leaves part the whole range of keys without a gap at any time. A leaf's lower bound never
//!   changes; its upper bound changes only with its version, by a split or by taking in an empty neighbour to
//!   the right, whose version changes too. So an insert into a range changes the version of a leaf that any
//!   earlier scan of the range has seen: the one it goes to covered the place then, or was split off one that
//!   did, or took in one that did.
//! - **B4** Full inner nodes are split on the way down, so that a parent has room for a child's separator.
//! - **B5** What a change does to the versions of leaves is told to its own transaction ([`Moved`]) with the
//!   nodes latched: a split leaf goes on as itself and the new one, an unlinked leaf as the neighbour that
//!   took its range.
//!
//! Splits at the right end of the tree leave the left node nearly full, so that ascending keys fill nodes. An
//! emptied leaf goes to its left neighbour's range if both have one parent, and its memory serves as another
//! leaf; the first leaf of a parent stays, and inner nodes stay. So a tree used as a queue keeps one inner
//! and one leaf node of each run of children that it has used up.
//!
//! Equal keys: n OIDs under one key are n entries in order of their OIDs; nothing degrades.
use crate::latch::{self, Changed, Checked, Latched, Spare, SpareNodes, Versioned};
use crate::load::Load;
use crate::{Budget, Dead, Index, Moved, Moves, OutOfMemory, Seen, entry_oid, slab::Slab, stripes::Stripes};
use key::{Blob, BlobHeap, Position, Probe, SHORT, WORDS};
use node::{Form, Node};
use ondol_base::epoch::Guard;
use ondol_base::oid::Oid;
use ondol_base::sync::{Mutex, spin_wait, yield_point};
use std::cmp;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

mod bulk;
mod cursor;
mod key;
mod load;
mod node;
mod verify;
pub use bulk::{Builder, Run};
pub use cursor::{Cursor, Direction, Range};
pub use key::{KeyShape, prefix_successor};

/// A handle; cursors hold the tree itself.
pub struct BTree {
    tree: Arc<Tree>,
}

pub(crate) struct Tree {
    form: Form,
    shape: KeyShape,
    root: AtomicPtr<AtomicU64>,
    nodes: Slab,
    /// Lines that were leaves (btree/node/N1).
    spare_leaves: Mutex<Vec<Node>>,
    spare_inner: Mutex<Vec<Node>>,
    blobs: Arc<BlobHeap>,
    entries: Stripes,
}

/// The path's last inner node, the version it had, and which child was taken.
type Parent = Option<(Node, u64, usize)>;

impl BTree {
    pub fn new(shape: KeyShape, budget: Arc<dyn Budget>) -> Result<BTree, OutOfMemory> {
        let tree = Tree::new(shape, budget)?;
        let root = tree.alloc(0)?;
        tree.root.store(root.0.cast_mut(), Ordering::Release);
        Ok(BTree { tree: Arc::new(tree) })
    }
    pub fn shape(&self) -> KeyShape {
        self.tree.shape
    }
    /// A new cursor over a range of keys; see [`Cursor::seek`] for using one again.
    pub fn cursor(&self, range: Range<'_>, direction: Direction) -> Cursor {
        let mut c = Cursor::new();
        c.seek(self, range.0, range.1, direction);
        c
    }
    /// Calls `f` with the OIDs under `key` in their order, each once, until it says false.
    #[inline]
    pub fn probe(&self, guard: &Guard<'_>, key: &[u8], f: &mut impl FnMut(Oid) -> bool) {
        self.tree.probe(guard, key, &mut |oid| f(entry_oid(oid)), None)
    }
    /// Asks for the root's lines.
    #[inline]
    pub fn prefetch(&self) {
        self.tree.root().prefetch(&self.tree.form.inner)
    }
    /// Levels of nodes.
    pub fn height(&self) -> u32 {
        self.tree.root().level() + 1
    }
}

impl Tree {
    fn new(shape: KeyShape, budget: Arc<dyn Budget>) -> Result<Tree, OutOfMemory> {
        let form = match shape {
            KeyShape::Fixed(n) if n <= 8 * WORDS => Form::new(n.div_ceil(8).max(1), false),
            _ => Form::new(SHORT / 8, true),
        };
        if !budget.charge(size_of::<Tree>()) {
            return Err(OutOfMemory);
        }
        Ok(Tree {
            form,
            shape,
            root: AtomicPtr::default(),
            nodes: Slab::new(form.shift, 1, budget.clone()),
            spare_leaves: Mutex::default(),
            spare_inner: Mutex::default(),
            blobs: Arc::new(BlobHeap { budget, bytes: AtomicUsize::new(0) }),
            entries: Stripes::default(),
        })
    }

    /// The length of every key, in a tree of fixed words.
    fn fixed_bytes(&self) -> usize {
        match self.shape {
            KeyShape::Fixed(n) => n,
            KeyShape::Variable => 0,
        }
    }

    #[inline(always)]
    fn root(&self) -> Node {
        Node(self.root.load(Ordering::Acquire))
    }

    /// The place of (key, oid).
    ///
    /// # Panics
    /// If the tree has keys of a fixed length and this one has another: the caller's key encoder is wrong,
    /// and going on would lose entries.
    #[inline(always)]
    fn place<'a>(&self, key: &'a [u8], oid: u64) -> Probe<'a> {
        if let KeyShape::Fixed(n) = self.shape {
            assert!(key.len() == n, "index keys have {n} bytes, got one of {}", key.len())
        }
        Probe::new(self.form.words, self.form.variable, key, oid)
    }

    /// A node of a level that nobody can reach yet, empty.
    fn alloc(&self, level: u32) -> Result<Node, OutOfMemory> {
        let spare = if level == 0 { &self.spare_leaves } else { &self.spare_inner };
        let reused = spare.lock().pop();
        let node = match reused {
            Some(n) => n,
            None => Node(self.nodes.line(self.nodes.alloc()?)),
        };
        // A leaf that is used again has another version than whoever remembers it has seen.
        node.set(0, node.get(0) + 2);
        node.set(2, 0);
        node.set_meta(0, level);
        Ok(node)
    }

    /// The root and its version.
    #[inline(always)]
    fn top(&self) -> Checked<(Node, u64)> {
        let node = self.root();
        let version = latch::read(node.version());
        // The old root, once split, is no root any more.
        if self.root() == node { Ok((node, version)) } else { Err(Changed) }
    }

    /// The child `i` of an inner node, and its version (B1).
    #[inline(always)]
    fn down(&self, node: Node, version: u64, i: usize, level: u32) -> Checked<(Node, u64)> {
        let child = node.child(&self.form, i);
        if child.is_none() {
            return Err(Changed);
        }
        child.prefetch(self.form.of(level - 1));
        yield_point();
        // btree/node/N1 lets the version be read before the parent is checked.
        let v = latch::read(child.version());
        node.check(version)?;
        Ok((child, v))
    }

    /// Which child holds the place of the probe itself.
    #[inline(always)]
    fn branch(&self, node: Node, count: usize, p: &Probe<'_>, version: u64) -> Checked<usize> {
        let after = Probe { oid: p.oid.saturating_add(1), ..*p };
        node.lower_bound(&self.form, &self.form.inner, count, &after, version)
    }

    /// The leaf that holds the place of the probe.
    #[inline(always)]
    fn leaf_of(&self, p: &Probe<'_>) -> Checked<(Node, u64)> {
        let (mut node, mut version) = self.top()?;
        loop {
            let level = node.level();
            if level == 0 {
                return Ok((node, version));
            }
            let i = self.branch(node, node.count(), p, version)?;
            (node, version) = self.down(node, version, i, level)?;
        }
    }

    /// Goes down to the parent of the probe's leaf, and asks for the leaf.
    fn approach(&self, p: &Probe<'_>) -> Checked<()> {
        let (mut node, mut version) = self.top()?;
        loop {
            let level = node.level();
            if level == 0 {
                return Ok(());
            }
            let i = self.branch(node, node.count(), p, version)?;
            if level == 1 {
                let leaf = node.child(&self.form, i);
                // A hint only: it need not be a leaf any more, or may be none.
                leaf.prefetch(&self.form.leaf);
                return Ok(());
            }
            (node, version) = self.down(node, version, i, level)?;
        }
    }

    /// Tries until nothing changed meanwhile.
    #[inline(always)]
    fn retry<T>(&self, mut attempt: impl FnMut() -> Checked<T>) -> T {
        let mut turns = 0;
        loop {
            if let Ok(t) = attempt() {
                return t;
            }
            spin_wait(turns);
            turns += 1;
        }
    }

    /// Hands out the OIDs under a key, and remembers each leaf at the version at which it gave any, or none.
    #[inline]
    fn probe(
        &self,
        _guard: &Guard<'_>,
        key: &[u8],
        f: &mut impl FnMut(u64) -> bool,
        mut seen: Option<&mut Vec<Seen>>,
    ) {
        let mut p = self.place(key, 0);
        self.retry(|| self.probe_from(&mut p, f, &mut seen))
    }

    /// Moves the probe on behind what was handed out, so that a new attempt goes on from there.
    #[inline(always)]
    fn probe_from(
        &self,
        p: &mut Probe<'_>,
        f: &mut impl FnMut(u64) -> bool,
        seen: &mut Option<&mut Vec<Seen>>,
    ) -> Checked<()> {
        const BATCH: usize = 16;
        let form = &self.form;
        let (mut leaf, mut version) = self.leaf_of(p)?;
        let mut count = leaf.count();
        let mut at = leaf.lower_bound(form, &form.leaf, count, p, version)?;
        loop {
            let mut oids = [0u64; BATCH];
            let mut n = 0;
            while at < count
                && n < BATCH
                && leaf.compare_key(form, &form.leaf, at, p, version)? == cmp::Ordering::Equal
            {
                oids[n] = leaf.get(form.leaf.oids + at);
                n += 1;
                at += 1;
            }
            // At the end of a leaf the key may go on, or begin, in the next one (B1).
            let next = if at == count { leaf.next() } else { Node::NONE };
            let next_version = if next.is_none() { 0 } else { latch::read(next.version()) };
            leaf.check(version)?;
            if let Some(seen) = seen {
                let this = leaf.seen(version);
                if seen.last() != Some(&this) {
                    seen.push(this)
                }
            }
            for &oid in &oids[..n] {
                p.oid = oid + 1;
                if !f(oid) {
                    return Ok(());
                }
            }
            if !next.is_none() {
                (leaf, version, at) = (next, next_version, 0);
                count = leaf.count();
            } else if n < BATCH {
                return Ok(());
            }
        }
    }

    /// Puts an entry in; if `alone`, only where nothing else stands under the key (see
    /// [`Index::insert_alone`]). False if it was not put in.
    fn insert(&self, key: &[u8], oid: u64, alone: bool, mut moves: Moves<'_>) -> Result<bool, OutOfMemory> {
        let p = self.place(key, oid);
        let mut words = p.words;
        if self.form.variable {
            words[self.form.words] = if p.is_long() { self.blobs.alloc(p.rest)?.0 } else { p.len };
        }
        let mut turns = 0;
        let done = loop {
            match self.try_insert(&p, &words, alone, &mut moves) {
                Ok(Ok(done)) => break Ok(done),
                Ok(Err(e)) => break Err(e),
                Err(Changed) => spin_wait(turns),
            }
            turns += 1;
        };
        let stored = matches!(done, Ok(true));
        if !stored && p.is_long() {
            // SAFETY: it was stored nowhere.
            unsafe { self.blobs.free(Blob(words[self.form.words])) }
        }
        if stored {
            self.entries.add(oid, 1);
        }
        done
    }

    fn try_insert(
        &self,
        p: &Probe<'_>,
        words: &[u64; WORDS],
        alone: bool,
        moves: &mut Moves<'_>,
    ) -> Checked<Result<bool, OutOfMemory>> {
        let form = &self.form;
        let mut parent: Parent = None;
        let (mut node, mut version) = self.top()?;
        loop {
            let level = node.level();
            let count = node.count();
            if count == form.of(level).capacity {
                // Split it and begin again (B4).
                return match self.split(parent, node, version, p, moves)? {
                    Ok(()) => Err(Changed),
                    Err(e) => Ok(Err(e)),
                };
            }
            if level == 0 {
                break;
            }
            let i = self.branch(node, count, p, version)?;
            parent = Some((node, version, i));
            (node, version) = self.down(node, version, i, level)?;
        }
        if alone && !self.is_alone(parent, node, version, p)? {
            return Ok(Ok(false));
        }
        if !latch::upgrade(node.version(), version) {
            return Err(Changed);
        }
        let latched = Latched { node, version, changed: true };
        let at = node.lower_bound(form, &form.leaf, node.count(), p, version | 1)?;
        let there =
            at < node.count() && node.compare(form, &form.leaf, at, p, version | 1)? == cmp::Ordering::Equal;
        if !there {
            node.insert_entry(form, at, words, p.oid);
        }
        drop(latched);
        if let Some(moves) = moves {
            moves.push(Moved { from: node.seen(version), to: node.seen(version + 2), also: None })
        }
        Ok(Ok(!there))
    }

    /// Whether it is plain from the leaf of the probe, found at `version` under `parent`, that nothing stands
    /// under its key.
    fn is_alone(&self, parent: Parent, leaf: Node, version: u64, p: &Probe<'_>) -> Checked<bool> {
        let form = &self.form;
        let count = leaf.count();
        let at = leaf.lower_bound(form, &form.leaf, count, p, version)?;
        let other = |node: Node, columns: &node::Columns, i: usize, version: u64| {
            Ok::<_, Changed>(node.compare_key(form, columns, i, p, version)?.is_ne())
        };
        let below = match at.checked_sub(1) {
            Some(i) => other(leaf, &form.leaf, i, version)?,
            // What is in the leaf before is below the separator, which is not above the probe. It never
            // changes (B3).
            None => match parent {
                Some((node, above, i)) if i > 0 => {
                    let other = other(node, &form.inner, i - 1, above)?;
                    node.check(above)?;
                    other
                }
                _ => false,
            },
        };
        let next = leaf.next();
        let above = if at < count {
            other(leaf, &form.leaf, at, version)?
        } else if next.is_none() {
            true
        } else {
            let v = latch::read(next.version());
            // An empty leaf tells nothing of the one behind it.
            let other = next.count() > 0 && other(next, &form.leaf, 0, v)?;
            next.check(v)?;
            other
        };
        // All of it is of one moment, at which the leaf had this version (B1).
        leaf.check(version)?;
        Ok(below && above)
    }

    /// A separator between two neighbouring entries of a node at rest or latched: the shortest key that will
    /// do.
    fn separator(&self, left: &Position, right: &Position) -> Result<([u64; WORDS], u64), OutOfMemory> {
        let mut words = right.words;
        if !self.form.variable {
            return Ok((words, if left.words == right.words { right.oid } else { 0 }));
        }
        let (a, b) = (bytes_of(left), bytes_of(right));
        let (key, oid) = if a == b { (&b[..], right.oid) } else { (&b[..key::parting(&a, &b)], 0) };
        let p = Probe::new(self.form.words, true, key, oid);
        words = p.words;
        words[self.form.words] = if p.is_long() { self.blobs.alloc(p.rest)?.0 } else { p.len };
        Ok((words, oid))
    }

    /// Splits a full node that was found at `version` under `parent`, for an insert at `p`.
    #[inline(never)]
    fn split(
        &self,
        parent: Parent,
        node: Node,
        version: u64,
        p: &Probe<'_>,
        moves: &mut Moves<'_>,
    ) -> Checked<Result<(), OutOfMemory>> {
        let level = node.level();
        let new = match self.alloc(level) {
            Ok(n) => Spare { tree: self, node: n },
            Err(e) => return Ok(Err(e)),
        };
        let above = match parent {
            Some(_) => None,
            None => match self.alloc(level + 1) {
                Ok(n) => Some(Spare { tree: self, node: n }),
                Err(e) => return Ok(Err(e)),
            },
        };
        let upper = match parent {
            Some((n, v, _)) => Some(Latched::upgrade(n, v)?),
            None => None,
        };
        let mut held = Latched::upgrade(node, version)?;
        if parent.is_none() && self.root() != node {
            return Err(Changed);
        }
        let (new, above) = match self.divide(node, version | 1, new.node, p)? {
            Ok((words, oid)) => {
                held.changed = true;
                let new = new.keep();
                if level == 0
                    && let Some(moves) = moves
                {
                    // The new leaf's version is read before the latch of the one that leads to it is let go.
                    let also = Some(new.seen(new.version().load(Ordering::Relaxed)));
                    moves.push(Moved { from: node.seen(version), to: node.seen(version + 2), also })
                }
                match (above, parent, upper) {
                    (Some(above), ..) => {
                        let above = above.keep();
                        above.set(self.form.inner.children, node.to_word());
                        above.insert_child(&self.form, 0, &words, oid, new);
                        (new, Some(above))
                    }
                    (None, Some((n, _, i)), Some(mut upper)) => {
                        upper.changed = true;
                        n.insert_child(&self.form, i, &words, oid, new);
                        (new, None)
                    }
                    _ => (new, None),
                }
            }
            Err(e) => return Ok(Err(e)),
        };
        debug_assert!(new.count() > 0 || level > 0);
        if let Some(above) = above {
            yield_point();
            self.root.store(above.0.cast_mut(), Ordering::Release);
        }
        Ok(Ok(()))
    }

    /// Moves the upper part of a latched full node to `new`, and gives the separator. Refused, both are as
    /// they were.
    fn divide(
        &self,
        node: Node,
        version: u64,
        new: Node,
        p: &Probe<'_>,
    ) -> Checked<Result<([u64; WORDS], u64), OutOfMemory>> {
        let form = &self.form;
        let level = node.level();
        let columns = form.of(level);
        let count = node.count();
        let at = node.lower_bound(form, columns, count, p, version)?;
        // At the right end of the tree, where ascending keys go, the left part keeps nearly everything.
        let right_end = at == count && (level > 0 || node.next().is_none());
        let keep = if right_end { count - (count / 16).max(1) } else { count / 2 };
        if level == 0 {
            let (mut left, mut right) = (Position::default(), Position::default());
            let (w, oid) = node.entry(form, columns, keep - 1);
            // SAFETY: the node is latched (key/K2).
            unsafe { Node::to_position(form, &w, oid, &mut left) };
            let (w, oid) = node.entry(form, columns, keep);
            // SAFETY: as above.
            unsafe { Node::to_position(form, &w, oid, &mut right) };
            let separator = match self.separator(&left, &right) {
                Ok(s) => s,
                Err(e) => return Ok(Err(e)),
            };
            node.copy_entries(form, columns, keep, count, new);
            new.set_meta(count - keep, 0);
            new.set(2, node.get(2));
            // Whoever reads the link finds a whole node behind it once the left one's version is checked.
            node.set(2, new.to_word());
            node.set_meta(keep, 0);
            return Ok(Ok(separator));
        }
        let separator = node.entry(form, columns, keep);
        node.copy_entries(form, columns, keep + 1, count, new);
        for i in keep + 1..=count {
            new.set(columns.children + i - keep - 1, node.get(columns.children + i))
        }
        new.set_meta(count - keep - 1, level);
        node.set_meta(keep, level);
        Ok(Ok(separator))
    }

    fn remove(
        &self,
        guard: &Guard<'_>,
        key: &[u8],
        oid: u64,
        dead: &mut Dead<'_>,
        mut moves: Moves<'_>,
    ) -> bool {
        let p = self.place(key, oid);
        let (parent, leaf, version, latched, found) = self.retry(|| {
            let mut parent: Parent = None;
            let (mut node, mut version) = self.top()?;
            loop {
                let level = node.level();
                if level == 0 {
                    break;
                }
                let i = self.branch(node, node.count(), &p, version)?;
                parent = Some((node, version, i));
                (node, version) = self.down(node, version, i, level)?;
            }
            let mut latched = Latched::upgrade(node, version)?;
            let at = node.lower_bound(&self.form, &self.form.leaf, node.count(), &p, version | 1)?;
            let there = at < node.count()
                && node.compare(&self.form, &self.form.leaf, at, &p, version | 1)? == cmp::Ordering::Equal;
            latched.changed = false;
            Ok((parent, node, version, latched, there.then_some(at)))
        });
        let mut latched = latched;
        let Some(at) = found else { return false };
        yield_point();
        if !dead(&|other| other == key) {
            return false;
        }
        latched.changed = true;
        let (words, _) = leaf.entry(&self.form, &self.form.leaf, at);
        leaf.remove_entry(&self.form, at);
        let empty = leaf.count() == 0;
        drop(latched);
        if let Some(moves) = &mut moves {
            moves.push(Moved { from: leaf.seen(version), to: leaf.seen(version + 2), also: None })
        }
        self.entries.add(oid, -1);
        self.retire(guard, &words);
        if empty && let Some(parent) = parent {
            // If anything else changed meanwhile, the leaf stays where it is, empty.
            let _ = self.unlink(guard, parent, leaf, version + 2, &mut moves);
        }
        true
    }

    /// Frees the blob, if there is one, of an entry that was just taken out of a node.
    fn retire(&self, guard: &Guard<'_>, words: &[u64; WORDS]) {
        let tail = if self.form.variable { words[self.form.words] } else { 0 };
        if tail > SHORT as u64 {
            let heap = self.blobs.clone();
            // SAFETY: key/K2: no node has it any more, and the epochs say when no reader looks at it.
            guard.retire(move || unsafe { heap.free(Blob(tail)) });
        }
    }

    /// Gives the range of an empty leaf, child `i` of `parent`, to its left neighbour under the same parent.
    fn unlink(
        &self,
        guard: &Guard<'_>,
        (parent, above, i): (Node, u64, usize),
        leaf: Node,
        version: u64,
        moves: &mut Moves<'_>,
    ) -> Checked<()> {
        if i == 0 {
            return Ok(());
        }
        let mut upper = Latched::upgrade(parent, above)?;
        let left = parent.child(&self.form, i - 1);
        let v = left.version().load(Ordering::Acquire);
        if v & 1 != 0 {
            return Err(Changed);
        }
        let mut neighbour = Latched::upgrade(left, v)?;
        let mut gone = Latched::upgrade(leaf, version)?;
        debug_assert!(left.next() == leaf && leaf.count() == 0);
        (upper.changed, neighbour.changed) = (true, true);
        gone.changed = !ondol_base::sim::mutated("unlinked_leaf_unchanged"); // B2
        let (words, _) = parent.entry(&self.form, &self.form.inner, i - 1);
        parent.remove_child(&self.form, i - 1);
        left.set(2, leaf.get(2));
        if let Some(moves) = moves {
            for from in [leaf.seen(version), left.seen(v)] {
                moves.push(Moved { from, to: left.seen(v + 2), also: None })
            }
        }
        drop((gone, neighbour, upper));
        self.retire(guard, &words);
        self.give_back(leaf);
        Ok(())
    }
}

/// The whole key of a position in a tree of variable keys.
fn bytes_of(p: &Position) -> Vec<u8> {
    let mut out: Vec<u8> = p.words[..2].iter().flat_map(|w| w.to_be_bytes()).collect();
    out.truncate(p.len as usize);
    out.extend_from_slice(&p.rest);
    out
}

impl SpareNodes for Tree {
    type Node = Node;
    fn give_back(&self, node: Node) {
        let spare = if node.level() == 0 { &self.spare_leaves } else { &self.spare_inner };
        spare.lock().push(node)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if self.form.variable && !self.root().is_none() {
            self.free_blobs(self.root())
        }
        self.blobs.budget.release(size_of::<Tree>());
    }
}

impl Index for BTree {
    fn insert(
        &self,
        _guard: &Guard<'_>,
        key: &[u8],
        oid: Oid,
        moves: Moves<'_>,
    ) -> Result<bool, OutOfMemory> {
        self.tree.insert(key, oid.bits(), false, moves)
    }
    fn insert_alone(
        &self,
        _guard: &Guard<'_>,
        key: &[u8],
        oid: Oid,
        moves: Moves<'_>,
    ) -> Result<bool, OutOfMemory> {
        self.tree.insert(key, oid.bits(), true, moves)
    }
    fn remove_dead(
        &self,
        guard: &Guard<'_>,
        key: &[u8],
        oid: Oid,
        dead: &mut Dead<'_>,
        moves: Moves<'_>,
    ) -> bool {
        self.tree.remove(guard, key, oid.bits(), dead, moves)
    }
    fn lookup(&self, guard: &Guard<'_>, key: &[u8], out: &mut Vec<Oid>, seen: Option<&mut Vec<Seen>>) {
        let push = &mut |oid| {
            out.push(entry_oid(oid));
            true
        };
        self.tree.probe(guard, key, push, seen)
    }
    fn prefetch(&self, _guard: &Guard<'_>, key: &[u8]) {
        // If the tree changes on the way, there is no hint.
        let _ = self.tree.approach(&self.tree.place(key, 0));
    }
    fn entries(&self) -> u64 {
        self.tree.entries.sum().max(0) as u64
    }
    fn memory_bytes(&self) -> usize {
        size_of::<Tree>() + self.tree.nodes.bytes() + self.tree.blobs.bytes.load(Ordering::Relaxed)
    }
    fn verify(&self, each: &mut dyn FnMut(&[u8], Oid)) -> Result<(), String> {
        self.tree.verify(each)
    }
    fn load(&self, unique: bool, expected: u64, sample: &[(Vec<u8>, Oid)]) -> Option<Arc<dyn Load>> {
        Some(BTree::load(self, unique, expected, sample))
    }
    fn as_btree(&self) -> Option<&BTree> {
        Some(self)
    }
}
