//! The CR-tree by itself: points in boxes, built at once and grown, beside the same tree without compression
//! and other libraries' trees in memory.
//!
//! - **T1** Every side has the same points and numbers, and is asked the same boxes. Before the rounds what
//!   each finds, looked at again with the full coordinates, is compared with all points looked at one by one.
//! - **T2** In the rounds numbers come out and nothing is looked at again; what a tree finds too much counts
//!   as its time. One side does look again, at rows that have a cache line each, as a table's have.
use ondol_base::epoch::{Epochs, Guard};
use ondol_base::oid::Oid;
use ondol_bench::options::Common;
use ondol_bench::points::{Boxes, Kind, Moving, Points, boxes, oid_of, overlapping, prefetch};
use ondol_bench::random::Random;
use ondol_bench::report::{Report, number};
use ondol_bench::rounds::{Bound, Contest, passes};
use ondol_bench::{Error, Result};
use ondol_index::btree::{BTree, KeyShape};
use ondol_index::crtree::{CrTree, Rect, Search, put_key};
use ondol_index::{Budget, Index};
use packed_spatial_index as packed;
use rstar::primitives::GeomWithData;
use rstar::{AABB, RTree};
use std::sync::Arc;
use std::time::Instant;

/// The CR-tree: points in boxes, beside it without compression, rstar and packed_spatial_index
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Where points lie: uniform, clusters, market (price, size, time), rectangles (of 4 dimensions); by
    /// commas
    #[arg(long, value_delimiter = ',', default_value = "uniform,clusters,market")]
    kinds: Vec<Kind>,
    /// Dimensions, by commas: 2, 3, 6
    #[arg(long, value_delimiter = ',', default_value = "2,3,6", value_parser = clap::value_parser!(u8).range(2..=6))]
    dimensions: Vec<u8>,
    /// Parts of the points that a box has, in percent, by commas
    #[arg(long, value_delimiter = ',', default_value = "0.001,0.01,0.1,1")]
    percent: Vec<f64>,
    /// How many of the dimensions boxes are bounded in, the others being open; all, unless given
    #[arg(long)]
    bounded: Option<usize>,
}

/// No limit.
struct Unlimited;
impl Budget for Unlimited {
    fn charge(&self, _: usize) -> bool {
        true
    }
    fn release(&self, _: usize) {}
}

fn rect<const D: usize>((low, high): &([f64; D], [f64; D])) -> Rect {
    let mut rect = Rect::ZERO;
    rect.low[..D].copy_from_slice(low);
    rect.high[..D].copy_from_slice(high);
    rect
}

/// A tree that can be asked.
trait Side<const D: usize> {
    /// The numbers of all points that may be in a box.
    fn find(&mut self, within: &([f64; D], [f64; D]), out: &mut Vec<u64>);
}

struct Ours<'a> {
    tree: CrTree,
    guard: &'a Guard<'a>,
    search: Search,
    found: Vec<Oid>,
}
impl<'a> Ours<'a> {
    fn new(tree: CrTree, guard: &'a Guard<'a>) -> Ours<'a> {
        Ours { tree, guard, search: Search::new(), found: Vec::new() }
    }
}
impl<const D: usize> Side<D> for Ours<'_> {
    fn find(&mut self, within: &([f64; D], [f64; D]), out: &mut Vec<u64>) {
        self.found.clear();
        self.tree.search(self.guard, &rect(within), &mut self.search, &mut self.found, None);
        out.extend(self.found.iter().map(|oid| oid.bits() / 16 - 1))
    }
}

/// A point as a row.
#[repr(align(64))]
struct Stored<const D: usize>([f64; D]);

