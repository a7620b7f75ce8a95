//! What nothing needs is not computed: outer joins that give each row once and whose columns nobody uses,
//! aggregates, functions over windows, and values that a query in FROM or UNION ALL gives. What a WITH query
//! keeps is computed whole, as PostgreSQL does.
//!
//! - **N1** A join goes only if its right side has at most one row for each row of the left: if ON asks for
//!   values in all columns of a unique index, or in all keys of groups.
//! - **N2** What calls something volatile stays.
use crate::bound::SetOperation;
use crate::plan::classify::{Cond, comparison};
use crate::plan::logical::{
    Expr, ExprKind, JoinKind, Logical, Relation, Source, Statement, column, column_of, each_column,
    replace_columns, uses_any,
};
use ondol_types::Value;
use ondol_types::func::Volatility;
use std::collections::HashMap;

/// How often each column is used.
type Uses = HashMap<(u16, u16), usize>;

pub fn remove(statement: &mut Statement) {
    let mut any = false;
    statement.each_tree_mut(&mut |tree| any |= bare_groups(tree));
    // What goes may have been all that used something else.
    while any {
        any = remove_some(statement);
    }
}

/// Groups without keys and aggregates (a HAVING alone) are one row, whatever there is below. Says whether
/// there may be something to remove in the tree.
fn bare_groups(tree: &mut Logical) -> bool {
    let mut any = match tree {
        Logical::Aggregate { keys, aggregates, .. } if keys.is_empty() && aggregates.is_empty() => {
            *tree = Logical::Nothing;
            true
        }
        Logical::Join { kind: JoinKind::Left, .. }
        | Logical::Aggregate { .. }
        | Logical::Window { .. }
        | Logical::Project { .. }
        | Logical::SetOperation { .. } => true,
        _ => false,
    };
    for input in tree.inputs_mut() {
        any |= bare_groups(input);
    }
    any
}

struct Remove<'r> {
    uses: Uses,
    relations: &'r mut [Relation],
    /// For columns that have another number now.
    moved: HashMap<(u16, u16), Expr>,
    some: bool,
}

fn remove_some(statement: &mut Statement) -> bool {
    let mut uses = Uses::new();
    statement.each_expr_mut(&mut |e| note(e, &mut uses));
    let mut relations = std::mem::take(&mut statement.relations);
    let mut r = Remove { uses, relations: &mut relations, moved: HashMap::new(), some: false };
    statement.each_tree_mut(&mut |tree| r.tree(tree));
    let Remove { moved, some, .. } = r;
    statement.relations = relations;
    if !moved.is_empty() {
        statement.each_expr_mut(&mut |e| {
            replace_columns(e, &mut |rel, column| moved.get(&(rel, column)).cloned())
        });
    }
    some
}

fn note(e: &Expr, uses: &mut Uses) {
    each_column(e, &mut |rel, column, _| *uses.entry((rel, column)).or_default() += 1);
}

