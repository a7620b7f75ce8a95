//! The B+-tree against `BTreeSet`: random histories over several shapes of keys, every kind of range, both
//! directions, memory limits, bulk building.
mod common;
use common::{Limit, Random, oid_of, seeds};
use ondol_base::epoch::Epochs;
use ondol_base::oid::Oid;
use ondol_base::thread;
use ondol_index::btree::{BTree, Cursor, Direction, KeyShape, prefix_successor};
use ondol_index::load::BulkError;
use ondol_index::{Index, OutOfMemory};
use std::collections::BTreeSet;
use std::ops::Bound;

type Model = BTreeSet<(Vec<u8>, u64)>;

/// Keys that are hard in some way: empty, prefixes of each other, zeros and 0xff at the end, long equal
/// starts.
fn key(r: &mut Random, shape: KeyShape) -> Vec<u8> {
    let small = |r: &mut Random| [0u8, 0, 1, b'a', 0xfe, 0xff][r.below(6) as usize];
    match shape {
        KeyShape::Fixed(n) => {
            let mut k = vec![0u8; n];
            let vary = r.below(n as u64 + 1) as usize;
            for b in &mut k[n - vary.min(3).min(n)..] {
                *b = small(r)
            }
            k
        }
        KeyShape::Variable => {
            let mut k = match r.below(5) {
                0 => Vec::new(),
                1 => b"Customer#0000000".to_vec(),
                2 => b"a common beginning beyond sixteen bytes".to_vec(),
                3 => vec![0xff; r.below(20) as usize],
                _ => vec![7; r.below(3000) as usize],
            };
            for _ in 0..r.below(4) {
                k.push(small(r))
            }
            k
        }
    }
}

/// A bound may have any length.
fn bound_key(r: &mut Random, shape: KeyShape) -> Vec<u8> {
    let mut k = key(r, shape);
    match r.below(6) {
        0 => k.truncate(r.below(k.len() as u64 + 1) as usize),
        1 => k.push(r.below(2) as u8 * 255),
        _ => (),
    }
    k
}

fn bound<'a>(r: &mut Random, k: &'a [u8]) -> Bound<&'a [u8]> {
    match r.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(k),
        _ => Bound::Excluded(k),
    }
}

fn expected(model: &Model, low: Bound<&[u8]>, high: Bound<&[u8]>, d: Direction) -> Entries {
    let inside = |k: &[u8]| {
        (match low {
            Bound::Included(l) => k >= l,
            Bound::Excluded(l) => k > l,
            Bound::Unbounded => true,
        }) && (match high {
            Bound::Included(h) => k <= h,
            Bound::Excluded(h) => k < h,
            Bound::Unbounded => true,
        })
    };
    let mut all: Entries = model.iter().filter(|(k, _)| inside(k)).cloned().collect();
    if d == Direction::Backward {
        all.reverse()
    }
    all
}
type Entries = Vec<(Vec<u8>, u64)>;

