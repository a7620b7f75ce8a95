//! Statements that are not compiled: each variant of the binder's [`Statement`] and what is done for it.
use crate::session::QueryId;
use crate::session::Session;
use crate::session::define::wanted;
use crate::session::notify::Said;
use crate::session::output::Output;
use crate::session::plan::{Plan, Ready};
use crate::session::planned::column;
use crate::session::plans::Named;
use crate::session::rows::{Column, Rows};
use crate::session::settings::Settings;
use ondol_base::fiber::on_own_thread;
use ondol_engine::{Access, ColumnDef, FunctionDef, Name, Nature, STALE, Table};
use ondol_sql::bind;
use ondol_sql::bound::{
    AlterTable, Bound, ExplainOptions, Expr, Modes, NewIndex, Query, SettingChange, Statement, Target,
};
use ondol_sql::code::explain;
use ondol_sql::interpret::rows::RowView;
use ondol_sql::level::IsolationLevel;
use ondol_sql::parse;
use ondol_types::{SqlError, SqlResult, TypeId, Value, ValueRef, sqlstate};
use std::sync::Arc;

/// The checks of a table, as a program: of a row's values it gives the number of the first check that is
/// false, or NULL.
pub(crate) struct RowChecks {
    pub plan: Plan,
    /// The columns that its parameters are.
    columns: Vec<u16>,
}

/// The values of a table's generated columns, as a program over other values of a row.
pub(crate) struct RowValues {
    pub plan: Plan,
    /// The columns that its parameters are.
    columns: Vec<u16>,
    /// The columns whose values it gives.
    pub computed: Vec<u16>,
}

