//! The process's heap.

/// Gives memory that is free on the heap back to the system. The C library keeps much of it otherwise, and
/// what one large statement took stays resident. Takes time in proportion to what is free: worth it after
/// much was freed.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes no pointers, and any thread may call it at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
