//! A bare hash table: what a point read costs when there is nothing but memory. It is the limit that an
//! engine is measured against.
//!
//! - **B1** Open addressing over a power of two, at most half full; an entry is a key and the row's number.
//! - **B2** Rows lie in an array of 72 bytes each: the 71 raw bytes, and one that keeps them aligned to
//!   words.
//! - **B3** Both lie on huge pages where the system gives them, as the engine's memory does: otherwise the
//!   limit would be that of the TLB.
#![allow(unsafe_code)] // A prefetch instruction and advice about memory, which have no safe form.
use crate::customers::{Customer, RAW_BYTES};
use crate::random::mix;

type Raw = [u8; RAW_BYTES as usize];

#[repr(C, align(8))]
#[derive(Clone)]
struct Slot(Raw);

pub struct Bare {
    rows: Vec<Slot>,
    by_service: Entries,
    by_mgmt: Entries,
}

/// Which of the two keys.
#[derive(Clone, Copy)]
pub enum By {
    Service,
    Mgmt,
}

struct Entries {
    /// (key, row number + 1); 0 is empty.
    entries: Vec<(u64, u64)>,
    mask: u64,
}

impl Entries {
    fn new(rows: u64) -> Entries {
        let size = (rows * 2).next_power_of_two().max(2);
        let mut entries = Vec::with_capacity(size as usize);
        huge_pages(entries.spare_capacity_mut());
        entries.resize(size as usize, (0, 0));
        Entries { entries, mask: size - 1 }
    }
    fn insert(&mut self, key: u64, row: u64) {
        let mut at = mix(key) & self.mask;
        while self.entries[at as usize].1 != 0 {
            at = (at + 1) & self.mask;
        }
        self.entries[at as usize] = (key, row + 1);
    }
    #[inline]
    fn find(&self, key: u64) -> Option<usize> {
        let mut at = mix(key) & self.mask;
        loop {
            let (k, row) = self.entries[at as usize];
            if row == 0 {
                return None;
            }
            if k == key {
                return Some(row as usize - 1);
            }
            at = (at + 1) & self.mask;
        }
    }
}

#[inline]
fn prefetch<T>(at: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the address is that of a live reference, and a prefetch changes nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(at).cast())
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Asks for huge pages under memory that was not touched yet (B3).
fn huge_pages<T>(memory: &mut [std::mem::MaybeUninit<T>]) {
    const PAGE: usize = 4096;
    let range = memory.as_mut_ptr_range();
    let (from, to) = ((range.start as usize).next_multiple_of(PAGE), range.end as usize / PAGE * PAGE);
    if from < to {
        // SAFETY: advice changes no content, and the range is of whole pages within the memory that we hold.
        unsafe { libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_HUGEPAGE) };
    }
}

/// Lookups whose cache misses overlap.
const BATCH: usize = 50;

impl Bare {
    pub fn new(rows: u64) -> Bare {
        let (mut by_service, mut by_mgmt) = (Entries::new(rows), Entries::new(rows));
        let mut slots = Vec::with_capacity(rows as usize);
        huge_pages(slots.spare_capacity_mut());
        for i in 0..rows {
            let c = Customer::new(i, rows);
            slots.push(Slot(c.pack()));
            by_service.insert(c.service_num as u64, i);
            by_mgmt.insert(c.service_mgmt_num as u64, i);
        }
        Bare { rows: slots, by_service, by_mgmt }
    }
    fn entries(&self, by: By) -> &Entries {
        match by {
            By::Service => &self.by_service,
            By::Mgmt => &self.by_mgmt,
        }
    }
    #[inline]
    fn copy(&self, entries: &Entries, key: u64) -> Raw {
        entries.find(key).map_or([0; RAW_BYTES as usize], |i| self.rows[i].0)
    }

    /// Each lookup waits for the row before it, as a program does that follows references.
    pub fn dependent(&self, by: By, keys: &[u64]) -> u64 {
        let entries = self.entries(by);
        let (mut sum, mut before) = (0u64, 0u64);
        for k in keys {
            // The counter is always 0 here, but only memory knows.
            let c = Customer::unpack(&self.copy(entries, k.wrapping_add(before)));
            before = c.counter as u64;
            sum = sum.wrapping_add(c.checksum());
        }
        sum
    }
    /// The processor may begin the next lookup before this one ends.
    pub fn independent(&self, by: By, keys: &[u64]) -> u64 {
        let entries = self.entries(by);
        keys.iter().map(|k| Customer::unpack(&self.copy(entries, *k)).checksum()).fold(0, u64::wrapping_add)
    }
    /// Batches of 50: all entries are asked for, then all rows, then they are read.
    pub fn prefetched(&self, by: By, keys: &[u64]) -> u64 {
        let entries = self.entries(by);
        let mut sum = 0u64;
        let mut found = [0usize; BATCH];
        for batch in keys.chunks(BATCH) {
            for k in batch {
                prefetch(&entries.entries[(mix(*k) & entries.mask) as usize]);
            }
            for (k, f) in batch.iter().zip(&mut found) {
                *f = entries.find(*k).unwrap_or(usize::MAX);
                if let Some(slot) = self.rows.get(*f) {
                    prefetch(&slot.0[0]);
                    prefetch(&slot.0[70]);
                }
            }
            for f in &found[..batch.len()] {
                let raw = self.rows.get(*f).map_or([0; RAW_BYTES as usize], |s| s.0);
                sum = sum.wrapping_add(Customer::unpack(&raw).checksum());
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::customers::{service_mgmt_num, service_num};

    #[test]
    fn the_three_ways_read_the_same() {
        let rows = 5000;
        let b = Bare::new(rows);
        let expected = (0..777).map(|i| Customer::new(i * 5, rows).checksum()).fold(0, u64::wrapping_add);
        let service: Vec<u64> = (0..777).map(|i| service_num(i * 5) as u64).collect();
        let mgmt: Vec<u64> = (0..777).map(|i| service_mgmt_num(i * 5) as u64).collect();
        for (by, keys) in [(By::Service, service), (By::Mgmt, mgmt)] {
            assert_eq!(b.dependent(by, &keys), expected);
            assert_eq!(b.independent(by, &keys), expected);
            assert_eq!(b.prefetched(by, &keys), expected);
        }
    }
}
