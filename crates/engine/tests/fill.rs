//! Indexes built over tables that have rows: in bulk, beside old versions, short of memory.
mod common;
use common::{run, table};
use ondol_engine::*;
use ondol_types::{SqlResult, Type, ValueRef};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const ROWS: i64 = 120_000;

fn open(dir: &Path, memory_limit: usize) -> SqlResult<Arc<Database>> {
    Database::open(dir, Options { memory_limit, ..Options::default() })
}

fn create(c: &mut Connection) -> Arc<Table> {
    let col = |name: &str, ty, not_null| ColumnDef { not_null, ..ColumnDef::new(name, ty) };
    let columns = vec![
        col("id", Type::INT8, true),
        col("part", Type::INT4, false),
        col("name", Type::TEXT, true),
        col("code", Type::TEXT, true),
    ];
    c.create_table("t", columns).unwrap();
    c.catalog().table("t").unwrap().clone()
}

/// The same rows, inserted by some threads in pieces of 1000.
fn fill_by(c: &mut Connection, t: &Arc<Table>, rows: std::ops::Range<i64>, threads: usize) -> SqlResult<()> {
    c.lend_writing(|loan| {
        let next = std::sync::atomic::AtomicI64::new(rows.start);
        let work = || {
            let mut inserter = loan.inserter().expect("a transaction");
            let mut made = RowBatch::new(t.layout.clone(), 0);
            loop {
                let from = next.fetch_add(1000, std::sync::atomic::Ordering::Relaxed);
                if from >= rows.end {
                    return Ok(());
                }
                (from..rows.end.min(from + 1000)).for_each(|n| with(n, |values| assert!(made.push(values))));
                inserter.insert_rows(t, &mut made)?;
                made.clear();
            }
        };
        std::thread::scope(|s| {
            let threads: Vec<_> = (0..threads).map(|_| s.spawn(work)).collect();
            threads.into_iter().try_for_each(|t| t.join().unwrap())
        })
    })?
}

/// Row `n` of the table: ids in no order, every seventh part NULL, the others five alike.
fn put(c: &mut Connection, t: &Arc<Table>, n: i64) -> SqlResult<Oid> {
    with(n, |values| c.insert(t, values))
}
fn with<R>(n: i64, f: impl FnOnce(&[ValueRef<'_>]) -> R) -> R {
    let id = n.wrapping_mul(0x9e37_79b9) & 0xffff_ffff;
    let part = if n % 7 == 0 { ValueRef::Null } else { ValueRef::Int4((n / 5) as i32) };
    let name = format!("the name of subscriber {id:011}");
    f(&[ValueRef::Int8(id), part, ValueRef::Text(&name), ValueRef::Text(&name[23..])])
}

fn fill(c: &mut Connection, t: &Arc<Table>, rows: std::ops::Range<i64>) {
    c.start_statement(c.catalog_version(), std::slice::from_ref(t), true).unwrap();
    rows.for_each(|n| assert!(!put(c, t, n).unwrap().is_none()));
    c.end_statement().unwrap();
}

fn index(c: &mut Connection, kind: IndexKind, name: &str, columns: &[usize], unique: bool) -> SqlResult<()> {
    let columns = columns.iter().map(|&column| IndexColumn { column, desc: false, nulls_first: false });
    c.create_index("t", name, kind, unique, columns.collect(), false, false)
}

/// Every index has one entry for each row, under its key.
fn verify(c: &mut Connection, rows: i64) {
    let t = c.catalog().table("t").unwrap().clone();
    c.start_statement(c.catalog_version(), std::slice::from_ref(&t), false).unwrap();
    let (mut scan, mut row, mut all) = (Scan::default(), vec![0; t.layout.row_size], vec![]);
    scan.start(c, &t);
    while let Some(oid) = scan.next(c, &mut row).unwrap() {
        all.push((oid, row.clone()))
    }
    assert_eq!(all.len() as i64, rows);
    for i in &t.indexes {
        let mut entries = BTreeMap::new();
        i.index.verify(&mut |key, oid| assert!(entries.insert(oid, key.to_vec()).is_none())).unwrap();
        assert_eq!(entries.len() as i64, rows, "{}", i.def.name);
        for (n, (oid, row)) in all.iter().enumerate() {
            if n % 97 != 0 && n > 100 {
                continue;
            }
            let mut scratch = vec![vec![]; i.def.columns.len()];
            let values: Vec<_> = (i.def.columns.iter().zip(&mut scratch))
                .map(|(col, s)| row::column(&t.layout, row, col.column, &Strings(c), s))
                .collect();
            let (mut key, mut found) = (vec![], vec![]);
            i.key.encode(&values, &mut key);
            c.lookup(i, &key, &mut found).unwrap();
            assert!(found.contains(oid), "row {n} in {}: {values:?}", i.def.name);
            assert!(i.index.as_hash().is_some() || entries[oid] == key, "row {n} in {}", i.def.name);
        }
    }
    c.end_statement().unwrap();
}

struct Strings<'a>(&'a Connection);
impl ondol_kernel::Strings for Strings<'_> {
    fn string(&self, slot: u64, len: usize, out: &mut Vec<u8>) {
        self.0.read_string(slot, len, out)
    }
}

