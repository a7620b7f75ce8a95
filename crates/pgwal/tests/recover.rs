//! Recovery's refusals, the mark, and segments that it makes, on real files: a folder that looks like a data
//! directory.
use ondol_ring::file::{self, Mapping, OWNED, Owner};
use ondol_ring::{Files, HEADER, Memory, Ring, Segment};
use pgwal::cluster::{Cluster, boot};
use pgwal::mark::{KEPT, Marked, mark, marked, set_words, words};
use std::ffi::CString;
use std::fs;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::{Command, Output};

const SIZE: u64 = 1 << 20;
const PAGE: usize = 8192;
const NAMES: [&str; 2] = ["000000010000000000000001", "000000010000000000000002"];

struct Place {
    folder: tempfile::TempDir,
}
impl Place {
    /// A data directory with two segments, and a ring that is named `ring`.
    fn new() -> Place {
        let place = Place { folder: tempfile::tempdir().expect("a folder") };
        for folder in ["data/global", "data/pg_wal"] {
            fs::create_dir_all(place.path(folder)).expect("a folder");
        }
        fs::write(place.path("data/PG_VERSION"), "15\n").expect("a file");
        fs::write(place.path("data/global/pg_control"), 77u64.to_ne_bytes()).expect("a file");
        for name in NAMES {
            fs::write(place.segment(name), vec![0; SIZE as usize]).expect("a file");
        }
        place.init("ring");
        place
    }
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn segment(&self, name: &str) -> PathBuf {
        self.path("data/pg_wal").join(name)
    }
    fn ours(&self, arguments: &[&str]) -> Output {
        let mut c = Command::new(env!("CARGO_BIN_EXE_ondol-pgwal"));
        c.current_dir(self.folder.path()).args(arguments).output().expect("the command runs")
    }
    fn does(&self, arguments: &[&str]) {
        let out = self.ours(arguments);
        assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
    fn refuses(&self, arguments: &[&str], why: &str) {
        let out = self.ours(arguments);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && said.contains(why), "{arguments:?}: {said}");
    }
    fn init(&self, ring: &str) {
        self.does(&[
            "init",
            "--ring",
            ring,
            "--size",
            "1MB",
            "--pgdata",
            "data",
            "--promise",
            "server-crash",
        ]);
    }
    fn version(&self) -> String {
        fs::read_to_string(self.path("data/PG_VERSION")).expect("a version")
    }
    fn open(&self, ring: &str) -> (Ring<Mapping>, Cluster, Owner) {
        let file = fs::File::options().read(true).write(true).open(self.path(ring)).expect("the ring");
        let mut header = [0; OWNED];
        file::read_at(file.as_raw_fd(), &mut header, 0).expect("a header");
        let owner = Owner::decode(&header).expect("a header");
        let memory = Mapping::new(file.as_raw_fd(), owner.len as usize).expect("a mapping");
        let cluster = Cluster::of(&owner).expect("folders").expect("its own");
        (Ring::new(memory, owner.len as usize).expect("long enough"), cluster, owner)
    }
    /// Pages that only the ring has, as a server leaves them: marked, with what recovery needs to know.
    fn written(&self, ring: &str, pages: &[(&str, u64)]) {
        let (ring, cluster, owner) = self.open(ring);
        let [a, b] = boot();
        set_words(ring.memory(), &[(words::SIZE, SIZE), (words::BOOT[0], a), (words::BOOT[1], b)]);
        mark(&cluster, owner.id, ring.memory()).expect("marked");
        let held = ring.enter(&cluster).expect("the lock");
        for (name, page) in pages {
            let path = CString::new(self.segment(name).as_os_str().as_bytes()).expect("a path");
            let fd = file::open_at(libc::AT_FDCWD, &path, libc::O_RDONLY, 0).expect("a segment");
            let segment =
                Segment::named(name.as_bytes(), file::found(fd).expect("its inode").0).expect("a name");
            file::close(fd);
            let byte = b'a' + *page as u8;
            held.append(segment, page * PAGE as u64, PAGE, |_, to| to.fill(byte)).expect("room");
        }
    }
    fn page(&self, name: &str, page: usize) -> u8 {
        let all = fs::read(self.segment(name)).expect("a segment");
        assert_eq!(all.len() as u64, SIZE, "{name}");
        let bytes = &all[page * PAGE..][..PAGE];
        assert!(bytes.iter().all(|b| *b == bytes[0]));
        bytes[0]
    }
}

