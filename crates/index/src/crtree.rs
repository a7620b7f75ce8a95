//! A CR-tree: points of up to six dimensions, found by boxes (Kim, Cha, Kwon, SIGMOD 2001).
//!
//! It is an R-tree whose nodes have their own rectangle in full and their entries' in a few bits, relative to
//! it ([`grid`]): a node of 16 cache lines has more than a hundred entries. What is found may lie outside of
//! a box by the width of a cell, so callers look at the row (index/I4).
//!
//! - **C1** A rectangle has all that is below it: an entry of an inner node has its child's rectangle, and a
//!   node's rectangle has its entries. Boxes grow from the top down, before the leaf gets its entry, each
//!   under its node's latch.
//! - **C2** Who latches a node to add to it or to stretch it does so from the version that he read, and looks
//!   then whether its parent still has the version at which it led here. An entry of the parent becomes
//!   smaller only with the parent latched, and only if the child is not latched after that. So a box that an
//!   insert has stretched stays so until the child has the point, or the insert begins again.
//! - **C3** A split leaves the left part where it was, with a new number of the tree's count of splits, its
//!   `sequence`, and a link to the right part, which gets the old number and the old link (GiST: Kornacker,
//!   Mohan, Hellerstein, SIGMOD 1997; on CR-trees Hwang, Kwon, Cha, Lee, SSTD 2003). A search reads the count
//!   before it reads a parent: a child with a greater number was split since then, and the right part is
//!   looked at too.
//! - **C4** A node that was taken out of the tree is another only once all who are pinned have gone. Links to
//!   it are followed by those alone: who comes later has a greater count than the split that made the link.
//! - **C5** An insert changes the version of a node that any earlier search of a box with the point has seen,
//!   if that is still a node: the leaf, or the lowest node on the way there that the search has seen, since
//!   that one's entry did not have the point. Nodes that are split or taken out get new versions too, their
//!   parents as well. What a transaction's own changes do to versions is told to it ([`Moved`]): where it
//!   makes an entry larger, or the cells that all of a node's are of, the children are to be remembered too,
//!   as they are while the node is latched. What comes into the larger entry changes such a child.
//! - **C6** Codes are made finer only from full coordinates, and the tree has none: when a leaf is split it
//!   asks for the keys of its rows ([`Keys`]), of all their versions. An entry becomes an entry for each of
//!   them that it stood for; one that stands for none is nobody's (`kernel::collect`, C4), and goes.
//! - **C7** Two keys of a row share an entry if they have one code in the leaf that both went to; and a key
//!   may have an entry in more than one leaf. So removal looks at all leaves that have the point, and asks at
//!   each for all that its entry stands for.
//!
//! Equal points: nothing tells their entries apart but the OID, so removal among n equal ones looks at n.
use crate::latch::{self, Changed, Checked, Latched, Spare, SpareNodes, Versioned};
use crate::load::Load;
use crate::{Budget, Dead, Index, Moved, Moves, OutOfMemory, Seen, entry_oid, slab::Slab, stripes::Stripes};
use node::{Form, Item, Masks, Node};
use ondol_base::epoch::Guard;
use ondol_base::oid::Oid;
use ondol_base::sim::mutated;
use ondol_base::sync::{Mutex, spin_wait, yield_point};
use search::Aim;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

mod grid;
mod lanes;
mod load;
mod nearest;
mod node;
mod search;
mod split;
mod verify;
pub use load::Entry;
pub use nearest::{Near, Nearest};
pub use search::Search;

/// The most dimensions.
pub const MOST: usize = 6;
/// log2 of a node's bytes.
const NODE: u32 = 10;

/// Coordinates, finite and without a negative zero; those behind a tree's dimensions are zero.
pub type Point = [f64; MOST];

/// A box, its edges included.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rect {
    pub low: Point,
    pub high: Point,
}

impl Rect {
    pub const ZERO: Rect = Rect { low: [0.0; MOST], high: [0.0; MOST] };

