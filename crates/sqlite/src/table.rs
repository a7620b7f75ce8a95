//! The table `ondol_status`: a row for each fact about each database that the connection has open through
//! this VFS.
//!
//! `database` is the schema's name (main, or what ATTACH named it), `name` and `value` are those of
//! `PRAGMA ondol_status`. An eponymous virtual table: it is there in every connection opened after the
//! library was loaded, without being created.
use crate::ffi::{self, Context, Cursor, Module, VirtualTable, api};
use crate::status::Value;
use crate::vfs::{guard, status_of};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

/// A row: schema, name, value.
type StatusRow = (String, &'static str, Value);

/// SQLite's part, then ours.
#[repr(C)]
struct OurTable {
    sqlite: VirtualTable,
    connection: *mut c_void,
}

/// SQLite's part, then ours. The rows are those of the moment in which the scan began.
#[repr(C)]
struct OurCursor {
    sqlite: Cursor,
    rows: Vec<StatusRow>,
    at: usize,
}

static MODULE: Module = Module {
    version: 0,
    create: None,
    connect: Some(connect),
    best_index: Some(best_index),
    disconnect: Some(disconnect),
    destroy: None,
    open: Some(open),
    close: Some(close),
    filter: Some(filter),
    next: Some(next),
    eof: Some(eof),
    column: Some(column),
    rowid: Some(rowid),
    rest: [None; 7],
};

/// Gives a connection the table.
///
/// # Safety
/// The connection is open, and this is its thread.
pub unsafe fn register(connection: *mut c_void) -> c_int {
    // SAFETY: as above; the module lives as long as the program, since the library stays loaded.
    unsafe {
        (api().create_module)(connection, c"ondol_status".as_ptr(), &raw const MODULE, std::ptr::null_mut())
    }
}

unsafe extern "C" fn connect(
    connection: *mut c_void,
    _: *mut c_void,
    _: c_int,
    _: *const *const c_char,
    out: *mut *mut VirtualTable,
    _: *mut *mut c_char,
) -> c_int {
    guard(ffi::ERROR, || {
        // SAFETY: SQLite's own connection, and a place for the table; it goes in `disconnect`.
        unsafe {
            let code =
                (api().declare_vtab)(connection, c"CREATE TABLE x(database TEXT, name TEXT, value)".as_ptr());
            if code == ffi::OK {
                let table = OurTable { sqlite: VirtualTable::default(), connection };
                *out = Box::into_raw(Box::new(table)).cast();
            }
            code
        }
    })
}

/// Every scan gives all rows: SQLite itself compares.
unsafe extern "C" fn best_index(_: *mut VirtualTable, _: *mut c_void) -> c_int {
    ffi::OK
}

unsafe extern "C" fn disconnect(table: *mut VirtualTable) -> c_int {
    // SAFETY: the last call for this table, which came from a box.
    drop(unsafe { Box::from_raw(table.cast::<OurTable>()) });
    ffi::OK
}

unsafe extern "C" fn open(_: *mut VirtualTable, out: *mut *mut Cursor) -> c_int {
    let cursor = OurCursor { sqlite: Cursor::default(), rows: Vec::new(), at: 0 };
    // SAFETY: SQLite gives a place for the cursor, and sets its part of it; it goes in `close`.
    unsafe { *out = Box::into_raw(Box::new(cursor)).cast() };
    ffi::OK
}

unsafe extern "C" fn close(cursor: *mut Cursor) -> c_int {
    // SAFETY: the last call for this cursor, which came from a box.
    drop(unsafe { Box::from_raw(cursor.cast::<OurCursor>()) });
    ffi::OK
}

/// # Safety
/// `cursor` is an open cursor of ours, in its connection's call.
unsafe fn ours<'a>(cursor: *mut Cursor) -> &'a mut OurCursor {
    // SAFETY: as above.
    unsafe { &mut *cursor.cast::<OurCursor>() }
}

unsafe extern "C" fn filter(
    cursor: *mut Cursor,
    _: c_int,
    _: *const c_char,
    _: c_int,
    _: *mut *mut c_void,
) -> c_int {
    guard(ffi::ERROR, || {
        // SAFETY: the cursor and its table are open, in their connection's call.
        unsafe {
            let cursor = ours(cursor);
            let connection = (*cursor.sqlite.table.cast::<OurTable>()).connection;
            cursor.at = 0;
            cursor.rows = match schemas(connection) {
                Ok(schemas) => schemas.into_iter().flat_map(|schema| rows(connection, &schema)).collect(),
                Err(code) => return code,
            };
        }
        ffi::OK
    })
}

/// The names of a connection's databases.
///
/// # Safety
/// The connection is open, and this is its thread.
unsafe fn schemas(connection: *mut c_void) -> Result<Vec<CString>, c_int> {
    let mut statement = std::ptr::null_mut();
    let mut names = Vec::new();
    // SAFETY: as above; the text of a column lives until the next step.
    unsafe {
        let sql = c"PRAGMA database_list".as_ptr();
        let code = (api().prepare)(connection, sql, -1, &mut statement, std::ptr::null_mut());
        if code != ffi::OK {
            return Err(code);
        }
        while (api().step)(statement) == ffi::ROW {
            let name = (api().column_text)(statement, 1);
            if !name.is_null() {
                names.push(CStr::from_ptr(name).to_owned());
            }
        }
        match (api().finalize)(statement) {
            ffi::OK => Ok(names),
            code => Err(code),
        }
    }
}

/// The rows of one database; none if it is not open through this VFS.
///
/// # Safety
/// The connection is open, and this is its thread.
unsafe fn rows(connection: *mut c_void, schema: &CStr) -> Vec<StatusRow> {
    let mut file: *mut ffi::File = std::ptr::null_mut();
    // SAFETY: as above; SQLite gives the file that the connection has open, in this very thread.
    let facts = unsafe {
        let out = (&raw mut file).cast();
        match (api().file_control)(connection, schema.as_ptr(), ffi::FCNTL_FILE_POINTER, out) {
            ffi::OK => status_of(file),
            _ => None,
        }
    };
    let name = schema.to_string_lossy().into_owned();
    facts.unwrap_or_default().into_iter().map(|(fact, value)| (name.clone(), fact, value)).collect()
}

unsafe extern "C" fn next(cursor: *mut Cursor) -> c_int {
    // SAFETY: SQLite's contract for an open cursor.
    unsafe { ours(cursor) }.at += 1;
    ffi::OK
}

unsafe extern "C" fn eof(cursor: *mut Cursor) -> c_int {
    // SAFETY: as above.
    let cursor = unsafe { ours(cursor) };
    c_int::from(cursor.at >= cursor.rows.len())
}

unsafe extern "C" fn column(cursor: *mut Cursor, context: *mut Context, n: c_int) -> c_int {
    guard(ffi::ERROR, || {
        // SAFETY: as above.
        let cursor = unsafe { ours(cursor) };
        let Some((schema, name, value)) = cursor.rows.get(cursor.at) else { return ffi::ERROR };
        // SAFETY: SQLite's context, in its call.
        unsafe {
            match (n, value) {
                (0, _) => api().result_text(context, schema),
                (1, _) => api().result_text(context, name),
                (_, Value::Text(text)) => api().result_text(context, text),
                (_, Value::Count(count)) => (api().result_int64)(context, *count as i64),
                (_, Value::Number(number)) => (api().result_double)(context, *number),
            }
        }
        ffi::OK
    })
}

unsafe extern "C" fn rowid(cursor: *mut Cursor, out: *mut i64) -> c_int {
    // SAFETY: as above; SQLite gives a place for the number.
    unsafe { *out = ours(cursor).at as i64 };
    ffi::OK
}
