//! Checkpoint files: page images, and the tables of segments and sequences.
//!
//! ```text
//! file  = head chunk*
//! head  = magic 8 | format 4 | CRC32C of the head, this field zero 4 | database 16 | number 8 | T 8     (48 bytes)
//! chunk = mark 4 | kind 4 | file number 8 | length 4 | count 4 | CRC32C of the payload 4 | of this header 4 | payload
//! image   (kind 1)  page 8 | raw CRC of the logical page 4 | length 4 | row bytes, without trailing zeros
//! segment (kind 2)  id 4 | heap 4 | created 8 | runs 4, each: pages 4, format 4
//! maximum (kind 3)  id 8 | value 8: as sequences were written before (sequence/Q6)
//! given   (kind 5)  id 8 | generation 8 | steps 8 | value 8
//! index   (kind 4)  offset 8 of each other chunk; last in the file, where the manifest says
//! ```
//! - **I1** The file is new, written once, synced, and only then named by the manifest.
//! - **I2** Row bytes are the page's [`Format::rows`] one behind the other: headers are volatile and left
//!   out.
//! - **I3** A page in an increment counts in place of every older image; a page without one keeps the older.
//!   A page in no file is zero. So an increment also holds pages that became zero (with no row bytes); a full
//!   file leaves them out.
//! - **I4** An image counts only if its segment was created at or before the file's T: a reused segment must
//!   not inherit images of its former life.
//! - **I5** Every byte is under a checksum, and the chunks cover the file from the head to its end.
use crate::block;
use crate::checkpoint::Segment;
use crate::error::RecoveryError;
use crate::manifest::{CheckpointFile, WordReader};
use crate::page::{Format, PAGE_SIZE, PAGES_PER_SEGMENT, PageId, SegmentId};
use crate::sequence::Given;
use crate::{CommitTs, HeapId};
use ondol_base::crc::{crc32c, raw};
use ondol_base::media::{File, Open, Storage};
use std::io;
use std::sync::Arc;

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"ONDOLIMG");
const FORMAT: u32 = block::FORMAT;
const HEAD: usize = 48;
const CHUNK_HEAD: usize = 32;
const MARK: u32 = u32::from_le_bytes(*b"CHNK");
/// Payload at which a chunk is written.
pub(crate) const CHUNK: usize = 256 << 10;
const IMAGES: u32 = 1;
const SEGMENTS: u32 = 2;
const MAXIMA: u32 = 3;
const INDEX: u32 = 4;
const SEQUENCES: u32 = 5;

/// A segment as a checkpoint file keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSegment {
    pub segment: Segment,
    /// The clock when it was created.
    pub created: CommitTs,
}

/// Writes a checkpoint file, chunk by chunk.
pub(crate) struct ImageWriter {
    file: Arc<dyn File>,
    number: u64,
    offset: u64,
    kind: u32,
    count: u32,
    /// Room for its head, then the payload.
    chunk: Vec<u8>,
    offsets: Vec<u64>,
}

impl ImageWriter {
    pub fn create(
        storage: &dyn Storage,
        number: u64,
        database: u128,
        at: CommitTs,
    ) -> io::Result<ImageWriter> {
        let name = crate::manifest::checkpoint_name(number);
        let file = storage.open(&name, Open::Create)?;
        let mut head = Vec::with_capacity(HEAD);
        head.extend_from_slice(&MAGIC.to_le_bytes());
        head.extend_from_slice(&FORMAT.to_le_bytes());
        head.extend_from_slice(&[0; 4]);
        head.extend_from_slice(&database.to_le_bytes());
        head.extend_from_slice(&number.to_le_bytes());
        head.extend_from_slice(&at.to_le_bytes());
        let crc = crc32c(&head);
        head[12..16].copy_from_slice(&crc.to_le_bytes());
        file.write_at(&head, 0)?;
        Ok(ImageWriter {
            file,
            number,
            offset: HEAD as u64,
            kind: IMAGES,
            count: 0,
            chunk: {
                let mut chunk = Vec::with_capacity(CHUNK_HEAD + CHUNK + PAGE_SIZE + 16);
                chunk.resize(CHUNK_HEAD, 0);
                chunk
            },
            offsets: vec![],
        })
    }

