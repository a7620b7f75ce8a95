//! ORDER BY, GROUP BY and DISTINCT: finding what they mean among a query's targets.

use super::scope::Clause;
use super::tree::{at, at_expr, kind, need, refuse_at, strings, unexpected};
use super::{Binder, constant, group};
use crate::bound::{Expr, ExprKind, OrderKey, SortKey, Target, walk_expr};
use crate::parse::tree::{Node, SortByDir, SortByNulls, a_const::Val, node::Node as Kind};
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, sqlstate};

impl<'a> Binder<'a> {
    /// The target that a number or a name means: `ORDER BY 1`, `ORDER BY total`.
    fn by_place_or_name(
        &mut self,
        node: &'a Node,
        targets: &[Target],
        clause: &str,
        columns_first: bool,
    ) -> SqlResult<Option<usize>> {
        match kind(node)? {
            Kind::AConst(c) => {
                let n = match &c.val {
                    Some(Val::Ival(i)) => i.ival,
                    _ => {
                        let message = format!("non-integer constant in {clause}");
                        return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), c.location));
                    }
                };
                let visible = targets.iter().filter(|t| !t.hidden).count();
                match usize::try_from(n) {
                    // The visible ones come first.
                    Ok(n) if n >= 1 && n <= visible => Ok(Some(n - 1)),
                    _ => {
                        let message = format!("{clause} position {n} is not in select list");
                        Err(at(SqlError::new(sqlstate::INVALID_COLUMN_REFERENCE, message), c.location))
                    }
                }
            }
            Kind::ColumnRef(c) => {
                let Ok([name]) =
                    strings(&c.fields).as_deref().map(|n| <[&str; 1]>::try_from(n).unwrap_or([""]))
                else {
                    return Ok(None);
                };
                if name.is_empty() {
                    return Ok(None);
                }
                if columns_first && self.names_own_column(name) {
                    return Ok(None);
                }
                let mut found: Option<usize> = None;
                for (i, t) in targets.iter().enumerate().filter(|(_, t)| !t.hidden && t.name == name) {
                    match found {
                        Some(f) if !group::same(&targets[f].expr, &t.expr) => {
                            let message = format!("{clause} \"{name}\" is ambiguous");
                            return Err(at(SqlError::new(sqlstate::AMBIGUOUS_COLUMN, message), c.location));
                        }
                        Some(_) => {}
                        None => found = Some(i),
                    }
                }
                Ok(found)
            }
            _ => Ok(None),
        }
    }

    /// Whether the query itself has a column of that name, which GROUP BY takes before a target's name.
    fn names_own_column(&mut self, name: &str) -> bool {
        let depth_zero = |e: Expr| {
            let mut own = false;
            walk_expr(&e, 0, &mut |e, _| {
                own |= matches!(e.kind, ExprKind::Column { depth: 0, .. });
                true
            });
            own
        };
        match self.resolve_column(&[name], -1) {
            Ok(e) => depth_zero(e),
            Err(e) => e.sqlstate() == sqlstate::AMBIGUOUS_COLUMN,
        }
    }

    /// GROUP BY.
    pub(super) fn group_clause(&mut self, nodes: &'a [Node], targets: &mut [Target]) -> SqlResult<Vec<Expr>> {
        super::select::check_targets(nodes.len())?;
        let mut list: Vec<Expr> = Vec::with_capacity(nodes.len());
        for node in nodes {
            if let Kind::GroupingSet(g) = kind(node)? {
                return Err(at(
                    SqlError::unsupported("GROUP BY with ROLLUP, CUBE or GROUPING SETS"),
                    g.location,
                ));
            }
            let e = match self.by_place_or_name(node, targets, "GROUP BY", true)? {
                Some(i) => {
                    self.settle_target(&mut targets[i])?;
                    let e = targets[i].expr.clone();
                    self.no_aggregate_in_group(&e)?;
                    e
                }
                None => {
                    let e = self.within(Clause::GroupBy, |b| b.expr(node))?;
                    self.settle(e)?
                }
            };
            super::json::check_comparable(&e, false)?;
            if !list.iter().any(|g| group::same(g, &e)) {
                list.push(e);
            }
        }
        Ok(list)
    }

    fn no_aggregate_in_group(&self, e: &Expr) -> SqlResult<()> {
        let mut found = None;
        walk_expr(e, 0, &mut |e, level| {
            if let ExprKind::Aggregate { depth, .. } = e.kind
                && depth == level
            {
                found.get_or_insert(e.at);
            }
            true
        });
        match found {
            Some(here) => {
                let message = "aggregate functions are not allowed in GROUP BY";
                Err(at_expr(SqlError::new(sqlstate::GROUPING_ERROR, message), here))
            }
            None => match super::window::place_in(e) {
                Some(here) => {
                    let message = "window functions are not allowed in GROUP BY";
                    Err(at_expr(SqlError::new(sqlstate::WINDOWING_ERROR, message), here))
                }
                None => Ok(()),
            },
        }
    }

    fn settle_target(&mut self, target: &mut Target) -> SqlResult<()> {
        if target.expr.ty.id == TypeId::UNKNOWN {
            let e = std::mem::replace(&mut target.expr, constant(Value::Null, Type::UNKNOWN, u32::MAX));
            target.expr = self.settle(e)?;
        }
        Ok(())
    }

    /// ORDER BY in an aggregate: its keys, which are no targets.
    pub(super) fn order_keys(&mut self, nodes: &'a [Node]) -> SqlResult<Vec<SortKey>> {
        let mut keys = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Kind::SortBy(s) = kind(node)? else { return Err(unexpected("ORDER BY")) };
            refuse_at(
                !s.use_op.is_empty() || s.sortby_dir() == SortByDir::SortbyUsing,
                "ORDER BY USING",
                s.location,
            )?;
            let e = self.expr(need(&s.node)?)?;
            let expr = self.settle(e)?;
            super::json::check_comparable(&expr, true)?;
            let (desc, nulls_first) = direction(s);
            keys.push(SortKey { expr, desc, nulls_first });
        }
        Ok(keys)
    }

    /// DISTINCT ON: its keys among the targets, which must be those that ORDER BY begins with.
    pub(super) fn distinct_on(
        &mut self,
        nodes: &'a [Node],
        targets: &mut Vec<Target>,
        order_by: &[OrderKey],
    ) -> SqlResult<Vec<usize>> {
        let (mut on, mut places) = (Vec::new(), Vec::new());
        for node in nodes.iter().filter(|n| n.node.is_some()) {
            let target = match self.by_place_or_name(node, targets, "DISTINCT ON", false)? {
                Some(i) => i,
                None => {
                    let e = self.within(Clause::DistinctOn, |b| b.expr(node))?;
                    let e = self.settle(e)?;
                    self.target_of(e, targets)
                }
            };
            self.settle_target(&mut targets[target])?;
            super::json::check_comparable(&targets[target].expr, false)?;
            if !on.contains(&target) {
                on.push(target);
                places.push(super::dml::node_place(node));
            }
        }
        let leading = order_by.iter().take_while(|k| on.contains(&k.target)).count();
        let is_leading = |t: &usize| order_by[..leading].iter().any(|k| k.target == *t);
        if leading < order_by.len()
            && let Some(wrong) = on.iter().position(|t| !is_leading(t))
        {
            let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
            let error = SqlError::new(sqlstate::INVALID_COLUMN_REFERENCE, message);
            return Err(at_expr(error, places[wrong]));
        }
        Ok(on)
    }

    /// The target that an expression is, or a hidden one more.
    fn target_of(&mut self, e: Expr, targets: &mut Vec<Target>) -> usize {
        targets.iter().position(|t| group::same(&t.expr, &e)).unwrap_or_else(|| {
            targets.push(Target { expr: e, name: String::new(), hidden: true });
            targets.len() - 1
        })
    }

    /// ORDER BY: keys among the targets; what is not among them becomes a hidden one.
    pub(super) fn sort_clause(
        &mut self,
        nodes: &'a [Node],
        targets: &mut Vec<Target>,
        distinct: bool,
    ) -> SqlResult<Vec<OrderKey>> {
        super::select::check_targets(nodes.len())?;
        let mut keys: Vec<OrderKey> = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Kind::SortBy(s) = kind(node)? else { return Err(unexpected("ORDER BY")) };
            refuse_at(
                !s.use_op.is_empty() || s.sortby_dir() == SortByDir::SortbyUsing,
                "ORDER BY USING",
                s.location,
            )?;
            let wanted = need(&s.node)?;
            let target = match self.by_place_or_name(wanted, targets, "ORDER BY", false)? {
                Some(i) => i,
                None => {
                    let e = self.within(Clause::OrderBy, |b| b.expr(wanted))?;
                    let e = self.settle(e)?;
                    match targets.iter().position(|t| group::same(&t.expr, &e)) {
                        Some(i) => i,
                        None if distinct => {
                            let message =
                                "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
                            return Err(at_expr(
                                SqlError::new(sqlstate::INVALID_COLUMN_REFERENCE, message),
                                e.at,
                            ));
                        }
                        None => {
                            targets.push(Target { expr: e, name: String::new(), hidden: true });
                            targets.len() - 1
                        }
                    }
                }
            };
            self.settle_target(&mut targets[target])?;
            super::json::check_comparable(&targets[target].expr, true).map_err(|mut e| {
                // Where it is written as a key.
                e.0.position = None;
                at_expr(e, super::dml::node_place(wanted))
            })?;
            let (desc, nulls_first) = direction(s);
            // A target that is a key already decides nothing more.
            if !keys.iter().any(|k| k.target == target) {
                keys.push(OrderKey { target, desc, nulls_first });
            }
        }
        Ok(keys)
    }

    /// ORDER BY of a set operation: only columns of the result.
    pub(super) fn sort_outcome(
        &mut self,
        nodes: &'a [Node],
        targets: &mut Vec<Target>,
    ) -> SqlResult<Vec<OrderKey>> {
        for node in nodes {
            let Kind::SortBy(s) = kind(node)? else { return Err(unexpected("ORDER BY")) };
            let wanted = need(&s.node)?;
            if self.by_place_or_name(wanted, targets, "ORDER BY", false)?.is_some() {
                continue;
            }
            if let Kind::ColumnRef(c) = kind(wanted)?
                && let [name] = strings(&c.fields).unwrap_or_default()[..]
            {
                // PostgreSQL looks for it in the result only.
                let message = format!("column \"{name}\" does not exist");
                return Err(at(SqlError::new(sqlstate::UNDEFINED_COLUMN, message), c.location));
            }
            let error = SqlError::new(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
            );
            return Err(at_expr(error, super::dml::node_place(wanted))
                .detail("Only result column names can be used, not expressions or functions.")
                .hint("Add the expression/function to every SELECT, or move the UNION into a FROM clause."));
        }
        self.sort_clause(nodes, targets, false)
    }

    /// DISTINCT: the grammar marks it by an empty node, DISTINCT ON by its expressions.
    pub(super) fn distinct_clause(nodes: &[Node]) -> bool {
        nodes.iter().any(|n| n.node.is_none())
    }
}

/// Whether a key is descending, and has its NULLs first.
fn direction(s: &crate::parse::tree::SortBy) -> (bool, bool) {
    let desc = s.sortby_dir() == SortByDir::SortbyDesc;
    let nulls_first = match s.sortby_nulls() {
        SortByNulls::SortbyNullsFirst => true,
        SortByNulls::SortbyNullsLast => false,
        _ => desc,
    };
    (desc, nulls_first)
}
