//! The workers of the process: threads that run jobs for statements, imports and recovery.
//!
//! ```text
//! who has work for several threads   spawn, for each job -> does what only it can do -> join
//! a worker                           begins the jobs it is given, each a fiber -> runs them in turns
//! ```
//! - **B1** The pool is sized once: [`set_workers`] before its first job, else as many workers as there are
//!   cores. Its threads start with that job, and stay.
//! - **B2** A job is a fiber. While it waits, by [`crate::park`], it holds no worker; so a job may wait for
//!   whatever a statement may wait for, other jobs included, and some job can go on as long as one does not
//!   wait. A job that blocks its thread (for a file) keeps the worker's other jobs waiting.
//! - **B3** A job calls [`crate::fiber::yield_now`] between pieces of its work, some milliseconds each: jobs
//!   of several statements take turns.
//! - **B4** A job that has not begun when it is joined never begins: whoever joins it has nothing left for
//!   it to do.
//! - **B5** Where the process answers many clients, its threads stand back ([`stand_back`]): what takes long
//!   is not to keep short work waiting.
//!
//! In a simulated world each job is a thread of that world.
use crate::fiber::{Bell, Turn, Worker};
use crate::park::{self, Parker};
use crate::sync::Mutex;
use crate::{sim, thread};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Bytes of a job's stack: as a thread has. What is never touched takes no memory.
const STACK: usize = 2 << 20;

/// What a worker is given.
#[derive(Default)]
struct Member {
    jobs: Mutex<Vec<Arc<dyn Run>>>,
    /// Jobs that were given and have not ended, and those that have.
    open: AtomicUsize,
    ended: AtomicU64,
    /// Rung when there is a job; there once the thread runs.
    bell: OnceLock<Bell>,
}

static MEMBERS: OnceLock<Vec<Arc<Member>>> = OnceLock::new();
/// How many were asked for; 0: as many as there are cores. Held while the pool starts.
static SIZE: Mutex<usize> = Mutex::new(0);

/// Whether the workers stand back (B5).
static BACK: AtomicBool = AtomicBool::new(false);

/// The workers, also those that there are, have a lower priority from their next job on (B5).
pub fn stand_back() {
    BACK.store(true, Ordering::Relaxed)
}

/// How many workers the process is to have; false if the pool has started already.
pub fn set_workers(n: usize) -> bool {
    let mut size = SIZE.lock();
    *size = n;
    MEMBERS.get().is_none()
}
/// Workers that the process has, or will have.
pub fn workers() -> usize {
    match MEMBERS.get() {
        Some(members) => members.len(),
        None => Some(*SIZE.lock()).filter(|n| *n > 0).unwrap_or_else(thread::parallelism),
    }
}

/// What a worker does, as of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Jobs that it was given and that have not ended; those that wait are among them.
    pub jobs: usize,
    /// Jobs that have ended.
    pub ended: u64,
}
/// The load of each worker; of none before the first job.
pub fn loads() -> Vec<Load> {
    let Some(members) = MEMBERS.get() else { return vec![Load::default(); workers()] };
    let load = |m: &Arc<Member>| Load {
        jobs: m.open.load(Ordering::Relaxed),
        ended: m.ended.load(Ordering::Relaxed),
    };
    members.iter().map(load).collect()
}

fn members() -> std::io::Result<&'static [Arc<Member>]> {
    if let Some(members) = MEMBERS.get() {
        return Ok(members);
    }
    let size = SIZE.lock();
    if let Some(members) = MEMBERS.get() {
        return Ok(members);
    }
    let wanted = if *size > 0 { *size } else { thread::parallelism() };
    let mut members: Vec<Arc<Member>> = vec![];
    for n in 0..wanted {
        let member = Arc::<Member>::default();
        let its = member.clone();
        let started =
            std::thread::Builder::new().name(format!("ondol-worker-{n}")).spawn(move || its.serve());
        match started {
            Ok(_) => members.push(member),
            // Fewer do it as well; none do not.
            Err(e) if members.is_empty() => return Err(e),
            Err(_) => break,
        }
    }
    Ok(MEMBERS.get_or_init(|| members))
}