/// The same, and only what is in the box by its row (T2).
struct Again<'a, const D: usize> {
    ours: Ours<'a>,
    rows: Vec<Stored<D>>,
}
impl<const D: usize> Side<D> for Again<'_, D> {
    fn find(&mut self, within: &([f64; D], [f64; D]), out: &mut Vec<u64>) {
        /// Rows that are asked of the memory before they are looked at.
        const AHEAD: usize = 16;
        let Ours { tree, guard, search, found } = &mut self.ours;
        found.clear();
        tree.search(guard, &rect(within), search, found, None);
        let number = |oid: Oid| oid.bits() / 16 - 1;
        let (low, high) = within;
        let ahead = |oid: &Oid| prefetch(&self.rows[number(*oid) as usize]);
        found.iter().take(AHEAD).for_each(ahead);
        for (i, oid) in found.iter().enumerate() {
            found.get(i + AHEAD).into_iter().for_each(ahead);
            let n = number(*oid);
            let row = &self.rows[n as usize].0;
            if (0..D).all(|d| low[d] <= row[d] && row[d] <= high[d]) {
                out.push(n)
            }
        }
    }
}
macro_rules! rstar_side {
    ($($d:literal)*) => { $(
        impl Side<$d> for RTree<GeomWithData<[f64; $d], u64>> {
            fn find(&mut self, (low, high): &([f64; $d], [f64; $d]), out: &mut Vec<u64>) {
                let all = self.locate_in_envelope(AABB::from_corners(*low, *high));
                out.extend(all.map(|found| found.data))
            }
        }
        impl Dimensions<$d> for () {
            fn rstar(points: &Points<$d>) -> Box<dyn Side<$d>> {
                let all = points.0.iter().zip(0..).map(|(p, n)| GeomWithData::new(*p, n)).collect();
                Box::new(RTree::bulk_load(all))
            }
            fn packed(points: &Points<$d>) -> Result<Option<Box<dyn Side<$d>>>> {
                Packed::make(points)
            }
        }
    )* };
}
/// What sides of other libraries there are of a number of dimensions.
trait Dimensions<const D: usize> {
    fn rstar(points: &Points<D>) -> Box<dyn Side<D>>;
    fn packed(points: &Points<D>) -> Result<Option<Box<dyn Side<D>>>>;
}
rstar_side!(2 3 4 5 6);

enum Packed {
    Two(packed::SimdIndex2D, packed::SearchWorkspace),
    Three(packed::SimdIndex3D, packed::SearchWorkspace),
}
impl Packed {
    fn make<const D: usize>(points: &Points<D>) -> Result<Option<Box<dyn Side<D>>>> {
        let space = packed::SearchWorkspace::default();
        let made = match D {
            2 => {
                let mut b = packed::Index2DBuilder::new(points.0.len());
                points.0.iter().for_each(|p| b.add(packed::Box2D::new(p[0], p[1], p[0], p[1])));
                Packed::Two(b.finish_simd().map_err(|e| Error::from(e.to_string()))?, space)
            }
            3 => {
                let mut b = packed::Index3DBuilder::new(points.0.len());
                points.0.iter().for_each(|p| b.add(packed::Box3D::new(p[0], p[1], p[2], p[0], p[1], p[2])));
                Packed::Three(b.finish_simd().map_err(|e| Error::from(e.to_string()))?, space)
            }
            _ => return Ok(None),
        };
        Ok(Some(Box::new(made)))
    }
}
impl<const D: usize> Side<D> for Packed {
    fn find(&mut self, (l, h): &([f64; D], [f64; D]), out: &mut Vec<u64>) {
        let found = match self {
            Packed::Two(index, space) => index.search_with(packed::Box2D::new(l[0], l[1], h[0], h[1]), space),
            Packed::Three(index, space) => {
                index.search_with(packed::Box3D::new(l[0], l[1], l[2], h[0], h[1], h[2]), space)
            }
        };
        out.extend(found.iter().map(|n| *n as u64))
    }
}

const CR8: &str = "CR-tree, 8 bits";
const AGAIN: &str = "CR-tree, 8 bits, rows looked at";
const CR16: &str = "CR-tree, 16 bits";
const FULL: &str = "without compression";
const BTREE: &str = "B+-tree of one dimension";
const GROWN: &str = "CR-tree, 8 bits, grown";
const TWO: &str = "CR-tree, 8 bits, two threads";
const RSTAR: &str = "rstar";
const PACKED: &str = "packed_spatial_index";

/// The sum of what a side finds, of those that are within, and how many these are (T1).
fn right<const D: usize>(
    points: &Points<D>,
    asked: &Boxes<D>,
    found: impl Fn(usize) -> Vec<u64>,
) -> (u64, u64) {
    let (mut sum, mut count) = (0u64, 0);
    for (i, (low, high)) in asked.iter().enumerate() {
        for n in found(i) {
            let p = &points.0[n as usize];
            if (0..D).all(|d| low[d] <= p[d] && p[d] <= high[d]) {
                sum = sum.wrapping_add((n + 1) * (i as u64 + 1));
                count += 1
            }
        }
    }
    (sum, count)
}

/// Searches by two threads at once, each for all boxes so many times: what it takes to begin one shall not
/// count.
fn two_threads<const D: usize>(
    tree: &CrTree,
    epochs: &Arc<Epochs>,
    asked: &Boxes<D>,
    again: usize,
) -> Result<u64> {
    let search = |at: usize| {
        let me = epochs.join(0);
        let guard = me.pin();
        let (mut search, mut out, mut found) = (Search::new(), vec![], 0);
        for n in 0..again * asked.len() {
            out.clear();
            let within = rect(&asked[(n + at) % asked.len()]);
            tree.search(&guard, &within, &mut search, &mut out, None);
            found += out.len() as u64
        }
        found
    };
    std::thread::scope(|threads| {
        let other = threads.spawn(|| search(asked.len() / 2));
        let own = search(0);
        other.join().map(|found| own + found).map_err(|_| Error::from("a thread failed"))
    })
}