    fn add(&mut self, dimensions: usize, other: &Rect) {
        for d in 0..dimensions {
            self.low[d] = self.low[d].min(other.low[d]);
            self.high[d] = self.high[d].max(other.high[d])
        }
    }
    fn has(&self, dimensions: usize, other: &Rect) -> bool {
        (0..dimensions).all(|d| self.low[d] <= other.low[d] && other.high[d] <= self.high[d])
    }
    /// What it has in common with another, of which it has a part.
    fn within(mut self, dimensions: usize, other: &Rect) -> Rect {
        for d in 0..dimensions {
            self.low[d] = self.low[d].max(other.low[d]);
            self.high[d] = self.high[d].min(other.high[d])
        }
        self
    }
}

/// Knows the keys of rows (C6).
pub trait Keys: Send + Sync {
    /// Calls `each` with the key of every version of a row, committed or not; keys may come again.
    fn each(&self, guard: &Guard<'_>, oid: Oid, each: &mut dyn FnMut(&[u8]));
    /// Asks for the memory that [`Keys::each`] will look at.
    fn prefetch(&self, oid: Oid) {
        let _ = oid;
    }
}

/// Appends the key of a point. A key without bytes has no entry.
pub fn put_key(point: &[f64], out: &mut Vec<u8>) {
    for x in point {
        debug_assert!(x.is_finite());
        out.extend_from_slice(&grid::to_word(*x).to_be_bytes())
    }
}

pub struct CrTree {
    tree: Arc<Tree>,
}

pub(crate) struct Tree {
    form: Form,
    root: AtomicU32,
    /// How many splits there were (C3). Written at splits only.
    splits: AtomicU64,
    nodes: Slab,
    spare: Mutex<Vec<u32>>,
    entries: Stripes,
    keys: Arc<dyn Keys>,
    budget: Arc<dyn Budget>,
}

/// The way from the root to a node: inner nodes, and which child was taken of each.
#[derive(Default)]
struct Way {
    taken: [Option<(Node, usize)>; Way::MOST],
    len: usize,
}

impl Way {
    /// What is deeper changes little.
    const MOST: usize = 12;

    fn go(&mut self, node: Node, i: usize) {
        if let Some(place) = self.taken.get_mut(self.len) {
            *place = Some((node, i));
            self.len += 1
        }
    }
    /// By dimension, which share of what is in the tree lies beside the node where the way ends. A guess:
    /// nobody keeps the nodes from changing meanwhile.
    fn shares(&self, form: &Form) -> Point {
        let mut shares = [1.0; MOST];
        for (node, i) in self.taken[..self.len].iter().flatten() {
            let of = node.shares(form, *i);
            (0..form.dimensions).for_each(|d| shares[d] *= of[d])
        }
        shares
    }
}

/// The node above, the version it had, and which child was taken.
type Parent = Option<(Node, u64, usize)>;

impl CrTree {
    /// `bits` of a code: 8 or 16, or 64, which is no compression, for comparison.
    ///
    /// # Panics
    /// If there are not 1 to 6 dimensions, or the bits are others.
    pub fn new(
        dimensions: usize,
        bits: u32,
        keys: Arc<dyn Keys>,
        budget: Arc<dyn Budget>,
    ) -> Result<CrTree, OutOfMemory> {
        let tree = Tree::new(dimensions, bits, keys, budget)?;
        tree.root.store(tree.alloc(0)?.line, Ordering::Release);
        Ok(CrTree { tree: Arc::new(tree) })
    }
    pub fn dimensions(&self) -> usize {
        self.tree.form.dimensions
    }
    pub fn bits(&self) -> u32 {
        self.tree.form.bits
    }
    /// Calls `each` with every entry of a tree at rest: its OID, and what says of a key whether the entry
    /// stands for it.
    pub fn cells(&self, each: &mut dyn FnMut(Oid, &dyn Fn(&[u8]) -> bool)) {
        self.tree.cells(each)
    }
    /// Levels of nodes.
    pub fn height(&self) -> u32 {
        self.tree.node(self.tree.root.load(Ordering::Acquire)).level() + 1
    }
}

impl Tree {
    fn new(
        dimensions: usize,
        bits: u32,
        keys: Arc<dyn Keys>,
        budget: Arc<dyn Budget>,
    ) -> Result<Tree, OutOfMemory> {
        assert!((1..=MOST).contains(&dimensions), "a CR-tree has 1 to {MOST} dimensions, not {dimensions}");
        assert!([8, 16, 64].contains(&bits), "codes have 8, 16 or 64 bits, not {bits}");
        if !budget.charge(size_of::<Tree>()) {
            return Err(OutOfMemory);
        }
        Ok(Tree {
            form: Form::new(dimensions, bits, NODE),
            root: AtomicU32::new(0),
            splits: AtomicU64::new(0),
            nodes: Slab::new(NODE, 1, budget.clone()),
            spare: Mutex::default(),
            entries: Stripes::default(),
            keys,
            budget,
        })
    }

