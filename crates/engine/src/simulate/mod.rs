//! The whole engine in simulated worlds: several lives of one database on disks that lose power, fail and
//! fill up, with clients whose every answer is held against a model.
//!
//! ```text
//! seed -> history: life, failure, life, failure, ... , last life
//!           life:  open and recover -> compare with the model -> clients, checkpoints, background work
//!                  -> power failure at some I/O operation | death of the process | failed medium | orderly end
//! ```
//! - **H1** One seed is one history, step by step: the same seed gives the same trace (its hash is compared).
//! - **H2** A failed opening changes nothing that was promised: the next one is held against the same
//!   journal.
//! - **H3** The last life of a history is kind: whatever the media did before, it must open and hold what was
//!   promised.
//! - **H4** What a history may end with, other than success, is one sentence that names the seed's first
//!   fault.
//!
//! What is checked: see [`model`] for rows, snapshots and promises, [`check`] for indexes and definitions,
//! [`keys`] for foreign keys.
//! Worlds share nothing, so histories run on as many OS threads as wanted.
//!
//! Deliberately not here: SQL text and plans (the statements are calls of the engine), real files, real
//! threads.
pub mod check;
mod definers;
pub mod keys;
pub mod model;
pub mod mutations;
mod portals;
pub mod queues;
pub mod report;
pub mod sequences;
pub mod workload;

use crate::Database;
use crate::database::Options;
use model::{Journal, State};
use mutations::{Favour, Mutation};
use ondol_base::media::Storage;
use ondol_base::park::Parker;
use ondol_base::sim::{self, Random, World};
use ondol_base::sync::Mutex;
use ondol_base::{clock, thread};
use ondol_durability::files::{Place, SMALLEST_FILE};
use ondol_durability::mark;
use ondol_durability::ring_file::{Given, Promise, bytes_of};
use ondol_types::data::Data;
use ondol_types::{SqlError, sqlstate};
use queues::Meeting;
use report::{PHASES, Stats};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;
use workload::{Client, Shared};

/// What a run of histories is like.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Transactions of a life; 0: by the seed.
    pub transactions: u64,
    /// Log streams; 0: by the seed.
    pub streams: usize,
    /// Keep a readable trace.
    pub trace: bool,
    pub mutation: Option<&'static Mutation>,
    /// Histories are as for variants that show there.
    pub favour: Option<Favour>,
}

impl Settings {
    fn favour(&self) -> Option<Favour> {
        self.favour.or(self.mutation.map(|m| m.favour))
    }
}

/// What became of one history.
pub struct History {
    pub seed: u64,
    pub stats: Stats,
    /// A digest of every step (H1).
    pub hash: u64,
    pub outcome: Result<(), String>,
    pub trace: Vec<String>,
}

/// What the media do in a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Media {
    Kind,
    FailedSyncs,
    FailedWrites,
    FailedReads,
    Full,
}

/// How a life ends, if nothing fails before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The power fails at an I/O operation, this many from the start.
    Power(u64),
    /// The power fails at a step of somebody who is in a phase, this many such steps from the start.
    PowerIn(&'static str, u64),
    /// The process dies after this time.
    Death(Duration),
    /// The database is closed.
    Close,
}

#[derive(Clone, Debug)]
struct Plan {
    seed: u64,
    media: Media,
    end: End,
    clients: usize,
    transactions: u64,
    streams: usize,
    tables: u8,
    keys: u64,
    asynchronous: bool,
    /// Some commits are held.
    holds: bool,
    tight: bool,
    bulky: bool,
    ddl: f64,
    /// Clients have patience for any wait, and queue for rows in the end.
    patient: bool,
    /// Clients are fibers of so many workers, which leave rounds to the flusher; with none they are threads.
    workers: usize,
    /// Sessions with foreign keys beside the clients.
    keyed: bool,
    /// Many definers want the same few names in the end.
    crowded: bool,
    /// Indexes built or dropped beside the clients.
    builds: u64,
    checkpoints: u64,
    background: bool,
    log_file_size: u64,
    /// The ring that the log goes to.
    ring: Option<&'static str>,
    /// The database is marked already.
    marked: bool,
    /// Opens without the ring that the life before was on, whose process died: its files hold everything.
    abandon: bool,
    slots: u64,
    /// Of entries in it.
    wait: Duration,
    /// The ring was left behind before.
    stale: bool,
    /// Tries first to open without that ring (`None`), or with another.
    wrong: Option<Option<&'static str>>,
}

