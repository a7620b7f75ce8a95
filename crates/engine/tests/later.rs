//! Columns that are added later: what rows say of them, and that the strings in which they say it go when no
//! version names them any more. `ONDOL_SEED` makes it another run.
mod common;
use common::{run, table};
use ondol_base::sim::Random;
use ondol_engine::*;
use ondol_types::{SqlResult, Type, TypeId, Value, ValueRef};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

type Model = BTreeMap<i64, Vec<Value>>;

fn open(folder: &Path) -> Arc<Database> {
    let options = Options {
        memory_limit: 1 << 28,
        reserved: 8 << 30,
        checkpoint_interval_s: 3600,
        ..Options::default()
    };
    Database::open(folder, options).unwrap()
}

/// What a column may be: nothing, short, in a string slot of its own, or what it is in rows that do not say.
fn value(r: &mut Random, ty: Type, missing: &Value) -> Value {
    match (r.below(4), ty.id) {
        (0, _) => Value::Null,
        (1, _) => missing.clone(),
        (_, TypeId::INT4) => Value::Int4(r.below(100) as i32),
        (_, TypeId::INT8) => Value::Int8(r.below(100) as i64),
        (2, _) => Value::Text(format!("short {}", r.below(100))),
        (_, _) => Value::Text(format!("{:0100}", r.below(1 << 40))),
    }
}

struct Play {
    c: Connection,
    r: Random,
    /// The rows, and what each column beside the number is in those that do not say.
    rows: Model,
    missing: Vec<Value>,
    next: i64,
}

impl Play {
    fn columns(&self) -> Vec<Type> {
        table(&self.c, "t").def.columns.iter().skip(1).map(|c| c.ty).collect()
    }
    fn values(&mut self) -> Vec<Value> {
        let types = self.columns();
        types.into_iter().zip(self.missing.clone()).map(|(ty, m)| value(&mut self.r, ty, &m)).collect()
    }
    fn insert(&mut self) -> SqlResult<()> {
        let (id, values) = (self.next, self.values());
        self.next += 1;
        run(&mut self.c, "t", |c, t| {
            let mut scratch = vec![vec![]; values.len()];
            let refs = values.iter().zip(&mut scratch).map(|(v, s)| v.as_ref(s));
            let refs: Vec<_> = std::iter::once(ValueRef::Int8(id)).chain(refs).collect();
            c.insert(t, &refs).map(drop)
        })?;
        self.rows.insert(id, values);
        Ok(())
    }
    /// Changes some columns of a row, or deletes it.
    fn change(&mut self) -> SqlResult<()> {
        let ids: Vec<i64> = self.rows.keys().copied().collect();
        let Some(&id) = self.r.pick(&ids) else { return Ok(()) };
        let values = self.values();
        let picked: Vec<usize> = (0..values.len()).filter(|_| self.r.chance(0.5)).collect();
        let delete = picked.is_empty() && self.r.chance(0.5);
        run(&mut self.c, "t", |c, t| {
            let (mut scan, mut row) = (Scan::default(), vec![0; t.layout.row_size]);
            scan.start(c, t);
            while let Some(oid) = scan.next(c, &mut row)? {
                if row::column(&t.layout, &row, 0, &*c, &mut vec![]).to_owned() != Value::Int8(id) {
                    continue;
                }
                assert_eq!(c.lock(t, oid, LockStrength::Update, Wait::Block)?, Locked::Same);
                let mut scratch = vec![vec![]; values.len()];
                let refs: Vec<_> = values.iter().zip(&mut scratch).map(|(v, s)| v.as_ref(s)).collect();
                let changes: Vec<_> = picked.iter().map(|n| (n + 1, refs[*n])).collect();
                return match delete {
                    true => c.delete(t, oid, &row),
                    false => c.update(t, oid, &row, &changes),
                };
            }
            panic!("row {id} is not there")
        })?;
        match self.rows.get_mut(&id).filter(|_| !delete) {
            Some(row) => picked.iter().for_each(|n| row[*n] = values[*n].clone()),
            None => drop(self.rows.remove(&id)),
        }
        Ok(())
    }
    /// Adds a column, or takes the last one out that was added.
    fn alter(&mut self, gone: bool) -> SqlResult<()> {
        let t = table(&self.c, "t");
        let mut def = t.def.clone();
        let mut origins: Vec<Origin> = (0..def.columns.len()).map(Origin::Column).collect();
        if gone && def.columns.len() > 2 {
            def.columns.pop();
            origins.pop();
            self.missing.pop();
            self.rows.values_mut().for_each(|row| drop(row.pop()));
        } else {
            let ty = if self.r.chance(0.5) { Type::INT4 } else { Type::TEXT };
            let missing = value(&mut self.r, ty, &Value::Null);
            def.columns.push(ColumnDef::new(format!("c{}", def.columns.len()), ty));
            origins.push(Origin::Value(missing.clone()));
            self.rows.values_mut().for_each(|row| row.push(missing.clone()));
            self.missing.push(missing)
        }
        self.c.redefine_table("t", &def, &origins)?;
        assert_eq!(table(&self.c, "t").heaps, t.heaps, "the rows were copied");
        Ok(())
    }
    fn step(&mut self) -> SqlResult<()> {
        match self.r.below(20) {
            0 => self.alter(false),
            1 => self.alter(true),
            2..8 => self.insert(),
            _ => self.change(),
        }
    }
    /// A few steps, of which a part or all are taken back.
    fn transaction(&mut self) -> SqlResult<()> {
        let before = (self.rows.clone(), self.missing.clone());
        self.c.begin(Isolation::ReadCommitted, Access::ReadWrite)?;
        for _ in 0..self.r.below(4) {
            self.step()?
        }
        let middle = (self.rows.clone(), self.missing.clone());
        self.c.savepoint("s")?;
        for _ in 0..self.r.below(4) {
            self.step()?
        }
        if self.r.chance(0.5) {
            self.c.rollback_to_savepoint("s")?;
            (self.rows, self.missing) = middle
        }
        match self.r.chance(0.3) {
            true => {
                self.c.rollback();
                (self.rows, self.missing) = before
            }
            false => drop(self.c.commit()?),
        }
        Ok(())
    }
}

