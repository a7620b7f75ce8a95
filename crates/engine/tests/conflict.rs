//! Rows that are inserted unless another has one of their keys.
mod common;
use common::{run, table};
use ondol_engine::*;
use ondol_types::{SqlResult, Type, TypeId, ValueRef};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

const LONG: &str = "a text that is too long for the head that a row has of it";

fn made() -> (tempfile::TempDir, Arc<Database>, Connection) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        memory_limit: 1 << 28,
        reserved: 8 << 30,
        checkpoint_interval_s: 3600,
        ..Options::default()
    };
    let db = Database::open(dir.path(), options).unwrap();
    let mut c = db.connect();
    let column = |n: &str, ty| ColumnDef { not_null: true, ..ColumnDef::new(n, ty) };
    let text = Type::with(TypeId::TEXT, -1);
    c.create_table("t", vec![column("id", Type::INT8), column("name", text), column("note", text)]).unwrap();
    for (n, kind) in [IndexKind::Btree, IndexKind::Hash].into_iter().enumerate() {
        let col = IndexColumn { column: n, desc: false, nulls_first: false };
        c.create_index("t", &format!("i{n}"), kind, true, vec![col], false, false).unwrap();
    }
    (dir, db, c)
}

fn values<'a>(id: i64, name: &'a str, note: &'a str) -> [ValueRef<'a>; 3] {
    [ValueRef::Int8(id), ValueRef::Text(name), ValueRef::Text(note)]
}

fn put(c: &mut Connection, id: i64, name: &str, arbiters: &[u16]) -> SqlResult<Option<Oid>> {
    run(c, "t", |c, t| c.insert_unless(t, &values(id, name, LONG), arbiters, false))
}

/// Slots of rows and of strings that are taken.
fn taken(c: &Connection) -> (u64, u64) {
    let t = table(c, "t");
    (t.store.rows.taken(), t.store.strings.taken())
}

/// So many are taken, soon: freed slots wait for epochs to pass, and for a session to look.
fn comes_to(db: &Arc<Database>, c: &Connection, wanted: (u64, u64)) {
    for _ in 0..400 {
        db.settle();
        if taken(c) == wanted {
            return;
        }
        drop(db.connect());
        thread::sleep(Duration::from_millis(10))
    }
    assert_eq!(taken(c), wanted)
}

#[test]
fn who_meets_a_row_leaves_nothing() {
    let (_dir, db, mut c) = made();
    let first = run(&mut c, "t", |c, t| c.insert(t, &values(1, LONG, LONG))).unwrap();
    let before = taken(&c);
    let mut other = db.connect();
    for _ in 0..100 {
        let c = &mut other;
        assert_eq!(put(c, 1, "another", &[0]).unwrap(), Some(first));
        assert_eq!(put(c, 2, LONG, &[1]).unwrap(), Some(first));
        assert_eq!(put(c, 2, LONG, &[]).unwrap(), Some(first));
        assert_eq!(put(c, 2, LONG, &[0]).unwrap_err().sqlstate(), "23505");
    }
    drop(other);
    comes_to(&db, &c, before);
    assert_eq!(put(&mut c, 2, "another", &[]).unwrap(), None);
}

/// An attempt that meets another's uncommitted key is taken back before it waits (rival/R2), whatever becomes
/// of the other.
#[test]
fn an_attempt_is_taken_back_before_it_waits() {
    for commits in [true, false] {
        let (_dir, db, mut a) = made();
        let before = taken(&a);
        a.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
        run(&mut a, "t", |c, t| c.insert(t, &values(1, LONG, LONG))).unwrap();
        let mut b = db.connect();
        let waiter = b.waiter();
        // By the first index alone, so that the second is met when the row is there already.
        let waiting = thread::spawn(move || put(&mut b, 2, LONG, &[0]));
        while !waiter.is_waiting() {
            thread::sleep(Duration::from_millis(1))
        }
        let mut third = db.connect();
        third.set_lock_timeout(Some(Duration::from_millis(50)));
        assert_eq!(put(&mut third, 2, "another", &[0]).unwrap(), None, "the key is held by one who waits");
        if commits {
            a.commit().unwrap();
        } else {
            a.rollback();
        }
        assert!(waiting.join().unwrap().unwrap().is_some());
        let rows = 1 + u64::from(commits);
        drop((a, third));
        let a = db.connect();
        // Each has a long note; the first's name is long, too.
        let strings = 1 + if commits { 2 } else { 0 };
        comes_to(&db, &a, (before.0 + rows, before.1 + strings));
    }
}

#[test]
fn many_who_insert_the_same_leave_one_row_each() {
    let (_dir, db, mut c) = made();
    let threads: Vec<_> = (0..4)
        .map(|n| {
            let mut c = db.connect();
            thread::spawn(move || {
                let mut inserted = 0;
                for i in 0..300i64 {
                    let arbiters: &[u16] = [&[0u16][..], &[1], &[]][(i + n) as usize % 3];
                    let name = format!("{LONG}, number {i}");
                    // Another index's error is never given where an arbiter has been met, too.
                    inserted += u64::from(put(&mut c, i, &name, arbiters).unwrap().is_none())
                }
                inserted
            })
        })
        .collect();
    let inserted: u64 = threads.into_iter().map(|t| t.join().unwrap()).sum();
    assert_eq!(inserted, 300);
    comes_to(&db, &c, (300, 600));
    let met = run(&mut c, "t", |c, t| c.insert_unless(t, &values(7, "", ""), &[0], true)).unwrap();
    assert!(met.is_some());
}
