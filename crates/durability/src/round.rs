//! Rounds (protocol/P3): who leads, who waits, and what becomes durable.
//!
//! - **R1** One round at a time. Its leader is a waiting committer, on its own thread; with one stream
//!   nothing is handed to another thread. But fibers that wait leave it to the flusher: the round would keep
//!   their worker's other fibers from running, and these a fiber that was told to lead.
//! - **R2** Waiters stand in two groups: those whose commit is in the round under way, and those whose commit
//!   will be in the next. When a round ends, one of the second group is told, to lead, and the first as a
//!   whole, since all of it is done; the rest sleeps on. Who was told stands in no group any more. If one
//!   leads before it, it stands in the group of that round, or finds itself done: then that round's end has
//!   told the others of its group. If fibers alone stand in the second group, the flusher is called. Who
//!   stands in a group of a round that nobody leads has called it itself.
//! - **R3** A round is durable when every participant's block is synced, and, since rounds do not overlap,
//!   every earlier round is. Only then does `durable` move, to `closed - 1`.
//! - **R4** A failure ends all rounds (protocol/P7): `failure` is set once, and nothing is sealed after it.
//! - **R5** A held commit waits for nobody, and nobody need wait for it: the flusher leads a round for it
//!   within the flush interval. Who watches a commit has the flusher called at once, unless a round is under
//!   way; then its end looks whether something is still watched, and has the next one led. Everyone who
//!   watches is told once: that the commit is durable, that the log failed, or that it was closed.
use crate::CommitTs;
use crate::block::{ALIGN, Participants, block_len};
use crate::error::LogError;
use crate::log::{Inner, limit};
use crate::stream::Job;
use ondol_base::fiber::is_fiber;
use ondol_base::park::{self, Parker};
use ondol_base::sim::mutated;
use ondol_base::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

#[derive(Default)]
struct State {
    leading: bool,
    /// Counts rounds led in this life, for the two groups (R2).
    turn: u64,
    /// What closed the round under way; 0 until that is known.
    closed: CommitTs,
    round: u64,
    /// Who sleeps in each group.
    asleep: [Vec<Arc<Sleeper>>; 2],
    /// Who is to be told of a commit (R5).
    watched: Vec<(CommitTs, Tell)>,
}

/// Is told what became of a commit, by the thread that led its round: to be short, and not to wait.
pub type Tell = Box<dyn FnOnce(Result<(), LogError>) + Send>;

#[derive(Default)]
struct Sleeper {
    parker: Parker,
    /// It stands in no group; changed under the mutex only.
    told: AtomicBool,
    /// It may be told to lead (R1).
    leads: bool,
}

/// What the background flusher does.
mod flusher {
    /// Works, or will look again by itself very soon.
    pub const AWAKE: u8 = 0;
    /// Waits for commits to pause; a round need not wake it, an asynchronous commit must.
    pub const DOZING: u8 = 1;
    /// Waits for anything.
    pub const ASLEEP: u8 = 2;
}

pub(crate) struct Rounds {
    state: Mutex<State>,
    completed: AtomicU64,
    /// The last durable round is not yet recorded as durable by a later block.
    unmarked: AtomicBool,
    flusher: Mutex<Flusher>,
    alarm: Condvar,
    rest: AtomicU8,
}
#[derive(Default)]
struct Flusher {
    ring: bool,
    /// To lead a round at once, for fibers.
    lead: bool,
    stop: bool,
}

impl Rounds {
    pub fn new(completed: u64) -> Rounds {
        Rounds {
            state: Mutex::default(),
            completed: AtomicU64::new(completed),
            unmarked: AtomicBool::new(false),
            flusher: Mutex::default(),
            alarm: Condvar::new(),
            rest: AtomicU8::new(flusher::AWAKE),
        }
    }
    pub fn completed(&self) -> u64 {
        self.completed.load(Ordering::Acquire)
    }
    /// Wakes the background flusher for an asynchronous commit.
    pub fn kick(&self) {
        self.wake(flusher::DOZING)
    }
    /// Wakes the flusher when it rests as deeply as that, or deeper.
    fn wake(&self, depth: u8) {
        if self.rest.load(Ordering::SeqCst) >= depth {
            self.flusher.lock().ring = true;
            self.alarm.notify_one();
        }
    }
    /// Lets the flusher lead a round (R1).
    fn call_leader(&self) {
        if !mutated("leader_uncalled") && !std::mem::replace(&mut self.flusher.lock().lead, true) {
            self.alarm.notify_one();
        }
    }
    pub fn stop(&self) {
        self.flusher.lock().stop = true;
        self.alarm.notify_one();
    }
}

