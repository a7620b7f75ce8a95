//! One open database, below types and names: memory, log, transactions, background work.
use crate::collect::Collector;
use crate::heap::{self, Heap};
use crate::key_latch::KeyLatches;
use crate::memory::{Budget, Space, header};
use crate::recover::Recovering;
use crate::registry::{self, HOLDING, IDLE, SNAPSHOT};
use crate::slot::{self, View};
use crate::wait::Waits;
use ondol_base::epoch::{Epochs, Participant};
use ondol_base::oid::Oid;
use ondol_base::park::Parker;
use ondol_base::sync::{Condvar, Mutex, RwLock, yield_point};
use ondol_base::{barrier, clock, thread};
use ondol_durability::checkpoint::{Checkpointer, Done, Pace, Segment, Source, full_speed};
use ondol_durability::error::{CheckpointError, RecoveryError};
use ondol_durability::files::Config;
use ondol_durability::log::Log;
use ondol_durability::page::{Format, PAGE_HEADER, PAGE_SIZE, PageId, SEGMENT_SIZE, SLOT_HEADER};
use ondol_durability::recovery::{Progress, Recovered, recover};
use ondol_durability::{CommitTs, HeapId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

#[derive(Clone)]
pub struct KernelConfig {
    pub durability: Config,
    /// Bytes for segments, indexes, versions together.
    pub memory_limit: usize,
    /// Bytes of address space.
    pub reserved: usize,
    /// A checkpoint starts by itself after so many log bytes ...
    pub checkpoint_log_bytes: u64,
    /// ... or after this time, if anything was committed.
    pub checkpoint_interval: Duration,
    /// How hard checkpoints that start by themselves may use the disk.
    pub background: bool,
}

pub struct Kernel {
    pub space: Arc<Space>,
    pub log: Log,
    pub epochs: Arc<Epochs>,
    pub collector: Collector,
    pub waits: Waits,
    pub key_latches: KeyLatches,
    pub session_numbers: AtomicU64,
    heaps: RwLock<BTreeMap<HeapId, Arc<Heap>>>,
    /// Dropped, with segments whose drop the log refused (heap/A4).
    undropped: Mutex<Vec<Arc<Heap>>>,
    checkpointer: Mutex<Checkpointer>,
    /// How many wait for a checkpoint that goes gently.
    hurried: AtomicU64,
    config: KernelConfig,
    stop: Mutex<bool>,
    stopping: Condvar,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    last_checkpoint: Mutex<LastCheckpoint>,
}

/// A checkpoint's rest after each sync, in the sync's own time, while there is room: 1 commit in 200 meets
/// one, so that the 99th percentile does not feel it.
const GENTLE: f64 = 200.0;

/// What the last checkpoint was, for views and for the next one's timing.
#[derive(Clone, Debug, Default)]
pub struct LastCheckpoint {
    pub at: CommitTs,
    pub started: Duration,
    /// Log bytes that had to be kept after it.
    pub log_bytes: u64,
    pub count: u64,
    pub seconds: f64,
    pub pages: u64,
    pub bytes: u64,
    pub error: Option<String>,
}

/// Why a kernel does not open.
#[derive(Debug)]
pub enum OpenError {
    Recovery(RecoveryError),
    Memory(std::io::Error),
}

impl Kernel {
    pub fn open(
        config: KernelConfig,
        progress: &dyn Fn(Progress),
    ) -> Result<(Arc<Kernel>, Recovered), OpenError> {
        let budget = Budget::new(config.memory_limit);
        // Under a limit on address space (ulimit, valgrind) less will do, as long as the memory limit fits
        // twice.
        let mut reserved = config.reserved;
        let space = loop {
            match Space::new(reserved, budget.clone()) {
                Ok(s) => break Arc::new(s),
                Err(_) if reserved / 2 >= config.memory_limit.saturating_mul(2) => {
                    reserved = (reserved / 2).next_multiple_of(SEGMENT_SIZE)
                }
                Err(e) => return Err(OpenError::Memory(e)),
            }
        };
        let target = Arc::new(Recovering::new(space.clone()));
        let (log, recovered) =
            recover(config.durability.clone(), &target, progress).map_err(OpenError::Recovery)?;
        let heaps = target.heaps();
        let kernel = Arc::new(Kernel {
            space: space.clone(),
            log,
            epochs: Epochs::new(),
            collector: Collector::default(),
            waits: Waits::new(space.clone()),
            key_latches: KeyLatches::default(),
            session_numbers: AtomicU64::new(1),
            heaps: RwLock::new(BTreeMap::new()),
            undropped: Mutex::default(),
            checkpointer: Mutex::new(Checkpointer::new()),
            hurried: AtomicU64::new(0),
            last_checkpoint: Mutex::new(LastCheckpoint {
                at: recovered.checkpoint,
                started: clock::now(),
                ..LastCheckpoint::default()
            }),
            config,
            stop: Mutex::new(false),
            stopping: Condvar::new(),
            threads: Mutex::new(vec![]),
        });
        for (id, segments) in heaps {
            let h = Heap::new(id, space.clone());
            h.adopt(segments);
            kernel.heaps.write().insert(id, h);
        }
        if kernel.config.background {
            let mut threads = kernel.threads.lock();
            let k = kernel.clone();
            threads.extend(thread::spawn("ondol-collector", move || k.collect_forever()).ok());
            let k = kernel.clone();
            let checkpoints = move || {
                thread::stand_back();
                k.checkpoint_forever()
            };
            threads.extend(thread::spawn("ondol-checkpoint", checkpoints).ok());
        }
        Ok((kernel, recovered))
    }

    /// The heap of that number, made when it is new.
    pub fn heap(&self, id: HeapId) -> Arc<Heap> {
        if let Some(h) = self.heaps.read().get(&id) {
            return h.clone();
        }
        self.heaps.write().entry(id).or_insert_with(|| Heap::new(id, self.space.clone())).clone()
    }
    /// Gives a heap's memory up; nobody uses it any more, and the transaction that dropped it is committed.
    pub fn drop_heap(&self, id: HeapId) {
        let Some(heap) = self.heaps.write().remove(&id) else { return };
        heap.give_up();
        // Whoever found the heap's name on a page before that is still pinned: a collector, on its way to a
        // slot.
        let participant = self.epochs.join(IDLE);
        let passed = Arc::new(AtomicBool::new(false));
        let told = passed.clone();
        participant.pin().retire(move || told.store(true, Ordering::Release));
        // Who ends a pin tells nobody: it is looked for, and meanwhile others run. Pins are short (park/P4).
        const LOOK: Duration = Duration::from_micros(50);
        let parker = Parker::new();
        loop {
            participant.collect();
            if passed.load(Ordering::Acquire) {
                break;
            }
            parker.park(Some(clock::now() + LOOK));
        }
        self.drop_segments([heap], &participant)
    }
    fn drop_segments(&self, heaps: impl IntoIterator<Item = Arc<Heap>>, participant: &Participant) {
        for heap in heaps {
            if !heap.drop_all(&self.log, participant) {
                self.undropped.lock().push(heap)
            }
        }
    }
    /// Drops the heaps that the dictionary does not name: their creation, or the last of their drop, was
    /// lost.
    pub fn drop_orphans(&self, keep: &BTreeSet<HeapId>) {
        let orphans: Vec<HeapId> = self.heaps.read().keys().copied().filter(|h| !keep.contains(h)).collect();
        for h in orphans {
            self.drop_heap(h)
        }
    }

    /// Takes a checkpoint now, fast; `full` rewrites the base.
    pub fn checkpoint(self: &Arc<Self>, full: bool) -> Result<Done, CheckpointError> {
        // One that is under way goes on at full speed.
        self.hurried.fetch_add(1, Ordering::Relaxed);
        let done = self.run_checkpoint(&full_speed, full);
        self.hurried.fetch_sub(1, Ordering::Relaxed);
        done
    }
    /// The pace of a checkpoint that began by itself, when the log had `from` bytes: gentle while log and
    /// memory have room for what is committed meanwhile, and the faster the less they have. What is committed
    /// keeps its older version until the checkpoint ends.
    fn gentle_pace(&self, from: u64) -> u32 {
        let room = |used: u64, of: u64| of.saturating_sub(used) as f64 / of.max(1) as f64;
        let log = room(self.log.kept_bytes().saturating_sub(from), self.config.checkpoint_log_bytes / 2);
        let (used, limit) = (self.space.budget.used() as u64, self.space.budget.limit() as u64);
        let memory = room(used.saturating_sub(limit / 2), limit / 4);
        if self.hurried.load(Ordering::Relaxed) > 0 || *self.stop.lock() || self.log.is_short() {
            return 0;
        }
        (GENTLE * log.min(memory)) as u32
    }
    fn run_checkpoint(self: &Arc<Self>, pace: Pace<'_>, full: bool) -> Result<Done, CheckpointError> {
        let mut c = self.checkpointer.lock();
        let started = clock::now();
        let source = Snapshot { kernel: self.clone(), reader: Mutex::default() };
        let outcome = c.run(&self.log, &source, pace, full);
        let mut last = self.last_checkpoint.lock();
        last.started = started;
        match &outcome {
            Ok(d) => {
                last.at = d.at;
                last.log_bytes = self.log.kept_bytes();
                last.count += 1;
                last.seconds = d.seconds;
                last.pages = d.pages;
                last.bytes = d.bytes;
                last.error = None;
            }
            Err(e) => last.error = Some(e.to_string()),
        }
        drop((last, c));
        if outcome.is_ok() {
            // heap/A4
            let again = std::mem::take(&mut *self.undropped.lock());
            self.drop_segments(again, &self.epochs.join(IDLE))
        }
        outcome
    }
    pub fn last_checkpoint(&self) -> LastCheckpoint {
        self.last_checkpoint.lock().clone()
    }

    fn pause(&self, time: Duration) -> bool {
        let stop = self.stop.lock();
        if *stop {
            return false;
        }
        !*self.stopping.wait_timeout(stop, time).0
    }

    fn collect_forever(self: Arc<Self>) {
        let participant = self.epochs.join(IDLE);
        let mut pause = 10;
        while self.pause(Duration::from_millis(pause)) {
            let left = self.collector.pass(&participant, &self);
            pause = if left { 10 } else { 50 };
        }
    }

    fn checkpoint_forever(self: Arc<Self>) {
        while self.pause(Duration::from_millis(200)) {
            let last = self.last_checkpoint.lock().clone();
            let bytes = self.log.kept_bytes().saturating_sub(last.log_bytes);
            let old = clock::now().saturating_sub(last.started) >= self.config.checkpoint_interval;
            let any = self.log.clock() - 1 > last.at;
            // After a failure (a full disk, say) the interval passes before the next try.
            let due = bytes >= self.config.checkpoint_log_bytes && (last.error.is_none() || old);
            if any && (due || old) && self.log.failure().is_none() {
                let from = self.log.kept_bytes();
                let _ = self.run_checkpoint(&|| self.gentle_pace(from), false);
            }
        }
    }

    /// Stops background work and closes the log; every session is gone or idle.
    pub fn close(&self) -> Result<(), ondol_durability::error::LogError> {
        *self.stop.lock() = true;
        self.stopping.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        for t in threads {
            let _ = t.join();
        }
        self.log.close()
    }
}

/// Memory as a checkpoint reads it: a snapshot reader like any other.
struct Snapshot {
    kernel: Arc<Kernel>,
    reader: Mutex<CheckpointReader>,
}
#[derive(Default)]
struct CheckpointReader {
    pinned: Option<Participant>,
    /// The head of the page that was imaged last: where to look for the next one's.
    head: Option<PageId>,
}

impl Source for Snapshot {
    fn pin(&self) {
        let p = self.kernel.epochs.join(IDLE);
        loop {
            let s = self.kernel.log.visible_ts();
            // registry/R3: T will be later than this.
            p.line().words[HOLDING].store(s, Ordering::Relaxed);
            p.line().words[SNAPSHOT].store(s, Ordering::Relaxed);
            barrier::light();
            if self.kernel.log.visible_ts() <= s {
                break;
            }
        }
        *self.reader.lock() = CheckpointReader { pinned: Some(p), head: None };
    }
    fn settle(&self, at: CommitTs) {
        registry::wait_installed(&self.kernel.epochs, at, None);
        if let Some(p) = &self.reader.lock().pinned {
            // Not below what was pinned: the round was closed after that.
            let word = &p.line().words[SNAPSHOT];
            word.store(at.max(word.load(Ordering::Relaxed)), Ordering::SeqCst);
            p.line().words[HOLDING].store(IDLE, Ordering::SeqCst);
        }
    }
    fn unpin(&self) {
        *self.reader.lock() = CheckpointReader::default();
    }
    fn segments(&self) -> Vec<Segment> {
        let space = &self.kernel.space;
        let described = |(id, heap)| {
            yield_point();
            if ondol_base::sim::mutated("segment_described_late") {
                (0..40).for_each(|_| yield_point());
                return Some(heap::describe(space, id, heap));
            }
            // memory/S3
            space.while_used(id, |heap| heap::describe(space, id, heap))
        };
        space.segments().into_iter().filter_map(described).collect()
    }
    fn changed_pages(&self, since: CommitTs) -> Vec<PageId> {
        let space = &self.kernel.space;
        let mut changed = vec![];
        for (id, _) in space.segments() {
            for (page, format) in space.heads(id) {
                if space.header(page, header::LAST_COMMIT).load(Ordering::Acquire) > since {
                    changed.extend((0..format.pages()).map(|k| id.page(page.index() + k)))
                }
            }
        }
        changed
    }
    fn image(&self, page: PageId, at: CommitTs, out: &mut [u8]) {
        out.fill(0);
        let space = &self.kernel.space;
        let mut reader = self.reader.lock();
        let reader = &mut *reader;
        let Some(participant) = &reader.pinned else { return };
        if !space.has_page(page) {
            return;
        }
        let pin = participant.pin();
        let at = if ondol_base::sim::mutated("images_newest") { self.kernel.log.clock() } else { at };
        let view = View { snapshot: at, ..View::default() };
        // A tail page has no header to ask: find the page that heads it. Pages come in order, and a format
        // stays, so the search goes on where the one before ended.
        let mut head = page;
        if space.run_tail_hint() {
            let segment = page.segment();
            let known = reader.head.filter(|h| h.segment() == segment && *h <= page);
            let mut i = known.map_or(0, |h| h.index());
            while i <= page.index() {
                head = segment.page(i);
                i += space.format(head).pages()
            }
            reader.head = Some(head);
        }
        match space.format(head) {
            Format::Slots { units } => {
                let (size, slots) = Format::Slots { units }.slots();
                for s in 0..slots {
                    let taken =
                        space.header(page, header::TAKEN + s / 64).load(Ordering::Acquire) >> (s % 64) & 1;
                    if taken == 0 {
                        continue;
                    }
                    let start = PAGE_HEADER + s * size;
                    let row = &mut out[start + SLOT_HEADER..start + size];
                    // SAFETY: a slot of a page in use, by the page's own format.
                    let oid = unsafe { Oid::from_bits(page.offset() + start as u64) };
                    if !slot::read(space, &pin, oid, &view, row) {
                        row.fill(0)
                    }
                }
            }
            Format::RunHead { .. } => {
                // SAFETY: the slot of a run.
                let oid = unsafe { Oid::from_bits(head.offset() + PAGE_HEADER as u64) };
                let first = PAGE_HEADER + SLOT_HEADER;
                let mut live = [0; 8];
                if !slot::read(space, &pin, oid, &view, &mut live) {
                    return;
                }
                if head == page {
                    slot::read(space, &pin, oid, &view, &mut out[first..]);
                } else {
                    let offset = (page.0 - head.0) as usize * PAGE_SIZE - first;
                    slot::read_part(space, &pin, oid, &view, offset, out);
                }
            }
            Format::Unformatted | Format::RunTail => {}
        }
    }
    fn published(&self, at: CommitTs) {
        self.kernel.space.published(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::slot::LIVE;
    use crate::table::TableStore;
    use crate::transaction::{Isolation, Session};
    use ondol_base::sim::{self, World};
    use ondol_durability::files::{Place, SMALLEST_FILE};
    use ondol_durability::log::StreamId;
    use ondol_durability::record::System;

    /// A source beside which something happens when T is chosen and the segments are not listed yet.
    struct Beside<F> {
        source: Snapshot,
        first: Mutex<Option<F>>,
    }
    impl<F: FnOnce() + Send + 'static> Source for Beside<F> {
        fn pin(&self) {
            self.source.pin()
        }
        fn settle(&self, at: CommitTs) {
            self.source.settle(at)
        }
        fn unpin(&self) {
            self.source.unpin()
        }
        fn segments(&self) -> Vec<Segment> {
            // On a thread of its own: this one holds guards, of the checkpoint.
            let first = self.first.lock().take();
            if let Some(first) = first {
                thread::spawn("beside", first).unwrap().join().unwrap()
            }
            self.source.segments()
        }
        fn changed_pages(&self, since: CommitTs) -> Vec<PageId> {
            self.source.changed_pages(since)
        }
        fn image(&self, page: PageId, at: CommitTs, out: &mut [u8]) {
            self.source.image(page, at, out)
        }
        fn published(&self, at: CommitTs) {
            self.source.published(at)
        }
    }

    /// A database with two streams, on disks of their own, which hold some of the smallest log files.
    fn open(world: &Arc<World>) -> std::result::Result<Arc<Kernel>, String> {
        let mut durability = Config::new(world.disk("data"));
        let place = |name| Place { storage: world.disk(name), folder: "log".into() };
        durability.streams = ["zero", "one"].map(place).into();
        durability.log_file_size = SMALLEST_FILE;
        durability.buffer_size = SMALLEST_FILE as usize;
        let config = KernelConfig {
            durability,
            memory_limit: 64 << 20,
            reserved: 64 << 20,
            checkpoint_log_bytes: u64::MAX,
            checkpoint_interval: Duration::MAX,
            background: false,
        };
        match Kernel::open(config, &|_| {}) {
            Ok((kernel, _)) => Ok(kernel),
            Err(OpenError::Recovery(e)) => Err(e.to_string()),
            Err(OpenError::Memory(e)) => Err(e.to_string()),
        }
    }
    fn table(kernel: &Kernel, heap: HeapId) -> Arc<TableStore> {
        let (rows, strings) = (kernel.heap(heap), kernel.heap(heap + 1));
        Arc::new(TableStore { rows, strings, row_size: 16, indexes: vec![], entered: 0 })
    }
    fn put(s: &mut Session, table: &Arc<TableStore>) -> Result<Option<CommitTs>> {
        s.begin(Isolation::ReadCommitted);
        s.snapshot_newest();
        s.next_command();
        s.insert(table, &[LIVE; 16])?;
        s.commit()
    }
    fn heaps(kernel: &Kernel) -> Vec<HeapId> {
        kernel.space.segments().into_iter().map(|(_, heap)| heap).collect()
    }

    /// A heap is changed and dropped while a checkpoint that was begun does not list it yet, and the log has
    /// no room for the drop's record. The power fails after that checkpoint, or after the next one. Gives the
    /// heaps that have segments then, and those after the next opening.
    fn drops_without_room(
        mutation: Option<&'static str>,
        next: bool,
    ) -> std::result::Result<(Vec<HeapId>, Vec<HeapId>), String> {
        let config = sim::Config { mutation, disk_bytes: 3 * SMALLEST_FILE, ..sim::Config::default() };
        let world = World::new(1, config);
        let here = world.clone();
        let before = world.run(move || {
            let kernel = open(&here).unwrap();
            let (kept, gone) = (table(&kernel, 2), table(&kernel, 4));
            let mut s = Session::new(kernel.clone());
            s.stream = StreamId(1);
            put(&mut s, &kept).unwrap();
            put(&mut s, &gone).unwrap();
            // Segments' records go to stream 0.
            while kernel.log.system(System::SequenceAdvance { id: 1, value: 1 }).is_ok() {}
            let k = kernel.clone();
            let first = move || {
                put(&mut s, &gone).unwrap();
                drop(s);
                k.drop_heap(gone.rows.id)
            };
            let source = Snapshot { kernel: kernel.clone(), reader: Mutex::default() };
            let source = Beside { source, first: Mutex::new(Some(first)) };
            Checkpointer::new().run(&kernel.log, &source, &full_speed, false).unwrap();
            if next {
                // The log looks for room now and then.
                thread::sleep(Duration::from_millis(100));
                kernel.checkpoint(false).unwrap();
            }
            let left = heaps(&kernel);
            here.power_failure();
            let _ = kernel.close();
            left
        });
        let again = world.reboot(2);
        let here = again.clone();
        let after = again.run(move || {
            let kernel = open(&here)?;
            kernel.drop_orphans(&BTreeSet::from([2, 3]));
            let left = heaps(&kernel);
            kernel.close().map_err(|e| e.to_string())?;
            Ok::<_, String>(left)
        });
        Ok((before, after?))
    }

    #[test]
    fn a_heap_whose_drop_finds_no_room_in_the_log_stays_until_it_does() {
        assert_eq!(drops_without_room(None, false), Ok((vec![2, 4], vec![2])));
        assert_eq!(drops_without_room(None, true), Ok((vec![2], vec![2])));
        let refused = drops_without_room(Some("segment_dropped_unlogged"), false).unwrap_err();
        assert!(refused.contains("segment"), "{refused}");
    }
}
