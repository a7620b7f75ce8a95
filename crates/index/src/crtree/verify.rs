//! Verification of a tree at rest.
use super::node::Node;
use super::{MOST, Rect, Tree, put_key};
use crate::entry_oid;
use crate::latch::Versioned;
use ondol_base::oid::Oid;
use std::sync::atomic::Ordering;

/// What a walk has met so far.
struct Walk<'a> {
    each: &'a mut dyn FnMut(&[u8], Oid),
    entries: u64,
    nodes: u64,
}

impl Tree {
    pub(super) fn verify(&self, each: &mut dyn FnMut(&[u8], Oid)) -> Result<(), String> {
        let root = self.node(self.root.load(Ordering::Acquire));
        let mut walk = Walk { each, entries: 0, nodes: 0 };
        self.verify_node(root, root.level(), None, &mut walk)?;
        let counted = self.entries.sum();
        if counted != walk.entries as i64 {
            return Err(format!("the tree counts {counted} entries, its leaves hold {}", walk.entries));
        }
        // Nodes that were taken out may still wait for their epoch.
        let (used, spare) = (self.nodes.in_use(), self.spare.lock().len() as u64);
        if used < walk.nodes + spare {
            return Err(format!("{used} nodes are in use, found {} and {spare} spare ones", walk.nodes));
        }
        Ok(())
    }

    /// `outer`: what the parent's entry has.
    fn verify_node(
        &self,
        node: Node,
        level: u32,
        outer: Option<&Rect>,
        walk: &mut Walk<'_>,
    ) -> Result<(), String> {
        let form = &self.form;
        let at = |e: String| format!("node {} of level {level}: {e}", node.line);
        let version = node.version().load(Ordering::Acquire);
        if version & 1 != 0 {
            return Err(at(format!("latched at version {version}, expected a tree at rest")));
        }
        if node.level() != level {
            return Err(at(format!("says level {}", node.level())));
        }
        let count = node.count();
        if count > form.of(level).capacity || count == 0 && level > 0 {
            let most = form.of(level).capacity;
            return Err(at(format!(
                "says {count} entries, expected at most {most}, and one of an inner node"
            )));
        }
        walk.nodes += 1;
        if count == 0 {
            return Ok(());
        }
        let rect = node.rect(form);
        if outer.is_some_and(|outer| !outer.has(form.dimensions, &rect)) {
            return Err(at(format!("{rect:?} is not within {outer:?}, which its parent has of it")));
        }
        if form.is_compressed()
            && let Some(d) = (0..form.dimensions)
                .find(|d| !node.grid(form, *d).holds(rect.low[*d], rect.high[*d], form.bits))
        {
            return Err(at(format!("{:?} does not have {rect:?} in dimension {d}", node.grid(form, d))));
        }
        for i in 0..count {
            let entry = node.entry_rect(form, level, i);
            let meets = (0..form.dimensions).all(|d| {
                entry.low[d] <= entry.high[d] && entry.low[d] <= rect.high[d] && rect.low[d] <= entry.high[d]
            });
            if !meets {
                return Err(at(format!("entry {i} is {entry:?}, outside of {rect:?}")));
            }
            if level > 0 {
                self.verify_node(self.node(node.child(form, i)), level - 1, Some(&entry), walk)?
            } else {
                walk.entries += 1;
                let corner: [f64; MOST] = std::array::from_fn(|d| entry.low[d].max(rect.low[d]));
                let mut key = Vec::with_capacity(8 * MOST);
                put_key(&corner[..form.dimensions], &mut key);
                (walk.each)(&key, entry_oid(node.oid(form, i)))
            }
        }
        Ok(())
    }

    /// Calls `each` with every entry of a tree at rest: its OID, and what says of a key whether the entry
    /// stands for it.
    pub(super) fn cells(&self, each: &mut dyn FnMut(Oid, &dyn Fn(&[u8]) -> bool)) {
        let mut open = vec![self.root.load(Ordering::Acquire)];
        while let Some(line) = open.pop() {
            let node = self.node(line);
            for i in 0..node.count() {
                if node.level() > 0 {
                    open.push(node.child(&self.form, i));
                    continue;
                }
                let same = |key: &[u8]| self.point(key).is_some_and(|p| node.stands_for(&self.form, i, &p));
                each(entry_oid(node.oid(&self.form, i)), &same)
            }
        }
    }
}
