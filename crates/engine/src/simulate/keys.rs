//! Tables that refer to each other, beside all else: parents come and go and get other keys, children come
//! and name them. No state that is committed, and none that comes back after a failure, has a child without
//! its parent (connection/foreign/K2, connection/foreign/K3, connection/foreign/K5).
//!
//! The foreign key of one of the tables comes and goes meanwhile: it is added, valid or not, validated, and
//! dropped. Where it is valid, it holds (define/foreign/R4).
use super::Workers;
use super::workload::Shared;
use crate::catalog::{Catalog, ColumnDef, ForeignDef, IndexColumn, IndexKind, KeyAction};
use crate::connection::{Access, Connection, Isolation, LockStrength, Locked, STALE, Scan, Wait};
use crate::rebuild::Origin;
use crate::row;
use crate::table::Table;
use crate::table_lock::TableLock;
use crate::{Database, Oid};
use ondol_base::sim::Random;
use ondol_base::sync::yield_point;
use ondol_base::thread;
use ondol_types::{SqlResult, Type, Value, ValueRef, sqlstate};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

const PARENTS: &str = "kp";
/// The children's tables: plain, with an index, cascading, set to NULL, deferred.
const CHILDREN: [&str; 6] = ["ka", "kb", "kc", "kd", "ke", DEFINED];
/// The one whose foreign key comes and goes.
const DEFINED: &str = "kf";
const ACTIONS: [KeyAction; 4] =
    [KeyAction::NoAction, KeyAction::Restrict, KeyAction::Cascade, KeyAction::SetNull];
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

