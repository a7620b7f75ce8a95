//! Between a session and the interpreter: compiling, running, and what a running statement may know of the
//! world.
use crate::session::Session;
use crate::session::facts::Facts;
use crate::session::identity::Names;
use crate::session::named::{CursorRow, current_row};
use crate::session::notify::{self, Said};
use crate::session::plan::Plan;
use crate::session::settings::Settings;
use crate::session::system;
use ondol_base::cancel::Cancel;
use ondol_base::park::Parker;
use ondol_base::random;
use ondol_base::sync::Mutex;
use ondol_engine::name::USER;
use ondol_engine::{Catalog, ColumnDef, Connection, FunctionDef, Table, Token};
use ondol_sql::bind;
use ondol_sql::bound::{Bound, ExplainOptions, Expr, Query, Statement, Target};
use ondol_sql::catalog::{Sight, by_key};
use ondol_sql::code::{Program, Rejected};
use ondol_sql::compile::compile;
use ondol_sql::interpret::{self, Env, Frame, Frames, Host, RowPrograms, Sink};
use ondol_sql::plan::ways::Ways;
use ondol_types::func::{Caller, Context, NoCaller};
use ondol_types::limits::Limits;
use ondol_types::objects::Nothing;
use ondol_types::style::Styles;
use ondol_types::{SqlError, SqlResult, TypeId, Value, ValueRef, sqlstate};
use std::collections::HashMap;
use std::sync::Arc;

/// Microseconds from 1970 to 2000, where SQL's time begins.
const EPOCH_US: i64 = 946_684_800_000_000;

pub(crate) const VERSION: &str = concat!("PostgreSQL 15.0 compatible, Ondol ", env!("CARGO_PKG_VERSION"));

fn clock_us() -> i64 {
    ondol_base::clock::wall_us() - EPOCH_US
}

/// A function's definition, the dictionary's version, and the program made for both.
type Made = (Arc<FunctionDef>, u64, Arc<Program>);

/// What statements of one session ask of it while they run.
pub(crate) struct SessionHost {
    /// Programs of registered queries that other statements call, with the definitions they were made of.
    programs: Mutex<HashMap<u32, Made>>,
    /// The dictionary of the statement at hand, when it calls functions.
    catalog: Mutex<Option<Arc<Catalog>>>,
    /// What the statement at hand sees of the settings.
    settings: Mutex<Seen>,
    /// What the catalogue shows of the session.
    facts: Mutex<Facts>,
}

