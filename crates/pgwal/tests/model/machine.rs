//! A machine that forgets: two rings' memory, the data directory's names, segments, and the operation at
//! which something happens.
use ondol_ring::{Files, HEADER, LEAST, Memory, SLOT, Segment};
use pgwal::mark::{Folders, Marked, VERSION, marked_by, words};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::panic::panic_any;
use std::rc::Rc;

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Wrong {
    Nothing,
    /// pgwal/R12: the first entry is there, then the mark.
    MarkAfterEntry,
    /// pgwal/R12: the mark is there, but not durable, and entries follow.
    MarkNotDurable,
    /// pgwal/R12: who finds a mark that its maker did not make durable goes on, since a word of an earlier
    /// life says that it is.
    WordStays,
    /// pgwal/R12: the mark goes, then the ring is drained.
    UnmarkFirst,
    /// pgwal/R12: entries are replayed though somebody took the mark away and went on.
    OldReplayed,
    /// pgwal/R12: a ring of another number takes the mark away.
    OtherTakesMark,
    /// pgwal/R8: the mark goes before it is durable that the ring is empty.
    EmptiedNotDurable,
    /// pgwal/R8: the ring is emptied before what it held is durable in the segments.
    HomeNotSynced,
    /// pgwal/R10: entries count before their segment's name is durable.
    NameNotDurable,
    /// pgwal/R8: a recovery that begins again does not know the segment that it made.
    MadeForgotten,
    /// A ring that promises nothing after a power failure is replayed after one.
    BootIgnored,
    /// A ring that promises nothing after a power failure is emptied in the system's memory only.
    NotSettled,
    /// pgwal/R13, ring/I6: a destager frees what a ring holds, whether or not a recovery has brought home
    /// what is older than a server.
    DestagedUnrecovered,
    /// pgwal/R14: as the server ends, its mark goes, and its ring is not emptied.
    LeftNotEmpty,
    /// pgwal/R14: a process that is left when the mark went writes as if it were there.
    MarkTakenForThere,
    /// pgwal/R15: entries are made in a ring whose file was removed.
    RemovedTrusted,
}

pub const PAGES: u64 = 4; // of a segment
pub const PAGE: u64 = 8; // bytes
pub const LEN: usize = HEADER + LEAST as usize * SLOT;
pub const FREED: usize = 1152;
pub const DOUBT: usize = 1728;
const RETIRED: usize = 1920;
pub const BLOCK: usize = 4096;

#[derive(Clone, Copy, PartialEq)]
pub enum Crash {
    /// One process of the server.
    One,
    /// All of them.
    All,
    Power,
}

/// A generator of numbers that needs no crate.
pub struct Random(pub Cell<u64>);
impl Random {
    pub fn below(&self, n: u64) -> u64 {
        let mut x = self.0.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.0.set(x);
        x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ x >> 31) % n
    }
    pub fn one_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A ring's memory.
pub struct Bytes {
    pub now: Vec<u8>,
    pub durable: Vec<u8>,
    /// Words on their way to the memory, in their order; and words in the cache.
    pub pending: Vec<(usize, [u8; 8])>,
    pub dirty: BTreeSet<usize>,
}

/// Changes of names that happen together: what each stands for from then on.
pub type Change<T> = Vec<(Vec<u8>, Option<T>)>;

/// A folder: what its names stand for, and which changes of names are not durable yet.
pub struct Names<T> {
    pub now: BTreeMap<Vec<u8>, T>,
    pub durable: BTreeMap<Vec<u8>, T>,
    pub pending: Vec<Change<T>>,
}
impl<T: Clone> Names<T> {
    pub fn new() -> Names<T> {
        Names { now: BTreeMap::new(), durable: BTreeMap::new(), pending: Vec::new() }
    }
    pub fn put(to: &mut BTreeMap<Vec<u8>, T>, change: &Change<T>) {
        for (name, value) in change {
            match value {
                Some(v) => to.insert(name.clone(), v.clone()),
                None => to.remove(name),
            };
        }
    }
    pub fn change(&mut self, change: Change<T>) {
        Names::put(&mut self.now, &change);
        self.pending.push(change)
    }
    pub fn sync(&mut self) {
        self.pending.drain(..).for_each(|c| Names::put(&mut self.durable, &c))
    }
    pub fn rename(&mut self, from: &CStr, to: &CStr) -> Result<(), i32> {
        let (from, to) = (from.to_bytes().to_vec(), to.to_bytes().to_vec());
        let it = self.now.get(&from).cloned().ok_or(libc::ENOENT)?;
        self.change(vec![(from, None), (to, Some(it))]);
        Ok(())
    }
}

