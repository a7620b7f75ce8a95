//! Prepared statements: handles that keep their plan.
//!
//! - **H1** A handle is planned once, and anew when the dictionary has changed under its plan (session/N1).
//!   It is good for every session of its database, one at a time. The plan that it keeps is of the usual
//!   path: a session with another finds its plans by their text.
//! - **H2** Borrowed values are taken as they are: each must be NULL or of its parameter's type. Values of
//!   [`Session::execute_prepared`] are converted as those of [`Session::query`].
//! - **H3** A registered query is a prepared statement that nobody has prepared. It has no plan of its own:
//!   it runs by the one that the session has for calls of the query. What its name means is settled for a
//!   dictionary, a path and a role.
use crate::session::cursor::Made;
use crate::session::output::{Gather, Outcome, Output};
#[cfg(feature = "server")]
use crate::session::params::with_refs;
use crate::session::plan::Plan;
use crate::session::planned::{STALE_LIMIT, churning, is_stale, transaction_failed};
#[cfg(feature = "server")]
use crate::session::plans::Named;
use crate::session::rows::{Column, Rows, styled};
use crate::session::{Called, QueryId, Session, params, split};
#[cfg(feature = "server")]
use ondol_engine::acl::USAGE;
#[cfg(feature = "server")]
use ondol_sql::catalog;
#[cfg(feature = "server")]
use ondol_sql::code::program::Tag;
#[cfg(feature = "server")]
use ondol_sql::needs::denied;
use ondol_types::{SqlError, SqlResult, TypeId, Value, ValueRef, sqlstate};
use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// A statement that was prepared: parsed, bound, planned and compiled.
pub struct Prepared {
    text: Arc<str>,
    types: Vec<TypeId>,
    /// Taken out while it runs the long way; `None` where it has to be made (H1).
    plan: RefCell<Option<Arc<Plan>>>,
    /// It is a statement of those that have plans.
    is_planned: bool,
    /// It gives rows, also such without columns.
    #[cfg(feature = "server")]
    has_result: bool,
    #[cfg(feature = "server")]
    is_select: bool,
    params: Vec<TypeId>,
    columns: Arc<[Column]>,
    /// Whose plan it is.
    database: Weak<ondol_engine::Database>,
    #[cfg(feature = "server")]
    registered: Option<Registered>,
}

/// H3
#[cfg(feature = "server")]
struct Registered {
    query: QueryId,
    is_look_up: bool,
    /// The version of the dictionary, the path and the role that its name was looked up by.
    by: (u64, Arc<str>, u32),
}

/// Names of registered queries as prepared statements begin so.
#[cfg(feature = "server")]
const REGISTERED: &str = "ondol.";

impl Prepared {
    /// The types of $1, $2, ...
    pub fn params(&self) -> &[TypeId] {
        &self.params
    }
    /// The result's columns when it was prepared; none for statements without one.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
    #[cfg(feature = "server")]
    pub(crate) fn has_result(&self) -> bool {
        self.has_result
    }
    /// It is a statement of those that have plans.
    pub(crate) fn is_planned(&self) -> bool {
        self.is_planned
    }
    /// It looks rows up by their keys and gives them, which can be done for many at once.
    #[cfg(feature = "server")]
    pub(crate) fn is_look_up(&self) -> bool {
        match &self.registered {
            Some(r) => r.is_look_up,
            None => self.plan.borrow().as_ref().is_some_and(|p| p.is_look_up),
        }
    }
    /// It gives rows that it reads, and changes none.
    #[cfg(feature = "server")]
    pub(crate) fn is_select(&self) -> bool {
        self.is_select
    }
    /// The registered query that it is.
    pub(crate) fn query(&self) -> Option<QueryId> {
        #[cfg(feature = "server")]
        return self.registered.as_ref().map(|r| r.query);
        #[cfg(not(feature = "server"))]
        None
    }
    /// What it is made of: its text, and the types that were given.
    #[cfg(feature = "server")]
    pub(crate) fn source(&self) -> (&str, &[TypeId]) {
        (&self.text, &self.types)
    }
    pub(crate) fn made(&self) -> Made {
        match self.query() {
            Some(query) => Made::Query(query),
            None => Made::Text(self.text.clone(), self.types.clone()),
        }
    }
    fn is_of(&self, session: &Session) -> bool {
        std::ptr::eq(self.database.as_ptr(), Arc::as_ptr(&session.database.engine))
    }
    /// Keeps a plan for the next time, unless it is to be made anew each time.
    fn keep(&self, plan: Arc<Plan>, session: &Session) {
        if !plan.once && session.plans.has_usual_path() {
            self.plan.replace(Some(plan));
        }
    }
}

