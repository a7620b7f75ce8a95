//! The whole engine in the simulator, by seed: sessions that transfer money, keep a journal, make and drop
//! tables; a power failure at some I/O operation; recovery, in which the power may fail again; and a check of
//! what is there.
//!
//! ```text
//! life 1: workers + checkpoints ... power failure -> recovery (perhaps: power failure -> recovery ...) -> check
//! life 2: goes on from there   ... power failure -> recovery ...                                       -> check
//! ```
//! What must hold after every recovery:
//! - **Z1** Of each worker's transactions, exactly the first k are there, for a k not below the newest that
//!   it was told to be durable. Nothing of the others is.
//! - **Z2** Every account holds what the transfers in the journal make of it.
//! - **Z3** A table that a worker made or dropped together with a journal entry is there, or gone, as that
//!   entry is.
//! - **Z4** A row is found through each index exactly as without it.
//! - **Z5** No two entries of the journal have one label, though workers try the same ones at a time.
//! - **Z6** While the power is on: threads that read for one statement read what one thread reads for the
//!   next of the same snapshot, and in no snapshot is money lost.
//! - **Z7** A transaction finds the rows of a unique key, its own beside those that others have taken away
//!   since, as without the index.
//! - **Z8** Tallies that are counted up by INSERT ... ON CONFLICT DO UPDATE, while others take them away or
//!   give them other keys, hold together what the journal makes of them; and each row that is changed has the
//!   key that was asked for.
//! - **Z9** Who is first at a place, by INSERT ... ON CONFLICT DO NOTHING, stays so; who comes later sees a
//!   row there, and comes later than a transaction that the journal has.
//! - **Z10** No row names a parent that is not there, by a foreign key: not in a snapshot, and not after a
//!   recovery, while parents go and get other keys.
//! - **Z11** A materialised view shows what one snapshot had, with all the money, whoever refreshes it
//!   meanwhile: by its index as without, and after a recovery, too.
//! - **Z12** After a recovery an unlogged table is there and empty.
//! - **Z13** A unique partial index on an expression has the rows that its predicate is true of, each once,
//!   though others come into it, leave it, or get other keys: in a transaction as after a recovery.
//! - **Z14** A row as a value has the fields that were put there, also one that is older than a field of its
//!   type, and is found by an index over such values.
//! - **Z15** Accounts within a box of balances and numbers, and those nearest to a point, are found by a
//!   CR-tree as without it: in a transaction as after a recovery.
//!
//! In half of the seeds columns of accounts and journal were added later, so that rows have strings for them.
//!
//! A seed fixes everything: the same seed gives the same trace hash.
pub mod flips;
#[cfg(feature = "server")]
pub mod server;

use crate::database::{Database, OpenOptions};
use crate::session::Session;
use ondol_base::media::Storage;
use ondol_base::sim::{self, Config, Failure, World};
use ondol_base::sync::Mutex;
use ondol_base::{random, thread};
use ondol_engine::Isolation;
/// The engine below SQL in the simulator: most of what can go wrong goes wrong there.
pub use ondol_engine::simulate as engine;
use ondol_types::{SqlError, SqlResult, Value, sqlstate};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Accounts, all with the same balance at first.
const ACCOUNTS: u64 = 12;
const BALANCE: i64 = 1000;
const WORKERS: u64 = 3;
/// Transactions that a worker tries in one life.
const TRIES: u64 = 40;
const LIVES: u64 = 3;

/// What a seed went through.
#[derive(Clone, Debug, Default)]
pub struct Survived {
    pub seed: u64,
    /// The same for the same seed, always.
    pub trace: u64,
    pub power_failures: u64,
    /// How often the power failed while some thread was in the phase.
    pub phases: BTreeMap<&'static str, u64>,
    /// Transactions that were told to be durable, all lives together.
    pub acknowledged: u64,
    /// Checks after a recovery.
    pub checks: u64,
}

/// A seed whose run broke a rule, hung or panicked.
#[derive(Clone, Debug)]
pub struct Broken {
    pub seed: u64,
    pub life: u64,
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, life {}: {}", self.seed, self.life, self.what)
    }
}

/// What the workers know: it outlives the power.
#[derive(Default)]
struct Known {
    /// By worker: the newest of its transactions that was told to be durable, and the newest that was tried.
    told: BTreeMap<u64, i64>,
    tried: BTreeMap<u64, i64>,
    /// Things that went wrong while the power was on.
    wrong: Vec<String>,
}

