//! The order of joins: greedy, by what each next rel multiplies the rows by and what it costs to reach.
//!
//! - **J1** Inner joins are one pool of rels and conditions. A LEFT join's right side waits until what its ON
//!   refers to is bound and is then attached; rels of the pool may come before or after it, since (A left
//!   join C on p) join B on q = (A join B on q) left join C on p while q says nothing of C, and a q that does
//!   is evaluated once both are bound.
//! - **J2** A LEFT join whose NULL rows some condition above throws away is an inner join.
//! - **J3** A FULL join is a unit: both of its sides are planned by themselves.
use super::access::{self, Choice, hash_keys, table_rows};
use super::node::{Access, Method, Node};
use super::refs::*;
use crate::bound::*;
use std::collections::HashSet;

/// What planning a query's FROM needs to know.
pub struct Context<'a> {
    query: &'a Query,
    /// The order wanted, when all of it is of one rel's columns.
    order: Option<Wanted>,
    limited: bool,
    /// For each rel that is a table: its rows.
    rows: Vec<Option<f64>>,
}

/// An order of one rel's columns.
pub type Wanted = (u16, Vec<(u16, bool, bool)>);

impl<'a> Context<'a> {
    pub fn new(query: &'a Query, order: Option<Wanted>, limited: bool) -> Context<'a> {
        let rows = |r: &RelEntry| match &r.rel {
            Rel::Table(t) => Some(table_rows(t)),
            _ => None,
        };
        Context { query, order, limited, rows: query.rels.iter().map(rows).collect() }
    }
    fn rows(&self, rel: u16) -> f64 {
        self.rows.get(rel as usize).copied().flatten().unwrap_or(0.0)
    }
}

pub struct Planned<'a> {
    pub node: Node<'a>,
    pub rows: f64,
    /// The wanted order is given.
    pub ordered: bool,
}

/// A right side that waits to be attached.
struct Attach<'a> {
    right: &'a From,
    on: Vec<&'a Expr>,
    needs: RelSet,
}

#[derive(Default)]
struct Pool<'a> {
    rels: Vec<u16>,
    attach: Vec<Attach<'a>>,
    full: Vec<&'a From>,
    conjuncts: Vec<&'a Expr>,
}

impl<'a> Pool<'a> {
    fn add(&mut self, from: &'a From) {
        match from {
            From::Rel(r) => self.rels.push(*r),
            From::Join { kind: JoinKind::Inner, left, right, on } => {
                self.add(left);
                self.add(right);
                if let Some(on) = on {
                    conjuncts(on, &mut self.conjuncts)
                }
            }
            From::Join { kind: JoinKind::Left, left, right, on } => {
                self.add(left);
                let mut list = Vec::new();
                if let Some(on) = on {
                    conjuncts(on, &mut list)
                }
                let own = rels_of(right);
                let mut needs = list.iter().fold(RelSet::EMPTY, |s, e| s.with(refs(e)));
                needs = needs.without(own);
                self.attach.push(Attach { right, on: list, needs });
            }
            From::Join { kind: JoinKind::Full, .. } => self.full.push(from),
        }
    }
    /// J2
    fn reduce(&mut self) {
        while let Some(n) = (0..self.attach.len())
            .find(|n| self.conjuncts.iter().any(|c| rejects_nulls(c, rels_of(self.attach[*n].right))))
        {
            let a = self.attach.remove(n);
            self.conjuncts.extend(a.on);
            self.add(a.right);
        }
    }
}

/// Plans FROM and WHERE of a query; `extra` are conditions from outside it.
pub fn plan<'a>(cx: &Context<'a>) -> Planned<'a> {
    let mut list = Vec::new();
    if let Some(f) = &cx.query.filter {
        conjuncts(f, &mut list);
    }
    let from: Vec<&'a From> = cx.query.from.iter().collect();
    plan_pool(cx, &from, list, RelSet::EMPTY, true)
}

/// A condition that is not in the tree yet, with the rels that it refers to.
#[derive(Clone, Copy)]
struct Open<'a> {
    expr: &'a Expr,
    refs: RelSet,
}

/// How a next rel would be joined.
struct Step<'a> {
    node: Node<'a>,
    method: Method<'a>,
    rows: f64,
    cost: f64,
    ordered: bool,
}

