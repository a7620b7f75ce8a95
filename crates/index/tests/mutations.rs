//! Known-wrong variants of the indexes, each of which some simulated world must notice; as they are, none
//! notices anything.
//!
//! - **U1** An entry that stays is found by every lookup of its key, whatever splits meanwhile.
//! - **U2** Two scans of a range between which no remembered node changed give the same.
#![allow(unsafe_code)] // Seen nodes are read again: their index lives.
mod common;
use common::{Limit, Random, oid_of};
use ondol_base::epoch::{Epochs, Guard};
use ondol_base::oid::Oid;
use ondol_base::sim::{Config, World};
use ondol_base::sync::yield_point;
use ondol_base::thread;
use ondol_index::btree::{BTree, Direction, KeyShape};
use ondol_index::hash::{HashIndex, hash_key};
use ondol_index::{Index, Seen};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

type Game = fn(u64) -> u64;

fn growth_met_by_lookups(seed: u64) -> u64 {
    growth(seed, |index, guard, key, oid| {
        let mut out = vec![];
        index.lookup(guard, key, &mut out, None);
        out.contains(&oid)
    })
}

fn growth_met_by_glances(seed: u64) -> u64 {
    growth(seed, |index, guard, key, oid| {
        let aim = index.aim(hash_key(key));
        yield_point();
        let mut found = false;
        match index.glance(guard, aim) {
            Some(Oid::NONE) => {}
            Some(there) if there == oid => found = true,
            _ => {
                index.probe_at(guard, aim, &mut |there| {
                    found |= there == oid;
                    !found
                });
            }
        }
        found
    })
}

/// A table that grows from its smallest while entries that stay are looked up: how many lookups missed one
/// (U1).
fn growth(seed: u64, finds: impl Fn(&HashIndex, &Guard<'_>, &[u8], Oid) -> bool) -> u64 {
    const STAY: u64 = 8;
    let epochs = Epochs::new();
    let index = Arc::new(HashIndex::new(Limit::none(), 0).unwrap());
    let me = epochs.join(0);
    for k in 0..STAY {
        index.insert(&me.pin(), &k.to_be_bytes(), oid_of(8 * k + 8), None).unwrap();
    }
    let growing = Arc::new(AtomicU64::new(2));
    let writers: Vec<_> = (0..2u64)
        .map(|w| {
            let (epochs, index, growing) = (epochs.clone(), index.clone(), growing.clone());
            let write = move || {
                let me = epochs.join(0);
                for k in 0..60 {
                    let key = (seed << 32 | w << 16 | k).to_le_bytes();
                    index.insert(&me.pin(), &key, oid_of(8 * k + 8000), None).unwrap();
                }
                growing.fetch_sub(1, Ordering::Relaxed);
            };
            thread::spawn("writer", write).unwrap()
        })
        .collect();
    let mut missed = 0;
    let mut k = 0;
    while growing.load(Ordering::Relaxed) > 0 {
        k = (k + 1) % STAY;
        missed += !finds(&index, &me.pin(), &k.to_be_bytes(), oid_of(8 * k + 8)) as u64;
    }
    writers.into_iter().for_each(|w| w.join().unwrap());
    missed
}

/// Leaves that are emptied and filled while small ranges are scanned: how many phantoms (U2) there were.
fn emptied_leaves(seed: u64) -> u64 {
    const KEYS: u64 = 240;
    let epochs = Epochs::new();
    let tree = Arc::new(BTree::new(KeyShape::Fixed(8), Limit::none()).unwrap());
    let me = epochs.join(0);
    for k in 0..KEYS {
        tree.insert(&me.pin(), &k.to_be_bytes(), oid_of(8), None).unwrap();
    }
    // Where the writer is at work: what it does elsewhere disturbs nobody.
    let (at, busy) = (Arc::new(AtomicU64::new(KEYS / 2)), Arc::new(AtomicU64::new(1)));
    let writer = {
        let (epochs, tree, at, busy) = (epochs.clone(), tree.clone(), at.clone(), busy.clone());
        let write = move || {
            let me = epochs.join(0);
            let mut r = Random(seed + 1);
            for _ in 0..4 {
                let from = r.below(KEYS / 2);
                for k in from..from + KEYS / 2 {
                    at.store(k, Ordering::Relaxed);
                    tree.remove_if(&me.pin(), &k.to_be_bytes(), oid_of(8), &mut || true);
                }
                for k in (from..from + KEYS / 2).rev() {
                    at.store(k, Ordering::Relaxed);
                    tree.insert(&me.pin(), &k.to_be_bytes(), oid_of(8), None).unwrap();
                }
            }
            busy.store(0, Ordering::Relaxed)
        };
        thread::spawn("writer", write).unwrap()
    };
    let scan = |low: u64, seen: &mut Vec<Seen>| {
        let (low, high) = (low.to_be_bytes(), (low + 3).to_be_bytes());
        let mut c = tree.cursor((Bound::Included(&low), Bound::Excluded(&high)), Direction::Forward);
        let mut found = vec![];
        while let Some(oid) = c.next_oid(&me.pin(), Some(seen)) {
            found.push(oid)
        }
        found
    };
    let mut r = Random(seed + 2);
    let mut phantoms = 0;
    // Several ranges remembered at a time, so that the next emptying of a leaf meets some of them.
    let mut remembered: Vec<(u64, Vec<Oid>, Vec<Seen>)> = vec![];
    while busy.load(Ordering::Relaxed) > 0 {
        let low = (at.load(Ordering::Relaxed) + r.below(8)).saturating_sub(4);
        let mut seen = vec![];
        let found = scan(low, &mut seen);
        remembered.push((low, found, seen));
        if remembered.len() > 6 {
            let (low, found, seen) = remembered.remove(0);
            let now = scan(low, &mut vec![]);
            // SAFETY: the tree outlives this function's use of what was seen in it.
            let unchanged = seen.iter().all(|s| unsafe { s.unchanged() });
            phantoms += (unchanged && now != found) as u64;
        }
    }
    writer.join().unwrap();
    tree.verify(&mut |_, _| ()).unwrap();
    phantoms
}

#[test]
fn each_is_noticed_and_nothing_else() {
    let variants: [(&'static str, Game); 3] = [
        ("probe_looks_once", growth_met_by_lookups),
        ("probe_looks_once", growth_met_by_glances),
        ("unlinked_leaf_unchanged", emptied_leaves),
    ];
    for (mutation, game) in variants {
        let play = |mutation: Option<&'static str>, seed: u64| {
            World::new(seed, Config { mutation, ..Config::default() }).run(|| game(seed))
        };
        for seed in 0..60 {
            assert_eq!(play(None, seed), 0, "{mutation}: seed {seed}");
        }
        let first = (0..600).find(|seed| play(Some(mutation), *seed) > 0);
        println!("{mutation}: noticed by seed {first:?}");
        assert!(first.is_some(), "{mutation} goes unseen");
    }
}
