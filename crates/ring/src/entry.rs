//! What lies in one slot of the ring: up to a page of a segment, and where it belongs.
//!
//! A slot is [`SLOT`] bytes, little-endian:
//! ```text
//!  0 sequence u64   8 first of its write u64   16 inode u64   24 offset u64   32 length u32
//! 36 timeline u32  40 log u32  44 part u32 (the three numbers of the segment's name)   48 bytes kept u32   52 zero
//! 60 checksum of 0..60 and the bytes kept (`crc.rs`)   64 bytes kept
//! ```
//! The bytes kept are the first of the data; what follows them, to its length, is zeros. The last page of a
//! log that is written mostly ends with many.
use crate::crc::checksum;

/// The most bytes of data in an entry.
pub const DATA: usize = 8192;
const HEAD: usize = 64;
/// Bytes of a slot.
pub const SLOT: usize = HEAD + DATA;

/// A file of the log, by the three numbers of its name and by its inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    pub timeline: u32,
    pub log: u32,
    pub part: u32,
    pub inode: u64,
}

impl Segment {
    /// The segment that a file's name says: 24 upper-case hexadecimal digits.
    pub fn named(name: &[u8], inode: u64) -> Option<Segment> {
        let mut numbers = [0u32; 3];
        if name.len() != 24 {
            return None;
        }
        for (i, c) in name.iter().enumerate() {
            let digit = match c {
                b'0'..=b'9' => c - b'0',
                b'A'..=b'F' => c - b'A' + 10,
                _ => return None,
            };
            numbers[i / 8] = numbers[i / 8] << 4 | u32::from(digit);
        }
        let [timeline, log, part] = numbers;
        Some(Segment { timeline, log, part, inode })
    }
    /// Its file's name, ended by a zero.
    pub fn name(&self) -> [u8; 25] {
        let mut name = [0; 25];
        for (n, digits) in [self.timeline, self.log, self.part].into_iter().zip(name.chunks_exact_mut(8)) {
            for (i, d) in digits.iter_mut().enumerate() {
                *d = b"0123456789ABCDEF"[(n >> (28 - 4 * i) & 15) as usize];
            }
        }
        name
    }
    pub fn same_name(&self, other: &Segment) -> bool {
        Segment { inode: 0, ..*self } == Segment { inode: 0, ..*other }
    }
}

/// `data` without the zeros at its end, but for less than 64 of them.
pub(crate) fn kept(data: &[u8]) -> &[u8] {
    let zeros = data.rchunks(64).take_while(|c| c.iter().fold(0, |any, b| any | b) == 0);
    let (kept, _) = data.split_at(data.len() - zeros.map(<[u8]>::len).sum::<usize>());
    kept
}

/// A slot's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    pub sequence: u64,
    /// The sequence of the first entry of the same write: they share one fence.
    pub first: u64,
    pub segment: Segment,
    /// Where in the segment, in bytes.
    pub offset: u64,
    /// Bytes of data, 1 to [`DATA`].
    pub len: u32,
}

impl Entry {
    /// The header's bytes, with the checksum over them and the bytes that are kept.
    pub(crate) fn seal(&self, kept: &[u8]) -> [u8; HEAD] {
        let mut b = [0; HEAD];
        let mut words = b.chunks_exact_mut(8);
        let s = &self.segment;
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let values = [
            self.sequence,
            self.first,
            s.inode,
            self.offset,
            pair(self.len, s.timeline),
            pair(s.log, s.part),
            pair(kept.len() as u32, 0),
        ];
        for v in values {
            if let Some(w) = words.next() {
                w.copy_from_slice(&v.to_le_bytes())
            }
        }
        let crc = checksum(&b[..60], kept);
        b[60..].copy_from_slice(&crc.to_le_bytes());
        b
    }
    /// What the header says; nothing is proved by it.
    pub(crate) fn read(b: &[u8; HEAD]) -> Entry {
        let word = |i: usize| {
            let mut w = [0; 8];
            w.copy_from_slice(&b[i * 8..][..8]);
            u64::from_le_bytes(w)
        };
        Entry {
            sequence: word(0),
            first: word(1),
            segment: Segment {
                inode: word(2),
                timeline: (word(4) >> 32) as u32,
                log: word(5) as u32,
                part: (word(5) >> 32) as u32,
            },
            offset: word(3),
            len: word(4) as u32,
        }
    }
    /// The entry of a slot (header and data) if it is whole. Zeros that were not kept are put there again.
    pub(crate) fn whole(slot: &mut [u8; SLOT]) -> Option<(Entry, &[u8])> {
        let (head, data) = slot.split_first_chunk_mut::<HEAD>()?;
        let entry = Entry::read(head);
        let data = data.get_mut(..entry.len as usize)?;
        let (kept, zeros) =
            data.split_at_mut_checked(u32::from_le_bytes(*head[48..].first_chunk()?) as usize)?;
        if entry.len == 0 || entry.seal(kept) != *head {
            return None;
        }
        zeros.fill(0);
        Some((entry, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_there_and_back() {
        let name = b"0000000A000000BC0000DEF1";
        let s = Segment::named(name, 7).expect("a segment's name");
        assert_eq!((s.timeline, s.log, s.part), (0xA, 0xBC, 0xDEF1));
        assert_eq!(&s.name()[..24], name);
        assert!(Segment::named(b"0000000A000000BC0000DEFg", 7).is_none());
        assert!(Segment::named(b"0000000A.history", 7).is_none());
    }

    #[test]
    fn a_changed_byte_is_seen() {
        let segment = Segment::named(b"0000000A000000BC0000DEF1", 7).expect("a segment's name");
        let entry = Entry { sequence: 3, first: 2, segment, offset: 8192, len: 16 };
        let mut slot = [0; SLOT];
        slot[..HEAD].copy_from_slice(&entry.seal(&[5; 16]));
        slot[HEAD..][..16].copy_from_slice(&[5; 16]);
        assert_eq!(Entry::whole(&mut slot), Some((entry, &[5; 16][..])));
        for at in 0..HEAD + 16 {
            slot[at] ^= 4;
            assert_eq!(Entry::whole(&mut slot), None, "byte {at}");
            slot[at] ^= 4;
        }
    }

    #[test]
    fn zeros_at_the_end_are_not_kept_and_come_back() {
        let segment = Segment::named(b"0000000A000000BC0000DEF1", 7).expect("a segment's name");
        for (len, used) in [(DATA, DATA), (DATA, 5000), (DATA, 64), (100, 40), (100, 0), (DATA, 0)] {
            let mut room = [0; DATA];
            let data = &mut room[..len];
            data[..used].fill(7);
            let kept = kept(data);
            assert!(kept.len() >= used && kept.len() < used + 64, "{} of {used}", kept.len());
            let entry = Entry { sequence: 3, first: 2, segment, offset: 8192, len: len as u32 };
            // What an older entry left in the slot.
            let mut slot = [9; SLOT];
            slot[..HEAD].copy_from_slice(&entry.seal(kept));
            slot[HEAD..][..kept.len()].copy_from_slice(kept);
            assert_eq!(Entry::whole(&mut slot), Some((entry, &*data)), "{used} of {len}");
        }
    }
}