fn mix(seed: u64, n: u64) -> u64 {
    let n = seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

fn open(disk: Arc<dyn Storage>) -> SqlResult<Database> {
    OpenOptions::new().memory_limit(160 << 20).checkpoint_log_bytes(64 << 10).small_log_files().open_on(disk)
}

/// Runs a seed through its lives.
pub fn run(seed: u64) -> Result<Survived, Broken> {
    run_in(seed, &Config::default())
}

/// One world at a time: the parser's lock is the process's, so worlds on several threads would wait for each
/// other, and a seed would no longer fix what happens.
static ONE: Mutex<()> = Mutex::new(());

/// The same in a world of another kind.
pub fn run_in(seed: u64, kind: &Config) -> Result<Survived, Broken> {
    let _one = ONE.lock();
    let known = Arc::new(Mutex::new(Known::default()));
    let mut survived = Survived { seed, ..Survived::default() };
    let config = |r: u64| Config { preempt: None, parallelism: 1 + (r % 3) as usize, ..kind.clone() };
    let mut world = World::new(mix(seed, 1), config(mix(seed, 2)));
    let broken = |life: u64, what: String| Broken { seed, life, what };
    let failure = |life: u64| move |f: Failure| Broken { seed, life, what: f.to_string() };

    // The tables are made while the power is on.
    let disk: Arc<dyn Storage> = world.disk("data");
    world
        .try_run(|| prepare(disk, mix(seed, 4).is_multiple_of(2)))
        .map_err(failure(0))?
        .map_err(|e| broken(0, format!("setting up: {e}")))?;
    survived.trace = world.trace_hash();
    let base = world.io_ops();
    for life in 1..=LIVES {
        world = world.reboot_with(mix(seed, 10 * life), config(mix(seed, 10 * life + 1)));
        // Recovery itself may lose the power, some times over.
        let mut again = 0;
        loop {
            let r = mix(seed, 10_000 * life + again);
            if again < 3 && r.is_multiple_of(3) {
                world.arm_power_failure(r / 3 % 60);
            }
            let (disk, known) = (world.disk("data") as Arc<dyn Storage>, known.clone());
            let checked = world.try_run(|| check(disk, &known)).map_err(failure(life))?;
            survived.trace = mix(survived.trace, world.trace_hash());
            if !world.power_is_lost() {
                checked.map_err(|what| broken(life, what))?;
                survived.checks += 1;
                break;
            }
            count(&world, &mut survived);
            again += 1;
            world = world.reboot_with(mix(seed, 10 * life + 2 + again), config(r));
        }
        // The database was closed by the check; open it again and work until the power goes.
        world = world.reboot_with(mix(seed, 10 * life + 7), config(mix(seed, 10 * life + 8)));
        world.arm_power_failure(20 + mix(seed, 10 * life + 9) % (base + 600));
        let (disk, theirs) = (world.disk("data") as Arc<dyn Storage>, known.clone());
        let r = mix(seed, 77 * life);
        world.try_run(|| work(disk, &theirs, r)).map_err(failure(life))?;
        survived.trace = mix(survived.trace, world.trace_hash());
        if let Some(wrong) = known.lock().wrong.first() {
            return Err(broken(life, wrong.clone()));
        }
        if world.power_is_lost() {
            count(&world, &mut survived);
        } else {
            // It did not fail by itself: it does now, with all threads gone but nothing closed in order.
            world.power_failure();
            survived.power_failures += 1;
        }
    }
    world = world.reboot(mix(seed, 3));
    let (disk, theirs) = (world.disk("data") as Arc<dyn Storage>, known.clone());
    world
        .try_run(|| check(disk, &theirs))
        .map_err(failure(LIVES + 1))?
        .map_err(|what| broken(LIVES + 1, what))?;
    survived.trace = mix(survived.trace, world.trace_hash());
    survived.checks += 1;
    survived.acknowledged = known.lock().told.values().map(|n| *n as u64).sum();
    Ok(survived)
}

fn count(world: &World, survived: &mut Survived) {
    survived.power_failures += 1;
    for phase in world.phases_at_failure() {
        *survived.phases.entry(phase).or_default() += 1;
    }
}

/// The accounts and the journal.
const WHOLE: &str = "
    CREATE TABLE account (id integer PRIMARY KEY, balance numeric(14,2) NOT NULL, note text);
    CREATE TABLE journal (worker integer, n bigint, source integer, target integer, amount bigint, made integer,
        label text, PRIMARY KEY (worker, n))";
/// The same with columns that are added while there are rows.
const LATER: &str = "
    CREATE TABLE account (id integer PRIMARY KEY);
    INSERT INTO account VALUES (-1);
    ALTER TABLE account ADD balance numeric(14,2) NOT NULL DEFAULT 0, ADD note text;
    DELETE FROM account;
    CREATE TABLE journal (worker integer, n bigint, source integer, target integer, amount bigint,
        PRIMARY KEY (worker, n));
    INSERT INTO journal VALUES (-1, 0);
    ALTER TABLE journal ADD made integer, ADD label text;
    DELETE FROM journal";

fn prepare(disk: Arc<dyn Storage>, later: bool) -> SqlResult<()> {
    let db = open(disk)?;
    let mut s = db.session();
    s.execute(if later { LATER } else { WHOLE })?;
    s.execute(
        "CREATE INDEX account_place ON account USING crtree (balance, id);
         CREATE INDEX journal_n ON journal USING hash (n);
         CREATE UNIQUE INDEX journal_label ON journal (label);
         CREATE TABLE spot_hash (id bigint, owner text);
         CREATE UNIQUE INDEX spot_hash_id ON spot_hash USING hash (id);
         CREATE TABLE spot_tree (id bigint, owner text);
         CREATE UNIQUE INDEX spot_tree_id ON spot_tree (id);
         CREATE TABLE member (id bigint, owner text);
         CREATE UNIQUE INDEX member_id ON member ((id + 1)) WHERE owner IS NOT NULL;
         CREATE TABLE tally (name text PRIMARY KEY, number integer NOT NULL, n bigint NOT NULL, note text);
         CREATE UNIQUE INDEX tally_number ON tally USING hash (number);
         CREATE TABLE taken (number integer PRIMARY KEY, n bigint NOT NULL);
         CREATE TABLE first (place text PRIMARY KEY, worker integer NOT NULL, n bigint NOT NULL);
         CREATE TABLE parent (id integer PRIMARY KEY, note text);
         CREATE TABLE kept (parent integer REFERENCES parent, note text);
         CREATE INDEX kept_parent ON kept (parent);
         CREATE TABLE child (parent integer DEFAULT 0 REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE,
             CHECK (parent >= 0));
         CREATE TABLE late (parent integer REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
         CREATE VIEW richest AS SELECT id, balance FROM account;
         CREATE MATERIALIZED VIEW picture AS SELECT id, balance FROM richest WITH NO DATA;
         CREATE UNIQUE INDEX picture_id ON picture (id);
         CREATE UNLOGGED TABLE fleeting (n bigint, note text);
         CREATE TYPE pair AS (a integer, b text);
         CREATE TABLE paired (n bigint PRIMARY KEY, p pair NOT NULL);
         CREATE UNIQUE INDEX paired_p ON paired (p);
         INSERT INTO paired VALUES (0, ROW(0, 'the text of 0'));
         ALTER TYPE pair ADD ATTRIBUTE c bigint",
    )?;
    for id in 0..ACCOUNTS {
        s.query("INSERT INTO account VALUES ($1, $2, '')", &crate::params![id as i32, BALANCE])?;
    }
    s.execute("REFRESH MATERIALIZED VIEW picture")?;
    drop(s);
    db.close()
}

/// Errors that a transaction may meet while the power is on: it is tried again, or given up.
fn expected(e: &SqlError) -> bool {
    matches!(
        e.sqlstate(),
        sqlstate::SERIALIZATION_FAILURE
            | sqlstate::DEADLOCK_DETECTED
            | sqlstate::LOCK_NOT_AVAILABLE
            | sqlstate::OBJECT_IN_USE
    ) || e.sqlstate() == sqlstate::UNIQUE_VIOLATION && e.to_string().contains("journal_label")
        || e.sqlstate() == sqlstate::FOREIGN_KEY_VIOLATION && e.to_string().contains("\"late")
}

/// Workers and a checkpointer, until all tries are done or the power is gone.
fn work(disk: Arc<dyn Storage>, known: &Arc<Mutex<Known>>, r: u64) {
    let Ok(db) = open(disk) else { return };
    let mut threads = Vec::new();
    // In half of the lives they are fibers, which share one thread or two.
    let shared: Vec<sim::Worker> = match mix(r, 500) % 4 {
        0 | 1 => vec![],
        n => (1..n).filter_map(|_| sim::Worker::new()).collect(),
    };
    for worker in 0..WORKERS {
        let (db, known) = (db.clone(), known.clone());
        let life = move || worker_life(&db, worker, &known, mix(r, worker));
        let started = match shared.len() as u64 {
            0 => thread::spawn("worker", life),
            n => shared[(worker % n) as usize].spawn("worker", life),
        };
        threads.extend(started.ok());
    }
    let checkpoints = db.clone();
    let started = thread::spawn("checkpoints", move || {
        for _ in 0..2 + r % 3 {
            thread::sleep(std::time::Duration::from_micros(200 + random::next_u64() % 3000));
            if checkpoints.checkpoint().is_err() {
                break;
            }
        }
    });
    threads.extend(started.ok());
    for t in threads {
        // A panic of a fiber fails the world, which tells of it.
        let _ = t.join();
    }
    if r.is_multiple_of(2) {
        // Closing may lose the power as well.
        let _ = db.close();
    }
}

fn worker_life(db: &Database, worker: u64, known: &Mutex<Known>, r: u64) {
    let mut s = db.session();
    let Ok(mut n) = s
        .query("SELECT coalesce(max(n), 0) FROM journal WHERE worker = $1", &crate::params![worker as i32])
        .and_then(|rows| rows.row(0).get::<i64>(0))
    else {
        return;
    };
    for try_ in 0..TRIES {
        n += 1;
        known.lock().tried.insert(worker, n);
        let asynchronous = mix(r, try_).is_multiple_of(4);
        match transaction(&mut s, worker, n, mix(r, 1000 + try_), asynchronous) {
            Ok(token) => {
                if asynchronous
                    && let Some(t) = token
                    && db.wait(t).is_err()
                {
                    return;
                }
                known.lock().told.insert(worker, n);
            }
            Err(e) => {
                s.rollback();
                if expected(&e) {
                    n -= 1;
                } else if is_power(db) {
                    return;
                } else {
                    known
                        .lock()
                        .wrong
                        .push(format!("worker {worker}, transaction {n}: {} {e}", e.sqlstate()));
                    return;
                }
            }
        }
    }
}

/// Whether the world has lost its power, which explains every error.
fn is_power(_: &Database) -> bool {
    ondol_base::sim::current().is_some_and(|w| w.power_is_lost())
}

/// One transfer with its journal entry, perhaps with a table made or dropped.
fn transaction(
    s: &mut Session,
    worker: u64,
    n: i64,
    r: u64,
    asynchronous: bool,
) -> SqlResult<Option<ondol_engine::Token>> {
    let isolation =
        [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable][(r % 3) as usize];
    let (source, target) = ((r >> 8) % ACCOUNTS, (r >> 16) % ACCOUNTS);
    let amount = ((r >> 24) % 50) as i64;
    // Every fifth transaction of a worker makes a table, which the one after it drops.
    let made: i32 = if n % 5 == 3 { 1 } else { 0 };
    // Workers who are about as far try the same label; all are the same far beyond what a row holds of a long
    // text in itself.
    let label =
        (r >> 56).is_multiple_of(3).then(|| format!("labels all begin with this, then comes {}", n / 4));
    s.begin(isolation)?;
    let add = "UPDATE account SET balance = balance + $2, note = note || 'x' WHERE id = $1";
    let take = "UPDATE account SET balance = balance - $2, note = $3 WHERE id = $1";
    let note = "n".repeat((r >> 40) as usize % 40);
    let give = |s: &mut Session| s.query(add, &crate::params![target as i32, amount]);
    // Locks are taken in both orders, so that there are deadlocks to be found.
    if r & 128 == 0 {
        give(s)?;
    }
    s.query(take, &crate::params![source as i32, amount, note])?;
    if r & 128 != 0 {
        give(s)?;
    }
    if r >> 48 & 7 == 0 {
        s.savepoint("undone")?;
        s.query("UPDATE account SET balance = 0", &[])?;
        s.rollback_to("undone")?;
    }
    s.query(
        "INSERT INTO journal VALUES ($1, $2, $3, $4, $5, $6, $7)",
        &crate::params![worker as i32, n, source as i32, target as i32, amount, made, label],
    )?;
    if made == 1 {
        s.execute(&format!(
            "CREATE TABLE made_{worker}_{n} (a integer PRIMARY KEY); INSERT INTO made_{worker}_{n} VALUES (1), (2)"
        ))?;
    } else if n % 5 == 4 {
        let before = n - 1;
        s.execute(&format!("DROP TABLE made_{worker}_{before}"))?;
    }
    if (r >> 44).is_multiple_of(6) {
        at_spots(s, worker, r >> 32)?;
    }
    if mix(r, 12).is_multiple_of(3) {
        at_members(s, worker, mix(r, 13))?;
    }
    at_tallies(s, worker, n, mix(r, 8))?;
    if mix(r, 9).is_multiple_of(3) {
        at_places(s, worker, n)?;
    }
    if (r >> 52).is_multiple_of(4) {
        by_threads(s, isolation)?;
    }
    if mix(r, 10).is_multiple_of(2) {
        at_keys(s, isolation, mix(r, 11))?;
    }
    if mix(r, 12).is_multiple_of(6) {
        at_pictures(s, n, mix(r, 13))?
    }
    if mix(r, 14).is_multiple_of(4) {
        at_pairs(s, 1_000_000 * (worker as i64 + 1) + n)?
    }
    if mix(r, 15).is_multiple_of(3) {
        in_boxes(s, mix(r, 16))?
    }
    if asynchronous { s.commit_async() } else { s.commit() }
}

/// Z15, in an open transaction.
fn in_boxes(s: &mut Session, r: u64) -> SqlResult<()> {
    let (id, balance) = ((r % ACCOUNTS) as i32, BALANCE + (r >> 8) as i64 % 100 - 50);
    let places = ["balance, id", "balance + 0, id + 0"].map(|columns| {
        let (by_balance, by_id) = columns.split_once(", ").unwrap_or((columns, columns));
        let distance = format!("crtree_distance({columns}, $1, $2)");
        format!(
            "(SELECT count(*) || ' with ' || coalesce(sum(balance), 0) FROM account
                  WHERE {by_balance} BETWEEN $1 - 30 AND $1 AND {by_id} >= $2)
             || ', away by ' || (SELECT string_agg(d::text, ' ') FROM
                  (SELECT {distance} AS d FROM account ORDER BY {distance} LIMIT 4) AS nearest)"
        )
    });
    let rows = s.query(&format!("SELECT {}, {}", places[0], places[1]), &crate::params![balance, id])?;
    let got = [0, 1].map(|i| rows.row(0).get::<String>(i));
    let [by_index, without] = got;
    match (by_index?, without?) {
        (by_index, without) if by_index == without => Ok(()),
        got => {
            let what =
                format!("Z15: from account {id} on, up to {balance}: by the index and without {got:?}");
            Err(SqlError::new(sqlstate::INTERNAL_ERROR, what))
        }
    }
}

/// Z11, in an open transaction.
fn at_pictures(s: &mut Session, n: i64, r: u64) -> SqlResult<()> {
    let done = match r % 4 {
        0 => s.execute("REFRESH MATERIALIZED VIEW picture").map(drop),
        1 => s.execute("REFRESH MATERIALIZED VIEW CONCURRENTLY picture").map(drop),
        _ => s.query("INSERT INTO fleeting VALUES ($1, repeat('f', 300))", &crate::params![n]).map(drop),
    };
    done?;
    is_whole(s)
}

fn is_whole(s: &mut Session) -> SqlResult<()> {
    let sql =
        "SELECT count(*), sum(balance)::bigint, (SELECT count(*) FROM picture WHERE id = 3) FROM picture";
    let rows = s.query(sql, &[])?;
    let row = rows.row(0);
    let got = (row.get::<i64>(0)?, row.get::<Option<i64>>(1)?, row.get::<i64>(2)?);
    match got == (ACCOUNTS as i64, Some(ACCOUNTS as i64 * BALANCE), 1) {
        true => Ok(()),
        false => {
            let what = format!("Z11: accounts, money and the fourth are {got:?} in the view");
            Err(SqlError::new(sqlstate::INTERNAL_ERROR, what))
        }
    }
}

/// Z14, in an open transaction.
fn at_pairs(s: &mut Session, n: i64) -> SqlResult<()> {
    let sql =
        "INSERT INTO paired VALUES ($1, ROW($1 % 3, 'the text of ' || $1, CASE WHEN $1 % 2 = 1 THEN $1 END))";
    s.query(sql, &crate::params![n])?;
    are_paired(s, n)
}

fn are_paired(s: &mut Session, n: i64) -> SqlResult<()> {
    let sql = "SELECT count(*) FILTER (WHERE (p).a IS DISTINCT FROM n % 3 OR (p).b IS DISTINCT FROM 'the text of ' || n
                 OR (p).c IS DISTINCT FROM CASE WHEN n % 2 = 1 THEN n END),
             count(*) FILTER (WHERE n = 0),
             (SELECT count(*) FROM paired WHERE p = ROW($1::bigint % 3, 'the text of ' || $1, CASE WHEN $1 % 2 = 1 THEN $1 END)::pair)
         FROM paired";
    let rows = s.query(sql, &crate::params![n])?;
    let got = (0..3).map(|i| rows.row(0).get::<i64>(i)).collect::<SqlResult<Vec<_>>>()?;
    match got == [0, 1, 1] {
        true => Ok(()),
        false => {
            let what = format!("Z14: wrong pairs, the first one, and those found for {n} are {got:?}");
            Err(SqlError::new(sqlstate::INTERNAL_ERROR, what))
        }
    }
}

