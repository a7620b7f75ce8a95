//! Files of the operating system under a mapping, and libpmem, where it is installed.
//!
//! A store to a mapped file must never need a block, since there is no way to say that there is none. So
//! files are mapped only where overwriting what has blocks needs no new ones: not on Btrfs and its like.
use crate::descriptors::Held;
use crate::sharing::Target;
use crate::window::{Extent, Ground};
use ondol_base::media::mapping::Mapping;
use ondol_base::media::{Mapped, Promise};
use std::ffi::{c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The numbers of `statfs`.
const EXT4: i64 = 0xEF53;
const TMPFS: i64 = 0x0102_1994;
const XFS: i64 = 0x5846_5342;

/// The address space that is mapped beyond a file's end, so that it can grow for a while without being mapped
/// anew.
const AHEAD: u64 = 16 << 20;

fn outcome(code: c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

pub fn file_system(file: &File) -> io::Result<i64> {
    // SAFETY: a structure of numbers, which the call fills.
    let mut found: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor, and room for the answer.
    outcome(unsafe { libc::fstatfs(file.as_raw_fd(), &mut found) })?;
    // The type of the field differs between platforms.
    #[allow(clippy::unnecessary_cast)]
    Ok(found.f_type as i64)
}

impl Ground for File {
    fn extent(&self) -> io::Result<Extent> {
        self.metadata().map(|meta| Extent {
            len: meta.len(),
            allocated: meta.blocks() * 512,
            changed: (meta.mtime(), meta.mtime_nsec()),
        })
    }

    fn fill(&self, len: u64) -> io::Result<()> {
        if LEAVE_HOLES.load(Relaxed) {
            return Ok(());
        }
        let allocate = |mode: c_int, from: i64| {
            // SAFETY: a system call on an open descriptor.
            outcome(unsafe { libc::fallocate(self.as_raw_fd(), mode, from, len as i64 - from) })
        };
        if file_system(self)? == XFS {
            // Blocks that are shared with another file would be replaced by a store.
            return allocate(libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_UNSHARE_RANGE, 0);
        }
        // SAFETY: a system call on an open descriptor, whose position nobody uses.
        let hole = unsafe { libc::lseek(self.as_raw_fd(), 0, libc::SEEK_HOLE) };
        match hole {
            at if at >= len as i64 => Ok(()),
            at if at >= 0 => allocate(libc::FALLOC_FL_KEEP_SIZE, at),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn map(&self, len: u64) -> io::Result<Box<dyn Mapped>> {
        if !matches!(file_system(self)?, EXT4 | TMPFS | XFS) {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "not mapped on this file system, where an overwrite may need a new block: ext4, XFS and tmpfs are known",
            ));
        }
        let room = usize::try_from(len.next_multiple_of(AHEAD) + AHEAD)
            .map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let mapping = Mapping::new(self.as_raw_fd(), room)?;
        let promise = if PRETEND.load(Relaxed) { Promise::Fence } else { mapping.promise() };
        Ok(Box::new(Stored { mapping, promise, libpmem: libpmem() }))
    }
}

/// In tests, persistent memory: a fence is taken for durable.
#[doc(hidden)]
pub static PRETEND: AtomicBool = AtomicBool::new(false);

/// In tests, the known-wrong variant that maps holes.
#[doc(hidden)]
pub static LEAVE_HOLES: AtomicBool = AtomicBool::new(false);

impl Ground for Held {
    fn extent(&self) -> io::Result<Extent> {
        File::extent(self)
    }
    fn fill(&self, len: u64) -> io::Result<()> {
        File::fill(self, len)
    }
    fn map(&self, len: u64) -> io::Result<Box<dyn Mapped>> {
        Ground::map(&**self, len)
    }
}

/// The database's descriptor, which the process keeps (sharing/S1).
impl Ground for Arc<Target> {
    fn extent(&self) -> io::Result<Extent> {
        self.kept()?.extent()
    }
    fn fill(&self, len: u64) -> io::Result<()> {
        self.kept()?.fill(len)
    }
    fn map(&self, len: u64) -> io::Result<Box<dyn Mapped>> {
        Ground::map(self.kept()?, len)
    }
}

/// What is called of `libpmem.so.1`.
struct Libpmem {
    memcpy_nodrain: unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void,
    drain: unsafe extern "C" fn(),
}

/// libpmem, if it is installed; looked for once.
fn libpmem() -> Option<&'static Libpmem> {
    static FOUND: OnceLock<Option<Libpmem>> = OnceLock::new();
    FOUND.get_or_init(load).as_ref()
}

/// What stores go through.
pub fn stores() -> &'static str {
    if libpmem().is_some() { "libpmem" } else { "own non-temporal stores" }
}

