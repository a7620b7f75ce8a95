//! Code for reading one rel: tables by every kind of access, and what is like a table.
use super::super::op::Op;
use super::super::operand::*;
use super::super::program::ForeignDef;
use super::{Consume, Gen, Source, Stored, internal};
use crate::plan::access::{any_of_array, catalog_key, foreign_bounds};
use crate::plan::classify::is_int;
use crate::plan::logical::{self, Expr, ExprKind};
use crate::plan::physical::{Access, End, KeyRange, KeyValue, Node, Operator, Side, Within};
use ondol_engine::Table;
use ondol_types::edge::is_rounded;
use ondol_types::func::FuncId;
use ondol_types::{SqlResult, TypeId, Value};
use std::sync::Arc;

/// What is known of a lookup when the plan is made.
struct Lookup<'l, 'a> {
    rel: u16,
    table: &'a Arc<Table>,
    cursor: Cur,
    keys: &'l [KeyValue<'a>],
    /// The index's, by their numbers in the table.
    columns: &'l [usize],
    unique: bool,
    /// One instruction does it all, see `Op::Point`.
    point: bool,
    /// Of a lookup by a list: how the row's value compares with one of the list's, and what that value is.
    member: Option<(FuncId, &'a Expr)>,
    within: Option<&'l Within<'a>>,
    recheck: &'l [&'a Expr],
    node: &'a Node<'a>,
}

impl Lookup<'_, '_> {
    /// The type of key column `n`.
    fn key_type(&self, n: usize) -> TypeId {
        self.table.def.columns[self.columns[n]].ty.id
    }
}

impl<'a> Gen<'a> {
    /// Rows of one relation.
    pub fn scan(&mut self, node: &'a Node<'a>, consume: Consume<'_, 'a>) -> SqlResult<()> {
        let Operator::Scan { rel, source, .. } = &node.operator else { return Err(internal("no scan")) };
        let rel = *rel;
        self.tally_start(node.number);
        match source {
            logical::Source::Table(t) => self.table_scan(node, t, consume),
            logical::Source::Values(rows) => {
                if let [one] = &rows[..] {
                    let end = self.label();
                    let first = self.registers(one.len());
                    for (n, e) in one.iter().enumerate() {
                        self.expr_into(e, first + n as u16)?;
                    }
                    self.put(rel, Source::Registers { first })?;
                    self.passed(node, end, consume)?;
                    self.here(end);
                    return Ok(());
                }
                let width = rows.first().map_or(0, Vec::len);
                let mat = self.values_list(rows, width)?;
                self.mat_rows(rel, mat, width, node, consume)
            }
            logical::Source::With { number, streamed: true, .. } => {
                self.streamed_rows(rel, *number, node, consume)
            }
            logical::Source::With { number, .. } => self.with_rows(rel, *number, node, consume),
            logical::Source::Working { work, .. } => self.working_rows(rel, *work, node, consume),
            logical::Source::Function { function, args } => {
                let width = self.width(rel);
                let mat = self.mat(width);
                let f = self.function(function)?;
                let args = self.span(args.iter())?;
                self.op(Op::FunctionRows { mat, function: f, args });
                self.mat_rows(rel, mat, width, node, consume)
            }
            logical::Source::Foreign(table) => {
                let width = table.columns().len();
                let from = self.foreign_start(node)?;
                let first = self.registers(width);
                let step = |to| Op::ForeignNext { from, row: State(Span::new(first, width)), to };
                self.rows(rel, step, Source::Registers { first }, node, consume)
            }
            logical::Source::Sequence(id, _) => {
                let width = self.width(rel);
                let mat = self.mat(width);
                let view = self.name(&format!("{}{id}", crate::code::program::SEQUENCE_VIEW));
                self.op(Op::SystemRows { mat, view });
                self.mat_rows(rel, mat, width, node, consume)
            }
            logical::Source::System(name) => {
                let width = self.width(rel);
                let mat = self.mat(width);
                let view = self.name(name);
                match catalog_key(rel, name, &node.filter) {
                    Some((column, value)) => {
                        let key = self.registers(1);
                        self.expr_into(value, key)?;
                        self.op(Op::SystemRowsOf { mat, view, column: Col(column), key: Reg(key) });
                    }
                    None => self.op(Op::SystemRows { mat, view }),
                }
                self.mat_rows(rel, mat, width, node, consume)
            }
            logical::Source::Series { start, stop, step, by } => {
                let first = self.registers(5);
                self.expr_into(start, first)?;
                self.expr_into(stop, first + 1)?;
                self.expr_into(step, first + 2)?;
                let state = State(Span::new(first, 4));
                self.op(Op::SeriesStart { state });
                let source = Source::Registers { first: first + 3 };
                let Some((by, add)) = by else {
                    return self.rows(rel, |to| Op::SeriesNext { state, to }, source, node, consume);
                };
                self.expr_into(by, first + 4)?;
                let (state, add) = (State(Span::new(first, 5)), *add);
                self.rows(rel, |to| Op::SeriesAdd { state, add, to }, source, node, consume)
            }
        }
    }

