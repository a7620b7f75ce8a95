//! What lies within a box.
use super::node::{Masks, Node, WORDS};
use super::{CrTree, MOST, Point, Rect, Tree};
use crate::latch::Versioned;
use crate::{Seen, entry_oid, latch};
use ondol_base::epoch::Guard;
use ondol_base::oid::Oid;
use ondol_base::sync::{spin_wait, yield_point};
use std::sync::atomic::Ordering;

/// Memory for searches, and what the last of them came past.
#[derive(Default)]
pub struct Search {
    /// Nodes that are still to be looked at, each with the tree's count of splits before its parent was read
    /// (crtree/C3).
    open: Vec<(u32, u64)>,
    node: Option<Box<Scratch>>,
    nodes: u64,
}

impl Search {
    pub fn new() -> Search {
        Search::default()
    }
    /// Nodes that the last search looked at.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }
}

/// Memory for a node.
struct Scratch {
    masks: Masks,
    /// OIDs found in a leaf, before it is known that it has not changed meanwhile, and how many.
    oids: [u64; LEAF],
    found: usize,
}
/// No leaf has more entries.
const LEAF: usize = 8 * WORDS;
impl Default for Scratch {
    fn default() -> Scratch {
        Scratch { masks: Masks::default(), oids: [0; LEAF], found: 0 }
    }
}

/// A query in a node's codes.
pub(super) enum Aim {
    /// The node's rectangle is outside.
    Outside,
    /// Codes to be met in the dimensions whose bits are set.
    Codes([u64; MOST], [u64; MOST], u32),
}

impl Tree {
    /// What of a box a node can have; `Outside` as long as it has no entries.
    #[inline(always)]
    pub(super) fn aim(&self, node: Node, count: usize, low: &Point, high: &Point) -> Aim {
        let form = &self.form;
        let (mut from, mut to, mut asked) = ([0; MOST], [0; MOST], 0);
        if count == 0 {
            return Aim::Outside;
        }
        for d in 0..form.dimensions {
            let (least, greatest) = (node.low(d), node.high(form, d));
            if low[d] > greatest || high[d] < least {
                return Aim::Outside;
            }
            if low[d] > least || high[d] < greatest {
                // Beyond the node's own rectangle there is nothing; so its grid has both.
                from[d] = node.encode(form, d, low[d].max(least));
                to[d] = node.encode(form, d, high[d].min(greatest));
                asked |= 1 << d
            }
        }
        Aim::Codes(from, to, asked)
    }

    /// False if it was given up, where more than `most` were found.
    fn search(
        &self,
        rect: &Rect,
        most: usize,
        search: &mut Search,
        out: &mut Vec<Oid>,
        mut seen: Option<&mut Vec<Seen>>,
    ) -> bool {
        let form = &self.form;
        let Search { open, node: scratch, nodes } = search;
        let Scratch { masks, oids, found } = &mut **scratch.get_or_insert_default();
        open.clear();
        *nodes = 0;
        let had = out.len();
        let (root, splits) = self.start();
        open.push((root.line, splits));
        while let Some((line, before)) = open.pop() {
            let node = self.node(line);
            if let Some((next, _)) = open.last() {
                self.node(*next).prefetch(form)
            }
            let left = open.len();
            let mut turns = 0;
            let version = loop {
                open.truncate(left);
                *found = 0;
                yield_point();
                let version = latch::read(node.version());
                // A split that comes after this is one that its children tell of.
                let splits = self.splits.load(Ordering::Acquire);
                if node.sequence() > before
                    && !ondol_base::sim::mutated("link_not_followed")
                    && let Some(link) = node.link()
                {
                    open.push((link, before))
                }
                let (level, count) = (node.level(), node.count());
                let mut put = |oid| {
                    oids[*found % LEAF] = oid;
                    *found += 1
                };
                if let Aim::Codes(low, high, asked) = self.aim(node, count, &rect.low, &rect.high) {
                    if level == 0 && asked == 0 {
                        // All of it.
                        *found = count.min(LEAF);
                        node.oids(form, *found, oids)
                    } else {
                        let words = node.matches(form, level, count, (&low, &high), asked, masks);
                        match level {
                            0 => masks.each(words, form.bits, |i| put(node.oid(form, i))),
                            _ => masks.each(words, form.bits, |i| open.push((node.child(form, i), splits))),
                        }
                    }
                }
                if node.check(version).is_ok() {
                    break version;
                }
                spin_wait(turns);
                turns += 1;
            };
            *nodes += 1;
            if let Some(seen) = &mut seen {
                seen.push(node.seen(version))
            }
            out.extend(oids[..*found].iter().map(|oid| entry_oid(*oid)));
            if out.len() - had > most {
                return false;
            }
        }
        true
    }
}

impl CrTree {
    /// Calls `each` with the level and the rectangle of every node that has entries, leaves being of level 0;
    /// what others split meanwhile may be missed.
    pub fn nodes(&self, _guard: &Guard<'_>, each: &mut dyn FnMut(u32, &Rect)) {
        let (tree, form) = (&self.tree, &self.tree.form);
        let mut open = vec![tree.start().0];
        while let Some(node) = open.pop() {
            let left = open.len();
            let (level, count, rect) = loop {
                open.truncate(left);
                let version = latch::read(node.version());
                let (level, count, rect) = (node.level(), node.count(), node.rect(form));
                if level > 0 {
                    open.extend((0..count).map(|i| tree.node(node.child(form, i))))
                }
                if node.check(version).is_ok() {
                    break (level, count, rect);
                }
            };
            if count > 0 {
                each(level, &rect)
            }
        }
    }
    /// Appends the OIDs of all entries that may lie within a box, its edges included, and to `seen` each node
    /// looked at. Some may lie outside, by the width of a cell; some OIDs come more than once, such as those
    /// of rows that have several versions within.
    pub fn search(
        &self,
        _guard: &Guard<'_>,
        rect: &Rect,
        search: &mut Search,
        out: &mut Vec<Oid>,
        seen: Option<&mut Vec<Seen>>,
    ) {
        self.tree.search(rect, usize::MAX, search, out, seen);
    }
    /// The same, unless more than `most` are found: then it is given up, and false.
    pub fn search_up_to(
        &self,
        _guard: &Guard<'_>,
        rect: &Rect,
        most: usize,
        search: &mut Search,
        out: &mut Vec<Oid>,
    ) -> bool {
        self.tree.search(rect, most, search, out, None)
    }
}
