//! Cursors: ordered scans that hold neither latch nor pin between calls.
//!
//! A cursor copies some entries of a leaf into its own buffer, checks the leaf's version, and hands them out.
//! It remembers the leaf and the version; if that still stands when the buffer is used up, it goes on in the
//! leaf, or over its link, and otherwise comes down the tree again to the place behind what it copied last.
//!
//! - **R1** What was copied and checked stood in the leaf at one moment. The next copy begins right behind
//!   it: so every entry that stands during the whole scan is met once, in order, whatever happens around it.
//! - **R2** Each (leaf, version) at which a copy was taken is remembered in `seen` with that copy, even if
//!   nothing was copied: the remembered leaves cover the scanned range without a gap (btree/B3 says why that
//!   is enough).
//! - **R3** Backwards, a leaf's lower bound is taken along on the way down to it. It never changes
//!   (btree/B3), so the scan goes on with what is below it.
//! - **R4** Buffers are kept from seek to seek.
use super::key::{Blob, Position, SHORT, WORDS, word_at};
use super::node::{Columns, HEADER, LAST, Node};
use super::{BTree, KeyShape, Probe, Tree};
use crate::latch::{Checked, Versioned};
use crate::{Seen, entry_oid, latch};
use ondol_base::epoch::Guard;
use ondol_base::oid::Oid;
use ondol_base::sync::{spin_wait, yield_point};
use std::ops::Bound;
use std::sync::Arc;

/// Bounds of a scan, on keys: all OIDs of a bound's key are in or out together. A bound may be any bytes,
/// also where the tree's keys have a fixed length.
pub type Range<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Backward,
}

/// Entries copied at first, and at most at a time: a short scan copies little.
const FIRST: usize = 8;
const MOST: usize = 128;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Come down to `at`.
    Down,
    /// In this leaf at this version; the index of the next entry forwards, one more than it backwards.
    In(Node, u64, usize),
    /// Backwards: below the lower bound of the last leaf.
    Below,
    End,
}

pub struct Cursor {
    tree: Option<Arc<Tree>>,
    direction: Direction,
    place: Place,
    /// Forwards: the first place not yet scanned. Backwards: the place before which all is scanned.
    at: Position,
    /// Where the scan ends; in both directions the first entry out of range in the order of places.
    limit: Position,
    limited: bool,
    /// The lower bound of the leaf that was last come down to.
    fence: Position,
    bounded_below: bool,
    /// Backwards: `at` is above everything.
    unbounded_above: bool,
    step: usize,
    /// The copied entries, in the order of the scan: key words, with the tail where there is one.
    words: Vec<u64>,
    oids: Vec<u64>,
    /// The rests of long keys. The tail of such an entry is length << 32 | offset here.
    rests: Vec<u8>,
    next: usize,
    last_seen: Option<Seen>,
    key: Vec<u8>,
}

impl Default for Cursor {
    fn default() -> Self {
        Self::new()
    }
}

impl Cursor {
    /// A cursor over nothing, until the first [`Cursor::seek`].
    pub fn new() -> Cursor {
        Cursor {
            tree: None,
            direction: Direction::Forward,
            place: Place::End,
            at: Position::default(),
            limit: Position::default(),
            limited: false,
            fence: Position::default(),
            bounded_below: false,
            unbounded_above: false,
            step: FIRST,
            words: Vec::new(),
            oids: Vec::new(),
            rests: Vec::new(),
            next: 0,
            last_seen: None,
            key: Vec::new(),
        }
    }