/// The names of rings: each is on a disk of its own.
const RINGS: [&str; 2] = ["ring-a", "ring-b"];

/// A history's rings. They are drawn apart, so that everything else is as without them.
struct Rings {
    random: Random,
    /// Some lives are on a ring.
    any: bool,
    slots: u64,
    last: &'static str,
    /// Those that were left behind with entries.
    stale: BTreeSet<&'static str>,
}
impl Rings {
    fn new(seed: u64, settings: &Settings) -> Rings {
        let mut random = Random::new(seed).branch(0x52494e47);
        let any = random.chance(0.5) || settings.mutation.is_some_and(|m| m.name.starts_with("ring_"));
        let slots = *random.pick(&[12, 50, 300]).unwrap_or(&12);
        Rings { random, any, slots, last: RINGS[0], stale: BTreeSet::new() }
    }
    fn plan(&mut self, plan: &mut Plan, here: &Arc<World>, died: bool, last: bool) {
        if !self.any {
            return;
        }
        let r = &mut self.random;
        plan.marked = here.disk("data").contents(mark::NAME).is_some();
        plan.slots = self.slots;
        plan.wait = Duration::from_millis(*r.pick(&[1, 20, 1000]).unwrap_or(&20));
        if !plan.marked {
            plan.ring = if r.chance(0.8) { r.pick(&RINGS).copied() } else { None };
            self.last = plan.ring.unwrap_or(self.last);
            plan.stale = self.stale.contains(self.last);
            return;
        }
        plan.ring = Some(self.last);
        plan.stale = self.stale.contains(self.last);
        if r.chance(0.3) && !plan.stale {
            let others: Vec<_> = RINGS.into_iter().filter(|n| *n != self.last).collect();
            plan.wrong = Some(if r.chance(0.5) { None } else { r.pick(&others).copied() })
        } else if died && !last && r.chance(0.3) {
            (plan.ring, plan.abandon) = (None, true);
            self.stale.insert(self.last);
        }
    }
    fn ended(&mut self, life: &Stats) {
        if life.get("lives on a ring") > 0 {
            self.stale.remove(self.last);
        }
    }
}