/// Z7, in an open transaction: the worker takes away or takes a place that others want too.
fn at_spots(s: &mut Session, worker: u64, r: u64) -> SqlResult<()> {
    const SPOTS: u64 = 2;
    let (table, id) = (["spot_hash", "spot_tree"][(r % 2) as usize], ((r >> 1) % SPOTS) as i64);
    s.savepoint("spot")?;
    let changed = match (r >> 4) % 4 {
        0 => s.query(&format!("DELETE FROM {table} WHERE id + 0 = $1"), &crate::params![id]),
        1 => s.query(&format!("UPDATE {table} SET id = id + {SPOTS} WHERE id = $1"), &crate::params![id]),
        _ => s.query(
            &format!("INSERT INTO {table} VALUES ($1, $2)"),
            &crate::params![id, format!("worker {worker}")],
        ),
    };
    match changed {
        Err(e) if e.sqlstate() == sqlstate::UNIQUE_VIOLATION => s.rollback_to("spot")?,
        changed => drop(changed?),
    }
    let sql = format!(
        "SELECT (SELECT count(*) || min(owner) || max(owner) FROM {table} WHERE id = $1),
             (SELECT count(*) || min(owner) || max(owner) FROM {table} WHERE id + 0 = $1),
             (SELECT count(*) || min(owner) || max(owner) FROM {table} WHERE id IN ($1, 77))"
    );
    let rows = s.query(&sql, &crate::params![id])?;
    let got = (0..3).map(|i| rows.row(0).get::<Option<String>>(i)).collect::<SqlResult<Vec<_>>>()?;
    if got[0] != got[1] || got[2] != got[1] {
        let what =
            format!("Z7: {table} has {:?} at {id}, by its index {:?} and {:?}", got[1], got[0], got[2]);
        return Err(SqlError::new(sqlstate::INTERNAL_ERROR, what));
    }
    Ok(())
}

