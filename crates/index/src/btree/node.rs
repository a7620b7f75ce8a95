//! A node: a block of words, all accessed as relaxed atomics under the rules index/I1 and index/I2.
//!
//! ```text
//! word 0  version            columns, each as long as the node's capacity:
//! word 1  count | level<<16    key words (most significant first) | tails (variable keys) | OIDs
//! word 2  next leaf            and in an inner node one more: children, one more than separators
//! word 3  slab line
//! ```
//! Child i of an inner node holds the entries from separator i - 1 (inclusive) to separator i (exclusive).
//! Separators are entries themselves, so they part equal keys by OID.
//!
//! - **N1** A line that was a leaf is only ever a leaf again, an inner node only ever an inner node. So the
//!   word `next` of a leaf and the child words of an inner node are, whatever a reader meets, zero or the
//!   address of a node: its version may be read before the version of the node it was found in is checked.
//! - **N2** The count of a node is at most its capacity at any time.
use super::key::{Blob, Position, Probe, SHORT, WORDS};
use crate::Seen;
use crate::latch::{self, Changed, Checked, Versioned};
use std::cmp::Ordering;
use std::hint::select_unpredictable;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) const HEADER: usize = 4;
/// A probe's OID that is above every OID.
pub(crate) const LAST: u64 = u64::MAX;

/// Where the columns of a kind of node are.
#[derive(Clone, Copy)]
pub(crate) struct Columns {
    pub(crate) capacity: usize,
    pub(crate) oids: usize,
    pub(crate) children: usize,
}

/// The form of all nodes of a tree.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// Key words.
    pub(crate) words: usize,
    pub(crate) variable: bool,
    /// Key words, and the tail if there is one.
    pub(crate) columns: usize,
    /// log2 of a node's bytes.
    pub(crate) shift: u32,
    pub(crate) leaf: Columns,
    pub(crate) inner: Columns,
}