    fn write(&mut self) -> io::Result<()> {
        if self.count == 0 && self.kind != INDEX {
            return Ok(());
        }
        let (head, payload) = self.chunk.split_at_mut(CHUNK_HEAD);
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MARK.to_le_bytes());
        put(4, &self.kind.to_le_bytes());
        put(8, &self.number.to_le_bytes());
        put(16, &(payload.len() as u32).to_le_bytes());
        put(20, &self.count.to_le_bytes());
        put(24, &crc32c(payload).to_le_bytes());
        let crc = crc32c(&head[..CHUNK_HEAD - 4]);
        head[CHUNK_HEAD - 4..].copy_from_slice(&crc.to_le_bytes());
        self.file.write_at(&self.chunk, self.offset)?;
        if self.kind != INDEX {
            self.offsets.push(self.offset);
        }
        self.offset += self.chunk.len() as u64;
        self.chunk.truncate(CHUNK_HEAD);
        self.count = 0;
        ondol_base::sync::yield_point();
        Ok(())
    }
    fn turn(&mut self, kind: u32) -> io::Result<()> {
        if self.kind != kind {
            self.write()?;
            self.kind = kind;
        }
        Ok(())
    }
    /// True when a chunk went out: a moment to pause.
    fn item(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<bool> {
        write(&mut self.chunk);
        self.count += 1;
        if self.chunk.len() >= CHUNK_HEAD + CHUNK {
            self.write()?;
            return Ok(true);
        }
        Ok(false)
    }

    pub fn image(&mut self, page: PageId, format: Format, content: &[u8]) -> io::Result<bool> {
        self.turn(IMAGES)?;
        let crc = raw(content);
        self.item(|out| {
            out.extend_from_slice(&page.0.to_le_bytes());
            out.extend_from_slice(&crc.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
            let start = out.len();
            for range in format.rows() {
                out.extend_from_slice(&content[range]);
            }
            let len = filled(&out[start..]);
            out.truncate(start + len);
            out[start - 4..start].copy_from_slice(&(len as u32).to_le_bytes());
        })
    }
    pub fn segment(&mut self, segment: &Segment, created: CommitTs) -> io::Result<bool> {
        self.turn(SEGMENTS)?;
        self.item(|out| {
            out.extend_from_slice(&segment.id.0.to_le_bytes());
            out.extend_from_slice(&segment.heap.to_le_bytes());
            out.extend_from_slice(&created.to_le_bytes());
            let mut runs: Vec<(u32, u32)> = vec![];
            for f in &segment.formats {
                match runs.last_mut() {
                    Some((n, code)) if *code == f.code() => *n += 1,
                    _ => runs.push((1, f.code())),
                }
            }
            out.extend_from_slice(&(runs.len() as u32).to_le_bytes());
            for (n, code) in runs {
                out.extend_from_slice(&n.to_le_bytes());
                out.extend_from_slice(&code.to_le_bytes());
            }
        })
    }
    pub fn sequence(&mut self, id: u64, given: Given) -> io::Result<bool> {
        self.turn(SEQUENCES)?;
        self.item(|out| {
            let words = [id, given.generation, given.steps, given.value as u64];
            words.iter().for_each(|w| out.extend_from_slice(&w.to_le_bytes()))
        })
    }
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
    pub fn written(&self) -> u64 {
        self.offset
    }
    /// Ends the file and syncs it: its length and where the index stands.
    pub fn finish(mut self) -> io::Result<(u64, u64)> {
        self.turn(INDEX)?;
        let index = self.offset;
        self.count = self.offsets.len() as u32;
        self.chunk.extend(self.offsets.iter().flat_map(|o| o.to_le_bytes()));
        self.write()?;
        self.file.sync_data()?;
        Ok((self.offset, index))
    }
}

/// The length without trailing zeros.
fn filled(bytes: &[u8]) -> usize {
    let mut bytes = bytes;
    while let Some((rest, last)) = bytes.split_last_chunk::<16>()
        && *last == [0; 16]
    {
        bytes = rest
    }
    bytes.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1)
}

/// Reads a checkpoint file.
pub(crate) struct ImageReader {
    file: Arc<dyn File>,
    pub name: String,
    pub number: u64,
    pub at: CommitTs,
    /// Offset and end of each chunk before the index.
    pub chunks: Vec<(u64, u64)>,
}

/// What a chunk holds.
pub(crate) enum Chunk<'b> {
    Images(&'b [u8]),
    Segments(Vec<StoredSegment>),
    Sequences(Vec<(u64, Given)>),
}

