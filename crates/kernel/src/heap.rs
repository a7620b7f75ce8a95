//! Heaps: the pages of one table's rows, or of its strings, and who may allocate where.
//!
//! A session claims a page and allocates in it alone, so that inserts of many sessions do not meet; a page
//! with room that nobody claims stands in the heap's list. Slots are freed by collectors at any time.
//!
//! - **A1** `open` is held while the log is written to, which may wait for a round; so whoever frees or gives
//!   a claim back, perhaps between its timestamp and its installation, must not need it. Order: `open`,
//!   `segments`, `lists`.
//! - **A2** A page's header names its heap until the heap is given up. Whoever comes later to a slot than its
//!   transaction did (collectors, retired frees, claims) asks for that name first, pinned or holding
//!   `segments`; the memory goes elsewhere only after both have passed.
//! - **A3** Slots are walked, and parts of a heap scanned, by somebody for whom the heap stays: a statement
//!   has published the table, or nobody else uses the database.
//! - **A4** A dropped heap's segment goes once the log has its drop. A checkpoint whose tables lack a segment
//!   may keep a log that still changes or formats it, and recovery knows what to do with that by the drop
//!   alone. Where the log refuses the record (a full disk), the segment stays as it is, nobody's, until a
//!   checkpoint has made room, or the next opening finds that the dictionary does not name it.
//! - **A5** A volatile heap, which its number tells ([`is_volatile`]), is memory alone: the log has no record
//!   of its segments, of its pages' formats or of its rows' differences, and no checkpoint lists them. So a
//!   crash leaves nothing of it, and its segments may go elsewhere at once: no record that recovery could
//!   apply names them from before. All else (versions, locks, snapshots, collection, the memory limit) is as
//!   it is for other heaps; commits that change such rows take their timestamps and log the rest.
use crate::error::{Error, Result};
use crate::memory::{Space, header};
use crate::version::{POINTER, Version, node, set_head};
use ondol_base::epoch::Participant;
use ondol_base::oid::Oid;
use ondol_base::sim::mutated;
use ondol_base::sync::{Mutex, RwLock, yield_point};
use ondol_durability::checkpoint::Segment;
use ondol_durability::log::Log;
use ondol_durability::page::{
    Format, LARGEST_SLOT, PAGE_HEADER, PAGE_SIZE, PAGES_PER_SEGMENT, PageId, ROW_UNIT, SLOT_HEADER, SegmentId,
};
use ondol_durability::record::System;
use ondol_durability::{CommitTs, HeapId};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The numbers of volatile heaps have this bit (A5).
pub const VOLATILE: HeapId = 1 << 31;

/// Whether the heap of that number is memory alone (A5).
pub fn is_volatile(id: HeapId) -> bool {
    id & VOLATILE != 0
}

/// Slot sizes of string heaps, in units of 16 bytes.
const STRING_UNITS: [u8; 14] = [2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 63, 84, 126, 252];
/// The longest row that a page's slot can have, header excluded. A longer one takes a run.
pub const LARGEST_ROW: usize = LARGEST_SLOT - SLOT_HEADER;
/// The longest run: one segment.
const RUN_PAGES: usize = PAGES_PER_SEGMENT;
/// How many segments an estimate looks at, and how many pages of all of them together.
const LOOKED_AT_SEGMENTS: usize = 16;
const LOOKED_AT_PAGES: usize = 128;
/// Row bytes of the longest run.
pub const LARGEST_RUN: usize = RUN_PAGES * PAGE_SIZE - PAGE_HEADER - SLOT_HEADER;
/// The longest string in one slot: a longer one is in pieces (string/L1).
pub const PIECE: usize = LARGEST_RUN - 8;

#[derive(Default)]
struct Lists {
    /// Unclaimed pages with room, by slot units.
    room: BTreeMap<u8, Vec<PageId>>,
    /// Free run slots: (pages, first page).
    runs: Vec<(u16, PageId)>,
}

pub struct Heap {
    pub id: HeapId,
    space: Arc<Space>,
    lists: Mutex<Lists>,
    /// The segments that have pages without a format, each with the next of them.
    open: Mutex<Vec<(SegmentId, usize)>>,
    segments: RwLock<Vec<SegmentId>>,
    /// See [`Heap::since`].
    since: AtomicU64,
}

