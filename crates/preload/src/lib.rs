//! The library `libondol_pgwal.so`, preloaded into PostgreSQL: WAL writes also go to a durable ring, and the
//! syncs that it covers are not done. The rules it keeps, by number: `docs/pgwal.md`.
//!
//! - **S1** It does something in a process whose executable is named `postgres`, whose environment names a
//!   ring (`ONDOL_PGWAL_RING`), for files in the `pg_wal` of the cluster that owns the ring; else each
//!   function is the system call. The environment, not a file in the data directory, because it comes with
//!   `LD_PRELOAD` from the same hand, and is known before the first file is opened.
//! - **S2** Other libraries' constructors open files before ours runs: until then, and on any doubt, the
//!   system call.
//! - **S3** Nothing is allocated, no symbol is looked up, no thread-local storage but the C library's
//!   `errno`.
//! - **S4** What is known of a descriptor is never forgotten, only proved when it is used: a child of `vfork`
//!   closes and copies descriptors in memory that it shares with its parent. A proof stands until any
//!   descriptor is opened, closed or copied.
#![no_std]
#![allow(unsafe_code)] // It replaces functions of the C library.
extern crate std; // For its panic handler alone; nothing here panics by intent.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use ondol_ring::file::{self, Mapping, Owner, Who};
use ondol_ring::{Error, Files, Memory, Ring, Segment};
use pgwal::cluster::Cluster;
use pgwal::mark::{KEPT, MARK_LEN, Marked, leave, marked_by, ready, serve, serves, words};
use pgwal::recover::recover;

struct Service {
    ring: Ring<Mapping>,
    cluster: Cluster,
    /// The ring's file, and its own number.
    file: c_int,
    id: u32,
    /// This process has seen that the cluster is marked.
    marked: AtomicBool,
    /// Inode and device of the data directory, and the device of `pg_wal`.
    data: (u64, u64),
    device: u64,
}
struct Once(UnsafeCell<Option<Service>>);
// SAFETY: written by the constructor, before there are threads and before READY says so; read only
// afterwards.
unsafe impl Sync for Once {}
static SERVICE: Once = Once(UnsafeCell::new(None));
static READY: AtomicBool = AtomicBool::new(false);

fn service() -> Option<&'static Service> {
    // SAFETY: never written after READY.
    if READY.load(Relaxed) { unsafe { (*SERVICE.0.get()).as_ref() } } else { None }
}

/// What is known of a descriptor that is open on a segment; an inode of 0: nothing, it is none.
struct Known {
    inode: AtomicU64,
    timeline: AtomicU32,
    log: AtomicU32,
    part: AtomicU32,
    /// Covered writes were made through it.
    covered: AtomicBool,
    /// The [`CHANGES`] at which it was last proved, 0 if never, and the segment's size then.
    proved: AtomicU64,
    size: AtomicU64,
}
/// How often a descriptor of this process was opened, closed or copied, from 1 on: as long as none is, each
/// stays what it was proved to be.
static CHANGES: AtomicU64 = AtomicU64::new(1);
fn changed() {
    CHANGES.fetch_add(1, Relaxed);
}
const DESCRIPTORS: usize = 1 << 16;
static KNOWN: [Known; DESCRIPTORS] = [const {
    Known {
        inode: AtomicU64::new(0),
        timeline: AtomicU32::new(0),
        log: AtomicU32::new(0),
        part: AtomicU32::new(0),
        covered: AtomicBool::new(false),
        proved: AtomicU64::new(0),
        size: AtomicU64::new(0),
    }
}; DESCRIPTORS];

impl Known {
    fn of(fd: c_int) -> Option<(&'static Known, Segment)> {
        let k = KNOWN.get(usize::try_from(fd).ok()?)?;
        let inode = k.inode.load(Relaxed);
        let segment = Segment {
            timeline: k.timeline.load(Relaxed),
            log: k.log.load(Relaxed),
            part: k.part.load(Relaxed),
            inode,
        };
        (inode != 0).then_some((k, segment))
    }
    fn learn(fd: c_int, s: Segment, covered: bool) {
        let Some(k) = usize::try_from(fd).ok().and_then(|fd| KNOWN.get(fd)) else {
            return;
        };
        k.timeline.store(s.timeline, Relaxed);
        k.log.store(s.log, Relaxed);
        k.part.store(s.part, Relaxed);
        k.covered.store(covered, Relaxed);
        k.proved.store(0, Relaxed);
        k.inode.store(s.inode, Relaxed);
    }
}

