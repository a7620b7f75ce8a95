//! The VFS "ondol": SQLite's `unix`, with databases and their WALs wrapped and everything else handed
//! through.
//!
//! - **V1** A main database's file holds a [`Database`], a WAL's a [`Wal`], a mapped database's rollback
//!   journal a [`Journal`]; any other file is opened by `unix` in the memory that SQLite gave, and is
//!   `unix`'s from then on.
//! - **V2** SQLite names a connection's WAL by one string from the opening of its database to the closing;
//!   the address of that string leads from the WAL's name to the database. A VFS above ours may hand down a
//!   string of its own. A WAL is then opened for the only database of this name that is locked and has no WAL
//!   open; where several are, for the one of them that this thread has used last; else it is an error. What
//!   is looked for or deleted is the WAL of the database that this thread has used last, if it is locked and
//!   the name is its WAL's. SQLite does all this under a lock on the database, in a call that has just used
//!   the database's file, or, in exclusive locking mode, on whatever thread, while nobody else can have a
//!   lock there.
//! - **V3** No panic leaves a method: it is logged and becomes an error.
//! - **V4** No memory mapping of databases (methods of version 2, without xFetch): mapped bytes would show
//!   the mark.
use crate::below::{self, report};
use crate::database::{Database, Wal};
use crate::ffi::{self, File, Methods, Symbol, Vfs, api};
use crate::journal::Journal;
use crate::settings::Settings;
use crate::status::{Facts, json};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// What stands in the memory that SQLite gives for a database or a WAL.
#[repr(C)]
struct Handle {
    methods: *const Methods,
    state: *mut c_void,
}

/// V2: from a WAL name's address to its `Database`.
static DATABASES: LazyLock<Mutex<HashMap<usize, usize>>> = LazyLock::new(Mutex::default);
/// The same from a rollback journal's name, for databases that are mapped.
static JOURNALED: LazyLock<Mutex<HashMap<usize, usize>>> = LazyLock::new(Mutex::default);
/// The VFS below, and ours.
static BELOW: AtomicPtr<Vfs> = AtomicPtr::new(std::ptr::null_mut());
static OURS: AtomicPtr<Vfs> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    /// V2: the address of the `Database` that this thread has used last.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

fn databases() -> MutexGuard<'static, HashMap<usize, usize>> {
    DATABASES.lock().unwrap_or_else(PoisonError::into_inner)
}
fn journaled() -> MutexGuard<'static, HashMap<usize, usize>> {
    JOURNALED.lock().unwrap_or_else(PoisonError::into_inner)
}
/// V2, for rollback journals.
fn database_with_journal(journal_name: *const c_char) -> Option<*mut Database> {
    journaled().get(&(journal_name as usize)).map(|at| *at as *mut Database)
}
fn below() -> *mut Vfs {
    BELOW.load(Ordering::Acquire)
}
/// V2.
fn database_of(wal_name: *const c_char) -> Option<*mut Database> {
    let all = databases();
    if let Some(at) = all.get(&(wal_name as usize)) {
        return Some(*at as *mut Database);
    }
    let last = LAST.get();
    // SAFETY: a name is a text.
    let names_a_wal =
        !wal_name.is_null() && unsafe { CStr::from_ptr(wal_name) }.to_bytes().ends_with(b"-wal");
    if !names_a_wal || !all.values().any(|at| *at == last) {
        return None;
    }
    let database = last as *mut Database;
    // SAFETY: a name is a text; the database is there for as long as `all` is held, and what is looked at any
    // thread may.
    unsafe { (*database).may_mean(CStr::from_ptr(wal_name)) }.then_some(database)
}

