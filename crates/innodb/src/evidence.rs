//! Why a file may be believed to be one moment of its table.
//!
//! A running server changes pages in its memory and writes them when it likes; open transactions leave rows that no query sees. So a file is read only with evidence that it was
//! at rest, or on the user's own word.
use crate::error::{Error, Kind, Result};
use crate::page::u32_at;
use crate::space::Space;
use std::fmt;
use std::os::unix::fs::MetadataExt;
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
    if let Some((file, process)) = writer(path) {
        return Err(Error::new(
            path,
            Kind::Mismatch,
            format!(
                "{process} has {} open for writing: a running server's file is no moment of its table. Use ondol innodb snapshot, or FLUSH TABLES … FOR EXPORT and both files before UNLOCK TABLES",
                file.display()
            ),
        ));
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
             around it. Of a server that was shut down cleanly, and of nothing else, --assume-consistent (in SQL assume_consistent => true) reads it on your word",
            cfg.display()
        ),
    ))
}

/// Another process that has the file, or the system tablespace of the data folder around it, open for writing. Only processes that may be looked into are found: those of the same user, all for root.
fn writer(path: &Path) -> Option<(PathBuf, String)> {
    let system = path.parent().and_then(Path::parent).map(|folder| folder.join("ibdata1"));
    let files: Vec<(PathBuf, (u64, u64))> = std::iter::once(path.to_path_buf())
        .chain(system)
        .filter_map(|file| std::fs::metadata(&file).ok().map(|m| (file, (m.dev(), m.ino()))))
        .collect();
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = process.file_name();
        let Some(id) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        if id == std::process::id() {
            continue;
        }
        let Ok(open) = std::fs::read_dir(process.path().join("fd")) else { continue };
        for fd in open.flatten() {
            let Ok(found) = std::fs::metadata(fd.path()) else { continue };
            let Some((file, _)) = files.iter().find(|(_, id)| *id == (found.dev(), found.ino())) else {
                continue;
            };
            let info = std::fs::read_to_string(process.path().join("fdinfo").join(fd.file_name()));
            // The last octal digit of the flags: 0 reads, 1 writes, 2 does both.
            let writes = info.is_ok_and(|info| {
                info.lines().any(|l| l.strip_prefix("flags:").is_some_and(|f| f.trim().ends_with(['1', '2'])))
            });
            if writes {
                let comm = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                return Some((file.clone(), format!("process {id} ({})", comm.trim())));
            }
        }
    }
    None
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
