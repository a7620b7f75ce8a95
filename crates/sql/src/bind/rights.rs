//! What bound statements need to be allowed ([`crate::needs`]).
use super::Binder;
use super::updatable::{Change, Changed};
use crate::bound::{
    CTID, Copy, CopyEnd, Declare, Dropped, Expr, ExprKind, Insert, InsertColumn, Modify, Query, Rel,
    Statement, Viewed, own_exprs, walk_expr, walk_query,
};
use crate::needs::{Columns, Need, What, Who, relation_owner};
use ondol_engine::acl::{self, Privileges};
use ondol_engine::name::TEMPORARY;
use ondol_engine::role::{CHECKPOINT, READ_SERVER_FILES, WRITE_SERVER_FILES};
use ondol_engine::table_lock::TableLock;
use ondol_engine::{Catalog, CommentKind, Name, TableDef, schema_id};
use ondol_types::func::{self, FuncId};
use ondol_types::{SqlError, TypeId, Value, sqlstate};
use std::collections::BTreeSet;

/// Relations of the catalogue that superusers alone read.
const CLOSED: &[&str] = &[
    "pg_authid",
    "pg_backend_memory_contexts",
    "pg_config",
    "pg_file_settings",
    "pg_hba_file_rules",
    "pg_ident_file_mappings",
    "pg_largeobject",
    "pg_shadow",
    "pg_shmem_allocations",
    "pg_statistic",
    "pg_statistic_ext_data",
    "pg_subscription",
    "pg_user_mapping",
];

fn forbidden(message: &str) -> SqlError {
    SqlError::new(sqlstate::INSUFFICIENT_PRIVILEGE, message)
}

/// What reading or writing a file on the server needs.
pub(super) fn file(reads: bool) -> Need {
    let (role, word, what) = match reads {
        true => (READ_SERVER_FILES, "pg_read_server_files", "COPY from a file"),
        false => (WRITE_SERVER_FILES, "pg_write_server_files", "COPY to a file"),
    };
    let message = format!("must be superuser or have privileges of the {word} role to {what}");
    let hint = "Anyone can COPY to stdout or from stdin. psql's \\copy command also works for anyone.";
    Need::of_caller(What::RightsOf { role, error: forbidden(&message).hint(hint) })
}

/// Gathers what a statement needs.
struct Gatherer<'c> {
    catalog: &'c Catalog,
    needs: Vec<Need>,
}

