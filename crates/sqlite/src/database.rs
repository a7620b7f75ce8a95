//! A connection's database file and its WAL, as this VFS has them open.
//!
//! - **D1** A database and its WAL belong to one connection, and SQLite uses them one call at a time. The WAL
//!   is closed first. So each may hold a plain pointer to the other.
//! - **D2** A connection's layout is settled when its WAL is opened, under the SHARED lock that it then keeps
//!   (care/K1); only the connection itself changes it, while it is alone.
mod checkpoint;
mod facts;
mod log;

use crate::below::{self, Below, Name, check, report, with_suffix};
use crate::care;
use crate::chain::Chain;
use crate::ffi::{self, Vfs};
use crate::journal::{Journal, Named};
use crate::layout::{Layout, VERSION};
use crate::medium::Medium;
use crate::moving;
use crate::observed::Cycle;
use crate::settings::{Mode, Settings};
use crate::sharing::{self, Target};
use crate::wal::{self, WalWriter};
use crate::window::{self, Account, Kind, Window};
use checkpoint::Shareable;
pub use log::Wal;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::time::Instant;

/// What is said of a marked database without its WAL.
pub const MISSING: &str = "it is in the extension's care, but its WAL, the file with \"-owal\" behind the name, is missing, and with it what was committed since the last checkpoint. \
    Put that file back; to go on without those commits, put an empty file of that name there";

pub struct Database {
    vfs: *mut Vfs,
    pub below: Below,
    path: CString,
    settings: Settings,
    writable: bool,
    /// SQLite's lock level on the file.
    level: Level,
    /// The open WAL (D1).
    wal: *mut Wal,
    /// That there is one, for threads that look for their own database.
    has_wal: AtomicBool,
    /// The database is in our care, as far as this connection knows: settled when the WAL is opened (D2).
    cared: bool,
    /// `PRAGMA ondol_detach` was run: this connection takes the database into care no more.
    detached: bool,
    /// The first region of the WAL index.
    index: *const u8,
    /// SQLite is between start and end of a backfill.
    backfilling: bool,
    shareable: Option<Shareable>,
    /// When the last checkpoint began, what is known of its cycle, and the pages shared and copied before it.
    cycle: Option<(Instant, Cycle, [u64; 2])>,
    /// Why this backfill may write nothing.
    held: Option<io::Error>,
    /// The mark could not be removed for certain: nothing may be written to the WAL any more.
    broken: bool,
    /// Place and buffer of the last page read from the WAL.
    last_read: Option<(u64, usize)>,
    /// Something was shared since the last sync.
    unsynced: bool,
    target: Arc<Target>,
    /// `ondol=pmem`: the database's mapping; None where there can be none.
    window: Option<Window>,
    /// The mapping of the rollback journal that was opened last.
    journal: Option<Named>,
    /// What happened through windows that are gone.
    past: window::Counts,
}

/// The place of the lock of who writes to the WAL, among those of the WAL index.
const WRITE_LOCK: c_int = 0;

/// SQLite's lock level on a database's file. Another thread may look at it, while it looks for its own
/// database.
#[derive(Debug, Default)]
struct Level(AtomicI32);

impl Level {
    fn get(&self) -> c_int {
        self.0.load(Relaxed)
    }
    fn set(&self, level: c_int) {
        self.0.store(level, Relaxed);
    }
}

impl Database {
    /// # Safety
    /// `name` was handed to `xOpen` for a main database.
    pub unsafe fn open(
        vfs: *mut Vfs,
        name: *const c_char,
        settings: Settings,
        flags: c_int,
    ) -> Result<(Box<Database>, c_int), c_int> {
        // SAFETY: as above; SQLite keeps the name until the file is closed.
        let (below, out) = unsafe { Below::open(vfs, name, None, flags)? };
        // SAFETY: a name is a text that ends with a zero.
        let path = unsafe { CStr::from_ptr(name) }.to_owned();
        let target = match sharing::target(&path, &below) {
            Ok(target) => target,
            Err(error) => {
                below.close();
                return Err(report("open", &path, &error, ffi::CANTOPEN));
            }
        };
        let writable = out & ffi::OPEN_READONLY == 0;
        let mut window = None;
        if settings.mode == Mode::Pmem && writable {
            match target.file(&path, &below) {
                Ok(_) => window = Some(Window::new(Box::new(target.clone()), Kind::Database)),
                // The target says why, and nothing is mapped.
                Err(error) if sharing::is_crowded(&error) => (),
                Err(error) => {
                    below.close();
                    return Err(report("map", &path, &error, ffi::CANTOPEN));
                }
            }
        }
        let database = Database {
            vfs,
            below,
            path,
            settings,
            writable,
            level: Level::default(),
            wal: std::ptr::null_mut(),
            has_wal: AtomicBool::new(false),
            cared: false,
            detached: false,
            index: std::ptr::null(),
            backfilling: false,
            shareable: None,
            cycle: None,
            held: None,
            broken: false,
            last_read: None,
            unsynced: false,
            target,
            window,
            journal: None,
            past: window::Counts::default(),
        };
        Ok((Box::new(database), out))
    }

