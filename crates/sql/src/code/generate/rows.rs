//! Code for a query's rows: each operator's, and the plain ones' here: projections, DISTINCT, LIMIT.
//!
//! - **Q1** A limit of 0, or whose last row was taken, goes to its end at once, out of whatever loops.
//! - **Q2** A limit counts the rows that it gives, whether the consumer takes or drops them.
//! - **Q3** With ties, rows go on after the last one as long as they are as it is: it alone is kept in a set,
//!   and a row that is not in it is beyond the end.
use super::super::op::Op;
use super::super::operand::*;
use super::{Consume, Gen, Source, internal};
use crate::plan::logical::{Expr, ExprKind};
use crate::plan::physical::{Node, Operator, Subplan};
use ondol_types::{SqlResult, Value};

impl<'a> Gen<'a> {
    /// A statement that is a query: its rows go out.
    pub fn statement_rows(&mut self, rows: &'a Subplan<'a>) -> SqlResult<()> {
        self.produce(&rows.node, &mut |g, _next| {
            match g.whole_row(&rows.output) {
                Some(cursor) => g.op(Op::EmitRow { cursor }),
                None => {
                    let row = g.span(rows.output.iter().copied())?;
                    g.op(Op::Emit { row });
                }
            }
            Ok(())
        })
    }

    /// All rows of a node.
    pub fn produce(&mut self, node: &'a Node<'a>, consume: Consume<'_, 'a>) -> SqlResult<()> {
        match &node.operator {
            Operator::Nothing => {
                self.tally_start(node.number);
                let end = self.label();
                self.passed(node, end, consume)?;
                self.here(end);
                Ok(())
            }
            Operator::Empty { rels } => {
                self.tally_start(node.number);
                let end = self.label();
                self.jump(end);
                // The consumer's code is there all the same (sql/code/generate/G1), and is never come to.
                for rel in rels {
                    let columns: Vec<u16> = self.place(*rel)?.used.iter().copied().collect();
                    let first = self.registers(columns.len());
                    let columns = columns.into_iter().zip(first..).collect();
                    self.put(*rel, Source::Changed { cursor: u16::MAX, columns })?;
                }
                consume(self, end)?;
                self.here(end);
                Ok(())
            }
            Operator::Scan { .. } => self.scan(node, consume),
            Operator::Join { .. } => self.join(node, consume),
            Operator::Project { rel, input, columns } => {
                self.tally_start(node.number);
                self.produce(input, &mut |g, next| {
                    let first = g.span(columns.iter())?.first;
                    g.put(*rel, Source::Registers { first })?;
                    g.passed(node, next, consume)
                })
            }
            Operator::ProjectSet { .. } => self.project_set(node, consume),
            Operator::Aggregate { .. } => self.aggregate(node, consume),
            Operator::Window { .. } => self.window(node, consume),
            Operator::Distinct { input, by } => {
                self.tally_start(node.number);
                let hash = self.hash(by.len(), by.len());
                self.op(Op::HashClear { hash });
                self.produce(input, &mut |g, next| {
                    let row = g.comparable_span(by.iter())?;
                    g.op(Op::HashPutNew { hash, row, to: next });
                    g.passed(node, next, consume)
                })
            }
            Operator::Sort { .. } => self.sort(node, consume),
            Operator::Limit { input, limit, offset, ties } => {
                self.limit(node, input, (*limit, *offset, ties), consume)
            }
            Operator::Lock { input, locks, recheck } => {
                self.write();
                self.tally_start(node.number);
                self.produce(input, &mut |g, next| {
                    g.lock_rows(locks, recheck, next)?;
                    g.passed(node, next, consume)
                })
            }
            Operator::With { queries, input } => self.forgetting(queries, node, input, consume),
            Operator::SetOperation { .. } => self.set_operation(node, consume),
            Operator::Recursion { .. } => self.recursion(node, consume),
        }
    }

