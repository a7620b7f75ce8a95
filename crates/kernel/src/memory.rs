//! The address range and its segments, and the memory limit.
//!
//! A database has one reserved range; an OID is an offset into it. Segments are handed out to heaps; one that
//! was dropped waits until a checkpoint at or past its drop is published, since recovery could otherwise
//! apply an older difference to a newer owner's bytes.
//!
//! - **S1** A segment's first page says how many of its pages were ever given a format. Walks end there, so
//!   that memory that holds nothing is never touched: a small database costs the pages that it uses, not its
//!   segments.
//! - **S2** A dropped segment waits for the clock that was read once nobody could list it any more. A
//!   checkpoint chooses T below the clock and lists segments then, so one that lists it has a T before that,
//!   and does not free it: between the record of a drop, or a creation's refusal, and memory the
//!   dropper may be delayed for as long as he likes.
//! - **S3** A dropped segment's memory is cleared once it counts as used no more. So who describes a segment
//!   holds off its drop meanwhile: what is described is whole, and what was dropped before is left out.
//! - **S4** Words are reached without a check of bounds, within the kernel only: at an OID, which names a
//!   slot (base/oid/O1), or in a page of a segment. The range has more behind the last segment, as much as
//!   the longest row: what is read from a slot on lies in it, whatever the slot's size is, and nothing longer
//!   is read.
//! - **S5** A number from elsewhere is made an OID by [`Space::locate`]. It asks the page's header; so it has
//!   to know the tails of runs, which have none, and where a value may look like one.
use crate::error::{Error, Result};
use crate::heap::is_volatile;
use ondol_base::oid::Oid;
use ondol_base::reserve::Reserve;
use ondol_base::sync::Mutex;
use ondol_durability::page::{
    Format, PAGE_HEADER, PAGE_SIZE, PAGES_PER_SEGMENT, PageId, ROW_UNIT, SEGMENT_SIZE, SLOT_HEADER, SegmentId,
};
use ondol_durability::{CommitTs, HeapId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The memory limit, shared by segments, indexes and versions.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
    /// What only abort, collection, checkpoint and restart may still take.
    reserve: usize,
}

impl Budget {
    pub fn new(limit: usize) -> Arc<Budget> {
        Arc::new(Budget { limit, used: AtomicUsize::new(0), reserve: limit / 64 })
    }
    pub fn limit(&self) -> usize {
        self.limit
    }
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
    /// Takes from the reserve too: for work that must not fail.
    pub fn force(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }
    pub fn try_charge(&self, bytes: usize) -> Result<()> {
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes > self.limit - self.reserve {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Error::OutOfMemory { limit: self.limit });
        }
        Ok(())
    }
    pub fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl ondol_index::Budget for Budget {
    fn charge(&self, bytes: usize) -> bool {
        self.try_charge(bytes).is_ok()
    }
    fn release(&self, bytes: usize) {
        self.give_back(bytes)
    }
}

/// Words of a page header (64 bytes, volatile).
pub(crate) mod header {
    /// Commit timestamp of the last commit installed on the page.
    pub const LAST_COMMIT: usize = 0;
    /// Format in the low byte, run length in the next two.
    pub const FORMAT: usize = 1;
    /// Two words: which slots are taken.
    pub const TAKEN: usize = 2;
    /// Bit 0: some allocator holds the page or lists it as having room.
    pub const CLAIMED: usize = 4;
    pub const HEAP: usize = 5;
    /// Of a segment's first page: how many pages are in use (S1).
    pub const USED: usize = 6;
}

struct Segments {
    /// In use: heap by segment.
    used: BTreeMap<u32, HeapId>,
    free: Vec<u32>,
    /// Dropped: (segment, clock at the drop).
    waiting: Vec<(u32, CommitTs)>,
    /// The first segment never used.
    next: u32,
}

