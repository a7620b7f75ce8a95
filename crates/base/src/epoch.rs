//! Epochs: memory that an optimistic reader may still look at is freed only after every reader that could
//! have found it has gone.
//!
//! - **E1** An operation pins before it reads a shared pointer and unpins after its last use. Pins last an
//!   operation, never a transaction.
//! - **E2** A thread that retired an object ends, some time after unlinking it, an epoch e by counting on to
//!   e + 1. The object is freed only when a scan that came later found every pinned participant's epoch above
//!   e. A reader that pinned e + 1 or later has acquired the count, and with it the unlinking.
//! - **E3** A [`Participant`] is used by one thread at a time; its words are written by that thread alone and
//!   read by all, so that pinning writes nothing shared.
//! - **E4** A pin passes the light side of a [`barrier`], a scan the heavy one before it looks. Scans that
//!   users' calls set off are [`Seldom`] due; in between, what is retired is measured by the last scan.
//! - **E5** Lines lie in blocks, one behind the other, so that whoever looks at ten thousand of them reads
//!   memory in its order. A block stays where it is until the last participant and the epochs have gone.
//! - **E6** A long pin leaves much to be freed at once. Callers that come often free [`MOST`] each time, and
//!   leave the rest to others: to those who come to free little of their own, and to a background thread.
//!
//! Concurrency: of a reader's pin and a collector's scan one comes first (barrier/B1). Either the scan sees
//! the pin, or the reader sees all that was unlinked before the scan. A collector that finds an epoch stored
//! later than the one it waits for has acquired everything that the reader did before. The argument in full:
//! protocol/V1.
//!
//! A crash leaves nothing: all of this is volatile.
//!
//! Source: Fraser, "Practical lock-freedom" (2004), for the scheme.
use crate::barrier::{self, Seldom};
use crate::sync::Mutex;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Words of a participant that the owner may publish for others (snapshots, tables in use).
pub const WORDS: usize = 14;

/// Two cache lines that one participant writes and others read.
#[repr(align(128))]
pub struct Line {
    /// 0 = not pinned.
    epoch: AtomicU64,
    /// The line's number while a participant has it, 0 = free to be taken by a new one.
    taken: AtomicU64,
    pub words: [AtomicU64; WORDS],
}

/// What waits to be freed, and the epoch that it was retired in: the last ones of a bag wait for theirs
/// ([`OPEN`]).
struct Retired(u64, What);

/// Later than any epoch.
const OPEN: u64 = u64::MAX;

enum What {
    Call(Box<dyn FnOnce() + Send>),
    /// The argument and the function that frees it: no memory of its own is needed for that.
    Raw(usize, unsafe fn(usize)),
}

impl Retired {
    fn free(self) {
        match self.1 {
            What::Call(f) => f(),
            // SAFETY: promised to `retire_raw`: the epoch has passed, and this is the one call.
            What::Raw(at, f) => unsafe { f(at) },
        }
    }
}

/// Lines of a block (E5).
const BLOCK: usize = 64;

pub struct Epochs {
    global: AtomicU64,
    /// What was retired before this epoch may be freed: the outcome of the last scan.
    passed: AtomicU64,
    seldom: Seldom,
    lines: crate::sync::RwLock<LineBlocks>,
    /// All lines before it are taken.
    free_from: AtomicUsize,
    /// Of participants that have gone.
    orphans: Mutex<Vec<Retired>>,
    /// What may be freed (E6). Its lock is taken after that of `orphans`.
    ready: Mutex<Vec<Retired>>,
    /// How many are in both, or taken out of them and not freed yet.
    left: AtomicUsize,
}

/// Those that were ever taken, in blocks (E5).
#[derive(Default)]
struct LineBlocks {
    blocks: Vec<Box<[Line; BLOCK]>>,
    count: usize,
}

impl LineBlocks {
    fn iter(&self) -> impl Iterator<Item = &Line> {
        self.blocks.iter().flat_map(|b| b.iter()).take(self.count)
    }
    fn get(&self, at: usize) -> &Line {
        &self.blocks[at / BLOCK][at % BLOCK]
    }
    /// The number of a line that was never taken.
    fn add(&mut self) -> usize {
        let at = self.count;
        if at == self.blocks.len() * BLOCK {
            self.blocks.push(Box::new(std::array::from_fn(|_| Line::new())))
        }
        self.count += 1;
        at
    }
}

