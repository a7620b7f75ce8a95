//! The engine below SQL: rows, transactions, indexes, definitions, restart.
use ondol_engine::*;
use ondol_types::{Type, TypeId, ValueRef};
use std::sync::Arc;

fn options() -> Options {
    Options { memory_limit: 512 << 20, ..Options::default() }
}

fn columns() -> Vec<ColumnDef> {
    let c = |name: &str, ty, not_null| ColumnDef { not_null, ..ColumnDef::new(name, ty) };
    vec![
        c("id", Type::INT8, true),
        c("name", Type::TEXT, false),
        c("code", Type::with(TypeId::BPCHAR, 3 + 4), false),
        c("counter", Type::INT4, false),
    ]
}

fn index(c: &mut Connection, kind: IndexKind, name: &str, column: usize, unique: bool) {
    let col = IndexColumn { column, desc: false, nulls_first: false };
    c.create_index("t", name, kind, unique, vec![col], false, false).unwrap()
}

fn put(c: &mut Connection, id: i64, name: &str, code: &str, n: i32) -> ondol_types::SqlResult<Oid> {
    let t = c.catalog().table("t").unwrap().clone();
    c.start_statement(c.catalog_version(), std::slice::from_ref(&t), true)?;
    match c.insert(&t, &[ValueRef::Int8(id), ValueRef::Text(name), ValueRef::Text(code), ValueRef::Int4(n)]) {
        Ok(o) => {
            c.end_statement()?;
            Ok(o)
        }
        Err(e) => {
            c.abort_statement();
            Err(e)
        }
    }
}

fn set(c: &mut Connection, id: i64, changes: &[(usize, ValueRef<'_>)]) -> ondol_types::SqlResult<usize> {
    let t = c.catalog().table("t").unwrap().clone();
    c.start_statement(c.catalog_version(), std::slice::from_ref(&t), true)?;
    let mut row = vec![0; t.layout.row_size];
    let mut n = 0;
    for oid in find(c, &t, id) {
        if !c.read(&t, oid, &mut row) {
            continue;
        }
        match c.lock(&t, oid, LockStrength::Update, Wait::Block) {
            Ok(Locked::Same) => {}
            Ok(Locked::Changed) => {
                c.read_newest(&t, oid, &mut row);
            }
            Ok(_) => continue,
            Err(e) => {
                c.abort_statement();
                return Err(e);
            }
        }
        let done =
            if changes.is_empty() { c.delete(&t, oid, &row) } else { c.update(&t, oid, &row, changes) };
        if let Err(e) = done {
            c.abort_statement();
            return Err(e);
        }
        n += 1;
    }
    c.end_statement()?;
    Ok(n)
}

fn find(c: &mut Connection, t: &Arc<Table>, id: i64) -> Vec<Oid> {
    let mut out = vec![];
    match t.indexes.first() {
        Some(i) => {
            let mut key = vec![];
            i.key.encode(&[ValueRef::Int8(id)], &mut key);
            c.lookup(&i.clone(), &key, &mut out).unwrap();
        }
        None => {
            let mut s = Scan::default();
            s.start(c, t);
            let mut row = vec![0; t.layout.row_size];
            while let Some(o) = s.next(c, &mut row).unwrap() {
                if row::column(&t.layout, &row, 0, &NoStrings, &mut vec![]).to_owned()
                    == ondol_types::Value::Int8(id)
                {
                    out.push(o)
                }
            }
        }
    }
    out
}

struct NoStrings;
impl ondol_kernel::Strings for NoStrings {
    fn string(&self, _: u64, _: usize, _: &mut Vec<u8>) {}
}

fn all(c: &mut Connection) -> Vec<String> {
    let t = c.catalog().table("t").unwrap().clone();
    c.start_statement(c.catalog_version(), std::slice::from_ref(&t), false).unwrap();
    let mut s = Scan::default();
    s.start(c, &t);
    let mut row = vec![0; t.layout.row_size];
    let mut out = vec![];
    struct Read<'a>(&'a Connection);
    impl ondol_kernel::Strings for Read<'_> {
        fn string(&self, slot: u64, len: usize, out: &mut Vec<u8>) {
            self.0.read_string(slot, len, out)
        }
    }
    while s.next(c, &mut row).unwrap().is_some() {
        let mut line = String::new();
        for i in 0..t.def.columns.len() {
            let mut scratch = vec![];
            let v = row::column(&t.layout, &row, i, &Read(c), &mut scratch);
            if i > 0 {
                line.push('|')
            }
            if !v.is_null() {
                let mut text = String::new();
                ondol_types::text::output(v, Type::new(t.def.columns[i].ty.id), &mut text);
                line.push_str(text.trim_end())
            }
        }
        out.push(line)
    }
    c.end_statement().unwrap();
    out.sort();
    out
}

