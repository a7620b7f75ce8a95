//! Whole tables out of the engine: COPY to CSV and to Parquet, and aggregates of a full scan, on TPC-H's
//! lineitem.
//!
//! - **F1** All sides have the same rows, loaded from one CSV in one order, and hold them in memory or in the
//!   page cache: each has read them once before the rounds.
//! - **F2** Before the rounds what all sides write as CSV is compared with what was loaded, line by line in
//!   any order, Parquet is read back by the others, and the aggregates agree. In the rounds the numbers of
//!   rows, or the aggregates, must.
//! - **F3** What is written goes to files in `--memory`, so that no disk is measured, and is removed outside
//!   of what is timed.
//! - **F4** DuckDB (the Python package `duckdb`) and PostgreSQL are programs of others: who is absent is
//!   named and left out. DuckDB copies its own table.
use ondol::{Database, OpenOptions, Session, TempFolder};
use ondol_bench::cluster::{self, Cluster};
use ondol_bench::encoder::Batches;
use ondol_bench::lineitem::{self, TABLE};
use ondol_bench::options::Common;
use ondol_bench::report::{Report, number};
use ondol_bench::rounds::{Bound, Contest, Sample, timed};
use ondol_bench::{Error, Result, machine};
use postgres::{Client, SimpleQueryMessage};
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

/// Full scans: COPY to CSV and Parquet, aggregates
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// TPC-H's lineitem, fields that end in |; without it, rows of its shape are made. Of it --rows are the
    /// first that many
    #[arg(long, value_name = "FILE")]
    tbl: Option<PathBuf>,
    /// Workers (max_parallel_workers_per_gather), by commas; none is a side always
    #[arg(long, value_delimiter = ',', default_value = "1,2", value_parser = clap::value_parser!(u64).range(1..=256))]
    workers: Vec<u64>,
    /// A folder in memory, for what is written
    #[arg(long, default_value = "/dev/shm")]
    memory: PathBuf,
    /// The folder of PostgreSQL's programs
    #[arg(long, default_value = "/usr/lib/postgresql/15/bin")]
    pgbin: PathBuf,
    /// A Python that has the package duckdb
    #[arg(long, default_value = "python3")]
    python: String,
}

/// TPC-H's sixth query with more to add up.
const TOTALS: &str = "SELECT count(*), sum(l_quantity), sum(l_extendedprice * l_discount), min(l_shipdate), max(l_receiptdate) FROM lineitem WHERE l_shipdate >= date '1994-01-01'";
/// Some of its first.
const GROUPS: &str = "SELECT l_returnflag, l_linestatus, count(*), sum(l_quantity), sum(l_extendedprice) FROM lineitem GROUP BY l_returnflag, l_linestatus ORDER BY 1, 2";

const CSV: &str = "FORMAT csv";
const PARQUET: &str = "FORMAT parquet";
const POSTGRESQL: &str = "PostgreSQL";
const DUCKDB: &str = "DuckDB";

