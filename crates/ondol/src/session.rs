//! A session: one user of a database, one transaction at a time.
//!
//! - **N1** A statement's plan is kept under its text (and the parameter types it was given), and is good for
//!   as long as the dictionary is the one it was made for: the engine checks that when the statement starts,
//!   and a stale plan is made anew and started again, which nobody notices. When the dictionary has changed,
//!   plans whose own tables are as they were are taken over, unless a name may mean something else
//!   (`engine::Meanings`). The database keeps them for all sessions (`plans`).
//! - **N2** Whatever error a statement ends with, it leaves nothing of itself behind; inside BEGIN it also
//!   fails the transaction.
//! - **N3** A statement outside BEGIN is durable when its call returns, unless asked otherwise
//!   (`synchronous_commit`, [`Session::call_async`], [`Session::held`]); then its [`Token`] stands for what
//!   is still to come.
use crate::database::Database;
use control::Ended;
use identity::Identity;
use named::Cursors;
use notify::{Notes, Wake};
use ondol_base::cancel::Cancel;
use ondol_base::timer::Alarm;
use ondol_engine::name::USUAL_PATH;
use ondol_engine::{Catalog, Charge, Connection, FunctionDef, Isolation, Name, Path, Token};
use ondol_sql::bound::Modes;
use ondol_sql::level::IsolationLevel;
use ondol_sql::plan::ways::Ways;
use ondol_types::catalog::registered;
use ondol_types::style::Styles;
use ondol_types::{SqlError, SqlResult, TypeId, Value, ValueRef, sqlstate};
use output::{Gather, Notice, Outcome, Output, Progress};
use params::{are_fitted, count_mismatch, fit, with_refs};
use plan::Plan;
use plans::Plans;
use rows::{Row, Rows};
use runtime::SessionHost;
use settings::Settings;
use std::borrow::Cow;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::Duration;

pub(crate) mod activity;
#[cfg(not(feature = "scan"))]
pub(crate) mod alone;
pub(crate) mod batch;
pub(crate) mod control;
pub(crate) mod cursor;
pub(crate) mod define;
mod define_key;
mod define_type;
mod define_view;
pub(crate) mod execute;
pub(crate) mod facts;
pub(crate) mod foreign;
pub(crate) mod held;
pub(crate) mod identity;
mod literals;
pub(crate) mod meter;
pub(crate) mod named;
pub(crate) mod notify;
pub(crate) mod output;
pub(crate) mod params;
pub(crate) mod plan;
pub(crate) mod planned;
pub(crate) mod plans;
pub(crate) mod prepared;
pub(crate) mod rights;
pub(crate) mod roles;
pub(crate) mod rows;
pub(crate) mod runtime;
pub(crate) mod schema;
pub(crate) mod sequences;
pub(crate) mod settings;
pub mod split;
pub(crate) mod statements;
pub(crate) mod system;
pub(crate) mod transaction;
#[cfg(feature = "scan")]
pub(crate) mod workers;

/// A registered query's identity, which survives restarts: what [`Session::call`] is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueryId(pub u32);

type OnNotice = Box<dyn FnMut(&Notice) + Send>;

/// Kilobytes of a page.
#[cfg(feature = "scan")]
const PAGE_KB: usize = 4;
/// The same of a block, in which sizes of tables are set.
#[cfg(feature = "scan")]
const BLOCK_KB: usize = 8;

/// What of the settings each statement looks at.
#[derive(Clone, Copy)]
pub(crate) struct Quick {
    synchronous: bool,
    /// How values are read and shown.
    pub styles: Styles,
    pub timeout: Option<Duration>,
    /// What a transaction is that says nothing else.
    pub default_level: IsolationLevel,
    pub default_read_only: bool,
    pub default_deferrable: bool,
    /// The ways by which statements are planned.
    pub ways: Ways,
    /// A statement outside a transaction needs one of its own: the default level or mode is not the usual
    /// one.
    pub own_transaction: bool,
    /// Neither that nor a timeout, nor anything held to wait for (held/H2); and values look as usual.
    pub is_plain: bool,
    /// The same, and names are looked up by the usual path, which a prepared statement's own plan is made by.
    pub is_plain_text: bool,
    /// Threads that may read a table for a statement, if it has so many pages.
    #[cfg(feature = "scan")]
    pub workers: usize,
    #[cfg(feature = "scan")]
    pub parted_pages: usize,
}

