//! The manifest: which checkpoint, which log rounds and which incarnations make up the database.
//!
//! Two copies, `manifest-0` and `manifest-1`, each overwritten in place:
//! ```text
//!  0 magic 8 | 8 format (1; 2 while the log is on a ring) 4 | 12 CRC32C of all, this field zero 4 | 16 length 8 | 24 sequence 8 | 32 database 16
//! 48 T 8 | first round 8 | next checkpoint 8 | clean round 8 (all ones: not closed in order)
//!    files n 8, each: number 8, T 8, length 8, index offset 8, full 8
//!    incarnations n 8, each: number 8, first round 8, last round 8 (all ones: the current one),
//!                            streams n 8, each: first file 8
//!    streams n 8, each: length 8, text
//! ```
//! - **F1** A publication writes one copy, syncs it, then writes and syncs the other. Whoever destroys what
//!   an older manifest needs (log files, checkpoint files, slots of dropped segments), or begins an
//!   incarnation, does so only after both. So any valid copy describes a database that is still there, and a
//!   damaged one can be replaced by its twin without loss. A publication begins with a copy that is bad,
//!   older or missing: the newest good one stands until its twin is whole.
//! - **F2** The newer valid copy counts.
//! - **F3** A log block counts only when its incarnation is listed here and its round lies between that
//!   incarnation's first and last. This is what keeps blocks of a crashed life, which were not part of what
//!   the next life recovered, from ever coming back.
use crate::CommitTs;
use crate::block::ALIGN;
use crate::error::RecoveryError;
use ondol_base::crc::crc32c;
use ondol_base::media::{Open, Storage};
use ondol_base::sim::mutated;
use std::io;

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"ONDOLMAN");
pub(crate) const FORMAT: u32 = 1;
/// The same while the end of the log may be in a ring: a version that does not know of rings must not open it
/// (protocol/P10).
const RINGED: u32 = 2;
pub(crate) const NAMES: [&str; 2] = ["manifest-0", "manifest-1"];
/// The copy that a manifest of this sequence is written to first.
pub(crate) fn name_of(sequence: u64) -> &'static str {
    NAMES[(sequence % 2) as usize]
}
/// Larger than any manifest: the limit on what is read.
const LARGEST: u64 = 64 << 20;
pub const OPEN_END: u64 = u64::MAX;

/// A checkpoint file that recovery needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointFile {
    pub number: u64,
    pub at: CommitTs,
    pub length: u64,
    pub index: u64,
    /// Holds every page that is not zero; else only those changed since the file before.
    pub full: bool,
}
impl CheckpointFile {
    pub fn name(&self) -> String {
        checkpoint_name(self.number)
    }
}
pub(crate) fn checkpoint_name(number: u64) -> String {
    format!("checkpoint-{number:08}")
}

/// One life of the database, from an opening to the crash or close.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incarnation {
    pub number: u64,
    pub first_round: u64,
    /// [`OPEN_END`] for the current one.
    pub last_round: u64,
    /// For each stream, the first log file that still exists; empty once the incarnation has ended.
    pub files: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub sequence: u64,
    pub database: u128,
    /// T.
    pub at: CommitTs,
    pub first_round: u64,
    pub next_checkpoint: u64,
    /// The last round, when the database was closed in order.
    pub clean: Option<u64>,
    /// Oldest first.
    pub files: Vec<CheckpointFile>,
    /// Oldest first.
    pub incarnations: Vec<Incarnation>,
    /// What the log folders were called, for messages.
    pub streams: Vec<String>,
    /// The end of the log may be in a ring.
    pub ringed: bool,
}

/// The manifest as an opening finds it.
pub(crate) struct Loaded {
    pub manifest: Manifest,
    /// The copy that has no good twin.
    stands: Option<&'static str>,
    pub warnings: Vec<String>,
}
impl Loaded {
    /// The manifest that the next one follows: that is first written to the copy that does not stand alone
    /// (F1).
    pub fn followed(self) -> Manifest {
        let mut m = self.manifest;
        m.sequence += (self.stands == Some(name_of(m.sequence + 1))) as u64;
        m
    }
}

