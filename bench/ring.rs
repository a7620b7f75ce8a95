//! What a commit costs with the log on files, on a ring, and without waiting.
//!
//! - **R1** Three databases on one disk, each with the same table: one that logs to files, one whose log is
//!   on a ring in `--memory` as well, and one whose commits are asynchronous. Sessions update rows at random,
//!   one commit at a time each; no checkpoint runs.
//! - **R2** Where the ring's memory is not persistent it is named as emulated: it shows the speed, and
//!   survives no power failure.
use ondol::{Database, LogRing, LogRingPromise, OpenOptions, TempFolder};
use ondol_bench::histogram::Histogram;
use ondol_bench::machine::cpu_seconds;
use ondol_bench::options::Common;
use ondol_bench::report::{Report, number};
use ondol_bench::rounds::{Bound, Contest, Quartiles, Sample};
use ondol_bench::{Error, Result, machine, ours};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Commits with the log on files, on a ring, and asynchronous
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// A folder for the ring: on persistent memory (a file system with DAX), or on one that emulates it
    #[arg(long, default_value = "/dev/shm")]
    memory: PathBuf,
    /// Bytes of the ring
    #[arg(long, default_value_t = 64 << 20)]
    ring_size: u64,
    /// Sessions that commit at once, by commas
    #[arg(long, value_delimiter = ',', default_value = "1,4,16", value_parser = clap::value_parser!(u64).range(1..=256))]
    sessions: Vec<u64>,
}

const FILES: &str = "files";
const RING: &str = "ring";
const ASYNCHRONOUS: &str = "asynchronous";

/// So many sessions for some seconds; what was not durable at their end is waited for, and counts.
fn measure(
    db: &Database,
    rows: u64,
    sessions: u64,
    durable: bool,
    seconds: f64,
) -> Result<(Sample, Histogram)> {
    let stop = AtomicBool::new(false);
    let (cpu, start) = (cpu_seconds(), Instant::now());
    let all = std::thread::scope(|s| {
        let stop = &stop;
        let threads: Vec<_> =
            (0..sessions).map(|_| s.spawn(move || ours::updates(db, rows, durable, stop))).collect();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
        let mut all = Histogram::default();
        for t in threads {
            all.merge(&t.join().map_err(|_| Error::from("a session's thread failed"))??);
        }
        Ok::<_, Error>(all)
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let extra =
        [("p50_us", 0.5), ("p99_us", 0.99)].map(|(name, p)| (name.to_string(), all.percentile_us(p))).into();
    Ok((Sample { operations: all.len(), seconds, cpu_s: cpu_seconds() - cpu, checksum: None, extra }, all))
}

/// A database whose log is on a ring, and what that promises.
fn ringed(path: &Path, ring: &Path, size: u64, rows: u64) -> Result<(Database, LogRingPromise)> {
    let options = |promise| -> OpenOptions {
        ours::options().log_ring(LogRing { size: Some(size), promise: Some(promise), ..LogRing::at(ring) })
    };
    // Made empty first, to see what the memory is.
    let promise = match options(LogRingPromise::PowerFailure).open(path) {
        Ok(db) => db.close().map(|()| LogRingPromise::PowerFailure)?,
        Err(_) => LogRingPromise::ServerCrash,
    };
    Ok((ours::directory_with(options(promise), path, rows)?, promise))
}

pub fn run(args: Args) -> Result<()> {
    let rows = args.common.rows(200_000, 2_000);
    let folder = args.common.folder()?;
    let memory = TempFolder::inside(&args.memory)?;
    let at = |name: &str| folder.path().join(name);
    let files = ours::directory(&at(FILES), rows)?;
    let (ring, promise) = ringed(&at(RING), &memory.path().join("ring"), args.ring_size, rows)?;
    let asynchronous = ours::directory(&at(ASYNCHRONOUS), rows)?;
    let mut report = Report::new("ring", "The log on a ring", Some(&args.common));
    report.settings(FILES, ours::settings("each commit waits for a sync of the log's file"));
    let emulated = match promise {
        LogRingPromise::PowerFailure => "on persistent memory",
        LogRingPromise::ServerCrash => "emulated: no power failure is survived",
    };
    let medium = machine::file_system(memory.path());
    report.settings(
        RING,
        ours::settings(&format!(
            "each commit waits for a fence; ring of {} bytes on {medium}, promise {promise} ({emulated})",
            args.ring_size
        )),
    );
    report.settings(ASYNCHRONOUS, ours::settings("no commit waits; what is open is waited for after each 4,096 commits of a session, and at the end"));
    report.say(format!(
        "{} rows, sessions that update rows at random, one commit at a time each; the databases, with the log's files, are on {}.",
        number(rows as f64),
        machine::file_system(folder.path())
    ));
    let sides = [(FILES, &files, true), (RING, &ring, true), (ASYNCHRONOUS, &asynchronous, false)];
    let seconds = args.common.seconds(1.0);
    let mut latencies = vec![];
    for sessions in &args.sessions {
        let all: Vec<RefCell<Vec<Histogram>>> = sides.iter().map(|_| RefCell::default()).collect();
        let plural = if *sessions == 1 { "" } else { "s" };
        let mut contest = Contest::new(format!("Commits of {sessions} session{plural}"), "commits");
        for ((name, db, durable), all) in sides.iter().zip(&all) {
            contest.side(*name, move |_| {
                let (sample, h) = measure(db, rows, *sessions, *durable, seconds)?;
                all.borrow_mut().push(h);
                Ok(sample)
            });
        }
        contest.aim("the ring against files", RING, Some(FILES), Bound::RateAtLeast(1.0));
        contest.run(args.common.rounds(), &mut report)?;
        for ((name, ..), all) in sides.iter().zip(&all) {
            let at = |p| Quartiles::of(all.borrow().iter().map(|h| h.percentile_us(p))).text();
            latencies.push(vec![format!("{name}, {sessions} session{plural}"), at(0.5), at(0.99)]);
        }
    }
    report.section("Latency of a commit, microseconds");
    report.table(&["side", "p50 (quartiles)", "p99"], &latencies);
    for db in [files, ring, asynchronous] {
        db.close()?
    }
    report.finish()
}
