//! Data definition, transactional: visible to others when the transaction commits (N2).
use crate::catalog::{Catalog, ColumnDef, FunctionDef, IndexColumn, IndexDef, IndexKind, TableDef};
use crate::connection::{Connection, DEFINITION_PATIENCE};
use crate::database::find;
use crate::dictionary as d;
use crate::error;
use crate::table::{Table, TableIndex};
use ondol_base::sync::Mutex;
use ondol_base::{clock, thread};
use ondol_kernel::collect::Item;
use ondol_kernel::heap::{LARGEST_ROW, Slots};
use ondol_kernel::registry::{self, IDLE};
use ondol_kernel::table::Committed;
use ondol_kernel::{Kernel, slot};
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::time::Duration;

impl Connection {
    /// Begins to change definitions: waits for whoever does, then works on a copy of the dictionary.
    fn define(&mut self) -> SqlResult<Catalog> {
        if !self.defining {
            let limit = self.session.patience.timeout.unwrap_or(DEFINITION_PATIENCE);
            let deadline = clock::now() + limit;
            let db = self.db.clone();
            let mut busy = db.defining.lock();
            while *busy {
                if clock::now() > deadline {
                    return Err(SqlError::new(
                        sqlstate::LOCK_NOT_AVAILABLE,
                        "canceling statement: another transaction is changing definitions",
                    ));
                }
                busy = db.defined.wait_timeout(busy, Duration::from_millis(20)).0
            }
            *busy = true;
            self.defining = true;
        }
        let mut c = (*self.catalog()).clone();
        c.version = self.db.next_version();
        Ok(c)
    }

    /// The transaction that changed definitions ends.
    pub(crate) fn end_definitions(&mut self, committed: bool) {
        if !self.defining {
            return;
        }
        let catalog = self.catalog.take();
        let gone = if committed { &mut self.dropped } else { &mut self.made };
        let mut heaps = std::mem::take(gone);
        heaps.append(&mut self.db.later.lock());
        self.dropped.clear();
        self.made.clear();
        if committed && let Some(c) = catalog {
            self.db.publish(c)
        }
        let outdated = std::mem::take(&mut self.outdated);
        if committed && !outdated.is_empty() {
            // No version that has such a key is newer than this commit.
            let queue = self.db.kernel.collector.register();
            let mut queue = queue.lock();
            outdated.into_iter().for_each(|item| queue.push(self.session.last_commit(), item))
        }
        for n in heaps {
            self.session.forget_heap(n * 2);
            self.session.forget_heap(n * 2 + 1);
            self.db.kernel.drop_heap(n * 2);
            self.db.kernel.drop_heap(n * 2 + 1);
        }
        for t in self.marked.drain(..) {
            t.locked.store(0, Ordering::SeqCst)
        }
        self.defining = false;
        *self.db.defining.lock() = false;
        self.db.defined.notify_all();
    }

    fn set_catalog(&mut self, c: Catalog) {
        self.catalog = Some(Arc::new(c))
    }

    /// Marks a table as being changed and waits until no other transaction uses it (N1).
    fn claim_table(&mut self, table: &Arc<Table>) -> SqlResult<()> {
        if table.locked.load(Ordering::SeqCst) == self.number {
            return Ok(());
        }
        table.locked.store(self.number, Ordering::SeqCst);
        self.marked.push(table.clone());
        fence(Ordering::SeqCst);
        let limit = self.session.patience.timeout.unwrap_or(DEFINITION_PATIENCE);
        let deadline = clock::now() + limit;
        let me = self.session.participant().line() as *const _;
        let epochs = self.db.kernel.epochs.clone();
        loop {
            let mut used = false;
            epochs.for_each(|l| used |= !std::ptr::eq(l, me) && registry::uses(l, table.def.id as u64));
            if !used {
                return Ok(());
            }
            if clock::now() > deadline {
                // Not claimed: whoever tries again in this transaction waits again.
                self.marked.retain(|t| !Arc::ptr_eq(t, table));
                table.locked.store(0, Ordering::SeqCst);
                return Err(SqlError::new(
                    sqlstate::LOCK_NOT_AVAILABLE,
                    format!(
                        "canceling statement: table \"{}\" is in use by other transactions",
                        table.def.name
                    ),
                ));
            }
            thread::sleep(Duration::from_micros(500))
        }
    }

