//! The frames of a WAL that count, found as SQLite's recovery finds them: by salts, and checksums that chain
//! over headers and pages.
//!
//! For a connection that is alone and keeps the WAL's index to itself, as in exclusive locking mode from the
//! start. What was proved is remembered, so each frame is read once.
//!
//! - **N1** Frames up to a commit are never written to again while the WAL is not begun anew, which changes
//!   its salt.
//! - **N2** A commit that failed may be proved here, and is none to SQLite. So nothing is known between the
//!   writing of a commit's last frame and SQLite's word that it is done, which never comes for one that
//!   failed.
use crate::exchange::{Pair, checksum, fill};
use crate::layout::{HEADER, HEADER_AT};
use crate::wal::{self, Entry};
use std::io;

/// What was proved so far.
#[derive(Debug, Default)]
pub struct Chain {
    header: [u8; HEADER as usize],
    /// Of the frames up to the last commit.
    entries: Vec<Entry>,
    /// The checksum there.
    sums: [u32; 2],
    /// Frames that checkpoints of this connection went through.
    pub backfilled: u64,
    /// N2: that word is awaited.
    pub in_doubt: bool,
}

impl Chain {
    /// The frames up to the last commit; none where that is not known.
    pub fn frames(&mut self, pair: Pair<'_>) -> io::Result<Option<&[Entry]>> {
        if self.in_doubt {
            return Ok(None);
        }
        let mut header = [0; HEADER as usize];
        fill(pair.wal, &mut header, HEADER_AT)?;
        if header != self.header {
            *self = Chain { header, backfilled: self.backfilled, ..Chain::default() };
            self.sums = [[24, 25, 26, 27], [28, 29, 30, 31]].map(|at| word(at.map(|at: usize| header[at])));
        }
        let all = pair.layout.frames(wal::len(pair.wal, pair.layout)?).unwrap_or(0);
        let known = self.entries.len() as u64;
        let mut page = vec![0; pair.layout.page() as usize];
        let (mut sums, mut open) = (self.sums, Vec::new());
        for (frame, entry) in (known..all).zip(wal::entries(pair.wal, pair.layout, known, all.max(known))?) {
            if entry.salts() != &header[wal::SALTS] {
                break;
            }
            if entry.away() {
                pair.read(frame, &entry, &mut page)?;
            } else {
                fill(pair.wal, &mut page, pair.layout.place_at(u64::from(entry.place())))?;
            }
            let big_endian = header[3] & 1 == 1;
            sums = checksum(big_endian, &page, checksum(big_endian, entry.summed(), sums));
            if sums != entry.sums().map(word) {
                break;
            }
            open.push(entry);
            if entry.size() > 0 {
                self.entries.append(&mut open);
                self.sums = sums;
            }
        }
        Ok(Some(&self.entries))
    }
}

fn word(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes)
}
