//! SQLite/MM: what the paper on SQLite and persistent memory compares itself with. A VFS named "mm" whose
//! files are mapped, and whose writes are copied, flushed from the cache and fenced one by one, so that a
//! sync has nothing left to do.
//!
//! It stands over SQLite's `unix` VFS, which keeps names, locks and shared memory, and is for measuring only:
//!
//! - **M1** Journals and WALs are allocated ahead, a chunk at a time, and cut to their length when they are
//!   closed.
//! - **M2** A database has one connection at a time: another's growth is seen, its shortening is not.
//! - **M3** The descriptor of a database is never closed, since that would give up the process's locks of the
//!   file.
#![allow(unsafe_code)] // SQLite's interface for extensions, and mapped memory.
use crate::{Error, Result};
use rusqlite::ffi::{
    SQLITE_CANTOPEN, SQLITE_FULL, SQLITE_IOERR_SHORT_READ, SQLITE_IOERR_TRUNCATE, SQLITE_OK,
    SQLITE_OPEN_MAIN_DB, SQLITE_OPEN_MAIN_JOURNAL, SQLITE_OPEN_WAL, sqlite3_file, sqlite3_int64,
    sqlite3_io_methods, sqlite3_vfs, sqlite3_vfs_find, sqlite3_vfs_register,
};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// What a journal or WAL grows by.
const CHUNK: i64 = 1 << 20;
/// Address space of a mapping; only what the file has is touched.
const MAPPED: usize = 16 << 30;

#[repr(C)]
struct File {
    base: sqlite3_file,
    descriptor: c_int,
    memory: *mut u8,
    /// As SQLite knows it.
    len: i64,
    /// Of the file, as far as known; never less.
    allocated: i64,
    is_database: bool,
}

/// The `unix` VFS.
struct Below(*mut sqlite3_vfs);
// SAFETY: SQLite's VFS objects may be called from any thread.
unsafe impl Send for Below {}
// SAFETY: as above.
unsafe impl Sync for Below {}
static BELOW: OnceLock<Below> = OnceLock::new();

/// Registers the VFS; again does nothing.
pub fn register() -> Result<()> {
    if BELOW.get().is_some() {
        return Ok(());
    }
    // SAFETY: a name that ends with zero.
    let below = unsafe { sqlite3_vfs_find(c"unix".as_ptr()) };
    if below.is_null() {
        return Err("SQLite has no VFS \"unix\"".into());
    }
    // SAFETY: SQLite's own object. The copy lives for ever.
    let ours = unsafe {
        let mut ours = std::ptr::read(below);
        ours.zName = c"mm".as_ptr();
        ours.szOsFile += size_of::<File>() as c_int;
        ours.pNext = std::ptr::null_mut();
        ours.xOpen = Some(open);
        Box::leak(Box::new(ours))
    };
    BELOW.get_or_init(|| Below(below));
    // SAFETY: it lives for ever.
    match unsafe { sqlite3_vfs_register(ours, 0) } {
        SQLITE_OK => Ok(()),
        code => Err(Error::from(format!("SQLite refused the VFS: error {code}"))),
    }
}

/// How a line leaves the cache here.
pub fn flush_instruction() -> &'static str {
    if has_clwb() { "clwb" } else { "clflush" }
}

fn has_clwb() -> bool {
    // Leaf 7, EBX, bit 24.
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| std::arch::x86_64::__cpuid_count(7, 0).ebx & 1 << 24 != 0)
}

/// Writes the lines of `len` bytes back to memory, and waits for that.
///
/// # Safety
/// The bytes are mapped.
unsafe fn flush(at: *const u8, len: usize) {
    let clwb = has_clwb();
    let mut line = at as usize & !63;
    while line < at as usize + len {
        // SAFETY: a mapped line.
        unsafe {
            match clwb {
                true => std::arch::asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)),
                false => std::arch::x86_64::_mm_clflush(line as *const u8),
            }
        }
        line += 64;
    }
    // SAFETY: of every x86-64.
    unsafe { std::arch::x86_64::_mm_sfence() }
}

/// The file of the VFS below lies after ours.
fn real(file: *mut sqlite3_file) -> *mut sqlite3_file {
    file.cast::<File>().wrapping_add(1).cast()
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    file: *mut sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let Some(below) = BELOW.get() else { return SQLITE_CANTOPEN };
    let mapped = flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL) != 0;
    // SAFETY: SQLite's arguments; the file has room for both parts.
    unsafe {
        let Some(open_below) = (*below.0).xOpen else { return SQLITE_CANTOPEN };
        if !mapped || name.is_null() {
            return open_below(below.0, name, file, flags, out_flags);
        }
        (*file).pMethods = std::ptr::null();
        let code = open_below(below.0, name, real(file), flags, out_flags);
        if code != SQLITE_OK {
            return code;
        }
        let close_below = |code| {
            if let Some(close) = (*(*real(file)).pMethods).xClose {
                close(real(file));
            }
            code
        };
        let descriptor = libc::open(CStr::from_ptr(name).as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        if descriptor < 0 {
            return close_below(SQLITE_CANTOPEN);
        }
        let memory = libc::mmap(
            std::ptr::null_mut(),
            MAPPED,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            descriptor,
            0,
        );
        if memory == libc::MAP_FAILED {
            libc::close(descriptor);
            return close_below(SQLITE_CANTOPEN);
        }
        let len = file_len(descriptor);
        std::ptr::write(
            file.cast::<File>(),
            File {
                base: sqlite3_file { pMethods: &METHODS },
                descriptor,
                memory: memory.cast(),
                len,
                allocated: len,
                is_database: flags & SQLITE_OPEN_MAIN_DB != 0,
            },
        );
    }
    SQLITE_OK
}

