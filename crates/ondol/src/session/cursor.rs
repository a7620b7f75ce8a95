//! Cursors: results that are fetched in pieces, while other statements of the transaction run.
//!
//! - **C1** A cursor belongs to the transaction that it was opened in. It is closed by that one's end, by
//!   rolling back to a savepoint that was set before it was opened, and by being dropped (portal/P1).
//! - **C2** It sees what the database held when it was opened, and nothing that its own transaction changed
//!   later (portal/P2).
//! - **C3** A statement that changes rows is run to its end when the first rows are fetched, and what it gave
//!   is kept. So is one of the few that cannot be left between two rows, when it is opened. One that locks
//!   rows locks them as they are fetched.
use crate::session::facts::Facts;
use crate::session::output::Output;
use crate::session::plan::{Plan, Ready};
use crate::session::planned::{STALE_LIMIT, Telling, churning, is_stale, transaction_failed};
use crate::session::prepared::Prepared;
use crate::session::rows::{Column, Row, Rows, styled};
use crate::session::runtime::{UNTIMED, context_for};
use crate::session::{QueryId, Session, params, with_refs};
use ondol_engine::{Charge, Connection, Portal, Token, portal};
use ondol_sql::code::program::Tag;
use ondol_sql::interpret::rows::{RowBuffer, RowView};
use ondol_sql::interpret::{Env, Sink, Suspended};
use ondol_types::{SqlError, SqlResult, TypeId, Value, ValueRef, sqlstate};
use std::sync::Arc;

/// An open result, of which rows are fetched by [`Session::fetch`] and [`Session::fetch_into`].
pub struct Cursor {
    plan: Arc<Plan>,
    source: Source,
    /// A fetch ended in an error.
    failed: bool,
}

enum Source {
    Reading(Suspended),
    /// C3: not run yet.
    Waiting {
        made: Made,
        params: Vec<Value>,
        portal: Portal,
    },
    /// Rows that were gathered, and how many of them were given. Without a portal the cursor has outlived
    /// its transaction.
    Kept {
        rows: KeptRows,
        given: usize,
        tag: Option<String>,
        portal: Option<Portal>,
    },
}

/// What a plan was made of.
pub(crate) enum Made {
    Text(Arc<str>, Vec<TypeId>),
    Query(QueryId),
}

/// Rows that are charged to the database's memory limit.
pub(crate) struct KeptRows {
    pub rows: Rows,
    charge: Charge,
}

impl KeptRows {
    pub fn new(columns: &Arc<[Column]>, charge: Charge) -> KeptRows {
        KeptRows { rows: Rows::of(columns.clone()), charge }
    }
    /// Gives the rows from number `at` on, `most` of them at most, and moves `at` along; how many they were.
    pub fn give(&self, at: &mut usize, most: u64, sink: &mut dyn Sink) -> SqlResult<u64> {
        let from = *at;
        let end = self.rows.len().min(from.saturating_add(usize::try_from(most).unwrap_or(usize::MAX)));
        while *at < end {
            sink.row(&self.rows.view(*at))?;
            *at += 1
        }
        Ok((end - from) as u64)
    }
    #[inline]
    fn grown(&mut self) -> SqlResult<()> {
        /// Rows are charged in such steps; fewer bytes are free.
        const STEP: usize = 64 << 10;
        let bytes = self.rows.bytes();
        match bytes >= STEP && bytes > self.charge.bytes() {
            true => self.charge.resize(bytes.next_multiple_of(STEP).max(bytes + bytes / 4)),
            false => Ok(()),
        }
    }
}

impl Sink for KeptRows {
    fn row(&mut self, row: &RowView<'_>) -> SqlResult<bool> {
        Sink::row(self.rows.sink(), row)?;
        self.grown()?;
        Ok(true)
    }
}

/// What a statement gives that is run whole.
struct Whole {
    kept: KeptRows,
    tag: String,
}

impl Output for Whole {
    fn columns(&mut self, columns: &Arc<[Column]>) -> SqlResult<()> {
        self.kept.rows = Rows::of(columns.clone());
        Ok(())
    }
    fn row(&mut self, row: Row<'_>) -> SqlResult<()> {
        self.kept.rows.append(row)?;
        self.kept.grown()
    }
    fn done(&mut self, tag: &str, _: Option<Token>) -> SqlResult<()> {
        self.tag = tag.to_string();
        Ok(())
    }
}

