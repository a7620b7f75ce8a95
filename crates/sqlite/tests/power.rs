//! Power failures at any I/O operation, on the simulated medium: WAL layout and mark, driven by a model of
//! SQLite.
//!
//! The model writes what SQLite writes, in its order: a WAL header with a salt, synced; frames whose
//! checksums chain; a sync for some commits; pages spilled and rolled back, or filled anew; two connections
//! in turns; a backfill between a sync of the WAL and one of the database; a WAL begun anew only after that.
//! Between, it takes the database into care, also from a stock WAL, and lets it go. One disk lives several
//! lives, each ended by a power failure that takes any subset of unsynced sectors and names.
//!
//! Checked at each start: the database is at a commit, none that was acknowledged is missing, and where a
//! stock SQLite would not be refused it finds the same. Each mutation, an omitted sync of `care` or a place
//! given twice, must be noticed.
//!
//! `ONDOL_SQLITE_SEED`, `ONDOL_SQLITE_WORLDS`.
#[path = "common/seeds.rs"]
mod seeds;
#[path = "common/truth.rs"]
mod truth;

use ondol_base::crc::crc32c;
use ondol_base::media::{File, Open, Storage};
use ondol_base::sim::{Config, Random, World};
use ondol_sqlite::exchange::Pair;
use ondol_sqlite::layout::Layout;
use ondol_sqlite::plan::{self, Work};
use ondol_sqlite::{care, wal};
use std::io;
use std::sync::Arc;

const PAGE: usize = 4096;
const PAGES: usize = 10;
const FRAME: u64 = 24 + PAGE as u64;
/// The content of pages that no commit has.
const SPILLED: u64 = 1 << 40;
/// The commit that each page's content comes from.
type State = [u64; PAGES];

type Truth = truth::Truth<State>;

fn page_bytes(page: usize, version: u64) -> Vec<u8> {
    let mut bytes = vec![(version as u8).wrapping_mul(31) ^ page as u8; PAGE];
    if page == 1 {
        bytes[..100].fill(0);
        bytes[..16].copy_from_slice(b"SQLite format 3\0");
        bytes[16..20].copy_from_slice(&[16, 0, 2, 2]);
    }
    bytes[100..108].copy_from_slice(&version.to_le_bytes());
    bytes
}
fn version_of(page: usize, bytes: &[u8]) -> u64 {
    let version = u64::from_le_bytes(bytes[100..108].try_into().expect("8 bytes"));
    assert!(bytes == page_bytes(page, version), "page {page} is torn");
    version
}

/// A WAL file, as SQLite sees it.
struct Log {
    file: Arc<dyn File>,
    ours: bool,
    /// What two connections, which take turns, remember of it, and whose turn it is.
    writers: [wal::WalWriter; 2],
    turn: usize,
    /// What the database's size is said to be when a WAL begins: pages above have homes.
    base: u32,
    /// Not synced yet since it was opened: `unix` syncs the folder with a WAL's first sync.
    fresh: bool,
}

fn layout() -> Layout {
    Layout::new(PAGE as u64).expect("a page size")
}

impl Log {
    fn new(file: Arc<dyn File>, ours: bool, fresh: bool) -> Log {
        Log { file, ours, writers: Default::default(), turn: 0, base: 0, fresh }
    }
    /// A connection takes the WRITE lock.
    fn lock(&mut self, turn: usize) {
        self.turn = turn;
        self.writers[turn].doubt();
    }
    fn read(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if self.ours {
            // Nothing is exchanged here: `power_exchange.rs`.
            let pair = Pair { wal: &self.file, database: &self.file, layout: layout() };
            wal::read(pair, buf, offset).map(|(n, _)| n)
        } else {
            self.file.read_at(buf, offset)
        }
    }
    fn write(&mut self, buf: &[u8], offset: u64) -> io::Result<()> {
        if self.ours {
            self.writers[self.turn].write(&self.file, layout(), buf, offset, || Ok(self.base))
        } else {
            self.file.write_at(buf, offset)
        }
    }
    fn len(&self) -> io::Result<u64> {
        if self.ours { wal::len(&self.file, layout()) } else { self.file.len() }
    }
    fn sync(&mut self, disk: &dyn Storage) -> io::Result<()> {
        self.file.sync_data()?;
        if std::mem::take(&mut self.fresh) { disk.sync_dir("") } else { Ok(()) }
    }
}