    /// Begins a scan of the keys from `low` to `high`. Allocates only what earlier scans did not need.
    pub fn seek(&mut self, tree: &BTree, low: Bound<&[u8]>, high: Bound<&[u8]>, direction: Direction) {
        if !self.tree.as_ref().is_some_and(|t| Arc::ptr_eq(t, &tree.tree)) {
            self.tree = Some(tree.tree.clone());
        }
        let tree = &*tree.tree;
        let (from, to) = match direction {
            Direction::Forward => (low, high),
            Direction::Backward => (high, low),
        };
        let forward = direction == Direction::Forward;
        let bounded = set_bound(&mut self.at, tree, from, forward);
        if !bounded {
            // The lowest place; backwards, see `unbounded_above`.
            self.at.set(&Probe { words: [0; WORDS], len: 0, rest: &[], oid: 0 })
        }
        self.limited = set_bound(&mut self.limit, tree, to, !forward);
        self.unbounded_above = !forward && !bounded;
        self.direction = direction;
        self.place = Place::Down;
        self.step = FIRST;
        self.clear();
        self.last_seen = None;
    }

    fn clear(&mut self) {
        self.words.clear();
        self.oids.clear();
        self.rests.clear();
        self.next = 0;
    }

    /// The next entry's OID, and its key in `key_out`.
    pub fn next(
        &mut self,
        guard: &Guard<'_>,
        key_out: &mut Vec<u8>,
        seen: Option<&mut Vec<Seen>>,
    ) -> Option<Oid> {
        let oid = self.next_oid(guard, seen)?;
        key_out.clear();
        self.write_key(key_out);
        Some(oid)
    }

    /// The next entry's OID; [`Cursor::key`] gives its key if it is wanted.
    #[inline]
    pub fn next_oid(&mut self, guard: &Guard<'_>, seen: Option<&mut Vec<Seen>>) -> Option<Oid> {
        if self.next == self.oids.len() {
            self.fill(guard, seen);
            if self.oids.is_empty() {
                return None;
            }
        }
        let oid = self.oids[self.next];
        self.next += 1;
        Some(entry_oid(oid))
    }

    /// The key of the entry that was given last, empty before the first.
    pub fn key(&mut self) -> &[u8] {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        self.write_key(&mut key);
        self.key = key;
        &self.key
    }

    fn write_key(&self, out: &mut Vec<u8>) {
        let (Some(tree), Some(i)) = (&self.tree, self.next.checked_sub(1)) else { return };
        let form = &tree.form;
        let w = &self.words[i * form.columns..(i + 1) * form.columns];
        let from = out.len();
        if let (KeyShape::Fixed(n), &[a, b]) = (tree.shape, w) {
            let words = (a as u128) << 64 | b as u128;
            out.extend_from_slice(&words.to_be_bytes());
            return out.truncate(from + n);
        }
        for word in &w[..form.words] {
            out.extend_from_slice(&word.to_be_bytes())
        }
        if !form.variable {
            if let KeyShape::Fixed(n) = tree.shape {
                out.truncate(from + n)
            }
        } else if w[form.words] <= SHORT as u64 {
            out.truncate(from + w[form.words] as usize)
        } else {
            out.extend_from_slice(rest_of(&self.rests, w[form.words]))
        }
    }

    /// Copies more entries; none are left if nothing was copied.
    #[inline(never)]
    fn fill(&mut self, guard: &Guard<'_>, mut seen: Option<&mut Vec<Seen>>) {
        let Some(tree) = self.tree.take() else { return };
        self.remember_last(&tree);
        self.clear();
        let mut turns = 0;
        while self.place != Place::End && self.oids.is_empty() {
            yield_point();
            let step = match self.direction {
                Direction::Forward => self.forward(&tree, guard, &mut seen),
                Direction::Backward => self.backward(&tree, guard, &mut seen),
            };
            if step.is_err() {
                self.clear();
                self.place = Place::Down;
                spin_wait(turns);
                turns += 1;
            }
        }
        self.step = (self.step * 4).min(MOST);
        self.tree = Some(tree);
    }

