//! Checkpoint (protocol/P4): images of the pages changed since the last one, as of a commit T, in a new file;
//! then the manifest; then the log before it is given up.
//!
//! - **K1** T is `durable_ts` after a flush: `closed - 1` of a durable round, so every round up to T's is
//!   durable before anything is written, and a crash never leaves an image of a commit that recovery does not
//!   have.
//! - **K2** T is final only after `settle(T)`: all commits up to T are installed, and pages name their last
//!   commit.
//! - **K3** Which pages to write is asked by timestamp ("last commit later than the previous T"), and nothing
//!   is cleared. A page changed while it is copied has a last commit later than T, so the next checkpoint,
//!   which asks for pages later than T, takes it again. That is what clearing a dirty flag before copying,
//!   and setting it again, would achieve, without the flag.
//! - **K4** The segment table is read after T was chosen, so it may hold segments that T does not need, and
//!   may lack segments that were dropped meanwhile. All rounds up to the reading are made durable before the
//!   manifest is published, so that a drop which the table shows is never undone by a crash. And the log is
//!   kept from the round that was open when the tables were read, since it may hold system records that they
//!   lack.
//! - **K5** Order: file synced, its name synced, manifest in both copies, and only then is anything given up:
//!   log files, older checkpoint files, slots of dropped segments.
//! - **K6** Images of increments stand beside the base. Memory holds all pages, so when increments have
//!   outgrown the base a new full file is written from memory, without reading the old; nothing is merged in
//!   place.
//!
//! A crash leaves the previous manifest with all its files and the log it needs, or the new one with its own.
//! A file that no manifest names is removed at the next opening.
use crate::error::CheckpointError;
use crate::image::ImageWriter;
use crate::log::Log;
use crate::manifest::{CheckpointFile, OPEN_END};
use crate::page::{Format, PAGE_SIZE, PAGES_PER_SEGMENT, PageId, SegmentId};
use crate::{CommitTs, HeapId};
use ondol_base::sim::mutated;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A segment in use, as the manifest and the log name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub id: SegmentId,
    pub heap: HeapId,
    /// One for each page.
    pub formats: Vec<Format>,
}

/// Memory as a checkpoint sees it; the kernel implements it.
pub trait Source: Send + Sync {
    /// Makes a snapshot before T is chosen: from now until `unpin`, whatever a reader at the timestamps of
    /// `now` or later needs is kept.
    fn pin(&self);
    /// T is chosen: waits until every commit up to `at` is installed and its pages say so; from now until
    /// `unpin`, what a reader at `at` needs is kept.
    fn settle(&self, at: CommitTs);
    fn unpin(&self);
    /// All segments in use, formats included. Called after `settle`; may hold more than T needs.
    fn segments(&self) -> Vec<Segment>;
    /// The pages whose last commit is later than `since` (a previous T; 0 for all that were ever written).
    fn changed_pages(&self, since: CommitTs) -> Vec<PageId>;
    /// The page's logical content (page/G4) as of snapshot `at`, into `out` (4096 bytes): committed bytes XOR
    /// the differences newer than `at`. Transactions go on meanwhile.
    fn image(&self, page: PageId, at: CommitTs, out: &mut [u8]);
    /// A checkpoint at `at` was published: segments dropped at or before `at` may be reused.
    fn published(&self, at: CommitTs);
}

/// How hard a checkpoint works, asked again and again: for how many times as long as it kept the medium busy
/// it leaves it to the commits. 0: it goes as fast as the medium does.
///
/// A commit whose sync meets one of ours waits for both, so of all commits about 1 in (1 + this) does.
pub type Pace<'a> = &'a dyn Fn() -> u32;

/// The pace that never rests.
pub fn full_speed() -> u32 {
    0
}

/// What a checkpoint did.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// T.
    pub at: CommitTs,
    pub full: bool,
    pub pages: u64,
    pub bytes: u64,
    pub seconds: f64,
}

/// Takes checkpoints, one at a time.
#[derive(Default)]
pub struct Checkpointer {
    /// The clock when the last images were made: what the variant that clears flags too late goes by.
    copied: CommitTs,
}

