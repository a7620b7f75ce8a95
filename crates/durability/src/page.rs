//! Page geometry: how a database's address range is divided. Volatile headers stand in the pages but are not
//! part of what is logged or imaged.
//!
//! ```text
//! segment (2 MiB) = 512 pages
//! page (4 KiB)    = header (64 bytes, volatile) | slot | slot | ... | unused
//! slot            = header (16 bytes, volatile) | row bytes
//! ```
//! - **G1** All slots of a page have one size, its format; the format never changes while the segment lives.
//! - **G2** Free row bytes are zero; a row in use has bit 0 of its first byte set (the live bit).
//! - **G3** A value or a row larger than a page takes a run: a `RunHead` page and the `RunTail` pages it
//!   names, all one slot, whose row bytes go on through the tail pages without headers.
//! - **G4** The logical content of a page, which checksums cover, is its 4096 bytes with the page header and
//!   the slot headers taken as zero.
use ondol_base::oid::Oid;

pub const SEGMENT_SIZE: usize = 2 << 20;
pub const PAGE_SIZE: usize = 4096;
pub const PAGES_PER_SEGMENT: usize = SEGMENT_SIZE / PAGE_SIZE;
pub const PAGE_HEADER: usize = 64;
pub const SLOT_HEADER: usize = 16;
/// Row bytes come in multiples of this.
pub const ROW_UNIT: usize = 16;
pub const LARGEST_SLOT: usize = PAGE_SIZE - PAGE_HEADER;

/// A segment's place in the address range: its byte offset divided by [`SEGMENT_SIZE`]. Segment 0 is never
/// used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentId(pub u32);

/// A page's place: its byte offset divided by [`PAGE_SIZE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageId(pub u64);

impl PageId {
    pub fn of(oid: Oid) -> PageId {
        PageId(oid.bits() / PAGE_SIZE as u64)
    }
    pub fn segment(self) -> SegmentId {
        SegmentId((self.0 / PAGES_PER_SEGMENT as u64) as u32)
    }
    pub fn offset(self) -> u64 {
        self.0 * PAGE_SIZE as u64
    }
    pub fn index(self) -> usize {
        self.0 as usize % PAGES_PER_SEGMENT
    }
}
impl SegmentId {
    pub fn page(self, index: usize) -> PageId {
        PageId(self.0 as u64 * PAGES_PER_SEGMENT as u64 + index as u64)
    }
    pub fn offset(self) -> u64 {
        self.0 as u64 * SEGMENT_SIZE as u64
    }
}

/// What stands on a page. In one byte: 0 unformatted, 1 to 252 slots of that many 16-byte units, 254 run
/// tail, 255 run head (its length follows in a second field).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Unformatted,
    /// Slots of `units` * 16 bytes, headers included.
    Slots {
        units: u8,
    },
    /// The first of `pages` pages (at least 2).
    RunHead {
        pages: u16,
    },
    RunTail,
}

impl Format {
    /// (slot size in bytes, slots), for pages that have slots; a run is one slot.
    pub fn slots(self) -> (usize, usize) {
        match self {
            Format::Slots { units } => {
                let size = units as usize * ROW_UNIT;
                (size, LARGEST_SLOT / size)
            }
            Format::RunHead { pages } => (pages as usize * PAGE_SIZE - PAGE_HEADER, 1),
            Format::Unformatted | Format::RunTail => (0, 0),
        }
    }
    /// Pages up to the next one that has a format of its own.
    pub fn pages(self) -> usize {
        match self {
            Format::RunHead { pages } => pages as usize,
            _ => 1,
        }
    }

    /// In four bytes: the format in the lowest, a run's length above it.
    pub fn code(self) -> u32 {
        match self {
            Format::Unformatted => 0,
            Format::Slots { units } => units as u32,
            Format::RunTail => 254,
            Format::RunHead { pages } => 255 | (pages as u32) << 8,
        }
    }
    /// The format with this code, if there is one.
    pub fn from_code(code: u32) -> Option<Format> {
        match (code & 0xff, code >> 8) {
            (0, 0) => Some(Format::Unformatted),
            (units @ 2..=252, 0) => Some(Format::Slots { units: units as u8 }),
            (254, 0) => Some(Format::RunTail),
            (255, pages @ 2..=0xffff) => Some(Format::RunHead { pages: pages as u16 }),
            _ => None,
        }
    }
    /// The ranges of row bytes on such a page, in order: what is imaged and what differences may touch.
    pub fn rows(self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let (first, step, count, len) = match self {
            Format::Unformatted => (0, 0, 0, 0),
            Format::Slots { .. } => {
                let (size, count) = self.slots();
                (PAGE_HEADER + SLOT_HEADER, size, count, size - SLOT_HEADER)
            }
            Format::RunHead { .. } => {
                (PAGE_HEADER + SLOT_HEADER, 0, 1, PAGE_SIZE - PAGE_HEADER - SLOT_HEADER)
            }
            Format::RunTail => (0, 0, 1, PAGE_SIZE),
        };
        (0..count).map(move |i| first + i * step..first + i * step + len)
    }
    /// Whether `len` bytes from `offset` on are row bytes of one slot.
    #[inline]
    pub fn is_row(self, offset: usize, len: usize) -> bool {
        match self {
            Format::Unformatted => false,
            Format::Slots { units } => {
                let size = units as u32 * ROW_UNIT as u32;
                if offset < PAGE_HEADER + SLOT_HEADER {
                    return false;
                }
                let at = (offset - PAGE_HEADER) as u32;
                let slot = at / size;
                let within = at - slot * size;
                slot < LARGEST_SLOT as u32 / size
                    && within >= SLOT_HEADER as u32
                    && within + len as u32 <= size
            }
            Format::RunHead { .. } => offset >= PAGE_HEADER + SLOT_HEADER && offset + len <= PAGE_SIZE,
            Format::RunTail => offset + len <= PAGE_SIZE,
        }
    }
}
