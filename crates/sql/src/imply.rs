//! What expressions say of each other: that two have the same value, that a condition follows from others.
//!
//! - **I1** Both are told by the look of them: no is no answer, yes is one.
//! - **I2** A condition that follows is true of every row of which the given ones are true.
use crate::bound::{Expr, ExprKind};
use crate::plan::classify::{Comparison, Cond, comparison, is_int};
use ondol_types::{TypeId, Value};

/// Whether two columns, each by its relation and its place, are the same.
pub type SameColumn<'s> = &'s dyn Fn((u16, u16), (u16, u16)) -> bool;

/// Whether two expressions always have the same value. Those with subqueries never have.
pub fn same_value<Q>(a: &Expr<Q>, b: &Expr<Q>, column: SameColumn<'_>) -> bool {
    use ExprKind as K;
    same_by(a, b, &|a, b| match (&a.kind, &b.kind) {
        (K::Column { depth: d, rel: r, column: c }, K::Column { depth, rel, column: o }) => {
            Some(d == depth && column((*r, *c), (*rel, *o)))
        }
        // Without a modifier it is all one who asked for it.
        (K::Cast { explicit: e, .. }, K::Cast { explicit: f, .. }) if e != f && a.ty.typmod != -1 => {
            Some(false)
        }
        _ => None,
    })
}

/// What is said of two expressions themselves; nothing where it depends on what they are made of.
pub type Same<'s, Q> = &'s dyn Fn(&Expr<Q>, &Expr<Q>) -> Option<bool>;

/// Whether two expressions of one type are made alike, of what `same` says are the same columns. Those with
/// subqueries never are.
pub fn same_by<Q>(a: &Expr<Q>, b: &Expr<Q>, same: Same<'_, Q>) -> bool {
    use ExprKind as K;
    let both = |x: &Expr<Q>, y: &Expr<Q>| same_by(x, y, same);
    let all = |x: &[Expr<Q>], y: &[Expr<Q>]| x.len() == y.len() && x.iter().zip(y).all(|(x, y)| both(x, y));
    if a.ty != b.ty {
        return false;
    }
    if let Some(told) = same(a, b) {
        return told;
    }
    match (&a.kind, &b.kind) {
        (K::Const(x), K::Const(y)) => x.is_same(y),
        (K::Param(x), K::Param(y)) => x == y,
        (K::Call { func: f, args: x }, K::Call { func: g, args: y }) => f == g && all(x, y),
        (K::Cast { arg: x, .. }, K::Cast { arg: y, .. }) => both(x, y),
        (K::And(x), K::And(y)) | (K::Or(x), K::Or(y)) | (K::Coalesce(x), K::Coalesce(y)) => all(x, y),
        (K::Greatest(x), K::Greatest(y)) | (K::Least(x), K::Least(y)) => all(x, y),
        (K::Not(x), K::Not(y)) => both(x, y),
        (K::IsNull { arg: x, negated: n }, K::IsNull { arg: y, negated: m }) => n == m && both(x, y),
        (K::BoolTest { arg: x, want: w, negated: n }, K::BoolTest { arg: y, want: v, negated: m }) => {
            w == v && n == m && both(x, y)
        }
        (K::Distinct { left: l, right: r, eq: e, negated: n }, K::Distinct { left, right, eq, negated }) => {
            e == eq && n == negated && both(l, left) && both(r, right)
        }
        (K::NullIf { left: l, right: r, eq: e }, K::NullIf { left, right, eq }) => {
            e == eq && both(l, left) && both(r, right)
        }
        (K::Case { whens: x, otherwise: o }, K::Case { whens: y, otherwise: p }) => {
            let otherwise = match (o, p) {
                (None, None) => true,
                (Some(o), Some(p)) => both(o, p),
                _ => false,
            };
            let pairs = x.iter().zip(y);
            otherwise
                && x.len() == y.len()
                && pairs.into_iter().all(|(x, y)| both(&x.0, &y.0) && both(&x.1, &y.1))
        }
        (
            K::InList { arg: x, list: k, eq: e, negated: n },
            K::InList { arg: y, list: l, eq: f, negated: m },
        ) => e == f && n == m && both(x, y) && all(k, l),
        _ => false,
    }
}

/// `value cond constant`
struct Bound<'e, Q> {
    of: &'e Expr<Q>,
    by: Comparison,
    cond: Cond,
    constant: &'e Value,
    ty: TypeId,
}

fn bound<Q>(e: &Expr<Q>) -> Option<Bound<'_, Q>> {
    let ExprKind::Call { func, args } = &e.kind else { return None };
    let by = comparison(*func)?;
    let [left, right] = &args[..] else { return None };
    match (&left.kind, &right.kind) {
        (_, ExprKind::Const(v)) if !v.is_null() => {
            Some(Bound { of: left, by, cond: by.cond, constant: v, ty: right.ty.id })
        }
        (ExprKind::Const(v), _) if !v.is_null() => {
            let by = Comparison { left: by.right, right: by.left, ..by };
            Some(Bound { of: right, by, cond: by.cond.turned(), constant: v, ty: left.ty.id })
        }
        _ => None,
    }
}

