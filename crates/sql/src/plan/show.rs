//! Expressions as EXPLAIN shows them: near to SQL, short, and only for reading.
use super::logical::{Aggregate, Expr, ExprKind, Inside, WindowCall, known};
use super::physical::{Node, Operator, Root, Statement, Subplan};
use crate::bound::{CTID, Computed};
use ondol_types::Value;
use ondol_types::func::{self, FuncId, operator};
use std::collections::HashMap;

/// What a relation's columns are where it has no name.
enum Columns<'a> {
    Values(&'a [Expr]),
    Groups(&'a [Expr], &'a [Aggregate]),
    Windows(&'a [WindowCall]),
    /// The place, and what functions that give rows are made of.
    Sets(&'a [Expr]),
    /// As those of a set operation's left side.
    Side(Vec<&'a Expr>),
}

/// What columns are called.
pub struct Names<'p, 'a> {
    statement: &'p Statement<'a>,
    unnamed: HashMap<u16, Columns<'a>>,
    /// Whether a column is shown with its relation.
    qualified: bool,
}

impl<'p, 'a> Names<'p, 'a> {
    pub fn new(statement: &'p Statement<'a>, qualified: bool) -> Names<'p, 'a> {
        let mut unnamed = HashMap::new();
        let mut add = |n: &Node<'a>| match &n.operator {
            Operator::Project { rel, columns, .. } => {
                unnamed.insert(*rel, Columns::Values(columns));
            }
            Operator::ProjectSet { rel, values, .. } => {
                unnamed.insert(*rel, Columns::Sets(values));
            }
            Operator::Aggregate { rel, keys, aggregates, .. } => {
                unnamed.insert(*rel, Columns::Groups(keys, aggregates));
            }
            Operator::Window { rel, calls, .. } => {
                unnamed.insert(*rel, Columns::Windows(calls));
            }
            Operator::SetOperation { rel, left, .. } | Operator::Recursion { rel, left, .. } => {
                unnamed.insert(*rel, Columns::Side(left.output.clone()));
            }
            _ => {}
        };
        match &statement.root {
            Root::Rows(Subplan { node, .. }) | Root::Insert { source: Subplan { node, .. }, .. } => {
                node.each(&mut add)
            }
            Root::Modify { input, .. } => input.each(&mut add),
        }
        statement.queries.iter().for_each(|q| q.node.each(&mut add));
        let named = statement.relations.iter().filter(|r| !r.alias.is_empty()).count();
        Names { statement, unnamed, qualified: qualified || named > 1 }
    }

    fn column(&self, rel: u16, column: u16) -> String {
        let n = column as usize;
        let Some(relation) = self.statement.relations.get(rel as usize) else { return format!("column{n}") };
        if !relation.alias.is_empty() {
            let own = if column == CTID { "ctid" } else { "?" };
            let name = relation.columns.get(n).map_or(own, |c| &c.0);
            return if self.qualified { format!("{}.{name}", relation.alias) } else { name.to_string() };
        }
        match self.unnamed.get(&rel) {
            Some(Columns::Values(list)) if n < list.len() => expr(&list[n], self),
            Some(Columns::Groups(keys, _)) if n < keys.len() => expr(&keys[n], self),
            Some(Columns::Groups(keys, list)) if n - keys.len() < list.len() => {
                self.aggregate(&list[n - keys.len()])
            }
            Some(Columns::Windows(list)) if n < list.len() => self.over_window(&list[n]),
            Some(Columns::Side(list)) if n < list.len() => expr(list[n], self),
            _ => format!("column{n}"),
        }
    }

    fn aggregate(&self, a: &Aggregate) -> String {
        let name = ondol_types::agg::find(a.agg).map_or("aggregate", |d| d.name);
        let args: Vec<String> = a.args.iter().map(|e| expr(e, self)).collect();
        let mut args = if args.is_empty() { "*".to_string() } else { args.join(", ") };
        for (n, k) in a.order.iter().enumerate() {
            args += if n == 0 { " ORDER BY " } else { ", " };
            args += &expr(&k.expr, self);
            args += if k.desc { " DESC" } else { "" };
        }
        let filter =
            a.filter.as_ref().map_or(String::new(), |f| format!(" FILTER (WHERE {})", expr(f, self)));
        format!("{name}({}{args}){filter}", if a.distinct { "DISTINCT " } else { "" })
    }

    /// A function over a window; what that is like, the node's order tells.
    fn over_window(&self, c: &WindowCall) -> String {
        let mut args: Vec<String> = c.args.iter().map(|e| expr(e, self)).collect();
        let name = match c.what {
            Computed::Function(id) => ondol_types::window::find(id).map_or("function", |d| d.name),
            Computed::Aggregate(id) => {
                let def = ondol_types::agg::find(id);
                if def.is_some_and(|d| d.has_unwritten()) {
                    args.pop();
                }
                if args.is_empty() {
                    args.push("*".to_string());
                }
                def.map_or("aggregate", |d| d.name)
            }
        };
        let filter =
            c.filter.as_ref().map_or(String::new(), |f| format!(" FILTER (WHERE {})", expr(f, self)));
        format!("{name}({}){filter} OVER (?)", args.join(", "))
    }

    /// A query within an expression, as it is shown beneath.
    pub fn inside(&self, q: &Inside) -> String {
        format!("{} {}", if q.is_once() { "InitPlan" } else { "SubPlan" }, q.number + 1)
    }
}

/// A constant as SQL would write it, near enough to be read.
pub fn constant(v: &Value) -> String {
    use Value::*;
    match v {
        Null => "NULL".to_string(),
        Bool(b) => b.to_string(),
        Int2(i) => i.to_string(),
        Int4(i) => i.to_string(),
        Int8(i) => i.to_string(),
        Float8(f) => f.to_string(),
        Text(s) => format!("'{}'", s.replace('\'', "''")),
        Bytea(b) => format!("'\\x{}'", b.iter().map(|b| format!("{b:02x}")).collect::<String>()),
        Numeric(n) => {
            let mut s = String::new();
            n.write_to(&mut s);
            s
        }
        Date(_) => format!("'{v}'::date"),
        Timestamp(_) => format!("'{v}'::timestamp"),
        Timestamptz(_) => format!("'{v}'::timestamptz"),
        Opaque(ty, _) => format!("'{v}'::{}", ty.def().catalog_name),
    }
}

pub fn conjunction(list: &[&Expr], names: &Names<'_, '_>) -> String {
    all_of(&list.iter().map(|e| expr(e, names)).collect::<Vec<_>>())
}

/// Conditions that hold together.
pub fn all_of(parts: &[String]) -> String {
    match parts {
        [one] => one.clone(),
        many => format!("({})", many.join(" AND ")),
    }
}

/// What a function that gives rows gives, as it is written in SQL: the call has what it is made of, and the
/// place (bind/set/S2).
fn set_call(args: &[Expr], names: &Names<'_, '_>) -> Option<String> {
    let (place, made_of) = args.split_last()?;
    let ExprKind::Column { rel, column: 0, .. } = place.kind else { return None };
    let Some(Columns::Sets(values)) = names.unnamed.get(&rel) else { return None };
    let ExprKind::Column { column: first, .. } = made_of.first()?.kind else { return None };
    let name = &names.statement.relations.get(rel as usize)?.columns.get(first as usize)?.0;
    let first = usize::from(first).checked_sub(1)?;
    let values = values.get(first..first + made_of.len())?;
    let written = match values {
        [Expr { kind: ExprKind::Call { func, args }, .. }]
            if crate::bind::is_made_by(name, func::find(*func).map_or("", |d| d.name)) =>
        {
            &args[..]
        }
        values => values,
    };
    let written: Vec<String> = written.iter().map(|e| expr(e, names)).collect();
    Some(format!("{name}({})", written.join(", ")))
}

pub fn expr(e: &Expr, names: &Names<'_, '_>) -> String {
    let list = |l: &[Expr], by: &str| l.iter().map(|e| expr(e, names)).collect::<Vec<_>>().join(by);
    let not = |negated: bool| if negated { "NOT " } else { "" };
    match &e.kind {
        ExprKind::Const(v) => constant(v),
        ExprKind::Param(n) => format!("${}", n + 1),
        ExprKind::Column { rel, column, .. } => names.column(*rel, *column),
        // They are columns in a plan (logical/Y1).
        ExprKind::Group(_)
        | ExprKind::GroupOuter { .. }
        | ExprKind::Aggregate { .. }
        | ExprKind::Window { .. } => "?".to_string(),
        ExprKind::Call { args, .. } if let Some(text) = set_call(args, names) => text,
        ExprKind::Call { func, args } if let Some(text) = special_call(*func, args, names) => text,
        ExprKind::Call { func, args } => {
            match (operator::of_function(*func), without_template(*func, args)) {
                (Some(op), [l, r]) => format!("({} {} {})", expr(l, names), op.name, expr(r, names)),
                (Some(op), [r]) => format!("({} {})", op.name, expr(r, names)),
                (_, written) => {
                    let name = func::find(*func).map_or("function", |d| d.name);
                    format!("{name}({})", list(written, ", "))
                }
            }
        }
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
        ExprKind::Scalar(q) => format!("({})", names.inside(q)),
        ExprKind::Exists { query, negated } => format!("{}EXISTS ({})", not(*negated), names.inside(query)),
        ExprKind::Quantified { left, query, all, .. } => {
            format!("({} {} ({}))", list(left, ", "), if *all { "ALL" } else { "ANY" }, names.inside(query))
        }
    }
}

/// The arguments that were written.
fn without_template(function: FuncId, args: &[Expr]) -> &[Expr] {
    match args.split_last() {
        Some((_, written)) if func::find(function).is_some_and(|d| d.template) => written,
        _ => args,
    }
}

/// What the grammar makes of arrays and of cursors.
fn special_call(function: FuncId, args: &[Expr], names: &Names<'_, '_>) -> Option<String> {
    use func::id::*;
    let list = |l: &[Expr], by: &str| l.iter().map(|e| expr(e, names)).collect::<Vec<_>>().join(by);
    Some(match (function, args) {
        (TID_EQ, [_, Expr { kind: ExprKind::Call { func: CURRENT_OF, args }, .. }])
            if let Some(Value::Text(cursor)) = args.first().and_then(known) =>
        {
            format!("CURRENT OF {}", ondol_types::name::quote(cursor))
        }
        (ARRAY_OF_ITEMS | ARRAY_OF_ARRAYS, [_, items @ ..]) => format!("ARRAY[{}]", list(items, ", ")),
        (ARRAY_ELEMENT, [array, subscripts @ ..]) => {
            format!("{}[{}]", expr(array, names), list(subscripts, "]["))
        }
        (ANY_OF_ARRAY | ALL_OF_ARRAY, [left, array, Expr { kind: ExprKind::Const(Value::Int4(n)), .. }]) => {
            let op = u16::try_from(*n).ok().and_then(|n| operator::of_function(FuncId(n)))?.name;
            let word = if function == ANY_OF_ARRAY { "ANY" } else { "ALL" };
            format!("({} {op} {word} ({}))", expr(left, names), expr(array, names))
        }
        _ => return None,
    })
}
