//! The whole server in the simulator, by seed: clients that speak the protocol's bytes over connections whose
//! messages are cut, late and merged, and that are lost at any byte, on either side; power failures; and a
//! check of what is there.
//!
//! ```text
//! life 1: clients, server ... power failure | the server ends | goes on -> (again:) recovery -> check
//! life 2: goes on from there ...
//! ```
//! What must hold while the power is on:
//! - **S1** A statement sees every commit that some client was told of before it was sent, waited for or not,
//!   and none that has not been asked for, in whole, or was taken back.
//! - **S2** One statement sees each transaction as a whole: money is not lost, and what the journal says of
//!   parts is so.
//! - **S3** After an error, messages are left out up to a Sync, and nothing of that transaction is done; the
//!   next one goes on. Every message is answered in its turn.
//! - **S4** What is told on a channel comes once, in the order of commits, to whoever listens, and not before
//!   it is seen.
//! - **S5** A lost connection's transaction is rolled back, with its locks: nobody waits longer than two
//!   minutes.
//! - **S6** A client that does not take its answers keeps nobody else, and the server not busy.
//! - **S7** A key breaks off its own connection's statement, a wrong one none.
//!
//! And after every recovery:
//! - **S8** Each transaction that a client was told to be durable is there, as a whole; so is whatever the
//!   same session did before. None is that was not asked for; any other is there as a whole, or not at all.
//!
//! A third of the clients talk in shared memory; some of these are killed between two steps that they do
//! there.
//!
//! A seed fixes everything: the same seed gives the same trace hash. Unix sockets and TLS are not simulated.
mod client;
mod plays;

use super::{Broken, ONE, Survived, mix, open};
use crate::database::Database;
use crate::server::{ServeOptions, Server};
use ondol_base::media::Storage;
use ondol_base::sim::{Config, Failure, Network, World};
use ondol_base::sync::Mutex;
use ondol_base::{random, thread};
use ondol_engine::simulate::report::Stats;
use ondol_types::{SqlError, SqlResult};
use plays::Player;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const ACCOUNTS: u64 = 6;
const BALANCE: i64 = 1000;
const CLIENTS: u64 = 4;
/// Conversations of a client in one life.
const TURNS: u64 = 8;
const LIVES: u64 = 3;

/// Known-wrong variants, which histories must notice, with what each does. A wake-up that is lost beside
/// shared memory is noticed among two ends alone (base/shm): here a statement takes longer than to fall
/// asleep.
pub const MUTATIONS: &[(&str, &str)] = &[
    ("answered_early", "an answer is sent before what it rests on is durable"),
    ("lost_kept", "a lost connection's transaction goes on"),
    ("cut_taken_as_whole", "a part of a message is taken as all of it"),
    ("unskipped", "messages after an error are not left out"),
    ("notified_early", "what is told on a channel leaves before its commit is seen"),
    ("notified_in_any_order", "what is told on a channel does not wait for those that committed before"),
    ("broken_copy_done", "a COPY that is broken off is taken as done"),
    ("lost_goes_round", "a COPY whose client is lost waits on for its end, without giving way"),
    ("shown_early", "bytes in shared memory are shown before they are there"),
    ("end_unheard", "that a client in shared memory is gone is not noticed"),
];

/// What clients know of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// It must not be there: its commit was not asked for.
    Never,
    /// It was, and no answer has come.
    Maybe,
    /// It is committed, and may be lost with the power.
    Seen,
    Durable,
}

/// What the clients know: it outlives the power.
#[derive(Default)]
struct Known {
    /// By client and number.
    fates: BTreeMap<(u64, i64), Fate>,
    /// The newest number of each client.
    last: BTreeMap<u64, i64>,
    stats: Stats,
    /// Things that went wrong while the power was on.
    wrong: Vec<String>,
    /// All who commit have ended.
    are_done: bool,
    /// The server was told to end.
    is_stopped: bool,
}

impl Known {
    fn acknowledged(&self, client: u64) -> Vec<i64> {
        let all = self.fates.range((client, i64::MIN)..=(client, i64::MAX));
        all.filter(|(_, f)| matches!(f, Fate::Seen | Fate::Durable)).map(|((_, n), _)| *n).collect()
    }
    fn count(&mut self, what: &'static str, n: u64) {
        self.stats.count(what, n)
    }
    fn count_error(&mut self, state: Option<&str>) {
        match state {
            Some("40P01") => self.count("deadlocks", 1),
            Some("57014") => self.count("transactions broken off", 1),
            _ => {}
        }
    }
}