pub struct Machine {
    pub random: Random,
    pub wrong: Wrong,
    /// What the rings promise.
    pub power: bool,
    pub rings: [RefCell<Bytes>; 2],
    pub data: RefCell<Names<Vec<u8>>>,
    pub wal: RefCell<Names<u64>>,
    /// By inode: pages as the kernel has them, and as the disk has them.
    pub files: RefCell<BTreeMap<u64, [(u64, u64); PAGES as usize]>>,
    pub process: Cell<u64>,
    /// The server's first process; 0: none lives.
    pub first: Cell<u64>,
    pub boot: Cell<u64>,
    pub fuse: Cell<u64>,
    pub crash: Cell<Crash>,
    pub gone: Cell<bool>,
    /// Recovery runs, which some variants spoil.
    pub recovering: Cell<bool>,
}

impl Machine {
    /// One operation: something may happen before it.
    pub fn step(&self) {
        if self.gone.get() {
            return;
        }
        let left = self.fuse.get();
        self.fuse.set(left.saturating_sub(1));
        if left == 1 {
            self.gone.set(true);
            panic_any(self.crash.get())
        }
        if self.random.one_in(8) {
            let ring = &mut *self.rings[self.random.below(2) as usize].borrow_mut();
            if self.power {
                let some = ring.dirty.iter().nth(self.random.below(4) as usize).copied();
                if let Some(at) = some {
                    ring.dirty.remove(&at);
                    ring.durable[at..at + 8].copy_from_slice(&ring.now[at..at + 8])
                }
            } else {
                // The kernel writes a block of the file when it likes.
                let at = self.random.below((LEN / BLOCK) as u64) as usize * BLOCK;
                ring.durable[at..at + BLOCK].copy_from_slice(&ring.now[at..at + BLOCK])
            }
        }
    }
    /// What power leaves: any subset of what is not durable.
    pub fn lose_power(&self) {
        for ring in &self.rings {
            let ring = &mut *ring.borrow_mut();
            let pending: Vec<_> = ring.pending.drain(..).collect();
            let dirty = std::mem::take(&mut ring.dirty);
            if self.power {
                for (at, word) in pending {
                    if self.random.one_in(2) {
                        ring.durable[at..at + 8].copy_from_slice(&word)
                    }
                }
                for at in dirty {
                    if self.random.one_in(2) {
                        ring.durable[at..at + 8].copy_from_slice(&ring.now[at..at + 8])
                    }
                }
            }
            ring.now.copy_from_slice(&ring.durable)
        }
        fn lose<T: Clone>(names: &mut Names<T>, random: &Random) {
            let pending: Vec<_> = names.pending.drain(..).collect();
            for change in pending {
                if random.one_in(2) {
                    Names::put(&mut names.durable, &change)
                }
            }
            names.now = names.durable.clone()
        }
        lose(&mut self.data.borrow_mut(), &self.random);
        lose(&mut self.wal.borrow_mut(), &self.random);
        for (cached, on_disk) in self.files.borrow_mut().values_mut().flatten() {
            if self.random.one_in(2) {
                *on_disk = *cached
            }
            *cached = *on_disk
        }
        self.boot.set(self.boot.get() + 1)
    }
    /// The system is shut down in order and started anew.
    pub fn reboot(&self) {
        for ring in &self.rings {
            let ring = &mut *ring.borrow_mut();
            ring.durable.copy_from_slice(&ring.now);
            ring.pending.clear();
            ring.dirty.clear()
        }
        self.data.borrow_mut().sync();
        self.sync_wal();
        self.boot.set(self.boot.get() + 1)
    }
    pub fn sync_pages(&self, inode: u64) {
        let mut files = self.files.borrow_mut();
        files.get_mut(&inode).expect("a file").iter_mut().for_each(|(cached, on_disk)| *on_disk = *cached)
    }
    pub fn sync_wal(&self) {
        let all: Vec<u64> = self.files.borrow().keys().copied().collect();
        all.into_iter().for_each(|inode| self.sync_pages(inode));
        self.wal.borrow_mut().sync()
    }
    pub fn new_file(&self) -> u64 {
        let mut files = self.files.borrow_mut();
        let inode = files.last_key_value().map_or(100, |(last, _)| last + 1);
        files.insert(inode, [(0, 0); PAGES as usize]);
        inode
    }
    pub fn inode(&self, part: u32) -> Option<u64> {
        self.wal.borrow().now.get(&name(part)).copied()
    }
}

