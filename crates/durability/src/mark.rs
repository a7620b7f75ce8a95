//! The mark of a database whose log ends in a ring, and what an opening makes of mark and ring
//! (protocol/P10).
//!
//! ```text
//!  not marked --mark durable; manifest of format 2, durable; log starts--> on the ring
//!      ^                                                                     | closed: ring drained, durably empty
//!      +------------ mark gone <-- manifest of format 1, durable <-----------+
//!                                                                            | crash: entries home and synced, ring emptied,
//!                                            on the ring again <-------------+ before anything of the log is read
//! ```
//! - **K1** The ring's name is durable before the mark, the mark is durable, and both copies of the manifest
//!   are of format 2, before the log writes to the ring. So no opening misses it: this version's sees the
//!   mark, an older one's the format.
//! - **K2** It goes when the ring is empty, durably, and the manifest of format 1 again: the mark last.
//! - **K3** Nothing is replayed but what the mark vouches for: the ring of its number, before the folders it
//!   names, of the life that the manifest names as the last.
//!
//! The mark is a text, for whoever finds it: what it is about, then the words below, one a line, `crc` over
//! all before it the last.
use crate::error::{RecoveryError, RingError};
use crate::files::{Config, Place};
use crate::manifest::Manifest;
use crate::ring_file::{self, Given, Promise, RingFile};
use ondol_base::clock;
use ondol_base::crc::crc32c;
use ondol_base::media::{File, Identity, Lock, Open, Storage};
use ondol_base::sim::mutated;
use ondol_ring::{Entry, Error, Replay, Segment};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// In the database's folder.
pub const NAME: &str = "log-ring";
const UNFINISHED: &str = "log-ring.new";
const ABOUT: &str =
    "ondol: the end of this database's log is in a ring, which must be given when it is opened";
const LARGEST: u64 = 64 << 10;
/// The system's numbers: no such file, and input or output that failed.
const ABSENT: i32 = 2;
const ILL: i32 = 5;

/// The names that the mark has, whole or being made.
pub fn is_mark(name: &str) -> bool {
    name == NAME || name == UNFINISHED
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    /// Where the ring is, for messages.
    ring: String,
    number: u64,
    promise: Promise,
    /// In which start of the system, for a promise that ends with it.
    boot: Option<u128>,
    /// The database's folder, then the further log folders.
    folders: Vec<Identity>,
}

impl Mark {
    fn encode(&self) -> Vec<u8> {
        let boot = self.boot.map_or("-".into(), |b| format!("{b:032x}"));
        let (ring, number, promise) = (self.ring.escape_default(), self.number, self.promise);
        let mut text =
            format!("{ABOUT}\nring {ring}\nnumber {number:016x}\npromise {promise}\nboot {boot}\n");
        for f in &self.folders {
            text += &format!("folder {} {} {}\n", f.inode, f.birth.0, f.birth.1)
        }
        text += &format!("crc {:08x}\n", crc32c(text.as_bytes()));
        text.into_bytes()
    }
    /// An error says what was expected.
    fn decode(bytes: &[u8]) -> Result<Mark, &'static str> {
        let text = std::str::from_utf8(bytes).map_err(|_| "a text")?;
        let (before, crc) = text.rsplit_once("crc ").ok_or("its checksum at its end")?;
        if crc != format!("{:08x}\n", crc32c(before.as_bytes())) {
            return Err("the checksum of its text");
        }
        let mut lines = before.lines().skip(1);
        let mut word = |name| lines.next().and_then(|l| l.strip_prefix(name)?.strip_prefix(' '));
        let ring = word("ring").ok_or("where the ring is")?.to_string();
        let number =
            word("number").and_then(|n| u64::from_str_radix(n, 16).ok()).ok_or("the ring's number")?;
        let promise = word("promise").and_then(Promise::named).ok_or("a promise")?;
        let boot = match word("boot").ok_or("a start of the system")? {
            "-" => None,
            digits => Some(u128::from_str_radix(digits, 16).map_err(|_| "a start of the system")?),
        };
        let folder = |line: &str| {
            let mut numbers = line.strip_prefix("folder ")?.split(' ').map_while(|n| n.parse().ok());
            let (inode, s, ns) = (numbers.next()?, numbers.next()?, numbers.next()?);
            Some(Identity { inode, birth: (s, ns) })
        };
        let folders = lines.map(|l| folder(l).ok_or("a folder")).collect::<Result<_, _>>()?;
        Ok(Mark { ring, number, promise, boot, folders })
    }
    /// `None`: there is none.
    fn read(data: &dyn Storage) -> io::Result<Option<Result<Mark, &'static str>>> {
        if !data.exists(NAME)? {
            return Ok(None);
        }
        let file = data.open(NAME, Open::Read)?;
        let len = file.len()?;
        if len > LARGEST {
            return Ok(Some(Err("a short text")));
        }
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(Some(Mark::decode(&bytes)))
    }
    fn write(&self, data: &dyn Storage) -> io::Result<()> {
        let write = || {
            let file = data.open(UNFINISHED, Open::OpenOrCreate)?;
            file.set_len(0)?;
            file.write_at(&self.encode(), 0)?;
            if mutated("ring_mark_not_durable") {
                return data.rename(UNFINISHED, NAME);
            }
            file.sync_data()?;
            data.rename(UNFINISHED, NAME)?;
            data.sync_dir("")
        };
        // What matters is the error; a part of a mark that stays is written over the next time.
        write().inspect_err(|_| drop(data.remove(UNFINISHED)))
    }
}

