//! What can go wrong, by operation: one enum for commits, one for checkpoints, one for recovery.
use crate::CommitTs;
use std::fmt;

/// Why a commit cannot be logged, or cannot be believed to be durable.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogError {
    /// *Stop.* A write or a sync of this stream failed: nothing later will ever be acknowledged
    /// (protocol/P7).
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

/// Why a database is not opened, or looked at, for the sake of its log's ring (protocol/P10). Nothing is
/// changed on the medium.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RingError {
    /// The end of the log is in this ring, and none was given.
    NotGiven { ring: String },
    /// There is no file of the ring that was given; the mark says where it was.
    Missing { ring: String, marked: String },
    /// The ring that was given is not the one that the mark names, by number and path.
    Another { ring: String, marked: String, expected: u64, found: u64 },
    /// The mark is of another folder: this one is a copy of a database that was open, or crashed.
    Copied { folder: String, ring: String },
    /// The further log folders are not those that the mark names, or not in their order.
    OtherFolders { expected: usize, found: usize },
    /// A ring that is not for power failures, and the system was started since.
    Rebooted { ring: String },
    /// The ring holds entries, and the database is not marked: it was gone on with without the ring.
    Unmarked { ring: String, entries: u64 },
    /// The manifest says that the log is on a ring, and the mark is not there.
    MarkGone,
    /// The entries are of another life than the manifest's last.
    OtherLife { ring: String, expected: u64, found: u64 },
    /// This entry was acknowledged, and is not whole.
    Damaged { ring: String, entry: u64 },
    /// The mark cannot be understood.
    Mark { why: String },
    /// The ring is another database's.
    Foreign { ring: String, owner: String },
    /// Another process has the ring.
    InUse { ring: String },
    /// The file, or what was asked for, makes no ring.
    Unfit { ring: String, expected: String, found: String },
    /// A power failure is to be survived, and a fence is not enough for that where the ring lies.
    NotPersistent { ring: String },
}

impl RingError {
    /// Whether the database can be opened without what the ring holds, by a caller who says so.
    pub fn can_be_lost(&self) -> bool {
        use RingError::*;
        !matches!(self, Foreign { .. } | InUse { .. } | Unfit { .. } | NotPersistent { .. })
    }
}
impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use RingError::*;
        match self {
            NotGiven { ring } => {
                write!(f, "the end of the log is in the ring \"{ring}\", and no ring was given")
            }
            Missing { ring, marked } => write!(
                f,
                "\"{ring}\": expected the ring that holds the end of the log, found no file; it was \"{marked}\""
            ),
            Another { ring, marked, expected, found } => write!(
                f,
                "\"{ring}\": expected the ring of number {expected:016x}, which holds the end of the log and was \"{marked}\", \
                 found one of number {found:016x}"
            ),
            Copied { folder, ring } => write!(
                f,
                "\"{folder}\" is a copy of a database that was not closed: the end of its log is in the ring \"{ring}\", which is the \
                 original's"
            ),
            OtherFolders { expected, found } => write!(
                f,
                "expected the {expected} further log folders of the last opening, in their order, found others ({found} given)"
            ),
            Rebooted { ring } => write!(
                f,
                "the database was not closed before the system was started anew, and its ring \"{ring}\" promises nothing then"
            ),
            Unmarked { ring, entries } => write!(
                f,
                "\"{ring}\" holds {entries} entries, and the database is not marked: it was used without the ring since they were made"
            ),
            MarkGone => write!(
                f,
                "the manifest says that the log is on a ring, expected the mark \"log-ring\", found none"
            ),
            OtherLife { ring, expected, found } => write!(
                f,
                "\"{ring}\": expected entries of incarnation {expected}, the database's last, found some of {found}: it was used without \
                 the ring since"
            ),
            Damaged { ring, entry } => {
                write!(f, "\"{ring}\": entry {entry} was acknowledged, expected it whole, found it damaged")
            }
            Mark { why } => write!(f, "\"log-ring\": damaged mark: {why}"),
            Foreign { ring, owner } => {
                write!(f, "the ring \"{ring}\" is that of the database in \"{owner}\"")
            }
            InUse { ring } => {
                write!(f, "the ring \"{ring}\" is in use by another process, or twice in this one")
            }
            Unfit { ring, expected, found } => write!(f, "\"{ring}\": expected {expected}, found {found}"),
            NotPersistent { ring } => write!(
                f,
                "\"{ring}\" is not on persistent memory (MAP_SYNC is refused), so that a power failure would cost acknowledged commits"
            ),
        }
    }
}
impl std::error::Error for RingError {}

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
    /// The log's ring is not as it must be.
    Ring(RingError),
}
impl From<RingError> for RecoveryError {
    fn from(e: RingError) -> Self {
        RecoveryError::Ring(e)
    }
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
            Ring(e) => e.fmt(f),
        }
    }
}
impl std::error::Error for RecoveryError {}