#[test]
fn indexes_of_all_kinds_have_all_rows_now_and_after_opening() {
    let dir = tempfile::tempdir().unwrap();
    {
        let db = open(dir.path(), 1 << 30).unwrap();
        let mut c = db.connect();
        let t = create(&mut c);
        fill(&mut c, &t, 0..ROWS);
        index(&mut c, IndexKind::Btree, "a", &[0], true).unwrap();
        index(&mut c, IndexKind::Hash, "b", &[0], true).unwrap();
        index(&mut c, IndexKind::Btree, "c", &[1], false).unwrap();
        index(&mut c, IndexKind::Hash, "d", &[1], false).unwrap();
        index(&mut c, IndexKind::Btree, "e", &[2], true).unwrap();
        index(&mut c, IndexKind::Btree, "f", &[1, 0], true).unwrap();
        index(&mut c, IndexKind::Btree, "g", &[3], true).unwrap();
        verify(&mut c, ROWS);
        db.close().unwrap();
    }
    let db = open(dir.path(), 1 << 30).unwrap();
    assert_eq!(db.opened().index_entries, 7 * ROWS as u64);
    verify(&mut db.connect(), ROWS);
    // They are ordinary indexes from now on.
    let mut c = db.connect();
    let t = c.catalog().table("t").unwrap().clone();
    fill(&mut c, &t, ROWS..ROWS + 2000);
    verify(&mut c, ROWS + 2000);
}