impl Line {
    fn new() -> Line {
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        Line { epoch: AtomicU64::new(0), taken: AtomicU64::new(0), words }
    }
    /// Tells the line from all others of these epochs: numbered from 1, in the order in which they were made,
    /// so that a simulated world has the same numbers each time. 0 when nobody has it.
    #[inline]
    pub fn number(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Epochs {
    pub fn new() -> Arc<Epochs> {
        barrier::prepare();
        Arc::new(Epochs {
            global: AtomicU64::new(1),
            passed: AtomicU64::new(1),
            seldom: Seldom::default(),
            lines: Default::default(),
            free_from: AtomicUsize::new(0),
            orphans: Mutex::default(),
            ready: Mutex::default(),
            left: AtomicUsize::new(0),
        })
    }

    /// A participant whose published words all start as `idle`.
    pub fn join(self: &Arc<Self>, idle: u64) -> Participant {
        let mut lines = self.lines.write();
        // Who leaves meanwhile lowers it again.
        let from = self.free_from.swap(usize::MAX, Ordering::Relaxed);
        let free = (from..lines.count).find(|at| lines.get(*at).taken.load(Ordering::Relaxed) == 0);
        let at = free.unwrap_or_else(|| lines.add());
        self.free_from.fetch_min(at + 1, Ordering::Relaxed);
        let line = lines.get(at);
        for w in &line.words {
            w.store(idle, Ordering::Relaxed);
        }
        line.taken.store(at as u64 + 1, Ordering::Release);
        Participant {
            line: NonNull::from(line),
            epochs: self.clone(),
            depth: Cell::new(0),
            bag: Default::default(),
            due: Cell::new(BAG),
        }
    }

    /// Whether something is left that participants who have gone, or who free by shares, leave to others.
    pub fn has_left(&self) -> bool {
        self.left.load(Ordering::Acquire) > 0
    }

    /// Visits every line in use.
    pub fn for_each(&self, mut f: impl FnMut(&Line)) {
        for l in self.lines.read().iter() {
            if l.taken.load(Ordering::Acquire) != 0 {
                f(l)
            }
        }
    }

    /// Looks for the smallest epoch that is pinned, or the one at hand: what was retired before it may be
    /// freed.
    fn scan(&self) {
        let mut min = self.global.load(Ordering::Acquire);
        barrier::heavy();
        self.for_each(|l| {
            let e = l.epoch.load(Ordering::Acquire);
            if e != 0 && e < min {
                min = e
            }
        });
        // Release: for a thread that frees by it, everything that pinned readers did is over.
        self.passed.fetch_max(min, Ordering::AcqRel);
    }
}

impl Drop for Epochs {
    fn drop(&mut self) {
        for all in [&mut self.ready, &mut self.orphans] {
            std::mem::take(all.get_mut()).into_iter().for_each(Retired::free)
        }
    }
}

/// One user of the epochs: a session, or a background thread.
pub struct Participant {
    epochs: Arc<Epochs>,
    line: NonNull<Line>,
    depth: Cell<u32>,
    bag: std::cell::RefCell<Vec<Retired>>,
    /// How many are gathered before the next look at what may be freed.
    due: Cell<usize>,
}

/// How many retired things a participant gathers at least before it looks for what may be freed.
const BAG: usize = 64;
/// How many it frees at once at most, unless it is asked for all (E6).
const MOST: usize = 4096;

// SAFETY: the line is shared by all threads, and written by the one that uses the participant (E3).
unsafe impl Send for Participant {}

impl Participant {
    #[inline]
    pub fn line(&self) -> &Line {
        // SAFETY: it lies in a block of the epochs, which are kept as long as the participant is (E5).
        unsafe { self.line.as_ref() }
    }
    pub fn epochs(&self) -> &Arc<Epochs> {
        &self.epochs
    }
    /// Pins the current epoch. The first pin passes [`barrier::light`], also for whatever the owner stored
    /// in its words before. Nests.
    #[inline]
    pub fn pin(&self) -> Guard<'_> {
        let d = self.depth.get();
        if d == 0 {
            // Acquire: what was unlinked before it was counted to is not found (E2).
            let now = self.epochs.global.load(Ordering::Acquire);
            crate::sync::yield_point();
            // Release: whoever reads it knows that the accesses under earlier pins are over.
            self.line().epoch.store(now, Ordering::Release);
            barrier::light();
            crate::sync::yield_point();
        }
        self.depth.set(d + 1);
        Guard { of: self }
    }
    /// Whether a pin is held.
    pub fn is_pinned(&self) -> bool {
        self.depth.get() > 0
    }
    /// Frees what may be freed now.
    pub fn collect(&self) {
        self.end_epoch();
        self.epochs.scan();
        self.free_passed(usize::MAX)
    }
    /// The same for callers that come often: it looks only now and then at what is pinned, and frees no more
    /// than [`MOST`] (E6).
    pub fn collect_paced(&self) {
        self.end_epoch();
        self.epochs.seldom.run(|| self.epochs.scan());
        self.free_passed(MOST)
    }
    /// Gives the epoch at hand to what was retired since the last time, and ends it.
    fn end_epoch(&self) {
        let mut bag = self.bag.borrow_mut();
        let first = bag.partition_point(|r| r.0 < OPEN);
        if first < bag.len() {
            // Release: for readers that pin the next epoch.
            let e = self.epochs.global.fetch_add(1, Ordering::AcqRel);
            bag[first..].iter_mut().for_each(|r| r.0 = e)
        }
    }
    fn free_passed(&self, most: usize) {
        let passed = self.epochs.passed.load(Ordering::Acquire);
        // Taken out meanwhile: what is freed may retire more.
        let mut bag = self.bag.take();
        let ready = bag.partition_point(|r| r.0 < passed);
        let own = ready.min(most);
        if own < ready {
            let mut all = self.epochs.ready.lock();
            self.epochs.left.fetch_add(ready - own, Ordering::Relaxed);
            all.extend(bag.drain(own..ready))
        }
        bag.drain(..own).for_each(Retired::free);
        bag.append(&mut self.bag.borrow_mut());
        // What a long pin keeps is not looked at again and again.
        self.due.set((2 * bag.len()).max(BAG));
        self.bag.replace(bag);
        if own < most && self.epochs.has_left() {
            self.free_others(passed, most - own)
        }
    }
    #[cold]
    fn free_others(&self, passed: u64, most: usize) {
        // What may be long is looked through by those who free all.
        let orphans = self.epochs.orphans.try_lock();
        let mut orphans = orphans.filter(|o| most > MOST || o.len() <= MOST);
        let Some(mut ready) = self.epochs.ready.try_lock() else { return };
        if let Some(orphans) = &mut orphans {
            ready.extend(orphans.extract_if(.., |r| r.0 < passed))
        }
        let kept = ready.len().saturating_sub(most);
        let free = ready.split_off(kept);
        drop((ready, orphans));
        let count = free.len();
        free.into_iter().for_each(Retired::free);
        self.epochs.left.fetch_sub(count, Ordering::Release);
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        self.line().epoch.store(0, Ordering::Release);
        self.collect_paced();
        // What was freed may have retired more.
        self.end_epoch();
        let mut bag = self.bag.take();
        if !bag.is_empty() {
            let mut orphans = self.epochs.orphans.lock();
            self.epochs.left.fetch_add(bag.len(), Ordering::Relaxed);
            orphans.append(&mut bag)
        }
        let number = self.line().number();
        self.line().taken.store(0, Ordering::Release);
        self.epochs.free_from.fetch_min(number as usize - 1, Ordering::Relaxed);
    }
}

/// While it lives, nothing retired after it was made is freed.
pub struct Guard<'a> {
    of: &'a Participant,
}