    #[inline(always)]
    fn node(&self, line: u32) -> Node {
        Node { at: self.nodes.line(u64::from(line)), line }
    }
    /// The point of a key; `None` of one without bytes.
    ///
    /// # Panics
    /// If the key has another length than a point: the caller's key encoder is wrong, and going on would lose
    /// entries.
    fn point(&self, key: &[u8]) -> Option<Point> {
        if key.is_empty() {
            return None;
        }
        let (words, rest) = key.as_chunks::<8>();
        let fits = words.len() == self.form.dimensions && rest.is_empty();
        assert!(fits, "index keys have {} bytes, got one of {}", 8 * self.form.dimensions, key.len());
        let mut p = [0.0; MOST];
        for (x, word) in p.iter_mut().zip(words) {
            *x = grid::from_word(u64::from_be_bytes(*word))
        }
        Some(p)
    }

    /// A node that nobody can reach yet, empty.
    fn alloc(&self, level: u32) -> Result<Node, OutOfMemory> {
        let spare = self.spare.lock().pop();
        let line = match spare {
            Some(line) => line,
            None => u32::try_from(self.nodes.alloc()?).map_err(|_| OutOfMemory)?,
        };
        let node = self.node(line);
        node.set_link(0, None);
        node.set_meta(0, level);
        Ok(node)
    }

    /// The root and its version.
    fn top(&self) -> Checked<(Node, u64)> {
        let node = self.node(self.root.load(Ordering::Acquire));
        let version = latch::read(node.version());
        self.confirm(None, node)?;
        Ok((node, version))
    }
    /// Where a search begins: the root, and the count of splits before it was looked up. A root that is being
    /// split has counted that already, and nobody's latch keeps others from it: so its version is waited for,
    /// and then it is asked whether it is the root (C3).
    fn start(&self) -> (Node, u64) {
        let mut turns = 0;
        loop {
            let splits = self.splits.load(Ordering::Acquire);
            if mutated("root_not_confirmed") {
                return (self.node(self.root.load(Ordering::Acquire)), splits);
            }
            yield_point();
            if let Ok((root, _)) = self.top() {
                return (root, splits);
            }
            spin_wait(turns);
            turns += 1;
        }
    }
    /// That the way to a node still leads there (C2).
    fn confirm(&self, parent: Parent, node: Node) -> Checked<()> {
        match parent {
            Some(_) if mutated("way_not_confirmed") => Ok(()), // C2
            Some((above, version, _)) => {
                // Who latches the parent to make an entry smaller looks at the child thereafter: one of both
                // sees the other's latch.
                fence(Ordering::SeqCst);
                above.check(version)
            }
            // An old root, once split, is no root any more.
            None if self.root.load(Ordering::Acquire) == node.line => Ok(()),
            None => Err(Changed),
        }
    }

    fn insert(
        &self,
        guard: &Guard<'_>,
        p: &Point,
        oid: u64,
        mut moves: Moves<'_>,
    ) -> Result<bool, OutOfMemory> {
        let mut turns = 0;
        loop {
            if let Ok(done) = self.try_insert(guard, p, oid, &mut moves) {
                if let Ok(true) = done {
                    self.entries.add(oid, 1);
                };
                return done;
            }
            spin_wait(turns);
            turns += 1;
        }
    }

