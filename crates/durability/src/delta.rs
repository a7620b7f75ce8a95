//! Differences: `before XOR after`, in the form in which the log keeps them.
//!
//! ```text
//! changes = piece* end?
//! piece   = length (varint, at least 1) | distance (zigzag varint) | length bytes
//! end     = a zero byte, from which on all is padding
//! ```
//! The address of a piece is the end of the piece before it (0 for the first) plus the distance.
//!
//! - **D1** A piece holds no run of [`SPLIT`] or more zero bytes, and neither begins nor ends with one: XOR
//!   with zero is nothing, so zeros are left out.
//! - **D2** Every piece lies within the 48-bit address range; the decoder proves it before it hands one out.
//! - **D3** The order of pieces and records is free: XOR commutes. Each must be applied exactly once.
//! - **D4** Row byte `offset` of slot `oid` lies at address `oid + 16 + offset`, also where a run goes on
//!   through the pages behind its first.
//!
//! Source of the idea: Lee, Kim, Cha, "Differential logging" (ICDE 2001).
use crate::page::{PAGE_SIZE, PageId, SLOT_HEADER};
use ondol_base::oid::Oid;
use std::sync::atomic::{AtomicU64, Ordering};

/// A run of this many zeros ends a piece; a shorter one costs less than a new piece.
const SPLIT: usize = 3;

/// The differences of one transaction, in the log's form. Reuse it: `clear` keeps the memory.
#[derive(Default, Clone, Debug)]
pub struct Changes {
    bytes: Vec<u8>,
    end: u64,
}

/// Bytes that are looked at together.
const CHUNK: usize = 64;

/// Of each byte (at most [`CHUNK`]), whether it is not zero; the first is the lowest bit.
#[inline]
fn nonzero(bytes: &[u8]) -> u64 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut ones = 0;
    for (i, w) in words.iter().enumerate() {
        let w = u64::from_le_bytes(*w);
        // The highest bit of each byte that is not zero, then those bits side by side.
        let high = (((w & LOW) + LOW) | w) & !LOW;
        ones |= ((high >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i);
    }
    for (i, b) in rest.iter().enumerate() {
        ones |= u64::from(*b != 0) << (8 * words.len() + i)
    }
    ones
}

impl Changes {
    pub fn new() -> Changes {
        Changes::default()
    }

    /// Adds XOR of before and after, from row byte `offset` of slot `oid` on. An insert is the row itself, a
    /// delete the old bytes.
    #[inline]
    pub fn push(&mut self, oid: Oid, offset: usize, delta: &[u8]) {
        self.push_at(oid.bits() + (SLOT_HEADER + offset) as u64, delta)
    }

    /// The same, by address.
    pub fn push_at(&mut self, address: u64, delta: &[u8]) {
        debug_assert!(address + delta.len() as u64 <= Oid::MASK);
        // A number that was changed: one word, whose bytes between the first and the last that count lie in
        // one piece.
        if let Ok(word) = delta.try_into().map(u64::from_le_bytes)
            && word != 0
        {
            let (from, to) = (word.trailing_zeros() as usize / 8, 8 - word.leading_zeros() as usize / 8);
            if to - from < SPLIT + 2 {
                return self.piece(address + from as u64, &delta[from..], to - from);
            }
        }
        // The open piece: `start..end`; none as long as `end` is zero.
        let (mut start, mut end) = (0, 0);
        for (n, chunk) in delta.chunks(CHUNK).enumerate() {
            let mut ones = nonzero(chunk);
            while ones != 0 {
                // A run of bytes that are not zero.
                let first = ones.trailing_zeros();
                let len = (!(ones >> first)).trailing_zeros();
                ones = ones.checked_shr(first + len).map_or(0, |rest| rest << (first + len));
                let from = n * CHUNK + first as usize;
                if end == 0 {
                    start = from;
                } else if from - end >= SPLIT {
                    self.piece(address + start as u64, &delta[start..], end - start);
                    start = from;
                }
                end = from + len as usize;
            }
        }
        if end > 0 {
            self.piece(address + start as u64, &delta[start..], end - start)
        }
    }

