//! The part of SQLite's C interface that a VFS needs: structures by layout, functions by their place in the
//! table that SQLite hands to an extension. SQLite promises to keep both ("sqlite3.h", "sqlite3ext.h");
//! `tests/abi.rs` compares the structures with bindings made from the header, and every test that loads the
//! extension calls through the table.
use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

pub const OK: c_int = 0;
pub const ERROR: c_int = 1;
pub const NOMEM: c_int = 7;
pub const IOERR: c_int = 10;
pub const NOTFOUND: c_int = 12;
pub const CANTOPEN: c_int = 14;
pub const ROW: c_int = 100;
pub const NOTICE: c_int = 27;
pub const WARNING: c_int = 28;
pub const OK_LOAD_PERMANENTLY: c_int = 1 << 8;
pub const IOERR_SHORT_READ: c_int = IOERR | 2 << 8;
pub const IOERR_WRITE: c_int = IOERR | 3 << 8;
pub const IOERR_FSYNC: c_int = IOERR | 4 << 8;
pub const IOERR_DELETE: c_int = IOERR | 10 << 8;

pub const OPEN_READONLY: c_int = 0x1;
pub const OPEN_READWRITE: c_int = 0x2;
pub const OPEN_CREATE: c_int = 0x4;
pub const OPEN_MAIN_DB: c_int = 0x100;
pub const OPEN_MAIN_JOURNAL: c_int = 0x800;
pub const OPEN_WAL: c_int = 0x80000;

pub const ACCESS_EXISTS: c_int = 0;

pub const LOCK_SHARED: c_int = 1;
pub const LOCK_RESERVED: c_int = 2;
pub const LOCK_EXCLUSIVE: c_int = 4;

pub const SHM_UNLOCK: c_int = 1;
pub const SHM_EXCLUSIVE: c_int = 8;

pub const SYNC_NORMAL: c_int = 2;

pub const IOCAP_POWERSAFE_OVERWRITE: c_int = 0x1000;

pub const FCNTL_SIZE_HINT: c_int = 5;
pub const FCNTL_FILE_POINTER: c_int = 7;
pub const FCNTL_VFSNAME: c_int = 12;
pub const FCNTL_PRAGMA: c_int = 14;
pub const FCNTL_HAS_MOVED: c_int = 20;
pub const FCNTL_COMMIT_PHASETWO: c_int = 22;
pub const FCNTL_CKPT_DONE: c_int = 37;
pub const FCNTL_CKPT_START: c_int = 39;

/// `sqlite3_file`: what follows the pointer is the VFS's own.
#[repr(C)]
pub struct File {
    pub methods: *const Methods,
}

/// `sqlite3_io_methods`, version 3.
#[repr(C)]
pub struct Methods {
    pub version: c_int,
    pub close: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub read: Option<unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int>,
    pub write: Option<unsafe extern "C" fn(*mut File, *const c_void, c_int, i64) -> c_int>,
    pub truncate: Option<unsafe extern "C" fn(*mut File, i64) -> c_int>,
    pub sync: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub file_size: Option<unsafe extern "C" fn(*mut File, *mut i64) -> c_int>,
    pub lock: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub unlock: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub check_reserved_lock: Option<unsafe extern "C" fn(*mut File, *mut c_int) -> c_int>,
    pub file_control: Option<unsafe extern "C" fn(*mut File, c_int, *mut c_void) -> c_int>,
    pub sector_size: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub device_characteristics: Option<unsafe extern "C" fn(*mut File) -> c_int>,
    pub shm_map: Option<unsafe extern "C" fn(*mut File, c_int, c_int, c_int, *mut *mut c_void) -> c_int>,
    pub shm_lock: Option<unsafe extern "C" fn(*mut File, c_int, c_int, c_int) -> c_int>,
    pub shm_barrier: Option<unsafe extern "C" fn(*mut File)>,
    pub shm_unmap: Option<unsafe extern "C" fn(*mut File, c_int) -> c_int>,
    pub fetch: Option<unsafe extern "C" fn(*mut File, i64, c_int, *mut *mut c_void) -> c_int>,
    pub unfetch: Option<unsafe extern "C" fn(*mut File, i64, *mut c_void) -> c_int>,
}

