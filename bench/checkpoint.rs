//! What transactions feel of a checkpoint and of a long reader.
//!
//! - **K1** Durable updates on two threads, one at a time each; halves on a database on which checkpoints
//!   start by themselves one after the other, and on one without any, alternate, and their p99 are compared
//!   within a round.
//! - **K2** A reader holds one snapshot while others update: at its end it must find the sum that it found at
//!   its start, and the memory of the database, taken twice a second, must stay bounded.
use ondol::{Database, Isolation};
use ondol_bench::chart::{Bar, Chart};
use ondol_bench::histogram::Histogram;
use ondol_bench::options::Common;
use ondol_bench::report::{Report, number};
use ondol_bench::rounds::{Quartiles, verdict};
use ondol_bench::{Error, Result, machine, ours};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Checkpoints and long readers under updates
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Seconds of the long reader
    #[arg(long)]
    reader_seconds: Option<f64>,
}

const THREADS: u64 = 2;

/// Updates on all threads while `work` runs.
fn beside<R>(
    db: &Database,
    rows: u64,
    durable: bool,
    work: impl FnOnce() -> Result<R>,
) -> Result<(R, Histogram)> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        let stop = &stop;
        let threads: Vec<_> =
            (0..THREADS).map(|_| s.spawn(move || ours::updates(db, rows, durable, stop))).collect();
        let done = work();
        stop.store(true, Ordering::Relaxed);
        let mut all = Histogram::default();
        for t in threads {
            all.merge(&t.join().map_err(|_| Error::from("an updating thread failed"))??);
        }
        Ok((done?, all))
    })
}

pub fn run(args: Args) -> Result<()> {
    let rows = args.common.rows(1_000_000, 2_000);
    let folder = args.common.folder()?;
    let mut report = Report::new("checkpoint", "Checkpoints and long readers", Some(&args.common));
    report.settings("Ondol", ours::settings("each update waits until it is durable"));
    report.say(format!(
        "{} rows, {THREADS} threads that update rows at random, on {}.",
        number(rows as f64),
        machine::file_system(folder.path())
    ));
    let db = ours::directory(&folder.path().join("ondol"), rows)?;
    let checkpointing =
        ours::directory_with(ours::always_checkpointing(), &folder.path().join("checkpointing"), rows)?;
    checkpoints(&args, &db, &checkpointing, rows, &mut report)?;
    checkpointing.close()?;
    reader(&args, &db, rows, &mut report)?;
    db.close()?;
    report.finish()
}

/// Checkpoints that were completed since the database was opened.
fn completed(db: &Database) -> Result<u64> {
    let rows = db.session().query("SELECT value FROM ondol_status WHERE name = 'checkpoints'", &[])?;
    let count = rows.iter().find_map(|r| match r.values().next() {
        Some(ondol::ValueRef::Text(t)) => t.parse().ok(),
        _ => None,
    });
    count.ok_or_else(|| "ondol_status names no number of checkpoints".into())
}

