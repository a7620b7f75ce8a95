//! The library's calls: what a statement gives, tokens, guards, memory.
use ondol::{
    Batch, Database, Isolation, MemoryKind, Rows, Session, TempFolder, TransactionOptions, TypeId, Value,
    ValueRef, params,
};

fn open() -> (TempFolder, Database) {
    let folder = TempFolder::new().unwrap();
    let db = Database::open(folder.path()).unwrap();
    db.session()
        .execute(
            "CREATE TABLE t (a integer PRIMARY KEY, b text);
             CREATE FUNCTION put(integer, text) RETURNS void LANGUAGE sql AS 'INSERT INTO t VALUES ($1, $2)'",
        )
        .unwrap();
    (folder, db)
}

/// What others see of the table.
fn seen(db: &Database) -> Vec<i32> {
    let found = db.session().query("SELECT a FROM t ORDER BY a", &[]).unwrap();
    found.iter().map(|r| r.get(0).unwrap()).collect()
}

fn put(s: &mut Session, a: i32) -> ondol::Result<u64> {
    Ok(s.query("INSERT INTO t VALUES ($1, 'x')", &params![a])?.count)
}

#[test]
fn one_call_gives_rows_tag_count_and_token() {
    let (_folder, db) = open();
    let mut s = db.session();
    for synchronous in [true, false] {
        let setting = if synchronous { "on" } else { "off" };
        s.execute(&format!("TRUNCATE t; SET synchronous_commit = {setting}")).unwrap();
        for (sql, tag, count, len, writes) in [
            ("INSERT INTO t VALUES ($1, 'a'), ($1 + 1, 'b')", "INSERT 0 2", 2, 0, true),
            ("INSERT INTO t VALUES ($1 + 2, 'c') RETURNING a, b", "INSERT 0 1", 1, 1, true),
            ("UPDATE t SET b = 'd' WHERE a > $1", "UPDATE 2", 2, 0, true),
            ("UPDATE t SET b = 'd' WHERE a > $1 + 100", "UPDATE 0", 0, 0, false),
            ("SELECT b FROM t WHERE a >= $1 ORDER BY a", "SELECT 3", 3, 3, false),
            ("DELETE FROM t WHERE a = $1 RETURNING b", "DELETE 1", 1, 1, true),
        ] {
            let got = s.query(sql, &params![1]).unwrap();
            assert_eq!((got.tag.as_str(), got.count, got.len()), (tag, count, len), "{sql}");
            assert_eq!(got.token.is_some(), writes, "{sql}, synchronous {synchronous}");
            assert_eq!(got.iter().count(), len);
            if let Some(token) = got.token {
                assert!(!synchronous || db.is_durable(token), "{sql}");
                db.wait(token).unwrap();
                assert!(db.is_durable(token));
            }
        }
    }
    let made = s.query("CREATE TABLE u AS SELECT a FROM t", &[]).unwrap();
    assert_eq!((made.tag.as_str(), made.count, made.rows.is_none()), ("SELECT 2", 2, true));
    assert!(made.token.is_some_and(|t| db.is_durable(t)));
    assert!(s.query("CREATE INDEX ON u (a)", &[]).unwrap().token.is_some());
    let nothing = s.query("-- nothing", &[]).unwrap();
    assert!(nothing.tag.is_empty() && nothing.is_empty() && nothing.columns().is_empty());
}

#[test]
fn a_statement_in_a_transaction_has_no_token_and_its_commit_has() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.begin(Isolation::ReadCommitted).unwrap();
    assert_eq!(s.query("INSERT INTO t VALUES (1, 'x')", &[]).unwrap().token, None);
    let first = s.commit().unwrap().expect("it wrote");
    assert!(db.is_durable(first));
    s.execute("BEGIN; INSERT INTO t VALUES (2, 'x')").unwrap();
    let second = s.query("COMMIT", &[]).unwrap().token.expect("it wrote");
    assert!(first < second && db.is_durable(second));
    s.execute("BEGIN; TABLE t").unwrap();
    assert_eq!(s.query("COMMIT", &[]).unwrap().token, None);

    let prepared = s.prepare("INSERT INTO t VALUES ($1, 'y')").unwrap();
    let third = s.execute_prepared(&prepared, &params![3]).unwrap().token.unwrap();
    let (put, mut rows, mut batch) = (s.query_id("put").unwrap(), Rows::new(), Batch::new());
    let called = s.call(put, &[ValueRef::Int4(4), ValueRef::Text("z")], &mut rows).unwrap();
    let fourth = called.token.unwrap();
    s.call_batch(
        put,
        &[&[ValueRef::Int4(5), ValueRef::Null], &[ValueRef::Int4(6), ValueRef::Null]],
        &mut batch,
    )
    .unwrap();
    let last = batch.token().unwrap();
    assert!(second < third && third < fourth && fourth < last && db.is_durable(last));
}

