//! From logical operators to physical ones; joins and what is below them are `join`'s.
//!
//! - **O1** A sort whose order its input can give is not there; then a projection that only it looked at is
//!   not there either.
//! - **O2** An order is asked for, and a limit taken into account, only through operators that keep both.
use super::access::{self, Order};
use super::join::{self, Wanted};
use super::logical::{self, ExprKind, Logical, SortBy};
use super::physical::{Node, Operator, Root, Statement, Subplan};
use super::price;
use super::ways::Ways;
use ondol_types::SqlResult;
use ondol_types::func::Volatility;
use ondol_types::limits::Limits;

mod window;

/// What is wanted of an operator's rows beyond that they are right.
#[derive(Clone, Default)]
pub struct Want<'a> {
    pub order: Option<Wanted<'a>>,
    /// Few of the rows may be asked for.
    pub limited: bool,
}

pub struct Planned<'a> {
    pub node: Node<'a>,
    /// The wanted order is given.
    pub ordered: bool,
}

pub struct Planner<'a, 'l> {
    limits: Limits<'l>,
    pub ways: Ways,
    pub hidden: &'a [logical::Hidden],
    /// How many rows each WITH query may have.
    pub with_rows: Vec<f64>,
}

/// How many rows a function that gives rows is taken to give.
const SET_ROWS: f64 = 10.0;
/// How many turns a recursion is taken to have.
const TURNS: f64 = 10.0;

/// The way to a statement's rows.
pub fn plan<'a>(
    statement: &'a logical::Statement,
    limits: Limits<'_>,
    ways: Ways,
) -> SqlResult<Statement<'a>> {
    let mut planner = Planner { limits, ways, hidden: &statement.hidden, with_rows: Vec::new() };
    let mut with = Vec::new();
    for (name, rows) in &statement.with {
        let rows = planner.rows(rows)?;
        planner.with_rows.push(rows.node.rows);
        with.push((&name[..], rows));
    }
    let root = match &statement.root {
        logical::Root::Rows(rows) => Root::Rows(planner.rows(rows)?),
        logical::Root::Insert { table, source, columns, checks, on_conflict, returning, rel } => {
            Root::Insert {
                table,
                source: planner.rows(source)?,
                columns,
                checks,
                on_conflict: on_conflict.as_ref(),
                returning,
                rel: *rel,
                number: 0,
            }
        }
        logical::Root::Modify { table, rel, input, assign, checks, recheck, returning } => Root::Modify {
            table,
            rel: *rel,
            input: planner.tree(input, &Want::default())?.node,
            assign: assign.as_deref(),
            checks,
            recheck,
            returning,
            number: 0,
        },
    };
    let queries = statement.queries.iter().map(|q| planner.rows(q)).collect::<SqlResult<_>>()?;
    let mut plan = Statement {
        root,
        queries,
        with,
        relations: &statement.relations,
        params: &statement.params,
        columns: &statement.columns,
        catalog_version: statement.catalog_version,
        nodes: 0,
    };
    price::price(&mut plan);
    Ok(plan)
}

