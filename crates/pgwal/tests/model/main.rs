//! The mark, the cluster's words in the ring, and recovery's refusals: their own code over folders, files and
//! memory that forget, with a server that starts with one of two rings or without any, and kills and power
//! failures at any operation.
//!
//! What must hold: a server that starts finds every page that was acknowledged or seen, that version or a
//! later one; and a ring is refused only where somebody took the mark away, where the other ring has it, or
//! where power failed that it was not made for. Each wrong variant (`Wrong`) breaks one rule of
//! `docs/pgwal.md`, and must be caught. The ring's own rules are in `crates/ring/tests/model.rs`.
mod machine;

use machine::{
    Bytes, Crash, DOUBT, LEN, Machine, Names, PAGE, PAGES, Random, Reached, Shared, Wrong, name, segment,
};
use ondol_ring::file::{Identity, Owner};
use ondol_ring::{Error, Memory, Ring, Segment};
use pgwal::mark::{KEPT, Marked, VERSION, leave, marked, put_away, ready, serve, serves, unmark};
use pgwal::recover::{Refusal, recover};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

/// A server that runs: with the library over a ring, or without.
struct Server {
    ring: Option<usize>,
    /// Its process has seen the mark.
    seen: AtomicBool,
}

/// The cluster's history.
struct Story {
    machine: Rc<Machine>,
    rings: [Ring<Shared>; 2],
    server: Option<Server>,
    /// The page to be written next, or again; and the first that is still needed.
    at: u64,
    redo: u64,
    told: BTreeMap<u64, u64>,
    version: u64,
    numbers: u64,
    /// Somebody took this ring's mark away.
    tampered: [bool; 2],
    /// Power failed since the ring was made or recovered.
    lost_power: [bool; 2],
    /// A destager: its ring, and from which sequence on it may free.
    destager: Option<(usize, u64)>,
    /// The ring's file was removed; and entries are live that were made before.
    removed: [bool; 2],
    at_risk: bool,
}

const IDS: [u32; 2] = [0xA, 0xB];
/// The destager's number; another one's when it was killed.
const DESTAGER: u64 = 1 << 40;