impl Session {
    /// Runs a statement that has no plan of its own, with as many parameters as it takes.
    pub(crate) fn run_utility(
        &mut self,
        text: &str,
        bound: &Bound,
        params: &[Value],
        out: &mut dyn Output,
    ) -> SqlResult<()> {
        match &bound.statement {
            Statement::Query(_) | Statement::Insert(_) | Statement::Modify(_) => {
                Err(SqlError::new(sqlstate::INTERNAL_ERROR, "a statement with a plan was run without it"))
            }
            Statement::Copy(copy) => self.copy(copy, bound, out),

            Statement::CreateTable {
                name,
                columns,
                constraints,
                checks,
                sequences,
                foreign,
                comments,
                on_commit,
                if_not_exists,
                unlogged,
                source,
            } => {
                let tag = if source.is_some() { "CREATE FOREIGN TABLE" } else { "CREATE TABLE" };
                self.definition(bound, tag, out, |s| {
                    let nature = Nature { unlogged: *unlogged, source: source.clone(), ..Nature::default() };
                    let parts = (constraints.as_slice(), checks.as_slice(), sequences.as_slice());
                    let made = s.create_table(name, columns, parts, nature, *if_not_exists)?;
                    if !made {
                        return Ok(());
                    }
                    s.note_on_commit(name, *on_commit)?;
                    s.add_foreign_keys(name, foreign)?;
                    s.comment_parts(name, comments)
                })
            }
            Statement::ImportForeignSchema { remote, source, into, limit } => {
                self.definition(bound, "IMPORT FOREIGN SCHEMA", out, |s| {
                    s.import_foreign_schema(remote, source, *into, limit).map(drop)
                })
            }
            Statement::CreateTableAs {
                name,
                columns,
                query,
                with_data,
                on_commit,
                if_not_exists,
                nature,
            } => {
                let tag =
                    if nature.material.is_some() { "CREATE MATERIALIZED VIEW" } else { "CREATE TABLE AS" };
                self.definition_of(bound, tag, out, |s| {
                    let query = with_data.then_some((query, bound));
                    let is_new = s.connection.catalog().table(name).is_none();
                    let tag = s.create_table_as(name, columns, query, *if_not_exists, nature)?;
                    if is_new {
                        s.note_on_commit(name, *on_commit)?
                    }
                    Ok(tag)
                })
            }
            Statement::Refresh { name, rows, concurrently } => {
                self.definition(bound, "REFRESH MATERIALIZED VIEW", out, |s| {
                    s.refresh(name, rows.as_deref(), *concurrently, bound)
                })
            }
            Statement::Comment { on, text, .. } => self.definition(bound, "COMMENT", out, |s| {
                s.connection.comment(on, text.as_deref(), |c| wanted(&bound.statement, c))
            }),
            Statement::CreateView { def, replace } => {
                self.definition(bound, "CREATE VIEW", out, |s| s.create_view(def, *replace))
            }
            Statement::AlterView { name, def, tag } => {
                self.definition(bound, tag, out, |s| s.alter_view(name, def))
            }
            Statement::DropView { names, if_exists, cascade, material } => {
                let (tag, what) = match material {
                    true => ("DROP MATERIALIZED VIEW", "materialized view"),
                    false => ("DROP VIEW", "view"),
                };
                self.definition(bound, tag, out, |s| s.drop_views(names, *if_exists, *cascade, what))
            }
            Statement::DropTable { names, if_exists, cascade, foreign } => {
                let tag = if *foreign { "DROP FOREIGN TABLE" } else { "DROP TABLE" };
                self.definition(bound, tag, out, |s| s.drop_tables(names, *if_exists, *cascade))
            }
            Statement::Truncate { names, restart, cascade } => {
                self.definition(bound, "TRUNCATE TABLE", out, |s| s.truncate(names, *restart, *cascade))
            }
            Statement::CreateSequence { name, changes, owner, unlogged } => {
                self.definition(bound, "CREATE SEQUENCE", out, |s| {
                    s.create_sequence(name, changes, owner.as_ref(), *unlogged).map(drop)
                })
            }
            Statement::LogSequence { name, unlogged, tag } => {
                self.definition(bound, tag, out, |s| s.connection.log_sequence(name, *unlogged))
            }
            Statement::AlterSequence { name, changes, owner } => {
                self.definition(bound, "ALTER SEQUENCE", out, |s| {
                    s.alter_sequence(name, changes, owner.as_ref())
                })
            }
            Statement::RenameSequence { name, to, tag } => {
                self.definition(bound, tag, out, |s| s.rename_sequence(name, to))
            }
            Statement::DropSequence { names, if_exists, cascade } => {
                self.definition(bound, "DROP SEQUENCE", out, |s| {
                    s.drop_sequences(names, *if_exists, *cascade)
                })
            }
            Statement::CreateIndex { table, index, alter, if_not_exists, concurrently } => {
                self.make_index(bound, (table, index, alter.as_deref()), *if_not_exists, *concurrently, out)
            }
            Statement::DropIndex { names, if_exists, cascade, concurrently } => {
                if *concurrently {
                    self.refuse_in_block("DROP INDEX CONCURRENTLY")?
                }
                self.definition(bound, "DROP INDEX", out, |s| s.drop_indexes(names, *if_exists, *cascade))
            }
            Statement::Reindex { tables, alone } => {
                if let Some(what) = alone {
                    self.refuse_in_block(what)?
                }
                self.definition(bound, "REINDEX", out, |s| {
                    tables.iter().try_for_each(|(t, index)| s.reindex(t, index.as_deref()))
                })
            }
            Statement::AlterTable(a) => self.definition(bound, a.tag, out, |s| s.alter_table(a)),
            Statement::CreateFunction { function, replace } => {
                self.definition(bound, "CREATE FUNCTION", out, |s| s.create_function(function, *replace))
            }
            Statement::MoveFunction { function, schema } => {
                self.definition(bound, "ALTER FUNCTION", out, |s| s.move_function(*function, *schema))
            }
            Statement::CreateSchema { name, if_not_exists, elements, owner } => {
                self.definition(bound, "CREATE SCHEMA", out, |s| {
                    s.create_schema(name, *if_not_exists, elements, *owner)
                })
            }
            Statement::RenameSchema { name, to } => {
                self.definition(bound, "ALTER SCHEMA", out, |s| s.rename_schema(name, to))
            }
            Statement::DropSchema { names, cascade } => {
                self.definition(bound, "DROP SCHEMA", out, |s| s.drop_schemas(names, *cascade))
            }
            Statement::DropFunction { functions, if_exists, cascade } => {
                self.definition(bound, "DROP FUNCTION", out, |s| {
                    s.drop_functions(functions, *if_exists, *cascade)
                })
            }
            Statement::CreateType { def, tag } => {
                self.definition(bound, tag, out, |s| s.connection.create_type(def.clone()))
            }
            Statement::AlterType { name, def, tag } => {
                self.definition(bound, tag, out, |s| s.alter_type(name, def))
            }
            Statement::DropType { names, if_exists, cascade, what, tag } => {
                self.definition(bound, tag, out, |s| s.drop_types(names, *if_exists, *cascade, what))
            }

            Statement::Begin(modes) => {
                self.start_transaction(*modes)?;
                // START TRANSACTION and BEGIN are told apart by their tags alone.
                let start = text.trim_start().get(..5).is_some_and(|w| w.eq_ignore_ascii_case("start"));
                out.done(if start { "START TRANSACTION" } else { "BEGIN" }, None)
            }
            Statement::SetTransaction { modes, session } => {
                self.set_transaction(*modes, *session)?;
                out.done("SET", None)
            }
            Statement::Commit { chain } => self.end_transaction(*chain, out),
            Statement::Rollback { chain } => {
                self.undo_transaction(*chain)?;
                out.done("ROLLBACK", None)
            }
            Statement::SetConstraints { names, deferred } => {
                self.set_constraints(names.as_deref(), *deferred)?;
                out.done("SET CONSTRAINTS", None)
            }
            Statement::Savepoint(name) => {
                self.set_savepoint(name)?;
                out.done("SAVEPOINT", None)
            }
            Statement::Release(name) => {
                self.free_savepoint(name)?;
                out.done("RELEASE", None)
            }
            Statement::RollbackTo(name) => {
                self.back_to_savepoint(name)?;
                out.done("ROLLBACK", None)
            }

            Statement::Set { name, value, local } => self.set(name, value.as_deref(), *local, text, out),
            Statement::Show(name) => self.show(name, out),

            Statement::Prepare { name, types, text: statement } => {
                self.prepare_named(name, types, statement, text)?;
                out.done("PREPARE", None)
            }
            Statement::Execute { name, args } => self.execute_named(name, args, bound, out),
            Statement::Deallocate(name) => {
                self.deallocate(name.as_deref())?;
                out.done(if name.is_some() { "DEALLOCATE" } else { "DEALLOCATE ALL" }, None)
            }
            Statement::Declare(declare) => self.declare((declare, text), bound, params, out),
            Statement::Fetch(fetch) => self.fetch_named(fetch, out),
            Statement::Close(name) => {
                self.close_named(name.as_deref())?;
                out.done(if name.is_some() { "CLOSE CURSOR" } else { "CLOSE CURSOR ALL" }, None)
            }
            Statement::Explain { options, statement, text: _ } => {
                self.explain(*options, statement, bound, out)
            }

            Statement::LockTables { names, mode, now } => {
                for name in names {
                    self.connection.lock_table(name, *mode, *now)?
                }
                out.done("LOCK TABLE", None)
            }
            Statement::Checkpoint => {
                let engine = self.database.engine.clone();
                on_own_thread("ondol-checkpoint", move || engine.checkpoint()).map_err(|e| {
                    let message = format!("could not start a thread for the checkpoint: {e}");
                    SqlError::new(sqlstate::IO_ERROR, message)
                })??;
                out.done("CHECKPOINT", None)
            }
            Statement::Listen(channel) => {
                self.say(Said::Listen(channel.clone()))?;
                out.done("LISTEN", None)
            }
            Statement::Unlisten(channel) => {
                self.say(Said::Unlisten(channel.clone()))?;
                out.done("UNLISTEN", None)
            }
            Statement::Notify { channel, payload } => {
                self.say(Said::Notify { channel: channel.clone(), payload: payload.clone() })?;
                out.done("NOTIFY", None)
            }
            Statement::DiscardSequences => {
                self.connection.forget_sequences();
                out.done("DISCARD SEQUENCES", None)
            }
            Statement::Discard { all: false } => {
                self.plans.forget();
                out.done("DISCARD PLANS", None)
            }
            Statement::Discard { all: true } => {
                self.refuse_in_block("DISCARD ALL")?;
                self.connection.discard_temporary()?;
                self.plans.discard();
                self.connection.forget_sequences();
                self.cursors.clear();
                self.connection.let_go_of_all_advisory();
                self.unlisten_all();
                self.settings.reset();
                self.settings.set_role("session_authorization", None, false);
                self.settings_changed();
                out.done("DISCARD ALL", None)
            }
            Statement::DiscardTemporary => {
                self.connection.discard_temporary()?;
                out.done("DISCARD TEMP", None)
            }
            Statement::Role(role) => self.definition(bound, role.tag(), out, |s| s.run_role(role)),
            Statement::AlterSystem(change) => {
                self.refuse_in_block("ALTER SYSTEM")?;
                self.alter_system(change)?;
                out.done("ALTER SYSTEM", None)
            }
            Statement::Nothing { tag, notice } => {
                if *tag == "VACUUM" {
                    self.refuse_in_block(tag)?
                }
                if !notice.is_empty() {
                    self.notice("00000", notice.clone());
                }
                out.done(tag, None)
            }
        }
    }

