//! Code for queries: grouping, DISTINCT, ORDER BY, LIMIT, set operations, row locks.
//!
//! ```text
//! FROM, WHERE -> [groups] -> HAVING -> targets -> [DISTINCT] -> [sort] -> OFFSET, LIMIT -> consumer
//! ```
//! - **Q1** A query with LIMIT 0 or whose last row was taken goes to its end at once, out of whatever loops.
//! - **Q2** Rows that FOR UPDATE names are locked when they are about to go out (see `lock`).
//! - **Q3** LIMIT counts the rows that the query gives, whether the consumer takes or drops them.
use super::super::op::Op;
use super::super::operand::*;
use super::super::program::{GroupDef, SortKey};
use super::lock::{Carried, lock_rels};
use super::{Gen, Scope, Source, internal};
use crate::bound::*;
use crate::foreign::ForeignTable;
use crate::plan::join::{Context, Planned, Wanted, plan};
use crate::plan::node::Node;
use crate::plan::refs::{RelSet, correlated, used_columns};
use crate::plan::show;
use ondol_types::ty::Class;
use ondol_types::{SqlResult, TypeId};
use std::sync::Arc;

/// How a query hands its row over.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowOut {
    /// The visible targets, from this register on.
    Registers(u16),
    /// A whole row of a table, in its cursor.
    Raw(Cur),
}

/// `next`: drop the row; `stop`: no more rows are wanted.
pub(super) type ConsumeRow<'c, 'a> = &'c mut dyn FnMut(&mut Gen<'a>, RowOut, Label, Label) -> SqlResult<()>;

impl<'a> Gen<'a> {
    pub fn push_scope(&mut self, query: Option<&'a Query>, rels: usize) {
        self.scopes.push(Scope {
            query,
            sources: vec![Source::None; rels],
            nulls: vec![None; rels],
            used: vec![Default::default(); rels],
            keep_row: RelSet::EMPTY,
            groups: None,
            correlated: false,
        })
    }

    /// A statement that is a query: its rows go out.
    pub fn statement_query(&mut self, q: &'a Query, root: usize) -> SqlResult<()> {
        let width = q.visible().count();
        self.query_rows(q, root, true, &mut |g, row, _next, _stop| {
            match row {
                RowOut::Registers(first) => g.op(Op::Emit { row: Span::new(first, width) }),
                RowOut::Raw(cursor) => g.op(Op::EmitRow { cursor }),
            }
            Ok(())
        })
    }

    pub(super) fn query_rows(
        &mut self,
        q: &'a Query,
        parent: usize,
        raw: bool,
        consume: ConsumeRow<'_, 'a>,
    ) -> SqlResult<()> {
        self.push_scope(Some(q), q.rels.len().max(1));
        let is_correlated = correlated(q);
        let used = used_columns(q, std::iter::empty());
        let scope = self.scope()?;
        scope.correlated = is_correlated;
        for (slot, set) in scope.used.iter_mut().zip(used) {
            *slot = set
        }
        let end = self.label();
        let mut node = parent;
        if q.limit.is_some() || q.offset.is_some() {
            node = self.node(Some(node), "Limit");
        }
        let limits = self.limits(q, node, end)?;
        let outcome = match &q.set {
            Some(set) => self.set_query(q, set, node, limits, end, consume),
            None => self.plain_query(q, node, limits, raw, end, consume),
        };
        outcome?;
        self.here(end);
        self.scopes.pop();
        Ok(())
    }

    /// (rows left to give, rows left to skip)
    fn limits(&mut self, q: &'a Query, node: usize, end: Label) -> SqlResult<(Option<u16>, Option<u16>)> {
        let mut out = (None, None);
        if let Some(e) = &q.limit {
            let (a, r) = (self.expr(e)?, self.register());
            self.op(Op::LimitOf { dst: Out(r), a: Reg(a), offset: Flag(false) });
            self.op(Op::IfZero { a: Reg(r), to: end });
            let text = show::expr(e, &self.names());
            self.detail(node, format!("Limit: {text}"));
            out.0 = Some(r);
        }
        if let Some(e) = &q.offset {
            let (a, r) = (self.expr(e)?, self.register());
            self.op(Op::LimitOf { dst: Out(r), a: Reg(a), offset: Flag(true) });
            let text = show::expr(e, &self.names());
            self.detail(node, format!("Offset: {text}"));
            out.1 = Some(r);
        }
        Ok(out)
    }

