//! `SELECT *` of TPC-H's lineitem through a server, in text and in binary.
//!
//! - **R1** Both servers have the same rows in memory or in their buffers, and read them once before the
//!   rounds.
//! - **R2** By libpq a client of C takes one row at a time, and looks at each value's length: the sums must
//!   agree in text. The client that discards counts the messages in a first run; then it has the system throw
//!   away as many bytes as came in that (`MSG_TRUNC` of TCP), so that it is not the limit.
//! - **R3** CPU seconds are the server's. Its memory is what its processes have of their own
//!   (`RssAnon`), looked at every five milliseconds, less what they had before.
use ondol::OpenOptions;
use ondol_bench::Result;
use ondol_bench::cluster::{self, Cluster};
use ondol_bench::lineitem::{self, TABLE};
use ondol_bench::machine::{self, Memory};
use ondol_bench::options::Common;
use ondol_bench::process::{Process, free_port};
use ondol_bench::report::{Report, number};
use ondol_bench::rounds::{Bound, Contest, Sample};
use rustix::net::{RecvFlags, recv};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// SELECT * of lineitem through a server, text and binary
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// TPC-H's lineitem, fields that end in |; without it, rows of its shape are made. Of it --rows are the
    /// first that many
    #[arg(long, value_name = "FILE")]
    tbl: Option<PathBuf>,
    /// Folder of PostgreSQL's programs
    #[arg(long, default_value = "/usr/lib/postgresql/15/bin")]
    pgbin: PathBuf,
    /// Only what has this in its name
    #[arg(long, default_value = "")]
    only: String,
}

const QUERY: &str = "SELECT * FROM lineitem";
const ONE: &str = "Ondol, 1 worker";
const TWO: &str = "Ondol, 2 workers";
const NONE: &str = "Ondol, no worker";
const POSTGRES: &str = "PostgreSQL";
/// The program that reads by libpq.
const LIBPQ: &str = include_str!("rows.c");

/// A server, and how it is asked.
struct Side<'a> {
    name: &'static str,
    port: u16,
    /// Options of its sessions, as in `PGOPTIONS`.
    options: &'static str,
    process: u32,
    cpu_seconds: Box<dyn Fn() -> f64 + 'a>,
    /// Bytes that a result has, once they are known: in text, and in binary.
    bytes: [Cell<usize>; 2],
}

impl Side<'_> {
    /// Has `read` read all rows, and gives the most memory that the server took for it as well.
    fn sample(&self, read: impl FnOnce() -> Result<(u64, Option<u64>)>) -> Result<Sample> {
        let cpu = (self.cpu_seconds)();
        let memory = Memory::watch(self.process);
        let began = Instant::now();
        let (operations, checksum) = read()?;
        let seconds = began.elapsed().as_secs_f64();
        let most = memory.most();
        let cpu_s = (self.cpu_seconds)() - cpu;
        let extra = vec![("memory".to_string(), most as f64)];
        Ok(Sample { operations, seconds, cpu_s, checksum, extra })
    }
    fn connect(&self) -> Result<TcpStream> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_nodelay(true)?;
        let mut body = b"\0\x03\0\0user\0postgres\0database\0postgres\0options\0".to_vec();
        body.extend_from_slice(self.options.as_bytes());
        body.extend_from_slice(b"\0\0");
        stream.write_all(&[&(body.len() as u32 + 4).to_be_bytes(), &body[..]].concat())?;
        Messages::of(&stream).until_ready()?;
        Ok(stream)
    }
    /// R2: discards all rows. The first time they are counted.
    fn discard(&self, rows: u64, binary: bool) -> Result<(u64, Option<u64>)> {
        let mut stream = self.connect()?;
        stream.write_all(&asked(binary))?;
        let known = &self.bytes[usize::from(binary)];
        if known.get() == 0 {
            let mut messages = Messages::of(&stream);
            messages.until_ready()?;
            known.set(messages.bytes);
            return match messages.rows == rows {
                true => Ok((rows, None)),
                false => Err(format!("{} rows came, not {rows}", messages.rows).into()),
            };
        }
        let (mut room, mut left) = (vec![0; 1 << 20], known.get());
        while left > 0 {
            let most = left.min(room.len());
            match recv(&stream, &mut room[..most], RecvFlags::TRUNC)?.1 {
                0 => return Err("the server has closed the connection".into()),
                n => left -= n,
            }
        }
        Ok((rows, None))
    }
    fn by_libpq(&self, program: &Path, binary: bool) -> Result<(u64, Option<u64>)> {
        let place = format!(
            "host=127.0.0.1 port={} user=postgres dbname=postgres options='{}' sslmode=disable gssencmode=disable",
            self.port, self.options
        );
        let out = Command::new(program).arg(&place).args([QUERY, if binary { "1" } else { "0" }]).output()?;
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        let mut numbers = said.split_whitespace().map(str::parse);
        match (out.status.success(), numbers.next(), numbers.next()) {
            (true, Some(Ok(rows)), Some(Ok(bytes))) => Ok((rows, Some(bytes))),
            _ => Err(format!("by libpq: {}", String::from_utf8_lossy(&out.stderr).trim()).into()),
        }
    }
}