fn history(shape: KeyShape, steps: u64, seed: u64) {
    let budget = Limit::none();
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let tree = BTree::new(shape, budget.clone()).unwrap();
    let mut r = Random(seed);
    let mut model = Model::new();
    let mut cursor = Cursor::new();
    let mut k_out = Vec::new();
    for step in 0..steps {
        let guard = me.pin();
        let k = key(&mut r, shape);
        let oid = 8 + 8 * r.below(40);
        // Phases of growing and of shrinking, so that leaves become empty.
        let shrinking = step / 4000 % 3 == 2;
        match r.below(20) {
            0..=9 => {
                if shrinking && !model.is_empty() {
                    let (k, oid) = model.iter().nth(r.below(model.len() as u64) as usize).unwrap().clone();
                    assert!(tree.remove_if(&guard, &k, oid_of(oid), &mut || true));
                    model.remove(&(k, oid));
                } else if r.below(2) == 0 {
                    let mut others = model.range((k.clone(), 0)..=(k.clone(), u64::MAX));
                    if tree.insert_alone(&guard, &k, oid_of(oid), None).unwrap() {
                        assert!(others.next().is_none(), "{k:?}");
                        model.insert((k, oid));
                    }
                } else {
                    let new = tree.insert(&guard, &k, oid_of(oid), None).unwrap();
                    assert_eq!(new, model.insert((k, oid)))
                }
            }
            10..=13 => {
                let mut asked = false;
                let there = model.contains(&(k.clone(), oid));
                let dead = r.below(4) > 0;
                let gone = tree.remove_dead(
                    &guard,
                    &k,
                    oid_of(oid),
                    &mut |same| {
                        asked = true;
                        assert!(same(&k) && !same(b"some other key of no fixed length"));
                        dead
                    },
                    None,
                );
                assert_eq!((asked, gone), (there, there && dead));
                if gone {
                    model.remove(&(k, oid));
                }
            }
            14..=17 => {
                let (mut out, mut seen) = (Vec::new(), Vec::new());
                tree.lookup(&guard, &k, &mut out, Some(&mut seen));
                let want: Vec<Oid> =
                    model.range((k.clone(), 0)..=(k.clone(), u64::MAX)).map(|e| oid_of(e.1)).collect();
                assert_eq!(out, want);
                assert!(!seen.is_empty());
            }
            _ => {
                let (a, b) = (bound_key(&mut r, shape), bound_key(&mut r, shape));
                let (low, high) = (bound(&mut r, &a), bound(&mut r, &b));
                let d = if r.below(2) == 0 { Direction::Forward } else { Direction::Backward };
                let want = expected(&model, low, high, d);
                cursor.seek(&tree, low, high, d);
                drop(guard);
                let stop = if r.below(3) == 0 { r.below(20) as usize } else { usize::MAX };
                for w in want.iter().take(stop) {
                    let guard = me.pin();
                    let got = cursor.next(&guard, &mut k_out, None);
                    assert_eq!((Some(oid_of(w.1)), &w.0), (got, &k_out), "{low:?} {high:?} {d:?}");
                    assert_eq!(cursor.key(), w.0);
                }
                if stop > want.len() {
                    assert_eq!(cursor.next_oid(&me.pin(), None), None, "{low:?} {high:?} {d:?}");
                    assert_eq!(cursor.next_oid(&me.pin(), None), None);
                }
            }
        }
        if step % 1500 == 0 {
            verify(&tree, &model);
        }
    }
    verify(&tree, &model);
    drop(cursor);
    drop(tree);
    drop(me);
    drop(epochs);
    assert_eq!(budget.used(), 0);
}

fn verify(tree: &BTree, model: &Model) {
    let mut all = Vec::new();
    tree.verify(&mut |k, oid| all.push((k.to_vec(), oid.bits()))).unwrap();
    assert!(all.iter().eq(model.iter()));
    assert_eq!(tree.entries(), model.len() as u64);
}

#[test]
fn fixed_keys_of_many_lengths() {
    seeds(2, |seed| {
        for n in [0, 1, 3, 8, 12, 16, 23, 32] {
            history(KeyShape::Fixed(n), 6000, seed + n as u64)
        }
    });
}

#[test]
fn long_fixed_keys() {
    seeds(2, |seed| history(KeyShape::Fixed(50), 6000, seed));
}

#[test]
fn variable_keys() {
    seeds(6, |seed| history(KeyShape::Variable, 12_000, seed));
}

#[test]
fn spread_keys_reach_several_levels() {
    seeds(1, |seed| {
        let budget = Limit::none();
        let epochs = Epochs::new();
        let me = epochs.join(0);
        let guard = me.pin();
        let tree = BTree::new(KeyShape::Fixed(8), budget.clone()).unwrap();
        let mut r = Random(seed);
        let mut model = Model::new();
        for _ in 0..150_000 {
            let e = (r.next().to_be_bytes().to_vec(), 8 * r.below(1 << 40));
            tree.insert(&guard, &e.0, oid_of(e.1), None).unwrap();
            model.insert(e);
        }
        verify(&tree, &model);
        assert!(tree.height() >= 3);
        for (i, (k, oid)) in std::mem::take(&mut model).into_iter().enumerate() {
            if i % 5 > 0 {
                assert!(tree.remove_if(&guard, &k, oid_of(oid), &mut || true));
            } else {
                model.insert((k, oid));
            }
        }
        verify(&tree, &model);
        for d in [Direction::Forward, Direction::Backward] {
            let mut c = tree.cursor((Bound::Unbounded, Bound::Unbounded), d);
            let want = expected(&model, Bound::Unbounded, Bound::Unbounded, d);
            for w in want {
                assert_eq!(c.next_oid(&guard, None), Some(oid_of(w.1)));
                assert_eq!(c.key(), w.0);
            }
            assert_eq!(c.next_oid(&guard, None), None);
        }
    });
}

