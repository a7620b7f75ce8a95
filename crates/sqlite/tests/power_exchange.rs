//! Power failures while blocks are exchanged between WAL and database: `exchange.rs`, `plan.rs` and `wal.rs`,
//! the code itself.
//!
//! Below is a file system of blocks, as XFS is one: a file is a list of blocks, and what changes lists (a new
//! block, a length, an exchange) goes to a log of its own. Each block is a file of the simulated medium. A
//! sync makes a file's blocks durable and the log up to now; a power failure takes any subset of unsynced
//! sectors of the blocks and leaves any prefix of the log behind what was synced. So an exchange happens as a
//! whole or not at all, and what was written into an exchanged block may be there without the exchange.
//!
//! Above is a model of SQLite, with SQLite's checksums: commits of neighbouring pages and of single ones, a
//! database that grows and shrinks, pages that are spilled and rolled back, readers that keep older marks,
//! checkpoints that come as far as these let them or stop half-way, a WAL that is begun anew when nobody
//! reads it.
//!
//! Checked: each reader finds its state between any two steps of a checkpoint; recovery finds a commit, none
//! that was acknowledged is missing. Each known-wrong variant must be noticed. `ONDOL_SQLITE_SEED`,
//! `ONDOL_SQLITE_WORLDS`.
#[path = "common/seeds.rs"]
mod seeds;
#[path = "common/truth.rs"]
mod truth;

use ondol_base::media::{File, Open, Storage};
use ondol_base::sim::{Config, Random, World};
use ondol_sqlite::exchange::Pair;
use ondol_sqlite::layout::{BLOCK, Layout};
use ondol_sqlite::medium::Medium;
use ondol_sqlite::plan::{self, State as Run, Work};
use ondol_sqlite::sharing::Range;
use ondol_sqlite::wal;
use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

const PAGE: usize = 4096;
const MOST: usize = 24;
const FRAME: u64 = 24 + PAGE as u64;
/// The content of pages that no commit has.
const SPILLED: u64 = 1 << 40;
/// Blocks of the medium.
const BLOCKS: usize = 260;

// The file system.

/// Blocks and length of each file.
type Maps = [(Vec<Option<usize>>, u64); 2];
const DATABASE: usize = 0;
const WAL: usize = 1;

/// The log: the maps after each change that a power failure may end with, the newest last.
struct Log {
    maps: Vec<Maps>,
    free: Vec<usize>,
    /// Blocks with unsynced bytes.
    dirty: HashSet<usize>,
}

impl Log {
    fn now(&self) -> &Maps {
        self.maps.last().expect("at least one")
    }
    fn change(&mut self, change: impl FnOnce(&mut Maps)) {
        let mut next = self.now().clone();
        change(&mut next);
        self.maps.push(next);
    }
    /// A power failure: some prefix of what was not synced.
    fn fail(&mut self, r: &mut Random) {
        let keep = r.below(self.maps.len() as u64) as usize;
        let maps = self.maps.swap_remove(keep);
        self.free = (0..BLOCKS).filter(|b| !maps.iter().any(|m| m.0.contains(&Some(*b)))).collect();
        self.maps = vec![maps];
        self.dirty.clear();
    }
}

struct Disk {
    storage: Arc<dyn Storage>,
    blocks: Vec<Arc<dyn File>>,
    log: Arc<Mutex<Log>>,
}

impl Disk {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("no panic")
    }
    fn exchange(&self, range: Range) -> io::Result<()> {
        self.change(range, false)
    }
    /// Both files have the WAL's blocks, until one of them is written to.
    fn share(&self, range: Range) -> io::Result<()> {
        self.change(range, true)
    }
    fn change(&self, range: Range, shares: bool) -> io::Result<()> {
        // The power may fail here.
        self.storage.exists("block")?;
        let blocks = |at: u64| (at / BLOCK) as usize..((at + range.len) / BLOCK) as usize;
        self.log().change(|maps| {
            let end = range.to + range.len;
            if maps[DATABASE].1 < end {
                maps[DATABASE].1 = end;
                maps[DATABASE].0.resize((end / BLOCK) as usize, None);
            }
            for (d, w) in blocks(range.to).zip(blocks(range.from)) {
                let ours = maps[WAL].0[w];
                let theirs = std::mem::replace(&mut maps[DATABASE].0[d], ours);
                if !shares {
                    maps[WAL].0[w] = theirs;
                }
            }
        });
        Ok(())
    }
}

