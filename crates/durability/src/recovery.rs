//! Recovery (protocol/P5) and its proof (protocol/P6).
//!
//! ```text
//! manifest ── images, newest first ──> pages ── differences, any order, any thread ──> proof ──> new incarnation
//!    └─────── log files ──> rounds ──> R, C ──> commits complete? ──┘
//! ```
//! The log passes through small buffers twice ([`crate::reader`]): once up to the proof that its commits are
//! complete, once to be applied ([`crate::replay`]). Images and the pages' equations are in [`crate::pages`].
//!
//! - **V1** Nothing on the medium is changed before the proof holds, so a refusal leaves the evidence as it
//!   was; but that what a ring holds of the log is written where it belongs.
//! - **V2** A page's image is that of the newest file which has one; a page in none is zero.
//! - **V3** For every page: raw(result) = raw(image) XOR the contributions of the differences applied. A
//!   lost, doubled or misplaced piece, and a word that memory lost, all break the equation.
//! - **V4** "This incarnation ended at R" is durable in both copies of the manifest before the log takes a
//!   commit.
//! - **V5** Of the rounds that no later block names as durable, what was read may be in the system's cache
//!   only: the process may have died before their sync, or after one that failed, which a later sync does not
//!   make good. Their blocks are written again, byte for byte, and synced before the manifest says that they
//!   count.
//!
//! - **V6** Opening needs no room: a stream that finds none for a log file of the new incarnation goes on in
//!   its last one, behind the last block that counts (protocol/P9).
//!
//! A crash during recovery leaves the old manifest, or the new one with an incarnation that wrote nothing:
//! both recover to the same state.
use crate::block::{ALIGN, Header, MAX_STREAMS};
use crate::checkpoint::Segment;
use crate::error::RecoveryError;
use crate::files::{self, Config, First, LogFile};
use crate::log::{Log, Start};
use crate::manifest::{self, Incarnation, Loaded, Manifest, OPEN_END};
use crate::mark::{OnRing, Standing};
use crate::page::{PageId, SegmentId};
use crate::pages::{Pages, load, prove};
use crate::reader::LogReader;
use crate::replay;
use crate::ringed::Ringed;
use crate::scan::{self, Run, Scan, Tables};
use crate::sequence::Given;
use crate::stream::OldFile;
use crate::{CommitTs, HeapId};
use ondol_base::media::{File, Lock, Open};
use ondol_base::sim::mutated;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Empty memory to recover into; the kernel implements it. Called from several threads at once, except
/// `begin`, and `finish`.
pub trait Target: Send + Sync {
    /// Makes the segments, formatted; all bytes zero. Called once, before all else, with the segments of the
    /// manifest and of the log together (log: segment-create and page-format records), those dropped left
    /// out.
    fn begin(&self, segments: &[Segment]) -> Result<(), String>;
    /// The 512 words of a page, header words included, for `fetch_xor` and for loading an image.
    fn words(&self, page: PageId) -> &[AtomicU64];
    /// A difference will soon be applied there: a hint to bring the memory into the cache. A target that can
    /// ask for it without waiting does better than the load that stands here.
    #[inline]
    fn expect(&self, page: PageId, offset: usize) {
        let word = self.words(page).get(offset / 8);
        std::hint::black_box(word.map(|w| w.load(std::sync::atomic::Ordering::Relaxed)));
    }
    /// Recovery is complete: every commit below `clock` is in the row bytes, and nothing else. `changed` are
    /// the pages to which differences were applied (later than the manifest's T), so that the next checkpoint
    /// takes them. `waiting` are segments that must not be reused before a checkpoint at or past `clock - 1`
    /// is published (dropped in the log that was read).
    fn finish(&self, clock: CommitTs, changed: &[PageId], waiting: &[(SegmentId, HeapId)]);
}

/// A word array's byte view helpers live in [`crate::delta`].
pub type Words<'a> = &'a [AtomicU64];

