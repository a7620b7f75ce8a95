//! Definers side by side: schemas, types that users define, and tables, indexes and functions that rest on
//! them, made, changed, renamed, moved and dropped by several sessions, in transactions with savepoints.
//!
//! The model knows nothing of them. Afterwards the dictionary that everyone goes by must be the one that a
//! restart would find (see [`check::is_stored`]), and no wait may have lasted long. Their names are none of
//! the model's.
use super::queues::PATIENCE;
use super::workload::{Shared, kind};
use super::{Workers, check, nap};
use crate::acl::{AclItem, Change, SELECT};
use crate::connection::{Access, Connection, Isolation, STALE, Scan};
use crate::name::{Name, PUBLIC, TEMPORARY, USUAL_PATH};
use crate::role::{BOOTSTRAP, Membership, RoleDef};
use crate::row;
use crate::settings::Scope;
use crate::{Catalog, CheckDef, ColumnDef, FunctionDef, IndexColumn, IndexKind, LockStrength, Locked};
use crate::{Origin, Returns, Table, Wait, claims};
use ondol_base::sim::Random;
use ondol_types::func::Volatility;
use ondol_types::user::{Part, UserDef, domain};
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, sqlstate};
use std::sync::Arc;
use std::time::Duration;

/// The first two values of a row, of which the second is one of some.
const A: i32 = 1;
const B: std::ops::Range<i32> = 2..60;
/// The columns that a table may have beside those.
const MORE: [&str; 2] = ["d", "e"];
/// What they are in the rows that are there when they are added.
const MISSING: &str = "missing";

/// What else they are, in a row of that second value: short, or in a slot of their own.
fn further(b: i32) -> String {
    format!("{b:0width$}", width = if b % 2 == 0 { 8 } else { 40 })
}

/// Whether a row has such values, however often it was copied or columns were added to it.
fn is_right(row: &[Value]) -> bool {
    let [Value::Int4(A), Value::Int4(b), rest @ ..] = row else { return false };
    let fine = |v: &Value| matches!(v, Value::Text(s) if s == MISSING || *s == further(*b));
    B.contains(b) && rest.len() <= MORE.len() && rest.iter().all(fine)
}

type Outcome = Result<(), String>;

struct Definer {
    c: Connection,
    r: Random,
    shared: Arc<Shared>,
    /// Rows of its temporary table; unknown after a commit that failed, of which nobody is told whether it
    /// was one.
    own: Option<usize>,
    /// There are many, who want tables of one name.
    crowded: bool,
}

/// How far a definer's statement came.
enum Did {
    Done,
    Failed,
}

pub(super) fn play(shared: &Arc<Shared>, workers: &Workers, r: &mut Random, crowded: bool) -> Outcome {
    let definer = |r: Random| {
        let mut c = shared.db.connect();
        c.set_lock_timeout(Some(PATIENCE));
        Definer { c, r, shared: shared.clone(), own: Some(0), crowded }
    };
    // Of a life before.
    let mut before = definer(r.branch(0));
    before.look()?;
    before.clear()?;
    let mut fibers = vec![];
    for n in 0..if crowded { 5 } else { 2 + r.below(3) } {
        let mut d = definer(r.branch(1 + n));
        fibers.extend(workers.spawn(n as usize, "definer", move || d.work()).ok());
    }
    let mut done = Ok(());
    for f in fibers {
        let one = f.join().unwrap_or_else(|_| Err("a fiber panicked".into()));
        done = done.and(one)
    }
    done?;
    if shared.over() || shared.db.kernel.log.failure().is_some() {
        return Ok(());
    }
    check::is_stored(&shared.db)?;
    definer(r.branch(8)).look()?;
    shared.count("definers side by side");
    definer(r.branch(9)).clear()
}

impl Definer {
    fn work(&mut self) -> Outcome {
        for _ in 0..if self.crowded { 20 } else { 2 + self.r.below(6) } {
            if self.shared.over() {
                break;
            }
            self.transaction()?;
            self.temporary()?;
            self.shared.promise_durable()
        }
        Ok(())
    }

