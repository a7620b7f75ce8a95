//! Which way into one table: `ctid`, an index by all its columns, a range of a B+-tree, a box of a CR-tree,
//! or all rows.
//!
//! Without statistics, the row counts are rules of thumb from the number n of the table's slots in use, which
//! some of its pages tell, so that planning takes no longer for a larger table: k of m key columns of a
//! unique index leave n^(1 - k/m) rows, those of another index n^(1 - k/(m + 1)), and never more than fewer
//! of them would; a bound on one side a third, on both a tenth; any other equality a tenth, any other
//! condition a third.
use super::classify::{self, Cond, comparison, is_int};
use super::logical::{Expr, ExprKind, Hidden, has_query};
use super::physical::{Access, End, KeyRange, KeyValue, Side, Within};
use super::prefix;
use super::refs::{Inputs, RelSet};
use super::ways::Ways;
use crate::bound::CTID;
use crate::foreign::ForeignTable;
use crate::imply::implies;
use ondol_engine::{IndexDef, IndexKind, Table};
use ondol_types::array::Array;
use ondol_types::edge::is_rounded;
use ondol_types::func::{FuncId, Volatility, id};
use ondol_types::{Type, TypeId, Value};
use std::sync::LazyLock;

/// An order that is wanted of a rel's rows.
#[derive(Clone)]
pub enum Order<'a> {
    /// (column, desc, nulls first)
    Columns(Vec<(u16, bool, bool)>),
    /// By a distance ([`distance_of`]), the least first.
    Distance(&'a Expr),
}

/// `crtree_distance(columns, point)`: both.
pub fn distance_of(e: &Expr) -> Option<(&[Expr], &[Expr])> {
    match &e.kind {
        ExprKind::Call { func: id::CRTREE_DISTANCE, args } => Some(args.split_at(args.len() / 2)),
        _ => None,
    }
}

pub struct Choice<'a> {
    pub access: Access<'a>,
    /// The conditions that the access is by.
    pub by: Vec<&'a Expr>,
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

/// Rows of a table, those not yet collected included, for choosing a way into it. A small table is taken for
/// a larger one: what is planned while it is being filled, a registered query above all, should not be
/// foolish when it is full.
pub fn table_rows(table: &Table) -> f64 {
    likely_rows(table).max(SMALL)
}

/// Rows of a table, for the order of joins: a mistake there costs less. An empty table is one that will be
/// filled.
pub fn likely_rows(table: &Table) -> f64 {
    match table.estimate_rows() {
        0 => SMALL,
        n => n as f64,
    }
}

const SMALL: f64 = 1000.0;

/// What the hidden column of a predicate is where a row is in the index.
static TRUE: LazyLock<Expr> =
    LazyLock::new(|| Expr { kind: ExprKind::Const(Value::Bool(true)), ty: Type::BOOL, at: u32::MAX });

/// A guess of the rows of `n` that have given values in the first `k` columns of an index.
fn rows_of_prefix(index: &IndexDef, k: usize, n: f64) -> f64 {
    let m = index.columns.len() as f64;
    // Columns are taken for equally selective, and what tells two equal keys apart for one more.
    let parts = if index.unique { m } else { m + 1.0 };
    n.powf(1.0 - k as f64 / parts)
}

/// A rel among the inputs of a join, and the inputs that are there when its rows are looked for.
#[derive(Clone, Copy)]
pub struct Place<'i> {
    pub inputs: &'i Inputs,
    pub rel: u16,
    pub bound: RelSet,
    /// The hidden columns of the statement's tables.
    pub hidden: &'i [Hidden],
}

impl Place<'_> {
    fn is_there(&self, e: &Expr) -> bool {
        self.inputs.refs(e).within(self.bound)
    }
}

/// `column cond value` for a column of the rel, whichever way round it is written.
pub fn column_condition<'a>(e: &'a Expr, place: &Place<'_>) -> Option<(u16, Cond, &'a Expr, TypeId, TypeId)> {
    let ExprKind::Call { func, args } = &e.kind else { return None };
    let c = comparison(*func)?;
    let [left, right] = &args[..] else { return None };
    if let Some(column) = column_of(left, place.rel)
        && place.is_there(right)
    {
        return Some((column, c.cond, right, c.left, c.right));
    }
    if let Some(column) = column_of(right, place.rel)
        && place.is_there(left)
    {
        return Some((column, c.cond.turned(), left, c.right, c.left));
    }
    None
}

