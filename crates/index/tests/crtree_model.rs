//! The CR-tree against a list of points: random histories over points of several kinds, dimensions and bits;
//! rows of several versions, entries that go, memory limits, trees built at once.
mod common;
use common::{Limit, Random, Versions, oid_of, seeds};
use ondol_base::epoch::{Epochs, Guard};
use ondol_base::oid::Oid;
use ondol_index::crtree::{CrTree, Entry, MOST, Near, Nearest, Point, Rect, Search, put_key};
use ondol_index::load::BulkError;
use ondol_index::{Index, OutOfMemory};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Where points lie.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Uniform,
    /// Many are equal.
    Few,
    /// Of any size, some infinite or no numbers.
    Wild,
    /// In one dimension ever greater, in the others ever smaller.
    Ascending,
    /// Large and close to each other.
    Near,
}
const KINDS: [Kind; 5] = [Kind::Uniform, Kind::Few, Kind::Wild, Kind::Ascending, Kind::Near];

/// As a tree wants it.
fn coordinate(x: f64) -> f64 {
    if x.is_nan() { f64::MAX } else { x.clamp(f64::MIN, f64::MAX) + 0.0 }
}

fn point(r: &mut Random, kind: Kind, dimensions: usize, step: u64) -> Point {
    let mut p = [0.0; MOST];
    for (d, x) in p[..dimensions].iter_mut().enumerate() {
        *x = coordinate(match kind {
            Kind::Uniform => r.below(1 << 40) as f64 / 1024.0 - 1e6,
            Kind::Few => r.below(4) as f64,
            Kind::Wild => match r.below(12) {
                0 => f64::INFINITY,
                1 => f64::NEG_INFINITY,
                2 => f64::NAN,
                3 => 0.0,
                4 => f64::MAX,
                _ => f64::from_bits(r.next()),
            },
            Kind::Ascending => (step * 8 + r.below(9)) as f64 * if d == 0 { 1.0 } else { -0.01 },
            Kind::Near => 1.7e18 + 256.0 * r.below(3000) as f64,
        });
    }
    p
}

fn key_of(p: &Point, dimensions: usize) -> Vec<u8> {
    let mut key = Vec::new();
    put_key(&p[..dimensions], &mut key);
    key
}

/// A box between two points, some of its sides open or without width.
fn rect(r: &mut Random, kind: Kind, dimensions: usize, steps: u64) -> Rect {
    let steps = r.below(steps + 1);
    let later = steps + r.below(50);
    let (a, b) = (point(r, kind, dimensions, steps), point(r, kind, dimensions, later));
    let mut rect = Rect::ZERO;
    for d in 0..dimensions {
        (rect.low[d], rect.high[d]) = match r.below(6) {
            0 => (-f64::MAX, f64::MAX),
            1 => (a[d], a[d]),
            2 => (a[d], f64::INFINITY),
            _ => (a[d].min(b[d]), a[d].max(b[d])),
        }
    }
    rect
}

fn is_within(p: &Point, rect: &Rect, dimensions: usize) -> bool {
    (0..dimensions).all(|d| rect.low[d] <= p[d] && p[d] <= rect.high[d])
}

/// A point whose neighbours are asked for, of all or of a box, in all or some of the dimensions.
fn near(r: &mut Random, kind: Kind, dimensions: usize, steps: u64) -> Near {
    let all = (1 << dimensions) - 1;
    let step = r.below(steps + 1);
    Near {
        to: point(r, kind, dimensions, step),
        counted: if r.below(3) == 0 { r.below(all) as u32 + 1 } else { all as u32 },
        within: match r.below(2) {
            0 => Rect { low: [-f64::MAX; MOST], high: [f64::MAX; MOST] },
            _ => rect(r, kind, dimensions, steps),
        },
    }
}

/// How far a point is in some of the dimensions.
fn distance(p: &Point, near: &Near) -> f64 {
    let away = (0..MOST).filter(|d| near.counted >> d & 1 == 1).map(|d| (p[d] - near.to[d]).abs());
    let most = away.clone().fold(0.0, f64::max);
    if most == 0.0 || most.is_infinite() {
        return most;
    }
    // Divided by a power of two, so that no square is too large or too small.
    let unit = f64::from_bits(most.to_bits() & !(u64::MAX >> 12)).max(f64::MIN_POSITIVE);
    away.map(|x| (x / unit) * (x / unit)).sum::<f64>().sqrt() * unit
}

