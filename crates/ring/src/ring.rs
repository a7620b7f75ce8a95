//! The ring: who writes, when an entry is there, when its slot is free again. Rules by number:
//! `docs/pgwal.md`.
//!
//! ```text
//!       FREED <= TAIL <= sequences <= HEAD          slot of a sequence: sequence % slots
//!   synced, given up | live: in the ring, to be replayed | not there yet
//! ```
//! - **I1** Only the process that LOCK names writes slots and HEAD.
//! - **I2** Every entry below HEAD was fenced before HEAD passed it, and its bytes were in the kernel's file
//!   before the entry was written.
//! - **I3** No slot is written while its former entry is at or above the durable FREED.
//! - **I4** FREED passes an entry only after its part of its segment was synced.
//! - **I5** Only the process that DRAINING names syncs segments, and raises FREED and TAIL.
//! - **I6** Whoever syncs an entry's part asks by a descriptor that was opened before the entry's bytes were
//!   written.
//!
//! LOCK and DRAINING hold who a process is, which no later process is again. One that dies leaves it there:
//! whoever meets it makes good what it may have left half done (pgwal/R5, pgwal/R7).
use crate::entry::{DATA, Entry, SLOT, Segment, kept};
use crate::memory::Memory;
use core::ops::Range;

/// Bytes before the first slot; the first 1024 of them are the owner's.
pub const HEADER: usize = 4096;
/// The fewest slots of a ring.
pub const LEAST: u64 = 8;
// Each on a cache line of its own.
const LOCK: usize = 1024;
const HEAD: usize = 1088;
/// The one word that is read after a crash.
pub const FREED: usize = 1152;
const TAIL: usize = 1216;
const FAILED: usize = 1280;
const DRAINS: usize = 1344;
const FULL: usize = 1408;
const BYTES: usize = 1472;
const DRAINING: usize = 1536;
const SPARED: usize = 1600;
const DRAINED_AT: usize = 1664;
const DOUBT: usize = 1728;
/// Nanoseconds that it takes to free an entry, by the last few pieces.
const COST: usize = 1792;
/// The server's own processes are to free what is below this sequence.
const ASKED: usize = 1856;
/// Not 0: no entry is to come any more.
const RETIRED: usize = 1920;
/// The process that frees entries by descriptors of segments.
const DESTAGER: usize = 1984;

/// Entries that one sync of a drain frees at most.
const PIECE_ENTRIES: u64 = 4096;
/// Nanoseconds until a lock is looked at again.
const LOOK_AGAIN: u64 = 20_000;
/// No writer is held back longer for one write, nor waits longer for a destager to make room, in nanoseconds.
const LONGEST: u64 = 1_000_000_000;
/// The system's number for input and output that failed.
const ILL: i32 = 5;
/// No segment is larger.
const LARGEST: u64 = 1 << 30;

/// The files that the ring stands before, as the running process reaches them.
pub trait Files {
    /// Bytes of a segment that one sync of a drain covers at most: others wait for no more than that.
    const PIECE: u64 = 1 << 20;
    /// Syncs a part of a segment: all that any process has written there. `false`, and nothing is done, where
    /// no descriptor of the segment is at hand that was opened before the bytes of the entry `first`, its
    /// oldest live one, were written (I6). An error is the system's number for it.
    fn sync(&self, segment: &Segment, part: Range<u64>, first: u64) -> Result<bool, i32>;
    /// Syncs whatever segment there is; fails too if what was written of the entries from [`Files::since`] on
    /// could not be written, whoever was told of it, and where the file system takes no writes any more.
    fn sync_all(&self) -> Result<(), i32>;
    /// The first sequence whose bytes were written after the descriptor was opened by which
    /// [`Files::sync_all`] asks. A process of the server has it from before the first entry.
    fn since(&self) -> u64 {
        0
    }
    /// The calling process's number: not 0, and never another process's.
    fn myself(&self) -> u64;
    fn is_dead(&self, process: u64) -> bool;
    /// Lets others run for about so many nanoseconds.
    fn wait(&self, ns: u64);
    /// Nanoseconds since any fixed time.
    fn now(&self) -> u64;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// A segment could not be synced, now or before: nothing is durable any more until recovery (pgwal/R6).
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
    /// Syncs that were asked for and not done.
    pub spared: u64,
    /// When all entries were last freed, by [`Files::now`]; 0: never.
    pub drained_at: u64,
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
    /// Memory full of zeros becomes an empty ring. Sequences begin at the number of slots, so that no slot of
    /// zeros is an entry.
    pub fn format(&self) {
        self.begin(self.slots)
    }
    /// Nobody else uses the ring; entries below `sequence` are given up.
    fn begin(&self, sequence: u64) {
        let m = &self.memory;
        m.set(FREED, sequence);
        m.flush(FREED);
        m.fence();
        for (word, value) in [
            (TAIL, sequence),
            (HEAD, sequence),
            (LOCK, 0),
            (DRAINING, 0),
            (DOUBT, 0),
            (FAILED, 0),
            (ASKED, 0),
            (RETIRED, 0),
        ] {
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
            spared: m.word(SPARED),
            drained_at: m.word(DRAINED_AT),
            failed: m.word(FAILED) != 0,
        }
    }
    pub fn failure(&self) -> Option<Error> {
        match self.memory.word(FAILED) {
            0 => None,
            number => Some(Error::Sync(number as i32)),
        }
    }