/// The rel's column that an expression is.
fn column_of(e: &Expr, rel: u16) -> Option<u16> {
    match e.unrelabelled().kind {
        ExprKind::Column { rel: r, column, .. } if r == rel => Some(column),
        _ => None,
    }
}

/// Whether a value of the comparison's other side can be a key: (column's type, its side's type, the
/// value's).
fn key_fits(column: TypeId, side: TypeId, value: TypeId, equality: bool) -> bool {
    if is_int(column) && is_int(value) && is_int(side) {
        return true;
    }
    if !equality && column == side && is_rounded(value, column) {
        return true;
    }
    if [column, side, value].into_iter().all(TypeId::is_string_or_unknown) {
        // As text, char(n) has another idea of trailing spaces than as char(n): equality is rechecked, a
        // range not.
        return equality || (column == TypeId::BPCHAR) == (side == TypeId::BPCHAR);
    }
    // A polymorphic comparison has one type on both sides.
    side == value && (column == side || side.is_polymorphic())
}

struct Conditions<'a> {
    /// (column, value, the condition)
    equal: Vec<(u16, KeyValue<'a>, &'a Expr)>,
    /// (column, is a lower bound, value, inclusive, the condition, unless it says more)
    bounds: Vec<(u16, bool, End<'a>, bool, Option<&'a Expr>)>,
}

