//! The number of a segment's descriptor becomes another file's: whose writes and syncs are its own
//! (preload/S4).
//!
//! The library serves programs named `postgres`, so this test runs a copy of itself under that name.
#[path = "common/built.rs"]
mod built;

use ondol_ring::file::{Mapping, Owner};
use ondol_ring::{HEADER, Ring, SLOT, Status};
use pgwal::cluster::Cluster;
use std::ffi::CString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PLACE: &str = "ONDOL_TEST_PLACE";
const SEGMENT: &str = "data/pg_wal/000000010000000000000001";
const PAGE: usize = 8192;

/// What the copy does, in the folder that the environment names.
#[test]
fn the_copy() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else {
        return;
    };
    let segment = || File::options().write(true).open(place.join(SEGMENT)).expect("the segment");
    // Under a number that never was a segment's.
    let table = File::options().write(true).open(place.join("table")).expect("the table");
    let first = segment();
    for page in 0..2 {
        first.write_all_at(&[7; PAGE], page * PAGE as u64).expect("written");
        first.sync_data().expect("spared");
    }
    let number = first.as_raw_fd();
    drop(first);
    // Past the library, which sees only that the segment's was closed.
    let path = CString::new(place.join("table").as_os_str().as_bytes()).expect("a path");
    // SAFETY: both texts end with a zero, the stream is closed once.
    #[allow(unsafe_code)]
    unsafe {
        let stream = libc::fopen(path.as_ptr(), c"r+".as_ptr());
        assert!(!stream.is_null() && libc::fileno(stream) == number, "another number");
        assert_eq!(libc::pwrite(number, [8u8; PAGE].as_ptr().cast(), PAGE, 0), PAGE as isize);
        assert_eq!(libc::fdatasync(number), 0);
        assert_eq!(libc::fclose(stream), 0);
    }
    // A copy of another descriptor takes the number.
    let third = segment();
    third.write_all_at(&[9; PAGE], 0).expect("written");
    // SAFETY: no memory is passed.
    #[allow(unsafe_code)]
    unsafe {
        assert_eq!(libc::dup2(table.as_raw_fd(), third.as_raw_fd()), third.as_raw_fd())
    };
    third.write_all_at(&[10; PAGE], PAGE as u64).expect("written");
    third.sync_data().expect("synced");
}

fn owner(data: &Path, len: u64) -> Owner {
    let path = CString::new(data.as_os_str().as_bytes()).expect("a path");
    let (cluster, id, wal) = Cluster::open(&path).expect("the folders");
    let system = cluster.system().expect("a number");
    Owner::new(5, false, len, system, id, wal, path.as_bytes()).expect("a short path")
}

#[test]
fn another_file_under_a_segments_number_is_not_served() {
    let test = std::env::current_exe().expect("a test");
    let library = built::library(test.parent().and_then(|d| d.parent()).expect("a profile's folder"));
    // Beside the library: where root's tests run, others may not look into its folders.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let place = folder.path();
    for name in ["data/global", "data/pg_wal"] {
        fs::create_dir_all(place.join(name)).expect("a folder");
    }
    fs::write(place.join("data/PG_VERSION"), "15\n").expect("a file");
    fs::write(place.join("data/global/pg_control"), 77u64.to_ne_bytes()).expect("a file");
    for name in [SEGMENT, "table"] {
        fs::write(place.join(name), vec![0; 4 * PAGE]).expect("a file");
    }
    let len = HEADER + 64 * SLOT;
    fs::write(place.join("ring"), vec![0; len]).expect("a file");
    let file = File::options().read(true).write(true).open(place.join("ring")).expect("the ring");
    let ring = Ring::new(Mapping::new(file.as_raw_fd(), len).expect("mapped"), len).expect("long enough");
    ring.format();
    file.write_all_at(&owner(&place.join("data"), len as u64).encode(), 0).expect("a header");
    fs::copy(&test, place.join("postgres")).expect("a copy");
    let out = Command::new(place.join("postgres"))
        .args(["--exact", "the_copy", "--nocapture", "--test-threads=1"])
        .env(PLACE, place)
        .env("ONDOL_PGWAL_RING", place.join("ring"))
        .env("LD_PRELOAD", library)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && !said.contains("ondol pgwal"), "{said}");
    let Status { live, spared, bytes, .. } = ring.status();
    assert_eq!((live, spared, bytes), (3, 2, 3 * PAGE as u64), "writes and syncs of segments alone");
    assert_eq!(fs::read(place.join("table")).expect("the table")[..PAGE], [8; PAGE]);
}
