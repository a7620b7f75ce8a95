//! A medium whose syncs of log blocks return at once: the blocks are in a ring as well, durable when they are
//! written (protocol/P10).
//!
//! ```text
//!  write_at:  block ──> the folder's own file ──> the ring, fenced        sync_data: has the ring failed?
//!  drain:     sync of the file ──> FREED, fenced ──> room                 every so often, or when a part is full
//! ```
//! It keeps media/M1 to media/M5, so that the log's rules stay what they are. The ring's rules are pgwal/R1
//! to pgwal/R9.
//!
//! - **E1** Files whose name has a number go to the ring; an entry names stream, number and incarnation.
//! - **E2** A file made through the medium is written past the ring until its first sync, which is real:
//!   zeros and name (files/L1) are the file system's before the first entry.
//! - **E3** Names change over an empty ring: before one is taken or given away, what the ring holds of it is
//!   drained (pgwal/R9).
//! - **E4** After a failed sync of a drain every later write and sync of any stream fails (protocol/P7). What
//!   was acknowledged before is live in the ring, and the next opening writes it again (media/M4).
//! - **E5** One process uses a ring, by its lock; within it one thread at a time writes to it, by a mutex
//!   before the ring's own lock.
//!
//! Recovery does not pass through here: it writes to the folders' own files, and syncs, over an empty ring.
use crate::files::{self, Place};
use crate::mark;
use crate::ring_file::{Given, Words};
use ondol_base::media::{File, Identity, Lock, Mapped, Open, Storage};
use ondol_base::sim::{self, mutated};
use ondol_base::sync::{Condvar, Mutex};
use ondol_base::thread::{self, JoinHandle};
use ondol_ring::{Error, Files, Memory, Ring, Segment};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// No entry waits once this part of the ring is live.
const PART: u64 = 4;
/// The system's number for input or output that failed.
const ILL: i32 = 5;

/// A running log's ring.
pub(crate) struct Ringed {
    shared: Arc<Shared>,
    drain: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    ring: Ring<Words>,
    path: String,
    /// How long entries wait.
    wait: Duration,
    incarnation: u64,
    /// Before the ring's own lock, which is not waited for but asked again and again.
    gate: Mutex<()>,
    /// By stream and number: what the log writes to, and what the ring may hold entries of.
    files: Mutex<BTreeMap<(u32, u64), Arc<dyn File>>>,
    /// What the system said of the sync that failed.
    why: OnceLock<String>,
    /// The drain is to end.
    stop: Mutex<bool>,
    bell: Condvar,
    /// The drain waits for the bell alone.
    rests: AtomicBool,
}

impl Ringed {
    /// The medium for a life of the log; the ring is empty.
    pub fn start(ring: Ring<Words>, given: &Given, incarnation: u64) -> io::Result<Ringed> {
        let shared = Arc::new(Shared {
            ring,
            path: given.path(),
            wait: given.wait,
            incarnation,
            gate: Mutex::default(),
            files: Mutex::default(),
            why: OnceLock::new(),
            stop: Mutex::new(false),
            bell: Condvar::new(),
            rests: AtomicBool::new(false),
        });
        let s = shared.clone();
        let drain = thread::spawn("log-ring", move || s.drain_in_background())?;
        Ok(Ringed { shared, drain: Mutex::new(Some(drain)) })
    }
    /// The log folder of a stream, through the ring.
    pub fn place(&self, stream: usize, place: &Place) -> Place {
        let (shared, under) = (self.shared.clone(), place.storage.clone());
        let storage = Arc::new(RingedStorage { shared, under, stream: stream as u32 });
        Place { storage, folder: place.folder.clone() }
    }
    /// A file of the stream that is whole and synced, with its name, through the ring.
    pub fn adopt(&self, stream: usize, number: u64, under: Arc<dyn File>) -> Arc<dyn File> {
        self.shared.clone().file(stream as u32, number, under, false)
    }
    /// Ends the drain's thread. What it has not brought home stays in the ring.
    pub fn stop(&self) {
        *self.shared.stop.lock() = true;
        self.shared.bell.notify_all();
        if let Some(drain) = self.drain.lock().take() {
            // A thread that panicked has nothing more to give.
            drop(drain.join())
        }
    }
    /// Makes the ring empty over synced files: durably, so that a power failure does not bring its entries
    /// back, whatever it promises.
    pub fn drain(&self) -> io::Result<()> {
        let _phase = sim::phase("drain");
        let ring = &self.shared.ring;
        let settled = ring.drain(&*self.shared).and_then(|()| ring.memory().settle().map_err(Error::Sync));
        settled.map_err(|e| self.shared.failed(e))
    }
    /// For messages: where the ring is.
    pub fn path(&self) -> &str {
        &self.shared.path
    }
}

