//! A connection's WAL.
use super::Database;
use super::checkpoint::REFUSALS;
use crate::below::{self, Below, report};
use crate::care;
use crate::chain::Chain;
use crate::exchange::Pair;
use crate::ffi;
use crate::journal::Named;
use crate::layout::{Layout, VERSION};
use crate::medium::Medium;
use crate::settings::Mode;
use crate::wal::{self, WalWriter};
use crate::window::{Account, Window};
use std::ffi::c_int;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// A connection's WAL.
pub struct Wal {
    pub below: Below,
    /// None: SQLite's own layout.
    pub(super) layout: Option<Layout>,
    /// Of our layout (wal/T1).
    pub(super) version: u32,
    pub(super) writer: WalWriter,
    /// The frames that count, for a connection that is alone from the start.
    pub(super) chain: Chain,
    /// database/D1.
    pub(super) database: *mut Database,
    /// `ondol=pmem`: the mapping, of a WAL in SQLite's layout.
    pub(super) window: Option<Named>,
}

impl Wal {
    pub fn close(self) -> c_int {
        // SAFETY: database/D1.
        let database = unsafe { &mut *self.database };
        database.wal = std::ptr::null_mut();
        database.has_wal.store(false, Relaxed);
        if let Some(mut named) = self.window {
            named.window.fence();
            database.past += named.window.counts;
        }
        self.below.close()
    }

    /// Whether it is SQLite's own, and not mapped.
    pub fn is_plain(&self) -> bool {
        self.layout.is_none() && self.window.is_none()
    }
    /// Whether a write at `offset` needs nothing of ours.
    pub fn writes_through(&self, offset: i64) -> bool {
        // SAFETY: database/D1.
        offset != 0 && self.is_plain() && unsafe { !(*self.database).broken }
    }

    pub fn read(&mut self, buf: &mut [u8], offset: i64) -> c_int {
        let Some(layout) = self.layout else {
            if self.window().is_some_and(|window| window.read(buf, offset as u64)) {
                return ffi::OK;
            }
            return self.below.read(buf.as_mut_ptr().cast(), buf.len() as c_int, offset);
        };
        // SAFETY: database/D1.
        let database = unsafe { &mut *self.database };
        database.last_read = None;
        let frame = layout.whole_page(offset as u64..offset as u64 + buf.len() as u64);
        let known = match (frame, &database.shareable) {
            (Some(frame), Some(shareable)) => shareable.read(&self.below, frame, buf),
            _ => None,
        };
        let pair = Pair { wal: &self.below, database: &database.below, layout };
        let read = known.unwrap_or_else(|| wal::read(pair, buf, offset as u64));
        match read {
            Ok((n, place)) if n == buf.len() => {
                if frame.is_some() {
                    database.last_read = place.map(|place| (place, buf.as_ptr() as usize));
                }
                ffi::OK
            }
            Ok(_) => ffi::IOERR_SHORT_READ,
            Err(error) => below::code_of(&error, ffi::IOERR),
        }
    }

    pub fn write(&mut self, buf: &[u8], offset: i64) -> c_int {
        // SAFETY: database/D1.
        if unsafe { (*self.database).broken } {
            return ffi::IOERR;
        }
        if offset == 0 {
            // A new WAL header: no frame before it counts any more, so either kind of WAL may end here.
            let begun = if self.layout.is_none() { self.begin_ours(buf) } else { self.begin_stock() };
            if let Err(code) = begun {
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
                    // SAFETY: database/D1.
                    let path = unsafe { (*self.database).our_wal() };
                    return report("write", &path, &error, ffi::IOERR);
                }
                // SAFETY: database/D1.
                let database = unsafe { &(*self.database).below };
                let pages = || Ok((database.len()? / layout.page()) as u32);
                if offset == 0 {
                    // No frame counts any more.
                    self.chain = Chain::default();
                }
                self.chain.in_doubt |= layout.ends_commit(offset as u64, buf);
                match self.writer.write(&self.below, layout, buf, offset as u64, pages) {
                    Ok(()) => ffi::OK,
                    Err(error) => below::code_of(&error, ffi::IOERR),
                }
            }
        }
    }

    /// Moves from a stock WAL to ours, where that is wanted and the connection alone.
    fn begin_ours(&mut self, header: &[u8]) -> Result<(), c_int> {
        // SAFETY: database/D1.
        let database = unsafe { &mut *self.database };
        let head =
            care::header(&database.below).map_err(|e| report("read", &database.path, &e, ffi::IOERR))?;
        if head.marked {
            // An earlier attempt failed after it wrote the mark: a stock WAL would not be read again
            // (care/K4).
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
                self.version = VERSION;
                self.writer = WalWriter::default();
                Ok(())
            }
            Err(error) => Err(report("take care of", &database.path, &error, ffi::IOERR)),
        }
    }

    /// Moves from our WAL to a stock one, where auto has found that sharing does not pay, and the connection
    /// is alone.
    fn begin_stock(&mut self) -> Result<(), c_int> {
        // SAFETY: database/D1.
        let database = unsafe { &mut *self.database };
        let choice = &database.target.choice;
        if database.settings.mode != Mode::Auto
            || choice.care.load(Relaxed)
            || choice.stayed.load(Relaxed) >= REFUSALS
            || !database.writable
        {
            return Ok(());
        }
        let mut stock = None;
        let done = database.alone(|db| {
            stock = Some(db.let_go_with_a_wal()?);
            Ok(())
        });
        if let Some(below) = stock {
            self.become_stock(below);
        }
        match done {
            Ok(true) => Ok(()),
            Ok(false) => {
                // Each attempt keeps others out for a moment.
                database.target.choice.stayed.fetch_add(1, Relaxed);
                Ok(())
            }
            Err(error) => Err(report("let go of", &database.path, &error, ffi::IOERR)),
        }
    }

    /// The database was let go: this file is its WAL, empty, in SQLite's layout.
    pub(super) fn become_stock(&mut self, below: Below) {
        std::mem::replace(&mut self.below, below).close();
        self.layout = None;
        self.writer = WalWriter::default();
        self.chain = Chain::default();
    }

    pub fn sync(&mut self, flags: c_int) -> c_int {
        // SAFETY: database/D1.
        unsafe { &(*self.database).target }.choice.syncs.fetch_add(1, Relaxed);
        // SAFETY: database/D1.
        let header = unsafe { (*self.database).index_header() };
        self.notice(header, false);
        if self.window.as_mut().is_some_and(|named| !named.window.sync()) {
            return ffi::OK;
        }
        let began = Instant::now();
        let code = self.below.sync_as(flags);
        let took = began.elapsed().as_nanos() as u64;
        // SAFETY: database/D1.
        unsafe { &(*self.database).target }.choice.syncs_ns.fetch_add(took, Relaxed);
        if code == ffi::OK
            && let Some(named) = &mut self.window
        {
            named.window.synced();
        }
        code
    }

    /// The WRITE lock was taken or let go (`ours`), or a sync is due.
    pub(super) fn notice(&mut self, header: Account, ours: bool) {
        if let Some(named) = &mut self.window {
            named.window.notice(Some(header), ours);
        }
    }

    /// The window, under the database's SHARED lock, which keeps the file at its path.
    fn window(&mut self) -> Option<&mut Window> {
        // SAFETY: database/D1.
        let level = unsafe { (*self.database).level.get() };
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
