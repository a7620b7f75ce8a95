//! The bytes that the process has from Rust's allocator, now and at most. Whoever includes this has all of it
//! counted, so a test beside another counts both.
#![allow(
    unsafe_code,
    dead_code,
    reason = "an allocator is unsafe to implement; each test counts what it needs"
)]
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn more(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
    PEAK.fetch_max(live, Relaxed);
}

// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        more(layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(p, layout) }
    }
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_sub(layout.size(), Relaxed);
        more(size);
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(p, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What is allocated now.
pub fn now() -> usize {
    LIVE.load(Relaxed)
}

/// Begins to look for the most at a time; gives what is allocated now.
pub fn begin() -> usize {
    let live = now();
    PEAK.store(live, Relaxed);
    live
}

/// The most that was allocated at a time since [`begin`].
pub fn most() -> usize {
    PEAK.load(Relaxed)
}
