//! The same work over many items, on several of `base`'s threads.
use ondol_base::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls `f` for each item below `n`, on up to `threads` threads, the caller's among them; ends early at the
/// first error that any of them meets.
pub(crate) fn each<E: Send + 'static>(
    threads: usize,
    n: usize,
    f: impl Fn(usize) -> Result<(), E> + Send + Sync + 'static,
) -> Result<(), E> {
    each_with(threads, n, move |_: &mut (), i| f(i))
}

/// The same with something that each thread makes once and keeps: a buffer, say.
pub(crate) fn each_with<S: Default, E: Send + 'static>(
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
        }
    };
    let mut handles = vec![];
    for _ in 1..threads.min(n) {
        let (next, f) = (next.clone(), f.clone());
        // Too few threads only make it slower.
        if let Ok(h) = thread::spawn("recovery", move || work(&next, &*f)) {
            handles.push(h)
        }
    }
    let mut result = work(&next, &*f);
    for h in handles {
        match h.join() {
            Ok(r) => result = result.and(r),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    result
}