fn fail(number: c_int) -> c_int {
    // SAFETY: the calling thread's place.
    unsafe { *libc::__errno_location() = number };
    -1
}
fn lost(e: Error) -> c_int {
    fail(match e {
        Error::Sync(number) => number,
        _ => libc::EIO,
    })
}
/// Tells on standard error, which is the server's log.
fn tell(what: core::fmt::Arguments<'_>) {
    struct Line([u8; 1024], usize);
    impl core::fmt::Write for Line {
        fn write_str(&mut self, s: &str) -> core::fmt::Result {
            let n = s.len().min(self.0.len() - self.1);
            self.0[self.1..][..n].copy_from_slice(&s.as_bytes()[..n]);
            self.1 += n;
            Ok(())
        }
    }
    let mut line = Line([0; 1024], 0);
    let _ = core::fmt::write(&mut line, format_args!("ondol pgwal: {what}\n"));
    // SAFETY: the slice is readable.
    unsafe { libc::syscall(libc::SYS_write, 2, line.0.as_ptr(), line.1) };
}
/// Why the ring is not used.
fn say(path: &CStr, why: core::fmt::Arguments<'_>) {
    let path = core::str::from_utf8(path.to_bytes()).unwrap_or("?");
    tell(format_args!("{path}: {why}; WAL is synced as without the library"))
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = construct;

extern "C" fn construct(_count: c_int, _arguments: *const *const c_char, environment: *const *const c_char) {
    let mut exe = [0u8; 4096];
    // SAFETY: the path ends with a zero, the buffer is writable.
    let n = unsafe {
        libc::syscall(
            libc::SYS_readlinkat,
            libc::AT_FDCWD,
            c"/proc/self/exe".as_ptr(),
            exe.as_mut_ptr(),
            exe.len(),
        )
    };
    let exe = exe.get(..usize::try_from(n).unwrap_or(0)).unwrap_or(&[]);
    let exe = exe.strip_suffix(b" (deleted)").unwrap_or(exe);
    if !exe.ends_with(b"/postgres") || environment.is_null() {
        return;
    }
    let mut at = environment;
    // SAFETY: the environment is a list of texts that a null pointer ends.
    let path = unsafe {
        loop {
            if (*at).is_null() {
                return;
            }
            let text = CStr::from_ptr(*at);
            if text.to_bytes().starts_with(b"ONDOL_PGWAL_RING=") {
                break CStr::from_ptr((*at).add(b"ONDOL_PGWAL_RING=".len()));
            }
            at = at.add(1);
        }
    };
    match begin(path) {
        Ok(service) => {
            // SAFETY: constructors run in one thread, and READY is not set yet.
            unsafe { *SERVICE.0.get() = Some(service) };
            READY.store(true, Relaxed);
        }
        Err(Why::Text(why)) => say(path, format_args!("{why}")),
        Err(Why::Refused(why)) => say(path, format_args!("{why}")),
    }
}

/// How long another's hold of the ring is waited for, and how long between two looks, in nanoseconds.
const LAST: u64 = 10_000_000_000;
const MOMENT: u64 = 5_000_000;

enum Why {
    Text(&'static str),
    Refused(pgwal::recover::Refusal),
}

fn begin(path: &CStr) -> Result<Service, Why> {
    let fd = file::open_at(libc::AT_FDCWD, path, libc::O_RDWR | libc::O_CLOEXEC, 0)
        .map_err(|_| Why::Text("the ring cannot be opened"))?;
    // The descriptor stays open: its lock is held as long as a process of this server lives, since children
    // share it.
    begin_on(fd).inspect_err(|_| file::close(fd))
}
fn begin_on(fd: c_int) -> Result<Service, Why> {
    let text = |why| move |_: i32| Why::Text(why);
    let mut header = [0; file::OWNED];
    file::read_at(fd, &mut header, 0).map_err(text("the ring cannot be read"))?;
    let owner = Owner::decode(&header).ok_or(Why::Text("this is no ring, or a damaged one"))?;
    let cluster = Cluster::of(&owner)
        .map_err(text("the cluster that owns the ring is not there"))?
        .ok_or(Why::Text("the ring belongs to another data directory"))?;
    let size = file::found(fd).map_err(text("the ring cannot be read"))?.1;
    if size < owner.len {
        return Err(Why::Text("the ring is shorter than it was made"));
    }
    let memory = Mapping::new(fd, owner.len as usize).map_err(text("the ring cannot be mapped"))?;
    if owner.power && !memory.power {
        return Err(Why::Text("the ring was made for power failures, but its memory is not persistent"));
    }
    // Alone: any `postgres` that starts while another lives stays without the ring, as its stray commands do.
    // A destager or a recovery has the lock for a moment, and is waited for.
    let end = cluster.now() + LAST;
    while file::lock(fd, Who::Alone) != Ok(true) {
        if serves(&cluster, &memory) || cluster.now() > end {
            return Err(Why::Text("the ring is in use"));
        }
        cluster.wait(MOMENT)
    }
    let ring = Ring::new(memory, owner.len as usize).ok_or(Why::Text("the ring is too small"))?;
    // Of older errors that nobody was told this descriptor is told now: what they are about is written again,
    // or was synced.
    let _ = file::sync_file_system(cluster.wal);
    recover(&ring, &owner, &cluster, false).map_err(Why::Refused)?;
    serve(&cluster, ring.memory());
    if file::lock(fd, Who::Server) != Ok(true) {
        return Err(Why::Text("the ring is being recovered"));
    }
    let data = file::found(cluster.data).map_err(text("the data directory cannot be read"))?;
    let data = (data.0, data.2);
    let device = file::found(cluster.wal).map_err(text("pg_wal cannot be read"))?.2;
    Ok(Service { ring, cluster, file: fd, id: owner.id, marked: AtomicBool::new(false), data, device })
}

/// The last part of a path, if it is a segment's name.
fn segment_named(path: &CStr) -> Option<Segment> {
    let path = path.to_bytes();
    let (folder, name) = path.split_at_checked(path.len().checked_sub(24)?)?;
    if folder.last().is_some_and(|c| *c != b'/') {
        return None;
    }
    Segment::named(name, 0)
}

impl Service {
    fn open(&self, at: c_int, path: &CStr, flags: c_int, mode: u32) -> Result<c_int, c_int> {
        if let Some(mut segment) = segment_named(path) {
            // Nobody reads what a dead process may have left (pgwal/R7).
            self.ring.relieve(&self.cluster).map_err(|_| libc::EIO)?;
            // What the kernel shows of a segment that could not be written is not what was acknowledged
            // (pgwal/R6).
            if self.ring.failure().is_some() {
                return Err(libc::EIO);
            }
            if file::is_removed(self.file) == Ok(true) && !self.ring.is_retired() {
                self.ring.retire();
                tell(format_args!(
                    "the ring's file was removed: from here on commits wait for syncs; stop the server in order"
                ))
            }
            let fresh = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC;
            if flags & libc::O_TRUNC != 0 {
                self.release(path).map_err(|_| libc::EIO)?
            }
            let each = libc::O_DSYNC | libc::O_SYNC;
            let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
            let taken = if writes { flags & !(each | libc::O_DIRECT) } else { flags };
            let fd = file::open_at(at, path, taken, mode)?;
            let known = || {
                let (inode, _, device) = file::found(fd)?;
                segment.inode = inode;
                match self.cluster.segment(&segment, libc::O_PATH) {
                    Ok(there) => file::close(there),
                    Err(libc::ENOENT | libc::ESTALE) => return Ok(false),
                    // Not known whether it is ours: no descriptor (pgwal/R6).
                    Err(e) => return Err(e),
                }
                if device != self.device {
                    return Ok(false);
                }
                if fd as usize >= DESCRIPTORS {
                    return Err(libc::EMFILE);
                }
                Known::learn(fd, segment, false);
                Ok(true)
            };
            let mut known = known;
            match known() {
                Ok(false) if taken != flags => {
                    file::close(fd);
                    return file::open_at(at, path, flags & !fresh, mode);
                }
                Ok(_) => return Ok(fd),
                Err(e) => {
                    file::close(fd);
                    return Err(e);
                }
            }
        }
        let fd = file::open_at(at, path, flags, mode)?;
        if path == c"./PG_VERSION"
            && file::identity(libc::AT_FDCWD, false).is_ok_and(|(here, ..)| here.inode == self.data.0)
        {
            // A base backup: the copy is a server's own, without ring and mark.
            let mut is = [0; MARK_LEN];
            if file::read_at(fd, &mut is, 0) == Ok(MARK_LEN) && marked_by(&is) != Marked::No {
                file::close(fd);
                return file::open_at(self.cluster.data, KEPT, flags, mode);
            }
        }
        Ok(fd)
    }
    /// Whether the descriptor is still open on its segment, and the segment's size (S4).
    fn proved(&self, fd: c_int, known: &Known, segment: &Segment) -> Option<u64> {
        let now = CHANGES.load(Relaxed);
        if known.proved.load(Relaxed) == now {
            return Some(known.size.load(Relaxed));
        }
        let (inode, size, device) = file::found(fd).ok()?;
        if inode != segment.inode || device != self.device {
            return None;
        }
        known.size.store(size, Relaxed);
        known.proved.store(now, Relaxed);
        Some(size)
    }
    /// A write to a segment by `write`; its bytes (readable) and its place where it is of a kind that the
    /// ring covers.
    fn write(&self, fd: c_int, bytes: Option<(*const u8, usize, i64)>, write: impl Fn() -> c_long) -> isize {
        let Some((known, segment)) = Known::of(fd) else {
            return write() as isize;
        };
        let Some(size) = self.proved(fd, known, &segment) else {
            return write() as isize;
        };
        let held = match self.ring.enter(&self.cluster) {
            Ok(held) => held,
            Err(e) => return lost(e) as isize,
        };
        let covered =
            bytes.filter(|(_, len, at)| *at >= 0 && (*at as u64).saturating_add(*len as u64) <= size);
        let covered = covered.filter(|_| {
            !self.ring.is_retired()
                && ready(&self.cluster, self.id, self.ring.memory(), &self.marked, &segment, size).is_ok()
        });
        let n = write();
        let Ok(len) = usize::try_from(n) else {
            return n as isize;
        };
        if let Some((from, _, at)) = covered {
            // The server goes on filling the last page of its WAL buffers while it is written: no reference
            // is formed.
            // SAFETY: what the kernel just read is readable, and the ring asks for no more.
            let fetch =
                |i, to: &mut [u8]| unsafe { file::copy_racing(from.add(i), to.as_mut_ptr(), to.len()) };
            if let Err(e) = held.append(segment, at as u64, len, fetch) {
                return lost(e) as isize;
            }
            known.covered.store(true, Relaxed);
            drop(held);
            self.ring.pace(&self.cluster, len);
            return n as isize;
        }
        // Past the ring (pgwal/R6): durable before it returns, so that whoever is asked to sync need not know
        // of it.
        let sync = || {
            file::sync_data(fd)?;
            if file::is_read_only(fd)? { Err(libc::EROFS) } else { Ok(()) }
        };
        match held.past(sync) {
            Ok(()) => n as isize,
            Err(e) => lost(e) as isize,
        }
    }
    fn sync(&self, fd: c_int, sync: impl Fn() -> c_long) -> c_int {
        let ours = Known::of(fd).filter(|(known, segment)| self.proved(fd, known, segment).is_some());
        let Some((known, _)) = ours else {
            // A server that restarts syncs its files, and then reads its log (pgwal/R10).
            let data = file::found(fd).is_ok_and(|(inode, _, device)| (inode, device) == self.data);
            if data && let Err(e) = self.ring.drain(&self.cluster) {
                return lost(e);
            }
            return sync() as c_int;
        };
        if let Some(e) = self.ring.failure() {
            return lost(e);
        }
        if known.covered.load(Relaxed) {
            self.ring.spare();
            return 0;
        }
        let done = self.ring.sync(&self.cluster, || if sync() < 0 { Err(file::errno()) } else { Ok(()) });
        done.map_or_else(lost, |()| 0)
    }
    /// The server's first process removes its lock file, so that another may start (pgwal/R14).
    fn end(&self) {
        if self.ring.memory().word(words::SERVER) == self.cluster.myself()
            && let Err(e) = leave(&self.cluster, self.id, &self.ring)
        {
            tell(format_args!("the cluster stays marked, until `ondol-pgwal recover` ({e:?})"))
        }
    }
    /// Before a name changes (pgwal/R9).
    fn release(&self, path: &CStr) -> Result<(), Error> {
        match segment_named(path) {
            Some(s) if self.ring.holds(&s) => self.ring.drain(&self.cluster),
            _ => Ok(()),
        }
    }
}

fn opened(at: c_int, path: *const c_char, flags: c_int, mode: u32) -> c_int {
    changed();
    let Some(path) = text(path) else {
        return fail(libc::EFAULT);
    };
    match service() {
        Some(s) => s.open(at, path, flags, mode),
        None => file::open_at(at, path, flags, mode),
    }
    .unwrap_or_else(fail)
}
fn text<'a>(path: *const c_char) -> Option<&'a CStr> {
    // SAFETY: a path that is not null ends with a zero, as all calls that take one demand.
    (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) })
}

