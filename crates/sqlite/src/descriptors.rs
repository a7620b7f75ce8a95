//! Descriptors that are open beyond SQLite's own: of databases that blocks are shared into, and of mapped
//! files.
//!
//! Those of databases stay until the process ends (sharing/S1), so without a bound a process that opens one
//! database after the other would end up unable to open anything. They are a quarter of what the process may
//! open, at most. Beyond it checkpoints copy and files are not mapped: as stock SQLite has it.
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static HELD: AtomicUsize = AtomicUsize::new(0);

/// An open file that is counted.
#[derive(Debug)]
pub struct Held(File);

impl Deref for Held {
    type Target = File;
    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Relaxed);
    }
}

/// The most that are held, and what the process may open.
fn bounds() -> (usize, u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: room for the answer.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    (usize::try_from(limit.rlim_cur / 4).unwrap_or(usize::MAX), limit.rlim_cur)
}

/// Whether one more may be held; the error says why not, and passes.
pub fn room() -> io::Result<()> {
    let (most, limit) = bounds();
    if HELD.load(Relaxed) < most {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::QuotaExceeded,
        format!(
            "this process may open {limit} files, and a quarter of them are descriptors of databases already"
        ),
    ))
}

/// Opens a file that is held; whether there is room was asked before.
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<Held> {
    let file = options.open(path)?;
    HELD.fetch_add(1, Relaxed);
    Ok(Held(file))
}
