//! What syncing, copying and sharing cost in a folder.
//!
//! Two files without names play WAL and database. A round overwrites blocks of both as stock SQLite would, shares the
//! WAL's with the database, and overwrites the WAL's again; each step ends with a sync. Rounds are repeated for some
//! milliseconds. What counts is the differences within a round, since a disk's mood changes between rounds: the median where
//! they speak for sharing, the upper quartile where they speak against it, so that on a busy disk nothing changes.
use crate::sharing::{self, Mechanism, Range};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

const BLOCK: u64 = 4096;
/// Blocks of a run that is measured.
const RUN: u64 = 64;
/// Blocks that a commit writes, one after the other; in our layout in three places, the first of which is never shared.
const COMMIT: [u64; 3] = [1, 2, 2];
/// Rounds of a measurement that something waits for.
const ROUNDS: usize = 5;
/// None is begun after this.
const ENOUGH: Duration = Duration::from_millis(5);

/// Microseconds, on one file system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// A commit of five blocks to a WAL whose blocks are its own, synced.
    pub sync_us: f64,
    /// The same in our layout, to blocks that were shared with the database.
    pub sync_shared_us: f64,
    /// A block copied into the database, with its part of the sync.
    pub copy_block_us: f64,
    /// What a block of the WAL that was shared costs more, when it is overwritten.
    pub shared_block_us: f64,
    /// A run that is shared, with what the database's sync costs more for it.
    pub share_us: f64,
    pub rounds: usize,
}

impl Costs {
    /// Names with units, for people.
    pub fn named(&self) -> [(&'static str, f64); 5] {
        [
            ("sync_us", self.sync_us),
            ("sync_shared_us", self.sync_shared_us),
            ("copy_block_us", self.copy_block_us),
            ("shared_block_us", self.shared_block_us),
            ("share_us", self.share_us),
        ]
    }
}

/// What is known of a file system; the error says why blocks cannot be shared there.
pub type Known = Result<Costs, String>;

/// By device.
static KNOWN: LazyLock<Mutex<HashMap<(u64, Mechanism), Arc<Known>>>> = LazyLock::new(Mutex::default);
/// Whether blocks can be exchanged, by device.
static EXCHANGES: LazyLock<Mutex<HashMap<u64, bool>>> = LazyLock::new(Mutex::default);

/// In tests, what every file system costs.
#[doc(hidden)]
pub static ASSUMED: Mutex<Option<Costs>> = Mutex::new(None);

/// The costs in a folder, measured once for each file system and process. An error passes, and is not remembered.
pub fn costs(folder: &Path, how: Mechanism) -> io::Result<Arc<Known>> {
    if let Some(costs) = *ASSUMED.lock().unwrap_or_else(PoisonError::into_inner) {
        return Ok(Arc::new(Ok(costs)));
    }
    let device = std::fs::metadata(folder)?.dev();
    // Held while measuring, so that nobody measures beside it.
    let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(&(device, how)) {
        return Ok(known.clone());
    }
    let known = Arc::new(measured(folder, how, ROUNDS, ENOUGH)?);
    all.insert((device, how), known.clone());
    Ok(known)
}

/// Whether blocks can be exchanged in a folder; tried once for each file system and process.
pub fn exchanges(folder: &Path) -> bool {
    if sharing::PRETEND.load(Relaxed) {
        return sharing::PRETEND_EXCHANGE.load(Relaxed);
    }
    let Ok(device) = std::fs::metadata(folder).map(|meta| meta.dev()) else { return false };
    let mut all = EXCHANGES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.get(&device) {
        return *known;
    }
    let range = Range { from: 0, to: 0, len: BLOCK };
    let tried = pair(folder).and_then(|(wal, db)| Mechanism::Exchange.apply(&wal, &db, range));
    let known = tried.is_ok();
    if known || !tried.is_err_and(|error| sharing::passes(&error)) {
        all.insert(device, known);
    }
    known
}

/// The costs in a folder, if they were measured.
pub fn known(folder: &Path, how: Mechanism) -> Option<Costs> {
    if let Some(costs) = *ASSUMED.lock().unwrap_or_else(PoisonError::into_inner) {
        return Some(costs);
    }
    let device = std::fs::metadata(folder).ok()?.dev();
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get(&(device, how))?.clone();
    (*known).clone().ok()
}

/// Two files of a block each, which are gone when they are closed, or when the process ends.
pub fn pair(folder: &Path) -> io::Result<(File, File)> {
    let nameless = || -> io::Result<File> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .mode(0o600)
            .custom_flags(libc::O_TMPFILE)
            .open(folder)?;
        file.write_all_at(&bytes(1, 0), 0)?;
        Ok(file)
    };
    Ok((nameless()?, nameless()?))
}