/// Z13, in an open transaction.
fn at_members(s: &mut Session, worker: u64, r: u64) -> SqlResult<()> {
    const PLACES: u64 = 3;
    let id = ((r >> 8) % PLACES) as i64;
    s.savepoint("member")?;
    let owner = format!("a worker who has this place as long as it is one, that is {worker}");
    let changed = match r % 5 {
        0 => s.query("DELETE FROM member WHERE id + 1 = $1 + 1", &crate::params![id]),
        1 => s.query("UPDATE member SET owner = NULL WHERE id + 1 = $1 + 1", &crate::params![id]),
        2 => s.query("UPDATE member SET owner = $2 WHERE id = $1", &crate::params![id, owner]),
        3 => s.query("UPDATE member SET id = (id + 1) % 3 WHERE id = $1", &crate::params![id]),
        // It comes into the index when it gets an owner.
        _ if (r >> 16).is_multiple_of(2) => s.query("INSERT INTO member VALUES ($1)", &crate::params![id]),
        _ => s.query("INSERT INTO member VALUES ($1, $2)", &crate::params![id, owner]),
    };
    match changed {
        Err(e) if e.sqlstate() == sqlstate::UNIQUE_VIOLATION => s.rollback_to("member")?,
        changed => drop(changed?),
    }
    // Of an older snapshot there may be one that has gone since beside an own one.
    members(s, id, 2)
}