    fn try_insert(
        &self,
        guard: &Guard<'_>,
        p: &Point,
        oid: u64,
        moves: &mut Moves<'_>,
    ) -> Checked<Result<bool, OutOfMemory>> {
        let form = &self.form;
        let mut parent: Parent = None;
        let mut way = Way::default();
        let (mut node, mut version) = self.top()?;
        loop {
            let (level, count) = (node.level(), node.count());
            if count >= form.of(level).capacity {
                // Split it and begin again: a parent has room for one more child.
                return match self.split(guard, &way, parent, node, version, moves)? {
                    Ok(()) => Err(Changed),
                    Err(e) => Ok(Err(e)),
                };
            }
            if level == 0 {
                break;
            }
            let i = self.choose(node, level, count, p, version)?;
            let child = self.node(node.child(form, i));
            child.prefetch(form);
            let after = self.widen(parent, node, version, i, p, moves)?;
            yield_point();
            let v = latch::read(child.version());
            node.check(after)?;
            parent = Some((node, after, i));
            way.go(node, i);
            (node, version) = (child, v);
        }
        let mut held = Latched::upgrade(node, version)?;
        self.confirm(parent, node)?;
        yield_point();
        held.changed = true; // index/I5
        let mut held = Some(held);
        if mutated("version_before_change") {
            held = None; // index/I2
            yield_point();
        }
        self.stretch(node, 0, p);
        let codes = node.encode_all(form, p);
        let stood = self.entry_of(node, &codes, oid).is_some();
        if !stood {
            node.push(form, 0, &Item { rect: Rect { low: *p, high: *p }, word: oid });
        }
        drop(held);
        if let Some(moves) = moves {
            moves.push(Moved { from: node.seen(version), to: node.seen(version + 2), also: None })
        }
        Ok(Ok(!stood))
    }

    /// Stretches a latched node so that it has a point; false if it has it already.
    fn stretch(&self, node: Node, level: u32, p: &Point) -> bool {
        let point = Rect { low: *p, high: *p };
        let is_outside = node.count() == 0 || !node.rect(&self.form).has(self.form.dimensions, &point);
        if is_outside {
            node.stretch(&self.form, level, p)
        }
        is_outside
    }

    /// Which entry of a leaf, latched or checked afterwards, has these codes and this OID.
    fn entry_of(&self, node: Node, codes: &[u64; MOST], oid: u64) -> Option<usize> {
        let form = &self.form;
        let mut masks = Masks::default();
        let asked = (1 << form.dimensions) - 1;
        let words = node.matches(form, 0, node.count(), (codes, codes), asked, &mut masks);
        let mut found = None;
        masks.each(words, form.bits, |i| {
            if node.oid(form, i) == oid {
                found = Some(i)
            }
        });
        found
    }

    /// The child of an inner node that a point should go to: the smallest box that has it, else the one that
    /// has to grow least, by its edges: where dimensions are skewed areas lead to boxes that are long in one.
    fn choose(&self, node: Node, level: u32, count: usize, p: &Point, version: u64) -> Checked<usize> {
        let form = &self.form;
        let mut best: Option<(f64, usize)> = None;
        let mut masks = Masks::default();
        if let Aim::Codes(low, high, asked) = self.aim(node, count, p, p) {
            let words = node.matches(form, level, count, (&low, &high), asked, &mut masks);
            masks.each(words, form.bits, |i| {
                let edges = node.edges(form, i, None);
                if best.is_none_or(|(least, _)| edges < least) {
                    best = Some((edges, i))
                }
            })
        }
        let best = best.map(|(_, i)| i).or_else(|| node.grows_least(form, count, p));
        node.check(version)?;
        best.ok_or(Changed)
    }

    /// Makes an inner node and its entry `i` have a point (C1), and gives the version that it has then.
    fn widen(
        &self,
        parent: Parent,
        node: Node,
        version: u64,
        i: usize,
        p: &Point,
        moves: &mut Moves<'_>,
    ) -> Checked<u64> {
        let form = &self.form;
        let (point, level) = (Rect { low: *p, high: *p }, node.level());
        if node.rect(form).has(form.dimensions, &point) && node.entry_has(form, level, i, p)
            || mutated("box_not_grown")
        {
            return Ok(version);
        }
        let mut held = Latched::upgrade(node, version)?;
        self.confirm(parent, node)?;
        yield_point();
        held.changed = !mutated("inner_version_kept");
        let after = version + if held.changed { 2 } else { 0 };
        let is_stretched = self.stretch(node, level, p);
        node.widen_entry(form, level, i, p);
        if let Some(moves) = moves {
            let now = node.seen(after);
            moves.push(Moved { from: node.seen(version), to: now, also: None });
            // C5. Nobody who has a child latched waits for this node.
            let children = if is_stretched { 0..node.count() } else { i..i + 1 };
            for child in children.map(|i| self.node(node.child(form, i))) {
                let also = Some(child.seen(latch::read(child.version())));
                moves.push(Moved { from: now, to: now, also })
            }
        }
        drop(held);
        Ok(after)
    }