impl Cursor {
    /// The result's columns; none for statements without one.
    pub fn columns(&self) -> &[Column] {
        &self.plan.columns
    }
    /// Whether all rows were fetched. That there are no more is known when a fetch gave fewer than it might
    /// have given; a statement that was run whole knows before.
    pub fn is_done(&self) -> bool {
        match &self.source {
            Source::Reading(s) => s.is_done(),
            Source::Waiting { .. } => false,
            Source::Kept { rows, given, .. } => *given >= rows.rows.len(),
        }
    }
    /// Closes it, as dropping it does.
    pub fn close(self) {}

    pub(crate) fn shared_columns(&self) -> &Arc<[Column]> {
        &self.plan.columns
    }
    fn portal(&self) -> Option<&Portal> {
        match &self.source {
            Source::Reading(s) => Some(s.portal()),
            Source::Waiting { portal, .. } => Some(portal),
            Source::Kept { portal, .. } => portal.as_ref(),
        }
    }
    /// Whether its transaction's end, or that of a part of it, has closed it.
    pub(crate) fn is_closed(&self) -> bool {
        self.portal().is_some_and(|p| p.is_closed())
    }
    /// Whether it has outlived its transaction.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.source, Source::Kept { portal: None, .. })
    }
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }
    /// It gives nothing more, and holds nothing but its place.
    pub(crate) fn fail(&mut self) {
        self.failed = true;
        match &mut self.source {
            Source::Reading(s) => s.stop(),
            Source::Waiting { params, .. } => params.clear(),
            Source::Kept { rows, .. } => {
                rows.rows = Rows::of(self.plan.columns.clone());
                rows.charge.clear()
            }
        }
    }
    /// What the statement is called, if these rows are its last.
    pub(crate) fn tag(&self, rows: u64) -> String {
        match &self.source {
            Source::Kept { tag: Some(tag), .. } => tag.clone(),
            _ => self.plan.program.tag.text(rows),
        }
    }
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("is_done", &self.is_done()).finish_non_exhaustive()
    }
}

/// The error of a fetch after one that failed.
pub(crate) fn cannot_be_run(name: &str) -> SqlError {
    SqlError::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, format!("portal \"{name}\" cannot be run"))
}

/// What a text is planned to, for being opened.
fn plan_of(ready: &Ready) -> SqlResult<Arc<Plan>> {
    ready.plan().ok_or_else(|| {
        SqlError::unsupported("a cursor for a statement other than SELECT, INSERT, UPDATE and DELETE")
    })
}