/// Bytes written between two syncs: what a commit's sync may find dirty of ours.
const PIECE: u64 = 512 << 10;
/// The same at full speed.
const LARGE_PIECE: u64 = 32 << 20;
/// A rest at most, and how often within one the pace is asked.
const LONGEST_REST: Duration = Duration::from_secs(1);
const REST: Duration = Duration::from_millis(10);
/// Increments before a full file is written, whatever their size.
const MOST_FILES: usize = 16;

impl Checkpointer {
    pub fn new() -> Checkpointer {
        Checkpointer::default()
    }

    /// One checkpoint, on the caller's thread. `full` asks for a new base.
    pub fn run(
        &mut self,
        log: &Log,
        source: &dyn Source,
        pace: Pace<'_>,
        full: bool,
    ) -> Result<Done, CheckpointError> {
        let _phase = ondol_base::sim::phase("checkpoint");
        let start = ondol_base::clock::now();
        let inner = &*log.inner;
        // One checkpoint at a time: nobody else changes the manifest while the database is open.
        let mut current = inner.manifest.lock();
        source.pin();
        let unpin = Unpin(source);
        let hasty = mutated("t_is_clock");
        if !hasty {
            log.flush()?;
        }
        let at = if hasty { log.clock() - 1 } else { log.durable_ts() }; // K1
        if !hasty {
            source.settle(at); // K2
        }
        let base = current.files.iter().find(|f| f.full).map_or(0, |f| f.length);
        let increments: u64 = current.files.iter().filter(|f| !f.full).map(|f| f.length).sum();
        let full = full || base == 0 || increments > base || current.files.len() >= MOST_FILES;
        let late = mutated("dirty_cleared_late");
        let since = if full {
            0
        } else if late {
            self.copied
        } else {
            current.at
        };
        let changed = source.changed_pages(since); // K3
        // A system record logged from here on may be missing from the tables, also in a round that holds no
        // commit later than T: its round stays.
        let tables_from = inner.latch.lock().next_round;
        let segments = source.segments(); // K4
        let catalog = inner.latch.lock().catalog.clone();
        let listed: BTreeSet<SegmentId> = segments.iter().map(|s| s.id).collect();

        let mut next = current.clone();
        let number = next.next_checkpoint;
        next.next_checkpoint += 1;
        next.sequence += 1;
        let data = &*inner.config.data;
        let name = crate::manifest::checkpoint_name(number);
        let io = |error| CheckpointError::Io { file: name.clone(), error };
        let write = || -> Result<(u64, u64, u64), CheckpointError> {
            let mut out = ImageWriter::create(data, number, current.database, at).map_err(io)?;
            let mut brake = Brake { pace, synced: 0 };
            let gone = |s: SegmentId| catalog.dropped.get(&s).is_some_and(|dropped| *dropped <= at);
            let table: BTreeMap<SegmentId, &Segment> =
                segments.iter().filter(|s| !gone(s.id)).map(|s| (s.id, s)).collect();
            let mut content = vec![0u8; PAGE_SIZE];
            let mut pages = 0;
            for page in changed {
                // Dropped meanwhile: the drop is durable before this checkpoint counts (K4).
                let Some(segment) = table.get(&page.segment()) else { continue };
                let format = segment.formats.get(page.index()).copied().unwrap_or(Format::Unformatted);
                if format == Format::Unformatted {
                    return Err(CheckpointError::Unformatted { page: page.0 });
                }
                source.image(page, at, &mut content);
                if full && content.as_chunks::<64>().0.iter().all(|line| *line == [0; 64]) {
                    continue; // a page in no file is zero
                }
                if out.image(page, format, &content).map_err(io)? {
                    brake.tread(&out).map_err(io)?;
                }
                pages += 1;
            }
            for segment in table.values() {
                debug_assert_eq!(segment.formats.len(), PAGES_PER_SEGMENT);
                // One that is in memory and not logged yet is younger than T: no older file's images are its
                // own (image/I4).
                let unlogged = if mutated("segment_unstamped") { 0 } else { at };
                let created = catalog.created.get(&segment.id).copied().unwrap_or(unlogged);
                if out.segment(segment, created).map_err(io)? {
                    brake.tread(&out).map_err(io)?;
                }
            }
            for (id, value) in &catalog.sequences {
                out.sequence(*id, *value).map_err(io)?;
            }
            let (length, index) = brake.busy(|| out.finish()).map_err(io)?;
            brake.busy(|| data.sync_dir("")).map_err(io)?;
            Ok((length, index, pages))
        };
        let written = write();
        let (length, index, pages) = match written {
            Ok(w) => w,
            Err(e) => {
                // No manifest names it; if this fails too, the next opening removes it.
                let _ = data.remove(&name);
                current.next_checkpoint = next.next_checkpoint;
                return Err(e);
            }
        };
        drop(unpin);
        self.copied = log.clock() - 1;
        if !hasty {
            log.flush()?; // K4
        }

        let tables = if mutated("tables_forgotten") { u64::MAX } else { tables_from };
        let first = inner.first_round(at).min(tables);
        next.at = at;
        next.first_round = first;
        if full {
            next.files.clear();
        }
        next.files.push(CheckpointFile { number, at, length, index, full });
        // What an ended incarnation left is needed only while its rounds are.
        next.incarnations.retain(|i| i.last_round == OPEN_END || i.last_round >= first);
        if let Some(i) = next.incarnations.last_mut() {
            i.files = inner.first_files(first);
        }
        if mutated("truncate_early") {
            let named: Vec<u64> = next.incarnations.last().map_or(vec![], |i| i.files.clone());
            inner.truncate(first, &named);
            // As long as a slow medium takes over the manifest: time to use the files again.
            ondol_base::thread::sleep(Duration::from_millis(5));
        }
        if let Err((file, error)) = next.publish(data, true) {
            // One copy may say the new, one the old: keep what either needs, and let the next one try again.
            current.next_checkpoint = next.next_checkpoint;
            // It begins with the copy that may be damaged now, not with the one that stands.
            current.sequence = next.sequence + (file == crate::manifest::name_of(next.sequence)) as u64;
            return Err(CheckpointError::Io { file, error });
        }
        let old = std::mem::replace(&mut *current, next);
        for f in old.files.iter().filter(|f| current.files.iter().all(|n| n.number != f.number)) {
            // K5. A file that stays is named by no manifest, and goes at the next opening.
            let _ = data.remove(&f.name());
        }
        let named = current.incarnations.last().map_or(vec![], |i| i.files.clone());
        inner.truncate(first, &named);
        drop(current);
        inner.latch.lock().catalog.forget_dropped(at, &listed);
        source.published(at);
        let seconds = (ondol_base::clock::now() - start).as_secs_f64();
        Ok(Done { at, full, pages, bytes: length, seconds })
    }
}