impl Plan {
    fn draw(r: &mut Random, settings: &Settings, streams: usize, last: bool) -> Plan {
        let media = match r.below(100) {
            _ if last => Media::Kind,
            0..6 => Media::FailedSyncs,
            6..10 => Media::FailedWrites,
            10..12 => Media::FailedReads,
            12..20 => Media::Full,
            _ => Media::Kind,
        };
        let end = match r.below(100) {
            _ if last => End::Close,
            // Soon enough to meet recovery.
            0..20 => End::Power(r.below(90)),
            20..50 => End::Power(r.below(700)),
            50..80 => {
                let phase = *r.pick(&PHASES).unwrap_or(&PHASES[0]);
                let within = *r.pick(&[3, 30, 300]).unwrap_or(&3);
                End::PowerIn(phase, r.below(within))
            }
            80..90 => End::Death(Duration::from_micros(r.below(100_000))),
            90..95 => End::Power(r.below(3000)),
            _ => End::Close,
        };
        let quick = r.chance(0.7);
        let seed = r.next();
        let mut plan = Plan {
            seed,
            patient: seed >> 20 & 7 == 0,
            workers: [0, 1, 0, 2, 0, 1, 0, 3][(seed >> 24 & 7) as usize],
            holds: seed >> 28 & 3 == 0,
            keyed: seed >> 30 & 3 == 0,
            crowded: false,
            media,
            end,
            clients: 2 + r.below(5) as usize,
            transactions: match settings.transactions {
                0 if last => 4,
                0 if quick => 3 + r.below(8),
                0 => 8 + r.below(30),
                n => n,
            },
            streams,
            tables: 1 + r.below(4) as u8,
            keys: 4 + r.below(60),
            asynchronous: r.chance(0.6),
            tight: !last && r.chance(0.1),
            bulky: r.chance(0.2),
            ddl: *r.pick(&[0.0, 0.02, 0.1, 0.25]).unwrap_or(&0.0),
            builds: if r.chance(0.3) { 1 + r.below(8) } else { 0 },
            checkpoints: r.below(5),
            background: r.chance(0.85),
            log_file_size: if r.chance(0.8) { SMALLEST_FILE } else { 2 * SMALLEST_FILE },
            ring: None,
            marked: false,
            abandon: false,
            stale: false,
            slots: 12,
            wait: Given::USUAL_WAIT,
            wrong: None,
        };
        if media == Media::Full || matches!(end, End::PowerIn("recycling", _)) {
            plan.favour(Favour::Recycling, r)
        }
        if let Some(favour) = settings.favour().filter(|_| !last) {
            plan.favour(favour, r)
        }
        plan
    }
    fn favour(&mut self, what: Favour, r: &mut Random) {
        match what {
            Favour::Usual => {}
            Favour::Streams => self.clients = 6,
            Favour::Rounds => {
                (self.clients, self.end) = (6, End::Power(r.below(300)));
                (self.ddl, self.builds, self.tight) = (0.0, 0, false);
                self.transactions = self.transactions.max(20)
            }
            Favour::FailedSyncs => {
                self.media = Media::FailedSyncs;
                self.seed &= !8;
            }
            Favour::Deaths => {
                self.end = match r.chance(0.5) {
                    true => End::Death(Duration::from_micros(r.below(30_000))),
                    false => End::Power(r.below(120)),
                }
            }
            Favour::Checkpoints => {
                (self.bulky, self.checkpoints) = (true, 8);
                self.transactions = self.transactions.max(20)
            }
            Favour::Waits => {
                (self.patient, self.end, self.media) = (true, End::Close, Media::Kind);
                (self.tight, self.ddl, self.builds) = (false, 0.0, 0)
            }
            Favour::Keys => {
                (self.keyed, self.ddl, self.builds, self.tight) = (true, 0.0, 0, false);
                // Else chains grow that take all steps of the world.
                self.background = true;
                self.transactions = self.transactions.max(40)
            }
            Favour::Portals => {
                (self.end, self.media) = (End::Close, Media::Kind);
                (self.background, self.tight) = (true, false)
            }
            Favour::Definers | Favour::Crowds => {
                self.crowded = what == Favour::Crowds;
                (self.patient, self.end, self.media) = (true, End::Close, Media::Kind);
                (self.tight, self.ddl, self.tables) = (false, 0.25, 3)
            }
            // Not each, since a database is made first.
            Favour::FullDisks => {
                if r.chance(0.5) {
                    (self.media, self.seed) = (Media::Full, self.seed & !16)
                }
            }
            Favour::Recycling => {
                (self.bulky, self.checkpoints, self.log_file_size) = (true, 8, SMALLEST_FILE);
                self.transactions = self.transactions.max(20)
            }
            Favour::Sequences => {
                (self.media, self.end, self.ddl) = (Media::Kind, End::Power(r.below(300)), 0.0);
                self.transactions = self.transactions.max(20)
            }
            Favour::Segments => {
                (self.ddl, self.checkpoints, self.tables) = (0.25, 8, 2);
                self.transactions = self.transactions.max(20)
            }
            Favour::Indexes => {
                (self.builds, self.end, self.media) = (12, End::Close, Media::Kind);
                (self.tables, self.background, self.tight) = (1, true, false);
                self.transactions = self.transactions.max(20)
            }
        }
    }
    /// `used`: the bytes that the fullest disk holds already.
    fn world(&self, settings: &Settings, used: u64) -> sim::Config {
        let mut c = sim::Config { parallelism: 2, ..sim::Config::default() };
        let rate = [0.002, 0.01, 0.05][(self.seed % 3) as usize];
        match self.media {
            Media::Kind => {}
            Media::FailedSyncs => {
                c.sync_error = rate;
                c.sync_error_loses = self.seed & 8 == 0
            }
            Media::FailedWrites => c.write_error = rate,
            Media::FailedReads => c.read_error = rate,
            // Less than a log file takes, or none; or so much that it is met in the midst of the life.
            Media::Full if self.seed & 16 == 0 => c.disk_bytes = used + (self.seed >> 8) % (128 << 10),
            Media::Full => c.disk_bytes = used + (20 << 10) + self.seed % (600 << 10),
        }
        if let Some(m) = settings.mutation {
            m.apply(&mut c)
        }
        c
    }
    fn options(&self) -> Options {
        Options {
            create: true,
            beside: vec![],
            memory_limit: if self.tight { (24 + (self.seed % 16) as usize) << 20 } else { 96 << 20 },
            checkpoint_log_bytes: 200 << 10,
            checkpoint_interval_s: 1,
            log_folders: vec![],
            log_file_size: self.log_file_size,
            log_buffer_size: 128 << 10,
            reserved: 512 << 20,
            background: self.background,
            log_ring: None,
            lose_acknowledged_commits: false,
            data: Data::versions(),
        }
    }
}

