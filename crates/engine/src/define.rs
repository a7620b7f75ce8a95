//! Data definition, transactional: visible to others when the transaction commits (connection/N2).
use crate::catalog::{
    Catalog, CheckDef, ColumnDef, FunctionDef, IndexColumn, IndexDef, IndexKind, IndexOptions, Meanings,
    Nature, Relation, TableDef,
};
use crate::connection::{Connection, STALE};
use crate::database::find;
use crate::definers::{Claim, Thing, claims};
use crate::dictionary as d;
use crate::fill::{From, fill};
use crate::layout::MAX_COLUMNS;
use crate::name::{Name, TEMPORARY};
use crate::outdated::Outdated;
use crate::rights::RightsOf;
use crate::role::BOOTSTRAP;
use crate::table::{Table, TableIndex};
use crate::view::Slot;
use ondol_base::barrier;
use ondol_base::epoch::Line;
use ondol_base::sim::mutated;
use ondol_kernel::registry;
use ondol_kernel::transaction::session_of;
use ondol_kernel::wait::SessionId;
use ondol_types::{SqlError, SqlResult, sqlstate};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

mod comments;
mod foreign;
mod roles;
mod schemas;
mod sequences;
mod tables;
mod types;
mod views;

pub use foreign::incompatible;
pub(crate) use foreign::unvalidated;
pub(crate) use tables::functions_of;

/// Whether the thing is the same in both.
fn is_as_it_was(thing: &Thing, before: &Catalog, now: &Catalog) -> bool {
    match thing {
        Thing::Name(name) | Thing::Stay(name) => {
            match (before.relations.get(name), now.relations.get(name)) {
                (Some(Relation::Table(a)), Some(Relation::Table(b))) => Arc::ptr_eq(a, b),
                (Some(Relation::Index { table: a }), Some(Relation::Index { table: b })) => a == b,
                (Some(Relation::Sequence(a)), Some(Relation::Sequence(b))) => Arc::ptr_eq(a, b),
                (Some(Relation::View(a)), Some(Relation::View(b))) => Arc::ptr_eq(a, b),
                (a, b) => a.is_none() && b.is_none(),
            }
        }
        Thing::Role(name) => before.role_named(name) == now.role_named(name),
        // They are meanings.
        Thing::Function(..) | Thing::SchemaName(_) | Thing::Schema(_) => true,
    }
}

impl Connection {
    /// Claims what is wanted (see [`Connection::claim`]) by a statement that was bound to the dictionary of
    /// that version. Fails with a retryable [`STALE`] error when what it claims, or what names of functions
    /// and types mean, is no longer what it was there: bind again.
    pub fn start_definitions(
        &mut self,
        catalog_version: u64,
        wanted: impl Fn(&Catalog) -> Vec<Claim>,
    ) -> SqlResult<()> {
        let stale = || Err(SqlError::new(STALE, "the dictionary has changed"));
        let before = self.catalog();
        if before.version != catalog_version {
            return stale();
        }
        let had = self.claims.len();
        let now = self.claim(&wanted)?;
        if now.version == before.version {
            return Ok(());
        }
        let same = Meanings::of(&before).are(&now)
            && wanted(&now).iter().all(|claim| is_as_it_was(&claim.thing, &before, &now));
        if same {
            return Ok(());
        }
        // Bound again, it may want something else.
        self.let_go_of_claims(had);
        self.tell_definers();
        stale()
    }

