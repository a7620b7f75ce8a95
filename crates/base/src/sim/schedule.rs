//! The scheduler: which fiber runs next, and what the others wait for.
//!
//! - **F1** Every fiber is runnable, parked, ready or done. `runnable` and `parked` list the first two, each
//!   once.
//! - **F2** A fiber parks on an address, until a deadline, or both. It may be woken without a reason: whoever
//!   parks looks again at what it waits for.
//! - **F3** Simulated time moves with every step and, when nobody can run before it, to the earliest
//!   deadline. Fibers that only spin do not hold it back.
//! - **F4** A fiber that unwinds is not preempted, only parked. (Unwinding is a state of the OS thread, so
//!   the others would seem to unwind too while it waits.)
//! - **F5** A fiber is a thread of its own, or one of several of a worker, which has one thread for them. One
//!   of these has the thread: from when it begins or is told until it ends or gives way, which only
//!   [`crate::park::Parker::park`] does; whatever else it waits for, the others wait, too. They are ready
//!   meanwhile, listed with the worker; which is next is drawn.
//! - **F6** Where fibers can run, but only spin, time passes for them as for others: who spins once to look
//!   again must not find that seconds have gone by, in which those that are ready have lost their patience.
//!   Only after a thousand turns do they count as waiting, and time goes to the next deadline.
//!
//! The choice of the next fiber is uniform among the runnable ones; how often a mere yield point lets others
//! run is drawn once for each world, so that worlds differ between long undisturbed runs and dense
//! interleaving.
use super::random::Random;
use std::panic::Location;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Runnable,
    Parked {
        addr: usize,
        deadline: u64,
    },
    /// It could go on, but another has their worker's thread (F5).
    Ready,
    Done,
}

#[derive(Default)]
struct Worker {
    /// The fiber that has the thread.
    has: Option<usize>,
    ready: Vec<usize>,
}

pub(super) struct Fiber {
    pub name: String,
    pub state: State,
    pub worker: Option<usize>,
    /// What it waits for, or where it last gave way; for reports.
    pub doing: (&'static str, Option<&'static Location<'static>>),
    pub phases: Vec<&'static str>,
    spinning: bool,
    unwinding: bool,
    timed_out: bool,
}

/// How a fiber gives way.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pause {
    /// Others may run.
    Yield,
    /// Others must run if there are any.
    Spin,
    /// Not to be run before it is woken at the address or the deadline comes (`u64::MAX`: never).
    Park {
        addr: usize,
        deadline: u64,
        /// Others of its worker may run meanwhile (F5).
        gives_way: bool,
    },
}

/// Turns of spinning fibers alone before time goes to the next deadline (F6).
const PATIENT_SPINS: u32 = 1000;

pub(super) enum Turn {
    /// The fiber goes on.
    Stay,
    /// This one runs next.
    Switch(usize),
    /// Nobody can run.
    Stuck,
    /// The limit of steps is reached.
    Limit,
}

pub(super) struct Scheduler {
    r: Random,
    preempt: f64,
    pub fibers: Vec<Fiber>,
    runnable: Vec<usize>,
    parked: Vec<usize>,
    workers: Vec<Worker>,
    earliest: u64,
    /// Choices in a row for which there were spinning fibers only (F6).
    spins: u32,
    pub now_ns: u64,
    step_ns: u64,
    pub steps: u64,
    pub limit: u64,
    unwinders: u32,
    pub hash: u64,
}

pub(super) fn fold(hash: u64, value: u64) -> u64 {
    super::random::mix(hash.rotate_left(23) ^ value)
}

