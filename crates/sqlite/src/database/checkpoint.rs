//! What a connection's checkpoints share instead of copying: planned when SQLite begins to backfill, done at
//! its writes.
use super::Database;
use crate::care;
use crate::chain::Chain;
use crate::exchange::Pair;
use crate::ffi;
use crate::layout::{BLOCK, Layout, VERSION};
use crate::measure;
use crate::medium::Medium;
use crate::observed::Cycle;
use crate::places::Places;
use crate::plan::{self, Run, State, Work};
use crate::settings::Mode;
use crate::sharing::{self, Mechanism, Range};
use crate::verdict::{Verdict, verdict};
use crate::wal::{self, Entry};
use std::fs::File;
use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The shortest run that is shared in remap mode where nothing is said: a shorter one costs more time than
/// copying it, one call of the kernel against some microseconds a block.
pub(super) const LEAST_BLOCKS: u32 = 16;
/// How often auto tries to be alone with a database.
pub(super) const REFUSALS: u64 = 3;

/// Blocks that sharing a run spares.
fn blocks(run: &Run, layout: Layout) -> u32 {
    run.spared * (layout.page() / BLOCK) as u32
}

/// What went by since the last checkpoint.
#[derive(Clone, Copy)]
struct Past {
    /// Of the WAL.
    syncs: u64,
    /// Infinite before the first.
    since_us: f64,
}

/// What a backfill may share.
pub(super) struct Shareable {
    runs: Vec<Run>,
    layout: Layout,
    source: File,
    how: Mechanism,
    /// The last run that was exchanged, and its pages, which SQLite reads one after the other.
    exchanged: Option<(Run, Vec<u8>)>,
}

impl Shareable {
    /// How a run is shared: only dense ones are exchanged.
    fn how(&self, run: &Run) -> Mechanism {
        if run.dense() { self.how } else { Mechanism::Clone }
    }
    /// Reads the page of a frame that this checkpoint announced, without searching for it: nobody else
    /// exchanges. None where it has not.
    pub(super) fn read(
        &self,
        file: &dyn Medium,
        frame: u64,
        buf: &mut [u8],
    ) -> Option<io::Result<(usize, Option<u64>)>> {
        if self.how != Mechanism::Exchange {
            return None;
        }
        let entry = *wal::entries(file, self.layout, frame, frame + 1).ok()?.first()?;
        let place = u64::from(entry.place());
        let run = plan::run_of(&self.runs, entry.page())?;
        if run.place_of(entry.page()) != Some(place) || !run.dense() {
            return None;
        }
        if run.state != State::Shared {
            let read = file.read_at(buf, self.layout.place_at(place));
            return Some(read.map(|n| (n, Some(place))));
        }
        let (last, pages) = self.exchanged.as_ref().filter(|(last, _)| last.page == run.page)?;
        let n = (entry.page() - last.page) as usize;
        buf.copy_from_slice(pages.chunks_exact(buf.len()).nth(n)?);
        Some(Ok((buf.len(), Some(place))))
    }
}

/// What a checkpoint of a connection that is alone is to do.
fn proved(chain: &mut Chain, pair: Pair<'_>) -> io::Result<Option<Work>> {
    let backfilled = chain.backfilled;
    let Some(frames) = chain.frames(pair)? else { return Ok(None) };
    let to = frames.len() as u64;
    let pages = frames.last().map_or(0, Entry::size);
    // Also where nothing is new: SQLite comes again to what it did not finish.
    Ok(Some(Work { from: backfilled.min(to), to, committed: to, pages }))
}

impl Database {
    /// A counter in the WAL index, at a place that the format of the index promises.
    pub(super) fn index_u32(&self, at: usize) -> Option<u64> {
        if self.index.is_null() {
            return None;
        }
        // SAFETY: the region is 32 KiB, aligned to a page, and stays mapped until `shm_unmap` resets the
        // pointer; the word may be written by others, hence the atomic load.
        let word = unsafe { &*self.index.add(at).cast::<std::sync::atomic::AtomicU32>() };
        Some(u64::from(word.load(std::sync::atomic::Ordering::Acquire)))
    }

