//! The log: the commit latch, the clock, the streams' buffers. Rounds are in [`crate::round`].
//!
//! ```text
//!  reserve ──latch──> c = clock, space in the stream's buffer, publish(c), clock = c + 1
//!     │ outside the latch: copy the record
//!     v
//!  buffer ──sealed by a round──> block ──write, sync──> durable round ──> durable_ts
//! ```
//! - **G1** A timestamp is taken, its space reserved and its commit published in one critical section, so a
//!   round that reads `closed` under the same latch holds every commit below it (protocol/P1, protocol/P3).
//! - **G2** Whatever can fail fails before `c` is taken. A `c` once taken is logged, void if need be.
//! - **G3** The clock moves on only after `publish(c)` returned: a snapshot of `clock - 1` finds every commit
//!   it covers published.
//! - **G4** After a failed write or sync nothing is acknowledged any more (protocol/P7); the failure is kept
//!   for good.
//! - **G5** A system record stands in the same round as, or an earlier one than, any commit that took its
//!   timestamp after it: both are reserved under the latch, and a round takes all buffers at once.
//!
//! Latches, in the order in which they are taken: `Rounds::state`, `jobs`, `prepare`, writers, `latch`.
//!
//! A crash leaves: all durable rounds, and of the last, unsynced one any subset of its sectors.
use crate::block::MAX_STREAMS;
use crate::delta::Changes;
use crate::error::LogError;
use crate::files::{self, Config, First};
use crate::manifest::Manifest;
use crate::mark;
use crate::page::SegmentId;
use crate::record::{self, Kind, System};
use crate::ringed::Ringed;
use crate::round::Rounds;
pub use crate::round::Tell;
use crate::sequence::Given;
use crate::stream::{Buffer, Helper, Job, OldFile, Writer};
use crate::{CommitTs, TxnId};
use ondol_base::media::Lock;
use ondol_base::park::{self, Parker};
use ondol_base::sim::mutated;
use ondol_base::sync::{Condvar, Mutex, MutexGuard};
use ondol_base::thread::JoinHandle;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A log stream: one folder, one sequence of blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u16);

/// The log of an open database. Dropping it without [`Log::close`] leaves the database as a crash would.
pub struct Log {
    pub(crate) inner: Arc<Inner>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A stream's open buffer, under the commit latch.
pub(crate) struct OpenStream {
    pub buffer: usize,
    /// Words given out, and how many may be.
    pub used: usize,
    pub limit: usize,
    /// The clock at the first record; timestamps in the block are relative to it.
    pub base: CommitTs,
    pub position: u64,
    /// Bytes left in the current file, and size of the file prepared behind it (0: none).
    pub left: u64,
    pub next: u64,
    /// Size of the current file.
    pub size: u64,
}

/// What the log knows of segments and sequences, for checkpoints.
#[derive(Clone, Default, Debug)]
pub(crate) struct Catalog {
    /// The clock when the segment was created last.
    pub created: BTreeMap<SegmentId, CommitTs>,
    pub dropped: BTreeMap<SegmentId, CommitTs>,
    pub sequences: BTreeMap<u64, Given>,
}

/// Everything under the commit latch.
pub(crate) struct Open {
    pub streams: Vec<OpenStream>,
    pub next_round: u64,
    /// Rounds since the last published checkpoint, with what closed them.
    pub history: VecDeque<(u64, CommitTs)>,
    /// Open transactions that spilled, and the round of their first fragment.
    pub spilling: BTreeMap<TxnId, u64>,
    /// The same for those that committed, until a checkpoint covers them.
    pub spilled: Vec<(CommitTs, u64)>,
    pub catalog: Catalog,
    pub closed: bool,
}

/// Preparation of the next log files.
pub(crate) struct Prepare {
    pub wanted: Vec<bool>,
    pub full: Vec<Option<LogError>>,
    pub attempts: u64,
    pub next_number: Vec<u64>,
    pub size: Vec<u64>,
    /// Truncated files that may be used again: number and size.
    pub spare: Vec<Vec<(u64, u64)>>,
    pub stop: bool,
    /// Who waits for an attempt to end.
    pub asleep: Vec<Arc<Parker>>,
}

impl Prepare {
    /// Wakes those who wait: they look again.
    pub fn tell(&mut self) {
        self.asleep.drain(..).for_each(|own| own.unpark())
    }
}

/// What recovery hands to the log.
pub(crate) struct Start {
    pub config: Config,
    pub manifest: Manifest,
    pub incarnation: u64,
    pub clock: CommitTs,
    pub round: u64,
    pub files: Vec<First>,
    pub old: Vec<Vec<OldFile>>,
    pub catalog: Catalog,
    pub locks: Vec<Box<dyn Lock>>,
    /// What the streams of `config` are written through.
    pub ring: Option<Ringed>,
}

pub(crate) struct Inner {
    pub config: Config,
    pub database: u128,
    pub incarnation: u64,
    pub clock: AtomicU64,
    pub durable: AtomicU64,
    pub asynchronous: AtomicU64,
    /// The newest commit that is to be durable soon, and visible only then (round/R5).
    pub held: AtomicU64,
    pub latch: Mutex<Open>,
    pub buffers: Vec<[Buffer; 2]>,
    pub writers: Vec<Mutex<Writer>>,
    pub helpers: Vec<Helper>,
    pub jobs: Mutex<Vec<Job>>,
    pub rounds: Rounds,
    pub failure: OnceLock<LogError>,
    pub prepare: Mutex<Prepare>,
    pub work: Condvar,
    pub manifest: Mutex<Manifest>,
    ring: Option<Ringed>,
    _locks: Vec<Box<dyn Lock>>,
}

impl Log {
    /// The largest `Changes::len()` of one record or fragment.
    pub const MAX_RECORD: usize = 64 << 10;