impl<'a> Planner<'a, '_> {
    fn rows(&self, rows: &'a logical::Block) -> SqlResult<Subplan<'a>> {
        let mut node = self.tree(&rows.tree, &Want::default())?.node;
        let mut output: Vec<&'a logical::Expr> = rows.output.iter().collect();
        // O1: what nobody looks at but the output is computed there.
        let projection = match &mut node.operator {
            // A condition on what the limit gives would look at it, too, and so do ties.
            Operator::Limit { input, ties: [], .. } if node.filter.is_empty() => &mut **input,
            _ => &mut node,
        };
        if let Operator::Project { rel, columns, .. } = &projection.operator
            && projection.filter.is_empty()
            && let Some(direct) = instead(&output, *rel, columns)
        {
            let operator = std::mem::replace(&mut projection.operator, Operator::Nothing);
            if let Operator::Project { input, .. } = operator {
                *projection = *input;
                output = direct;
            }
        }
        Ok(Subplan { node, output })
    }

    pub fn tree(&self, tree: &'a Logical, want: &Want<'a>) -> SqlResult<Planned<'a>> {
        self.limits.go_on()?;
        let unordered = |node| Planned { node, ordered: false };
        let none = Want::default();
        Ok(match tree {
            Logical::Nothing | Logical::Scan { .. } | Logical::Filter { .. } | Logical::Join { .. } => {
                join::plan(self, tree, want)?
            }
            Logical::Project { rel, input, columns } => {
                let want = Want { order: below(want.order.as_ref(), *rel, columns), ..want.clone() };
                let Planned { node, ordered } = self.tree(input, &want)?;
                let rows = node.rows;
                let node = Node::new(Operator::Project { rel: *rel, input: Box::new(node), columns }, rows);
                Planned { node, ordered: ordered && want.order.is_some() }
            }
            Logical::ProjectSet { rel, input, values, stop } => {
                let input = Box::new(self.tree(input, &none)?.node);
                let rows = input.rows * SET_ROWS;
                unordered(Node::new(Operator::ProjectSet { rel: *rel, input, values, stop }, rows))
            }
            Logical::Aggregate { rel, input, keys, aggregates } => {
                let input = Box::new(self.tree(input, &none)?.node);
                let rows = price::groups(&input, keys.len());
                unordered(Node::new(Operator::Aggregate { rel: *rel, input, keys, aggregates }, rows))
            }
            Logical::Window { .. } => self.window(tree, want)?,
            Logical::Distinct { input, by, .. } => {
                let input = Box::new(self.tree(input, &none)?.node);
                let rows = price::groups(&input, by.len());
                unordered(Node::new(Operator::Distinct { input, by }, rows))
            }
            Logical::Sort { input, keys } if window::comes_in(input, keys) => {
                unordered(self.tree(input, &none)?.node)
            }
            Logical::Sort { input, keys } => {
                let limited = want.limited;
                let Planned { node, ordered } = self.tree(input, &Want { order: order_of(keys), limited })?;
                if ordered {
                    return Ok(unordered(node));
                }
                let (rows, input) = (node.rows, Box::new(node));
                let operator = Operator::Sort { input, keys, bounded: false, by_identity: false };
                unordered(Node::new(operator, rows))
            }
            Logical::Lock { input, locks, recheck } => {
                let mut node = self.tree(input, want)?.node;
                if let Operator::Sort { by_identity, .. } = &mut node.operator {
                    *by_identity = true;
                }
                let (rows, input) = (node.rows, Box::new(node));
                unordered(Node::new(Operator::Lock { input, locks, recheck }, rows))
            }
            Logical::Limit { input, limit, offset, ties } => {
                let limited = limit.is_some() && ties.is_empty();
                let mut node = self.tree(input, &Want { order: None, limited })?.node;
                if let Operator::Sort { bounded, .. } = &mut node.operator {
                    *bounded = limited;
                }
                let rows = price::limited(node.rows, limit.as_ref());
                let (limit, offset) = (limit.as_ref(), offset.as_ref());
                let input = Box::new(node);
                unordered(Node::new(Operator::Limit { input, limit, offset, ties }, rows))
            }
            Logical::With { queries, input } => {
                let Planned { node, ordered } = self.tree(input, want)?;
                let (rows, input) = (node.rows, Box::new(node));
                Planned { node: Node::new(Operator::With { queries, input }, rows), ordered }
            }
            Logical::SetOperation { rel, operation, all, left, right } => {
                let (left, right) = (Box::new(self.rows(left)?), Box::new(self.rows(right)?));
                let rows = left.node.rows + right.node.rows;
                let (rel, operation, all) = (*rel, *operation, *all);
                unordered(Node::new(Operator::SetOperation { rel, operation, all, left, right }, rows))
            }
            Logical::Recursion { rel, work, all, left, right } => {
                let (left, right) = (Box::new(self.rows(left)?), Box::new(self.rows(right)?));
                let rows = left.node.rows + TURNS * right.node.rows;
                let (rel, work, all) = (*rel, *work, *all);
                unordered(Node::new(Operator::Recursion { rel, work, all, left, right }, rows))
            }
        })
    }
}

/// The order that a sort asks of its input, if it is one of a single relation's columns, or by the distance
/// of some of them.
fn order_of(keys: &[SortBy]) -> Option<Wanted<'_>> {
    if let [SortBy { expr, desc: false, nulls_first: false }] = keys
        && let Some(wanted) = by_distance(expr)
    {
        return Some(wanted);
    }
    let mut rel = None;
    let mut columns = Vec::new();
    for k in keys {
        let ExprKind::Column { rel: r, column, .. } = k.expr.unrelabelled().kind else { return None };
        if *rel.get_or_insert(r) != r {
            return None;
        }
        columns.push((column, k.desc, k.nulls_first));
    }
    rel.map(|r| (r, Order::Columns(columns)))
}

/// The order by a distance, if that is one of a single relation's columns.
fn by_distance(e: &logical::Expr) -> Option<Wanted<'_>> {
    let (columns, _) = access::distance_of(e)?;
    let mut rels = columns.iter().map(|c| match c.unrelabelled().kind {
        ExprKind::Column { rel, .. } => Some(rel),
        _ => None,
    });
    let first = rels.next()??;
    rels.all(|r| r == Some(first)).then_some((first, Order::Distance(e)))
}

/// An order of a projection's columns as one of a relation below it.
fn below<'a>(order: Option<&Wanted<'_>>, rel: u16, columns: &'a [logical::Expr]) -> Option<Wanted<'a>> {
    let Some((of, Order::Columns(order))) = order else { return None };
    if let [(column, false, false)] = order[..]
        && *of == rel
        && let Some(wanted) = by_distance(columns.get(usize::from(column))?)
    {
        return Some(wanted);
    }
    let mut inner = None;
    let mut list = Vec::new();
    for (column, desc, nulls_first) in order {
        let e = columns.get(*column as usize).filter(|_| *of == rel)?;
        let ExprKind::Column { rel: r, column, .. } = e.unrelabelled().kind else { return None };
        if *inner.get_or_insert(r) != r {
            return None;
        }
        list.push((column, *desc, *nulls_first));
    }
    inner.map(|r| (r, Order::Columns(list)))
}

/// What the output is without a projection: if it is nothing but columns of that, each that is volatile at
/// most once.
fn instead<'a>(
    output: &[&'a logical::Expr],
    of: u16,
    columns: &'a [logical::Expr],
) -> Option<Vec<&'a logical::Expr>> {
    let mut seen = std::collections::HashSet::new();
    output
        .iter()
        .map(|e| match e.kind {
            ExprKind::Column { rel, column, .. } if rel == of => {
                let e = columns.get(column as usize)?;
                (seen.insert(column) || !e.calls(Volatility::Volatile)).then_some(e)
            }
            _ => None,
        })
        .collect()
}
