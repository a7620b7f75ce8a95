//! A folder for the time being: for tests, examples and the demo.
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A new, empty folder that is removed with all it holds when dropped.
pub struct TempFolder {
    path: PathBuf,
    /// Locked while the folder is there, so that it is not taken for one that was left.
    _lock: Option<File>,
}

/// How the names of folders begin that are swept, and the file in each that is locked.
const SWEPT: &str = "ondol-temporary-";
const LOCK: &str = "held";
/// Whoever makes a folder has locked it by then.
const TO_LOCK: Duration = Duration::from_secs(60);

impl TempFolder {
    /// In the system's folder for temporary files.
    pub fn new() -> SqlResult<TempFolder> {
        TempFolder::inside(&std::env::temp_dir())
    }
    pub fn inside(parent: &Path) -> SqlResult<TempFolder> {
        TempFolder::named(parent, "ondol-")
    }
    /// The same, and takes away those in `parent` that were made by this and left, as by a process that was
    /// killed.
    pub fn swept(parent: &Path) -> SqlResult<TempFolder> {
        sweep(parent);
        let mut made = TempFolder::named(parent, SWEPT)?;
        let path = made.path.join(LOCK);
        let locked = File::create(&path).and_then(|f| f.try_lock().map(|()| f).map_err(Into::into));
        made._lock = Some(locked.map_err(|e| {
            SqlError::new(sqlstate::IO_ERROR, format!("could not lock {}: {e}", path.display()))
        })?);
        Ok(made)
    }
    fn named(parent: &Path, prefix: &str) -> SqlResult<TempFolder> {
        for _ in 0..100 {
            let path = parent.join(format!("{prefix}{:016x}", ondol_base::random::next_u64()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(TempFolder { path, _lock: None }),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => {
                    let message = format!("could not create the folder {}: {e}", path.display());
                    return Err(SqlError::new(sqlstate::IO_ERROR, message));
                }
            }
        }
        Err(SqlError::new(sqlstate::IO_ERROR, format!("no free name for a folder in {}", parent.display())))
    }
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// What cannot be looked at or removed stays: it may be another user's.
fn sweep(parent: &Path) {
    let Ok(all) = std::fs::read_dir(parent) else { return };
    for folder in all.flatten().filter(|f| f.file_name().to_string_lossy().starts_with(SWEPT)) {
        let is_left = match File::open(folder.path().join(LOCK)) {
            Ok(lock) => lock.try_lock().is_ok(),
            Err(_) => {
                let made = folder.metadata().and_then(|m| m.modified());
                made.is_ok_and(|m| m.elapsed().is_ok_and(|age| age > TO_LOCK))
            }
        };
        if is_left {
            let _ = std::fs::remove_dir_all(folder.path());
        }
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        // What cannot be removed stays; there is nobody left to tell.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
