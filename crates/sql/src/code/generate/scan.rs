//! Code for reading one rel: tables by every kind of access, and what is like a table.
use super::super::explain::{FOREIGN_SCAN, SEQ_SCAN};
use super::super::op::Op;
use super::super::operand::*;
use super::super::program::ForeignDef;
use super::{Gen, Source, Stored, internal};
use crate::bound::*;
use crate::foreign::ForeignTable;
use crate::plan::access::{column_condition, is_equality, is_member};
use crate::plan::classify::is_int;
use crate::plan::node::{Access, KeyValue};
use crate::plan::refs::RelSet;
use crate::plan::show;
use ondol_engine::Table;
use ondol_types::func::{FuncId, Volatility};
use ondol_types::{SqlResult, TypeId};
use std::sync::Arc;

/// The code for one row: `next` is where to go to drop it.
pub(super) type Consume<'c, 'a> = &'c mut dyn FnMut(&mut Gen<'a>, Label) -> SqlResult<()>;

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
    filter: &'l [&'a Expr],
    node: usize,
}

impl Lookup<'_, '_> {
    /// The type of key column `n`.
    fn key_type(&self, n: usize) -> TypeId {
        self.table.def.columns[self.columns[n]].ty.id
    }
}

impl<'a> Gen<'a> {
    /// Rows of one rel that fulfil the filter.
    pub fn scan(
        &mut self,
        rel: u16,
        access: &Access<'a>,
        filter: &[&'a Expr],
        parent: usize,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let query = self.query()?;
        let entry = &query.rels[rel as usize];
        let alias = &entry.alias;
        match &entry.rel {
            Rel::Table(t) => self.table_scan(rel, t, alias, access, filter, parent, consume),
            Rel::Query(q) => {
                let node = self.node(Some(parent), format!("Subquery Scan on {alias}"));
                self.filter_detail(node, filter);
                self.tally_start(node);
                // The inner query's code calls back with its scope innermost; the row is consumed in ours.
                self.query_rows(q, node, false, &mut |g, row, next, _stop| {
                    let super::query::RowOut::Registers(first) = row else {
                        return Err(internal("a subquery gave a raw row"));
                    };
                    let inner = g.scopes.pop().ok_or_else(|| internal("no scope"))?;
                    g.scope()?.sources[rel as usize] = Source::Registers { first };
                    g.all_or(filter, next)?;
                    g.tally_row(node);
                    consume(g, next)?;
                    g.scopes.push(inner);
                    Ok(())
                })
            }
            Rel::Values(rows) => {
                let width = entry.columns.len();
                let node = self.node(Some(parent), format!("Values Scan on {alias}"));
                self.filter_detail(node, filter);
                self.tally_start(node);
                if let [one] = &rows[..] {
                    let end = self.label();
                    let first = self.registers(width);
                    for (n, e) in one.iter().enumerate() {
                        self.expr_into(e, first + n as u16)?;
                    }
                    self.scope()?.sources[rel as usize] = Source::Registers { first };
                    self.all_or(filter, end)?;
                    self.tally_row(node);
                    consume(self, end)?;
                    self.here(end);
                    return Ok(());
                }
                let mat = self.values_list(rows, width)?;
                self.mat_rows(rel, mat, width, filter, node, consume)
            }
            Rel::Function { function, args } => {
                let node = self.node(Some(parent), format!("Function Scan on {} {alias}", function.name));
                self.filter_detail(node, filter);
                self.tally_start(node);
                let width = entry.columns.len();
                let mat = self.mat(width);
                let f = self.function(function)?;
                let args = self.span(args.iter())?;
                self.op(Op::FunctionRows { mat, function: f, args });
                self.mat_rows(rel, mat, width, filter, node, consume)
            }
            Rel::Foreign(table) => {
                let node = self.foreign_node(table, alias, parent);
                self.filter_detail(node, filter);
                self.tally_start(node);
                let width = entry.columns.len();
                let columns = self.scope()?.used.get(rel as usize).into_iter().flatten().copied().collect();
                let from = self.foreign_start(rel, table, columns, filter, node)?;
                let first = self.registers(width);
                let step = |to| Op::ForeignNext { from, row: State(Span::new(first, width)), to };
                self.rows(rel, step, Source::Registers { first }, filter, node, consume)
            }
            Rel::System(name) => {
                let node = self.node(Some(parent), format!("System View Scan on {name}"));
                self.filter_detail(node, filter);
                self.tally_start(node);
                let width = entry.columns.len();
                let mat = self.mat(width);
                let view = self.name(name);
                self.op(Op::SystemRows { mat, view });
                self.mat_rows(rel, mat, width, filter, node, consume)
            }
            Rel::Series { start, stop, step, by } => {
                let node = self.node(Some(parent), format!("Function Scan on generate_series {alias}"));
                self.filter_detail(node, filter);
                self.tally_start(node);
                let first = self.registers(5);
                self.expr_into(start, first)?;
                self.expr_into(stop, first + 1)?;
                self.expr_into(step, first + 2)?;
                let state = State(Span::new(first, 4));
                self.op(Op::SeriesStart { state });
                let source = Source::Registers { first: first + 3 };
                let Some(by) = by else {
                    return self.rows(rel, |to| Op::SeriesNext { state, to }, source, filter, node, consume);
                };
                self.expr_into(&by.step, first + 4)?;
                let (state, add) = (State(Span::new(first, 5)), by.add);
                self.rows(rel, |to| Op::SeriesAdd { state, add, to }, source, filter, node, consume)
            }
        }
    }

    pub fn foreign_node(&mut self, table: &Arc<dyn ForeignTable>, alias: &str, parent: usize) -> usize {
        self.node(Some(parent), format!("{FOREIGN_SCAN}{} {alias}", table.name()))
    }

    /// Begins to read a foreign table, between what the filter says of its key.
    pub fn foreign_start(
        &mut self,
        rel: u16,
        table: &'a Arc<dyn ForeignTable>,
        columns: Vec<u16>,
        filter: &[&'a Expr],
        node: usize,
    ) -> SqlResult<Outside> {
        let bounds = self.registers(2);
        let mut shown = Vec::new();
        for (n, lower) in [(0, true), (1, false)] {
            let found = filter.iter().find_map(|e| {
                let (column, cond, value, ..) = column_condition(e, rel, RelSet::EMPTY)?;
                let holds = match cond {
                    Cond::Eq => true,
                    Cond::Gt | Cond::Ge => lower,
                    Cond::Lt | Cond::Le => !lower,
                    Cond::Ne => false,
                };
                (holds && Some(column) == table.key() && !value.calls(Volatility::Volatile))
                    .then_some((e, value))
            });
            match found {
                Some((e, value)) => {
                    self.expr_into(value, bounds + n)?;
                    let text = show::expr(e, &self.names());
                    if !shown.contains(&text) {
                        shown.push(text);
                    }
                }
                None => self.op(Op::Null { dst: Out(bounds + n) }),
            }
        }
        if !shown.is_empty() {
            self.detail(node, format!("Range of the key: {}", shown.join(" AND ")));
        }
        let names: Vec<&str> = columns.iter().map(|c| table.columns()[*c as usize].0.as_str()).collect();
        let names = if names.is_empty() { "none".into() } else { names.join(", ") };
        self.detail(node, format!("Columns: {names}"));
        self.foreigns.push(ForeignDef { table: table.clone(), columns });
        let from = Outside(self.foreigns.len() as u16 - 1);
        self.op(Op::ForeignStart { from, bounds: Span::new(bounds, 2) });
        Ok(from)
    }

    pub fn query(&self) -> SqlResult<&'a Query> {
        self.scopes.last().and_then(|s| s.query).ok_or_else(|| internal("no query"))
    }

    pub fn filter_detail(&mut self, node: usize, filter: &[&Expr]) {
        if !filter.is_empty() {
            let text = show::conjunction(filter, &self.names());
            self.detail(node, format!("Filter: {text}"));
        }
    }

    /// The names that expressions of this level are shown with.
    pub fn names(&self) -> show::Names<'a> {
        show::Names { levels: self.scopes.iter().map(|s| s.query).collect() }
    }