    /// The transaction that changed definitions ends (definers/G5).
    pub(crate) fn end_definitions(&mut self, committed: bool) {
        if !self.defining {
            return;
        }
        if let Some(open) = self.fresh_labels.take() {
            open.store(false, Ordering::Relaxed)
        }
        let draft = self.draft.take();
        let view = self.view.get_mut().take();
        let gone = if committed { &mut self.dropped } else { &mut self.made };
        let mut heaps = std::mem::take(gone);
        heaps.append(&mut self.orphans);
        self.dropped.clear();
        self.made.clear();
        let registered = self.registered.take();
        if committed {
            if let Some(draft) = draft {
                self.set_temporary(draft.temporary().map(Arc::new));
                if draft.concerns_others() {
                    self.db.publish(|c| match view {
                        Some(view) if mutated("draft_published_whole") => *c = (*view.catalog).clone(),
                        _ => draft.publish_into(c),
                    })
                }
            }
            self.announced.clear()
        } else {
            if let Some(table) = registered {
                self.withdraw(&table)
            }
            self.withdraw_keys(0)
        }
        let budget = &self.db.kernel.space.budget;
        let outdated = std::mem::replace(&mut self.outdated, Outdated::new(budget));
        if committed && !outdated.is_empty() {
            // No version that has such a key is newer than the newest commit. The transaction's own may be an
            // earlier one, if it has written nothing: a table's indexes made anew are in no dictionary.
            let newest = self.db.kernel.log.clock().saturating_sub(1);
            outdated.hand_over(newest, &self.db.kernel)
        }
        self.end_counters(committed);
        self.let_go_of_counters(0);
        self.draft = self.temporary.clone();
        self.unmark(0);
        self.unguard(0);
        self.let_go_of_claims(0);
        (self.defining, self.copied) = (false, false);
        self.tell_definers();
        // Nobody finds them any more; it may take a while until the last has looked.
        for n in heaps {
            self.session.forget_heap(n * 2);
            self.session.forget_heap(n * 2 + 1);
            self.db.kernel.drop_heap(n * 2);
            self.db.kernel.drop_heap(n * 2 + 1);
        }
    }

    /// Takes the marks away from tables that were marked when so many were, and later; the caller tells.
    pub(crate) fn unmark(&mut self, from: usize) {
        self.marked.drain(from..).for_each(|t| self.db.guards.unmark(&t))
    }

    /// Marks a table, whose name is claimed, as being changed, and waits until no other transaction uses it
    /// (connection/N1, definers/G7). Refused where our own has a portal that reads it (portal/P4); `what` is
    /// the statement's name.
    pub(crate) fn mark_table(&mut self, table: &Arc<Table>, what: &str) -> SqlResult<()> {
        self.refuse_own_use(table, what)?;
        self.mark(table)
    }

    /// Refuses what cannot be while the transaction has something open on the table.
    fn refuse_own_use(&self, table: &Arc<Table>, what: &str) -> SqlResult<()> {
        self.refuse_in_use(table, what, &table.def.name)?;
        if self.has_pending(table.def.id) {
            let message =
                format!("cannot {what} \"{}\" because it has pending trigger events", table.def.name);
            return Err(SqlError::new(sqlstate::OBJECT_IN_USE, message));
        }
        Ok(())
    }

    /// The same for who does not change it: its own portals go on.
    pub(crate) fn mark(&mut self, table: &Arc<Table>) -> SqlResult<()> {
        let me = self.session.id();
        if table.locked.load(Ordering::SeqCst) == me {
            return Ok(());
        }
        table.locked.store(me, Ordering::SeqCst);
        self.marked.push(table.clone());
        let name = table.name();
        self.wait_for_users(table, move |n| registry::same_table(n, name)).inspect_err(|_| {
            // Not marked: whoever tries again in this transaction waits again.
            self.unmark(self.marked.len() - 1);
            self.tell_definers()
        })
    }

    /// Waits until no other session uses the table under a name that `which` holds of. A session that comes
    /// later has to learn from what was stored before that it must not (connection/N1).
    pub(crate) fn wait_for_users(
        &self,
        table: &Table,
        which: impl Fn(u64) -> bool + Send + Sync + 'static,
    ) -> SqlResult<()> {
        self.wait_for_lines(table, move |l| registry::uses(l, &which))
    }