impl Scheduler {
    pub fn new(mut r: Random, preempt: Option<f64>, step_ns: u64, limit: u64) -> Scheduler {
        let drawn = *r.pick(&[1.0, 0.5, 0.15, 0.03]).unwrap_or(&0.5);
        Scheduler {
            preempt: preempt.unwrap_or(drawn),
            r,
            fibers: vec![],
            runnable: vec![],
            parked: vec![],
            workers: vec![],
            earliest: u64::MAX,
            spins: 0,
            now_ns: 1_000_000,
            step_ns,
            steps: 0,
            limit,
            unwinders: 0,
            hash: 0,
        }
    }
    pub fn add_worker(&mut self) -> usize {
        self.workers.push(Worker::default());
        self.workers.len() - 1
    }
    pub fn add(&mut self, name: &str, worker: Option<usize>) -> usize {
        let id = self.fibers.len();
        self.fibers.push(Fiber {
            name: name.to_string(),
            state: State::Ready,
            worker,
            doing: ("start", None),
            phases: vec![],
            spinning: false,
            unwinding: false,
            timed_out: false,
        });
        self.can_run(id);
        id
    }
    /// The fiber waits for nothing any more, but perhaps for its worker's thread.
    fn can_run(&mut self, id: usize) {
        let worker = self.fibers[id].worker.map(|w| &mut self.workers[w]);
        if let Some(w) = worker
            && *w.has.get_or_insert(id) != id
        {
            self.fibers[id].state = State::Ready;
            return w.ready.push(id);
        }
        self.fibers[id].state = State::Runnable;
        self.runnable.push(id)
    }
    /// The fiber leaves its worker's thread to another.
    fn give_way(&mut self, id: usize) {
        let Some(w) = self.fibers[id].worker else { return };
        self.workers[w].has = None;
        let n = self.workers[w].ready.len();
        if n > 0 {
            let next = self.r.below(n as u64) as usize;
            let next = self.workers[w].ready.swap_remove(next);
            self.can_run(next)
        }
    }
    pub fn all_done(&self) -> bool {
        self.runnable.is_empty() && self.parked.is_empty()
    }
    pub fn done(&mut self, id: usize) {
        self.runnable.retain(|f| *f != id);
        let f = &mut self.fibers[id];
        f.state = State::Done;
        f.phases.clear();
        if std::mem::take(&mut f.unwinding) {
            self.unwinders -= 1
        }
        self.give_way(id)
    }
    /// A spurious wake-up is due (F2).
    pub fn chance(&mut self, p: f64) -> bool {
        self.r.chance(p)
    }
    pub fn timed_out(&self, id: usize) -> bool {
        self.fibers[id].timed_out
    }

    pub fn pause(
        &mut self,
        me: usize,
        how: Pause,
        what: &'static str,
        at: &'static Location<'static>,
    ) -> Turn {
        let panicking = std::thread::panicking();
        if !panicking && self.unwinders > 0 {
            self.unwinders = 0;
            self.fibers.iter_mut().for_each(|f| f.unwinding = false);
        }
        let unwinding = self.fibers[me].unwinding || (panicking && self.unwinders == 0);
        if unwinding {
            if matches!(how, Pause::Yield) {
                return Turn::Stay;
            }
            if !std::mem::replace(&mut self.fibers[me].unwinding, true) {
                self.unwinders += 1
            }
        }
        self.steps += 1;
        self.now_ns += self.step_ns;
        self.hash = fold(self.hash, me as u64);
        let fiber = &mut self.fibers[me];
        fiber.doing = (what, Some(at));
        if self.steps > self.limit {
            return Turn::Limit;
        }
        let mut others_only = false;
        match how {
            Pause::Yield => {
                fiber.spinning = false;
                if !self.r.chance(self.preempt) {
                    return Turn::Stay;
                }
            }
            Pause::Spin => {
                fiber.spinning = true;
                others_only = true;
            }
            Pause::Park { addr, deadline, gives_way } => {
                fiber.spinning = false;
                fiber.timed_out = false;
                fiber.state = State::Parked { addr, deadline };
                self.earliest = self.earliest.min(deadline);
                self.runnable.retain(|f| *f != me);
                self.parked.push(me);
                if gives_way {
                    self.give_way(me)
                }
            }
        }
        match self.next(others_only.then_some(me)) {
            Some(f) if f == me => Turn::Stay,
            Some(f) => Turn::Switch(f),
            None => Turn::Stuck,
        }
    }