fn file_len(descriptor: c_int) -> i64 {
    // SAFETY: a plain structure, filled by the call.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        if libc::fstat(descriptor, &mut stat) == 0 { stat.st_size } else { 0 }
    }
}

/// # Safety
/// `file` is an open file of this VFS.
unsafe fn own<'a>(file: *mut sqlite3_file) -> &'a mut File {
    // SAFETY: as the caller says.
    unsafe { &mut *file.cast::<File>() }
}

impl File {
    /// The length, with what another connection has appended (M2).
    fn known_len(&mut self, needed: i64) -> i64 {
        if self.is_database && needed > self.len {
            self.allocated = file_len(self.descriptor);
            self.len = self.allocated;
        }
        self.len
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: an open file, which is not used any more.
    unsafe {
        let f = own(file);
        if f.allocated > f.len && !f.is_database {
            libc::ftruncate(f.descriptor, f.len);
        }
        libc::munmap(f.memory.cast(), MAPPED);
        // M3
        if !f.is_database {
            libc::close(f.descriptor);
        }
        match (*(*real(file)).pMethods).xClose {
            Some(close) => close(real(file)),
            None => SQLITE_OK,
        }
    }
}

unsafe extern "C" fn read(file: *mut sqlite3_file, to: *mut c_void, n: c_int, at: sqlite3_int64) -> c_int {
    // SAFETY: an open file, and SQLite's buffer of n bytes.
    unsafe {
        let f = own(file);
        let there = (f.known_len(at + i64::from(n)) - at).clamp(0, i64::from(n)) as usize;
        std::ptr::copy_nonoverlapping(f.memory.wrapping_add(at as usize), to.cast(), there);
        if there == n as usize {
            return SQLITE_OK;
        }
        to.cast::<u8>().add(there).write_bytes(0, n as usize - there);
    }
    SQLITE_IOERR_SHORT_READ
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    n: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: an open file, and SQLite's buffer of n bytes; the file has the bytes that are touched.
    unsafe {
        let f = own(file);
        let end = at + i64::from(n);
        if end as usize > MAPPED {
            return SQLITE_FULL;
        }
        if end > f.known_len(end) {
            if end > f.allocated {
                let allocated = if f.is_database { end } else { (end + CHUNK - 1) / CHUNK * CHUNK };
                if libc::ftruncate(f.descriptor, allocated) != 0 {
                    return SQLITE_FULL;
                }
                f.allocated = allocated;
            }
            f.len = end;
        }
        let to = f.memory.add(at as usize);
        std::ptr::copy_nonoverlapping(from.cast::<u8>(), to, n as usize);
        flush(to, n as usize);
    }
    SQLITE_OK
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, len: sqlite3_int64) -> c_int {
    // SAFETY: an open file.
    unsafe {
        let f = own(file);
        if libc::ftruncate(f.descriptor, len) != 0 {
            return SQLITE_IOERR_TRUNCATE;
        }
        (f.len, f.allocated) = (len, len);
    }
    SQLITE_OK
}

/// Every write was flushed and fenced.
unsafe extern "C" fn sync(_: *mut sqlite3_file, _: c_int) -> c_int {
    SQLITE_OK
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut sqlite3_int64) -> c_int {
    // SAFETY: an open file, and SQLite's own word.
    unsafe { *size = own(file).known_len(i64::MAX) }
    SQLITE_OK
}

/// What the VFS below does on its own file.
macro_rules! below {
    ($name:ident, $method:ident $(, $p:ident: $t:ty)*) => {
        unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $p: $t)*) -> c_int {
            // SAFETY: SQLite's arguments, handed on; the file below was opened.
            unsafe {
                match (*(*real(file)).pMethods).$method {
                    Some(method) => method(real(file) $(, $p)*),
                    None => SQLITE_OK,
                }
            }
        }
    };
}
below!(lock, xLock, level: c_int);
below!(unlock, xUnlock, level: c_int);
below!(check_reserved, xCheckReservedLock, out: *mut c_int);
below!(control, xFileControl, op: c_int, arg: *mut c_void);
below!(sector_size, xSectorSize);
below!(characteristics, xDeviceCharacteristics);
below!(shm_map, xShmMap, page: c_int, size: c_int, extend: c_int, out: *mut *mut c_void);
below!(shm_lock, xShmLock, offset: c_int, n: c_int, flags: c_int);
below!(shm_unmap, xShmUnmap, delete: c_int);

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    // SAFETY: as `below`.
    unsafe {
        if let Some(barrier) = (*(*real(file)).pMethods).xShmBarrier {
            barrier(real(file))
        }
    }
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved),
    xFileControl: Some(control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: None,
    xUnfetch: None,
};
