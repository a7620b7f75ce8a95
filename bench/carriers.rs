//! One server, asked over TCP, a Unix socket and memory, by clients that put 1, 10 or 50 queries into a
//! message; beside the library in the client's own process, and PostgreSQL. The table of P*TIME's paper on
//! its client and server.
//!
//! - **C1** Of 1,000 queries 996 read a row by its key and 4 change one, durably; each client has rows of its
//!   own for that. Clients are `ondol_bench::clients`, of as many threads as they are, two at most.
//! - **C2** The server has a processor, or all but one, and the clients one of their own, where there are
//!   several; in the last contest both have the same.
//! - **C3** The library in the process takes the queries of a message as one batch of prepared statements.
use crate::wire::{SELECT, TABLE, UPDATE, rows};
use ondol::{Batch, Database, OpenOptions, Prepared, ValueRef};
use ondol_bench::clients::{self, Other, Place, Plan, Request, Speech};
use ondol_bench::cluster::{self, Cluster};
use ondol_bench::machine::{self, cpu_seconds};
use ondol_bench::options::Common;
use ondol_bench::process::{Process, free_port};
use ondol_bench::random::Random;
use ondol_bench::report::{Report, number};
use ondol_bench::rounds::{Bound, Contest, Sample};
use ondol_bench::{Error, Result};
use rustix::thread::{CpuSet, Pid, sched_setaffinity};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The same queries over TCP, Unix sockets and memory, and in the process
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Folder of PostgreSQL's programs
    #[arg(long, default_value = "/usr/lib/postgresql/15/bin")]
    pgbin: PathBuf,
    /// Only what has this in its name
    #[arg(long, default_value = "")]
    only: String,
}

/// Updates of 1,000 queries.
const UPDATES: u64 = 4;
const CLIENTS: [usize; 2] = [1, 8];
const DEPTHS: [usize; 3] = [1, 10, 50];
const MEMORY: &str = "memory";
const UNIX: &str = "Unix socket";
const TCP: &str = "TCP";
const EMBEDDED: &str = "embedded";
const POSTGRES: &str = "PostgreSQL, Unix socket";

struct Side<'a> {
    name: &'static str,
    place: Place,
    speech: Speech,
    cpu_seconds: Box<dyn Fn() -> f64 + 'a>,
}

impl Side<'_> {
    fn sample(&self, request: &Request, plan: &Plan) -> Result<Sample> {
        let cpu = (self.cpu_seconds)();
        let outcome = clients::run_to(&self.place, self.speech, request, plan)?;
        Ok(outcome.sample((self.cpu_seconds)() - cpu))
    }
}

/// One client of the library for so long: how many queries (C3).
fn client(db: &Database, rows: u64, plan: &Plan, number: u64) -> ondol::Result<u64> {
    let mut s = db.session();
    let (select, update) = (s.prepare(SELECT)?, s.prepare(UPDATE)?);
    let (mut random, mut batch) = (Random::new(number), Batch::new());
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(plan.seconds));
    let own = rows / plan.clients as u64;
    let mut done = 0;
    while began.elapsed() < limit {
        let drawn: Vec<(bool, [ValueRef<'_>; 1])> = (0..plan.depth)
            .map(|_| {
                let writes = random.below(1000) < UPDATES;
                let key = if writes { number * own + random.below(own) } else { random.below(rows) };
                (writes, [ValueRef::Int8(key as i64)])
            })
            .collect();
        let calls: Vec<(&Prepared, &[ValueRef<'_>])> =
            drawn.iter().map(|(w, p)| (if *w { &update } else { &select }, &p[..])).collect();
        s.call_each(&calls, &mut batch)?;
        done += plan.depth as u64
    }
    Ok(done)
}

fn embedded(db: &Database, rows: u64, plan: &Plan) -> Result<Sample> {
    let (cpu, start) = (cpu_seconds(), Instant::now());
    let operations = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..plan.clients as u64).map(|n| scope.spawn(move || client(db, rows, plan, n))).collect();
        let mut all = 0;
        for t in threads {
            all += t.join().map_err(|_| Error::from("a client's thread has panicked"))??
        }
        Ok::<_, Error>(all)
    })?;
    let (seconds, cpu_s) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    Ok(Sample { operations, seconds, cpu_s, checksum: None, extra: vec![] })
}

fn filled(path: PathBuf, n: u64) -> Result<Database> {
    let db = OpenOptions::new().open(path)?;
    let mut s = db.session();
    s.execute(TABLE)?;
    s.execute(&rows(n))?;
    s.execute("CREATE UNIQUE INDEX ON customer USING hash (id)")?;
    db.checkpoint()?;
    Ok(db)
}