impl Quick {
    fn new(settings: &Settings) -> Quick {
        let timeout = settings.ms("statement_timeout");
        let level = IsolationLevel::of_name(settings.get("default_transaction_isolation"));
        let default_level = level.unwrap_or(IsolationLevel::ReadCommitted);
        let default_read_only = settings.is_on("default_transaction_read_only");
        let own_transaction = default_level != IsolationLevel::ReadCommitted || default_read_only;
        let ways = Ways {
            no_full: !settings.is_on("enable_seqscan"),
            no_index: !settings.is_on("enable_indexscan"),
            no_hash: !settings.is_on("enable_hashjoin"),
            no_loop: !settings.is_on("enable_nestloop"),
            no_sort: !settings.is_on("enable_sort"),
        };
        Quick {
            default_level,
            default_read_only,
            default_deferrable: settings.is_on("default_transaction_deferrable"),
            synchronous: settings.get("synchronous_commit") != "off",
            styles: settings.styles(),
            timeout,
            ways,
            own_transaction,
            is_plain: timeout.is_none() && !own_transaction,
            is_plain_text: timeout.is_none()
                && !own_transaction
                && settings.search_path() == USUAL_PATH
                && ways == Ways::ALL,
            #[cfg(feature = "scan")]
            workers: settings.number("max_parallel_workers_per_gather"),
            #[cfg(feature = "scan")]
            parted_pages: (settings.number("min_parallel_table_scan_size") * BLOCK_KB).div_ceil(PAGE_KB),
        }
    }
}

pub struct Session {
    pub(crate) database: Database,
    pub(crate) connection: Connection,
    pub(crate) settings: Settings,
    pub(crate) identity: Identity,
    pub(crate) quick: Quick,
    /// An empty one, for rows that are gathered.
    spare_charge: Option<Charge>,
    /// The settings at BEGIN (an empty name) and at each savepoint.
    /// With how much was said then (notify/O1).
    pub(crate) marks: Vec<(String, Settings, usize)>,
    /// Transactions and guarded savepoints begun so far: what guards tell theirs by.
    pub(crate) transactions: u64,
    pub(crate) savepoints: u64,
    /// No statement ran in the transaction yet.
    pub(crate) fresh: bool,
    /// The transaction is no block: it was begun for statements that came together (control/X4).
    pub(crate) implicit: bool,
    pub(crate) plans: Plans,
    pub(crate) cursors: Cursors,
    pub(crate) host: SessionHost,
    /// Tells the running statement to end; counts statements.
    pub(crate) cancel: Arc<Cancel>,
    /// Of statement_timeout, once a statement had one.
    pub(crate) alarm: Option<Alarm>,
    on_notice: Option<OnNotice>,
    /// LISTEN and NOTIFY, once one was used.
    pub(crate) notes: Option<Box<Notes>>,
    /// Is called when the session was told something.
    pub(crate) wake: Option<Wake>,
    /// Its number, as `pg_backend_pid()` gives it: the process's, or what a server gave it.
    pub(crate) process: i32,
    /// What others see of it, if it is a server's.
    #[cfg_attr(not(feature = "server"), expect(dead_code))]
    pub(crate) seen: Option<Arc<activity::Seen>>,
}

/// What a call of a registered query did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Called {
    /// Rows given, or rows changed.
    pub rows: u64,
    /// Names the commit, if anything was changed outside a transaction. Durable, unless the commit was
    /// asynchronous.
    pub token: Option<Token>,
}