#[test]
fn entries_come_home_and_the_mark_goes() {
    let place = Place::new();
    place.written("ring", &[(NAMES[0], 3), (NAMES[0], 4), (NAMES[1], 0)]);
    assert!(place.version().starts_with("0-WAL-is-in-ring-"), "{}", place.version());
    place.refuses(
        &["init", "--ring", "other", "--size", "1MB", "--pgdata", "data", "--promise", "server-crash"],
        "must be recovered first",
    );
    place.does(&["recover", "--ring", "ring"]);
    assert_eq!([place.page(NAMES[0], 3), place.page(NAMES[0], 4), place.page(NAMES[1], 0)], *b"dea");
    assert_eq!(place.version(), "15\n");
    let (ring, ..) = place.open("ring");
    assert_eq!(ring.memory().word(words::MARKED), 0);
    assert_eq!(ring.survey(|_, _| Ok(())).expect("whole").entries, 0);
}

#[test]
fn another_ring_neither_serves_nor_takes_the_mark_away() {
    let place = Place::new();
    place.init("older");
    place.written("ring", &[(NAMES[0], 3)]);
    place.refuses(&["recover", "--ring", "older"], "in another ring");
    let (older, cluster, owner) = place.open("older");
    assert_eq!(mark(&cluster, owner.id, older.memory()), Err(libc::EBUSY));
    assert!(matches!(marked(&cluster), Ok(Marked::By(_))));
    place.does(&["recover", "--ring", "ring"]);
    assert_eq!(place.page(NAMES[0], 3), b'd');
    place.does(&["recover", "--ring", "older"]);
}

#[test]
fn entries_without_a_mark_are_old() {
    let place = Place::new();
    place.written("ring", &[(NAMES[0], 3)]);
    fs::copy(place.path("data").join(KEPT.to_str().expect("UTF-8")), place.path("data/PG_VERSION"))
        .expect("a copy");
    place.refuses(&["recover", "--ring", "ring"], "went on without the ring");
    assert_eq!(place.page(NAMES[0], 3), 0);
    // Only told, then done.
    let told = place.ours(&["discard", "--ring", "ring"]);
    let said = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(!told.status.success() && said.contains("1 writes, 8192 bytes"), "{said}");
    assert!(place.path("ring").exists());
    place.does(&["discard", "--ring", "ring", "--lose-acknowledged-commits", "yes"]);
    assert!(!place.path("ring").exists());
}

#[test]
fn a_lesser_ring_is_not_replayed_after_the_system_was_started() {
    let place = Place::new();
    place.written("ring", &[(NAMES[0], 3)]);
    let (ring, ..) = place.open("ring");
    set_words(ring.memory(), &[(words::BOOT[0], 1)]);
    place.refuses(&["recover", "--ring", "ring"], "not for power failures");
    place.does(&["recover", "--ring", "ring", "--rebooted", "yes"]);
    assert_eq!(place.page(NAMES[0], 3), b'd');
}

