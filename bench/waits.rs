//! Sessions that wait for each other's rows, and are each other's deadlocks.
//!
//! - **S1** Each session runs transactions of four updates, of rows drawn from few, in any order; those that
//!   a deadlock breaks off are rolled back and not counted. Commits are asynchronous, so that no disk counts.
//! - **S2** 8 sessions against 64, on one table each: what more sessions in each other's way cost.
use ondol::{Database, Isolation, Value};
use ondol_bench::machine::cpu_seconds;
use ondol_bench::options::Common;
use ondol_bench::random::Random;
use ondol_bench::report::Report;
use ondol_bench::rounds::{Bound, Contest, Sample};
use ondol_bench::{Error, Result, ours};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Storms of deadlocks
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Sessions of the two sides
    #[arg(long, value_delimiter = ',', default_value = "8,64", value_parser = clap::value_parser!(u64).range(1..=1024))]
    sessions: Vec<u64>,
    /// Updates of a transaction
    #[arg(long, default_value_t = 4)]
    updates: u64,
}

/// Commits and deadlocks of one session.
fn session(
    db: &Database,
    rows: u64,
    updates: u64,
    seed: u64,
    stop: &AtomicBool,
) -> ondol::Result<(u64, u64)> {
    let mut s = db.session();
    s.execute("SET synchronous_commit = off")?;
    let mut random = Random::new(seed);
    let (mut commits, mut deadlocks) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        s.begin(Isolation::ReadCommitted)?;
        let done = (0..updates).try_for_each(|_| {
            let id = Value::Int4(random.below(rows) as i32);
            s.query("UPDATE t SET n = n + 1 WHERE id = $1", &[id]).map(drop)
        });
        match done.and_then(|()| s.commit()) {
            Ok(_) => commits += 1,
            Err(e) if e.sqlstate() == "40P01" => {
                deadlocks += 1;
                s.rollback()
            }
            Err(e) => return Err(e),
        }
    }
    Ok((commits, deadlocks))
}

fn measure(db: &Database, rows: u64, updates: u64, sessions: u64, seconds: f64) -> Result<Sample> {
    let stop = AtomicBool::new(false);
    let (cpu, start) = (cpu_seconds(), Instant::now());
    let (commits, deadlocks) = std::thread::scope(|scope| {
        let stop = &stop;
        let threads: Vec<_> =
            (0..sessions).map(|n| scope.spawn(move || session(db, rows, updates, n + 1, stop))).collect();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
        let mut all = (0, 0);
        for t in threads {
            let (commits, deadlocks) = t.join().map_err(|_| Error::from("a session's thread failed"))??;
            all = (all.0 + commits, all.1 + deadlocks)
        }
        Ok::<_, Error>(all)
    })?;
    let extra = [("deadlocks_s".to_string(), deadlocks as f64 / start.elapsed().as_secs_f64())].into();
    let seconds = start.elapsed().as_secs_f64();
    Ok(Sample { operations: commits.max(1), seconds, cpu_s: cpu_seconds() - cpu, checksum: None, extra })
}

pub fn run(args: Args) -> Result<()> {
    let rows = args.common.rows(100, 20);
    let folder = args.common.folder()?;
    let db = ours::options().open(folder.path().join("db"))?;
    let mut s = db.session();
    s.execute("CREATE TABLE t (id integer PRIMARY KEY, n bigint)")?;
    s.execute(&format!("INSERT INTO t SELECT g, 0 FROM generate_series(0, {}) g", rows - 1))?;
    drop(s);
    let mut report = Report::new("waits", "Sessions that wait for each other", Some(&args.common));
    report.settings("Ondol", ours::settings("asynchronous commits"));
    report.say(format!("Transactions of {} updates, of {rows} rows at random.", args.updates));
    let mut contest = Contest::new("A storm of deadlocks".to_string(), "commits");
    let seconds = args.common.seconds(1.0);
    let names: Vec<String> = args.sessions.iter().map(|n| format!("{n} sessions")).collect();
    for (name, sessions) in names.iter().zip(&args.sessions) {
        let (db, updates) = (&db, args.updates);
        contest.side(name.clone(), move |_| measure(db, rows, updates, *sessions, seconds));
    }
    if let [few, many] = &names[..] {
        contest.aim("what many keep", many, Some(few), Bound::RateAtLeast(0.25))
    }
    let samples = contest.run(args.common.rounds(), &mut report)?;
    report.section("Deadlocks a second, median");
    let table: Vec<Vec<String>> = names
        .iter()
        .zip(&samples)
        .map(|(name, samples)| {
            let rates = samples.iter().flat_map(|s| s.extra.iter().map(|x| x.1));
            vec![name.clone(), ondol_bench::rounds::Quartiles::of(rates).text()]
        })
        .collect();
    report.table(&["side", "deadlocks (quartiles)"], &table);
    db.close()?;
    report.finish()
}
