//! The order of joins: greedy, by what each next rel multiplies the rows by and what it costs to reach.
//!
//! - **J1** Inner joins are one pool of inputs and conditions. A LEFT join's right side waits until what its
//!   ON refers to is bound and is then attached; inputs of the pool may come before or after it, since (A
//!   left join C on p) join B on q = (A join B on q) left join C on p while q says nothing of C, and a q that
//!   does is evaluated once both are bound.
//! - **J2** A FULL join is a unit: both of its sides are planned by themselves.
//! - **J3** An equality of columns that follows from those that hold already (equality/E1) is not asked
//!   again. So of all pairs of columns that are equal (rewrite/equal/Q3) the order takes the ones it comes to
//!   first, and as many as make the rest follow.
use super::access::{self, Choice, Order, Place, hash_keys, is_key, likely_rows, table_rows};
use super::equality::{Classes, Equality, equality};
use super::logical::{Expr, ExprKind, Hidden, JoinKind, Logical, Source, known};
use super::operators::{Planned, Planner, Want};
use super::physical::{Access, KeyValue, Method, Node, Operator};
use super::refs::*;
use super::ways::Ways;
use ondol_types::{SqlResult, Value};
use std::collections::HashSet;

/// An order of one rel's rows.
pub type Wanted<'a> = (u16, Order<'a>);

/// How many rows a turn of a recursion is taken to give.
const WORKING_ROWS: f64 = 100.0;

/// An input of a join: what is no join or filter itself.
struct Input<'a> {
    /// The relation that it gives, of a scan.
    rel: u16,
    tree: &'a Logical,
    needs: RelSet,
    /// Of a table or a WITH query: its rows.
    rows: f64,
    /// Of a table: which share of these there are likely to be (`access::likely_rows`).
    share: f64,
    /// Of what is no scan: how it is come by.
    planned: Option<Node<'a>>,
}

/// What planning joins and filters needs to know.
struct Joins<'a> {
    inputs: Inputs,
    list: Vec<Input<'a>>,
    wanted: Option<Wanted<'a>>,
    limited: bool,
    ways: Ways,
    hidden: &'a [Hidden],
}

/// Plans joins, filters and what they are over.
pub fn plan<'a>(planner: &Planner<'a, '_>, tree: &'a Logical, want: &Want<'a>) -> SqlResult<Planned<'a>> {
    let mut leaves = Vec::new();
    inputs(tree, &mut leaves);
    let mut cx = Joins {
        inputs: Inputs::default(),
        list: Vec::new(),
        wanted: want.order.clone(),
        limited: want.limited,
        ways: planner.ways,
        hidden: planner.hidden,
    };
    for (n, leaf) in leaves.iter().enumerate() {
        cx.inputs.add(n as u16, leaf.gives());
    }
    for leaf in leaves {
        let needs = cx.inputs.needs(leaf);
        cx.list.push(match leaf {
            Logical::Scan { rel, source } => {
                let rows = match source {
                    Source::Table(t) => table_rows(t),
                    Source::Working { .. } => WORKING_ROWS,
                    Source::With { number, .. } => {
                        planner.with_rows.get(*number as usize).copied().unwrap_or(1000.0)
                    }
                    _ => 0.0,
                };
                let share = match source {
                    Source::Table(t) => likely_rows(t) / rows,
                    _ => 1.0,
                };
                Input { rel: *rel, tree: leaf, needs, rows, share, planned: None }
            }
            other => {
                let planned = planner.tree(other, &Want::default())?;
                let planned = Some(planned.node);
                Input { rel: u16::MAX, tree: leaf, needs, rows: 0.0, share: 1.0, planned }
            }
        });
    }
    Ok(plan_pool(&cx, &[tree], Vec::new(), RelSet::EMPTY, true))
}

/// The inputs of a tree of joins, in order.
fn inputs<'a>(tree: &'a Logical, out: &mut Vec<&'a Logical>) {
    match tree {
        Logical::Filter { input, .. } => inputs(input, out),
        Logical::Join { left, right, .. } => {
            inputs(left, out);
            inputs(right, out);
        }
        Logical::Nothing => {}
        other => out.push(other),
    }
}

