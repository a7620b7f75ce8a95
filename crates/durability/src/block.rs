//! A block: what one stream writes in one round (protocol/P3).
//!
//! ```text
//!   0 magic         8    48 offset in file   8    96 base (c of records is relative to it)  8
//!   8 format        4    56 stream           4   104 payload length                         8
//!  12 header length 4    60 participants     4   112 next file, when prepared; else 0       8
//!  16 database     16    64 position         8   120 CRC32C of the payload                  4
//!  32 incarnation   8    72 round            8   124 CRC32C of the header, this field zero  4
//!  40 file number   8    80 closed           8   128 participants: stream << 48 | position, 8 each
//!                        88 durable round    8       payload, then padding to the next 4 KiB
//! ```
//! - **B1** A block begins and ends on 4 KiB, and is written once: no later write touches a page of it while
//!   it counts.
//! - **B2** A block names its database, stream, incarnation, file and offset. What a recycled file still
//!   holds names another file, and what was copied elsewhere names another place, so neither is ever taken
//!   for live.
//! - **B3** `durable round` is the newest round that was durable when the block was sealed: the block is a
//!   witness that all rounds up to it were acknowledged.
//! - **B4** Positions count a stream's blocks, without gaps within an incarnation.
use crate::CommitTs;
use ondol_base::crc::crc32c;

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"ONDOLLOG");
pub(crate) const FORMAT: u32 = 1;
pub(crate) const ALIGN: usize = 4096;
pub(crate) const FIXED: usize = 128;
/// Streams that may take part in a round.
pub const MAX_STREAMS: usize = 16;

/// A block's header.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Header {
    pub database: u128,
    pub incarnation: u64,
    pub file: u64,
    pub offset: u64,
    pub stream: u16,
    pub position: u64,
    pub round: u64,
    /// The clock when the round was closed: its commits, and all before, are below.
    pub closed: CommitTs,
    pub durable_round: u64,
    pub base: CommitTs,
    pub payload: u64,
    pub next_file: u64,
    pub participants: Participants,
}

/// The streams of a round, with the position of each one's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Participants {
    list: [(u16, u64); MAX_STREAMS],
    len: usize,
}
impl Participants {
    pub(crate) fn push(&mut self, stream: u16, position: u64) {
        self.list[self.len] = (stream, position);
        self.len += 1;
    }
    pub fn as_slice(&self) -> &[(u16, u64)] {
        &self.list[..self.len]
    }
}

/// Bytes of a block on the medium.
pub(crate) fn block_len(participants: usize, payload: usize) -> usize {
    (FIXED + 8 * participants + payload).next_multiple_of(ALIGN)
}

impl Header {
    pub fn len(&self) -> usize {
        FIXED + 8 * self.participants.len
    }
    pub fn is_empty(&self) -> bool {
        false
    }
    pub fn block_len(&self) -> usize {
        block_len(self.participants.len, self.payload as usize)
    }

    /// Completes a block whose payload stands in its place already.
    pub(crate) fn seal(&self, block: &mut [u8]) {
        let len = self.len();
        let payload_crc = crc32c(&block[len..len + self.payload as usize]);
        let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC.to_le_bytes());
        put(8, &FORMAT.to_le_bytes());
        put(12, &(len as u32).to_le_bytes());
        put(16, &self.database.to_le_bytes());
        put(32, &self.incarnation.to_le_bytes());
        put(40, &self.file.to_le_bytes());
        put(48, &self.offset.to_le_bytes());
        put(56, &(self.stream as u32).to_le_bytes());
        put(60, &(self.participants.len as u32).to_le_bytes());
        put(64, &self.position.to_le_bytes());
        put(72, &self.round.to_le_bytes());
        put(80, &self.closed.to_le_bytes());
        put(88, &self.durable_round.to_le_bytes());
        put(96, &self.base.to_le_bytes());
        put(104, &self.payload.to_le_bytes());
        put(112, &self.next_file.to_le_bytes());
        put(120, &payload_crc.to_le_bytes());
        put(124, &[0; 4]);
        for (i, (stream, position)) in self.participants.as_slice().iter().enumerate() {
            put(FIXED + 8 * i, &((*stream as u64) << 48 | position).to_le_bytes());
        }
        let crc = crc32c(&block[..len]);
        block[124..128].copy_from_slice(&crc.to_le_bytes());
    }
}