impl Session {
    pub(crate) fn new(database: &Database) -> Session {
        let cancel = Arc::new(Cancel::new());
        let mut connection = database.engine.connect();
        connection.set_cancel(cancel.clone());
        let settings = database.settings.clone();
        Session {
            connection,
            host: SessionHost::new(),
            alarm: None,
            cancel,
            database: database.clone(),
            quick: Quick::new(&settings),
            spare_charge: None,
            identity: Identity::new(&database.name),
            settings,
            marks: Vec::new(),
            transactions: 0,
            savepoints: 0,
            fresh: false,
            implicit: false,
            plans: Plans::new(database.plans.clone()),
            cursors: Cursors::default(),
            on_notice: None,
            notes: None,
            wake: None,
            process: i32::try_from(std::process::id()).unwrap_or(0),
            seen: None,
        }
    }

    /// Calls `f` with each notice and warning from now on; without it they are dropped.
    pub fn on_notice(&mut self, f: impl FnMut(&Notice) + Send + 'static) {
        self.on_notice = Some(Box::new(f))
    }

    /// Runs statements without parameters, separated by semicolons, and gives what each of them gave. Outside
    /// a transaction each commits by itself, so those before one that fails stay done. For one statement,
    /// with parameters, there is [`Session::query`].
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let db = ondol::Database::open(folder.path())?;
    /// let mut session = db.session();
    /// let outcomes = session.execute(
    ///     "CREATE TABLE t (a integer PRIMARY KEY, b text);
    ///      INSERT INTO t VALUES (1, 'one'), (2, 'two');
    ///      SELECT b FROM t ORDER BY a DESC;",
    /// )?;
    /// let tags: Vec<&str> = outcomes.iter().map(|o| o.tag.as_str()).collect();
    /// assert_eq!(tags, ["CREATE TABLE", "INSERT 0 2", "SELECT 2"]);
    /// assert_eq!(outcomes[2].row(0).get::<&str>(0)?, "two");
    /// # Ok(())
    /// # }
    /// ```
    pub fn execute(&mut self, sql: &str) -> SqlResult<Vec<Outcome>> {
        self.gathered(|s, out| split::split(sql).iter().try_for_each(|one| s.run(one, &[], out)))
            .map(Gather::into_all)
    }

