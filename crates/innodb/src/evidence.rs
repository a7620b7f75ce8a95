//! Why a file may be believed to be one moment of its table.
//!
//! A running server changes pages in its memory and writes them when it likes; open transactions leave rows that no query sees. So a file is read only with evidence that it was
//! at rest, or on the user's own word.
//!
//! - **E1** Of a data folder, or a prepared backup, three things are looked at: that the log has nothing left to apply ([`crate::redo`]; of a backup, what its checkpoint file says), which
//!   transactions were not finished ([`crate::undo`]), and then of each page that it is not newer, and of each row that its transaction was finished ([`crate::moment`]).
//! - **E2** Where one of these cannot be looked at, or is of a version that was never tried, the evidence is refused, with the reason.
use crate::error::{Error, Kind, Result};
use crate::moment::Moment;
use crate::page::{u32_at, u64_at};
use crate::space::Space;
use crate::{redo, undo};
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// `FLUSH TABLES … FOR EXPORT` left `TABLE.cfg` beside the file.
    Exported(PathBuf),
    /// The folder above is a prepared backup: what its checkpoint file says, and the position of the log to which it was prepared.
    Backup(PathBuf, u64),
    /// The folder above is the data folder of a server that was shut down cleanly: where its log ends.
    Stopped(PathBuf, u64),
    /// The user said so. There may be something that speaks against it.
    Assumed(Option<String>),
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Evidence::Exported(path) => write!(f, "exported by the server ({})", path.display()),
            Evidence::Backup(path, lsn) => {
                write!(f, "part of a prepared backup ({}, log to {lsn})", path.display())
            }
            Evidence::Stopped(folder, lsn) => {
                write!(f, "a stopped server's ({}, log to {lsn})", folder.display())
            }
            Evidence::Assumed(None) => write!(f, "assumed"),
            Evidence::Assumed(Some(but)) => write!(f, "assumed, though {but}"),
        }
    }
}

/// Looks for evidence; `assume`: the user's word will do. Where the evidence is of a moment, `space` reads nothing newer from then on.
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
    let above = above(path);
    if let Some((file, process)) = writer(path, &above) {
        return Err(Error::new(
            path,
            Kind::Mismatch,
            format!(
                "{process} has {} open for writing: a running server's file is no moment of its table. Use ondol innodb snapshot, or FLUSH TABLES … FOR EXPORT and both files before UNLOCK TABLES",
                file.display()
            ),
        ));
    }
    let mut found = None;
    for folder in &above {
        if let Some((file, lsn)) = backup(folder)? {
            found = Some((folder, Some((file, lsn))));
        } else if folder.join(SYSTEM).exists() {
            found = Some((folder, None));
        }
        if found.is_some() {
            break;
        }
    }
    let refused = match found.map(|(folder, backup)| at_rest(space, folder, backup)) {
        // The user's word is also for what a moment would refuse.
        Some(Ok((evidence, moment))) if !assume => return space.hold_to(moment).map(|()| evidence),
        Some(Err(e)) => Some(e),
        _ => None,
    };
    if assume {
        return Ok(Evidence::Assumed(refused.map(|e| e.to_string())));
    }
    let expected = format!(
        "Expected {} (made by FLUSH TABLES … FOR EXPORT; copy both files before UNLOCK TABLES), or around it a prepared backup, or the data folder of a server that was shut down cleanly \
         (MariaDB from 10.8 on, MySQL from 8.0.30 on). If you know that it was at rest, --assume-consistent (in SQL assume_consistent => true) reads it on your word",
        cfg.display()
    );
    Err(match refused {
        Some(e) => Error { message: format!("{}. {expected}", e.message), ..e },
        None => Error::new(
            path,
            Kind::Mismatch,
            format!("nothing shows that it was at rest when it was copied. {expected}"),
        ),
    })
}

/// The system tablespace, and the temporary one, which is there while a server runs, and when it was killed.
const SYSTEM: &str = "ibdata1";
const TEMPORARY: &str = "ibtmp1";

