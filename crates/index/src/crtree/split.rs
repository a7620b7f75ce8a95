//! How a full node's entries are parted: along the dimension and at the place after which the least is met by
//! a search, for boxes that are about as wide as nodes are. That is in proportion to the products of edges,
//! the box's added to each (Kamel, Faloutsos, CIKM 1993).
//!
//! Units of dimensions have nothing to do with each other, and where values lie close edges are short. So a
//! node's edge is measured by what lies beside it: which share of the tree has coordinates there
//! ([`super::Way`]). Within the node lengths are parts of its rectangle.
use super::grid::to_word;
use super::node::Item;
use super::{MOST, Point, Rect};

/// Of a hundred entries so many at least go to either part.
const LEAST: usize = 30;
/// Dimensions whose edges are no longer than this part of the longest are left as they are.
const LONG: f64 = 0.9;
/// By how much more a division costs that leaves all to one part, of points and of boxes: small parts take
/// room, while boxes that overlap cost at every level below.
const UNEVEN: (f64, f64) = (0.3, 0.1);

/// A box in parts of the node's.
#[derive(Clone, Copy)]
struct Part {
    low: Point,
    high: Point,
}

impl Part {
    fn add(&mut self, dimensions: usize, other: &Part) {
        for d in 0..dimensions {
            self.low[d] = self.low[d].min(other.low[d]);
            self.high[d] = self.high[d].max(other.high[d])
        }
    }
    /// How often it is met; `edges`: the node's, in those of a box.
    fn cost(&self, dimensions: usize, edges: &Point) -> f64 {
        (0..dimensions).map(|d| (self.high[d] - self.low[d]) * edges[d] + 1.0).product()
    }
}

/// Puts the entries in an order, and gives how many of them are the first part. There are two at least, and
/// at most 2 `most`, as neither part may have more than that. `shares`: by dimension, the share of the tree
/// that lies beside the node.
pub(super) fn divide(dimensions: usize, items: &mut Vec<Item>, most: usize, shares: &Point) -> usize {
    let count = items.len();
    let mut whole = items[0].rect;
    items.iter().for_each(|item| whole.add(dimensions, &item.rect));
    let parts = parts_of(dimensions, items, &whole);
    // A leaf's entries may have become more than one leaf has room for (crtree/C6).
    let least = (count * LEAST / 100).max(1).max(count.saturating_sub(most));
    let is_points = items.iter().all(|i| i.rect.low[..dimensions] == i.rect.high[..dimensions]);
    let uneven = if is_points { UNEVEN.0 } else { UNEVEN.1 };
    let longest = shares[..dimensions].iter().copied().fold(0.0, f64::max);
    let mean = shares[..dimensions].iter().sum::<f64>() / dimensions as f64;
    let edges = shares.map(|share| if mean > 0.0 { share / mean } else { 1.0 });
    let mut best: Option<(f64, Vec<u16>, usize)> = None;
    let mut after = vec![parts[0]; count];
    for d in (0..dimensions).filter(|d| shares[*d] >= longest * LONG) {
        for by_high in [false, true] {
            if by_high && is_points {
                continue;
            }
            let mut order: Vec<u16> = (0..count as u16).collect();
            let edge = |n: &u16| {
                let rect = &items[usize::from(*n)].rect;
                let (first, then) = if by_high { (&rect.high, &rect.low) } else { (&rect.low, &rect.high) };
                (to_word(first[d]), to_word(then[d]))
            };
            order.sort_by_cached_key(edge);
            let part = |i: usize| &parts[usize::from(order[i])];
            after[count - 1] = *part(count - 1);
            for i in (0..count - 1).rev() {
                let mut all = after[i + 1];
                all.add(dimensions, part(i));
                after[i] = all
            }
            let (mut before, mut place) = (*part(0), (f64::INFINITY, least));
            for (i, after) in after.iter().enumerate().skip(1) {
                if (least..=count - least).contains(&i) {
                    let cost = before.cost(dimensions, &edges) + after.cost(dimensions, &edges);
                    let off = (2.0 * i as f64 / count as f64 - 1.0).abs();
                    let cost = cost * (1.0 + uneven * off);
                    if cost < place.0 {
                        place = (cost, i)
                    }
                }
                before.add(dimensions, part(i))
            }
            if best.as_ref().is_none_or(|(least, ..)| place.0 < *least) {
                best = Some((place.0, order, place.1))
            }
        }
    }
    let (order, place) =
        best.map_or(((0..count as u16).collect(), least), |(_, order, place)| (order, place));
    *items = order.iter().map(|n| items[usize::from(*n)]).collect();
    place
}