/// The rows, and how many strings they name.
fn found(c: &mut Connection) -> (Model, u64) {
    let all = std::cell::RefCell::new((Model::new(), 0));
    run(c, "t", |c, t| {
        *all.borrow_mut() = (Model::new(), 0);
        let (mut scan, mut row) = (Scan::default(), vec![0; t.layout.row_size]);
        scan.start(c, t);
        while scan.next(c, &mut row)?.is_some() {
            let column = |n| row::column(&t.layout, &row, n, &*c, &mut vec![]).to_owned();
            let Value::Int8(id) = column(0) else { panic!("a row without a number") };
            let (rows, strings) = &mut *all.borrow_mut();
            rows.insert(id, (1..t.def.columns.len()).map(column).collect());
            row::strings_of(&t.layout, &row, &*c, |_, _| *strings += 1)
        }
        Ok(())
    })
    .unwrap();
    all.into_inner()
}

/// Nothing is taken but what the rows name, soon: freed slots wait for epochs to pass, and for a session to
/// look.
fn only_named(db: &Arc<Database>, c: &mut Connection, rows: &Model) {
    let (now, strings) = found(c);
    assert_eq!(now, *rows);
    let taken = |c: &Connection| {
        let t = table(c, "t");
        (t.store.rows.taken(), t.store.strings.taken())
    };
    let wanted = (rows.len() as u64, strings);
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
fn strings_of_columns_that_were_added_later_go_with_the_last_version_that_names_them() {
    let seed: u64 = std::env::var("ONDOL_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    for seed in seed..seed + 10 {
        println!("seed {seed}");
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path());
        let mut c = db.connect();
        // 7 bytes are left in its rows, 15, or 3.
        let first = [Type::TEXT, Type::INT8, Type::INT4][seed as usize % 3];
        let id = ColumnDef { not_null: true, ..ColumnDef::new("id", Type::INT8) };
        c.create_table("t", vec![id, ColumnDef::new("first", first)]).unwrap();
        let mut p = Play { c, r: Random::new(seed), rows: Model::new(), missing: vec![Value::Null], next: 0 };
        for _ in 0..10 {
            p.insert().unwrap()
        }
        p.alter(false).unwrap();
        for n in 0..60 {
            let done = if p.r.chance(0.5) { p.transaction() } else { p.step() };
            done.unwrap_or_else(|e| panic!("seed {seed}, step {n}: {e}"));
            assert_eq!(found(&mut p.c).0, p.rows, "seed {seed}, step {n}")
        }
        // What it has taken back waits for it.
        p.c = db.connect();
        only_named(&db, &mut p.c, &p.rows);
        if p.r.chance(0.5) {
            db.checkpoint().unwrap()
        }
        let rows = p.rows;
        drop((p.c, db));
        let db = open(dir.path());
        only_named(&db, &mut db.connect(), &rows)
    }
}
