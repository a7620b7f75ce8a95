//! What expressions refer to.
use crate::bound::*;
use std::collections::BTreeSet;

/// A set of a query's rels, by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RelSet(pub u128);

/// More rels than this in one query are refused by the binder.
pub const MAX_RELS: usize = 128;

impl RelSet {
    pub const EMPTY: RelSet = RelSet(0);
    pub fn one(rel: u16) -> RelSet {
        RelSet(1 << (rel as u32 % 128))
    }
    pub fn with(self, o: RelSet) -> RelSet {
        RelSet(self.0 | o.0)
    }
    pub fn without(self, o: RelSet) -> RelSet {
        RelSet(self.0 & !o.0)
    }
    pub fn within(self, o: RelSet) -> bool {
        self.0 & !o.0 == 0
    }
    pub fn meets(self, o: RelSet) -> bool {
        self.0 & o.0 != 0
    }
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    pub fn has(self, rel: u16) -> bool {
        self.meets(RelSet::one(rel))
    }
    pub fn iter(self) -> impl Iterator<Item = u16> {
        (0..128u16).filter(move |r| self.has(*r))
    }
}

/// The rels of its own query that an expression refers to, also from within its subqueries.
pub fn refs(e: &Expr) -> RelSet {
    let mut set = RelSet::EMPTY;
    walk_expr(e, 0, &mut |e, level| {
        if let ExprKind::Column { depth, rel, .. } = e.kind
            && depth == level
        {
            set = set.with(RelSet::one(rel))
        }
        true
    });
    set
}

/// The rels of the query that a rel of it refers to: those that must be bound before it (LATERAL).
pub fn needs(rel: &Rel) -> RelSet {
    let mut set = RelSet::EMPTY;
    let mut add = |e: &Expr| set = set.with(refs(e));
    match rel {
        Rel::Table(_) | Rel::Foreign(_) | Rel::System(_) => {}
        Rel::Values(rows) => rows.iter().flatten().for_each(&mut add),
        Rel::Function { args, .. } => args.iter().for_each(&mut add),
        Rel::Series { start, stop, step, by } => {
            [start, stop, step].into_iter().chain(by.as_ref().map(|by| &by.step)).for_each(&mut add)
        }
        Rel::Query(q) => walk_query(q, 1, &mut |e, level| {
            if let ExprKind::Column { depth, rel, .. } = e.kind
                && depth == level
            {
                set = set.with(RelSet::one(rel))
            }
            true
        }),
    }
    set
}

/// Whether anything in a query refers to what is outside it.
pub fn correlated(q: &Query) -> bool {
    let mut found = false;
    walk_query(q, 0, &mut |e, level| {
        found |= match e.kind {
            ExprKind::Column { depth, .. }
            | ExprKind::Aggregate { depth, .. }
            | ExprKind::GroupOuter { depth, .. } => depth > level,
            _ => false,
        };
        !found
    });
    found
}

/// The columns of each rel that are used anywhere, and by the further expressions given.
pub fn used_columns<'a>(q: &Query, more: impl Iterator<Item = &'a Expr>) -> Vec<BTreeSet<u16>> {
    let mut used = vec![BTreeSet::new(); q.rels.len()];
    let mut add = |e: &Expr, level: u16| {
        if let ExprKind::Column { depth, rel, column } = e.kind
            && depth == level
            && let Some(set) = used.get_mut(rel as usize)
        {
            set.insert(column);
        }
        true
    };
    walk_query(q, 0, &mut add);
    for e in more {
        walk_expr(e, 0, &mut add);
    }
    used
}

/// The rels below a FROM item.
pub fn rels_of(from: &From) -> RelSet {
    match from {
        From::Rel(r) => RelSet::one(*r),
        From::Join { left, right, .. } => rels_of(left).with(rels_of(right)),
    }
}

/// Splits a condition into those that must all hold.
pub fn conjuncts<'a>(e: &'a Expr, out: &mut Vec<&'a Expr>) {
    match &e.kind {
        ExprKind::And(list) => list.iter().for_each(|e| conjuncts(e, out)),
        _ => out.push(e),
    }
}

/// Whether the value is NULL for certain when all columns of these rels are.
fn null_with(e: &Expr, rels: RelSet) -> bool {
    match &e.kind {
        ExprKind::Column { depth: 0, rel, .. } => rels.has(*rel),
        ExprKind::Cast { arg, .. } | ExprKind::Not(arg) => null_with(arg, rels),
        ExprKind::Call { func, args } => {
            ondol_types::func::find(*func).is_some_and(|d| d.strict)
                && args.iter().any(|a| null_with(a, rels))
        }
        _ => false,
    }
}

/// Whether a condition cannot be true when all columns of these rels are NULL.
pub fn rejects_nulls(e: &Expr, rels: RelSet) -> bool {
    match &e.kind {
        ExprKind::IsNull { arg, negated: true } => null_with(arg, rels),
        ExprKind::InList { arg, .. } => null_with(arg, rels),
        ExprKind::BoolTest { arg, want: Some(_), negated: false } => null_with(arg, rels),
        ExprKind::And(list) => list.iter().any(|e| rejects_nulls(e, rels)),
        ExprKind::Or(list) => !list.is_empty() && list.iter().all(|e| rejects_nulls(e, rels)),
        _ => null_with(e, rels),
    }
}
