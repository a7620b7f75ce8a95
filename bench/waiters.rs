//! Ten thousand sessions that wait, each a fiber of a worker, beside eight that work on threads of their own.
//!
//! - **W1** *Rows.* The waiters queue for a hundred rows, which others have changed and not committed. The
//!   eight change rows of their own, by commits that nobody waits for.
//! - **W2** *Durability.* Each waiter has inserted a row, and waits until that is durable. Fibers leave
//!   rounds to the log's flusher, which is kept busy meanwhile, by a callback of a commit that became
//!   durable. The eight read: whoever writes much leads a round when the log's buffer is full.
//! - **W3** *Rows to be fetched.* Each waiter has opened a cursor in a transaction, has taken one row, and
//!   waits to be asked for the next. The eight read: beside ten thousand snapshots nothing old goes, which
//!   is not what waiting costs.
//! - **W4** In each round the waiters are started anew. While they wait, the eight run for the time that is
//!   measured, and the system is asked what the waiters' threads have taken of the processors. Then one row
//!   is let go, or the flusher, and it is counted how many fibers went on.
//! - **W5** The eight run beside one waiter as well: a snapshot that is held costs writers something, since
//!   each row keeps the version that it sees. That is one waiter's doing, not ten thousand's.
//! - **W6** Each session has run a statement, and has been told that it is idle (`Session::shrink`), before
//!   it is counted as such. Memory is what the process has gained since before its sessions, when old
//!   versions of rows were collected and the allocator had given back what it could.
use ondol::{Database, Isolation, Rows, Session, Value};
use ondol_base::fiber::{Turn, Worker};
use ondol_base::park::Parker;
use ondol_bench::machine::{cpu_seconds, resident_bytes};
use ondol_bench::options::Common;
use ondol_bench::random::Random;
use ondol_bench::report::{Report, number};
use ondol_bench::rounds::{Bound, Contest, Quartiles, Sample, verdict};
use ondol_bench::{Error, Result, ours};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Sessions that wait beside sessions that work
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Sessions that wait
    #[arg(long, value_parser = clap::value_parser!(u64).range(200..=30_000))]
    waiters: Option<u64>,
    /// Threads that they share
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=64))]
    workers: u64,
    /// Sessions that work
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=64))]
    busy: u64,
}

/// Rows that are waited for.
const WANTED: u64 = 100;
/// Rows of each session that works.
const OWN: u64 = 1000;
/// Bytes of address space for a fiber's stack.
const STACK: usize = 256 << 10;
/// Something is wrong if the waiters are not so far by then.
const LIMIT: Duration = Duration::from_secs(120);
/// Longer than a pass of collection is away.
const COLLECTED: Duration = Duration::from_millis(200);
/// A worker that had nothing to do for so long has only fibers that wait.
const SETTLED: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, PartialEq)]
enum Awaited {
    Row,
    Durability,
    Fetching,
}

/// What a worker shows to others.
#[derive(Default)]
struct Shown {
    /// Its folder below /proc.
    thread: OnceLock<PathBuf>,
    resumptions: AtomicU64,
    waiting: AtomicU64,
}

impl Shown {
    /// Seconds on a processor.
    fn cpu_seconds(&self) -> Result<f64> {
        let thread = self.thread.get().ok_or("a worker has not begun")?;
        let text = std::fs::read_to_string(Path::new("/proc").join(thread).join("schedstat"))?;
        let ns = text.split_whitespace().next().and_then(|n| n.parse::<f64>().ok());
        Ok(ns.ok_or_else(|| Error::from("the system does not tell a thread's time"))? / 1e9)
    }
}

/// What the waiters have in common.
#[derive(Default)]
struct Shared {
    over: AtomicBool,
    /// Where those are parked that have what they waited for, or wait to be asked for a row.
    got: Mutex<Vec<Arc<Parker>>>,
    failed: Mutex<Option<String>>,
}