/// How far recovery is.
#[derive(Clone, Copy, Debug)]
pub enum Progress {
    ReadingLog { done: u64, total: u64 },
    LoadingImages { done: u64, total: u64 },
    Applying { done: u64, total: u64 },
    Proving { pages: u64 },
}

/// What recovery found.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// The database was made just now.
    pub created: bool,
    pub database: u128,
    pub incarnation: u64,
    /// The next commit timestamp.
    pub clock: CommitTs,
    /// T of the checkpoint that was loaded.
    pub checkpoint: CommitTs,
    /// Sequences and what each gave out.
    pub sequences: Vec<(u64, Given)>,
    pub rounds: u64,
    pub records: u64,
    pub discarded_blocks: u64,
    pub image_bytes: u64,
    pub image_seconds: f64,
    pub log_bytes: u64,
    pub log_seconds: f64,
    /// Streams that found no room for a log file of this life, and go on in their last one.
    pub continued: u64,
    /// The ring that the log is on.
    pub ring: Option<OnRing>,
    /// Worth telling the user: one copy of the manifest was bad, for example.
    pub warnings: Vec<String>,
}

/// Opens the database (makes it when the folder is empty), recovers it into `target`, and starts its log.
/// `target` is an `Arc` since the work is done by several of `ondol_base`'s threads.
pub fn recover<T: Target + ?Sized + 'static>(
    config: Config,
    target: &Arc<T>,
    progress: &dyn Fn(Progress),
) -> Result<(Log, Recovered), RecoveryError> {
    let threads = if config.threads == 0 { ondol_base::thread::parallelism() } else { config.threads };
    let _phase = ondol_base::sim::phase("recovery");
    let mut locks = prepare_folders(&config)?;
    let named = manifests_named(&config)?;
    let loaded = Manifest::load(&*config.data, is_fresh(&config)?)?;
    // A ring's entries come home before anything of the log is read (protocol/P10).
    let standing = Standing::find(&config, loaded.as_ref().map(|l| &l.manifest), Some(&mut locks))?;
    let (manifest, created, mut warnings) = settle_or_create(&config, loaded)?;
    let replayed = standing.bring_home(&config)?;
    warnings.extend(standing.warning());
    let mut found = Recovered {
        created,
        database: manifest.database,
        checkpoint: manifest.at,
        ring: standing.on_ring(&config, replayed),
        ..Recovered::default()
    };

    // The log, up to the proof that its commits are complete.
    let start = ondol_base::clock::now();
    let mut scan = Scan::read(&config, manifest, threads)?;
    let gathered = Arc::new(scan::gather(&mut scan)?);
    let scan = Arc::new(scan);
    progress(Progress::ReadingLog { done: scan.bytes, total: scan.bytes });
    let log_read = (ondol_base::clock::now() - start).as_secs_f64();

    // Memory, and the images into it.
    let start = ondol_base::clock::now();
    let images = scan::open_images(&config, &scan.manifest)?;
    let tables = Tables::build(&scan, &images, &gathered)?;
    let segments: Vec<Segment> = tables.segments.values().map(|s| s.segment.clone()).collect();
    target.begin(&segments).map_err(RecoveryError::Target)?;
    let pages = Arc::new(Pages::new(&tables));
    let total: u64 = scan.manifest.files.iter().map(|f| f.length).sum();
    let mut done = 0;
    for (i, reader) in images.into_iter().enumerate().rev() {
        progress(Progress::LoadingImages { done, total });
        load(Arc::new(reader), &pages, target, threads)?;
        done += scan.manifest.files[i].length;
    }
    found.image_bytes = total;
    found.image_seconds = (ondol_base::clock::now() - start).as_secs_f64();

    // The differences, and the proof.
    let start = ondol_base::clock::now();
    progress(Progress::Applying { done: 0, total: scan.bytes });
    replay::apply(&scan, &gathered, &pages, target, threads)?;
    let changed = pages.changed();
    progress(Progress::Proving { pages: changed.len() as u64 });
    prove(changed.clone(), &pages, target, threads)?;
    found.log_seconds = log_read + (ondol_base::clock::now() - start).as_secs_f64();
    found.log_bytes = scan.bytes;
    found.records = gathered.commits;
    found.rounds = (scan.round + 1).saturating_sub(scan.manifest.first_round);
    found.discarded_blocks = scan.discarded;
    found.clock = scan.clock;
    found.sequences = tables.sequences.iter().map(|(id, v)| (*id, *v)).collect();

    found.warnings = warnings;
    let log = begin_incarnation(config, &scan, &tables, standing, locks, named, &mut found)?;
    found.incarnation = log.incarnation();
    let waiting: Vec<(SegmentId, HeapId)> =
        tables.dropped.iter().map(|(id, (heap, _))| (*id, *heap)).collect();
    target.finish(scan.clock, &changed, &waiting);
    Ok((log, found))
}

