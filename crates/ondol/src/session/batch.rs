//! Batches of calls: one registered query with many sets of parameters, interleaved so that their cache
//! misses overlap; or prepared statements of any kinds.
use crate::session::facts::Facts;
use crate::session::plan::Plan;
use crate::session::planned::is_stale;
use crate::session::prepared::Prepared;
use crate::session::rows::{Row, Rows, styled};
use crate::session::runtime::{UNTIMED, context_for};
use crate::session::{Called, QueryId, Session};
use ondol_engine::{STALE, Token};
use ondol_sql::code::program::Tag;
use ondol_sql::interpret::rows as raw;
use ondol_sql::interpret::{self, Env, Outcome, Sink};
use ondol_types::{SqlError, SqlResult, Value, ValueRef};
use std::sync::Arc;

/// The results of a batch of calls, and the memory for the next one.
#[derive(Default)]
pub struct Batch {
    frames: interpret::Batch,
    rows: Vec<Rows>,
    outcomes: Vec<SqlResult<Outcome>>,
}

impl Batch {
    pub fn new() -> Batch {
        Batch::default()
    }
    /// The number of calls.
    pub fn len(&self) -> usize {
        self.outcomes.len()
    }
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }
    /// What call `i` (counted from 0) did, or its error.
    pub fn called(&self, i: usize) -> SqlResult<Called> {
        match &self.outcomes[i] {
            Ok(o) => Ok(Called { rows: o.rows_affected, token: o.token }),
            Err(e) => Err(e.clone()),
        }
    }
    /// The rows of call `i`, or its error.
    pub fn rows(&self, i: usize) -> SqlResult<&Rows> {
        self.called(i)?;
        Ok(&self.rows[i])
    }
    /// The rows of all calls that succeeded, call after call.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> {
        let good = self.rows.iter().zip(&self.outcomes).filter(|(_, o)| o.is_ok());
        good.flat_map(|(r, _)| r.iter())
    }
    pub(crate) fn clear(&mut self) {
        self.outcomes.clear()
    }
    /// One more call: rows changed or given, its commit, its rows.
    pub(crate) fn put(&mut self, done: SqlResult<(u64, Option<Token>, Rows)>) {
        let at = self.outcomes.len();
        self.room(at + 1);
        self.outcomes.push(done.map(|(rows_affected, token, rows)| {
            self.rows[at] = rows;
            Outcome { rows_affected, tag: Tag::Select, token }
        }))
    }
    /// Calls from `from` on whose rows have other columns than was said have failed.
    #[cfg(feature = "connect")]
    pub(crate) fn compare(&mut self, from: usize, calls: &[(&Prepared, &[ValueRef<'_>])]) {
        for (i, (prepared, _)) in calls.iter().enumerate() {
            let (found, said) = (self.rows[from + i].columns(), prepared.columns());
            let is_same = found.is_empty() || std::ptr::eq(found, said) || found == said;
            if self.outcomes[from + i].is_ok() && !is_same {
                self.outcomes[from + i] = Err(SqlError::changed_result())
            }
        }
    }
    fn room(&mut self, calls: usize) {
        if self.rows.len() < calls {
            self.rows.resize_with(calls, Rows::new)
        }
    }
    /// The last commit among the calls: durable, unless they were asynchronous.
    pub fn token(&self) -> Option<Token> {
        self.outcomes.iter().filter_map(|o| o.as_ref().ok()?.token).max()
    }
}

impl Sink for Rows {
    fn row(&mut self, row: &raw::RowView<'_>) -> SqlResult<bool> {
        Sink::row(self.sink(), row)
    }
    #[inline]
    fn rows(&mut self) -> Option<&mut raw::RowBuffer> {
        Some(self.sink())
    }
}

impl Session {
    /// Calls a registered query once for each set of parameters. Reading calls share one snapshot; calls that
    /// write commit one by one (outside a transaction), an error of one leaving the others alone, and are
    /// waited for together: all that succeeded are durable when this returns, unless `synchronous_commit` is
    /// off.
    ///
    /// ```
    /// # fn main() -> ondol::Result<()> {
    /// # let folder = ondol::TempFolder::new()?;
    /// # let db = ondol::Database::open(folder.path())?;
    /// # let mut session = db.session();
    /// use ondol::{Batch, ValueRef};
    /// session.execute(
    ///     "CREATE TABLE t (a bigint PRIMARY KEY, b text);
    ///      INSERT INTO t VALUES (7, 'seven');
    ///      CREATE FUNCTION find(bigint) RETURNS SETOF t LANGUAGE sql AS 'SELECT * FROM t WHERE a = $1'",
    /// )?;
    /// let find = session.query_id("find")?;
    /// let mut batch = Batch::new();
    /// session.call_batch(find, &[&[ValueRef::Int8(7)], &[ValueRef::Int8(8)]], &mut batch)?;
    /// assert_eq!(batch.rows(0)?.row(0).get::<&str>(1)?, "seven");
    /// assert!(batch.rows(1)?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn call_batch(
        &mut self,
        query: QueryId,
        calls: &[&[ValueRef<'_>]],
        batch: &mut Batch,
    ) -> SqlResult<()> {
        let mut waits = false;
        let done = self.timed(|s| {
            waits = s.connection.defer();
            s.call_lanes(query, calls, batch)
        });
        // Also after an error: calls before it may have committed.
        if waits { done.and(self.connection.settle()) } else { done }
    }

    /// The same without waiting: [`Batch::token`] is what to wait for.
    pub fn call_batch_async(
        &mut self,
        query: QueryId,
        calls: &[&[ValueRef<'_>]],
        batch: &mut Batch,
    ) -> SqlResult<()> {
        self.connection.set_synchronous(false);
        let done = self.timed(|s| s.call_lanes(query, calls, batch));
        self.connection.set_synchronous(self.is_synchronous());
        done
    }

    /// Calls prepared statements of any kinds, one after the other, and waits for all commits together, as
    /// [`Session::call_batch`] does. Neighbouring calls of one statement are interleaved, and share a
    /// snapshot if they read. A statement without a plan, as SHOW or CREATE TABLE, waits for itself.
    pub fn call_each(&mut self, calls: &[(&Prepared, &[ValueRef<'_>])], batch: &mut Batch) -> SqlResult<()> {
        batch.clear();
        self.call_more(calls, batch)
    }
    /// The same, and keeps what the batch has.
    pub(crate) fn call_more(
        &mut self,
        calls: &[(&Prepared, &[ValueRef<'_>])],
        batch: &mut Batch,
    ) -> SqlResult<()> {
        for run in calls.chunk_by(|a, b| a.0.is_planned() == b.0.is_planned()) {
            if run[0].0.is_planned() {
                self.call_planned(run, batch)?;
                continue;
            }
            for (prepared, params) in run {
                let params: Vec<Value> = params.iter().map(ValueRef::to_owned).collect();
                let done = self.execute_prepared(prepared, &params);
                batch.put(done.map(|o| (o.count, o.token, o.rows.unwrap_or_default())))
            }
        }
        Ok(())
    }
    fn call_planned(&mut self, calls: &[(&Prepared, &[ValueRef<'_>])], batch: &mut Batch) -> SqlResult<()> {
        let mut waits = false;
        let done = self.timed(|s| {
            waits = s.connection.defer();
            let mut params = Vec::with_capacity(calls.len());
            for run in calls.chunk_by(|a, b| std::ptr::eq(a.0, b.0)) {
                params.clear();
                params.extend(run.iter().map(|(_, p)| *p));
                let before = batch.outcomes.len();
                let done = s.with_prepared(run[0].0, |s, plan| s.lanes(plan, &params, batch));
                if done.is_err() {
                    // Nothing was done: each for itself tells what is wrong with it.
                    batch.outcomes.resize_with(before + run.len(), || Err(SqlError::new(STALE, "")));
                    batch.room(before + run.len())
                }
                s.run_stale(before, batch, |s, i, rows| s.call_prepared_once(run[i].0, run[i].1, rows))
            }
            Ok(())
        });
        if waits { done.and(self.connection.settle()) } else { done }
    }

    fn call_lanes(&mut self, query: QueryId, calls: &[&[ValueRef<'_>]], batch: &mut Batch) -> SqlResult<()> {
        batch.outcomes.clear();
        self.with_query(query, |s, plan| s.lanes(plan, calls, batch))?;
        self.run_stale(0, batch, |s, i, rows| s.call_once(query, calls[i], rows));
        Ok(())
    }

    /// Runs the calls again, counted from `from`, whose plan became stale while those before them ran, which
    /// did nothing (session/N1).
    fn run_stale(
        &mut self,
        from: usize,
        batch: &mut Batch,
        mut call: impl FnMut(&mut Session, usize, &mut Rows) -> SqlResult<Called>,
    ) {
        if !batch.outcomes[from..].iter().any(|o| o.is_err()) {
            return;
        }
        for (i, (outcome, rows)) in batch.outcomes[from..].iter_mut().zip(&mut batch.rows[from..]).enumerate()
        {
            if outcome.as_ref().is_err_and(is_stale) {
                let called = call(self, i, rows);
                let called = self.ended(called);
                *outcome = called.map(|c| Outcome { rows_affected: c.rows, tag: Tag::Select, token: c.token })
            }
        }
    }

    /// Runs a plan once for each set of parameters; the outcomes come after those that are there.
    fn lanes(&mut self, plan: &Arc<Plan>, calls: &[&[ValueRef<'_>]], batch: &mut Batch) -> SqlResult<()> {
        let before = batch.outcomes.len();
        batch.room(before + calls.len());
        let rows = &mut batch.rows[before..before + calls.len()];
        let mut own = None;
        let columns = styled(&plan.columns, self.quick.styles, &mut own);
        rows.iter_mut().for_each(|r| r.reset(columns));
        if calls.len() == 1 || self.quick.own_transaction && !self.in_transaction() {
            for (call, rows) in calls.iter().zip(rows) {
                let outcome = self.call_plan(plan, call, rows.sink()).map(|c| Outcome {
                    rows_affected: c.rows,
                    tag: plan.program.tag,
                    token: c.token,
                });
                if batch.outcomes.len() == before && outcome.as_ref().is_err_and(is_stale) {
                    return outcome.map(drop);
                }
                batch.outcomes.push(outcome);
            }
            return Ok(());
        }
        self.fresh = false;
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
            workers: 0,
        };
        let (frames, connection) = (&mut batch.frames, &mut self.connection);
        let outcomes = &mut batch.outcomes;
        let done = interpret::run_batch(frames, &plan.program, connection, calls, rows, &env, outcomes);
        match done {
            Ok(()) => self.take_settings(plan),
            Err(_) => outcomes.truncate(before),
        }
        done
    }
}
