//! Code for functions over windows.
//!
//! ```text
//!        rows of the input, in the window's order:
//!            WindowPut; of the first row of another partition: Gosub sub, and again
//!        Gosub sub
//!        Jump end
//! sub:   WindowRun
//!        rows of the partition: WindowNext, the functions' values, the consumer's code
//!        Return
//! end:
//! ```
//! - **W1** One partition is kept at a time.
//! - **W2** An argument, a key or a filter is computed once for each row, when it is put in; an argument of
//!   an aggregate with a filter only where that is true.
use super::super::op::Op;
use super::super::operand::*;
use super::super::program::SortKey;
use super::super::window::{CallDef, End, WindowDef};
use super::expr::has_blanks;
use super::join::{Kept, places};
use super::{Consume, Gen, Source, Stored, internal};
use crate::bound::FrameEnd;
use crate::plan::logical::{Expr, ExprKind, Inside, WindowCall, same};
use crate::plan::physical::{Node, Operator};
use ondol_types::SqlResult;
use ondol_types::func::Volatility;

/// What a row holds beside what is kept of the input.
enum Further<'a> {
    /// In the form in which values are compared.
    Key(&'a Expr),
    /// Where the column `filter` is true, if there is one.
    Value { expr: &'a Expr, filter: Option<u16> },
}

/// Where things are in a row of the window.
struct Places<'a> {
    kept: Vec<(u16, Kept)>,
    further: Vec<Further<'a>>,
}

impl<'a> Places<'a> {
    fn kept_at(&self, e: &Expr) -> Option<u16> {
        let ExprKind::Column { rel, column, .. } = e.kind else { return None };
        self.kept.iter().position(|p| *p == (rel, Kept::Column(column))).map(|n| n as u16)
    }

    fn add(&mut self, further: Further<'a>) -> u16 {
        self.further.push(further);
        (self.kept.len() + self.further.len() - 1) as u16
    }

    fn key(&mut self, e: &'a Expr) -> u16 {
        if let Some(at) = self.kept_at(e).filter(|_| !has_blanks(e.ty)) {
            return at;
        }
        let is_it = |f: &Further<'_>| matches!(f, Further::Key(o) if same(o, e));
        match self.further.iter().position(is_it) {
            Some(n) => (self.kept.len() + n) as u16,
            None => self.add(Further::Key(e)),
        }
    }

    fn value(&mut self, e: &'a Expr, filter: Option<u16>) -> u16 {
        if let Some(at) = self.kept_at(e) {
            return at;
        }
        let is_it = |f: &Further<'_>| match f {
            Further::Value { expr, filter: other } => *other == filter && same(expr, e),
            Further::Key(_) => false,
        };
        match self.further.iter().position(is_it).filter(|_| !e.calls(Volatility::Volatile)) {
            Some(n) => (self.kept.len() + n) as u16,
            None => self.add(Further::Value { expr: e, filter }),
        }
    }

    fn call(&mut self, c: &'a WindowCall) -> CallDef {
        let filter = c.filter.as_ref().map(|f| self.value(f, None));
        let args = c.args.iter().map(|e| self.value(e, filter)).collect();
        CallDef { what: c.what, args, filter }
    }
}

fn end_of(e: &FrameEnd<Inside>) -> End {
    match e {
        FrameEnd::Unbounded => End::Unbounded,
        FrameEnd::CurrentRow => End::CurrentRow,
        FrameEnd::Preceding(_) => End::Preceding,
        FrameEnd::Following(_) => End::Following,
    }
}

impl<'a> Gen<'a> {
    pub fn window(&mut self, node: &'a Node<'a>, consume: Consume<'_, 'a>) -> SqlResult<()> {
        let Operator::Window { rel, input, window, calls } = &node.operator else {
            return Err(internal("no window"));
        };
        let rels = input.rels();
        let mut row = Places { kept: self.kept_columns(&rels)?, further: Vec::new() };
        let (partition, order) = window.keys.split_at(window.partition.min(window.keys.len()));
        let partition: Vec<u16> = partition.iter().map(|k| row.key(&k.expr)).collect();
        let order: Vec<u16> = order.iter().map(|k| row.key(&k.expr)).collect();
        let range = window.range.as_ref().map(|k| SortKey {
            column: row.key(&k.expr),
            desc: k.desc,
            nulls_first: k.nulls_first,
        });
        let defs: Vec<CallDef> = calls.iter().map(|c| row.call(c)).collect();
        let width = row.kept.len() + row.further.len();
        let frame = &window.frame;
        let win = self.new_window(WindowDef {
            width: width as u16,
            partition,
            order,
            unit: frame.unit,
            start: end_of(&frame.start),
            end: end_of(&frame.end),
            exclude: frame.exclude,
            range,
            calls: defs,
        });
        self.tally_start(node.number);
        let distances: Vec<&'a Expr> = frame.start.offset().into_iter().chain(frame.end.offset()).collect();
        let distances = self.span(distances.into_iter())?;
        self.op(Op::WindowStart { window: win, distances });
        let (ret, sub, end) = (self.register(), self.label(), self.label());
        self.produce(input, &mut |g, _next| {
            let span = match g.standing_span(&row.kept).filter(|_| row.further.is_empty()) {
                Some(span) => span,
                None => {
                    let first = g.registers(width);
                    g.load_kept(&row.kept, first)?;
                    g.further(&row, first)?;
                    Span::new(first, width)
                }
            };
            let (again, full, done) = (g.label(), g.label(), g.label());
            g.here(again);
            g.op(Op::WindowPut { window: win, row: span, to: full });
            g.jump(done);
            g.here(full);
            g.op(Op::Gosub { ret: Out(ret), to: sub });
            g.jump(again);
            g.here(done);
            Ok(())
        })?;
        self.op(Op::Gosub { ret: Out(ret), to: sub });
        self.jump(end);
        self.here(sub);
        self.op(Op::WindowRun { window: win });
        let first = self.registers(calls.len());
        let (again, over) = (self.label(), self.label());
        let mark = self.mark();
        self.here(again);
        let reset = self.reset(mark);
        self.op(Op::WindowNext { window: win, to: over });
        self.stored(&places(&rels, &row.kept, 0), Stored::Window(win))?;
        for n in 0..calls.len() as u16 {
            self.op(Op::WindowValue { dst: Out(first + n), window: win, call: Col(n) });
        }
        self.put(*rel, Source::Registers { first })?;
        self.passed(node, again, consume)?;
        self.jump(again);
        self.here(over);
        self.end_turns(mark, reset);
        self.op(Op::Return { ret: Reg(ret) });
        self.here(end);
        Ok(())
    }

    /// W2
    fn further(&mut self, row: &Places<'a>, first: u16) -> SqlResult<()> {
        for (n, f) in row.further.iter().enumerate() {
            let dst = first + (row.kept.len() + n) as u16;
            match f {
                Further::Key(e) => self.comparable_into(e, dst)?,
                Further::Value { expr, filter: None } => self.expr_into(expr, dst)?,
                Further::Value { expr, filter: Some(filter) } => {
                    let skip = self.label();
                    self.op(Op::Null { dst: Out(dst) });
                    self.op(Op::IfNot { a: Reg(first + filter), to: skip });
                    self.expr_into(expr, dst)?;
                    self.here(skip);
                }
            }
        }
        Ok(())
    }
}
