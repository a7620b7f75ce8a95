//! Many executions of one program, interleaved.
//!
//! All lanes run up to the next *meeting* (`KeyProbe`, `RowNext`) before any goes past it: so the buckets of
//! all lanes, asked for by `KeyPrefetch`, are on their way into the cache before the first is probed, and all
//! rows, asked for by `RowPrefetch`, before the first is read. A lane is a frame; lanes that are no longer at
//! the same instruction as the others go on one by one.
//!
//! A program that begins with a point lookup by its parameters, and looks up nothing else, needs no frame for
//! each lane: the keys are hashed straight from the parameters ([`look_ahead`]), and then the calls are
//! executed one after the other. Nor does one that writes and has no first key that could be made ahead.
//!
//! - **B1** The outcome of a lane is what it would be alone. Its error is its own, except that in a reading
//!   batch (one statement, interpret/N3) an error ends the statement and is every later lane's too.
use super::exec::{Exit, LANE, PLAIN, World, exec, execute, is_meeting, point_row};
use super::frame::Frame;
use super::frames::Frames;
use super::point::number;
use super::rows::Sink;
use super::{Env, Outcome, outcome, run};
use crate::code::operand::Label;
use crate::code::{Op, Program};
use ondol_engine::{Aim, Connection, Oid, PointIndex};
use ondol_types::{SqlError, SqlResult, ValueRef};
use std::borrow::Borrow;
use std::sync::Arc;

/// Strings of a row that are asked for ahead: more would drive each other out of the nearest cache.
const STRINGS: usize = 4;

/// The frames of a batch, kept for the next.
#[derive(Default)]
pub struct Batch {
    /// Of the programs whose calls are executed one after the other.
    frames: Frames,
    lanes: Vec<Frame>,
    /// Where each lane is; `None` when it has ended.
    at: Vec<Option<usize>>,
    /// Of each call, where its first key leads and the row that may stand there.
    aims: Vec<Aim>,
    rows: Vec<Oid>,
}

impl Batch {
    pub fn new() -> Batch {
        Batch::default()
    }
}

/// What can be done for all calls of a batch before the first of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Ahead {
    #[default]
    Nothing,
    /// The program's first and only lookup is by its parameters: [`look_ahead`].
    Point,
    /// It writes, and the code before the instruction here only makes the first key: [`prefetch_keys`].
    Keys(usize),
}

impl Ahead {
    pub(super) fn of(program: &Program) -> Ahead {
        if first_point(program).is_some() && !program.ops[1..].iter().any(is_meeting) {
            return Ahead::Point;
        }
        first_key(program).filter(|_| program.writes).map_or(Ahead::Nothing, Ahead::Keys)
    }
}

/// Whether all that the program does is to look up rows by unique keys, and to give columns of theirs, which
/// nothing that it finds makes fail: so that calls of it can be gathered.
pub fn is_look_up(program: &Program) -> bool {
    let is_by_key = |op: &Op| match op {
        Op::KeyProbe { cursor } | Op::Point { cursor, .. } | Op::PointRow { cursor, .. } => {
            program.index_of(cursor.0).is_some_and(|i| i.def.unique)
        }
        // Jumps, values and columns, comparisons of plain values; keys, rows, and what gives them.
        Op::Halt { .. }
        | Op::Jump { .. }
        | Op::If { .. }
        | Op::IfNot { .. }
        | Op::IfFalse { .. }
        | Op::IfNull { .. }
        | Op::IfNotNull { .. }
        | Op::Mark { .. }
        | Op::Reset { .. }
        | Op::Null { .. }
        | Op::Bool { .. }
        | Op::Int { .. }
        | Op::Move { .. }
        | Op::IsNull { .. }
        | Op::IsNotNull { .. }
        | Op::Not { .. }
        | Op::And { .. }
        | Op::Or { .. }
        | Op::CmpInt { .. }
        | Op::CmpText { .. }
        | Op::UnlessInt { .. }
        | Op::UnlessText { .. }
        | Op::Retag { .. }
        | Op::Narrow { .. }
        | Op::Load { .. }
        | Op::LoadParam { .. }
        | Op::ColBool { .. }
        | Op::ColInt2 { .. }
        | Op::ColInt4 { .. }
        | Op::ColInt8 { .. }
        | Op::ColFloat8 { .. }
        | Op::ColDate { .. }
        | Op::ColTimestamp { .. }
        | Op::ColTimestamptz { .. }
        | Op::ColText { .. }
        | Op::ColBytea { .. }
        | Op::ColNumeric { .. }
        | Op::ColChar { .. }
        | Op::ColOpaque { .. }
        | Op::ColPacked { .. }
        | Op::ColLater { .. }
        | Op::KeyPut { .. }
        | Op::KeyPrefetch { .. }
        | Op::RowPrefetch { .. }
        | Op::RowNext { .. }
        | Op::Emit { .. }
        | Op::EmitRow { .. }
        | Op::Twin { .. } => true,
        _ => false,
    };
    !program.writes && program.ops.iter().any(is_meeting) && program.ops.iter().all(is_by_key)
}

