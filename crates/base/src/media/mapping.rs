//! A file of the disk mapped into memory.
//!
//! - **G1** `base .. base + len` is one shared, writable mapping of its file, from its making to its drop.
//! - **G2** Every access is checked against `len` first.
//! - **G3** The bytes are shared with other threads (and processes), so no reference to them is ever formed:
//!   stores are instructions of their own, loads are of words or bytes by raw pointer. Callers keep writers
//!   of the same bytes, and readers of bytes being written, apart; neighbours need not know of each other.
//!
//! An aligned 8-byte word that a copy covers as a whole is written by one store. A word covered in part is
//! written byte by byte, so that its other bytes may belong to someone else.
//!
//! What a crash leaves: see media/M5. Whether a fence is durable is the kernel's word, by `MAP_SYNC`.
//! A file that somebody truncates while it is mapped raises SIGBUS at the next access; the folder's lock is
//! there to prevent it.
//!
//! Sources: mmap(2); Intel's Software Developer's Manual on MOVNTI, CLWB, CLFLUSHOPT and SFENCE.
use super::{Mapped, Promise};
use std::io;
use std::os::fd::RawFd;

/// A mapped file. See the module.
pub struct Mapping {
    base: *mut u8,
    len: usize,
    promise: Promise,
}
// SAFETY: by G3 every access is by raw instruction to shared memory; the struct itself is immutable.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of an open file, which may be more than it has. An access beyond the page
    /// of its end raises SIGBUS, as does a store to a hole that the file system has no room for: callers know
    /// the file's length and keep below it.
    pub fn new(fd: RawFd, len: usize) -> io::Result<Mapping> {
        let map = |flags: libc::c_int| {
            // SAFETY: a fresh mapping at an address that the kernel chooses; the descriptor is only borrowed.
            let p = unsafe {
                libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, fd, 0)
            };
            if p == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(p.cast::<u8>()) }
        };
        // Cache-line write-back from user space is implemented for x86-64 here; elsewhere nobody may be
        // promised that a fence is enough.
        if cfg!(target_arch = "x86_64")
            && let Ok(base) = map(libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC)
        {
            return Ok(Mapping { base, len, promise: Promise::Fence });
        }
        map(libc::MAP_SHARED).map(|base| Mapping { base, len, promise: Promise::Sync })
    }
    /// Where a range of the mapping is, for stores by other means, to which [`Mapped::copy`]'s rules apply.
    #[track_caller]
    pub fn place(&self, offset: usize, len: usize) -> *mut u8 {
        self.check(offset, len);
        // SAFETY: G2 was checked just now.
        unsafe { self.base.add(offset) }
    }
    #[track_caller]
    fn check(&self, offset: usize, len: usize) {
        let end = offset.checked_add(len);
        assert!(end.is_some_and(|e| e <= self.len), "{len} bytes at {offset} of a mapping of {}", self.len);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: G1; unmapped once.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

impl Mapped for Mapping {
    fn len(&self) -> usize {
        self.len
    }
    fn promise(&self) -> Promise {
        self.promise
    }
    fn copy(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        // SAFETY: G2 was checked just now; a slice of ours does not overlap a mapping that nobody borrows
        // (G3).
        unsafe { store::copy(self.base.add(offset), bytes) }
    }
    fn read(&self, offset: usize, buf: &mut [u8]) {
        self.check(offset, buf.len());
        // SAFETY: G2 was checked just now; `buf` is exclusively ours, and G3 lets us read by raw pointer.
        unsafe { std::ptr::copy_nonoverlapping(self.base.add(offset), buf.as_mut_ptr(), buf.len()) }
    }
    fn flush(&self, offset: usize, len: usize) {
        self.check(offset, len);
        if len != 0 {
            // SAFETY: G2 was checked just now; the first line may begin before the range but is in its page.
            unsafe { store::flush(self.base.add(offset), len) }
        }
    }
    fn fence(&self) {
        store::fence()
    }
}

#[cfg(target_arch = "x86_64")]
mod store {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid_count, _mm_sfence};
    use std::sync::atomic::{AtomicU8, Ordering};

    /// # Safety
    /// `to` has room for `bytes` in memory that Rust holds no reference to.
    pub unsafe fn copy(mut to: *mut u8, mut bytes: &[u8]) {
        let head = to.align_offset(8).min(bytes.len());
        // SAFETY: all stores stay within the caller's range: `bytes` shrinks as `to` moves on.
        unsafe {
            if head != 0 {
                edge(to, &bytes[..head]);
                to = to.add(head);
                bytes = &bytes[head..];
            }
            let (words, tail) = bytes.as_chunks::<8>();
            for w in words {
                asm!("movnti [{to}], {w}", to = in(reg) to, w = in(reg) u64::from_ne_bytes(*w),
                    options(nostack, preserves_flags));
                to = to.add(8);
            }
            if !tail.is_empty() {
                edge(to, tail)
            }
        }
    }
    /// Bytes of a word that is not covered as a whole: ordinary stores, whose line is then written back.
    ///
    /// # Safety
    /// As for [`copy`]; the bytes lie within one aligned word.
    unsafe fn edge(to: *mut u8, bytes: &[u8]) {
        // SAFETY: the caller vouches for the range.
        unsafe {
            for (i, b) in bytes.iter().enumerate() {
                to.add(i).write_volatile(*b)
            }
            flush(to, bytes.len())
        }
    }

    const UNKNOWN: u8 = 0;
    const CLWB: u8 = 1;
    const CLFLUSHOPT: u8 = 2;
    const CLFLUSH: u8 = 3;
    static BEST: AtomicU8 = AtomicU8::new(UNKNOWN);

    fn detect() -> u8 {
        // Zero where the leaf does not exist on 64-bit processors of old.
        let leaf7 = __cpuid_count(7, 0).ebx;
        let best = match leaf7 {
            b if b & (1 << 24) != 0 => CLWB,
            b if b & (1 << 23) != 0 => CLFLUSHOPT,
            _ => CLFLUSH,
        };
        BEST.store(best, Ordering::Relaxed);
        best
    }

    /// # Safety
    /// The lines that the range touches are mapped.
    pub unsafe fn flush(from: *mut u8, len: usize) {
        let best = match BEST.load(Ordering::Relaxed) {
            UNKNOWN => detect(),
            b => b,
        };
        let end = from as usize + len;
        let mut line = from as usize & !63;
        while line < end {
            // SAFETY: the line is mapped, and the processor has the instruction; no memory is changed.
            unsafe {
                match best {
                    CLWB => asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)),
                    CLFLUSHOPT => asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags)),
                    _ => asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags)),
                }
            }
            line += 64;
        }
    }
    #[inline]
    pub fn fence() {
        // SAFETY: every x86-64 processor has it.
        #[allow(unused_unsafe)]
        unsafe {
            _mm_sfence()
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
use portable as store;
/// Elsewhere: ordinary stores and a full fence. `Promise::Fence` is never given there, so that durability
/// does not rest on it.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    use std::sync::atomic::{Ordering, fence as barrier};

    /// # Safety
    /// `to` has room for `bytes` in memory that Rust holds no reference to.
    pub unsafe fn copy(mut to: *mut u8, mut bytes: &[u8]) {
        let head = to.align_offset(8).min(bytes.len());
        // SAFETY: all stores stay within the caller's range: `bytes` shrinks as `to` moves on.
        unsafe {
            for b in &bytes[..head] {
                to.write_volatile(*b);
                to = to.add(1);
            }
            bytes = &bytes[head..];
            let (words, tail) = bytes.as_chunks::<8>();
            for w in words {
                to.cast::<u64>().write_volatile(u64::from_ne_bytes(*w));
                to = to.add(8);
            }
            for b in tail {
                to.write_volatile(*b);
                to = to.add(1);
            }
        }
    }
    /// # Safety
    /// None needed here; the signature is that of the other architecture.
    pub unsafe fn flush(_from: *mut u8, _len: usize) {
        barrier(Ordering::SeqCst)
    }
    pub fn fence() {
        barrier(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_stores_copy_at_every_alignment() {
        let source: Vec<u8> = (1..=100).collect();
        for at in 0..20 {
            for len in 0..80 {
                for portable in [false, true] {
                    let mut to = [0u64; 16];
                    let base = to.as_mut_ptr().cast::<u8>();
                    // SAFETY: at most 100 of the 128 bytes of `to`, which nothing borrows meanwhile.
                    unsafe {
                        if portable {
                            portable::copy(base.add(at), &source[..len]);
                            portable::flush(base.add(at), len);
                            portable::fence();
                        } else {
                            store::copy(base.add(at), &source[..len]);
                            store::flush(base.add(at), len);
                            store::fence();
                        }
                    }
                    let bytes: Vec<u8> = to.iter().flat_map(|w| w.to_ne_bytes()).collect();
                    assert_eq!(bytes[at..at + len], source[..len]);
                    assert!(bytes[..at].iter().chain(&bytes[at + len..]).all(|b| *b == 0));
                }
            }
        }
    }
}
