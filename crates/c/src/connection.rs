//! Connections, and what they run.
use crate::calls::ondol_calls;
use crate::error::{Told, c_text, guarded, null, tell_thread, text_of, told_thread};
use crate::values::Kept;
use ::ondol::connect::{Cancel, Connection, Statement};
use std::cell::{RefCell, UnsafeCell};
use std::ffi::{CStr, CString, c_char, c_int};

#[expect(non_camel_case_types, reason = "it is C's")]
pub struct ondol {
    /// For all threads, also while one uses the rest.
    cancel: Cancel,
    own: UnsafeCell<Own>,
}

/// What one thread at a time uses (c/P1).
pub struct Own {
    pub(crate) connection: Connection,
    error: Told,
    /// c/P3
    name: CString,
    pub(crate) kept: RefCell<Kept>,
}

impl Own {
    /// What `f` gives, or a negative number, and the error is kept.
    pub(crate) fn told<T: TryInto<N>, N: From<i8>>(
        &mut self,
        f: impl FnOnce(&mut Own) -> ::ondol::Result<T>,
    ) -> N {
        let done = guarded(|| f(self));
        match done {
            Ok(n) => n.try_into().unwrap_or(N::from(-1)),
            Err(e) => {
                self.error = e.into();
                N::from(-1)
            }
        }
    }
}

/// A number of a statement's.
fn statement_of(n: c_int) -> Statement {
    Statement::of_number(usize::try_from(n).unwrap_or(usize::MAX))
}

/// The connection; its error if there is none.
macro_rules! connection {
    ($pointer:ident) => {
        // SAFETY: c/P1
        match unsafe { $crate::connection::own($pointer) } {
            Some(own) => own,
            None => {
                $crate::error::tell_thread($crate::error::null("a connection"));
                return -1;
            }
        }
    };
}
pub(crate) use connection;

/// # Safety
/// c/P1
pub(crate) unsafe fn own<'a>(connection: *const ondol) -> Option<&'a mut Own> {
    // SAFETY: c/P1; nobody else uses this part meanwhile.
    unsafe { connection.as_ref().map(|c| &mut *c.own.get()) }
}

#[unsafe(no_mangle)]
pub extern "C" fn ondol_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_open(whereto: *const c_char) -> *mut ondol {
    // SAFETY: c/P1
    let opened = guarded(|| Connection::open(unsafe { text_of(whereto, "where to connect to") }?));
    match opened {
        Ok(connection) => {
            let cancel = connection.cancel();
            let (error, name, kept) = (Told::default(), CString::default(), RefCell::default());
            let own = UnsafeCell::new(Own { connection, error, name, kept });
            Box::into_raw(Box::new(ondol { cancel, own }))
        }
        Err(e) => {
            tell_thread(e);
            std::ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_close(connection: *mut ondol) -> c_int {
    if connection.is_null() {
        return 0;
    }
    // SAFETY: c/P1: `ondol_open` has made it.
    let owned = unsafe { Box::from_raw(connection) };
    match guarded(|| owned.own.into_inner().connection.close()) {
        Ok(()) => 0,
        Err(e) => {
            tell_thread(e);
            -1
        }
    }
}

/// A text of the last error's.
///
/// # Safety
/// c/P1
unsafe fn of_error(connection: *const ondol, part: impl Fn(&Told) -> Option<&CStr>) -> *const c_char {
    let pointer = |told: &Told| part(told).map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: c/P1
    match unsafe { own(connection) } {
        Some(c) => pointer(&c.error),
        // It stays where it is until the thread's next error.
        None => told_thread(pointer).unwrap_or(c"".as_ptr()),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_error(connection: *const ondol) -> *const c_char {
    // SAFETY: c/P1
    unsafe { of_error(connection, |e| Some(&e.message)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_sqlstate(connection: *const ondol) -> *const c_char {
    // SAFETY: c/P1
    unsafe { of_error(connection, |e| Some(&e.state)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_detail(connection: *const ondol) -> *const c_char {
    // SAFETY: c/P1
    unsafe { of_error(connection, |e| e.detail.as_deref()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_hint(connection: *const ondol) -> *const c_char {
    // SAFETY: c/P1
    unsafe { of_error(connection, |e| e.hint.as_deref()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_cancel(connection: *const ondol) {
    if !connection.is_null() {
        // SAFETY: c/P1; this part of it is for all threads.
        unsafe { &*connection }.cancel.tell()
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_in_transaction(connection: *const ondol) -> c_int {
    // SAFETY: c/P1
    unsafe { own(connection) }.is_some_and(|c| c.connection.is_in_transaction()).into()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_execute(connection: *mut ondol, sql: *const c_char) -> i64 {
    let connection = connection!(connection);
    connection.told(|c| {
        c.kept.get_mut().clear();
        // SAFETY: c/P1
        c.connection.execute(unsafe { text_of(sql, "a statement") }?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_prepare(connection: *mut ondol, sql: *const c_char) -> c_int {
    let connection = connection!(connection);
    connection.told(|c| {
        c.kept.get_mut().clear();
        // SAFETY: c/P1
        Ok(c.connection.prepare(unsafe { text_of(sql, "a statement") }?)?.number())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_registered(connection: *mut ondol, name: *const c_char) -> c_int {
    let connection = connection!(connection);
    connection.told(|c| {
        c.kept.get_mut().clear();
        // SAFETY: c/P1
        Ok(c.connection.registered(unsafe { text_of(name, "a name") }?)?.number())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_forget(connection: *mut ondol, statement: c_int) -> c_int {
    let connection = connection!(connection);
    connection.told(|c| {
        c.kept.get_mut().clear();
        c.connection.forget(statement_of(statement)).map(|()| 0i8)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_parameters(connection: *mut ondol, statement: c_int) -> c_int {
    let connection = connection!(connection);
    connection.told(|c| c.connection.params(statement_of(statement)).map(|all| all.len()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_columns(connection: *mut ondol, statement: c_int) -> c_int {
    let connection = connection!(connection);
    connection.told(|c| c.connection.columns(statement_of(statement)).map(|all| all.len()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_column_name(
    connection: *mut ondol,
    statement: c_int,
    column: c_int,
) -> *const c_char {
    // SAFETY: c/P1
    let Some(connection) = (unsafe { own(connection) }) else { return std::ptr::null() };
    let found: c_int = connection.told(|c| {
        let all = c.connection.columns(statement_of(statement))?;
        let found = usize::try_from(column).ok().and_then(|n| all.get(n));
        let found = found.ok_or_else(|| {
            ::ondol::Error::new("22023", format!("expected a column below {}, found {column}", all.len()))
        })?;
        c.name = c_text(&found.name);
        Ok(0i8)
    });
    if found == 0 { connection.name.as_ptr() } else { std::ptr::null() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_run(connection: *mut ondol, calls: *const ondol_calls) -> c_int {
    let connection = connection!(connection);
    connection.told(|c| {
        c.kept.get_mut().clear();
        // SAFETY: c/P1
        let calls = unsafe { calls.as_ref() }.ok_or_else(|| null("calls"))?;
        c.connection.run(&calls.0).map(|_| 0i8)
    })
}