    /// Runs one statement with parameters and gives all that it gave: its rows, the number of rows it gave or
    /// changed, PostgreSQL's command tag, and a token of its commit.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let db = ondol::Database::open(folder.path())?;
    /// # let mut session = db.session();
    /// use ondol::params;
    /// session.execute("CREATE TABLE t (a integer, b numeric(8, 2))")?;
    /// let inserted = session.query("INSERT INTO t VALUES ($1, $2), (2, NULL) RETURNING a", &params![1, "12.5"])?;
    /// assert_eq!((inserted.count, inserted.tag.as_str()), (2, "INSERT 0 2"));
    /// assert_eq!(inserted.row(1).get::<i32>(0)?, 2);
    /// let token = inserted.token.expect("it wrote, and committed by itself");
    /// assert!(db.is_durable(token), "unless synchronous_commit is off");
    ///
    /// for row in &session.query("SELECT b FROM t WHERE a = $1", &params![1])? {
    ///     assert_eq!(row.get::<String>(0)?, "12.50");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn query(&mut self, sql: &str, params: &[Value]) -> SqlResult<Outcome> {
        self.gathered(|s, out| s.run(sql, params, out)).map(Gather::into_last)
    }

    /// Runs one statement and passes its rows to `f` as they come, none of them being kept.
    pub fn for_each(
        &mut self,
        sql: &str,
        params: &[Value],
        f: impl FnMut(Row<'_>) -> SqlResult<()>,
    ) -> SqlResult<()> {
        self.run(sql, params, &mut Each(f))
    }

    /// Gathers what `f` gives. What the outcomes take is the caller's from then on.
    #[inline]
    pub(crate) fn gathered(
        &mut self,
        f: impl FnOnce(&mut Session, &mut Gather) -> SqlResult<()>,
    ) -> SqlResult<Gather> {
        // A new one each time would count what all sessions share.
        let charge = self.spare_charge.take().unwrap_or_else(|| self.connection.charge());
        let mut gather = Gather::charged(charge);
        let done = f(self, &mut gather);
        self.spare_charge = gather.uncharged();
        done.map(|()| gather)
    }

    /// Runs one statement, its outcome going to `out` as it comes.
    pub fn run(&mut self, sql: &str, params: &[Value], out: &mut dyn Output) -> SqlResult<()> {
        self.run_text(sql, &[], params, out)
    }

    /// COPY ... FROM STDIN, reading from `input`; gives the number of rows. `progress` is told now and then.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let db = ondol::Database::open(folder.path())?;
    /// # let mut session = db.session();
    /// session.execute("CREATE TABLE t (a integer, b text)")?;
    /// let n = session.copy_in("COPY t FROM STDIN (FORMAT csv)", &b"1,one\n2,\n"[..], |_| {})?;
    /// assert_eq!(n, 2);
    /// let mut text = Vec::new();
    /// session.copy_out("COPY t TO STDOUT", &mut text, |_| {})?;
    /// assert_eq!(text, b"1\tone\n2\t\\N\n");
    /// # Ok(())
    /// # }
    /// ```
    pub fn copy_in(&mut self, sql: &str, input: impl Read, progress: impl FnMut(Progress)) -> SqlResult<u64> {
        let mut out =
            Copying { input: Some(input), output: None::<std::io::Sink>, progress, rows: 0, began: false };
        self.run(sql, &[], &mut out)?;
        out.finish("COPY ... FROM STDIN")
    }

    /// COPY ... TO STDOUT, writing to `output`; gives the number of rows.
    pub fn copy_out(
        &mut self,
        sql: &str,
        output: impl Write,
        progress: impl FnMut(Progress),
    ) -> SqlResult<u64> {
        let mut out =
            Copying { input: None::<std::io::Empty>, output: Some(output), progress, rows: 0, began: false };
        self.run(sql, &[], &mut out)?;
        out.finish("COPY ... TO STDOUT")
    }

    /// Begins a transaction, which lasts until [`Session::commit`] or [`Session::rollback`], whoever calls
    /// them. [`Session::transaction`] begins one that ends with its scope.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let db = ondol::Database::open(folder.path())?;
    /// # let mut session = db.session();
    /// session.execute("CREATE TABLE t (a integer)")?;
    /// session.begin(ondol::Isolation::Serializable)?;
    /// session.execute("INSERT INTO t VALUES (1)")?;
    /// session.savepoint("s")?;
    /// assert!(session.execute("INSERT INTO nothing VALUES (2)").is_err());
    /// session.rollback_to("s")?;
    /// session.commit()?;
    /// assert_eq!(session.query("SELECT a FROM t", &[])?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn begin(&mut self, isolation: Isolation) -> SqlResult<()> {
        if self.connection.in_transaction() {
            return Err(SqlError::new(
                sqlstate::ACTIVE_SQL_TRANSACTION,
                "there is already a transaction in progress",
            ));
        }
        self.start_transaction(Modes { isolation: Some(isolation.into()), ..Modes::default() })
    }

    /// Commits; durable when this returns, unless `synchronous_commit` is off. The token names the commit, if
    /// anything was written.
    pub fn commit(&mut self) -> SqlResult<Option<Token>> {
        self.forget_cancel();
        match self.commit_or_roll_back(false)? {
            Ended::Committed(token) => Ok(token),
            Ended::RolledBack => Err(SqlError::new(
                sqlstate::IN_FAILED_SQL_TRANSACTION,
                "the transaction had failed and was rolled back",
            )),
        }
    }

    /// Commits without waiting for durability. The token, if anything was written, can be waited for.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let db = ondol::Database::open(folder.path())?;
    /// # let mut session = db.session();
    /// session.execute("CREATE TABLE t (a integer)")?;
    /// session.begin(ondol::Isolation::ReadCommitted)?;
    /// session.execute("INSERT INTO t VALUES (1)")?;
    /// let token = session.commit_async()?.expect("something was written");
    /// // Others see the row already; after this it outlives a power failure.
    /// db.wait(token)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn commit_async(&mut self) -> SqlResult<Option<Token>> {
        self.forget_cancel();
        self.connection.set_synchronous(false);
        let done = self.connection_commit_async();
        self.connection.set_synchronous(self.quick.synchronous);
        done
    }

    /// Gives up the memory that makes the next statement quicker: its own copies of plans, and buffers. For
    /// whoever has thousands of sessions and knows which are idle; one takes less than 2 KiB then. Nothing
    /// else changes: transactions, cursors, prepared statements and settings stay, the database keeps the
    /// plans, and the next statement takes its memory again.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let db = ondol::Database::open(folder.path())?;
    /// let mut session = db.session();
    /// session.execute("CREATE TABLE t (a integer); BEGIN; INSERT INTO t VALUES (1)")?;
    /// session.shrink();
    /// session.execute("INSERT INTO t VALUES (2); COMMIT")?;
    /// assert_eq!(session.query("SELECT a FROM t", &[])?.len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn shrink(&mut self) {
        self.plans.shrink();
        self.connection.shrink()
    }

    /// A wish to end an earlier statement is none to end what is done beside statements: preparing one, a
    /// commit that gathers the rows of cursors.
    pub(crate) fn forget_cancel(&mut self) {
        if self.cancel.is_told() {
            self.cancel.begin()
        }
    }
    fn connection_commit_async(&mut self) -> SqlResult<Option<Token>> {
        if self.connection.is_failed() {
            return self.commit();
        }
        match self.commit_with_cursors() {
            Ok(t) => {
                self.settings_committed();
                Ok(t)
            }
            Err(e) => {
                self.drop_transaction();
                Err(e)
            }
        }
    }

    pub fn rollback(&mut self) {
        if self.connection.in_transaction() {
            self.drop_transaction()
        }
    }
    pub fn savepoint(&mut self, name: &str) -> SqlResult<()> {
        let done = self.set_savepoint(name);
        self.ended(done)
    }
    pub fn release(&mut self, name: &str) -> SqlResult<()> {
        let done = self.free_savepoint(name);
        self.ended(done)
    }
    pub fn rollback_to(&mut self, name: &str) -> SqlResult<()> {
        let done = self.back_to_savepoint(name);
        self.ended(done)
    }
    #[inline]
    pub fn in_transaction(&self) -> bool {
        self.connection.in_transaction()
    }
    /// Whether the transaction failed and waits to be rolled back.
    pub fn is_failed(&self) -> bool {
        self.connection.is_failed()
    }
    /// Waits until the commit of the token is durable.
    pub fn wait(&self, token: Token) -> SqlResult<()> {
        self.connection.wait_durable(token)
    }
    pub fn database(&self) -> &Database {
        &self.database
    }
    /// The dictionary as this session sees it: tables, their columns and indexes, registered queries.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.connection.catalog()
    }

    /// The registered query of that name, which may be given with its schema.
    pub fn query_id(&self, name: &str) -> SqlResult<QueryId> {
        let catalog = self.connection.catalog();
        let found = self.functions_called(&catalog, name);
        match (found.first(), found.get(1)) {
            (Some(f), None) => Ok(QueryId(f.id)),
            (None, _) => Err(SqlError::new(
                sqlstate::UNDEFINED_FUNCTION,
                format!("could not find a function named \"{name}\""),
            )),
            _ => Err(SqlError::new(
                sqlstate::AMBIGUOUS_FUNCTION,
                format!("function name \"{name}\" is not unique"),
            )),
        }
    }

    /// The functions that a name means, with its schema or by the path.
    pub(crate) fn functions_called<'c>(&self, catalog: &'c Catalog, name: &str) -> Vec<&'c Arc<FunctionDef>> {
        let found = catalog.find_functions(&self.path(catalog), name);
        match name.split_once('.').filter(|_| found.is_empty()) {
            Some((schema, name)) => {
                let number = catalog.schema(schema).map(|s| s.number);
                let all = catalog.functions.values();
                all.filter(|f| Some(f.schema) == number && f.name == name).collect()
            }
            None => found,
        }
    }
    /// The path by which names are looked up (identity/I3).
    pub(crate) fn listed(&self) -> &str {
        &self.identity.listed
    }
    /// Where names without a schema are looked for now, in a dictionary.
    pub fn path(&self, catalog: &Catalog) -> Path {
        Path::of(catalog, self.listed())
    }
    /// A relation's name as messages have it.
    pub(crate) fn shown(&self, catalog: &Catalog, name: &Name) -> String {
        catalog.shown(&self.path(catalog), name)
    }

    /// Calls a registered query; its rows replace those in `rows`, whose memory is reused.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let db = ondol::Database::open(folder.path())?;
    /// # let mut session = db.session();
    /// use ondol::{Rows, ValueRef};
    /// session.execute(
    ///     "CREATE TABLE t (a bigint PRIMARY KEY, b text);
    ///      INSERT INTO t VALUES (7, 'seven');
    ///      CREATE FUNCTION find(bigint) RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t WHERE a = $1'",
    /// )?;
    /// let find = session.query_id("find")?;
    /// let mut rows = Rows::new();
    /// assert_eq!(session.call(find, &[ValueRef::Int8(7)], &mut rows)?.rows, 1);
    /// assert_eq!(rows.row(0).get::<&str>(1)?, "seven");
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn call(&mut self, query: QueryId, params: &[ValueRef<'_>], rows: &mut Rows) -> SqlResult<Called> {
        match self.call_point(query, params, rows) {
            Some(found) => Ok(Called { rows: found.into(), token: None }),
            None => self.call_long(query, params, rows),
        }
    }
    #[inline(never)]
    fn call_long(&mut self, query: QueryId, params: &[ValueRef<'_>], rows: &mut Rows) -> SqlResult<Called> {
        self.timed(|s| s.call_once(query, params, rows))
    }

    /// Calls a registered query without waiting for its commit to be durable: the token can be waited for.
    pub fn call_async(
        &mut self,
        query: QueryId,
        params: &[ValueRef<'_>],
        rows: &mut Rows,
    ) -> SqlResult<Called> {
        if let Some(found) = self.call_point(query, params, rows) {
            return Ok(Called { rows: found.into(), token: None });
        }
        self.connection.set_synchronous(false);
        let done = self.call_long(query, params, rows);
        self.connection.set_synchronous(self.quick.synchronous);
        done
    }

    pub(crate) fn warn(&mut self, sqlstate: &'static str, message: impl Into<String>) {
        self.tell("WARNING", sqlstate, message.into(), None)
    }
    pub(crate) fn notice(&mut self, sqlstate: &'static str, message: impl Into<String>) {
        self.tell("NOTICE", sqlstate, message.into(), None)
    }
    pub(crate) fn notice_with(&mut self, message: impl Into<String>, detail: impl Into<String>) {
        self.tell("NOTICE", "00000", message.into(), Some(detail.into()))
    }
    fn tell(
        &mut self,
        severity: &'static str,
        sqlstate: &'static str,
        message: String,
        detail: Option<String>,
    ) {
        let least = match self.settings.get("client_min_messages") {
            "warning" => 1,
            "error" => 2,
            _ => 0,
        };
        if (severity == "WARNING") as i32 >= least
            && let Some(f) = &mut self.on_notice
        {
            f(&Notice { severity, sqlstate, message, detail })
        }
    }

    pub(crate) fn is_synchronous(&self) -> bool {
        self.quick.synchronous
    }

    /// Tells the connection of the settings that are its business.
    pub(crate) fn settings_changed(&mut self) {
        self.quick = Quick::new(&self.settings);
        self.follow_roles();
        self.plans.set_path(&self.identity.listed);
        self.connection.set_search_path(&self.identity.listed);
        self.connection.set_synchronous(self.quick.synchronous);
        self.connection.set_lock_timeout(self.settings.ms("lock_timeout"));
        self.look_for_held()
    }
    /// held/H2: calls take the long way while there is something to wait for.
    pub(crate) fn look_for_held(&mut self) {
        let q = &mut self.quick;
        q.is_plain =
            q.timeout.is_none() && !q.own_transaction && q.styles.is_usual() && !self.connection.must_rest();
        q.is_plain_text = q.is_plain && self.plans.has_usual_path()
    }

    /// N2.
    #[inline]
    pub(crate) fn ended<T>(&mut self, done: SqlResult<T>) -> SqlResult<T> {
        done.map_err(|e| self.abandon_statement(e))
    }

    #[cold]
    fn abandon_statement(&mut self, mut e: SqlError) -> SqlError {
        let about = &mut e.0.about;
        if let Some(number) = about.in_schema.take() {
            about.schema = Some(self.connection.catalog().schema_name(number).to_string())
        }
        self.connection.abort_statement();
        self.cursors.sweep();
        e
    }

    pub(crate) fn fit<'v>(&self, given: &'v [Value], wanted: &[TypeId]) -> SqlResult<Vec<Cow<'v, Value>>> {
        let names = |t: &TypeId| registered::kind(t.element().unwrap_or(*t)).is_some();
        if wanted.iter().any(names) {
            let facts = self.facts();
            let sight = facts.sight();
            return self.with_context(|ctx| fit(given, wanted, &runtime::seeing(*ctx, sight.as_ref())));
        }
        self.with_context(|ctx| fit(given, wanted, ctx))
    }

    /// Runs a plan with values of any type.
    pub(crate) fn run_with_values(
        &mut self,
        plan: &Arc<Plan>,
        params: &[Value],
        out: &mut dyn Output,
    ) -> SqlResult<()> {
        if params.len() != plan.program.params.len() {
            return Err(count_mismatch(params.len(), plan.program.params.len()));
        }
        if params.is_empty() {
            return self.run_statement(plan, &[], out);
        }
        if are_fitted(params, &plan.program.params) {
            return with_refs(params, |refs| self.run_statement(plan, refs, out));
        }
        let fitted = self.fit(params, &plan.program.params)?;
        with_refs(&fitted, |refs| self.run_statement(plan, refs, out))
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("in_transaction", &self.in_transaction()).finish_non_exhaustive()
    }
}

