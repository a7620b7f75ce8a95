//! One world: its seed, what it may do to those inside, its disks and its trace.
use super::net::{Net, Network};
use super::random::{Random, mix};
use super::schedule::{Scheduler, fold};
use super::storage::{Disk, SimStorage};
use crate::media::Promise;
use crate::shm::Block;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// What a world is like. Chances are between 0 and 1; the default world is a kind one, whose disks fail only
/// by a power failure that is asked for.
#[derive(Clone, Debug)]
pub struct Config {
    /// A run of more steps than this has hung.
    pub step_limit: u64,
    /// Simulated nanoseconds that a step takes.
    pub step_ns: u64,
    /// Bytes of a fiber's stack.
    pub stack_bytes: usize,
    /// How often a yield point lets others run; drawn by the seed when `None`.
    pub preempt: Option<f64>,
    /// How often a wait for a condition variable returns without a notification.
    pub spurious_wakes: f64,
    /// What [`crate::thread::parallelism`] says.
    pub parallelism: usize,
    /// Wall-clock time of the start, in microseconds since 1970.
    pub wall_us: i64,
    /// Bounds of the simulated time that a sync takes, in microseconds.
    pub sync_us: (u64, u64),
    pub read_error: f64,
    /// Of a failed write some part may have been written.
    pub write_error: f64,
    /// Of a file or a folder.
    pub sync_error: f64,
    /// A failed sync of a file loses its unsynced bytes, and later ones report success all the same.
    pub sync_error_loses: bool,
    /// A sync speaks for what was written since its file was opened for it: that an older write failed,
    /// somebody else was told.
    pub sync_since_open: bool,
    /// The size of each disk: beyond it writes fail with `StorageFull`.
    pub disk_bytes: u64,
    /// The chance of a power failure at each I/O operation.
    pub power_failure: f64,
    pub net: Network,
    /// What mapped memory promises; `None` when files cannot be mapped.
    pub mapped: Option<Promise>,
    /// The medium lies: a sync of a file does nothing.
    pub ignore_sync_data: bool,
    /// The medium lies: a sync of a folder does nothing.
    pub ignore_sync_dir: bool,
    /// The medium lies: a fence does nothing.
    pub ignore_fence: bool,
    /// A known-wrong variant of the code inside, by name; see [`super::mutated`].
    pub mutation: Option<&'static str>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            step_limit: 5_000_000,
            step_ns: 100,
            stack_bytes: 1 << 20,
            preempt: None,
            spurious_wakes: 0.02,
            parallelism: 4,
            wall_us: 1_700_000_000_000_000,
            sync_us: (20, 200),
            read_error: 0.0,
            write_error: 0.0,
            sync_error: 0.0,
            sync_error_loses: true,
            sync_since_open: false,
            disk_bytes: u64::MAX,
            power_failure: 0.0,
            net: Network::default(),
            mapped: Some(Promise::Fence),
            ignore_sync_data: false,
            ignore_sync_dir: false,
            ignore_fence: false,
            mutation: None,
        }
    }
}

