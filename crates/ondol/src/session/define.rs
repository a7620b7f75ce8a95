//! Data definition: from bound statements to calls of the engine, with PostgreSQL's names, notices and
//! refusals.
use crate::session::Session;
use crate::session::define_view::Object;
use crate::session::facts::Facts;
use crate::session::output::Output;
use crate::session::plan::Plan;
use crate::session::planned::is_stale;
use crate::session::runtime::{context_as_of, program_of_value};
use crate::session::sequences;
use ondol_base::sync::Mutex;
use ondol_engine::{
    Catalog, CheckDef, Claim, ColumnDef, CommentKind, Compute, FunctionDef, Isolation, Name, Nature,
    OnCommit, Origin, Returns, STALE, TableDef, claims, schema_id,
};
use ondol_sql::bind;
use ondol_sql::bound::{
    AlterTable, AlteredColumn, Bound, Dropped, Expr, ExprKind, GoneKey, Insert, InsertColumn, Modify,
    NewIndex, NewSequence, Query, Statement, TableRef,
};
use ondol_sql::code::Program;
use ondol_sql::interpret::{Env, Frame, NoHost, Nowhere, RowView, run_within};
use ondol_types::catalog::registered;
use ondol_types::name::quote;
use ondol_types::{SqlError, SqlResult, TypeId, Value, ValueRef, sqlstate};
use std::sync::Arc;

/// Longest name, in bytes; longer generated ones are cut.
const NAME_MAX: usize = 63;

/// What a statement that changes definitions claims before it looks at what it is about (definers/G1). What
/// it comes to beside that is claimed on the way.
pub(crate) fn wanted(statement: &Statement, c: &Catalog) -> Vec<Claim> {
    match statement {
        Statement::CreateTable { name, columns, checks, foreign, .. } => {
            let mut claims = claims::create_checked_table(c, name, columns, checks);
            claims.extend(foreign.iter().flat_map(|f| claims::change_table(c, &f.table)));
            claims
        }
        Statement::CreateTableAs { name, columns, nature, .. } => match &nature.material {
            Some(material) => claims::create_material(c, name, columns, &material.query),
            None => claims::create_table(c, name, columns),
        },
        Statement::Refresh { name, .. } => claims::refresh(c, name),
        Statement::Comment { on, name, .. } => match name {
            Some(name) => vec![claims::name(name)],
            None if on.kind == CommentKind::Schema => {
                let it = c.schemas.iter().find(|(_, s)| schema_id(s.number) == on.id);
                it.map_or(Vec::new(), |(name, _)| claims::change_schema(c, name))
            }
            None => claims::drop_function(c, on.id),
        },
        Statement::CreateView { def, replace } => match c.view(def.full_name()).filter(|_| *replace) {
            Some(_) => claims::replace_view(c, def.full_name(), def),
            None => claims::create_view(c, def.full_name(), &def.query),
        },
        Statement::AlterView { name, def, .. } => claims::replace_view(c, name, def),
        Statement::DropView { names, .. } => {
            names.iter().filter_map(Dropped::there).flat_map(|n| claims::drop_view(c, n)).collect()
        }
        Statement::DropTable { names, .. } => {
            names.iter().filter_map(Dropped::there).flat_map(|n| claims::drop_table(c, n)).collect()
        }
        Statement::Truncate { names, restart, .. } => {
            names.iter().flat_map(|n| claims::truncate(c, n, *restart)).collect()
        }
        Statement::CreateSequence { name, owner, .. } => {
            let mut wanted = claims::create_sequence(name);
            wanted.extend(sequences::wanted(name, owner.as_ref(), c));
            wanted
        }
        Statement::LogSequence { name, .. } => claims::change_sequence(c, name),
        Statement::AlterSequence { name, owner, .. } => sequences::wanted(name, owner.as_ref(), c),
        Statement::RenameSequence { name, to, .. } => {
            let mut wanted = claims::change_sequence(c, name);
            wanted.extend(claims::create_sequence(to));
            wanted
        }
        Statement::DropSequence { names, .. } => {
            names.iter().filter_map(Dropped::there).flat_map(|n| claims::change_sequence(c, n)).collect()
        }
        Statement::CreateIndex { table, index, alter, .. } => {
            let mut claims = match &index.name {
                Some(name) => claims::create_index(c, table, name),
                None => claims::change_table(c, table),
            };
            if let Some(def) = alter.as_ref().and_then(|a| a.def.as_ref()) {
                claims.extend(claims::redefine_table(c, table, def))
            }
            claims
        }
        Statement::DropIndex { names, .. } => {
            names.iter().filter_map(Dropped::there).flat_map(|n| claims::drop_index(c, n)).collect()
        }
        Statement::Reindex { tables, .. } => {
            tables.iter().flat_map(|(t, _)| claims::change_table(c, t)).collect()
        }
        Statement::AlterTable(a) => {
            let mut claims = match &a.def {
                Some(def) => claims::redefine_table(c, &a.table, def),
                None => claims::change_table(c, &a.table),
            };
            claims.extend(a.foreign.iter().flat_map(|f| claims::change_table(c, &f.table)));
            claims
        }
        Statement::CreateFunction { function, .. } => claims::create_function(c, function),
        Statement::DropFunction { functions, .. } => {
            functions.iter().filter_map(Dropped::there).flat_map(|id| claims::drop_function(c, *id)).collect()
        }
        Statement::MoveFunction { function, schema } => claims::move_function(c, *function, *schema),
        Statement::CreateSchema { name, .. } => claims::create_schema(name),
        Statement::RenameSchema { name, to } => {
            [claims::change_schema(c, name), claims::create_schema(to)].concat()
        }
        Statement::DropSchema { names, .. } => {
            names.iter().filter_map(Dropped::there).flat_map(|n| claims::change_schema(c, n)).collect()
        }
        Statement::CreateType { def, .. } => claims::create_type(c, def),
        Statement::AlterType { name, def, .. } => claims::replace_type(c, name, def),
        Statement::DropType { names, .. } => {
            names.iter().filter_map(Dropped::there).flat_map(|n| claims::drop_type(c, n)).collect()
        }
        Statement::Role(role) => crate::session::roles::wanted(role, c),
        _ => Vec::new(),
    }
}

