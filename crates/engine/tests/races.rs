//! What must not go wrong when slots, heaps, indexes and definitions pass from one use to the next.
use ondol_base::sim::{Config, World};
use ondol_base::thread;
use ondol_engine::*;
use ondol_types::{Type, TypeId, ValueRef};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn options() -> Options {
    Options { memory_limit: 256 << 20, reserved: 1 << 30, checkpoint_interval_s: 3600, ..Options::default() }
}
fn open(dir: &std::path::Path) -> Arc<Database> {
    Database::open(dir, options()).unwrap()
}

fn create(c: &mut Connection, name: &str) {
    let column = |n: &str, ty| ColumnDef { name: n.into(), ty, not_null: true, default: None };
    c.create_table(name, vec![column("id", Type::INT8), column("name", Type::with(TypeId::Text, -1))])
        .unwrap()
}
fn index(
    c: &mut Connection,
    table: &str,
    name: &str,
    kind: IndexKind,
    column: usize,
    unique: bool,
) -> Result<(), String> {
    let col = IndexColumn { column, desc: false, nulls_first: false };
    c.create_index(table, name, kind, unique, vec![col], false, false).map_err(|e| e.sqlstate().to_string())
}
fn table(c: &Connection, name: &str) -> Arc<Table> {
    c.catalog().table(name).unwrap().clone()
}
/// Runs one statement that writes.
fn run<T>(
    c: &mut Connection,
    name: &str,
    f: impl Fn(&mut Connection, &Arc<Table>) -> ondol_types::SqlResult<T>,
) -> ondol_types::SqlResult<T> {
    loop {
        let t = table(c, name);
        match c.start_statement(c.catalog_version(), std::slice::from_ref(&t), true) {
            Err(e) if e.sqlstate() == STALE => continue,
            other => other?,
        }
        return match f(c, &t) {
            Ok(v) => {
                c.end_statement()?;
                Ok(v)
            }
            Err(e) => {
                c.abort_statement();
                Err(e)
            }
        };
    }
}
fn put(c: &mut Connection, name: &str, id: i64, text: &str) -> ondol_types::SqlResult<Oid> {
    run(c, name, |c, t| c.insert(t, &[ValueRef::Int8(id), ValueRef::Text(text)]))
}
fn rows(c: &mut Connection, name: &str) -> Vec<(Oid, i64)> {
    let t = table(c, name);
    c.start_statement(c.catalog_version(), std::slice::from_ref(&t), false).unwrap();
    let mut scan = Scan::default();
    scan.start(c, &t);
    let mut row = vec![0; t.layout.row_size];
    let mut out = vec![];
    let at = t.layout.columns[0].offset as usize;
    while let Some(oid) = scan.next(c, &mut row).unwrap() {
        out.push((oid, i64::from_le_bytes(row[at..at + 8].try_into().unwrap())))
    }
    c.end_statement().unwrap();
    out.sort_by_key(|r| r.1);
    out
}
/// Changes (or, without a change, deletes) the row.
fn change(
    c: &mut Connection,
    name: &str,
    oid: Oid,
    to: &[(usize, ValueRef<'_>)],
) -> ondol_types::SqlResult<()> {
    run(c, name, |c, t| {
        assert_ne!(c.lock(t, oid, LockStrength::Update, Wait::Block)?, Locked::Gone);
        let mut row = vec![0; t.layout.row_size];
        c.read_newest(t, oid, &mut row);
        if to.is_empty() { c.delete(t, oid, &row) } else { c.update(t, oid, &row, to) }
    })
}
fn found(c: &mut Connection, name: &str, at: usize, id: i64) -> Vec<Oid> {
    let i = table(c, name).indexes[at].clone();
    let mut key = vec![];
    i.key.encode(&[ValueRef::Int8(id)], &mut key);
    let mut oids = vec![];
    c.lookup(&i, &key, &mut oids).unwrap();
    oids
}

/// The slots that a rolled back transaction gave up are freed late, here by an idle session: by then their segment may be
/// another table's.
#[test]
fn frees_of_a_dropped_heap_spare_the_next_owner() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let (mut idle, mut other) = (db.connect(), db.connect());
    idle.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
    create(&mut idle, "gone");
    for i in 0..40 {
        put(&mut idle, "gone", i, "a text that is too long for its head").unwrap();
    }
    idle.rollback();
    create(&mut other, "kept");
    put(&mut other, "kept", -1, "x").unwrap();
    // The dropped segments may be used again from here on.
    db.checkpoint_full().unwrap();
    create(&mut other, "next");
    for i in 0..200 {
        put(&mut other, "next", i, "").unwrap();
    }
    let before = rows(&mut other, "next");
    assert_eq!(before.len(), 200);
    // Enough for the idle session to look into its bag.
    for i in 0..200 {
        let o = put(&mut idle, "kept", i, "").unwrap();
        change(&mut idle, "kept", o, &[]).unwrap();
    }
    drop(idle);
    db.settle();
    assert_eq!(rows(&mut other, "next"), before);
    drop((other, db));
    let db = open(dir.path());
    assert_eq!(rows(&mut db.connect(), "next").len(), 200);
}

/// What collectors still have to do for a table that an old snapshot held back must not be done to the next owner of its
/// memory.
#[test]
fn items_of_a_dropped_heap_spare_the_next_owner() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let (mut c, mut old) = (db.connect(), db.connect());
    create(&mut c, "gone");
    create(&mut c, "kept");
    for i in 0..300 {
        let o = put(&mut c, "gone", i, "").unwrap();
        change(&mut c, "gone", o, &[(0, ValueRef::Int8(-i))]).unwrap();
    }
    put(&mut c, "kept", 1, "").unwrap();
    old.begin(Isolation::RepeatableRead, Access::ReadOnly).unwrap();
    assert_eq!(rows(&mut old, "kept").len(), 1);
    for (o, i) in rows(&mut c, "gone") {
        if i % 2 == 0 {
            change(&mut c, "gone", o, &[(0, ValueRef::Int8(7))]).unwrap();
        } else {
            change(&mut c, "gone", o, &[]).unwrap();
        }
    }
    c.drop_table("gone").unwrap();
    put(&mut c, "kept", 2, "").unwrap();
    db.checkpoint_full().unwrap();
    create(&mut c, "next");
    // Rows of another size, so that the old slots' headers lie within them.
    for i in 0..300 {
        put(
            &mut c,
            "next",
            i,
            "some more text that is longer than the old rows were, so that it needs a slot",
        )
        .unwrap();
    }
    let before = rows(&mut c, "next");
    old.commit().unwrap();
    db.settle();
    assert_eq!(rows(&mut c, "next"), before);
    drop((c, old, db));
    let db = open(dir.path());
    assert_eq!(rows(&mut db.connect(), "next").len(), 300);
}

