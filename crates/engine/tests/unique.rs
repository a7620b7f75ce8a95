//! Unique keys of rows that others are changing right now.
mod common;
use common::{run, table};
use ondol_engine::*;
use ondol_types::{SqlResult, Type, TypeId, ValueRef};
use std::thread;
use std::time::Duration;

fn options() -> Options {
    Options { memory_limit: 1 << 30, reserved: 8 << 30, checkpoint_interval_s: 3600, ..Options::default() }
}
fn create(c: &mut Connection) {
    let column = |n: &str, ty| ColumnDef { not_null: true, ..ColumnDef::new(n, ty) };
    c.create_table("t", vec![column("id", Type::INT8), column("name", Type::with(TypeId::TEXT, -1))])
        .unwrap();
}
fn index(c: &mut Connection, kind: IndexKind, column: usize) -> SqlResult<()> {
    let col = IndexColumn { column, desc: false, nulls_first: false };
    c.create_index("t", "i", kind, true, vec![col], false, false)
}
fn put(c: &mut Connection, id: i64, text: &str) -> SqlResult<Oid> {
    run(c, "t", |c, t| c.insert(t, &[ValueRef::Int8(id), ValueRef::Text(text)]))
}
fn set_all(c: &mut Connection, oids: &[Oid], to: impl Fn(usize) -> i64) -> SqlResult<()> {
    run(c, "t", |c, t| {
        let mut row = vec![0; t.layout.row_size];
        for (i, o) in oids.iter().enumerate() {
            c.lock(t, *o, LockStrength::Update, Wait::Block)?;
            assert!(c.read_newest(t, *o, &mut row));
            c.update(t, *o, &row, &[(0, ValueRef::Int8(to(i)))])?
        }
        Ok(())
    })
}
fn count(c: &mut Connection) -> (usize, Vec<Oid>) {
    let t = table(c, "t");
    c.start_statement(c.catalog_version(), std::slice::from_ref(&t), false).unwrap();
    let (mut scan, mut row, mut rows) = (Scan::default(), vec![0; t.layout.row_size], vec![]);
    scan.start(c, &t);
    while let Some(oid) = scan.next(c, &mut row).unwrap() {
        rows.push(oid)
    }
    c.end_statement().unwrap();
    (rows.len(), rows)
}

#[test]
fn equal_long_texts_of_two_at_once() {
    let mut bad = vec![];
    for kind in [IndexKind::Btree, IndexKind::Hash] {
        for text in ["short", "a text that is too long for its head"] {
            let dir = tempfile::tempdir().unwrap();
            let db = Database::open(dir.path(), options()).unwrap();
            let (mut a, mut b) = (db.connect(), db.connect());
            create(&mut a);
            index(&mut a, kind, 1).unwrap();
            b.set_lock_timeout(Some(Duration::from_millis(200)));
            a.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
            put(&mut a, 1, text).unwrap();
            let second = put(&mut b, 2, text).map(drop).map_err(|e| e.sqlstate().to_string());
            let first = a.commit().map(drop).map_err(|e| e.sqlstate().to_string());
            let n = count(&mut a).0;
            println!("{kind:?} {text:?}: first {first:?}, second {second:?}, rows {n}");
            if n != 1 {
                bad.push((kind, text))
            }
        }
    }
    assert!(bad.is_empty(), "{bad:?}");
}

/// The same with a serial control: the second comes after the first's commit.
#[test]
fn equal_long_texts_one_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    let mut a = db.connect();
    create(&mut a);
    index(&mut a, IndexKind::Btree, 1).unwrap();
    put(&mut a, 1, "a text that is too long for its head").unwrap();
    assert_eq!(put(&mut a, 2, "a text that is too long for its head").unwrap_err().sqlstate(), "23505");
}