impl Shared {
    fn failed(&self, e: Error) -> io::Error {
        let why = self.why.get().map_or(format!("{e:?}"), String::clone);
        io::Error::other(format!("the ring {}: {why}; it holds what was acknowledged", self.path))
    }
    fn file(self: Arc<Self>, stream: u32, number: u64, under: Arc<dyn File>, fresh: bool) -> Arc<dyn File> {
        self.files.lock().insert((stream, number), under.clone());
        let fresh = AtomicBool::new(fresh);
        Arc::new(RingedFile { shared: self, under, stream, number, fresh })
    }
    fn segment(&self, (stream, number): (u32, u64)) -> Segment {
        mark::segment(stream, number, self.incarnation)
    }
    /// Whether the ring holds entries of this file. Nobody writes to the ring meanwhile: slots that are read
    /// are not written.
    fn holds(&self, file: (u32, u64)) -> bool {
        let _gate = self.gate.lock();
        self.ring.holds(&self.segment(file))
    }
    /// Forgets a file by its name, which is about to be another's, or nobody's (E3).
    fn release(&self, file: (u32, u64)) -> io::Result<()> {
        if mutated("ring_renamed_undrained") {
            return Ok(());
        }
        if self.holds(file) {
            self.ring.drain(self).map_err(|e| self.failed(e))?
        }
        self.files.lock().remove(&file);
        Ok(())
    }
    /// Forgets files that the log writes to no more and that the ring holds nothing of.
    fn forget_closed(&self) {
        let closed = |f: &Arc<dyn File>| Arc::strong_count(f) == 1;
        let all: Vec<_> = self.files.lock().iter().filter(|(_, f)| closed(f)).map(|(k, _)| *k).collect();
        for file in all {
            if !self.holds(file) {
                self.files.lock().remove(&file);
            }
        }
    }

    /// The drain's thread.
    fn drain_in_background(&self) {
        let mut stop = self.stop.lock();
        while !*stop {
            let (live, slots) = self.live();
            if live == 0 || self.ring.failure().is_some() {
                self.rests.store(true, Ordering::SeqCst);
                // Looked at again after it was said how to be waked.
                if self.live().0 == 0 || self.ring.failure().is_some() {
                    stop = self.bell.wait(stop)
                }
                self.rests.store(false, Ordering::SeqCst);
                continue;
            }
            if live < slots / PART {
                stop = self.bell.wait_timeout(stop, self.wait).0;
                if *stop {
                    return;
                }
            }
            drop(stop);
            let _phase = sim::phase("drain");
            // A failure is kept for whoever writes next (E4).
            let _ = self.ring.drain(self);
            self.forget_closed();
            stop = self.stop.lock()
        }
    }
    /// Live entries, and slots.
    fn live(&self) -> (u64, u64) {
        let s = self.ring.status();
        (s.live, s.slots)
    }
    /// Wakes the drain where that is due. It looks at the ring by itself after a while, so a call that comes
    /// just before it waits is not missed for long.
    fn wake(&self) {
        let (live, slots) = self.live();
        if live >= slots / PART || self.rests.load(Ordering::SeqCst) {
            // Not between its look and its wait.
            drop(self.stop.lock());
            self.bell.notify_one()
        }
    }
}

