//! A reserved range of addresses, backed by memory only where it is touched.
//!
//! - **R1** `base .. base + len` is one private anonymous mapping from the making to the drop. Where it is
//!   long enough, `base` is aligned to 2 MiB, so that huge pages fit.
//! - **R2** Bytes read as zero until written, and again once discarded.
use std::io;

/// `len` bytes of address space; pages read as zero until written.
pub struct Reserve {
    base: *mut u8,
    len: usize,
}
// SAFETY: the range is plain memory; users of the pointer answer for their accesses.
unsafe impl Send for Reserve {}
// SAFETY: as above.
unsafe impl Sync for Reserve {}

/// The kernel's page, the unit of giving memory back.
const PAGE: usize = 4096;
/// A huge page.
const HUGE: usize = 2 << 20;

impl Reserve {
    pub fn new(len: usize) -> io::Result<Reserve> {
        let failed = |e: io::Error| {
            io::Error::new(e.kind(), format!("cannot reserve {len} bytes of address space: {e}"))
        };
        let whole = len.checked_next_multiple_of(PAGE).filter(|w| *w != 0);
        let extra = if len >= HUGE { HUGE - PAGE } else { 0 };
        let Some((whole, asked)) = whole.and_then(|w| Some((w, w.checked_add(extra)?))) else {
            return Err(failed(io::ErrorKind::InvalidInput.into()));
        };
        // SAFETY: a fresh anonymous private mapping at an address that the kernel chooses.
        let p = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                asked,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if p == libc::MAP_FAILED {
            return Err(failed(io::Error::last_os_error()));
        }
        let p = p.cast::<u8>();
        let before = if extra == 0 { 0 } else { p.align_offset(HUGE) };
        let after = asked - before - whole;
        // SAFETY: parts at both ends of our own new mapping, which nobody has seen yet; `before` is at most
        // `extra`, because mappings begin at pages.
        unsafe {
            if before != 0 {
                libc::munmap(p.cast(), before);
            }
            if after != 0 {
                libc::munmap(p.add(before + whole).cast(), after);
            }
            Ok(Reserve { base: p.add(before), len })
        }
    }
    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.base
    }
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    #[track_caller]
    fn check(&self, offset: usize, len: usize) {
        let end = offset.checked_add(len);
        assert!(end.is_some_and(|e| e <= self.len), "{len} bytes at {offset} of a reserve of {}", self.len);
    }
    /// Asks for huge pages in a part of the range. Advice: a kernel without them goes on without.
    pub fn huge(&self, offset: usize, len: usize) {
        self.check(offset, len);
        let from = offset.next_multiple_of(PAGE);
        let to = (offset + len) & !(PAGE - 1);
        if from < to {
            // SAFETY: within our own mapping (R1); advice only.
            unsafe { libc::madvise(self.base.add(from).cast(), to - from, libc::MADV_HUGEPAGE) };
        }
    }
    /// Gives a part back; it reads as zero again.
    ///
    /// # Safety
    /// Nobody may hold a reference into the part, and what is stored there is lost.
    pub unsafe fn discard(&self, offset: usize, len: usize) {
        self.check(offset, len);
        let end = offset + len;
        let from = offset.next_multiple_of(PAGE).min(end);
        let to = (end & !(PAGE - 1)).max(from);
        // SAFETY: all within our own mapping (R1), and the caller vouches for the content. Only whole pages
        // can be given back; the ends, and pages that the kernel will not take (locked ones), are zeroed
        // (R2).
        unsafe {
            if to > from && libc::madvise(self.base.add(from).cast(), to - from, libc::MADV_DONTNEED) != 0 {
                std::ptr::write_bytes(self.base.add(from), 0, to - from);
            }
            std::ptr::write_bytes(self.base.add(offset), 0, from - offset);
            std::ptr::write_bytes(self.base.add(to), 0, end - to);
        }
    }
}
impl Drop for Reserve {
    fn drop(&mut self) {
        // SAFETY: our own mapping (R1), unmapped once; the kernel rounds up as `new` did.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

/// The machine's memory in bytes, or what the process's control group leaves of it.
pub fn physical_memory() -> Option<usize> {
    let number = |text: String| text.split_whitespace().find_map(|w| w.parse::<usize>().ok());
    let all = std::fs::read_to_string("/proc/meminfo").ok().and_then(number)?.checked_mul(1024)?;
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(number);
    Some(group.map_or(all, |g| g.min(all)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(r: &Reserve, i: usize) -> u8 {
        assert!(i < r.len());
        // SAFETY: within the range, and the test alone uses it.
        unsafe { r.base().add(i).read() }
    }
    fn fill(r: &Reserve) {
        // SAFETY: the whole range, which the test alone uses.
        unsafe { r.base().write_bytes(7, r.len()) }
    }

    #[test]
    fn reads_zero_until_written_and_once_discarded() {
        for len in [1, 4096, 3 << 20, (2 << 20) + 5] {
            let r = Reserve::new(len).unwrap();
            assert_eq!(r.len(), len);
            assert!(len < HUGE || (r.base() as usize).is_multiple_of(HUGE));
            assert_eq!((at(&r, 0), at(&r, len - 1)), (0, 0));
            r.huge(0, len);
            fill(&r);
            assert_eq!(at(&r, len - 1), 7);
            for (offset, part) in
                [(0, len), (len / 3, len / 2), (len / 3, 0), (len - 1, 1), (len / 2, len / 4)]
            {
                fill(&r);
                // SAFETY: the test holds no reference into it.
                unsafe { r.discard(offset, part) };
                for i in (0..len).filter(|i| len < 5000 || i % 61 == 0 || i.abs_diff(offset) < 3) {
                    let inside = (offset..offset + part).contains(&i);
                    assert_eq!(
                        at(&r, i),
                        if inside { 0 } else { 7 },
                        "{i} after {part} at {offset} of {len}"
                    );
                }
            }
        }
    }

    #[test]
    fn large_ranges_cost_nothing_and_impossible_ones_are_errors() {
        let r = Reserve::new(1 << 40).unwrap();
        // SAFETY: one byte within the range.
        unsafe { r.base().add((1 << 40) - 1).write(3) };
        assert_eq!(at(&r, (1 << 40) - 1), 3);
        for len in [0, usize::MAX, 1 << 60] {
            let e = Reserve::new(len).err().unwrap();
            assert!(e.to_string().contains(&len.to_string()), "{e}");
        }
    }

    #[test]
    #[should_panic(expected = "of a reserve of 8192")]
    fn parts_outside_are_refused() {
        Reserve::new(8192).unwrap().huge(usize::MAX, 2);
    }
}
