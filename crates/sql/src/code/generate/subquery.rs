//! Code for subqueries in expressions.
//!
//! - **U1** A subquery that refers to nothing outside it is run at most once in an execution, when its value
//!   is first needed; any other each time its value is needed. So is one that stands for a call of a volatile
//!   function.
//! - **U2** What a subquery gives is kept in a list or hash table until it is asked for: its own temporaries
//!   are gone by then.
//! - **U3** `x IN (...)` over a subquery of U1 with one column is a look into a hash table. With S the
//!   subquery's values: false if S is empty; NULL if x is NULL; true if x is in S; NULL if S holds a NULL;
//!   else false. NOT IN is `<> ALL`, its negation.
use super::super::op::Op;
use super::super::operand::*;
use super::{Gen, internal};
use crate::plan::classify::{Comparison, comparison, hashable};
use crate::plan::logical::{Expr, Inside};
use crate::plan::physical::Subplan;
use ondol_types::func::FuncId;
use ondol_types::ty::Class;
use ondol_types::{SqlResult, TypeId};

impl<'a> Gen<'a> {
    fn rows_of(&self, q: &Inside) -> SqlResult<&'a Subplan<'a>> {
        self.queries.get(q.number as usize).ok_or_else(|| internal("a subquery that is nowhere"))
    }

