//! Many executions of one program, interleaved.
//!
//! All lanes run up to the next *meeting* (`KeyProbe`, `RowNext`) before any goes past it: so the buckets of all lanes, asked
//! for by `KeyPrefetch`, are on their way into the cache before the first is probed, and all rows, asked for by
//! `RowPrefetch`, before the first is read.
//! A lane is a frame; lanes that are no longer at the same instruction as the others go on one by one.
//!
//! - **B1** The outcome of a lane is what it would be alone. Its error is its own, except that in a reading batch (one
//!   statement, N3) an error ends the statement and is every later lane's too.
use super::exec::{Exit, LANE, PLAIN, exec};
use super::frame::Frame;
use super::rows::Sink;
use super::{Env, Outcome, outcome, run, world};
use crate::code::operand::Label;
use crate::code::{Op, Program};
use ondol_engine::Connection;
use ondol_types::{SqlResult, ValueRef};
use std::sync::Arc;

/// The frames of a batch, kept for the next.
#[derive(Default)]
pub struct Batch {
    lanes: Vec<Frame>,
    /// Where each lane is; `None` when it has ended.
    at: Vec<Option<usize>>,
}

impl Batch {
    pub fn new() -> Batch {
        Batch::default()
    }
}

/// Executes the program once for each set of parameters, sink i taking lane i's rows. `Err` is for the whole batch (a stale
/// program, say): then no lane's outcome counts. In a batch that writes, the outcome of a later lane may be that the
/// program became stale meanwhile: that lane did nothing and is to be run again.
pub fn run_batch<S: Sink>(
    batch: &mut Batch,
    program: &Arc<Program>,
    connection: &mut Connection,
    params: &[&[ValueRef<'_>]],
    sinks: &mut [S],
    env: &Env<'_>,
    outcomes: &mut Vec<SqlResult<Outcome>>,
) -> SqlResult<()> {
    outcomes.clear();
    let n = params.len().min(sinks.len());
    if n == 0 {
        return Ok(());
    }
    if batch.lanes.len() < n {
        batch.lanes.resize_with(n, Frame::new);
    }
    for (lane, p) in batch.lanes.iter_mut().zip(params) {
        lane.start(program, p, env.memory_limit)?;
        lane.allow.attach(connection);
    }
    if program.writes {
        prefetch_keys(batch, program, connection, n, env);
        for i in 0..n {
            let done = run(&mut batch.lanes[i], program, connection, params[i], &mut sinks[i], env);
            if done.as_ref().is_err_and(|e| e.sqlstate() == ondol_engine::connection::STALE) && i == 0 {
                return done.map(|_| ());
            }
            outcomes.push(done);
        }
        return Ok(());
    }
    connection.start_statement(program.catalog_version, &program.tables, false)?;
    let failed = together(batch, program, connection, sinks, n, env);
    batch.lanes[..n].iter_mut().for_each(|l| l.finish());
    match failed {
        None => {
            let token = connection.end_statement()?;
            outcomes.extend(batch.lanes[..n].iter().map(|l| Ok(outcome(l, program, token))));
        }
        Some((lane, e)) => {
            connection.abort_statement();
            if !connection.in_transaction() {
                // Each lane would have been a transaction of its own: the others are run again, alone.
                return alone(batch, program, connection, params, sinks, env, outcomes, (lane, e));
            }
            outcomes.extend((0..n).map(|_| Err(e.clone())));
        }
    }
    Ok(())
}

/// Runs the lanes from meeting to meeting; the first lane that failed, with its error.
fn together<S: Sink>(
    batch: &mut Batch,
    program: &Arc<Program>,
    connection: &mut Connection,
    sinks: &mut [S],
    n: usize,
    env: &Env<'_>,
) -> Option<(usize, ondol_types::SqlError)> {
    let world = world(env, connection, &batch.lanes[0]);
    batch.at.clear();
    batch.at.resize(n, Some(0));
    loop {
        let leader = batch.at.iter().flatten().copied().min()?;
        let mut moved = false;
        #[allow(clippy::needless_range_loop)] // lanes, places and sinks in step
        for i in 0..n {
            let Some(at) = batch.at[i] else { continue };
            if at != leader {
                continue;
            }
            moved = true;
            match exec::<LANE>(&mut batch.lanes[i], program, connection, &mut sinks[i], &world, at) {
                Ok(Exit::Done) => batch.at[i] = None,
                // A meeting at or before the one that was left is a loop: from there the lane goes on alone.
                Ok(Exit::At(next)) if next > leader => batch.at[i] = Some(next),
                Ok(Exit::At(next)) => {
                    if let Err(e) =
                        exec::<PLAIN>(&mut batch.lanes[i], program, connection, &mut sinks[i], &world, next)
                    {
                        return Some((i, e));
                    }
                    batch.at[i] = None;
                }
                Err(e) => return Some((i, e)),
            }
        }
        debug_assert!(moved, "the leader itself moves");
    }
}

/// What is left of a batch in which a lane failed, outside a transaction. Lanes before it have given their rows
/// within a statement that is undone, which for a reading program means nothing was done.
#[allow(clippy::too_many_arguments)]
fn alone<S: Sink>(
    batch: &mut Batch,
    program: &Arc<Program>,
    connection: &mut Connection,
    params: &[&[ValueRef<'_>]],
    sinks: &mut [S],
    env: &Env<'_>,
    outcomes: &mut Vec<SqlResult<Outcome>>,
    failed: (usize, ondol_types::SqlError),
) -> SqlResult<()> {
    for (i, p) in params.iter().enumerate().take(sinks.len()) {
        if i == failed.0 {
            outcomes.push(Err(failed.1.clone()));
        } else if batch.at.get(i).is_some_and(|at| at.is_none()) {
            outcomes.push(Ok(outcome(&batch.lanes[i], program, None)));
        } else if batch.lanes[i].emitted > 0 {
            // Its sink has rows of an execution that was broken off.
            outcomes.push(Err(failed.1.clone()));
        } else {
            outcomes.push(run(&mut batch.lanes[i], program, connection, p, &mut sinks[i], env));
        }
    }
    Ok(())
}

/// For programs that write: computes the first key of every lane and asks for its bucket, outside any statement. Only
/// straight code before the first `KeyProbe` is executed, and only if it can neither touch rows nor leave for code that does.
fn prefetch_keys(
    batch: &mut Batch,
    program: &Arc<Program>,
    connection: &mut Connection,
    n: usize,
    env: &Env<'_>,
) {
    let Some(stop) = program.ops.iter().position(|op| matches!(op, Op::KeyProbe { .. })) else { return };
    let ends = |to: &Label| matches!(program.ops.get(to.0 as usize), Some(Op::Halt {}));
    let harmless = |op: &Op| match op {
        Op::Mark { .. } | Op::Move { .. } | Op::Retag { .. } | Op::KeyPrefetch { .. } => true,
        Op::Narrow { to, .. } | Op::KeyPut { to, .. } => ends(to),
        _ => false,
    };
    if stop == 0 || !program.ops[..stop].iter().all(harmless) {
        return;
    }
    let world = world(env, connection, &batch.lanes[0]);
    for lane in &mut batch.lanes[..n] {
        // The meeting stops the lane before its probe; whatever happens here happens again when the lane runs.
        let _ = exec::<LANE>(lane, program, connection, &mut super::rows::Nowhere, &world, 0);
    }
}
