//! Blocking and latching. In a simulated world (see [`crate::sim`]) every operation here is a scheduling
//! point of one deterministic scheduler; otherwise it is the standard library's.
//!
//! - **K1** Nothing is poisoned: a panic while a lock is held leaves the value as it was then.
//! - **K2** Releasing is not a scheduling point, so that a guard may be dropped while a thread unwinds;
//!   taking is.
//! - **K3** Between a fiber's release of the mutex and its wait for a condition variable no other fiber runs,
//!   so that no notification is lost.
//! - **K4** Guards are counted, for each thread or fiber (park/P4).
//!
//! Production code pays one relaxed load and a branch that is predicted for the question whether it is
//! simulated.
use crate::{park, sim};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::TryLockError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A preemption point of the simulator; free outside it. Placed where a protocol is interesting.
#[inline(always)]
#[track_caller]
pub fn yield_point() {
    if sim::any() {
        sim::yield_now("a yield point", Location::caller());
    }
}

/// One turn of a spin loop: `n` counts the turns so far. Yields to the scheduler when it lasts.
#[inline]
#[track_caller]
pub fn spin_wait(n: u32) {
    if sim::any() && sim::spin(Location::caller()) {
        return;
    }
    if n < 16 { std::hint::spin_loop() } else { std::thread::yield_now() }
}

/// In a world, takes a lock by trying until somebody's release lets it succeed; `None` outside.
#[cold]
fn take_in_world<G>(
    addr: usize,
    what: &'static str,
    at: &'static Location<'static>,
    mut attempt: impl FnMut() -> Option<G>,
) -> Option<G> {
    if !sim::yield_now(what, at) {
        return None;
    }
    loop {
        if let Some(guard) = attempt() {
            return Some(guard);
        }
        sim::park(addr, None, what, at)?;
    }
}
/// The guard of an attempt, poisoned or not.
fn won<G>(result: Result<G, TryLockError<G>>) -> Option<G> {
    match result {
        Ok(g) => Some(g),
        Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
fn address<T: ?Sized>(of: &T) -> usize {
    std::ptr::from_ref(of).cast::<()>() as usize
}

/// Lets one thread of the process at a time run something, also where the threads belong to different
/// simulated worlds, or to none: for foreign code that minds. What runs must not reach a scheduling point,
/// since other worlds would wait for this one.
pub struct OneAtATime(std::sync::Mutex<()>);
impl OneAtATime {
    #[expect(clippy::new_without_default, reason = "it stands in statics only")]
    pub const fn new() -> Self {
        OneAtATime(std::sync::Mutex::new(()))
    }
    pub fn run<R>(&self, what: impl FnOnce() -> R) -> R {
        let _one = self.0.lock().unwrap_or_else(|e| e.into_inner());
        what()
    }
}

pub struct Mutex<T: ?Sized>(std::sync::Mutex<T>);
/// Releases the mutex when dropped.
#[must_use = "the mutex is released when this is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    /// There until the drop.
    guard: ManuallyDrop<std::sync::MutexGuard<'a, T>>,
    of: &'a Mutex<T>,
}
impl<T> Mutex<T> {
    pub const fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
    }
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|e| e.into_inner())
    }
}
impl<T: ?Sized> Mutex<T> {
    /// Never poisoned: a panic while it is held leaves the value as it was then.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        if sim::any()
            && let Some(g) =
                take_in_world(address(self), "a mutex lock", Location::caller(), || won(self.0.try_lock()))
        {
            return self.guard(g);
        }
        self.guard(self.0.lock().unwrap_or_else(|e| e.into_inner()))
    }
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        yield_point();
        won(self.0.try_lock()).map(|g| self.guard(g))
    }
    /// No lock is needed where nobody else can look.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(|e| e.into_inner())
    }
    #[inline]
    fn guard<'a>(&'a self, guard: std::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        park::hold();
        MutexGuard { guard: ManuallyDrop::new(guard), of: self }
    }
}
impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}
impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the inner guard is dropped here and nowhere else; `apart` forgets the outer one.
        unsafe { ManuallyDrop::drop(&mut self.guard) };
        park::release();
        if sim::any() {
            sim::unpark_all(address(self.of))
        }
    }
}
impl<'a, T: ?Sized> MutexGuard<'a, T> {
    fn apart(self) -> (std::sync::MutexGuard<'a, T>, &'a Mutex<T>) {
        let mut this = ManuallyDrop::new(self);
        park::release();
        // SAFETY: `this` is never dropped, so that the inner guard is taken once.
        (unsafe { ManuallyDrop::take(&mut this.guard) }, this.of)
    }
}
impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}
impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

