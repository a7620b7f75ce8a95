//! Signals that a command turns into something else than its end: Ctrl-C, and files that reach a limit.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// What the handler sets; never freed, since a handler may run at any time.
static FLAG: AtomicPtr<AtomicBool> = AtomicPtr::new(std::ptr::null_mut());

extern "C" fn interrupted(_: libc::c_int) {
    // SAFETY: null, or a flag that is never freed. A store to it is all that happens, which a handler may do.
    if let Some(flag) = unsafe { FLAG.load(Ordering::Acquire).as_ref() } {
        flag.store(true, Ordering::Relaxed)
    }
}

/// From now on an interrupt sets this flag, and does not end the process. For a program's main part, once.
pub fn sets(flag: Arc<AtomicBool>) -> std::io::Result<()> {
    FLAG.store(Arc::into_raw(flag).cast_mut(), Ordering::Release);
    // SAFETY: an all-zero sigaction is one with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = interrupted as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the action is whole, and its handler does what handlers may.
    match unsafe { libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// From now on a write beyond the limit on file sizes (ulimit -f) fails, and does not end the process.
pub fn file_limit_is_an_error() {
    // SAFETY: ignoring a signal runs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
