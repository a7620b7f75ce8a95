//! Fibers: tasks with stacks of their own that a thread runs in turns, so that who waits keeps a stack and no
//! thread.
//!
//! ```text
//! Worker::start   a task waits to begin
//! Worker::turn    each task that can go on runs until it ends or parks; then the thread sleeps until one can
//! Parker::park    in a task: its seat is left with the parker, and the thread goes on with the next task
//! unpark          takes the seat from the parker and puts it into the inbox of the seat's worker
//! ```
//! - **F1** A fiber stays on its worker's thread: neither [`Worker`] nor what a task borrows can be sent. So
//!   thread-locals may be used in tasks, but nothing of them borrowed over a park.
//! - **F2** Only [`crate::park::Parker::park`] and [`yield_now`] give way. Between two of them a task runs as
//!   a thread does, and keeps its worker's other tasks waiting: a spin or a blocked mutex must wait for other
//!   threads only. That no guard is held over a park (park/P4) sees to it.
//! - **F3** `RUNNING` points to the worker's [`Running`] exactly while a task of its runs on its own stack.
//! - **F4** A seat belongs to a place for a fiber, not to the task in it: one that arrives late wakes a task
//!   that did not ask, which finds nothing told, and parks on.
//! - **F5** Stacks without tasks are kept, the one that was used last for the next task. Those beneath the
//!   first few keep only their shallow part of memory: what a task needed deeper is given back to the system.
//! - **F6** Who waits for descriptors beside its tasks is told by an event ([`Worker::with_event`]). It is
//!   set only for a thread that said that it is about to sleep, which says so before it looks for the last
//!   time.
//!
//! - **F7** Work that may be long asks at its checks whether it has had its turn ([`take_turns`]), holding no
//!   pin: a task has run for [`TURN`] at most, and the time between two checks, when others go on.
//!
//! What needs a deep stack, and never parks, runs on the thread's by [`on_thread_stack`]: so fibers' stacks
//! can be small, of which there are many. In simulated worlds fibers are the world's: a worker's tasks are
//! ([`sim::Task`]), and those that a [`sim::Worker`] has several of. That a wait keeps the thread, where it
//! should give way, is a hang there.
use crate::clock;
use crate::event::Event;
use crate::park::{self, Parker};
use crate::{sim, thread};
use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a worker is told from elsewhere.
#[derive(Default)]
struct Inbox {
    /// Places whose fibers were told.
    told: Mutex<Vec<u32>>,
    /// Where the worker's thread sleeps.
    bell: Parker,
    /// F6, and whether the thread is about to sleep.
    event: Option<Event>,
    sleeps: AtomicBool,
}

impl Inbox {
    fn ring(&self) {
        match &self.event {
            Some(event) if self.sleeps.swap(false, Ordering::SeqCst) => event.set(),
            Some(_) => {}
            None => self.bell.unpark(),
        }
    }
}

/// A place for a fiber, as parkers know it.
pub(crate) struct Seat {
    inbox: Arc<Inbox>,
    place: u32,
}
impl Seat {
    pub(crate) fn tell(&self) {
        self.inbox.told.lock().unwrap_or_else(|e| e.into_inner()).push(self.place);
        self.inbox.ring()
    }
}

/// Ends a worker's sleep, from any thread.
#[derive(Clone)]
pub struct Bell(Arc<Inbox>);
impl Bell {
    pub fn ring(&self) {
        self.0.ring()
    }
}

type Task = Box<dyn FnOnce()>;
type Panic = Box<dyn Any + Send>;
type Own = Coroutine<(), Option<Duration>, Option<Panic>, DefaultStack>;
enum Fiber {
    Own(Own),
    World(sim::Task),
}
/// What a fiber gives when it parks: until when.
type Giving = Yielder<(), Option<Duration>>;

struct Running {
    yielder: Cell<*const Giving>,
    /// When the task first asked whether it has had its turn, since it went on.
    since: Cell<Option<Duration>>,
    seat: RefCell<Option<Arc<Seat>>>,
    /// What the task that runs gives way by, in a simulated world.
    turns: RefCell<Option<Arc<sim::Turns>>>,
}
thread_local! {
    static RUNNING: Cell<*const Running> = const { Cell::new(ptr::null()) };
}