    /// Whether the WAL of this name is this database's, which is locked at least as SQLite has it when it
    /// opens or deletes a WAL.
    pub fn may_mean(&self, wal_name: &CStr) -> bool {
        let base = wal_name.to_bytes().strip_suffix(b"-wal");
        base == Some(self.path.to_bytes()) && self.level.get() >= ffi::LOCK_SHARED
    }
    /// Whether this database is about to open the WAL of this name, as far as another thread can tell.
    pub fn may_open(&self, wal_name: &CStr) -> bool {
        self.may_mean(wal_name) && !self.has_wal.load(Relaxed)
    }
    fn stock_wal(&self) -> CString {
        with_suffix(&self.path, "-wal")
    }
    fn our_wal(&self) -> CString {
        with_suffix(&self.path, "-owal")
    }

    // Locks.

    pub fn lock(&mut self, level: c_int) -> c_int {
        self.doubt();
        let code = self.below.lock(level);
        if code == ffi::OK {
            let before = self.level.get();
            self.level.set(before.max(level));
            if self.window.is_some() {
                self.take_notice(before);
            }
        }
        code
    }
    pub fn unlock(&mut self, level: c_int) -> c_int {
        if self.window.is_some() && level < ffi::LOCK_SHARED && self.level.get() >= ffi::LOCK_SHARED {
            let account = self.change_counter();
            if let Some(window) = &mut self.window {
                window.notice(account, true);
            }
        }
        self.doubt();
        let code = self.below.unlock(level);
        if code == ffi::OK {
            self.level.set(self.level.get().min(level));
        }
        code
    }
    // Mapped files.

    /// Whether `ondol=pmem` maps what it can of this database.
    pub fn mapped(&self) -> bool {
        self.window.is_some()
    }

    /// A lock changes (window/P2 and window/P3).
    fn doubt(&mut self) {
        if let Some(window) = &mut self.window {
            window.doubt();
            if let Some(journal) = &mut self.journal {
                journal.window.doubt();
            }
            // SAFETY: D1.
            if let Some(Wal { window: Some(wal), .. }) = unsafe { self.wal.as_mut() } {
                wal.window.doubt();
            }
        }
    }
    /// Completes what was stored, since others may see it from now on.
    fn fence(&mut self) {
        if let Some(window) = &mut self.window {
            window.fence();
            // SAFETY: D1.
            if let Some(Wal { window: Some(wal), .. }) = unsafe { self.wal.as_mut() } {
                wal.window.fence();
            }
        }
    }
    /// A lock was taken, above `before`: whether others may have written what the next syncs must cover
    /// (window/P4).
    fn take_notice(&mut self, before: c_int) {
        let recovers = self.level.get() >= ffi::LOCK_EXCLUSIVE && before < ffi::LOCK_RESERVED;
        let first = before < ffi::LOCK_SHARED;
        let account = if first { self.change_counter() } else { None };
        let others = first && self.window.as_mut().is_some_and(|window| window.notice(account, false));
        if recovers || others {
            let journal = self.journal.as_mut().map(|journal| &mut journal.window);
            self.window.iter_mut().chain(journal).for_each(Window::foreign);
        }
    }
    /// Which every transaction changes that changes the database otherwise than through a WAL.
    fn change_counter(&mut self) -> Option<Account> {
        const AT: i64 = 24;
        let mut bytes = [0; 4];
        (self.read(&mut bytes, AT) == ffi::OK).then(|| {
            let mut account = Account::default();
            account[0] = u32::from_be_bytes(bytes);
            account
        })
    }
    /// The database's window, under a lock that keeps it as long as it is.
    fn window(&mut self) -> Option<&mut Window> {
        self.window.as_mut().filter(|_| self.level.get() >= ffi::LOCK_SHARED)
    }
    /// The journal's window, if SQLite's lock is at least this.
    pub fn journal_window(&mut self, level: c_int) -> Option<&mut Window> {
        let journal = self.journal.as_mut().filter(|_| self.level.get() >= level);
        journal.map(|journal| &mut journal.window)
    }
    /// The journal's name is about to go.
    pub fn forget_journal(&mut self) {
        if let Some(named) = self.journal.take() {
            self.past += named.window.counts;
        }
    }

