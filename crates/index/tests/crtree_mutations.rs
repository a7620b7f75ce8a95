//! Known-wrong variants of the CR-tree, each of which some simulated world must notice; as it is, none
//! notices anything.
//!
//! - **U1** What was put in before a search begins, and stays, is found by it, whatever is split and
//!   stretched meanwhile; by a box and among the neighbours of a point.
//! - **U2** Two searches of a box, or of neighbours, between which no remembered node changed give the same.
#![allow(unsafe_code)] // Seen nodes are read again: their index lives.
mod common;
use common::{Limit, Random, Versions, oid_of};
use ondol_base::epoch::{Epochs, Guard};
use ondol_base::oid::Oid;
use ondol_base::sim::{Config, World};
use ondol_base::sync::Mutex;
use ondol_base::thread;
use ondol_index::crtree::{CrTree, MOST, Near, Nearest, Point, Rect, Search, put_key};
use ondol_index::{Index, Seen};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

type Game = fn(u64) -> u64;

fn point(r: &mut Random, dimensions: usize) -> Point {
    let mut p = [0.0; MOST];
    p[..dimensions].iter_mut().for_each(|x| *x = r.below(1000) as f64);
    p
}
fn key_of(p: &Point, dimensions: usize) -> Vec<u8> {
    let mut key = vec![];
    put_key(&p[..dimensions], &mut key);
    key
}

/// What may be as near as that to a point.
fn around(
    tree: &CrTree,
    guard: &Guard<'_>,
    (to, limit): (&Point, f64),
    nearest: &mut Nearest,
    out: &mut Vec<Oid>,
    seen: Option<&mut Vec<Seen>>,
) {
    let counted = (1 << tree.dimensions()) - 1;
    let near = Near { to: *to, counted, within: Rect { low: [f64::MIN; MOST], high: [f64::MAX; MOST] } };
    let each = &mut |_: f64, oid| {
        out.push(oid);
        limit
    };
    tree.nearest(guard, &near, nearest, each, seen);
}

/// A tree that grows while what it has is looked for: how often that was missed (U1).
fn growth(seed: u64, dimensions: usize, bits: u32, each: u64) -> u64 {
    let epochs = Epochs::new();
    let rows = Versions::new();
    let tree = Arc::new(CrTree::new(dimensions, bits, rows.clone(), Limit::none()).unwrap());
    let there: Arc<Mutex<Vec<(Point, u64)>>> = Arc::default();
    let growing = Arc::new(AtomicU64::new(3));
    let writers: Vec<_> = (0..3u64)
        .map(|w| {
            let (epochs, tree, there) = (epochs.clone(), tree.clone(), there.clone());
            let (growing, rows) = (growing.clone(), rows.clone());
            let write = move || {
                let me = epochs.join(0);
                let mut r = Random(seed * 3 + w + 1);
                for n in 0..each {
                    let p = point(&mut r, dimensions);
                    let (key, oid) = (key_of(&p, dimensions), 16 * (3 * n + w) + 16);
                    rows.add(oid, &key);
                    tree.insert(&me.pin(), &key, oid_of(oid), None).unwrap();
                    there.lock().push((p, oid));
                }
                growing.fetch_sub(1, Ordering::Relaxed);
            };
            thread::spawn("writer", write).unwrap()
        })
        .collect();
    let me = epochs.join(0);
    let mut r = Random(seed + 77);
    let (mut missed, mut search, mut nearest, mut out) = (0, Search::new(), Nearest::default(), vec![]);
    loop {
        let is_over = growing.load(Ordering::Relaxed) == 0;
        let known = there.lock().clone();
        // The newest are where most happens.
        for n in 0..4 {
            let newest = known.len().saturating_sub(1 + r.below(8) as usize);
            let n = if n == 0 { r.below(known.len() as u64 + 1) as usize } else { newest };
            let Some((p, oid)) = known.get(n) else { continue };
            let mut rect = Rect { low: *p, high: *p };
            let wide = r.below(dimensions as u64 + 1) as usize;
            rect.high[..wide].iter_mut().for_each(|x| *x += r.below(100) as f64);
            out.clear();
            if r.below(3) == 0 {
                around(&tree, &me.pin(), (p, r.below(100) as f64), &mut nearest, &mut out, None)
            } else {
                tree.search(&me.pin(), &rect, &mut search, &mut out, None)
            }
            missed += !out.contains(&oid_of(*oid)) as u64;
        }
        if is_over {
            break;
        }
    }
    writers.into_iter().for_each(|w| w.join().unwrap());
    for (p, oid) in &*there.lock() {
        out.clear();
        tree.lookup(&me.pin(), &key_of(p, dimensions), &mut out, None);
        missed += !out.contains(&oid_of(*oid)) as u64;
    }
    missed + tree.verify(&mut |_, _| ()).is_err() as u64
}
/// Small nodes, so that there are several levels soon.
fn small_nodes(seed: u64) -> u64 {
    growth(seed, 6, 64, 90)
}
fn codes(seed: u64) -> u64 {
    growth(seed, 2, 8, 120)
}