/// # Safety
/// As open(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: u32) -> c_int {
    opened(libc::AT_FDCWD, path, flags, mode)
}
/// # Safety
/// As open(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: u32) -> c_int {
    opened(libc::AT_FDCWD, path, flags | libc::O_LARGEFILE, mode)
}
/// # Safety
/// As openat(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat(at: c_int, path: *const c_char, flags: c_int, mode: u32) -> c_int {
    opened(at, path, flags, mode)
}

/// # Safety
/// As openat(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat64(at: c_int, path: *const c_char, flags: c_int, mode: u32) -> c_int {
    opened(at, path, flags | libc::O_LARGEFILE, mode)
}
/// # Safety
/// As creat(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn creat(path: *const c_char, mode: u32) -> c_int {
    opened(libc::AT_FDCWD, path, libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC, mode)
}
// What the C library's headers make of `open` where they look at its arguments.
/// # Safety
/// As open(2), without a mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __open_2(path: *const c_char, flags: c_int) -> c_int {
    opened(libc::AT_FDCWD, path, flags, 0)
}
/// # Safety
/// As open(2), without a mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __open64_2(path: *const c_char, flags: c_int) -> c_int {
    opened(libc::AT_FDCWD, path, flags | libc::O_LARGEFILE, 0)
}

