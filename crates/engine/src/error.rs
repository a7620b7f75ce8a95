//! Kernel and durability errors as a client sees them.
use ondol_durability::error::{CheckpointError, LogError, RecoveryError, RingError};
use ondol_types::{SqlError, sqlstate as s};

pub fn kernel(e: ondol_kernel::Error) -> SqlError {
    use ondol_kernel::Error as E;
    let code = match &e {
        E::Conflict | E::Serialization => s::SERIALIZATION_FAILURE,
        E::Deadlock => s::DEADLOCK_DETECTED,
        E::LockNotAvailable { .. } => s::LOCK_NOT_AVAILABLE,
        E::UniqueViolation { .. } => s::UNIQUE_VIOLATION,
        E::SecondTime => s::CARDINALITY_VIOLATION,
        E::KeysShared => crate::connection::KEYS_SHARED,
        E::OutOfMemory { .. } => s::OUT_OF_MEMORY,
        E::TooLarge { .. } => s::PROGRAM_LIMIT_EXCEEDED,
        E::Canceled => s::QUERY_CANCELED,
        E::Log(e) => return log(e.clone()),
        _ => s::INTERNAL_ERROR,
    };
    let error = SqlError::new(code, e.to_string());
    match e {
        E::OutOfMemory { .. } => error
            .hint("Delete rows, drop indexes or tables, or open the database with a larger memory limit."),
        E::SecondTime => error.hint(
            "Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
        ),
        E::Conflict | E::Serialization => error.hint("The transaction might succeed if retried."),
        _ => error,
    }
}

pub fn log(e: LogError) -> SqlError {
    let code = match &e {
        LogError::DiskFull { .. } => s::DISK_FULL,
        LogError::TooLarge { .. } => s::PROGRAM_LIMIT_EXCEEDED,
        _ => s::IO_ERROR,
    };
    SqlError::new(code, e.to_string())
}

pub fn checkpoint(e: CheckpointError) -> SqlError {
    match e {
        CheckpointError::Io { file, error } => io(&format!("checkpoint file {file}"), error),
        CheckpointError::Log(e) => log(e),
        e => SqlError::new(s::INTERNAL_ERROR, e.to_string()),
    }
}

pub fn io(what: &str, e: std::io::Error) -> SqlError {
    SqlError::new(io_state(&e), format!("{what}: {e}"))
}

/// The SQLSTATE of what the system said about a file.
pub fn io_state(e: &std::io::Error) -> &'static str {
    use std::io::ErrorKind::*;
    match e.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => s::DISK_FULL,
        PermissionDenied => "42501",
        _ => s::IO_ERROR,
    }
}

fn ring(e: &RingError) -> SqlError {
    let code = match e {
        RingError::Damaged { .. } | RingError::Mark { .. } => s::DATA_CORRUPTED,
        e if e.can_be_lost() => "55000",
        RingError::Foreign { .. } | RingError::InUse { .. } => s::OBJECT_IN_USE,
        _ => s::INVALID_PARAMETER_VALUE,
    };
    let error = SqlError::new(code, e.to_string());
    match e {
        RingError::NotGiven { .. } => error.hint(
            "Give it (--log-ring). If it is gone, --lose-acknowledged-commits yes opens the database without what only the ring holds.",
        ),
        RingError::Rebooted { .. } => error.hint(
            "If the system was shut down in order, the files hold all that the ring does. --lose-acknowledged-commits yes opens the \
             database with what they hold.",
        ),
        RingError::Foreign { .. } => {
            error.hint("Name another file; or, if that database is gone, remove this one.")
        }
        RingError::NotPersistent { .. } => error.hint(
            "--log-ring-promise server-crash makes a ring that survives the end of the process alone.",
        ),
        e if e.can_be_lost() => error.hint(
            "--lose-acknowledged-commits yes opens the database with what its files hold, and gives up what only a ring does.",
        ),
        _ => error,
    }
}

pub fn recovery(e: RecoveryError) -> SqlError {
    let code = match &e {
        RecoveryError::Locked { folder } => {
            return SqlError::new(
                s::OBJECT_IN_USE,
                format!("database \"{folder}\" is in use by another process, or open twice in this one"),
            );
        }
        RecoveryError::Target(_) => s::OUT_OF_MEMORY,
        RecoveryError::StreamsMissing { .. } => s::INVALID_PARAMETER_VALUE,
        RecoveryError::WrongFormat { .. } => {
            return SqlError::new(s::FEATURE_NOT_SUPPORTED, e.to_string()).hint(
                "Dump the database with the version of Ondol that wrote it, and restore it with this one.",
            );
        }
        RecoveryError::Io { error, .. } => io_state(error),
        RecoveryError::Ring(e) => return ring(e),
        _ => s::DATA_CORRUPTED,
    };
    SqlError::new(code, e.to_string())
}
