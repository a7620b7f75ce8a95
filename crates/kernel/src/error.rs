//! What can go wrong in a transaction, sorted by what the caller should do.
use ondol_durability::error::LogError;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    // Retry the transaction.
    /// A row was changed by a transaction that committed after this one's snapshot.
    Conflict,
    /// A serializable transaction's reads did not hold until its commit.
    Serialization,
    Deadlock,
    // Reject the statement.
    /// NOWAIT, or the lock timeout passed.
    LockNotAvailable {
        timeout: bool,
    },
    /// The index's number; the key is in `row`'s columns.
    UniqueViolation {
        index: u32,
    },
    /// A row that was inserted, or changed, by the running command was to be changed by it.
    SecondTime,
    /// A row was given back because others share the keys that were to be others (lock/L6): to be looked at
    /// anew once they have let go.
    KeysShared,
    OutOfMemory {
        limit: usize,
    },
    TooLarge {
        bytes: usize,
        limit: usize,
    },
    Canceled,
    /// A value has no place in its row, whose column's type it was not brought to.
    Unfit,
    /// A thread that inserted for the transaction panicked: what it did is not known, so the transaction can
    /// only be aborted.
    Panicked,
    // Stop writing.
    Log(LogError),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Conflict => write!(f, "could not serialize access due to concurrent update"),
            Error::Serialization => {
                write!(f, "could not serialize access due to read/write dependencies among transactions")
            }
            Error::Deadlock => write!(f, "deadlock detected"),
            Error::LockNotAvailable { timeout: true } => write!(f, "canceling statement due to lock timeout"),
            Error::LockNotAvailable { timeout: false } => write!(f, "could not obtain lock on row"),
            Error::UniqueViolation { index } => write!(f, "duplicate key in index {index}"),
            Error::SecondTime => write!(f, "ON CONFLICT DO UPDATE command cannot affect row a second time"),
            Error::KeysShared => write!(f, "others share the row's keys"),
            Error::OutOfMemory { limit } => write!(f, "out of memory: the limit of {limit} bytes is reached"),
            Error::Unfit => write!(f, "a value is not of its column's type"),
            Error::TooLarge { bytes, limit } => {
                write!(f, "a value of {bytes} bytes is larger than the limit of {limit} bytes")
            }
            Error::Canceled => write!(f, "canceling statement due to user request"),
            Error::Panicked => write!(f, "a thread that inserted for the transaction panicked"),
            Error::Log(e) => write!(f, "{e}"),
        }
    }
}
impl std::error::Error for Error {}
impl From<LogError> for Error {
    fn from(e: LogError) -> Self {
        Error::Log(e)
    }
}