/// A session's claims: one page for each heap and slot size it inserts into.
#[derive(Default)]
pub struct Claims {
    list: Vec<(Arc<Heap>, u8, PageId)>,
}

impl Heap {
    pub fn new(id: HeapId, space: Arc<Space>) -> Arc<Heap> {
        Arc::new(Heap {
            id,
            space,
            lists: Mutex::default(),
            open: Mutex::default(),
            segments: RwLock::new(vec![]),
            since: AtomicU64::new(0),
        })
    }

    /// Snapshots before this commit see only some of the rows, which were copied here from another heap, each
    /// with the timestamp of its copying.
    pub fn since(&self) -> CommitTs {
        self.since.load(Ordering::Acquire)
    }
    pub fn set_since(&self, at: CommitTs) {
        self.since.store(at, Ordering::Release)
    }

    /// Whether it is memory alone (A5).
    #[inline]
    pub fn is_volatile(&self) -> bool {
        is_volatile(self.id)
    }

    /// Slot units for a row or a string of `len` row bytes; `None`: it takes a run.
    pub fn units_for_string(len: usize) -> Option<u8> {
        let units = (len + SLOT_HEADER).div_ceil(ROW_UNIT);
        STRING_UNITS.iter().copied().find(|u| *u as usize >= units)
    }

    pub fn segment_count(&self) -> usize {
        self.segments.read().len()
    }
    /// Cuts the pages in use into parts of about `pages` pages, each of one segment, in storage order. A run
    /// belongs to the part that has its head.
    pub fn parts(&self, pages: usize) -> Vec<Part> {
        let mut parts = vec![];
        for &segment in self.segments.read().iter() {
            let used = self.space.used(segment);
            let head = |from: usize| self.space.head_from(segment, from).min(used);
            let part = |first: usize| Part { segment, pages: head(first)..head(first + pages) };
            parts.extend((0..used).step_by(pages).map(part).filter(|p| !p.pages.is_empty()))
        }
        parts
    }
    /// Each segment as a part: also of pages that will be used.
    pub fn segment_parts(&self) -> Vec<Part> {
        let whole = |&segment: &SegmentId| Part { segment, pages: 0..PAGES_PER_SEGMENT };
        self.segments.read().iter().map(whole).collect()
    }
    /// The pages that commits later than `since` have marked, heads of runs among them.
    pub fn marked(&self, since: CommitTs) -> Vec<PageId> {
        let segments = self.segments.read().clone();
        let pages = segments.iter().flat_map(|s| (0..self.space.used(*s)).map(move |i| s.page(i)));
        // The headers do not depend on each other, so their ways into the cache overlap. A tail has none.
        let is_marked =
            |p: &PageId| self.space.header(*p, header::LAST_COMMIT).load(Ordering::Relaxed) > since;
        pages.filter(is_marked).filter(|p| !self.space.is_tail(*p)).collect()
    }
    /// How many slots a page has.
    pub fn slots_on(&self, page: PageId) -> usize {
        self.space.format(page).slots().1
    }
    /// A slot's page, and which of its slots it is.
    pub fn place_of(&self, oid: Oid) -> (PageId, usize) {
        let page = PageId::of(oid);
        let (size, _) = self.space.format(page).slots();
        (page, ((oid.bits() - page.offset()) as usize - PAGE_HEADER) / size.max(1))
    }
    /// The OID of these bits, if they name a slot of the heap, free or not.
    pub fn slot_at(&self, bits: u64) -> Option<Oid> {
        self.space.locate(bits).filter(|oid| self.owns(PageId::of(*oid)))
    }
    /// Pages in use.
    pub fn pages(&self) -> usize {
        self.segments.read().iter().map(|s| self.space.used(*s)).sum()
    }
    pub fn bytes(&self) -> usize {
        self.segments.read().len() * ondol_durability::page::SEGMENT_SIZE
    }