/// A hash index keeps 15 bits of a key's hash beyond its bucket, so two keys of one row may share an entry.
#[test]
fn a_row_is_found_by_a_key_that_shares_its_entry_with_an_older_one() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let mut c = db.connect();
    create(&mut c, "t");
    index(&mut c, "t", "h", IndexKind::Hash, 0, true).unwrap();
    // Two keys of equal bucket and tag in a table of 16 buckets.
    let spec = table(&c, "t").indexes[0].key.clone();
    let mut seen = std::collections::HashMap::new();
    let (a, b) = (0i64..)
        .find_map(|id| {
            let mut key = vec![];
            spec.encode(&[ValueRef::Int8(id)], &mut key);
            let bits = (ondol_index::hash::hash_key(&key) | 1 << 63) >> 40;
            seen.insert(bits, id).map(|other| (other, id))
        })
        .unwrap();
    let oid = put(&mut c, "t", a, "").unwrap();
    change(&mut c, "t", oid, &[(0, ValueRef::Int8(b))]).unwrap();
    assert_eq!(table(&c, "t").indexes[0].index.entries(), 1, "{a} and {b} share an entry");
    db.settle();
    assert_eq!(found(&mut c, "t", 0, b), [oid]);
    // Nor does undoing a change take the entry of the key that stays.
    c.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
    change(&mut c, "t", oid, &[(0, ValueRef::Int8(a))]).unwrap();
    c.rollback();
    db.settle();
    assert_eq!(found(&mut c, "t", 0, b), [oid]);
}

/// An index is left with the entries of the rows that are, whatever became of long texts within a transaction.
#[test]
fn no_entry_stays_behind_a_text_that_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let mut c = db.connect();
    create(&mut c, "t");
    index(&mut c, "t", "n", IndexKind::Btree, 1, false).unwrap();
    let long = |n: i64| format!("text number {n}, which is too long for a head");
    let oid = put(&mut c, "t", 1, &long(0)).unwrap();
    for commit in [true, false] {
        c.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
        for n in 1..4 {
            change(&mut c, "t", oid, &[(1, ValueRef::Text(&long(n)))]).unwrap();
        }
        let other = put(&mut c, "t", 2, &long(9)).unwrap();
        change(&mut c, "t", other, &[(1, ValueRef::Text(&long(10)))]).unwrap();
        change(&mut c, "t", other, &[]).unwrap();
        if commit {
            c.commit().unwrap();
        } else {
            c.rollback()
        }
        db.settle();
        assert_eq!(table(&c, "t").indexes[0].index.entries(), 1, "committed: {commit}");
    }
}