/// Boxes that are searched again (U2), while rows come, change and go: how many phantoms there were.
fn phantoms(seed: u64, bits: u32, steps: u64) -> u64 {
    let epochs = Epochs::new();
    let rows = Versions::new();
    let tree = Arc::new(CrTree::new(6, bits, rows.clone(), Limit::none()).unwrap());
    let busy = Arc::new(AtomicU64::new(2));
    let near = Arc::new(Mutex::new([0.0; MOST]));
    let writers: Vec<_> = (0..2u64)
        .map(|w| {
            let (epochs, tree, busy) = (epochs.clone(), tree.clone(), busy.clone());
            let (rows, near) = (rows.clone(), near.clone());
            let write = move || {
                let me = epochs.join(0);
                let mut r = Random(seed * 3 + w + 1);
                let mut own = vec![];
                let remove = |key: &Vec<u8>, oid: u64| {
                    rows.take(oid, key);
                    let dead = &mut |same: &dyn Fn(&[u8]) -> bool| !rows.of(oid).iter().any(|k| same(k));
                    tree.remove_dead(&me.pin(), key, oid_of(oid), dead, None);
                };
                let insert = |r: &mut Random, oid: u64| {
                    let p = point(r, 6);
                    let key = key_of(&p, 6);
                    *near.lock() = p;
                    rows.add(oid, &key);
                    tree.insert(&me.pin(), &key, oid_of(oid), None).unwrap();
                    key
                };
                for n in 0..steps {
                    let some = r.below(own.len() as u64 + 1) as usize;
                    match r.below(4) {
                        _ if n < steps / 3 || own.len() <= some => {
                            let oid = 16 * (2 * n + w) + 16;
                            own.push((insert(&mut r, oid), oid))
                        }
                        0 => own.push((insert(&mut r, 16 * (2 * n + w) + 16), 16 * (2 * n + w) + 16)),
                        1 => {
                            let (key, oid): &mut (Vec<u8>, u64) = &mut own[some];
                            let before = std::mem::replace(key, insert(&mut r, *oid));
                            remove(&before, *oid)
                        }
                        _ => {
                            let (key, oid) = own.swap_remove(some);
                            remove(&key, oid)
                        }
                    }
                }
                busy.fetch_sub(1, Ordering::Relaxed);
            };
            thread::spawn("writer", write).unwrap()
        })
        .collect();
    let me = epochs.join(0);
    let mut r = Random(seed + 2);
    let (mut search, mut nearest) = (Search::new(), Nearest::default());
    let mut scan = |rect: &Rect, by: f64, seen: &mut Vec<Seen>| {
        let mut out = vec![];
        if by > 0.0 {
            let middle = std::array::from_fn(|d| (rect.low[d] + rect.high[d]) / 2.0);
            around(&tree, &me.pin(), (&middle, by), &mut nearest, &mut out, Some(seen))
        } else {
            tree.search(&me.pin(), rect, &mut search, &mut out, Some(seen))
        }
        out.sort_unstable();
        out.dedup();
        out
    };
    let mut phantoms = 0;
    let mut remembered = vec![];
    while busy.load(Ordering::Relaxed) > 0 {
        // Where a writer is at work.
        let p = *near.lock();
        let by = r.below(60) as f64;
        let rect = Rect { low: p.map(|x| x - by), high: p.map(|x| x + by) };
        let mut seen = vec![];
        let by = if r.below(3) == 0 { by } else { 0.0 };
        let found = scan(&rect, by, &mut seen);
        remembered.push((rect, by, found, seen));
        if remembered.len() > 6 {
            let (rect, by, found, seen) = remembered.remove(0);
            let now = scan(&rect, by, &mut vec![]);
            // SAFETY: the tree outlives this function's use of what was seen in it.
            let unchanged = seen.iter().all(|s| unsafe { s.unchanged() });
            phantoms += (unchanged && now != found) as u64;
        }
    }
    writers.into_iter().for_each(|w| w.join().unwrap());
    let mut wrong = tree.verify(&mut |_, _| ()).is_err() as u64;
    tree.cells(&mut |oid, same| wrong += !rows.of(oid.bits()).iter().any(|k| same(k)) as u64);
    for (oid, keys) in rows.all() {
        let at = common::point(&keys[0]);
        wrong += !scan(&Rect { low: at, high: at }, 0.0, &mut vec![]).contains(&oid_of(oid)) as u64
    }
    phantoms + wrong
}
fn phantoms_in_small_nodes(seed: u64) -> u64 {
    phantoms(seed, 64, 160)
}
fn phantoms_in_codes(seed: u64) -> u64 {
    phantoms(seed, 16, 240)
}