    /// Runs the change as one statement.
    fn defining<T>(&mut self, f: impl FnOnce(&mut Self, Catalog) -> SqlResult<T>) -> SqlResult<T> {
        self.start_statement(self.catalog_version(), &[], true).or_else(|e| {
            // The dictionary cannot have changed between: it is read right here. Once more, then.
            if e.sqlstate() == crate::STALE {
                self.start_statement(self.catalog_version(), &[], true)
            } else {
                Err(e)
            }
        })?;
        let _phase = ondol_base::sim::phase("ddl");
        let outcome = self.define().and_then(|c| f(self, c));
        match outcome {
            Ok(t) => {
                self.end_statement()?;
                Ok(t)
            }
            Err(e) => {
                self.abort_statement();
                Err(e)
            }
        }
    }

    pub fn create_table(&mut self, name: &str, columns: Vec<ColumnDef>) -> SqlResult<()> {
        self.defining(|me, mut c| {
            free_name(&c, name)?;
            for (i, col) in columns.iter().enumerate() {
                if columns[..i].iter().any(|x| x.name == col.name) {
                    return Err(SqlError::new(
                        sqlstate::DUPLICATE_COLUMN,
                        format!("column \"{}\" specified more than once", col.name),
                    ));
                }
            }
            let def = TableDef { id: me.db.next_object()?, name: name.to_string(), columns, indexes: vec![] };
            let size = Table::layout_of(&def).row_size;
            if size > LARGEST_ROW {
                return Err(SqlError::new(
                    sqlstate::PROGRAM_LIMIT_EXCEEDED,
                    format!("row size {size} of table \"{name}\" exceeds the maximum of {LARGEST_ROW}"),
                ));
            }
            let heaps = me.db.next_object()?;
            me.made.push(heaps);
            let db = me.db.clone();
            d::add_table(&mut me.session, &db.dictionary, &def, heaps)?;
            let table = Table::new(&db.kernel, def, heaps, vec![], Arc::new(AtomicU64::new(0)));
            c.tables.insert(name.to_string(), table);
            me.set_catalog(c);
            Ok(())
        })
    }

    pub fn drop_table(&mut self, name: &str) -> SqlResult<()> {
        self.defining(|me, mut c| {
            let table = find(&c, name)?.clone();
            me.claim_table(&table)?;
            let db = me.db.clone();
            d::remove_table(&mut me.session, &db.dictionary, table.def.id)?;
            me.dropped.push(table.heaps);
            c.tables.remove(name);
            c.indexes.retain(|_, t| t != name);
            me.set_catalog(c);
            Ok(())
        })
    }

    pub fn truncate(&mut self, names: &[String]) -> SqlResult<()> {
        self.defining(|me, mut c| {
            for name in names {
                let old = find(&c, name)?.clone();
                me.claim_table(&old)?;
                let db = me.db.clone();
                let heaps = db.next_object()?;
                me.made.push(heaps);
                me.dropped.push(old.heaps);
                d::remove_table(&mut me.session, &db.dictionary, old.def.id)?;
                d::add_table(&mut me.session, &db.dictionary, &old.def, heaps)?;
                let layout = Table::layout_of(&old.def);
                let indexes = old
                    .def
                    .indexes
                    .iter()
                    .map(|i| TableIndex::new(&db.kernel, &old.def, &layout, i.clone(), 0))
                    .collect::<SqlResult<Vec<_>>>()?;
                let table = Table::new(&db.kernel, old.def.clone(), heaps, indexes, old.locked.clone());
                c.tables.insert(name.clone(), table);
            }
            me.set_catalog(c);
            Ok(())
        })
    }