/// The reserved range of one database.
pub struct Space {
    range: Reserve,
    /// Bytes that segments may take; behind them lies what S4 asks for.
    end: usize,
    /// A bit for each page: whether it is a run's tail (S5).
    tails: Reserve,
    /// Some value takes a run of pages; until then nobody looks for run heads.
    runs: AtomicBool,
    segments: Mutex<Segments>,
    pub budget: Arc<Budget>,
}

impl Space {
    /// `reserved` bytes of address space.
    pub fn new(reserved: usize, budget: Arc<Budget>) -> std::io::Result<Space> {
        let range = Reserve::new(reserved.saturating_add(SEGMENT_SIZE))?;
        let tails = Reserve::new(reserved.div_ceil(SEGMENT_SIZE) * size_of::<Tails>())?;
        Ok(Space {
            range,
            end: reserved,
            tails,
            runs: AtomicBool::new(false),
            segments: Mutex::new(Segments { used: BTreeMap::new(), free: vec![], waiting: vec![], next: 1 }),
            budget,
        })
    }

    /// The word at a byte offset (S4), which is a multiple of 8.
    #[inline(always)]
    pub(crate) fn word(&self, offset: u64) -> &AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && (offset as usize) < self.end, "offset {offset:x}");
        // SAFETY: within the mapping (S4), aligned, and all access to page memory is by relaxed or stronger
        // atomics.
        unsafe { &*self.range.base().add(offset as usize).cast::<AtomicU64>() }
    }
    /// The words of a slot, or of a page, from a byte offset on.
    #[inline(always)]
    pub(crate) fn words(&self, offset: u64, count: usize) -> &[AtomicU64] {
        debug_assert!(offset.is_multiple_of(8) && offset as usize + count * 8 <= self.end);
        // SAFETY: as in `word`.
        unsafe {
            std::slice::from_raw_parts(self.range.base().add(offset as usize).cast::<AtomicU64>(), count)
        }
    }
    /// Whether some row may begin at a byte offset: it lies where segments do.
    #[inline(always)]
    pub(crate) fn is_place(&self, offset: u64) -> bool {
        offset.is_multiple_of(ROW_UNIT as u64) && offset < self.end as u64
    }
    /// Whether the page is of a segment in use, and may have a format.
    pub(crate) fn has_page(&self, page: PageId) -> bool {
        page.offset() < self.end as u64 && page.index() < self.used(page.segment())
    }
    /// The OID of these bits, if they name a slot, free or not, of a page in use (S5).
    pub fn locate(&self, bits: u64) -> Option<Oid> {
        let page = PageId(bits / PAGE_SIZE as u64);
        if !self.is_place(bits) || !self.has_page(page) || self.is_tail(page) {
            return None;
        }
        let (size, slots) = self.format(page).slots();
        let at = (bits as usize % PAGE_SIZE).checked_sub(PAGE_HEADER)?;
        let is_slot = size > 0 && at.is_multiple_of(size) && at / size < slots;
        // SAFETY: it names a slot of this space (base/oid/O1), as was just seen.
        is_slot.then(|| unsafe { Oid::from_bits(bits) })
    }
    /// Brings a slot into the cache.
    #[inline(always)]
    pub fn prefetch(&self, oid: Oid) {
        self.prefetch_at(oid.bits())
    }
    /// The same of any place.
    #[inline(always)]
    pub fn prefetch_at(&self, offset: u64) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch of any address is harmless.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let p = self.range.base().wrapping_add(offset as usize).cast::<i8>();
            _mm_prefetch(p, _MM_HINT_T0);
            _mm_prefetch(p.wrapping_add(64), _MM_HINT_T0);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = offset;
    }

    /// Two words of a row, from its byte `at` on, a multiple of 8, as they are just now: good for a guess.
    /// Behind the row's end they mean nothing; they can be read there as well (S4), since a segment is longer
    /// than any `at`.
    #[inline(always)]
    pub fn guess(&self, oid: Oid, at: u16) -> [u64; 2] {
        let from = oid.bits() + (SLOT_HEADER + usize::from(at & !7)) as u64;
        let words = self.words(from, 2);
        [words[0].load(Ordering::Relaxed), words[1].load(Ordering::Relaxed)]
    }

    /// Brings the header of a slot's page into the cache.
    #[inline(always)]
    pub fn prefetch_page(&self, oid: Oid) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as in `prefetch`.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let p = self.range.base().wrapping_add(PageId::of(oid).offset() as usize);
            _mm_prefetch(p.cast::<i8>(), _MM_HINT_T0);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = oid;
    }

    /// The same for a row of `len` bytes: the lines that it lies in, three at most, and no other.
    #[inline(always)]
    pub fn prefetch_row(&self, oid: Oid, len: usize) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as in `prefetch_at`.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let last = SLOT_HEADER + len.max(1) - 1;
            let p = self.range.base().wrapping_add(oid.bits() as usize).cast::<i8>();
            _mm_prefetch(p, _MM_HINT_T0);
            _mm_prefetch(p.wrapping_add(last.min(64)), _MM_HINT_T0);
            if last > 64 {
                _mm_prefetch(p.wrapping_add(last.min(128)), _MM_HINT_T0);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (oid, len);
    }

    #[inline]
    pub(crate) fn header(&self, page: PageId, word: usize) -> &AtomicU64 {
        self.word(page.offset() + word as u64 * 8)
    }

    pub(crate) fn format(&self, page: PageId) -> Format {
        let w = self.header(page, header::FORMAT).load(Ordering::Acquire);
        match w & 0xff {
            0 => Format::Unformatted,
            254 => Format::RunTail,
            255 => Format::RunHead { pages: (w >> 8) as u16 },
            units => Format::Slots { units: units as u8 },
        }
    }
    pub(crate) fn set_format(&self, page: PageId, format: Format) {
        let w = match format {
            Format::Unformatted => 0,
            Format::RunTail => 254,
            Format::RunHead { pages } => 255 | (pages as u64) << 8,
            Format::Slots { units } => units as u64,
        };
        if matches!(format, Format::RunTail | Format::RunHead { .. }) {
            self.note_run()
        }
        // A run's tail pages carry no header: their first words are the value's bytes.
        if format == Format::RunTail {
            self.note_tails(page, 1);
            return;
        }
        let end = page.index() + format.pages();
        if let Format::RunHead { pages } = format {
            self.note_tails(page.segment().page(page.index() + 1), pages as usize - 1)
        }
        // The format first: a reader that finds a run's head used must not step into its tail.
        self.header(page, header::FORMAT).store(w, Ordering::Release);
        self.header(page.segment().page(0), header::USED).fetch_max(end as u64, Ordering::AcqRel);
    }
    /// Pages of a segment that may have a format: the first so many (S1).
    #[inline]
    pub(crate) fn used(&self, segment: SegmentId) -> usize {
        self.header(segment.page(0), header::USED).load(Ordering::Acquire) as usize
    }
    /// The pages in use that carry a header, with their formats: all but the tails of runs.
    pub(crate) fn heads(&self, segment: SegmentId) -> impl Iterator<Item = (PageId, Format)> + '_ {
        let (mut next, end) = (0, self.used(segment));
        std::iter::from_fn(move || {
            let page = (next < end).then(|| segment.page(next))?;
            let format = self.format(page);
            next += format.pages();
            Some((page, format))
        })
    }

    /// Whether the page is that heap's: its header names it until the heap is given up (heap/A2).
    pub(crate) fn is_of(&self, page: PageId, heap: HeapId) -> bool {
        self.header(page, header::HEAP).load(Ordering::SeqCst) == heap as u64
    }

    fn note_run(&self) {
        self.runs.store(true, Ordering::Release)
    }
    /// The segment's bits of [`Space::tails`].
    fn tails_of(&self, segment: SegmentId) -> &Tails {
        let at = segment.0 as usize * size_of::<Tails>();
        assert!(at < self.tails.len(), "segment {} lies outside the range", segment.0);
        // SAFETY: within the mapping, which is a whole number of these, and aligned; all access is by
        // atomics.
        unsafe { &*self.tails.base().add(at).cast::<Tails>() }
    }
    /// From this page on so many are tails; all are of one segment.
    fn note_tails(&self, first: PageId, count: usize) {
        let tails = self.tails_of(first.segment());
        for i in first.index()..first.index() + count {
            tails[i / 64].fetch_or(1 << (i % 64), Ordering::Release);
        }
    }
    /// The first page from this one of the segment on that is no run's tail: the next segment's if there is
    /// none.
    pub(crate) fn head_from(&self, segment: SegmentId, mut page: usize) -> usize {
        while page < PAGES_PER_SEGMENT && self.is_tail(segment.page(page)) {
            page += 1
        }
        page
    }
    pub(crate) fn is_tail(&self, page: PageId) -> bool {
        let i = page.index();
        self.run_tail_hint()
            && self.tails_of(page.segment())[i / 64].load(Ordering::Acquire) >> (i % 64) & 1 != 0
    }
    /// Whether any page may be a run's tail.
    pub(crate) fn run_tail_hint(&self) -> bool {
        self.runs.load(Ordering::Acquire)
    }

    /// A zeroed segment for `heap`, charged to the budget. `huge`: ask for huge pages.
    pub(crate) fn take_segment(&self, heap: HeapId, huge: bool) -> Result<SegmentId> {
        self.budget.try_charge(SEGMENT_SIZE)?;
        let mut s = self.segments.lock();
        let id = match s.free.pop() {
            Some(id) => id,
            None if (s.next as usize + 1) * SEGMENT_SIZE <= self.end => {
                s.next += 1;
                s.next - 1
            }
            None => {
                self.budget.give_back(SEGMENT_SIZE);
                return Err(Error::OutOfMemory { limit: self.end });
            }
        };
        s.used.insert(id, heap);
        if huge {
            self.range.huge(id as usize * SEGMENT_SIZE, SEGMENT_SIZE)
        }
        Ok(SegmentId(id))
    }
    /// Takes a given segment, at recovery.
    pub(crate) fn claim_segment(
        &self,
        id: SegmentId,
        heap: HeapId,
        huge: bool,
    ) -> std::result::Result<(), String> {
        let mut s = self.segments.lock();
        if (id.0 as usize + 1) * SEGMENT_SIZE > self.end || id.0 == 0 {
            return Err(format!(
                "segment {} lies outside the reserved range of {} bytes; reserve more",
                id.0, self.end
            ));
        }
        if self.budget.try_charge(SEGMENT_SIZE).is_err() {
            return Err(format!(
                "the memory limit of {} bytes is too small for the database's segments",
                self.budget.limit()
            ));
        }
        s.used.insert(id.0, heap);
        while s.next <= id.0 {
            let n = s.next;
            if n != id.0 {
                s.free.push(n)
            }
            s.next += 1;
        }
        s.free.retain(|f| *f != id.0);
        if huge {
            self.range.huge(id.0 as usize * SEGMENT_SIZE, SEGMENT_SIZE)
        }
        Ok(())
    }
    /// Keeps a segment from reuse until a checkpoint at or past `at` is published (recovery's findings).
    pub(crate) fn hold_segment(&self, id: SegmentId, at: CommitTs) {
        let mut s = self.segments.lock();
        while s.next <= id.0 {
            let n = s.next;
            s.free.push(n);
            s.next += 1;
        }
        s.free.retain(|f| *f != id.0);
        s.waiting.push((id.0, at));
    }
    /// Gives a dropped heap's segment up; nobody may hold an OID into it any more. `clock` tells the log's
    /// clock.
    pub(crate) fn drop_segment(&self, id: SegmentId, clock: impl FnOnce() -> CommitTs) {
        if !self.clear_segment(id) {
            return;
        }
        // S2: read now, so that every checkpoint that has seen the segment in use is before it.
        let at = clock();
        let mut s = self.segments.lock();
        match ondol_base::sim::mutated("segment_reused_early") {
            true => s.free.push(id.0),
            false => s.waiting.push((id.0, at)),
        }
    }
    /// The same of a volatile heap's segment, which may be used again at once (heap/A5).
    pub(crate) fn free_segment(&self, id: SegmentId) {
        if self.clear_segment(id) {
            self.segments.lock().free.push(id.0)
        }
    }
    /// Whether it was in use.
    fn clear_segment(&self, id: SegmentId) -> bool {
        if self.segments.lock().used.remove(&id.0).is_none() {
            return false;
        }
        // SAFETY: the caller waited for all users of the heap.
        unsafe { self.range.discard(id.0 as usize * SEGMENT_SIZE, SEGMENT_SIZE) };
        self.tails_of(id).iter().for_each(|bits| bits.store(0, Ordering::Release));
        self.budget.give_back(SEGMENT_SIZE);
        true
    }
    /// A checkpoint at `at` was published.
    pub(crate) fn published(&self, at: CommitTs) {
        let mut s = self.segments.lock();
        let (ready, waiting) = std::mem::take(&mut s.waiting).into_iter().partition(|(_, d)| *d <= at);
        s.waiting = waiting;
        let ready: Vec<(u32, CommitTs)> = ready;
        s.free.extend(ready.into_iter().map(|(id, _)| id));
    }
    /// Calls `f` with the heap that uses the segment, which is not dropped meanwhile (S3). `None`: it is not
    /// in use.
    pub(crate) fn while_used<R>(&self, id: SegmentId, f: impl FnOnce(HeapId) -> R) -> Option<R> {
        let s = self.segments.lock();
        s.used.get(&id.0).map(|heap| f(*heap))
    }
    /// Segments in use but those of volatile heaps: what a checkpoint lists (heap/A5).
    pub(crate) fn segments(&self) -> Vec<(SegmentId, HeapId)> {
        let segments = self.segments.lock();
        segments.used.iter().filter(|(_, h)| !is_volatile(**h)).map(|(s, h)| (SegmentId(*s), *h)).collect()
    }

    /// Copies `out.len()` bytes (a multiple of 8) from a slot, from a byte offset on, by relaxed word loads.
    #[inline]
    pub(crate) fn copy_out(&self, offset: u64, out: &mut [u8]) {
        // SAFETY: from any place where segments lie so much can be read (S4).
        unsafe { load(self.at(offset), out.as_chunks_mut().0) }
    }
    /// Where the words from a slot's byte offset on are.
    #[inline(always)]
    pub(crate) fn at(&self, offset: u64) -> *const AtomicU64 {
        debug_assert!(offset.is_multiple_of(8) && (offset as usize) < self.end, "offset {offset:x}");
        self.range.base().wrapping_add(offset as usize).cast::<AtomicU64>()
    }
    /// Stores bytes, zero-padded to whole words.
    #[inline]
    pub(crate) fn copy_in(&self, offset: u64, bytes: &[u8]) {
        let words = self.words(offset, bytes.len().div_ceil(8));
        for (b, w) in bytes.chunks(8).zip(words) {
            let mut buf = [0; 8];
            buf[..b.len()].copy_from_slice(b);
            w.store(u64::from_le_bytes(buf), Ordering::Relaxed)
        }
    }
    /// Zeroes `len` bytes (rounded up to words).
    pub(crate) fn zero(&self, offset: u64, len: usize) {
        for w in self.words(offset, len.div_ceil(8)) {
            w.store(0, Ordering::Relaxed)
        }
    }
}