/// Keys that ascend in several runs, as those of orders of several districts do, and the rare one that is
/// there already.
#[test]
fn what_is_alone_is_put_in_at_once() {
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let guard = me.pin();
    let tree = BTree::new(KeyShape::Fixed(12), Limit::none()).unwrap();
    let key = |run: u32, i: u32| [run.to_be_bytes(), 7u32.to_be_bytes(), i.to_be_bytes()].concat();
    let mut refused = 0;
    for i in 0..3000u32 {
        for run in 0..20 {
            let oid = oid_of(8 + 8 * (i as u64 * 20 + run as u64));
            if !tree.insert_alone(&guard, &key(run, i), oid, None).unwrap() {
                refused += 1;
                assert!(tree.insert(&guard, &key(run, i), oid, None).unwrap());
            }
            if i % 100 == 0 {
                let there = key(run, i / 2);
                assert!(!tree.insert_alone(&guard, &there, oid_of(oid.bits() + (1 << 40)), None).unwrap());
                assert!(!tree.insert_alone(&guard, &there, oid_of(8), None).unwrap());
            }
        }
    }
    assert_eq!(tree.entries(), 60_000);
    assert!(refused < 600, "{refused} of 60,000 had to be looked up first");
}

/// What an entry costs is determined by the structure.
#[test]
fn memory_an_entry() {
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let guard = me.pin();
    let mut r = Random(7);
    let n = 1_000_000u64;
    let cost = |name: &str, shape, limit: f64, key: &mut dyn FnMut(u64) -> Vec<u8>| {
        let tree = BTree::new(shape, Limit::none()).unwrap();
        for i in 0..n {
            tree.insert(&guard, &key(i), oid_of(8 * i + 8), None).unwrap();
        }
        let each = tree.memory_bytes() as f64 / n as f64;
        println!("{name}: {each:.1} bytes an entry");
        assert!(each < limit, "{name}: {each}");
    };
    cost("8 bytes, ascending", KeyShape::Fixed(8), 20.0, &mut |i| i.to_be_bytes().to_vec());
    cost("8 bytes, random", KeyShape::Fixed(8), 30.0, &mut |_| r.next().to_be_bytes().to_vec());
    cost("12 bytes, ascending", KeyShape::Fixed(12), 30.0, &mut |i| {
        [&[0, 0, 0, (i / 100_000) as u8], &i.to_be_bytes()[..]].concat()
    });
    cost("strings of up to 15 bytes, random", KeyShape::Variable, 60.0, &mut |i| {
        format!("name{}", i.wrapping_mul(0x9e37_79b9) % (1 << 32)).into_bytes()
    });
}

/// A queue: keys come at one end and go at the other. Emptied leaves are used again.
#[test]
fn a_queue_does_not_grow() {
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let tree = BTree::new(KeyShape::Fixed(8), Limit::none()).unwrap();
    let mut at = Vec::new();
    for i in 0..1_000_000u64 {
        let guard = me.pin();
        tree.insert(&guard, &i.to_be_bytes(), oid_of(8), None).unwrap();
        if i >= 1000 {
            assert!(tree.remove_if(&guard, &(i - 1000).to_be_bytes(), oid_of(8), &mut || true));
        }
        if i % 250_000 == 0 {
            at.push(tree.memory_bytes())
        }
    }
    println!("a queue of 1000 entries, after each 250,000: {at:?} bytes");
    assert!(tree.memory_bytes() < 2 << 20);
    let mut left = 0;
    tree.verify(&mut |_, _| left += 1).unwrap();
    assert_eq!(left, 1000);
}

#[test]
fn refused_memory_changes_nothing() {
    seeds(3, |seed| {
        let budget = Limit::new(60_000);
        let epochs = Epochs::new();
        let me = epochs.join(0);
        let tree = BTree::new(KeyShape::Variable, budget.clone()).unwrap();
        let mut r = Random(seed);
        let mut model = Model::new();
        let mut refused = 0;
        for i in 0..8000u64 {
            let guard = me.pin();
            let k = key(&mut r, KeyShape::Variable);
            match tree.insert(&guard, &k, oid_of(8 * i), None) {
                Ok(_) => assert!(model.insert((k, 8 * i))),
                Err(OutOfMemory) => {
                    refused += 1;
                    if let Some((k, oid)) = model.iter().nth(r.below(model.len() as u64) as usize).cloned() {
                        assert!(tree.remove_if(&guard, &k, oid_of(oid), &mut || true));
                        model.remove(&(k, oid));
                    }
                }
            }
            assert!(budget.used() <= 60_000);
            if i % 500 == 0 {
                verify(&tree, &model);
            }
        }
        assert!(refused > 100);
        verify(&tree, &model);
        drop(tree);
        drop(me);
        drop(epochs);
        assert_eq!(budget.used(), 0);
    });
}

