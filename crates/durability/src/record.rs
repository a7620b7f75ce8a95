//! Records: what stands in a log block behind its header.
//!
//! Everything is in little-endian words of 8 bytes:
//! ```text
//! word 0    bits 0..24 words of the record, this one included | 24..32 tag | 32..64 c minus the block's base
//! commit    changes, padded with zeros
//! large     txn, fragments, changes
//! void      (whatever was reserved, zeros)
//! fragment  txn, n, changes
//! system    clock when it was logged, two or three words by tag
//! given     sequence, generation, steps, value
//! ```
//! - **E1** A record's length is known before its timestamp is: it is reserved under the commit latch and
//!   copied outside. Copying less than was reserved leaves zeros, which end the changes.
//! - **E2** System records (protocol/P8) have no timestamp of their own. Each carries the clock at the time
//!   it was logged, so that recovery can tell those that the checkpoint's tables already hold (clock <= T)
//!   from those that it must add. Among those that are left their order does not matter, since a segment
//!   lives at most once in a log between two published checkpoints.
//! - **E3** A transaction's number stands only where fragments make it necessary.
//! - **E4** What a sequence gave out has a timestamp, and no changes ([`crate::sequence`]).
use crate::page::{Format, PageId, SegmentId};
use crate::sequence::Given;
use crate::{CommitTs, HeapId, TxnId};

/// What a reservation is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Differences, seen from the timestamp on.
    Commit,
    /// A timestamp that changes nothing.
    Void,
}

/// A record without a commit timestamp (protocol/P8): idempotent, and its order among its like does not
/// matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// The segment now belongs to the heap; all its pages are unformatted and zero.
    SegmentCreate { segment: SegmentId, heap: HeapId },
    /// The segment's content is void from `at` on (the dropping commit, or the clock).
    SegmentDrop { segment: SegmentId, heap: HeapId, at: CommitTs },
    /// The page has this format from now on.
    PageFormat { page: PageId, format: Format },
    /// The sequence has given out values up to this one: as it was written before there were pairs
    /// (sequence/Q6).
    SequenceAdvance { id: u64, value: i64 },
    /// The sequence is gone; its id is never used again.
    SequenceDrop { id: u64 },
}

pub(crate) const COMMIT: u64 = 1;
pub(crate) const LARGE: u64 = 2;
pub(crate) const VOID: u64 = 3;
pub(crate) const FRAGMENT: u64 = 4;
const CREATE: u64 = 5;
const DROP: u64 = 6;
const FORMAT: u64 = 7;
const ADVANCE: u64 = 8;
const SEQUENCE_DROP: u64 = 9;
pub(crate) const GIVEN: u64 = 10;
/// Words of a record of what a sequence gave out.
pub(crate) const GIVEN_WORDS: usize = 5;

/// Words of a commit record with `len` bytes of changes.
#[inline]
pub(crate) fn commit_words(len: usize, fragments: u32) -> usize {
    1 + if fragments > 0 { 2 } else { 0 } + len.div_ceil(8)
}
pub(crate) fn fragment_words(len: usize) -> usize {
    3 + len.div_ceil(8)
}
#[inline]
pub(crate) fn head(words: usize, tag: u64, relative: u64) -> u64 {
    debug_assert!(words < 1 << 24 && relative <= u32::MAX as u64);
    words as u64 | tag << 24 | relative << 32
}

impl System {
    /// The record's words; the second value is how many.
    pub(crate) fn encode(&self, clock: CommitTs) -> ([u64; 5], usize) {
        let (tag, rest, n) = match *self {
            System::SegmentCreate { segment, heap } => {
                (CREATE, [segment.0 as u64 | (heap as u64) << 32, 0, 0], 1)
            }
            System::SegmentDrop { segment, heap, at } => {
                (DROP, [segment.0 as u64 | (heap as u64) << 32, at, 0], 2)
            }
            System::PageFormat { page, format } => (FORMAT, [page.0, format.code() as u64, 0], 2),
            System::SequenceAdvance { id, value } => (ADVANCE, [id, value as u64, 0], 2),
            System::SequenceDrop { id } => (SEQUENCE_DROP, [id, 0, 0], 1),
        };
        ([head(n + 2, tag, 0), clock, rest[0], rest[1], rest[2]], n + 2)
    }
}

/// A record as read back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record<'a> {
    /// `txn` is 0 where there are no fragments.
    Commit {
        ts: CommitTs,
        txn: TxnId,
        fragments: u32,
        changes: &'a [u8],
    },
    Void {
        ts: CommitTs,
    },
    Fragment {
        txn: TxnId,
        n: u32,
        changes: &'a [u8],
    },
    System {
        clock: CommitTs,
        item: System,
    },
    /// What a sequence gave out.
    Given {
        ts: CommitTs,
        sequence: u64,
        given: Given,
    },
}

impl Record<'_> {
    /// The place in the order of commits, of a record that has one.
    pub fn timestamp(&self) -> Option<CommitTs> {
        match self {
            Record::Commit { ts, .. } | Record::Void { ts } | Record::Given { ts, .. } => Some(*ts),
            Record::Fragment { .. } | Record::System { .. } => None,
        }
    }
}