impl Form {
    pub(crate) fn new(words: usize, variable: bool) -> Form {
        let columns = words + variable as usize;
        let shift = if columns == 1 { 10 } else { 11 };
        let room = (1usize << shift) / 8 - HEADER;
        let of = |capacity: usize| Columns {
            capacity,
            oids: HEADER + columns * capacity,
            children: HEADER + (columns + 1) * capacity,
        };
        Form {
            words,
            variable,
            columns,
            shift,
            leaf: of(room / (columns + 1)),
            inner: of((room - 1) / (columns + 2)),
        }
    }
    #[inline(always)]
    pub(crate) fn of(&self, level: u32) -> &Columns {
        if level == 0 { &self.leaf } else { &self.inner }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Node(pub(crate) *const AtomicU64);
// SAFETY: a node is plain memory of its tree, accessed through atomics; a holder of a node keeps its tree.
unsafe impl Send for Node {}
// SAFETY: as above.
unsafe impl Sync for Node {}

impl Versioned for Node {
    #[inline(always)]
    fn version(&self) -> &AtomicU64 {
        self.word(0)
    }
}

impl Node {
    pub(crate) const NONE: Node = Node(std::ptr::null());

    #[inline(always)]
    fn word(&self, i: usize) -> &AtomicU64 {
        // SAFETY: callers keep `i` within the node by the form and N2; nodes live as long as their tree
        // (index/I3).
        unsafe { &*self.0.add(i) }
    }
    #[inline(always)]
    pub(crate) fn get(&self, i: usize) -> u64 {
        self.word(i).load(Relaxed)
    }
    #[inline(always)]
    pub(crate) fn set(&self, i: usize, value: u64) {
        self.word(i).store(value, Relaxed)
    }
    #[inline(always)]
    pub(crate) fn seen(&self, version: u64) -> Seen {
        Seen { node: self.0, version }
    }
    #[inline(always)]
    pub(crate) fn check(&self, version: u64) -> Checked<()> {
        if latch::check(self.version(), version) { Ok(()) } else { Err(Changed) }
    }
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.get(1) as usize & 0xffff
    }
    #[inline(always)]
    pub(crate) fn level(&self) -> u32 {
        (self.get(1) >> 16) as u32
    }
    #[inline(always)]
    pub(crate) fn set_meta(&self, count: usize, level: u32) {
        self.set(1, count as u64 | (level as u64) << 16)
    }
    #[inline(always)]
    pub(crate) fn from_word(word: u64) -> Node {
        Node(std::ptr::with_exposed_provenance(word as usize))
    }
    #[inline(always)]
    pub(crate) fn to_word(self) -> u64 {
        self.0.expose_provenance() as u64
    }
    pub(crate) fn is_none(self) -> bool {
        self.0.is_null()
    }
    #[inline(always)]
    pub(crate) fn next(&self) -> Node {
        Node::from_word(self.get(2))
    }
    #[inline(always)]
    pub(crate) fn child(&self, form: &Form, i: usize) -> Node {
        Node::from_word(self.get(form.inner.children + i))
    }
    #[inline(always)]
    pub(crate) fn prefetch(&self, columns: &Columns) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: hints; they fault on no address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let p = self.0.cast::<i8>();
            _mm_prefetch(p, _MM_HINT_T0);
            // All of the first column: which of its lines a search needs is known only one after the other.
            for line in 1..(HEADER + columns.capacity).div_ceil(8) {
                _mm_prefetch(p.wrapping_add(64 * line), _MM_HINT_T0);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = columns;
    }

    /// The number of entries (separators) below the probe. `version` is what the version word must be while
    /// blobs are looked at.
    #[inline(always)]
    pub(crate) fn lower_bound(
        &self,
        form: &Form,
        columns: &Columns,
        count: usize,
        p: &Probe<'_>,
        version: u64,
    ) -> Checked<usize> {
        let first = self.first_word_bound(count, p.words[0]);
        if first == count || self.get(HEADER + first) != p.words[0] {
            return Ok(first);
        }
        if form.columns == 1 && p.oid == 0 {
            return Ok(first);
        }
        let (mut low, mut high) = (first, count);
        if form.words == 2 {
            // Keys of several columns share their first word with many neighbours.
            low = self.second_word_bound(columns, first, count, p);
            let is_tie = |i| {
                self.get(HEADER + i) == p.words[0] && self.get(HEADER + columns.capacity + i) == p.words[1]
            };
            if low == count || !is_tie(low) || !form.variable && p.oid == 0 {
                return Ok(low);
            }
            // Mostly there is but one.
            if low + 1 < count && !is_tie(low + 1) {
                high = low + 1
            }
        } else if first + 1 < count && self.get(HEADER + first + 1) != p.words[0] {
            high = first + 1;
        }
        self.among_ties(form, columns, low, high, p, version)
    }

    /// Of the entries `first..count`, whose first word is not below the probe's: the first whose first two
    /// words are not.
    #[inline(always)]
    fn second_word_bound(&self, columns: &Columns, first: usize, count: usize, p: &Probe<'_>) -> usize {
        let below = |i: usize| {
            (self.get(HEADER + i) == p.words[0]) & (self.get(HEADER + columns.capacity + i) < p.words[1])
        };
        let (mut at, mut len) = (first, count - first);
        while len > 1 {
            let half = len / 2;
            at = select_unpredictable(below(at + half - 1), at + half, at);
            len -= half;
        }
        at + (len == 1 && below(at)) as usize
    }

    /// The number of entries whose first word is below `word`.
    #[inline(always)]
    fn first_word_bound(&self, count: usize, word: u64) -> usize {
        let mut at = HEADER;
        let mut len = count;
        while len > 1 {
            let half = len / 2;
            // Where the key lies cannot be predicted, so that a branch would often be mistaken.
            at = select_unpredictable(self.get(at + half - 1) < word, at + half, at);
            len -= half;
        }
        at - HEADER + (len == 1 && self.get(at) < word) as usize
    }

    #[inline(never)]
    fn among_ties(
        &self,
        form: &Form,
        columns: &Columns,
        mut low: usize,
        mut high: usize,
        p: &Probe<'_>,
        version: u64,
    ) -> Checked<usize> {
        while low < high {
            let middle = (low + high) / 2;
            match self.compare(form, columns, middle, p, version)? {
                Ordering::Less => low = middle + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// Compares entry `i` with the probe.
    #[inline]
    pub(crate) fn compare(
        &self,
        form: &Form,
        columns: &Columns,
        i: usize,
        p: &Probe<'_>,
        version: u64,
    ) -> Checked<Ordering> {
        let key = self.compare_key(form, columns, i, p, version)?;
        Ok(key.then_with(|| self.get(columns.oids + i).cmp(&p.oid)))
    }

    #[inline]
    pub(crate) fn compare_key(
        &self,
        form: &Form,
        columns: &Columns,
        i: usize,
        p: &Probe<'_>,
        version: u64,
    ) -> Checked<Ordering> {
        for (c, w) in p.words.iter().enumerate().take(form.words) {
            let have = self.get(HEADER + c * columns.capacity + i);
            if have != *w {
                return Ok(have.cmp(w));
            }
        }
        if !form.variable {
            return Ok(Ordering::Equal);
        }
        // key/K1.
        let tail = self.get(HEADER + form.words * columns.capacity + i);
        Ok(match (tail > SHORT as u64, p.is_long()) {
            (false, _) => tail.cmp(&p.len),
            (true, false) => Ordering::Greater,
            (true, true) => {
                self.check(version)?;
                // SAFETY: key/K2: the tail was read at a version just checked, and the caller is pinned or
                // latches.
                unsafe { Blob(tail).bytes() }.cmp(p.rest)
            }
        })
    }

    /// The entry as words, tail included, and its OID; to be trusted once the version is checked.
    #[inline]
    pub(crate) fn entry(&self, form: &Form, columns: &Columns, i: usize) -> ([u64; WORDS], u64) {
        let mut w = [0; WORDS];
        for (c, w) in w.iter_mut().enumerate().take(form.columns) {
            *w = self.get(HEADER + c * columns.capacity + i)
        }
        (w, self.get(columns.oids + i))
    }

    pub(crate) fn set_entry(&self, form: &Form, columns: &Columns, i: usize, words: &[u64; WORDS], oid: u64) {
        for (c, &w) in words.iter().enumerate().take(form.columns) {
            self.set(HEADER + c * columns.capacity + i, w)
        }
        self.set(columns.oids + i, oid)
    }

    /// Moves the entries `from..to` of the columns (and not the children) by `by` places.
    #[inline]
    fn shift(&self, form: &Form, columns: &Columns, from: usize, to: usize, up: bool) {
        for c in 0..form.columns + 1 {
            self.shift_words(HEADER + c * columns.capacity, from, to, up)
        }
    }
    #[inline]
    fn shift_words(&self, base: usize, from: usize, to: usize, up: bool) {
        if up {
            for i in (from..to).rev() {
                self.set(base + i + 1, self.get(base + i))
            }
        } else {
            for i in from..to {
                self.set(base + i - 1, self.get(base + i))
            }
        }
    }

    /// Into a latched leaf with room.
    pub(crate) fn insert_entry(&self, form: &Form, at: usize, words: &[u64; WORDS], oid: u64) {
        let count = self.count();
        self.shift(form, &form.leaf, at, count, true);
        self.set_entry(form, &form.leaf, at, words, oid);
        self.set_meta(count + 1, 0);
    }
    pub(crate) fn remove_entry(&self, form: &Form, at: usize) {
        let count = self.count();
        self.shift(form, &form.leaf, at + 1, count, false);
        self.set_meta(count - 1, 0);
    }
    /// Into a latched inner node with room: a separator at `at`, and behind it its right child.
    pub(crate) fn insert_child(&self, form: &Form, at: usize, words: &[u64; WORDS], oid: u64, child: Node) {
        let count = self.count();
        self.shift(form, &form.inner, at, count, true);
        self.shift_words(form.inner.children, at + 1, count + 1, true);
        self.set_entry(form, &form.inner, at, words, oid);
        self.set(form.inner.children + at + 1, child.to_word());
        self.set_meta(count + 1, self.level());
    }
    /// Takes separator `at` and its right child out of a latched inner node.
    pub(crate) fn remove_child(&self, form: &Form, at: usize) {
        let count = self.count();
        self.shift(form, &form.inner, at + 1, count, false);
        self.shift_words(form.inner.children, at + 2, count + 1, false);
        self.set_meta(count - 1, self.level());
    }
    /// Copies entries `from..to` to the start of `other`, of the same kind.
    pub(crate) fn copy_entries(&self, form: &Form, columns: &Columns, from: usize, to: usize, other: Node) {
        for c in 0..form.columns + 1 {
            let base = HEADER + c * columns.capacity;
            for i in from..to {
                other.set(base + i - from, self.get(base + i))
            }
        }
    }

    /// Writes the entry into `out`: a fixed tree's words, or a variable one's with its bytes.
    ///
    /// # Safety
    /// The words were read from a node whose version was checked afterwards, and the caller is pinned, or the
    /// node is latched or at rest (key/K2).
    pub(crate) unsafe fn to_position(form: &Form, words: &[u64; WORDS], oid: u64, out: &mut Position) {
        out.words = *words;
        out.oid = oid;
        out.len = 0;
        out.rest.clear();
        if form.variable {
            let tail = std::mem::take(&mut out.words[form.words]);
            out.len = tail;
            if tail > SHORT as u64 {
                // SAFETY: as the caller says.
                let rest = unsafe { Blob(tail).bytes() };
                out.rest.extend_from_slice(rest);
                out.len = (SHORT + rest.len()) as u64;
            }
        }
    }
}