/// Whether a relation has the name.
fn taken(catalog: &Catalog, name: &Name) -> bool {
    catalog.relations.contains_key(name)
}

/// PostgreSQL's name for an index that was given none: table_column_key, cut to fit and numbered when taken.
pub(crate) fn choose_name(catalog: &Catalog, of: &Name, columns: &[&str], label: &str) -> String {
    let table = &*of.name;
    let mut middle = String::new();
    for c in columns {
        if middle.len() > NAME_MAX {
            break;
        }
        middle.push('_');
        middle.push_str(c);
    }
    let mut n = 0;
    loop {
        let label = if n == 0 { label.to_string() } else { format!("{label}{n}") };
        let room = NAME_MAX.saturating_sub(label.len() + 1);
        let (mut a, mut b) = (table.len(), middle.len());
        // The longer part gives first.
        while a + b > room {
            if a > b { a -= 1 } else { b -= 1 }
        }
        let name = format!("{}{}_{label}", cut(table, a), cut(&middle, b));
        if !taken(catalog, &Name::new(of.schema, &*name)) {
            return name;
        }
        n += 1;
    }
}

/// At most `len` bytes, whole characters.
fn cut(s: &str, len: usize) -> &str {
    let mut n = len.min(s.len());
    while !s.is_char_boundary(n) {
        n -= 1;
    }
    &s[..n]
}

/// Whether nothing of a table is another but what its rows are known to hold.
fn is_validation(was: &TableDef, def: &TableDef) -> bool {
    let mut then = was.clone();
    then.foreign.iter_mut().zip(&def.foreign).for_each(|(f, now)| f.validated |= now.validated);
    then.checks.iter_mut().zip(&def.checks).for_each(|(c, now)| c.validated |= now.validated);
    then == *def
}

/// Takes an outcome that nobody asked for.
struct Quiet;
impl Output for Quiet {}

/// A function as messages have it, by its name as they have that.
fn signature(name: &str, f: &FunctionDef) -> String {
    let types: Vec<&str> = f.arg_types().map(|t| t.name()).collect();
    format!("{name}({})", types.join(","))
}

impl Session {
    /// Whether it was made: with `if_not_exists` it may be there.
    pub(crate) fn create_table(
        &mut self,
        name: &Name,
        columns: &[ColumnDef],
        (constraints, checks, sequences): (&[NewIndex], &[CheckDef], &[NewSequence]),
        nature: Nature,
        if_not_exists: bool,
    ) -> SqlResult<bool> {
        let catalog = self.connection.catalog();
        if taken(&catalog, name) {
            let exists = format!("relation \"{}\" already exists", name.name);
            if !if_not_exists {
                return Err(SqlError::new(sqlstate::DUPLICATE_TABLE, exists));
            }
            self.notice(sqlstate::DUPLICATE_TABLE, format!("{exists}, skipping"));
            return Ok(false);
        }
        let mut columns = columns.to_vec();
        for s in sequences {
            self.add_sequence(name, &mut columns[s.column], s, nature.unlogged)?
        }
        self.connection.create_table_of(name, columns, checks.to_vec(), nature)?;
        for c in constraints {
            self.add_index(name, c)?;
        }
        Ok(true)
    }

    pub(crate) fn note_on_commit(&mut self, name: &Name, action: OnCommit) -> SqlResult<()> {
        if action == OnCommit::Preserve { Ok(()) } else { self.connection.set_on_commit(name, action) }
    }

    /// CREATE TABLE AS, with a query unless the table is to stay empty, and the statement that the query is
    /// of. Gives the tag.
    pub(crate) fn create_table_as(
        &mut self,
        name: &Name,
        columns: &[ColumnDef],
        query: Option<(&Query, &Bound)>,
        if_not_exists: bool,
        nature: &Nature,
    ) -> SqlResult<String> {
        let tag = if nature.material.is_some() { "CREATE MATERIALIZED VIEW" } else { "CREATE TABLE AS" };
        let is_there = taken(&self.connection.catalog(), name);
        let (before, base) = self.connection.catalog_and_base();
        if query.is_some_and(|(_, bound)| bound.catalog_version != before.version) {
            return Err(SqlError::new(STALE, "the dictionary has changed"));
        }
        self.create_table(name, columns, (&[], &[], &[]), nature.clone(), if_not_exists)?;
        let Some((query, bound)) = query.filter(|_| !is_there) else {
            return Ok(tag.into());
        };
        let done = self.fill_table(name, query, bound, columns.len(), base, true);
        if done.as_ref().is_err_and(is_stale) {
            // The whole statement is bound anew.
            self.connection.drop_table(name)?
        }
        done
    }