pub type Symbol = Option<unsafe extern "C" fn()>;

/// `sqlite3_vfs`, version 3.
#[repr(C)]
pub struct Vfs {
    pub version: c_int,
    pub os_file_size: c_int,
    pub max_path: c_int,
    pub next: *mut Vfs,
    pub name: *const c_char,
    pub app_data: *mut c_void,
    pub open: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int>,
    pub delete: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int>,
    pub access: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int>,
    pub full_path: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_char) -> c_int>,
    pub dl_open: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void>,
    pub dl_error: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char)>,
    pub dl_sym: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> Symbol>,
    pub dl_close: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void)>,
    pub randomness: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int>,
    pub sleep: Option<unsafe extern "C" fn(*mut Vfs, c_int) -> c_int>,
    pub current_time: Option<unsafe extern "C" fn(*mut Vfs, *mut f64) -> c_int>,
    pub last_error: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int>,
    pub current_time_i64: Option<unsafe extern "C" fn(*mut Vfs, *mut i64) -> c_int>,
    pub set_system_call: Option<unsafe extern "C" fn(*mut Vfs, *const c_char, Symbol) -> c_int>,
    pub get_system_call: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> Symbol>,
    pub next_system_call: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> *const c_char>,
}

/// `sqlite3_vtab`.
#[repr(C)]
#[derive(Debug)]
pub struct VirtualTable {
    pub module: *const Module,
    pub references: c_int,
    pub message: *mut c_char,
}
impl Default for VirtualTable {
    fn default() -> VirtualTable {
        VirtualTable { module: std::ptr::null(), references: 0, message: std::ptr::null_mut() }
    }
}

/// `sqlite3_vtab_cursor`.
#[repr(C)]
#[derive(Debug)]
pub struct Cursor {
    pub table: *mut VirtualTable,
}
impl Default for Cursor {
    fn default() -> Cursor {
        Cursor { table: std::ptr::null_mut() }
    }
}

/// `sqlite3_context`: SQLite's own.
#[repr(C)]
pub struct Context {
    _opaque: [u8; 0],
}

pub type Connect = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    c_int,
    *const *const c_char,
    *mut *mut VirtualTable,
    *mut *mut c_char,
) -> c_int;

/// `sqlite3_module`, version 0.
#[repr(C)]
pub struct Module {
    pub version: c_int,
    pub create: Option<Connect>,
    pub connect: Option<Connect>,
    pub best_index: Option<unsafe extern "C" fn(*mut VirtualTable, *mut c_void) -> c_int>,
    pub disconnect: Option<unsafe extern "C" fn(*mut VirtualTable) -> c_int>,
    pub destroy: Option<unsafe extern "C" fn(*mut VirtualTable) -> c_int>,
    pub open: Option<unsafe extern "C" fn(*mut VirtualTable, *mut *mut Cursor) -> c_int>,
    pub close: Option<unsafe extern "C" fn(*mut Cursor) -> c_int>,
    pub filter:
        Option<unsafe extern "C" fn(*mut Cursor, c_int, *const c_char, c_int, *mut *mut c_void) -> c_int>,
    pub next: Option<unsafe extern "C" fn(*mut Cursor) -> c_int>,
    pub eof: Option<unsafe extern "C" fn(*mut Cursor) -> c_int>,
    pub column: Option<unsafe extern "C" fn(*mut Cursor, *mut Context, c_int) -> c_int>,
    pub rowid: Option<unsafe extern "C" fn(*mut Cursor, *mut i64) -> c_int>,
    /// xUpdate, xBegin, xSync, xCommit, xRollback, xFindFunction, xRename.
    pub rest: [Symbol; 7],
}

/// An extension's entry point.
pub type Entry = unsafe extern "C" fn(*mut c_void, *mut *mut c_char, *const *const c_void) -> c_int;