impl Remove<'_> {
    fn is_used(&self, rel: u16, column: usize) -> bool {
        self.uses.contains_key(&(rel, column as u16))
    }

    fn erase(&mut self, e: &mut Expr) {
        if !matches!(e.kind, ExprKind::Const(_)) && !e.calls(Volatility::Volatile) {
            e.kind = ExprKind::Const(Value::Null);
            self.some = true;
        }
    }

    fn tree(&mut self, tree: &mut Logical) {
        match tree {
            Logical::Join { kind: JoinKind::Left, left, right, on } if self.is_idle(right, on) => {
                *tree = std::mem::replace(left, Logical::Nothing);
                self.some = true;
                return self.tree(tree);
            }
            Logical::Project { rel, columns, .. } => {
                for (n, e) in columns.iter_mut().enumerate() {
                    if !self.is_used(*rel, n) {
                        self.erase(e);
                    }
                }
            }
            Logical::SetOperation { rel, operation, all, left, right } => {
                if matches!((operation, all), (SetOperation::Union, true)) {
                    for n in 0..left.output.len() {
                        if !self.is_used(*rel, n) {
                            self.erase(&mut left.output[n]);
                            self.erase(&mut right.output[n]);
                        }
                    }
                }
            }
            Logical::Aggregate { rel, keys, aggregates, .. } => {
                let before = aggregates.len();
                let (mut n, rel) = (keys.len(), *rel);
                let mut kept = Vec::new();
                aggregates.retain(|a| {
                    let volatile = a.exprs().any(|e| e.calls(Volatility::Volatile));
                    let stays = volatile || self.is_used(rel, n);
                    if stays {
                        kept.push((n, a.ty));
                    }
                    n += 1;
                    stays
                });
                if aggregates.len() < before {
                    let keys = keys.len();
                    for (place, (n, ty)) in kept.into_iter().enumerate() {
                        self.moved.insert((rel, n as u16), column(rel, keys + place, ty));
                    }
                    if let Some(relation) = self.relations.get_mut(rel as usize) {
                        relation.columns.truncate(keys);
                        relation.columns.extend(aggregates.iter().map(|a| (String::new(), a.ty)));
                    }
                    self.some = true;
                    bare_groups(tree);
                }
            }
            Logical::Window { rel, calls, input, .. } => {
                let (before, rel) = (calls.len(), *rel);
                let mut n = 0;
                let mut kept = Vec::new();
                calls.retain(|c| {
                    let volatile = c.exprs().any(|e| e.calls(Volatility::Volatile));
                    let stays = volatile || self.is_used(rel, n);
                    if stays {
                        kept.push((n, c.ty));
                    }
                    n += 1;
                    stays
                });
                if calls.len() < before {
                    for (place, (n, ty)) in kept.into_iter().enumerate() {
                        self.moved.insert((rel, n as u16), column(rel, place, ty));
                    }
                    if let Some(relation) = self.relations.get_mut(rel as usize) {
                        relation.columns = calls.iter().map(|c| (String::new(), c.ty)).collect();
                    }
                    self.some = true;
                    if calls.is_empty() {
                        *tree = std::mem::replace(input, Logical::Nothing);
                        return self.tree(tree);
                    }
                }
            }
            _ => {}
        }
        tree.inputs_mut().into_iter().for_each(|i| self.tree(i));
    }

    /// Whether the right side of a LEFT join does nothing (N1, N2).
    fn is_idle(&self, right: &Logical, on: &[Expr]) -> bool {
        let mut own = Uses::new();
        let mut volatile = false;
        let mut look = |e: &Expr| {
            note(e, &mut own);
            volatile |= e.calls(Volatility::Volatile);
        };
        right.each(&mut |l| l.own_exprs(&mut look));
        on.iter().for_each(look);
        let rels = right.gives();
        let used_elsewhere =
            (self.uses.iter()).any(|(c, n)| rels.contains(&c.0) && own.get(c).copied().unwrap_or(0) < *n);
        !volatile && !used_elsewhere && gives_one(right, &rels, on)
    }
}

/// N1
fn gives_one(right: &Logical, rels: &[u16], on: &[Expr]) -> bool {
    let mut asked = Vec::new();
    for e in on {
        let ExprKind::Call { func, args } = &e.kind else { continue };
        let ([a, b], Some(Cond::Eq)) = (&args[..], comparison(*func).map(|c| c.cond)) else { continue };
        for (one, other) in [(a, b), (b, a)] {
            if !uses_any(other, rels) {
                asked.extend(column_of(one));
            }
        }
    }
    gives_one_of(right, asked)
}

/// Whether there is at most one row with given values in the columns `asked`.
fn gives_one_of(tree: &Logical, mut asked: Vec<(u16, u16)>) -> bool {
    match tree {
        Logical::Filter { input, .. } | Logical::Sort { input, .. } | Logical::Window { input, .. } => {
            gives_one_of(input, asked)
        }
        Logical::Project { rel, input, columns } => {
            let inner = (columns.iter().enumerate())
                .filter(|(n, _)| asked.contains(&(*rel, *n as u16)))
                .filter_map(|(_, e)| column_of(e));
            let inner: Vec<(u16, u16)> = inner.collect();
            asked.extend(inner);
            gives_one_of(input, asked)
        }
        Logical::Distinct { by, .. } => by.iter().all(|e| column_of(e).is_some_and(|c| asked.contains(&c))),
        Logical::Scan { rel, source: Source::Table(table) } => {
            let is_asked = |column: usize| asked.contains(&(*rel, column as u16));
            table.def.indexes.iter().any(|i| i.unique && i.columns.iter().all(|c| is_asked(c.column)))
        }
        Logical::Aggregate { rel, keys, .. } => (0..keys.len()).all(|n| asked.contains(&(*rel, n as u16))),
        _ => false,
    }
}
