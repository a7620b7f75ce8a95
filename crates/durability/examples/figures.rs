//! Figures of this machine: a lone commit's latency, group commit, log bytes a commit, checkpoint and
//! recovery speed. `cargo run --release -p ondol-durability --example figures -- FOLDER [COMMITS] [SEGMENTS]`
//!
//! The rows stand in SEGMENTS of 2 MiB: as many as the caches do not hold show what memory itself costs.
//! Phases of recovery are given in processor time of its thread, which other work on the machine disturbs
//! least.
use ondol_base::media::{Storage, disk::Disk};
use ondol_durability::checkpoint::{Checkpointer, Segment, Source, full_speed};
use ondol_durability::page::*;
use ondol_durability::recovery::{Progress, Target, recover};
use ondol_durability::*;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const FORMAT: Format = Format::Slots { units: 6 };

/// Nothing but words: each commit is installed here before it is logged, so a snapshot is what stands here at
/// rest.
struct Plain {
    words: Vec<AtomicU64>,
    segments: u32,
}
impl Plain {
    fn new(segments: u32) -> Arc<Plain> {
        let n = (segments as usize + 1) * SEGMENT_SIZE / 8;
        Arc::new(Plain { words: (0..n).map(|_| AtomicU64::new(0)).collect(), segments })
    }
    fn all(&self) -> Vec<PageId> {
        (1..=self.segments).flat_map(|s| (0..PAGES_PER_SEGMENT).map(move |i| SegmentId(s).page(i))).collect()
    }
}
impl Target for Plain {
    fn begin(&self, _: &[Segment]) -> Result<(), String> {
        Ok(())
    }
    fn words(&self, page: PageId) -> &[AtomicU64] {
        let at = page.0 as usize * PAGE_SIZE / 8;
        &self.words[at..at + PAGE_SIZE / 8]
    }
    fn finish(&self, _: CommitTs, _: &[PageId], _: &[(SegmentId, HeapId)]) {}
}
impl Source for Plain {
    fn pin(&self) {}
    fn settle(&self, _: CommitTs) {}
    fn unpin(&self) {}
    fn segments(&self) -> Vec<Segment> {
        let formats = vec![FORMAT; PAGES_PER_SEGMENT];
        (1..=self.segments).map(|s| Segment { id: SegmentId(s), heap: 1, formats: formats.clone() }).collect()
    }
    fn changed_pages(&self, _: CommitTs) -> Vec<PageId> {
        self.all()
    }
    fn image(&self, page: PageId, _: CommitTs, out: &mut [u8]) {
        for (w, b) in self.words(page).iter().zip(out.chunks_exact_mut(8)) {
            b.copy_from_slice(&w.load(Ordering::Relaxed).to_ne_bytes());
        }
    }
    fn published(&self, _: CommitTs) {}
}

