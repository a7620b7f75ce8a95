//! Pages of the WAL that were exchanged with the database's: where they are, and how they come back.
//!
//! Exchanging gives the database the WAL's blocks and the WAL the database's, so the WAL keeps blocks of its
//! own and a later commit need not allocate any. But where a frame's page stood there is then the database's
//! older page. The entry says so: it is *away*.
//!
//! ```text
//!            before            exchanged          brought home
//! WAL        place of f: new   place of f: old    place of f: new
//! database   page of f:  old   page of f:  new    page of f:  old, about to be written
//! ```
//! - **X1** An away entry means: the frame's page is in its place or in the database at its page. Its content
//!   decides, by SQLite's checksum, which the entry holds and which covers the content and the checksum of
//!   the frame before, and by a CRC-32C of the page in the entry. SQLite's alone tells torn from whole, but
//!   not every page from its older version: it is a sum, in which small changes of neighbouring numbers
//!   cancel out, such as of (6, 7, 8) to (3, 10, 11) in a list of free pages.
//! - **X2** A frame is announced, its entry away and synced, before its page is exchanged for the first time.
//! - **X3** A frame's page is brought home before anything else is written to that page of the database, or
//!   cuts it off. So whatever prefix of exchanges and returns a crash leaves, and whatever was written after
//!   them, X1 holds: the block that has the content is never written to.
//! - **X4** A page is brought home only when this checkpoint backfills a newer version of it, or cuts the
//!   database before it: until then readers may look for it in the database.
//! - **X5** An away frame is in no run: neither exchanged again, nor shared, since where it is, is not known.
//! - **X6** A frame that is written anew is not away; a WAL that begins anew disowns all entries by its salt,
//!   and begins only after the database was synced, exchanges with it.
use crate::layout::{AWAY_AT, ENTRY, HEADER, HEADER_AT, Layout};
use crate::medium::Medium;
use crate::plan::{self, Run, Work};
use crate::sharing::Range;
use crate::wal::{self, Entry};
use ondol_base::sim::mutated;
use std::collections::HashMap;
use std::io;

/// Where a frame's page was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Wal,
    Database,
    /// It fails its checksum on both sides, as a torn frame does.
    Neither,
}

/// A WAL in our layout and its database.
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    pub wal: &'a dyn Medium,
    pub database: &'a dyn Medium,
    pub layout: Layout,
}