/// Whether the database in this folder is marked.
pub fn is_marked(data: &dyn Storage) -> io::Result<bool> {
    data.exists(NAME)
}
/// Takes the mark away, if it is there (K2).
pub(crate) fn remove(data: &dyn Storage) -> Result<(), (String, io::Error)> {
    let remove =
        || if data.exists(NAME)? { data.remove(NAME).and_then(|()| data.sync_dir("")) } else { Ok(()) };
    remove().map_err(|e| (NAME.to_string(), e))
}

fn io_error((file, error): (String, io::Error)) -> RecoveryError {
    RecoveryError::Io { file, error }
}

/// A ring that was given, and what of it is home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnRing {
    pub path: String,
    /// Bytes.
    pub size: u64,
    pub promise: Promise,
    /// Entries that were replayed, and their bytes.
    pub entries: u64,
    pub bytes: u64,
}

/// Mark and ring as an opening finds them.
pub(crate) struct Standing {
    pub ring: Option<RingFile>,
    mark: Option<Result<Mark, &'static str>>,
    folders: Vec<Identity>,
    /// What is in the way, and is given up.
    lost: Option<RingError>,
}

impl Standing {
    /// Looks at what is there, and refuses what does not belong together. The ring that was given is made
    /// where that is right (`None`: not at all), and its lock is among `locks`. Nothing of the database is
    /// changed.
    pub fn find(
        config: &Config,
        manifest: Option<&Manifest>,
        mut locks: Option<&mut Vec<Box<dyn Lock>>>,
    ) -> Result<Standing, RecoveryError> {
        let data = &*config.data;
        let mut mark = Mark::read(data).map_err(|e| io_error((NAME.into(), e)))?;
        let mut ringed = manifest.is_some_and(|m| m.ringed);
        if mutated("ring_mark_ignored") && config.ring.is_none() {
            (mark, ringed) = (None, false)
        }
        let mut found = Standing { ring: None, mark, folders: vec![], lost: None };
        if found.mark.is_none() && !ringed && config.ring.is_none() {
            return Ok(found);
        }
        let further = config.streams.iter().skip(1).map(|p| &p.storage);
        for storage in std::iter::once(&config.data).chain(further) {
            let identity = storage.identity().map_err(|e| io_error((storage.describe(), e)))?;
            found.folders.push(identity)
        }
        if let Some(given) = &config.ring {
            if let Some(locks) = &mut locks {
                locks.push(given.lock()?)
            }
            found.ring = ring_file::open(given, found.folders[0])?;
        }
        match found.judge(config, manifest, ringed) {
            Err(e) if config.lose_acknowledged_commits && e.can_be_lost() => found.lost = Some(e),
            judged => judged?,
        }
        if let Some(given) = config.ring.as_ref().filter(|_| found.ring.is_none() && locks.is_some()) {
            ring_file::make(given, found.folders[0], config.data.describe())?;
            found.ring = ring_file::open(given, found.folders[0])?;
        }
        Ok(found)
    }