    /// Moves `at` to what was copied last, for when the scan has to come down again.
    fn remember_last(&mut self, tree: &Tree) {
        let Some(i) = self.oids.len().checked_sub(1) else { return };
        let form = &tree.form;
        let w = &self.words[i * form.columns..(i + 1) * form.columns];
        self.at.words = [0; WORDS];
        self.at.words[..form.words].copy_from_slice(&w[..form.words]);
        self.at.rest.clear();
        self.at.len = 0;
        if form.variable {
            self.at.len = w[form.words];
            if w[form.words] > SHORT as u64 {
                self.at.rest.extend_from_slice(rest_of(&self.rests, w[form.words]));
                self.at.len = (SHORT + self.at.rest.len()) as u64;
            }
        }
        self.at.oid = match self.direction {
            Direction::Forward => self.oids[i] + 1,
            Direction::Backward => self.oids[i],
        };
        self.unbounded_above = false;
    }

    fn saw(&mut self, leaf: Node, version: u64, seen: &mut Option<&mut Vec<Seen>>) {
        if let Some(seen) = seen {
            let this = leaf.seen(version);
            if self.last_seen != Some(this) {
                seen.push(this);
                self.last_seen = Some(this);
            }
        }
    }

    fn forward(&mut self, tree: &Tree, guard: &Guard<'_>, seen: &mut Option<&mut Vec<Seen>>) -> Checked<()> {
        let form = &tree.form;
        let columns = &form.leaf;
        let (leaf, version, from) = match self.place {
            Place::In(leaf, version, i) => {
                leaf.check(version)?;
                (leaf, version, i)
            }
            _ => {
                let p = self.at.probe();
                let (leaf, version) = tree.leaf_of(&p)?;
                (leaf, version, leaf.lower_bound(form, columns, leaf.count(), &p, version)?)
            }
        };
        let count = leaf.count();
        let from = from.min(count);
        let mut to = count.min(from + self.step);
        let mut ended = false;
        if self.limited && to > from {
            let limit = self.limit.probe();
            if self.step == FIRST {
                // Short scans are the rule: the few entries are looked at in turn.
                let mut i = from;
                while i < to && leaf.compare(form, columns, i, &limit, version)?.is_lt() {
                    i += 1
                }
                ended = i < to;
                to = i;
            } else if leaf.compare(form, columns, to - 1, &limit, version)?.is_ge() {
                to = leaf.lower_bound(form, columns, to, &limit, version)?.max(from);
                ended = true;
            }
        }
        self.copy(tree, guard, leaf, columns, version, from, to, false)?;
        let next = leaf.next();
        let place = if ended || to == count && next.is_none() {
            Place::End
        } else if to < count || to > from {
            // The link is read again when it is followed, so that a scan that stops here remembers no leaf
            // too many, and one that goes on misses no change.
            Place::In(leaf, version, to)
        } else {
            next.prefetch(columns);
            // Its version first, then this one's check (btree/B1).
            Place::In(next, latch::read(next.version()), 0)
        };
        leaf.check(version)?;
        self.saw(leaf, version, seen);
        self.place = place;
        Ok(())
    }

    fn backward(&mut self, tree: &Tree, guard: &Guard<'_>, seen: &mut Option<&mut Vec<Seen>>) -> Checked<()> {
        let form = &tree.form;
        let columns = &form.leaf;
        if self.place == Place::Below {
            if !self.bounded_below {
                self.place = Place::End;
                return Ok(());
            }
            std::mem::swap(&mut self.at, &mut self.fence);
            self.unbounded_above = false;
            self.place = Place::Down;
        }
        let (leaf, version, to) = match self.place {
            Place::In(leaf, version, i) => {
                leaf.check(version)?;
                (leaf, version, i)
            }
            _ => self.down_to_below(tree)?,
        };
        let from = to.saturating_sub(self.step);
        let mut copied_from = from;
        let mut ended = false;
        if self.limited {
            let limit = self.limit.probe();
            // The leaf's lower bound tells whether there can be anything of the range to its left.
            if to > 0 && leaf.compare(form, columns, from, &limit, version)?.is_lt() {
                copied_from = leaf.lower_bound(form, columns, to, &limit, version)?.max(from);
                ended = true;
            } else if from == 0 && self.bounded_below && self.fence.cmp(form.words, &limit).is_le() {
                ended = true;
            }
        }
        self.copy(tree, guard, leaf, columns, version, copied_from, to, true)?;
        leaf.check(version)?;
        self.saw(leaf, version, seen);
        self.place = match (ended, from) {
            (true, _) => Place::End,
            (false, 0) => Place::Below,
            (false, i) => Place::In(leaf, version, i),
        };
        Ok(())
    }

