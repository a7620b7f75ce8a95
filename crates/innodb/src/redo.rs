//! Whether a server's redo log has nothing left to apply, and where it ends.
//!
//! The log tells by its last checkpoint up to which position all changes are in the files. A server that was
//! shut down cleanly made one at the log's end; whatever follows it would have to be applied to the files
//! first.
//!
//! *MariaDB from 10.8 on*: one file `ib_logfile0`, a ring. Bytes 0 to 511 are a header with a CRC-32C; blocks
//! at 4096 and 8192 are checkpoints (position, position of the record that says so, CRC-32C at 60); records
//! follow from 12288 on. They come in mini-transactions: records, a byte that is 1 or 0 by the round of the
//! ring, a CRC-32C. After a clean shutdown the record of the checkpoint itself (`FILE_CHECKPOINT`) is at the
//! checkpoint, and what follows it is no mini-transaction of this round. Encrypted (innodb_encrypt_log) each
//! mini-transaction has before its CRC-32C the position at which it was written, which the CRC-32C covers,
//! too; records' types and lengths are as they are, what they hold is not. So the log of a clean shutdown is
//! known without a key.
//!
//! *MySQL from 8.0.30 on*: files `#innodb_redo/#ib_redoN`, each with a header, two checkpoints (at 512
//! and 1536) and blocks of 512 bytes from 2048 on, each with its number, how many bytes of it are filled, and
//! a CRC-32C. After a clean shutdown the block in which the checkpoint is is filled up to it, and the system
//! tablespace's first page names the same position.
//!
//! Other versions of both are refused: nothing was tried with them.
//!
//! Sources: MariaDB's and MySQL's documentation and descriptions of their redo logs (MDEV-14425; WL#15003);
//! logs of both servers.
use crate::error::{Error, Kind, Result};
use crate::page::{u16_at, u32_at, u64_at};
use ondol_base::crc::crc32c;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The position at which the log of a data folder ends, all of it applied. `flushed`: what the system
/// tablespace's first page names, which MySQL (`is_mysql`) writes last.
pub fn end(folder: &Path, is_mysql: bool, flushed: u64) -> Result<u64> {
    if is_mysql { mysql(folder, flushed) } else { mariadb(folder) }
}

fn refuse(file: &Path, why: impl Into<String>) -> Error {
    Error::new(file, Kind::Mismatch, why)
}
fn damaged(file: &Path, why: impl Into<String>) -> Error {
    Error::new(file, Kind::Damaged, why)
}

/// An open file of the log.
struct Log {
    file: File,
    path: PathBuf,
    length: u64,
}
impl Log {
    fn open(path: PathBuf) -> Result<Log> {
        let file = File::open(&path).map_err(|e| Error::io(&path, "cannot open the server's log", &e))?;
        let length = file.metadata().map_err(|e| Error::io(&path, "cannot ask for its length", &e))?.len();
        Ok(Log { file, path, length })
    }
    fn read(&self, at: u64, bytes: usize) -> Result<Vec<u8>> {
        let mut into = vec![0; bytes];
        self.file
            .read_exact_at(&mut into, at)
            .map_err(|e| Error::io(&self.path, &format!("cannot read {bytes} bytes from {at} on"), &e))?;
        Ok(into)
    }
}
/// Whether a block of 512 bytes has the checksum that it ends with.
fn is_whole(block: &[u8]) -> bool {
    block.len() == 512 && u32_at(block, 508) == Some(crc32c(&block[..508]))
}
const BLOCK: u64 = 512;

/// Where MariaDB's records begin, and how many bytes the checkpoint's record has.
const RECORDS: u64 = 12288;
const CHECKPOINT: u64 = 16;
/// What no mini-transaction is longer than.
const LONGEST: usize = 1 << 20;