#[derive(Default)]
pub struct Condvar(std::sync::Condvar);
impl Condvar {
    pub const fn new() -> Self {
        Condvar(std::sync::Condvar::new())
    }
    /// May return without a notification: loop on the predicate.
    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        if sim::any() {
            match self.wait_in_world(guard, None, Location::caller()) {
                Ok((g, _)) => return g,
                Err(guard) => return self.wait_outside(guard),
            }
        }
        self.wait_outside(guard)
    }
    fn wait_outside<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let (guard, of) = guard.apart();
        of.guard(self.0.wait(guard).unwrap_or_else(|e| e.into_inner()))
    }
    /// The flag is true when the time ran out.
    #[track_caller]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let guard = match sim::any() {
            true => match self.wait_in_world(guard, Some(limit), Location::caller()) {
                Ok(woken) => return woken,
                Err(guard) => guard,
            },
            false => guard,
        };
        let (guard, of) = guard.apart();
        let (g, t) = self.0.wait_timeout(guard, limit).unwrap_or_else(|e| e.into_inner());
        (of.guard(g), t.timed_out())
    }
    #[cold]
    fn wait_in_world<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Option<Duration>,
        at: &'static Location<'static>,
    ) -> Result<(MutexGuard<'a, T>, bool), MutexGuard<'a, T>> {
        let Some(spurious) = sim::spurious() else { return Err(guard) };
        let of = guard.of;
        drop(guard);
        let timed_out = !spurious && sim::park(address(self), limit, "a condition", at) == Some(true);
        Ok((of.lock(), timed_out))
    }
    #[inline]
    pub fn notify_one(&self) {
        if sim::any() {
            sim::unpark_one(address(self))
        }
        self.0.notify_one()
    }
    #[inline]
    pub fn notify_all(&self) {
        if sim::any() {
            sim::unpark_all(address(self))
        }
        self.0.notify_all()
    }
}

pub struct RwLock<T: ?Sized>(std::sync::RwLock<T>);
#[must_use = "the lock is released when this is dropped"]
pub struct ReadGuard<'a, T: ?Sized> {
    guard: ManuallyDrop<std::sync::RwLockReadGuard<'a, T>>,
    addr: usize,
}
#[must_use = "the lock is released when this is dropped"]
pub struct WriteGuard<'a, T: ?Sized> {
    guard: ManuallyDrop<std::sync::RwLockWriteGuard<'a, T>>,
    addr: usize,
}
impl<T> RwLock<T> {
    pub const fn new(value: T) -> Self {
        RwLock(std::sync::RwLock::new(value))
    }
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|e| e.into_inner())
    }
}
impl<T: ?Sized> RwLock<T> {
    #[inline]
    #[track_caller]
    pub fn read(&self) -> ReadGuard<'_, T> {
        if sim::any()
            && let Some(g) =
                take_in_world(address(self), "a read lock", Location::caller(), || won(self.0.try_read()))
        {
            return self.read_guard(g);
        }
        self.read_guard(self.0.read().unwrap_or_else(|e| e.into_inner()))
    }
    #[inline]
    #[track_caller]
    pub fn write(&self) -> WriteGuard<'_, T> {
        if sim::any()
            && let Some(g) =
                take_in_world(address(self), "a write lock", Location::caller(), || won(self.0.try_write()))
        {
            return self.write_guard(g);
        }
        self.write_guard(self.0.write().unwrap_or_else(|e| e.into_inner()))
    }
    #[inline]
    #[track_caller]
    pub fn try_read(&self) -> Option<ReadGuard<'_, T>> {
        yield_point();
        won(self.0.try_read()).map(|g| self.read_guard(g))
    }
    #[inline]
    #[track_caller]
    pub fn try_write(&self) -> Option<WriteGuard<'_, T>> {
        yield_point();
        won(self.0.try_write()).map(|g| self.write_guard(g))
    }
    /// No lock is needed where nobody else can look.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(|e| e.into_inner())
    }
    fn read_guard<'a>(&'a self, guard: std::sync::RwLockReadGuard<'a, T>) -> ReadGuard<'a, T> {
        park::hold();
        ReadGuard { guard: ManuallyDrop::new(guard), addr: address(self) }
    }
    fn write_guard<'a>(&'a self, guard: std::sync::RwLockWriteGuard<'a, T>) -> WriteGuard<'a, T> {
        park::hold();
        WriteGuard { guard: ManuallyDrop::new(guard), addr: address(self) }
    }
}
impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        RwLock::new(T::default())
    }
}
impl<T: ?Sized> Drop for ReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the inner guard is dropped here and nowhere else.
        unsafe { ManuallyDrop::drop(&mut self.guard) };
        park::release();
        if sim::any() {
            sim::unpark_all(self.addr)
        }
    }
}
impl<T: ?Sized> Drop for WriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the inner guard is dropped here and nowhere else.
        unsafe { ManuallyDrop::drop(&mut self.guard) };
        park::release();
        if sim::any() {
            sim::unpark_all(self.addr)
        }
    }
}
impl<T: ?Sized> Deref for ReadGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}
impl<T: ?Sized> Deref for WriteGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}
impl<T: ?Sized> DerefMut for WriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// A short exclusive hold on something beside it: one word, spun for, without a queue and not fair. For
/// sections of some tens of instructions in which nothing blocks.
#[derive(Default)]
pub struct Latch(AtomicU32);
/// Releases the latch when dropped.
#[must_use = "the latch is released when this is dropped"]
pub struct LatchGuard<'a>(&'a Latch, PhantomData<*const ()>);

