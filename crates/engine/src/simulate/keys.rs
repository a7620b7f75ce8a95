//! Tables that refer to each other, beside all else: parents come and go and get other keys, children come
//! and name them. No state that is committed, and none that comes back after a failure, has a child without
//! its parent (connection/foreign/K2, connection/foreign/K3, connection/foreign/K5).
use super::Workers;
use super::workload::Shared;
use crate::catalog::{ColumnDef, ForeignDef, IndexColumn, IndexKind, KeyAction};
use crate::connection::{Access, Connection, Isolation, LockStrength, Locked, STALE, Scan, Wait};
use crate::rebuild::Origin;
use crate::row;
use crate::table::Table;
use crate::{Database, Oid};
use ondol_base::sim::Random;
use ondol_base::sync::yield_point;
use ondol_base::thread;
use ondol_types::{SqlResult, Type, Value, ValueRef, sqlstate};
use std::collections::BTreeSet;
use std::sync::Arc;

const PARENTS: &str = "kp";
/// The children's tables: plain, with an index, cascading, set to NULL, deferred.
const CHILDREN: [&str; 5] = ["ka", "kb", "kc", "kd", "ke"];
/// Keys that parents have.
const KEYS: u64 = 6;

fn column(name: &str) -> ColumnDef {
    ColumnDef::new(name, Type::INT8)
}

/// Makes the tables, unless a former life has.
pub fn set_up(c: &mut Connection) -> SqlResult<()> {
    if c.catalog().table(PARENTS).is_some() {
        return Ok(());
    }
    c.begin(Isolation::ReadCommitted, Access::ReadWrite)?;
    let made = make(c);
    match made {
        Ok(()) => c.commit().map(drop),
        Err(e) => {
            c.rollback();
            Err(e)
        }
    }
}

fn make(c: &mut Connection) -> SqlResult<()> {
    let first = || vec![IndexColumn { column: 0, desc: false, nulls_first: false }];
    c.create_table(PARENTS, vec![column("id"), column("v")])?;
    c.create_index(PARENTS, "kp_id", IndexKind::Btree, true, first(), false, true)?;
    for (n, name) in CHILDREN.into_iter().enumerate() {
        c.create_table(name, vec![column("p")])?;
        if n % 2 == 1 {
            c.create_index(name, &format!("{name}_p"), IndexKind::Btree, false, first(), false, false)?
        }
        let catalog = c.catalog();
        let (Some(parents), Some(child)) = (catalog.table(PARENTS), catalog.table(name)) else { continue };
        let parents = &parents.def;
        let mut def = child.def.clone();
        let action =
            [KeyAction::NoAction, KeyAction::Restrict, KeyAction::Cascade, KeyAction::SetNull][n % 4];
        def.foreign.push(ForeignDef {
            id: 0,
            name: format!("{name}_key"),
            columns: vec![0],
            table: parents.id,
            index: parents.indexes[0].id,
            parts: vec![0],
            full: false,
            on_delete: action,
            on_update: action,
            set: vec![],
            deferrable: n == 4,
            deferred: n == 4,
            validated: true,
        });
        c.redefine_table(name, &def, &[Origin::Column(0)])?
    }
    Ok(())
}

/// The rows of a table that have this value in the first column, as the statement sees them.
fn find(c: &Connection, t: &Arc<Table>, wanted: Option<i64>) -> SqlResult<Vec<(Oid, Option<i64>)>> {
    let (mut scan, mut bytes, mut found) = (Scan::default(), vec![0; t.layout.row_size], vec![]);
    scan.start(c, t);
    while let Some(oid) = scan.next(c, &mut bytes)? {
        let key = key_of(c, t, &bytes);
        if wanted.is_none() || key == wanted {
            found.push((oid, key))
        }
    }
    Ok(found)
}

fn key_of(c: &Connection, t: &Table, bytes: &[u8]) -> Option<i64> {
    match row::column(&t.layout, bytes, 0, c, &mut vec![]).to_owned() {
        Value::Int8(n) => Some(n),
        _ => None,
    }
}

fn statement<T>(
    c: &mut Connection,
    name: &str,
    f: impl Fn(&mut Connection, &Arc<Table>) -> SqlResult<T>,
) -> SqlResult<T> {
    loop {
        let catalog = c.catalog();
        let t = crate::database::find(&catalog, &name.into())?;
        match c.start_statement(catalog.version, std::slice::from_ref(t), true) {
            Err(e) if e.sqlstate() == STALE => continue,
            other => other?,
        }
        match f(c, t) {
            Ok(done) => return c.end_statement().map(|_| done),
            Err(e) => {
                c.abort_statement();
                return Err(e);
            }
        }
    }
}