/// From a waiter's wait to its end.
fn wait(s: &mut Session, n: i32, awaited: Awaited, shared: &Shared) -> ondol::Result<()> {
    if awaited == Awaited::Durability {
        s.query("INSERT INTO waited VALUES ($1)", &[Value::Int4(n)])?;
        return Ok(());
    }
    s.begin(Isolation::ReadCommitted)?;
    let mut cursor = None;
    if awaited == Awaited::Fetching {
        cursor = Some(s.open("SELECT id, n FROM own", &[])?)
    } else {
        s.query("UPDATE wanted SET n = n + 1 WHERE id = $1", &[Value::Int4(n % WANTED as i32)])?;
    }
    // The row is kept until the end, so that one that is let go is had by one.
    let parker = Arc::new(Parker::new());
    shared.got.lock().unwrap_or_else(PoisonError::into_inner).push(parker.clone());
    let mut rows = Rows::new();
    while !shared.over.load(SeqCst) {
        if let Some(cursor) = &mut cursor {
            s.fetch(cursor, 1, &mut rows)?;
        }
        parker.park(None);
    }
    s.rollback();
    Ok(())
}

/// A worker's thread: sessions first, then, when told, a fiber for each.
fn worker(
    sessions: Vec<(i32, Session)>,
    awaited: Awaited,
    shared: &Arc<Shared>,
    shown: &Shown,
    ready: &Sender<()>,
    go: &Receiver<()>,
) -> Result<()> {
    let _ = shown.thread.set(std::fs::read_link("/proc/thread-self")?);
    ready.send(())?;
    go.recv()?;
    let mut worker = Worker::new(STACK);
    for (n, mut s) in sessions {
        let shared = shared.clone();
        worker.start(move || {
            if let Err(e) = wait(&mut s, n, awaited, &shared) {
                let mut failed = shared.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(e.to_string());
            }
        })
    }
    loop {
        let turn = worker.turn(Some(SETTLED))?;
        shown.resumptions.store(worker.resumptions(), SeqCst);
        match turn {
            Turn::Idle => shown.waiting.store(worker.tasks() as u64, SeqCst),
            Turn::Ran => {}
            Turn::Empty => return Ok(()),
        }
    }
}

/// Bytes in RAM when what was done before is collected, and the allocator has given back what it does not
/// use.
fn given_back() -> u64 {
    let mut last = u64::MAX;
    loop {
        ondol_bench::machine::give_back();
        let now = resident_bytes();
        if now + (64 << 10) > last {
            return now;
        }
        last = now;
        std::thread::sleep(COLLECTED)
    }
}

/// Waits for something that the others bring about.
fn until(what: &str, shared: &Shared, mut done: impl FnMut() -> bool) -> Result<()> {
    let start = Instant::now();
    while !done() {
        if let Some(e) = shared.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(format!("a waiter: {e}").into());
        }
        if start.elapsed() > LIMIT {
            return Err(format!("{what} took longer than {LIMIT:?}").into());
        }
        std::thread::sleep(Duration::from_millis(2))
    }
    Ok(())
}

fn threads() -> Result<f64> {
    Ok(std::fs::read_dir("/proc/self/task")?.count() as f64)
}

/// The waiters, all waiting.
struct Crowd {
    shared: Arc<Shared>,
    shown: Vec<Arc<Shown>>,
    workers: Vec<JoinHandle<std::result::Result<(), String>>>,
    /// Who has the rows: the first has one of them.
    holders: Vec<Session>,
    /// Keeps the flusher until it is dropped.
    gate: Option<Sender<()>>,
    awaited: Awaited,
    waiters: u64,
    found: Vec<(String, f64)>,
}