    /// The fullest segment that has so many pages left gives them.
    fn next_pages(&self, open: &mut Vec<(SegmentId, usize)>, log: &Log, count: usize) -> Result<PageId> {
        let fits = open.iter_mut().filter(|(_, next)| next + count <= PAGES_PER_SEGMENT);
        if let Some((s, next)) = fits.max_by_key(|(_, next)| *next) {
            let page = s.page(*next);
            *next += count;
            if *next == PAGES_PER_SEGMENT {
                open.retain(|(_, next)| *next < PAGES_PER_SEGMENT)
            }
            return Ok(page);
        }
        let huge = !self.segments.read().is_empty();
        let s = self.space.take_segment(self.id, huge)?;
        // A checkpoint may list it before the log knows of it.
        yield_point();
        let logged = match self.is_volatile() {
            true => Ok(()),
            false => log.system(System::SegmentCreate { segment: s, heap: self.id }),
        };
        if let Err(e) = logged {
            // A checkpoint may have named it meanwhile.
            self.space.drop_segment(s, || log.clock());
            return Err(e.into());
        }
        self.segments.write().push(s);
        if count < PAGES_PER_SEGMENT {
            open.push((s, count))
        }
        Ok(s.page(0))
    }

    fn format(&self, log: &Log, page: PageId, format: Format) -> Result<()> {
        // In memory first: a checkpoint whose T is at or past the record's clock takes the format from there.
        self.space.header(page, header::HEAP).store(self.id as u64, Ordering::Relaxed);
        self.space.set_format(page, format);
        if self.is_volatile() {
            return Ok(());
        }
        if let Err(e) = log.system(System::PageFormat { page, format }) {
            self.space.set_format(page, Format::Unformatted);
            return Err(e.into());
        }
        Ok(())
    }

    /// A page with room for a slot of `units`, claimed for the caller.
    fn claim(&self, log: &Log, units: u8) -> Result<PageId> {
        if let Some(p) = self.lists.lock().room.get_mut(&units).and_then(|l| l.pop()) {
            return Ok(p);
        }
        let mut open = self.open.lock();
        let page = self.next_pages(&mut open, log, 1)?;
        self.space.header(page, header::CLAIMED).store(1, Ordering::Relaxed);
        self.format(log, page, Format::Slots { units })?;
        Ok(page)
    }

    /// A free slot, all zero, marked as taken.
    pub fn allocate(self: &Arc<Self>, claims: &mut Claims, log: &Log, units: u8) -> Result<Oid> {
        let at = match claims.list.iter().position(|(h, u, _)| h.id == self.id && *u == units) {
            Some(at) => at,
            None => {
                let page = self.claim(log, units)?;
                claims.list.push((self.clone(), units, page));
                claims.list.len() - 1
            }
        };
        loop {
            let page = claims.list[at].2;
            if let Some(i) = self.take_slot(page, units) {
                return Ok(self.slot(page, units, i));
            }
            let next = self.claim(log, units)?;
            claims.list[at].2 = next;
            self.unclaim(page, units);
        }
    }

    fn slot(&self, page: PageId, units: u8, index: usize) -> Oid {
        let at = page.offset() + (PAGE_HEADER + index * units as usize * ROW_UNIT) as u64;
        // SAFETY: a slot of a page of ours, which has that format.
        unsafe { Oid::from_bits(at) }
    }

    fn take_slot(&self, page: PageId, units: u8) -> Option<usize> {
        let (_, slots) = Format::Slots { units }.slots();
        for w in 0..2 {
            let here = slots.saturating_sub(w * 64).min(64);
            if here == 0 {
                break;
            }
            let word = self.space.header(page, header::TAKEN + w);
            let free = !word.load(Ordering::Acquire) & (u64::MAX >> (64 - here));
            if free != 0 {
                let bit = free.trailing_zeros();
                word.fetch_or(1 << bit, Ordering::AcqRel);
                return Some(w * 64 + bit as usize);
            }
        }
        None
    }

    fn has_room(&self, page: PageId, units: u8) -> bool {
        let (_, slots) = Format::Slots { units }.slots();
        (0..2).any(|w| {
            let here = slots.saturating_sub(w * 64).min(64);
            here > 0
                && !self.space.header(page, header::TAKEN + w).load(Ordering::Acquire)
                    & (u64::MAX >> (64 - here))
                    != 0
        })
    }

