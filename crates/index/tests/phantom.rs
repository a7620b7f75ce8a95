//! Phantoms: whoever remembers the nodes of a lookup or a scan learns of each insert that would have changed
//! its result, whatever splits, growth and removals lie between.
#![allow(unsafe_code)] // Seen nodes are read again: their index lives.
mod common;
use common::{Limit, Random, Versions, oid_of, seeds};
use ondol_base::epoch::Epochs;
use ondol_index::btree::{BTree, Direction, KeyShape};
use ondol_index::crtree::{CrTree, Rect, Search, put_key};
use ondol_index::hash::HashIndex;
use ondol_index::{Index, Moved, Seen};
use std::ops::Bound;

fn unchanged(seen: &[Seen]) -> bool {
    // SAFETY: every index of these tests outlives what was seen in it.
    seen.iter().all(|s| unsafe { s.unchanged() })
}

#[test]
fn an_insert_under_a_key_changes_the_bucket_seen() {
    seeds(20, |seed| {
        let epochs = Epochs::new();
        let me = epochs.join(0);
        let guard = me.pin();
        let mut r = Random(seed);
        let index = HashIndex::new(Limit::none(), 0).unwrap();
        let mut needless = 0;
        for round in 0..300u64 {
            let key = (1 << 40 | r.below(1 << 20)).to_le_bytes();
            let (mut out, mut seen) = (Vec::new(), Vec::new());
            index.lookup(&guard, &key, &mut out, Some(&mut seen));
            assert_eq!(seen.len(), 1);
            // Sometimes much happens before the insert, sometimes nothing.
            for _ in 0..r.below(4) * r.below(200) {
                let other = r.next();
                index.insert(&guard, &other.to_le_bytes(), oid_of(8 * r.below(1 << 30) + 8), None).unwrap();
            }
            needless += !unchanged(&seen) as u32;
            let buckets = index.buckets();
            let mut moves = vec![];
            let new = index.insert(&guard, &key, oid_of(8 * round + 8), Some(&mut moves)).unwrap();
            assert!(new && !unchanged(&seen), "round {round}");
            // A second insert of the same pair brings a dead entry to life, and is seen as well (index/I5).
            let mut seen = Vec::new();
            index.lookup(&guard, &key, &mut out, Some(&mut seen));
            // Unless the insert made the table grow, by a split of just this bucket.
            assert!(seen == [moves[0].to] || index.buckets() > buckets);
            assert!(!index.insert(&guard, &key, oid_of(8 * round + 8), None).unwrap());
            assert!(!unchanged(&seen));
        }
        assert!(needless < 300);
    });
}

#[test]
fn an_insert_into_a_range_changes_a_leaf_seen() {
    seeds(30, |seed| {
        let epochs = Epochs::new();
        let me = epochs.join(0);
        let guard = me.pin();
        let mut r = Random(seed);
        let variable = seed % 2 == 0;
        let shape = if variable { KeyShape::Variable } else { KeyShape::Fixed(8) };
        let make = |n: u64| {
            if variable {
                format!("a beginning in common {n:06}").into_bytes()
            } else {
                n.to_be_bytes().to_vec()
            }
        };
        let tree = BTree::new(shape, Limit::none()).unwrap();
        const KEYS: u64 = 3000;
        let mut still = 0;
        for round in 0..400u64 {
            let low = r.below(KEYS);
            let high = low + r.pick(&[2, 50, 1000]);
            let (l, h) = (make(low), make(high));
            let d = if r.below(2) == 0 { Direction::Forward } else { Direction::Backward };
            let mut seen = Vec::new();
            if low == high && r.below(2) == 0 {
                tree.lookup(&guard, &l, &mut Vec::new(), Some(&mut seen));
            } else {
                let mut c = tree.cursor((Bound::Included(&l), Bound::Included(&h)), d);
                while c.next_oid(&guard, Some(&mut seen)).is_some() {}
            }
            assert!(!seen.is_empty());
            // Growing and shrinking, so that leaves are split, emptied, unlinked and used again.
            let clearing = round / 40 % 2 == 1;
            let from = r.below(KEYS);
            for i in 0..r.below(400) {
                let k = make(if clearing { (from + i) % KEYS } else { r.below(KEYS) });
                for oid in [8, 16, 24] {
                    if clearing {
                        tree.remove_if(&guard, &k, oid_of(oid), &mut || true);
                    } else if r.below(3) > 0 {
                        tree.insert(&guard, &k, oid_of(oid), None).unwrap();
                    }
                }
            }
            still += unchanged(&seen) as u32;
            let k = make(low + r.below(high - low + 1));
            tree.insert(&guard, &k, oid_of(8 + 8 * r.below(4)), None).unwrap();
            assert!(!unchanged(&seen), "round {round}: {low}..={high}, {d:?}");
        }
        assert!(still > 0);
        tree.verify(&mut |_, _| ()).unwrap();
    });
}

