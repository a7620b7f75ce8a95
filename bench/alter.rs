//! Definitions of a large table changed beside sessions that update its rows by key: how long each takes, and
//! the longest that one update waited for it.
//!
//! - **A1** Both sides have the same table, and the same statements in the same order; each session updates
//!   rows at random, one transaction each, whose commit is asynchronous: so a stall is the definition's, and
//!   no disk's.
//! - **A2** The updates begin before the statement and end after it. The first line is what they do while
//!   nothing is changed. An update that waits when the statement ends is counted with the time that it waits
//!   altogether.
//! - **A3** One run each: a table of that size is made once. What is compared is stalls of milliseconds with
//!   stalls of seconds.
use ondol::Value;
use ondol_bench::chart::{Bar, Chart};
use ondol_bench::cluster::{self, Cluster};
use ondol_bench::histogram::Histogram;
use ondol_bench::options::Common;
use ondol_bench::random::Random;
use ondol_bench::report::{Report, number};
use ondol_bench::rounds::Quartiles;
use ondol_bench::{Error, Result, ours};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Definitions beside writers
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Sessions that update
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=256))]
    sessions: u64,
    /// The folder of PostgreSQL's programs
    #[arg(long, default_value = "/usr/lib/postgresql/15/bin")]
    pgbin: PathBuf,
}

/// Rows of the table that foreign keys name.
const PARENTS: u64 = 1000;

const STEPS: [(&str, &str); 7] = [
    ("nothing", ""),
    ("ADD COLUMN with a default", "ALTER TABLE t ADD COLUMN c integer NOT NULL DEFAULT 7"),
    ("ADD FOREIGN KEY NOT VALID", "ALTER TABLE t ADD CONSTRAINT t_g FOREIGN KEY (g) REFERENCES p NOT VALID"),
    ("VALIDATE CONSTRAINT", "ALTER TABLE t VALIDATE CONSTRAINT t_g"),
    ("CREATE INDEX on an expression", "CREATE INDEX t_x ON t ((v + g))"),
    ("CREATE INDEX CONCURRENTLY on one", "CREATE INDEX CONCURRENTLY t_y ON t ((v - g))"),
    ("ALTER TYPE int to bigint", "ALTER TABLE t ALTER COLUMN v TYPE bigint"),
];

const UPDATE: &str = "UPDATE t SET v = v + 1 WHERE id = $1";

/// One session.
trait Client: Send {
    fn execute(&mut self, sql: &str) -> Result<()>;
    fn update(&mut self, id: i32) -> Result<()>;
}

impl Client for ondol::Session {
    fn execute(&mut self, sql: &str) -> Result<()> {
        Ok(ondol::Session::execute(self, sql).map(drop)?)
    }
    fn update(&mut self, id: i32) -> Result<()> {
        Ok(self.query(UPDATE, &[Value::Int4(id)]).map(drop)?)
    }
}

struct Elephant {
    client: postgres::Client,
    update: Option<postgres::Statement>,
}

impl Client for Elephant {
    fn execute(&mut self, sql: &str) -> Result<()> {
        Ok(self.client.batch_execute(sql)?)
    }
    fn update(&mut self, id: i32) -> Result<()> {
        if self.update.is_none() {
            self.update = Some(self.client.prepare(UPDATE)?)
        }
        let statement = self.update.as_ref().ok_or("no statement")?;
        Ok(self.client.execute(statement, &[&id]).map(drop)?)
    }
}

type Connect<'a> = &'a dyn Fn() -> Result<Box<dyn Client>>;

/// What a step did: how long its statement took, and the updates beside it.
struct Beside {
    seconds: f64,
    updates: Histogram,
}

fn make(connect: Connect<'_>, rows: u64) -> Result<()> {
    let mut s = connect()?;
    s.execute("CREATE TABLE p (g integer PRIMARY KEY)")?;
    s.execute(&format!("INSERT INTO p SELECT n FROM generate_series(0, {}) n", PARENTS - 1))?;
    s.execute("CREATE TABLE t (id integer PRIMARY KEY, g integer NOT NULL, v integer NOT NULL, s text)")?;
    s.execute(&format!(
        "INSERT INTO t SELECT n, n % {PARENTS}, n, 'row ' || n FROM generate_series(0, {}) n",
        rows - 1
    ))?;
    s.execute("VACUUM ANALYZE t")
}

