//! Power failures at any operation on mapped files: the windows that `ondol=pmem` puts before database,
//! rollback journal and WAL, in simulated persistent memory, under a model that writes what SQLite writes in
//! journal modes PERSIST and WAL.
//!
//! Two connections take turns, each in a process of its own: with windows of its own, or without. They
//! change, add and drop pages; in WAL mode some sync their commits and some do not, and checkpoints come
//! half-way or to the end. What was not fenced survives in any subset of its words, what the kernel wrote in
//! any subset of its sectors. A touch beyond a file's end is SIGBUS: a panic here. Checked at each start: the
//! database is at a commit, and none that was acknowledged is missing. Each mutation must be noticed.
//!
//! `ONDOL_SQLITE_SEED`, `ONDOL_SQLITE_WORLDS`.
#[path = "common/seeds.rs"]
mod seeds;
#[path = "common/truth.rs"]
mod truth;

use ondol_base::crc::crc32c;
use ondol_base::media::{File, Mapped, Open, Promise, Storage};
use ondol_base::sim::{Config, Random, World};
use ondol_sqlite::window::{Account, Extent, Ground, Kind, Window};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

const PAGE: u64 = 4096;
const RECORD: u64 = 4 + PAGE + 4;
/// A journal's header has a sector to itself.
const SECTOR: u64 = 512;
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// The commit that each page's content comes from.
type State = Vec<u64>;

struct SimGround {
    file: Arc<dyn File>,
    changes: Arc<AtomicI64>,
}

struct SimMap {
    file: Arc<dyn File>,
    map: Box<dyn Mapped>,
}

impl Ground for SimGround {
    fn extent(&self) -> io::Result<Extent> {
        let len = self.file.len()?;
        Ok(Extent { len, allocated: len.next_multiple_of(PAGE), changed: (0, self.changes.load(Relaxed)) })
    }
    fn fill(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn map(&self, len: u64) -> io::Result<Box<dyn Mapped>> {
        Ok(Box::new(SimMap { file: self.file.clone(), map: self.file.map(len as usize)? }))
    }
}

impl SimMap {
    fn check(&self, end: usize) {
        if let Ok(len) = self.file.len() {
            assert!(end as u64 <= len, "SIGBUS at {end} of {len}");
        }
    }
}

impl Mapped for SimMap {
    fn len(&self) -> usize {
        self.map.len()
    }
    fn promise(&self) -> Promise {
        self.map.promise()
    }
    fn copy(&self, offset: usize, bytes: &[u8]) {
        self.check(offset + bytes.len());
        self.map.copy(offset, bytes);
    }
    fn read(&self, offset: usize, buf: &mut [u8]) {
        self.check(offset + buf.len());
        self.map.read(offset, buf);
    }
    fn flush(&self, offset: usize, len: usize) {
        self.map.flush(offset, len);
    }
    fn fence(&self) {
        self.map.fence();
    }
}

/// A file as a connection has it.
struct Opened {
    file: Arc<dyn File>,
    /// By the kernel; the time of the last is a file's to know.
    changes: Arc<AtomicI64>,
    window: Option<Window>,
}

impl Opened {
    fn read(&mut self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if self.window.as_mut().is_some_and(|w| w.read(buf, offset)) {
            return Ok(());
        }
        let n = self.file.read_at(buf, offset)?;
        buf[n..].fill(0);
        Ok(())
    }
    fn write(&mut self, buf: &[u8], offset: u64) -> io::Result<()> {
        if self.window.as_mut().is_some_and(|w| w.store(buf, offset)) {
            return Ok(());
        }
        self.changes.fetch_add(1, Relaxed);
        let done = self.file.write_at(buf, offset);
        if let Some(w) = &mut self.window {
            w.written(offset, buf.len(), done.is_ok());
        }
        done
    }
    fn sync(&mut self) -> io::Result<()> {
        if self.window.as_mut().is_some_and(|w| !w.sync()) {
            // Without power a fence does nothing, and does not say so.
            return self.file.len().map(drop);
        }
        self.file.sync_data()?;
        if let Some(w) = &mut self.window {
            w.synced();
        }
        Ok(())
    }
    fn set_len(&mut self, len: u64) -> io::Result<()> {
        if let Some(w) = &mut self.window {
            w.changed();
        }
        self.changes.fetch_add(1, Relaxed);
        self.file.set_len(len)
    }
    fn pages(&self) -> io::Result<u64> {
        Ok(self.file.len()? / PAGE)
    }
}

struct Connection {
    db: Opened,
    journal: Opened,
}

impl Connection {
    fn open(disk: &dyn Storage, mapped: bool, changes: &[Arc<AtomicI64>; 2]) -> io::Result<Connection> {
        let opened = |name, kind, changes: &Arc<AtomicI64>| -> io::Result<Opened> {
            let changes = changes.clone();
            let file = disk.open(name, Open::OpenOrCreate)?;
            let window = mapped.then(|| {
                Window::new(Box::new(SimGround { file: file.clone(), changes: changes.clone() }), kind)
            });
            Ok(Opened { file, changes, window })
        };
        Ok(Connection {
            db: opened("db", Kind::Database, &changes[0])?,
            journal: opened("db-journal", Kind::Journal, &changes[1])?,
        })
    }
    fn windows(&mut self) -> impl Iterator<Item = &mut Window> {
        self.db.window.iter_mut().chain(&mut self.journal.window)
    }
    /// `commits` so far: the change counter.
    fn lock(&mut self, commits: usize) {
        self.windows().for_each(Window::doubt);
        if self.db.window.as_mut().is_some_and(|w| w.notice(account(commits), false))
            && let Some(journal) = &mut self.journal.window
        {
            journal.foreign();
        }
    }
    fn unlock(&mut self, commits: usize) {
        self.windows().for_each(Window::doubt);
        if let Some(window) = &mut self.db.window {
            window.notice(account(commits), true);
        }
    }