/// What the fiber of a world that leaves the OS thread to another takes with it.
#[derive(Clone, Copy)]
pub(crate) struct Left(*const Running);
pub(crate) fn leave() -> Left {
    Left(RUNNING.replace(ptr::null()))
}
pub(crate) fn come_back(left: Left) {
    RUNNING.set(left.0)
}

/// Whether the caller is a task of a [`Worker`], or of a [`sim::Worker`].
pub fn is_fiber() -> bool {
    !RUNNING.get().is_null() || sim::has_worker()
}

/// Runs `f` on the stack of the thread, if the caller is a fiber: for what recurs deeply. A wait in it keeps
/// the thread.
pub fn on_thread_stack<R>(f: impl FnOnce() -> R) -> R {
    let running = RUNNING.get();
    // SAFETY: F3.
    let Some(current) = (unsafe { running.as_ref() }) else { return f() };
    struct Back(*const Running);
    impl Drop for Back {
        fn drop(&mut self) {
            RUNNING.set(self.0)
        }
    }
    let _back = Back(running);
    RUNNING.set(ptr::null()); // a park would give way from a stack that is not the fiber's
    if current.turns.borrow().is_some() {
        return f(); // a world's fiber has a large stack
    }
    /// What is called on the same thread.
    struct Here<F>(F);
    // SAFETY: it does not leave the thread. The bound is to keep yielders out, and there are none but what
    // `RUNNING` leads to.
    unsafe impl<F> Send for Here<F> {}
    let f = Here(f);
    // SAFETY: the yielder is that of the fiber on whose stack this is called, set before it went on.
    unsafe {
        (*current.yielder.get()).on_parent_stack(move || {
            let f = f;
            (f.0)()
        })
    }
}

/// Runs `f` on a thread of its own that stands back ([`crate::thread::stand_back`]), if the caller is a task
/// of a [`Worker`], which gives way meanwhile: for what blocks its thread, or works for long with guards
/// held.
///
/// # Errors
/// If the system starts no thread.
pub fn on_own_thread<R: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> R + Send + 'static,
) -> std::io::Result<R> {
    if RUNNING.get().is_null() {
        return Ok(f());
    }
    let shared = Arc::new((Mutex::new(None), Parker::new()));
    let theirs = shared.clone();
    thread::spawn(name, move || {
        thread::stand_back();
        let done = catch_unwind(AssertUnwindSafe(f));
        *theirs.0.lock().unwrap_or_else(|e| e.into_inner()) = Some(done);
        theirs.1.unpark()
    })?;
    loop {
        shared.1.park(None);
        let done = shared.0.lock().unwrap_or_else(|e| e.into_inner()).take();
        match done {
            Some(Ok(done)) => return Ok(done),
            Some(Err(panic)) => resume_unwind(panic),
            None => {}
        }
    }
}

/// The caller's seat, to be left with a parker. None if it is no fiber.
pub(crate) fn seat() -> Option<Arc<Seat>> {
    // SAFETY: F3.
    unsafe { RUNNING.get().as_ref() }.and_then(|r| r.seat.borrow().clone())
}

/// Lets the worker's other tasks go on, if the caller is one; each that can goes on before it does.
///
/// # Panics
/// If the caller is a task and holds a guard (park/P4).
#[inline]
pub fn yield_now() {
    if !RUNNING.get().is_null() {
        assert!(park::guards_held() == 0, "a task yields while {} guards are held", park::guards_held());
        // Told already, so that giving way ends with the next turn.
        seat().inspect(|s| s.tell());
        give_way(None)
    }
}

/// For which a task runs at most where others of its worker can go on (F7). Going on takes about a
/// microsecond where nobody is there: a scan is as quick as with ten times the time.
const TURN: Duration = Duration::from_micros(25);

/// Lets the worker's other tasks go on if the caller is one that has had its turn (F7). It may hold guards:
/// then it goes on itself.
#[inline]
pub fn take_turns() {
    // SAFETY: F3.
    if let Some(running) = unsafe { RUNNING.get().as_ref() } {
        running.ask()
    }
}

impl Running {
    #[inline(never)]
    fn ask(&self) {
        let now = clock::now();
        match self.since.get() {
            None => self.since.set(Some(now)),
            Some(since) if now.saturating_sub(since) >= TURN && park::guards_held() == 0 => yield_now(),
            Some(_) => {}
        }
    }
}

