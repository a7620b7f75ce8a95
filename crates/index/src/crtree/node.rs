//! A node: a block of words, all accessed as relaxed atomics under the rules index/I1 and index/I2.
//!
//! ```text
//! word 0  version                    its own rectangle, and the grid that its entries' codes are of (grid)
//! word 1  sequence (crtree/C3)                a word for each dimension: least | greatest | first cell
//! word 2  the right neighbour's line   16 bits for each dimension: shift
//! word 3  count | level<<16          its entries
//!                                      of a leaf:  codes by dimension | OIDs: 32 bits | 16 bits more
//!                                      of another: least codes, greatest codes by dimension | lines of children
//! ```
//! All columns begin at a word. Without compression a code is a coordinate's word, in 64 bits, and there are
//! no grids.
//!
//! - **N1** The line numbers that a node has, its count and its level are, whatever a reader meets, such as
//!   were written once: a line that is read is a node's, and a count is at most the capacity.
use super::grid::{Grid, from_word, to_word};
use super::lanes::{not_above, spread, tops};
use super::{MOST, Point, Rect};
use crate::Seen;
use crate::latch::{self, Changed, Checked, Versioned};
use ondol_base::oid::Oid;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const HEADER: usize = 4;
/// The most words that a column of codes has.
pub(crate) const WORDS: usize = 64;
/// Entries whose codes are unpacked at once.
const BLOCK: usize = 64;

/// Where the columns of a kind of node are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    pub(crate) capacity: usize,
    /// The first column of codes, how many there are, and the words of one.
    codes: usize,
    pub(crate) arrays: usize,
    stride: usize,
    /// The low 32 bits of OIDs, or the lines of children; the next 16 bits of OIDs.
    lines: usize,
    tops: usize,
}

/// The form of all nodes of a tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) dimensions: usize,
    /// Bits of a code: 8, 16, or 64 without compression.
    pub(crate) bits: u32,
    /// log2 of a node's bytes.
    pub(crate) shift: u32,
    pub(crate) leaf: Columns,
    pub(crate) inner: Columns,
}

impl Form {
    pub(crate) fn new(dimensions: usize, bits: u32, shift: u32) -> Form {
        let words = (1usize << shift) / 8;
        let grids = if bits == 64 { 0 } else { dimensions + dimensions.div_ceil(4) };
        let first = HEADER + 2 * dimensions + grids;
        let of = |arrays: usize, is_leaf: bool| {
            let fits = |capacity: usize| {
                let stride = (capacity * bits as usize).div_ceil(64);
                let codes = arrays * stride;
                let lines = first + codes;
                let tops = lines + capacity.div_ceil(2);
                let end = if is_leaf { tops + capacity.div_ceil(4) } else { tops };
                let columns = Columns { capacity, codes: first, arrays, stride, lines, tops };
                (end <= words && stride <= WORDS).then_some(columns)
            };
            (1..words).rev().find_map(fits).unwrap_or_else(|| panic!("no entry fits in 2^{shift} bytes"))
        };
        Form { dimensions, bits, shift, leaf: of(dimensions, true), inner: of(2 * dimensions, false) }
    }
    #[inline(always)]
    pub(crate) fn of(&self, level: u32) -> &Columns {
        if level == 0 { &self.leaf } else { &self.inner }
    }
    pub(crate) fn is_compressed(&self) -> bool {
        self.bits < 64
    }
}

/// What an entry of a node is about, in full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) rect: Rect,
    /// An OID, or the line of a child.
    pub(crate) word: u64,
}