struct Opened<'a>(&'a Disk, usize);

impl Opened<'_> {
    /// The parts of a range: block, start in it, and length.
    fn parts(offset: u64, len: usize) -> impl Iterator<Item = (usize, u64, usize)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset + done as u64;
            let n = (BLOCK - at % BLOCK).min((len - done) as u64) as usize;
            done += n;
            (n > 0).then_some(((at / BLOCK) as usize, at % BLOCK, n))
        })
    }
}

impl Medium for Opened<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let log = self.0.log();
        let (blocks, len) = &log.now()[self.1];
        let n = len.saturating_sub(offset).min(buf.len() as u64) as usize;
        let found: Vec<_> = Self::parts(offset, n).map(|(block, at, n)| (blocks[block], at, n)).collect();
        drop(log);
        let mut rest = &mut buf[..n];
        for (block, at, n) in found {
            let (part, after) = rest.split_at_mut(n);
            match block {
                Some(block) => self.0.blocks[block].read_exact_at(part, at)?,
                None => part.fill(0),
            }
            rest = after;
        }
        Ok(n)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        for (block, at, n) in Self::parts(offset, buf.len()) {
            let end = offset + (done + n) as u64;
            let mut log = self.0.log();
            let (blocks, len) = &log.now()[self.1];
            let there = blocks.get(block).copied().flatten();
            let users = log.now().iter().flat_map(|(blocks, _)| blocks).filter(|block| **block == there);
            let shared = there.is_some() && users.count() > 1;
            let known = there.filter(|_| !shared);
            if known.is_none() || *len < end {
                let new = known.or_else(|| log.free.pop()).expect("a free block");
                if let Some(old) = there.filter(|_| shared) {
                    let mut content = vec![0; PAGE];
                    self.0.blocks[old].read_exact_at(&mut content, 0)?;
                    self.0.blocks[new].write_at(&content, 0)?;
                    log.dirty.insert(new);
                }
                log.change(|maps| {
                    let (blocks, len) = &mut maps[self.1];
                    blocks.resize(blocks.len().max(block + 1), None);
                    blocks[block] = Some(new);
                    *len = end.max(*len);
                });
            }
            let to = log.now()[self.1].0[block].expect("a block");
            log.dirty.insert(to);
            drop(log);
            self.0.blocks[to].write_at(&buf[done..done + n], at)?;
            done += n;
        }
        Ok(())
    }
    fn sync(&self) -> io::Result<()> {
        let log = self.0.log();
        let blocks = log.now()[self.1].0.iter().flatten();
        let dirty: Vec<usize> = blocks.filter(|block| log.dirty.contains(block)).copied().collect();
        drop(log);
        for block in dirty {
            self.0.blocks[block].sync_data()?;
            self.0.log().dirty.remove(&block);
        }
        let mut log = self.0.log();
        let newest = log.maps.len() - 1;
        log.maps.drain(..newest);
        Ok(())
    }
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.log().now()[self.1].1)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.storage.exists("block")?;
        self.0.log().change(|maps| {
            maps[self.1].0.resize(len.div_ceil(BLOCK) as usize, None);
            maps[self.1].1 = len;
        });
        Ok(())
    }
}

// SQLite.

/// The commit that each page's content comes from, for each page of the database.
type State = Vec<u64>;

type Truth = truth::Truth<State>;