    /// Opens the rollback journal at `name`.
    ///
    /// # Safety
    /// `name` was handed to `xOpen` for this connection's journal.
    pub unsafe fn open_journal(
        &mut self,
        name: *const c_char,
        flags: c_int,
    ) -> Result<(*mut Journal, c_int), c_int> {
        // SAFETY: as above; SQLite keeps the name.
        let (below, out) = unsafe { Below::open(self.vfs, name, None, flags)? };
        // SAFETY: a name is a text that ends with a zero.
        let path = unsafe { CStr::from_ptr(name) };
        // Only who may write it has it to itself; whoever looks whether it is hot reads it as stock does.
        let mapped = out & ffi::OPEN_READONLY == 0 && self.level.get() >= ffi::LOCK_RESERVED;
        if mapped && !self.journal.as_ref().is_some_and(|journal| journal.is_at(sharing::path_of(path))) {
            // One that cannot be opened twice is the kernel's; the status says which are mapped.
            self.forget_journal();
            self.journal = Named::open(path, Kind::Journal).ok();
        }
        // SAFETY: D1.
        let journal = unsafe { Journal::new(below, self, mapped) };
        Ok((Box::into_raw(Box::new(journal)), out))
    }

    /// Does something under EXCLUSIVE, if nobody else has the database open; whether it was done.
    fn alone(&mut self, act: impl FnOnce(&mut Database) -> io::Result<()>) -> io::Result<bool> {
        if self.level.get() < ffi::LOCK_SHARED {
            return Ok(false);
        }
        let before = self.level.get();
        let got = self.below.lock(ffi::LOCK_EXCLUSIVE);
        let result = if got == ffi::OK { act(self).map(|()| true) } else { Ok(false) };
        if before < ffi::LOCK_EXCLUSIVE {
            // Also after a failure, which may leave a PENDING lock that keeps others out.
            check(self.below.unlock(before))?;
        }
        result
    }

    // Reading and writing.

    /// Whether a read from `offset` on needs nothing of ours.
    pub fn reads_through(&self, offset: i64) -> bool {
        self.window.is_none() && offset > care::MARK_AT as i64
    }
    pub fn read(&mut self, buf: &mut [u8], offset: i64) -> c_int {
        if self.window().is_some_and(|window| window.read(buf, offset as u64)) {
            care::hide(&self.below, buf, offset as u64);
            return ffi::OK;
        }
        let code = self.below.read(buf.as_mut_ptr().cast(), buf.len() as c_int, offset);
        if code == ffi::OK || code == ffi::IOERR_SHORT_READ {
            care::hide(&self.below, buf, offset as u64);
        }
        code
    }

    /// Whether a write needs nothing of ours but to be counted; if so, it is.
    pub fn writes_through(&self) -> bool {
        let through = self.last_read.is_none() && self.held.is_none() && !self.cared && self.window.is_none();
        if through && self.backfilling {
            self.target.counts.pages_copied.fetch_add(1, Relaxed);
        }
        through
    }
    pub fn write(&mut self, buf: &[u8], offset: i64) -> c_int {
        let last_read = self.last_read.take();
        if let Some(error) = &self.held {
            return report("backfill", &self.path, error, ffi::IOERR_WRITE);
        }
        if self.backfilling {
            let from_wal = last_read.filter(|(_, at)| *at == buf.as_ptr() as usize).map(|(place, _)| place);
            if from_wal.is_some_and(|place| self.shared(buf, offset as u64, place)) {
                return ffi::OK;
            }
            self.target.counts.pages_copied.fetch_add(1, Relaxed);
        }
        let marked = if self.cared { care::keep(buf, offset as u64) } else { None };
        let buf = marked.as_deref().unwrap_or(buf);
        if self.window().is_some_and(|window| window.store(buf, offset as u64)) {
            return ffi::OK;
        }
        let code = self.below.write(buf.as_ptr().cast(), buf.len() as c_int, offset);
        if let Some(window) = &mut self.window {
            window.written(offset as u64, buf.len(), code == ffi::OK);
        }
        code
    }