fn plan_pool<'a>(
    cx: &Context<'a>,
    from: &[&'a From],
    conjuncts: Vec<&'a Expr>,
    outside: RelSet,
    top: bool,
) -> Planned<'a> {
    let mut pool = Pool { conjuncts, ..Pool::default() };
    for f in from {
        pool.add(f);
    }
    pool.reduce();
    let Pool { rels, attach, full, conjuncts } = pool;
    let mut open: Vec<Open<'a>> = conjuncts.into_iter().map(|expr| Open { expr, refs: refs(expr) }).collect();
    let mut rels: Vec<u16> = rels;
    let mut attach: Vec<Attach<'a>> = attach;
    let mut bound = outside;
    let mut done: Option<Planned<'a>> = None;
    let single = rels.len() + full.len() + attach.len() <= 1 || top;
    let order = cx.order.as_ref().filter(|_| top && single);

    for f in full {
        let unit = plan_full(cx, f, outside);
        let own = rels_of(f);
        done = Some(match done.take() {
            None => unit,
            Some(d) => {
                let list: Vec<&'a Expr> = open.iter().map(|c| c.expr).collect();
                let keys = hash_keys(&list, bound, own);
                let method = if keys.is_empty() { Method::Kept } else { Method::Hash(keys) };
                join(d, unit.node, JoinKind::Inner, method, unit.rows)
            }
        });
        bound = bound.with(own);
        settle(&mut open, bound, done.as_mut());
    }

    while !rels.is_empty() || !attach.is_empty() {
        // A right side goes on when nothing of the pool is left that could come first.
        let ready = rels
            .iter()
            .enumerate()
            .filter(|(_, r)| needs(&cx.query.rels[**r as usize].rel).without(outside).within(bound))
            .map(|(n, _)| n)
            .collect::<Vec<_>>();
        if ready.is_empty() {
            let n = attach
                .iter()
                .position(|a| done.is_some() && a.needs.without(outside).within(bound))
                .unwrap_or(0);
            if attach.is_empty() {
                // A rel that needs one that never comes; the binder refuses that. Take it as it is.
                let r = rels.remove(0);
                let step = step(cx, r, bound, &open, done.as_ref(), None);
                bound = bound.with(RelSet::one(r));
                done = Some(apply(done.take(), step));
                settle(&mut open, bound, done.as_mut());
                continue;
            }
            let a = attach.remove(n);
            let own = rels_of(a.right);
            let d = done.take().unwrap_or(Planned {
                node: Node::Nothing { filter: Vec::new() },
                rows: 1.0,
                ordered: true,
            });
            done = Some(attach_right(cx, d, &a, bound, outside));
            bound = bound.with(own);
            settle(&mut open, bound, done.as_mut());
            continue;
        }
        let mut best: Option<(usize, Step<'a>, (bool, f64))> = None;
        for n in ready {
            let rel = rels[n];
            let wanted = order.filter(|(r, _)| *r == rel && done.is_none()).map(|(_, o)| &o[..]);
            let s = step(cx, rel, bound, &open, done.as_ref(), wanted);
            let linked = done.is_none() || open.iter().any(|c| c.refs.has(rel) && c.refs.meets(bound));
            // A foreign table that comes first is read once and kept nowhere; of several, the largest.
            let rank = match &cx.query.rels[rel as usize].rel {
                Rel::Foreign(_) if done.is_none() => (!linked, -s.rows),
                _ => (!linked, s.rows * 2.0 + s.cost),
            };
            if best.as_ref().is_none_or(|(_, _, b)| !rank.0 & b.0 || (rank.0 == b.0 && rank.1 < b.1)) {
                best = Some((n, s, rank));
            }
        }
        let Some((n, s, _)) = best else { break };
        let r = rels.remove(n);
        bound = bound.with(RelSet::one(r));
        done = Some(apply(done.take(), s));
        settle(&mut open, bound, done.as_mut());
    }
    let mut done =
        done.unwrap_or(Planned { node: Node::Nothing { filter: Vec::new() }, rows: 1.0, ordered: true });
    // Conditions on nothing here (only parameters, or outer rows).
    done.node.filter_mut().extend(open.iter().map(|c| c.expr));
    if let Some((rel, _)) = order {
        done.ordered &= first_rel(&done.node) == Some(*rel) && !has_full(&done.node);
    } else {
        done.ordered = false;
    }
    done
}

fn first_rel(n: &Node<'_>) -> Option<u16> {
    match n {
        Node::Nothing { .. } => None,
        Node::Scan { rel, .. } => Some(*rel),
        Node::Join { outer, .. } => first_rel(outer),
    }
}

fn has_full(n: &Node<'_>) -> bool {
    match n {
        Node::Join { kind, outer, inner, .. } => {
            *kind == JoinKind::Full || has_full(outer) || has_full(inner)
        }
        _ => false,
    }
}

