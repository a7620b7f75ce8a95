//! Foreign keys: what a statement has changed that they are about, and what comes of it.
//!
//! ```text
//! rows are changed -> noted -> the statement is about to end: each is looked at, in order -> it ends
//!                       |        `- rows that name what has gone are changed: noted in turn
//!                       `- of a deferred constraint: looked at before the commit takes its timestamp
//! ```
//! - **K1** *What is noted.* A row whose foreign key is new, by its OID; a row's former key where a foreign
//!   key names it and the row has it no more, by its values. So a row that has gone again, or has another key
//!   by then, needs no look of its own, and rows of one statement may name each other.
//! - **K2** *The row that is named* is looked for, and locked FOR KEY SHARE (kernel/transaction/parent), by
//!   the unique index that the constraint has remembered.
//! - **K3** *The rows that name it* are looked for in their newest versions, whatever the snapshot, by an
//!   index whose first columns are those of the foreign key, or among all rows. Whoever has gone from a key
//!   has its row FOR UPDATE, so that nobody else comes to name the key meanwhile; one who is deleting a row
//!   that names it is waited for. NO ACTION lets another row have the key by then, RESTRICT does not.
//! - **K4** *What is done with them* (CASCADE, SET NULL, SET DEFAULT) is done to their newest versions, each
//!   locked first, as a command of its own. Above READ COMMITTED a row that the snapshot does not show as it
//!   is is a conflict (40001). What that changes is noted behind what was noted before.
//! - **K5** *Deferred.* Only the looks of K2, and of K3 without an action, can be deferred. They are made
//!   within the transaction, before its commit takes a timestamp, and what they lock stays until the commit
//!   is installed. Going back to a savepoint forgets what was noted since. With savepoints about, what was
//!   looked at is looked at again at the end: going back may have brought back what it was about.
//! - **K6** *Tables.* Those that are looked into are announced as the statement's own are (connection/N1).
//!   Whoever takes a foreign key away or gives it another meaning marks both tables, so the constraints of a
//!   table that is announced stay what they are, and so do those that name it. One that is being added may
//!   yet come to nothing: before anything comes of it, it is waited for (define/foreign/R5).
use super::{Connection, Uses};
use crate::catalog::{ForeignDef, KeyAction, Reference};
use crate::charge::Charge;
use crate::error;
use crate::name::Name;
use crate::row;
use crate::table::{IndexScan, Table, TableIndex};
use ondol_base::barrier;
use ondol_base::oid::Oid;
use ondol_base::sim::mutated;
use ondol_kernel::heap::Slots;
use ondol_kernel::transaction::Newest;
use ondol_kernel::wait::SessionId;
use ondol_kernel::{LockMode, Locked, Strings, Wait};
use ondol_types::cast::{CastContext, cast, cast_context};
use ondol_types::func::Context;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, sqlstate};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Which versions of rows are looked at where a constraint is added.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// The newest ones, of tables that nobody else uses.
    Newest,
    /// Those of the statement's snapshot (define/foreign/R4).
    Snapshot,
}

/// Something to be looked at (K1).
#[derive(Clone)]
enum Event {
    /// A row that has this foreign key of its table's.
    Child {
        table: Arc<Table>,
        key: usize,
        oid: Oid,
    },
    Parent(Arc<Gone>),
}

/// A key that a row had which a foreign key named.
#[derive(Clone)]
struct Gone {
    table: Arc<Table>,
    reference: Reference,
    key: Vec<u8>,
    /// By the index's columns.
    values: Vec<Value>,
    /// What the row has now; none: it was deleted.
    now: Option<Vec<Value>>,
    action: KeyAction,
}

/// What a row's foreign key is.
enum Names {
    /// A part of it is NULL: it names nothing.
    Nothing,
    /// Some parts are NULL, and MATCH FULL forbids that.
    Mixed,
    /// No row can have it.
    Nobody,
    Key(Vec<u8>),
}

/// What SET CONSTRAINTS has said in the transaction.
#[derive(Clone, Default)]
pub(super) struct Modes {
    /// Of all; then of some, by table and name.
    all: Option<bool>,
    named: BTreeMap<(u32, String), bool>,
}

/// What is noted.
pub(super) struct Keys {
    /// Something is, or was in this transaction.
    used: bool,
    /// To be looked at when the statement ends.
    due: VecDeque<Event>,
    deferred: Vec<Event>,
    pub(super) modes: Modes,
    charge: Charge,
    /// Rows that an action is to be done to yet, and it.
    acting: Option<(Arc<Gone>, Arc<Table>, VecDeque<Oid>)>,
    /// Keys that were found, and are locked: (index, key).
    found: HashSet<(u32, Vec<u8>)>,
    /// The names that tables had when they were last looked at.
    names: BTreeMap<u32, Name>,
}

