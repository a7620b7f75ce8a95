//! Grouping: when two expressions are the same, and what may be said after GROUP BY.

use super::tree::at_expr;
use crate::bound::{Aggregate, CTID, Expr, ExprKind, Query, Rel, SortKey, walk_expr_mut};
use crate::imply::same_by;
use ondol_types::{SqlError, SqlResult, sqlstate};

/// Puts an aggregate on a list, unless it is there. `None`: there are too many to be numbered.
pub fn add_aggregate(list: &mut Vec<Aggregate>, new: Aggregate) -> Option<u16> {
    let same_filter = |a: &Aggregate| match (&a.filter, &new.filter) {
        (None, None) => true,
        (Some(a), Some(b)) => same(a, b),
        _ => false,
    };
    let same_order = |a: &Aggregate| {
        let key = |(a, b): (&SortKey, &SortKey)| {
            a.desc == b.desc && a.nulls_first == b.nulls_first && same(&a.expr, &b.expr)
        };
        a.order.len() == new.order.len() && a.order.iter().zip(&new.order).all(key)
    };
    let same_args = |a: &Aggregate| {
        a.args.len() == new.args.len() && a.args.iter().zip(&new.args).all(|(a, b)| same(a, b))
    };
    let found = list.iter().position(|a| {
        a.agg == new.agg && a.distinct == new.distinct && same_order(a) && same_args(a) && same_filter(a)
    });
    let i = found.unwrap_or_else(|| {
        list.push(new);
        list.len() - 1
    });
    u16::try_from(i).ok()
}

/// Whether two expressions of one query always have the same value. Subqueries are never the same.
pub fn same(a: &Expr, b: &Expr) -> bool {
    same_below(a, b, 0)
}

/// The same, where `b` stands `level` levels further in than `a`.
fn same_below(a: &Expr, b: &Expr, level: u16) -> bool {
    use ExprKind as K;
    same_by(a, b, &|a, b| match (&a.kind, &b.kind) {
        (K::Column { depth: d, rel: r, column: c }, K::Column { depth, rel, column }) => {
            Some(d + level == *depth && r == rel && c == column)
        }
        (K::Group(x), K::Group(y)) => Some(x == y && level == 0),
        (K::Aggregate { depth: d, index: i }, K::Aggregate { depth, index })
        | (K::Window { depth: d, index: i }, K::Window { depth, index })
        | (K::GroupOuter { depth: d, index: i }, K::GroupOuter { depth, index }) => {
            Some(d + level == *depth && i == index)
        }
        (K::Cast { explicit: e, .. }, K::Cast { explicit: f, .. }) if e != f => Some(false),
        _ => None,
    })
}

/// Rewrites what is evaluated after grouping so that it refers to columns of its level only through group
/// columns and aggregates (bound/B2).
pub fn apply(query: &mut Query) -> SqlResult<()> {
    let mut targets = std::mem::take(&mut query.targets);
    let mut having = query.having.take();
    let result =
        targets.iter_mut().map(|t| &mut t.expr).chain(having.as_mut()).try_for_each(|e| rewrite(query, e));
    query.targets = targets;
    query.having = having;
    result?;
    let (mut windows, mut calls) =
        (std::mem::take(&mut query.windows), std::mem::take(&mut query.window_calls));
    let exprs = windows.iter_mut().flat_map(|w| w.exprs_mut());
    let result =
        (exprs.chain(calls.iter_mut().flat_map(|c| c.exprs_mut()))).try_for_each(|e| rewrite(query, e));
    (query.windows, query.window_calls) = (windows, calls);
    result?;
    for rel in query.places.clone() {
        let Rel::Places { values, .. } = &mut query.rels[usize::from(rel)].rel else { continue };
        let mut values = std::mem::take(values);
        values.iter_mut().try_for_each(|e| rewrite(query, e))?;
        if let Rel::Places { values: place, .. } = &mut query.rels[usize::from(rel)].rel {
            *place = values;
        }
    }
    Ok(())
}

fn rewrite(query: &mut Query, e: &mut Expr) -> SqlResult<()> {
    let mut error = None;
    walk_expr_mut(e, 0, &mut |e, level| {
        if error.is_some() {
            return false;
        }
        if let Some(i) = query.group_by.iter().position(|g| same_below(g, e, level)) {
            e.kind = group(i, level);
            return false;
        }
        let ExprKind::Column { depth, rel, column } = e.kind else { return true };
        if depth != level {
            return true;
        }
        if query.places.contains(&rel) {
            return false;
        }
        if depends_on_key(query, rel) {
            let kind = ExprKind::Column { depth: 0, rel, column };
            query.group_by.push(Expr { kind, ty: e.ty, at: e.at });
            e.kind = group(query.group_by.len() - 1, level);
            return false;
        }
        let name = query.rels.get(usize::from(rel)).map_or(String::new(), |r| {
            let own = if column == CTID { "ctid" } else { "" };
            let column = r.columns.get(usize::from(column)).map_or(own, |c| &c.0);
            if r.alias.is_empty() { column.to_string() } else { format!("{}.{column}", r.alias) }
        });
        let message = if level == 0 {
            format!(
                "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
            )
        } else {
            format!("subquery uses ungrouped column \"{name}\" from outer query")
        };
        error = Some(at_expr(SqlError::new(sqlstate::GROUPING_ERROR, message), e.at));
        false
    });
    error.map_or(Ok(()), Err)
}

fn group(i: usize, level: u16) -> ExprKind {
    match level {
        0 => ExprKind::Group(i as u16),
        depth => ExprKind::GroupOuter { depth, index: i as u16 },
    }
}

/// Whether the groups fix the row of a table: all columns of its primary key are grouped by.
fn depends_on_key(query: &Query, rel: u16) -> bool {
    let Some(Rel::Table(table)) = query.rels.get(usize::from(rel)).map(|r| &r.rel) else { return false };
    let Some(key) = table.def.indexes.iter().find(|i| i.primary) else { return false };
    key.columns.iter().all(|k| {
        query.group_by.iter().any(|g| {
            matches!(g.kind, ExprKind::Column { depth: 0, rel: r, column } if r == rel && usize::from(column) == k.column)
        })
    })
}