    /// SQLite has completed a transaction.
    pub fn committed(&mut self) {
        // SAFETY: D1.
        if let Some(wal) = unsafe { self.wal.as_mut() } {
            wal.chain.in_doubt = false;
        }
    }

    pub fn truncate(&mut self, len: i64) -> c_int {
        self.length_changes();
        self.below.truncate(len)
    }

    /// The kernel is about to change the file's length.
    pub fn length_changes(&mut self) {
        if let Some(window) = &mut self.window {
            window.changed();
        }
    }

    pub fn sync(&mut self, flags: c_int) -> c_int {
        let code = self.sync_now(flags);
        self.cycle_ends();
        code
    }
    fn sync_now(&mut self, flags: c_int) -> c_int {
        if std::mem::take(&mut self.unsynced)
            && let Err(error) = self.target.sync()
        {
            return report("sync", &self.path, &error, ffi::IOERR_FSYNC);
        }
        if let Some(window) = &mut self.window {
            if !self.wal.is_null() {
                // What incomplete checkpoints of others left unsynced, the one that completes them syncs.
                window.foreign();
            }
            if !window.sync() {
                return ffi::OK;
            }
        }
        let code = self.below.sync_as(flags);
        if code == ffi::OK
            && let Some(window) = &mut self.window
        {
            window.synced();
        }
        code
    }

    pub fn shm_map(&mut self, region: c_int, size: c_int, extend: c_int, out: *mut *mut c_void) -> c_int {
        let code = self.below.shm_map(region, size, extend, out);
        if region == 0 && code == ffi::OK {
            // SAFETY: SQLite gives a place for the pointer; the region stays mapped until `shm_unmap`.
            self.index = unsafe { *out }.cast();
        }
        code
    }
    /// Whether taking or letting go of the WAL index's lock at `at` needs nothing of ours.
    pub fn locks_through(&self, at: c_int) -> bool {
        // SAFETY: D1.
        let wal = || unsafe { self.wal.as_ref() };
        self.window.is_none() && (at != WRITE_LOCK || wal().is_none_or(Wal::is_plain))
    }
    pub fn shm_lock(&mut self, at: c_int, n: c_int, flags: c_int) -> c_int {
        self.doubt();
        let code = self.below.shm_lock(at, n, flags);
        if at == WRITE_LOCK {
            let header = self.index_header();
            // SAFETY: D1.
            if let Some(wal) = unsafe { self.wal.as_mut() } {
                wal.writer.doubt();
                // Taken: whether others have written. Let go: what this connection knows of is all there is.
                if code == ffi::OK && flags & ffi::SHM_EXCLUSIVE != 0 {
                    wal.notice(header, flags & ffi::SHM_UNLOCK != 0);
                }
            }
        }
        code
    }
    pub fn shm_barrier(&mut self) {
        // Behind it the WAL index shows what was written.
        self.fence();
        self.below.shm_barrier()
    }
    /// The WAL index's header; nothing where there is no index, since nobody else is there then.
    fn index_header(&self) -> Account {
        std::array::from_fn(|i| self.index_u32(4 * i).map_or(0, |word| word as u32))
    }
    pub fn shm_unmap(&mut self, delete: c_int) -> c_int {
        self.index = std::ptr::null();
        self.below.shm_unmap(delete)
    }

    // The WAL, and our care for the database.

    /// Whether this database shall be taken into our care by this connection.
    fn wanted(&self, header: care::Header) -> bool {
        let asked = match self.settings.mode {
            Mode::Copy | Mode::Pmem => false,
            Mode::Remap => header.marked || !self.is_on_f2fs(),
            Mode::Auto => self.target.choice.care.load(Relaxed),
        };
        // Without a descriptor nothing could be shared, and care would only cost.
        asked && self.may_care(header) && (header.marked || self.target.file(&self.path, &self.below).is_ok())
    }

    /// Whether the database is on F2FS (rule 35); that it is, the error log says.
    fn is_on_f2fs(&self) -> bool {
        let found = moving::is_f2fs(sharing::folder(&self.path));
        if found {
            let error = io::Error::new(
                io::ErrorKind::Unsupported,
                "on F2FS nothing can be shared, and a sync that is cut off may leave anything",
            );
            report("take care of", &self.path, &error, ffi::OK);
        }
        found
    }