impl Keys {
    pub(super) fn new(charge: Charge) -> Keys {
        let (used, due, deferred, found) = (false, VecDeque::new(), vec![], HashSet::new());
        Keys {
            used,
            due,
            deferred,
            modes: Modes::default(),
            charge,
            acting: None,
            found,
            names: BTreeMap::new(),
        }
    }
    /// How far the transaction is, for savepoints.
    pub(super) fn mark(&self) -> (usize, Modes) {
        (self.deferred.len(), self.modes.clone())
    }
    /// Goes back to that (K5).
    pub(super) fn restore(&mut self, (deferred, modes): (usize, Modes)) {
        self.deferred.truncate(deferred);
        self.modes = modes;
        self.drop_statement()
    }
    /// The statement is over, or has failed.
    #[inline]
    pub(super) fn drop_statement(&mut self) {
        if self.used {
            self.forget_statement()
        }
    }
    #[cold]
    fn forget_statement(&mut self) {
        self.due.clear();
        self.acting = None;
        self.found.clear();
        if self.deferred.is_empty() && self.charge.bytes() > 0 {
            self.due.shrink_to(64);
            self.charge.clear()
        }
    }
    /// The transaction is over.
    #[inline]
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.used) {
            self.forget_transaction()
        }
    }
    #[cold]
    fn forget_transaction(&mut self) {
        self.deferred = vec![];
        self.modes = Modes::default();
        if self.names.len() > 64 {
            self.names.clear()
        }
        self.forget_statement()
    }
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty() || self.acting.is_some()
    }
    fn push(&mut self, event: Event, deferred: bool) -> SqlResult<()> {
        const FEW: usize = 64;
        self.used = true;
        let (len, capacity) = match deferred {
            true => (self.deferred.len(), self.deferred.capacity()),
            false => (self.due.len(), self.due.capacity()),
        };
        if len == capacity && len >= FEW {
            self.charge.grow(len * size_of::<Event>())?
        }
        match deferred {
            true => self.deferred.push(event),
            false => self.due.push_back(event),
        }
        Ok(())
    }
}

/// A row that an action changes, where more than bytes are needed for that: conversions, defaults, checks.
pub struct Ask {
    pub table: Arc<Table>,
    pub oid: Oid,
    pub set: Vec<(usize, NewValue)>,
}

/// What a column is set to.
pub enum NewValue {
    Null,
    Default,
    /// Of this type, to be converted as by an assignment.
    Value(Value, Type),
}

/// The value of a row's column, as of the row's newest version.
fn value_of(connection: &Connection, table: &Table, row: &[u8], column: usize) -> Value {
    let mut scratch = vec![];
    row::column(&table.layout, row, column, &Newest(&connection.session), &mut scratch).to_owned()
}

/// Whether values of `from`, those of a foreign key, can be compared with keys of `to`, each of which is one
/// of them at most.
pub fn can_name(from: TypeId, to: TypeId) -> bool {
    let integers = [TypeId::INT2, TypeId::INT4, TypeId::INT8];
    let texts = [TypeId::TEXT, TypeId::VARCHAR];
    from == to
        || integers.contains(&from) && integers.contains(&to)
        || texts.contains(&from) && texts.contains(&to)
        || cast_context(from, to) == Some(CastContext::Implicit)
}

/// Whether the forms of values of both types are the same.
fn alike(from: TypeId, to: TypeId) -> bool {
    let texts = [TypeId::TEXT, TypeId::VARCHAR];
    from == to || texts.contains(&from) && texts.contains(&to)
}

/// The value as one of the other type, if it is one.
fn converted(v: Value, from: Type, to: Type) -> Option<Value> {
    match alike(from.id, to.id) || v.is_null() {
        true => Some(v),
        false => cast(v, from.id, Type::new(to.id), false, &Context::EMPTY).ok(),
    }
}

/// `(a, b)=(1, x)`
fn shown(columns: &[(String, Type)], values: &[Value]) -> String {
    let names: Vec<&str> = columns.iter().map(|c| c.0.as_str()).collect();
    let texts: Vec<String> = columns
        .iter()
        .zip(values)
        .map(|((_, ty), v)| {
            let (mut text, mut scratch) = (String::new(), vec![]);
            match v.is_null() {
                true => text.push_str("null"),
                false => ondol_types::text::output(v.as_ref(&mut scratch), *ty, &mut text),
            }
            text
        })
        .collect();
    format!("({})=({})", names.join(", "), texts.join(", "))
}

