//! `(a AND b) OR (a AND c)` is `a AND (b OR c)`: a condition that all branches have can be an index's or a
//! join's.
use crate::plan::logical::{Expr, ExprKind, Logical, Statement, same};
use crate::plan::lower::conjuncts;
use ondol_types::func::Volatility;

pub fn factor(statement: &mut Statement) {
    statement.each_tree_mut(&mut factor_in);
}

fn factor_in(tree: &mut Logical) {
    match tree {
        Logical::Filter { conditions: list, .. } | Logical::Join { on: list, .. } => {
            let before = std::mem::take(list);
            before.into_iter().for_each(|e| factored(e, list));
        }
        Logical::SetOperation { left, right, .. } => {
            factor_in(&mut left.tree);
            factor_in(&mut right.tree);
        }
        _ => {}
    }
    tree.inputs_mut().into_iter().for_each(factor_in);
}

fn factored(e: Expr, out: &mut Vec<Expr>) {
    let ExprKind::Or(branches) = &e.kind else { return out.push(e) };
    let mut lists: Vec<Vec<Expr>> = Vec::new();
    for b in branches {
        let mut list = Vec::new();
        conjuncts(b.clone(), &mut list);
        lists.push(list);
    }
    let Some((first, rest)) = lists.split_first() else { return out.push(e) };
    // Where one of them failed, the others were not asked (rewrite/W1): only the leading ones of each branch
    // are taken out, which are evaluated first anyway, unless they cannot fail.
    let common: Vec<Expr> = (first.iter())
        .filter(|e| !e.calls(Volatility::Volatile) && is_plain(e))
        .filter(|e| rest.iter().all(|l| l.iter().any(|o| same(e, o))))
        .cloned()
        .collect();
    if common.is_empty() {
        return out.push(e);
    }
    let ty = e.ty;
    let mut left = Vec::new();
    for mut list in lists {
        list.retain(|e| !common.iter().any(|c| same(c, e)));
        let whole = list.len() == 1;
        left.push(match list.pop() {
            // A branch that says nothing more: the common conditions are all there is.
            None => return out.extend(common),
            Some(e) if whole => e,
            Some(e) => {
                list.push(e);
                Expr { kind: ExprKind::And(list), ty, at: u32::MAX }
            }
        });
    }
    out.extend(common);
    out.push(Expr { kind: ExprKind::Or(left), ty, at: e.at });
}

/// A comparison of columns, parameters and constants, which cannot fail.
fn is_plain(e: &Expr) -> bool {
    let is_value = |e: &Expr| {
        matches!(e.unrelabelled().kind, ExprKind::Column { .. } | ExprKind::Param(_) | ExprKind::Const(_))
    };
    match &e.kind {
        ExprKind::Call { func, args } => {
            super::super::classify::comparison(*func).is_some() && args.iter().all(is_value)
        }
        ExprKind::InList { arg, list, .. } => is_value(arg) && list.iter().all(is_value),
        ExprKind::IsNull { arg, .. } => is_value(arg),
        _ => false,
    }
}