    /// Splits a full node that was found at `version` under `parent`.
    #[inline(never)]
    fn split(
        &self,
        guard: &Guard<'_>,
        way: &Way,
        parent: Parent,
        node: Node,
        version: u64,
        moves: &mut Moves<'_>,
    ) -> Checked<Result<(), OutOfMemory>> {
        let (form, level) = (&self.form, node.level());
        let spare = |level| self.alloc(level).map(|node| Spare { tree: self, node });
        let new = match spare(level) {
            Ok(new) => new,
            Err(e) => return Ok(Err(e)),
        };
        let above = match parent {
            Some(_) => None,
            None => match spare(level + 1) {
                Ok(above) => Some(above),
                Err(e) => return Ok(Err(e)),
            },
        };
        let mut upper = match parent {
            Some((n, v, _)) => Some(Latched::upgrade(n, v)?),
            None => None,
        };
        let mut held = Latched::upgrade(node, version)?;
        if parent.is_none() {
            self.confirm(None, node)?;
        }
        let (mut items, least) = self.items(guard, node, level);
        held.changed = true;
        if let Some(upper) = &mut upper {
            upper.changed = true;
        }
        let from = node.seen(version);
        let to = node.seen(version + 2);
        let told = |moves: &mut Moves<'_>, also: Option<Seen>| {
            if let Some(moves) = moves {
                moves.push(Moved { from, to, also });
                if let Some((n, v, _)) = parent {
                    moves.push(Moved { from: n.seen(v), to: n.seen(v + 2), also: None })
                }
            }
        };
        let above_level = level + 1;
        let before = node.count() as i64;
        if level == 0 {
            // Much of it was nobody's (C6).
            if items.len() <= form.leaf.capacity * 3 / 4 {
                node.fill(form, level, &mut items, &least);
                self.entries.add(0, node.count() as i64 - before);
                if let (Some((n, _, i)), false) = (parent, items.is_empty()) {
                    n.set_entry_rect(form, above_level, i, &node.rect(form))
                }
                told(moves, None);
                return Ok(Ok(()));
            }
        }
        let place = split::divide(form.dimensions, &mut items, form.of(level).capacity, &way.shares(form));
        let new = new.keep();
        // Read before anybody can come by.
        let also = new.seen(new.version().load(Ordering::Relaxed));
        new.fill(form, level, &mut items[place..], &least);
        new.set_link(node.sequence(), node.link());
        // Whoever reads the count before this finds the link.
        let sequence = self.splits.fetch_add(1, Ordering::AcqRel) + 1;
        node.set_link(sequence, Some(new.line));
        node.fill(form, level, &mut items[..place], &least);
        if level == 0 {
            self.entries.add(0, (node.count() + new.count()) as i64 - before);
        }
        let mut halves = [node, new].map(|n| Item { rect: n.rect(form), word: u64::from(n.line) });
        match (above, parent) {
            (Some(above), _) => {
                let above = above.keep();
                above.fill(form, above_level, &mut halves, &[i32::MIN; MOST]);
                yield_point();
                self.root.store(above.line, Ordering::Release);
            }
            (None, Some((n, _, i))) => {
                n.set_entry_rect(form, above_level, i, &halves[0].rect);
                n.push(form, above_level, &halves[1]);
            }
            (None, None) => {}
        }
        told(moves, Some(also));
        Ok(Ok(()))
    }

