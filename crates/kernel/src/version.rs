//! Version nodes: the differences that lead from newer bytes to older ones, newest first.
//!
//! ```text
//! slot word 1 -> node (c = 9) -> node (c = 7) -> ...        committed
//! slot word 1 -> node (pending) -> node (c = 9) -> ...      owned
//! slot word 1 -> mark                                       fresh: inserted, uncommitted
//! ```
//! A link has the pointer in its low 48 bits and flags above. Nodes are freed through epochs.
use crate::transaction::Mark;
use ondol_base::sync::spin_wait;
use std::alloc::{Layout, alloc, dealloc};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bits of a link.
pub const POINTER: u64 = (1 << 48) - 1;
/// In slot word 1: somebody may share a lock on the row's keys (see `sharers`).
pub const KEY_SHARED: u64 = 1 << 58;
/// In slot word 1: somebody queues for the row's lock (see `wait`).
pub const QUEUED: u64 = 1 << 59;
/// The link leads to a [`Mark`], not to a node.
pub const MARK: u64 = 1 << 60;
/// In slot word 1: somebody may share a lock on the whole row (see `sharers`).
pub const SHARED: u64 = 1 << 61;
/// In slot word 1: a collector will come back to this slot.
pub const HELD: u64 = 1 << 62;
/// In slot word 1: the chain is latched by a collector.
pub const LATCHED: u64 = 1 << 63;

/// Header of a node; differences follow as (word index u32, word count u32), words..., up to `used` words.
#[repr(C)]
pub struct Version {
    pub next: AtomicU64,
    /// The commit; or, while pending, [`PENDING`] with the number of its entry in the transaction's write
    /// set.
    pub ts: AtomicU64,
    /// Timestamp of the version before; 0: the row did not exist.
    pub prev: u64,
    /// Valid while pending.
    pub mark: *const Mark,
    /// Words of data allocated.
    capacity: u32,
    /// Words of data in use; 0 until the node is filled, once.
    used: AtomicU32,
}

/// In a node's timestamp: its transaction has not committed. Later than any commit.
pub const PENDING: u64 = 1 << 63;

/// Data words of a lock node, which most updates fit in: the node is 64 bytes.
pub const SMALL: usize = 3;

/// The difference of a row that was set to the bytes that it had: one word, by zero.
pub const UNCHANGED: [u64; 2] = [1 << 32, 0];

impl Version {
    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(size_of::<Version>() + capacity * 8, 16).expect("a node's size is bounded")
    }
    /// Bytes that a node of so many data words takes.
    pub fn bytes(capacity: usize) -> usize {
        size_of::<Version>() + capacity * 8
    }
    /// A pending node. `None` when the allocator refuses.
    pub fn new(capacity: usize, prev: u64, next: u64, mark: *const Mark) -> Option<*mut Version> {
        let capacity = capacity.max(SMALL);
        // SAFETY: the layout has a non-zero size; every header field is written before use.
        unsafe {
            let p = match if capacity == SMALL { Spare::take() } else { None } {
                Some(p) => p,
                None => alloc(Self::layout(capacity)).cast::<Version>(),
            };
            if p.is_null() {
                return None;
            }
            p.write(Version {
                next: AtomicU64::new(next),
                ts: AtomicU64::new(PENDING),
                prev,
                mark,
                capacity: capacity as u32,
                used: AtomicU32::new(0),
            });
            Some(p)
        }
    }
    /// Frees a node.
    ///
    /// # Safety
    /// `p` came from `new`, is unreachable, and no reader can still hold it (epoch/E2).
    pub unsafe fn free(p: *mut Version) {
        // SAFETY: by the contract above.
        let capacity = unsafe { (*p).capacity as usize };
        if capacity != SMALL || !Spare::put(p) {
            // SAFETY: by the contract above; nobody kept it.
            unsafe { dealloc(p.cast(), Self::layout(capacity)) }
        }
    }
    /// [`Version::free`] for epochs.
    ///
    /// # Safety
    /// As there; `at` is the node's address.
    pub unsafe fn free_at(at: usize) {
        // SAFETY: by the contract above.
        unsafe { Version::free(at as *mut Version) }
    }
    pub fn size(&self) -> usize {
        Self::bytes(self.capacity as usize)
    }
    pub fn is_pending(&self) -> bool {
        self.ts.load(Ordering::Acquire) & PENDING != 0
    }
    /// The entry of its transaction's write set, while it is pending.
    pub(crate) fn entry(&self) -> usize {
        (self.ts.load(Ordering::Relaxed) & !PENDING) as usize
    }
    pub(crate) fn set_entry(&self, entry: usize) {
        self.ts.store(PENDING | entry as u64, Ordering::Relaxed)
    }
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }
    pub fn is_empty(&self) -> bool {
        self.used.load(Ordering::Acquire) == 0
    }
    fn data(&self) -> *const u64 {
        // SAFETY: the data words lie right behind the header, in the same allocation.
        unsafe { (self as *const Version).add(1).cast::<u64>() }
    }
    /// The words in use: none, or all, of a node that is filled once and never changed after.
    pub fn words(&self) -> &[u64] {
        // SAFETY: `used` words were written before `used` was stored (Release), and are not changed after.
        unsafe { std::slice::from_raw_parts(self.data(), self.used.load(Ordering::Acquire) as usize) }
    }
    /// Sets the difference of an empty pending node of ours, once.
    ///
    /// # Safety
    /// The caller owns the slot (kernel/K2), so nobody else fills the node.
    pub unsafe fn fill(p: *mut Version, pieces: &[u64]) {
        // SAFETY: by the contract above, and the length is checked.
        unsafe {
            assert!(
                (*p).is_empty() && pieces.len() <= (*p).capacity as usize,
                "a difference longer than its node"
            );
            std::ptr::copy_nonoverlapping(pieces.as_ptr(), p.add(1).cast::<u64>(), pieces.len());
            (*p).used.store(pieces.len() as u32, Ordering::Release);
        }
    }
    /// (first word, words) pieces.
    pub fn pieces(&self) -> Pieces<'_> {
        Pieces { rest: self.words() }
    }
    /// XORs what of the difference falls into row bytes [offset, offset + out.len()); both multiples of 8.
    pub fn apply(&self, offset: usize, out: &mut [u8]) {
        for (at, words) in self.pieces() {
            for (i, w) in words.iter().enumerate() {
                let byte = (at + i) * 8;
                if byte >= offset && byte + 8 <= offset + out.len() {
                    let o = &mut out[byte - offset..byte - offset + 8];
                    let v = u64::from_le_bytes(o.try_into().expect("eight bytes")) ^ w;
                    o.copy_from_slice(&v.to_le_bytes())
                }
            }
        }
    }
}