fn mariadb(folder: &Path) -> Result<u64> {
    for second in ["ib_logfile1", "ib_logfile101"] {
        if folder.join(second).exists() {
            return Err(refuse(
                &folder.join(second),
                "the log has more than one file, as before MariaDB 10.5, or was being resized; only logs of MariaDB from 10.8 on and of MySQL from 8.0.30 on can be judged",
            ));
        }
    }
    let log = Log::open(folder.join("ib_logfile0"))?;
    if log.length < RECORDS + CHECKPOINT {
        return Err(refuse(&log.path, format!("a log of {} bytes cannot be judged", log.length)));
    }
    let head = log.read(0, RECORDS as usize)?;
    let word = |at| u32_at(&head, at).unwrap_or(0);
    let long = |at| u64_at(&head, at).unwrap_or(0);
    let is_encrypted = word(0) == 0xf09f_979d;
    match word(0) {
        0x5068_7973 | 0xf09f_979d => {}
        n => {
            let of = match n & !(1 << 31) {
                1 => " (MariaDB 10.2, MySQL 5.7)",
                103 | 104 => " (MariaDB 10.3 or 10.4)",
                0x5048_5953 => " (MariaDB 10.5 to 10.7)",
                _ => "",
            };
            return Err(refuse(
                &log.path,
                format!(
                    "a log of format {n:#x}{of} cannot be judged, only those of MariaDB from 10.8 on and of MySQL from 8.0.30 on"
                ),
            ));
        }
    }
    let first = long(8);
    if !is_whole(&head[..512]) || word(4) != 0 || first < RECORDS {
        return Err(damaged(&log.path, "the log's header is damaged"));
    }
    if is_encrypted != (word(48) != 0) {
        return Err(damaged(&log.path, "the log's header contradicts itself: whether it is encrypted"));
    }
    let checkpoint = [4096, 8192]
        .into_iter()
        .filter(|&at| {
            u32_at(&head, at + 60) == Some(crc32c(&head[at..at + 60])) && (first..1 << 63).contains(&long(at))
        })
        .map(|at| (long(at), long(at + 8)))
        .max();
    let Some((lsn, said_at)) = checkpoint else {
        return Err(damaged(&log.path, "the server's log has no checkpoint that is whole"));
    };
    let ring = Ring { first, capacity: log.length - RECORDS, is_encrypted };
    let record = CHECKPOINT + ring.position() as u64;
    let goes_on = |what: &str| {
        refuse(
            &log.path,
            format!(
                "the server was not shut down cleanly, or runs: {what} its last checkpoint, {lsn}, and may not be in the files yet (innodb_fast_shutdown=2 leaves it so, too). Start it, and shut it down"
            ),
        )
    };
    if said_at != lsn {
        return Err(goes_on("the log has changes behind"));
    }
    let bytes = ring.capacity.min(LONGEST as u64 + 2 * record) as usize;
    let mut records =
        log.read(RECORDS + ring.offset(lsn), bytes.min((ring.capacity - ring.offset(lsn)) as usize))?;
    records.extend(log.read(RECORDS, bytes - records.len())?);
    // What the record says; of an encrypted one the position at which it was written, and that it is a
    // checkpoint's.
    let is_checkpoint = match is_encrypted {
        true => records[0] == 0xfa && u64_at(&records, 12) == Some(lsn),
        false => records.starts_with(&[0xfa, 0, 0]) && u64_at(&records, 3) == Some(lsn),
    };
    if !is_checkpoint || ring.mini_transaction(lsn, &records) != Some(record as usize) {
        return Err(damaged(
            &log.path,
            format!("the record of the log's last checkpoint is not at {lsn}, where it should be"),
        ));
    }
    // In a ring that has room for this record only, as a prepared backup has it, the next is this one again.
    let rest = &records[record as usize..];
    if ring.mini_transaction(lsn + record, rest).is_some() {
        return Err(goes_on("the log has changes behind"));
    }
    Ok(lsn)
}

