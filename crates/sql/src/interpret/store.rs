//! Rows kept by a statement: lists, hash tables, sorters and groups all stand on [`Store`].
//!
//! - **S1** A row is `width` datums in one vector; their strings lie in the store's own memory, so that a
//!   frame's temporaries may be given back while stored rows stay.
//! - **S2** Row numbers are given in order of insertion and stay; only a sorter's cut ([`Sorter`]) renumbers.
//! - **S3** Clearing keeps the memory for the next execution.
//! - **S4** Sorting looks for a wish to cancel, and lets others of the thread have their turn, once in
//!   [`RUN`] rows: a sort of many rows takes seconds.
use super::datum::{Allowance, Datum, Mix, compare, hash};
use super::exec::canceled;
use crate::code::program::SortKey;
use ondol_base::fiber::take_turns;
use ondol_types::SqlResult;
use std::cmp::Ordering;

#[derive(Default, Debug)]
pub struct Store {
    pub width: usize,
    pub rows: usize,
    datums: Vec<Datum>,
    pub bytes: Vec<u8>,
}

impl Store {
    pub fn clear(&mut self) {
        self.rows = 0;
        self.datums.clear();
        self.bytes.clear();
    }
    /// Forgets the rows and gives their memory back.
    pub fn release(&mut self) {
        *self = Store { width: self.width, ..Store::default() }
    }
    #[inline]
    pub fn row(&self, n: usize) -> &[Datum] {
        self.datums.get(n * self.width..(n + 1) * self.width).unwrap_or(&[])
    }
    /// The row's number.
    #[inline]
    pub fn push(&mut self, row: &[Datum], memory: &[u8], allow: &mut Allowance) -> SqlResult<usize> {
        let bytes: usize = row.iter().map(|d| d.memory_bytes()).sum();
        allow.take(size_of_val(row) + bytes + 8)?;
        for d in row {
            let d = d.moved(memory, &mut self.bytes);
            self.datums.push(d);
        }
        self.rows += 1;
        Ok(self.rows - 1)
    }
    /// Copies a column's value out, its bytes to `memory`.
    #[inline]
    pub fn get(&self, row: usize, column: usize, memory: &mut Vec<u8>) -> Datum {
        match self.row(row).get(column) {
            Some(d) => d.moved(&self.bytes, memory),
            None => Datum::NULL,
        }
    }
}

/// A list of rows with a reading place.
#[derive(Default, Debug)]
pub struct List {
    pub store: Store,
    /// One past the current row.
    next: usize,
}

impl List {
    pub fn clear(&mut self) {
        self.store.clear();
        self.next = 0;
    }
    pub fn rewind(&mut self) {
        self.next = 0;
    }
    #[inline]
    pub fn step(&mut self) -> bool {
        let more = self.next < self.store.rows;
        self.next += 1;
        more
    }
    /// Goes to a row by its number; `false`: there are no so many.
    pub fn go_to(&mut self, row: usize) -> bool {
        self.next = row.wrapping_add(1);
        row < self.store.rows
    }
    #[inline]
    pub fn get(&self, column: usize, memory: &mut Vec<u8>) -> Datum {
        self.store.get(self.next.wrapping_sub(1), column, memory)
    }
}

const NONE: u32 = u32::MAX;

/// A chained hash table over stored rows; the first `keys` columns are the key. NULLs count as equal here:
/// joins leave rows with NULL keys out before they get here.
#[derive(Default, Debug)]
pub struct HashTable {
    pub store: Store,
    pub keys: usize,
    heads: Vec<u32>,
    /// For each row: (hash, next of its chain).
    links: Vec<(u64, u32)>,
    counts: Vec<i64>,
    current: u32,
    next: usize,
}