    /// The entries of a latched node, in full; and of each dimension what its cells may not be finer than.
    fn items(&self, guard: &Guard<'_>, node: Node, level: u32) -> (Vec<Item>, [i32; MOST]) {
        let (form, count) = (&self.form, node.count());
        let whole = node.rect(form);
        let outer = |i: usize| node.entry_rect(form, level, i).within(form.dimensions, &whole);
        let mut items = Vec::with_capacity(count + 8);
        if level > 0 {
            fence(Ordering::SeqCst); // see `confirm`
            for i in 0..count {
                let child = self.node(node.child(form, i));
                let rect = self.rect_of(child).unwrap_or_else(|| outer(i));
                items.push(Item { rect, word: u64::from(child.line) })
            }
            return (items, [i32::MIN; MOST]);
        }
        let coarse = |i: usize| Item { rect: outer(i), word: node.oid(form, i) };
        if !form.is_compressed() {
            items.extend((0..count).map(coarse));
            return (items, [i32::MIN; MOST]);
        }
        for i in 0..count {
            self.keys.prefetch(entry_oid(node.oid(form, i)))
        }
        for i in 0..count {
            let oid = node.oid(form, i);
            let first = items.len();
            self.keys.each(guard, entry_oid(oid), &mut |key| {
                let Some(p) = self.point(key) else { return };
                let rect = Rect { low: p, high: p };
                let is_new = !items[first..].iter().any(|item: &Item| item.rect == rect);
                if is_new && node.stands_for(form, i, &p) {
                    items.push(Item { rect, word: oid })
                }
            });
        }
        if items.len() <= 3 * form.leaf.capacity / 2 {
            return (items, [i32::MIN; MOST]);
        }
        // So many versions that two nodes would be full of them: as they are then, with cells as wide as now.
        items.clear();
        items.extend((0..count).map(coarse));
        (items, std::array::from_fn(|d| if d < form.dimensions { node.grid(form, d).shift } else { 0 }))
    }

    /// The rectangle of a node whose parent is latched; `None` while somebody has it latched (C2).
    fn rect_of(&self, node: Node) -> Option<Rect> {
        let version = node.version().load(Ordering::Acquire);
        if version & 1 == 1 && !mutated("latched_child_read") {
            return None;
        }
        let rect = node.rect(&self.form);
        node.check(version).ok().map(|()| rect)
    }

    fn remove(
        self: &Arc<Self>,
        guard: &Guard<'_>,
        p: &Point,
        oid: u64,
        dead: &mut Dead<'_>,
        mut moves: Moves<'_>,
    ) -> bool {
        let form = &self.form;
        let (root, splits) = self.start();
        let mut open: Vec<(Node, u64, Parent)> = vec![(root, splits, None)];
        let (mut masks, mut gone, mut turns) = (Masks::default(), false, 0);
        while let Some((node, before, parent)) = open.pop() {
            let left = open.len();
            let version = latch::read(node.version());
            let splits = self.splits.load(Ordering::Acquire);
            if node.sequence() > before
                && let Some(link) = node.link()
            {
                open.push((self.node(link), before, None))
            }
            let (level, count) = (node.level(), node.count());
            let mut there = None;
            if let Aim::Codes(low, high, asked) = self.aim(node, count, p, p) {
                if level == 0 {
                    let codes = node.encode_all(form, p);
                    there = self.entry_of(node, &codes, oid).map(|_| codes)
                } else {
                    let words = node.matches(form, level, count, (&low, &high), asked, &mut masks);
                    masks.each(words, form.bits, |i| {
                        let child = self.node(node.child(form, i));
                        open.push((child, splits, Some((node, version, i))))
                    })
                }
            }
            let checked = match there {
                None => node.check(version),
                Some(codes) => self
                    .take(guard, (node, version), (&codes, oid), parent, dead, &mut moves)
                    .map(|is_gone| gone |= is_gone),
            };
            if checked.is_err() {
                open.truncate(left);
                open.push((node, before, parent));
                spin_wait(turns);
                turns += 1;
            }
        }
        gone
    }

