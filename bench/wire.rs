//! The server beside PostgreSQL and beside what the system's sockets allow: prepared statements of clients
//! that each wait for their answers.
//!
//! - **V1** Each side is a process of its own, asked over a Unix socket by the same clients
//!   (`ondol_bench::clients`), and has the same rows. CPU time is the server's alone.
//! - **V2** The bare loop reads each message's head, and answers by constants as long as Ondol's answers: so
//!   it is the limit of this way to talk. Its workers are as many as Ondol's.
//! - **V3** Updates are durable on both sides when they are answered; each client changes rows of its own.
//!   Redis has values as long as a row, of which all is set anew.
//! - **V4** Idle connections have each run a statement, and are counted when their sessions have given up
//!   their memory. Memory is what the server's process has gained.
//! - **V5** Beside a scan, a COPY and checkpoints, each repeated without a pause, clients ask at a rate that
//!   is given, a fifth of what they reach alone; what they wait is counted from when they were to ask. They
//!   have a processor of their own, as those of another machine have: else they would wait for the system's
//!   turns, some milliseconds each. The bare loop has beside it a thread that does with files what a
//!   checkpoint with nothing to write does, and nothing else: what that costs is the system's doing.
//! - **V6** pgbench runs its own transaction on Ondol and PostgreSQL (`bank`).
mod bank;

use ondol::server::{ServeOptions, Server};
use ondol::{Database, OpenOptions};
use ondol_base::event::Event;
use ondol_base::net::{Interest, Poll, allow_descriptors};
use ondol_bench::clients::{self, Client, Plan, Request, Speech};
use ondol_bench::cluster::{self, Cluster};
use ondol_bench::machine::{resident_bytes_of, shares};
use ondol_bench::options::Common;
use ondol_bench::process::{Process, SOCKET};
use ondol_bench::report::{Report, number};
use ondol_bench::rounds::{Bound, Contest, Quartiles, Sample, verdict};
use ondol_bench::{Error, Result};
use rustix::thread::{Pid, sched_setaffinity};
use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Prepared statements over sockets
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Folder of PostgreSQL's programs
    #[arg(long, default_value = "/usr/lib/postgresql/15/bin")]
    pgbin: PathBuf,
    /// Redis's program
    #[arg(long, default_value = "redis-server")]
    redis: PathBuf,
    /// Only what has this in its name
    #[arg(long, default_value = "")]
    only: String,
    /// Idle connections beside busy ones
    #[arg(long)]
    idle: Option<usize>,
    /// A server's process: this folder's database
    #[arg(long, hide = true)]
    serve: Option<PathBuf>,
    /// Where that process listens besides
    #[arg(long, hide = true)]
    port: Option<u16>,
    /// The bare loop's process: this socket
    #[arg(long, hide = true)]
    bare: Option<PathBuf>,
}

/// For connections of both ends.
const DESCRIPTORS: u64 = 25_000;
const NEIGHBOURS: &str = "Selects beside what takes long";
const IDLE: &str = "Idle connections";
pub const TABLE: &str = "CREATE TABLE customer (id bigint NOT NULL, n integer NOT NULL, name text NOT NULL)";
pub const SELECT: &str = "SELECT * FROM customer WHERE id = $1";
pub const UPDATE: &str = "UPDATE customer SET n = n + 1 WHERE id = $1";

pub fn rows(rows: u64) -> String {
    format!(
        "INSERT INTO customer SELECT g, 0, 'customer ' || lpad(g::text, 40, '0') FROM generate_series(0, {}) AS g",
        rows - 1
    )
}

/// How Redis is as durable as the others.
const REDIS: [&str; 6] = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""];

fn redis(program: &Path, folder: &Path, rows: u64) -> Result<Process> {
    const MANY: u64 = 10_000;
    let (place, socket) = (folder.join("redis"), folder.join("redis-socket"));
    std::fs::create_dir(&place)?;
    let mut command = Command::new(program);
    command.args(["--port", "0", "--unixsocket"]).arg(&socket).arg("--dir").arg(&place).args(REDIS);
    let process = Process::run(command, socket, false)?;
    let mut c = Client::connect(&process.socket, Speech::Redis, 0)?;
    for from in (0..rows).step_by(MANY as usize) {
        c.fill(from, MANY.min(rows - from))?
    }
    Ok(process)
}

fn until_input_ends() {
    let _ = std::io::stdin().read(&mut [0]);
}

