//! The subscriber directory, side by side in one run: point reads by a unique key and durable updates of one
//! row.
//!
//! - **D1** Keys are drawn before the clock runs, and every side reads every column of every row into a
//!   checksum that must agree.
//! - **D2** Reads: Ondol's registered Q1 and Q3 one at a time and in batches of 50, SQLite in memory with
//!   prepared statements, LMDB's get, and a bare hash table, which is the limit.
//! - **D3** Updates: one promise on one disk. An update counts once it is durable; the raw side writes one
//!   block of 4 KiB and syncs it, into a file that was written with zeros before.
use heed::types::{Bytes, U64};
use heed::{Env, EnvFlags, EnvOpenOptions, IntegerComparator};
use ondol::{Batch, Database, QueryId, Rows, Session, Token, ValueRef};
use ondol_bench::Result;
use ondol_bench::bare::{Bare, By};
use ondol_bench::customers::{Checksum, Customer, RAW_BYTES, service_mgmt_num, service_num};
use ondol_bench::machine;
use ondol_bench::options::Common;
use ondol_bench::ours;
use ondol_bench::random::Random;
use ondol_bench::report::{Report, number};
use ondol_bench::rounds::{Bound, Contest, Quartiles, Sample, passes, timed};
use rusqlite::Connection;
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// The subscriber directory against SQLite, LMDB and bare memory
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Keys drawn for each pass of reading
    #[arg(long)]
    keys: Option<usize>,
    /// Commits in flight, of each thread
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u64).range(2..))]
    in_flight: u64,
    /// Run only one part, for a profiler
    #[arg(long, value_parser = ["q1", "q3", "q1-batch", "q3-batch", "q4-async", "q4-lone"])]
    only: Option<String>,
}

const BATCH: usize = 50;
type Native = heed::byteorder::NativeEndian;

pub fn run(args: Args) -> Result<()> {
    let rows = args.common.rows(4_000_000, 2_000);
    let keys = args.keys.unwrap_or(if args.common.tiny { 500 } else { 1_000_000 }).div_ceil(BATCH) * BATCH;
    let mut random = Random::new(7);
    let drawn: Vec<u64> = (0..keys).map(|_| random.below(rows)).collect();
    let folder = args.common.folder()?;
    eprintln!("Ondol: load {rows} rows");
    let db = ours::directory(&folder.path().join("ondol"), rows)?;
    if let Some(part) = &args.only {
        return only(part, &args, &db, &drawn);
    }
    let mut report = Report::new("directory", "Subscriber directory", Some(&args.common));
    report.say(format!(
        "{} rows of {RAW_BYTES} bytes raw, {} drawn keys a pass; the databases are on {}. Reads run on one thread.",
        number(rows as f64),
        number(keys as f64),
        machine::file_system(folder.path())
    ));
    reads(&args, &db, rows, &drawn, folder.path(), &mut report)?;
    updates(&args, &db, rows, &drawn, folder.path(), &mut report)?;
    log_bytes(&args, db, &drawn, &folder.path().join("ondol"), &mut report)?;
    report.finish()
}

/// Which of the two reading queries.
#[derive(Clone, Copy)]
struct Reading {
    name: &'static str,
    by: By,
}

const READINGS: [Reading; 2] =
    [Reading { name: "q1", by: By::Service }, Reading { name: "q3", by: By::Mgmt }];

impl Reading {
    fn keys(self, drawn: &[u64]) -> Vec<u64> {
        drawn
            .iter()
            .map(|i| match self.by {
                By::Service => service_num(*i) as u64,
                By::Mgmt => service_mgmt_num(*i) as u64,
            })
            .collect()
    }
    fn params(self, drawn: &[u64]) -> Vec<ValueRef<'static>> {
        drawn
            .iter()
            .map(|i| match self.by {
                By::Service => ValueRef::Int4(service_num(*i)),
                By::Mgmt => ValueRef::Int8(service_mgmt_num(*i)),
            })
            .collect()
    }
}