#[test]
fn duplicates_are_named_and_rows_that_are_gone_are_none() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), 1 << 30).unwrap();
    let mut c = db.connect();
    let t = create(&mut c);
    fill(&mut c, &t, 0..ROWS);
    // Parts that are NULL are equal to nothing, the others are.
    fill(&mut c, &t, 77..78);
    let id = 77i64.wrapping_mul(0x9e37_79b9) & 0xffff_ffff;
    for (kind, columns, key) in [
        (IndexKind::Btree, &[0][..], format!("Key (id)=({id}) is duplicated.")),
        (IndexKind::Hash, &[0], format!("Key (id)=({id}) is duplicated.")),
        (IndexKind::Btree, &[2], format!("Key (name)=(the name of subscriber {id:011}) is duplicated.")),
    ] {
        let e = index(&mut c, kind, "u", columns, true).unwrap_err();
        assert_eq!((e.sqlstate(), e.0.detail.as_deref()), ("23505", Some(key.as_str())));
        assert_eq!(e.0.message, "could not create unique index \"u\"");
    }
    index(&mut c, IndexKind::Btree, "n", &[1, 0], true).unwrap();
    // A reader keeps the version that the duplicate had, so that its keys stay in the indexes.
    let mut reader = db.connect();
    reader.begin(Isolation::RepeatableRead, Access::ReadOnly).unwrap();
    reader.start_statement(reader.catalog_version(), &[], false).unwrap();
    let t = c.catalog().table("t").unwrap().clone();
    let mut key = vec![];
    t.indexes[0].key.encode(&[ValueRef::Null, ValueRef::Int8(id)], &mut key);
    c.start_statement(c.catalog_version(), std::slice::from_ref(&t), true).unwrap();
    let mut oids = vec![];
    c.lookup(&t.indexes[0], &key, &mut oids).unwrap();
    assert_eq!(oids.len(), 2);
    let mut row = vec![0; t.layout.row_size];
    assert!(c.read(&t, oids[1], &mut row));
    c.lock(&t, oids[1], LockStrength::Update, Wait::Block).unwrap();
    c.delete(&t, oids[1], &row).unwrap();
    c.end_statement().unwrap();
    reader.end_statement().unwrap();
    for (kind, name) in [(IndexKind::Btree, "u"), (IndexKind::Hash, "v")] {
        index(&mut c, kind, name, &[0], true).unwrap();
        c.start_statement(c.catalog_version(), &[], true).unwrap();
        let t = c.catalog().table("t").unwrap().clone();
        let e = put(&mut c, &t, 5).unwrap_err();
        assert_eq!(e.sqlstate(), "23505");
        c.abort_statement();
    }
    reader.rollback();
    db.settle();
    verify(&mut c, ROWS);
}

/// Sorting takes more memory than the index; where there is not as much, opening takes longer instead.
#[test]
fn what_fits_is_opened_without_room_for_sorting() {
    let dir = tempfile::tempdir().unwrap();
    let (used, tree) = {
        let db = open(dir.path(), 1 << 30).unwrap();
        let mut c = db.connect();
        let t = create(&mut c);
        fill(&mut c, &t, 0..ROWS);
        index(&mut c, IndexKind::Btree, "e", &[3], false).unwrap();
        db.checkpoint().unwrap();
        let memory = db.memory();
        let index = memory.parts.iter().find(|m| m.name == "e").unwrap().bytes as usize;
        db.close().unwrap();
        (memory.used as usize, index)
    };
    // What is gathered of a row takes 32 bytes and its key. The limit's 64th part is not for indexes.
    let room = tree / 3;
    assert!(room + tree < ROWS as usize * (32 + 16), "{room} + {tree}");
    let db = open(dir.path(), (used + room) / 63 * 64).unwrap();
    verify(&mut db.connect(), ROWS);
    drop(db);
    assert_eq!(open(dir.path(), used - tree / 2).err().unwrap().sqlstate(), "53200");
}

