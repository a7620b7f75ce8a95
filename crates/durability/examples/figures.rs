//! Figures of this machine: a lone commit's latency, group commit, log bytes a commit, checkpoint and recovery speed.
//! `cargo run --release -p ondol-durability --example figures -- FOLDER [COMMITS]`
#[path = "../tests/common/mod.rs"]
mod common;
use common::Memory;
use ondol_base::media::{Storage, disk::Disk};
use ondol_base::oid::Oid;
use ondol_durability::checkpoint::{Checkpointer, Pace};
use ondol_durability::page::*;
use ondol_durability::recovery::recover;
use ondol_durability::*;
use std::sync::Arc;
use std::time::Instant;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        eprintln!("expected a folder that does not exist yet");
        std::process::exit(2)
    };
    let commits: u64 = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(4_000_000);
    let path = std::path::Path::new(&folder);
    let config = || {
        let disk: Arc<dyn Storage> = Arc::new(Disk::create(path).expect("the folder can be made"));
        Config::new(disk)
    };
    let start = Instant::now();
    let memory = Memory::new();
    let (log, _) = recover(config(), &memory, &|_| {}).expect("created");
    println!("create and open: {:?}", start.elapsed());
    let segment = SegmentId(1);
    let format = Format::Slots { units: 6 };
    log.system(System::SegmentCreate { segment, heap: 1 }).expect("logged");
    for i in 0..PAGES_PER_SEGMENT {
        log.system(System::PageFormat { page: segment.page(i), format }).expect("logged");
    }
    log.flush().expect("durable");
    let (size, slots) = format.slots();
    let mut changes = Changes::new();
    let mut value = 0u64;
    let mut one = |log: &Log| {
        value += 1;
        let at = value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let page = segment.page(at as usize % PAGES_PER_SEGMENT);
        let oid = Oid(page.offset() + (PAGE_HEADER + at as usize / 512 % slots * size) as u64);
        changes.clear();
        changes.push(oid, 56, &(value ^ (value - 1) ^ 0x0101_0101_0101_0101).to_le_bytes());
        let r = log.reserve(StreamId(0), changes.len(), Kind::Commit, 0, 0, |_| {}).expect("reserved");
        let ts = r.ts();
        r.commit(&changes);
        ts
    };
    let mut times: Vec<_> = (0..2000)
        .map(|_| {
            let start = Instant::now();
            let ts = one(&log);
            log.wait_durable(ts).expect("durable");
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("lone durable commit: median {:?}, p99 {:?}", times[1000], times[1980]);
    let before = log.kept_bytes();
    let start = Instant::now();
    for _ in 0..commits {
        let ts = one(&log);
        log.acknowledge_async(ts);
    }
    log.flush().expect("durable");
    let s = start.elapsed().as_secs_f64();
    let bytes = log.kept_bytes() - before;
    println!(
        "asynchronous commits: {:.2} M/s, {:.1} log bytes each",
        commits as f64 / s / 1e6,
        bytes as f64 / commits as f64
    );
    drop(log);
    for threads in [1, 0] {
        let mut c = config();
        c.threads = threads;
        let start = Instant::now();
        let memory = Memory::new();
        let (log, found) = recover(c, &memory, &|_| {}).expect("recovered");
        println!(
            "recovery ({}): {:.2} s in all; log {:.0} MB/s, {} records",
            if threads == 1 { "one thread" } else { "all cores" },
            start.elapsed().as_secs_f64(),
            found.log_bytes as f64 / found.log_seconds / 1e6,
            found.records
        );
        if threads == 0 {
            let done = Checkpointer::new().run(&log, &*memory, Pace::Full, true).expect("checkpoint");
            println!("checkpoint: {} pages, {} bytes, {:.3} s", done.pages, done.bytes, done.seconds);
            log.close().expect("closed");
        }
    }
}