/// The index and the parameters of a point lookup that the program begins with.
fn first_point(program: &Program) -> Option<(&PointIndex, std::ops::Range<usize>)> {
    let Some(
        Op::Point { cursor, values, .. }
        | Op::PointRow { cursor, values }
        | Op::PointUpdate { cursor, key: values, .. },
    ) = program.ops.first()
    else {
        return None;
    };
    let point = program.index_of(cursor.0)?.point.as_ref()?;
    (values.range().end <= program.param_registers()).then(|| (point, values.range()))
}

/// Where in a row the heads of the strings lie that a reading program gives, which begins with a point
/// lookup.
pub(super) fn heads(program: &Program) -> Vec<u16> {
    let (cursor, is_whole) = match program.ops.first() {
        Some(Op::PointRow { cursor, .. }) => (cursor.0, true),
        Some(Op::Point { cursor, .. }) => (cursor.0, false),
        _ => return vec![],
    };
    let row_at = program.cursors[cursor as usize].row_at;
    let is_given = |head: &u16| {
        let reads = |op: &Op| match op {
            Op::ColText { at, .. } | Op::ColBytea { at, .. } => at.0 == row_at + u32::from(*head),
            _ => false,
        };
        is_whole || program.ops.iter().any(reads)
    };
    let all = program.table_of(cursor).layout.strings.iter().copied();
    all.filter(|head| !program.writes && is_given(head)).take(STRINGS).collect()
}

/// The first lookup, if only straight code is before it that can neither touch rows nor leave for code that
/// does.
fn first_key(program: &Program) -> Option<usize> {
    let is_first = |op: &Op| matches!(op, Op::KeyProbe { .. } | Op::Point { .. } | Op::PointUpdate { .. });
    let stop = program.ops.iter().position(is_first)?;
    let ends = |to: &Label| matches!(program.ops.get(to.0 as usize), Some(Op::Halt {}));
    let harmless = |op: &Op| match op {
        Op::Mark { .. } | Op::Move { .. } | Op::Retag { .. } | Op::KeyPrefetch { .. } => true,
        Op::Narrow { to, .. } | Op::KeyPut { to, .. } => ends(to),
        _ => false,
    };
    (stop > 0 && program.ops[..stop].iter().all(harmless)).then_some(stop)
}