fn positioned(fd: c_int, from: *const c_void, len: usize, at: i64) -> isize {
    // SAFETY: the caller's buffer; the kernel checks it.
    let write = || unsafe { libc::syscall(libc::SYS_pwrite64, fd, from, len, at) };
    match service() {
        Some(s) => s.write(fd, Some((from.cast(), len, at)), write),
        None => write() as isize,
    }
}
/// # Safety
/// As pwrite(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite(fd: c_int, from: *const c_void, len: usize, at: i64) -> isize {
    positioned(fd, from, len, at)
}
/// # Safety
/// As pwrite(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(fd: c_int, from: *const c_void, len: usize, at: i64) -> isize {
    positioned(fd, from, len, at)
}

fn otherwise(fd: c_int, write: impl Fn() -> c_long) -> isize {
    match service() {
        Some(s) => s.write(fd, None, write),
        None => write() as isize,
    }
}
/// # Safety
/// As write(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, from: *const c_void, len: usize) -> isize {
    // SAFETY: the caller's buffer; the kernel checks it.
    otherwise(fd, || unsafe { libc::syscall(libc::SYS_write, fd, from, len) })
}
/// # Safety
/// As pwritev(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev(fd: c_int, from: *const c_void, count: c_int, at: i64) -> isize {
    // SAFETY: the caller's buffers; the kernel checks them.
    otherwise(fd, || unsafe { libc::syscall(libc::SYS_pwritev, fd, from, count, at, 0usize) })
}
/// # Safety
/// As pwritev(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev64(fd: c_int, from: *const c_void, count: c_int, at: i64) -> isize {
    // SAFETY: handed through.
    unsafe { pwritev(fd, from, count, at) }
}