    fn judge(&self, config: &Config, manifest: Option<&Manifest>, ringed: bool) -> Result<(), RingError> {
        let path = || config.ring.as_ref().map_or(String::new(), Given::path);
        let ill = |e| match e {
            Error::Damaged(entry) => RingError::Damaged { ring: path(), entry },
            e => RingError::Mark { why: format!("{e:?}") },
        };
        let Some(mark) = &self.mark else {
            if ringed {
                return Err(RingError::MarkGone);
            }
            let Some(ring) = &self.ring else { return Ok(()) };
            let entries = ring.ring.survey(|_, _| Ok(())).map_err(ill)?.entries;
            if entries > 0 && !mutated("ring_unmarked_replayed") {
                return Err(RingError::Unmarked { ring: path(), entries });
            }
            return Ok(());
        };
        let mark =
            mark.as_ref().map_err(|expected| RingError::Mark { why: format!("expected {expected}") })?;
        let marked = mark.ring.clone();
        if mark.folders.first() != self.folders.first() {
            return Err(RingError::Copied { folder: config.data.describe(), ring: marked });
        }
        if !self.folders.starts_with(&mark.folders) {
            let (expected, found) = (mark.folders.len() - 1, self.folders.len() - 1);
            return Err(RingError::OtherFolders { expected, found });
        }
        if config.ring.is_none() {
            return Err(RingError::NotGiven { ring: marked });
        }
        let Some(ring) = &self.ring else {
            return Err(RingError::Missing { ring: path(), marked });
        };
        if ring.header.number != mark.number && !mutated("ring_of_another_number") {
            let (expected, found) = (mark.number, ring.header.number);
            return Err(RingError::Another { ring: path(), marked, expected, found });
        }
        if mark.promise == Promise::ServerCrash && mark.boot != clock::boot() {
            return Err(RingError::Rebooted { ring: path() });
        }
        let life = manifest.and_then(|m| m.incarnations.last()).map_or(0, |i| i.number);
        let mut other = None;
        ring.ring
            .survey(|e, _| {
                if e.segment.inode != life {
                    other = Some(e.segment.inode)
                }
                Ok(())
            })
            .map_err(ill)?;
        match other {
            Some(found) => Err(RingError::OtherLife { ring: path(), expected: life, found }),
            None => Ok(()),
        }
    }

    /// Brings home what the ring holds, durably, and empties it (K3); unless something is given up.
    pub fn bring_home(&self, config: &Config) -> Result<Replay, RecoveryError> {
        let Some(ring) = self.ring.as_ref().filter(|_| self.lost.is_none()) else {
            return Ok(Replay::default());
        };
        if mutated("ring_not_recovered") {
            ring.ring.give_up();
            return Ok(Replay::default());
        }
        let home = RefCell::new(Home::new(config));
        let done = ring.ring.recover(
            |e, data| home.borrow_mut().write(e, data),
            || match mutated("ring_home_not_synced") {
                true => Ok(()),
                false => home.borrow_mut().sync(),
            },
        );
        home.into_inner().told(done)
    }
    /// Whether the log's blocks may be in the system's memory alone though later blocks vouch for them: a
    /// ring vouched for them, and is given up.
    pub fn is_lost(&self) -> bool {
        self.lost.is_some() && !mutated("ring_trusted_when_lost")
    }
    /// The log as its files hold it is durable, and the manifest is about to say so. What is given up goes;
    /// where the log will go to the ring the mark is made, durably (K1).
    pub fn before_manifest(&self, config: &Config) -> Result<(), RecoveryError> {
        let (Some(given), Some(ring)) = (&config.ring, &self.ring) else { return Ok(()) };
        if self.lost.is_some() {
            ring.ring.give_up()
        }
        // The process that made the ring may have died, or been refused, before the ring's name was durable.
        given.storage.sync_dir("").map_err(|e| given.failed(e))?;
        let promise = ring.header.promise;
        let boot = if promise == Promise::ServerCrash { clock::boot() } else { None };
        let (ring, number) = (given.path().escape_default().to_string(), ring.header.number);
        let mark = Mark { ring, number, promise, boot, folders: self.folders.clone() };
        // The process that made it may have died before its name was durable.
        let there = matches!(&self.mark, Some(Ok(m)) if *m == mark);
        let done = if there { config.data.sync_dir("") } else { mark.write(&*config.data) };
        done.map_err(|e| io_error((NAME.into(), e)))
    }
    /// The manifest is durable: a mark that was given up goes (K2).
    pub fn after_manifest(&self, config: &Config) -> Result<(), RecoveryError> {
        match (&self.ring, &self.mark) {
            (None, Some(_)) => remove(&*config.data).map_err(io_error),
            _ => Ok(()),
        }
    }
    /// What to tell of it.
    pub fn on_ring(&self, config: &Config, done: Replay) -> Option<OnRing> {
        let (given, ring) = (config.ring.as_ref()?, self.ring.as_ref()?);
        let Replay { entries, bytes } = done;
        Some(OnRing {
            path: given.path(),
            size: ring.header.len,
            promise: ring.header.promise,
            entries,
            bytes,
        })
    }
    pub fn warning(&self) -> Option<String> {
        self.lost.as_ref().map(|e| format!("given up: {e}"))
    }
}

