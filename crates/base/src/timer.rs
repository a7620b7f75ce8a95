//! One timer for the process: a thread that tells pieces of work to end when their time is up.
//!
//! ```text
//! an alarm's owner    sets its deadline -> looks whether the timer will look by then, and else enters it
//! the timer           takes an entry that is due away -> looks at the deadline -> enters it anew, or tells
//! ```
//! Arming and disarming touch the alarm's own two words. While work goes on, the timer looks at an alarm once
//! in the time that it allows, finds its deadline moved, and enters that. An alarm that nobody arms any more
//! is looked at once more, and no longer entered.
//!
//! - **T1** `entered` is the time at which the timer looks at the alarm, [`NEVER`] if it will not. It is
//!   written under the queue's latch, with the queue.
//! - **T2** An owner stores the deadline before it reads `entered`, and the timer stores `entered` before it
//!   reads the deadline, all in one order (SeqCst): one of them sees what the other stored.
//! - **T3** The timer reads the number of the piece of work before the deadline. A deadline that it sees with
//!   a number is that piece's or a later one's, as a piece's is gone before the next piece begins; a later
//!   piece is not told, since the number is not its own (cancel/C2).
//! - **T4** The thread starts with the first alarm that is armed, and ends when none is left. In a simulated
//!   world the timer is the world's, and its thread a fiber.
use crate::cancel::Cancel;
use crate::park::Parker;
use crate::sim::{self, mutated};
use crate::sync::{Mutex, yield_point};
use crate::{clock, thread};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// No deadline: nanoseconds of [`clock::now`] that never come.
const NEVER: u64 = u64::MAX;

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER - 1)
}

/// Ends the pieces of work of one [`Cancel`] when they take too long. Dropped, it has no deadline.
pub struct Alarm {
    timer: Arc<Timer>,
    alarm: Arc<Shared>,
    /// Its number in the queue, once it was armed.
    id: Option<u64>,
}

struct Shared {
    cancel: Arc<Cancel>,
    /// Told after the work was.
    parker: Arc<Parker>,
    deadline: AtomicU64,
    /// See T1.
    entered: AtomicU64,
}

#[derive(Default)]
pub(crate) struct Timer {
    queue: Mutex<Queue>,
    /// Where the timer's thread waits.
    parker: Parker,
}

#[derive(Default)]
struct Queue {
    /// By the time to look, and the alarm's number.
    entries: BTreeMap<(u64, u64), Arc<Shared>>,
    /// Alarms that were armed once.
    alarms: usize,
    last_id: u64,
    is_running: bool,
}

impl Timer {
    /// The timer of the caller's process or world.
    fn here() -> Arc<Timer> {
        static PROCESS: OnceLock<Arc<Timer>> = OnceLock::new();
        match sim::current() {
            Some(world) => world.timer().clone(),
            None => PROCESS.get_or_init(Arc::default).clone(),
        }
    }

    fn run(&self) {
        loop {
            let mut ended = vec![];
            let next = {
                let mut queue = self.queue.lock();
                if queue.alarms == 0 {
                    queue.is_running = false;
                    return;
                }
                let now = ns(clock::now());
                while let Some(first) = queue.entries.first_entry()
                    && first.key().0 <= now
                {
                    let ((_, id), alarm) = first.remove_entry();
                    match alarm.look(now) {
                        Look::Later(d) => {
                            alarm.entered.store(d, Ordering::SeqCst);
                            queue.entries.insert((d, id), alarm);
                        }
                        Look::Told => ended.push(alarm),
                        Look::Nothing => {}
                    }
                }
                queue.entries.keys().next().map(|(d, _)| Duration::from_nanos(*d))
            };
            if ended.is_empty() {
                self.parker.park(next);
            }
            ended.iter().for_each(|alarm| alarm.parker.unpark())
        }
    }
}

enum Look {
    /// The deadline is then.
    Later(u64),
    Told,
    Nothing,
}

impl Shared {
    /// The timer's: what its entry came to, which was taken out.
    fn look(&self, now: u64) -> Look {
        if !mutated("timer_looks_first") {
            self.entered.store(NEVER, Ordering::SeqCst);
        }
        loop {
            // T3.
            let mut number = self.cancel.number();
            yield_point();
            let deadline = self.deadline.load(Ordering::SeqCst);
            yield_point();
            if mutated("timer_looks_first") {
                (0..20).for_each(|_| yield_point());
                self.entered.store(NEVER, Ordering::SeqCst);
            }
            if mutated("timer_counts_late") {
                number = self.cancel.number()
            }
            if deadline == NEVER {
                return Look::Nothing;
            }
            if deadline > now {
                return Look::Later(deadline);
            }
            if self.cancel.time_is_up(number) {
                return Look::Told;
            }
            if self.cancel.number() == number {
                // Somebody told it before.
                return Look::Nothing;
            }
        }
    }
}