/// A page; the first says how many there are, as SQLite's does. Versions 2k and 2k + 1 of a page have one
/// sum, as lists of free pages may.
fn page_bytes(page: usize, version: u64, pages: usize) -> Vec<u8> {
    let pair = version & !1;
    let mut bytes = vec![(pair as u8).wrapping_mul(31) ^ page as u8; PAGE];
    if page == 1 {
        bytes[28..32].copy_from_slice(&(pages as u32).to_be_bytes());
    }
    bytes[100..108].copy_from_slice(&pair.to_le_bytes());
    for (i, n) in [[0u32, 6, 7, 8], [0, 3, 10, 11]][(version & 1) as usize].iter().enumerate() {
        bytes[200 + i * 4..][..4].copy_from_slice(&n.to_le_bytes());
    }
    bytes
}
fn pages_of(first: &[u8]) -> usize {
    u32::from_be_bytes(first[28..32].try_into().expect("4 bytes")) as usize
}
fn version_of(page: usize, bytes: &[u8]) -> u64 {
    let pair = u64::from_le_bytes(bytes[100..108].try_into().expect("8 bytes"));
    let version = pair | u64::from(bytes[204] == 3);
    let pages = if page == 1 { pages_of(bytes) } else { 0 };
    assert!(bytes == page_bytes(page, version, pages), "page {page} is not what any commit wrote");
    version
}

type Sums = [u32; 2];

fn sum(bytes: &[u8], [mut a, mut b]: Sums) -> Sums {
    for pair in bytes.chunks_exact(8) {
        let word = |at: usize| u32::from_le_bytes(pair[at..at + 4].try_into().expect("4 bytes"));
        a = a.wrapping_add(word(0)).wrapping_add(b);
        b = b.wrapping_add(word(4)).wrapping_add(a);
    }
    [a, b]
}
fn put(bytes: &mut [u8], sums: Sums) {
    bytes[..4].copy_from_slice(&sums[0].to_be_bytes());
    bytes[4..8].copy_from_slice(&sums[1].to_be_bytes());
}
fn header(salt: u64) -> ([u8; 32], Sums) {
    let mut h = [0; 32];
    h[..4].copy_from_slice(&0x377f_0682u32.to_be_bytes());
    h[8..12].copy_from_slice(&(PAGE as u32).to_be_bytes());
    h[16..24].copy_from_slice(&salt.to_be_bytes());
    let sums = sum(&h[..24], [0; 2]);
    put(&mut h[24..], sums);
    (h, sums)
}
fn frame(sums: &mut Sums, salt: u64, page: usize, pages: usize, content: &[u8]) -> [u8; 24] {
    let mut h = [0; 24];
    h[..4].copy_from_slice(&(page as u32).to_be_bytes());
    h[4..8].copy_from_slice(&(pages as u32).to_be_bytes());
    h[8..16].copy_from_slice(&salt.to_be_bytes());
    *sums = sum(content, sum(&h[..8], *sums));
    put(&mut h[16..], *sums);
    h
}

fn layout() -> Layout {
    Layout::new(PAGE as u64).expect("a page size")
}

/// What a WAL holds up to its last commit: pages, versions, and the database's pages after commits.
#[derive(Clone, Default)]
struct Found {
    salt: u64,
    sums: Sums,
    frames: Vec<(usize, u64)>,
    pages: Option<usize>,
}

/// A reader, at a commit: it believes the frames before `mark`, and below `from` it goes to the database.
struct WalReader {
    from: usize,
    found: Found,
    state: State,
}

struct Sqlite<'a> {
    disk: &'a Disk,
    writers: [wal::WalWriter; 2],
    found: Found,
    backfilled: usize,
    readers: Vec<WalReader>,
}