fn conditions<'a>(table: &Table, place: &Place<'_>, conjuncts: &[&'a Expr]) -> Conditions<'a> {
    let mut out = Conditions { equal: Vec::new(), bounds: Vec::new() };
    let ty = |c: u16| match table.def.columns.get(c as usize) {
        None if c == CTID => TypeId::TID,
        column => column.map_or(TypeId::VOID, |c| c.ty.id),
    };
    for e in conjuncts {
        if let Some((column, cond, value, side, value_ty)) = column_condition(e, place) {
            if value.calls(Volatility::Volatile) {
                continue;
            }
            if !key_fits(ty(column), side, value_ty, cond == Cond::Eq) {
                continue;
            }
            match cond {
                Cond::Eq => out.equal.push((column, KeyValue::One(value), e)),
                Cond::Lt | Cond::Le => {
                    out.bounds.push((column, false, End::Value(value), cond == Cond::Le, Some(e)))
                }
                Cond::Gt | Cond::Ge => {
                    out.bounds.push((column, true, End::Value(value), cond == Cond::Ge, Some(e)))
                }
                Cond::Ne => {}
            }
        }
        if let ExprKind::InList { arg, list, eq, negated: false } = &e.kind {
            let Some(c) = comparison(*eq) else { continue };
            if let Some(column) = column_of(arg, place.rel) {
                let fits = key_fits(ty(column), c.left, c.right, true)
                    && list.iter().all(|v| place.is_there(v) && !v.calls(Volatility::Volatile));
                if fits {
                    out.equal.push((column, KeyValue::List(list), e));
                }
            }
        }
        if let Some((arg, prefix)) = prefix::of(e)
            && let Some(column) = column_of(arg, place.rel)
            && matches!(ty(column), TypeId::TEXT | TypeId::VARCHAR)
        {
            out.bounds.push((column, true, End::Text(prefix.low), true, None));
            if let Some((high, inclusive)) = prefix.high {
                out.bounds.push((column, false, End::Text(high), inclusive, None))
            }
        }
        if let Some((_, arg, array, c)) = any_of_array(e)
            && let Some(column) = column_of(arg, place.rel)
            && let Some(item) = array.ty.element()
        {
            // The comparison's own type may be that of an array of other strings.
            let is_there = place.is_there(array) && !array.calls(Volatility::Volatile);
            if is_there && key_fits(ty(column), c.left, item.id, true) {
                out.equal.push((column, KeyValue::Items(array), e));
            }
        }
    }
    // A partial index has the rows that are wanted if its predicate follows from the conditions.
    for index in table.def.indexes.iter() {
        let Some(column) = index.predicate().map(|c| c as u16) else { continue };
        let is_it = |h: &&Hidden| h.table == table.def.id && h.column == column && h.predicate;
        let Some(predicate) = place.hidden.iter().find(is_it) else { continue };
        let is_known = out.equal.iter().any(|(c, ..)| *c == column);
        let same = |(r, c): (u16, u16), (_, own): (u16, u16)| r == place.rel && c == own;
        if !is_known && implies(conjuncts, &predicate.expr, &same) {
            out.equal.push((column, KeyValue::One(&TRUE), &TRUE))
        }
    }
    // Single values first: several are taken only where there is none.
    out.equal.sort_by_key(|(_, v, _)| v.is_many());
    out
}

/// How many values are looked up.
fn lookups_of(v: &KeyValue<'_>) -> f64 {
    match v {
        KeyValue::One(_) => 1.0,
        KeyValue::List(l) => l.len() as f64,
        KeyValue::Items(Expr { kind: ExprKind::Const(Value::Opaque(ty, bytes)), .. }) => {
            Array::of_type(*ty, bytes).len() as f64
        }
        KeyValue::Items(_) => ITEMS,
    }
}

/// Items of an array that is not known yet.
const ITEMS: f64 = 10.0;

/// `left = ANY (array)`: the function that compares, both, and what kind of comparison it is.
pub fn any_of_array(e: &Expr) -> Option<(FuncId, &Expr, &Expr, classify::Comparison)> {
    let ExprKind::Call { func: id::ANY_OF_ARRAY, args } = &e.kind else { return None };
    let [left, array, Expr { kind: ExprKind::Const(Value::Int4(number)), .. }] = &args[..] else {
        return None;
    };
    let func = FuncId(u16::try_from(*number).ok()?);
    let c = comparison(func).filter(|c| c.cond == Cond::Eq)?;
    Some((func, left, array, c))
}

fn others(inputs: &Inputs, v: &KeyValue<'_>) -> bool {
    let mut found = false;
    v.each(&mut |e| found |= !inputs.refs(e).is_empty());
    found
}

/// The share of rows that the conditions leave; a second value that a column is to equal takes none away.
fn selectivity(conjuncts: &[&Expr], place: &Place<'_>) -> f64 {
    let mut known = Vec::new();
    conjuncts
        .iter()
        .map(|e| match column_condition(e, place) {
            Some((column, Cond::Eq, ..)) if known.contains(&column) => 1.0,
            Some((column, Cond::Eq, ..)) => {
                known.push(column);
                0.1
            }
            _ if matches!(e.kind, ExprKind::InList { .. }) || any_of_array(e).is_some() => 0.2,
            _ => 0.33,
        })
        .product::<f64>()
        .max(1e-6)
}

/// Values for the columns in front of an index, and the conditions that they come from.
#[derive(Clone, Default)]
struct Leading<'a> {
    keys: Vec<KeyValue<'a>>,
    by: Vec<&'a Expr>,
    /// How many of them are several values: at most one.
    lists: usize,
}

fn leading_keys<'a>(index: &IndexDef, c: &Conditions<'a>) -> Leading<'a> {
    let mut out = Leading::default();
    let columns = match index.kind {
        IndexKind::Btree | IndexKind::Hash => &index.columns[..],
        // Its columns have no order.
        IndexKind::Crtree { .. } => &[],
    };
    for col in columns {
        let Some((_, v, e)) = c.equal.iter().find(|(column, ..)| *column as usize == col.column) else {
            break;
        };
        if v.is_many() {
            // One list a lookup; and none in front of a range.
            if out.lists == 1 || matches!(v, KeyValue::List([])) {
                break;
            }
            out.lists += 1;
        }
        out.keys.push(*v);
        out.by.push(e);
    }
    out
}