    pub(crate) fn start(start: Start) -> std::io::Result<Log> {
        let Start { config, manifest, incarnation, clock, round, files, old, catalog, locks, ring } = start;
        let n = files.len();
        let bytes = config.buffer_size.clamp(2 * Self::MAX_RECORD, 64 << 20);
        let prepare = Prepare {
            wanted: vec![false; n],
            full: vec![None; n],
            attempts: 0,
            next_number: files.iter().map(|f| f.next.0).collect(),
            size: files.iter().map(|f| f.next.1).collect(),
            spare: vec![vec![]; n],
            stop: false,
            asleep: vec![],
        };
        let inner = Arc::new(Inner {
            database: manifest.database,
            incarnation,
            clock: AtomicU64::new(clock),
            durable: AtomicU64::new(clock - 1),
            asynchronous: AtomicU64::new(0),
            held: AtomicU64::new(0),
            buffers: (0..n).map(|_| [Buffer::new(bytes), Buffer::new(bytes)]).collect(),
            latch: Mutex::new(Open {
                streams: files
                    .iter()
                    .map(|f| OpenStream {
                        buffer: 0,
                        used: 0,
                        limit: limit(f.file.size - f.offset, 0, bytes),
                        base: clock,
                        position: 1,
                        left: f.file.size - f.offset,
                        next: 0,
                        size: f.file.size,
                    })
                    .collect(),
                next_round: round + 1,
                history: VecDeque::new(),
                spilling: BTreeMap::new(),
                spilled: vec![],
                catalog,
                closed: false,
            }),
            writers: files
                .into_iter()
                .zip(old)
                .map(|(f, old)| {
                    let mut w = Writer::new(f.file, round);
                    (w.offset, w.old) = (f.offset, old);
                    Mutex::new(w)
                })
                .collect(),
            helpers: (0..n).map(|_| Helper::default()).collect(),
            jobs: Mutex::new(Vec::with_capacity(MAX_STREAMS)),
            rounds: Rounds::new(round),
            failure: OnceLock::new(),
            prepare: Mutex::new(prepare),
            work: Condvar::new(),
            manifest: Mutex::new(manifest),
            ring,
            _locks: locks,
            config,
        });
        let log = Log { inner: inner.clone(), threads: Mutex::new(vec![]) };
        let spawn = |name: &str, f: Box<dyn FnOnce(&Inner) + Send>| -> std::io::Result<()> {
            let inner = inner.clone();
            log.threads.lock().push(ondol_base::thread::spawn(name, move || f(&inner))?);
            Ok(())
        };
        spawn("log-files", Box::new(|inner| inner.prepare_files()))?;
        spawn("log-flush", Box::new(|inner| inner.flush_in_background()))?;
        for k in 1..n {
            spawn("log-stream", Box::new(move |inner| inner.helpers[k].serve(|job| inner.write(job))))?;
        }
        Ok(log)
    }

