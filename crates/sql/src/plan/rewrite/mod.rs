//! Rewrites of the logical tree: each a function of its own, each giving the same rows in another form.
//!
//! - **W1** A rewrite evaluates no expression for a row for which it was not evaluated before, unless the
//!   expression can neither fail nor be told apart when evaluated again: so errors are not raised early, and
//!   volatile functions are called as often as they were. What an EXISTS that becomes a join says of its own
//!   rows is the exception: it is asked of all of them, as PostgreSQL does.
//! - **W2** Relations keep their numbers. A rewrite that takes a relation away puts another expression for
//!   each of its columns, in the whole statement.
//! - **W3** What rows are checked for again when they are locked keeps its own subqueries: a subquery that
//!   becomes a join is copied if something else asks for it.
mod common;
mod derived;
mod equal;
mod exists;
mod fold;
mod hidden;
mod outer;
mod push;
mod scalar;
mod unused;

use super::logical::{Expr, ExprKind, Inside, Logical, Statement};
use crate::bound::{children, inner_query};
use std::collections::HashMap;

/// A rewrite of a whole statement.
pub type Rewrite = fn(&mut Statement);

/// All rewrites by name, in the order in which they help each other.
pub const ALL: &[(&str, Rewrite)] = &[
    ("derived", derived::pull_up),
    ("fold", fold::constants),
    ("common", common::factor),
    ("exists", exists::join),
    ("scalar", scalar::join),
    ("outer", outer::reduce),
    ("equal", equal::carry),
    ("push", push::down),
    ("hidden", hidden::read),
    ("unused", unused::remove),
];

/// How many inputs a join may have; more are left as they are.
pub const MOST_INPUTS: usize = crate::bound::MAX_RELS;

/// The inputs of a tree of joins.
fn inputs(tree: &Logical) -> usize {
    match tree {
        Logical::Filter { input, .. } => inputs(input),
        Logical::Join { left, right, .. } => inputs(left) + inputs(right),
        _ => 1,
    }
}

/// How many expressions ask for each subquery.
fn asked(statement: &mut Statement) -> HashMap<u16, usize> {
    fn add(e: &Expr, out: &mut HashMap<u16, usize>) {
        if let Some(Inside { number, .. }) = inner_query(e) {
            *out.entry(*number).or_default() += 1;
        }
        children(e, &mut |e| add(e, out));
    }
    let mut out = HashMap::new();
    statement.each_expr_mut(&mut |e| add(e, &mut out));
    out
}

fn is_value(e: &Expr) -> bool {
    matches!(e.unrelabelled().kind, ExprKind::Column { .. } | ExprKind::Param(_) | ExprKind::Const(_))
}

/// A comparison of columns, parameters and constants, which cannot fail.
fn is_plain(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Call { func, args } => {
            super::classify::comparison(*func).is_some() && args.iter().all(is_value)
        }
        ExprKind::InList { arg, list, .. } => is_value(arg) && list.iter().all(is_value),
        ExprKind::IsNull { arg, .. } => is_value(arg),
        _ => false,
    }
}