    /// What the server begins with, the next time that it reads its settings.
    fn alter_system(&mut self, change: &SettingChange) -> SqlResult<()> {
        if !self.connection.catalog().is_superuser(self.role()) {
            let message = match change {
                SettingChange::Set { name, .. } | SettingChange::Reset(name) => {
                    format!("permission denied to set parameter \"{name}\"")
                }
                SettingChange::ResetAll => "permission denied to perform ALTER SYSTEM RESET ALL".to_string(),
            };
            return Err(SqlError::new(sqlstate::INSUFFICIENT_PRIVILEGE, message));
        }
        let (board, change) = (self.database.board.clone(), change.clone());
        on_own_thread("ondol-settings", move || board.alter_system(&change)).map_err(|e| {
            let message = format!("could not start a thread for the settings: {e}");
            SqlError::new(sqlstate::IO_ERROR, message)
        })?
    }

    fn refuse_in_block(&self, what: &str) -> SqlResult<()> {
        match self.connection.in_transaction() {
            true => {
                let message = format!("{what} cannot run inside a transaction block");
                Err(SqlError::new(sqlstate::ACTIVE_SQL_TRANSACTION, message))
            }
            false => Ok(()),
        }
    }

    /// CREATE INDEX: a statement to the connection that, alone, lets others go on using the table.
    fn make_index(
        &mut self,
        bound: &Bound,
        (table, index, alter): (&Name, &NewIndex, Option<&AlterTable>),
        if_not_exists: bool,
        concurrently: bool,
        out: &mut dyn Output,
    ) -> SqlResult<()> {
        let tag = "CREATE INDEX";
        if self.connection.in_transaction() {
            if concurrently {
                self.refuse_in_block("CREATE INDEX CONCURRENTLY")?
            }
            return self.definition(bound, tag, out, |s| s.create_index(table, index, alter, if_not_exists));
        }
        if alter.is_some() {
            // Rows get what the index is about, which nobody else may change meanwhile.
            return self.definition(bound, tag, out, |s| s.create_index(table, index, alter, if_not_exists));
        }
        self.begin_definition(bound, tag)?;
        let before = self.connection.last_token();
        let done = self
            .connection
            .start_definitions(bound.catalog_version, |c| wanted(&bound.statement, c))
            .and_then(|()| self.create_index(table, index, None, if_not_exists));
        // Lets go of what was claimed, if nothing came of it.
        self.connection.rollback();
        done?;
        let token = Some(self.connection.last_token()).filter(|t| *t != before);
        out.done(tag, token)
    }

