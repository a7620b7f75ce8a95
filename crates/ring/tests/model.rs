//! The ring's own code over a memory and files that forget: processes killed and power failing at any
//! operation, lines of the cache and pages of files persisting in any order, a destager that comes in between
//! any two operations.
//!
//! Writes to the disk fail, too, whoever has them done: the kernel by itself, a sync of ours, a stranger's.
//! The system keeps the page as if it were clean, tells each descriptor once that was open before (one that
//! is opened later only if nobody was told yet), forgets a file's errors with its inode, and then has the
//! page as the disk has it. A file system may turn read-only. Destagers come and go.
//!
//! What must hold after each crash and recovery: every page that was acknowledged or seen is in its file,
//! that version or a later one. Each wrong variant (`Wrong`) breaks one rule of `docs/pgwal.md`, and must be
//! caught.
use ondol_ring::{Error, Files, HEADER, Holds, LEAST, Memory, Ring, SLOT, Segment};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::rc::{Rc, Weak};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Wrong {
    Nothing,
    /// pgwal/R3: the fence stands where the sync is asked for.
    FenceInSync,
    /// pgwal/R5: entries are freed, then their segments are synced.
    FreeBeforeSync,
    /// pgwal/R5: slots are used again before it is durable that they are free.
    FreedNotDurable,
    /// pgwal/R9: a segment is recycled that has live entries; recovery then finds another file under its
    /// name, or none.
    RecycleLive,
    /// pgwal/R8: recovery takes entries that were freed.
    ReplayStale,
    /// pgwal/R7: a dead writer's lock is taken as if nothing had been begun.
    LockStolen,
    /// pgwal/R6: a write past the ring leaves older entries of the ring alive.
    UncoveredLeavesEntries,
    /// pgwal/R5: two drain at once: one is told of an error, the other frees.
    TwoDrain,
    /// pgwal/R5: who died while it drained is taken for one who had not been told of an error.
    DrainerForgotten,
    /// pgwal/R5: who died while it asked for the file system's errors is taken for one who was not told of
    /// any.
    DoubtForgotten,
    /// pgwal/R5: less is synced than the entries cover.
    PartTooSmall,
    /// pgwal/R6: after a failed sync, entries are freed.
    FailedForgotten,
    /// ring/I6: a descriptor that is opened for the sync speaks for what was written before.
    OpenedAnew,
    /// ring/I6: a descriptor is taken to be older than a write that was under way as it was opened.
    StampUnderWrite,
    /// ring/I6: a destager that came later than an entry asks the file system of it.
    LateDestager,
    /// pgwal/R10: a server that restarts reads what nobody asked the system about.
    RestartUnsynced,
    /// pgwal/R6: a file system that does nothing when it is synced is taken for a synced one.
    ReadOnlySynced,
}

const PAGES: u64 = 4; // of a segment
const PAGE: u64 = 8; // bytes
const LEN: usize = HEADER + LEAST as usize * SLOT;

const LOCK: usize = 1024;
const HEAD: usize = 1088;
const FAILED: usize = 1280;
const DRAINING: usize = 1536;
const DOUBT: usize = 1728;

struct Killed;
struct PowerFailed;
/// The destager alone.
struct DestagerKilled;

/// A generator of numbers that needs no crate.
struct Random(Cell<u64>);
impl Random {
    fn below(&self, n: u64) -> u64 {
        let mut x = self.0.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.0.set(x);
        x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ x >> 31) % n
    }
    fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }
}

struct Machine {
    random: Random,
    wrong: Wrong,
    now: RefCell<Vec<u8>>,
    durable: RefCell<Vec<u8>>,
    /// Words that were stored past the cache or written back, not fenced yet: process, place, value.
    pending: RefCell<Vec<(u64, usize, [u8; 8])>>,
    /// Words that were stored and may be evicted.
    dirty: RefCell<BTreeSet<usize>>,
    process: Cell<u64>,
    dead: RefCell<BTreeSet<u64>>,
    /// Operations until something happens, and what.
    fuse: Cell<u64>,
    kill: Cell<bool>,
    gone: Cell<bool>,
    nested: Cell<bool>,
    destager: Cell<u64>,
    destager_fuse: Cell<u64>,
    destage: Destage,
    /// What the descriptor was told that the server's processes share, of the file system's errors.
    told_server: Cell<u64>,
    /// The file that the server has open.
    writes: Cell<u64>,
    /// One in so many pages cannot be written; 0: none.
    failing: Cell<u64>,
    ring: RefCell<Weak<Ring<Shared>>>,
    disk: RefCell<Disk>,
}
#[derive(Clone)]
struct Shared(Rc<Machine>);