fn quoted(path: &Path) -> String {
    path.display().to_string().replace('\'', "''")
}
fn to(table: &str, path: &Path, options: &str) -> String {
    format!("COPY {table} TO '{}' ({options})", quoted(path))
}
fn from(table: &str, path: &Path, options: &str) -> String {
    format!("COPY {table} FROM '{}' ({options})", quoted(path))
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, b| (sum ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

/// Rows as text, comma between values, line by line, as all sides are asked for them.
#[derive(Default)]
struct Answer(String);
impl Answer {
    fn value(&mut self, first: bool, text: &str) {
        self.0 += if first { "" } else { "," };
        self.0 += text;
    }
    fn end(&mut self) {
        self.0.push('\n')
    }
    /// For F2.
    fn checksum(&self) -> u64 {
        self.0
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |sum, b| (sum ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
    }
}

fn ask(session: &mut Session, sql: &str) -> Result<Answer> {
    let mut all = Answer::default();
    let mut cell = String::new();
    session.for_each(sql, &[], |row| {
        for i in 0..row.len() {
            cell.clear();
            row.text(i, &mut cell);
            all.value(i == 0, &cell);
        }
        all.end();
        Ok(())
    })?;
    Ok(all)
}

/// A session with so many workers.
fn session(db: &Database, workers: u64) -> Result<Session> {
    let mut s = db.session();
    s.execute(&format!(
        "SET max_parallel_workers_per_gather = {workers}; SET min_parallel_table_scan_size = 0"
    ))?;
    Ok(s)
}

/// A statement of COPY; gives the rows copied.
fn copy(session: &mut Session, sql: &str) -> Result<u64> {
    let outcome = session.execute(sql)?.pop().ok_or("no statement was run")?;
    let rows = outcome.tag.strip_prefix("COPY ").and_then(|n| n.parse().ok());
    rows.ok_or_else(|| format!("expected COPY and a number, found {:?}", outcome.tag).into())
}

/// DuckDB in a process of its own: a statement a line, answered by seconds, CPU seconds and the rows.
struct Duck {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

const PROGRAM: &str = "
import duckdb, resource, sys, time
c = duckdb.connect(sys.argv[1])
c.execute('SET enable_progress_bar = false')  # it goes to standard output
def cpu():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime
for sql in sys.stdin:
    t, u = time.perf_counter(), cpu()
    try:
        rows = c.execute(sql).fetchall()
        t, u = time.perf_counter() - t, cpu() - u
        print(t, u, ''.join(','.join(str(v) for v in r) + ';' for r in rows), sep='\\t', flush=True)
    except Exception as e:
        print('error', str(e).replace('\\n', ' '), sep='\\t', flush=True)
";

impl Duck {
    fn version(python: &str) -> Option<String> {
        let out =
            Command::new(python).args(["-c", "import duckdb; print(duckdb.__version__)"]).output().ok()?;
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_string())
    }
    fn start(python: &str, path: &Path) -> Result<Duck> {
        let mut command = Command::new(python);
        command.args(["-c", PROGRAM]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let (to, from) = (process.stdin.take().ok_or("no input")?, process.stdout.take().ok_or("no output")?);
        Ok(Duck { process, to, from: BufReader::new(from) })
    }
    /// Seconds, CPU seconds and rows.
    fn run(&mut self, sql: &str) -> Result<(f64, f64, Answer)> {
        writeln!(self.to, "{}", sql.replace('\n', " "))?;
        self.to.flush()?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        let mut parts = line.trim_end_matches('\n').splitn(3, '\t');
        let mut next = || parts.next().ok_or_else(|| Error::from("DuckDB's process said too little"));
        let first = next()?;
        if first == "error" {
            return Err(format!("DuckDB: {}: {sql}", next()?).into());
        }
        Ok((first.parse()?, next()?.parse()?, Answer(next()?.replace(';', "\n"))))
    }
    /// A statement of COPY.
    fn copy(&mut self, sql: &str) -> Result<Sample> {
        let (seconds, cpu_s, rows) = self.run(sql)?;
        let operations = rows.0.trim().parse()?;
        Ok(Sample { operations, seconds, cpu_s, checksum: Some(operations), extra: vec![] })
    }
}
impl Drop for Duck {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A PostgreSQL server, and a connection to it.
struct Elephant {
    client: Client,
    cluster: Cluster,
}
impl Elephant {
    fn ask(&mut self, sql: &str) -> Result<Answer> {
        let mut all = Answer::default();
        for message in self.client.simple_query(sql)? {
            if let SimpleQueryMessage::Row(row) = message {
                (0..row.len()).for_each(|i| all.value(i == 0, row.get(i).unwrap_or("")));
                all.end();
            }
        }
        Ok(all)
    }
    /// CPU seconds are those of all the server's processes.
    fn timed(&mut self, run: impl FnOnce(&mut Elephant) -> Result<u64>) -> Result<Sample> {
        let (cpu, start) = (self.cluster.cpu_seconds(), Instant::now());
        let operations = run(self)?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(Sample { operations, seconds, cpu_s: self.cluster.cpu_seconds() - cpu, ..Sample::default() })
    }
    fn copy(&mut self, sql: &str) -> Result<Sample> {
        let sample = self.timed(|e| Ok(e.client.execute(sql, &[])?))?;
        Ok(Sample { checksum: Some(sample.operations), ..sample })
    }
}

fn same(what: &str, found: &Answer, wanted: &Answer) -> Result<()> {
    match found.0 == wanted.0 {
        true => Ok(()),
        false => Err(format!("{what}: {:?} instead of {:?}", found.0, wanted.0).into()),
    }
}

/// F2: that a file has the very lines of another, in whatever order: PostgreSQL puts short rows where longer
/// ones found no room.
fn same_lines(who: &str, found: &Path, wanted: &Path) -> Result<()> {
    let sums = |path: &Path| -> Result<(u64, u64, u64)> {
        let (mut file, mut line) = (BufReader::with_capacity(1 << 20, File::open(path)?), Vec::new());
        let (mut lines, mut bytes, mut sum) = (0, 0, 0u64);
        while file.read_until(b'\n', &mut line)? > 0 {
            lines += 1;
            bytes += line.len() as u64;
            sum = sum.wrapping_add(hash(&line));
            line.clear();
        }
        Ok((lines, bytes, sum))
    };
    let (found, wanted) = (sums(found)?, sums(wanted)?);
    match found == wanted {
        true => Ok(()),
        false => Err(format!(
            "{who}'s CSV has other lines than were loaded: lines, bytes and the sum of their hashes are {found:?} instead of {wanted:?}"
        )
        .into()),
    }
}

/// F3: a sample of who wrote a file, with the file's size; it is removed.
fn written(sample: Sample, path: &Path) -> Result<Sample> {
    let bytes = std::fs::metadata(path)?.len() as f64;
    std::fs::remove_file(path)?;
    Ok(Sample { extra: vec![("written_bytes".into(), bytes)], ..sample })
}

fn named(workers: u64) -> String {
    match workers {
        0 => "Ondol, one thread".into(),
        1 => "Ondol, 1 worker".into(),
        n => format!("Ondol, {n} workers"),
    }
}

/// The sides of all contests, and what they are given.
struct Sides<'a> {
    db: &'a Database,
    duck: Option<RefCell<Duck>>,
    elephant: Option<RefCell<Elephant>>,
    workers: &'a [u64],
    rows: u64,
    /// Where Ondol and DuckDB write, and where PostgreSQL does.
    memory: &'a Path,
    shared: PathBuf,
}

impl Sides<'_> {
    fn with_none(&self) -> impl Iterator<Item = u64> + use<'_> {
        std::iter::once(0).chain(self.workers.iter().copied())
    }
    fn copies<'b>(&'b self, contest: &mut Contest<'b>, options: &'static str) -> Result<()> {
        for workers in self.with_none() {
            let (mut s, path) = (session(self.db, workers)?, self.memory.join("ondol"));
            contest.side(named(workers), move |_| {
                let sample = timed(|| copy(&mut s, &to("lineitem", &path, options)))?;
                written(Sample { checksum: Some(sample.operations), ..sample }, &path)
            });
        }
        Ok(())
    }
    fn duck_copies<'b>(&'b self, contest: &mut Contest<'b>, options: &'static str) {
        if let Some(duck) = &self.duck {
            let path = self.memory.join("duckdb");
            contest.side(DUCKDB, move |_| {
                written(duck.borrow_mut().copy(&to("lineitem", &path, options))?, &path)
            });
        }
    }
    /// Each number of workers against one thread, and against another side.
    fn aims(&self, contest: &mut Contest<'_>, what: &str, against: Option<(&str, f64)>) {
        for &workers in self.workers {
            let name = named(workers);
            if let Some((other, least)) = against {
                let text = format!("{what}, {} against {other}", &name["Ondol, ".len()..]);
                contest.aim(text, &name, Some(other), Bound::RateAtLeast(least));
            }
            let text = format!("{what}, {} against one thread", &name["Ondol, ".len()..]);
            contest.aim(text, &name, Some(&named(0)), Bound::RateAtLeast(1.0));
        }
    }
}