    /// The same for those whose lines `which` holds of.
    pub(crate) fn wait_for_lines(
        &self,
        table: &Table,
        which: impl Fn(&Line) -> bool + Send + Sync + 'static,
    ) -> SqlResult<()> {
        barrier::heavy();
        let (me, epochs) = (self.session.id(), self.db.kernel.epochs.clone());
        let users = move |f: &mut dyn FnMut(SessionId)| {
            epochs.for_each(|l| {
                if session_of(l) != me && which(l) {
                    f(session_of(l))
                }
            })
        };
        let users = Arc::new(users);
        let theirs = users.clone();
        let over = || {
            let mut used = false;
            users(&mut |_| used = true);
            !used
        };
        // Who leaves a table tells nobody: that would cost each statement something.
        const POLL: Duration = Duration::from_micros(500);
        self.wait_for_definition(Box::new(move |f| theirs(f)), Some(POLL), over).map_err(|e| {
            e.detail(format!(
                "The statement waited for other transactions that use table \"{}\".",
                table.def.name
            ))
        })
    }

    /// Runs a change of what nobody else knows as one statement.
    pub(crate) fn as_definition<T>(&mut self, f: impl FnOnce(&mut Self) -> SqlResult<T>) -> SqlResult<T> {
        self.defining(|_| Vec::new(), |me, _| f(me))
    }

