//! Memory while recovery fills it, and the volatile headers that are derived from row bytes afterwards.
use crate::memory::{Space, header};
use crate::slot::LIVE;
use ondol_base::oid::Oid;
use ondol_base::sync::Mutex;
use ondol_base::thread;
use ondol_durability::checkpoint::Segment;
use ondol_durability::page::{Format, PAGE_HEADER, PAGE_SIZE, PAGES_PER_SEGMENT, PageId, SLOT_HEADER, SegmentId};
use ondol_durability::recovery::Target;
use ondol_durability::{CommitTs, HeapId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub struct Recovering {
    space: Arc<Space>,
    heaps: Mutex<BTreeMap<HeapId, Vec<SegmentId>>>,
}

/// The timestamp of every row that recovery brought back: below every snapshot.
const OLD: u64 = 1;

impl Recovering {
    pub fn new(space: Arc<Space>) -> Recovering {
        Recovering { space, heaps: Mutex::default() }
    }
    pub fn heaps(&self) -> BTreeMap<HeapId, Vec<SegmentId>> {
        self.heaps.lock().clone()
    }
}

impl Target for Recovering {
    fn begin(&self, segments: &[Segment]) -> Result<(), String> {
        let mut heaps = self.heaps.lock();
        for s in segments {
            let list = heaps.entry(s.heap).or_default();
            self.space.claim_segment(s.id, s.heap, !list.is_empty())?;
            list.push(s.id);
            for (i, f) in s.formats.iter().enumerate() {
                let page = s.id.page(i);
                self.space.set_format(page, *f);
                if *f != Format::RunTail && *f != Format::Unformatted {
                    self.space.header(page, header::HEAP).store(s.heap as u64, Ordering::Relaxed);
                    self.space.header(page, header::LAST_COMMIT).store(OLD, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    fn words(&self, page: PageId) -> &[AtomicU64] {
        self.space.words(page.offset(), PAGE_SIZE / 8)
    }

    #[inline]
    fn expect(&self, page: PageId, offset: usize) {
        self.space.prefetch(Oid(page.offset() + offset as u64))
    }

    fn finish(&self, clock: CommitTs, changed: &[PageId], waiting: &[(SegmentId, HeapId)]) {
        for (s, _) in waiting {
            self.space.hold_segment(*s, clock - 1)
        }
        let segments: Arc<Vec<SegmentId>> = Arc::new(self.heaps.lock().values().flatten().copied().collect());
        let next = Arc::new(AtomicUsize::new(0));
        let workers: Vec<_> = (1..thread::parallelism().min(segments.len().max(1)))
            .filter_map(|_| {
                let (space, segments, next) = (self.space.clone(), segments.clone(), next.clone());
                thread::spawn("ondol-recover", move || derive_all(&space, &segments, &next)).ok()
            })
            .collect();
        derive_all(&self.space, &segments, &next);
        for w in workers {
            let _ = w.join();
        }
        for page in changed {
            let head = run_head(&self.space, *page);
            self.space.header(head, header::LAST_COMMIT).store(clock - 1, Ordering::Relaxed)
        }
    }
}

/// The page whose header speaks for this one.
fn run_head(space: &Space, page: PageId) -> PageId {
    if !space.run_tail_hint() {
        return page;
    }
    let segment = page.segment();
    let mut i = 0;
    while i < PAGES_PER_SEGMENT {
        let head = segment.page(i);
        let n = match space.format(head) {
            Format::RunHead { pages } => pages as usize,
            _ => 1,
        };
        if page.index() < i + n {
            return head;
        }
        i += n
    }
    page
}

fn derive_all(space: &Space, segments: &[SegmentId], next: &AtomicUsize) {
    while let Some(s) = segments.get(next.fetch_add(1, Ordering::Relaxed)) {
        let mut i = 0;
        while i < PAGES_PER_SEGMENT {
            let page = s.page(i);
            let format = space.format(page);
            derive(space, page, format);
            i += match format {
                Format::RunHead { pages } => pages as usize,
                _ => 1,
            }
        }
    }
}

/// Sets slot headers and the bitmap of one page from its live bits (G2).
fn derive(space: &Space, page: PageId, format: Format) {
    let (size, slots) = format.slots();
    let mut taken = [0u64; 2];
    for s in 0..slots {
        let slot = page.offset() + (PAGE_HEADER + s * size) as u64;
        let live = space.word(slot + SLOT_HEADER as u64).load(Ordering::Relaxed) & LIVE as u64 != 0;
        space.word(slot).store(if live { OLD } else { 0 }, Ordering::Relaxed);
        space.word(slot + 8).store(0, Ordering::Relaxed);
        if live {
            taken[s / 64] |= 1 << (s % 64)
        }
    }
    if slots > 0 {
        for (w, bits) in taken.iter().enumerate() {
            space.header(page, header::TAKEN + w).store(*bits, Ordering::Relaxed)
        }
        space.header(page, header::CLAIMED).store(0, Ordering::Release)
    }
}
