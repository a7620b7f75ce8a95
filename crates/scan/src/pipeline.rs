//! Parts handed out to workers, and gathered.
//!
//! ```text
//!   parts 0, 1, 2, …  →  workers, each: read, prove, convert  →  waiting room, bounded  →  gather (the caller's thread)
//! ```
//!
//! - **G1** Each part is worked on once, by one worker. A worker that is free takes the next part, so no thread ends early but for the length of one part.
//! - **G2** A worker takes part n only while n is less than `ahead` parts from the first one that is not gathered. So what waits is bounded, and in
//!   order the next part to be gathered always has a worker: nobody waits for ever.
//! - **G3** The first error, of a part or of gathering, ends the run: no further part is begun, and `run` returns when all workers have. An error of a part is
//!   returned in order's place: parts before it were gathered, when in order.
//!
//! What a worker makes of a part is all it hands over (text, an encoded row group), never single records: a thesis on parallel scans of InnoDB lost in its
//! output stage what it had won in reading (the one lock here is taken twice for each part of a megabyte or more). With 64 cores at 3 GB/s each that lock would be taken some
//! 400,000 times a second, which is where this design would stop; larger parts move that.

use ondol_base::sync::{Condvar, Mutex};
use ondol_base::thread;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Threads that work; at least one.
    pub workers: usize,
    /// Gather parts in their order. Otherwise as they come.
    pub ordered: bool,
    /// Parts that may be begun beyond the first that is not gathered; at least as many as workers.
    pub ahead: usize,
}

struct Shared<T, E> {
    state: Mutex<State<T, E>>,
    /// Workers wait here for room, the gatherer for results.
    room: Condvar,
    ready: Condvar,
}
struct State<T, E> {
    /// The next part to hand out, and how many there are.
    next: usize,
    parts: usize,
    /// Results that wait, and how many were gathered.
    waiting: BTreeMap<usize, Result<T, E>>,
    gathered: usize,
    stop: bool,
}

/// Runs `work` for each of `parts` parts, on threads that each begin with a state of `state()`, and `gather` for each result on this thread.
pub fn run<S, T, E>(
    parts: usize,
    options: Options,
    state: impl Fn() -> S + Send + Sync + 'static,
    work: impl Fn(&mut S, usize) -> Result<T, E> + Send + Sync + 'static,
    mut gather: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), E>
where
    T: Send + 'static,
    E: Send + From<std::io::Error> + 'static,
{
    let workers = options.workers.clamp(1, parts.max(1));
    let ahead = options.ahead.max(workers);
    let shared = Arc::new(Shared {
        state: Mutex::new(State { next: 0, parts, waiting: BTreeMap::new(), gathered: 0, stop: false }),
        room: Condvar::new(),
        ready: Condvar::new(),
    });
    let job = Arc::new((state, work));
    let mut threads = Vec::new();
    for n in 0..workers {
        let (shared, job) = (shared.clone(), job.clone());
        let started = thread::spawn(&format!("scan-{n}"), move || {
            let _end = Leaving(shared.clone());
            let mut state = (job.0)();
            while let Some(part) = shared.take(ahead) {
                let result = (job.1)(&mut state, part);
                let failed = result.is_err();
                shared.put(part, result);
                if failed {
                    break;
                }
            }
        });
        match started {
            Ok(t) => threads.push(t),
            // Fewer threads do it as well; none do not.
            Err(e) if threads.is_empty() => return Err(e.into()),
            Err(_) => break,
        }
    }
    let mut outcome = Ok(());
    for turn in 0..parts {
        let Some((part, result)) = shared.next(options.ordered, turn) else { break };
        outcome = result.and_then(|r| gather(part, r));
        if outcome.is_err() {
            break;
        }
        shared.gathered();
    }
    shared.stop();
    let mut panicked = None;
    for t in threads {
        if let Err(panic) = t.join() {
            panicked = Some(panic);
        }
    }
    if let Some(panic) = panicked {
        std::panic::resume_unwind(panic);
    }
    outcome
}