/// V2: the database that opens its WAL by this name, or why none can be told.
fn database_opening(wal_name: *const c_char) -> Result<*mut Database, &'static str> {
    let all = databases();
    if let Some(at) = all.get(&(wal_name as usize)) {
        return Ok(*at as *mut Database);
    }
    // SAFETY: a name is a text.
    let name = unsafe { CStr::from_ptr(wal_name) };
    // SAFETY: a database is there for as long as `all` is held, and what is looked at any thread may.
    let waiting = |at: &&usize| unsafe { (*(**at as *mut Database)).may_open(name) };
    let found: Vec<usize> = all.values().filter(waiting).copied().collect();
    match found[..] {
        [] => Err(
            "no open database that is locked and has no WAL yet has this one: a VFS above ondol must keep the names of files",
        ),
        [only] => Ok(only as *mut Database),
        _ if found.contains(&LAST.get()) => Ok(LAST.get() as *mut Database),
        _ => Err(
            "several connections may open this WAL, and this thread has used none of them last: a VFS above ondol must hand names through in the thread that it is called in",
        ),
    }
}

/// V3.
pub fn guard(otherwise: c_int, act: impl FnOnce() -> c_int) -> c_int {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        api().log(otherwise, &format!("ondol: internal error: {text}"));
        otherwise
    })
}

/// Registers the VFS, once; the error is a text for the user.
pub fn register() -> Result<(), String> {
    static ONCE: Mutex<()> = Mutex::new(());
    let _once = ONCE.lock().unwrap_or_else(PoisonError::into_inner);
    if !OURS.load(Ordering::Acquire).is_null() {
        return Ok(());
    }
    // SAFETY: the name is a text; a found VFS stays registered.
    let unix = unsafe { (api().vfs_find)(c"unix".as_ptr()) };
    if unix.is_null() {
        return Err("this SQLite has no VFS \"unix\"".into());
    }
    // SAFETY: as above.
    let (version, size, max_path) = unsafe { ((*unix).version, (*unix).os_file_size, (*unix).max_path) };
    if version < 3 {
        return Err(format!("the VFS \"unix\" is of version {version}: expected 3"));
    }
    BELOW.store(unix, Ordering::Release);
    let ours = Box::into_raw(Box::new(Vfs {
        version: 3,
        os_file_size: size.max(size_of::<Handle>() as c_int),
        max_path,
        next: std::ptr::null_mut(),
        name: c"ondol".as_ptr(),
        app_data: std::ptr::null_mut(),
        open: Some(open),
        delete: Some(delete),
        access: Some(access),
        full_path: Some(full_path),
        dl_open: Some(dl_open),
        dl_error: Some(dl_error),
        dl_sym: Some(dl_sym),
        dl_close: Some(dl_close),
        randomness: Some(randomness),
        sleep: Some(sleep),
        current_time: Some(current_time),
        last_error: Some(last_error),
        current_time_i64: Some(current_time_i64),
        set_system_call: Some(set_system_call),
        get_system_call: Some(get_system_call),
        next_system_call: Some(next_system_call),
    }));
    // SAFETY: the structure is never freed.
    let code = unsafe { (api().vfs_register)(ours, 0) };
    if code != ffi::OK {
        return Err(format!("SQLite refused the VFS \"ondol\": error {code}"));
    }
    OURS.store(ours, Ordering::Release);
    Ok(())
}

// Methods of the VFS.

unsafe extern "C" fn open(
    _: *mut Vfs,
    name: *const c_char,
    file: *mut File,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives memory of `os_file_size` bytes; without methods nothing will be closed.
    unsafe { (*file).methods = std::ptr::null() };
    guard(ffi::CANTOPEN, || {
        // SAFETY: the arguments are those of `xOpen` for a file of these kinds.
        let opened = unsafe {
            if !name.is_null() && flags & ffi::OPEN_MAIN_DB != 0 {
                open_database(name, flags).map(|(state, out)| (&raw const DATABASE, state, out))
            } else if !name.is_null() && flags & ffi::OPEN_WAL != 0 {
                open_wal(name, flags).map(|(state, out)| (&raw const WAL, state, out))
            } else if flags & ffi::OPEN_MAIN_JOURNAL != 0
                && let Some(database) = database_with_journal(name)
            {
                (*database)
                    .open_journal(name, flags)
                    .map(|(journal, out)| (&raw const JOURNAL, journal.cast(), out))
            } else {
                // V1
                return (*below()).open.map_or(ffi::ERROR, |open| open(below(), name, file, flags, out));
            }
        };
        match opened {
            Ok((methods, state, flags)) => {
                let handle = file.cast::<Handle>();
                // SAFETY: as above.
                unsafe {
                    (*handle).state = state;
                    (*handle).methods = methods;
                    if !out.is_null() {
                        *out = flags;
                    }
                }
                ffi::OK
            }
            Err(code) => code,
        }
    })
}