/// The promises of the last life, and the state it began with.
#[derive(Default)]
struct Past {
    state: State,
    journal: Journal,
    /// Log streams that an opening succeeded with: they open on a full disk too.
    streams: usize,
    sequences: sequences::Book,
}

/// Runs one history.
pub fn history(seed: u64, settings: &Settings) -> History {
    let mut r = Random::new(seed);
    let mut stats = Stats::default();
    let mut trace = vec![];
    let mut hash = seed;
    let mut streams = match settings.streams {
        0 => *r.pick(&[1, 1, 2, 2, 3]).unwrap_or(&1),
        n => n,
    };
    if settings.favour() == Some(Favour::Streams) {
        streams = streams.max(2)
    }
    let lives = 3 + r.below(6);
    let uids = Arc::new(AtomicI64::new(1));
    let past = Arc::new(Mutex::new(Past::default()));
    let mut outcome = Ok(());
    let mut rings = Rings::new(seed, settings);
    let mut world: Option<Arc<World>> = None;
    // The process of the last life died, and no power failed.
    let mut died = false;
    for life in 0..=lives {
        let mut plan = Plan::draw(&mut r, settings, streams, life == lives);
        let config = plan.world(settings, world.as_ref().map_or(0, |w| w.fullest_disk()));
        let here = match world.take() {
            None => World::new(plan.seed, config),
            Some(w) => w.reboot_with(plan.seed, config),
        };
        rings.plan(&mut plan, &here, died, life == lives);
        match plan.end {
            End::Power(n) => here.arm_power_failure(n),
            End::PowerIn(phase, n) => here.arm_power_failure_in(phase, n),
            End::Death(_) | End::Close => {}
        }
        here.trace(settings.trace);
        let (w, p, u) = (here.clone(), past.clone(), uids.clone());
        let (end, media) = (plan.end, plan.media);
        let text = format!("life {life} of {lives}: {plan:?}");
        let counts = Arc::new(Mutex::new(Stats::default()));
        let s = counts.clone();
        let done = here.try_run(move || run(&w, &plan, &p, u, &s)).map_err(|f| f.to_string()).and_then(|d| d);
        stats.add(&counts.lock());
        stats.count("lives", 1);
        stats.count(&format!("media: {media:?}"), 1);
        let phases = here.phases_at_failure();
        if here.power_is_lost() && !matches!(end, End::Death(_)) {
            stats.count("power failures", 1);
            for p in &phases {
                stats.count(&format!("power failures in {p}"), 1)
            }
            if phases.is_empty() {
                stats.count("power failures in none of these", 1)
            }
        } else if matches!(end, End::Death(_)) && here.power_is_lost() {
            stats.count("deaths of the process", 1)
        }
        stats.count("I/O operations", here.io_ops());
        stats.count("steps", here.steps());
        died = matches!(end, End::Death(_)) && here.power_is_lost();
        rings.ended(&counts.lock());
        hash = hash.rotate_left(17) ^ here.trace_hash();
        if settings.trace {
            trace.push(text.clone());
            trace.append(&mut here.take_trace());
        }
        if let Err(e) = done {
            outcome = Err(format!("{e}\n  in {text}"));
            break;
        }
        if r.chance(0.1) && settings.streams == 0 {
            streams = (streams + 1).min(3)
        }
        world = Some(here);
    }
    stats.count("histories", 1);
    History { seed, stats, hash, outcome, trace }
}

/// A message without a seed: the world's own would name another than the history's.
type Told = Result<(), String>;

fn open(
    world: &Arc<World>,
    plan: &Plan,
    ring: Option<&str>,
    lose_acknowledged_commits: bool,
) -> Result<Arc<Database>, SqlError> {
    let data: Arc<dyn Storage> = world.disk("data");
    let streams = (1..plan.streams)
        .map(|k| Place { storage: world.disk(&format!("log{k}")), folder: String::new() })
        .collect();
    let ring = ring.map(|name| Given {
        storage: world.disk(name),
        name: "ring".into(),
        size: Some(bytes_of(plan.slots)),
        promise: Some(Promise::PowerFailure),
        wait: plan.wait,
    });
    let options = Options { lose_acknowledged_commits, ..plan.options() };
    Database::open_on(data, streams, ring, options, &|_| {})
}

