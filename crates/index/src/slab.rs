//! A growing array of equal, zeroed lines of memory that never move and live as long as the slab (index/I3).
//!
//! Line numbers are dense. Lines `[0, 2^first)` are the first segment; after that each segment has as many
//! lines as all before it together, so that a number leads to its line by one bit scan and one load. A large
//! segment is reserved address space that is charged and touched step by step: growth neither copies nor
//! pauses.
//!
//! - **S1** A line below `backed` lies in a segment of the directory, is charged, and stays until the slab
//!   goes.
//! - **S2** A directory entry is stored before any line of its segment is handed out.
use crate::{Budget, OutOfMemory};
use ondol_base::reserve::Reserve;
use ondol_base::sync::Mutex;
use std::alloc::Layout;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Segments from this size on are mapped, smaller ones come from the heap.
const MAP_FROM: usize = 256 << 10;
/// Segments from this size on ask for huge pages and grow by them.
const HUGE_FROM: usize = 8 << 20;
const STEP: usize = 64 << 10;
const HUGE: usize = 2 << 20;
const DIRECTORY: usize = 48;

enum Segment {
    Heap(*mut u8, Layout),
    Map(#[expect(dead_code, reason = "held for its drop")] Reserve),
}

struct State {
    /// Lines handed out by [`Slab::alloc`], free ones included.
    used: u64,
    /// Lines that are charged and may be used.
    backed: u64,
    free: Vec<u64>,
    segments: Vec<Segment>,
}

pub(crate) struct Slab {
    /// log2 of a line's bytes.
    shift: u32,
    /// log2 of the first segment's lines.
    first: u32,
    /// By the highest bit of a line number: the address that line 0 would have if the segment reached down to
    /// it.
    directory: [AtomicPtr<u8>; DIRECTORY],
    charged: AtomicUsize,
    budget: Arc<dyn Budget>,
    state: Mutex<State>,
}
// SAFETY: the raw pointers name memory that the slab owns; lines are only accessed through atomics.
unsafe impl Send for Slab {}
// SAFETY: as above; the state is under a mutex.
unsafe impl Sync for Slab {}

impl Slab {
    /// Lines of 2^shift bytes, 2^first of them in the first segment; `first` is at least 1.
    pub(crate) fn new(shift: u32, first: u32, budget: Arc<dyn Budget>) -> Slab {
        assert!(first >= 1, "a slab starts with two lines or more, asked for 2^{first}");
        Slab {
            shift,
            first,
            directory: std::array::from_fn(|_| AtomicPtr::default()),
            charged: AtomicUsize::new(0),
            budget,
            state: Mutex::new(State { used: 0, backed: 0, free: Vec::new(), segments: Vec::new() }),
        }
    }

    /// The address of a line that is backed (S1); any number below 2^48 gives some address without fault.
    #[inline(always)]
    pub(crate) fn line(&self, number: u64) -> *const AtomicU64 {
        self.at(number, self.shift)
    }

    /// [`Slab::line`] where lines are known to have 2^SHIFT bytes.
    #[inline(always)]
    pub(crate) fn line_of<const SHIFT: u32>(&self, number: u64) -> *const AtomicU64 {
        debug_assert_eq!(SHIFT, self.shift);
        self.at(number, SHIFT)
    }

    #[inline(always)]
    fn at(&self, number: u64, shift: u32) -> *const AtomicU64 {
        let top = 63 - (number | 1).leading_zeros() as usize;
        debug_assert!(top < DIRECTORY);
        // SAFETY: line numbers come from this slab and stay below 2^48, so `top` is within the directory.
        let base = unsafe { self.directory.get_unchecked(top) }.load(Ordering::Relaxed);
        base.wrapping_add((number << shift) as usize) as *const AtomicU64
    }

    pub(crate) fn bytes(&self) -> usize {
        self.charged.load(Ordering::Relaxed)
    }

    /// Lines given out and not freed.
    pub(crate) fn in_use(&self) -> u64 {
        let state = self.state.lock();
        state.used - state.free.len() as u64
    }

    /// Backs the lines below `lines`. Refused, it may have backed some of them.
    pub(crate) fn ensure(&self, lines: u64) -> Result<(), OutOfMemory> {
        self.back(&mut self.state.lock(), lines)
    }

    /// A line nobody uses. Its content is what was left there; a fresh one is zero.
    pub(crate) fn alloc(&self) -> Result<u64, OutOfMemory> {
        let mut state = self.state.lock();
        if let Some(n) = state.free.pop() {
            return Ok(n);
        }
        let n = state.used;
        self.back(&mut state, n + 1)?;
        state.used = n + 1;
        Ok(n)
    }

    pub(crate) fn free(&self, number: u64) {
        self.state.lock().free.push(number)
    }

    fn back(&self, state: &mut State, lines: u64) -> Result<(), OutOfMemory> {
        while state.backed < lines {
            let at = state.backed;
            let (start, len) = if at < 1 << self.first {
                (0, 1u64 << self.first)
            } else {
                let top = 63 - at.leading_zeros();
                (1 << top, 1u64 << top)
            };
            let bytes = (len as usize) << self.shift;
            let step = match bytes {
                b if b >= HUGE_FROM => HUGE,
                b if b >= MAP_FROM => STEP,
                b => b,
            };
            let step = ((step >> self.shift) as u64).max(1);
            let next = (start + ((at - start) / step + 1) * step).min(start + len);
            let charge = ((next - at) as usize) << self.shift;
            if !self.budget.charge(charge) {
                return Err(OutOfMemory);
            }
            if at == start
                && let Err(e) = self.add_segment(state, start, bytes)
            {
                self.budget.release(charge);
                return Err(e);
            }
            state.backed = next;
            self.charged.fetch_add(charge, Ordering::Relaxed);
        }
        Ok(())
    }

    fn add_segment(&self, state: &mut State, start: u64, bytes: usize) -> Result<(), OutOfMemory> {
        let (segment, base) = if bytes < MAP_FROM {
            let layout = Layout::from_size_align(bytes, 1 << self.shift.min(12)).map_err(|_| OutOfMemory)?;
            // SAFETY: the layout is not empty, a segment has at least one line.
            let p = unsafe { std::alloc::alloc_zeroed(layout) };
            if p.is_null() {
                return Err(OutOfMemory);
            }
            (Segment::Heap(p, layout), p)
        } else {
            let huge = bytes >= HUGE_FROM;
            let map = Reserve::new(bytes + if huge { HUGE } else { 0 }).map_err(|_| OutOfMemory)?;
            let mut skip = 0;
            if huge {
                skip = map.base().align_offset(HUGE).min(HUGE);
                map.huge(skip, bytes);
            }
            let p = map.base().wrapping_add(skip);
            (Segment::Map(map), p)
        };
        state.segments.push(segment);
        let biased = base.wrapping_sub((start << self.shift) as usize);
        let entries = if start == 0 { 0..self.first.max(1) } else { start.ilog2()..start.ilog2() + 1 };
        for i in entries {
            self.directory[i as usize].store(biased, Ordering::Release);
        }
        Ok(())
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        for s in &self.state.lock().segments {
            if let Segment::Heap(p, layout) = s {
                // SAFETY: allocated in `add_segment` with this layout, freed once.
                unsafe { std::alloc::dealloc(*p, *layout) }
            }
        }
        self.budget.release(self.bytes());
    }
}
