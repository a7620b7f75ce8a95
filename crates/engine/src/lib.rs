//! Databases, the dictionary, tables and row layouts: the one boundary through which everything above
//! reaches data.
//!
//! Owns: a database's folder, its dictionary (ordinary tables), table and index objects, the layout of typed
//! rows in bytes, connections with their transactions. Knows nothing of: SQL text, plans, byte code (a
//! registered query's code is bytes here).
#![forbid(unsafe_code)]

pub mod acl;
pub mod activity;
pub mod advisory;
mod beside;
pub mod catalog;
pub mod charge;
pub mod comment;
pub mod connection;
pub mod database;
pub mod define;
pub mod definers;
pub mod dictionary;
mod draft;
pub mod error;
mod fill;
pub mod later;
pub mod layout;
mod loan;
mod members;
mod memory;
pub mod name;
mod nearest;
mod online;
mod outdated;
pub mod patch;
pub mod point;
pub mod portal;
mod rebuild;
pub mod relations;
pub mod rights;
pub mod role;
pub mod row;
pub mod sequence;
pub mod settings;
pub mod shared;
pub mod simulate;
pub mod table;
pub mod table_lock;
pub mod temporary;
pub mod view;

pub use acl::{Acl, AclItem, AclKind};
pub use catalog::{
    Catalog, CheckDef, ColumnDef, DIMENSIONS, ForeignDef, FunctionDef, Generated, HIDDEN, IndexColumn,
    IndexDef, IndexKind, IndexOptions, KeyAction, Meanings, Reference, Relation, Returns, TableDef,
};
pub use catalog::{ForeignSource, Material, Nature};
pub use charge::Charge;
pub use comment::{CommentKind, Commented, schema_id};
pub use connection::{
    Access, Ask, Connection, Isolation, KEYS_SHARED, LockStrength, Locked, NewValue, Part, STALE, Scan,
    Token, Uses, Wait, Waiter, can_name,
};
pub use database::{Database, LogRing, Options};
pub use definers::{Claim, claims};
pub use layout::{ColumnLayout, Layout, Storage};
pub use loan::{Inserter, Loan, Reader};
pub use memory::{Memory, MemoryKind, MemoryPart};
pub use name::{Name, Path, SchemaDef};
pub use nearest::{Neighbours, Wanted as WantedNeighbours};
pub use ondol_base::epoch::Guard;
pub use ondol_base::oid::Oid;
pub use ondol_index::crtree::{MOST as MOST_DIMENSIONS, Rect, Search};
pub use ondol_index::hash::{Aim, Target};
pub use patch::{Bits, Patch};
pub use point::{Numbers, PointIndex};
pub use portal::Portal;
pub use rebuild::{Compute, Convert, Origin};
pub use relations::Relations;
pub use rights::{ObjectRights, RightsOf};
pub use role::{Membership, RoleDef};
pub use row::RowBatch;
pub use sequence::{Bounds, Sequence, SequenceDef, SequenceOptions};
pub use shared::SharedMap;
pub use table::{IndexScan, KeySpec, Table, TableIndex};
pub use temporary::OnCommit;
pub use view::{ViewCheck, ViewDef};