/// Settings as a statement sees them, and as it leaves them.
#[derive(Default)]
struct Seen {
    settings: Option<Settings>,
    cursors: Vec<CursorRow>,
    changed: bool,
    /// What is to be told when the statement has succeeded.
    warnings: Vec<(&'static str, String)>,
    /// Of pg_notify.
    said: Vec<Said>,
    listens: Vec<String>,
    /// How much more may be said.
    room: usize,
    queue_usage: f64,
}

/// The error of a statement that somebody wished to end.
#[cold]
pub(crate) fn canceled() -> SqlError {
    SqlError::new(sqlstate::QUERY_CANCELED, "canceling statement due to user request")
}

impl SessionHost {
    pub fn new() -> SessionHost {
        SessionHost {
            programs: Mutex::new(HashMap::new()),
            catalog: Mutex::new(None),
            settings: Mutex::new(Seen::default()),
            facts: Mutex::new(Facts::default()),
        }
    }
}

impl Host for SessionHost {
    fn system_rows(
        &self,
        view: &str,
        key: Option<(usize, ValueRef<'_>)>,
        connection: &Connection,
        each: &mut dyn FnMut(&[ValueRef<'_>]) -> SqlResult<()>,
    ) -> SqlResult<()> {
        if by_key(view).is_some() {
            return match self.facts.lock().sight() {
                Some(sight) => ondol_sql::catalog::rows(view, key, &sight, each),
                None => Ok(()),
            };
        }
        let (settings, cursors) = {
            let seen = self.settings.lock();
            (seen.settings.clone(), seen.cursors.clone())
        };
        system::rows(view, connection, settings.as_ref(), &cursors, each)
    }
    fn function(&self, function: &Arc<FunctionDef>) -> SqlResult<Arc<Program>> {
        let Some(catalog) = self.catalog.lock().clone() else {
            return Err(SqlError::new(
                sqlstate::INTERNAL_ERROR,
                "a function was called without a dictionary",
            ));
        };
        if let Some((def, version, program)) = self.programs.lock().get(&function.id)
            && Arc::ptr_eq(def, function)
            && *version == catalog.version
        {
            return Ok(program.clone());
        }
        let program = Arc::new(program_of(function, &catalog)?);
        self.programs.lock().insert(function.id, (function.clone(), catalog.version, program.clone()));
        Ok(program)
    }
    fn column_default(&self, column: &ColumnDef, catalog: &Catalog) -> SqlResult<Arc<Program>> {
        program_of_value(bind::column_default(catalog, column)?, Vec::new(), catalog)
    }
    fn domain_value(&self, column: &ColumnDef, catalog: &Catalog) -> SqlResult<Option<Arc<Program>>> {
        let Some(expr) = bind::domain_value(catalog, column)? else { return Ok(None) };
        program_of_value(expr, vec![column.ty.id], catalog).map(Some)
    }
    fn row_values(&self, table: &Table, catalog: &Catalog) -> SqlResult<RowPrograms> {
        let (values, columns) = bind::computed_values(catalog, table)?;
        let params: Vec<TypeId> = columns.iter().map(|c| table.def.columns[usize::from(*c)].ty.id).collect();
        let programs =
            values.into_iter().map(|(n, e)| Ok((n, program_of_value(e, params.clone(), catalog)?)));
        Ok((programs.collect::<SqlResult<_>>()?, columns))
    }
    fn row_checks(&self, table: &Table, catalog: &Catalog) -> SqlResult<Option<(Arc<Program>, Vec<u16>)>> {
        let Some((expr, columns)) = bind::failed_check(catalog, table)? else { return Ok(None) };
        let params = columns.iter().map(|c| table.def.columns[usize::from(*c)].ty.id).collect();
        Ok(Some((program_of_value(expr, params, catalog)?, columns)))
    }
}

/// A program that gives an expression over parameters of these types.
pub(crate) fn program_of_value(
    expr: Expr,
    params: Vec<TypeId>,
    catalog: &Catalog,
) -> SqlResult<Arc<Program>> {
    let targets = vec![Target { expr, name: "?column?".into(), hidden: false }];
    let bound = Bound::of(Statement::Query(Query { targets, ..Query::default() }), params, catalog.version);
    compile_at(&bound, catalog, 0, Limits::NONE, Ways::ALL, None).map(Arc::new)
}

impl Caller for SessionHost {
    fn setting(&self, name: &str) -> SqlResult<Option<String>> {
        let seen = self.settings.lock();
        Ok(seen.settings.as_ref().and_then(|s| s.show(name).ok()).map(|s| s.1))
    }
    fn set(&self, name: &str, value: Option<&str>, local: bool) -> SqlResult<String> {
        let mut seen = self.settings.lock();
        let Some(settings) = &mut seen.settings else { return NoCaller.set(name, value, local) };
        let own = ["transaction_isolation", "transaction_read_only", "transaction_deferrable"];
        if own.iter().any(|n| n.eq_ignore_ascii_case(name)) {
            return Err(SqlError::unsupported(format_args!("set_config of {name}"))
                .hint("SET TRANSACTION sets the transaction's mode."));
        }
        if ["role", "session_authorization"].iter().any(|n| n.eq_ignore_ascii_case(name)) {
            return Err(SqlError::unsupported(format_args!("set_config of {name}"))
                .hint("SET ROLE and SET SESSION AUTHORIZATION set them."));
        }
        settings.set(name, value, local)?;
        let shown = settings.show(name)?.1;
        seen.changed = true;
        Ok(shown)
    }
    fn warn(&self, sqlstate: &'static str, message: String) {
        self.settings.lock().warnings.push((sqlstate, message))
    }
    fn notify(&self, channel: &str, payload: &str) -> SqlResult<()> {
        notify::check(channel, payload)?;
        let said = Said::Notify { channel: channel.to_string(), payload: payload.to_string() };
        let mut seen = self.settings.lock();
        seen.room = seen.room.checked_sub(said.bytes()).ok_or_else(notify::full)?;
        seen.said.push(said);
        Ok(())
    }
    fn listens(&self) -> Vec<String> {
        self.settings.lock().listens.clone()
    }
    fn queue_usage(&self) -> f64 {
        self.settings.lock().queue_usage
    }
    fn current_row(&self, cursor: &str, (table, number): (&str, i32)) -> SqlResult<Option<u64>> {
        current_row(&self.settings.lock().cursors, cursor, (table, number as u32))
    }
}

/// How deep registered queries may call each other.
const DEEPEST: u32 = 30;

/// A registered query's program: the stored one, or one made of its text when the stored one is of another
/// time.
pub(crate) fn program_of(function: &FunctionDef, catalog: &Catalog) -> SqlResult<Program> {
    program_at(function, catalog, 0)
}

fn program_at(function: &FunctionDef, catalog: &Catalog, depth: u32) -> SqlResult<Program> {
    if depth > DEEPEST {
        return Err(SqlError::unsupported("a registered query that calls itself")
            .detail(format!("Function {} is {DEEPEST} calls below where it began.", function.name)));
    }
    // Made while its body had no meaning: it has none stored.
    let stored = match function.code.is_empty() {
        true => Err(Rejected::Stale),
        false => Program::decode(&function.code, catalog),
    };
    match stored {
        Ok(p) => Ok(p),
        Err(Rejected::Stale) => {
            let bound = ondol_sql::bind::bind_function(function, catalog)?;
            compile_at(&bound, catalog, depth, Limits::NONE, Ways::ALL, None)
        }
        Err(Rejected::Corrupt(what)) => Err(SqlError::new(
            sqlstate::DATA_CORRUPTED,
            format!("the stored byte code of function {} is damaged: {what}", function.name),
        )
        .hint("CREATE OR REPLACE FUNCTION makes it anew.")),
    }
}

fn compile_at(
    bound: &Bound,
    catalog: &Catalog,
    depth: u32,
    limits: Limits<'_>,
    ways: Ways,
    explain: Option<ExplainOptions>,
) -> SqlResult<Program> {
    let find = |f: &Arc<FunctionDef>| program_at(f, catalog, depth + 1).map(Arc::new);
    let program = compile(catalog, bound, &find, limits, ways, explain)?;
    // What is only explained reads nothing.
    if explain.is_none_or(|e| e.analyze)
        && let Some(t) = program.tables.iter().find(|t| t.def.is_unpopulated())
    {
        let message = format!("materialized view \"{}\" has not been populated", t.def.name);
        let error = SqlError::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
        return Err(error.hint("Use the REFRESH MATERIALIZED VIEW command."));
    }
    Ok(program)
}

/// The context that a program runs in, unless it may be [`UNTIMED`].
#[inline]
pub(crate) fn context_for<'a>(
    plan: &Plan,
    names: &'a Names,
    host: &'a SessionHost,
    sight: Option<&'a Sight<'a>>,
    styles: Styles,
) -> Option<Context<'a>> {
    (!plan.timeless).then(|| seeing(context(names, host, styles), sight))
}

/// The context with the database's objects.
pub(crate) fn seeing<'a>(context: Context<'a>, sight: Option<&'a Sight<'a>>) -> Context<'a> {
    match sight {
        Some(objects) => Context { objects, ..context },
        None => context,
    }
}