impl<'a> Joins<'a> {
    fn refs(&self, e: &Expr) -> RelSet {
        self.inputs.refs(e)
    }

    /// The number of an input, by where it is.
    fn number(&self, tree: &Logical) -> u16 {
        self.list.iter().position(|i| std::ptr::eq(i.tree, tree)).unwrap_or(0) as u16
    }

    /// The inputs of a tree of joins, as a set.
    fn inputs_of(&self, tree: &'a Logical) -> RelSet {
        let mut list = Vec::new();
        inputs(tree, &mut list);
        list.into_iter().fold(RelSet::EMPTY, |s, l| s.with(RelSet::one(self.number(l))))
    }

    fn place(&self, input: u16, bound: RelSet) -> Place<'_> {
        Place { inputs: &self.inputs, rel: self.list[input as usize].rel, bound, hidden: self.hidden }
    }
}

/// A right side that waits to be attached.
struct Attach<'a> {
    /// LEFT, semi or anti.
    kind: JoinKind,
    right: &'a Logical,
    on: Vec<&'a Expr>,
    needs: RelSet,
}

#[derive(Default)]
struct Pool<'a> {
    inputs: Vec<u16>,
    attach: Vec<Attach<'a>>,
    full: Vec<&'a Logical>,
    conjuncts: Vec<&'a Expr>,
}

impl<'a> Pool<'a> {
    fn add(&mut self, cx: &Joins<'a>, tree: &'a Logical) {
        match tree {
            Logical::Nothing => {}
            Logical::Filter { input, conditions } => {
                // Those within come first: what they keep away, these need not be able to take.
                self.add(cx, input);
                self.conjuncts.extend(conditions);
            }
            Logical::Join { kind: JoinKind::Inner, left, right, on } => {
                self.add(cx, left);
                self.add(cx, right);
                self.conjuncts.extend(on);
            }
            Logical::Join { kind: JoinKind::Full, .. } => self.full.push(tree),
            Logical::Join { kind, left, right, on } => {
                self.add(cx, left);
                let own = cx.inputs_of(right);
                let of_right = cx.inputs.needs(right);
                let needs = on.iter().fold(of_right, |s, e| s.with(cx.refs(e))).without(own);
                self.attach.push(Attach { kind: *kind, right, on: on.iter().collect(), needs });
            }
            input => self.inputs.push(cx.number(input)),
        }
    }
}

/// A condition that is not in the tree yet, with the inputs that it refers to.
#[derive(Clone, Copy)]
struct Open<'a> {
    expr: &'a Expr,
    refs: RelSet,
    equality: Option<Equality>,
}

/// The conditions that are not in the tree yet, and the equalities that are.
struct Conditions<'a> {
    open: Vec<Open<'a>>,
    known: Classes,
}

impl<'a> Conditions<'a> {
    fn new(cx: &Joins<'a>, list: Vec<&'a Expr>) -> Self {
        let open = list.into_iter().map(|expr| Open { expr, refs: cx.refs(expr), equality: equality(expr) });
        Conditions { open: open.collect(), known: Classes::default() }
    }
    /// Those that could be asked with these inputs bound and do not follow from others (J3).
    fn ready(&self, bound: RelSet) -> Vec<Open<'a>> {
        let mut ready: Vec<Open<'a>> = self.open.iter().filter(|c| c.refs.within(bound)).copied().collect();
        if ready.iter().any(|c| c.equality.is_some()) {
            let mut known = self.known.clone();
            ready.retain(|c| c.equality.is_none_or(|e| known.learn(&e)));
        }
        ready
    }
    /// Takes those out.
    fn take_ready(&mut self, bound: RelSet) -> Vec<&'a Expr> {
        let ready = self.ready(bound);
        for e in ready.iter().filter_map(|c| c.equality) {
            self.known.learn(&e);
        }
        self.open.retain(|c| !c.refs.within(bound));
        ready.into_iter().map(|c| c.expr).collect()
    }
}

