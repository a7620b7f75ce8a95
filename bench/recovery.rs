//! Restart: a checkpointed subscriber table and logged updates after it; how long images, log and indexes
//! take, each against the least it could take.
//!
//! - **E1** Before the clock runs, the database's files are dropped from the page cache (synced, then
//!   `posix_fadvise`), so that reading them is part of it; the time to read the same bytes is measured in the
//!   same round, just as cold.
//! - **E2** The indexes are also built on the live database, with the same statements.
//! - **E3** After each restart every counter must be what the logged updates made of it.
use ondol::{Database, Opening, Rows, Token, ValueRef};
use ondol_bench::customers::service_mgmt_num;
use ondol_bench::options::Common;
use ondol_bench::random::Random;
use ondol_bench::report::{Report, number};
use ondol_bench::rounds::{Quartiles, Sample, verdict};
use ondol_bench::{Result, machine, ours};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Restart of a large database
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Updates that are in the log but not in the images
    #[arg(long)]
    updates: Option<u64>,
}

const SEED: u64 = 11;

/// What the updates come to: the sum of the last counter of each row.
fn expected(rows: u64, updates: u64) -> i64 {
    let mut random = Random::new(SEED);
    let mut last = vec![0u32; rows as usize];
    (1..=updates).for_each(|n| last[random.below(rows) as usize] = n as u32);
    last.iter().map(|n| i64::from(*n)).sum()
}

fn update(db: &Database, rows: u64, updates: u64) -> Result<()> {
    let mut session = db.session();
    let q4 = session.query_id("q4")?;
    let (mut random, mut result) = (Random::new(SEED), Rows::new());
    let mut waiting: VecDeque<Token> = VecDeque::new();
    for n in 1..=updates {
        let params = [ValueRef::Int8(service_mgmt_num(random.below(rows))), ValueRef::Int8(n as i64)];
        let called = session.call_async(q4, &params, &mut result)?;
        waiting.extend(called.token);
        if waiting.len() >= 1024
            && let Some(t) = waiting.drain(..512).next_back()
        {
            session.wait(t)?;
        }
    }
    waiting.back().map_or(Ok(()), |t| session.wait(*t))?;
    Ok(())
}

/// All files below a folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = vec![];
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => all.extend(files(&path)?),
            false => all.push(path),
        }
    }
    Ok(all)
}