/// What the kernel keeps of errors: how many there were, and up to which somebody was told.
#[derive(Default, Clone, Copy)]
struct Errors {
    count: u64,
    seen: u64,
}
impl Errors {
    /// What a descriptor that is opened now was told already.
    fn opened(&self) -> u64 {
        self.seen
    }
    /// Whether a descriptor is told of an error; not again.
    fn tell(&mut self, told: &mut u64) -> Result<(), i32> {
        let new = self.count > *told;
        *told = self.count;
        self.seen = self.seen.max(*told);
        if new { Err(5) } else { Ok(()) }
    }
}

/// A file: pages as the kernel has them, and as the disk has them; and whether the kernel takes a page for
/// written that is not.
#[derive(Default)]
struct Content {
    pages: [(u64, u64, bool); PAGES as usize],
    errors: Errors,
}

#[derive(Default)]
struct Disk {
    /// By inode.
    files: BTreeMap<u64, Content>,
    names: BTreeMap<u32, u64>,
    errors: Errors,
    /// The file system takes no writes, and its sync does nothing.
    read_only: bool,
}

/// The destager's descriptors: of the file system, and of segments.
struct Destage {
    since: Cell<u64>,
    told: Cell<u64>,
    holds: Holds,
    /// By descriptor: the inode, and what it was told.
    open: RefCell<BTreeMap<i32, (u64, u64)>>,
}

