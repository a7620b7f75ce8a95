//! The ring: who writes, when an entry is there, when its slot is free again. Rules by number: `docs/pgwal.md`.
//!
//! ```text
//!       FREED <= TAIL <= sequences <= HEAD          slot of a sequence: sequence % slots
//!   synced, given up | live: in the ring, to be replayed | not there yet
//! ```
//! - **I1** Only the process whose number is in LOCK writes slots and HEAD.
//! - **I2** Every entry below HEAD was fenced before HEAD passed it, and its bytes were in the kernel's file before
//!   the entry was written.
//! - **I3** No slot is written while its former entry is at or above the durable FREED.
//! - **I4** FREED passes an entry only after its segment was synced.
//!
//! A process that dies leaves its number in LOCK: whoever meets it makes good what it may have left half done (R7).
use crate::entry::{DATA, Entry, SLOT, Segment};
use crate::memory::Memory;

/// Bytes before the first slot; the first 1024 of them are the owner's.
pub const HEADER: usize = 4096;
/// The fewest slots of a ring.
pub const LEAST: u64 = 8;
// Each on a cache line of its own.
const LOCK: usize = 1024;
const HEAD: usize = 1088;
const FREED: usize = 1152;
const TAIL: usize = 1216;
const FAILED: usize = 1280;
const DRAINS: usize = 1344;
const FULL: usize = 1408;
const BYTES: usize = 1472;

