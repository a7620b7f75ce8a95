//! Which way into one table: an index by all its columns, a range of a B+-tree, or all rows.
//!
//! Without statistics, the row counts are rules of thumb from the number n of the table's slots in use, which some of its pages
//! tell, so that planning takes no longer for a larger table: k of m key columns of a
//! unique index leave n^(1 - k/m) rows, those of another index n^(1 - k/(m + 1)), and never more than fewer of them would; a bound on one side a third, on both a
//! tenth; any other equality a tenth, any other condition a third.
use super::classify::{self, comparison, is_int};
use super::node::{Access, KeyValue};
use super::refs::{RelSet, refs};
use crate::bound::{Expr, ExprKind};
use crate::code::operand::Cond;
use ondol_engine::{IndexDef, IndexKind, Table};
use ondol_types::TypeId;

/// An order that is wanted of a rel's rows: (column, desc, nulls first).
pub type Order = [(u16, bool, bool)];

pub struct Choice<'a> {
    pub access: Access<'a>,
    /// How many keys are looked up: one, or those of a list.
    pub lookups: f64,
    /// How many rows the access itself gives.
    pub fetched: f64,
    /// How many remain after the conditions.
    pub rows: f64,
    pub ordered: bool,
    /// It uses values of other rels.
    pub uses_others: bool,
}

/// Rows of a table, those not yet collected included. A small table is taken for a larger one: what is planned while it is
/// being filled, a registered query above all, should not be foolish when it is full.
pub fn table_rows(table: &Table) -> f64 {
    table.estimate_rows().max(1000) as f64
}

/// A guess of the rows of `n` that have given values in the first `k` columns of an index.
fn rows_of_prefix(index: &IndexDef, k: usize, n: f64) -> f64 {
    let m = index.columns.len() as f64;
    // Columns are taken for equally selective, and what tells two equal keys apart for one more.
    let parts = if index.unique { m } else { m + 1.0 };
    n.powf(1.0 - k as f64 / parts)
}

/// `column cond value` for a column of the rel, whichever way round it is written.
pub fn column_condition<'a>(
    e: &'a Expr,
    rel: u16,
    bound: RelSet,
) -> Option<(u16, Cond, &'a Expr, TypeId, TypeId)> {
    let ExprKind::Call { func, args } = &e.kind else { return None };
    let c = comparison(*func)?;
    let [left, right] = &args[..] else { return None };
    let column_of = |e: &'a Expr| match e.unrelabelled().kind {
        ExprKind::Column { depth: 0, rel: r, column } if r == rel => Some(column),
        _ => None,
    };
    if let Some(column) = column_of(left)
        && refs(right).within(bound)
    {
        return Some((column, c.cond, right, c.left, c.right));
    }
    if let Some(column) = column_of(right)
        && refs(left).within(bound)
    {
        return Some((column, c.cond.turned(), left, c.right, c.left));
    }
    None
}

/// Whether `e` is `column = value` (or the other way round), `value` being that very expression.
pub fn is_equality(e: &Expr, rel: u16, column: u16, value: &Expr) -> bool {
    let ExprKind::Call { func, args } = &e.kind else { return false };
    let [left, right] = &args[..] else { return false };
    let is_column = |e: &Expr| matches!(e.unrelabelled().kind, ExprKind::Column { depth: 0, rel: r, column: c } if r == rel && c == column);
    comparison(*func).is_some_and(|c| c.cond == Cond::Eq)
        && (std::ptr::eq(left, value) && is_column(right) || std::ptr::eq(right, value) && is_column(left))
}

/// Whether `e` is `column IN (list)`, the list being that very one.
pub fn is_member(e: &Expr, rel: u16, column: u16, list: &[Expr]) -> bool {
    let ExprKind::InList { arg, list: of, negated: false, .. } = &e.kind else { return false };
    let is_column = matches!(arg.unrelabelled().kind, ExprKind::Column { depth: 0, rel: r, column: c } if r == rel && c == column);
    is_column && std::ptr::eq(&of[..], list)
}

/// Whether a value of the comparison's other side can be a key: (column's type, its side's type, the value's).
fn key_fits(column: TypeId, side: TypeId, value: TypeId, equality: bool) -> bool {
    if is_int(column) && is_int(value) && is_int(side) {
        // A range needs the value to fit the column whatever it is.
        return equality || width(value) <= width(column);
    }
    if [column, side, value].into_iter().all(TypeId::is_string_or_unknown) {
        // As text, char(n) has another idea of trailing spaces than as char(n): equality is rechecked, a range not.
        return equality || (column == TypeId::BPCHAR) == (side == TypeId::BPCHAR);
    }
    column == side && side == value
}

fn width(t: TypeId) -> u8 {
    match t {
        TypeId::INT2 => 2,
        TypeId::INT4 => 4,
        _ => 8,
    }
}

