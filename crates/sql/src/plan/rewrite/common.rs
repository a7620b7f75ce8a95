//! `(a AND b) OR (a AND c)` is `a AND (b OR c)`: a condition that all branches have can be an index's or a
//! join's.
use super::is_plain;
use crate::plan::logical::{Expr, ExprKind, Logical, Statement, each_column, same};
use crate::plan::lower::conjuncts;
use ondol_types::Type;
use ondol_types::func::Volatility;
use std::collections::BTreeSet;

pub fn factor(statement: &mut Statement) {
    statement.each_tree_mut(&mut factor_in);
}

fn factor_in(tree: &mut Logical) {
    if let Logical::Filter { conditions: list, .. } | Logical::Join { on: list, .. } = tree {
        let before = std::mem::take(list);
        before.into_iter().for_each(|e| factored(e, list));
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
    // What may fail stays where it is: it is asked only where what stands before it held (rewrite/W1).
    let common: Vec<Expr> = (first.iter())
        .filter(|e| !e.calls(Volatility::Volatile) && is_plain(e))
        .filter(|e| rest.iter().all(|l| l.iter().any(|o| same(e, o))))
        .cloned()
        .collect();
    for list in &mut lists {
        list.retain(|e| !common.iter().any(|c| same(c, e)));
    }
    let ty = e.ty;
    // A branch that says nothing more: the common conditions are all there is.
    let nothing_more = lists.iter().any(Vec::is_empty);
    let is_whole = common.is_empty();
    out.extend(common);
    if nothing_more {
        return;
    }
    implied(&lists, ty, out);
    out.push(match is_whole {
        true => e,
        false => {
            Expr { kind: ExprKind::Or(lists.into_iter().map(|l| all_of(l, ty)).collect()), ty, at: e.at }
        }
    });
}

fn all_of(mut list: Vec<Expr>, ty: Type) -> Expr {
    match list.len() {
        1 => list.remove(0),
        _ => Expr { kind: ExprKind::And(list), ty, at: u32::MAX },
    }
}

/// What the branches say together of each relation, where there are several.
fn implied(branches: &[Vec<Expr>], ty: Type, out: &mut Vec<Expr>) {
    let rels = |e: &Expr| {
        let mut rels = BTreeSet::new();
        each_column(e, &mut |rel, _, _| {
            rels.insert(rel);
        });
        rels
    };
    let all: BTreeSet<u16> = branches.iter().flatten().flat_map(&rels).collect();
    if all.len() < 2 {
        return;
    }
    for rel in all {
        let own = BTreeSet::from([rel]);
        let said = |list: &Vec<Expr>| -> Vec<Expr> {
            list.iter().filter(|e| is_plain(e) && rels(e) == own).cloned().collect()
        };
        let said: Vec<Vec<Expr>> = branches.iter().map(said).collect();
        if said.iter().any(Vec::is_empty) {
            continue;
        }
        let each = said.into_iter().map(|list| all_of(list, ty)).collect();
        out.push(Expr { kind: ExprKind::Or(each), ty, at: u32::MAX });
    }
}
