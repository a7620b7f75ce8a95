//! Threads that read a table's parts for one statement: full scans with aggregates, SELECT and COPY TO, whose
//! rows they make into bytes where their output can be, and CREATE TABLE AS, whose rows they insert.
//!
//! ```text
//! session's thread   statement begun, its view lent ── gather: write, or add up ── statement ended
//! workers                          └─ a part: rows, conditions, text or groups ─┘
//! ```
//! - **W1** What a statement gives is what its session's thread alone would give, in the same order
//!   (parts/C2).
//! - **W2** The session's thread stays in the statement until the last worker has gone (loan/O1): locks on
//!   definitions, time limit, transaction and error are the statement's own. A wish to cancel is looked for
//!   by each worker.
//! - **W3** The first error in the parts' order ends the whole scan, as it would with one thread; so does an
//!   error of the consumer that takes the gathered rows.
//! - **W4** What waits to be gathered is bounded by the pipeline.
use crate::session::Session;
use crate::session::output::Encode;
use crate::session::plan::Plan;
use crate::session::planned::Telling;
use crate::session::rows::{Column, Row, Rows};
use crate::session::runtime::{context_as_of, context_for, frame_of};
use ondol_engine::{Charge, Loan, RowBatch, Table, Token};
use ondol_scan::pipeline::{self, Hand, Options};
use ondol_sql::bound::{Bound, Query, Statement};
use ondol_sql::code::Program;
use ondol_sql::interpret::{self, Env, Gathered, Gatherer, NoHost, Nowhere, RowView, Share, Sink};
use ondol_types::{SqlError, SqlResult, Value, ValueRef, sqlstate};
use std::sync::Arc;

/// Pages of a part at most: so many that handing it out costs nothing beside reading it.
const PART: usize = 128;
/// Bytes of rows that a worker inserts at once, roughly.
const PIECE: usize = 1 << 20;
/// Parts for each worker at least, where the table has pages for them.
const TURNS: usize = 8;

/// Bytes that a worker makes of rows before it hands them over.
const MUCH: usize = 256 << 10;
/// Room for the row that makes it so many.
const LEAST: usize = 4 << 10;

/// Rows on their way to an output.
enum Told {
    Bytes(Vec<u8>),
    Rows(Rows),
}

/// What a worker makes of rows. It counts against the memory limit until it is told.
struct Made {
    encoder: Option<Arc<dyn Encode>>,
    told: Told,
    columns: Arc<[Column]>,
    /// Of what is being made.
    charge: Charge,
}

impl Made {
    /// `charge` is empty.
    fn new(encoder: Option<Arc<dyn Encode>>, columns: &Arc<[Column]>, charge: Charge) -> Made {
        let told = match encoder {
            Some(_) => Told::Bytes(Vec::new()),
            None => Told::Rows(Rows::of(columns.clone())),
        };
        Made { encoder, told, columns: columns.clone(), charge }
    }
    fn put(&mut self, row: &RowView<'_>) -> SqlResult<()> {
        match (&mut self.told, &self.encoder) {
            (Told::Bytes(bytes), Some(encoder)) => encoder.row(Row::new(&self.columns, *row), bytes)?,
            (Told::Bytes(_), None) => {}
            (Told::Rows(rows), _) => rows.sink().row(row).map(drop)?,
        }
        let room = match &self.told {
            Told::Bytes(bytes) => bytes.capacity(),
            Told::Rows(rows) => rows.bytes().next_multiple_of(MUCH),
        };
        if self.charge.bytes() < room { self.charge.resize(room) } else { Ok(()) }
    }
    fn bytes(&self) -> usize {
        match &self.told {
            Told::Bytes(bytes) => bytes.len(),
            Told::Rows(rows) => rows.bytes(),
        }
    }
    /// What was made so far; it begins anew.
    fn take(&mut self) -> (Told, Charge) {
        let another = match &self.told {
            Told::Bytes(bytes) => Told::Bytes(Vec::with_capacity(bytes.len() + LEAST)),
            Told::Rows(_) => Told::Rows(Rows::of(self.columns.clone())),
        };
        let charge = self.charge.another();
        (std::mem::replace(&mut self.told, another), std::mem::replace(&mut self.charge, charge))
    }
    /// The same at the end of a part, if it is anything.
    fn rest(&mut self) -> Option<(Told, Charge)> {
        (self.bytes() > 0).then(|| self.take())
    }
}

/// An error of a statement's, or that no thread could be started.
pub(crate) struct Failed(SqlError);
impl From<SqlError> for Failed {
    fn from(e: SqlError) -> Failed {
        Failed(e)
    }
}
impl From<std::io::Error> for Failed {
    fn from(e: std::io::Error) -> Failed {
        let message = format!("could not start a thread to read a table: {e}");
        Failed(SqlError::new("53000", message).hint("SET max_parallel_workers_per_gather = 0 does without."))
    }
}

