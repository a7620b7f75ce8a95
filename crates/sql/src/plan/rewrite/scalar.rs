//! A condition that compares with an aggregate of other rows, those that equal the row at hand in some
//! columns, becomes a join with the groups of these rows: they are read once instead of once for each row.
//!
//! ```text
//! x < (SELECT avg(q) FROM l WHERE l.k = o.k)    ->    LEFT JOIN (SELECT k, avg(q) FROM l GROUP BY k) g ON
//! g.k = o.k,  x < g.avg
//! ```
//! Where an index leads to those rows the subquery stays: few rows may ask. A row without such rows gets NULL
//! from the join, as the aggregate gives it, but for `count`, which is 0 then. What is added up is columns
//! only, under conditions that cannot fail: groups that nobody asks for are made as well (rewrite/W1).
use super::exists::take_out;
use super::{MOST_INPUTS, asked, inputs, is_plain, is_value};
use crate::bound::children_mut;
use crate::plan::classify::{comparison, hashable};
use crate::plan::logical::{
    Aggregate, Block, Expr, ExprKind, Inside, JoinKind, Logical, Relation, Source, Statement, column,
    column_of, each_column, replace_columns,
};
use ondol_types::Value;
use std::collections::HashMap;

pub fn join(statement: &mut Statement) {
    let asked = asked(statement);
    let mut queries = std::mem::take(&mut statement.queries);
    let mut relations = std::mem::take(&mut statement.relations);
    // Those within one have lower numbers than it.
    for n in 0..queries.len() {
        let mut block = std::mem::replace(&mut queries[n], Block::EMPTY);
        Join { queries: &mut queries, relations: &mut relations, asked: &asked }.tree(&mut block.tree);
        queries[n] = block;
    }
    let mut join = Join { queries: &mut queries, relations: &mut relations, asked: &asked };
    statement.each_tree_mut(&mut |tree| join.tree(tree));
    statement.queries = queries;
    statement.relations = relations;
}

struct Join<'q> {
    queries: &'q mut [Block],
    relations: &'q mut [Relation],
    asked: &'q HashMap<u16, usize>,
}

/// A value, and the groups to be joined for it.
struct Joined {
    value: Expr,
    groups: Logical,
    on: Vec<Expr>,
}

impl Join<'_> {
    fn tree(&mut self, tree: &mut Logical) {
        tree.inputs_mut().into_iter().for_each(|i| self.tree(i));
        let Logical::Filter { input, conditions } = tree else { return };
        let mut room = MOST_INPUTS.saturating_sub(inputs(input));
        let own = input.gives();
        let mut joined = Vec::new();
        for c in conditions.iter_mut() {
            self.condition(c, &own, &mut room, &mut joined);
        }
        let mut out = std::mem::replace(&mut **input, Logical::Nothing);
        for j in joined {
            let kind = JoinKind::Left;
            out = Logical::Join { kind, left: Box::new(out), right: Box::new(j.groups), on: j.on };
        }
        **input = out;
    }

    fn condition(&mut self, e: &mut Expr, own: &[u16], room: &mut usize, out: &mut Vec<Joined>) {
        // A branch that may not be evaluated asks for nothing; what is compared at once does.
        match &e.kind {
            ExprKind::Scalar(inside) => {
                if *room > 0
                    && let Some(mut j) = self.as_join(inside, own)
                {
                    std::mem::swap(e, &mut j.value);
                    *room -= 1;
                    out.push(j);
                }
            }
            ExprKind::Call { .. } | ExprKind::Cast { .. } => {
                children_mut(e, &mut |e| self.condition(e, own, room, out))
            }
            _ => {}
        }
    }

    fn as_join(&mut self, inside: &Inside, own: &[u16]) -> Option<Joined> {
        if !inside.depends_on(own) || self.asked.get(&inside.number) != Some(&1) {
            return None;
        }
        let block = self.queries.get(inside.number as usize)?.clone();
        let (Logical::Aggregate { rel, input, keys, aggregates }, [value]) = (block.tree, &block.output[..])
        else {
            return None;
        };
        if !keys.is_empty() || !aggregates.iter().all(is_known) {
            return None;
        }
        let mut input = *input;
        let mut taken = Vec::new();
        take_out(&mut input, own, &mut taken)?;
        let (mut keys, mut on) = (Vec::new(), Vec::new());
        for mut e in taken {
            let ExprKind::Call { func, args } = &mut e.kind else { return None };
            comparison(*func).filter(hashable)?;
            let [left, right] = &mut args[..] else { return None };
            let inner = match (is_within(left, own), is_within(right, own)) {
                (Some(false), Some(true)) => left,
                (Some(true), Some(false)) => right,
                _ => return None,
            };
            let key = column(rel, keys.len(), inner.ty);
            keys.push(std::mem::replace(inner, key));
            on.push(e);
        }
        if keys.is_empty()
            || !cannot_fail(&input)
            || keys.iter().any(|k| has_index(&input, k))
            || input.free().keys().any(|(r, _)| own.contains(r))
        {
            return None;
        }
        let mut value = value.clone();
        let moved = keys.len();
        replace_columns(&mut value, &mut |r, c| {
            let a = aggregates.get(c as usize).filter(|_| r == rel)?;
            let e = column(rel, moved + c as usize, a.ty);
            if !is_count(a) {
                return Some(e);
            }
            let zero = Expr { kind: ExprKind::Const(Value::Int8(0)), ty: a.ty, at: u32::MAX };
            Some(Expr { kind: ExprKind::Coalesce(vec![e, zero]), ty: a.ty, at: u32::MAX })
        });
        let types = keys.iter().map(|k| k.ty).chain(aggregates.iter().map(|a| a.ty));
        self.relations.get_mut(rel as usize)?.columns = types.map(|ty| (String::new(), ty)).collect();
        self.queries[inside.number as usize] = Block::EMPTY;
        Some(Joined {
            value,
            groups: Logical::Aggregate { rel, input: Box::new(input), keys, aggregates },
            on,
        })
    }
}

/// Whether all columns of an expression are of these relations, or none is; `None` where there are no
/// columns, or some of both.
fn is_within(e: &Expr, own: &[u16]) -> Option<bool> {
    let (mut own_one, mut other) = (false, false);
    each_column(e, &mut |rel, _, _| if own.contains(&rel) { own_one = true } else { other = true });
    (own_one != other).then_some(own_one)
}

fn name(a: &Aggregate) -> &'static str {
    ondol_types::agg::find(a.agg).map_or("", |d| d.name)
}

fn is_count(a: &Aggregate) -> bool {
    name(a) == "count"
}

/// One of columns, that is NULL or 0 of no rows.
fn is_known(a: &Aggregate) -> bool {
    matches!(name(a), "min" | "max" | "sum" | "avg" | "count")
        && a.filter.is_none()
        && a.args.iter().all(|e| column_of(e).is_some())
}

fn cannot_fail(tree: &Logical) -> bool {
    let mut fine = true;
    tree.each(&mut |l| l.own_exprs(&mut |e| fine = fine && (is_plain(e) || is_value(e))));
    fine
}

/// Whether an index of a table begins with the column that the key is.
fn has_index(tree: &Logical, key: &Expr) -> bool {
    let Some((of, column)) = column_of(key) else { return false };
    let mut found = false;
    tree.each(&mut |l| {
        if let Logical::Scan { rel, source: Source::Table(t) } = l
            && *rel == of
        {
            found |= (t.def.indexes.iter())
                .any(|i| i.columns.first().is_some_and(|c| c.column == column as usize));
        }
    });
    found
}