/// Gives way until the seat is told, the deadline has come, or without a reason.
pub(crate) fn give_way(deadline: Option<Duration>) {
    // SAFETY: F3, and the yielder is that of the fiber on whose stack this is called.
    unsafe {
        if let Some(running) = RUNNING.get().as_ref() {
            let turns = running.turns.borrow().clone();
            match turns {
                None => (*running.yielder.get()).suspend(deadline),
                Some(turns) => turns.give_way(deadline),
            }
        }
    }
}

struct Place {
    /// Absent while it runs, and while the place is free.
    fiber: Option<Fiber>,
    seat: Arc<Seat>,
    yielder: *const Giving,
    /// Until when it sleeps.
    deadline: Option<Duration>,
}

/// The fibers of one thread. Those that are left when it is dropped are unwound where they parked.
pub struct Worker {
    running: Rc<Running>,
    inbox: Arc<Inbox>,
    stack_bytes: usize,
    waiting: VecDeque<Task>,
    /// Places whose fibers can go on.
    ready: VecDeque<u32>,
    places: Vec<Place>,
    free: Vec<u32>,
    /// Stacks without fibers.
    stacks: Vec<DefaultStack>,
    /// Deadlines of those that sleep; some are of sleeps that ended otherwise.
    deadlines: BinaryHeap<Reverse<(Duration, u32)>>,
    resumptions: u64,
}

/// What [`Worker::turn`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Some task went on.
    Ran,
    /// None could until the limit came, or the bell rang.
    Idle,
    /// There is no task.
    Empty,
}

impl Worker {
    /// Stacks kept for the next tasks.
    const KEPT: usize = 64;
    /// Of these, those that are kept as they are (F5).
    const KEPT_WHOLE: usize = 4;
    /// Bytes that a stack keeps of its memory, otherwise.
    const SHALLOW: usize = 16 << 10;

    /// For tasks with stacks of that many bytes, of which those that are never touched take no memory.
    pub fn new(stack_bytes: usize) -> Worker {
        Worker::of(stack_bytes, Inbox::default())
    }
    /// The same for a thread that sleeps elsewhere: where `event` wakes it (F6). It calls
    /// [`Worker::go_to_sleep`] before, and [`Worker::run_ready`] after that.
    pub fn with_event(stack_bytes: usize, event: Event) -> Worker {
        Worker::of(stack_bytes, Inbox { event: Some(event), ..Inbox::default() })
    }
    fn of(stack_bytes: usize, inbox: Inbox) -> Worker {
        Worker {
            running: Rc::new(Running {
                yielder: Cell::new(ptr::null()),
                since: Cell::new(None),
                seat: RefCell::new(None),
                turns: RefCell::new(None),
            }),
            inbox: Arc::new(inbox),
            stack_bytes,
            waiting: VecDeque::new(),
            ready: VecDeque::new(),
            places: vec![],
            free: vec![],
            stacks: vec![],
            deadlines: BinaryHeap::new(),
            resumptions: 0,
        }
    }
    pub fn bell(&self) -> Bell {
        Bell(self.inbox.clone())
    }
    /// What wakes the thread, if it sleeps elsewhere (F6).
    pub fn event(&self) -> Option<&Event> {
        self.inbox.event.as_ref()
    }
    /// Tasks that have not ended.
    pub fn tasks(&self) -> usize {
        self.waiting.len() + self.places.len() - self.free.len()
    }
    /// How often some task began or went on.
    pub fn resumptions(&self) -> u64 {
        self.resumptions
    }
    /// The task begins at the next turn.
    pub fn start(&mut self, task: impl FnOnce() + 'static) {
        self.waiting.push_back(Box::new(task))
    }

