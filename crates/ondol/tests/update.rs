//! UPDATE of one row by its key: the short way, the same instruction in a transaction, and the code that it
//! stands for do the same, also after the log was replayed.
use ondol::{Batch, Database, Isolation, Rows, Session, TempFolder, Token, Value, ValueRef};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SCHEMA: &str = "
    CREATE TABLE t (id bigint, ka smallint, part integer NOT NULL, b boolean, s smallint NOT NULL, i integer, l bigint NOT NULL,
        d double precision, day date, at timestamp NOT NULL, z timestamptz, name char(6), note text);
    INSERT INTO t SELECT k, k, k % 5, true, k, k, k, k, date '2020-01-01' + k, timestamp '2020-01-01', NULL,
        CASE WHEN k % 3 = 0 THEN 'ÄÖÜäöü' ELSE 'abc' END, repeat('x', k) FROM generate_series(1, 40) AS g(k);
    CREATE UNIQUE INDEX t_id ON t USING hash (id);
    CREATE UNIQUE INDEX t_both ON t USING hash (ka, part);";

/// The columns that may be set: name, type, whether NULL is allowed.
const COLUMNS: [(&str, &str, bool); 8] = [
    ("b", "boolean", true),
    ("s", "smallint", false),
    ("i", "integer", true),
    ("l", "bigint", false),
    ("d", "double precision", true),
    ("day", "date", true),
    ("at", "timestamp", false),
    ("z", "timestamptz", true),
];

/// Sets of columns that are set together.
const SETS: [&[usize]; 6] = [&[3], &[0], &[2, 5], &[7, 1, 4], &[6], &[0, 1, 2, 3, 4, 5, 6, 7]];

struct Numbers(u64);
impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
    fn value(&mut self, column: usize) -> ValueRef<'static> {
        let (_, ty, nullable) = COLUMNS[column];
        // Seldom a NULL where none may be, or a value of another type.
        if self.next(if nullable { 4 } else { 40 }) == 0 {
            return ValueRef::Null;
        }
        if self.next(60) == 0 {
            return ValueRef::Text("a text");
        }
        let few = [0, 1, -1, 77, 1 << 14, -(1 << 15)][self.next(6) as usize];
        match ty {
            "boolean" => ValueRef::Bool(few & 1 == 0),
            "smallint" => ValueRef::Int2(few as i16),
            "integer" => ValueRef::Int4(few << 8),
            "date" => ValueRef::Date(few),
            "double precision" => ValueRef::Float8(f64::from(few) / 3.0),
            "timestamp" => ValueRef::Timestamp(i64::from(few) << 24),
            "timestamptz" => ValueRef::Timestamptz(i64::from(few) << 20),
            _ => ValueRef::Int8(i64::from(few) << 30),
        }
    }
}

/// The instructions of a registered query.
fn code(session: &mut Session, call: &str) -> Vec<String> {
    let rows = session.query(&format!("EXPLAIN EXECUTE {call}"), &[]).unwrap();
    let lines: Vec<String> = rows.iter().map(|r| r.get::<String>(0).unwrap()).collect();
    let words = lines.iter().map(|l| l.split_whitespace().map(str::to_string).collect::<Vec<_>>());
    words.filter(|w| w[0].parse::<u32>().is_ok()).map(|w| w[1].clone()).collect()
}

fn open(folder: &TempFolder) -> Session {
    Database::open(folder.path()).unwrap().session()
}

/// `and` makes the condition one that no single instruction does.
fn define(session: &mut Session, and: &str) {
    session.execute(SCHEMA).unwrap();
    for (n, set) in SETS.iter().enumerate() {
        let types: Vec<_> = set.iter().map(|c| COLUMNS[*c].1).collect();
        let list = |from: usize| {
            let each = set.iter().enumerate().map(|(p, c)| format!("{} = ${}", COLUMNS[*c].0, p + from));
            each.collect::<Vec<_>>().join(", ")
        };
        session
            .execute(&format!(
                "CREATE FUNCTION by_id{n}(bigint, {types}) RETURNS void LANGUAGE sql
                     AS 'UPDATE t SET {} WHERE id = $1 {and}';
                 CREATE FUNCTION by_both{n}(integer, smallint, {types}) RETURNS void LANGUAGE sql
                     AS 'UPDATE t SET {} WHERE part = $1 AND ka = $2 {and}';",
                list(2),
                list(3),
                types = types.join(", "),
            ))
            .unwrap();
    }
    session
        .execute(&format!(
            "CREATE FUNCTION constant(bigint) RETURNS void LANGUAGE sql
                 AS 'UPDATE t SET l = 9000000000, b = NULL, s = 7::smallint WHERE id = $1 {and}';
             CREATE FUNCTION crossed(bigint, integer, bigint) RETURNS void LANGUAGE sql
                 AS 'UPDATE t SET l = $3, i = $2 WHERE id = $1 {and}';"
        ))
        .unwrap();
}