impl Machine {
    /// One operation: something may happen before it.
    fn step(&self) {
        if self.gone.get() {
            return;
        }
        let left = self.fuse.get();
        self.fuse.set(left.saturating_sub(1));
        if left == 1 {
            self.gone.set(true);
            if self.kill.get() { panic_any(Killed) } else { panic_any(PowerFailed) }
        }
        if self.random.one_in(12) {
            self.something_else_happens()
        }
        if self.random.one_in(4) {
            let line = self.random.below((LEN / 64) as u64) as usize * 64;
            let at = if self.random.one_in(2) { line } else { 1024 + self.random.below(8) as usize * 64 };
            if self.dirty.borrow_mut().remove(&at) {
                self.durable.borrow_mut()[at..at + 8].copy_from_slice(&self.now.borrow()[at..at + 8]);
            }
        }
        if self.nested.get() {
            let left = self.destager_fuse.get();
            self.destager_fuse.set(left.saturating_sub(1));
            if left == 1 {
                self.gone.set(true); // What is unwound does nothing.
                panic_any(DestagerKilled)
            }
        } else if self.random.one_in(40) {
            self.destage()
        }
    }
    /// What the kernel and strangers do.
    fn something_else_happens(&self) {
        let inodes: Vec<u64> = self.disk.borrow().files.keys().copied().collect();
        let inode = inodes[self.random.below(inodes.len() as u64) as usize];
        match self.random.below(8) {
            0..3 => {
                let page = self.random.below(PAGES) * PAGE;
                self.write_back(inode, page..page + 1)
            }
            3 => {
                self.write_back(inode, 0..u64::MAX);
                let mut disk = self.disk.borrow_mut();
                let errors = &mut disk.files.get_mut(&inode).expect("a file").errors;
                errors.seen = errors.count
            }
            4 => {
                inodes.into_iter().for_each(|i| self.write_back(i, 0..u64::MAX));
                let errors = &mut self.disk.borrow_mut().errors;
                errors.seen = errors.count
            }
            5..7 if !self.destage.holds.has(inode) && self.writes.get() != inode => {
                // Nobody has it open: its clean pages, and what is known of its errors, are dropped.
                let mut disk = self.disk.borrow_mut();
                let file = disk.files.get_mut(&inode).expect("a file");
                if file.pages.iter().all(|(cached, on_disk, lost)| *lost || cached == on_disk) {
                    file.errors = Errors::default();
                    file.pages.iter_mut().for_each(|p| *p = (p.1, p.1, false))
                }
            }
            7 if self.failing.get() != 0 && self.random.one_in(40) => self.disk.borrow_mut().read_only = true,
            _ => {}
        }
    }
    /// A destager that comes now: its folder's descriptor is opened, nothing else.
    fn new_destager(&self) {
        let d = &self.destage;
        self.destager.set(self.destager.get() + 1);
        d.holds.let_go(|_, _| true, |_| ());
        d.open.borrow_mut().clear();
        d.told.set(self.disk.borrow().errors.opened());
        d.since.set(u64::MAX)
    }
    /// As `pgwal::destage` does: when it came, what it may free, which segments it holds; then some is freed.
    fn destage_some(&self, ring: &Ring<Shared>) -> Result<bool, Error> {
        let d = &self.destage;
        let stamp = || match self.wrong {
            Wrong::StampUnderWrite => Some(self.load(HEAD)),
            _ => ring.stamp(),
        };
        if d.since.get() == u64::MAX
            && let Some(now) = stamp()
        {
            d.since.set(now);
            ring.ask(now)
        }
        let all: Vec<u64> = self.disk.borrow().names.values().copied().collect();
        for inode in all.into_iter().filter(|_| self.random.one_in(2)) {
            if !d.holds.has(inode) && !self.gone.get() {
                let fd = 1 + d.open.borrow().len() as i32;
                let told = self.disk.borrow().files[&inode].errors.opened();
                d.open.borrow_mut().insert(fd, (inode, told));
                if let Some(since) = stamp() {
                    d.holds.keep(inode, fd, since);
                }
            }
        }
        ring.drain_some(&Reached(self, true))
    }
    /// The destager comes in, or another process of the server that found the ring full; sometimes it is
    /// killed.
    fn destage(&self) {
        let drainer = if self.wrong == Wrong::TwoDrain { 0 } else { self.load(DRAINING) };
        let ring = self.ring.borrow().upgrade();
        let Some(ring) = ring.filter(|_| drainer == 0 || self.dead.borrow().contains(&drainer)) else {
            return;
        };
        let destager = self.random.one_in(2);
        self.nested.set(true);
        self.destager_fuse.set(if self.random.one_in(4) { 1 + self.random.below(30) } else { 0 });
        let me = self.process.replace(self.destager.get());
        let done = catch_unwind(AssertUnwindSafe(|| {
            let some =
                || if destager { self.destage_some(&ring) } else { ring.drain_some(&Reached(self, false)) };
            while some() == Ok(true) && ring.status().live != 0 {}
        }));
        self.process.set(me);
        self.nested.set(false);
        self.destager_fuse.set(0);
        if let Err(why) = done {
            if why.downcast_ref::<DestagerKilled>().is_none() {
                std::panic::resume_unwind(why)
            }
            self.gone.set(false);
            self.dead.borrow_mut().insert(self.destager.get());
            self.new_destager()
        }
    }
    /// Stores to one place become durable in their order: what another store was about to make durable goes
    /// first.
    fn store(&self, at: usize, bytes: &[u8]) {
        let mut durable = self.durable.borrow_mut();
        self.pending.borrow_mut().retain(|(_, old, word)| {
            let over = (at..at + bytes.len()).contains(old);
            if over {
                durable[*old..old + 8].copy_from_slice(word)
            }
            !over
        });
        self.now.borrow_mut()[at..at + bytes.len()].copy_from_slice(bytes)
    }
    fn load(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.now.borrow()[at..at + 8].try_into().expect("a word"))
    }
    fn put(&self, at: usize, value: u64) {
        if !self.gone.get() {
            self.store(at, &value.to_le_bytes());
            self.dirty.borrow_mut().insert(at);
        }
    }
    fn fence_now(&self) {
        let me = self.process.get();
        let mut durable = self.durable.borrow_mut();
        self.pending.borrow_mut().retain(|(who, at, word)| {
            if *who == me {
                durable[*at..at + 8].copy_from_slice(word)
            }
            *who != me
        });
    }
    /// What power leaves: any subset of what was not fenced, of each file any subset of pages not synced.
    fn lose_power(&self) {
        let mut durable = self.durable.borrow_mut();
        for (_, at, word) in self.pending.borrow_mut().drain(..) {
            // Whole lines mostly, so that some entries survive whole.
            if self.random.one_in(2) {
                durable[at..at + 8].copy_from_slice(&word)
            }
        }
        for at in std::mem::take(&mut *self.dirty.borrow_mut()) {
            if self.random.one_in(2) {
                durable[at..at + 8].copy_from_slice(&self.now.borrow()[at..at + 8])
            }
        }
        self.now.borrow_mut().copy_from_slice(&durable);
        let disk = &mut *self.disk.borrow_mut();
        for file in disk.files.values_mut() {
            for (cached, on_disk, lost) in &mut file.pages {
                if self.random.one_in(2) && !*lost && !disk.read_only {
                    *on_disk = *cached
                }
                *cached = *on_disk;
                *lost = false
            }
            file.errors = Errors::default()
        }
        (disk.errors, disk.read_only) = (Errors::default(), false)
    }
    /// The kernel writes what is dirty of a part of a file.
    fn write_back(&self, inode: u64, part: std::ops::Range<u64>) {
        let Disk { files, errors, read_only, .. } = &mut *self.disk.borrow_mut();
        let file = files.get_mut(&inode).expect("a file");
        if *read_only {
            return;
        }
        for (i, (cached, on_disk, lost)) in file.pages.iter_mut().enumerate() {
            if *lost || *cached == *on_disk || !part.contains(&(i as u64 * PAGE)) {
                continue;
            }
            let failing = self.failing.get();
            if failing != 0 && self.random.one_in(failing) {
                *lost = true;
                file.errors.count += 1;
                errors.count += 1
            } else {
                *on_disk = *cached
            }
        }
    }
    /// By a descriptor that was told already of so many errors.
    fn sync_file(&self, inode: u64, part: std::ops::Range<u64>, told: &mut u64) -> Result<(), i32> {
        self.write_back(inode, part);
        self.disk.borrow_mut().files.get_mut(&inode).expect("a file").errors.tell(told)
    }
    /// By a descriptor that is opened now.
    fn sync_anew(&self, inode: u64, part: std::ops::Range<u64>) -> Result<(), i32> {
        let mut told = self.disk.borrow().files[&inode].errors.opened();
        self.sync_file(inode, part, &mut told)
    }
    fn sync_everything(&self, cursor: &Cell<u64>) -> Result<(), i32> {
        let all: Vec<u64> = self.disk.borrow().files.keys().copied().collect();
        all.into_iter().for_each(|inode| self.write_back(inode, 0..u64::MAX));
        let mut told = cursor.get();
        let mut disk = self.disk.borrow_mut();
        let done = disk.errors.tell(&mut told);
        cursor.set(told);
        match done {
            // A change of the file system is tried behind the sync.
            Ok(()) if disk.read_only && self.wrong != Wrong::ReadOnlySynced => Err(30),
            done => done,
        }
    }
    fn write_page(&self, part: u32, page: u64, value: u64) {
        let mut disk = self.disk.borrow_mut();
        let inode = disk.names[&part];
        let page = &mut disk.files.get_mut(&inode).expect("a file").pages[page as usize];
        (page.0, page.2) = (value, false);
    }
}

