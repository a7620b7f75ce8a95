//! Tables whose rows are copied beside their users, in simulated worlds whose writers aim at the races.
mod common;
use common::{run, table};
use ondol_base::sim::{Config, World};
use ondol_base::thread;
use ondol_engine::*;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, sqlstate};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Known (id, v, s): ids and vs are unique.
type Known = BTreeMap<i64, i64>;

fn text(id: i64, v: i64) -> String {
    format!("row {id} has the value {v}")
}
fn int(t: &Table, v: i64) -> ValueRef<'static> {
    match t.def.columns[1].ty.id {
        TypeId::INT4 => ValueRef::Int4(v as i32),
        _ => ValueRef::Int8(v),
    }
}
fn values(c: &Connection, t: &Table, row: &[u8]) -> (i64, i64, String) {
    let mut scratch = vec![];
    let mut value = |i| {
        scratch.clear();
        ondol_engine::row::column(&t.layout, row, i, c, &mut scratch).to_owned()
    };
    let number = |v: Value| match v {
        Value::Int4(v) => v.into(),
        Value::Int8(v) => v,
        v => panic!("{v:?}"),
    };
    let (id, v) = (number(value(0)), number(value(1)));
    match value(2) {
        Value::Text(s) => (id, v, s.to_string()),
        other => panic!("{other:?}"),
    }
}
/// Locks the row of an id, and reads it.
fn own(c: &mut Connection, t: &Arc<Table>, id: i64, row: &mut [u8]) -> SqlResult<Oid> {
    let (mut key, mut oids) = (vec![], vec![]);
    t.indexes[0].key.encode(&[ValueRef::Int8(id)], &mut key);
    c.lookup(&t.indexes[0], &key, &mut oids)?;
    for oid in oids {
        let locked = c.lock(t, oid, LockStrength::Update, Wait::Block)?;
        if !matches!(locked, Locked::Gone) && c.read_newest(t, oid, row) && values(c, t, row).0 == id {
            return Ok(oid);
        }
    }
    Err(SqlError::new("XX000", format!("the row {id} is not there")))
}
fn set(c: &mut Connection, id: i64, v: i64) -> SqlResult<()> {
    run(c, "t", |c, t| {
        let mut row = vec![0; t.layout.row_size];
        let oid = own(c, t, id, &mut row)?;
        c.update(t, oid, &row, &[(1, int(t, v)), (2, ValueRef::Text(&text(id, v)))])
    })
}
fn put(c: &mut Connection, id: i64, v: i64) -> SqlResult<()> {
    run(c, "t", |c, t| c.insert(t, &[ValueRef::Int8(id), int(t, v), ValueRef::Text(&text(id, v))]).map(drop))
}
fn remove(c: &mut Connection, id: i64) -> SqlResult<()> {
    run(c, "t", |c, t| {
        let mut row = vec![0; t.layout.row_size];
        let oid = own(c, t, id, &mut row)?;
        c.delete(t, oid, &row)
    })
}

/// Gives the column of values the other type.
fn alter(c: &mut Connection) -> SqlResult<()> {
    let mut def = table(c, "t").def.clone();
    let is_int4 = def.columns[1].ty.id == TypeId::INT4;
    def.columns[1].ty = if is_int4 { Type::INT8 } else { Type::INT4 };
    let convert = |v| match v {
        Value::Int4(v) => Ok(Value::Int8(v.into())),
        Value::Int8(v) => Ok(Value::Int4(v as i32)),
        v => Err(SqlError::new("XX000", format!("{v:?}"))),
    };
    c.redefine_table(
        "t",
        &def,
        &[Origin::Column(0), Origin::Converted(1, Arc::new(convert)), Origin::Column(2)],
    )
}

