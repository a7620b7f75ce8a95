//! The file of a log's ring: its database, its promise, and its memory. The ring itself is `ondol_ring`'s.
//!
//! Its first sector, little-endian, is written once, when the ring is made:
//! ```text
//!   0 "ondol log ring 1"   16 slot size u32   20 promise u32 (0 server-crash, 1 power-failure)   24 length u64   32 number u64
//!  40 the database's folder: inode u64, birth s u64, birth ns u64   64 length of its path u32   68 the path, at most 440 bytes
//! 508 CRC-32C of 0..508
//! ```
//! - **W1** A file gets its name when it is a whole ring: what else is under that name is not touched.
//! - **W2** Of the ring's words FREED alone lies in the file. The others are the running process's own, in
//!   its memory.
//!
//! A crash while it is made leaves a file with [`UNFINISHED`] behind its name, which the next making
//! overwrites.
use crate::error::{RecoveryError, RingError};
use ondol_base::crc::crc32c;
use ondol_base::media::{File, Identity, Lock, Mapped, Open, Promise as Fenced, Storage};
use ondol_base::sim::mutated;
use ondol_ring::{FREED, HEADER, LEAST, Memory, Ring, SLOT};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const MAGIC: &[u8; 16] = b"ondol log ring 1";
/// Bytes that are written at once, or not at all (media/M3).
const SECTOR: usize = 512;
const PATH: usize = 440;
const UNFINISHED: &str = ".new";
/// The system's number for input or output that failed.
const ILL: i32 = 5;
/// Bytes of a new ring if nothing else is asked for.
pub const USUAL_SIZE: u64 = 64 << 20;

/// What commits on a ring survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// The end of the process, not a power failure: the ring is in memory that is not persistent, or not
    /// mapped so.
    ServerCrash,
    /// Both: the file is mapped with `MAP_SYNC`.
    PowerFailure,
}
impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Promise::ServerCrash => "server-crash",
            Promise::PowerFailure => "power-failure",
        })
    }
}
impl Promise {
    pub fn named(name: &str) -> Option<Promise> {
        [Promise::ServerCrash, Promise::PowerFailure].into_iter().find(|p| p.to_string() == name)
    }
}

/// The ring that an opening is given.
#[derive(Clone)]
pub struct Given {
    /// Its folder.
    pub storage: Arc<dyn Storage>,
    pub name: String,
    /// Bytes: of a new ring, and what one that is there must have. `None`: [`USUAL_SIZE`], and whatever is
    /// there.
    pub size: Option<u64>,
    /// Of a new ring, and what one that is there must have. `None`: a power failure, and whatever is there.
    pub promise: Option<Promise>,
    /// Entries wait so long, that one sync of a file serves for many; or until a part of the ring is live.
    pub wait: Duration,
}
impl Given {
    pub const USUAL_WAIT: Duration = Duration::from_millis(20);
    /// For messages and the mark: where the ring is.
    pub fn path(&self) -> String {
        format!("{}/{}", self.storage.describe(), self.name)
    }
    /// Keeps every other database from the ring.
    pub(crate) fn lock(&self) -> Result<Box<dyn Lock>, RecoveryError> {
        let name = format!("{}.lock", self.name);
        self.storage.lock(&name).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => RingError::InUse { ring: self.path() }.into(),
            _ => self.failed(error),
        })
    }
    pub(crate) fn failed(&self, error: io::Error) -> RecoveryError {
        RecoveryError::Io { file: self.path(), error }
    }
    fn unfit(&self, expected: impl fmt::Display, found: impl fmt::Display) -> RecoveryError {
        let (expected, found) = (expected.to_string(), found.to_string());
        RingError::Unfit { ring: self.path(), expected, found }.into()
    }
}

