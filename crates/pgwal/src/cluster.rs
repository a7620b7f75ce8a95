//! A cluster's folders, as the ring, the mark and recovery reach them. Nothing is allocated here.
use crate::mark::{Folders, VERSION};
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use ondol_ring::file::{self, Identity, Owner};
use ondol_ring::{Files, Holds, Segment};

const FOLDER: i32 = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;

/// The number of the system's boot; 0 where it is not told.
pub fn boot() -> [u64; 2] {
    let mut text = [0; 64];
    let path = c"/proc/sys/kernel/random/boot_id";
    let Ok(fd) = file::open_at(libc::AT_FDCWD, path, libc::O_RDONLY | libc::O_CLOEXEC, 0) else {
        return [0; 2];
    };
    let n = file::read_at(fd, &mut text, 0).unwrap_or(0);
    file::close(fd);
    let mut digits = text[..n].iter().filter_map(|c| (*c as char).to_digit(16));
    [0; 2].map(|_: u64| digits.by_ref().take(16).fold(0, |n, d| n << 4 | u64::from(d)))
}

/// What the system says of a process.
#[derive(PartialEq)]
enum Process {
    /// Its number below, when it began above (in the system's ticks since its boot).
    Is(u64),
    /// What is left of one that ended: it stores nothing any more.
    Ended,
    /// It cannot be seen, or is not there.
    Unknown,
}
fn look_at(process: u32) -> Process {
    let look = || -> Option<Process> {
        let mut path = [0; 32];
        let mut digits = [0; 10];
        let (mut n, mut used) = (process, 0);
        while n != 0 || used == 0 {
            digits[used] = b'0' + (n % 10) as u8;
            n /= 10;
            used += 1;
        }
        digits[..used].reverse();
        path[..6].copy_from_slice(b"/proc/");
        path[6..][..used].copy_from_slice(&digits[..used]);
        path[6 + used..][..5].copy_from_slice(b"/stat");
        let path = CStr::from_bytes_until_nul(&path).ok()?;
        let fd = file::open_at(libc::AT_FDCWD, path, libc::O_RDONLY | libc::O_CLOEXEC, 0).ok()?;
        let mut text = [0; 1024];
        let read = file::read_at(fd, &mut text, 0);
        file::close(fd);
        let text = &text[..read.ok()?];
        // The second field is a name in parentheses, in which anything may be.
        let mut fields = text.get(text.iter().rposition(|c| *c == b')')? + 2..)?.split(|c| *c == b' ');
        if matches!(fields.next()?, [b'Z' | b'X', ..]) {
            return Some(Process::Ended);
        }
        let began = core::str::from_utf8(fields.nth(18)?).ok()?.parse::<u64>().ok()?;
        Some(Process::Is(u64::from(process) | began << 32))
    };
    look().unwrap_or(Process::Unknown)
}

/// A cluster, by open folders.
pub struct Cluster {
    pub data: i32,
    pub wal: i32,
    /// A destager's descriptors of segments. The server's own processes have none: they sync everything.
    pub holds: Holds,
    /// The first sequence that was written after `wal` was opened; of a server's process, which opened it
    /// over an empty ring, 0.
    pub since: AtomicU64,
}