/// The rows are these, and each is in every index, and nothing else.
fn verify(db: &Arc<Database>, rows: &Known) -> Result<(), String> {
    db.settle();
    let mut c = db.connect();
    let t = table(&c, "t");
    c.start_statement(c.catalog_version(), std::slice::from_ref(&t), false).map_err(|e| e.to_string())?;
    let (mut scan, mut row, mut oids, mut found) =
        (Scan::default(), vec![0; t.layout.row_size], vec![], Known::new());
    scan.start(&c, &t);
    while let Some(oid) = scan.next(&c, &mut row).map_err(|e| e.to_string())? {
        oids.push(oid);
        let (id, v, s) = values(&c, &t, &row);
        if s != text(id, v) {
            return Err(format!("row {id} has the value {v}, and the text '{s}'"));
        }
        if found.insert(id, v).is_some() {
            return Err(format!("two rows {id}"));
        }
    }
    c.end_statement().map_err(|e| e.to_string())?;
    if found != *rows {
        let differs = |(id, v): &(&i64, &i64)| rows.get(id) != Some(v);
        let wrong: Vec<_> = found.iter().filter(differs).collect();
        let missing: Vec<_> = rows.iter().filter(|(id, _)| !found.contains_key(id)).collect();
        return Err(format!("{} rows: wrong {wrong:?}, missing {missing:?}", found.len()));
    }
    oids.sort_unstable();
    for i in &t.indexes {
        let mut entries = vec![];
        i.index.verify(&mut |_, oid| entries.push(oid))?;
        entries.sort_unstable();
        if entries != oids {
            return Err(format!("entries: {} of {} rows in {}", entries.len(), oids.len(), i.def.name));
        }
    }
    Ok(())
}

/// Whom a simulated world has beside the writers.
#[derive(Clone, Copy, PartialEq)]
enum Beside {
    Writers,
    /// A transaction that uses the table for a while, so that the copier waits for its end.
    Early,
}

fn open(world: &Arc<World>) -> Arc<Database> {
    let options = Options {
        memory_limit: 256 << 20,
        reserved: 1 << 30,
        checkpoint_interval_s: 3600,
        ..Options::default()
    };
    Database::open_on(world.disk("d"), vec![], None, options, &|_| {}).unwrap()
}

fn prepare(db: &Arc<Database>, kind: IndexKind, rows: &Known) {
    let mut c = db.connect();
    let columns = vec![
        ColumnDef { not_null: true, ..ColumnDef::new("id", Type::INT8) },
        ColumnDef::new("v", Type::INT4),
        ColumnDef::new("s", Type::TEXT),
    ];
    c.create_table("t", columns).unwrap();
    let index = |column| vec![IndexColumn { column, desc: false, nulls_first: false }];
    c.create_index("t", "i", IndexKind::Hash, true, index(0), false, false).unwrap();
    c.create_index("t", "j", kind, true, index(1), false, false).unwrap();
    run(&mut c, "t", |c, t| {
        rows.iter().try_for_each(|(id, v)| {
            c.insert(t, &[ValueRef::Int8(*id), int(t, *v), ValueRef::Text(&text(*id, *v))]).map(drop)
        })
    })
    .unwrap();
}

/// One transaction of a writer, which has rows of its own: those with these ids, and vs that are its ids.
fn change(c: &mut Connection, n: u64, rows: &mut Known, next: &mut i64) -> SqlResult<()> {
    c.begin(Isolation::ReadCommitted, Access::ReadWrite)?;
    let ids: Vec<i64> = rows.keys().copied().collect();
    let (a, b) = (ids[n as usize % ids.len()], ids[(n / 7) as usize % ids.len()]);
    match n % 5 {
        // A row goes and another comes, often in its slot; its value is soon another's.
        0 | 1 => {
            remove(c, a)?;
            let v = rows.remove(&a).expect("a row");
            c.commit()?;
            c.begin(Isolation::ReadCommitted, Access::ReadWrite)?;
            let id = *next;
            *next += 10;
            put(c, id, v)?;
            rows.insert(id, v);
        }
        // Values change hands.
        2 | 3 if a != b => {
            let (va, vb) = (rows[&a], rows[&b]);
            set(c, a, -va - 1000)?;
            set(c, b, va)?;
            set(c, a, vb)?;
            rows.insert(a, vb);
            rows.insert(b, va);
        }
        _ => {
            let v = *next;
            *next += 10;
            set(c, a, v)?;
            rows.insert(a, v);
        }
    }
    c.commit().map(drop)
}