/// The builder notes two keys of each row, since an older snapshot sees the first. Whatever the limit is,
/// what it noted is within it, and where that is refused nothing of the index is left.
#[test]
fn keys_that_a_builder_notes_count_against_the_limit() {
    const ROWS: i64 = 100_000;
    let used = |db: &Database| db.memory().used as usize;
    // Gives what was used before and after, or before the building was refused.
    let build = |limit: usize| -> Result<(usize, usize), usize> {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), limit).unwrap();
        let (mut c, mut old) = (db.connect(), db.connect());
        c.set_synchronous(false);
        let column = ColumnDef { not_null: true, ..ColumnDef::new("id", Type::INT8) };
        c.create_table("t", vec![column]).unwrap();
        let oids: Vec<Oid> =
            run(&mut c, "t", |c, t| (0..ROWS).map(|n| c.insert(t, &[ValueRef::Int8(n)])).collect()).unwrap();
        old.begin(Isolation::RepeatableRead, Access::ReadOnly).unwrap();
        old.start_statement(old.catalog_version(), &[], false).unwrap();
        old.end_statement().unwrap();
        run(&mut c, "t", |c, t| {
            let mut row = vec![0; t.layout.row_size];
            oids.iter().zip(ROWS..).try_for_each(|(oid, id)| {
                c.lock(t, *oid, LockStrength::Update, Wait::Block)?;
                assert!(c.read_newest(t, *oid, &mut row));
                c.update(t, *oid, &row, &[(0, ValueRef::Int8(id))])
            })
        })
        .unwrap();
        let before = used(&db);
        let column = IndexColumn { column: 0, desc: false, nulls_first: false };
        match c.create_index("t", "i", IndexKind::Hash, false, vec![column], false, false) {
            Ok(()) => Ok((before, used(&db))),
            Err(e) => {
                assert_eq!(e.sqlstate(), ondol_types::sqlstate::OUT_OF_MEMORY, "{e}");
                let t = table(&c, "t");
                assert!(t.indexes.is_empty() && t.building.is_none());
                run(&mut c, "t", |c, t| c.insert(t, &[ValueRef::Int8(7)])).unwrap();
                // Versions of the insert apart.
                assert!(used(&db) < before + (256 << 10), "{} after {before}", used(&db));
                Err(before)
            }
        }
    };
    let (before, after) = build(1 << 30).unwrap();
    println!("{before} bytes before, {after} after");
    assert!(after > before + (2 << 20));
    let (mut built, mut refused) = (0, 0);
    for tenth in (2..15).step_by(3) {
        // A 64th is kept for what must not fail.
        let limit = (before + (after - before) * tenth / 10) * 64 / 63;
        match build(limit) {
            Ok((_, after)) => {
                assert!(after <= limit, "{after} bytes of {limit} are used");
                built += 1
            }
            Err(_) => refused += 1,
        }
    }
    println!("{built} built, {refused} refused");
    assert!(built > 0 && refused > 1);
}

/// Rows that several threads insert for one transaction are its own: committed, or gone, with it, whatever
/// else it did.
#[test]
fn rows_of_several_threads_are_one_transactions() {
    let dir = tempfile::tempdir().unwrap();
    let used = |db: &Database| db.memory().used as usize;
    let first = |c: &mut Connection| {
        c.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
        create(c)
    };
    let start = |c: &mut Connection, t: &Arc<Table>| {
        c.start_statement(c.catalog_version(), std::slice::from_ref(t), true).unwrap()
    };
    {
        let db = open(dir.path(), 1 << 30).unwrap();
        let mut c = db.connect();
        // The dictionary has its pages.
        first(&mut c);
        c.rollback();
        db.settle();
        let before = used(&db);
        // Taken back as a whole: to a savepoint, and then by its transaction.
        let t = first(&mut c);
        start(&mut c, &t);
        fill_by(&mut c, &t, 0..ROWS / 4, 3).unwrap();
        assert!(used(&db) > before + (1 << 20));
        c.end_statement().unwrap();
        c.savepoint("s").unwrap();
        start(&mut c, &t);
        fill_by(&mut c, &t, ROWS / 4..ROWS / 2, 3).unwrap();
        c.end_statement().unwrap();
        c.rollback_to_savepoint("s").unwrap();
        db.settle();
        verify(&mut c, ROWS / 4);
        c.rollback();
        db.settle();
        assert!(c.catalog().table("t").is_none());
        assert!(used(&db) < before + (1 << 20), "{} after {before}", used(&db));
        // A key that two rows have is found in what is not committed yet.
        let t = first(&mut c);
        start(&mut c, &t);
        fill_by(&mut c, &t, 0..ROWS / 4, 3).unwrap();
        fill_by(&mut c, &t, 77..78, 3).unwrap();
        c.end_statement().unwrap();
        let e = index(&mut c, IndexKind::Btree, "u", &[0], true).unwrap_err();
        assert_eq!((e.sqlstate(), e.0.message.as_str()), ("23505", "could not create unique index \"u\""));
        c.rollback();
        // Some rows by the transaction's own thread, before and behind.
        let t = first(&mut c);
        start(&mut c, &t);
        (0..500).for_each(|n| assert!(!put(&mut c, &t, n).unwrap().is_none()));
        fill_by(&mut c, &t, 500..ROWS / 2, 4).unwrap();
        (ROWS / 2..ROWS / 2 + 500).for_each(|n| assert!(!put(&mut c, &t, n).unwrap().is_none()));
        fill_by(&mut c, &t, ROWS / 2 + 500..ROWS, 2).unwrap();
        c.end_statement().unwrap();
        index(&mut c, IndexKind::Btree, "a", &[0], true).unwrap();
        index(&mut c, IndexKind::Hash, "b", &[0], true).unwrap();
        index(&mut c, IndexKind::Btree, "e", &[2], true).unwrap();
        verify(&mut c, ROWS);
        c.commit().unwrap();
        verify(&mut c, ROWS);
        // A table with an index takes them from one thread.
        let t = table(&c, "t");
        start(&mut c, &t);
        let e = fill_by(&mut c, &t, ROWS..ROWS + 1, 1).unwrap_err();
        assert!(e.to_string().contains("which has an index"), "{e}");
        c.abort_statement();
        let e = run(&mut c, "t", |c, t| put(c, t, 5)).unwrap_err();
        assert_eq!(e.sqlstate(), "23505");
        // Not closed: recovery puts it together again.
    }
    let db = open(dir.path(), 1 << 30).unwrap();
    verify(&mut db.connect(), ROWS);
}