    fn transaction(&mut self) -> Outcome {
        if self.r.chance(0.3) {
            return self.statement().map(drop);
        }
        let level = if self.r.chance(0.5) { Isolation::ReadCommitted } else { Isolation::RepeatableRead };
        self.c.begin(level, Access::ReadWrite).map_err(|e| e.to_string())?;
        let mut is_set = false;
        for _ in 0..1 + self.r.below(4) {
            if self.r.chance(0.3) {
                self.c.savepoint("s").map_err(|e| e.to_string())?;
                is_set = true
            }
            let failed = matches!(self.statement()?, Did::Failed);
            if failed && !is_set {
                break;
            }
            if is_set && (failed || self.r.chance(0.2)) && self.c.rollback_to_savepoint("s").is_err() {
                break;
            }
            if self.r.chance(0.2) {
                nap(Duration::from_micros(self.r.below(500)))
            }
        }
        if self.c.is_failed() || self.r.chance(0.2) {
            self.c.rollback();
            return Ok(());
        }
        match self.c.commit() {
            Ok(_) => Ok(()),
            Err(e) => self.shared.permit(&e).map_err(|e| format!("COMMIT: {e}")),
        }
    }

    /// Rows of the session's own table (temporary/E1): those that it has put there and committed.
    fn temporary(&mut self) -> Outcome {
        match self.try_temporary() {
            Err(e) => {
                self.c.rollback();
                self.shared.permit(&e).map_err(|e| format!("a temporary table: {e}"))
            }
            Ok(found) if self.own.is_none_or(|n| n == found) => Ok(()),
            Ok(found) => Err(format!("a temporary table of {:?} rows has {found}", self.own)),
        }
    }
    fn try_temporary(&mut self) -> SqlResult<usize> {
        let name = Name::new(TEMPORARY, "x");
        if self.c.catalog().table(&name).is_none() {
            self.c.create_table(&name, vec![column("a", None), column("b", None)])?;
            self.own = Some(0)
        }
        self.c.begin(Isolation::ReadCommitted, Access::ReadWrite)?;
        let emptied = self.r.chance(0.2);
        if emptied {
            self.c.truncate(std::slice::from_ref(&name))?;
        }
        let more = self.r.below(4) as usize;
        for _ in 0..more {
            self.put(&name, 1.0)?
        }
        match self.r.chance(0.3) {
            true => self.c.rollback(),
            false => {
                let before = self.own.take();
                self.c.commit()?;
                self.own = if emptied { Some(more) } else { before.map(|n| n + more) }
            }
        }
        loop {
            let catalog = self.c.catalog();
            let Some(t) = catalog.table(&name).cloned() else { return Ok(usize::MAX) };
            match self.c.start_statement(catalog.version, std::slice::from_ref(&t), false) {
                Err(e) if e.sqlstate() == STALE => continue,
                started => started?,
            }
            let (mut scan, mut bytes, mut rows) = (Scan::default(), vec![0; t.layout.row_size], 0);
            scan.start(&self.c, &t);
            while scan.next(&self.c, &mut bytes)?.is_some() {
                rows += 1
            }
            self.c.end_statement()?;
            return Ok(rows);
        }
    }

    fn statement(&mut self) -> Result<Did, String> {
        let what = match self.crowded {
            true => *self.r.pick(&[4, 5, 8]).unwrap_or(&4),
            false => self.r.below(12),
        };
        let done = self.change(what);
        let Err(e) = done else { return Ok(Did::Done) };
        self.shared.count(kind(&e));
        match e.sqlstate() {
            sqlstate::DUPLICATE_OBJECT
            | sqlstate::DUPLICATE_FUNCTION
            | sqlstate::UNDEFINED_FUNCTION
            | sqlstate::UNDEFINED_OBJECT
            | sqlstate::INVALID_FUNCTION_DEFINITION
            | sqlstate::DEPENDENT_OBJECTS_STILL_EXIST
            // A schema that is there, or is not.
            | "42P06"
            | "3F000" => {}
            // Too many types in one process, of all histories.
            sqlstate::PROGRAM_LIMIT_EXCEEDED => {}
            _ => self.shared.permit(&e).map_err(|e| format!("a definer's statement ({what}): {e}"))?,
        }
        match self.c.in_transaction() {
            true => self.c.fail(),
            false => self.c.rollback(),
        }
        Ok(Did::Failed)
    }