fn io_error(file: &str) -> impl Fn(io::Error) -> RecoveryError + '_ {
    move |error| RecoveryError::Io { file: file.into(), error }
}

/// Makes the folders that are not there, and takes the locks.
fn prepare_folders(config: &Config) -> Result<Vec<Box<dyn Lock>>, RecoveryError> {
    let n = config.streams.len();
    if n == 0 || n > MAX_STREAMS {
        return Err(RecoveryError::StreamsMissing { expected: n.clamp(1, MAX_STREAMS), found: n });
    }
    let mut locks = vec![];
    let mut lock = |storage: &dyn ondol_base::media::Storage, path: &str| {
        storage.lock(path).map(|l| locks.push(l)).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => RecoveryError::Locked { folder: storage.describe() },
            _ => RecoveryError::Io { file: path.into(), error: e },
        })
    };
    lock(&*config.data, "lock")?;
    for (k, place) in config.streams.iter().enumerate() {
        if !place.folder.is_empty() {
            place.storage.create_dir(&place.folder).map_err(io_error(&place.folder))?;
            // The name must be durable before a manifest names a file in it, and a former life may have made
            // it in vain. One sync serves for all folders of a storage.
            let later = config.streams[k + 1..].iter();
            if !later.clone().any(|p| Arc::ptr_eq(&p.storage, &place.storage) && !p.folder.is_empty()) {
                place.storage.sync_dir("").map_err(io_error(&place.folder))?;
            }
        }
        if !place.folder.is_empty() || !Arc::ptr_eq(&place.storage, &config.data) {
            let path =
                if place.folder.is_empty() { "log-lock".into() } else { format!("{}/lock", place.folder) };
            lock(&*place.storage, &path)?;
        }
    }
    Ok(locks)
}

/// Whether the names of both manifests are durable: they are there, and the sync for the log folders came
/// later.
fn manifests_named(config: &Config) -> Result<bool, RecoveryError> {
    let synced = |p: &files::Place| !p.folder.is_empty() && Arc::ptr_eq(&p.storage, &config.data);
    let there = |name: &str| config.data.exists(name).map_err(io_error(name));
    Ok(config.streams.iter().any(synced) && there(manifest::NAMES[0])? && there(manifest::NAMES[1])?)
}

/// Whether nothing of a database is there: creation begins with the manifest, so without log and checkpoint
/// files an incomplete manifest is one that was never completed.
pub(crate) fn is_fresh(config: &Config) -> Result<bool, RecoveryError> {
    for place in &config.streams {
        if !files::list(place).map_err(io_error(&place.describe()))?.is_empty() {
            return Ok(false);
        }
    }
    let names = config.data.list("").map_err(io_error(&config.data.describe()))?;
    Ok(!names.iter().any(|n| n.starts_with("checkpoint-")))
}