/// The best way into a table of `n` rows. `conjuncts` are those that can be evaluated when the rels of
/// `bound` and this one are bound.
pub fn choose<'a>(
    (table, n): (&Table, f64),
    ways: Ways,
    place: &Place<'_>,
    conjuncts: &[&'a Expr],
    order: Option<&Order<'a>>,
    limited: bool,
) -> Choice<'a> {
    let c = conditions(table, place, conjuncts);
    let (order, distance) = match order {
        Some(Order::Columns(columns)) => (Some(&columns[..]), None),
        Some(Order::Distance(e)) => (None, Some(*e)),
        None => (None, None),
    };
    let ordered = distance.is_none() && order.is_none_or(|o| o.is_empty());
    let all: Vec<Leading<'a>> = table.def.indexes.iter().map(|i| leading_keys(i, &c)).collect();
    // More columns with a value never leave more rows: the guess for some of an index's columns bounds the
    // guess for all.
    let rows_of_keys = |number: usize, own: usize| {
        let columns = |i: usize, k: usize| table.def.indexes[i].columns[..k].iter().map(|c| c.column);
        (0..all.len())
            .map(|i| (i, all[i].keys.len()))
            .filter(|(i, k)| *k <= own && columns(*i, *k).all(|c| columns(number, own).any(|o| o == c)))
            .map(|(i, k)| rows_of_prefix(&table.def.indexes[i], k, n) * 0.5f64.powi((own - k) as i32))
            .fold(n, f64::min)
            .max(1.0)
    };
    let rows = (0..all.len())
        .filter(|i| all[*i].lists == 0)
        .map(|i| rows_of_keys(i, all[i].keys.len()))
        .fold(n * selectivity(conjuncts, place), f64::min)
        .max(1.0);
    let mut best = Choice {
        access: Access::Full,
        by: Vec::new(),
        lookups: 1.0,
        fetched: n,
        rows,
        ordered,
        uses_others: false,
    };
    let mut best_cost = cost(&best, n, limited, ways);
    let mut offer = |choice: Choice<'a>| {
        let cost = cost(&choice, n, limited, ways);
        if cost < best_cost {
            (best, best_cost) = (choice, cost);
        }
    };
    if let Some((_, tids, by)) = c.equal.iter().find(|(column, ..)| *column == CTID) {
        let (tids, by) = (*tids, *by);
        let lookups = lookups_of(&tids);
        offer(Choice {
            access: Access::Tid { tids, by },
            by: vec![by],
            lookups,
            fetched: lookups.min(n),
            rows: lookups.min(rows),
            ordered: ordered || matches!(tids, KeyValue::One(_)),
            uses_others: others(place.inputs, &tids),
        });
    }
    for (number, index) in table.def.indexes.iter().enumerate() {
        let m = index.columns.len();
        if let IndexKind::Crtree { .. } = index.kind {
            if let Some(e) = distance
                && let Some(to) = nearest_to(index, place, e)
            {
                let BoxOf { sides, by, share, .. } = box_of(index, &c, false);
                let is_there = |e: &Expr| place.inputs.refs(e).is_empty();
                let uses_others =
                    sides_use_others(&sides, place.inputs) || !to.iter().flatten().all(|e| is_there(e));
                let fetched = (n * share).max(1.0);
                let access = Access::Nearest { index: number, sides, to, by: e };
                let rows = fetched.min(rows);
                offer(Choice { access, by, lookups: 1.0, fetched, rows, ordered: true, uses_others })
            }
            let BoxOf { sides, by, share, lookups } = box_of(index, &c, true);
            if !by.is_empty() {
                let fetched = (n * share).max(lookups).clamp(1.0, n);
                let uses_others = sides_use_others(&sides, place.inputs);
                let access = Access::Box { index: number, boxes: vec![sides] };
                offer(Choice { access, by, lookups, fetched, rows: fetched.min(rows), ordered, uses_others })
            }
            continue;
        }
        let Leading { keys, mut by, lists } = all[number].clone();
        let uses_others = keys.iter().any(|k| others(place.inputs, k));
        if keys.len() == m {
            let within = if lists == 0 && !index.unique { within_of(table, &c, index) } else { None };
            // Rows that are the same for each of others' are looked up once.
            let within = within.filter(|w| uses_others || !sides_use_others(&w.sides, place.inputs));
            let lookups = keys.iter().map(lookups_of).product::<f64>();
            let fetched = (rows_of_keys(number, m) * lookups).min(n);
            let member = keys.iter().position(KeyValue::is_many).map(|at| by[at]);
            offer(Choice {
                access: Access::Lookup { index: number, keys, unique: index.unique, member, within },
                by,
                lookups,
                fetched,
                rows: fetched.min(rows.max(1.0)),
                ordered: ordered || order.is_some_and(|o| lists == 0 && are_keys(index, o)),
                uses_others,
            })
        } else if index.kind == IndexKind::Btree {
            let (range, used) = key_range(index, &keys, &c);
            let k = range.prefix.len();
            by.truncate(k);
            by.extend(used);
            let backward = order.and_then(|o| direction(index, k, &c, o));
            if range.is_open() && backward.is_none() {
                continue;
            }
            let fetched = (rows_of_keys(number, k) * range.share()).max(1.0);
            let ranges = vec![range];
            offer(Choice {
                uses_others: use_others(&ranges, place.inputs),
                access: Access::Range { index: number, ranges, backward: backward == Some(true) },
                by,
                lookups: 1.0,
                fetched,
                rows: fetched.min(rows),
                ordered: ordered || backward.is_some(),
            })
        }
    }
    for e in conjuncts {
        let parts = parts_of(table, place, conjuncts, e);
        for (number, index) in table.def.indexes.iter().enumerate() {
            if let Some((boxes, share, lookups)) = boxes_of(index, &parts) {
                let fetched = (n * share).max(lookups).clamp(1.0, n);
                offer(Choice {
                    uses_others: boxes.iter().any(|sides| sides_use_others(sides, place.inputs)),
                    access: Access::Box { index: number, boxes },
                    by: vec![e],
                    lookups,
                    fetched,
                    rows: fetched.min(rows),
                    ordered,
                })
            }
            let Some(ranges) = ranges_of(index, &parts) else { continue };
            let each = |r: &KeyRange<'_>| rows_of_prefix(index, r.prefix.len(), n) * r.share();
            let fetched = ranges.iter().map(each).sum::<f64>().clamp(1.0, n);
            let fixed = all[number].keys.iter().take_while(|k| !k.is_many()).count();
            let backward = order.and_then(|o| direction(index, fixed, &c, o));
            offer(Choice {
                lookups: ranges.len() as f64,
                uses_others: use_others(&ranges, place.inputs),
                access: Access::Range { index: number, ranges, backward: backward == Some(true) },
                by: vec![e],
                fetched,
                rows: fetched.min(rows),
                ordered: ordered || backward.is_some(),
            })
        }
    }
    best
}