/// Alters the table some times beside writers. What went wrong?
fn copies(seed: u64, mutation: Option<&'static str>, kind: IndexKind, beside: Beside) -> Result<(), String> {
    let world = World::new(seed, Config { mutation, ..Config::default() });
    let here = world.clone();
    world.run(move || {
        let db = open(&here);
        // Before the copier comes to the rows that are often changed, it looks at others.
        let of = |from: i64, count: i64| (0..count).map(move |n| (from + 10 * n, from + 10 * n));
        let mut all: Known = of(-9009, 600).collect();
        let own: Vec<Known> = (1..4).map(|w| of(w, 4).collect()).collect();
        own.iter().for_each(|o| all.extend(o));
        prepare(&db, kind, &all);
        let many: Vec<i64> = all.keys().copied().filter(|id| *id < 0).collect();
        all.clear();
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = own
            .into_iter()
            .enumerate()
            .map(|(w, mut rows)| {
                let (db, stop) = (db.clone(), stop.clone());
                thread::spawn("writer", move || {
                    let mut c = db.connect();
                    c.set_synchronous(false);
                    let (mut next, mut n) = (w as i64 + 1001, seed * 3 + w as u64);
                    while !stop.load(Ordering::Relaxed) {
                        n = n.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                        change(&mut c, n >> 33, &mut rows, &mut next)
                            .map_err(|e| format!("a writer: {e}"))?;
                        thread::sleep(Duration::from_micros(20 + (n >> 40) % 100))
                    }
                    Ok::<Known, String>(rows)
                })
                .unwrap()
            })
            .collect();
        // Its commits take a while to be installed.
        let bulk = {
            let (db, stop) = (db.clone(), stop.clone());
            thread::spawn("bulk", move || {
                let mut c = db.connect();
                c.set_synchronous(false);
                let mut rows: Known = many.iter().map(|id| (*id, *id)).collect();
                for (times, ids) in many.chunks(60).cycle().enumerate() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    c.begin(Isolation::ReadCommitted, Access::ReadWrite).map_err(|e| e.to_string())?;
                    let done = ids.iter().try_for_each(|id| {
                        let v = id - 10_000 * (times as i64 + 1);
                        rows.insert(*id, v);
                        set(&mut c, *id, v)
                    });
                    done.and_then(|()| c.commit()).map_err(|e| format!("the bulk writer: {e}"))?;
                    thread::sleep(Duration::from_micros(200))
                }
                Ok::<Known, String>(rows)
            })
            .unwrap()
        };
        let early = {
            let (db, stop) = (db.clone(), stop.clone());
            thread::spawn("early", move || {
                let mut c = db.connect();
                while beside == Beside::Early && !stop.load(Ordering::Relaxed) {
                    c.begin(Isolation::ReadCommitted, Access::ReadOnly).unwrap();
                    let t = table(&c, "t");
                    if c.start_statement(c.catalog_version(), &[t], false).is_ok() {
                        c.end_statement().unwrap();
                        thread::sleep(Duration::from_millis(3));
                    }
                    c.rollback()
                }
            })
            .unwrap()
        };
        let mut c = db.connect();
        let mut done = Ok(());
        for _ in 0..1 + seed % 3 {
            thread::sleep(Duration::from_millis(1));
            done = done.and_then(|()| alter(&mut c).map_err(|e| format!("{}: {e}", e.sqlstate())));
        }
        thread::sleep(Duration::from_millis(1));
        stop.store(true, Ordering::Relaxed);
        for w in writers.into_iter().chain([bulk]) {
            match w.join().unwrap() {
                Ok(rows) => all.extend(rows),
                Err(e) => done = done.and(Err(e)),
            }
        }
        early.join().unwrap();
        done = done.and_then(|()| verify(&db, &all));
        drop(c);
        db.close().unwrap();
        done
    })
}