    /// The first eight bytes say whether the journal counts, as SQLite's do.
    fn header(records: u32, pages: u64) -> [u8; 28] {
        let mut h = [0; 28];
        h[..8].copy_from_slice(&MAGIC);
        h[8..12].copy_from_slice(&records.to_be_bytes());
        h[12..16].copy_from_slice(&7u32.to_be_bytes());
        h[16..20].copy_from_slice(&(pages as u32).to_be_bytes());
        h[20..24].copy_from_slice(&(SECTOR as u32).to_be_bytes());
        h[24..28].copy_from_slice(&(PAGE as u32).to_be_bytes());
        h
    }

    fn transaction(&mut self, r: &mut Random, truth: &mut Truth) -> io::Result<()> {
        let old = truth.last();
        let version = truth.next_version();
        let before = old.len() as u64;
        let mut new = old.clone();
        new.resize((before + r.below(4)).saturating_sub(r.below(4)).clamp(1, 12) as usize, version);
        for _ in 0..1 + r.below(3) {
            let page = r.below(new.len() as u64) as usize;
            new[page] = version;
        }
        let rolled_back = r.chance(0.4);
        if rolled_back {
            // With the longest journal.
            new.fill(version);
        }
        // The journal: everything that will be changed or dropped, then how much it is.
        let full = Connection::header(0, before);
        let mut head = vec![0; SECTOR as usize];
        head[12..28].copy_from_slice(&full[12..]);
        self.journal.write(&head, 0)?;
        let mut records = 0;
        for (page, version) in old.iter().enumerate() {
            if new.get(page) != Some(version) {
                let mut content = vec![0; PAGE as usize];
                self.db.read(&mut content, page as u64 * PAGE)?;
                assert!(content == page_bytes(page, *version), "page {page} is not what was written");
                let mut record = (page as u32).to_be_bytes().to_vec();
                record.extend_from_slice(&content);
                record.extend_from_slice(&crc32c(&record).to_be_bytes());
                self.journal.write(&record, SECTOR + u64::from(records) * RECORD)?;
                records += 1;
            }
        }
        if rolled_back {
            // Rolled back before the database is touched; some connections shorten the journal.
            return if r.chance(0.5) { self.journal.set_len(0) } else { self.journal.write(&[0; 28], 0) };
        }
        self.journal.sync()?;
        self.journal.write(&Connection::header(records, before)[..12], 0)?;
        self.journal.sync()?;
        for (page, v) in new.iter().enumerate() {
            if old.get(page) != Some(v) {
                self.db.write(&page_bytes(page, *v), page as u64 * PAGE)?;
            }
        }
        if (new.len() as u64) < self.db.pages()? {
            self.db.set_len(new.len() as u64 * PAGE)?;
        }
        self.db.sync()?;
        truth.states.push(new);
        self.journal.write(&[0; 28], 0)?;
        self.journal.sync()?;
        truth.acknowledge();
        // A shorter journal, as journal_size_limit asks for. (Not as the commit: the simulator tears
        // truncations, file systems do not.)
        if r.chance(0.2) { self.journal.set_len(r.below(3) * 1000) } else { Ok(()) }
    }