struct Conditions<'a> {
    /// (column, value)
    equal: Vec<(u16, KeyValue<'a>)>,
    /// (column, is a lower bound, value, inclusive)
    bounds: Vec<(u16, bool, &'a Expr, bool)>,
}

fn conditions<'a>(table: &Table, rel: u16, bound: RelSet, conjuncts: &[&'a Expr]) -> Conditions<'a> {
    let mut out = Conditions { equal: Vec::new(), bounds: Vec::new() };
    let ty = |c: u16| table.def.columns.get(c as usize).map_or(TypeId::VOID, |c| c.ty.id);
    for e in conjuncts {
        if let Some((column, cond, value, side, value_ty)) = column_condition(e, rel, bound) {
            if value.calls(ondol_types::func::Volatility::Volatile) {
                continue;
            }
            if !key_fits(ty(column), side, value_ty, cond == Cond::Eq) {
                continue;
            }
            match cond {
                Cond::Eq => out.equal.push((column, KeyValue::One(value))),
                Cond::Lt | Cond::Le => out.bounds.push((column, false, value, cond == Cond::Le)),
                Cond::Gt | Cond::Ge => out.bounds.push((column, true, value, cond == Cond::Ge)),
                Cond::Ne => {}
            }
        }
        if let ExprKind::InList { arg, list, eq, negated: false } = &e.kind {
            let Some(c) = comparison(*eq) else { continue };
            if let ExprKind::Column { depth: 0, rel: r, column } = arg.unrelabelled().kind {
                let fits = r == rel
                    && key_fits(ty(column), c.left, c.right, true)
                    && list
                        .iter()
                        .all(|v| refs(v).within(bound) && !v.calls(ondol_types::func::Volatility::Volatile));
                if fits {
                    out.equal.push((column, KeyValue::List(list)));
                }
            }
        }
    }
    // Single values first: a list is taken only where there is none.
    out.equal.sort_by_key(|(_, v)| matches!(v, KeyValue::List(_)));
    out
}

fn others(v: &KeyValue<'_>) -> bool {
    match v {
        KeyValue::One(e) => !refs(e).is_empty(),
        KeyValue::List(l) => l.iter().any(|e| !refs(e).is_empty()),
    }
}

/// The share of rows that the conditions leave.
fn selectivity(conjuncts: &[&Expr], rel: u16, bound: RelSet) -> f64 {
    conjuncts
        .iter()
        .map(|e| match column_condition(e, rel, bound) {
            Some((_, Cond::Eq, ..)) => 0.1,
            _ if matches!(e.kind, ExprKind::InList { .. }) => 0.2,
            _ => 0.33,
        })
        .product::<f64>()
        .max(1e-6)
}

/// Values for the columns in front of an index, and how many of them are lists (at most one).
fn leading_keys<'a>(index: &IndexDef, c: &Conditions<'a>) -> (Vec<KeyValue<'a>>, usize) {
    let mut keys: Vec<KeyValue<'a>> = Vec::new();
    let mut lists = 0;
    for col in &index.columns {
        let Some((_, v)) = c.equal.iter().find(|(column, _)| *column as usize == col.column) else {
            break;
        };
        if let KeyValue::List(l) = v {
            // One list a lookup; and none in front of a range.
            if lists == 1 || l.is_empty() {
                break;
            }
            lists += 1;
        }
        keys.push(*v);
    }
    (keys, lists)
}

