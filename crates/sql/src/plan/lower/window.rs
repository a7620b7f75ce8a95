//! Windows of a query, as operators one upon the other.
//!
//! - **W1** Those that share an order stand beside each other, the longer one below, so that rows that were
//!   sorted for it are in order for the others. It is PostgreSQL's order of windows, since rows come out by
//!   it where nothing else orders them. Windows that no function is computed over are not there.
//! - **W2** A key of a window that calls something volatile is computed once for each row, below all windows:
//!   the sort and the window would have two values of it.
use super::{Lower, internal};
use crate::bind::same;
use crate::bound::{self, ExprKind, FrameEnd, Query};
use crate::plan::logical::{Expr, Frame, Logical, SortBy, Window, WindowCall, column};
use ondol_types::func::Volatility;
use ondol_types::{SqlResult, Type, Value};
use std::cmp::Ordering;

/// A key of a window: the expression, and its place among those that the query sorts or groups by.
struct Key<'b> {
    expr: &'b bound::Expr,
    number: usize,
    desc: bool,
    nulls_first: bool,
}

/// The keys of a window, those of partitions first, and how many these are. A partition's key that is one of
/// the order as well has its direction.
fn keys<'b>(w: &'b bound::Window, numbered: &[bound::Expr]) -> (Vec<Key<'b>>, usize) {
    let number = |e: &bound::Expr| numbered.iter().position(|o| same(o, e)).unwrap_or(0);
    let mut keys: Vec<Key<'b>> = Vec::new();
    for expr in &w.partition {
        let of_order = w.order.iter().find(|k| same(&k.expr, expr));
        let (desc, nulls_first) = of_order.map_or((false, false), |k| (k.desc, k.nulls_first));
        keys.push(Key { expr, number: number(expr), desc, nulls_first });
    }
    let partition = keys.len();
    for k in &w.order {
        let number = number(&k.expr);
        if !keys.iter().any(|o| o.number == number) {
            keys.push(Key { expr: &k.expr, number, desc: k.desc, nulls_first: k.nulls_first });
        }
    }
    (keys, partition)
}

/// W1
fn order(a: &[Key<'_>], b: &[Key<'_>]) -> Ordering {
    let key = |(a, b): (&Key<'_>, &Key<'_>)| {
        (b.number.cmp(&a.number)).then(b.desc.cmp(&a.desc)).then(b.nulls_first.cmp(&a.nulls_first))
    };
    let first = a.iter().zip(b).map(key).find(|o| o.is_ne());
    first.unwrap_or_else(|| b.len().cmp(&a.len()))
}

/// The expressions that a query sorts or groups by, in the order in which PostgreSQL meets them: ORDER BY,
/// GROUP BY, DISTINCT, then the windows' own, of each its order first.
fn numbered(q: &Query) -> Vec<bound::Expr> {
    let mut list: Vec<bound::Expr> = Vec::new();
    let mut add = |e: &bound::Expr| {
        if !list.iter().any(|o| same(o, e)) {
            list.push(e.clone())
        }
    };
    q.order_by.iter().for_each(|k| add(&q.targets[k.target].expr));
    for (n, e) in q.group_by.iter().enumerate() {
        add(&bound::Expr { kind: ExprKind::Group(n as u16), ty: e.ty, at: u32::MAX })
    }
    q.visible().filter(|_| q.distinct).for_each(|t| add(&t.expr));
    q.distinct_on.iter().for_each(|t| add(&q.targets[*t].expr));
    for w in &q.windows {
        w.order.iter().map(|k| &k.expr).chain(&w.partition).for_each(&mut add)
    }
    list
}

