//! The disk: an ordinary folder of the operating system.
//!
//! - **D1** A [`Disk`] stands for one existing folder; paths are checked to lie below it.
//! - **D2** A lock is held by at most one [`Lock`] on the machine: `flock` keeps other opens out, and a
//!   table of this process those of its own, also where the file system maps `flock` to locks of the process.
//! - **D3** Every error names the operation and the path, and keeps its kind; the operating system's own
//!   error is its source.
//! - **D4** A folder's own name, and those above it, are synced whenever a database in it is opened to be
//!   written, not only by the process that made them: that one may have died before its sync.
//!
//! What a crash leaves is the file system's answer to `fdatasync` of files and `fsync` of folders; media/M1
//! to media/M4 ask no more than POSIX promises. Nothing is cached or retried here: a failed sync is reported,
//! and what to make of it is the caller's affair.
use super::mapping::Mapping;
use super::{File, Identity, Lock, Mapped, Open, Storage, relative};
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// A folder of the operating system.
#[derive(Debug)]
pub struct Disk {
    root: PathBuf,
}

/// What was tried where, and the operating system's answer (D3).
#[derive(Debug)]
struct Failure {
    tried: &'static str,
    path: PathBuf,
    cause: io::Error,
}
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} \"{}\": {}", self.tried, self.path.display(), self.cause)
    }
}
impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}
fn failure(tried: &'static str, path: &Path, cause: io::Error) -> io::Error {
    io::Error::new(cause.kind(), Failure { tried, path: path.to_path_buf(), cause })
}

impl Disk {
    /// An existing folder.
    pub fn open(path: &Path) -> io::Result<Disk> {
        let kind = fs::metadata(path).map_err(|e| failure("open the folder", path, e))?;
        if !kind.is_dir() {
            return Err(failure("open the folder", path, io::ErrorKind::NotADirectory.into()));
        }
        Ok(Disk { root: path.to_path_buf() })
    }
    /// A folder, made (with its parents) when it does not exist, durably (D4).
    pub fn create(path: &Path) -> io::Result<Disk> {
        fs::create_dir_all(path).map_err(|e| failure("create the folder", path, e))?;
        let disk = Disk::open(path)?;
        disk.settle_name()?;
        Ok(disk)
    }
    /// Makes the folder's own name durable, and those of the folders above it on its file system (D4).
    pub fn settle_name(&self) -> io::Result<()> {
        above(&self.root)?.iter().try_for_each(|folder| match sync_folder(folder) {
            // Whoever may not even read it did not make a name in it.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            other => other,
        })
    }
    pub fn path(&self) -> &Path {
        &self.root
    }
    fn at(&self, path: &str) -> io::Result<PathBuf> {
        let path = relative(path)?;
        Ok(if path.is_empty() { self.root.clone() } else { self.root.join(path) })
    }
}

/// The folders whose syncs make the name of `path` durable, from the top: those above it on its file system.
fn above(path: &Path) -> io::Result<Vec<PathBuf>> {
    let failed = |e| failure("find the folder", path, e);
    let path = fs::canonicalize(path).map_err(failed)?;
    let device = fs::metadata(&path).map_err(failed)?.dev();
    let here = |folder: &&Path| fs::metadata(folder).is_ok_and(|m| m.dev() == device);
    let mut folders: Vec<PathBuf> =
        path.ancestors().skip(1).take_while(here).map(Path::to_path_buf).collect();
    folders.reverse();
    Ok(folders)
}
fn sync_folder(path: &Path) -> io::Result<()> {
    let open = fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(path);
    open.and_then(|f| f.sync_all()).map_err(|e| failure("sync the folder", path, e))
}