/// Measures anew: one round at least, and no more than `most`, none begun after `enough`.
pub fn measured(folder: &Path, how: Mechanism, most: usize, enough: Duration) -> io::Result<Known> {
    let (wal, db) = pair(folder)?;
    if let Err(error) = how.apply(&wal, &db, Range { from: 0, to: 0, len: BLOCK }) {
        if sharing::passes(&error) {
            return Err(error);
        }
        return Ok(Err(sharing::why(folder, &error)));
    }
    wal.write_all_at(&bytes(RUN + 1, 1), 0)?;
    db.write_all_at(&bytes(RUN, 2), 0)?;
    wal.sync_data()?;
    db.sync_data()?;
    let began = Instant::now();
    let mut rounds = Vec::new();
    while rounds.is_empty() || (rounds.len() < most && began.elapsed() < enough) {
        rounds.push(round(&wal, &db, how, rounds.len() as u64)?);
    }
    let quartile = |quarters: usize, of: fn(&Costs) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(of).collect();
        all.sort_unstable_by(f64::total_cmp);
        all[all.len() * quarters / 4]
    };
    let sync_us = quartile(2, |c| c.sync_us);
    Ok(Ok(Costs {
        sync_us,
        sync_shared_us: sync_us + quartile(3, |c| c.sync_shared_us - c.sync_us),
        copy_block_us: quartile(2, |c| c.copy_block_us),
        shared_block_us: quartile(3, |c| c.shared_block_us),
        share_us: quartile(3, |c| c.share_us),
        rounds: rounds.len(),
    }))
}

/// Blocks that no file system finds equal or small.
pub fn bytes(blocks: u64, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity((blocks * BLOCK) as usize);
    while bytes.len() < (blocks * BLOCK) as usize {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes
}

/// One round: before it and after it both files own their blocks.
fn round(wal: &File, db: &File, how: Mechanism, number: u64) -> io::Result<Costs> {
    let content = bytes(RUN + 1, 10 + number);
    let part = |from: u64, blocks: u64| &content[(from * BLOCK) as usize..((from + blocks) * BLOCK) as usize];
    let write = |file: &File, from: u64, blocks: u64| file.write_all_at(part(from, blocks), from * BLOCK);
    let timed = |file: &File, act: &dyn Fn() -> io::Result<()>| -> io::Result<f64> {
        let began = Instant::now();
        act()?;
        file.sync_data()?;
        Ok(began.elapsed().as_secs_f64() * 1e6)
    };
    let [entry, rest, home] = COMMIT;
    let sync_us = timed(wal, &|| write(wal, 0, entry + rest + home))?;
    let copied = timed(db, &|| write(db, 0, RUN))?;
    let owned = timed(wal, &|| write(wal, 0, RUN))?;
    let range = Range { from: 0, to: 0, len: RUN * BLOCK };
    if how == Mechanism::Exchange {
        // As where the database grows: the WAL gets holes. Where it has blocks to give, the WAL loses nothing.
        db.set_len(0)?;
    }
    let began = Instant::now();
    how.apply(wal, db, range)?;
    let called = began.elapsed().as_secs_f64() * 1e6;
    let synced = timed(db, &|| Ok(()))?;
    let sync_shared_us = timed(wal, &|| {
        write(wal, RUN, entry)?;
        write(wal, 0, rest)?;
        write(wal, RUN - home, home)
    })?;
    let others = RUN - rest - home;
    let disowned = timed(wal, &|| write(wal, rest, others))?;
    Ok(Costs {
        sync_us,
        sync_shared_us,
        copy_block_us: (copied - sync_us).max(0.0) / RUN as f64,
        shared_block_us: (disowned / others as f64 - owned / RUN as f64).max(0.0),
        share_us: called + (synced - sync_us).max(0.0),
        rounds: 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_measured_and_leaves_nothing() {
        // Memory shares no blocks.
        if Path::new("/dev/shm").is_dir() {
            let known = measured(Path::new("/dev/shm"), Mechanism::Clone, ROUNDS, ENOUGH).expect("tried");
            let said = known.expect_err("nothing is shared");
            assert!(said.contains("cannot be shared"), "{said}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        // It stays so: other tests of this program may be measuring.
        sharing::PRETEND.store(true, Relaxed);
        let costs =
            measured(folder.path(), Mechanism::Clone, ROUNDS, ENOUGH).expect("measured").expect("shares");
        assert!(costs.rounds >= 1 && costs.sync_us > 0.0 && costs.share_us > 0.0, "{costs:?}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
        assert!(measured(Path::new("/nonexistent"), Mechanism::Clone, ROUNDS, ENOUGH).is_err());
    }
}