    /// Builds the index, in parallel where it pays.
    #[allow(clippy::too_many_arguments)]
    pub fn create_index(
        &mut self,
        table: &str,
        name: &str,
        kind: IndexKind,
        unique: bool,
        columns: Vec<IndexColumn>,
        primary: bool,
        constraint: bool,
    ) -> SqlResult<()> {
        self.create_index_reporting(table, name, kind, unique, columns, primary, constraint, &|_, _| {})
    }
    /// The same; `progress` is told (done, all) rows.
    #[allow(clippy::too_many_arguments)]
    pub fn create_index_reporting(
        &mut self,
        table: &str,
        name: &str,
        kind: IndexKind,
        unique: bool,
        columns: Vec<IndexColumn>,
        primary: bool,
        constraint: bool,
        progress: &dyn Fn(u64, u64),
    ) -> SqlResult<()> {
        self.defining(|me, mut c| {
            free_name(&c, name)?;
            let old = find(&c, table)?.clone();
            if primary && old.def.indexes.iter().any(|i| i.primary) {
                return Err(SqlError::new(
                    sqlstate::INVALID_TABLE_DEFINITION,
                    format!("multiple primary keys for table \"{table}\" are not allowed"),
                ));
            }
            me.claim_table(&old)?;
            let db = me.db.clone();
            let def = IndexDef {
                id: db.next_object()?,
                name: name.to_string(),
                kind,
                unique,
                primary,
                constraint,
                columns,
            };
            let rows = old.estimate_rows();
            let layout = Table::layout_of(&old.def);
            let index = TableIndex::new(&db.kernel, &old.def, &layout, def.clone(), rows)?;
            let check = unique.then_some(me.session.view.txn);
            let filled =
                fill(&db.kernel, &old, std::slice::from_ref(&index), check, &|done| progress(done, rows))
                    .map_err(|e| match e.sqlstate() {
                        sqlstate::UNIQUE_VIOLATION => duplicate(&old, &def, e),
                        _ => e,
                    })?;
            me.outdated.extend(filled.outdated);
            d::add_index(&mut me.session, &db.dictionary, old.def.id, &def)?;
            let mut table_def = old.def.clone();
            table_def.indexes.push(def);
            let mut indexes = old.indexes.clone();
            indexes.push(index);
            let new = Table::new(&db.kernel, table_def, old.heaps, indexes, old.locked.clone());
            c.indexes.insert(name.to_string(), table.to_string());
            c.tables.insert(table.to_string(), new);
            me.set_catalog(c);
            Ok(())
        })
    }

    /// Makes an index the table's PRIMARY KEY or a UNIQUE constraint; a primary key's columns are NOT NULL from now on.
    pub fn adopt_index(
        &mut self,
        table: &str,
        name: &str,
        primary: bool,
        new_name: Option<&str>,
    ) -> SqlResult<()> {
        self.defining(|me, mut c| {
            let old = find(&c, table)?.clone();
            me.claim_table(&old)?;
            let mut def = old.def.clone();
            let Some(i) = def.indexes.iter_mut().find(|i| i.name == name) else {
                return Err(SqlError::new(
                    sqlstate::UNDEFINED_OBJECT,
                    format!("index \"{name}\" does not exist"),
                ));
            };
            if !i.unique {
                return Err(SqlError::new(
                    sqlstate::WRONG_OBJECT_TYPE,
                    format!("\"{name}\" is not a unique index"),
                ));
            }
            i.primary = primary;
            i.constraint = true;
            if let Some(n) = new_name
                && n != name
            {
                if c.tables.contains_key(n) || c.indexes.contains_key(n) {
                    return Err(SqlError::new(
                        sqlstate::DUPLICATE_TABLE,
                        format!("relation \"{n}\" already exists"),
                    ));
                }
                i.name = n.to_string()
            }
            let i = i.clone();
            c.indexes.remove(name);
            c.indexes.insert(i.name.clone(), table.to_string());
            let db = me.db.clone();
            d::remove_index(&mut me.session, &db.dictionary, i.id)?;
            d::add_index(&mut me.session, &db.dictionary, def.id, &i)?;
            let indexes = old
                .indexes
                .iter()
                .map(|x| match x.def.id == i.id {
                    true => Arc::new(TableIndex {
                        def: i.clone(),
                        key: x.key.clone(),
                        index: x.index.clone(),
                        store: x.store.clone(),
                    }),
                    false => x.clone(),
                })
                .collect();
            let new = Table::new(&db.kernel, def, old.heaps, indexes, old.locked.clone());
            c.tables.insert(table.to_string(), new);
            me.set_catalog(c);
            Ok(())
        })
    }