impl Memory for Shared {
    fn copy(&self, at: usize, bytes: &[u8]) {
        let m = &self.0;
        m.step();
        if m.gone.get() {
            return;
        }
        m.store(at, bytes);
        let me = m.process.get();
        for (i, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
            m.pending.borrow_mut().push((me, at + i * 8, *word))
        }
    }
    fn flush(&self, at: usize) {
        let m = &self.0;
        m.step();
        if m.gone.get() || m.wrong == Wrong::FreedNotDurable {
            return;
        }
        let word: [u8; 8] = m.now.borrow()[at..at + 8].try_into().expect("a word");
        m.pending.borrow_mut().push((m.process.get(), at, word));
    }
    fn fence(&self) {
        let m = &self.0;
        m.step();
        if !m.gone.get() && m.wrong != Wrong::FenceInSync {
            m.fence_now()
        }
    }
    fn read(&self, at: usize, to: &mut [u8]) {
        self.0.step();
        to.copy_from_slice(&self.0.now.borrow()[at..at + to.len()])
    }
    fn word(&self, at: usize) -> u64 {
        let m = &self.0;
        m.step();
        let value = m.load(at);
        let nobody = match m.wrong {
            Wrong::TwoDrain => at == DRAINING,
            Wrong::DrainerForgotten => at == DRAINING && m.dead.borrow().contains(&value),
            Wrong::FailedForgotten => at == FAILED,
            Wrong::DoubtForgotten => at == DOUBT,
            _ => false,
        };
        if nobody { 0 } else { value }
    }
    fn set(&self, at: usize, value: u64) {
        self.0.step();
        self.0.put(at, value)
    }
    fn raise(&self, at: usize, value: u64) {
        self.0.step();
        self.0.put(at, self.0.load(at).max(value))
    }
    fn count(&self, at: usize, more: u64) {
        self.0.step();
        self.0.put(at, self.0.load(at) + more)
    }
    fn exchange(&self, at: usize, old: u64, new: u64) -> bool {
        self.0.step();
        let free = matches!(self.0.wrong, Wrong::TwoDrain | Wrong::DrainerForgotten) && at == DRAINING;
        let same = self.0.load(at) == old || free;
        if same {
            self.0.put(at, new)
        }
        same
    }
}

