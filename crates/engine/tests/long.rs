//! Rows that take runs of pages (engine/layout/L6), and values in pieces (kernel/string/L1), through power
//! failures in simulated worlds.
mod common;
use common::{run, table};
use ondol_base::sim::{Config, Random, World};
use ondol_engine::*;
use ondol_types::{SqlResult, Type, TypeId, ValueRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Numbers of a row: more than a page has room for.
const NUMBERS: usize = 700;
/// The longest value that a slot holds is shorter.
const LONG: usize = 2_500_000;

/// A value: what its bytes are made of, and how many they are.
type Long = (u64, usize);
/// Rows by their first number.
type State = BTreeMap<i64, (Vec<i64>, Option<Long>)>;

fn bytes((seed, len): Long) -> Vec<u8> {
    (0..len).map(|i| (seed as usize * 31 + i * 7 + i / 4093) as u8).collect()
}

fn open(world: &Arc<World>) -> SqlResult<Arc<Database>> {
    let options = Options { memory_limit: 512 << 20, reserved: 2 << 30, ..Options::default() };
    Database::open_on(world.disk("d"), vec![], None, options, &|_| {})
}

/// The rows, each found by a scan in parts and by the index.
fn stored(db: &Arc<Database>) -> SqlResult<BTreeMap<i64, (Vec<i64>, Option<Vec<u8>>)>> {
    let mut c = db.connect();
    let t = table(&c, "t");
    c.start_statement(c.catalog_version(), std::slice::from_ref(&t), false)?;
    let (mut scan, mut row, mut all) = (Scan::default(), vec![0; t.layout.row_size], BTreeMap::new());
    scan.start(&c, &t);
    while let Some(oid) = scan.next(&c, &mut row)? {
        let mut values = vec![];
        for i in 0..NUMBERS {
            match row::column(&t.layout, &row, i, &c, &mut vec![]) {
                ValueRef::Int8(n) => values.push(n),
                other => panic!("{other:?} in column {i}"),
            }
        }
        let mut scratch = vec![];
        let long = match row::column(&t.layout, &row, NUMBERS, &c, &mut scratch) {
            ValueRef::Bytea(b) => Some(b.to_vec()),
            _ => None,
        };
        let mut key = vec![];
        t.indexes[0].key.encode(&[ValueRef::Int8(values[0])], &mut key);
        let mut found = vec![];
        c.lookup(&t.indexes[0], &key, &mut found)?;
        assert!(found.contains(&oid), "row {} is not in the index", values[0]);
        assert!(all.insert(values[0], (values, long)).is_none(), "a row twice");
    }
    c.end_statement()?;
    Ok(all)
}

/// A change of a row.
enum Op {
    Insert(i64, Vec<i64>, Option<Long>),
    Update(i64, (usize, i64), Option<Long>),
    Delete(i64),
}

/// What a transaction is to do, and what the rows are then.
fn plan(state: &State, r: &mut Random) -> (Vec<Op>, State) {
    let (mut ops, mut next) = (vec![], state.clone());
    for _ in 0..1 + r.below(3) {
        let id = r.below(12) as i64;
        let long = r.chance(0.15).then(|| (r.below(200), LONG - r.below(3) as usize * 800_000));
        let mut number = |n| if n == 0 { id } else { r.below(1 << 40) as i64 };
        match next.get_mut(&id) {
            None => {
                let numbers: Vec<i64> = (0..NUMBERS).map(number).collect();
                next.insert(id, (numbers.clone(), long));
                ops.push(Op::Insert(id, numbers, long))
            }
            Some(_) if number(1) % 5 == 0 => {
                next.remove(&id);
                ops.push(Op::Delete(id))
            }
            Some(row) => {
                let place = 1 + number(1) as usize % (NUMBERS - 1);
                let set = (place, number(place));
                row.0[place] = set.1;
                row.1 = long.or(row.1);
                ops.push(Op::Update(id, set, long))
            }
        }
    }
    (ops, next)
}

/// Does it in one statement each.
fn carry_out(c: &mut Connection, op: &Op) -> SqlResult<()> {
    let data = match op {
        Op::Insert(.., long) | Op::Update(.., long) => long.map(bytes),
        Op::Delete(_) => None,
    };
    let (Op::Insert(id, ..) | Op::Update(id, ..) | Op::Delete(id)) = op;
    run(c, "t", |c, t| {
        if let Op::Insert(_, numbers, _) = op {
            let mut values: Vec<_> = numbers.iter().map(|n| ValueRef::Int8(*n)).collect();
            values.push(data.as_deref().map_or(ValueRef::Null, ValueRef::Bytea));
            return c.insert(t, &values).map(drop);
        }
        let (mut key, mut found, mut row) = (vec![], vec![], vec![0; t.layout.row_size]);
        t.indexes[0].key.encode(&[ValueRef::Int8(*id)], &mut key);
        c.lookup(&t.indexes[0], &key, &mut found)?;
        found.retain(|oid| c.read(t, *oid, &mut row));
        let [oid] = found[..] else { panic!("row {id} is found {} times", found.len()) };
        c.lock(t, oid, LockStrength::Update, Wait::Block)?;
        assert!(c.read_newest(t, oid, &mut row));
        let Op::Update(_, (place, number), _) = op else { return c.delete(t, oid, &row) };
        let mut changes = vec![(*place, ValueRef::Int8(*number))];
        changes.extend(data.as_deref().map(|d| (NUMBERS, ValueRef::Bytea(d))));
        c.update(t, oid, &row, &changes)
    })
}

/// Some transactions, with checkpoints between them, until the power fails or they are done. Gives what may
/// be found after that.
fn live(world: &Arc<World>, before: Vec<State>, seed: u64) -> Vec<State> {
    let mut r = Random::new(seed);
    world.arm_power_failure(r.below(400));
    let Ok(db) = open(world) else { return before };
    let Ok(found) = stored(&db) else { return before };
    let is_it = |state: &&State| {
        let row = |r: &(Vec<i64>, Option<Long>)| (r.0.clone(), r.1.map(bytes));
        state.len() == found.len() && state.iter().all(|(id, r)| found.get(id) == Some(&row(r)))
    };
    let Some(mut state) = before.iter().find(is_it).cloned() else {
        panic!("seed {seed}: rows {:?} are none of what may be there", found.keys())
    };
    let mut c = db.connect();
    for _ in 0..25 {
        if r.chance(0.1) && db.checkpoint().is_err() {
            return vec![state];
        }
        let (ops, next) = plan(&state, &mut r);
        let commits = r.chance(0.9);
        let done = c.begin(Isolation::ReadCommitted, Access::ReadWrite);
        let done = done.and_then(|()| ops.iter().try_for_each(|op| carry_out(&mut c, op)));
        let ended = match (&done, commits) {
            (Ok(()), true) => c.commit().map(drop),
            _ => {
                c.rollback();
                done
            }
        };
        match ended {
            Ok(()) if commits => state = next,
            Ok(()) => {}
            // Whether it was committed is not known.
            Err(_) => return vec![state, next],
        }
    }
    drop(c);
    let _ = db.close();
    vec![state]
}

/// A history: the lives of a database, and a last one in which all rows go, and leave nothing. Gives how
/// often the power failed.
fn history(seed: u64, config: &Config) -> Result<u32, String> {
    let mut world = World::new(seed, config.clone());
    let w = world.clone();
    let made = world.try_run(move || {
        let db = open(&w).unwrap();
        let mut c = db.connect();
        let number = |n| ColumnDef { not_null: true, ..ColumnDef::new(format!("n{n}"), Type::INT8) };
        let mut columns: Vec<_> = (0..NUMBERS).map(number).collect();
        columns.push(ColumnDef::new("long", Type::new(TypeId::BYTEA)));
        c.create_table("t", columns).unwrap();
        let column = IndexColumn { column: 0, desc: false, nulls_first: false };
        c.create_index("t", "i", IndexKind::Hash, true, vec![column], false, false).unwrap();
        assert!(table(&c, "t").layout.is_long());
        drop(c);
        db.close().unwrap()
    });
    made.map_err(|f| f.to_string())?;
    let (mut states, mut failures) = (vec![State::new()], 0);
    for life in 0..5 {
        world = world.reboot_with(seed * 10 + life, config.clone());
        let w = world.clone();
        states = world.try_run(move || live(&w, states, seed * 100 + life)).map_err(|f| f.to_string())?;
        failures += u32::from(world.power_is_lost());
    }
    world = world.reboot_with(seed * 10 + 5, config.clone());
    let w = world.clone();
    world.try_run(move || empty(&w)).map_err(|f| f.to_string())??;
    Ok(failures)
}

/// Deletes all rows: then no slot is taken any more, of strings neither.
fn empty(world: &Arc<World>) -> Result<(), String> {
    let db = open(world).map_err(|e| e.to_string())?;
    let mut c = db.connect();
    let ids: Vec<i64> = stored(&db).map_err(|e| e.to_string())?.into_keys().collect();
    for id in ids {
        carry_out(&mut c, &Op::Delete(id)).map_err(|e| e.to_string())?
    }
    db.settle();
    let t = table(&c, "t");
    let taken = (t.store.rows.taken(), t.store.strings.taken());
    drop(c);
    db.close().map_err(|e| e.to_string())?;
    if taken == (0, 0) { Ok(()) } else { Err(format!("slots of rows and strings left: {taken:?}")) }
}

#[test]
fn long_rows_and_values_outlive_power_failures() {
    let failures: u32 = (1..=30)
        .map(|seed| history(seed, &Config::default()).unwrap_or_else(|e| panic!("seed {seed}: {e}")))
        .sum();
    assert!(failures > 40, "the power failed {failures} times only");
}

/// Pieces of a value are made, spilled and dropped together with its list.
#[test]
fn wrong_pieces_are_noticed() {
    for mutation in ["pieces_kept", "piece_read_short"] {
        let config = Config { mutation: Some(mutation), ..Config::default() };
        assert!((1..=30).any(|seed| history(seed, &config).is_err()), "{mutation} is not noticed");
    }
}