impl Files for Shared {
    /// A sync is of the whole file.
    const PIECE: u64 = 4 << 20;
    /// By the descriptor that wrote: what the system tells of it, it tells here (ring/I6).
    fn sync(&self, segment: &Segment, _: Range<u64>, _: u64) -> Result<bool, i32> {
        if mutated("ring_freed_before_synced") {
            return Ok(true);
        }
        let file = (segment.timeline, u64::from(segment.log) << 32 | u64::from(segment.part));
        let under = self.files.lock().get(&file).cloned();
        let sync = || under.ok_or_else(|| io::ErrorKind::NotFound.into()).and_then(|f| f.sync_data());
        let told = |e: io::Error| {
            let _ = self.why.set(format!("stream {}, {}: {e}", file.0, files::file_name(file.1)));
            ILL
        };
        sync().map(|()| true).map_err(told)
    }
    /// Only for an entry that is not what was written.
    fn sync_all(&self) -> Result<(), i32> {
        let _ = self.why.set("its memory changed by itself".into());
        Err(ILL)
    }
    /// Words that tell processes apart are each process's own here (ring_file/W2).
    fn myself(&self) -> u64 {
        1
    }
    fn is_dead(&self, _: u64) -> bool {
        false
    }
    fn wait(&self, ns: u64) {
        thread::sleep(Duration::from_nanos(ns))
    }
    fn now(&self) -> u64 {
        ondol_base::clock::now().as_nanos() as u64
    }
}

struct RingedFile {
    shared: Arc<Shared>,
    under: Arc<dyn File>,
    stream: u32,
    number: u64,
    /// Not synced since it was made (E2).
    fresh: AtomicBool,
}

impl File for RingedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.under.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        // The file first (pgwal/R1).
        self.under.write_at(buf, offset)?;
        if self.fresh.load(Ordering::Relaxed) {
            return Ok(());
        }
        let s = &*self.shared;
        let segment = s.segment((self.stream, self.number));
        {
            let _gate = s.gate.lock();
            let held = s.ring.enter(s).map_err(|e| s.failed(e))?;
            let fetch = |at: usize, to: &mut [u8]| to.copy_from_slice(&buf[at..at + to.len()]);
            held.append(segment, offset, buf.len(), fetch).map_err(|e| s.failed(e))?
        }
        s.wake();
        s.ring.pace(s, buf.len());
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        if self.fresh.load(Ordering::Relaxed) {
            self.under.sync_data()?;
            self.fresh.store(false, Ordering::Relaxed);
            return Ok(());
        }
        match self.shared.ring.failure() {
            Some(e) => Err(self.shared.failed(e)),
            None if sim::power_is_lost() => Err(io::Error::other("the power failed")),
            None => Ok(()),
        }
    }
    fn len(&self) -> io::Result<u64> {
        self.under.len()
    }
    /// Past the ring, so nothing older may be in it, and durable at once (pgwal/R6).
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.shared.ring.drain(&*self.shared).map_err(|e| self.shared.failed(e))?;
        self.under.set_len(len)?;
        self.under.sync_data()
    }
    fn map(&self, _: usize) -> io::Result<Box<dyn Mapped>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A log folder's storage, through the ring.
struct RingedStorage {
    shared: Arc<Shared>,
    under: Arc<dyn Storage>,
    stream: u32,
}

impl RingedStorage {
    /// The file that goes to the ring under this path, if one does (E1).
    fn known(&self, path: &str) -> Option<(u32, u64)> {
        let name = path.rsplit('/').next().unwrap_or(path);
        files::file_number(name).map(|number| (self.stream, number))
    }
    fn release(&self, path: &str) -> io::Result<()> {
        self.known(path).map_or(Ok(()), |file| self.shared.release(file))
    }
}

impl Storage for RingedStorage {
    fn open(&self, path: &str, how: Open) -> io::Result<Arc<dyn File>> {
        let under = self.under.open(path, how)?;
        match self.known(path) {
            Some((stream, number)) if how != Open::Read => {
                let fresh = matches!(how, Open::Create | Open::OpenOrCreate);
                Ok(self.shared.clone().file(stream, number, under, fresh))
            }
            _ => Ok(under),
        }
    }
    fn exists(&self, path: &str) -> io::Result<bool> {
        self.under.exists(path)
    }
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.under.list(folder)
    }
    fn create_dir(&self, folder: &str) -> io::Result<()> {
        self.under.create_dir(folder)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.release(from)?;
        self.release(to)?;
        self.under.rename(from, to)
    }
    fn remove(&self, path: &str) -> io::Result<()> {
        self.release(path)?;
        self.under.remove(path)
    }
    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        if mutated("ring_names_not_synced") {
            return Ok(());
        }
        self.under.sync_dir(folder)
    }
    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>> {
        self.under.lock(path)
    }
    fn describe(&self) -> String {
        self.under.describe()
    }
    fn identity(&self) -> io::Result<Identity> {
        self.under.identity()
    }
}