/// Where memory is refused to one of the threads, all of it is taken back.
#[test]
fn rows_of_several_threads_count_against_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), 24 << 20).unwrap();
    let used = || db.memory().used as usize;
    let mut c = db.connect();
    let t = create(&mut c);
    let before = used();
    c.start_statement(c.catalog_version(), std::slice::from_ref(&t), true).unwrap();
    let e = fill_by(&mut c, &t, 0..ROWS * 4, 3).unwrap_err();
    assert_eq!(e.sqlstate(), ondol_types::sqlstate::OUT_OF_MEMORY, "{e}");
    c.abort_statement();
    db.settle();
    verify(&mut c, 0);
    // The table keeps its pages.
    let kept = used();
    c.start_statement(c.catalog_version(), std::slice::from_ref(&t), true).unwrap();
    fill_by(&mut c, &t, 0..10_000, 3).unwrap();
    c.end_statement().unwrap();
    // A thread may come to strings now that was refused before it had a segment of them, of 2 MiB.
    assert!(used() < kept + (3 << 20), "{} after {kept}, {before} before", used());
    verify(&mut c, 10_000);
}

/// A thread that dies while it inserts leaves a transaction that cannot be committed.
#[test]
fn a_panic_of_one_of_several_threads_ends_the_transaction() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), 1 << 30).unwrap();
    let mut c = db.connect();
    let t = create(&mut c);
    c.start_statement(c.catalog_version(), std::slice::from_ref(&t), true).unwrap();
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        c.lend_writing(|loan| {
            let mut inserter = loan.inserter().expect("a transaction");
            let mut made = RowBatch::new(t.layout.clone(), 0);
            (0..100).for_each(|n| with(n, |values| assert!(made.push(values))));
            inserter.insert_rows(&t, &mut made).unwrap();
            let dies = move || {
                let _inserter = inserter;
                panic!("on purpose")
            };
            std::thread::scope(|s| s.spawn(dies).join())
        })
        .unwrap()
        .unwrap()
    }));
    assert!(died.is_err());
    let e = c.end_statement().unwrap_err();
    assert!(e.sqlstate() == "XX000" && e.to_string().contains("panicked"), "{e}");
    c.abort_statement();
    db.settle();
    verify(&mut c, 0);
    c.start_statement(c.catalog_version(), std::slice::from_ref(&t), true).unwrap();
    fill_by(&mut c, &t, 0..10_000, 3).unwrap();
    c.end_statement().unwrap();
    verify(&mut c, 10_000);
}
