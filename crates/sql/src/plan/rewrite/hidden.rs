//! An expression that an index of the table is on becomes the hidden column that keeps its value.
//!
//! - **H1** The column is read where the row is there as the table has it: not above an outer join that may
//!   have put NULLs in its place, of which the expression may make something else.
//! - **H2** What is looked at again when a row is locked, and what is asked of a new row, keeps the
//!   expression.
use super::fold;
use crate::bound::children_mut;
use crate::imply::same_value;
use crate::plan::logical::{Expr, ExprKind, Hidden, Logical, OWN, Source, Statement};

pub fn read(statement: &mut Statement) {
    if statement.hidden.is_empty() {
        return;
    }
    let mut hidden = std::mem::take(&mut statement.hidden);
    hidden.iter_mut().for_each(|h| fold::simplify(&mut h.expr));
    // A predicate is asked for by conditions that have become columns as well.
    let keys: Vec<Hidden> = hidden.iter().filter(|h| !h.predicate).cloned().collect();
    for h in hidden.iter_mut().filter(|h| h.predicate) {
        replace(&mut h.expr, &[(OWN, h.table)], &keys)
    }
    statement.each_tree_mut(&mut |tree| drop(walk(tree, &keys)));
    statement.hidden = hidden
}

/// A relation, and the number of the table that it is.
type Seen = (u16, u32);

/// Gives the tables whose rows are there as they are (H1).
fn walk(tree: &mut Logical, hidden: &[Hidden]) -> Vec<Seen> {
    use crate::plan::logical::JoinKind;
    match tree {
        Logical::Scan { rel, source: Source::Table(table) } => vec![(*rel, table.def.id)],
        Logical::Nothing | Logical::Scan { .. } => Vec::new(),
        Logical::Join { left, right, on, kind } => {
            let left = walk(left, hidden);
            let both = [left.clone(), walk(right, hidden)].concat();
            on.iter_mut().for_each(|e| replace(e, &both, hidden));
            match kind {
                JoinKind::Inner => both,
                JoinKind::Left | JoinKind::Semi | JoinKind::Anti => left,
                JoinKind::Full => Vec::new(),
            }
        }
        Logical::SetOperation { left, right, .. } | Logical::Recursion { left, right, .. } => {
            walk(&mut left.tree, hidden);
            walk(&mut right.tree, hidden);
            Vec::new()
        }
        // H2
        Logical::Lock { input, .. } | Logical::Limit { input, .. } | Logical::With { input, .. } => {
            walk(input, hidden)
        }
        Logical::Filter { .. }
        | Logical::ProjectSet { .. }
        | Logical::Window { .. }
        | Logical::Distinct { .. }
        | Logical::Sort { .. } => {
            let seen = below(tree, hidden);
            tree.own_exprs_mut(&mut |e| replace(e, &seen, hidden));
            seen
        }
        Logical::Project { .. } | Logical::Aggregate { .. } => {
            let seen = below(tree, hidden);
            tree.own_exprs_mut(&mut |e| replace(e, &seen, hidden));
            Vec::new()
        }
    }
}

fn below(tree: &mut Logical, hidden: &[Hidden]) -> Vec<Seen> {
    tree.inputs_mut().into_iter().flat_map(|t| walk(t, hidden)).collect()
}

fn replace(e: &mut Expr, seen: &[Seen], hidden: &[Hidden]) {
    if seen.is_empty() || matches!(e.kind, ExprKind::Column { .. } | ExprKind::Const(_) | ExprKind::Param(_))
    {
        return;
    }
    for (rel, table) in seen {
        let same = |(r, c): (u16, u16), (_, own): (u16, u16)| r == *rel && c == own;
        let is_it = |h: &&Hidden| h.table == *table && same_value(e, &h.expr, &same);
        if let Some(h) = hidden.iter().find(is_it) {
            e.kind = ExprKind::Column { depth: 0, rel: *rel, column: h.column };
            return;
        }
    }
    children_mut(e, &mut |e| replace(e, seen, hidden))
}
