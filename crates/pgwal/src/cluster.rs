//! A cluster's folders: its segments as the ring reaches them, and the mark in `PG_VERSION` (docs/pgwal.md, R12).
//! Both the library and the command compile this file: nothing is allocated here.
use core::ffi::CStr;
use ondol_ring::file::{self, Identity, Owner};
use ondol_ring::{Files, Segment};

/// What `PG_VERSION` says while the ring may hold entries.
pub const MARK: &[u8] = b"0-WAL-is-in-a-ring-run-ondol-pgwal-recover\n";
const VERSION: &CStr = c"PG_VERSION";
/// The server's version while the mark is there: as long as the mark, so that a base backup, which asks for
/// the size first, gets it whole.
pub const KEPT: &CStr = c"PG_VERSION.ondol";
const NEW: &CStr = c"PG_VERSION.ondol-new";
const FOLDER: i32 = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;

/// A cluster, by open folders.
pub struct Cluster {
    pub data: i32,
    pub wal: i32,
}

impl Cluster {
    /// Opens the folders; with their identities.
    pub fn open(path: &CStr) -> Result<(Cluster, Identity, Identity), i32> {
        let data = file::open_at(libc::AT_FDCWD, path, FOLDER, 0)?;
        let wal = file::open_at(data, c"pg_wal", FOLDER, 0)?;
        Ok((Cluster { data, wal }, file::identity(data, true)?.0, file::identity(wal, true)?.0))
    }
    /// The cluster that owns a ring; `None` if the folder that it names is another one now.
    pub fn of(owner: &Owner) -> Result<Option<Cluster>, i32> {
        let mut path = [0; file::PATH + 1];
        path[..owner.path().len()].copy_from_slice(owner.path());
        let path = CStr::from_bytes_until_nul(&path).map_err(|_| libc::EINVAL)?;
        let (cluster, data, wal) = Cluster::open(path)?;
        Ok((data == owner.data && wal == owner.wal).then_some(cluster))
    }
    /// Opens a segment by its name, if the file of that name is the one.
    pub fn segment(&self, segment: &Segment, flags: i32) -> Result<i32, i32> {
        let name = segment.name();
        let name = CStr::from_bytes_until_nul(&name).map_err(|_| libc::EINVAL)?;
        let fd = file::open_at(self.wal, name, flags | libc::O_CLOEXEC, 0)?;
        match file::identity(fd, false) {
            Ok((found, ..)) if found.inode == segment.inode => Ok(fd),
            other => {
                file::close(fd);
                Err(other.err().unwrap_or(libc::ESTALE))
            }
        }
    }
    fn contents<'a>(&self, name: &CStr, to: &'a mut [u8; 128]) -> Result<&'a [u8], i32> {
        let fd = file::open_at(self.data, name, libc::O_RDONLY | libc::O_CLOEXEC, 0)?;
        let n = file::read_at(fd, to, 0);
        file::close(fd);
        Ok(&to[..n?])
    }
    /// Makes `name` hold `bytes`, durably; a crash leaves the old bytes or the new.
    fn replace(&self, name: &CStr, bytes: &[u8]) -> Result<(), i32> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
        let fd = file::open_at(self.data, NEW, flags, 0o640)?;
        // The command may run as root: the file stays its server's.
        let mut owner = file::owner_of(self.data)?;
        if owner == file::owner_of(fd)? {
            owner = (u32::MAX, u32::MAX)
        }
        let done =
            file::give(fd, owner).and_then(|()| file::write_at(fd, bytes, 0)).and_then(|()| file::sync(fd));
        file::close(fd);
        done?;
        file::rename(self.data, NEW, name)?;
        file::sync(self.data)
    }
    pub fn is_marked(&self) -> Result<bool, i32> {
        Ok(self.contents(VERSION, &mut [0; 128])? == MARK)
    }
    /// From here on no PostgreSQL starts here. Called by one process at a time.
    #[allow(dead_code)] // The library's alone.
    pub fn mark(&self) -> Result<(), i32> {
        let mut room = [0; 128];
        let version = self.contents(VERSION, &mut room)?;
        if version == MARK {
            return file::sync(self.data);
        }
        if version.len() > MARK.len() || !version.first().is_some_and(u8::is_ascii_digit) {
            return Err(libc::EINVAL);
        }
        let mut kept = [b'\n'; MARK.len()];
        kept[..version.len()].copy_from_slice(version);
        self.replace(KEPT, &kept)?;
        self.replace(VERSION, MARK)
    }
    /// Takes the mark away, if it is there. The ring is empty and no server runs.
    #[allow(dead_code)] // The command's alone.
    pub fn unmark(&self) -> Result<(), i32> {
        if !self.is_marked()? {
            return Ok(());
        }
        let mut room = [0; 128];
        let kept = self.contents(KEPT, &mut room)?;
        let digits = kept.iter().position(|b| *b == b'\n').unwrap_or(0);
        if digits == 0 {
            return Err(libc::EINVAL);
        }
        self.replace(VERSION, &kept[..digits + 1])
    }
}

impl Files for Cluster {
    fn sync(&self, segment: &Segment) -> Result<(), i32> {
        let Ok(fd) = self.segment(segment, libc::O_RDONLY) else {
            return self.sync_all();
        };
        let done = file::sync_data(fd);
        file::close(fd);
        done
    }
    fn sync_all(&self) -> Result<(), i32> {
        file::sync_file_system(self.wal)
    }
    fn myself(&self) -> u64 {
        // SAFETY: no memory is passed.
        unsafe { libc::syscall(libc::SYS_getpid) as u64 }
    }
    fn is_dead(&self, process: u64) -> bool {
        // SAFETY: no signal is sent.
        let there = unsafe { libc::syscall(libc::SYS_kill, process as i32, 0) };
        there < 0 && file::errno() == libc::ESRCH
    }
    fn pause(&self) {
        // SAFETY: no memory is passed.
        unsafe { libc::syscall(libc::SYS_sched_yield) };
    }
}