/// The SQLSTATE with which the opening of a marked database without its ring is refused.
const REFUSED: &str = "55000";

/// One life, on the world's first fiber.
fn run(
    world: &Arc<World>,
    plan: &Plan,
    past: &Arc<Mutex<Past>>,
    uids: Arc<AtomicI64>,
    stats: &Arc<Mutex<Stats>>,
) -> Told {
    let mut r = Random::new(plan.seed).branch(7);
    let finished = Arc::new(AtomicBool::new(false));
    let killer = match plan.end {
        End::Death(after) => {
            let (world, finished) = (world.clone(), finished.clone());
            thread::spawn("killer", move || {
                let until = clock::now() + after;
                while !finished.load(Ordering::Relaxed) {
                    if clock::now() >= until {
                        return world.process_failure();
                    }
                    thread::sleep(Duration::from_micros(200));
                }
            })
            .ok()
        }
        _ => None,
    };
    let done = live(world, plan, past, uids, stats, &mut r);
    finished.store(true, Ordering::Relaxed);
    if let Some(k) = killer {
        k.join().map_err(|_| "the killer panicked")?
    }
    done
}

fn live(
    world: &Arc<World>,
    plan: &Plan,
    past: &Arc<Mutex<Past>>,
    uids: Arc<AtomicI64>,
    stats: &Arc<Mutex<Stats>>,
    r: &mut Random,
) -> Told {
    let faulty = plan.media != Media::Kind;
    let made = past.lock().streams >= plan.streams;
    if let Some(wrong) = plan.wrong {
        match open(world, plan, wrong, false) {
            Ok(_) => {
                return Err(format!("the database opens on {wrong:?}, and its log is on {:?}", plan.ring));
            }
            Err(e) if e.sqlstate() == REFUSED => stats.lock().count("openings without their ring refused", 1),
            Err(_) if faulty || world.power_is_lost() => {}
            Err(e) => return Err(format!("not refused for its ring: {} {e}", e.sqlstate())),
        }
    }
    let opened = match open(world, plan, plan.ring, plan.abandon) {
        // A ring that was left behind, with entries of a life before that.
        Err(e) if e.sqlstate() == REFUSED && plan.stale => {
            stats.lock().count("rings that were left behind refused", 1);
            open(world, plan, plan.ring, true)
        }
        other => other,
    };
    let db = match opened {
        Ok(db) => db,
        Err(e) => {
            let why = match e.sqlstate() {
                sqlstate::IO_ERROR if world.power_is_lost() => "openings cut off",
                sqlstate::IO_ERROR if faulty => "openings refused by the medium",
                sqlstate::DISK_FULL if faulty && !made => "openings without room for a new log folder",
                sqlstate::DISK_FULL if faulty && plan.ring.is_some() && !plan.marked => {
                    "openings without room for a ring or its mark"
                }
                sqlstate::OUT_OF_MEMORY if plan.tight => "openings refused for want of memory",
                code => return Err(format!("the database does not open: {code} {e}")),
            };
            stats.lock().count(why, 1);
            return Ok(());
        }
    };
    stats.lock().count("recoveries", 1);
    if plan.abandon {
        stats.lock().count("rings left behind", 1)
    }
    if let Some(ring) = &db.opened().recovered.ring {
        let mut s = stats.lock();
        s.count("lives on a ring", 1);
        s.count("entries brought home", ring.entries);
    }
    stats.lock().count("log streams that went on without room", db.opened().recovered.continued);

    // model/M2: what came back.
    let clock = db.opened().recovered.clock;
    let state = {
        let mut p = past.lock();
        p.streams = p.streams.max(plan.streams);
        let (state, fate) = p.journal.recovered(&p.state, clock)?;
        let mut s = stats.lock();
        s.count("commits recovered", fate.recovered);
        s.count("commits lost that were never acknowledged", fate.lost - fate.lost_asynchronous);
        s.count("commits lost that were acknowledged asynchronously", fate.lost_asynchronous);
        p.state = state.clone();
        p.journal = Journal { promised: clock - 1, newest: clock - 1, ..Journal::default() };
        state
    };
    let rows = check::database(&db, &state, true)
        .map_err(|e| format!("after recovery to commit {}: {e}", clock - 1))?;
    stats.lock().count("rows compared", rows);
    let book = past.lock().sequences.clone();
    book.check(&db).map_err(|e| format!("after recovery to commit {}: {e}", clock - 1))?;
    keys::check(&db).map_err(|e| format!("after recovery to commit {}: {e}", clock - 1))?;

    let shared = Arc::new(Shared {
        db: db.clone(),
        journal: Mutex::new(std::mem::take(&mut past.lock().journal)),
        uids,
        tables: plan.tables,
        keys: plan.keys,
        asynchronous: plan.asynchronous,
        holds: plan.holds,
        faulty,
        tight: plan.tight,
        ddl: plan.ddl,
        bulky: plan.bulky,
        patient: plan.patient,
        counts: Mutex::default(),
        sequences: Mutex::new(book),
        sequence_turn: Mutex::default(),
    });
    let worked = work(plan, &shared, stats, r);

    // The journal is whole now, whatever happened.
    let lost = world.power_is_lost();
    shared.promise_durable();
    let whole = {
        let mut j = shared.journal.lock();
        j.replay(&state)
    };
    let mut done = worked.and(whole.as_ref().map(drop).map_err(String::clone));
    if done.is_ok() && !lost && db.kernel.log.failure().is_none() {
        let whole = whole.unwrap_or_default();
        if plan.background {
            db.settle()
        }
        // The world may have ended while that took its time.
        if !world.power_is_lost() {
            done = at_rest(&db, &whole, plan, stats)
        }
    }
    let orderly = match plan.end {
        End::Close => true,
        _ => r.chance(0.3),
    };
    let mut closed = Ok(());
    shared.sequences.lock().may_settle(&db);
    if orderly || lost || done.is_err() {
        shared.promise_durable();
        closed = db.close();
    } else {
        // As a power failure between two operations.
        match plan.end {
            End::Power(_) | End::PowerIn(..) => world.power_failure(),
            _ => world.process_failure(),
        }
        let _ = db.close();
    }
    // Closing says exactly what sequences have given out.
    shared.promise_durable();
    let mut journal = std::mem::take(&mut *shared.journal.lock());
    if orderly && closed.is_ok() && !lost {
        journal.promised = journal.newest;
        stats.lock().count("orderly ends", 1)
    }
    {
        let mut s = stats.lock();
        s.count("statements checked against their snapshot", journal.seen.len() as u64);
        for (k, v) in shared.counts.lock().iter() {
            s.count(k, *v)
        }
    }
    {
        let mut p = past.lock();
        p.journal = journal;
        p.sequences = std::mem::take(&mut *shared.sequences.lock());
    }
    match closed {
        Err(e) if done.is_ok() && !faulty && !world.power_is_lost() => {
            Err(format!("the database does not close: {e}"))
        }
        _ => done,
    }
}

