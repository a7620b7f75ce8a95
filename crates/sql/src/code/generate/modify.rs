//! Code for INSERT, UPDATE and DELETE.
//!
//! - **M1** A row is locked before it is changed. If another transaction had changed it (READ COMMITTED), the
//!   conditions and the assigned values are evaluated on its newest version; the other rels of a join keep
//!   their rows.
//! - **M2** A row is changed at most once in a statement: where the plan can come to it twice, `Touch` sees
//!   to it.
//! - **M3** A statement does not see what it changes itself; the engine sees to that, so rows are changed as
//!   they are found.
//! - **M4** What RETURNING shows of an INSERT ... ON CONFLICT DO UPDATE is in registers of its own, which
//!   both ways to it fill: its code is there once.
use super::super::op::Op;
use super::super::operand::*;
use super::{Gen, Source, internal};
use crate::bound::{COMPUTED, CTID, RowCheck, computed_first};
use crate::code::program::CursorDef;
use crate::plan::logical::{ConflictUpdate, Expr, NewColumn, OnConflict};
use crate::plan::physical::{Access, KeyValue, Operator, Root};
use ondol_engine::{Patch, Table};
use ondol_types::SqlResult;
use ondol_types::func::Volatility;
use std::sync::Arc;

impl<'a> Gen<'a> {
    pub fn insert(&mut self, root: &'a Root<'a>) -> SqlResult<()> {
        let Root::Insert { table, source, columns, checks, on_conflict, returning, rel, number } = root
        else {
            return Err(internal("no INSERT"));
        };
        self.write();
        self.tally_start(*number);
        let tab = Tab(self.table(&table.0));
        let width = columns.len();
        let in_place = source.output.len() == width
            && columns.iter().enumerate().all(|(n, c)| matches!(c, NewColumn::Source(s) if *s == n));
        self.produce(&source.node, &mut |g, next| {
            let first = if in_place {
                g.span(source.output.iter().copied())?.first
            } else {
                let first = g.registers(width);
                for (n, c) in columns.iter().enumerate() {
                    let e = match c {
                        NewColumn::Source(s) => source.output.get(*s).copied(),
                        NewColumn::Value(e) => Some(e),
                    };
                    let e = e.ok_or_else(|| internal("a column of no source"))?;
                    g.expr_into(e, first + n as u16)?;
                }
                first
            };
            let (computed, held) = computed_first(checks);
            if !checks.is_empty() {
                g.put(*rel, Source::Registers { first })?;
            }
            for (column, value) in computed {
                g.expr_into(value, first + (column & !COMPUTED))?;
            }
            if !held.is_empty() {
                g.checks(held, tab, *rel, width)?;
            }
            let values = Span::new(first, width);
            let mut row = first;
            let shows_tid = !returning.is_empty() && g.place(*rel)?.used.contains(&CTID);
            let tid = shows_tid.then(|| g.register());
            let note_tid = |g: &mut Gen<'a>| {
                if let Some(tid) = tid {
                    g.op(Op::NewTid { dst: Out(tid) })
                }
            };
            match on_conflict {
                None => {
                    g.op(Op::Insert { table: tab, values });
                    note_tid(g)
                }
                Some(OnConflict { arbiters, update: None }) => {
                    let (arbiters, met) = (g.list(arbiters.clone()), g.label());
                    let to = if g.measure { met } else { next };
                    g.op(Op::InsertNew { table: tab, values, arbiters, to });
                    if g.measure {
                        let done = g.label();
                        g.tally_start(number + 1);
                        g.jump(done);
                        g.here(met);
                        g.tally_row(number + 1);
                        g.jump(next);
                        g.here(done);
                    } else {
                        g.here(met);
                    }
                    note_tid(g)
                }
                Some(OnConflict { arbiters, update: Some(update) }) => {
                    let arbiters = g.list(arbiters.clone());
                    let (cursor, met, done) = (g.cursor(&table.0, None), g.label(), g.label());
                    g.op(Op::InsertOrLock { cursor, values, arbiters, to: met });
                    note_tid(g);
                    g.tally_start(number + 1);
                    let shown = !returning.is_empty();
                    if shown {
                        // M4
                        row = g.registers(width);
                        for n in 0..width as u16 {
                            g.op(Op::Move { dst: Out(row + n), a: Reg(first + n) });
                        }
                    }
                    g.jump(done);
                    g.here(met);
                    g.tally_row(number + 1);
                    if let Some(tid) = tid {
                        g.op(Op::RowTid { dst: Out(tid), cursor })
                    }
                    g.put(*rel, Source::Table { cursor: cursor.0 })?;
                    g.put(update.excluded, Source::Registers { first })?;
                    g.change_met(update, &table.0, cursor, shown.then_some(row), *rel, next)?;
                    g.here(done);
                }
            }
            g.op(Op::Affected {});
            g.tally_row(*number);
            if !returning.is_empty() {
                g.put(*rel, Source::Registers { first: row })?;
                g.place(*rel)?.tid = tid;
                g.returning(returning)?;
            }
            Ok(())
        })
    }

    /// Changes the row that was met in place of an insert. If it is shown, its columns go to the registers
    /// from `row` on.
    fn change_met(
        &mut self,
        update: &'a ConflictUpdate,
        table: &Arc<Table>,
        cursor: Cur,
        row: Option<u16>,
        rel: u16,
        next: Label,
    ) -> SqlResult<()> {
        let filter: Vec<&'a Expr> = update.filter.iter().collect();
        self.all_or(&filter, next)?;
        let (values, changed) = self.new_values(&update.assign, &update.checks, cursor, rel)?;
        let (_, held) = computed_first(&update.checks);
        if !held.is_empty() {
            let tab = Tab(self.table(table));
            self.put(rel, Source::Changed { cursor: cursor.0, columns: changed.clone() })?;
            self.checks(held, tab, rel, table.def.columns.len())?;
            self.put(rel, Source::Table { cursor: cursor.0 })?;
        }
        if let Some(row) = row {
            let used: Vec<u16> = self.place(rel)?.used.iter().copied().filter(|c| *c != CTID).collect();
            for c in used {
                match changed.iter().find(|(a, _)| *a == c) {
                    Some((_, r)) => self.op(Op::Move { dst: Out(row + c), a: Reg(*r) }),
                    None => self.column(rel, c, row + c)?,
                }
            }
        }
        let columns = self.list(changed.iter().map(|(c, _)| *c).collect());
        self.op(Op::Update { cursor, values, columns });
        Ok(())
    }

    /// The values that columns of a row get: what is assigned, and then what is computed of the row as it
    /// becomes. Gives the registers, together and with the columns.
    fn new_values(
        &mut self,
        assign: &'a [(u16, Expr)],
        checks: &'a [(u16, Expr)],
        cursor: Cur,
        rel: u16,
    ) -> SqlResult<(Span, Vec<(u16, u16)>)> {
        let (computed, _) = computed_first(checks);
        if computed.is_empty() {
            let values = self.span(assign.iter().map(|(_, e)| e))?;
            return Ok((values, placed(assign, values.first)));
        }
        let is_assigned = |c: &u16| assign.iter().any(|(a, _)| a == c);
        let more = computed.iter().map(|(c, _)| c & !COMPUTED).filter(|c| !is_assigned(c));
        let more: Vec<u16> = more.collect();
        let values = Span::new(self.registers(assign.len() + more.len()), assign.len() + more.len());
        let mut changed = placed(assign, values.first);
        for ((_, e), (_, r)) in assign.iter().zip(&changed) {
            self.expr_into(e, *r)?;
        }
        let assigned = changed.clone();
        changed.extend(more.iter().enumerate().map(|(n, c)| (*c, values.first + (assign.len() + n) as u16)));
        self.put(rel, Source::Changed { cursor: cursor.0, columns: assigned })?;
        for (c, e) in computed {
            let target = changed.iter().find(|(a, _)| *a == c & !COMPUTED);
            let (_, r) = target.ok_or_else(|| internal("a generated column without a place"))?;
            self.expr_into(e, *r)?;
        }
        self.put(rel, Source::Table { cursor: cursor.0 })?;
        Ok((values, changed))
    }

    /// Holds a new row, which `rel` is by now, to checks of its table. What is told of a row that one is
    /// false of stands apart from the way of those that pass.
    pub fn checks(&mut self, checks: &'a [(u16, Expr)], table: Tab, rel: u16, width: usize) -> SqlResult<()> {
        let passed = self.label();
        let mut failed = Vec::with_capacity(checks.len());
        for (number, condition) in checks {
            let to = self.label();
            let a = self.expr(condition)?;
            match *number {
                RowCheck::OF_VIEW => self.op(Op::IfNotNull { a: Reg(a), to }),
                _ => self.op(Op::IfFalse { a: Reg(a), to }),
            }
            failed.push((*number, condition, to));
        }
        self.jump(passed);
        let first = self.registers(width);
        let values = Span::new(first, width);
        for (number, condition, to) in failed {
            self.here(to);
            // The same name as before.
            let view = match number {
                RowCheck::OF_VIEW => Some(self.expr(condition)?),
                _ => None,
            };
            for n in 0..width as u16 {
                self.column(rel, n, first + n)?;
            }
            self.op(match view {
                Some(view) => Op::OutOfView { table, values, view: Reg(view) },
                None => Op::Violated { table, values, check: Col(number) },
            });
        }
        self.here(passed);
        Ok(())
    }

    fn returning(&mut self, list: &'a [Expr]) -> SqlResult<()> {
        let row = self.span(list.iter())?;
        self.op(Op::Emit { row });
        Ok(())
    }

    pub fn modify(&mut self, root: &'a Root<'a>) -> SqlResult<()> {
        let Root::Modify { table, rel, input, assign, checks, recheck, returning, number } = root else {
            return Err(internal("no change"));
        };
        self.write();
        self.tally_start(*number);
        let once_each = matches!(&input.operator, Operator::Scan { access, .. } if !has_list(access));
        self.produce(input, &mut |g, next| {
            let cursor = g.in_cursor(*rel, &table.0, next)?;
            let how = if assign.is_some() { How::NoKeyBlock } else { How::UpdateBlock };
            g.lock(recheck, cursor, how, next)?;
            // Only now: a pair of rows that fails the second look leaves the row to the next pair.
            if !once_each {
                g.op(Op::Touch { cursor, to: next });
            }
            let Some(assign) = assign else {
                if returning.is_empty() {
                    g.op(Op::Delete { cursor });
                } else if returning.iter().any(|e| e.calls(Volatility::Volatile)) {
                    // What it calls may change rows: the old one is gone by then.
                    let first = g.registers(table.0.def.columns.len());
                    let used: Vec<u16> = g.place(*rel)?.used.iter().copied().collect();
                    for c in used {
                        let dst = if c == CTID { g.register() } else { first + c };
                        g.column(*rel, c, dst)?;
                        if c == CTID {
                            g.place(*rel)?.tid = Some(dst)
                        }
                    }
                    g.op(Op::Delete { cursor });
                    g.put(*rel, Source::Registers { first })?;
                    g.returning(returning)?;
                    g.put(*rel, Source::Table { cursor: cursor.0 })?;
                } else {
                    // The old row, computed while it is still there.
                    let row = g.span(returning.iter())?;
                    g.op(Op::Delete { cursor });
                    g.op(Op::Emit { row });
                }
                g.op(Op::Affected {});
                g.tally_row(*number);
                return Ok(());
            };
            let (values, changed) = g.new_values(assign, checks, cursor, *rel)?;
            let columns = g.list(changed.iter().map(|(c, _)| *c).collect());
            let (_, held) = computed_first(checks);
            if !held.is_empty() {
                let tab = Tab(g.table(&table.0));
                g.put(*rel, Source::Changed { cursor: cursor.0, columns: changed.clone() })?;
                g.checks(held, tab, *rel, table.0.def.columns.len())?;
                g.put(*rel, Source::Table { cursor: cursor.0 })?;
            }
            g.op(Op::Update { cursor, values, columns });
            g.op(Op::Affected {});
            g.tally_row(*number);
            if !returning.is_empty() {
                g.put(*rel, Source::Changed { cursor: cursor.0, columns: changed })?;
                g.returning(returning)?;
                g.put(*rel, Source::Table { cursor: cursor.0 })?;
            }
            Ok(())
        })
    }
}