/// What recovery finds: salt, pages of the frames up to the last commit, and the checksum there.
#[derive(Default)]
struct Found {
    salt: u64,
    sum: u32,
    frames: Vec<(usize, u64)>,
}

fn header(salt: u64) -> [u8; 32] {
    let mut h = [0; 32];
    h[..4].copy_from_slice(&0x377f_0682u32.to_be_bytes());
    h[8..12].copy_from_slice(&(PAGE as u32).to_be_bytes());
    h[16..24].copy_from_slice(&salt.to_be_bytes());
    let sum = crc32c(&h[..24]);
    h[24..28].copy_from_slice(&sum.to_be_bytes());
    h
}
fn frame(sum: &mut u32, salt: u64, page: usize, last: bool, content: &[u8]) -> [u8; 24] {
    let mut h = [0; 24];
    h[..4].copy_from_slice(&(page as u32).to_be_bytes());
    h[4..8].copy_from_slice(&u32::from(last).to_be_bytes());
    h[8..16].copy_from_slice(&salt.to_be_bytes());
    *sum = crc32c(&[&sum.to_be_bytes(), &h[..8], content].concat());
    h[16..20].copy_from_slice(&sum.to_be_bytes());
    h
}

fn recover(log: &Log) -> io::Result<Found> {
    let mut head = [0; 32];
    let size = log.len()?;
    if size <= 32 || log.read(&mut head, 0)? < 32 {
        return Ok(Found::default());
    }
    let salt = u64::from_be_bytes(head[16..24].try_into().expect("8 bytes"));
    if head != header(salt) {
        return Ok(Found::default());
    }
    let mut found = Found { salt, sum: crc32c(&head), frames: Vec::new() };
    let (mut sum, mut open) = (found.sum, Vec::new());
    for i in 0..(size - 32) / FRAME {
        let mut bytes = vec![0; FRAME as usize];
        if log.read(&mut bytes, 32 + i * FRAME)? < bytes.len() {
            break;
        }
        let page = u32::from_be_bytes(bytes[..4].try_into().expect("4 bytes")) as usize;
        let last = bytes[7] == 1;
        if frame(&mut sum, salt, page, last, &bytes[24..]) != bytes[..24] {
            break;
        }
        open.push((page, version_of(page, &bytes[24..])));
        if last {
            found.frames.append(&mut open);
            found.sum = sum;
        }
    }
    Ok(found)
}

/// The database under the WAL. A page that is about to be backfilled again may be torn.
fn state(db: &Arc<dyn File>, found: &Found) -> io::Result<State> {
    let mut state = [0; PAGES];
    for (i, version) in state.iter_mut().enumerate() {
        let page = i + 1;
        if let Some((_, newest)) = found.frames.iter().rev().find(|(p, _)| *p == page) {
            *version = *newest;
            continue;
        }
        let mut bytes = vec![0; PAGE];
        db.read_exact_at(&mut bytes, (i * PAGE) as u64)?;
        care::hide(db, &mut bytes, (i * PAGE) as u64);
        *version = version_of(page, &bytes);
    }
    Ok(state)
}

fn open_log(disk: &dyn Storage, ours: bool) -> io::Result<Log> {
    let name = if ours { "db-owal" } else { "db-wal" };
    Ok(Log::new(disk.open(name, Open::OpenOrCreate)?, ours, true))
}

