//! What the tests share: the VFS in the bundled SQLite, folders, chance.
#![allow(unsafe_code)] // SQLite's interface for extensions.
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::Ordering::Relaxed;

/// Registers the VFS in the SQLite of this program, through the interface that a loaded extension has.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        type Entry = unsafe extern "C" fn(
            *mut rusqlite::ffi::sqlite3,
            *mut *mut std::ffi::c_char,
            *const rusqlite::ffi::sqlite3_api_routines,
        ) -> std::ffi::c_int;
        unsafe extern "C" fn entry(
            db: *mut rusqlite::ffi::sqlite3,
            message: *mut *mut std::ffi::c_char,
            table: *const rusqlite::ffi::sqlite3_api_routines,
        ) -> std::ffi::c_int {
            // SAFETY: SQLite's own arguments.
            let code = unsafe { ondol_sqlite::sqlite3_extension_init(db.cast(), message, table.cast()) };
            assert_eq!(code, ondol_sqlite::ffi::OK_LOAD_PERMANENTLY);
            0
        }
        // SAFETY: the function has the type of an entry point and lives as long as the program.
        unsafe { rusqlite::ffi::sqlite3_auto_extension(Some(entry as Entry)) };
        drop(Connection::open_in_memory().expect("a connection"));
        // SAFETY: as above.
        unsafe { rusqlite::ffi::sqlite3_cancel_auto_extension(Some(entry as Entry)) };
        // Where nothing else is said, the file system shares no blocks: let it pretend.
        ondol_sqlite::sharing::PRETEND.store(std::env::var_os("ONDOL_SQLITE_DIR").is_none(), Relaxed);
    });
}

/// A folder for files: in `ONDOL_SQLITE_DIR`, where that is set (a file system that shares blocks), else in
/// memory, where a sync costs nothing.
pub fn folder() -> tempfile::TempDir {
    match std::env::var_os("ONDOL_SQLITE_DIR") {
        Some(dir) => tempfile::tempdir_in(dir),
        None if Path::new("/dev/shm").is_dir() => tempfile::tempdir_in("/dev/shm"),
        None => tempfile::tempdir(),
    }
    .expect("a folder")
}

pub fn open(path: &Path, parameters: &str) -> rusqlite::Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_URI;
    let c = Connection::open_with_flags(format!("file:{}?{parameters}", path.display()), flags)?;
    c.busy_timeout(std::time::Duration::ZERO)?;
    Ok(c)
}

/// Bytes 18 and 19 of a database.
#[allow(dead_code)] // Not every test that shares this module asks.
pub fn versions(path: &Path) -> [u8; 2] {
    let bytes = std::fs::read(path).expect("a database");
    [bytes[18], bytes[19]]
}

/// splitmix64.
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    #[allow(dead_code)] // Not every test that shares this module chooses.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