/// The files, as a process of the server reaches them, or the destager.
struct Reached<'a>(&'a Machine, bool);
impl Files for Reached<'_> {
    fn sync(&self, segment: &Segment, part: std::ops::Range<u64>, first: u64) -> Result<bool, i32> {
        let Reached(m, destager) = self;
        m.step();
        if m.gone.get() || m.wrong == Wrong::FreeBeforeSync {
            return Ok(true);
        }
        let part = if m.wrong == Wrong::PartTooSmall { part.start..part.start + 1 } else { part };
        if m.wrong == Wrong::OpenedAnew {
            return m.sync_anew(segment.inode, part).map(|()| true);
        }
        let Some(fd) = m.destage.holds.find(segment.inode, first).filter(|_| *destager) else {
            return Ok(false);
        };
        let mut open = m.destage.open.borrow_mut();
        let (inode, told) = open.get_mut(&fd).expect("a descriptor");
        m.sync_file(*inode, part, told)?;
        let refused = m.disk.borrow().read_only && m.wrong != Wrong::ReadOnlySynced;
        if refused { Err(30) } else { Ok(true) }
    }
    fn sync_all(&self) -> Result<(), i32> {
        let Reached(m, destager) = self;
        m.step();
        if m.gone.get() || m.wrong == Wrong::FreeBeforeSync {
            return Ok(());
        }
        m.sync_everything(if *destager { &m.destage.told } else { &m.told_server })
    }
    fn since(&self) -> u64 {
        let late = self.1 && self.0.wrong != Wrong::LateDestager;
        if late { self.0.destage.since.get() } else { 0 }
    }
    fn myself(&self) -> u64 {
        self.0.process.get()
    }
    fn is_dead(&self, process: u64) -> bool {
        self.0.dead.borrow().contains(&process)
    }
    fn wait(&self, _: u64) {
        panic!("nobody alive holds the ring")
    }
    fn now(&self) -> u64 {
        1
    }
}

/// The server: where its log stands and what it has told.
struct Server {
    shared: Shared,
    ring: Rc<Ring<Shared>>,
    /// The page to be written next, or again.
    at: u64,
    redo: u64,
    told: BTreeMap<u64, u64>,
    version: u64,
    next_process: u64,
}

