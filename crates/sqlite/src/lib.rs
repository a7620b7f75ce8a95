//! A loadable SQLite extension: the VFS "ondol", whose checkpoints share or exchange blocks between WAL and
//! database instead of writing pages twice. How it is used: `docs/sqlite.md`; its file format, and the
//! argument for each rule: `docs/sqlite-proof.md`.
//!
//! SQLite stays what it is: its `unix` VFS does all I/O, locking and shared memory, its WAL's checksums and
//! order of syncs prove what is durable. What is here is a translation of offsets (`layout`, `places`,
//! `wal`), a mark that keeps stock SQLite away while it would not understand (`care`), and a shortcut for
//! some writes of a checkpoint (`plan`, `sharing`). In the mode for persistent memory the files are mapped,
//! and SQLite reads and writes memory (`window`, `ground`).
//!
//! What is deliberately absent: SQL, pages' contents.
#![allow(unsafe_code)] // A C interface: each block names the part of SQLite's contract that it rests on.

mod below;
pub mod care;
mod chain;
mod database;
mod descriptors;
pub mod doctor;
pub mod exchange;
#[doc(hidden)]
pub mod ffi;
#[doc(hidden)]
pub mod ground;
mod journal;
pub mod layout;
#[doc(hidden)]
pub mod measure;
pub mod medium;
mod moving;
mod observed;
pub mod places;
pub mod plan;
mod settings;
#[doc(hidden)]
pub mod sharing;
mod status;
mod table;
mod verdict;
mod vfs;
pub mod wal;
pub mod window;

use std::ffi::{c_char, c_int, c_void};

/// The entry point that `load_extension` looks for.
///
/// # Safety
/// SQLite calls it with a connection, a place for a message, and the table of its functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_extension_init(
    connection: *mut c_void,
    message: *mut *mut c_char,
    table: *const *const c_void,
) -> c_int {
    // SAFETY: handed through.
    unsafe { begin(connection, message, table) }
}

/// What both entry points do. Neither calls the other: SQLite loads libraries so that an exported name leads
/// to the first library that has it, and every extension may have one that is called
/// `sqlite3_extension_init`.
///
/// # Safety
/// As [`sqlite3_extension_init`].
unsafe fn begin(connection: *mut c_void, message: *mut *mut c_char, table: *const *const c_void) -> c_int {
    let done = std::panic::catch_unwind(|| {
        // SAFETY: the table is SQLite's.
        let ready = unsafe { ffi::adopt(table) }.map_err(str::to_string).and_then(|()| {
            vfs::register()?;
            // SAFETY: SQLite's connection; the function stays, since the library does.
            match unsafe { (table::register(connection), (ffi::api().auto_extension)(each_connection)) } {
                (ffi::OK, ffi::OK) => Ok(()),
                codes => Err(format!("SQLite refused the table \"ondol_status\": errors {codes:?}")),
            }
        });
        match ready {
            Ok(()) => ffi::OK_LOAD_PERMANENTLY,
            Err(why) => {
                if !message.is_null() && !table.is_null() {
                    // SAFETY: SQLite gave the place, and frees the text, which comes from this table's
                    // allocator.
                    unsafe { *message = ffi::message(table, &format!("ondol: {why}")) };
                }
                ffi::ERROR
            }
        }
    });
    done.unwrap_or(ffi::ERROR)
}

/// Gives each later connection the table `ondol_status`.
unsafe extern "C" fn each_connection(
    connection: *mut c_void,
    _: *mut *mut c_char,
    _: *const *const c_void,
) -> c_int {
    // SAFETY: SQLite's connection.
    vfs::guard(ffi::ERROR, || unsafe { table::register(connection) })
}

/// The entry point that SQLite derives from the file's name, `libondol_sqlite.so`.
///
/// # Safety
/// As [`sqlite3_extension_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sqlite3_ondolsqlite_init(
    connection: *mut c_void,
    message: *mut *mut c_char,
    table: *const *const c_void,
) -> c_int {
    // SAFETY: handed through.
    unsafe { begin(connection, message, table) }
}
