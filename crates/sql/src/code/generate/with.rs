//! Code for WITH queries whose rows are kept (logical/Y4).
//!
//! - **H1** The code that makes the rows is a subroutine, which stands where the first reader is; each reader
//!   calls it and then goes through the list by a place of its own.
//! - **H2** What depends on rows outside it is told to forget its rows where the query begins that it stands
//!   before. Where code for that query is made once more, its list and its subroutine are others: what it
//!   uses from outside may be elsewhere there.
//! - **H3** Of a recursion the subroutine makes one turn's rows (sql/code/generate/recursion/U2), and is
//!   called whenever a reader has come to the end of the list.
use super::super::op::Op;
use super::super::operand::*;
use super::{Consume, Gen, Source, With, internal};
use crate::plan::physical::{Node, Operator};
use ondol_types::SqlResult;

/// The list of a WITH query's rows.
#[derive(Clone, Copy)]
pub struct Kept {
    mat: Mat,
    /// What `Op::Once` remembers by that the rows are there.
    done: u16,
    /// The subroutine, and where it returns to; none before the first reader.
    filler: Option<(Label, u16)>,
}

impl<'a> Gen<'a> {
    fn with(&mut self, number: u16) -> SqlResult<&mut With<'a>> {
        self.with.get_mut(number as usize).ok_or_else(|| internal("a WITH query that is nowhere"))
    }

    fn new_list(&mut self, number: u16) -> SqlResult<Kept> {
        let width = self.with(number)?.rows.output.len();
        let list = Kept { mat: self.mat(width), done: self.lasting(), filler: None };
        self.with(number)?.list = Some(list);
        Ok(list)
    }

    /// The rows of a query behind WITH queries that depend on rows outside (H2).
    pub fn forgetting(
        &mut self,
        queries: &[u16],
        node: &'a Node<'a>,
        input: &'a Node<'a>,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        self.tally_start(node.number);
        let mut before = Vec::new();
        for q in queries {
            before.push(self.with(*q)?.list.take());
            let done = self.new_list(*q)?.done;
            self.op(Op::Null { dst: Out(done) });
        }
        self.produce(input, &mut |g, next| g.passed(node, next, consume))?;
        for (q, list) in queries.iter().zip(before) {
            self.with(*q)?.list = list;
        }
        Ok(())
    }

    /// A WITH query's recursion, if it is one.
    fn recursion_of(&mut self, number: u16) -> SqlResult<Option<&'a Node<'a>>> {
        let node = &self.with(number)?.rows.node;
        Ok(matches!(node.operator, Operator::Recursion { .. }).then_some(node))
    }

    /// The list of a WITH query, filled by a call of its subroutine here (H1), and what calls it again.
    fn filled(&mut self, number: u16) -> SqlResult<(Mat, Op)> {
        let mut list = match self.with(number)?.list {
            Some(list) => list,
            None => self.new_list(number)?,
        };
        let Kept { mat, done, .. } = list;
        let (start, ret) = match list.filler {
            Some(filler) => filler,
            None => {
                let rows = self.with(number)?.rows;
                let (start, over, back, ret) = (self.label(), self.label(), self.label(), self.lasting());
                self.jump(over);
                self.here(start);
                match self.recursion_of(number)? {
                    Some(recursion) => self.turn(recursion, mat, done)?,
                    None => {
                        self.op(Op::Once { done: State(Span::new(done, 1)), to: back });
                        self.op(Op::MatClear { mat });
                        self.produce(&rows.node, &mut |g, _next| {
                            let row = g.span(rows.output.iter().copied())?;
                            g.op(Op::MatPut { mat, row });
                            Ok(())
                        })?;
                    }
                }
                self.here(back);
                self.op(Op::Return { ret: Reg(ret) });
                self.here(over);
                list.filler = Some((start, ret));
                self.with(number)?.list = Some(list);
                (start, ret)
            }
        };
        let call = Op::Gosub { ret: Out(ret), to: start };
        self.op(call);
        Ok((mat, call))
    }

    /// The rows of a WITH query, as those of a relation.
    pub fn with_rows(
        &mut self,
        rel: u16,
        number: u16,
        node: &'a Node<'a>,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let (mat, call) = self.filled(number)?;
        let is_recursion = self.recursion_of(number)?.is_some();
        let at = self.register();
        self.op(Op::Null { dst: Out(at) });
        self.read_list(rel, mat, node, consume, &mut |g, end| {
            let state = State(Span::new(at, 1));
            if is_recursion {
                // H3: its place is kept over the call, which may move it.
                let (there, more, before) = (g.label(), g.label(), g.register());
                g.op(Op::Move { dst: Out(before), a: Reg(at) });
                g.op(Op::MatRead { mat, at: state, to: more });
                g.jump(there);
                g.here(more);
                g.op(call);
                g.op(Op::Move { dst: Out(at), a: Reg(before) });
                g.op(Op::MatRead { mat, at: state, to: end });
                g.here(there);
            } else {
                g.op(Op::MatRead { mat, at: state, to: end });
            }
        })
    }

    /// The rows of a recursion that is read here alone, as they are made: its columns are the relation's.
    pub fn streamed_rows(
        &mut self,
        rel: u16,
        number: u16,
        node: &'a Node<'a>,
        consume: Consume<'_, 'a>,
    ) -> SqlResult<()> {
        let rows = self.with(number)?.rows;
        self.produce(&rows.node, &mut |g, next| {
            let first = g.span(rows.output.iter().copied())?.first;
            g.put(rel, Source::Registers { first })?;
            g.passed(node, next, consume)
        })
    }

    /// The rows of a list as those of a relation: `read` goes to the next, or to its label if there is none.
    pub fn read_list(
        &mut self,
        rel: u16,
        mat: Mat,
        node: &'a Node<'a>,
        consume: Consume<'_, 'a>,
        read: &mut dyn FnMut(&mut Gen<'a>, Label),
    ) -> SqlResult<()> {
        let used: Vec<u16> = self.place(rel)?.used.iter().copied().collect();
        // Other readers move the list's own place: what is used of a row is taken at once.
        let width = self.width(rel);
        let first = self.registers(width);
        let (next, end) = (self.label(), self.label());
        let mark = self.mark();
        self.here(next);
        let reset = self.reset(mark);
        read(self, end);
        for column in used {
            self.op(Op::MatCol { dst: Out(first + column), mat, column: Col(column) });
        }
        self.put(rel, Source::Registers { first })?;
        self.passed(node, next, consume)?;
        self.jump(next);
        self.here(end);
        self.end_turns(mark, reset);
        Ok(())
    }
}
