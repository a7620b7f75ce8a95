//! A fixed number of calls of each kind on the subscriber table, and of TPC-C's New-Order, for a profiler
//! that counts instructions: each kind in a function whose name begins with `counted_`. `bench/instructions`
//! runs it and divides. What is drawn follows from fixed seeds, and one thread calls.
use ondol::{Batch, Database, Isolation, OpenOptions, QueryId, Result, Rows, Session, Value, ValueRef};
use ondol_bench::tpcc::Scale;
use ondol_bench::tpcc::backend::{Backend, Commit, Failure, Link};
use ondol_bench::tpcc::ondol::{Durability, Ondol};
use ondol_bench::tpcc::populate::{POPULATED_US, populate};
use ondol_bench::tpcc::transactions::{Ended, Terminal, Type};

const ROWS: i64 = 20_000;
const CALLS: usize = 2_000;
const BATCH: usize = 50;
const ORDERS: usize = 500;
/// So small that populating it takes a moment under the profiler; what a New-Order does is the same.
const SCALE: Scale = Scale { warehouses: 1, items: 1_000, customers: 30 };

const SCHEMA: &str = "
    CREATE TABLE customer (service_mgmt_num bigint NOT NULL, service_num integer NOT NULL, registration_num bigint,
        service_code char(1), service_type char(1), is_ttl_subscriber char(1), subscriber_name char(40), counter bigint);
    INSERT INTO customer SELECT i * 7919, i * 3, i / 4, 'A', '1', 'N', 'Grace Hopper', 0
        FROM generate_series(1, 20000) AS g(i);
    CREATE UNIQUE INDEX customer_mgmt ON customer USING hash (service_mgmt_num);
    CREATE UNIQUE INDEX customer_service ON customer USING hash (service_num);
    CREATE FUNCTION q1(integer) RETURNS SETOF customer LANGUAGE sql AS
        'SELECT * FROM customer WHERE service_num = $1';
    CREATE FUNCTION q3(bigint) RETURNS SETOF customer LANGUAGE sql AS
        'SELECT * FROM customer WHERE service_mgmt_num = $1';
    CREATE FUNCTION q4(bigint, bigint) RETURNS void LANGUAGE sql AS
        'UPDATE customer SET counter = $2 WHERE service_mgmt_num = $1';";

/// Reads every value of every row, as a user would.
fn look(rows: &Rows) -> usize {
    rows.iter().map(|r| r.values().filter(|v| !v.is_null()).count()).sum()
}

/// A function of its own for each part, so that a profiler tells them apart.
macro_rules! part {
    ($name:ident, $calls:expr, $does:expr) => {{
        #[inline(never)]
        fn $name<R>(does: impl FnOnce() -> R) -> R {
            // Else the compiler might make one function of two.
            std::hint::black_box(stringify!($name));
            does()
        }
        println!("{}: {}", stringify!($name), $calls);
        $name($does)
    }};
}