    /// SQLite is about to backfill: WAL synced, its frames up to `nBackfillAttempted` to go, READ_LOCK(0)
    /// exclusive.
    pub fn checkpoint_starts(&mut self) {
        let before = self.target.counts.checkpoints.fetch_add(1, Relaxed);
        let syncs = self.target.choice.syncs.swap(0, Relaxed);
        let syncs_us = self.target.choice.syncs_ns.swap(0, Relaxed) as f64 / 1e3;
        let frames = self.work().map_or(0, |work| work.to - work.from);
        let cycle = Cycle { frames, syncs_us, ..Cycle::default() };
        let began = Instant::now();
        let last = self.target.choice.began.lock().unwrap_or_else(PoisonError::into_inner).replace(began);
        let since_us = last.map_or(f64::INFINITY, |last| (began - last).as_secs_f64() * 1e6);
        let past = Past { syncs, since_us };
        self.cycle = Some((began, cycle, self.target.counts.pages()));
        self.last_read = None;
        self.backfilling = true;
        match self.prepare(past) {
            Ok(shareable) => self.shareable = shareable,
            // There is nobody to tell now: the first write tells.
            Err(error) => self.held = Some(error),
        }
        // A process that ends with its first checkpoint has nothing to gain.
        if self.settings.mode == Mode::Auto && before > 0 {
            self.consider(past);
        }
    }
    pub fn checkpoint_ends(&mut self) {
        // Readers go to the database from here on.
        self.fence();
        self.backfilling = false;
        self.shareable = None;
        self.last_read = None;
        self.held = None;
    }

    /// The database was synced: after a checkpoint, this ends its cycle.
    pub(super) fn cycle_ends(&mut self) {
        if self.backfilling {
            return;
        }
        let Some((began, mut cycle, [shared, copied])) = self.cycle.take() else { return };
        let Ok(head) = care::header(&self.below) else { return };
        let blocks = (head.page / BLOCK).max(1);
        let [shared_now, copied_now] = self.target.counts.pages();
        cycle.blocks_shared = (shared_now - shared) * blocks;
        cycle.blocks_copied = (copied_now - copied) * blocks;
        cycle.checkpoint_us = began.elapsed().as_secs_f64() * 1e6;
        self.target.choice.observed.lock().unwrap_or_else(PoisonError::into_inner).note(cycle);
    }

    /// Makes a backfill's writes safe, and plans what is shared instead. An error forbids them.
    fn prepare(&mut self, past: Past) -> io::Result<Option<Shareable>> {
        // SAFETY: database/D1.
        let Some(wal) = (unsafe { self.wal.as_mut() }) else { return Ok(None) };
        let Some(layout) = wal.layout else { return Ok(None) };
        let pair = Pair { wal: &wal.below, database: &self.below, layout };
        // Alone from the start: SQLite keeps the WAL index to itself.
        let alone = self.index.is_null() && self.level.get() >= ffi::LOCK_EXCLUSIVE;
        let proved = if alone { proved(&mut wal.chain, pair)? } else { self.work() };
        let Some(work) = proved else {
            return match pair.any_away()? {
                true => {
                    Err(io::Error::other("what stands in the WAL is not known, and pages were exchanged"))
                }
                false => Ok(None),
            };
        };
        let mut entries = wal::entries(&wal.below, layout, 0, work.committed)?;
        let home = pair.to_bring_home(&entries, work)?;
        if !home.is_empty() {
            let source = sharing::source(&self.our_wal())?;
            let target = self.target.file_at_any_price(&self.path, &self.below)?;
            self.unsynced = true;
            for range in home {
                Mechanism::Exchange.apply(&source, target, range)?;
            }
        }
        // Should SQLite stop half-way and come again to these frames, older versions of their pages are at
        // home.
        wal.chain.backfilled = work.to;
        let plan = self.plan(&entries, work, layout, wal.version, past);
        if let Some(plan) = &plan {
            let exchanged = |run: &&Run| plan.how(run) == Mechanism::Exchange;
            let exchanged: Vec<Run> = plan.runs.iter().filter(exchanged).cloned().collect();
            if !exchanged.is_empty() {
                pair.announce(&mut entries, work, &exchanged)?;
            }
        }
        Ok(plan)
    }

