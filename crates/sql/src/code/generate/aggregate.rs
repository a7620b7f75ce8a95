//! Code for groups and their aggregates.
use super::super::op::Op;
use super::super::operand::*;
use super::super::program::{GroupDef, SortKey};
use super::{Consume, Gen, Source, internal};
use crate::bound;
use crate::plan::logical;
use crate::plan::physical::{Node, Operator};
use ondol_types::{SqlResult, TypeId};

type Aggregate = logical::Aggregate;

impl<'a> Gen<'a> {
    pub fn aggregate(&mut self, node: &'a Node<'a>, consume: Consume<'_, 'a>) -> SqlResult<()> {
        let Operator::Aggregate { rel, input, keys, aggregates } = &node.operator else {
            return Err(internal("no groups"));
        };
        self.tally_start(node.number);
        if is_count(input, keys, aggregates) {
            return self.counted_rows(node, *rel, input, aggregates.len(), consume);
        }
        let width = keys.len();
        let aggs = aggregates.iter().map(|a| (a.agg, a.args.len() as u16)).collect();
        let group = self.group(GroupDef { keys: width as u16, aggs });
        self.op(Op::GroupClear { group });
        // Without GROUP BY there is one group, of no rows if need be.
        if width == 0 {
            self.op(Op::GroupFor { group, key: Span::new(0, 0) });
        }
        // With ORDER BY it takes them when all are there: behind its group's keys, before the order's.
        let mut sorts = Vec::new();
        for a in *aggregates {
            sorts.push((!a.distinct && !a.order.is_empty()).then(|| {
                let first = width + a.args.len();
                let key = |(n, k): (usize, &bound::SortKey<logical::Inside>)| SortKey {
                    column: (first + n) as u16,
                    desc: k.desc,
                    nulls_first: k.nulls_first,
                };
                let sort =
                    self.new_sort(first + a.order.len(), a.order.iter().enumerate().map(key).collect());
                self.op(Op::SortClear { sort });
                sort
            }));
        }
        // What an aggregate of DISTINCT values takes is seen once; where the order shows, it is taken when
        // all are there, sorted.
        let mut sets = Vec::new();
        for a in *aggregates {
            sets.push(if a.distinct {
                let width = if is_ordered(a) { width } else { 1 } + a.args.len();
                let h = self.hash(width, width);
                self.op(Op::HashClear { hash: h });
                Some(h)
            } else {
                None
            });
        }
        self.produce(input, &mut |g, _next| {
            let mut key = Span::new(0, 0);
            if width > 0 {
                key = g.comparable_span(keys.iter())?;
                g.op(Op::GroupFor { group, key });
            }
            for (i, a) in aggregates.iter().enumerate() {
                let skip = g.label();
                if let Some(f) = &a.filter {
                    g.jump_unless(f, skip)?;
                }
                if let Some(sort) = sorts[i] {
                    let all = width + a.args.len() + a.order.len();
                    let first = g.registers(all);
                    for k in 0..width as u16 {
                        g.op(Op::Move { dst: Out(first + k), a: Reg(key.range().start as u16 + k) });
                    }
                    for (k, e) in a.args.iter().enumerate() {
                        g.expr_into(e, first + (width + k) as u16)?;
                    }
                    for (k, e) in a.order.iter().enumerate() {
                        g.comparable_into(&e.expr, first + (width + a.args.len() + k) as u16)?;
                    }
                    g.op(Op::SortPut { sort, row: Span::new(first, all) });
                    g.here(skip);
                    continue;
                }
                let args = match sets[i] {
                    None => g.span(a.args.iter())?,
                    Some(hash) if is_ordered(a) => {
                        let all = width + a.args.len();
                        let first = g.registers(all);
                        for k in 0..width as u16 {
                            g.op(Op::Move { dst: Out(first + k), a: Reg(key.range().start as u16 + k) });
                        }
                        for (k, e) in a.args.iter().enumerate() {
                            g.comparable_into(e, first + (width + k) as u16)?;
                        }
                        g.op(Op::HashPutNew { hash, row: Span::new(first, all), to: skip });
                        g.here(skip);
                        continue;
                    }
                    Some(hash) => {
                        let first = g.registers(a.args.len() + 1);
                        g.op(Op::GroupIndex { dst: Out(first), group });
                        for (k, e) in a.args.iter().enumerate() {
                            g.comparable_into(e, first + 1 + k as u16)?;
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
        for (i, a) in aggregates.iter().enumerate().filter(|(_, a)| is_ordered(a)) {
            let hash = sets[i].ok_or_else(|| internal("an aggregate of DISTINCT without a set"))?;
            self.sorted_steps(group, Col(i as u16), hash, (width, a));
        }
        for (i, a) in aggregates.iter().enumerate() {
            if let Some(sort) = sorts[i] {
                self.steps_of(sort, group, Col(i as u16), (width, a.args.len()));
            }
        }
        let first = self.registers(width + aggregates.len());
        let first_agg = first + width as u16;
        let (again, end) = (self.label(), self.label());
        self.op(Op::GroupRewind { group });
        let mark = self.mark();
        self.here(again);
        let reset = self.reset(mark);
        self.op(Op::GroupNext { group, to: end });
        for k in 0..width as u16 {
            self.op(Op::GroupCol { dst: Out(first + k), group, column: Col(k) });
        }
        for a in 0..aggregates.len() as u16 {
            self.op(Op::AggValue { dst: Out(first_agg + a), group, agg: Col(a) });
        }
        self.put(*rel, Source::Registers { first })?;
        self.passed(node, again, consume)?;
        self.jump(again);
        self.here(end);
        self.end_turns(mark, reset);
        Ok(())
    }

    /// Feeds an aggregate the DISTINCT values that a set holds, each behind its group's keys, in ascending
    /// order, or in its own first.
    fn sorted_steps(&mut self, group: Group, agg: Col, hash: Hash, (keys, a): (usize, &Aggregate)) {
        let args = a.args.len();
        let width = keys + args;
        let mut order: Vec<SortKey> = Vec::new();
        for k in &a.order {
            if let Some(n) = a.args.iter().position(|e| logical::same(e, &k.expr)) {
                order.push(SortKey { column: (keys + n) as u16, desc: k.desc, nulls_first: k.nulls_first });
            }
        }
        let ascending = |n| SortKey { column: n as u16, desc: false, nulls_first: false };
        order.extend((keys..width).map(ascending));
        let sort = self.new_sort(width, order);
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
        self.steps_of(sort, group, agg, (keys, args));
    }

    /// Feeds an aggregate what a sort holds: its group's keys, then its arguments.
    fn steps_of(&mut self, sort: Sort, group: Group, agg: Col, (keys, args): (usize, usize)) {
        let width = keys + args;
        let first = self.registers(width);
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
        node: &'a Node<'a>,
        rel: u16,
        input: &'a Node<'a>,
        aggregates: usize,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        self.tally_start(input.number);
        let from = self.foreign_start(input)?;
        let first = self.registers(aggregates);
        self.op(Op::ForeignCount { dst: Out(first), from });
        for n in 1..aggregates as u16 {
            self.op(Op::Move { dst: Out(first + n), a: Reg(first) });
        }
        self.put(rel, Source::Registers { first })?;
        let end = self.label();
        self.passed(node, end, consume)?;
        self.here(end);
        Ok(())
    }
}

/// Whether the rows of a foreign table are only counted.
fn is_count(input: &Node<'_>, keys: &[logical::Expr], aggregates: &[Aggregate]) -> bool {
    let Operator::Scan { source: logical::Source::Foreign(_), .. } = &input.operator else { return false };
    let counts = |a: &Aggregate| {
        a.args.is_empty()
            && a.filter.is_none()
            && !a.distinct
            && ondol_types::agg::find(a.agg).is_some_and(|d| d.name == "count")
    };
    input.filter.is_empty() && keys.is_empty() && !aggregates.is_empty() && aggregates.iter().all(counts)
}

/// Whether the order of its DISTINCT values shows in an aggregate's result: texts are joined in it, and sums
/// of doubles are rounded in it.
fn is_ordered(a: &Aggregate) -> bool {
    let shows = |name: &str| !matches!(name, "count" | "min" | "max");
    let of = ondol_types::agg::find(a.agg);
    let is_float = a.args.first().is_some_and(|e| matches!(e.ty.id, TypeId::FLOAT8 | TypeId::FLOAT4));
    let shown = of.is_some_and(|d| d.shows_order() || is_float && shows(d.name));
    a.distinct && (shown || !a.order.is_empty())
}