    /// REFRESH MATERIALIZED VIEW, whose query is of the statement's dictionary (engine/view/V4).
    pub(crate) fn refresh(
        &mut self,
        name: &Name,
        rows: Option<&(Modify, Query)>,
        concurrently: bool,
        bound: &Bound,
    ) -> SqlResult<()> {
        let (before, base) = self.connection.catalog_and_base();
        if bound.catalog_version != before.version {
            return Err(SqlError::new(STALE, "the dictionary has changed"));
        }
        let Some((old, query)) = rows else {
            self.connection.set_populated(name, false)?;
            return self.connection.truncate(std::slice::from_ref(name)).map(drop);
        };
        let columns = before.table(name).map_or(0, |t| t.def.shown().len());
        // One that was not filled has no rows.
        if !before.table(name).is_some_and(|t| t.def.is_unpopulated()) {
            let delete = Bound::of(Statement::Modify(old.clone()), Vec::new(), before.version);
            let plan = Plan::new(self.compile(&delete)?);
            self.run_program(&plan, &[], &mut Nowhere)?;
        }
        self.connection.set_populated(name, true)?;
        let done = self.fill_table(name, query, bound, columns, base, false);
        done.map(drop).map_err(|e| {
            match e.0.message.split_once("duplicate key value violates unique constraint ") {
                // There the index is made anew behind the rows.
                Some((_, index)) if !concurrently => {
                    let mut error =
                        SqlError::new(e.sqlstate(), format!("could not create unique index {index}"));
                    if let Some(detail) = &e.0.detail {
                        error = error.detail(detail.replacen("already exists.", "is duplicated.", 1))
                    }
                    error
                }
                _ => e,
            }
        })
    }

    /// Fills a table of this transaction, where the query is of a dictionary with `base` below. `parted`: it
    /// was just made, so that workers may insert.
    fn fill_table(
        &mut self,
        name: &Name,
        query: &Query,
        bound: &Bound,
        columns: usize,
        base: u64,
        parted: bool,
    ) -> SqlResult<String> {
        let (catalog, now) = self.connection.catalog_and_base();
        if now != base {
            return Err(SqlError::new(STALE, "the dictionary has changed"));
        }
        // But for the new table it is the dictionary that the query was bound to; and whether it still is the
        // newest is looked at when the statement starts.
        let table = catalog.table(name).ok_or_else(|| no_table(name))?;
        if parted && let Some(rows) = self.fill_parted(table, query, bound, catalog.version)? {
            return Ok(format!("SELECT {rows}"));
        }
        // What indexes have for themselves is computed by checks, as it is for all who insert.
        let null = |c: &ColumnDef| Expr { kind: ExprKind::Const(Value::Null), ty: c.ty, at: u32::MAX };
        let source = |(n, c): (usize, &ColumnDef)| match n < columns {
            true => InsertColumn::Source(n),
            false => InsertColumn::Value(null(c)),
        };
        let insert = Bound {
            foreign: bound.foreign.clone(),
            ..Bound::of(
                Statement::Insert(Insert {
                    table: TableRef(table.clone()),
                    source: query.clone(),
                    columns: table.def.columns.iter().enumerate().map(source).collect(),
                    on_conflict: None,
                    checks: bind::row_checks(&catalog, table, None)?,
                    returning: Vec::new(),
                    with: Vec::new(),
                    through: None,
                }),
                Vec::new(),
                catalog.version,
            )
        };
        let plan = Plan::new(self.compile(&insert)?);
        let (rows, _) = self.run_program(&plan, &[], &mut Nowhere)?;
        Ok(format!("SELECT {rows}"))
    }

    fn add_index(&mut self, table: &Name, index: &NewIndex) -> SqlResult<()> {
        let catalog = self.connection.catalog();
        let Some(t) = catalog.table(table).cloned() else {
            return Err(no_table(table));
        };
        let names = bind::index::names(&t.def, &index.definition(""));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        if index.primary && t.def.indexes.iter().any(|i| i.primary) {
            return Err(SqlError::new(
                sqlstate::INVALID_TABLE_DEFINITION,
                format!("multiple primary keys for table \"{}\" are not allowed", table.name),
            ));
        }
        let choose = |c: &Catalog| match &index.name {
            Some(n) => n.clone(),
            None if index.primary => choose_name(c, table, &[], "pkey"),
            None if index.constraint => choose_name(c, table, &names, "key"),
            None => choose_name(c, table, &names, "idx"),
        };
        let name = self.claim_index_name(table, choose)?;
        self.connection.build_index(table, &index.definition(&name), &|_, _| {})
    }