impl Member {
    fn give(&self, job: Arc<dyn Run>) {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.jobs.lock().push(job);
        // A thread that has no bell yet looks at the jobs before it sleeps.
        if let Some(bell) = self.bell.get() {
            bell.ring()
        }
    }
    fn serve(self: Arc<Self>) {
        let mut worker = Worker::new(STACK);
        self.bell.get_or_init(|| worker.bell());
        let mut is_back = false;
        loop {
            if !is_back && BACK.load(Ordering::Relaxed) {
                thread::stand_back();
                is_back = true
            }
            let jobs = std::mem::take(&mut *self.jobs.lock());
            for job in jobs {
                let member = self.clone();
                worker.start(move || {
                    job.run(&|| {
                        member.open.fetch_sub(1, Ordering::Relaxed);
                        member.ended.fetch_add(1, Ordering::Relaxed);
                    })
                })
            }
            match worker.turn(None) {
                Ok(Turn::Ran | Turn::Idle) => {}
                Ok(Turn::Empty) => worker.sleep(),
                // No memory for a stack: others' may come free.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

trait Run: Send + Sync {
    /// Calls `ended` when the work is done, before its joiner is told. Does not panic.
    fn run(&self, ended: &dyn Fn());
}

type Work<T> = Box<dyn FnOnce() -> T + Send>;

struct Task<T> {
    /// Until it begins, or is not to begin any more (B4).
    work: Mutex<Option<Work<T>>>,
    result: Mutex<Option<std::thread::Result<T>>>,
    /// Who joins it waits here.
    joiner: Parker,
}
impl<T: Send> Run for Task<T> {
    fn run(&self, ended: &dyn Fn()) {
        let work = self.work.lock().take();
        let result = work.map(|work| catch_unwind(AssertUnwindSafe(work)));
        ended();
        if result.is_some() {
            *self.result.lock() = result;
            self.joiner.unpark()
        }
    }
}

/// Work that was given to the pool. Dropped, it goes on by itself.
pub struct Job<T>(Carrier<T>);
enum Carrier<T> {
    Worker(Arc<Task<T>>),
    World(thread::JoinHandle<T>),
}

/// Gives `work` to the worker that has the fewest jobs. `name` is what a simulated world calls it.
///
/// # Errors
/// If the pool has no thread yet, and the system starts none.
#[track_caller]
pub fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<Job<T>> {
    if sim::current().is_some() {
        return thread::spawn(name, work).map(|t| Job(Carrier::World(t)));
    }
    let members = members()?;
    let task = Arc::new(Task {
        work: Mutex::new(Some(Box::new(work))),
        result: Mutex::new(None),
        joiner: Parker::new(),
    });
    if let Some(least) = members.iter().min_by_key(|m| m.open.load(Ordering::Relaxed)) {
        least.give(task.clone())
    }
    Ok(Job(Carrier::Worker(task)))
}

impl<T> Job<T> {
    /// Waits for its end: its result, or its panic. `None`: it had not begun, and never will (B4).
    #[track_caller]
    pub fn join(self) -> Option<std::thread::Result<T>> {
        let task = match self.0 {
            Carrier::World(t) => return Some(t.join()),
            Carrier::Worker(task) => task,
        };
        let unbegun = task.work.lock().take();
        if unbegun.is_some() {
            return None;
        }
        loop {
            let result = task.result.lock().take();
            if result.is_some() {
                return result;
            }
            // Who unwinds, or holds a guard over all of its work, keeps its thread.
            match park::guards_held() {
                0 => task.joiner.park(None),
                _ => task.joiner.block(None),
            };
        }
    }
}

/// Calls `f` for each item below `n`, in up to `threads` places, the caller's thread among them; ends early
/// at the first error that any of them meets.
pub fn each<E: Send + 'static>(
    threads: usize,
    n: usize,
    f: impl Fn(usize) -> Result<(), E> + Send + Sync + 'static,
) -> Result<(), E> {
    each_with(threads, n, move |_: &mut (), i| f(i))
}

/// The same with something that each place makes once and keeps: a buffer, say.
pub fn each_with<S: Default, E: Send + 'static>(
    threads: usize,
    n: usize,
    f: impl Fn(&mut S, usize) -> Result<(), E> + Send + Sync + 'static,
) -> Result<(), E> {
    if threads <= 1 || n <= 1 {
        let mut own = S::default();
        return (0..n).try_for_each(|i| f(&mut own, i));
    }
    let next = Arc::new(AtomicUsize::new(0));
    let f = Arc::new(f);
    let work = move |next: &AtomicUsize, f: &dyn Fn(&mut S, usize) -> Result<(), E>| -> Result<(), E> {
        let mut own = S::default();
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= n {
                return Ok(());
            }
            if let Err(e) = f(&mut own, i) {
                next.store(n, Ordering::Relaxed);
                return Err(e);
            }
            crate::fiber::yield_now()
        }
    };
    let mut jobs = vec![];
    for _ in 1..threads.min(n) {
        let (next, f) = (next.clone(), f.clone());
        // Too few only make it slower.
        jobs.extend(spawn("each", move || work(&next, &*f)).ok())
    }
    let mut result = work(&next, &*f);
    for job in jobs {
        match job.join() {
            Some(Ok(r)) => result = result.and(r),
            Some(Err(panic)) => resume_unwind(panic),
            None => {}
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fiber::yield_now;
    use std::sync::mpsc;

    #[test]
    fn what_waits_holds_no_worker() {
        // More jobs than any machine has workers, each waiting for the next.
        const MANY: usize = 500;
        let parkers: Vec<Arc<Parker>> = (0..MANY + 1).map(|_| Arc::default()).collect();
        let jobs: Vec<_> = (0..MANY)
            .map(|i| {
                let (own, before) = (parkers[i + 1].clone(), parkers[i].clone());
                spawn("waits", move || {
                    own.park(None);
                    before.unpark();
                    i
                })
                .unwrap()
            })
            .collect();
        assert!(loads().iter().map(|l| l.jobs).sum::<usize>() >= MANY);
        assert_eq!(loads().len(), workers());
        assert!(!set_workers(3), "the pool has started");
        parkers[MANY].unpark();
        // Each spawned job has begun by the time that the one behind it tells it, or never will.
        parkers[0].park(None);
        for (i, job) in jobs.into_iter().enumerate() {
            assert_eq!(job.join().unwrap().unwrap(), i)
        }
    }

    #[test]
    fn jobs_take_turns() {
        let (send, told) = mpsc::channel();
        let stop = Arc::new(AtomicUsize::new(0));
        let long = |mark: usize| {
            let (send, stop) = (send.clone(), stop.clone());
            spawn("long", move || {
                let mut sent = false;
                while stop.load(Ordering::Relaxed) == 0 {
                    if !std::mem::replace(&mut sent, true) {
                        send.send(mark).unwrap()
                    }
                    yield_now()
                }
            })
            .unwrap()
        };
        // All of them begin, though none of them ends before the last has begun.
        let jobs: Vec<_> = (0..3 * workers()).map(long).collect();
        let mut begun: Vec<_> = told.iter().take(jobs.len()).collect();
        begun.sort();
        assert_eq!(begun, (0..jobs.len()).collect::<Vec<_>>());
        stop.store(1, Ordering::Relaxed);
        for job in jobs {
            job.join().unwrap().unwrap()
        }
    }

    #[test]
    fn what_has_not_begun_never_does() {
        // Each worker is kept by a job that does not give way.
        let gate = Arc::new(AtomicUsize::new(0));
        let keepers: Vec<_> = (0..64 * workers())
            .map(|_| {
                let gate = gate.clone();
                spawn("keeps", move || {
                    while gate.load(Ordering::Acquire) == 0 {
                        std::thread::sleep(Duration::from_millis(1))
                    }
                })
                .unwrap()
            })
            .collect();
        let alive = Arc::new(());
        let theirs = alive.clone();
        let job = spawn("late", move || drop(theirs)).unwrap();
        assert!(job.join().is_none());
        assert_eq!(Arc::strong_count(&alive), 1);
        gate.store(1, Ordering::Release);
        for job in keepers {
            job.join();
        }
    }

    #[test]
    fn a_panic_is_its_jobs_alone() {
        let job = spawn("panics", || panic!("on purpose")).unwrap();
        while job.0.is_open() {
            std::thread::yield_now()
        }
        assert!(job.join().unwrap().is_err());
        // Whichever worker it was, it goes on.
        let jobs: Vec<_> = (0..64).map(|i| spawn("after", move || i).unwrap()).collect();
        for (i, job) in jobs.into_iter().enumerate() {
            if let Some(done) = job.join() {
                assert_eq!(done.unwrap(), i)
            }
        }
    }

    impl<T> Carrier<T> {
        fn is_open(&self) -> bool {
            matches!(self, Carrier::Worker(task) if task.work.lock().is_some())
        }
    }

    #[test]
    fn each_item_is_taken_once_and_errors_come_out() {
        let seen = Arc::new(Mutex::new(vec![0; 1000]));
        let theirs = seen.clone();
        each(4, 1000, move |i| {
            theirs.lock()[i] += 1;
            Ok::<_, ()>(())
        })
        .unwrap();
        assert!(seen.lock().iter().all(|n| *n == 1));
        assert_eq!(each(4, 1000, |i| if i == 500 { Err(i) } else { Ok(()) }), Err(500));
    }
}