impl Server {
    fn new(seed: u64, wrong: Wrong) -> Server {
        let mut disk = Disk::default();
        for part in 0..4 {
            disk.names.insert(part, u64::from(part) + 100);
            disk.files.insert(u64::from(part) + 100, Content::default());
        }
        let shared = Shared(Rc::new(Machine {
            random: Random(Cell::new(seed)),
            wrong: Wrong::Nothing,
            now: RefCell::new(vec![0; LEN]),
            durable: RefCell::new(vec![0; LEN]),
            pending: RefCell::default(),
            dirty: RefCell::default(),
            process: Cell::new(10),
            dead: RefCell::default(),
            fuse: Cell::new(0),
            kill: Cell::new(false),
            gone: Cell::new(false),
            nested: Cell::new(false),
            destager: Cell::new(1000),
            destager_fuse: Cell::new(0),
            destage: Destage {
                since: Cell::new(0),
                told: Cell::new(0),
                holds: Holds::new(),
                open: RefCell::default(),
            },
            told_server: Cell::new(0),
            writes: Cell::new(0),
            failing: Cell::new(0),
            ring: RefCell::default(),
            disk: RefCell::new(disk),
        }));
        let ring = Rc::new(Ring::new(shared.clone(), LEN).expect("long enough"));
        ring.format();
        drop(ring);
        let mut machine = Rc::into_inner(shared.0).expect("ours alone");
        machine.wrong = wrong;
        let shared = Shared(Rc::new(machine));
        let ring = Rc::new(Ring::new(shared.clone(), LEN).expect("long enough"));
        *shared.0.ring.borrow_mut() = Rc::downgrade(&ring);
        Server { shared, ring, at: 0, redo: 0, told: BTreeMap::new(), version: 0, next_process: 10 }
    }
    fn machine(&self) -> &Machine {
        &self.shared.0
    }
    fn segment(&self, part: u32) -> Segment {
        Segment { timeline: 1, log: 0, part, inode: self.machine().disk.borrow().names[&part] }
    }
    /// Some pages from `at` on, the first perhaps for a second time; `covered` by the ring or past it.
    fn write(&mut self, covered: bool) -> Result<(), Error> {
        let m = &self.shared.0;
        let part = (self.at / PAGES) as u32;
        let page = self.at % PAGES;
        let pages = 1 + m.random.below(PAGES - page);
        self.version += 1;
        let values: Vec<u64> = (0..pages).map(|i| self.version << 16 | (self.at + i)).collect();
        // The writer's own descriptor was opened before.
        let inode = self.segment(part).inode;
        let mut told = m.disk.borrow().files[&inode].errors.opened();
        m.writes.set(inode);
        let put = || {
            for (i, v) in values.iter().enumerate() {
                m.step();
                m.write_page(part, page + i as u64, *v);
                if m.random.one_in(6) {
                    // A stranger syncs what was just written, and is told if it failed.
                    m.sync_anew(inode, 0..u64::MAX).ok();
                }
            }
        };
        let files = Reached(m, false);
        if m.disk.borrow().read_only {
            return Err(Error::Sync(30));
        }
        let held = self.ring.enter(&files)?;
        put();
        if covered {
            for (i, v) in values.iter().enumerate() {
                // A page of the model is 8 bytes; an entry each.
                held.append(self.segment(part), (page + i as u64) * PAGE, PAGE as usize, |_, to| {
                    to.copy_from_slice(&v.to_le_bytes())
                })?;
            }
        } else {
            m.step();
            let mut sync = || {
                m.sync_file(inode, 0..u64::MAX, &mut told)?;
                if m.disk.borrow().read_only { Err(30) } else { Ok(()) }
            };
            if m.wrong == Wrong::UncoveredLeavesEntries {
                sync().map_err(Error::Sync)?
            } else {
                held.past(sync)?
            }
        }
        drop(held);
        m.writes.set(0);
        self.ring.pace(&files, PAGE as usize);
        // Another process asks for the sync, which is not done: told.
        m.process.set(m.process.get() ^ 1);
        if m.wrong == Wrong::FenceInSync {
            m.fence_now()
        }
        for v in values {
            self.told.insert(v & 0xFFFF, v);
        }
        self.at += pages - m.random.below(2);
        Ok(())
    }
    /// Older segments than the current one are not needed: the oldest becomes one of the future.
    fn recycle(&mut self) -> Result<(), Error> {
        let m = &self.shared.0;
        self.redo = self.at / PAGES * PAGES;
        self.told.retain(|page, _| *page >= self.redo);
        let (old, inode) = m.disk.borrow().names.first_key_value().map(|(a, b)| (*a, *b)).expect("segments");
        if u64::from(old) * PAGES >= self.redo {
            return Ok(());
        }
        if m.wrong != Wrong::RecycleLive && self.ring.holds(&self.segment(old)) {
            self.ring.drain(&Reached(m, false))?
        }
        m.step();
        let mut disk = m.disk.borrow_mut();
        let future = *disk.names.last_key_value().expect("segments").0 + 1;
        disk.names.remove(&old);
        disk.names.insert(future, inode);
        Ok(())
    }
    fn find(&self, on_disk: bool) -> BTreeMap<u64, u64> {
        let disk = self.machine().disk.borrow();
        let mut found = BTreeMap::new();
        for (part, inode) in &disk.names {
            for (i, (cached, durable, _)) in disk.files[inode].pages.iter().enumerate() {
                found.insert(u64::from(*part) * PAGES + i as u64, if on_disk { *durable } else { *cached });
            }
        }
        found
    }
    /// After a failed sync. A write past the ring that failed is in no file and was not acknowledged, but the
    /// kernel shows it as long as it pleases, to any server: that is taken away here.
    fn recover_failed(&mut self) -> Result<(), String> {
        self.recover()?;
        for (cached, on_disk, lost) in
            self.machine().disk.borrow_mut().files.values_mut().flat_map(|f| &mut f.pages)
        {
            if std::mem::take(lost) {
                *cached = *on_disk
            }
        }
        self.check(true)
    }
    /// Everything told is there. What is there is seen from now on, and thereby told.
    fn check(&mut self, on_disk: bool) -> Result<(), String> {
        let found = self.find(on_disk);
        for (page, value) in &self.told {
            match found.get(page) {
                Some(f) if f & 0xFFFF == *page && f >= value => {}
                f => return Err(format!("page {page}: {value:#x} was told, {f:x?} is there")),
            }
        }
        for (page, value) in found {
            if page >= self.redo && value & 0xFFFF == page && value != 0 {
                self.told.insert(page, value);
                self.at = self.at.max(page)
            }
        }
        Ok(())
    }
    fn restart(&mut self) {
        let m = &self.shared.0;
        for p in 1..self.next_process + 2 {
            m.dead.borrow_mut().insert(p);
        }
        m.dead.borrow_mut().insert(m.destager.get());
        m.new_destager();
        self.next_process += 2;
        m.process.set(self.next_process);
        m.writes.set(0);
        m.gone.set(false);
        m.nested.set(false);
    }
    fn recover(&mut self) -> Result<(), String> {
        loop {
            let m = &self.shared.0;
            {
                // The next server opens its folder before its library recovers.
                let mut disk = m.disk.borrow_mut();
                disk.read_only = false;
                m.told_server.set(disk.errors.opened())
            }
            if m.wrong == Wrong::ReplayStale {
                m.set_freed(0)
            }
            m.fuse.set(if m.random.one_in(3) { 1 + m.random.below(60) } else { 0 });
            m.kill.set(m.random.one_in(2));
            m.nested.set(true); // Nobody else uses the ring.
            m.failing.set(0);
            let done = catch_unwind(AssertUnwindSafe(|| {
                self.ring.recover(
                    |e, data| {
                        m.step();
                        let inode = m.disk.borrow().names.get(&e.segment.part).copied();
                        if inode != Some(e.segment.inode) && m.wrong != Wrong::ReplayStale {
                            return Err(116);
                        }
                        if let Some(inode) = inode {
                            let value = u64::from_le_bytes(data.try_into().map_err(|_| 5)?);
                            let page = (e.offset / PAGE) as usize;
                            let mut disk = m.disk.borrow_mut();
                            let page = &mut disk.files.get_mut(&inode).ok_or(5)?.pages[page];
                            (page.0, page.2) = (value, false);
                        }
                        Ok(())
                    },
                    || {
                        m.step();
                        let all: Vec<u64> = m.disk.borrow().files.keys().copied().collect();
                        all.into_iter().for_each(|inode| m.write_back(inode, 0..u64::MAX));
                        Ok(())
                    },
                )
            }));
            m.fuse.set(0);
            match done {
                Ok(Ok(_)) => {
                    self.restart();
                    return Ok(());
                }
                Ok(Err(e @ Error::Damaged(_))) => return Err(format!("{e:?}")),
                Ok(Err(e)) => return Err(format!("{e:?}")),
                Err(_) => {
                    m.gone.set(false);
                    if !m.kill.get() {
                        m.lose_power()
                    }
                }
            }
        }
    }
    /// PostgreSQL syncs its files when it restarts, before it reads its log: the ring is drained then
    /// (pgwal/R10).
    fn sync_all_files(&self) -> Result<(), Error> {
        let m = self.machine();
        if m.wrong != Wrong::RestartUnsynced {
            self.ring.drain(&Reached(m, false))?
        }
        self.ring.failure().map_or(Ok(()), Err)
    }
    fn live(&mut self, events: u64) -> Result<(), String> {
        let failing = if self.machine().random.one_in(2) { 0 } else { 1 + self.machine().random.below(60) };
        for _ in 0..events {
            let m = &self.shared.0;
            m.failing.set(failing);
            let crash = m.random.one_in(6);
            m.fuse.set(if crash { 1 + m.random.below(50) } else { 0 });
            m.kill.set(m.random.one_in(2));
            let what = m.random.below(8);
            let room =
                self.at / PAGES <= u64::from(*m.disk.borrow().names.last_key_value().expect("segments").0);
            let done = catch_unwind(AssertUnwindSafe(|| match what {
                0..5 if room => self.write(true),
                5 if room => self.write(false),
                6 => self.ring.drain(&Reached(&self.shared.0, false)),
                _ => self.recycle(),
            }));
            let m = &self.shared.0;
            m.fuse.set(0);
            let why = match done {
                Ok(Ok(())) => {
                    if m.wrong == Wrong::FreeBeforeSync && m.random.one_in(2) {
                        m.sync_everything(&Cell::new(u64::MAX)).ok(); // Late.
                    }
                    continue;
                }
                Ok(Err(Error::Sync(_))) => {
                    // The server stops, and comes back by way of recovery; or power fails as well.
                    if m.random.one_in(2) {
                        m.lose_power()
                    }
                    self.recover_failed()?;
                    continue;
                }
                Ok(Err(e)) => return Err(format!("{e:?}")),
                Err(why) => why,
            };
            if why.downcast_ref::<Killed>().is_some() {
                // All of the server's processes go, and it comes back over the kernel's files.
                self.restart();
                let m = &self.shared.0;
                if m.wrong == Wrong::LockStolen {
                    m.store(LOCK, &[0; 8])
                } else if self.ring.relieve(&Reached(m, false)).and_then(|_| self.sync_all_files()).is_err() {
                    // It cannot read its log, and stops. Asked again, the ring says the same.
                    if m.random.one_in(2) && self.ring.relieve(&Reached(m, false)).is_ok_and(|done| done) {
                        return Err("a failure was forgotten".into());
                    }
                    self.recover_failed()?;
                    continue;
                }
                self.check(false)?;
            } else if why.downcast_ref::<PowerFailed>().is_some() {
                m.gone.set(false);
                m.lose_power();
                self.recover()?;
                self.check(true)?;
            } else {
                std::panic::resume_unwind(why)
            }
        }
        self.machine().lose_power();
        self.recover()?;
        self.check(true)
    }
}