    /// The only writer from here to the drop of what is returned (pgwal/R2). The caller writes to the
    /// kernel's file, then [appends](Held::append).
    pub fn enter<'a, F: Files>(&'a self, files: &'a F) -> Result<Held<'a, M, F>, Error> {
        while !self.memory.exchange(LOCK, 0, files.myself()) {
            if !self.relieve(files)? {
                files.wait(LOOK_AGAIN)
            }
        }
        let held = Held { ring: self, files };
        match self.failure() {
            Some(e) => Err(e),
            None => Ok(held),
        }
    }
    /// Makes good what a dead writer left (pgwal/R7); whether there was one. To be called before a segment is
    /// read, too.
    pub fn relieve<F: Files>(&self, files: &F) -> Result<bool, Error> {
        let holder = self.memory.word(LOCK);
        if holder == 0 || !files.is_dead(holder) {
            return Ok(false);
        }
        let _turn = self.turn(files)?;
        if self.memory.word(LOCK) != holder {
            return Ok(true); // Somebody else has done it.
        }
        self.sync_all(files)?;
        if self.memory.exchange(LOCK, holder, files.myself()) {
            // What the dead one had begun to write in the slots from HEAD on must never count: their
            // sequences are skipped.
            let next = self.memory.word(HEAD) + self.slots;
            self.free(next);
            self.memory.raise(HEAD, next);
            self.memory.set(LOCK, 0);
        }
        Ok(true)
    }
    fn fail(&self, number: i32) -> Error {
        self.memory.raise(FAILED, number.max(1) as u64);
        Error::Sync(number)
    }
    /// Entries below `sequence` are in synced files (I4): durably said before anybody may see it and use the
    /// slots (I3).
    fn free(&self, sequence: u64) {
        let m = &self.memory;
        m.raise(FREED, sequence);
        m.flush(FREED);
        m.fence();
        m.raise(TAIL, sequence);
    }
    /// A sequence whose bytes, and all later ones', are not written to their file before this call: a
    /// descriptor that is open already is older than they. `None` while somebody writes.
    pub fn stamp(&self) -> Option<u64> {
        // Whoever puts an entry at or above this head takes the lock after it was seen free, and writes to
        // the file after that.
        (self.memory.word(LOCK) == 0).then(|| self.memory.word(HEAD))
    }
    /// The caller frees entries, and less is to be synced for it than if a writer did (pgwal/R5); unless it
    /// came too late for them.
    pub fn destages<F: Files>(&self, files: &F) {
        if self.memory.word(TAIL) >= files.since() {
            self.memory.set(DESTAGER, files.myself())
        }
    }
    /// Has the server's processes free the entries below `sequence`, which the caller may not (I6).
    pub fn ask(&self, sequence: u64) {
        self.memory.raise(ASKED, sequence)
    }
    /// The ring's memory is about to be lost: from the next write on, everything goes past it.
    pub fn retire(&self) {
        self.memory.set(RETIRED, 1)
    }
    pub fn is_retired(&self) -> bool {
        self.memory.word(RETIRED) != 0
    }
    /// A sync was asked for that the ring covers.
    pub fn spare(&self) {
        self.memory.count(SPARED, 1)
    }

