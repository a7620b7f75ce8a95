//! A ring's file: mapped, with a header that says whose it is, and locked while its server lives.
//!
//! The header's first 1024 bytes, little-endian, are written by `init` alone:
//! ```text
//!   0 "ondol ring 3\n\0\0\0"   16 slot size u32   20 promise u32 (0 a server's crash, 1 a power failure)   24 length u64
//!  32 system identifier u64   40 data directory: inode u64, birth s u64, birth ns u64   64 pg_wal: the same
//!  88 length of the path u32   92 the ring's own number u32   96 path of the data directory, at most 900 bytes   1020 CRC-32C of 0..1020
//! ```
//! A copied directory has other inodes and another birth (statx's `btime`), so that it is not taken for the
//! original.
use crate::crc::crc32c;
use crate::entry::SLOT;
use crate::memory::Memory;
use crate::ring::HEADER;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

const MAGIC: &[u8; 16] = b"ondol ring 3\n\0\0\0";
/// Bytes of the header that say whose a ring is.
pub const OWNED: usize = 1024;
/// From here to the first slot are words that the ring leaves to its owner, each on a line of its own.
pub const OWNERS_WORDS: usize = 2048;
/// The longest path of a data directory, in bytes.
pub const PATH: usize = 900;
/// A multiple of every system's size of a page.
const PAGE: usize = 64 << 10;

/// The system's number for the last failure.
pub fn errno() -> i32 {
    // SAFETY: the C library gives the calling thread's place.
    unsafe { *libc::__errno_location() }
}

fn checked(result: libc::c_long) -> Result<libc::c_long, i32> {
    if result < 0 { Err(errno()) } else { Ok(result) }
}

/// Opens below the folder `at` (or `AT_FDCWD`), by the system call itself: in the server, the C library's
/// function is ours.
pub fn open_at(at: i32, path: &CStr, flags: i32, mode: u32) -> Result<i32, i32> {
    // SAFETY: the path ends with a zero.
    checked(unsafe { libc::syscall(libc::SYS_openat, at, path.as_ptr(), flags, mode) }).map(|fd| fd as i32)
}
pub fn close(fd: i32) {
    // SAFETY: the caller's own descriptor.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}
/// Calls until no signal interrupts.
fn again(call: impl Fn() -> libc::c_long) -> Result<(), i32> {
    loop {
        match checked(call()) {
            Err(libc::EINTR) => continue,
            done => return done.map(drop),
        }
    }
}
pub fn sync_data(fd: i32) -> Result<(), i32> {
    // SAFETY: no memory is passed.
    again(|| unsafe { libc::syscall(libc::SYS_fdatasync, fd) })
}
pub fn sync(fd: i32) -> Result<(), i32> {
    // SAFETY: no memory is passed.
    again(|| unsafe { libc::syscall(libc::SYS_fsync, fd) })
}
/// As [`sync_data`], for a part of the file alone; `fd` must be open for writing. There is no call for it but
/// that for mapped memory, which does nothing where the mapping could not be written through (the system
/// forgets that it is shared).
pub fn sync_part(fd: i32, part: core::ops::Range<u64>) -> Result<(), i32> {
    let start = part.start / PAGE as u64 * PAGE as u64;
    let len = part.end.saturating_sub(start).max(1) as usize;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping at an address that the kernel chooses; nothing is read or written through it.
    let base =
        checked(unsafe { libc::syscall(libc::SYS_mmap, 0usize, len, rights, libc::MAP_SHARED, fd, start) })?;
    // SAFETY: the range was just mapped.
    let done = again(|| unsafe { libc::syscall(libc::SYS_msync, base, len, libc::MS_SYNC) });
    // SAFETY: mapped above, used by nobody else.
    unsafe { libc::syscall(libc::SYS_munmap, base, len) };
    done
}
/// Syncs the file system that `fd` is on.
pub fn sync_file_system(fd: i32) -> Result<(), i32> {
    // SAFETY: no memory is passed.
    again(|| unsafe { libc::syscall(libc::SYS_syncfs, fd) })
}
/// Whether the file system that `fd` is on takes no writes.
pub fn is_read_only(fd: i32) -> Result<bool, i32> {
    // SAFETY: all zeros is a value of this structure of numbers.
    let mut s: libc::statfs64 = unsafe { core::mem::zeroed() };
    // SAFETY: the structure is writable.
    checked(unsafe { libc::syscall(libc::SYS_fstatfs, fd, &mut s) })?;
    Ok(s.f_flags as u64 & libc::ST_RDONLY != 0)
}
/// Sets the times of a file or folder to now: a change that a file system must take, and refuses where it
/// takes none.
pub fn touch(fd: i32) -> Result<(), i32> {
    // SAFETY: no memory is passed: neither a path nor times.
    checked(unsafe { libc::syscall(libc::SYS_utimensat, fd, 0usize, 0usize, 0) }).map(drop)
}
pub fn write_at(fd: i32, mut bytes: &[u8], mut at: u64) -> Result<(), i32> {
    while !bytes.is_empty() {
        // SAFETY: the slice is readable.
        let n = checked(unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes.as_ptr(), bytes.len(), at) });
        match n {
            Err(libc::EINTR) => continue,
            Ok(0) => return Err(libc::EIO),
            n => {
                let n = n? as usize;
                bytes = &bytes[n.min(bytes.len())..];
                at += n as u64;
            }
        }
    }
    Ok(())
}
pub fn read_at(fd: i32, to: &mut [u8], at: u64) -> Result<usize, i32> {
    // SAFETY: the slice is writable.
    checked(unsafe { libc::syscall(libc::SYS_pread64, fd, to.as_mut_ptr(), to.len(), at) })
        .map(|n| n as usize)
}

