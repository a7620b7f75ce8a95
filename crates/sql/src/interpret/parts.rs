//! Programs of one full scan, whose parts are read by several threads.
//!
//! ```text
//! program:   before | ScanStart, rows, ScanNext | after
//! shares     before,  rows of a part                      each of its own frame; again for the next part
//! main       before,  no rows, what shares gathered, after
//! ```
//! - **C1** [`Parted::of`] takes a program only if its instructions say so: one table, a foreign one perhaps,
//!   scanned once; before and among the rows nothing but values, conditions and one set of groups, and no
//!   jump out of the rows but to the next of them. What comes after may be anything: it is done once, in the
//!   main frame.
//! - **C2** Either rows go out among them, and then nothing comes after; or groups are made of them. What was
//!   gathered of the parts is added in the parts' order, so groups come in the order in which one thread
//!   meets them, and of equal extremes the last one counts, as with one thread. Only sums of floating-point
//!   numbers are added up in another order: part by part.
//! - **C3** All shares see the statement's view, parameters and time.
use super::aggregate::{group_for, state_of};
use super::datum::Allowance;
use super::exec::{Exit, PART, PLAIN, World, exec, internal};
use super::frame::Frame;
use super::rows::{Nowhere, Sink};
use super::store::HashTable;
use super::{Env, Outcome, ended};
use crate::code::Program;
use crate::code::op::Op;
use crate::foreign::ForeignRange;
use ondol_base::cancel::Cancel;
use ondol_base::fiber::take_turns;
use ondol_engine::{Connection, Part, Scan};
use ondol_types::agg::AggState;
use ondol_types::func::Context;
use ondol_types::limits::Limits;
use ondol_types::{SqlResult, ValueRef};
use std::ops::Range;
use std::sync::Arc;

/// How a program can be run in parts.
#[derive(Clone, Copy, Debug)]
pub struct Parted {
    source: Source,
    /// Groups are made of the rows; otherwise they go out.
    grouped: bool,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    /// A table, by its cursor.
    Table(u16),
    /// A foreign table, and the first of the two registers with its key's bounds.
    Foreign(u16, u16),
}

/// A part of the table, for a share.
pub enum Piece {
    Pages(Part),
    Foreign(Arc<dyn ForeignRange>, Range<usize>),
}

/// Values, conditions, columns, temporaries.
fn is_plain(op: &Op) -> bool {
    matches!(op.number(), 1 | 4..=8 | 10..=12 | 16..=61 | 63)
}