/// Runs a seed through its lives. With what it went through comes what was counted.
pub fn run(seed: u64) -> Result<(Survived, Stats), Broken> {
    run_in(seed, &Config::default())
}

fn network(r: u64) -> Network {
    let pick = |n: u64, of: &[u64]| of[(mix(r, n) % of.len() as u64) as usize];
    Network {
        delay_us: (1, pick(1, &[5, 50, 500])),
        cut: pick(2, &[0, 1, 5, 9]) as f64 / 10.0,
        room: (pick(3, &[1, 100, 4000]), 64 << 10),
        lost: pick(4, &[0, 0, 1, 3]) as f64 / 10.0,
        lost_within: pick(5, &[200, 2000, 20_000]),
        notice_us: (1, pick(6, &[100, 10_000, 3_000_000])),
    }
}

/// The same in a world of another kind.
pub fn run_in(seed: u64, kind: &Config) -> Result<(Survived, Stats), Broken> {
    let _one = ONE.lock();
    let known = Arc::new(Mutex::new(Known::default()));
    let mut survived = Survived { seed, ..Survived::default() };
    let config = |r: u64| Config {
        preempt: None,
        parallelism: 1 + (r % 3) as usize,
        net: network(r),
        stack_bytes: 2 << 20,
        step_limit: 4_000_000,
        ..kind.clone()
    };
    let mut world = World::new(mix(seed, 1), config(mix(seed, 2)));
    let broken = |life: u64, what: String| Broken { seed, life, what };
    let failure = |life: u64| move |f: Failure| Broken { seed, life, what: f.to_string() };
    let count = |world: &World, survived: &mut Survived| {
        survived.power_failures += 1;
        for phase in world.phases_at_failure() {
            *survived.phases.entry(phase).or_default() += 1
        }
    };

    let disk: Arc<dyn Storage> = world.disk("data");
    let prepared = world.try_run(|| prepare(disk)).map_err(failure(0))?;
    prepared.map_err(|e| broken(0, format!("setting up: {e}")))?;
    survived.trace = world.trace_hash();
    for life in 1..=LIVES {
        let r = |n: u64| mix(seed, 1000 * life + n);
        world = world.reboot_with(r(1), config(r(2)));
        // Some lives end by themselves, with an order or without.
        if !r(3).is_multiple_of(4) {
            world.arm_power_failure(20 + r(4) % [200, 1000, 3000][(r(5) % 3) as usize])
        }
        let (disk, theirs) = (world.disk("data") as Arc<dyn Storage>, known.clone());
        world.try_run(|| live(disk, &theirs, r(6))).map_err(failure(life))?;
        survived.trace = mix(survived.trace, world.trace_hash());
        if let Some(wrong) = known.lock().wrong.first() {
            return Err(broken(life, wrong.clone()));
        }
        match world.power_is_lost() {
            true => count(&world, &mut survived),
            // All threads are gone, and nothing is closed in order.
            false if r(7).is_multiple_of(2) => {
                world.power_failure();
                survived.power_failures += 1
            }
            false => known.lock().count("ends without a power failure", 1),
        }
        let mut again = 0;
        loop {
            world = world.reboot_with(r(20 + again), config(r(30 + again)));
            // Recovery itself may lose the power, some times over.
            if again < 3 && r(40 + again).is_multiple_of(3) {
                world.arm_power_failure(r(50 + again) % 60)
            }
            let (disk, theirs) = (world.disk("data") as Arc<dyn Storage>, known.clone());
            let checked = world.try_run(|| check(disk, &theirs)).map_err(failure(life))?;
            survived.trace = mix(survived.trace, world.trace_hash());
            if !world.power_is_lost() {
                checked.map_err(|what| broken(life, what))?;
                survived.checks += 1;
                break;
            }
            count(&world, &mut survived);
            again += 1
        }
    }
    let known = std::mem::take(&mut *known.lock());
    survived.acknowledged = known.stats.get("commits acknowledged");
    Ok((survived, known.stats))
}

