//! MariaDB's encryption of tablespaces, by a key of a file ([`crate::keys`]).
//!
//! ```text
//!   page 0, behind what describes extents   "s\x0e\x0cREt"  type (1)  length of the seed (1)  seed (16)  least version (4)  the key's number (4)  whether (1)
//!   full_crc32      0 version (4) … 26 encrypted … CRC-32C of all before (4)
//!   the old family  … 26 version (4), checksum of the encrypted page (4), tablespace (4), 38 encrypted … trailer (8)
//!   the same, and page_compressed (type 37401)   … 38 deflated size (2), algorithm (2), 42 encrypted, as many bytes as the size says
//! ```
//!
//! - **Y1** A tablespace's own key is its seed, encrypted with the key of the file: 128 bits, whatever that
//!   one has.
//! - **Y2** A page's start vector is its tablespace, number and LSN, least bytes first. AES-CBC encrypts
//!   whole blocks, and adds to the bytes behind the last of them (XOR) the encrypted start vector; AES-CTR
//!   counts from it. Which of both it is no file says: it is the server's setting. So the first page that is
//!   read decides by what it becomes.
//! - **Y3** Page 0, descriptors of extents, and in the old family nodes of spatial indexes are never
//!   encrypted; of the others each that has a version other than 0.
//! - **Y4** What is encrypted has a checksum that is right without a key (but for type 37401), so damage is
//!   told from a wrong key. What it becomes is believed in the old family by the page's own checksum; in
//!   full_crc32, where there is none, by the tablespace's number, which is among the encrypted bytes.
//! - **Y5** A first block of zeros becomes zeros in both modes. In `full_crc32` the system tablespace, of
//!   number 0, has pages that begin so; then a page of an index decides, which does not.
//!
//! Sources: MariaDB's documentation of data-at-rest encryption, descriptions of its pages; files and pages of
//! MariaDB 10.11.
use crate::error::Kind;
use crate::keys::{Keys, VERSION};
use crate::page::{kind, u16_at, u32_at, u64_at};
use aes::Aes128;
use aes::cipher::{
    Array, BlockCipherEncrypt, BlockModeDecrypt, InnerIvInit, KeyInit, StreamCipher, StreamCipherCoreWrapper,
    consts::U16,
};
use ctr::{CtrCore, flavors::Ctr128BE};
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// What page 0 has of encryption begins with this.
const MAGIC: [u8; 6] = *b"s\x0e\x0cREt";
/// The length of a block, of a seed, and of a tablespace's own key.
const BLOCK: usize = 16;

/// How blocks are put together (Y2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Cbc,
    Ctr,
}

/// What is encrypted of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locked {
    pub version: u32,
    pub bytes: Range<usize>,
}

/// What page 0 says, with the key, if there is one.
pub struct Crypt {
    key: u32,
    keys: Option<Arc<Keys>>,
    /// The tablespace's own key, if the file has the one that made it.
    own: Option<Aes128>,
    mode: OnceLock<Mode>,
}

impl Crypt {
    /// What `page`, the first one of a tablespace, says at `at`; `None`: nothing is encrypted.
    pub fn of(page: &[u8], at: usize, keys: Option<&Arc<Keys>>) -> Result<Option<Crypt>, String> {
        let Some(about) = page.get(at..at + 33).filter(|about| about.starts_with(&MAGIC)) else {
            return Ok(None);
        };
        if !matches!((about[6], about[7] as usize), (0 | 1, BLOCK)) {
            let why = format!(
                "its scheme of encryption is of type {}, with a seed of {} bytes; known is type 1 (MariaDB's), with {BLOCK}",
                about[6], about[7]
            );
            return Err(why);
        }
        let key = u32_at(about, 28).unwrap_or(0);
        let seed = about[8..8 + BLOCK].first_chunk::<BLOCK>();
        let own = keys.and_then(|keys| keys.key(key)).zip(seed).and_then(|(key, seed)| own_key(key, seed));
        Ok(Some(Crypt { key, keys: keys.cloned(), own, mode: OnceLock::new() }))
    }
    pub fn mode(&self) -> Option<Mode> {
        self.mode.get().copied()
    }
    /// From here on all pages are taken to be of this mode, unless they are of another already: which.
    pub fn settle(&self, mode: Mode) -> Mode {
        *self.mode.get_or_init(|| mode)
    }
    /// The key and its file, for errors.
    pub fn told(&self) -> String {
        let file = self.keys.as_ref().map_or(String::new(), |keys| format!(" of {}", keys.file().display()));
        format!("key {}{file}", self.key)
    }
    /// The tablespace's own key, for pages of a version of the file's key; otherwise what is wanted.
    pub fn own(&self, version: u32) -> Result<&Aes128, (Kind, String)> {
        let it = format!("it is encrypted by key {} in version {version}", self.key);
        let Some(keys) = &self.keys else {
            let why = format!(
                "{it}: --keys FILE (in SQL keys => '…') names the server's file of keys (MariaDB's file_key_management); or export the table from the server, or decrypt it there"
            );
            return Err((Kind::Unsupported, why));
        };
        let file = keys.file().display();
        match &self.own {
            Some(_) if version != VERSION => Err((
                Kind::Mismatch,
                format!("{it}; all keys of {file} are of version {VERSION}, as file_key_management has them"),
            )),
            Some(own) => Ok(own),
            None => Err((
                Kind::Mismatch,
                format!(
                    "{it}, which is not in {file}: it has {}",
                    keys.numbers().iter().map(|n| format!("key {n}")).collect::<Vec<_>>().join(", ")
                ),
            )),
        }
    }
}