impl Parted {
    /// `None`: it can not (C1).
    pub fn of(program: &Program) -> Option<Parted> {
        let ops = &program.ops;
        if program.writes || program.cursors.len() + program.foreigns.len() != 1 || program.groups.len() > 1 {
            return None;
        }
        let is_start = |op: &Op| matches!(op, Op::ScanStart { .. } | Op::ForeignStart { .. });
        let is_next = |op: &Op| matches!(op, Op::ScanNext { .. } | Op::ForeignNext { .. });
        let start = ops.iter().position(is_start)?;
        let next = start + ops[start..].iter().position(is_next)?;
        let (source, to) = match (ops[start], ops[next]) {
            (Op::ScanStart { .. }, Op::ScanNext { cursor, to }) => (Source::Table(cursor.0), to),
            (Op::ForeignStart { from, bounds }, Op::ForeignNext { to, .. }) => {
                (Source::Foreign(from.0, bounds.first), to)
            }
            _ => return None,
        };
        let end = to.0 as usize;
        let grouped = !program.groups.is_empty();
        let (before, rows, after) = (ops.get(..start)?, ops.get(start + 1..end)?, ops.get(end..)?);
        let ahead = before.iter().enumerate().all(|(at, op)| {
            let fine = is_plain(op)
                || matches!(
                    op,
                    Op::Once { .. }
                        | Op::GroupClear { .. }
                        | Op::GroupFor { .. }
                        | Op::SortClear { .. }
                        | Op::SortLimit { .. }
                        | Op::WindowStart { .. }
                        | Op::HashClear { .. }
                        | Op::LimitOf { .. }
                        | Op::LimitSum { .. }
                        | Op::IfZero { .. }
                );
            fine && op.target().is_none_or(|to| to as usize > at)
        });
        let inside = rows.iter().enumerate().all(|(at, op)| {
            let fine = match op {
                op if is_next(op) => start + 1 + at == next,
                Op::Emit { .. } | Op::EmitRow { .. } => !grouped,
                Op::GroupFor { .. } | Op::AggStep { .. } => grouped,
                // A share makes the hash tables of lists for itself.
                Op::Once { .. } | Op::HashClear { .. } => true,
                op => is_plain(op),
            };
            let within = |to: u32| (start + 1..end).contains(&(to as usize));
            fine && (is_next(op) || op.target().is_none_or(within))
        });
        let afterwards = after.iter().all(|op| {
            let fine = match op {
                op if is_start(op) || is_next(op) => false,
                Op::Halt {} => true,
                op => grouped || is_plain(op),
            };
            fine && op.target().is_none_or(|to| to as usize >= end)
        });
        (ahead && inside && afterwards).then_some(Parted { source, grouped })
    }
    /// Whether groups are made of the rows, which otherwise go out one by one.
    pub fn is_grouped(&self) -> bool {
        self.grouped
    }
    /// How large the table is that is scanned, in pages of 4 KiB.
    pub fn pages(&self, program: &Program) -> usize {
        match self.source {
            Source::Table(cursor) => program.table_of(cursor).pages(),
            Source::Foreign(from, _) => program.foreigns[from as usize].table.pages(),
        }
    }
    /// The parts of at most `pages` pages, or somewhat more, that make up the table. The frame has come to
    /// the scan's beginning.
    fn parts(
        &self,
        frame: &Frame,
        program: &Program,
        connection: &Connection,
        pages: usize,
    ) -> SqlResult<Vec<Piece>> {
        let (from, first) = match self.source {
            Source::Table(cursor) => {
                let parts = Scan::parts(connection, program.table_of(cursor), pages);
                return Ok(parts.into_iter().map(Piece::Pages).collect());
            }
            Source::Foreign(from, first) => (from, first as usize),
        };
        let def = &program.foreigns[from as usize];
        let bound = |n: usize| frame.regs[first + n].value(&frame.memory).to_owned();
        let wanted = def.table.pages().div_ceil(pages.max(1)).max(1);
        let range = def.table.range(&def.columns, &bound(0), &bound(1), wanted)?;
        let (all, each) = (range.parts(), range.parts().div_ceil(wanted).max(1));
        let pieces = (0..all).step_by(each).map(|n| n..all.min(n + each));
        Ok(pieces.map(|parts| Piece::Foreign(range.clone(), parts)).collect())
    }
}

/// What was made of a part's rows.
pub struct Gathered {
    /// Rows that went out.
    rows: u64,
    groups: Option<Partial>,
}

struct Partial {
    table: HashTable,
    states: Vec<AggState>,
    /// What they take stays charged.
    _allow: Allowance,
}

/// A thread's share of a scan: part after part.
#[derive(Default)]
pub struct Share {
    frame: Frame,
}

impl Share {
    /// Runs a program, of which `parted` was made, for a part of its table within the statement whose view
    /// the connection was lent. `env` has the statement's own time.
    pub fn read(
        &mut self,
        (parted, program): (&Parted, &Arc<Program>),
        connection: &mut Connection,
        part: &Piece,
        params: &[ValueRef<'_>],
        sink: &mut dyn Sink,
        env: &Env<'_>,
    ) -> SqlResult<Gathered> {
        let frame = &mut self.frame;
        frame.start(program, params, env.memory_limit, connection)?;
        let purse = frame.purse();
        let context = Context {
            limits: Limits::new(env.cancel.map(Cancel::word), Some(&purse)).taking_turns(take_turns),
            ..*env.context
        };
        let world = World { env, context: &context, purse: Some(&purse), depth: 0 };
        let done = rows_of(frame, program, parted, connection, Some(part), sink, &world);
        frame.spare = purse.close();
        let groups = match &done {
            Ok(_) if parted.grouped => frame.groups.first_mut().map(|g| Partial {
                table: g.table.take(),
                states: std::mem::take(&mut g.states),
                _allow: std::mem::take(&mut frame.allow),
            }),
            _ => None,
        };
        frame.finish();
        done?;
        Ok(Gathered { rows: self.frame.emitted, groups })
    }
}

/// Runs a program up to the end of a part's rows, or of none; gives where it goes on, if it came so far.
fn rows_of(
    frame: &mut Frame,
    program: &Arc<Program>,
    parted: &Parted,
    connection: &mut Connection,
    part: Option<&Piece>,
    sink: &mut dyn Sink,
    world: &World<'_>,
) -> SqlResult<Option<usize>> {
    let Exit::At(rows) = exec::<PART>(frame, program, connection, sink, world, 0)? else { return Ok(None) };
    match (parted.source, part) {
        (Source::Table(cursor), Some(Piece::Pages(part))) => {
            frame.cursors[cursor as usize].scan.start_part(Some(part))
        }
        (Source::Table(cursor), _) => frame.cursors[cursor as usize].scan.start_part(None),
        (Source::Foreign(from, _), Some(Piece::Foreign(range, parts))) => {
            frame.foreigns[from as usize] = Some(range.rows(parts.clone()))
        }
        (Source::Foreign(from, _), _) => frame.foreigns[from as usize] = None,
    }
    match exec::<PART>(frame, program, connection, sink, world, rows)? {
        Exit::At(end) => Ok(Some(end)),
        // The sink wants no more.
        Exit::Done => Ok(None),
    }
}

/// Adds up what shares have gathered, part after part (C2).
pub struct Gatherer<'a> {
    frame: &'a mut Frame,
}

