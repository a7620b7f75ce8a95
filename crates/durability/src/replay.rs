//! Applying the log's differences to memory (protocol/P5).
//!
//! Pieces fall on pages in any order, so each would wait for memory. They pass through a short queue instead:
//! what enters it is looked up and announced to the target ([`Target::expect`]), and what leaves it finds its
//! memory there.
//!
//! - **W1** Words and checksums are changed by atomic additions over XOR when several threads apply, and by a
//!   plain load and store when one does it alone, since then nobody else knows of the pages yet.
//! - **W2** The contribution of a piece to its page's equation (recovery/V3) is computed from the piece as it
//!   was read, and goes to the checksum of the page to which the piece goes. Those of pieces that follow one
//!   another on one page are joined first.
use crate::delta::{Pieces, by_page, short, xor_open};
use crate::error::RecoveryError;
use crate::page::PAGE_SIZE;
use crate::pages::Pages;
use crate::record::{BadRecord, Record, Records};
use crate::recovery::Target;
use crate::scan::{Gathered, Scan};
use ondol_base::crc::{raw, shift};
use ondol_base::pool;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pieces under way: enough for memory to answer, few enough for what was announced to stay.
const DEPTH: usize = 16;

/// A piece on one page.
#[derive(Clone, Copy)]
struct Step<'a> {
    words: &'a [AtomicU64],
    /// Among [`Pages`].
    place: u32,
    offset: u16,
    len: u16,
    /// The piece, and what follows it in memory.
    bytes: &'a [u8],
}

struct Queue<'a, const ALONE: bool> {
    pages: &'a Pages,
    steps: [Step<'a>; DEPTH],
    next: usize,
    /// The page that `sum` is for.
    place: usize,
    sum: u32,
}

impl<'a, const ALONE: bool> Queue<'a, ALONE> {
    fn new(pages: &'a Pages) -> Self {
        let nothing = Step { words: &[], place: 0, offset: 0, len: 0, bytes: &[] };
        Queue { pages, steps: [nothing; DEPTH], next: 0, place: 0, sum: 0 }
    }
    #[inline]
    fn push(&mut self, step: Step<'a>) {
        let old = std::mem::replace(&mut self.steps[self.next % DEPTH], step);
        self.next = self.next.wrapping_add(1);
        self.take(old);
    }
    #[inline]
    fn take(&mut self, s: Step<'a>) {
        let (offset, len) = (s.offset as usize, s.len as usize);
        if len == 0 {
            return;
        }
        xor_open(s.words, offset, s.bytes, len, |w, v| {
            if ALONE {
                w.store(w.load(Ordering::Relaxed) ^ v, Ordering::Relaxed)
            } else {
                w.fetch_xor(v, Ordering::Relaxed);
            }
        });
        // Leading zeros do not change a raw checksum, so a short piece stands at the end of a word.
        let crc = match len {
            ..=8 => raw(&(short(s.bytes, len) << (64 - 8 * len)).to_le_bytes()),
            _ => raw(&s.bytes[..len]),
        };
        let part = shift(crc, (PAGE_SIZE - offset - len) as u64);
        if self.place != s.place as usize {
            self.settle();
            self.place = s.place as usize;
        }
        self.sum ^= part;
    }
    /// Gives the sum to its page.
    #[inline]
    fn settle(&mut self) {
        if self.sum != 0 {
            let crc = &self.pages.at(self.place).crc;
            if ALONE {
                crc.store(crc.load(Ordering::Relaxed) ^ self.sum, Ordering::Relaxed)
            } else {
                crc.fetch_xor(self.sum, Ordering::Relaxed);
            }
            self.sum = 0;
        }
    }
    fn finish(mut self) {
        for i in 0..DEPTH {
            self.take(self.steps[(self.next + i) % DEPTH]);
        }
        self.settle();
    }
}

/// XORs every difference of (T, C) in.
pub(crate) fn apply<T: Target + ?Sized + 'static>(
    scan: &Arc<Scan>,
    gathered: &Arc<Gathered>,
    pages: &Arc<Pages>,
    target: &Arc<T>,
    threads: usize,
) -> Result<(), RecoveryError> {
    let runs = scan.runs();
    let alone = threads <= 1 || runs.len() <= 1;
    let (scan, gathered, pages, target) = (scan.clone(), gathered.clone(), pages.clone(), target.clone());
    pool::each_with(threads, runs.len(), move |buffer: &mut Vec<u8>, i| {
        let blocks = scan.read_run(&runs[i], buffer)?;
        if alone {
            apply_run::<T, true>(&scan, &gathered, &pages, &target, &blocks)
        } else {
            apply_run::<T, false>(&scan, &gathered, &pages, &target, &blocks)
        }
    })
}

fn apply_run<T: Target + ?Sized, const ALONE: bool>(
    scan: &Scan,
    gathered: &Gathered,
    pages: &Pages,
    target: &T,
    blocks: &[(crate::scan::Live, &[u8])],
) -> Result<(), RecoveryError> {
    let at = scan.manifest.at;
    let mut queue = Queue::<ALONE>::new(pages);
    for (l, bytes) in blocks {
        let (l, bytes) = (*l, *bytes);
        let h = scan.header(l);
        let mut records = Records::new(&bytes[..h.payload as usize], h.base);
        while let Some(record) = records.next() {
            let (offset, record) = record.map_err(|e| scan.bad_record(l, e))?;
            let changes = match record {
                Record::Commit { ts, changes, .. } if ts > at => changes,
                Record::Fragment { txn, changes, .. }
                    if gathered.spilled.contains_key(&(h.incarnation, txn)) =>
                {
                    changes
                }
                _ => continue,
            };
            let bad = |expected, found| scan.bad_record(l, BadRecord { offset, expected, found });
            // Changes end where their record does.
            let mut pieces = Pieces::within(&bytes[records.offset() - changes.len()..], changes.len());
            while let Some(piece) = pieces.next_open() {
                let (address, bytes, len) = piece.map_err(|m| bad(m.0, 0))?;
                let mut from = 0;
                for (page, offset, part) in by_page(address, &bytes[..len]) {
                    let Some(place) = pages.place(page) else {
                        if pages.dropped.contains(&page.segment()) {
                            from += part.len();
                            continue;
                        }
                        return Err(bad("a page of a segment", page.0));
                    };
                    if !pages.at(place).format.is_row(offset, part.len()) {
                        return Err(bad("row bytes of one slot", address));
                    }
                    target.expect(page, offset);
                    pages.change(place);
                    let (place, offset, len) = (place as u32, offset as u16, part.len() as u16);
                    queue.push(Step { words: target.words(page), place, offset, len, bytes: &bytes[from..] });
                    from += part.len();
                }
            }
        }
    }
    queue.finish();
    Ok(())
}