impl Cluster {
    /// Opens the folders; with their identities.
    pub fn open(path: &CStr) -> Result<(Cluster, Identity, Identity), i32> {
        let data = file::open_at(libc::AT_FDCWD, path, FOLDER, 0)?;
        let wal = file::open_at(data, c"pg_wal", FOLDER, 0)?;
        let cluster = Cluster { data, wal, holds: Holds::new(), since: AtomicU64::new(0) };
        Ok((cluster, file::identity(data, true)?.0, file::identity(wal, true)?.0))
    }
    /// The cluster that owns a ring; `None` if the folder that it names is another one now, or another
    /// cluster.
    pub fn of(owner: &Owner) -> Result<Option<Cluster>, i32> {
        let mut path = [0; file::PATH + 1];
        path[..owner.path().len()].copy_from_slice(owner.path());
        let path = CStr::from_bytes_until_nul(&path).map_err(|_| libc::EINVAL)?;
        let (cluster, data, wal) = Cluster::open(path)?;
        let same = data == owner.data && wal == owner.wal && cluster.system()? == owner.system;
        Ok(same.then_some(cluster))
    }
    /// The number that `initdb` gave the cluster: the first word of its control file.
    pub fn system(&self) -> Result<u64, i32> {
        let fd = file::open_at(self.data, c"global/pg_control", libc::O_RDONLY | libc::O_CLOEXEC, 0)?;
        let mut word = [0; 8];
        let n = file::read_at(fd, &mut word, 0);
        file::close(fd);
        if n? == 8 { Ok(u64::from_ne_bytes(word)) } else { Err(libc::EIO) }
    }
    /// Opens whatever file has a segment's name; with its inode.
    fn file_of(&self, segment: &Segment, flags: i32) -> Result<(i32, u64), i32> {
        let name = segment.name();
        let name = CStr::from_bytes_until_nul(&name).map_err(|_| libc::EINVAL)?;
        let fd = file::open_at(self.wal, name, flags | libc::O_CLOEXEC, 0)?;
        file::found(fd).map(|(inode, ..)| (fd, inode)).inspect_err(|_| file::close(fd))
    }
    /// Opens a segment by its name, to be written.
    pub fn named(&self, segment: &Segment) -> Result<(i32, u64), i32> {
        self.file_of(segment, libc::O_RDWR)
    }
    /// Opens a segment by its name, if the file of that name is the one.
    pub fn segment(&self, segment: &Segment, flags: i32) -> Result<i32, i32> {
        let (fd, inode) = self.file_of(segment, flags)?;
        if inode == segment.inode {
            return Ok(fd);
        }
        file::close(fd);
        Err(libc::ESTALE)
    }
}

impl Folders for Cluster {
    fn contents(&self, name: &CStr, to: &mut [u8]) -> Result<usize, i32> {
        let fd = file::open_at(self.data, name, libc::O_RDONLY | libc::O_CLOEXEC, 0)?;
        let n = file::read_at(fd, to, 0);
        file::close(fd);
        n
    }
    fn write(&self, name: &CStr, bytes: &[u8]) -> Result<(), i32> {
        let old = file::open_at(self.data, VERSION, libc::O_RDONLY | libc::O_CLOEXEC, 0)?;
        let (mode, owner) = (file::mode_of(old), file::owner_of(old));
        file::close(old);
        let (mode, owner) = (mode?, owner?);
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
        let fd = file::open_at(self.data, name, flags, 0o600)?;
        let done = || {
            // The command may run as root: the file stays its server's.
            if owner != file::owner_of(fd)? {
                file::give(fd, owner)?
            }
            file::set_mode(fd, mode)?;
            file::write_at(fd, bytes, 0)?;
            file::sync(fd)
        };
        let done = done();
        file::close(fd);
        done
    }
    fn rename(&self, from: &CStr, to: &CStr) -> Result<(), i32> {
        file::rename(self.data, from, to)
    }
    fn remove(&self, name: &CStr) -> Result<(), i32> {
        file::remove(self.data, name)
    }
    fn sync(&self) -> Result<(), i32> {
        file::sync(self.data)
    }
    fn open(&self, segment: &Segment) -> Result<i32, i32> {
        self.segment(segment, libc::O_RDWR)
    }
    fn make(&self, name: &CStr, size: u64) -> Result<(i32, u64), i32> {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
        let fd = file::open_at(self.wal, name, flags, 0o600)?;
        let fill = || {
            let owner = file::owner_of(self.wal)?;
            if owner != file::owner_of(fd)? {
                file::give(fd, owner)?
            }
            let zeros = [0; 4096];
            let mut at = 0;
            while at < size {
                let n = (size - at).min(zeros.len() as u64);
                file::write_at(fd, &zeros[..n as usize], at)?;
                at += n
            }
            let (inode, ..) = file::found(fd)?;
            Ok((fd, inode))
        };
        fill().inspect_err(|_| file::close(fd))
    }
    fn write_at(&self, file: i32, bytes: &[u8], at: u64) -> Result<(), i32> {
        file::write_at(file, bytes, at)
    }
    fn sync_file(&self, file: i32) -> Result<(), i32> {
        file::sync(file)
    }
    fn close(&self, file: i32) {
        file::close(file)
    }
    fn rename_segment(&self, from: &CStr, to: &CStr) -> Result<(), i32> {
        file::rename(self.wal, from, to)
    }
    fn sync_segments(&self) -> Result<(), i32> {
        file::sync(self.wal)
    }
    fn boot(&self) -> [u64; 2] {
        boot()
    }
}

