//! The command of the ring for PostgreSQL's WAL: making one, running a server on it, bringing it home after a crash. What it
//! rests on: `docs/pgwal.md`. Exit status 1 when something failed, 2 for a command line that makes no sense; `run` has its server's.
#![allow(unsafe_code)] // Signals.

mod cluster;

use cluster::Cluster;
use ondol_ring::file::{self, Mapping, Owner, Who};
use ondol_ring::{Error, HEADER, Memory, Replay, Ring, SLOT, Segment};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::Error as Io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

const USAGE: &str = "usage:
  ondol-pgwal init --ring PATH --size SIZE --pgdata DIR [--promise power-failure|server-crash]
  ondol-pgwal run --ring PATH [--library PATH] -- /PATH/TO/postgres ARGUMENTS
  ondol-pgwal recover --ring PATH
  ondol-pgwal status --ring PATH
SIZE is in bytes, or with MB or GB. --promise server-crash: the ring is not on persistent memory, and a power failure
may cost the cluster.";

/// How long a server's last processes may take to go.
const LAST: Duration = Duration::from_secs(10);
/// Between two looks of the destager.
const LOOK: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match Options::parse(&arguments).map(|o| o.obey()) {
        None => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
        Some(Ok(code)) => code,
        Some(Err(why)) => {
            eprintln!("ondol-pgwal: {why}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Default)]
struct Options {
    what: String,
    ring: PathBuf,
    size: Option<u64>,
    data: Option<PathBuf>,
    promise: Option<String>,
    preload: Option<PathBuf>,
    server: Vec<String>,
}

impl Options {
    fn parse(arguments: &[String]) -> Option<Options> {
        let mut rest = arguments.iter();
        let mut o = Options { what: rest.next()?.clone(), ..Options::default() };
        while let Some(name) = rest.next() {
            if name == "--" {
                o.server = rest.cloned().collect();
                break;
            }
            let value = rest.next()?;
            match (o.what.as_str(), name.as_str()) {
                (_, "--ring") => o.ring = value.into(),
                ("init", "--size") => o.size = Some(size(value)?),
                ("init", "--pgdata") => o.data = Some(value.into()),
                ("init", "--promise") => o.promise = Some(value.clone()),
                ("run", "--library") => o.preload = Some(value.into()),
                _ => return None,
            }
        }
        let fits = match o.what.as_str() {
            "init" => o.size.is_some() && o.data.is_some(),
            "run" => !o.server.is_empty(),
            "recover" | "status" => true,
            _ => false,
        };
        (fits && (o.what == "run" || o.server.is_empty()) && !o.ring.as_os_str().is_empty()).then_some(o)
    }
    fn obey(&self) -> Result<ExitCode, String> {
        match self.what.as_str() {
            "init" => init(self).map(|()| ExitCode::SUCCESS),
            "run" => run(self),
            "recover" => recover(&self.ring).map(|done| {
                println!("{} entries, {} bytes replayed; the ring is empty", done.entries, done.bytes);
                ExitCode::SUCCESS
            }),
            _ => Opened::new(&self.ring).map(|o| {
                o.tell();
                ExitCode::SUCCESS
            }),
        }
    }
}

fn size(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit {
        "" => 1,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// A reason, with what it is about.
fn at<'a>(path: &'a Path) -> impl Fn(Io) -> String + 'a {
    move |e| format!("{}: {e}", path.display())
}
fn system(number: i32) -> Io {
    Io::from_raw_os_error(number)
}

/// The number that `initdb` gave the cluster: the first word of its control file.
fn system_identifier(data: &Path) -> Result<u64, String> {
    let path = data.join("global/pg_control");
    let mut word = [0; 8];
    File::open(&path).and_then(|f| f.read_exact_at(&mut word, 0)).map_err(at(&path))?;
    Ok(u64::from_ne_bytes(word))
}

fn init(o: &Options) -> Result<(), String> {
    let (Some(data), Some(size)) = (&o.data, o.size) else {
        return Err("no size or no data directory".into());
    };
    let power = match o.promise.as_deref() {
        None | Some("power-failure") => true,
        Some("server-crash") => false,
        Some(p) => return Err(format!("there is no promise \"{p}\": power-failure or server-crash")),
    };
    if size < 1 << 20 {
        return Err("a ring has 1MB at least".into());
    }
    let data = data.canonicalize().map_err(at(data))?;
    let path = CString::new(data.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
    let (cluster, id, wal) = Cluster::open(&path).map_err(|n| match n {
        libc::ENOTSUP => format!(
            "{}: its file system keeps no birth times, so that a copy could pass for it",
            data.display()
        ),
        n => at(&data)(system(n)),
    })?;
    if cluster.is_marked().map_err(|n| at(&data)(system(n)))? {
        return Err(format!("{}: its WAL is in a ring; that one must be recovered first", data.display()));
    }
    let owner = Owner::new(power, size, system_identifier(&data)?, id, wal, path.as_bytes())
        .ok_or(format!("{}: longer than {} bytes", data.display(), file::PATH))?;
    let ring = &o.ring;
    let made = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(ring)
        .map_err(at(ring))?;
    let formatted = || -> Result<(), String> {
        // Zeros that are written, not left out: nothing is to be allocated when the server writes.
        let zeros = vec![0; 1 << 20];
        let mut done = 0;
        while done < size {
            let part = &zeros[..(size - done).min(1 << 20) as usize];
            made.write_all_at(part, done).map_err(at(ring))?;
            done += part.len() as u64;
        }
        let memory = Mapping::new(made.as_raw_fd(), size as usize).map_err(|n| at(ring)(system(n)))?;
        if power && !memory.power {
            return Err(format!(
                "{}: not on persistent memory (MAP_SYNC is refused), so that a power failure would cost acknowledged \
                 commits; --promise server-crash makes a ring that survives only the end of processes",
                ring.display()
            ));
        }
        let entries = Ring::new(memory, size as usize).ok_or("the ring is too small")?;
        entries.format();
        made.sync_all().map_err(at(ring))?;
        // The header last: without it, this is no ring.
        made.write_all_at(&owner.encode(), 0).and_then(|()| made.sync_all()).map_err(at(ring))?;
        // Its server opens it, whoever made it.
        let server = file::owner_of(cluster.data).map_err(|n| at(ring)(system(n)))?;
        if server != file::owner_of(made.as_raw_fd()).map_err(|n| at(ring)(system(n)))? {
            file::give(made.as_raw_fd(), server).map_err(|n| at(ring)(system(n)))?
        }
        let folder = ring.canonicalize().map_err(at(ring))?;
        let folder = folder.parent().ok_or("the ring is in no folder")?;
        File::open(folder).and_then(|f| f.sync_all()).map_err(at(folder))
    };
    formatted().inspect_err(|_| drop(std::fs::remove_file(ring)))
}

/// A ring and its cluster.
struct Opened {
    file: File,
    owner: Owner,
    ring: Ring<Mapping>,
    cluster: Cluster,
    data: PathBuf,
}

impl Opened {
    fn new(path: &Path) -> Result<Opened, String> {
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(at(path))?;
        let mut header = [0; file::OWNED];
        file.read_exact_at(&mut header, 0).map_err(at(path))?;
        let owner =
            Owner::decode(&header).ok_or(format!("{}: no ring, or its header is damaged", path.display()))?;
        if file.metadata().map_err(at(path))?.len() < owner.len {
            return Err(format!("{}: shorter than it was made ({} bytes)", path.display(), owner.len));
        }
        let data = PathBuf::from(std::ffi::OsStr::from_bytes(owner.path()));
        let cluster = Cluster::of(&owner).map_err(|n| at(&data)(system(n)))?.ok_or(format!(
            "{}: not the data directory that the ring was made for, but a copy or another one",
            data.display()
        ))?;
        if system_identifier(&data)? != owner.system {
            return Err(format!(
                "{}: another cluster than the ring's (its system identifier differs)",
                data.display()
            ));
        }
        let memory = Mapping::new(file.as_raw_fd(), owner.len as usize).map_err(|n| at(path)(system(n)))?;
        if owner.power && !memory.power {
            return Err(format!("{}: made for persistent memory, which this is not", path.display()));
        }
        let ring = Ring::new(memory, owner.len as usize).ok_or("the ring is too small")?;
        Ok(Opened { file, owner, ring, cluster, data })
    }
    fn tell(&self) {
        let s = self.ring.status();
        println!("data directory  {}", self.data.display());
        println!("system          {}", self.owner.system);
        println!(
            "survives        {}",
            if self.owner.power { "a power failure" } else { "a server's crash, not a power failure" }
        );
        println!(
            "marked          {}",
            self.cluster.is_marked().map_or("?", |m| if m { "yes" } else { "no" })
        );
        println!("slots           {} of {} bytes after {HEADER}", s.slots, SLOT);
        println!("live            {}", s.live);
        println!("bytes           {}", s.bytes);
        println!("drains          {}", s.drains);
        println!("found full      {}", s.full);
        println!("a sync failed   {}", if s.failed { "yes" } else { "no" });
    }
}

fn recover(path: &Path) -> Result<Replay, String> {
    let o = Opened::new(path)?;
    let end = Instant::now() + LAST;
    while !file::lock(o.file.as_raw_fd(), Who::Alone).map_err(|n| at(path)(system(n)))? {
        if Instant::now() > end {
            return Err(format!("{}: a process of the server still runs", o.data.display()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut open: BTreeMap<u64, i32> = BTreeMap::new();
    let mut blamed: Option<Segment> = None;
    let files = std::cell::RefCell::new(&mut open);
    let done = o.ring.recover(
        |entry, data| {
            let s = entry.segment;
            let known = files.borrow().get(&s.inode).copied();
            let fd = match known {
                Some(fd) => fd,
                None => {
                    let fd = o.cluster.segment(&s, libc::O_RDWR).inspect_err(|_| blamed = Some(s))?;
                    files.borrow_mut().insert(s.inode, fd);
                    fd
                }
            };
            file::write_at(fd, data, entry.offset).inspect_err(|_| blamed = Some(s))
        },
        || {
            files.borrow().values().try_for_each(|fd| file::sync(*fd))?;
            file::sync(o.cluster.wal)
        },
    );
    open.into_values().for_each(file::close);
    let done = done.map_err(|e| match (e, blamed) {
        (Error::Damaged(n), _) => {
            format!("{}: entry {n} was acknowledged and is damaged; nothing was changed", path.display())
        }
        (Error::Replay(libc::ENOENT), Some(s)) => format!("segment {} is missing", name(&s)),
        (Error::Replay(libc::ESTALE), Some(s)) => {
            format!("segment {} is another file than the one that was written", name(&s))
        }
        (Error::Replay(n), Some(s)) => format!("segment {}: {}", name(&s), system(n)),
        (Error::Replay(n) | Error::Sync(n), _) => format!("{}: {}", o.data.display(), system(n)),
    })?;
    o.ring.memory().set(file::OWNERS_WORD, 0);
    o.cluster.unmark().map_err(|n| at(&o.data.join("PG_VERSION"))(system(n)))?;
    Ok(done)
}
fn name(s: &Segment) -> String {
    String::from_utf8_lossy(&s.name()[..24]).into_owned()
}

static SERVER: AtomicI32 = AtomicI32::new(0);
extern "C" fn hand_on(signal: i32) {
    let server = SERVER.load(Ordering::SeqCst);
    if server > 0 {
        // SAFETY: a system call that signal handlers may make.
        unsafe { libc::kill(server, signal) };
    }
}

/// Recovers, runs the server with the library, syncs segments in the meantime, and recovers again when it has gone.
fn run(o: &Options) -> Result<ExitCode, String> {
    let replayed = recover(&o.ring)?;
    if replayed.entries != 0 {
        eprintln!("ondol-pgwal: {} entries, {} bytes replayed", replayed.entries, replayed.bytes);
    }
    let library = match &o.preload {
        Some(l) => l.clone(),
        None => std::env::current_exe().map_err(|e| e.to_string())?.with_file_name("libondol_pgwal.so"),
    };
    let library = library.canonicalize().map_err(at(&library))?;
    let ring = o.ring.canonicalize().map_err(at(&o.ring))?;
    let opened = Opened::new(&ring)?;
    let program = o.server.first().ok_or("no server is named")?;
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
        // SAFETY: the handler makes one system call.
        unsafe { libc::signal(signal, hand_on as *const () as libc::sighandler_t) };
    }
    let mut command = Command::new(program);
    command.args(&o.server[1..]).env("LD_PRELOAD", &library).env("ONDOL_PGWAL_RING", &ring);
    // A group of its own, so that a terminal's signal reaches it once.
    let mut server = command.process_group(0).spawn().map_err(at(Path::new(program)))?;
    SERVER.store(server.id() as i32, Ordering::SeqCst);
    let mut told = false;
    let ended = loop {
        if let Some(ended) = server.try_wait().map_err(|e| e.to_string())? {
            break ended;
        }
        if let Err(e) = opened.ring.drain(&opened.cluster)
            && !std::mem::replace(&mut told, true)
        {
            eprintln!(
                "ondol-pgwal: a segment cannot be synced ({e:?}): the server will stop; the ring keeps its WAL"
            );
        }
        std::thread::sleep(LOOK);
    };
    SERVER.store(0, Ordering::SeqCst);
    drop(opened);
    recover(&o.ring)?;
    Ok(ended.code().map_or(ExitCode::FAILURE, |c| ExitCode::from(c as u8)))
}