    fn skip(&mut self, offset: Option<u16>, next: Label) {
        if let Some(r) = offset {
            self.op(Op::Skip { left: State(Span::new(r, 1)), to: next });
        }
    }

    /// Q3: hands a row to the consumer and counts it. A consumer that drops the row comes to the counting, too.
    fn give(
        &mut self,
        row: RowOut,
        limit: Option<u16>,
        next: Label,
        end: Label,
        consume: ConsumeRow<'_, 'a>,
    ) -> SqlResult<()> {
        let Some(left) = limit else { return consume(self, row, next, end) };
        let given = self.label();
        consume(self, row, given, end)?;
        self.here(given);
        self.op(Op::CountDown { left: State(Span::new(left, 1)), to: end });
        Ok(())
    }

    /// The order wanted, if it is one of a single rel's columns.
    fn wanted_order(&self, q: &'a Query) -> Option<Wanted> {
        if q.grouped || q.distinct || q.order_by.is_empty() {
            return None;
        }
        let mut rel = None;
        let mut columns = Vec::new();
        for k in &q.order_by {
            let ExprKind::Column { depth: 0, rel: r, column } = q.targets[k.target].expr.unrelabelled().kind
            else {
                return None;
            };
            if *rel.get_or_insert(r) != r {
                return None;
            }
            columns.push((column, k.desc, k.nulls_first));
        }
        rel.map(|r| (r, columns))
    }