    /// Each row of the input as often as is said: the place, then the values, stand side by side.
    fn project_set(&mut self, node: &'a Node<'a>, consume: Consume<'_, 'a>) -> SqlResult<()> {
        let Operator::ProjectSet { rel, input, values, stop } = &node.operator else {
            return Err(internal("no set"));
        };
        let one = self.constant(&Value::Int8(1));
        self.tally_start(node.number);
        self.produce(input, &mut |g, _next| {
            // A series' start, stop, step and number; then the values.
            let first = g.registers(4 + values.len());
            for (n, e) in values.iter().enumerate() {
                g.expr_into(e, first + 4 + n as u16)?;
            }
            g.put(*rel, Source::Registers { first: first + 3 })?;
            g.expr_into(stop, first + 1)?;
            for place in [first, first + 2] {
                g.op(Op::Move { dst: Out(place), a: Reg(one) });
            }
            let state = State(Span::new(first, 4));
            g.op(Op::SeriesStart { state });
            let (again, over) = (g.label(), g.label());
            let mark = g.mark();
            g.here(again);
            let reset = g.reset(mark);
            g.op(Op::SeriesNext { state, to: over });
            g.put(*rel, Source::Registers { first: first + 3 })?;
            g.passed(node, again, &mut *consume)?;
            g.jump(again);
            g.here(over);
            g.end_turns(mark, reset);
            Ok(())
        })
    }

    /// A row of the node is there: its filter, then the consumer.
    pub fn passed(&mut self, node: &'a Node<'a>, next: Label, consume: Consume<'_, 'a>) -> SqlResult<()> {
        self.all_or(&node.filter, next)?;
        self.tally_row(node.number);
        consume(self, next)
    }

    fn limit(
        &mut self,
        node: &'a Node<'a>,
        input: &'a Node<'a>,
        (limit, offset, ties): (Option<&'a Expr>, Option<&'a Expr>, &'a [Expr]),
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        self.tally_start(node.number);
        let end = self.label();
        let counted = |g: &mut Gen<'a>, e: &'a Expr, is_offset: bool| -> SqlResult<u16> {
            let (a, r) = (g.expr(e)?, g.register());
            g.op(Op::LimitOf { dst: Out(r), a: Reg(a), offset: Flag(is_offset) });
            if !is_offset {
                g.op(Op::IfZero { a: Reg(r), to: end });
            }
            Ok(r)
        };
        let left = limit.map(|e| counted(self, e, false)).transpose()?;
        let skipped = offset.map(|e| counted(self, e, true)).transpose()?;
        // Q3: what the last row was.
        let last = (!ties.is_empty()).then(|| self.hash(ties.len(), ties.len()));
        if let Some(hash) = last {
            self.op(Op::HashClear { hash });
        }
        self.limit = left.map(|l| (l, skipped)).filter(|_| ties.is_empty());
        self.produce(input, &mut |g, next| {
            if let Some(r) = skipped {
                g.op(Op::Skip { left: State(Span::new(r, 1)), to: next });
            }
            let Some(left) = left else { return g.passed(node, next, consume) };
            if let Some(hash) = last {
                let (comes, given, over) = (g.label(), g.label(), g.label());
                let counting = g.label();
                g.op(Op::IfZero { a: Reg(left), to: counting });
                g.jump(comes);
                g.here(counting);
                let row = g.comparable_span(ties.iter())?;
                g.op(Op::HashPutNew { hash, row, to: comes });
                g.jump(end);
                g.here(comes);
                g.passed(node, given, consume)?;
                g.here(given);
                g.op(Op::IfZero { a: Reg(left), to: next });
                g.op(Op::CountDown { left: State(Span::new(left, 1)), to: over });
                g.jump(next);
                g.here(over);
                let row = g.comparable_span(ties.iter())?;
                g.op(Op::HashPutNew { hash, row, to: next });
                return Ok(());
            }
            // Q2: a consumer that drops the row comes to the counting, too.
            let given = g.label();
            g.passed(node, given, consume)?;
            g.here(given);
            g.op(Op::CountDown { left: State(Span::new(left, 1)), to: end });
            Ok(())
        })?;
        self.here(end);
        Ok(())
    }

    /// The cursor whose whole row an output is.
    fn whole_row(&self, output: &[&'a Expr]) -> Option<Cur> {
        let mut of = None;
        for (n, e) in output.iter().enumerate() {
            match e.kind {
                ExprKind::Column { rel, column, .. }
                    if column as usize == n && *of.get_or_insert(rel) == rel => {}
                _ => return None,
            }
        }
        let place = self.places.get(of? as usize)?;
        match (&place.source, place.table, place.null) {
            (Source::Table { cursor }, Some(t), None) if t.def.shown().len() == output.len() => {
                Some(Cur(*cursor))
            }
            _ => None,
        }
    }
}