    /// Whether the page is still this heap's (A2).
    fn owns(&self, page: PageId) -> bool {
        self.space.is_of(page, self.id)
    }

    fn unclaim(&self, page: PageId, units: u8) {
        let _segments = self.segments.read();
        if !self.owns(page) {
            return;
        }
        self.space.header(page, header::CLAIMED).store(0, Ordering::SeqCst);
        self.list_if_room(page, units)
    }

    fn list_if_room(&self, page: PageId, units: u8) {
        // Of a claim given back and a slot freed at the same time, at least one sees the other.
        fence(Ordering::SeqCst);
        if self.has_room(page, units)
            && self
                .space
                .header(page, header::CLAIMED)
                .compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
        {
            self.lists.lock().room.entry(units).or_default().push(page)
        }
    }

    /// A slot of a whole run for `len` row bytes.
    pub fn allocate_run(&self, log: &Log, len: usize) -> Result<Oid> {
        let pages = (PAGE_HEADER + SLOT_HEADER + len).div_ceil(PAGE_SIZE).max(2);
        if pages > RUN_PAGES {
            return Err(Error::TooLarge { bytes: len, limit: LARGEST_RUN });
        }
        let free = {
            let mut lists = self.lists.lock();
            let fits = lists.runs.iter().enumerate().filter(|(_, r)| r.0 as usize >= pages);
            let best = fits.min_by_key(|(_, r)| r.0).map(|(i, _)| i);
            best.map(|i| lists.runs.swap_remove(i).1)
        };
        let page = match free {
            Some(page) => page,
            None => {
                let mut open = self.open.lock();
                let page = self.next_pages(&mut open, log, pages)?;
                // One record for the whole run (page/G3), so that a refused one leaves nothing half named.
                self.format(log, page, Format::RunHead { pages: pages as u16 })?;
                page
            }
        };
        self.space.header(page, header::TAKEN).store(1, Ordering::Release);
        // SAFETY: the slot of a run of ours.
        Ok(unsafe { Oid::from_bits(page.offset() + PAGE_HEADER as u64) })
    }

    /// Frees a slot whose row bytes are zero and which no reader can reach any more (kernel/K5).
    pub fn free(&self, oid: Oid) {
        let page = PageId::of(oid);
        let _segments = self.segments.read();
        if !self.owns(page) {
            return;
        }
        // An item of the row that was may still be in some collector's hands: the chain's latch and flags are
        // its.
        set_head(self.space.word(oid.bits() + 8), 0);
        self.space.word(oid.bits()).store(0, Ordering::Release);
        match self.space.format(page) {
            Format::Slots { units } => {
                let i = (oid.bits() - page.offset()) as usize - PAGE_HEADER;
                let i = i / (units as usize * ROW_UNIT);
                self.space.header(page, header::TAKEN + i / 64).fetch_and(!(1 << (i % 64)), Ordering::AcqRel);
                self.list_if_room(page, units)
            }
            Format::RunHead { pages } => {
                self.space.header(page, header::TAKEN).store(0, Ordering::Release);
                self.lists.lock().runs.push((pages, page))
            }
            Format::Unformatted | Format::RunTail => {}
        }
    }

    /// Row bytes of a slot, headers excluded.
    pub(crate) fn row_bytes(space: &Space, oid: Oid) -> usize {
        space.format(PageId::of(oid)).slots().0.saturating_sub(SLOT_HEADER)
    }

    /// Slots that are taken, by live rows or ones not yet collected.
    pub fn taken(&self) -> u64 {
        let segments = self.segments.read();
        let heads = segments.iter().flat_map(|s| self.space.heads(*s));
        heads.map(|(page, format)| self.taken_on(page, format)).sum()
    }

    fn taken_on(&self, page: PageId, format: Format) -> u64 {
        // Of a run's head the second word is zero.
        let words = if format == Format::Unformatted { 0 } else { 2 };
        let taken = (0..words).map(|w| self.space.header(page, header::TAKEN + w).load(Ordering::Relaxed));
        taken.map(|w| u64::from(w.count_ones())).sum()
    }