impl Sqlite<'_> {
    fn wal(&self) -> Opened<'_> {
        Opened(self.disk, WAL)
    }
    fn database(&self) -> Opened<'_> {
        Opened(self.disk, DATABASE)
    }
    fn read(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let pair = Pair { wal: &self.wal(), database: &self.database(), layout: layout() };
        wal::read(pair, buf, offset).map(|(n, _)| n)
    }
    fn write(&mut self, turn: usize, base: u32, buf: &[u8], offset: u64) -> io::Result<()> {
        let file = Opened(self.disk, WAL);
        self.writers[turn].write(&file, layout(), buf, offset, || Ok(base))
    }

    fn recover(&mut self) -> io::Result<()> {
        self.found = Found::default();
        let mut head = [0; 32];
        let size = wal::len(&self.wal(), layout())?;
        if size <= 32 || self.read(&mut head, 0)? < 32 {
            return Ok(());
        }
        let salt = u64::from_be_bytes(head[16..24].try_into().expect("8 bytes"));
        let (expected, mut sums) = header(salt);
        if head != expected {
            return Ok(());
        }
        let mut found = Found { salt, sums, ..Found::default() };
        let mut open = Vec::new();
        for i in 0..(size - 32) / FRAME {
            let mut bytes = vec![0; FRAME as usize];
            if self.read(&mut bytes, 32 + i * FRAME)? < bytes.len() {
                break;
            }
            let word =
                |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes")) as usize;
            let (page, pages) = (word(0), word(4));
            if frame(&mut sums, salt, page, pages, &bytes[24..]) != bytes[..24] {
                break;
            }
            open.push((page, version_of(page, &bytes[24..])));
            if pages > 0 {
                found.frames.append(&mut open);
                found.sums = sums;
                found.pages = Some(pages);
            }
        }
        self.found = found;
        Ok(())
    }

    /// The page as a reader finds it that knows `found`, and takes from the database what frames before
    /// `from` have.
    fn page(&self, found: &Found, from: usize, page: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; PAGE];
        match found.frames.iter().rposition(|(p, _)| *p == page).filter(|at| *at >= from) {
            Some(at) => self.read(&mut bytes, 32 + at as u64 * FRAME + 24)?,
            None => self.database().read_at(&mut bytes, ((page - 1) * PAGE) as u64)?,
        };
        Ok(bytes)
    }
    fn state(&self, found: &Found, from: usize) -> io::Result<State> {
        let pages = match found.pages {
            Some(pages) => pages,
            None => pages_of(&self.page(found, from, 1)?),
        };
        (1..=pages).map(|page| Ok(version_of(page, &self.page(found, from, page)?))).collect()
    }
    fn look(&self) -> io::Result<()> {
        for reader in &self.readers {
            let seen = self.state(&reader.found, reader.from)?;
            assert!(seen == reader.state, "a reader of {:?} sees {seen:?}", reader.state);
        }
        Ok(())
    }

    fn begin_anew(&mut self, r: &mut Random, turn: usize) -> io::Result<()> {
        let salt = r.next();
        let (head, sums) = header(salt);
        let base = r.below(MOST as u64 + 1) as u32;
        self.write(turn, base, &head, 0)?;
        self.wal().sync()?;
        self.found = Found { salt, sums, ..Found::default() };
        self.backfilled = 0;
        Ok(())
    }

    fn commit(&mut self, r: &mut Random, truth: &mut Truth) -> io::Result<()> {
        let turn = r.below(2) as usize;
        self.writers[turn].doubt();
        let begins = self.found.salt == 0
            || (self.backfilled == self.found.frames.len() && self.readers.is_empty() && r.chance(0.7));
        if begins {
            self.begin_anew(r, turn)?;
        }
        let mut next = truth.last();
        if r.chance(0.2) {
            // Spilled, and rolled back.
            let mut sums = self.found.sums;
            for i in 0..1 + r.below(4) {
                let page = 1 + r.below(next.len() as u64) as usize;
                let content = page_bytes(page, SPILLED, next.len());
                let head = frame(&mut sums, self.found.salt, page, 0, &content);
                let at = 32 + (self.found.frames.len() as u64 + i) * FRAME;
                self.write(turn, 0, &head, at)?;
                self.write(turn, 0, &content, at + 24)?;
            }
            self.writers[turn].doubt();
        }
        let version = truth.next_version();
        let mut pages = Vec::new();
        if r.chance(0.3) {
            // It grows or shrinks.
            let size = 2 + r.below(MOST as u64 - 2) as usize;
            pages.extend(next.len() + 1..=size);
            next.resize(size, version);
            pages.push(1);
        }
        let first = 1 + r.below(next.len() as u64) as usize;
        pages.extend(first..=(first + r.below(9) as usize).min(next.len()));
        pages.retain(|page| *page <= next.len());
        for (i, &page) in pages.iter().enumerate() {
            next[page - 1] = version;
            let last = i + 1 == pages.len();
            let content = page_bytes(page, version, next.len());
            let at = 32 + self.found.frames.len() as u64 * FRAME;
            let size = if last { next.len() } else { 0 };
            let head = frame(&mut self.found.sums, self.found.salt, page, size, &content);
            if last {
                truth.states.push(next.clone());
            }
            self.write(turn, 0, &head, at)?;
            self.write(turn, 0, &content, at + 24)?;
            self.found.frames.push((page, version));
        }
        self.found.pages = Some(next.len());
        if begins || r.chance(0.6) {
            self.wal().sync()?;
            truth.acknowledge();
        }
        Ok(())
    }

    fn backfill(&mut self, r: &mut Random, truth: &mut Truth) -> io::Result<()> {
        let committed = self.found.frames.len();
        let to = self.readers.iter().map(|reader| reader.found.frames.len()).fold(committed, usize::min);
        // Nobody may be at the database alone, while it changes.
        let blocked = self.readers.iter().any(|r| r.from == r.found.frames.len() && r.from < committed);
        let Some(pages) = self.found.pages.filter(|_| self.backfilled < to && !blocked) else {
            return Ok(());
        };
        self.wal().sync()?;
        truth.acknowledge();
        let work = Work {
            from: self.backfilled as u64,
            to: to as u64,
            committed: committed as u64,
            pages: pages as u32,
        };
        let (log, database) = (self.wal(), self.database());
        let pair = Pair { wal: &log, database: &database, layout: layout() };
        let mut entries = wal::entries(&log, layout(), 0, work.committed)?;
        for range in pair.to_bring_home(&entries, work)? {
            self.disk.exchange(range)?;
            self.look()?;
        }
        let mut runs = plan::runs(&entries, work, 1 + r.below(4) as u32, plan::GAP);
        let dense: Vec<_> = runs.iter().filter(|run| run.dense()).cloned().collect();
        pair.announce(&mut entries, work, &dense)?;
        let stops = r.chance(0.2).then(|| 1 + r.below(MOST as u64) as usize);
        for page in 1..=pages {
            if stops == Some(page) {
                return Ok(());
            }
            let newest = self.found.frames.iter().rposition(|(p, _)| *p == page);
            let Some(newest) = newest.filter(|at| (self.backfilled..to).contains(at)) else { continue };
            let place = u64::from(entries[newest].place());
            let run = runs.iter_mut().find(|run| run.place_of(page as u32) == Some(place));
            let at = ((page - 1) * PAGE) as u64;
            if let Some(run) = run {
                if run.state == Run::Waiting {
                    run.state = Run::Shared;
                    let len = u64::from(run.pages) * PAGE as u64;
                    let range = Range { from: layout().place_at(place), to: at, len };
                    if run.dense() {
                        self.disk.exchange(range)?
                    } else {
                        self.disk.share(range)?
                    }
                    self.look()?;
                }
                continue;
            }
            let mut content = vec![0; PAGE];
            self.read(&mut content, 32 + newest as u64 * FRAME + 24)?;
            database.write_at(&content, at)?;
            self.look()?;
        }
        if to == committed {
            database.set_len((pages * PAGE) as u64)?;
            database.sync()?;
        }
        self.backfilled = to;
        self.look()
    }
}

