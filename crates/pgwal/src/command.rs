//! The command of the ring for PostgreSQL's WAL: making one, running a server on it, bringing it home after a
//! crash, giving it up. What it rests on: `docs/pgwal.md`. Exit status 1 when something failed, 2 for a
//! command line that makes no sense; `run` has its server's.
use crate::cluster::Cluster;
use crate::destage::{Destager, Looked};
use crate::mark::{Marked, marked, serves, unmark};
use crate::{doctor, recover};
use ondol_ring::file::{self, Mapping, Owner, Who};
use ondol_ring::{Error, Files, HEADER, Replay, Ring, SLOT, Segment, Status};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::Error as Io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

const USAGE: &str = "usage:
  NAME init --ring PATH --size SIZE --pgdata DIR [--promise power-failure|server-crash]
  NAME run --ring PATH [--library PATH] [--rate SIZE] -- /PATH/TO/postgres ARGUMENTS
  NAME destage --ring PATH [--rate SIZE]
  NAME recover --ring PATH [--rebooted yes]
  NAME status --ring PATH [--seconds N]
  NAME doctor --pgdata DIR [--ring PATH]
  NAME discard --ring PATH | --pgdata DIR [--lose-acknowledged-commits yes]
SIZE is in bytes, or with MB or GB. --promise server-crash: the ring is not on persistent memory, and a power failure
may cost the cluster. `run` recovers, runs the server with the library, and syncs its segments; `destage` is that last part, for a
server that something else starts. --rate: no more bytes a second are synced while the ring has room. `discard` gives up what the
ring holds, or the mark of a data directory whose ring is gone; without its flag it only says what that is.";