    /// About what [`Heap::taken`] counts, in a time that does not grow with the heap: evenly spread pages are
    /// looked at, all of them where there are few.
    pub fn estimate_taken(&self) -> u64 {
        let segments = self.segments.read();
        let chosen = segments.len().min(LOOKED_AT_SEGMENTS);
        let mut sum = 0;
        for n in spread(chosen, segments.len()) {
            let used = self.space.used(segments[n]);
            let pages = used.min(LOOKED_AT_PAGES / chosen);
            let heads = spread(pages, used).map(|p| segments[n].page(p)).filter(|p| !self.space.is_tail(*p));
            let taken: u64 = heads.map(|page| self.taken_on(page, self.space.format(page))).sum();
            sum += taken * used as u64 / pages.max(1) as u64;
        }
        sum * segments.len() as u64 / chosen.max(1) as u64
    }

    /// Takes the heap's name off its pages (A2). No transaction may use the heap any more.
    pub fn give_up(&self) {
        for s in self.segments.read().iter() {
            for (page, _) in self.space.heads(*s) {
                self.space.header(page, header::HEAP).store(0, Ordering::SeqCst)
            }
        }
    }

    /// Gives the segments up, with the versions that hang behind their slots. The heap was given up, and
    /// everybody who was pinned then has gone. False if some stay, to be given up later (A4).
    pub fn drop_all(&self, log: &Log, participant: &Participant) -> bool {
        let mut kept = vec![];
        let segments = std::mem::take(&mut *self.segments.write());
        for s in segments {
            if self.is_volatile() {
                self.free_versions(s, participant);
                self.space.free_segment(s);
                continue;
            }
            let at = log.clock();
            let logged = log.system(System::SegmentDrop { segment: s, heap: self.id, at });
            if logged.is_err() && !mutated("segment_dropped_unlogged") {
                kept.push(s);
                continue;
            }
            yield_point();
            self.free_versions(s, participant);
            self.space.drop_segment(s, || log.clock())
        }
        let all = kept.is_empty();
        *self.segments.write() = kept;
        all
    }

    /// Frees the versions behind a segment's slots, to which no collector comes any more (A2).
    fn free_versions(&self, segment: SegmentId, participant: &Participant) {
        let mut slots = Slots::default();
        slots.start_part(&Part { segment, pages: 0..PAGES_PER_SEGMENT });
        let mut versions: Vec<usize> = vec![];
        let mut bytes = 0;
        while let Some(oid) = slots.next(&self.space) {
            let word1 = self.space.word(oid.bits() + 8);
            let mut next = word1.load(Ordering::Acquire);
            set_head(word1, 0);
            // SAFETY: nobody else frees the nodes, as no collector comes (A2).
            while let Some(v) = unsafe { node(next) } {
                versions.push((next & POINTER) as usize);
                bytes += v.size();
                next = v.next.load(Ordering::Acquire);
            }
        }
        if !versions.is_empty() {
            self.space.budget.give_back(bytes);
            // A checkpoint may be reading them.
            // SAFETY: unlinked above; readers are waited for (epoch/E2).
            unsafe { participant.pin().retire_all(versions, Version::free_at) }
        }
    }

    /// Takes over recovered segments, whose slot headers and bitmaps are set.
    pub fn adopt(&self, segments: Vec<SegmentId>) {
        let mut lists = self.lists.lock();
        for s in &segments {
            for (page, format) in self.space.heads(*s) {
                match format {
                    Format::Slots { units } if self.has_room(page, units) => {
                        self.space.header(page, header::CLAIMED).store(1, Ordering::Relaxed);
                        lists.room.entry(units).or_default().push(page)
                    }
                    Format::RunHead { pages }
                        if self.space.header(page, header::TAKEN).load(Ordering::Relaxed) == 0 =>
                    {
                        lists.runs.push((pages, page))
                    }
                    _ => {}
                }
            }
            // Formats are handed out in order. A page whose format record was lost with its round is free
            // too.
            let used = self.space.used(*s);
            if used < PAGES_PER_SEGMENT {
                self.open.lock().push((*s, used))
            }
        }
        drop(lists);
        *self.segments.write() = segments;
    }
}