/// The files that the ring stands before, as the running process reaches them.
pub trait Files {
    /// Syncs a segment: all that any process has written to it. An error is the system's number for it.
    fn sync(&self, segment: &Segment) -> Result<(), i32>;
    /// Syncs whatever segment there is.
    fn sync_all(&self) -> Result<(), i32>;
    /// The calling process's number, not 0.
    fn myself(&self) -> u64;
    fn is_dead(&self, process: u64) -> bool;
    /// Lets others run.
    fn pause(&self);
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// A segment could not be synced, now or before: nothing is durable any more until recovery (R6).
    Sync(i32),
    /// An acknowledged entry, of this sequence, is not whole.
    Damaged(u64),
    /// Replaying failed, with the system's number for it.
    Replay(i32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    pub slots: u64,
    /// Entries that are not yet freed.
    pub live: u64,
    /// Entries ever.
    pub entries: u64,
    /// Bytes of data ever.
    pub bytes: u64,
    pub drains: u64,
    /// How often a writer found no room and had to drain.
    pub full: u64,
    pub failed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Replay {
    pub entries: u64,
    pub bytes: u64,
}

pub struct Ring<M> {
    memory: M,
    slots: u64,
}

impl<M: Memory> Ring<M> {
    /// `len` bytes of memory; `None` if they are too few.
    pub fn new(memory: M, len: usize) -> Option<Ring<M>> {
        let slots = (len.checked_sub(HEADER)? / SLOT) as u64;
        (slots >= LEAST).then_some(Ring { memory, slots })
    }
    pub fn memory(&self) -> &M {
        &self.memory
    }
    /// Memory full of zeros becomes an empty ring. Sequences begin at the number of slots, so that no slot of zeros is
    /// an entry.
    pub fn format(&self) {
        self.begin(self.slots)
    }
    /// Nobody else uses the ring; entries below `sequence` are given up.
    fn begin(&self, sequence: u64) {
        let m = &self.memory;
        m.set(FREED, sequence);
        m.flush(FREED);
        m.fence();
        for (word, value) in [(TAIL, sequence), (HEAD, sequence), (LOCK, 0), (FAILED, 0)] {
            m.set(word, value);
            m.flush(word);
        }
        m.fence();
    }
    fn place(&self, sequence: u64) -> usize {
        HEADER + (sequence % self.slots) as usize * SLOT
    }
    pub fn status(&self) -> Status {
        let m = &self.memory;
        let (tail, head) = (m.word(TAIL), m.word(HEAD));
        Status {
            slots: self.slots,
            live: head.saturating_sub(tail),
            entries: head.saturating_sub(self.slots),
            bytes: m.word(BYTES),
            drains: m.word(DRAINS),
            full: m.word(FULL),
            failed: m.word(FAILED) != 0,
        }
    }
    pub fn failure(&self) -> Option<Error> {
        match self.memory.word(FAILED) {
            0 => None,
            number => Some(Error::Sync(number as i32)),
        }
    }

    /// The only writer from here to the drop of what is returned (R2). The caller writes to the kernel's file, then
    /// [appends](Held::append).
    pub fn enter<'a, F: Files>(&'a self, files: &'a F) -> Result<Held<'a, M, F>, Error> {
        let me = files.myself();
        loop {
            if self.memory.exchange(LOCK, 0, me) {
                break;
            }
            if !self.relieve(files)? {
                files.pause()
            }
        }
        let held = Held { ring: self, files };
        match self.failure() {
            Some(e) => Err(e),
            None => Ok(held),
        }
    }
    /// Makes good what a dead writer left (R7); whether there was one. To be called before a segment is read, too.
    pub fn relieve<F: Files>(&self, files: &F) -> Result<bool, Error> {
        let holder = self.memory.word(LOCK);
        // A process does not enter twice: its own number is that of a dead one whose number it was given.
        if holder == 0 || holder != files.myself() && !files.is_dead(holder) {
            return Ok(false);
        }
        // Two may come here: each does the whole of it before LOCK changes hands, and only one hands it over.
        files.sync_all().map_err(|e| self.fail(e))?;
        let head = self.memory.word(HEAD);
        if self.memory.word(LOCK) == holder && self.memory.exchange(LOCK, holder, files.myself()) {
            // What the dead one had begun to write in the slots from HEAD on must never count: their sequences are skipped.
            self.free(head + self.slots);
            self.memory.raise(HEAD, head + self.slots);
            self.memory.exchange(LOCK, files.myself(), 0);
        }
        Ok(true)
    }
    fn fail(&self, number: i32) -> Error {
        self.memory.raise(FAILED, number.max(1) as u64);
        Error::Sync(number)
    }
    /// Entries below `sequence` are in synced files (I4): durably said before anybody may see it and use the slots (I3).
    fn free(&self, sequence: u64) {
        let m = &self.memory;
        m.raise(FREED, sequence);
        m.flush(FREED);
        m.fence();
        m.raise(TAIL, sequence);
    }

    /// Syncs the segments of all entries there are, and frees these (R5). Any number of processes may do so at once.
    pub fn drain<F: Files>(&self, files: &F) -> Result<(), Error> {
        if let Some(e) = self.failure() {
            return Err(e);
        }
        let head = self.memory.word(HEAD);
        let mut synced: [Option<Segment>; 8] = [None; 8];
        let mut used = 0;
        let mut sequence = self.memory.word(TAIL);
        if sequence >= head {
            return Ok(());
        }
        while sequence < head {
            let entry = self.entry(sequence);
            // Freed by somebody else, and perhaps written anew while it was read.
            let tail = self.memory.word(TAIL);
            if tail > sequence {
                sequence = tail;
                continue;
            }
            if !synced.contains(&Some(entry.segment)) {
                if used == synced.len() || entry.sequence != sequence {
                    files.sync_all().map_err(|e| self.fail(e))?;
                    break;
                }
                files.sync(&entry.segment).map_err(|e| self.fail(e))?;
                synced[used] = Some(entry.segment);
                used += 1;
            }
            sequence += 1;
        }
        self.free(head);
        self.memory.count(DRAINS, 1);
        Ok(())
    }
    fn entry(&self, sequence: u64) -> Entry {
        let mut head = [0; 64];
        self.memory.read(self.place(sequence), &mut head);
        Entry::read(&head)
    }
    /// Whether a live entry belongs to the segment of this name.
    pub fn holds(&self, segment: &Segment) -> bool {
        let head = self.memory.word(HEAD);
        // An entry that is freed meanwhile may count: the caller then drains for nothing.
        (self.memory.word(TAIL)..head).any(|s| self.entry(s).segment.same_name(segment))
    }

    /// Gives all live entries in their order to `write`, then calls `sync`, which makes durable all that was written,
    /// and only then empties the ring (R8). Nobody else uses the ring. Doing it twice does no harm.
    pub fn recover(
        &self,
        mut write: impl FnMut(&Entry, &[u8]) -> Result<(), i32>,
        sync: impl FnOnce() -> Result<(), i32>,
    ) -> Result<Replay, Error> {
        let freed = self.memory.word(FREED);
        let mut slot = [0; SLOT];
        let mut done = Replay::default();
        let end = self.live_end(freed, &mut slot)?;
        for sequence in freed..end {
            if let Some((entry, data)) = self.whole(sequence, &mut slot) {
                write(&entry, data).map_err(Error::Replay)?;
                done.entries += 1;
                done.bytes += data.len() as u64;
            }
        }
        sync().map_err(Error::Replay)?;
        // No slot of this life can hold a sequence of the next one.
        self.begin(freed + 2 * self.slots);
        Ok(done)
    }
    fn whole<'a>(&self, sequence: u64, slot: &'a mut [u8; SLOT]) -> Option<(Entry, &'a [u8])> {
        self.memory.read(self.place(sequence), slot);
        Entry::whole(slot).filter(|(e, _)| e.sequence == sequence)
    }
    /// The first sequence from `freed` on that is not whole. Only the last write may be torn: an entry of a later write
    /// proves that everything before that write was fenced.
    fn live_end(&self, freed: u64, slot: &mut [u8; SLOT]) -> Result<u64, Error> {
        let mut end = freed;
        while end < freed + self.slots && self.whole(end, slot).is_some() {
            end += 1
        }
        for later in end + 1..freed + self.slots {
            if self.whole(later, slot).is_some_and(|(e, _)| e.first > end) {
                return Err(Error::Damaged(end));
            }
        }
        Ok(end)
    }
}

/// The right to write to the ring.
pub struct Held<'a, M: Memory, F: Files> {
    ring: &'a Ring<M>,
    files: &'a F,
}

