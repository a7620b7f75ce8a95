//! WITH RECURSIVE.
//!
//! - **R1** What a query of the clause rests on is told by names alone, before any of them is bound: so they
//!   are bound each behind those that it rests on, and one that rests on itself is known to.
//! - **R2** Such a query is a UNION. Its columns have the types of the first side; the second side sees them
//!   as a relation, and the common types must come out the same.
//! - **R3** The columns that SEARCH and CYCLE add ([`super::trail`]) are seen by their names within the
//!   query, and not by `*`.
use super::Binder;
use super::dml::node_place;
use super::scope::{Clause, Cte};
use super::select::with_columns;
use super::tree::{at, at_expr, kind, need, unexpected};
use crate::bound::{Expr, ExprKind, From, Query, Rel, RelEntry, Target, With, walk_expr};
use crate::parse::names::{self, Around};
use crate::parse::tree::{CommonTableExpr, RangeVar, SelectStmt, SetOperation as Op, node::Node as Kind};
use ondol_types::{SqlError, SqlResult, Type, TypeId, sqlstate};
use std::collections::BTreeSet;

/// A query of a WITH clause.
pub struct Item<'a> {
    pub query: &'a CommonTableExpr,
    pub reads_itself: bool,
    rests_on: BTreeSet<usize>,
}

fn invalid(message: String, location: i32) -> SqlError {
    at(SqlError::new(sqlstate::INVALID_RECURSION, message), location)
}

fn not_implemented(what: &str, location: i32) -> SqlError {
    let message = format!("{what} is not implemented");
    at(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), location)
}

/// The queries of WITH RECURSIVE, each behind those that it rests on (R1). Those that read themselves have a
/// form that may.
pub fn in_order<'a>(list: &[&'a CommonTableExpr]) -> SqlResult<Vec<Item<'a>>> {
    let mut left: Vec<(usize, Item<'a>)> = Vec::with_capacity(list.len());
    for (n, c) in list.iter().copied().enumerate() {
        let mut item = Item { query: c, reads_itself: false, rests_on: BTreeSet::new() };
        names::in_query(need(&c.ctequery)?, Around::Free, &mut |v: &RangeVar, _| -> SqlResult<()> {
            match list.iter().position(|o| o.ctename == v.relname) {
                Some(of) if of == n => item.reads_itself = true,
                Some(of) => {
                    item.rests_on.insert(of);
                }
                None => {}
            }
            Ok(())
        })?;
        left.push((n, item));
    }
    let mut ordered = Vec::with_capacity(list.len());
    while !left.is_empty() {
        let Some(next) = left.iter().position(|(_, i)| i.rests_on.is_empty()) else {
            return Err(not_implemented("mutual recursion between WITH items", left[0].1.query.location));
        };
        // As PostgreSQL does, which has them in this order in views.
        left.swap(0, next);
        let (n, item) = left.remove(0);
        for (_, i) in &mut left {
            i.rests_on.remove(&n);
        }
        ordered.push(item);
    }
    for item in ordered.iter().filter(|i| i.reads_itself) {
        check_form(item.query)?;
    }
    Ok(ordered)
}

/// Whether a query may read itself as it is written.
fn check_form(c: &CommonTableExpr) -> SqlResult<()> {
    let name = &c.ctename;
    let Kind::SelectStmt(s) = kind(need(&c.ctequery)?)? else {
        let message = format!("recursive query \"{name}\" must not contain data-modifying statements");
        return Err(invalid(message, c.location));
    };
    let (Op::SetopUnion, Some(first), Some(second)) = (s.op(), &s.larg, &s.rarg) else {
        let message = format!(
            "recursive query \"{name}\" does not have the form non-recursive-term UNION [ALL] recursive-term"
        );
        return Err(invalid(message, c.location));
    };
    let mut count = 0;
    let mut look = |v: &RangeVar, around| {
        let place = match around {
            _ if v.relname != *name => return Ok(()),
            Around::Free => {
                count += 1;
                if count == 1 {
                    return Ok(());
                }
                "more than once"
            }
            Around::FirstTerm => "within its non-recursive term",
            Around::Expression => "within a subquery",
            Around::OuterJoin => "within an outer join",
            Around::Intersect => "within INTERSECT",
            Around::Except => "within EXCEPT",
        };
        let message = format!("recursive reference to query \"{name}\" must not appear {place}");
        Err(invalid(message, v.location))
    };
    if let Some(with) = &s.with_clause {
        names::in_with(with, Around::Expression, &mut look)?;
    }
    for (node, what) in [
        (s.sort_clause.first(), "ORDER BY"),
        (s.limit_offset.as_deref(), "OFFSET"),
        (s.limit_count.as_deref(), "LIMIT"),
        (s.locking_clause.first(), "FOR UPDATE/SHARE"),
    ] {
        if let Some(node) = node {
            let node = match &node.node {
                Some(Kind::SortBy(s)) => need(&s.node)?,
                _ => node,
            };
            let error = not_implemented(&format!("{what} in a recursive query"), -1);
            return Err(at_expr(error, node_place(node)));
        }
    }
    names::in_select(first, Around::FirstTerm, &mut look)?;
    names::in_select(second, Around::Free, &mut look)
}