/// Who follows its own changes, and how.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Follow {
    Rightly,
    /// Known to be wrong: the upper half of a leaf that was split is given up.
    HalfForgotten,
    /// Known to be wrong: any version of a node that was changed is taken for the one that it had.
    VersionIgnored,
    /// Known to be wrong: a leaf whose range went to its neighbour is remembered as itself.
    UnlinkedKept,
    /// Known to be wrong: the children of a node whose boxes have become larger are not remembered.
    ChildrenForgotten,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Hash,
    Btree,
    Crtree,
}

/// A transaction reads a range and changes it itself, and another may change it once, meanwhile or behind.
/// The former is followed, the latter noticed: else what is wrong.
fn own_changes(seed: u64, kind: Kind, follow: Follow) -> Result<(), String> {
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let guard = me.pin();
    let mut r = Random(seed);
    const KEYS: u64 = 600;
    let tree = BTree::new(KeyShape::Fixed(8), Limit::none()).unwrap();
    let hash = HashIndex::new(Limit::none(), 3 * KEYS).unwrap();
    // Small nodes, so that there are several levels.
    let rows = Versions::new();
    let boxes = CrTree::new(6, if r.below(2) == 0 { 8 } else { 64 }, rows.clone(), Limit::none()).unwrap();
    let index: &dyn Index = match kind {
        Kind::Hash => &hash,
        Kind::Btree => &tree,
        Kind::Crtree => &boxes,
    };
    let mut dice = Random(seed + 1);
    let mut key = |k: u64| {
        let mut key = k.to_be_bytes().to_vec();
        if kind == Kind::Crtree {
            key.clear();
            let mut p = [0.0; 6];
            p.iter_mut().for_each(|x| *x = dice.below(1000) as f64);
            p[0] = k as f64;
            put_key(&p, &mut key)
        }
        key
    };
    let low = r.below(KEYS);
    let high = (low + r.pick(&[3, 30, 300])).min(KEYS - 1);
    // Of a row the tree asks for the keys.
    let mut row = 0;
    let mut next = |oid: u64| {
        row += 1;
        if kind == Kind::Crtree { 64 * row + oid } else { oid }
    };
    let add = |key: &[u8], oid: u64, moves: Option<&mut Vec<Moved>>| {
        rows.add(oid, key);
        index.insert(&guard, key, oid_of(oid), moves).unwrap();
        (key.to_vec(), oid)
    };
    // Boxes lie apart.
    let apart = |k: u64| if kind == Kind::Crtree { k / 100 * 100 + k % 100 / 5 } else { k };
    let mut there = vec![];
    for _ in 0..r.below(600) {
        there.push(add(&key(apart(r.below(KEYS))), next(8), None))
    }
    let buckets = hash.buckets();
    let (mut seen, mut out) = (vec![], vec![]);
    let (l, h) = (low.to_be_bytes(), high.to_be_bytes());
    match kind {
        Kind::Hash => {
            (low..=high).for_each(|k| index.lookup(&guard, &k.to_be_bytes(), &mut out, Some(&mut seen)))
        }
        Kind::Btree => {
            let mut c = tree.cursor((Bound::Included(&l), Bound::Included(&h)), Direction::Forward);
            while c.next_oid(&guard, Some(&mut seen)).is_some() {}
        }
        Kind::Crtree => {
            let mut rect = Rect { low: [f64::MIN; 6], high: [f64::MAX; 6] };
            (rect.low[0], rect.high[0]) = (low as f64, high as f64);
            boxes.search(&guard, &rect, &mut Search::new(), &mut out, Some(&mut seen))
        }
    }
    // Some grow and some shrink, so that leaves are split, emptied and unlinked.
    let steps = r.below(600);
    let by_another = (r.below(2) == 0).then(|| r.below(steps + 1));
    let growing = r.below(2) == 0;
    let from = r.below(KEYS);
    let within = |r: &mut Random| low + r.below(high - low + 1);
    for step in 0..=steps {
        if by_another == Some(step) {
            add(&key(within(&mut r)), next(16), None);
        }
        let mut moves = vec![];
        let k = key(if growing { r.below(KEYS) } else { (from + step) % KEYS });
        if growing == (r.below(if growing { 8 } else { 200 }) > 0) {
            there.push(add(&k, next(24 + 8 * r.below(2)), Some(&mut moves)))
        } else if kind == Kind::Crtree {
            for _ in 0..4.min(there.len()) {
                let (key, oid) = there.swap_remove(r.below(there.len() as u64) as usize);
                rows.take(oid, &key);
                index.remove_dead(&guard, &key, oid_of(oid), &mut |_| true, Some(&mut moves));
            }
        } else {
            for oid in [8, 16, 24, 32] {
                index.remove_dead(&guard, &k, oid_of(oid), &mut |_| true, Some(&mut moves));
            }
        }
        for m in moves {
            if follow == Follow::UnlinkedKept && m.from.node != m.to.node {
                seen.iter_mut().filter(|s| **s == m.from).for_each(|s| s.version += 2);
                continue;
            }
            let met = |s: &Seen| *s == m.from || follow == Follow::VersionIgnored && s.node == m.from.node;
            if seen.iter().any(met) {
                seen.iter_mut().filter(|s| met(s)).for_each(|s| *s = m.to);
                let is_split = m.from != m.to;
                seen.extend(m.also.filter(|_| match follow {
                    Follow::HalfForgotten => !is_split,
                    Follow::ChildrenForgotten => is_split,
                    _ => true,
                }))
            }
        }
    }
    let as_it_was = unchanged(&seen);
    if by_another.is_some() && as_it_was {
        return Err("another's change was not noticed".into());
    }
    if by_another.is_none() && !as_it_was && hash.buckets() == buckets {
        return Err("an own change was taken for another's".into());
    }
    if as_it_was {
        add(&key(within(&mut r)), next(40), None);
        if unchanged(&seen) {
            return Err("another's later change was not noticed".into());
        }
    }
    Ok(())
}

#[test]
fn own_changes_are_told_apart() {
    for kind in [Kind::Hash, Kind::Btree, Kind::Crtree] {
        for seed in 0..400 {
            let right = own_changes(seed, kind, Follow::Rightly);
            right.unwrap_or_else(|e| panic!("{kind:?}, seed {seed}: {e}"))
        }
        let variants: &[Follow] = match kind {
            Kind::Hash => &[Follow::VersionIgnored],
            Kind::Btree => &[Follow::HalfForgotten, Follow::VersionIgnored, Follow::UnlinkedKept],
            Kind::Crtree => &[Follow::HalfForgotten, Follow::VersionIgnored, Follow::ChildrenForgotten],
        };
        for wrong in variants {
            let is_noticed = (0..400).any(|seed| own_changes(seed, kind, *wrong).is_err());
            assert!(is_noticed, "{kind:?}: {wrong:?} is not noticed");
        }
    }
}