/// # Safety
/// As `xOpen` for a main database.
unsafe fn open_database(name: *const c_char, flags: c_int) -> Result<(*mut c_void, c_int), c_int> {
    // SAFETY: as above.
    let settings = Settings::read(|key| unsafe { api().parameter(name, key) }).map_err(|why| {
        api().log(ffi::CANTOPEN, &format!("ondol: {why}"));
        ffi::CANTOPEN
    })?;
    // SAFETY: as above.
    let (database, out) = unsafe { Database::open(below(), name, settings, flags)? };
    if settings.default {
        // SAFETY: our VFS is registered; once more makes it the default.
        let code = unsafe { (api().vfs_register)(OURS.load(Ordering::Acquire), 1) };
        if code != ffi::OK {
            database.below.close();
            return Err(code);
        }
    }
    let state = Box::into_raw(database);
    LAST.set(state as usize);
    // SAFETY: as above.
    let wal_name = unsafe { api().wal_name(name) };
    if !wal_name.is_null() {
        databases().insert(wal_name as usize, state as usize);
    }
    // SAFETY: as above; the database is not in use yet.
    let journal_name = unsafe { if (*state).mapped() { api().journal_name(name) } else { std::ptr::null() } };
    if !journal_name.is_null() {
        journaled().insert(journal_name as usize, state as usize);
    }
    Ok((state.cast(), out))
}

/// # Safety
/// As `xOpen` for a WAL.
unsafe fn open_wal(name: *const c_char, flags: c_int) -> Result<(*mut c_void, c_int), c_int> {
    let database = database_opening(name).map_err(|why| {
        // SAFETY: a name is a text.
        report("open", unsafe { CStr::from_ptr(name) }, &io::Error::other(why), ffi::CANTOPEN)
    })?;
    // SAFETY: V2; the database is this connection's, and open.
    let (wal, out) = unsafe { (*database).open_wal(name, flags)? };
    Ok((wal.cast(), out))
}

unsafe extern "C" fn delete(_: *mut Vfs, name: *const c_char, sync_folder: c_int) -> c_int {
    guard(ffi::IOERR_DELETE, || match database_of(name) {
        // SAFETY: V2.
        Some(database) => unsafe { (*database).delete_wal(sync_folder) },
        // SAFETY: V2, and handed through.
        None => unsafe {
            if let Some(database) = database_with_journal(name) {
                (*database).forget_journal();
            }
            // A WAL that is deleted by its name may be ours.
            if !name.is_null()
                && let Err(error) = delete_orphan(CStr::from_ptr(name))
            {
                return report("delete the WAL of", CStr::from_ptr(name), &error, ffi::IOERR_DELETE);
            }
            (*below()).delete.map_or(ffi::ERROR, |delete| delete(below(), name, sync_folder))
        },
    })
}

/// Deletes our WAL too, where somebody deletes a database's files one by one: the database is gone.
fn delete_orphan(wal_name: &CStr) -> io::Result<()> {
    let Some(base) = wal_name.to_bytes().strip_suffix(b"-wal") else { return Ok(()) };
    let Ok(base) = CString::new(base) else { return Ok(()) };
    if below::is_there(&base) {
        Ok(())
    } else {
        below::delete(below(), &below::with_suffix(&base, "-owal"), false)
    }
}