pub fn rename(folder: i32, from: &CStr, to: &CStr) -> Result<(), i32> {
    // SAFETY: both names end with a zero.
    let done = unsafe { libc::syscall(libc::SYS_renameat2, folder, from.as_ptr(), folder, to.as_ptr(), 0) };
    checked(done).map(drop)
}
/// Copies memory that others may be writing: the compiler can neither read it twice nor take it for
/// unchanging.
///
/// # Safety
/// `len` bytes are readable at `from` and writable at `to`, and do not overlap.
pub unsafe fn copy_racing(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise; the direction flag is clear by the calling convention.
    unsafe {
        core::arch::asm!("rep movsb", inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags))
    }
    #[cfg(not(target_arch = "x86_64"))]
    for i in 0..len {
        // SAFETY: the caller's promise.
        unsafe { to.add(i).write(from.add(i).read_volatile()) }
    }
}
pub fn remove(folder: i32, name: &CStr) -> Result<(), i32> {
    // SAFETY: the name ends with a zero.
    checked(unsafe { libc::syscall(libc::SYS_unlinkat, folder, name.as_ptr(), 0) }).map(drop)
}
/// Whether an open file has no name any more.
pub fn is_removed(fd: i32) -> Result<bool, i32> {
    Ok(status(fd, libc::STATX_NLINK)?.stx_nlink == 0)
}
/// User and group of a file.
pub fn owner_of(fd: i32) -> Result<(u32, u32), i32> {
    let s = status(fd, libc::STATX_UID | libc::STATX_GID)?;
    Ok((s.stx_uid, s.stx_gid))
}
/// The permission bits of a file.
pub fn mode_of(fd: i32) -> Result<u32, i32> {
    Ok(u32::from(status(fd, libc::STATX_MODE)?.stx_mode) & 0o7777)
}
pub fn set_mode(fd: i32, mode: u32) -> Result<(), i32> {
    // SAFETY: no memory is passed.
    checked(unsafe { libc::syscall(libc::SYS_fchmod, fd, mode) }).map(drop)
}
/// Gives a file to a user and a group; `u32::MAX` leaves one as it is.
pub fn give(fd: i32, (user, group): (u32, u32)) -> Result<(), i32> {
    // SAFETY: no memory is passed.
    checked(unsafe { libc::syscall(libc::SYS_fchown, fd, user, group) }).map(drop)
}
fn status(fd: i32, wanted: u32) -> Result<libc::statx, i32> {
    // SAFETY: all zeros is a value of this structure of numbers.
    let mut s: libc::statx = unsafe { core::mem::zeroed() };
    // SAFETY: the path is empty and ends with a zero; the structure is writable.
    let done =
        unsafe { libc::syscall(libc::SYS_statx, fd, c"".as_ptr(), libc::AT_EMPTY_PATH, wanted, &mut s) };
    checked(done).map(|_| s)
}