    /// Plays a hot journal back.
    fn recover(&mut self) -> io::Result<()> {
        self.windows().for_each(Window::foreign);
        let mut h = [0; 28];
        self.journal.read(&mut h, 0)?;
        let number = |at: usize| u32::from_be_bytes(h[at..at + 4].try_into().expect("4 bytes"));
        if h[..8] != MAGIC || number(20) != SECTOR as u32 {
            return Ok(());
        }
        self.journal.sync()?;
        if self.db.pages()? != u64::from(number(16)) {
            self.db.set_len(u64::from(number(16)) * PAGE)?;
        }
        for i in 0..number(8) {
            let mut record = vec![0; RECORD as usize];
            self.journal.read(&mut record, SECTOR + u64::from(i) * RECORD)?;
            let (rest, sum) = record.split_at(RECORD as usize - 4);
            if crc32c(rest).to_be_bytes() != *sum {
                break;
            }
            let page = u32::from_be_bytes(rest[..4].try_into().expect("4 bytes"));
            self.db.write(&rest[4..], u64::from(page) * PAGE)?;
        }
        self.db.sync()?;
        self.journal.write(&[0; 28], 0)?;
        self.journal.sync()
    }
}

fn page_bytes(page: usize, version: u64) -> Vec<u8> {
    let mut bytes = vec![(version as u8).wrapping_mul(31) ^ page as u8; PAGE as usize];
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes
}

type Truth = truth::Truth<State>;

fn life(disk: &dyn Storage, r: &mut Random, truth: &mut Truth) -> io::Result<()> {
    let second = r.chance(0.7);
    let changes = Default::default();
    let mut both = [Connection::open(disk, true, &changes)?, Connection::open(disk, second, &changes)?];
    both[0].recover()?;
    let mut found = State::new();
    for page in 0..both[0].db.pages()? as usize {
        let mut bytes = vec![0; PAGE as usize];
        both[0].db.read(&mut bytes, page as u64 * PAGE)?;
        let version = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
        assert!(bytes == page_bytes(page, version), "page {page} is torn");
        found.push(version);
    }
    truth.found(&found, "recovery");
    truth.acknowledge();
    for _ in 0..20 {
        let who = r.below(2) as usize;
        both[who].lock(truth.states.len());
        both[who].transaction(r, truth)?;
        both[who].unlock(truth.states.len());
    }
    Ok(())
}

/// SQLite's account after so many commits.
fn account(commits: usize) -> Option<Account> {
    Some([commits as u32; 12])
}

const FRAME: u64 = 24 + PAGE;

/// What SQLite has in its WAL index.
#[derive(Default)]
struct Index {
    salt: u64,
    sum: u32,
    /// Page and version of each committed frame.
    frames: Vec<(usize, u64)>,
    backfilled: usize,
    /// Changes with every commit, and when the WAL begins anew.
    changes: usize,
}

fn wal_header(salt: u64) -> [u8; 32] {
    let mut h = [0; 32];
    h[..4].copy_from_slice(&0x377f_0682u32.to_be_bytes());
    h[16..24].copy_from_slice(&salt.to_be_bytes());
    let sum = crc32c(&h[..24]);
    h[24..28].copy_from_slice(&sum.to_be_bytes());
    h
}

fn frame(sum: &mut u32, salt: u64, page: usize, last: bool, content: &[u8]) -> Vec<u8> {
    let mut h = vec![0; 24];
    h[..4].copy_from_slice(&(page as u32 + 1).to_be_bytes());
    h[4..8].copy_from_slice(&u32::from(last).to_be_bytes());
    h[8..16].copy_from_slice(&salt.to_be_bytes());
    *sum = crc32c(&[&sum.to_be_bytes(), &h[..8], content].concat());
    h[16..20].copy_from_slice(&sum.to_be_bytes());
    h
}

/// A connection in WAL mode, whose `journal` is the WAL.
impl Connection {
    /// Syncs the WAL, for a commit or a checkpoint.
    fn sync_wal(&mut self, index: &Index) -> io::Result<()> {
        if let Some(window) = &mut self.journal.window {
            window.notice(account(index.changes), false);
        }
        self.journal.sync()
    }

