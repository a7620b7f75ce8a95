//! Media: the one narrow seam through which bytes become durable.
//!
//! A [`Storage`] is a folder; paths are relative to it, with `/` between parts. Implementations: the disk
//! (`disk`), and the simulated one in [`crate::sim`].
//!
//! What a medium promises, and all that callers may rely on:
//! - **M1** Bytes written are durable once a later [`File::sync_data`] through the same opened file returned
//!   `Ok`. Of what was written through another one, before this one was opened, it says nothing: that it
//!   failed, the system may have told somebody else.
//! - **M2** A created, renamed or removed name is durable once [`Storage::sync_dir`] of its folder returned
//!   `Ok`.
//! - **M3** Without a sync, any subset of written 512-byte sectors may survive a power failure, in any order.
//! - **M4** After a failed sync nothing is known of the bytes written since the last good one.
//! - **M5** In mapped memory, bytes are durable once copied, flushed and fenced; before that any subset of
//!   the 64-byte lines may be; an aligned 8-byte word is never torn. A fence speaks for its own thread alone:
//!   it completes what that thread copied and flushed.
use std::io;
use std::sync::Arc;

pub mod disk;
pub mod mapping;

/// A path within a storage, without a trailing slash; the root is "" or ".". Refuses what leads elsewhere.
pub(crate) fn relative(path: &str) -> io::Result<&str> {
    let inner = path.strip_suffix('/').filter(|p| !p.is_empty()).unwrap_or(path);
    if inner.is_empty() || inner == "." {
        return Ok("");
    }
    if inner.split('/').any(|part| matches!(part, "" | "." | "..")) || inner.contains('\0') {
        let why = format!(
            "\"{}\" is not a path within a storage: expected names with / between",
            path.escape_debug()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(inner)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Must exist; not to be written.
    Read,
    /// Must exist.
    Write,
    /// Must not exist.
    Create,
    /// Made when absent.
    OpenOrCreate,
}

// The length is asked of the medium and may fail; emptiness is nobody's question.
#[allow(clippy::len_without_is_empty)]
pub trait File: Send + Sync {
    /// Fills `buf` from `offset`; fewer bytes only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `buf`, growing the file.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the bytes (and the length) durable.
    fn sync_data(&self) -> io::Result<()>;
    fn len(&self) -> io::Result<u64>;
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Maps the first `len` bytes of the file, which must be that long.
    fn map(&self, len: usize) -> io::Result<Box<dyn Mapped>>;
    /// Fills `buf` from `offset`, or `UnexpectedEof`.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if self.read_at(buf, offset)? < buf.len() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

/// What makes bytes in mapped memory durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// A fence stands for a flush (`MAP_SYNC` on persistent memory).
    Fence,
    /// Only [`File::sync_data`] does; a fence alone survives a process crash, not a power failure.
    Sync,
}

pub trait Mapped: Send + Sync {
    fn len(&self) -> usize;
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    fn promise(&self) -> Promise;
    /// Copies by non-temporal stores; durable after the next [`Mapped::fence`] where the promise is `Fence`.
    fn copy(&self, offset: usize, bytes: &[u8]);
    /// Reads what this process would see.
    fn read(&self, offset: usize, buf: &mut [u8]);
    /// Writes back the cache lines of a range stored to by other means.
    fn flush(&self, offset: usize, len: usize);
    /// Orders and completes what was copied and flushed before.
    fn fence(&self);
}

/// Which folder one is, whatever its name: a copy, or another one in its place, has another identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub inode: u64,
    /// When it was made: seconds since 1970 and nanoseconds.
    pub birth: (u64, u64),
}

/// An exclusive hold on a folder, released when dropped or when the process dies.
pub trait Lock: Send + Sync {}

pub trait Storage: Send + Sync {
    fn open(&self, path: &str, how: Open) -> io::Result<Arc<dyn File>>;
    fn exists(&self, path: &str) -> io::Result<bool>;
    /// Names in a folder, sorted.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;
    /// Makes a folder (and its parents); no error when it exists.
    fn create_dir(&self, folder: &str) -> io::Result<()>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, folder: &str) -> io::Result<()>;
    /// Takes the exclusive lock file `path`; `WouldBlock` when someone has it.
    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>>;
    /// For messages: where this is.
    fn describe(&self) -> String;
    /// `Unsupported` where the file system keeps no birth times.
    fn identity(&self) -> io::Result<Identity>;
}