    /// Runs every task that can go on, once. If none can, sleeps until one can, at most for `limit`.
    ///
    /// # Errors
    /// If the system has no memory for a stack: the task waits on, to begin at a later turn.
    ///
    /// # Panics
    /// With a task's panic. The others, and the worker, are as they were.
    pub fn turn(&mut self, limit: Option<Duration>) -> std::io::Result<Turn> {
        if self.tasks() == 0 {
            return Ok(Turn::Empty);
        }
        let end = limit.map(|l| clock::now() + l);
        loop {
            if self.run_ready()? {
                return Ok(Turn::Ran);
            }
            let next = self.deadlines.peek().map(|Reverse((at, _))| *at);
            let until = next.map_or(end, |n| Some(end.map_or(n, |e| e.min(n))));
            let rung = self.inbox.bell.block(until);
            if self.run_ready()? {
                return Ok(Turn::Ran);
            }
            if rung || end.is_some_and(|e| clock::now() >= e) {
                return Ok(Turn::Idle);
            }
        }
    }
    /// Sleeps until the bell rings. It may have rung before.
    pub fn sleep(&self) {
        self.inbox.bell.block(None);
    }
    /// Turns until no task is left.
    pub fn run(&mut self) -> std::io::Result<()> {
        while self.turn(None)? != Turn::Empty {}
        Ok(())
    }

    /// Until when the thread may sleep elsewhere (F6): at once, where a task can go on; `Some(None)`, until
    /// it is told. [`Worker::is_awake`] follows the sleep.
    pub fn go_to_sleep(&mut self) -> Option<Option<Duration>> {
        self.inbox.sleeps.store(true, Ordering::SeqCst);
        let is_told = !self.inbox.told.lock().unwrap_or_else(|e| e.into_inner()).is_empty();
        if is_told || !self.waiting.is_empty() || !self.ready.is_empty() {
            self.is_awake();
            return None;
        }
        Some(self.deadlines.peek().map(|Reverse((at, _))| *at))
    }
    /// The thread sleeps no more. It clears the event itself, where that woke it.
    pub fn is_awake(&self) {
        self.inbox.sleeps.store(false, Ordering::SeqCst)
    }

    /// Runs every task that can go on, once; false if none could. As [`Worker::turn`], without sleep.
    pub fn run_ready(&mut self) -> std::io::Result<bool> {
        self.ready.extend(self.inbox.told.lock().unwrap_or_else(|e| e.into_inner()).drain(..));
        if !self.deadlines.is_empty() {
            let now = clock::now();
            while let Some(Reverse((at, place))) = self.deadlines.peek().copied().filter(|d| d.0.0 <= now) {
                self.deadlines.pop();
                if self.places[place as usize].deadline == Some(at) {
                    self.ready.push_back(place)
                }
            }
        }
        let mut ran = !self.waiting.is_empty();
        while let Some(place) = self.ready.pop_front() {
            ran |= self.go_on(place)
        }
        // Those that are started meanwhile begin at the next turn.
        for _ in 0..self.waiting.len() {
            // Without memory for a stack, the task waits on.
            let stack = match self.stacks.pop() {
                _ if sim::current().is_some() => None,
                Some(stack) => Some(stack),
                None => Some(DefaultStack::new(self.stack_bytes)?),
            };
            let Some(task) = self.waiting.pop_front() else { break };
            let place = self.seat(stack, task);
            self.go_on(place);
        }
        Ok(ran)
    }