    /// What can be shared by this checkpoint. Whatever cannot be found out costs a chance to share, nothing
    /// else.
    fn plan(
        &self,
        entries: &[Entry],
        work: Work,
        layout: Layout,
        version: u32,
        past: Past,
    ) -> Option<Shareable> {
        if matches!(self.settings.mode, Mode::Copy | Mode::Pmem) || self.target.refusal().is_some() {
            return None;
        }
        let how = self.mechanism(version);
        let runs = match self.settings.mode {
            Mode::Auto => {
                let mut runs = plan::runs(entries, work, 1, plan::GAP);
                let least = self.judge(&runs, layout, past, how)?.least_blocks?;
                runs.retain(|run| blocks(run, layout) >= least);
                runs
            }
            _ => {
                let least = self.settings.least_blocks.unwrap_or(LEAST_BLOCKS);
                plan::runs(
                    entries,
                    work,
                    (u64::from(least) * BLOCK).div_ceil(layout.page()) as u32,
                    plan::GAP,
                )
            }
        };
        if runs.is_empty() {
            return None;
        }
        if let Err(error) = self.target.file(&self.path, &self.below) {
            if !sharing::passes(&error) {
                self.target.refuse(&self.path, sharing::why(sharing::folder(&self.path), &error));
            }
            return None;
        }
        let source = sharing::source(&self.our_wal()).ok()?;
        Some(Shareable { runs, layout, source, how, exchanged: None })
    }

    /// How blocks are shared here, with a WAL of this version.
    pub(super) fn mechanism(&self, version: u32) -> Mechanism {
        let wanted = self.settings.mechanism;
        if version == VERSION
            && wanted != Some(Mechanism::Clone)
            && (wanted.is_some() || measure::exchanges(sharing::folder(&self.path)))
        {
            Mechanism::Exchange
        } else {
            Mechanism::Clone
        }
    }

    /// What the checkpoint that begins is to do.
    fn work(&self) -> Option<Work> {
        const COMMITTED: usize = 16;
        const PAGES: usize = 20;
        const BACKFILLED: usize = 96;
        const ATTEMPTED: usize = 128;
        let (from, to) = (self.index_u32(BACKFILLED)?, self.index_u32(ATTEMPTED)?);
        // Read last: a writer may commit meanwhile, and SQLite knows no more commits than are seen here.
        let (pages, committed) = (self.index_u32(PAGES)? as u32, self.index_u32(COMMITTED)?);
        (from < to && to <= committed).then_some(Work { from, to, committed, pages })
    }

    /// About what a round of measuring takes: it writes and syncs some files of 64 blocks, about as a
    /// checkpoint does that is worth it.
    fn round(&self) -> Duration {
        let observed = self.target.choice.observed.lock().unwrap_or_else(PoisonError::into_inner);
        Duration::from_secs_f64(observed.last_us() / 1e6)
    }

    /// The verdict on runs that sharing could spare, where they are worth a measurement.
    fn judge(&self, runs: &[Run], layout: Layout, past: Past, how: Mechanism) -> Option<Verdict> {
        /// Blocks whose copying takes less time than finding out about it.
        const WORTHWHILE: u32 = 64;
        let spared = || runs.iter().map(|run| blocks(run, layout));
        if spared().sum::<u32>() < WORTHWHILE {
            return None;
        }
        let choice = &self.target.choice;
        let known = measure::costs(sharing::folder(&self.path), how, self.round()).ok()?;
        let observed = choice.observed.lock().unwrap_or_else(PoisonError::into_inner);
        match known.as_deref() {
            None => {
                *choice.verdict.lock().unwrap_or_else(PoisonError::into_inner) = None;
                choice.care.store(false, Relaxed);
                None
            }
            Some(Ok(costs)) => {
                let costs = observed.correct(*costs);
                let least = self.settings.least_blocks.unwrap_or(1);
                let mut verdict = verdict(&costs, spared(), past.syncs, least, past.since_us);
                if observed.forbids() {
                    verdict.least_blocks = None;
                }
                choice.care.store(verdict.share(), Relaxed);
                *self.target.choice.verdict.lock().unwrap_or_else(PoisonError::into_inner) = Some(verdict);
                Some(verdict)
            }
            Some(Err(why)) => {
                choice.care.store(false, Relaxed);
                self.target.refuse(&self.path, why.clone());
                None
            }
        }
    }