impl ImageReader {
    pub fn open(
        storage: &dyn Storage,
        entry: &CheckpointFile,
        database: u128,
    ) -> Result<ImageReader, RecoveryError> {
        let name = entry.name();
        let io = |error: io::Error| RecoveryError::Io { file: name.clone(), error };
        let file = storage.open(&name, Open::Read).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => {
                RecoveryError::MissingFile { file: name.clone(), why: "the manifest names it".into() }
            }
            _ => io(e),
        })?;
        let bad = |offset: u64, expected: String, found: String| RecoveryError::Image {
            file: name.clone(),
            offset,
            expected,
            found,
        };
        let len = file.len().map_err(io)?;
        if len < entry.length || entry.length < (HEAD + CHUNK_HEAD) as u64 {
            return Err(bad(0, format!("{} bytes", entry.length), format!("{len}")));
        }
        let mut head = [0u8; HEAD];
        file.read_exact_at(&mut head, 0).map_err(io)?;
        let mut r = WordReader { bytes: &head, at: 0 };
        let magic = r.u64().unwrap_or(0);
        if magic != MAGIC {
            return Err(RecoveryError::WrongMagic { file: name, offset: 0, expected: MAGIC, found: magic });
        }
        let (format, crc) = (r.u32().unwrap_or(0), r.u32().unwrap_or(0));
        // Before all that another version may have elsewhere.
        if format != FORMAT {
            return Err(RecoveryError::WrongFormat { file: name, expected: FORMAT, found: format });
        }
        let other = r.u64().unwrap_or(0) as u128 | (r.u64().unwrap_or(0) as u128) << 64;
        let (number, at) = (r.u64().unwrap_or(0), r.u64().unwrap_or(0));
        head[12..16].fill(0);
        let found = crc32c(&head);
        if found != crc {
            return Err(bad(0, format!("checksum {crc:08x}"), format!("{found:08x}")));
        }
        if other != database {
            return Err(RecoveryError::OtherDatabase {
                file: name,
                offset: 16,
                expected: database,
                found: other,
            });
        }
        if number != entry.number || at != entry.at {
            let what = |n, at| format!("checkpoint {n} of commit {at}");
            return Err(bad(32, what(entry.number, entry.at), what(number, at)));
        }
        let mut reader = ImageReader { file, name: name.clone(), number, at, chunks: vec![] };
        let mut buffer = vec![];
        let (kind, _, index, end) = reader.read(entry.index, entry.length, &mut buffer)?;
        if kind != INDEX || end != entry.length {
            return Err(bad(
                entry.index,
                format!("the index, ending at {}", entry.length),
                format!("kind {kind} ending at {end}"),
            ));
        }
        let offsets: Vec<u64> =
            index.chunks_exact(8).filter_map(|b| b.try_into().ok().map(u64::from_le_bytes)).collect();
        let ends = offsets.iter().skip(1).copied().chain([entry.index]);
        reader.chunks = offsets.iter().copied().zip(ends).collect();
        let starts = offsets.first().copied().unwrap_or(entry.index);
        if starts != HEAD as u64 || reader.chunks.iter().any(|(a, b)| a >= b) {
            return Err(bad(entry.index, "chunks from the head to the index".into(), "a gap".into()));
        }
        Ok(reader)
    }

    /// Kind, count, payload and end of the chunk at `offset`; it must end by `limit`, and nothing else may be
    /// before that but what follows it in the file.
    fn read<'b>(
        &self,
        offset: u64,
        limit: u64,
        buffer: &'b mut Vec<u8>,
    ) -> Result<(u32, u32, &'b [u8], u64), RecoveryError> {
        let io = |error: io::Error| RecoveryError::Io { file: self.name.clone(), error };
        let bad = |expected: String, found: String| RecoveryError::Image {
            file: self.name.clone(),
            offset,
            expected,
            found,
        };
        let all = limit.saturating_sub(offset) as usize;
        if all < CHUNK_HEAD {
            return Err(bad("a chunk".into(), format!("{all} bytes")));
        }
        // One buffer serves all chunks, which are of about one length.
        if buffer.len() < all {
            buffer.resize(all, 0);
        }
        self.file.read_exact_at(&mut buffer[..all], offset).map_err(io)?;
        let (head, payload) = buffer[..all].split_at(CHUNK_HEAD);
        let mut r = WordReader { bytes: head, at: 0 };
        let mut word = || r.u32().unwrap_or(0);
        let (mark, kind, low, high, length, count, crc, head_crc) =
            (word(), word(), word(), word(), word(), word(), word(), word());
        let found = crc32c(&head[..CHUNK_HEAD - 4]);
        if mark != MARK || found != head_crc {
            return Err(bad(format!("a chunk of checksum {head_crc:08x}"), format!("{found:08x}")));
        }
        let number = low as u64 | (high as u64) << 32;
        let end = offset + CHUNK_HEAD as u64 + length as u64;
        if number != self.number || end > limit {
            return Err(bad(
                format!("a chunk of file {} up to {limit}", self.number),
                format!("one of file {number} up to {end}"),
            ));
        }
        let payload = &payload[..length as usize];
        let found = crc32c(payload);
        if found != crc {
            return Err(bad(format!("checksum {crc:08x}"), format!("{found:08x}")));
        }
        Ok((kind, count, payload, end))
    }

    pub fn chunk<'b>(&self, i: usize, buffer: &'b mut Vec<u8>) -> Result<Chunk<'b>, RecoveryError> {
        let (offset, limit) = self.chunks[i];
        let (kind, count, payload, end) = self.read(offset, limit, buffer)?;
        let bad = |expected: &str, found: String| RecoveryError::Image {
            file: self.name.clone(),
            offset,
            expected: expected.into(),
            found,
        };
        if end != limit {
            return Err(bad("chunks one behind the other", format!("a gap from {end} to {limit}")));
        }
        match kind {
            IMAGES => Ok(Chunk::Images(payload)),
            SEGMENTS => {
                let mut r = WordReader { bytes: payload, at: 0 };
                let all = (0..count).map(|_| segment(&mut r)).collect::<Option<Vec<_>>>();
                all.map(Chunk::Segments)
                    .ok_or_else(|| bad("whole segments", format!("{} bytes", payload.len())))
            }
            MAXIMA | SEQUENCES => {
                let mut r = WordReader { bytes: payload, at: 0 };
                let one = |_| {
                    let id = r.u64()?;
                    if kind == MAXIMA {
                        return Some((id, Given::up_to(r.u64()? as i64)));
                    }
                    let (generation, steps, value) = (r.u64()?, r.u64()?, r.u64()? as i64);
                    Some((id, Given { generation, steps, value }))
                };
                let all = (0..count).map(one).collect::<Option<Vec<_>>>();
                all.map(Chunk::Sequences)
                    .ok_or_else(|| bad("whole sequences", format!("{} bytes", payload.len())))
            }
            _ => Err(bad("a known kind of chunk", format!("{kind}"))),
        }
    }
}