    /// How many columns a relation has.
    pub fn width(&self, rel: u16) -> usize {
        self.relations.get(rel as usize).map_or(0, |r| r.columns.len())
    }

    /// Begins to read a foreign table, between what the filter says of its key.
    pub fn foreign_start(&mut self, node: &'a Node<'a>) -> SqlResult<Outside> {
        let Operator::Scan { rel, source: logical::Source::Foreign(table), .. } = &node.operator else {
            return Err(internal("no foreign table"));
        };
        let bounds = self.registers(2);
        for (n, bound) in foreign_bounds(*rel, &**table, &node.filter).into_iter().enumerate() {
            let dst = bounds + n as u16;
            match bound {
                Some((_, value)) => self.expr_into(value, dst)?,
                None => self.op(Op::Null { dst: Out(dst) }),
            }
        }
        let columns = self.place(*rel)?.used.iter().copied().collect();
        self.foreigns.push(ForeignDef { table: table.clone(), columns });
        let from = Outside(self.foreigns.len() as u16 - 1);
        self.op(Op::ForeignStart { from, bounds: Span::new(bounds, 2) });
        Ok(from)
    }

    /// The rows of a list, as those of a rel.
    fn mat_rows(
        &mut self,
        rel: u16,
        mat: Mat,
        width: usize,
        node: &'a Node<'a>,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let at = (0..width as u16).map(|c| (c, c)).collect();
        self.op(Op::MatRewind { mat });
        let source = Source::Stored { store: Stored::Mat(mat), at, row_id: None };
        self.rows(rel, |to| Op::MatNext { mat, to }, source, node, consume)
    }

    /// A loop over rows that one instruction, `step`, gives one by one; it jumps to its label when there are
    /// no more.
    fn rows(
        &mut self,
        rel: u16,
        step: impl FnOnce(Label) -> Op,
        source: Source,
        node: &'a Node<'a>,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let end = self.label();
        self.turns(step(end), end, |g, next| {
            g.put(rel, source)?;
            g.passed(node, next, consume)
        })
    }