/// By which key, and the mode, once it is known.
impl fmt::Display for Crypt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mode() {
            None => write!(f, "MariaDB's, key {}; no page that was read is encrypted", self.key),
            Some(Mode::Cbc) => write!(f, "MariaDB's, key {}, AES-CBC", self.key),
            Some(Mode::Ctr) => write!(f, "MariaDB's, key {}, AES-CTR", self.key),
        }
    }
}

/// Y1. `None` for a key of no known length, which no file of keys has.
fn own_key(key: &[u8], seed: &[u8; BLOCK]) -> Option<Aes128> {
    let mut own: Array<u8, U16> = (*seed).into();
    match key.len() {
        16 => Aes128::new_from_slice(key).ok()?.encrypt_block(&mut own),
        24 => aes::Aes192::new_from_slice(key).ok()?.encrypt_block(&mut own),
        32 => aes::Aes256::new_from_slice(key).ok()?.encrypt_block(&mut own),
        _ => return None,
    }
    Some(Aes128::new(&own))
}

/// What is encrypted of a page of full_crc32, of which `covered` bytes are under its checksum.
pub fn locked(page: &[u8], covered: usize) -> Option<Locked> {
    let version = u32_at(page, 0).filter(|version| *version != 0)?;
    Some(Locked { version, bytes: 26..covered.checked_sub(4)? }).filter(|l| l.bytes.len() >= BLOCK)
}

/// What is encrypted of a page of the old family, if it is (Y3): also one that was damaged, if its version
/// was not.
pub fn old_locked(page: &[u8]) -> Option<Locked> {
    let version = u32_at(page, 26).filter(|version| *version != 0)?;
    // The type of a page that describes extents.
    const XDES: u16 = 9;
    let bytes = match u16_at(page, 24)? {
        kind::FSP_HEADER | XDES | kind::RTREE => return None,
        kind::PAGE_COMPRESSED_ENCRYPTED => 42..42 + u16_at(page, 38)? as usize,
        _ => 38..page.len().checked_sub(8)?,
    };
    page.get(bytes.clone()).filter(|bytes| bytes.len() >= BLOCK)?;
    Some(Locked { version, bytes })
}

/// A page's start vector (Y2).
pub fn start(space: u32, page: &[u8]) -> [u8; BLOCK] {
    let mut start = [0; BLOCK];
    start[..4].copy_from_slice(&space.to_le_bytes());
    start[4..8].copy_from_slice(&u32_at(page, 4).unwrap_or(0).to_le_bytes());
    start[8..].copy_from_slice(&u64_at(page, 16).unwrap_or(0).to_le_bytes());
    start
}

/// Decrypts in place.
pub fn decrypt(own: &Aes128, mode: Mode, start: [u8; BLOCK], bytes: &mut [u8]) {
    let start: Array<u8, U16> = start.into();
    match mode {
        Mode::Cbc => {
            let (blocks, rest) = Array::slice_as_chunks_mut(bytes);
            cbc::Decryptor::inner_iv_init(own.clone(), &start).decrypt_blocks(blocks);
            let mut last = start;
            own.encrypt_block(&mut last);
            rest.iter_mut().zip(last).for_each(|(byte, mask)| *byte ^= mask);
        }
        Mode::Ctr => {
            let counter = CtrCore::<_, Ctr128BE>::inner_iv_init(own.clone(), &start);
            StreamCipherCoreWrapper::from_core(counter).apply_keystream(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Y5, and Y2's bytes behind the last block.
    #[test]
    fn a_first_block_of_zeros_is_zeros_in_both_modes() {
        let seed = [7; BLOCK];
        let own = own_key(&[1; 16], &seed).expect("a key");
        let start = [3; BLOCK];
        for zeros in [40, 100] {
            let mut written = vec![0; zeros];
            written.extend(1..=77);
            // Counting is the same both ways.
            let mut encrypted = written.clone();
            decrypt(&own, Mode::Ctr, start, &mut encrypted);
            let mut found = encrypted.clone();
            decrypt(&own, Mode::Ctr, start, &mut found);
            assert_eq!(found, written);
            decrypt(&own, Mode::Cbc, start, &mut encrypted);
            assert_eq!(encrypted[..BLOCK], [0; BLOCK]);
            assert_ne!(encrypted, written);
        }
        assert!(own_key(&[1; 17], &seed).is_none());
    }
}
