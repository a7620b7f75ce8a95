//! Real threads: inserters and removers beside readers that check order, repetition and loss, and that two
//! readings between which no remembered node changed are the same.
#![allow(unsafe_code)] // Seen nodes are read again: their index lives.
mod common;
use common::{Limit, Random, oid_of, seeds};
use ondol_base::epoch::Epochs;
use ondol_base::thread;
use ondol_index::btree::{BTree, Cursor, Direction, KeyShape};
use ondol_index::hash::{HashIndex, hash_key};
use ondol_index::{Index, Seen};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn unchanged(seen: &[Seen]) -> bool {
    // SAFETY: the index outlives the threads of its test.
    seen.iter().all(|s| unsafe { s.unchanged() })
}

/// Entries whose number is a multiple of this stay the whole time.
const STAYS: u64 = 7;

fn join(threads: Vec<thread::JoinHandle<()>>) {
    for t in threads {
        if let Err(e) = t.join() {
            std::panic::resume_unwind(e)
        }
    }
}

fn btree_with(shape: KeyShape, make: fn(u64) -> Vec<u8>, seed: u64) {
    const KEYS: u64 = 4000;
    const ROUNDS: u64 = 60_000;
    let budget = Limit::none();
    let epochs = Epochs::new();
    let tree = Arc::new(BTree::new(shape, budget.clone()).unwrap());
    {
        let me = epochs.join(0);
        for n in (0..KEYS).step_by(STAYS as usize) {
            tree.insert(&me.pin(), &make(n), oid_of(8 * n + 8), None).unwrap();
        }
    }
    let running = Arc::new(AtomicU64::new(3));
    let same = Arc::new(AtomicU64::new(0));
    let mut threads = Vec::new();
    for w in 0..3u64 {
        let (tree, epochs, running) = (tree.clone(), epochs.clone(), running.clone());
        threads.push(
            thread::spawn("writer", move || {
                let me = epochs.join(0);
                let mut r = Random(seed * 3 + w);
                let mut run = 0;
                for i in 0..ROUNDS {
                    // Runs of neighbours, so that whole leaves fill and empty.
                    if i % 300 == 0 {
                        run = r.below(KEYS)
                    }
                    let n = (run + i % 300) % KEYS;
                    // Each writer has its own OIDs, beside the ones that stay.
                    let oid = oid_of(8 * n + 8 + (w + 1) * (1 << 30));
                    let guard = me.pin();
                    if (i / 300) % 2 == 0 {
                        tree.insert(&guard, &make(n), oid, None).unwrap();
                    } else {
                        tree.remove_if(&guard, &make(n), oid, &mut || true);
                    }
                }
                running.fetch_sub(1, Ordering::Relaxed);
            })
            .unwrap(),
        );
    }
    for s in 0..3u64 {
        let (tree, epochs, running, same) = (tree.clone(), epochs.clone(), running.clone(), same.clone());
        threads.push(
            thread::spawn("reader", move || {
                let me = epochs.join(0);
                let mut r = Random(seed * 5 + s);
                let mut cursor = Cursor::new();
                let mut key = Vec::new();
                let mut scan = |low: u64, high: u64, d: Direction, seen: &mut Vec<Seen>| {
                    let (l, h) = (make(low), make(high));
                    cursor.seek(&tree, Bound::Included(&l), Bound::Excluded(&h), d);
                    let mut all: Vec<(Vec<u8>, u64)> = Vec::new();
                    loop {
                        // A pin of its own for each step: what the cursor keeps must not need one.
                        let guard = me.pin();
                        let Some(oid) = cursor.next(&guard, &mut key, Some(seen)) else { break };
                        all.push((key.clone(), oid.bits()));
                    }
                    if d == Direction::Backward {
                        all.reverse()
                    }
                    assert!(all.windows(2).all(|w| w[0] < w[1]), "out of order, or twice");
                    assert!(all.iter().all(|(k, _)| *k >= l && *k < h), "out of range");
                    for n in (low..high).filter(|n| n % STAYS == 0) {
                        assert!(
                            all.binary_search(&(make(n), 8 * n + 8)).is_ok(),
                            "{n} of {low}..{high} is lost"
                        );
                    }
                    all
                };
                while running.load(Ordering::Relaxed) > 0 {
                    let low = r.below(KEYS);
                    let high = (low + r.pick(&[3, 60, 2000])).min(KEYS);
                    let d = [Direction::Forward, Direction::Backward][r.below(2) as usize];
                    let mut seen = Vec::new();
                    let first = scan(low, high, d, &mut seen);
                    let second = scan(low, high, Direction::Forward, &mut Vec::new());
                    if unchanged(&seen) {
                        assert_eq!(first, second, "a phantom in {low}..{high}");
                        same.fetch_add(1, Ordering::Relaxed);
                    }
                    let n = r.below(KEYS);
                    let (mut out, mut seen, mut again) = (Vec::new(), Vec::new(), Vec::new());
                    let guard = me.pin();
                    tree.lookup(&guard, &make(n), &mut out, Some(&mut seen));
                    assert!(out.windows(2).all(|w| w[0] < w[1]));
                    assert!(!n.is_multiple_of(STAYS) || out.contains(&oid_of(8 * n + 8)), "{n} is lost");
                    tree.lookup(&guard, &make(n), &mut again, None);
                    if unchanged(&seen) {
                        assert_eq!(out, again);
                    }
                }
            })
            .unwrap(),
        );
    }
    join(threads);
    println!("{shape:?}: {} scans were repeated unchanged", same.load(Ordering::Relaxed));
    let mut stays = 0;
    tree.verify(&mut |_, oid| stays += (oid.bits() < 1 << 30) as u64).unwrap();
    assert_eq!(stays, KEYS.div_ceil(STAYS));
    assert!(same.load(Ordering::Relaxed) > 0);
    drop(tree);
    drop(epochs);
    assert_eq!(budget.used(), 0);
}