impl Story {
    fn new(seed: u64, wrong: Wrong) -> Story {
        let random = Random(Cell::new(seed));
        let bytes = || {
            let zeros = vec![0; LEN];
            let (now, durable) = (zeros.clone(), zeros);
            RefCell::new(Bytes { now, durable, pending: Vec::new(), dirty: BTreeSet::new() })
        };
        let power = wrong != Wrong::BootIgnored && !random.one_in(4);
        let machine = Rc::new(Machine {
            random,
            wrong,
            power,
            rings: [bytes(), bytes()],
            data: RefCell::new(Names::new()),
            wal: RefCell::new(Names::new()),
            files: RefCell::default(),
            process: Cell::new(10),
            first: Cell::new(0),
            boot: Cell::new(1),
            fuse: Cell::new(0),
            crash: Cell::new(Crash::All),
            gone: Cell::new(false),
            recovering: Cell::new(false),
        });
        let ring = |ring| {
            let shared = Shared { machine: machine.clone(), ring };
            Ring::new(shared, LEN).expect("long enough")
        };
        let rings = [ring(0), ring(1)];
        let mut story = Story {
            rings,
            server: None,
            at: 0,
            redo: 0,
            told: BTreeMap::new(),
            version: 0,
            numbers: 10,
            tampered: [false; 2],
            lost_power: [false; 2],
            destager: None,
            removed: [false; 2],
            at_risk: false,
            machine,
        };
        story.make_ring(0);
        story.make_ring(1);
        story.machine.data.borrow_mut().change(vec![(VERSION.to_bytes().to_vec(), Some(b"15\n".to_vec()))]);
        story.machine.data.borrow_mut().sync();
        story
    }
    fn reached(&self, lie: Option<u32>) -> Reached<'_> {
        Reached { machine: &self.machine, lie, since: 0 }
    }
    fn make_ring(&mut self, ring: usize) {
        self.machine.rings[ring].borrow_mut().now.fill(0);
        self.rings[ring].format();
        let Bytes { now, durable, pending, dirty } = &mut *self.machine.rings[ring].borrow_mut();
        durable.copy_from_slice(now);
        pending.clear();
        dirty.clear();
        (self.tampered[ring], self.lost_power[ring], self.removed[ring]) = (false, false, false);
        self.destager = self.destager.filter(|d| d.0 != ring)
    }
    /// A destager comes, or one that is there looks, whatever the server does: also where none runs, and
    /// nothing was recovered.
    fn destage(&mut self, ring: usize) -> Result<(), Error> {
        let (m, it) = (self.machine.clone(), &self.rings[ring]);
        let since = match self.destager {
            Some((of, since)) if of == ring => since,
            _ => {
                let Some(now) = it.stamp() else {
                    return Ok(());
                };
                it.ask(now);
                self.destager = Some((ring, now));
                now
            }
        };
        let since = if m.wrong == Wrong::DestagedUnrecovered { 0 } else { since };
        let reached = Reached { machine: &m, lie: None, since };
        let me = m.process.replace(DESTAGER);
        let free = || {
            while (m.wrong == Wrong::DestagedUnrecovered || serves(&reached, it.memory()))
                && it.drain_some(&reached)?
            {
                if it.status().live == 0 {
                    break;
                }
            }
            Ok(())
        };
        let done = free();
        m.process.set(me);
        done
    }
    /// Does something; what it was that came in between, if anything did.
    fn attempt<T>(&mut self, kinds: &[Crash], does: impl FnOnce(&mut Story) -> T) -> Result<T, Crash> {
        let m = self.machine.clone();
        m.fuse.set(if m.random.one_in(3) { 1 + m.random.below(90) } else { 0 });
        m.crash.set(kinds[m.random.below(kinds.len() as u64) as usize]);
        let done = catch_unwind(AssertUnwindSafe(|| does(self)));
        m.fuse.set(0);
        m.gone.set(false);
        m.recovering.set(false);
        done.map_err(|why| match why.downcast_ref::<Crash>() {
            Some(crash) => *crash,
            None => resume_unwind(why),
        })
    }
    fn recover_with(&mut self, ring: usize, rebooted: bool) -> Result<(), Refusal> {
        let m = self.machine.clone();
        let owner =
            Owner::new(IDS[ring], m.power, LEN as u64, 1, Identity::default(), Identity::default(), b"/data")
                .expect("an owner");
        let lie = match m.wrong {
            Wrong::UnmarkFirst => {
                if marked(&self.reached(None)) == Ok(Marked::By(IDS[ring])) {
                    unmark(&self.reached(None), Some(IDS[ring])).map_err(Refusal::Mark)?
                }
                Some(IDS[ring])
            }
            Wrong::OldReplayed => Some(IDS[ring]),
            Wrong::OtherTakesMark => match marked(&self.reached(None)) {
                Ok(Marked::By(_)) => Some(IDS[ring]),
                _ => None,
            },
            _ => None,
        };
        m.recovering.set(true);
        let done =
            recover(&self.rings[ring], &owner, &self.reached(lie), rebooted || m.wrong == Wrong::BootIgnored);
        m.recovering.set(false);
        match done {
            // Of a lie: the mark was gone already.
            Err(Refusal::Mark(_)) if lie.is_some() => Ok(()),
            done => done.map(drop),
        }
    }
    /// A refusal has its reason, or is an error. What somebody then does about it.
    fn refused(&mut self, ring: usize, why: Refusal) -> Result<(), String> {
        let weak = !self.machine.power && self.lost_power[ring];
        let mark = marked(&self.reached(None));
        match why {
            Refusal::OtherRing(by) if by != IDS[ring] && mark == Ok(Marked::By(by)) => Ok(()),
            Refusal::NotMarked { .. } if self.tampered[ring] => {
                if self.machine.random.one_in(2) {
                    self.make_ring(ring)
                }
                Ok(())
            }
            Refusal::OtherBoot { .. } if !self.machine.power && !weak => {
                // The system was shut down in order.
                self.recover_with(ring, true).map_err(|e| format!("though nothing was lost: {e}"))
            }
            // Somebody took the mark away, and then power failed.
            Refusal::Ring(Error::Damaged(_), _) if weak && self.tampered[ring] => {
                self.make_ring(ring);
                Ok(())
            }
            Refusal::OtherBoot { .. } if weak => {
                if mark == Ok(Marked::By(IDS[ring])) {
                    unmark(&self.reached(None), None).map_err(|e| format!("given up: {e}"))?;
                    self.told.clear()
                }
                self.make_ring(ring);
                Ok(())
            }
            why => Err(format!("ring {ring}: {why}")),
        }
    }
    /// Brings a ring home, by the command or by the library in a server that starts; whether the ring may
    /// serve.
    fn bring_home(&mut self, ring: usize) -> Result<bool, String> {
        match self.attempt(&[Crash::All, Crash::Power], |s| s.recover_with(ring, false)) {
            Ok(Ok(())) => {
                (self.tampered[ring], self.lost_power[ring]) = (false, false);
                Ok(true)
            }
            Ok(Err(why)) => self.refused(ring, why).map(|()| false),
            Err(crash) => {
                self.crashed(crash);
                Ok(false)
            }
        }
    }
    fn crashed(&mut self, crash: Crash) {
        let m = self.machine.clone();
        m.process.set(self.number());
        let ring = self.server.as_ref().and_then(|s| s.ring).filter(|_| crash != Crash::One);
        match crash {
            Crash::One => {}
            Crash::All => self.end(),
            Crash::Power => {
                self.end();
                self.destager = None;
                if std::mem::take(&mut self.at_risk) {
                    self.told.clear() // It was removed a moment before.
                }
                m.lose_power();
                self.lost_power = [true; 2];
                if m.power && m.random.one_in(3) {
                    self.lose_segment()
                }
            }
        }
        if let Some(ring) = ring.filter(|r| self.removed[*r]) {
            self.forget(ring)
        }
    }
    /// A number that no process had.
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
    fn end(&mut self) {
        self.server = None;
        self.machine.first.set(0)
    }
    /// The ring's memory is gone with the last process that had it; somebody gives it up, and makes another.
    fn forget(&mut self, ring: usize) {
        if marked(&self.reached(None)) == Ok(Marked::By(IDS[ring])) {
            // What a crash leaves of a mark is made good as that of a ring that is there.
            self.machine.data.borrow_mut().sync();
            unmark(&self.reached(None), None).expect("given up")
        }
        self.make_ring(ring)
    }
    /// The newest segment is gone, if the ring has all of it.
    fn lose_segment(&mut self) {
        let part = (self.at / PAGES) as u32;
        let (m, Some(inode)) = (self.machine.clone(), self.machine.inode(part)) else {
            return;
        };
        let Ok(Marked::By(id)) = marked(&self.reached(None)) else {
            return;
        };
        let (mut end, mut gap, mut pages) = (0, false, BTreeMap::new());
        let ring = IDS.iter().position(|i| *i == id).expect("a ring");
        let surveyed = self.rings[ring].survey(|e, data| {
            if e.segment == segment(part, inode) {
                gap |= e.offset > end;
                end = end.max(e.offset + data.len() as u64);
                pages.insert(
                    u64::from(part) * PAGES + e.offset / PAGE,
                    u64::from_le_bytes(data.try_into().expect("a page")),
                );
            }
            Ok(())
        });
        let first = u64::from(part) * PAGES;
        let all = self.told.range(first..).all(|(page, value)| pages.get(page).is_some_and(|v| v >= value));
        if surveyed.is_ok() && !gap && end != 0 && all {
            let mut wal = m.wal.borrow_mut();
            wal.change(vec![(name(part), None)]);
            wal.sync()
        }
    }
    /// Everything told is there; what is there is seen from now on.
    fn check(&mut self) -> Result<(), String> {
        // As PostgreSQL does when it starts after a crash. The data directory's own names it need not have
        // synced.
        self.machine.sync_wal();
        let mut found = BTreeMap::new();
        for (text, inode) in &self.machine.wal.borrow().now {
            if let Some(s) = Segment::named(text, *inode) {
                for (i, (cached, _)) in self.machine.files.borrow()[inode].iter().enumerate() {
                    found.insert(u64::from(s.part) * PAGES + i as u64, *cached);
                }
            }
        }
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
    fn start(&mut self, with: Option<usize>) -> Result<(), String> {
        let serves = match with {
            Some(ring) => self.bring_home(ring)?,
            None => false,
        };
        // The server compares this first.
        match marked(&self.reached(None)) {
            Ok(Marked::By(_)) => return Ok(()),
            Ok(Marked::No) => {}
            Err(e) => return Err(format!("PG_VERSION: {e}")),
        }
        let first = self.number();
        self.machine.process.set(first);
        self.machine.first.set(first);
        if let Some(ring) = with.filter(|_| serves) {
            serve(&self.reached(None), self.rings[ring].memory())
        }
        let other = self.number();
        self.machine.process.set(other);
        self.check()?;
        self.at_risk = false; // Everything is synced.
        self.server = Some(Server { ring: with.filter(|_| serves), seen: AtomicBool::new(false) });
        Ok(())
    }
    /// The segment of the next page is there.
    fn segment(&mut self) -> Segment {
        let part = (self.at / PAGES) as u32;
        let m = &self.machine;
        let inode = m.inode(part).unwrap_or_else(|| {
            let inode = m.new_file();
            let mut wal = m.wal.borrow_mut();
            wal.change(vec![(name(part), Some(inode))]);
            // Whoever made it syncs the folder; not before others write to it.
            if m.random.one_in(2) {
                wal.sync()
            }
            inode
        });
        segment(part, inode)
    }
    fn write(&mut self) -> Result<(), Error> {
        let segment = self.segment();
        let m = self.machine.clone();
        let page = self.at % PAGES;
        let pages = 1 + m.random.below(PAGES - page);
        self.version += 1;
        let values: Vec<u64> = (0..pages).map(|i| self.version << 16 | (self.at + i)).collect();
        let put = || {
            for (i, v) in values.iter().enumerate() {
                m.step();
                let mut files = m.files.borrow_mut();
                files.get_mut(&segment.inode).expect("a file")[page as usize + i].0 = *v
            }
        };
        let server = self.server.as_ref().expect("a server");
        match server.ring {
            None => {
                put();
                m.step();
                m.sync_pages(segment.inode);
                m.wal.borrow_mut().sync() // Whoever made the segment did it before it told.
            }
            Some(ring) => {
                let (id, ring) = (IDS[ring], &self.rings[ring]);
                let folders = self.reached(None);
                let held = ring.enter(&folders)?;
                let is_ready =
                    || ready(&folders, id, ring.memory(), &server.seen, &segment, PAGES * PAGE).is_ok();
                let late = m.wrong == Wrong::MarkAfterEntry;
                let covered = !ring.is_retired() && (late || is_ready());
                put();
                if covered {
                    for (i, v) in values.iter().enumerate() {
                        held.append(segment, (page + i as u64) * PAGE, PAGE as usize, |_, to| {
                            to.copy_from_slice(&v.to_le_bytes())
                        })?
                    }
                    if late {
                        is_ready();
                    }
                } else {
                    held.past(|| {
                        m.sync_wal();
                        Ok(())
                    })?
                }
            }
        }
        if let Some(ring) = server.ring {
            self.rings[ring].pace(&self.reached(None), PAGE as usize);
            self.at_risk &= !self.removed[ring]
        }
        self.told.extend(values.iter().map(|v| (v & 0xFFFF, *v)));
        self.at += pages - m.random.below(2);
        Ok(())
    }
    /// Segments before the current one are not needed; the oldest goes.
    fn remove(&mut self) -> Result<(), Error> {
        self.redo = self.at / PAGES * PAGES;
        self.told.retain(|page, _| *page >= self.redo);
        let m = self.machine.clone();
        let oldest = m.wal.borrow().now.iter().find_map(|(text, inode)| Segment::named(text, *inode));
        let Some(old) = oldest.filter(|s| u64::from(s.part) * PAGES < self.redo) else {
            return Ok(());
        };
        if let Some(ring) = self.server.as_ref().and_then(|s| s.ring)
            && self.rings[ring].holds(&old)
        {
            self.rings[ring].drain(&self.reached(None))?
        }
        m.step();
        m.wal.borrow_mut().change(vec![(name(old.part), None)]);
        Ok(())
    }
    /// Stops in order: the first process takes the mark away, and perhaps `run` recovers behind it. Others
    /// may be left for a while.
    fn stops(&mut self, ring: Option<usize>) -> Result<(), String> {
        let Some(ring) = ring else {
            self.end();
            return Ok(());
        };
        let m = self.machine.clone();
        m.process.set(m.first.get());
        let left = self.attempt(&[Crash::All, Crash::Power], |s| {
            let (it, reached) = (&s.rings[ring], s.reached(None));
            if m.wrong == Wrong::LeftNotEmpty {
                return put_away(&reached, IDS[ring], it.memory()).map_err(Error::Replay);
            }
            leave(&reached, IDS[ring], it)
        });
        match left {
            Err(crash) => {
                self.crashed(crash);
                return Ok(());
            }
            Ok(Err(Error::Sync(_))) if self.rings[ring].memory().word(DOUBT) != 0 => {}
            Ok(Err(e)) => return Err(format!("as it ended: {e:?}")),
            Ok(Ok(())) => self.at_risk = false,
        }
        m.process.set(self.number());
        if m.random.one_in(3)
            && let Ok(Err(e)) = self.attempt(&[Crash::All], Story::write)
            && self.rings[ring].failure().is_none()
        {
            return Err(format!("one that was left: {e:?}"));
        }
        self.end();
        m.process.set(self.number());
        if self.removed[ring] {
            self.forget(ring)
        } else if m.random.one_in(2) {
            self.bring_home(ring)?;
        }
        Ok(())
    }
    fn runs(&mut self) -> Result<(), String> {
        let m = self.machine.clone();
        let ring = self.server.as_ref().and_then(|s| s.ring);
        let what = m.random.below(13);
        if what == 0 {
            return self.stops(ring);
        }
        if let (12, Some(ring), true) = (what, ring, m.random.one_in(6)) {
            self.rings[ring].retire();
            self.removed[ring] = true;
            self.at_risk = self.rings[ring].status().live != 0;
            return Ok(());
        }
        let kinds = [Crash::One, Crash::All, Crash::Power];
        let done = self.attempt(&kinds, |s| match (what, ring) {
            (1, _) => s.remove(),
            (2, Some(ring)) => s.rings[ring].drain(&s.reached(None)),
            (3 | 4, Some(ring)) => s.destage(ring),
            _ => s.write(),
        });
        let done = match done {
            Ok(done) => done,
            Err(crash) => {
                self.crashed(crash);
                let Some(server) = &mut self.server else {
                    return Ok(());
                };
                // The server starts another process, and reads its log anew.
                server.seen = AtomicBool::new(false);
                match ring.map_or(Ok(false), |r| self.rings[r].relieve(&self.reached(None))) {
                    Ok(_) => return self.check(),
                    Err(e) => Err(e),
                }
            }
        };
        match (done, ring) {
            (Ok(()), _) => Ok(()),
            // Who died was asking the file system for its errors (pgwal/R5): the server stops.
            (Err(Error::Sync(_)), Some(ring)) if self.rings[ring].memory().word(DOUBT) != 0 => {
                self.crashed(Crash::All);
                Ok(())
            }
            (Err(e), _) => Err(format!("{e:?}")),
        }
    }
    fn rests(&mut self) -> Result<(), String> {
        let m = self.machine.clone();
        let ring = m.random.below(2) as usize;
        match m.random.below(18) {
            16.. => match self.attempt(&[Crash::Power], |s| s.destage(ring)) {
                Ok(Ok(())) => Ok(()),
                Ok(Err(Error::Sync(_))) => Ok(()), // It fails again when it is recovered, if it must.
                Ok(Err(e)) => Err(format!("destage: {e:?}")),
                Err(crash) => {
                    self.crashed(crash);
                    Ok(())
                }
            },
            0..6 => self.start(Some(ring)),
            6..9 => self.start(None),
            9..12 => self.bring_home(ring).map(drop),
            12 => {
                self.crashed(Crash::Power);
                Ok(())
            }
            13 => {
                m.reboot();
                Ok(())
            }
            14 if m.random.one_in(2) => {
                // By hand, against all advice: what was acknowledged is given up.
                if let Ok(Marked::By(id)) = marked(&self.reached(None)) {
                    self.tampered[IDS.iter().position(|i| *i == id).expect("a ring")] = true;
                    let mut data = m.data.borrow_mut();
                    let kept = data.now.get(KEPT.to_bytes()).cloned().ok_or("no version is kept")?;
                    data.change(vec![(VERSION.to_bytes().to_vec(), Some(kept))]);
                    data.sync();
                    self.told.clear()
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
    fn live(&mut self, events: u64) -> Result<(), String> {
        for _ in 0..events {
            if self.server.is_some() { self.runs()? } else { self.rests()? }
        }
        // At the end the ring that has the mark comes home, and a server starts without any.
        if let Some(server) = self.server.take() {
            let crash = if self.machine.power || server.ring.is_none() { Crash::Power } else { Crash::All };
            self.server = Some(server);
            self.crashed(crash)
        }
        for _ in 0..200 {
            if let Ok(Marked::By(id)) = marked(&self.reached(None)) {
                self.bring_home(IDS.iter().position(|i| *i == id).expect("a ring"))?;
            }
        }
        self.start(None)?;
        if self.server.is_some() { Ok(()) } else { Err("no server starts any more".into()) }
    }
}

fn quiet() {
    std::panic::set_hook(Box::new(|info| {
        if !info.payload().is::<Crash>() {
            eprintln!("{info}")
        }
    }));
}

#[test]
fn nobody_starts_over_what_a_ring_holds() {
    quiet();
    for seed in 0..4_000 {
        if let Err(why) = Story::new(seed, Wrong::Nothing).live(60) {
            panic!("seed {seed}: {why}")
        }
    }
}

#[test]
fn each_wrong_variant_is_caught() {
    quiet();
    for wrong in [
        Wrong::MarkAfterEntry,
        Wrong::MarkNotDurable,
        Wrong::WordStays,
        Wrong::UnmarkFirst,
        Wrong::OldReplayed,
        Wrong::OtherTakesMark,
        Wrong::EmptiedNotDurable,
        Wrong::HomeNotSynced,
        Wrong::NameNotDurable,
        Wrong::MadeForgotten,
        Wrong::BootIgnored,
        Wrong::NotSettled,
        Wrong::DestagedUnrecovered,
        Wrong::LeftNotEmpty,
        Wrong::MarkTakenForThere,
        Wrong::RemovedTrusted,
    ] {
        let caught = (0..8_000).find_map(|seed| {
            let story = catch_unwind(AssertUnwindSafe(|| Story::new(seed, wrong).live(60)));
            story.ok()?.err().map(|why| (seed, why))
        });
        let (seed, why) = caught.unwrap_or_else(|| panic!("{wrong:?} was not caught"));
        println!("{wrong:?}: seed {seed}: {why}");
    }
}