/// A context for reading values, with the transaction's time.
pub(crate) fn context_at(names: &Names, now_us: i64, styles: Styles) -> Context<'_> {
    let now = clock_us();
    context_as_of(names, now_us, now, styles)
}

/// A context of a statement that began elsewhere.
pub(crate) fn context_as_of(names: &Names, now_us: i64, statement_us: i64, styles: Styles) -> Context<'_> {
    Context {
        now_us,
        statement_us,
        clock: &clock_us,
        random: &random::next_u64,
        user: &names.user,
        session_user: &names.session_user,
        database: &names.database,
        version: VERSION,
        limits: Limits::NONE,
        caller: &NoCaller,
        objects: &Nothing,
        styles,
    }
}

/// The same, with the time of its making, for a session.
#[inline(never)]
fn context<'a>(names: &'a Names, host: &'a SessionHost, styles: Styles) -> Context<'a> {
    let now = clock_us();
    Context { caller: host, ..context_as_of(names, now, now, styles) }
}

/// Breaks off what a session is doing, from another thread.
///
/// ```
/// # fn main() -> ondol::Result<()> {
/// # let folder = ondol::TempFolder::new()?;
/// # let db = ondol::Database::open(folder.path())?;
/// let mut session = db.session();
/// let canceller = session.canceller();
/// std::thread::spawn(move || {
///     std::thread::sleep(std::time::Duration::from_millis(100));
///     canceller.cancel();
/// });
/// let error = session.query("SELECT count(*) FROM generate_series(1, 1000000000000)", &[]).unwrap_err();
/// assert_eq!(error.sqlstate(), "57014");
/// # Ok(())
/// # }
/// ```
///
/// Who cancels late may mean a statement that is over by then. Statements have numbers, so that the next one
/// is not broken off in its place:
///
/// ```
/// # fn main() -> ondol::Result<()> {
/// # let folder = ondol::TempFolder::new()?;
/// # let db = ondol::Database::open(folder.path())?;
/// # let mut session = db.session();
/// let canceller = session.canceller();
/// session.query("SELECT 1", &[])?;
/// let first = canceller.statement();
/// session.query("SELECT 2", &[])?;
/// assert!(!canceller.cancel_only(first));
/// assert_eq!(canceller.statement(), first + 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Canceller {
    cancel: Arc<Cancel>,
    /// Where the session waits for others.
    parker: Arc<Parker>,
}