/// The folders that may be the data folder of a table's file: two levels above it, as it is named and as it is.
fn above(path: &Path) -> Vec<PathBuf> {
    let mut above = Vec::new();
    for path in [std::path::absolute(path), path.canonicalize()].into_iter().flatten() {
        if let Some(folder) = path.parent().and_then(Path::parent).map(Path::to_path_buf)
            && !above.contains(&folder)
        {
            above.push(folder);
        }
    }
    above
}

/// Looks at what a data folder, or a prepared backup, says (E1).
fn at_rest(space: &Space, folder: &Path, backup: Option<(PathBuf, u64)>) -> Result<(Evidence, Moment)> {
    let system = Space::open_any(&folder.join(SYSTEM))?;
    let (there, here) = (system.format(), space.format());
    if (there.has_sdi, there.page_size) != (here.has_sdi, here.page_size) {
        let why = "it is of another server than the table: of another family, or with pages of another size";
        return Err(Error::new(system.path(), Kind::Mismatch, why));
    }
    let mut first = vec![0; there.page_size];
    system.read_page(0, &mut first)?;
    // MySQL's last act.
    let flushed = u64_at(&first, 26).unwrap_or(0);
    let lsn = match &backup {
        // Preparing MySQL's rolls back, which is logged and then flushed.
        Some((_, lsn)) if there.has_sdi => flushed.max(*lsn),
        Some((_, lsn)) => *lsn,
        None => redo::end(folder, there.has_sdi, flushed)?,
    };
    let temporary = folder.join(TEMPORARY);
    if backup.is_none() && temporary.exists() {
        let why = "it is there while a server runs, or after it was killed: the folder was not shut down cleanly, or was copied before that";
        return Err(Error::new(&temporary, Kind::Mismatch, why));
    }
    let moment = undo::moment(folder, system, lsn)?;
    let evidence = match backup {
        Some((file, _)) => Evidence::Backup(file, lsn),
        None => Evidence::Stopped(folder.to_path_buf(), lsn),
    };
    Ok((evidence, moment))
}

/// Another process that has the file, or the system tablespace of the data folder around it, open for writing. Only processes that may be looked into are found: those of the same user, all for root.
fn writer(path: &Path, above: &[PathBuf]) -> Option<(PathBuf, String)> {
    let files: Vec<(PathBuf, (u64, u64))> = std::iter::once(path.to_path_buf())
        .chain(above.iter().map(|folder| folder.join(SYSTEM)))
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

/// The checkpoint file of a backup, if there is one and it says that the backup is prepared; and to which position of the log.
fn backup(folder: &Path) -> Result<Option<(PathBuf, u64)>> {
    for name in ["xtrabackup_checkpoints", "mariadb_backup_checkpoints"] {
        let file = folder.join(name);
        let Ok(text) = std::fs::read_to_string(&file) else { continue };
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|l| l.split_once('='));
            lines.find_map(|(n, value)| (n.trim() == name).then_some(value.trim()))
        };
        let kind = value("backup_type");
        // mariabackup writes log-applied, xtrabackup full-prepared; or log-applied if it has not rolled back yet, which the undo tells.
        if !matches!(kind, Some("full-prepared" | "log-applied")) {
            return Err(Error::new(
                &file,
                Kind::Mismatch,
                format!(
                    "the backup's type is {}; only a prepared one can be read (full-prepared, log-applied): run --prepare on it",
                    kind.unwrap_or("not said")
                ),
            ));
        }
        let lsn = ["to_lsn", "last_lsn"].iter().filter_map(|n| value(n)?.parse().ok()).max();
        return match lsn {
            Some(lsn) => Ok(Some((file, lsn))),
            None => Err(Error::new(
                &file,
                Kind::Mismatch,
                "it does not say to_lsn or last_lsn, the log's position that it was prepared to",
            )),
        };
    }
    Ok(None)
}