/// The lanes of a node's entries: the top bits of those that are meant.
pub(crate) struct Masks(pub(crate) [u64; WORDS]);
impl Default for Masks {
    fn default() -> Masks {
        Masks([0; WORDS])
    }
}
impl Masks {
    /// Hands out the numbers of the entries that are meant in the first words.
    #[inline(always)]
    pub(crate) fn each(&self, words: usize, bits: u32, mut put: impl FnMut(usize)) {
        for (word, mask) in self.0[..words].iter().enumerate() {
            let (mut mask, first) = (*mask, word * 64 / bits as usize);
            while mask != 0 {
                put(first + (mask.trailing_zeros() / bits) as usize);
                mask &= mask - 1
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) at: *const AtomicU64,
    /// Its line in the slab.
    pub(crate) line: u32,
}

impl Versioned for Node {
    #[inline(always)]
    fn version(&self) -> &AtomicU64 {
        self.word(0)
    }
}

impl Node {
    #[inline(always)]
    fn word(&self, i: usize) -> &AtomicU64 {
        // SAFETY: callers keep `i` within the node by the form and N1; nodes live as long as their tree
        // (index/I3).
        unsafe { &*self.at.add(i) }
    }
    #[inline(always)]
    fn get(&self, i: usize) -> u64 {
        self.word(i).load(Relaxed)
    }
    #[inline(always)]
    fn set(&self, i: usize, value: u64) {
        self.word(i).store(value, Relaxed)
    }
    /// Lane `i` of the column at `from`, its lanes having so many bits.
    #[inline(always)]
    fn lane(&self, from: usize, bits: u32, i: usize) -> u64 {
        let lanes = 64 / bits as usize;
        let word = self.get(from + i / lanes);
        word >> (bits as usize * (i % lanes)) & (u64::MAX >> (64 - bits))
    }
    #[inline(always)]
    fn set_lane(&self, from: usize, bits: u32, i: usize, value: u64) {
        let lanes = 64 / bits as usize;
        let (at, by) = (from + i / lanes, bits as usize * (i % lanes));
        self.set(at, self.get(at) & !(u64::MAX >> (64 - bits) << by) | value << by)
    }
    #[inline(always)]
    pub(crate) fn seen(&self, version: u64) -> Seen {
        Seen { node: self.at, version }
    }
    #[inline(always)]
    pub(crate) fn check(&self, version: u64) -> Checked<()> {
        if latch::check(self.version(), version) { Ok(()) } else { Err(Changed) }
    }
    #[inline(always)]
    pub(crate) fn sequence(&self) -> u64 {
        self.get(1)
    }
    /// The right neighbour's line, if there is one.
    #[inline(always)]
    pub(crate) fn link(&self) -> Option<u32> {
        self.get(2).checked_sub(1).map(|line| line as u32)
    }
    pub(crate) fn set_link(&self, sequence: u64, link: Option<u32>) {
        self.set(1, sequence);
        self.set(2, link.map_or(0, |line| u64::from(line) + 1))
    }
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.get(3) as usize & 0xffff
    }
    #[inline(always)]
    pub(crate) fn level(&self) -> u32 {
        (self.get(3) >> 16) as u32
    }
    pub(crate) fn set_meta(&self, count: usize, level: u32) {
        self.set(3, count as u64 | u64::from(level) << 16)
    }

    #[inline(always)]
    pub(crate) fn low(&self, d: usize) -> f64 {
        f64::from_bits(self.get(HEADER + d))
    }
    #[inline(always)]
    pub(crate) fn high(&self, form: &Form, d: usize) -> f64 {
        f64::from_bits(self.get(HEADER + form.dimensions + d))
    }
    pub(crate) fn rect(&self, form: &Form) -> Rect {
        let mut rect = Rect::ZERO;
        for d in 0..form.dimensions {
            (rect.low[d], rect.high[d]) = (self.low(d), self.high(form, d))
        }
        rect
    }
    pub(crate) fn set_rect(&self, form: &Form, rect: &Rect) {
        for d in 0..form.dimensions {
            self.set(HEADER + d, rect.low[d].to_bits());
            self.set(HEADER + form.dimensions + d, rect.high[d].to_bits())
        }
    }
    #[inline(always)]
    pub(crate) fn grid(&self, form: &Form, d: usize) -> Grid {
        let base = self.get(HEADER + 2 * form.dimensions + d) as i64;
        let shift = self.lane(HEADER + 3 * form.dimensions, 16, d) as u16;
        Grid { base, shift: i32::from(shift as i16) }
    }
    fn set_grid(&self, form: &Form, d: usize, grid: Grid) {
        self.set(HEADER + 2 * form.dimensions + d, grid.base as u64);
        self.set_lane(HEADER + 3 * form.dimensions, 16, d, u64::from(grid.shift as i16 as u16))
    }
    /// The code that a coordinate has in this node.
    #[inline(always)]
    pub(crate) fn encode(&self, form: &Form, d: usize, x: f64) -> u64 {
        if form.is_compressed() { self.grid(form, d).code(x, form.bits) } else { to_word(x) }
    }
    pub(crate) fn encode_all(&self, form: &Form, p: &Point) -> [u64; MOST] {
        let mut codes = [0; MOST];
        for d in 0..form.dimensions {
            codes[d] = self.encode(form, d, p[d])
        }
        codes
    }

    #[inline(always)]
    pub(crate) fn code(&self, form: &Form, columns: &Columns, array: usize, i: usize) -> u64 {
        self.lane(columns.codes + array * columns.stride, form.bits, i)
    }
    pub(crate) fn set_code(&self, form: &Form, columns: &Columns, array: usize, i: usize, code: u64) {
        self.set_lane(columns.codes + array * columns.stride, form.bits, i, code)
    }
    #[inline(always)]
    pub(crate) fn oid(&self, form: &Form, i: usize) -> u64 {
        self.lane(form.leaf.lines, 32, i) | self.lane(form.leaf.tops, 16, i) << 32
    }
    /// Writes the OIDs of the first `count` entries of a leaf, and up to three that mean nothing behind them.
    #[inline(always)]
    pub(crate) fn oids(&self, form: &Form, count: usize, out: &mut [u64]) {
        // Four have two words, and one of their top bits; behind the last words there are other columns.
        for (quad, out) in out.as_chunks_mut::<4>().0.iter_mut().take(count.div_ceil(4)).enumerate() {
            let [a, b] = [0, 1].map(|i| self.get(form.leaf.lines + 2 * quad + i));
            let tops = self.get(form.leaf.tops + quad);
            let oid = |low: u64, n: u32| low & 0xffff_ffff | (tops >> (16 * n) & 0xffff) << 32;
            *out = [oid(a, 0), oid(a >> 32, 1), oid(b, 2), oid(b >> 32, 3)]
        }
    }
    #[inline(always)]
    pub(crate) fn child(&self, form: &Form, i: usize) -> u32 {
        self.lane(form.inner.lines, 32, i) as u32
    }
    fn set_word(&self, form: &Form, level: u32, i: usize, word: u64) {
        let columns = form.of(level);
        debug_assert!(word <= if level == 0 { Oid::MASK } else { u64::from(u32::MAX) });
        self.set_lane(columns.lines, 32, i, word & 0xffff_ffff);
        if level == 0 {
            self.set_lane(columns.tops, 16, i, word >> 32)
        }
    }

    /// Sets in `masks` the top bit of the lane of each entry whose codes meet the query's in all dimensions:
    /// not above `high`, and not below `low`. Those that are no restriction are left out of `asked`. Gives
    /// the words that there are.
    #[inline(always)]
    pub(crate) fn matches(
        &self,
        form: &Form,
        level: u32,
        count: usize,
        (low, high): (&[u64; MOST], &[u64; MOST]),
        asked: u32,
        masks: &mut Masks,
    ) -> usize {
        match form.bits {
            8 => self.matches_of::<8>(form, level, count, (low, high), asked, masks),
            16 => self.matches_of::<16>(form, level, count, (low, high), asked, masks),
            _ => self.matches_of::<64>(form, level, count, (low, high), asked, masks),
        }
    }
    #[inline(always)]
    fn matches_of<const BITS: u32>(
        &self,
        form: &Form,
        level: u32,
        count: usize,
        (low, high): (&[u64; MOST], &[u64; MOST]),
        mut asked: u32,
        masks: &mut Masks,
    ) -> usize {
        let (columns, tops) = (form.of(level), tops(BITS));
        let lanes = 64 / BITS as usize;
        let words = count.div_ceil(lanes).min(columns.stride);
        let masks = &mut masks.0[..words];
        masks.fill(tops);
        if let Some(last) = masks.last_mut()
            && !count.is_multiple_of(lanes)
        {
            *last &= (1 << (BITS as usize * (count % lanes))) - 1
        }
        while asked != 0 {
            let d = asked.trailing_zeros() as usize;
            asked &= asked - 1;
            let (low, high) = (spread(low[d], BITS), spread(high[d], BITS));
            let least = columns.codes + d * columns.stride;
            let greatest = if level == 0 { least } else { least + form.dimensions * columns.stride };
            for (i, mask) in masks.iter_mut().enumerate() {
                let (from, to) = (self.get(least + i), self.get(greatest + i));
                *mask &= not_above(from, high, tops) & not_above(low, to, tops)
            }
        }
        words
    }

    /// The box of entry `i`, as its codes have it: all that it stands for is within.
    pub(crate) fn entry_rect(&self, form: &Form, level: u32, i: usize) -> Rect {
        let (columns, mut rect) = (form.of(level), Rect::ZERO);
        for d in 0..form.dimensions {
            let low = self.code(form, columns, d, i);
            let high = if level == 0 { low } else { self.code(form, columns, form.dimensions + d, i) };
            (rect.low[d], rect.high[d]) = if form.is_compressed() {
                let grid = self.grid(form, d);
                (grid.begin(low), grid.end(high))
            } else {
                (from_word(low), from_word(high))
            }
        }
        rect
    }
    /// Gives entry `i` another box, which is within the node's rectangle.
    pub(crate) fn set_entry_rect(&self, form: &Form, level: u32, i: usize, rect: &Rect) {
        let columns = form.of(level);
        for d in 0..form.dimensions {
            self.set_code(form, columns, d, i, self.encode(form, d, rect.low[d]));
            if level > 0 {
                let mut high = self.encode(form, d, rect.high[d]);
                if ondol_base::sim::mutated("rounded_inward") {
                    high = high.saturating_sub(1).max(self.encode(form, d, rect.low[d]))
                }
                self.set_code(form, columns, form.dimensions + d, i, high)
            }
        }
    }

    /// Whether the entry of a leaf has the codes of a point. What is outside of the node is in no entry, even
    /// if its codes are cut off to one's.
    pub(crate) fn stands_for(&self, form: &Form, i: usize, p: &Point) -> bool {
        let rect = self.rect(form);
        (0..form.dimensions).all(|d| {
            rect.low[d] <= p[d]
                && p[d] <= rect.high[d]
                && self.code(form, &form.leaf, d, i) == self.encode(form, d, p[d])
        })
    }
    /// Whether an entry of an inner node has a point that the node's rectangle has.
    pub(crate) fn entry_has(&self, form: &Form, level: u32, i: usize, p: &Point) -> bool {
        let columns = form.of(level);
        (0..form.dimensions).all(|d| {
            let code = self.encode(form, d, p[d]);
            self.code(form, columns, d, i) <= code && code <= self.code(form, columns, form.dimensions + d, i)
        })
    }
    /// Makes an entry of an inner node have a point that the node's rectangle has.
    pub(crate) fn widen_entry(&self, form: &Form, level: u32, i: usize, p: &Point) {
        let columns = form.of(level);
        for (d, x) in p[..form.dimensions].iter().enumerate() {
            let code = self.encode(form, d, *x);
            let (low, high) =
                (self.code(form, columns, d, i), self.code(form, columns, form.dimensions + d, i));
            self.set_code(form, columns, d, i, low.min(code));
            self.set_code(form, columns, form.dimensions + d, i, high.max(code))
        }
    }
    /// The ends of an inner node's entry in a dimension, in the units of [`Node::places`].
    fn ends(&self, form: &Form, d: usize, i: usize) -> [f64; 2] {
        [d, form.dimensions + d].map(|array| {
            let code = self.code(form, &form.inner, array, i);
            if form.is_compressed() { code as f64 } else { self.part(form, d, from_word(code)) }
        })
    }
    /// For each dimension, which share of what is below an inner node lies beside entry `i`, if all entries
    /// have as much, evenly.
    pub(crate) fn shares(&self, form: &Form, i: usize) -> Point {
        let count = self.count();
        std::array::from_fn(|d| {
            if d >= form.dimensions {
                return 0.0;
            }
            let [low, high] = self.ends(form, d, i);
            // A cell is a length of one.
            let share = |n: usize| {
                let [from, to] = self.ends(form, d, n);
                ((to.min(high) - from.max(low) + 1.0) / (to - from + 1.0)).max(0.0)
            };
            (0..count).map(share).sum::<f64>() / count.max(1) as f64
        })
    }
    /// Where a point lies, in cells of the node's grid, or in parts of its rectangle if there is no grid; it
    /// may be outside.
    pub(crate) fn places(&self, form: &Form, p: &Point) -> Point {
        let place = |d: usize| {
            if form.is_compressed() {
                let grid = self.grid(form, d);
                (grid.cell(p[d]) - grid.base) as f64
            } else {
                self.part(form, d, p[d])
            }
        };
        std::array::from_fn(|d| if d < form.dimensions { place(d) } else { 0.0 })
    }
    /// In 256ths of the rectangle.
    fn part(&self, form: &Form, d: usize, x: f64) -> f64 {
        let half = self.high(form, d) * 0.5 - self.low(d) * 0.5;
        if half > 0.0 { 256.0 * (x * 0.5 - self.low(d) * 0.5) / half } else { 0.0 }
    }
    /// The edges of the box of an inner node's entry, added up, in the units of [`Node::places`]; `with` a
    /// place, if it had that.
    pub(crate) fn edges(&self, form: &Form, i: usize, with: Option<&Point>) -> f64 {
        let mut edges = 0.0;
        for d in 0..form.dimensions {
            let [mut low, mut high] = self.ends(form, d, i);
            if let Some(p) = with {
                (low, high) = (low.min(p[d]), high.max(p[d]))
            }
            edges += high - low
        }
        edges
    }

    /// Which of an inner node's first entries has to grow least to have a point, by its edges; of several the
    /// one with the shortest. `None` if there is no entry.
    pub(crate) fn grows_least(&self, form: &Form, count: usize, p: &Point) -> Option<usize> {
        let at = self.places(form, p);
        match form.bits {
            8 => self.grows_least_of::<1>(form, count, &at),
            16 => self.grows_least_of::<2>(form, count, &at),
            _ => self.grows_least_in_full(form, count, &at),
        }
    }
    fn grows_least_in_full(&self, form: &Form, count: usize, at: &Point) -> Option<usize> {
        let mut best: Option<(f64, f64, usize)> = None;
        for i in 0..count {
            let edges = self.edges(form, i, None);
            let growth = self.edges(form, i, Some(at)) - edges;
            if best.is_none_or(|(least, other, _)| (growth, edges) < (least, other)) {
                best = Some((growth, edges, i))
            }
        }
        best.map(|(.., i)| i)
    }
    /// The same where codes have so many bytes: dimension by dimension, several entries at once.
    fn grows_least_of<const BYTES: usize>(&self, form: &Form, count: usize, at: &Point) -> Option<usize> {
        let columns = &form.inner;
        // A cell further out is as far from all entries.
        let at = at.map(|place| place.clamp(-1.0, (1u64 << (8 * BYTES)) as f64) as i32);
        let mut best: Option<(i32, i32, usize)> = None;
        for first in (0..count).step_by(BLOCK) {
            let (mut growth, mut edges) = ([0; BLOCK], [0; BLOCK]);
            for (d, at) in at[..form.dimensions].iter().enumerate() {
                let low = self.codes::<BYTES>(columns, d, first);
                let high = self.codes::<BYTES>(columns, form.dimensions + d, first);
                for i in 0..BLOCK {
                    growth[i] += (low[i] - at).max(0) + (at - high[i]).max(0);
                    edges[i] += high[i] - low[i]
                }
            }
            for i in 0..BLOCK.min(count - first) {
                if best.is_none_or(|(least, other, _)| (growth[i], edges[i]) < (least, other)) {
                    best = Some((growth[i], edges[i], first + i))
                }
            }
        }
        best.map(|(.., i)| i)
    }
    /// The codes of a block of entries, `first` being a multiple of its length. What the column has no room
    /// for is 0.
    #[inline(always)]
    fn codes<const BYTES: usize>(&self, columns: &Columns, array: usize, first: usize) -> [i32; BLOCK] {
        let (begin, lanes) = (columns.codes + array * columns.stride, 8 / BYTES);
        let mut bytes = [[0; 8]; 2 * BLOCK / 8];
        let words = first / lanes..columns.stride.min((first + BLOCK) / lanes);
        for (word, bytes) in words.zip(&mut bytes) {
            *bytes = self.get(begin + word).to_le_bytes()
        }
        let bytes = bytes.as_flattened();
        std::array::from_fn(|i| match BYTES {
            1 => i32::from(bytes[i]),
            _ => i32::from(u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]])),
        })
    }

    /// Makes the node one of these entries, some of which may be the same in its codes. Cells are no finer
    /// than 2^least in each dimension.
    pub(crate) fn fill(&self, form: &Form, level: u32, items: &mut [Item], least: &[i32; MOST]) {
        if level == 0 {
            items.sort_unstable_by_key(|item| item.word)
        }
        let Some((first, others)) = items.split_first() else { return self.set_meta(0, level) };
        let mut rect = first.rect;
        for item in others {
            rect.add(form.dimensions, &item.rect)
        }
        self.set_rect(form, &rect);
        if form.is_compressed() {
            for (d, least) in least[..form.dimensions].iter().enumerate() {
                self.set_grid(form, d, Grid::over(rect.low[d], rect.high[d], form.bits, *least))
            }
        }
        let mut count = 0;
        for (n, item) in items.iter().enumerate() {
            // What lies behind is another node's.
            assert!(count < form.of(level).capacity, "a node is filled with too many entries");
            self.set_entry_rect(form, level, count, &item.rect);
            self.set_word(form, level, count, item.word);
            // A row's entries stand side by side; of those in one cell the first stays.
            let own =
                items[..n].iter().rev().take_while(|other| level == 0 && other.word == item.word).count();
            let is_new = (count - own.min(count)..count).all(|i| !self.is_same_entry(form, i, count));
            count += usize::from(is_new)
        }
        self.set_meta(count, level)
    }
    fn is_same_entry(&self, form: &Form, a: usize, b: usize) -> bool {
        let code = |d, i| self.code(form, &form.leaf, d, i);
        self.oid(form, a) == self.oid(form, b) && (0..form.dimensions).all(|d| code(d, a) == code(d, b))
    }
    /// Adds an entry, which is within the node's rectangle.
    pub(crate) fn push(&self, form: &Form, level: u32, item: &Item) {
        let count = self.count();
        debug_assert!(count < form.of(level).capacity);
        self.set_entry_rect(form, level, count, &item.rect);
        self.set_word(form, level, count, item.word);
        self.set_meta(count + 1, level)
    }
    /// Takes an entry out; the last takes its place.
    pub(crate) fn remove(&self, form: &Form, level: u32, i: usize) {
        let (columns, last) = (form.of(level), self.count() - 1);
        for array in 0..columns.arrays {
            self.set_code(form, columns, array, i, self.code(form, columns, array, last))
        }
        let word = if level == 0 { self.oid(form, last) } else { u64::from(self.child(form, last)) };
        self.set_word(form, level, i, word);
        self.set_meta(last, level)
    }

    /// Makes the node's rectangle one that has the point, and its grid one that has the rectangle, to which
    /// the codes go over.
    pub(crate) fn stretch(&self, form: &Form, level: u32, p: &Point) {
        let (columns, count) = (form.of(level), self.count());
        let mut rect = if count == 0 { Rect { low: *p, high: *p } } else { self.rect(form) };
        rect.add(form.dimensions, &Rect { low: *p, high: *p });
        self.set_rect(form, &rect);
        if !form.is_compressed() {
            return;
        }
        for (d, x) in p[..form.dimensions].iter().enumerate() {
            let (low, high) = (rect.low[d], rect.high[d]);
            let before = self.grid(form, d);
            if count == 0 {
                self.set_grid(form, d, Grid::over(low, high, form.bits, i32::MIN))
            } else if !before.holds(low, high, form.bits) {
                let mut after = Grid::over(low, high, form.bits, before.shift);
                if *x == low {
                    // What grows downwards will go on so: the cells that are left over are below.
                    after.base = after.cell(high) - ((1 << form.bits) - 1)
                }
                let arrays = (0..columns.arrays).filter(|array| array % form.dimensions == d);
                for (array, i) in arrays.flat_map(|array| (0..count).map(move |i| (array, i))) {
                    let code = before.moved(self.code(form, columns, array, i), after);
                    self.set_code(form, columns, array, i, code)
                }
                self.set_grid(form, d, after)
            }
        }
    }

    /// Asks for the lines that a search looks at.
    #[inline(always)]
    pub(crate) fn prefetch(&self, form: &Form) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: hints; they fault on no address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let p = self.at.cast::<i8>();
            for line in 0..(1 << form.shift) / 64 {
                _mm_prefetch(p.wrapping_add(64 * line), _MM_HINT_T0);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = form;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Several entries at once or one after the other: the same one grows least.
    #[test]
    fn the_entry_that_grows_least_is_the_same_by_columns() {
        let mut n = 1u64;
        let mut random = move |below: u64| {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (n >> 33) % below
        };
        for round in 0..400 {
            let (dimensions, bits) = (2 + round % 5, [8, 16][round / 5 % 2]);
            let form = Form::new(dimensions, bits, 10);
            let words: Vec<AtomicU64> = (0..128).map(|_| AtomicU64::new(u64::MAX)).collect();
            let node = Node { at: words.as_ptr(), line: 0 };
            let count = [1, 2, form.inner.capacity][round % 3].min(1 + random(200) as usize);
            let mut items: Vec<Item> = (0..count as u64)
                .map(|word| {
                    let mut rect = Rect::ZERO;
                    for d in 0..dimensions {
                        rect.low[d] = random(1000) as f64;
                        rect.high[d] = rect.low[d] + random(50) as f64
                    }
                    Item { rect, word }
                })
                .collect();
            node.fill(&form, 1, &mut items, &[i32::MIN; MOST]);
            for far in [1000.0, 1000.0, 3000.0] {
                let p: Point = std::array::from_fn(|d| match d < dimensions {
                    true => far * (random(2000) as f64 / 500.0 - 1.5),
                    false => 0.0,
                });
                let expected = node.grows_least_in_full(&form, count, &node.places(&form, &p));
                assert!(expected.is_some());
                assert_eq!(node.grows_least(&form, count, &p), expected, "{dimensions} {bits} {count} {p:?}")
            }
            let p = [-f64::MAX; MOST];
            assert!(node.grows_least(&form, count, &p).is_some_and(|i| i < count))
        }
        let form = Form::new(2, 8, 10);
        let words: Vec<AtomicU64> = (0..128).map(|_| AtomicU64::new(0)).collect();
        assert_eq!(Node { at: words.as_ptr(), line: 0 }.grows_least(&form, 0, &[0.0; MOST]), None)
    }
}