impl Files for Cluster {
    fn sync(&self, segment: &Segment, part: Range<u64>, first: u64) -> Result<bool, i32> {
        let Some(fd) = self.holds.find(segment.inode, first) else {
            return Ok(false);
        };
        file::sync_part(fd, part)?;
        // Not every file system says that its sync did nothing.
        if file::is_read_only(fd)? { Err(libc::EROFS) } else { Ok(true) }
    }
    /// This folder's descriptor is as old as the server, and its processes share it: the system tells it once
    /// of writes of the file system that failed since then, whoever else was told.
    ///
    /// Of a file system that was made read-only or was shut down, `syncfs` may say that all is well, and do
    /// nothing; and where only data was to be written, it need not flush the device's cache. So a change of
    /// the folder follows, and its sync: the one is refused where nothing can be written any more, the other
    /// flushes.
    fn sync_all(&self) -> Result<(), i32> {
        file::sync_file_system(self.wal)?;
        file::touch(self.wal)?;
        file::sync(self.wal)
    }
    fn since(&self) -> u64 {
        self.since.load(Relaxed)
    }
    fn myself(&self) -> u64 {
        static ME: AtomicU64 = AtomicU64::new(0);
        // SAFETY: no memory is passed.
        let process = unsafe { libc::syscall(libc::SYS_getpid) } as u32;
        let known = ME.load(Relaxed);
        // A child inherits what its parent knew; the parent lives, or has another number.
        if known as u32 == process {
            return known;
        }
        // Where it cannot be seen when it began, its number must do.
        let me = match look_at(process) {
            Process::Is(me) => me,
            _ => u64::from(process),
        };
        ME.store(me, Relaxed);
        me
    }
    fn is_dead(&self, process: u64) -> bool {
        let number = process as u32;
        // SAFETY: no signal is sent.
        let there = unsafe { libc::syscall(libc::SYS_kill, number, 0) };
        if there < 0 && file::errno() == libc::ESRCH {
            return true;
        }
        // On any doubt it lives: others wait.
        match look_at(number) {
            Process::Is(other) => process >> 32 != 0 && other != process,
            Process::Ended => true,
            Process::Unknown => false,
        }
    }
    fn wait(&self, ns: u64) {
        const SECOND: u64 = 1_000_000_000;
        let time = libc::timespec { tv_sec: (ns / SECOND) as i64, tv_nsec: (ns % SECOND) as i64 };
        // SAFETY: the structure is readable; a signal may end the sleep.
        unsafe { libc::syscall(libc::SYS_nanosleep, &time, 0usize) };
    }
    fn now(&self) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the structure is writable.
        unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_BOOTTIME, &mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_told_apart() {
        let cluster = Cluster { data: -1, wal: -1, holds: Holds::new(), since: AtomicU64::new(0) };
        let me = cluster.myself();
        assert_eq!(me as u32, std::process::id());
        assert!(me >> 32 != 0 && !cluster.is_dead(me));
        assert!(cluster.is_dead(me + (1 << 32)), "the same number, but another time");
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        let it = u64::from(child.id());
        // It ends, and is not waited for: nothing of it can write.
        while look_at(child.id()) != Process::Ended {
            std::thread::yield_now()
        }
        assert!(cluster.is_dead(it | 1 << 32));
        child.wait().expect("a child");
        assert!(cluster.is_dead(it));
    }
}
