//! Row locks of each of the four modes beside each other, and made stronger (transaction/lock/L1 to
//! transaction/lock/L5).
mod common;
use common::run;
use ondol_base::thread;
use ondol_engine::LockStrength::{KeyShare, NoKeyUpdate, Share, Update};
use ondol_engine::simulate::queues::exclude;
use ondol_engine::*;
use ondol_types::{SqlResult, Type, ValueRef};
use std::sync::Arc;
use std::time::Duration;

fn database(dir: &std::path::Path) -> (Arc<Database>, Oid) {
    let options = Options { memory_limit: 256 << 20, reserved: 1 << 30, ..Options::default() };
    let db = Database::open(dir, options).unwrap();
    let mut c = db.connect();
    let columns = vec![
        ColumnDef { not_null: true, ..ColumnDef::new("id", Type::INT8) },
        ColumnDef::new("v", Type::INT8),
    ];
    c.create_table("t", columns).unwrap();
    let column = IndexColumn { column: 0, desc: false, nulls_first: false };
    c.create_index("t", "i", IndexKind::Btree, true, vec![column], false, false).unwrap();
    let oid = run(&mut c, "t", |c, t| c.insert(t, &[ValueRef::Int8(1), ValueRef::Int8(1)])).unwrap();
    (db, oid)
}

fn session(db: &Arc<Database>, isolation: Isolation) -> Connection {
    let mut c = db.connect();
    c.begin(isolation, Access::ReadWrite).unwrap();
    c
}

fn lock(c: &mut Connection, oid: Oid, strength: LockStrength, wait: Wait) -> SqlResult<Locked> {
    run(c, "t", |c, t| c.lock(t, oid, strength, wait))
}

/// Sets the row's columns, as an UPDATE does.
fn set(c: &mut Connection, oid: Oid, id: i64, v: i64) -> SqlResult<()> {
    run(c, "t", |c, t| {
        let how = c.lock(t, oid, NoKeyUpdate, Wait::Block)?;
        assert_ne!(how, Locked::Gone);
        let mut row = vec![0; t.layout.row_size];
        assert!(c.read_newest(t, oid, &mut row));
        c.update(t, oid, &row, &[(0, ValueRef::Int8(id)), (1, ValueRef::Int8(v))])
    })
}

fn delete(c: &mut Connection, oid: Oid) -> SqlResult<()> {
    run(c, "t", |c, t| {
        c.lock(t, oid, Update, Wait::Block)?;
        let mut row = vec![0; t.layout.row_size];
        assert!(c.read_newest(t, oid, &mut row));
        c.delete(t, oid, &row)
    })
}

#[test]
fn the_table_of_conflicts_is_postgresqls() {
    let dir = tempfile::tempdir().unwrap();
    let (db, oid) = database(dir.path());
    let excluded = LockStrength::ALL.map(|a| LockStrength::ALL.map(|b| u8::from(exclude(a, b))));
    assert_eq!(excluded, [[0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]]);
    for a in LockStrength::ALL {
        for b in LockStrength::ALL {
            let (mut first, mut second) =
                (session(&db, Isolation::ReadCommitted), session(&db, Isolation::ReadCommitted));
            lock(&mut first, oid, a, Wait::Block).unwrap();
            assert_eq!(lock(&mut first, oid, b, Wait::NoWait).unwrap(), Locked::Same, "{a:?} {b:?}, of one");
            first.rollback();
            first.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
            lock(&mut first, oid, a, Wait::Block).unwrap();
            let got = lock(&mut second, oid, b, Wait::NoWait);
            match exclude(a, b) {
                true => assert_eq!(got.unwrap_err().sqlstate(), "55P03", "{a:?} {b:?}"),
                false => assert_eq!(got.unwrap(), Locked::Same, "{a:?} {b:?}"),
            }
            second.rollback();
            second.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
            let skipped = lock(&mut second, oid, b, Wait::SkipLocked).unwrap() == Locked::Skipped;
            assert_eq!(skipped, exclude(a, b), "{a:?} {b:?}");
            // And once it is let go.
            first.rollback();
            assert_eq!(lock(&mut second, oid, b, Wait::NoWait).unwrap(), Locked::Same);
        }
    }
}

/// Each pair of locks that one transaction takes, the second after a savepoint: going back to that leaves the
/// first.
#[test]
fn going_back_to_a_savepoint_leaves_the_lock_that_was() {
    let dir = tempfile::tempdir().unwrap();
    let (db, oid) = database(dir.path());
    for a in LockStrength::ALL {
        for b in LockStrength::ALL {
            for c in LockStrength::ALL {
                let (mut first, mut second) =
                    (session(&db, Isolation::ReadCommitted), session(&db, Isolation::ReadCommitted));
                lock(&mut first, oid, a, Wait::Block).unwrap();
                first.savepoint("s").unwrap();
                lock(&mut first, oid, b, Wait::Block).unwrap();
                let both = lock(&mut second, oid, c, Wait::NoWait).is_err();
                assert_eq!(both, exclude(a, c) || exclude(b, c), "{a:?} {b:?} {c:?}");
                second.rollback();
                second.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
                first.rollback_to_savepoint("s").unwrap();
                let one = lock(&mut second, oid, c, Wait::NoWait).is_err();
                assert_eq!(one, exclude(a, c), "{a:?} {b:?} {c:?}");
            }
        }
    }
}