    fn begin_definition(&mut self, bound: &Bound, tag: &str) -> SqlResult<()> {
        if self.connection.catalog_version() != bound.catalog_version {
            return Err(SqlError::new(STALE, "the dictionary has changed"));
        }
        self.fresh = false;
        self.refuse_read_only(tag)
    }

    /// Data definition. Each change is a statement to the connection, and one SQL statement may need several:
    /// outside a transaction they make one together.
    pub(crate) fn definition(
        &mut self,
        bound: &Bound,
        tag: &str,
        out: &mut dyn Output,
        f: impl FnOnce(&mut Session) -> SqlResult<()>,
    ) -> SqlResult<()> {
        self.definition_of(bound, tag, out, |s| f(s).map(|()| tag.to_string()))
    }

    /// The same; `f` gives the tag that is told.
    fn definition_of(
        &mut self,
        bound: &Bound,
        tag: &str,
        out: &mut dyn Output,
        f: impl FnOnce(&mut Session) -> SqlResult<String>,
    ) -> SqlResult<()> {
        self.begin_definition(bound, tag)?;
        // The dictionary may change while the statement waits for others.
        let f = |s: &mut Session| {
            s.connection.start_definitions(bound.catalog_version, |c| wanted(&bound.statement, c))?;
            f(s)
        };
        if self.connection.in_transaction() {
            let tag = f(self)?;
            return out.done(&tag, None);
        }
        self.connection.begin_alone()?;
        match f(self) {
            Ok(tag) => {
                let token = self.connection.commit()?;
                out.done(&tag, token)
            }
            Err(e) => {
                self.connection.rollback();
                Err(e)
            }
        }
    }