/// What a file or folder is, whatever its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    pub inode: u64,
    /// When it was made: seconds and nanoseconds.
    pub birth: (u64, u64),
}

fn device_of(s: &libc::statx) -> u64 {
    u64::from(s.stx_dev_major) << 32 | u64::from(s.stx_dev_minor)
}

/// Inode, size and device of what `fd` is open on. Its times are not asked for: where they are (`fstat`
/// does), Linux 6.13 gives the next write a time of its own, and ext4 a change of the inode to log, for each
/// write.
pub fn found(fd: i32) -> Result<(u64, u64, u64), i32> {
    let s = status(fd, libc::STATX_INO | libc::STATX_SIZE)?;
    Ok((s.stx_ino, s.stx_size, device_of(&s)))
}

/// The identity, the size and the device of what `fd` is open on (`AT_FDCWD`: of the current folder).
/// `ENOTSUP` where the file system keeps no birth time and `born` is asked for.
pub fn identity(fd: i32, born: bool) -> Result<(Identity, u64, u64), i32> {
    let s = status(fd, libc::STATX_INO | libc::STATX_SIZE | libc::STATX_BTIME)?;
    if born && s.stx_mask & libc::STATX_BTIME == 0 {
        return Err(libc::ENOTSUP);
    }
    let birth = (s.stx_btime.tv_sec as u64, u64::from(s.stx_btime.tv_nsec));
    Ok((Identity { inode: s.stx_ino, birth }, s.stx_size, device_of(&s)))
}

/// A ring's owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The ring's own number, drawn when it was made, not 0: of all rings of a cluster.
    pub id: u32,
    /// Entries survive a power failure, not only a server's crash.
    pub power: bool,
    pub len: u64,
    pub system: u64,
    pub data: Identity,
    pub wal: Identity,
    path: [u8; PATH],
    path_len: usize,
}

impl Owner {
    /// `None` if the path is too long.
    pub fn new(
        id: u32,
        power: bool,
        len: u64,
        system: u64,
        data: Identity,
        wal: Identity,
        dir: &[u8],
    ) -> Option<Owner> {
        let mut path = [0; PATH];
        path.get_mut(..dir.len())?.copy_from_slice(dir);
        Some(Owner { id, power, len, system, data, wal, path, path_len: dir.len() })
    }
    pub fn path(&self) -> &[u8] {
        &self.path[..self.path_len]
    }
    pub fn encode(&self) -> [u8; OWNED] {
        let mut b = [0; OWNED];
        b[..16].copy_from_slice(MAGIC);
        b[16..20].copy_from_slice(&(SLOT as u32).to_le_bytes());
        b[20..24].copy_from_slice(&u32::from(self.power).to_le_bytes());
        let words = [
            self.len,
            self.system,
            self.data.inode,
            self.data.birth.0,
            self.data.birth.1,
            self.wal.inode,
            self.wal.birth.0,
            self.wal.birth.1,
        ];
        for (w, to) in words.into_iter().zip(b[24..88].chunks_exact_mut(8)) {
            to.copy_from_slice(&w.to_le_bytes())
        }
        b[88..92].copy_from_slice(&(self.path_len as u32).to_le_bytes());
        b[92..96].copy_from_slice(&self.id.to_le_bytes());
        b[96..96 + PATH].copy_from_slice(&self.path);
        let crc = crc32c(&[&b[..1020]]);
        b[1020..].copy_from_slice(&crc.to_le_bytes());
        b
    }
    /// `None` if this is no ring's header, or a damaged one.
    pub fn decode(b: &[u8; OWNED]) -> Option<Owner> {
        let word = |at: usize| b[at..].first_chunk().map(|w| u64::from_le_bytes(*w)).unwrap_or(0);
        let half = |at: usize| word(at) as u32;
        if b[..16] != *MAGIC || crc32c(&[&b[..1020]]).to_le_bytes() != b[1020..] || half(16) != SLOT as u32 {
            return None;
        }
        let identity = |at| Identity { inode: word(at), birth: (word(at + 8), word(at + 16)) };
        let path = b[96..].get(..half(88) as usize)?;
        Owner::new(half(92), half(20) == 1, word(24), word(32), identity(40), identity(64), path)
    }
}