impl HashTable {
    pub fn clear(&mut self) {
        self.store.clear();
        self.heads.fill(NONE);
        self.links.clear();
        self.counts.clear();
        self.current = NONE;
        self.next = 0;
    }
    pub fn release(&mut self) {
        self.store.release();
        *self = HashTable { store: std::mem::take(&mut self.store), keys: self.keys, ..HashTable::default() };
        self.clear()
    }
    /// The table as it is; it begins anew.
    pub fn take(&mut self) -> HashTable {
        let mut new = HashTable { keys: self.keys, ..HashTable::default() };
        new.store.width = self.store.width;
        new.clear();
        std::mem::replace(self, new)
    }
    #[inline]
    fn hash(key: &[Datum], memory: &[u8]) -> u64 {
        let mut h = Mix(0x0123_4567_89ab_cdef);
        for d in key {
            hash(*d, memory, &mut h);
        }
        h.0
    }
    #[inline]
    fn same(&self, row: u32, h: u64, key: &[Datum], memory: &[u8]) -> bool {
        self.links[row as usize].0 == h
            && self
                .store
                .row(row as usize)
                .iter()
                .zip(key)
                .all(|(a, b)| compare(*a, &self.store.bytes, *b, memory) == Ordering::Equal)
    }
    #[inline]
    fn chain(&self, h: u64) -> u32 {
        if self.heads.is_empty() { NONE } else { self.heads[h as usize & (self.heads.len() - 1)] }
    }
    fn grow(&mut self) {
        let n = (self.heads.len() * 2).max(16);
        self.heads.clear();
        self.heads.resize(n, NONE);
        // From the back, so that a chain meets its rows in the order they came.
        for row in (0..self.links.len()).rev() {
            let slot = self.links[row].0 as usize & (n - 1);
            self.links[row].1 = self.heads[slot];
            self.heads[slot] = row as u32;
        }
    }
    fn insert(&mut self, h: u64, row: &[Datum], memory: &[u8], allow: &mut Allowance) -> SqlResult<()> {
        if self.links.len() >= self.heads.len() {
            self.grow();
        }
        let n = self.store.push(row, memory, allow)?;
        if n >= NONE as usize {
            return Err(super::datum::too_large(allow.limit));
        }
        allow.take(32)?;
        let slot = h as usize & (self.heads.len() - 1);
        self.links.push((h, self.heads[slot]));
        self.counts.push(0);
        self.heads[slot] = n as u32;
        self.current = n as u32;
        Ok(())
    }
    #[inline]
    pub fn put(&mut self, row: &[Datum], memory: &[u8], allow: &mut Allowance) -> SqlResult<()> {
        let h = Self::hash(&row[..self.keys.min(row.len())], memory);
        self.insert(h, row, memory, allow)
    }
    /// True if the key was new; otherwise its row is the current one.
    #[inline]
    pub fn put_new(&mut self, row: &[Datum], memory: &[u8], allow: &mut Allowance) -> SqlResult<bool> {
        let key = &row[..self.keys.min(row.len())];
        let h = Self::hash(key, memory);
        let mut at = self.chain(h);
        while at != NONE {
            if self.same(at, h, key, memory) {
                self.current = at;
                return Ok(false);
            }
            at = self.links[at as usize].1;
        }
        self.insert(h, row, memory, allow)?;
        Ok(true)
    }
    #[inline]
    pub fn find(&mut self, key: &[Datum], memory: &[u8]) -> bool {
        let h = Self::hash(key, memory);
        let mut at = self.chain(h);
        while at != NONE && !self.same(at, h, key, memory) {
            at = self.links[at as usize].1;
        }
        self.current = at;
        at != NONE
    }
    /// The next row with the current row's key.
    #[inline]
    pub fn find_next(&mut self) -> bool {
        let Some((h, mut at)) = self.links.get(self.current as usize).copied() else {
            return false;
        };
        while at != NONE {
            let (a, b) = (self.store.row(self.current as usize), self.store.row(at as usize));
            let bytes = &self.store.bytes;
            if self.links[at as usize].0 == h
                && a.iter()
                    .zip(b)
                    .take(self.keys)
                    .all(|(a, b)| compare(*a, bytes, *b, bytes) == Ordering::Equal)
            {
                break;
            }
            at = self.links[at as usize].1;
        }
        self.current = at;
        at != NONE
    }
    #[inline]
    pub fn get(&self, column: usize, memory: &mut Vec<u8>) -> Datum {
        self.store.get(self.current as usize, column, memory)
    }
    pub fn add(&mut self, by: i64) {
        if let Some(c) = self.counts.get_mut(self.current as usize) {
            *c += by
        }
    }
    pub fn count(&self) -> i64 {
        self.counts.get(self.current as usize).copied().unwrap_or(0)
    }
    pub fn current(&self) -> usize {
        self.current as usize
    }
    pub fn rewind(&mut self) {
        self.next = 0;
    }
    #[inline]
    pub fn step(&mut self) -> bool {
        let more = self.next < self.store.rows;
        self.current = if more { self.next as u32 } else { NONE };
        self.next += 1;
        more
    }
}