fn prepare(disk: Arc<dyn Storage>) -> SqlResult<()> {
    let db = open(disk)?;
    let mut s = db.session();
    s.execute(
        "CREATE TABLE journal (client integer, n bigint, source integer, target integer, amount bigint,
             parts integer, PRIMARY KEY (client, n));
         CREATE TABLE part (client integer, n bigint, i integer, PRIMARY KEY (client, n, i));
         CREATE TABLE account (id integer PRIMARY KEY, balance bigint NOT NULL);
         CREATE TABLE clock (n bigint NOT NULL);
         INSERT INTO clock VALUES (0)",
    )?;
    for id in 0..ACCOUNTS {
        s.query("INSERT INTO account VALUES ($1, $2)", &crate::params![id as i32, BALANCE])?;
    }
    drop(s);
    db.close()
}

/// A server with its clients, until these have had their turns, the server is told to end, or the power is
/// gone.
fn live(disk: Arc<dyn Storage>, known: &Arc<Mutex<Known>>, r: u64) {
    let Ok(db) = open(disk) else { return };
    let options = ServeOptions {
        listen: vec![client::ADDRESS.into()],
        trust_loopback: true,
        ..ServeOptions::default()
    };
    let server = match Server::start(&db, &options) {
        Ok(server) => server,
        Err(e) => {
            if !client::power_is_lost() {
                known.lock().wrong.push(format!("the server does not start: {e}"))
            }
            return;
        }
    };
    {
        let mut known = known.lock();
        known.are_done = false;
        known.is_stopped = false
    }
    let start = |name: &str, f: Box<dyn FnOnce(&Mutex<Known>) -> Result<(), String> + Send>| {
        let theirs = known.clone();
        thread::spawn(name, move || {
            if let Err(what) = f(&theirs) {
                theirs.lock().wrong.push(what)
            }
        })
    };
    let clients = 2 + mix(r, 1) % (CLIENTS - 1);
    let mut writers = vec![];
    for number in 0..clients {
        let r = mix(r, 100 + number);
        let play = move |known: &Mutex<Known>| Player::new(number, known, r).play(TURNS);
        writers.extend(start("client", Box::new(play)))
    }
    let listener = match mix(r, 2) % 3 {
        0 => None,
        _ => start("listener", Box::new(plays::listen)).ok(),
    };
    let checkpoints = mix(r, 3).is_multiple_of(3).then(|| {
        let db = db.clone();
        thread::spawn("checkpoints", move || {
            thread::sleep(Duration::from_micros(random::next_u64() % 3000));
            // A power failure is told by all else.
            let _ = db.checkpoint();
        })
    });
    // In some lives the server is told to end while they talk.
    let mut server = Some(server);
    if mix(r, 4).is_multiple_of(6) {
        thread::sleep(Duration::from_micros(random::next_u64() % 5000));
        known.lock().is_stopped = true;
        stop(server.take(), known)
    }
    for w in writers {
        // A panic of a fiber fails the world, which tells of it.
        let _ = w.join();
    }
    known.lock().are_done = true;
    if let Some(l) = listener {
        let _ = l.join();
    }
    if let Some(Ok(c)) = checkpoints {
        let _ = c.join();
    }
    if server.is_some()
        && !client::power_is_lost()
        && let Err(what) = nobody_holds(known)
    {
        known.lock().wrong.push(what)
    }
    stop(server, known);
    if mix(r, 5).is_multiple_of(2) {
        // Closing may lose the power as well.
        let _ = db.close();
    }
}

fn stop(server: Option<Server>, known: &Mutex<Known>) {
    if let Some(Err(e)) = server.map(Server::stop)
        && !client::power_is_lost()
    {
        known.lock().wrong.push(format!("the server ends with {e}"))
    }
}

/// S5: all clients are gone, and nothing is locked.
fn nobody_holds(known: &Mutex<Known>) -> Result<(), String> {
    for _ in 0..20 {
        let asked = client::Client::connect(&[]).and_then(|mut c| {
            c.run("UPDATE account SET balance = balance")?;
            c.run("UPDATE clock SET n = n").map(drop)
        });
        match asked {
            // One whose client is lost, which is not noticed yet, still goes from lock to lock.
            Err(client::Stop::Wrong(what)) if what.contains("40P01") => known.lock().count("deadlocks", 1),
            Err(client::Stop::Wrong(what)) if !client::power_is_lost() => return Err(what),
            Err(client::Stop::BrokenOff) => return Err("nobody asked to break off a statement".into()),
            Err(client::Stop::Lost) if !client::power_is_lost() => {}
            _ => return Ok(()),
        }
    }
    known.lock().count("lives in which no connection lasted at the end", 1);
    Ok(())
}