/// Which of the file's locks: they belong to an open file, which a forked child shares, and end with its last
/// holder.
#[derive(Clone, Copy)]
pub enum Who {
    /// A server's processes.
    Server,
    /// `recover`: nobody else.
    Alone,
}

/// Takes a lock without waiting; whether it was there to be had.
pub fn lock(fd: i32, who: Who) -> Result<bool, i32> {
    let kind = match who {
        Who::Server => libc::LOCK_SH,
        Who::Alone => libc::LOCK_EX,
    };
    // SAFETY: no memory is passed.
    match checked(unsafe { libc::syscall(libc::SYS_flock, fd, kind | libc::LOCK_NB) }) {
        Ok(_) => Ok(true),
        Err(libc::EWOULDBLOCK) => Ok(false),
        Err(e) => Err(e),
    }
}

/// Gives up the lock that this open file has.
pub fn unlock(fd: i32) {
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_flock, fd, libc::LOCK_UN) };
}

/// Where one process writes alone, the pages of such a part of the ring, in bytes, are asked for at once: a
/// fault for each costs as much as all else that is done for a write. A multiple of this where the ring is so
/// large that there would be more than [`PARTS`]. Of many who write in turn, each would ask for pages that
/// the others write: there a fault is the lesser price.
const PART: usize = 128 << 10;
const PARTS: usize = 1 << 15;
/// A large page: memory is mapped by pages of this size where it lies in such pages, and the mapping begins
/// at a multiple of it.
const LARGE: usize = 2 << 20;