/// The neighbours of a point are given nearest first, and all that are as near as is asked for.
fn neighbours(tree: &CrTree, rows: &Versions, near: &Near, most: usize, guard: &Guard<'_>) {
    let dimensions = tree.dimensions();
    let keys = |oid: u64| rows.of(oid).into_iter().map(|k| common::point(&k));
    let of = |oid: u64| {
        let own = keys(oid).filter(|p| is_within(p, &near.within, dimensions));
        own.map(|p| distance(&p, near)).fold(f64::INFINITY, f64::min)
    };
    let mut given = BTreeSet::new();
    let (mut before, mut found, mut limit) = (0.0, Vec::<f64>::new(), f64::INFINITY);
    let each = &mut |least: f64, oid: Oid| {
        assert!(least >= before && least <= limit, "{least} after {before}, up to {limit}");
        before = least;
        // Nothing that the entry may stand for is nearer.
        let any = keys(oid.bits()).map(|p| distance(&p, near)).fold(0.0, f64::max);
        assert!(least <= any, "{oid:?} is {any} away at the most, not {least}");
        if given.insert(oid.bits()) && of(oid.bits()) < f64::INFINITY {
            found.push(of(oid.bits()));
            found.sort_by(f64::total_cmp);
        }
        limit = if found.len() < most { f64::INFINITY } else { found[most - 1] };
        limit
    };
    let reached = tree.nearest(guard, near, &mut Nearest::default(), each, None);
    for (oid, _) in rows.all() {
        let is_near = of(oid) <= reached && of(oid) < f64::INFINITY;
        assert!(!is_near || given.contains(&oid), "{oid} is missed, {} away, up to {reached}", of(oid));
    }
}

/// Every version has an entry that stands for it, and every entry a version.
fn verify(tree: &CrTree, rows: &Versions) {
    tree.verify(&mut |_, _| ()).unwrap();
    let mut missed: BTreeSet<(u64, Vec<u8>)> =
        rows.all().into_iter().flat_map(|(oid, keys)| keys.into_iter().map(move |k| (oid, k))).collect();
    tree.cells(&mut |oid, same| {
        let keys = rows.of(oid.bits());
        let own: Vec<_> = keys.iter().filter(|k| same(k)).collect();
        assert!(!own.is_empty(), "an entry of {oid:?} stands for none of {keys:?}");
        for k in own {
            missed.remove(&(oid.bits(), k.clone()));
        }
    });
    assert!(missed.is_empty(), "without an entry: {missed:?}");
}

fn history(kind: Kind, dimensions: usize, bits: u32, steps: u64, seed: u64) {
    let budget = Limit::none();
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let rows = Versions::new();
    let mut r = Random(seed);
    let tree = CrTree::new(dimensions, bits, rows.clone(), budget.clone()).unwrap();
    let (mut search, mut out) = (Search::new(), Vec::new());
    let mut false_hits = [0, 0];
    for step in 0..steps {
        let guard = me.pin();
        // Phases of growing and of shrinking, so that leaves become empty.
        let shrinking = step / 3000 % 3 == 2;
        match r.below(20) {
            0..=13 if !shrinking => {
                // A row's new version, or a row's first.
                let oid = 16 + 16 * r.below(steps / 2);
                let key = key_of(&point(&mut r, kind, dimensions, step), dimensions);
                rows.add(oid, &key);
                tree.insert(&guard, &key, oid_of(oid), None).unwrap();
            }
            0..=17 => {
                let Some((oid, key)) = rows.any(&mut r) else { continue };
                rows.take(oid, &key);
                let rest = rows.of(oid);
                let gone = tree.remove_dead(
                    &guard,
                    &key,
                    oid_of(oid),
                    &mut |same| !rest.iter().any(|k| same(k)),
                    None,
                );
                assert!(gone || !rest.is_empty(), "the entry of {oid} is lost");
                if rest.is_empty() {
                    out.clear();
                    tree.lookup(&guard, &key, &mut out, None);
                    assert!(!out.contains(&oid_of(oid)), "an entry of {oid} has stayed");
                }
            }
            18 => {
                let near = near(&mut r, kind, dimensions, step);
                neighbours(&tree, &rows, &near, 1 + r.below(30) as usize, &guard)
            }
            _ => {
                let rect = rect(&mut r, kind, dimensions, step);
                out.clear();
                tree.search(&guard, &rect, &mut search, &mut out, None);
                let found: BTreeSet<u64> = out.iter().map(|o| o.bits()).collect();
                let mut right = 0;
                for (oid, keys) in rows.all() {
                    let is_right = keys.iter().any(|k| is_within(&common::point(k), &rect, dimensions));
                    assert!(!is_right || found.contains(&oid), "{oid} is missed in {rect:?}");
                    right += is_right as usize;
                }
                false_hits[0] += found.len() - right;
                false_hits[1] += right;
                if bits == 64 {
                    assert_eq!(found.len(), right);
                }
            }
        }
        if step % 2000 == 1999 {
            verify(&tree, &rows);
        }
    }
    if matches!(kind, Kind::Uniform) && bits >= 8 && false_hits[1] > 1000 {
        assert!(
            false_hits[0] * 5 < false_hits[1] * 2,
            "{false_hits:?} of {dimensions} dimensions, {bits} bits"
        );
    }
    verify(&tree, &rows);
    drop(tree);
    drop(me);
    drop(epochs);
    assert_eq!(budget.used(), 0);
}