    pub fn streams(&self) -> usize {
        self.inner.buffers.len()
    }
    pub fn database(&self) -> u128 {
        self.inner.database
    }
    pub fn incarnation(&self) -> u64 {
        self.inner.incarnation
    }

    /// Takes the next commit timestamp with space for a record of `len` bytes of changes (protocol/P1).
    /// `publish` runs under the commit latch: it must be short, and must not call the log. May first lead a
    /// round, or park until there is space: the caller holds no guard and no pin (park/P4). `fragments`
    /// counts what was spilled for `txn` before.
    pub fn reserve(
        &self,
        stream: StreamId,
        len: usize,
        kind: Kind,
        txn: TxnId,
        fragments: u32,
        publish: impl FnOnce(CommitTs),
    ) -> Result<Reservation<'_>, LogError> {
        let inner = &*self.inner;
        let len = if kind == Kind::Void { 0 } else { len };
        let words = record::commit_words(len, fragments);
        let _phase = ondol_base::sim::phase("commit");
        let mut open = inner.space(stream, len, words, false)?;
        let ts = inner.clock.load(Ordering::Relaxed);
        let s = &mut open.streams[stream.0 as usize];
        if s.used == 0 {
            s.base = ts;
        }
        let reservation = Reservation {
            inner,
            ts,
            txn,
            fragments,
            stream: stream.0 as usize,
            buffer: s.buffer,
            at: s.used,
            words,
            relative: ts - s.base,
            kind,
            filled: false,
        };
        s.used += words;
        if fragments > 0
            && let Some(round) = open.spilling.remove(&txn)
        {
            open.spilled.push((ts, round));
        }
        // Should `publish` panic, the timestamp is still taken, and the reservation logs it as void (G2).
        struct Advance<'a>(&'a AtomicU64, CommitTs);
        impl Drop for Advance<'_> {
            fn drop(&mut self) {
                self.0.store(self.1, Ordering::Release);
            }
        }
        let advance = Advance(&inner.clock, ts + 1);
        publish(ts);
        drop(advance);
        drop(open);
        ondol_base::sync::yield_point();
        Ok(reservation)
    }

    /// Spills the `n`th (from 0) fragment of an open transaction (protocol/P2). May park as
    /// [`Log::reserve`] does.
    pub fn fragment(&self, stream: StreamId, txn: TxnId, n: u32, changes: &Changes) -> Result<(), LogError> {
        let inner = &*self.inner;
        let words = record::fragment_words(changes.len());
        let mut open = inner.space(stream, changes.len(), words, false)?;
        let round = open.next_round;
        open.spilling.entry(txn).or_insert(round);
        let (buffer, at) = inner.take(&mut open, stream, words);
        drop(open);
        ondol_base::sync::yield_point();
        let head = [record::head(words, record::FRAGMENT, 0), txn, n as u64];
        inner.buffers[stream.0 as usize][buffer].put(at, &head, changes.as_bytes(), words);
        Ok(())
    }

    /// Spills changes of any size as fragments from number `n` on; gives the next number.
    pub fn spill(&self, stream: StreamId, txn: TxnId, n: u32, changes: &Changes) -> Result<u32, LogError> {
        if changes.len() <= Self::MAX_RECORD {
            self.fragment(stream, txn, n, changes)?;
            return Ok(n + 1);
        }
        let mut n = n;
        for part in changes.parts(Self::MAX_RECORD) {
            self.fragment(stream, txn, n, &part)?;
            n += 1;
        }
        Ok(n)
    }

    /// The transaction will not commit; its fragments are dead.
    pub fn abandon(&self, txn: TxnId) {
        self.inner.latch.lock().spilling.remove(&txn);
    }

    /// Logs a record without a timestamp (protocol/P8). Durable whenever a commit that took its timestamp
    /// later is (G5). The caller may hold guards, of a heap or a checkpoint: its thread waits for space.
    pub fn system(&self, item: System) -> Result<(), LogError> {
        let inner = &*self.inner;
        let stream = StreamId(0);
        let (_, words) = item.encode(0);
        let mut open = inner.space(stream, 0, words, true)?;
        let clock = inner.clock.load(Ordering::Relaxed);
        let (buffer, at) = inner.take(&mut open, stream, words);
        open.catalog.note(clock, &item);
        drop(open);
        let (record, words) = item.encode(clock);
        inner.buffers[0][buffer].put(at, &record[..words], &[], words);
        Ok(())
    }

    /// Logs that a sequence has given out so much, and gives the timestamp of that (sequence/Q4). The caller
    /// may hold guards: its thread waits for space.
    pub fn give(&self, stream: StreamId, sequence: u64, given: Given) -> Result<CommitTs, LogError> {
        let inner = &*self.inner;
        let words = record::GIVEN_WORDS;
        let mut open = inner.space(stream, 0, words, true)?;
        let ts = inner.clock.load(Ordering::Relaxed);
        let (buffer, at) = inner.take(&mut open, stream, words);
        let relative = ts - open.streams[stream.0 as usize].base;
        open.catalog.give(sequence, given);
        inner.clock.store(ts + 1, Ordering::Release);
        drop(open);
        ondol_base::sync::yield_point();
        let head = record::head(words, record::GIVEN, relative);
        let rest = [head, sequence, given.generation, given.steps, given.value as u64];
        inner.buffers[stream.0 as usize][buffer].put(at, &rest, &[], words);
        Ok(ts)
    }

    /// Returns once commit `c` is durable, leading a round if none is under way (protocol/P3). A `c` not yet
    /// given waits for the newest that was.
    pub fn wait_durable(&self, c: CommitTs) -> Result<(), LogError> {
        self.inner.wait_durable(c)
    }
    /// Makes everything durable that was reserved before the call, system records included.
    pub fn flush(&self) -> Result<(), LogError> {
        self.inner.flush()
    }
    /// Every commit up to this one is durable.
    #[inline]
    pub fn durable_ts(&self) -> CommitTs {
        self.inner.durable.load(Ordering::Acquire)
    }
    /// Every commit up to this one was acknowledged, durably or asynchronously.
    #[inline]
    pub fn visible_ts(&self) -> CommitTs {
        self.durable_ts().max(self.inner.asynchronous.load(Ordering::Acquire))
    }
    /// Commit `c` is acknowledged without waiting; a background round follows.
    pub fn acknowledge_async(&self, c: CommitTs) {
        self.inner.asynchronous.fetch_max(c, Ordering::SeqCst);
        self.inner.rounds.kick();
    }
    /// Commit `c` is neither waited for nor acknowledged; a background round follows (round/R5).
    pub fn hold(&self, c: CommitTs) {
        if mutated("held_acknowledged") {
            return self.acknowledge_async(c);
        }
        self.inner.held.fetch_max(c, Ordering::SeqCst);
        if !mutated("held_unkicked") {
            self.inner.rounds.kick()
        }
    }
    /// Whether commit `c` is durable, or why it never will be.
    pub fn poll_durable(&self, c: CommitTs) -> Result<bool, LogError> {
        self.inner.fate(c).map_or(Ok(false), |fate| fate.map(|()| true))
    }
    /// Calls `tell` once commit `c` is durable, or cannot become so: here if that is known, else on the
    /// thread that makes it so, which must not be kept. The round is led at once.
    pub fn when_durable(&self, c: CommitTs, tell: Tell) {
        self.inner.watch(c, tell)
    }
    /// The next commit timestamp; a snapshot of now is one less.
    #[inline]
    pub fn clock(&self) -> CommitTs {
        self.inner.clock.load(Ordering::Acquire)
    }
    /// The failure that ended the log, if one did.
    pub fn failure(&self) -> Option<LogError> {
        self.inner.failure.get().cloned()
    }
    /// Rounds made durable so far, counted over the life of the database.
    pub fn rounds(&self) -> u64 {
        self.inner.rounds.completed()
    }
    /// Whether a stream finds no room for its next file, so that commits are refused until a checkpoint has
    /// given files back.
    pub fn is_short(&self) -> bool {
        self.inner.prepare.lock().full.iter().any(Option::is_some)
    }
    /// Log bytes that recovery would have to look at now: a reason for a checkpoint.
    pub fn kept_bytes(&self) -> u64 {
        self.inner
            .writers
            .iter()
            .map(|w| {
                let w = w.lock();
                w.offset + w.old.iter().map(|f| f.size).sum::<u64>()
            })
            .sum()
    }

    /// Makes everything durable, says in the manifest that the log ends here, and stops the log's threads.
    pub fn close(&self) -> Result<(), LogError> {
        let inner = &*self.inner;
        {
            let mut open = inner.latch.lock();
            if open.closed {
                return Err(LogError::Closed);
            }
            open.closed = true;
        }
        let result = inner.flush();
        self.stop();
        result?;
        let unrecorded = |(file, e)| LogError::Failed {
            stream: 0,
            file,
            why: format!("the log is durable, but that it was closed could not be recorded: {e}"),
        };
        let unmark = || mark::remove(&*inner.config.data).map_err(unrecorded);
        if let Some(ring) = &inner.ring {
            if mutated("ring_mark_gone_early") {
                unmark()?
            }
            ring.drain().map_err(|e| unrecorded((ring.path().into(), e)))?
        }
        let mut manifest = inner.manifest.lock();
        let mut next = manifest.clone();
        next.sequence += 1;
        next.clean = Some(inner.rounds.completed());
        next.ringed = false;
        next.publish(&*inner.config.data, true).map_err(unrecorded)?;
        *manifest = next;
        if inner.ring.is_some() { unmark() } else { Ok(()) }
    }

    fn stop(&self) {
        let inner = &*self.inner;
        inner.rounds.stop();
        {
            let mut p = inner.prepare.lock();
            p.stop = true;
            inner.work.notify_all();
            p.tell();
        }
        let mut threads = std::mem::take(&mut *self.threads.lock());
        let helpers = threads.split_off(threads.len().min(2));
        // A thread that panicked has nothing more to give; the log is ending anyway.
        let join = |t: JoinHandle<()>| drop(t.join());
        threads.into_iter().for_each(join);
        // Only now does nobody lead a round that needs them.
        inner.helpers.iter().for_each(Helper::stop);
        helpers.into_iter().for_each(join);
        inner.end_all();
        if let Some(ring) = &inner.ring {
            ring.stop()
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A commit timestamp and the log space for its record. Dropped without [`Reservation::commit`], it is logged
/// as void.
pub struct Reservation<'a> {
    inner: &'a Inner,
    ts: CommitTs,
    txn: TxnId,
    fragments: u32,
    stream: usize,
    buffer: usize,
    at: usize,
    words: usize,
    relative: u64,
    kind: Kind,
    filled: bool,
}

impl Reservation<'_> {
    #[inline]
    pub fn ts(&self) -> CommitTs {
        self.ts
    }
    /// Copies the record. Panics when `changes` is longer than what was reserved, or the reservation was made
    /// for a void (the timestamp is then logged as void).
    #[inline]
    pub fn commit(mut self, changes: &Changes) {
        assert!(
            self.kind == Kind::Commit && record::commit_words(changes.len(), self.fragments) <= self.words,
            "{} bytes of changes in a reservation of {} words",
            changes.len(),
            self.words
        );
        self.filled = true;
        let buffer = &self.inner.buffers[self.stream][self.buffer];
        if self.fragments > 0 {
            let head = record::head(self.words, record::LARGE, self.relative);
            buffer.put(self.at, &[head, self.txn, self.fragments as u64], changes.as_bytes(), self.words);
        } else {
            let head = record::head(self.words, record::COMMIT, self.relative);
            buffer.put(self.at, &[head], changes.as_bytes(), self.words);
        }
    }
    /// Logs the timestamp as one that changes nothing.
    pub fn void(self) {
        drop(self)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.filled {
            let head = record::head(self.words, record::VOID, self.relative);
            self.inner.buffers[self.stream][self.buffer].put(self.at, &[head], &[], self.words);
        }
    }
}

