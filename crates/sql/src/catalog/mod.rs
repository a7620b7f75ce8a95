//! PostgreSQL's catalogue over the dictionary: the relations of `pg_catalog` and `information_schema`, and
//! what its functions say of objects.
//!
//! | file | of what |
//! | --- | --- |
//! | `relation` | the relations there are, and their columns |
//! | `fixed` | rows that are PostgreSQL's own: types, functions, operators |
//! | `sight` | the objects that a statement sees, by their numbers and names |
//! | `name` | names of objects in texts: how they are read, found and shown |
//! | `rows` | which rows a relation has |
//! | `table`, `foreign`, `key`, `sequence`, `user`, `routine`, `role`, `cluster` | rows made of the dictionary |
//! | `activity` | what the sessions of a server do |
//! | `view` | relations that are queries over the others |
//! | `describe` | functions that tell of objects |
//!
//! - **Y1** Relations have PostgreSQL 15's names, columns and types, in its order. One of whose rows none is
//!   here is empty, not absent.
//! - **Y2** Rows are made when a statement reads them, of the dictionary that it was bound to.
//! - **Y3** What is PostgreSQL's has PostgreSQL's number. An object that users have made has its number in
//!   the dictionary and [`FIRST_OID`].
//! - **Y4** Who asks for the rows of one value of a key gets at least these; others may be among them.
//!
//! Source: PostgreSQL 15's documentation, chapters 37 and 53, its catalogue and its answers.

mod activity;
mod cluster;
mod depend;
mod describe;
pub(crate) mod fixed;
mod foreign;
mod information;
mod key;
mod name;
mod relation;
pub(crate) mod role;
mod routine;
mod rows;
mod sequence;
mod sight;
mod table;
mod user;
mod view;

pub use activity::{Backend, StatementRow, Totals};
pub use name::users_function;
pub(crate) use relation::function_relation;
pub use relation::{Relation, by_key, relation};
pub(crate) use rows::keys_of;
pub use rows::rows;
pub use sight::{Locks, OpenCursor, PreparedStatement, Session, Setting, Sight, USER, oid_of};
pub(crate) use view::query_of;

/// Whether a schema is one of the catalogue's.
pub fn is_schema(name: &str) -> bool {
    matches!(name, "pg_catalog" | "information_schema")
}

/// Numbers of objects that users have made begin here (Y3).
pub const FIRST_OID: u32 = 16384;

#[cfg(test)]
mod tests;
