//! EXISTS and IN as conditions of a query become semi joins, NOT EXISTS an anti join: a subquery is then not
//! run for each row, and the join may be by a hash table.
//!
//! Only where the subquery uses columns of the query right around it: one that does not is asked once at most
//! as it is. Its conditions on these columns are taken out of it; where that cannot be (they stand below
//! groups, a limit or a nullable side), it stays. NOT IN is another thing, because of NULLs: it stays a look
//! into a hash table, or a subquery.
use super::{MOST_INPUTS, asked, inputs, is_plain};
use crate::bound::inner_query;
use crate::plan::classify::{Cond, comparison};
use crate::plan::logical::{
    Block, Expr, ExprKind, JoinKind, Logical, Statement, has_query, replace_columns, uses_any,
};
use ondol_types::func::Volatility;
use ondol_types::{Type, TypeId};
use std::collections::{HashMap, VecDeque};

pub fn join(statement: &mut Statement) {
    let asked = asked(statement);
    let mut queries = std::mem::take(&mut statement.queries);
    // Subqueries have such conditions themselves; those within one have lower numbers than it.
    for n in 0..queries.len() {
        let mut block = std::mem::replace(&mut queries[n], Block::EMPTY);
        Join { queries: &mut queries, asked: &asked }.tree(&mut block.tree);
        queries[n] = block;
    }
    let mut join = Join { queries: &mut queries, asked: &asked };
    // Its queries are not there now.
    statement.each_tree_mut(&mut |tree| join.tree(tree));
    statement.queries = queries;
}

struct Join<'q> {
    queries: &'q mut Vec<Block>,
    asked: &'q HashMap<u16, usize>,
}

impl Join<'_> {
    fn tree(&mut self, tree: &mut Logical) {
        tree.inputs_mut().into_iter().for_each(|i| self.tree(i));
        let Logical::Filter { input, conditions } = tree else { return };
        let mut room = MOST_INPUTS.saturating_sub(inputs(input));
        let own = input.gives();
        let mut joined = Vec::new();
        let mut open = VecDeque::from(std::mem::take(conditions));
        while let Some(e) = open.pop_front() {
            let Some((kind, right, mut on)) = self.as_join(&e, &own, room) else {
                conditions.push(e);
                continue;
            };
            room -= inputs(&right);
            if kind == JoinKind::Semi {
                // What an EXISTS asks of the rows around it alone decides about them by itself. A subquery in
                // it may become a join as well.
                let rels = right.gives();
                let is_ours = |e: &mut Expr| !uses_any(e, &rels) && (is_plain(e) || has_query(e));
                open.extend(on.extract_if(.., is_ours));
            }
            joined.push((kind, right, on));
        }
        if joined.is_empty() {
            return;
        }
        let (input, conditions) =
            (std::mem::replace(&mut **input, Logical::Nothing), std::mem::take(conditions));
        let mut out = crate::plan::lower::filter(input, conditions);
        for (kind, right, on) in joined {
            out = Logical::Join { kind, left: Box::new(out), right: Box::new(right), on };
        }
        *tree = out;
    }

    /// The join that a condition on rows of the relations `own` is.
    fn as_join(&mut self, e: &Expr, own: &[u16], room: usize) -> Option<(JoinKind, Logical, Vec<Expr>)> {
        let (e, turned) = match &e.kind {
            ExprKind::Not(e) => (&**e, true),
            _ => (e, false),
        };
        let inside = inner_query(e)?;
        let (negated, lefts, ops) = match &e.kind {
            ExprKind::Exists { negated, .. } => (*negated != turned, &[][..], &[][..]),
            ExprKind::Quantified { left, ops, all: false, .. } if !turned => (false, &left[..], &ops[..]),
            _ => return None,
        };
        // A subquery that is asked once at most is left so; one that uses rows further out than these, too.
        let is_equal = |f| comparison(f).is_some_and(|c| c.cond == Cond::Eq);
        let block = self.queries.get(inside.number as usize)?;
        if !inside.depends_on(own)
            || !ops.iter().all(|f| is_equal(*f))
            || lefts.iter().any(|l| l.calls(Volatility::Volatile))
        {
            return None;
        }
        let block = block.clone();
        let mut on = Vec::new();
        for ((left, op), right) in lefts.iter().zip(ops).zip(&block.output) {
            let args = vec![left.clone(), right.clone()];
            on.push(Expr { kind: ExprKind::Call { func: *op, args }, ty: Type::new(TypeId::BOOL), at: e.at });
        }
        let mut right = bare(block.tree, &mut on)?;
        take_out(&mut right, own, &mut on)?;
        if inputs(&right) > room || right.free().keys().any(|(rel, _)| own.contains(rel)) {
            return None;
        }
        // Nobody else asks for it.
        if self.asked.get(&inside.number) == Some(&1) {
            self.queries[inside.number as usize] = Block::EMPTY;
        }
        Some((if negated { JoinKind::Anti } else { JoinKind::Semi }, right, on))
    }
}

/// Without what does not change whether there is a row; the values of a projection that goes are put into the
/// conditions.
fn bare(tree: Logical, on: &mut [Expr]) -> Option<Logical> {
    match tree {
        Logical::Distinct { first: true, .. } => None,
        Logical::Sort { input, .. } | Logical::Distinct { input, .. } => bare(*input, on),
        Logical::Project { rel, input, columns } => {
            let mut instead = |r: u16, c: u16| columns.get(c as usize).filter(|_| r == rel).cloned();
            on.iter_mut().for_each(|e| replace_columns(e, &mut instead));
            bare(*input, on)
        }
        Logical::Lock { .. } | Logical::Limit { .. } | Logical::ProjectSet { .. } => None,
        tree => Some(tree),
    }
}

/// Takes the conditions out of a tree that use columns of rows outside it. `None`: there are others that
/// cannot be.
pub(super) fn take_out(tree: &mut Logical, own: &[u16], out: &mut Vec<Expr>) -> Option<()> {
    match tree {
        Logical::Filter { input, conditions } => {
            take_out(input, own, out)?;
            let (outer, inner): (Vec<Expr>, Vec<Expr>) =
                std::mem::take(conditions).into_iter().partition(|e| uses_any(e, own));
            out.extend(outer);
            *conditions = inner;
            if conditions.is_empty() {
                *tree = std::mem::replace(input, Logical::Nothing);
            }
        }
        Logical::Join { kind: JoinKind::Inner, left, right, on } => {
            take_out(left, own, out)?;
            take_out(right, own, out)?;
            let (outer, inner): (Vec<Expr>, Vec<Expr>) =
                std::mem::take(on).into_iter().partition(|e| uses_any(e, own));
            out.extend(outer);
            *on = inner;
        }
        Logical::Join { kind, left, right, on } if *kind != JoinKind::Full => {
            take_out(left, own, out)?;
            let below = right.free();
            if below.keys().any(|(rel, _)| own.contains(rel)) || on.iter().any(|e| uses_any(e, own)) {
                return None;
            }
        }
        other => {
            if other.free().keys().any(|(rel, _)| own.contains(rel)) {
                return None;
            }
        }
    }
    Some(())
}