    /// Takes an entry out of a leaf that has this version, if it is dead. There may be several that have
    /// become the same as cells became wider.
    fn take(
        self: &Arc<Self>,
        guard: &Guard<'_>,
        (leaf, version): (Node, u64),
        (codes, oid): (&[u64; MOST], u64),
        parent: Parent,
        dead: &mut Dead<'_>,
        moves: &mut Moves<'_>,
    ) -> Checked<bool> {
        let form = &self.form;
        let mut held = Latched::upgrade(leaf, version)?;
        let Some(first) = self.entry_of(leaf, codes, oid) else { return Ok(false) };
        yield_point();
        let same = |key: &[u8]| self.point(key).is_some_and(|p| leaf.stands_for(form, first, &p));
        if !dead(&same) {
            return Ok(false);
        }
        held.changed = true;
        while let Some(i) = self.entry_of(leaf, codes, oid) {
            leaf.remove(form, 0, i);
            self.entries.add(oid, -1);
        }
        drop(held);
        if let Some(moves) = moves {
            moves.push(Moved { from: leaf.seen(version), to: leaf.seen(version + 2), also: None })
        }
        if leaf.count() == 0
            && let Some(parent) = parent
        {
            // If anything else changed meanwhile, the leaf stays where it is, empty.
            let _ = self.unlink(guard, parent, leaf, version + 2, moves);
        }
        Ok(true)
    }

    /// Takes an empty leaf out of the tree, unless it is its parent's only child.
    fn unlink(
        self: &Arc<Self>,
        guard: &Guard<'_>,
        (parent, above, i): (Node, u64, usize),
        leaf: Node,
        version: u64,
        moves: &mut Moves<'_>,
    ) -> Checked<()> {
        if parent.count() < 2 {
            return Ok(());
        }
        let mut upper = Latched::upgrade(parent, above)?;
        let mut gone = Latched::upgrade(leaf, version)?;
        debug_assert!(parent.child(&self.form, i) == leaf.line && leaf.count() == 0);
        (upper.changed, gone.changed) = (true, true);
        parent.remove(&self.form, 1, i);
        if let Some(moves) = moves {
            for from in [leaf.seen(version), parent.seen(above)] {
                moves.push(Moved { from, to: parent.seen(above + 2), also: None })
            }
        }
        drop((gone, upper));
        let (tree, line) = (self.clone(), leaf.line);
        // C4.
        guard.retire(move || tree.give_back(tree.node(line)));
        Ok(())
    }
}

impl SpareNodes for Tree {
    type Node = Node;
    fn give_back(&self, node: Node) {
        self.spare.lock().push(node.line)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.budget.release(size_of::<Tree>());
    }
}

impl Index for CrTree {
    fn insert(&self, guard: &Guard<'_>, key: &[u8], oid: Oid, moves: Moves<'_>) -> Result<bool, OutOfMemory> {
        match self.tree.point(key) {
            Some(p) => self.tree.insert(guard, &p, oid.bits(), moves),
            None => Ok(true),
        }
    }
    /// Never: equal points may be anywhere.
    fn insert_alone(&self, _: &Guard<'_>, key: &[u8], _: Oid, _: Moves<'_>) -> Result<bool, OutOfMemory> {
        Ok(key.is_empty())
    }
    fn remove_dead(
        &self,
        guard: &Guard<'_>,
        key: &[u8],
        oid: Oid,
        dead: &mut Dead<'_>,
        moves: Moves<'_>,
    ) -> bool {
        self.tree.point(key).is_some_and(|p| self.tree.remove(guard, &p, oid.bits(), dead, moves))
    }
    fn lookup(&self, guard: &Guard<'_>, key: &[u8], out: &mut Vec<Oid>, seen: Option<&mut Vec<Seen>>) {
        if let Some(p) = self.tree.point(key) {
            self.search(guard, &Rect { low: p, high: p }, &mut Search::new(), out, seen)
        }
    }
    fn entries(&self) -> u64 {
        self.tree.entries.sum().max(0) as u64
    }
    fn memory_bytes(&self) -> usize {
        size_of::<Tree>() + self.tree.nodes.bytes()
    }
    fn verify(&self, each: &mut dyn FnMut(&[u8], Oid)) -> Result<(), String> {
        self.tree.verify(each)
    }
    fn load(&self, _: bool, expected: u64, sample: &[(Vec<u8>, Oid)]) -> Option<Arc<dyn Load>> {
        Some(CrTree::load(self, expected, sample))
    }
    fn as_crtree(&self) -> Option<&CrTree> {
        Some(self)
    }
}
