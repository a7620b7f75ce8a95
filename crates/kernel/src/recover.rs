//! Memory while recovery fills it, and the volatile headers that are derived from row bytes afterwards.
use crate::memory::{Space, header};
use crate::slot::LIVE;
use ondol_base::sync::Mutex;
use ondol_base::{pool, thread};
use ondol_durability::checkpoint::Segment;
use ondol_durability::page::{
    Format, PAGE_HEADER, PAGE_SIZE, PAGES_PER_SEGMENT, PageId, SLOT_HEADER, SegmentId,
};
use ondol_durability::recovery::Target;
use ondol_durability::{CommitTs, HeapId};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Calls `f` with each place below `n`, on all cores: memory that is touched for the first time is the work
/// here.
fn each(n: usize, f: impl Fn(usize) + Send + Sync + 'static) {
    let Ok(()) = pool::each(thread::parallelism(), n, move |i| {
        f(i);
        Ok::<(), Infallible>(())
    });
}

impl Target for Recovering {
    fn begin(&self, segments: &[Segment]) -> Result<(), String> {
        let mut heaps = self.heaps.lock();
        for s in segments {
            let list = heaps.entry(s.heap).or_default();
            self.space.claim_segment(s.id, s.heap, !list.is_empty())?;
            list.push(s.id);
        }
        drop(heaps);
        let (space, segments) = (self.space.clone(), segments.to_vec());
        each(segments.len(), move |k| {
            let s = &segments[k];
            for (i, f) in s.formats.iter().enumerate() {
                if *f == Format::Unformatted {
                    continue; // as fresh memory is
                }
                let page = s.id.page(i);
                space.set_format(page, *f);
                if *f != Format::RunTail {
                    space.header(page, header::HEAP).store(s.heap as u64, Ordering::Relaxed);
                    space.header(page, header::LAST_COMMIT).store(OLD, Ordering::Relaxed);
                }
            }
        });
        Ok(())
    }

    fn words(&self, page: PageId) -> &[AtomicU64] {
        assert!(self.space.is_place(page.offset()), "{page:?} lies outside the range");
        self.space.words(page.offset(), PAGE_SIZE / 8)
    }

    #[inline]
    fn expect(&self, page: PageId, offset: usize) {
        self.space.prefetch_at(page.offset() + offset as u64)
    }

    fn finish(&self, clock: CommitTs, changed: &[PageId], waiting: &[(SegmentId, HeapId)]) {
        for (s, _) in waiting {
            self.space.hold_segment(*s, clock - 1)
        }
        let segments: Vec<SegmentId> = self.heaps.lock().values().flatten().copied().collect();
        let mut changed = changed.to_vec();
        changed.sort_unstable(); // by segment, as a rule already
        let space = self.space.clone();
        each(segments.len(), move |k| {
            let s = segments[k];
            let from = changed.partition_point(|p| *p < s.page(0));
            let to = changed.partition_point(|p| *p <= s.page(PAGES_PER_SEGMENT - 1));
            derive_segment(&space, s, &changed[from..to], clock - 1)
        });
    }
}

/// Sets the volatile headers of a segment's pages; those that `changed`, or their run, get the stamp `last`.
fn derive_segment(space: &Space, s: SegmentId, changed: &[PageId], last: CommitTs) {
    let mut changed = changed.iter().map(|p| p.index()).peekable();
    for (page, format) in space.heads(s) {
        derive(space, page, format);
        let end = page.index() + format.pages();
        let mut any = false;
        while changed.next_if(|c| *c < end).is_some() {
            any = true
        }
        if any {
            // A run's head speaks for its tail pages.
            space.header(page, header::LAST_COMMIT).store(last, Ordering::Relaxed)
        }
    }
}

/// Sets slot headers and the bitmap of one page from its live bits (page/G2).
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