/// Everything has ended well: memory holds what the model does, and nothing else.
fn at_rest(db: &Arc<Database>, whole: &State, plan: &Plan, stats: &Arc<Mutex<Stats>>) -> Told {
    let rows =
        check::database(db, whole, plan.background).map_err(|e| format!("at the end of a life: {e}"))?;
    stats.lock().count("rows compared", rows);
    keys::check(db).map_err(|e| format!("at the end of a life: {e}"))?;
    if plan.background {
        let backlog = db.kernel.collector.backlog();
        if backlog != 0 {
            return Err(format!("{backlog} versions are left when nobody reads"));
        }
    }
    Ok(())
}

/// Where sessions run.
pub struct Workers(Vec<sim::Worker>);
impl Workers {
    /// None: each session on a thread of its own.
    pub fn new(count: usize) -> Workers {
        Workers((0..count).filter_map(|_| sim::Worker::new()).collect())
    }
    /// Starts the session of that number.
    fn spawn<T: Send + 'static>(
        &self,
        n: usize,
        name: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<thread::JoinHandle<T>> {
        match self.0.len() {
            0 => thread::spawn(name, f),
            all => self.0[n % all].spawn(name, f),
        }
    }
}

/// Sleeps, and lets others of its worker run meanwhile.
fn nap(time: Duration) {
    let (parker, end) = (Parker::new(), clock::now() + time);
    while parker.park(Some(end)) {}
}