/// How long a server's last processes may take to go.
const LAST: Duration = Duration::from_secs(10);
/// Does what a command line says, without the program's name; `name` is how it was called.
pub fn main(name: &str, arguments: Vec<String>) -> ExitCode {
    let usage = USAGE.replace("NAME", name);
    if !matches!(arguments.first().map(String::as_str), Some("run" | "destage")) {
        // The reader of the output may stop reading.
        // SAFETY: before there are threads; the default action replaces Rust's, which is to ignore it.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
    let own = arguments.split(|a| a == "--").next().unwrap_or_default();
    if own.first().is_some_and(|a| a == "help") || own.iter().any(|a| a == "--help" || a == "-h") {
        println!("{usage}");
        return ExitCode::SUCCESS;
    }
    match Options::parse(&arguments).map(|o| o.obey()) {
        Err(why) => {
            eprintln!("{name}: {why}\n{usage}");
            ExitCode::from(2)
        }
        Ok(Ok(code)) => code,
        Ok(Err(why)) => {
            eprintln!("{name}: {why}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Default)]
struct Options {
    what: String,
    ring: Option<PathBuf>,
    size: Option<u64>,
    data: Option<PathBuf>,
    promise: Option<String>,
    preload: Option<PathBuf>,
    rate: Option<u64>,
    seconds: Option<u64>,
    rebooted: bool,
    lose: bool,
    server: Vec<String>,
}

impl Options {
    /// What a command line says, or what is wrong with it.
    fn parse(arguments: &[String]) -> Result<Options, String> {
        let mut rest = arguments.iter();
        let what = rest.next().ok_or("no command")?.clone();
        if !["init", "run", "destage", "recover", "status", "doctor", "discard"].contains(&what.as_str()) {
            return Err(format!("there is no command {what:?}"));
        }
        let mut o = Options { what, ..Options::default() };
        while let Some(name) = rest.next() {
            if name == "--" {
                o.server = rest.cloned().collect();
                break;
            }
            let value = rest.next().ok_or(format!("{name}: expected a value behind it"))?;
            let expected = |what: &str| format!("{name}: expected {what}, found {value:?}");
            match (o.what.as_str(), name.as_str()) {
                (_, "--ring") => o.ring = Some(value.into()),
                ("init", "--size") => o.size = Some(size(value).ok_or_else(|| expected(SIZE))?),
                ("init" | "doctor" | "discard", "--pgdata") => o.data = Some(value.into()),
                ("init", "--promise") => o.promise = Some(value.clone()),
                ("run", "--library") => o.preload = Some(value.into()),
                ("run" | "destage", "--rate") => o.rate = Some(size(value).ok_or_else(|| expected(SIZE))?),
                ("status", "--seconds") => {
                    o.seconds = Some(value.parse().map_err(|_| expected("a number of seconds"))?)
                }
                ("recover", "--rebooted") if value == "yes" => o.rebooted = true,
                ("discard", "--lose-acknowledged-commits") if value == "yes" => o.lose = true,
                ("recover", "--rebooted") | ("discard", "--lose-acknowledged-commits") => {
                    return Err(expected("yes"));
                }
                (what, _) => return Err(format!("{what} has no option {name:?}")),
            }
        }
        let (ring, data) = (o.ring.is_some(), o.data.is_some());
        let missing = match o.what.as_str() {
            "init" if !(o.size.is_some() && data && ring) => "--ring, --size and --pgdata",
            "run" if o.server.is_empty() || !ring => "--ring, and a server behind --",
            "recover" | "status" | "destage" if !ring => "--ring",
            "doctor" if !data => "--pgdata",
            "discard" if ring == data => "either --ring or --pgdata",
            what if what != "run" && !o.server.is_empty() => "nothing behind --",
            _ => return Ok(o),
        };
        Err(format!("{}: expected {missing}", o.what))
    }
    fn obey(&self) -> Result<ExitCode, String> {
        let ring = self.ring.as_deref().unwrap_or(Path::new(""));
        match self.what.as_str() {
            "init" => init(self, ring)?,
            "run" => return run(self, ring),
            "destage" => destage(ring, self.rate)?,
            "recover" => {
                let done = bring_home(ring, self.rebooted)?;
                println!("{} entries, {} bytes replayed; the ring is empty", done.entries, done.bytes);
            }
            "doctor" => {
                print!("{}", doctor::examine(self.data.as_deref().unwrap_or(ring), self.ring.as_deref())?)
            }
            "discard" => return discard(self),
            _ => Opened::new(ring)?.tell(self.seconds),
        }
        Ok(ExitCode::SUCCESS)
    }
}

const SIZE: &str = "bytes, or a number with MB or GB";

fn size(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit {
        "" => 1,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|n| *n > 0)
}

/// A reason, with what it is about.
pub(crate) fn at<'a>(path: &'a Path) -> impl Fn(Io) -> String + 'a {
    move |e| format!("{}: {e}", path.display())
}
pub(crate) fn system(number: i32) -> Io {
    Io::from_raw_os_error(number)
}

/// The cluster of a data directory, and that directory's whole path.
fn cluster_of(data: &Path) -> Result<(Cluster, file::Identity, file::Identity, CString), String> {
    let data = data.canonicalize().map_err(at(data))?;
    let path = CString::new(data.as_os_str().as_bytes()).map_err(|e| e.to_string())?;
    let (cluster, id, wal) = Cluster::open(&path).map_err(|n| match n {
        libc::ENOTSUP => format!(
            "{}: its file system keeps no birth times, so that a copy could pass for it",
            data.display()
        ),
        libc::ENOENT => format!("{}: no data directory of PostgreSQL's: it has no pg_wal", data.display()),
        n => at(&data)(system(n)),
    })?;
    Ok((cluster, id, wal, path))
}

fn init(o: &Options, ring: &Path) -> Result<(), String> {
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
    doctor::kernel_tells_of_failed_writes()?;
    let (cluster, id, wal, path) = cluster_of(data)?;
    if let Marked::By(other) = marked(&cluster).map_err(|n| at(data)(system(n)))? {
        return Err(format!(
            "{}: its WAL is in the ring of number {other:08x}; that one must be recovered first",
            data.display()
        ));
    }
    let mut number = [0; 4];
    let source = Path::new("/dev/urandom");
    File::open(source)
        .and_then(|mut f| std::io::Read::read_exact(&mut f, &mut number))
        .map_err(at(source))?;
    let number = u32::from_le_bytes(number).max(1);
    let system_id = cluster.system().map_err(|n| at(&data.join("global/pg_control"))(system(n)))?;
    let owner = Owner::new(number, power, size, system_id, id, wal, path.as_bytes()).ok_or(format!(
        "{}: longer than {} bytes",
        data.display(),
        file::PATH
    ))?;
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
        memory.enlarge_pages();
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
        sync_folder_of(ring)
    };
    formatted().inspect_err(|_| drop(std::fs::remove_file(ring)))
}
fn sync_folder_of(path: &Path) -> Result<(), String> {
    let path = std::path::absolute(path).map_err(at(path))?;
    let folder = path.parent().ok_or("the ring is in no folder")?;
    File::open(folder).and_then(|f| f.sync_all()).map_err(at(folder))
}

/// A ring's file and what its header says.
fn header(path: &Path) -> Result<(File, Owner), String> {
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(at(path))?;
    let len = file.metadata().map_err(at(path))?.len();
    let none = || format!("{}: no ring, or its header is damaged ({len} bytes)", path.display());
    let mut header = [0; file::OWNED];
    if len < file::OWNED as u64 {
        return Err(none());
    }
    file.read_exact_at(&mut header, 0).map_err(at(path))?;
    let owner = Owner::decode(&header).ok_or_else(none)?;
    if len < owner.len {
        return Err(format!("{}: it was made with {} bytes, and has {len}", path.display(), owner.len));
    }
    Ok((file, owner))
}
fn ring_of(path: &Path, file: &File, owner: &Owner) -> Result<Ring<Mapping>, String> {
    let memory = Mapping::new(file.as_raw_fd(), owner.len as usize).map_err(|n| at(path)(system(n)))?;
    if owner.power && !memory.power {
        return Err(format!("{}: made for persistent memory, which this is not", path.display()));
    }
    Ring::new(memory, owner.len as usize).ok_or("the ring is too small".into())
}
fn data_of(owner: &Owner) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(owner.path()))
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
        let (file, owner) = header(path)?;
        let data = data_of(&owner);
        let cluster = Cluster::of(&owner).map_err(|n| at(&data)(system(n)))?.ok_or(format!(
            "{}: not the data directory that the ring was made for, but a copy or another one",
            data.display()
        ))?;
        let ring = ring_of(path, &file, &owner)?;
        Ok(Opened { file, owner, ring, cluster, data })
    }
    fn tell(&self, seconds: Option<u64>) {
        let say = |name: &str, what: String| println!("{name:<15} {what}");
        let yes = |b| if b { "yes" } else { "no" }.to_string();
        let s = self.ring.status();
        say("data directory", self.data.display().to_string());
        say("system", self.owner.system.to_string());
        say("number", format!("{:08x}", self.owner.id));
        let survives =
            if self.owner.power { "a power failure" } else { "a server's crash, not a power failure" };
        say("survives", survives.into());
        say(
            "marked",
            match marked(&self.cluster) {
                Ok(Marked::No) => "no".into(),
                Ok(Marked::By(n)) if n == self.owner.id => "yes".into(),
                Ok(Marked::By(n)) => format!("by another ring, of number {n:08x}"),
                Err(n) => system(n).to_string(),
            },
        );
        say("slots", format!("{} of {SLOT} bytes after {HEADER}", s.slots));
        say("live", format!("{} ({:.1} % of the slots)", s.live, s.live as f64 / s.slots as f64 * 100.0));
        say("bytes", s.bytes.to_string());
        say("syncs spared", s.spared.to_string());
        say("drains", s.drains.to_string());
        say("found full", s.full.to_string());
        let lag = Duration::from_nanos(self.cluster.now().saturating_sub(s.drained_at));
        let lag = if s.live == 0 || s.drained_at == 0 { "-".into() } else { format!("{} s", lag.as_secs()) };
        say("destage lag", lag);
        say("a sync failed", yes(s.failed));
        if let Some(seconds) = seconds.filter(|s| *s > 0) {
            std::thread::sleep(Duration::from_secs(seconds));
            let t = self.ring.status();
            let rate = |f: fn(&Status) -> u64| (f(&t) - f(&s)) as f64 / seconds as f64;
            say("entries/s", format!("{:.0}", rate(|s| s.entries)));
            say("bytes/s", format!("{:.0}", rate(|s| s.bytes)));
            say("spared/s", format!("{:.0}", rate(|s| s.spared)));
            say("drains/s", format!("{:.1}", rate(|s| s.drains)));
            say("found full/s", format!("{:.1}", rate(|s| s.full)));
        }
    }
    /// Waits for the end of the server's processes; the right to the ring lasts as long as its file is open.
    fn alone(&self, path: &Path) -> Result<(), String> {
        let end = Instant::now() + LAST;
        while !file::lock(self.file.as_raw_fd(), Who::Alone).map_err(|n| at(path)(system(n)))? {
            if Instant::now() > end {
                return Err(format!("{}: a process of the server still runs", self.data.display()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
    /// Brings home what the ring holds, and takes the mark away.
    fn bring_home(&self, path: &Path, rebooted: bool) -> Result<Replay, String> {
        self.alone(path)?;
        let done = recover::recover(&self.ring, &self.owner, &self.cluster, rebooted);
        done.map_err(|e| format!("{}: {e}", path.display()))
    }
    fn destager(&self, path: &Path, rate: Option<u64>) -> Result<Destager<'_>, String> {
        Destager::new(&self.file, &self.ring, &self.cluster, rate).map_err(at(path))
    }
}

fn bring_home(path: &Path, rebooted: bool) -> Result<Replay, String> {
    Opened::new(path)?.bring_home(path, rebooted)
}

/// What a ring holds, in words. Nobody else uses it.
fn holding(ring: &Ring<Mapping>) -> String {
    let mut parts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let found = ring.survey(|e, _| {
        let to = e.offset + u64::from(e.len);
        let part = parts.entry(name(&e.segment)).or_insert((e.offset, to));
        *part = (part.0.min(e.offset), part.1.max(to));
        Ok(())
    });
    match found {
        Err(Error::Damaged(n)) => format!("entries that cannot be told, since entry {n} is damaged"),
        Err(e) => format!("entries that cannot be told ({e:?})"),
        Ok(Replay { entries: 0, .. }) => "nothing".into(),
        Ok(done) => {
            let places: Vec<String> =
                parts.iter().map(|(name, (from, to))| format!("{name} from {from} to {to}")).collect();
            format!("{} writes, {} bytes: {}", done.entries, done.bytes, places.join(", "))
        }
    }
}
fn name(s: &Segment) -> String {
    String::from_utf8_lossy(&s.name()[..24]).into_owned()
}

/// Gives up a ring with what it holds, or a mark whose ring is gone.
fn discard(o: &Options) -> Result<ExitCode, String> {
    const SURE: &str = "with --lose-acknowledged-commits yes this is done";
    if let Some(data) = &o.data {
        let (cluster, ..) = cluster_of(data)?;
        let mark = marked(&cluster).map_err(|n| at(data)(system(n)))?;
        let Marked::By(number) = mark else {
            println!("{}: not marked; there is nothing to do", data.display());
            return Ok(ExitCode::SUCCESS);
        };
        println!(
            "{}: its WAL is in the ring of number {number:08x}. Without it, the newest commits are lost, and what was written to tables after \
             them may make it unusable; in a copy that was made by the rules of a base backup, nothing is lost.",
            data.display()
        );
        if !o.lose {
            println!("{SURE}: the mark is taken away.");
            return Ok(ExitCode::FAILURE);
        }
        if data.join("postmaster.pid").exists() {
            return Err(format!("{}: postmaster.pid is there: a server may run", data.display()));
        }
        unmark(&cluster, None).map_err(|n| at(&data.join("PG_VERSION"))(system(n)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = o.ring.as_deref().ok_or("no ring")?;
    let (file, owner) = header(path)?;
    let data = data_of(&owner);
    if !file::lock(file.as_raw_fd(), Who::Alone).map_err(|n| at(path)(system(n)))? {
        return Err(format!("{}: a process of the server still runs", data.display()));
    }
    let ring = ring_of(path, &file, &owner)?;
    println!("{}: the ring of {} holds {}.", path.display(), data.display(), holding(&ring));
    let cluster = Cluster::of(&owner).ok().flatten();
    let marked = cluster.as_ref().is_some_and(|c| marked(c) == Ok(Marked::By(owner.id)));
    match (&cluster, marked) {
        (None, _) => println!("Its data directory is not there any more."),
        (Some(_), true) => println!(
            "Its data directory is there and waits for it: `recover` brings these writes home. Without them, acknowledged commits are lost, \
             and what was written to tables after them may make it unusable."
        ),
        (Some(_), false) => println!("Its data directory does not wait for it."),
    }
    if !o.lose {
        println!("{SURE}: the mark is taken away, if there is one, and the ring's file removed.");
        return Ok(ExitCode::FAILURE);
    }
    ring.give_up();
    if let Some(c) = cluster.filter(|_| marked) {
        unmark(&c, Some(owner.id)).map_err(|n| at(&data.join("PG_VERSION"))(system(n)))?
    }
    std::fs::remove_file(path).map_err(at(path))?;
    sync_folder_of(path)?;
    Ok(ExitCode::SUCCESS)
}

/// 0: none yet. Below: one that came before there was a server.
static SERVER: AtomicI32 = AtomicI32::new(0);
extern "C" fn hand_on(signal: i32) {
    let server = SERVER.load(Ordering::SeqCst);
    if server > 0 {
        // SAFETY: a system call that signal handlers may make.
        unsafe { libc::kill(server, signal) };
    } else {
        SERVER.store(-signal, Ordering::SeqCst)
    }
}
fn take_signals() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
        // SAFETY: the handler makes one system call.
        unsafe { libc::signal(signal, hand_on as *const () as libc::sighandler_t) };
    }
}

/// Destages until it is told to stop, whenever a server serves.
fn destage(ring: &Path, rate: Option<u64>) -> Result<(), String> {
    let o = Opened::new(ring)?;
    let destager = o.destager(ring, rate)?;
    take_signals();
    let mut waits = false;
    while SERVER.load(Ordering::SeqCst) == 0 {
        let looked = destager.look().map_err(|e| format!("{}: {}", o.data.display(), cannot(e)))?;
        if looked == Looked::Removed {
            return Err(format!("{}: {REMOVED}", ring.display()));
        }
        let live = o.ring.status().live;
        if !std::mem::replace(&mut waits, looked == Looked::NoServer) && waits {
            let left = if live == 0 {
                ""
            } else {
                "; what the ring holds, `recover` brings home, or the server as it starts"
            };
            eprintln!("ondol-pgwal: no server serves {} yet{left}", ring.display());
        }
        destager.rest();
    }
    Ok(())
}
const REMOVED: &str = "the ring's file was removed: from now on commits wait for syncs, as without it; stop the server in order, by which its cluster \
                       is no longer marked";
fn cannot(e: Error) -> String {
    let why = match e {
        Error::Sync(n) | Error::Replay(n) => system(n).to_string(),
        e => format!("{e:?}"),
    };
    format!("a segment cannot be synced ({why}): the server will stop; the ring keeps its WAL for `recover`")
}

/// Recovers, runs the server with the library, syncs segments in the meantime, and recovers again when it has
/// gone.
fn run(o: &Options, ring: &Path) -> Result<ExitCode, String> {
    let program = o.server.first().ok_or("no server is named")?;
    // SAFETY: no memory is passed.
    if unsafe { libc::geteuid() } == 0 && Path::new(program).file_name().is_some_and(|n| n == "postgres") {
        return Err(format!(
            "PostgreSQL does not run for root: as the owner of its data, by `runuser -u postgres -- {} run ...`",
            std::env::current_exe().map_or("ondol-pgwal".into(), |p| p.display().to_string())
        ));
    }
    let replayed = bring_home(ring, false)?;
    if replayed.entries != 0 {
        eprintln!("ondol-pgwal: {} entries, {} bytes replayed", replayed.entries, replayed.bytes);
    }
    let library = match &o.preload {
        Some(l) => l.clone(),
        None => std::env::current_exe().map_err(|e| e.to_string())?.with_file_name("libondol_pgwal.so"),
    };
    let library = library.canonicalize().map_err(at(&library))?;
    let ring = ring.canonicalize().map_err(at(ring))?;
    // The process that made it may have died before its name was durable.
    sync_folder_of(&ring)?;
    let opened = Opened::new(&ring)?;
    // Before the server: its descriptors are older than whatever that writes.
    let destager = opened.destager(&ring, o.rate)?;
    take_signals();
    // Ours before others: what it does not replace, they may.
    let mut preload = library.clone().into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|p| !p.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let mut command = Command::new(program);
    command.args(&o.server[1..]).env("LD_PRELOAD", preload).env("ONDOL_PGWAL_RING", &ring);
    // A group of its own, so that a terminal's signal reaches it once.
    let mut server = command.process_group(0).spawn().map_err(at(Path::new(program)))?;
    let earlier = SERVER.swap(server.id() as i32, Ordering::SeqCst);
    if earlier < 0 {
        // SAFETY: our own child.
        unsafe { libc::kill(server.id() as i32, -earlier) };
    }
    let (mut told, mut removed) = (false, false);
    let ended = loop {
        if let Some(ended) = server.try_wait().map_err(|e| e.to_string())? {
            break ended;
        }
        match destager.look() {
            Err(e) if !std::mem::replace(&mut told, true) => eprintln!("ondol-pgwal: {}", cannot(e)),
            Ok(Looked::Removed) if !std::mem::replace(&mut removed, true) => {
                eprintln!("ondol-pgwal: {}: {REMOVED}", ring.display())
            }
            _ => {}
        }
        destager.rest();
    };
    SERVER.store(0, Ordering::SeqCst);
    if serves(&opened.cluster, opened.ring.memory()) {
        eprintln!(
            "ondol-pgwal: another server has been started on the ring meanwhile; it needs `destage` beside it"
        );
        return Ok(code_of(ended));
    }
    opened.bring_home(&ring, false)?;
    if opened.data.join("postmaster.pid").exists() && ended.success() {
        eprintln!(
            "ondol-pgwal: the server ended, and another one was started without the ring (by `pg_ctl restart`?); to have it on the ring, \
             stop it, and `run`"
        );
    }
    Ok(code_of(ended))
}
fn code_of(ended: ExitStatus) -> ExitCode {
    ended.code().map_or(ExitCode::FAILURE, |c| ExitCode::from(c as u8))
}