impl Crowd {
    fn start(db: &Database, args: &Args, waiters: u64, awaited: Awaited) -> Result<Crowd> {
        let mut crowd = Crowd {
            shared: Arc::default(),
            shown: vec![],
            workers: vec![],
            holders: vec![],
            gate: None,
            awaited,
            waiters,
            found: vec![],
        };
        // A worker without fibers would end.
        let workers = args.workers.min(waiters);
        let mut s = db.session();
        match awaited {
            Awaited::Row => {
                for rows in ["id = 0", "id > 0"] {
                    let mut s = db.session();
                    s.begin(Isolation::ReadCommitted)?;
                    s.execute(&format!("UPDATE wanted SET n = 0 WHERE {rows}"))?;
                    crowd.holders.push(s)
                }
            }
            Awaited::Fetching => {}
            Awaited::Durability => {
                s.execute("TRUNCATE waited")?;
                let ((gate, opened), (arrive, arrived)) = (channel::<()>(), channel());
                let (done, token) = s.held(|s| s.execute("INSERT INTO waited VALUES (-1)"));
                done?;
                db.when_durable(token.ok_or("nothing was held")?, move |_| {
                    // Nobody listens only if the bench has failed.
                    let _ = arrive.send(());
                    let _ = opened.recv();
                });
                arrived.recv_timeout(LIMIT)?;
                crowd.gate = Some(gate)
            }
        }
        let (before, threads_before) = (given_back(), threads()?);
        let (ready, all_ready) = channel();
        let mut go = vec![];
        for w in 0..workers {
            let (db, shared, shown) = (db.clone(), crowd.shared.clone(), Arc::new(Shown::default()));
            let ((tell, told), ready) = (channel(), ready.clone());
            let (theirs, all) = (shown.clone(), workers);
            let body = move || {
                // W6
                let session = |n: u64| {
                    let mut s = db.session();
                    s.query("UPDATE wanted SET n = n + 1 WHERE id = $1", &[Value::Int4(-1)])?;
                    s.shrink();
                    ondol::Result::Ok((n as i32, s))
                };
                let sessions = (0..waiters).filter(|n| n % all == w).map(session);
                let sessions = sessions.collect::<ondol::Result<Vec<_>>>().map_err(|e| e.to_string())?;
                worker(sessions, awaited, &shared, &theirs, &ready, &told).map_err(|e| e.to_string())
            };
            crowd.workers.push(std::thread::Builder::new().name(format!("waiters-{w}")).spawn(body)?);
            crowd.shown.push(shown);
            go.push(tell)
        }
        for _ in 0..workers {
            all_ready.recv_timeout(LIMIT)?
        }
        let each = |bytes: u64| bytes.saturating_sub(before) as f64 / 1024.0 / waiters as f64;
        crowd.find("idle KiB", each(given_back()));
        for tell in go {
            tell.send(())?
        }
        let waiting = || crowd.shown.iter().map(|s| s.waiting.load(SeqCst)).sum::<u64>();
        until("the beginning of all waits", &crowd.shared, || waiting() == waiters)?;
        crowd.find("waiting KiB", each(resident_bytes()));
        crowd.find("threads", threads()? - threads_before - workers as f64);
        Ok(crowd)
    }
    fn find(&mut self, what: &str, value: f64) {
        self.found.push((what.into(), value))
    }
    fn resumptions(&self) -> u64 {
        self.shown.iter().map(|s| s.resumptions.load(SeqCst)).sum()
    }
    fn cpu_seconds(&self) -> Result<f64> {
        self.shown.iter().map(|s| s.cpu_seconds()).sum()
    }
    /// What the eight do meanwhile.
    fn beside(&mut self, work: impl FnOnce() -> Result<Sample>) -> Result<Sample> {
        let (cpu, resumptions) = (self.cpu_seconds()?, self.resumptions());
        let sample = work()?;
        self.find("cores", (self.cpu_seconds()? - cpu) / sample.seconds);
        self.find("resumptions", (self.resumptions() - resumptions) as f64);
        Ok(sample)
    }
    /// Lets one row go, or the flusher, or asks one for a row; then ends all.
    fn end(mut self) -> Result<Vec<(String, f64)>> {
        let before = self.resumptions();
        drop(self.gate.take());
        self.holders.drain(..1.min(self.holders.len())).for_each(|mut s| s.rollback());
        let resumed = || self.resumptions() - before;
        let due = if self.awaited == Awaited::Durability { self.waiters } else { 1 };
        if self.awaited == Awaited::Fetching
            && let Some(one) = self.shared.got.lock().unwrap_or_else(PoisonError::into_inner).last()
        {
            one.unpark()
        }
        until("the first wakings", &self.shared, || resumed() >= due)?;
        // Long enough for more than are due.
        std::thread::sleep(4 * SETTLED);
        let more = (resumed() - due) as f64;
        self.find("woken in vain", more);
        self.shared.over.store(true, SeqCst);
        self.holders.clear();
        for parker in self.shared.got.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            parker.unpark()
        }
        let ended = || self.workers.iter().all(|w| w.is_finished());
        until("the end of all waiters", &self.shared, ended)?;
        for w in self.workers {
            w.join().map_err(|_| "a worker's thread failed")??
        }
        match self.shared.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(e) => Err(format!("a waiter: {e}").into()),
            None => Ok(self.found),
        }
    }
}

