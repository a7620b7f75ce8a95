//! Why a file may be believed to be one moment of its table.
//!
//! A running server changes pages in its memory and writes them when it likes; open transactions leave rows that no query sees. So a file is read only with evidence that it was
//! at rest, or on the user's own word.
use crate::error::{Error, Kind, Result};
use crate::page::u32_at;
use crate::space::Space;
use std::fmt;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// `FLUSH TABLES … FOR EXPORT` left `TABLE.cfg` beside the file.
    Exported(PathBuf),
    /// The folder above is a prepared backup: what its checkpoint file says.
    Backup(PathBuf),
    /// The user said so.
    Assumed,
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Evidence::Exported(path) => write!(f, "exported by the server ({})", path.display()),
            Evidence::Backup(path) => write!(f, "part of a prepared backup ({})", path.display()),
            Evidence::Assumed => write!(f, "assumed"),
        }
    }
}

/// Looks for evidence; `assume`: the user's word will do.
pub fn find(space: &Space, assume: bool) -> Result<Evidence> {
    let path = space.path();
    let cfg = path.with_extension("cfg");
    if let Ok(bytes) = std::fs::read(&cfg) {
        match page_size(&bytes) {
            Some(size) if size as usize == space.format().page_size => return Ok(Evidence::Exported(cfg)),
            found => {
                return Err(Error::new(
                    &cfg,
                    Kind::Mismatch,
                    match found {
                        Some(size) => format!(
                            "it is of a table with pages of {size} bytes, {} has pages of {}",
                            path.display(),
                            space.format().page_size
                        ),
                        None => "it is not what FLUSH TABLES … FOR EXPORT writes".into(),
                    },
                ));
            }
        }
    }
    if let Some(backup) = backup(path)? {
        return Ok(Evidence::Backup(backup));
    }
    if assume {
        return Ok(Evidence::Assumed);
    }
    Err(Error::new(
        path,
        Kind::Mismatch,
        format!(
            "nothing shows that it was at rest when it was copied. Expected {} (made by FLUSH TABLES … FOR EXPORT; copy both files before UNLOCK TABLES), or a prepared backup \
             around it. Of a server that was shut down cleanly, and of nothing else, --assume-consistent reads it on your word",
            cfg.display()
        ),
    ))
}

/// The page size in a `.cfg`: version, host, table (each text with its length), next autoincrement value, page size.
fn page_size(cfg: &[u8]) -> Option<u32> {
    let version = u32_at(cfg, 0)?;
    if !(1..=99).contains(&version) {
        return None;
    }
    let host = u32_at(cfg, 4)? as usize;
    let table = 8usize.checked_add(host)?;
    let after = table.checked_add(4)?.checked_add(u32_at(cfg, table)? as usize)?;
    u32_at(cfg, after.checked_add(8)?)
}

/// The checkpoint file of a backup, one folder above the table's, if it says that the backup is prepared.
fn backup(path: &Path) -> Result<Option<PathBuf>> {
    let Some(folder) = path.parent().and_then(Path::parent) else { return Ok(None) };
    for name in ["xtrabackup_checkpoints", "mariadb_backup_checkpoints"] {
        let file = folder.join(name);
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let kind = text
            .lines()
            .find_map(|l| l.strip_prefix("backup_type"))
            .map(|l| l.trim_start_matches([' ', '=']).trim());
        return match kind {
            // mariabackup writes log-applied, xtrabackup full-prepared.
            Some("full-prepared" | "log-applied") => Ok(Some(file)),
            other => Err(Error::new(
                &file,
                Kind::Mismatch,
                format!(
                    "the backup's type is {}; only a prepared one can be read (full-prepared, log-applied): run --prepare on it",
                    other.unwrap_or("not said")
                ),
            )),
        };
    }
    Ok(None)
}
