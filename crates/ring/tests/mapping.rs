//! The ring's memory as the system maps it.
use ondol_ring::file::Mapping;
use ondol_ring::{HEADER, Memory};
use std::os::fd::AsRawFd;

/// The lines of the process's map of memory that name the file: where each begins and ends.
fn mapped(name: &str) -> Vec<(usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the map");
    let number = |text: &str| usize::from_str_radix(text, 16).expect("an address");
    let places = maps.lines().filter(|l| l.ends_with(name)).map(|l| {
        let (from, to) = l.split(' ').next().and_then(|l| l.split_once('-')).expect("a place");
        (number(from), number(to))
    });
    places.collect()
}

#[test]
fn a_mapping_begins_where_large_pages_fit_and_goes_as_a_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ring");
    // Three large pages and a part of one.
    let len = (6 << 20) + 4096 + 100;
    std::fs::write(&path, vec![0; len]).expect("a file");
    let file = std::fs::File::options().read(true).write(true).open(&path).expect("the file");
    let name = path.to_str().expect("a path");
    let all = std::fs::read_to_string("/proc/self/maps").expect("the map").lines().count();
    {
        let memory = Mapping::new(file.as_raw_fd(), len).expect("a mapping");
        let [(from, to)] = mapped(name)[..] else { panic!("mapped once") };
        assert!(from % (2 << 20) == 0 && to - from == (6 << 20) + 8192, "{from:x} {to:x}");
        memory.enlarge_pages();
        // One who writes alone has the pages asked for.
        for at in (HEADER..len - 8192).step_by(8192) {
            memory.near(at, 8192);
            memory.copy(at, &[(at >> 13) as u8 | 1; 8192]);
        }
        memory.set(1024, 7);
        memory.fence();
        memory.settle().expect("on the disk");
        assert_eq!(memory.word(1024), 7);
    }
    assert!(mapped(name).is_empty());
    assert_eq!(std::fs::read_to_string("/proc/self/maps").expect("the map").lines().count(), all);
    let bytes = std::fs::read(&path).expect("the file");
    assert!(
        (HEADER..len - 8192).step_by(8192).all(|at| bytes[at..at + 8192] == [(at >> 13) as u8 | 1; 8192])
    );
}

/// A disk that takes a millisecond for each entry that a sync frees, and a clock of its own.
struct Slow(std::cell::Cell<u64>, std::cell::Cell<u64>);
impl ondol_ring::Files for Slow {
    fn sync(&self, _: &ondol_ring::Segment, part: std::ops::Range<u64>) -> Result<bool, i32> {
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