impl Latch {
    pub const fn new() -> Latch {
        Latch(AtomicU32::new(0))
    }
    #[inline]
    #[track_caller]
    pub fn acquire(&self) -> LatchGuard<'_> {
        yield_point();
        match self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => self.guard(),
            Err(_) => self.acquire_slowly(),
        }
    }
    #[cold]
    #[track_caller]
    fn acquire_slowly(&self) -> LatchGuard<'_> {
        let mut n = 0;
        loop {
            // Only read while it is taken, so that the line stays shared among those who wait.
            while self.0.load(Ordering::Relaxed) != 0 {
                spin_wait(n);
                n = n.saturating_add(1);
            }
            if self.0.compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return self.guard();
            }
        }
    }
    #[inline]
    #[track_caller]
    pub fn try_acquire(&self) -> Option<LatchGuard<'_>> {
        yield_point();
        let won = self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        won.then(|| self.guard())
    }
    #[inline]
    fn guard(&self) -> LatchGuard<'_> {
        park::hold();
        LatchGuard(self, PhantomData)
    }
    /// Somebody holds it at this moment.
    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}
impl Drop for LatchGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.0.store(0, Ordering::Release);
        park::release()
    }
}

#[cfg(test)]
mod tests {
    //! On real threads; in worlds the same is tested in [`crate::sim`].
    use super::*;
    use std::sync::Arc;

    /// Eight threads count to a sum with `turn`, which must exclude the others.
    fn count(turn: impl Fn(&dyn Fn()) + Send + Sync + 'static) {
        struct Shared<F>(F, std::sync::atomic::AtomicU64);
        let shared = Arc::new(Shared(turn, Default::default()));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let s = shared.clone();
                crate::thread::spawn("counter", move || {
                    for _ in 0..5000 {
                        (s.0)(&|| {
                            // Apart on purpose: only exclusion makes it an addition.
                            let n = s.1.load(Ordering::Relaxed);
                            std::hint::spin_loop();
                            s.1.store(n + 1, Ordering::Relaxed)
                        })
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.unwrap().join().unwrap());
        assert_eq!(shared.1.load(Ordering::Relaxed), 40_000);
    }

    #[test]
    fn latches_and_locks_exclude() {
        let l = Latch::new();
        count(move |add| {
            let _g = l.acquire();
            add()
        });
        let l = Latch::default();
        count(move |add| {
            let mut n = 0;
            let _g = loop {
                if let Some(g) = l.try_acquire() {
                    break g;
                }
                spin_wait(n);
                n += 1;
            };
            assert!(l.is_held());
            add()
        });
        let m = Mutex::new(());
        count(move |add| {
            let _g = m.lock();
            add()
        });
        let w = RwLock::new(());
        count(move |add| {
            drop(w.read());
            let _g = w.write();
            add()
        });
    }

    #[test]
    fn a_failed_attempt_leaves_the_holder_alone() {
        let l = Latch::new();
        let g = l.acquire();
        assert!(l.try_acquire().is_none() && l.try_acquire().is_none() && l.is_held());
        drop(g);
        assert!(!l.is_held() && l.try_acquire().is_some());
        let m = Mutex::new(1);
        let g = m.lock();
        assert!(m.try_lock().is_none());
        drop(g);
        assert_eq!(*m.try_lock().unwrap(), 1);
        let w = RwLock::new(1);
        let g = w.read();
        assert!(w.try_write().is_none() && w.try_read().is_some());
        drop(g);
        assert!(w.try_write().is_some());
    }

    #[test]
    fn a_panic_poisons_nothing() {
        let m = Arc::new((Mutex::new(0), RwLock::new(0)));
        let n = m.clone();
        let t = crate::thread::spawn("panics", move || {
            let (mut a, mut b) = (n.0.lock(), n.1.write());
            (*a, *b) = (1, 2);
            panic!("while both are held")
        });
        assert!(t.unwrap().join().is_err());
        assert_eq!((*m.0.lock(), *m.1.read()), (1, 2));
        assert_eq!((*m.0.try_lock().unwrap(), *m.1.try_write().unwrap()), (1, 2));
        let mut m = Arc::into_inner(m).unwrap();
        (*m.0.get_mut(), *m.1.get_mut()) = (3, 4);
        assert_eq!((m.0.into_inner(), m.1.into_inner()), (3, 4));
    }

    #[test]
    fn notifications_and_timeouts() {
        let s = Arc::new((Mutex::new(0), Condvar::new()));
        let (m, c) = &*s;
        let (g, timed_out) = c.wait_timeout(m.lock(), Duration::from_millis(5));
        assert!(timed_out || *g == 0);
        drop(g);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let s = s.clone();
                crate::thread::spawn("waiter", move || {
                    let mut g = s.0.lock();
                    while *g == 0 {
                        g = s.1.wait(g)
                    }
                    *g -= 1;
                })
            })
            .collect();
        for n in 0..4 {
            *m.lock() += 1;
            if n % 2 == 0 { c.notify_one() } else { c.notify_all() }
        }
        threads.into_iter().for_each(|t| t.unwrap().join().unwrap());
        assert_eq!(*m.lock(), 0);
    }
}
