//! Parts handed out to jobs of the process's workers ([`ondol_base::pool`]), and gathered.
//!
//! ```text
//!   parts 0, 1, 2, …  →  workers, each: read, prove, convert  →  waiting room, bounded  →  gather (the caller's thread)
//! ```
//!
//! - **G1** Each part is worked on once, by one job. A job that is free takes the next part, so none ends
//!   early but for the length of one part. After each part it lets other statements' jobs go on.
//! - **G2** A worker takes part n only while n is less than `ahead` parts from the first one that is not
//!   gathered, and of each part only [`PIECES`] pieces wait. So what waits is bounded, and in order the next
//!   part to be gathered always has a worker whose pieces are taken from it: nobody waits for ever. Who
//!   waits parks, and keeps no thread where it is a fiber: a statement whose rows nobody fetches leaves the
//!   workers to others.
//! - **G3** The first error, of a part or of gathering, ends the run: no further part is begun, and `run`
//!   returns when all workers have. An error of a part is returned in order's place: what was before it was
//!   gathered, when in order.
//! - **G4** Where the caller's thread makes the parts ([`Fed`]), it works on them too while none is there to
//!   be gathered. So it waits only for a part that a worker has, and does all alone where there is no worker.
//!
//! A worker hands over what it made of a part (text, batches, encoded row groups), in one piece or, where a
//! part becomes long, in several; never single records: a thesis on parallel scans of InnoDB lost in its
//! output stage what it had won in reading (the one lock here is taken three times for a part of a megabyte
//! or more). With 64 cores at 3 GB/s each that lock would be taken some 600,000 times a second, which is
//! where this design would stop; larger parts move that.

use ondol_base::fiber::yield_now;
use ondol_base::park::Parker;
use ondol_base::pool::{self, Job};
use ondol_base::sync::{Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

/// Pieces of one part that may wait.
const PIECES: usize = 2;

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Jobs that work; at least one.
    pub workers: usize,
    /// Gather parts in their order. Otherwise as they come; the pieces of one part are in order always.
    pub ordered: bool,
    /// Parts that may be begun beyond the first that is not gathered; at least as many as workers.
    pub ahead: usize,
}

/// Takes over what a worker made of its part.
pub struct Hand<'a, T, E> {
    shared: &'a Shared<T, E>,
    part: usize,
    parker: &'a Arc<Parker>,
}

/// The run has ended early, by an error or a wish; what its workers make is not wanted any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

struct Shared<T, E> {
    state: Mutex<State<T, E>>,
    /// The gatherer waits here for results.
    ready: Parker,
}
struct State<T, E> {
    /// The next part to hand out, how many there are, and whether there may be more.
    next: usize,
    parts: usize,
    more: bool,
    /// What waits of parts that were begun, and how many parts were gathered.
    waiting: BTreeMap<usize, Part<T, E>>,
    gathered: usize,
    stop: bool,
    /// Workers that wait for parts or for room.
    resting: Vec<Arc<Parker>>,
}
struct Part<T, E> {
    pieces: VecDeque<T>,
    /// How its work ended, if it did.
    end: Option<Result<(), E>>,
}