    /// Claims what is wanted and runs the change as one statement, which is given the dictionary.
    fn defining<T>(
        &mut self,
        wanted: impl Fn(&Catalog) -> Vec<Claim>,
        f: impl FnOnce(&mut Self, &Catalog) -> SqlResult<T>,
    ) -> SqlResult<T> {
        // Nothing is held but what the transaction has: no place in a row's queue, no snapshot of the
        // statement's.
        let role = self.role;
        // What is made is the role's, which stays (definers/G3).
        let wanted = |c: &Catalog| {
            let mut all = wanted(c);
            if role != BOOTSTRAP {
                all.extend(c.role(role).map(|r| claims::role(&r.name, false)))
            }
            all
        };
        let claimed = match self.is_failed() {
            true => Ok(self.catalog()),
            false => self.claim(wanted),
        };
        let catalog = claimed.inspect_err(|_| self.abort_statement())?;
        // Others may publish a catalog between the reading of its version and the statement's start.
        while let Err(e) = self.start_statement(self.catalog_version(), &[], true) {
            if e.sqlstate() != STALE {
                if !self.in_transaction() {
                    self.rollback()
                }
                return Err(e);
            }
        }
        let _phase = ondol_base::sim::phase("ddl");
        // What has come since was not claimed (definers/G1).
        let catalog = if mutated("looked_after_claims") { self.catalog() } else { catalog };
        match f(self, &catalog) {
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

    /// Gives the number of its heaps.
    pub fn create_table(&mut self, name: impl Into<Name>, columns: Vec<ColumnDef>) -> SqlResult<u32> {
        self.create_checked_table(name, columns, Vec::new())
    }
    /// The same, with checks: who inserts and updates looks at them, in SQL.
    pub fn create_checked_table(
        &mut self,
        name: impl Into<Name>,
        columns: Vec<ColumnDef>,
        checks: Vec<CheckDef>,
    ) -> SqlResult<u32> {
        self.create_table_of(name, columns, checks, Nature::default())
    }
    /// The same of a materialised view.
    pub fn create_table_of(
        &mut self,
        name: impl Into<Name>,
        columns: Vec<ColumnDef>,
        mut checks: Vec<CheckDef>,
        nature: Nature,
    ) -> SqlResult<u32> {
        let name = &name.into();
        // As the dictionary will tell of them.
        checks.sort_by(|a, b| a.name.cmp(&b.name));
        let wanted = |c: &Catalog| {
            let mut claims = claims::create_checked_table(c, name, &columns, &checks);
            claims.extend(nature.material.iter().flat_map(|m| claims::create_view(c, name, &m.query)));
            claims
        };
        self.defining(wanted, |me, c| {
            there_is_schema(c, name.schema)?;
            free_name(c, name)?;
            for (i, col) in columns.iter().enumerate() {
                if columns[..i].iter().any(|x| x.name == col.name) {
                    return Err(SqlError::new(
                        sqlstate::DUPLICATE_COLUMN,
                        format!("column \"{}\" specified more than once", col.name),
                    ));
                }
            }
            few_columns(&columns)?;
            let mut columns = columns.clone();
            // As the dictionary will tell of it (dictionary/D5).
            columns.iter_mut().for_each(|c| c.packed = c.is_packed());
            let (id, schema, name_of) = (me.db.next_object_in(name.schema)?, name.schema, name.name.clone());
            let (indexes, checks, foreign) = (vec![], checks.clone(), vec![]);
            let nature = nature.clone();
            let mut def = TableDef { id, schema, name: name_of, columns, indexes, checks, foreign, nature };
            def.lay_anew();
            let heaps = me.db.next_heaps(&def)?;
            me.made.push(heaps);
            let db = me.db.clone();
            d::add_table(&mut me.session, &db.dictionary, &def, heaps)?;
            let kind = if def.is_material() { RightsOf::Material } else { RightsOf::Table };
            let table = Table::new(&db.kernel, def, heaps, vec![], None);
            me.draft().table(name, Some(table));
            me.own(c, kind, schema, id)?;
            Ok(heaps)
        })
    }

    pub fn drop_table(&mut self, name: impl Into<Name>) -> SqlResult<()> {
        let name = &name.into();
        self.defining(
            |c| claims::drop_table(c, name),
            |me, c| {
                let table = find(c, name)?.clone();
                if let Some(r) = table.references.iter().find(|r| r.table != table.def.id) {
                    let name = &name.name;
                    let message = format!("cannot drop table {name} because other objects depend on it");
                    return Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message).detail(
                        format!("constraint {} on table {} depends on table {name}", r.key.name, r.name.name),
                    ));
                }
                let what = format!("{} {}", table.def.kind_name(), table.def.name);
                views::refuse_views_over(c, table.def.id, &what)?;
                me.refuse_rested(table.def.id, &what)?;
                me.mark_table(&table, "DROP TABLE")?;
                let db = me.db.clone();
                d::remove_table(&mut me.session, &db.dictionary, table.def.id)?;
                let indexes = table.def.indexes.iter().map(|i| i.id);
                me.drop_comments(c, indexes.chain([table.def.id]))?;
                me.drop_rights(c, table.def.id)?;
                me.dropped.push(table.heaps);
                for sequence in table.def.sequences() {
                    me.remove_sequence(sequence)?
                }
                let draft = me.draft();
                draft.table(name, None);
                if table.def.is_material() {
                    draft.drop_material(table.def.id)
                }
                table.def.indexes.iter().for_each(|i| draft.index(table.def.index_name(i), None));
                me.relink(&table.def, None)
            },
        )
    }

    /// Gives the numbers of their new heaps.
    pub fn truncate(&mut self, names: &[Name]) -> SqlResult<Vec<u32>> {
        self.truncate_tables(names, false)
    }
    /// The same; `restart`: the sequences that go with their columns begin again.
    pub fn truncate_tables(&mut self, names: &[Name], restart: bool) -> SqlResult<Vec<u32>> {
        let wanted = |c: &Catalog| names.iter().flat_map(|n| claims::truncate(c, n, restart)).collect();
        self.defining(wanted, |me, c| {
            let mut numbers = vec![];
            for name in names {
                find(c, name)?;
                // One may be named twice.
                let old = find(&me.catalog(), name)?.clone();
                me.mark_table(&old, "TRUNCATE")?;
                let db = me.db.clone();
                let mut def = old.def.clone();
                def.lay_anew();
                let heaps = db.next_heaps(&def)?;
                me.made.push(heaps);
                numbers.push(heaps);
                me.dropped.push(old.heaps);
                d::remove_table(&mut me.session, &db.dictionary, def.id)?;
                d::add_table(&mut me.session, &db.dictionary, &def, heaps)?;
                let layout = Table::layout_of(&def);
                let indexes = (def.indexes.iter())
                    .map(|i| TableIndex::new(&db.kernel, &def, &layout, i.clone(), 0))
                    .collect::<SqlResult<Vec<_>>>()?;
                let table = Table::new(&db.kernel, def, heaps, indexes, Some(&old));
                me.draft().table(name, Some(table));
                for sequence in old.def.sequences().filter(|_| restart) {
                    if let Some(name) = c.sequence_by_id(sequence).map(|s| s.def.full_name()) {
                        me.change_sequence(&name, &|def, _| {
                            Ok((def.options, crate::sequence::begin(def.options.start, false)))
                        })?
                    }
                }
            }
            Ok(numbers)
        })
    }

