//! A memory of a few segments that is its own source and target, and a toy engine over it: enough to drive
//! the real log, checkpoint and recovery, and to compare what comes back with what was committed.
#![allow(dead_code)] // Each test file uses its part.
use ondol_base::sync::{Mutex, spin_wait};
use ondol_durability::checkpoint::{Checkpointer, Done, Segment, Source, full_speed};
use ondol_durability::delta::{by_page, xor_into};
use ondol_durability::page::*;
use ondol_durability::recovery::{Recovered, Target, recover};
use ondol_durability::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub const SEGMENTS: usize = 4;
const PAGES: usize = 24; // that a test uses of each segment

/// A small random number generator, so that a failure is its seed.
pub struct Random(pub u64);
impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

pub type Pieces = Vec<(u64, Vec<u8>)>;

#[derive(Default)]
pub struct State {
    pub segments: BTreeMap<SegmentId, Segment>,
    /// Since this life began: what each commit changed, and whether it is installed.
    pub history: BTreeMap<CommitTs, (Pieces, bool)>,
    pub last: BTreeMap<PageId, CommitTs>,
    pub dropped: Vec<(SegmentId, CommitTs)>,
    pub reusable: BTreeSet<SegmentId>,
    pub clock: CommitTs,
}

pub struct Memory {
    words: Vec<AtomicU64>,
    pub state: Mutex<State>,
}

impl Memory {
    pub fn new() -> Arc<Memory> {
        Arc::new(Memory {
            words: (0..(SEGMENTS + 1) * SEGMENT_SIZE / 8).map(|_| AtomicU64::new(0)).collect(),
            state: Mutex::default(),
        })
    }
    fn page(&self, page: PageId) -> &[AtomicU64] {
        let at = page.0 as usize * PAGE_SIZE / 8;
        &self.words[at..at + PAGE_SIZE / 8]
    }
    pub fn install(&self, ts: CommitTs) {
        let mut s = self.state.lock();
        let Some((pieces, installed)) = s.history.get_mut(&ts) else {
            panic!("commit {ts} was not published")
        };
        assert!(!*installed);
        *installed = true;
        for (address, bytes) in pieces.clone() {
            for (page, offset, part) in by_page(address, &bytes) {
                xor_into(self.page(page), offset, part);
                let last = s.last.entry(page).or_default();
                *last = (*last).max(ts);
            }
        }
    }
    /// Every byte that is not zero.
    pub fn content(&self) -> BTreeMap<u64, u64> {
        let value = |(i, w): (usize, &AtomicU64)| (i as u64 * 8, w.load(Ordering::Relaxed));
        self.words.iter().enumerate().map(value).filter(|(_, v)| *v != 0).collect()
    }
}

impl Source for Memory {
    fn pin(&self) {}
    fn settle(&self, at: CommitTs) {
        let mut n = 0;
        while self.state.lock().history.range(..=at).any(|(_, (_, installed))| !installed) {
            spin_wait(n);
            n += 1;
        }
    }
    fn unpin(&self) {}
    fn segments(&self) -> Vec<Segment> {
        self.state.lock().segments.values().cloned().collect()
    }
    fn changed_pages(&self, since: CommitTs) -> Vec<PageId> {
        self.state.lock().last.iter().filter(|(_, ts)| **ts > since).map(|(p, _)| *p).collect()
    }
    fn image(&self, page: PageId, at: CommitTs, out: &mut [u8]) {
        let s = self.state.lock();
        for (w, b) in self.page(page).iter().zip(out.chunks_exact_mut(8)) {
            b.copy_from_slice(&w.load(Ordering::Relaxed).to_ne_bytes());
        }
        for (pieces, installed) in s.history.range(at + 1..).map(|(_, h)| h) {
            for (address, bytes) in pieces.iter().filter(|_| *installed) {
                for (p, offset, part) in by_page(*address, bytes).filter(|(p, ..)| *p == page) {
                    assert_eq!(p, page);
                    part.iter().enumerate().for_each(|(i, b)| out[offset + i] ^= b);
                }
            }
        }
    }
    fn published(&self, at: CommitTs) {
        let mut s = self.state.lock();
        let (go, stay): (Vec<_>, Vec<_>) = s.dropped.drain(..).partition(|(_, ts)| *ts <= at);
        s.dropped = stay;
        for (segment, _) in go {
            for i in 0..PAGES_PER_SEGMENT {
                self.page(segment.page(i)).iter().for_each(|w| w.store(0, Ordering::Relaxed));
                s.last.remove(&segment.page(i));
            }
            s.reusable.insert(segment);
        }
    }
}