/// One life: recovery, then commits, checkpoints, openings and closes, until the power fails.
fn life(disk: &dyn Storage, r: &mut Random, truth: &mut Truth) -> io::Result<()> {
    let db = disk.open("db", Open::Write)?;
    for opening in 0..4 {
        let marked = care::header(&db)?.marked;
        if marked && disk.exists("db-wal")? {
            // A stock SQLite that finds page 1 in a hot `-wal` does not see the mark.
            let stock = recover(&open_log(disk, false)?)?;
            if stock.frames.iter().any(|(page, _)| *page == 1) {
                truth.found(&state(&db, &stock)?, "a stock SQLite");
            }
        }
        let mut log = open_log(disk, marked)?;
        let mut found = recover(&log)?;
        truth.found(&state(&db, &found)?, "recovery");
        if opening == 0 {
            // What survived the power failure is on the medium.
            truth.acknowledge();
        }
        if !marked && log.len()? == 0 && r.chance(0.6) {
            let ours = disk.open("db-owal", Open::OpenOrCreate)?;
            care::take(&db, None, &ours, || disk.sync_dir(""))?;
            log = Log::new(ours, true, false);
        }
        let mut backfilled = 0;
        for _ in 0..r.below(14) {
            if r.chance(0.3) {
                backfill(disk, &db, &mut log, &found, truth)?;
                backfilled = found.frames.len();
                if log.ours && r.chance(0.2) {
                    // A checkpoint of mode TRUNCATE.
                    wal::set_len(&log.file, layout(), 0)?;
                    found = Found::default();
                    backfilled = 0;
                }
                continue;
            }
            // A commit; where everything was backfilled, the WAL begins anew.
            log.lock(r.below(2) as usize);
            let mut fresh_salt = false;
            if found.frames.is_empty() || (backfilled == found.frames.len() && r.chance(0.7)) {
                if !log.ours && r.chance(0.5) {
                    let ours = disk.open("db-owal", Open::OpenOrCreate)?;
                    care::take(&db, Some(&log.file), &ours, || disk.sync_dir(""))?;
                    log = Log::new(ours, true, false);
                }
                let head = header(r.next());
                log.base = r.below(PAGES as u64 + 1) as u32;
                log.write(&head, 0)?;
                log.sync(disk)?;
                let salt = u64::from_be_bytes(head[16..24].try_into().expect("8 bytes"));
                found = Found { salt, sum: crc32c(&head), frames: Vec::new() };
                backfilled = 0;
                fresh_salt = true;
            }
            if r.chance(0.3) {
                // A transaction that spilled pages and was rolled back; another connection may come next.
                let mut sum = found.sum;
                for i in 0..1 + r.below(4) {
                    let page = 1 + r.below(PAGES as u64) as usize;
                    let content = page_bytes(page, SPILLED);
                    let head = frame(&mut sum, found.salt, page, false, &content);
                    let at = 32 + (found.frames.len() as u64 + i) * FRAME;
                    log.write(&head, at)?;
                    log.write(&content, at + 24)?;
                }
                log.lock(r.below(2) as usize);
            }
            let version = truth.next_version();
            let mut next = truth.last();
            let count = 1 + r.below(4);
            if r.chance(0.3) {
                // A page that was spilled and then changed again: its frame is filled anew, and checksums
                // from there on.
                let page = 1 + r.below(PAGES as u64) as usize;
                let at = 32 + found.frames.len() as u64 * FRAME;
                let mut spilled = found.sum;
                let content = page_bytes(page, SPILLED);
                log.write(&frame(&mut spilled, found.salt, page, false, &content), at)?;
                log.write(&content, at + 24)?;
                let content = page_bytes(page, version);
                log.write(&content, at + 24)?;
                log.write(&frame(&mut found.sum, found.salt, page, false, &content), at)?;
                next[page - 1] = version;
                found.frames.push((page, version));
            }
            for i in 0..count {
                let page = if i == 0 && r.chance(0.5) { 1 } else { 1 + r.below(PAGES as u64) as usize };
                next[page - 1] = version;
                let content = page_bytes(page, version);
                let at = 32 + found.frames.len() as u64 * FRAME;
                let head = frame(&mut found.sum, found.salt, page, i + 1 == count, &content);
                if i + 1 == count {
                    truth.states.push(next);
                }
                log.write(&head, at)?;
                log.write(&content, at + 24)?;
                found.frames.push((page, version));
            }
            if fresh_salt || r.chance(0.7) {
                log.sync(disk)?;
                truth.acknowledge();
            }
        }
        if r.chance(0.7) {
            // A clean close.
            backfill(disk, &db, &mut log, &found, truth)?;
            if log.ours {
                if disk.exists("db-wal")? {
                    disk.remove("db-wal")?;
                    disk.sync_dir("")?;
                }
                care::release(&db)?;
                disk.remove("db-owal")?;
            } else {
                disk.remove("db-wal")?;
            }
        }
    }
    Ok(())
}

