//! Calls, and their parameters.
use ::ondol::Value;
use ::ondol::connect::{Calls, Commit, Statement};
use std::ffi::{c_char, c_int, c_void};

#[expect(non_camel_case_types, reason = "it is C's")]
pub struct ondol_calls(pub(crate) Calls);

#[unsafe(no_mangle)]
pub extern "C" fn ondol_calls_new(commit: c_int) -> *mut ondol_calls {
    let commit = match commit {
        0 => Commit::Each,
        1 => Commit::Together,
        _ => return std::ptr::null_mut(),
    };
    Box::into_raw(Box::new(ondol_calls(Calls::new(commit))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_calls_free(calls: *mut ondol_calls) {
    if !calls.is_null() {
        // SAFETY: c/P1: `ondol_calls_new` has made it.
        drop(unsafe { Box::from_raw(calls) })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_calls_clear(calls: *mut ondol_calls) {
    // SAFETY: c/P1
    if let Some(calls) = unsafe { calls.as_mut() } {
        calls.0.clear()
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_add(calls: *mut ondol_calls, statement: c_int) -> c_int {
    // SAFETY: c/P1
    let (Some(calls), Ok(n)) = (unsafe { calls.as_mut() }, usize::try_from(statement)) else { return -1 };
    calls.0.begin(Statement::of_number(n));
    c_int::try_from(calls.0.len() - 1).unwrap_or(-1)
}

/// Parameters that a statement can have at most.
const MOST: usize = 65_535;

/// # Safety
/// c/P1
unsafe fn set(calls: *mut ondol_calls, parameter: c_int, value: Value) -> c_int {
    // SAFETY: c/P1
    let (Some(calls), Ok(n)) = (unsafe { calls.as_mut() }, usize::try_from(parameter)) else { return -1 };
    if calls.0.is_empty() || n >= MOST {
        return -1;
    }
    calls.0.set(n, value);
    0
}

/// # Safety
/// c/P1
unsafe fn bytes_of<'a>(bytes: *const c_void, length: usize) -> Option<&'a [u8]> {
    match (bytes.is_null(), length) {
        (true, 0) => Some(&[]),
        (true, _) => None,
        // SAFETY: c/P1
        (false, _) => Some(unsafe { std::slice::from_raw_parts(bytes.cast(), length) }),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_set_null(calls: *mut ondol_calls, parameter: c_int) -> c_int {
    // SAFETY: c/P1
    unsafe { set(calls, parameter, Value::Null) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_set_bool(calls: *mut ondol_calls, parameter: c_int, value: c_int) -> c_int {
    // SAFETY: c/P1
    unsafe { set(calls, parameter, Value::Bool(value != 0)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_set_int(calls: *mut ondol_calls, parameter: c_int, value: i64) -> c_int {
    // SAFETY: c/P1
    unsafe { set(calls, parameter, Value::Int8(value)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_set_double(calls: *mut ondol_calls, parameter: c_int, value: f64) -> c_int {
    // SAFETY: c/P1
    unsafe { set(calls, parameter, Value::Float8(value)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_set_text(
    calls: *mut ondol_calls,
    parameter: c_int,
    text: *const c_char,
    length: usize,
) -> c_int {
    // SAFETY: c/P1
    let Some(bytes) = (unsafe { bytes_of(text.cast(), length) }) else { return -1 };
    match std::str::from_utf8(bytes) {
        // SAFETY: c/P1
        Ok(text) => unsafe { set(calls, parameter, Value::Text(text.into())) },
        Err(_) => -1,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_set_bytes(
    calls: *mut ondol_calls,
    parameter: c_int,
    bytes: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: c/P1
    let Some(bytes) = (unsafe { bytes_of(bytes, length) }) else { return -1 };
    // SAFETY: c/P1
    unsafe { set(calls, parameter, Value::Bytea(bytes.to_vec())) }
}
