//! A LEFT join whose NULL rows some condition above throws away is an inner join; a FULL join becomes a LEFT
//! join, of whichever side the conditions leave, or an inner one.
use crate::plan::logical::{Expr, ExprKind, JoinKind, Logical, Statement};

pub fn reduce(statement: &mut Statement) {
    statement.each_tree_mut(&mut |tree| reduce_in(tree, &[]));
}

/// `above`: what must be true of the tree's rows.
fn reduce_in(tree: &mut Logical, above: &[Expr]) {
    match tree {
        Logical::Filter { input, conditions } => {
            if !has_outer(input) {
                return reduce_in(input, &[]);
            }
            let all: Vec<Expr> = above.iter().chain(&*conditions).cloned().collect();
            reduce_in(input, &all);
        }
        Logical::Join { kind, left, right, on } => {
            let rejects = |side: &Logical| {
                let rels = side.gives();
                above.iter().any(|e| rejects_nulls(e, &rels))
            };
            match kind {
                JoinKind::Left if rejects(right) => *kind = JoinKind::Inner,
                JoinKind::Full => match (rejects(left), rejects(right)) {
                    (true, true) => *kind = JoinKind::Inner,
                    (true, false) => *kind = JoinKind::Left,
                    (false, true) => {
                        std::mem::swap(left, right);
                        *kind = JoinKind::Left;
                    }
                    (false, false) => {}
                },
                _ => {}
            }
            let with_on: Vec<Expr> = above.iter().chain(&*on).cloned().collect();
            let (l, r): (&[Expr], &[Expr]) = match kind {
                JoinKind::Inner => (&with_on, &with_on),
                // A row without a match stays, whatever ON says of it.
                JoinKind::Left => (above, on),
                JoinKind::Semi => (&with_on, on),
                JoinKind::Anti => (above, on),
                JoinKind::Full => (&[], &[]),
            };
            reduce_in(left, l);
            reduce_in(right, r);
        }
        other => other.inputs_mut().into_iter().for_each(|i| reduce_in(i, &[])),
    }
}

fn has_outer(tree: &Logical) -> bool {
    match tree {
        Logical::Filter { input, .. } => has_outer(input),
        Logical::Join { kind: JoinKind::Left | JoinKind::Full, .. } => true,
        Logical::Join { left, right, .. } => has_outer(left) || has_outer(right),
        // What is within it is looked at all the same.
        _ => false,
    }
}

/// Whether the value is NULL for certain when all columns of these relations are.
fn null_with(e: &Expr, rels: &[u16]) -> bool {
    match &e.kind {
        ExprKind::Column { rel, .. } => rels.contains(rel),
        ExprKind::Cast { arg, .. } | ExprKind::Not(arg) => null_with(arg, rels),
        ExprKind::Call { func, args } => {
            ondol_types::func::find(*func).is_some_and(|d| d.strict)
                && args.iter().any(|a| null_with(a, rels))
        }
        _ => false,
    }
}

/// Whether a condition cannot be true when all columns of these relations are NULL.
fn rejects_nulls(e: &Expr, rels: &[u16]) -> bool {
    match &e.kind {
        ExprKind::IsNull { arg, negated: true } => null_with(arg, rels),
        ExprKind::InList { arg, .. } => null_with(arg, rels),
        ExprKind::BoolTest { arg, want: Some(_), negated: false } => null_with(arg, rels),
        ExprKind::And(list) => list.iter().any(|e| rejects_nulls(e, rels)),
        ExprKind::Or(list) => !list.is_empty() && list.iter().all(|e| rejects_nulls(e, rels)),
        _ => null_with(e, rels),
    }
}
