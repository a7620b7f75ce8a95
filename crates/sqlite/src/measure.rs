//! What syncing, copying and sharing cost in a folder.
//!
//! Two files without names play WAL and database. A round overwrites blocks of both as stock SQLite would,
//! shares the WAL's with the database, and overwrites the WAL's again; each step ends with a sync. What
//! counts is the differences within a round, since a disk's mood changes between rounds: the median where
//! they speak for sharing, the upper quartile where they speak against it, so that on a busy disk nothing
//! changes.
//!
//! Measuring may take a five-hundredth of the time that has gone by since it was first asked for, so it waits
//! for that time, the longer the slower the disk is. Whether blocks can be shared or exchanged at all is not
//! tried before either, so that a process that lives for a moment does as stock SQLite does. With fewer than
//! five rounds nothing is known. What is known is measured anew.
use crate::sharing::{self, Mechanism, Range};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::RangeInclusive;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

const BLOCK: u64 = 4096;
/// Blocks of a run that is measured.
const RUN: u64 = 64;
/// Blocks that a commit writes, one after the other; in our layout in three places, the first of which is
/// never shared.
const COMMIT: [u64; 3] = [1, 2, 2];
/// Rounds of a measurement that something waits for. With fewer nothing is known: a median and an upper
/// quartile of fewer are the mood of one.
const ROUNDS: usize = 5;
/// No round takes less, whatever is thought.
const LEAST: Duration = Duration::from_millis(1);
/// Which part of the time gone by measuring may take.
const PART: u32 = 500;

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

/// What was measured on one file system, and what that took.
struct Probe {
    since: Instant,
    spent: Duration,
    /// The last whole measurement; or why there will be none.
    known: Option<Arc<Known>>,
}

impl Probe {
    fn new(since: Instant) -> Probe {
        Probe { since, spent: Duration::ZERO, known: None }
    }
    /// Measures, where the time has come for rounds that take about `round` each. An error passes.
    fn go_on(
        &mut self,
        round: Duration,
        measure: impl FnOnce(Duration) -> io::Result<Known>,
    ) -> io::Result<()> {
        if let Some(Err(_)) = self.known.as_deref() {
            return Ok(());
        }
        let may = (self.since.elapsed() / PART).saturating_sub(self.spent);
        if may < round.max(LEAST) * ROUNDS as u32 {
            return Ok(());
        }
        let began = Instant::now();
        let found = measure(may);
        self.spent += began.elapsed();
        // A disk that has become slower since is not known any more.
        let told = Some(found?).filter(|found| !found.as_ref().is_ok_and(|costs| costs.rounds < ROUNDS));
        self.known = told.map(Arc::new);
        Ok(())
    }
}

/// When a device was first asked about.
static ASKED: LazyLock<Mutex<HashMap<u64, Instant>>> = LazyLock::new(Mutex::default);
/// By device.
static KNOWN: LazyLock<Mutex<HashMap<(u64, Mechanism), Probe>>> = LazyLock::new(Mutex::default);
/// Whether blocks can be exchanged, by device.
static EXCHANGES: LazyLock<Mutex<HashMap<u64, bool>>> = LazyLock::new(Mutex::default);

/// In tests, what every file system costs.
#[doc(hidden)]
pub static ASSUMED: Mutex<Option<Costs>> = Mutex::new(None);

/// When a device was first asked about: now, if it was not yet.
fn since(device: u64) -> Instant {
    *ASKED.lock().unwrap_or_else(PoisonError::into_inner).entry(device).or_insert_with(Instant::now)
}

/// Whether so much time has gone by that a folder could have been measured, in rounds that take about `round`
/// each: before, there is nothing to ask.
pub fn has_time(folder: &Path, round: Duration) -> bool {
    if ASSUMED.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
        return true;
    }
    let Ok(meta) = std::fs::metadata(folder) else { return false };
    since(meta.dev()).elapsed() / PART >= round.max(LEAST) * ROUNDS as u32
}