impl Target for Memory {
    fn begin(&self, segments: &[Segment]) -> Result<(), String> {
        self.state.lock().segments = segments.iter().map(|s| (s.id, s.clone())).collect();
        Ok(())
    }
    fn words(&self, page: PageId) -> &[AtomicU64] {
        self.page(page)
    }
    fn finish(&self, clock: CommitTs, changed: &[PageId], waiting: &[(SegmentId, HeapId)]) {
        let mut s = self.state.lock();
        s.clock = clock;
        // Pages with an image but without later differences keep the older stamp 1.
        for segment in s.segments.keys().copied().collect::<Vec<_>>() {
            for i in 0..PAGES_PER_SEGMENT {
                if self.page(segment.page(i)).iter().any(|w| w.load(Ordering::Relaxed) != 0) {
                    s.last.insert(segment.page(i), 1);
                }
            }
        }
        changed.iter().for_each(|p| {
            s.last.insert(*p, clock - 1);
        });
        s.dropped = waiting.iter().map(|(segment, _)| (*segment, clock - 1)).collect();
        let taken: BTreeSet<SegmentId> =
            s.segments.keys().copied().chain(waiting.iter().map(|(segment, _)| *segment)).collect();
        s.reusable = (1..=SEGMENTS as u32).map(SegmentId).filter(|x| !taken.contains(x)).collect();
    }
}

/// What was committed, over all lives.
#[derive(Default, Clone)]
pub struct Truth {
    pub commits: BTreeMap<CommitTs, Pieces>,
    /// Dropped segments: their content is gone from this commit on.
    pub drops: BTreeMap<CommitTs, SegmentId>,
    pub acknowledged: CommitTs,
}
impl Truth {
    /// The content as of the commits below `clock`.
    pub fn content(&self, clock: CommitTs) -> BTreeMap<u64, u64> {
        let mut words: BTreeMap<u64, u64> = BTreeMap::new();
        for (ts, pieces) in self.commits.range(..clock) {
            if let Some(segment) = self.drops.get(ts) {
                let range = segment.offset()..segment.offset() + SEGMENT_SIZE as u64;
                words.retain(|a, _| !range.contains(a));
            }
            for (address, bytes) in pieces {
                for (i, b) in bytes.iter().enumerate() {
                    let a = address + i as u64;
                    let mut w = [0; 8];
                    w[(a % 8) as usize] = *b;
                    *words.entry(a & !7).or_default() ^= u64::from_ne_bytes(w);
                }
            }
        }
        words.retain(|_, v| *v != 0);
        words
    }
    /// Forgets what a crash undid.
    pub fn cut(&mut self, clock: CommitTs) {
        self.commits.split_off(&clock);
        self.drops.split_off(&clock);
    }
}

pub struct Db {
    pub log: Log,
    pub memory: Arc<Memory>,
    pub checkpointer: Mutex<Checkpointer>,
    pub next_txn: AtomicU64,
}

impl Db {
    /// Opens, and compares what came back with the truth.
    pub fn open(config: Config, truth: &mut Truth) -> Result<(Db, Recovered), RecoveryError> {
        let memory = Memory::new();
        let (log, recovered) = recover(config, &memory, &|_| {})?;
        assert_eq!(memory.state.lock().clock, recovered.clock);
        assert!(
            recovered.clock > truth.acknowledged,
            "acknowledged up to {}, recovered below {}",
            truth.acknowledged,
            recovered.clock
        );
        let (found, want) = (memory.content(), truth.content(recovered.clock));
        assert!(
            found == want,
            "wrong content at clock {}: {} words, expected {}",
            recovered.clock,
            found.len(),
            want.len()
        );
        truth.cut(recovered.clock);
        let db = Db { log, memory, checkpointer: Mutex::default(), next_txn: AtomicU64::new(1) };
        Ok((db, recovered))
    }

    /// A segment for the heap, its first pages formatted.
    pub fn create_segment(&self, heap: HeapId, random: &mut Random) -> Result<Option<SegmentId>, LogError> {
        let Some(new) = self.take_segment(heap, random) else { return Ok(None) };
        self.log_segment(&new)?;
        Ok(Some(new.id))
    }
    /// Memory's half of it.
    pub fn take_segment(&self, heap: HeapId, random: &mut Random) -> Option<Segment> {
        let segment = self.memory.state.lock().reusable.pop_first()?;
        let mut formats = vec![Format::Unformatted; PAGES_PER_SEGMENT];
        for (i, f) in formats.iter_mut().enumerate().take(PAGES) {
            *f = match i {
                0 => Format::RunHead { pages: 3 },
                1 | 2 => Format::RunTail,
                _ => Format::Slots { units: 3 + random.below(60) as u8 },
            };
        }
        let new = Segment { id: segment, heap, formats };
        self.memory.state.lock().segments.insert(segment, new.clone());
        Some(new)
    }
    /// The log's half.
    pub fn log_segment(&self, new: &Segment) -> Result<(), LogError> {
        self.log.system(System::SegmentCreate { segment: new.id, heap: new.heap })?;
        for (i, format) in new.formats.iter().enumerate().take(PAGES) {
            self.log.system(System::PageFormat { page: new.id.page(i), format: *format })?;
        }
        Ok(())
    }