/// The functions of SQLite that are called, taken from `sqlite3_api_routines`.
pub struct Api {
    table: usize,
    malloc64: unsafe extern "C" fn(u64) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    log: unsafe extern "C" fn(c_int, *const c_char, ...),
    uri_parameter: unsafe extern "C" fn(*const c_char, *const c_char) -> *const c_char,
    filename_journal: unsafe extern "C" fn(*const c_char) -> *const c_char,
    filename_wal: unsafe extern "C" fn(*const c_char) -> *const c_char,
    pub vfs_find: unsafe extern "C" fn(*const c_char) -> *mut Vfs,
    pub vfs_register: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    pub auto_extension: unsafe extern "C" fn(Entry) -> c_int,
    pub create_module: unsafe extern "C" fn(*mut c_void, *const c_char, *const Module, *mut c_void) -> c_int,
    pub declare_vtab: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    pub prepare: unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        c_int,
        *mut *mut c_void,
        *mut *const c_char,
    ) -> c_int,
    pub step: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub column_text: unsafe extern "C" fn(*mut c_void, c_int) -> *const c_char,
    pub finalize: unsafe extern "C" fn(*mut c_void) -> c_int,
    pub file_control: unsafe extern "C" fn(*mut c_void, *const c_char, c_int, *mut c_void) -> c_int,
    result_text: unsafe extern "C" fn(*mut Context, *const c_char, c_int, isize),
    pub result_int64: unsafe extern "C" fn(*mut Context, i64),
    pub result_double: unsafe extern "C" fn(*mut Context, f64),
}

/// The first version whose table reaches to `sqlite3_filename_wal`.
pub const OLDEST: c_int = 3_032_000;

static API: OnceLock<Api> = OnceLock::new();

/// Places in the table, counted from 0.
mod place {
    pub const COLUMN_TEXT: usize = 36;
    pub const CREATE_MODULE: usize = 47;
    pub const DECLARE_VTAB: usize = 50;
    pub const FINALIZE: usize = 57;
    pub const FREE: usize = 58;
    pub const LIBVERSION_NUMBER: usize = 67;
    pub const MALLOC: usize = 68;
    pub const RESULT_DOUBLE: usize = 79;
    pub const RESULT_INT64: usize = 83;
    pub const RESULT_TEXT: usize = 85;
    pub const STEP: usize = 94;
    pub const PREPARE_V2: usize = 116;
    pub const FILE_CONTROL: usize = 127;
    pub const VFS_FIND: usize = 141;
    pub const VFS_REGISTER: usize = 142;
    pub const LOG: usize = 167;
    pub const URI_PARAMETER: usize = 189;
    pub const AUTO_EXTENSION: usize = 192;
    pub const MALLOC64: usize = 197;
    pub const FILENAME_JOURNAL: usize = 247;
    pub const FILENAME_WAL: usize = 248;
}

/// Takes the table over; the message says why it cannot be used.
///
/// # Safety
/// `table` is the third argument of an extension's entry point.
pub unsafe fn adopt(table: *const *const c_void) -> Result<(), &'static str> {
    if table.is_null() {
        return Err("SQLite gave no table of its functions");
    }
    // SAFETY: every version has this entry, and its type never changed.
    let version = unsafe {
        std::mem::transmute::<*const c_void, unsafe extern "C" fn() -> c_int>(
            *table.add(place::LIBVERSION_NUMBER),
        )()
    };
    if version < OLDEST {
        return Err("this SQLite is older than 3.32.0");
    }
    /// The function at a place of the table.
    ///
    /// # Safety
    /// The table reaches so far, and `F` is the type of the function there.
    unsafe fn at<F: Copy>(table: *const *const c_void, place: usize) -> F {
        const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
        // SAFETY: as above: a function pointer, read as one.
        unsafe { table.add(place).cast::<F>().read() }
    }
    // SAFETY: from `OLDEST` on the table holds these entries, with the types that the fields of `Api` have
    // ("sqlite3ext.h").
    let api = API.get_or_init(|| unsafe {
        Api {
            table: table as usize,
            malloc64: at(table, place::MALLOC64),
            free: at(table, place::FREE),
            log: at(table, place::LOG),
            uri_parameter: at(table, place::URI_PARAMETER),
            filename_journal: at(table, place::FILENAME_JOURNAL),
            filename_wal: at(table, place::FILENAME_WAL),
            vfs_find: at(table, place::VFS_FIND),
            vfs_register: at(table, place::VFS_REGISTER),
            auto_extension: at(table, place::AUTO_EXTENSION),
            create_module: at(table, place::CREATE_MODULE),
            declare_vtab: at(table, place::DECLARE_VTAB),
            prepare: at(table, place::PREPARE_V2),
            step: at(table, place::STEP),
            column_text: at(table, place::COLUMN_TEXT),
            finalize: at(table, place::FINALIZE),
            file_control: at(table, place::FILE_CONTROL),
            result_text: at(table, place::RESULT_TEXT),
            result_int64: at(table, place::RESULT_INT64),
            result_double: at(table, place::RESULT_DOUBLE),
        }
    });
    if api.table != table as usize {
        return Err("another copy of SQLite in this process has loaded this library already");
    }
    Ok(())
}

