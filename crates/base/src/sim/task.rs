//! A task: a fiber of the world that another fiber resumes, and that gives way to that one alone. It is what
//! a coroutine is outside of worlds.
//!
//! - **K1** One of the two has the turn; the other is parked until it gets it. So together they are a thread.
//! - **K2** A task that is dropped before it has ended is unwound where it gave way.
use super::{fiber, park, unpark_all};
use corosensei::CoroutineResult;
use std::any::Any;
use std::panic::Location;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Who has the turn (K1).
const RESUMER: u8 = 0;
const TASK: u8 = 1;
/// The task has ended.
const NOBODY: u8 = 2;
/// The task is to unwind (K2).
const UNWIND: u8 = 3;

type Panic = Box<dyn Any + Send>;

/// What the two share. Its address is where the task waits, that of `given` where its resumer does.
pub(crate) struct Turns {
    turn: AtomicU8,
    given: Mutex<Given>,
}

#[derive(Default)]
struct Given {
    /// Until when it gave way.
    deadline: Option<Duration>,
    /// What it ended with.
    panic: Option<Panic>,
}

pub(crate) struct Task(Arc<Turns>);

/// What unwinds a task that is dropped.
struct Dropped;

impl Turns {
    fn task_waits_at(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
    fn resumer_waits_at(&self) -> usize {
        std::ptr::from_ref(&self.given).addr()
    }
    fn given(&self) -> std::sync::MutexGuard<'_, Given> {
        self.given.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn hand_to(&self, whom: u8) {
        self.turn.store(whom, Ordering::Relaxed);
        let at = if matches!(whom, TASK | UNWIND) { self.task_waits_at() } else { self.resumer_waits_at() };
        unpark_all(at)
    }
    /// In the task: gives way until it is resumed.
    #[track_caller]
    pub fn give_way(&self, deadline: Option<Duration>) {
        self.given().deadline = deadline;
        self.hand_to(RESUMER);
        self.wait_for_turn(Location::caller());
        if self.turn.load(Ordering::Relaxed) == UNWIND {
            std::panic::resume_unwind(Box::new(Dropped))
        }
    }
    fn wait_for_turn(&self, at: &'static Location<'static>) {
        while !matches!(self.turn.load(Ordering::Relaxed), TASK | UNWIND) {
            park(self.task_waits_at(), None, "its worker", at);
        }
    }
}

impl Task {
    /// A task that has not begun; `body` gives what it has panicked with.
    ///
    /// # Panics
    /// Outside of a world.
    pub fn new(body: Box<dyn FnOnce() -> Option<Panic>>) -> Task {
        struct Here<F>(F);
        // SAFETY: a world's fibers stay on their OS thread (sim/fiber/B1), which is this one.
        unsafe impl<F> Send for Here<F> {}
        let turns = Arc::new(Turns { turn: AtomicU8::new(RESUMER), given: Mutex::default() });
        let theirs = Here((turns.clone(), body));
        let run = move || {
            let theirs = theirs;
            let Here((turns, body)) = theirs;
            turns.wait_for_turn(Location::caller());
            let panic = match turns.turn.load(Ordering::Relaxed) {
                UNWIND => None,
                _ => body(),
            };
            turns.given().panic = panic.filter(|p| !p.is::<Dropped>());
            turns.hand_to(NOBODY)
        };
        match fiber::spawn("task", None, run) {
            Ok(_) => Task(turns),
            Err(_) => panic!("a task is started outside of a world"),
        }
    }
    /// What the task gives way by.
    pub fn turns(&self) -> &Arc<Turns> {
        &self.0
    }
    /// Runs it until it gives way or has ended.
    #[track_caller]
    pub fn resume(&self) -> CoroutineResult<Option<Duration>, Option<Panic>> {
        self.hand_over(TASK, Location::caller());
        let mut given = self.0.given();
        match self.0.turn.load(Ordering::Relaxed) {
            NOBODY => CoroutineResult::Return(given.panic.take()),
            _ => CoroutineResult::Yield(given.deadline),
        }
    }
    fn hand_over(&self, whom: u8, at: &'static Location<'static>) {
        self.0.hand_to(whom);
        while matches!(self.0.turn.load(Ordering::Relaxed), TASK | UNWIND) {
            park(self.0.resumer_waits_at(), None, "a task of its own", at);
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // K2; in a world that is over, nobody runs any more, and who unwinds itself leaves the task behind.
        let has_begun = self.0.turn.load(Ordering::Relaxed) == RESUMER;
        if has_begun && fiber::with(|_| ()).is_some() && !std::thread::panicking() {
            self.hand_over(UNWIND, Location::caller())
        }
    }
}