    fn set(
        &mut self,
        name: &str,
        value: Option<&str>,
        local: bool,
        text: &str,
        out: &mut dyn Output,
    ) -> SqlResult<()> {
        let reset = text.trim_start().get(..5).is_some_and(|w| w.eq_ignore_ascii_case("reset"));
        let tag = if reset { "RESET" } else { "SET" };
        let in_transaction = self.connection.in_transaction();
        match name.to_ascii_lowercase().as_str() {
            // These are the transaction's own properties. Outside of one they are checked, and last as long
            // as the statement.
            "transaction_isolation" => {
                if reset && !in_transaction {
                    self.warn(
                        sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                        "RESET TRANSACTION can only be used in transaction blocks",
                    );
                } else if local && !in_transaction {
                    self.warn_local();
                }
                let isolation =
                    IsolationLevel::of_name(&self.settings.checked("transaction_isolation", value)?);
                self.change_transaction(Modes { isolation, ..Modes::default() })?;
            }
            "transaction_read_only" => {
                if local && !in_transaction {
                    self.warn_local();
                }
                let on = self.settings.checked("transaction_read_only", value)? == "on";
                let access = if on { Access::ReadOnly } else { Access::ReadWrite };
                self.change_transaction(Modes { access: Some(access), ..Modes::default() })?;
            }
            "transaction_deferrable" => {
                if local && !in_transaction {
                    self.warn_local();
                }
                let on = self.settings.checked("transaction_deferrable", value)? == "on";
                self.change_transaction(Modes { deferrable: Some(on), ..Modes::default() })?;
            }
            "role" | "session_authorization" => {
                let value = self.role_setting(name, value)?;
                if local && !in_transaction {
                    self.warn_local();
                } else {
                    self.settings.set_role(&name.to_ascii_lowercase(), value, local);
                    self.settings_changed()
                }
            }
            _ if local && !in_transaction => {
                self.warn_local();
                // Checked, and over at once.
                self.settings.set(name, value, true)?;
                self.settings.end_transaction();
            }
            _ => {
                self.settings.set(name, value, local)?;
                self.settings_changed();
            }
        }
        out.done(tag, None)
    }

    fn warn_local(&mut self) {
        self.warn(sqlstate::NO_ACTIVE_SQL_TRANSACTION, "SET LOCAL can only be used in transaction blocks");
    }

    fn show(&mut self, name: &str, out: &mut dyn Output) -> SqlResult<()> {
        if !self.connection.in_transaction() {
            self.settings.set_isolation(self.quick.default_level);
            self.settings.set_read_only(self.quick.default_read_only);
            self.settings.set_deferrable(self.quick.default_deferrable);
        }
        let columns = shown_columns(&self.settings, name)?;
        if name.eq_ignore_ascii_case("all") {
            let settings = self.settings.clone();
            let all: Vec<_> = settings.all().map(|s| (s.name, s.shown, s.short_desc)).collect();
            give(columns, all.iter().map(|(n, v, a)| [*n, v.as_str(), *a]), out)?;
        } else {
            let (_, value) = self.settings.show(name)?;
            give(columns, [[value.as_str()]].into_iter(), out)?;
        }
        out.done("SHOW", None)
    }

    /// The columns of a statement's result; none for statements without one.
    pub(crate) fn columns_of(&mut self, ready: &Ready) -> SqlResult<Arc<[Column]>> {
        let bound = match ready {
            Ready::Plan(plan) => return Ok(plan.columns.clone()),
            Ready::Other(bound) => bound,
            Ready::Empty => return Ok([].into()),
        };
        match &bound.statement {
            Statement::Show(name) => shown_columns(&self.settings, name),
            Statement::Explain { .. } => Ok(explained_columns()),
            Statement::Fetch(fetch) => self.fetched_columns(fetch),
            Statement::Execute { name, args } => match self.plans.prepared.get(name).cloned() {
                Some(named) => {
                    let ready = self.ready_in(&named.text, &named.types, named.styles)?;
                    self.columns_of(&ready)
                }
                None => {
                    let id = self.choose_function(name, args)?.id;
                    Ok(self.query_plan(QueryId(id))?.columns.clone())
                }
            },
            _ => Ok([].into()),
        }
    }