/// Hands the conditions that can be evaluated now to the newest node, if they are not there already.
fn settle<'a>(open: &mut Vec<Open<'a>>, bound: RelSet, to: Option<&mut Planned<'a>>) {
    let Some(p) = to else { return };
    let mut checked = HashSet::new();
    add_checked(&p.node, &mut checked);
    open.retain(|c| {
        let ready = c.refs.within(bound);
        if ready && !is_checked(c.expr, &checked) {
            p.node.filter_mut().push(c.expr)
        }
        !ready
    });
}

/// The conditions that are checked in the tree for rows that come out of it; of those by which a hash table
/// joins, the first side.
fn add_checked(n: &Node<'_>, out: &mut HashSet<*const Expr>) {
    let mut add = |list: &[&Expr]| out.extend(list.iter().map(|e| std::ptr::from_ref(*e)));
    match n {
        Node::Nothing { filter } | Node::Scan { filter, .. } => add(filter),
        Node::Join { kind, outer, inner, on, filter, method } => {
            add(filter);
            if *kind == JoinKind::Inner {
                add(on);
                if let Method::Hash(keys) = method {
                    // Both sides are arguments of one comparison.
                    out.extend(keys.iter().map(|(a, b)| std::ptr::from_ref(*a).min(std::ptr::from_ref(*b))))
                }
                add_checked(inner, out)
            }
            if *kind != JoinKind::Full {
                add_checked(outer, out)
            }
        }
    }
}

fn is_checked(e: &Expr, checked: &HashSet<*const Expr>) -> bool {
    checked.contains(&std::ptr::from_ref(e))
        || matches!(&e.kind, ExprKind::Call { args, .. } if args.len() == 2 && checked.contains(&std::ptr::from_ref(&args[0])))
}

fn join<'a>(d: Planned<'a>, inner: Node<'a>, kind: JoinKind, method: Method<'a>, rows: f64) -> Planned<'a> {
    Planned {
        rows: d.rows * rows,
        ordered: d.ordered,
        node: Node::Join {
            kind,
            method,
            outer: Box::new(d.node),
            inner: Box::new(inner),
            on: Vec::new(),
            filter: Vec::new(),
        },
    }
}

fn apply<'a>(done: Option<Planned<'a>>, s: Step<'a>) -> Planned<'a> {
    match done {
        None => Planned { node: s.node, rows: s.rows, ordered: s.ordered },
        Some(d) => {
            let per_row = s.rows / d.rows.max(1.0);
            join(d, s.node, JoinKind::Inner, s.method, per_row)
        }
    }
}

/// How the rel would come next.
fn step<'a>(
    cx: &Context<'a>,
    rel: u16,
    bound: RelSet,
    open: &[Open<'a>],
    done: Option<&Planned<'a>>,
    order: Option<&access::Order>,
) -> Step<'a> {
    let own = RelSet::one(rel);
    let those = |test: &dyn Fn(RelSet) -> bool| -> Vec<&'a Expr> {
        open.iter().filter(|c| test(c.refs)).map(|c| c.expr).collect()
    };
    let alone = those(&|r| r.within(own));
    let with = those(&|r| r.has(rel) && r.within(bound.with(own)));
    let before = done.map_or(1.0, |d| d.rows.max(1.0));
    let entry = &cx.query.rels[rel as usize];
    let limited = cx.limited && done.is_none();
    let Rel::Table(table) = &entry.rel else {
        let n = match &entry.rel {
            Rel::Values(rows) => rows.len() as f64,
            Rel::Function { .. } | Rel::Query(_) => 100.0,
            Rel::Foreign(table) => table.estimate_rows(),
            _ => 1000.0,
        };
        let lateral = needs(&entry.rel).meets(bound);
        let keys = if lateral { Vec::new() } else { hash_keys(&with, bound, own) };
        let method = match (done.is_some(), lateral) {
            (true, false) if !keys.is_empty() => Method::Hash(keys),
            (true, false) => Method::Kept,
            _ => Method::Loop,
        };
        let filter = if matches!(method, Method::Loop) { with } else { alone };
        let rows = before * if matches!(method, Method::Hash(_)) { (n * 0.1).max(1.0) } else { n };
        return Step {
            node: Node::Scan { rel, access: Access::Full, filter, rows: n },
            method,
            rows,
            cost: n + rows,
            ordered: false,
        };
    };
    let scan =
        |c: Choice<'a>, filter: Vec<&'a Expr>| Node::Scan { rel, rows: c.rows, access: c.access, filter };
    let n = cx.rows(rel);
    let looped = access::choose((table, n), rel, bound, &with, order, limited);
    let loop_cost = before * (2.0 + looped.fetched * 1.5);
    if done.is_none() {
        let (rows, ordered, fetched) = (looped.rows, looped.ordered, looped.fetched);
        return Step { node: scan(looped, with), method: Method::Loop, rows, cost: fetched, ordered };
    }
    let keys = hash_keys(&with, bound, own);
    let kept = access::choose((table, n), rel, RelSet::EMPTY, &alone, None, false);
    let build = kept.fetched.min(n) * 2.0;
    let rows = before * looped.rows;
    let by_index = looped.uses_others;
    if by_index && (keys.is_empty() || loop_cost <= build + before * 1.5) {
        return Step { node: scan(looped, with), method: Method::Loop, rows, cost: loop_cost, ordered: true };
    }
    if !keys.is_empty() {
        return Step {
            node: scan(kept, alone),
            method: Method::Hash(keys),
            rows,
            cost: build + before * 1.5,
            ordered: true,
        };
    }
    if before <= 1.0 {
        return Step { node: scan(looped, with), method: Method::Loop, rows, cost: loop_cost, ordered: true };
    }
    Step { cost: build + rows, node: scan(kept, alone), method: Method::Kept, rows, ordered: true }
}