impl Catalog {
    pub fn note(&mut self, clock: CommitTs, item: &System) {
        match *item {
            System::SegmentCreate { segment, .. } => {
                self.created.insert(segment, clock);
                self.dropped.remove(&segment);
            }
            System::SegmentDrop { segment, at, .. } => {
                self.dropped.insert(segment, at);
            }
            System::SequenceAdvance { id, value } => self.give(id, Given::up_to(value)),
            System::SequenceDrop { id } => {
                self.sequences.remove(&id);
            }
            System::PageFormat { .. } => {}
        }
    }
    pub fn give(&mut self, id: u64, given: Given) {
        self.sequences.entry(id).or_insert(given).merge(given)
    }
    /// Forgets the segments that were given up at or before `at`, a published T: they may be created again,
    /// and until that is logged must not pass for what they were. `listed`: those that were in memory when T
    /// was read. Of other segments no record that was logged by then counts, even if their drop could not be
    /// logged. Of the listed ones every record does: a transaction that drops one may be between its record
    /// and memory for several checkpoints, none of which may name it.
    pub fn forget_dropped(&mut self, at: CommitTs, listed: &BTreeSet<SegmentId>) {
        let kept = |segment: &SegmentId, logged: &mut CommitTs| *logged > at || listed.contains(segment);
        self.dropped.retain(kept);
        if !mutated("stamps_kept") {
            self.created.retain(kept)
        }
    }
}

