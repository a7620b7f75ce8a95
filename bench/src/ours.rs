//! Ondol's side of the subscriber table: made, loaded, asked and updated through the public API.
use crate::Result;
use crate::customers::{Checksum, Csv, TABLE, service_mgmt_num};
use crate::histogram::Histogram;
use crate::random::Random;
use ondol::{Database, OpenOptions, Rows, Session, ValueRef};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::Instant;

const INDEXES: [&str; 3] = [
    "CREATE UNIQUE INDEX customer_mgmt ON customer USING hash (service_mgmt_num)",
    "CREATE UNIQUE INDEX customer_service ON customer USING hash (service_num)",
    "CREATE INDEX customer_registration ON customer USING hash (registration_num)",
];

/// As the subscriber directory registers them.
pub const QUERIES: [&str; 4] = [
    "CREATE FUNCTION q1(integer) RETURNS SETOF customer LANGUAGE sql AS 'SELECT * FROM customer WHERE service_num = $1'",
    "CREATE FUNCTION q2(bigint) RETURNS SETOF customer LANGUAGE sql AS 'SELECT * FROM customer WHERE registration_num = $1'",
    "CREATE FUNCTION q3(bigint) RETURNS SETOF customer LANGUAGE sql AS 'SELECT * FROM customer WHERE service_mgmt_num = $1'",
    "CREATE FUNCTION q4(bigint, bigint) RETURNS void LANGUAGE sql AS 'UPDATE customer SET counter = $2 WHERE service_mgmt_num = $1'",
];

/// Log that no checkpoint of the database's own is to interrupt.
const NEVER: u64 = 1 << 50;

/// Options under which no checkpoint starts by itself: a bench asks for those that it measures.
pub fn options() -> OpenOptions {
    OpenOptions::new().checkpoint_log_bytes(NEVER).checkpoint_interval_s(1 << 30)
}

/// Options under which checkpoints follow each other, each at the pace of those that start by themselves.
pub fn always_checkpointing() -> OpenOptions {
    OpenOptions::new().checkpoint_interval_s(0)
}

/// A database with the table, its three indexes and the four queries, checkpointed.
pub fn directory(path: &Path, rows: u64) -> Result<Database> {
    directory_with(options(), path, rows)
}

pub fn directory_with(options: OpenOptions, path: &Path, rows: u64) -> Result<Database> {
    let db = options.open(path)?;
    let mut session = db.session();
    session.execute(TABLE)?;
    let n = session.copy_in("COPY customer FROM STDIN (FORMAT csv)", Csv::new(rows), |_| {})?;
    if n != rows {
        return Err(format!("{n} rows were copied in, not {rows}").into());
    }
    build_indexes(&mut session)?;
    for q in QUERIES {
        session.execute(q)?;
    }
    db.checkpoint()?;
    Ok(db)
}

pub fn build_indexes(session: &mut Session) -> Result<()> {
    INDEXES.iter().try_for_each(|i| session.execute(i).map(|_| ()))?;
    Ok(())
}

/// One thread's updates of rows at random until told to stop, and how long each took: durable one by one or,
/// asynchronous, not more than some thousand ahead of the disk. What is open at the end is waited for.
pub fn updates(db: &Database, rows: u64, durable: bool, stop: &AtomicBool) -> Result<Histogram> {
    /// Counters of all updates, a new value each time; the first is the thread's seed.
    static NEXT: AtomicI64 = AtomicI64::new(1);
    let mut session = db.session();
    let q4 = session.query_id("q4")?;
    let mut random = Random::new(NEXT.fetch_add(1, Relaxed) as u64);
    let (mut result, mut h) = (Rows::new(), Histogram::default());
    let mut last = None;
    while !stop.load(Relaxed) {
        let value = NEXT.fetch_add(1, Relaxed);
        let params = [ValueRef::Int8(service_mgmt_num(random.below(rows))), ValueRef::Int8(value)];
        let start = Instant::now();
        let called = match durable {
            true => session.call(q4, &params, &mut result)?,
            false => session.call_async(q4, &params, &mut result)?,
        };
        h.add(start.elapsed().as_nanos() as u64);
        if called.rows != 1 {
            return Err("an update of an existing row changed none".into());
        }
        last = called.token.or(last);
        if h.len().is_multiple_of(4096)
            && let Some(t) = last.take()
        {
            session.wait(t)?;
        }
    }
    last.map_or(Ok(()), |t| session.wait(t))?;
    Ok(h)
}

/// The checksum of a row of the table.
#[inline]
pub fn checksum(row: ondol::Row<'_>) -> u64 {
    let mut sum = Checksum::new();
    for v in row.values() {
        match v {
            ValueRef::Int8(n) => sum.number(n),
            ValueRef::Int4(n) => sum.number(n.into()),
            ValueRef::Text(t) => sum.text(t.as_bytes()),
            _ => sum.number(-1),
        }
    }
    sum.0
}

#[inline]
pub fn checksums(rows: &Rows) -> u64 {
    rows.iter().map(checksum).fold(0, u64::wrapping_add)
}

/// What stands in the report beside Ondol.
pub fn settings(durability: &str) -> Vec<(String, String)> {
    let options = format!("{:?}", options());
    let limit =
        options.split("memory_limit: ").nth(1).and_then(|s| s.split(',').next()).unwrap_or("?").to_string();
    vec![
        ("version".into(), env!("CARGO_PKG_VERSION").into()),
        ("embedded,".into(), "registered queries by ID".into()),
        ("indexes".into(), "hash".into()),
        ("memory limit".into(), format!("{limit} bytes")),
        ("durability:".into(), durability.into()),
    ]
}