impl Session {
    /// Opens a cursor for a statement, in a transaction. Several may be open, and other statements may run
    /// between their fetches: a cursor goes on seeing what there was when it was opened.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let db = ondol::Database::open(folder.path())?;
    /// # let mut session = db.session();
    /// use ondol::{Rows, params};
    /// session.execute("CREATE TABLE t (a integer PRIMARY KEY)")?;
    /// session.execute("INSERT INTO t SELECT * FROM generate_series(1, 1000)")?;
    ///
    /// let mut transaction = session.transaction()?;
    /// let mut cursor = transaction.open("SELECT a FROM t WHERE a > $1 ORDER BY a", &params![10])?;
    /// let (mut rows, mut sum) = (Rows::new(), 0);
    /// while transaction.fetch(&mut cursor, 100, &mut rows)? > 0 {
    ///     for row in &rows {
    ///         let a: i32 = row.get(0)?;
    ///         sum += a;
    ///         // What the cursor has not come to yet stays as it was, for the cursor.
    ///         transaction.query("UPDATE t SET a = -a WHERE a = $1", &params![1000 - a])?;
    ///     }
    /// }
    /// assert!(cursor.is_done());
    /// assert_eq!(sum, (11..=1000).sum::<i32>());
    /// cursor.close();
    /// transaction.commit()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(&mut self, sql: &str, params: &[Value]) -> SqlResult<Cursor> {
        let done = self.timed(|s| {
            for _ in 0..STALE_LIMIT {
                let ready = s.ready(sql, &[])?;
                let plan = plan_of(&ready)?;
                let fitted = s.fit(params, &plan.program.params)?;
                match with_refs(&fitted, |refs| s.open_plan(&plan, || Made::Text(sql.into(), vec![]), refs)) {
                    Err(e) if is_stale(&e) => s.plans.forget(),
                    done => return done,
                }
            }
            Err(churning())
        });
        self.give_back();
        done
    }

    /// The same for a prepared statement, with borrowed values as [`Session::run_prepared`] takes them.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let db = ondol::Database::open(folder.path())?;
    /// # let mut session = db.session();
    /// use ondol::{Output, Row, ValueRef};
    /// /// A client that is told rows, and tags when statements are done.
    /// #[derive(Default)]
    /// struct Client(Vec<i32>, String);
    /// impl Output for Client {
    ///     fn row(&mut self, row: Row<'_>) -> ondol::Result<()> {
    ///         self.0.push(row.get(0)?);
    ///         Ok(())
    ///     }
    ///     fn done(&mut self, tag: &str, _: Option<ondol::Token>) -> ondol::Result<()> {
    ///         self.1 = tag.to_string();
    ///         Ok(())
    ///     }
    /// }
    /// let series = session.prepare_typed("SELECT n FROM generate_series(1, $1) AS g(n)", &[ondol::TypeId::INT4])?;
    /// session.begin(ondol::Isolation::ReadCommitted)?;
    /// let mut cursor = session.open_prepared(&series, &[ValueRef::Int4(5)])?;
    /// let mut client = Client::default();
    /// assert_eq!(session.fetch_into(&mut cursor, Some(3), &mut client)?, 3);
    /// assert_eq!(client.1, "", "suspended");
    /// assert_eq!(session.fetch_into(&mut cursor, None, &mut client)?, 2);
    /// assert_eq!((client.0, client.1.as_str()), (vec![1, 2, 3, 4, 5], "SELECT 2"));
    /// session.commit()?;
    /// assert_eq!(session.fetch_into(&mut cursor, None, &mut Client::default()).unwrap_err().sqlstate(), "34000");
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_prepared(&mut self, prepared: &Prepared, params: &[ValueRef<'_>]) -> SqlResult<Cursor> {
        if params.len() != prepared.params().len() {
            return Err(params::count_mismatch(params.len(), prepared.params().len()));
        }
        self.timed(|s| s.with_prepared(prepared, |s, plan| s.open_plan(plan, || prepared.made(), params)))
    }

    /// Fetches up to `most` rows, which replace those in `rows`. How many there were: fewer than `most` at
    /// the end of the result. After an error the transaction has failed, and the cursor gives nothing more.
    pub fn fetch(&mut self, cursor: &mut Cursor, most: usize, rows: &mut Rows) -> SqlResult<usize> {
        rows.reset(styled(cursor.shared_columns(), self.quick.styles, &mut None));
        let sink: &mut RowBuffer = rows.sink();
        self.timed(|s| s.pull(cursor, most as u64, sink)).map(|n| n as usize)
    }

    /// Fetches up to `most` rows, or all that are left, which go to `out` as they come. It is told that the
    /// statement is done, with the tag, when all rows were fetched, and then each time; otherwise the cursor
    /// is suspended. How many rows there were is returned.
    pub fn fetch_into(
        &mut self,
        cursor: &mut Cursor,
        most: Option<u64>,
        out: &mut dyn Output,
    ) -> SqlResult<u64> {
        self.timed(|s| {
            let columns = styled(cursor.shared_columns(), s.quick.styles, &mut None).clone();
            let mut sink = Telling::new(&columns, out);
            let rows = s.pull(cursor, most.unwrap_or(u64::MAX), &mut sink)?;
            if !columns.is_empty() || cursor.plan.program.tag == Tag::Select {
                sink.tell()?
            }
            if cursor.is_done() {
                out.done(&cursor.tag(rows), None)?
            }
            Ok(rows)
        })
    }

    /// Opens a cursor for a plan; `made` is what it was made of.
    pub(crate) fn open_plan(
        &mut self,
        plan: &Arc<Plan>,
        made: impl FnOnce() -> Made,
        params: &[ValueRef<'_>],
    ) -> SqlResult<Cursor> {
        if self.connection.is_failed() {
            return Err(transaction_failed());
        }
        if !self.in_transaction() {
            let message = "a cursor can only be opened in transaction blocks";
            return Err(SqlError::new(sqlstate::NO_ACTIVE_SQL_TRANSACTION, message)
                .hint("Session::transaction begins one."));
        }
        self.fresh = false;
        let (plan, program) = (plan.clone(), &plan.program);
        if !Suspended::can_be_left(program) {
            let portal = self.connection.open_mark(program.catalog_version)?;
            let params = params.iter().map(|v| v.to_owned()).collect();
            let source = Source::Waiting { made: made(), params, portal };
            return Ok(Cursor { plan, source, failed: false });
        }
        let suspended = self
            .surrounded(&plan, |connection, env| Suspended::open(&plan.program, connection, params, env))?;
        let mut cursor = Cursor { source: Source::Reading(suspended), plan, failed: false };
        if !Suspended::can_pause(&cursor.plan.program) {
            self.gather(&mut cursor)?
        }
        Ok(cursor)
    }

    /// Calls `f` with the surroundings of a plan's execution.
    fn surrounded<R>(&mut self, plan: &Plan, f: impl FnOnce(&mut Connection, &Env<'_>) -> R) -> R {
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
        let done = f(&mut self.connection, &env);
        self.take_settings(plan);
        done
    }

    /// What the cursor saw is kept until it is closed, so that it can begin anew.
    pub(crate) fn stay(&self, cursor: &mut Cursor) {
        if let Source::Reading(suspended) = &mut cursor.source {
            suspended.stay()
        }
    }
    /// Begins anew a cursor that stays, or of which all rows are kept.
    pub(crate) fn restart(&mut self, cursor: &mut Cursor, params: &[Value]) -> SqlResult<()> {
        match &mut cursor.source {
            Source::Reading(suspended) => {
                let fitted = self.fit(params, &cursor.plan.program.params)?;
                with_refs(&fitted, |refs| {
                    self.surrounded(&cursor.plan, |c, env| suspended.restart(c, refs, env))
                })
            }
            Source::Kept { given, .. } => {
                *given = 0;
                Ok(())
            }
            Source::Waiting { .. } => Ok(()),
        }
    }

    /// Gathers the rows that were not fetched yet, and reads no more.
    pub(crate) fn gather(&mut self, cursor: &mut Cursor) -> SqlResult<()> {
        let mut rows = KeptRows::new(&cursor.plan.columns, self.connection.charge());
        match &mut cursor.source {
            Source::Kept { .. } => return Ok(()),
            Source::Reading(suspended) => {
                self.surrounded(&cursor.plan, |c, env| suspended.run(c, u64::MAX, &mut rows, env))?;
                suspended.stop();
                replace(&mut cursor.source, rows, None)
            }
            Source::Waiting { made, params, portal } => {
                if !self.connection.has_portal(portal) {
                    return Err(portal::closed());
                }
                let mut whole = Whole { kept: rows, tag: String::new() };
                match made {
                    Made::Text(text, types) => self.plan_and_run(text, types, params, &mut whole)?,
                    Made::Query(query) => with_refs(params, |refs| {
                        self.with_query(*query, |s, plan| s.run_statement(plan, refs, &mut whole))
                    })?,
                }
                if whole.kept.rows.columns() != &cursor.plan.columns[..] {
                    // The transaction has changed a definition since.
                    return Err(SqlError::changed_result());
                }
                replace(&mut cursor.source, whole.kept, Some(whole.tag))
            }
        }
        Ok(())
    }

    /// What was read is kept after the end of the transaction.
    pub(crate) fn hold(&mut self, cursor: &mut Cursor) -> SqlResult<()> {
        self.gather(cursor)?;
        if let Source::Kept { portal, .. } = &mut cursor.source {
            *portal = None
        }
        Ok(())
    }

    /// Gives up to `most` further rows to the sink; how many there were.
    pub(crate) fn pull(&mut self, cursor: &mut Cursor, most: u64, sink: &mut dyn Sink) -> SqlResult<u64> {
        if self.connection.is_failed() {
            return Err(transaction_failed());
        }
        if cursor.portal().is_some_and(|p| !self.connection.has_portal(p)) {
            return Err(portal::closed());
        }
        if cursor.failed {
            return Err(cannot_be_run(""));
        }
        let done = self.pull_on(cursor, most, sink);
        if done.is_err() {
            cursor.fail()
        }
        done
    }

    fn pull_on(&mut self, cursor: &mut Cursor, most: u64, sink: &mut dyn Sink) -> SqlResult<u64> {
        if let Source::Waiting { .. } = cursor.source {
            self.gather(cursor)?
        }
        let plan = &cursor.plan;
        match &mut cursor.source {
            Source::Reading(s) => self.surrounded(plan, |c, env| s.run(c, most, sink, env)),
            Source::Kept { rows, given, .. } => rows.give(given, most, sink),
            Source::Waiting { .. } => Ok(0),
        }
    }
}

/// Puts gathered rows in the place of what gave them.
fn replace(source: &mut Source, rows: KeptRows, tag: Option<String>) {
    let empty = KeptRows { rows: Rows::new(), charge: rows.charge.another() };
    let empty = Source::Kept { rows: empty, given: 0, tag: None, portal: None };
    let portal = match std::mem::replace(source, empty) {
        Source::Reading(s) => Some(s.into_portal()),
        Source::Waiting { portal, .. } => Some(portal),
        Source::Kept { portal, .. } => portal,
    };
    *source = Source::Kept { rows, given: 0, tag, portal }
}