/// E1.
fn drop_from_cache(folder: &Path) -> Result<()> {
    for path in files(folder)? {
        let f = File::open(&path)?;
        f.sync_all()?;
        rustix::fs::fadvise(&f, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

/// Seconds to read so many bytes of the files by as many threads as there are CPUs, the largest files first.
fn read_seconds(folder: &Path, bytes: u64) -> Result<f64> {
    let mut all: Vec<(u64, PathBuf)> = vec![];
    for path in files(folder)? {
        all.push((std::fs::metadata(&path)?.len(), path));
    }
    all.sort_by_key(|f| std::cmp::Reverse(f.0));
    let mut left = bytes;
    // Pieces of at most 16 MiB, so that the threads end together.
    let mut pieces: Vec<(PathBuf, u64, u64)> = vec![];
    for (size, path) in all {
        let size = size.min(left);
        left -= size;
        let mut at = 0;
        while at < size {
            let n = (size - at).min(16 << 20);
            pieces.push((path.clone(), at, n));
            at += n;
        }
    }
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    std::thread::scope(|s| {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        let read = || -> Result<()> {
            let mut buffer = vec![0; 1 << 20];
            while let Some((path, at, n)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut f = File::open(path)?;
                std::io::Seek::seek(&mut f, std::io::SeekFrom::Start(*at))?;
                let mut f = f.take(*n);
                while f.read(&mut buffer)? > 0 {}
            }
            Ok(())
        };
        let all: Vec<_> = (0..threads).map(|_| s.spawn(read)).collect();
        all.into_iter().try_for_each(|t| t.join().map_err(|_| "a reading thread failed")?)
    })?;
    Ok(start.elapsed().as_secs_f64())
}

pub fn run(args: Args) -> Result<()> {
    let rows = args.common.rows(12_000_000, 3_000);
    let updates = args.updates.unwrap_or(if args.common.tiny { 2_000 } else { 5_000_000 });
    let folder = args.common.folder()?;
    let path = folder.path().join("ondol");
    let mut report = Report::new("recovery", "Restart", Some(&args.common));
    report.settings(
        "Ondol",
        ours::settings("every update was durable before the restart; no checkpoint after the load"),
    );
    report.settings(
        "Reading",
        [("the same bytes", "by as many threads as CPUs, dropped from the page cache before")],
    );

    eprintln!("load {rows} rows");
    let db = ours::directory(&path, rows)?;
    eprintln!("log {updates} updates");
    update(&db, rows, updates)?;
    let sum = expected(rows, updates);
    let mut session = db.session();
    for index in ["customer_mgmt", "customer_service", "customer_registration"] {
        session.execute(&format!("DROP INDEX {index}"))?;
    }
    let start = Instant::now();
    ours::build_indexes(&mut session)?;
    let live_indexes = start.elapsed().as_secs_f64();
    drop(session);
    db.close()?;

    // Whole, images, log, indexes, reading the bytes of each.
    const NAMES: [&str; 6] =
        ["whole restart", "images", "log", "indexes", "reading the images' bytes", "reading the log's bytes"];
    let mut seconds: Vec<Vec<f64>> = vec![vec![]; NAMES.len()];
    let (mut image_bytes, mut log_bytes, mut log_core) = (0, 0, vec![]);
    for round in 0..args.common.rounds() {
        eprintln!("restart: round {}", round + 1);
        drop_from_cache(&path)?;
        let (cpu, start) = (machine::cpu_seconds(), Instant::now());
        let db = ours::options().create(false).open_reporting(&path, &|_: Opening| {})?;
        let whole = start.elapsed().as_secs_f64();
        let cpu = machine::cpu_seconds() - cpu;
        let o = db.opened().clone();
        (image_bytes, log_bytes) = (o.recovered.image_bytes, o.recovered.log_bytes);
        let found = db.session().query("SELECT count(*), sum(counter) FROM customer", &[])?;
        let found = (found.row(0).get::<i64>(0)?, found.row(0).get::<String>(1)?);
        if found != (rows as i64, sum.to_string()) {
            return Err(format!("recovered (rows, sum of counters) {found:?}, not {:?}", (rows, sum)).into());
        }
        db.close()?;
        drop_from_cache(&path)?;
        let read_images = read_seconds(&path, image_bytes)?;
        drop_from_cache(&path)?;
        let read_log = read_seconds(&path, log_bytes)?;
        let all = [
            whole,
            o.recovered.image_seconds,
            o.recovered.log_seconds,
            o.index_seconds,
            read_images,
            read_log,
        ];
        for (i, s) in all.into_iter().enumerate() {
            seconds[i].push(s);
            let sample = Sample {
                operations: 1,
                seconds: s,
                cpu_s: if i == 0 { cpu } else { 0.0 },
                ..Sample::default()
            };
            report.raw("restart", NAMES[i], round, &sample);
        }
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get()) as f64;
        log_core.push(log_bytes as f64 / 1e6 / o.recovered.log_seconds.max(1e-9) / cores);
    }
    report.figure("restart", "indexes on the live database", 0, "seconds", live_indexes);
    report.section("Restart, seconds");
    report.say(format!(
        "{} rows and {} logged updates, on {}; {} bytes of images, {} bytes of log.",
        number(rows as f64),
        number(updates as f64),
        machine::file_system(&path),
        number(image_bytes as f64),
        number(log_bytes as f64)
    ));
    let q: Vec<Quartiles> = seconds.iter().map(|s| Quartiles::of(s.iter().copied())).collect();
    let mut table: Vec<Vec<String>> =
        NAMES.iter().zip(&q).map(|(n, q)| vec![n.to_string(), q.text()]).collect();
    table.push(vec!["building the indexes on the live database".into(), number(live_indexes)]);
    report.table(&["what", "seconds (quartiles)"], &table);
    let bars = NAMES.iter().zip(&q).map(|(n, q)| ondol_bench::chart::Bar { label: n.to_string(), at: *q });
    report.chart(ondol_bench::chart::Chart::bars("Restart", "seconds", bars.collect()));
    let log = Quartiles::of(log_core);
    report.table(
        &["aim", "wanted", "found (quartiles)", "verdict"],
        &[
            vec![
                "log, MB/s a core".into(),
                "at least 500".into(),
                log.text(),
                verdict(log, 500.0, true).into(),
            ],
            vec![
                "whole restart, s".into(),
                "at most 10".into(),
                q[0].text(),
                verdict(q[0], 10.0, false).into(),
            ],
        ],
    );
    report.finish()
}