    /// A place with a fiber that has not begun: of a world, without a stack.
    fn seat(&mut self, stack: Option<DefaultStack>, task: Task) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            let place = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
            let seat = Arc::new(Seat { inbox: self.inbox.clone(), place });
            self.places.push(Place { fiber: None, seat, yielder: ptr::null(), deadline: None });
            place
        });
        let running = self.running.clone();
        let fiber = match stack {
            Some(stack) => Fiber::Own(Coroutine::with_stack(stack, move |yielder: &Giving, ()| {
                running.yielder.set(yielder);
                catch_unwind(AssertUnwindSafe(task)).err()
            })),
            None => Fiber::World(sim::Task::new(Box::new(move || {
                RUNNING.set(Rc::as_ptr(&running)); // F3, until the fiber has ended
                let done = catch_unwind(AssertUnwindSafe(task)).err();
                RUNNING.set(ptr::null());
                done
            }))),
        };
        self.places[place as usize].fiber = Some(fiber);
        place
    }

    /// Runs the place's fiber until it parks or ends. False if there is none.
    fn go_on(&mut self, place: u32) -> bool {
        let p = &mut self.places[place as usize];
        let Some(mut fiber) = p.fiber.take() else { return false };
        p.deadline = None;
        self.resumptions += 1;
        self.running.yielder.set(p.yielder);
        self.running.since.set(None);
        *self.running.seat.borrow_mut() = Some(p.seat.clone());
        let result = match &mut fiber {
            Fiber::Own(own) => {
                let held = park::exchange_held(0);
                let before = RUNNING.replace(Rc::as_ptr(&self.running)); // F3
                let result = own.resume(());
                RUNNING.set(before);
                park::exchange_held(held);
                result
            }
            Fiber::World(task) => {
                *self.running.turns.borrow_mut() = Some(task.turns().clone());
                task.resume()
            }
        };
        let p = &mut self.places[place as usize];
        match result {
            CoroutineResult::Yield(deadline) => {
                p.yielder = self.running.yielder.get();
                p.fiber = Some(fiber);
                p.deadline = deadline;
                if let Some(at) = deadline {
                    self.deadlines.push(Reverse((at, place)))
                }
            }
            CoroutineResult::Return(panic) => {
                p.yielder = ptr::null();
                self.free.push(place);
                if let Fiber::Own(own) = fiber
                    && self.stacks.len() < Worker::KEPT
                {
                    let stack = own.into_stack();
                    if self.stacks.len() >= Worker::KEPT_WHOLE {
                        trim(&stack)
                    }
                    self.stacks.push(stack)
                }
                if let Some(panic) = panic {
                    resume_unwind(panic)
                }
            }
        }
        true
    }
}