    /// `ondol=auto`, and the WAL is SQLite's: whether it pays to take the database into care when it begins
    /// anew.
    fn consider(&self, past: Past) {
        let choice = &self.target.choice;
        // SAFETY: database/D1.
        let stock = unsafe { self.wal.as_ref() }.is_some_and(|wal| wal.layout.is_none());
        // Under EXCLUSIVE it is the last checkpoint, or nobody reads the WAL index.
        let late = self.level.get() >= ffi::LOCK_EXCLUSIVE || choice.refused.load(Relaxed) >= REFUSALS;
        if !stock || late || self.target.refusal().is_some() {
            return;
        }
        // What follows takes time as well.
        if !measure::has_time(sharing::folder(&self.path), self.round()) {
            return;
        }
        let Some(work) = self.work() else { return };
        let Ok(head) = care::header(&self.below) else { return };
        let (true, Some(layout)) = (self.may_care(head), Layout::new(head.page)) else { return };
        let Ok(len) = Medium::len(&self.below) else { return };
        // What places these frames would have in our layout.
        let mut places = Places::new((len / head.page) as u32);
        let entries: Vec<Entry> = (0..work.committed)
            .map_while(|frame| self.index_page(frame))
            .map(|page| {
                let place = places.next(page);
                places.note(page, place);
                Entry::new(page, place)
            })
            .collect();
        let how = self.mechanism(VERSION);
        let runs = plan::runs(&entries, work, 1, plan::GAP);
        if self.judge(&runs, layout, past, how).is_none() {
            choice.care.store(false, Relaxed);
        }
    }

    /// The page of a frame (from 0), where the first region of the WAL index has it.
    fn index_page(&self, frame: u64) -> Option<u32> {
        const HEADER: usize = 136;
        const FRAMES: u64 = 4096 - HEADER as u64 / 4;
        (frame < FRAMES)
            .then(|| self.index_u32(HEADER + 4 * frame as usize))
            .flatten()
            .map(|page| page as u32)
    }

    /// Whether the page at `offset`, read from `place`, is in the database by sharing; shares its run when it
    /// is first.
    pub(super) fn shared(&mut self, buf: &[u8], offset: u64, place: u64) -> bool {
        let Some(Shareable { runs, layout, source, how, exchanged }) = &mut self.shareable else {
            return false;
        };
        let size = layout.page();
        if buf.len() as u64 != size || !offset.is_multiple_of(size) {
            return false;
        }
        let Ok(page) = u32::try_from(offset / size + 1) else { return false };
        let after = runs.partition_point(|run| run.page <= page);
        let Some(run) = after.checked_sub(1).map(|i| &mut runs[i]) else { return false };
        if run.place_of(page) != Some(place) {
            return false;
        }
        if run.state == State::Waiting {
            // Sharing late, after a page of the run was written otherwise, would do no harm, but means that
            // the plan is not SQLite's.
            run.state = State::Copied;
            let range = Range { from: layout.place_at(place), to: offset, len: u64::from(run.pages) * size };
            let how = if run.dense() { *how } else { Mechanism::Clone };
            if page == run.page
                && let Some(content) = self.target.share(&self.path, &self.below, source, range, buf, how)
            {
                run.state = State::Shared;
                if how == Mechanism::Exchange {
                    *exchanged = Some((run.clone(), content));
                }
                self.unsynced = true;
                self.target.counts.runs_shared.fetch_add(1, Relaxed);
            }
        }
        if run.state == State::Shared {
            self.target.counts.pages_shared.fetch_add(1, Relaxed);
        }
        run.state == State::Shared
    }
}
