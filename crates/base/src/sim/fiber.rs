//! Fibers: stacks of their own on one OS thread, and the loop that runs them.
//!
//! - **B1** `CURRENT` points to the [`Current`] on the stack of the world's run exactly while that run
//!   resumes fibers on this OS thread; outside it is null. Fibers never leave their OS thread.
//! - **B2** `Current::yielder` belongs to the fiber that runs: the loop sets it before it resumes a fiber
//!   that has been started, and a fiber sets it when it starts.
//! - **B3** When a run returns, each of its fibers has ended or will never be resumed. What a borrowed
//!   closure borrows is therefore not touched after the run.
//!
//! A fiber that wants to give way chooses its successor itself, under the world's lock, and goes back to the
//! loop only when that is someone else. Stacks are pooled for the whole process, since tests live many short
//! lives.
use super::schedule::{Pause, Turn};
use super::world::World;
use crate::{fiber as outside, park};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a fiber is to do. It catches its own panics.
pub(super) type Body = Box<dyn FnOnce() + Send>;

/// Why a world failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A fiber panicked.
    Panic,
    /// All fibers wait for each other.
    Deadlock,
    /// More steps than [`super::Config::step_limit`].
    Hang,
}

/// A world's failure, with what is needed to see it again.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    pub step: u64,
    pub why: Why,
    /// The panic's message, or a line for each fiber that was left.
    pub message: String,
}
impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let why = match self.why {
            Why::Panic => "panic",
            Why::Deadlock => "deadlock",
            Why::Hang => "hang",
        };
        write!(
            f,
            "the world of seed {:#x} failed at step {} by a {why}: {}",
            self.seed, self.step, self.message
        )
    }
}
impl std::error::Error for Failure {}

pub(super) struct Current {
    pub world: Arc<World>,
    id: Cell<usize>,
    yielder: Cell<*const Yielder<(), ()>>,
}
impl Current {
    pub fn id(&self) -> usize {
        self.id.get()
    }
}

thread_local! {
    /// The one thread-local of the simulator: which run this OS thread is in (B1).
    static CURRENT: Cell<*const Current> = const { Cell::new(std::ptr::null()) };
}

/// Calls `f` with the current fiber, if the caller is one.
#[inline]
pub(super) fn with<R>(f: impl FnOnce(&Current) -> R) -> Option<R> {
    let current = CURRENT.try_with(Cell::get).unwrap_or(std::ptr::null());
    // SAFETY: by B1 it is null, or points to a live value on the stack below us.
    unsafe { current.as_ref() }.map(f)
}

/// Gives way. `None` outside a world; true when a deadline came.
pub(super) fn pause(how: Pause, what: &'static str, at: &'static Location<'static>) -> Option<bool> {
    with(|c| {
        let me = c.id();
        {
            let mut guard = c.world.inner();
            if guard.struck_in_phase(me) {
                drop(guard);
                c.world.power_failure();
                guard = c.world.inner();
            }
            let i = &mut *guard;
            match i.schedule.pause(me, how, what, at) {
                Turn::Stay => return i.schedule.timed_out(me),
                Turn::Switch(next) => i.next = Some(next),
                Turn::Stuck => i.next = None,
                Turn::Limit => {
                    i.next = None;
                    if i.failure.is_none() {
                        let message = i.schedule.report();
                        let step = i.schedule.steps;
                        i.fail(Failure { seed: c.world.seed(), step, why: Why::Hang, message });
                    }
                }
            }
        }
        let held = park::exchange_held(0);
        let running = outside::leave();
        // SAFETY: by B2 it is the yielder of the fiber whose stack we are on, alive as long as that stack.
        unsafe { (*c.yielder.get()).suspend(()) };
        outside::come_back(running);
        park::exchange_held(held);
        c.world.inner().schedule.timed_out(me)
    })
}

/// What a panic says.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("(not a text)").to_string()
}

impl World {
    /// Records that the current fiber panicked.
    fn fiber_panicked(&self, id: usize, payload: &(dyn Any + Send)) -> String {
        let mut i = self.inner();
        let text = format!("fiber {id} \"{}\": {}", i.schedule.fibers[id].name, message(payload));
        let failure =
            Failure { seed: self.seed(), step: i.schedule.steps, why: Why::Panic, message: text.clone() };
        i.fail(failure);
        text
    }

