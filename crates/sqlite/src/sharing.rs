//! Sharing blocks between the WAL and the database, and the descriptors that it takes.
//!
//! - **S1** Closing any descriptor of a database drops all POSIX locks that the process has on it, those of
//!   stock connections too. So a descriptor of a database, once opened, stays open until the process ends:
//!   one for each database that was ever shared into, as far as there is room for them (`descriptors`).
//! - **S2** A run that cannot be shared is copied; what sharing left of it is overwritten with the same
//!   bytes.
//! - **S3** `FICLONERANGE` leaves the WAL's copy alone, so a crash at any point finds the WAL whole.
//!   `XFS_IOC_EXCHANGE_RANGE` does not: what is exchanged was announced before (`exchange`). Each call
//!   happens as a whole or not at all, also in a crash.
use crate::below::Below;
use crate::descriptors::{self, Held};
use crate::ffi::{self, api};
use crate::moving;
use crate::observed::Observed;
use crate::verdict::Verdict;
use std::collections::HashMap;
use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};
use std::time::Instant;

/// What happened to one database in this process.
#[derive(Debug, Default)]
pub struct Counts {
    pub checkpoints: AtomicU64,
    pub runs_shared: AtomicU64,
    pub pages_shared: AtomicU64,
    pub pages_copied: AtomicU64,
}

impl Counts {
    /// Pages shared and copied.
    pub fn pages(&self) -> [u64; 2] {
        [&self.pages_shared, &self.pages_copied].map(|pages| pages.load(Relaxed))
    }
}

/// What `ondol=auto` makes of one database in this process.
#[derive(Debug, Default)]
pub struct Choice {
    /// Syncs of the WAL since the last checkpoint, and the time they took.
    pub syncs: AtomicU64,
    pub syncs_ns: AtomicU64,
    /// When the last checkpoint began.
    pub began: Mutex<Option<Instant>>,
    /// What such cycles took.
    pub observed: Mutex<Observed>,
    /// Having the database in care would pay.
    pub care: AtomicBool,
    /// Times that it could not be taken, since others had it open.
    pub refused: AtomicU64,
    /// Times that it could not be let go for that.
    pub stayed: AtomicU64,
    /// The last verdict, if there was something to judge.
    pub verdict: Mutex<Option<Verdict>>,
}

/// One database file of this process, whatever its connections.
#[derive(Debug, Default)]
pub struct Target {
    pub counts: Counts,
    pub choice: Choice,
    /// S1.
    file: OnceLock<Held>,
    /// Why nothing can be shared here; said once.
    refusal: OnceLock<String>,
    /// Why there was no descriptor for it, when it was last tried.
    crowded: Mutex<Option<String>>,
}

/// By device and inode. One without a connection goes, unless it has a descriptor (S1).
static TARGETS: LazyLock<Mutex<HashMap<(u64, u64), Weak<Target>>>> = LazyLock::new(Mutex::default);
/// Those with a descriptor: they stay (S1).
static KEPT: Mutex<Vec<Arc<Target>>> = Mutex::new(Vec::new());

/// In tests, a file system that shares: blocks are copied by it, with all else as in earnest.
#[doc(hidden)]
pub static PRETEND: AtomicBool = AtomicBool::new(false);
/// In tests, with `PRETEND`: it exchanges too.
#[doc(hidden)]
pub static PRETEND_EXCHANGE: AtomicBool = AtomicBool::new(false);

pub fn path_of(path: &CStr) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()))
}

/// The database at `path`, which `below` has open.
pub fn target(path: &CStr, below: &Below) -> io::Result<Arc<Target>> {
    let meta = std::fs::metadata(path_of(path))?;
    if below.has_moved() {
        return Err(io::Error::other("the path leads to another file by now"));
    }
    let mut targets = TARGETS.lock().unwrap_or_else(PoisonError::into_inner);
    targets.retain(|_, target| target.strong_count() > 0);
    let entry = targets.entry((meta.dev(), meta.ino())).or_default();
    Ok(entry.upgrade().unwrap_or_else(|| {
        let target = Arc::new(Target::default());
        *entry = Arc::downgrade(&target);
        target
    }))
}