impl Manifest {
    pub fn encode(&self) -> Vec<u8> {
        let mut b = Vec::with_capacity(512);
        let mut put = |v: u64| b.extend_from_slice(&v.to_le_bytes());
        put(MAGIC);
        put(if self.ringed { RINGED } else { FORMAT } as u64);
        put(0); // length
        put(self.sequence);
        put(self.database as u64);
        put((self.database >> 64) as u64);
        put(self.at);
        put(self.first_round);
        put(self.next_checkpoint);
        put(self.clean.unwrap_or(OPEN_END));
        put(self.files.len() as u64);
        for f in &self.files {
            [f.number, f.at, f.length, f.index, f.full as u64].into_iter().for_each(&mut put);
        }
        put(self.incarnations.len() as u64);
        for i in &self.incarnations {
            [i.number, i.first_round, i.last_round, i.files.len() as u64].into_iter().for_each(&mut put);
            i.files.iter().copied().for_each(&mut put);
        }
        put(self.streams.len() as u64);
        for s in &self.streams {
            b.extend_from_slice(&(s.len() as u64).to_le_bytes());
            b.extend_from_slice(s.as_bytes());
        }
        let len = b.len() as u64;
        b[16..24].copy_from_slice(&len.to_le_bytes());
        let crc = crc32c(&b);
        b[12..16].copy_from_slice(&crc.to_le_bytes());
        b
    }

    fn decode(name: &str, bytes: &[u8]) -> Result<Manifest, RecoveryError> {
        let bad = |why: String| RecoveryError::Manifest { file: name.into(), why };
        let mut r = WordReader { bytes, at: 0 };
        let short = || bad(format!("expected a whole manifest, found {} bytes", bytes.len()));
        let magic = r.u64().ok_or_else(short)?;
        if magic != MAGIC {
            return Err(RecoveryError::WrongMagic {
                file: name.into(),
                offset: 0,
                expected: MAGIC,
                found: magic,
            });
        }
        let word = r.u64().ok_or_else(short)?;
        let (format, crc) = (word as u32, (word >> 32) as u32);
        // Before all that another version may have elsewhere.
        if format != FORMAT && format != RINGED {
            return Err(RecoveryError::WrongFormat { file: name.into(), expected: FORMAT, found: format });
        }
        let len = r.u64().ok_or_else(short)?;
        if len < 48 || len > bytes.len() as u64 {
            return Err(bad(format!("expected a length up to {}, found {len}", bytes.len())));
        }
        let mut copy = bytes[..len as usize].to_vec();
        copy[12..16].fill(0);
        let found = crc32c(&copy);
        if found != crc {
            return Err(bad(format!("expected checksum {crc:08x}, found {found:08x}")));
        }
        r.bytes = &bytes[..len as usize];
        let body =
            r.body().ok_or_else(|| bad(format!("expected lists within {len} bytes, found them longer")))?;
        Ok(Manifest { ringed: format == RINGED, ..body })
    }

    /// The newest copy that can be believed, with a warning when the other is bad. `None` when there is
    /// neither file, or neither was ever completed and `fresh` says that nothing else was begun.
    pub(crate) fn load(storage: &dyn Storage, fresh: bool) -> Result<Option<Loaded>, RecoveryError> {
        let mut best: Option<Manifest> = None;
        let mut stands = None;
        let mut errors = vec![];
        let mut present = 0;
        for name in NAMES {
            let io = |error| RecoveryError::Io { file: name.into(), error };
            if !storage.exists(name).map_err(io)? {
                errors.push(RecoveryError::MissingFile {
                    file: name.into(),
                    why: "a copy of the manifest".into(),
                });
                continue;
            }
            present += 1;
            match read_all(storage, name).map_err(io).and_then(|b| Manifest::decode(name, &b)) {
                Ok(m) => {
                    if let Some(other) = &best
                        && other.database != m.database
                    {
                        return Err(RecoveryError::OtherDatabase {
                            file: name.into(),
                            offset: 32,
                            expected: other.database,
                            found: m.database,
                        });
                    }
                    let twin = best.as_ref().is_some_and(|b| b.sequence == m.sequence);
                    if best.as_ref().is_none_or(|b| b.sequence < m.sequence) {
                        best = Some(m);
                        stands = Some(name)
                    } else if twin {
                        stands = None
                    }
                }
                Err(e @ RecoveryError::Io { .. }) => return Err(e),
                // Beside a good copy it may be a flipped bit, and that copy describes a database that is
                // there (F1).
                Err(e) => errors.push(e),
            }
        }
        // Also of what else would pass for a database that was never made: no crash leaves the magic and not
        // the version behind it.
        if best.is_none()
            && let Some(other) = errors.iter().position(|e| matches!(e, RecoveryError::WrongFormat { .. }))
        {
            return Err(errors.swap_remove(other));
        }
        match best {
            Some(manifest) => {
                let warnings = errors.iter().map(|e| format!("{e}; the other copy was used")).collect();
                Ok(Some(Loaded { manifest, stands, warnings }))
            }
            None if present == 0 && !fresh => Err(RecoveryError::MissingFile {
                file: NAMES[0].into(),
                why: "there are files of a database, yet no manifest".into(),
            }),
            None if fresh => Ok(None),
            None => Err(errors.pop().unwrap_or_else(|| RecoveryError::Manifest {
                file: NAMES[0].into(),
                why: "expected one valid copy, found none".into(),
            })),
        }
    }