/// How two constants compare in the order that comparisons go by.
fn order<Q>(a: &Bound<'_, Q>, b: &Bound<'_, Q>) -> Option<std::cmp::Ordering> {
    let int = |v: &Value| match v {
        Value::Int2(n) => Some(i64::from(*n)),
        Value::Int4(n) => Some(i64::from(*n)),
        Value::Int8(n) => Some(*n),
        _ => None,
    };
    if is_int(a.ty) && is_int(b.ty) && is_int(a.by.right) && is_int(b.by.right) {
        return Some(int(a.constant)?.cmp(&int(b.constant)?));
    }
    if a.ty != b.ty || a.by.left != b.by.left || a.by.right != b.by.right || a.ty == TypeId::BPCHAR {
        return None;
    }
    let key = |v: &Value| {
        let (mut key, mut scratch) = (Vec::new(), Vec::new());
        ondol_types::key::encode(v.as_ref(&mut scratch), a.ty, false, false, true, &mut key);
        key
    };
    Some(key(a.constant).cmp(&key(b.constant)))
}

/// Whether `x given c` says that `x wanted d`, by how c compares with d.
fn follows(given: Cond, wanted: Cond, order: std::cmp::Ordering) -> bool {
    use Cond::{Eq, Ge, Gt, Le, Lt, Ne};
    match (given, wanted) {
        (Eq, wanted) => wanted.holds(order),
        (Ne, Ne) => order.is_eq(),
        (Lt, Lt | Le) | (Le, Le) => order.is_le(),
        (Le, Lt | Ne) => order.is_lt(),
        (Lt, Ne) => order.is_le(),
        (Gt, Gt | Ge) | (Ge, Ge) => order.is_ge(),
        (Ge, Gt | Ne) => order.is_gt(),
        (Gt, Ne) => order.is_ge(),
        _ => false,
    }
}

/// Whether a condition is NULL or false where the value is NULL.
fn is_strict_in<Q>(condition: &Expr<Q>, value: &Expr<Q>, column: SameColumn<'_>) -> bool {
    match &condition.kind {
        ExprKind::Call { func, args } => {
            comparison(*func).is_some() && args.iter().any(|a| is_made_of(a, value, column))
        }
        ExprKind::InList { arg, negated: false, .. } => is_made_of(arg, value, column),
        ExprKind::IsNull { arg, negated: true } => is_made_of(arg, value, column),
        ExprKind::BoolTest { arg, want: Some(_), negated: false } => same_value(arg, value, column),
        _ => same_value(condition, value, column),
    }
}

/// Whether an expression is NULL where the value is, as far as casts go.
fn is_made_of<Q>(e: &Expr<Q>, value: &Expr<Q>, column: SameColumn<'_>) -> bool {
    same_value(e, value, column)
        || matches!(&e.kind, ExprKind::Cast { arg, .. } if is_made_of(arg, value, column))
}

/// Whether a condition follows from others that hold (I2). `column` is asked of a column of a given one and
/// one of the wanted one.
pub fn implies<Q>(given: &[&Expr<Q>], wanted: &Expr<Q>, column: SameColumn<'_>) -> bool {
    match &wanted.kind {
        ExprKind::And(list) => return list.iter().all(|w| implies(given, w, column)),
        ExprKind::Or(list) if list.iter().any(|w| implies(given, w, column)) => return true,
        ExprKind::Const(Value::Bool(true)) => return true,
        _ => {}
    }
    given.iter().any(|g| implied_by(g, wanted, column))
}

fn implied_by<Q>(given: &Expr<Q>, wanted: &Expr<Q>, column: SameColumn<'_>) -> bool {
    if same_value(given, wanted, column) {
        return true;
    }
    match &given.kind {
        ExprKind::And(list) => return list.iter().any(|g| implied_by(g, wanted, column)),
        ExprKind::Or(list) => return list.iter().all(|g| implied_by(g, wanted, column)),
        // `x IN (1, 2)` is an OR of equalities.
        ExprKind::InList { arg, list, eq, negated: false } => {
            if let (Some(by), Some(w)) = (comparison(*eq), bound(wanted))
                && same_value(arg, w.of, column)
            {
                let one = |e: &Expr<Q>| match &e.kind {
                    ExprKind::Const(v) if !v.is_null() => {
                        let g = Bound { of: &**arg, by, cond: Cond::Eq, constant: v, ty: e.ty.id };
                        order(&g, &w).is_some_and(|o| follows(Cond::Eq, w.cond, o))
                    }
                    _ => false,
                };
                return list.iter().all(one);
            }
        }
        _ => {}
    }
    if let (Some(g), Some(w)) = (bound(given), bound(wanted))
        && same_value(g.of, w.of, column)
        && order(&g, &w).is_some_and(|o| follows(g.cond, w.cond, o))
    {
        return true;
    }
    match &wanted.kind {
        ExprKind::IsNull { arg, negated: true } => is_strict_in(given, arg, column),
        // What is true is known.
        ExprKind::BoolTest { arg, want: Some(true), negated: false } => same_value(given, arg, column),
        _ => match &given.kind {
            ExprKind::BoolTest { arg, want: Some(true), negated: false } => implied_by(arg, wanted, column),
            _ => false,
        },
    }
}