/// One life, until the power fails.
fn life(disk: &Disk, r: &mut Random, truth: &mut Truth) -> io::Result<()> {
    for opening in 0..3 {
        let mut sqlite = Sqlite {
            disk,
            writers: Default::default(),
            found: Found::default(),
            backfilled: 0,
            readers: Vec::new(),
        };
        sqlite.recover()?;
        truth.found(&sqlite.state(&sqlite.found, 0)?, "recovery");
        if opening == 0 {
            truth.acknowledge();
        }
        for _ in 0..r.below(16) {
            match r.below(10) {
                0..=3 => sqlite.commit(r, truth)?,
                4..=6 => sqlite.backfill(r, truth)?,
                7 | 8 => {
                    let (found, from) = (sqlite.found.clone(), sqlite.backfilled);
                    let state = truth.last();
                    sqlite.readers.push(WalReader { from, found, state });
                }
                _ => sqlite.readers.clear(),
            }
            sqlite.look()?;
        }
    }
    Ok(())
}

fn lives(seed: u64, mutation: Option<&'static str>) {
    let config = || Config { mutation, sync_us: (0, 0), ..Config::default() };
    let mut r = Random::new(seed);
    let first: State = vec![0; 10];
    let mut truth = Truth::new(first.clone());
    let log = Arc::new(Mutex::new(Log {
        maps: vec![[(Vec::new(), 0), (Vec::new(), 0)]],
        free: (0..BLOCKS).rev().collect(),
        dirty: HashSet::new(),
    }));
    let mut world = World::new(seed, config());
    let open = |world: &Arc<World>| {
        let storage = world.disk("disk");
        let blocks = (0..BLOCKS).map(|i| storage.open(&format!("b{i}"), Open::OpenOrCreate));
        let blocks = blocks.collect::<io::Result<_>>().expect("blocks");
        Disk { storage, blocks, log: log.clone() }
    };
    world.run(|| {
        let disk = open(&world);
        for block in &disk.blocks {
            block.set_len(BLOCK).expect("zeros");
            block.sync_data().expect("synced");
        }
        disk.storage.sync_dir("").expect("synced");
        for page in 1..=first.len() {
            let content = page_bytes(page, 0, first.len());
            Opened(&disk, DATABASE).write_at(&content, ((page - 1) * PAGE) as u64).expect("written");
        }
        wal::prepare(&Opened(&disk, WAL)).expect("written");
        Opened(&disk, DATABASE).sync().expect("synced");
        Opened(&disk, WAL).sync().expect("synced");
    });
    for i in 0..4 {
        let disk = world.run(|| open(&world));
        world.arm_power_failure(r.below(900));
        let done = world.run(|| life(&disk, &mut r, &mut truth));
        assert!(done.is_ok() || world.power_is_lost(), "{done:?}");
        drop(disk);
        world.power_failure();
        log.lock().expect("no panic").fail(&mut r);
        world = world.reboot_with(seed.wrapping_mul(31).wrapping_add(i), config());
    }
    let disk = world.run(|| open(&world));
    world.run(|| life(&disk, &mut r, &mut truth)).expect("no failure");
}

#[test]
fn no_power_failure_loses_a_page_that_was_exchanged() {
    seeds::each(40, |seed| lives(seed, None));
}

#[test]
fn each_mutation_is_noticed() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let mut unnoticed = Vec::new();
    for mutation in [
        "exchange_unannounced",
        "exchange_announcement_unsynced",
        "exchange_redirect_forgotten",
        "exchange_never_returns",
        "exchange_returns_early",
        "exchange_cut_off",
        "exchange_again",
        "exchange_by_sum_alone",
    ] {
        match (1..300).find(|seed| std::panic::catch_unwind(|| lives(*seed, Some(mutation))).is_err()) {
            Some(seed) => println!("{mutation}: seed {seed}"),
            None => unnoticed.push(mutation),
        }
    }
    std::panic::set_hook(quiet);
    assert!(unnoticed.is_empty(), "{unnoticed:?}");
}