    /// Makes this the manifest, in both copies (F1). `named`: both names are durable, since their folder was
    /// synced by this process when they were there.
    pub(crate) fn publish(&self, storage: &dyn Storage, named: bool) -> Result<(), (String, io::Error)> {
        let mut named = named;
        // The older copy first, so that a valid one exists at every moment.
        for turn in 0..2 {
            self.write(storage, turn, &mut named)?;
            ondol_base::sync::yield_point();
        }
        Ok(())
    }
    /// The first manifest of a new database, in one copy: there is nothing yet that an older one could need.
    /// The next publication begins with the other copy, so this one stands until that is whole.
    pub(crate) fn create(&self, storage: &dyn Storage) -> Result<(), (String, io::Error)> {
        self.write(storage, 0, &mut false)
    }
    /// Makes the copies that were read durable before anything is built on them, or one is overwritten: the
    /// process that wrote them may have died before its sync, or its sync failed, so that they are in the
    /// system's memory only. After a failed sync a later one says nothing (media/M4), so what is whole is
    /// written once more; where it is durable already, that changes no sector (media/M3).
    pub(crate) fn settle(storage: &dyn Storage) -> Result<(), (String, io::Error)> {
        let settle = |name: &str| {
            if !storage.exists(name)? {
                return storage.sync_dir("");
            }
            let bytes = read_all(storage, name)?;
            let file = storage.open(name, Open::Write)?;
            if Manifest::decode(name, &bytes).is_ok() && !mutated("manifest_not_rewritten") {
                file.write_at(&bytes, 0)?;
            }
            file.sync_data()
        };
        NAMES.iter().try_for_each(|name| settle(name).map_err(|e| (name.to_string(), e)))
    }
    fn write(&self, storage: &dyn Storage, turn: u64, named: &mut bool) -> Result<(), (String, io::Error)> {
        let name = name_of(self.sequence + turn);
        let mut write = || {
            let file = storage.open(name, Open::OpenOrCreate)?;
            let mut bytes = self.encode();
            // Whole pages, so that on a full disk the next one finds room in what this one took.
            bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
            file.write_at(&bytes, 0)?;
            let file = if mutated("manifest_synced_anew") { storage.open(name, Open::Write)? } else { file };
            file.sync_data()?;
            if !*named {
                // Also when the name is there: an earlier sync of it may have failed. One such sync serves
                // for all names that are there.
                storage.sync_dir("")?;
                *named = storage.exists(NAMES[0])? && storage.exists(NAMES[1])?;
            }
            Ok(())
        };
        write().map_err(|e| (name.to_string(), e))
    }
}

