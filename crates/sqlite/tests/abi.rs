//! Our C structures against bindings made from SQLite's own header.
use ondol_sqlite::ffi;
use rusqlite::ffi as sqlite;
use std::mem::{align_of, offset_of, size_of};

#[test]
fn structures_lie_as_sqlites() {
    assert_eq!(size_of::<ffi::Vfs>(), size_of::<sqlite::sqlite3_vfs>());
    assert_eq!(align_of::<ffi::Vfs>(), align_of::<sqlite::sqlite3_vfs>());
    assert_eq!(size_of::<ffi::Methods>(), size_of::<sqlite::sqlite3_io_methods>());
    assert_eq!(size_of::<ffi::VirtualTable>(), size_of::<sqlite::sqlite3_vtab>());
    assert_eq!(size_of::<ffi::Cursor>(), size_of::<sqlite::sqlite3_vtab_cursor>());
    assert_eq!(size_of::<ffi::File>(), size_of::<sqlite::sqlite3_file>());
    macro_rules! same {
        ($ours:ty, $theirs:ty; $($a:ident $b:ident),*) => {
            $(assert_eq!(offset_of!($ours, $a), offset_of!($theirs, $b), stringify!($b));)*
        };
    }
    same!(ffi::Vfs, sqlite::sqlite3_vfs;
        version iVersion, os_file_size szOsFile, max_path mxPathname, next pNext, name zName, app_data pAppData,
        open xOpen, delete xDelete, access xAccess, full_path xFullPathname, dl_open xDlOpen, dl_error xDlError,
        dl_sym xDlSym, dl_close xDlClose, randomness xRandomness, sleep xSleep, current_time xCurrentTime,
        last_error xGetLastError, current_time_i64 xCurrentTimeInt64, set_system_call xSetSystemCall,
        get_system_call xGetSystemCall, next_system_call xNextSystemCall);
    same!(ffi::Methods, sqlite::sqlite3_io_methods;
        version iVersion, close xClose, read xRead, write xWrite, truncate xTruncate, sync xSync,
        file_size xFileSize, lock xLock, unlock xUnlock, check_reserved_lock xCheckReservedLock,
        file_control xFileControl, sector_size xSectorSize, device_characteristics xDeviceCharacteristics,
        shm_map xShmMap, shm_lock xShmLock, shm_barrier xShmBarrier, shm_unmap xShmUnmap, fetch xFetch,
        unfetch xUnfetch);
    same!(ffi::Module, sqlite::sqlite3_module;
        version iVersion, create xCreate, connect xConnect, best_index xBestIndex, disconnect xDisconnect,
        destroy xDestroy, open xOpen, close xClose, filter xFilter, next xNext, eof xEof, column xColumn,
        rowid xRowid, rest xUpdate);
    same!(ffi::VirtualTable, sqlite::sqlite3_vtab; module pModule, references nRef, message zErrMsg);
}

#[test]
fn numbers_are_sqlites() {
    for (ours, theirs) in [
        (ffi::OK_LOAD_PERMANENTLY, sqlite::SQLITE_OK_LOAD_PERMANENTLY),
        (ffi::IOERR_SHORT_READ, sqlite::SQLITE_IOERR_SHORT_READ),
        (ffi::IOERR_FSYNC, sqlite::SQLITE_IOERR_FSYNC),
        (ffi::IOERR_DELETE, sqlite::SQLITE_IOERR_DELETE),
        (ffi::CANTOPEN, sqlite::SQLITE_CANTOPEN),
        (ffi::NOTFOUND, sqlite::SQLITE_NOTFOUND),
        (ffi::NOMEM, sqlite::SQLITE_NOMEM),
        (ffi::NOTICE, sqlite::SQLITE_NOTICE),
        (ffi::OPEN_MAIN_DB, sqlite::SQLITE_OPEN_MAIN_DB),
        (ffi::OPEN_WAL, sqlite::SQLITE_OPEN_WAL),
        (ffi::LOCK_SHARED, sqlite::SQLITE_LOCK_SHARED),
        (ffi::LOCK_EXCLUSIVE, sqlite::SQLITE_LOCK_EXCLUSIVE),
        (ffi::IOCAP_POWERSAFE_OVERWRITE, sqlite::SQLITE_IOCAP_POWERSAFE_OVERWRITE),
        (ffi::ROW, sqlite::SQLITE_ROW),
        (ffi::FCNTL_FILE_POINTER, sqlite::SQLITE_FCNTL_FILE_POINTER),
        (ffi::FCNTL_VFSNAME, sqlite::SQLITE_FCNTL_VFSNAME),
        (ffi::FCNTL_PRAGMA, sqlite::SQLITE_FCNTL_PRAGMA),
        (ffi::FCNTL_HAS_MOVED, sqlite::SQLITE_FCNTL_HAS_MOVED),
        (ffi::FCNTL_COMMIT_PHASETWO, sqlite::SQLITE_FCNTL_COMMIT_PHASETWO),
        (ffi::FCNTL_CKPT_START, sqlite::SQLITE_FCNTL_CKPT_START),
        (ffi::FCNTL_CKPT_DONE, sqlite::SQLITE_FCNTL_CKPT_DONE),
    ] {
        assert_eq!(ours, theirs);
    }
}
