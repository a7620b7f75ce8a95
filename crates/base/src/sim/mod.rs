//! The simulated world: the whole engine on fibers of one OS thread, with its own scheduler, clock,
//! randomness and disks, all ruled by one seed.
//!
//! ```
//! use ondol_base::{media::{Open, Storage}, sim::{Config, World}, sync::Mutex, thread};
//! use std::sync::Arc;
//!
//! let world = World::new(7, Config::default());
//! let disk = world.disk("data");
//! world.run(|| {
//!     let total = Arc::new(Mutex::new(0));
//!     let t = total.clone();
//!     let other = thread::spawn("other", move || *t.lock() += 1).unwrap();
//!     *total.lock() += 1;
//!     other.join().unwrap();
//!     let file = disk.open("total", Open::Create).unwrap();
//!     file.write_at(&[*total.lock()], 0).unwrap();
//! });
//! world.power_failure();
//! // Neither the name nor the byte was synced: this seed decides what is left.
//! let next = world.reboot(8);
//! assert!(next.disk("data").contents("total").is_none_or(|bytes| bytes.is_empty() || bytes[0] <= 2));
//! ```
//!
//! - **W1** The same seed, configuration and closure give the same run, step by step: [`World::trace_hash`]
//!   folds every scheduling decision and every I/O operation with its result.
//! - **W2** A fiber runs until it blocks, does I/O, spins, or passes a yield point. Nothing else lets others
//!   run.
//! - **W3** A panic of any fiber fails the world. The others then meet failing I/O and may end by themselves
//!   within some steps; whoever has not is abandoned, with what its stack owns: nothing is unwound by force.
//! - **W4** Worlds share nothing. Many may run at once, each on its own OS thread.
//!
//! Inside a world [`crate::sync`], [`crate::thread`], [`crate::fiber`], [`crate::clock`], [`crate::random`],
//! [`crate::event`] and [`crate::net`] are the world's; on any other thread they are the operating system's.
//! Code that shares a lock between a world and other threads is waited for, but not deterministic.
//!
//! What is not simulated: weak memory (each step is sequentially consistent), short reads of files, Unix
//! sockets, data races.
//!
//! Sources: FoundationDB and TigerBeetle for simulating everything under one seed; Rebello et al., "Can
//! applications recover from fsync failures?" (2020) for syncs that lose bytes and then succeed.
mod content;
mod fiber;
mod memory;
mod names;
pub mod net;
mod random;
mod schedule;
mod storage;
mod task;
#[cfg(test)]
mod tests;
mod world;

pub use fiber::{Failure, Why};
pub use net::Network;
pub use random::Random;
pub use storage::SimStorage;
pub use world::{Config, IoKind, World};

use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Worlds that run now, in the whole process.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// How waits for a latch are named: these alone may depend on threads outside the world.
const LATCHED: &str = "lock";

/// Whether the current thread may be in a world: the check that production code pays.
#[inline(always)]
pub(crate) fn any() -> bool {
    // A thread that runs a world has counted it itself, so the order of others does not matter.
    RUNNING.load(Ordering::Relaxed) != 0
}

/// The world that the caller runs in.
pub fn current() -> Option<Arc<World>> {
    if any() { fiber::with(|c| c.world.clone()) } else { None }
}

/// The running fiber, or `usize::MAX` outside.
fn fiber_id() -> usize {
    if any() { fiber::with(|c| c.id()).unwrap_or(usize::MAX) } else { usize::MAX }
}

/// Whether the power of the world that the caller runs in is lost: what mapped memory cannot say, as its
/// operations do not fail.
pub fn power_is_lost() -> bool {
    any() && fiber::with(|c| c.world.power_is_lost()).unwrap_or(false)
}

