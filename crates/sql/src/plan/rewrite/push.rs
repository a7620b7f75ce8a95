//! Conditions on what a query in FROM, groups or a set operation give are asked below, where an index may
//! answer them and fewer rows are worked on; never past a limit or locks.
//!
//! - **P1** What passes a projection has its values in place of its columns; a value that calls something
//!   volatile or asks a subquery is not computed twice.
//! - **P2** Past groups, DISTINCT, and a set operation that compares rows goes only what cannot fail and
//!   cannot tell equal rows apart: plain comparisons, of groups those of their keys.
//! - **P3** Past windows goes only what is true of all rows of a partition or of none, in each of the
//!   windows: plain comparisons of keys of all their partitions.
use super::is_plain;
use crate::bound::SetOperation;
use crate::plan::logical::{
    Expr, ExprKind, JoinKind, Logical, Statement, each_column, has_query, replace_columns, uses_any,
};
use crate::plan::lower::filter;
use ondol_types::func::Volatility;

pub fn down(statement: &mut Statement) {
    statement.each_tree_mut(&mut down_in);
}

fn down_in(tree: &mut Logical) {
    match tree {
        Logical::Filter { input, conditions } => {
            conditions.retain(|c| !may_move(c) || !push(input, c));
            if conditions.is_empty() {
                *tree = std::mem::replace(input, Logical::Nothing);
                return down_in(tree);
            }
        }
        Logical::Join { kind, left, right, on } => on.retain(|c| {
            let uses = |side: &Logical| uses(c, side);
            match (may_move(c), *kind, uses(left), uses(right)) {
                (true, JoinKind::Inner, true, false) => !push(left, c),
                // Of an outer join these say which rows match, of a semi join as well.
                (true, JoinKind::Inner | JoinKind::Left | JoinKind::Semi | JoinKind::Anti, false, true) => {
                    !push(right, c)
                }
                _ => true,
            }
        }),
        _ => {}
    }
    tree.inputs_mut().into_iter().for_each(down_in);
}

fn may_move(e: &Expr) -> bool {
    !e.calls(Volatility::Volatile) && !has_query(e)
}

/// Whether a condition uses columns that the tree gives.
fn uses(e: &Expr, tree: &Logical) -> bool {
    uses_any(e, &tree.gives())
}

/// Puts a condition on rows of the tree below something of it, if that helps: then it need not be asked
/// above.
fn push(tree: &mut Logical, c: &Expr) -> bool {
    match tree {
        Logical::Filter { input, .. } | Logical::Sort { input, .. } => push(input, c),
        Logical::Join { kind, left, right, .. } => match (uses(c, left), uses(c, right)) {
            (true, false) if *kind != JoinKind::Full => push(left, c),
            (false, true) if *kind == JoinKind::Inner => push(right, c),
            _ => false,
        },
        Logical::Project { rel, input, columns } => {
            // P1
            let Some(c) = put(c, *rel, columns) else { return false };
            if !may_move(&c) {
                return false;
            }
            if push(input, &c) {
                return true;
            }
            let helps = has_scan(input) && uses(&c, input);
            if helps {
                ask(input, c);
            }
            helps
        }
        Logical::Aggregate { rel, input, keys, .. } => {
            // P2
            if !is_plain(c) || keys.is_empty() {
                return false;
            }
            let Some(c) = put(c, *rel, keys) else { return false };
            if !may_move(&c) || !uses(&c, input) {
                return false;
            }
            if !push(input, &c) {
                ask(input, c);
            }
            true
        }
        Logical::Window { .. } => {
            // P3
            let mut below = tree;
            while let Logical::Window { input, window, .. } = below {
                let keys = window.keys.iter().take(window.partition);
                if !is_plain(c) || !are_among(c, keys.map(|k| &k.expr)) {
                    return false;
                }
                below = input;
            }
            if !push(below, c) {
                ask(below, c.clone());
            }
            true
        }
        Logical::Distinct { input, by, .. } => is_plain(c) && are_among(c, by.iter()) && push(input, c),
        Logical::SetOperation { rel, operation, all, left, right } => {
            let compares = !matches!((*operation, *all), (SetOperation::Union, true));
            if compares && !is_plain(c) {
                return false;
            }
            let (Some(l), Some(r)) = (put(c, *rel, &left.output), put(c, *rel, &right.output)) else {
                return false;
            };
            if !may_move(&l) || !may_move(&r) {
                return false;
            }
            let sides = [(&mut left.tree, l), (&mut right.tree, r)];
            let mut helped = Vec::new();
            for (tree, c) in sides {
                let done = push(tree, &c)
                    || has_scan(tree) && uses(&c, tree) && {
                        ask(tree, c.clone());
                        true
                    };
                helped.push((tree, c, done));
            }
            let any = helped.iter().any(|h| h.2);
            if any {
                helped.into_iter().filter(|h| !h.2).for_each(|(tree, c, _)| ask(tree, c));
            }
            any
        }
        Logical::Nothing
        | Logical::Scan { .. }
        | Logical::ProjectSet { .. }
        | Logical::Limit { .. }
        | Logical::Lock { .. }
        | Logical::Recursion { .. }
        | Logical::With { .. } => false,
    }
}

/// Whether all columns of a condition are among these expressions.
fn are_among<'e>(c: &Expr, list: impl Iterator<Item = &'e Expr>) -> bool {
    let columns: Vec<(u16, u16)> = (list)
        .filter_map(|e| match e.kind {
            ExprKind::Column { rel, column, .. } => Some((rel, column)),
            _ => None,
        })
        .collect();
    let mut all = true;
    each_column(c, &mut |rel, column, _| all &= columns.contains(&(rel, column)));
    all
}

/// A condition with values in place of a relation's columns; none if it uses others that the relation's
/// neighbours give, or a column that stands for no value here (an aggregate).
fn put(c: &Expr, rel: u16, values: &[Expr]) -> Option<Expr> {
    let mut out = c.clone();
    let mut whole = true;
    replace_columns(&mut out, &mut |r, column| {
        let value = values.get(column as usize);
        whole &= r != rel || value.is_some();
        value.filter(|_| r == rel).cloned()
    });
    whole.then_some(out)
}

/// Joins and filters with a scan among them.
fn has_scan(tree: &Logical) -> bool {
    match tree {
        Logical::Scan { .. } => true,
        Logical::Filter { input, .. } => has_scan(input),
        Logical::Join { left, right, .. } => has_scan(left) || has_scan(right),
        _ => false,
    }
}

/// Asks the condition of the tree's rows, after what is asked of them already.
fn ask(tree: &mut Logical, c: Expr) {
    if let Logical::Filter { conditions, .. } = tree {
        return conditions.push(c);
    }
    let input = std::mem::replace(tree, Logical::Nothing);
    *tree = filter(input, vec![c]);
}