    /// The name of a new index of the table, which is claimed.
    fn claim_index_name(&mut self, table: &Name, choose: impl Fn(&Catalog) -> String) -> SqlResult<String> {
        // Another's index may have got the name while it was waited for: then the next is chosen.
        let place = |name: String| Name::new(table.schema, name);
        self.connection.claim(|c| vec![claims::name(place(choose(c)))])?;
        let catalog = self.connection.catalog();
        let name = choose(&catalog);
        if taken(&catalog, &place(name.clone())) {
            let message = format!("relation \"{name}\" already exists");
            return Err(SqlError::new(sqlstate::DUPLICATE_TABLE, message));
        }
        Ok(name)
    }

    pub(crate) fn create_index(
        &mut self,
        table: &Name,
        index: &NewIndex,
        alter: Option<&AlterTable>,
        if_not_exists: bool,
    ) -> SqlResult<()> {
        let catalog = self.connection.catalog();
        let is_there = |n: &&String| taken(&catalog, &Name::new(table.schema, &***n));
        if let Some(n) = index.name.as_ref().filter(|n| if_not_exists && is_there(n)) {
            let message = format!("relation \"{n}\" already exists, skipping");
            self.notice(sqlstate::DUPLICATE_TABLE, message);
            return Ok(());
        }
        let Some(alter) = alter else { return self.add_index(table, index) };
        if let (Some(def), Some(name)) = (&alter.def, &index.name)
            && let Some(origins) = self.calculated(alter, def)?
        {
            // The rows get what the index is about as they are copied, and the copy has the index.
            let name = self.claim_index_name(table, |_| name.clone())?;
            let mut def = def.clone();
            def.indexes.push(index.definition(&name));
            let values = self.new_values(alter)?;
            let origins = self.origins(alter, &def, values, Some(origins))?;
            return self.connection.redefine_table(table, &def, &origins);
        }
        self.alter_columns(alter)?;
        self.add_index(table, index)
    }

    /// ALTER TABLE, ALTER INDEX. Texts that name what gets another name follow where the binder says so;
    /// where one had a meaning and would have none any more, the change is refused.
    pub(crate) fn alter_table(&mut self, a: &AlterTable) -> SqlResult<()> {
        if !a.sequences.is_empty() || !a.changed_sequences.is_empty() {
            let a = self.alter_sequences_of(a)?;
            return self.alter_columns(&a);
        }
        self.alter_columns(a)
    }

    /// REINDEX of a table, or of one of its indexes.
    pub(crate) fn reindex(&mut self, table: &Name, only: Option<&str>) -> SqlResult<()> {
        let catalog = self.connection.catalog();
        let outdated = catalog.table(table).and_then(|t| bind::index::renewal(&catalog, &t.def, only));
        match outdated {
            Some(a) => self.alter_columns(&a),
            None => self.connection.reindex(table, only),
        }
    }

    /// Notes of a table that its outdated keys are to be of several versions (upkeep/renew/W4), by a
    /// transaction of its own.
    pub(crate) fn note_mixture(&mut self, table: &Name) -> SqlResult<()> {
        let catalog = self.connection.catalog();
        let Some(a) = catalog.table(table).and_then(|t| bind::index::mixture(&catalog, &t.def)) else {
            return Ok(());
        };
        let bound = Bound::of(Statement::AlterTable(a.clone()), Vec::new(), catalog.version);
        self.definition(&bound, a.tag, &mut Quiet, |s| s.alter_columns(&a))
    }

    fn alter_columns(&mut self, a: &AlterTable) -> SqlResult<()> {
        let name = &a.def.as_ref().map_or_else(|| a.table.clone(), TableDef::full_name);
        let mut def = a.def.clone();
        for gone in &a.gone {
            self.drop_keys_on(&a.table, gone, def.as_mut())?
        }
        if let Some(def) = &def {
            let was = self.connection.catalog().table(&a.table).cloned().ok_or_else(|| no_table(&a.table))?;
            if is_validation(&was.def, def) && AlteredColumn::all_stay(&a.columns) {
                self.validate_constraints(&a.table, &was.def, def)?;
                return self.add_constraints(name, a);
            }
            if was.def.nature.unlogged != def.nature.unlogged {
                for id in was.def.sequences() {
                    let catalog = self.connection.catalog();
                    let Some(sequence) = catalog.sequence_by_id(id) else { continue };
                    self.connection.log_sequence(&sequence.def.full_name(), def.nature.unlogged)?
                }
            }
            // Before anything is changed: what they are computed by may have to be bound anew.
            let values = self.new_values(a)?;
            let calculated = self.calculated(a, def)?;
            if calculated.is_none() {
                self.compute_columns(a, def)?
            }
            let origins = self.origins(a, def, values, calculated)?;
            let catalog = self.connection.catalog();
            self.drop_views_of_columns(&catalog, a)?;
            let mut before = bind::broken_definitions(&self.connection.catalog());
            // What has no meaning keeps none under another name.
            let was = self.connection.catalog().table(&a.table).cloned().ok_or_else(|| no_table(&a.table))?;
            let quoted = |what: &str, name: &str| format!("{what} \"{name}\"");
            let mut renamed = |what: &str, from: &str, to: &str| {
                if from != to {
                    let (from, to) = (quoted(what, from), quoted(what, to));
                    before.iter_mut().for_each(|b| b.0 = b.0.replace(&from, &to))
                }
            };
            renamed("table", &a.table.name, &name.name);
            for (column, now) in a.columns.iter().zip(&def.columns) {
                if let AlteredColumn::Kept(n) = column {
                    renamed("column", &was.def.columns[*n].name, &now.name)
                }
            }
            self.connection.redefine_table(&a.table, def, &origins)?;
            // What goes with its columns goes into another schema with it.
            for id in def.sequences().filter(|_| def.schema != was.def.schema) {
                let catalog = self.connection.catalog();
                let Some(sequence) = catalog.sequence_by_id(id) else { continue };
                let to = Name::new(def.schema, &*sequence.def.name);
                self.rename_sequence(&sequence.def.full_name(), &to)?
            }
            self.refuse_new_broken(&before, &format!("table {}", a.table.name))?;
            self.hold_to_checks(def, &a.validate)?;
        }
        self.add_constraints(name, a)
    }