/// Inserts and updates one by one: of the tree, and of a B+-tree of the first dimension.
fn changes<const D: usize>(points: &Arc<Points<D>>, guard: &Guard<'_>, report: &mut Report) -> Result<()> {
    let count = points.0.len();
    let failed = |_| Error::from("no memory");
    let moving = Arc::new(Moving::new(points.clone()));
    let tree = CrTree::new(D, 8, moving.clone(), Arc::new(Unlimited)).map_err(failed)?;
    let btree = BTree::new(KeyShape::Fixed(8), Arc::new(Unlimited)).map_err(failed)?;
    let mut r = Random::new(5);
    let mut order: Vec<usize> = (0..count).collect();
    (1..count).rev().for_each(|i| order.swap(i, r.below(i as u64 + 1) as usize));
    // Each update takes a row to where another was put in before.
    let moves: Vec<(usize, usize)> =
        (0..count / 2).map(|_| (r.below(count as u64) as usize, r.below(count as u64) as usize)).collect();
    let mut lines = vec![];
    let sides: [(&str, &dyn Index, usize); 2] = [(GROWN, &tree, D), (BTREE, &btree, 1)];
    for (side, index, dimensions) in sides {
        let key = |n: usize, key: &mut Vec<u8>| {
            key.clear();
            put_key(&points.0[n][..dimensions], key)
        };
        moving.reset();
        let (mut old, mut new) = (vec![], vec![]);
        let began = Instant::now();
        for n in &order {
            key(*n, &mut new);
            index.insert(guard, &new, oid_of(*n), None).map_err(failed)?;
        }
        let inserted = count as f64 / began.elapsed().as_secs_f64();
        let began = Instant::now();
        for (n, to) in &moves {
            key(moving.place(*n), &mut old);
            key(*to, &mut new);
            moving.go(*n, *to);
            index.insert(guard, &new, oid_of(*n), None).map_err(failed)?;
            if old != new {
                index.remove_dead(guard, &old, oid_of(*n), &mut |same| !same(&new), None);
            }
        }
        let updated = moves.len() as f64 / began.elapsed().as_secs_f64();
        // A row may have an entry in two leaves (index/crtree/C7).
        if !(count as u64..=(count + count / 100) as u64).contains(&index.entries()) {
            return Err(format!("{side} has {} entries of {count} rows", index.entries()).into());
        }
        lines.push(vec![side.to_string(), number(inserted), number(updated)])
    }
    report.table(&["index, one thread", "inserts a second", "updates a second"], &lines);
    Ok(())
}

