//! Reading a log file piece by piece, so that a log of any length passes through a buffer that the caches
//! hold.
//!
//! - **A1** Nothing read is kept: whoever comes again reads again, and checks again. What a file gave once it
//!   may not give twice, where an earlier sync failed and the system's cache has since dropped the page.
//! - **A2** A buffer is as long as the longest block met, and at least [`WINDOW`].
use crate::block::{self, Found, Header};
use crate::error::RecoveryError;
use crate::files::Place;
use ondol_base::crc::crc32c;
use ondol_base::media::{File, Open};
use std::io;
use std::sync::Arc;

/// Read at once: well within a core's own cache, and long enough that calls do not count.
pub(crate) const WINDOW: usize = 256 << 10;

/// A log file as found: its blocks, without their payloads.
pub(crate) struct LogReader {
    pub stream: u16,
    pub number: u64,
    pub name: String,
    pub size: u64,
    pub blocks: Vec<Header>,
    /// Whole headers whose payload is not.
    pub torn: Vec<Header>,
    /// Blocks that name another place: what the file held before it was recycled.
    pub stale: u64,
    file: Arc<dyn File>,
}

fn io(file: &str) -> impl Fn(io::Error) -> RecoveryError + '_ {
    move |error| RecoveryError::Io { file: file.into(), error }
}

/// The part of a file that is in memory.
struct Window<'a> {
    file: &'a dyn File,
    size: u64,
    buffer: &'a mut Vec<u8>,
    start: u64,
    filled: usize,
}
impl Window<'_> {
    /// `need` bytes from `at` on, or as many as the file has.
    fn get(&mut self, at: u64, need: usize) -> io::Result<&[u8]> {
        let need = need.min((self.size - at) as usize);
        if at < self.start || at + need as u64 > self.start + self.filled as u64 {
            let keep = (self.start + self.filled as u64).checked_sub(at).filter(|_| at >= self.start);
            let keep = keep.unwrap_or(0) as usize;
            self.buffer.copy_within(self.filled - keep..self.filled, 0);
            let len = need.max(WINDOW.min((self.size - at) as usize));
            if self.buffer.len() < len {
                self.buffer.resize(len.max(WINDOW), 0);
            }
            (self.start, self.filled) = (at, 0);
            self.file.read_exact_at(&mut self.buffer[keep..len], at + keep as u64)?;
            self.filled = len;
        }
        let from = (at - self.start) as usize;
        Ok(&self.buffer[from..from + need])
    }
}

/// Reads one log file and finds its blocks; `visit` sees each that is whole, with its payload.
pub(crate) fn scan_file(
    place: &Place,
    stream: u16,
    number: u64,
    database: u128,
    buffer: &mut Vec<u8>,
    visit: &mut dyn FnMut(&Header, &[u8]),
) -> Result<LogReader, RecoveryError> {
    let name = place.path(number);
    let file = place.storage.open(&name, Open::Read).map_err(io(&name))?;
    let size = file.len().map_err(io(&name))?;
    let mut window = Window { file: &*file, size, buffer, start: 0, filled: 0 };
    let (mut blocks, mut torn, mut stale) = (vec![], vec![], 0);
    let mut at = 0;
    while at + block::ALIGN as u64 <= size {
        let mut step = block::ALIGN as u64;
        match block::header(window.get(at, block::ALIGN).map_err(io(&name))?) {
            Err(Found::OtherFormat(found)) => {
                return Err(RecoveryError::WrongFormat { file: name, expected: block::FORMAT, found });
            }
            Err(_) => {}
            Ok((h, _)) if h.file != number || h.offset != at => {
                // Stale (files/L2), or a copy of a block within a row. Neither says anything of this file;
                // yet a block of another database, where nobody of ours could have left it, must be told.
                if h.database != database && at == 0 {
                    let (expected, found) = (database, h.database);
                    return Err(RecoveryError::OtherDatabase { file: name, offset: at, expected, found });
                }
                stale += 1;
            }
            Ok((h, crc)) => {
                if h.database != database {
                    let (expected, found) = (database, h.database);
                    return Err(RecoveryError::OtherDatabase { file: name, offset: at, expected, found });
                }
                if h.stream != stream {
                    let found = h.stream;
                    return Err(RecoveryError::OtherStream {
                        file: name,
                        offset: at,
                        expected: stream,
                        found,
                    });
                }
                let mut whole = false;
                if h.payload <= size - at - h.len() as u64 {
                    let all = window.get(at, h.len() + h.payload as usize).map_err(io(&name))?;
                    let payload = &all[h.len()..];
                    whole = crc32c(payload) == crc;
                    if whole {
                        visit(&h, payload);
                    }
                }
                if whole {
                    step = h.block_len() as u64;
                    blocks.push(*h)
                } else {
                    torn.push(*h)
                }
            }
        }
        at += step;
    }
    Ok(LogReader { stream, number, name, size, blocks, torn, stale, file })
}

impl LogReader {
    /// Reads a run of blocks, one directly behind the other, again (A1), and gives each with its payload. The
    /// payload reaches on to the end of what was read, so that words can be read beyond its own end.
    pub fn again<'b>(&self, run: &[usize], buffer: &'b mut Vec<u8>) -> Result<Vec<&'b [u8]>, RecoveryError> {
        let places = run.iter().map(|i| &self.blocks[*i]);
        let from = places.clone().map(|h| h.offset).min().unwrap_or(0);
        let to = places.map(|h| h.offset + h.block_len() as u64).max().unwrap_or(0).min(self.size);
        let len = to.saturating_sub(from) as usize;
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        let bytes = &mut buffer[..len];
        self.file.read_exact_at(bytes, from).map_err(io(&self.name))?;
        let bytes = &*bytes;
        let mut found = Vec::with_capacity(run.len());
        for i in run {
            let h = &self.blocks[*i];
            let start = (h.offset - from) as usize;
            match block::parse(&bytes[start..]) {
                Found::Block(again) if *again == *h => found.push(&bytes[start + h.len()..]),
                _ => {
                    return Err(RecoveryError::Block {
                        file: self.name.clone(),
                        offset: h.offset,
                        expected: "the block that was read there before".into(),
                        found: "something else".into(),
                    });
                }
            }
        }
        Ok(found)
    }
}
