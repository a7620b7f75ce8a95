//! What has failed, for C.
use ::ondol::Error;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// An error as texts that end with a zero.
#[derive(Default)]
pub struct Told {
    pub state: CString,
    pub message: CString,
    pub detail: Option<CString>,
    pub hint: Option<CString>,
}

/// The text; a zero within it is left out.
pub fn c_text(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| CString::new(text.replace('\0', "")).unwrap_or_default())
}

impl From<Error> for Told {
    fn from(e: Error) -> Told {
        Told {
            state: c_text(e.sqlstate()),
            message: c_text(&e.0.message),
            detail: e.0.detail.as_deref().map(c_text),
            hint: e.0.hint.as_deref().map(c_text),
        }
    }
}

thread_local! {
    /// Of connections that there are none of.
    static OPENING: RefCell<Told> = RefCell::default();
}

/// Keeps the error of a connection that there is none of; nothing in a thread that is about to end.
pub fn tell_thread(e: Error) {
    let told = Told::from(e);
    // A pointer that was given out is good until now.
    let _ = OPENING.try_with(|kept| kept.replace(told));
}

/// What `f` finds in it, or nothing.
pub fn told_thread<T>(f: impl FnOnce(&Told) -> T) -> Option<T> {
    OPENING.try_with(|kept| f(&kept.borrow())).ok()
}

/// A pointer that must not be NULL is.
pub fn null(what: &str) -> Error {
    Error::new("22023", format!("expected {what}, found NULL"))
}

/// What `f` gives, or its panic as an error (c/P2).
pub fn guarded<T>(f: impl FnOnce() -> ondol::Result<T>) -> ondol::Result<T> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic");
        Err(Error::new("XX000", format!("internal error: {text}")))
    })
}

/// The text that C has given.
///
/// # Safety
/// c/P1
pub unsafe fn text_of<'a>(text: *const c_char, what: &str) -> ondol::Result<&'a str> {
    if text.is_null() {
        return Err(null(what));
    }
    // SAFETY: c/P1
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| not_utf8())
}

pub fn not_utf8() -> Error {
    Error::new("22021", "invalid byte sequence for encoding \"UTF8\"")
}