    /// Adds the first `len` of `bytes` (at least one); what follows helps to read whole words.
    #[inline]
    fn piece(&mut self, address: u64, bytes: &[u8], len: usize) {
        let distance = address.wrapping_sub(self.end) as i64;
        let zigzag = ((distance << 1) ^ (distance >> 63)) as u64;
        self.end = address + len as u64;
        if len <= 8 && zigzag < 1 << 14 {
            // Nearly all pieces: the head and the bytes at once, what is too much being cut off again.
            let (head, n) = match zigzag {
                0..0x80 => (zigzag << 8, 2),
                _ => ((zigzag & 0x7f | 0x80 | zigzag >> 7 << 8) << 8, 3),
            };
            let all = (head | len as u64) as u128 | (short(bytes, len) as u128) << (8 * n);
            let end = self.bytes.len() + n + len;
            self.bytes.extend_from_slice(&all.to_le_bytes());
            self.bytes.truncate(end);
            return;
        }
        put_varint(&mut self.bytes, len as u64);
        put_varint(&mut self.bytes, zigzag);
        self.bytes.extend_from_slice(&bytes[..len]);
    }

    /// Length in the log, without the record's header.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.end = 0;
    }
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
    pub fn pieces(&self) -> Pieces<'_> {
        Pieces::new(&self.bytes)
    }
    /// The same differences in parts of at most `limit` bytes of log form (`limit` at least 64).
    pub fn parts(&self, limit: usize) -> Vec<Changes> {
        let mut parts = vec![Changes::new()];
        for (address, bytes) in self.pieces().flatten() {
            // A piece costs at most 20 bytes beyond its own.
            let step = limit.max(64) - 20;
            for (i, part) in bytes.chunks(step).enumerate() {
                if parts[parts.len() - 1].len() + part.len() + 20 > limit {
                    parts.push(Changes::new());
                }
                let last = parts.len() - 1;
                parts[last].piece(address + (i * step) as u64, part, part.len());
            }
        }
        parts
    }
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// A varint and the rest, or nothing when there is none.
#[inline]
pub(crate) fn get_varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut v = 0u64;
    for (i, b) in bytes.iter().enumerate().take(10) {
        let part = (b & 0x7f) as u64;
        if i == 9 && part > 1 {
            return None;
        }
        v |= part << (7 * i);
        if b & 0x80 == 0 {
            return Some((v, &bytes[i + 1..]));
        }
    }
    None
}

/// A varint at the start of `bytes` that ends within `limit` of them: its value and length. What follows in
/// `bytes` lets it be decoded in one go, without a branch for each byte.
#[inline]
fn varint_within(bytes: &[u8], limit: usize) -> Option<(u64, usize)> {
    const STOP: u64 = 0x8080_8080_8080_8080;
    if let Some((word, _)) = bytes.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        let stops = !word & STOP;
        if stops != 0 {
            let n = stops.trailing_zeros() as usize / 8 + 1;
            if n > limit {
                return None;
            }
            // The bytes up to the first without a continuation bit, then their 7 bits each, joined by twos.
            let v = word & (stops ^ (stops - 1)) & !STOP;
            let v = (v & 0x007f_007f_007f_007f) | (v & 0x7f00_7f00_7f00_7f00) >> 1;
            let v = (v & 0x0000_3fff_0000_3fff) | (v & 0x3fff_0000_3fff_0000) >> 2;
            let v = (v & 0x0fff_ffff) | (v & 0x0fff_ffff_0000_0000) >> 4;
            return Some((v, n));
        }
    }
    let bytes = &bytes[..limit.min(bytes.len())];
    get_varint(bytes).map(|(v, rest)| (v, bytes.len() - rest.len()))
}

/// What is wrong with the log form of changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

/// Decodes changes, piece by piece, with proof of bounds (D2). After an error it ends.
#[derive(Clone)]
pub struct Pieces<'a> {
    /// What is left of the changes, and behind them whatever follows in memory.
    rest: &'a [u8],
    left: usize,
    end: u64,
}