impl Gone {
    /// Of the constraint's columns, in their order: the index's.
    fn columns(&self, index: &TableIndex) -> Vec<usize> {
        let of = |part: &usize| index.def.columns.get(*part).map_or(0, |c| c.column);
        self.reference.key.parts.iter().map(of).collect()
    }
    fn violated(&self, child: &Table, index: &TableIndex) -> SqlError {
        let (key, table) = (&self.reference.key, &self.table.def);
        let message = format!(
            "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
            table.name, key.name, child.def.name
        );
        let columns: Vec<(String, Type)> = (self.columns(index).iter())
            .map(|c| (table.columns[*c].name.clone(), table.columns[*c].ty))
            .collect();
        let values: Vec<Value> = key.parts.iter().map(|p| self.values[*p].clone()).collect();
        SqlError::new(sqlstate::FOREIGN_KEY_VIOLATION, message)
            .detail(format!(
                "Key {} is still referenced from table \"{}\".",
                shown(&columns, &values),
                child.def.name
            ))
            .table(child.def.schema, &child.def.name)
            .constraint(&key.name)
    }
}

fn lost(what: &str) -> SqlError {
    SqlError::new(sqlstate::INTERNAL_ERROR, format!("a foreign key's {what} is not there"))
}

/// The unique index by which a foreign key finds the rows that it names.
pub(crate) fn index_of<'t>(parent: &'t Table, key: &ForeignDef) -> SqlResult<&'t Arc<TableIndex>> {
    parent.indexes.iter().find(|i| i.def.id == key.index).ok_or_else(|| lost("index"))
}

/// The error of a row whose foreign key names none.
fn missing(child: &Table, key: &ForeignDef, parent: &Table, values: &[Value], mixed: bool) -> SqlError {
    let message = format!(
        "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
        child.def.name, key.name
    );
    let error = SqlError::new(sqlstate::FOREIGN_KEY_VIOLATION, message)
        .table(child.def.schema, &child.def.name)
        .constraint(&key.name);
    if mixed {
        return error.detail("MATCH FULL does not allow mixing of null and nonnull key values.");
    }
    let columns: Vec<(String, Type)> = (key.columns.iter())
        .map(|c| (child.def.columns[*c].name.clone(), child.def.columns[*c].ty))
        .collect();
    let shown = shown(&columns, values);
    error.detail(format!("Key {shown} is not present in table \"{}\".", parent.def.name))
}

impl Connection {
    // ---- what is noted (K1)

    fn is_deferred(&self, table: u32, key: &ForeignDef) -> bool {
        let modes = &self.keys.modes;
        let said = modes.named.get(&(table, key.name.clone())).copied().or(modes.all);
        key.deferrable && self.in_transaction() && said.unwrap_or(key.deferred)
    }

    /// A row of a table that has foreign keys is new.
    pub(super) fn note_new(&mut self, table: &Arc<Table>, oid: Oid) -> SqlResult<()> {
        for key in 0..table.def.foreign.len() {
            let deferred = self.is_deferred(table.def.id, &table.def.foreign[key]);
            self.keys.push(Event::Child { table: table.clone(), key, oid }, deferred)?
        }
        Ok(())
    }

    /// A row has other values in these columns, or may have.
    pub(super) fn note_changed(
        &mut self,
        table: &Arc<Table>,
        oid: Oid,
        columns: impl Fn(usize) -> bool,
        (old, new): (&[u8], &[u8]),
    ) -> SqlResult<()> {
        for (n, key) in table.def.foreign.iter().enumerate() {
            let is_other =
                |c: &usize| columns(*c) && value_of(self, table, old, *c) != value_of(self, table, new, *c);
            if key.columns.iter().any(is_other) {
                let deferred = self.is_deferred(table.def.id, key);
                self.keys.push(Event::Child { table: table.clone(), key: n, oid }, deferred)?
            }
        }
        self.note_gone(table, old, Some(new))
    }

    /// A row is about to go, or, once it is changed, to have another key.
    pub(super) fn note_gone(&mut self, table: &Arc<Table>, old: &[u8], new: Option<&[u8]>) -> SqlResult<()> {
        for reference in table.references.iter() {
            let index = index_of(table, &reference.key)?;
            let (mut key, mut now) = (vec![], vec![]);
            let strings = Newest(&self.session);
            if index.store.key.key(old, &strings, &mut key) {
                continue;
            }
            if let Some(new) = new {
                index.store.key.key(new, &strings, &mut now);
                if key == now {
                    continue;
                }
            }
            let values = |row: &[u8]| -> Vec<Value> {
                index.def.columns.iter().map(|c| value_of(self, table, row, c.column)).collect()
            };
            let (values, now) = (values(old), new.map(values));
            let rule = &reference.key;
            let action = if new.is_some() { rule.on_update } else { rule.on_delete };
            let deferred = action == KeyAction::NoAction && self.is_deferred(reference.table, rule);
            let (table, reference) = (table.clone(), reference.clone());
            let gone = Gone { table, reference, key, values, now, action };
            self.keys.push(Event::Parent(Arc::new(gone)), deferred)?
        }
        Ok(())
    }