#[test]
fn histories() {
    seeds(2, |seed| {
        for kind in KINDS {
            for (dimensions, bits) in [(1, 8), (2, 8), (2, 16), (3, 8), (6, 8), (6, 16), (2, 64), (6, 64)] {
                history(kind, dimensions, bits, 8000, seed);
            }
        }
    })
}

fn padded<const D: usize>(at: &[f64; D]) -> Point {
    let mut p = [0.0; MOST];
    p[..D].copy_from_slice(at);
    p
}

/// Leaves whose entries become more when they are split: rows of several versions that were in one cell.
#[test]
fn versions_part_as_cells_become_finer() {
    seeds(4, |seed| {
        for (dimensions, bits) in [(2, 8), (2, 16), (3, 8), (6, 8), (6, 16)] {
            let (epochs, rows) = (Epochs::new(), Versions::new());
            let me = epochs.join(0);
            let mut r = Random(seed);
            let tree = CrTree::new(dimensions, bits, rows.clone(), Limit::none()).unwrap();
            let apart = r.below(40);
            for step in 0..600u64 {
                // A few that lie far away make cells wide.
                let oid = 16 + 16 * if step < apart { step } else { 40 + r.below(300) };
                let mut p = [0.0; MOST];
                for x in &mut p[..dimensions] {
                    *x = if step < apart { 1e9 + 1e6 * r.below(50) as f64 } else { r.below(1000) as f64 }
                }
                rows.add(oid, &key_of(&p, dimensions));
                tree.insert(&me.pin(), &key_of(&p, dimensions), oid_of(oid), None).unwrap();
                if step % 25 == 0 {
                    verify(&tree, &rows)
                }
            }
            verify(&tree, &rows)
        }
    })
}

/// A tree that has grown in no order is searched past not many more nodes than one built at once.
#[test]
fn growing_keeps_nodes_compact() {
    fn compare<const D: usize>() {
        let (epochs, rows) = (Epochs::new(), Versions::new());
        let me = epochs.join(0);
        let mut r = Random(20);
        let points: Vec<Point> = (0..60_000).map(|n| point(&mut r, Kind::Uniform, D, n)).collect();
        let grown = CrTree::new(D, 8, rows.clone(), Limit::none()).unwrap();
        let mut entries = vec![];
        for (p, oid) in points.iter().zip((16..).step_by(16)) {
            rows.add(oid, &key_of(p, D));
            grown.insert(&me.pin(), &key_of(p, D), oid_of(oid), None).unwrap();
            entries.push(Entry::<D> { at: std::array::from_fn(|d| p[d]), word: oid })
        }
        let built = CrTree::bulk(8, rows, Limit::none(), entries).unwrap();
        let (mut search, mut out, mut nodes) = (Search::new(), vec![], [0, 0]);
        for share in [0.0001f64, 0.001, 0.01] {
            let half = share.powf(1.0 / D as f64) * (1u64 << 29) as f64 / 1024.0;
            for middle in &points[..500] {
                let mut rect = Rect::ZERO;
                rect.low[..D].iter_mut().zip(middle).for_each(|(low, x)| *low = x - half);
                rect.high[..D].iter_mut().zip(middle).for_each(|(high, x)| *high = x + half);
                for (tree, nodes) in [&grown, &built].into_iter().zip(&mut nodes) {
                    out.clear();
                    tree.search(&me.pin(), &rect, &mut search, &mut out, None);
                    *nodes += search.nodes()
                }
            }
        }
        let ratio = nodes[0] as f64 / nodes[1] as f64;
        println!("{D} dimensions: {ratio:.2} times the nodes");
        assert!(ratio < 1.3, "{D} dimensions: {ratio:.2} times the nodes");
    }
    compare::<2>();
    compare::<3>();
    compare::<6>();
}

