//! TPC-C by one driver on several back ends, side by side: `ondol_bench::tpcc` has the transactions, this
//! file the rounds.
//!
//! - **C1** The sides alternate on databases that are populated once; the twelve consistency conditions are
//!   checked on each after the rounds, and a broken one fails the bench.
//! - **C2** `--compare`: the same seed on one thread must leave the same content on Ondol and on SQLite.
//! - **C3** `--crash N`: N times a child process runs the load and tells each New-Order that was acknowledged
//!   as durable; it is killed in mid-flight, and after recovery the conditions must hold and every
//!   acknowledged order be there whole.
//! - **C4** `--stage` does one of populating, running and checking on a PostgreSQL server, whose tables stay:
//!   another bench alternates servers.
//! - **C5** `--wire`: servers instead, asked over their sockets (`served`).
mod served;

use ondol::{Database, Isolation};
use ondol_bench::options::Common;
use ondol_bench::report::{Report, number};
use ondol_bench::rounds::{Bound, Contest};
use ondol_bench::tpcc::Scale;
use ondol_bench::tpcc::backend::Backend;
use ondol_bench::tpcc::check::{State, checksums};
use ondol_bench::tpcc::drive::{End, Outcome, Plan, drive};
use ondol_bench::tpcc::ondol::{Durability, Ondol};
use ondol_bench::tpcc::populate::populate;
use ondol_bench::tpcc::postgres::Postgres;
use ondol_bench::tpcc::sqlite::Sqlite;
use ondol_bench::tpcc::transactions::{Ordered, TYPES};
use ondol_bench::{Result, machine, ours};
use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// TPC-C transactions on Ondol, SQLite and PostgreSQL
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    warehouses: i64,
    /// 1 if nothing is said, with --wire 8
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: Option<u64>,
    /// Servers over the wire instead: Ondol's, and a PostgreSQL of the run's own, a client on each thread
    #[arg(long, conflicts_with_all = ["compare", "stage", "postgres", "sides"])]
    wire: bool,
    /// Folder of PostgreSQL's programs, for --wire
    #[arg(long, default_value = "/usr/lib/postgresql/15/bin")]
    pgbin: PathBuf,
    /// The folder of libondol_c.so (cargo build --release -p ondol-c: target/release), for --wire from C as
    /// well
    #[arg(long, requires = "wire", value_name = "FOLDER")]
    c: Option<PathBuf>,
    /// pgjdbc's library, for --wire from Java as well (Debian's is /usr/share/java/postgresql.jar)
    #[arg(long, requires = "wire", value_name = "JAR")]
    jdbc: Option<PathBuf>,
    /// Which sides, by commas: ondol-durable, ondol-in-flight, ondol-async, sqlite-full, sqlite-normal,
    /// postgres
    #[arg(long, value_delimiter = ',')]
    sides: Vec<Kind>,
    /// Commits that a thread of ondol-in-flight leaves open
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..))]
    in_flight: u64,
    /// Ondol's and PostgreSQL's isolation level: the standard asks for one without phantoms, which TPC-C gets
    /// from a snapshot
    #[arg(long, default_value = "repeatable-read", value_parser = ["read-committed", "repeatable-read", "serializable"])]
    isolation: String,
    /// VFS of SQLite
    #[arg(long)]
    vfs: Option<String>,
    /// Further pragma of SQLite, as "name = value"; may be repeated
    #[arg(long)]
    pragma: Vec<String>,
    /// Where the PostgreSQL server is, as libpq says it; its tables of these names are dropped
    #[arg(long)]
    postgres: Option<String>,
    /// synchronous_commit of PostgreSQL
    #[arg(long, default_value = "on")]
    synchronous_commit: String,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// So many transactions on each thread in each round, instead of some seconds
    #[arg(long)]
    transactions: Option<u64>,
    /// Only compare the content that one seed leaves on Ondol and SQLite
    #[arg(long)]
    compare: bool,
    /// Only this, on a PostgreSQL server, whose tables stay
    #[arg(long, conflicts_with_all = ["compare", "crash"])]
    stage: Option<Stage>,
    /// Only kill and recover, so many times for each side
    #[arg(long)]
    crash: Option<u64>,
    /// The child that is killed: run the load in this folder
    #[arg(long, hide = true)]
    child: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Stage {
    /// Make the tables anew
    Populate,
    /// Run on them
    Run,
    /// Check the twelve conditions
    Check,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    OndolDurable,
    OndolInFlight,
    OndolAsync,
    SqliteFull,
    SqliteNormal,
    Postgres,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::OndolDurable => "ondol-durable",
            Kind::OndolInFlight => "ondol-in-flight",
            Kind::OndolAsync => "ondol-async",
            Kind::SqliteFull => "sqlite-full",
            Kind::SqliteNormal => "sqlite-normal",
            Kind::Postgres => "postgres",
        }
    }
    fn is_ondol(self) -> bool {
        matches!(self, Kind::OndolDurable | Kind::OndolInFlight | Kind::OndolAsync)
    }
}