/// Of a ring in a file of a disk, power leaves blocks of any age.
#[test]
fn a_lesser_ring_is_empty_after_a_stop_in_order_whatever_power_leaves_of_it() {
    let place = Place::new();
    place.written("ring", &[(NAMES[0], 3), (NAMES[0], 4), (NAMES[0], 5)]);
    let used = fs::read(place.path("ring")).expect("the ring");
    place.does(&["recover", "--ring", "ring"]);
    let mut left = fs::read(place.path("ring")).expect("the ring");
    left[HEADER..].copy_from_slice(&used[HEADER..]);
    fs::write(place.path("ring"), left).expect("the ring");
    let (ring, ..) = place.open("ring");
    set_words(ring.memory(), &[(words::BOOT[0], 1)]);
    place.does(&["recover", "--ring", "ring"]);
    assert_eq!(ring.survey(|_, _| Ok(())).expect("whole").entries, 0);
    // It did not end in order: that is told, not what the blocks look like.
    place.written("ring", &[(NAMES[0], 3), (NAMES[0], 4)]);
    set_words(ring.memory(), &[(words::BOOT[0], 1)]);
    ring.memory().copy(HEADER + 64, &[9; 64]);
    place.refuses(
        &["recover", "--ring", "ring"],
        "with entries that are not whole) is not for power failures",
    );
}

#[test]
fn zeros_at_the_end_of_a_page_are_brought_home() {
    let place = Place::new();
    fs::write(place.segment(NAMES[0]), vec![b'x'; SIZE as usize]).expect("an old segment");
    place.written("ring", &[]);
    let (ring, cluster, _) = place.open("ring");
    let inode = std::os::unix::fs::MetadataExt::ino(&fs::metadata(place.segment(NAMES[0])).expect("it"));
    let segment = Segment::named(NAMES[0].as_bytes(), inode).expect("a name");
    let held = ring.enter(&cluster).expect("the lock");
    let page = |at: usize, to: &mut [u8]| {
        to.fill(0);
        // Two pages: of the first a part, of the second nothing.
        if at == 0 {
            to[..1000].fill(b'a')
        }
    };
    held.append(segment, 2 * PAGE as u64, 2 * PAGE, page).expect("room");
    drop(held);
    place.does(&["recover", "--ring", "ring"]);
    let all = fs::read(place.segment(NAMES[0])).expect("a segment");
    assert!(all[2 * PAGE..][..1000].iter().all(|b| *b == b'a'));
    assert!(all[2 * PAGE + 1000..4 * PAGE].iter().all(|b| *b == 0));
    assert!(all[..2 * PAGE].iter().chain(&all[4 * PAGE..]).all(|b| *b == b'x'));
}

#[test]
fn a_missing_segment_is_made_only_where_the_ring_has_all_of_it() {
    let place = Place::new();
    place.written("ring", &[(NAMES[0], 9), (NAMES[1], 0), (NAMES[1], 1), (NAMES[1], 0)]);
    fs::remove_file(place.segment(NAMES[1])).expect("removed");
    place.does(&["recover", "--ring", "ring"]);
    assert_eq!([place.page(NAMES[1], 0), place.page(NAMES[1], 1), place.page(NAMES[1], 2)], [b'a', b'b', 0]);
    // Not from its beginning; then with a gap.
    for pages in [[1, 2], [0, 2]] {
        let place = Place::new();
        place.written("ring", &pages.map(|p| (NAMES[1], p)));
        fs::remove_file(place.segment(NAMES[1])).expect("removed");
        place.refuses(&["recover", "--ring", "ring"], "it is missing");
        assert!(!place.segment(NAMES[1]).exists());
        assert!(place.version().starts_with("0-WAL"));
    }
    // Another file of that name.
    let place = Place::new();
    place.written("ring", &[(NAMES[1], 0)]);
    fs::rename(place.segment(NAMES[1]), place.path("kept")).expect("renamed");
    fs::copy(place.path("kept"), place.segment(NAMES[1])).expect("a copy");
    place.refuses(&["recover", "--ring", "ring"], "another file");
}

