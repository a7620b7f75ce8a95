//! SQLite's WAL on a file in our layout: every operation on SQLite's bytes, done where `layout` and `places`
//! put them.
//!
//! - **T1** Block 0's magic, version and base are written with every WAL header, in one write within one
//!   sector, so a header is never seen without them, and a file without them has no frames. The version is
//!   decided when the database is taken into care, before anybody else can be there, and stays: an older
//!   library looks at it once, when it opens the file.
//! - **T2** A frame's header and its page's place are one entry, written at once within one sector
//!   (sqlite/layout/L4).
//! - **T3** Readers remember nothing. A writer remembers the entries, and before its first frame under a
//!   WRITE lock it compares the last of those that count with the file: an entry's checksum covers all frames
//!   before it and the WAL's salt, so if it is the same, all are.
//! - **T4** Writing a frame changes its own entry and place alone, and no other frame that counts has that
//!   place (places/H1).
//! - **T5** Frames of a WAL that are all in the database, durably, go together. A truncation that a power
//!   failure interrupts may leave some of them (Btrfs makes a long one durable in steps), whose older pages
//!   would hide the database's.
//! - **T6** A page that does not come right after its frame's header (a VFS above holds writes back, as
//!   SQLite's crash simulation does) is written to no place of a frame before it: what stands in the file as
//!   the frame's entry may be of an earlier WAL, or nothing. If its place is not the one that follows from
//!   the frames before (places/H2), the page gets another one, without a page number, and goes on to the
//!   right one if the header comes under the same lock.
use crate::exchange::{self, Pair, Side};
use crate::layout::{
    AWAY_AT, BASE_AT, ENTRY, FRAME_HEADER, HEADER, HEADER_AT, Layout, MAGIC, PLACE_AT, PREAMBLE, Piece, SPAN,
    VERSION, WITHOUT_EXCHANGE,
};
use crate::medium::Medium;
use crate::places::Places;
use ondol_base::crc::crc32c;
use ondol_base::sim::mutated;
use std::io;

/// Where a WAL's header has the salts that its frames have.
pub const SALTS: std::ops::Range<usize> = 16..24;

/// What block 0 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Nothing durable: a library that knew no exchange made or emptied it.
    Empty,
    /// Of this version, which is known.
    Ours(u32),
    /// Of another version, or not ours at all.
    Foreign,
}

pub fn format(file: &dyn Medium) -> io::Result<Format> {
    let mut head = [0; HEADER_AT as usize];
    let n = file.read_at(&mut head, 0)?;
    let version = u32::from_le_bytes([head[16], head[17], head[18], head[19]]);
    Ok(if head[..n].iter().all(|b| *b == 0) {
        Format::Empty
    } else if head[..16] == *MAGIC && matches!(version, VERSION | WITHOUT_EXCHANGE) {
        Format::Ours(version)
    } else {
        Format::Foreign
    })
}

/// The version of a WAL; an error where it is not known.
pub fn version(file: &dyn Medium) -> io::Result<u32> {
    match format(file)? {
        Format::Ours(version) => Ok(version),
        Format::Empty => Ok(WITHOUT_EXCHANGE),
        Format::Foreign => {
            Err(io::Error::other("its format is not known: another version of this library wrote it"))
        }
    }
}

fn preamble(version: u32, base: u32) -> [u8; PREAMBLE as usize] {
    let mut head = [0; PREAMBLE as usize];
    head[..16].copy_from_slice(MAGIC);
    head[16..20].copy_from_slice(&version.to_le_bytes());
    head[BASE_AT as usize..][..4].copy_from_slice(&base.to_le_bytes());
    head
}

/// Gives an empty file this version (T1).
pub fn prepare(file: &dyn Medium) -> io::Result<()> {
    file.write_at(&preamble(VERSION, 0), 0)
}

/// A frame's entry; zero beyond the file's end, as SQLite has it for a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry([u8; ENTRY as usize]);

/// An away frame's mark: never zero, and the page's CRC-32C but for its highest bit.
fn away_mark(page: &[u8]) -> u32 {
    1 << 31 | crc32c(page)
}