/// Lets others run, perhaps. False outside a world.
#[cold]
pub(crate) fn yield_now(what: &'static str, at: &'static Location<'static>) -> bool {
    fiber::pause(schedule::Pause::Yield, what, at).is_some()
}
/// Lets others run. False outside a world.
#[cold]
pub(crate) fn spin(at: &'static Location<'static>) -> bool {
    fiber::pause(schedule::Pause::Spin, "spinning", at).is_some()
}
/// Waits at an address, for `limit` at most; true when the time ran out. Nothing outside a world. Keeps its
/// worker's thread (sim/schedule/F5).
#[cold]
pub(crate) fn park(
    addr: usize,
    limit: Option<Duration>,
    what: &'static str,
    at: &'static Location<'static>,
) -> Option<bool> {
    wait(addr, limit, false, what, at)
}
/// The same; `gives_way` if other fibers of its worker may run meanwhile.
#[cold]
pub(crate) fn wait(
    addr: usize,
    limit: Option<Duration>,
    gives_way: bool,
    what: &'static str,
    at: &'static Location<'static>,
) -> Option<bool> {
    let now = fiber::with(|c| c.world.now_ns())?;
    let ns = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX / 2);
    let deadline = limit.map_or(u64::MAX, |d| now.saturating_add(ns(d)).min(u64::MAX - 1));
    fiber::pause(schedule::Pause::Park { addr, deadline, gives_way }, what, at)
}
#[cold]
pub(crate) fn unpark_all(addr: usize) {
    fiber::with(|c| c.world.inner().schedule.unpark_all(addr));
}
#[cold]
pub(crate) fn unpark_one(addr: usize) {
    fiber::with(|c| c.world.inner().schedule.unpark_one(addr));
}
/// A wait is to return without a reason. Nothing outside a world.
#[cold]
pub(crate) fn spurious() -> Option<bool> {
    fiber::with(|c| {
        let p = c.world.config().spurious_wakes;
        c.world.inner().schedule.chance(p)
    })
}
pub(crate) use fiber::{Outcome, spawn};
pub(crate) use memory::{borrow, lend};
pub(crate) use task::{Task, Turns};

/// A thread of the world that runs fibers in turns, as a [`crate::fiber::Worker`] does outside: one that
/// waits by [`crate::park::Parker::park`] leaves it to another, whose choice is the seed's; one that waits
/// otherwise keeps it.
#[derive(Clone, Copy, Debug)]
pub struct Worker(usize);
impl Worker {
    /// None outside a world.
    pub fn new() -> Option<Worker> {
        fiber::with(|c| Worker(c.world.inner().schedule.add_worker()))
    }
    /// Starts a fiber of this worker.
    ///
    /// # Errors
    /// Outside of the world that the worker is of.
    #[track_caller]
    pub fn spawn<T: Send + 'static>(
        self,
        name: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<crate::thread::JoinHandle<T>> {
        let outside = |_| std::io::Error::other("a simulated worker's fiber is started outside of its world");
        let outcome = spawn(name, Some(self.0), f).map_err(outside)?;
        crate::sync::yield_point();
        Ok(outcome.into())
    }
}
/// Whether the caller is a fiber of a [`Worker`].
pub(crate) fn has_worker() -> bool {
    any() && fiber::with(|c| c.world.inner().schedule.fibers[c.id()].worker.is_some()).unwrap_or(false)
}

/// Counts `label` in the world that runs here, if one does.
#[inline]
pub fn mark(label: &'static str) {
    if any() {
        fiber::with(|c| c.world.count_mark(label));
    }
}

/// Puts a line into the trace of the world that runs here. False outside.
pub fn note(line: impl FnOnce() -> String) -> bool {
    any() && fiber::with(|c| c.world.inner().note(0x107E, line)).is_some()
}

/// Whether the world that runs here wants the known-wrong variant of that name, which its tests must notice.
/// False outside a world, where it is free.
#[inline]
pub fn mutated(variant: &'static str) -> bool {
    any() && is_wanted(variant)
}

#[cold]
fn is_wanted(variant: &'static str) -> bool {
    fiber::with(|c| c.world.config().mutation == Some(variant)).unwrap_or(false)
}

/// Says that the fiber is in the phase `label` until the guard is dropped, and counts it as [`mark`] does.
/// A harness asks [`World::phases_at_failure`]. Outside a world it is free.
#[inline]
pub fn phase(label: &'static str) -> Phase {
    let inside = any()
        && fiber::with(|c| {
            c.world.count_mark(label);
            c.world.inner().schedule.fibers[c.id()].phases.push(label);
        })
        .is_some();
    Phase { label, inside, _here: PhantomData }
}

/// See [`phase`].
#[must_use = "the phase ends when this is dropped"]
pub struct Phase {
    label: &'static str,
    inside: bool,
    /// It belongs to its fiber.
    _here: PhantomData<*const ()>,
}
impl Drop for Phase {
    #[inline]
    fn drop(&mut self) {
        if self.inside {
            fiber::with(|c| {
                let phases = &mut c.world.inner().schedule.fibers[c.id()].phases;
                if let Some(i) = phases.iter().rposition(|p| *p == self.label) {
                    phases.remove(i);
                }
            });
        }
    }
}