/// Opens the database and checks S8; closes it in order.
fn check(disk: Arc<dyn Storage>, known: &Mutex<Known>) -> Result<(), String> {
    let text = |e: SqlError| format!("{} {e}", e.sqlstate());
    let db = open(disk).map_err(|e| format!("recovery: {}", text(e)))?;
    let there = read(&db).map_err(text)??;
    let mut known = known.lock();
    for (at, fate) in &known.fates {
        let is_there = there.contains(at);
        let what = format!("S8: transaction {} of client {}", at.1, at.0);
        match fate {
            Fate::Durable if !is_there => {
                return Err(format!("{what} was told to be durable, and is not there"));
            }
            Fate::Never if is_there => return Err(format!("{what} is there, and has not committed")),
            _ => {}
        }
    }
    if let Some((c, n)) = there.iter().find(|at| !known.fates.contains_key(at)) {
        return Err(format!("S8: transaction {n} of client {c} is there, and nobody has asked for it"));
    }
    // What was recovered stays: the next life builds on it.
    for (at, fate) in &mut known.fates {
        *fate = if there.contains(at) { Fate::Durable } else { Fate::Never }
    }
    drop(known);
    db.close().map_err(text)
}

/// The transactions that are there, each as a whole.
fn read(db: &Database) -> SqlResult<Result<std::collections::BTreeSet<(u64, i64)>, String>> {
    let mut s = db.session();
    let mut balances = vec![BALANCE; ACCOUNTS as usize];
    let mut parts: BTreeMap<(u64, i64), i64> = BTreeMap::new();
    for row in s.query("SELECT client, n FROM part", &[])?.iter() {
        *parts.entry((row.get::<i64>(0)? as u64, row.get(1)?)).or_default() += 1
    }
    let mut there = std::collections::BTreeSet::new();
    for row in s.query("SELECT client, n, source, target, amount, parts FROM journal", &[])?.iter() {
        let get = |i: usize| row.get::<i64>(i);
        let at = (get(0)? as u64, get(1)?);
        balances[get(2)? as usize] -= get(4)?;
        balances[get(3)? as usize] += get(4)?;
        let (found, wanted) = (parts.remove(&at).unwrap_or(0), get(5)?);
        if found != wanted {
            return Ok(Err(format!("S8: transaction {at:?} has {found} parts of {wanted}")));
        }
        there.insert(at);
    }
    if let Some(at) = parts.keys().next() {
        return Ok(Err(format!("S8: transaction {at:?} has parts, and is not there")));
    }
    let rows = s.query("SELECT balance FROM account ORDER BY id", &[])?;
    let found = rows.iter().map(|r| r.get::<i64>(0)).collect::<SqlResult<Vec<i64>>>()?;
    if found != balances {
        return Ok(Err(format!("S8: the accounts hold {found:?}, the journal makes them {balances:?}")));
    }
    Ok(Ok(there))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_survive() {
        let mut all = Stats::default();
        let mut failures = 0;
        for seed in 0..100 {
            let (s, stats) = run(seed).unwrap_or_else(|b| panic!("{b}"));
            assert!(s.checks == LIVES);
            failures += s.power_failures;
            all.add(&stats)
        }
        assert!(failures > 40, "{failures}");
        for what in [
            "clients gone within a pipeline",
            "clients gone within a transaction",
            "commits acknowledged",
            "connections lost",
            "COPYs broken off",
            "deadlocks",
            "errors within pipelines",
            "messages cut by their client's end",
            "notifications",
            "statements broken off",
        ] {
            assert!(all.get(what) > 0, "{what}: {all}");
        }
    }

    #[test]
    fn one_seed_is_one_trace() {
        let trace = |seed| run(seed).map(|s| s.0.trace).unwrap_or_else(|b| panic!("{b}"));
        assert_eq!(trace(3), trace(3));
        assert_ne!(trace(3), trace(4));
    }

    #[test]
    fn wrong_servers_are_caught() {
        // What a client must be lost at one moment for is found late, by `ondol sim --server --mutation`.
        const LATE: &str = "lost_goes_round";
        for (mutation, _) in MUTATIONS.iter().filter(|m| m.0 != LATE) {
            let kind = Config { mutation: Some(mutation), ..Config::default() };
            let caught = (0..400).find_map(|seed| run_in(seed, &kind).err());
            println!("{mutation}: {}", caught.unwrap_or_else(|| panic!("{mutation} goes unseen")))
        }
    }
}
