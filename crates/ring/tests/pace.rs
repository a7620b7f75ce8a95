//! How writers are held back where freeing is slow.
use ondol_ring::HEADER;
use ondol_ring::file::Mapping;
use std::os::fd::AsRawFd;

/// A disk that takes a millisecond for each entry that a sync frees, and a clock of its own.
struct Slow(std::cell::Cell<u64>, std::cell::Cell<u64>);
impl ondol_ring::Files for Slow {
    fn sync(&self, _: &ondol_ring::Segment, part: std::ops::Range<u64>, _: u64) -> Result<bool, i32> {
        self.0.set(self.0.get() + (part.end - part.start) / 8192 * 1_000_000);
        Ok(true)
    }
    fn sync_all(&self) -> Result<(), i32> {
        Ok(())
    }
    fn myself(&self) -> u64 {
        1
    }
    fn is_dead(&self, _: u64) -> bool {
        false
    }
    fn wait(&self, ns: u64) {
        self.1.set(ns)
    }
    fn now(&self) -> u64 {
        self.0.get()
    }
}

#[test]
fn a_writer_is_held_back_from_half_of_the_ring_on_as_long_as_freeing_takes() {
    let slots = 64;
    let len = HEADER + slots * 8256;
    let file = tempfile::tempfile().expect("a file");
    file.set_len(len as u64).expect("room");
    let memory = Mapping::new(file.as_raw_fd(), len).expect("a mapping");
    let ring = ondol_ring::Ring::new(memory, len).expect("a ring");
    ring.format();
    let disk = Slow(Default::default(), Default::default());
    let segment = ondol_ring::Segment { timeline: 1, log: 0, part: 1, inode: 7 };
    let write = |at: u64| {
        let held = ring.enter(&disk).expect("alone");
        held.append(segment, at * 8192, 8192, |_, to| to.fill(1)).expect("room");
        drop(held);
        disk.1.set(0);
        ring.pace(&disk, 8192);
        disk.1.get()
    };
    // It does not yet know what freeing takes.
    assert_eq!((0..48).map(write).sum::<u64>(), 0);
    for _ in 0..20 {
        ring.drain(&disk).expect("synced");
        assert_eq!((0..32).map(write).sum::<u64>(), 0, "up to half of it");
    }
    let waits: Vec<u64> = (0..32).map(write).collect();
    assert!(waits.is_sorted() && waits[0] > 0, "{waits:?}");
    // At three quarters: as long as it takes.
    assert!(waits[15].abs_diff(1_000_000) < 100_000, "{waits:?}");
    assert!(waits[31].abs_diff(2_000_000) < 200_000, "{waits:?}");
}
