//! Whether `F2FS_IOC_MOVE_RANGE` moves blocks, or copies them: what F2FS has instead of sharing.
//!
//! On kernels from 5.4 on it reads and writes every page, since only blocks that F2FS has not checkpointed
//! since they were written keep their address, and it takes each for checkpointed. Where it does keep
//! addresses, older kernels show the target's old pages from the page cache, and a mount with
//! `checkpoint=disable` makes nothing durable; and what is moved is gone from the WAL before the database has
//! it durably. So it is never used: the probe says which of these it is.
use crate::ground;
use crate::measure;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

const BLOCK: u64 = 4096;
/// Blocks that the probe moves.
const BLOCKS: u64 = 16;

/// What the probe asks of the kernel.
trait Kernel {
    fn move_range(&self, source: &File, target: &File, len: u64) -> io::Result<()>;
    /// Where the file's first block is on the device.
    fn physical(&self, file: &File) -> io::Result<u64>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moving {
    Remaps,
    Copies,
}

impl Moving {
    pub fn told(&self) -> &'static str {
        match self {
            Moving::Remaps => {
                "remaps, but is not used: it leaves old pages in the cache or is not durable, and it takes the WAL's page away first"
            }
            Moving::Copies => "copies every page, as on all kernels from 5.4 on",
        }
    }
}

/// Whether a folder is on F2FS.
pub fn is_f2fs(folder: &Path) -> bool {
    const F2FS: i64 = 0xF2F5_2010;
    File::open(folder).and_then(|folder| ground::file_system(&folder)).is_ok_and(|found| found == F2FS)
}

/// Moves blocks between two files without a name, and compares where they were and are.
pub fn probe(folder: &Path) -> io::Result<Moving> {
    let (source, target) = measure::pair(folder)?;
    probe_with(&Linux, &source, &target)
}

fn probe_with(kernel: &dyn Kernel, source: &File, target: &File) -> io::Result<Moving> {
    source.write_all_at(&measure::bytes(BLOCKS, 3), 0)?;
    source.sync_all()?;
    let before = kernel.physical(source)?;
    kernel.move_range(source, target, BLOCKS * BLOCK)?;
    // Only then does the target have addresses.
    target.sync_all()?;
    Ok(if kernel.physical(target)? == before { Moving::Remaps } else { Moving::Copies })
}

struct Linux;

impl Kernel for Linux {
    fn move_range(&self, source: &File, target: &File, len: u64) -> io::Result<()> {
        #[repr(C)]
        struct MoveRange {
            target: u32,
            from: u64,
            to: u64,
            len: u64,
        }
        /// `_IOWR(0xf5, 9, struct f2fs_move_range)`
        const MOVE_RANGE: u32 = 0xC020_F509;
        let arg = MoveRange { target: target.as_raw_fd() as u32, from: 0, to: 0, len };
        // SAFETY: both descriptors are open, and the kernel reads the structure during the call alone.
        outcome(unsafe { libc::ioctl(source.as_raw_fd(), MOVE_RANGE as _, &arg) })
    }

    fn physical(&self, file: &File) -> io::Result<u64> {
        /// `struct fiemap` with room for one extent.
        #[repr(C)]
        #[derive(Default)]
        struct Fiemap {
            start: u64,
            length: u64,
            flags: u32,
            mapped: u32,
            count: u32,
            reserved: u32,
            logical: u64,
            physical: u64,
            rest: [u64; 5],
        }
        /// `_IOWR('f', 11, struct fiemap)`, whose size is without extents.
        const FIEMAP: u32 = 0xC020_660B;
        let mut map = Fiemap { length: BLOCK, count: 1, ..Fiemap::default() };
        // SAFETY: an open descriptor, and room for the one extent that is asked for.
        outcome(unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as _, &mut map) })?;
        if map.mapped == 0 || map.logical != 0 {
            return Err(io::Error::other("the file system tells no address of a file's first block"));
        }
        Ok(map.physical)
    }
}

fn outcome(code: i32) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Of each file, by its descriptor, the address.
    struct Fake {
        remaps: bool,
        refuses: Option<i32>,
        moved: Cell<bool>,
    }

    impl Kernel for Fake {
        fn move_range(&self, _: &File, _: &File, len: u64) -> io::Result<()> {
            assert_eq!(len, BLOCKS * BLOCK);
            self.moved.set(true);
            self.refuses.map_or(Ok(()), |number| Err(io::Error::from_raw_os_error(number)))
        }
        fn physical(&self, _: &File) -> io::Result<u64> {
            Ok(if self.moved.get() && !self.remaps { 700 } else { 300 })
        }
    }

    #[test]
    fn addresses_tell_what_moving_does() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, other) = measure::pair(folder.path()).expect("two files");
        let of = |remaps, refuses| {
            let fake = Fake { remaps, refuses, moved: Cell::new(false) };
            probe_with(&fake, &one, &other).map_err(|error| error.raw_os_error())
        };
        assert_eq!(of(true, None), Ok(Moving::Remaps));
        assert_eq!(of(false, None), Ok(Moving::Copies));
        assert_eq!(of(false, Some(libc::EOPNOTSUPP)), Err(Some(libc::EOPNOTSUPP)));
        assert!(Moving::Remaps.told().contains("not used"));
    }

    #[test]
    fn where_nothing_moves_that_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        if is_f2fs(folder.path()) {
            return;
        }
        assert!(probe(folder.path()).is_err());
        // Where addresses are told, two files have different ones.
        let (one, other) = measure::pair(folder.path()).expect("two files");
        for file in [&one, &other] {
            file.write_all_at(&measure::bytes(BLOCKS, 4), 0).expect("written");
            file.sync_all().expect("synced");
        }
        if let (Ok(a), Ok(b)) = (Linux.physical(&one), Linux.physical(&other)) {
            assert!(a != b && a % BLOCK == 0, "{a} and {b}");
        }
    }
}