    /// Builds the index, in parallel where it pays. Outside an explicit transaction others go on using the
    /// table meanwhile (see `online`), unless it is a primary key's; its columns are NOT NULL from now on.
    #[allow(clippy::too_many_arguments)]
    pub fn create_index(
        &mut self,
        table: impl Into<Name>,
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
        table: impl Into<Name>,
        name: &str,
        kind: IndexKind,
        unique: bool,
        columns: Vec<IndexColumn>,
        primary: bool,
        constraint: bool,
        progress: &dyn Fn(u64, u64),
    ) -> SqlResult<()> {
        let (id, name, options) = (0, name.to_string(), IndexOptions::default());
        let def = IndexDef { id, name, kind, unique, primary, constraint, columns, options };
        self.build_index(table, &def, progress)
    }
    /// The same by a definition, whose number is given here.
    pub fn build_index(
        &mut self,
        table: impl Into<Name>,
        wanted: &IndexDef,
        progress: &dyn Fn(u64, u64),
    ) -> SqlResult<()> {
        let (table, name, primary) = (&table.into(), &*wanted.name, wanted.primary);
        let index_name = &Name::new(table.schema, name);
        let def = wanted.clone();
        if def.unique && matches!(def.kind, IndexKind::Crtree { .. }) {
            // Equal points may be anywhere in it.
            return Err(SqlError::unsupported("a unique index of the method \"crtree\""));
        }
        let wanted = |c: &Catalog| claims::create_index(c, table, name);
        self.defining(wanted, |me, c| {
            free_name(c, index_name)?;
            let old = find(c, table)?.clone();
            if primary && old.def.indexes.iter().any(|i| i.primary) {
                return Err(SqlError::new(
                    sqlstate::INVALID_TABLE_DEFINITION,
                    format!("multiple primary keys for table \"{}\" are not allowed", table.name),
                ));
            }
            let is_volatile = table.schema == TEMPORARY || old.def.nature.unlogged;
            let online = !primary && !me.in_transaction() && !is_volatile;
            if !online {
                let what = if def.constraint { "ALTER TABLE" } else { "CREATE INDEX" };
                me.mark_table(&old, what)?
            }
            let mut old = match primary {
                true => {
                    let columns: Vec<usize> = def.columns.iter().map(|c| c.column).collect();
                    me.forbid_nulls(table, &columns)?;
                    find(&me.catalog(), table)?.clone()
                }
                false => old,
            };
            let db = me.db.clone();
            let def = IndexDef { id: db.next_object_in(table.schema)?, ..def };
            let rows = old.count_rows();
            let layout = Table::layout_of(&old.def);
            let index = TableIndex::new(&db.kernel, &old.def, &layout, def.clone(), rows)?;
            let from = match online {
                true => From::Snapshot(me.installed_snapshot()),
                false => From::Own(me.session.view.txn),
            };
            let empty = vec![(old.clone(), vec![index.clone()])];
            let cancel = me.session.patience.cancel.clone();
            let filled = fill(&db.kernel, empty, from, cancel, &|done| progress(done, rows))?;
            me.outdated.append(filled.outdated);
            if let From::Snapshot(since) = from {
                old = me.take_online(&old, &index, since)?
            }
            d::add_index(&mut me.session, &db.dictionary, old.def.id, &def)?;
            let mut table_def = old.def.clone();
            table_def.indexes.push(def);
            let mut indexes = old.indexes.clone();
            indexes.push(index);
            let new = Table::new(&db.kernel, table_def, old.heaps, indexes, Some(&old));
            let draft = me.draft();
            draft.index(index_name.clone(), Some(table));
            draft.table(table, Some(new));
            Ok(())
        })
    }