fn parts_of(dimensions: usize, items: &[Item], whole: &Rect) -> Vec<Part> {
    let part = |x: f64, d: usize| {
        // Half of it, since all of it may be no number any more.
        let half = whole.high[d] * 0.5 - whole.low[d] * 0.5;
        if half > 0.0 { (x * 0.5 - whole.low[d] * 0.5) / half } else { 0.0 }
    };
    let of = |item: &Item| {
        let mut out = Part { low: [0.0; MOST], high: [0.0; MOST] };
        for d in 0..dimensions {
            (out.low[d], out.high[d]) = (part(item.rect.low[d], d), part(item.rect.high[d], d))
        }
        out
    };
    items.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(low: [f64; 2], high: [f64; 2], word: u64) -> Item {
        let mut rect = Rect::ZERO;
        rect.low[..2].copy_from_slice(&low);
        rect.high[..2].copy_from_slice(&high);
        Item { rect, word }
    }

    /// The units of a dimension do not matter, and clusters stay together.
    #[test]
    fn clusters_are_parted_where_they_are_apart() {
        for scale in [1e-6, 1.0, 1e12] {
            let at = |n: u64| if n < 12 { 0.0 } else { 10.0 };
            let mut items: Vec<Item> = (0..20)
                .map(|n| {
                    let p = [(n * 7 % 20) as f64, (at(n) + (n % 3) as f64 * 0.1) * scale];
                    item(p, p, n)
                })
                .collect();
            items.reverse();
            let place = divide(2, &mut items, 116, &[1.0; MOST]);
            let mut parts = [&items[..place], &items[place..]].map(|p| {
                let mut words: Vec<u64> = p.iter().map(|i| i.word).collect();
                words.sort_unstable();
                words
            });
            parts.sort();
            assert_eq!(parts, [(0..12).collect::<Vec<_>>(), (12..20).collect()], "{scale}");
        }
    }

    #[test]
    fn equal_and_outermost_entries_are_parted_too() {
        let far = f64::MAX;
        for low in [[0.0, 0.0], [-far, -far]] {
            for high in [low, [far, far]] {
                let mut items: Vec<Item> = (0..9).map(|n| item(low, high, n)).collect();
                let place = divide(2, &mut items, 116, &[1.0; MOST]);
                assert!((3..=6).contains(&place), "{place}");
                let mut words: Vec<u64> = items.iter().map(|i| i.word).collect();
                words.sort_unstable();
                assert_eq!(words, (0..9).collect::<Vec<_>>());
            }
        }
    }

    /// Also where it would be best to cut off a few that lie apart.
    #[test]
    fn no_part_has_more_than_there_is_room_for() {
        for apart in [0, 1, 20, 55, 60] {
            let mut items: Vec<Item> = (0..174)
                .map(|n| {
                    let far = if n < apart { 1e9 } else { 0.0 };
                    let p = [far + (n * 7 % 10) as f64, (n * 3 % 11) as f64];
                    item(p, p, n)
                })
                .collect();
            let place = divide(2, &mut items, 116, &[1.0; MOST]);
            assert!((58..=116).contains(&place), "{place}, {apart} apart");
        }
    }
}