/// The columns that are assigned, with the registers of their values, from the first one on.
fn placed(assign: &[(u16, Expr)], first: u16) -> Vec<(u16, u16)> {
    assign.iter().enumerate().map(|(n, (c, _))| (*c, first + n as u16)).collect()
}

/// The code of an UPDATE that sets columns of a fixed width, on which no index's key depends, of the one row
/// under a key, to parameters and constants (the registers before `fixed`): then all of it is one
/// instruction, behind what moves the values into a row. `None` for any other.
pub(super) fn point_update(
    ops: &[Op],
    tables: &[Arc<Table>],
    cursors: &[CursorDef],
    lists: &[Vec<u16>],
    fixed: u16,
) -> Option<Vec<Op>> {
    // Where a row that is not to be changed is left for its twin.
    let (after, end) = (Label(ops.len().checked_sub(2)? as u32), Label(ops.len() as u32 - 1));
    let is_fixed = |r: u16| r < fixed;
    let is_move = |op: &Op| matches!(op, Op::Move { a, .. } if is_fixed(a.0));
    // What a register holds once these moves are made, as a fixed one.
    let given =
        |moves: &[Op], r: u16| match moves.iter().find(|op| matches!(op, Op::Move { dst, .. } if dst.0 == r))
        {
            Some(Op::Move { a, .. }) => Some(a.0),
            _ => Some(r).filter(|r| is_fixed(*r)),
        };
    let (key_moves, rest) = ops.split_at(ops.iter().position(|op| !is_move(op))?);
    let [Op::Point { cursor, values: key, to }, Op::Lock { changed, cursor: locked, how, gone }, rest @ ..] =
        rest
    else {
        return None;
    };
    let whole = locked == cursor && *how == How::NoKeyBlock && *to == end && *gone == after;
    if !whole || !key.range().all(|r| given(key_moves, r as u16).is_some()) {
        return None;
    }
    let def = cursors.get(cursor.0 as usize)?;
    let table = tables.get(def.table as usize)?;
    let index = table.indexes.get(def.index? as usize)?;
    // The second look: each of the key's columns once, and nothing else.
    let [Op::IfNot { a, to: same }, rest @ ..] = rest else { return None };
    let looks = (same.0 as usize).checked_sub(key_moves.len() + 3)?;
    if a.0 != changed.0 || looks != 2 * index.key.parts.len() || looks > rest.len() {
        return None;
    }
    let (looks, rest) = rest.split_at(looks);
    let mut looked = vec![];
    for pair in looks.chunks(2) {
        let [get, Op::UnlessInt { a, b, cond: Cond::Eq, to }] = pair else { return None };
        let (Op::ColInt2 { dst, at, .. }
        | Op::ColInt4 { dst, at, .. }
        | Op::ColInt8 { dst, at, .. }
        | Op::ColDate { dst, at, .. }
        | Op::ColTimestamp { dst, at, .. }
        | Op::ColTimestamptz { dst, at, .. }) = get
        else {
            return None;
        };
        let n = index.key.parts.iter().position(|part| {
            let offset = table.layout.columns.get(part.0).map(|c| def.row_at + u32::from(c.offset));
            offset == Some(at.0)
        })?;
        let same = given(key_moves, b.0) == given(key_moves, (key.range().start + n) as u16);
        if a.0 != dst.0 || !same || *to != after || looked.contains(&n) {
            return None;
        }
        looked.push(n)
    }
    let moves = rest.len().checked_sub(4)?;
    let (moves, rest) = rest.split_at(moves);
    let [Op::Update { cursor: updated, values, columns }, Op::Affected {}, Op::Twin { .. }, Op::Halt {}] =
        rest
    else {
        return None;
    };
    let all_given = values.range().all(|r| given(moves, r as u16).is_some());
    let plain = updated == cursor && moves.iter().all(is_move) && all_given;
    if !plain || Patch::new(table, lists.get(columns.0 as usize)?).is_none() {
        return None;
    }
    let mut short = [key_moves, moves].concat();
    short.push(Op::PointUpdate { cursor: *cursor, key: *key, values: *values, columns: *columns });
    short.push(Op::Halt {});
    Some(short)
}

/// A lookup by several values gives each row once, but through several keys of one row's versions it may come
/// twice.
fn has_list(a: &Access<'_>) -> bool {
    matches!(a, Access::Lookup { keys, .. } if keys.iter().any(KeyValue::is_many))
}