    /// Makes indexes of a table anew from its rows: the one of the name, or all. They were in step with the
    /// rows before; what was wrong with one is gone.
    pub fn reindex(&mut self, table: impl Into<Name>, only: Option<&str>) -> SqlResult<()> {
        let table = &table.into();
        self.defining(
            |c| claims::change_table(c, table),
            |me, c| {
                let old = find(c, table)?.clone();
                me.mark_table(&old, "REINDEX")?;
                let (db, rows, layout) = (me.db.clone(), old.count_rows(), Table::layout_of(&old.def));
                let mut indexes = Vec::with_capacity(old.indexes.len());
                let mut made = vec![];
                for i in &old.indexes {
                    if only.is_some_and(|name| name != i.def.name) {
                        indexes.push(i.clone());
                        continue;
                    }
                    let new = TableIndex::new(&db.kernel, &old.def, &layout, i.def.clone(), rows)?;
                    made.push(new.clone());
                    indexes.push(new)
                }
                let (from, cancel) = (From::Own(me.session.view.txn), me.session.patience.cancel.clone());
                let filled = fill(&db.kernel, vec![(old.clone(), made)], from, cancel, &|_| {})?;
                me.outdated.append(filled.outdated);
                let new = Table::new(&db.kernel, old.def.clone(), old.heaps, indexes, Some(&old));
                me.draft().table(table, Some(new));
                Ok(())
            },
        )
    }