/// Of a database that was deleted no lock matters any more, and its blocks are wanted back.
fn close_deleted() {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.retain(|target| target.kept().and_then(File::metadata).is_ok_and(|meta| meta.nlink() > 0));
}

pub fn folder(path: &CStr) -> &Path {
    path_of(path).parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the names in a file's folder durable.
pub fn sync_folder(path: &CStr) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

/// Opens a WAL for sharing from it; its descriptors carry no locks, so it may be closed any time.
pub fn source(path: &CStr) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_CLOEXEC | libc::O_NOFOLLOW)
        .open(path_of(path))
}

/// How blocks get from the WAL to the database without being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// `FICLONERANGE`: both files have the blocks, until one of them is written to.
    Clone,
    /// `XFS_IOC_EXCHANGE_RANGE`: each file has the other's.
    Exchange,
}

impl Mechanism {
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Clone => "FICLONERANGE",
            Mechanism::Exchange => "XFS_IOC_EXCHANGE_RANGE",
        }
    }
    /// Gives `target` a range of `source`.
    pub fn apply(self, source: &File, target: &File, range: Range) -> io::Result<()> {
        match self {
            Mechanism::Clone => clone_range(source, target, range),
            Mechanism::Exchange => exchange_range(source, target, range),
        }
    }
}

/// A range to share.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub from: u64,
    pub to: u64,
    pub len: u64,
}

impl Target {
    /// Why nothing can be shared here, if so.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.get().map(String::as_str)
    }
    pub fn refuse(&self, path: &CStr, why: String) {
        if self.refusal.set(why.clone()).is_ok() {
            let path = path.to_string_lossy();
            api().log(ffi::NOTICE, &format!("ondol: checkpoints of \"{path}\" copy pages: {why}"));
        }
    }
    /// The descriptor, which [`Target::file`] has opened.
    pub fn kept(&self) -> io::Result<&File> {
        self.file
            .get()
            .map(Held::deref)
            .ok_or_else(|| io::Error::other("the database's descriptor is not open"))
    }
    /// Why there was no descriptor for this database, when it was last tried.
    pub fn crowded(&self) -> Option<String> {
        self.crowded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Opens the database for this process, once (S1), where there is room for its descriptor.
    pub fn file(self: &Arc<Self>, path: &CStr, below: &Below) -> io::Result<&File> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        if descriptors::room().is_err() {
            close_deleted();
        }
        let opened = descriptors::room().and_then(|()| self.file_at_any_price(path, below));
        let why = opened.as_ref().err().filter(|error| is_crowded(error)).map(io::Error::to_string);
        let before =
            std::mem::replace(&mut *self.crowded.lock().unwrap_or_else(PoisonError::into_inner), why.clone());
        if let (Some(why), None) = (why, before) {
            let path = path.to_string_lossy();
            api().log(ffi::NOTICE, &format!("ondol: \"{path}\" is used as stock SQLite does: {why}"));
        }
        opened
    }
    /// The same, whether there is room or not: where without it nothing could be written.
    pub fn file_at_any_price(self: &Arc<Self>, path: &CStr, below: &Below) -> io::Result<&File> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let targets = TARGETS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let file = descriptors::open(
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC),
            path_of(path),
        )?;
        let meta = file.metadata()?;
        let ours = targets.get(&(meta.dev(), meta.ino())).is_some_and(|t| t.as_ptr() == Arc::as_ptr(self));
        if !ours || below.has_moved() {
            // S1: not even a descriptor of the wrong file is closed, since it may be another database.
            std::mem::forget(file);
            return Err(io::Error::other("the path leads to another file by now"));
        }
        close_deleted();
        KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(self.clone());
        Ok(self.file.get_or_init(|| file))
    }
    /// Gives the database at `path` a range of the WAL; whether it did, and then the range's content where it
    /// is exchanged. `expected` are the bytes at the range's start, which SQLite has just read.
    pub fn share(
        self: &Arc<Self>,
        path: &CStr,
        below: &Below,
        source: &File,
        range: Range,
        expected: &[u8],
        how: Mechanism,
    ) -> Option<Vec<u8>> {
        if self.refusal().is_some() {
            return None;
        }
        let known = if how == Mechanism::Exchange { range.len as usize } else { expected.len() };
        let mut content = vec![0; known];
        let attempt = self.file(path, below).and_then(|file| {
            source.read_exact_at(&mut content, range.from)?;
            if !content.starts_with(expected) {
                return Err(io::Error::other("the WAL's path leads to another file by now"));
            }
            how.apply(source, file, range)
        });
        match attempt {
            Ok(()) => Some(content),
            Err(error) => {
                if !passes(&error) {
                    self.refuse(path, why(folder(path), &error));
                }
                None
            }
        }
    }
    /// Makes what was shared durable.
    pub fn sync(&self) -> io::Result<()> {
        self.file.get().map_or(Ok(()), |file| file.sync_all())
    }
}

