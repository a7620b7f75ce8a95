//! Descriptors of segments that whoever drains keeps open, so that the system tells it of writes that failed
//! (ring/I6).
//!
//! Linux tells each open description of a file once of a write that failed since it was opened. One that is
//! opened later is told only what nobody was told yet, and nothing once the inode left the kernel's memory.
//! So a descriptor speaks for the entries whose bytes were written after it was opened: those from its
//! *stamp* on ([`crate::Ring::stamp`], asked for after the opening).
//!
//! A file is known by its inode, which nobody else gets while a descriptor is open on it, whatever its name
//! becomes.
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering::SeqCst};

/// The most that are held.
const MOST: usize = 128;

struct Hold {
    /// 0: free.
    inode: AtomicU64,
    fd: AtomicI32,
    since: AtomicU64,
}

/// One thread holds and lets go.
pub struct Holds([Hold; MOST]);

impl Default for Holds {
    fn default() -> Holds {
        Holds::new()
    }
}

impl Holds {
    pub const fn new() -> Holds {
        Holds(
            [const { Hold { inode: AtomicU64::new(0), fd: AtomicI32::new(-1), since: AtomicU64::new(0) } };
                MOST],
        )
    }
    fn of(&self, inode: u64) -> Option<&Hold> {
        self.0.iter().find(|h| h.inode.load(SeqCst) == inode)
    }
    pub fn has(&self, inode: u64) -> bool {
        self.of(inode).is_some()
    }
    pub fn is_full(&self) -> bool {
        !self.has(0)
    }
    /// Keeps a descriptor, which is the caller's where there is no room (`false`).
    pub fn keep(&self, inode: u64, fd: i32, since: u64) -> bool {
        let Some(place) = self.of(0).filter(|_| inode != 0 && !self.has(inode)) else {
            return false;
        };
        place.fd.store(fd, SeqCst);
        place.since.store(since, SeqCst);
        place.inode.store(inode, SeqCst);
        true
    }
    /// The descriptor that is told of every error of the entries from `first` on.
    pub fn find(&self, inode: u64, first: u64) -> Option<i32> {
        let held = self.of(inode).filter(|h| inode != 0 && h.since.load(SeqCst) <= first)?;
        Some(held.fd.load(SeqCst))
    }
    /// Lets go of those that are `useless`, by descriptor and inode.
    pub fn let_go(&self, useless: impl Fn(i32, u64) -> bool, mut close: impl FnMut(i32)) {
        for h in &self.0 {
            let (inode, fd) = (h.inode.load(SeqCst), h.fd.load(SeqCst));
            if inode != 0 && useless(fd, inode) {
                h.inode.store(0, SeqCst);
                close(fd)
            }
        }
    }
    /// Lets go of the one that is held longest of those that are not `needed`.
    pub fn let_oldest_go(&self, needed: impl Fn(u64) -> bool, close: impl FnMut(i32)) {
        let held =
            self.0.iter().filter(|h| !matches!(h.inode.load(SeqCst), 0) && !needed(h.inode.load(SeqCst)));
        if let Some(oldest) = held.min_by_key(|h| h.since.load(SeqCst)) {
            let oldest = oldest.inode.load(SeqCst);
            self.let_go(|_, inode| inode == oldest, close)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_was_there_before_speaks() {
        let holds = Holds::new();
        assert!(holds.keep(7, 3, 100) && !holds.keep(7, 4, 50));
        assert_eq!([99, 100, 101].map(|first| holds.find(7, first)), [None, Some(3), Some(3)]);
        assert_eq!((holds.find(8, 200), holds.find(0, 200)), (None, None));
        for inode in 8..7 + MOST as u64 {
            assert!(holds.keep(inode, inode as i32, inode))
        }
        assert!(holds.is_full() && !holds.keep(1000, 1, 1));
        let mut closed = Vec::new();
        holds.let_oldest_go(|inode| inode == 8, |fd| closed.push(fd));
        holds.let_go(|_, inode| inode == 7, |fd| closed.push(fd));
        assert_eq!((closed.as_slice(), holds.has(7), holds.has(9)), (&[9, 3][..], false, false));
    }

    extern crate std;
    use std::vec::Vec;
}
