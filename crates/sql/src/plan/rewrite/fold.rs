//! What is made of constants alone is computed here, once, and what it decides goes: branches that are never
//! taken, conditions that always hold.
//!
//! - **F1** No error is raised here. An expression that has one stays as it is, and fails when, and if, it is
//!   evaluated. What goes because another part decides, as `false AND 1 / x = 1`, goes in PostgreSQL as well.
//! - **F2** Only immutable functions are called, and no conversion that may look at the session.
use crate::bound::{children_mut, may_be_kept};
use crate::plan::logical::{Expr, ExprKind, Logical, Statement, known};
use ondol_types::func::{self, Context, Volatility};
use ondol_types::{TypeId, Value, cast, text};

pub fn constants(statement: &mut Statement) {
    statement.each_expr_mut(&mut simplify);
    statement.each_tree_mut(&mut bare);
}

/// Takes conditions away that always hold.
fn bare(tree: &mut Logical) {
    tree.inputs_mut().into_iter().for_each(bare);
    match tree {
        Logical::Filter { input, conditions } => {
            conditions.retain(|e| !is_bool(e, true));
            if conditions.is_empty() {
                *tree = std::mem::replace(input, Logical::Nothing);
            }
        }
        Logical::Join { on, .. } => on.retain(|e| !is_bool(e, true)),
        _ => {}
    }
}

pub fn simplify(e: &mut Expr) {
    children_mut(e, &mut simplify);
    if let Some(other) = simpler(e) {
        *e = other;
    }
}

/// Another expression for one whose parts are as simple as they can be.
fn simpler(e: &mut Expr) -> Option<Expr> {
    let (ty, at) = (e.ty, e.at);
    let constant = |v| Some(Expr { kind: ExprKind::Const(v), ty, at });
    let bool = |b| constant(Value::Bool(b));
    match &mut e.kind {
        ExprKind::Call { .. } | ExprKind::Cast { .. } => value(e).filter(may_be_kept).and_then(constant),
        ExprKind::And(list) => junction(list, false),
        ExprKind::Or(list) => junction(list, true),
        ExprKind::Not(arg) => match known(arg)? {
            Value::Bool(b) => bool(!*b),
            v => constant(v.clone()),
        },
        ExprKind::IsNull { arg, negated } => bool(known(arg)?.is_null() != *negated),
        ExprKind::BoolTest { arg, want, negated } => {
            let is_it = match (known(arg)?, want) {
                (Value::Bool(b), Some(want)) => *b == *want,
                (v, None) => v.is_null(),
                _ => false,
            };
            bool(is_it != *negated)
        }
        ExprKind::Case { whens, otherwise } => {
            whens.retain(|(c, _)| !is_bool(c, false) && !is_null(c));
            if let Some(n) = whens.iter().position(|(c, _)| is_bool(c, true)) {
                *otherwise = whens.drain(n..).next().map(|(_, then)| Box::new(then));
            }
            match otherwise {
                _ if !whens.is_empty() => None,
                None => constant(Value::Null),
                Some(o) if o.ty == ty => otherwise.take().map(|o| *o),
                Some(_) => None,
            }
        }
        ExprKind::Coalesce(list) => {
            list.retain(|e| !is_null(e));
            if let Some(n) = list.iter().position(|e| known(e).is_some()) {
                list.truncate(n + 1);
            }
            match &list[..] {
                [] => constant(Value::Null),
                [one] if one.ty == ty => list.pop(),
                _ => None,
            }
        }
        _ => None,
    }
}

/// What an AND or OR is that one constant of its list may decide.
fn junction(list: &mut Vec<Expr>, decides: bool) -> Option<Expr> {
    if let Some(e) = list.iter().find(|e| is_bool(e, decides)) {
        return Some(e.clone());
    }
    let idle = list.iter().find(|e| is_bool(e, !decides)).cloned();
    let mut nulls = 0;
    list.retain(|e| {
        nulls += usize::from(is_null(e));
        !is_bool(e, !decides) && (!is_null(e) || nulls == 1)
    });
    if list.len() > 1 {
        return None;
    }
    list.pop().or(idle)
}

/// The value of a call or cast of constants (F1, F2).
fn value(e: &Expr) -> Option<Value> {
    match &e.kind {
        ExprKind::Call { func, args } => {
            let values: Vec<&Value> = args.iter().map(known).collect::<Option<_>>()?;
            if func::find(*func)?.volatility != Volatility::Immutable {
                return None;
            }
            let mut scratch: Vec<Vec<u8>> = vec![Vec::new(); values.len()];
            let refs: Vec<_> = values.iter().zip(&mut scratch).map(|(v, s)| v.as_ref(s)).collect();
            func::call(*func, &refs, &Context::AHEAD).ok()
        }
        ExprKind::Cast { arg, explicit } => {
            let v = known(arg)?;
            // Conversions of times look at the session's zone, and those to and from text at its styles.
            let is_string = |t: TypeId| t.element().unwrap_or(t).is_string_or_unknown();
            let types = [arg.ty.id, e.ty.id];
            if types.iter().any(|t| {
                matches!(
                    t.element().unwrap_or(*t),
                    TypeId::DATE | TypeId::TIME | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ | TypeId::TIMETZ
                )
            }) || types.iter().any(|t| is_string(*t)) && types.iter().any(|t| text::is_styled(*t))
            {
                return None;
            }
            if v.is_null() {
                return Some(Value::Null);
            }
            cast::cast(v.clone(), arg.ty.id, e.ty, *explicit, &Context::AHEAD).ok()
        }
        _ => None,
    }
}

fn is_null(e: &Expr) -> bool {
    known(e).is_some_and(Value::is_null)
}

fn is_bool(e: &Expr, b: bool) -> bool {
    matches!(e.kind, ExprKind::Const(Value::Bool(v)) if v == b)
}