/// A part, to be read into a sink.
pub(crate) type Read<'a> = &'a mut dyn FnMut(&mut dyn Sink) -> SqlResult<Gathered>;

impl Session {
    /// How many workers are to read a program's table; 0: the session's thread does it all.
    pub(crate) fn workers_for(&self, plan: &Plan) -> usize {
        let Some(parted) = &plan.parted else { return 0 };
        if self.quick.workers == 0 {
            return 0;
        }
        self.workers_of(parted.pages(&plan.program))
    }
    fn workers_of(&self, pages: usize) -> usize {
        if pages < self.quick.parted_pages { 0 } else { self.quick.workers.min(pages) }
    }
    /// How many workers may count the rows of a program's foreign tables.
    pub(crate) fn workers_that_count(&self, program: &Program) -> usize {
        match program.foreigns.iter().map(|f| f.table.pages()).max() {
            Some(pages) => self.workers_of(pages),
            None => 0,
        }
    }

    /// The same for a program whose rows go out one by one; 0 for others.
    pub(crate) fn workers_for_rows(&self, plan: &Plan) -> usize {
        if plan.parted.is_some_and(|p| p.is_grouped()) { 0 } else { self.workers_for(plan) }
    }

    /// One statement of the connection, its table read by workers that make groups of its rows.
    #[inline(never)]
    pub(crate) fn run_program_in_parts(
        &mut self,
        plan: &Plan,
        workers: usize,
        params: &[ValueRef<'_>],
        sink: &mut dyn Sink,
    ) -> SqlResult<(u64, Option<Token>)> {
        self.read_parts(
            plan,
            workers,
            self.part_of(plan, workers),
            params,
            sink,
            |_| (),
            |(), read, hand| {
                let gathered = read(&mut Nowhere)?;
                // Refused, it is not wanted any more.
                let _ = hand.over(gathered);
                Ok(())
            },
            |gathered, gatherer| gatherer.add(gathered),
        )
    }

    /// One statement of the connection whose rows are told, read by workers. They make them into bytes, too,
    /// where the output has an encoder.
    #[inline(never)]
    pub(crate) fn tell_parted(
        &mut self,
        plan: &Plan,
        workers: usize,
        params: &[ValueRef<'_>],
        telling: &mut Telling<'_>,
    ) -> SqlResult<(u64, Option<Token>)> {
        let (columns, charge) = (telling.columns.clone(), self.connection.charge());
        let encoder = telling.out.encoder(&columns);
        self.read_parts(
            plan,
            workers,
            self.part_of(plan, workers),
            params,
            &mut Nowhere,
            move |_| Made::new(encoder.clone(), &columns, charge.another()),
            |made, read, hand| {
                let gathered = read(&mut |row: &RowView<'_>| {
                    made.put(row)?;
                    // No more rows are wanted where nobody takes what was made of them.
                    Ok(made.bytes() < MUCH || hand.over((Some(made.take()), None)).is_ok())
                });
                // Refused, it is not wanted any more. Rows before an error are told as one thread tells them.
                let (gathered, done) = match gathered {
                    Ok(gathered) => (Some(gathered), Ok(())),
                    Err(e) => (None, Err(e)),
                };
                let _ = hand.over((made.rest(), gathered));
                done
            },
            |(piece, gathered), gatherer| {
                if let Some((told, _charge)) = piece {
                    telling.tell()?;
                    match told {
                        Told::Bytes(bytes) => telling.out.encoded(bytes)?,
                        Told::Rows(rows) => rows.iter().try_for_each(|row| telling.out.row(row))?,
                    }
                }
                gathered.map_or(Ok(()), |g| gatherer.add(g))
            },
        )
    }

    /// Pages of a part for workers that are quickly done with one.
    pub(crate) fn part_of(&self, plan: &Plan, workers: usize) -> usize {
        let pages = plan.parted.map_or(0, |p| p.pages(&plan.program));
        (pages / (workers.max(1) * TURNS)).clamp(1, PART)
    }

    /// Fills a table of this transaction, which has no index, with a query's rows, if workers may read what
    /// the query is of; gives their number. They insert each what they read, so rows do not lie in the
    /// query's order.
    pub(crate) fn fill_parted(
        &mut self,
        table: &Arc<Table>,
        query: &Query,
        of: &Bound,
        catalog_version: u64,
    ) -> SqlResult<Option<u64>> {
        let select = Bound {
            foreign: of.foreign.clone(),
            ..Bound::of(Statement::Query(query.clone()), Vec::new(), catalog_version)
        };
        let mut plan = Plan::new(self.compile(&select)?);
        let workers = self.workers_for_rows(&plan);
        let given = plan.columns.iter().map(|c| c.ty);
        if workers == 0 || !given.eq(table.def.columns.iter().map(|c| c.ty)) {
            return Ok(None);
        }
        let mut program = Program::clone(&plan.program);
        program.tables.push(table.clone());
        program.writes = true;
        program.uses = program.uses.and(program.tables.len() - 1, true);
        plan.program = Arc::new(program);
        let (layout, table) = (table.layout.clone(), table.clone());
        let (rows, _) = self.read_parts(
            &plan,
            workers,
            self.part_of(&plan, workers),
            &[],
            &mut Nowhere,
            move |loan| (loan.inserter(), RowBatch::new(layout.clone(), PIECE), Vec::new()),
            move |(inserter, made, memory), read, hand| {
                let Some(inserter) = inserter else {
                    return Err(SqlError::new(sqlstate::INTERNAL_ERROR, "no transaction was lent"));
                };
                made.clear();
                let gathered = read(&mut |row: &RowView<'_>| {
                    let mut values = crate::transfer::load::reused(std::mem::take(memory));
                    values.extend(row.values());
                    let is_whole = made.push(&values);
                    values.clear();
                    *memory = crate::transfer::load::reused(values);
                    if !is_whole {
                        let message = "a row does not fit the columns of its new table";
                        return Err(SqlError::new(sqlstate::INTERNAL_ERROR, message));
                    }
                    if made.bytes() >= PIECE {
                        inserter.insert_rows(&table, made)?;
                        made.clear();
                    }
                    Ok(true)
                })?;
                inserter.insert_rows(&table, made)?;
                made.clear();
                // Refused, it is not wanted any more.
                let _ = hand.over(gathered);
                Ok(())
            },
            |gathered, gatherer| gatherer.add(gathered),
        )?;
        Ok(Some(rows))
    }