    fn change(&mut self, what: u64) -> SqlResult<()> {
        let k = if self.crowded { 0 } else { self.r.below(2) };
        let (ty, function) = (self.name(&format!("m{k}")), self.name(&format!("f{k}")));
        let of_third = self.r.chance(0.2);
        let table = self.name(&if of_third { "u2".to_string() } else { format!("u{k}") });
        match what {
            0 => self.c.create_type(domain_of(&ty, 0, None)),
            1 => {
                let Some(old) = self.c.catalog().ty(&ty).and_then(|t| t.user()) else { return Ok(()) };
                // Few, since definitions stay in memory.
                let parts = self.r.below(2) as i64;
                let def = UserDef { number: old.number, array: old.array, ..domain_of(&ty, parts, old.base) };
                let wanted = |c: &Catalog| claims::replace_type(c, &ty, &def);
                if self.start(wanted, |c| c.ty(&ty).and_then(|t| t.user()) == Some(old))? {
                    self.c.replace_type(&ty, def.clone())?
                }
                Ok(())
            }
            2 => self.c.drop_type(&ty),
            // A type made of the other one.
            3 => {
                let Some(base) = self.c.catalog().ty(&ty) else { return Ok(()) };
                let def = domain_of(&self.name("m2"), 0, Some(Type::new(base)));
                let wanted = |c: &Catalog| claims::create_type(c, &def);
                if self.start(wanted, |c| c.ty(&ty) == Some(base))? {
                    self.c.create_type(def.clone())?
                }
                Ok(())
            }
            4 => {
                let ty = if self.r.chance(0.5) { self.name("m2") } else { ty };
                let domain = self.c.catalog().ty(&ty);
                let mut columns = vec![column("a", None), column("b", domain)];
                let more = self.r.below(1 + MORE.len() as u64) as usize;
                columns.extend(MORE[..more].iter().map(|n| ColumnDef::new(*n, Type::TEXT)));
                let wanted = |c: &Catalog| claims::create_table(c, &table, &columns);
                if self.start(wanted, |c| c.ty(&ty) == domain)? {
                    let checks = if self.r.chance(0.3) { vec![check("c1")] } else { vec![] };
                    self.c.create_checked_table(&table, columns.clone(), checks)?;
                }
                Ok(())
            }
            5 if self.r.chance(0.5) => self.c.drop_table(&table),
            5 => {
                let name = self.name("m2");
                self.c.drop_type(name)
            }
            6 => {
                let arg = self.c.catalog().ty(&ty);
                let of = self.c.catalog().table(&table).filter(|_| self.r.chance(0.4)).cloned();
                let mut f = function_of(&function, arg);
                if let Some(t) = &of {
                    let columns = t.def.shown().iter().map(|c| (c.name.clone(), c.ty)).collect();
                    f.returns = Returns::Rows { of: Some(table.clone()), columns, set: true }
                }
                let wanted = |c: &Catalog| claims::create_function(c, &f);
                let same = |c: &Catalog| match &of {
                    Some(t) => c.table(&table).is_some_and(|now| now.def == t.def),
                    None => true,
                };
                if self.start(wanted, |c| c.ty(&ty) == arg && same(c))? {
                    self.c.create_function(f.clone(), true)?;
                }
                Ok(())
            }
            7 => {
                let catalog = self.c.catalog();
                let mut named = catalog.functions_named(&function.name);
                let found = named.find(|f| f.schema == function.schema).map(|f| f.id);
                match found {
                    Some(id) if self.r.chance(0.2) => {
                        let to = self.place();
                        self.c.move_function(id, to)
                    }
                    Some(id) => self.c.drop_function(id),
                    None => Ok(()),
                }
            }
            9 => self.alter(&table),
            11 => self.roles(k, &table),
            10 => {
                let (one, other) = (format!("n{k}"), format!("n{}", 1 - k));
                match self.r.below(4) {
                    0 | 1 => self.c.create_schema(&one).map(drop),
                    2 => self.c.rename_schema(&one, &other),
                    _ => self.c.drop_schema(&one),
                }
            }
            _ if self.r.chance(0.4) => {
                let Some(old) = self.c.catalog().table(&table).map(|t| t.def.clone()) else { return Ok(()) };
                let column = self.r.below(old.shown().len() as u64) as usize;
                let column = IndexColumn { column, desc: false, nulls_first: false };
                let name = format!("{}_a", table.name);
                let wanted = |c: &Catalog| claims::create_index(c, &table, &name);
                if self.start(wanted, |c| c.table(&table).is_some_and(|t| t.def == old))? {
                    let columns = vec![column];
                    self.c.create_index(&table, &name, IndexKind::Btree, false, columns, false, false)?
                }
                Ok(())
            }
            _ => self.put(&table, 0.5),
        }
    }