impl Entry {
    /// An entry without checksums, to try out what places frames would get.
    pub fn new(page: u32, place: u32) -> Entry {
        let mut entry = Entry::default();
        entry.0[..4].copy_from_slice(&page.to_be_bytes());
        entry.0[PLACE_AT as usize..][..4].copy_from_slice(&place.to_le_bytes());
        entry
    }
    fn word(&self, at: usize) -> [u8; 4] {
        [self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]]
    }
    pub fn page(&self) -> u32 {
        u32::from_be_bytes(self.word(0))
    }
    pub fn place(&self) -> u32 {
        u32::from_le_bytes(self.word(PLACE_AT as usize))
    }
    /// The database's pages after this frame, if it is a commit's last; else 0.
    pub fn size(&self) -> u32 {
        u32::from_be_bytes(self.word(4))
    }
    pub fn salts(&self) -> &[u8] {
        &self.0[8..16]
    }
    /// What a checksum covers of the frame's header.
    pub fn summed(&self) -> &[u8] {
        &self.0[..8]
    }
    /// The frame's checksum.
    pub fn sums(&self) -> [[u8; 4]; 2] {
        [self.word(16), self.word(20)]
    }
    /// Whether the frame's page may be in the database (`exchange`).
    pub fn away(&self) -> bool {
        self.mark() != 0
    }
    /// The frame, whose page this is, may be exchanged from now on.
    pub fn set_away(&mut self, page: &[u8]) {
        self.0[AWAY_AT as usize..].copy_from_slice(&away_mark(page).to_le_bytes());
    }
    fn mark(&self) -> u32 {
        u32::from_le_bytes(self.word(AWAY_AT as usize))
    }
    /// Whether an away frame's mark is that of this page.
    pub fn marks(&self, page: &[u8]) -> bool {
        self.mark() == away_mark(page)
    }
    /// Whether both are of one frame, wherever its page is.
    fn same(&self, other: &Entry) -> bool {
        self.0[..AWAY_AT as usize] == other.0[..AWAY_AT as usize]
    }
    fn read(file: &dyn Medium, layout: Layout, frame: u64) -> io::Result<Entry> {
        let mut entry = Entry::default();
        file.read_at(&mut entry.0, layout.entry_at(frame))?;
        Ok(entry)
    }
}

/// Reads SQLite's bytes from `offset`; what is not there is zero, and not counted. With the place of the last
/// page.
///
/// Recovery reads frames with their headers, also such as were never filled, which fail their checksum. A
/// reader of a page alone has its frame from the WAL's index: if that frame is not there, that is an error.
pub fn read(pair: Pair<'_>, buf: &mut [u8], offset: u64) -> io::Result<(usize, Option<u64>)> {
    let Pair { wal: file, layout, .. } = pair;
    let (mut done, mut whole, mut count) = (0, true, 0);
    let mut place = None;
    let alone = layout.whole_page(offset..offset + buf.len() as u64).is_some();
    while done < buf.len() {
        let (piece, n) = layout.piece(offset + done as u64..offset + buf.len() as u64);
        let part = &mut buf[done..done + n as usize];
        let at = match piece {
            Piece::Header(within) => HEADER_AT + within,
            Piece::FrameHeader(frame, within) => layout.entry_at(frame) + within,
            Piece::Page(frame, within) => {
                let entry = Entry::read(file, layout, frame)?;
                if alone && entry.page() == 0 {
                    buf.fill(0);
                    return Ok((0, None));
                }
                let found = u64::from(entry.place());
                place = Some(found);
                if entry.away() {
                    let mut page = vec![0; layout.page() as usize];
                    // Recovery reads a frame with its header, and may find it torn; a reader of the page
                    // alone counts on it.
                    if pair.read(frame, &entry, &mut page)? == Side::Neither && done == 0 {
                        return Err(exchange::missing(frame, &entry));
                    }
                    part.copy_from_slice(&page[within as usize..][..part.len()]);
                    if whole {
                        count += part.len();
                    }
                    done += part.len();
                    continue;
                }
                layout.place_at(found) + within
            }
        };
        let got = file.read_at(part, at)?;
        part[got..].fill(0);
        if whole {
            count += got;
        }
        whole &= got == part.len();
        done += part.len();
    }
    // A frame that was never filled, below the size that SQLite was told: zero, which no checksum fits.
    if !whole && !alone && offset + buf.len() as u64 <= len(file, layout)? {
        count = buf.len();
    }
    Ok((count, place))
}

/// SQLite's size of the WAL, or more: recovery ends at the first frame that fails its checksum.
pub fn len(file: &dyn Medium, layout: Layout) -> io::Result<u64> {
    Ok(layout.virtual_len(file.len()?))
}

