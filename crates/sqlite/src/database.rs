//! A connection's database file and its WAL, as this VFS has them open.
//!
//! - **D1** A database and its WAL belong to one connection, and SQLite uses them one call at a time. The WAL is closed
//!   first. So each may hold a plain pointer to the other.
//! - **D2** A connection's layout is settled when its WAL is opened, under the SHARED lock that it then keeps (care's K1);
//!   only the connection itself changes it, while it is alone.
use crate::below::{self, Below, Name, check, report, with_suffix};
use crate::care;
use crate::ffi::{self, Vfs};
use crate::ground;
use crate::journal::{Journal, Named};
use crate::layout::{BLOCK, Layout};
use crate::measure;
use crate::medium::Medium;
use crate::places::Places;
use crate::plan::{self, Run, State, Work};
use crate::settings::{Mode, Settings};
use crate::sharing::{self, Counts, Range, Target};
use crate::status::Facts;
use crate::verdict::{Verdict, verdict};
use crate::wal::{self, Entry, Format, Writer};
use crate::window::{self, Account, Kind, Window};
use ondol_base::media::Promise;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

/// The shortest run that is shared in remap mode where nothing is said: a shorter one costs more time than copying it, one
/// call of the kernel against some microseconds a block.
const LEAST_BLOCKS: u32 = 16;
/// How often auto tries to be alone with a database.
const REFUSALS: u64 = 3;

/// Blocks that sharing a run spares.
fn blocks(run: &Run, layout: Layout) -> u32 {
    run.spared * (layout.page() / BLOCK) as u32
}

/// What a backfill may share.
struct Shareable {
    runs: Vec<Run>,
    layout: Layout,
    source: File,
}

