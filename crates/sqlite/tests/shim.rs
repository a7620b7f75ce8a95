//! Another VFS above "ondol", and the VFS's functions called by an application: names that SQLite did not
//! give.
#![allow(unsafe_code)] // SQLite's C interface.
mod common;
use rusqlite::ffi;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::Mutex;
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

/// What SQLite's error log was told.
static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());

unsafe extern "C" fn hear(_: *mut c_void, _: c_int, message: *const c_char) {
    // SAFETY: a message is a text.
    let message = unsafe { CStr::from_ptr(message) };
    LOG.lock().expect("a log").push(message.to_string_lossy().into_owned());
}

fn ondol() -> *mut ffi::sqlite3_vfs {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let hear: unsafe extern "C" fn(*mut c_void, c_int, *const c_char) = hear;
        // SAFETY: SQLite is not in use yet; the function takes what this option's does.
        let code =
            unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_LOG, hear, std::ptr::null_mut::<c_void>()) };
        assert_eq!(code, ffi::SQLITE_OK);
        common::register();
    });
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
                c.execute("INSERT INTO t VALUES(1)", []).expect("a row");
                c
            })
            .join()
            .expect("a thread")
    });
    drop(there);
    let stock = common::open(&path, "vfs=unix").expect("a stock file");
    let rows: i64 = stock.query_row("SELECT count(*) FROM t", [], |r| r.get(0)).expect("rows");
    assert_eq!(rows, 1);
    assert_eq!(stock.query_row("PRAGMA integrity_check", [], |r| r.get(0)), Ok("ok".to_string()));
}

/// A thread that has used neither of two connections, both of which may be about to open their WAL.
#[test]
fn a_wal_that_two_may_mean_is_nobodys() {
    let vfs = ondol();
    let folder = common::folder();
    let path = folder.path().join("two.db");
    let open = || common::open(&path, "vfs=ondol&ondol=remap").expect("a database");
    let all = [open(), open()];
    all[0].execute_batch("CREATE TABLE t(b); INSERT INTO t VALUES(1)").expect("a table");
    for c in &all {
        // Locked until the transaction's end, and without a WAL.
        c.execute_batch("BEGIN; SELECT b FROM t").expect("a transaction");
    }
    let open_as_a_stranger = |path: &Path| {
        let name = CString::new(format!("{}-wal", path.display())).expect("a name");
        std::thread::scope(|scope| {
            let name = &name;
            let vfs = AtomicPtr::new(vfs);
            let opened = scope.spawn(move || {
                let vfs = vfs.load(SeqCst);
                // SAFETY: the VFS says how large a file is.
                let mut file = vec![0u64; unsafe { (*vfs).szOsFile } as usize / 8 + 1];
                let flags = ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE | ffi::SQLITE_OPEN_WAL;
                // SAFETY: a VFS's method, with memory for a file and a path that outlives it.
                unsafe {
                    (*vfs).xOpen.expect("a method")(
                        vfs,
                        name.as_ptr(),
                        file.as_mut_ptr().cast(),
                        flags,
                        std::ptr::null_mut(),
                    )
                }
            });
            opened.join().expect("a thread")
        })
    };
    assert_eq!(open_as_a_stranger(&path), ffi::SQLITE_CANTOPEN);
    let heard = |what: &str| LOG.lock().expect("a log").iter().any(|line| line.contains(what));
    assert!(heard("two.db-wal") && heard("several connections may open this WAL"));
    drop(all);
    assert_eq!(open_as_a_stranger(&folder.path().join("none.db")), ffi::SQLITE_CANTOPEN);
    assert!(heard("none.db-wal") && heard("no open database that is locked"));
    assert_eq!(names(folder.path()), ["two.db"]);
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
