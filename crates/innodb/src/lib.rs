//! InnoDB tables read from their files, without a server.
//!
//! ```text
//!   space     a tablespace file: pages, each proved by its checksum; inflated by packed (page compression) or zip (ROW_FORMAT=COMPRESSED)
//!             decrypted by crypt, with MariaDB's file of keys
//!   tree      the clustered index's leaves, in key order
//!   record    where each field of each row on a leaf lies
//!   table     columns and their types; from sdi (MySQL 8), frm (MariaDB, with what instant tells of former columns) or schema (SQL text)
//!   value     what a field means        lob   what did not fit the record
//!   folder    which tables a server's folder has
//!   evidence  why the file may be believed: by the server's redo and undo, as of a moment
//! ```
//!
//! No tablespace is ever written ([`snapshot`] makes copies), and no row is ever guessed: what is damaged,
//! changed while it was copied, or not understood is an error that says where.

// Arrays of texts that were looked at when they were added: each block names its reason.
#![allow(unsafe_code)]

mod absent;
mod cells;
pub mod charset;
pub mod checksum;
#[cfg(feature = "columnar")]
pub mod columns;
mod crypt;
pub mod definition;
mod double;
pub mod error;
pub mod evidence;
pub mod export;
pub mod folder;
pub mod frm;
pub mod instant;
pub mod json;
pub mod keys;
pub mod lob;
pub mod moment;
pub mod packed;
pub mod page;
pub mod record;
mod redo;
mod room;
pub mod scan;
pub mod schema;
pub mod sdi;
mod single;
pub mod snapshot;
pub mod space;
pub mod table;
pub mod text;
pub mod tree;
mod undo;
pub mod value;
pub mod zip;
