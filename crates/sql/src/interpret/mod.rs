//! The interpreter: runs byte code against a connection.
//!
//! ```text
//! run / run_batch -> start_statement -> exec (one flat loop) -> end_statement
//!                                         |  registers, memory, cursors, stores: the frame
//!                                         |  rows out: the sink
//! ```
//! - **N1** A statement is begun and ended here, once for each [`run`], and undone if anything fails. A
//!   program for an older dictionary is refused with [`ondol_engine::connection::STALE`]; the caller compiles
//!   again.
//! - **N2** A frame belongs to one execution at a time and is meant to be used again and again.
//! - **N3** A batch of a reading program is one statement: all its lanes see one snapshot. Programs that
//!   write run lane by lane, each a statement of its own, after their index and row memory was asked for.
//! - **N4** A program that only reads, or locks what it reads, can be left behind a row and gone on with
//!   later, after other statements of its transaction ([`Suspended`]): it sees what it saw when it was begun.
//!
//! Not here: DDL, sessions, and text of any kind.
mod access;
mod advisory;
mod aggregate;
mod batch;
pub mod datum;
mod exec;
mod far;
mod foreign;
mod frame;
mod frames;
mod functions;
mod parts;
mod point;
mod portal;
pub mod rows;
mod store;
#[cfg(test)]
mod tests;
mod update;
mod window;

pub use batch::{Batch, is_look_up, run_batch};
pub use frame::Frame;
pub use frames::Frames;
pub use parts::{Gathered, Gatherer, Parted, Piece, Share, run_parted};
pub use point::PointRead;
pub use portal::Suspended;
pub use rows::{Nowhere, RowBuffer, RowView, Sink};
pub use update::PointUpdate;

use crate::code::Program;
use crate::code::program::Tag;
use crate::plan::explain::Options;
use ondol_base::cancel::Cancel;
use ondol_engine::{Catalog, ColumnDef, Connection, FunctionDef, Table, Token};
use ondol_types::func::Context;
use ondol_types::{SqlResult, ValueRef};
use std::sync::Arc;

/// Columns with the programs that compute them, and the columns that each program takes.
pub type RowPrograms = (Vec<(u16, Arc<Program>)>, Vec<u16>);

