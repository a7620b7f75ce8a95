//! Isolation levels as SQL names them. READ UNCOMMITTED is READ COMMITTED in all but its name.

use ondol_engine::Isolation;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IsolationLevel {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl IsolationLevel {
    /// The level of a name as settings have it.
    pub fn of_name(name: &str) -> Option<IsolationLevel> {
        Some(match name {
            "read uncommitted" => IsolationLevel::ReadUncommitted,
            "read committed" => IsolationLevel::ReadCommitted,
            "repeatable read" => IsolationLevel::RepeatableRead,
            "serializable" => IsolationLevel::Serializable,
            _ => return None,
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            IsolationLevel::ReadUncommitted => "read uncommitted",
            IsolationLevel::ReadCommitted => "read committed",
            IsolationLevel::RepeatableRead => "repeatable read",
            IsolationLevel::Serializable => "serializable",
        }
    }

    /// What the engine does.
    pub fn isolation(self) -> Isolation {
        match self {
            IsolationLevel::ReadUncommitted | IsolationLevel::ReadCommitted => Isolation::ReadCommitted,
            IsolationLevel::RepeatableRead => Isolation::RepeatableRead,
            IsolationLevel::Serializable => Isolation::Serializable,
        }
    }
}

impl From<Isolation> for IsolationLevel {
    fn from(isolation: Isolation) -> IsolationLevel {
        match isolation {
            Isolation::ReadCommitted => IsolationLevel::ReadCommitted,
            Isolation::RepeatableRead => IsolationLevel::RepeatableRead,
            Isolation::Serializable => IsolationLevel::Serializable,
        }
    }
}