impl Storage for Disk {
    fn open(&self, path: &str, how: Open) -> io::Result<Arc<dyn File>> {
        let path = self.at(path)?;
        let mut options = fs::OpenOptions::new();
        options.read(true).write(how != Open::Read);
        match how {
            Open::Create => options.create_new(true),
            Open::OpenOrCreate => options.create(true),
            Open::Read | Open::Write => &mut options,
        };
        let file = options.open(&path).map_err(|e| failure("open", &path, e))?;
        // Linux opens a folder for reading without a complaint until the first read.
        if file.metadata().map_err(|e| failure("open", &path, e))?.is_dir() {
            return Err(failure("open", &path, io::ErrorKind::IsADirectory.into()));
        }
        Ok(Arc::new(DiskFile { file, path }))
    }
    fn exists(&self, path: &str) -> io::Result<bool> {
        let path = self.at(path)?;
        match path.try_exists() {
            // Below a file there is nothing.
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => Ok(false),
            other => other.map_err(|e| failure("look for", &path, e)),
        }
    }
    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let path = self.at(folder)?;
        let names = || -> io::Result<Vec<String>> {
            fs::read_dir(&path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
        };
        let mut names = names().map_err(|e| failure("list the folder", &path, e))?;
        names.sort_unstable();
        Ok(names)
    }
    fn create_dir(&self, folder: &str) -> io::Result<()> {
        let path = self.at(folder)?;
        fs::create_dir_all(&path).map_err(|e| failure("create the folder", &path, e))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.at(from)?, self.at(to)?);
        fs::rename(&from, &to).map_err(|e| failure("rename", &from, e))
    }
    fn remove(&self, path: &str) -> io::Result<()> {
        let path = self.at(path)?;
        match fs::remove_file(&path) {
            Err(e) if e.kind() == io::ErrorKind::IsADirectory => fs::remove_dir(&path),
            other => other,
        }
        .map_err(|e| failure("remove", &path, e))
    }
    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        sync_folder(&self.at(folder)?)
    }
    fn lock(&self, path: &str) -> io::Result<Box<dyn Lock>> {
        /// Whoever has it may be about to let go: of a process that was killed, the memory goes before the
        /// files.
        const TRIES: usize = 50;
        let path = self.at(path)?;
        let mut taken = DiskLock::take(&path);
        for _ in 1..TRIES {
            if !taken.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
            taken = DiskLock::take(&path)
        }
        taken.map(|l| Box::new(l) as Box<dyn Lock>).map_err(|e| failure("lock", &path, e))
    }
    fn describe(&self) -> String {
        self.root.display().to_string()
    }
    fn identity(&self) -> io::Result<Identity> {
        let identity = || -> io::Result<Identity> {
            let m = fs::metadata(&self.root)?;
            let birth = m.created()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            Ok(Identity { inode: m.ino(), birth: (birth.as_secs(), birth.subsec_nanos().into()) })
        };
        identity().map_err(|e| failure("find the birth of", &self.root, e))
    }
}

struct DiskFile {
    file: fs::File,
    path: PathBuf,
}

impl File for DiskFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.file.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failure("read", &self.path, e)),
            }
        }
        Ok(done)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(buf, offset).map_err(|e| failure("write", &self.path, e))
    }
    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data().map_err(|e| failure("sync", &self.path, e))
    }
    fn len(&self) -> io::Result<u64> {
        self.file.metadata().map(|m| m.len()).map_err(|e| failure("measure", &self.path, e))
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len).map_err(|e| failure("set the length of", &self.path, e))
    }
    fn map(&self, len: usize) -> io::Result<Box<dyn Mapped>> {
        if len == 0 {
            return Err(failure("map nothing of", &self.path, io::ErrorKind::InvalidInput.into()));
        }
        let there = File::len(self)?;
        if there < len as u64 {
            let why = format!("{len} bytes were asked for and {there} are there");
            return Err(failure("map", &self.path, io::Error::new(io::ErrorKind::UnexpectedEof, why)));
        }
        let mapping = Mapping::new(self.file.as_raw_fd(), len).map_err(|e| failure("map", &self.path, e))?;
        Ok(Box::new(mapping))
    }
}

/// Device and inode of the lock files that this process holds (D2).
static HELD: std::sync::Mutex<BTreeSet<(u64, u64)>> = std::sync::Mutex::new(BTreeSet::new());

struct DiskLock {
    /// Closing it releases the lock; there until the drop.
    file: Option<fs::File>,
    id: (u64, u64),
}
impl Lock for DiskLock {}