    fn add_constraints(&mut self, name: &Name, a: &AlterTable) -> SqlResult<()> {
        for key in &a.keys {
            self.add_constraint(name, &key.index, key.using.as_deref())?
        }
        self.add_foreign_keys(name, &a.foreign)
    }

    /// Views that name columns which go: with CASCADE they go with them, otherwise the columns stay.
    fn drop_views_of_columns(&mut self, catalog: &Catalog, a: &AlterTable) -> SqlResult<()> {
        let Some(table) = catalog.table(&a.table) else { return Ok(()) };
        for (place, cascade) in &a.dropped {
            self.drop_all_on(&[Object::Column { table: table.def.id, place: *place }], *cascade)?
        }
        Ok(())
    }

    /// Where the columns come from that have values of their own in each row; `None` where these depend on
    /// more than the row.
    fn calculated(&mut self, a: &AlterTable, def: &TableDef) -> SqlResult<Option<Vec<Origin>>> {
        let catalog = self.connection.catalog();
        let was = catalog.table(&a.table).cloned().ok_or_else(|| no_table(&a.table))?;
        let kept = |n: usize| a.columns.iter().any(|c| matches!(c, AlteredColumn::Kept(k) if *k == n));
        let mut all = Vec::new();
        for (column, now) in a.columns.iter().zip(&def.columns) {
            let AlteredColumn::Computed(text) = column else { continue };
            let Some((value, of)) = bind::value_of_row(&catalog, &was.def, now, text) else {
                return Ok(None);
            };
            let types = of.iter().map(|c| was.def.columns[usize::from(*c)].ty.id).collect();
            let program = program_of_value(value, types, &catalog)?;
            let was = was.def.column(&now.name).filter(|n| !kept(*n));
            let of = of.into_iter().map(usize::from).collect();
            all.push(Origin::Computed { of, by: self.calculation(program), was })
        }
        Ok(Some(all))
    }

