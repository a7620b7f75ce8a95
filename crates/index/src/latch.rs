//! The version word of a node: bit 0 is the latch, the rest counts changes (OLFIT: Cha, Hwang, Kim, Kwon,
//! VLDB 2001). The order of the fences is index/I1 and index/I2.
use ondol_base::sync::{spin_wait, yield_point};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Waits until the node is not latched and gives its version.
#[inline(always)]
pub(crate) fn read(word: &AtomicU64) -> u64 {
    let v = word.load(Ordering::Acquire);
    if v & 1 == 0 { v } else { wait(word) }
}

#[cold]
fn wait(word: &AtomicU64) -> u64 {
    let mut turns = 0;
    loop {
        let v = word.load(Ordering::Acquire);
        if v & 1 == 0 {
            return v;
        }
        spin_wait(turns);
        turns += 1;
    }
}

/// Whether everything read since `version` was read belongs to that version.
#[inline(always)]
pub(crate) fn check(word: &AtomicU64, version: u64) -> bool {
    fence(Ordering::Acquire);
    word.load(Ordering::Relaxed) == version
}

/// Latches if the version is still `version`.
#[inline]
pub(crate) fn upgrade(word: &AtomicU64, version: u64) -> bool {
    yield_point();
    let ok = word.compare_exchange(version, version | 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
    fence(Ordering::Release);
    ok
}

/// Latches, and gives the version before.
#[inline]
pub(crate) fn latch(word: &AtomicU64) -> u64 {
    loop {
        let v = read(word);
        if upgrade(word, v) {
            return v;
        }
    }
}

/// Ends a change that began at `version`.
#[inline]
pub(crate) fn unlatch(word: &AtomicU64, version: u64) {
    yield_point();
    word.store(version + 2, Ordering::Release);
}

/// Ends a latching under which nothing was changed.
#[inline]
pub(crate) fn release(word: &AtomicU64, version: u64) {
    word.store(version, Ordering::Release);
}

/// The version changed: begin again.
pub(crate) struct Changed;
pub(crate) type Checked<T> = Result<T, Changed>;

/// A node, whose word of memory with the version lives as long as its index.
pub(crate) trait Versioned: Copy {
    fn version(&self) -> &AtomicU64;
}

/// A latched node; when dropped, it gets a new version if it was changed, and its old one if not.
pub(crate) struct Latched<N: Versioned> {
    pub(crate) node: N,
    pub(crate) version: u64,
    pub(crate) changed: bool,
}
impl<N: Versioned> Latched<N> {
    pub(crate) fn upgrade(node: N, version: u64) -> Checked<Latched<N>> {
        if upgrade(node.version(), version) {
            Ok(Latched { node, version, changed: false })
        } else {
            Err(Changed)
        }
    }
}
impl<N: Versioned> Drop for Latched<N> {
    fn drop(&mut self) {
        if self.changed {
            unlatch(self.node.version(), self.version)
        } else {
            release(self.node.version(), self.version)
        }
    }
}

/// An index that has a list of nodes for use again.
pub(crate) trait SpareNodes {
    type Node: Copy;
    /// Takes a node that nobody can reach.
    fn give_back(&self, node: Self::Node);
}

/// A fresh node that goes back if it is not used.
pub(crate) struct Spare<'a, T: SpareNodes> {
    pub(crate) tree: &'a T,
    pub(crate) node: T::Node,
}
impl<T: SpareNodes> Spare<'_, T> {
    pub(crate) fn keep(self) -> T::Node {
        let node = self.node;
        std::mem::forget(self);
        node
    }
}
impl<T: SpareNodes> Drop for Spare<'_, T> {
    fn drop(&mut self) {
        self.tree.give_back(self.node)
    }
}