    /// Runs `code` under U1.
    fn unless_done(
        &mut self,
        q: &Inside,
        code: &mut dyn FnMut(&mut Gen<'a>) -> SqlResult<()>,
    ) -> SqlResult<()> {
        if q.is_once() { self.once(code) } else { code(self) }
    }

    /// The single value of a query.
    pub fn scalar(&mut self, q: &'a Inside, ty: TypeId, dst: u16) -> SqlResult<()> {
        let rows = self.rows_of(q)?;
        let seen = self.register();
        if needs_no_memory(ty) {
            // The register itself keeps it.
            let kept = self.register();
            self.unless_done(q, &mut |g| {
                g.op(Op::Null { dst: Out(kept) });
                g.op(Op::Bool { dst: Out(seen), value: Flag(false) });
                g.produce(&rows.node, &mut |g, _next| {
                    let first = g.span(rows.output.iter().copied())?.first;
                    let one = g.label();
                    g.op(Op::IfNot { a: Reg(seen), to: one });
                    g.op(Op::Raise { what: Fault::MoreThanOneRow });
                    g.here(one);
                    g.op(Op::Bool { dst: Out(seen), value: Flag(true) });
                    g.op(Op::Move { dst: Out(kept), a: Reg(first) });
                    Ok(())
                })
            })?;
            self.op(Op::Move { dst: Out(dst), a: Reg(kept) });
            return Ok(());
        }
        let mat = self.mat(1);
        self.unless_done(q, &mut |g| {
            g.op(Op::MatClear { mat });
            g.op(Op::Bool { dst: Out(seen), value: Flag(false) });
            g.produce(&rows.node, &mut |g, _next| {
                let row = g.span(rows.output.iter().copied())?;
                let one = g.label();
                g.op(Op::IfNot { a: Reg(seen), to: one });
                g.op(Op::Raise { what: Fault::MoreThanOneRow });
                g.here(one);
                g.op(Op::Bool { dst: Out(seen), value: Flag(true) });
                g.op(Op::MatPut { mat, row });
                Ok(())
            })
        })?;
        let end = self.label();
        self.op(Op::Null { dst: Out(dst) });
        self.op(Op::MatRewind { mat });
        self.op(Op::MatNext { mat, to: end });
        self.op(Op::MatCol { dst: Out(dst), mat, column: Col(0) });
        self.here(end);
        Ok(())
    }

    pub fn exists(&mut self, q: &'a Inside, negated: bool, dst: u16) -> SqlResult<()> {
        let rows = self.rows_of(q)?;
        let found = self.register();
        self.unless_done(q, &mut |g| {
            let over = g.label();
            g.op(Op::Bool { dst: Out(found), value: Flag(negated) });
            g.produce(&rows.node, &mut |g, _next| {
                g.op(Op::Bool { dst: Out(found), value: Flag(!negated) });
                g.jump(over);
                Ok(())
            })?;
            g.here(over);
            Ok(())
        })?;
        self.op(Op::Move { dst: Out(dst), a: Reg(found) });
        Ok(())
    }

    /// `left op ANY/ALL (query)`
    pub fn quantified(
        &mut self,
        left: &'a [Expr],
        q: &'a Inside,
        ops: &[FuncId],
        all: bool,
        dst: u16,
    ) -> SqlResult<()> {
        if let ([one], [op], true) = (left, ops, q.is_once())
            && hashed(*op, all)
        {
            return self.hashed_in(one, q, all, dst);
        }
        let rows = self.rows_of(q)?;
        let out = Out(dst);
        let mut registers = Vec::new();
        for e in left {
            registers.push(self.expr(e)?);
        }
        // Over a kept list when it can be kept, so that it is run once.
        let width = left.len();
        if q.is_once() {
            let mat = self.mat(width);
            self.unless_done(q, &mut |g| {
                g.op(Op::MatClear { mat });
                g.produce(&rows.node, &mut |g, _next| {
                    let row = g.span(rows.output.iter().copied())?;
                    g.op(Op::MatPut { mat, row });
                    Ok(())
                })
            })?;
            let (again, end) = (self.label(), self.label());
            self.op(Op::Bool { dst: out, value: Flag(all) });
            self.op(Op::MatRewind { mat });
            let mark = self.mark();
            self.here(again);
            let reset = self.reset(mark);
            self.op(Op::MatNext { mat, to: end });
            let first = self.registers(width);
            for c in 0..width as u16 {
                self.op(Op::MatCol { dst: Out(first + c), mat, column: Col(c) });
            }
            self.one_of(&registers, first, ops, all, dst, end)?;
            self.jump(again);
            self.here(end);
            self.end_turns(mark, reset);
            return Ok(());
        }
        let end = self.label();
        self.op(Op::Bool { dst: out, value: Flag(all) });
        self.produce(&rows.node, &mut |g, _next| {
            let first = g.span(rows.output.iter().copied())?.first;
            g.one_of(&registers, first, ops, all, dst, end)
        })?;
        self.here(end);
        Ok(())
    }

    /// Takes one row into the three-valued outcome: ANY ends at the first true, ALL at the first false; a
    /// NULL stays unless that comes.
    fn one_of(
        &mut self,
        left: &[u16],
        right: u16,
        ops: &[FuncId],
        all: bool,
        dst: u16,
        end: Label,
    ) -> SqlResult<()> {
        let (c, decided, known) = (self.register(), self.label(), self.label());
        for (n, op) in ops.iter().enumerate() {
            let r = right + n as u16;
            if n == 0 {
                self.compare(*op, left[0], r, c)?;
                continue;
            }
            // Rows are equal if all columns are; they differ if any does.
            let d = self.register();
            self.compare(*op, left[n], r, d)?;
            let different = comparison(*op).is_some_and(|c| c.cond == Cond::Ne);
            self.op(if different {
                Op::Or { dst: Out(c), a: Reg(c), b: Reg(d) }
            } else {
                Op::And { dst: Out(c), a: Reg(c), b: Reg(d) }
            });
        }
        let a = Reg(c);
        self.op(if all { Op::IfFalse { a, to: decided } } else { Op::If { a, to: decided } });
        self.op(Op::IfNotNull { a, to: known });
        self.op(Op::Null { dst: Out(dst) });
        self.jump(known);
        self.here(decided);
        self.op(Op::Bool { dst: Out(dst), value: Flag(!all) });
        self.jump(end);
        self.here(known);
        Ok(())
    }

    /// U3. `all`: NOT IN.
    fn hashed_in(&mut self, left: &'a Expr, q: &'a Inside, all: bool, dst: u16) -> SqlResult<()> {
        let rows = self.rows_of(q)?;
        let hash = self.hash(1, 1);
        let has_null = self.register();
        self.unless_done(q, &mut |g| {
            g.op(Op::HashClear { hash });
            g.op(Op::Bool { dst: Out(has_null), value: Flag(false) });
            g.produce(&rows.node, &mut |g, next| {
                let first = g.comparable_span(rows.output.iter().copied())?.first;
                let (put, over) = (g.label(), g.label());
                g.op(Op::IfNotNull { a: Reg(first), to: put });
                g.op(Op::Bool { dst: Out(has_null), value: Flag(true) });
                g.jump(over);
                g.here(put);
                g.op(Op::HashPutNew { hash, row: Span::new(first, 1), to: next });
                g.here(over);
                Ok(())
            })
        })?;
        let x = self.comparable_expr(left)?;
        let out = Out(dst);
        let (absent, null, empty, end) = (self.label(), self.label(), self.label(), self.label());
        let size = self.register();
        self.op(Op::IfNull { a: Reg(x), to: empty });
        self.op(Op::HashFind { hash, key: Span::new(x, 1), to: absent });
        self.op(Op::Bool { dst: out, value: Flag(!all) });
        self.jump(end);
        // x is NULL: unknown, unless there is nothing to compare with.
        self.here(empty);
        self.op(Op::HashSize { dst: Out(size), hash });
        let none = self.label();
        self.op(Op::If { a: Reg(has_null), to: null });
        self.op(Op::IfZero { a: Reg(size), to: none });
        self.jump(null);
        self.here(absent);
        self.op(Op::If { a: Reg(has_null), to: null });
        self.here(none);
        self.op(Op::Bool { dst: out, value: Flag(all) });
        self.jump(end);
        self.here(null);
        self.op(Op::Null { dst: out });
        self.here(end);
        Ok(())
    }
}

/// Whether it is `= ANY` or `<> ALL` of values that a hash table may compare.
fn hashed(op: FuncId, all: bool) -> bool {
    let wanted = if all { Cond::Ne } else { Cond::Eq };
    comparison(op).is_some_and(|c| c.cond == wanted && hashable(&Comparison { cond: Cond::Eq, ..c }))
}

/// Whether a type's values are whole in a register, without memory.
fn needs_no_memory(t: TypeId) -> bool {
    !matches!(t.class(), Class::Numeric | Class::Text | Class::Bytea | Class::Opaque(_))
}