/// Clients and checkpoints, until all are done or nothing succeeds any more.
fn work(plan: &Plan, shared: &Arc<Shared>, stats: &Arc<Mutex<Stats>>, r: &mut Random) -> Told {
    Client::new(100, shared.clone(), r.branch(100)).set_up()?;
    let mut fibers = vec![];
    let workers = Workers::new(plan.workers);
    for who in 0..plan.clients {
        let client = Client::new(who, shared.clone(), r.branch(who as u64));
        let n = plan.transactions;
        fibers.extend(workers.spawn(who, "client", move || client.work(n)).ok());
    }
    if plan.builds > 0 {
        let builder = Client::new(102, shared.clone(), r.branch(102));
        let n = plan.builds;
        fibers.extend(thread::spawn("builder", move || builder.build(n)).ok());
    }
    sequences::set_up(shared)?;
    for n in 0..2 {
        let (shared, r, times) = (shared.clone(), r.branch(104 + n), plan.transactions);
        fibers.extend(thread::spawn("sequences", move || sequences::take(shared, r, times)).ok());
    }
    if plan.keyed {
        match keys::set_up(&mut shared.db.connect()) {
            Ok(()) => fibers.extend(keys::start(shared, &workers, &mut r.branch(114), plan.transactions)),
            Err(e) => shared.permit(&e).map_err(|e| format!("tables with foreign keys: {e}"))?,
        }
    }
    let (patient, crowded, mut queues) = (plan.patient, plan.crowded, r.branch(103));
    let (s, stats, plan, mut r) = (shared.clone(), stats.clone(), plan.clone(), r.branch(101));
    let checkpoints = move || {
        for _ in 0..plan.checkpoints {
            thread::sleep(Duration::from_micros(r.below(6000)));
            if s.over() {
                break;
            }
            let full = r.chance(0.2);
            match if full { s.db.checkpoint_full() } else { s.db.checkpoint() } {
                Ok(()) => stats.lock().count("checkpoints", 1),
                Err(e) if s.faulty || s.over() => {
                    s.permit(&e).map_err(|e| format!("a checkpoint: {e}"))?;
                    stats.lock().count("checkpoints that failed", 1)
                }
                Err(e) => return Err(format!("a checkpoint failed: {e}")),
            }
        }
        Ok(())
    };
    fibers.extend(thread::spawn("checkpoints", checkpoints).ok());
    let mut done = Ok(());
    for f in fibers {
        let one = f.join().unwrap_or_else(|_| Err("a fiber panicked".into()));
        done = done.and(one)
    }
    if done.is_ok() && patient && !shared.over() {
        done = definers::play(shared, &workers, &mut queues.branch(1), crowded)
            .map_err(|e| format!("definers side by side: {e}"))
    }
    if done.is_ok() && patient && !shared.over() {
        let rows = (0..shared.tables).filter_map(|t| Meeting::of(&shared.db, &model::table_name(t)));
        if let Some(rows) = rows.max_by_key(|r| r.rows.len()) {
            done = match rows.play(&workers, &mut queues) {
                // A full database has no room for those who queue; their scene is over.
                Err(e) if shared.tight && e.contains(sqlstate::OUT_OF_MEMORY) => Ok(()),
                done => done.map_err(|e| format!("queueing for rows: {e}")),
            };
            shared.count("queues for rows")
        }
    }
    done
}

/// Runs `count` histories from `seed` on, on `threads` OS threads; `each` is told of every one as it ends,
/// and whether to go on is its answer.
pub fn histories(
    seed: u64,
    count: u64,
    threads: usize,
    settings: &Settings,
    each: &(dyn Fn(History) -> bool + Sync),
) {
    use std::sync::atomic::AtomicU64;
    let next = AtomicU64::new(0);
    let go_on = AtomicBool::new(true);
    let work = || {
        while go_on.load(Ordering::Relaxed) {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                return;
            }
            if !each(history(seed.wrapping_add(i), settings)) {
                go_on.store(false, Ordering::Relaxed)
            }
        }
    };
    // Real threads, outside of every world.
    std::thread::scope(|s| {
        for _ in 1..threads.max(1) {
            s.spawn(work);
        }
        work()
    })
}