impl Machine {
    fn set_freed(&self, value: u64) {
        self.store(1152, &value.to_le_bytes())
    }
}

fn quiet() {
    std::panic::set_hook(Box::new(|info| {
        let p = info.payload();
        if !p.is::<Killed>() && !p.is::<PowerFailed>() && !p.is::<DestagerKilled>() {
            eprintln!("{info}")
        }
    }));
}

#[test]
fn nothing_told_is_lost() {
    quiet();
    for seed in 0..10_000 {
        if let Err(why) = Server::new(seed, Wrong::Nothing).live(60) {
            panic!("seed {seed}: {why}")
        }
    }
}

#[test]
fn each_wrong_variant_is_caught() {
    quiet();
    for wrong in [
        Wrong::FenceInSync,
        Wrong::FreeBeforeSync,
        Wrong::FreedNotDurable,
        Wrong::RecycleLive,
        Wrong::ReplayStale,
        Wrong::LockStolen,
        Wrong::UncoveredLeavesEntries,
        Wrong::TwoDrain,
        Wrong::DrainerForgotten,
        Wrong::DoubtForgotten,
        Wrong::PartTooSmall,
        Wrong::FailedForgotten,
        Wrong::OpenedAnew,
        Wrong::StampUnderWrite,
        Wrong::LateDestager,
        Wrong::RestartUnsynced,
        Wrong::ReadOnlySynced,
    ] {
        let caught =
            (0..20_000).find_map(|seed| Server::new(seed, wrong).live(60).err().map(|why| (seed, why)));
        let (seed, why) = caught.unwrap_or_else(|| panic!("{wrong:?} was not caught"));
        println!("{wrong:?}: seed {seed}: {why}");
    }
}

#[test]
fn an_acknowledged_entry_that_decays_is_refused() {
    let mut server = Server::new(1, Wrong::Nothing);
    server.machine().nested.set(true);
    for _ in 0..3 {
        server.write(true).expect("no sync fails here");
    }
    let at = HEADER + 64;
    server.machine().now.borrow_mut()[at] ^= 1;
    assert_eq!(
        server.ring.recover(|_, _| Ok(()), || Ok(())),
        Err(Error::Damaged(LEAST)),
        "the first entry's data changed"
    );
}