/// A search that is not worth while beyond so many ends there, and the next is whole again.
#[test]
fn a_search_is_given_up_where_it_finds_too_many() {
    let (epochs, rows) = (Epochs::new(), Versions::new());
    let me = epochs.join(0);
    let tree = CrTree::new(2, 8, rows.clone(), Limit::none()).unwrap();
    for (n, oid) in (0..5000).zip((16..).step_by(16)) {
        let mut p: Point = [0.0; MOST];
        (p[0], p[1]) = ((n % 71) as f64, (n / 71) as f64);
        rows.add(oid, &key_of(&p, 2));
        tree.insert(&me.pin(), &key_of(&p, 2), oid_of(oid), None).unwrap();
    }
    let all = Rect { low: [f64::MIN; MOST], high: [f64::MAX; MOST] };
    let mut search = Search::new();
    let mut find = |most: usize| {
        // What was found before does not count.
        let mut out = vec![oid_of(16); 50];
        let whole = tree.search_up_to(&me.pin(), &all, most, &mut search, &mut out);
        (whole, out.len() - 50)
    };
    for most in [0, 100, 1000] {
        let (whole, found) = find(most);
        assert!(!whole && (most + 1..most + 200).contains(&found), "{most}: {found}")
    }
    assert_eq!([4999, 5000].map(&mut find), [(false, 5000), (true, 5000)]);
    let mut out = vec![];
    tree.search(&me.pin(), &all, &mut search, &mut out, None);
    assert_eq!(out.len(), 5000);
}

/// What is refused memory leaves nothing but the empty tree.
#[test]
fn a_load_that_is_refused_memory_leaves_an_empty_tree() {
    let mut r = Random(5);
    let all: Vec<_> =
        (0..40_000).map(|n| (key_of(&point(&mut r, Kind::Uniform, 3, n), 3), oid_of(16 * n + 16))).collect();
    let (mut refused, mut built) = (0, 0);
    for limit in (100..6000).step_by(117) {
        let budget = Limit::new(limit << 10);
        let tree = CrTree::new(3, 8, Versions::new(), budget.clone()).unwrap();
        let load = tree.load(1 << 20, &all[..3000]);
        let mut gatherer = load.clone().gatherer();
        let mut done = all.iter().try_for_each(|(k, o)| gatherer.push(k, *o)).map_err(BulkError::from);
        drop(gatherer);
        for part in 0..load.parts() {
            done = done.and_then(|()| load.part(part, None).map(|_| ()))
        }
        done = done.and_then(|()| load.finish());
        drop(load);
        match done {
            Ok(()) => {
                built += 1;
                assert_eq!(tree.entries(), 40_000)
            }
            Err(e) => {
                refused += 1;
                assert_eq!((e, tree.entries(), tree.height()), (BulkError::OutOfMemory, 0, 1))
            }
        }
        tree.verify(&mut |_, _| ()).unwrap();
        drop(tree);
        assert_eq!(budget.used(), 0);
    }
    assert!(refused > 5 && built > 5, "{refused} refused, {built} built");
}