/// The box of a CR-tree that conditions leave.
struct BoxOf<'a> {
    sides: Vec<Side<'a>>,
    /// The conditions.
    by: Vec<&'a Expr>,
    /// Which share of the rows may lie in it, by a guess.
    share: f64,
    /// How many boxes it is: one for each value of a list.
    lookups: f64,
}

/// One column at most may have a list; `lists`: whether one may.
fn box_of<'a>(index: &IndexDef, c: &Conditions<'a>, mut lists: bool) -> BoxOf<'a> {
    let mut out = BoxOf { sides: vec![], by: vec![], share: 1.0, lookups: 1.0 };
    for column in index.columns.iter().map(|c| c.column as u16) {
        // Single values stand first.
        let equal = c.equal.iter().find(|(of, value, _)| *of == column && (lists || !value.is_many()));
        let bound = |lower: bool| {
            c.bounds.iter().find_map(|(of, is_lower, end, inclusive, e)| match end {
                End::Value(value) if *of == column && *is_lower == lower => {
                    Some(((*value, *inclusive), (*e)?))
                }
                _ => None,
            })
        };
        let side = if let Some((_, value, e)) = equal {
            let values = lookups_of(value);
            out.by.push(e);
            out.share *= 0.02 * values;
            out.lookups *= values;
            match *value {
                KeyValue::One(value) => {
                    Side { low: Some((value, true)), high: Some((value, true)), list: None }
                }
                many => {
                    lists = false;
                    Side { list: Some(many), ..Side::default() }
                }
            }
        } else {
            let (low, high) = (bound(true), bound(false));
            out.by.extend(low.iter().chain(&high).map(|(_, e)| *e));
            out.share *= match (low.is_some(), high.is_some()) {
                (true, true) => 0.1,
                (false, false) => 1.0,
                _ => 0.33,
            };
            Side { low: low.map(|b| b.0), high: high.map(|b| b.0), list: None }
        };
        out.sides.push(side)
    }
    out
}