/// X and Y never have one id in any snapshot; T exchanges ids while it is being installed.
#[test]
fn a_commit_that_is_being_installed_is_no_duplicate() {
    let mut ends = vec![];
    for delay in [1u64, 8] {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path(), options()).unwrap();
        let mut c = db.connect();
        create(&mut c);
        let (x, y) = (put(&mut c, 1, "").unwrap(), put(&mut c, 2, "").unwrap());
        let filler: Vec<Oid> = run(&mut c, "t", |c, t| {
            (0..100_000).map(|n| c.insert(t, &[ValueRef::Int8(1000 + n), ValueRef::Text("")])).collect()
        })
        .unwrap();
        let (mut early, mut old) = (db.connect(), db.connect());
        early.begin(Isolation::ReadCommitted, Access::ReadOnly).unwrap();
        let t = table(&early, "t");
        early.start_statement(early.catalog_version(), &[t], false).unwrap();
        early.end_statement().unwrap();
        old.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
        set_all(&mut old, &[y], |_| 3).unwrap();
        let other = db.clone();
        let building = thread::spawn(move || {
            index(&mut other.connect(), IndexKind::Btree, 0)
                .map_err(|e| format!("{}: {e} {:?}", e.sqlstate(), e.0.detail))
        });
        thread::sleep(Duration::from_millis(500));
        assert!(table(&c, "t").building.is_some());
        let mut noting = db.connect();
        noting.begin(Isolation::ReadCommitted, Access::ReadOnly).unwrap();
        let t = table(&noting, "t");
        noting.start_statement(noting.catalog_version(), &[t], false).unwrap();
        noting.end_statement().unwrap();
        old.commit().unwrap();
        early.commit().unwrap();
        thread::sleep(Duration::from_millis(50));
        assert!(format!("{:?}", table(&c, "t").building.as_ref().unwrap().1) == "Entered");
        let mut new = db.connect();
        new.set_synchronous(false);
        new.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
        set_all(&mut new, &[x], |_| 900).unwrap();
        set_all(&mut new, &filler, |i| 1_000_000 + i as i64).unwrap();
        set_all(&mut new, &[y], |_| 1).unwrap();
        set_all(&mut new, &[x], |_| 3).unwrap();
        let committing = thread::spawn(move || {
            let at = std::time::Instant::now();
            new.commit().unwrap();
            at.elapsed()
        });
        thread::sleep(Duration::from_millis(delay));
        noting.commit().unwrap();
        let took = committing.join().unwrap();
        let built = building.join().unwrap();
        println!("early leaves after {delay} ms, commit took {took:?}: {built:?}");
        ends.push(built.is_ok());
    }
    assert!(ends.iter().all(|e| *e));
}

/// A transaction that used the table before and after the registration is rolled back.
#[test]
fn what_was_rolled_back_leaves_no_entry() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    let mut c = db.connect();
    create(&mut c);
    put(&mut c, 1, "").unwrap();
    let mut t = db.connect();
    t.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
    let r = put(&mut t, 7, "").unwrap();
    let other = db.clone();
    let building =
        thread::spawn(move || index(&mut other.connect(), IndexKind::Btree, 0).map_err(|e| e.to_string()));
    thread::sleep(Duration::from_millis(300));
    assert!(table(&c, "t").building.is_some());
    set_all(&mut t, &[r], |_| 8).unwrap();
    set_all(&mut t, &[r], |_| 7).unwrap();
    t.rollback();
    building.join().unwrap().unwrap();
    for n in 0..2000 {
        let o = put(&mut c, 100 + n, "").unwrap();
        run(&mut c, "t", |c, t| {
            c.lock(t, o, LockStrength::Update, Wait::Block)?;
            let mut row = vec![0; t.layout.row_size];
            c.read_newest(t, o, &mut row);
            c.delete(t, o, &row)
        })
        .unwrap();
    }
    db.settle();
    let rows = count(&mut c).1;
    let mut entries = vec![];
    table(&c, "t").indexes[0].index.verify(&mut |k, o| entries.push((k.to_vec(), o))).unwrap();
    println!("rows {rows:?}, entries {entries:?}, r = {r:?}");
    assert_eq!(entries.len(), rows.len());
}