    /// One statement of the connection. Workers, each with a `state` of its own, `work` on parts of at most
    /// `pages` pages; what they hand over comes to `take` in the parts' order.
    #[allow(clippy::too_many_arguments)] // what is run, and what is done with its parts
    pub(crate) fn read_parts<S, T: Send + 'static>(
        &mut self,
        plan: &Plan,
        workers: usize,
        pages: usize,
        params: &[ValueRef<'_>],
        sink: &mut dyn Sink,
        state: impl Fn(&Loan) -> S + Send + Sync + 'static,
        work: impl Fn(&mut S, Read<'_>, &Hand<'_, T, Failed>) -> SqlResult<()> + Send + Sync + 'static,
        mut take: impl FnMut(T, &mut Gatherer<'_>) -> SqlResult<()>,
    ) -> SqlResult<(u64, Option<Token>)> {
        self.fresh = false;
        let Some(parted) = plan.parted else { return self.run_program(plan, params, sink) };
        let context = context_for(plan, &self.identity.names, &self.host, None, self.quick.styles);
        let env = Env {
            context: context.as_ref().unwrap_or(&crate::session::runtime::UNTIMED),
            host: &NoHost,
            cancel: Some(&self.cancel),
            memory_limit: self.database.work_limit,
            workers: 0,
        };
        let (cancel, limit) = (self.cancel.clone(), self.database.work_limit);
        let styles = self.quick.styles;
        let (program, names) = (plan.program.clone(), self.identity.names.clone());
        let owned: Vec<Value> = params.iter().map(|v| v.to_owned()).collect();
        let mut own = None;
        let frame = frame_of(&mut self.plans.frames, &mut own, plan);
        let done = interpret::run_parted(
            frame,
            (&parted, &plan.program),
            &mut self.connection,
            params,
            sink,
            &env,
            pages,
            |connection, parts, context, gatherer| {
                let (now_us, statement_us) = (context.now_us, context.statement_us);
                let parts = Arc::new(parts);
                let lent = |loan: &Loan| {
                    let (loan, of) = (loan.clone(), parts.clone());
                    pipeline::run(
                        parts.len(),
                        Options { workers, ordered: true, ahead: 2 * workers },
                        move || (loan.reader(), Share::default(), state(&loan)),
                        move |(reader, share, state), n, hand| {
                            let context = context_as_of(&names, now_us, statement_us, styles);
                            let env = Env {
                                context: &context,
                                host: &NoHost,
                                cancel: Some(&cancel),
                                memory_limit: limit,
                                workers: 0,
                            };
                            let mut read = |sink: &mut dyn Sink| {
                                crate::session::params::with_refs(&owned, |params| {
                                    share.read(
                                        (&parted, &program),
                                        reader.connection(),
                                        &of[n],
                                        params,
                                        sink,
                                        &env,
                                    )
                                })
                            };
                            work(state, &mut read, hand).map_err(Failed)
                        },
                        |_, piece| take(piece, gatherer).map_err(Failed),
                    )
                    .map_err(|e| e.0)
                };
                // A program that writes has what its rows are inserted into, too.
                match plan.program.writes {
                    true => connection.lend_writing(lent)?,
                    false => connection.lend(lent),
                }
            },
        )?;
        Ok((done.rows_affected, done.token))
    }
}