/// Why nothing can be shared in a folder, after this error.
pub fn why(folder: &Path, error: &io::Error) -> String {
    let mut why = format!("blocks cannot be shared here: {error}");
    if moving::is_f2fs(folder) {
        why += "; F2FS_IOC_MOVE_RANGE ";
        why += &moving::probe(folder).map_or_else(|e| format!("fails: {e}"), |found| found.told().into());
    }
    why
}

/// Whether an error says that no more files can be opened.
pub fn is_crowded(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::QuotaExceeded && error.raw_os_error().is_none()
        || matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Whether an error of sharing may be gone next time: a full disk, an interruption.
pub fn passes(error: &io::Error) -> bool {
    if is_crowded(error) {
        return true;
    }
    matches!(
        error.raw_os_error(),
        Some(libc::ENOSPC | libc::EDQUOT | libc::EINTR | libc::EIO | libc::ENOMEM | libc::EAGAIN)
    )
}

pub fn clone_range(source: &File, target: &File, range: Range) -> io::Result<()> {
    if PRETEND.load(Relaxed) {
        let mut bytes = vec![0; range.len as usize];
        source.read_exact_at(&mut bytes, range.from)?;
        return target.write_all_at(&bytes, range.to);
    }
    let arg = libc::file_clone_range {
        src_fd: i64::from(source.as_raw_fd()),
        src_offset: range.from,
        src_length: range.len,
        dest_offset: range.to,
    };
    // SAFETY: both descriptors are open, and the kernel reads the structure during the call alone.
    if unsafe { libc::ioctl(target.as_raw_fd(), libc::FICLONERANGE, &arg) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Exchanges a range of the WAL with one of the database, which grows if it is shorter.
pub fn exchange_range(source: &File, target: &File, range: Range) -> io::Result<()> {
    #[repr(C)]
    struct Exchange {
        other: i32,
        pad: u32,
        other_at: u64,
        at: u64,
        len: u64,
        flags: u64,
    }
    /// `_IOW('X', 129, struct xfs_exchange_range)`
    const EXCHANGE_RANGE: u32 = 0x4028_5881;
    let end = range.to + range.len;
    if target.metadata()?.len() < end {
        target.set_len(end)?;
    }
    if PRETEND.load(Relaxed) {
        if !PRETEND_EXCHANGE.load(Relaxed) {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let (mut ours, mut theirs) = (vec![0; range.len as usize], vec![0; range.len as usize]);
        source.read_exact_at(&mut ours, range.from)?;
        target.read_exact_at(&mut theirs, range.to)?;
        // Others may read meanwhile: the one side or the other must have the WAL's pages.
        target.write_all_at(&ours, range.to)?;
        return source.write_all_at(&theirs, range.from);
    }
    let arg = Exchange {
        other: source.as_raw_fd(),
        pad: 0,
        other_at: range.from,
        at: range.to,
        len: range.len,
        flags: 0,
    };
    // SAFETY: both descriptors are open, and the kernel reads the structure during the call alone.
    if unsafe { libc::ioctl(target.as_raw_fd(), EXCHANGE_RANGE as _, &arg) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