    /// The fiber to run, `but` only when there is no other.
    pub fn next(&mut self, but: Option<usize>) -> Option<usize> {
        if self.now_ns >= self.earliest {
            self.expire()
        }
        let all_spin = self.runnable.iter().all(|f| self.fibers[*f].spinning);
        self.spins = if all_spin && !self.runnable.is_empty() { self.spins + 1 } else { 0 };
        if self.earliest != u64::MAX && (1..PATIENT_SPINS).contains(&self.spins) {
            // F6
            self.now_ns = self.earliest.min(self.now_ns + 100 * self.step_ns);
            if self.now_ns >= self.earliest {
                self.expire()
            }
        } else if self.earliest != u64::MAX && all_spin {
            // `earliest` may be of a waiter that was woken before its time: then nobody expires, and the next
            // is tried.
            loop {
                self.now_ns = self.now_ns.max(self.earliest);
                self.expire();
                if !self.runnable.is_empty() || self.earliest == u64::MAX {
                    break;
                }
            }
        } else if self.runnable.len() == 1 && but.is_some() {
            // It alone is left and waits for time to pass.
            self.now_ns += 100 * self.step_ns
        }
        let n = self.runnable.len();
        let but = but.and_then(|b| self.runnable.iter().position(|f| *f == b)).filter(|_| n > 1);
        let i = match but {
            None if n == 0 => return None,
            None => self.r.below(n as u64) as usize,
            // Any but that one: the last stands in for it.
            Some(b) => match self.r.below(n as u64 - 1) as usize {
                i if i == b => n - 1,
                i => i,
            },
        };
        let id = self.runnable[i];
        self.hash = fold(self.hash, id as u64 | 1 << 32);
        Some(id)
    }
    fn wake(&mut self, i: usize, timed_out: bool) {
        let id = self.parked.remove(i);
        let f = &mut self.fibers[id];
        f.timed_out = timed_out;
        self.can_run(id)
    }
    fn expire(&mut self) {
        self.earliest = u64::MAX;
        let mut i = 0;
        while i < self.parked.len() {
            match self.fibers[self.parked[i]].state {
                State::Parked { deadline, .. } if deadline <= self.now_ns => self.wake(i, true),
                State::Parked { deadline, .. } => {
                    self.earliest = self.earliest.min(deadline);
                    i += 1;
                }
                _ => i += 1,
            }
        }
    }
    fn waits_at(&self, id: usize, at: usize) -> bool {
        matches!(self.fibers[id].state, State::Parked { addr, .. } if addr == at)
    }
    pub fn unpark_all(&mut self, addr: usize) {
        let mut i = 0;
        while i < self.parked.len() {
            if self.waits_at(self.parked[i], addr) { self.wake(i, false) } else { i += 1 }
        }
    }
    pub fn unpark_one(&mut self, addr: usize) {
        let there: Vec<usize> =
            (0..self.parked.len()).filter(|i| self.waits_at(self.parked[*i], addr)).collect();
        if let Some(i) = self.r.pick(&there) {
            self.wake(*i, false)
        }
    }
    /// Wakes whoever waits for a latch: someone outside this world may hold it.
    pub fn wake_lockers(&mut self) -> bool {
        let mut any = false;
        for i in (0..self.parked.len()).rev() {
            if self.fibers[self.parked[i]].doing.0.ends_with(super::LATCHED) {
                self.wake(i, false);
                any = true;
            }
        }
        any
    }
    /// One line for each fiber that is left.
    pub fn report(&self) -> String {
        let mut lines = String::new();
        for (id, f) in self.fibers.iter().enumerate() {
            let state = match f.state {
                State::Done => continue,
                State::Runnable => "can run, last at",
                State::Ready => "waits for its worker's thread, last at",
                State::Parked { deadline: u64::MAX, .. } => "waits for",
                State::Parked { .. } => "waits, with a deadline, for",
            };
            lines += &format!("\n  fiber {id} \"{}\" {state} {}", f.name, f.doing.0);
            if let Some(at) = f.doing.1 {
                lines += &format!(" at {at}")
            }
            if !f.phases.is_empty() {
                lines += &format!(" in {}", f.phases.join(" > "))
            }
        }
        lines
    }
}