/// What stands where a block may begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// No magic: nothing was written here, or it was torn.
    Nothing,
    /// Magic, but the header's checksum is wrong.
    BadHeader,
    /// Magic and another format version.
    OtherFormat(u32),
    /// The header is whole, the payload is not there or its checksum is wrong.
    BadPayload(Box<Header>),
    Block(Box<Header>),
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    b.get(at..at + 4).and_then(|s| s.try_into().ok()).map_or(0, u32::from_le_bytes)
}
fn u64_at(b: &[u8], at: usize) -> u64 {
    b.get(at..at + 8).and_then(|s| s.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The header at the start of `bytes`, which must reach to [`ALIGN`], and its payload's checksum; or what
/// else stands there.
pub(crate) fn header(bytes: &[u8]) -> Result<(Box<Header>, u32), Found> {
    if bytes.len() < ALIGN || u64_at(bytes, 0) != MAGIC {
        return Err(Found::Nothing);
    }
    let len = u32_at(bytes, 12) as usize;
    let count = u32_at(bytes, 60) as usize;
    if count > MAX_STREAMS || len != FIXED + 8 * count {
        return Err(Found::BadHeader);
    }
    let mut head = [0u8; FIXED + 8 * MAX_STREAMS];
    head[..len].copy_from_slice(&bytes[..len]);
    head[124..128].fill(0);
    if crc32c(&head[..len]) != u32_at(bytes, 124) {
        return Err(Found::BadHeader);
    }
    let format = u32_at(bytes, 8);
    if format != FORMAT {
        return Err(Found::OtherFormat(format));
    }
    let mut participants = Participants::default();
    for i in 0..count {
        let p = u64_at(bytes, FIXED + 8 * i);
        participants.push((p >> 48) as u16, p & ((1 << 48) - 1));
    }
    let header = Box::new(Header {
        database: u64_at(bytes, 16) as u128 | (u64_at(bytes, 24) as u128) << 64,
        incarnation: u64_at(bytes, 32),
        file: u64_at(bytes, 40),
        offset: u64_at(bytes, 48),
        stream: u32_at(bytes, 56) as u16,
        position: u64_at(bytes, 64),
        round: u64_at(bytes, 72),
        closed: u64_at(bytes, 80),
        durable_round: u64_at(bytes, 88),
        base: u64_at(bytes, 96),
        payload: u64_at(bytes, 104),
        next_file: u64_at(bytes, 112),
        participants,
    });
    Ok((header, u32_at(bytes, 120)))
}

/// Looks for a block at the start of `bytes`, which reach to the end of the file or at least to the block's.
pub fn parse(bytes: &[u8]) -> Found {
    let (header, crc) = match header(bytes) {
        Ok(found) => found,
        Err(other) => return other,
    };
    let rest = &bytes[header.len()..];
    if header.payload > rest.len() as u64 || crc32c(&rest[..header.payload as usize]) != crc {
        return Found::BadPayload(header);
    }
    Found::Block(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_a_block_is_noticed() {
        let mut header =
            Header { database: 1 << 100 | 5, incarnation: 2, file: 3, offset: 4096, ..Header::default() };
        header.participants.push(0, 9);
        header.participants.push(3, 77);
        header.payload = 24;
        let mut block = vec![0; header.block_len()];
        let start = header.len();
        block[start..start + 24].fill(7);
        header.seal(&mut block);
        assert_eq!(parse(&block), Found::Block(Box::new(header.clone())));
        for bit in 0..(start + 24) * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(parse(&block), Found::Block(_)), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