unsafe extern "C" fn access(_: *mut Vfs, name: *const c_char, flags: c_int, out: *mut c_int) -> c_int {
    guard(ffi::IOERR, || {
        if flags == ffi::ACCESS_EXISTS
            && let Some(database) = database_of(name)
        {
            // SAFETY: V2, and SQLite gives a place for the answer.
            return unsafe {
                match (*database).wal_exists() {
                    Ok(there) => {
                        *out = c_int::from(there);
                        ffi::OK
                    }
                    Err(error) => report("look for", CStr::from_ptr(name), &error, ffi::IOERR),
                }
            };
        }
        // SAFETY: handed through.
        unsafe { (*below()).access.map_or(ffi::ERROR, |access| access(below(), name, flags, out)) }
    })
}

/// Methods that the VFS below answers alone.
macro_rules! below_answers {
    ($($name:ident($($arg:ident: $type:ty),*) -> $result:ty, $none:expr;)*) => {$(
        unsafe extern "C" fn $name(_: *mut Vfs $(, $arg: $type)*) -> $result {
            // SAFETY: handed through.
            unsafe { (*below()).$name.map_or($none, |method| method(below() $(, $arg)*)) }
        }
    )*};
}
below_answers! {
    full_path(name: *const c_char, n: c_int, out: *mut c_char) -> c_int, ffi::ERROR;
    dl_open(name: *const c_char) -> *mut c_void, std::ptr::null_mut();
    dl_error(n: c_int, out: *mut c_char) -> (), ();
    dl_sym(library: *mut c_void, name: *const c_char) -> Symbol, None;
    dl_close(library: *mut c_void) -> (), ();
    randomness(n: c_int, out: *mut c_char) -> c_int, 0;
    sleep(us: c_int) -> c_int, 0;
    current_time(out: *mut f64) -> c_int, ffi::ERROR;
    last_error(n: c_int, out: *mut c_char) -> c_int, 0;
    current_time_i64(out: *mut i64) -> c_int, ffi::ERROR;
    set_system_call(name: *const c_char, call: Symbol) -> c_int, ffi::NOTFOUND;
    get_system_call(name: *const c_char) -> Symbol, None;
    next_system_call(name: *const c_char) -> *const c_char, std::ptr::null();
}

// Methods of files.

/// The facts about a file, if it is a database of ours.
///
/// # Safety
/// `file` is null, or a connection has it open and this is its thread, in none of the file's methods.
pub unsafe fn status_of(file: *mut File) -> Option<Facts> {
    // SAFETY: as above; the address of the methods tells whose file it is.
    unsafe {
        (!file.is_null() && std::ptr::eq((*file).methods, &raw const DATABASE))
            .then(|| database(file).status())
    }
}

/// # Safety
/// `file` is a database of ours, in its connection's call.
unsafe fn database<'a>(file: *mut File) -> &'a mut Database {
    // SAFETY: V1.
    let database = unsafe { (*file.cast::<Handle>()).state.cast::<Database>() };
    LAST.set(database as usize);
    // SAFETY: V1.
    unsafe { &mut *database }
}
/// # Safety
/// `file` is a rollback journal of ours, in its connection's call.
unsafe fn journal<'a>(file: *mut File) -> &'a mut Journal {
    // SAFETY: V1.
    unsafe { &mut *(*file.cast::<Handle>()).state.cast::<Journal>() }
}
/// # Safety
/// `file` is a WAL of ours, in its connection's call.
unsafe fn wal<'a>(file: *mut File) -> &'a mut Wal {
    // SAFETY: V1.
    unsafe { &mut *(*file.cast::<Handle>()).state.cast::<Wal>() }
}

/// Methods of one kind of file: each gets the state, and what it gives is the result.
macro_rules! methods {
    ($state:ident, $otherwise:expr; $($name:ident |$it:ident $(, $arg:ident: $type:ty)*| $body:expr;)*) => {$(
        pub unsafe extern "C" fn $name(file: *mut super::File $(, $arg: $type)*) -> super::c_int {
            super::guard($otherwise, || {
                // SAFETY: SQLite calls the methods of an open file with it, one at a time; buffers are as
                // long as it says.
                unsafe {
                    let $it = super::$state(file);
                    $body
                }
            })
        }
    )*};
}