/// # Safety
/// As pwritev2(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev2(
    fd: c_int,
    from: *const c_void,
    count: c_int,
    at: i64,
    flags: c_int,
) -> isize {
    // SAFETY: the caller's buffers; the kernel checks them.
    otherwise(fd, || unsafe { libc::syscall(libc::SYS_pwritev2, fd, from, count, at, 0usize, flags) })
}
/// # Safety
/// As pwritev2(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwritev64v2(
    fd: c_int,
    from: *const c_void,
    count: c_int,
    at: i64,
    flags: c_int,
) -> isize {
    // SAFETY: handed through.
    unsafe { pwritev2(fd, from, count, at, flags) }
}
/// # Safety
/// As writev(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn writev(fd: c_int, from: *const c_void, count: c_int) -> isize {
    // SAFETY: the caller's buffers; the kernel checks them.
    otherwise(fd, || unsafe { libc::syscall(libc::SYS_writev, fd, from, count) })
}

fn synced(fd: c_int, call: c_long) -> c_int {
    // SAFETY: no memory is passed.
    let sync = || unsafe { libc::syscall(call, fd) };
    match service() {
        Some(s) => s.sync(fd, sync),
        None => sync() as c_int,
    }
}
#[unsafe(no_mangle)]
pub extern "C" fn fsync(fd: c_int) -> c_int {
    synced(fd, libc::SYS_fsync)
}
#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(fd: c_int) -> c_int {
    synced(fd, libc::SYS_fdatasync)
}
/// # Safety
/// As syncfs(2).
#[unsafe(no_mangle)]
pub extern "C" fn syncfs(fd: c_int) -> c_int {
    // The ring is emptied by it, as by any sync of everything.
    if let Some(Err(e)) = service().map(|s| s.ring.drain(&s.cluster)) {
        return lost(e);
    }
    // SAFETY: no memory is passed.
    unsafe { libc::syscall(libc::SYS_syncfs, fd) as c_int }
}