/// A segment's pages, each a bit.
type Tails = [AtomicU64; PAGES_PER_SEGMENT / 64];

/// Words of the longest row, and some more.
const MOST: usize = SEGMENT_SIZE / 8;

/// Copies words, as many as there is room for, each by a relaxed load.
///
/// # Safety
/// [`MOST`] words can be read at `from`.
#[inline(always)]
pub(crate) unsafe fn load(from: *const AtomicU64, to: &mut [[u8; 8]]) {
    let t = to.as_mut_ptr();
    // The last eight overlap those before: what a writer changes meanwhile is of no version, and the caller
    // finds out.
    let last = to.len().wrapping_sub(8);
    // Fewer than eight, or more than there are (S4): one comparison tells.
    if last > MOST - 8 {
        assert!(to.len() < 8, "{} words are no row", to.len());
        for (i, t) in to.iter_mut().enumerate() {
            // SAFETY: by the contract.
            *t = unsafe { (*from.add(i)).load(Ordering::Relaxed).to_le_bytes() }
        }
        return;
    }
    let mut at = 0;
    while at < last {
        // SAFETY: `at` + 8 is less than the words of `to`, which are at most those of `from`.
        unsafe { load_eight(from.add(at), t.add(at)) };
        at += 8;
    }
    // SAFETY: the last eight.
    unsafe { load_eight(from.add(last), t.add(last)) }
}