#[test]
fn btree_of_words() {
    seeds(2, |seed| btree_with(KeyShape::Fixed(8), |n| n.to_be_bytes().to_vec(), seed));
}

#[test]
fn btree_of_long_strings() {
    let make =
        |n: u64| format!("a beginning in common {n:06} and {}", "more ".repeat(n as usize % 5)).into_bytes();
    seeds(2, |seed| btree_with(KeyShape::Variable, make, seed));
}

#[test]
fn btree_of_short_strings() {
    seeds(1, |seed| btree_with(KeyShape::Variable, |n| format!("k{n:05}").into_bytes(), seed));
}

#[test]
fn hash_index_grows_under_readers() {
    seeds(3, |seed| {
        const KEYS: u64 = 60_000;
        let budget = Limit::none();
        let epochs = Epochs::new();
        let index = Arc::new(HashIndex::new(budget.clone(), 0).unwrap());
        // How many numbers are certainly in.
        let filled = Arc::new(AtomicU64::new(0));
        let same = Arc::new(AtomicU64::new(0));
        // Every eighth number shares one of few keys.
        let key = |n: u64| if n.is_multiple_of(8) { n % 64 } else { n }.to_le_bytes();
        let mut threads = Vec::new();
        {
            let (index, epochs, filled) = (index.clone(), epochs.clone(), filled.clone());
            threads.push(
                thread::spawn("filler", move || {
                    let me = epochs.join(0);
                    for n in 0..KEYS {
                        assert!(index.insert(&me.pin(), &key(n), oid_of(8 * n + 8), None).unwrap());
                        filled.store(n + 1, Ordering::Release);
                    }
                })
                .unwrap(),
            );
        }
        for w in 0..2u64 {
            let (index, epochs, filled) = (index.clone(), epochs.clone(), filled.clone());
            threads.push(
                thread::spawn("remover", move || {
                    let me = epochs.join(0);
                    let mut r = Random(seed * 11 + w);
                    while filled.load(Ordering::Acquire) < KEYS {
                        let n = r.below(KEYS);
                        let oid = oid_of(8 * n + 8 + (w + 1) * (1 << 40));
                        let guard = me.pin();
                        assert!(index.insert(&guard, &key(n), oid, None).unwrap());
                        let mut out = Vec::new();
                        index.lookup(&guard, &key(n), &mut out, None);
                        assert!(out.contains(&oid));
                        assert!(index.remove_if(&guard, &key(n), oid, &mut || true));
                        out.clear();
                        index.lookup(&guard, &key(n), &mut out, None);
                        assert!(!out.contains(&oid));
                    }
                })
                .unwrap(),
            );
        }
        for s in 0..3u64 {
            let (index, epochs, filled, same) = (index.clone(), epochs.clone(), filled.clone(), same.clone());
            threads.push(
                thread::spawn("reader", move || {
                    let me = epochs.join(0);
                    let mut r = Random(seed * 13 + s);
                    loop {
                        let sure = filled.load(Ordering::Acquire);
                        let n = r.below(sure.max(1));
                        let guard = me.pin();
                        let (mut out, mut seen, mut again) = (Vec::new(), Vec::new(), Vec::new());
                        index.lookup(&guard, &key(n), &mut out, Some(&mut seen));
                        assert!(n >= sure || out.contains(&oid_of(8 * n + 8)), "{n} is lost");
                        index.lookup(&guard, &key(n), &mut again, None);
                        if unchanged(&seen) {
                            let (mut a, mut b) = (out.clone(), again);
                            a.sort_unstable();
                            b.sort_unstable();
                            assert!(b.iter().all(|o| a.contains(o)), "a phantom under {n}");
                            assert!(b.windows(2).all(|w| w[0] != w[1]), "twice under {n}");
                            same.fetch_add(1, Ordering::Relaxed);
                        }
                        let missing = r.next() | 1 << 63;
                        index.lookup(&guard, &missing.to_le_bytes(), &mut out, None);
                        if sure == KEYS {
                            break;
                        }
                    }
                })
                .unwrap(),
            );
        }
        join(threads);
        assert!(same.load(Ordering::Relaxed) > 0);
        let mut count = 0;
        index
            .verify_bits(&mut |hash, mask, oid| {
                assert_eq!(hash, hash_key(&key(oid.bits() / 8 - 1)) & mask);
                count += 1;
            })
            .unwrap();
        assert_eq!((count, index.entries()), (KEYS, KEYS));
        drop(index);
        assert_eq!(budget.used(), 0);
    });
}

#[test]
fn hash_index_built_by_several_threads() {
    let epochs = Epochs::new();
    const EACH: u64 = 50_000;
    for expected in [0, 4 * EACH] {
        let index = Arc::new(HashIndex::new(Limit::none(), expected).unwrap());
        let threads = (0..4u64).map(|t| {
            let (index, epochs) = (index.clone(), epochs.clone());
            thread::spawn("builder", move || {
                let me = epochs.join(0);
                let all: Vec<_> = (t * EACH..(t + 1) * EACH)
                    .map(|n| (hash_key(&n.to_be_bytes()), oid_of(8 * n + 8)))
                    .collect();
                for batch in all.chunks(50) {
                    index.build(&me.pin(), batch, &mut |_| {}).unwrap();
                }
            })
            .unwrap()
        });
        join(threads.collect());
        let mut all = vec![false; 4 * EACH as usize];
        index.verify(&mut |_, oid| all[oid.bits() as usize / 8 - 1] = true).unwrap();
        assert!(all.iter().all(|&b| b));
    }
}