/// The costs in a folder, once they are known; `round` is about what a round takes. An error passes, and is
/// not remembered.
pub fn costs(folder: &Path, how: Mechanism, round: Duration) -> io::Result<Option<Arc<Known>>> {
    if let Some(costs) = *ASSUMED.lock().unwrap_or_else(PoisonError::into_inner) {
        return Ok(Some(Arc::new(Ok(costs))));
    }
    let device = std::fs::metadata(folder)?.dev();
    // Held while measuring, so that nobody measures beside it.
    let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let probe = all.entry((device, how)).or_insert_with(|| Probe::new(since(device)));
    probe.go_on(round, |may| measured(folder, how, 1..=ROUNDS, may))?;
    Ok(probe.known.clone())
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
    let all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    all.get(&(device, how))?.known.as_deref()?.clone().ok()
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

/// Tries whether blocks can be shared: the inner error says why they cannot.
fn tried(folder: &Path, how: Mechanism, (wal, db): &(File, File)) -> io::Result<Result<(), String>> {
    match how.apply(wal, db, Range { from: 0, to: 0, len: BLOCK }) {
        Err(error) if sharing::passes(&error) => Err(error),
        Err(error) => Ok(Err(sharing::why(folder, &error))),
        Ok(()) => Ok(Ok(())),
    }
}

/// Measures anew: so many rounds at least, and none begun after `enough` beyond them.
pub fn measured(
    folder: &Path,
    how: Mechanism,
    number: RangeInclusive<usize>,
    enough: Duration,
) -> io::Result<Known> {
    let files = pair(folder)?;
    if let Err(why) = tried(folder, how, &files)? {
        return Ok(Err(why));
    }
    let (wal, db) = files;
    wal.write_all_at(&bytes(RUN + 1, 1), 0)?;
    db.write_all_at(&bytes(RUN, 2), 0)?;
    wal.sync_data()?;
    db.sync_data()?;
    let began = Instant::now();
    let mut rounds = Vec::new();
    while rounds.len() < *number.start() || (rounds.len() < *number.end() && began.elapsed() < enough) {
        rounds.push(round(&wal, &db, how, rounds.len() as u64)?);
    }
    let of = |quarters: usize, cost: fn(&Costs) -> f64| {
        quartile(rounds.iter().map(cost), quarters).unwrap_or_default()
    };
    let sync_us = of(2, |c| c.sync_us);
    Ok(Ok(Costs {
        sync_us,
        sync_shared_us: sync_us + of(3, |c| c.sync_shared_us - c.sync_us),
        copy_block_us: of(2, |c| c.copy_block_us),
        shared_block_us: of(3, |c| c.shared_block_us),
        share_us: of(3, |c| c.share_us),
        rounds: rounds.len(),
    }))
}

/// The least of some numbers below which, or at which, so many quarters of them are; of two, the median is
/// the smaller.
pub fn quartile(numbers: impl Iterator<Item = f64>, quarters: usize) -> Option<f64> {
    let mut all: Vec<f64> = numbers.collect();
    all.sort_unstable_by(f64::total_cmp);
    all.get((all.len() * quarters).div_ceil(4).saturating_sub(1)).copied()
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
        // As where the database grows: the WAL gets holes. Where it has blocks to give, the WAL loses
        // nothing.
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
    fn quartiles_are_among_the_numbers() {
        let of = |numbers: &[f64], quarters| quartile(numbers.iter().copied(), quarters);
        assert_eq!(of(&[], 2), None);
        assert_eq!([1, 2, 3].map(|q| of(&[7.0], q)), [Some(7.0); 3]);
        assert_eq!([1, 2, 3].map(|q| of(&[9.0, 1.0], q)), [Some(1.0), Some(1.0), Some(9.0)]);
        assert_eq!([1, 2, 3].map(|q| of(&[5.0, 1.0, 4.0, 2.0, 3.0], q)), [Some(2.0), Some(3.0), Some(4.0)]);
    }

    /// What takes a measurement so long, for whom something waits.
    #[test]
    fn measuring_waits_for_its_turn_and_fewer_rounds_say_nothing() {
        let costs = |rounds| Costs {
            sync_us: 1.0,
            sync_shared_us: 1.0,
            copy_block_us: 1.0,
            shared_block_us: 0.0,
            share_us: 1.0,
            rounds,
        };
        let (round, hour) = (Duration::from_millis(10), Duration::from_secs(3600));
        let Some(since) = Instant::now().checked_sub(hour) else { return };
        let mut young = Probe::new(Instant::now());
        young.go_on(round, |_| panic!("nothing has gone by")).expect("nothing is done");
        assert!(young.known.is_none());
        let mut probe = Probe::new(since);
        probe.go_on(hour, |_| panic!("five hours, in a part of one")).expect("nothing is done");
        probe.go_on(round, |_| Ok(Ok(costs(4)))).expect("measured");
        assert!(probe.known.is_none(), "four rounds");
        probe.spent = hour / 500;
        probe.go_on(round, |_| panic!("its part is spent")).expect("nothing is done");
        probe.spent = Duration::ZERO;
        probe.go_on(round, |_| Ok(Ok(costs(5)))).expect("measured");
        assert_eq!(probe.known.as_deref(), Some(&Ok(costs(5))));
        // Later it is measured anew, and forgotten where the disk has become too slow to tell.
        probe
            .go_on(round * 200, |_| panic!("ten seconds, in a five-hundredth of an hour"))
            .expect("nothing is done");
        probe.go_on(round, |_| Ok(Ok(costs(2)))).expect("measured");
        assert!(probe.known.is_none());
        probe.go_on(round, |_| Ok(Err("no".into()))).expect("measured");
        probe.go_on(round, |_| panic!("it cannot be")).expect("nothing is done");
        assert_eq!(probe.known.as_deref(), Some(&Err("no".to_string())));
    }

    #[test]
    fn there_is_no_time_at_first() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(!has_time(folder.path(), Duration::ZERO));
        assert!(!has_time(Path::new("/nonexistent"), Duration::ZERO));
        let device = std::fs::metadata(folder.path()).expect("it is there").dev();
        let Some(since) = Instant::now().checked_sub(Duration::from_secs(50)) else { return };
        ASKED.lock().expect("no panic").insert(device, since);
        assert!(has_time(folder.path(), Duration::from_millis(20)));
        assert!(
            !has_time(folder.path(), Duration::from_millis(21)),
            "five of them, in a five-hundredth of 50 s"
        );
    }

    #[test]
    fn a_file_system_is_measured_and_leaves_nothing() {
        // Memory shares no blocks.
        if Path::new("/dev/shm").is_dir() {
            let known =
                measured(Path::new("/dev/shm"), Mechanism::Clone, 1..=ROUNDS, Duration::ZERO).expect("tried");
            let said = known.expect_err("nothing is shared");
            assert!(said.contains("cannot be shared"), "{said}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        // It stays so: other tests of this program may be measuring.
        sharing::PRETEND.store(true, Relaxed);
        let costs = measured(folder.path(), Mechanism::Clone, 1..=ROUNDS, Duration::ZERO)
            .expect("measured")
            .expect("shares");
        assert!(costs.rounds >= 1 && costs.sync_us > 0.0 && costs.share_us > 0.0, "{costs:?}");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
        assert!(measured(Path::new("/nonexistent"), Mechanism::Clone, 1..=ROUNDS, Duration::ZERO).is_err());
    }
}
