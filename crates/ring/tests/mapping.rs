//! The ring's memory as the system maps it. One test alone in its process, since it counts what is mapped
//! there.
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
