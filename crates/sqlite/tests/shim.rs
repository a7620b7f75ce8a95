//! Another VFS above "ondol", and the VFS's functions called by an application: names that SQLite did not give.
#![allow(unsafe_code)] // SQLite's C interface.
mod common;
use rusqlite::ffi;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};

static BELOW: AtomicPtr<ffi::sqlite3_vfs> = AtomicPtr::new(std::ptr::null_mut());
/// WALs that were opened by a name of the shim's own.
static RENAMED: AtomicUsize = AtomicUsize::new(0);

/// A copy of a name, which the file below may keep.
unsafe fn own(name: *const c_char) -> *const c_char {
    // SAFETY: a name is a text.
    let copy = unsafe { CStr::from_ptr(name) }.to_owned();
    CString::into_raw(copy)
}

unsafe extern "C" fn open(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let below = BELOW.load(SeqCst);
    // SAFETY: handed through, in memory of the size that the VFS below asks for.
    unsafe {
        let name = if flags & ffi::SQLITE_OPEN_WAL != 0 {
            RENAMED.fetch_add(1, SeqCst);
            own(name)
        } else {
            name
        };
        (*below).xOpen.expect("a method")(below, name, file, flags, out)
    }
}
unsafe extern "C" fn delete(_: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    let below = BELOW.load(SeqCst);
    // SAFETY: handed through.
    unsafe { (*below).xDelete.expect("a method")(below, own(name), sync) }
}
unsafe extern "C" fn access(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let below = BELOW.load(SeqCst);
    // SAFETY: handed through.
    unsafe { (*below).xAccess.expect("a method")(below, own(name), flags, out) }
}

fn ondol() -> *mut ffi::sqlite3_vfs {
    common::register();
    // SAFETY: a name; a VFS stays registered.
    let found = unsafe { ffi::sqlite3_vfs_find(c"ondol".as_ptr()) };
    assert!(!found.is_null());
    found
}

/// Registers a VFS "shim" that gives WALs names of its own.
fn shim() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let below = ondol();
        BELOW.store(below, SeqCst);
        // SAFETY: a plain structure, copied; the copy stays for as long as the program.
        let mut shim = unsafe { std::ptr::read(below) };
        shim.zName = c"shim".as_ptr();
        shim.pNext = std::ptr::null_mut();
        shim.xOpen = Some(open);
        shim.xDelete = Some(delete);
        shim.xAccess = Some(access);
        // SAFETY: as above.
        let code = unsafe { ffi::sqlite3_vfs_register(Box::into_raw(Box::new(shim)), 0) };
        assert_eq!(code, ffi::SQLITE_OK);
    });
}

fn names(folder: &Path) -> Vec<String> {
    let all = std::fs::read_dir(folder).expect("a folder");
    all.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_vfs_above_may_give_names_of_its_own() {
    shim();
    let folder = common::folder();
    for mode in ["remap", "copy", "auto", "pmem"] {
        let path = folder.path().join(mode);
        let parameters = &format!("vfs=shim&ondol={mode}");
        // Two databases and three connections of one thread, in turns, and another thread.
        let other = folder.path().join(format!("{mode}2"));
        let open = |path: &Path| {
            let c = common::open(path, parameters).expect("a database");
            c.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE IF NOT EXISTS t(b)").expect("a table");
            c
        };
        let before = RENAMED.load(SeqCst);
        let all = [open(&path), open(&other), open(&path)];
        // Other tests of this program open WALs too.
        assert!(RENAMED.load(SeqCst) >= before + 3, "{mode}");
        let layout = if mode == "remap" { [2, 3] } else { [2, 2] };
        assert_eq!((common::versions(&path), common::versions(&other)), (layout, layout), "{mode}");
        for c in &all {
            c.execute("INSERT INTO t VALUES(1)", []).expect("a row");
        }
        let path_there = path.clone();
        std::thread::scope(|scope| {
            let open = &open;
            scope.spawn(move || open(&path_there).execute("INSERT INTO t VALUES(2)", []).expect("a row"));
        });
        drop(all);
        for (path, sum) in [(&path, 4), (&other, 1)] {
            let stock = common::open(path, "vfs=unix").expect("a stock file");
            assert_eq!(stock.query_row("SELECT sum(b) FROM t", [], |r| r.get(0)), Ok(sum), "{mode}");
            drop(stock);
            std::fs::remove_file(path).expect("a database");
        }
        assert_eq!(names(folder.path()), Vec::<String>::new(), "{mode}: the WALs are gone");
    }
}

/// In exclusive locking mode SQLite opens the WAL without a look at the database, on whatever thread.
#[test]
fn nobody_gets_anothers_wal() {
    shim();
    let folder = common::folder();
    let path = folder.path().join("a.db");
    let c = common::open(&path, "vfs=shim&ondol=remap").expect("a database");
    c.execute_batch("PRAGMA locking_mode=EXCLUSIVE; CREATE TABLE t(b); PRAGMA journal_mode=WAL")
        .expect("a table");
    let there = std::thread::scope(|scope| {
        let path = &path;
        scope
            .spawn(move || {
                let late = common::open(path, "vfs=shim&ondol=remap").expect("a connection");
                assert!(late.query_row("SELECT count(*) FROM t", [], |_| Ok(())).is_err(), "it is locked");
                let done = c.execute("INSERT INTO t VALUES(1)", []);
                (c, done)
            })
            .join()
            .expect("a thread")
    });
    drop(there);
    let stock = common::open(&path, "vfs=unix").expect("a stock file");
    let rows: i64 = stock.query_row("SELECT count(*) FROM t", [], |r| r.get(0)).expect("rows");
    assert!(rows <= 1);
    assert_eq!(stock.query_row("PRAGMA integrity_check", [], |r| r.get(0)), Ok("ok".to_string()));
}

#[test]
fn who_deletes_a_databases_files_deletes_ours_too() {
    let vfs = ondol();
    let folder = common::folder();
    let path = folder.path().join("a.db");
    let delete = |suffix: &str| {
        let name = CString::new(format!("{}{suffix}", path.display())).expect("a name");
        // SAFETY: a VFS's method, with a path.
        unsafe { (*vfs).xDelete.expect("a method")(vfs, name.as_ptr(), 0) }
    };
    for suffix in ["", "-owal"] {
        std::fs::write(format!("{}{suffix}", path.display()), "x").expect("a file");
    }
    // While the database is there its WAL stays.
    assert_eq!(delete("-wal"), ffi::SQLITE_IOERR_DELETE_NOENT);
    assert_eq!(names(folder.path()).len(), 2);
    assert_eq!(delete(""), ffi::SQLITE_OK);
    assert_eq!(delete("-wal"), ffi::SQLITE_IOERR_DELETE_NOENT, "as of a WAL that is not there");
    assert_eq!(names(folder.path()), Vec::<String>::new());
}
