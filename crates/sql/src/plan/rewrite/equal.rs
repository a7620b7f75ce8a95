//! The value that a column equals is that of the columns that equal it: `a.x = b.x AND a.x = 5` has `b.x = 5`
//! as well, and an outer or semi join's ON that asks for `a.x = b.x` below `a.x = 5` asks for `b.x = 5`. Of
//! ranges and lists nothing is carried: the join asks for them anyway, and each row would be checked twice.
//!
//! - **Q1** Columns are equal by conditions that hold of all rows of a tree of joins: those of WHERE and of
//!   inner joins. They are of one type, so that one stands for the other in any comparison.
//! - **Q2** An equality between columns that are both said to equal the same value says nothing more; it
//!   goes.
//! - **Q3** Of columns that are equal, each pair is said to be: of `a.x = b.x AND b.x = c.x` also `a.x =
//!   c.x`, so that the order of joins may go from a to c (join/J3 leaves out what follows). Only inputs of
//!   inner joins take part, and classes of at most [`MOST`] columns.
use super::{inputs, is_plain};
use crate::plan::classify::{Cond, comparison};
use crate::plan::equality::{Classes, Column, equality};
use crate::plan::logical::{
    Expr, ExprKind, JoinKind, Logical, Statement, column, column_of, each_column, replace_columns, same,
};
use crate::plan::lower::filter;

/// Columns of a class whose pairs are all said.
const MOST: usize = 12;

pub fn carry(statement: &mut Statement) {
    statement.each_tree_mut(&mut carry_in);
}

fn carry_in(tree: &mut Logical) {
    if matches!(tree, Logical::Filter { .. } | Logical::Join { .. }) {
        let input = std::mem::replace(tree, Logical::Nothing);
        *tree = carried(input);
        return each_below(tree, &mut carry_in);
    }
    tree.inputs_mut().into_iter().for_each(carry_in);
}

/// Gives what stands below a tree of joins, and right sides that only ON speaks of.
fn each_below(tree: &mut Logical, f: &mut dyn FnMut(&mut Logical)) {
    match tree {
        Logical::Filter { input, .. } => each_below(input, f),
        Logical::Join { kind: JoinKind::Inner, left, right, .. } => {
            each_below(left, f);
            each_below(right, f);
        }
        Logical::Join { kind: JoinKind::Full, left, right, .. } => {
            f(left);
            f(right);
        }
        Logical::Join { left, right, .. } => {
            each_below(left, f);
            f(right);
        }
        other => f(other),
    }
}

fn carried(mut tree: Logical) -> Logical {
    if inputs(&tree) < 2 {
        return tree;
    }
    let mut all = Vec::new();
    conditions(&tree, &mut all);
    let own = tree.gives();
    let facts: Vec<(Column, Expr)> =
        all.iter().filter_map(|e| Some((fact(e, &own)?, (*e).clone()))).collect();
    if facts.is_empty() {
        let pairs = pairs(&tree);
        return asked(tree, pairs);
    }
    let equal: Vec<(Column, Column)> = all.iter().filter_map(|e| sides(e)).collect();
    let mut new: Vec<Expr> = Vec::new();
    for (of, fact) in &facts {
        for other in equal_to(*of, &equal).into_iter().filter(|c| own.contains(&c.0)) {
            let e = moved(fact, *of, other);
            if !all.iter().any(|o| same(o, &e)) && !new.iter().any(|o| same(o, &e)) {
                new.push(e);
            }
        }
    }
    let said: Vec<(Column, Expr)> =
        new.iter().filter_map(|e| Some((fact(e, &own)?, e.clone()))).chain(facts).collect();
    // Q2
    remove(&mut tree, &mut |e| {
        sides(e).is_some_and(|(a, b)| {
            let mut values = said.iter().filter(|(c, _)| *c == a);
            values.any(|(_, e)| said.iter().any(|(c, o)| *c == b && same(o, &moved(e, a, b))))
        })
    });
    outer(&mut tree, &said);
    new.extend(pairs(&tree));
    asked(tree, new)
}

/// The tree with further conditions on its rows.
fn asked(mut tree: Logical, new: Vec<Expr>) -> Logical {
    match &mut tree {
        _ if new.is_empty() => tree,
        Logical::Filter { conditions, .. } => {
            conditions.extend(new);
            tree
        }
        _ => filter(tree, new),
    }
}

/// The relations of which inner joins are made, and what is joined to them from the left.
fn pooled(tree: &Logical, out: &mut Vec<u16>) {
    match tree {
        Logical::Filter { input, .. } => pooled(input, out),
        Logical::Join { kind: JoinKind::Inner, left, right, .. } => {
            pooled(left, out);
            pooled(right, out);
        }
        Logical::Join { kind: JoinKind::Full, .. } => {}
        Logical::Join { left, .. } => pooled(left, out),
        other => out.extend(other.gives()),
    }
}