impl Gatherer<'_> {
    fn add(&mut self, need: Need) {
        // The same relation is often read more than once.
        if !self.needs.contains(&need) {
            self.needs.push(need)
        }
    }
    fn read(&mut self, who: Who, id: u32, columns: BTreeSet<u16>, whole: Privileges) {
        let (select, insert, update, refer) = (Some(columns), None, None, None);
        self.add(Need { who, what: What::Relation { id, whole, select, insert, update, refer } })
    }

    /// A query, and those in it. `target`: whether relation 0 is what a statement changes, of which more is
    /// needed than this.
    fn query(&mut self, q: &Query, who: Who, target: bool) -> BTreeSet<u16> {
        let mut used: Vec<BTreeSet<u16>> = vec![BTreeSet::new(); q.rels.len()];
        walk_query(q, 0, &mut |e, level| {
            note(e, level, &mut used);
            true
        });
        let of_target = used.first().cloned().unwrap_or_default();
        for (n, entry) in q.rels.iter().enumerate() {
            if target && n == 0 {
                continue;
            }
            let columns = std::mem::take(&mut used[n]);
            let locked = q.locks.iter().any(|(rels, ..)| rels.contains(&(n as u16)));
            let whole = if locked { acl::UPDATE } else { 0 };
            match &entry.rel {
                Rel::Table(t) => self.read(who, t.def.id, columns, whole),
                Rel::Query(inner) => match inner.of_view {
                    None => drop(self.query(inner, who, false)),
                    Some(Viewed::View(id)) => {
                        self.read(who, id, columns, whole);
                        self.query(inner, lent(self.catalog, id, who), false);
                    }
                    Some(Viewed::System(name)) => self.system(who, name),
                },
                Rel::System(name) => self.system(who, name),
                Rel::Sequence(id, _) => self.read(who, *id, columns, whole),
                // Views lend their owner's right to read and change, and not to call.
                Rel::Function { function, .. } => self.add(Need::of_caller(What::Function(function.id))),
                Rel::Foreign(_) => {
                    let Need { what, .. } = innodb();
                    self.add(Need { who, what })
                }
                Rel::With(_) | Rel::Values(_) | Rel::Series { .. } | Rel::Places { .. } => {}
            }
        }
        q.with.iter().for_each(|w| drop(self.query(&w.query, who, false)));
        if let Some(set) = &q.set {
            self.query(&set.left, who, false);
            self.query(&set.right, who, false);
        }
        own_exprs(q, &mut |e| self.queries_in(e, who));
        of_target
    }

    fn system(&mut self, who: Who, name: &'static str) {
        if CLOSED.contains(&name) {
            self.add(Need { who, what: What::System(name) })
        }
    }

    /// The queries right below an expression.
    fn queries_in(&mut self, e: &Expr, who: Who) {
        walk_expr(e, 0, &mut |e, _| match &e.kind {
            ExprKind::Scalar(q) | ExprKind::Exists { query: q, .. } => {
                self.query(q, who, false);
                false
            }
            ExprKind::Quantified { left, query, .. } => {
                left.iter().for_each(|l| self.queries_in(l, who));
                self.query(query, who, false);
                false
            }
            ExprKind::Call { func, args } if func::sequence::takes_number(*func) => {
                self.sequence(*func, args.first());
                true
            }
            _ => true,
        })
    }

    /// A sequence that is taken from, asked or set.
    fn sequence(&mut self, function: FuncId, number: Option<&Expr>) {
        use ondol_types::func::sequence::id;
        let privileges = match function {
            id::NEXTVAL_OF => acl::USAGE | acl::UPDATE,
            id::CURRVAL_OF => acl::USAGE | acl::SELECT,
            _ => acl::UPDATE,
        };
        let what = match number.map(|e| &e.kind) {
            Some(ExprKind::Const(Value::Int4(n))) => What::AnyOf { id: *n as u32, privileges },
            // By which names are looked up is a matter of a text, and not of a number that is computed.
            _ => What::Superuser(forbidden("permission denied for a sequence by its number")),
        };
        self.add(Need::of_caller(what))
    }

    fn insert(&mut self, i: &Insert) {
        let who = i.through.map_or(Who::Caller, Who::Owner);
        self.query(&i.source, Who::Caller, false);
        i.with.iter().for_each(|w| drop(self.query(&w.query, Who::Caller, false)));
        let mut selected = BTreeSet::new();
        let mut used = [BTreeSet::new(), BTreeSet::new()];
        for t in &i.returning {
            walk_expr(&t.expr, 0, &mut |e, level| {
                note(e, level, &mut used);
                true
            });
            self.queries_in(&t.expr, Who::Caller)
        }
        for (c, value) in i.table.0.def.columns.iter().zip(&i.columns) {
            // What an identity column takes is its own.
            if let InsertColumn::Value(e) = value
                && c.identity().is_none()
            {
                self.queries_in(e, who)
            }
        }
        let given =
            i.columns.iter().enumerate().filter(|(n, c)| {
                matches!(c, InsertColumn::Source(_)) && !i.table.0.def.columns[*n].is_hidden()
            });
        let inserted: BTreeSet<u16> = given.map(|(n, _)| n as u16).collect();
        let mut update: Columns = None;
        if let Some(conflict) = &i.on_conflict {
            for a in &conflict.arbiters {
                if let Some(index) = i.table.0.def.indexes.get(usize::from(*a)) {
                    selected.extend(index.keys().iter().map(|k| k.column as u16))
                }
            }
            if let Some(u) = &conflict.update {
                // Of the row that is there; the one that was proposed is nobody's yet.
                let own = self.query_of_target(&u.query, 2);
                selected.extend(own);
                update = Some(u.assign.iter().copied().collect())
            }
        }
        selected.extend(std::mem::take(&mut used[0]));
        selected.retain(|c| usize::from(*c) < i.table.0.def.shown().len());
        let select = (!selected.is_empty()).then_some(selected);
        let (insert, refer) = (Some(inserted), None);
        self.add(Need {
            who,
            what: What::Relation { id: i.table.0.def.id, whole: 0, select, insert, update, refer },
        })
    }

    /// A query whose first relations are what is changed: the columns of relation 0 that it reads.
    fn query_of_target(&mut self, q: &Query, own: usize) -> BTreeSet<u16> {
        let mut used: Vec<BTreeSet<u16>> = vec![BTreeSet::new(); q.rels.len().max(own)];
        walk_query(q, 0, &mut |e, level| {
            note(e, level, &mut used);
            true
        });
        own_exprs(q, &mut |e| self.queries_in(e, Who::Caller));
        used.swap_remove(0)
    }

    fn modify(&mut self, m: &Modify) {
        let who = m.through.map_or(Who::Caller, Who::Owner);
        let mut selected = self.query(&m.query, Who::Caller, true);
        let mut used: Vec<BTreeSet<u16>> = vec![BTreeSet::new(); m.query.rels.len()];
        for t in &m.returning {
            walk_expr(&t.expr, 0, &mut |e, level| {
                note(e, level, &mut used);
                true
            });
            self.queries_in(&t.expr, Who::Caller)
        }
        selected.extend(used.into_iter().next().unwrap_or_default());
        selected.retain(|c| usize::from(*c) < m.table.0.def.shown().len());
        let select = (!selected.is_empty()).then_some(selected);
        let update = (!m.delete).then(|| m.assign.iter().copied().collect());
        let (whole, insert, refer) = (if m.delete { acl::DELETE } else { 0 }, None, None);
        self.add(Need {
            who,
            what: What::Relation { id: m.table.0.def.id, whole, select, insert, update, refer },
        })
    }

    fn statement(&mut self, s: &Statement) {
        let c = self.catalog;
        match s {
            Statement::Query(q) => drop(self.query(q, Who::Caller, false)),
            Statement::Insert(i) => self.insert(i),
            Statement::Modify(m) => self.modify(m),
            Statement::Declare(Declare { query, .. }) => drop(self.query(query, Who::Caller, false)),
            Statement::Explain { statement, .. } => self.statement(statement),
            Statement::Copy(Copy::To { query, end, .. }) => {
                self.query(query, Who::Caller, false);
                if matches!(end, CopyEnd::File(_)) {
                    self.add(file(false))
                }
            }
            Statement::Copy(Copy::From { table, columns, end, defaults, .. }) => {
                for (n, e) in defaults {
                    if table.0.def.columns.get(usize::from(*n)).is_some_and(|c| c.identity().is_none()) {
                        self.queries_in(e, Who::Caller)
                    }
                }
                let insert = Some(columns.iter().copied().collect());
                let (select, update, refer) = (None, None, None);
                let id = table.0.def.id;
                let what = What::Relation { id, whole: 0, select, insert, update, refer };
                self.add(Need::of_caller(what));
                if matches!(end, CopyEnd::File(_)) {
                    self.add(file(true))
                }
            }
            Statement::Execute { args, .. } => args.iter().for_each(|e| self.queries_in(e, Who::Caller)),
            Statement::ImportForeignSchema { into, .. } => {
                self.create_in(*into);
                self.add(innodb())
            }
            Statement::CreateTable { name, columns, foreign, if_not_exists, source, .. } => {
                // Whoever reads the table does so by its owner's right to read the file.
                if source.is_some() {
                    self.add(innodb())
                }
                if !(*if_not_exists && c.relations.contains_key(name)) {
                    self.create_in(name.schema);
                    self.types(columns.iter().map(|c| c.domain.unwrap_or(c.ty.id)));
                    for f in foreign {
                        self.refer(&f.table, &f.referenced)
                    }
                }
            }
            Statement::CreateTableAs { name, query, .. } => {
                self.create_in(name.schema);
                self.query(query, Who::Caller, false);
            }
            Statement::Refresh { name, .. } => {
                self.owner(name, None, None);
                // Its query is asked with its owner's rights, who is the one that may refresh it.
            }
            Statement::CreateView { def, replace } => {
                self.create_in(def.schema);
                if *replace {
                    self.owner(&def.full_name(), None, None)
                }
            }
            Statement::AlterView { name, def, .. } => {
                self.owner(name, None, None);
                self.moved(name, &def.full_name())
            }
            Statement::DropView { names, .. }
            | Statement::DropTable { names, .. }
            | Statement::DropSequence { names, .. }
            | Statement::DropIndex { names, .. } => {
                names.iter().filter_map(Dropped::there).for_each(|n| self.owner(n, Some(n.schema), None))
            }
            Statement::Comment { on, name, .. } => match (on.kind, name) {
                (CommentKind::Type | CommentKind::TypeConstraint, Some(name)) => self.type_owner(name, None),
                (CommentKind::Schema, _) => self.schema_owner_of(on.id),
                (CommentKind::Function, _) => self.function_owner(on.id, None),
                (_, Some(name)) => self.owner(name, None, None),
                (_, None) => {}
            },
            Statement::Truncate { names, .. } => {
                for t in names.iter().filter_map(|n| c.table(n)) {
                    self.add(Need::relation(Who::Caller, t.def.id, acl::TRUNCATE))
                }
            }
            Statement::CreateSequence { name, owner, .. } => {
                self.create_in(name.schema);
                self.sequence_owner(owner)
            }
            Statement::LogSequence { name, .. } => self.owner(name, None, None),
            Statement::AlterSequence { name, owner, .. } => {
                self.owner(name, None, None);
                self.sequence_owner(owner)
            }
            Statement::RenameSequence { name, to, .. } => {
                self.owner(name, None, None);
                self.moved(name, to)
            }
            Statement::CreateIndex { table, .. } => {
                self.owner(table, None, None);
                self.create_in(table.schema)
            }
            Statement::Reindex { tables, .. } => {
                for (table, index) in tables {
                    let named = index.as_ref().map(|i| Name::new(table.schema, i.clone()));
                    self.owner(named.as_ref().unwrap_or(table), None, None)
                }
            }
            Statement::AlterTable(a) => {
                self.owner(&a.table, None, None);
                if let Some(def) = &a.def {
                    self.moved(&a.table, &def.full_name());
                    let old = c.table(&a.table).map(|t| &t.def.columns);
                    let is_new = |c: &&ondol_engine::ColumnDef| old.is_none_or(|o| !o.contains(c));
                    self.types(def.columns.iter().filter(is_new).map(|c| c.domain.unwrap_or(c.ty.id)))
                }
                for f in &a.foreign {
                    self.refer(&f.table, &f.referenced)
                }
            }
            Statement::CreateFunction { function, replace } => {
                self.create_in(function.schema);
                let same = |f: &&std::sync::Arc<ondol_engine::FunctionDef>| {
                    f.schema == function.schema && f.arg_types().eq(function.arg_types())
                };
                let old = c.functions_named(&function.name).find(same).map(|f| f.id);
                if let Some(id) = old.filter(|_| *replace) {
                    self.function_owner(id, None)
                }
                self.types(function.arg_types())
            }
            Statement::DropFunction { functions, .. } => {
                for id in functions.iter().filter_map(Dropped::there) {
                    self.function_owner(*id, c.functions.get(id).map(|f| f.schema))
                }
            }
            Statement::MoveFunction { function, schema } => {
                self.function_owner(*function, None);
                self.create_in(*schema)
            }
            Statement::CreateSchema { name, if_not_exists, owner, .. } => {
                if !(*if_not_exists && c.schema(name).is_some()) {
                    self.add(Need::of_caller(What::Database(acl::CREATE)));
                    if let Some(owner) = owner {
                        self.add(Need::of_caller(What::Member(*owner)))
                    }
                }
            }
            Statement::RenameSchema { name, .. } => {
                self.schema_owner(name);
                self.add(Need::of_caller(What::Database(acl::CREATE)))
            }
            Statement::DropSchema { names, .. } => {
                names.iter().filter_map(Dropped::there).for_each(|n| self.schema_owner(n))
            }
            Statement::CreateType { def, .. } => {
                self.create_in(def.schema);
                self.types(def.made_of().map(|t| t.id))
            }
            Statement::AlterType { name, def, .. } => {
                self.type_owner(name, None);
                self.moved(name, &Name::new(def.schema, &*def.name))
            }
            Statement::DropType { names, .. } => {
                names.iter().filter_map(Dropped::there).for_each(|n| self.type_owner(n, Some(n.schema)))
            }
            Statement::LockTables { names, mode, .. } => {
                let privileges = match mode {
                    TableLock::AccessShare => acl::SELECT,
                    TableLock::RowExclusive => acl::INSERT | acl::UPDATE | acl::DELETE | acl::TRUNCATE,
                    _ => acl::UPDATE | acl::DELETE | acl::TRUNCATE,
                };
                for t in names.iter().filter_map(|n| c.table(n)) {
                    self.add(Need::of_caller(What::AnyOf { id: t.def.id, privileges }))
                }
            }
            Statement::Checkpoint => {
                let message = "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT";
                self.add(Need::of_caller(What::RightsOf { role: CHECKPOINT, error: forbidden(message) }))
            }
            // What each does to its objects is looked at when it is done: it depends on who is named.
            Statement::Role(_) => {}
            Statement::Begin(_)
            | Statement::SetTransaction { .. }
            | Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::SetConstraints { .. }
            | Statement::Savepoint(_)
            | Statement::Release(_)
            | Statement::RollbackTo(_)
            | Statement::Set { .. }
            | Statement::AlterSystem(_)
            | Statement::Show(_)
            | Statement::Prepare { .. }
            | Statement::Deallocate(_)
            | Statement::Fetch(_)
            | Statement::Close(_)
            | Statement::Listen(_)
            | Statement::Unlisten(_)
            | Statement::Notify { .. }
            | Statement::DiscardSequences
            | Statement::Discard { .. }
            | Statement::DiscardTemporary
            | Statement::Nothing { .. } => {}
        }
    }

    fn create_in(&mut self, schema: u32) {
        match schema {
            TEMPORARY => self.add(Need::of_caller(What::Database(acl::TEMPORARY))),
            _ => self.add(Need::create_in(schema)),
        }
    }
    /// What gets into another schema has to be let in there, and what gets another name where it is.
    fn moved(&mut self, from: &Name, to: &Name) {
        if from != to {
            self.create_in(to.schema)
        }
    }
    fn owner(&mut self, name: &Name, schema: Option<u32>, word: Option<&'static str>) {
        if let Some(need) = relation_owner(self.catalog, name, schema, word) {
            self.add(need)
        }
    }
    fn type_owner(&mut self, name: &Name, schema: Option<u32>) {
        let Some(user) = self.catalog.ty(name).and_then(|t| t.user()) else { return };
        let (id, name) = (user.number, name.name.clone());
        self.add(Need::of_caller(What::Owner { id, word: "type", name, schema }))
    }
    fn function_owner(&mut self, id: u32, schema: Option<u32>) {
        let Some(f) = self.catalog.functions.get(&id) else { return };
        self.add(Need::of_caller(What::Owner { id, word: "function", name: f.name.clone(), schema }))
    }
    fn schema_owner(&mut self, name: &str) {
        if let Some(s) = self.catalog.schema(name) {
            self.add(Need::owner(schema_id(s.number), "schema", name))
        }
    }
    fn schema_owner_of(&mut self, id: u32) {
        let found = self.catalog.schemas.iter().find(|(_, s)| schema_id(s.number) == id);
        if let Some(name) = found.map(|(n, _)| n.clone()) {
            self.schema_owner(&name)
        }
    }
    fn sequence_owner(&mut self, owner: &Option<crate::bound::Owner>) {
        if let Some(crate::bound::Owner::Column { table, .. }) = owner {
            self.owner(table, None, None)
        }
    }
    fn types(&mut self, of: impl IntoIterator<Item = TypeId>) {
        for user in of.into_iter().filter_map(|t| t.user()) {
            self.add(Need::of_caller(What::Type(user.number)))
        }
    }
    /// A foreign key refers to columns of a table; none: its primary key's.
    fn refer(&mut self, table: &Name, columns: &[String]) {
        let Some(t) = self.catalog.table(table) else { return };
        let places = match columns {
            [] => primary_key(&t.def),
            names => names.iter().filter_map(|n| t.def.column(n)).map(|c| c as u16).collect(),
        };
        let (select, insert, update, refer) = (None, None, None, Some(places));
        let what = What::Relation { id: t.def.id, whole: 0, select, insert, update, refer };
        self.add(Need::of_caller(what))
    }
}