/// Rows to be sorted. With a limit, rows that can no longer be among the first are dropped as they come, so
/// that never more than twice the limit is kept.
#[derive(Default, Debug)]
pub struct Sorter {
    pub store: Store,
    spare: Store,
    pub keys: Vec<SortKey>,
    limit: Option<usize>,
    order: Vec<u32>,
    /// With a limit and after a cut: the row that is last of those kept.
    worst: Option<u32>,
    next: usize,
}

fn order_rows(keys: &[SortKey], a: &[Datum], am: &[u8], b: &[Datum], bm: &[u8]) -> Ordering {
    for k in keys {
        let (Some(x), Some(y)) = (a.get(k.column as usize), b.get(k.column as usize)) else { continue };
        let o = match (x.is_null(), y.is_null()) {
            (true, true) => continue,
            (true, false) => {
                if k.nulls_first {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            (false, true) => {
                if k.nulls_first {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
            (false, false) => {
                let o = compare(*x, am, *y, bm);
                if k.desc { o.reverse() } else { o }
            }
        };
        if o != Ordering::Equal {
            return o;
        }
    }
    Ordering::Equal
}

/// A statement's wish to be broken off.
type Wish<'a> = Option<&'a ondol_base::cancel::Cancel>;

/// So many rows are sorted in one go.
const RUN: usize = 1 << 14;

/// Sorts by `order`, runs first and then by merging them, bottom up; asks `go_on` once in [`RUN`] numbers,
/// whose error leaves the numbers in any order.
fn sort(
    numbers: &mut Vec<u32>,
    order: impl Fn(u32, u32) -> Ordering,
    go_on: impl Fn() -> SqlResult<()>,
) -> SqlResult<()> {
    for run in numbers.chunks_mut(RUN) {
        go_on()?;
        run.sort_unstable_by(|a, b| order(*a, *b));
    }
    let mut merged = Vec::new();
    let mut width = RUN;
    while width < numbers.len() {
        merged.reserve_exact(numbers.len());
        for pair in numbers.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while let ([l, after_l @ ..], [r, after_r @ ..]) = (left, right) {
                if merged.len() % RUN == 0 {
                    go_on()?;
                }
                if order(*r, *l) == Ordering::Less {
                    merged.push(*r);
                    right = after_r;
                } else {
                    merged.push(*l);
                    left = after_l;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(numbers, &mut merged);
        merged.clear();
        width *= 2;
    }
    Ok(())
}

/// Below this many rows a limit does not pay for cutting.
const SMALLEST_CUT: usize = 64;

impl Sorter {
    pub fn clear(&mut self) {
        self.store.clear();
        self.order.clear();
        self.limit = None;
        self.worst = None;
        self.next = 0;
    }
    pub fn release(&mut self) {
        self.store.release();
        *self = Sorter {
            store: std::mem::take(&mut self.store),
            keys: std::mem::take(&mut self.keys),
            ..Sorter::default()
        }
    }
    pub fn limit(&mut self, rows: Option<usize>) {
        self.limit = rows;
    }
    pub fn put(
        &mut self,
        row: &[Datum],
        memory: &[u8],
        allow: &mut Allowance,
        cancel: Wish<'_>,
    ) -> SqlResult<()> {
        if let Some(limit) = self.limit {
            if limit == 0 {
                return Ok(());
            }
            if let Some(w) = self.worst
                && order_rows(&self.keys, row, memory, self.store.row(w as usize), &self.store.bytes)
                    != Ordering::Less
            {
                return Ok(());
            }
            if self.store.rows >= limit.saturating_mul(2).max(SMALLEST_CUT) {
                self.cut(limit, allow, cancel)?;
            }
        }
        self.store.push(row, memory, allow).map(|_| ())
    }
    /// Keeps the first `limit` rows.
    fn cut(&mut self, limit: usize, allow: &mut Allowance, cancel: Wish<'_>) -> SqlResult<()> {
        let before = allow.used;
        self.arrange(cancel)?;
        self.spare.clear();
        self.spare.width = self.store.width;
        for n in self.order.iter().take(limit) {
            self.spare.push(self.store.row(*n as usize), &self.store.bytes, allow)?;
        }
        allow.used = before;
        std::mem::swap(&mut self.store, &mut self.spare);
        self.worst = (self.store.rows as u32).checked_sub(1);
        Ok(())
    }
    fn arrange(&mut self, cancel: Wish<'_>) -> SqlResult<()> {
        let (store, keys) = (&self.store, &self.keys);
        let less = |a: u32, b: u32| {
            let (x, y) = (store.row(a as usize), store.row(b as usize));
            order_rows(keys, x, &store.bytes, y, &store.bytes).then(a.cmp(&b))
        };
        self.order.clear();
        self.order.extend(0..store.rows as u32);
        sort(&mut self.order, less, || {
            take_turns();
            match cancel {
                Some(c) if c.is_told() => Err(canceled()),
                _ => Ok(()),
            }
        })
    }
    pub fn run(&mut self, cancel: Wish<'_>) -> SqlResult<()> {
        self.arrange(cancel)?;
        if let Some(l) = self.limit {
            self.order.truncate(l)
        }
        self.next = 0;
        Ok(())
    }
    #[inline]
    pub fn step(&mut self) -> bool {
        self.next += 1;
        self.next <= self.order.len()
    }
    #[inline]
    pub fn get(&self, column: usize, memory: &mut Vec<u8>) -> Datum {
        match self.order.get(self.next.wrapping_sub(1)) {
            Some(n) => self.store.get(*n as usize, column, memory),
            None => Datum::NULL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allow() -> Allowance {
        let mut allow = Allowance::default();
        allow.start(usize::MAX);
        allow
    }

    #[test]
    fn a_limited_sorter_gives_the_first_rows() {
        let mut numbers: Vec<i64> = (0..10_000).map(|i| (i * 7919) % 10_007).collect();
        for desc in [false, true] {
            let mut s =
                Sorter { keys: vec![SortKey { column: 0, desc, nulls_first: false }], ..Sorter::default() };
            s.store.width = 1;
            s.limit(Some(37));
            for n in &numbers {
                s.put(&[Datum::int(*n)], &[], &mut allow(), None).unwrap();
            }
            assert!(s.store.rows <= 75);
            s.run(None).unwrap();
            let mut got = Vec::new();
            while s.step() {
                got.push(s.get(0, &mut Vec::new()).as_int());
            }
            numbers.sort_unstable();
            if desc {
                numbers.reverse()
            }
            assert_eq!(got, numbers[..37]);
        }
    }

    #[test]
    fn sorting_merges_runs_and_can_be_broken_off() {
        use std::cell::Cell;
        for n in [0, 1, RUN - 1, RUN, RUN + 1, 2 * RUN, 5 * RUN + 77] {
            let key = |x: u32| x.wrapping_mul(0x9e37_79b9) >> 20;
            let order = |a: u32, b: u32| key(a).cmp(&key(b)).then(a.cmp(&b));
            let mut numbers: Vec<u32> = (0..n as u32).collect();
            let mut expected = numbers.clone();
            expected.sort_by_key(|x| key(*x));
            let asked = Cell::new(0);
            sort(&mut numbers, order, || {
                asked.set(asked.get() + 1);
                Ok(())
            })
            .unwrap();
            assert_eq!(numbers, expected);
            for turn in 0..asked.get() {
                let left = Cell::new(turn);
                let done = sort(&mut (0..n as u32).collect(), order, || match left.get() {
                    0 => Err(canceled()),
                    more => {
                        left.set(more - 1);
                        Ok(())
                    }
                });
                assert_eq!(done.unwrap_err().to_string(), canceled().to_string());
            }
        }
    }

    #[test]
    fn chains_find_every_row_of_a_key() {
        let mut h = HashTable { keys: 1, ..HashTable::default() };
        h.store.width = 2;
        h.clear();
        let memory = b"redgreen".to_vec();
        for n in 0..1000i64 {
            let key = if n % 3 == 0 {
                Datum::string(super::super::datum::Tag::Text, 0, 3)
            } else {
                Datum::int(n % 10)
            };
            h.put(&[key, Datum::int(n)], &memory, &mut allow()).unwrap();
        }
        let mut found = Vec::new();
        let mut more = h.find(&[Datum::string(super::super::datum::Tag::Text, 0, 3)], &memory);
        while more {
            found.push(h.get(1, &mut Vec::new()).as_int());
            more = h.find_next();
        }
        found.sort_unstable();
        assert_eq!(found, (0..1000).filter(|n| n % 3 == 0).collect::<Vec<i64>>());
        assert!(!h.find(&[Datum::int(77)], &memory));
        assert!(h.put_new(&[Datum::int(77), Datum::NULL], &memory, &mut allow()).unwrap());
        assert!(!h.put_new(&[Datum::int(77), Datum::NULL], &memory, &mut allow()).unwrap());
    }
}