/// How a next input would be joined.
struct Step<'a> {
    node: Node<'a>,
    method: Method<'a>,
    rows: f64,
    cost: f64,
    ordered: bool,
    /// Of a join by a hash table: what is there already is kept in it, and this input looks its rows up.
    turned: bool,
}

fn nothing<'a>() -> Planned<'a> {
    Planned { node: Node::new(Operator::Nothing, 1.0), ordered: true }
}

fn plan_pool<'a>(
    cx: &Joins<'a>,
    trees: &[&'a Logical],
    conjuncts: Vec<&'a Expr>,
    outside: RelSet,
    top: bool,
) -> Planned<'a> {
    let mut pool = Pool { conjuncts, ..Pool::default() };
    for t in trees {
        pool.add(cx, t);
    }
    let Pool { mut inputs, mut attach, full, conjuncts } = pool;
    if let Some(never) = conjuncts.iter().find(|e| is_never(e)) {
        let rels = trees.iter().flat_map(|t| t.gives()).collect();
        let node = Node { filter: vec![never], ..Node::new(Operator::Empty { rels }, 0.0) };
        return Planned { node, ordered: true };
    }
    let mut open = Conditions::new(cx, conjuncts);
    let mut bound = outside;
    let mut done: Option<Planned<'a>> = None;
    let single = inputs.len() + full.len() + attach.len() <= 1 || top;
    let order = cx.wanted.as_ref().filter(|_| top && single);

    for f in full {
        let unit = plan_full(cx, f, outside);
        let own = cx.inputs_of(f);
        done = Some(match done.take() {
            None => unit,
            Some(d) => {
                let list: Vec<&'a Expr> = open.ready(bound.with(own)).iter().map(|c| c.expr).collect();
                let keys = hash_keys(&cx.inputs, &list, bound, own);
                let method = match keys.is_empty() || cx.ways.shuns_hash() {
                    true => Method::Kept,
                    false => Method::Hash(keys),
                };
                let rows = unit.node.rows;
                join(d, unit.node, JoinKind::Inner, method, rows)
            }
        });
        bound = bound.with(own);
        settle(&mut open, bound, done.as_mut());
    }

    while !inputs.is_empty() || !attach.is_empty() {
        // A right side goes on when nothing of the pool is left that could come first.
        let ready = inputs
            .iter()
            .enumerate()
            .filter(|(_, r)| cx.list[**r as usize].needs.without(outside).within(bound))
            .map(|(n, _)| n)
            .collect::<Vec<_>>();
        if ready.is_empty() {
            let is_ready = |a: &Attach<'_>| done.is_some() && a.needs.without(outside).within(bound);
            // What only takes rows away comes before what adds some.
            let n = attach
                .iter()
                .position(|a| is_ready(a) && a.kind.gives_left_only())
                .or_else(|| attach.iter().position(is_ready))
                .unwrap_or(0);
            if attach.is_empty() {
                // An input that needs one that never comes; the binder refuses that. Take it as it is.
                let r = inputs.remove(0);
                let step = step(cx, r, bound, &open, done.as_ref(), None);
                bound = bound.with(RelSet::one(r));
                done = Some(apply(done.take(), step));
                settle(&mut open, bound, done.as_mut());
                continue;
            }
            let a = attach.remove(n);
            let own = cx.inputs_of(a.right);
            let d = done.take().unwrap_or_else(nothing);
            done = Some(attach_right(cx, d, &a, bound, outside));
            if !a.kind.gives_left_only() {
                bound = bound.with(own);
            }
            settle(&mut open, bound, done.as_mut());
            continue;
        }
        let mut best: Option<(usize, Step<'a>, (bool, f64))> = None;
        for n in ready {
            let input = inputs[n];
            let rel = cx.list[input as usize].rel;
            let wanted = order.filter(|(r, _)| *r == rel && done.is_none()).map(|(_, o)| o);
            let s = step(cx, input, bound, &open, done.as_ref(), wanted);
            let linked = done.is_none() || open.open.iter().any(|c| c.refs.has(input) && c.refs.meets(bound));
            // A foreign table that comes first is read once and kept nowhere; of several, the largest.
            let rank = match cx.list[input as usize].tree {
                Logical::Scan { source: Source::Foreign(_), .. } if done.is_none() => (!linked, -s.rows),
                _ => (!linked, s.rows * 2.0 + s.cost),
            };
            if best.as_ref().is_none_or(|(_, _, b)| !rank.0 & b.0 || (rank.0 == b.0 && rank.1 < b.1)) {
                best = Some((n, s, rank));
            }
        }
        let Some((n, s, _)) = best else { break };
        let r = inputs.remove(n);
        bound = bound.with(RelSet::one(r));
        done = Some(apply(done.take(), s));
        settle(&mut open, bound, done.as_mut());
    }
    let mut done = done.unwrap_or_else(nothing);
    // Conditions on nothing here (only parameters, or outer rows).
    done.node.filter.extend(open.open.iter().map(|c| c.expr));
    done.ordered &= match order {
        Some((rel, _)) => first_rel(&done.node) == Some(*rel) && !has_full(&done.node),
        None => false,
    };
    done
}

