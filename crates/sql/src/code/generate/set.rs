//! Code for UNION ALL, INTERSECT and EXCEPT.
use super::super::op::Op;
use super::super::operand::*;
use super::{Consume, Gen, Source, internal};
use crate::bound::SetOperation;
use crate::plan::physical::{Node, Operator, Subplan};
use ondol_types::{SqlResult, Value};

impl<'a> Gen<'a> {
    pub fn set_operation(&mut self, node: &'a Node<'a>, consume: Consume<'_, 'a>) -> SqlResult<()> {
        let Operator::SetOperation { rel, operation, all, left, right } = &node.operator else {
            return Err(internal("no set operation"));
        };
        self.tally_start(node.number);
        // One piece of code for rows of either side.
        let width = left.output.len();
        let input = self.registers(width);
        self.put(*rel, Source::Registers { first: input })?;
        match operation {
            SetOperation::Union => self.union_all(node, left, right, input, consume),
            SetOperation::Intersect => self.hashed_sides(node, (left, right), *all, true, input, consume),
            SetOperation::Except => self.hashed_sides(node, (left, right), *all, false, input, consume),
        }
    }

    fn union_all(
        &mut self,
        node: &'a Node<'a>,
        left: &'a Subplan<'a>,
        right: &'a Subplan<'a>,
        input: u16,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let (ret, sub, over) = (self.register(), self.label(), self.label());
        self.jump(over);
        self.here(sub);
        let back = self.label();
        self.passed(node, back, consume)?;
        self.here(back);
        self.op(Op::Return { ret: Reg(ret) });
        self.here(over);
        for side in [left, right] {
            self.produce(&side.node, &mut |g, _next| {
                for (n, e) in side.output.iter().enumerate() {
                    g.expr_into(e, input + n as u16)?;
                }
                g.op(Op::Gosub { ret: Out(ret), to: sub });
                Ok(())
            })?;
        }
        Ok(())
    }

    /// INTERSECT and EXCEPT: each row of the left side is kept with a counter, which the right side's rows
    /// change.
    fn hashed_sides(
        &mut self,
        node: &'a Node<'a>,
        (left, right): (&'a Subplan<'a>, &'a Subplan<'a>),
        all: bool,
        intersect: bool,
        input: u16,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let width = left.output.len();
        let hash = self.hash(width, width);
        self.op(Op::HashClear { hash });
        let count = self.register();
        let zero = self.constant(&Value::Int8(0));
        // How often a row comes in the left, as far as that matters.
        self.produce(&left.node, &mut |g, _next| {
            let row = g.comparable_span(left.output.iter().copied())?;
            let there = g.label();
            g.op(Op::HashPutNew { hash, row, to: there });
            g.here(there);
            if all {
                g.op(Op::HashAdd { hash, by: Imm(1) });
            }
            Ok(())
        })?;
        let matches = if intersect && all {
            // A second table counts what both have.
            let both = self.hash(width, width);
            self.op(Op::HashClear { hash: both });
            self.produce(&right.node, &mut |g, next| {
                let row = g.comparable_span(right.output.iter().copied())?;
                g.op(Op::HashFind { hash, key: row, to: next });
                g.op(Op::HashCount { dst: Out(count), hash });
                g.op(Op::UnlessInt { a: Reg(count), b: Reg(zero), cond: Cond::Gt, to: next });
                g.op(Op::HashAdd { hash, by: Imm(-1) });
                let there = g.label();
                g.op(Op::HashPutNew { hash: both, row, to: there });
                g.here(there);
                g.op(Op::HashAdd { hash: both, by: Imm(1) });
                Ok(())
            })?;
            both
        } else {
            let by = Imm(if intersect { 1 } else { -1 });
            self.produce(&right.node, &mut |g, next| {
                let key = g.comparable_span(right.output.iter().copied())?;
                g.op(Op::HashFind { hash, key, to: next });
                g.op(Op::HashAdd { hash, by });
                Ok(())
            })?;
            hash
        };
        let (again, over) = (self.label(), self.label());
        self.op(Op::HashRewind { hash: matches });
        let mark = self.mark();
        self.here(again);
        let reset = self.reset(mark);
        self.op(Op::HashNext { hash: matches, to: over });
        self.op(Op::HashCount { dst: Out(count), hash: matches });
        let cond = if intersect || all { Cond::Gt } else { Cond::Eq };
        self.op(Op::UnlessInt { a: Reg(count), b: Reg(zero), cond, to: again });
        for i in 0..width as u16 {
            self.op(Op::HashCol { dst: Out(input + i), hash: matches, column: Col(i) });
        }
        if all {
            // As often as the counter says.
            let (repeat, next) = (self.label(), self.label());
            self.here(repeat);
            self.passed(node, next, consume)?;
            self.here(next);
            self.op(Op::CountDown { left: State(Span::new(count, 1)), to: again });
            self.jump(repeat);
        } else {
            self.passed(node, again, consume)?;
            self.jump(again);
        }
        self.here(over);
        self.end_turns(mark, reset);
        Ok(())
    }
}
