//! Whether the process is a copy of another. A copy has the memory of the other and its descriptors, but none
//! of its threads: what both would go on with is neither's.
#![allow(unsafe_code, reason = "the C library is asked to tell")]
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static COPIES: AtomicU32 = AtomicU32::new(0);

extern "C" fn is_copy() {
    COPIES.fetch_add(1, Ordering::Relaxed);
}

/// How many copies lie between this process and the one that has asked first. Who keeps the number finds out
/// later whether it is in the same process still.
pub fn copies() -> u32 {
    static ASKED: Once = Once::new();
    if !ASKED.is_completed() {
        ASKED.call_once(|| {
            // SAFETY: the function takes nothing and touches one atomic; if there is no memory for it, copies
            // are not noticed.
            unsafe { libc::pthread_atfork(None, None, Some(is_copy)) };
        })
    }
    COPIES.load(Ordering::Relaxed)
}