/// The messages that ask for all rows.
fn asked(binary: bool) -> Vec<u8> {
    let mut out = vec![];
    let mut put = |kind: u8, body: &[u8]| {
        out.push(kind);
        out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        out.extend_from_slice(body)
    };
    put(b'P', format!("\0{QUERY}\0\0\0").as_bytes());
    put(b'B', &[0, 0, 0, 0, 0, 0, 0, 1, 0, binary.into()]);
    put(b'E', &[0; 5]);
    put(b'S', b"");
    out
}

/// What a server says.
struct Messages<'a> {
    from: &'a TcpStream,
    rows: u64,
    bytes: usize,
}

impl<'a> Messages<'a> {
    fn of(from: &'a TcpStream) -> Messages<'a> {
        Messages { from, rows: 0, bytes: 0 }
    }
    fn until_ready(&mut self) -> Result<()> {
        let (mut have, mut room) = (Vec::new(), vec![0; 256 << 10]);
        loop {
            let mut at = 0;
            while let Some(head) = have.get(at..).and_then(|rest: &[u8]| rest.first_chunk::<5>()) {
                let end = at + 1 + u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
                if end > have.len() {
                    break;
                }
                match head[0] {
                    b'D' => self.rows += 1,
                    b'Z' => return Ok(()),
                    b'E' => return Err(String::from_utf8_lossy(&have[at + 5..end]).into_owned().into()),
                    _ => {}
                }
                at = end
            }
            have.drain(..at);
            let n = self.from.read(&mut room)?;
            if n == 0 {
                return Err("the server has closed the connection".into());
            }
            self.bytes += n;
            have.extend_from_slice(&room[..n])
        }
    }
}

/// The program that reads by libpq; what it lacks, if it cannot be made.
fn libpq(folder: &Path) -> std::result::Result<PathBuf, String> {
    let (source, program) = (folder.join("rows.c"), folder.join("rows"));
    std::fs::write(&source, LIBPQ).map_err(|e| e.to_string())?;
    let out = Command::new("cc")
        .args(["-O2", "-I/usr/include/postgresql", "-o"])
        .arg(&program)
        .arg(&source)
        .arg("-lpq")
        .output()
        .map_err(|e| format!("there is no cc: {e}"))?;
    match out.status.success() {
        true => Ok(program),
        false => Err("there is no libpq to build with (Debian: libpq-dev)".into()),
    }
}

/// The most memory of each side, over all rounds.
fn memory(samples: &[(&str, Vec<Sample>)], report: &mut Report) {
    let lines: Vec<Vec<String>> = samples
        .iter()
        .map(|(name, samples)| {
            let most = samples.iter().flat_map(|s| &s.extra).map(|(_, v)| *v).fold(0.0, f64::max);
            vec![name.to_string(), number(most / f64::from(1 << 20))]
        })
        .collect();
    report.table(&["side", "most memory of the server's for it, MiB"], &lines)
}

fn contest(
    name: &str,
    sides: &[&Side<'_>],
    read: impl Fn(&Side<'_>) -> Result<(u64, Option<u64>)>,
    aims: impl FnOnce(&mut Contest<'_>),
    args: &Args,
    report: &mut Report,
) -> Result<()> {
    if !name.contains(&args.only) {
        return Ok(());
    }
    let mut contest = Contest::new(name, "rows");
    for side in sides {
        side.sample(|| read(side))?;
        contest.side(side.name, |_| side.sample(|| read(side)))
    }
    aims(&mut contest);
    let samples = contest.run(args.common.rounds(), report)?;
    memory(&sides.iter().map(|s| s.name).zip(samples).collect::<Vec<_>>(), report);
    Ok(())
}

pub fn run(args: Args) -> Result<()> {
    let folder = args.common.folder()?;
    let csv = folder.path().join("lineitem.csv");
    let (rows, bytes) = lineitem::csv(args.tbl.as_deref(), &args.common, &csv)?;
    let mut report = Report::new("rows", "Whole tables to clients", Some(&args.common));
    let ours = folder.path().join("ondol");
    {
        let db = OpenOptions::new().open(&ours)?;
        let mut s = db.session();
        s.execute(TABLE)?;
        s.execute(&format!("COPY lineitem FROM '{}' (FORMAT csv)", csv.display()))?;
        db.checkpoint()?;
        drop(s);
        db.close()?
    }
    report.settings("Ondol", [("version", env!("CARGO_PKG_VERSION")), ("over", "TCP")]);
    let (port, pg_port) = (free_port()?, free_port()?);
    let version = cluster::version(&args.pgbin);
    let postgres = match &version {
        None => {
            report.say("PostgreSQL was not there to be compared.");
            None
        }
        Some(version) => {
            let text = pg_port.to_string();
            let settings = [
                ("shared_buffers", if args.common.tiny { "32MB" } else { "2GB" }),
                ("autovacuum", "off"),
                ("max_wal_size", "8GB"),
                ("listen_addresses", "127.0.0.1"),
                ("port", &text),
            ];
            let cluster = Cluster::start(&args.pgbin, folder.path(), &settings)?;
            let mut client = cluster.connect()?;
            lineitem::load(&mut client, &csv)?;
            let told = settings[..3].iter().map(|(k, v)| (k.to_string(), v.to_string()));
            let head = [("version".to_string(), version.clone()), ("over".into(), "TCP".into())];
            let table = "vacuumed and frozen, in its buffers if they have room";
            let tail = [("its table".to_string(), table.to_string())];
            report.settings(POSTGRES, head.into_iter().chain(told).chain(tail));
            Some(cluster)
        }
    };
    std::fs::remove_file(&csv)?;
    report.say(format!(
        "{} rows {}, {} bytes as CSV. CPU seconds are the server's.",
        number(rows as f64),
        args.tbl.as_ref().map_or("like TPC-H's lineitem", |_| "of TPC-H's lineitem"),
        number(bytes as f64),
    ));
    let server = Process::serve(&ours, port)?;
    let side = |name, options| Side {
        name,
        port,
        options,
        process: server.id(),
        cpu_seconds: Box::new(|| server.cpu_seconds()),
        bytes: Default::default(),
    };
    // A table of a tiny run is small.
    let none = side(NONE, "-c max_parallel_workers_per_gather=0");
    let one = side(ONE, "-c max_parallel_workers_per_gather=1 -c min_parallel_table_scan_size=0");
    let two = side(TWO, "-c max_parallel_workers_per_gather=2 -c min_parallel_table_scan_size=0");
    let theirs = postgres.as_ref().map(|c| Side {
        name: POSTGRES,
        port: pg_port,
        options: "",
        process: c.pid(),
        cpu_seconds: Box::new(|| c.cpu_seconds()),
        bytes: Default::default(),
    });
    let mut sides = vec![&none, &one, &two];
    sides.extend(&theirs);
    let against = theirs.as_ref().map(|s| s.name);
    let program = libpq(folder.path());
    for (binary, form) in [(false, "text"), (true, "binary")] {
        match &program {
            Err(why) => report.say(format!("libpq was left out: {why}.")),
            Ok(program) => contest(
                &format!("By libpq, {form}"),
                &sides,
                |side| side.by_libpq(program, binary),
                |contest| {
                    let aim = "the server's CPU against PostgreSQL's";
                    if let Some(their) = against {
                        contest.aim(aim, TWO, Some(their), Bound::CpuAtMost(1.0 / 3.0))
                    }
                },
                &args,
                &mut report,
            )?,
        }
        contest(
            &format!("To a client that discards, {form}"),
            &sides,
            |side| side.discard(rows, binary),
            |contest| {
                let aim = "two workers against one";
                contest.aim(aim, TWO, Some(ONE), Bound::RateAtLeast(1.7));
                let aim = "the server's CPU against PostgreSQL's";
                if let Some(their) = against {
                    contest.aim(aim, TWO, Some(their), Bound::CpuAtMost(1.0 / 3.0))
                }
            },
            &args,
            &mut report,
        )?
    }
    // Those that read by libpq have ended.
    report.children(machine::children_seconds());
    report.children(server.cpu_seconds() + postgres.as_ref().map_or(0.0, Cluster::cpu_seconds));
    report.finish()
}
