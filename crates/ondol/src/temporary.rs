//! A folder for the time being: for tests, examples and the demo.
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::path::{Path, PathBuf};

/// A new, empty folder that is removed with all it holds when dropped.
pub struct TempFolder {
    path: PathBuf,
}

impl TempFolder {
    /// In the system's folder for temporary files.
    pub fn new() -> SqlResult<TempFolder> {
        TempFolder::inside(&std::env::temp_dir())
    }
    pub fn inside(parent: &Path) -> SqlResult<TempFolder> {
        for _ in 0..100 {
            let path = parent.join(format!("ondol-{:016x}", ondol_base::random::next_u64()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(TempFolder { path }),
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

impl Drop for TempFolder {
    fn drop(&mut self) {
        // What cannot be removed stays; there is nobody left to tell.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