    /// Runs `f` as the first fiber, and every fiber it starts, until all have ended.
    ///
    /// # Panics
    /// With the seed, when a fiber panics, all wait for each other, or the limit of steps is passed.
    #[track_caller]
    pub fn run<T>(self: &Arc<Self>, f: impl FnOnce() -> T) -> T {
        match self.try_run(f) {
            Ok(result) => result,
            Err(failure) => panic!("{failure}"),
        }
    }

    /// As [`World::run`], with the failure as a value.
    pub fn try_run<T>(self: &Arc<Self>, f: impl FnOnce() -> T) -> Result<T, Failure> {
        assert!(with(|_| ()).is_none(), "a world cannot run within a world");
        let result = Cell::new(None);
        let id = {
            let mut i = self.inner();
            if let Some(f) = &i.failure {
                return Err(f.clone());
            }
            i.schedule.add("main", None)
        };
        {
            let result = &result;
            let body = move || match catch_unwind(AssertUnwindSafe(f)) {
                Ok(value) => result.set(Some(value)),
                Err(payload) => drop(self.fiber_panicked(id, &*payload)),
            };
            let body: Box<dyn FnOnce() + '_> = Box::new(body);
            // SAFETY: by B3 the closure is not run, and nothing that it borrows is touched, once `run_fibers`
            // has returned; and that is within the lifetime of what it borrows.
            let body: Box<dyn FnOnce()> = unsafe { std::mem::transmute(body) };
            run_fibers(self, id, body);
        }
        if let Some(f) = &self.inner().failure {
            return Err(f.clone());
        }
        match result.take() {
            Some(value) => Ok(value),
            None => unreachable!("the first fiber ended without a panic and without a result"),
        }
    }
}

struct Slot {
    fiber: Option<Coroutine<(), (), (), DefaultStack>>,
    yielder: *const Yielder<(), ()>,
    stack_bytes: usize,
}

/// Stacks that wait for their next fiber.
static STACKS: std::sync::Mutex<Vec<(usize, DefaultStack)>> = std::sync::Mutex::new(Vec::new());
/// More than this are given back to the system.
const POOLED: usize = 256;

fn take_stack(bytes: usize) -> (usize, DefaultStack) {
    let mut pool = STACKS.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(i) = pool.iter().rposition(|(size, _)| *size == bytes) {
        return pool.swap_remove(i);
    }
    drop(pool);
    match DefaultStack::new(bytes) {
        Ok(stack) => (bytes, stack),
        Err(e) => panic!("cannot make a fiber's stack of {bytes} bytes: {e}"),
    }
}
fn give_stack(bytes: usize, stack: DefaultStack) {
    let mut pool = STACKS.lock().unwrap_or_else(|e| e.into_inner());
    if pool.len() < POOLED {
        pool.push((bytes, stack))
    }
}

impl Slot {
    fn new(bytes: usize, body: Box<dyn FnOnce()>) -> Slot {
        let (stack_bytes, stack) = take_stack(bytes);
        let fiber = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            with(|c| c.yielder.set(yielder)); // B2
            body()
        });
        Slot { fiber: Some(fiber), yielder: std::ptr::null(), stack_bytes }
    }
}