fn everything(session: &mut Session) -> Vec<String> {
    let rows = session.query("SELECT * FROM t ORDER BY id, part, ka", &[]).unwrap();
    let text = |r: ondol::Row<'_>| format!("{:?}", r.values().collect::<Vec<_>>());
    rows.iter().map(text).collect()
}

/// How a session runs its updates.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Alone,
    Asynchronous,
    InBatches,
    InTransactions,
    /// By the code that the instruction stands for.
    Plain,
}

#[test]
fn all_ways_do_the_same() {
    let ways = [Way::Alone, Way::Asynchronous, Way::InBatches, Way::InTransactions, Way::Plain];
    let folders: Vec<_> = ways.iter().map(|_| TempFolder::new().unwrap()).collect();
    let mut sessions: Vec<_> = folders.iter().map(open).collect();
    for (s, way) in sessions.iter_mut().zip(ways) {
        define(s, if way == Way::Plain { "AND id <= id + 0" } else { "" });
        let found = code(s, "by_id0(1, 2)");
        assert_eq!(found.contains(&"PointUpdate".to_string()), way != Way::Plain, "{found:?}");
    }
    for call in [
        "by_both5(1, 2::smallint, true, 2::smallint, 1, 1, 1.5, date '2020-01-01', timestamp '2020-01-01', now())",
        "constant(1)",
        "crossed(1, 2, 3)",
    ] {
        let found = code(&mut sessions[0], call);
        assert_eq!(found[found.len() - 2..], ["PointUpdate", "Halt"], "{call}: {found:?}");
    }
    let mut numbers = Numbers(20_261_122);
    let (mut changed, mut failed) = (0, 0);
    for round in 0..1_000 {
        let (name, params) = one_call(&mut numbers);
        let outcomes: Vec<_> =
            sessions.iter_mut().zip(ways).map(|(s, way)| outcome(s, way, &name, &params)).collect();
        for (o, way) in outcomes.iter().zip(ways) {
            assert_eq!(*o, outcomes[0], "round {round}, {way:?}, {name} {params:?}");
        }
        match &outcomes[0] {
            Ok(n) => changed += n,
            Err(_) => failed += 1,
        }
        if round % 200 == 0 {
            // Old versions are kept, and then not any more.
            sessions.iter_mut().for_each(|s| drop(s.execute("CHECKPOINT").unwrap()));
        }
    }
    assert!(changed > 400 && failed > 20, "{changed} changed, {failed} failed");
    let wanted: Vec<_> = sessions.iter_mut().map(everything).collect();
    assert!(wanted.iter().all(|w| *w == wanted[0]));
    drop(sessions);
    for (f, way) in folders.iter().zip(ways) {
        assert_eq!(everything(&mut open(f)), wanted[0], "replayed, {way:?}");
    }
}

fn one_call(numbers: &mut Numbers) -> (String, Vec<ValueRef<'static>>) {
    let id = match numbers.next(30) {
        0 => ValueRef::Null,
        1 => ValueRef::Int4(3),
        2 => ValueRef::Int8(1 << 40),
        _ => ValueRef::Int8(numbers.next(42) as i64),
    };
    match numbers.next(12) {
        0 => ("constant".into(), vec![id]),
        1 => ("crossed".into(), vec![id, numbers.value(2), numbers.value(3)]),
        _ => {
            let n = numbers.next(SETS.len() as u64) as usize;
            let values: Vec<_> = SETS[n].iter().map(|c| numbers.value(*c)).collect();
            match (numbers.next(3), id) {
                (0, ValueRef::Int8(i)) => {
                    let part = ValueRef::Int4((i % 5) as i32 + i32::from(numbers.next(10) == 0));
                    (
                        format!("by_both{n}"),
                        [part, ValueRef::Int2(i as i16)].into_iter().chain(values).collect(),
                    )
                }
                _ => (format!("by_id{n}"), [id].into_iter().chain(values).collect()),
            }
        }
    }
}