    fn prepare_named(&mut self, name: &str, types: &[TypeId], statement: &str, text: &str) -> SqlResult<()> {
        self.refuse_prepared(name)?;
        // Errors count from the whole text, as the user sees it.
        let offset = text.find(statement).unwrap_or(0);
        let ready = self.ready(statement, types).map_err(|mut e| {
            e.0.position = e.0.position.map(|p| p + offset);
            e
        })?;
        let mut kept = ready.params().to_vec();
        // What a domain is made of does not tell the domain.
        kept.iter_mut().zip(types).filter(|(_, t)| t.is_user()).for_each(|(k, t)| *k = *t);
        let named = Named {
            text: statement.into(),
            styles: self.quick.styles.of_reading(),
            types: kept,
            whole: text.into(),
            prepared_us: self.connection.transaction_time_us(),
            from_sql: true,
            executed: 0,
            columns: ready.plan().map_or_else(|| [].into(), |p| p.columns.clone()),
        };
        self.plans.prepared.insert(name.to_string(), named);
        Ok(())
    }

    /// Names of prepared statements are there once.
    pub(crate) fn refuse_prepared(&self, name: &str) -> SqlResult<()> {
        match self.plans.prepared.contains_key(name) {
            true => Err(SqlError::new(
                sqlstate::DUPLICATE_PREPARED_STATEMENT,
                format!("prepared statement \"{name}\" already exists"),
            )),
            false => Ok(()),
        }
    }

    fn deallocate(&mut self, name: Option<&str>) -> SqlResult<()> {
        match name {
            None => self.plans.prepared.clear(),
            Some(n) => {
                self.plans.prepared.remove(n).ok_or_else(|| no_prepared(n))?;
            }
        }
        Ok(())
    }

    /// EXECUTE of a prepared statement, or else of a registered query.
    fn execute_named(
        &mut self,
        name: &str,
        args: &[Expr],
        bound: &Bound,
        out: &mut dyn Output,
    ) -> SqlResult<()> {
        let values = self.evaluate(args, bound.catalog_version)?;
        if let Some(named) = self.plans.prepared.get_mut(name) {
            named.executed += 1;
            let named = named.clone();
            if values.len() != named.types.len() {
                return Err(SqlError::new(
                    sqlstate::SYNTAX_ERROR,
                    format!("wrong number of parameters for prepared statement \"{name}\""),
                )
                .detail(format!(
                    "Expected {} parameters but got {}.",
                    named.types.len(),
                    values.len()
                )));
            }
            // Places in the prepared text mean nothing in the text of EXECUTE.
            let ready = self.ready_in(&named.text, &named.types, named.styles).map_err(|mut e| {
                e.0.position = None;
                e
            })?;
            return match ready {
                Ready::Plan(p) if p.columns != named.columns => Err(SqlError::changed_result()),
                Ready::Plan(p) => self.run_with_values(&p, &values, out),
                Ready::Other(b) => self.run_utility(&named.text, &b, &values, out),
                Ready::Empty => Ok(()),
            };
        }
        let function = self.choose_function(name, args)?;
        let plan = self.query_plan(crate::session::QueryId(function.id))?;
        self.run_with_values(&plan, &values, out)
    }

    /// The registered query of that name which takes these arguments: the one whose types they have, or the
    /// only one that they could be brought to.
    fn choose_function(&self, name: &str, args: &[Expr]) -> SqlResult<Arc<FunctionDef>> {
        let catalog = self.connection.catalog();
        let mut same_count = self.functions_called(&catalog, name);
        same_count.retain(|f| f.args.len() == args.len());
        let exact = same_count.iter().find(|f| f.args.iter().zip(args).all(|(f, a)| f.1.id == a.ty.id));
        match (exact, &same_count[..]) {
            (Some(f), _) => Ok((*f).clone()),
            (None, [only]) => Ok((*only).clone()),
            (None, []) => Err(no_prepared(name)),
            _ => Err(SqlError::new(sqlstate::AMBIGUOUS_FUNCTION, format!("function {name} is not unique"))
                .hint("You might need to add explicit type casts.")),
        }
    }