/// Of each game as it should be; more by ONDOL_WORLDS.
fn worlds() -> u64 {
    std::env::var("ONDOL_WORLDS").ok().and_then(|n| n.parse().ok()).unwrap_or(30)
}

#[test]
fn each_is_noticed_and_nothing_else() {
    let variants: [(&'static str, Game); 10] = [
        ("link_not_followed", small_nodes),
        ("link_not_followed", codes),
        ("neighbours_link_not_followed", small_nodes),
        ("root_not_confirmed", small_nodes),
        ("box_not_grown", small_nodes),
        ("rounded_inward", codes),
        ("way_not_confirmed", small_nodes),
        ("latched_child_read", small_nodes),
        ("inner_version_kept", phantoms_in_small_nodes),
        ("version_before_change", phantoms_in_codes),
    ];
    for (mutation, game) in variants {
        let play = |mutation: Option<&'static str>, seed: u64| {
            World::new(seed, Config { mutation, ..Config::default() }).run(|| game(seed))
        };
        for seed in 0..worlds() {
            assert_eq!(play(None, seed), 0, "{mutation}: seed {seed}");
        }
        // A node that two write at once may be noticed by the tree itself.
        let is_noticed = |seed: &u64| {
            std::panic::catch_unwind(|| play(Some(mutation), *seed)).map_or(true, |noticed| noticed > 0)
        };
        let first = (0..600).find(is_noticed);
        println!("{mutation}: noticed by seed {first:?}");
        assert!(first.is_some(), "{mutation} goes unseen");
    }
}

/// The same games by threads.
#[test]
fn threads_see_nothing_wrong() {
    common::seeds(2, |seed| {
        assert_eq!(growth(seed, 2, 8, 6_000), 0);
        assert_eq!(growth(seed, 6, 64, 3_000), 0);
        assert_eq!(phantoms(seed, 8, 30_000), 0);
        assert_eq!(phantoms(seed, 64, 10_000), 0);
    })
}