    /// The rows of a list, as those of a rel.
    fn mat_rows(
        &mut self,
        rel: u16,
        mat: Mat,
        width: usize,
        filter: &[&'a Expr],
        node: usize,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let at = (0..width as u16).map(|c| (c, c)).collect();
        self.op(Op::MatRewind { mat });
        let source = Source::Stored { store: Stored::Mat(mat), at, row_id: None };
        self.rows(rel, |to| Op::MatNext { mat, to }, source, filter, node, consume)
    }

    /// A loop over rows that one instruction, `step`, gives one by one; it jumps to its label when there are no more.
    fn rows(
        &mut self,
        rel: u16,
        step: impl FnOnce(Label) -> Op,
        source: Source,
        filter: &[&'a Expr],
        node: usize,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let (next, end) = (self.label(), self.label());
        let mark = self.mark();
        self.here(next);
        let reset = self.reset(mark);
        self.op(step(end));
        self.scope()?.sources[rel as usize] = source;
        self.all_or(filter, next)?;
        self.tally_row(node);
        consume(self, next)?;
        self.jump(next);
        self.here(end);
        self.end_turns(mark, reset);
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn table_scan(
        &mut self,
        rel: u16,
        table: &'a Arc<Table>,
        alias: &str,
        access: &Access<'a>,
        filter: &[&'a Expr],
        parent: usize,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let name =
            if *alias == table.def.name { alias.to_string() } else { format!("{} {alias}", table.def.name) };
        let text = match access {
            Access::Full => format!("{SEQ_SCAN}{name}"),
            Access::Lookup { index, .. } => {
                format!(
                    "Index Scan using {} on {name} ({})",
                    table.def.indexes[*index].name,
                    kind(table, *index)
                )
            }
            Access::Range { index, backward, .. } => {
                let way = if *backward { " Backward" } else { "" };
                let i = &table.def.indexes[*index].name;
                format!("Index Scan{way} using {i} on {name} ({})", kind(table, *index))
            }
        };
        let node = self.node(Some(parent), text);
        self.index_detail(node, table, access);
        self.filter_detail(node, filter);
        self.tally_start(node);
        match access {
            Access::Full => {
                let cursor = self.cursor(table, None);
                let (next, end) = (self.label(), self.label());
                self.op(Op::ScanStart { cursor });
                let mark = self.mark();
                self.here(next);
                let reset = self.reset(mark);
                self.op(Op::ScanNext { cursor, to: end });
                self.found(rel, cursor, filter, next, node)?;
                consume(self, next)?;
                self.jump(next);
                self.here(end);
                self.end_turns(mark, reset);
                Ok(())
            }
            Access::Lookup { index, keys, unique } => {
                let cursor = self.cursor(table, Some(*index));
                let list = keys.iter().position(|k| matches!(k, KeyValue::List(_)));
                let columns: Vec<usize> =
                    table.def.indexes[*index].columns.iter().map(|c| c.column).collect();
                // A point lookup sees to it itself that the row has the key. Of a list each lookup must see to it that the row has
                // that lookup's own key: a row that went from one value of the list to another is a candidate of both.
                let point = table.indexes.get(*index).is_some_and(|i| i.point.is_some());
                let proven = |e: &Expr| {
                    keys.iter().zip(&columns).any(|(k, column)| match k {
                        KeyValue::One(v) => point && is_equality(e, rel, *column as u16, v),
                        KeyValue::List(l) => is_member(e, rel, *column as u16, l),
                    })
                };
                let rest: Vec<&'a Expr> = filter.iter().copied().filter(|e| !proven(e)).collect();
                let member = filter.iter().filter(|e| proven(e)).find_map(|e| match &e.kind {
                    ExprKind::InList { arg, eq, .. } => Some((*eq, &**arg)),
                    _ => None,
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
                    filter: &rest,
                    node,
                };
                let Some(at) = list else {
                    let end = self.label();
                    return self.lookup(&lookup, None, end, consume);
                };
                // Each value of the list once, NULLs left out.
                let KeyValue::List(values) = keys[at] else { return Err(internal("a list of keys")) };
                let hash = self.key_list(values, lookup.key_type(at))?;
                self.op(Op::HashRewind { hash });
                let (next, end) = (self.label(), self.label());
                let mark = self.mark();
                self.here(next);
                let reset = self.reset(mark);
                self.op(Op::HashNext { hash, to: end });
                let r = self.register();
                self.op(Op::HashCol { dst: Out(r), hash, column: Col(0) });
                self.lookup(&lookup, Some((at, r)), next, consume)?;
                self.jump(next);
                self.here(end);
                self.end_turns(mark, reset);
                Ok(())
            }
            Access::Range { index, prefix, low, high, backward } => {
                let cursor = self.cursor(table, Some(*index));
                let (next, end) = (self.label(), self.label());
                let def = &table.def.indexes[*index];
                let k = prefix.len();
                let bound = usize::from(low.is_some() || high.is_some());
                // One stretch of registers for the prefix and a bound, used for both ends.
                let first = self.registers(k + 2);
                for (n, e) in prefix.iter().enumerate() {
                    let r = self.key_value(e, table.def.columns[def.columns[n].column].ty.id, end)?;
                    self.op(Op::Move { dst: Out(first + n as u16), a: Reg(r) });
                    self.op(Op::IfNull { a: Reg(r), to: end });
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
                        let r = self.key_value(e, ty, end)?;
                        self.op(Op::IfNull { a: Reg(r), to: end });
                        self.op(Op::Move { dst: Out(first + k as u16), a: Reg(r) });
                        n += 1;
                        if !inclusive {
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
                self.op(Op::RangeStart { cursor, backward: Flag(*backward) });
                let mark = self.mark();
                self.here(next);
                let reset = self.reset(mark);
                self.op(Op::RangeNext { cursor, to: end });
                self.found(rel, cursor, filter, next, node)?;
                consume(self, next)?;
                self.jump(next);
                self.here(end);
                self.end_turns(mark, reset);
                Ok(())
            }
        }
    }

    /// A row lies in the cursor: its filter.
    fn found(
        &mut self,
        rel: u16,
        cursor: Cur,
        filter: &[&'a Expr],
        next: Label,
        node: usize,
    ) -> SqlResult<()> {
        self.scope()?.sources[rel as usize] = Source::Table { cursor: cursor.0 };
        self.all_or(filter, next)?;
        self.tally_row(node);
        Ok(())
    }

    /// One lookup by all columns of an index. `given`: the key column whose value is in a register already. `end` is
    /// set here unless there is such a column.
    fn lookup(
        &mut self,
        lookup: &Lookup<'_, 'a>,
        given: Option<(usize, u16)>,
        end: Label,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let &Lookup { rel, cursor, keys, unique, point, filter, node, .. } = lookup;
        let mut registers = Vec::new();
        for (n, k) in keys.iter().enumerate() {
            registers.push(match (k, given) {
                (_, Some((at, r))) if at == n => r,
                (KeyValue::One(e), _) => self.key_value(e, lookup.key_type(n), end)?,
                (KeyValue::List(_), _) => return Err(internal("two lists of keys")),
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
            self.found(rel, cursor, filter, after, node)?;
            consume(self, after)?;
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
        self.op(Op::RowPrefetch { cursor });
        let mark = self.mark();
        self.here(next);
        let reset = self.reset(mark);
        self.op(Op::RowNext { cursor, to: end });
        let row = self.label();
        self.here(row);
        if let (Some((_, key)), Some((eq, arg))) = (given, lookup.member) {
            self.scope()?.sources[rel as usize] = Source::Table { cursor: cursor.0 };
            self.in_passing([arg], |g| {
                let (value, same) = (g.expr(arg)?, g.register());
                g.compare(eq, value, key, same)?;
                g.op(Op::IfNot { a: Reg(same), to: next });
                Ok(())
            })?;
        }
        self.found(rel, cursor, filter, next, node)?;
        if unique {
            // After the one row of a unique key there is no other, as a rule.
            let after = self.label();
            consume(self, after)?;
            self.here(after);
            self.op(Op::Twin { cursor, to: row });
        } else {
            consume(self, next)?;
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
        let from = e.ty.id;
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
            return Ok(dst);
        }
        Ok(r)
    }

    fn index_detail(&mut self, node: usize, table: &Table, access: &Access<'_>) {
        let names = self.names();
        let mut parts = Vec::new();
        let column = |index: usize, n: usize| {
            let def = &table.def.indexes[index];
            table.def.columns[def.columns[n].column].name.clone()
        };
        match access {
            Access::Full => return,
            Access::Lookup { index, keys, .. } => {
                for (n, k) in keys.iter().enumerate() {
                    let c = column(*index, n);
                    parts.push(match k {
                        KeyValue::One(e) => format!("({c} = {})", show::expr(e, &names)),
                        KeyValue::List(l) => {
                            let l: Vec<String> = l.iter().map(|e| show::expr(e, &names)).collect();
                            format!("({c} IN ({}))", l.join(", "))
                        }
                    });
                }
            }
            Access::Range { index, prefix, low, high, .. } => {
                for (n, e) in prefix.iter().enumerate() {
                    parts.push(format!("({} = {})", column(*index, n), show::expr(e, &names)));
                }
                for (b, op) in [(low, ">"), (high, "<")] {
                    if let Some((e, inclusive)) = b {
                        let eq = if *inclusive { "=" } else { "" };
                        parts.push(format!(
                            "({} {op}{eq} {})",
                            column(*index, prefix.len()),
                            show::expr(e, &names)
                        ));
                    }
                }
            }
        }
        if !parts.is_empty() {
            self.detail(node, format!("Index Cond: {}", parts.join(" AND ")));
        }
    }
}

fn kind(table: &Table, index: usize) -> &'static str {
    match table.def.indexes[index].kind {
        ondol_engine::IndexKind::Hash => "hash",
        ondol_engine::IndexKind::Btree => "btree",
    }
}
