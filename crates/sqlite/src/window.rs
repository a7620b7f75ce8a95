//! A file of SQLite's through a mapping: reads and writes of what it has go to memory, all else to the
//! kernel.
//!
//! - **P1** Only bytes below `solid` are touched: they are in the file, and have blocks. What grows the file,
//!   or fills a hole, is written by the kernel, which says when there is no room; a store could only raise
//!   SIGBUS.
//! - **P2** `solid` is known for as long as nobody else can shorten the file: from a look at it until the
//!   next change of a lock ([`Window::doubt`]). The caller looks no sooner than under a lock that keeps
//!   truncation of what it will touch away.
//! - **P3** Stores are fenced when SQLite syncs, and before anybody else may look: at each change of a lock
//!   and each barrier.
//! - **P4** A sync is the kernel's too unless the mapping's promise is [`Promise::Fence`] and everything that
//!   the sync must cover was stored through it: the kernel has written and truncated nothing since its last
//!   sync, neither for us nor, as far as the file's length, the time of its last write and SQLite's own
//!   counters tell, for others.
use ondol_base::media::{Mapped, Promise};
use ondol_base::sim::mutated;
use std::io;

/// What a mapping stands on.
pub trait Ground {
    fn extent(&self) -> io::Result<Extent>;
    /// Gives the first `len` bytes blocks of their own where they have none; never changes the length.
    fn fill(&self, len: u64) -> io::Result<()>;
    /// Maps at least the first `len` bytes. The error says why nothing can be mapped here.
    fn map(&self, len: u64) -> io::Result<Box<dyn Mapped>>;
}

/// A file's bytes, and those of the blocks it has.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub len: u64,
    pub allocated: u64,
    /// The time of the last write or truncation by the kernel, seconds and nanoseconds. (Not the inode's:
    /// SQLite sets a journal's owner whenever it opens it as root.)
    pub changed: (i64, i64),
}

impl Extent {
    /// Bytes of blocks beyond what the length needs. A truncation that is followed by growth with holes makes
    /// it smaller.
    fn spare(self) -> i64 {
        self.allocated as i64 - self.len.next_multiple_of(4096) as i64
    }
}

/// What a file is to SQLite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Database,
    Journal,
    Wal,
}

/// What changes in SQLite's own accounts with every commit: a WAL index's header, a database's change
/// counter.
pub type Account = [u32; 12];

/// What happened through a window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub bytes_stored: u64,
    /// Written by the kernel: growth, and what could not be mapped.
    pub bytes_written: u64,
    pub fences: u64,
    pub kernel_syncs: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.bytes_stored += other.bytes_stored;
        self.bytes_written += other.bytes_written;
        self.fences += other.fences;
        self.kernel_syncs += other.kernel_syncs;
    }
}

pub struct Window {
    ground: Box<dyn Ground>,
    kind: Kind,
    map: Option<Box<dyn Mapped>>,
    /// P1.
    solid: u64,
    /// P2.
    looked: bool,
    /// `Extent::spare` when the file had no hole.
    spare: Option<i64>,
    /// Something was stored since the last fence.
    stored: bool,
    /// Something was stored since the last change of a lock.
    touched: bool,
    /// P4: a fence is not enough.
    unsynced: bool,
    /// Length and time of the last change at the kernel's last sync.
    durable: Option<(u64, (i64, i64))>,
    /// The account up to which the next sync covers everything.
    known: Option<Account>,
    /// Why nothing is mapped.
    refusal: Option<String>,
    pub counts: Counts,
}

impl Window {
    pub fn new(ground: Box<dyn Ground>, kind: Kind) -> Window {
        Window {
            ground,
            kind,
            map: None,
            solid: 0,
            looked: false,
            spare: None,
            stored: false,
            touched: false,
            unsynced: true,
            durable: None,
            known: None,
            refusal: None,
            counts: Counts::default(),
        }
    }

    /// What makes stores durable here; None while nothing is mapped.
    pub fn promise(&self) -> Option<Promise> {
        self.map.as_ref().map(|map| map.promise())
    }
    /// Why nothing is mapped, where it cannot be.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// A lock changes: stores become visible before it is let go, and the file's length is not known any more
    /// (P2, P3).
    pub fn doubt(&mut self) {
        self.fence();
        if std::mem::take(&mut self.touched) && !self.unsynced {
            // A page's first store after a sync changes the file's time. A connection stores alone, so it was
            // ours.
            self.remember();
        }
        if !mutated("window_believes_the_length") {
            self.looked = false;
        }
    }

    /// SQLite's account where others may have changed it, or, if it is `ours`, where only this connection has
    /// (P4). None where it cannot be read. Whether others have written.
    pub fn notice(&mut self, account: Option<Account>, ours: bool) -> bool {
        let others =
            !ours && (account.is_none() || self.known != account) && !mutated("window_ignores_others");
        self.known = account;
        self.unsynced |= others;
        others
    }

