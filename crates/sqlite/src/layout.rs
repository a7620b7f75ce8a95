//! How a WAL lies in our file: SQLite's bytes, each page on a block boundary.
//!
//! ```text
//! SQLite:  [header 32] ([frame header 24][page])*
//! ours:    [block 0: magic and base 64, header 32][span 0][span 1]...
//! span:    [4096 entries of 32 bytes][4096 pages]
//! entry:   [frame header 24][the page's place, u32 little-endian][away, u32 little-endian]
//! ```
//! - **L1** Entry i is frame i's; the frame's page stands in the place that its entry names (`places`). Both
//!   follow from the page size alone, so every process finds them.
//! - **L2** A place is at a multiple of 4096, and place i + 1 right behind place i within a span.
//! - **L3** Each frame has a place of its own, so there are no more frames than places in the file: SQLite's
//!   size of the WAL is at most what the file's length allows.
//! - **L4** An entry lies in one sector.
use std::ops::Range;

pub const BLOCK: u64 = 4096;
pub const MAGIC: &[u8; 16] = b"ondol sqlite wal";
pub const VERSION: u32 = 4;
/// Its WALs never exchange blocks with the database (`exchange`).
pub const WITHOUT_EXCHANGE: u32 = 2;
/// Magic, version and base, before SQLite's header.
pub const PREAMBLE: u64 = HEADER_AT;
/// Where block 0 has the database's pages when the WAL was begun, u32 little-endian.
pub const BASE_AT: u64 = 20;
/// Where SQLite's WAL header stands in block 0.
pub const HEADER_AT: u64 = 64;
pub const HEADER: u64 = 32;
pub const FRAME_HEADER: u64 = 24;
pub const ENTRY: u64 = 32;
/// Where an entry has the page's place.
pub const PLACE_AT: u64 = 24;
/// Where an entry says that its page may be in the database, and which one it is (`exchange`).
pub const AWAY_AT: u64 = 28;
/// Entries and places of a span; an entry's bytes times this are a multiple of a block.
pub const SPAN: u64 = 4096;

/// A piece of SQLite's WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Of the WAL's header, from this byte on.
    Header(u64),
    /// Of a frame's header, from this byte on.
    FrameHeader(u64, u64),
    /// Of a frame's page, from this byte on.
    Page(u64, u64),
}

/// The translation for one page size, which is a power of two from 4096 to 65536.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    page: u64,
}