impl Claims {
    /// Gives the pages back to their heaps.
    pub fn release(&mut self) {
        for (heap, units, page) in self.list.drain(..) {
            heap.unclaim(page, units)
        }
    }
    /// Forgets claims on a heap that is gone.
    pub fn forget(&mut self, heap: HeapId) {
        self.list.retain(|(h, ..)| h.id != heap)
    }
}

/// Pages of one of a heap's segments, to be scanned by themselves.
#[derive(Clone, Debug)]
pub struct Part {
    segment: SegmentId,
    pages: Range<usize>,
}

/// The slots of a heap that are taken, in storage order, as of the segments at the start.
#[derive(Default)]
pub struct Slots {
    segments: Vec<SegmentId>,
    /// Next page, and the first that is left out, over all segments.
    page: usize,
    end: usize,
    current: Option<(PageId, usize)>,
    bits: [u64; 2],
}

impl Slots {
    pub fn start(&mut self, heap: &Heap) {
        self.segments.clear();
        self.segments.extend_from_slice(&heap.segments.read());
        self.begin(0..usize::MAX)
    }
    /// Only of a part of the heap.
    pub fn start_part(&mut self, part: &Part) {
        self.segments.clear();
        self.segments.push(part.segment);
        self.begin(part.pages.clone())
    }
    /// Only of one page, which is no run's tail.
    pub fn start_page(&mut self, page: PageId) {
        self.segments.clear();
        self.segments.push(page.segment());
        self.begin(page.index()..page.index() + 1)
    }
    fn begin(&mut self, pages: Range<usize>) {
        self.page = pages.start;
        self.end = pages.end;
        self.current = None;
        self.bits = [0; 2];
    }
    #[inline]
    pub fn next(&mut self, space: &Space) -> Option<Oid> {
        loop {
            if let Some((page, size)) = self.current {
                for w in 0..2 {
                    if self.bits[w] != 0 {
                        let bit = self.bits[w].trailing_zeros() as usize;
                        self.bits[w] &= self.bits[w] - 1;
                        let at = page.offset() + (PAGE_HEADER + (w * 64 + bit) * size) as u64;
                        // SAFETY: a slot of a page of the heap, by the page's own format (A3).
                        return Some(unsafe { Oid::from_bits(at) });
                    }
                }
            }
            if self.page >= self.end {
                self.current = None;
                return None;
            }
            let s = self.segments.get(self.page / PAGES_PER_SEGMENT)?;
            let page = s.page(self.page % PAGES_PER_SEGMENT);
            if page.index() >= space.used(*s) {
                self.current = None;
                self.page = (self.page / PAGES_PER_SEGMENT + 1) * PAGES_PER_SEGMENT;
                continue;
            }
            let format = space.format(page);
            self.page += format.pages();
            let (size, slots) = format.slots();
            self.current = None;
            if slots > 0 {
                self.current = Some((page, size));
                for w in 0..2 {
                    self.bits[w] = space.header(page, header::TAKEN + w).load(Ordering::Acquire)
                }
            }
        }
    }
    /// Leaves the rest of this page out, and about `pages` more.
    pub fn skip(&mut self, space: &Space, pages: usize) {
        self.current = None;
        self.page += pages;
        if let Some(s) = self.segments.get(self.page / PAGES_PER_SEGMENT) {
            let within = self.page % PAGES_PER_SEGMENT;
            self.page += space.head_from(*s, within) - within
        }
    }
    /// The page that the last slot came from.
    pub fn page(&self) -> Option<PageId> {
        self.current.map(|c| c.0)
    }
}

/// `count` numbers below `of`, evenly spread; all of them where `count` is `of`.
fn spread(count: usize, of: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |n| (2 * n + 1) * of / (2 * count))
}

/// A heap's segment as the manifest names it.
pub(crate) fn describe(space: &Space, id: SegmentId, heap: HeapId) -> Segment {
    let mut formats = vec![Format::Unformatted; PAGES_PER_SEGMENT];
    for (page, format) in space.heads(id) {
        let i = page.index();
        formats[i..i + format.pages()].fill(Format::RunTail);
        formats[i] = format
    }
    Segment { id, heap, formats }
}