#[test]
fn trees_built_at_once() {
    fn build<const D: usize>(kind: Kind, bits: u32, count: u64, seed: u64) {
        let budget = Limit::none();
        let epochs = Epochs::new();
        let me = epochs.join(0);
        let rows = Versions::new();
        let mut r = Random(seed);
        let mut entries = Vec::new();
        for n in 0..count {
            let p = point(&mut r, kind, D, n);
            rows.add(16 * n + 16, &key_of(&p, D));
            entries.push(Entry::<D> { at: std::array::from_fn(|d| p[d]), word: 16 * n + 16 });
        }
        let tree = if seed.is_multiple_of(2) {
            CrTree::bulk(bits, rows.clone(), budget.clone(), entries).unwrap()
        } else {
            // By several threads, in as many parts as if there were more.
            let tree = CrTree::new(D, bits, rows.clone(), budget.clone()).unwrap();
            let all: Vec<_> = entries.iter().map(|e| (key_of(&padded(&e.at), D), oid_of(e.word))).collect();
            let load = tree.load(count * 100, &all[..all.len().min(2000)]);
            std::thread::scope(|s| {
                for part in all.chunks(all.len() / 3 + 1) {
                    let mut gatherer = load.clone().gatherer();
                    s.spawn(move || part.iter().for_each(|(k, o)| gatherer.push(k, *o).unwrap()));
                }
            });
            assert_eq!((0..load.parts()).map(|p| load.part(p, None).unwrap()).sum::<u64>(), count);
            load.finish().unwrap();
            tree
        };
        assert_eq!(tree.entries(), count);
        verify(&tree, &rows);
        let (mut search, mut out) = (Search::new(), Vec::new());
        for _ in 0..50 {
            let rect = rect(&mut r, kind, D, count);
            out.clear();
            tree.search(&me.pin(), &rect, &mut search, &mut out, None);
            let found: BTreeSet<u64> = out.iter().map(|o| o.bits()).collect();
            for (oid, keys) in rows.all() {
                let is_right = is_within(&common::point(&keys[0]), &rect, D);
                assert!(!is_right || found.contains(&oid), "{oid} is missed in {rect:?}");
            }
        }
        // It goes on as any other.
        for n in 0..count / 2 {
            let p = point(&mut r, kind, D, n);
            let oid = 16 * n + 16;
            rows.add(oid, &key_of(&p, D));
            tree.insert(&me.pin(), &key_of(&p, D), oid_of(oid), None).unwrap();
        }
        verify(&tree, &rows);
    }
    seeds(2, |seed| {
        for kind in KINDS {
            for count in [0, 1, 2, 100, 130, 9000] {
                build::<1>(kind, 8, count, seed);
                build::<2>(kind, 8, count, seed);
                build::<3>(kind, 16, count, seed);
                build::<6>(kind, 8, count, seed);
                build::<2>(kind, 64, count, seed);
            }
        }
    })
}

/// What an insert that is refused leaves is what was there.
#[test]
fn a_refused_insert_changes_nothing() {
    let budget = Limit::new(64 << 10);
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let rows = Versions::new();
    let tree = CrTree::new(2, 8, rows.clone(), budget.clone()).unwrap();
    let mut r = Random(7);
    let (mut refused, mut n) = (0, 0);
    while refused < 300 {
        n += 16;
        let key = key_of(&point(&mut r, Kind::Uniform, 2, n), 2);
        rows.add(n, &key);
        if tree.insert(&me.pin(), &key, oid_of(n), None) == Err(OutOfMemory) {
            rows.take(n, &key);
            refused += 1;
        }
    }
    verify(&tree, &rows);
    assert!(tree.entries() > 2000, "{}", tree.entries());
    budget.set(1 << 20);
    let key = key_of(&point(&mut r, Kind::Uniform, 2, n), 2);
    rows.add(n, &key);
    assert_eq!(tree.insert(&me.pin(), &key, oid_of(n), None), Ok(true));
    verify(&tree, &rows);
}

/// A row that is never asked for, as one that is NULL, has no entry.
#[test]
fn a_key_without_bytes_has_no_entry() {
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let tree = CrTree::new(2, 8, Versions::new(), Limit::none()).unwrap();
    assert_eq!(tree.insert(&me.pin(), &[], oid_of(16), None), Ok(true));
    assert_eq!(tree.entries(), 0);
    assert!(!tree.remove_if(&me.pin(), &[], oid_of(16), &mut || true));
}

/// What goes in at one end and out at the other takes no more and more memory.
#[test]
fn a_queue_stays_small() {
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let rows: Arc<Versions> = Versions::new();
    let tree = CrTree::new(2, 8, rows.clone(), Limit::none()).unwrap();
    let mut r = Random(11);
    let mut queue = std::collections::VecDeque::new();
    let mut most = 0;
    for n in 0..60_000u64 {
        let p = [n as f64, r.below(1000) as f64, 0.0, 0.0, 0.0, 0.0];
        let key = key_of(&p, 2);
        rows.add(16 * n + 16, &key);
        tree.insert(&me.pin(), &key, oid_of(16 * n + 16), None).unwrap();
        queue.push_back((16 * n + 16, key));
        if queue.len() > 1000 {
            let (oid, key) = queue.pop_front().unwrap();
            rows.take(oid, &key);
            assert!(tree.remove_if(&me.pin(), &key, oid_of(oid), &mut || true));
        }
        if n == 20_000 {
            most = tree.memory_bytes();
        }
    }
    verify(&tree, &rows);
    assert!(tree.memory_bytes() <= 2 * most, "{} after {most}", tree.memory_bytes());
}