/// The loop. It ends when every fiber has, or when the world has failed and nobody can go on.
fn run_fibers(world: &Arc<World>, first: usize, body: Box<dyn FnOnce()>) {
    let current =
        Current { world: world.clone(), id: Cell::new(first), yielder: Cell::new(std::ptr::null()) };
    /// Ends the run on every way out (B1).
    struct Running {
        held: u32,
    }
    impl Drop for Running {
        fn drop(&mut self) {
            park::exchange_held(self.held);
            outside::leave();
            CURRENT.set(std::ptr::null());
            super::RUNNING.fetch_sub(1, Ordering::Relaxed);
        }
    }
    super::RUNNING.fetch_add(1, Ordering::Relaxed);
    let running = Running { held: park::exchange_held(0) };
    CURRENT.set(&current);
    let stack_bytes = world.config().stack_bytes;
    // Fibers of an earlier run of this world have ended; their numbers are not used again.
    let mut slots: Vec<Slot> = vec![];
    let mut body = Some(body);
    let mut patience = 200;
    loop {
        let id = {
            let mut i = world.inner();
            if i.failure.as_ref().is_some_and(|f| f.why != Why::Panic) || i.schedule.steps > i.schedule.limit
            {
                break;
            }
            for (id, body) in std::mem::take(&mut i.births) {
                while slots.len() + first <= id {
                    slots.push(Slot { fiber: None, yielder: std::ptr::null(), stack_bytes });
                }
                slots[id - first] = Slot::new(stack_bytes, body);
            }
            if let Some(body) = body.take() {
                slots.push(Slot::new(stack_bytes, body));
            }
            match i.next.take().or_else(|| i.schedule.next(None)) {
                Some(id) => id,
                None if i.schedule.all_done() => break,
                None if patience > 0 && i.schedule.wake_lockers() => {
                    patience -= 1;
                    drop(i);
                    std::thread::sleep(std::time::Duration::from_micros(50));
                    continue;
                }
                None => {
                    let message = i.schedule.report();
                    let failure =
                        Failure { seed: world.seed(), step: i.schedule.steps, why: Why::Deadlock, message };
                    i.fail(failure);
                    break;
                }
            }
        };
        let slot = &mut slots[id - first];
        let Some(fiber) = &mut slot.fiber else { unreachable!("fiber {id} was scheduled and has no stack") };
        current.id.set(id);
        current.yielder.set(slot.yielder);
        match fiber.resume(()) {
            CoroutineResult::Yield(()) => slot.yielder = current.yielder.get(),
            CoroutineResult::Return(()) => {
                if let Some(fiber) = slot.fiber.take() {
                    give_stack(slot.stack_bytes, fiber.into_stack())
                }
                let mut i = world.inner();
                i.schedule.done(id);
                i.note(id as u64 | 2 << 32, || format!("fiber {id} ended"));
            }
        }
    }
    drop(running);
    for slot in slots {
        if let Some(mut fiber) = slot.fiber {
            // SAFETY: the fiber is abandoned where it is (sim/W3): what its stack owns leaks, as if
            // forgotten, and nothing refers to the stack itself any more, since all that ran in this world
            // has stopped.
            unsafe { fiber.force_reset() };
            give_stack(slot.stack_bytes, fiber.into_stack());
        }
    }
}

/// The result of a fiber, for whoever joins it.
pub(crate) struct Outcome<T> {
    done: AtomicBool,
    value: std::sync::Mutex<Option<std::thread::Result<T>>>,
}
impl<T> Outcome<T> {
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }
    pub fn join(&self, at: &'static Location<'static>) -> std::thread::Result<T> {
        while !self.is_done() {
            if super::park(self as *const Outcome<T> as usize, None, "another fiber's end", at).is_none() {
                return Err(Box::new("a fiber was abandoned with its world"));
            }
        }
        let value = self.value.lock().unwrap_or_else(|e| e.into_inner()).take();
        value.unwrap_or_else(|| Err(Box::new("a fiber was joined twice")))
    }
}

/// Starts a fiber, of that worker or as a thread; gives `f` back outside a world.
pub(crate) fn spawn<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(
    name: &str,
    worker: Option<usize>,
    f: F,
) -> Result<Arc<Outcome<T>>, F> {
    let Some(world) = with(|c| c.world.clone()) else { return Err(f) };
    let outcome = Arc::new(Outcome { done: AtomicBool::new(false), value: std::sync::Mutex::new(None) });
    let theirs = outcome.clone();
    let mut i = world.inner();
    let id = i.schedule.add(name, worker);
    let body = move || {
        let result = catch_unwind(AssertUnwindSafe(f));
        let result = result.map_err(|payload| {
            let text = with(|c| c.world.fiber_panicked(c.id(), &*payload));
            Box::new(text.unwrap_or_default()) as Box<dyn Any + Send>
        });
        *theirs.value.lock().unwrap_or_else(|e| e.into_inner()) = Some(result);
        theirs.done.store(true, Ordering::Release);
        super::unpark_all(Arc::as_ptr(&theirs) as usize);
    };
    i.births.push((id, Box::new(body)));
    i.note(id as u64 | 3 << 32, || format!("fiber {id} \"{name}\" started"));
    drop(i);
    Ok(outcome)
}