/// The foreign key of a children's table.
fn key_of_table(catalog: &Catalog, table: &str, action: KeyAction, deferred: bool) -> Option<ForeignDef> {
    let parents = &catalog.table(PARENTS)?.def;
    Some(ForeignDef {
        id: 0,
        name: format!("{table}_key"),
        columns: vec![0],
        table: parents.id,
        index: parents.indexes[0].id,
        parts: vec![0],
        full: false,
        on_delete: action,
        on_update: action,
        set: vec![],
        deferrable: deferred,
        deferred,
        validated: true,
    })
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
        let key = key_of_table(&c.catalog(), name, ACTIONS[n % 4], n == 4);
        c.add_foreign_keys(name, key.as_slice())?
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

/// Changes the rows that have a key, or deletes them; `None`: all rows.
fn change(
    c: &mut Connection,
    name: &str,
    key: impl Into<Option<i64>>,
    to: Option<&[(usize, ValueRef<'_>)]>,
) -> SqlResult<()> {
    let key = key.into();
    statement(c, name, |c, t| {
        let mut bytes = vec![0; t.layout.row_size];
        for (oid, _) in find(c, t, key)? {
            let strength = if to.is_some() { LockStrength::NoKeyUpdate } else { LockStrength::Update };
            let locked = c.lock(t, oid, strength, Wait::Block)?;
            if locked == Locked::Gone
                || !c.read_newest(t, oid, &mut bytes)
                || key.is_some() && key_of(c, t, &bytes) != key
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
    let child = if r.chance(0.2) { DEFINED } else { *r.pick(&CHILDREN).unwrap_or(&DEFINED) };
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
    c.set_lock_timeout(Some(Duration::from_secs(20)));
    for _ in 0..transactions {
        if shared.over() {
            break;
        }
        if r.chance(0.1) {
            match watch(&mut c, r) {
                Ok(Ok(())) => shared.count("tables locked from writers"),
                Ok(Err(e)) => return Err(e),
                Err(e) => {
                    c.rollback();
                    shared.permit(&e).map_err(|why| format!("a table locked from writers: {why}"))?
                }
            }
            continue;
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

/// The rows of a table, as a statement sees them.
fn rows(c: &mut Connection, name: &str) -> SqlResult<Vec<(Oid, Option<i64>)>> {
    loop {
        let catalog = c.catalog();
        let t = crate::database::find(&catalog, &name.into())?;
        match c.start_statement(catalog.version, std::slice::from_ref(t), false) {
            Err(e) if e.sqlstate() == STALE => continue,
            other => other?,
        }
        let found = find(c, t, None);
        return match &found {
            Ok(_) => c.end_statement().and(found),
            Err(_) => {
                c.abort_statement();
                found
            }
        };
    }
}

/// Nobody else changes rows of a table that is locked (table_lock/L2).
fn watch(c: &mut Connection, r: &mut Random) -> SqlResult<Result<(), String>> {
    c.begin(Isolation::ReadCommitted, Access::ReadWrite)?;
    let name = if r.chance(0.3) { PARENTS } else { *r.pick(&CHILDREN).unwrap_or(&DEFINED) };
    if r.chance(0.3) {
        rows(c, name)?;
    }
    let modes = [TableLock::Share, TableLock::ShareRowExclusive, TableLock::Exclusive];
    let mode = *r.pick(&modes).unwrap_or(&TableLock::Share);
    c.lock_table(&name.into(), mode, false)?;
    let before = rows(c, name)?;
    for _ in 0..3 {
        thread::sleep(Duration::from_micros(r.below(300)));
        let now = rows(c, name)?;
        if now != before {
            let message = format!("table {name}, locked in mode {mode:?}, has {now:?}, and had {before:?}");
            return Ok(Err(message));
        }
    }
    c.commit()?;
    Ok(Ok(()))
}

/// The foreign key of one table comes and goes.
fn define(shared: &Arc<Shared>, r: &mut Random, times: u64) -> Result<(), String> {
    let mut c = shared.db.connect();
    c.set_lock_timeout(Some(Duration::from_secs(20)));
    for _ in 0..times {
        if shared.over() {
            break;
        }
        thread::sleep(Duration::from_micros(r.below(2000)));
        let explicit = r.chance(0.4);
        if explicit {
            c.begin(Isolation::ReadCommitted, Access::ReadWrite).map_err(|e| e.to_string())?;
        }
        let savepoint = explicit && r.chance(0.3);
        if savepoint {
            c.savepoint("s").map_err(|e| e.to_string())?
        }
        let mut done = change_key(&mut c, r);
        if savepoint && r.chance(0.5) {
            c.rollback_to_savepoint("s").map_err(|e| e.to_string())?
        }
        if explicit {
            done = match r.chance(0.8) && done.is_ok() {
                true => c.commit().map(drop),
                false => {
                    c.rollback();
                    done
                }
            }
        }
        match done {
            Ok(()) => {
                shared.count("foreign keys added, validated or dropped");
                thread::sleep(Duration::from_micros(r.below(1000)));
                match orphan(&mut c) {
                    Ok(None) => {}
                    Ok(Some(key)) => {
                        return Err(format!(
                            "a row names {key}, which is not there, and its foreign key is valid"
                        ));
                    }
                    Err(e) => shared.permit(&e).map_err(|why| format!("rows that name others: {why}"))?,
                }
            }
            Err(e) if e.sqlstate() == sqlstate::FOREIGN_KEY_VIOLATION => {
                shared.count("foreign keys that rows do not hold");
                if let Err(e) = change(&mut c, DEFINED, None, None) {
                    c.rollback();
                    shared.permit(&e).map_err(|why| format!("rows that hold no foreign key: {why}"))?
                }
            }
            Err(e) => {
                c.rollback();
                shared.permit(&e).map_err(|why| format!("a foreign key's definition: {why}"))?
            }
        }
    }
    Ok(())
}

/// What a row names that is not there, by a foreign key that is valid and stays so meanwhile.
fn orphan(c: &mut Connection) -> SqlResult<Option<i64>> {
    loop {
        let catalog = c.catalog();
        let (Some(parents), Some(child)) = (catalog.table(PARENTS), catalog.table(DEFINED)) else {
            return Ok(None);
        };
        if !child.def.foreign.iter().any(|f| f.validated) {
            return Ok(None);
        }
        match c.start_statement(catalog.version, &[parents.clone(), child.clone()], false) {
            Err(e) if e.sqlstate() == STALE => continue,
            started => started?,
        }
        let found = find(c, parents, None).and_then(|all| Ok((all, find(c, child, None)?)));
        let (all, named) = match found {
            Ok(found) => found,
            Err(e) => {
                c.abort_statement();
                return Err(e);
            }
        };
        c.end_statement()?;
        let keys: BTreeSet<i64> = all.iter().filter_map(|(_, key)| *key).collect();
        return Ok(named.iter().filter_map(|(_, key)| *key).find(|key| !keys.contains(key)));
    }
}

fn change_key(c: &mut Connection, r: &mut Random) -> SqlResult<()> {
    let catalog = c.catalog();
    let Some(t) = catalog.table(DEFINED) else { return Ok(()) };
    match t.def.foreign.first() {
        None => {
            let action = *r.pick(&ACTIONS).unwrap_or(&ACTIONS[0]);
            let (deferred, validated) = (r.chance(0.3), r.chance(0.6));
            let key = key_of_table(&catalog, DEFINED, action, deferred);
            c.add_foreign_keys(DEFINED, key.map(|k| ForeignDef { validated, ..k }).as_slice())
        }
        Some(key) if !key.validated => c.validate(DEFINED, std::slice::from_ref(&key.name), &[]),
        Some(_) => {
            let mut def = t.def.clone();
            def.foreign.clear();
            c.redefine_table(DEFINED, &def, &[Origin::Column(0)])
        }
    }
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
    let (beside, mut own) = (shared.clone(), r.branch(9));
    let definer = workers.spawn(3, "keys' definer", move || define(&beside, &mut own, transactions / 2));
    sessions.chain([definer]).filter_map(Result::ok).collect()
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
        let known = parents.references.iter().filter(|r| r.table == child.def.id).count();
        if known != child.def.foreign.len() || known == 0 && child.def.name != DEFINED {
            return Err(format!("the foreign key of table {} is forgotten", child.def.name));
        }
        if child.foreign_keys().count() != known {
            return Err(format!("a foreign key of table {} is still coming", child.def.name));
        }
        if !child.def.foreign.iter().any(|f| f.validated) {
            continue;
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