impl Session {
    /// Prepares a statement for being executed many times.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let db = ondol::Database::open(folder.path())?;
    /// # let mut session = db.session();
    /// session.execute("CREATE TABLE t (a bigint)")?;
    /// let insert = session.prepare("INSERT INTO t VALUES ($1)")?;
    /// for a in 0..3i64 {
    ///     assert_eq!(session.execute_prepared(&insert, &ondol::params![a])?.tag, "INSERT 0 1");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn prepare(&mut self, sql: &str) -> SqlResult<Prepared> {
        self.prepare_typed(sql, &[])
    }

    /// The same, with the types of the first parameters given.
    pub fn prepare_typed(&mut self, sql: &str, types: &[TypeId]) -> SqlResult<Prepared> {
        let mut texts = split::split(sql);
        let text: Arc<str> = match (texts.pop(), texts.is_empty()) {
            (Some(t), true) => t.into(),
            (None, _) => "".into(),
            _ => {
                return Err(SqlError::new(
                    sqlstate::SYNTAX_ERROR,
                    "cannot insert multiple commands into a prepared statement",
                ));
            }
        };
        self.forget_cancel();
        let ready = self.ready(&text, types);
        let ready = self.ended(ready);
        self.give_back();
        let ready = ready?;
        let plan = ready.plan();
        let columns = self.columns_of(&ready)?;
        let prepared = Prepared {
            text,
            types: types.to_vec(),
            plan: RefCell::default(),
            is_planned: plan.is_some(),
            #[cfg(feature = "server")]
            has_result: !columns.is_empty() || plan.as_ref().is_some_and(|p| p.program.tag == Tag::Select),
            #[cfg(feature = "server")]
            is_select: plan.as_ref().is_some_and(|p| p.program.tag == Tag::Select),
            params: ready.params().to_vec(),
            columns,
            database: Arc::downgrade(&self.database.engine),
            #[cfg(feature = "server")]
            registered: None,
        };
        plan.into_iter().for_each(|p| prepared.keep(p, self));
        Ok(prepared)
    }

    /// Gives a prepared statement a name, by which EXECUTE and DEALLOCATE know it.
    #[cfg(feature = "server")]
    pub(crate) fn name_prepared(&mut self, name: &str, prepared: &Prepared, whole: &str) -> SqlResult<()> {
        self.refuse_prepared(name)?;
        let named = Named {
            text: prepared.text.clone(),
            styles: self.quick.styles.of_reading(),
            types: prepared.params.clone(),
            whole: whole.into(),
            prepared_us: self.connection.transaction_time_us(),
            from_sql: false,
            executed: 0,
            columns: prepared.columns.clone(),
        };
        self.plans.prepared.insert(name.to_string(), named);
        Ok(())
    }
    /// Whether the name means that statement still.
    #[cfg(feature = "server")]
    pub(crate) fn is_name_of(&self, name: &str, prepared: &Prepared) -> bool {
        let own = self.plans.prepared.get(name);
        match &prepared.registered {
            Some(r) => {
                let (version, path, role) = &r.by;
                own.is_none()
                    && *version == self.connection.catalog_version()
                    && **path == *self.listed()
                    && *role == self.role()
            }
            None => own.is_some_and(|n| Arc::ptr_eq(&n.text, &prepared.text)),
        }
    }
    /// The statement of that name, prepared once more; or else the registered query.
    #[cfg(feature = "server")]
    pub(crate) fn prepare_by_name(&mut self, name: &str) -> SqlResult<Prepared> {
        let Some(named) = self.plans.prepared.get(name).cloned() else {
            let found = name.strip_prefix(REGISTERED).map_or(Ok(None), |n| self.registered(n))?;
            return found.ok_or_else(|| {
                let message = format!("prepared statement \"{name}\" does not exist");
                SqlError::new(sqlstate::INVALID_SQL_STATEMENT_NAME, message)
            });
        };
        let mut prepared = self.prepare_typed(&named.text, &named.types)?;
        // The same text, so that the name is known as its own.
        prepared.text = named.text;
        Ok(prepared)
    }
    /// A registered query as a prepared statement (H3), by its name as regproc or regprocedure reads it:
    /// with the types of its arguments in parentheses where several have the name.
    #[cfg(feature = "server")]
    fn registered(&mut self, name: &str) -> SqlResult<Option<Prepared>> {
        if self.connection.is_failed() {
            return Err(transaction_failed());
        }
        let dictionary = self.connection.catalog();
        self.identify_by(&dictionary);
        let facts = self.facts();
        let found = facts.sight().map(|sight| catalog::users_function(&sight, name).map(|f| f.cloned()));
        let Some(function) = found.transpose()?.flatten() else { return Ok(None) };
        if !dictionary.may_use_schema(self.role(), function.schema, USAGE) {
            return Err(denied("schema", dictionary.schema_name(function.schema)));
        }
        let query = QueryId(function.id);
        let by = (dictionary.version, self.identity.listed.clone(), self.role());
        let plan = self.query_plan(query)?;
        let tag = plan.program.tag;
        Ok(Some(Prepared {
            text: format!("{REGISTERED}{name}").into(),
            types: vec![],
            plan: RefCell::default(),
            is_planned: true,
            has_result: !plan.columns.is_empty() || tag == Tag::Select,
            is_select: tag == Tag::Select,
            params: plan.program.params.clone(),
            columns: plan.columns.clone(),
            database: Arc::downgrade(&self.database.engine),
            registered: Some(Registered { query, is_look_up: plan.is_look_up, by }),
        }))
    }
    #[cfg(feature = "server")]
    pub(crate) fn forget_prepared(&mut self, name: &str) {
        self.plans.prepared.remove(name);
    }

    /// Runs a prepared statement with values that have its parameters' types.
    #[cfg(feature = "server")]
    pub(crate) fn run_fitted(
        &mut self,
        prepared: &Prepared,
        params: &[Value],
        out: &mut dyn Output,
    ) -> SqlResult<()> {
        match prepared.is_planned {
            true => with_refs(params, |refs| self.run_prepared(prepared, refs, out)),
            false => self.run_text(&prepared.text, &prepared.types, params, out),
        }
    }

    /// Runs a prepared statement, as [`Session::query`] does.
    pub fn execute_prepared(&mut self, prepared: &Prepared, params: &[Value]) -> SqlResult<Outcome> {
        self.gathered(|s, out| match prepared.is_planned {
            true => s.timed(|s| s.with_prepared(prepared, |s, plan| s.run_with_values(plan, params, out))),
            false => s.run_text(&prepared.text, &prepared.types, params, out),
        })
        .map(Gather::into_last)
    }

    /// Runs a prepared statement with borrowed values, its outcome going to `out` as it comes.
    pub fn run_prepared(
        &mut self,
        prepared: &Prepared,
        params: &[ValueRef<'_>],
        out: &mut dyn Output,
    ) -> SqlResult<()> {
        if params.len() != prepared.params.len() {
            return Err(params::count_mismatch(params.len(), prepared.params.len()));
        }
        match prepared.is_planned {
            true => self.timed(|s| s.with_prepared(prepared, |s, plan| s.run_statement(plan, params, out))),
            false => self.run_text(&prepared.text, &prepared.types, &[], out),
        }
    }

    /// Calls a prepared SELECT, INSERT, UPDATE or DELETE as [`Session::call`] does a registered query: its
    /// rows replace those in `rows`, whose memory is reused.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let db = ondol::Database::open(folder.path())?;
    /// # let mut session = db.session();
    /// use ondol::{Batch, Rows, ValueRef};
    /// session.execute("CREATE TABLE t (a bigint PRIMARY KEY, b text)")?;
    /// let insert = session.prepare("INSERT INTO t VALUES ($1, $2)")?;
    /// let find = session.prepare("SELECT * FROM t WHERE a = $1")?;
    /// let seven = [ValueRef::Int8(7)];
    ///
    /// let mut batch = Batch::new();
    /// session.call_each(&[(&insert, &[ValueRef::Int8(7), ValueRef::Text("seven")]), (&find, &seven)], &mut batch)?;
    /// assert_eq!(batch.rows(1)?.len(), 1);
    ///
    /// let mut rows = Rows::new();
    /// assert_eq!(session.call_prepared(&find, &seven, &mut rows)?.rows, 1);
    /// assert_eq!(rows.row(0).get::<&str>(1)?, "seven");
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn call_prepared(
        &mut self,
        prepared: &Prepared,
        params: &[ValueRef<'_>],
        rows: &mut Rows,
    ) -> SqlResult<Called> {
        match self.call_prepared_point(prepared, params, rows) {
            Some(found) => Ok(Called { rows: found.into(), token: None }),
            None => self.call_prepared_long(prepared, params, rows),
        }
    }
    #[inline]
    fn call_prepared_point(
        &mut self,
        prepared: &Prepared,
        params: &[ValueRef<'_>],
        rows: &mut Rows,
    ) -> Option<bool> {
        if !prepared.is_of(self) {
            return None;
        }
        if let Some(query) = prepared.query() {
            return self.call_point(query, params, rows);
        }
        self.call_point_of(prepared.plan.borrow().as_ref()?, params, rows)
    }
    #[inline(never)]
    fn call_prepared_long(
        &mut self,
        prepared: &Prepared,
        params: &[ValueRef<'_>],
        rows: &mut Rows,
    ) -> SqlResult<Called> {
        self.timed(|s| s.call_prepared_once(prepared, params, rows))
    }
    pub(crate) fn call_prepared_once(
        &mut self,
        prepared: &Prepared,
        params: &[ValueRef<'_>],
        rows: &mut Rows,
    ) -> SqlResult<Called> {
        self.with_prepared(prepared, |s, plan| {
            rows.reset(styled(&plan.columns, s.quick.styles, &mut None));
            s.call_plan(plan, params, rows.sink())
        })
    }

    /// Runs `f` with the statement's plan, once more whenever that turns out to be stale.
    #[inline]
    pub(crate) fn with_prepared<R>(
        &mut self,
        prepared: &Prepared,
        mut f: impl FnMut(&mut Session, &Arc<Plan>) -> SqlResult<R>,
    ) -> SqlResult<R> {
        if self.connection.is_failed() {
            return Err(transaction_failed());
        }
        if !prepared.is_of(self) {
            return Err(SqlError::new(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "the statement was prepared in another database",
            ));
        }
        if let Some(query) = prepared.query() {
            let done = self.with_query(query, |s, plan| match plan.program.params == prepared.params {
                true => f(s, plan),
                false => Err(SqlError::changed_result()),
            });
            // A place in the query's body means nothing to who calls it.
            return done.map_err(|mut e| {
                e.0.position = None;
                e
            });
        }
        for _ in 0..STALE_LIMIT {
            let kept = if self.plans.has_usual_path() { prepared.plan.take() } else { None };
            let plan = match kept {
                Some(p) => p,
                None => self.plan_of(prepared)?,
            };
            let done = f(self, &plan);
            if done.as_ref().is_err_and(is_stale) {
                self.plans.forget();
                continue;
            }
            prepared.keep(plan, self);
            return done;
        }
        Err(churning())
    }

    #[cold]
    fn plan_of(&mut self, prepared: &Prepared) -> SqlResult<Arc<Plan>> {
        let ready = self.ready(&prepared.text, &prepared.types);
        self.give_back();
        ready?.plan().ok_or_else(|| {
            SqlError::new(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "only SELECT, INSERT, UPDATE and DELETE can be called",
            )
        })
    }
}