    /// A loop that begins each turn with `step`, which jumps to `end`, set here, when there is nothing more;
    /// `turn` may go to the next by its label.
    fn turns(
        &mut self,
        step: Op,
        end: Label,
        turn: impl FnOnce(&mut Gen<'a>, Label) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let next = self.label();
        let mark = self.mark();
        self.here(next);
        let reset = self.reset(mark);
        self.op(step);
        turn(self, next)?;
        self.jump(next);
        self.here(end);
        self.end_turns(mark, reset);
        Ok(())
    }

    fn table_scan(
        &mut self,
        node: &'a Node<'a>,
        table: &'a Arc<Table>,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let Operator::Scan { rel, access, recheck, .. } = &node.operator else {
            return Err(internal("no scan"));
        };
        let rel = *rel;
        match access {
            Access::Full => {
                let cursor = self.cursor(table, None);
                let end = self.label();
                self.op(Op::ScanStart { cursor });
                self.cursor_rows(cursor, Op::ScanNext { cursor, to: end }, end, node, consume)
            }
            Access::Tid { tids: KeyValue::One(e), .. } => {
                let cursor = self.cursor(table, None);
                let end = self.label();
                let a = Reg(self.expr(e)?);
                self.op(Op::TidRow { cursor, a, to: end });
                self.found(rel, cursor, recheck, end, node, consume)?;
                self.here(end);
                Ok(())
            }
            Access::Tid { tids, .. } => {
                let cursor = self.cursor(table, None);
                self.each_key(tids, TypeId::TID, |g, r, next| {
                    g.op(Op::TidRow { cursor, a: Reg(r), to: next });
                    g.found(rel, cursor, recheck, next, node, consume)
                })
            }
            Access::Lookup { index, keys, unique, member, within } => {
                let cursor = self.cursor(table, Some(*index));
                let list = keys.iter().position(KeyValue::is_many);
                let columns: Vec<usize> =
                    table.def.indexes[*index].columns.iter().map(|c| c.column).collect();
                let point = table.indexes.get(*index).is_some_and(|i| i.point.is_some());
                let member = member.and_then(|e| match &e.kind {
                    ExprKind::InList { arg, eq, .. } => Some((*eq, &**arg)),
                    _ => any_of_array(e).map(|(eq, arg, ..)| (eq, arg)),
                });
                if member.is_none() && list.is_some() {
                    return Err(internal("a lookup by a list that is no condition"));
                }
                let lookup = Lookup {
                    rel,
                    table,
                    cursor,
                    keys,
                    columns: &columns,
                    unique: *unique,
                    point,
                    member,
                    within: within.as_ref(),
                    recheck,
                    node,
                };
                let Some(at) = list else {
                    let end = self.label();
                    return self.lookup(&lookup, None, end, consume);
                };
                self.each_key(&keys[at], lookup.key_type(at), |g, r, next| {
                    g.lookup(&lookup, Some((at, r)), next, consume)
                })
            }
            Access::Box { index, boxes } => {
                let cursor = self.cursor(table, Some(*index));
                self.op(Op::BoxesNew { cursor });
                for sides in boxes {
                    let first = self.registers(2 * sides.len());
                    let probe = Op::BoxProbe { cursor, values: Span::new(first, 2 * sides.len()) };
                    let list = sides.iter().enumerate().find_map(|(n, side)| Some((n, side.list.as_ref()?)));
                    match list {
                        None => {
                            let none = self.label();
                            self.sides(table, *index, sides, first, None, none)?;
                            self.op(probe);
                            self.here(none)
                        }
                        Some((n, values)) => {
                            let ty = table.def.columns[table.def.indexes[*index].columns[n].column].ty.id;
                            self.each_key(values, ty, |g, value, next| {
                                g.sides(table, *index, sides, first, Some(value), next)?;
                                g.op(probe);
                                Ok(())
                            })?
                        }
                    }
                }
                self.op(Op::BoxesEnd { cursor });
                self.tally_nodes(node.number, cursor);
                let end = self.label();
                self.cursor_rows(cursor, Op::RowNext { cursor, to: end }, end, node, consume)
            }
            Access::Nearest { index, sides, to, .. } => {
                let cursor = self.cursor(table, Some(*index));
                let end = self.label();
                let first = self.registers(3 * sides.len());
                self.sides(table, *index, sides, first, None, end)?;
                let mut counted = 0;
                for (n, e) in to.iter().enumerate() {
                    let dst = first + (2 * sides.len() + n) as u16;
                    match e {
                        Some(e) => {
                            counted |= 1 << n;
                            self.expr_into(e, dst)?
                        }
                        None => self.op(Op::Null { dst: Out(dst) }),
                    }
                }
                let values = Span::new(first, 3 * sides.len());
                self.op(Op::NearStart { cursor, values, counted: Count(counted) });
                self.cursor_rows(cursor, Op::NearNext { cursor, to: end }, end, node, consume)
            }
            Access::Range { index, ranges, backward } => {
                let cursor = self.cursor(table, Some(*index));
                let end = self.label();
                let backward = Flag(*backward);
                match &ranges[..] {
                    [one] => {
                        self.range(table, *index, cursor, one, end)?;
                        self.op(Op::RangeStart { cursor, backward });
                    }
                    many => {
                        self.op(Op::RangesNew { cursor });
                        for one in many {
                            let none = self.label();
                            self.range(table, *index, cursor, one, none)?;
                            self.op(Op::RangeKeep { cursor });
                            self.here(none);
                        }
                        self.op(Op::RangesStart { cursor, backward });
                    }
                }
                self.cursor_rows(cursor, Op::RangeNext { cursor, to: end }, end, node, consume)
            }
        }
    }