/// Sessions at work for that time, which count their statements.
fn work(db: &Database, writes: bool, busy: u64, seconds: f64) -> Result<Sample> {
    let stop = AtomicBool::new(false);
    let session = |n: u64| -> ondol::Result<u64> {
        let mut s = db.session();
        s.execute("SET synchronous_commit = off")?;
        let (mut random, mut done) = (Random::new(n + 1), 0);
        let sql = match writes {
            true => "UPDATE own SET n = n + 1 WHERE id = $1",
            false => "SELECT n FROM own WHERE id = $1",
        };
        while !stop.load(SeqCst) {
            s.query(sql, &[Value::Int4((n * OWN + random.below(OWN)) as i32)])?;
            done += 1
        }
        Ok(done)
    };
    let (cpu, start) = (cpu_seconds(), Instant::now());
    let operations = std::thread::scope(|scope| {
        let session = &session;
        let threads: Vec<_> = (0..busy).map(|n| scope.spawn(move || session(n))).collect();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, SeqCst);
        let mut all = 0;
        for t in threads {
            all += t.join().map_err(|_| Error::from("a session's thread failed"))??
        }
        Ok::<_, Error>(all)
    })?;
    let (seconds, cpu_s) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    Ok(Sample { operations: operations.max(1), seconds, cpu_s, checksum: None, extra: vec![] })
}

pub fn run(args: Args) -> Result<()> {
    let waiters = args.waiters.unwrap_or(if args.common.tiny { 200 } else { 10_000 });
    let seconds = args.common.seconds(1.0);
    let folder = args.common.folder()?;
    let db = ours::options().open(folder.path().join("db"))?;
    let mut s = db.session();
    s.execute("CREATE TABLE waited (id integer PRIMARY KEY)")?;
    for (table, rows) in [("wanted", WANTED), ("own", args.busy * OWN)] {
        s.execute(&format!("CREATE TABLE {table} (id integer PRIMARY KEY, n bigint)"))?;
        s.execute(&format!("INSERT INTO {table} SELECT g, 0 FROM generate_series(0, {}) g", rows - 1))?;
    }
    drop(s);
    let mut report =
        Report::new("waiters", "Sessions that wait beside sessions that work", Some(&args.common));
    report.settings("Ondol", ours::settings("asynchronous commits of those that work"));
    report.say(format!(
        "{waiters} sessions wait, fibers of {} threads; {} work, on threads of their own.",
        args.workers, args.busy
    ));
    for (awaited, name, writes) in [
        (Awaited::Row, "a row", true),
        (Awaited::Durability, "durability", false),
        (Awaited::Fetching, "rows to be fetched", false),
    ] {
        let mut contest = Contest::new(format!("Waiting for {name}"), "statements");
        let (db, args) = (&db, &args);
        contest.side("alone", move |_| work(db, writes, args.busy, seconds));
        for (side, waiters) in [("beside waiters", waiters), ("beside one", 1)] {
            contest.side(side, move |_| {
                let mut crowd = Crowd::start(db, args, waiters, awaited)?;
                let mut sample = crowd.beside(|| work(db, writes, args.busy, seconds))?;
                sample.extra = crowd.end()?;
                Ok(sample)
            });
        }
        contest.aim("what the others keep", "beside waiters", Some("alone"), Bound::RateAtLeast(0.95));
        let of_one = "the same, of their rate beside one";
        contest.aim(of_one, "beside waiters", Some("beside one"), Bound::RateAtLeast(0.95));
        let samples = contest.run(args.common.rounds(), &mut report)?;
        let aims = [
            ("threads", "threads for waiters", 0.0),
            ("idle KiB", "KiB of an idle session", 2.0),
            ("waiting KiB", "KiB of a session that waits", 32.0),
            ("cores", "of a core for all waiters", 0.01),
            ("resumptions", "fibers that went on meanwhile", 0.0),
            ("woken in vain", "fibers woken in vain", 0.0),
        ];
        let found = |what: &str| {
            let of = |s: &Sample| s.extra.iter().find(|e| e.0 == what).map(|e| e.1);
            Quartiles::of(samples[1].iter().filter_map(of))
        };
        let line = |(what, text, most): &(&str, &str, f64)| {
            let q = found(what);
            vec![
                text.to_string(),
                format!("at most {}", number(*most)),
                q.text(),
                verdict(q, *most, false).into(),
            ]
        };
        let lines: Vec<_> = aims.iter().map(line).collect();
        report.table(&["aim", "wanted", "found (quartiles)", "verdict"], &lines);
    }
    db.close()?;
    report.finish()
}