#[test]
fn rows_deleted_before_are_no_duplicates_for_a_unique_index() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let mut c = db.connect();
    create(&mut c, "t");
    put(&mut c, "t", 1, "").unwrap();
    let twin = put(&mut c, "t", 1, "").unwrap();
    assert_eq!(index(&mut c, "t", "u", IndexKind::Btree, 0, true), Err("23505".into()));
    c.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
    change(&mut c, "t", twin, &[]).unwrap();
    index(&mut c, "t", "u", IndexKind::Btree, 0, true).unwrap();
    c.commit().unwrap();
    assert!(put(&mut c, "t", 1, "").is_err());
}

#[test]
fn a_shared_lock_outlives_the_rollback_of_its_repetition() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let (mut a, mut b) = (db.connect(), db.connect());
    create(&mut a, "t");
    let oid = put(&mut a, "t", 1, "").unwrap();
    let share =
        |c: &mut Connection| run(c, "t", |c, t| c.lock(t, oid, LockStrength::Share, Wait::Block)).unwrap();
    a.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
    share(&mut a);
    a.savepoint("s").unwrap();
    share(&mut a);
    a.rollback_to_savepoint("s").unwrap();
    let denied = run(&mut b, "t", |c, t| c.lock(t, oid, LockStrength::Update, Wait::NoWait));
    assert_eq!(denied.unwrap_err().sqlstate(), "55P03");
    a.rollback();
    run(&mut b, "t", |c, t| c.lock(t, oid, LockStrength::Update, Wait::NoWait)).unwrap();
}

/// In simulated worlds: a snapshot finds every row at a version of its own time, while others lock, undo, insert, delete
/// and reuse slots; and every insert that is undone stays unseen.
#[test]
fn snapshots_see_each_row_once_and_nothing_that_was_undone() {
    let mut reads = 0;
    for seed in 0..40 {
        let world = World::new(seed, Config::default());
        let disk = world.disk("d");
        reads += world.run(|| {
            let db = Database::open_on(disk, vec![], options(), &|_| {}).unwrap();
            let mut c = db.connect();
            create(&mut c, "t");
            index(&mut c, "t", "u", IndexKind::Btree, 0, true).unwrap();
            for id in 0..4 {
                put(&mut c, "t", id, "").unwrap();
            }
            let stop = Arc::new(AtomicBool::new(false));
            let reads = Arc::new(AtomicU64::new(0));
            let writers: Vec<_> = (0..3i64)
                .map(|w| {
                    let db = db.clone();
                    thread::spawn("writer", move || {
                        let mut c = db.connect();
                        c.set_synchronous(false);
                        for n in 0..12 {
                            // Ids move in steps of 4, so that their remainders always are 0, 1, 2, 3.
                            c.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
                            let done: ondol_types::SqlResult<()> = (|| {
                                put(
                                    &mut c,
                                    "t",
                                    1_000_000 + w * 1000 + n,
                                    "a text that will never have been",
                                )?;
                                c.savepoint("s")?;
                                let list = rows(&mut c, "t");
                                let Some((oid, id)) = list.iter().find(|r| r.1 < 1_000_000 && r.1 % 4 == w)
                                else {
                                    panic!("writer {w} misses its row in {list:?}");
                                };
                                if n % 3 == 0 {
                                    change(&mut c, "t", *oid, &[])?;
                                    put(&mut c, "t", id + 4, "")?;
                                } else {
                                    change(&mut c, "t", *oid, &[(0, ValueRef::Int8(id + 4))])?;
                                }
                                Ok(())
                            })();
                            if done.is_err() || n % 2 == 0 {
                                c.rollback();
                                continue;
                            }
                            let ghost = rows(&mut c, "t").into_iter().find(|r| r.1 >= 1_000_000);
                            change(&mut c, "t", ghost.unwrap().0, &[]).unwrap();
                            c.commit().unwrap();
                        }
                    })
                    .unwrap()
                })
                .collect();
            let reader = {
                let (db, stop, reads) = (db.clone(), stop.clone(), reads.clone());
                thread::spawn("reader", move || {
                    let mut c = db.connect();
                    while !stop.load(Ordering::Relaxed) {
                        c.begin(Isolation::RepeatableRead, Access::ReadWrite).unwrap();
                        let first = rows(&mut c, "t");
                        let mut rest: Vec<i64> = first.iter().map(|r| r.1 % 4).collect();
                        rest.sort_unstable();
                        assert_eq!(rest, [0, 1, 2, 3], "{first:?}");
                        ondol_base::sync::spin_wait(20);
                        assert_eq!(rows(&mut c, "t"), first);
                        c.rollback();
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                })
                .unwrap()
            };
            for w in writers {
                w.join().unwrap()
            }
            stop.store(true, Ordering::Relaxed);
            reader.join().unwrap();
            drop(c);
            db.close().unwrap();
            reads.load(Ordering::Relaxed)
        });
    }
    assert!(reads > 400, "{reads}");
}
