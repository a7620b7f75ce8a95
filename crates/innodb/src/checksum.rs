//! Checksums of pages: both families, and how each is told.
//!
//! *full_crc32* (MariaDB from 10.5, by the tablespace's flags): the last 4 bytes are the CRC-32C of all
//! before them.
//!
//! *The old family* (MySQL, older MariaDB): a checksum at offset 0 and another in the page's trailer of 8
//! bytes, whose last 4 repeat the low half of the LSN. Which of `crc32`, `innodb` and `none` made them is a
//! server's setting and is not recorded, so a page is whole if any one of them fits. Both fields must fit the
//! same one.

use crate::page::{Page, u32_at};
use ondol_base::crc::crc32c;

/// Which family a tablespace's pages are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Full,
    Old,
}

/// What `none` leaves in both fields.
const NO_CHECKSUM: u32 = 0xDEAD_BEEF;

/// Whether a page is whole; if not, what was found.
pub fn verify(page: &[u8], family: Family) -> Result<(), String> {
    match family {
        Family::Full => {
            let Some((body, sum)) = page.split_last_chunk::<4>() else {
                return Err("a page of no length".into());
            };
            let (found, expected) = (u32::from_be_bytes(*sum), crc32c(body));
            if found == expected || (found == 0 && is_zero(page)) {
                return Ok(());
            }
            Err(format!("its checksum is {found:08x}, its content's {expected:08x} (full_crc32)"))
        }
        Family::Old => old(page),
    }
}

/// Whether a page of ROW_FORMAT=COMPRESSED is whole, as it stands in the file: one checksum, of CRC-32C or
/// Adler-32 (`innodb`) or none, over all but the LSN and what the checksum itself and the flush take.
pub fn verify_zip(zip: &[u8]) -> Result<(), String> {
    let Some(found) = u32_at(zip, 0).filter(|_| zip.len() > 38) else {
        return Err("a page of no length".into());
    };
    let parts = [&zip[4..16], &zip[24..26], &zip[34..]];
    let crc = parts.iter().fold(0, |sum, part| sum ^ crc32c(part));
    let adler = parts.concat().iter().fold((0u32, 0u32), |(a, b), &byte| {
        let a = (a + byte as u32) % 65521;
        (a, (b + a) % 65521)
    });
    let adler = adler.1 << 16 | adler.0;
    if found == crc || found == adler || found == NO_CHECKSUM || found == 0 && is_zero(zip) {
        return Ok(());
    }
    Err(format!("its checksum is {found:08x}, its content's {crc:08x} (crc32) or {adler:08x} (innodb)"))
}

/// Whether a page of the old family has, behind the version of its key, the checksum of what it is while it
/// is encrypted; `is_zip`: of ROW_FORMAT=COMPRESSED.
pub fn is_locked(page: &[u8], is_zip: bool) -> bool {
    if page.len() < 64 {
        return false;
    }
    let crc = match is_zip {
        true => crc32c(&page[4..16]) ^ crc32c(&page[24..26]) ^ crc32c(&page[34..]),
        false => crc32c(&page[4..26]) ^ crc32c(&page[38..page.len() - 8]),
    };
    u32_at(page, 30) == Some(crc)
}

/// A page that was never written.
pub fn is_zero(page: &[u8]) -> bool {
    page.iter().all(|&b| b == 0)
}

fn old(page: &[u8]) -> Result<(), String> {
    let size = page.len();
    let (Some(first), Some(last), Some(lsn)) =
        (u32_at(page, 0), u32_at(page, size - 8), u32_at(page, size - 4))
    else {
        return Err("a page of no length".into());
    };
    let low = Page(page).lsn() as u32;
    if first == 0 && last == 0 && is_zero(page) {
        return Ok(());
    }
    if lsn != low {
        return Err(format!(
            "its two ends are of different writes: LSN {low:08x} at the start, {lsn:08x} at the end"
        ));
    }
    let crc = crc32c(&page[4..26]) ^ crc32c(&page[38..size - 8]);
    if first == crc && last == crc {
        return Ok(());
    }
    if first == NO_CHECKSUM && last == NO_CHECKSUM {
        return Ok(());
    }
    let new = fold(&page[4..26]).wrapping_add(fold(&page[38..size - 8])) as u32;
    let older = fold(&page[0..26]) as u32;
    // The trailer of `innodb` covers the field at 0; the very first versions left the LSN in it.
    if first == new && (last == older || last == low) {
        return Ok(());
    }
    Err(format!(
        "its checksums are {first:08x} and {last:08x}, its content's {crc:08x} (crc32) or {new:08x} and {older:08x} (innodb)"
    ))
}

/// InnoDB's own hash of the `innodb` checksum, on a word of 64 bits.
fn fold(bytes: &[u8]) -> u64 {
    const RANDOM: u64 = 1_463_735_687;
    const RANDOM_2: u64 = 1_653_893_711;
    bytes.iter().fold(0u64, |n, &b| pair(n, b as u64, RANDOM, RANDOM_2))
}
fn pair(n: u64, m: u64, random: u64, random_2: u64) -> u64 {
    ((((n ^ m ^ random_2) << 8).wrapping_add(n)) ^ random).wrapping_add(m)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_crc32_page_is_believed_until_a_bit_changes() {
        let mut page = vec![7u8; 4096];
        let sum = crc32c(&page[..4092]);
        page[4092..].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(verify(&page, Family::Full), Ok(()));
        page[100] ^= 1;
        assert!(verify(&page, Family::Full).unwrap_err().contains("full_crc32"));
    }

    #[test]
    fn the_old_family_wants_both_ends_to_agree() {
        let mut page = vec![9u8; 16384];
        page[16380..].copy_from_slice(&[9; 4]);
        let crc = crc32c(&page[4..26]) ^ crc32c(&page[38..16376]);
        page[0..4].copy_from_slice(&crc.to_be_bytes());
        page[16376..16380].copy_from_slice(&crc.to_be_bytes());
        assert_eq!(verify(&page, Family::Old), Ok(()));
        page[16379] ^= 1;
        assert!(verify(&page, Family::Old).is_err());
        page[16379] ^= 1;
        page[16383] ^= 1;
        assert!(verify(&page, Family::Old).unwrap_err().contains("different writes"));
        let mut none = vec![3u8; 16384];
        none[0..4].copy_from_slice(&NO_CHECKSUM.to_be_bytes());
        none[16376..16380].copy_from_slice(&NO_CHECKSUM.to_be_bytes());
        assert_eq!(verify(&none, Family::Old), Ok(()));
    }

    #[test]
    fn a_page_of_zeros_was_never_written() {
        assert_eq!(verify(&[0; 16384], Family::Old), Ok(()));
        assert_eq!(verify(&[0; 16384], Family::Full), Ok(()));
    }
}
