//! What plans are guessed to cost, and how many rows to give: all of it is here but for the ways into a table
//! (`access`) and the order of joins (`join`), which are chosen by counts of rows.
//!
//! Units are PostgreSQL's: 1 is a page of 8 KiB read in sequence, a row touched costs a hundredth of it.
//! There are no statistics: numbers are for comparing plans of one statement, not for telling times.
use super::logical::{Expr, ExprKind, Source};
use super::physical::{Access, Method, Node, Operator, Root, Statement};
use ondol_types::Value;

const ROW: f64 = 0.01;
/// A condition or a key looked at.
const OPERATOR: f64 = 0.0025;
/// A way down a tree or a hash table.
const LOOKUP: f64 = 0.05;

/// How many groups so many keys make.
pub fn groups(input: &Node<'_>, keys: usize) -> f64 {
    match keys {
        0 => 1.0,
        _ => (input.rows * 0.1).max(1.0),
    }
}

/// The rows that a limit leaves.
pub fn limited(rows: f64, limit: Option<&Expr>) -> f64 {
    match limit.map(|e| &e.kind) {
        Some(ExprKind::Const(Value::Int8(n))) => rows.min((*n).max(0) as f64),
        Some(ExprKind::Const(_)) | None => rows,
        Some(_) => (rows * 0.1).max(1.0).min(rows),
    }
}

/// Numbers the nodes, from above, and prices them.
pub fn price(statement: &mut Statement<'_>) {
    let mut next = 0;
    let mut take = || {
        next += 1;
        next - 1
    };
    match &mut statement.root {
        Root::Rows(rows) => rows.node.price(&mut take),
        Root::Insert { source, on_conflict, number, .. } => {
            *number = take();
            if on_conflict.is_some() {
                // What is counted of the conflicts.
                take();
            }
            source.node.price(&mut take);
        }
        Root::Modify { input, number, .. } => {
            *number = take();
            input.price(&mut take);
        }
    }
    for q in statement.queries.iter_mut().chain(statement.with.iter_mut().map(|w| &mut w.1)) {
        q.node.price(&mut take);
    }
    statement.nodes = next;
}

impl Node<'_> {
    fn price(&mut self, take: &mut dyn FnMut() -> u32) {
        self.number = take();
        if self.is_by_box() {
            // What is counted of the index.
            take();
            take();
        }
        self.inputs_mut().into_iter().for_each(|n| n.price(take));
        let (start, total) = self.own_price();
        let checked = self.rows * OPERATOR * self.filter.len() as f64;
        self.cost = (start, total + checked);
    }

    fn own_price(&self) -> (f64, f64) {
        let n = self.rows;
        match &self.operator {
            Operator::Nothing => (0.0, ROW),
            Operator::Empty { .. } => (0.0, 0.0),
            Operator::Scan { source: Source::Table(t), access, .. } => match access {
                Access::Full => (0.0, t.pages() as f64 * 0.5 + t.estimate_rows() as f64 * ROW),
                Access::Tid { .. } => (0.0, n * 2.0 * ROW),
                Access::Lookup { keys, .. } => (LOOKUP, LOOKUP * keys.len() as f64 + n * 2.0 * ROW),
                Access::Box { .. } => (LOOKUP, 4.0 * LOOKUP + n * 2.0 * ROW),
                // As PostgreSQL has it, one row is as dear as another.
                Access::Nearest { .. } => (LOOKUP, 4.0 * LOOKUP + n * 4.0 * ROW),
                Access::Range { ranges, .. } => (LOOKUP, LOOKUP * ranges.len() as f64 + n * 2.0 * ROW),
            },
            Operator::Scan { .. } => (0.0, n * ROW),
            Operator::Join { method, outer, inner, .. } => {
                let (o, i) = (outer.cost, inner.cost);
                match method {
                    Method::Loop => (o.0 + i.0, o.1 + outer.rows * i.1 + n * ROW),
                    Method::Kept => (i.1 + o.0, i.1 + o.1 + outer.rows * inner.rows * OPERATOR + n * ROW),
                    Method::Hash(_) => {
                        let built = i.1 + inner.rows * ROW;
                        (built + o.0, built + o.1 + outer.rows * ROW + n * ROW)
                    }
                }
            }
            Operator::Project { input, columns, .. } => {
                (input.cost.0, input.cost.1 + n * OPERATOR * columns.len() as f64)
            }
            Operator::ProjectSet { input, .. } => (input.cost.0, input.cost.1 + n * ROW),
            Operator::Aggregate { input, keys, aggregates, .. } => {
                let each = OPERATOR * (keys.len() + aggregates.len()) as f64;
                let done = input.cost.1 + input.rows * each;
                (done, done + n * ROW)
            }
            Operator::Window { input, window, calls, .. } => {
                let each = OPERATOR * (window.keys.len() + calls.len()) as f64;
                (input.cost.0, input.cost.1 + input.rows * each + n * ROW)
            }
            Operator::Distinct { input, .. } => (input.cost.0, input.cost.1 + input.rows * ROW),
            Operator::Sort { input, keys, .. } => {
                let compared = input.rows * (input.rows + 2.0).log2() * 2.0 * OPERATOR * keys.len() as f64;
                (input.cost.1 + compared, input.cost.1 + compared + n * OPERATOR)
            }
            Operator::Limit { input, .. } => {
                let share = if input.rows > 0.0 { (n / input.rows).min(1.0) } else { 1.0 };
                (input.cost.0, input.cost.0 + (input.cost.1 - input.cost.0) * share)
            }
            Operator::Lock { input, .. } => (input.cost.0, input.cost.1 + n * ROW),
            Operator::With { input, .. } => input.cost,
            Operator::SetOperation { left, right, .. } | Operator::Recursion { left, right, .. } => {
                let both = left.node.cost.1 + right.node.cost.1;
                (left.node.cost.0, both + n * ROW)
            }
        }
    }
}
