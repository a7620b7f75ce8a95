//! Page compression: pages deflated each in its own place, with a hole behind it. Four forms.
//!
//! ```text
//!   MariaDB, full_crc32      type 0x8000 + size / 256        26 the page, deflated                                 checksum in the size's last 4 bytes
//!   MariaDB, older           type 34354, 26 algorithm (8)    38 deflated size (2), the page with its own checksum
//!   the same, encrypted      type 37401                      38 deflated size (2), algorithm (2), the page with its own checksum
//!   MySQL                    type 14, 26 version, algorithm, the page's type (2), its bytes behind 38 (2), deflated size (2)   38 these bytes
//! ```
//! Sources: MariaDB's and MySQL's documentation of page compression; pages of both servers.
use crate::checksum::Family;
use crate::page::{Page, kind, u16_at, u64_at};
use crate::zip::inflate;

/// Why a page cannot be inflated.
pub enum Refused {
    Damaged(String),
    Unsupported(String),
}

/// Algorithms by MariaDB's numbers. MySQL has the first two.
const ALGORITHMS: [&str; 7] = ["none", "zlib", "lz4", "lzo", "lzma", "bzip2", "snappy"];
const ZLIB: u64 = 1;
const LZ4: u64 = 2;
const DATA: usize = 38;

/// Bytes of a page that its checksum covers with itself, if it is compressed in MariaDB's newer form.
pub fn full_size(page: &[u8]) -> Option<usize> {
    let kind = Page(page).kind();
    (kind & 0x8000 != 0).then_some((kind & 0x7fff) as usize * 256)
}

/// Inflates a page in its place, if it is compressed. `algorithm`: what the tablespace's flags say, in
/// MariaDB's newer form.
pub fn unpack(page: &mut [u8], family: Family, algorithm: u32) -> Result<bool, Refused> {
    let read = match (family, Page(page).kind()) {
        (Family::Full, _) => {
            let Some(size) = full_size(page) else { return Ok(false) };
            only_zlib(algorithm as u64)?;
            let mut whole = vec![0; page.len()];
            let deflated = page.get(26..size.saturating_sub(4)).unwrap_or(&[]);
            inflate(deflated, &mut whole).map(|()| whole)
        }
        (Family::Old, kind::PAGE_COMPRESSED) => {
            only_zlib(u64_at(page, 26).unwrap_or(0))?;
            let size = u16_at(page, DATA).unwrap_or(0) as usize;
            let mut whole = vec![0; page.len()];
            let deflated = page.get(DATA + 2..DATA + 2 + size).unwrap_or(&[]);
            inflate(deflated, &mut whole).map(|()| whole)
        }
        (Family::Old, kind::PAGE_COMPRESSED_ENCRYPTED) => {
            only_zlib(u16_at(page, DATA + 2).unwrap_or(0).into())?;
            let size = u16_at(page, DATA).unwrap_or(0) as usize;
            let mut whole = vec![0; page.len()];
            let deflated = page.get(DATA + 4..DATA + 4 + size).unwrap_or(&[]);
            inflate(deflated, &mut whole).map(|()| whole)
        }
        (Family::Old, kind::COMPRESSED) => {
            let algorithm = page[27] as u64;
            if algorithm != LZ4 {
                only_zlib(algorithm)?;
            }
            let (length, size) =
                (u16_at(page, 30).unwrap_or(0) as usize, u16_at(page, 32).unwrap_or(0) as usize);
            if length != page.len() - DATA {
                Err(format!("it would have {length} bytes behind its header, of {}", page.len() - DATA))
            } else {
                let mut whole = page[..DATA].to_vec();
                whole[24..26].copy_from_slice(&page[28..30]);
                whole[26..34].fill(0);
                whole.resize(page.len(), 0);
                let deflated = page.get(DATA..DATA + size).unwrap_or(&[]);
                let inflated = match algorithm {
                    LZ4 => unlz4(deflated, &mut whole[DATA..]),
                    _ => inflate(deflated, &mut whole[DATA..]),
                };
                inflated.map(|()| whole)
            }
        }
        _ => return Ok(false),
    };
    page.copy_from_slice(&read.map_err(|why| Refused::Damaged(format!("it is compressed, and {why}")))?);
    Ok(true)
}

/// Decompresses one block into exactly `into`.
fn unlz4(block: &[u8], into: &mut [u8]) -> Result<(), String> {
    match lz4_flex::block::decompress_into(block, into) {
        Ok(n) if n == into.len() => Ok(()),
        Ok(n) => Err(format!("its block of lz4 gives {n} bytes, {} were expected", into.len())),
        Err(e) => Err(format!("its block of lz4 cannot be read: {e}")),
    }
}

fn only_zlib(algorithm: u64) -> Result<(), Refused> {
    if algorithm == ZLIB {
        return Ok(());
    }
    let name = ALGORITHMS.get(algorithm as usize).copied().unwrap_or("an unknown algorithm");
    Err(Refused::Unsupported(format!(
        "it is compressed with {name}; zlib is read, and MySQL's lz4: rebuild the table with it, or without page compression"
    )))
}