    /// Others may have written what the next sync must cover (P4).
    pub fn foreign(&mut self) {
        self.unsynced = true;
    }

    /// Completes what was stored (P3).
    pub fn fence(&mut self) {
        if std::mem::take(&mut self.stored)
            && let Some(map) = &self.map
        {
            self.counts.fences += 1;
            map.fence();
        }
    }

    /// Everything is durable, with this length.
    fn remember(&mut self) {
        if self.promise() == Some(Promise::Fence) {
            self.durable = self.ground.extent().ok().map(|extent| (extent.len, extent.changed));
        }
    }

    /// Finds out how much of the file can be touched. Whatever cannot be found out is left to the kernel.
    fn look(&mut self) {
        self.looked = true;
        self.solid = 0;
        if self.refusal.is_some() {
            return;
        }
        let Ok(mut extent) = self.ground.extent() else { return };
        if self.durable != Some((extent.len, extent.changed)) {
            // What others made the file grow by may be gone after a crash, with what is stored there.
            self.unsynced |= !mutated("window_believes_in_growth");
        }
        if extent.len == 0 {
            return;
        }
        if self.spare.is_none_or(|known| extent.spare() < known) {
            self.spare = None;
            if self.ground.fill(extent.len).is_err() {
                return;
            }
            match self.ground.extent() {
                Ok(filled) if filled.len == extent.len => extent = filled,
                _ => return,
            }
        }
        self.spare = Some(extent.spare());
        if self.map.as_ref().is_none_or(|map| (map.len() as u64) < extent.len) {
            // What was stored is the file's, not the mapping's; but a fence is asked of the mapping.
            self.fence();
            match self.ground.map(extent.len) {
                Ok(map) => self.map = Some(map),
                Err(error) => {
                    self.map = None;
                    self.refusal = Some(error.to_string());
                    return;
                }
            }
        }
        self.solid = extent.len;
    }

    /// The mapping, if the range may be touched.
    fn at(&mut self, offset: u64, len: usize) -> Option<&dyn Mapped> {
        if !self.looked {
            self.look();
        }
        let end = offset.checked_add(len as u64)?;
        self.map.as_deref().filter(|map| end <= self.solid.min(map.len() as u64))
    }

    /// Reads, if the mapping has it all.
    pub fn read(&mut self, buf: &mut [u8], offset: u64) -> bool {
        self.at(offset, buf.len()).inspect(|map| map.read(offset as usize, buf)).is_some()
    }

    /// Stores, if the mapping has room for it all; otherwise the kernel writes, and [`Window::written`] is
    /// told.
    pub fn store(&mut self, buf: &[u8], offset: u64) -> bool {
        /// A word that is stored at once, and decides whether a journal counts.
        const MAGIC: usize = 8;
        let head = if self.kind == Kind::Journal && offset == 0 { MAGIC.min(buf.len()) } else { 0 };
        let Some(map) = self.at(offset, buf.len()) else { return false };
        if head > 0 && map.promise() != Promise::Fence {
            // Nothing orders stores to page cache but syncs; a sector is written at once.
            return false;
        }
        if head > 0 && !mutated("window_journal_in_any_order") {
            map.copy(0, &buf[..head]);
            map.fence();
            map.copy(head, &buf[head..]);
        } else {
            map.copy(offset as usize, buf);
        }
        self.stored = true;
        self.touched = true;
        self.counts.bytes_stored += buf.len() as u64;
        true
    }

    /// The kernel wrote a range.
    fn wrote(&mut self, offset: u64, len: usize) {
        self.unsynced = true;
        self.counts.bytes_written += len as u64;
        if offset <= self.solid {
            self.solid = self.solid.max(offset + len as u64);
        } else {
            // A gap lies between.
            self.looked = false;
        }
    }

    /// A write by the kernel came to its end.
    pub fn written(&mut self, offset: u64, len: usize, whole: bool) {
        if whole { self.wrote(offset, len) } else { self.changed() }
    }

    /// The length is about to be set by the kernel, or a write by the kernel failed half-way.
    pub fn changed(&mut self) {
        self.fence();
        self.unsynced = true;
        self.looked = false;
    }

    /// The first half of a sync: whether the kernel's must follow, and then [`Window::synced`].
    pub fn sync(&mut self) -> bool {
        if !mutated("window_unfenced") {
            self.fence();
        }
        let kernel = self.promise() != Some(Promise::Fence) || self.unsynced;
        kernel && !mutated("window_kernel_unsynced")
    }

    /// The kernel's sync succeeded.
    pub fn synced(&mut self) {
        self.counts.kernel_syncs += 1;
        self.unsynced = false;
        self.remember();
    }
}