fn load() -> Option<Libpmem> {
    if !cfg!(target_arch = "x86_64") {
        // What a fence means there is libpmem's affair alone.
        return None;
    }
    // SAFETY: names that end with zeros; the library stays loaded, and its functions have had these types
    // since version 1.0.
    unsafe {
        let library = libc::dlopen(c"libpmem.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if library.is_null() {
            return None;
        }
        let find = |name: *const c_char| {
            let at = libc::dlsym(library, name);
            (!at.is_null()).then_some(at)
        };
        let memcpy = find(c"pmem_memcpy_nodrain".as_ptr())?;
        let drain = find(c"pmem_drain".as_ptr())?;
        Some(Libpmem {
            memcpy_nodrain: std::mem::transmute::<
                *mut c_void,
                unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> *mut c_void,
            >(memcpy),
            drain: std::mem::transmute::<*mut c_void, unsafe extern "C" fn()>(drain),
        })
    }
}

/// A mapping whose stores libpmem does, where it is installed.
struct Stored {
    mapping: Mapping,
    promise: Promise,
    libpmem: Option<&'static Libpmem>,
}

impl Mapped for Stored {
    fn len(&self) -> usize {
        self.mapping.len()
    }
    fn promise(&self) -> Promise {
        self.promise
    }
    fn copy(&self, offset: usize, bytes: &[u8]) {
        let Some(libpmem) = self.libpmem else { return self.mapping.copy(offset, bytes) };
        let to = self.mapping.place(offset, bytes.len());
        // SAFETY: the mapping has the range, which no reference leads to (mapping/G2, mapping/G3).
        unsafe { (libpmem.memcpy_nodrain)(to.cast(), bytes.as_ptr().cast(), bytes.len()) };
    }
    fn read(&self, offset: usize, buf: &mut [u8]) {
        self.mapping.read(offset, buf);
    }
    fn flush(&self, offset: usize, len: usize) {
        self.mapping.flush(offset, len);
    }
    fn fence(&self) {
        if let Some(libpmem) = self.libpmem {
            // SAFETY: no arguments.
            unsafe { (libpmem.drain)() };
        }
        // By its environment libpmem can be told to drain nothing.
        self.mapping.fence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn holes_are_filled_and_mappings_reach_beyond_the_end() {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let path = folder.path().join("f");
        let file = File::options().read(true).write(true).create_new(true).open(path).expect("a file");
        file.set_len(100_000).expect("a hole");
        assert_eq!(file.extent().expect("an extent").allocated, 0);
        file.fill(100_000).expect("room");
        let extent = file.extent().expect("an extent");
        assert!(extent.len == 100_000 && extent.allocated >= 100_000, "{extent:?}");
        let map = Ground::map(&file, 100_000).expect("a mapping");
        assert!(map.len() as u64 >= 100_000 + AHEAD, "{}", map.len());
        map.copy(5000, &[7; 300]);
        map.fence();
        file.write_all_at(&[8; 5000], 200_000).expect("written");
        let mut seen = [0; 300];
        file.read_exact_at(&mut seen, 5000).expect("read");
        assert_eq!(seen, [7; 300]);
        map.read(200_000, &mut seen);
        assert_eq!(seen, [8; 300], "the same mapping shows what the file has grown by");
    }
}