/// How positions of MariaDB's log are places in the file.
struct Ring {
    first: u64,
    capacity: u64,
    is_encrypted: bool,
}
impl Ring {
    /// Bytes that a mini-transaction has for its position.
    fn position(&self) -> usize {
        if self.is_encrypted { 8 } else { 0 }
    }
    fn offset(&self, lsn: u64) -> u64 {
        (lsn - self.first) % self.capacity
    }
    /// The bytes of the whole mini-transaction that begins with `bytes` at `lsn`, if one does.
    fn mini_transaction(&self, lsn: u64, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            let first = *bytes.get(at)?;
            if first <= 1 {
                break;
            }
            at += 1;
            at += match first & 15 {
                // The length is behind the first byte, and counts itself.
                0 => 15 + number(bytes.get(at..)?)?,
                n => n as usize,
            };
        }
        let round = (lsn + at as u64 - self.first) / self.capacity;
        let is_of_this_round = bytes[at] as u64 == 1 - round % 2;
        let position = bytes.get(at + 1..at + 1 + self.position())?;
        let sum = if position.is_empty() {
            crc32c(&bytes[..at])
        } else {
            crc32c(&[&bytes[..at], position].concat())
        };
        let is_whole = u32_at(bytes, at + 1 + position.len()) == Some(sum);
        (at > 0 && is_of_this_round && is_whole).then_some(at + 5 + position.len())
    }
}
/// A number of MariaDB's log: the first byte's high bits say how many bytes it has, and each length begins
/// where the one before ends.
fn number(bytes: &[u8]) -> Option<usize> {
    let first = *bytes.first()? as usize;
    let (more, high, base) = match first {
        ..0x80 => return Some(first),
        0x80..0xc0 => (1, first & 0x3f, 1 << 7),
        0xc0..0xe0 => (2, first & 0x1f, (1 << 7) + (1 << 14)),
        0xe0..0xf0 => (3, first & 0x0f, (1 << 7) + (1 << 14) + (1 << 21)),
        _ => return None,
    };
    let low = bytes.get(1..1 + more)?.iter().fold(high, |n, b| n << 8 | *b as usize);
    Some(base + low).filter(|n| *n < LONGEST)
}

/// Where the blocks of a file of MySQL's log begin.
const BLOCKS: u64 = 2048;

