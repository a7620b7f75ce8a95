//! Log files: their names, how they are prepared ahead, and where everything lies.
//!
//! A stream's files are `000000000001.log`, `000000000002.log`, ... in its folder. A new file's number is
//! larger than that of any file that is there. An incarnation begins with a file of its own; where there is
//! no room for one, it goes on in the stream's last (protocol/P9).
//!
//! - **L1** A file is written with zeros from end to end and synced, and its name is synced, before its first
//!   block: a sync of a block then needs no change of the file system's own structures, and lack of space is
//!   met here, in the background, and not in the midst of a commit.
//! - **L2** A truncated file may be renamed to a later number and used again without being zeroed. What it
//!   still holds names its old number, so it is provably stale (block/B2). Numbers only grow: what a file
//!   holds names its own number, or a lower one, and no new file gets the number of what another still holds.
//! - **L3** The first file of an incarnation is small and each next one four times as large, up to the
//!   configured size, so that opening a small database costs little.
use crate::error::LogError;
use crate::ring_file::Given;
use ondol_base::media::{File, Open, Storage};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Where a log stream lies: a folder (relative) of a storage.
#[derive(Clone)]
pub struct Place {
    pub storage: Arc<dyn Storage>,
    pub folder: String,
}
impl Place {
    pub(crate) fn path(&self, number: u64) -> String {
        if self.folder.is_empty() {
            file_name(number)
        } else {
            format!("{}/{}", self.folder, file_name(number))
        }
    }
    pub(crate) fn describe(&self) -> String {
        format!("{}/{}", self.storage.describe(), self.folder)
    }
}

/// Where a database lies and how its log works.
#[derive(Clone)]
pub struct Config {
    /// The folder of the manifest and the checkpoint files.
    pub data: Arc<dyn Storage>,
    /// One for each log stream. May grow from one opening to the next; may not shrink.
    pub streams: Vec<Place>,
    /// Full size of a log file (the first ones are smaller); at least [`SMALLEST_FILE`].
    pub log_file_size: u64,
    /// Size of a stream buffer; each stream has two.
    pub buffer_size: usize,
    /// An asynchronous commit is durable about this long after.
    pub flush_interval: Duration,
    /// When commits pause for this long, one empty block records that the last round is durable.
    pub horizon_interval: Duration,
    /// Threads for recovery; 0 = as many as are worth starting.
    pub threads: usize,
    /// The ring that the log goes to (protocol/P10).
    pub ring: Option<Given>,
    /// What a ring holds, or held, and stands in the way of an opening is given up.
    pub lose_acknowledged_commits: bool,
}

/// The smallest log file: it holds the largest block that one record can need.
pub const SMALLEST_FILE: u64 = 128 << 10;
const FIRST_FILE: u64 = 1 << 20;

impl Config {
    /// Everything in one folder, its log in the subfolder `log`.
    pub fn new(data: Arc<dyn Storage>) -> Config {
        let place = Place { storage: data.clone(), folder: "log".into() };
        Config {
            data,
            streams: vec![place],
            log_file_size: 64 << 20,
            buffer_size: 4 << 20,
            flush_interval: Duration::from_millis(2),
            horizon_interval: Duration::from_millis(20),
            threads: 0,
            ring: None,
            lose_acknowledged_commits: false,
        }
    }
    fn full_size(&self) -> u64 {
        self.log_file_size.max(SMALLEST_FILE).next_multiple_of(4096)
    }
    pub(crate) fn first_size(&self) -> u64 {
        self.full_size().min(FIRST_FILE)
    }
    pub(crate) fn size_after(&self, size: u64) -> u64 {
        self.full_size().min(size.saturating_mul(4))
    }
}

pub(crate) fn file_name(number: u64) -> String {
    format!("{number:012}.log")
}
/// The number in a log file's name.
pub(crate) fn file_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    (digits.len() == 12).then(|| digits.parse().ok())?
}
/// The stream's log files, by number.
pub(crate) fn list(place: &Place) -> io::Result<Vec<u64>> {
    let mut numbers: Vec<u64> = match place.storage.list(&place.folder) {
        Ok(names) => names.iter().filter_map(|n| file_number(n)).collect(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => vec![],
        Err(e) => return Err(e),
    };
    numbers.sort_unstable();
    Ok(numbers)
}

/// A log file, ready to be written.
#[derive(Clone)]
pub(crate) struct LogFile {
    pub number: u64,
    pub size: u64,
    pub file: Arc<dyn File>,
}

/// Where a stream's life begins.
pub(crate) struct First {
    pub file: LogFile,
    /// Of the first block.
    pub offset: u64,
    /// Number and size of the file that comes next.
    pub next: (u64, u64),
}

/// Makes a file of zeros (L1), or renames `old` (L2).
pub(crate) fn prepare(place: &Place, number: u64, size: u64, old: Option<(u64, u64)>) -> io::Result<LogFile> {
    let path = place.path(number);
    if let Some((old, size)) = old {
        place.storage.rename(&place.path(old), &path)?;
        place.storage.sync_dir(&place.folder)?;
        let file = place.storage.open(&path, Open::Write)?;
        return Ok(LogFile { number, size, file });
    }
    let fill = || -> io::Result<LogFile> {
        let file = place.storage.open(&path, Open::Create)?;
        let zeros = vec![0u8; (1usize << 20).min(size as usize)];
        let mut at = 0;
        while at < size {
            let n = (size - at).min(zeros.len() as u64);
            file.write_at(&zeros[..n as usize], at)?;
            at += n;
            ondol_base::sync::yield_point();
        }
        file.sync_data()?;
        place.storage.sync_dir(&place.folder)?;
        Ok(LogFile { number, size, file })
    };
    fill().inspect_err(|_| {
        // A half-made file holds nothing; what matters is the error above, whether or not this works too. The
        // room of removed files, of this and of truncated ones, is certain to be free again when their
        // removal is durable.
        let _ = place.storage.remove(&path).and_then(|()| place.storage.sync_dir(&place.folder));
    })
}

/// Whether the medium has no room for what was asked, so that less may do.
pub(crate) fn is_full(e: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(e.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

/// How the medium says that it is full, for the stream's users.
pub(crate) fn no_space(stream: u16, place: &Place, e: &io::Error) -> LogError {
    LogError::DiskFull { stream, why: format!("{}: {e}", place.describe()) }
}
