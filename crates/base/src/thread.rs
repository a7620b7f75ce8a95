//! Threads: the operating system's, or fibers of a simulated world.
use crate::sim;
use std::panic::Location;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub struct JoinHandle<T>(Handle<T>);
enum Handle<T> {
    Thread(std::thread::JoinHandle<T>),
    Fiber(Arc<sim::Outcome<T>>),
}
impl<T> JoinHandle<T> {
    /// The thread's result, or its panic.
    #[track_caller]
    pub fn join(self) -> std::thread::Result<T> {
        match self.0 {
            Handle::Thread(t) => t.join(),
            Handle::Fiber(f) => f.join(Location::caller()),
        }
    }
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Handle::Thread(t) => t.is_finished(),
            Handle::Fiber(f) => f.is_done(),
        }
    }
}
impl<T> From<Arc<sim::Outcome<T>>> for JoinHandle<T> {
    fn from(of: Arc<sim::Outcome<T>>) -> JoinHandle<T> {
        JoinHandle(Handle::Fiber(of))
    }
}
/// Starts a thread named `name`.
#[track_caller]
pub fn spawn<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    let f = if sim::any() {
        match sim::spawn(name, None, f) {
            Ok(outcome) => {
                crate::sync::yield_point();
                return Ok(outcome.into());
            }
            Err(f) => f,
        }
    } else {
        f
    };
    std::thread::Builder::new().name(name.to_string()).spawn(f).map(|t| JoinHandle(Handle::Thread(t)))
}
#[track_caller]
pub fn sleep(time: Duration) {
    if sim::any() && sim::park(0, Some(time), "the end of its sleep", Location::caller()).is_some() {
        return;
    }
    std::thread::sleep(time)
}
/// Lowers the priority of the calling thread for good, whose work is long and waited for by few: others of
/// the machine that can run have some ten times its share of a processor, and have one at once when they
/// wake. In simulated worlds, and where the system refuses, it is as it was.
pub fn stand_back() {
    const NICER: libc::c_int = 10;
    if sim::current().is_none() {
        // SAFETY: it has no preconditions. On Linux it is about the calling thread alone.
        unsafe { libc::nice(NICER) };
    }
}
/// Threads worth starting for parallel work.
pub fn parallelism() -> usize {
    // Asking the system reads several files.
    static CORES: OnceLock<usize> = OnceLock::new();
    match sim::current() {
        Some(world) => world.config().parallelism.max(1),
        None => *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get())),
    }
}
