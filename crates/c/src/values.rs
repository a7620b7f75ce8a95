//! What calls have given.
use crate::connection::{Own, connection, ondol};
use crate::error::null;
use ::ondol::Error;
use ::ondol::connect::{FromRow, GivenRow};
use std::ffi::{c_char, c_int, c_void};

/// Texts that were given out (c/P3): none moves when another comes.
#[derive(Default)]
pub struct Kept(Vec<Box<[u8]>>);

impl Kept {
    pub fn clear(&mut self) {
        self.0.clear()
    }
    /// The bytes, with a zero behind them.
    fn keep(&mut self, bytes: &[u8]) -> *const u8 {
        self.0.push([bytes, b"\0"].concat().into());
        self.0.last().map_or(std::ptr::null(), |b| b.as_ptr())
    }
}

fn number(n: impl TryInto<usize>) -> usize {
    n.try_into().unwrap_or(usize::MAX)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_affected(connection: *mut ondol, call: c_int) -> i64 {
    let connection = connection!(connection);
    connection.told(|c| c.connection.answers()?.affected(number(call)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_rows(connection: *mut ondol, call: c_int) -> i64 {
    let connection = connection!(connection);
    connection.told(|c| c.connection.answers()?.rows(number(call)))
}

impl Own {
    fn row(&self, call: c_int, row: i64) -> ::ondol::Result<GivenRow<'_>> {
        self.connection.answers()?.row(number(call), number(row))
    }
    /// A value as `T`, to `take` it; 0 for NULL.
    fn value<'c, T: FromRow<'c>>(
        &'c self,
        (call, row, column): (c_int, i64, c_int),
        take: impl FnOnce(T),
    ) -> ::ondol::Result<i8>
    where
        Option<T>: FromRow<'c>,
    {
        Ok(match self.row(call, row)?.get::<Option<T>>(number(column))? {
            Some(value) => {
                take(value);
                1
            }
            None => 0,
        })
    }
}

/// Where a value is written to.
///
/// # Safety
/// c/P1
unsafe fn to<'a, T>(place: *mut T) -> Result<&'a mut T, Error> {
    // SAFETY: c/P1
    unsafe { place.as_mut() }.ok_or_else(|| null("a place for the value"))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_get_bool(
    connection: *mut ondol,
    call: c_int,
    row: i64,
    column: c_int,
    value: *mut c_int,
) -> c_int {
    let connection = connection!(connection);
    connection.told(|c| {
        // SAFETY: c/P1
        let value = unsafe { to(value) }?;
        c.value((call, row, column), |v: bool| *value = v.into())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_get_int(
    connection: *mut ondol,
    call: c_int,
    row: i64,
    column: c_int,
    value: *mut i64,
) -> c_int {
    let connection = connection!(connection);
    connection.told(|c| {
        // SAFETY: c/P1
        let value = unsafe { to(value) }?;
        c.value((call, row, column), |v: i64| *value = v)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_get_double(
    connection: *mut ondol,
    call: c_int,
    row: i64,
    column: c_int,
    value: *mut f64,
) -> c_int {
    let connection = connection!(connection);
    connection.told(|c| {
        // SAFETY: c/P1
        let value = unsafe { to(value) }?;
        c.value((call, row, column), |v: f64| *value = v)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_get_text(
    connection: *mut ondol,
    call: c_int,
    row: i64,
    column: c_int,
    text: *mut *const c_char,
    length: *mut usize,
) -> c_int {
    let connection = connection!(connection);
    connection.told(|c| {
        // SAFETY: c/P1
        let (text, length) = unsafe { (to(text)?, length.as_mut()) };
        let mut shown = String::new();
        if !c.row(call, row)?.text(number(column), &mut shown)? {
            return Ok(0i8);
        }
        *text = c.kept.borrow_mut().keep(shown.as_bytes()).cast();
        if let Some(length) = length {
            *length = shown.len()
        }
        Ok(1)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ondol_get_bytes(
    connection: *mut ondol,
    call: c_int,
    row: i64,
    column: c_int,
    bytes: *mut *const c_void,
    length: *mut usize,
) -> c_int {
    let connection = connection!(connection);
    connection.told(|c| {
        // SAFETY: c/P1
        let (bytes, length) = unsafe { (to(bytes)?, to(length)?) };
        let kept = &c.kept;
        c.value((call, row, column), |v: &[u8]| {
            *bytes = kept.borrow_mut().keep(v).cast();
            *length = v.len()
        })
    })
}
