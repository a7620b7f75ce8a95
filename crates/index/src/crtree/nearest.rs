//! Neighbours of a point, the nearest first (Hjaltason, Samet, ACM TODS 1999): what is open, nodes and
//! entries, waits in one heap by the distance that all of it has at least.
//!
//! - **R1** That distance is that of a box, a little less than it: a sum of squares is as exact as six
//!   roundings leave it, and an entry's box is a cell. So whatever an entry, or an entry of a node below,
//!   stands for is not nearer.
//! - **R2** A right part that a split has left (crtree/C3) has the distance of the node that was split: all
//!   that lay in it when the node above was read is that far away. What came since then no snapshot shows
//!   that was taken before.
use super::node::{Masks, Node};
use super::search::Aim;
use super::{CrTree, MOST, Point, Rect, Tree};
use crate::latch::Versioned;
use crate::{Seen, entry_oid, latch};
use ondol_base::epoch::Guard;
use ondol_base::oid::Oid;
use ondol_base::ordered::Ordered;
use ondol_base::sim::mutated;
use ondol_base::sync::{spin_wait, yield_point};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic;

/// What is asked: which entries of a box are the nearest to a point, in some of the dimensions.
#[derive(Clone, Copy, Debug)]
pub struct Near {
    pub to: Point,
    /// The dimensions in which distances count, a bit for each.
    pub counted: u32,
    pub within: Rect,
}

/// Memory for such searches, and what the last of them came past.
#[derive(Default)]
pub struct Nearest {
    open: BinaryHeap<Open>,
    found: Vec<Open>,
    masks: Masks,
    nodes: u64,
}

impl Nearest {
    /// Nodes that the last search looked at.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A node, and the tree's count of splits before its parent was read (crtree/C3).
    Node(u32, u64),
    Entry(u64),
}

/// What is still to be looked at, by its squared distance, or less; the nearest is the greatest, as heaps
/// have it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    nearness: Reverse<Ordered>,
    what: What,
}

impl Open {
    fn new(squared: f64, what: What) -> Open {
        Open { nearness: Reverse(Ordered(squared)), what }
    }
    fn squared(&self) -> f64 {
        self.nearness.0.0
    }
}

/// What the distance is at least whose square was added up to this (R1).
fn at_least(squared: f64) -> f64 {
    // Below this, squares are not exact any more; above all numbers they are infinite.
    const SMALL: f64 = 1e-290;
    if squared < SMALL { 0.0 } else { squared.min(f64::MAX).sqrt() * (1.0 - 16.0 * f64::EPSILON) }
}

impl Near {
    /// The part of the box in which all that is not farther than `limit` lies.
    fn within(&self, limit: f64) -> Rect {
        let mut within = self.within;
        if limit < f64::MAX {
            let far = limit * (1.0 + 4.0 * f64::EPSILON);
            for d in (0..MOST).filter(|d| self.counted >> d & 1 == 1) {
                within.low[d] = within.low[d].max((self.to[d] - far).next_down());
                within.high[d] = within.high[d].min((self.to[d] + far).next_up())
            }
        }
        within
    }
}

impl Tree {
    /// The squared distance of an entry's box, or less.
    fn squared(&self, node: Node, level: u32, i: usize, near: &Near) -> f64 {
        let rect = node.entry_rect(&self.form, level, i);
        let mut squared = 0.0;
        for d in (0..self.form.dimensions).filter(|d| near.counted >> d & 1 == 1) {
            let (low, high) = (rect.low[d].max(node.low(d)), rect.high[d].min(node.high(&self.form, d)));
            let x = near.to[d];
            let away = if x < low { low - x } else { (x - high).max(0.0) };
            squared += away * away
        }
        squared
    }

    fn nearest(
        &self,
        near: &Near,
        nearest: &mut Nearest,
        each: &mut dyn FnMut(f64, Oid) -> f64,
        mut seen: Option<&mut Vec<Seen>>,
    ) -> f64 {
        let Nearest { open, found, masks, nodes } = nearest;
        let mut limit = f64::INFINITY;
        open.clear();
        *nodes = 0;
        let (root, splits) = self.start();
        open.push(Open::new(0.0, What::Node(root.line, splits)));
        while let Some(next) = open.pop() {
            let squared = next.squared();
            if at_least(squared) > limit {
                break;
            }
            match next.what {
                What::Entry(oid) => limit = each(at_least(squared), entry_oid(oid)),
                What::Node(line, before) => {
                    let node = self.node(line);
                    let within = near.within(limit);
                    let version = self.open(node, (squared, before), (near, &within), masks, found);
                    *nodes += 1;
                    if let Some(seen) = &mut seen {
                        seen.push(node.seen(version))
                    }
                    open.extend(found.iter().filter(|f| at_least(f.squared()) <= limit));
                }
            }
        }
        limit
    }

    /// Reads a node: what of it may lie in the box. Gives the version that it had.
    fn open(
        &self,
        node: Node,
        (squared, before): (f64, u64),
        (near, within): (&Near, &Rect),
        masks: &mut Masks,
        found: &mut Vec<Open>,
    ) -> u64 {
        let form = &self.form;
        let mut turns = 0;
        loop {
            found.clear();
            yield_point();
            let version = latch::read(node.version());
            let splits = self.splits.load(atomic::Ordering::Acquire);
            if node.sequence() > before
                && !mutated("neighbours_link_not_followed")
                && let Some(link) = node.link()
            {
                found.push(Open::new(squared, What::Node(link, before))) // R2
            }
            let (level, count) = (node.level(), node.count());
            if let Aim::Codes(low, high, asked) = self.aim(node, count, &within.low, &within.high) {
                let words = node.matches(form, level, count, (&low, &high), asked, masks);
                masks.each(words, form.bits, |i| {
                    let what = match level {
                        0 => What::Entry(node.oid(form, i)),
                        _ => What::Node(node.child(form, i), splits),
                    };
                    // A child is not nearer than its parent, though its cell may be.
                    found.push(Open::new(self.squared(node, level, i, near).max(squared), what))
                })
            }
            if node.check(version).is_ok() {
                return version;
            }
            spin_wait(turns);
            turns += 1;
        }
    }
}

impl CrTree {
    /// Calls `each` with the OIDs of the entries that may lie in a box, by the least distances from a point
    /// that they can have, and with these; `each` says up to which distance entries are wanted, never more
    /// than it said before. Appends each node looked at to `seen`.
    ///
    /// Gives what `each` said last, infinity if it was not called: all entries up to that distance were
    /// given. Some lie outside, by the width of a cell; some OIDs come more than once, as in
    /// [`CrTree::search`].
    pub fn nearest(
        &self,
        _guard: &Guard<'_>,
        near: &Near,
        nearest: &mut Nearest,
        each: &mut dyn FnMut(f64, Oid) -> f64,
        seen: Option<&mut Vec<Seen>>,
    ) -> f64 {
        self.tree.nearest(near, nearest, each, seen)
    }
}