/// Methods that in their common case, which `$plain` tells, need nothing of ours: they jump to the method of
/// the VFS below. Were it called, it would return through us; and after a system call the processor has to
/// be told anew where each return leads, which takes longer than all else that is done here.
macro_rules! through {
    ($state:ident, $methods:ident; $($name:ident($($arg:ident: $type:ty),*) |$it:ident| $plain:expr;)*) => {$(
        pub unsafe extern "C" fn $name(file: *mut super::File $(, $arg: $type)*) -> super::c_int {
            // SAFETY: as for the methods above. Nothing in `$plain` panics (V3).
            unsafe {
                let $it = super::$state(file);
                let below = $it.below.file();
                if $plain && let Some(method) = (*(*below).methods).$name {
                    return method(below $(, $arg)*);
                }
                super::$methods::$name(file $(, $arg)*)
            }
        }
    )*};
}

mod database_through {
    use super::{c_int, c_void};

    through! { database, database_methods;
        read(buf: *mut c_void, n: c_int, offset: i64) |db| db.reads_through(offset);
        write(buf: *const c_void, n: c_int, offset: i64) |db| db.writes_through();
        shm_lock(at: c_int, n: c_int, flags: c_int) |db| db.locks_through(at);
        file_control(op: c_int, arg: *mut c_void) |_db| !super::database_methods::is_ours(op);
    }
}

mod wal_through {
    use super::{c_int, c_void};

    through! { wal, wal_methods;
        read(buf: *mut c_void, n: c_int, offset: i64) |wal| wal.is_plain();
        write(buf: *const c_void, n: c_int, offset: i64) |wal| wal.writes_through(offset);
    }
}

static DATABASE: Methods = Methods {
    version: 2,
    close: Some(database_methods::close),
    read: Some(database_through::read),
    write: Some(database_through::write),
    truncate: Some(database_methods::truncate),
    sync: Some(database_methods::sync),
    file_size: Some(database_methods::file_size),
    lock: Some(database_methods::lock),
    unlock: Some(database_methods::unlock),
    check_reserved_lock: Some(database_methods::check_reserved_lock),
    file_control: Some(database_through::file_control),
    sector_size: Some(database_methods::sector_size),
    device_characteristics: Some(database_methods::device_characteristics),
    shm_map: Some(database_methods::shm_map),
    shm_lock: Some(database_through::shm_lock),
    shm_barrier: Some(database_methods::shm_barrier),
    shm_unmap: Some(database_methods::shm_unmap),
    fetch: None,
    unfetch: None,
};

mod database_methods {
    use super::{c_char, c_int, c_void, databases, ffi};
    use std::slice::{from_raw_parts, from_raw_parts_mut};