/// Unpins also when the checkpoint fails.
struct Unpin<'a>(&'a dyn Source);
impl Drop for Unpin<'_> {
    fn drop(&mut self) {
        self.0.unpin()
    }
}

/// Bounds what is dirty, and leaves the medium to the commits between two pieces.
struct Brake<'a> {
    pace: Pace<'a>,
    synced: u64,
}
impl Brake<'_> {
    fn tread(&mut self, out: &ImageWriter) -> std::io::Result<()> {
        let piece = if (self.pace)() == 0 { LARGE_PIECE } else { PIECE };
        if out.written() - self.synced < piece {
            return Ok(());
        }
        self.busy(|| out.sync())?;
        self.synced = out.written();
        Ok(())
    }
    /// Does what keeps the medium busy, and rests.
    fn busy<R>(&self, work: impl FnOnce() -> R) -> R {
        let start = ondol_base::clock::now();
        let done = work();
        let took = ondol_base::clock::now().saturating_sub(start);
        let mut rested = Duration::ZERO;
        loop {
            // The pace may have changed: somebody waits, or the log fills.
            let left = took.saturating_mul((self.pace)()).min(LONGEST_REST).saturating_sub(rested);
            if left.is_zero() {
                return done;
            }
            let rest = left.min(REST);
            ondol_base::thread::sleep(rest);
            rested += rest;
        }
    }
}