    fn plain_query(
        &mut self,
        q: &'a Query,
        mut node: usize,
        (limit, offset): (Option<u16>, Option<u16>),
        raw: bool,
        end: Label,
        consume: ConsumeRow<'_, 'a>,
    ) -> SqlResult<()> {
        if !q.locks.is_empty() {
            self.write();
            node = self.node(Some(node), "LockRows");
        }
        let order = self.wanted_order(q);
        let limited = q.limit.is_some();
        let Planned { node: tree, ordered, .. } = plan(&Context::new(q, order, limited));
        let sorting = !q.order_by.is_empty() && !ordered;
        // Visible targets first, so that they stand side by side; then those for sorting alone.
        let mut places: Vec<usize> = (0..q.targets.len()).filter(|n| !q.targets[*n].hidden).collect();
        let visible = places.len();
        if sorting {
            places.extend((0..q.targets.len()).filter(|n| q.targets[*n].hidden));
        }
        let place_of = |target: usize| places.iter().position(|p| *p == target).unwrap_or(0) as u16;
        let locked = !q.locks.is_empty();

        // Everything that identifies the rows a locked, sorted result was made of.
        let mut sorter = None;
        let mut carried: Vec<(u16, Carried)> = Vec::new();
        if sorting {
            node = self.node(Some(node), "Sort");
            let keys: Vec<SortKey> = q
                .order_by
                .iter()
                .map(|k| SortKey { column: place_of(k.target), desc: k.desc, nulls_first: k.nulls_first })
                .collect();
            let names = self.names();
            let text: Vec<String> = q
                .order_by
                .iter()
                .map(|k| {
                    let e = show::expr(&q.targets[k.target].expr, &names);
                    format!("{e}{}", if k.desc { " DESC" } else { "" })
                })
                .collect();
            self.detail(node, format!("Sort Key: {}", text.join(", ")));
            if locked {
                carried = self.carried(q)?;
                self.scope()?.keep_row = carried
                    .iter()
                    .filter(|(_, c)| *c == Carried::Row)
                    .fold(RelSet::EMPTY, |s, (r, _)| s.with(RelSet::one(*r)));
            }
            let s = self.sort(places.len() + carried.len(), keys);
            self.op(Op::SortClear { sort: s });
            if let Some(l) = limit {
                // Rows that a lock finds changed or gone make room for later ones.
                if !locked {
                    let r = self.register();
                    let o = match offset {
                        Some(o) => o,
                        None => self.constant(&ondol_types::Value::Int8(0)),
                    };
                    self.op(Op::LimitSum { dst: Out(r), a: Reg(l), b: Reg(o) });
                    self.op(Op::SortLimit { sort: s, a: Reg(r) });
                }
            }
            sorter = Some(s);
        } else if locked {
            self.scope()?.keep_row = lock_rels(q);
        }
        let mut distinct = None;
        if q.distinct {
            node = self.node(Some(node), "HashAggregate");
            self.detail(node, "Distinct: all columns".to_string());
            let h = self.hash(visible, visible);
            self.op(Op::HashClear { hash: h });
            distinct = Some(h);
        }

        let sort_node = node;
        // What happens to a row once its targets can be computed.
        let mut row = |g: &mut Gen<'a>, next: Label| -> SqlResult<()> {
            if sorter.is_none() && distinct.is_none() {
                if locked {
                    g.lock_rows(q, next)?;
                }
                g.skip(offset, next);
                let out = match g.whole_row(q).filter(|_| raw && places.len() == visible) {
                    Some(cursor) => RowOut::Raw(cursor),
                    None => RowOut::Registers(g.targets(q, &places)?),
                };
                return g.give(out, limit, next, end, consume);
            }
            let first = g.registers(places.len() + carried.len());
            for (n, t) in places.iter().enumerate() {
                g.expr_into(&q.targets[*t].expr, first + n as u16)?;
            }
            if let Some(hash) = distinct {
                g.op(Op::HashPutNew { hash, row: Span::new(first, visible), to: next });
            }
            match sorter {
                Some(sort) => {
                    for (n, (rel, what)) in carried.iter().enumerate() {
                        let dst = first + (places.len() + n) as u16;
                        match what {
                            Carried::Row => g.row_id(*rel, dst)?,
                            Carried::Column(c) => g.column(0, *rel, *c, dst)?,
                        }
                    }
                    g.tally_row(sort_node);
                    g.op(Op::SortPut { sort, row: Span::new(first, places.len() + carried.len()) });
                }
                None => {
                    g.skip(offset, next);
                    g.give(RowOut::Registers(first), limit, next, end, consume)?;
                }
            }
            Ok(())
        };
        if q.grouped {
            self.grouped_rows(q, &tree, node, &mut row)?;
        } else {
            self.produce(&tree, node, &mut row)?;
        }
        if let Some(sort) = sorter {
            let (again, over) = (self.label(), self.label());
            self.op(Op::SortRun { sort });
            self.tally_start(node);
            let mark = self.mark();
            self.here(again);
            let reset = self.reset(mark);
            self.op(Op::SortNext { sort, to: over });
            let first;
            if locked {
                self.reread(q, sort, places.len() as u16, &carried, again)?;
                self.lock_rows(q, again)?;
                self.skip(offset, again);
                first = self.targets(q, &places[..visible])?;
            } else {
                self.skip(offset, again);
                first = self.registers(visible);
                for n in 0..visible as u16 {
                    self.op(Op::SortCol { dst: Out(first + n), sort, column: Col(n) });
                }
            }
            self.give(RowOut::Registers(first), limit, again, end, consume)?;
            self.jump(again);
            self.here(over);
            self.end_turns(mark, reset);
        }
        Ok(())
    }

    /// The targets, side by side.
    fn targets(&mut self, q: &'a Query, places: &[usize]) -> SqlResult<u16> {
        let list: Vec<&'a Expr> = places.iter().map(|n| &q.targets[*n].expr).collect();
        Ok(self.span(list.into_iter())?.first)
    }

    /// The cursor whose whole row the visible targets are.
    fn whole_row(&self, q: &Query) -> Option<Cur> {
        let scope = self.scopes.last()?;
        let mut rel = None;
        for (n, t) in q.visible().enumerate() {
            match t.expr.kind {
                ExprKind::Column { depth: 0, rel: r, column }
                    if column as usize == n && *rel.get_or_insert(r) == r => {}
                _ => return None,
            }
        }
        let rel = rel? as usize;
        if q.grouped || scope.nulls[rel].is_some() {
            return None;
        }
        match (&q.rels[rel].rel, &scope.sources[rel]) {
            (Rel::Table(t), Source::Table { cursor }) if t.def.columns.len() == q.visible().count() => {
                Some(Cur(*cursor))
            }
            _ => None,
        }
    }

    fn grouped_rows(
        &mut self,
        q: &'a Query,
        tree: &Node<'a>,
        parent: usize,
        row: super::scan::Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let name = if q.group_by.is_empty() { "Aggregate" } else { "HashAggregate" };
        let n = self.node(Some(parent), name);
        let names = self.names();
        if !q.group_by.is_empty() {
            let text: Vec<String> = q.group_by.iter().map(|e| show::expr(e, &names)).collect();
            self.detail(n, format!("Group Key: {}", text.join(", ")));
        }
        if let Some(h) = &q.having {
            self.detail(n, format!("Filter: {}", show::expr(h, &names)));
        }
        self.tally_start(n);
        if let Some((rel, table)) = counted(q, tree) {
            return self.counted_rows(q, rel, table, n, row);
        }
        let keys = q.group_by.len();
        let aggs = q.aggregates.iter().map(|a| (a.agg, a.args.len() as u16)).collect();
        let group = self.group(GroupDef { keys: keys as u16, aggs });
        self.op(Op::GroupClear { group });
        // Without GROUP BY there is one group, of no rows if need be.
        if keys == 0 {
            self.op(Op::GroupFor { group, key: Span::new(0, 0) });
        }
        // What an aggregate of DISTINCT values takes is seen once; where the order shows, it is taken when all are there, sorted.
        let mut sets = Vec::new();
        for a in &q.aggregates {
            sets.push(if a.distinct {
                let width = if is_ordered(a) { keys } else { 1 } + a.args.len();
                let h = self.hash(width, width);
                self.op(Op::HashClear { hash: h });
                Some(h)
            } else {
                None
            });
        }
        self.produce(tree, n, &mut |g, _next| {
            let mut key = Span::new(0, 0);
            if keys > 0 {
                key = g.span(q.group_by.iter())?;
                g.op(Op::GroupFor { group, key });
            }
            for (i, a) in q.aggregates.iter().enumerate() {
                let skip = g.label();
                if let Some(f) = &a.filter {
                    g.jump_unless(f, skip)?;
                }
                let args = match sets[i] {
                    None => g.span(a.args.iter())?,
                    Some(hash) if is_ordered(a) => {
                        let width = keys + a.args.len();
                        let first = g.registers(width);
                        for k in 0..keys as u16 {
                            g.op(Op::Move { dst: Out(first + k), a: Reg(key.range().start as u16 + k) });
                        }
                        for (k, e) in a.args.iter().enumerate() {
                            g.expr_into(e, first + (keys + k) as u16)?;
                        }
                        g.op(Op::HashPutNew { hash, row: Span::new(first, width), to: skip });
                        g.here(skip);
                        continue;
                    }
                    Some(hash) => {
                        let first = g.registers(a.args.len() + 1);
                        g.op(Op::GroupIndex { dst: Out(first), group });
                        for (k, e) in a.args.iter().enumerate() {
                            g.expr_into(e, first + 1 + k as u16)?;
                        }
                        g.op(Op::HashPutNew { hash, row: Span::new(first, a.args.len() + 1), to: skip });
                        Span::new(first + 1, a.args.len())
                    }
                };
                g.op(Op::AggStep { group, agg: Col(i as u16), args });
                g.here(skip);
            }
            Ok(())
        })?;
        for (i, a) in q.aggregates.iter().enumerate().filter(|(_, a)| is_ordered(a)) {
            let hash = sets[i].ok_or_else(|| internal("an aggregate of DISTINCT without a set"))?;
            self.sorted_steps(group, Col(i as u16), hash, (keys, a.args.len()));
        }
        let (first_key, first_agg) = (self.registers(keys), self.registers(q.aggregates.len()));
        let (again, end) = (self.label(), self.label());
        self.op(Op::GroupRewind { group });
        let mark = self.mark();
        self.here(again);
        let reset = self.reset(mark);
        self.op(Op::GroupNext { group, to: end });
        for k in 0..keys as u16 {
            self.op(Op::GroupCol { dst: Out(first_key + k), group, column: Col(k) });
        }
        for a in 0..q.aggregates.len() as u16 {
            self.op(Op::AggValue { dst: Out(first_agg + a), group, agg: Col(a) });
        }
        self.scope()?.groups = Some((first_key, first_agg));
        if let Some(h) = &q.having {
            self.jump_unless(h, again)?;
        }
        self.tally_row(n);
        row(self, again)?;
        self.jump(again);
        self.here(end);
        self.end_turns(mark, reset);
        Ok(())
    }

    /// Feeds an aggregate the DISTINCT values that a set holds, each behind its group's keys, in ascending order.
    fn sorted_steps(&mut self, group: Group, agg: Col, hash: Hash, (keys, args): (usize, usize)) {
        let width = keys + args;
        let ascending = |n| SortKey { column: n as u16, desc: false, nulls_first: false };
        let sort = self.sort(width, (keys..width).map(ascending).collect());
        let first = self.registers(width);
        self.op(Op::SortClear { sort });
        self.op(Op::HashRewind { hash });
        let (again, all) = (self.label(), self.label());
        let mark = self.mark();
        self.here(again);
        let reset = self.reset(mark);
        self.op(Op::HashNext { hash, to: all });
        for n in 0..width as u16 {
            self.op(Op::HashCol { dst: Out(first + n), hash, column: Col(n) });
        }
        self.op(Op::SortPut { sort, row: Span::new(first, width) });
        self.jump(again);
        self.here(all);
        self.end_turns(mark, reset);
        self.op(Op::SortRun { sort });
        let (again, end) = (self.label(), self.label());
        let mark = self.mark();
        self.here(again);
        let reset = self.reset(mark);
        self.op(Op::SortNext { sort, to: end });
        for n in 0..width as u16 {
            self.op(Op::SortCol { dst: Out(first + n), sort, column: Col(n) });
        }
        self.op(Op::GroupFor { group, key: Span::new(first, keys) });
        self.op(Op::AggStep { group, agg, args: Span::new(first + keys as u16, args) });
        self.jump(again);
        self.here(end);
        self.end_turns(mark, reset);
    }

    /// One group that only counts the rows of a foreign table, which need not come one by one.
    fn counted_rows(
        &mut self,
        q: &'a Query,
        rel: u16,
        table: &'a Arc<dyn ForeignTable>,
        parent: usize,
        row: super::scan::Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let node = self.foreign_node(table, &q.rels[rel as usize].alias, parent);
        self.tally_start(node);
        let from = self.foreign_start(rel, table, Vec::new(), &[], node)?;
        let first = self.registers(q.aggregates.len());
        self.op(Op::ForeignCount { dst: Out(first), from });
        for n in 1..q.aggregates.len() as u16 {
            self.op(Op::Move { dst: Out(first + n), a: Reg(first) });
        }
        self.scope()?.groups = Some((first, first));
        let end = self.label();
        if let Some(h) = &q.having {
            self.jump_unless(h, end)?;
        }
        self.tally_row(parent);
        row(self, end)?;
        self.here(end);
        Ok(())
    }

    fn set_query(
        &mut self,
        q: &'a Query,
        set: &'a SetQuery,
        mut node: usize,
        (limit, offset): (Option<u16>, Option<u16>),
        end: Label,
        consume: ConsumeRow<'_, 'a>,
    ) -> SqlResult<()> {
        let width = set.left.visible().count();
        let sorting = !q.order_by.is_empty();
        let mut places: Vec<usize> = (0..q.targets.len()).filter(|n| !q.targets[*n].hidden).collect();
        let visible = places.len();
        places.extend((0..q.targets.len()).filter(|n| q.targets[*n].hidden));
        let mut sorter = None;
        if sorting {
            node = self.node(Some(node), "Sort");
            let keys = q
                .order_by
                .iter()
                .map(|k| SortKey {
                    column: places.iter().position(|p| *p == k.target).unwrap_or(0) as u16,
                    desc: k.desc,
                    nulls_first: k.nulls_first,
                })
                .collect();
            let s = self.sort(places.len(), keys);
            self.op(Op::SortClear { sort: s });
            sorter = Some(s);
        }
        let distinct = q.distinct.then(|| {
            let h = self.hash(visible, visible);
            self.op(Op::HashClear { hash: h });
            h
        });
        let all = if set.all { " All" } else { "" };
        let name = match set.operation {
            SetOperation::Union if set.all => "Append".to_string(),
            SetOperation::Union => "HashAggregate Union".to_string(),
            SetOperation::Intersect => format!("HashSetOp Intersect{all}"),
            SetOperation::Except => format!("HashSetOp Except{all}"),
        };
        let n = self.node(Some(node), name);
        self.tally_start(n);
        // One piece of code for rows of either side.
        let input = self.registers(width);
        self.scope()?.sources[0] = Source::Registers { first: input };
        let mut row = |g: &mut Gen<'a>, next: Label| -> SqlResult<()> {
            g.tally_row(n);
            if sorter.is_none() && distinct.is_none() {
                g.skip(offset, next);
            }
            let first = g.registers(places.len());
            for (i, t) in places.iter().enumerate() {
                g.expr_into(&q.targets[*t].expr, first + i as u16)?;
            }
            if let Some(hash) = distinct {
                g.op(Op::HashPutNew { hash, row: Span::new(first, visible), to: next });
            }
            match sorter {
                Some(sort) => g.op(Op::SortPut { sort, row: Span::new(first, places.len()) }),
                None => {
                    if distinct.is_some() {
                        g.skip(offset, next);
                    }
                    g.give(RowOut::Registers(first), limit, next, end, consume)?;
                }
            }
            Ok(())
        };
        let side = |g: &mut Gen<'a>,
                    of: &'a Query,
                    each: &mut dyn FnMut(&mut Gen<'a>, u16, Label) -> SqlResult<()>|
         -> SqlResult<()> {
            g.query_rows(of, n, false, &mut |g, out, next, _stop| {
                let RowOut::Registers(first) = out else {
                    return Err(internal("a raw row in a set operation"));
                };
                let inner = g.scopes.pop().ok_or_else(|| internal("no scope"))?;
                each(g, first, next)?;
                g.scopes.push(inner);
                Ok(())
            })
        };
        let whole = |first: u16| Span::new(first, width);
        match (set.operation, set.all) {
            (SetOperation::Union, true) => {
                let (ret, sub, over) = (self.register(), self.label(), self.label());
                self.jump(over);
                self.here(sub);
                let back = self.label();
                row(self, back)?;
                self.here(back);
                self.op(Op::Return { ret: Reg(ret) });
                self.here(over);
                for of in [&set.left, &set.right] {
                    side(self, of, &mut |g, first, _next| {
                        for i in 0..width as u16 {
                            g.op(Op::Move { dst: Out(input + i), a: Reg(first + i) });
                        }
                        g.op(Op::Gosub { ret: Out(ret), to: sub });
                        Ok(())
                    })?;
                }
            }
            (operation, all) => {
                let hash = self.hash(width, width);
                self.op(Op::HashClear { hash });
                let count = self.register();
                let zero = self.constant(&ondol_types::Value::Int8(0));
                // Each row's counter: how often it comes in the left, as far as that matters.
                side(self, &set.left, &mut |g, first, _next| {
                    let there = g.label();
                    g.op(Op::HashPutNew { hash, row: whole(first), to: there });
                    g.here(there);
                    if all {
                        g.op(Op::HashAdd { hash, by: Imm(1) });
                    }
                    Ok(())
                })?;
                let matches = match operation {
                    SetOperation::Intersect if all => {
                        // A second table counts what both have.
                        let both = self.hash(width, width);
                        self.op(Op::HashClear { hash: both });
                        side(self, &set.right, &mut |g, first, next| {
                            g.op(Op::HashFind { hash, key: whole(first), to: next });
                            g.op(Op::HashCount { dst: Out(count), hash });
                            g.op(Op::UnlessInt { a: Reg(count), b: Reg(zero), cond: Cond::Gt, to: next });
                            g.op(Op::HashAdd { hash, by: Imm(-1) });
                            let there = g.label();
                            g.op(Op::HashPutNew { hash: both, row: whole(first), to: there });
                            g.here(there);
                            g.op(Op::HashAdd { hash: both, by: Imm(1) });
                            Ok(())
                        })?;
                        both
                    }
                    SetOperation::Intersect => {
                        side(self, &set.right, &mut |g, first, next| {
                            g.op(Op::HashFind { hash, key: whole(first), to: next });
                            g.op(Op::HashAdd { hash, by: Imm(1) });
                            Ok(())
                        })?;
                        hash
                    }
                    SetOperation::Except => {
                        side(self, &set.right, &mut |g, first, next| {
                            g.op(Op::HashFind { hash, key: whole(first), to: next });
                            g.op(Op::HashAdd { hash, by: Imm(-1) });
                            Ok(())
                        })?;
                        hash
                    }
                    SetOperation::Union => {
                        side(self, &set.right, &mut |g, first, next| {
                            g.op(Op::HashPutNew { hash, row: whole(first), to: next });
                            Ok(())
                        })?;
                        hash
                    }
                };
                let (again, over) = (self.label(), self.label());
                self.op(Op::HashRewind { hash: matches });
                let mark = self.mark();
                self.here(again);
                let reset = self.reset(mark);
                self.op(Op::HashNext { hash: matches, to: over });
                self.op(Op::HashCount { dst: Out(count), hash: matches });
                let cond = match (operation, all) {
                    (SetOperation::Union, _) => None,
                    (SetOperation::Except, false) => Some(Cond::Eq),
                    _ => Some(Cond::Gt),
                };
                if let Some(cond) = cond {
                    self.op(Op::UnlessInt { a: Reg(count), b: Reg(zero), cond, to: again });
                }
                for i in 0..width as u16 {
                    self.op(Op::HashCol { dst: Out(input + i), hash: matches, column: Col(i) });
                }
                if all {
                    // As often as the counter says.
                    let repeat = self.label();
                    let left = State(Span::new(count, 1));
                    self.here(repeat);
                    let next = self.label();
                    row(self, next)?;
                    self.here(next);
                    self.op(Op::CountDown { left, to: again });
                    self.jump(repeat);
                } else {
                    row(self, again)?;
                    self.jump(again);
                }
                self.here(over);
                self.end_turns(mark, reset);
            }
        }
        if let Some(sort) = sorter {
            let (again, over) = (self.label(), self.label());
            self.op(Op::SortRun { sort });
            let mark = self.mark();
            self.here(again);
            let reset = self.reset(mark);
            self.op(Op::SortNext { sort, to: over });
            self.skip(offset, again);
            let first = self.registers(visible);
            for i in 0..visible as u16 {
                self.op(Op::SortCol { dst: Out(first + i), sort, column: Col(i) });
            }
            self.give(RowOut::Registers(first), limit, again, end, consume)?;
            self.jump(again);
            self.here(over);
            self.end_turns(mark, reset);
        }
        Ok(())
    }
}