impl<M: Memory, F: Files> Held<'_, M, F> {
    /// Makes `len` bytes durable that were just written at `offset` of the segment's file. When there is no room, syncs
    /// files to make some (R5). After an error nothing of it is durable.
    ///
    /// `fetch` copies the bytes from a place within the write on. They may be changing meanwhile (R4).
    pub fn append(
        &self,
        segment: Segment,
        offset: u64,
        len: usize,
        mut fetch: impl FnMut(usize, &mut [u8]),
    ) -> Result<(), Error> {
        let Ring { memory: m, slots } = self.ring;
        // A write that is longer than a part of the ring is several.
        let most = (slots / 4) as usize * DATA;
        // What is sealed is what is stored: a copy of our own. Zeros fill its last word.
        let mut copy = [0; DATA];
        let mut done = 0;
        while done < len {
            let part = most.min(len - done);
            let first = m.word(HEAD);
            let end = first + part.div_ceil(DATA) as u64;
            if end - m.word(TAIL) > *slots {
                m.count(FULL, 1);
                self.ring.drain(self.files)?;
            }
            for sequence in first..end {
                let n = DATA.min(len - done);
                let words = n.next_multiple_of(8);
                copy[n..words].fill(0);
                fetch(done, &mut copy[..n]);
                let offset = offset + done as u64;
                let entry = Entry { sequence, first, segment, offset, len: n as u32 };
                let place = self.ring.place(sequence);
                m.copy(place, &entry.seal(&copy[..n]));
                m.copy(place + SLOT - DATA, &copy[..words]);
                done += n;
            }
            // Here, not when a sync is asked for: another process may be the one that asks (R3).
            m.fence();
            m.set(HEAD, end);
            m.count(BYTES, part as u64);
        }
        Ok(())
    }
}

impl<M: Memory, F: Files> Drop for Held<'_, M, F> {
    fn drop(&mut self) {
        self.ring.memory.set(LOCK, 0)
    }
}
