//! What must not go wrong when slots, heaps, indexes and definitions pass from one use to the next.
mod common;
use common::{run, table};
use ondol_base::sim::{Config, World};
use ondol_base::thread;
use ondol_engine::*;
use ondol_types::{Type, TypeId, ValueRef};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn options() -> Options {
    Options { memory_limit: 256 << 20, reserved: 1 << 30, checkpoint_interval_s: 3600, ..Options::default() }
}
fn open(dir: &std::path::Path) -> Arc<Database> {
    Database::open(dir, options()).unwrap()
}

fn create(c: &mut Connection, name: &str) {
    let column = |n: &str, ty| ColumnDef { not_null: true, ..ColumnDef::new(n, ty) };
    c.create_table(name, vec![column("id", Type::INT8), column("name", Type::with(TypeId::TEXT, -1))])
        .map(drop)
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

/// The slots that a rolled back transaction gave up are freed late, here by an idle session: by then their
/// segment may be another table's.
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

/// What collectors still have to do for a table that an old snapshot held back must not be done to the next
/// owner of its memory.
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

/// An index is left with the entries of the rows that are, whatever became of long texts within a
/// transaction.
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

/// The entries of an index of one row after its drop was rolled back, also by a savepoint. The row's first
/// key was to be collected while the transaction had put the row under it again, without the index.
fn entries_after_a_drop_that_was_undone(
    seed: u64,
    mutation: Option<&'static str>,
    kind: IndexKind,
    savepoint: bool,
) -> u64 {
    let world = World::new(seed, Config { mutation, ..Config::default() });
    let disk = world.disk("d");
    world.run(|| {
        let db = Database::open_on(disk, vec![], None, options(), &|_| {}).unwrap();
        let (mut c, mut old) = (db.connect(), db.connect());
        create(&mut c, "t");
        create(&mut c, "other");
        index(&mut c, "t", "i", kind, 0, false).unwrap();
        let oid = put(&mut c, "t", 1, "").unwrap();
        put(&mut c, "other", 1, "").unwrap();
        // Until this ends, the first key's entry stays.
        old.begin(Isolation::RepeatableRead, Access::ReadOnly).unwrap();
        assert_eq!(rows(&mut old, "other").len(), 1);
        change(&mut c, "t", oid, &[(0, ValueRef::Int8(2))]).unwrap();
        c.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
        c.savepoint("s").unwrap();
        c.drop_index("i").unwrap();
        change(&mut c, "t", oid, &[(0, ValueRef::Int8(1))]).unwrap();
        old.commit().unwrap();
        // The collector comes by.
        thread::sleep(Duration::from_millis(200));
        if savepoint {
            c.rollback_to_savepoint("s").unwrap();
            c.commit().unwrap();
        } else {
            c.rollback()
        }
        db.settle();
        assert_eq!(found(&mut c, "t", 0, 2), [oid]);
        let entries = table(&c, "t").indexes[0].index.entries();
        drop((c, old));
        db.close().unwrap();
        entries
    })
}

#[test]
fn no_entry_stays_of_a_row_changed_while_the_index_was_dropped() {
    for (seed, kind, savepoint) in
        [(1, IndexKind::Btree, false), (2, IndexKind::Btree, true), (3, IndexKind::Hash, false)]
    {
        let entries = |mutation| entries_after_a_drop_that_was_undone(seed, mutation, kind, savepoint);
        assert_eq!(entries(None), 1, "{kind:?}, to a savepoint: {savepoint}");
        assert_eq!(entries(Some("entry_given_up")), 2, "{kind:?}, to a savepoint: {savepoint}");
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

/// In simulated worlds: a snapshot finds every row at a version of its own time, while others lock, undo,
/// insert, delete and reuse slots; and every insert that is undone stays unseen.
#[test]
fn snapshots_see_each_row_once_and_nothing_that_was_undone() {
    let mut reads = 0;
    for seed in 0..40 {
        let world = World::new(seed, Config::default());
        let disk = world.disk("d");
        reads += world.run(|| {
            let db = Database::open_on(disk, vec![], None, options(), &|_| {}).unwrap();
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

type Body = fn(&mut Connection, &dyn Fn()) -> ondol_types::SqlResult<()>;

/// In a simulated world, with tables `t` and `u` whose `id` is unique and which hold ids 0 to 3: runs each of
/// the sessions in a transaction on a thread of its own. Each may call `meet` once, which waits for all
/// others to do so. Gives what they ended with (an SQLSTATE, or "" for a commit), sorted, and the ids left in
/// `t`.
fn contend(
    seed: u64,
    kind: IndexKind,
    prepare: fn(&mut Connection),
    sessions: &[(Access, Body)],
) -> (Vec<String>, Vec<i64>) {
    let world = World::new(seed, Config::default());
    let disk = world.disk("d");
    world.run(|| {
        let db = Database::open_on(disk, vec![], None, options(), &|_| {}).unwrap();
        let mut c = db.connect();
        for name in ["t", "u"] {
            create(&mut c, name);
            index(&mut c, name, &format!("{name}_id"), kind, 0, true).unwrap();
            for id in 0..4 {
                put(&mut c, name, id, "").unwrap();
            }
        }
        prepare(&mut c);
        let started = ondol_base::clock::now();
        let (arrived, all) = (Arc::new(AtomicU64::new(0)), sessions.len() as u64);
        let threads: Vec<_> = sessions
            .iter()
            .map(|(access, session)| {
                let (db, session, access, arrived) = (db.clone(), *session, *access, arrived.clone());
                thread::spawn("session", move || {
                    let meet = || {
                        arrived.fetch_add(1, Ordering::SeqCst);
                        while arrived.load(Ordering::SeqCst) < all {
                            thread::sleep(Duration::from_millis(1))
                        }
                    };
                    let mut c = db.connect();
                    c.begin(Isolation::ReadCommitted, access).unwrap();
                    match session(&mut c, &meet) {
                        Ok(()) => c.commit().map_or_else(|e| e.sqlstate().to_string(), |_| String::new()),
                        Err(e) => {
                            c.rollback();
                            e.sqlstate().to_string()
                        }
                    }
                })
                .unwrap()
            })
            .collect();
        let mut ends: Vec<String> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        ends.sort();
        assert!(ondol_base::clock::now() - started < Duration::from_secs(10), "somebody waited for nothing");
        let ids = rows(&mut c, "t").into_iter().map(|r| r.1).collect();
        drop(c);
        db.close().unwrap();
        (ends, ids)
    })
}
fn set_id(c: &mut Connection, from: i64, to: i64) -> ondol_types::SqlResult<()> {
    let oid = rows(c, "t").into_iter().find(|r| r.1 == from).unwrap().0;
    change(c, "t", oid, &[(0, ValueRef::Int8(to))])
}

/// Who comes second to a unique key waits for the first and then learns that it is taken; the two never wait
/// for each other.
#[test]
fn of_two_that_want_one_unique_key_one_gets_it() {
    let insert: (Access, Body) = (Access::ReadWrite, |c, _| put(c, "t", 7, "").map(drop));
    // The key comes again while the other waits for it.
    let twice: (Access, Body) = (Access::ReadWrite, |c, _| {
        c.savepoint("s")?;
        put(c, "t", 7, "")?;
        ondol_base::sync::spin_wait(20);
        c.rollback_to_savepoint("s")?;
        put(c, "t", 7, "").map(drop)
    });
    // Both rows had the key before, so that their entries are there already.
    let had = |c: &mut Connection| {
        for id in [1, 2] {
            set_id(c, id, 7).unwrap();
            set_id(c, 7, id).unwrap();
        }
    };
    let one: (Access, Body) = (Access::ReadWrite, |c, _| set_id(c, 1, 7));
    let two: (Access, Body) = (Access::ReadWrite, |c, _| set_id(c, 2, 7));
    for kind in [IndexKind::Btree, IndexKind::Hash] {
        for seed in 0..60 {
            let (ends, ids) = contend(seed, kind, |_| {}, &[insert, insert]);
            assert_eq!(ends, ["", "23505"], "{seed}");
            assert_eq!(ids, [0, 1, 2, 3, 7], "{seed}");
            let (ends, _) = contend(seed, kind, |_| {}, &[insert, twice, insert]);
            assert_eq!(ends, ["", "23505", "23505"], "{seed}");
            let (ends, ids) = contend(seed, kind, had, &[one, two]);
            assert_eq!(ends, ["", "23505"], "{seed}");
            assert!(ids == [0, 1, 3, 7] || ids == [0, 2, 3, 7], "{ids:?}");
        }
    }
}

/// Who owns a row and who shares it step back from each other when they come at once; that they then wait is
/// no cycle, and nobody waits for the other's end who does not hold the row any more.
#[test]
fn who_stepped_back_is_not_waited_for() {
    fn lock(c: &mut Connection, strength: LockStrength) -> ondol_types::SqlResult<()> {
        let oid = rows(c, "t")[0].0;
        run(c, "t", |c, t| c.lock(t, oid, strength, Wait::Block)).map(drop)
    }
    let own: (Access, Body) = (Access::ReadWrite, |c, _| lock(c, LockStrength::Update));
    let share: (Access, Body) = (Access::ReadWrite, |c, _| lock(c, LockStrength::Share));
    for seed in 0..400 {
        let (ends, _) = contend(seed, IndexKind::Btree, |_| {}, &[own, share, own, share]);
        assert_eq!(ends, ["", "", "", ""], "{seed}");
    }
    let let_go: (Access, Body) = (Access::ReadWrite, |c, meet| {
        c.savepoint("s")?;
        lock(c, LockStrength::Update)?;
        meet();
        thread::sleep(Duration::from_millis(200));
        c.rollback_to_savepoint("s")?;
        thread::sleep(Duration::from_secs(5));
        Ok(())
    });
    let waits: (Access, Body) = (Access::ReadWrite, |c, meet| {
        meet();
        let began = ondol_base::clock::now();
        lock(c, LockStrength::Update)?;
        assert!(ondol_base::clock::now() - began < Duration::from_secs(1));
        Ok(())
    });
    for seed in 0..40 {
        assert_eq!(contend(seed, IndexKind::Btree, |_| {}, &[let_go, waits]).0, ["", ""], "{seed}");
    }
}

fn second_index(c: &mut Connection, table: &str) -> ondol_types::SqlResult<()> {
    let column = IndexColumn { column: 1, desc: false, nulls_first: false };
    c.create_index(table, &format!("{table}_name"), IndexKind::Btree, false, vec![column], false, false)
}

/// A cycle of waits is found at once, whichever way its members wait.
#[test]
fn a_cycle_through_data_definition_is_a_deadlock() {
    // Both use the table, and both wait for the other to leave it.
    let define_used: (Access, Body) = (Access::ReadWrite, |c, meet| {
        rows(c, "t");
        meet();
        second_index(c, "t")
    });
    // A row's lock against a table's definition.
    let define_then_row: (Access, Body) = (Access::ReadWrite, |c, meet| {
        second_index(c, "u")?;
        meet();
        set_id(c, 1, 7)
    });
    let row_then_defined: (Access, Body) = (Access::ReadWrite, |c, meet| {
        set_id(c, 1, 8)?;
        meet();
        put(c, "u", 9, "").map(drop)
    });
    // A transaction that only reads.
    let define_both: (Access, Body) = (Access::ReadWrite, |c, meet| {
        second_index(c, "u")?;
        meet();
        second_index(c, "t")
    });
    let read_both: (Access, Body) = (Access::ReadOnly, |c, meet| {
        rows(c, "t");
        meet();
        let u = table(c, "u");
        c.start_statement(c.catalog_version(), &[u], false).or_else(|e| match e.sqlstate() {
            STALE => Ok(()),
            _ => Err(e),
        })
    });
    for seed in 0..40 {
        for pair in
            [[define_used, define_used], [define_then_row, row_then_defined], [define_both, read_both]]
        {
            let (ends, _) = contend(seed, IndexKind::Btree, |_| {}, &pair);
            assert_eq!(ends, ["", "40P01"], "{seed}");
        }
    }
}

/// The lock timeout holds for whoever changes a definition and for whoever waits for that; a change of
/// definitions that was made while one waited for one's turn is noticed.
#[test]
fn waits_for_definitions_end() {
    let define_late: (Access, Body) = (Access::ReadWrite, |c, meet| {
        meet();
        c.set_lock_timeout(Some(Duration::from_millis(100)));
        second_index(c, "t")
    });
    let use_long: (Access, Body) = (Access::ReadWrite, |c, meet| {
        rows(c, "t");
        meet();
        thread::sleep(Duration::from_secs(1));
        Ok(())
    });
    let define_long: (Access, Body) = (Access::ReadWrite, |c, meet| {
        second_index(c, "t")?;
        meet();
        thread::sleep(Duration::from_secs(1));
        Ok(())
    });
    let use_late: (Access, Body) = (Access::ReadWrite, |c, meet| {
        meet();
        c.set_lock_timeout(Some(Duration::from_millis(100)));
        put(c, "t", 9, "").map(drop)
    });
    let bound_before: (Access, Body) = (Access::ReadWrite, |c, meet| {
        let version = c.catalog_version();
        meet();
        let wanted = |c: &Catalog| claims::change_table(c, "t");
        let error = c.start_definitions(version, wanted).unwrap_err();
        assert_eq!(error.sqlstate(), STALE);
        c.start_definitions(c.catalog_version(), wanted)
    });
    // Of another table, nothing is waited for.
    let beside: (Access, Body) = (Access::ReadWrite, |c, meet| {
        meet();
        c.set_lock_timeout(Some(Duration::from_millis(100)));
        second_index(c, "u")
    });
    for seed in 0..20 {
        for (pair, expected) in [
            ([define_late, use_long], ["", "55P03"]),
            ([define_late, define_long], ["", "55P03"]),
            ([use_late, define_long], ["", "55P03"]),
            ([bound_before, define_long], ["", ""]),
            ([beside, define_long], ["", ""]),
        ] {
            let (ends, _) = contend(seed, IndexKind::Btree, |_| {}, &pair);
            assert_eq!(ends, expected, "{seed}");
        }
    }
}

/// A number that is no row's is found out, whatever it is: one within a row, a string's, another table's, one
/// of pages that are in no use, or of a value's pages, which look as it likes.
#[test]
fn only_a_tables_own_rows_are_at_their_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let mut c = db.connect();
    create(&mut c, "t");
    create(&mut c, "other");
    // A value of several pages, which look like pages of the table's.
    let heap = u64::from(table(&c, "t").heaps) * 2;
    let header: Vec<u8> =
        [1u64, 4, u64::MAX, u64::MAX, 0, heap, 512, 0].iter().flat_map(|w| w.to_le_bytes()).collect();
    let long: String = header.iter().cycle().take(40_000).map(|b| char::from(b & 0x7f)).collect();
    let texts = ["short", "not within the row, but in a slot of its own", &long];
    for id in 0..600 {
        put(&mut c, ["t", "other"][id as usize % 2], id, texts[id as usize % 3]).unwrap();
    }
    let (mine, others) = (rows(&mut c, "t"), rows(&mut c, "other"));
    let gone = mine[7].0;
    change(&mut c, "t", gone, &[]).unwrap();
    let t = table(&c, "t");
    c.start_statement(c.catalog_version(), std::slice::from_ref(&t), true).unwrap();
    for (oid, _) in &mine {
        assert_eq!(c.row_at(&t, oid.bits()), Some(*oid));
        for near in (1..t.layout.row_size as u64 + 16).chain([4096, 1 << 21]) {
            for bits in [oid.bits() + near, oid.bits().wrapping_sub(near)] {
                let found = c.row_at(&t, bits);
                assert!(
                    found.is_none_or(|o| o.bits() == bits && bits.abs_diff(oid.bits()) % 4096 == 0),
                    "{bits:x}"
                )
            }
        }
    }
    assert!(others.iter().all(|(oid, _)| c.row_at(&t, oid.bits()).is_none()));
    // Free slots are the table's; nothing is seen there, and nothing can be locked.
    let mut row = vec![0; t.layout.row_size];
    assert_eq!(c.row_at(&t, gone.bits()), Some(gone));
    assert!(!c.read(&t, gone, &mut row));
    let (mut seed, mut located) = (1u64, 0);
    for n in 0..200_000u64 {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        // Most of them where the table's rows are.
        let bits = match n % 4 {
            0 => seed,
            1 => seed & Oid::MASK,
            _ => mine[0].0.bits() / (2 << 20) * (2 << 20) + seed % (2 << 20) / 16 * 16,
        };
        let Some(oid) = c.row_at(&t, bits) else { continue };
        located += 1;
        assert_eq!(oid.bits(), bits);
        let seen = c.read(&t, oid, &mut row);
        assert_eq!(seen, mine.iter().any(|(m, _)| *m == oid && oid != gone), "{bits:x}");
        let locked = c.lock(&t, oid, LockStrength::Update, Wait::Block).unwrap();
        assert_eq!(locked == Locked::Same, seen, "{bits:x}")
    }
    assert!(located > 100, "{located} of the numbers are rows'");
    c.abort_statement();
    assert_eq!(rows(&mut c, "t").len(), 299)
}
