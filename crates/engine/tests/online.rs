//! Indexes built beside writers, in simulated worlds whose writers aim at the builder's races.
mod common;
use common::{run, table};
use ondol_base::sim::{Config, World};
use ondol_base::thread;
use ondol_engine::*;
use ondol_types::{SqlResult, Type, ValueRef, sqlstate};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Changes a row's id; gives the one it had.
fn set(c: &mut Connection, t: &Arc<Table>, oid: Oid, to: impl Fn(i64) -> i64) -> SqlResult<i64> {
    c.lock(t, oid, LockStrength::Update, Wait::Block)?;
    let mut row = vec![0; t.layout.row_size];
    assert!(c.read_newest(t, oid, &mut row));
    let at = t.layout.columns[0].offset as usize;
    let old = i64::from_le_bytes(row[at..at + 8].try_into().unwrap());
    c.update(t, oid, &row, &[(0, ValueRef::Int8(to(old)))])?;
    Ok(old)
}
fn build(c: &mut Connection, kind: IndexKind) -> SqlResult<()> {
    let column = IndexColumn { column: 0, desc: false, nulls_first: false };
    c.create_index("t", "i", kind, true, vec![column], false, false)
}
/// Every row is in every index, and nothing else.
fn verify(db: &Arc<Database>) -> Result<(), String> {
    db.settle();
    let mut c = db.connect();
    let t = table(&c, "t");
    c.start_statement(c.catalog_version(), std::slice::from_ref(&t), false).unwrap();
    let (mut scan, mut row, mut rows) = (Scan::default(), vec![0; t.layout.row_size], vec![]);
    scan.start(&c, &t);
    while let Some(oid) = scan.next(&c, &mut row).unwrap() {
        rows.push(oid)
    }
    c.end_statement().unwrap();
    rows.sort_unstable();
    for i in &t.indexes {
        let mut entries = vec![];
        i.index.verify(&mut |_, oid| entries.push(oid))?;
        entries.sort_unstable();
        if entries != rows {
            return Err(format!("entries: {} of {} rows", entries.len(), rows.len()));
        }
    }
    Ok(())
}

/// What goes on while indexes are built, until told to stop.
type Beside = fn(&mut Connection, &[Oid]) -> SqlResult<()>;

/// Builds the index some times beside writers, over rows whose ids are never two alike, and beside a
/// transaction that used the table before. What went wrong?
fn builds(seed: u64, mutation: Option<&'static str>, kind: IndexKind, beside: Beside) -> Result<(), String> {
    let world = World::new(seed, Config { mutation, ..Config::default() });
    let disk = world.disk("d");
    world.run(|| {
        let options = Options {
            memory_limit: 256 << 20,
            reserved: 1 << 30,
            checkpoint_interval_s: 3600,
            ..Options::default()
        };
        let db = Database::open_on(disk, vec![], None, options, &|_| {}).unwrap();
        let mut c = db.connect();
        let column = ColumnDef { not_null: true, ..ColumnDef::new("id", Type::INT8) };
        c.create_table("t", vec![column]).unwrap();
        // Before the builder comes to the rows that are changed, it looks at others.
        let all: SqlResult<Vec<Oid>> =
            run(&mut c, "t", |c, t| (-200..4).map(|n| c.insert(t, &[ValueRef::Int8(n)])).collect());
        let oids: Vec<Oid> = all.unwrap().split_off(200);
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..3)
            .map(|_| {
                let (db, stop, oids) = (db.clone(), stop.clone(), oids.clone());
                thread::spawn("writer", move || {
                    let mut c = db.connect();
                    c.set_synchronous(false);
                    c.set_lock_timeout(Some(Duration::from_millis(50)));
                    while !stop.load(Ordering::Relaxed) {
                        c.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
                        let done = beside(&mut c, &oids).and_then(|()| c.commit().map(drop));
                        if let Err(e) = done {
                            c.rollback();
                            let fine = [sqlstate::DEADLOCK_DETECTED, sqlstate::LOCK_NOT_AVAILABLE];
                            assert!(fine.contains(&e.sqlstate()), "a writer: {e}");
                        }
                        thread::sleep(Duration::from_micros(50))
                    }
                })
                .unwrap()
            })
            .collect();
        let early = {
            let (db, stop) = (db.clone(), stop.clone());
            thread::spawn("early", move || {
                let mut c = db.connect();
                while !stop.load(Ordering::Relaxed) {
                    c.begin(Isolation::ReadCommitted, Access::ReadOnly).unwrap();
                    let t = table(&c, "t");
                    if c.start_statement(c.catalog_version(), &[t], false).is_ok() {
                        c.end_statement().unwrap();
                        thread::sleep(Duration::from_millis(60));
                    }
                    c.rollback()
                }
            })
            .unwrap()
        };
        let mut done = Ok(());
        for _ in 0..seed % 3 {
            done = build(&mut c, kind).map_err(|e| format!("{}: {e}", e.sqlstate()));
            thread::sleep(Duration::from_millis(1));
            if done.is_err() {
                break;
            }
            c.drop_index("i").unwrap()
        }
        done = done.and_then(|()| build(&mut c, kind).map_err(|e| format!("{}: {e}", e.sqlstate())));
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|w| w.join().unwrap());
        early.join().unwrap();
        done = done.and_then(|()| verify(&db));
        drop(c);
        db.close().unwrap();
        done
    })
}