impl Layout {
    /// None where pages are smaller than blocks: such a WAL keeps SQLite's own layout.
    pub fn new(page: u64) -> Option<Layout> {
        (page.is_power_of_two() && (BLOCK..=65536).contains(&page)).then_some(Layout { page })
    }
    pub fn page(self) -> u64 {
        self.page
    }
    fn frame(self) -> u64 {
        FRAME_HEADER + self.page
    }
    /// A span's bytes.
    fn span(self) -> u64 {
        SPAN * (ENTRY + self.page)
    }
    /// Where the entry of frame `frame` (from 0) stands.
    pub fn entry_at(self, frame: u64) -> u64 {
        BLOCK + frame / SPAN * self.span() + frame % SPAN * ENTRY
    }
    /// Where place `place` (from 0) is.
    pub fn place_at(self, place: u64) -> u64 {
        BLOCK + place / SPAN * self.span() + SPAN * ENTRY + place % SPAN * self.page
    }
    /// The frame whose whole page is the range of SQLite's WAL.
    pub fn whole_page(self, range: Range<u64>) -> Option<u64> {
        let (frame, within) = self.locate(range.start)?;
        (within == FRAME_HEADER && range.end - range.start == self.page).then_some(frame)
    }
    /// Whether bytes that are written at an offset of SQLite's WAL begin a frame that ends a commit.
    pub fn ends_commit(self, offset: u64, bytes: &[u8]) -> bool {
        let begins = self.locate(offset).is_some_and(|(_, within)| within == 0);
        begins && bytes.get(4..8).is_none_or(|size| size != [0; 4])
    }
    /// Frame, and offset in it, of an offset in SQLite's WAL; None in its header.
    fn locate(self, offset: u64) -> Option<(u64, u64)> {
        let at = offset.checked_sub(HEADER)?;
        Some((at / self.frame(), at % self.frame()))
    }
    /// The piece at the start of `range`, and its length.
    pub fn piece(self, range: Range<u64>) -> (Piece, u64) {
        let (piece, room) = match self.locate(range.start) {
            None => (Piece::Header(range.start), HEADER - range.start),
            Some((frame, within)) if within < FRAME_HEADER => {
                (Piece::FrameHeader(frame, within), FRAME_HEADER - within)
            }
            Some((frame, within)) => (Piece::Page(frame, within - FRAME_HEADER), self.frame() - within),
        };
        (piece, room.min(range.end - range.start))
    }
    /// Whole frames of a length of SQLite's WAL; None where it has no header.
    pub fn frames(self, len: u64) -> Option<u64> {
        len.checked_sub(HEADER).map(|rest| rest / self.frame())
    }
    /// At most the length of SQLite's WAL, given the length of ours (L3).
    pub fn virtual_len(self, len: u64) -> u64 {
        if len < HEADER_AT + HEADER {
            return 0;
        }
        let rest = len.saturating_sub(BLOCK);
        let (spans, rest) = (rest / self.span(), rest % self.span());
        let places = spans * SPAN + rest.saturating_sub(SPAN * ENTRY) / self.page;
        HEADER + places * self.frame()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_places_lie_apart() {
        for page in [4096, 8192, 65536] {
            let layout = Layout::new(page).expect("a page size");
            let mut taken = vec![(0, HEADER_AT + HEADER)];
            for i in [0, 1, 2, SPAN - 2, SPAN - 1, SPAN, SPAN + 1, 5 * SPAN] {
                taken.push((layout.entry_at(i), layout.entry_at(i) + ENTRY));
                taken.push((layout.place_at(i), layout.place_at(i) + page));
                assert_eq!(layout.place_at(i) % BLOCK, 0);
                assert_eq!(layout.entry_at(i) / 512, (layout.entry_at(i) + ENTRY - 1) / 512, "L4");
            }
            taken.sort_unstable();
            assert!(taken.windows(2).all(|w| w[0].1 <= w[1].0), "{taken:?}");
        }
    }

    #[test]
    fn pieces_cover_what_sqlite_asks_for() {
        let layout = Layout::new(4096).expect("a page size");
        let (mut from, to) = (10, HEADER + 2 * layout.frame() + 5);
        let mut pieces = Vec::new();
        while from < to {
            let (piece, n) = layout.piece(from..to);
            pieces.push((piece, n));
            from += n;
        }
        use Piece::{FrameHeader, Header, Page};
        assert_eq!(
            pieces,
            [
                (Header(10), 22),
                (FrameHeader(0, 0), 24),
                (Page(0, 0), 4096),
                (FrameHeader(1, 0), 24),
                (Page(1, 0), 4096),
                (FrameHeader(2, 0), 5)
            ]
        );
        assert_eq!(layout.piece(HEADER + 30..HEADER + 40), (Page(0, 6), 10));
    }

    #[test]
    fn the_length_allows_every_frame() {
        for page in [4096, 16384, 65536] {
            let layout = Layout::new(page).expect("a page size");
            for places in [0, 1, 2, SPAN - 1, SPAN, SPAN + 1, 3 * SPAN] {
                let len = HEADER + places * layout.frame();
                let end = places.checked_sub(1).map_or(BLOCK, |last| layout.place_at(last) + page);
                assert_eq!(layout.virtual_len(end), len, "{places} places");
                let at = len + FRAME_HEADER;
                assert_eq!(layout.whole_page(at..at + page), Some(places));
                assert_eq!(layout.whole_page(at..at + page - 1), None);
                assert_eq!(layout.frames(len + page), Some(places));
            }
        }
        assert_eq!(Layout::new(2048), None);
        assert_eq!(Layout::new(5000), None);
        assert_eq!(Layout::new(4096).map(|l| l.virtual_len(0)), Some(0));
    }
}