    pub fn drop_index(&mut self, name: &str) -> SqlResult<()> {
        self.defining(|me, mut c| {
            let missing =
                || SqlError::new(sqlstate::UNDEFINED_OBJECT, format!("index \"{name}\" does not exist"));
            let table = c.indexes.get(name).cloned().ok_or_else(missing)?;
            let old = find(&c, &table)?.clone();
            let mut def = old.def.clone();
            let at = def.indexes.iter().position(|i| i.name == name).ok_or_else(missing)?;
            if def.indexes[at].constraint {
                return Err(SqlError::new(
                    sqlstate::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!(
                        "cannot drop index {name} because constraint {name} on table {table} requires it"
                    ),
                )
                .hint(format!("You can drop constraint {name} on table {table} instead.")));
            }
            me.claim_table(&old)?;
            let gone = def.indexes.remove(at);
            let db = me.db.clone();
            d::remove_index(&mut me.session, &db.dictionary, gone.id)?;
            let indexes = old.indexes.iter().filter(|i| i.def.id != gone.id).cloned().collect();
            let new = Table::new(&db.kernel, def, old.heaps, indexes, old.locked.clone());
            c.indexes.remove(name);
            c.tables.insert(table, new);
            me.set_catalog(c);
            Ok(())
        })
    }

    /// Registers a query; gives its ID. `replace`: CREATE OR REPLACE keeps the ID.
    pub fn create_function(&mut self, mut function: FunctionDef, replace: bool) -> SqlResult<u32> {
        self.defining(|me, mut c| {
            let same = c
                .functions_named(&function.name)
                .find(|f| f.args.iter().map(|a| a.1.id).eq(function.args.iter().map(|a| a.1.id)))
                .cloned();
            let db = me.db.clone();
            function.id = match same {
                Some(f) if replace => {
                    if f.returns != function.returns {
                        return Err(SqlError::new(
                            sqlstate::INVALID_FUNCTION_DEFINITION,
                            "cannot change return type of existing function",
                        ));
                    }
                    d::remove_function(&mut me.session, &db.dictionary, f.id)?;
                    f.id
                }
                Some(_) => {
                    return Err(SqlError::new(
                        sqlstate::DUPLICATE_FUNCTION,
                        format!("function \"{}\" already exists with same argument types", function.name),
                    ));
                }
                None => db.next_object()?,
            };
            d::add_function(&mut me.session, &db.dictionary, &function)?;
            let id = function.id;
            c.functions.insert(id, Arc::new(function));
            me.set_catalog(c);
            Ok(id)
        })
    }

    pub fn drop_function(&mut self, id: u32) -> SqlResult<()> {
        self.defining(|me, mut c| {
            let db = me.db.clone();
            if c.functions.remove(&id).is_none() {
                return Err(SqlError::new(
                    sqlstate::UNDEFINED_FUNCTION,
                    format!("function number {id} does not exist"),
                ));
            }
            d::remove_function(&mut me.session, &db.dictionary, id)?;
            me.set_catalog(c);
            Ok(())
        })
    }