/// The pairs of equal columns of which no condition tells (Q3).
fn pairs(tree: &Logical) -> Vec<Expr> {
    if inputs(tree) < 3 {
        return Vec::new();
    }
    let (mut all, mut pool) = (Vec::new(), Vec::new());
    conditions(tree, &mut all);
    pooled(tree, &mut pool);
    let is_pooled = |c: Column| pool.contains(&c.0);
    // Each with one of the equalities that name it, and as it stands there.
    let mut found: Vec<(Column, &Expr, &Expr)> = Vec::new();
    let (mut classes, mut told) = (Classes::default(), Vec::new());
    for e in all {
        let Some(equal) = equality(e).filter(|e| is_pooled(e.left) && is_pooled(e.right)) else { continue };
        let ExprKind::Call { args, .. } = &e.kind else { continue };
        classes.learn(&equal);
        told.push(equal);
        found.extend([(equal.left, e, &args[0]), (equal.right, e, &args[1])]);
    }
    let mut new = Vec::new();
    for (func, columns) in classes.each() {
        if !(3..=MOST).contains(&columns.len()) {
            continue;
        }
        let of = |column: Column| {
            let by = |e: &Expr| matches!(e.kind, ExprKind::Call { func: f, .. } if f == func);
            found.iter().find(|(c, e, _)| *c == column && by(e))
        };
        for (n, a) in columns.iter().enumerate() {
            for b in &columns[n + 1..] {
                let is_told = told.iter().any(|e| {
                    e.func == func && ((e.left, e.right) == (*a, *b) || (e.left, e.right) == (*b, *a))
                });
                if a.0 == b.0 || is_told {
                    continue;
                }
                if let (Some((_, e, left)), Some((_, _, right))) = (of(*a), of(*b)) {
                    let args = vec![(*left).clone(), (*right).clone()];
                    new.push(Expr { kind: ExprKind::Call { func, args }, ..(*e).clone() });
                }
            }
        }
    }
    new
}

/// What holds of all rows of a tree of joins (Q1).
fn conditions<'t>(tree: &'t Logical, out: &mut Vec<&'t Expr>) {
    match tree {
        Logical::Filter { input, conditions: list } => {
            out.extend(list);
            conditions(input, out);
        }
        Logical::Join { kind, left, right, on } => {
            if *kind == JoinKind::Inner {
                out.extend(on);
                conditions(right, out);
            }
            if *kind != JoinKind::Full {
                conditions(left, out);
            }
        }
        _ => {}
    }
}

/// Takes conditions that hold of all rows away.
fn remove(tree: &mut Logical, is_idle: &mut dyn FnMut(&Expr) -> bool) {
    match tree {
        Logical::Filter { input, conditions } => {
            conditions.retain(|e| !is_idle(e));
            remove(input, is_idle);
        }
        Logical::Join { kind, left, right, on } => {
            if *kind == JoinKind::Inner {
                on.retain(|e| !is_idle(e));
                remove(right, is_idle);
            }
            if *kind != JoinKind::Full {
                remove(left, is_idle);
            }
        }
        _ => {}
    }
}

/// Puts the values into ON of outer and semi joins that its columns are known to have (Q2).
fn outer(tree: &mut Logical, said: &[(Column, Expr)]) {
    match tree {
        Logical::Filter { input, .. } => outer(input, said),
        Logical::Join { kind: JoinKind::Inner, left, right, .. } => {
            outer(left, said);
            outer(right, said);
        }
        Logical::Join { kind: JoinKind::Left | JoinKind::Semi | JoinKind::Anti, left, right, on } => {
            let own = right.gives();
            for e in on.iter_mut() {
                let Some((a, b)) = sides(e) else { continue };
                let (of, other) = match (own.contains(&a.0), own.contains(&b.0)) {
                    (false, true) => (a, b),
                    (true, false) => (b, a),
                    _ => continue,
                };
                if let Some((_, fact)) = said.iter().find(|(c, _)| *c == of) {
                    *e = moved(fact, of, other);
                }
            }
            outer(left, said);
        }
        _ => {}
    }
}

/// The column that is to equal a value from outside the tree.
fn fact(e: &Expr, own: &[u16]) -> Option<Column> {
    let ExprKind::Call { args, .. } = &e.kind else { return None };
    let mut found = args.iter().filter_map(column_of).filter(|c| own.contains(&c.0));
    let (of, other) = (found.next()?, found.next());
    (is_plain(e) && is_equal(e) && other.is_none()).then_some(of)
}

fn is_equal(e: &Expr) -> bool {
    matches!(&e.kind, ExprKind::Call { func, .. } if comparison(*func).is_some_and(|c| c.cond == Cond::Eq))
}

/// The columns of one type that a condition says are equal.
fn sides(e: &Expr) -> Option<(Column, Column)> {
    let ExprKind::Call { args, .. } = &e.kind else { return None };
    let [a, b] = &args[..] else { return None };
    let is_one_type = a.unrelabelled().ty.id == b.unrelabelled().ty.id;
    let (a, b) = (column_of(a)?, column_of(b)?);
    (is_equal(e) && is_one_type && a.0 != b.0).then_some((a, b))
}

/// The columns that equal one by the pairs, without itself.
fn equal_to(of: Column, pairs: &[(Column, Column)]) -> Vec<Column> {
    let mut found = vec![of];
    let mut at = 0;
    while let Some(c) = found.get(at).copied() {
        for (a, b) in pairs {
            for (one, other) in [(a, b), (b, a)] {
                if *one == c && !found.contains(other) {
                    found.push(*other);
                }
            }
        }
        at += 1;
    }
    found.remove(0);
    found
}

/// The condition about another column.
fn moved(e: &Expr, from: Column, to: Column) -> Expr {
    let mut out = e.clone();
    let mut ty = e.ty;
    each_column(e, &mut |rel, column, e| {
        if (rel, column) == from {
            ty = e.ty;
        }
    });
    replace_columns(&mut out, &mut |r, c| ((r, c) == from).then(|| column(to.0, to.1 as usize, ty)));
    out
}