/// Copies eight words, each by a relaxed load.
///
/// # Safety
/// So many are there on both sides.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn load_eight(from: *const AtomicU64, to: *mut [u8; 8]) {
    // SAFETY: reads the words of `from` and writes those of `to`, no others. It is assembly because another
    // thread may write the former: each aligned half of such a load is a relaxed read of one word, which
    // Rust's own vector loads do not promise.
    unsafe {
        std::arch::asm!(
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movups [{to}], {a}",
            "movups [{to} + 16], {b}",
            "movups [{to} + 32], {c}",
            "movups [{to} + 48], {d}",
            from = in(reg) from,
            to = in(reg) to,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack, preserves_flags),
        );
    }
}

/// Copies eight words, each by a relaxed load.
///
/// # Safety
/// So many are there on both sides.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
unsafe fn load_eight(from: *const AtomicU64, to: *mut [u8; 8]) {
    for i in 0..8 {
        // SAFETY: by the contract.
        unsafe { *to.add(i) = (*from.add(i)).load(Ordering::Relaxed).to_le_bytes() }
    }
}

/// Bytes of a row rounded up to whole row units.
pub fn padded(len: usize) -> usize {
    len.next_multiple_of(ROW_UNIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_words_is_copied() {
        let from: Vec<AtomicU64> =
            (0..MOST as u64).map(|i| AtomicU64::new(i % 256 * 0x0101_0101_0101_0101)).collect();
        for n in (0..40).chain([MOST - 1, MOST]) {
            let mut to = vec![[0xee; 8]; n + 1];
            // SAFETY: so many are there.
            unsafe { load(from.as_ptr(), &mut to[..n]) };
            let wanted: Vec<[u8; 8]> = (0..n).map(|i| [i as u8; 8]).chain([[0xee; 8]]).collect();
            assert_eq!(to, wanted);
        }
    }

    #[test]
    #[should_panic(expected = "words are no row")]
    fn more_words_than_a_row_has_are_refused() {
        let space = Space::new(2 * SEGMENT_SIZE, Budget::new(SEGMENT_SIZE * 2)).unwrap();
        space.copy_out(SEGMENT_SIZE as u64 + 64, &mut vec![0; SEGMENT_SIZE + 8])
    }

    /// S5: of all numbers those are OIDs that name a slot.
    #[test]
    fn only_numbers_of_slots_are_located() {
        let space = Space::new(4 * SEGMENT_SIZE, Budget::new(SEGMENT_SIZE * 4)).unwrap();
        let s = space.take_segment(7, false).unwrap();
        let formats = [
            (0, Format::Slots { units: 4 }),
            (1, Format::RunHead { pages: 3 }),
            (4, Format::Slots { units: 252 }),
            (5, Format::Slots { units: 3 }),
        ];
        for (i, f) in formats {
            space.set_format(s.page(i), f)
        }
        // A value's bytes in a run's tail, which look like a page's header.
        for page in [2, 3] {
            space.word(s.page(page).offset() + 8 * header::FORMAT as u64).store(4, Ordering::Relaxed);
            space.word(s.page(page).offset() + 8 * header::HEAP as u64).store(7, Ordering::Relaxed)
        }
        let mut slots = vec![];
        for (i, f) in formats {
            let (size, count) = f.slots();
            slots.extend((0..count).map(|n| s.page(i).offset() + (PAGE_HEADER + n * size) as u64))
        }
        let end = 8 * PAGE_SIZE as u64;
        let found: Vec<u64> =
            (0..end).map(|n| s.offset() + n).filter(|n| space.locate(*n).is_some()).collect();
        assert_eq!(found, slots);
        let far =
            [0, 64, SEGMENT_SIZE as u64 - 1, 3 * SEGMENT_SIZE as u64 + 64, 4 * SEGMENT_SIZE as u64 + 64];
        let high = (4..64).flat_map(|bit| [1 << bit, s.offset() + 64 + (1 << bit), u64::MAX << bit]);
        for n in far.into_iter().chain(high).filter(|n| !slots.contains(n)) {
            assert_eq!(space.locate(n), None, "{n:x}")
        }
        space.drop_segment(s, || 1);
        assert!(slots.iter().all(|n| space.locate(*n).is_none()));
        // The memory that comes next there has no tails of before.
        space.published(1);
        let again = space.take_segment(8, false).unwrap();
        assert_eq!(again, s);
        (0..5).for_each(|i| space.set_format(s.page(i), Format::Slots { units: 252 }));
        assert!((0..5).all(|i| space.locate(s.page(i).offset() + PAGE_HEADER as u64).is_some()));
    }

    #[test]
    fn walks_end_where_formats_do() {
        let space = Space::new(3 * SEGMENT_SIZE, Budget::new(SEGMENT_SIZE * 2)).unwrap();
        let s = space.take_segment(7, false).unwrap();
        assert_eq!((space.used(s), space.heads(s).count()), (0, 0));
        let formats = [
            (0, Format::Slots { units: 4 }),
            (1, Format::RunHead { pages: 3 }),
            (5, Format::Slots { units: 2 }),
        ];
        for (i, f) in formats {
            space.set_format(s.page(i), f)
        }
        // A page whose format was refused leaves a gap.
        space.set_format(s.page(6), Format::Unformatted);
        let found: Vec<(usize, Format)> = space.heads(s).map(|(p, f)| (p.index(), f)).collect();
        let gap = |i| (i, Format::Unformatted);
        assert_eq!(found, [formats[0], formats[1], gap(4), formats[2], gap(6)]);
        space.drop_segment(s, || 1);
        assert_eq!(space.used(s), 0);
    }

    /// S2: whoever lists segments before the clock is read still meets it and chose an earlier T; later ones
    /// do not meet it.
    #[test]
    fn a_dropped_segment_waits_for_a_clock_read_when_nobody_lists_it() {
        let space = Space::new(3 * SEGMENT_SIZE, Budget::new(SEGMENT_SIZE * 4)).unwrap();
        let s = space.take_segment(7, false).unwrap();
        space.drop_segment(s, || {
            assert_eq!(space.segments(), []);
            // A checkpoint of all that was before, published meanwhile.
            space.published(8);
            9
        });
        space.published(8);
        assert_ne!(space.take_segment(8, false).unwrap(), s);
        space.published(9);
        assert_eq!(space.take_segment(8, false).unwrap(), s);
    }
}