/// One pass of a registered query, one call at a time.
fn ask(session: &mut Session, query: QueryId, params: &[ValueRef<'_>], rows: &mut Rows) -> Result<u64> {
    let mut sum = 0u64;
    for p in params {
        session.call(query, std::slice::from_ref(p), rows)?;
        sum = sum.wrapping_add(ours::checksums(rows));
    }
    Ok(sum)
}

/// The same in batches.
fn ask_batches(
    session: &mut Session,
    query: QueryId,
    calls: &[&[ValueRef<'_>]],
    batch: &mut Batch,
) -> Result<u64> {
    let mut sum = 0u64;
    for some in calls.chunks(BATCH) {
        session.call_batch(query, some, batch)?;
        let mut found = 0;
        for row in batch.iter() {
            sum = sum.wrapping_add(ours::checksum(row));
            found += 1;
        }
        if found != some.len() {
            return Err(format!("a batch of {} existing keys gave {found} rows", some.len()).into());
        }
    }
    Ok(sum)
}

fn sqlite_memory(rows: u64) -> Result<Connection> {
    let mut c = Connection::open_in_memory()?;
    sqlite_fill(&mut c, rows)?;
    Ok(c)
}

/// SQLite's own fastest form: the management number is the row's number in its tree.
fn sqlite_fill(c: &mut Connection, rows: u64) -> Result<()> {
    c.execute_batch(
        "CREATE TABLE customer (service_mgmt_num INTEGER PRIMARY KEY, service_num INTEGER, registration_num INTEGER,
         service_code TEXT, service_type TEXT, is_ttl_subscriber TEXT, subscriber_name TEXT, counter INTEGER)",
    )?;
    let t = c.transaction()?;
    {
        let mut insert = t.prepare("INSERT INTO customer VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
        // In the order of the key, which is how a tree is filled best.
        let mut order: Vec<u64> = (0..rows).collect();
        order.sort_by_key(|i| service_mgmt_num(*i));
        for i in order {
            let c = Customer::new(i, rows);
            insert.execute(rusqlite::params![
                c.service_mgmt_num,
                c.service_num,
                c.registration_num,
                c.code(0),
                c.code(1),
                c.code(2),
                c.name(),
                c.counter
            ])?;
        }
    }
    t.execute_batch(
        "CREATE UNIQUE INDEX customer_service ON customer (service_num);
         CREATE INDEX customer_registration ON customer (registration_num);",
    )?;
    t.commit()?;
    Ok(())
}

fn sqlite_ask(statement: &mut rusqlite::Statement<'_>, keys: &[u64]) -> Result<u64> {
    let mut total = 0u64;
    for k in keys {
        let mut rows = statement.query([*k as i64])?;
        while let Some(r) = rows.next()? {
            let mut sum = Checksum::new();
            for i in 0..8 {
                match r.get_ref(i)? {
                    rusqlite::types::ValueRef::Integer(n) => sum.number(n),
                    rusqlite::types::ValueRef::Text(t) => sum.text(t),
                    _ => sum.number(-1),
                }
            }
            total = total.wrapping_add(sum.0);
        }
    }
    Ok(total)
}

/// Rows under both keys, so that each get is one lookup.
struct Lmdb {
    env: Env,
    by_service: heed::Database<U64<Native>, Bytes, IntegerComparator>,
    by_mgmt: heed::Database<U64<Native>, Bytes, IntegerComparator>,
}

#[allow(unsafe_code)] // Opening an environment has no safe form.
fn lmdb(path: &Path, rows: u64) -> Result<Lmdb> {
    std::fs::create_dir_all(path)?;
    let mut options = EnvOpenOptions::new();
    options.map_size(((rows * 2 * 200) as usize + (64 << 20)).next_multiple_of(1 << 20)).max_dbs(2);
    // SAFETY: the folder was made just now for this environment alone, so that nobody else changes its file
    // while it is mapped; without syncing a crash could damage it, and after a crash it is not used.
    let env = unsafe {
        options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC);
        options.open(path)?
    };
    let mut w = env.write_txn()?;
    let make = |w: &mut heed::RwTxn<'_>, name: &str| {
        env.database_options()
            .types::<U64<Native>, Bytes>()
            .key_comparator::<IntegerComparator>()
            .name(name)
            .create(w)
    };
    let (by_service, by_mgmt) = (make(&mut w, "service")?, make(&mut w, "mgmt")?);
    let mut order: Vec<(u64, u64)> = (0..rows).map(|i| (service_num(i) as u64, i)).collect();
    order.sort();
    for (k, i) in &order {
        by_service.put(&mut w, k, &Customer::new(*i, rows).pack())?;
    }
    order.iter_mut().for_each(|(k, i)| *k = service_mgmt_num(*i) as u64);
    order.sort();
    for (k, i) in &order {
        by_mgmt.put(&mut w, k, &Customer::new(*i, rows).pack())?;
    }
    w.commit()?;
    Ok(Lmdb { env, by_service, by_mgmt })
}

impl Lmdb {
    /// In one read transaction for the whole pass, or one for each get.
    fn ask(&self, by: By, keys: &[u64], each: bool) -> Result<u64> {
        let db = match by {
            By::Service => &self.by_service,
            By::Mgmt => &self.by_mgmt,
        };
        let mut t = self.env.read_txn()?;
        let mut sum = 0u64;
        for k in keys {
            if each {
                drop(t);
                t = self.env.read_txn()?;
            }
            let found = db.get(&t, k)?.ok_or("LMDB has no such key")?;
            // The row is copied out, as all sides do: what `get` gives is valid only within the transaction.
            let row: [u8; RAW_BYTES as usize] = found.try_into()?;
            sum = sum.wrapping_add(Customer::unpack(&row).checksum());
        }
        Ok(sum)
    }
}

fn reads(
    args: &Args,
    db: &Database,
    rows: u64,
    drawn: &[u64],
    folder: &Path,
    report: &mut Report,
) -> Result<()> {
    eprintln!("SQLite, LMDB and the bare table: load {rows} rows each");
    let sqlite = sqlite_memory(rows)?;
    let lmdb = lmdb(&folder.join("lmdb"), rows)?;
    let bare = Bare::new(rows);
    report.settings("Ondol", ours::settings("durable by default; reads at the newest durable snapshot"));
    report.settings(
        "SQLite (reads)",
        [
            ("version", rusqlite::version()),
            ("through", "rusqlite, bundled, prepared statements"),
            ("database", ":memory:"),
            ("keys", "INTEGER PRIMARY KEY and a unique index"),
            ("durability:", "none"),
        ],
    );
    report.settings(
        "LMDB",
        [
            ("version", heed::lmdb_version().string),
            ("through", "heed"),
            ("keys", "integers, in two databases that both hold the whole row"),
            ("mapped file,", "in the page cache"),
            ("durability:", "none (NO_SYNC)"),
        ],
    );
    report.settings(
        "Bare",
        [
            ("table", "open addressing, half full, rows of 72 bytes copied; it is the limit"),
            ("durability:", "none"),
        ],
    );
    let seconds = args.common.seconds(2.0);
    for reading in READINGS {
        let upper = reading.name.to_uppercase();
        let (keys, params) = (reading.keys(drawn), reading.params(drawn));
        let calls: Vec<&[ValueRef<'_>]> = params.iter().map(std::slice::from_ref).collect();
        let id = db.session().query_id(reading.name)?;
        let (mut one, mut many) = (db.session(), db.session());
        let (mut result, mut batch) = (Rows::new(), Batch::new());
        let column = match reading.by {
            By::Service => "service_num",
            By::Mgmt => "service_mgmt_num",
        };
        let mut statement = sqlite.prepare(&format!("SELECT * FROM customer WHERE {column} = ?1"))?;
        let mut contest = Contest::new(format!("{upper}: point reads, one thread"), "reads");
        contest.side("Ondol, one at a time", |_| {
            passes(seconds, keys.len(), || ask(&mut one, id, &params, &mut result))
        });
        contest.side("Ondol, batches of 50", |_| {
            passes(seconds, keys.len(), || ask_batches(&mut many, id, &calls, &mut batch))
        });
        contest
            .side("SQLite :memory:", |_| passes(seconds, keys.len(), || sqlite_ask(&mut statement, &keys)));
        contest.side("LMDB get", |_| passes(seconds, keys.len(), || lmdb.ask(reading.by, &keys, false)));
        contest.side("LMDB get, a transaction each", |_| {
            passes(seconds, keys.len(), || lmdb.ask(reading.by, &keys, true))
        });
        contest.side("bare, dependent", |_| {
            passes(seconds, keys.len(), || Ok(bare.dependent(reading.by, &keys)))
        });
        contest.side("bare, independent", |_| {
            passes(seconds, keys.len(), || Ok(bare.independent(reading.by, &keys)))
        });
        contest.side("bare, prefetched in 50", |_| {
            passes(seconds, keys.len(), || Ok(bare.prefetched(reading.by, &keys)))
        });
        let one = "Ondol, one at a time";
        contest.aim("one at a time against SQLite", one, Some("SQLite :memory:"), Bound::RateAtLeast(8.0));
        contest.aim("one at a time against LMDB", one, Some("LMDB get"), Bound::RateAtLeast(3.0));
        // 12 million a second where the bare prefetched limit is 60.
        let limit = Some("bare, prefetched in 50");
        contest.aim(
            "batches of 50 against the limit",
            "Ondol, batches of 50",
            limit,
            Bound::RateAtLeast(0.2),
        );
        contest.run(args.common.rounds(), report)?;
    }
    Ok(())
}

/// The updates' counters: a new one each time, over all sides and rounds.
struct Counter(i64);

impl Counter {
    fn next(&mut self) -> i64 {
        self.0 += 1;
        self.0
    }
}

/// Updates with so many commits in flight until the time is up; only what was acknowledged as durable counts.
fn in_flight(
    session: &mut Session,
    q4: QueryId,
    keys: &[u64],
    depth: usize,
    counter: i64,
    seconds: f64,
) -> Result<u64> {
    let mut counter = Counter(counter);
    let (mut rows, mut waiting) = (Rows::new(), VecDeque::<Token>::with_capacity(depth));
    let (start, mut done) = (Instant::now(), 0u64);
    for key in keys.iter().cycle() {
        let params = [ValueRef::Int8(service_mgmt_num(*key)), ValueRef::Int8(counter.next())];
        let called = session.call_async(q4, &params, &mut rows)?;
        match called.token {
            Some(t) if called.rows == 1 => waiting.push_back(t),
            _ => return Err(format!("an update of an existing row changed {} rows", called.rows).into()),
        }
        if waiting.len() >= depth {
            // The older half: the others go on being in flight.
            let half = depth / 2;
            session.wait(waiting[half - 1])?;
            waiting.drain(..half);
            done += half as u64;
            if start.elapsed().as_secs_f64() >= seconds {
                break;
            }
        }
    }
    if let Some(last) = waiting.back() {
        session.wait(*last)?;
    }
    Ok(done + waiting.len() as u64)
}

/// Durable updates, each acknowledged before the next begins.
fn lone(session: &mut Session, q4: QueryId, keys: &[u64], counter: i64, seconds: f64) -> Result<u64> {
    let mut counter = Counter(counter);
    let mut rows = Rows::new();
    let (start, mut done) = (Instant::now(), 0u64);
    for key in keys.iter().cycle() {
        let params = [ValueRef::Int8(service_mgmt_num(*key)), ValueRef::Int8(counter.next())];
        if session.call(q4, &params, &mut rows)?.rows != 1 {
            return Err("an update of an existing row changed none".into());
        }
        done += 1;
        if start.elapsed().as_secs_f64() >= seconds {
            break;
        }
    }
    Ok(done)
}

const RAW_FILE: u64 = 64 << 20;
const BLOCK: usize = 4096;

/// A file written with zeros and synced, so that a block written into it changes no metadata but its own.
fn zeroed(path: &Path, bytes: u64) -> Result<File> {
    let f = File::options().create_new(true).read(true).write(true).open(path)?;
    let zeros = vec![0u8; 1 << 20];
    (0..bytes.div_ceil(1 << 20)).try_for_each(|i| f.write_all_at(&zeros, i << 20))?;
    f.sync_all()?;
    Ok(f)
}

fn raw(file: &File, at: &mut u64, size: u64, seconds: f64) -> Result<u64> {
    let (start, mut done) = (Instant::now(), 0u64);
    let mut block = [0u8; BLOCK];
    while done == 0 || start.elapsed().as_secs_f64() < seconds {
        block[..8].copy_from_slice(&done.to_le_bytes());
        file.write_all_at(&block, *at)?;
        file.sync_data()?;
        *at = (*at + BLOCK as u64) % size;
        done += 1;
    }
    Ok(done)
}

fn updates(
    args: &Args,
    db: &Database,
    rows: u64,
    drawn: &[u64],
    folder: &Path,
    report: &mut Report,
) -> Result<()> {
    eprintln!("SQLite on disk: load {rows} rows");
    let mut sqlite = Connection::open(folder.join("sqlite.db"))?;
    sqlite.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA cache_size = -2000000;",
    )?;
    sqlite_fill(&mut sqlite, rows)?;
    sqlite.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA synchronous = FULL;")?;
    let mode: String = sqlite.query_row("PRAGMA journal_mode", [], |r| r.get(0))?;
    let synchronous: i64 = sqlite.query_row("PRAGMA synchronous", [], |r| r.get(0))?;
    if (mode.as_str(), synchronous) != ("wal", 2) {
        return Err(format!("SQLite took journal_mode {mode} and synchronous {synchronous}").into());
    }
    let size = if args.common.tiny { 1 << 20 } else { RAW_FILE };
    let file = zeroed(&folder.join("raw"), size)?;
    let depth = args.in_flight as usize;
    report.settings(
        "SQLite (updates)",
        [
            ("journal_mode", "WAL"),
            ("synchronous", "FULL: each transaction of one row is synced"),
            ("cache", "2 GB"),
            ("wal_autocheckpoint", "1000 pages, as by default"),
        ],
    );
    report.settings("Raw", [("write", "pwrite of 4 KiB, then fdatasync, into a file of zeros")]);
    report.settings(
        "Ondol (updates)",
        [(
            "commits in flight",
            format!("{depth} of each thread, counted when durable; \"lone\": each waits for its own round"),
        )],
    );
    let seconds = args.common.seconds(2.0);
    let q4 = db.session().query_id("q4")?;
    // The same keys on all sides; new values by side and round.
    let value = |side: i64, round: usize| side << 48 | (round as i64) << 32;
    let (mut one, mut alone) = (db.session(), db.session());
    let mut at = 0;
    let mut statement = sqlite.prepare("UPDATE customer SET counter = ?2 WHERE service_mgmt_num = ?1")?;
    let mut contest = Contest::new("Q4: durable updates of one row", "updates");
    contest.side("Ondol, in flight, 1 thread", |r| {
        timed(|| in_flight(&mut one, q4, drawn, depth, value(1, r), seconds))
    });
    contest.side("Ondol, in flight, 2 threads", |r| {
        timed(|| {
            let (left, right) = drawn.split_at(drawn.len() / 2);
            let run = |keys: &[u64], side: i64| {
                in_flight(&mut db.session(), q4, keys, depth, value(side, r), seconds)
            };
            std::thread::scope(|s| {
                let other = s.spawn(move || run(right, 3));
                let done = run(left, 2)?;
                Ok(done + other.join().map_err(|_| "the second thread failed")??)
            })
        })
    });
    contest.side("Ondol, lone commits", |r| timed(|| lone(&mut alone, q4, drawn, value(4, r), seconds)));
    contest.side("raw write + fdatasync", |_| timed(|| raw(&file, &mut at, size, seconds)));
    contest.side("SQLite, a transaction each", |r| {
        timed(|| {
            let (start, mut done) = (Instant::now(), 0u64);
            for key in drawn.iter().cycle() {
                let n = statement.execute([service_mgmt_num(*key), value(5, r) + done as i64])?;
                if n != 1 {
                    return Err("SQLite updated no row".into());
                }
                done += 1;
                if start.elapsed().as_secs_f64() >= seconds {
                    break;
                }
            }
            Ok(done)
        })
    });
    let flight = "Ondol, in flight, 1 thread";
    contest.aim(
        "in flight against SQLite",
        flight,
        Some("SQLite, a transaction each"),
        Bound::RateAtLeast(50.0),
    );
    let lone = "Ondol, lone commits";
    contest.aim(
        "time of a lone commit against raw",
        lone,
        Some("raw write + fdatasync"),
        Bound::TimeAtMost(1.3),
    );
    let samples = contest.run(args.common.rounds(), report)?;
    let two = Quartiles::of(samples[1].iter().zip(&samples[0]).map(|(b, a)| b.rate() / a.rate()));
    report.say(format!("Two threads against one, in flight: {} times.", two.text()));
    Ok(())
}

/// What an update leaves in the log, as recovery reads it and as the process writes it.
fn log_bytes(args: &Args, db: Database, drawn: &[u64], path: &Path, report: &mut Report) -> Result<()> {
    db.checkpoint()?;
    let mut session = db.session();
    let q4 = session.query_id("q4")?;
    let n = if args.common.tiny { 2_000 } else { 500_000 };
    let before = machine::written_bytes();
    let mut rows = Rows::new();
    let mut last = None;
    for (i, key) in drawn.iter().cycle().take(n).enumerate() {
        let params = [ValueRef::Int8(service_mgmt_num(*key)), ValueRef::Int8(9 << 48 | i as i64)];
        last = session.call_async(q4, &params, &mut rows)?.token.or(last);
    }
    last.map_or(Ok(()), |t| session.wait(t))?;
    let written = (machine::written_bytes() - before) as f64 / n as f64;
    drop(session);
    db.close()?;
    let db = ours::options().create(false).open(path)?;
    let recovered = db.opened().recovered.clone();
    let read = recovered.log_bytes as f64 / n as f64;
    report.section("Log bytes for a Q4");
    report.table(
        &["measured as", "bytes an update"],
        &[
            vec![
                format!("log that recovery read, {} records", number(recovered.records as f64)),
                number(read),
            ],
            vec!["written by the process, blocks and all".into(), number(written)],
        ],
    );
    report.figure("log bytes", "Ondol", 0, "recovered_bytes_per_update", read);
    report.figure("log bytes", "Ondol", 0, "written_bytes_per_update", written);
    report.say("The aim is 48 at most.");
    Ok(())
}

/// One part alone, for counting its instructions: twice as many calls cost twice the difference of two runs.
fn only(part: &str, args: &Args, db: &Database, drawn: &[u64]) -> Result<()> {
    let mut session = db.session();
    let seconds = args.common.seconds(0.000_001);
    let q4 = session.query_id("q4")?;
    let reading = READINGS[part.starts_with("q3") as usize];
    let params = reading.params(drawn);
    let calls: Vec<&[ValueRef<'_>]> = params.iter().map(std::slice::from_ref).collect();
    let (mut rows, mut batch) = (Rows::new(), Batch::new());
    let id = session.query_id(reading.name)?;
    let sample: Sample = match part {
        "q1" | "q3" => passes(seconds, params.len(), || ask(&mut session, id, &params, &mut rows))?,
        "q4-lone" => timed(|| lone(&mut session, q4, drawn, 1 << 50, seconds))?,
        "q4-async" => timed(|| {
            let mut last = None;
            for (i, key) in drawn.iter().enumerate() {
                let params = [ValueRef::Int8(service_mgmt_num(*key)), ValueRef::Int8(1 + i as i64)];
                last = session.call_async(q4, &params, &mut rows)?.token;
            }
            last.map_or(Ok(()), |t| session.wait(t))?;
            Ok(drawn.len() as u64)
        })?,
        _ => passes(seconds, params.len(), || ask_batches(&mut session, id, &calls, &mut batch))?,
    };
    println!(
        "{part}: {} calls in {:.3} s, {} a second",
        sample.operations,
        sample.seconds,
        number(sample.rate())
    );
    Ok(())
}