    /// Whether this database may be taken into our care by this connection.
    fn may_care(&self, header: care::Header) -> bool {
        self.writable
            && !self.detached
            && header.wal
            && Layout::new(header.page).is_some()
            && self.below.device_characteristics() & ffi::IOCAP_POWERSAFE_OVERWRITE != 0
    }

    /// Opens the WAL at `name`, which is this database's `-wal`.
    ///
    /// # Safety
    /// `name` was handed to `xOpen` for this connection's WAL.
    pub unsafe fn open_wal(&mut self, name: *const c_char, flags: c_int) -> Result<(*mut Wal, c_int), c_int> {
        let stock = self.stock_wal();
        let head = care::header(&self.below).map_err(|e| report("read", &self.path, &e, ffi::CANTOPEN))?;
        self.cared = head.marked;
        let mut opened = None;
        if self.wanted(head) && !head.marked {
            let empty = below::exists(self.vfs, &stock).map(|hot| !hot);
            if empty.map_err(|e| report("look for", &stock, &e, ffi::CANTOPEN))? {
                opened =
                    self.take(None).map_err(|e| report("take care of", &self.path, &e, ffi::CANTOPEN))?;
            }
        }
        let mut version = VERSION;
        let (below, out, layout) = if let Some((below, out)) = opened {
            (below, out, Layout::new(head.page))
        } else if head.marked {
            if self.below.device_characteristics() & ffi::IOCAP_POWERSAFE_OVERWRITE == 0 {
                let error =
                    io::Error::other("psow=0 needs SQLite's own layout: run PRAGMA ondol_detach without it");
                return Err(report("use", &self.path, &error, ffi::CANTOPEN));
            }
            // It was there before the mark (care/K2): without it commits are missing.
            let (below, out) = self.open_our_wal(flags & !ffi::OPEN_CREATE).map_err(|code| {
                let error = io::Error::other(match below::is_there(&self.our_wal()) {
                    true => format!("SQLite's error {code}"),
                    false => MISSING.into(),
                });
                report("open the WAL of", &self.path, &error, code)
            })?;
            match wal::version(&below) {
                Ok(found) => {
                    version = found;
                    (below, out, Layout::new(head.page))
                }
                Err(error) => {
                    below.close();
                    return Err(report("use", &self.our_wal(), &error, ffi::CANTOPEN));
                }
            }
        } else {
            // SAFETY: as above; SQLite keeps the name.
            let (below, out) = unsafe { Below::open(self.vfs, name, None, flags)? };
            (below, out, None)
        };
        let writer = WalWriter::default();
        // A WAL in our layout is the kernel's, as is one that cannot be opened twice.
        let window = if self.mapped() && layout.is_none() && out & ffi::OPEN_READONLY == 0 {
            Named::open(&stock, Kind::Wal).ok()
        } else {
            None
        };
        self.wal = Box::into_raw(Box::new(Wal {
            below,
            layout,
            version,
            writer,
            chain: Chain::default(),
            database: self,
            window,
        }));
        self.has_wal.store(true, Relaxed);
        Ok((self.wal, out))
    }

    fn open_our_wal(&self, flags: c_int) -> Result<(Below, c_int), c_int> {
        let name = Name::new(&self.our_wal());
        let ptr = name.ptr();
        // SAFETY: a name of ours, kept with the file (its bytes do not move with it).
        unsafe { Below::open(self.vfs, ptr, Some(name), flags) }
    }

    /// Takes the database into our care, if nobody else has it open: gives our WAL, open and empty.
    fn take(&mut self, stock: Option<&Below>) -> io::Result<Option<(Below, c_int)>> {
        let mut opened = None;
        self.alone(|db| {
            // Others may have come and gone between the first look and the lock.
            let head = care::header(&db.below)?;
            let hot = stock.is_none() && below::exists(db.vfs, &db.stock_wal())?;
            if head.marked || !head.wal || hot {
                return Ok(());
            }
            let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE | ffi::OPEN_WAL;
            let (below, out) = db.open_our_wal(flags).map_err(|code| io::Error::other(below::Code(code)))?;
            let done = if out & ffi::OPEN_READONLY != 0 {
                Err(io::Error::from(io::ErrorKind::PermissionDenied))
            } else {
                // care/K2, and the name of our WAL with it.
                care::take(&db.below, stock.map(|s| s as &dyn Medium), &below, || {
                    sharing::sync_folder(&db.path)
                })
            };
            if let Err(error) = done {
                below.close();
                return Err(error);
            }
            db.cared = true;
            opened = Some((below, out));
            Ok(())
        })?;
        Ok(opened)
    }