    /// The leaf that holds the places just below `at`, how many of its entries are below, and in `fence` its
    /// lower bound (R3).
    fn down_to_below(&mut self, tree: &Tree) -> Checked<(Node, u64, usize)> {
        let form = &tree.form;
        let (mut node, mut version) = tree.top()?;
        let mut fence = None;
        loop {
            let level = node.level();
            let columns = form.of(level);
            let count = node.count();
            let i = if self.unbounded_above {
                count
            } else {
                node.lower_bound(form, columns, count, &self.at.probe(), version)?
            };
            if level == 0 {
                self.bounded_below = fence.is_some();
                if let Some((words, oid)) = fence {
                    node.check(version)?;
                    // SAFETY: read at a version of its node that was checked on the way; the caller is
                    // pinned.
                    unsafe { Node::to_position(form, &words, oid, &mut self.fence) }
                }
                return Ok((node, version, i));
            }
            if i > 0 {
                fence = Some(node.entry(form, columns, i - 1));
            }
            (node, version) = tree.down(node, version, i, level)?;
        }
    }

    /// Copies entries of a leaf, and checks its version before it follows any blob.
    #[expect(clippy::too_many_arguments, reason = "one leaf and what of it")]
    #[inline]
    fn copy(
        &mut self,
        tree: &Tree,
        _guard: &Guard<'_>,
        leaf: Node,
        columns: &Columns,
        version: u64,
        from: usize,
        to: usize,
        reverse: bool,
    ) -> Checked<()> {
        let form = &tree.form;
        for n in from..to {
            let i = if reverse { from + to - 1 - n } else { n };
            for c in 0..form.columns {
                self.words.push(leaf.get(HEADER + c * columns.capacity + i))
            }
            self.oids.push(leaf.get(columns.oids + i));
        }
        if !form.variable {
            return Ok(());
        }
        leaf.check(version)?;
        for tail in self.words.chunks_exact_mut(form.columns).map(|w| &mut w[form.words]) {
            if *tail > SHORT as u64 {
                // SAFETY: the version was checked after the tail was read, and the guard pins (key/K2).
                let rest = unsafe { Blob(*tail).bytes() };
                let offset = self.rests.len();
                self.rests.extend_from_slice(rest);
                *tail = (rest.len() as u64) << 32 | offset as u64;
            }
        }
        Ok(())
    }
}

fn rest_of(rests: &[u8], tail: u64) -> &[u8] {
    let from = tail as u32 as usize;
    &rests[from..from + (tail >> 32) as usize]
}

/// Sets the place that a bound means: entries at or above it are above the bound. False: there is no bound.
#[inline]
fn set_bound(place: &mut Position, tree: &Tree, bound: Bound<&[u8]>, low: bool) -> bool {
    let (mut key, included) = match bound {
        Bound::Included(k) => (k, true),
        Bound::Excluded(k) => (k, false),
        Bound::Unbounded => return false,
    };
    let form = &tree.form;
    place.oid = if included == low { 0 } else { LAST };
    place.rest.clear();
    if form.variable {
        place.len = key.len() as u64;
        place.rest.extend_from_slice(key.get(SHORT..).unwrap_or(&[]));
    } else {
        let n = tree.fixed_bytes();
        if key.len() != n {
            // No key equals such a bound. A shorter one is below all keys that begin with it, so its place is
            // the first of them; a longer one is above the key that it begins with.
            place.oid = if key.len() < n { 0 } else { LAST };
            key = &key[..key.len().min(n)];
        }
    }
    for (i, w) in place.words.iter_mut().enumerate().take(form.words) {
        *w = word_at(key, 8 * i)
    }
    true
}

const _: fn() = || {
    fn sendable<T: Send>() {}
    sendable::<Cursor>()
};
