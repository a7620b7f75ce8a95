//! Verification of a tree at rest, and the walk that frees its blobs.
use super::key::{Blob, Position, SHORT};
use super::node::Node;
use super::{Tree, bytes_of};
use crate::entry_oid;
use crate::latch::Versioned;
use ondol_base::oid::Oid;
use std::cmp::Ordering::{Equal, Less};
use std::sync::atomic::Ordering;

/// What a walk has met so far.
struct Walk<'a> {
    each: &'a mut dyn FnMut(&[u8], Oid),
    /// The entry before.
    last: Option<Position>,
    /// Where the links from leaf to leaf have led.
    expected: Option<Node>,
    entries: u64,
    nodes: u64,
    blobs: usize,
}

impl Tree {
    pub(super) fn verify(&self, each: &mut dyn FnMut(&[u8], Oid)) -> Result<(), String> {
        let root = self.root();
        let mut walk = Walk { each, last: None, expected: None, entries: 0, nodes: 0, blobs: 0 };
        self.verify_node(root, root.level(), None, None, &mut walk)?;
        if let Some(n) = walk.expected.filter(|n| !n.is_none()) {
            return Err(format!("the last leaf links to {:p}, expected no further leaf", n.0));
        }
        let counted = self.entries.sum();
        if counted != walk.entries as i64 {
            return Err(format!("the tree counts {counted} entries, its leaves hold {}", walk.entries));
        }
        let spare = self.spare_leaves.lock().len() + self.spare_inner.lock().len();
        let used = self.nodes.in_use();
        if used != walk.nodes + spare as u64 {
            return Err(format!("{used} nodes are in use, found {} and {spare} spare ones", walk.nodes));
        }
        // Retired blobs may still wait for their epoch.
        let charged = self.blobs.bytes.load(Ordering::Relaxed);
        if charged < walk.blobs {
            return Err(format!("{charged} bytes of keys are charged, found {}", walk.blobs));
        }
        Ok(())
    }

    fn verify_node(
        &self,
        node: Node,
        level: u32,
        low: Option<&Position>,
        high: Option<&Position>,
        walk: &mut Walk<'_>,
    ) -> Result<(), String> {
        let form = &self.form;
        let at = |e: String| format!("node {:p} of level {level}: {e}", node.0);
        let version = node.version().load(Ordering::Acquire);
        if version & 1 != 0 {
            return Err(at(format!("latched at version {version}, expected a tree at rest")));
        }
        if node.level() != level {
            return Err(at(format!("says level {}", node.level())));
        }
        let columns = form.of(level);
        let count = node.count();
        if count > columns.capacity {
            return Err(at(format!("says {count} entries, expected at most {}", columns.capacity)));
        }
        walk.nodes += 1;
        let mut entries = Vec::with_capacity(count);
        for i in 0..count {
            let (words, oid) = node.entry(form, columns, i);
            let mut e = Position::default();
            if form.variable && words[form.words] > SHORT as u64 {
                // SAFETY: the tree is at rest (key/K2).
                walk.blobs += unsafe { Blob(words[form.words]).bytes() }.len();
            }
            // SAFETY: as above.
            unsafe { Node::to_position(form, &words, oid, &mut e) };
            if low.is_some_and(|l| e.cmp(form.words, &l.probe()) == Less) {
                return Err(at(format!("entry {i} is below the node's lower bound")));
            }
            if high.is_some_and(|h| e.cmp(form.words, &h.probe()) != Less) {
                return Err(at(format!("entry {i} is not below the node's upper bound")));
            }
            entries.push(e);
        }
        if let Some(i) = (1..count).find(|&i| entries[i - 1].cmp(form.words, &entries[i].probe()) != Less) {
            return Err(at(format!("entries {} and {i} are out of order", i - 1)));
        }
        if level > 0 {
            for i in 0..=count {
                let child = node.child(form, i);
                if child.is_none() {
                    return Err(at(format!("child {i} of {count} is missing")));
                }
                let low = if i > 0 { entries.get(i - 1) } else { low };
                self.verify_node(child, level - 1, low, entries.get(i).or(high), walk)?;
            }
            return Ok(());
        }
        if walk.expected.is_some_and(|n| n != node) {
            return Err(at("is not the leaf that its left neighbour links to".to_string()));
        }
        walk.expected = Some(node.next());
        for e in entries {
            if walk.last.as_ref().is_some_and(|l| matches!(e.cmp(form.words, &l.probe()), Less | Equal)) {
                return Err(at("begins at or below the entry before it".to_string()));
            }
            walk.entries += 1;
            let oid = entry_oid(e.oid);
            if form.variable {
                (walk.each)(&bytes_of(&e), oid)
            } else {
                let key: Vec<u8> = e.words[..form.words].iter().flat_map(|w| w.to_be_bytes()).collect();
                (walk.each)(&key[..self.fixed_bytes()], oid)
            }
            walk.last = Some(e);
        }
        Ok(())
    }

    /// Frees the blobs below a node of a tree that nobody uses any more.
    pub(super) fn free_blobs(&self, node: Node) {
        let (level, count) = (node.level(), node.count());
        for i in 0..count {
            let (words, _) = node.entry(&self.form, self.form.of(level), i);
            if words[self.form.words] > SHORT as u64 {
                // SAFETY: the tree is being dropped, and each blob is in one node (key/K2).
                unsafe { self.blobs.free(Blob(words[self.form.words])) }
            }
        }
        if level > 0 {
            (0..=count).for_each(|i| self.free_blobs(node.child(&self.form, i)))
        }
    }
}