    methods! { database, ffi::IOERR;
        read |db, buf: *mut c_void, n: c_int, offset: i64|
            db.read(from_raw_parts_mut(buf.cast(), n as usize), offset);
        write |db, buf: *const c_void, n: c_int, offset: i64|
            db.write(from_raw_parts(buf.cast(), n as usize), offset);
        truncate |db, len: i64| db.truncate(len);
        sync |db, flags: c_int| db.sync(flags);
        file_size |db, out: *mut i64| db.below.file_size(out);
        lock |db, level: c_int| db.lock(level);
        unlock |db, level: c_int| db.unlock(level);
        check_reserved_lock |db, out: *mut c_int| db.below.check_reserved_lock(out);
        sector_size |db| db.below.sector_size();
        device_characteristics |db| db.below.device_characteristics();
        shm_map |db, region: c_int, size: c_int, extend: c_int, out: *mut *mut c_void|
            db.shm_map(region, size, extend, out);
        shm_lock |db, at: c_int, n: c_int, flags: c_int| db.shm_lock(at, n, flags);
        shm_unmap |db, delete: c_int| db.shm_unmap(delete);
        file_control |db, op: c_int, arg: *mut c_void| match op {
            ffi::FCNTL_CKPT_START => {
                db.checkpoint_starts();
                db.below.file_control(op, arg)
            }
            ffi::FCNTL_CKPT_DONE => {
                db.checkpoint_ends();
                db.below.file_control(op, arg)
            }
            ffi::FCNTL_COMMIT_PHASETWO => {
                db.committed();
                db.below.file_control(op, arg)
            }
            ffi::FCNTL_SIZE_HINT => {
                db.length_changes();
                db.below.file_control(op, arg)
            }
            ffi::FCNTL_PRAGMA => super::pragma(db, arg.cast()),
            ffi::FCNTL_VFSNAME => super::vfs_name(db, arg.cast()),
            _ => db.below.file_control(op, arg),
        };
    }
    pub unsafe extern "C" fn shm_barrier(file: *mut super::File) {
        // SAFETY: as for the methods above; nothing in it panics.
        unsafe { super::database(file) }.shm_barrier()
    }
    pub unsafe extern "C" fn close(file: *mut super::File) -> c_int {
        super::guard(ffi::IOERR, || {
            // SAFETY: the last call for this file; its state came from a box.
            let database = unsafe {
                Box::from_raw((*file.cast::<super::Handle>()).state.cast::<crate::database::Database>())
            };
            databases().retain(|_, at| *at != &raw const *database as usize);
            super::journaled().retain(|_, at| *at != &raw const *database as usize);
            database.below.close()
        })
    }
    /// The operations that need something of ours.
    pub fn is_ours(op: c_int) -> bool {
        use ffi::*;
        matches!(
            op,
            FCNTL_CKPT_START
                | FCNTL_CKPT_DONE
                | FCNTL_COMMIT_PHASETWO
                | FCNTL_SIZE_HINT
                | FCNTL_PRAGMA
                | FCNTL_VFSNAME
        )
    }
    pub type Text = *mut c_char;
}

static WAL: Methods = Methods {
    version: 1,
    close: Some(wal_methods::close),
    read: Some(wal_through::read),
    write: Some(wal_through::write),
    truncate: Some(wal_methods::truncate),
    sync: Some(wal_methods::sync),
    file_size: Some(wal_methods::file_size),
    lock: Some(wal_methods::lock),
    unlock: Some(wal_methods::unlock),
    check_reserved_lock: Some(wal_methods::check_reserved_lock),
    file_control: Some(wal_methods::file_control),
    sector_size: Some(wal_methods::sector_size),
    device_characteristics: Some(wal_methods::device_characteristics),
    shm_map: None,
    shm_lock: None,
    shm_barrier: None,
    shm_unmap: None,
    fetch: None,
    unfetch: None,
};

mod wal_methods {
    use super::{c_int, c_void, ffi};
    use std::slice::{from_raw_parts, from_raw_parts_mut};

    methods! { wal, ffi::IOERR;
        read |wal, buf: *mut c_void, n: c_int, offset: i64|
            wal.read(from_raw_parts_mut(buf.cast(), n as usize), offset);
        write |wal, buf: *const c_void, n: c_int, offset: i64|
            wal.write(from_raw_parts(buf.cast(), n as usize), offset);
        truncate |wal, len: i64| wal.truncate(len);
        sync |wal, flags: c_int| wal.sync(flags);
        file_size |wal, out: *mut i64| wal.file_size(&mut *out);
        lock |wal, level: c_int| wal.below.lock(level);
        unlock |wal, level: c_int| wal.below.unlock(level);
        check_reserved_lock |wal, out: *mut c_int| wal.below.check_reserved_lock(out);
        sector_size |wal| wal.below.sector_size();
        device_characteristics |wal| wal.below.device_characteristics();
        file_control |wal, op: c_int, arg: *mut c_void| wal.below.file_control(op, arg);
    }
    pub unsafe extern "C" fn close(file: *mut super::File) -> c_int {
        super::guard(ffi::IOERR, || {
            // SAFETY: the last call for this file; its state came from a box.
            let wal = unsafe { Box::from_raw((*file.cast::<super::Handle>()).state.cast::<super::Wal>()) };
            wal.close()
        })
    }
}