    /// Some differences to rows of the segment; `lane` keeps concurrent writers apart.
    pub fn some_changes(
        &self,
        segment: SegmentId,
        lane: (usize, usize),
        random: &mut Random,
    ) -> (Changes, Pieces) {
        let formats = self.memory.state.lock().segments[&segment].formats.clone();
        let (mut changes, mut pieces) = (Changes::new(), vec![]);
        for _ in 0..1 + random.below(4) {
            let i = (random.below(PAGES) / lane.1 * lane.1 + lane.0) % PAGES;
            let (page, format) = (segment.page(i), formats[i]);
            let (size, slots) = format.slots();
            if slots == 0 {
                continue;
            }
            let slot = page.offset() + (PAGE_HEADER + random.below(slots) * size) as u64;
            let row = size - SLOT_HEADER;
            let offset = random.below(row);
            let len = 1 + random.below((row - offset).min(if slots == 1 { 9000 } else { 64 }));
            let delta: Vec<u8> =
                (0..len).map(|_| if random.chance(40) { 0 } else { random.next() as u8 }).collect();
            let address = slot + (SLOT_HEADER + offset) as u64;
            changes.push_at(address, &delta);
            pieces.push((address, delta));
        }
        (changes, pieces)
    }

    /// Commits the changes, now and then with fragments; gives the timestamp.
    pub fn commit(
        &self,
        stream: StreamId,
        parts: Vec<(Changes, Pieces)>,
        truth: &Mutex<Truth>,
    ) -> Result<CommitTs, LogError> {
        let txn = self.next_txn.fetch_add(1, Ordering::Relaxed);
        let fragments = parts.len() as u32 - 1;
        for (n, (changes, _)) in parts.iter().take(fragments as usize).enumerate() {
            self.log.fragment(stream, txn, n as u32, changes).inspect_err(|_| self.log.abandon(txn))?;
        }
        let last = &parts[fragments as usize].0;
        let pieces: Pieces = parts.iter().flat_map(|(_, p)| p.iter().cloned()).collect();
        let reservation = self
            .log
            .reserve(stream, last.len(), Kind::Commit, txn, fragments, |ts| {
                self.memory.state.lock().history.insert(ts, (pieces.clone(), false));
                truth.lock().commits.insert(ts, pieces);
            })
            .inspect_err(|_| self.log.abandon(txn))?;
        let ts = reservation.ts();
        ondol_base::sync::yield_point();
        reservation.commit(last);
        self.memory.install(ts);
        Ok(ts)
    }

    pub fn void(&self, stream: StreamId) -> Result<CommitTs, LogError> {
        let r = self.log.reserve(stream, 0, Kind::Void, 0, 0, |_| {})?;
        let ts = r.ts();
        r.void();
        Ok(ts)
    }

    /// Drops the segment: a commit of its own, then the record.
    pub fn drop_segment(&self, segment: SegmentId, truth: &Mutex<Truth>) -> Result<CommitTs, LogError> {
        let ts = self.log_drop(segment, truth)?;
        self.forget_segment(segment, ts);
        Ok(ts)
    }
    /// The log's half of it.
    pub fn log_drop(&self, segment: SegmentId, truth: &Mutex<Truth>) -> Result<CommitTs, LogError> {
        let heap = self.memory.state.lock().segments[&segment].heap;
        let r = self.log.reserve(StreamId(0), 0, Kind::Commit, 0, 0, |ts| {
            self.memory.state.lock().history.insert(ts, (vec![], false));
            let mut t = truth.lock();
            t.commits.insert(ts, vec![]);
            t.drops.insert(ts, segment);
        })?;
        let ts = r.ts();
        let logged = self.log.system(System::SegmentDrop { segment, heap, at: ts });
        if logged.is_err() {
            // It stays, and the timestamp changes nothing.
            truth.lock().drops.remove(&ts);
        }
        r.commit(&Changes::new());
        self.memory.install(ts);
        logged.map(|()| ts)
    }
    /// Memory's half.
    pub fn forget_segment(&self, segment: SegmentId, ts: CommitTs) {
        let mut s = self.memory.state.lock();
        s.segments.remove(&segment);
        s.dropped.push((segment, ts));
    }

    pub fn checkpoint(&self, full: bool) -> Result<Done, CheckpointError> {
        self.checkpointer.lock().run(&self.log, &*self.memory, &full_speed, full)
    }
}