/// What a ring's file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub promise: Promise,
    pub len: u64,
    /// The ring's own, of all rings.
    pub number: u64,
    /// The folder of its database.
    pub folder: Identity,
    /// Where that was when the ring was made, for messages.
    pub path: String,
}
impl Header {
    fn encode(&self) -> [u8; SECTOR] {
        let mut b = [0; SECTOR];
        b[..16].copy_from_slice(MAGIC);
        b[16..20].copy_from_slice(&(SLOT as u32).to_le_bytes());
        b[20..24].copy_from_slice(&u32::from(self.promise == Promise::PowerFailure).to_le_bytes());
        let (s, ns) = self.folder.birth;
        for (i, word) in [self.len, self.number, self.folder.inode, s, ns].into_iter().enumerate() {
            b[24 + 8 * i..][..8].copy_from_slice(&word.to_le_bytes())
        }
        let path = &self.path.as_bytes()[..self.path.len().min(PATH)];
        b[64..68].copy_from_slice(&(path.len() as u32).to_le_bytes());
        b[68..][..path.len()].copy_from_slice(path);
        let crc = crc32c(&b[..SECTOR - 4]);
        b[SECTOR - 4..].copy_from_slice(&crc.to_le_bytes());
        b
    }
    fn decode(b: &[u8; SECTOR]) -> Option<Header> {
        let word = |at: usize| b[at..].first_chunk().map_or(0, |w| u64::from_le_bytes(*w));
        let half = |at: usize| word(at) as u32;
        if b[..16] != *MAGIC
            || crc32c(&b[..SECTOR - 4]).to_le_bytes() != b[SECTOR - 4..]
            || half(16) != SLOT as u32
        {
            return None;
        }
        Some(Header {
            promise: if half(20) == 1 { Promise::PowerFailure } else { Promise::ServerCrash },
            len: word(24),
            number: word(32),
            folder: Identity { inode: word(40), birth: (word(48), word(56)) },
            path: String::from_utf8_lossy(b[68..].get(..half(64) as usize)?).into_owned(),
        })
    }
}

/// An open ring.
pub(crate) struct RingFile {
    pub header: Header,
    pub ring: Ring<Words>,
}

/// Opens the ring that is there; `None` where no file has its name. `folder`: the database's.
pub(crate) fn open(given: &Given, folder: Identity) -> Result<Option<RingFile>, RecoveryError> {
    let failed = |e| given.failed(e);
    let file = match given.storage.open(&given.name, Open::Write) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let mut sector = [0; SECTOR];
    let there = file.read_at(&mut sector, 0).map_err(failed)?;
    let header = Header::decode(&sector).filter(|_| there == SECTOR);
    let len = file.len().map_err(failed)?;
    let Some(header) = header.filter(|h| len >= h.len && h.len >= smallest()) else {
        return Err(given.unfit("the ring of a log, or no file", "something else, or a damaged one"));
    };
    if header.folder != folder {
        return Err(RingError::Foreign { ring: given.path(), owner: header.path }.into());
    }
    if let Some(size) = given.size.filter(|s| *s != header.len) {
        return Err(given.unfit(format!("{size} bytes"), format!("{} bytes", header.len)));
    }
    if let Some(promise) = given.promise.filter(|p| *p != header.promise) {
        return Err(given.unfit(format!("the promise {promise}"), header.promise));
    }
    let ring = map(given, &file, header.len, header.promise)?;
    Ok(Some(RingFile { header, ring }))
}