    /// What a program makes of values, outside of any statement: it asks nobody else.
    fn calculation(&self, program: Arc<Program>) -> Compute {
        let (names, now_us) = (self.identity.names.clone(), self.connection.transaction_time_us());
        let (cancel, styles) = (self.cancel.clone(), self.quick.styles);
        let memory_limit = self.database.work_limit;
        let with = Mutex::new((Frame::new(), self.database.engine.connect()));
        Arc::new(move |values: &[ValueRef<'_>]| {
            let (frame, connection) = &mut *with.lock();
            let context = context_as_of(&names, now_us, now_us, styles);
            let (host, cancel) = (&NoHost, Some(&*cancel));
            let env = Env { context: &context, host, cancel, memory_limit, workers: 0 };
            let mut value = Value::Null;
            let mut take = |row: &RowView<'_>| {
                value = row.values().next().map_or(Value::Null, |v| v.to_owned());
                Ok(true)
            };
            run_within(frame, &program, connection, values, &mut take, &env).map_err(|mut e| {
                // Its place is in this text, not in the statement's.
                e.0.position = None;
                e
            })?;
            Ok(value)
        })
    }

    /// Puts columns behind the table's own for those of `def` whose values are computed row by row, and has
    /// an UPDATE fill them.
    fn compute_columns(&mut self, a: &AlterTable, def: &TableDef) -> SqlResult<()> {
        let computed: Vec<(&String, &ColumnDef)> = (a.columns.iter().zip(&def.columns))
            .filter_map(|(c, now)| match c {
                AlteredColumn::Computed(text) => Some((text, now)),
                _ => None,
            })
            .collect();
        if computed.is_empty() {
            return Ok(());
        }
        let level = self.connection.transaction_isolation();
        if !matches!(level, None | Some(Isolation::ReadCommitted)) {
            // Rows that came after the transaction's snapshot are to have values, too.
            return Err(SqlError::unsupported(
                "a column with values of its own in each row, in a transaction that is not READ COMMITTED",
            ));
        }
        let was = self.connection.catalog().table(&a.table).cloned().ok_or_else(|| no_table(&a.table))?;
        let mut wide = was.def.clone();
        // They are looked at when all is done.
        wide.checks.clear();
        // A materialised view's index computes something: until then it is a table, that is changed.
        wide.nature.material = None;
        let mut origins: Vec<Origin> = (0..wide.columns.len()).map(Origin::Column).collect();
        let mut set = Vec::new();
        for (text, now) in computed {
            let free = |n: &String| wide.column(n).is_none();
            let name = (0..).map(|n| format!("new{n}")).find(free).unwrap_or_default();
            set.push(format!("{} = ({text})", quote(&name)));
            let (default, generated, owns) = (None, None, Vec::new());
            let column = ColumnDef { name, not_null: false, default, generated, owns, ..now.clone() };
            let place = wide.shown().len();
            wide.insert_column(place, column);
            origins.insert(place, Origin::Nulls)
        }
        self.connection.redefine_table(&a.table, &wide, &origins)?;
        let table = self.connection.catalog().qualified(&a.table);
        let update = format!("UPDATE {table} SET {}", set.join(", "));
        self.run_over_and_over(&update).map_err(|mut e| {
            // Its place is in this text, not in the statement's.
            e.0.position = None;
            e
        })?;
        Ok(())
    }

    /// The values of the columns that are the same in all rows, in their order.
    fn new_values(&mut self, a: &AlterTable) -> SqlResult<Vec<Value>> {
        let version = self.connection.catalog().version;
        let mut values = Vec::new();
        for column in &a.columns {
            let AlteredColumn::New(value) = column else { continue };
            if let ExprKind::Const(v) = &value.kind {
                values.push(v.clone());
                continue;
            }
            let found = self.evaluate(std::slice::from_ref(&**value), version)?;
            let none = || SqlError::new(sqlstate::INTERNAL_ERROR, "a default without a value");
            values.push(found.into_iter().next().ok_or_else(none)?)
        }
        Ok(values)
    }

    /// Where the columns of a table that is to be `def` come from.
    fn origins(
        &mut self,
        a: &AlterTable,
        def: &TableDef,
        values: Vec<Value>,
        calculated: Option<Vec<Origin>>,
    ) -> SqlResult<Vec<Origin>> {
        let mut values = values.into_iter();
        let was = self.connection.catalog().table(&a.table).cloned().ok_or_else(|| no_table(&a.table))?;
        let mut origins = Vec::with_capacity(a.columns.len());
        let count = |c: &&AlteredColumn| matches!(c, AlteredColumn::Computed(_));
        // See `compute_columns`.
        let all = if calculated.is_some() { 0 } else { a.columns.iter().filter(count).count() };
        let mut calculated = calculated.into_iter().flatten();
        let mut computed = was.def.shown().len() - all;
        // Those that are hidden stand behind these now.
        let first = computed;
        let place = |n: &usize| if *n < first { *n } else { *n + all };
        for (column, now) in a.columns.iter().zip(&def.columns) {
            origins.push(match column {
                AlteredColumn::Kept(n) => Origin::Column(place(n)),
                AlteredColumn::Computed(_) => calculated.next().unwrap_or_else(|| {
                    computed += 1;
                    Origin::Column(computed - 1)
                }),
                AlteredColumn::Cast(n) => {
                    let n = &place(n);
                    let (from, to) = (was.def.columns[*n].ty.id, now.ty);
                    let same = from == to.id && to.typmod == -1;
                    let same_form = matches!(from, TypeId::TEXT | TypeId::VARCHAR)
                        && matches!(to.id, TypeId::TEXT | TypeId::VARCHAR);
                    let longer = match (was.def.columns[*n].ty.char_len(), to.char_len()) {
                        (_, None) => true,
                        (Some(from), Some(to)) => from <= to,
                        (None, Some(_)) => false,
                    };
                    if same || same_form && longer {
                        // The values are what they were.
                        origins.push(Origin::Column(*n));
                        continue;
                    }
                    let (names, now_us) =
                        (self.identity.names.clone(), self.connection.transaction_time_us());
                    let styles = self.quick.styles;
                    let names_objects = [from, to.id].iter().any(|t| registered::kind(*t).is_some());
                    let facts = names_objects.then(|| self.facts());
                    Origin::Converted(
                        *n,
                        Arc::new(move |v| {
                            let sight = facts.as_ref().and_then(Facts::sight);
                            let ctx = crate::session::runtime::context_at(&names, now_us, styles);
                            let ctx = crate::session::runtime::seeing(ctx, sight.as_ref());
                            ondol_types::cast::cast(v, from, to, false, &ctx)
                        }),
                    )
                }
                AlteredColumn::New(_) => Origin::Value(values.next().unwrap_or(Value::Null)),
            })
        }
        Ok(origins)
    }

    /// Looks at all rows, which nobody else changes, by checks that they must hold.
    pub(crate) fn hold_to_checks(&mut self, def: &TableDef, names: &[String]) -> SqlResult<()> {
        let level = self.connection.transaction_isolation();
        if !names.is_empty() && !matches!(level, None | Some(Isolation::ReadCommitted)) {
            // Rows that came after the transaction's snapshot must hold, too.
            return Err(SqlError::unsupported(
                "a check of rows that are there, in a transaction that is not READ COMMITTED",
            ));
        }
        for check in def.checks.iter().filter(|c| names.contains(&c.name)) {
            let table = self.connection.catalog().qualified(&def.full_name());
            let text = format!("SELECT 1 FROM {table} WHERE ({}) IS FALSE LIMIT 1", check.text);
            if self.run_over_and_over(&text)? > 0 {
                let message = format!(
                    "check constraint \"{}\" of relation \"{}\" is violated by some row",
                    check.name, def.name
                );
                return Err(SqlError::new(sqlstate::CHECK_VIOLATION, message)
                    .table(def.schema, &def.name)
                    .constraint(&check.name));
            }
        }
        Ok(())
    }

    fn add_constraint(&mut self, table: &Name, index: &NewIndex, using: Option<&str>) -> SqlResult<()> {
        let Some(name) = using else {
            return self.add_index(table, index);
        };
        if let Some(new) = index.name.as_ref().filter(|n| *n != name) {
            let message =
                format!("ALTER TABLE / ADD CONSTRAINT USING INDEX will rename index \"{name}\" to \"{new}\"");
            self.notice("00000", message);
        }
        self.connection.adopt_index(table, name, index.primary, index.name.as_deref())
    }

    pub(crate) fn drop_tables(&mut self, names: &[Dropped], if_exists: bool, cascade: bool) -> SqlResult<()> {
        let there = || names.iter().filter_map(Dropped::there);
        let wanted = |c: &Catalog| there().flat_map(|n| claims::drop_table(c, n)).collect();
        let catalog = self.connection.claim(wanted)?;
        let mut roots = Vec::new();
        for name in names {
            let Dropped::There(name) = name else {
                self.told_missing(name);
                continue;
            };
            if let Some(table) = Object::table(&catalog, name) {
                roots.push(table);
                continue;
            }
            // It has gone meanwhile.
            let missing = format!("table \"{}\" does not exist", name.name);
            if !if_exists {
                return Err(SqlError::new(sqlstate::UNDEFINED_TABLE, missing));
            }
            self.notice("00000", format!("{missing}, skipping"));
        }
        // Views over them, and functions declared to return their rows. What functions' bodies name is looked
        // at when they are called, as in PostgreSQL.
        self.part_tables(names, cascade)?;
        self.drop_all_on(&roots, cascade)?;
        for name in there() {
            let Some(table) = catalog.table(name) else { continue };
            let owned: Vec<u32> = table.def.sequences().collect();
            if !owned.is_empty() {
                let all: Vec<Name> = there().cloned().collect();
                let what = format!("table {}", self.shown(&catalog, name));
                for id in owned {
                    self.drop_defaults_of(id, &what, cascade, &all)?
                }
            }
            self.connection.drop_table(name)?
        }
        Ok(())
    }

    /// What is not there and need not be.
    pub(crate) fn told_missing<T>(&mut self, name: &Dropped<T>) {
        if let Dropped::Missing(notice) = name {
            self.notice("00000", notice.clone())
        }
    }

    /// A function as messages have it.
    pub(crate) fn shown_function(&self, catalog: &Catalog, f: &FunctionDef) -> String {
        let found = catalog.find_functions(&self.path(catalog), &f.name);
        let name = match found.iter().any(|o| o.id == f.id) {
            true => quote(&f.name),
            false => catalog.qualified(&Name::new(f.schema, &*f.name)),
        };
        signature(&name, f)
    }

    /// Drops a function with what it depends on, unless another transaction has done so meanwhile.
    pub(crate) fn drop_dependent(&mut self, id: u32, function: &str) -> SqlResult<()> {
        let catalog = self.connection.claim(|c| claims::drop_function(c, id))?;
        if catalog.functions.contains_key(&id) {
            self.connection.drop_function(id)?;
            self.notice("00000", format!("drop cascades to function {function}"));
        }
        Ok(())
    }

    pub(crate) fn drop_indexes(
        &mut self,
        names: &[Dropped],
        if_exists: bool,
        cascade: bool,
    ) -> SqlResult<()> {
        for index in names {
            let Dropped::There(index) = index else {
                self.told_missing(index);
                continue;
            };
            let (catalog, name) = (self.connection.claim(|c| claims::drop_index(c, index))?, &index.name);
            let Some(table) = catalog.table_of_index(index) else {
                let missing = format!("index \"{name}\" does not exist");
                if !if_exists {
                    return Err(SqlError::new(sqlstate::UNDEFINED_OBJECT, missing));
                }
                self.notice("00000", format!("{missing}, skipping"));
                continue;
            };
            if table.def.indexes.iter().any(|i| i.name == *name && (i.constraint || i.primary)) {
                let table = self.shown(&catalog, &table.def.full_name());
                return Err(SqlError::new(
                    sqlstate::DEPENDENT_OBJECTS_STILL_EXIST,
                    format!(
                        "cannot drop index {name} because constraint {name} on table {table} requires it"
                    ),
                )
                .hint(format!("You can drop constraint {name} on table {table} instead.")));
            }
            if let Some(i) = table.def.indexes.iter().find(|i| i.name == *name) {
                let what = format!("index {name}");
                let (rested_on, indexes) = (what.clone(), vec![i.id]);
                let gone = GoneKey { what, rested_on, indexes, cascade };
                self.drop_keys_on(&table.def.full_name(), &gone, None)?
            }
            self.connection.drop_index(index)?;
        }
        Ok(())
    }

    /// Indexes that call a function: with CASCADE they go with it.
    fn drop_indexes_calling(&mut self, id: u32, function: &str, cascade: bool) -> SqlResult<()> {
        let catalog = self.connection.catalog();
        let calling = bind::index::calling(&catalog, id);
        let shown: Vec<String> = calling.iter().map(|(n, _)| self.shown(&catalog, n)).collect();
        if !cascade && !calling.is_empty() {
            let lines: Vec<String> =
                shown.iter().map(|i| format!("index {i} depends on {function}")).collect();
            let message = format!("cannot drop {function} because other objects depend on it");
            return Err(SqlError::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .detail(lines.join("\n"))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        if let [one] = &shown[..] {
            self.notice("00000", format!("drop cascades to index {one}"))
        } else if !shown.is_empty() {
            let lines: Vec<String> = shown.iter().map(|i| format!("drop cascades to index {i}")).collect();
            self.notice_with(format!("drop cascades to {} other objects", shown.len()), lines.join("\n"))
        }
        for (name, _) in &calling {
            self.connection.claim(|c| claims::drop_index(c, name))?;
            self.connection.drop_index(name)?
        }
        Ok(())
    }

    pub(crate) fn create_function(&mut self, function: &FunctionDef, replace: bool) -> SqlResult<()> {
        let catalog = self.connection.catalog();
        let name = &function.name;
        let old = catalog
            .functions_named(name)
            .find(|f| f.schema == function.schema && f.arg_types().eq(function.arg_types()));
        if let Some(old) = old {
            if !replace {
                return Err(SqlError::new(
                    sqlstate::DUPLICATE_FUNCTION,
                    format!("function \"{name}\" already exists with same argument types"),
                ));
            }
            if old.returns != function.returns {
                return Err(SqlError::new(
                    sqlstate::INVALID_FUNCTION_DEFINITION,
                    "cannot change return type of existing function",
                )
                .hint(format!("Use DROP FUNCTION {} first.", signature(name, function))));
            }
        }
        let mut function = FunctionDef { id: old.map_or(0, |f| f.id), ..function.clone() };
        function.code = match self.compile_function(&function) {
            Ok(code) => code,
            // It is compiled when it is called, by when its body may have a meaning.
            Err(_) if !self.settings.is_on("check_function_bodies") => Vec::new(),
            Err(e) => return Err(e),
        };
        self.connection.create_function(function, replace)?;
        Ok(())
    }

    pub(crate) fn drop_functions(
        &mut self,
        functions: &[Dropped<u32>],
        if_exists: bool,
        cascade: bool,
    ) -> SqlResult<()> {
        for id in functions {
            let Dropped::There(id) = id else {
                self.told_missing(id);
                continue;
            };
            let catalog = self.connection.catalog();
            let Some(f) = catalog.functions.get(id) else {
                // It has gone meanwhile.
                let missing = format!("function number {id} does not exist");
                if !if_exists {
                    return Err(SqlError::new(sqlstate::UNDEFINED_FUNCTION, missing));
                }
                self.notice("00000", format!("{missing}, skipping"));
                continue;
            };
            let shown = self.shown_function(&catalog, f);
            self.drop_all_on(&[Object::Function(*id)], cascade)?;
            self.drop_indexes_calling(*id, &format!("function {shown}"), cascade)?;
            let before = bind::broken_definitions(&self.connection.catalog());
            self.connection.drop_function(*id)?;
            self.refuse_dependents(&before, &format!("function {shown}"))?
        }
        Ok(())
    }
}

/// The functions that take or return the table's rows.
pub(crate) fn returning<'c>(
    catalog: &'c Catalog,
    table: &Name,
) -> impl Iterator<Item = &'c Arc<FunctionDef>> {
    let number = catalog.table(table).map(|t| t.def.id).or_else(|| catalog.view(table).map(|v| v.id));
    let is_row = move |t: TypeId| number.is_some_and(|n| t.is_row_of(n));
    let needs_it = move |f: &&Arc<FunctionDef>| {
        let returned = match &f.returns {
            Returns::Rows { of, .. } => of.as_ref() == Some(table),
            Returns::Scalar { ty, .. } => is_row(ty.id),
            Returns::Void => false,
        };
        returned || f.arg_types().any(is_row)
    };
    catalog.functions.values().filter(needs_it)
}

pub(crate) fn no_table(name: &Name) -> SqlError {
    SqlError::new(sqlstate::UNDEFINED_TABLE, format!("relation \"{}\" does not exist", name.name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_engine::Relation;

    #[test]
    fn generated_names_fit_and_differ() {
        let mut c = Catalog::default();
        let t = &Name::from("t");
        assert_eq!(choose_name(&c, t, &[], "pkey"), "t_pkey");
        assert_eq!(choose_name(&c, t, &["a", "b"], "key"), "t_a_b_key");
        c.relations.insert("t_a_b_key".into(), Relation::Index { table: t.clone() });
        assert_eq!(choose_name(&c, t, &["a", "b"], "key"), "t_a_b_key1");
        assert_eq!(choose_name(&c, &Name::new(100, "t"), &["a", "b"], "key"), "t_a_b_key");
        let long = "x".repeat(63);
        let name = choose_name(&c, &Name::from(&long), &[&long], "idx");
        assert_eq!(name.len(), 63);
        assert!(name.ends_with("_idx"));
        assert_eq!(choose_name(&c, &Name::from("é".repeat(31)), &["ab"], "idx").len() / 2, 31);
    }
}