#[test]
fn a_guard_that_is_dropped_rolls_back() {
    let (_folder, db) = open();
    let mut s = db.session();
    {
        let mut t = s.transaction().unwrap();
        put(&mut t, 1).unwrap();
        assert!(t.in_transaction());
    }
    assert!(!s.in_transaction());
    let mut t = s.transaction().unwrap();
    put(&mut t, 2).unwrap();
    t.rollback();
    fn early(s: &mut Session) -> ondol::Result<()> {
        let mut t = s.transaction()?;
        put(&mut t, 3)?;
        put(&mut t, 3)?;
        t.commit().map(|_| ())
    }
    assert_eq!(early(&mut s).unwrap_err().sqlstate(), "23505");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut t = s.transaction().unwrap();
        put(&mut t, 4).unwrap();
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(panicked.is_err() && !s.in_transaction());
    assert_eq!(seen(&db), [] as [i32; 0]);

    let mut t = s.transaction().unwrap();
    put(&mut t, 5).unwrap();
    assert!(t.commit().unwrap().is_some_and(|token| db.is_durable(token)));
    let mut t = s.transaction().unwrap();
    put(&mut t, 6).unwrap();
    db.wait(t.commit_async().unwrap().expect("it wrote")).unwrap();
    assert_eq!(s.transaction().unwrap().commit().unwrap(), None);
    assert_eq!(seen(&db), [5, 6]);
}

#[test]
fn a_guard_ends_only_what_it_began() {
    let (_folder, db) = open();
    let mut s = db.session();
    let mut t = s.transaction().unwrap();
    put(&mut t, 1).unwrap();
    assert_eq!(t.transaction().unwrap_err().sqlstate(), "25001");
    t.execute("COMMIT; BEGIN; INSERT INTO t VALUES (2, 'x')").unwrap();
    assert_eq!(t.savepoint().unwrap_err().sqlstate(), "25P01");
    assert_eq!(t.commit().unwrap_err().sqlstate(), "25P01");
    assert!(s.in_transaction(), "it is another one");
    s.commit().unwrap();
    assert_eq!(seen(&db), [1, 2]);
    let mut t = s.transaction().unwrap();
    let mut part = t.savepoint().unwrap();
    part.execute("ROLLBACK; BEGIN; INSERT INTO t VALUES (3, 'x')").unwrap();
    assert_eq!(part.release().unwrap_err().sqlstate(), "25P01");
    drop(t);
    s.commit().unwrap();
    assert_eq!(seen(&db), [1, 2, 3]);
}

#[test]
fn options_say_level_and_mode() {
    let (_folder, db) = open();
    let mut s = db.session();
    let shown = |s: &mut Session, what: &str| {
        s.query(&format!("SHOW {what}"), &[]).unwrap().row(0).get::<String>(0).unwrap()
    };
    for (level, name) in [
        (Isolation::ReadCommitted, "read committed"),
        (Isolation::RepeatableRead, "repeatable read"),
        (Isolation::Serializable, "serializable"),
    ] {
        let mut t = s.transaction_with(TransactionOptions::new().isolation(level)).unwrap();
        assert_eq!(shown(&mut t, "transaction_isolation"), name);
        assert_eq!(shown(&mut t, "transaction_read_only"), "off");
    }
    s.execute(
        "SET default_transaction_isolation = 'repeatable read'; SET default_transaction_read_only = on",
    )
    .unwrap();
    let mut t = s.transaction().unwrap();
    assert_eq!(shown(&mut t, "transaction_isolation"), "repeatable read");
    assert_eq!(put(&mut t, 1).unwrap_err().sqlstate(), "25006");
    drop(t);
    let mut t = s.transaction_with(TransactionOptions::new().read_only(false)).unwrap();
    put(&mut t, 1).unwrap();
    t.commit().unwrap();
    assert_eq!(seen(&db), [1]);
}