impl Args {
    fn scale(&self) -> Scale {
        if self.common.tiny { Scale::tiny() } else { Scale::new(self.warehouses) }
    }
    fn threads(&self) -> u64 {
        self.threads.unwrap_or(if self.wire { 8 } else { 1 })
    }
    fn isolation(&self) -> Isolation {
        match self.isolation.as_str() {
            "read-committed" => Isolation::ReadCommitted,
            "serializable" => Isolation::Serializable,
            _ => Isolation::RepeatableRead,
        }
    }
    fn sides(&self) -> Vec<Kind> {
        if !self.sides.is_empty() {
            return self.sides.clone();
        }
        let mut all = vec![
            Kind::OndolDurable,
            Kind::OndolInFlight,
            Kind::OndolAsync,
            Kind::SqliteFull,
            Kind::SqliteNormal,
        ];
        all.extend(self.postgres.as_ref().map(|_| Kind::Postgres));
        all
    }
    fn sqlite(&self, folder: &Path, synchronous: &str) -> Sqlite {
        Sqlite::new(&folder.join("sqlite.db"), self.vfs.clone(), synchronous, &self.pragma)
    }
    fn ondol(&self, db: &Database, kind: Kind) -> Ondol {
        let durability = match kind {
            Kind::OndolInFlight => Durability::InFlight,
            Kind::OndolAsync => Durability::Asynchronous,
            _ => Durability::Durable,
        };
        Ondol { db: db.clone(), durability, isolation: self.isolation() }
    }
    /// The back end of a side; Ondol's sides share the database `db`.
    fn backend(&self, kind: Kind, folder: &Path, db: Option<&Database>) -> Result<Box<dyn Backend>> {
        Ok(match (kind, db) {
            (Kind::SqliteFull, _) => Box::new(self.sqlite(folder, "FULL")),
            (Kind::SqliteNormal, _) => Box::new(self.sqlite(folder, "NORMAL")),
            (Kind::Postgres, _) => Box::new(Postgres {
                connection: self.postgres.clone().ok_or("name the server with --postgres")?,
                synchronous_commit: self.synchronous_commit.clone(),
                isolation: self.isolation.replace('-', " "),
            }),
            (kind, Some(db)) => Box::new(self.ondol(db, kind)),
            (_, None) => return Err("Ondol's database is not open".into()),
        })
    }
    fn plan(&self, kind: Kind, seed: u64, end: End) -> Plan {
        let depth = match kind {
            Kind::OndolInFlight => self.in_flight as usize,
            // Nobody waits before the end of the run.
            Kind::OndolAsync => usize::MAX,
            _ => 1,
        };
        let durable = kind != Kind::OndolAsync;
        Plan { scale: self.scale(), threads: self.threads() as usize, seed, end, depth, durable }
    }
}