/// The process that has Ondol's server.
fn serve(folder: &Path, port: Option<u16>) -> Result<()> {
    allow_descriptors(DESCRIPTORS)?;
    let db: Database = OpenOptions::new().open(folder)?;
    let options = ServeOptions {
        listen: port.map(|p| format!("127.0.0.1:{p}")).into_iter().collect(),
        trust_loopback: true,
        sockets: vec![folder.join(SOCKET)],
        connections: 20_000,
        owner: Some(ondol::server::owner_of(folder)?),
        ..ServeOptions::default()
    };
    let server = Server::start(&db, &options)?;
    until_input_ends();
    server.stop()?;
    Ok(db.close()?)
}

/// What a request is answered by: BindComplete, a row of this table in binary, CommandComplete.
fn constant() -> Vec<u8> {
    let mut out = b"2\0\0\0\x04".to_vec();
    let values: [&[u8]; 3] = [&[0; 8], &[0; 4], &[b'x'; 49]];
    let mut body = vec![0, 3];
    for v in values {
        body.extend((v.len() as u32).to_be_bytes());
        body.extend(v)
    }
    for (kind, body) in [(b'D', &body[..]), (b'C', b"SELECT 1\0")] {
        out.push(kind);
        out.extend((body.len() as u32 + 4).to_be_bytes());
        out.extend(body)
    }
    out
}

#[derive(Default)]
struct Guest {
    input: Vec<u8>,
    output: Vec<u8>,
    has_begun: bool,
}

impl Guest {
    /// V2
    fn answer(&mut self, constant: &[u8]) {
        let mut at = 0;
        while let Some(head) = self.input.get(at..at + 5) {
            let (from, kind) = if self.has_begun { (1, head[0]) } else { (0, 0) };
            let length = [head[from], head[from + 1], head[from + 2], head[from + 3]];
            let size = from + u32::from_be_bytes(length) as usize;
            if self.input.len() < at + size {
                break;
            }
            at += size;
            match kind {
                0 => {
                    self.has_begun = true;
                    self.output.extend_from_slice(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")
                }
                b'P' => self.output.extend_from_slice(b"1\0\0\0\x04"),
                b'E' => self.output.extend_from_slice(constant),
                b'S' => self.output.extend_from_slice(b"Z\0\0\0\x05I"),
                _ => {}
            }
        }
        self.input.drain(..at);
    }
}

fn bare_worker(new: &Mutex<Vec<UnixStream>>, event: &Event) -> Result<()> {
    const NEW: u64 = u64::MAX;
    let (poll, constant) = (Poll::new()?, constant());
    poll.add(event, NEW, Interest::READ)?;
    let (mut guests, mut last) = (HashMap::<u64, (UnixStream, Guest)>::new(), 0);
    let (mut ready, mut room) = (vec![], vec![0; 32 << 10]);
    loop {
        poll.wait(&mut ready, None)?;
        for r in &ready {
            if r.key == NEW {
                event.clear();
                for stream in new.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
                    stream.set_nonblocking(true)?;
                    last += 1;
                    poll.add(&stream, last, Interest::READ)?;
                    guests.insert(last, (stream, Guest::default()));
                }
                continue;
            }
            let Some((stream, guest)) = guests.get_mut(&r.key) else { continue };
            let is_over = match stream.read(&mut room) {
                Ok(0) => true,
                Ok(n) => {
                    guest.input.extend_from_slice(&room[..n]);
                    guest.answer(&constant);
                    let sent = stream.write_all(&guest.output);
                    guest.output.clear();
                    sent.is_err()
                }
                Err(e) => e.kind() != ErrorKind::WouldBlock,
            };
            if is_over {
                guests.remove(&r.key);
            }
        }
    }
}

/// The process that has the bare loop.
fn bare(socket: &Path) -> Result<()> {
    let listener = UnixListener::bind(socket)?;
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get());
    let doors: Vec<_> = (0..workers)
        .map(|_| Ok(Arc::new((Mutex::new(vec![]), Event::new()?))))
        .collect::<Result<Vec<Arc<(Mutex<Vec<UnixStream>>, Event)>>>>()?;
    for door in &doors {
        let door = door.clone();
        std::thread::spawn(move || {
            if let Err(e) = bare_worker(&door.0, &door.1) {
                eprintln!("the bare loop: {e}");
                std::process::exit(1)
            }
        });
    }
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            if let Ok(stream) = stream {
                let door = &doors[n % doors.len()];
                door.0.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
                door.1.set()
            }
        }
    });
    until_input_ends();
    Ok(())
}