/// Kinds of I/O operations, as counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IoKind {
    /// Also mapping and locking.
    Open,
    Read,
    Write,
    SetLen,
    Sync,
    /// Creating folders, renaming, removing.
    Name,
    SyncDir,
    /// Also asking whether something exists, and how long it is.
    List,
    Copy,
    Flush,
    Fence,
    /// To a client.
    Send,
    /// From a client.
    Receive,
}
impl IoKind {
    pub const ALL: [IoKind; 13] = [
        IoKind::Open,
        IoKind::Read,
        IoKind::Write,
        IoKind::SetLen,
        IoKind::Sync,
        IoKind::Name,
        IoKind::SyncDir,
        IoKind::List,
        IoKind::Copy,
        IoKind::Flush,
        IoKind::Fence,
        IoKind::Send,
        IoKind::Receive,
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Power {
    On,
    /// It failed, and the disks are settled.
    Lost,
    /// The process is gone or a fiber panicked; the disks are as they were.
    Ended,
}

/// Whether the power fails within an operation that is about to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strike {
    None,
    Midst,
}

pub(super) struct Inner {
    pub schedule: Scheduler,
    pub births: Vec<(usize, super::fiber::Body)>,
    pub next: Option<usize>,
    pub failure: Option<super::fiber::Failure>,
    user: Random,
    faults: Random,
    power: Power,
    phases_at_failure: Vec<&'static str>,
    armed: Option<u64>,
    armed_in: Option<(&'static str, u64)>,
    io: [u64; IoKind::ALL.len()],
    io_ops: u64,
    marks: BTreeMap<&'static str, u64>,
    disks: BTreeMap<String, Arc<SimStorage>>,
    trace: Option<Vec<String>>,
}

/// A deterministic world; see the module.
pub struct World {
    seed: u64,
    config: Config,
    inner: std::sync::Mutex<Inner>,
    timer: Arc<crate::timer::Timer>,
    pub(super) net: std::sync::Mutex<Net>,
    /// What was lent, and nobody has taken (`sim/memory`); and how many there were.
    lent: std::sync::Mutex<(u64, BTreeMap<u64, Arc<Block>>)>,
}

impl World {
    pub fn new(seed: u64, config: Config) -> Arc<World> {
        let r = Random::new(seed);
        let inner = Inner {
            schedule: Scheduler::new(r.branch(1), config.preempt, config.step_ns, config.step_limit),
            births: vec![],
            next: None,
            failure: None,
            user: r.branch(2),
            faults: r.branch(3),
            power: Power::On,
            phases_at_failure: vec![],
            armed: None,
            armed_in: None,
            io: [0; IoKind::ALL.len()],
            io_ops: 0,
            marks: BTreeMap::new(),
            disks: BTreeMap::new(),
            trace: None,
        };
        let net = std::sync::Mutex::new(Net::new(r.branch(5)));
        let (inner, timer, lent) = (std::sync::Mutex::new(inner), Arc::default(), Default::default());
        Arc::new(World { seed, config, inner, timer, net, lent })
    }
    pub fn seed(&self) -> u64 {
        self.seed
    }
    pub fn config(&self) -> &Config {
        &self.config
    }
    pub(super) fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The disk of that name, empty when it is new.
    pub fn disk(self: &Arc<Self>, name: &str) -> Arc<SimStorage> {
        let mut i = self.inner();
        let disk = i.disks.entry(name.to_string());
        disk.or_insert_with(|| SimStorage::new(name, Arc::downgrade(self), Disk::default())).clone()
    }
    fn disks(&self) -> Vec<(String, Arc<SimStorage>)> {
        self.inner().disks.iter().map(|(n, d)| (n.clone(), d.clone())).collect()
    }

    pub(super) fn lend(&self, block: Arc<Block>) -> u64 {
        let mut lent = self.lent.lock().unwrap_or_else(|e| e.into_inner());
        lent.0 += 1;
        let number = lent.0;
        lent.1.insert(number, block);
        number
    }
    pub(super) fn borrow(&self, number: u64) -> Option<Arc<Block>> {
        self.lent.lock().unwrap_or_else(|e| e.into_inner()).1.remove(&number)
    }

    /// Bytes on the disk that holds most.
    pub fn fullest_disk(&self) -> u64 {
        self.disks().iter().map(|(_, d)| d.used()).max().unwrap_or(0)
    }

    // Power.