/// The box that says most of the rows that a look-up by `keys` finds, if any says more than that.
fn within_of<'a>(table: &Table, c: &Conditions<'a>, keys: &IndexDef) -> Option<Within<'a>> {
    let is_key = |column: usize| keys.columns.iter().any(|k| k.column == column);
    let boxes = table.def.indexes.iter().enumerate().filter_map(|(number, index)| {
        if !matches!(index.kind, IndexKind::Crtree { .. }) {
            return None;
        }
        let BoxOf { sides, share, .. } = box_of(index, c, false);
        let says_more = |(side, column): (&Side<'_>, usize)| !side.is_open() && !is_key(column);
        let columns = index.columns.iter().map(|c| c.column);
        // A query would be run once more than without.
        let mut queries = false;
        sides.iter().for_each(|s| s.each(&mut |e| queries |= has_query(e)));
        let more = !queries && sides.iter().zip(columns).any(says_more);
        more.then_some((share, Within { index: number, sides }))
    });
    boxes.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, within)| within)
}

/// A box of a CR-tree for each of the parts, which share of the rows may lie in them, and how many boxes
/// these are; `None` if one of them would be the whole index.
fn boxes_of<'a>(index: &IndexDef, parts: &[Conditions<'a>]) -> Option<(Vec<Vec<Side<'a>>>, f64, f64)> {
    if !matches!(index.kind, IndexKind::Crtree { .. }) || parts.is_empty() {
        return None;
    }
    let boxes: Vec<BoxOf<'a>> = parts.iter().map(|part| box_of(index, part, true)).collect();
    let sum = |of: fn(&BoxOf<'_>) -> f64| boxes.iter().map(of).sum();
    let (share, lookups) = (sum(|b| b.share), sum(|b| b.lookups));
    let sides = boxes.into_iter().map(|b| (!b.by.is_empty()).then_some(b.sides)).collect::<Option<_>>()?;
    Some((sides, share, lookups))
}

fn sides_use_others(sides: &[Side<'_>], inputs: &Inputs) -> bool {
    let mut found = false;
    sides.iter().for_each(|s| s.each(&mut |e| found |= !inputs.refs(e).is_empty()));
    found
}

/// The point of a distance, for each column of a CR-tree that counts; `None` if the distance is not one of
/// its columns, each at most once, from values that are there before its rows are.
fn nearest_to<'a>(index: &IndexDef, place: &Place<'_>, distance: &'a Expr) -> Option<Vec<Option<&'a Expr>>> {
    let (columns, point) = distance_of(distance)?;
    let mut to = vec![None; index.columns.len()];
    for (column, value) in columns.iter().zip(point) {
        let column = column_of(column, place.rel)?;
        let n = index.columns.iter().position(|c| c.column == usize::from(column))?;
        if to[n].is_some() || !place.is_there(value) || value.calls(Volatility::Volatile) {
            return None;
        }
        to[n] = Some(value)
    }
    Some(to)
}

impl KeyRange<'_> {
    /// Whether it is all of the index.
    fn is_open(&self) -> bool {
        self.prefix.is_empty() && self.low.is_none() && self.high.is_none()
    }

    /// Which part of the rows with its prefix lies between its bounds.
    fn share(&self) -> f64 {
        match (self.low.is_some(), self.high.is_some()) {
            (true, true) => 0.1,
            (false, false) => 1.0,
            _ => 0.33,
        }
    }
}

/// The range of an index that conditions leave, and the conditions of its bounds.
fn key_range<'a>(
    index: &IndexDef,
    keys: &[KeyValue<'a>],
    c: &Conditions<'a>,
) -> (KeyRange<'a>, Vec<&'a Expr>) {
    let prefix: Vec<&'a Expr> =
        keys.iter().map_while(|k| if let KeyValue::One(e) = k { Some(*e) } else { None }).collect();
    let next = index.columns.get(prefix.len());
    let find = |lower| {
        c.bounds
            .iter()
            .find(|(column, l, ..)| next.is_some_and(|n| n.column == *column as usize) && *l == lower)
            .map(|(_, _, v, inclusive, e)| ((v.clone(), *inclusive), *e))
    };
    let (low, high) = (find(true), find(false));
    let by = low.iter().chain(&high).filter_map(|(_, e)| *e).collect();
    (KeyRange { prefix, low: low.map(|b| b.0), high: high.map(|b| b.0) }, by)
}

/// What each part of a condition that OR puts together says of the table's columns, beside what the other
/// conditions say; nothing for another condition, or for very many parts.
fn parts_of<'a>(
    table: &Table,
    place: &Place<'_>,
    conjuncts: &[&'a Expr],
    or: &'a Expr,
) -> Vec<Conditions<'a>> {
    // So many that the code would be longer than what it reads.
    const MANY: usize = 100;
    let any = match &or.kind {
        ExprKind::Or(any) if any.len() <= MANY => &any[..],
        _ => &[],
    };
    let said = |part: &'a Expr| {
        // Its own first: of two bounds on one side the first is taken.
        let own = match &part.kind {
            ExprKind::And(all) => &all[..],
            _ => std::slice::from_ref(part),
        };
        let others = conjuncts.iter().copied().filter(|e| !std::ptr::eq(*e, or));
        conditions(table, place, &own.iter().chain(others).collect::<Vec<_>>())
    };
    any.iter().map(said).collect()
}