/// Whose rights count below a view: its owner's, or those of whoever reads it (security_invoker).
fn lent(catalog: &Catalog, view: u32, reader: Who) -> Who {
    match catalog.view_by_id(view).is_some_and(|v| v.is_invoker()) {
        true => reader,
        false => Who::Owner(view),
    }
}

/// What reading another server's tables needs.
pub(super) fn innodb() -> Need {
    let message =
        "must be superuser or have privileges of the pg_read_server_files role to read files of a server";
    Need::of_caller(What::RightsOf { role: READ_SERVER_FILES, error: forbidden(message) })
}

fn primary_key(def: &TableDef) -> BTreeSet<u16> {
    let primary = def.indexes.iter().find(|i| i.primary);
    primary.iter().flat_map(|i| i.keys()).map(|k| k.column as u16).collect()
}

/// Notes the column that an expression is, if it is one of the level where the walk began.
fn note(e: &Expr, level: u16, used: &mut [BTreeSet<u16>]) {
    if let ExprKind::Column { depth, rel, column } = e.kind
        && depth == level
        && let Some(of) = used.get_mut(usize::from(rel))
        && column != CTID
    {
        of.insert(column);
    }
}

/// What a statement needs.
pub(super) fn of_statement(catalog: &Catalog, statement: &Statement) -> Vec<Need> {
    let mut gatherer = Gatherer { catalog, needs: Vec::new() };
    gatherer.statement(statement);
    gatherer.needs
}