static JOURNAL: Methods = Methods {
    version: 1,
    close: Some(journal_methods::close),
    read: Some(journal_methods::read),
    write: Some(journal_methods::write),
    truncate: Some(journal_methods::truncate),
    sync: Some(journal_methods::sync),
    file_size: Some(journal_methods::file_size),
    lock: Some(journal_methods::lock),
    unlock: Some(journal_methods::unlock),
    check_reserved_lock: Some(journal_methods::check_reserved_lock),
    file_control: Some(journal_methods::file_control),
    sector_size: Some(journal_methods::sector_size),
    device_characteristics: Some(journal_methods::device_characteristics),
    shm_map: None,
    shm_lock: None,
    shm_barrier: None,
    shm_unmap: None,
    fetch: None,
    unfetch: None,
};

mod journal_methods {
    use super::{c_int, c_void, ffi};
    use std::slice::{from_raw_parts, from_raw_parts_mut};

    methods! { journal, ffi::IOERR;
        read |journal, buf: *mut c_void, n: c_int, offset: i64|
            journal.read(from_raw_parts_mut(buf.cast(), n as usize), offset);
        write |journal, buf: *const c_void, n: c_int, offset: i64|
            journal.write(from_raw_parts(buf.cast(), n as usize), offset);
        truncate |journal, len: i64| journal.truncate(len);
        sync |journal, flags: c_int| journal.sync(flags);
        file_size |journal, out: *mut i64| journal.below.file_size(out);
        lock |journal, level: c_int| journal.below.lock(level);
        unlock |journal, level: c_int| journal.below.unlock(level);
        check_reserved_lock |journal, out: *mut c_int| journal.below.check_reserved_lock(out);
        sector_size |journal| journal.below.sector_size();
        device_characteristics |journal| journal.below.device_characteristics();
        file_control |journal, op: c_int, arg: *mut c_void| journal.below.file_control(op, arg);
    }
    pub unsafe extern "C" fn close(file: *mut super::File) -> c_int {
        super::guard(ffi::IOERR, || {
            // SAFETY: the last call for this file; its state came from a box.
            let journal =
                unsafe { Box::from_raw((*file.cast::<super::Handle>()).state.cast::<super::Journal>()) };
            journal.close()
        })
    }
}

/// `SQLITE_FCNTL_PRAGMA`: `arg` holds the answer's place, the pragma's name, and its argument or null.
///
/// # Safety
/// As SQLite calls it.
unsafe fn pragma(db: &mut Database, arg: *mut database_methods::Text) -> c_int {
    // SAFETY: the name is a text.
    let name = unsafe { CStr::from_ptr(*arg.add(1)) }.to_string_lossy().to_ascii_lowercase();
    let (code, answer) = match name.as_str() {
        "ondol_status" => (ffi::OK, json(&db.status())),
        "ondol_detach" => match db.detach() {
            Ok(answer) => (ffi::OK, answer),
            Err(why) => (ffi::ERROR, why),
        },
        _ => return db.below.file_control(ffi::FCNTL_PRAGMA, arg.cast()),
    };
    let text = api().string(&answer);
    if text.is_null() {
        return ffi::NOMEM;
    }
    // SAFETY: SQLite frees the text.
    unsafe { *arg = text };
    code
}

/// `SQLITE_FCNTL_VFSNAME`: the names of the VFSes, the uppermost first.
///
/// # Safety
/// As SQLite calls it.
unsafe fn vfs_name(db: &mut Database, arg: *mut database_methods::Text) -> c_int {
    let code = db.below.file_control(ffi::FCNTL_VFSNAME, arg.cast());
    if code == ffi::OK {
        // SAFETY: the VFS below gave a text in SQLite's memory, which is replaced.
        unsafe {
            let name = if (*arg).is_null() { "unix".into() } else { CStr::from_ptr(*arg).to_string_lossy() };
            let text = api().string(&format!("ondol/{name}"));
            api().free((*arg).cast());
            *arg = text;
        }
    }
    code
}
