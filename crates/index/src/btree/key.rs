//! Keys as words: what a node stores of a key, and what a search compares with it.
//!
//! A key becomes big-endian words, so that comparing words is comparing bytes. Of a variable key the first 16
//! bytes are words, padded with zeros, and a third word, the *tail*, holds its length, or, beyond 16 bytes,
//! the address of a [`Blob`] with the rest.
//!
//! - **K1** Where the words of two variable keys are equal: of two short ones the shorter is smaller (it is
//!   the other without some zeros at the end); a short one is smaller than a long one; of two long ones the
//!   rests decide.
//! - **K2** A blob is immutable. Its address is stored in one node at a time and is freed, through the
//!   epochs, after it was taken out of that node. So whoever is pinned and has checked the node's version
//!   after reading the address may follow it.
use crate::{Budget, OutOfMemory};
use std::alloc::Layout;
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The bytes of the keys of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyShape {
    /// Every key has exactly so many bytes.
    Fixed(usize),
    /// Keys of any length.
    Variable,
}

/// Key words of a node at most; longer fixed keys are stored as variable ones.
pub(crate) const WORDS: usize = 4;
/// Bytes of a variable key that are words.
pub(crate) const SHORT: usize = 16;

/// A place in the order of entries: a key and an OID.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'a> {
    pub(crate) words: [u64; WORDS],
    /// Length of a variable key; 0 for fixed ones.
    pub(crate) len: u64,
    /// Of a variable key, what is beyond [`SHORT`].
    pub(crate) rest: &'a [u8],
    pub(crate) oid: u64,
}

#[inline(always)]
pub(crate) fn word_at(key: &[u8], at: usize) -> u64 {
    match key.get(at..at + 8) {
        Some(w) => u64::from_be_bytes([w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7]]),
        None => {
            let part = key.get(at..).unwrap_or(&[]);
            part.iter().enumerate().fold(0, |w, (i, &b)| w | (b as u64) << (56 - 8 * i))
        }
    }
}

impl<'a> Probe<'a> {
    #[inline(always)]
    pub(crate) fn new(words: usize, variable: bool, key: &'a [u8], oid: u64) -> Probe<'a> {
        let mut w = [0; WORDS];
        w[0] = word_at(key, 0);
        for (i, w) in w.iter_mut().enumerate().take(words).skip(1) {
            *w = word_at(key, 8 * i)
        }
        let (len, rest) =
            if variable { (key.len() as u64, key.get(SHORT..).unwrap_or(&[])) } else { (0, &[][..]) };
        Probe { words: w, len, rest, oid }
    }
    pub(crate) fn is_long(&self) -> bool {
        self.len > SHORT as u64
    }
}

/// An owned [`Probe`] that can be set again and again without allocating.
#[derive(Clone, Default)]
pub(crate) struct Position {
    pub(crate) words: [u64; WORDS],
    pub(crate) len: u64,
    pub(crate) rest: Vec<u8>,
    pub(crate) oid: u64,
}
impl Position {
    #[inline]
    pub(crate) fn probe(&self) -> Probe<'_> {
        Probe { words: self.words, len: self.len, rest: &self.rest, oid: self.oid }
    }
    #[inline]
    pub(crate) fn set(&mut self, p: &Probe<'_>) {
        self.words = p.words;
        self.len = p.len;
        self.oid = p.oid;
        self.rest.clear();
        self.rest.extend_from_slice(p.rest);
    }
    pub(crate) fn cmp(&self, words: usize, other: &Probe<'_>) -> Ordering {
        self.words[..words]
            .cmp(&other.words[..words])
            .then_with(|| match (self.len > SHORT as u64, other.is_long()) {
                (true, true) => self.rest.as_slice().cmp(other.rest),
                _ => self.len.cmp(&other.len),
            })
            .then(self.oid.cmp(&other.oid))
    }
}

/// The bytes of a key beyond [`SHORT`], behind their number.
#[derive(Clone, Copy)]
pub(crate) struct Blob(pub(crate) u64);

impl Blob {
    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len.checked_add(8)?, 8).ok()
    }
    /// # Safety
    /// The blob must be alive (K2), and stay so for as long as the result is used.
    #[inline]
    pub(crate) unsafe fn bytes<'a>(self) -> &'a [u8] {
        let p = std::ptr::with_exposed_provenance::<u8>(self.0 as usize);
        // SAFETY: alive as the caller says, immutable, and laid out by `BlobHeap::alloc`.
        unsafe { std::slice::from_raw_parts(p.add(8), p.cast::<u64>().read() as usize) }
    }
}

/// Where blobs are charged. Retired blobs hold it, so that it may outlive the tree.
pub(crate) struct BlobHeap {
    pub(crate) budget: Arc<dyn Budget>,
    pub(crate) bytes: AtomicUsize,
}

/// What the heap takes for a blob, its own word included.
fn cost(len: usize) -> usize {
    (len + 8 + 8).next_multiple_of(16)
}

impl BlobHeap {
    pub(crate) fn alloc(&self, rest: &[u8]) -> Result<Blob, OutOfMemory> {
        let layout = Blob::layout(rest.len()).ok_or(OutOfMemory)?;
        if !self.budget.charge(cost(rest.len())) {
            return Err(OutOfMemory);
        }
        // SAFETY: the layout has at least 8 bytes.
        let p = unsafe { std::alloc::alloc(layout) };
        if p.is_null() {
            self.budget.release(cost(rest.len()));
            return Err(OutOfMemory);
        }
        self.bytes.fetch_add(cost(rest.len()), Relaxed);
        // SAFETY: fresh memory of 8 + len bytes.
        unsafe {
            p.cast::<u64>().write(rest.len() as u64);
            p.add(8).copy_from_nonoverlapping(rest.as_ptr(), rest.len());
        }
        Ok(Blob(p.expose_provenance() as u64))
    }
    /// # Safety
    /// Nobody can reach the blob any more, and it is freed once.
    pub(crate) unsafe fn free(&self, blob: Blob) {
        // SAFETY: alive until now.
        let len = unsafe { blob.bytes() }.len();
        let p = std::ptr::with_exposed_provenance_mut::<u8>(blob.0 as usize);
        if let Some(layout) = Blob::layout(len) {
            // SAFETY: allocated with this layout.
            unsafe { std::alloc::dealloc(p, layout) };
            self.bytes.fetch_sub(cost(len), Relaxed);
            self.budget.release(cost(len));
        }
    }
}

/// The smallest key that is above every key with this prefix; None if there is no such key.
pub fn prefix_successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|&b| b != 0xff)?;
    let mut next = prefix[..=keep].to_vec();
    next[keep] += 1;
    Some(next)
}

/// The length of the shortest prefix of `b` that is above `a`; `a` is below `b`.
pub(crate) fn parting(a: &[u8], b: &[u8]) -> usize {
    let common = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    (common + 1).min(b.len())
}