impl<'b> Lower<'b, '_> {
    pub(super) fn windows(&mut self, q: &'b Query, mut tree: Logical) -> SqlResult<Logical> {
        let numbered = numbered(q);
        let is_active = |n: &usize| q.window_calls.iter().any(|c| usize::from(c.window) == *n);
        let mut list: Vec<(usize, Vec<Key<'b>>, usize)> = (0..q.windows.len())
            .filter(is_active)
            .map(|n| {
                let (keys, partition) = keys(&q.windows[n], &numbered);
                (n, keys, partition)
            })
            .collect();
        list.sort_by(|a, b| order(&a.1, &b.1));
        let computed = self.volatile_keys(&list, &mut tree)?;
        let mut places = vec![(0, 0); q.window_calls.len()];
        for (n, keys, partition) in list {
            let w = &q.windows[n];
            let mut sort = Vec::with_capacity(keys.len());
            for k in &keys {
                let expr = match computed.iter().find(|c| c.0 == k.number) {
                    Some((_, column)) => column.clone(),
                    None => self.expr(k.expr)?,
                };
                sort.push(SortBy { expr, desc: k.desc, nulls_first: k.nulls_first });
            }
            let (start, end) = (self.frame_end(&w.frame.start)?, self.frame_end(&w.frame.end)?);
            let has_distance = start.offset().is_some() || end.offset().is_some();
            let frame = Frame {
                unit: w.frame.unit,
                start,
                end,
                exclude: w.frame.exclude,
                is_written: w.frame.is_written,
                is_between: w.frame.is_between,
            };
            let range = match w.order.first() {
                Some(k) if has_distance && w.frame.unit == bound::FrameUnit::Range => {
                    let found = keys.iter().position(|o| same(o.expr, &k.expr));
                    let n = found.ok_or_else(|| internal("a window without its order"))?;
                    Some(SortBy { desc: k.desc, nulls_first: k.nulls_first, ..sort[n].clone() })
                }
                _ => None,
            };
            let mut calls = Vec::new();
            let mut columns = Vec::new();
            for (place, c) in q.window_calls.iter().enumerate().filter(|c| usize::from(c.1.window) == n) {
                places[place].1 = calls.len() as u16;
                columns.push((place, c.ty));
                calls.push(WindowCall {
                    window: c.window,
                    what: c.what,
                    args: self.exprs(&c.args)?,
                    filter: self.optional(&c.filter)?,
                    ty: c.ty,
                });
            }
            let rel = self.relation("", columns.iter().map(|c| (String::new(), c.1)).collect())?;
            columns.iter().for_each(|c| places[c.0].0 = rel);
            let window = Box::new(Window { keys: sort, partition, range, frame });
            tree = Logical::Window { rel, input: Box::new(tree), window, calls };
        }
        self.this()?.windows = places;
        Ok(tree)
    }

    /// W2: the columns that stand for such keys, by their numbers.
    fn volatile_keys(
        &mut self,
        list: &[(usize, Vec<Key<'b>>, usize)],
        tree: &mut Logical,
    ) -> SqlResult<Vec<(usize, Expr)>> {
        let mut found: Vec<&Key<'b>> = Vec::new();
        for k in list.iter().flat_map(|w| &w.1) {
            if k.expr.calls(Volatility::Volatile) && !found.iter().any(|f| f.number == k.number) {
                found.push(k)
            }
        }
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let values = self.exprs(found.iter().map(|k| k.expr))?;
        let place = ("place".to_string(), Type::INT8);
        let names = std::iter::once(place).chain(values.iter().map(|v| (String::new(), v.ty)));
        let rel = self.relation("", names.collect())?;
        let columns = found.iter().enumerate().map(|(n, k)| (k.number, column(rel, n + 1, k.expr.ty)));
        let columns = columns.collect();
        let stop = Expr { kind: ExprKind::Const(Value::Int8(1)), ty: Type::INT8, at: u32::MAX };
        let input = Box::new(std::mem::replace(tree, Logical::Nothing));
        *tree = Logical::ProjectSet { rel, input, values, stop };
        Ok(columns)
    }

    fn frame_end(&mut self, end: &'b FrameEnd) -> SqlResult<FrameEnd<crate::plan::logical::Inside>> {
        Ok(match end {
            FrameEnd::Unbounded => FrameEnd::Unbounded,
            FrameEnd::CurrentRow => FrameEnd::CurrentRow,
            FrameEnd::Preceding(e) => FrameEnd::Preceding(Box::new(self.expr(e)?)),
            FrameEnd::Following(e) => FrameEnd::Following(Box::new(self.expr(e)?)),
        })
    }
}
