//! Expressions as EXPLAIN shows them: near to SQL, short, and only for reading.
use crate::bound::*;
use crate::code::explain::constant;
use ondol_types::func::{self, operator};

/// What names an expression's columns have: the query of each level, outermost first.
pub struct Names<'a> {
    pub levels: Vec<Option<&'a Query>>,
}

impl Names<'_> {
    fn query(&self, depth: u16) -> Option<&Query> {
        *self.levels.get(self.levels.len().checked_sub(1 + depth as usize)?)?
    }
    fn column(&self, depth: u16, rel: u16, column: u16) -> String {
        let Some(q) = self.query(depth) else { return format!("column{column}") };
        match q.rels.get(rel as usize) {
            Some(entry) => {
                let name = entry.columns.get(column as usize).map_or("?", |c| &c.0);
                if q.rels.len() > 1 || self.levels.len() > 1 {
                    format!("{}.{name}", entry.alias)
                } else {
                    name.to_string()
                }
            }
            None => match &q.set {
                Some(s) => s.left.visible().nth(column as usize).map_or("?".to_string(), |t| t.name.clone()),
                None => format!("column{column}"),
            },
        }
    }
}

pub fn conjunction(list: &[&Expr], names: &Names<'_>) -> String {
    let parts: Vec<String> = list.iter().map(|e| expr(e, names)).collect();
    match parts.len() {
        1 => parts.into_iter().next().unwrap_or_default(),
        _ => format!("({})", parts.join(" AND ")),
    }
}

pub fn expr(e: &Expr, names: &Names<'_>) -> String {
    let list = |l: &[Expr], by: &str| l.iter().map(|e| expr(e, names)).collect::<Vec<_>>().join(by);
    let not = |negated: bool| if negated { "NOT " } else { "" };
    match &e.kind {
        ExprKind::Const(v) => constant(v),
        ExprKind::Param(n) => format!("${}", n + 1),
        ExprKind::Column { depth, rel, column } => names.column(*depth, *rel, *column),
        ExprKind::Group(n) => match names.query(0).and_then(|q| q.group_by.get(*n as usize)) {
            Some(g) => expr(g, names),
            None => format!("group{n}"),
        },
        ExprKind::GroupOuter { index, .. } => format!("group{index}"),
        ExprKind::Aggregate { depth, index } => {
            match names.query(*depth).and_then(|q| q.aggregates.get(*index as usize)) {
                Some(a) => {
                    let name = ondol_types::agg::find(a.agg).map_or("aggregate", |d| d.name);
                    let args = if a.args.is_empty() { "*".to_string() } else { list(&a.args, ", ") };
                    format!("{name}({}{args})", if a.distinct { "DISTINCT " } else { "" })
                }
                None => format!("aggregate{index}"),
            }
        }
        ExprKind::Call { func, args } => match (operator::of_function(*func), &args[..]) {
            (Some(op), [l, r]) => format!("({} {} {})", expr(l, names), op.name, expr(r, names)),
            (Some(op), [r]) => format!("({} {})", op.name, expr(r, names)),
            _ => {
                let name = func::find(*func).map_or("function", |d| d.name);
                format!("{name}({})", list(args, ", "))
            }
        },
        ExprKind::Cast { arg, .. } => {
            if std::ptr::eq(e.unrelabelled(), e) {
                format!("{}::{}", expr(arg, names), format!("{:?}", e.ty.id).to_lowercase())
            } else {
                expr(arg, names)
            }
        }
        ExprKind::And(l) => format!("({})", list(l, " AND ")),
        ExprKind::Or(l) => format!("({})", list(l, " OR ")),
        ExprKind::Not(a) => format!("(NOT {})", expr(a, names)),
        ExprKind::IsNull { arg, negated } => format!("({} IS {}NULL)", expr(arg, names), not(*negated)),
        ExprKind::BoolTest { arg, want, negated } => {
            let want = match want {
                Some(true) => "TRUE",
                Some(false) => "FALSE",
                None => "UNKNOWN",
            };
            format!("({} IS {}{want})", expr(arg, names), not(*negated))
        }
        ExprKind::Distinct { left, right, negated, .. } => {
            format!("({} IS {}DISTINCT FROM {})", expr(left, names), not(*negated), expr(right, names))
        }
        ExprKind::Case { whens, otherwise } => {
            let mut s = "CASE".to_string();
            for (w, t) in whens {
                s += &format!(" WHEN {} THEN {}", expr(w, names), expr(t, names));
            }
            if let Some(o) = otherwise {
                s += &format!(" ELSE {}", expr(o, names));
            }
            s + " END"
        }
        ExprKind::Coalesce(l) => format!("COALESCE({})", list(l, ", ")),
        ExprKind::NullIf { left, right, .. } => {
            format!("NULLIF({}, {})", expr(left, names), expr(right, names))
        }
        ExprKind::Greatest(l) => format!("GREATEST({})", list(l, ", ")),
        ExprKind::Least(l) => format!("LEAST({})", list(l, ", ")),
        ExprKind::InList { arg, list: l, negated, .. } => {
            format!("({} {}IN ({}))", expr(arg, names), not(*negated), list(l, ", "))
        }
        ExprKind::Scalar(_) => "(SubPlan)".to_string(),
        ExprKind::Exists { negated, .. } => format!("{}EXISTS (SubPlan)", not(*negated)),
        ExprKind::Quantified { left, all, .. } => {
            format!("({} {} (SubPlan))", list(left, ", "), if *all { "ALL" } else { "ANY" })
        }
    }
}