    /// Roles come and go, join each other, make things, and are given some.
    fn roles(&mut self, k: u64, table: &Name) -> SqlResult<()> {
        let (one, other) = (format!("r{k}"), format!("r{}", 1 - k));
        match self.r.below(6) {
            0 | 1 => self.c.create_role(&RoleDef::new(&one)).map(drop),
            2 => {
                let of = self.c.catalog().role_named(&other).map(|r| r.id);
                self.c.alter_role(&one, &|c, def| {
                    def.login = !def.login;
                    let joins = of.filter(|id| c.role(*id).is_some() && !c.is_real_member(*id, def.id));
                    match joins.filter(|_| def.memberships.is_empty()) {
                        Some(role) => {
                            def.memberships.push(Membership { role, grantor: BOOTSTRAP, admin: false })
                        }
                        None => def.memberships.clear(),
                    }
                    Ok(())
                })?;
                let Some(role) = self.c.catalog().role_named(&one).map(|r| r.id) else { return Ok(()) };
                self.c.change_settings(Scope { role, in_database: role % 2 == 0 }, &|_, all| {
                    match all.len() {
                        2 => all.clear(),
                        n => all.push((format!("s{n}"), one.clone())),
                    }
                    Ok(())
                })
            }
            3 => self.c.drop_role(&one, &|c, def| match c.rights.values().any(|r| r.names(def.id)) {
                false => Ok(()),
                true => {
                    let message = "something is the role's, or was given to it";
                    Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message))
                }
            }),
            4 => {
                let Some(id) = self.c.catalog().table(table).map(|t| t.def.id) else { return Ok(()) };
                let wanted = |c: &Catalog| {
                    let mut all = claims::change_table(c, table);
                    all.push(claims::role(&one, false));
                    all
                };
                let takes = self.r.chance(0.3);
                self.c.change_rights(id, wanted, &|c, rights| {
                    if c.table(table).is_none_or(|t| t.def.id != id) {
                        return Ok(());
                    }
                    let Some(role) = c.role_named(&one) else { return Ok(()) };
                    let (grantee, grantor) = (role.id, rights.owner);
                    let item = AclItem { grantee, grantor, privileges: SELECT, options: 0 };
                    let acl = rights.acl.get_or_insert_default();
                    acl.change(Change { item, adds: !takes, cascade: true }, grantor)?;
                    let of_column = rights.columns.entry("a".into()).or_default();
                    of_column.change(Change { item, adds: !takes, cascade: true }, grantor)?;
                    rights.columns.retain(|_, a| !a.items.is_empty());
                    Ok(())
                })
            }
            _ => {
                let role = self.c.catalog().role_named(&one).map(|r| r.id);
                let role = role.filter(|_| self.r.chance(0.6)).unwrap_or(BOOTSTRAP);
                self.c.set_role(role);
                Ok(())
            }
        }
    }

    /// A schema that is there.
    fn place(&mut self) -> u32 {
        let made = self.c.catalog().schema("n0").map(|s| s.number);
        made.filter(|_| self.r.chance(0.5)).unwrap_or(PUBLIC)
    }
    fn name(&mut self, name: &str) -> Name {
        Name::new(self.place(), name)
    }

    /// Another definition in a table's place.
    fn alter(&mut self, table: &Name) -> SqlResult<()> {
        let Some(old) = self.c.catalog().table(table).map(|t| t.def.clone()) else { return Ok(()) };
        let mut def = old.clone();
        let mut origins: Vec<Origin> = (0..def.columns.len()).map(Origin::Column).collect();
        match self.r.below(8) {
            6 if def.shown().len() > 2 => {
                let n = 2 + self.r.below(def.shown().len() as u64 - 2) as usize;
                def.indexes.retain(|i| i.all_columns().all(|c| c != n));
                def.remove_column(n);
                origins.remove(n);
            }
            6 | 7 if def.shown().len() < 2 + MORE.len() => {
                let Some(name) = MORE.iter().find(|n| def.column(n).is_none()) else { return Ok(()) };
                let place = def.shown().len();
                def.insert_column(place, ColumnDef::new(*name, Type::TEXT));
                origins.insert(place, Origin::Value(Value::Text(MISSING.into())))
            }
            5 => match def.checks.pop() {
                None => def.checks = vec![check("c2"), check("c1")],
                Some(mut c) if self.r.chance(0.5) => {
                    c.validated ^= true;
                    def.checks.push(c)
                }
                Some(_) => {}
            },
            0 if self.r.chance(0.3) => def.schema = self.place(),
            0 => def.name = format!("u{}", self.r.below(3)),
            1 => def.columns[0].name = if def.columns[0].name == "a" { "c" } else { "a" }.into(),
            // The rows are copied.
            2 => def.columns[0].not_null ^= true,
            3 => def.columns[1].default = def.columns[1].default.is_none().then(|| "2".into()),
            _ if self.r.chance(0.5) => drop(def.indexes.pop()),
            _ => {
                if let Some(i) = def.indexes.first_mut() {
                    i.name = format!("{}_i", table.name)
                }
            }
        }
        if def == old {
            return Ok(());
        }
        let wanted = |c: &Catalog| claims::redefine_table(c, table, &def);
        if self.start(wanted, |c| c.table(table).is_some_and(|t| t.def == old))? {
            self.c.redefine_table(table, &def, &origins)?
        }
        Ok(())
    }

    /// Claims what is wanted by what was found, and whether that is still so (definers/G1).
    fn start(
        &mut self,
        wanted: impl Fn(&Catalog) -> Vec<crate::Claim>,
        still: impl Fn(&Catalog) -> bool,
    ) -> SqlResult<bool> {
        let is_on = match self.c.start_definitions(self.c.catalog_version(), wanted) {
            Err(e) if e.sqlstate() == STALE => false,
            done => done.map(|()| still(&self.c.catalog()))?,
        };
        if !is_on && !self.c.in_transaction() {
            self.c.rollback()
        }
        Ok(is_on)
    }

    /// A row, put there (as often as that) or changed, so that somebody uses the table.
    fn put(&mut self, table: &Name, new: f64) -> SqlResult<()> {
        loop {
            let catalog = self.c.catalog();
            let Some(t) = catalog.table(table).cloned() else { return Ok(()) };
            match self.c.start_statement(catalog.version, std::slice::from_ref(&t), true) {
                Err(e) if e.sqlstate() == STALE => continue,
                started => started?,
            }
            let done = match self.r.chance(new) {
                true => self.insert(&t),
                false => self.update(&t),
            };
            return match done {
                Ok(()) => self.c.end_statement().map(drop),
                Err(e) => {
                    self.c.abort_statement();
                    Err(e)
                }
            };
        }
    }

    /// What a further column may be in a row of that second value.
    fn some(&mut self, b: i32) -> String {
        if self.r.chance(0.3) { MISSING.into() } else { further(b) }
    }
    fn insert(&mut self, t: &Arc<Table>) -> SqlResult<()> {
        let b = B.start + self.r.below(B.len() as u64) as i32;
        let texts = MORE.map(|_| self.some(b));
        let more = texts.iter().map(|t| ValueRef::Text(t));
        let values = [ValueRef::Int4(A), ValueRef::Int4(b)].into_iter().chain(more);
        let mut values: Vec<_> = values.take(t.def.shown().len()).collect();
        values.resize(t.def.columns.len(), ValueRef::Null);
        self.c.insert(t, &values).map(drop)
    }
    /// Changes some row, or deletes it.
    fn update(&mut self, t: &Arc<Table>) -> SqlResult<()> {
        let (mut scan, mut bytes) = (Scan::default(), vec![0; t.layout.row_size]);
        scan.start(&self.c, t);
        while let Some(oid) = scan.next(&self.c, &mut bytes)? {
            if self.r.chance(0.6) {
                continue;
            }
            match self.c.lock(t, oid, LockStrength::Update, Wait::Block)? {
                Locked::Same => {}
                Locked::Changed if self.c.read_newest(t, oid, &mut bytes) => {}
                _ => continue,
            }
            if self.r.chance(0.2) {
                return self.c.delete(t, oid, &bytes);
            }
            let was = row::column(&t.layout, &bytes, 1, &self.c, &mut vec![]).to_owned();
            // One of them, or all with the value that they depend on.
            let all = self.r.chance(0.3);
            let b = match was {
                Value::Int4(b) if !all => b,
                _ => B.start + self.r.below(B.len() as u64) as i32,
            };
            let texts = MORE.map(|_| self.some(b));
            let more = texts.iter().enumerate().map(|(n, t)| (n + 2, ValueRef::Text(t)));
            let shown = t.def.shown().len();
            let one = 1 + self.r.below(shown as u64 - 1) as usize;
            let changes: Vec<_> = std::iter::once((1, ValueRef::Int4(b)))
                .chain(more)
                .filter(|(n, _)| *n < shown && (all || *n == one))
                .collect();
            return self.c.update(t, oid, &bytes, &changes);
        }
        self.insert(t)
    }

    /// Every row has the values that one may have, however often it was copied to have other columns.
    fn look(&mut self) -> Outcome {
        let (mut scan, mut scratch) = (Scan::default(), vec![]);
        let catalog = self.c.catalog();
        for t in catalog.tables().filter(|t| t.def.name.starts_with('u')) {
            if let Err(e) = self.c.start_statement(catalog.version, std::slice::from_ref(t), false) {
                return self.shared.permit(&e).map_err(|e| e.to_string());
            }
            scan.start(&self.c, t);
            let mut bytes = vec![0; t.layout.row_size];
            while let Some(oid) = scan.next(&self.c, &mut bytes).map_err(|e| e.to_string())? {
                for i in &t.indexes {
                    let (mut key, mut found) = (vec![], vec![]);
                    self.c.row_key(i, &bytes, &mut key);
                    self.c.lookup(i, &key, &mut found).map_err(|e| e.to_string())?;
                    if !found.contains(&oid) {
                        return Err(format!("a row of {} is not in index {}", t.def.name, i.def.name));
                    }
                }
                let values: Vec<Value> = (0..t.def.shown().len())
                    .map(|i| {
                        scratch.clear();
                        row::column(&t.layout, &bytes, i, &self.c, &mut scratch).to_owned()
                    })
                    .collect();
                if !is_right(&values) {
                    return Err(format!("table {} has a row {values:?}", t.def.name));
                }
            }
            self.c.end_statement().map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    /// Drops whatever there is of it all.
    fn clear(&mut self) -> Outcome {
        let cleared = self.try_clear();
        match cleared {
            Ok(()) => Ok(()),
            Err(e) => self.shared.permit(&e).map_err(|e| format!("clearing up: {e}")),
        }
    }
    fn try_clear(&mut self) -> SqlResult<()> {
        let catalog = self.c.catalog();
        let tables: Vec<_> =
            catalog.tables().map(|t| t.def.full_name()).filter(|t| t.name.starts_with('u')).collect();
        let schemas: Vec<&String> = catalog
            .schemas
            .iter()
            .filter(|(_, s)| !s.is_system() && s.number != PUBLIC)
            .map(|s| s.0)
            .collect();
        if tables.is_empty() && catalog.functions.is_empty() && catalog.types.is_empty() && schemas.is_empty()
        {
            return Ok(());
        }
        self.c.begin(Isolation::ReadCommitted, Access::ReadWrite)?;
        let done = (|| {
            tables.into_iter().try_for_each(|t| self.c.drop_table(t))?;
            catalog.functions.keys().try_for_each(|f| self.c.drop_function(*f))?;
            let mut types: Vec<&UserDef> = catalog.types.values().filter_map(|t| t.user()).collect();
            // Those that are made of others first.
            types.sort_by_key(|u| std::cmp::Reverse(u.number));
            types.into_iter().try_for_each(|u| self.c.drop_type(Name::new(u.schema, &*u.name)))?;
            schemas.into_iter().try_for_each(|s| self.c.drop_schema(s))
        })();
        match done {
            Ok(()) => self.c.commit().map(drop),
            Err(e) => {
                self.c.rollback();
                Err(e)
            }
        }
    }
}

/// A domain with so many conditions.
fn domain_of(name: &Name, parts: i64, base: Option<Type>) -> UserDef {
    let part = |key| Part { key, name: format!("c{key}"), text: Some("VALUE > 0".into()), ty: None };
    UserDef {
        number: 0,
        array: 0,
        schema: name.schema,
        name: name.name.clone(),
        kind: domain::CODE,
        base: base.or(Some(Type::INT4)),
        not_null: false,
        default: None,
        parts: (0..parts).map(part).collect(),
        fresh: None,
    }
}

fn column(name: &str, domain: Option<TypeId>) -> ColumnDef {
    ColumnDef { domain, ..ColumnDef::new(name, Type::INT4) }
}

fn check(name: &str) -> CheckDef {
    CheckDef { name: name.into(), text: "a > 0".into(), validated: true, no_inherit: false }
}

fn function_of(name: &Name, arg: Option<TypeId>) -> FunctionDef {
    FunctionDef {
        definer: false,
        id: 0,
        schema: name.schema,
        name: name.name.clone(),
        path: USUAL_PATH.into(),
        defaults: vec![],
        variadic: false,
        args: vec![(None, arg.map_or(Type::INT4, Type::new))],
        returns: Returns::Scalar { ty: Type::INT4, set: false },
        body: "select 1".into(),
        code: vec![],
        volatility: Volatility::Volatile,
    }
}