/// Hashes all calls' keys and asks for their buckets; then looks into those and asks for the rows; and then
/// into those for strings. What is found is only where to look first, so a parameter that is NULL or of a
/// wrong type may stand for any number.
fn look_ahead(
    batch: &mut Batch,
    program: &Arc<Program>,
    connection: &Connection,
    params: &[&[ValueRef<'_>]],
) {
    let Some((point, key)) = first_point(program) else { return };
    batch.aims.clear();
    batch.aims.extend(params.iter().map(|p| point.aim(|i| p.get(key.start + i).map_or(0, number))));
    batch.rows.clear();
    let pin = connection.pin();
    batch.rows.extend(batch.aims.iter().map(|aim| {
        let oid = connection.find_ahead(&pin, point, *aim);
        if program.writes && !oid.is_none() {
            connection.prefetch_page(oid)
        }
        oid
    }));
    let heads = &batch.frames.of(program).heads[..];
    if !heads.is_empty() {
        let found = batch.rows.iter().filter(|oid| !oid.is_none());
        found.for_each(|oid| connection.prefetch_strings(*oid, heads))
    }
}

/// Executes call after call, up to the first that fails: then its error.
#[inline]
fn each_call<S: Sink>(
    params: &[&[ValueRef<'_>]],
    sinks: &mut [S],
    outcomes: &mut Vec<SqlResult<Outcome>>,
    mut call: impl FnMut(usize, &[ValueRef<'_>], &mut S) -> SqlResult<Outcome>,
) -> Option<SqlError> {
    for i in 0..params.len() {
        match call(i, params[i], &mut sinks[i]) {
            Ok(outcome) => outcomes.push(Ok(outcome)),
            Err(e) => return Some(e),
        }
    }
    None
}

/// One call by the frame, looking at the row `ahead` first.
#[inline]
fn by_frame<C: Borrow<Connection>>(
    frame: &mut Frame,
    program: &Arc<Program>,
    connection: C,
    params: &[ValueRef<'_>],
    ahead: Oid,
    env: &Env<'_>,
    execute: impl FnOnce(&mut Frame, C) -> SqlResult<()>,
) -> SqlResult<Outcome> {
    let done = frame.start(program, params, env.memory_limit, connection.borrow()).and_then(|()| {
        frame.ahead = ahead;
        execute(frame, connection)
    });
    frame.finish();
    done.map(|()| outcome(frame, program, None))
}

/// Executes the calls of a reading program after looking ahead for all of them.
fn one_by_one<S: Sink>(
    batch: &mut Batch,
    program: &Arc<Program>,
    connection: &mut Connection,
    params: &[&[ValueRef<'_>]],
    sinks: &mut [S],
    env: &Env<'_>,
    outcomes: &mut Vec<SqlResult<Outcome>>,
) -> SqlResult<()> {
    let before = outcomes.len();
    connection.start_statement(program.catalog_version, &program.tables, false)?;
    look_ahead(batch, program, connection, params);
    let frame = batch.frames.of(program);
    let failed = if let Some(Op::PointRow { cursor, values }) = program.ops.first() {
        // Nothing is done here but to copy one row a call: one pin does for all.
        let connection = &*connection;
        let pin = connection.pin();
        let may_be_short = !connection.is_serializable() && !connection.may_see_twins();
        each_call(params, sinks, outcomes, |i, params, sink| {
            let (aim, ahead) = (batch.aims[i], batch.rows[i]);
            let short = frame.point.as_ref().filter(|_| may_be_short);
            if let Some(point) = short
                && let Some(key) = point.key(params)
                && let Some(rows) = sink.rows()
                && let Some(found) = point.read(connection, &pin, aim, ahead, key, rows)
            {
                return Ok(Outcome { rows_affected: found.into(), tag: program.tag, token: None });
            }
            by_frame(frame, program, connection, params, ahead, env, |frame, connection| {
                point_row(frame, program, connection, sink, *cursor, *values)
            })
        })
    } else {
        each_call(params, sinks, outcomes, |i, params, sink| {
            by_frame(frame, program, &mut *connection, params, batch.rows[i], env, |frame, connection| {
                frame.surround(connection, env, |frame, connection, world| {
                    execute(frame, program, connection, sink, world)
                })
            })
        })
    };
    let Some(e) = failed else { return connection.end_statement().map(|_| ()) };
    connection.abort_statement();
    if connection.in_transaction() {
        outcomes.truncate(before);
        outcomes.extend(params.iter().map(|_| Err(e.clone())));
        return Ok(());
    }
    // Each call would have been a transaction of its own: those behind the failed one are run so.
    outcomes.push(Err(e));
    for i in outcomes.len() - before..params.len() {
        outcomes.push(run(frame, program, connection, params[i], &mut sinks[i], env));
    }
    Ok(())
}

/// Executes the program once for each set of parameters, sink i taking lane i's rows; the outcomes come
/// behind those that are there. `Err` is for the whole batch (a stale program, say): then no lane's outcome
/// counts. Where lanes are statements of their own, the outcome of a later one may be that the program became
/// stale meanwhile: that lane did nothing and is to be run again.
pub fn run_batch<S: Sink>(
    batch: &mut Batch,
    program: &Arc<Program>,
    connection: &mut Connection,
    params: &[&[ValueRef<'_>]],
    sinks: &mut [S],
    env: &Env<'_>,
    outcomes: &mut Vec<SqlResult<Outcome>>,
) -> SqlResult<()> {
    let n = params.len().min(sinks.len());
    if n == 0 {
        return Ok(());
    }
    let ahead = match batch.lanes.first() {
        // Frames of lanes are loaded anew for each program, so they are only for those that need several.
        Some(lane) if lane.runs(program) => lane.ahead_of_calls,
        _ => batch.frames.of(program).ahead_of_calls,
    };
    let one_frame = n == 1 || ahead == Ahead::Point || program.writes && ahead == Ahead::Nothing;
    if one_frame {
        batch.frames.of(program).allow.attach(connection);
        if ahead == Ahead::Point && n > 1 {
            if !program.writes {
                return one_by_one(batch, program, connection, &params[..n], sinks, env, outcomes);
            }
            look_ahead(batch, program, connection, &params[..n]);
        }
        let frame = std::slice::from_mut(batch.frames.of(program));
        return in_turn(frame, program, connection, &params[..n], sinks, env, outcomes);
    }
    if batch.lanes.len() < n {
        batch.lanes.resize_with(n, Frame::new);
    }
    for (at, p) in params.iter().enumerate().take(n) {
        let started = batch.lanes[at].start(program, p, env.memory_limit, connection);
        if started.is_err() {
            batch.lanes[..at].iter_mut().for_each(|l| l.finish());
            return started;
        }
    }
    if let Ahead::Keys(stop) = ahead {
        prefetch_keys(batch, program, connection, n, stop, env);
        let lanes = &mut batch.lanes[..n];
        return in_turn(lanes, program, connection, &params[..n], sinks, env, outcomes);
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

/// Executes call after call, each as a statement of its own: by its own frame, or all by the only one.
fn in_turn<S: Sink>(
    frames: &mut [Frame],
    program: &Arc<Program>,
    connection: &mut Connection,
    params: &[&[ValueRef<'_>]],
    sinks: &mut [S],
    env: &Env<'_>,
    outcomes: &mut Vec<SqlResult<Outcome>>,
) -> SqlResult<()> {
    let last = frames.len() - 1;
    for (i, p) in params.iter().enumerate() {
        let frame = &mut frames[i.min(last)];
        let short = frame.update.as_ref().filter(|_| frame.runs(program)).and_then(|u| u.call(connection, p));
        let done = match short {
            Some(done) => done,
            None => run(frame, program, connection, p, &mut sinks[i], env),
        };
        if i == 0 && done.as_ref().is_err_and(|e| e.sqlstate() == ondol_engine::connection::STALE) {
            return done.map(|_| ());
        }
        outcomes.push(done);
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
    batch.at.clear();
    batch.at.resize(n, Some(0));
    if !batch.lanes[0].uses_time {
        return to_the_end(batch, program, connection, sinks, n, &World::plain(env));
    }
    let purse = batch.lanes[0].purse();
    let (failed, spare) = World::charged(purse, connection, env, |connection, world| {
        to_the_end(batch, program, connection, sinks, n, world)
    });
    batch.lanes[0].spare = spare;
    failed
}

/// The rounds of [`together`].
fn to_the_end<S: Sink>(
    batch: &mut Batch,
    program: &Arc<Program>,
    connection: &mut Connection,
    sinks: &mut [S],
    n: usize,
    world: &World<'_>,
) -> Option<(usize, ondol_types::SqlError)> {
    loop {
        let leader = batch.at.iter().flatten().copied().min()?;
        let at = &batch.at;
        meet(&mut batch.lanes[..n], &|i| at[i] == Some(leader), &program.ops[leader], connection);
        let mut moved = false;
        #[allow(clippy::needless_range_loop)] // lanes, places and sinks in step
        for i in 0..n {
            let Some(at) = batch.at[i] else { continue };
            if at != leader {
                continue;
            }
            moved = true;
            match exec::<LANE>(&mut batch.lanes[i], program, connection, &mut sinks[i], world, at) {
                Ok(Exit::Done) => batch.at[i] = None,
                // A meeting at or before the one that was left is a loop: from there the lane goes on alone.
                Ok(Exit::At(next)) if next > leader => batch.at[i] = Some(next),
                Ok(Exit::At(next)) => {
                    if let Err(e) =
                        exec::<PLAIN>(&mut batch.lanes[i], program, connection, &mut sinks[i], world, next)
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

/// What is left of a batch in which a lane failed, outside a transaction. Lanes before it have given their
/// rows within a statement that is undone, which for a reading program means nothing was done.
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

/// For programs that write: computes the first key of every lane, which the code before `stop` does, and asks
/// for its bucket, outside any statement.
fn prefetch_keys(
    batch: &mut Batch,
    program: &Arc<Program>,
    connection: &mut Connection,
    n: usize,
    stop: usize,
    env: &Env<'_>,
) {
    let world = World::plain(env);
    for lane in &mut batch.lanes[..n] {
        // The meeting stops the lane before its probe; whatever happens here happens again when the lane
        // runs.
        let _ = exec::<LANE>(lane, program, connection, &mut super::rows::Nowhere, &world, 0);
    }
    meet(&mut batch.lanes[..n], &|_| true, &program.ops[stop], connection);
}

/// At a point lookup: hashes the keys of the lanes that are there and asks for their buckets; then looks into
/// those and asks for the rows.
fn meet(lanes: &mut [Frame], there: &dyn Fn(usize) -> bool, op: &Op, connection: &Connection) {
    let (Op::Point { cursor, values, .. } | Op::PointUpdate { cursor, key: values, .. }) = *op else {
        return;
    };
    let pin = connection.pin();
    for (_, lane) in lanes.iter_mut().enumerate().filter(|(i, _)| there(*i)) {
        let c = &mut lane.cursors[cursor.0 as usize];
        let Some(point) = c.index.as_ref().and_then(|i| i.point.as_ref()) else { return };
        let key = &lane.regs[values.range()];
        c.aim = point.aim(|i| key.get(i).map_or(0, |d| d.as_int()));
    }
    for (_, lane) in lanes.iter_mut().enumerate().filter(|(i, _)| there(*i)) {
        let c = &lane.cursors[cursor.0 as usize];
        if let Some(point) = c.index.as_ref().and_then(|i| i.point.as_ref()) {
            lane.ahead = connection.find_ahead(&pin, point, c.aim)
        }
    }
}