fn settle_or_create(
    config: &Config,
    loaded: Option<Loaded>,
) -> Result<(Manifest, bool, Vec<String>), RecoveryError> {
    if let Some(mut found) = loaded {
        Manifest::settle(&*config.data).map_err(|(file, error)| RecoveryError::Io { file, error })?;
        let warnings = std::mem::take(&mut found.warnings);
        return Ok((found.followed(), false, warnings));
    }
    let random = || ondol_base::random::next_u64() as u128;
    let manifest = Manifest {
        sequence: 1,
        database: random() | random() << 64 | 1,
        at: 0,
        first_round: 1,
        next_checkpoint: 1,
        clean: None,
        files: vec![],
        incarnations: vec![],
        streams: config.streams.iter().map(|p| p.describe()).collect(),
        ringed: false,
    };
    manifest.create(&*config.data).map_err(|(file, error)| RecoveryError::Io { file, error })?;
    Ok((manifest, true, vec![]))
}

/// Writes again what may not be on the medium (V5). What is written is what was just checked. `all`:
/// witnesses prove nothing.
fn settle_tail(config: &Config, scan: &Scan, all: bool) -> Result<(), RecoveryError> {
    let mut buffer = vec![];
    for l in scan.live.iter().filter(|l| all || scan.header(**l).round > scan.witnessed) {
        let (f, h) = (&scan.files[l.file], scan.header(*l));
        let run = Run { file: l.file, blocks: vec![l.block] };
        scan.read_run(&run, &mut buffer)?;
        let len = (h.block_len() as u64).min(f.size - h.offset) as usize;
        let write = || -> io::Result<()> {
            let file = config.streams[f.stream as usize].storage.open(&f.name, Open::Write)?;
            file.write_at(&buffer[..len], h.offset)?;
            file.sync_data()
        };
        write().map_err(io_error(&f.name))?;
    }
    Ok(())
}

/// Where the stream's next life begins: in a file of its own, or, where there is no room for that, in the
/// last one of the life before (protocol/P9).
fn first_file(config: &Config, scan: &Scan, k: usize, found: &mut Recovered) -> Result<First, RecoveryError> {
    let place = &config.streams[k];
    let manifest = &scan.manifest;
    let used = scan.files.iter().filter(|f| f.stream == k as u16).map(|f| f.number).max();
    let listed = manifest.incarnations.iter().filter_map(|i| i.files.get(k).copied()).max();
    let number = used.max(listed).unwrap_or(0) + 1;
    let size = config.first_size();
    let e = match files::prepare(place, number, size, None) {
        Ok(file) => return Ok(First { file, offset: 0, next: (number + 1, config.size_after(size)) }),
        Err(e) => e,
    };
    // Those that were zeroed and synced once: a block in it counts, or a manifest named it.
    let named = manifest.incarnations.last().and_then(|i| i.files.get(k).copied());
    let known = |(i, f): &(usize, &LogReader)| {
        f.stream == k as u16 && (named == Some(f.number) || scan.last_round(*i).is_some())
    };
    let last = scan.files.iter().enumerate().filter(known).max_by_key(|(_, f)| f.number);
    let Some((i, f)) = last.filter(|_| files::is_full(&e)) else {
        return Err(io_error(&place.path(number))(e));
    };
    let live = scan.live.iter().filter(|l| l.file == i).map(|l| scan.header(*l)).max_by_key(|h| h.offset);
    let behind = |h: &Header| h.offset + if mutated("log_continued_over") { 0 } else { h.block_len() as u64 };
    // A damaged file may be of any length; blocks lie on whole pages.
    let whole = f.size - f.size % ALIGN as u64;
    let offset = live.map_or(0, behind).min(whole);
    let file = place.storage.open(&f.name, Open::Write).map_err(io_error(&f.name))?;
    let whole = zero(&*file, offset, whole).map_err(io_error(&f.name))?;
    found.continued += 1;
    found.warnings.push(format!(
        "{}: no room for a new log file: {e}; the last one goes on, with {} bytes left",
        f.name,
        whole - offset
    ));
    Ok(First { file: LogFile { number: f.number, size: whole, file }, offset, next: (number + 1, size) })
}