impl Binder<'_> {
    /// What is changed through views needs the right to change each: the outermost for whoever runs the
    /// statement, those below for the owner of the one above. `reads`: the statement looks at rows.
    pub(super) fn note_views(&self, changed: &Changed, change: Change, reads: bool) {
        let Some(view) = &changed.view else { return };
        let mut who = Who::Caller;
        let named: BTreeSet<u16> = view.named.borrow().iter().map(|n| *n as u16).collect();
        for (n, id) in view.chain.iter().enumerate() {
            let (mut select, mut insert, mut update, mut whole) = (None, None, None, 0);
            match (change, n) {
                (Change::Insert, 0) => insert = Some(named.clone()),
                (Change::Update, 0) => update = Some(named.clone()),
                (Change::Insert, _) => whole = acl::INSERT,
                (Change::Update, _) => whole = acl::UPDATE,
                (Change::Delete, _) => whole = acl::DELETE,
            }
            if reads {
                // Which columns of a view are meant is not told apart from those that they are.
                select = self.catalog.view_by_id(*id).map(|v| (0..v.columns.len() as u16).collect())
            }
            let what = What::Relation { id: *id, whole, select, insert, update, refer: None };
            self.needs.borrow_mut().push(Need { who, what });
            who = lent(self.catalog, *id, who)
        }
    }
    /// The view whose owner's rights count for the table below, if it is changed through views.
    pub(super) fn through(&self, changed: &Changed) -> Option<u32> {
        let chain = changed.view.iter().flat_map(|v| v.chain.iter());
        match chain.fold(Who::Caller, |who, id| lent(self.catalog, *id, who)) {
            Who::Caller => None,
            Who::Owner(id) => Some(id),
        }
    }
    /// The same by the name that is written; nothing: none is.
    pub(super) fn note_written(&self, schema: &str) {
        if let Some(s) = self.catalog.schema(schema).filter(|_| !schema.is_empty()) {
            self.note_schema(s.number)
        }
    }
    /// A schema is named, by whoever runs the statement.
    pub(super) fn note_schema(&self, schema: u32) {
        if !self.is_view {
            let need = Need::of_caller(What::Schema { id: schema, privileges: acl::USAGE });
            let mut needs = self.needs.borrow_mut();
            if !needs.contains(&need) {
                needs.push(need)
            }
        }
    }
}