impl Alarm {
    /// For work that is told by `cancel`, and may wait at `parker`. Nothing starts before it is armed.
    pub fn new(cancel: Arc<Cancel>, parker: Arc<Parker>) -> Alarm {
        let (deadline, entered) = (AtomicU64::new(NEVER), AtomicU64::new(NEVER));
        Alarm {
            timer: Timer::here(),
            alarm: Arc::new(Shared { cancel, parker, deadline, entered }),
            id: None,
        }
    }

    /// The present piece of work is told to end, and its parker unparked, once it has taken `limit`: not
    /// earlier, and as soon as the timer's thread is scheduled. Replaces what was armed before.
    ///
    /// # Errors
    /// If the timer's thread cannot be started.
    pub fn arm(&mut self, limit: Duration) -> std::io::Result<()> {
        let deadline = ns(clock::now().saturating_add(limit)).min(NEVER - 1);
        self.alarm.deadline.store(deadline, Ordering::SeqCst);
        yield_point();
        if self.alarm.entered.load(Ordering::SeqCst) <= deadline { Ok(()) } else { self.enter(deadline) }
    }

    #[cold]
    fn enter(&mut self, deadline: u64) -> std::io::Result<()> {
        let timer = &self.timer;
        let is_first = {
            let mut queue = timer.queue.lock();
            if !queue.is_running {
                let theirs = timer.clone();
                thread::spawn("ondol-timer", move || theirs.run())?;
                queue.is_running = true
            }
            let id = match self.id {
                Some(id) => id,
                None => {
                    queue.alarms += 1;
                    queue.last_id += 1;
                    *self.id.insert(queue.last_id)
                }
            };
            // The timer may have been here meanwhile; or an entry is too late for what was armed now.
            let entered = self.alarm.entered.load(Ordering::SeqCst);
            if entered <= deadline {
                return Ok(());
            }
            queue.entries.remove(&(entered, id));
            self.alarm.entered.store(deadline, Ordering::SeqCst);
            queue.entries.insert((deadline, id), self.alarm.clone());
            queue.entries.keys().next() == Some(&(deadline, id))
        };
        if is_first && !mutated("timer_sleeps_on") {
            timer.parker.unpark()
        }
        Ok(())
    }

