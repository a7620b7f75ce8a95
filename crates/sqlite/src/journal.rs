//! A mapped database's rollback journal.
//!
//! SQLite opens it anew for each transaction, so its window stays with the database between two of them, for
//! as long as the path leads to the same file.
use crate::below::Below;
use crate::database::Database;
use crate::descriptors;
use crate::ffi;
use crate::sharing;
use crate::window::{Kind, Window};
use std::ffi::{CStr, c_int};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// An open journal. The window to it is the database's.
pub struct Journal {
    pub below: Below,
    /// database/D1.
    database: *mut Database,
    /// Opened for writing, and the database's window is to this file.
    mapped: bool,
}

/// A window to a file with a name that carries no locks.
pub struct Named {
    /// Device and inode.
    id: (u64, u64),
    pub window: Window,
}

impl Named {
    pub fn open(path: &CStr, kind: Kind) -> io::Result<Named> {
        descriptors::room()?;
        let file = descriptors::open(
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW),
            sharing::path_of(path),
        )?;
        let meta = file.metadata()?;
        Ok(Named { id: (meta.dev(), meta.ino()), window: Window::new(Box::new(file), kind) })
    }
    /// Whether the path leads to this file.
    pub fn is_at(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.id)
    }
}

impl Journal {
    /// # Safety
    /// The database is the connection's, and closed later than this journal.
    pub unsafe fn new(below: Below, database: *mut Database, mapped: bool) -> Journal {
        Journal { below, database, mapped }
    }
    /// The window, which must learn of everything.
    fn any_window(&mut self) -> Option<&mut Window> {
        // SAFETY: database/D1.
        if self.mapped { unsafe { (*self.database).journal_window(0) } } else { None }
    }
    /// The window, while this connection alone may change the journal.
    fn window(&mut self) -> Option<&mut Window> {
        // SAFETY: database/D1.
        if self.mapped { unsafe { (*self.database).journal_window(ffi::LOCK_RESERVED) } } else { None }
    }
    pub fn close(mut self) -> c_int {
        if let Some(window) = self.any_window() {
            window.doubt();
        }
        self.below.close()
    }
    pub fn read(&mut self, buf: &mut [u8], offset: i64) -> c_int {
        if self.window().is_some_and(|window| window.read(buf, offset as u64)) {
            return ffi::OK;
        }
        self.below.read(buf.as_mut_ptr().cast(), buf.len() as c_int, offset)
    }
    pub fn write(&mut self, buf: &[u8], offset: i64) -> c_int {
        if self.window().is_some_and(|window| window.store(buf, offset as u64)) {
            return ffi::OK;
        }
        let code = self.below.write(buf.as_ptr().cast(), buf.len() as c_int, offset);
        if let Some(window) = self.any_window() {
            window.written(offset as u64, buf.len(), code == ffi::OK);
        }
        code
    }
    pub fn truncate(&mut self, len: i64) -> c_int {
        if let Some(window) = self.any_window() {
            window.changed();
        }
        self.below.truncate(len)
    }
    pub fn sync(&mut self, flags: c_int) -> c_int {
        if self.window().is_some_and(|window| !window.sync()) {
            return ffi::OK;
        }
        let code = self.below.sync_as(flags);
        if code == ffi::OK
            && let Some(window) = self.window()
        {
            window.synced();
        }
        code
    }
}