    /// The power fails now: the disks settle by the seed, and every later operation fails.
    pub fn power_failure(&self) {
        {
            let mut i = self.inner();
            if i.power != Power::On {
                return;
            }
            i.power = Power::Lost;
            let mut phases: Vec<&'static str> =
                i.schedule.fibers.iter().flat_map(|f| f.phases.iter().copied()).collect();
            phases.sort_unstable();
            phases.dedup();
            i.phases_at_failure = phases;
            i.note(0xDEAD, || "power failure".into());
        }
        let mut r = Random::new(self.seed).branch(4);
        for (_, disk) in self.disks() {
            disk.disk().power_failure(&mut r)
        }
        self.links_lost()
    }
    /// The process dies now: every later operation fails, and the disks keep what was written, synced or not.
    pub fn process_failure(&self) {
        let mut i = self.inner();
        if i.power == Power::On {
            i.power = Power::Ended;
            i.note(0xD1E, || "process failure".into());
            drop(i);
            self.links_lost()
        }
    }
    /// The power will fail at the I/O operation after `operations` more, before it or in its midst.
    pub fn arm_power_failure(&self, operations: u64) {
        let mut i = self.inner();
        i.armed = Some(i.io_ops + operations);
    }
    /// The power will fail at a step of a fiber that is in the phase `label`, after so many such steps more:
    /// also where the fiber does no I/O. See [`super::phase`].
    pub fn arm_power_failure_in(&self, label: &'static str, steps: u64) {
        self.inner().armed_in = Some((label, steps))
    }
    pub fn power_is_lost(&self) -> bool {
        self.inner().power != Power::On
    }
    /// The phases that any fiber was in when the power failed, sorted; see [`super::phase`].
    pub fn phases_at_failure(&self) -> Vec<&'static str> {
        self.inner().phases_at_failure.clone()
    }

    /// A new world with this one's disks, which lose them. After a power failure they hold what survived;
    /// otherwise all that was written, as after the death of the process.
    pub fn reboot(&self, seed: u64) -> Arc<World> {
        self.reboot_with(seed, self.config.clone())
    }
    /// As [`World::reboot`], into a world that is configured otherwise.
    pub fn reboot_with(&self, seed: u64, config: Config) -> Arc<World> {
        self.process_failure();
        self.heir(seed, config, std::mem::take)
    }
    /// A new world with copies of this one's disks; this one goes on. For trying several fates of one disk.
    pub fn fork(&self, seed: u64, config: Config) -> Arc<World> {
        self.heir(seed, config, |d| d.clone())
    }
    fn heir(&self, seed: u64, mut config: Config, hand_on: impl Fn(&mut Disk) -> Disk) -> Arc<World> {
        // Time goes on, and a reboot takes a while.
        config.wall_us = self.wall_us() + 1_000_000 + (mix(seed) % 60_000_000) as i64;
        let world = World::new(seed, config);
        for (name, disk) in self.disks() {
            let mut disk = hand_on(&mut disk.disk());
            disk.processes_gone();
            let disk = SimStorage::new(&name, Arc::downgrade(&world), disk);
            world.inner().disks.insert(name, disk);
        }
        world
    }

    // I/O, as the disks report it.

    pub(super) fn power_lost() -> io::Error {
        io::Error::other("power lost")
    }
    pub(super) fn injected(tried: &str, path: &str) -> io::Error {
        io::Error::other(format!("cannot {tried} \"{path}\": input/output error (injected)"))
    }
    /// A scheduling point, the count, the trace, and perhaps the power failure.
    pub(super) fn begin_io(&self, kind: IoKind, disk: &str, path: &str, detail: u64) -> io::Result<Strike> {
        super::yield_now("an I/O operation", std::panic::Location::caller());
        let before = {
            let mut i = self.inner();
            if i.power != Power::On {
                return Err(World::power_lost());
            }
            let n = i.io_ops;
            i.io_ops += 1;
            i.io[kind as usize] += 1;
            let id = crate::crc::raw(path.as_bytes()) as u64 | (kind as u64) << 32;
            let fiber = super::fiber_id();
            i.note(fold(id, detail), || format!("io {n}: fiber {fiber} {kind:?} {disk}:{path} {detail:x}"));
            let armed = i.armed.is_some_and(|at| n >= at);
            if !(armed || i.faults.chance(self.config.power_failure)) {
                return Ok(Strike::None);
            }
            i.faults.chance(0.5)
        };
        if !before {
            return Ok(Strike::Midst);
        }
        self.power_failure();
        Err(World::power_lost())
    }
    pub(super) fn end_io<T>(&self, kind: IoKind, result: &io::Result<T>) {
        let mut i = self.inner();
        match result {
            Ok(_) => i.schedule.hash = fold(i.schedule.hash, kind as u64),
            Err(e) => {
                let code = crate::crc::raw(e.to_string().as_bytes()) as u64;
                i.note(code, || format!("  {kind:?} failed: {e}"))
            }
        }
    }
    pub(super) fn fault(&self, chance: impl Fn(&Config) -> f64) -> bool {
        let p = chance(&self.config);
        p > 0.0 && self.inner().faults.chance(p)
    }
    pub(super) fn fault_below(&self, n: u64) -> u64 {
        self.inner().faults.below(n)
    }
    pub(super) fn fault_branch(&self) -> Random {
        let mut i = self.inner();
        let label = i.faults.next();
        i.faults.branch(label)
    }
    pub(super) fn sync_latency(&self) {
        let (from, to) = self.config.sync_us;
        let us = from + self.inner().faults.below(to.saturating_sub(from) + 1);
        let time = std::time::Duration::from_micros(us);
        super::park(0, Some(time), "a sync", std::panic::Location::caller());
    }
    /// I/O operations of one kind so far.
    pub fn io_count(&self, kind: IoKind) -> u64 {
        self.inner().io[kind as usize]
    }
    /// All I/O operations so far.
    pub fn io_ops(&self) -> u64 {
        self.inner().io_ops
    }