    // ---- what comes of it

    /// Whether foreign keys are to be looked at before the statement ends.
    #[inline]
    pub fn has_due_keys(&self) -> bool {
        self.keys.is_due()
    }

    /// Looks at what is due; `Some`: a row is to be changed by [`Connection::act`], and then this is to be
    /// called again. It is an error if the statement cannot stand.
    pub fn settle_keys(&mut self) -> SqlResult<Option<Ask>> {
        if !self.keys.is_due() {
            return Ok(None);
        }
        self.session.next_command();
        self.settle_due()
    }

    /// The same where nobody is there to answer.
    pub(super) fn settle_plainly(&mut self) -> SqlResult<()> {
        while let Some(ask) = self.settle_keys()? {
            let plain = |(_, v): &(usize, NewValue)| matches!(v, NewValue::Null);
            if !ask.set.iter().all(plain) || !ask.table.def.checks.is_empty() {
                return Err(SqlError::unsupported("this action of a foreign key outside of SQL"));
            }
            self.act(&ask, &vec![Value::Null; ask.set.len()])?
        }
        Ok(())
    }

    fn settle_due(&mut self) -> SqlResult<Option<Ask>> {
        loop {
            self.session.patience.look().map_err(error::kernel)?;
            if let Some((gone, child, rows)) = &mut self.keys.acting {
                let Some(oid) = rows.pop_front() else {
                    self.keys.acting = None;
                    continue;
                };
                let (gone, child) = (gone.clone(), child.clone());
                if let Some(ask) = self.act_on(&gone, &child, oid)? {
                    return Ok(Some(ask));
                }
                continue;
            }
            match self.keys.due.pop_front() {
                None => {
                    self.keys.drop_statement();
                    return Ok(None);
                }
                Some(Event::Child { table, key, oid }) => self.settle_child(&table, key, oid)?,
                Some(Event::Parent(gone)) => {
                    self.keys.found.clear();
                    self.settle_parent(gone)?
                }
            }
        }
    }

    /// Announces a table that the running statement looks into (K6).
    fn join_table(&mut self, id: u32, uses: Uses) -> SqlResult<Arc<Table>> {
        self.join_if_there(id, uses)?.ok_or_else(|| lost("table"))
    }
    fn join_if_there(&mut self, id: u32, uses: Uses) -> SqlResult<Option<Arc<Table>>> {
        loop {
            let name = self.keys.names.get(&id).cloned().unwrap_or_else(|| Name::from(""));
            let find = |c: &Connection| c.catalog().table_of(id, &name).cloned();
            let Some(table) = find(self) else { return Ok(None) };
            if table.def.full_name() != name {
                self.keys.names.insert(id, table.def.full_name());
            }
            let announced = self.enter_tables(std::slice::from_ref(&table), uses);
            barrier::light();
            let l = table.locked.load(Ordering::SeqCst);
            if l != 0 && l != self.session.id() && self.is_barred(&table, l, uses.of(0), announced) {
                self.withdraw_tables(announced);
                self.wait_unlocked(&table, uses.of(0))?;
                continue;
            }
            if find(self).is_some_and(|t| Arc::ptr_eq(&t, &table)) {
                // beside/B4
                if !self.session.is_read_committed() && table.store.rows.since() > self.session.view.snapshot
                {
                    return Err(error::kernel(ondol_kernel::Error::Conflict));
                }
                return Ok(Some(table));
            }
        }
    }

    /// Whether a foreign key that was being added is there now; waits for whoever adds it
    /// (define/foreign/R5).
    fn has_come(&mut self, table: u32, key: u32) -> SqlResult<bool> {
        if mutated("coming_key_ignored") {
            return Ok(false);
        }
        loop {
            let catalog = self.catalog();
            let child = catalog.table_by_id(table).filter(|t| t.def.foreign.iter().any(|f| f.id == key));
            let Some(child) = child else { return Ok(false) };
            let Some(by) = child.comes_by(key) else { return Ok(true) };
            let db = self.db.clone();
            let comes = move || db.catalog().table_by_id(table).and_then(|t| t.comes_by(key)) == Some(by);
            let still = comes.clone();
            let blockers = move |f: &mut dyn FnMut(SessionId)| {
                if comes() {
                    f(by)
                }
            };
            let name = child.def.name.clone();
            self.wait_for_definition(Box::new(blockers), None, || !still()).map_err(|e| {
                e.detail(format!(
                    "The statement waited for another transaction that adds a foreign key to table \"{name}\"."
                ))
            })?
        }
    }

