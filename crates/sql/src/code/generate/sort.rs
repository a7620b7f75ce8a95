//! Code for sorts.
use super::super::op::Op;
use super::super::operand::*;
use super::super::program::SortKey;
use super::expr::has_blanks;
use super::join::{Kept, places};
use super::{Consume, Gen, Stored, internal};
use crate::plan::logical::ExprKind;
use crate::plan::physical::{Node, Operator};
use ondol_types::{SqlResult, Value};

impl<'a> Gen<'a> {
    /// The columns that are used above are kept, side by side; then come the keys that are none of these.
    pub fn sort(&mut self, node: &'a Node<'a>, consume: Consume<'_, 'a>) -> SqlResult<()> {
        let Operator::Sort { input, keys, bounded, by_identity } = &node.operator else {
            return Err(internal("no sort"));
        };
        let limit = self.limit.take().filter(|_| *bounded && !by_identity);
        let rels = input.rels();
        let kept = match by_identity {
            true => self.identities(&rels)?,
            false => self.kept_columns(&rels)?,
        };
        let mut further = Vec::new();
        let mut by = Vec::new();
        for k in *keys {
            let at = match k.expr.kind {
                ExprKind::Column { rel, column, .. } if !has_blanks(k.expr.ty) => {
                    kept.iter().position(|p| *p == (rel, Kept::Column(column)))
                }
                _ => None,
            };
            let column = at.unwrap_or_else(|| {
                further.push(&k.expr);
                kept.len() + further.len() - 1
            });
            by.push(SortKey { column: column as u16, desc: k.desc, nulls_first: k.nulls_first });
        }
        let width = kept.len() + further.len();
        let sort = self.new_sort(width, by);
        self.op(Op::SortClear { sort });
        if let Some((left, skipped)) = limit {
            let r = self.register();
            let skipped = match skipped {
                Some(o) => o,
                None => self.constant(&Value::Int8(0)),
            };
            self.op(Op::LimitSum { dst: Out(r), a: Reg(left), b: Reg(skipped) });
            self.op(Op::SortLimit { sort, a: Reg(r) });
        }
        self.tally_start(node.number);
        self.produce(input, &mut |g, _next| {
            let row = match g.standing_span(&kept).filter(|_| further.is_empty()) {
                Some(row) => row,
                None => {
                    let first = g.registers(width);
                    g.load_kept(&kept, first)?;
                    for (n, e) in further.iter().enumerate() {
                        g.comparable_into(e, first + (kept.len() + n) as u16)?;
                    }
                    Span::new(first, width)
                }
            };
            g.op(Op::SortPut { sort, row });
            Ok(())
        })?;
        let (again, over) = (self.label(), self.label());
        self.op(Op::SortRun { sort });
        let mark = self.mark();
        self.here(again);
        let reset = self.reset(mark);
        self.op(Op::SortNext { sort, to: over });
        match by_identity {
            true => self.reread(&rels, sort, &kept, again)?,
            false => self.stored(&places(&rels, &kept, 0), Stored::Sort(sort))?,
        }
        self.passed(node, again, consume)?;
        self.jump(again);
        self.here(over);
        self.end_turns(mark, reset);
        Ok(())
    }
}