    fn commit(&mut self, r: &mut Random, index: &mut Index, truth: &mut Truth, full: bool) -> io::Result<()> {
        // The WRITE lock.
        self.windows().for_each(Window::doubt);
        if let Some(window) = &mut self.journal.window {
            window.notice(account(index.changes), false);
        }
        if index.frames.is_empty() || (index.backfilled == index.frames.len() && r.chance(0.7)) {
            let salt = r.next();
            let header = wal_header(salt);
            *index = Index { salt, sum: crc32c(&header), changes: index.changes + 1, ..Index::default() };
            self.journal.write(&header, 0)?;
            self.sync_wal(index)?;
            // What journal_size_limit does; only of dead frames, since the simulator tears truncations, and
            // file systems do not.
            if r.chance(0.3) {
                self.journal.set_len(32 + r.below(3) * FRAME)?;
            }
        }
        let version = truth.next_version();
        let mut new = truth.last();
        let count = 1 + r.below(3);
        let mut frames = Vec::new();
        for i in 0..count {
            let page = r.below(new.len() as u64) as usize;
            new[page] = version;
            let content = page_bytes(page, version);
            let head = frame(&mut index.sum, index.salt, page, i + 1 == count, &content);
            if i + 1 == count {
                truth.states.push(new.clone());
            }
            let at = 32 + (index.frames.len() + frames.len()) as u64 * FRAME;
            self.journal.write(&head, at)?;
            self.journal.write(&content, at + 24)?;
            frames.push((page, version));
        }
        if full {
            self.sync_wal(index)?;
            truth.acknowledge();
        }
        // The barrier, and the index.
        self.windows().for_each(Window::fence);
        index.frames.append(&mut frames);
        index.changes += 1;
        // The lock goes.
        self.windows().for_each(Window::doubt);
        if let Some(window) = &mut self.journal.window {
            window.notice(account(index.changes), true);
        }
        Ok(())
    }

    fn checkpoint(&mut self, r: &mut Random, index: &mut Index, truth: &mut Truth) -> io::Result<()> {
        self.windows().for_each(Window::doubt);
        self.sync_wal(index)?;
        truth.acknowledge();
        let left = (index.frames.len() - index.backfilled) as u64;
        let whole = r.chance(0.5);
        let upto = index.backfilled + if whole { left } else { r.below(left + 1) } as usize;
        for at in index.backfilled..upto {
            let (page, version) = index.frames[at];
            if index.frames[at + 1..upto].iter().any(|(p, _)| *p == page) {
                continue;
            }
            let mut content = vec![0; PAGE as usize];
            self.journal.read(&mut content, 32 + at as u64 * FRAME + 24)?;
            assert!(content == page_bytes(page, version), "frame {at} is not what was written");
            self.db.write(&content, page as u64 * PAGE)?;
        }
        self.windows().for_each(Window::fence);
        if upto == index.frames.len() {
            // What others backfilled, this sync covers.
            if let Some(window) = &mut self.db.window {
                window.foreign();
            }
            self.db.sync()?;
        }
        index.backfilled = upto;
        self.windows().for_each(Window::doubt);
        Ok(())
    }