fn outcome(s: &mut Session, way: Way, name: &str, params: &[ValueRef<'_>]) -> Result<u64, String> {
    let query = s.query_id(name).unwrap();
    let mut rows = Rows::new();
    let told = |e: ondol::Error| format!("{} {e} {:?}", e.sqlstate(), e.0.detail);
    match way {
        Way::Alone | Way::Plain => s.call(query, params, &mut rows).map(|c| c.rows).map_err(told),
        Way::Asynchronous => s.call_async(query, params, &mut rows).map(|c| c.rows).map_err(told),
        Way::InBatches => {
            let mut batch = Batch::new();
            // Twice the same: the second changes nothing.
            s.call_batch(query, &[params, params], &mut batch).map_err(told)?;
            batch.called(0).map(|c| c.rows).map_err(told)
        }
        Way::InTransactions => {
            s.begin(Isolation::RepeatableRead).unwrap();
            let done = s.call(query, params, &mut rows).map(|c| c.rows).map_err(told);
            match done {
                Ok(_) => drop(s.commit().unwrap()),
                Err(_) => s.rollback(),
            }
            done
        }
    }
}

/// Threads write to the same few rows in different ways; commits being numbered in their order, the last one
/// of each row is what stands there in the end, and after the log was replayed.
#[test]
fn the_last_commit_of_each_row_stands() {
    const ROWS: i64 = 3;
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path()).unwrap();
    let mut s = db.session();
    define(&mut s, "");
    let query = s.query_id("by_id0").unwrap();
    let stop = AtomicBool::new(false);
    let mut last: HashMap<i64, (Token, i64)> = HashMap::new();
    std::thread::scope(|scope| {
        let stop = &stop;
        let write = |thread: i64| {
            let mut s = db.session();
            move || {
                let mut numbers = Numbers(thread as u64);
                let (mut rows, mut done) = (Rows::new(), vec![]);
                for n in 0..3_000 {
                    let (id, value) = (numbers.next(ROWS as u64) as i64 + 1, (thread + 1) << 32 | n);
                    let params = [ValueRef::Int8(id), ValueRef::Int8(value)];
                    if thread < 2 {
                        done.push((
                            id,
                            s.call_async(query, &params, &mut rows).unwrap().token.unwrap(),
                            value,
                        ));
                        continue;
                    }
                    s.begin(Isolation::ReadCommitted).unwrap();
                    let lock = format!(
                        "SELECT id FROM t WHERE id = {id} FOR {}",
                        ["UPDATE", "SHARE"][n as usize % 2]
                    );
                    s.execute(&lock).unwrap();
                    let changed = s.call(query, &params, &mut rows).map(|c| c.rows);
                    match (changed, n % 7) {
                        (Ok(1), 1..) => done.push((id, s.commit_async().unwrap().unwrap(), value)),
                        (Ok(1), 0) => s.rollback(),
                        (Err(e), _) if e.sqlstate() == "40P01" => s.rollback(),
                        other => panic!("{other:?}"),
                    }
                }
                done
            }
        };
        let looker = scope.spawn({
            let mut s = db.session();
            move || {
                // A snapshot stands still, whatever is committed meanwhile.
                while !stop.load(Ordering::Relaxed) {
                    s.begin(Isolation::RepeatableRead).unwrap();
                    let first = everything(&mut s);
                    std::thread::yield_now();
                    assert_eq!(everything(&mut s), first);
                    s.rollback();
                }
            }
        });
        let writers: Vec<_> = (0..4).map(|t| scope.spawn(write(t))).collect();
        let done: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        stop.store(true, Ordering::Relaxed);
        for writes in done {
            for (id, token, value) in writes.unwrap() {
                let newest = last.entry(id).or_insert((token, value));
                if newest.0 <= token {
                    *newest = (token, value)
                }
            }
        }
        looker.join().unwrap();
    });
    let check = |s: &mut Session| {
        for (id, (_, value)) in &last {
            let rows = s.query("SELECT l FROM t WHERE id = $1", &[Value::Int8(*id)]).unwrap();
            assert_eq!(rows.row(0).get::<i64>(0).unwrap(), *value, "row {id}");
        }
    };
    assert_eq!(last.len(), ROWS as usize);
    check(&mut s);
    drop((s, db));
    check(&mut open(&folder));
}