    /// What a row's foreign key names; the values are those of its columns.
    fn names(
        &self,
        child: &Table,
        key: &ForeignDef,
        parent: &Table,
        index: &TableIndex,
        values: &[Value],
    ) -> Names {
        let nulls = values.iter().filter(|v| v.is_null()).count();
        if nulls == values.len() || nulls > 0 && !key.full {
            return Names::Nothing;
        }
        if nulls > 0 {
            return Names::Mixed;
        }
        let mut parts = vec![Value::Null; index.def.columns.len()];
        for ((value, column), part) in values.iter().zip(&key.columns).zip(&key.parts) {
            let from = child.def.columns[*column].ty;
            let to = parent.def.columns[index.def.columns[*part].column].ty;
            match converted(value.clone(), from, to) {
                Some(v) => parts[*part] = v,
                None => return Names::Nobody,
            }
        }
        let mut scratch: Vec<Vec<u8>> = parts.iter().map(|_| vec![]).collect();
        let refs: Vec<ValueRef<'_>> = parts.iter().zip(&mut scratch).map(|(v, s)| v.as_ref(s)).collect();
        let mut out = vec![];
        index.key.encode(&refs, &mut out);
        Names::Key(out)
    }

    fn values_of(&self, table: &Table, row: &[u8], columns: &[usize]) -> Vec<Value> {
        columns.iter().map(|c| value_of(self, table, row, *c)).collect()
    }

    fn settle_child(&mut self, child: &Arc<Table>, n: usize, oid: Oid) -> SqlResult<()> {
        let key = child.def.foreign[n].id;
        match self.keep_parent(child, n, oid) {
            Err(e) if child.comes_by(key).is_some() && e.sqlstate() == sqlstate::FOREIGN_KEY_VIOLATION => {
                match self.has_come(child.def.id, key)? {
                    true => self.keep_parent(child, n, oid),
                    false => Ok(()),
                }
            }
            done => done,
        }
    }

    /// K2
    fn keep_parent(&mut self, child: &Arc<Table>, n: usize, oid: Oid) -> SqlResult<()> {
        let mut row = vec![0; child.layout.row_size];
        if !self.session.read_newest(oid, &mut row) {
            return Ok(());
        }
        let key = &child.def.foreign[n];
        let values = self.values_of(child, &row, &key.columns);
        if values.iter().all(Value::is_null) {
            return Ok(());
        }
        let parent = match child.comes_by(key.id) {
            None => self.join_table(key.table, Uses::LOCKS)?,
            // It may have come to nothing, and its parents have gone since.
            Some(_) => match self.join_if_there(key.table, Uses::LOCKS)? {
                Some(parent) => parent,
                None => return Ok(()),
            },
        };
        let index = index_of(&parent, key)?;
        let refuse = |mixed| Err(missing(child, key, &parent, &values, mixed));
        match self.names(child, key, &parent, index, &values) {
            Names::Nothing => Ok(()),
            Names::Mixed => refuse(true),
            Names::Nobody => refuse(false),
            Names::Key(bytes) => {
                let known = (index.def.id, bytes);
                if self.keys.found.contains(&known) {
                    return Ok(());
                }
                let found =
                    self.session.share_key(&parent.store, &index.store, &known.1).map_err(error::kernel)?;
                if found.is_none() {
                    return refuse(false);
                }
                // So that many rows that name one look for it once.
                const MANY: usize = 1 << 12;
                if self.keys.found.len() >= MANY {
                    self.keys.found.clear()
                }
                self.keys.found.insert(known);
                Ok(())
            }
        }
    }

    /// K3
    fn settle_parent(&mut self, gone: Arc<Gone>) -> SqlResult<()> {
        let uses = match gone.action {
            KeyAction::NoAction | KeyAction::Restrict => Uses::LOCKS,
            _ => Uses::CHANGES,
        };
        // One that was being added when this was noted, and has come to nothing, is not found any more.
        let Some(child) = self.join_if_there(gone.reference.table, uses)? else { return Ok(()) };
        let index = index_of(&gone.table, &gone.reference.key)?.clone();
        let named = |f: &&ForeignDef| f.id == gone.reference.key.id;
        let Some(key) = child.def.foreign.iter().find(named) else { return Ok(()) };
        if child.comes_by(key.id).is_some() {
            let is_kept = gone.action == KeyAction::NoAction
                && self.has_key_by(Look::Newest, &gone.table, &index, &gone.key);
            let stands = is_kept || self.rows_naming(&child, key, &gone, &index, true)?.is_empty();
            return match !stands && self.has_come(child.def.id, key.id)? {
                true => self.settle_parent(gone),
                false => Ok(()),
            };
        }
        match gone.action {
            KeyAction::NoAction if self.has_key_by(Look::Newest, &gone.table, &index, &gone.key) => Ok(()),
            KeyAction::NoAction | KeyAction::Restrict => {
                match self.rows_naming(&child, key, &gone, &index, true)?.is_empty() {
                    true => Ok(()),
                    false => Err(gone.violated(&child, &index)),
                }
            }
            _ => {
                let rows = self.rows_naming(&child, key, &gone, &index, false)?;
                if gone.action == KeyAction::SetDefault {
                    // The default may be the very key.
                    let again = Gone { action: KeyAction::NoAction, ..(*gone).clone() };
                    self.keys.push(Event::Parent(Arc::new(again)), false)?
                }
                if !rows.is_empty() {
                    self.keys.acting = Some((gone, child, rows.into()))
                }
                Ok(())
            }
        }
    }

