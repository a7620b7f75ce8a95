//! Copying a database that may be in use.
//!
//! The copy is what a power failure at one moment would have left, and recovery makes of it exactly the commits that were
//! durable then. That holds because of the order:
//!
//! - **U1** The manifest's checkpoint files never change once it names them.
//! - **U2** A log file grows at its end alone, and the one before it is complete by then: so each stream is copied from
//!   its newest file back to its oldest. What is appended meanwhile is missing at the end, never in the middle.
//! - **U3** If the manifest is another one at the end, files may have been removed or used again meanwhile: the copy
//!   is thrown away and made anew.
//! - **U4** The copy is verified as `check` does before it counts; where several streams were caught at moments
//!   that do not fit together, verification says so, and the copy is made anew as well.
use crate::check;
use ondol_base::media::disk::Disk;
use ondol_base::media::{Open, Storage};
use ondol_base::thread;
use ondol_durability::files::{Config, Place};
use ondol_durability::inspect::{self, Report};
use ondol_durability::manifest::Manifest;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often a copy is begun before giving up.
const ATTEMPTS: u32 = 50;
const MANIFESTS: [&str; 2] = ["manifest-0", "manifest-1"];

/// What a backup took.
#[derive(Debug)]
pub struct Copied {
    pub files: u64,
    pub bytes: u64,
    pub attempts: u32,
    pub report: Report,
}

fn failed(what: &str, e: io::Error) -> SqlError {
    SqlError::new(ondol_engine::error::io_state(&e), format!("{what}: {e}"))
}

/// Copies the database in `from` into the folder `to`, which must be empty or not there. Further log folders are copied to folders
/// `log-1`, `log-2`, ... inside it.
pub fn backup(from: &Path, log_folders: &[String], to: &Path) -> SqlResult<Copied> {
    let source = check::config(from, log_folders)?;
    let exists = |p: &Path| p.ancestors().find_map(|a| a.canonicalize().ok());
    let (within, database) = (std::path::absolute(to).ok().and_then(|p| exists(&p)), from.canonicalize());
    if let (Some(within), Ok(database)) = (within, database)
        && within.starts_with(&database)
    {
        return Err(SqlError::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("\"{}\" is inside the database; a backup needs a folder of its own", to.display()),
        ));
    }
    let target = Disk::create(to).map_err(|e| failed(&to.display().to_string(), e))?;
    if !target.list("").map_err(|e| failed(&to.display().to_string(), e))?.is_empty() {
        return Err(SqlError::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("\"{}\" is not empty; a backup needs a folder of its own", to.display()),
        ));
    }
    backup_on(&source, Arc::new(target))
}

/// The same on any storage.
pub fn backup_on(source: &Config, target: Arc<dyn Storage>) -> SqlResult<Copied> {
    let mut copy = Config::new(target.clone());
    for k in 1..source.streams.len() {
        copy.streams.push(Place { storage: target.clone(), folder: format!("log-{k}") });
    }
    let mut last = None;
    for attempts in 1..=ATTEMPTS {
        let before = match inspect::read_manifest(source) {
            Ok(m) => m,
            // It may have been caught while being written.
            Err(e) if attempts < ATTEMPTS && source.data.exists(MANIFESTS[0]).unwrap_or(false) => {
                last = Some(SqlError::new(sqlstate::DATA_CORRUPTED, e.to_string()));
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            Err(e) => return Err(SqlError::new(sqlstate::DATA_CORRUPTED, e.to_string())),
        };
        match copy_once(source, &copy, &before) {
            Ok((files, bytes)) => {
                let unchanged = inspect::read_manifest(source).is_ok_and(|m| m.sequence == before.sequence);
                if unchanged {
                    let report = inspect::verify(&copy);
                    match report.problems.first() {
                        None => return Ok(Copied { files, bytes, attempts, report }),
                        Some(p) => last = Some(SqlError::new(sqlstate::DATA_CORRUPTED, p.to_string())),
                    }
                }
            }
            // A file that went away is what U3 is about.
            Err(e) if e.kind() == io::ErrorKind::NotFound || e.kind() == io::ErrorKind::UnexpectedEof => {
                last = Some(failed("the database changed while it was copied", e));
            }
            Err(e) => return Err(failed("could not copy the database", e)),
        }
        clear(&copy).map_err(|e| failed("could not clear the copy", e))?;
        thread::sleep(Duration::from_millis(20));
    }
    Err(match last {
        Some(e) => e.hint("The database may be damaged: close it and run ondol check."),
        None => SqlError::new(
            sqlstate::OBJECT_IN_USE,
            "checkpoints came faster than the database could be copied",
        ),
    })
}

/// Removes what a failed attempt copied.
fn clear(copy: &Config) -> io::Result<()> {
    for name in copy.data.list("")? {
        if name.starts_with("checkpoint-") || MANIFESTS.contains(&name.as_str()) {
            copy.data.remove(&name)?;
        }
    }
    for place in &copy.streams {
        for name in place.storage.list(&place.folder)? {
            place.storage.remove(&format!("{}/{name}", place.folder))?;
        }
    }
    Ok(())
}

fn path_in(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_string() } else { format!("{folder}/{name}") }
}

fn copy_once(source: &Config, copy: &Config, manifest: &Manifest) -> io::Result<(u64, u64)> {
    let (mut files, mut bytes) = (0, 0);
    let mut take = |from: &dyn Storage, path: &str, to: &dyn Storage, as_path: &str| {
        bytes += copy_file(from, path, to, as_path)?;
        files += 1;
        io::Result::Ok(())
    };
    for f in &manifest.files {
        take(&*source.data, &f.name(), &*copy.data, &f.name())?;
    }
    for (from, to) in source.streams.iter().zip(&copy.streams) {
        to.storage.create_dir(&to.folder)?;
        let mut names = from.storage.list(&from.folder)?;
        names.retain(|n| n.ends_with(".log"));
        // U2: names of one length sort by number.
        for name in names.iter().rev() {
            take(&*from.storage, &path_in(&from.folder, name), &*to.storage, &path_in(&to.folder, name))?;
        }
        to.storage.sync_dir(&to.folder)?;
    }
    let encoded = manifest.encode();
    for name in MANIFESTS {
        let file = copy.data.open(name, Open::OpenOrCreate)?;
        file.write_at(&encoded, 0)?;
        file.sync_data()?;
    }
    copy.data.sync_dir("")?;
    Ok((files + 2, bytes + 2 * encoded.len() as u64))
}

fn copy_file(from: &dyn Storage, path: &str, to: &dyn Storage, as_path: &str) -> io::Result<u64> {
    let source = from.open(path, Open::Read)?;
    let target = to.open(as_path, Open::OpenOrCreate)?;
    let len = source.len()?;
    target.set_len(len)?;
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < len {
        let n = source.read_at(&mut buffer, at)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // What a log file has prepared ahead is zeros, which the new length gives for nothing.
        if buffer[..n].iter().any(|&b| b != 0) {
            target.write_at(&buffer[..n], at)?;
        }
        at += n as u64;
    }
    target.sync_data()?;
    Ok(len)
}