impl Canceller {
    pub(super) fn new(cancel: Arc<Cancel>, connection: &Connection) -> Canceller {
        Canceller { cancel, parker: connection.parker().clone() }
    }
    /// The statement that runs now, if any, ends with SQLSTATE 57014, which fails its transaction as any
    /// error does. Waits for locks are broken off too; a commit that waits to become durable is not.
    pub fn cancel(&self) {
        self.cancel.tell();
        self.parker.unpark()
    }
    /// The number of the statement that runs now, or that ran last. The session's next statement will have
    /// the next number: statements, calls of registered queries and of prepared statements count, each batch
    /// as one, and so does each statement of a text that has several.
    pub fn statement(&self) -> u64 {
        self.cancel.number()
    }
    /// As [`Canceller::cancel`], but only the statement of that number, see [`Canceller::statement`]. False
    /// if the session has begun another one since, or has not begun it yet: then nothing happens.
    pub fn cancel_only(&self, statement: u64) -> bool {
        let told = self.cancel.tell_only(statement);
        if told {
            self.parker.unpark()
        }
        told
    }
    /// Whether the session's last or present statement was told to end.
    pub fn was_cancelled(&self) -> bool {
        self.cancel.is_told()
    }
    /// Cancels at each interrupt (Ctrl-C) that the process gets from now on, instead of ending it.
    pub fn cancel_on_interrupt(&self) -> std::io::Result<()> {
        ondol_base::interrupt::tells(self.cancel.clone(), Some(self.parker.clone()))
    }
}