    /// Whether a row's newest version names the key.
    fn is_naming(
        &self,
        child: &Table,
        key: &ForeignDef,
        gone: &Gone,
        index: &TableIndex,
        oid: Oid,
        row: &mut [u8],
    ) -> bool {
        let there = match mutated("keys_of_snapshot") {
            true => self.session.read(oid, row),
            false => self.session.read_newest(oid, row),
        };
        if !there {
            return false;
        }
        let values = self.values_of(child, row, &key.columns);
        matches!(self.names(child, key, &gone.table, index, &values), Names::Key(k) if k == gone.key)
    }

    /// The rows whose newest versions name a key that has gone, or the first of them.
    fn rows_naming(
        &mut self,
        child: &Arc<Table>,
        key: &ForeignDef,
        gone: &Gone,
        index: &TableIndex,
        first: bool,
    ) -> SqlResult<Vec<Oid>> {
        let mut found = vec![];
        let mut row = vec![0; child.layout.row_size];
        let mut look = |me: &mut Connection, oid: Oid| -> SqlResult<bool> {
            if me.is_naming(child, key, gone, index, oid, &mut row) {
                if first {
                    me.session.wait_for_keys(oid).map_err(error::kernel)?;
                    if !me.is_naming(child, key, gone, index, oid, &mut row) {
                        return Ok(false);
                    }
                }
                found.push(oid)
            }
            Ok(first && !found.is_empty())
        };
        if let Some((by, prefix)) = self.way_to(child, key, gone, index) {
            let mut oids = vec![];
            if prefix.len() == by.def.columns.len() {
                let mut bytes = vec![];
                encode(&by, &prefix, &mut bytes);
                by.index.lookup(&self.session.pin(), &bytes, &mut oids, None)
            } else {
                let (mut low, mut scan) = (vec![], IndexScan::default());
                encode(&by, &prefix, &mut low);
                scan.seek(self, &by, Bound::Included(&low), Bound::Unbounded, false)?;
                while let Some(oid) = scan.next(self)? {
                    if !scan.key.starts_with(&low) {
                        break;
                    }
                    oids.push(oid)
                }
            }
            oids.sort_unstable_by_key(|o| o.bits());
            oids.dedup();
            for oid in oids {
                if look(self, oid)? {
                    break;
                }
            }
        } else {
            let mut slots = Slots::default();
            slots.start(&child.store.rows);
            let space = self.session.kernel().clone();
            let mut n = 0u32;
            while let Some(oid) = slots.next(&space.space) {
                n += 1;
                if n.is_multiple_of(1024) {
                    self.session.patience.look_around().map_err(error::kernel)?
                }
                if look(self, oid)? {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// An index of the referencing table whose first columns are those of the foreign key, and the values of
    /// these that name the key, in the index's order.
    fn way_to(
        &self,
        child: &Table,
        key: &ForeignDef,
        gone: &Gone,
        index: &TableIndex,
    ) -> Option<(Arc<TableIndex>, Vec<Value>)> {
        let mut values = BTreeMap::new();
        for (column, part) in key.columns.iter().zip(&key.parts) {
            let from = gone.table.def.columns[index.def.columns[*part].column].ty;
            if !alike(from.id, child.def.columns[*column].ty.id) {
                return None;
            }
            values.insert(*column, gone.values[*part].clone());
        }
        let mut ways = child.indexes.iter().filter(|i| {
            let first = i.def.columns.get(..values.len());
            let all = first.is_some_and(|f| f.iter().all(|c| values.contains_key(&c.column)));
            let is_whole = i.def.columns.len() == values.len() && i.index.as_hash().is_some();
            all && (i.index.as_btree().is_some() || is_whole)
        });
        let way = ways.next()?;
        let prefix = way.def.columns[..values.len()].iter().filter_map(|c| values.get(&c.column).cloned());
        Some((way.clone(), prefix.collect()))
    }

    /// K4
    fn act_on(&mut self, gone: &Gone, child: &Arc<Table>, oid: Oid) -> SqlResult<Option<Ask>> {
        let named = |f: &&ForeignDef| f.name == gone.reference.key.name;
        let key = child.def.foreign.iter().find(named).ok_or_else(|| lost("constraint"))?;
        let index = index_of(&gone.table, &gone.reference.key)?;
        let deletes = gone.action == KeyAction::Cascade && gone.now.is_none();
        let mode = if deletes { LockMode::Update } else { LockMode::NoKeyUpdate };
        let locked = self.session.lock(&child.store, oid, mode, Wait::Block).map_err(error::kernel)?;
        let mut row = vec![0; child.layout.row_size];
        if locked == Locked::Gone || !self.is_naming(child, key, gone, index, oid, &mut row) {
            return Ok(None);
        }
        if deletes {
            self.delete(child, oid, &row)?;
            return Ok(None);
        }
        let some = !key.set.is_empty() && gone.now.is_none() && gone.action != KeyAction::Cascade;
        let mut set = vec![];
        for (column, part) in key.columns.iter().zip(&key.parts) {
            if some && !key.set.contains(column) {
                continue;
            }
            let value = match (gone.action, &gone.now) {
                (KeyAction::Cascade, Some(now)) => {
                    let ty = gone.table.def.columns[index.def.columns[*part].column].ty;
                    NewValue::Value(now[*part].clone(), ty)
                }
                (KeyAction::SetDefault, _) => NewValue::Default,
                _ => NewValue::Null,
            };
            set.push((*column, value))
        }
        // Nothing is to be known for these but bytes.
        let known = |(column, value): &(usize, NewValue)| {
            let c = &child.def.columns[*column];
            c.domain.is_none()
                && match value {
                    NewValue::Null => true,
                    NewValue::Default => c.default.is_none(),
                    NewValue::Value(_, ty) => alike(ty.id, c.ty.id) && c.ty.typmod == ty.typmod,
                }
        };
        let ask = Ask { table: child.clone(), oid, set };
        let computes = child.def.columns.iter().any(|c| c.computed().is_some());
        if child.def.checks.is_empty() && !computes && ask.set.iter().all(known) {
            let value = |v: &NewValue| match v {
                NewValue::Value(v, _) => v.clone(),
                _ => Value::Null,
            };
            let values: Vec<Value> = ask.set.iter().map(|(_, v)| value(v)).collect();
            self.act(&ask, &values)?;
            return Ok(None);
        }
        Ok(Some(ask))
    }

    /// All values of a row that an action changes, as they are before.
    pub fn values_before(&self, ask: &Ask) -> Vec<Value> {
        let mut row = vec![0; ask.table.layout.row_size];
        self.session.read_newest(ask.oid, &mut row);
        (0..ask.table.def.columns.len()).map(|c| value_of(self, &ask.table, &row, c)).collect()
    }

    /// Changes a row by an action; the values are those of the columns that it sets.
    pub fn act(&mut self, ask: &Ask, values: &[Value]) -> SqlResult<()> {
        let mut row = vec![0; ask.table.layout.row_size];
        self.session.read_newest(ask.oid, &mut row);
        let mut scratch: Vec<Vec<u8>> = values.iter().map(|_| vec![]).collect();
        let changes: Vec<(usize, ValueRef<'_>)> = (ask.set.iter().zip(values).zip(&mut scratch))
            .map(|(((column, _), v), s)| (*column, v.as_ref(s)))
            .collect();
        self.update(&ask.table, ask.oid, &row, &changes)
    }

    // ---- deferred (K5)

    pub(super) fn has_deferred(&self) -> bool {
        !self.keys.deferred.is_empty()
    }

    /// Whether something that is noted of the table is yet to be looked at.
    pub(crate) fn has_pending(&self, table: u32) -> bool {
        self.keys.deferred.iter().any(|e| match e {
            Event::Child { table: t, .. } => t.def.id == table,
            Event::Parent(gone) => gone.table.def.id == table || gone.reference.table == table,
        })
    }

    /// Looks at what was deferred and is not any more, or at all of it.
    pub(super) fn settle_deferred(&mut self, all: bool) -> SqlResult<()> {
        if self.keys.deferred.is_empty() {
            return Ok(());
        }
        self.start_explicit()?;
        let events = std::mem::take(&mut self.keys.deferred);
        let keeps = self.savepoints() > 0 && !all;
        for event in events {
            let is_due = all
                || !match &event {
                    Event::Child { table, key, .. } => {
                        self.is_deferred(table.def.id, &table.def.foreign[*key])
                    }
                    Event::Parent(gone) => self.is_deferred(gone.reference.table, &gone.reference.key),
                };
            if is_due {
                self.keys.due.push_back(event.clone())
            }
            if !is_due || keeps {
                self.keys.deferred.push(event)
            }
        }
        self.settle_plainly()
    }

    /// SET CONSTRAINTS; `None`: ALL. What is not deferred any more is looked at.
    pub fn set_constraints(&mut self, keys: Option<Vec<(u32, String)>>, deferred: bool) -> SqlResult<()> {
        if !self.in_transaction() {
            return Ok(());
        }
        self.keys.used = true;
        let modes = &mut self.keys.modes;
        match keys {
            None => *modes = Modes { all: Some(deferred), named: BTreeMap::new() },
            Some(keys) => modes.named.extend(keys.into_iter().map(|k| (k, deferred))),
        }
        if !deferred && let Err(e) = self.settle_deferred(false) {
            self.fail();
            return Err(e);
        }
        Ok(())
    }

    // ---- rows that are there when a constraint is added

    /// Looks whether all rows of a table hold a foreign key of its definition.
    pub(crate) fn hold_to_key(&mut self, child: &Arc<Table>, key: &ForeignDef, look: Look) -> SqlResult<()> {
        let parent = match look {
            Look::Newest => self.catalog().table_by_id(key.table).cloned().ok_or_else(|| lost("table"))?,
            Look::Snapshot => {
                let parent = self.join_table(key.table, Uses::LOCKS)?;
                if !mutated("key_looked_at_early") {
                    // define/foreign/R4; nor is it older than what was waited for.
                    self.session.snapshot_newest()
                }
                parent
            }
        };
        let index = index_of(&parent, key)?.clone();
        let mut slots = Slots::default();
        slots.start(&child.store.rows);
        let kernel = self.session.kernel().clone();
        let mut row = vec![0; child.layout.row_size];
        // So that many rows that name one look for it once.
        const MANY: usize = 1 << 12;
        let mut found: HashSet<Vec<u8>> = HashSet::new();
        let mut n = 0u32;
        loop {
            let next = {
                let _pin = self.session.pin();
                slots.next(&kernel.space)
            };
            let Some(oid) = next else { return Ok(()) };
            n += 1;
            if n.is_multiple_of(1024) {
                self.session.patience.look_around().map_err(error::kernel)?
            }
            if !self.read_by(look, oid, &mut row) {
                continue;
            }
            let values: Vec<Value> =
                key.columns.iter().map(|c| self.value_by(look, child, &row, *c)).collect();
            let bytes = match self.names(child, key, &parent, &index, &values) {
                Names::Nothing => continue,
                Names::Key(bytes) => bytes,
                Names::Mixed => return Err(missing(child, key, &parent, &values, true)),
                Names::Nobody => return Err(missing(child, key, &parent, &values, false)),
            };
            if found.contains(&bytes) {
                continue;
            }
            if !self.has_key_by(look, &parent, &index, &bytes) {
                return Err(missing(child, key, &parent, &values, false));
            }
            if found.len() >= MANY {
                found.clear()
            }
            found.insert(bytes);
        }
    }

    fn read_by(&self, look: Look, oid: Oid, row: &mut [u8]) -> bool {
        match look {
            Look::Newest => self.session.read_newest(oid, row),
            Look::Snapshot => self.session.read(oid, row),
        }
    }

    fn value_by(&self, look: Look, table: &Table, row: &[u8], column: usize) -> Value {
        match look {
            Look::Newest => value_of(self, table, row, column),
            Look::Snapshot => row::column(&table.layout, row, column, self, &mut vec![]).to_owned(),
        }
    }

    fn has_key_by(&self, look: Look, table: &Table, index: &TableIndex, key: &[u8]) -> bool {
        let mut oids = vec![];
        index.index.lookup(&self.session.pin(), key, &mut oids, None);
        let mut row = vec![0; table.layout.row_size];
        oids.into_iter().any(|oid| {
            let mut has = vec![];
            let newest = Newest(&self.session);
            let strings: &dyn Strings = match look {
                Look::Newest => &newest,
                Look::Snapshot => self,
            };
            self.read_by(look, oid, &mut row) && {
                index.store.key.key(&row, strings, &mut has);
                has == key
            }
        })
    }
}

fn encode(index: &TableIndex, values: &[Value], out: &mut Vec<u8>) {
    let mut scratch: Vec<Vec<u8>> = values.iter().map(|_| vec![]).collect();
    let refs: Vec<ValueRef<'_>> = values.iter().zip(&mut scratch).map(|(v, s)| v.as_ref(s)).collect();
    index.key.encode(&refs, out)
}