/// Gives the memory back that lies deeper in an unused stack than is kept (F5).
fn trim(stack: &DefaultStack) {
    let (limit, base) = (stack.limit().get(), stack.base().get());
    let deep = base.saturating_sub(Worker::SHALLOW).saturating_sub(limit);
    if deep > 0 {
        // SAFETY: the stack is mapped from its limit to its base, and nothing lies in it. Where the system
        // refuses, the memory stays.
        unsafe { libc::madvise(limit as *mut libc::c_void, deep, libc::MADV_DONTNEED) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    fn turns_until_empty(w: &mut Worker) {
        w.run().unwrap()
    }

    #[test]
    fn tasks_run_in_turns_and_keep_their_stacks() {
        let mut w = Worker::new(64 << 10);
        assert_eq!(w.turn(None).unwrap(), Turn::Empty);
        let parkers: Vec<Arc<Parker>> = (0..1000).map(|_| Arc::default()).collect();
        let sum = Rc::new(Cell::new(0));
        for (i, p) in parkers.iter().enumerate() {
            let (p, sum) = (p.clone(), sum.clone());
            w.start(move || {
                let mine = [i as u64; 64];
                assert!(is_fiber() && p.park(None));
                sum.set(sum.get() + mine.iter().sum::<u64>());
            })
        }
        assert_eq!((w.turn(None).unwrap(), w.tasks()), (Turn::Ran, 1000));
        assert_eq!(w.turn(Some(Duration::from_millis(1))).unwrap(), Turn::Idle);
        assert!(!is_fiber() && sum.get() == 0);
        // Only the one that is told goes on.
        parkers[7].unpark();
        assert_eq!((w.turn(None).unwrap(), w.tasks(), sum.get()), (Turn::Ran, 999, 7 * 64));
        let others = std::thread::spawn(move || parkers.iter().for_each(|p| p.unpark()));
        turns_until_empty(&mut w);
        others.join().unwrap();
        assert_eq!(sum.get(), 64 * 999 * 1000 / 2)
    }

    /// Counters in turns, of which each but one sleeps: on three workers, and one on a thread of its own.
    fn count_in_turns(each: u64, rounds: u64) {
        let all = 3 * each + 1;
        let turn = Arc::new(AtomicU64::new(0));
        let parkers: Arc<Vec<Parker>> = Arc::new((0..all).map(|_| Parker::new()).collect());
        let count = move |me: u64, turn: &AtomicU64, parkers: &[Parker]| {
            for i in 0..rounds {
                while turn.load(Ordering::Relaxed) != i * all + me {
                    parkers[me as usize].park(None);
                }
                turn.store(i * all + me + 1, Ordering::Relaxed);
                parkers[((me + 1) % all) as usize].unpark()
            }
        };
        let threads: Vec<_> = (0..3)
            .map(|k| {
                let (turn, parkers) = (turn.clone(), parkers.clone());
                let run = move || {
                    let mut w = Worker::new(64 << 10);
                    for n in 0..each {
                        let (turn, parkers) = (turn.clone(), parkers.clone());
                        w.start(move || count(3 * n + k, &turn, &parkers))
                    }
                    turns_until_empty(&mut w)
                };
                thread::spawn("worker", run).unwrap()
            })
            .collect();
        count(all - 1, &turn, &parkers);
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(turn.load(Ordering::Relaxed), rounds * all)
    }

    #[test]
    fn no_wake_up_is_lost_between_workers() {
        count_in_turns(40, 60);
        for seed in 0..100 {
            sim::World::new(seed, sim::Config::default()).run(|| count_in_turns(3, 5))
        }
    }

    #[test]
    fn deadlines_come_in_their_order() {
        let mut w = Worker::new(64 << 10);
        let (seen, began) = (Rc::new(RefCell::new(vec![])), clock::now());
        for ms in [30, 10, 20] {
            let seen = seen.clone();
            w.start(move || {
                let deadline = began + Duration::from_millis(ms);
                assert!(!Parker::new().park(Some(deadline)));
                assert!(clock::now() >= deadline);
                seen.borrow_mut().push(ms)
            })
        }
        // Told before its deadline, of which nothing is left then.
        let p = Arc::new(Parker::new());
        let q = p.clone();
        w.start(move || {
            assert!(q.park(Some(began + Duration::from_millis(15))));
            assert!(q.park(None))
        });
        assert_eq!(w.turn(None).unwrap(), Turn::Ran);
        p.unpark();
        while w.tasks() > 1 {
            w.turn(None).unwrap();
        }
        assert_eq!(*seen.borrow(), [10, 20, 30]);
        p.unpark();
        turns_until_empty(&mut w)
    }

    #[test]
    fn a_worlds_worker_is_as_the_systems() {
        for seed in 0..50 {
            sim::World::new(seed, sim::Config::default()).run(|| {
                a_panic_is_the_turns_and_the_others_go_on();
                a_guard_over_a_park_is_the_fibers_own_fault();
                a_dropped_worker_unwinds_its_tasks();
                assert!(!is_fiber());
                let mut w = Worker::new(32 << 10);
                w.start(|| {
                    assert!(!on_thread_stack(is_fiber));
                    assert!(!on_own_thread("other", is_fiber).unwrap());
                    assert!(is_fiber());
                    yield_now();
                    assert!(!Parker::new().park(Some(clock::now() + Duration::from_secs(5))))
                });
                turns_until_empty(&mut w)
            })
        }
    }

    #[test]
    fn a_panic_is_the_turns_and_the_others_go_on() {
        let mut w = Worker::new(64 << 10);
        let ended = Rc::new(Cell::new(0));
        for i in 0..10 {
            let ended = ended.clone();
            w.start(move || {
                let p = Parker::new();
                p.unpark();
                p.park(None);
                if i == 3 {
                    panic!("the fourth")
                }
                ended.set(ended.get() + 1)
            })
        }
        let panic = catch_unwind(AssertUnwindSafe(|| w.turn(None))).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"the fourth"));
        assert!(!is_fiber() && w.tasks() == 6);
        turns_until_empty(&mut w);
        assert_eq!(ended.get(), 9)
    }

    #[test]
    fn a_guard_over_a_park_is_the_fibers_own_fault() {
        let mut w = Worker::new(64 << 10);
        let m = crate::sync::Mutex::new(());
        // The thread's own guards are not the tasks'.
        let _outside = m.lock();
        w.start(|| {
            let m = crate::sync::Mutex::new(());
            assert_eq!(park::guards_held(), 0);
            assert!(!Parker::new().park(Some(Duration::ZERO)));
            let _guard = m.lock();
            assert!(catch_unwind(|| Parker::new().park(None)).is_err())
        });
        turns_until_empty(&mut w);
        assert_eq!(park::guards_held(), 1)
    }

    #[test]
    fn a_dropped_worker_unwinds_its_tasks() {
        struct Count(Arc<AtomicUsize>);
        impl Drop for Count {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (p, n) = (Arc::new(Parker::new()), Arc::new(AtomicUsize::new(0)));
        let mut w = Worker::new(64 << 10);
        for _ in 0..3 {
            let (p, c) = (p.clone(), Count(n.clone()));
            w.start(move || {
                let _c = c;
                loop {
                    p.park(None);
                }
            })
        }
        let mut one = Worker::new(64 << 10);
        let (q, c) = (Arc::new(Parker::new()), Count(n.clone()));
        let r = q.clone();
        one.start(move || {
            let _c = c;
            r.park(None);
            unreachable!("nobody told it")
        });
        one.turn(None).unwrap();
        drop(one);
        assert_eq!(n.load(Ordering::Relaxed), 1);
        // Nobody sits there any more.
        q.unpark();
        assert!(q.park(None));
        drop(w);
        assert_eq!(n.load(Ordering::Relaxed), 4)
    }

    #[test]
    fn stacks_that_were_used_deeply_keep_little_of_their_memory() {
        fn deep(n: usize) -> usize {
            let room = std::hint::black_box([n; 128]);
            if n == 0 { room[5] } else { deep(n - 1) + usize::from(room[7] == n) }
        }
        fn resident(stack: &DefaultStack) -> usize {
            let (limit, base) = (stack.limit().get(), stack.base().get());
            let mut pages = vec![0u8; (base - limit) / 4096];
            // SAFETY: the stack is mapped there, and there is a byte for each of its pages.
            let done = unsafe { libc::mincore(limit as *mut libc::c_void, base - limit, pages.as_mut_ptr()) };
            assert_eq!(done, 0);
            4096 * pages.iter().filter(|p| **p & 1 == 1).count()
        }
        let mut w = Worker::new(512 << 10);
        for _ in 0..40 {
            w.start(|| {
                assert_eq!(deep(200), 200);
                Parker::new().park(Some(Duration::ZERO));
            })
        }
        w.run().unwrap();
        assert!(w.resumptions() >= 80);
        let resident: Vec<usize> = w.stacks.iter().map(resident).collect();
        assert_eq!(resident.len(), 40);
        let (whole, shallow) = resident.split_at(Worker::KEPT_WHOLE);
        assert!(whole.iter().all(|r| *r > 200 << 10), "{resident:?}");
        assert!(shallow.iter().all(|r| *r <= Worker::SHALLOW), "{resident:?}");
        // What was given back is there again when it is needed.
        for _ in 0..40 {
            w.start(|| {
                assert_eq!(deep(200), 200);
                Parker::new().park(Some(Duration::ZERO));
            })
        }
        w.run().unwrap()
    }

    /// F7
    #[test]
    fn long_work_takes_turns() {
        let mut w = Worker::new(64 << 10);
        let seen: Rc<[Cell<u32>; 2]> = Rc::default();
        for me in 0..2 {
            let seen = seen.clone();
            w.start(move || {
                // Neither ends before the other was here again and again.
                for _ in 0..5 {
                    let (other, began) = (seen[1 - me].get(), clock::now());
                    seen[me].set(seen[me].get() + 1);
                    while seen[1 - me].get() == other && seen[1 - me].get() < 5 {
                        assert!(clock::now() < began + Duration::from_secs(20));
                        take_turns()
                    }
                }
                // Who holds a guard goes on.
                let before = seen[1 - me].get();
                park::hold();
                let end = clock::now() + 4 * TURN;
                while clock::now() < end {
                    take_turns();
                    assert_eq!(seen[1 - me].get(), before)
                }
                park::release()
            })
        }
        w.run().unwrap();
        assert_eq!((seen[0].get(), seen[1].get()), (5, 5));
        take_turns()
    }

    #[test]
    fn deep_work_takes_the_threads_stack() {
        fn deep(n: usize) -> usize {
            let room = std::hint::black_box([n; 128]);
            if n == 0 { room[5] } else { deep(n - 1) + usize::from(room[7] == n) }
        }
        let mut w = Worker::new(32 << 10);
        w.start(|| {
            assert_eq!(on_thread_stack(|| (deep(500), is_fiber())), (500, false));
            assert!(is_fiber());
            assert!(catch_unwind(|| on_thread_stack(|| panic!("there"))).is_err());
            assert!(is_fiber() && !Parker::new().park(Some(Duration::ZERO)))
        });
        turns_until_empty(&mut w);
        assert_eq!(on_thread_stack(|| deep(5)), 5)
    }
}
