//! What sessions begin with: settings that are kept in the dictionary, for a role, for everybody, or for all
//! who use the database.
//!
//! - **S1** The values are texts as they were given. Who takes one looks whether it is a value.
use crate::shared::SharedMap;
use std::sync::Arc;

/// Whose settings they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope {
    /// 0: everybody.
    pub role: u32,
    /// Of the database, and not of every one that a server might have.
    pub in_database: bool,
}

impl Scope {
    /// Those that a session of the role begins with; the later of them count.
    pub fn of_session(role: u32) -> [Scope; 4] {
        let scope = |role, in_database| Scope { role, in_database };
        [scope(0, false), scope(0, true), scope(role, false), scope(role, true)]
    }
}

/// Names and values, in the order in which they were first set.
pub type ScopeSettings = Vec<(String, String)>;

pub type Settings = SharedMap<Scope, Arc<ScopeSettings>>;