type Calls<'a> = [&'a [ValueRef<'a>]];

fn one_by_one(session: &mut Session, query: QueryId, calls: &Calls<'_>, rows: &mut Rows) -> Result<u64> {
    let mut n = 0;
    for params in calls {
        n += session.call(query, params, rows)?.rows;
    }
    Ok(n)
}

fn asynchronous(session: &mut Session, query: QueryId, calls: &Calls<'_>, rows: &mut Rows) -> Result<u64> {
    let mut n = 0;
    for params in calls {
        n += session.call_async(query, params, rows)?.rows;
    }
    Ok(n)
}

fn in_batches(session: &mut Session, query: QueryId, calls: &Calls<'_>, batch: &mut Batch) -> Result<u64> {
    let mut n = 0;
    for chunk in calls.chunks(BATCH) {
        session.call_batch(query, chunk, batch)?;
        n += chunk.len() as u64;
    }
    Ok(n)
}

/// By a statement's text, each outcome a value of its own.
fn by_text(session: &mut Session, text: &str, params: &[[Value; 1]]) -> Result<usize> {
    let mut n = 0;
    for p in params {
        n += session.query(text, p)?.len();
    }
    Ok(n)
}

/// The keys are in the texts, as psql and many a driver send them.
fn by_literals(session: &mut Session, texts: &[String]) -> Result<usize> {
    let mut n = 0;
    for text in texts {
        n += session.query(text, &[])?.len();
    }
    Ok(n)
}

/// In a transaction each.
fn in_transactions(session: &mut Session, text: &str, params: &[[Value; 1]]) -> Result<usize> {
    let mut n = 0;
    for p in params {
        session.begin(Isolation::ReadCommitted)?;
        n += session.query(text, p)?.len();
        session.commit()?;
    }
    Ok(n)
}

fn all_of(keys: &[impl AsRef<[ValueRef<'static>]>]) -> Vec<&[ValueRef<'static>]> {
    keys.iter().map(|k| k.as_ref()).collect()
}

fn main() -> ondol_bench::Result<()> {
    let folder = ondol::TempFolder::new()?;
    subscribers(&open(&folder, "subscribers")?)?;
    new_orders(open(&folder, "tpcc")?)
}

/// A database that begins no checkpoint by itself.
fn open(folder: &ondol::TempFolder, name: &str) -> Result<Database> {
    OpenOptions::new().checkpoint_interval_s(1 << 30).open(folder.path().join(name))
}

/// New-Orders, their commits asynchronous; gives how many were committed, and the last commit's number.
fn order(link: &mut dyn Link, terminal: &mut Terminal, n: usize) -> ondol_bench::Result<(usize, u64)> {
    let (mut committed, mut last) = (0, 0);
    for i in 0..n {
        terminal.draw_only(Type::NewOrder, POPULATED_US + 1_000_000 * (i as i64 + 1));
        match terminal.run(link) {
            Ok(Ended::Committed { commit, .. }) => {
                committed += 1;
                if let Commit::Pending(number) = commit {
                    last = number;
                }
            }
            Ok(Ended::RolledBack) => {}
            Err(Failure::Retry) => return Err("a New-Order met another, of which there is none".into()),
            Err(Failure::Fatal(e)) => return Err(e),
        }
    }
    Ok((committed, last))
}

fn new_orders(db: Database) -> ondol_bench::Result<()> {
    let side = Ondol { db, durability: Durability::Asynchronous, isolation: Isolation::RepeatableRead };
    populate(&side, &SCALE)?;
    side.connect(&mut |link| {
        let mut terminal = Terminal::new(SCALE, 1, 0, 1);
        // These let everything grow.
        let (_, last) = order(link, &mut terminal, ORDERS / 5)?;
        link.wait(last)?;
        let (committed, last) = part!(counted_new_order, ORDERS, || order(link, &mut terminal, ORDERS))?;
        // One in a hundred is rolled back, as the standard wants it.
        assert!((ORDERS * 97 / 100..ORDERS).contains(&committed), "{committed} of {ORDERS}");
        link.wait(last)
    })
}

fn subscribers(db: &Database) -> Result<()> {
    let mut session = db.session();
    session.execute(SCHEMA)?;
    let (q1, q3, q4) = (session.query_id("q1")?, session.query_id("q3")?, session.query_id("q4")?);
    // Spread over the table; no row twice.
    let drawn: Vec<i64> = (0..CALLS as i64).map(|i| i * 1_009 % ROWS + 1).collect();
    let by_service: Vec<_> = drawn.iter().map(|i| [ValueRef::Int4(*i as i32 * 3)]).collect();
    let by_mgmt: Vec<_> = drawn.iter().map(|i| [ValueRef::Int8(*i * 7919)]).collect();
    let (by_service, by_mgmt) = (all_of(&by_service), all_of(&by_mgmt));
    let (mut rows, mut batch) = (Rows::new(), Batch::new());
    let (s, r, b) = (&mut session, &mut rows, &mut batch);
    // A first call of each lets everything grow.
    s.call(q1, by_service[0], r)?;
    let n = part!(counted_q1, CALLS, || one_by_one(s, q1, &by_service, r))?;
    assert_eq!(n, CALLS as u64);
    s.call_batch(q1, &by_service[..BATCH], b)?;
    part!(counted_q1_in_batches, CALLS, || in_batches(s, q1, &by_service, b))?;
    assert_eq!(b.iter().count(), BATCH);
    s.call(q3, by_mgmt[0], r)?;
    let n = part!(counted_q3, CALLS, || one_by_one(s, q3, &by_mgmt, r))?;
    assert_eq!(n, CALLS as u64);
    s.call_batch(q3, &by_mgmt[..BATCH], b)?;
    part!(counted_q3_in_batches, CALLS, || in_batches(s, q3, &by_mgmt, b))?;
    assert_eq!(b.iter().count(), BATCH);
    let n = part!(counted_looks_at_all_values, CALLS, || (0..CALLS).map(|_| look(r)).sum::<usize>());
    assert_eq!(n, CALLS * 8);
    let text = "SELECT counter FROM customer WHERE service_num = $1";
    let params: Vec<_> = drawn.iter().map(|i| [Value::Int4(*i as i32 * 3)]).collect();
    s.query(text, &params[0])?;
    let n = part!(counted_text, CALLS, || by_text(s, text, &params))?;
    assert_eq!(n, CALLS);
    let texts: Vec<_> = drawn.iter().map(|i| text.replace("$1", &(i * 3).to_string())).collect();
    s.query(&texts[0], &[])?;
    let n = part!(counted_literals, CALLS, || by_literals(s, &texts))?;
    assert_eq!(n, CALLS);
    in_transactions(s, text, &params[..1])?;
    let n = part!(counted_transactions, CALLS, || in_transactions(s, text, &params))?;
    assert_eq!(n, CALLS);
    let updates = |counter: i64| -> Vec<_> {
        drawn.iter().map(|i| [ValueRef::Int8(*i * 7919), ValueRef::Int8(counter)]).collect()
    };
    let sets: Vec<_> = (1..=4).map(updates).collect();
    s.call_batch(q4, &all_of(&sets[0]), b)?;
    let n = part!(counted_q4_each_durable, CALLS, || one_by_one(s, q4, &all_of(&sets[1]), r))?;
    assert_eq!(n, CALLS as u64);
    let n = part!(counted_q4_asynchronous, CALLS, || asynchronous(s, q4, &all_of(&sets[2]), r))?;
    assert_eq!(n, CALLS as u64);
    part!(counted_q4_in_durable_batches, CALLS, || in_batches(s, q4, &all_of(&sets[3]), b))?;
    Ok(())
}