/// Writes zeros from a whole page up to another one, and syncs; gives how far there was room. A copy of a log
/// file may have holes, into which no commit must be the first to write; and what lies there is dead, and
/// need not be looked at again.
fn zero(file: &dyn File, from: u64, to: u64) -> io::Result<u64> {
    let zeros = [0; 64 << 10];
    let mut at = from;
    while at < to {
        let n = (to - at).min(zeros.len() as u64);
        match file.write_at(&zeros[..n as usize], at) {
            Ok(()) => at += n,
            Err(e) if files::is_full(&e) => break,
            Err(e) => return Err(e),
        }
    }
    file.sync_data()?;
    Ok(at)
}

/// Ends the last incarnation at R and begins the next (V4); removes what no manifest names any more.
fn begin_incarnation(
    mut config: Config,
    scan: &Scan,
    tables: &Tables,
    standing: Standing,
    locks: Vec<Box<dyn Lock>>,
    named: bool,
    found: &mut Recovered,
) -> Result<Log, RecoveryError> {
    if !mutated("tail_not_settled") {
        settle_tail(&config, scan, standing.is_lost())?;
    }
    let mut manifest = scan.manifest.clone();
    let mut new: Vec<First> =
        (0..config.streams.len()).map(|k| first_file(&config, scan, k, found)).collect::<Result<_, _>>()?;
    let number = manifest.incarnations.last().map_or(0, |i| i.number) + 1;
    if let Some(last) = manifest.incarnations.last_mut()
        && !mutated("incarnation_ends_missing")
    {
        last.last_round = scan.round;
        // From now on its last round says what must be there; files of it that hold nothing live may go.
        last.files.clear();
    }
    let first = manifest.first_round;
    manifest.incarnations.retain(|i| i.last_round >= first && i.last_round >= i.first_round);
    manifest.incarnations.push(Incarnation {
        number,
        first_round: scan.round + 1,
        last_round: OPEN_END,
        files: new.iter().map(|f| f.file.number).collect(),
    });
    manifest.sequence += 1;
    manifest.clean = None;
    manifest.streams = config.streams.iter().map(|p| p.describe()).collect();
    manifest.ringed = standing.ring.is_some();
    standing.before_manifest(&config)?;
    manifest.publish(&*config.data, named).map_err(|(file, error)| RecoveryError::Io { file, error })?;
    standing.after_manifest(&config)?;

    let mut old = vec![vec![]; config.streams.len()];
    for (i, f) in scan.files.iter().enumerate() {
        let k = f.stream as usize;
        if new[k].file.number == f.number {
            continue;
        }
        match scan.last_round(i) {
            Some(last_round) => old[k].push(OldFile { number: f.number, size: f.size, last_round }),
            None => {
                if let Err(e) = config.streams[k].storage.remove(&f.name) {
                    found.warnings.push(format!(
                        "{}: holds nothing that is needed, and cannot be removed: {e}",
                        f.name
                    ));
                }
            }
        }
    }
    let io = io_error("");
    for name in config.data.list("").map_err(&io)? {
        if name.starts_with("checkpoint-")
            && manifest.files.iter().all(|f| f.name() != name)
            && let Err(e) = config.data.remove(&name)
        {
            found.warnings.push(format!("{name}: no manifest names it, and it cannot be removed: {e}"));
        }
    }
    let incarnation = number;
    let threads = io_error("threads of the log");
    // From here on the log's files are reached through the ring.
    let mut ring = None;
    if let (Some(given), Some(file)) = (&config.ring, standing.ring) {
        let ringed = Ringed::start(file.ring, given, incarnation).map_err(&threads)?;
        for (k, (place, first)) in config.streams.iter_mut().zip(&mut new).enumerate() {
            *place = ringed.place(k, place);
            first.file.file = ringed.adopt(k, first.file.number, first.file.file.clone())
        }
        ring = Some(ringed)
    }
    Log::start(Start {
        incarnation,
        ring,
        clock: scan.clock,
        round: scan.round,
        files: new,
        old,
        catalog: tables.catalog(),
        locks,
        manifest,
        config,
    })
    .map_err(&threads)
}