/// Passes rows to a function.
struct Each<F>(F);

impl<F: FnMut(Row<'_>) -> SqlResult<()>> Output for Each<F> {
    fn row(&mut self, row: Row<'_>) -> SqlResult<()> {
        (self.0)(row)
    }
}

/// The output of `copy_in` and `copy_out`.
struct Copying<I, O, P> {
    input: Option<I>,
    output: Option<O>,
    progress: P,
    rows: u64,
    began: bool,
}

impl<I: Read, O: Write, P: FnMut(Progress)> Copying<I, O, P> {
    fn finish(self, what: &str) -> SqlResult<u64> {
        if self.began {
            return Ok(self.rows);
        }
        Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, format!("the statement is not {what}")))
    }
}

impl<I: Read, O: Write, P: FnMut(Progress)> Output for Copying<I, O, P> {
    fn done(&mut self, tag: &str, _: Option<Token>) -> SqlResult<()> {
        self.rows = tag.strip_prefix("COPY ").and_then(|n| n.parse().ok()).unwrap_or(0);
        Ok(())
    }
    fn copy_in(&mut self) -> SqlResult<Box<dyn Read + '_>> {
        self.began = true;
        match &mut self.input {
            Some(i) => Ok(Box::new(Counted { input: i, bytes: 0, progress: &mut self.progress })),
            None => {
                Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, "copy_out was given COPY FROM STDIN"))
            }
        }
    }
    fn copy_out(&mut self) -> SqlResult<Box<dyn Write + '_>> {
        self.began = true;
        match &mut self.output {
            Some(o) => Ok(Box::new(o)),
            None => Err(SqlError::new(sqlstate::INVALID_PARAMETER_VALUE, "copy_in was given COPY TO STDOUT")),
        }
    }
    fn progress(&mut self, progress: Progress) {
        (self.progress)(progress)
    }
}

/// Tells the progress of reading an input whose owner is away.
struct Counted<'a, I, P> {
    input: &'a mut I,
    bytes: u64,
    progress: &'a mut P,
}

impl<I: Read, P: FnMut(Progress)> Read for Counted<'_, I, P> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.input.read(buf)?;
        self.bytes += n as u64;
        (self.progress)(Progress { rows: 0, bytes: self.bytes, all_bytes: None });
        Ok(n)
    }
}