/// What is out of the ordinary: locks, changed keys, readers that count on what they saw, definitions that
/// change.
#[test]
fn what_is_out_of_the_ordinary_is_seen() {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path()).unwrap();
    let (mut s, mut other) = (db.session(), db.session());
    define(&mut s, "");
    let query = s.query_id("by_id0").unwrap();
    let mut rows = Rows::new();
    let mut set = |s: &mut Session, id: i64, l: i64| {
        s.call(query, &[ValueRef::Int8(id), ValueRef::Int8(l)], &mut rows).map(|c| c.rows)
    };
    let get = |s: &mut Session, id: i64| {
        s.query("SELECT l FROM t WHERE id = $1", &[Value::Int8(id)]).unwrap().row(0).get::<i64>(0).unwrap()
    };
    // It waits for a lock, and sees what its holder left.
    for lock in ["FOR UPDATE", "FOR SHARE"] {
        other.begin(Isolation::ReadCommitted).unwrap();
        other.execute(&format!("SELECT 1 FROM t WHERE id = 1 {lock}")).unwrap();
        s.execute("SET lock_timeout = 20").unwrap();
        assert_eq!(set(&mut s, 1, 5).unwrap_err().sqlstate(), "55P03", "{lock}");
        other.rollback();
        assert_eq!(set(&mut s, 1, 6).unwrap(), 1, "{lock}");
    }
    s.execute("SET lock_timeout = 0").unwrap();
    for (change, wanted) in [
        ("UPDATE t SET id = 100 WHERE id = 2", 0),
        ("UPDATE t SET i = 1 WHERE id = 3", 1),
        ("DELETE FROM t WHERE id = 4", 0),
    ] {
        other.begin(Isolation::ReadCommitted).unwrap();
        other.execute(change).unwrap();
        let id = if wanted == 1 {
            3
        } else if change.contains("100") {
            2
        } else {
            4
        };
        let done = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| set(&mut s, id, 7000 + id));
            std::thread::sleep(Duration::from_millis(30));
            assert!(!waiter.is_finished(), "{change}");
            other.commit().unwrap();
            waiter.join().unwrap()
        });
        assert_eq!(done.unwrap(), wanted, "{change}");
    }
    // A snapshot keeps what it saw; who would rest on it is refused.
    other.begin(Isolation::RepeatableRead).unwrap();
    assert_eq!(get(&mut other, 5), 5);
    assert_eq!(set(&mut s, 5, 55).unwrap(), 1);
    assert_eq!(get(&mut other, 5), 5);
    assert_eq!(set(&mut other, 5, 56).unwrap_err().sqlstate(), "40001");
    other.rollback();
    other.begin(Isolation::Serializable).unwrap();
    assert_eq!(get(&mut other, 6), 6);
    assert_eq!(set(&mut other, 7, 77).unwrap(), 1);
    assert_eq!(set(&mut s, 6, 66).unwrap(), 1);
    assert_eq!(other.commit().unwrap_err().sqlstate(), "40001");
    assert_eq!((get(&mut s, 6), get(&mut s, 7)), (66, 7));
    // The session's own settings.
    s.execute("SET default_transaction_read_only = on").unwrap();
    assert_eq!(set(&mut s, 8, 88).unwrap_err().sqlstate(), "25006");
    s.execute("SET default_transaction_read_only = off; SET default_transaction_isolation = 'serializable'")
        .unwrap();
    assert_eq!(set(&mut s, 8, 88).unwrap(), 1);
    s.execute("RESET default_transaction_isolation").unwrap();
    s.begin(Isolation::ReadCommitted).unwrap();
    set(&mut s, 9, 1).unwrap();
    s.savepoint("p").unwrap();
    set(&mut s, 9, 2).unwrap();
    s.rollback_to("p").unwrap();
    s.commit().unwrap();
    assert_eq!(get(&mut s, 9), 1);
    // An index on what is set.
    assert_eq!(set(&mut s, 10, 4242).unwrap(), 1);
    other.execute("CREATE UNIQUE INDEX t_l ON t (l)").unwrap();
    assert!(!code(&mut s, "by_id0(1, 2)").contains(&"PointUpdate".to_string()));
    assert_eq!(set(&mut s, 11, 4242).unwrap_err().sqlstate(), "23505");
    assert_eq!(set(&mut s, 11, 4243).unwrap(), 1);
    let rows = s.query("SELECT id FROM t WHERE l = 4243", &[]).unwrap();
    assert_eq!(rows.row(0).get::<i64>(0).unwrap(), 11);
    other.execute("DROP INDEX t_l").unwrap();
    assert_eq!(set(&mut s, 11, 4242).unwrap(), 1);
    other.execute("TRUNCATE t").unwrap();
    assert_eq!(set(&mut s, 11, 1).unwrap(), 0);
}