/// Whether no row fulfils a condition, as it says itself.
fn is_never(e: &Expr) -> bool {
    matches!(known(e), Some(Value::Bool(false) | Value::Null))
}

fn first_rel(n: &Node<'_>) -> Option<u16> {
    match &n.operator {
        Operator::Scan { rel, .. } => Some(*rel),
        Operator::Join { outer, .. } => first_rel(outer),
        _ => None,
    }
}

fn has_full(n: &Node<'_>) -> bool {
    match &n.operator {
        Operator::Join { kind, outer, inner, .. } => {
            *kind == JoinKind::Full || has_full(outer) || has_full(inner)
        }
        _ => false,
    }
}

/// Hands the conditions that can be evaluated now to the newest node, if they are not there already.
fn settle<'a>(open: &mut Conditions<'a>, bound: RelSet, to: Option<&mut Planned<'a>>) {
    let Some(p) = to else { return };
    let mut checked = HashSet::new();
    add_checked(&p.node, &mut checked);
    let ready = open.take_ready(bound);
    p.node.filter.extend(ready.into_iter().filter(|e| !is_checked(e, &checked)));
}

/// The conditions that are checked in the tree for rows that come out of it; of those by which a hash table
/// joins, the first side.
fn add_checked(n: &Node<'_>, out: &mut HashSet<*const Expr>) {
    let mut add = |list: &[&Expr]| out.extend(list.iter().map(|e| std::ptr::from_ref(*e)));
    add(&n.filter);
    match &n.operator {
        Operator::Scan { recheck, proven, .. } => {
            add(recheck);
            add(proven);
        }
        Operator::Join { kind, outer, inner, on, method } => {
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
        _ => {}
    }
}

fn is_checked(e: &Expr, checked: &HashSet<*const Expr>) -> bool {
    checked.contains(&std::ptr::from_ref(e))
        || matches!(&e.kind, ExprKind::Call { args, .. } if args.len() == 2 && checked.contains(&std::ptr::from_ref(&args[0])))
}

fn join<'a>(d: Planned<'a>, inner: Node<'a>, kind: JoinKind, method: Method<'a>, rows: f64) -> Planned<'a> {
    let (rows, ordered) = (d.node.rows * rows, d.ordered);
    let (outer, inner) = (Box::new(d.node), Box::new(inner));
    Planned { node: Node::new(Operator::Join { kind, method, outer, inner, on: Vec::new() }, rows), ordered }
}

fn apply<'a>(done: Option<Planned<'a>>, s: Step<'a>) -> Planned<'a> {
    match done {
        None => Planned { node: s.node, ordered: s.ordered },
        Some(d) if s.turned => {
            let Method::Hash(keys) = s.method else { return d };
            let method = Method::Hash(keys.into_iter().map(|(a, b)| (b, a)).collect());
            let per_row = s.rows / s.node.rows.max(1.0);
            join(Planned { node: s.node, ordered: false }, d.node, JoinKind::Inner, method, per_row)
        }
        Some(d) => {
            let per_row = s.rows / d.node.rows.max(1.0);
            join(d, s.node, JoinKind::Inner, s.method, per_row)
        }
    }
}