impl Pair<'_> {
    /// Where the page of `frame` belongs in the database.
    fn page_at(&self, entry: &Entry) -> u64 {
        u64::from(entry.page()).saturating_sub(1) * self.layout.page()
    }

    /// Reads the page of an away frame from where it is (X1); what its place has, where it is on neither
    /// side.
    pub fn read(&self, frame: u64, entry: &Entry, page: &mut [u8]) -> io::Result<Side> {
        let mut header = [0; HEADER as usize];
        self.wal.read_at(&mut header, HEADER_AT)?;
        let before = match frame.checked_sub(1) {
            // Behind the header's own checksum.
            None => [[24, 25, 26, 27], [28, 29, 30, 31]].map(|at| at.map(|at: usize| header[at])),
            Some(before) => match wal::entries(self.wal, self.layout, before, frame)?.first() {
                Some(entry) => entry.sums(),
                None => return Ok(Side::Neither),
            },
        };
        let before = before.map(u32::from_be_bytes);
        let big_endian = header[3] & 1 == 1;
        let holds = |page: &[u8]| {
            let after = checksum(big_endian, page, checksum(big_endian, entry.summed(), before));
            after.map(u32::to_be_bytes) == entry.sums()
                && (entry.marks(page) || mutated("exchange_by_sum_alone"))
        };
        fill(self.wal, page, self.layout.place_at(u64::from(entry.place())))?;
        if holds(page) {
            return Ok(Side::Wal);
        }
        let mut other = vec![0; page.len()];
        fill(self.database, &mut other, self.page_at(entry))?;
        if !holds(&other) || mutated("exchange_redirect_forgotten") {
            return Ok(Side::Neither);
        }
        page.copy_from_slice(&other);
        Ok(Side::Database)
    }

    /// Announces that the frames of `runs` may be exchanged (X2). `entries` are all that are committed, as
    /// they stand in the file; nobody writes to them, since this is the only checkpoint.
    pub fn announce(&self, entries: &mut [Entry], work: Work, runs: &[Run]) -> io::Result<()> {
        if mutated("exchange_unannounced") {
            return Ok(());
        }
        let mut changed = work.to..work.from;
        let mut page = vec![0; self.layout.page() as usize];
        for (frame, entry) in (0..work.to).zip(entries.iter_mut()).skip(work.from as usize) {
            let run = plan::run_of(runs, entry.page());
            if run.is_some_and(|run| run.place_of(entry.page()) == Some(u64::from(entry.place()))) {
                fill(self.wal, &mut page, self.layout.place_at(u64::from(entry.place())))?;
                entry.set_away(&page);
                changed = changed.start.min(frame)..frame + 1;
            }
        }
        wal::rewrite(self.wal, self.layout, entries, changed)?;
        if mutated("exchange_announcement_unsynced") { Ok(()) } else { self.wal.sync() }
    }

    /// Whether any frame of this WAL may be away, whether it counts or not.
    pub fn any_away(&self) -> io::Result<bool> {
        let frames = self.layout.frames(wal::len(self.wal, self.layout)?).unwrap_or(0);
        Ok(wal::entries(self.wal, self.layout, 0, frames)?.iter().any(Entry::away))
    }

    /// The ranges to exchange so that the checkpoint that begins may write to the database (X3, X4).
    /// `entries` are all that are committed. (What counts for X4 is a newer version among those that are
    /// backfilled: whether SQLite writes that one, or leaves the page out since there is a still newer one,
    /// no reader looks for the old one any more.)
    pub fn to_bring_home(&self, entries: &[Entry], work: Work) -> io::Result<Vec<Range>> {
        if mutated("exchange_never_returns") {
            return Ok(Vec::new());
        }
        let backfilled = (0..work.to).zip(entries).skip(work.from as usize);
        let newer: HashMap<u32, u64> = backfilled.map(|(frame, entry)| (entry.page(), frame)).collect();
        let whole = work.to == work.committed;
        let mut found = Vec::new();
        for (frame, entry) in (0..).zip(entries).filter(|(_, entry)| entry.away()) {
            let written = newer.get(&entry.page()).is_some_and(|newer| *newer > frame);
            let cut = whole && entry.page() > work.pages && !mutated("exchange_cut_off");
            if !written && !cut && !mutated("exchange_returns_early") {
                continue;
            }
            let mut page = vec![0; self.layout.page() as usize];
            match self.read(frame, entry, &mut page)? {
                Side::Wal => (),
                Side::Database => found.push((entry.page(), entry.place())),
                Side::Neither => return Err(missing(frame, entry)),
            }
        }
        found.sort_unstable();
        let range = |page: u32, place: u32, pages: u64| Range {
            from: self.layout.place_at(u64::from(place)),
            to: u64::from(page.saturating_sub(1)) * self.layout.page(),
            len: pages * self.layout.page(),
        };
        let mut ranges: Vec<Range> = Vec::new();
        for (page, place) in found {
            let next = range(page, place, 1);
            match ranges.last_mut() {
                Some(last) if last.to + last.len == next.to && last.from + last.len == next.from => {
                    last.len += next.len;
                }
                _ => ranges.push(next),
            }
        }
        Ok(ranges)
    }
}

/// What must be on one side, and is on neither.
pub fn missing(frame: u64, entry: &Entry) -> io::Error {
    io::Error::other(format!(
        "the page of WAL frame {frame}, which was exchanged, is neither in the WAL nor in the database at page {}",
        entry.page()
    ))
}

/// Reads what there is; the rest is zero.
pub fn fill(file: &dyn Medium, buf: &mut [u8], offset: u64) -> io::Result<()> {
    let n = file.read_at(buf, offset)?;
    buf[n..].fill(0);
    Ok(())
}

/// SQLite's checksum of `bytes`, a multiple of 8, after what it was before them.
pub fn checksum(big_endian: bool, bytes: &[u8], before: [u32; 2]) -> [u32; 2] {
    let word = if big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
    let [mut one, mut two] = before;
    for [a, b, c, d, e, f, g, h] in bytes.as_chunks().0 {
        one = one.wrapping_add(word([*a, *b, *c, *d])).wrapping_add(two);
        two = two.wrapping_add(word([*e, *f, *g, *h])).wrapping_add(one);
    }
    [one, two]
}

const _: () = assert!(AWAY_AT < ENTRY);
