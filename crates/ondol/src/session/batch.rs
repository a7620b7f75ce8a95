//! Batches of calls: one registered query with many sets of parameters, interleaved so that their cache
//! misses overlap.
use crate::session::rows::{Row, Rows};
use crate::session::runtime::{UNTIMED, context_for};
use crate::session::{Called, QueryId, Session};
use ondol_engine::Token;
use ondol_sql::interpret::rows as raw;
use ondol_sql::interpret::{self, Env, Outcome, Sink};
use ondol_types::{SqlResult, ValueRef};

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

    fn call_lanes(&mut self, query: QueryId, calls: &[&[ValueRef<'_>]], batch: &mut Batch) -> SqlResult<()> {
        batch.outcomes.clear();
        self.with_query(query, |s, plan| {
            if batch.rows.len() < calls.len() {
                batch.rows.resize_with(calls.len(), Rows::new);
            }
            batch.rows[..calls.len()].iter_mut().for_each(|r| r.reset(&plan.columns));
            if s.quick.own_transaction && !s.in_transaction() {
                batch.outcomes.clear();
                for (call, rows) in calls.iter().zip(&mut batch.rows) {
                    let outcome = s.call_plan(plan, call, rows.sink()).map(|c| Outcome {
                        rows_affected: c.rows,
                        tag: plan.program.tag,
                        token: c.token,
                    });
                    batch.outcomes.push(outcome);
                }
                return Ok(());
            }
            s.fresh = false;
            s.prepare_host(plan);
            let context = context_for(plan, &s.database.name);
            let env = Env {
                context: context.as_ref().unwrap_or(&UNTIMED),
                host: &s.host,
                cancel: Some(&s.cancel),
                memory_limit: s.database.work_limit,
                workers: 0,
            };
            interpret::run_batch(
                &mut batch.frames,
                &plan.program,
                &mut s.connection,
                calls,
                &mut batch.rows[..calls.len()],
                &env,
                &mut batch.outcomes,
            )
        })
    }
}