/// Disowns the frames of a WAL whose header is at `at`, durably, so that it may be emptied (T5).
pub fn disown(file: &dyn Medium, at: u64) -> io::Result<()> {
    if file.len()? > at && !mutated("wal_truncated_alone") {
        file.write_at(&[0; HEADER as usize], at)?;
    }
    // Also where it is empty: an earlier truncation may not be durable.
    if mutated("care_wal_unsynced") { Ok(()) } else { file.sync() }
}

/// Drops what no frame of a WAL of SQLite's length `len` needs.
pub fn set_len(file: &dyn Medium, layout: Layout, len: u64) -> io::Result<()> {
    let new = match layout.frames(len) {
        None => {
            let kept = if version(file)? == VERSION { PREAMBLE } else { 0 };
            disown(file, HEADER_AT)?;
            kept
        }
        Some(frames) => {
            let last = entries(file, layout, 0, frames)?.iter().map(Entry::place).max();
            last.map_or(layout.entry_at(0), |last| layout.place_at(u64::from(last)) + layout.page())
        }
    };
    // Only ever shorter: a hole would read as frames.
    if new < file.len()? { file.set_len(new) } else { Ok(()) }
}

/// The entries of the frames `from..to` (from 0).
pub fn entries(file: &dyn Medium, layout: Layout, from: u64, to: u64) -> io::Result<Vec<Entry>> {
    let mut found = Vec::with_capacity((to - from) as usize);
    let mut at = from;
    while at < to {
        let end = to.min((at / SPAN + 1) * SPAN);
        let mut bytes = vec![0; ((end - at) * ENTRY) as usize];
        file.read_at(&mut bytes, layout.entry_at(at))?;
        found.extend(bytes.as_chunks().0.iter().map(|bytes| Entry(*bytes)));
        at = end;
    }
    Ok(found)
}

/// Writes committed entries anew: those of the frames `range` of `all`.
pub fn rewrite(
    file: &dyn Medium,
    layout: Layout,
    all: &[Entry],
    range: std::ops::Range<u64>,
) -> io::Result<()> {
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min((at / SPAN + 1) * SPAN);
        let bytes: Vec<u8> = all[at as usize..end as usize].iter().flat_map(|entry| entry.0).collect();
        file.write_at(&bytes, layout.entry_at(at))?;
        at = end;
    }
    Ok(())
}

/// What a connection that writes remembers of a WAL.
#[derive(Debug, Default)]
pub struct WalWriter {
    /// The database's pages when the WAL was begun.
    base: u32,
    entries: Vec<Entry>,
    /// What `base` and `entries` make of the places.
    places: Places,
    /// Nobody else has written since `entries` were compared with the file (T3).
    current: bool,
}

impl WalWriter {
    /// Others may have written: the WRITE lock was let go.
    pub fn doubt(&mut self) {
        self.current = false;
    }