/// A scan of a table as chosen; `conditions` are those that its rows are to fulfil.
fn scan<'a>(rel: u16, source: &'a Source, choice: Choice<'a>, conditions: Vec<&'a Expr>) -> Node<'a> {
    let Choice { access, by, rows, .. } = choice;
    // A point lookup sees to it itself that the row has the key. Of a list each lookup must see to it that
    // the row has that lookup's own key: a row that went from one value of the list to another is a candidate
    // of both.
    let proves = |e: &Expr| match (&access, source) {
        (Access::Lookup { index, keys, member, .. }, Source::Table(table)) => {
            let point = table.indexes.get(*index).is_some_and(|i| i.point.is_some());
            let by_one =
                keys.iter().zip(&by).any(|(k, b)| matches!(k, KeyValue::One(_)) && std::ptr::eq(*b, e));
            point && by_one || member.is_some_and(|m| std::ptr::eq(m, e))
        }
        (Access::Tid { by, .. }, _) => std::ptr::eq(*by, e),
        _ => false,
    };
    let is_by = |e: &&Expr| by.iter().any(|b| std::ptr::eq(*b, *e));
    let (by_index, filter): (Vec<&'a Expr>, Vec<&'a Expr>) = conditions.into_iter().partition(is_by);
    let (proven, recheck) = by_index.into_iter().partition(|e| proves(e));
    Node { filter, ..Node::new(Operator::Scan { rel, source, access, recheck, proven }, rows) }
}

/// Whether a scan's rows are kept anyway, so that they can be gone through again and again.
fn is_kept(tree: &Logical) -> bool {
    let Logical::Scan { source, .. } = tree else { return false };
    matches!(source, Source::With { streamed: false, .. } | Source::Working { .. })
}