#[test]
fn an_update_locks_keys_if_it_changes_them() {
    let dir = tempfile::tempdir().unwrap();
    let (db, oid) = database(dir.path());
    let (mut a, mut b) = (session(&db, Isolation::ReadCommitted), session(&db, Isolation::ReadCommitted));
    set(&mut a, oid, 1, 2).unwrap();
    lock(&mut b, oid, KeyShare, Wait::NoWait).unwrap();
    assert_eq!(lock(&mut b, oid, Share, Wait::NoWait).unwrap_err().sqlstate(), "55P03");
    b.rollback();
    // The key set as it was is no change of it.
    set(&mut a, oid, 1, 3).unwrap();
    b.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
    lock(&mut b, oid, KeyShare, Wait::NoWait).unwrap();
    b.rollback();
    a.savepoint("s").unwrap();
    set(&mut a, oid, 2, 3).unwrap();
    b.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
    assert_eq!(lock(&mut b, oid, KeyShare, Wait::NoWait).unwrap_err().sqlstate(), "55P03");
    b.rollback();
    a.rollback_to_savepoint("s").unwrap();
    b.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
    lock(&mut b, oid, KeyShare, Wait::NoWait).unwrap();
    // Its owner commits beside who shares its keys, and who shares them keeps others from deleting it.
    a.commit().unwrap();
    let mut c = session(&db, Isolation::ReadCommitted);
    c.set_lock_timeout(Some(Duration::from_millis(50)));
    assert_eq!(delete(&mut c, oid).unwrap_err().sqlstate(), "55P03");
    c.rollback();
    b.commit().unwrap();
    c.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
    delete(&mut c, oid).unwrap();
    assert_eq!(lock(&mut a_new(&db), oid, KeyShare, Wait::NoWait).unwrap_err().sqlstate(), "55P03");
}

fn a_new(db: &Arc<Database>) -> Connection {
    session(db, Isolation::ReadCommitted)
}

#[test]
fn a_newer_version_with_the_same_keys_is_shared_above_read_committed() {
    let dir = tempfile::tempdir().unwrap();
    let (db, oid) = database(dir.path());
    let (mut a, mut b) = (session(&db, Isolation::RepeatableRead), session(&db, Isolation::ReadCommitted));
    let see = |c: &mut Connection| {
        run(c, "t", |c, t| {
            let mut row = vec![0; t.layout.row_size];
            Ok(c.read(t, oid, &mut row))
        })
    };
    assert!(see(&mut a).unwrap());
    set(&mut b, oid, 1, 9).unwrap();
    assert_eq!(lock(&mut a, oid, KeyShare, Wait::NoWait).unwrap(), Locked::Same);
    b.commit().unwrap();
    a.rollback();
    a.begin(Isolation::RepeatableRead, Access::ReadWrite).unwrap();
    assert!(see(&mut a).unwrap());
    let mut b = a_new(&db);
    set(&mut b, oid, 1, 10).unwrap();
    b.commit().unwrap();
    for strength in [Share, NoKeyUpdate, Update] {
        a.savepoint("s").unwrap();
        assert_eq!(lock(&mut a, oid, strength, Wait::NoWait).unwrap_err().sqlstate(), "40001");
        a.rollback_to_savepoint("s").unwrap();
    }
    assert_eq!(lock(&mut a, oid, KeyShare, Wait::NoWait).unwrap(), Locked::Same);
    a.rollback();
    a.begin(Isolation::RepeatableRead, Access::ReadWrite).unwrap();
    assert!(see(&mut a).unwrap());
    b.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
    set(&mut b, oid, 2, 10).unwrap();
    b.commit().unwrap();
    assert_eq!(lock(&mut a, oid, KeyShare, Wait::NoWait).unwrap_err().sqlstate(), "40001");
}

/// Who shares a row's keys and would delete it waits for the others who share them; of two that would both,
/// one gives up.
#[test]
fn two_sharers_of_keys_that_would_delete_are_a_deadlock() {
    let dir = tempfile::tempdir().unwrap();
    let (db, oid) = database(dir.path());
    let (mut a, mut b) = (a_new(&db), a_new(&db));
    lock(&mut a, oid, KeyShare, Wait::Block).unwrap();
    lock(&mut b, oid, KeyShare, Wait::Block).unwrap();
    let waiter = a.waiter();
    let t = thread::spawn("deletes", move || {
        delete(&mut a, oid).unwrap();
        a.commit().unwrap();
    })
    .unwrap();
    while !waiter.is_waiting() {
        thread::sleep(Duration::from_millis(1))
    }
    // Its lock keeps it before the one that waits.
    set(&mut b, oid, 1, 5).unwrap();
    assert_eq!(delete(&mut b, oid).unwrap_err().sqlstate(), "40P01");
    b.rollback();
    t.join().unwrap();
    assert_eq!(lock(&mut a_new(&db), oid, KeyShare, Wait::Block).unwrap(), Locked::Gone);
}

/// An owner that waits for those who share the keys is not waited for by more of them, and is told when the
/// last has gone.
#[test]
fn an_owner_waits_for_those_who_share_its_keys() {
    let dir = tempfile::tempdir().unwrap();
    let (db, oid) = database(dir.path());
    let (mut a, mut b, mut c) = (a_new(&db), a_new(&db), a_new(&db));
    set(&mut a, oid, 1, 2).unwrap();
    lock(&mut b, oid, KeyShare, Wait::NoWait).unwrap();
    let waiter = a.waiter();
    let t = thread::spawn("changes the key", move || {
        set(&mut a, oid, 7, 2).unwrap();
        a.commit().unwrap();
    })
    .unwrap();
    while !waiter.is_waiting() {
        thread::sleep(Duration::from_millis(1))
    }
    lock(&mut c, oid, KeyShare, Wait::NoWait).unwrap();
    b.commit().unwrap();
    thread::sleep(Duration::from_millis(20));
    assert!(waiter.is_waiting());
    c.rollback();
    t.join().unwrap();
}