/// Makes the ring, whose file is not there (W1). `folder` and `path`: the database's.
pub(crate) fn make(given: &Given, folder: Identity, path: String) -> Result<(), RecoveryError> {
    let failed = |e| given.failed(e);
    let len = given.size.unwrap_or(USUAL_SIZE);
    if len < smallest() || usize::try_from(len).is_err() {
        return Err(given.unfit(format!("a size of {} bytes at least", smallest()), len));
    }
    let promise = given.promise.unwrap_or(Promise::PowerFailure);
    let unfinished = format!("{}{UNFINISHED}", given.name);
    let make = || {
        let file = given.storage.open(&unfinished, Open::OpenOrCreate).map_err(failed)?;
        file.set_len(0).map_err(failed)?;
        // Zeros that are written, not left out: a commit must not be the first to find no room.
        let zeros = vec![0; (1 << 20).min(len as usize)];
        let mut at = 0;
        while at < len {
            let n = (len - at).min(zeros.len() as u64);
            file.write_at(&zeros[..n as usize], at).map_err(failed)?;
            at += n;
        }
        map(given, &file, len, promise)?.format();
        let number = ondol_base::random::next_u64();
        let header = Header { promise, len, number, folder, path };
        let done = file.write_at(&header.encode(), 0).and_then(|()| file.sync_data());
        done.and_then(|()| given.storage.rename(&unfinished, &given.name))
            .and_then(|()| given.storage.sync_dir(""))
            .map_err(failed)
    };
    make().inspect_err(|_| {
        // What matters is the error above; the next making begins with this file, if it stays.
        let _ = given.storage.remove(&unfinished);
    })
}

/// The length of a ring of so many slots.
pub fn bytes_of(slots: u64) -> u64 {
    HEADER as u64 + slots * SLOT as u64
}
fn smallest() -> u64 {
    bytes_of(LEAST)
}

fn map(
    given: &Given,
    file: &Arc<dyn File>,
    len: u64,
    promise: Promise,
) -> Result<Ring<Words>, RecoveryError> {
    let map = file.map(len as usize).map_err(|e| given.failed(e))?;
    if promise == Promise::PowerFailure && map.promise() != Fenced::Fence {
        return Err(RingError::NotPersistent { ring: given.path() }.into());
    }
    let ring = Ring::new(Words::new(map, file.clone()), len as usize);
    ring.ok_or_else(|| given.unfit(format!("a size of {} bytes at least", smallest()), len))
}

/// A ring's memory: slots and FREED in the mapping, the other words in the process's own memory (W2).
pub(crate) struct Words {
    map: Box<dyn Mapped>,
    file: Arc<dyn File>,
    own: Box<[AtomicU64]>,
}
impl Words {
    fn new(map: Box<dyn Mapped>, file: Arc<dyn File>) -> Words {
        let mut freed = [0; 8];
        map.read(FREED, &mut freed);
        let own: Box<[AtomicU64]> = (0..HEADER / 8).map(|_| AtomicU64::new(0)).collect();
        own[FREED / 8].store(u64::from_le_bytes(freed), Ordering::SeqCst);
        Words { map, file, own }
    }
    fn own(&self, at: usize) -> &AtomicU64 {
        &self.own[at / 8]
    }
    /// One thread at a time changes FREED (ring/I5).
    fn keep(&self, at: usize) {
        if at == FREED && !mutated("ring_freed_not_durable") {
            self.map.copy(at, &self.word(at).to_le_bytes())
        }
    }
}
impl Memory for Words {
    fn copy(&self, at: usize, bytes: &[u8]) {
        self.map.copy(at, bytes)
    }
    fn flush(&self, at: usize) {
        if at == FREED {
            self.map.flush(at, 8)
        }
    }
    fn fence(&self) {
        if !mutated("ring_unfenced") {
            self.map.fence()
        }
    }
    fn settle(&self) -> Result<(), i32> {
        match self.map.promise() {
            Fenced::Fence => Ok(()),
            Fenced::Sync => self.file.sync_data().map_err(|_| ILL),
        }
    }
    fn read(&self, at: usize, to: &mut [u8]) {
        self.map.read(at, to)
    }
    fn word(&self, at: usize) -> u64 {
        self.own(at).load(Ordering::SeqCst)
    }
    fn set(&self, at: usize, value: u64) {
        self.own(at).store(value, Ordering::SeqCst);
        self.keep(at)
    }
    fn raise(&self, at: usize, value: u64) {
        self.own(at).fetch_max(value, Ordering::SeqCst);
        self.keep(at)
    }
    fn count(&self, at: usize, more: u64) {
        self.own(at).fetch_add(more, Ordering::Relaxed);
    }
    fn exchange(&self, at: usize, old: u64, new: u64) -> bool {
        self.own(at).compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}