/// The best way into a table of `n` rows. `conjuncts` are those that can be evaluated when the rels of `bound` and this one are bound.
pub fn choose<'a>(
    (table, n): (&Table, f64),
    rel: u16,
    bound: RelSet,
    conjuncts: &[&'a Expr],
    order: Option<&Order>,
    limited: bool,
) -> Choice<'a> {
    let c = conditions(table, rel, bound, conjuncts);
    let ordered = order.is_none_or(|o| o.is_empty());
    let all: Vec<(Vec<KeyValue<'a>>, usize)> =
        table.def.indexes.iter().map(|i| leading_keys(i, &c)).collect();
    // More columns with a value never leave more rows: the guess for some of an index's columns bounds the guess for all.
    let rows_of_keys = |number: usize, own: usize| {
        let columns = |i: usize, k: usize| table.def.indexes[i].columns[..k].iter().map(|c| c.column);
        (0..all.len())
            .map(|i| (i, all[i].0.len()))
            .filter(|(i, k)| *k <= own && columns(*i, *k).all(|c| columns(number, own).any(|o| o == c)))
            .map(|(i, k)| rows_of_prefix(&table.def.indexes[i], k, n) * 0.5f64.powi((own - k) as i32))
            .fold(n, f64::min)
            .max(1.0)
    };
    let rows = (0..all.len())
        .filter(|i| all[*i].1 == 0)
        .map(|i| rows_of_keys(i, all[i].0.len()))
        .fold(n * selectivity(conjuncts, rel, bound), f64::min)
        .max(1.0);
    let mut best =
        Choice { access: Access::Full, lookups: 1.0, fetched: n, rows, ordered, uses_others: false };
    let mut best_cost = cost(&best, n, limited);
    for (number, index) in table.def.indexes.iter().enumerate() {
        let m = index.columns.len();
        let (keys, lists) = all[number].clone();
        let uses_others = keys.iter().any(others);
        let choice = if keys.len() == m {
            let lookups = keys
                .iter()
                .map(|k| if let KeyValue::List(l) = k { l.len() as f64 } else { 1.0 })
                .product::<f64>();
            let fetched = (rows_of_keys(number, m) * lookups).min(n);
            Choice {
                access: Access::Lookup { index: number, keys, unique: index.unique },
                lookups,
                fetched,
                rows: fetched.min(rows.max(1.0)),
                ordered: ordered || order.is_some_and(|o| lists == 0 && are_keys(index, o)),
                uses_others,
            }
        } else if index.kind == IndexKind::Btree {
            let prefix: Vec<&'a Expr> =
                keys.iter().map_while(|k| if let KeyValue::One(e) = k { Some(*e) } else { None }).collect();
            let k = prefix.len();
            let next = &index.columns[k];
            let find = |lower| {
                c.bounds
                    .iter()
                    .find(|(column, l, ..)| *column as usize == next.column && *l == lower)
                    .map(|(_, _, v, inclusive)| (*v, *inclusive))
            };
            let (low, high) = (find(true), find(false));
            let backward = order.and_then(|o| direction(index, k, &c, o));
            if k == 0 && low.is_none() && high.is_none() && backward.is_none() {
                continue;
            }
            let share = match (low.is_some(), high.is_some()) {
                (true, true) => 0.1,
                (false, false) => 1.0,
                _ => 0.33,
            };
            let fetched = (rows_of_keys(number, k) * share).max(1.0);
            let uses_others = prefix.iter().any(|e| !refs(e).is_empty())
                || [low, high].iter().flatten().any(|(e, _)| !refs(e).is_empty());
            Choice {
                access: Access::Range { index: number, prefix, low, high, backward: backward == Some(true) },
                lookups: 1.0,
                fetched,
                rows: fetched.min(rows),
                ordered: ordered || backward.is_some(),
                uses_others,
            }
        } else {
            continue;
        };
        let cost = cost(&choice, n, limited);
        if cost < best_cost {
            (best, best_cost) = (choice, cost);
        }
    }
    best
}

/// What an access costs, in rows touched; a sort that it leaves to do included.
fn cost(c: &Choice<'_>, n: f64, limited: bool) -> f64 {
    let fetch = match &c.access {
        // A scan in storage order touches memory in sequence.
        Access::Full => n * 0.5 + 5.0,
        Access::Lookup { unique: true, .. } => c.fetched.max(c.lookups),
        Access::Lookup { .. } => 1.0 + (c.fetched * 1.1).max(c.lookups),
        Access::Range { .. } => 3.0 + c.fetched * 1.3,
    };
    match (c.ordered, limited) {
        // Few of the rows will be asked for.
        (true, true) => fetch.min(20.0 * c.fetched / c.rows.max(1.0)),
        (true, false) => fetch,
        (false, _) => fetch + c.rows * (1.0 + 0.2 * (c.rows + 1.0).log2()),
    }
}

/// Whether all rows with one key of the index are equal in the order. There may be two of them even where it is unique (see `Op::Twin`).
fn are_keys(index: &IndexDef, order: &Order) -> bool {
    order.iter().all(|(column, ..)| index.columns.iter().any(|i| i.column == *column as usize))
}

/// Whether an index gives the order once its first `k` columns are fixed: `Some(backward)`.
fn direction(index: &IndexDef, k: usize, c: &Conditions<'_>, order: &Order) -> Option<bool> {
    let fixed = |column: u16| {
        index.columns[..k].iter().any(|i| i.column == column as usize)
            && c.equal.iter().any(|(e, v)| *e == column && matches!(v, KeyValue::One(_)))
    };
    let mut at = k;
    let mut backward = None;
    for (column, desc, nulls_first) in order {
        if fixed(*column) {
            continue;
        }
        let i = index.columns.get(at)?;
        if i.column != *column as usize {
            return None;
        }
        let back = match (i.desc == *desc, i.nulls_first == *nulls_first) {
            (true, true) => false,
            (false, false) => true,
            _ => return None,
        };
        if backward.is_some_and(|b| b != back) {
            return None;
        }
        backward = Some(back);
        at += 1;
    }
    Some(backward.unwrap_or(false))
}

/// Pairs of equal expressions that a hash table may join by: (over `outer`, over `inner` alone).
pub fn hash_keys<'a>(conjuncts: &[&'a Expr], outer: RelSet, inner: RelSet) -> Vec<(&'a Expr, &'a Expr)> {
    let mut keys = Vec::new();
    for e in conjuncts {
        let ExprKind::Call { func, args } = &e.kind else { continue };
        let Some(c) = comparison(*func) else { continue };
        let ([left, right], true) = (&args[..], classify::hashable(&c)) else { continue };
        let (l, r) = (refs(left), refs(right));
        if l.within(outer) && !r.is_empty() && r.within(inner) {
            keys.push((left, right));
        } else if r.within(outer) && !l.is_empty() && l.within(inner) {
            keys.push((right, left));
        }
    }
    keys
}
