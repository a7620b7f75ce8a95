//! Phantoms: whoever remembers the nodes of a lookup or a scan learns of each insert that would have changed
//! its result, whatever splits, growth and removals lie between.
#![allow(unsafe_code)] // Seen nodes are read again: their index lives.
mod common;
use common::{Limit, Random, seeds};
use ondol_base::epoch::Epochs;
use ondol_base::oid::Oid;
use ondol_index::btree::{BTree, Direction, KeyShape};
use ondol_index::hash::HashIndex;
use ondol_index::{Index, Seen};
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
                index.insert(&guard, &other.to_le_bytes(), Oid(8 * r.below(1 << 30) + 8)).unwrap();
            }
            needless += !unchanged(&seen) as u32;
            let buckets = index.buckets();
            let done = index.insert(&guard, &key, Oid(8 * round + 8)).unwrap();
            assert!(done.new && !unchanged(&seen), "round {round}");
            // A second insert of the same pair brings a dead entry to life, and is seen as well (I5).
            let mut seen = Vec::new();
            index.lookup(&guard, &key, &mut out, Some(&mut seen));
            // Unless the insert made the table grow, by a split of just this bucket.
            assert!(seen == [done.after] || index.buckets() > buckets);
            assert!(!index.insert(&guard, &key, Oid(8 * round + 8)).unwrap().new);
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
                        tree.remove_if(&guard, &k, Oid(oid), &mut || true);
                    } else if r.below(3) > 0 {
                        tree.insert(&guard, &k, Oid(oid)).unwrap();
                    }
                }
            }
            still += unchanged(&seen) as u32;
            let k = make(low + r.below(high - low + 1));
            tree.insert(&guard, &k, Oid(8 + 8 * r.below(4))).unwrap();
            assert!(!unchanged(&seen), "round {round}: {low}..={high}, {d:?}");
        }
        assert!(still > 0);
        tree.verify(&mut |_, _| ()).unwrap();
    });
}

/// An insert's own report lets its transaction tell its change from another's.
#[test]
fn own_inserts_are_told_apart() {
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let guard = me.pin();
    let tree = BTree::new(KeyShape::Fixed(8), Limit::none()).unwrap();
    let hash = HashIndex::new(Limit::none(), 1000).unwrap();
    let mut told = 0;
    for index in [&tree as &dyn Index, &hash] {
        for i in 0..300u64 {
            let key = (i * 7 % 300).to_be_bytes();
            let mut seen = Vec::new();
            index.lookup(&guard, &key, &mut Vec::new(), Some(&mut seen));
            let done = index.insert(&guard, &key, Oid(8)).unwrap();
            if seen.contains(&done.before) {
                told += 1;
                assert!(done.before.node == done.after.node && done.before.version + 2 == done.after.version);
                assert!(unchanged(&[done.after]));
            }
        }
    }
    assert!(told > 560, "{told}");
}