fn compare<const D: usize>(kind: Kind, args: &Args, report: &mut Report) -> Result<()>
where
    (): Dimensions<D>,
{
    let points: Arc<Points<D>> = Arc::new(Points::make(kind, args.common.rows(1_000_000, 4_000)));
    let count = points.0.len();
    let name = format!("{kind:?}, {D} dimensions").to_lowercase();
    report.section(&name);
    let epochs = Epochs::new();
    let me = epochs.join(0);
    let mut built = vec![];
    let pin = me.pin();
    let guard: &Guard<'_> = &pin;
    let mut sides: Vec<(&'static str, Box<dyn Side<D> + '_>)> = vec![];
    let failed = |_| Error::from("no memory");
    for (side, bits) in [(CR8, 8), (CR16, 16), (FULL, 64)] {
        let began = Instant::now();
        let tree =
            CrTree::bulk(bits, points.clone(), Arc::new(Unlimited), points.entries()).map_err(failed)?;
        let seconds = began.elapsed().as_secs_f64();
        built.push(vec![
            side.to_string(),
            number(count as f64 / seconds),
            number(tree.memory_bytes() as f64 / count as f64),
        ]);
        sides.push((side, Box::new(Ours::new(tree, guard))))
    }
    let sides_of_threads =
        Box::new(CrTree::bulk(8, points.clone(), Arc::new(Unlimited), points.entries()).map_err(failed)?);
    let tree = CrTree::bulk(8, points.clone(), Arc::new(Unlimited), points.entries()).map_err(failed)?;
    let rows = points.0.iter().map(|p| Stored(*p)).collect();
    sides.push((AGAIN, Box::new(Again { ours: Ours::new(tree, guard), rows })));
    let began = Instant::now();
    let tree = CrTree::new(D, 8, points.clone(), Arc::new(Unlimited)).map_err(failed)?;
    let mut order: Vec<usize> = (0..count).collect();
    if !matches!(kind, Kind::Market) {
        let mut r = Random::new(3);
        (1..count).rev().for_each(|i| order.swap(i, r.below(i as u64 + 1) as usize));
    }
    let mut key = Vec::new();
    for n in order {
        key.clear();
        put_key(&points.0[n], &mut key);
        tree.insert(guard, &key, oid_of(n), None).map_err(failed)?;
    }
    let seconds = began.elapsed().as_secs_f64();
    built.push(vec![
        GROWN.to_string(),
        number(count as f64 / seconds),
        number(tree.memory_bytes() as f64 / count as f64),
    ]);
    sides.push((GROWN, Box::new(Ours::new(tree, guard))));
    changes(&points, guard, report)?;
    let began = Instant::now();
    sides.push((RSTAR, <() as Dimensions<D>>::rstar(&points)));
    built.push(vec![RSTAR.to_string(), number(count as f64 / began.elapsed().as_secs_f64()), "?".into()]);
    let began = Instant::now();
    if let Some(side) = <() as Dimensions<D>>::packed(&points)? {
        sides.push((PACKED, side));
        built.push(vec![
            PACKED.to_string(),
            number(count as f64 / began.elapsed().as_secs_f64()),
            "?".into(),
        ]);
    }
    report.table(&["tree", "entries a second, built or inserted", "bytes an entry"], &built);
    for percent in &args.percent {
        let wanted = (2e5 / (count as f64 * percent / 100.0)).clamp(20.0, 5000.0) as usize;
        let asked = match kind {
            Kind::Rectangles => overlapping(*percent, wanted),
            _ => boxes(&points, *percent, wanted, args.bounded.unwrap_or(D)),
        };
        let some: Boxes<D> = asked[..asked.len().min(20)].to_vec();
        let all: Vec<u64> = (0..count as u64).collect();
        let wanted = right(&points, &some, |_| all.clone());
        let mut told = vec![];
        for (side, tree) in &mut sides {
            let mut lists = vec![];
            for within in &some {
                let mut out = vec![];
                tree.find(within, &mut out);
                out.sort_unstable();
                out.dedup();
                lists.push(out)
            }
            let found = right(&points, &some, |i| lists[i].clone());
            if found != wanted {
                return Err(format!("{side} finds {found:?}, expected {wanted:?}").into());
            }
            let candidates: usize = lists.iter().map(Vec::len).sum();
            told.push(format!("{side} {:.3}", candidates as f64 / wanted.1.max(1) as f64))
        }
        let part = wanted.1 as f64 / some.len() as f64 / count as f64 * 100.0;
        report.say(format!(
            "A box has {} % of the points; found for each that is right: {}.",
            number(part),
            told.join(", ")
        ));
        let mut contest = Contest::new(format!("{name}, {percent} %"), "searches");
        for (side, tree) in &mut sides {
            let (asked, mut out) = (&asked, Vec::new());
            contest.side(*side, move |_| {
                passes(args.common.seconds(0.3), asked.len(), || {
                    let mut found = 0;
                    for within in asked {
                        out.clear();
                        tree.find(within, &mut out);
                        found += out.len() as u64
                    }
                    std::hint::black_box(&out);
                    Ok(found)
                })
                .map(|mut sample| {
                    sample.checksum = None; // T2
                    sample
                })
            })
        }
        let two = &*sides_of_threads;
        contest.side(TWO, |_| {
            let again = if args.common.tiny { 1 } else { (2_000 / asked.len()).max(1) };
            let pass = || two_threads(two, &epochs, &asked, again);
            passes(args.common.seconds(0.3), 2 * again * asked.len(), pass).map(|mut sample| {
                sample.checksum = None;
                sample
            })
        });
        contest.aim("two threads against one", TWO, Some(CR8), Bound::RateAtLeast(1.7));
        let least = match D {
            2 => 2.0,
            3 => 2.5,
            _ => 4.0,
        };
        contest.aim("against the tree without compression", CR8, Some(FULL), Bound::RateAtLeast(least));
        contest.aim("against rstar", CR8, Some(RSTAR), Bound::RateAtLeast(6.0));
        contest.aim("against rstar, rows looked at", AGAIN, Some(RSTAR), Bound::RateAtLeast(3.0));
        contest.aim("grown against built at once: the time", GROWN, Some(CR8), Bound::TimeAtMost(1.5));
        if D <= 3 {
            contest.aim("against packed_spatial_index", CR8, Some(PACKED), Bound::RateAtLeast(1.3));
        }
        contest.run(args.common.rounds(), report)?;
    }
    Ok(())
}

pub fn run(args: Args) -> Result<()> {
    let mut report = Report::new("crtree", "Points in boxes", Some(&args.common));
    ondol_bench::each_kind!(args, compare, &mut report);
    report.finish()
}