/// Two rows change their ids for each other's.
fn swap(c: &mut Connection, oids: &[Oid]) -> SqlResult<()> {
    let n = ondol_base::clock::now().as_micros() as usize;
    let (a, b) = (oids[n % 2 * 2], oids[n % 2 * 2 + 1]);
    let one = run(c, "t", |c, t| set(c, t, a, |old| old + 1000))?;
    let other = run(c, "t", |c, t| set(c, t, b, |_| one))?;
    run(c, "t", |c, t| set(c, t, a, |_| other).map(drop))
}
/// Each row gets an id that no other had, in one statement, which knows of the index or does not.
fn renew(c: &mut Connection, oids: &[Oid]) -> SqlResult<()> {
    run(c, "t", |c, t| oids.iter().try_for_each(|o| set(c, t, *o, |old| old + 4).map(drop)))
}

/// The first seed that shows the variant.
fn noticed(mutation: &'static str, beside: Beside) -> (u64, String) {
    (0..400)
        .find_map(|seed| builds(seed, Some(mutation), IndexKind::Btree, beside).err().map(|e| (seed, e)))
        .unwrap_or_else(|| panic!("{mutation} is not noticed"))
}

#[test]
fn ids_that_change_hands_are_no_duplicates() {
    for seed in 0..60 {
        for kind in [IndexKind::Btree, IndexKind::Hash] {
            builds(seed, None, kind, swap).unwrap_or_else(|e| panic!("seed {seed}: {e}"))
        }
    }
    let (seed, e) = noticed("index_conflict_final", swap);
    println!("index_conflict_final: seed {seed}: {e}");
    assert!(e.starts_with(sqlstate::UNIQUE_VIOLATION), "{e}");
}

#[test]
fn keys_of_versions_that_were_folded_away_are_not_left() {
    for seed in 0..60 {
        for kind in [IndexKind::Btree, IndexKind::Hash] {
            builds(seed, None, kind, renew).unwrap_or_else(|e| panic!("seed {seed}: {e}"))
        }
    }
}

/// A row gets an id from a writer who knows that the index is coming, and then another from one who does not;
/// nobody can see the first any more when the builder looks.
fn takes_turns(seed: u64, mutation: Option<&'static str>) -> Result<(), String> {
    let world = World::new(seed, Config { mutation, ..Config::default() });
    let disk = world.disk("d");
    world.run(|| {
        let options = Options { memory_limit: 256 << 20, reserved: 1 << 30, ..Options::default() };
        let db = Database::open_on(disk, vec![], None, options, &|_| {}).unwrap();
        let mut c = db.connect();
        let column = ColumnDef { not_null: true, ..ColumnDef::new("id", Type::INT8) };
        c.create_table("t", vec![column]).unwrap();
        // Before the builder comes to the row, it looks at others.
        run(&mut c, "t", |c, t| (-200..0).try_for_each(|n| c.insert(t, &[ValueRef::Int8(n)]).map(drop)))
            .unwrap();
        let oid = run(&mut c, "t", |c, t| c.insert(t, &[ValueRef::Int8(1)])).unwrap();
        let t = table(&c, "t");
        let [mut old, mut early] = [db.connect(), db.connect()];
        for c in [&mut old, &mut early] {
            c.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
            c.start_statement(c.catalog_version(), std::slice::from_ref(&t), true).unwrap();
        }
        early.end_statement().unwrap();
        let theirs = db.clone();
        let builder =
            thread::spawn("builder", move || build(&mut theirs.connect(), IndexKind::Btree)).unwrap();
        thread::sleep(Duration::from_millis(50));
        // As many that versions are folded (kernel/collect/C2).
        for value in [4, 5, 6, 2] {
            run(&mut c, "t", |c, t| set(c, t, oid, |_| value)).unwrap();
        }
        set(&mut old, &t, oid, |_| 3).unwrap();
        old.end_statement().unwrap();
        old.commit().unwrap();
        // Time for the collector.
        thread::sleep(Duration::from_millis(100));
        early.rollback();
        let built = builder.join().unwrap();
        let done = built.map_err(|e| e.to_string()).and_then(|()| verify(&db));
        drop((c, old, early));
        db.close().unwrap();
        done
    })
}

#[test]
fn who_enters_keys_meets_no_one_who_does_not_know_of_them() {
    for seed in 1..6 {
        takes_turns(seed, None).unwrap_or_else(|e| panic!("seed {seed}: {e}"))
    }
    // Whether the collector comes in time is the seed's.
    let notices = |seed| Some((seed, takes_turns(seed, Some("index_unannounced")).err()?));
    let (seed, e) = (1..60).find_map(notices).expect("a seed that notices");
    println!("index_unannounced: seed {seed}: {e}");
    assert!(e.starts_with("entries"), "{e}");
}
