//! What the planner is told of a table's size: near the truth after whatever happens to a table, and in a
//! time that does not grow with it.
mod common;
use common::{run, table};
use ondol_engine::*;
use ondol_types::{Type, TypeId, ValueRef};
use std::sync::Arc;
use std::time::Instant;

const ROWS: i64 = 120_000;

fn open(folder: &std::path::Path) -> Arc<Database> {
    Database::open(folder, Options { memory_limit: 512 << 20, ..Options::default() }).unwrap()
}

/// Rows that are wide enough for more segments than an estimate looks at.
fn create(c: &mut Connection, name: &str) {
    let column = |name: &str, ty| ColumnDef { not_null: true, ..ColumnDef::new(name, ty) };
    let wide = Type::with(TypeId::BPCHAR, 400 + 4);
    c.set_synchronous(false);
    c.create_table(name, vec![column("id", Type::INT8), column("filler", wide)]).unwrap();
}

fn insert(c: &mut Connection, name: &str, ids: std::ops::Range<i64>) {
    run(c, name, |c, t| {
        ids.clone().try_for_each(|id| c.insert(t, &[ValueRef::Int8(id), ValueRef::Text("x")]).map(drop))
    })
    .unwrap()
}

fn delete(c: &mut Connection, name: &str, which: impl Fn(u64) -> bool) {
    run(c, name, |c, t| {
        let mut scan = Scan::default();
        scan.start(c, t);
        let (mut row, mut n) = (vec![0; t.layout.row_size], 0);
        while let Some(oid) = scan.next(c, &mut row)? {
            n += 1;
            if which(n) {
                c.lock(t, oid, LockStrength::Update, Wait::Block)?;
                c.delete(t, oid, &row)?
            }
        }
        Ok(())
    })
    .unwrap()
}

/// The estimate is within a tenth of the rows that are taken: those that are there, and others until they are
/// collected.
fn is_near(c: &Connection, name: &str, there: u64, what: &str) {
    let t = table(c, name);
    let (about, taken) = (t.estimate_rows(), t.count_rows());
    assert!(taken >= there, "{what}: {taken} rows, not {there}");
    assert!(about.abs_diff(taken) <= taken / 10, "{what}: {about} estimated of {taken}")
}

#[test]
fn estimates_are_near_after_whatever_happens() {
    let folder = tempfile::tempdir().unwrap();
    let all = ROWS as u64;
    {
        let db = open(folder.path());
        let mut c = db.connect();
        create(&mut c, "t");
        create(&mut c, "small");
        create(&mut c, "empty");
        is_near(&c, "empty", 0, "nothing");
        insert(&mut c, "small", 0..700);
        is_near(&c, "small", 700, "few rows");
        delete(&mut c, "small", |n| n <= 600);
        is_near(&c, "small", 100, "fewer rows");
        for first in (0..ROWS).step_by(10_000) {
            insert(&mut c, "t", first..first + 10_000)
        }
        is_near(&c, "t", all, "a load");
        c.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
        insert(&mut c, "t", ROWS..ROWS + 50_000);
        c.rollback();
        is_near(&c, "t", all, "a rollback");
        delete(&mut c, "t", |n| n % 4 == 0);
        is_near(&c, "t", all - all / 4, "rows deleted here and there");
    }
    let db = open(folder.path());
    let mut c = db.connect();
    is_near(&c, "t", all - all / 4, "a restart");
    delete(&mut c, "t", |n| n <= all / 2);
    is_near(&c, "t", all / 4, "the first rows deleted");
    insert(&mut c, "t", 0..ROWS / 2);
    is_near(&c, "t", all / 4 * 3, "as many rows in their place");
    c.truncate(&["t".into()]).unwrap();
    is_near(&c, "t", 0, "TRUNCATE")
}

#[test]
fn estimating_takes_no_longer_for_a_larger_table() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    let mut c = db.connect();
    create(&mut c, "small");
    create(&mut c, "large");
    insert(&mut c, "small", 0..ROWS / 40);
    (0..20).for_each(|_| insert(&mut c, "large", 0..ROWS / 20));
    let time = |name: &str| {
        let t = table(&c, name);
        let one = || {
            let begun = Instant::now();
            (0..100).for_each(|_| assert!(std::hint::black_box(t.estimate_rows()) > 0));
            begun.elapsed()
        };
        (0..20).map(|_| one()).min().unwrap()
    };
    let (small, large) = (time("small"), time("large"));
    // With every page looked at it would be forty times as long.
    assert!(large < small * 8, "{small:?} for few rows, {large:?} for many");
}