/// How many words the open buffer may take, so that its block fits in the current file or in the next.
pub(crate) fn limit(left: u64, next: u64, buffer_bytes: usize) -> usize {
    let header = crate::block::FIXED + 8 * MAX_STREAMS;
    (left.max(next).saturating_sub(header as u64).min(buffer_bytes as u64) / 8) as usize
}

impl Inner {
    pub fn buffer_bytes(&self) -> usize {
        self.config.buffer_size.clamp(2 * Log::MAX_RECORD, 64 << 20)
    }

    /// Gives out words of the open buffer, under the latch.
    fn take(&self, open: &mut Open, stream: StreamId, words: usize) -> (usize, usize) {
        let s = &mut open.streams[stream.0 as usize];
        if s.used == 0 {
            s.base = self.clock.load(Ordering::Relaxed);
        }
        let at = s.used;
        s.used += words;
        (s.buffer, at)
    }

    /// The commit latch, with space for `words` in the stream's open buffer, or why there is none (G2).
    /// `keeps_thread`: it is not parked meanwhile, since the caller may hold guards.
    fn space(
        &self,
        stream: StreamId,
        len: usize,
        words: usize,
        keeps_thread: bool,
    ) -> Result<MutexGuard<'_, Open>, LogError> {
        // Asked also where there is space, so that a guard shows wherever it is held (park/P4).
        assert!(keeps_thread || park::guards_held() == 0, "log space is asked for while guards are held");
        let k = stream.0 as usize;
        if k >= self.buffers.len() {
            return Err(LogError::NoStream { stream: stream.0, streams: self.buffers.len() });
        }
        if len > Log::MAX_RECORD {
            return Err(LogError::TooLarge { len, limit: Log::MAX_RECORD });
        }
        loop {
            if let Some(e) = self.failure.get() {
                return Err(e.clone());
            }
            let open = self.latch.lock();
            if open.closed {
                return Err(LogError::Closed);
            }
            let s = &open.streams[k];
            // Timestamps in a block are relative to its base, in 32 bits.
            let near = s.used == 0 || self.clock.load(Ordering::Relaxed) - s.base < u32::MAX as u64;
            if s.used + words <= s.limit && near {
                return Ok(open);
            }
            let (used, round) = (s.used, open.next_round);
            drop(open);
            if used == 0 {
                self.wait_for_file(k, keeps_thread)?
            } else {
                self.wait_round(round, keeps_thread)?
            }
        }
    }

    /// Waits until the stream's next file was prepared, or could not be.
    fn wait_for_file(&self, k: usize, keeps_thread: bool) -> Result<(), LogError> {
        let own = Arc::new(Parker::new());
        let mut p = self.prepare.lock();
        p.wanted[k] = true;
        self.work.notify_one();
        let attempts = p.attempts;
        loop {
            if let Some(e) = &p.full[k] {
                return Err(e.clone());
            }
            if p.stop {
                return Err(LogError::Closed);
            }
            if p.attempts != attempts || self.failure.get().is_some() {
                return Ok(()); // look again
            }
            // Woken without a reason, it stands there already.
            if !p.asleep.iter().any(|o| Arc::ptr_eq(o, &own)) {
                p.asleep.push(own.clone())
            }
            drop(p);
            own.wait(keeps_thread);
            p = self.prepare.lock();
        }
    }

    pub fn want_file(&self, k: usize) {
        let mut p = self.prepare.lock();
        if !p.wanted[k] {
            p.wanted[k] = true;
            self.work.notify_one();
        }
    }

    /// The thread that prepares files ahead.
    fn prepare_files(&self) {
        let mut p = self.prepare.lock();
        let mut pause = false;
        let mut last = 0;
        loop {
            if p.stop {
                return;
            }
            if pause {
                // The medium was full: look again now and then, so that commits go on by themselves.
                p = self.work.wait_timeout(p, Duration::from_millis(50)).0;
                if p.stop {
                    return;
                }
                pause = false;
            }
            // In turn: one whose medium is full is wanted again and again, and must not keep the others from
            // their answer.
            let n = p.wanted.len();
            let Some(k) = (1..=n).map(|i| (last + i) % n).find(|k| p.wanted[*k]) else {
                p = self.work.wait(p);
                continue;
            };
            last = k;
            // Before it fails an attempt takes all the room there is, and that is the checkpoint's while one
            // is under way. Nobody waits for this one: all know already that there is no room.
            let alone = match &p.full[k] {
                Some(_) => match self.manifest.try_lock() {
                    None => {
                        pause = true;
                        continue;
                    }
                    alone => alone,
                },
                None => None,
            };
            let number = p.next_number[k];
            p.next_number[k] += 1;
            let size = p.size[k];
            let spare = p.spare[k].iter().position(|(_, s)| *s >= size).map(|i| p.spare[k].swap_remove(i));
            drop(p);
            if self.writers[k].lock().next.is_some() {
                // It was prepared between the look of whoever wants it and the wish: that one looks again.
                p = self.prepare.lock();
                p.wanted[k] = false;
                p.spare[k].extend(spare);
                p.attempts += 1;
                p.tell();
                continue;
            }
            let _phase = spare.is_some().then(|| ondol_base::sim::phase("recycling"));
            let result = files::prepare(&self.config.streams[k], number, size, spare);
            drop(alone);
            let mut error = None;
            match result {
                Ok(file) => {
                    let size = file.size;
                    self.writers[k].lock().next = Some(file);
                    let mut open = self.latch.lock();
                    let s = &mut open.streams[k];
                    s.next = size;
                    s.limit = s.limit.max(limit(s.left, size, self.buffer_bytes()));
                }
                Err(e) => error = Some(files::no_space(k as u16, &self.config.streams[k], &e)),
            }
            p = self.prepare.lock();
            pause = error.is_some();
            if error.is_none() {
                p.wanted[k] = false;
                p.size[k] = self.config.size_after(size);
            }
            p.full[k] = error;
            p.attempts += 1;
            p.tell();
        }
    }

    /// The first round that recovery from a checkpoint at `at` needs (protocol/P4).
    pub fn first_round(&self, at: CommitTs) -> u64 {
        let mut open = self.latch.lock();
        while open.history.front().is_some_and(|(_, closed)| *closed <= at + 1) {
            open.history.pop_front();
        }
        let mut first = open.history.front().map_or(open.next_round, |(round, _)| *round);
        open.spilled.retain(|(c, _)| *c > at);
        if mutated("fragments_ignored") {
            return first;
        }
        for round in open.spilling.values().chain(open.spilled.iter().map(|(_, r)| r)) {
            first = first.min(*round);
        }
        first
    }

    /// The first file of each stream that stays when rounds before `first` go.
    pub fn first_files(&self, first: u64) -> Vec<u64> {
        self.writers
            .iter()
            .map(|w| {
                let w = w.lock();
                let kept = w.old.iter().filter(|f| f.last_round >= first).map(|f| f.number);
                kept.min().unwrap_or(w.current.number)
            })
            .collect()
    }

    /// Gives up the files that hold only rounds before `first`; the manifest says so already, in both copies.
    /// The file that it names as a stream's first stays, even if its last block turned out to be written
    /// already.
    pub fn truncate(&self, first: u64, named: &[u64]) {
        for (k, place) in self.config.streams.iter().enumerate() {
            // A stream that found no room begins small again: until now what was left was for the checkpoint
            // (protocol/P9).
            let short = {
                let mut p = self.prepare.lock();
                let short = p.full[k].is_some();
                if short {
                    p.size[k] = self.config.first_size();
                }
                short
            };
            let gone: Vec<OldFile> = {
                let mut w = self.writers[k].lock();
                let (gone, kept) = w
                    .old
                    .drain(..)
                    .partition(|f| f.last_round < first && named.get(k).is_none_or(|n| f.number < *n));
                w.old = kept;
                gone
            };
            let _phase = (!gone.is_empty()).then(|| ondol_base::sim::phase("recycling"));
            for f in gone {
                {
                    let mut p = self.prepare.lock();
                    if f.size >= p.size[k] && p.spare[k].len() < 2 {
                        p.spare[k].push((f.number, f.size));
                        continue;
                    }
                }
                // A file that stays for want of a removal is stale, and is found again at the next opening.
                let _ = place.storage.remove(&place.path(f.number));
            }
            if short {
                // Whoever wants a file waits for the next attempt, which is now.
                self.prepare.lock().full[k] = None;
                self.work.notify_one();
            }
        }
    }
}