    // Time, randomness, marks, trace.

    pub(super) fn now_ns(&self) -> u64 {
        self.inner().schedule.now_ns
    }
    /// Looking at the clock takes time, or a loop that waits for it would never end.
    pub(crate) fn look_at_clock(&self) -> u64 {
        let mut i = self.inner();
        i.schedule.now_ns += self.config.step_ns;
        i.schedule.now_ns
    }
    pub(crate) fn wall_us(&self) -> i64 {
        self.config.wall_us + (self.look_at_clock() / 1000) as i64
    }
    pub(crate) fn timer(&self) -> &Arc<crate::timer::Timer> {
        &self.timer
    }
    pub(crate) fn random(&self) -> u64 {
        self.inner().user.next()
    }
    pub(super) fn count_mark(&self, label: &'static str) {
        *self.inner().marks.entry(label).or_default() += 1
    }
    /// How often each label was marked, or its phase begun.
    pub fn marks(&self) -> BTreeMap<&'static str, u64> {
        self.inner().marks.clone()
    }
    pub fn steps(&self) -> u64 {
        self.inner().schedule.steps
    }
    /// A digest of everything that was decided and done so far.
    pub fn trace_hash(&self) -> u64 {
        self.inner().schedule.hash
    }
    /// Begins or ends a readable trace of I/O operations and fibers.
    pub fn trace(&self, on: bool) {
        self.inner().trace = on.then(Vec::new)
    }
    /// The trace so far, taken out.
    pub fn take_trace(&self) -> Vec<String> {
        self.inner().trace.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl Inner {
    /// Whether the power fails at this step of the fiber.
    pub fn struck_in_phase(&mut self, fiber: usize) -> bool {
        let Some((label, left)) = &mut self.armed_in else { return false };
        if !self.schedule.fibers[fiber].phases.contains(label) {
            return false;
        }
        if *left > 0 {
            *left -= 1;
            return false;
        }
        self.armed_in = None;
        true
    }
    pub fn note(&mut self, code: u64, line: impl FnOnce() -> String) {
        self.schedule.hash = fold(self.schedule.hash, code);
        if let Some(t) = &mut self.trace {
            t.push(format!("{} us: {}", self.schedule.now_ns / 1000, line()))
        }
    }
    /// A fiber panicked: the others are to end soon.
    pub fn fail(&mut self, failure: super::fiber::Failure) {
        const GRACE: u64 = 20_000;
        if self.failure.is_none() {
            self.note(0xBAD, || failure.to_string());
            self.failure = Some(failure);
            self.schedule.limit = self.schedule.limit.min(self.schedule.steps + GRACE);
            if self.power == Power::On {
                self.power = Power::Ended
            }
        }
    }
}