    /// SQLite deletes the WAL: everything was backfilled, and EXCLUSIVE is held.
    pub fn delete_wal(&mut self, sync_folder: c_int) -> c_int {
        let stock = self.stock_wal();
        if !self.cared {
            // What a cut off `take` has left: without the mark nobody reads it (care/K4).
            if self.level.get() >= ffi::LOCK_EXCLUSIVE
                && let Err(error) = below::delete(self.vfs, &self.our_wal(), false)
            {
                report("clear up", &self.path, &error, ffi::OK);
            }
            // SAFETY: the VFS below stays registered.
            return unsafe {
                (*self.vfs).delete.map_or(ffi::ERROR, |delete| delete(self.vfs, stock.as_ptr(), sync_folder))
            };
        }
        if self.level.get() < ffi::LOCK_EXCLUSIVE || !self.wal.is_null() {
            let error = io::Error::other("the WAL is in use");
            return report("let go of", &self.path, &error, ffi::IOERR_DELETE);
        }
        // A `-wal` that someone put here belongs to no state of this database.
        match below::delete(self.vfs, &stock, true).and_then(|()| self.let_go()) {
            Ok(()) => ffi::OK,
            Err(error) => report("let go of", &self.path, &error, ffi::IOERR_DELETE),
        }
    }

    /// Under EXCLUSIVE, with everything backfilled: the database becomes stock again.
    fn let_go(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.unsynced) {
            self.target.sync()?;
        }
        self.broken = true;
        care::release(&self.below)?;
        self.broken = false;
        self.cared = false;
        below::delete(self.vfs, &self.our_wal(), false)
    }

    /// The same, while SQLite keeps its WAL open: gives an empty one of SQLite's.
    fn let_go_with_a_wal(&mut self) -> io::Result<Below> {
        let stock = self.stock_wal();
        // A `-wal` that someone put here belongs to no state of this database.
        below::delete(self.vfs, &stock, true)?;
        let name = Name::new(&stock);
        let ptr = name.ptr();
        let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE | ffi::OPEN_WAL;
        // SAFETY: a name of ours, kept with the file.
        let (below, _) = unsafe { Below::open(self.vfs, ptr, Some(name), flags) }
            .map_err(|code| io::Error::other(below::Code(code)))?;
        match self.let_go() {
            Ok(()) => Ok(below),
            Err(error) => {
                below.close();
                Err(error)
            }
        }
    }

    /// Whether this connection's WAL exists, for SQLite's question before it opens it (under SHARED).
    pub fn wal_exists(&self) -> io::Result<bool> {
        let ours = care::header(&self.below)?.marked;
        below::exists(self.vfs, &if ours { self.our_wal() } else { self.stock_wal() })
    }

    // Pragmas.

    /// `PRAGMA ondol_detach`: the database becomes stock while the connection stays. The error says what to
    /// do.
    pub fn detach(&mut self) -> Result<String, String> {
        // SAFETY: D1.
        let Some(wal) = (unsafe { self.wal.as_mut() }) else {
            return Err(
                "ondol_detach: this connection has no WAL open; run PRAGMA wal_checkpoint(TRUNCATE) first"
                    .into(),
            );
        };
        if !self.cared {
            self.detached = true;
            return Ok("detached".into());
        }
        // An empty file holds no frame, and while this connection is alone none comes.
        let done = self.alone(|db| {
            if wal.layout.map_or(Ok(0), |layout| wal::len(&wal.below, layout))? > 0 {
                return Err(io::Error::other(
                    "the WAL is not empty; run PRAGMA wal_checkpoint(TRUNCATE) outside of any transaction first",
                ));
            }
            wal.become_stock(db.let_go_with_a_wal()?);
            db.detached = true;
            Ok(())
        });
        match done {
            Ok(true) => Ok("detached".into()),
            Ok(false) => Err("ondol_detach: other connections have this database open, here or in other processes: close them first; the last one to close cleanly leaves a stock file as well".into()),
            Err(error) => Err(format!("ondol_detach: {error}")),
        }
    }
}