/// A worker that panics must not leave the gatherer waiting.
struct Leaving<T, E>(Arc<Shared<T, E>>);
impl<T, E> Drop for Leaving<T, E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

impl<T, E> Shared<T, E> {
    fn take(&self, ahead: usize) -> Option<usize> {
        let mut state = self.state.lock();
        loop {
            if state.stop || state.next == state.parts {
                return None;
            }
            if state.next < state.gathered + ahead {
                state.next += 1;
                return Some(state.next - 1);
            }
            state = self.room.wait(state);
        }
    }
    fn put(&self, part: usize, result: Result<T, E>) {
        let mut state = self.state.lock();
        state.waiting.insert(part, result);
        drop(state);
        self.ready.notify_one();
    }
    fn next(&self, ordered: bool, turn: usize) -> Option<(usize, Result<T, E>)> {
        let mut state = self.state.lock();
        loop {
            if ordered {
                if let Some(result) = state.waiting.remove(&turn) {
                    return Some((turn, result));
                }
            } else if let Some(first) = state.waiting.pop_first() {
                return Some(first);
            }
            if state.stop {
                return None;
            }
            state = self.ready.wait(state);
        }
    }
    fn gathered(&self) {
        self.state.lock().gathered += 1;
        self.room.notify_all();
    }
    fn stop(&self) {
        self.state.lock().stop = true;
        self.room.notify_all();
        self.ready.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    type Io = std::io::Error;

    fn options(workers: usize, ordered: bool) -> Options {
        Options { workers, ordered, ahead: workers + 2 }
    }

    #[test]
    fn every_part_comes_once_and_in_order() {
        for workers in [1, 2, 7] {
            for ordered in [true, false] {
                let mut seen = Vec::new();
                let work = |_: &mut (), part: usize| Ok::<_, Io>(part * 10);
                run(
                    100,
                    options(workers, ordered),
                    || (),
                    work,
                    |part, value| {
                        assert_eq!(value, part * 10);
                        seen.push(part);
                        Ok(())
                    },
                )
                .unwrap();
                if !ordered {
                    seen.sort();
                }
                assert_eq!(seen, (0..100).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn what_waits_is_bounded() {
        let begun = Arc::new(AtomicUsize::new(0));
        let counter = begun.clone();
        let mut gathered = 0;
        let work = move |_: &mut (), _| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Io>(())
        };
        run(
            200,
            Options { workers: 3, ordered: true, ahead: 5 },
            || (),
            work,
            |_, ()| {
                std::thread::sleep(std::time::Duration::from_micros(200));
                assert!(
                    begun.load(Ordering::Relaxed) <= gathered + 5,
                    "{} begun, {gathered} gathered",
                    begun.load(Ordering::Relaxed)
                );
                gathered += 1;
                Ok(())
            },
        )
        .unwrap();
    }

    #[test]
    fn the_first_error_ends_the_run() {
        let mut gathered = 0;
        let work = |_: &mut (), part| if part == 30 { Err(Io::other("part 30")) } else { Ok(part) };
        let outcome = run(
            1000,
            options(4, true),
            || (),
            work,
            |_, _| {
                gathered += 1;
                Ok(())
            },
        );
        assert_eq!(outcome.unwrap_err().to_string(), "part 30");
        assert_eq!(gathered, 30);
        let outcome = run(
            1000,
            options(4, false),
            || (),
            |_: &mut (), part| Ok::<_, Io>(part),
            |_, _| Err(Io::other("no room")),
        );
        assert_eq!(outcome.unwrap_err().to_string(), "no room");
    }

    #[test]
    fn a_panic_of_a_worker_comes_out() {
        let work = |_: &mut (), part| if part == 3 { panic!("three") } else { Ok::<usize, Io>(part) };
        let caught = std::panic::catch_unwind(|| run(10, options(2, true), || (), work, |_, _| Ok(())));
        assert!(caught.is_err());
    }

    #[test]
    fn nothing_to_do_is_done() {
        run(0, options(2, true), || (), |_: &mut (), _| Ok::<(), Io>(()), |_, ()| Ok(())).unwrap();
    }
}