    /// Writes SQLite's bytes at `offset`. `pages` gives the database's size in pages, asked when a WAL
    /// begins.
    pub fn write(
        &mut self,
        file: &dyn Medium,
        layout: Layout,
        buf: &[u8],
        offset: u64,
        pages: impl Fn() -> io::Result<u32>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let (piece, n) = layout.piece(offset + done as u64..offset + buf.len() as u64);
            let part = &buf[done..done + n as usize];
            match piece {
                Piece::Header(0) => {
                    // T1
                    let mut head = [0; (HEADER_AT + HEADER) as usize];
                    head[..PREAMBLE as usize].copy_from_slice(&preamble(version(file)?, pages()?));
                    head[HEADER_AT as usize..][..part.len()].copy_from_slice(part);
                    self.current = false;
                    self.entries.clear();
                    file.write_at(&head[..HEADER_AT as usize + part.len()], 0)?;
                }
                Piece::Header(within) => file.write_at(part, HEADER_AT + within)?,
                Piece::FrameHeader(frame, within) => {
                    self.write_entry(file, layout, frame, within as usize, part)?
                }
                Piece::Page(frame, within) => {
                    let place = self.place_of(file, layout, frame)?;
                    file.write_at(part, layout.place_at(u64::from(place)) + within)?;
                }
            }
            done += part.len();
        }
        Ok(())
    }

    /// Forgets all but the first `frames` entries.
    fn keep(&mut self, frames: usize) {
        self.entries.truncate(frames);
        self.places = Places::new(self.base);
        for entry in &self.entries {
            self.places.note(entry.page(), entry.place());
        }
    }

    /// Makes sure that the entries before `frame` are known (T3).
    fn know(&mut self, file: &dyn Medium, layout: Layout, frame: u64) -> io::Result<()> {
        if self.current && self.entries.len() as u64 >= frame {
            return Ok(());
        }
        let known = frame.min(self.entries.len() as u64);
        let same = match known.checked_sub(1) {
            Some(_) if mutated("wal_writer_believes") => true,
            Some(last) => Entry::read(file, layout, last)?.same(&self.entries[last as usize]),
            None => false,
        };
        if same {
            if known < self.entries.len() as u64 {
                self.keep(known as usize);
            }
        } else {
            let mut base = [0; 4];
            file.read_at(&mut base, BASE_AT)?;
            self.base = u32::from_le_bytes(base);
            self.keep(0);
        }
        let first = self.entries.len() as u64;
        if first < frame {
            let mut header = [0; HEADER as usize];
            file.read_at(&mut header, HEADER_AT)?;
            // All of them, but for a gap (T6).
            for entry in entries(file, layout, first, frame)? {
                if entry.salts() != &header[SALTS] {
                    break;
                }
                self.places.note(entry.page(), entry.place());
                self.entries.push(entry);
            }
            while (self.entries.len() as u64) < frame {
                self.skip(file, layout)?;
            }
        }
        self.current = true;
        Ok(())
    }

    /// Gives the next frame a place, before its header is there (T6).
    fn skip(&mut self, file: &dyn Medium, layout: Layout) -> io::Result<u32> {
        let place = self.places.next(0);
        let entry = Entry::new(0, place);
        // Should it fail, nothing is believed of what is remembered.
        self.current = false;
        file.write_at(&entry.0, layout.entry_at(self.entries.len() as u64))?;
        self.current = true;
        self.places.note(0, place);
        self.entries.push(entry);
        Ok(place)
    }

    /// Where a frame's page goes: SQLite has just written the header before it. A VFS above that holds writes
    /// back may not have (T6).
    fn place_of(&mut self, file: &dyn Medium, layout: Layout, frame: u64) -> io::Result<u32> {
        if self.current
            && let Some(known) = self.entries.get(frame as usize)
        {
            return Ok(known.place());
        }
        self.know(file, layout, frame)?;
        let entry = Entry::read(file, layout, frame)?;
        let place = self.places.next(entry.page());
        if entry.place() != place {
            return self.skip(file, layout);
        }
        // No frame before it has this place (places/H2): the header is there since an earlier lock.
        self.places.note(entry.page(), place);
        self.entries.push(entry);
        Ok(place)
    }

    /// Writes a frame's header, or a part of it, with the page's place (T2).
    fn write_entry(
        &mut self,
        file: &dyn Medium,
        layout: Layout,
        frame: u64,
        within: usize,
        part: &[u8],
    ) -> io::Result<()> {
        self.know(file, layout, frame)?;
        let mut entry = Entry::default();
        if part.len() < FRAME_HEADER as usize {
            entry = Entry::read(file, layout, frame)?;
        }
        entry.0[within..within + part.len()].copy_from_slice(part);
        let at = frame as usize;
        let headless = self.entries.get(at).filter(|known| known.page() == 0).map(Entry::place);
        let place = match self.entries.get(at) {
            Some(known) if known.page() == entry.page() => known.place(),
            _ => {
                if at < self.entries.len() {
                    self.keep(at);
                }
                self.places.next(entry.page())
            }
        };
        entry.0[PLACE_AT as usize..][..4].copy_from_slice(&place.to_le_bytes());
        // What stood here before may have been away (exchange/X6).
        entry.0[AWAY_AT as usize..].fill(0);
        // T6
        if let Some(before) = headless.filter(|before| *before != place) {
            let mut page = vec![0; layout.page() as usize];
            exchange::fill(file, &mut page, layout.place_at(u64::from(before)))?;
            file.write_at(&page, layout.place_at(u64::from(place)))?;
        }
        // Should it fail, nothing is believed of what is remembered.
        self.current = false;
        file.write_at(&entry.0, layout.entry_at(frame))?;
        self.current = true;
        if at < self.entries.len() {
            self.entries[at] = entry;
        } else {
            self.places.note(entry.page(), place);
            self.entries.push(entry);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[derive(Default)]
    struct Memory(RefCell<Vec<u8>>);
    impl Medium for Memory {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            let bytes = self.0.borrow();
            let from = bytes.get(offset as usize..).unwrap_or_default();
            let n = from.len().min(buf.len());
            buf[..n].copy_from_slice(&from[..n]);
            Ok(n)
        }
        fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
            let mut bytes = self.0.borrow_mut();
            let end = offset as usize + buf.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[offset as usize..end].copy_from_slice(buf);
            Ok(())
        }
        fn sync(&self) -> io::Result<()> {
            Ok(())
        }
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.borrow().len() as u64)
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.borrow_mut().resize(len as usize, 0);
            Ok(())
        }
    }

    /// As a crash simulation above drops and reorders writes.
    #[test]
    fn a_page_without_its_header_damages_no_other() {
        let (wal, database) = (Memory::default(), Memory::default());
        let layout = Layout::new(4096).expect("a page size");
        prepare(&wal).expect("a WAL");
        let mut writer = WalWriter::default();
        let frame = |n: u64| HEADER + n * (FRAME_HEADER + 4096);
        let header = |page: u8| [&[0, 0, 0, page], [1; 20].as_slice()].concat();
        let pair = Pair { wal: &wal, database: &database, layout };
        // The byte that a page is full of.
        let page = |n: u64| {
            let mut page = [0; 4096];
            read(pair, &mut page, frame(n) + FRAME_HEADER).expect("read");
            page.iter().all(|b| *b == page[0]).then_some(page[0])
        };
        // New pages, which have homes, and old ones; and in a WAL that begins anew, over entries of the last.
        for base in [1, 9] {
            for by_memory in [true, false] {
                let mut write = |bytes: &[u8], offset: u64| {
                    if !by_memory {
                        writer.doubt();
                    }
                    writer.write(&wal, layout, bytes, offset, || Ok(base)).expect("written");
                };
                write(&[1; HEADER as usize], 0);
                for n in 0..2 {
                    write(&[&header(7 + n), [n + 1; 4096].as_slice()].concat(), frame(n.into()));
                }
                write(&[3; 4096], frame(2) + FRAME_HEADER);
                write(&[5; 4096], frame(4) + FRAME_HEADER);
                // The last part of a page, behind a sync, as SQLite pads a commit without psow.
                write(&[2; 96], frame(1) + FRAME_HEADER + 4000);
                assert_eq!((page(0), page(1)), (Some(1), Some(2)), "base {base}, {by_memory}");
                // Later the file has an entry of the last WAL there.
                assert!(base == 9 || !by_memory || page(2) == Some(0), "no frame without a header");
                // A page that has a home, or not.
                write(&header(20), frame(2));
                assert_eq!((page(0), page(1)), (Some(1), Some(2)), "base {base}, {by_memory}");
                assert!(!by_memory || page(2) == Some(3), "base {base}");
            }
        }
    }

    /// What the WAL's index names and the file does not have, as after writes that were lost while the index
    /// was not.
    #[test]
    fn a_page_whose_frame_is_not_there_is_not_read_as_zeros() {
        let (wal, database) = (Memory::default(), Memory::default());
        let layout = Layout::new(4096).expect("a page size");
        prepare(&wal).expect("a WAL");
        let mut writer = WalWriter::default();
        let mut write =
            |bytes: &[u8], offset: u64| writer.write(&wal, layout, bytes, offset, || Ok(1)).expect("written");
        write(&[1; HEADER as usize], 0);
        let frame = |n: u64| HEADER + n * (FRAME_HEADER + 4096);
        write(&[0, 0, 0, 7, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], frame(0));
        write(&[9; 4096], frame(0) + FRAME_HEADER);
        let pair = Pair { wal: &wal, database: &database, layout };
        let mut page = [5; 4096];
        let (n, _) = read(pair, &mut page, frame(0) + FRAME_HEADER).expect("read");
        assert_eq!((n, page), (4096, [9; 4096]));
        let (n, _) = read(pair, &mut page, frame(1) + FRAME_HEADER).expect("read");
        assert_eq!((n, page), (0, [0; 4096]));
        // Its header is there, and the page not.
        write(&[0, 0, 0, 8, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], frame(1));
        let (n, _) = read(pair, &mut page, frame(1) + FRAME_HEADER).expect("read");
        assert!(n < 4096, "{n}");
    }
}