pub fn segment(part: u32, inode: u64) -> Segment {
    Segment { timeline: 1, log: 0, part, inode }
}
pub fn name(part: u32) -> Vec<u8> {
    segment(part, 0).name()[..24].to_vec()
}

#[derive(Clone)]
pub struct Shared {
    pub machine: Rc<Machine>,
    pub ring: usize,
}
impl Shared {
    pub fn store(&self, at: usize, bytes: &[u8]) -> bool {
        self.machine.step();
        if self.machine.gone.get() {
            return false;
        }
        let ring = &mut *self.machine.rings[self.ring].borrow_mut();
        // Stores to one place become durable in their order.
        let Bytes { now, durable, pending, .. } = ring;
        pending.retain(|(old, word)| {
            let over = (at..at + bytes.len()).contains(old);
            if over {
                durable[*old..old + 8].copy_from_slice(word)
            }
            !over
        });
        now[at..at + bytes.len()].copy_from_slice(bytes);
        true
    }
    pub fn put(&self, at: usize, value: u64) {
        let m = &self.machine;
        if m.wrong == Wrong::WordStays && at == words::MARKED && value == 0 {
            return;
        }
        if self.store(at, &value.to_le_bytes()) {
            m.rings[self.ring].borrow_mut().dirty.insert(at);
        }
    }
}
impl Memory for Shared {
    fn copy(&self, at: usize, bytes: &[u8]) {
        if self.store(at, bytes) {
            let mut ring = self.machine.rings[self.ring].borrow_mut();
            ring.pending
                .extend(bytes.as_chunks::<8>().0.iter().enumerate().map(|(i, word)| (at + i * 8, *word)))
        }
    }
    fn flush(&self, at: usize) {
        let m = &self.machine;
        m.step();
        let spoiled = m.wrong == Wrong::EmptiedNotDurable && m.recovering.get() && at == FREED;
        if !m.gone.get() && !spoiled {
            let ring = &mut *m.rings[self.ring].borrow_mut();
            let line = at / 64 * 64;
            let dirty: Vec<usize> = ring.dirty.range(line..line + 64).copied().collect();
            for at in dirty {
                ring.dirty.remove(&at);
                ring.pending.push((at, ring.now[at..at + 8].try_into().expect("a word")))
            }
        }
    }
    fn fence(&self) {
        self.machine.step();
        let Bytes { durable, pending, .. } = &mut *self.machine.rings[self.ring].borrow_mut();
        if !self.machine.gone.get() {
            for (at, word) in pending.drain(..).filter(|_| self.machine.power) {
                durable[at..at + 8].copy_from_slice(&word)
            }
        }
    }
    fn settle(&self) -> Result<(), i32> {
        let m = &self.machine;
        m.step();
        if !m.gone.get() && !m.power && m.wrong != Wrong::NotSettled {
            let Bytes { now, durable, .. } = &mut *m.rings[self.ring].borrow_mut();
            durable[..HEADER].copy_from_slice(&now[..HEADER])
        }
        Ok(())
    }
    fn read(&self, at: usize, to: &mut [u8]) {
        to.copy_from_slice(&self.machine.rings[self.ring].borrow().now[at..at + to.len()])
    }
    fn word(&self, at: usize) -> u64 {
        let m = &self.machine;
        m.step();
        match m.wrong {
            Wrong::MadeForgotten if (words::MADE..words::SERVER).contains(&at) => return 0,
            Wrong::MarkTakenForThere if at == words::MARKED => return 1,
            Wrong::RemovedTrusted if at == RETIRED => return 0,
            _ => {}
        }
        u64::from_le_bytes(m.rings[self.ring].borrow().now[at..at + 8].try_into().expect("a word"))
    }
    fn set(&self, at: usize, value: u64) {
        self.put(at, value)
    }
    fn raise(&self, at: usize, value: u64) {
        self.put(at, self.word(at).max(value))
    }
    fn count(&self, at: usize, more: u64) {
        self.put(at, self.word(at) + more)
    }
    fn exchange(&self, at: usize, old: u64, new: u64) -> bool {
        let same = self.word(at) == old;
        if same {
            self.put(at, new)
        }
        same
    }
}