/// For read-only tools: replays the ring into overlay folders and removes the mark there. The overlays are
/// the folders of `config`; they cover the real ones and take all that is written. The ring stays as it is.
/// The caller holds the database's lock.
pub fn over(config: &Config) -> Result<Option<OnRing>, RecoveryError> {
    let manifest = Manifest::load(&*config.data, crate::recovery::is_fresh(config)?)?.map(|l| l.manifest);
    let standing = Standing::find(config, manifest.as_ref(), None)?;
    let mut done = Replay::default();
    if let Some(ring) = &standing.ring {
        let mut home = Home::new(config);
        let surveyed = ring.ring.survey(|e, data| home.write(e, data));
        done = home.told(surveyed)?
    }
    if let Some(mut manifest) = manifest {
        manifest.ringed = false;
        manifest.publish(&*config.data, true).map_err(io_error)?
    }
    remove(&*config.data).map_err(io_error)?;
    Ok(standing.on_ring(config, done))
}

/// The segment of a log file in the ring: stream, number, and the incarnation whose blocks these are.
pub(crate) fn segment(stream: u32, number: u64, incarnation: u64) -> Segment {
    Segment { timeline: stream, log: (number >> 32) as u32, part: number as u32, inode: incarnation }
}

/// The log's files while entries are brought home.
struct Home<'a> {
    streams: &'a [Place],
    open: BTreeMap<(u32, u64), (String, Arc<dyn File>)>,
    failed: Option<RecoveryError>,
    ring: String,
}
impl<'a> Home<'a> {
    fn new(config: &'a Config) -> Home<'a> {
        let ring = config.ring.as_ref().map_or(String::new(), Given::path);
        Home { streams: &config.streams, open: BTreeMap::new(), failed: None, ring }
    }
    fn fail(&mut self, e: RecoveryError) -> i32 {
        self.failed.get_or_insert(e);
        ILL
    }
    fn write(&mut self, entry: &Entry, data: &[u8]) -> Result<(), i32> {
        let s = entry.segment;
        let number = u64::from(s.log) << 32 | u64::from(s.part);
        let key = (s.timeline, number);
        if !self.open.contains_key(&key) {
            let Some(place) = self.streams.get(s.timeline as usize) else {
                let (expected, found) = (s.timeline as usize + 1, self.streams.len());
                return Err(self.fail(RecoveryError::StreamsMissing { expected, found }));
            };
            let path = place.path(number);
            match place.storage.open(&path, Open::Write) {
                Ok(file) => drop(self.open.insert(key, (path, file))),
                // It was whole before its first entry, and has none when it goes.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    let why = format!("the ring {} holds blocks of it", self.ring);
                    self.fail(RecoveryError::MissingFile { file: path, why });
                    return Err(ABSENT);
                }
                Err(e) => return Err(self.fail(io_error((path, e)))),
            }
        }
        let (path, file) = &self.open[&key];
        file.write_at(data, entry.offset).map_err(|e| (path.clone(), e)).map_err(|e| self.fail(io_error(e)))
    }
    fn sync(&mut self) -> Result<(), i32> {
        let sync = |(path, file): &(String, Arc<dyn File>)| file.sync_data().map_err(|e| (path.clone(), e));
        let done: Result<(), _> = self.open.values().try_for_each(sync);
        done.map_err(|e| self.fail(io_error(e)))
    }
    fn told(self, done: Result<Replay, Error>) -> Result<Replay, RecoveryError> {
        done.map_err(|e| match (self.failed, e) {
            (Some(failed), _) => failed,
            (None, Error::Damaged(entry)) => RingError::Damaged { ring: self.ring, entry }.into(),
            (None, e) => io_error((self.ring, io::Error::other(format!("{e:?}")))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_comes_back_and_every_flip_is_noticed() {
        let folder = |inode| Identity { inode, birth: (7, 8) };
        for boot in [None, Some(0x0123_4567_89ab)] {
            let ring = "/mnt/p mem/ring".to_string();
            let folders = vec![folder(1), folder(99)];
            let mark = Mark { ring, number: 5, promise: Promise::ServerCrash, boot, folders };
            let mut bytes = mark.encode();
            assert_eq!(Mark::decode(&bytes), Ok(mark));
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(Mark::decode(&bytes).is_err(), "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}
