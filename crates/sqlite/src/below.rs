//! A file of the VFS below us (`unix`), which does all I/O, locking and shared memory.
//!
//! - **B1** The structure lives in memory of our own until it is closed, and its name as long: `unix` keeps
//!   the pointer.
//! - **B2** Only its connection's thread uses it, as SQLite's contract for `sqlite3_file` has it.
use crate::ffi::{self, Vfs, api};
use crate::medium::Medium;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::io;

/// A result code of SQLite as an error.
#[derive(Debug)]
pub struct Code(pub c_int);
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SQLite's error {}", self.0)
    }
}
impl std::error::Error for Code {}

pub fn check(code: c_int) -> io::Result<()> {
    if code == ffi::OK { Ok(()) } else { Err(io::Error::other(Code(code))) }
}

/// The code that an error came from, or `otherwise`.
pub fn code_of(error: &io::Error, otherwise: c_int) -> c_int {
    error.get_ref().and_then(|e| e.downcast_ref::<Code>()).map_or(otherwise, |code| code.0)
}

/// A name as `xOpen` wants it: the zeros around it are where SQLite's own names have their URI parameters.
pub struct Name(Vec<u8>);

impl Name {
    const BEFORE: usize = 4;

    pub fn new(path: &CStr) -> Name {
        let mut bytes = vec![0; Name::BEFORE];
        bytes.extend_from_slice(path.to_bytes());
        bytes.extend_from_slice(&[0; 8]);
        Name(bytes)
    }
    pub fn ptr(&self) -> *const c_char {
        self.0[Name::BEFORE..].as_ptr().cast()
    }
}

/// An open file of the VFS below.
pub struct Below {
    memory: Box<[u64]>,
    /// B1: none where SQLite keeps the name itself.
    _name: Option<Name>,
}

macro_rules! call {
    ($self:expr, $method:ident $(, $arg:expr)*) => {{
        let file = $self.file();
        // SAFETY: the file is open (B1) and used by its own thread alone (B2); `unix` has all methods of
        // version 2.
        unsafe {
            match (*(*file).methods).$method {
                Some(method) => method(file $(, $arg)*),
                None => ffi::ERROR,
            }
        }
    }};
}

impl Below {
    /// Opens a file; gives the flags it was opened with.
    ///
    /// # Safety
    /// `name` is a name as `xOpen` wants it, and lives until the file is closed unless `keep` holds it.
    pub unsafe fn open(
        vfs: *mut Vfs,
        name: *const c_char,
        keep: Option<Name>,
        flags: c_int,
    ) -> Result<(Below, c_int), c_int> {
        // SAFETY: the VFS below stays registered.
        let (size, open) = unsafe { ((*vfs).os_file_size as usize, (*vfs).open) };
        let below = Below { memory: vec![0; size.div_ceil(8)].into_boxed_slice(), _name: keep };
        let mut out = flags;
        // SAFETY: the memory is large enough, zeroed, and stays in place.
        let code = unsafe { open.map_or(ffi::ERROR, |open| open(vfs, name, below.file(), flags, &mut out)) };
        if code != ffi::OK {
            below.close();
            return Err(code);
        }
        Ok((below, out))
    }
    pub fn file(&self) -> *mut ffi::File {
        self.memory.as_ptr().cast_mut().cast()
    }
    /// Closes the file, if it was opened.
    pub fn close(self) -> c_int {
        // SAFETY: B1; a file whose opening failed may have no methods.
        if unsafe { (*self.file()).methods.is_null() } {
            return ffi::OK;
        }
        call!(self, close)
    }
    pub fn read(&self, buf: *mut c_void, n: c_int, offset: i64) -> c_int {
        call!(self, read, buf, n, offset)
    }
    pub fn write(&self, buf: *const c_void, n: c_int, offset: i64) -> c_int {
        call!(self, write, buf, n, offset)
    }
    pub fn truncate(&self, len: i64) -> c_int {
        call!(self, truncate, len)
    }
    pub fn sync_as(&self, flags: c_int) -> c_int {
        call!(self, sync, flags)
    }
    pub fn file_size(&self, len: *mut i64) -> c_int {
        call!(self, file_size, len)
    }
    pub fn lock(&self, level: c_int) -> c_int {
        call!(self, lock, level)
    }
    pub fn unlock(&self, level: c_int) -> c_int {
        call!(self, unlock, level)
    }
    pub fn check_reserved_lock(&self, out: *mut c_int) -> c_int {
        call!(self, check_reserved_lock, out)
    }
    pub fn file_control(&self, op: c_int, arg: *mut c_void) -> c_int {
        call!(self, file_control, op, arg)
    }
    pub fn sector_size(&self) -> c_int {
        call!(self, sector_size)
    }
    pub fn device_characteristics(&self) -> c_int {
        call!(self, device_characteristics)
    }
    pub fn shm_map(&self, region: c_int, size: c_int, extend: c_int, out: *mut *mut c_void) -> c_int {
        call!(self, shm_map, region, size, extend, out)
    }
    pub fn shm_lock(&self, at: c_int, n: c_int, flags: c_int) -> c_int {
        call!(self, shm_lock, at, n, flags)
    }
    pub fn shm_barrier(&self) {
        let file = self.file();
        // SAFETY: B1, B2.
        if let Some(barrier) = unsafe { (*(*file).methods).shm_barrier } {
            // SAFETY: as above.
            unsafe { barrier(file) }
        }
    }
    pub fn shm_unmap(&self, delete: c_int) -> c_int {
        call!(self, shm_unmap, delete)
    }
    /// Whether the path leads to another file by now.
    pub fn has_moved(&self) -> bool {
        let mut moved: c_int = 0;
        let code = self.file_control(ffi::FCNTL_HAS_MOVED, (&raw mut moved).cast());
        code != ffi::OK || moved != 0
    }
}

