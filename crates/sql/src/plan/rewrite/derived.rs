//! A query in FROM that is no more than joins, conditions and values becomes part of the query around it.
use super::{MOST_INPUTS, inputs};
use crate::plan::logical::{Expr, ExprKind, JoinKind, Logical, Statement, has_query, replace_columns};
use ondol_types::func::Volatility;
use std::collections::HashMap;

pub fn pull_up(statement: &mut Statement) {
    let mut gone: HashMap<u16, Vec<Expr>> = HashMap::new();
    statement.each_tree_mut(&mut |tree| {
        pull_up_in(tree, false, &mut gone);
        take(tree, false, &mut { MOST_INPUTS }, &mut gone);
    });
    if gone.is_empty() {
        return;
    }
    statement.each_expr_mut(&mut |e| put(e, &gone));
}

/// Puts their values for the columns of relations that are gone; these have no such columns themselves.
fn put(e: &mut Expr, gone: &HashMap<u16, Vec<Expr>>) {
    replace_columns(e, &mut |rel, column| gone.get(&rel)?.get(column as usize).cloned())
}

/// `nullable`: the tree's rows may be rows of NULLs, where a value is one only if it is a column itself.
fn pull_up_in(tree: &mut Logical, nullable: bool, gone: &mut HashMap<u16, Vec<Expr>>) {
    match tree {
        Logical::Join { kind, left, right, .. } => {
            let (l, r) = match kind {
                JoinKind::Inner => (nullable, nullable),
                JoinKind::Left | JoinKind::Semi | JoinKind::Anti => (nullable, true),
                JoinKind::Full => (true, true),
            };
            let mut room = MOST_INPUTS.saturating_sub(inputs(left) + inputs(right));
            for (side, nullable) in [(&mut **left, l), (&mut **right, r)] {
                pull_up_in(side, nullable, gone);
                take(side, nullable, &mut room, gone);
            }
        }
        Logical::Filter { input, .. } => {
            pull_up_in(input, nullable, gone);
            take(input, nullable, &mut { MOST_INPUTS }, gone);
        }
        Logical::Aggregate { input, .. } | Logical::Window { input, .. } | Logical::Project { input, .. } => {
            pull_up_in(input, false, gone);
            take(input, false, &mut { MOST_INPUTS }, gone);
        }
        other => other.inputs_mut().into_iter().for_each(|i| pull_up_in(i, false, gone)),
    }
}

/// Takes a projection away, if its values can stand where its columns are.
fn take(tree: &mut Logical, nullable: bool, room: &mut usize, gone: &mut HashMap<u16, Vec<Expr>>) {
    let Logical::Project { rel, input, columns } = tree else { return };
    // What a column stands for decides, not that it is one.
    columns.iter_mut().for_each(|c| put(c, gone));
    let further = inputs(input).saturating_sub(1);
    let own = if nullable { input.gives() } else { Vec::new() };
    if further > *room || !is_plain_tree(input) || !columns.iter().all(|c| may_stand(c, nullable, &own)) {
        return;
    }
    *room -= further;
    gone.insert(*rel, std::mem::take(columns));
    *tree = std::mem::replace(input, Logical::Nothing);
}

/// A scan, or joins and filters without a condition that may give something else when other rows are asked
/// first (rewrite/W1).
fn is_plain_tree(tree: &Logical) -> bool {
    match tree {
        Logical::Scan { .. } => true,
        Logical::Filter { .. } | Logical::Join { .. } => {
            let mut fine = true;
            tree.own_exprs(&mut |e| fine = fine && !e.calls(Volatility::Volatile));
            fine && tree.inputs().into_iter().all(is_input)
        }
        _ => false,
    }
}

fn is_input(tree: &Logical) -> bool {
    !matches!(tree, Logical::Filter { .. } | Logical::Join { .. }) || is_plain_tree(tree)
}

/// `own`: of what is nullable, the relations whose columns are NULL with it. A column of others (LATERAL) is
/// not.
fn may_stand(e: &Expr, nullable: bool, own: &[u16]) -> bool {
    match &e.kind {
        ExprKind::Column { rel, .. } => !nullable || own.contains(rel),
        _ if nullable => false,
        // Computed where it is used, perhaps more than once.
        _ => !e.calls(Volatility::Volatile) && !has_query(e),
    }
}