impl Inner {
    pub fn wait_durable(&self, c: CommitTs) -> Result<(), LogError> {
        // Asked also where there is nothing to wait for, so that a guard shows wherever it is held (park/P4).
        assert!(park::guards_held() == 0, "a commit is waited for while guards are held");
        if self.durable.load(Ordering::Acquire) >= c {
            return Ok(());
        }
        let c = c.min(self.clock.load(Ordering::Acquire) - 1);
        self.wait(|| self.durable.load(Ordering::Acquire) >= c, |s| c < s.closed, false)
    }

    /// Tells what becomes of a commit (R5), at once where that is known.
    pub fn watch(&self, c: CommitTs, tell: Tell) {
        let mut s = self.rounds.state.lock();
        let c = c.min(self.clock.load(Ordering::Acquire) - 1);
        if let Some(fate) = self.fate(c) {
            drop(s);
            return tell(fate);
        }
        if self.rounds.flusher.lock().stop {
            drop(s);
            return tell(Err(LogError::Closed));
        }
        s.watched.push((c, tell));
        let nobody_leads = !s.leading;
        drop(s);
        if nobody_leads {
            self.rounds.call_leader()
        }
    }

    /// What became of a commit, if that is known.
    pub fn fate(&self, c: CommitTs) -> Option<Result<(), LogError>> {
        match self.durable.load(Ordering::Acquire) >= c {
            true => Some(Ok(())),
            false => self.failure.get().map(|e| Err(e.clone())),
        }
    }

    /// Those who watch a commit whose fate is known.
    fn take_told(&self, s: &mut State) -> Vec<(CommitTs, Tell)> {
        match s.watched.is_empty() || mutated("watchers_untold") {
            true => vec![],
            false => s.watched.extract_if(.., |(c, _)| self.fate(*c).is_some()).collect(),
        }
    }

    /// Who holds guards, of a heap or a checkpoint, keeps its thread.
    pub fn wait_round(&self, round: u64, keeps_thread: bool) -> Result<(), LogError> {
        self.wait(|| self.rounds.completed() >= round, |s| round <= s.round, keeps_thread)
    }

    pub fn flush(&self) -> Result<(), LogError> {
        let round = {
            let open = self.latch.lock();
            let filled = open.streams.iter().any(|s| s.used > 0);
            if filled { open.next_round } else { open.next_round - 1 }
        };
        self.wait_round(round, true)
    }

    /// Leads rounds, or waits for those of others, until `done`.
    fn wait(
        &self,
        done: impl Fn() -> bool,
        under_way: impl Fn(&State) -> bool,
        keeps_thread: bool,
    ) -> Result<(), LogError> {
        let leads = keeps_thread || !is_fiber();
        let mut own: Option<Arc<Sleeper>> = None;
        let mut s = self.rounds.state.lock();
        loop {
            if let Some(own) = own.as_ref().filter(|o| !o.told.load(Ordering::Relaxed)) {
                // Woken without a reason.
                s.asleep.iter_mut().for_each(|group| group.retain(|o| !Arc::ptr_eq(o, own)))
            }
            if done() {
                return Ok(());
            }
            if let Some(e) = self.failure.get() {
                return Err(e.clone());
            }
            if s.leading || !(leads || self.rounds.flusher.lock().stop) {
                let in_it = s.leading && (s.closed == 0 || under_way(&s));
                let group = if in_it { s.turn } else { s.turn + 1 };
                let own = own.get_or_insert_with(|| Arc::new(Sleeper { leads, ..Sleeper::default() }));
                own.told.store(false, Ordering::Relaxed);
                s.asleep[(group % 2) as usize].push(own.clone());
                let nobody_leads = !s.leading;
                drop(s);
                if nobody_leads {
                    self.rounds.call_leader()
                }
                own.parker.wait(keeps_thread);
                s = self.rounds.state.lock();
                continue;
            }
            s.leading = true;
            s.turn += 1;
            s.closed = 0;
            drop(s);
            self.lead(false);
            self.end_turn();
            s = self.rounds.state.lock();
        }
    }

