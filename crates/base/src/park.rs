//! Parking: how one waits for what others will tell.
//!
//! ```text
//! the one who waits    enters what it waits for where others find it -> looks -> parks -> looks again
//! who changes that     changes it -> finds who waits -> unparks
//! ```
//! - **P1** A [`Parker`] remembers one call of [`Parker::unpark`]: the next [`Parker::park`] takes it and
//!   returns at once. So nothing is lost between looking and parking, and whoever was not parked meets it
//!   as a wake-up without a reason.
//! - **P2** What was stored before `unpark` is seen after the `park` that took it.
//! - **P3** One at a time parks at a parker; anyone may unpark, in any number.
//! - **P4** *No guard over a park.* Who parks holds no guard of [`crate::sync`]: others may run meanwhile on
//!   the same thread, and would wait for it forever. Guards are counted for each thread, in release builds
//!   too, and parking with one panics. Pins of epochs are counted by their participants, and asked for by
//!   those who park for them ([`crate::epoch::Participant::is_pinned`]).
//!
//! In a simulated world its fiber parks, with its own count, and leaves its worker's thread to others
//! (sim/schedule/F5). A task of a [`crate::fiber::Worker`] leaves its seat and gives way. Otherwise the
//! thread parks, on a futex. [`Parker::block`] is for waits in whose course guards are held still: it keeps
//! the thread.
//!
//! - **P5** The seat is left before the word says so, and is read by whoever took that word away. It may be a
//!   later one by then: that fiber is woken without a reason (fiber/F4).
use crate::clock;
use crate::fiber::{self, Seat};
use crate::sim;
use std::cell::Cell;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const EMPTY: u32 = 0;
/// A thread sleeps.
const PARKED: u32 = 1;
const TOLD: u32 = 2;
/// A fiber has given way.
const SEATED: u32 = 3;

thread_local! {
    /// Guards that the thread holds, or the fiber that runs on it.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

#[inline(always)]
pub(crate) fn hold() {
    HELD.set(HELD.get().wrapping_add(1))
}
#[inline(always)]
pub(crate) fn release() {
    HELD.set(HELD.get().wrapping_sub(1))
}
/// Another fiber's count takes the place of this one's, which is given.
pub(crate) fn exchange_held(count: u32) -> u32 {
    HELD.replace(count)
}
/// Guards of [`crate::sync`] that the caller's thread holds.
pub fn guards_held() -> u32 {
    HELD.get()
}

#[derive(Default)]
pub struct Parker {
    state: AtomicU32,
    seat: Mutex<Option<Arc<Seat>>>,
}

impl Parker {
    pub const fn new() -> Parker {
        Parker { state: AtomicU32::new(EMPTY), seat: Mutex::new(None) }
    }
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Waits to be unparked, until [`clock::now`] reaches `deadline`: false if that came first. May return
    /// true without a reason: look again at what is waited for.
    ///
    /// # Panics
    /// If the caller holds a guard (P4).
    #[track_caller]
    pub fn park(&self, deadline: Option<Duration>) -> bool {
        assert!(guards_held() == 0, "a wait begins while {} guards are held", guards_held());
        match fiber::seat() {
            Some(seat) => self.give_way(seat, deadline),
            None => self.sleep(deadline, true, Location::caller()),
        }
    }
    fn give_way(&self, seat: Arc<Seat>, deadline: Option<Duration>) -> bool {
        *self.seat.lock().unwrap_or_else(PoisonError::into_inner) = Some(seat);
        if self.state.compare_exchange(EMPTY, SEATED, Ordering::Release, Ordering::Relaxed).is_err() {
            self.state.swap(EMPTY, Ordering::Acquire);
            return true;
        }
        /// Nobody is told any more, also if the fiber ends where it is.
        struct Leave<'a>(&'a Parker);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.state.store(EMPTY, Ordering::Relaxed)
            }
        }
        let leave = Leave(self);
        loop {
            fiber::give_way(deadline);
            let is_over = deadline.is_some_and(|d| clock::now() >= d);
            if self.state.load(Ordering::Relaxed) == TOLD || is_over {
                std::mem::forget(leave);
                return self.state.swap(EMPTY, Ordering::Acquire) == TOLD;
            }
        }
    }
    /// The same for a caller that may hold guards: the thread waits, and does nothing else meanwhile.
    #[track_caller]
    pub fn block(&self, deadline: Option<Duration>) -> bool {
        self.sleep(deadline, false, Location::caller())
    }
    /// Waits to be unparked: as [`Parker::block`] does, or as [`Parker::park`].
    #[track_caller]
    pub fn wait(&self, keeps_thread: bool) {
        match keeps_thread {
            true => self.block(None),
            false => self.park(None),
        };
    }
    fn sleep(&self, deadline: Option<Duration>, gives_way: bool, at: &'static Location<'static>) -> bool {
        if sim::any()
            && let Some(told) = self.park_in_world(deadline, gives_way, at)
        {
            return told;
        }
        if self.state.compare_exchange(EMPTY, PARKED, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            // An exchange, since it may have been told once more meanwhile (P2).
            self.state.swap(EMPTY, Ordering::Acquire);
            return true;
        }
        loop {
            let left = deadline.map(|d| d.saturating_sub(clock::now()));
            if left != Some(Duration::ZERO) {
                futex_wait(&self.state, PARKED, left);
            }
            if self.state.compare_exchange(TOLD, EMPTY, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return true;
            }
            if deadline.is_some_and(|d| clock::now() >= d) {
                return self.state.swap(EMPTY, Ordering::Acquire) == TOLD;
            }
        }
    }
    #[cold]
    fn park_in_world(
        &self,
        deadline: Option<Duration>,
        gives_way: bool,
        at: &'static Location<'static>,
    ) -> Option<bool> {
        let spurious = sim::spurious()?;
        if self.state.swap(EMPTY, Ordering::Acquire) == TOLD || spurious {
            return Some(true);
        }
        let limit = deadline.map(|d| d.saturating_sub(clock::now()));
        let timed_out = sim::wait(self.address(), limit, gives_way, "being unparked", at)?;
        let told = self.state.swap(EMPTY, Ordering::Acquire) == TOLD;
        Some(told || !timed_out)
    }

    /// Ends the present call of [`Parker::park`], or the next.
    pub fn unpark(&self) {
        if self.unpark_thread() == SEATED {
            let seat = self.seat.lock().unwrap_or_else(PoisonError::into_inner).clone();
            seat.inspect(|s| s.tell());
        }
        if sim::any() {
            sim::unpark_all(self.address())
        }
    }
    /// The same where a thread parks, outside of worlds: also for a signal's handler. Gives what the word
    /// was.
    pub(crate) fn unpark_thread(&self) -> u32 {
        // Acquire: the seat (P5).
        let was = self.state.swap(TOLD, Ordering::AcqRel);
        if was == PARKED {
            // SAFETY: errno is the calling thread's; a handler must leave it as it was.
            let errno = unsafe { *libc::__errno_location() };
            futex_wake(&self.state);
            // SAFETY: as above.
            unsafe { *libc::__errno_location() = errno }
        }
        was
    }
}