fn postgres(args: &Args, n: u64, folder: &std::path::Path, port: u16) -> Result<Cluster> {
    let port = port.to_string();
    let memory = if args.common.tiny { "32MB" } else { "2GB" };
    let settings =
        [("fsync", "on"), ("shared_buffers", memory), ("listen_addresses", "127.0.0.1"), ("port", &port)];
    let cluster = Cluster::start(&args.pgbin, folder, &settings)?;
    let mut c = cluster.connect()?;
    for text in [TABLE, &rows(n), "ALTER TABLE customer ADD PRIMARY KEY (id)", "VACUUM ANALYZE customer"] {
        c.batch_execute(text)?
    }
    c.batch_execute("CHECKPOINT")?;
    Ok(cluster)
}

/// Contests of all sides at these processors.
fn contests(
    args: &Args,
    rows: u64,
    sides: &[Side<'_>],
    db: Option<&Database>,
    (what, clients): (&str, &[usize]),
    report: &mut Report,
) -> Result<()> {
    let other = Some(Other { text: UPDATE.into(), tag: "UPDATE 1", per_mille: UPDATES });
    let request = Request { text: SELECT.into(), tag: "SELECT 1", rows, writes: false, other };
    for clients in clients {
        for depth in DEPTHS {
            let plural = if *clients == 1 { "" } else { "s" };
            let name = format!("{clients} client{plural}, {depth} a message{what}");
            if !name.contains(&args.only) {
                continue;
            }
            let plan = Plan { clients: *clients, depth, seconds: args.common.seconds(2.0) };
            let mut contest = Contest::new(name, "queries");
            if let Some(db) = db {
                contest.side(EMBEDDED, move |_| embedded(db, rows, &plan))
            }
            for side in sides {
                let request = request.clone();
                contest.side(side.name, move |_| side.sample(&request, &plan))
            }
            match (db.is_some(), depth) {
                (true, 1) => {
                    contest.aim("memory against TCP", MEMORY, Some(TCP), Bound::RateAtLeast(8.0));
                }
                (true, 50) => {
                    contest.aim("memory against embedded", MEMORY, Some(EMBEDDED), Bound::RateAtLeast(0.4));
                }
                (false, _) => {
                    contest.aim("memory against the socket", MEMORY, Some(UNIX), Bound::RateAtLeast(1.0));
                }
                _ => {}
            }
            contest.run(args.common.rounds(), report)?;
        }
    }
    Ok(())
}

pub fn run(args: Args) -> Result<()> {
    let mut report = Report::new("carriers", "The same queries by different ways", Some(&args.common));
    let n = args.common.rows(1_000_000, 1000);
    let folder = args.common.folder()?;
    let ours = folder.path().join("ondol");
    filled(ours.clone(), n)?.close()?;
    let db = filled(folder.path().join("embedded"), n)?;
    let told = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("index", "hash"),
        ("durability:", "durable by default: each update is synced before it is answered"),
    ];
    report.settings("Ondol", told);
    let (port, pg_port) = (free_port()?, free_port()?);
    let version = cluster::version(&args.pgbin);
    let cluster = match &version {
        None => {
            report.say("PostgreSQL was not there to be compared.");
            None
        }
        Some(version) => {
            let told = [("version", version.as_str()), ("index", "B-tree"), ("fsync", "on")];
            report.settings("PostgreSQL", told);
            Some(postgres(&args, n, folder.path(), pg_port)?)
        }
    };
    report.say(format!(
        "{} rows; of 1,000 queries {UPDATES} are durable updates, the others look a row up by its key.",
        number(n as f64)
    ));
    let (whole, servers, clients) = machine::shares()?;
    let place = |set: &CpuSet| sched_setaffinity(None, set);
    // What is started by this thread has its processors.
    place(&servers)?;
    let server = Process::serve(&ours, port)?;
    if let Some(pid) = cluster.as_ref().and_then(|c| Pid::from_raw(c.pid() as i32)) {
        sched_setaffinity(Some(pid), &servers)?
    }
    let socket = || Place::Socket(server.socket.clone());
    let side =
        |name, place, speech| Side { name, place, speech, cpu_seconds: Box::new(|| server.cpu_seconds()) };
    let mut sides = vec![
        side(MEMORY, socket(), Speech::Memory),
        side(UNIX, socket(), Speech::Postgres),
        side(TCP, Place::Port(port), Speech::Postgres),
    ];
    let near: Vec<Side<'_>> =
        vec![side(MEMORY, socket(), Speech::Memory), side(UNIX, socket(), Speech::Postgres)];
    if let Some(c) = &cluster {
        let its = |name, place| Side {
            name,
            place,
            speech: Speech::Postgres,
            cpu_seconds: Box::new(|| c.cpu_seconds()),
        };
        sides.push(its(POSTGRES, Place::Socket(c.socket())));
        sides.push(its("PostgreSQL, TCP", Place::Port(pg_port)))
    }
    place(&clients)?;
    contests(&args, n, &sides, Some(&db), ("", &CLIENTS), &mut report)?;
    place(&servers)?;
    contests(&args, n, &near, None, (", all on the server's processors", &[1]), &mut report)?;
    place(&whole)?;
    report.children(server.cpu_seconds() + cluster.as_ref().map_or(0.0, Cluster::cpu_seconds));
    db.close()?;
    report.finish()
}