#[test]
fn rows_live_through_changes_and_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let long = "a name that does not fit into twelve bytes";
    {
        let db = Database::open(dir.path(), options()).unwrap();
        let mut c = db.connect();
        c.create_table("t", columns()).unwrap();
        index(&mut c, IndexKind::Btree, "t_pkey", 0, true);
        index(&mut c, IndexKind::Hash, "t_n", 3, false);
        put(&mut c, 1, "one", "abc", 10).unwrap();
        put(&mut c, 2, long, "ü", 20).unwrap();
        put(&mut c, 3, "three", "äöü", 30).unwrap();
        let e = put(&mut c, 1, "again", "x", 0).unwrap_err();
        assert_eq!(e.sqlstate(), "23505");
        assert_eq!(e.0.detail.as_deref(), Some("Key (id)=(1) already exists."));
        assert_eq!(set(&mut c, 1, &[(1, ValueRef::Text(long)), (3, ValueRef::Int4(11))]).unwrap(), 1);
        assert_eq!(set(&mut c, 3, &[(2, ValueRef::Text("xyz")), (0, ValueRef::Int8(33))]).unwrap(), 1);
        assert_eq!(set(&mut c, 2, &[]).unwrap(), 1);
        put(&mut c, 2, "two", "日本語", 2).unwrap();
        put(&mut c, 3, "three again", "", 3).unwrap();
    }
    let expect = vec![
        format!("1|{long}|abc|11"),
        "2|two|日本語|2".to_string(),
        "33|three|xyz|30".to_string(),
        "3|three again||3".to_string(),
    ];
    for round in 0..3 {
        let db = Database::open(dir.path(), options()).unwrap();
        let mut c = db.connect();
        let mut e = expect.clone();
        e.sort();
        assert_eq!(all(&mut c), e, "round {round}");
        let t = c.catalog().table("t").unwrap().clone();
        assert_eq!(t.indexes.len(), 2);
        assert_eq!(find(&mut c, &t, 33).len(), 1);
        if round == 1 {
            db.checkpoint().unwrap()
        }
    }
    assert_eq!(
        Database::open(dir.path(), Options { create: false, ..options() })
            .map(|_| ())
            .map_err(|e| e.sqlstate()),
        Ok(())
    );
}

#[test]
fn one_opener_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let _db = Database::open(dir.path(), options()).unwrap();
    let e = Database::open(dir.path(), options()).map(|_| ()).unwrap_err();
    assert_eq!(e.sqlstate(), "55006");
}

#[test]
fn savepoints_and_rollback_leave_no_trace() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    let mut c = db.connect();
    c.create_table("t", columns()).unwrap();
    index(&mut c, IndexKind::Hash, "t_pkey", 0, true);
    put(&mut c, 1, "one", "a", 1).unwrap();
    c.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
    put(&mut c, 2, "two, with a long string", "b", 2).unwrap();
    c.savepoint("s").unwrap();
    set(&mut c, 1, &[(3, ValueRef::Int4(100))]).unwrap();
    set(&mut c, 2, &[(3, ValueRef::Int4(200)), (1, ValueRef::Text("another long string here"))]).unwrap();
    put(&mut c, 3, "three", "c", 3).unwrap();
    assert_eq!(all(&mut c).len(), 3);
    c.rollback_to_savepoint("s").unwrap();
    assert_eq!(all(&mut c), ["1|one|a|1", "2|two, with a long string|b|2"]);
    set(&mut c, 1, &[(3, ValueRef::Int4(101))]).unwrap();
    c.commit().unwrap();
    assert_eq!(all(&mut c), ["1|one|a|101", "2|two, with a long string|b|2"]);
    c.begin(Isolation::RepeatableRead, Access::ReadWrite).unwrap();
    set(&mut c, 1, &[]).unwrap();
    put(&mut c, 1, "new", "n", 0).unwrap();
    let mut other = db.connect();
    assert_eq!(all(&mut other).len(), 2);
    c.rollback();
    assert_eq!(all(&mut c), ["1|one|a|101", "2|two, with a long string|b|2"]);
    // Rolled-back definitions too.
    c.begin(Isolation::ReadCommitted, Access::ReadWrite).unwrap();
    c.drop_table("t").unwrap();
    assert!(c.catalog().table("t").is_none());
    c.rollback();
    assert_eq!(all(&mut c).len(), 2);
    c.truncate(&["t".into()]).unwrap();
    assert_eq!(all(&mut c).len(), 0);
    assert_eq!(all(&mut other).len(), 0);
}