/// That a place has the same members by the index as without it, and so many at most.
fn members(s: &mut Session, id: i64, most: i64) -> SqlResult<()> {
    let sql = "SELECT (SELECT count(*) FROM member WHERE id + 1 = $1 + 1 AND owner IS NOT NULL),
             (SELECT count(*) FROM member WHERE id + 0 = $1 AND owner || '' <> '')";
    let rows = s.query(sql, &crate::params![id])?;
    let got = (0..2).map(|i| rows.row(0).get::<i64>(i)).collect::<SqlResult<Vec<_>>>()?;
    match got[..] {
        [by_index, without] if by_index == without && without <= most => Ok(()),
        _ => {
            let what = format!("Z13: place {id} has {got:?} members, by the index and without");
            Err(SqlError::new(sqlstate::INTERNAL_ERROR, what))
        }
    }
}

/// What a transaction counts up, by how much: fixed by its number.
fn counted(worker: u64, n: i64) -> Option<(i64, i64)> {
    const TALLIES: u64 = 2;
    let r = mix(worker, n as u64);
    (!r.is_multiple_of(3))
        .then_some(((r >> 8) % TALLIES, (r >> 16) % 9 + 1))
        .map(|(a, b)| (a as i64, b as i64))
}

/// Beyond the numbers of tallies: a tally that was moved there.
const MOVED: i64 = 10;