/// A range of a B+-tree for each of the parts; `None` if one of them would be the whole index.
fn ranges_of<'a>(index: &IndexDef, parts: &[Conditions<'a>]) -> Option<Vec<KeyRange<'a>>> {
    if index.kind != IndexKind::Btree || parts.is_empty() {
        return None;
    }
    let range = |c| key_range(index, &leading_keys(index, c).keys, c).0;
    parts.iter().map(range).map(|r| (!r.is_open()).then_some(r)).collect()
}

fn use_others(ranges: &[KeyRange<'_>], inputs: &Inputs) -> bool {
    let mut found = false;
    ranges.iter().for_each(|r| r.each(&mut |e| found |= !inputs.refs(e).is_empty()));
    found
}

/// What an access costs, in rows touched; a sort that it leaves to do included.
fn cost(c: &Choice<'_>, n: f64, limited: bool, ways: Ways) -> f64 {
    let fetch = match &c.access {
        // A scan in storage order touches memory in sequence.
        Access::Full => n * 0.5 + 5.0,
        Access::Tid { .. } => c.lookups,
        Access::Lookup { unique: true, .. } => c.fetched.max(c.lookups),
        Access::Lookup { .. } => 1.0 + (c.fetched * 1.1).max(c.lookups),
        Access::Range { ranges, .. } => 3.0 * ranges.len() as f64 + c.fetched * 1.3,
        // Nodes at each level, more of them where fewer columns have ends; the rows are sorted by where they
        // lie, and read in that order.
        Access::Box { boxes, .. } => {
            let open = |sides: &Vec<Side<'_>>| sides.iter().filter(|s| s.is_open()).count();
            let open = boxes.iter().map(open).max().unwrap_or(0);
            10.0 * (1 + open) as f64 * c.lookups + c.fetched * 1.4
        }
        // A heap of what is open, and each row is read to measure its distance.
        Access::Nearest { .. } => 20.0 + c.fetched * 4.0,
    };
    let is_off = if matches!(c.access, Access::Full) { ways.no_full } else { ways.no_index };
    let fetch = fetch + Ways::price(is_off);
    match (c.ordered, limited) {
        // Few of the rows will be asked for.
        (true, true) => fetch.min(20.0 * c.fetched / c.rows.max(1.0) + Ways::price(is_off)),
        (true, false) => fetch,
        (false, _) => fetch + c.rows * (1.0 + 0.2 * (c.rows + 1.0).log2()) + Ways::price(ways.no_sort),
    }
}

/// Whether all rows with one key of the index are equal in the order. There may be two of them even where it
/// is unique (see `Op::Twin`).
fn are_keys(index: &IndexDef, order: &[(u16, bool, bool)]) -> bool {
    order.iter().all(|(column, ..)| index.columns.iter().any(|i| i.column == *column as usize))
}

/// Whether an index gives the order once its first `k` columns are fixed: `Some(backward)`.
fn direction(index: &IndexDef, k: usize, c: &Conditions<'_>, order: &[(u16, bool, bool)]) -> Option<bool> {
    let fixed = |column: u16| {
        index.columns[..k].iter().any(|i| i.column == column as usize)
            && c.equal.iter().any(|(e, v, _)| *e == column && matches!(v, KeyValue::One(_)))
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
pub fn hash_keys<'a>(
    inputs: &Inputs,
    conjuncts: &[&'a Expr],
    outer: RelSet,
    inner: RelSet,
) -> Vec<(&'a Expr, &'a Expr)> {
    let mut keys = Vec::new();
    for e in conjuncts {
        let ExprKind::Call { func, args } = &e.kind else { continue };
        let Some(c) = comparison(*func) else { continue };
        let ([left, right], true) = (&args[..], classify::hashable(&c)) else { continue };
        let (l, r) = (inputs.refs(left), inputs.refs(right));
        if l.is_empty() || r.is_empty() {
            continue;
        }
        if l.within(outer) && r.within(inner) {
            keys.push((left, right));
        } else if r.within(outer) && l.within(inner) {
            keys.push((right, left));
        }
    }
    keys
}

/// Whether the condition is that of one of the pairs.
pub fn is_key(keys: &[(&Expr, &Expr)], condition: &Expr) -> bool {
    let ExprKind::Call { args, .. } = &condition.kind else { return false };
    let [left, right] = &args[..] else { return false };
    let same = |a: &Expr, b: &Expr| std::ptr::eq(a, left) && std::ptr::eq(b, right);
    keys.iter().any(|(a, b)| same(a, b) || same(b, a))
}

/// The column of a relation of the catalogue by which its rows may be asked for (catalog/Y4), and the value
/// that the filter says it has.
pub fn catalog_key<'a>(rel: u16, relation: &str, filter: &[&'a Expr]) -> Option<(u16, &'a Expr)> {
    let keys = crate::catalog::keys_of(relation);
    if keys.is_empty() {
        return None;
    }
    let mut inputs = Inputs::default();
    inputs.add(0, vec![rel]);
    let place = Place { inputs: &inputs, rel, bound: RelSet::EMPTY, hidden: &[] };
    filter.iter().find_map(|e| {
        let (column, cond, value, ..) = column_condition(e, &place)?;
        let holds =
            cond == Cond::Eq && keys.contains(&usize::from(column)) && !value.calls(Volatility::Volatile);
        holds.then_some((column, value))
    })
}

/// What the filter says of a foreign table's key: for the lower and the upper bound the condition and the
/// value.
pub fn foreign_bounds<'a>(
    rel: u16,
    table: &dyn ForeignTable,
    filter: &[&'a Expr],
) -> [Option<(&'a Expr, &'a Expr)>; 2] {
    // Any value but one of the row itself is there.
    let mut inputs = Inputs::default();
    inputs.add(0, vec![rel]);
    let place = Place { inputs: &inputs, rel, bound: RelSet::EMPTY, hidden: &[] };
    [true, false].map(|lower| {
        filter.iter().find_map(|e| {
            let (column, cond, value, ..) = column_condition(e, &place)?;
            let holds = match cond {
                Cond::Eq => true,
                Cond::Gt | Cond::Ge => lower,
                Cond::Lt | Cond::Le => !lower,
                Cond::Ne => false,
            };
            (holds && Some(column) == table.key() && !value.calls(Volatility::Volatile))
                .then_some((*e, value))
        })
    })
}
