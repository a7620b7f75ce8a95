//! SQLite's WAL on a file in our layout: every operation on SQLite's bytes, done where `layout` puts them.
//!
//! - **T1** Block 0's magic is written with every WAL header, in one write within one sector, so a header is never
//!   seen without it, and a file without it has no frames.
//! - **T2** Nothing is remembered between calls: several processes work on one file with no word between them.
use crate::layout::{FRAME_HEADER, HEADER, HEADER_AT, Layout, MAGIC, SPAN, VERSION};
use crate::medium::Medium;
use std::io;

/// What block 0 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Nothing durable: no WAL header was written since the file was made or emptied.
    Empty,
    Ours,
    /// Of another version, or not ours at all.
    Foreign,
}

pub fn format(file: &dyn Medium) -> io::Result<Format> {
    let mut head = [0; HEADER_AT as usize];
    let n = file.read_at(&mut head, 0)?;
    Ok(if head[..n].iter().all(|b| *b == 0) {
        Format::Empty
    } else if head[..16] == *MAGIC && head[16..20] == VERSION.to_le_bytes() {
        Format::Ours
    } else {
        Format::Foreign
    })
}

/// Reads SQLite's bytes from `offset`; what is not there is zero, and not counted.
pub fn read(file: &dyn Medium, layout: Layout, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let (mut done, mut whole) = (0, true);
    let mut count = 0;
    while done < buf.len() {
        let from = offset + done as u64;
        let (at, n) = layout.piece(from..offset + buf.len() as u64);
        let part = &mut buf[done..done + n as usize];
        let got = file.read_at(part, at)?;
        part[got..].fill(0);
        if whole {
            count += got;
        }
        whole &= got == part.len();
        done += part.len();
    }
    Ok(count)
}

/// Writes SQLite's bytes at `offset`.
pub fn write(file: &dyn Medium, layout: Layout, buf: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < buf.len() {
        let from = offset + done as u64;
        let (at, n) = layout.piece(from..offset + buf.len() as u64);
        let part = &buf[done..done + n as usize];
        if from == 0 {
            // T1
            let mut head = [0; (HEADER_AT + HEADER) as usize];
            head[..16].copy_from_slice(MAGIC);
            head[16..20].copy_from_slice(&VERSION.to_le_bytes());
            head[HEADER_AT as usize..][..part.len()].copy_from_slice(part);
            file.write_at(&head[..HEADER_AT as usize + part.len()], 0)?;
        } else {
            file.write_at(part, at)?;
        }
        done += part.len();
    }
    Ok(())
}

pub fn len(file: &dyn Medium, layout: Layout) -> io::Result<u64> {
    Ok(layout.virtual_len(file.len()?))
}

pub fn set_len(file: &dyn Medium, layout: Layout, len: u64) -> io::Result<()> {
    // Only ever shorter: a hole would read as frames.
    let new = layout.physical_len(len);
    if new < file.len()? { file.set_len(new) } else { Ok(()) }
}

/// The page number in each of the frames `from..to` (from 0).
pub fn page_numbers(file: &dyn Medium, layout: Layout, from: u64, to: u64) -> io::Result<Vec<u32>> {
    let mut pages = Vec::with_capacity((to - from) as usize);
    let mut at = from;
    while at < to {
        let end = to.min((at / SPAN + 1) * SPAN);
        let mut headers = vec![0; ((end - at) * FRAME_HEADER) as usize];
        if file.read_at(&mut headers, layout.frame_header_at(at))? < headers.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        pages.extend(
            headers.chunks_exact(FRAME_HEADER as usize).map(|h| u32::from_be_bytes([h[0], h[1], h[2], h[3]])),
        );
        at = end;
    }
    Ok(pages)
}