    fn end_turn(&self) {
        let (next, now, call, told) = {
            let mut s = self.rounds.state.lock();
            s.leading = false;
            let now = (s.turn % 2) as usize;
            let next: Vec<_> = match self.failure.get() {
                Some(_) => std::mem::take(&mut s.asleep[1 - now]),
                None => {
                    let group = &mut s.asleep[1 - now];
                    let at = group.iter().rposition(|s| s.leads);
                    at.map(|at| group.swap_remove(at)).into_iter().collect()
                }
            };
            let told = self.take_told(&mut s);
            let call = next.is_empty() && !(s.asleep[1 - now].is_empty() && s.watched.is_empty());
            let now = std::mem::take(&mut s.asleep[now]);
            next.iter().chain(&now).for_each(|s| s.told.store(true, Ordering::Relaxed));
            (next, now, call, told)
        };
        if call {
            self.rounds.call_leader()
        }
        // The next leader first.
        next.iter().chain(&now).for_each(|s| s.parker.unpark());
        self.tell(told)
    }

    fn tell(&self, watchers: Vec<(CommitTs, Tell)>) {
        watchers.into_iter().for_each(|(c, tell)| tell(self.fate(c).unwrap_or(Err(LogError::Closed))))
    }

    pub fn write(&self, job: &Job) -> Result<(), LogError> {
        let k = job.stream as usize;
        self.writers[k].lock().write(job, &self.buffers[k][job.buffer], self.database, self.incarnation)
    }

    /// One round. `horizon` makes one even when there is nothing to write, to record what is durable.
    fn lead(&self, horizon: bool) {
        if self.failure.get().is_some() {
            return; // R4
        }
        let _phase = ondol_base::sim::phase("flush");
        let mut jobs = self.jobs.lock();
        jobs.clear();
        let durable_round = self.rounds.completed();
        let mut participants = Participants::default();
        let mut want = 0u32;
        let (round, mut closed, empty);
        {
            let mut open = self.latch.lock();
            closed = self.clock.load(Ordering::Relaxed);
            round = open.next_round;
            let filled = open.streams.iter().filter(|s| s.used > 0).count();
            empty = filled == 0;
            if empty && !(horizon && open.streams[0].left >= ALIGN as u64) {
                if horizon {
                    // No room for an empty block: the next full one records the horizon.
                    self.rounds.unmarked.store(false, Ordering::SeqCst);
                }
                return;
            }
            for (k, s) in open.streams.iter_mut().enumerate() {
                if s.used == 0 && !(empty && k == 0) {
                    continue;
                }
                if s.used == 0 {
                    s.base = closed;
                }
                let len = block_len(filled.max(1), s.used * 8) as u64;
                let rotate = len > s.left;
                if rotate {
                    // `limit` let the buffer grow only so far as one of the two files holds it.
                    s.left = s.next - len;
                    s.size = s.next;
                    s.next = 0;
                } else {
                    s.left -= len;
                }
                // Early enough that a full buffer finds room, late enough that a small database needs one
                // file.
                if s.next == 0 && s.left < (s.size / 4 * 3).min(2 * self.buffer_bytes() as u64 + s.size / 8) {
                    want |= 1 << k;
                }
                participants.push(k as u16, s.position);
                jobs.push(Job {
                    stream: k as u16,
                    buffer: s.buffer,
                    used: s.used,
                    base: s.base,
                    position: s.position,
                    rotate,
                    round,
                    closed,
                    durable_round,
                    participants,
                });
                s.position += 1;
                s.buffer ^= 1; // free, since rounds do not overlap (stream/S2)
                s.used = 0;
                s.limit = limit(s.left, s.next, self.buffer_bytes());
            }
            open.next_round += 1;
            open.history.push_back((round, closed));
        }
        if mutated("latch_absent") {
            ondol_base::sync::yield_point();
            closed = self.clock.load(Ordering::Relaxed);
            jobs.iter_mut().for_each(|j| j.closed = closed);
        }
        {
            let mut s = self.rounds.state.lock();
            s.closed = closed;
            s.round = round;
        }
        for job in jobs.iter_mut() {
            job.participants = participants;
            self.buffers[job.stream as usize][job.buffer].wait(job.used);
        }
        ondol_base::sync::yield_point();
        if mutated("acknowledge_before_sync") {
            self.durable.fetch_max(closed - 1, Ordering::Release);
        }
        for job in &jobs[1..] {
            self.helpers[job.stream as usize].start(*job);
        }
        let mut result = self.write(&jobs[0]);
        if result.is_ok() && mutated("acknowledge_own_block") {
            self.durable.fetch_max(closed - 1, Ordering::Release);
        }
        for job in &jobs[1..] {
            let other = self.helpers[job.stream as usize].finish();
            result = result.and(other);
        }
        match result {
            Ok(()) => {
                for job in jobs.iter() {
                    self.buffers[job.stream as usize][job.buffer].recycle();
                }
                self.rounds.completed.store(round, Ordering::Release);
                self.durable.fetch_max(closed - 1, Ordering::Release);
                self.rounds.unmarked.store(!empty, Ordering::SeqCst);
            }
            Err(e) => {
                let _ = self.failure.set(e); // the first one stays
                self.prepare.lock().tell();
            }
        }
        drop(jobs);
        for k in 0..self.buffers.len() {
            if want & 1 << k != 0 {
                self.want_file(k);
            }
        }
        self.rounds.wake(flusher::ASLEEP);
    }