    /// Syncs everything, in one's turn (I5). Between the system's answer and what is said of it here, the
    /// word DOUBT stands.
    fn sync_all<F: Files>(&self, files: &F) -> Result<(), Error> {
        self.memory.set(DOUBT, 1);
        files.sync_all().map_err(|e| self.fail(e))?;
        self.memory.set(DOUBT, 0);
        Ok(())
    }
    /// Waits until nobody else drains (I5).
    fn turn<'a, F: Files>(&'a self, files: &'a F) -> Result<Turn<'a, M, F>, Error> {
        loop {
            match self.turn_now(files)? {
                Some(turn) => return Ok(turn),
                None => files.wait(LOOK_AGAIN),
            }
        }
    }
    /// `None` while somebody else drains, and for one who came later than a live entry: it would not be told
    /// of that one's error (I6).
    fn turn_now<'a, F: Files>(&'a self, files: &'a F) -> Result<Option<Turn<'a, M, F>>, Error> {
        if self.memory.word(TAIL) < files.since() {
            return Ok(None);
        }
        let holder = loop {
            let holder = self.memory.word(DRAINING);
            if holder != 0 && !files.is_dead(holder) {
                return Ok(None);
            }
            if self.memory.exchange(DRAINING, holder, files.myself()) {
                break holder;
            }
        };
        let turn = Turn { ring: self, files };
        if let Some(e) = self.failure() {
            return Err(e);
        }
        if holder != 0 {
            // It may have been told of an error, and died before it said so. The file system tells of it once
            // more, unless it was this that the dead one asked.
            if self.memory.word(DOUBT) != 0 {
                return Err(self.fail(ILL));
            }
            self.sync_all(files)?
        }
        Ok(Some(turn))
    }
    /// Holds back who has written `bytes`, and holds no lock, where more than half of the ring is live
    /// (pgwal/R5): the longer, the fuller it is; at three quarters for as long as it takes to free what was
    /// written, so that there, at the latest, no more comes than goes.
    pub fn pace<F: Files>(&self, files: &F, bytes: usize) {
        let m = &self.memory;
        if m.word(ASKED) > m.word(TAIL)
            && let Ok(Some(turn)) = self.turn_now(files)
        {
            // What was written is in the ring; whoever asks next is told of a failure.
            let _ = turn.piece();
        }
        let live = m.word(HEAD).saturating_sub(m.word(TAIL));
        let over = live.saturating_sub(self.slots / 2);
        if over != 0 {
            let due = (bytes.div_ceil(DATA) as u64).saturating_mul(m.word(COST));
            let due = u128::from(due) * u128::from(4 * over) / u128::from(self.slots);
            match LONGEST.min(u64::try_from(due).unwrap_or(LONGEST)) {
                0 => {}
                ns => files.wait(ns),
            }
        }
    }
    /// Syncs what the entries there are cover, and frees these (pgwal/R5), in pieces.
    pub fn drain<F: Files>(&self, files: &F) -> Result<(), Error> {
        let head = self.memory.word(HEAD);
        while self.memory.word(TAIL) < head {
            if !self.drain_some(files)? {
                files.wait(LOOK_AGAIN)
            }
        }
        self.failure().map_or(Ok(()), Err)
    }
    /// Frees some of the oldest entries; `false` where somebody else does, or the caller may not.
    pub fn drain_some<F: Files>(&self, files: &F) -> Result<bool, Error> {
        match self.turn_now(files)? {
            Some(turn) => turn.piece().map(|()| true),
            None => Ok(false),
        }
    }
    /// Does a sync of a segment that is asked for and not spared, `sync`, as nobody else drains: of two who
    /// sync at once, one is told of an error.
    pub fn sync<F: Files>(&self, files: &F, sync: impl FnOnce() -> Result<(), i32>) -> Result<(), Error> {
        let _turn = self.turn(files)?;
        sync().map_err(|e| self.fail(e))
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

    /// Whether a live entry belongs to the file of this inode, as [`Ring::holds`] by name.
    pub fn holds_of(&self, inode: u64) -> bool {
        let head = self.memory.word(HEAD);
        (self.memory.word(TAIL)..head).any(|s| self.entry(s).segment.inode == inode)
    }
    /// The segment that was written last; a guess where nothing was since the ring was emptied.
    pub fn newest(&self) -> Option<Segment> {
        let last = self.entry(self.memory.word(HEAD).checked_sub(1)?);
        (last.sequence + 1 == self.memory.word(HEAD)).then_some(last.segment)
    }

    /// Gives all live entries in their order to `write`, then calls `sync`, which makes durable all that was
    /// written, and only then empties the ring (pgwal/R8). Nobody else uses the ring. Doing it twice does no
    /// harm.
    pub fn recover(
        &self,
        write: impl FnMut(&Entry, &[u8]) -> Result<(), i32>,
        sync: impl FnOnce() -> Result<(), i32>,
    ) -> Result<Replay, Error> {
        let done = self.survey(write)?;
        sync().map_err(Error::Replay)?;
        self.give_up();
        Ok(done)
    }
    /// Gives all live entries in their order to `visit`. Nobody else uses the ring, which stays as it is.
    pub fn survey(&self, mut visit: impl FnMut(&Entry, &[u8]) -> Result<(), i32>) -> Result<Replay, Error> {
        let freed = self.memory.word(FREED);
        let mut slot = [0; SLOT];
        let mut done = Replay::default();
        let end = self.live_end(freed, &mut slot)?;
        for sequence in freed..end {
            if let Some((entry, data)) = self.whole(sequence, &mut slot) {
                visit(&entry, data).map_err(Error::Replay)?;
                done.entries += 1;
                done.bytes += data.len() as u64;
            }
        }
        Ok(done)
    }
    /// Empties the ring, whatever it holds. Nobody else uses it.
    pub fn give_up(&self) {
        // No slot of this life can hold a sequence of the next one. Where power failed that the memory is not
        // for, it may have kept slots of a later life than that of its FREED.
        let mut next = self.memory.word(FREED) + 2 * self.slots;
        let mut slot = [0; SLOT];
        for at in 0..self.slots {
            if self.entry(at).sequence >= next {
                self.memory.read(self.place(at), &mut slot);
                next = Entry::whole(&mut slot).map_or(next, |(e, _)| next.max(e.sequence.saturating_add(1)))
            }
        }
        self.begin(next)
    }
    fn whole<'a>(&self, sequence: u64, slot: &'a mut [u8; SLOT]) -> Option<(Entry, &'a [u8])> {
        self.memory.read(self.place(sequence), slot);
        Entry::whole(slot).filter(|(e, _)| e.sequence == sequence)
    }
    /// The first sequence from `freed` on that is not whole. Only the last write may be torn: an entry of a
    /// later write proves that everything before that write was fenced.
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
    /// Makes `len` bytes durable that were just written at `offset` of the segment's file. When there is no
    /// room, syncs files to make some (pgwal/R5). After an error nothing of it is durable.
    ///
    /// `fetch` copies the bytes from a place within the write on. They may be changing meanwhile (pgwal/R4).
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
        // What is sealed is what is stored: a copy of our own.
        let mut copy = [0; DATA];
        let mut done = 0;
        while done < len {
            let part = most.min(len - done);
            let first = m.word(HEAD);
            let end = first + part.div_ceil(DATA) as u64;
            let full = || -> Result<bool, Error> {
                // A tail past the head: whatever brought that about, nothing is durable that goes on from
                // there.
                let live = first.checked_sub(m.word(TAIL)).ok_or_else(|| self.ring.fail(ILL))?;
                Ok(live + (end - first) > *slots)
            };
            if full()? {
                m.count(FULL, 1);
                let destager = m.word(DESTAGER);
                let leave = destager != 0 && !self.files.is_dead(destager);
                let until = self.files.now().saturating_add(LONGEST);
                while full()? {
                    // Whoever drains makes room, too, and may have the next turn at once: the room is waited
                    // for, not the turn.
                    let turn = match leave && self.files.now() < until {
                        true => None,
                        false => self.ring.turn_now(self.files)?,
                    };
                    match turn {
                        Some(turn) => turn.piece()?,
                        None => self.files.wait(LOOK_AGAIN),
                    }
                }
            }
            for sequence in first..end {
                let n = DATA.min(len - done);
                fetch(done, &mut copy[..n]);
                let used = kept(&copy[..n]).len();
                let offset = offset + done as u64;
                let entry = Entry { sequence, first, segment, offset, len: n as u32 };
                let seal = entry.seal(&copy[..used]);
                // Whole lines: a part of one is read before it is written.
                let words = used.next_multiple_of(64);
                copy[used..words].fill(0);
                let place = self.ring.place(sequence);
                m.near(place, SLOT);
                m.copy(place, &seal);
                m.copy(place + SLOT - DATA, &copy[..words]);
                done += n;
            }
            // Here, not when a sync is asked for: another process may be the one that asks (pgwal/R3).
            m.fence();
            if !m.exchange(HEAD, first, end) {
                return Err(self.ring.fail(ILL));
            }
            m.count(BYTES, part as u64);
        }
        Ok(())
    }
}