/// What was just closed may soon be another file's descriptor.
fn closed(done: c_long) -> c_int {
    changed();
    done as c_int
}
#[unsafe(no_mangle)]
pub extern "C" fn close(fd: c_int) -> c_int {
    // SAFETY: no memory is passed.
    closed(unsafe { libc::syscall(libc::SYS_close, fd) })
}
#[unsafe(no_mangle)]
pub extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    // SAFETY: no memory is passed.
    closed(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) })
}
/// A descriptor that was made as a copy knows what its original does; one past the table is not given.
fn copied(from: c_int, made: c_long) -> c_int {
    changed();
    let made = made as c_int;
    match Known::of(from) {
        Some((known, segment)) if made >= 0 && made != from => {
            if made as usize >= DESCRIPTORS {
                file::close(made);
                return fail(libc::EMFILE);
            }
            Known::learn(made, segment, known.covered.load(Relaxed))
        }
        _ => {}
    }
    made
}
#[unsafe(no_mangle)]
pub extern "C" fn dup(fd: c_int) -> c_int {
    // SAFETY: no memory is passed.
    copied(fd, unsafe { libc::syscall(libc::SYS_dup, fd) })
}
#[unsafe(no_mangle)]
pub extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    if fd == to {
        // SAFETY: no memory is passed.
        return if unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFD) } < 0 { -1 } else { to };
    }
    dup3(fd, to, 0)
}
#[unsafe(no_mangle)]
pub extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: no memory is passed.
    copied(fd, unsafe { libc::syscall(libc::SYS_dup3, fd, to, flags) })
}
#[unsafe(no_mangle)]
pub extern "C" fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
    // SAFETY: the argument is the caller's; the kernel checks it.
    let done = unsafe { libc::syscall(libc::SYS_fcntl, fd, command, argument) };
    if command == libc::F_DUPFD || command == libc::F_DUPFD_CLOEXEC {
        copied(fd, done)
    } else {
        done as c_int
    }
}
#[unsafe(no_mangle)]
pub extern "C" fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
    fcntl(fd, command, argument)
}

/// Before the names change (pgwal/R9); an error's number, told.
fn released(paths: &[*const c_char]) -> Result<(), c_int> {
    let Some(s) = service() else {
        return Ok(());
    };
    paths.iter().filter_map(|p| text(*p)).try_for_each(|p| s.release(p).map_err(lost))
}
/// # Safety
/// As renameat2(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat2(
    at: c_int,
    from: *const c_char,
    to_at: c_int,
    to: *const c_char,
    flags: u32,
) -> c_int {
    if let Err(failed) = released(&[from, to]) {
        return failed;
    }
    // SAFETY: the caller's paths.
    unsafe { libc::syscall(libc::SYS_renameat2, at, from, to_at, to, flags) as c_int }
}
/// # Safety
/// As renameat(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat(at: c_int, from: *const c_char, to_at: c_int, to: *const c_char) -> c_int {
    // SAFETY: handed through.
    unsafe { renameat2(at, from, to_at, to, 0) }
}
/// # Safety
/// As rename(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: handed through.
    unsafe { renameat2(libc::AT_FDCWD, from, libc::AT_FDCWD, to, 0) }
}
/// # Safety
/// As unlinkat(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlinkat(at: c_int, path: *const c_char, flags: c_int) -> c_int {
    if let Err(failed) = released(&[path]) {
        return failed;
    }
    if text(path) == Some(c"postmaster.pid")
        && let Some(s) = service()
    {
        s.end()
    }
    // SAFETY: the caller's path.
    unsafe { libc::syscall(libc::SYS_unlinkat, at, path, flags) as c_int }
}
/// # Safety
/// As unlink(2).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: handed through.
    unsafe { unlinkat(libc::AT_FDCWD, path, 0) }
}