fn backfill(
    disk: &dyn Storage,
    db: &Arc<dyn File>,
    log: &mut Log,
    found: &Found,
    truth: &mut Truth,
) -> io::Result<()> {
    log.sync(disk)?;
    truth.acknowledge();
    let mut runs = Vec::new();
    if log.ours {
        let to = found.frames.len() as u64;
        let entries = wal::entries(&log.file, layout(), 0, to)?;
        let work = Work { from: 0, to, committed: to, pages: PAGES as u32 };
        runs = plan::runs(&entries, work, 1, plan::GAP);
    }
    for page in 1..=PAGES {
        if let Some(run) = runs.iter().find(|run| run.page as usize == page) {
            // Shared as a whole, gaps with it.
            let mut bytes = vec![0; run.pages as usize * PAGE];
            log.file.read_at(&mut bytes, layout().place_at(run.place))?;
            db.write_at(&bytes, ((page - 1) * PAGE) as u64)?;
        }
        let Some(newest) = found.frames.iter().rposition(|(p, _)| *p == page) else { continue };
        let mut content = vec![0; PAGE];
        log.read(&mut content, 32 + newest as u64 * FRAME + 24)?;
        if log.ours {
            let place = wal::entries(&log.file, layout(), newest as u64, newest as u64 + 1)?[0].place();
            if runs.iter().any(|run| run.place_of(page as u32) == Some(u64::from(place))) {
                continue;
            }
        }
        let at = ((page - 1) * PAGE) as u64;
        let marked = if log.ours { care::keep(&content, at) } else { None };
        db.write_at(marked.as_deref().unwrap_or(&content), at)?;
    }
    db.sync_data()
}

/// The lives of one disk; panics where something is lost.
fn lives(seed: u64, mutation: Option<&'static str>) {
    let config = || Config { mutation, sync_us: (0, 0), ..Config::default() };
    let mut r = Random::new(seed);
    let mut truth = Truth::new([0; PAGES]);
    let mut world = World::new(seed, config());
    let made = world.disk("disk");
    world.run(|| {
        let db = made.open("db", Open::Create).expect("a file");
        for page in 1..=PAGES {
            db.write_at(&page_bytes(page, 0), ((page - 1) * PAGE) as u64).expect("written");
        }
        db.sync_data().expect("synced");
        made.sync_dir("").expect("synced");
    });
    for i in 0..5 {
        let disk = world.disk("disk");
        world.arm_power_failure(r.below(400));
        let done = world.run(|| life(&*disk, &mut r, &mut truth));
        assert!(done.is_ok() || world.power_is_lost(), "{done:?}");
        world.power_failure();
        world = world.reboot_with(seed.wrapping_mul(31).wrapping_add(i), config());
    }
    // The last word, without a failure.
    let disk = world.disk("disk");
    world.run(|| life(&*disk, &mut r, &mut truth)).expect("no failure");
}

#[test]
fn no_power_failure_loses_a_commit() {
    seeds::each(400, |seed| lives(seed, None));
}

#[test]
fn each_mutation_is_noticed() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let unnoticed: Vec<_> = [
        "care_wal_unsynced",
        "care_folder_unsynced",
        "care_mark_unsynced",
        "care_release_unsynced",
        "places_home_twice",
        "wal_truncated_alone",
        "wal_writer_believes",
    ]
    .into_iter()
    .filter(|m| !(1..600).any(|seed| std::panic::catch_unwind(|| lives(seed, Some(m))).is_err()))
    .collect();
    std::panic::set_hook(quiet);
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}