/// The first seed that shows the variant.
fn noticed(mutation: &'static str) -> (u64, String) {
    let shows = |seed| {
        let beside = if seed % 2 == 0 { Beside::Early } else { Beside::Writers };
        Some((seed, copies(seed, Some(mutation), IndexKind::Btree, beside).err()?))
    };
    (0..400).find_map(shows).unwrap_or_else(|| panic!("{mutation} is not noticed"))
}

#[test]
fn no_change_beside_the_copy_is_lost() {
    for seed in 0..60 {
        for kind in [IndexKind::Btree, IndexKind::Hash] {
            for beside in [Beside::Writers, Beside::Early] {
                copies(seed, None, kind, beside).unwrap_or_else(|e| panic!("seed {seed}: {e}"))
            }
        }
    }
}

/// Known-wrong variants.
#[test]
fn wrong_ways_to_copy_are_noticed() {
    for mutation in [
        "beside_page_skipped",
        "beside_last_pass_left_out",
        "beside_marked_late",
        "beside_copied_once",
        "beside_deletions_left_out",
        "beside_uninstalled",
        "beside_unpublished",
        "beside_asked_at_once",
    ] {
        let (seed, e) = noticed(mutation);
        println!("{mutation}: seed {seed}: {e}")
    }
}

/// A converted key may be another row's: as of the snapshot that is copied, or of a later one.
#[test]
fn rows_that_come_to_have_one_key_are_told() {
    let tried = |late: bool, mutation: Option<&'static str>| {
        let world = World::new(1, Config { mutation, ..Config::default() });
        let here = world.clone();
        world.run(move || {
            let db = open(&here);
            prepare(&db, IndexKind::Btree, &(0..100).map(|n| (n, 2 * n)).collect());
            let mut other = db.connect();
            if !late {
                put(&mut other, 1000, 3).unwrap();
            }
            // Whoever used the table before keeps the copier waiting at the end.
            let mut early = db.connect();
            early.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
            let t = table(&early, "t");
            early.start_statement(early.catalog_version(), &[t], true).unwrap();
            early.end_statement().unwrap();
            let theirs = db.clone();
            let builder = thread::spawn("builder", move || {
                let mut c = theirs.connect();
                let mut def = table(&c, "t").def.clone();
                def.columns[1].ty = Type::INT8;
                let half = |v| match v {
                    Value::Int4(v) => Ok(Value::Int8((v / 2).into())),
                    v => Ok(v),
                };
                let origins = [Origin::Column(0), Origin::Converted(1, Arc::new(half)), Origin::Column(2)];
                c.redefine_table("t", &def, &origins)
            })
            .unwrap();
            thread::sleep(Duration::from_millis(50));
            if late {
                put(&mut early, 1000, 3).unwrap()
            }
            early.commit().unwrap();
            let e = builder.join().unwrap();
            let rows = table(&other, "t").def.columns[1].ty;
            drop((early, other));
            db.close().unwrap();
            (
                e.map_err(|e| {
                    (e.sqlstate().to_string(), e.to_string(), e.0.detail.clone().unwrap_or_default())
                }),
                rows,
            )
        })
    };
    for late in [false, true] {
        let (done, ty) = tried(late, None);
        let (state, message, detail) = done.unwrap_err();
        assert_eq!((&*state, &*message), (sqlstate::UNIQUE_VIOLATION, "could not create unique index \"j\""));
        assert_eq!((&*detail, ty.id), ("Key (v)=(1) is duplicated.", TypeId::INT4));
    }
    assert!(tried(true, Some("beside_unasked")).0.is_ok());
}

