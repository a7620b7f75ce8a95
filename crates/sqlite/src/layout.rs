//! How a WAL lies in our file: SQLite's bytes, each page on a block boundary.
//!
//! ```text
//! SQLite:  [header 32] ([frame header 24][page])*
//! ours:    [block 0: magic 64, header 32][span 0][span 1]...
//! span:    [4096 frame headers of 24 bytes][4096 pages]
//! ```
//! - **L1** The translation is a bijection of byte ranges, fixed by the page size alone: no state, no table, so
//!   every process has the same one, and what SQLite proves about its WAL by checksums holds here too.
//! - **L2** Frame i's page stands at a multiple of 4096, and frame i + 1's right behind it within a span.
//! - **L3** The file is long enough for frame i's page only if frames up to i were written: SQLite's size
//!   follows from the file's.
use std::ops::Range;

pub const BLOCK: u64 = 4096;
pub const MAGIC: &[u8; 16] = b"ondol sqlite wal";
pub const VERSION: u32 = 1;
/// Where SQLite's WAL header stands in block 0.
pub const HEADER_AT: u64 = 64;
pub const HEADER: u64 = 32;
pub const FRAME_HEADER: u64 = 24;
/// Frames of a span; 24 bytes times this is a multiple of a block.
pub const SPAN: u64 = 4096;

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
    fn span_at(self, frame: u64) -> u64 {
        BLOCK + frame / SPAN * SPAN * self.frame()
    }
    /// Where the header of frame `frame` (from 0) stands.
    pub fn frame_header_at(self, frame: u64) -> u64 {
        self.span_at(frame) + frame % SPAN * FRAME_HEADER
    }
    /// Where the page of frame `frame` (from 0) stands.
    pub fn page_at(self, frame: u64) -> u64 {
        self.span_at(frame) + SPAN * FRAME_HEADER + frame % SPAN * self.page
    }
    /// The frame whose whole page is the range of SQLite's WAL.
    pub fn whole_page(self, range: Range<u64>) -> Option<u64> {
        let (frame, within) = self.locate(range.start)?;
        (within == FRAME_HEADER && range.end - range.start == self.page).then_some(frame)
    }
    /// Frame, and offset in it, of an offset in SQLite's WAL; None in its header.
    fn locate(self, offset: u64) -> Option<(u64, u64)> {
        let at = offset.checked_sub(HEADER)?;
        Some((at / self.frame(), at % self.frame()))
    }
    /// The piece at the start of `range` that is in one place here: where, and how long.
    pub fn piece(self, range: Range<u64>) -> (u64, u64) {
        let (at, room) = match self.locate(range.start) {
            None => (HEADER_AT + range.start, HEADER - range.start),
            Some((frame, within)) if within < FRAME_HEADER => {
                (self.frame_header_at(frame) + within, FRAME_HEADER - within)
            }
            Some((frame, within)) => (self.page_at(frame) + within - FRAME_HEADER, self.frame() - within),
        };
        (at, room.min(range.end - range.start))
    }
    /// Length of SQLite's WAL, given the length of ours: whole frames alone.
    pub fn virtual_len(self, len: u64) -> u64 {
        if len < HEADER_AT + HEADER {
            return 0;
        }
        let rest = len.saturating_sub(BLOCK);
        let (spans, rest) = (rest / (SPAN * self.frame()), rest % (SPAN * self.frame()));
        let frames = spans * SPAN + rest.saturating_sub(SPAN * FRAME_HEADER) / self.page;
        HEADER + frames * self.frame()
    }
    /// Length of ours for a length of SQLite's WAL; a part of a frame is dropped.
    pub fn physical_len(self, len: u64) -> u64 {
        match len.checked_sub(HEADER).map(|rest| rest / self.frame()) {
            None => 0,
            Some(0) => BLOCK,
            Some(frames) => self.page_at(frames - 1) + self.page,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_place() {
        for page in [4096, 8192, 65536] {
            let layout = Layout::new(page).expect("a page size");
            let mut taken: Vec<Range<u64>> = Vec::new();
            let mut add = |from: u64, to: u64| {
                let mut from = from;
                while from < to {
                    let (at, n) = layout.piece(from..to);
                    assert!(n > 0);
                    taken.push(at..at + n);
                    from += n;
                }
            };
            add(0, HEADER + 3 * layout.frame());
            let far = HEADER + (SPAN - 2) * layout.frame();
            add(far, far + 5 * layout.frame());
            taken.sort_by_key(|r| r.start);
            assert!(taken.windows(2).all(|w| w[0].end <= w[1].start), "{taken:?}");
            assert!(taken[0].start >= HEADER_AT);
        }
    }

    #[test]
    fn pages_stand_on_blocks_and_lengths_agree() {
        for page in [4096, 16384, 65536] {
            let layout = Layout::new(page).expect("a page size");
            for frames in [0, 1, 2, SPAN - 1, SPAN, SPAN + 1, 3 * SPAN] {
                let len = HEADER + frames * layout.frame();
                assert_eq!(layout.virtual_len(layout.physical_len(len)), len, "{frames} frames");
                assert_eq!(layout.virtual_len(layout.physical_len(len + page)), len);
                assert_eq!(layout.page_at(frames) % BLOCK, 0);
                let at = len + FRAME_HEADER;
                assert_eq!(layout.whole_page(at..at + page), Some(frames));
                assert_eq!(layout.whole_page(at..at + page - 1), None);
                // A frame header alone does not make a frame.
                let header_end = layout.frame_header_at(frames) + FRAME_HEADER;
                assert!(layout.virtual_len(layout.physical_len(len).max(header_end)) <= len);
            }
        }
        assert_eq!(Layout::new(2048), None);
        assert_eq!(Layout::new(5000), None);
        assert_eq!(Layout::new(4096).map(|l| (l.virtual_len(0), l.physical_len(0))), Some((0, 0)));
    }
}