#[test]
fn bulk_built_trees_hold_what_was_given() {
    seeds(2, |seed| {
        for shape in [KeyShape::Fixed(8), KeyShape::Fixed(20), KeyShape::Variable] {
            for n in [0usize, 1, 57, 58, 59, 5000, 60_000] {
                let epochs = Epochs::new();
                let me = epochs.join(0);
                let budget = Limit::none();
                let mut r = Random(seed);
                let mut model = Model::new();
                for i in 0..n as u64 {
                    let k = match shape {
                        KeyShape::Fixed(8) => (i / 3).to_be_bytes().to_vec(),
                        _ if n > 5000 && shape == KeyShape::Variable => {
                            format!("some long beginning {i:09}").into_bytes()
                        }
                        s => key(&mut r, s),
                    };
                    model.insert((k, 8 * r.below(1 << 20)));
                }
                let all: Vec<_> = model.iter().map(|(k, o)| (&k[..], oid_of(*o))).collect();
                let builder = BTree::builder(shape, budget.clone()).unwrap();
                let runs: Vec<_> = all
                    .chunks(n / 3 + 1)
                    .map(|part| {
                        let mut run = builder.run();
                        part.iter().for_each(|(k, o)| run.push(k, *o).unwrap());
                        run
                    })
                    .collect();
                let tree = builder.finish(runs).unwrap();
                verify(&tree, &model);
                // It is an ordinary tree afterwards.
                let guard = me.pin();
                for _ in 0..2000 {
                    let k = key(&mut r, shape);
                    let oid = 8 * r.below(50);
                    assert_eq!(tree.insert(&guard, &k, oid_of(oid), None).unwrap(), model.insert((k, oid)));
                }
                verify(&tree, &model);
                drop(guard);
                drop(tree);
                assert_eq!(budget.used(), 0);
            }
        }
    });
}

/// Entries of several threads, in disorder and some of them twice; an ordered half; few keys and many.
#[test]
fn loaded_trees_hold_what_was_gathered() {
    seeds(1, |seed| {
        let shapes = [8, 9, 18, 40].map(KeyShape::Fixed);
        for shape in shapes.into_iter().chain([KeyShape::Variable]) {
            for (n, unique) in [(0, true), (1, true), (3000, false), (70_000, false), (70_000, true)] {
                let budget = Limit::none();
                let mut r = Random(seed);
                let mut model = Model::new();
                let mut all: Vec<(Vec<u8>, Oid)> = (0..n)
                    .map(|i| {
                        let k = match shape {
                            _ if i % 3 == 0 => key(&mut r, shape),
                            KeyShape::Fixed(w) => {
                                let mut k = vec![0; w];
                                k[..4].copy_from_slice(&(i as u32 / 5).to_be_bytes());
                                k
                            }
                            KeyShape::Variable => format!("some long beginning {:09}", i / 5).into_bytes(),
                        };
                        (k, oid_of(8 * r.below(1 << 40) + 8))
                    })
                    .collect();
                all.extend_from_within(0..n / 10);
                model.extend(all.iter().map(|(k, o)| (k.clone(), o.bits())));
                let tree = BTree::new(shape, budget.clone()).unwrap();
                let sample: Vec<_> = all.iter().step_by(n / 1000 + 1).cloned().collect();
                let load = tree.load(unique, n as u64, &sample);
                assert_eq!(load.parts() > 1, n > 64 << 10, "{shape:?}");
                let threads: Vec<_> = all
                    .chunks(n / 3 + 1)
                    .map(|part| {
                        let (mut g, part) = (load.clone().gatherer(), part.to_vec());
                        thread::spawn("gatherer", move || {
                            part.iter().for_each(|(k, o)| g.push(k, *o).unwrap());
                        })
                        .unwrap()
                    })
                    .collect();
                threads.into_iter().for_each(|t| t.join().unwrap());
                assert_eq!(tree.entries(), 0);
                let mut twins = vec![];
                let mut told = |k: &[u8], o: Oid, first: bool| twins.push((k.to_vec(), o.bits(), first));
                // In any order, and the work of any thread.
                let parts = (0..load.parts()).rev();
                let entries: u64 = parts.map(|p| load.part(p, Some(&mut told)).unwrap()).sum();
                assert_eq!(entries, model.len() as u64);
                load.finish().unwrap();
                drop(load);
                verify(&tree, &model);
                if unique {
                    let sorted: Vec<_> = model.iter().collect();
                    let mut want: Vec<_> = sorted
                        .chunk_by(|a, b| a.0 == b.0)
                        .filter(|c| c.len() > 1)
                        .flat_map(|c| c.iter().map(|(k, o)| (k.clone(), *o, *o == c[0].1)))
                        .collect();
                    want.sort_unstable();
                    twins.sort_unstable();
                    assert!(twins == want, "{shape:?}: {} twins, expected {}", twins.len(), want.len());
                }
                drop(tree);
                assert_eq!(budget.used(), 0);
            }
        }
    });
}