impl<'a> Pieces<'a> {
    pub fn new(bytes: &'a [u8]) -> Pieces<'a> {
        Pieces { rest: bytes, left: bytes.len(), end: 0 }
    }
    /// The changes are the first `len` of `bytes`; what follows helps to read whole words, and is not looked
    /// at.
    pub(crate) fn within(bytes: &'a [u8], len: usize) -> Pieces<'a> {
        Pieces { rest: bytes, left: len.min(bytes.len()), end: 0 }
    }
    #[inline]
    fn step(&mut self) -> Result<(u64, &'a [u8], usize), Malformed> {
        let (len, a) = match self.rest[0] {
            // Nearly all pieces.
            n @ ..0x80 => (n as u64, 1),
            _ => varint_within(self.rest, self.left).ok_or(Malformed("length of a piece"))?,
        };
        let rest = &self.rest[a..];
        let left = self.left - a;
        let (zigzag, b) = varint_within(rest, left).ok_or(Malformed("distance of a piece"))?;
        let (rest, left) = (&rest[b..], left - b);
        let distance = (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64);
        let address = self.end.wrapping_add(distance as u64);
        if len > left as u64 {
            return Err(Malformed("piece longer than its record"));
        }
        if address > Oid::MASK || len > Oid::MASK - address {
            return Err(Malformed("piece beyond the address range"));
        }
        let len = len as usize;
        self.rest = &rest[len..];
        self.left = left - len;
        self.end = address + len as u64;
        Ok((address, rest, len))
    }
    /// An address, and how many of the bytes that follow are to be XORed in from there.
    #[inline]
    pub(crate) fn next_open(&mut self) -> Option<Result<(u64, &'a [u8], usize), Malformed>> {
        if self.left == 0 {
            return None;
        }
        if self.rest[0] == 0 {
            let clean = self.rest[..self.left].iter().all(|b| *b == 0);
            self.left = 0;
            return if clean { None } else { Some(Err(Malformed("bytes behind the end of a record"))) };
        }
        let step = self.step();
        if step.is_err() {
            self.left = 0;
        }
        Some(step)
    }
}

impl<'a> Iterator for Pieces<'a> {
    /// An address and the bytes to XOR in from there.
    type Item = Result<(u64, &'a [u8]), Malformed>;
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_open()?.map(|(address, bytes, len)| (address, &bytes[..len])))
    }
}

/// Splits a piece at page borders: the page, the offset in it, the bytes.
pub fn by_page(address: u64, bytes: &[u8]) -> impl Iterator<Item = (PageId, usize, &[u8])> {
    let mut at = address;
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let offset = (at % PAGE_SIZE as u64) as usize;
        let (now, later) = rest.split_at(rest.len().min(PAGE_SIZE - offset));
        let item = (PageId(at / PAGE_SIZE as u64), offset, now);
        at += now.len() as u64;
        rest = later;
        Some(item)
    })
}

/// XORs `bytes` into the words of a page from byte `offset` on; from any thread, in any order.
#[inline]
pub fn xor_into(words: &[AtomicU64], offset: usize, bytes: &[u8]) {
    xor_open(words, offset, bytes, bytes.len(), |w, v| {
        w.fetch_xor(v, Ordering::Relaxed);
    })
}

/// The first `len` bytes (at most 8) as a little-endian number. What follows them lets whole words be read.
#[inline]
pub(crate) fn short(bytes: &[u8], len: usize) -> u64 {
    debug_assert!(len <= 8);
    match bytes.split_first_chunk::<8>() {
        Some((word, _)) if len > 0 => u64::from_le_bytes(*word) & (!0 >> (64 - 8 * len)),
        _ => {
            let mut word = [0u8; 8];
            word[..len].copy_from_slice(&bytes[..len]);
            u64::from_le_bytes(word)
        }
    }
}