/// Z8, in an open transaction: the worker counts a tally up, and perhaps takes one away, or moves it.
fn at_tallies(s: &mut Session, worker: u64, n: i64, r: u64) -> SqlResult<()> {
    let number = (r % 2) as i64;
    match (r >> 4) % 12 {
        0 => {
            let rows = s.query("DELETE FROM tally WHERE number = $1 RETURNING n", &crate::params![number])?;
            if let Some(row) = rows.iter().next() {
                let taken = "INSERT INTO taken AS t VALUES ($1, $2)
                     ON CONFLICT ON CONSTRAINT taken_pkey DO UPDATE SET n = t.n + excluded.n";
                s.query(taken, &crate::params![number, row.get::<i64>(0)?])?;
            }
        }
        1 => {
            s.savepoint("move")?;
            let sql = format!(
                "UPDATE tally SET number = number + {MOVED}, name = name || ' moved' WHERE number = $1"
            );
            match s.query(&sql, &crate::params![number]) {
                Err(e) if e.sqlstate() == sqlstate::UNIQUE_VIOLATION => s.rollback_to("move")?,
                moved => drop(moved?),
            }
        }
        _ => {}
    }
    let Some((number, added)) = counted(worker, n) else { return Ok(()) };
    let on = ["(name)", "(number)", "ON CONSTRAINT tally_pkey"][((r >> 16) % 3) as usize];
    // Some rows are left as they are once, since the condition is false; they are locked.
    for condition in ["excluded.n < 0", "true"].into_iter().skip(usize::from(!(r >> 24).is_multiple_of(4))) {
        if condition != "true" {
            let there = s.query("SELECT 1 FROM tally WHERE number = $1", &crate::params![number])?;
            if there.is_empty() {
                continue;
            }
        }
        let sql = format!(
            "INSERT INTO tally AS t VALUES ($1, $2, $3, $4)
             ON CONFLICT {on} DO UPDATE SET n = t.n + excluded.n, note = excluded.note WHERE {condition} RETURNING number, n"
        );
        let name = format!("the names of tallies all begin with this, then comes {number}");
        let note = "o".repeat((r >> 32) as usize % 40);
        let params = crate::params![name.as_str(), number, added, note.as_str()];
        let rows = s.query(&sql, &params)?;
        let got = rows
            .iter()
            .map(|row| Ok((row.get::<i64>(0)?, row.get::<i64>(1)?)))
            .collect::<SqlResult<Vec<_>>>()?;
        match got[..] {
            [] if condition != "true" => {}
            // It was taken away meanwhile: the row is a new one.
            [(at, n)] if at == number && (condition == "true" || n == added) => {
                if condition != "true" {
                    return Ok(());
                }
            }
            _ => {
                let what =
                    format!("Z8: tally {number} was counted up by {added} {on} where {condition}: {got:?}");
                return Err(SqlError::new(sqlstate::INTERNAL_ERROR, what));
            }
        }
    }
    Ok(())
}

/// Z9, in an open transaction: the worker is first somewhere, or is not.
fn at_places(s: &mut Session, worker: u64, n: i64) -> SqlResult<()> {
    let place = format!("places are where workers come that are about as far, this one at {}", n / 3);
    let sql = "INSERT INTO first VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING worker, n";
    let first = s.query(sql, &crate::params![place.as_str(), worker as i32, n])?.len();
    let rows = s.query("SELECT worker, n FROM first WHERE place = $1", &crate::params![place.as_str()])?;
    let found =
        rows.iter().map(|r| Ok((r.get::<i64>(0)?, r.get::<i64>(1)?))).collect::<SqlResult<Vec<_>>>()?;
    let ours = found == [(worker as i64, n)];
    if found.len() != 1 || ours != (first == 1) {
        let what = format!(
            "Z9: transaction {n} of worker {worker} inserted {first} rows at {place:?}, where {found:?} is"
        );
        return Err(SqlError::new(sqlstate::INTERNAL_ERROR, what));
    }
    Ok(())
}

/// Rows that name a parent that is not there.
const ORPHANS: &str = "SELECT count(*) FROM (SELECT parent FROM kept UNION ALL SELECT parent FROM child) AS c
     WHERE NOT EXISTS (SELECT 1 FROM parent WHERE id = c.parent)";

/// Z10, in an open transaction: parents and children come and go.
fn at_keys(s: &mut Session, isolation: Isolation, r: u64) -> SqlResult<()> {
    no_orphans(s)?;
    const PARENTS: u64 = 4;
    for step in 0..2 {
        let r = mix(r, step);
        let (id, other) = ((r % PARENTS) as i32, ((r >> 8) % PARENTS) as i32);
        let child = ["kept", "child", "late"][((r >> 16) % 3) as usize];
        s.savepoint("keys")?;
        let done = match (r >> 24) % 10 {
            0 | 1 => s.query("DELETE FROM parent WHERE id = $1", &crate::params![id]),
            2 => s.query("UPDATE parent SET id = $2 WHERE id = $1", &crate::params![id, other]),
            3 => s.query("UPDATE parent SET note = 'x' WHERE id = $1", &crate::params![id]),
            4 | 5 => s.query("INSERT INTO parent VALUES ($1) ON CONFLICT DO NOTHING", &crate::params![id]),
            6 => s.query(&format!("DELETE FROM {child} WHERE parent = $1"), &crate::params![id]),
            _ => s.query(&format!("INSERT INTO {child} VALUES ($1), ($2)"), &crate::params![id, other]),
        };
        match done {
            Err(e)
                if [sqlstate::UNIQUE_VIOLATION, sqlstate::FOREIGN_KEY_VIOLATION].contains(&e.sqlstate()) =>
            {
                s.rollback_to("keys")?
            }
            done => drop(done?),
        }
    }
    // An older snapshot still shows rows that others have deleted since, whose parent we may delete then.
    if isolation == Isolation::ReadCommitted {
        no_orphans(s)?
    }
    Ok(())
}

fn no_orphans(s: &mut Session) -> SqlResult<()> {
    match s.query(ORPHANS, &[])?.row(0).get::<i64>(0)? {
        0 => Ok(()),
        n => Err(SqlError::new(sqlstate::INTERNAL_ERROR, format!("Z10: {n} rows name no parent"))),
    }
}

/// Z6, in an open transaction.
fn by_threads(s: &mut Session, isolation: Isolation) -> SqlResult<()> {
    let wrong = |what: String| Err(SqlError::new(sqlstate::INTERNAL_ERROR, what));
    let mut seen = Vec::new();
    for workers in [2, 0] {
        s.execute(&format!("SET LOCAL max_parallel_workers_per_gather = {workers}; SET LOCAL min_parallel_table_scan_size = 0"))?;
        let money = s.query("SELECT sum(balance)::bigint FROM account", &[])?.row(0).get::<i64>(0)?;
        if money != ACCOUNTS as i64 * BALANCE {
            return wrong(format!("with {workers} threads: the accounts hold {money}"));
        }
        let mut text = Vec::new();
        let by_worker =
            "SELECT worker, count(*), sum(amount), string_agg(label, ',') FROM journal GROUP BY worker";
        s.for_each(by_worker, &[], |row| {
            text.extend((0..4).map(|i| row.get::<Option<String>>(i)).collect::<SqlResult<Vec<_>>>()?);
            Ok(())
        })?;
        let mut copy = Vec::new();
        s.copy_out("COPY journal TO STDOUT", &mut copy, |_| {})?;
        seen.push((text, copy));
    }
    // Each statement of READ COMMITTED has a snapshot of its own.
    if isolation != Isolation::ReadCommitted && seen[0] != seen[1] {
        return wrong(format!("two threads read {:?}, one reads {:?}", seen[0], seen[1]));
    }
    Ok(())
}