    /// Makes an index the table's PRIMARY KEY or a UNIQUE constraint; a primary key's columns are NOT NULL
    /// from now on.
    pub fn adopt_index(
        &mut self,
        table: impl Into<Name>,
        name: &str,
        primary: bool,
        new_name: Option<&str>,
    ) -> SqlResult<()> {
        let table = &table.into();
        let of_index = |name: &str| Name::new(table.schema, name);
        let wanted = |c: &Catalog| {
            let names = [Some(name), new_name];
            let mut claims = claims::change_table(c, table);
            claims.extend(names.into_iter().flatten().map(|n| claims::name(of_index(n))));
            claims
        };
        self.defining(wanted, |me, c| {
            if primary && let Some(i) = find(c, table)?.def.indexes.iter().find(|i| i.name == name) {
                let columns: Vec<usize> = i.columns.iter().map(|c| c.column).collect();
                me.forbid_nulls(table, &columns)?
            }
            find(c, table)?;
            let old = find(&me.catalog(), table)?.clone();
            me.mark_table(&old, "ALTER TABLE")?;
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
                free_name(c, &of_index(n))?;
                i.name = n.to_string()
            }
            let i = i.clone();
            let draft = me.draft();
            draft.index(of_index(name), None);
            draft.index(of_index(&i.name), Some(table));
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
                        point: x.point.clone(),
                    }),
                    false => x.clone(),
                })
                .collect();
            let new = Table::new(&db.kernel, def, old.heaps, indexes, Some(&old));
            me.draft().table(table, Some(new));
            Ok(())
        })
    }

    pub fn drop_index(&mut self, index: impl Into<Name>) -> SqlResult<()> {
        let index = &index.into();
        self.defining(
            |c| claims::drop_index(c, index),
            |me, c| {
                let name = &index.name;
                let missing =
                    || SqlError::new(sqlstate::UNDEFINED_OBJECT, format!("index \"{name}\" does not exist"));
                let old = c.table_of_index(index).cloned().ok_or_else(missing)?;
                let table = &old.def.name;
                let mut def = old.def.clone();
                let at = def.indexes.iter().position(|i| i.name == *name).ok_or_else(missing)?;
                if def.indexes[at].constraint {
                    return Err(SqlError::new(
                        sqlstate::DEPENDENT_OBJECTS_STILL_EXIST,
                        format!(
                            "cannot drop index {name} because constraint {name} on table {table} requires it"
                        ),
                    )
                    .hint(format!("You can drop constraint {name} on table {table} instead.")));
                }
                me.refuse_in_use(&old, "DROP INDEX", name)?;
                me.mark_table(&old, "DROP INDEX")?;
                let gone = def.indexes.remove(at);
                let db = me.db.clone();
                def.quiet_hidden();
                match def.columns == old.def.columns {
                    true => d::remove_index(&mut me.session, &db.dictionary, gone.id)?,
                    false => {
                        d::remove_table(&mut me.session, &db.dictionary, def.id)?;
                        d::add_table(&mut me.session, &db.dictionary, &def, old.heaps)?
                    }
                }
                me.drop_comments(c, [gone.id])?;
                let indexes = old.indexes.iter().filter(|i| i.def.id != gone.id).cloned().collect();
                let new = Table::new(&db.kernel, def, old.heaps, indexes, Some(&old));
                let draft = me.draft();
                draft.index(index.clone(), None);
                draft.table(&old.def.full_name(), Some(new));
                Ok(())
            },
        )
    }

    /// Registers a query; gives its ID. `replace`: CREATE OR REPLACE keeps the ID.
    pub fn create_function(&mut self, mut function: FunctionDef, replace: bool) -> SqlResult<u32> {
        let wanted = function.clone();
        self.defining(
            |c| claims::create_function(c, &wanted),
            |me, c| {
                there_is_schema(c, function.schema)?;
                let same = c
                    .functions_named(&function.name)
                    .find(|f| f.schema == function.schema && f.arg_types().eq(function.arg_types()))
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
                let (id, schema) = (function.id, function.schema);
                me.draft().function(id, Some(Arc::new(function)));
                if !c.functions.contains_key(&id) {
                    me.own(c, RightsOf::Function, schema, id)?
                }
                Ok(id)
            },
        )
    }

    pub fn drop_function(&mut self, id: u32) -> SqlResult<()> {
        self.defining(
            |c| claims::drop_function(c, id),
            |me, c| {
                let db = me.db.clone();
                views::refuse_views_of(c, Slot::Function(id), &format!("function number {id}"))?;
                me.refuse_rested(id, &format!("function number {id}"))?;
                if !c.functions.contains_key(&id) {
                    return Err(SqlError::new(
                        sqlstate::UNDEFINED_FUNCTION,
                        format!("function number {id} does not exist"),
                    ));
                }
                d::remove_function(&mut me.session, &db.dictionary, id)?;
                me.drop_comments(c, [id])?;
                me.drop_rights(c, id)?;
                me.draft().function(id, None);
                Ok(())
            },
        )
    }
}

fn few_columns(columns: &[ColumnDef]) -> SqlResult<()> {
    if columns.len() > MAX_COLUMNS {
        let message = format!("tables can have at most {MAX_COLUMNS} columns");
        return Err(SqlError::new("54011", message));
    }
    Ok(())
}

fn free_name(c: &Catalog, name: &Name) -> SqlResult<()> {
    if c.relations.contains_key(name) {
        let message = format!("relation \"{}\" already exists", name.name);
        return Err(SqlError::new(sqlstate::DUPLICATE_TABLE, message));
    }
    Ok(())
}

/// What is made in a schema is claimed together with its staying (definers/G3).
fn there_is_schema(c: &Catalog, number: u32) -> SqlResult<()> {
    match c.is_schema(number) {
        true => Ok(()),
        false => Err(SqlError::new("3F000", format!("schema number {number} does not exist"))),
    }
}