/// How the input would come next.
fn step<'a>(
    cx: &Joins<'a>,
    input: u16,
    bound: RelSet,
    open: &Conditions<'a>,
    done: Option<&Planned<'a>>,
    order: Option<&Order<'a>>,
) -> Step<'a> {
    let own = RelSet::one(input);
    let ready = open.ready(bound.with(own));
    let those = |test: &dyn Fn(RelSet) -> bool| -> Vec<&'a Expr> {
        ready.iter().filter(|c| test(c.refs)).map(|c| c.expr).collect()
    };
    let alone = those(&|r| r.within(own));
    let with = those(&|r| r.has(input));
    let before = done.map_or(1.0, |d| d.node.rows.max(1.0));
    let entry = &cx.list[input as usize];
    let limited = cx.limited && done.is_none();
    let Logical::Scan { source: source @ Source::Table(table), rel } = entry.tree else {
        let n = match entry.tree {
            Logical::Scan { source: Source::Values(rows), .. } => rows.len() as f64,
            Logical::Scan { source: Source::Foreign(table), .. } => table.estimate_rows(),
            Logical::Scan { source: Source::Function { .. }, .. } => 100.0,
            Logical::Scan { source: Source::With { .. } | Source::Working { .. }, .. } => entry.rows,
            Logical::Scan { .. } => 1000.0,
            _ => entry.planned.as_ref().map_or(100.0, |p| p.rows),
        };
        let lateral = entry.needs.meets(bound);
        let keys = match lateral || cx.ways.shuns_hash() {
            true => Vec::new(),
            false => hash_keys(&cx.inputs, &with, bound, own),
        };
        let method = match (done.is_some(), lateral) {
            (true, false) if !keys.is_empty() => Method::Hash(keys),
            _ if is_kept(entry.tree) => Method::Loop,
            (true, false) => Method::Kept,
            _ => Method::Loop,
        };
        let filter = if matches!(method, Method::Loop) { with } else { alone };
        let rows = before * if matches!(method, Method::Hash(_)) { (n * 0.1).max(1.0) } else { n };
        let mut node = match (entry.tree, &entry.planned) {
            (Logical::Scan { rel, source }, _) => {
                let (recheck, proven) = (Vec::new(), Vec::new());
                Node::new(Operator::Scan { rel: *rel, source, access: Access::Full, recheck, proven }, n)
            }
            (_, Some(planned)) => planned.clone(),
            _ => Node::new(Operator::Nothing, 1.0),
        };
        node.filter.extend(filter);
        return Step { node, method, rows, cost: n + rows, ordered: false, turned: false };
    };
    let n = entry.rows;
    let looped = access::choose((table, n), cx.ways, &cx.place(input, bound), &with, order, limited);
    let likely = |rows: f64| (rows * entry.share).max(rows.min(1.0));
    let loop_cost = before * (2.0 + looped.fetched * 1.5);
    if done.is_none() {
        let (rows, ordered, cost) = (likely(looped.rows), looped.ordered, likely(looped.fetched));
        let node = scan(*rel, source, looped, with);
        return Step { node, method: Method::Loop, rows, cost, ordered, turned: false };
    }
    let keys = hash_keys(&cx.inputs, &with, bound, own);
    let kept = access::choose((table, n), cx.ways, &cx.place(input, RelSet::EMPTY), &alone, None, false);
    let mut rows = before * likely(looped.rows);
    if let Some(others) = rows_by_key(cx, &keys, bound) {
        // Each of these rows matches at most one row of that table.
        rows = rows.min(before * likely(kept.rows) / others);
    }
    let by_index = looped.uses_others;
    let build = kept.fetched.min(n) * 2.0;
    let keys = if cx.ways.shuns_hash() { Vec::new() } else { keys };
    let is_loop_better = loop_cost <= build + before * 1.5 && !cx.ways.shuns_loop();
    let run_for_each = by_index && (keys.is_empty() || is_loop_better);
    if run_for_each || keys.is_empty() && before <= 1.0 {
        let node = scan(*rel, source, looped, with);
        return Step { node, method: Method::Loop, rows, cost: loop_cost, ordered: true, turned: false };
    }
    let (fetched, own_rows) = (likely(kept.fetched.min(n)), likely(kept.rows));
    let node = scan(*rel, source, kept, alone);
    if keys.is_empty() {
        let cost = fetched * 2.0 + rows;
        return Step { node, method: Method::Kept, rows, cost, ordered: true, turned: false };
    }
    // The fewer rows are kept, unless the first are wanted soon or in an order.
    let turned = cx.wanted.is_none() && !cx.limited && before < own_rows;
    let cost = match turned {
        true => fetched * 1.5 + before * 2.0,
        false => fetched * 2.0 + before * 1.5,
    };
    Step { node, method: Method::Hash(keys), rows, cost, ordered: !turned, turned }
}

/// How many rows the largest table has whose row is known by these values of the outer side: all columns of a
/// unique index.
fn rows_by_key(cx: &Joins<'_>, keys: &[(&Expr, &Expr)], bound: RelSet) -> Option<f64> {
    let mut most = None;
    for input in bound.iter() {
        let Some(Input { tree: Logical::Scan { rel, source: Source::Table(t) }, .. }) =
            cx.list.get(input as usize)
        else {
            continue;
        };
        let is_known = |column: usize| {
            keys.iter().any(|(outer, _)| {
                matches!(outer.unrelabelled().kind,
                    ExprKind::Column { rel: r, column: c, .. } if r == *rel && c as usize == column)
            })
        };
        if t.def.indexes.iter().any(|i| i.unique && i.columns.iter().all(|c| is_known(c.column))) {
            most = Some(likely_rows(t).max(most.unwrap_or(1.0)));
        }
    }
    most
}

