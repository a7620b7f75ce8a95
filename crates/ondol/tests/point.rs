//! What the point path costs, in things that depend on no machine: instructions of byte code, and allocations
//! of the calling thread.
#![allow(unsafe_code, reason = "an allocator that counts is unsafe to implement")]
use ondol::{Batch, Database, QueryId, Rows, Session, TempFolder, ValueRef};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(p, layout) }
    }
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(p, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(f: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    f();
    ALLOCATIONS.with(Cell::get) - before
}

const ROWS: i64 = 1000;

fn directory() -> (TempFolder, Session) {
    let folder = TempFolder::new().unwrap();
    let mut session = Database::open(folder.path()).unwrap().session();
    session
        .execute(
            "CREATE TABLE customer (id bigint, area integer NOT NULL, name char(40), note text, counter bigint, rank smallint);
             INSERT INTO customer SELECT i, i % 7, 'name ' || i, repeat('n', 40), 0, i
                 FROM generate_series(1, 1000) AS g(i);
             CREATE UNIQUE INDEX by_id ON customer USING hash (id);
             CREATE UNIQUE INDEX by_both ON customer USING hash (rank, area);
             CREATE FUNCTION whole(bigint) RETURNS SETOF customer LANGUAGE sql
                 AS 'SELECT * FROM customer WHERE id = $1';
             CREATE FUNCTION part(bigint) RETURNS TABLE (a integer, c bigint) LANGUAGE sql
                 AS 'SELECT area, counter + counter FROM customer WHERE id = $1';
             CREATE FUNCTION pair(integer, integer) RETURNS TABLE (c bigint) LANGUAGE sql
                 AS 'SELECT counter FROM customer WHERE area = $2 AND rank = $1';
             CREATE FUNCTION change(bigint, bigint) RETURNS void LANGUAGE sql
                 AS 'UPDATE customer SET counter = $2 WHERE id = $1'",
        )
        .unwrap();
    (folder, session)
}

/// The names of the instructions of a registered query.
fn code(session: &mut Session, call: &str) -> Vec<String> {
    let rows = session.query(&format!("EXPLAIN EXECUTE {call}"), &[]).unwrap();
    let lines: Vec<String> = rows.iter().map(|r| r.get::<String>(0).unwrap()).collect();
    let code = lines.iter().skip_while(|l| *l != "Byte code:").skip(1);
    let words = code.map(|l| l.split_whitespace().map(str::to_string).collect::<Vec<_>>());
    words.take_while(|w| w[0].parse::<u32>().is_ok()).map(|w| w[1].clone()).collect()
}

#[test]
fn a_point_query_is_few_instructions() {
    let (_folder, mut s) = directory();
    assert_eq!(code(&mut s, "whole(7)"), ["PointRow", "Halt"]);
    // A rank that fits no smallint has no row.
    assert_eq!(
        code(&mut s, "pair(7, 0)"),
        ["Narrow", "Move", "Move", "Point", "ColInt8", "Emit", "Twin", "Halt"]
    );
    assert_eq!(
        code(&mut s, "part(7)"),
        ["Point", "ColInt4", "ColInt8", "ColInt8", "AddInt", "Emit", "Twin", "Halt"]
    );
    let change = code(&mut s, "change(7, 1)");
    assert_eq!(change, ["PointUpdate", "Halt"]);
}

fn call(session: &mut Session, query: QueryId, params: &[ValueRef<'_>], rows: &mut Rows) {
    session.call(query, params, rows).unwrap();
}

#[test]
fn reading_a_point_allocates_nothing() {
    let (_folder, mut s) = directory();
    for name in ["whole", "part"] {
        let query = s.query_id(name).unwrap();
        let (mut rows, mut batch) = (Rows::new(), Batch::new());
        // Present, absent, NULL.
        let keys = [5, 1 << 40, 7].map(|k| [ValueRef::Int8(k)]);
        let null = [ValueRef::Null];
        let calls: Vec<&[ValueRef<'_>]> =
            (0..12).map(|i| if i % 4 == 3 { &null[..] } else { &keys[i % 4][..] }).collect();
        // The first calls let everything grow.
        for c in &calls {
            call(&mut s, query, c, &mut rows);
        }
        s.call_batch(query, &calls, &mut batch).unwrap();
        let one_by_one = allocations(|| calls.iter().for_each(|c| call(&mut s, query, c, &mut rows)));
        let together = allocations(|| s.call_batch(query, &calls, &mut batch).unwrap());
        assert_eq!((one_by_one, together), (0, 0), "{name}");
        assert_eq!(batch.iter().count(), 6, "{name}");
    }
}

/// A change of a row allocates its version node, its transaction's state and mark; what they are kept in
/// grows now and then.
#[test]
fn an_update_allocates_little() {
    let (_folder, mut s) = directory();
    let change = s.query_id("change").unwrap();
    let mut rows = Rows::new();
    let mut round = |counter: i64| {
        for id in 1..=ROWS {
            let params = [ValueRef::Int8(id), ValueRef::Int8(counter)];
            s.call_async(change, &params, &mut rows).unwrap();
        }
    };
    round(1);
    let n = allocations(|| round(2));
    assert!(n <= 5 * ROWS as u64, "{n} allocations in {ROWS} updates");
}

#[test]
fn a_point_lookup_finds_what_a_scan_finds() {
    let (_folder, mut s) = directory();
    s.execute("INSERT INTO customer VALUES (NULL, 1, 'none', NULL, 0, NULL), (NULL, 2, 'none', NULL, 0, NULL), (-5, 3, NULL, NULL, 9, -5)")
        .unwrap();
    s.execute("UPDATE customer SET id = 2000 WHERE id = 12; DELETE FROM customer WHERE id = 13").unwrap();
    let (whole, pair) = (s.query_id("whole").unwrap(), s.query_id("pair").unwrap());
    let (mut rows, mut batch) = (Rows::new(), Batch::new());
    let ids = [-5, 0, 1, 12, 13, 14, 1000, 1001, 2000, i64::MIN, i64::MAX];
    let params = ids.map(|i| [ValueRef::Int8(i)]);
    let calls: Vec<&[ValueRef<'_>]> = params.iter().map(|p| &p[..]).collect();
    for isolation in [None, Some(ondol::Isolation::ReadCommitted), Some(ondol::Isolation::Serializable)] {
        if let Some(i) = isolation {
            s.begin(i).unwrap();
        }
        s.call_batch(whole, &calls, &mut batch).unwrap();
        for (n, id) in ids.iter().enumerate() {
            // `+ 0` keeps the index out of it.
            let scan = format!("SELECT * FROM customer WHERE id + 0 = {id}::bigint");
            let text = |r: &Rows| format!("{r:?}");
            let wanted = if *id == i64::MAX || *id == i64::MIN {
                Rows::new()
            } else {
                s.query(&scan, &[]).unwrap().into_rows()
            };
            call(&mut s, whole, &params[n], &mut rows);
            assert_eq!(text(&rows), text(&wanted), "{id} {isolation:?}");
            assert_eq!(text(batch.rows(n).unwrap()), text(&wanted), "{id} in a batch, {isolation:?}");
            let area = wanted.iter().next().map_or(8, |r| r.get::<i32>(1).unwrap());
            let rank = if *id == 2000 { 12 } else { *id as i32 };
            for (a, there) in [(area, !wanted.is_empty()), (area + 7, false)] {
                call(&mut s, pair, &[ValueRef::Int4(rank), ValueRef::Int4(a)], &mut rows);
                assert_eq!(rows.len(), there as usize, "{id} {a} {isolation:?}");
            }
        }
        if isolation.is_some() {
            s.commit().unwrap();
        }
    }
}

#[test]
fn a_wrong_parameter_fails_its_own_call_only() {
    let (_folder, mut s) = directory();
    let whole = s.query_id("whole").unwrap();
    let (good, bad) = ([ValueRef::Int8(5)], [ValueRef::Text("5")]);
    let mut batch = Batch::new();
    s.call_batch(whole, &[&good, &bad, &good], &mut batch).unwrap();
    assert_eq!(batch.rows(0).unwrap().len(), 1);
    assert_eq!(batch.rows(1).unwrap_err().sqlstate(), "42804");
    assert_eq!(batch.rows(2).unwrap().len(), 1);
}

#[test]
fn one_buffer_takes_rows_of_every_shape_in_turn() {
    let (_folder, mut s) = directory();
    let (whole, part) = (s.query_id("whole").unwrap(), s.query_id("part").unwrap());
    let mut rows = Rows::new();
    for id in 1..20 {
        call(&mut s, whole, &[ValueRef::Int8(id)], &mut rows);
        let row = rows.row(0);
        assert_eq!((rows.len(), row.get::<i64>(0).unwrap()), (1, id));
        assert_eq!(row.get::<&str>(2).unwrap(), format!("name {id}"));
        assert_eq!(row.get::<&str>(3).unwrap(), "n".repeat(40));
        call(&mut s, part, &[ValueRef::Int8(id)], &mut rows);
        assert_eq!((rows.len(), rows.row(0).get::<i64>(0).unwrap()), (1, id % 7));
    }
}

#[test]
fn a_point_read_waits_for_who_changes_its_table() {
    let (_folder, mut s) = directory();
    let whole = s.query_id("whole").unwrap();
    let mut rows = Rows::new();
    call(&mut s, whole, &[ValueRef::Int8(5)], &mut rows);
    let mut definer = s.database().session();
    definer.begin(ondol::Isolation::ReadCommitted).unwrap();
    definer.execute("CREATE INDEX by_name ON customer (name)").unwrap();
    s.execute("SET lock_timeout = 20").unwrap();
    let refused = s.call(whole, &[ValueRef::Int8(5)], &mut rows).unwrap_err();
    assert_eq!(refused.sqlstate(), "55P03");
    definer.commit().unwrap();
    // The dictionary is another one now.
    call(&mut s, whole, &[ValueRef::Int8(5)], &mut rows);
    assert_eq!(rows.len(), 1);
    definer.execute("TRUNCATE customer").unwrap();
    call(&mut s, whole, &[ValueRef::Int8(5)], &mut rows);
    assert!(rows.is_empty());
}