/// A snapshot that is older than the copy is not shown a part of it.
#[test]
fn older_snapshots_are_refused() {
    let reads = |mutation: Option<&'static str>| {
        let world = World::new(1, Config { mutation, ..Config::default() });
        let here = world.clone();
        world.run(move || {
            let db = open(&here);
            prepare(&db, IndexKind::Btree, &(0..2000).map(|n| (n, n)).collect());
            let mut c = db.connect();
            c.create_table("other", vec![ColumnDef::new("a", Type::INT4)]).unwrap();
            let theirs = db.clone();
            let builder = thread::spawn("builder", move || alter(&mut theirs.connect()).unwrap()).unwrap();
            // In the midst of the copying.
            thread::sleep(Duration::from_micros(500));
            let mut found = vec![];
            let mut before: Vec<Connection> = vec![];
            while !builder.is_finished() && before.len() < 20 {
                let mut b = db.connect();
                b.begin(Isolation::RepeatableRead, Access::ReadOnly).unwrap();
                let t = table(&b, "other");
                if b.start_statement(b.catalog_version(), &[t], false).is_ok() {
                    b.end_statement().unwrap();
                    before.push(b)
                }
                thread::sleep(Duration::from_micros(200));
            }
            builder.join().unwrap();
            for b in &mut before {
                let t = table(b, "t");
                match b.start_statement(b.catalog_version(), std::slice::from_ref(&t), false) {
                    Err(e) => found.push(e.sqlstate().to_string()),
                    Ok(()) => {
                        let (mut scan, mut row, mut rows) = (Scan::default(), vec![0; t.layout.row_size], 0);
                        scan.start(b, &t);
                        while scan.next(b, &mut row).unwrap().is_some() {
                            rows += 1
                        }
                        b.end_statement().unwrap();
                        found.push(rows.to_string())
                    }
                }
                b.rollback()
            }
            // Who comes later sees all.
            let all: Known = (0..2000).map(|n| (n, n)).collect();
            verify(&db, &all).unwrap();
            drop((before, c));
            db.close().unwrap();
            found
        })
    };
    let found = reads(None);
    assert!(!found.is_empty());
    assert!(found.iter().all(|f| f == sqlstate::SERIALIZATION_FAILURE || f == "2000"), "{found:?}");
    let found = reads(Some("beside_shown_in_part"));
    println!("beside_shown_in_part: {found:?}");
    assert!(found.iter().any(|f| f != sqlstate::SERIALIZATION_FAILURE && f != "2000"), "{found:?}");
}

/// What could not be converted leaves the table as it was, and gives its copy back.
#[test]
fn a_failure_leaves_nothing() {
    let world = World::new(1, Config::default());
    let here = world.clone();
    world.run(move || {
        let db = open(&here);
        let rows: Known = (0..3000).map(|n| (n, n)).collect();
        prepare(&db, IndexKind::Btree, &rows);
        let used = || {
            db.settle();
            db.memory().used
        };
        let mut c = db.connect();
        alter(&mut c).unwrap();
        let before = used();
        let mut def = table(&c, "t").def.clone();
        def.columns[1].ty = Type::INT4;
        let fails = |v| match v {
            Value::Int8(2900) => Err(SqlError::new("22003", "integer out of range")),
            Value::Int8(v) => Ok(Value::Int4(v as i32)),
            v => Ok(v),
        };
        let origins = [Origin::Column(0), Origin::Converted(1, Arc::new(fails)), Origin::Column(2)];
        let e = c.redefine_table("t", &def, &origins).unwrap_err();
        assert_eq!(e.sqlstate(), "22003");
        verify(&db, &rows).unwrap();
        // A copy takes two segments at least.
        assert!(used() < before + (2 << 20), "{} of {before}", used());
        set(&mut c, 7, 5000).unwrap();
        drop(c);
        db.close().unwrap();
    })
}