/// A copy of a text that the SQLite of this table will free; null when there is no memory.
///
/// # Safety
/// `table` is the third argument of an extension's entry point, of any version.
pub unsafe fn message(table: *const *const c_void, text: &str) -> *mut c_char {
    // SAFETY: every version has this entry, and its type never changed.
    unsafe {
        let malloc = std::mem::transmute::<*const c_void, unsafe extern "C" fn(c_int) -> *mut c_void>(
            *table.add(place::MALLOC),
        );
        copy(malloc(text.len() as c_int + 1), text)
    }
}

/// # Safety
/// `memory` is null or has room for the text and a zero, and is not shared yet.
unsafe fn copy(memory: *mut c_void, text: &str) -> *mut c_char {
    let to = memory.cast::<u8>();
    if !to.is_null() {
        // SAFETY: as above.
        unsafe {
            to.copy_from_nonoverlapping(text.as_ptr(), text.len());
            to.add(text.len()).write(0);
        }
    }
    to.cast()
}

/// The functions; there once the entry point has run, so whenever SQLite calls back.
pub fn api() -> &'static Api {
    API.get().expect("the entry point has run before any method")
}

impl Api {
    /// Writes a line to SQLite's error log (`SQLITE_CONFIG_LOG`).
    pub fn log(&self, code: c_int, message: &str) {
        let Ok(text) = std::ffi::CString::new(message.replace('\0', " ")) else { return };
        // SAFETY: the format takes one string, which ends with a zero.
        unsafe { (self.log)(code, c"%s".as_ptr(), text.as_ptr()) }
    }
    /// A copy that SQLite will free; null when there is no memory.
    pub fn string(&self, text: &str) -> *mut c_char {
        // SAFETY: fresh memory of that size.
        unsafe { copy((self.malloc64)(text.len() as u64 + 1), text) }
    }
    /// # Safety
    /// `memory` came from SQLite's allocator and is used no more.
    pub unsafe fn free(&self, memory: *mut c_void) {
        // SAFETY: as above.
        unsafe { (self.free)(memory) }
    }
    /// Gives a text as a column's value.
    ///
    /// # Safety
    /// SQLite's context, in its call.
    pub unsafe fn result_text(&self, context: *mut Context, text: &str) {
        /// SQLite copies the text.
        const TRANSIENT: isize = -1;
        // SAFETY: as above; the text is as long as is said.
        unsafe { (self.result_text)(context, text.as_ptr().cast(), text.len() as c_int, TRANSIENT) }
    }
    /// A parameter of a database's URI.
    ///
    /// # Safety
    /// `name` was handed to `xOpen` for a main database.
    pub unsafe fn parameter(&self, name: *const c_char, key: &std::ffi::CStr) -> Option<String> {
        // SAFETY: as above; the answer lives as long as the name.
        unsafe {
            let value = (self.uri_parameter)(name, key.as_ptr());
            (!value.is_null()).then(|| std::ffi::CStr::from_ptr(value).to_string_lossy().into_owned())
        }
    }
    /// The very string that this connection will name its rollback journal by.
    ///
    /// # Safety
    /// `name` was handed to `xOpen` for a main database.
    pub unsafe fn journal_name(&self, name: *const c_char) -> *const c_char {
        // SAFETY: as above.
        unsafe { (self.filename_journal)(name) }
    }
    /// The very string that this connection will name its WAL by.
    ///
    /// # Safety
    /// `name` was handed to `xOpen` for a main database.
    pub unsafe fn wal_name(&self, name: *const c_char) -> *const c_char {
        // SAFETY: as above.
        unsafe { (self.filename_wal)(name) }
    }
}