#[test]
fn a_snapshot_stands_while_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    let mut c = db.connect();
    c.create_table("t", columns()).unwrap();
    index(&mut c, IndexKind::Btree, "t_pkey", 0, true);
    for i in 0..100 {
        put(&mut c, i, "x", "a", 0).unwrap();
    }
    let mut reader = db.connect();
    reader.begin(Isolation::RepeatableRead, Access::ReadOnly).unwrap();
    let before = all(&mut reader);
    for round in 1..=300 {
        for i in (0..100).step_by(7) {
            set(&mut c, i, &[(3, ValueRef::Int4(round))]).unwrap();
        }
        let i = round as i64 % 100;
        set(&mut c, i, &[]).unwrap();
        put(&mut c, i, "y", "b", round).unwrap();
    }
    assert_eq!(all(&mut reader), before);
    let mut writer = db.connect();
    writer.begin(Isolation::RepeatableRead, Access::ReadWrite).unwrap();
    assert_eq!(all(&mut writer).len(), 100);
    set(&mut c, 5, &[(3, ValueRef::Int4(-1))]).unwrap();
    assert_eq!(set(&mut writer, 5, &[(3, ValueRef::Int4(-2))]).unwrap_err().sqlstate(), "40001");
    writer.rollback();
    reader.commit().unwrap();
    drop(reader);
    db.settle();
    let used: u64 = db.memory().of(MemoryKind::Versions).map(|m| m.entries).sum();
    assert_eq!(used, 0, "everything is collected once the reader is gone");
    assert_eq!(all(&mut c).len(), 100);
}

#[test]
fn writers_meet() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    let mut c = db.connect();
    c.create_table("t", columns()).unwrap();
    index(&mut c, IndexKind::Hash, "t_pkey", 0, true);
    for i in 0..10 {
        put(&mut c, i, "x", "a", 0).unwrap();
    }
    let threads: Vec<_> = (0..4)
        .map(|k| {
            let db = db.clone();
            std::thread::spawn(move || {
                let mut c = db.connect();
                c.set_synchronous(false);
                for n in 0..500i64 {
                    let t = c.catalog().table("t").unwrap().clone();
                    let id = (n * 7 + k) % 10;
                    // counter = counter + 1, as READ COMMITTED has it
                    c.start_statement(c.catalog_version(), std::slice::from_ref(&t), true).unwrap();
                    let mut row = vec![0; t.layout.row_size];
                    for oid in find(&mut c, &t, id) {
                        if !c.read(&t, oid, &mut row) {
                            continue;
                        }
                        match c.lock(&t, oid, LockStrength::Update, Wait::Block).unwrap() {
                            Locked::Same => {}
                            Locked::Changed => assert!(c.read_newest(&t, oid, &mut row)),
                            other => panic!("{other:?}"),
                        }
                        let was = match row::column(&t.layout, &row, 3, &NoStrings, &mut vec![]) {
                            ValueRef::Int4(x) => x,
                            v => panic!("{v:?}"),
                        };
                        c.update(&t, oid, &row, &[(3, ValueRef::Int4(was + 1))]).unwrap();
                    }
                    c.end_statement().unwrap();
                }
            })
        })
        .collect();
    for t in threads {
        t.join().unwrap()
    }
    let sum: i32 = all(&mut c).iter().map(|l| l.rsplit('|').next().unwrap().parse::<i32>().unwrap()).sum();
    assert_eq!(sum, 2000);
    drop((c, db));
    let db = Database::open(dir.path(), options()).unwrap();
    let mut c = db.connect();
    let sum: i32 = all(&mut c).iter().map(|l| l.rsplit('|').next().unwrap().parse::<i32>().unwrap()).sum();
    assert_eq!(sum, 2000);
}

#[test]
fn memory_has_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), Options { memory_limit: 64 << 20, ..options() }).unwrap();
    let mut c = db.connect();
    c.set_synchronous(false);
    c.create_table("t", columns()).unwrap();
    index(&mut c, IndexKind::Hash, "t_pkey", 0, true);
    let mut n = 0;
    let e = loop {
        match put(&mut c, n, "a string that goes to the string heap, and is somewhat long", "a", 0) {
            Ok(_) => n += 1,
            Err(e) => break e,
        }
        assert!(n < 3_000_000, "no limit");
    };
    assert_eq!(e.sqlstate(), "53200");
    assert_eq!(all(&mut c).len(), n as usize);
    assert_eq!(set(&mut c, 0, &[(3, ValueRef::Int4(5))]).map_err(|e| e.sqlstate()), Ok(1));
}

/// Values of 1.2 MB leave two fifths of a segment each, which later values take: at once, and after a restart
/// as well.
#[test]
fn every_segment_is_filled_up() {
    for restarts in [0, 1] {
        let dir = tempfile::tempdir().unwrap();
        let mut db = Database::open(dir.path(), options()).unwrap();
        let mut c = db.connect();
        c.create_table("t", columns()).unwrap();
        for id in 0..4 {
            put(&mut c, id, &"l".repeat(1_200_000), "a", 0).unwrap();
        }
        let segments = |db: &Database| {
            let memory = db.memory();
            let part = memory.parts.iter().find(|p| p.name == "t").unwrap();
            part.bytes / (2 << 20)
        };
        // One is of the rows.
        assert_eq!(segments(&db), 5);
        for _ in 0..restarts {
            drop(c);
            db.close().unwrap();
            drop(db);
            db = Database::open(dir.path(), options()).unwrap();
            c = db.connect();
        }
        for id in 4..8 {
            put(&mut c, id, &"s".repeat(800_000), "a", 0).unwrap();
        }
        assert_eq!(segments(&db), 5, "after {restarts} restarts");
    }
}
