//! What can go wrong, by operation: one enum for commits, one for checkpoints, one for recovery.
use crate::CommitTs;
use std::fmt;

/// Why a commit cannot be logged, or cannot be believed to be durable.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogError {
    /// *Stop.* A write or a sync of this stream failed: nothing later will ever be acknowledged (P7).
    Failed { stream: u16, file: String, why: String },
    /// *Retry later.* No log space could be prepared. No commit timestamp was taken; reads go on, and commits
    /// do when space returns.
    DiskFull { stream: u16, why: String },
    /// *Reject.* Larger than a record may be: spill fragments.
    TooLarge { len: usize, limit: usize },
    /// *Reject.* There is no such stream.
    NoStream { stream: u16, streams: usize },
    /// *Stop.* The log was closed.
    Closed,
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Failed { stream, file, why } => {
                write!(
                    f,
                    "log stream {stream} failed at {file}: {why}; commits since the last acknowledged one are not durable"
                )
            }
            LogError::DiskFull { stream, why } => {
                write!(f, "no space for log stream {stream}: {why}; commits wait for space, reads go on")
            }
            LogError::TooLarge { len, limit } => {
                write!(f, "a log record of {len} bytes exceeds the limit of {limit}")
            }
            LogError::NoStream { stream, streams } => {
                write!(f, "there is no log stream {stream}: expected one below {streams}")
            }
            LogError::Closed => write!(f, "the log is closed"),
        }
    }
}
impl std::error::Error for LogError {}

/// Why a checkpoint was not published. Nothing is lost: the previous one and the whole log still stand.
#[non_exhaustive]
#[derive(Debug)]
pub enum CheckpointError {
    /// The medium refused; `DiskFull` of the checkpoint's folder comes this way too.
    Io { file: String, error: std::io::Error },
    /// The log can no longer make a round durable.
    Log(LogError),
    /// The source named a page as changed which its segment table does not know as formatted.
    Unformatted { page: u64 },
}
impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckpointError::Io { file, error } => write!(f, "checkpoint file {file}: {error}"),
            CheckpointError::Log(e) => write!(f, "checkpoint not published: {e}"),
            CheckpointError::Unformatted { page } => {
                write!(
                    f,
                    "page {page} is named as changed, expected it in a formatted segment, found it in none"
                )
            }
        }
    }
}
impl std::error::Error for CheckpointError {}
impl From<LogError> for CheckpointError {
    fn from(e: LogError) -> Self {
        CheckpointError::Log(e)
    }
}

/// Why a database is not opened. Nothing is changed on the medium in any of these cases.
#[non_exhaustive]
#[derive(Debug)]
pub enum RecoveryError {
    /// The medium refused to read or write.
    Io { file: String, error: std::io::Error },
    /// Someone else has the database open.
    Locked { folder: String },
    /// The file is not of this kind.
    WrongMagic { file: String, offset: u64, expected: u64, found: u64 },
    /// Written by another version of the format.
    WrongFormat { file: String, expected: u32, found: u32 },
    /// The file belongs to another database.
    OtherDatabase { file: String, offset: u64, expected: u128, found: u128 },
    /// A log file of one stream stands in another's folder.
    OtherStream { file: String, offset: u64, expected: u16, found: u16 },
    /// The manifest names more streams than the configuration.
    StreamsMissing { expected: usize, found: usize },
    /// Neither copy of the manifest can be believed.
    Manifest { file: String, why: String },
    /// A file that must be there is not.
    MissingFile { file: String, why: String },
    /// A checkpoint file is damaged.
    Image { file: String, offset: u64, expected: String, found: String },
    /// A log block is valid by its checksum, yet holds what cannot be.
    Block { file: String, offset: u64, expected: String, found: String },
    /// A valid block says that this round was durable, and it is not there.
    RoundLost { file: String, offset: u64, durable: u64, complete: u64 },
    /// The database was closed in order at this round, and its log ends elsewhere.
    ClosedElsewhere { file: String, expected: u64, found: u64 },
    /// A commit timestamp between the checkpoint and the end is in no record.
    CommitMissing { file: String, ts: CommitTs, from: CommitTs, to: CommitTs },
    /// A commit timestamp is in two records.
    CommitDouble { file: String, offset: u64, ts: CommitTs },
    /// A commit counts more, or fewer, fragments than there are.
    Fragments { file: String, ts: CommitTs, txn: u64, expected: u32, found: u32 },
    /// A page's checksum does not follow from its image and its differences.
    PageProof { file: String, page: u64, expected: u32, found: u32 },
    /// Memory could not be set up.
    Target(String),
}

impl fmt::Display for RecoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use RecoveryError::*;
        match self {
            Io { file, error } => write!(f, "{file}: {error}"),
            Locked { folder } => write!(f, "{folder}: in use by another process"),
            WrongMagic { file, offset, expected, found } => {
                write!(f, "{file} at {offset}: expected magic {expected:016x}, found {found:016x}")
            }
            WrongFormat { file, expected, found } => {
                write!(
                    f,
                    "{file}: found format version {found}, expected {expected}, the only one that is understood here"
                )
            }
            OtherDatabase { file, offset, expected, found } => {
                write!(f, "{file} at {offset}: expected database {expected:032x}, found {found:032x}")
            }
            OtherStream { file, offset, expected, found } => {
                write!(f, "{file} at {offset}: expected stream {expected}, found {found}")
            }
            StreamsMissing { expected, found } => {
                write!(f, "the database has {expected} log streams, expected as many folders, found {found}")
            }
            Manifest { file, why } => write!(f, "{file}: damaged manifest: {why}"),
            MissingFile { file, why } => write!(f, "{file}: expected this file, found none: {why}"),
            Image { file, offset, expected, found } => {
                write!(f, "{file} at {offset}: damaged checkpoint: expected {expected}, found {found}")
            }
            Block { file, offset, expected, found } => {
                write!(f, "{file} at {offset}: damaged log: expected {expected}, found {found}")
            }
            RoundLost { file, offset, durable, complete } => write!(
                f,
                "{file} at {offset}: acknowledged commits lost: expected complete rounds up to {durable}, found them up to {complete}"
            ),
            ClosedElsewhere { file, expected, found } => {
                write!(
                    f,
                    "{file}: closed in order at round {expected}, found the log ending at round {found}"
                )
            }
            CommitMissing { file, ts, from, to } => {
                write!(f, "{file}: commit {ts} is missing, expected each from {from} to {to} once")
            }
            CommitDouble { file, offset, ts } => {
                write!(f, "{file} at {offset}: commit {ts}, expected once, found twice")
            }
            Fragments { file, ts, txn, expected, found } => {
                write!(
                    f,
                    "{file}: commit {ts} of transaction {txn}: expected {expected} fragments, found {found}"
                )
            }
            PageProof { file, page, expected, found } => {
                write!(
                    f,
                    "{file}: page {page}: expected checksum {expected:08x} from image and differences, found {found:08x}"
                )
            }
            Target(why) => write!(f, "memory could not be set up: {why}"),
        }
    }
}
impl std::error::Error for RecoveryError {}