/// The folders as a process reaches them; `lie`: it takes the cluster for marked by this ring, whatever is
/// there.
pub struct Reached<'a> {
    pub machine: &'a Machine,
    pub lie: Option<u32>,
    /// From which sequence on entries came after this process.
    pub since: u64,
}
impl Reached<'_> {
    pub fn is(&self, wrong: Wrong) -> bool {
        self.machine.wrong == wrong
    }
}
impl Folders for Reached<'_> {
    fn contents(&self, name: &CStr, to: &mut [u8]) -> Result<usize, i32> {
        self.machine.step();
        let data = self.machine.data.borrow();
        let mut bytes = data.now.get(name.to_bytes()).cloned().ok_or(libc::ENOENT)?;
        if let (Some(ring), true) = (self.lie, name == VERSION) {
            bytes = format!("0-WAL-is-in-ring-{ring:08x}-run-ondol-pgwal-recover\n").into_bytes();
            assert_eq!(marked_by(&bytes), Marked::By(ring));
        }
        to[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }
    fn write(&self, name: &CStr, bytes: &[u8]) -> Result<(), i32> {
        self.machine.step();
        self.machine.data.borrow_mut().change(vec![(name.to_bytes().to_vec(), Some(bytes.to_vec()))]);
        Ok(())
    }
    fn rename(&self, from: &CStr, to: &CStr) -> Result<(), i32> {
        self.machine.step();
        self.machine.data.borrow_mut().rename(from, to)
    }
    fn remove(&self, name: &CStr) -> Result<(), i32> {
        self.machine.step();
        let mut data = self.machine.data.borrow_mut();
        if !data.now.contains_key(name.to_bytes()) {
            return Err(libc::ENOENT);
        }
        data.change(vec![(name.to_bytes().to_vec(), None)]);
        Ok(())
    }
    fn sync(&self) -> Result<(), i32> {
        self.machine.step();
        if !self.is(Wrong::MarkNotDurable) {
            self.machine.data.borrow_mut().sync()
        }
        Ok(())
    }
    fn open(&self, segment: &Segment) -> Result<i32, i32> {
        self.machine.step();
        match self.machine.inode(segment.part) {
            None => Err(libc::ENOENT),
            Some(inode) if inode != segment.inode => Err(libc::ESTALE),
            Some(inode) => Ok(inode as i32),
        }
    }
    fn make(&self, name: &CStr, _: u64) -> Result<(i32, u64), i32> {
        self.machine.step();
        let inode = self.machine.new_file();
        self.machine.wal.borrow_mut().change(vec![(name.to_bytes().to_vec(), Some(inode))]);
        Ok((inode as i32, inode))
    }
    fn write_at(&self, file: i32, bytes: &[u8], at: u64) -> Result<(), i32> {
        self.machine.step();
        let value = u64::from_le_bytes(bytes.try_into().map_err(|_| libc::EIO)?);
        let mut files = self.machine.files.borrow_mut();
        files.get_mut(&(file as u64)).ok_or(libc::EBADF)?[(at / PAGE) as usize].0 = value;
        Ok(())
    }
    fn sync_file(&self, file: i32) -> Result<(), i32> {
        self.machine.step();
        if !self.is(Wrong::HomeNotSynced) {
            self.machine.sync_pages(file as u64)
        }
        Ok(())
    }
    fn close(&self, _: i32) {}
    fn rename_segment(&self, from: &CStr, to: &CStr) -> Result<(), i32> {
        self.machine.step();
        self.machine.wal.borrow_mut().rename(from, to)
    }
    fn sync_segments(&self) -> Result<(), i32> {
        self.machine.step();
        if !self.is(Wrong::NameNotDurable) || self.machine.recovering.get() {
            self.machine.wal.borrow_mut().sync()
        }
        Ok(())
    }
    fn boot(&self) -> [u64; 2] {
        [self.machine.boot.get(), 0]
    }
}
impl Files for Reached<'_> {
    fn sync(&self, segment: &Segment, _: std::ops::Range<u64>, _: u64) -> Result<bool, i32> {
        self.machine.step();
        let there = self.machine.inode(segment.part) == Some(segment.inode);
        if there {
            self.machine.sync_pages(segment.inode)
        }
        Ok(there)
    }
    fn sync_all(&self) -> Result<(), i32> {
        self.machine.step();
        self.machine.sync_wal();
        Ok(())
    }
    fn since(&self) -> u64 {
        self.since
    }
    fn myself(&self) -> u64 {
        self.machine.process.get()
    }
    fn is_dead(&self, process: u64) -> bool {
        process != self.machine.process.get() && process != self.machine.first.get()
    }
    fn wait(&self, _: u64) {
        panic!("nobody alive holds the ring")
    }
    fn now(&self) -> u64 {
        1
    }
}