    /// The background thread: rounds for asynchronous commits, and the horizon when commits pause.
    pub fn flush_in_background(&self) {
        let r = &self.rounds;
        let awaited = || self.asynchronous.load(Ordering::SeqCst).max(self.held.load(Ordering::SeqCst));
        let pending = || awaited() > self.durable.load(Ordering::SeqCst);
        let mut f = r.flusher.lock();
        loop {
            if f.stop || self.failure.get().is_some() {
                drop(f);
                // Whoever called meanwhile. Who comes later finds the failure (R4), or the flusher stopped.
                return self.end_all();
            }
            f.ring = false;
            if std::mem::take(&mut f.lead) {
                drop(f);
                self.lead_unless_led(false);
                f = r.flusher.lock();
                continue;
            }
            if pending() {
                r.rest.store(flusher::AWAKE, Ordering::SeqCst);
                f = r.alarm.wait_timeout(f, self.config.flush_interval).0;
                if f.stop {
                    return;
                }
                drop(f);
                // A failure is kept in `failure` for whoever waits.
                let _ = self.flush();
                f = r.flusher.lock();
                continue;
            }
            // What is to be done is looked at again after `rest` says how to be woken.
            r.rest.store(flusher::ASLEEP, Ordering::SeqCst);
            if !pending() && !r.unmarked.load(Ordering::SeqCst) {
                f = r.alarm.wait(f);
                continue;
            }
            r.rest.store(flusher::DOZING, Ordering::SeqCst);
            if pending() {
                continue;
            }
            let before = r.completed();
            f = r.alarm.wait_timeout(f, self.config.horizon_interval).0;
            let quiet = !f.stop && !f.ring && r.completed() == before;
            if quiet && !pending() && r.unmarked.load(Ordering::SeqCst) {
                drop(f);
                // One empty block that records the last round as durable; a round under way will.
                self.lead_unless_led(true);
                f = r.flusher.lock();
            }
        }
    }

    fn lead_unless_led(&self, horizon: bool) {
        let mut s = self.rounds.state.lock();
        if s.leading {
            return;
        }
        s.leading = true;
        s.turn += 1;
        s.closed = 0;
        drop(s);
        self.lead(horizon);
        self.end_turn();
    }

    /// Tells all who sleep, for nobody leads any more.
    pub fn end_all(&self) {
        let mut s = self.rounds.state.lock();
        let all: Vec<_> = s.asleep.iter_mut().flat_map(std::mem::take).collect();
        all.iter().for_each(|s| s.told.store(true, Ordering::Relaxed));
        let watched = std::mem::take(&mut s.watched);
        drop(s);
        all.iter().for_each(|s| s.parker.unpark());
        self.tell(watched)
    }
}