fn csv(sides: &Sides<'_>, rounds: usize, report: &mut Report) -> Result<()> {
    let mut contest = Contest::new("COPY to CSV", "rows");
    sides.copies(&mut contest, CSV)?;
    if let Some(elephant) = &sides.elephant {
        let path = sides.shared.join("postgresql");
        contest.side(POSTGRESQL, move |_| {
            written(elephant.borrow_mut().copy(&to("lineitem", &path, CSV))?, &path)
        });
    }
    sides.duck_copies(&mut contest, "FORMAT csv, HEADER false");
    sides.aims(&mut contest, "CSV", sides.elephant.as_ref().map(|_| (POSTGRESQL, 2.0)));
    contest.run(rounds, report).map(|_| ())
}

/// `table`: its rows as Arrow has them, for the encoder alone.
fn parquet(sides: &Sides<'_>, table: &Batches, rounds: usize, report: &mut Report) -> Result<()> {
    let mut contest = Contest::new("COPY to Parquet", "rows");
    sides.copies(&mut contest, PARQUET)?;
    sides.duck_copies(&mut contest, PARQUET);
    let path = sides.memory.join("encoder");
    contest.side("the encoder alone, one thread", move |_| {
        let sample = timed(|| {
            table.encode(File::create(&path)?)?;
            Ok(table.rows())
        })?;
        written(Sample { checksum: Some(sample.operations), ..sample }, &path)
    });
    sides.aims(&mut contest, "Parquet", sides.duck.as_ref().map(|_| (DUCKDB, 0.5)));
    contest.run(rounds, report).map(|_| ())
}