/// What was loaded until then makes room for the inserts that take the load's place.
#[test]
fn a_load_that_is_refused_memory_leaves_an_empty_tree() {
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let mut outcomes = [0; 3];
    for shape in [KeyShape::Fixed(8), KeyShape::Variable] {
        let n = 20_000u64;
        let all: Vec<_> = (0..n)
            .map(|i| match shape {
                KeyShape::Fixed(_) => {
                    (i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec(), oid_of(8))
                }
                KeyShape::Variable => (format!("some long beginning {i:09}").into_bytes(), oid_of(8)),
            })
            .collect();
        let insert =
            |tree: &BTree| all.iter().try_for_each(|(k, o)| tree.insert(&me.pin(), k, *o, None).map(|_| ()));
        for limit in (20_000..3_500_000).step_by(50_000) {
            let plain = BTree::new(shape, Limit::new(limit)).unwrap();
            let fits = insert(&plain).is_ok();
            let budget = Limit::new(limit);
            let tree = BTree::new(shape, budget.clone()).unwrap();
            let load = tree.load(false, 1 << 20, &all[..3000]);
            let mut g = load.clone().gatherer();
            let gathered = all.iter().try_for_each(|(k, o)| g.push(k, *o).map_err(BulkError::from));
            drop(g);
            let done = gathered
                .and_then(|()| (0..load.parts()).try_for_each(|p| load.part(p, None).map(|_| ())))
                .and_then(|()| load.finish());
            drop(load);
            let loaded = done.is_ok();
            outcomes[if loaded { 2 } else { fits as usize }] += 1;
            if let Err(e) = done {
                assert_eq!((e, tree.entries()), (BulkError::OutOfMemory, 0));
                assert!(!fits || insert(&tree).is_ok(), "{shape:?} in {limit} bytes");
            }
            if loaded || fits {
                assert_eq!(tree.entries(), n);
                tree.verify(&mut |_, _| {}).unwrap();
            }
            drop(tree);
            drop(me.pin());
            if loaded {
                assert_eq!(budget.used(), 0);
            }
        }
    }
    assert!(outcomes.iter().all(|n| *n > 2), "{outcomes:?}");
}

#[test]
fn bulk_refuses_disorder_and_memory() {
    let budget = Limit::none();
    let long = [
        b"a very long key, more than sixteen bytes".to_vec(),
        b"a very long key, more than sixteen".to_vec(),
    ];
    let wrong = BTree::bulk(KeyShape::Variable, budget.clone(), long.iter().map(|k| (&k[..], oid_of(8))));
    assert_eq!(wrong.err(), Some(BulkError::NotSorted));
    let twice = [(&long[0][..], oid_of(8)), (&long[0][..], oid_of(8))];
    assert_eq!(BTree::bulk(KeyShape::Variable, budget.clone(), twice).err(), Some(BulkError::NotSorted));
    let builder = BTree::builder(KeyShape::Variable, budget.clone()).unwrap();
    let (mut a, mut b) = (builder.run(), builder.run());
    a.push(&long[0], oid_of(8)).unwrap();
    b.push(&long[1], oid_of(8)).unwrap();
    assert_eq!(builder.finish(vec![a, b]).err(), Some(BulkError::NotSorted));
    assert_eq!(budget.used(), 0);
    for limit in (1000..2_000_000).step_by(37_777) {
        let budget = Limit::new(limit);
        let keys: Vec<_> = (0..20_000).map(|i| format!("some long beginning {i:09}").into_bytes()).collect();
        match BTree::bulk(KeyShape::Variable, budget.clone(), keys.iter().map(|k| (&k[..], oid_of(8)))) {
            Ok(tree) => assert_eq!(tree.entries(), 20_000),
            Err(e) => assert_eq!(e, BulkError::OutOfMemory),
        }
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn prefixes() {
    assert_eq!(prefix_successor(b"ab"), Some(b"ac".to_vec()));
    assert_eq!(prefix_successor(b"a\xff\xff"), Some(b"b".to_vec()));
    assert_eq!(prefix_successor(b"\xff"), None);
    assert_eq!(prefix_successor(b""), None);
}