/// Memory of freed nodes of the smallest size, for the thread's next ones: they come and go by the hundreds,
/// which is more than allocators keep at hand.
struct Spare(Vec<*mut Version>);

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Spare(Vec::new())) };
}

impl Spare {
    /// 64 KiB for a thread.
    const MOST: usize = 1024;

    fn take() -> Option<*mut Version> {
        // A thread that ends has none any more.
        SPARE.try_with(|s| s.borrow_mut().0.pop()).ok().flatten()
    }
    /// False when there is enough.
    fn put(p: *mut Version) -> bool {
        SPARE
            .try_with(|s| {
                let s = &mut s.borrow_mut().0;
                let kept = s.len() < Spare::MOST;
                if kept {
                    s.push(p)
                }
                kept
            })
            .unwrap_or(false)
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        for p in self.0.drain(..) {
            // SAFETY: freed nodes of this size came from the allocator, and are kept here once.
            unsafe { dealloc(p.cast(), Version::layout(SMALL)) }
        }
    }
}

pub struct Pieces<'a> {
    rest: &'a [u64],
}
impl<'a> Iterator for Pieces<'a> {
    /// (index of the first word in the row, the words)
    type Item = (usize, &'a [u64]);
    fn next(&mut self) -> Option<Self::Item> {
        let (&head, rest) = self.rest.split_first()?;
        let (words, rest) = rest.split_at((head >> 32) as usize);
        self.rest = rest;
        Some((head as u32 as usize, words))
    }
}

/// Appends the pieces of `before XOR after` (equal lengths, multiples of 8) to `out`. Single equal words
/// between two changed ones are kept, since a piece's header would cost as much.
pub fn difference(before: &[u8], after: &[u8], out: &mut Vec<u64>) {
    debug_assert_eq!(before.len(), after.len());
    let (a, b) = (before.as_chunks::<8>().0, after.as_chunks::<8>().0);
    let word = |s: &[[u8; 8]], i: usize| u64::from_le_bytes(s[i]);
    let n = a.len().min(b.len());
    let mut i = 0;
    while i < n {
        if a[i] == b[i] {
            i += 1;
            continue;
        }
        let head = out.len();
        out.push(0);
        let mut end = i;
        let mut j = i;
        while j < n && j <= end + 1 {
            if a[j] != b[j] {
                end = j
            }
            j += 1;
        }
        for k in i..=end {
            out.push(word(a, k) ^ word(b, k))
        }
        out[head] = i as u64 | ((end - i + 1) as u64) << 32;
        i = end + 1;
    }
}

/// XORs differences into one.
pub fn fold(nodes: &[&Version]) -> Vec<u64> {
    let Some((first, others)) = nodes.split_first() else { return Vec::new() };
    let head = first.words().first();
    let is_alike = |v: &&Version| v.words().first() == head && v.words().len() == first.words().len();
    if let Some((at, piece)) = first.pieces().next()
        && piece.len() + 1 == first.words().len()
        && others.iter().all(is_alike)
    {
        // The same columns again and again, side by side, as by most who change a row often.
        let word = |i: usize| nodes.iter().fold(0, |x, v| x ^ v.words()[1 + i]);
        return pieces_of((0..piece.len()).map(|i| (at + i, word(i))));
    }
    let mut words = Vec::with_capacity(nodes.iter().map(|v| v.words().len()).sum());
    for (at, piece) in nodes.iter().flat_map(|v| v.pieces()) {
        words.extend(piece.iter().enumerate().map(|(i, x)| (at + i, *x)))
    }
    words.sort_unstable_by_key(|w| w.0);
    pieces_of(words.chunk_by(|v, w| v.0 == w.0).map(|same| (same[0].0, same.iter().fold(0, |x, w| x ^ w.1))))
}

/// A difference of words that are given in their order, each once; those that change nothing are left out.
fn pieces_of(words: impl Iterator<Item = (usize, u64)>) -> Vec<u64> {
    let mut out = Vec::with_capacity(words.size_hint().0 + 2);
    let (mut head, mut next) = (0, usize::MAX);
    for (at, x) in words.filter(|w| w.1 != 0) {
        if at != next {
            head = out.len();
            out.push(at as u64)
        }
        out[head] += 1 << 32;
        out.push(x);
        next = at + 1
    }
    out
}

/// A node by its link; `None` at the end of the chain or at a mark.
///
/// # Safety
/// The link was read while pinned (epoch/E1), from a slot or a node that was reachable then.
#[inline]
pub unsafe fn node<'a>(link: u64) -> Option<&'a Version> {
    let p = (link & POINTER) as *const Version;
    if p.is_null() || link & MARK != 0 {
        None
    } else {
        // SAFETY: by the contract above, epochs keep the node.
        Some(unsafe { &*p })
    }
}

/// Latches the chain of a slot: until [`unlatch`], only the caller changes its links. Gives slot word 1 as it
/// was.
pub fn latch(word1: &AtomicU64) -> u64 {
    let mut turn = 0;
    loop {
        let l = word1.load(Ordering::Acquire);
        if l & LATCHED == 0
            && word1.compare_exchange(l, l | LATCHED, Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return l;
        }
        spin_wait(turn);
        turn += 1;
    }
}

/// Sets the head of a latched chain and gives the latch back. Other flags may have been set meanwhile, and
/// stay.
pub fn unlatch(word1: &AtomicU64, head: u64) {
    let mut turn = 0;
    loop {
        let l = word1.load(Ordering::Acquire);
        let new = l & !(POINTER | MARK | LATCHED) | head & (POINTER | MARK);
        if word1.compare_exchange(l, new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return;
        }
        spin_wait(turn);
        turn += 1;
    }
}

/// Sets the head of a chain at once, flags kept, when no collector has it latched. For slots whose chain only
/// the caller may change, but which an item left in some queue by the slot's former row may still lead a
/// collector to.
pub fn set_head(word1: &AtomicU64, head: u64) {
    let mut turn = 0;
    loop {
        let l = word1.load(Ordering::Acquire);
        if l & LATCHED == 0 {
            let new = l & !(POINTER | MARK) | head & (POINTER | MARK);
            if word1.compare_exchange(l, new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return;
            }
        }
        spin_wait(turn);
        turn += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_leads_back_and_folds() {
        let a: Vec<u8> = (0..64).collect();
        let mut b = a.clone();
        b[3] ^= 9;
        b[17] ^= 1;
        b[63] ^= 255;
        let mut c = b.clone();
        c[3] ^= 9;
        c[40] = 0;
        let make = |x: &[u8], y: &[u8]| {
            let mut d = vec![];
            difference(x, y, &mut d);
            let p = Version::new(d.len(), 1, 0, std::ptr::null()).unwrap();
            // SAFETY: the node is ours alone.
            unsafe {
                Version::fill(p, &d);
                &mut *p
            }
        };
        let (ab, bc) = (make(&a, &b), make(&b, &c));
        let mut back = c.clone();
        bc.apply(0, &mut back);
        assert_eq!(back, b);
        ab.apply(0, &mut back);
        assert_eq!(back, a);
        let f = fold(&[ab, bc]);
        let p = Version::new(f.len(), 1, 0, std::ptr::null()).unwrap();
        // SAFETY: ours alone.
        unsafe { Version::fill(p, &f) };
        let mut once = c[16..48].to_vec();
        // SAFETY: ours alone.
        unsafe { (*p).apply(16, &mut once) };
        assert_eq!(once, a[16..48]);
        for p in [ab as *mut _, bc as *mut _, p] {
            // SAFETY: ours alone, freed once.
            unsafe { Version::free(p) }
        }
    }
}