/// What the session layer answers during execution.
pub trait Host {
    /// Gives every row of a system view to `each`, or at least those in which the column has the value.
    fn system_rows(
        &self,
        view: &str,
        key: Option<(usize, ValueRef<'_>)>,
        connection: &Connection,
        each: &mut dyn FnMut(&[ValueRef<'_>]) -> SqlResult<()>,
    ) -> SqlResult<()>;
    /// The program of a registered query.
    fn function(&self, function: &Arc<FunctionDef>) -> SqlResult<Arc<Program>>;
    /// A program that gives a column's default.
    fn column_default(&self, _: &ColumnDef, _: &Catalog) -> SqlResult<Arc<Program>> {
        Err(ondol_types::SqlError::unsupported("a default in this place"))
    }
    /// A program that takes a value of a column and gives it, if it is one of the column's domain; `None`
    /// where it has none.
    fn domain_value(&self, column: &ColumnDef, _: &Catalog) -> SqlResult<Option<Arc<Program>>> {
        match column.domain {
            None => Ok(None),
            Some(_) => Err(ondol_types::SqlError::unsupported("a domain in this place")),
        }
    }
    /// The programs of a table's generated columns, and the columns that each takes.
    fn row_values(&self, table: &Table, _: &Catalog) -> SqlResult<RowPrograms> {
        match table.def.columns.iter().any(|c| c.computed().is_some()) {
            false => Ok((Vec::new(), Vec::new())),
            true => Err(ondol_types::SqlError::unsupported("a generated column in this place")),
        }
    }
    /// A program that gives the number of the first check of a table that is false of a row, or NULL, and the
    /// columns that it takes; `None` where it has none.
    fn row_checks(&self, table: &Table, _: &Catalog) -> SqlResult<Option<(Arc<Program>, Vec<u16>)>> {
        match table.def.checks.is_empty() {
            true => Ok(None),
            false => Err(ondol_types::SqlError::unsupported("a check in this place")),
        }
    }
}

/// A host without views and functions, for statements that use neither.
pub struct NoHost;
impl Host for NoHost {
    fn system_rows(
        &self,
        view: &str,
        _: Option<(usize, ValueRef<'_>)>,
        _: &Connection,
        _: &mut dyn FnMut(&[ValueRef<'_>]) -> SqlResult<()>,
    ) -> SqlResult<()> {
        Err(ondol_types::SqlError::unsupported(format!("system view {view} in this place")))
    }
    fn function(&self, function: &Arc<FunctionDef>) -> SqlResult<Arc<Program>> {
        Err(ondol_types::SqlError::unsupported(format!("calling {} in this place", function.name)))
    }
}

/// The surroundings of an execution.
pub struct Env<'a> {
    /// `now_us` is replaced by the transaction's time.
    pub context: &'a Context<'a>,
    pub host: &'a dyn Host,
    /// Tells the statement to stop.
    pub cancel: Option<&'a Cancel>,
    /// Bytes that a statement's sorts, hash tables and lists may take together.
    pub memory_limit: usize,
    /// Threads that may count a foreign table's rows for the statement, beside its own.
    pub workers: usize,
}

impl Env<'_> {
    /// Surroundings in which nothing is known.
    pub const EMPTY: Env<'static> =
        Env { context: &Context::EMPTY, host: &NoHost, cancel: None, memory_limit: usize::MAX, workers: 0 };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Rows given out (SELECT) or changed.
    pub rows_affected: u64,
    pub tag: Tag,
    /// Of the commit that ended the statement, when it was one.
    pub token: Option<Token>,
}

impl Outcome {
    /// The command's tag as told to a client.
    pub fn command(&self) -> String {
        self.tag.text(self.rows_affected)
    }
}

#[inline]
fn outcome(frame: &Frame, program: &Program, token: Option<Token>) -> Outcome {
    let rows_affected = if program.tag == Tag::Select { frame.emitted } else { frame.affected };
    Outcome { rows_affected, tag: program.tag, token }
}

/// Executes a program as one statement (N1).
pub fn run(
    frame: &mut Frame,
    program: &Arc<Program>,
    connection: &mut Connection,
    params: &[ValueRef<'_>],
    sink: &mut dyn Sink,
    env: &Env<'_>,
) -> SqlResult<Outcome> {
    begin(frame, program, connection, params, env)?;
    let done = frame.surround(connection, env, |frame, connection, world| {
        exec::execute(frame, program, connection, sink, world)
    });
    ended(frame, program, connection, done, env)
}

/// Begins a statement with its program.
#[inline]
fn begin(
    frame: &mut Frame,
    program: &Arc<Program>,
    connection: &mut Connection,
    params: &[ValueRef<'_>],
    env: &Env<'_>,
) -> SqlResult<()> {
    frame.start(program, params, env.memory_limit, connection)?;
    let started = connection.start_statement(program.catalog_version, &program.tables, program.uses);
    if started.is_err() {
        frame.finish()
    } else if program.tag == Tag::Delete {
        connection.removes_rows()
    }
    started
}

/// Ends a statement, by how its program ended.
#[inline]
fn ended(
    frame: &mut Frame,
    program: &Program,
    connection: &mut Connection,
    done: SqlResult<()>,
    env: &Env<'_>,
) -> SqlResult<Outcome> {
    frame.finish();
    let done = match done {
        Ok(()) if connection.has_due_keys() => foreign::settle(connection, env),
        done => done,
    };
    if let Err(e) = done {
        connection.abort_statement();
        return Err(e);
    }
    let token = connection.end_statement()?;
    if !program.columns.is_empty() {
        // What it has shown may be values of sequences (engine/sequence/S3).
        connection.cover()?
    }
    Ok(outcome(frame, program, token))
}

/// The same, counting what each instruction and each plan node did, for EXPLAIN ANALYZE: the lines to show.
pub fn run_measured(
    frame: &mut Frame,
    program: &Arc<Program>,
    connection: &mut Connection,
    params: &[ValueRef<'_>],
    env: &Env<'_>,
    options: Options,
) -> SqlResult<(Outcome, Vec<String>)> {
    let started = ondol_base::clock::now();
    begin(frame, program, connection, params, env)?;
    frame.executed.clear();
    frame.executed.resize(program.ops.len(), 0);
    frame.tallies.clear();
    frame.tallies.resize(program.tallies as usize, 0);
    let done = frame.surround(connection, env, |frame, connection, world| {
        exec::exec::<{ exec::PROFILE }>(frame, program, connection, &mut Nowhere, world, 0)
    });
    let outcome = ended(frame, program, connection, done.map(|_| ()), env)?;
    let elapsed_us = (ondol_base::clock::now() - started).as_micros() as u64;
    let (tallies, executed) = frame.measured();
    let measured = crate::code::explain::Measured { tallies, executed, elapsed_us };
    Ok((outcome, crate::code::explain::lines(program, options, Some(&measured), 0)))
}

/// Executes a program inside a statement that the caller began and will end (COPY of a query, functions).
pub fn run_within(
    frame: &mut Frame,
    program: &Arc<Program>,
    connection: &mut Connection,
    params: &[ValueRef<'_>],
    sink: &mut dyn Sink,
    env: &Env<'_>,
) -> SqlResult<Outcome> {
    frame.start(program, params, env.memory_limit, connection)?;
    let done = frame.surround(connection, env, |frame, connection, world| {
        exec::execute(frame, program, connection, sink, world)
    });
    frame.finish();
    done?;
    Ok(outcome(frame, program, None))
}