impl Session {
    /// For breaking off statements of this session from elsewhere.
    pub fn canceller(&self) -> Canceller {
        Canceller::new(self.cancel.clone(), &self.connection)
    }
    /// For seeing from elsewhere whether a statement of this session waits for another's transaction.
    pub fn waiter(&self) -> ondol_engine::Waiter {
        self.connection.waiter()
    }

    pub(crate) fn compile(&self, bound: &Bound) -> SqlResult<Program> {
        compile_at(bound, &self.connection.catalog(), 0, self.limits(), self.quick.ways, None)
    }
    /// The same of what is everybody's (ways/V2).
    pub(crate) fn compile_for_all(&self, bound: &Bound) -> SqlResult<Program> {
        compile_at(bound, &self.connection.catalog(), 0, self.limits(), Ways::ALL, None)
    }
    pub(crate) fn compile_explained(&self, bound: &Bound, options: ExplainOptions) -> SqlResult<Program> {
        compile_at(bound, &self.connection.catalog(), 0, self.limits(), self.quick.ways, Some(options))
    }

    pub(crate) fn with_context<R>(&self, f: impl FnOnce(&Context<'_>) -> R) -> R {
        f(&self.context_of(&self.identity.names))
    }

    /// What values may know that are read outside of programs.
    pub(crate) fn context_of<'a>(&self, names: &'a Names) -> Context<'a> {
        context_at(names, self.connection.transaction_time_us(), self.quick.styles)
    }

    /// Of what is done for a statement before it runs.
    pub(crate) fn limits(&self) -> Limits<'_> {
        Limits::new(Some(self.cancel.word()), None)
    }

    pub(crate) fn check_cancel(&self) -> SqlResult<()> {
        match self.cancel.is_told() {
            true => Err(canceled()),
            false => Ok(()),
        }
    }

    /// Readies the host for a program that needs it.
    #[inline]
    pub(crate) fn prepare_host(&self, plan: &Plan) {
        if plan.asks_host {
            self.inform_host()
        }
    }
    #[cold]
    fn inform_host(&self) {
        *self.host.catalog.lock() = Some(self.connection.catalog());
        *self.host.facts.lock() = self.facts();
        *self.host.settings.lock() = Seen {
            settings: Some(self.settings.clone()),
            cursors: self.cursors.all(),
            listens: self.listens(),
            room: self.database.channels.room(),
            queue_usage: self.database.channels.usage(),
            ..Seen::default()
        };
    }

    /// Takes over what the statement has set. A statement that failed has set nothing.
    #[inline]
    pub(crate) fn take_settings(&mut self, plan: &Plan) {
        if plan.asks_host {
            self.take_seen_settings()
        }
    }
    #[cold]
    fn take_seen_settings(&mut self) {
        let seen = std::mem::take(&mut *self.host.settings.lock());
        for (state, message) in seen.warnings {
            self.warn(state, message)
        }
        if let Some(settings) = seen.settings.filter(|_| seen.changed) {
            self.settings = settings;
            if !self.connection.in_transaction() {
                self.settings.end_transaction();
            }
            self.settings_changed()
        }
        seen.said.into_iter().for_each(|s| self.note(s))
    }

    /// One statement of the connection, from its start to its commit.
    #[inline]
    pub(crate) fn run_program(
        &mut self,
        plan: &Plan,
        params: &[ValueRef<'_>],
        sink: &mut dyn Sink,
    ) -> SqlResult<(u64, Option<Token>)> {
        self.fresh = false;
        if let Some(update) = &plan.update
            && let Some(done) = update.call(&mut self.connection, params)
        {
            return done.map(|d| (d.rows_affected, d.token));
        }
        #[cfg(feature = "scan")]
        if plan.parted.is_some_and(|p| p.is_grouped())
            && let workers @ 1.. = self.workers_for(plan)
        {
            return self.run_program_in_parts(plan, workers, params, sink);
        }
        self.prepare_host(plan);
        let facts = self.facts_for(plan);
        let sight = facts.as_ref().and_then(Facts::sight);
        let styles = self.quick.styles;
        let context = context_for(plan, &self.identity.names, &self.host, sight.as_ref(), styles);
        let env = Env {
            context: context.as_ref().unwrap_or(&UNTIMED),
            host: &self.host,
            cancel: Some(&self.cancel),
            memory_limit: self.database.work_limit,
            workers: self.workers_that_count(&plan.program),
        };
        let mut own = None;
        let frame = frame_of(&mut self.plans.frames, &mut own, plan);
        let done = interpret::run(frame, &plan.program, &mut self.connection, params, sink, &env)?;
        self.take_settings(plan);
        Ok((done.rows_affected, done.token))
    }

    /// A program run within a statement that was begun already.
    pub(crate) fn run_program_within(
        &mut self,
        plan: &Plan,
        params: &[ValueRef<'_>],
        sink: &mut dyn Sink,
    ) -> SqlResult<()> {
        self.prepare_host(plan);
        let facts = self.facts_for(plan);
        let sight = facts.as_ref().and_then(Facts::sight);
        let context = seeing(context(&self.identity.names, &self.host, self.quick.styles), sight.as_ref());
        let env = Env {
            context: &context,
            host: &self.host,
            cancel: Some(&self.cancel),
            memory_limit: self.database.work_limit,
            workers: self.workers_that_count(&plan.program),
        };
        let mut own = None;
        let frame = frame_of(&mut self.plans.frames, &mut own, plan);
        interpret::run_within(frame, &plan.program, &mut self.connection, params, sink, &env)?;
        self.take_settings(plan);
        Ok(())
    }

    /// EXPLAIN ANALYZE: the statement is run, and the lines tell what it did.
    pub(crate) fn analyze(
        &mut self,
        plan: &Plan,
        params: &[Value],
        options: ExplainOptions,
    ) -> SqlResult<(Vec<String>, Option<Token>)> {
        self.fresh = false;
        self.prepare_host(plan);
        let fitted = self.fit(params, &plan.program.params)?;
        let facts = self.facts_for(plan);
        let sight = facts.as_ref().and_then(Facts::sight);
        let context = seeing(context(&self.identity.names, &self.host, self.quick.styles), sight.as_ref());
        let env = Env {
            context: &context,
            host: &self.host,
            cancel: Some(&self.cancel),
            memory_limit: self.database.work_limit,
            workers: self.workers_that_count(&plan.program),
        };
        let mut own = None;
        let frame = frame_of(&mut self.plans.frames, &mut own, plan);
        let connection = &mut self.connection;
        let (done, lines) = crate::session::params::with_refs(&fitted, |refs| {
            interpret::run_measured(frame, &plan.program, connection, refs, &env, options)
        })?;
        self.take_settings(plan);
        Ok((lines, done.token))
    }
}

/// The frame to run a plan in. One with foreign tables is run once: it has a frame of its own, so that no
/// file stays open with a kept one. A long one has, too, so that its memory goes with its execution.
#[inline]
pub(crate) fn frame_of<'f>(
    frames: &'f mut Frames,
    own: &'f mut Option<Box<Frame>>,
    plan: &Plan,
) -> &'f mut Frame {
    match plan.program.foreigns.is_empty() && !plan.is_long() {
        true => frames.of(&plan.program),
        false => own.insert(Box::default()),
    }
}

/// For programs that call nothing that could ask for the time: reading the clock would be much of what they
/// cost.
pub(crate) const UNTIMED: Context<'static> = Context {
    now_us: 0,
    statement_us: 0,
    clock: &clock_us,
    random: &random::next_u64,
    user: USER,
    session_user: USER,
    database: "",
    version: VERSION,
    limits: Limits::NONE,
    caller: &NoCaller,
    objects: &Nothing,
    styles: Styles::USUAL,
};
