//! A page of a tablespace: the header that all pages have, and the one of index pages.
//!
//! Offsets and integers are InnoDB's own: big-endian, from the page's start. Sources: the MySQL internals
//! manual, "InnoDB page structure"; Jeremy Cole's diagrams of InnoDB; MariaDB's and MySQL's documentation of
//! their formats; pages of both servers.
//!
//! Accessors read within the page they are given, whose length was checked when it was read
//! ([`crate::space::Space`]), and never beyond it: a damaged field gives a wrong value or `None`, not a
//! panic.

/// What a page is of (offset 24).
pub mod kind {
    pub const INDEX: u16 = 17855;
    pub const RTREE: u16 = 17854;
    pub const SDI: u16 = 17853;
    /// The root of a clustered index whose columns were changed at once (MariaDB).
    pub const INSTANT: u16 = 18;
    pub const FSP_HEADER: u16 = 8;
    pub const BLOB: u16 = 10;
    /// Off the page in ROW_FORMAT=COMPRESSED: the first page and the others.
    pub const ZBLOB: u16 = 11;
    pub const ZBLOB_NEXT: u16 = 12;
    pub const COMPRESSED: u16 = 14;
    pub const ENCRYPTED: u16 = 15;
    pub const COMPRESSED_AND_ENCRYPTED: u16 = 16;
    pub const ENCRYPTED_RTREE: u16 = 17;
    pub const SDI_BLOB: u16 = 18;
    pub const SDI_ZBLOB: u16 = 19;
    pub const LOB_INDEX: u16 = 22;
    pub const LOB_DATA: u16 = 23;
    pub const LOB_FIRST: u16 = 24;
    pub const ZLOB_FIRST: u16 = 25;
    /// MariaDB before 10.5: page_compressed, and the same with encryption.
    pub const PAGE_COMPRESSED: u16 = 34354;
    pub const PAGE_COMPRESSED_ENCRYPTED: u16 = 37401;
}

/// The number that means "no page".
pub const NONE: u32 = u32::MAX;

#[inline]
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
#[inline]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
#[inline]
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// N bytes from a place on, if there are so many. Assigned as an array they are copied by an instruction or
/// two, not by a call.
#[inline(always)]
pub fn chunk_at<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}
#[inline(always)]
pub fn chunk_at_mut<const N: usize>(bytes: &mut [u8], at: usize) -> Option<&mut [u8; N]> {
    bytes.get_mut(at..)?.first_chunk_mut()
}

/// A page and what happens to stand behind it in memory: more bytes than a place of 16 bits and what is read
/// there at once can reach, so that no place need be compared with an end. What is behind the page means
/// nothing.
#[derive(Clone, Copy)]
pub struct Window<'a>(&'a [u8; Window::BYTES]);

impl<'a> Window<'a> {
    /// Bytes that are read at once at most.
    pub const CHUNK: usize = 64;
    pub const BYTES: usize = (1 << 16) + Self::CHUNK;

    /// `None` if there are too few bytes.
    pub fn new(bytes: &'a [u8]) -> Option<Window<'a>> {
        bytes.first_chunk().map(Window)
    }
    /// N bytes from a place on.
    #[inline(always)]
    pub fn chunk<const N: usize>(self, at: u16) -> &'a [u8; N] {
        const { assert!(N <= Window::CHUNK) };
        match self.0[at as usize..].first_chunk() {
            Some(chunk) => chunk,
            None => unreachable!("{N} bytes are behind each place"),
        }
    }
}

/// A page's bytes, at least 1 KiB of them, with names for the header's fields.
#[derive(Clone, Copy)]
pub struct Page<'a>(pub &'a [u8]);

impl<'a> Page<'a> {
    fn word(self, at: usize) -> u32 {
        u32_at(self.0, at).unwrap_or(NONE)
    }
    fn half(self, at: usize) -> u16 {
        u16_at(self.0, at).unwrap_or(0)
    }
    pub fn number(self) -> u32 {
        self.word(4)
    }
    pub fn previous(self) -> u32 {
        self.word(8)
    }
    pub fn next(self) -> u32 {
        self.word(12)
    }
    /// The log's position when the page was last changed.
    pub fn lsn(self) -> u64 {
        u64_at(self.0, 16).unwrap_or(0)
    }
    pub fn kind(self) -> u16 {
        self.half(24)
    }
    pub fn space(self) -> u32 {
        self.word(34)
    }

    // The header of an index page.
    /// Bit 15 of the number of records in the heap: records are in the new style (COMPACT and its
    /// successors).
    pub fn is_compact(self) -> bool {
        self.half(42) & 0x8000 != 0
    }
    /// Records that the heap has room for: infimum, supremum, users', and free ones.
    pub fn heap_count(self) -> usize {
        (self.half(42) & 0x7fff) as usize
    }
    pub fn heap_top(self) -> u16 {
        self.half(40)
    }
    /// Records of users on the page; delete-marked ones count.
    pub fn record_count(self) -> u16 {
        self.half(54)
    }
    pub fn level(self) -> u16 {
        self.half(64)
    }
    pub fn index(self) -> u64 {
        u64_at(self.0, 66).unwrap_or(0)
    }
    pub fn is_index(self) -> bool {
        matches!(self.kind(), kind::INDEX | kind::INSTANT | kind::RTREE | kind::SDI)
    }
}