/// Opens the database and checks Z1 to Z5, and Z8 to Z15; closes it in order.
fn check(disk: Arc<dyn Storage>, known: &Mutex<Known>) -> Result<(), String> {
    let text = |e: SqlError| format!("{} {e}", e.sqlstate());
    let db = open(disk).map_err(|e| format!("recovery: {}", text(e)))?;
    let mut s = db.session();
    let mut balances = vec![BALANCE; ACCOUNTS as usize];
    let mut newest: BTreeMap<u64, i64> = BTreeMap::new();
    let mut tables = Vec::new();
    let mut labels = BTreeMap::new();
    let mut tallies: BTreeMap<i64, i64> = BTreeMap::new();
    let rows = s
        .query("SELECT worker, n, source, target, amount, made, label FROM journal ORDER BY worker, n", &[])
        .map_err(text)?;
    for row in rows.iter() {
        let get = |i: usize| row.get::<i64>(i).map_err(text);
        let (worker, n) = (get(0)? as u64, get(1)?);
        let last = newest.entry(worker).or_insert(0);
        if n != *last + 1 {
            return Err(format!("Z1: transaction {n} of worker {worker} is there, but not {}", *last + 1));
        }
        *last = n;
        balances[get(2)? as usize] -= get(4)?;
        balances[get(3)? as usize] += get(4)?;
        if let Some((number, added)) = counted(worker, n) {
            *tallies.entry(number).or_default() += added;
        }
        if let Some(label) = row.get::<Option<String>>(6).map_err(text)?
            && let Some(other) = labels.insert(label.clone(), (worker, n))
        {
            return Err(format!("Z5: {other:?} and {:?} have the label {label:?}", (worker, n)));
        }
        if get(5)? == 1 {
            tables.push(format!("made_{worker}_{n}"));
        } else if n % 5 == 4 {
            tables.retain(|t| *t != format!("made_{worker}_{}", n - 1));
        }
    }
    {
        let mut k = known.lock();
        for worker in 0..WORKERS {
            let there = newest.get(&worker).copied().unwrap_or(0);
            let told = k.told.get(&worker).copied().unwrap_or(0);
            let tried = k.tried.get(&worker).copied().unwrap_or(0);
            if there < told {
                return Err(format!("Z1: worker {worker} was told {told}, but only {there} are there"));
            }
            if there > tried {
                return Err(format!(
                    "Z1: {there} transactions of worker {worker} are there, {tried} were tried"
                ));
            }
            // What was recovered stays: the next life builds on it.
            k.told.insert(worker, there);
        }
    }
    let found = s.query("SELECT id, balance::bigint FROM account ORDER BY id", &[]).map_err(text)?;
    let found: Vec<(i64, i64)> =
        found.iter().map(|r| Ok((r.get(0)?, r.get(1)?))).collect::<SqlResult<_>>().map_err(text)?;
    let wanted: Vec<(i64, i64)> = balances.iter().enumerate().map(|(i, b)| (i as i64, *b)).collect();
    if found != wanted {
        return Err(format!("Z2: the accounts hold {found:?}, the journal makes them {wanted:?}"));
    }
    let sql = format!(
        "SELECT number, sum(n)::bigint FROM (SELECT number % {MOVED} AS number, n FROM tally UNION ALL SELECT number, n FROM taken) AS all_of_them
         GROUP BY number"
    );
    let found = s.query(&sql, &[]).map_err(text)?;
    let found: BTreeMap<i64, i64> =
        found.iter().map(|r| Ok((r.get(0)?, r.get(1)?))).collect::<SqlResult<_>>().map_err(text)?;
    if found != tallies {
        return Err(format!("Z8: the tallies hold {found:?}, the journal makes them {tallies:?}"));
    }
    let found = s.query("SELECT place, worker, n FROM first", &[]).map_err(text)?;
    for row in found.iter() {
        let (worker, n) = (row.get::<i64>(1).map_err(text)?, row.get::<i64>(2).map_err(text)?);
        if newest.get(&(worker as u64)).is_none_or(|last| n > *last) {
            return Err(format!(
                "Z9: transaction {n} of worker {worker} is first somewhere, and is not there"
            ));
        }
    }
    for sql in [ORPHANS, "SELECT count(*) FROM late WHERE parent NOT IN (SELECT id FROM parent)"] {
        match s.query(sql, &[]).and_then(|rows| rows.row(0).get::<i64>(0)).map_err(text)? {
            0 => {}
            n => return Err(format!("Z10: {n} rows name no parent: {sql}")),
        }
    }
    is_whole(&mut s).map_err(text)?;
    match s.query("SELECT count(*) FROM fleeting", &[]).and_then(|r| r.row(0).get::<i64>(0)).map_err(text)? {
        0 => {}
        n => return Err(format!("Z12: {n} rows of an unlogged table are there")),
    }
    let catalog = s.catalog();
    let names = catalog.tables().map(|t| t.def.name.clone());
    let there: Vec<String> = names.filter(|t| t.starts_with("made_")).collect();
    tables.sort();
    if there != tables {
        return Err(format!("Z3: the tables {there:?} are there, the journal has {tables:?}"));
    }
    for t in &there {
        let rows = s.query(&format!("SELECT a FROM {t} ORDER BY a"), &[]).map_err(text)?;
        let rows: Vec<Value> = rows.iter().map(|r| r.value(0).to_owned()).collect();
        if rows != [Value::Int4(1), Value::Int4(2)] {
            return Err(format!("Z3: table {t} holds {rows:?}"));
        }
    }
    for (worker, last) in &newest {
        for n in 1..=*last + 1 {
            let by = |s: &mut Session, sql: &str, params: &[Value]| {
                s.query(sql, params).and_then(|r| r.row(0).get::<i64>(0)).map_err(text)
            };
            let hash = "SELECT count(*) FROM journal WHERE n = $1 AND worker = $2";
            let key = "SELECT count(*) FROM journal WHERE worker = $2 AND n = $1";
            let want = (n <= *last) as i64;
            for sql in [hash, key] {
                let got = by(&mut s, sql, &crate::params![n, *worker as i32])?;
                if got != want {
                    return Err(format!("Z4: {sql} for {n} and {worker} counts {got} instead of {want}"));
                }
            }
        }
    }
    for (label, at) in &labels {
        let sql = "SELECT worker, n FROM journal WHERE label = $1";
        let rows = s.query(sql, &crate::params![label.as_str()]).map_err(text)?;
        let found: Vec<(i64, i64)> =
            rows.iter().map(|r| Ok((r.get(0)?, r.get(1)?))).collect::<SqlResult<_>>().map_err(text)?;
        if found != [(at.0 as i64, at.1)] {
            return Err(format!("Z4: {sql} for {label:?} gives {found:?} instead of {at:?}"));
        }
    }
    for id in 0..3 {
        members(&mut s, id, 1).map_err(text)?
    }
    are_paired(&mut s, 0).map_err(text)?;
    for n in 0..4 {
        in_boxes(&mut s, mix(n, 15)).map_err(text)?
    }
    drop(s);
    db.close().map_err(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_survive_and_meet_the_failure_in_many_phases() {
        const WANTED: [&str; 5] = ["commit", "flush", "checkpoint", "ddl", "recovery"];
        let mut phases: BTreeMap<&'static str, u64> = BTreeMap::new();
        // The rarest are met once in some hundred histories.
        for seed in 0..700 {
            let s = run(seed).unwrap_or_else(|b| panic!("{b}"));
            assert!(s.power_failures >= LIVES && s.checks == LIVES + 1);
            s.phases.into_iter().for_each(|(p, n)| *phases.entry(p).or_default() += n);
            if seed >= 70 && WANTED.iter().all(|p| phases.contains_key(p)) {
                break;
            }
        }
        for p in WANTED {
            assert!(phases.contains_key(p), "the power never failed in {p}: {phases:?}");
        }
    }

    #[test]
    fn one_seed_is_one_trace() {
        let trace = |seed| run(seed).map(|s| s.trace).unwrap_or_else(|b| panic!("{b}"));
        assert_eq!(trace(3), trace(3));
        assert_ne!(trace(3), trace(4));
    }

    /// What sees a wrong variant: the first of some hundred histories; before them one that did when it was
    /// last searched for, which mostly does still.
    fn caught(mutation: &'static str, likely: u64) -> String {
        let kind = Config { mutation: Some(mutation), ..Config::default() };
        let seen = |seed| run_in(seed, &kind).err().map(|e| (seed, e.to_string()));
        let (seed, e) = std::iter::once(likely)
            .chain(0..600)
            .find_map(seen)
            .unwrap_or_else(|| panic!("{mutation} goes unseen"));
        println!("{mutation}: seed {seed}: {e}");
        e
    }

    /// Z7 or Z13 must see a unique look-up that ends at the first row.
    #[test]
    fn a_unique_look_up_that_ends_early_is_caught() {
        let e = caught("twins_unseen", 22);
        assert!(["Z7", "Z13"].iter().any(|z| e.contains(z)), "{e}");
    }

    /// Z8 and Z9 must see the wrong ways to do without an insert.
    #[test]
    fn wrong_conflicts_are_caught() {
        for (mutation, likely, rules) in [
            ("rival_of_snapshot", 0, ["Z8", "Z8"]),
            ("rival_unlooked", 289, ["Z8", "Z8"]),
            ("attempt_kept", 1, ["Z8", "Z9"]),
        ] {
            let e = caught(mutation, likely);
            assert!(rules.iter().any(|r| e.contains(r)), "{mutation}: {e}");
        }
    }

    /// Z14 must see a dictionary that does not know which fields a type got later.
    #[test]
    fn forgotten_fields_are_caught() {
        caught("fields_forgotten", 0);
    }

    /// Z15 must see rows of a CR-tree that are taken unseen.
    #[test]
    fn boxes_that_are_not_looked_at_again_are_caught() {
        let e = caught("box_recheck_left_out", 0);
        assert!(e.contains("Z15"), "{e}");
    }

    /// Z10 must see the wrong ways to look for what a foreign key names.
    #[test]
    fn wrong_foreign_keys_are_caught() {
        for (mutation, likely) in
            [("keys_of_snapshot", 31), ("key_share_left_out", 2), ("deferred_after_timestamp", 0)]
        {
            let e = caught(mutation, likely);
            assert!(e.contains("Z10"), "{mutation}: {e}");
        }
    }

    /// The checks must see what a medium that lies does.
    #[test]
    fn a_lying_medium_is_caught() {
        let files = Config { ignore_sync_data: true, ..Config::default() };
        let folders = Config { ignore_sync_dir: true, ..Config::default() };
        for (what, kind) in [("files", files), ("folders", folders)] {
            assert!(
                (0..60).any(|seed| run_in(seed, &kind).is_err()),
                "syncs of {what} that do nothing went unseen"
            );
        }
    }
}