/// A ring's file in memory, for as long as the process lives.
pub struct Mapping {
    base: *mut u8,
    len: usize,
    part: usize,
    /// A bit for each part that was asked for. A child inherits the bits but not the pages; it then takes
    /// faults.
    asked: [AtomicU64; PARTS / 64],
    /// Where this process last wrote to, and how many bytes it had written there without a gap.
    end: AtomicUsize,
    run: AtomicUsize,
    /// A fence is enough for a power failure: mapped with `MAP_SYNC`.
    pub power: bool,
}
// SAFETY: other processes write this memory anyhow: every access is by instruction, no reference to it is
// formed.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// The caller has seen that the file is at least `len` bytes long.
    pub fn new(fd: i32, len: usize) -> Result<Mapping, i32> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // Not every file system puts a mapping where large pages fit: a place is taken first, larger than
        // needed, and what is too much given back.
        let room = len.next_multiple_of(LARGE) + LARGE;
        let hold = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping at an address that the kernel chooses.
        let start = checked(unsafe {
            libc::syscall(libc::SYS_mmap, 0usize, room, libc::PROT_NONE, hold, -1, 0usize)
        })? as usize;
        let base = start.next_multiple_of(LARGE);
        let map = |flags: i32| {
            // SAFETY: over a part of what was just mapped, which nobody knows.
            checked(unsafe {
                libc::syscall(libc::SYS_mmap, base, len, rights, flags | libc::MAP_FIXED, fd, 0usize)
            })
        };
        // Lines are written back from user space on x86-64 only.
        let synced = libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC;
        let power = cfg!(target_arch = "x86_64") && map(synced).is_ok();
        let done = if power { Ok(0) } else { map(libc::MAP_SHARED) };
        let end = base + len.next_multiple_of(PAGE);
        let spare = match done {
            Ok(_) => [(start, base - start), (end, start + room - end)],
            Err(_) => [(start, room), (end, 0)],
        };
        for (at, len) in spare.into_iter().filter(|s| s.1 != 0) {
            // SAFETY: of what was mapped above, the part that is nobody's.
            unsafe { libc::syscall(libc::SYS_munmap, at, len) };
        }
        done?;
        Ok(Mapping {
            base: base as *mut u8,
            len,
            part: len.div_ceil(PARTS).next_multiple_of(PART),
            asked: [const { AtomicU64::new(0) }; PARTS / 64],
            end: AtomicUsize::new(0),
            run: AtomicUsize::new(0),
            power,
        })
    }
    /// Asks for large pages where the memory is the system's own (tmpfs; Linux 6.1): each process that writes
    /// the ring maps all of it, page by page. Elsewhere it does nothing.
    pub fn enlarge_pages(&self) {
        const COLLAPSE: i32 = 25; // MADV_COLLAPSE
        // SAFETY: the mapping is ours; what it holds stays.
        unsafe { libc::syscall(libc::SYS_madvise, self.base, self.len, COLLAPSE) };
    }
    /// The place of `bytes` bytes at `at`; an end of the process where the ring is wrong about its own
    /// length.
    fn at(&self, at: usize, bytes: usize) -> *mut u8 {
        assert!(at.is_multiple_of(8) && at <= self.len && bytes <= self.len - at);
        // SAFETY: within the mapping.
        unsafe { self.base.add(at) }
    }
    fn atomic(&self, at: usize) -> &AtomicU64 {
        // SAFETY: aligned, mapped for as long as `self`, and all access to words is atomic.
        unsafe { AtomicU64::from_ptr(self.at(at, 8).cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by us, with what was taken behind it, and unmapped once.
        unsafe { libc::syscall(libc::SYS_munmap, self.base, self.len.next_multiple_of(PAGE)) };
    }
}

impl Memory for Mapping {
    fn near(&self, at: usize, len: usize) {
        let alone = self.end.swap(at + len, Ordering::Relaxed) == at;
        let run = if alone { self.run.load(Ordering::Relaxed).saturating_add(len) } else { len };
        self.run.store(run, Ordering::Relaxed);
        if run < PART {
            return;
        }
        for part in at / self.part..=(at + len).min(self.len - 1) / self.part {
            let (word, bit) = (&self.asked[part / 64], 1 << (part % 64));
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
                let start = part * self.part;
                let len = self.part.min(self.len - start);
                // SAFETY: within the mapping. A system that does not know this refuses, and each page is a
                // fault.
                unsafe {
                    libc::syscall(libc::SYS_madvise, self.base.add(start), len, libc::MADV_POPULATE_WRITE)
                };
            }
        }
    }
    fn copy(&self, at: usize, bytes: &[u8]) {
        let mut to = self.at(at, bytes.len());
        assert!(at.is_multiple_of(16));
        for words in bytes.as_chunks::<16>().0 {
            // SAFETY: `to` is aligned and stays within the range that was checked.
            unsafe {
                #[cfg(target_arch = "x86_64")]
                core::arch::asm!("movntdq [{to}], {w}", to = in(reg) to,
                    w = in(xmm_reg) core::arch::x86_64::_mm_loadu_si128(words.as_ptr().cast()),
                    options(nostack, preserves_flags));
                #[cfg(not(target_arch = "x86_64"))]
                for (i, word) in words.as_chunks::<8>().0.iter().enumerate() {
                    to.cast::<u64>().add(i).write_volatile(u64::from_ne_bytes(*word));
                }
                to = to.add(16);
            }
        }
    }
    fn flush(&self, at: usize) {
        let line = self.at(at, 8);
        // SAFETY: the line is mapped; every x86-64 processor has the instruction, which changes no memory.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            core::arch::asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags))
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
    fn fence(&self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 processor has it.
        unsafe {
            core::arch::x86_64::_mm_sfence()
        };
        fence(Ordering::SeqCst)
    }
    fn settle(&self) -> Result<(), i32> {
        if self.power {
            return Ok(());
        }
        // SAFETY: the header is mapped.
        again(|| unsafe { libc::syscall(libc::SYS_msync, self.base, HEADER, libc::MS_SYNC) })
    }
    fn read(&self, at: usize, to: &mut [u8]) {
        let from = self.at(at, to.len());
        // SAFETY: the range was checked; the caller proves what it read.
        unsafe { copy_racing(from, to.as_mut_ptr(), to.len()) }
    }
    fn word(&self, at: usize) -> u64 {
        self.atomic(at).load(Ordering::SeqCst)
    }
    fn set(&self, at: usize, value: u64) {
        self.atomic(at).store(value, Ordering::SeqCst)
    }
    fn raise(&self, at: usize, value: u64) {
        self.atomic(at).fetch_max(value, Ordering::SeqCst);
    }
    fn count(&self, at: usize, more: u64) {
        self.atomic(at).fetch_add(more, Ordering::Relaxed);
    }
    fn exchange(&self, at: usize, old: u64, new: u64) -> bool {
        self.atomic(at).compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}