/// Gives the first `len` of `bytes`, shifted to `offset`, word by word to `update` (the word, what to XOR
/// into it).
#[inline]
pub(crate) fn xor_open(
    words: &[AtomicU64],
    offset: usize,
    bytes: &[u8],
    len: usize,
    update: impl Fn(&AtomicU64, u64),
) {
    if len == 0 {
        return;
    }
    let mut word = offset / 8;
    let skip = offset % 8 * 8;
    let (mut rest, mut left, mut carry) = (bytes, len, 0u64);
    while left > 8 {
        let Some((part, behind)) = rest.split_first_chunk::<8>() else { break };
        let v = u64::from_le_bytes(*part);
        update(&words[word], (v << skip | carry).to_le());
        // In two steps, since a shift by all 64 bits is none.
        carry = v >> 1 >> (63 - skip);
        word += 1;
        (rest, left) = (behind, left - 8);
    }
    let v = short(rest, left);
    update(&words[word], (v << skip | carry).to_le());
    if skip + 8 * left > 64 {
        update(&words[word + 1], (v >> (64 - skip)).to_le());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(changes: &[u8]) -> Vec<(u64, u8)> {
        let mut all = vec![];
        for piece in Pieces::new(changes) {
            let (a, b) = piece.unwrap();
            all.extend(b.iter().enumerate().filter(|(_, v)| **v != 0).map(|(i, v)| (a + i as u64, *v)));
        }
        all
    }

    #[test]
    fn pieces_give_back_what_was_pushed() {
        let mut seed = 1u64;
        let mut random = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize
        };
        for _ in 0..2000 {
            let mut changes = Changes::new();
            let mut want = vec![];
            for _ in 0..random() % 5 {
                let slot = (random() as u64 * 16) & (Oid::MASK >> 1);
                let offset = random() % 100;
                let delta: Vec<u8> =
                    (0..random() % 60).map(|_| if random() % 3 > 0 { 0 } else { random() as u8 }).collect();
                let address = slot + (SLOT_HEADER + offset) as u64;
                changes.push_at(address, &delta);
                want.extend(
                    delta.iter().enumerate().filter(|(_, v)| **v != 0).map(|(i, v)| (address + i as u64, *v)),
                );
            }
            assert_eq!(expand(changes.as_bytes()), want);
            let mut padded = changes.as_bytes().to_vec();
            padded.extend_from_slice(&[0; 7]);
            assert_eq!(expand(&padded), want);
            let parts: Vec<_> = changes
                .parts(64)
                .iter()
                .flat_map(|p| {
                    assert!(p.len() <= 64);
                    expand(p.as_bytes())
                })
                .collect();
            assert_eq!(parts, want);
        }
    }

    #[test]
    fn damaged_changes_end_in_an_error_and_never_outside() {
        let mut changes = Changes::new();
        changes.push_at(4096 * 7 + 64 + SLOT_HEADER as u64 + 3, b"abc\0\0\0\0\0def");
        let good = changes.as_bytes().to_vec();
        for i in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[i] ^= 1 << bit;
                for (a, b) in Pieces::new(&bad).flatten() {
                    assert!(a + b.len() as u64 <= Oid::MASK);
                }
            }
            assert!(Pieces::new(&good[..i]).all(|p| p.is_ok_and(|(_, b)| !b.is_empty())) || i > 0);
        }
        assert!(Pieces::new(&[5, 0, 1]).next().unwrap().is_err());
        assert!(Pieces::new(&[0, 1]).next().unwrap().is_err());
    }

    #[test]
    fn bytes_behind_the_changes_are_not_looked_at() {
        let mut changes = Changes::new();
        let mut end = 0;
        for (i, distance) in [16, 100, 5000, 1 << 20, 1 << 30, 1 << 44].into_iter().enumerate() {
            changes.push_at(end + distance, &[7; 20][..1 + 3 * i]);
            end += distance + 1 + 3 * i as u64;
        }
        for cut in 0..=changes.len() {
            let short: Vec<_> = Pieces::new(&changes.as_bytes()[..cut]).collect();
            for behind in [0u8, 0x7f, 0x80, 0xff] {
                let mut longer = changes.as_bytes()[..cut].to_vec();
                longer.extend_from_slice(&[behind; 16]);
                let found: Vec<_> = Pieces::within(&longer, cut).collect();
                assert_eq!(found, short, "cut at {cut}, {behind:02x} behind");
            }
        }
    }

    #[test]
    fn varints_come_back_whichever_way_they_are_read() {
        for bits in 0..64 {
            for v in [1u64 << bits, (1 << bits) - 1, !0 >> bits] {
                let mut bytes = vec![];
                put_varint(&mut bytes, v);
                let n = bytes.len();
                assert_eq!(varint_within(&bytes, n), Some((v, n)));
                bytes.extend_from_slice(&[0xff; 8]);
                assert_eq!(varint_within(&bytes, n), Some((v, n)));
                assert_eq!(varint_within(&bytes, n - 1), None);
            }
        }
    }

    #[test]
    fn words_take_what_bytes_say() {
        let all: Vec<u8> = (1..=60).collect();
        for offset in 0..17 {
            for len in 1..=33 {
                let words: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(!0)).collect();
                let (a, b) = (words.as_slice(), &all[..]);
                // With bytes behind it and without.
                let update =
                    |w: &AtomicU64, v: u64| w.store(w.load(Ordering::Relaxed) ^ v, Ordering::Relaxed);
                xor_open(a, offset, b, len, update);
                xor_into(a, offset + 8, &b[..len]);
                let mut want = [0xffu8; 64];
                for i in 0..len {
                    want[offset + i] ^= b[i];
                    want[offset + 8 + i] ^= b[i];
                }
                let found: Vec<u8> =
                    words.iter().flat_map(|w| w.load(Ordering::Relaxed).to_ne_bytes()).collect();
                assert_eq!(found, want, "{len} bytes at {offset}");
            }
        }
    }

    #[test]
    fn a_counter_update_is_small() {
        let mut changes = Changes::new();
        let delta = (41u64 ^ 42).to_le_bytes();
        changes.push_at((3 << 30) + SLOT_HEADER as u64 + 56, &delta);
        assert!(changes.len() <= 8, "{}", changes.len());
        changes.clear();
        changes.push_at((3 << 30) + SLOT_HEADER as u64 + 56, &u64::MAX.to_le_bytes());
        assert!(changes.len() <= 16, "{}", changes.len());
    }
}
