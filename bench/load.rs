//! Bulk load of the subscriber table from CSV: Ondol's COPY, the `.import` of SQLite's shell, DuckDB's COPY.
//!
//! - **L1** All read the same file into an empty table without indexes; the file was read once before, so
//!   that it is in the page cache for everyone. The clock runs until what each side promises by default is
//!   kept.
//! - **L2** Afterwards each side must have all rows and the same sums over its columns.
//! - **L3** SQLite's shell (`sqlite3`) and DuckDB (the Python package `duckdb`) are programs of others: who
//!   is absent is named and left out.
use ondol::{OpenOptions, Output};
use ondol_bench::customers::{Csv, Customer, TABLE};
use ondol_bench::options::Common;
use ondol_bench::report::{Report, number};
use ondol_bench::rounds::{Bound, Contest, Sample};
use ondol_bench::{Error, Result, machine, ours};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Output as Ran};
use std::time::Instant;

/// Bulk load from CSV
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// SQLite's shell
    #[arg(long, default_value = "sqlite3")]
    sqlite: String,
    /// A Python that has the package duckdb
    #[arg(long, default_value = "python3")]
    python: String,
}

/// Sums over the columns: of the numbers (large ones modulo a prime, so that no side's sum overflows), and of
/// the texts' lengths.
type Sums = Vec<i64>;

const SUMS: &str = "SELECT count(*), sum(service_mgmt_num % 1000003), sum(service_num), sum(registration_num % 1000003), \
     sum(length(service_code)), sum(length(service_type)), sum(length(is_ttl_subscriber)), \
     sum(length(subscriber_name)), sum(counter) FROM customer";

fn expected(rows: u64) -> Sums {
    let mut s = vec![rows as i64, 0, 0, 0, 0, 0, 0, 0, 0];
    for i in 0..rows {
        let c = Customer::new(i, rows);
        let (a, b) = (c.service_mgmt_num % 1_000_003, c.registration_num % 1_000_003);
        let each = [a, c.service_num.into(), b, 1, 1, 1, 40, c.counter];
        s[1..].iter_mut().zip(each).for_each(|(a, b)| *a += b);
    }
    s
}

fn agree(who: &str, found: &Sums, wanted: &Sums) -> Result<()> {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{who} loaded something else: sums {found:?} instead of {wanted:?}").into()),
    }
}

fn ran(what: &str, out: Ran) -> Result<String> {
    if !out.status.success() {
        return Err(format!("{what}: {}: {}", out.status, String::from_utf8_lossy(&out.stderr).trim()).into());
    }
    Ok(String::from_utf8(out.stdout)?.trim().to_string())
}

/// What a program answers to a question about its version; nothing when it is not there.
fn version(program: &str, arguments: &[&str]) -> Option<String> {
    Command::new(program).args(arguments).output().ok().and_then(|o| ran(program, o).ok())
}

pub fn run(args: Args) -> Result<()> {
    let rows = args.common.rows(4_000_000, 3_000);
    let folder = args.common.folder()?;
    let csv = folder.path().join("customer.csv");
    let bytes = std::io::copy(&mut Csv::new(rows), &mut File::create(&csv)?)?;
    // Once through it: in the page cache for everyone.
    std::io::copy(&mut File::open(&csv)?, &mut std::io::sink())?;
    let wanted = expected(rows);
    let mut report = Report::new("load", "Bulk load from CSV", Some(&args.common));
    report.say(format!(
        "{} rows, a file of {} bytes, on {}. CPU seconds are those of the process that loads.",
        number(rows as f64),
        number(bytes as f64),
        machine::file_system(folder.path())
    ));
    report.settings("Ondol", ours::settings("COPY is one transaction, durable when it returns"));

    let path = |side: &str, round: usize| folder.path().join(format!("{side}-{round}"));
    let mut contest = Contest::new("Bulk load, no indexes", "rows");
    contest.side("Ondol COPY", |round| {
        let path = path("ondol", round);
        let sample = ondol(&path, &csv, rows, &wanted)?;
        std::fs::remove_dir_all(&path)?;
        Ok(sample)
    });
    let sqlite = version(&args.sqlite, &["--version"]);
    match &sqlite {
        None => report
            .say(format!("SQLite was left out: there is no program {:?} (Debian: sqlite3).", args.sqlite)),
        Some(v) => {
            let v = v.split(' ').next().unwrap_or("?").to_string();
            report.settings(
                "SQLite .import",
                [
                    ("version", v.as_str()),
                    ("journal_mode", "OFF"),
                    ("durability:", "synchronous=OFF: none while loading"),
                ],
            );
            contest.side("SQLite .import", |round| {
                let path = path("sqlite", round);
                let sample = sqlite_import(&args.sqlite, &path, &csv, rows, &wanted)?;
                std::fs::remove_file(&path)?;
                Ok(sample)
            });
        }
    }
    let duckdb = version(&args.python, &["-c", "import duckdb; print(duckdb.__version__)"]);
    match &duckdb {
        None => report.say(format!(
            "DuckDB was left out: {:?} has no package duckdb (python3 -m venv V; V/bin/pip install duckdb; --python V/bin/python).",
            args.python
        )),
        Some(v) => {
            report.settings(
                "DuckDB COPY",
                [("version", v.as_str()), ("threads", "all"), ("durability:", "the file is checkpointed when the connection closes")],
            );
            contest.side("DuckDB COPY", |round| {
                let path = path("duckdb", round);
                let sample = duckdb_copy(&args.python, &path, &csv, rows, &wanted)?;
                std::fs::remove_file(&path)?;
                Ok(sample)
            });
        }
    }
    contest.aim("a million rows a second", "Ondol COPY", None, Bound::Absolute(1e6));
    if sqlite.is_some() {
        contest.aim("against SQLite", "Ondol COPY", Some("SQLite .import"), Bound::RateAtLeast(1.0));
    }
    if duckdb.is_some() {
        contest.aim("against DuckDB", "Ondol COPY", Some("DuckDB COPY"), Bound::RateAtLeast(1.0));
    }
    contest.run(args.common.rounds(), &mut report)?;
    report.children(machine::children_seconds());
    report.finish()
}