pub fn run(args: Args) -> Result<()> {
    if let Some(folder) = &args.child {
        return child(&args, folder);
    }
    let folder = args.common.folder()?;
    if args.wire {
        return served::run(&args, folder.path());
    }
    if args.compare {
        return compare(&args, folder.path());
    }
    if let Some(n) = args.crash {
        return args.sides().iter().try_for_each(|k| crashes(&args, *k, n, folder.path()));
    }
    if args.stage.is_some() && args.sides() != [Kind::Postgres] {
        return Err("--stage needs --sides postgres: what other sides have goes with the run".into());
    }
    contest(&args, &folder.path().join("contest"))?;
    if args.stage.is_some() {
        return Ok(());
    }
    if args.common.tiny {
        compare(&args, folder.path())?;
        for k in [Kind::OndolDurable, Kind::OndolAsync, Kind::SqliteFull] {
            crashes(&args, k, 1, folder.path())?;
        }
    }
    Ok(())
}

/// What breaks the bench when a condition does not hold.
fn check(backend: &dyn Backend, scale: &Scale, when: &str) -> Result<State> {
    let state = State::read(backend, scale)?;
    let broken = state.broken();
    match broken.is_empty() {
        true => Ok(state),
        false => Err(format!("{} is inconsistent {when}:\n{}", backend.name(), broken.join("\n")).into()),
    }
}

/// A database of Ondol's or SQLite's, ready to run on.
fn prepare(args: &Args, kinds: &[Kind], folder: &Path) -> Result<Option<Database>> {
    std::fs::create_dir_all(folder)?;
    let scale = args.scale();
    let mut db = None;
    if let Some(k) = kinds.iter().find(|k| k.is_ondol()) {
        db = Some(ours::options().open(folder.join("ondol"))?);
        populate(&*args.backend(*k, folder, db.as_ref())?, &scale)?;
    }
    for family in [&[Kind::SqliteFull, Kind::SqliteNormal][..], &[Kind::Postgres]] {
        if let Some(k) = kinds.iter().find(|k| family.contains(k)) {
            populate(&*args.backend(*k, folder, None)?, &scale)?;
        }
    }
    Ok(db)
}

fn contest(args: &Args, folder: &Path) -> Result<()> {
    let (kinds, scale) = (args.sides(), args.scale());
    std::fs::create_dir_all(folder)?;
    let db = match args.stage {
        None | Some(Stage::Populate) => prepare(args, &kinds, folder)?,
        Some(Stage::Run | Stage::Check) => None,
    };
    let backends: Vec<Box<dyn Backend>> =
        kinds.iter().map(|k| args.backend(*k, folder, db.as_ref())).collect::<Result<_>>()?;
    let mut report = Report::new("tpcc", "TPC-C", Some(&args.common));
    report.say(format!(
        "{} warehouses, {} threads, embedded except for PostgreSQL, no think time; the databases are on {}.",
        scale.warehouses,
        args.threads(),
        machine::file_system(folder)
    ));
    for b in &backends {
        if args.stage != Some(Stage::Run) {
            check(&**b, &scale, "before the run")?;
        }
        report.settings(b.name(), b.settings());
    }
    if matches!(args.stage, Some(Stage::Populate | Stage::Check)) {
        println!("The twelve consistency conditions of clause 3.3.2 hold.");
        return Ok(());
    }
    let seconds = args.common.seconds(10.0);
    let outcomes: Vec<RefCell<Outcome>> = kinds.iter().map(|_| RefCell::default()).collect();
    let mut contest = Contest::new("Transactions, all types", "transactions");
    for ((kind, backend), outcome) in kinds.iter().zip(&backends).zip(&outcomes) {
        contest.side(backend.name(), move |round| {
            let end = match args.transactions {
                Some(n) => End::Transactions(n),
                None => End::After(Duration::from_secs_f64(seconds)),
            };
            let plan = args.plan(*kind, args.seed + round as u64, end);
            let one = drive(&**backend, &plan, &|_| ())?;
            outcome.borrow_mut().add(&one);
            Ok(one.sample())
        });
    }
    let has = |name: &str| backends.iter().any(|b| b.name() == name);
    for ours in ["Ondol durable", "Ondol durable, in flight"] {
        if has(ours) && has("SQLite FULL") {
            contest.aim(
                format!("{ours} against SQLite FULL"),
                ours,
                Some("SQLite FULL"),
                Bound::RateAtLeast(10.0),
            );
        }
    }
    if has("Ondol asynchronous") {
        contest.aim("asynchronous, on a core", "Ondol asynchronous", None, Bound::PerCore(20_000.0));
    }
    contest.run(args.common.rounds(), &mut report)?;

    report.section("Latencies, microseconds (p50 / p99)");
    let mut head = vec!["side"];
    head.extend(TYPES.iter().map(|t| t.name()));
    head.extend(["retries", "rolled back"]);
    let mut rows = vec![];
    for (b, o) in backends.iter().zip(&outcomes) {
        let o = o.borrow();
        let mut row = vec![b.name()];
        row.extend(o.percentiles());
        row.extend([number(o.retries as f64), number(o.rolled_back as f64)]);
        rows.push(row);
    }
    report.table(&head, &rows);
    if args.stage.is_none() {
        for b in &backends {
            check(&**b, &scale, "after the run")?;
        }
        report.say("The twelve consistency conditions of clause 3.3.2 hold on every side after the run.");
    }
    report.finish()
}