    /// The piece of work is over: call this before the next begins (T3).
    #[inline]
    pub fn disarm(&self) {
        self.alarm.deadline.store(NEVER, Ordering::Release)
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let is_last = {
            let mut queue = self.timer.queue.lock();
            queue.entries.remove(&(self.alarm.entered.load(Ordering::SeqCst), id));
            queue.alarms -= 1;
            queue.alarms == 0
        };
        if is_last {
            self.timer.parker.unpark()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random;
    use crate::sim::{Config, World};

    struct Worker {
        cancel: Arc<Cancel>,
        parker: Arc<Parker>,
        alarm: Alarm,
    }

    impl Worker {
        fn new() -> Worker {
            let (cancel, parker) = (Arc::new(Cancel::new()), Arc::new(Parker::new()));
            Worker { alarm: Alarm::new(cancel.clone(), parker.clone()), cancel, parker }
        }
        /// Waits to be told, for that long at most; gives how long it took.
        fn wait(&self, at_most: Duration) -> Option<Duration> {
            let began = clock::now();
            while !self.cancel.is_told() {
                if !self.parker.park(Some(began + at_most)) && !self.cancel.is_told() {
                    return None;
                }
            }
            Some(clock::now() - began)
        }
    }

    const MS: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn work_is_told_in_time() {
        let mut w = Worker::new();
        let mut lateness: Vec<Duration> = (1..=8)
            .map(|n| {
                let limit = n * 4 * MS;
                w.cancel.begin();
                let began = clock::now();
                w.alarm.arm(limit).expect("a timer");
                w.wait(LONG).expect("to be told");
                let took = clock::now() - began;
                assert!(w.cancel.is_told_by_timer());
                w.alarm.disarm();
                took.checked_sub(limit).unwrap_or_else(|| panic!("{took:?} of {limit:?}"))
            })
            .collect();
        lateness.sort();
        // A busy machine is late at times; most of the time none is.
        assert!(lateness[2] < 20 * MS, "{lateness:?}");
    }

    #[test]
    fn what_is_disarmed_is_not_told() {
        let mut w = Worker::new();
        w.cancel.begin();
        w.alarm.arm(10 * MS).expect("a timer");
        w.alarm.disarm();
        assert_eq!(w.wait(40 * MS), None);
        // The next piece has no limit, though the timer looks again.
        w.cancel.begin();
        assert_eq!(w.wait(20 * MS), None);
        // Later, then sooner than the timer meant to look.
        w.cancel.begin();
        w.alarm.arm(LONG).expect("a timer");
        w.alarm.disarm();
        w.cancel.begin();
        w.alarm.arm(5 * MS).expect("a timer");
        assert!(w.wait(LONG).expect("to be told") < LONG / 2);
        w.alarm.disarm();
        // Who tells it first is named.
        w.cancel.begin();
        w.alarm.arm(5 * MS).expect("a timer");
        w.cancel.tell();
        thread::sleep(20 * MS);
        assert!(!w.cancel.is_told_by_timer());
    }

    #[test]
    fn many_are_told_each_at_its_time() {
        let mut workers: Vec<Worker> = (0..500).map(|_| Worker::new()).collect();
        let mut limits = vec![];
        let mut in_time = vec![];
        for (n, w) in workers.iter_mut().enumerate() {
            w.cancel.begin();
            let limit = MS * (n as u32 * 7919 % 97);
            limits.push((clock::now(), limit));
            w.alarm.arm(limit).expect("a timer");
            if n % 5 == 0 {
                w.alarm.disarm();
                in_time.push((n, clock::now() < limits[n].0 + limit))
            }
        }
        for (n, (w, (began, limit))) in workers.iter().zip(&limits).enumerate() {
            if n % 5 != 0 {
                w.wait(LONG).expect("to be told");
                assert!(clock::now() >= *began + *limit, "{n}");
            }
        }
        in_time.retain(|(_, in_time)| *in_time);
        assert!(in_time.iter().all(|(n, _)| !workers[*n].cancel.is_told()));
    }

    fn below(n: u64) -> u64 {
        random::next_u64() % n
    }

    /// Pieces of work with and without limits, some of which last until they are told.
    fn pieces() -> Result<(), String> {
        const US: Duration = Duration::from_micros(1);
        /// Simulated, and enough for the timer to have its turn.
        const GRACE: Duration = Duration::from_millis(3);
        let mut w = Worker::new();
        for piece in 0..12 {
            w.cancel.begin();
            yield_point();
            let (began, limit) = (clock::now(), US * (1 + below(40) as u32));
            let (is_timed, is_long) = (below(4) != 0, below(3) == 0);
            if is_timed {
                w.alarm.arm(limit).map_err(|e| e.to_string())?
            }
            if is_timed && is_long {
                w.wait(GRACE).ok_or(format!("piece {piece}, of {limit:?}, was not told"))?;
            } else {
                (0..below(10)).for_each(|_| yield_point());
                thread::sleep(US * below(30) as u32)
            }
            let took = clock::now() - began;
            if w.cancel.is_told() && (!is_timed || took < limit) {
                return Err(format!("piece {piece} was told after {took:?}, {limit:?}, timed: {is_timed}"));
            }
            w.alarm.disarm();
            if below(2) == 0 {
                thread::sleep(US * below(40) as u32)
            }
        }
        Ok(())
    }

    fn scene(seed: u64, mutation: Option<&'static str>) -> Result<(), String> {
        let world = World::new(seed, Config { mutation, ..Config::default() });
        let done = world.try_run(|| {
            let workers: Vec<_> = (0..3).map(|_| thread::spawn("worker", pieces)).collect();
            for w in workers {
                w.map_err(|e| e.to_string())?.join().map_err(|_| "a panic".to_string())??
            }
            Ok(())
        });
        done.unwrap_or_else(|failure| Err(failure.to_string()))
    }

    #[test]
    fn each_piece_has_its_own_time() {
        for seed in 0..400 {
            scene(seed, None).unwrap_or_else(|e| panic!("seed {seed}: {e}"))
        }
    }

    #[test]
    fn wrong_timers_are_noticed() {
        for wrong in ["timer_looks_first", "timer_counts_late", "timer_sleeps_on"] {
            assert!((0..400).any(|seed| scene(seed, Some(wrong)).is_err()), "{wrong}")
        }
    }
}