/// Seconds that this thread has run, as the operating system counts them; 0 where it does not say.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else {
        eprintln!("expected a folder that does not exist yet");
        std::process::exit(2)
    };
    let commits: u64 = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(4_000_000);
    let segments: u32 = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(64);
    let path = std::path::Path::new(&folder);
    let config = |threads| {
        let disk: Arc<dyn Storage> = Arc::new(Disk::create(path).expect("the folder can be made"));
        Config { threads, ..Config::new(disk) }
    };
    let start = Instant::now();
    let (log, _) = recover(config(0), &Plain::new(0), &|_| {}).expect("created");
    println!("create and open: {:?}", start.elapsed());
    let start = Instant::now();
    log.close().expect("closed");
    println!("close: {:?}", start.elapsed());
    drop(log);
    let start = Instant::now();
    let (log, _) = recover(config(0), &Plain::new(0), &|_| {}).expect("opened");
    println!("open: {:?}", start.elapsed());

    let memory = Plain::new(segments);
    for s in 1..=segments {
        let segment = SegmentId(s);
        log.system(System::SegmentCreate { segment, heap: 1 }).expect("logged");
        for i in 0..PAGES_PER_SEGMENT {
            log.system(System::PageFormat { page: segment.page(i), format: FORMAT }).expect("logged");
        }
    }
    log.flush().expect("durable");
    let (size, slots) = FORMAT.slots();
    let all = segments as u64 * (PAGES_PER_SEGMENT * slots) as u64;
    let mut changes = Changes::new();
    let mut value = 0u64;
    let mut one = |log: &Log| {
        value += 1;
        let row = ((value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * all) >> 32;
        let page = SegmentId(1).page((row / slots as u64) as usize);
        let offset = PAGE_HEADER + (row as usize % slots) * size;
        let delta = value ^ (value - 1) ^ 0x0101_0101_0101_0101;
        memory.words(page)[(offset + SLOT_HEADER + 56) / 8].fetch_xor(delta.to_le(), Ordering::Relaxed);
        changes.clear();
        changes.push_at(page.offset() + (offset + SLOT_HEADER + 56) as u64, &delta.to_le_bytes());
        let r = log.reserve(StreamId(0), changes.len(), Kind::Commit, 0, 0, |_| {}).expect("reserved");
        let ts = r.ts();
        r.commit(&changes);
        ts
    };
    let mut times: Vec<_> = (0..1000)
        .map(|_| {
            let start = Instant::now();
            let ts = one(&log);
            log.wait_durable(ts).expect("durable");
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    println!("lone durable commit: median {:?}, p99 {:?}", times[500], times[990]);
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

    for threads in [1, 0, 1] {
        let again = Plain::new(segments);
        let phases = RefCell::new(vec![("start", cpu())]);
        let note = |p: Progress| {
            let name = match p {
                Progress::ReadingLog { .. } => "log read",
                Progress::LoadingImages { .. } => "commits proved, images opened",
                Progress::Applying { .. } => "images loaded",
                Progress::Proving { .. } => "differences applied",
            };
            phases.borrow_mut().push((name, cpu()))
        };
        let start = Instant::now();
        let (log, found) = recover(config(threads), &again, &note).expect("recovered");
        let all = start.elapsed().as_secs_f64();
        phases.borrow_mut().push(("pages proved, log begun", cpu()));
        assert!(
            again
                .words
                .iter()
                .zip(&memory.words)
                .all(|(a, b)| { a.load(Ordering::Relaxed) == b.load(Ordering::Relaxed) })
        );
        println!(
            "recovery ({}): {all:.2} s in all; log {:.0} MB/s, {} records; images {:.0} MB/s",
            if threads == 1 { "one thread" } else { "all cores" },
            found.log_bytes as f64 / found.log_seconds / 1e6,
            found.records,
            found.image_bytes as f64 / found.image_seconds / 1e6,
        );
        let phases = phases.into_inner();
        for w in phases.windows(2).filter(|_| threads == 1) {
            println!("  {}: {:.1} ms of processor time", w[1].0, (w[1].1 - w[0].1) * 1e3);
        }
        if threads == 0 {
            let before = cpu();
            let done = Checkpointer::new().run(&log, &*memory, &full_speed, true).expect("checkpoint");
            let mb = done.bytes as f64 / 1e6;
            println!(
                "checkpoint: {} pages, {mb:.1} MB, {:.3} s, {:.1} ms of processor time",
                done.pages,
                done.seconds,
                (cpu() - before) * 1e3
            );
            log.close().expect("closed");
        }
    }

    // What a checkpoint does to lone commits. Its images are of no use, since this memory has no versions:
    // nothing recovers from here on.
    let again = Plain::new(segments);
    let log = Arc::new(recover(config(0), &again, &|_| {}).expect("recovered").0);
    for pace in [None, Some(100), Some(0), None] {
        let running = Arc::new(AtomicU64::new(1));
        let checkpoint = pace.map(|pace| {
            let (log, again, running) = (log.clone(), again.clone(), running.clone());
            std::thread::spawn(move || {
                let done = Checkpointer::new().run(&log, &*again, &|| pace, true);
                running.store(0, Ordering::Relaxed);
                done.expect("checkpoint").seconds
            })
        });
        let mut times = vec![];
        while if pace.is_some() { running.load(Ordering::Relaxed) == 1 } else { times.len() < 2000 } {
            let start = Instant::now();
            let ts = one(&log);
            log.wait_durable(ts).expect("durable");
            times.push(start.elapsed());
        }
        times.sort_unstable();
        let seconds = checkpoint.map_or(0.0, |c| c.join().expect("ended"));
        println!(
            "lone durable commits beside {pace:?} ({seconds:.1} s): {}, median {:?}, p99 {:?}, longest {:?}",
            times.len(),
            times[times.len() / 2],
            times[times.len() * 99 / 100],
            times[times.len() - 1],
        );
    }
}
