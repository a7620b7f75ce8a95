//! Copying a database that may be in use.
//!
//! The copy is what a power failure at one moment would have left, and recovery makes of it exactly the
//! commits that were durable then. That holds because of the order:
//!
//! - **U1** The manifest's checkpoint files never change once it names them.
//! - **U2** A log file grows at its end alone, and the one before it is complete by then: so each stream is
//!   copied from its newest file back to its oldest. What is appended meanwhile is missing at the end, never
//!   in the middle.
//! - **U3** If the manifest is another one at the end, files may have been removed or used again meanwhile:
//!   the copy is thrown away and made anew.
//! - **U4** The copy is verified as `check` does before it counts; where several streams were caught at
//!   moments that do not fit together, verification says so, and the copy is made anew as well.
//! - **U5** A folder that a backup was begun in has a mark ([`UNFINISHED`]) until the copy is verified, and
//!   is locked meanwhile. What has the mark is never opened as a database. A backup that fails takes away
//!   what it copied; after one that was killed the next try finds the mark, and begins with that.
//! - **U6** Where the log is on a ring, the files of a database that is open hold all of it (pgwal/R1). One
//!   that was not closed is copied with its ring's blocks laid over its files, and locked meanwhile. The copy
//!   is on no ring.
use crate::upkeep::check;
use ondol_base::media::disk::Disk;
use ondol_base::media::{Lock, Open, Storage};
use ondol_base::thread;
use ondol_durability::RecoveryError;
use ondol_durability::files::{Config, Place};
use ondol_durability::inspect::{self, Report};
use ondol_durability::manifest::Manifest;
use ondol_engine::database::UNFINISHED;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often a copy is begun before giving up.
const ATTEMPTS: u32 = 50;
const MANIFESTS: [&str; 2] = ["manifest-0", "manifest-1"];
const LOCK: &str = "lock";

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

/// Copies the database in `from` into the folder `to`, which must be empty or not there. Further log folders
/// are copied to folders `log-1`, `log-2`, ... inside it. `log_ring`: of a database whose log is on one, and
/// which was not closed.
pub fn backup(from: &Path, log_folders: &[String], log_ring: Option<&Path>, to: &Path) -> SqlResult<Copied> {
    let mut source = check::config(from, log_folders)?;
    // U6
    let mut held = None;
    if check::is_ringed(&source, from)? {
        held = check::hold_unused(from, log_folders, log_ring)?;
        source = held.as_ref().map_or(source, |h| h.config.clone())
    }
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
    let told = |e| failed(&to.display().to_string(), e);
    let made = !to.exists();
    let target = Arc::new(Disk::create(to).map_err(told)?);
    let begun = begin(&*target).map_err(told)?;
    let Some(_lock) = begun else {
        return Err(SqlError::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("\"{}\" is not empty; a backup needs a folder of its own", to.display()),
        ));
    };
    let copied = backup_on(&source, target.clone()).inspect_err(|_| {
        // What cannot be removed has its mark still, so that the next try begins with it.
        if clear(&*target).and_then(|()| end(&*target)).is_ok() && made {
            let _ = std::fs::remove_dir(to);
        }
    })?;
    // Nothing is removed from here on: without its mark the copy is whole, and somebody may have opened it.
    end(&*target).map_err(told)?;
    drop(held);
    Ok(copied)
}

/// Marks the folder as one that a backup was begun in, and locks it (U5). `None`: something else is in it.
fn begin(target: &dyn Storage) -> io::Result<Option<Box<dyn Lock>>> {
    let names = || target.list("");
    let ours = |names: &[String]| names.iter().any(|n| n == UNFINISHED) || names.iter().all(|n| n == LOCK);
    if !ours(&names()?) {
        return Ok(None);
    }
    let lock = target.lock(LOCK)?;
    // Another backup may have ended in between.
    if !ours(&names()?) {
        return Ok(None);
    }
    target.open(UNFINISHED, Open::OpenOrCreate)?;
    target.sync_dir("")?;
    clear(target)?;
    let mut left = names()?;
    left.retain(|n| n != LOCK && n != UNFINISHED);
    Ok(left.is_empty().then_some(lock))
}

/// Takes the mark and the lock's file away.
fn end(target: &dyn Storage) -> io::Result<()> {
    for name in [UNFINISHED, LOCK] {
        if target.exists(name)? {
            target.remove(name)?;
        }
    }
    target.sync_dir("")
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
            Err(e @ RecoveryError::WrongFormat { .. }) => return Err(ondol_engine::error::recovery(e)),
            // It may have been caught while being written.
            Err(e) if attempts < ATTEMPTS && source.data.exists(MANIFESTS[0]).unwrap_or(false) => {
                last = Some(ondol_engine::error::recovery(e));
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            Err(e) => return Err(ondol_engine::error::recovery(e)),
        };
        match copy_once(source, &copy, &before) {
            Ok((files, bytes)) => {
                let unchanged = inspect::read_manifest(source).is_ok_and(|m| m.sequence == before.sequence);
                if unchanged {
                    let mut report = inspect::verify(&copy);
                    let problem = report.problems.drain(..).next();
                    last = match problem {
                        None => return Ok(Copied { files, bytes, attempts, report }),
                        Some(p @ RecoveryError::WrongFormat { .. }) => {
                            return Err(ondol_engine::error::recovery(p));
                        }
                        Some(p) => Some(ondol_engine::error::recovery(p)),
                    };
                }
            }
            // A file that went away is what U3 is about.
            Err(e) if e.kind() == io::ErrorKind::NotFound || e.kind() == io::ErrorKind::UnexpectedEof => {
                last = Some(failed("the database changed while it was copied", e));
            }
            Err(e) => return Err(failed("could not copy the database", e)),
        }
        clear(&*target).map_err(|e| failed("could not clear the copy", e))?;
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

/// Removes what a backup copied, and nothing else.
fn clear(target: &dyn Storage) -> io::Result<()> {
    for name in target.list("")? {
        if name.starts_with("checkpoint-") || MANIFESTS.contains(&name.as_str()) {
            target.remove(&name)?;
        }
        let is_log =
            name == "log" || name.strip_prefix("log-").is_some_and(|k| k.bytes().all(|b| b.is_ascii_digit()));
        if is_log {
            let files = target.list(&name)?;
            for file in files.iter().filter(|f| f.ends_with(".log")) {
                target.remove(&format!("{name}/{file}"))?;
            }
            if files.iter().all(|f| f.ends_with(".log")) {
                target.remove(&name)?;
            }
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
    let encoded = Manifest { ringed: false, ..manifest.clone() }.encode();
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
