//! The names of one simulated disk: what a process sees, what is durable, and every change in between.
//!
//! - **N1** `now` and `durable` map whole paths to nodes; a change assigns some paths at once and is never
//!   seen in part, neither by a process nor after a failure.
//! - **N2** `pending` holds the changes that no sync of their folder has covered, in order. A sync of one
//!   folder says nothing of another; a change between two folders is durable when either is synced.
//! - **N3** After a power failure any of the pending changes survive, applied in order. A name whose folder
//!   did not survive is gone.
use super::random::Random;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    File(u64),
    Folder,
}

#[derive(Clone, Debug)]
struct Change {
    seq: u64,
    assigns: Vec<(String, Option<Node>)>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    now: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    pending: Vec<Change>,
}

pub(super) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(p, _)| p)
}
fn apply(names: &mut BTreeMap<String, Node>, assigns: &[(String, Option<Node>)]) {
    for (path, node) in assigns {
        match node {
            Some(n) => names.insert(path.clone(), *n),
            None => names.remove(path),
        };
    }
}

impl Names {
    /// The root is always there.
    pub fn get(&self, path: &str) -> Option<Node> {
        if path.is_empty() { Some(Node::Folder) } else { self.now.get(path).copied() }
    }
    pub fn durable(&self, path: &str) -> Option<Node> {
        if path.is_empty() { Some(Node::Folder) } else { self.durable.get(path).copied() }
    }
    /// Everything below a folder, with the paths whole.
    pub fn below(&self, folder: &str) -> Vec<(String, Node)> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let range = self.now.range(prefix.clone()..);
        range.take_while(|(p, _)| p.starts_with(&prefix)).map(|(p, n)| (p.clone(), *n)).collect()
    }
    pub fn change(&mut self, seq: u64, assigns: Vec<(String, Option<Node>)>) {
        apply(&mut self.now, &assigns);
        self.pending.push(Change { seq, assigns });
    }
    /// A sync of a folder that began at `upto`.
    pub fn sync(&mut self, folder: &str, upto: u64) {
        let mut go: Vec<bool> = self
            .pending
            .iter()
            .map(|c| c.seq <= upto && c.assigns.iter().any(|(p, _)| parent(p) == folder))
            .collect();
        // Earlier changes of the same names go along, lest they come later and bring the old state back.
        for i in (0..go.len()).rev() {
            if go[i] {
                let (earlier, rest) = self.pending.split_at(i);
                let names = &rest[0].assigns;
                for (go, change) in go.iter_mut().zip(earlier) {
                    *go |= change.assigns.iter().any(|(p, _)| names.iter().any(|(q, _)| p == q))
                }
            }
        }
        let mut at = 0;
        let durable = &mut self.durable;
        self.pending.retain(|c| {
            let go = go[at];
            at += 1;
            if go {
                apply(durable, &c.assigns)
            }
            !go
        });
    }
    pub fn power_failure(&mut self, r: &mut Random) {
        let pending = std::mem::take(&mut self.pending);
        // A journal in order keeps a prefix, a looser file system any subset; often all is there, or nothing.
        let n = pending.len() as u64;
        let prefix = match r.below(4) {
            0 => n,
            1 => 0,
            2 => r.below(n + 1),
            _ => u64::MAX,
        };
        for (i, c) in pending.iter().enumerate() {
            if if prefix == u64::MAX { r.chance(0.5) } else { (i as u64) < prefix } {
                apply(&mut self.durable, &c.assigns)
            }
        }
        // A folder sorts before what is in it, but not always right before it.
        let mut folders = BTreeSet::from([String::new()]);
        self.durable.retain(|path, node| {
            let there = folders.contains(parent(path));
            if there && *node == Node::Folder {
                folders.insert(path.clone());
            }
            there
        });
        self.now = self.durable.clone();
    }
    /// The files that any name, durable or not, may still lead to.
    pub fn files(&self) -> BTreeSet<u64> {
        let pending = self.pending.iter().flat_map(|c| c.assigns.iter().filter_map(|(_, n)| *n));
        let nodes = self.now.values().chain(self.durable.values()).copied().chain(pending);
        nodes.filter_map(|n| if let Node::File(id) = n { Some(id) } else { None }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, id: u64) -> Vec<(String, Option<Node>)> {
        vec![(path.into(), Some(Node::File(id)))]
    }

    #[test]
    fn a_sync_covers_its_folder_and_what_came_before_it() {
        for seed in 0..200 {
            let mut n = Names::default();
            n.change(1, vec![("d".into(), Some(Node::Folder))]);
            n.sync("", 1);
            n.change(2, file("d/a", 1));
            n.change(3, file("b", 2));
            n.change(4, vec![("d/a".into(), None), ("d/c".into(), Some(Node::File(1)))]);
            n.sync("d", 3);
            assert_eq!(n.durable("d/a"), Some(Node::File(1)), "the rename came after the sync began");
            n.sync("d", 4);
            n.power_failure(&mut Random::new(seed));
            assert_eq!((n.get("d/a"), n.get("d/c")), (None, Some(Node::File(1))));
        }
    }

    #[test]
    fn unsynced_names_survive_or_not_and_folders_take_their_names_along() {
        let (mut there, mut gone) = (0, 0);
        for seed in 0..200 {
            let mut n = Names::default();
            n.change(1, vec![("d".into(), Some(Node::Folder))]);
            n.change(2, file("d/a", 1));
            n.sync("d", 2);
            n.power_failure(&mut Random::new(seed));
            assert_eq!(n.get("d").is_some(), n.get("d/a").is_some());
            if n.get("d").is_some() { there += 1 } else { gone += 1 }
        }
        assert!(there > 20 && gone > 20, "{there} {gone}");
    }

    #[test]
    fn a_change_over_two_folders_is_whole() {
        let mut states = BTreeSet::new();
        for seed in 0..300 {
            let mut n = Names::default();
            n.change(1, file("a", 1));
            n.sync("", 1);
            n.change(2, file("b", 2));
            n.change(3, vec![("b".into(), None), ("a".into(), Some(Node::File(2)))]);
            n.power_failure(&mut Random::new(seed));
            let id = |n: Option<Node>| n.map_or(0, |n| if let Node::File(id) = n { id } else { 9 });
            states.insert((id(n.get("a")), id(n.get("b"))));
        }
        assert_eq!(states, BTreeSet::from([(1, 0), (1, 2), (2, 0)]));
    }
}