impl DiskLock {
    fn take(path: &Path) -> io::Result<DiskLock> {
        loop {
            // The table is asked before the file is opened: where the lock belongs to the process, merely
            // closing a second descriptor would release it.
            if let Ok(m) = fs::metadata(path)
                && table().contains(&(m.dev(), m.ino()))
            {
                return Err(held());
            }
            let mut options = fs::OpenOptions::new();
            let writable = options.read(true).write(true).create(true).truncate(false).open(path);
            // Where nothing may be written, a lock file that is there still keeps others out.
            let file = match &writable {
                Err(e) if is_read_only(e) => fs::File::open(path).or(writable)?,
                _ => writable?,
            };
            let id = file.metadata().map(|m| (m.dev(), m.ino()))?;
            if !table().insert(id) {
                return Err(held());
            }
            let fd = file.as_raw_fd();
            let lock = DiskLock { file: Some(file), id };
            // SAFETY: a system call on a descriptor that `lock` owns.
            if unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) } != 0 {
                let e = io::Error::last_os_error();
                return Err(if e.kind() == io::ErrorKind::WouldBlock { held() } else { e });
            }
            // Somebody may have removed the file between open and lock; then we hold what no one looks at.
            match fs::metadata(path) {
                Ok(m) if (m.dev(), m.ino()) == id => return Ok(lock),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
    }
}
/// Whether nothing may be written there, though it may be read.
pub fn is_read_only(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}
impl Drop for DiskLock {
    fn drop(&mut self) {
        // Under the table's mutex: whoever finds the table free finds the lock free, and an inode that is
        // freed by closing a removed file, and given to another's new lock file at once, is not found in the
        // table.
        let mut table = table();
        self.file = None;
        table.remove(&self.id);
    }
}
fn table() -> std::sync::MutexGuard<'static, BTreeSet<(u64, u64)>> {
    HELD.lock().unwrap_or_else(|e| e.into_inner())
}
fn held() -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, "someone else holds the lock")
}

#[cfg(test)]
mod tests {
    use super::super::Promise;
    use super::*;