impl<M: Memory, F: Files> Held<'_, M, F> {
    /// What was just written cannot go to the ring (pgwal/R6): drains it, and has `sync` make the write
    /// durable.
    pub fn past(&self, sync: impl FnOnce() -> Result<(), i32>) -> Result<(), Error> {
        self.ring.drain(self.files)?;
        self.ring.sync(self.files, sync)
    }
    /// Empties the ring over synced files, as recovery leaves it: no slot can hold the sequences from here on
    /// (pgwal/R8).
    pub fn empty(&self) -> Result<(), Error> {
        let Ring { memory: m, slots } = self.ring;
        let _turn = self.ring.turn(self.files)?;
        self.ring.sync_all(self.files)?;
        let next = m.word(HEAD) + 2 * slots;
        self.ring.free(next);
        m.raise(HEAD, next);
        Ok(())
    }
}

impl<M: Memory, F: Files> Drop for Held<'_, M, F> {
    fn drop(&mut self) {
        self.ring.memory.set(LOCK, 0)
    }
}

/// The right to drain.
struct Turn<'a, M: Memory, F: Files> {
    ring: &'a Ring<M>,
    files: &'a F,
}

impl<M: Memory, F: Files> Turn<'_, M, F> {
    /// Syncs and frees the oldest entries, as far as they belong to one segment and lie near to each other.
    fn piece(&self) -> Result<(), Error> {
        let Ring { memory: m, .. } = self.ring;
        let (first, head) = (m.word(TAIL), m.word(HEAD));
        let mut end = first;
        let mut part: Option<(Segment, Range<u64>)> = None;
        let mut ill = false;
        while end < head && end - first < PIECE_ENTRIES {
            let e = self.ring.entry(end);
            let to = e.offset.saturating_add(u64::from(e.len));
            // The entry is ours and live, so it is what was written; unless the memory is ill, when its place
            // means nothing.
            ill |= e.sequence != end || to > LARGEST;
            match &mut part {
                None => part = Some((e.segment, e.offset..to)),
                Some((segment, range)) => {
                    let joined = range.start.min(e.offset)..range.end.max(to);
                    if e.segment != *segment || joined.end - joined.start > F::PIECE {
                        break;
                    }
                    *range = joined
                }
            }
            end += 1;
        }
        let Some((segment, range)) = part else {
            return Ok(());
        };
        let began = self.files.now();
        if ill || !self.files.sync(&segment, range, first).map_err(|e| self.ring.fail(e))? {
            // Whatever was in the kernel's files when it began.
            self.ring.sync_all(self.files)?;
            end = head
        }
        self.ring.free(end);
        m.count(DRAINS, 1);
        let now = self.files.now();
        let cost = now.saturating_sub(began) / (end - first);
        m.set(COST, m.word(COST).midpoint(cost));
        if end == head {
            m.set(DRAINED_AT, now)
        }
        Ok(())
    }
}

impl<M: Memory, F: Files> Drop for Turn<'_, M, F> {
    fn drop(&mut self) {
        self.ring.memory.set(DRAINING, 0)
    }
}