/// Sleeps while the word is `value`, for `limit` at most. May return without a reason.
fn futex_wait(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    let time = limit.map(|l| libc::timespec {
        tv_sec: libc::time_t::try_from(l.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: l.subsec_nanos().into(),
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the time are there while the call lasts.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, time) };
}

/// Wakes one who sleeps at the word.
fn futex_wake(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the system only uses the word's address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Config, World};
    use crate::thread;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    /// Two who count in turns, each parked while it is the other's.
    fn turns(n: u64) {
        let turn = Arc::new(AtomicU64::new(0));
        let parkers: [Arc<Parker>; 2] = Default::default();
        let threads: Vec<_> = (0..2)
            .map(|me| {
                let (turn, parkers) = (turn.clone(), parkers.clone());
                thread::spawn("counter", move || {
                    for i in 0..n {
                        while turn.load(Ordering::Relaxed) != 2 * i + me {
                            parkers[me as usize].park(None);
                        }
                        turn.store(2 * i + me + 1, Ordering::Relaxed);
                        parkers[1 - me as usize].unpark()
                    }
                })
                .unwrap()
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(turn.load(Ordering::Relaxed), 2 * n)
    }

    #[test]
    fn no_wake_up_is_lost() {
        turns(20_000);
        for seed in 0..200 {
            World::new(seed, Config::default()).run(|| turns(20))
        }
    }

    fn deadlines() {
        let p = Parker::new();
        p.unpark();
        p.unpark();
        assert!(p.park(None));
        let began = clock::now();
        let deadline = began + Duration::from_millis(20);
        while p.park(Some(deadline)) {}
        assert!(clock::now() >= deadline);
        assert!(!p.park(Some(began)) || sim::current().is_some());
        p.unpark();
        assert!(p.park(Some(began)), "what was told before is not missed for a deadline that is over")
    }

    #[test]
    fn a_guard_over_a_park_is_noticed() {
        use crate::sync::{Latch, Mutex, RwLock, yield_point};
        fn parks() -> bool {
            let p = Parker::new();
            p.unpark();
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| p.park(None))).is_ok()
        }
        fn each_guard() {
            let (m, w, l) = (Mutex::new(()), RwLock::new(()), Latch::new());
            assert!(parks());
            for turn in 0..6 {
                let (_a, _b, _c, _d, _e, _f);
                match turn {
                    0 => _a = m.lock(),
                    1 => _b = w.read(),
                    2 => _c = w.write(),
                    3 => _d = l.acquire(),
                    4 => _e = m.try_lock(),
                    _ => _f = crate::sync::Condvar::new().wait_timeout(m.lock(), Duration::ZERO),
                }
                assert!(!parks(), "{turn}");
            }
            assert!(parks() && guards_held() == 0);
        }
        each_guard();
        // Others' guards do not count, nor do those of a fiber that gave way.
        for seed in 0..20 {
            World::new(seed, Config::default()).run(|| {
                let m = Arc::new(Mutex::new(()));
                let other = thread::spawn("holder", move || {
                    let _guard = m.lock();
                    (0..20).for_each(|_| yield_point());
                    guards_held()
                });
                for _ in 0..10 {
                    yield_point();
                    assert_eq!(guards_held(), 0)
                }
                each_guard();
                assert_eq!(other.unwrap().join().unwrap(), 1)
            })
        }
        assert_eq!(guards_held(), 0);
    }

    #[test]
    fn a_deadline_ends_it_and_is_not_early() {
        deadlines();
        for seed in 0..100 {
            World::new(seed, Config::default()).run(deadlines)
        }
    }
}