fn segment(r: &mut WordReader<'_>) -> Option<StoredSegment> {
    let (id, heap): (u32, HeapId) = (r.u32()?, r.u32()?);
    let created = r.u64()?;
    let runs = r.u32()?;
    let mut formats = Vec::with_capacity(PAGES_PER_SEGMENT);
    for _ in 0..runs {
        let (n, code) = (r.u32()? as usize, r.u32()?);
        if n > PAGES_PER_SEGMENT - formats.len() {
            return None;
        }
        formats.extend(std::iter::repeat_n(Format::from_code(code)?, n));
    }
    (formats.len() == PAGES_PER_SEGMENT)
        .then_some(StoredSegment { segment: Segment { id: SegmentId(id), heap, formats }, created })
}

/// Walks the images of a chunk: the page, its checksum, the packed bytes.
pub(crate) fn images(payload: &[u8]) -> impl Iterator<Item = Result<(PageId, u32, &[u8]), usize>> {
    let mut r = WordReader { bytes: payload, at: 0 };
    let mut ended = false;
    std::iter::from_fn(move || {
        if ended || r.at == payload.len() {
            return None;
        }
        let at = r.at;
        let mut next = || {
            let (page, crc, len) = (PageId(r.u64()?), r.u32()?, r.u32()? as usize);
            Some((page, crc, r.take(len)?))
        };
        let item = next().ok_or(at);
        ended = item.is_err();
        Some(item)
    })
}

/// Spreads packed row bytes over the logical page (zeros before); false when they do not fit.
pub(crate) fn unpack(format: Format, mut packed: &[u8], page: &mut [u8]) -> bool {
    for range in format.rows() {
        let n = range.len().min(packed.len());
        page[range.start..range.start + n].copy_from_slice(&packed[..n]);
        packed = &packed[n..];
        if packed.is_empty() {
            return true;
        }
    }
    packed.is_empty()
}