    /// Stores byte code compiled anew.
    pub fn set_function_code(&mut self, id: u32, code: Vec<u8>) -> SqlResult<()> {
        self.defining(|me, mut c| {
            let db = me.db.clone();
            let Some(f) = c.functions.get(&id) else {
                return Err(SqlError::new(
                    sqlstate::UNDEFINED_FUNCTION,
                    format!("function number {id} does not exist"),
                ));
            };
            let f = FunctionDef { code, ..(**f).clone() };
            d::remove_function(&mut me.session, &db.dictionary, id)?;
            d::add_function(&mut me.session, &db.dictionary, &f)?;
            c.functions.insert(id, Arc::new(f));
            me.set_catalog(c);
            Ok(())
        })
    }
}

fn free_name(c: &Catalog, name: &str) -> SqlResult<()> {
    if c.tables.contains_key(name) || c.indexes.contains_key(name) {
        return Err(SqlError::new(sqlstate::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")));
    }
    Ok(())
}

fn duplicate(table: &Table, index: &IndexDef, e: SqlError) -> SqlError {
    let names: Vec<&str> = index.columns.iter().map(|c| table.def.columns[c.column].name.as_str()).collect();
    SqlError::new(sqlstate::UNIQUE_VIOLATION, format!("could not create unique index \"{}\"", index.name))
        .detail(format!("Key ({})=({}) is duplicated.", names.join(", "), e))
}

/// Fills empty indexes of a table that nobody else uses, on all cores. Every version that a snapshot may still see
/// gets its entry. `unique`: look for duplicates among the newest versions, as this transaction has them.
pub(crate) fn fill(
    kernel: &Arc<Kernel>,
    table: &Arc<Table>,
    indexes: &[Arc<TableIndex>],
    unique: Option<u64>,
    progress: &dyn Fn(u64),
) -> SqlResult<Filled> {
    if indexes.is_empty() {
        return Ok(Filled::default());
    }
    let parts = (table.store.rows.segments().len() * 4).max(1);
    let job = Arc::new(Fill {
        kernel: kernel.clone(),
        table: table.clone(),
        indexes: indexes.to_vec(),
        unique,
        parts,
        next: AtomicUsize::new(0),
        done: AtomicU64::new(0),
        failed: AtomicBool::new(false),
        error: Mutex::new(None),
        outdated: Mutex::default(),
    });
    let helpers: Vec<_> = (1..thread::parallelism().min(parts))
        .filter_map(|_| {
            let job = job.clone();
            thread::spawn("ondol-index", move || job.work(&|_| {})).ok()
        })
        .collect();
    job.work(progress);
    for h in helpers {
        let _ = h.join();
    }
    match job.error.lock().take() {
        Some(e) => Err(e),
        None => Ok(Filled {
            entries: job.done.load(Ordering::Relaxed) * indexes.len() as u64,
            outdated: std::mem::take(&mut *job.outdated.lock()),
        }),
    }
}

/// What filling indexes did.
#[derive(Default)]
pub(crate) struct Filled {
    pub entries: u64,
    /// Entries that perhaps no newest version has: the changes that made them old were committed before the index was
    /// there, so nobody else will take them out.
    pub outdated: Vec<Item>,
}

struct Fill {
    kernel: Arc<Kernel>,
    table: Arc<Table>,
    indexes: Vec<Arc<TableIndex>>,
    unique: Option<u64>,
    parts: usize,
    next: AtomicUsize,
    done: AtomicU64,
    failed: AtomicBool,
    error: Mutex<Option<SqlError>>,
    outdated: Mutex<Vec<Item>>,
}

impl Fill {
    fn work(&self, progress: &dyn Fn(u64)) {
        let participant = self.kernel.epochs.join(IDLE);
        let mut slots = Slots::default();
        loop {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part >= self.parts || self.failed.load(Ordering::Relaxed) {
                return;
            }
            slots.start_part(&self.table.store.rows, part, self.parts);
            if let Err(e) = self.part(&participant, &mut slots) {
                self.error.lock().get_or_insert(e);
                self.failed.store(true, Ordering::Relaxed);
                return;
            }
            progress(self.done.load(Ordering::Relaxed));
        }
    }

    fn part(&self, participant: &ondol_base::epoch::Participant, slots: &mut Slots) -> SqlResult<()> {
        let space = &self.kernel.space;
        let strings = Committed(space);
        let mut buf = vec![0; self.table.layout.row_size];
        let (mut key, mut last) = (vec![], vec![]);
        let mut keys: Vec<Box<[u8]>> = vec![];
        let mut oids = vec![];
        let mut rows = 0;
        while let Some(oid) = slots.next(space) {
            let guard = participant.pin();
            rows += 1;
            for i in &self.indexes {
                let mut full = false;
                last.clear();
                keys.clear();
                slot::any_version(space, oid, &mut buf, true, &mut |row| {
                    key.clear();
                    i.store.key.key(row, &strings, &mut key);
                    if key != last || last.is_empty() {
                        full |= i.index.insert(&guard, &key, oid).is_err();
                        last.clear();
                        last.extend_from_slice(&key);
                        keys.push(key.as_slice().into())
                    }
                    false
                });
                let dead = space.word(slot::row(oid)).load(Ordering::Acquire) & slot::LIVE as u64 == 0;
                // Of a row that is owned, our own transaction's pending changes were made without the index.
                let owned = space.word(oid.0).load(Ordering::Acquire) & slot::OWNED != 0;
                if keys.len() > 1 || dead || owned {
                    let (table, index) = (&self.table.store, &i.store);
                    self.outdated.lock().extend(keys.drain(..).map(|key| Item::Entry {
                        oid,
                        table: table.clone(),
                        index: index.clone(),
                        key,
                    }))
                }
                if full {
                    let limit = space.budget.limit();
                    return Err(error::kernel(ondol_kernel::Error::OutOfMemory { limit }));
                }
            }
            if self.unique.is_some() {
                for i in &self.indexes {
                    self.check(i, oid, &guard, &mut buf, &mut key, &mut last, &mut oids)?
                }
            }
        }
        self.done.fetch_add(rows, Ordering::Relaxed);
        Ok(())
    }

    /// Entries go in before this looks, so of two equal rows at least one sees the other.
    #[allow(clippy::too_many_arguments)]
    fn check(
        &self,
        i: &TableIndex,
        oid: ondol_base::oid::Oid,
        guard: &ondol_base::epoch::Guard<'_>,
        buf: &mut [u8],
        key: &mut Vec<u8>,
        other: &mut Vec<u8>,
        oids: &mut Vec<ondol_base::oid::Oid>,
    ) -> SqlResult<()> {
        let space = &self.kernel.space;
        let strings = Committed(space);
        // Nobody else uses the table: what is pending is our own transaction's, and counts, deletions too.
        let view = slot::View { snapshot: slot::ID, txn: self.unique.unwrap_or(0), command: u32::MAX };
        let newest = |oid, buf: &mut [u8], out: &mut Vec<u8>| {
            out.clear();
            slot::read(space, oid, &view, 0, buf).then(|| i.store.key.key(buf, &strings, out))
        };
        if newest(oid, buf, key) != Some(false) {
            return Ok(());
        }
        oids.clear();
        i.index.lookup(guard, key, oids, None);
        for o in oids.iter().filter(|o| **o != oid) {
            if newest(*o, buf, other) == Some(false) && other == key {
                let mut shown = vec![];
                let mut scratch = vec![];
                let mut row = vec![0; self.table.layout.row_size];
                space.copy_out(slot::row(oid), &mut row);
                for c in &i.def.columns {
                    let v = crate::row::column(&self.table.layout, &row, c.column, &strings, &mut scratch);
                    let mut text = String::new();
                    ondol_types::text::output(v, self.table.def.columns[c.column].ty, &mut text);
                    shown.push(text);
                    scratch.clear()
                }
                return Err(SqlError::new(sqlstate::UNIQUE_VIOLATION, shown.join(", ")));
            }
        }
        Ok(())
    }
}
