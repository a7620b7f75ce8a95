//! A file that gets its name when it is whole: whoever looks finds all of it, or what was there before.
use std::fs::File;
use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Written beside its place as `NAME.PID.N.partial`. Dropped before it is finished, it is removed; after a
/// crash it stays.
#[derive(Debug)]
pub struct Unfinished {
    pub file: File,
    path: PathBuf,
    to: PathBuf,
}

/// Of this process's files, also of those for the same place.
static NEXT: AtomicU64 = AtomicU64::new(1);

impl Unfinished {
    /// Begins the file that `to` is to name, which is a file or nothing yet.
    pub fn create(to: &Path) -> Result<Unfinished> {
        // What may not be written to may not be replaced either.
        if to.exists() {
            File::options().write(true).open(to)?;
        }
        let mut name = to.as_os_str().to_owned();
        name.push(format!(".{}.{}.partial", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
        let path = PathBuf::from(name);
        let file = File::create(&path)?;
        Ok(Unfinished { file, path, to: to.to_path_buf() })
    }
    /// Puts it in its place, with the permissions of the file that it replaces.
    pub fn finish(self) -> Result<()> {
        if let Ok(before) = self.to.metadata() {
            self.file.set_permissions(before.permissions())?;
        }
        self.file.sync_all()?;
        std::fs::rename(&self.path, &self.to)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Once it is in its place there is nothing of this name; nothing else can be done about it here.
        let _ = std::fs::remove_file(&self.path);
    }
}
