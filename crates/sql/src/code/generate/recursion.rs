//! Code for recursions: rows that are made of those that came in the turn before.
//!
//! ```text
//! streamed:  left side -> row -> next -> consumer          kept:  first call: left side -> list
//!            while next has rows:                                 each further call, while the last gave rows:
//!              last, next := next, none                             right side over the list's last rows
//!              right side over last -> row -> next -> consumer        -> list
//! ```
//! - **U1** A recursion that one reader alone goes through is streamed: a row is handed on as soon as it is
//!   made, and no more is kept than two turns' rows, and of UNION the set of all.
//! - **U2** Any other is kept in a list, as WITH queries are (sql/code/generate/with/H1): but a reader that
//!   has come to the list's end calls for one more turn, and only what is asked for is made. A turn that
//!   gives no row is the last. The rows of the last turn are those of the list between two numbers.
//! - **U3** The right side's code stands once; what it keeps from turn to turn rests on no row of a turn
//!   (sql/plan/logical/Y5).
use super::super::op::Op;
use super::super::operand::*;
use super::{Consume, Gen, Source, internal};
use crate::plan::physical::{Node, Operator, Subplan};
use ondol_types::{SqlResult, Value};

/// Where the rows of a recursion's last turn are.
#[derive(Clone, Copy)]
pub struct Working {
    mat: Mat,
    /// The registers with the number of the first of them and of the first behind them: all of the list, if
    /// there are none.
    bounds: Option<(u16, u16)>,
}

impl<'a> Gen<'a> {
    /// Streams the rows (U1).
    pub fn recursion(&mut self, node: &'a Node<'a>, consume: Consume<'_, 'a>) -> SqlResult<()> {
        let Operator::Recursion { rel, work, all, left, right } = &node.operator else {
            return Err(internal("no recursion"));
        };
        self.tally_start(node.number);
        let width = left.output.len();
        let (last, next) = (self.mat(width), self.mat(width));
        let seen = self.set_of(*all, width);
        let input = self.registers(width);
        self.put(*rel, Source::Registers { first: input })?;
        // One piece of code for rows of either side.
        let (ret, sub, over) = (self.register(), self.label(), self.label());
        self.jump(over);
        self.here(sub);
        let back = self.label();
        self.passed(node, back, consume)?;
        self.here(back);
        self.op(Op::Return { ret: Reg(ret) });
        self.here(over);
        self.op(Op::MatClear { mat: next });
        let side = |g: &mut Gen<'a>, side: &'a Subplan<'a>| {
            g.produce(&side.node, &mut |g, drop| {
                g.new_row(side, seen, next, input, drop)?;
                g.op(Op::Gosub { ret: Out(ret), to: sub });
                Ok(())
            })
        };
        side(self, left)?;
        self.working.insert(*work, Working { mat: last, bounds: None });
        let (turn, end, count) = (self.label(), self.label(), self.register());
        let mark = self.mark();
        self.here(turn);
        let reset = self.reset(mark);
        self.op(Op::MatSwap { a: last, b: next });
        self.op(Op::MatClear { mat: next });
        self.op(Op::MatSize { dst: Out(count), mat: last });
        self.op(Op::IfZero { a: Reg(count), to: end });
        side(self, right)?;
        self.jump(turn);
        self.here(end);
        self.end_turns(mark, reset);
        Ok(())
    }

    /// The body of a subroutine that makes the rows of one more turn (U2); `done` has whether there was one.
    pub fn turn(&mut self, node: &'a Node<'a>, mat: Mat, done: u16) -> SqlResult<()> {
        let Operator::Recursion { work, all, left, right, .. } = &node.operator else {
            return Err(internal("no recursion"));
        };
        let width = left.output.len();
        let seen = self.set_of_later(*all, width);
        let (from, upto, input) = (self.lasting(), self.lasting(), self.registers(width));
        let (more, end) = (self.label(), self.label());
        let side = |g: &mut Gen<'a>, side: &'a Subplan<'a>| {
            g.produce(&side.node, &mut |g, drop| {
                g.new_row(side, seen, mat, input, drop)?;
                g.tally_row(node.number);
                Ok(())
            })
        };
        self.op(Op::Once { done: State(Span::new(done, 1)), to: more });
        self.tally_start(node.number);
        self.op(Op::MatClear { mat });
        if let Some(hash) = seen {
            self.op(Op::HashClear { hash });
        }
        let zero = self.constant(&Value::Int8(0));
        self.op(Op::Move { dst: Out(upto), a: Reg(zero) });
        side(self, left)?;
        self.jump(end);
        self.here(more);
        self.op(Op::Move { dst: Out(from), a: Reg(upto) });
        self.op(Op::MatSize { dst: Out(upto), mat });
        self.op(Op::UnlessInt { a: Reg(from), b: Reg(upto), cond: Cond::Lt, to: end });
        self.working.insert(*work, Working { mat, bounds: Some((from, upto)) });
        side(self, right)?;
        self.here(end);
        Ok(())
    }

    /// Of UNION, the set of all rows, empty; it is emptied here, or by who asks for it.
    fn set_of(&mut self, all: bool, width: usize) -> Option<Hash> {
        let seen = self.set_of_later(all, width);
        if let Some(hash) = seen {
            self.op(Op::HashClear { hash });
        }
        seen
    }

    fn set_of_later(&mut self, all: bool, width: usize) -> Option<Hash> {
        (!all).then(|| self.hash(width, width))
    }

    /// A row of a side gets into the list, and its values into the registers from `input` on, unless it was
    /// there.
    fn new_row(
        &mut self,
        side: &'a Subplan<'a>,
        seen: Option<Hash>,
        mat: Mat,
        input: u16,
        drop: Label,
    ) -> SqlResult<()> {
        for (n, e) in side.output.iter().enumerate() {
            self.expr_into(e, input + n as u16)?;
        }
        if let Some(hash) = seen {
            let row = self.comparable_registers(input, side.output.iter().map(|e| e.ty));
            self.op(Op::HashPutNew { hash, row, to: drop });
        }
        self.op(Op::MatPut { mat, row: Span::new(input, side.output.len()) });
        Ok(())
    }

    /// The rows of the last turn, as those of a relation: from the first on, whenever they are gone through.
    pub fn working_rows(
        &mut self,
        rel: u16,
        work: u16,
        node: &'a Node<'a>,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let Some(Working { mat, bounds }) = self.working.get(&work).copied() else {
            return Err(internal("rows of a recursion outside it"));
        };
        let at = self.register();
        match bounds {
            Some((from, _)) => self.op(Op::Move { dst: Out(at), a: Reg(from) }),
            None => self.op(Op::Null { dst: Out(at) }),
        }
        self.read_list(rel, mat, node, consume, &mut |g, end| {
            if let Some((_, upto)) = bounds {
                g.op(Op::UnlessInt { a: Reg(at), b: Reg(upto), cond: Cond::Lt, to: end });
            }
            g.op(Op::MatRead { mat, at: State(Span::new(at, 1)), to: end });
        })
    }
}