fn mysql(folder: &Path, flushed: u64) -> Result<u64> {
    let folder = folder.join("#innodb_redo");
    let unread = |e: &std::io::Error| {
        Error::io(
            &folder,
            "cannot list the server's log, of which only that of MySQL from 8.0.30 on can be judged",
            e,
        )
    };
    // Checkpoints, and the files with their first positions and headers' flags.
    let (mut checkpoint, mut files, mut identity) = (None, Vec::new(), None);
    for entry in std::fs::read_dir(&folder).map_err(|e| unread(&e))? {
        let entry = entry.map_err(|e| unread(&e))?;
        let name = entry.file_name();
        // Those that end in _tmp are for later.
        if name.to_str().and_then(|n| n.strip_prefix("#ib_redo")).is_none_or(|n| n.parse::<u64>().is_err()) {
            continue;
        }
        let log = Log::open(entry.path())?;
        let head = log.read(0, BLOCKS as usize)?;
        let word = |at| u32_at(&head, at).unwrap_or(0);
        if !is_whole(&head[..512]) {
            return Err(damaged(&log.path, "the header of this file of the log is damaged"));
        }
        if word(0) != 6 {
            return Err(refuse(
                &log.path,
                format!(
                    "a log of format {} cannot be judged, only one of format 6 (MySQL from 8.0.30 on)",
                    word(0)
                ),
            ));
        }
        // Bit 3 says that the file is full. The others: changes are not logged, the server was not made yet.
        if word(48) & !8 != 0 {
            return Err(refuse(
                &log.path,
                format!(
                    "the log's flags are {:#x}: not all changes were logged (ALTER INSTANCE DISABLE INNODB REDO_LOG), or the data folder is not finished",
                    word(48)
                ),
            ));
        }
        if *identity.get_or_insert(word(4)) != word(4) {
            return Err(damaged(&log.path, "this file of the log is of another data folder than the others"));
        }
        let whole = [512, 1536].into_iter().filter(|at| is_whole(&head[*at..at + 512]));
        checkpoint = checkpoint.max(whole.filter_map(|at| u64_at(&head, at + 8)).max());
        files.push((u64_at(&head, 8).unwrap_or(0), log));
    }
    let Some(lsn) = checkpoint.filter(|lsn| *lsn > 0) else {
        return Err(damaged(&folder, "the server's log has no checkpoint that is whole"));
    };
    let goes_on = |what: String| {
        refuse(
            &folder,
            format!(
                "the server was not shut down cleanly, or runs: {what} its last checkpoint, {lsn} (innodb_fast_shutdown=2 leaves it so, too). Start it, and shut it down"
            ),
        )
    };
    let holds = |(first, log): &&(u64, Log)| {
        let at = lsn.checked_sub(*first).filter(|_| first % BLOCK == 0);
        at.is_some_and(|at| at < log.length.saturating_sub(BLOCKS))
    };
    let Some((first, log)) = files.iter().find(holds) else {
        return Err(damaged(
            &folder,
            format!("none of the log's files has position {lsn}, its last checkpoint"),
        ));
    };
    let (begin, filled) = (lsn / BLOCK * BLOCK, (lsn % BLOCK) as u16);
    let block = log.read(BLOCKS + begin - first, BLOCK as usize)?;
    // Blocks are numbered from 1 to 2^30, and the rounds of that, too.
    let number = begin / BLOCK;
    let is_this = is_whole(&block)
        && u32_at(&block, 0) == Some((number % (1 << 30)) as u32 + 1)
        && u32_at(&block, 8) == Some((number >> 30) as u32 + 1);
    match u16_at(&block, 4).filter(|_| is_this) {
        Some(n) if n & 0x8000 != 0 => return Err(refuse(&log.path, "the log is encrypted")),
        Some(n) if n == filled => {}
        Some(_) => return Err(goes_on("the log has changes behind".into())),
        // A block with nothing but its header need not have been written.
        None if filled == 12 => {}
        None => {
            return Err(damaged(
                &log.path,
                format!("the block at position {begin}, in which its last checkpoint is, is damaged"),
            ));
        }
    }
    if flushed != lsn {
        return Err(goes_on(format!("the system tablespace says that it ended at {flushed}, which is not")));
    }
    Ok(lsn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_log() {
        assert_eq!(number(&[0x7f]), Some(127));
        assert_eq!(number(&[0x80, 0]), Some(128));
        assert_eq!(number(&[0xbf, 0xff]), Some(16511));
        assert_eq!(number(&[0xc0, 0, 0]), Some(16512));
        assert_eq!(number(&[0xdf, 0xff, 0xff]), None);
        assert_eq!(number(&[0xc0, 0]), None);
    }

    #[test]
    fn a_mini_transaction_is_of_its_round_of_the_ring() {
        let ring = Ring { first: 12288, capacity: 64, is_encrypted: false };
        let bytes = |marker: u8| {
            let mut bytes = vec![0x32, 1, 2, 0x40, 1];
            bytes.extend([9; 15]);
            let sum = crc32c(&bytes);
            bytes.push(marker);
            bytes.extend(sum.to_be_bytes());
            bytes
        };
        assert_eq!(ring.mini_transaction(12288, &bytes(1)), Some(25));
        assert_eq!(ring.mini_transaction(12288 + 64, &bytes(1)), None);
        assert_eq!(ring.mini_transaction(12288 + 64, &bytes(0)), Some(25));
        let mut torn = bytes(1);
        torn[7] ^= 1;
        assert_eq!(ring.mini_transaction(12288, &torn), None);
        assert_eq!(ring.mini_transaction(12288, &bytes(1)[..24]), None);
        assert_eq!(ring.mini_transaction(12288, &[1, 0, 0, 0, 0]), None);
    }

    /// The record of a checkpoint as MariaDB 10.11 wrote it with innodb_encrypt_log, and what stood behind
    /// it.
    #[test]
    fn an_encrypted_mini_transaction_has_its_position() {
        let written = [
            0xfa, 0x06, 0xf8, 0xfd, 0xd0, 0x3f, 0x51, 0x63, 0x77, 0x89, 0x40, 0x01, 0, 0, 0, 0, 0, 0x0a,
            0x91, 0xc9, 0x94, 0x3e, 0x33, 0x04, 0x00, 0x2c, 0x4a, 0x51, 0x5a, 0x2f, 0x3a, 0x47,
        ];
        let ring = Ring { first: 12288, capacity: 1 << 20, is_encrypted: true };
        assert_eq!(ring.mini_transaction(0xa91c9, &written), Some(24));
        assert_eq!(ring.mini_transaction(0xa91c9 + 24, &written[24..]), None);
        let mut other = written;
        other[19] ^= 1;
        assert_eq!(ring.mini_transaction(0xa91c9, &other), None);
        let plain = Ring { is_encrypted: false, ..ring };
        assert_eq!(plain.mini_transaction(0xa91c9, &written), None);
    }
}
