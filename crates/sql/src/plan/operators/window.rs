//! The operator of windows: which order it needs, and which it gives.
//!
//! - **W1** It needs its rows in the order of its keys, partition by partition, and gives them in that order;
//!   without keys, in whatever order they came. A sort stands below it where the input gives no such order.
//! - **W2** Of windows upon each other the lower one's order serves the upper ones as far as their keys are
//!   the first of its keys (sql/plan/lower/window/W1).
use super::{Planned, Planner, Want, order_of};
use crate::plan::access::Order;
use crate::plan::logical::{Expr, ExprKind, Logical, SortBy, same};
use crate::plan::physical::{Node, Operator};
use ondol_types::{SqlError, SqlResult, sqlstate};

fn is_first(keys: &[SortBy], of: &[SortBy]) -> bool {
    let one = |(a, b): (&SortBy, &SortBy)| {
        a.desc == b.desc && a.nulls_first == b.nulls_first && same(&a.expr, &b.expr)
    };
    keys.len() <= of.len() && keys.iter().zip(of).all(one)
}

/// The order in which windows give their rows (W2); empty where it is that of what is below them.
fn given(tree: &Logical) -> &[SortBy] {
    let Logical::Window { input, window, .. } = tree else { return &[] };
    let below = given(input);
    if is_first(&window.keys, below) { below } else { &window.keys }
}

/// Whether windows below give their rows in this order.
pub(super) fn comes_in(tree: &Logical, keys: &[SortBy]) -> bool {
    match tree {
        Logical::Window { .. } => is_first(keys, given(tree)),
        Logical::Project { rel, input, columns } => {
            let value = |e: &Expr| match e.kind {
                ExprKind::Column { rel: r, column, .. } if r == *rel => columns.get(column as usize).cloned(),
                _ => None,
            };
            let below = |k: &SortBy| Some(SortBy { expr: value(&k.expr)?, ..k.clone() });
            let keys: Option<Vec<SortBy>> = keys.iter().map(below).collect();
            keys.is_some_and(|keys| comes_in(input, &keys))
        }
        _ => false,
    }
}

impl<'a> Planner<'a, '_> {
    pub(super) fn window(&self, tree: &'a Logical, want: &Want<'a>) -> SqlResult<Planned<'a>> {
        let Logical::Window { rel, input, window, calls } = tree else {
            return Err(SqlError::new(sqlstate::INTERNAL_ERROR, "no window"));
        };
        let keys = &window.keys[..];
        // W1
        let wanted = match keys.is_empty() {
            true => Want { order: want.order.clone(), limited: false },
            false => Want { order: order_of(keys), limited: false },
        };
        let Planned { mut node, ordered } = self.tree(input, &wanted)?;
        if !ordered && !is_first(keys, given(input)) {
            let (rows, input) = (node.rows, Box::new(node));
            let operator = Operator::Sort { input, keys, bounded: false, by_identity: false };
            node = Node::new(operator, rows);
        }
        let (rows, input) = (node.rows, Box::new(node));
        let node = Node::new(Operator::Window { rel: *rel, input, window, calls }, rows);
        let ordered = match (&want.order, keys.is_empty()) {
            (None, _) => false,
            (Some(_), true) => ordered,
            (Some((_, Order::Distance(_))), false) => false,
            (Some((of, Order::Columns(columns))), false) => {
                let key = |k: &SortBy| match k.expr.unrelabelled().kind {
                    ExprKind::Column { rel, column, .. } => Some((rel, (column, k.desc, k.nulls_first))),
                    _ => None,
                };
                let given = given(tree);
                columns.len() <= given.len()
                    && columns.iter().zip(given).all(|(c, k)| key(k) == Some((*of, *c)))
            }
        };
        Ok(Planned { node, ordered })
    }
}