/// The foreign table whose rows are all that a query counts.
fn counted<'a>(q: &'a Query, tree: &Node<'a>) -> Option<(u16, &'a Arc<dyn ForeignTable>)> {
    let Node::Scan { rel, filter, .. } = tree else { return None };
    let Rel::Foreign(table) = &q.rels.get(*rel as usize)?.rel else { return None };
    let counts = |a: &Aggregate| {
        a.args.is_empty()
            && a.filter.is_none()
            && !a.distinct
            && ondol_types::agg::find(a.agg).is_some_and(|d| d.name == "count")
    };
    let only = filter.is_empty() && q.group_by.is_empty() && !q.aggregates.is_empty();
    (only && q.aggregates.iter().all(counts)).then_some((*rel, table))
}

/// Whether the order of its DISTINCT values shows in an aggregate's result: texts are joined in it, and sums of doubles are rounded in it.
fn is_ordered(a: &Aggregate) -> bool {
    let shows = |name: &str| !matches!(name, "count" | "min" | "max");
    let of = ondol_types::agg::find(a.agg);
    let is_float = a.args.first().is_some_and(|e| matches!(e.ty.id, TypeId::FLOAT8 | TypeId::FLOAT4));
    a.distinct && of.is_some_and(|d| d.name == "string_agg" || is_float && shows(d.name))
}

/// Whether a type's values are whole in a register, without memory.
pub(super) fn needs_no_memory(t: TypeId) -> bool {
    !matches!(t.class(), Class::Numeric | Class::Text | Class::Bytea | Class::Opaque(_))
}