/// Attaches the right side of a LEFT join.
fn attach_right<'a>(
    cx: &Context<'a>,
    d: Planned<'a>,
    a: &Attach<'a>,
    bound: RelSet,
    outside: RelSet,
) -> Planned<'a> {
    let own = rels_of(a.right);
    let visible = bound.with(outside);
    // Run for each row: all of ON that concerns the right side can be used on the way in.
    let (inside, rest): (Vec<&'a Expr>, Vec<&'a Expr>) =
        a.on.iter().copied().partition(|e| refs(e).meets(own));
    let looped = plan_pool(cx, &[a.right], inside.clone(), visible, false);
    let lateral = lateral_in(cx, a.right).meets(visible);
    let keys = hash_keys(&a.on, visible, own);
    let before = d.rows.max(1.0);
    let ordered = d.ordered;
    let (method, inner, on) =
        if lateral || (uses_index(&looped.node) && (keys.is_empty() || cheap(cx, &looped.node, before))) {
            (Method::Loop, looped, rest)
        } else {
            let (alone, linking): (Vec<&'a Expr>, Vec<&'a Expr>) =
                a.on.iter().copied().partition(|e| refs(e).meets(own) && refs(e).within(own));
            let kept = plan_pool(cx, &[a.right], alone, RelSet::EMPTY, false);
            let method = if keys.is_empty() { Method::Kept } else { Method::Hash(keys) };
            (method, kept, linking)
        };
    Planned {
        rows: before * inner.rows.max(1.0),
        ordered,
        node: Node::Join {
            kind: JoinKind::Left,
            method,
            outer: Box::new(d.node),
            inner: Box::new(inner.node),
            on,
            filter: Vec::new(),
        },
    }
}

fn lateral_in(cx: &Context<'_>, from: &From) -> RelSet {
    let own = rels_of(from);
    own.iter().fold(RelSet::EMPTY, |s, r| s.with(needs(&cx.query.rels[r as usize].rel))).without(own)
}

/// Whether the first access of a plan is by an index with values from outside it.
fn uses_index(n: &Node<'_>) -> bool {
    match n {
        Node::Scan { access: Access::Full, .. } | Node::Nothing { .. } => false,
        Node::Scan { .. } => true,
        Node::Join { outer, .. } => uses_index(outer),
    }
}

/// Whether looking up for each of so many rows is cheaper than reading the table once.
fn cheap(cx: &Context<'_>, n: &Node<'_>, times: f64) -> bool {
    match n {
        Node::Scan { rel, rows, .. } => match &cx.query.rels[*rel as usize].rel {
            Rel::Table(_) => times * (2.0 + rows * 1.5) <= cx.rows(*rel) * 2.0 + times * 1.5,
            _ => false,
        },
        Node::Join { outer, .. } => cheap(cx, outer, times),
        Node::Nothing { .. } => true,
    }
}

/// J3
fn plan_full<'a>(cx: &Context<'a>, from: &'a From, outside: RelSet) -> Planned<'a> {
    let From::Join { kind: JoinKind::Full, left, right, on } = from else {
        return plan_pool(cx, &[from], Vec::new(), outside, false);
    };
    let mut list = Vec::new();
    if let Some(on) = on {
        conjuncts(on, &mut list)
    }
    let l = plan_pool(cx, &[left], Vec::new(), outside, false);
    let r = plan_pool(cx, &[right], Vec::new(), outside, false);
    let keys = hash_keys(&list, rels_of(left), rels_of(right));
    Planned {
        rows: l.rows.max(r.rows),
        ordered: false,
        node: Node::Join {
            kind: JoinKind::Full,
            method: Method::Hash(keys),
            outer: Box::new(l.node),
            inner: Box::new(r.node),
            on: list,
            filter: Vec::new(),
        },
    }
}