impl Medium for Below {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let code = self.read(buf.as_mut_ptr().cast(), buf.len() as c_int, offset as i64);
        if code != ffi::IOERR_SHORT_READ {
            return check(code).map(|()| buf.len());
        }
        // SQLite's answer does not say how much there was; the rest is zero.
        Ok(self.len()?.saturating_sub(offset).min(buf.len() as u64) as usize)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        // `unix` drops the bits of a length from 128 KiB on, and takes the zero bytes that are left of such a
        // one for a full disk.
        const MOST: usize = 64 << 10;
        for (i, part) in buf.chunks(MOST).enumerate() {
            check(self.write(part.as_ptr().cast(), part.len() as c_int, offset as i64 + (i * MOST) as i64))?;
        }
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        check(self.sync_as(ffi::SYNC_NORMAL))
    }
    fn len(&self) -> io::Result<u64> {
        let mut len = 0;
        check(self.file_size(&mut len)).map(|()| len as u64)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        check(self.truncate(len as i64))
    }
}

/// Deletes a file; one that is not there is no error.
pub fn delete(vfs: *mut Vfs, path: &CStr, sync_folder: bool) -> io::Result<()> {
    // SAFETY: the VFS below stays registered; a deleted path need not be a name of `xOpen`.
    let code = unsafe {
        (*vfs).delete.map_or(ffi::ERROR, |delete| delete(vfs, path.as_ptr(), c_int::from(sync_folder)))
    };
    const IOERR_DELETE_NOENT: c_int = ffi::IOERR | 23 << 8;
    if code == IOERR_DELETE_NOENT { Ok(()) } else { check(code) }
}

/// Whether a file is there and not empty.
pub fn exists(vfs: *mut Vfs, path: &CStr) -> io::Result<bool> {
    let mut found = 0;
    // SAFETY: the VFS below stays registered.
    let code = unsafe {
        (*vfs).access.map_or(ffi::ERROR, |access| access(vfs, path.as_ptr(), ffi::ACCESS_EXISTS, &mut found))
    };
    check(code).map(|()| found != 0)
}

/// Whether there is anything at a path.
pub fn is_there(path: &CStr) -> bool {
    std::fs::symlink_metadata(crate::sharing::path_of(path)).is_ok()
}

/// A path with something appended.
pub fn with_suffix(path: &CStr, suffix: &str) -> CString {
    let mut bytes = path.to_bytes().to_vec();
    bytes.extend_from_slice(suffix.as_bytes());
    CString::new(bytes).unwrap_or_else(|_| path.to_owned())
}

/// Logs what went wrong with a file and gives the code to return.
pub fn report(what: &str, path: &CStr, error: &io::Error, otherwise: c_int) -> c_int {
    let code = code_of(error, otherwise);
    api().log(code, &format!("ondol: cannot {what} \"{}\": {error}", path.to_string_lossy()));
    code
}