    fn disk() -> (tempfile::TempDir, Disk) {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path()).unwrap();
        (dir, disk)
    }

    #[test]
    fn files() {
        let (_dir, d) = disk();
        assert_eq!(d.open("a", Open::Write).err().unwrap().kind(), io::ErrorKind::NotFound);
        let f = d.open("a", Open::Create).unwrap();
        assert_eq!(d.open("a", Open::Create).err().unwrap().kind(), io::ErrorKind::AlreadyExists);
        f.write_at(b"hello", 3).unwrap();
        assert_eq!(f.len().unwrap(), 8);
        let mut buf = [9; 10];
        assert_eq!(f.read_at(&mut buf, 0).unwrap(), 8);
        assert_eq!(&buf[..8], b"\0\0\0hello");
        assert_eq!(f.read_exact_at(&mut buf, 0).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(f.read_at(&mut buf, 100).unwrap(), 0);
        f.sync_data().unwrap();
        f.set_len(4).unwrap();
        f.set_len(6).unwrap();
        assert_eq!(f.read_at(&mut buf, 0).unwrap(), 6);
        assert_eq!(&buf[..6], b"\0\0\0h\0\0");
        let r = d.open("a", Open::Read).unwrap();
        assert!(r.write_at(b"x", 0).is_err());
        assert!(d.open("b", Open::OpenOrCreate).is_ok() && d.exists("b").unwrap());
    }

    #[test]
    fn names() {
        let (_dir, d) = disk();
        d.create_dir("x/y").unwrap();
        d.create_dir("x/y").unwrap();
        for n in ["x/b", "x/a"] {
            d.open(n, Open::Create).unwrap().write_at(n.as_bytes(), 0).unwrap();
        }
        assert_eq!(d.list("x").unwrap(), ["a", "b", "y"]);
        assert_eq!(d.list("").unwrap(), ["x"]);
        d.rename("x/a", "x/b").unwrap();
        d.sync_dir("x").unwrap();
        let mut buf = [0; 3];
        d.open("x/b", Open::Read).unwrap().read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"x/a");
        assert_eq!(d.remove("x").unwrap_err().kind(), io::ErrorKind::DirectoryNotEmpty);
        d.remove("x/b").unwrap();
        d.remove("x/y").unwrap();
        d.remove("x").unwrap();
        assert!(!d.exists("x").unwrap());
        assert_eq!(d.list("x").unwrap_err().kind(), io::ErrorKind::NotFound);
        for bad in ["../a", "/a", "a//b", "a/../b", "a/./b", "nul\0"] {
            assert_eq!(d.open(bad, Open::Read).err().unwrap().kind(), io::ErrorKind::InvalidInput, "{bad}");
        }
    }

    #[test]
    fn errors_name_the_path_and_keep_kind_and_source() {
        let (dir, d) = disk();
        let e = d.open("nowhere", Open::Read).err().unwrap();
        assert!(e.to_string().contains(dir.path().join("nowhere").to_str().unwrap()), "{e}");
        let inner = e.get_ref().and_then(|e| e.source()).and_then(|e| e.downcast_ref::<io::Error>());
        assert_eq!(inner.unwrap().raw_os_error(), Some(libc::ENOENT));
        d.open("file", Open::Create).unwrap();
        assert_eq!(Disk::open(&dir.path().join("file")).unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert_eq!(Disk::open(&dir.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        let made = Disk::create(&dir.path().join("p/q")).unwrap();
        // D4: also of folders that were there.
        let real = fs::canonicalize(dir.path()).unwrap();
        let names = [real.clone(), real.join("p"), real.join("p/q")];
        let synced = above(&dir.path().join("p/q/.")).unwrap();
        assert!(names[..2].iter().all(|n| synced.contains(n)) && !synced.contains(&names[2]), "{synced:?}");
        assert!(synced.is_sorted());
        made.settle_name().unwrap();
        assert!(made.describe().ends_with("p/q") && made.path().is_dir());
        // The kernel's own full device gives the kind through (where there is one).
        if let Ok(full) = Disk::open(Path::new("/dev")).and_then(|d| Storage::open(&d, "full", Open::Write)) {
            let e = full.write_at(&[1; 64], 0).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::StorageFull);
            assert!(e.to_string().contains("/dev/full"), "{e}");
        }
    }

    #[test]
    fn locks_exclude_within_the_process_and_outside() {
        let (dir, d) = disk();
        let lock = d.lock("LOCK").unwrap();
        let again = Disk::open(dir.path()).unwrap();
        let e = again.lock("LOCK").err().unwrap();
        assert_eq!(e.kind(), io::ErrorKind::WouldBlock);
        assert!(e.to_string().contains("LOCK"), "{e}");
        // The failed attempt must not have released it.
        assert_eq!(d.lock("LOCK").err().unwrap().kind(), io::ErrorKind::WouldBlock);
        let other = |f: &fs::File| {
            // SAFETY: a system call on a descriptor of the test.
            unsafe { libc::flock(f.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) }
        };
        let f = fs::File::open(dir.path().join("LOCK")).unwrap();
        assert_eq!(other(&f), -1, "another open of the file sees the lock");
        drop(lock);
        assert_eq!(other(&f), 0);
        assert_eq!(d.lock("LOCK").err().unwrap().kind(), io::ErrorKind::WouldBlock, "held by the other open");
        drop(f);
        drop(d.lock("LOCK").unwrap());
        // Removed and made anew: the new file is another lock.
        let old = d.lock("LOCK").unwrap();
        d.remove("LOCK").unwrap();
        drop(d.lock("LOCK").unwrap());
        drop(old);
    }

    #[test]
    fn mapped_memory_is_the_file() {
        let (_dir, d) = disk();
        let f = d.open("m", Open::Create).unwrap();
        assert_eq!(f.map(4096).err().unwrap().kind(), io::ErrorKind::UnexpectedEof);
        f.set_len(8192).unwrap();
        assert_eq!(f.map(0).err().unwrap().kind(), io::ErrorKind::InvalidInput);
        assert!(d.open("m", Open::Read).unwrap().map(4096).is_err(), "a file opened for reading");
        let m = f.map(8192).unwrap();
        assert_eq!(m.len(), 8192);
        let mut model = vec![0u8; 8192];
        let mut r = crate::sim::Random::new(7);
        for _ in 0..500 {
            let at = r.below(8192) as usize;
            let len = r.below(200).min(8192 - at as u64) as usize;
            let bytes: Vec<u8> = (0..len).map(|_| r.next() as u8).collect();
            m.copy(at, &bytes);
            m.flush(at, len);
            m.fence();
            model[at..at + len].copy_from_slice(&bytes);
        }
        let mut seen = vec![0; 8192];
        m.read(0, &mut seen);
        assert_eq!(seen, model);
        f.sync_data().unwrap();
        let promise = m.promise();
        assert!(promise == Promise::Sync || promise == Promise::Fence);
        drop(m);
        f.read_exact_at(&mut seen, 0).unwrap();
        assert_eq!(seen, model);
    }

    #[test]
    #[should_panic(expected = "of a mapping of 4096")]
    fn a_copy_beyond_the_mapping_is_refused() {
        let (_dir, d) = disk();
        let f = d.open("m", Open::Create).unwrap();
        f.set_len(4096).unwrap();
        f.map(4096).unwrap().copy(4090, &[0; 7]);
    }
}