impl Guard<'_> {
    /// Runs `f` (which frees something already unreachable for new readers) once no reader can look at it.
    pub fn retire(&self, f: impl FnOnce() + Send + 'static) {
        self.put([What::Call(Box::new(f))])
    }
    /// The same for what a plain function frees, given where it is.
    ///
    /// # Safety
    /// `free(at)` may be called once, by any thread, when nobody who is pinned now is pinned any more.
    pub unsafe fn retire_raw(&self, at: usize, free: unsafe fn(usize)) {
        self.put([What::Raw(at, free)])
    }
    /// The same for many.
    ///
    /// # Safety
    /// As there, for each of them.
    pub unsafe fn retire_all(&self, all: impl IntoIterator<Item = usize>, free: unsafe fn(usize)) {
        self.put(all.into_iter().map(|at| What::Raw(at, free)))
    }
    fn put(&self, what: impl IntoIterator<Item = What>) {
        let len = {
            let mut bag = self.of.bag.borrow_mut();
            bag.extend(what.into_iter().map(|w| Retired(OPEN, w)));
            bag.len()
        };
        if len >= self.of.due.get() {
            self.of.collect_paced()
        }
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        let d = self.of.depth.get() - 1;
        self.of.depth.set(d);
        if d == 0 {
            self.of.line().epoch.store(0, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Config, World};
    use crate::sync::{spin_wait, yield_point};
    use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize};

    const ALIVE: u64 = 0x11FE_11FE;
    const DEAD: u64 = 0xDEAD_DEAD;

    /// A cell whose content readers look at under a pin, while writers replace and retire it. Freed cells are
    /// marked and kept, so that a reader that meets one is caught without undefined behaviour.
    struct Arena {
        cells: Vec<AtomicU64>,
        free: Mutex<Vec<usize>>,
        current: AtomicUsize,
    }

    fn churn(epochs: &Arc<Epochs>, arena: &Arc<Arena>, stop: &AtomicBool, turns: usize, fenced: bool) -> u64 {
        let p = epochs.join(0);
        let mut replaced = 0;
        for _ in 0..turns {
            let fresh = arena.free.lock().pop();
            if let Some(fresh) = fresh {
                arena.cells[fresh].store(ALIVE, Ordering::Relaxed);
                let g = p.pin();
                let old = arena.current.swap(fresh, Ordering::AcqRel);
                let a = arena.clone();
                let free = move || {
                    a.cells[old].store(DEAD, Ordering::Relaxed);
                    a.free.lock().push(old);
                };
                if fenced {
                    g.retire(free)
                } else {
                    free()
                }
                drop(g);
                replaced += 1;
            } else {
                p.collect();
                spin_wait(20);
            }
            yield_point();
        }
        stop.store(true, Ordering::Relaxed);
        replaced
    }
    /// Looks, under a pin, until told to stop; how often it met the dead.
    fn look(epochs: &Arc<Epochs>, arena: &Arena, stop: &AtomicBool) -> u64 {
        let p = epochs.join(0);
        let mut met = 0;
        while !stop.load(Ordering::Relaxed) {
            let _g = p.pin();
            let at = arena.current.load(Ordering::Acquire);
            for _ in 0..3 {
                yield_point();
                met += (arena.cells[at].load(Ordering::Relaxed) != ALIVE) as u64;
            }
        }
        met
    }
    fn arena(cells: usize) -> Arc<Arena> {
        let arena = Arena {
            cells: (0..cells).map(|_| AtomicU64::new(DEAD)).collect(),
            free: Mutex::new((1..cells).collect()),
            current: AtomicUsize::new(0),
        };
        arena.cells[0].store(ALIVE, Ordering::Relaxed);
        Arc::new(arena)
    }
    /// One writer, three readers; how often a reader met the dead.
    fn game(turns: usize, fenced: bool) -> u64 {
        let (epochs, arena, stop) = (Epochs::new(), arena(200), Arc::new(AtomicBool::new(false)));
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let (e, a, s) = (epochs.clone(), arena.clone(), stop.clone());
                crate::thread::spawn("reader", move || look(&e, &a, &s)).unwrap()
            })
            .collect();
        let replaced = churn(&epochs, &arena, &stop, turns, fenced);
        assert!(replaced > 0);
        readers.into_iter().map(|r| r.join().unwrap()).sum()
    }

    #[test]
    fn nobody_meets_the_dead_on_real_threads() {
        assert_eq!(game(30_000, true), 0);
    }

    #[test]
    fn nobody_meets_the_dead_in_any_world_and_the_test_could_tell() {
        let (mut met, mut met_unprotected) = (0, 0);
        for seed in 0..60 {
            met += World::new(seed, Config::default()).run(|| game(300, true));
            met_unprotected += World::new(seed, Config::default()).run(|| game(300, false));
        }
        assert_eq!(met, 0);
        assert!(met_unprotected > 0, "freeing at once must be caught");
    }

    #[test]
    fn a_pin_holds_what_is_retired_after_it_and_nothing_older() {
        let epochs = Epochs::new();
        let (a, b) = (epochs.join(0), epochs.join(0));
        let freed = Arc::new(AtomicU64::new(0));
        let retire = |g: &Guard<'_>, bit: u64| {
            let f = freed.clone();
            g.retire(move || {
                f.fetch_or(bit, Ordering::Relaxed);
            });
        };
        retire(&b.pin(), 1);
        b.collect();
        assert_eq!(freed.load(Ordering::Relaxed), 1, "nobody is pinned");
        let before = a.pin();
        retire(&b.pin(), 2);
        b.collect(); // Ends the epoch, so that the pin below is newer.
        assert_eq!(freed.load(Ordering::Relaxed), 1, "pinned when it was retired");
        drop(before);
        let outer = a.pin();
        let inner = a.pin();
        retire(&b.pin(), 4);
        b.collect();
        assert_eq!(freed.load(Ordering::Relaxed), 3, "retired before the pin");
        drop(outer);
        b.collect();
        assert_eq!(freed.load(Ordering::Relaxed), 3, "pins nest");
        drop(inner);
        b.collect();
        assert_eq!(freed.load(Ordering::Relaxed), 7);
    }

    #[test]
    fn bags_of_those_who_leave_are_freed_and_their_lines_taken_again() {
        let epochs = Epochs::new();
        let freed = Arc::new(AtomicU64::new(0));
        let reader = epochs.join(9);
        let pin = reader.pin();
        let leaving = epochs.join(5);
        let line = std::ptr::from_ref(leaving.line()) as usize;
        leaving.line().words[3].store(77, Ordering::Relaxed);
        let f = freed.clone();
        leaving.pin().retire(move || {
            f.fetch_add(1, Ordering::Relaxed);
        });
        drop(leaving);
        assert_eq!(freed.load(Ordering::Relaxed), 0, "the reader is still there");
        let mut seen = 0;
        epochs.for_each(|_| seen += 1);
        assert_eq!(seen, 1);
        let next = epochs.join(6);
        assert_eq!(std::ptr::from_ref(next.line()) as usize, line);
        assert_eq!(next.line().words[3].load(Ordering::Relaxed), 6, "words start as idle");
        drop(pin);
        next.collect();
        assert_eq!(freed.load(Ordering::Relaxed), 1);
        let f = freed.clone();
        let other = reader.pin();
        next.pin().retire(move || {
            f.fetch_add(1, Ordering::Relaxed);
        });
        drop(next);
        assert_eq!(freed.load(Ordering::Relaxed), 1);
        drop(other);
        drop(reader);
        drop(epochs);
        assert_eq!(freed.load(Ordering::Relaxed), 2, "at the latest with the last of the epochs");
    }

    /// E6
    #[test]
    fn what_a_long_pin_has_kept_is_freed_by_shares() {
        let epochs = Epochs::new();
        let freed = Arc::new(AtomicU64::new(0));
        let [reader, often, other] = [0; 3].map(|_| epochs.join(0));
        let pin = reader.pin();
        for _ in 0..5 * MOST {
            let f = freed.clone();
            often.pin().retire(move || {
                f.fetch_add(1, Ordering::Relaxed);
            })
        }
        let share = |p: &Participant| {
            let before = freed.load(Ordering::Relaxed);
            // The pace is of the clock's: not every call looks for pins.
            epochs.scan();
            p.collect_paced();
            freed.load(Ordering::Relaxed) - before
        };
        assert_eq!(share(&often), 0, "the reader is there");
        drop(pin);
        assert_eq!([share(&often), share(&other), share(&often)], [MOST as u64; 3]);
        other.collect();
        assert_eq!(freed.load(Ordering::Relaxed), 5 * MOST as u64);
        assert!(!epochs.has_left())
    }

    /// With a plain pointer: under a sanitizer, or just by luck, a premature free shows.
    #[test]
    fn boxes_on_real_threads() {
        let epochs = Epochs::new();
        let shared = Arc::new(AtomicPtr::new(Box::into_raw(Box::new(ALIVE))));
        let threads: Vec<_> = (0..4)
            .map(|i| {
                let (epochs, shared) = (epochs.clone(), shared.clone());
                crate::thread::spawn("boxes", move || {
                    let p = epochs.join(0);
                    for n in 0..20_000 {
                        let g = p.pin();
                        if (n + i) % 4 == 0 {
                            let old = shared.swap(Box::into_raw(Box::new(ALIVE)), Ordering::AcqRel) as usize;
                            // SAFETY: unlinked above and freed once, after every reader's pin (E2).
                            g.retire(move || unsafe {
                                let old = old as *mut u64;
                                old.write(DEAD);
                                drop(Box::from_raw(old));
                            });
                        } else {
                            // SAFETY: found under a pin, so not freed before the pin ends (E1).
                            assert_eq!(unsafe { *shared.load(Ordering::Acquire) }, ALIVE);
                        }
                    }
                })
                .unwrap()
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        // SAFETY: the last one standing, and nobody looks any more.
        drop(unsafe { Box::from_raw(shared.load(Ordering::Acquire)) });
    }
}