/// K1.
fn checkpoints(
    args: &Args,
    without_any: &Database,
    always: &Database,
    rows: u64,
    report: &mut Report,
) -> Result<()> {
    let half = Duration::from_secs_f64(args.common.seconds(5.0));
    let (mut with, mut without): (Vec<Histogram>, Vec<Histogram>) = (vec![], vec![]);
    let mut taken = 0u64;
    for round in 0..args.common.rounds() {
        eprintln!("checkpoints: round {}", round + 1);
        for k in 0..2 {
            // The order turns with the round.
            let running = (k + round) % 2 == 0;
            let db = if running { always } else { without_any };
            let before = completed(db)?;
            let ((), h) = beside(db, rows, true, || {
                std::thread::sleep(half);
                Ok(())
            })?;
            let n = completed(db)? - before;
            taken += n;
            let side = if running { "with a checkpoint" } else { "without" };
            for (name, v) in [
                ("updates", h.len() as f64),
                ("p50_us", h.percentile_us(0.5)),
                ("p99_us", h.percentile_us(0.99)),
                ("p999_us", h.percentile_us(0.999)),
                ("largest_us", h.largest_us()),
                ("checkpoints", n as f64),
            ] {
                report.figure("checkpoint", side, round, name, v);
            }
            if running { with.push(h) } else { without.push(h) }
        }
    }
    let q = |all: &[Histogram], p: f64| Quartiles::of(all.iter().map(|h| h.percentile_us(p)));
    report.section("Latency of durable updates, microseconds");
    let mut table = vec![];
    for (name, all) in [("without", &without), ("with a checkpoint running", &with)] {
        let n: u64 = all.iter().map(Histogram::len).sum();
        table.push(vec![
            name.into(),
            number(n as f64),
            q(all, 0.5).text(),
            q(all, 0.99).text(),
            q(all, 0.999).text(),
        ]);
    }
    report.table(&["", "updates", "p50 (quartiles)", "p99", "p99.9"], &table);
    let ratio =
        Quartiles::of(with.iter().zip(&without).map(|(a, b)| a.percentile_us(0.99) / b.percentile_us(0.99)));
    let found = verdict(ratio, 1.1, false);
    let aim = vec!["p99 with against without".into(), "at most 1.10".into(), ratio.text(), found.into()];
    report.table(&["aim", "wanted", "found (quartiles)", "verdict"], &[aim]);
    report.say(format!("{} checkpoints were completed meanwhile.", number(taken as f64)));
    let bar = |label: &str, at| Bar { label: label.into(), at };
    let bars = vec![
        bar("p50 without", q(&without, 0.5)),
        bar("p50 with a checkpoint", q(&with, 0.5)),
        bar("p99 without", q(&without, 0.99)),
        bar("p99 with a checkpoint", q(&with, 0.99)),
    ];
    report.chart(Chart::bars("Durable updates beside a checkpoint", "microseconds", bars));
    Ok(())
}

fn total(db: &Database) -> f64 {
    db.memory().used as f64
}

/// K2.
fn reader(args: &Args, db: &Database, rows: u64, report: &mut Report) -> Result<()> {
    let seconds = args.reader_seconds.unwrap_or(if args.common.tiny { 1.0 } else { 60.0 });
    eprintln!("a reader of {seconds} s");
    let sum = |s: &mut ondol::Session| -> Result<String> {
        Ok(s.query("SELECT sum(counter) FROM customer", &[])?.row(0).get::<String>(0)?)
    };
    let mut session = db.session();
    session.begin(Isolation::RepeatableRead)?;
    let before = sum(&mut session)?;
    let start = Instant::now();
    let mut points = vec![(0.0, total(db) / 1e6)];
    let ((), h) = beside(db, rows, false, || {
        let step = (seconds / 120.0).clamp(0.05, 0.5);
        while start.elapsed().as_secs_f64() < seconds {
            std::thread::sleep(Duration::from_secs_f64(step));
            points.push((start.elapsed().as_secs_f64(), total(db) / 1e6));
        }
        Ok(())
    })?;
    let after = sum(&mut session)?;
    session.commit()?;
    if before != after {
        return Err(format!(
            "the reader's snapshot moved: the counters summed up to {before}, then to {after}"
        )
        .into());
    }
    let fresh = sum(&mut session)?;
    if fresh == before {
        return Err("the updates are not there after the reader".into());
    }
    for (i, (s, mb)) in points.iter().enumerate() {
        report.figure("long reader", "Ondol", i, "seconds", *s);
        report.figure("long reader", "Ondol", i, "megabytes", *mb);
    }
    let most = points.iter().map(|p| p.1).fold(0.0, f64::max);
    let at = |share: f64| points[((points.len() - 1) as f64 * share) as usize].1;
    report.section("A long reader under updates");
    report.table(
        &["", ""],
        &[
            vec!["seconds".into(), number(seconds)],
            vec!["updates meanwhile".into(), number(h.len() as f64)],
            vec!["memory at the start, MB".into(), number(points[0].1)],
            vec!["at half time".into(), number(at(0.5))],
            vec!["at the end".into(), number(at(1.0))],
            vec!["at most".into(), number(most)],
        ],
    );
    report.say("The reader's sum over all rows was the same at its start and at its end.");
    report.chart(Chart::lines(
        "Memory beside a long reader",
        "seconds",
        "MB",
        vec![("total".into(), points)],
    ));
    Ok(())
}