#[test]
fn savepoints_nest() {
    let (_folder, db) = open();
    let mut s = db.session();
    let mut t = s.transaction().unwrap();
    put(&mut t, 1).unwrap();
    {
        let mut outer = t.savepoint().unwrap();
        put(&mut outer, 2).unwrap();
        {
            let mut inner = outer.savepoint().unwrap();
            put(&mut inner, 3).unwrap();
        }
        {
            let mut inner = outer.savepoint().unwrap();
            put(&mut inner, 4).unwrap();
            inner.release().unwrap();
        }
        // A failed part is undone, and what is around it goes on.
        {
            let mut inner = outer.savepoint().unwrap();
            put(&mut inner, 5).unwrap();
            assert_eq!(put(&mut inner, 1).unwrap_err().sqlstate(), "23505");
            assert_eq!(inner.release().unwrap_err().sqlstate(), "25P02");
        }
        assert!(!outer.is_failed());
        put(&mut outer, 6).unwrap();
        outer.release().unwrap();
    }
    {
        let mut undone = t.savepoint().unwrap();
        put(&mut undone, 7).unwrap();
        undone.savepoint().unwrap().release().unwrap();
        undone.rollback();
    }
    t.commit().unwrap();
    assert_eq!(seen(&db), [1, 2, 4, 6]);
}

/// transaction/G3: what cannot be undone any more is not committed either.
#[test]
fn a_savepoint_that_is_gone_fails_the_transaction() {
    let (_folder, db) = open();
    let mut s = db.session();
    let mut t = s.transaction().unwrap();
    t.execute("SAVEPOINT before").unwrap();
    let mut part = t.savepoint().unwrap();
    put(&mut part, 1).unwrap();
    part.execute("RELEASE before").unwrap();
    drop(part);
    assert!(t.is_failed());
    assert_eq!(t.commit().unwrap_err().sqlstate(), "25P02");
    assert_eq!(seen(&db), [] as [i32; 0]);
}

#[test]
fn memory_is_told_by_part() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute("INSERT INTO t SELECT n, 'x' FROM generate_series(1, 1000) n").unwrap();
    let memory = db.memory();
    let [table] = memory.of(MemoryKind::Table).collect::<Vec<_>>()[..] else { panic!("{memory:?}") };
    let [index] = memory.of(MemoryKind::Index).collect::<Vec<_>>()[..] else { panic!("{memory:?}") };
    assert_eq!((table.name.as_str(), table.entries), ("t", 1000));
    assert_eq!((index.name.as_str(), index.entries), ("t_pkey", 1000));
    let sum: u64 = memory.parts.iter().map(|p| p.bytes).sum();
    assert_eq!(sum, memory.used);
    assert!(memory.used < memory.limit);
    // The view says the same.
    let view = s.query("SELECT kind, name, bytes FROM ondol_memory", &[]).unwrap();
    assert_eq!(view.len(), memory.parts.len() + 2);
    for (row, part) in view.iter().zip(&memory.parts) {
        assert_eq!(row.get::<&str>(0).unwrap(), part.kind.name());
        assert_eq!(row.get::<&str>(1).unwrap(), part.name);
    }
}

#[test]
fn bytes_given_for_a_type_of_its_own_have_its_length() {
    let (_folder, db) = open();
    let mut s = db.session();
    s.execute("CREATE TABLE u (id uuid PRIMARY KEY, x real)").unwrap();
    let insert = "INSERT INTO u VALUES ($1, $2)";
    let uuid = |length| Value::Opaque(TypeId::UUID, vec![7; length].into());
    s.query(insert, &[uuid(16), Value::Float8(1.5)]).unwrap();
    s.query(insert, &params!["00000000-0000-0000-0000-000000000001", 2i32]).unwrap();
    for (wrong, state) in [(uuid(15), "22P03"), (uuid(0), "22P03"), (Value::Int4(1), "42804")] {
        assert_eq!(s.query(insert, &[wrong, Value::Null]).unwrap_err().sqlstate(), state);
    }
    let odd = Value::Opaque(TypeId::INT4, vec![1; 4].into());
    assert!(s.query("SELECT $1::int4", &[odd]).is_err());
    let rows = s.query("SELECT id, x FROM u ORDER BY id", &[]).unwrap();
    let texts: Vec<String> =
        rows.iter().map(|r| r.get::<String>(0).unwrap() + " " + &r.get::<String>(1).unwrap()).collect();
    let sevens = "07070707-0707-0707-0707-070707070707 1.5";
    assert_eq!(texts, ["00000000-0000-0000-0000-000000000001 2", sevens]);
    assert_eq!(rows.row(1).get::<&[u8]>(0).unwrap(), [7; 16]);
}