/// Attaches the right side of a LEFT, semi or anti join.
fn attach_right<'a>(
    cx: &Joins<'a>,
    d: Planned<'a>,
    a: &Attach<'a>,
    bound: RelSet,
    outside: RelSet,
) -> Planned<'a> {
    let own = cx.inputs_of(a.right);
    let visible = bound.with(outside);
    // Run for each row: all of ON that concerns the right side can be used on the way in.
    let (inside, rest): (Vec<&'a Expr>, Vec<&'a Expr>) =
        a.on.iter().copied().partition(|e| cx.refs(e).meets(own));
    let looped = plan_pool(cx, &[a.right], inside.clone(), visible, false);
    // Not only its inputs may refer to others (LATERAL): so may conditions that it asks of them.
    let lateral = cx.inputs.needs(a.right).without(own).meets(visible);
    let keys = match cx.ways.shuns_hash() {
        true => Vec::new(),
        false => hash_keys(&cx.inputs, &a.on, visible, own),
    };
    let before = d.node.rows.max(1.0);
    let ordered = d.ordered;
    let is_cheap = !cx.ways.shuns_loop() && cheap(cx, &looped.node, before);
    let (method, inner, on) = if lateral || (uses_index(&looped.node) && (keys.is_empty() || is_cheap)) {
        (Method::Loop, looped, rest)
    } else {
        let (alone, linking): (Vec<&'a Expr>, Vec<&'a Expr>) =
            a.on.iter().copied().partition(|e| cx.refs(e).meets(own) && cx.refs(e).within(own));
        let kept = plan_pool(cx, &[a.right], alone, RelSet::EMPTY, false);
        let linking = linking.into_iter().filter(|e| !is_key(&keys, e)).collect();
        let method = if keys.is_empty() { Method::Kept } else { Method::Hash(keys) };
        (method, kept, linking)
    };
    let rows = match a.kind.gives_left_only() {
        true => (before * 0.5).max(1.0),
        false => before * inner.node.rows.max(1.0),
    };
    let (outer, inner, kind) = (Box::new(d.node), Box::new(inner.node), a.kind);
    Planned { node: Node::new(Operator::Join { kind, method, outer, inner, on }, rows), ordered }
}

/// Whether the first access of a plan is by an index with values from outside it.
fn uses_index(n: &Node<'_>) -> bool {
    match &n.operator {
        Operator::Scan { access, .. } => !matches!(access, Access::Full),
        Operator::Join { outer, .. } => uses_index(outer),
        _ => false,
    }
}

/// Whether looking up for each of so many rows is cheaper than reading the table once.
fn cheap(cx: &Joins<'_>, n: &Node<'_>, times: f64) -> bool {
    match &n.operator {
        Operator::Scan { rel, source: Source::Table(_), .. } => {
            let table = cx.list.iter().find(|i| i.rel == *rel).map_or(0.0, |i| i.rows);
            times * (2.0 + n.rows * 1.5) <= table * 2.0 + times * 1.5
        }
        Operator::Join { outer, .. } => cheap(cx, outer, times),
        Operator::Nothing | Operator::Empty { .. } => true,
        _ => false,
    }
}

/// J2
fn plan_full<'a>(cx: &Joins<'a>, tree: &'a Logical, outside: RelSet) -> Planned<'a> {
    let Logical::Join { kind: JoinKind::Full, left, right, on } = tree else {
        return plan_pool(cx, &[tree], Vec::new(), outside, false);
    };
    let on: Vec<&'a Expr> = on.iter().collect();
    let l = plan_pool(cx, &[left], Vec::new(), outside, false);
    let r = plan_pool(cx, &[right], Vec::new(), outside, false);
    let keys = hash_keys(&cx.inputs, &on, cx.inputs_of(left), cx.inputs_of(right));
    let on = on.into_iter().filter(|e| !is_key(&keys, e)).collect();
    let rows = l.node.rows.max(r.node.rows);
    let (outer, inner, method) = (Box::new(l.node), Box::new(r.node), Method::Hash(keys));
    Planned {
        node: Node::new(Operator::Join { kind: JoinKind::Full, method, outer, inner, on }, rows),
        ordered: false,
    }
}