fn aggregate(
    name: &str,
    sql: &'static str,
    sides: &Sides<'_>,
    rounds: usize,
    report: &mut Report,
) -> Result<()> {
    let rows = sides.rows;
    let mut contest = Contest::new(name, "rows");
    for workers in sides.with_none() {
        let mut s = session(sides.db, workers)?;
        contest.side(named(workers), move |_| {
            let mut found = Answer::default();
            let sample = timed(|| {
                found = ask(&mut s, sql)?;
                Ok(rows)
            })?;
            Ok(Sample { checksum: Some(found.checksum()), ..sample })
        });
    }
    if let Some(elephant) = &sides.elephant {
        contest.side(POSTGRESQL, move |_| {
            let mut found = Answer::default();
            let sample = elephant.borrow_mut().timed(|e| {
                found = e.ask(sql)?;
                Ok(rows)
            })?;
            Ok(Sample { checksum: Some(found.checksum()), ..sample })
        });
    }
    if let Some(duck) = &sides.duck {
        contest.side(DUCKDB, move |_| {
            let (seconds, cpu_s, found) = duck.borrow_mut().run(sql)?;
            Ok(Sample {
                operations: rows,
                seconds,
                cpu_s,
                checksum: Some(found.checksum()),
                ..Sample::default()
            })
        });
    }
    sides.aims(&mut contest, name, None);
    contest.run(rounds, report).map(|_| ())
}

/// A server with the table; F2.
fn elephant(
    args: &Args,
    folder: &Path,
    shared: &Path,
    csv: &Path,
    sums: &[(&str, &Answer)],
    report: &mut Report,
) -> Result<Option<RefCell<Elephant>>> {
    let Some(version) = cluster::version(&args.pgbin) else {
        report.say(format!(
            "PostgreSQL was left out: {} has no program postgres (Debian: postgresql-15; --pgbin names the folder).",
            args.pgbin.display()
        ));
        return Ok(None);
    };
    let settings = [("shared_buffers", "2GB"), ("autovacuum", "off"), ("max_wal_size", "8GB")];
    let cluster = Cluster::start(&args.pgbin, folder, &settings)?;
    cluster.folder(shared)?;
    let mut e = Elephant { client: cluster.connect()?, cluster };
    lineitem::load(&mut e.client, csv)?;
    let path = shared.join("postgresql");
    e.copy(&to("lineitem", &path, CSV))?;
    same_lines(POSTGRESQL, &path, csv)?;
    std::fs::remove_file(&path)?;
    for (sql, wanted) in sums {
        same("PostgreSQL's aggregates", &e.ask(sql)?, wanted)?;
    }
    let mut show = |name: &str| -> Result<(String, String)> {
        Ok((name.to_string(), e.ask(&format!("SHOW {name}"))?.0.trim().to_string()))
    };
    let mut settings = vec![("version".to_string(), version)];
    for name in ["shared_buffers", "max_parallel_workers_per_gather", "jit"] {
        settings.push(show(name)?);
    }
    settings
        .push(("its table".into(), "vacuumed and frozen, all of it in its buffers if it has room".into()));
    settings.push(("asked".into(), "by its socket; the server writes the file".into()));
    report.settings(POSTGRESQL, settings);
    Ok(Some(RefCell::new(e)))
}

/// DuckDB with the table; F2.
fn duck(
    args: &Args,
    folder: &Path,
    memory: &Path,
    (csv, parquet): (&Path, &Path),
    sums: &[(&str, &Answer)],
    report: &mut Report,
) -> Result<Option<RefCell<Duck>>> {
    let Some(version) = Duck::version(&args.python) else {
        report.say(format!(
            "DuckDB was left out: {:?} has no package duckdb (python3 -m venv V; V/bin/pip install duckdb; --python V/bin/python).",
            args.python
        ));
        return Ok(None);
    };
    let mut d = Duck::start(&args.python, &folder.join("duckdb"))?;
    d.run(TABLE)?;
    d.run(&from("lineitem", csv, "FORMAT csv, HEADER false"))?;
    d.run("CHECKPOINT")?;
    let path = memory.join("duckdb");
    d.copy(&to("lineitem", &path, "FORMAT csv, HEADER false"))?;
    same_lines(DUCKDB, &path, csv)?;
    std::fs::remove_file(&path)?;
    for (sql, wanted) in sums {
        same("DuckDB's aggregates", &d.run(sql)?.2, wanted)?;
        let sql = sql.replace("lineitem", &format!("read_parquet('{}')", quoted(parquet)));
        same("what DuckDB read from Ondol's Parquet", &d.run(&sql)?.2, wanted)?;
    }
    let threads = d.run("SELECT current_setting('threads')")?.2.0;
    report.settings(
        DUCKDB,
        [
            ("version", version.as_str()),
            ("threads", threads.trim()),
            ("its table", "in a file of its own, checkpointed"),
        ],
    );
    Ok(Some(RefCell::new(d)))
}