struct Quiet;
impl Output for Quiet {}

fn ondol(path: &Path, csv: &Path, rows: u64, wanted: &Sums) -> Result<Sample> {
    let db = OpenOptions::new().open(path)?;
    let mut session = db.session();
    session.execute(TABLE)?;
    let file = csv.display().to_string().replace('\'', "''");
    let sample = ondol_bench::rounds::timed(|| {
        session.run(&format!("COPY customer FROM '{file}' (FORMAT csv)"), &[], &mut Quiet)?;
        Ok(rows)
    })?;
    let found = session.query(SUMS, &[])?;
    let mut sums = vec![];
    for i in 0..wanted.len() {
        // Sums of bigint are NUMERIC.
        sums.push(found.row(0).get::<String>(i)?.parse()?);
    }
    agree("Ondol", &sums, wanted)?;
    drop(session);
    db.close()?;
    Ok(sample)
}

fn timed_child(rows: u64, run: impl FnOnce() -> Result<()>) -> Result<Sample> {
    let (cpu, start) = (machine::children_seconds(), Instant::now());
    run()?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Sample { operations: rows, seconds, cpu_s: machine::children_seconds() - cpu, ..Sample::default() })
}

fn sqlite_import(program: &str, path: &Path, csv: &Path, rows: u64, wanted: &Sums) -> Result<Sample> {
    let table = "CREATE TABLE customer (service_mgmt_num INTEGER, service_num INTEGER, registration_num INTEGER, \
         service_code TEXT, service_type TEXT, is_ttl_subscriber TEXT, subscriber_name TEXT, counter INTEGER)";
    let quoted = csv.display().to_string().replace('"', "\\\"");
    let sample = timed_child(rows, || {
        let mut c = Command::new(program);
        c.arg("-bail").arg(path);
        c.args(["-cmd", "PRAGMA journal_mode = OFF", "-cmd", "PRAGMA synchronous = OFF", "-cmd", table]);
        c.arg(format!(".import --csv \"{quoted}\" customer"));
        ran("sqlite3", c.output()?).map(|_| ())
    })?;
    let out = ran("sqlite3", Command::new(program).arg("-separator").arg(",").arg(path).arg(SUMS).output()?)?;
    agree("SQLite", &numbers(&out)?, wanted)?;
    Ok(sample)
}

fn numbers(line: &str) -> Result<Sums> {
    line.split(',').map(|n| n.trim().parse().map_err(Error::from)).collect()
}

/// The child times the load itself, so that Python's start is not counted.
const DUCKDB: &str = "
import duckdb, resource, sys, time
db, csv, sums = sys.argv[1:4]
c = duckdb.connect(db)
c.execute('SET enable_progress_bar = false')  # it goes to standard output
c.execute('''CREATE TABLE customer (service_mgmt_num BIGINT, service_num INTEGER, registration_num BIGINT,
    service_code VARCHAR, service_type VARCHAR, is_ttl_subscriber VARCHAR, subscriber_name VARCHAR, counter BIGINT)''')
def cpu():
    u = resource.getrusage(resource.RUSAGE_SELF)
    return u.ru_utime + u.ru_stime
t, u = time.perf_counter(), cpu()
c.execute('COPY customer FROM \\'' + csv.replace('\\'', '\\'\\'') + '\\' (FORMAT csv, HEADER false)')
c.execute('CHECKPOINT')
t, u = time.perf_counter() - t, cpu() - u
print(t)
print(u)
print(','.join(str(int(v)) for v in c.execute(sums).fetchone()))
";

fn duckdb_copy(python: &str, path: &Path, csv: &Path, rows: u64, wanted: &Sums) -> Result<Sample> {
    let out = Command::new(python).args(["-c", DUCKDB]).arg(path).arg(csv).arg(SUMS).output()?;
    let out = ran("duckdb", out)?;
    let mut lines = out.lines();
    let mut next = || lines.next().ok_or("DuckDB's process said too little");
    let (seconds, cpu_s) = (next()?.parse()?, next()?.parse()?);
    agree("DuckDB", &numbers(next()?)?, wanted)?;
    Ok(Sample { operations: rows, seconds, cpu_s, ..Sample::default() })
}