    /// The values of expressions that stand for themselves (EXECUTE's arguments), computed as a statement.
    pub(crate) fn evaluate(&mut self, exprs: &[Expr], catalog_version: u64) -> SqlResult<Vec<Value>> {
        if exprs.is_empty() {
            return Ok(Vec::new());
        }
        let exprs: Vec<&Expr> = exprs.iter().collect();
        let plan = Arc::new(self.compile_values(&exprs, catalog_version)?);
        let mut values = Vec::new();
        self.run_program(&plan, &[], &mut |row: &RowView<'_>| {
            values = row.values().map(|v| v.to_owned()).collect();
            Ok(true)
        })?;
        Ok(values)
    }

    /// Compiles expressions to a program that gives them as one row.
    pub(crate) fn compile_values(&mut self, exprs: &[&Expr], catalog_version: u64) -> SqlResult<Plan> {
        let targets = exprs
            .iter()
            .map(|e| Target { expr: (*e).clone(), name: "?column?".into(), hidden: false })
            .collect();
        let bound =
            Bound::of(Statement::Query(Query { targets, ..Query::default() }), Vec::new(), catalog_version);
        Ok(Plan::new(self.compile(&bound)?))
    }

    /// What each of the columns asks of its values, of those that have domains: (place, a program that takes
    /// a value and ends in an error if it is none of the domain).
    pub(crate) fn domain_checks(
        &mut self,
        columns: &[&ColumnDef],
        catalog_version: u64,
    ) -> SqlResult<Vec<(usize, Plan)>> {
        let catalog = self.connection.catalog();
        let mut checks = Vec::new();
        for (i, c) in columns.iter().enumerate() {
            let Some(expr) = bind::domain_value(&catalog, c)? else { continue };
            let targets = vec![Target { expr, name: "?column?".into(), hidden: false }];
            let bound = Bound::of(
                Statement::Query(Query { targets, ..Query::default() }),
                vec![c.ty.id],
                catalog_version,
            );
            checks.push((i, Plan::new(self.compile(&bound)?)));
        }
        Ok(checks)
    }

    /// What a row that does not come through INSERT or UPDATE is held to; `None` where the table has no
    /// checks.
    pub(crate) fn row_checks(&mut self, table: &Table, catalog_version: u64) -> SqlResult<Option<RowChecks>> {
        let Some((expr, columns)) = bind::failed_check(&self.connection.catalog(), table)? else {
            return Ok(None);
        };
        let params = columns.iter().map(|c| table.def.columns[usize::from(*c)].ty.id).collect();
        let targets = vec![Target { expr, name: "?column?".into(), hidden: false }];
        let bound =
            Bound::of(Statement::Query(Query { targets, ..Query::default() }), params, catalog_version);
        Ok(Some(RowChecks { plan: Plan::new(self.compile(&bound)?), columns }))
    }

    /// What a row that does not come through INSERT or UPDATE gets; `None` where the table has no generated
    /// columns.
    pub(crate) fn row_values(&mut self, table: &Table, catalog_version: u64) -> SqlResult<Option<RowValues>> {
        let (values, columns) = bind::computed_values(&self.connection.catalog(), table)?;
        if values.is_empty() {
            return Ok(None);
        }
        let params = columns.iter().map(|c| table.def.columns[usize::from(*c)].ty.id).collect();
        let computed = values.iter().map(|(c, _)| *c).collect();
        let target = |(_, expr)| Target { expr, name: "?column?".into(), hidden: false };
        let targets = values.into_iter().map(target).collect();
        let bound =
            Bound::of(Statement::Query(Query { targets, ..Query::default() }), params, catalog_version);
        Ok(Some(RowValues { plan: Plan::new(self.compile(&bound)?), columns, computed }))
    }

    /// Computes them of the values of a row's columns, within the statement at hand.
    pub(crate) fn computed_row(&mut self, of: &RowValues, values: &[ValueRef<'_>]) -> SqlResult<Vec<Value>> {
        let params: Vec<ValueRef<'_>> = of.columns.iter().map(|c| values[usize::from(*c)]).collect();
        let mut computed = Vec::new();
        self.run_program_within(&of.plan, &params, &mut |row: &RowView<'_>| {
            computed = row.values().map(|v| v.to_owned()).collect();
            Ok(true)
        })?;
        Ok(computed)
    }

    /// Holds a row, by the values of all of its columns, to them, within the statement at hand.
    pub(crate) fn hold_row(
        &mut self,
        checks: &RowChecks,
        table: &Table,
        values: &[ValueRef<'_>],
    ) -> SqlResult<()> {
        let params: Vec<ValueRef<'_>> = checks.columns.iter().map(|c| values[usize::from(*c)]).collect();
        let mut failed = None;
        self.run_program_within(&checks.plan, &params, &mut |row: &RowView<'_>| {
            if let Some(ValueRef::Int4(n)) = row.values().next() {
                failed = usize::try_from(n).ok()
            }
            Ok(true)
        })?;
        match failed {
            None => Ok(()),
            Some(n) => Err(self.connection.violates(table, n, values)),
        }
    }

    /// Runs such a program within the statement at hand.
    pub(crate) fn values_of(&mut self, plan: &Plan) -> SqlResult<Vec<Value>> {
        let mut values = Vec::new();
        self.run_program_within(plan, &[], &mut |row: &RowView<'_>| {
            values = row.values().map(|v| v.to_owned()).collect();
            Ok(true)
        })?;
        Ok(values)
    }

    /// The one statement of a text that was prepared.
    fn bind_one(&self, named: &Named) -> SqlResult<Bound> {
        let (catalog, listed) = (self.connection.catalog(), self.listed());
        let path = self.path(&catalog);
        match parse::parse(&named.text)?.first() {
            Some(raw) => {
                let binder = bind::Binder::new(&catalog, &named.text, &named.types).with_path(&path, listed);
                let binder = binder.with_foreign(&crate::session::foreign::Files).in_styles(named.styles);
                let mut bound = binder.with_roles(self.identity.current, self.identity.session).bind(raw)?;
                self.check_needs(&catalog, &bound.needs)?;
                bound.open_foreign(&crate::session::foreign::Files)?;
                Ok(bound)
            }
            None => Err(SqlError::unsupported("EXPLAIN of an empty statement")),
        }
    }

    /// A plan that brings along what EXPLAIN shows of it.
    fn explained_plan(&self, bound: &Bound, options: ExplainOptions) -> SqlResult<Arc<Plan>> {
        match bound.statement {
            Statement::Query(_) | Statement::Insert(_) | Statement::Modify(_) => {
                self.check_needs(&self.connection.catalog(), &bound.needs)?;
                Ok(Arc::new(Plan::new(self.compile_explained(bound, options)?)))
            }
            _ => Err(SqlError::unsupported("EXPLAIN of a prepared utility statement")),
        }
    }

    fn explain(
        &mut self,
        options: ExplainOptions,
        statement: &Statement,
        bound: &Bound,
        out: &mut dyn Output,
    ) -> SqlResult<()> {
        let (plan, values) = match statement {
            Statement::Execute { name, args } => {
                let values = self.evaluate(args, bound.catalog_version)?;
                let catalog = self.connection.catalog();
                let bound = match self.plans.prepared.get(name).cloned() {
                    Some(named) => self.bind_one(&named)?,
                    None => bind::bind_function(&*self.choose_function(name, args)?, &catalog)?,
                };
                (self.explained_plan(&bound, options)?, values)
            }
            Statement::Query(_) | Statement::Insert(_) | Statement::Modify(_) => {
                let inner = Bound {
                    foreign: bound.foreign.clone(),
                    ..Bound::of(statement.clone(), bound.params.clone(), bound.catalog_version)
                };
                (self.explained_plan(&inner, options)?, Vec::new())
            }
            _ => return Err(SqlError::unsupported("EXPLAIN of a utility statement")),
        };
        if options.analyze && plan.program.writes {
            self.refuse_read_only(plan.program.tag.of_writing())?;
        }
        let (lines, token) = if options.analyze {
            self.analyze(&plan, &values, options)?
        } else {
            let workers = self.workers_for(&plan);
            (explain::lines(&plan.program, options, None, workers), None)
        };
        give(explained_columns(), lines.iter().map(|l| [l.as_str()]), out)?;
        out.done("EXPLAIN", token)
    }
}

/// A result of texts.
fn shown_columns(settings: &Settings, name: &str) -> SqlResult<Arc<[Column]>> {
    Ok(match name.eq_ignore_ascii_case("all") {
        true => ["name", "setting", "description"].iter().map(|n| column(n, TypeId::TEXT)).collect(),
        false => Arc::new([column(&settings.show(name)?.0, TypeId::TEXT)]),
    })
}

fn explained_columns() -> Arc<[Column]> {
    Arc::new([column("QUERY PLAN", TypeId::TEXT)])
}

fn give<'a, const N: usize>(
    columns: Arc<[Column]>,
    texts: impl Iterator<Item = [&'a str; N]>,
    out: &mut dyn Output,
) -> SqlResult<()> {
    out.columns(&columns)?;
    let mut rows = Rows::of(columns);
    for t in texts {
        rows.clear();
        rows.push(&t.map(ValueRef::Text))?;
        out.row(rows.row(0))?;
    }
    Ok(())
}

fn no_prepared(name: &str) -> SqlError {
    SqlError::new(
        sqlstate::INVALID_SQL_STATEMENT_NAME,
        format!("prepared statement \"{name}\" does not exist"),
    )
}