/// What is wrong with a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadRecord {
    /// Within the payload.
    pub offset: usize,
    pub expected: &'static str,
    pub found: u64,
}

/// Walks the records of a payload.
pub struct Records<'a> {
    payload: &'a [u8],
    base: CommitTs,
    at: usize,
}

impl<'a> Records<'a> {
    /// `base` is the block's.
    pub fn new(payload: &'a [u8], base: CommitTs) -> Records<'a> {
        Records { payload, base, at: 0 }
    }
    /// Offset of the record that comes next.
    pub fn offset(&self) -> usize {
        self.at
    }
    #[inline]
    fn word(&self, i: usize) -> Option<u64> {
        let at = self.at + i * 8;
        let b = self.payload.get(at..at + 8)?;
        Some(u64::from_le_bytes(b.try_into().ok()?))
    }
    #[inline]
    fn step(&mut self) -> Result<Record<'a>, BadRecord> {
        let bad = |at: usize, expected, found| Err(BadRecord { offset: at, expected, found });
        let Some(head) = self.word(0) else { return bad(self.at, "a whole word", self.payload.len() as u64) };
        let words = (head & 0xff_ffff) as usize;
        if words == 0 || words > (self.payload.len() - self.at) / 8 {
            return bad(self.at, "a record within its block", words as u64);
        }
        let (tag, relative) = (head >> 24 & 0xff, head >> 32);
        let ts = self.base + relative;
        // Words that a record of this tag needs; what they hold is only looked at when they are there.
        let need = match tag {
            COMMIT | VOID => 1,
            LARGE | FRAGMENT | CREATE | SEQUENCE_DROP => 3,
            DROP | FORMAT | ADVANCE => 4,
            GIVEN => GIVEN_WORDS,
            _ => return bad(self.at, "a known record tag", tag),
        };
        if words < need {
            return bad(self.at, "a longer record", words as u64);
        }
        let w = |i: usize| self.word(i).unwrap_or(0);
        let body = |from: usize| &self.payload[self.at + from * 8..self.at + words * 8];
        let record = match tag {
            COMMIT => Record::Commit { ts, txn: 0, fragments: 0, changes: body(1) },
            LARGE => match u32::try_from(w(2)) {
                Ok(fragments) if fragments > 0 => {
                    Record::Commit { ts, txn: w(1), fragments, changes: body(3) }
                }
                _ => return bad(self.at, "a number of fragments", w(2)),
            },
            VOID => Record::Void { ts },
            GIVEN => {
                let given = Given { generation: w(2), steps: w(3), value: w(4) as i64 };
                Record::Given { ts, sequence: w(1), given }
            }
            FRAGMENT => match u32::try_from(w(2)) {
                Ok(n) => Record::Fragment { txn: w(1), n, changes: body(3) },
                _ => return bad(self.at, "a fragment's number", w(2)),
            },
            _ => {
                let segment = SegmentId(w(2) as u32);
                let heap = (w(2) >> 32) as HeapId;
                let item = match tag {
                    CREATE => System::SegmentCreate { segment, heap },
                    DROP => System::SegmentDrop { segment, heap, at: w(3) },
                    FORMAT => match u32::try_from(w(3)).ok().and_then(Format::from_code) {
                        Some(format) => System::PageFormat { page: PageId(w(2)), format },
                        None => return bad(self.at, "a page format", w(3)),
                    },
                    ADVANCE => System::SequenceAdvance { id: w(2), value: w(3) as i64 },
                    _ => System::SequenceDrop { id: w(2) },
                };
                Record::System { clock: w(1), item }
            }
        };
        self.at += words * 8;
        Ok(record)
    }
}

impl<'a> Iterator for Records<'a> {
    /// The record and its offset in the payload.
    type Item = Result<(usize, Record<'a>), BadRecord>;
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.payload.len() {
            return None;
        }
        let at = self.at;
        let step = self.step();
        if step.is_err() {
            self.at = self.payload.len();
        }
        Some(step.map(|r| (at, r)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_records_come_back() {
        let items = [
            System::SegmentCreate { segment: SegmentId(7), heap: 9 },
            System::SegmentDrop { segment: SegmentId(7), heap: 9, at: 77 },
            System::PageFormat { page: PageId(7 * 512 + 3), format: Format::RunHead { pages: 300 } },
            System::SequenceAdvance { id: 5, value: -3 },
            System::SequenceDrop { id: 5 },
        ];
        let mut payload = vec![];
        for item in &items {
            let (words, n) = item.encode(42);
            words[..n].iter().for_each(|w| payload.extend_from_slice(&w.to_le_bytes()));
        }
        let back: Vec<_> = Records::new(&payload, 1).map(|r| r.unwrap().1).collect();
        assert_eq!(back, items.map(|item| Record::System { clock: 42, item }));
    }

    #[test]
    fn every_damaged_head_is_an_error_or_another_whole_record() {
        let (words, n) = System::SegmentDrop { segment: SegmentId(1), heap: 2, at: 3 }.encode(4);
        let good: Vec<u8> = words[..n].iter().flat_map(|w| w.to_le_bytes()).collect();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            for record in Records::new(&bad, 1) {
                if let Ok((_, Record::Commit { changes, .. })) = record {
                    assert!(changes.len() <= bad.len());
                }
            }
        }
    }
}
