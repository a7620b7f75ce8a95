//! What can be wrong with a file, said so that one can go and look.
use std::fmt;
use std::path::{Path, PathBuf};

pub type Result<T> = std::result::Result<T, Error>;

/// An error about one file: what was expected, what was found, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub file: PathBuf,
    /// The page, where the error is about one.
    pub page: Option<u32>,
    pub kind: Kind,
    pub message: String,
}

/// What sort of thing went wrong, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The file cannot be opened or read.
    Io,
    /// The file's content contradicts itself: a checksum, a link, a length.
    Damaged,
    /// The file is whole, but uses something that is not read here.
    Unsupported,
    /// What was asked for does not fit the file: another table's definition, a column that is not there.
    Mismatch,
}

impl Error {
    pub fn new(file: &Path, kind: Kind, message: impl Into<String>) -> Error {
        Error { file: file.to_path_buf(), page: None, kind, message: message.into() }
    }
    pub fn on_page(file: &Path, page: u32, kind: Kind, message: impl Into<String>) -> Error {
        Error { file: file.to_path_buf(), page: Some(page), kind, message: message.into() }
    }
    /// About a page that is whole, of which the definition makes no sense.
    pub fn unfit(file: &Path, page: u32, why: &str) -> Error {
        let why = format!(
            "{why}. The definition does not fit what is there: it may be another table's, or of another day; --schema FILE.sql (in SQL schema => '…') gives it in CREATE TABLE's words"
        );
        Error::on_page(file, page, Kind::Mismatch, why)
    }
    pub fn io(file: &Path, what: &str, e: &std::io::Error) -> Error {
        Error::new(file, Kind::Io, format!("{what}: {e}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(page) = self.page {
            write!(f, ", page {page}")?;
        }
        write!(f, ": {}", self.message)
    }
}
impl std::error::Error for Error {}