/// A server that is asked.
struct Side<'a> {
    name: &'static str,
    socket: PathBuf,
    speech: Speech,
    cpu_seconds: Box<dyn Fn() -> f64 + 'a>,
}

impl Side<'_> {
    fn sample(&self, request: &Request, plan: &Plan) -> Result<Sample> {
        let cpu = (self.cpu_seconds)();
        let outcome = clients::run(&self.socket, self.speech, request, plan)?;
        Ok(outcome.sample((self.cpu_seconds)() - cpu))
    }
}

/// (name of the contest, statement's tag, clients, depth, aim over the bare loop, aim over PostgreSQL)
type Case = (&'static str, bool, usize, usize, Option<f64>, Option<f64>);

const CASES: [Case; 9] = [
    ("Selects, 1 client", true, 1, 1, None, None),
    ("Selects, 8 clients", true, 8, 1, Some(0.9), Some(2.5)),
    ("Selects, 32 clients", true, 32, 1, Some(0.85), None),
    ("Selects, 200 clients", true, 200, 1, Some(0.85), Some(5.0)),
    ("Selects, 8 clients, pipelines of 10", true, 8, 10, None, None),
    ("Selects, 8 clients, pipelines of 50", true, 8, 50, Some(0.75), Some(8.0)),
    ("Durable updates, 1 client", false, 1, 1, None, None),
    ("Durable updates, 8 clients", false, 8, 1, None, Some(2.0)),
    ("Durable updates, 32 clients", false, 32, 1, None, Some(4.5)),
];

fn contests(args: &Args, rows: u64, sides: &[Side<'_>], report: &mut Report) -> Result<()> {
    let seconds = args.common.seconds(2.0);
    for (name, reads, clients, depth, over_bare, over_postgres) in CASES {
        if !name.contains(&args.only) {
            continue;
        }
        let (text, tag) = if reads { (SELECT, "SELECT 1") } else { (UPDATE, "UPDATE 1") };
        let request = Request { text: text.into(), tag, rows, writes: !reads, other: None };
        let plan = Plan { clients, depth, seconds };
        let mut contest = Contest::new(name, if reads { "selects" } else { "updates" });
        for side in sides.iter().filter(|s| reads || s.name != "bare loop") {
            let (request, plan) = (request.clone(), plan);
            contest.side(side.name, move |_| side.sample(&request, &plan))
        }
        let mut aim = |over: &'static str, wanted: Option<f64>| {
            if let Some(x) = wanted.filter(|_| sides.iter().any(|s| s.name == over)) {
                contest.aim(format!("against {over}"), "Ondol", Some(over), Bound::RateAtLeast(x))
            }
        };
        aim("bare loop", over_bare);
        aim("PostgreSQL", over_postgres);
        contest.run(args.common.rounds(), report)?;
    }
    Ok(())
}

/// V4
fn idle(args: &Args, rows: u64, folder: &Path, report: &mut Report) -> Result<()> {
    /// Longer than a session keeps its memory.
    const COOLED: Duration = Duration::from_secs(4);
    let wanted = args.idle.unwrap_or(if args.common.tiny { 100 } else { 10_000 });
    let process = Process::start("--serve", folder, folder.join(SOCKET))?;
    let request = Request { text: SELECT.into(), tag: "SELECT 1", rows, writes: false, other: None };
    let seconds = args.common.seconds(2.0);
    let plan = Plan { clients: 8, depth: 1, seconds };
    // What the first ones make stays.
    clients::run(&process.socket, Speech::Postgres, &request, &Plan { seconds: seconds.min(0.5), ..plan })?;
    let (mut alone, mut beside, mut kib) = (vec![], vec![], vec![]);
    for round in 0..args.common.rounds() {
        std::thread::sleep(COOLED);
        let before = resident_bytes_of(process.id());
        alone.push(clients::run(&process.socket, Speech::Postgres, &request, &plan)?);
        let mut all = vec![];
        for n in 0..wanted {
            let mut c = Client::connect(&process.socket, Speech::Postgres, n as u64)?;
            c.execute("SELECT * FROM customer WHERE id = 1")?;
            c.prepare(&request)?;
            all.push(c)
        }
        std::thread::sleep(COOLED);
        let gained = resident_bytes_of(process.id()).saturating_sub(before);
        kib.push(gained as f64 / 1024.0 / wanted as f64);
        report.figure("Idle connections", "Ondol", round, "KiB each", kib[round]);
        beside.push(clients::run(&process.socket, Speech::Postgres, &request, &plan)?);
        for (what, outcome) in [("alone", &alone[round]), ("beside", &beside[round])] {
            report.figure("Idle connections", what, round, "rate", outcome.answers as f64 / outcome.seconds)
        }
    }
    let rate = |o: &clients::Outcome| o.answers as f64 / o.seconds;
    let kept = Quartiles::of(alone.iter().zip(&beside).map(|(a, b)| rate(b) / rate(a)));
    let kib = Quartiles::of(kib);
    report.section(&format!("{} idle connections", number(wanted as f64)));
    let line =
        |what: &str, wanted: String, q: Quartiles, v: &str| vec![what.into(), wanted, q.text(), v.into()];
    report.table(
        &["aim", "wanted", "found (quartiles)", "verdict"],
        &[
            line("KiB of each", "at most 16".into(), kib, verdict(kib, 16.0, false)),
            line("8 clients' rate, of that alone", "at least 0.95".into(), kept, verdict(kept, 0.95, true)),
        ],
    );
    Ok(())
}

/// What is told of waits: shares of them that were no longer.
const WAITS: [(f64, &str); 3] = [(0.5, "p50_us"), (0.95, "p95_us"), (0.99, "p99_us")];

/// V5
fn neighbours(
    args: &Args,
    rows: u64,
    folder: &Path,
    postgres: Option<&Cluster>,
    report: &mut Report,
) -> Result<()> {
    let (whole, servers, clients) = shares()?;
    // What is started by this thread has its processors.
    sched_setaffinity(None, &servers)?;
    let process = Process::start("--serve", folder, folder.join(SOCKET))?;
    let (files, loop_socket) = (folder.with_extension("files"), folder.with_extension("bare"));
    let bare = Process::start("--bare", &loop_socket, loop_socket.clone())?;
    sched_setaffinity(None, &clients)?;
    let mut sides = vec![("Ondol", process.socket.clone(), &BESIDE[..])];
    if let Some(cluster) = postgres {
        let pid = i32::try_from(cluster.pid()).ok().and_then(Pid::from_raw);
        sched_setaffinity(pid, &servers)?;
        sides.push(("PostgreSQL", cluster.socket(), &BESIDE[..]))
    }
    sides.push((
        "bare loop",
        bare.socket.clone(),
        &[("nothing", Beside::Nothing), ("a checkpoint's files", Beside::Files)],
    ));
    report.section(NEIGHBOURS);
    report.say(format!(
        "8 clients ask at a fifth of the rate that they reach; waits from when each was to be asked. Beside \
         them {} sessions that do the other again and again. The server has {} processors, the clients have \
         {} of their own.",
        servers.count(),
        servers.count(),
        if clients == servers { 0 } else { clients.count() }
    ));
    let request = Request { text: SELECT.into(), tag: "SELECT 1", rows, writes: false, other: None };
    let plan = Plan { clients: 8, depth: 1, seconds: args.common.seconds(5.0) };
    let mut rates = vec![];
    for (_, socket, _) in &sides {
        let reached = clients::run(socket, Speech::Postgres, &request, &plan)?;
        rates.push(reached.answers as f64 / reached.seconds / 5.0)
    }
    let mut found: Vec<Vec<Vec<[f64; WAITS.len()]>>> =
        sides.iter().map(|(.., cases)| vec![vec![]; cases.len()]).collect();
    for round in 0..args.common.rounds() {
        for ((side, socket, cases), (found, rate)) in sides.iter().zip(found.iter_mut().zip(&rates)) {
            for ((name, beside), found) in cases.iter().copied().zip(found) {
                let over = Arc::new(AtomicBool::new(false));
                let threads = if matches!(beside, Beside::Nothing) { 0 } else { servers.count() };
                let busy: Vec<_> = (0..threads)
                    .map(|n| {
                        let (over, socket, files) = (over.clone(), socket.clone(), files.clone());
                        std::thread::spawn(move || match beside {
                            Beside::Nothing => Ok(0),
                            Beside::Statement(texts) => again_and_again(&socket, n.into(), texts, &over),
                            Beside::Files => {
                                sched_setaffinity(None, &servers).map_err(|e| e.to_string())?;
                                files_again_and_again(&files, &over).map_err(|e| e.to_string())
                            }
                        })
                    })
                    .collect();
                let waits = clients::run_at(socket, &request, &plan, *rate)?;
                over.store(true, Ordering::Relaxed);
                let mut done = 0;
                for b in busy {
                    done += b.join().map_err(|_| Error::from("a thread has panicked"))??
                }
                let what = format!("{side}, beside {name}");
                let share = WAITS.map(|(share, _)| waits.percentile_us(share));
                for ((_, name), us) in WAITS.iter().zip(share) {
                    report.figure("Neighbours", &what, round, name, us)
                }
                found.push(share);
                report.figure("Neighbours", &what, round, "done", done as f64)
            }
        }
    }
    let mut lines = vec![];
    for ((side, _, cases), (found, rate)) in sides.iter().zip(found.iter().zip(&rates)) {
        for (at, (name, _)) in cases.iter().enumerate() {
            let mut line = vec![format!("{side}, beside {name}"), number(*rate)];
            for n in 0..WAITS.len() {
                let times = Quartiles::of(found[at].iter().zip(&found[0]).map(|(a, b)| a[n] / b[n]));
                line.push(Quartiles::of(found[at].iter().map(|f| f[n])).text());
                line.push(times.text());
                if n == WAITS.len() - 1 {
                    let counts = at > 0 && *side == "Ondol";
                    line.push(if counts { verdict(times, 3.0, false).to_string() } else { String::new() })
                }
            }
            lines.push(line)
        }
    }
    let heads = [
        "selects",
        "a second",
        "median µs (quartiles)",
        "times that alone",
        "p95 µs",
        "times that alone",
        "p99 µs",
        "times that alone",
        "at most 3",
    ];
    report.table(&heads, &lines);
    Ok(sched_setaffinity(None, &whole)?)
}

/// What goes on beside the selects.
#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    /// A first text once, then another again and again.
    Statement([&'static str; 2]),
    /// What a checkpoint with nothing to write does with files.
    Files,
}

const ALONE: &str = "SET max_parallel_workers_per_gather = 0";
const SCAN: &str = "SELECT count(*) FROM customer WHERE n < 0";
const BESIDE: [(&str, Beside); 5] = [
    ("nothing", Beside::Nothing),
    ("a scan by one", Beside::Statement([ALONE, SCAN])),
    ("a scan by several", Beside::Statement(["SET max_parallel_workers_per_gather = 2", SCAN])),
    ("a COPY", Beside::Statement([ALONE, "COPY (SELECT * FROM customer WHERE n >= 0) TO '/dev/null'"])),
    ("a checkpoint", Beside::Statement([ALONE, "CHECKPOINT"])),
];

/// Until it is over: makes a file, syncs it and its folder, writes and syncs two others, and removes it; how
/// often. With the priority that checkpoints have.
fn files_again_and_again(folder: &Path, over: &AtomicBool) -> std::io::Result<u64> {
    ondol_base::thread::stand_back();
    std::fs::create_dir_all(folder)?;
    let block = [1u8; 4096];
    let mut done = 0;
    while !over.load(Ordering::Relaxed) {
        for name in ["images", "first", "second"] {
            let images = name == "images";
            let mut file =
                File::options().write(true).create(true).truncate(images).open(folder.join(name))?;
            file.write_all(&block)?;
            file.sync_data()?;
            if images {
                File::open(folder)?.sync_all()?
            }
        }
        std::fs::remove_file(folder.join("images"))?;
        done += 1
    }
    Ok(done)
}

/// Executes a first text, then another until it is over; how often.
fn again_and_again(
    socket: &Path,
    number: u64,
    [first, text]: [&str; 2],
    over: &AtomicBool,
) -> std::result::Result<u64, String> {
    let mut c = Client::connect(socket, Speech::Postgres, number).map_err(|e| e.to_string())?;
    c.execute(first).map_err(|e| e.to_string())?;
    let mut done = 0;
    while !over.load(Ordering::Relaxed) {
        c.execute(text).map_err(|e| e.to_string())?;
        done += 1
    }
    Ok(done)
}

pub fn run(args: Args) -> Result<()> {
    if let Some(folder) = &args.serve {
        return serve(folder, args.port);
    }
    if let Some(socket) = &args.bare {
        return bare(socket);
    }
    allow_descriptors(DESCRIPTORS)?;
    let mut report = Report::new("wire", "Prepared statements over sockets", Some(&args.common));
    let n = args.common.rows(1_000_000, 1000);
    let folder = args.common.folder()?;
    let ours = folder.path().join("ondol");
    {
        let db = OpenOptions::new().open(&ours)?;
        let mut s = db.session();
        s.execute(TABLE)?;
        s.execute(&rows(n))?;
        s.execute("CREATE UNIQUE INDEX ON customer USING hash (id)")?;
        db.checkpoint()?;
        drop(s);
        db.close()?
    }
    report.settings(
        "Ondol",
        [
            ("version", env!("CARGO_PKG_VERSION")),
            ("over a Unix socket,", "a thread for each core"),
            ("index", "hash"),
            ("durability:", "durable by default: each commit is synced before it is answered"),
        ],
    );
    report.settings(
        "bare loop",
        [
            ("epoll,", "a thread for each core"),
            ("answers", "constants as long as Ondol's"),
            ("durability:", "none"),
        ],
    );
    let version = cluster::version(&args.pgbin);
    let settings = [
        ("fsync", "on"),
        ("synchronous_commit", "on"),
        ("shared_buffers", "2GB"),
        ("max_connections", "300"),
    ];
    let postgres = match &version {
        None => {
            report.say("PostgreSQL was not there to be compared.");
            None
        }
        Some(version) => {
            let small = [
                ("fsync", "on"),
                ("synchronous_commit", "on"),
                ("shared_buffers", "32MB"),
                ("max_connections", "300"),
            ];
            let settings = if args.common.tiny { small } else { settings };
            let cluster = Cluster::start(&args.pgbin, folder.path(), &settings)?;
            let mut c = cluster.connect()?;
            c.batch_execute(TABLE)?;
            c.batch_execute(&rows(n))?;
            c.batch_execute("ALTER TABLE customer ADD PRIMARY KEY (id)")?;
            c.batch_execute("VACUUM ANALYZE customer")?;
            c.batch_execute("CHECKPOINT")?;
            let told = settings.map(|(k, v)| (k.to_string(), v.to_string()));
            let version = [("version".to_string(), version.clone()), ("index".into(), "B-tree".into())];
            report.settings("PostgreSQL", version.into_iter().chain(told));
            Some(cluster)
        }
    };
    report.say(format!("{} rows; clients on the same machine, of two threads.", number(n as f64)));
    let redis = match Command::new(&args.redis).arg("--version").output() {
        Err(_) => {
            report.say("Redis was not there to be compared.");
            None
        }
        Ok(out) => {
            let version = String::from_utf8_lossy(&out.stdout).trim().to_string();
            let settings =
                REDIS.chunks(2).map(|s| (s[0].trim_start_matches("--").to_string(), s[1].to_string()));
            report.settings("Redis", [("version".to_string(), version)].into_iter().chain(settings));
            Some(redis(&args.redis, folder.path(), n)?)
        }
    };
    {
        let server = Process::start("--serve", &ours, ours.join(SOCKET))?;
        let loop_socket = folder.path().join("bare");
        let bare = Process::start("--bare", &loop_socket, loop_socket.clone())?;
        let mut sides = vec![Side {
            name: "Ondol",
            socket: server.socket.clone(),
            speech: Speech::Postgres,
            cpu_seconds: Box::new(|| server.cpu_seconds()),
        }];
        if let Some(cluster) = &postgres {
            let (socket, cpu_seconds) = (cluster.socket(), Box::new(|| cluster.cpu_seconds()));
            sides.push(Side { name: "PostgreSQL", socket, speech: Speech::Postgres, cpu_seconds })
        }
        if let Some(redis) = &redis {
            let (socket, cpu_seconds) = (redis.socket.clone(), Box::new(|| redis.cpu_seconds()));
            sides.push(Side { name: "Redis", socket, speech: Speech::Redis, cpu_seconds })
        }
        sides.push(Side {
            name: "bare loop",
            socket: bare.socket.clone(),
            speech: Speech::Postgres,
            cpu_seconds: Box::new(|| bare.cpu_seconds()),
        });
        contests(&args, n, &sides, &mut report)?;
        if bank::NAME.contains(&args.only) {
            bank::contests(&args, &sides, &mut report)?;
        }
        let took =
            server.cpu_seconds() + bare.cpu_seconds() + postgres.as_ref().map_or(0.0, Cluster::cpu_seconds);
        report.children(took)
    }
    drop(redis);
    if NEIGHBOURS.contains(&args.only) {
        neighbours(&args, n, &ours, postgres.as_ref(), &mut report)?;
    }
    drop(postgres);
    if IDLE.contains(&args.only) {
        idle(&args, n, &ours, &mut report)?;
    }
    report.finish()
}