/// The error of aggregates where the rows of the last turn are read.
pub fn no_aggregates<'e>(exprs: impl Iterator<Item = &'e Expr>) -> SqlError {
    let mut place = u32::MAX;
    for e in exprs {
        walk_expr(e, 0, &mut |e, level| {
            if place == u32::MAX && matches!(e.kind, ExprKind::Aggregate { depth, .. } if depth == level) {
                place = e.at;
            }
            place == u32::MAX
        });
    }
    let message = "aggregate functions are not allowed in a recursive query's recursive term";
    at_expr(SqlError::new(sqlstate::INVALID_RECURSION, message), place)
}

impl<'a> Binder<'a> {
    /// Whether one of the relations is a recursion that is being bound.
    pub(super) fn reads_last_turn(&self, rels: &[RelEntry]) -> bool {
        rels.iter().any(|r| matches!(r.rel, Rel::With(n) if self.recursions.contains(&n)))
    }

    /// A WITH query that reads itself, its columns (R2), and how many of those are SEARCH's and CYCLE's.
    pub(super) fn recursive_query(
        &mut self,
        c: &'a CommonTableExpr,
        s: &'a SelectStmt,
        number: u16,
    ) -> SqlResult<(Query, Vec<(String, Type)>, usize)> {
        let ((query, columns, unstarred), with) = self.with_clause(s.with_clause.as_ref(), |b| {
            b.nested(Clause::From, |b| b.recursive_union(c, s, number)).map(|done| done.0)
        })?;
        Ok((Query { with, ..query }, columns, unstarred))
    }

    fn recursive_union(
        &mut self,
        c: &'a CommonTableExpr,
        s: &'a SelectStmt,
        number: u16,
    ) -> SqlResult<(Query, Vec<(String, Type)>, usize)> {
        let (Some(first), Some(second)) = (s.larg.as_deref(), s.rarg.as_deref()) else {
            return Err(unexpected("a recursion of one query"));
        };
        let trail = self.trail(c)?;
        let first = self.select(first)?;
        let of_first = first.columns().into_iter().map(|(name, ty)| match ty.id {
            TypeId::UNKNOWN => (name, Type::TEXT),
            _ => (name, ty),
        });
        let own = with_columns(c, of_first.collect())?;
        let mut seen = own.clone();
        trail.add_seen(&mut seen);
        self.recursions.push(number);
        let known = self.ctes.len();
        let with = placeholder(c, number, &first, &own);
        let unstarred = seen.len() - own.len();
        self.ctes.push(Cte { with, columns: seen, unstarred, behind: usize::MAX });
        let second = self.select(second);
        self.ctes.truncate(known);
        self.recursions.pop();
        let second = second?;
        let places: Vec<u32> = first.visible().map(|t| t.expr.at).collect();
        let operation = (crate::bound::SetOperation::Union, "UNION");
        let mut query = self.set_of(s, operation, first, second)?;
        for (n, ((_, ty), t)) in own.iter().zip(&query.targets).enumerate() {
            if *ty != t.expr.ty {
                let message = format!(
                    "recursive query \"{}\" column {} has type {} in non-recursive term but type {} overall",
                    c.ctename,
                    n + 1,
                    ty,
                    t.expr.ty
                );
                let error = SqlError::new(sqlstate::DATATYPE_MISMATCH, message)
                    .hint("Cast the output of the non-recursive term to the correct type.");
                return Err(at_expr(error, places.get(n).copied().unwrap_or(u32::MAX)));
            }
        }
        trail.check(c, &own, &query)?;
        let mut columns = own.clone();
        trail.add_columns(&mut columns);
        if self.is_verbatim() {
            self.note_trail(number, trail);
        } else {
            self.follow(c, &trail, &mut query, &own, number)?;
        }
        let unstarred = columns.len() - own.len();
        Ok((query, columns, unstarred))
    }
}

/// A recursion whose second side is not bound yet: what its columns are made of is known by the first.
fn placeholder(c: &CommonTableExpr, number: u16, first: &Query, own: &[(String, Type)]) -> With {
    let targets = own.iter().enumerate().map(|(n, (name, ty))| Target {
        expr: super::scope::column(0, n, *ty),
        name: name.clone(),
        hidden: false,
    });
    let entry = RelEntry {
        rel: Rel::Query(Box::new(first.clone())),
        alias: c.ctename.clone(),
        columns: own.to_vec(),
    };
    let query =
        Query { rels: vec![entry], from: vec![From::Rel(0)], targets: targets.collect(), ..Query::default() };
    let name = c.ctename.clone();
    With { number, name, query, uses: 0, recursive: true, materialized: None }
}