pub struct Database {
    vfs: *mut Vfs,
    pub below: Below,
    path: CString,
    settings: Settings,
    writable: bool,
    /// SQLite's lock level on the file.
    level: c_int,
    /// The open WAL (D1).
    wal: *mut Wal,
    /// The database is in our care, as far as this connection knows: settled when the WAL is opened (D2).
    cared: bool,
    /// `PRAGMA ondol_detach` was run: this connection takes the database into care no more.
    detached: bool,
    /// The first region of the WAL index.
    index: *const u8,
    /// SQLite is between start and end of a backfill.
    backfilling: bool,
    shareable: Option<Shareable>,
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
        let window = if settings.mode == Mode::Pmem && writable {
            if let Err(error) = target.file(&path, &below) {
                below.close();
                return Err(report("map", &path, &error, ffi::CANTOPEN));
            }
            Some(Window::new(Box::new(target.clone()), Kind::Database))
        } else {
            None
        };
        let database = Database {
            vfs,
            below,
            path,
            settings,
            writable,
            level: 0,
            wal: std::ptr::null_mut(),
            cared: false,
            detached: false,
            index: std::ptr::null(),
            backfilling: false,
            shareable: None,
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
            let before = self.level;
            self.level = self.level.max(level);
            if self.window.is_some() {
                self.take_notice(before);
            }
        }
        code
    }
    pub fn unlock(&mut self, level: c_int) -> c_int {
        if self.window.is_some() && level < ffi::LOCK_SHARED && self.level >= ffi::LOCK_SHARED {
            let account = self.change_counter();
            if let Some(window) = &mut self.window {
                window.notice(account, true);
            }
        }
        self.doubt();
        let code = self.below.unlock(level);
        if code == ffi::OK {
            self.level = self.level.min(level);
        }
        code
    }
    // Mapped files.

    /// Whether `ondol=pmem` maps what it can of this database.
    pub fn mapped(&self) -> bool {
        self.window.is_some()
    }

    /// A lock changes (the window's P2 and P3).
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
    /// A lock was taken, above `before`: whether others may have written what the next syncs must cover (the window's P4).
    fn take_notice(&mut self, before: c_int) {
        let recovers = self.level >= ffi::LOCK_EXCLUSIVE && before < ffi::LOCK_RESERVED;
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
        self.window.as_mut().filter(|_| self.level >= ffi::LOCK_SHARED)
    }
    /// The journal's window, if SQLite's lock is at least this.
    pub fn journal_window(&mut self, level: c_int) -> Option<&mut Window> {
        let journal = self.journal.as_mut().filter(|_| self.level >= level);
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
        let mapped = out & ffi::OPEN_READONLY == 0 && self.level >= ffi::LOCK_RESERVED;
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
        if self.level < ffi::LOCK_SHARED {
            return Ok(false);
        }
        let before = self.level;
        let got = self.below.lock(ffi::LOCK_EXCLUSIVE);
        let result = if got == ffi::OK { act(self).map(|()| true) } else { Ok(false) };
        if before < ffi::LOCK_EXCLUSIVE {
            // Also after a failure, which may leave a PENDING lock that keeps others out.
            check(self.below.unlock(before))?;
        }
        result
    }

    // Reading and writing.

    pub fn read(&mut self, buf: &mut [u8], offset: i64) -> c_int {
        if self.window().is_some_and(|window| window.read(buf, offset as u64)) {
            care::hide(buf, offset as u64);
            return ffi::OK;
        }
        let code = self.below.read(buf.as_mut_ptr().cast(), buf.len() as c_int, offset);
        if code == ffi::OK || code == ffi::IOERR_SHORT_READ {
            care::hide(buf, offset as u64);
        }
        code
    }

    pub fn write(&mut self, buf: &[u8], offset: i64) -> c_int {
        let last_read = self.last_read.take();
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
    pub fn shm_lock(&mut self, at: c_int, n: c_int, flags: c_int) -> c_int {
        const WRITE_LOCK: c_int = 0;
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

    // Checkpoints.

    /// A counter in the WAL index, at a place that the format of the index promises.
    fn index_u32(&self, at: usize) -> Option<u64> {
        if self.index.is_null() {
            return None;
        }
        // SAFETY: the region is 32 KiB, aligned to a page, and stays mapped until `shm_unmap` resets the pointer;
        // the word may be written by others, hence the atomic load.
        let word = unsafe { &*self.index.add(at).cast::<std::sync::atomic::AtomicU32>() };
        Some(u64::from(word.load(std::sync::atomic::Ordering::Acquire)))
    }

    /// SQLite is about to backfill: WAL synced, its frames up to `nBackfillAttempted` to go, READ_LOCK(0) exclusive.
    pub fn checkpoint_starts(&mut self) {
        let before = self.target.counts.checkpoints.fetch_add(1, Relaxed);
        let syncs = self.target.choice.syncs.swap(0, Relaxed);
        self.last_read = None;
        self.backfilling = true;
        self.shareable = self.plan(syncs);
        // A process that ends with its first checkpoint has nothing to gain.
        if self.settings.mode == Mode::Auto && before > 0 {
            self.consider(syncs);
        }
    }
    pub fn checkpoint_ends(&mut self) {
        // Readers go to the database from here on.
        self.fence();
        self.backfilling = false;
        self.shareable = None;
        self.last_read = None;
    }

    /// What can be shared by this checkpoint. Whatever cannot be found out costs a chance to share, nothing else.
    fn plan(&self, syncs: u64) -> Option<Shareable> {
        // SAFETY: D1.
        let wal = unsafe { self.wal.as_ref() }?;
        let layout = wal.layout?;
        if matches!(self.settings.mode, Mode::Copy | Mode::Pmem) || self.target.refusal().is_some() {
            return None;
        }
        let (from, committed, work) = self.work()?;
        let entries = wal::entries(&wal.below, layout, from, committed).ok()?;
        let runs = match self.settings.mode {
            Mode::Auto => {
                let mut runs = plan::runs(&entries, work, 1);
                let least = self.judge(&runs, layout, syncs)?.least_blocks?;
                runs.retain(|run| blocks(run, layout) >= least);
                runs
            }
            _ => {
                let least = self.settings.least_blocks.unwrap_or(LEAST_BLOCKS);
                plan::runs(&entries, work, (u64::from(least) * BLOCK).div_ceil(layout.page()) as u32)
            }
        };
        if runs.is_empty() {
            return None;
        }
        Some(Shareable { runs, layout, source: sharing::source(&self.our_wal()).ok()? })
    }

    /// What the checkpoint that begins is to do: the frames from where on, and the committed ones, and how many.
    fn work(&self) -> Option<(u64, u64, Work)> {
        const COMMITTED: usize = 16;
        const PAGES: usize = 20;
        const BACKFILLED: usize = 96;
        const ATTEMPTED: usize = 128;
        let (from, to) = (self.index_u32(BACKFILLED)?, self.index_u32(ATTEMPTED)?);
        // Read last: a writer may commit meanwhile, and SQLite knows no more commits than are seen here.
        let (pages, committed) = (self.index_u32(PAGES)? as u32, self.index_u32(COMMITTED)?);
        let work = Work { frames: to.checked_sub(from)? as usize, pages };
        (work.frames > 0 && to <= committed).then_some((from, committed, work))
    }

    /// The verdict on runs that sharing could spare, where they are worth a measurement.
    fn judge(&self, runs: &[Run], layout: Layout, syncs: u64) -> Option<Verdict> {
        /// Blocks whose copying takes less time than finding out about it.
        const WORTHWHILE: u32 = 64;
        let spared = || runs.iter().map(|run| blocks(run, layout));
        if spared().sum::<u32>() < WORTHWHILE {
            return None;
        }
        let known = measure::costs(sharing::folder(&self.path)).ok()?;
        match &*known {
            Ok(costs) => {
                let verdict = verdict(costs, spared(), syncs, self.settings.least_blocks.unwrap_or(1));
                *self.target.choice.verdict.lock().unwrap_or_else(PoisonError::into_inner) = Some(verdict);
                Some(verdict)
            }
            Err(why) => {
                self.target.refuse(&self.path, why.clone());
                None
            }
        }
    }

    /// `ondol=auto`, and the WAL is SQLite's: whether it pays to take the database into care when it begins anew.
    fn consider(&self, syncs: u64) {
        let choice = &self.target.choice;
        // SAFETY: D1.
        let stock = unsafe { self.wal.as_ref() }.is_some_and(|wal| wal.layout.is_none());
        // Under EXCLUSIVE it is the last checkpoint, or nobody reads the WAL index.
        let late = self.level >= ffi::LOCK_EXCLUSIVE || choice.refused.load(Relaxed) >= REFUSALS;
        if !stock || late || self.target.refusal().is_some() {
            return;
        }
        let Some((from, committed, work)) = self.work() else { return };
        let Ok(head) = care::header(&self.below) else { return };
        let (true, Some(layout)) = (self.may_care(head), Layout::new(head.page)) else { return };
        let Ok(len) = Medium::len(&self.below) else { return };
        // What places these frames would have in our layout.
        let mut places = Places::new((len / head.page) as u32);
        let entries: Vec<Entry> = (from..committed)
            .map_while(|frame| self.index_page(frame))
            .map(|page| {
                let place = places.next(page);
                places.note(page, place);
                Entry::new(page, place)
            })
            .collect();
        let runs = plan::runs(&entries, work, 1);
        let pays = self.judge(&runs, layout, syncs).is_some_and(|verdict| verdict.share());
        choice.care.store(pays, Relaxed);
    }

    /// The page of a frame (from 0), where the first region of the WAL index has it.
    fn index_page(&self, frame: u64) -> Option<u32> {
        const HEADER: usize = 136;
        const FRAMES: u64 = 4096 - HEADER as u64 / 4;
        (frame < FRAMES)
            .then(|| self.index_u32(HEADER + 4 * frame as usize))
            .flatten()
            .map(|page| page as u32)
    }

    /// Whether the page at `offset`, read from `place`, is in the database by sharing; shares its run when it is first.
    fn shared(&mut self, buf: &[u8], offset: u64, place: u64) -> bool {
        let Some(Shareable { runs, layout, source }) = &mut self.shareable else { return false };
        let size = layout.page();
        if buf.len() as u64 != size || !offset.is_multiple_of(size) {
            return false;
        }
        let Ok(page) = u32::try_from(offset / size + 1) else { return false };
        let after = runs.partition_point(|run| run.page <= page);
        let Some(run) = after.checked_sub(1).map(|i| &mut runs[i]) else { return false };
        if run.place_of(page) != Some(place) {
            return false;
        }
        if run.state == State::Waiting {
            // Sharing late, after a page of the run was written otherwise, would do no harm, but means that the plan
            // is not SQLite's.
            run.state = State::Copied;
            let range = Range { from: layout.place_at(place), to: offset, len: u64::from(run.pages) * size };
            if page == run.page && self.target.share(&self.path, &self.below, source, range, buf) {
                run.state = State::Shared;
                self.unsynced = true;
                self.target.counts.runs_shared.fetch_add(1, Relaxed);
            }
        }
        if run.state == State::Shared {
            self.target.counts.pages_shared.fetch_add(1, Relaxed);
        }
        run.state == State::Shared
    }

    // The WAL, and our care for the database.

    /// Whether this database shall be taken into our care by this connection.
    fn wanted(&self, header: care::Header) -> bool {
        let asked = match self.settings.mode {
            Mode::Copy | Mode::Pmem => false,
            Mode::Remap => true,
            Mode::Auto => self.target.choice.care.load(Relaxed),
        };
        asked && self.may_care(header)
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
        let (below, out, layout) = if let Some((below, out)) = opened {
            (below, out, Layout::new(head.page))
        } else if head.marked {
            let Some(layout) = Layout::new(head.page) else {
                let error = io::Error::other("it is marked as ours, but has small pages");
                return Err(report("use", &self.path, &error, ffi::CANTOPEN));
            };
            if self.below.device_characteristics() & ffi::IOCAP_POWERSAFE_OVERWRITE == 0 {
                let error =
                    io::Error::other("psow=0 needs SQLite's own layout: run PRAGMA ondol_detach without it");
                return Err(report("use", &self.path, &error, ffi::CANTOPEN));
            }
            let (below, out) = self.open_our_wal(flags)?;
            match wal::format(&below) {
                Ok(Format::Empty | Format::Ours) => (below, out, Some(layout)),
                Ok(Format::Foreign) => {
                    below.close();
                    let error =
                        io::Error::other("its format is not known: another version of this library wrote it");
                    return Err(report("use", &self.our_wal(), &error, ffi::CANTOPEN));
                }
                Err(error) => {
                    below.close();
                    return Err(report("read", &self.our_wal(), &error, ffi::CANTOPEN));
                }
            }
        } else {
            // SAFETY: as above; SQLite keeps the name.
            let (below, out) = unsafe { Below::open(self.vfs, name, None, flags)? };
            (below, out, None)
        };
        let writer = Writer::default();
        // A WAL in our layout is the kernel's, as is one that cannot be opened twice.
        let window = if self.mapped() && layout.is_none() && out & ffi::OPEN_READONLY == 0 {
            Named::open(&stock, Kind::Wal).ok()
        } else {
            None
        };
        self.wal = Box::into_raw(Box::new(Wal { below, layout, writer, database: self, window }));
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
                // K2, and the name of our WAL with it.
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
            // SAFETY: the VFS below stays registered.
            return unsafe {
                (*self.vfs).delete.map_or(ffi::ERROR, |delete| delete(self.vfs, stock.as_ptr(), sync_folder))
            };
        }
        if self.level < ffi::LOCK_EXCLUSIVE || !self.wal.is_null() {
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

    /// Whether this connection's WAL exists, for SQLite's question before it opens it (under SHARED).
    pub fn wal_exists(&self) -> io::Result<bool> {
        let ours = care::header(&self.below)?.marked;
        below::exists(self.vfs, &if ours { self.our_wal() } else { self.stock_wal() })
    }

    // Pragmas.

    /// `PRAGMA ondol_detach`: the database becomes stock while the connection stays. The error says what to do.
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
        let stock = self.stock_wal();
        let done = self.alone(|db| {
            if wal.below.len()? > 0 {
                return Err(io::Error::other(
                    "the WAL is not empty; run PRAGMA wal_checkpoint(TRUNCATE) outside of any transaction first",
                ));
            }
            // A `-wal` that someone put here belongs to no state of this database.
            below::delete(db.vfs, &stock, true)?;
            let name = Name::new(&stock);
            let ptr = name.ptr();
            let flags = ffi::OPEN_READWRITE | ffi::OPEN_CREATE | ffi::OPEN_WAL;
            // SAFETY: a name of ours, kept with the file.
            let (below, _) = unsafe { Below::open(db.vfs, ptr, Some(name), flags) }
                .map_err(|code| io::Error::other(below::Code(code)))?;
            if let Err(error) = db.let_go() {
                below.close();
                return Err(error);
            }
            std::mem::replace(&mut wal.below, below).close();
            wal.layout = None;
            db.detached = true;
            Ok(())
        });
        match done {
            Ok(true) => Ok("detached".into()),
            Ok(false) => Err("ondol_detach: other connections have this database open".into()),
            Err(error) => Err(format!("ondol_detach: {error}")),
        }
    }

    /// What `PRAGMA ondol_status` and the table of that name show.
    pub fn status(&self) -> Facts {
        // SAFETY: D1.
        let wal = unsafe { self.wal.as_ref() };
        let layout = match wal {
            None => "unopened",
            Some(wal) if wal.layout.is_some() => "ondol",
            Some(_) => "sqlite",
        };
        let mode = match self.settings.mode {
            Mode::Copy => "copy",
            Mode::Remap => "remap",
            Mode::Auto => "auto",
            Mode::Pmem => "pmem",
        };
        let Counts { checkpoints, runs_shared, pages_shared, pages_copied } = &self.target.counts;
        let [checkpoints, runs, shared, copied] =
            [checkpoints, runs_shared, pages_shared, pages_copied].map(|n| n.load(Relaxed));
        let page = care::header(&self.below).map_or(0, |h| h.page);
        let sharing = match (self.target.refusal(), runs) {
            (Some(why), _) => why.to_string(),
            (None, 0) => "not tried yet".to_string(),
            (None, _) => "works".to_string(),
        };
        let mut facts: Facts = vec![
            ("version", env!("CARGO_PKG_VERSION").into()),
            ("database", self.path.to_string_lossy().into_owned().into()),
            ("mode", mode.into()),
            ("wal_layout", layout.into()),
            ("mechanism", "FICLONERANGE".into()),
            ("sharing", sharing.into()),
            ("decision", self.decision().into()),
            ("least_blocks", u64::from(self.least_blocks()).into()),
            ("checkpoints", checkpoints.into()),
            ("runs_shared", runs.into()),
            ("pages_shared", shared.into()),
            ("pages_copied", copied.into()),
            ("bytes_shared", (shared * page).into()),
            ("bytes_copied", (copied * page).into()),
            ("mean_run_pages", if runs == 0 { 0.0 } else { shared as f64 / runs as f64 }.into()),
        ];
        if let Some(costs) = measure::known(sharing::folder(&self.path)) {
            facts.extend(costs.named().map(|(name, us)| (name, us.into())));
        }
        self.mapping_facts(&mut facts);
        facts
    }

    /// What is mapped, and what that promises.
    fn mapping_facts(&self, facts: &mut Facts) {
        if self.settings.mode != Mode::Pmem {
            facts.push(("promise", "what SQLite promises on files".into()));
            return;
        }
        // SAFETY: D1.
        let wal = unsafe { self.wal.as_ref() }.and_then(|wal| wal.window.as_ref());
        let windows: Vec<&Window> =
            self.window.iter().chain(self.journal.iter().chain(wal).map(|named| &named.window)).collect();
        let medium = match (self.window.as_ref(), self.window.as_ref().and_then(Window::promise)) {
            (None, _) => "nothing is mapped: the database is read-only".to_string(),
            (_, Some(Promise::Fence)) => "persistent memory: mapped with MAP_SYNC".to_string(),
            (_, Some(Promise::Sync)) => "mapped page cache: MAP_SYNC is refused here".to_string(),
            (Some(window), None) => match window.refusal() {
                Some(why) => format!("nothing is mapped: {why}"),
                None => "nothing is mapped yet".to_string(),
            },
        };
        let promise = match self.window.as_ref().and_then(Window::promise) {
            Some(Promise::Fence) => {
                "what SQLite promises on files: a sync is a fence where all was stored by this connection, else the kernel's too"
            }
            _ => "what SQLite promises on files: every sync is the kernel's",
        };
        let mapped = [
            ("database", self.window.as_ref()),
            ("journal", self.journal.as_ref().map(|named| &named.window)),
            ("wal", wal.map(|named| &named.window)),
        ]
        .into_iter()
        .filter(|(_, window)| window.is_some_and(|window| window.promise().is_some()))
        .map(|(name, _)| name)
        .collect::<Vec<_>>()
        .join(", ");
        let mut counts = self.past;
        windows.iter().for_each(|window| counts += window.counts);
        facts.extend([
            ("medium", medium.into()),
            ("mapped", mapped.into()),
            ("stores", ground::stores().into()),
            ("bytes_stored", counts.bytes_stored.into()),
            ("bytes_written", counts.bytes_written.into()),
            ("fences", counts.fences.into()),
            ("kernel_syncs", counts.kernel_syncs.into()),
            ("promise", promise.into()),
        ]);
    }

    fn verdict(&self) -> Option<Verdict> {
        *self.target.choice.verdict.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shortest run that is shared as things are; 0 where none is.
    fn least_blocks(&self) -> u32 {
        match self.settings.mode {
            Mode::Copy | Mode::Pmem => 0,
            Mode::Remap => self.settings.least_blocks.unwrap_or(LEAST_BLOCKS),
            Mode::Auto => self.verdict().and_then(|v| v.least_blocks).unwrap_or(0),
        }
    }

    /// What is done, and why.
    fn decision(&self) -> String {
        match (self.settings.mode, self.target.refusal(), self.verdict()) {
            (Mode::Copy | Mode::Pmem, ..) => "copy: as asked".into(),
            (_, Some(_), _) => "copy: nothing can be shared".into(),
            (Mode::Remap, ..) => "share: as asked".into(),
            (Mode::Auto, _, None) => "copy: there was little to share so far".into(),
            (Mode::Auto, _, Some(Verdict { least_blocks, saved_us, lost_us })) => {
                let what = if least_blocks.is_some() { "share" } else { "copy" };
                let more = if self.target.choice.refused.load(Relaxed) >= REFUSALS {
                    "; others have the database open so its WAL stays SQLite's"
                } else {
                    ""
                };
                format!(
                    "{what}: sharing saves a checkpoint {saved_us:.0} µs and costs its commits {lost_us:.0} µs{more}"
                )
            }
        }
    }
}

/// A connection's WAL.
pub struct Wal {
    pub below: Below,
    /// None: SQLite's own layout.
    layout: Option<Layout>,
    writer: Writer,
    /// D1.
    database: *mut Database,
    /// `ondol=pmem`: the mapping, of a WAL in SQLite's layout.
    window: Option<Named>,
}

impl Wal {
    pub fn close(self) -> c_int {
        // SAFETY: D1.
        let database = unsafe { &mut *self.database };
        database.wal = std::ptr::null_mut();
        if let Some(mut named) = self.window {
            named.window.fence();
            database.past += named.window.counts;
        }
        self.below.close()
    }

    pub fn read(&mut self, buf: &mut [u8], offset: i64) -> c_int {
        let Some(layout) = self.layout else {
            if self.window().is_some_and(|window| window.read(buf, offset as u64)) {
                return ffi::OK;
            }
            return self.below.read(buf.as_mut_ptr().cast(), buf.len() as c_int, offset);
        };
        // SAFETY: D1.
        let last_read = unsafe { &mut (*self.database).last_read };
        *last_read = None;
        match wal::read(&self.below, layout, buf, offset as u64) {
            Ok((n, place)) if n == buf.len() => {
                if layout.whole_page(offset as u64..offset as u64 + n as u64).is_some() {
                    *last_read = place.map(|place| (place, buf.as_ptr() as usize));
                }
                ffi::OK
            }
            Ok(_) => ffi::IOERR_SHORT_READ,
            Err(error) => below::code_of(&error, ffi::IOERR),
        }
    }

    pub fn write(&mut self, buf: &[u8], offset: i64) -> c_int {
        // SAFETY: D1.
        if unsafe { (*self.database).broken } {
            return ffi::IOERR;
        }
        if self.layout.is_none() && offset == 0 {
            // A new WAL header: no frame before it counts any more, so a stock WAL ends here.
            if let Err(code) = self.begin_ours(buf) {
                return code;
            }
        }
        match self.layout {
            None => {
                if self.window().is_some_and(|window| window.store(buf, offset as u64)) {
                    return ffi::OK;
                }
                let code = self.below.write(buf.as_ptr().cast(), buf.len() as c_int, offset);
                if let Some(named) = &mut self.window {
                    named.window.written(offset as u64, buf.len(), code == ffi::OK);
                }
                code
            }
            Some(layout) => {
                if offset == 0 && page_size(buf).is_some_and(|page| page != layout.page()) {
                    let error = io::Error::other("the page size changed under the WAL");
                    // SAFETY: D1.
                    let path = unsafe { (*self.database).our_wal() };
                    return report("write", &path, &error, ffi::IOERR);
                }
                // SAFETY: D1.
                let database = unsafe { &(*self.database).below };
                let pages = || Ok((database.len()? / layout.page()) as u32);
                match self.writer.write(&self.below, layout, buf, offset as u64, pages) {
                    Ok(()) => ffi::OK,
                    Err(error) => below::code_of(&error, ffi::IOERR),
                }
            }
        }
    }

    /// Moves from a stock WAL to ours, where that is wanted and the connection alone.
    fn begin_ours(&mut self, header: &[u8]) -> Result<(), c_int> {
        // SAFETY: D1.
        let database = unsafe { &mut *self.database };
        let head =
            care::header(&database.below).map_err(|e| report("read", &database.path, &e, ffi::IOERR))?;
        if head.marked {
            // An earlier attempt failed after it wrote the mark: a stock WAL would not be read again (K4).
            let error =
                io::Error::other("it is marked as ours, but this connection's WAL is not; open it anew");
            return Err(report("write the WAL of", &database.path, &error, ffi::IOERR));
        }
        if !database.wanted(head) || page_size(header) != Some(head.page) {
            return Ok(());
        }
        match database.take(Some(&self.below)) {
            Ok(None) => {
                // Each attempt keeps others out for a moment: auto does not insist.
                let choice = &database.target.choice;
                if choice.refused.fetch_add(1, Relaxed) + 1 >= REFUSALS {
                    choice.care.store(false, Relaxed);
                }
                Ok(())
            }
            Ok(Some((below, _))) => {
                std::mem::replace(&mut self.below, below).close();
                self.layout = Layout::new(head.page);
                self.writer = Writer::default();
                Ok(())
            }
            Err(error) => Err(report("take care of", &database.path, &error, ffi::IOERR)),
        }
    }

    pub fn sync(&mut self, flags: c_int) -> c_int {
        // SAFETY: D1.
        unsafe { &(*self.database).target }.choice.syncs.fetch_add(1, Relaxed);
        // SAFETY: D1.
        let header = unsafe { (*self.database).index_header() };
        self.notice(header, false);
        if self.window.as_mut().is_some_and(|named| !named.window.sync()) {
            return ffi::OK;
        }
        let code = self.below.sync_as(flags);
        if code == ffi::OK
            && let Some(named) = &mut self.window
        {
            named.window.synced();
        }
        code
    }

    /// The WRITE lock was taken or let go (`ours`), or a sync is due.
    fn notice(&mut self, header: Account, ours: bool) {
        if let Some(named) = &mut self.window {
            named.window.notice(Some(header), ours);
        }
    }

    /// The window, under the database's SHARED lock, which keeps the file at its path.
    fn window(&mut self) -> Option<&mut Window> {
        // SAFETY: D1.
        let level = unsafe { (*self.database).level };
        self.window.as_mut().filter(|_| level >= ffi::LOCK_SHARED).map(|named| &mut named.window)
    }

    pub fn truncate(&mut self, len: i64) -> c_int {
        match self.layout {
            None => {
                if let Some(named) = &mut self.window {
                    named.window.changed();
                }
                self.below.truncate(len)
            }
            Some(layout) => match wal::set_len(&self.below, layout, len as u64) {
                Ok(()) => ffi::OK,
                Err(error) => below::code_of(&error, ffi::IOERR),
            },
        }
    }

    pub fn file_size(&mut self, out: &mut i64) -> c_int {
        match self.layout {
            None => self.below.file_size(out),
            Some(layout) => match wal::len(&self.below, layout) {
                Ok(len) => {
                    *out = len as i64;
                    ffi::OK
                }
                Err(error) => below::code_of(&error, ffi::IOERR),
            },
        }
    }
}

/// The page size that a WAL header names.
fn page_size(header: &[u8]) -> Option<u64> {
    let bytes = header.get(8..12)?.try_into().ok()?;
    Some(u64::from(u32::from_be_bytes(bytes)))
}
