//! Signals that a command turns into something else than its end: Ctrl-C, and files that reach a limit.
use crate::cancel::Cancel;
use crate::event::Event;
use crate::park::Parker;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// What the handler tells; never freed, since a handler may run at any time.
static CANCEL: AtomicPtr<Cancel> = AtomicPtr::new(std::ptr::null_mut());
/// Who is told afterwards, by a thread: a handler must not.
static LISTENER: Mutex<Option<Arc<Parker>>> = Mutex::new(None);
/// Where that thread waits; never freed. Unparking a thread is a store and a call of the system, which a
/// handler may do.
static TELLER: Parker = Parker::new();
static INTERRUPTS: AtomicU32 = AtomicU32::new(0);

/// How many interrupts came since [`tells`] was first called.
pub fn interrupts() -> u32 {
    INTERRUPTS.load(Ordering::Relaxed)
}

extern "C" fn interrupted(_: libc::c_int) {
    INTERRUPTS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: null, or one that is never freed. A change of its word is all that happens, which a handler may
    // do.
    if let Some(cancel) = unsafe { CANCEL.load(Ordering::Acquire).as_ref() } {
        cancel.tell()
    }
    TELLER.unpark_thread();
}

fn tell() {
    loop {
        TELLER.park(None);
        let listener = LISTENER.lock().unwrap_or_else(|e| e.into_inner()).clone();
        if let Some(parker) = listener {
            parker.unpark()
        }
    }
}

/// From now on an interrupt tells whatever work of `cancel` goes on, then unparks `listener`, and does not
/// end the process. For a program's main part.
pub fn tells(cancel: Arc<Cancel>, listener: Option<Arc<Parker>>) -> std::io::Result<()> {
    static STARTED: Mutex<bool> = Mutex::new(false);
    if listener.is_some() {
        let mut started = STARTED.lock().unwrap_or_else(|e| e.into_inner());
        if !*started {
            std::thread::Builder::new().name("ondol-interrupt".into()).spawn(tell)?;
            *started = true
        }
    }
    *LISTENER.lock().unwrap_or_else(|e| e.into_inner()) = listener;
    CANCEL.store(Arc::into_raw(cancel).cast_mut(), Ordering::Release);
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

/// What the handler of wishes to a server sets; never freed.
static WISHES: AtomicPtr<Event> = AtomicPtr::new(std::ptr::null_mut());
static ENDS: AtomicU32 = AtomicU32::new(0);
static RELOADS: AtomicU32 = AtomicU32::new(0);

extern "C" fn told(signal: libc::c_int) {
    let count = if signal == libc::SIGHUP { &RELOADS } else { &ENDS };
    count.fetch_add(1, Ordering::Relaxed);
    // SAFETY: errno is the calling thread's; a handler must leave it as it was.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: null, or one that is never freed. Setting an event is a call of the system, which a handler may
    // do.
    if let Some(event) = unsafe { WISHES.load(Ordering::Acquire).as_ref() } {
        event.set()
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno }
}

/// From now on SIGTERM, SIGINT and SIGHUP do not end the process: they set the event that is given. For a
/// program's main part; how often it was told so far is [`ends`] and [`reloads`].
pub fn wishes_by_event() -> std::io::Result<&'static Event> {
    let event: &'static Event = Box::leak(Box::new(Event::new()?));
    WISHES.store(std::ptr::from_ref(event).cast_mut(), Ordering::Release);
    // SAFETY: an all-zero sigaction is one with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = told as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: the action is whole, and its handler does what handlers may.
        if unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(event)
}
/// How often the process was told to end.
pub fn ends() -> u32 {
    ENDS.load(Ordering::Relaxed)
}
/// How often it was told to read its settings again.
pub fn reloads() -> u32 {
    RELOADS.load(Ordering::Relaxed)
}

/// From now on a write beyond the limit on file sizes (ulimit -f) fails, and does not end the process.
pub fn file_limit_is_an_error() {
    // SAFETY: ignoring a signal runs no code.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