    /// What a WAL and a database hold that nobody has open.
    fn recover_wal(&mut self) -> io::Result<(Index, State)> {
        let mut header = [0; 32];
        self.journal.read(&mut header, 0)?;
        let salt = u64::from_be_bytes(header[16..24].try_into().expect("8 bytes"));
        let mut index = Index::default();
        if header == wal_header(salt) {
            index = Index { salt, sum: crc32c(&header), ..Index::default() };
            let (mut sum, mut open) = (index.sum, Vec::new());
            for i in 0.. {
                let mut bytes = vec![0; FRAME as usize];
                self.journal.read(&mut bytes, 32 + i * FRAME)?;
                let page = u32::from_be_bytes(bytes[..4].try_into().expect("4 bytes"));
                let Some(page) = page.checked_sub(1) else { break };
                let page = page as usize;
                if frame(&mut sum, salt, page, bytes[7] == 1, &bytes[24..]) != bytes[..24] {
                    break;
                }
                open.push((page, u64::from_le_bytes(bytes[24..32].try_into().expect("8 bytes"))));
                if bytes[7] == 1 {
                    index.frames.append(&mut open);
                    index.sum = sum;
                }
            }
        }
        let mut state = State::new();
        for page in 0..self.db.pages()? as usize {
            let newest = index.frames.iter().rev().find(|(p, _)| *p == page);
            let version = if let Some((_, version)) = newest {
                *version
            } else {
                let mut bytes = vec![0; PAGE as usize];
                self.db.read(&mut bytes, page as u64 * PAGE)?;
                let version = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
                assert!(bytes == page_bytes(page, version), "page {page} is torn");
                version
            };
            state.push(version);
        }
        Ok((index, state))
    }
}

fn wal_life(disk: &dyn Storage, r: &mut Random, truth: &mut Truth) -> io::Result<()> {
    let second = r.chance(0.7);
    let changes = Default::default();
    let mut both = [Connection::open(disk, true, &changes)?, Connection::open(disk, second, &changes)?];
    let full = [r.chance(0.7), r.chance(0.5)];
    let (mut index, found) = both[0].recover_wal()?;
    truth.found(&found, "recovery");
    truth.acknowledge();
    for _ in 0..25 {
        let who = r.below(2) as usize;
        if r.chance(0.2) {
            both[who].checkpoint(r, &mut index, truth)?;
        } else {
            both[who].commit(r, &mut index, truth, full[who])?;
        }
    }
    Ok(())
}

/// The lives of one disk; panics where something is lost.
fn lives(seed: u64, mutation: Option<&'static str>) {
    let mapped = if seed % 8 >= 6 { Promise::Sync } else { Promise::Fence };
    let config = || Config { mutation, mapped: Some(mapped), sync_us: (0, 0), ..Config::default() };
    let mut r = Random::new(seed);
    let mut truth = Truth::new(vec![0; 4]);
    let one_life = if seed.is_multiple_of(2) { wal_life } else { life };
    let mut world = World::new(seed, config());
    let made = world.disk("disk");
    world.run(|| {
        let db = made.open("db", Open::Create).expect("a file");
        for page in 0..4 {
            db.write_at(&page_bytes(page, 0), page as u64 * PAGE).expect("written");
        }
        db.sync_data().expect("synced");
        made.open("db-journal", Open::Create).expect("a file").sync_data().expect("synced");
        made.sync_dir("").expect("synced");
    });
    for i in 0..5 {
        let disk = world.disk("disk");
        world.arm_power_failure(r.below(600));
        let done = world.run(|| one_life(&*disk, &mut r, &mut truth));
        assert!(done.is_ok() || world.power_is_lost(), "{done:?}");
        world.power_failure();
        world = world.reboot_with(seed.wrapping_mul(31).wrapping_add(i), config());
    }
    let disk = world.disk("disk");
    world.run(|| one_life(&*disk, &mut r, &mut truth)).expect("no failure");
}

#[test]
fn no_power_failure_loses_a_commit_of_mapped_files() {
    seeds::each(400, |seed| lives(seed, None));
}

#[test]
fn each_mutation_is_noticed() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let unnoticed: Vec<_> = [
        "window_unfenced",
        "window_kernel_unsynced",
        "window_journal_in_any_order",
        "window_believes_the_length",
        "window_believes_in_growth",
        "window_ignores_others",
    ]
    .into_iter()
    .filter(|m| !(1..4000).any(|seed| std::panic::catch_unwind(|| lives(seed, Some(m))).is_err()))
    .collect();
    std::panic::set_hook(quiet);
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}