/// Changes the rows that have a key, or deletes them.
fn change(c: &mut Connection, name: &str, key: i64, to: Option<&[(usize, ValueRef<'_>)]>) -> SqlResult<()> {
    statement(c, name, |c, t| {
        let mut bytes = vec![0; t.layout.row_size];
        for (oid, _) in find(c, t, Some(key))? {
            let strength = if to.is_some() { LockStrength::NoKeyUpdate } else { LockStrength::Update };
            let locked = c.lock(t, oid, strength, Wait::Block)?;
            if locked == Locked::Gone
                || !c.read_newest(t, oid, &mut bytes)
                || key_of(c, t, &bytes) != Some(key)
            {
                continue;
            }
            match to {
                Some(changes) => c.update(t, oid, &bytes, changes)?,
                None => c.delete(t, oid, &bytes)?,
            }
            yield_point()
        }
        Ok(())
    })
}

fn step(c: &mut Connection, r: &mut Random) -> SqlResult<()> {
    let (key, other) = (r.below(KEYS) as i64, r.below(KEYS) as i64);
    let child = *r.pick(&CHILDREN).unwrap_or(&CHILDREN[0]);
    let int = ValueRef::Int8;
    match r.below(12) {
        0..2 => statement(c, PARENTS, |c, t| c.insert(t, &[int(key), int(0)]).map(drop)),
        2..4 => change(c, PARENTS, key, None),
        4 => change(c, PARENTS, key, Some(&[(0, int(other))])),
        5 => change(c, PARENTS, key, Some(&[(1, int(other))])),
        6..10 => statement(c, child, |c, t| {
            c.insert(t, &[int(key)])?;
            c.insert(t, &[int(other)]).map(drop)
        }),
        10 => change(c, child, key, Some(&[(0, int(other))])),
        _ => change(c, child, key, None),
    }
}

/// One session's transactions.
fn session(shared: &Arc<Shared>, r: &mut Random, transactions: u64) -> Result<(), String> {
    let mut c = shared.db.connect();
    c.set_lock_timeout(Some(std::time::Duration::from_secs(20)));
    for _ in 0..transactions {
        if shared.over() {
            break;
        }
        let levels = [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable];
        let level = if r.chance(0.7) { levels[0] } else { levels[r.below(3) as usize] };
        let explicit = r.chance(0.8);
        if explicit {
            c.begin(level, Access::ReadWrite).map_err(|e| e.to_string())?;
        }
        let mut done = Ok(());
        for _ in 0..if explicit { 1 + r.below(3) } else { 1 } {
            done = done.and_then(|()| step(&mut c, r));
            yield_point()
        }
        if explicit {
            done = match r.chance(0.9) && done.is_ok() {
                true => c.commit().map(drop),
                false => {
                    c.rollback();
                    done
                }
            }
        }
        match done {
            Ok(()) => shared.count("transactions with foreign keys"),
            Err(e) if e.sqlstate() == sqlstate::FOREIGN_KEY_VIOLATION => {
                shared.count("violations of foreign keys")
            }
            Err(e) if e.sqlstate() == sqlstate::UNIQUE_VIOLATION => {}
            Err(e) => {
                c.rollback();
                shared.permit(&e).map_err(|why| format!("foreign keys: {why}"))?
            }
        }
    }
    Ok(())
}

/// Starts sessions beside all others.
pub fn start(
    shared: &Arc<Shared>,
    workers: &Workers,
    r: &mut Random,
    transactions: u64,
) -> Vec<thread::JoinHandle<Result<(), String>>> {
    let sessions = (0..3).map(|n| {
        let (shared, mut r) = (shared.clone(), r.branch(n));
        workers.spawn(n as usize, "keys", move || session(&shared, &mut r, transactions))
    });
    sessions.filter_map(Result::ok).collect()
}

/// What no state may be: a child that names no parent.
pub fn check(db: &Arc<Database>) -> Result<(), String> {
    let catalog = db.catalog();
    let Some(parents) = catalog.table(PARENTS) else { return Ok(()) };
    let mut c = db.connect();
    let failed = |e: ondol_types::SqlError| e.to_string();
    c.begin(Isolation::RepeatableRead, Access::ReadWrite).map_err(failed)?;
    let mut tables = vec![parents.clone()];
    tables.extend(CHILDREN.iter().filter_map(|n| catalog.table(*n).cloned()));
    c.start_statement(catalog.version, &tables, false).map_err(failed)?;
    let all = find(&c, parents, None).map_err(failed)?;
    let keys: BTreeSet<i64> = all.iter().filter_map(|(_, key)| *key).collect();
    for child in &tables[1..] {
        if child.def.foreign.len() != 1 || !parents.references.iter().any(|r| r.table == child.def.id) {
            return Err(format!("the foreign key of table {} is forgotten", child.def.name));
        }
        for (_, key) in find(&c, child, None).map_err(failed)? {
            if let Some(key) = key.filter(|k| !keys.contains(k)) {
                return Err(format!("a row of table {} names {key}, which is not there", child.def.name));
            }
        }
    }
    c.rollback();
    Ok(())
}