fn step(connect: Connect<'_>, sql: &str, rows: u64, sessions: u64, around: Duration) -> Result<Beside> {
    let mut definer = connect()?;
    let mut writers = (0..sessions).map(|_| connect()).collect::<Result<Vec<_>>>()?;
    for w in &mut writers {
        w.execute("SET synchronous_commit = off")?
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        let threads: Vec<_> = writers
            .into_iter()
            .enumerate()
            .map(|(n, mut w)| {
                scope.spawn(move || {
                    let (mut random, mut h) = (Random::new(n as u64 + 1), Histogram::default());
                    while !stop.load(Ordering::Relaxed) {
                        let start = Instant::now();
                        w.update(random.below(rows) as i32)?;
                        h.add(start.elapsed().as_nanos() as u64)
                    }
                    Ok::<_, Error>(h)
                })
            })
            .collect();
        std::thread::sleep(around);
        let start = Instant::now();
        let mut done = Ok(());
        match sql {
            "" => std::thread::sleep(around),
            sql => done = definer.execute(sql),
        }
        let seconds = start.elapsed().as_secs_f64();
        std::thread::sleep(around);
        stop.store(true, Ordering::Relaxed);
        let mut updates = Histogram::default();
        for t in threads {
            updates.merge(&t.join().map_err(|_| Error::from("a session's thread failed"))??)
        }
        done?;
        Ok(Beside { seconds, updates })
    })
}

/// All steps on one side, each told as it ends.
fn steps(
    side: &str,
    connect: Connect<'_>,
    rows: u64,
    sessions: u64,
    around: Duration,
) -> Result<Vec<Beside>> {
    let start = Instant::now();
    make(connect, rows)?;
    eprintln!("{side}: {rows} rows made in {} s", number(start.elapsed().as_secs_f64()));
    let all = STEPS.iter().map(|(name, sql)| {
        let beside = step(connect, sql, rows, sessions, around)?;
        eprintln!("{side}: {name}: {} s", number(beside.seconds));
        Ok(beside)
    });
    all.collect()
}

pub fn run(args: Args) -> Result<()> {
    let rows = args.common.rows(10_000_000, 2000);
    let around = Duration::from_secs_f64(args.common.seconds(0.5));
    let folder = args.common.folder()?;
    let mut report = Report::new("alter", "Definitions beside writers", Some(&args.common));
    let ours = [("version", env!("CARGO_PKG_VERSION")), ("updates:", "asynchronous commits")];
    report.settings("Ondol", ours);
    report.say(format!("{rows} rows; {} sessions update rows at random by their key.", args.sessions));
    let mut found: Vec<(&str, Vec<Beside>)> = vec![];
    {
        let db = ours::always_checkpointing().open(folder.path().join("db"))?;
        let connect = || -> Result<Box<dyn Client>> { Ok(Box::new(db.session())) };
        found.push(("Ondol", steps("Ondol", &connect, rows, args.sessions, around)?));
        db.close()?
    }
    if let Some(version) = cluster::version(&args.pgbin) {
        let settings = [("shared_buffers", "2GB"), ("max_wal_size", "8GB")];
        let updates = ("updates:", "asynchronous commits");
        report.settings("PostgreSQL", [("version", version.as_str()), settings[0], settings[1], updates]);
        let cluster = Cluster::start(&args.pgbin, folder.path(), &settings)?;
        let connect = || -> Result<Box<dyn Client>> {
            Ok(Box::new(Elephant { client: cluster.connect()?, update: None }))
        };
        found.push(("PostgreSQL", steps("PostgreSQL", &connect, rows, args.sessions, around)?));
        report.children(cluster.cpu_seconds())
    } else {
        report.say(format!(
            "PostgreSQL was left out: {} has no program postgres (Debian: postgresql-15; --pgbin names the folder).",
            args.pgbin.display()
        ))
    }
    for (n, (name, _)) in STEPS.iter().enumerate() {
        report.section(name);
        let mut table = vec![];
        let mut bars = vec![];
        for (side, steps) in &found {
            let Beside { seconds, updates } = &steps[n];
            let largest = updates.largest_us();
            report.figure(name, side, 0, "seconds", *seconds);
            report.figure(name, side, 0, "longest_us", largest);
            report.figure(name, side, 0, "updates", updates.len() as f64);
            table.push(vec![
                side.to_string(),
                number(*seconds),
                number(largest / 1e3),
                number(updates.percentile_us(0.999) / 1e3),
                number(updates.len() as f64 / (seconds + 2.0 * around.as_secs_f64())),
            ]);
            bars.push(Bar { label: side.to_string(), at: Quartiles::of([largest / 1e3]) })
        }
        report.table(&["side", "seconds", "longest update, ms", "99.9th, ms", "updates a second"], &table);
        report.chart(Chart::bars(&format!("{name}: the longest update"), "ms", bars))
    }
    report.finish()
}