/// Runs `work` for each of `parts` parts, in jobs that each begin with a state of `state()`, and `gather` for
/// each piece that was handed over, on this thread. What `work` returns after the run was stopped is not
/// looked at.
pub fn run<S, T, E>(
    parts: usize,
    options: Options,
    state: impl Fn() -> S + Send + Sync + 'static,
    work: impl Fn(&mut S, usize, &Hand<'_, T, E>) -> Result<(), E> + Send + Sync + 'static,
    mut gather: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), E>
where
    T: Send + 'static,
    E: Send + From<std::io::Error> + 'static,
{
    let workers = options.workers.clamp(1, parts.max(1));
    let ahead = options.ahead.max(workers);
    let shared = Shared::new(State { parts, ..State::default() });
    let both = Arc::new((state, work));
    // Also when gathering panics, no job is left that works on what the caller may take away.
    let mut crew = Crew { shared: shared.clone(), jobs: Vec::new() };
    for n in 0..workers {
        let (shared, both) = (shared.clone(), both.clone());
        let started = pool::spawn(&format!("scan-{n}"), move || {
            let _end = Leaving(shared.clone());
            let parker = Arc::default();
            let mut state = (both.0)();
            while let Some(part) = shared.take(ahead, &parker) {
                let result = (both.1)(&mut state, part, &Hand { shared: &shared, part, parker: &parker });
                let failed = result.is_err();
                shared.end(part, result);
                if failed {
                    break;
                }
                yield_now()
            }
        });
        match started {
            Ok(job) => crew.jobs.push(job),
            // Fewer do it as well; none do not.
            Err(e) if crew.jobs.is_empty() => return Err(e.into()),
            Err(_) => break,
        }
    }
    let outcome = loop {
        match shared.next(options.ordered) {
            Some(Ok((part, piece))) => {
                if let Err(e) = gather(part, piece) {
                    break Err(e);
                }
            }
            Some(Err(e)) => break Err(e),
            None => break Ok(()),
        }
    };
    if let Some(panic) = crew.end() {
        std::panic::resume_unwind(panic);
    }
    outcome
}

/// Parts that the caller's thread makes one after the other, worked on by others too, and gathered in order.
///
/// The caller feeds parts and takes what became of them by turns; what is under way is for it to bound.
pub struct Fed<I, T> {
    line: Arc<Line<I, T>>,
    crew: Crew<T, Infallible>,
}
struct Line<I, T> {
    shared: Arc<Shared<T, Infallible>>,
    /// Parts that nobody works on yet.
    inputs: Mutex<BTreeMap<usize, I>>,
    work: Box<dyn Fn(I) -> T + Send + Sync>,
}

impl<I: Send + 'static, T: Send + 'static> Fed<I, T> {
    pub fn new(work: impl Fn(I) -> T + Send + Sync + 'static) -> Fed<I, T> {
        let shared = Shared::new(State { more: true, ..State::default() });
        let line = Line { shared: shared.clone(), inputs: Mutex::default(), work: Box::new(work) };
        Fed { line: Arc::new(line), crew: Crew { shared, jobs: Vec::new() } }
    }
    /// Starts so many workers, or fewer: the caller's thread does what they do not.
    pub fn start(&mut self, workers: usize) {
        for n in 0..workers {
            let line = self.line.clone();
            self.crew.jobs.extend(pool::spawn(&format!("feed-{n}"), move || {
                let _end = Leaving(line.shared.clone());
                let parker = Arc::default();
                while let Some(part) = line.shared.take(usize::MAX, &parker) {
                    line.work(part);
                    yield_now()
                }
            }))
        }
    }
    pub fn workers(&self) -> usize {
        self.crew.jobs.len()
    }
    /// The next part.
    pub fn feed(&self, input: I) {
        let mut state = self.line.shared.state.lock();
        self.line.inputs.lock().insert(state.parts, input);
        state.parts += 1;
        let one = state.resting.pop();
        drop(state);
        one.inspect(|worker| worker.unpark());
    }
    /// What became of the first part that was not gathered; `None` if all that were fed are (G4). A worker's
    /// panic comes out here.
    pub fn gather(&mut self) -> Option<T> {
        let shared = self.line.shared.clone();
        let mut state = shared.state.lock();
        loop {
            match state.found(true) {
                Some(Found::Piece(_, made)) => return Some(made),
                Some(Found::End(_)) => continue,
                None if state.gathered == state.parts => return None,
                None => {}
            }
            if state.stop {
                drop(state);
                match self.crew.end() {
                    Some(panic) => std::panic::resume_unwind(panic),
                    None => return None,
                }
            }
            if state.next < state.parts {
                let part = state.next;
                state.next += 1;
                drop(state);
                self.line.work(part);
                state = shared.state.lock();
            } else {
                state = shared.await_ready(state)
            }
        }
    }
}

impl<I, T> Line<I, T> {
    fn work(&self, part: usize) {
        let Some(input) = self.inputs.lock().remove(&part) else { return };
        let made = (self.work)(input);
        let mut state = self.shared.state.lock();
        state.waiting.insert(part, Part { pieces: [made].into(), end: Some(Ok(())) });
        drop(state);
        self.shared.ready.unpark()
    }
}

/// The jobs of a run.
struct Crew<T, E> {
    shared: Arc<Shared<T, E>>,
    jobs: Vec<Job<()>>,
}
impl<T, E> Crew<T, E> {
    /// Ends the run and waits for its jobs; gives the panic of one, if any panicked.
    fn end(&mut self) -> Option<Box<dyn std::any::Any + Send>> {
        self.shared.stop();
        let mut panic = None;
        for job in self.jobs.drain(..) {
            panic = job.join().and_then(Result::err).or(panic)
        }
        panic
    }
}
impl<T, E> Drop for Crew<T, E> {
    fn drop(&mut self) {
        self.end();
    }
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

impl<T, E> Hand<'_, T, E> {
    /// Hands over a piece of the part, in order; waits while too many wait.
    pub fn over(&self, piece: T) -> Result<(), Stopped> {
        let mut state = self.shared.state.lock();
        loop {
            if state.stop {
                return Err(Stopped);
            }
            let pieces = &mut state.waiting.entry(self.part).or_default().pieces;
            if pieces.len() < PIECES {
                pieces.push_back(piece);
                drop(state);
                self.shared.ready.unpark();
                return Ok(());
            }
            state = self.shared.await_room(state, self.parker);
        }
    }
}

impl<T, E> Default for Part<T, E> {
    fn default() -> Self {
        Part { pieces: VecDeque::new(), end: None }
    }
}

impl<T, E> Default for State<T, E> {
    fn default() -> Self {
        State {
            next: 0,
            parts: 0,
            more: false,
            waiting: BTreeMap::new(),
            gathered: 0,
            stop: false,
            resting: Vec::new(),
        }
    }
}

/// What waits.
enum Found<T, E> {
    Piece(usize, T),
    /// A part is gathered.
    End(Result<(), E>),
}

impl<T, E> State<T, E> {
    /// What is to be gathered next, if it waits.
    fn found(&mut self, ordered: bool) -> Option<Found<T, E>> {
        let turn = self.gathered;
        let (part, p) = if ordered {
            self.waiting.get_mut(&turn).map(|p| (turn, p))
        } else {
            let mut all = self.waiting.iter_mut().map(|(n, p)| (*n, p));
            all.find(|(_, p)| !p.pieces.is_empty() || p.end.is_some())
        }?;
        if let Some(piece) = p.pieces.pop_front() {
            return Some(Found::Piece(part, piece));
        }
        let end = p.end.take()?;
        self.waiting.remove(&part);
        self.gathered += 1;
        Some(Found::End(end))
    }
}

impl<T, E> Shared<T, E> {
    fn new(state: State<T, E>) -> Arc<Self> {
        Arc::new(Shared { state: Mutex::new(state), ready: Parker::new() })
    }
    /// Waits, as a worker, until something has changed.
    fn await_room<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<T, E>>,
        parker: &Arc<Parker>,
    ) -> MutexGuard<'a, State<T, E>> {
        // It may have been woken for nothing, and be there still.
        if !state.resting.iter().any(|p| Arc::ptr_eq(p, parker)) {
            state.resting.push(parker.clone())
        }
        drop(state);
        parker.park(None);
        self.state.lock()
    }
    /// The same as the gatherer.
    fn await_ready<'a>(&'a self, state: MutexGuard<'a, State<T, E>>) -> MutexGuard<'a, State<T, E>> {
        drop(state);
        self.ready.park(None);
        self.state.lock()
    }
    fn take(&self, ahead: usize, parker: &Arc<Parker>) -> Option<usize> {
        let mut state = self.state.lock();
        loop {
            if state.stop || state.next == state.parts && !state.more {
                return None;
            }
            if state.next < state.parts.min(state.gathered.saturating_add(ahead)) {
                state.next += 1;
                return Some(state.next - 1);
            }
            state = self.await_room(state, parker);
        }
    }
    fn end(&self, part: usize, result: Result<(), E>) {
        let mut state = self.state.lock();
        state.waiting.entry(part).or_default().end = Some(result);
        drop(state);
        self.ready.unpark();
    }
    /// The next piece to gather; `None` if all is gathered, or the run was stopped.
    fn next(&self, ordered: bool) -> Option<Result<(usize, T), E>> {
        let mut state = self.state.lock();
        loop {
            if state.gathered == state.parts {
                return None;
            }
            if let Some(found) = state.found(ordered) {
                state.resting.drain(..).for_each(|worker| worker.unpark());
                match found {
                    Found::Piece(part, piece) => return Some(Ok((part, piece))),
                    Found::End(Ok(())) => continue,
                    Found::End(Err(e)) => return Some(Err(e)),
                }
            }
            if state.stop {
                return None;
            }
            state = self.await_ready(state);
        }
    }
    fn stop(&self) {
        let mut state = self.state.lock();
        state.stop = true;
        state.resting.drain(..).for_each(|worker| worker.unpark());
        drop(state);
        self.ready.unpark()
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
                let work = |_: &mut (), part: usize, hand: &Hand<'_, usize, Io>| {
                    let _ = hand.over(part * 10);
                    Ok(())
                };
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
        let work = move |_: &mut (), _, hand: &Hand<'_, (), Io>| {
            counter.fetch_add(1, Ordering::Relaxed);
            let _ = hand.over(());
            Ok(())
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
        let work = |_: &mut (), part, hand: &Hand<'_, usize, Io>| match part {
            30 => Err(Io::other("part 30")),
            _ => {
                let _ = hand.over(part);
                Ok(())
            }
        };
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
            |_: &mut (), part, hand: &Hand<'_, usize, Io>| {
                let _ = hand.over(part);
                Ok(())
            },
            |_, _| Err(Io::other("no room")),
        );
        assert_eq!(outcome.unwrap_err().to_string(), "no room");
    }

    #[test]
    fn a_panic_of_a_worker_comes_out() {
        let work = |_: &mut (), part, hand: &Hand<'_, usize, Io>| {
            assert_ne!(part, 3, "three");
            let _ = hand.over(part);
            Ok(())
        };
        let caught = std::panic::catch_unwind(|| run(10, options(2, true), || (), work, |_, _| Ok(())));
        assert!(caught.is_err());
    }

    #[test]
    fn no_thread_is_left_when_gathering_panics() {
        let alive = Arc::new(());
        let theirs = alive.clone();
        let work = move |_: &mut (), part, hand: &Hand<'_, usize, Io>| {
            let _kept = &theirs;
            let _ = hand.over(part);
            Ok(())
        };
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run(
                100,
                options(3, true),
                || (),
                work,
                |part, _| {
                    assert_ne!(part, 5, "five");
                    Ok(())
                },
            )
        }));
        assert!(caught.is_err());
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn nothing_to_do_is_done() {
        let work = |_: &mut (), _, _: &Hand<'_, (), Io>| Ok(());
        run(0, options(2, true), || (), work, |_, ()| Ok(())).unwrap();
    }

    /// G4: with any number of workers, and however feeding and gathering take turns.
    #[test]
    fn what_is_fed_comes_in_order() {
        for workers in [0, 1, 3] {
            for ahead in [1, 2, 7] {
                let mut fed = Fed::new(|n: usize| n * 2);
                assert_eq!(fed.gather(), None);
                let (mut given, mut taken) = (0, 0);
                while taken < 100 {
                    while given < 100 && given - taken < ahead {
                        fed.feed(given);
                        given += 1;
                        if given == 2 {
                            fed.start(workers)
                        }
                    }
                    assert_eq!(fed.gather(), Some(taken * 2));
                    taken += 1
                }
                assert_eq!((fed.gather(), fed.workers()), (None, workers));
            }
        }
    }

    #[test]
    fn a_panic_of_a_fed_worker_comes_out_and_no_thread_is_left() {
        let alive = Arc::new(());
        let theirs = alive.clone();
        let started = Arc::new(AtomicUsize::new(0));
        let counter = started.clone();
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut fed = Fed::new(move |n: usize| {
                let _kept = &theirs;
                counter.fetch_add(1, Ordering::Relaxed);
                assert_ne!(n, 3, "three");
                n
            });
            fed.start(2);
            (0..8).for_each(|n| fed.feed(n));
            while fed.gather().is_some() {}
        }));
        assert!(caught.is_err() && started.load(Ordering::Relaxed) >= 4);
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    /// Parts of many pieces, of which no more wait than may, and a run that ends while workers wait for room.
    #[test]
    fn pieces_come_in_order_and_wait_for_room() {
        for ordered in [true, false] {
            let made = Arc::new(AtomicUsize::new(0));
            let counter = made.clone();
            let work = move |_: &mut (), part: usize, hand: &Hand<'_, (usize, usize), Io>| {
                for piece in 0..50 {
                    counter.fetch_add(1, Ordering::Relaxed);
                    if hand.over((part, piece)).is_err() {
                        break;
                    }
                }
                Ok(())
            };
            let mut seen = vec![0; 20];
            let mut gathered = 0;
            run(
                20,
                Options { workers: 4, ordered, ahead: 4 },
                || (),
                work.clone(),
                |part, (of, piece)| {
                    assert_eq!((part, seen[part]), (of, piece));
                    assert!(!ordered || seen[..part].iter().all(|n| *n == 50), "part {part} before its turn");
                    seen[part] += 1;
                    gathered += 1;
                    // Each of four parts: what waits, and what its worker holds.
                    let made = made.load(Ordering::Relaxed);
                    assert!(made <= gathered + 4 * (PIECES + 1), "{made} made, {gathered} gathered");
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!(seen, [50; 20]);
            let outcome = run(
                20,
                Options { workers: 4, ordered, ahead: 4 },
                || (),
                work,
                |_, (_, piece)| {
                    if piece == 5 { Err(Io::other("enough")) } else { Ok(()) }
                },
            );
            assert_eq!(outcome.unwrap_err().to_string(), "enough");
        }
    }
}