impl Gatherer<'_> {
    pub fn add(&mut self, gathered: Gathered) -> SqlResult<()> {
        let frame = &mut *self.frame;
        frame.emitted += gathered.rows;
        let Some(partial) = gathered.groups else { return Ok(()) };
        let (Some(groups), theirs) = (frame.groups.first_mut(), &partial.table.store) else {
            return Err(internal("groups were gathered for a program without"));
        };
        let aggs = groups.def.as_ref().map_or(0, |d| d.aggs.len());
        for row in 0..theirs.rows {
            group_for(groups, theirs.row(row), &theirs.bytes, &mut frame.allow)?;
            for (agg, state) in partial.states[row * aggs..][..aggs].iter().enumerate() {
                let Some(mine) = state_of(groups, agg as u16) else {
                    return Err(internal("a group without its aggregates"));
                };
                let before = mine.kept_bytes();
                mine.merge(state)?;
                frame.allow.take(mine.kept_bytes().saturating_sub(before))?
            }
        }
        Ok(())
    }
}

/// Executes a program as one statement, whose parts (of at most `pages` pages) `read` has shares read, in the
/// time that it is told, and added in their order.
#[allow(clippy::too_many_arguments)] // those of `run`, and what is to be done with the parts
pub fn run_parted(
    frame: &mut Frame,
    (parted, program): (&Parted, &Arc<Program>),
    connection: &mut Connection,
    params: &[ValueRef<'_>],
    sink: &mut dyn Sink,
    env: &Env<'_>,
    pages: usize,
    read: impl FnOnce(&mut Connection, Vec<Piece>, &Context<'_>, &mut Gatherer<'_>) -> SqlResult<()>,
) -> SqlResult<Outcome> {
    super::begin(frame, program, connection, params, env)?;
    let purse = frame.purse();
    let (done, spare) = World::charged(purse, connection, env, |connection, world| {
        // The loop is passed through without rows, so that registers and memory are as after it.
        let Some(end) = rows_of(frame, program, parted, connection, None, &mut Nowhere, world)? else {
            return Ok(());
        };
        let parts = parted.parts(frame, program, connection, pages)?;
        read(connection, parts, world.context, &mut Gatherer { frame: &mut *frame })?;
        exec::<PLAIN>(frame, program, connection, sink, world, end).map(|_| ())
    });
    frame.spare = spare;
    ended(frame, program, connection, done, env)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::op::TABLE;
    use crate::code::operand::CodeReader;

    /// C1: columns of whatever type may be among the rows of a part.
    #[test]
    fn every_column_is_plain() {
        let mut columns = 0;
        for (number, name, ..) in TABLE.iter().filter(|(_, name, ..)| name.starts_with("Col")) {
            let mut bytes = vec![0; 64];
            bytes[0] = *number;
            let op = Op::get(&mut CodeReader::new(&bytes)).expect("an instruction");
            assert!(is_plain(&op), "{name}");
            columns += 1;
        }
        assert!(columns > 10);
    }
}