pub fn run(args: Args) -> Result<()> {
    let rounds = args.common.rounds();
    let folder = args.common.folder()?;
    let memory = TempFolder::inside(&args.memory)?;
    let csv_file = folder.path().join("lineitem.csv");
    let (rows, bytes) = lineitem::csv(args.tbl.as_deref(), &args.common, &csv_file)?;
    let mut report = Report::new("scan", "Whole tables", Some(&args.common));
    let version = env!("CARGO_PKG_VERSION");
    report.settings(
        "Ondol",
        [
            ("version", version),
            ("embedded;", "max_parallel_workers_per_gather as named, min_parallel_table_scan_size 0"),
        ],
    );

    let db = OpenOptions::new().open(folder.path().join("ondol"))?;
    let mut s = session(&db, args.workers.iter().copied().max().unwrap_or(1))?;
    s.execute(TABLE)?;
    if copy(&mut s, &from("lineitem", &csv_file, CSV))? != rows {
        return Err(format!("other than {rows} rows were loaded").into());
    }
    // F2
    let path = memory.path().join("ondol");
    copy(&mut s, &to("lineitem", &path, CSV))?;
    same_lines("Ondol", &path, &csv_file)?;
    std::fs::remove_file(&path)?;
    let (totals, groups) = (ask(&mut s, TOTALS)?, ask(&mut s, GROUPS)?);
    let sums = [(TOTALS, &totals), (GROUPS, &groups)];
    let parquet_file = memory.path().join("ondol.parquet");
    copy(&mut s, &to("lineitem", &parquet_file, PARQUET))?;
    let mut read_back = |who: &str, file: &Path| -> Result<()> {
        s.execute(&TABLE.replace("lineitem", "again"))?;
        copy(&mut s, &from("again", file, PARQUET))?;
        for (sql, wanted) in sums {
            let found = ask(&mut s, &sql.replace("lineitem", "again"))?;
            same(&format!("what Ondol read from {who}'s Parquet"), &found, wanted)?;
        }
        s.execute("DROP TABLE again")?;
        Ok(())
    };
    read_back("Ondol", &parquet_file)?;
    let table = Batches::from_parquet(&parquet_file)?;
    let duck = duck(&args, folder.path(), memory.path(), (&csv_file, &parquet_file), &sums, &mut report)?;
    if let Some(d) = &duck {
        let path = memory.path().join("duckdb.parquet");
        d.borrow_mut().copy(&to("lineitem", &path, PARQUET))?;
        read_back(DUCKDB, &path)?;
        std::fs::remove_file(&path)?;
    }
    std::fs::remove_file(&parquet_file)?;
    std::fs::set_permissions(memory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let shared = memory.path().join("shared");
    let elephant = elephant(&args, folder.path(), &shared, &csv_file, &sums, &mut report)?;
    report.say(format!(
        "{} rows {}, {} bytes as CSV; tables in memory or in the page cache of {}, what is written goes to {}. What all sides write as CSV was compared with what was loaded, \
         line by line in any order; Parquet was read back by the others, with the same sums. CPU seconds are those of the process, of PostgreSQL all its processes'.",
        number(rows as f64),
        args.tbl.as_ref().map_or("like TPC-H's lineitem", |_| "of TPC-H's lineitem"),
        number(bytes as f64),
        machine::file_system(folder.path()),
        machine::file_system(memory.path())
    ));

    let sides =
        Sides { db: &db, duck, elephant, workers: &args.workers, rows, memory: memory.path(), shared };
    csv(&sides, rounds, &mut report)?;
    parquet(&sides, &table, rounds, &mut report)?;
    aggregate("Totals of a full scan", TOTALS, &sides, rounds, &mut report)?;
    aggregate("Groups of a full scan", GROUPS, &sides, rounds, &mut report)?;
    // Whoever ran for others is waited for before their seconds are counted.
    drop(sides);
    drop(s);
    db.close()?;
    report.children(machine::children_seconds());
    report.finish()
}