/// A crash after the segment got its name and before the ring is empty: the next recovery finds a file with
/// another inode.
#[test]
fn a_made_segment_is_known_again() {
    let place = Place::new();
    place.written("ring", &[(NAMES[1], 0), (NAMES[1], 1)]);
    let whole = fs::read(place.path("ring")).expect("the ring");
    let gone = place.segment(NAMES[1]);
    // Kept open by another name, so that its inode is not given to the new one.
    fs::hard_link(&gone, place.path("kept")).expect("a link");
    fs::remove_file(&gone).expect("removed");
    place.does(&["recover", "--ring", "ring"]);
    // The ring as it was, but for what recovery noted of the file that it made.
    let new = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&gone).expect("made"));
    let old = std::os::unix::fs::MetadataExt::ino(&fs::metadata(place.path("kept")).expect("kept"));
    fs::write(place.path("ring"), whole).expect("the ring");
    let (ring, cluster, owner) = place.open("ring");
    mark(&cluster, owner.id, ring.memory()).expect("marked");
    place.refuses(&["recover", "--ring", "ring"], "another file");
    set_words(ring.memory(), &[(words::MADE, old), (words::MADE + 8, new)]);
    place.does(&["recover", "--ring", "ring"]);
    assert_eq!([place.page(NAMES[1], 0), place.page(NAMES[1], 1)], *b"ab");
}

/// A part of a file is synced, to the disk, by a call that is made for mapped memory: the system counts what
/// it wrote.
#[test]
fn a_part_of_a_file_is_synced() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().join("file");
    fs::write(&path, vec![0; 1 << 20]).expect("a file");
    let f = fs::File::options().read(true).write(true).open(&path).expect("a file");
    f.sync_all().expect("synced");
    let dirty = |range: Range<u64>| -> Option<u64> {
        // cachestat(2), Linux 6.5: pages in the cache, dirty, being written, evicted, recently evicted.
        let mut stat = [0u64; 5];
        let asked = [range.start, range.end - range.start];
        const CACHESTAT: libc::c_long = 451;
        // SAFETY: both structures have the size that the call names.
        #[allow(unsafe_code)]
        let done = unsafe { libc::syscall(CACHESTAT, f.as_raw_fd(), &asked, &mut stat, 0) };
        (done == 0).then_some(stat[1] + stat[2])
    };
    std::os::unix::fs::FileExt::write_all_at(&f, &vec![7; 1 << 20], 0).expect("written");
    if dirty(0..1 << 20) != Some(256) {
        eprintln!("the system does not count dirty pages here: not tried");
        return;
    }
    file::sync_part(f.as_raw_fd(), 256 << 10..512 << 10).expect("synced");
    assert_eq!(dirty(256 << 10..512 << 10), Some(0));
    // Through a descriptor that cannot write, it would do nothing, and must say so.
    let reader = fs::File::open(&path).expect("a file");
    assert_eq!(file::sync_part(reader.as_raw_fd(), 512 << 10..1 << 20), Err(libc::EACCES));
}

/// A descriptor speaks for what was written after it was opened, whatever the segment is named.
#[test]
fn a_held_segment_speaks_for_what_came_later() {
    let place = Place::new();
    let (_, cluster, _) = place.open("ring");
    let (inode, ..) =
        file::found(fs::File::open(place.segment(NAMES[0])).expect("a segment").as_raw_fd()).expect("found");
    let segment = Segment::named(NAMES[0].as_bytes(), inode).expect("a name");
    assert_eq!(cluster.sync(&segment, 0..PAGE as u64, 10), Ok(false), "nothing is held");
    let (fd, held) = cluster.named(&segment).expect("opened");
    assert!(held == inode && cluster.holds.keep(inode, fd, 10));
    assert_eq!([9, 10].map(|first| cluster.sync(&segment, 0..PAGE as u64, first)), [Ok(false), Ok(true)]);
    fs::rename(place.segment(NAMES[0]), place.segment(NAMES[1])).expect("renamed");
    assert_eq!(cluster.sync(&segment, 0..PAGE as u64, 10), Ok(true));
}