pub(crate) fn read_all(storage: &dyn Storage, name: &str) -> io::Result<Vec<u8>> {
    let file = storage.open(name, Open::Read)?;
    let len = file.len()?;
    if len > LARGEST {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("expected up to {LARGEST} bytes, found {len}"),
        ));
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Reads little-endian words, within bounds.
pub(crate) struct WordReader<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}
impl<'a> WordReader<'a> {
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let b = self.bytes.get(self.at..self.at.checked_add(n)?)?;
        self.at += n;
        Some(b)
    }
    pub fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }
    pub fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }
    /// A count of things that take at least `each` bytes, so never more than the bytes hold.
    fn count(&mut self, each: usize) -> Option<usize> {
        let n = self.u64()?;
        (n <= ((self.bytes.len() - self.at) / each) as u64).then_some(n as usize)
    }

    fn body(&mut self) -> Option<Manifest> {
        let sequence = self.u64()?;
        let database = self.u64()? as u128 | (self.u64()? as u128) << 64;
        let (at, first_round, next_checkpoint) = (self.u64()?, self.u64()?, self.u64()?);
        let clean = Some(self.u64()?).filter(|c| *c != OPEN_END);
        let mut files = vec![];
        for _ in 0..self.count(40)? {
            let (number, at, length, index) = (self.u64()?, self.u64()?, self.u64()?, self.u64()?);
            files.push(CheckpointFile { number, at, length, index, full: self.u64()? == 1 });
        }
        let mut incarnations = vec![];
        for _ in 0..self.count(32)? {
            let (number, first_round, last_round) = (self.u64()?, self.u64()?, self.u64()?);
            let mut list = vec![];
            for _ in 0..self.count(8)? {
                list.push(self.u64()?);
            }
            incarnations.push(Incarnation { number, first_round, last_round, files: list });
        }
        let mut streams = vec![];
        for _ in 0..self.count(8)? {
            let len = self.count(1)?;
            streams.push(String::from_utf8_lossy(self.take(len)?).into_owned());
        }
        Some(Manifest {
            sequence,
            database,
            at,
            first_round,
            next_checkpoint,
            clean,
            files,
            incarnations,
            streams,
            ringed: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_base::sim::{Config, World};

    /// A copy whose sync failed is whole in the system's memory alone. The next process believes it; if the
    /// power fails while that one overwrites the other copy, one of the two must be whole.
    fn comes_back(seed: u64, after: u64, mutation: Option<&'static str>) -> bool {
        let manifest = |sequence| Manifest {
            sequence,
            database: 7,
            at: 0,
            first_round: 1,
            next_checkpoint: 1,
            clean: None,
            files: vec![],
            // Longer than a sector, each word another than in the one before.
            incarnations: (0..40)
                .map(|n| Incarnation {
                    number: n,
                    first_round: sequence * 1000 + n,
                    last_round: sequence * 1000 + n,
                    files: vec![sequence],
                })
                .collect(),
            streams: vec!["log".into()],
            ringed: false,
        };
        let first = World::new(seed, Config::default());
        let disk = first.disk("d");
        first.run(|| manifest(10).publish(&*disk, false).expect("a disk that works"));
        let second = first.reboot_with(seed, Config { sync_error: 1.0, ..Config::default() });
        let disk = second.disk("d");
        second.run(|| manifest(12).publish(&*disk, true).expect_err("its sync failed"));
        let third = second.reboot_with(seed, Config { mutation, ..Config::default() });
        let disk = third.disk("d");
        third.run(|| {
            let found = Manifest::load(&*disk, false).expect("a copy").expect("a copy");
            assert_eq!(found.manifest.sequence, 12);
            third.arm_power_failure(after);
            let mut next = found.followed();
            next.sequence += 1;
            let _ = Manifest::settle(&*disk).and_then(|()| next.publish(&*disk, true));
        });
        let fourth = third.reboot_with(seed, Config::default());
        let disk = fourth.disk("d");
        fourth.run(|| matches!(Manifest::load(&*disk, false), Ok(Some(_))))
    }

    #[test]
    fn a_copy_whose_sync_failed_is_written_again_before_the_other_is_overwritten() {
        let all = || (0..60).flat_map(|seed| (0..16).map(move |after| (seed, after)));
        for (seed, after) in all() {
            assert!(comes_back(seed, after, None), "seed {seed}, after {after} operations");
        }
        assert!(all().any(|(seed, after)| !comes_back(seed, after, Some("manifest_not_rewritten"))));
    }

    #[test]
    fn a_manifest_comes_back_and_every_flip_is_noticed() {
        let m = Manifest {
            sequence: 3,
            database: 1 << 99,
            at: 17,
            first_round: 4,
            next_checkpoint: 2,
            clean: Some(5),
            files: vec![CheckpointFile { number: 1, at: 17, length: 1000, index: 900, full: true }],
            incarnations: vec![Incarnation {
                number: 1,
                first_round: 1,
                last_round: OPEN_END,
                files: vec![1, 2],
            }],
            streams: vec!["log".into(), "other/log".into()],
            ringed: true,
        };
        let mut bytes = m.encode();
        bytes.extend_from_slice(b"what an older, longer one left");
        assert_eq!(Manifest::decode("m", &bytes).unwrap(), m);
        let len = m.encode().len();
        for bit in 0..len * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::decode("m", &bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