/// C2.
fn compare(args: &Args, folder: &Path) -> Result<()> {
    let folder = folder.join("compare");
    let kinds = [Kind::OndolDurable, Kind::OndolInFlight, Kind::SqliteFull];
    let scale = args.scale();
    let db = prepare(args, &kinds, &folder)?;
    let n = args.transactions.unwrap_or(if args.common.tiny { 400 } else { 20_000 });
    let run = |kind: Kind| -> Result<Vec<(&'static str, u64, u64)>> {
        let backend = args.backend(kind, &folder, db.as_ref())?;
        let before = checksums(&*backend)?;
        let plan = Plan { threads: 1, depth: 64, ..args.plan(kind, args.seed, End::Transactions(n)) };
        let outcome = drive(&*backend, &plan, &|_| ())?;
        check(&*backend, &scale, "after the comparison")?;
        let after = checksums(&*backend)?;
        // All tables but the items change.
        let same = before.iter().zip(&after).filter(|(a, b)| a == b).count();
        if same != 1 {
            return Err(format!("{}: {same} tables did not change", backend.name()).into());
        }
        eprintln!(
            "{}: {} transactions, {} rolled back",
            backend.name(),
            outcome.transactions(),
            outcome.rolled_back
        );
        Ok(after)
    };
    let (ours, theirs) = (run(Kind::OndolInFlight)?, run(Kind::SqliteFull)?);
    let mut differ = vec![];
    for ((table, rows, sum), (_, other_rows, other)) in ours.iter().zip(&theirs) {
        println!("{table}: {rows} rows, {sum:016x}; SQLite {other_rows} rows, {other:016x}");
        if (rows, sum) != (other_rows, other) {
            differ.push(*table);
        }
    }
    match differ.is_empty() {
        true => {
            println!("{n} transactions of seed {} left the same content on both sides", args.seed);
            Ok(())
        }
        false => Err(format!("the content differs in {}", differ.join(", ")).into()),
    }
}

/// The process that is killed: it tells the acknowledged New-Orders, a line each.
fn child(args: &Args, folder: &Path) -> Result<()> {
    let kind = args.sides()[0];
    let db = match kind.is_ondol() {
        true => Some(ours::options().create(false).open(folder.join("ondol"))?),
        false => None,
    };
    let backend = args.backend(kind, folder, db.as_ref())?;
    let plan = args.plan(kind, args.seed, End::After(Duration::from_secs(86_400)));
    // Told when durable, so an asynchronous run looks now and then.
    let plan = Plan { depth: plan.depth.min(64), ..plan };
    let out = Mutex::new(std::io::stdout());
    let tell = |o: Ordered| {
        let line = format!("{} {} {}\n", o.warehouse, o.district, o.order);
        let mut out = out.lock().unwrap_or_else(|e| e.into_inner());
        // Without its parent the child has nothing left to do.
        if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
            std::process::exit(1);
        }
    };
    drive(&*backend, &plan, &tell)?;
    Ok(())
}

struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        // It may be dead already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn parse(line: &str) -> Option<Ordered> {
    let mut n = line.split(' ').map(|n| n.parse().ok());
    Some(Ordered { warehouse: n.next()??, district: n.next()??, order: n.next()?? })
}

/// C3, for one side.
fn crashes(args: &Args, kind: Kind, times: u64, folder: &Path) -> Result<()> {
    let folder = folder.join(format!("crash-{}", kind.name()));
    let scale = args.scale();
    prepare(args, &[kind], &folder)?.map(Database::close).transpose()?;
    let seconds = args.common.seconds(3.0).max(0.3);
    let mut acknowledged: Vec<Ordered> = vec![];
    for n in 0..times {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(child_line(args, kind, args.seed + n)).arg("--child").arg(&folder);
        let mut child = Child(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?);
        let pipe = child.0.stdout.take().ok_or("the child has no output")?;
        let (mut reader, mut line) = (BufReader::new(pipe), String::new());
        let (mut first, mut killed, mut told) = (None, false, 0u64);
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            // What the kill cut off in the middle of a line was not told.
            let Some(text) = line.strip_suffix('\n') else { break };
            acknowledged.push(parse(text).ok_or_else(|| format!("the child said {text:?}"))?);
            told += 1;
            let first = *first.get_or_insert_with(Instant::now);
            if !killed && first.elapsed().as_secs_f64() >= seconds {
                child.0.kill()?;
                killed = true;
            }
        }
        let status = child.0.wait()?;
        if !killed {
            return Err(format!("the child ended by itself: {status}").into());
        }
        let start = Instant::now();
        let db = match kind.is_ondol() {
            true => Some(ours::options().create(false).open(folder.join("ondol"))?),
            false => None,
        };
        let recovered = start.elapsed().as_secs_f64();
        let backend = args.backend(kind, &folder, db.as_ref())?;
        let state = check(&*backend, &scale, "after the crash")?;
        let missing = state.missing(&acknowledged);
        if !missing.is_empty() {
            return Err(format!("{}: acknowledged and lost: {missing:?}", backend.name()).into());
        }
        println!(
            "{}: killed after {told} acknowledged New-Orders; opened in {recovered:.2} s; all {} of this database are there, \
             the twelve conditions hold",
            backend.name(),
            acknowledged.len()
        );
        drop(backend);
        db.map(Database::close).transpose()?;
    }
    Ok(())
}

/// The options that matter to a child.
fn child_line(args: &Args, kind: Kind, seed: u64) -> Vec<String> {
    let mut all: Vec<String> =
        vec!["tpcc".into(), "--sides".into(), kind.name().into(), "--seed".into(), seed.to_string()];
    for (name, value) in [
        ("--warehouses", args.warehouses.to_string()),
        ("--threads", args.threads().to_string()),
        ("--in-flight", args.in_flight.to_string()),
        ("--isolation", args.isolation.clone()),
        ("--synchronous-commit", args.synchronous_commit.clone()),
    ] {
        all.extend([name.to_string(), value]);
    }
    all.extend(args.common.tiny.then(|| "--tiny".to_string()));
    all.extend(args.vfs.iter().flat_map(|v| ["--vfs".to_string(), v.clone()]));
    all.extend(args.pragma.iter().flat_map(|p| ["--pragma".to_string(), p.clone()]));
    all.extend(args.postgres.iter().flat_map(|p| ["--postgres".to_string(), p.clone()]));
    all
}