    /// A loop over the rows that one instruction, `step`, reads into a cursor; it jumps to `end`, which is
    /// set here, when there are no more.
    fn cursor_rows(
        &mut self,
        cursor: Cur,
        step: Op,
        end: Label,
        node: &'a Node<'a>,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let Operator::Scan { rel, recheck, .. } = &node.operator else { return Err(internal("no scan")) };
        self.turns(step, end, |g, next| {
            if let Op::NearNext { .. } = step {
                g.tally_nodes(node.number, cursor)
            }
            g.found(*rel, cursor, recheck, next, node, consume)
        })
    }

    /// The sides of a box for the cursor, in registers: the least values by column, then the greatest, NULL
    /// where it is open; jumps to `none` where nothing lies between them. `listed`: the value of a list.
    fn sides(
        &mut self,
        table: &'a Arc<Table>,
        index: usize,
        sides: &[Side<'a>],
        first: u16,
        listed: Option<u16>,
        none: Label,
    ) -> SqlResult<()> {
        let columns = &table.def.indexes[index].columns;
        for (n, (side, column)) in sides.iter().zip(columns).enumerate() {
            let ty = table.def.columns[column.column].ty.id;
            for (is_low, given) in [(true, side.low), (false, side.high)] {
                let dst = Out(first + (n + if is_low { 0 } else { sides.len() }) as u16);
                if let (Some(_), Some(value)) = (&side.list, listed) {
                    self.op(Op::Move { dst, a: Reg(value) });
                    continue;
                }
                let Some((e, _)) = given else {
                    self.op(Op::Null { dst });
                    continue;
                };
                let r = match is_rounded(e.ty.id, ty) {
                    true => {
                        let (a, r) = (Reg(self.expr(e)?), self.register());
                        self.op(Op::RangeEnd { dst: Out(r), a, ty, lower: Flag(is_low) });
                        r
                    }
                    false => self.key_value(e, ty, none)?,
                };
                self.op(Op::IfNull { a: Reg(r), to: none });
                self.op(Op::Move { dst, a: Reg(r) });
            }
        }
        Ok(())
    }

    /// The ends of a range for the cursor; jumps to `none` where no key lies between them.
    fn range(
        &mut self,
        table: &'a Arc<Table>,
        index: usize,
        cursor: Cur,
        KeyRange { prefix, low, high }: &KeyRange<'a>,
        none: Label,
    ) -> SqlResult<()> {
        let def = &table.def.indexes[index];
        let k = prefix.len();
        let bound = usize::from(low.is_some() || high.is_some());
        // One stretch of registers for the prefix and a bound, used for both ends.
        let first = self.registers(k + 2);
        for (n, e) in prefix.iter().enumerate() {
            let r = self.key_value(e, table.def.columns[def.columns[n].column].ty.id, none)?;
            self.op(Op::Move { dst: Out(first + n as u16), a: Reg(r) });
            self.op(Op::IfNull { a: Reg(r), to: none });
        }
        // In an index that falls, the upper bound comes first.
        let falling = bound == 1 && def.columns[k].desc;
        let (lower, upper) = if falling { (high, low) } else { (low, high) };
        let ty = def.columns.get(k).map_or(TypeId::VOID, |c| table.def.columns[c.column].ty.id);
        for (is_low, b) in [(true, lower), (false, upper)] {
            let mut n = k;
            // Without a bound, everything under the prefix.
            let mut edge = if is_low { Edge::Before } else { Edge::After };
            if let Some((e, inclusive)) = b {
                let (r, rounded) = match e {
                    End::Value(e) if is_rounded(e.ty.id, ty) => {
                        let (a, dst) = (Reg(self.expr(e)?), self.register());
                        let lower = Flag(is_low != falling);
                        self.op(Op::RangeEnd { dst: Out(dst), a, ty, lower });
                        (dst, true)
                    }
                    End::Value(e) => (self.key_value(e, ty, none)?, false),
                    End::Text(text) => (self.constant(&Value::Text(text.clone())), false),
                };
                self.op(Op::IfNull { a: Reg(r), to: none });
                self.op(Op::Move { dst: Out(first + k as u16), a: Reg(r) });
                n += 1;
                // A rounded end may be a value of the range.
                if !inclusive && !rounded {
                    edge = if is_low { Edge::After } else { Edge::Before };
                }
            }
            let values = Span::new(first, n);
            self.op(if is_low {
                Op::RangeLow { cursor, values, edge }
            } else {
                Op::RangeHigh { cursor, values, edge }
            });
        }
        Ok(())
    }

    /// Each of several keys once, as the column's type has it, in a register for `body`, which jumps
    /// to the label for the next; NULLs are left out.
    fn each_key(
        &mut self,
        keys: &KeyValue<'a>,
        column: TypeId,
        body: impl FnOnce(&mut Gen<'a>, u16, Label) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let hash = match keys {
            KeyValue::One(e) => self.key_list(std::slice::from_ref(*e), column)?,
            KeyValue::List(list) => self.key_list(list, column)?,
            KeyValue::Items(array) => self.key_items(array, column)?,
        };
        self.op(Op::HashRewind { hash });
        let end = self.label();
        self.turns(Op::HashNext { hash, to: end }, end, |g, next| {
            let key = g.register();
            g.op(Op::HashCol { dst: Out(key), hash, column: Col(0) });
            body(g, key, next)
        })
    }

    /// A row lies in the cursor: what it must fulfil, then the consumer.
    fn found(
        &mut self,
        rel: u16,
        cursor: Cur,
        recheck: &[&'a Expr],
        next: Label,
        node: &'a Node<'a>,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        self.put(rel, Source::Table { cursor: cursor.0 })?;
        let is_by_box = node.is_by_box();
        if is_by_box {
            self.tally_met(node.number, false)
        }
        if !(is_by_box && ondol_base::sim::mutated("box_recheck_left_out")) {
            self.all_or(recheck, next)?;
        }
        if is_by_box {
            self.tally_met(node.number, true)
        }
        self.passed(node, next, consume)
    }

    /// One lookup by all columns of an index. `given`: the key column whose value is in a register already.
    /// `end` is set here unless there is such a column.
    fn lookup(
        &mut self,
        lookup: &Lookup<'_, 'a>,
        given: Option<(usize, u16)>,
        end: Label,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let &Lookup { rel, cursor, keys, unique, point, recheck, node, .. } = lookup;
        let mut registers = Vec::new();
        for (n, k) in keys.iter().enumerate() {
            registers.push(match (k, given) {
                (_, Some((at, r))) if at == n => r,
                (KeyValue::One(e), _) => self.key_value(e, lookup.key_type(n), end)?,
                _ => return Err(internal("two lists of keys")),
            });
        }
        let side_by_side = registers.windows(2).all(|w| w[0] & CONST == 0 && w[1] == w[0] + 1);
        // Parameters and working registers stand in different places in the end.
        let one_kind = registers.iter().all(|r| (*r as usize) < self.params.len())
            || registers.iter().all(|r| (*r as usize) >= self.params.len());
        let values = if side_by_side && one_kind {
            Span::new(registers[0], registers.len())
        } else {
            let first = self.registers(registers.len());
            for (n, r) in registers.iter().enumerate() {
                self.op(Op::Move { dst: Out(first + n as u16), a: Reg(*r) });
            }
            Span::new(first, registers.len())
        };
        if point {
            let (row, after) = (self.label(), self.label());
            self.op(Op::Point { cursor, values, to: end });
            self.here(row);
            self.found(rel, cursor, recheck, after, node, consume)?;
            self.here(after);
            self.op(Op::Twin { cursor, to: row });
            if given.is_none() {
                self.here(end);
            }
            return Ok(());
        }
        let next = self.label();
        self.op(Op::KeyPut { cursor, values, to: end });
        self.op(Op::KeyPrefetch { cursor });
        self.op(Op::KeyProbe { cursor });
        if let Some(Within { index, sides }) = lookup.within {
            let other = self.cursor(lookup.table, Some(*index));
            let first = self.registers(2 * sides.len());
            self.sides(lookup.table, *index, sides, first, None, end)?;
            let values = Span::new(first, 2 * sides.len());
            self.op(Op::Within { cursor, other, values });
            self.tally_nodes(node.number, other);
        }
        self.op(Op::RowPrefetch { cursor });
        let mark = self.mark();
        self.here(next);
        let reset = self.reset(mark);
        self.op(Op::RowNext { cursor, to: end });
        let row = self.label();
        self.here(row);
        if let (Some((_, key)), Some((eq, arg))) = (given, lookup.member) {
            self.put(rel, Source::Table { cursor: cursor.0 })?;
            self.in_passing([arg], |g| {
                let (value, same) = (g.expr(arg)?, g.register());
                g.compare(eq, value, key, same)?;
                g.op(Op::IfNot { a: Reg(same), to: next });
                Ok(())
            })?;
        }
        if unique {
            // After the one row of a unique key there is no other, as a rule.
            let after = self.label();
            self.found(rel, cursor, recheck, next, node, &mut |g, _next| consume(g, after))?;
            self.here(after);
            self.op(Op::Twin { cursor, to: row });
        } else {
            self.found(rel, cursor, recheck, next, node, consume)?;
            self.jump(next);
        }
        if given.is_none() {
            self.here(end);
        }
        self.end_turns(mark, reset);
        Ok(())
    }

    /// A value as a key of a column of that type; goes to `none` when no value of the column equals it.
    pub fn key_value(&mut self, e: &'a Expr, column: TypeId, none: Label) -> SqlResult<u16> {
        let r = self.expr(e)?;
        Ok(self.key_of(r, e.ty.id, column, none))
    }

    /// The same of a value in a register.
    pub fn key_of(&mut self, r: u16, from: TypeId, column: TypeId, none: Label) -> u16 {
        if from != column && is_int(from) && is_int(column) {
            let dst = self.register();
            let ty = match column {
                TypeId::INT2 => IntTy::Int2,
                TypeId::INT4 => IntTy::Int4,
                _ => IntTy::Int8,
            };
            self.op(if from.number() > column.number() {
                Op::Narrow { dst: Out(dst), a: Reg(r), ty, to: none }
            } else {
                Op::Retag { dst: Out(dst), a: Reg(r), ty: column }
            });
            return dst;
        }
        r
    }
}
