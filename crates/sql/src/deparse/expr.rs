//! Expressions: each with the parentheses that PostgreSQL gives it.
use super::{ITEM, Scope, Scribe};
use crate::bind::declared::Declarations;
use crate::bind::written::Note;
use crate::bound::{Aggregate, Expr, ExprKind, Query, Rel, walk_expr};
use crate::catalog::Sight;
use ondol_engine::Path;
use ondol_engine::sequence::sequence_named;
use ondol_types::catalog::registered;
use ondol_types::func::{self, FuncId, id, operator};
use ondol_types::name::quote;
use ondol_types::objects::Objects;
use ondol_types::ty::Category;
use ondol_types::{Type, TypeId, Value, agg, text};

/// What an expression is within, as far as its parentheses go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Around<'o> {
    /// An operator; whether it is the first operand, of two.
    Operator(&'o str, bool),
    Bool(Bool),
    Cast,
    /// A call in a syntax of its own.
    Syntax,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bool {
    And,
    Or,
    Not,
}

/// What kind of thing an expression is.
enum Shape<'q> {
    /// A name, a constant, or what ends where it says so.
    Closed,
    Operator(String, bool),
    Cast(&'q Expr),
    /// A subquery, or a test.
    Test,
    Bool(Bool),
    Other,
}

impl<'q> Scribe<'q> {
    fn note(&self, e: &Expr) -> Option<&'q Note> {
        self.notes.of(e)
    }

    fn shape(&self, e: &'q Expr) -> Shape<'q> {
        match self.note(e) {
            Some(Note::Operator(name)) => {
                let binary = matches!(&e.kind, ExprKind::Call { args, .. } if args.len() == 2);
                return Shape::Operator(name.clone(), binary);
            }
            Some(Note::Function { name, syntax: true }) if name == "timezone" => return Shape::Closed,
            Some(Note::Function { .. } | Note::Rows { .. } | Note::Value(_) | Note::System { .. }) => {
                return Shape::Closed;
            }
            Some(Note::Case(_)) => return Shape::Closed,
            Some(Note::Collate(_) | Note::Rowwise { .. }) => return Shape::Other,
            Some(Note::Domain(_)) => {
                if let ExprKind::Cast { arg, .. } = &e.kind {
                    return Shape::Cast(arg);
                }
            }
            Some(Note::Quantified(_)) => {
                return if matches!(e.kind, ExprKind::Quantified { .. }) {
                    Shape::Test
                } else {
                    Shape::Other
                };
            }
            Some(Note::ArrayOfQuery) => return Shape::Test,
            Some(Note::Argument(_) | Note::DomainValue(_)) => return Shape::Closed,
            Some(Note::Bare) => {
                if let ExprKind::Cast { arg, .. } = &e.kind {
                    return Shape::Cast(arg);
                }
            }
            Some(Note::Row | Note::Field(_)) => return Shape::Closed,
            Some(Note::WholeRow(_)) => return Shape::Other,
            None => {}
        }
        match &e.kind {
            ExprKind::Const(_)
            | ExprKind::Param(_)
            | ExprKind::Column { .. }
            | ExprKind::Aggregate { .. }
            | ExprKind::Window { .. }
            | ExprKind::Coalesce(_)
            | ExprKind::NullIf { .. }
            | ExprKind::Greatest(_)
            | ExprKind::Least(_)
            | ExprKind::Case { .. } => Shape::Closed,
            ExprKind::Group(n) => match self.group(0, *n) {
                Some(e) => self.shape(e),
                None => Shape::Closed,
            },
            ExprKind::GroupOuter { depth, index } => match self.group(usize::from(*depth), *index) {
                Some(e) => self.shape(e),
                None => Shape::Closed,
            },
            ExprKind::Call { func, args } => match args.first() {
                Some(first) if *func == id::BPCHAR_PAD || *func == id::NAMED => self.shape(first),
                _ => match operator_of(*func, args.len()) {
                    Some((name, binary)) => Shape::Operator(name.to_string(), binary),
                    None => Shape::Closed,
                },
            },
            ExprKind::Cast { arg, .. } => {
                // A cast that is a function of PostgreSQL's ends where it says so.
                let text = |t: TypeId| t.is_string_or_unknown();
                if text(arg.ty.id) || text(e.ty.id) { Shape::Cast(arg) } else { Shape::Closed }
            }
            ExprKind::And(_) => Shape::Bool(Bool::And),
            ExprKind::Or(_) => Shape::Bool(Bool::Or),
            ExprKind::Not(_) | ExprKind::Exists { negated: true, .. } => Shape::Bool(Bool::Not),
            ExprKind::Distinct { negated: true, .. } => Shape::Bool(Bool::Not),
            ExprKind::IsNull { .. }
            | ExprKind::BoolTest { .. }
            | ExprKind::Distinct { .. }
            | ExprKind::Exists { .. } => Shape::Test,
            ExprKind::Scalar(q) if q.is_call => Shape::Closed,
            ExprKind::Scalar(_) | ExprKind::Quantified { .. } => Shape::Test,
            ExprKind::InList { .. } => Shape::Other,
        }
    }

    /// Whether an expression needs no parentheses within another, which would be left out then.
    fn is_simple(&self, e: &'q Expr, around: Around<'_>) -> bool {
        match self.shape(e) {
            Shape::Closed => true,
            Shape::Cast(arg) => self.is_simple(arg, Around::Cast),
            Shape::Operator(name, binary) => {
                let Around::Operator(outer, first) = around else {
                    return matches!(around, Around::Bool(_));
                };
                let low = |o: &str| matches!(o, "+" | "-");
                let high = |o: &str| matches!(o, "*" | "/" | "%");
                match (binary, low(&name), high(&name)) {
                    (true, true, _) => low(outer) && first,
                    (true, _, true) => low(outer) || high(outer) && first,
                    _ => false,
                }
            }
            Shape::Test => matches!(around, Around::Bool(_)),
            Shape::Bool(own) => match around {
                Around::Bool(outer) => match own {
                    Bool::Not | Bool::And => outer != Bool::Not,
                    Bool::Or => outer == Bool::Or,
                },
                _ => false,
            },
            Shape::Other => false,
        }
    }

    /// An expression within another, in parentheses where it needs some and has none of its own.
    fn within(&mut self, e: &'q Expr, implicit: bool, around: Around<'_>) {
        let in_parens = self.is_pretty() && !self.is_simple(e, around);
        self.put(if in_parens { "(" } else { "" });
        self.expr(e, implicit);
        self.put(if in_parens { ")" } else { "" })
    }

    /// The type that the domain of an expression is made of, if it is of one.
    fn below_domain(&self, e: &'q Expr) -> Option<Type> {
        let scopes: Vec<Option<&'q Query>> = self.scopes.iter().map(|s| s.query).collect();
        let reader = Declarations { catalog: self.catalog, notes: self.notes, given: &self.given };
        let domain = reader.expr(e, &scopes).domain.filter(|d| !d.is_array())?;
        Some(Type::new(Type::new(domain).base().id))
    }

    /// What an operator or a function computes with: never a value of a domain.
    fn operand(&mut self, e: &'q Expr, around: Around<'_>) {
        match self.below_domain(e).filter(|_| !self.is_stored()) {
            Some(ty) => self.cast(e, ty),
            None => self.within(e, true, around),
        }
    }

    /// An argument, which is a domain's value only where the function takes any.
    fn argument(&mut self, e: &'q Expr, is_any: bool) {
        match self.below_domain(e).filter(|_| !is_any && !self.is_stored()) {
            Some(ty) => self.cast(e, ty),
            None => self.expr(e, true),
        }
    }

    /// The arguments of a function that takes these types.
    pub(super) fn arguments(&mut self, args: &'q [Expr], takes: &[TypeId]) {
        for (n, e) in args.iter().enumerate() {
            self.put(if n > 0 { ", " } else { "" });
            let is_any = takes.get(n).or(takes.last()).is_none_or(|t| t.category() == Category::Pseudo);
            self.argument(e, is_any)
        }
    }

    fn open(&mut self) {
        self.put(if self.is_pretty() { "" } else { "(" })
    }
    fn close(&mut self) {
        self.put(if self.is_pretty() { "" } else { ")" })
    }

    pub(super) fn list(&mut self, list: impl IntoIterator<Item = &'q Expr>, implicit: bool) {
        for (n, e) in list.into_iter().enumerate() {
            self.put(if n > 0 { ", " } else { "" });
            self.expr(e, implicit)
        }
    }

    /// A key of ORDER BY, GROUP BY or DISTINCT ON.
    pub(super) fn key(&mut self, e: &'q Expr) {
        match (&e.kind, self.note(e)) {
            (ExprKind::Const(v), None) => self.constant(v, e.ty, Some(true)),
            (ExprKind::Group(n), None) if self.group(0, *n).is_some() => {
                if let Some(e) = self.group(0, *n) {
                    self.key(e)
                }
            }
            (ExprKind::Column { .. }, _) => self.expr(e, true),
            (ExprKind::Coalesce(list), None) if self.merged(list).is_some() => self.expr(e, true),
            _ => {
                let is_call = match self.note(e) {
                    Some(Note::Function { .. } | Note::Rows { .. }) => true,
                    Some(_) => false,
                    None => match &e.kind {
                        ExprKind::Aggregate { .. } | ExprKind::Window { .. } => true,
                        ExprKind::Call { func, args } => operator_of(*func, args.len()).is_none(),
                        ExprKind::Scalar(q) => q.is_call,
                        ExprKind::Cast { .. } => !matches!(self.shape(e), Shape::Cast(_)),
                        _ => false,
                    },
                };
                let in_parens = self.is_pretty() || is_call;
                self.put(if in_parens { "(" } else { "" });
                self.expr(e, true);
                self.put(if in_parens { ")" } else { "" })
            }
        }
    }

    /// What a query `depth` levels out is grouped by.
    fn group(&self, depth: usize, n: u16) -> Option<&'q Expr> {
        let at = self.scopes.len().checked_sub(1 + depth)?;
        self.scopes.get(at)?.query?.group_by.get(usize::from(n))
    }

    /// Writes as of the query `depth` levels out.
    fn further_out(&mut self, depth: usize, f: impl FnOnce(&mut Self)) {
        let inner = self.scopes.split_off(self.scopes.len().saturating_sub(depth));
        f(self);
        self.scopes.extend(inner)
    }

    /// An expression. `implicit`: casts that were not written are shown as well.
    pub(super) fn expr(&mut self, e: &'q Expr, implicit: bool) {
        if let Some(note) = self.note(e)
            && self.noted(e, note, implicit)
        {
            return;
        }
        match &e.kind {
            ExprKind::Const(v) => self.constant(v, e.ty, Some(false)),
            ExprKind::Param(n) => self.put(&format!("${}", n + 1)),
            &ExprKind::Column { depth, rel, column } => self.column(usize::from(depth), rel, column),
            ExprKind::Group(n) => {
                if let Some(e) = self.group(0, *n) {
                    self.expr(e, implicit)
                }
            }
            ExprKind::GroupOuter { depth, index } => {
                if let Some(e) = self.group(usize::from(*depth), *index) {
                    self.further_out(usize::from(*depth), |w| w.expr(e, implicit))
                }
            }
            ExprKind::Aggregate { depth, index } => {
                let depth = usize::from(*depth);
                let at = self.scopes.len().checked_sub(1 + depth);
                let query = at.and_then(|n| self.scopes.get(n)).and_then(|s| s.query);
                if let Some(a) = query.and_then(|q| q.aggregates.get(usize::from(*index))) {
                    self.further_out(depth, |w| w.aggregate(a))
                }
            }
            ExprKind::Window { depth, index } => {
                let depth = usize::from(*depth);
                let at = self.scopes.len().checked_sub(1 + depth);
                let query = at.and_then(|n| self.scopes.get(n)).and_then(|s| s.query);
                if let Some(q) = query
                    && let Some(c) = q.window_calls.get(usize::from(*index))
                {
                    self.further_out(depth, |w| w.over(q, c))
                }
            }
            ExprKind::Call { func, args } => self.call(*func, args, e.ty, implicit),
            ExprKind::Cast { arg, explicit } => match *explicit || implicit {
                true => self.cast(arg, e.ty),
                false => self.within(arg, false, Around::Cast),
            },
            ExprKind::And(list) => self.bool_list(list, " AND ", Bool::And),
            ExprKind::Or(list) => self.bool_list(list, " OR ", Bool::Or),
            ExprKind::Not(arg) => {
                self.open();
                self.put("NOT ");
                self.within(arg, false, Around::Bool(Bool::Not));
                self.close()
            }
            ExprKind::IsNull { arg, negated } => {
                self.open();
                self.within(arg, true, Around::Other);
                self.put(if *negated { " IS NOT NULL" } else { " IS NULL" });
                self.close()
            }
            ExprKind::BoolTest { arg, want, negated } => {
                self.open();
                self.within(arg, false, Around::Other);
                self.put(if *negated { " IS NOT " } else { " IS " });
                self.put(match want {
                    Some(true) => "TRUE",
                    Some(false) => "FALSE",
                    None => "UNKNOWN",
                });
                self.close()
            }
            ExprKind::Distinct { left, right, negated, .. } => {
                if *negated {
                    self.open();
                    self.put("NOT ")
                }
                self.open();
                self.operand(left, Around::Other);
                self.put(" IS DISTINCT FROM ");
                self.operand(right, Around::Other);
                self.close();
                if *negated {
                    self.close()
                }
            }
            ExprKind::Case { whens, otherwise } => self.case(None, whens, otherwise.as_deref(), e.ty),
            ExprKind::Coalesce(list) => match self.merged(list) {
                Some(name) => self.put(&name),
                None => self.chosen("COALESCE", list),
            },
            ExprKind::Greatest(list) => self.chosen("GREATEST", list),
            ExprKind::Least(list) => self.chosen("LEAST", list),
            ExprKind::NullIf { left, right, .. } => {
                self.put("NULLIF(");
                self.list([&**left, &**right], true);
                self.put(")")
            }
            ExprKind::InList { arg, list, negated, .. } => self.in_list(arg, list, *negated),
            ExprKind::Scalar(q) => match &q.rels[..] {
                [entry] if q.is_call => match &entry.rel {
                    Rel::Function { function, args } => {
                        let name = self.function_name(function.id, &function.name);
                        self.put(&name);
                        self.put("(");
                        // They stand in a query of their own.
                        self.scopes.push(Scope { query: None, names: Vec::new() });
                        let types: Vec<TypeId> = function.arg_types().collect();
                        for (n, e) in args.iter().enumerate() {
                            self.put(if n > 0 { ", " } else { "" });
                            let is_domain = |t: &TypeId| Type::new(*t).base() != Type::new(*t);
                            self.argument(e, types.get(n).is_none_or(is_domain))
                        }
                        self.scopes.pop();
                        self.put(")")
                    }
                    _ => self.subquery("", q, false),
                },
                _ => self.subquery("", q, false),
            },
            ExprKind::Exists { query, negated } => {
                if *negated {
                    self.open();
                    self.put("NOT ")
                }
                self.put("(EXISTS ");
                self.subquery("", query, false);
                self.put(")");
                if *negated {
                    self.close()
                }
            }
            ExprKind::Quantified { left, query, all, .. } => self.quantified(left, query, "=", *all),
        }
    }

    /// An expression that was written as its note says; whether that was all.
    fn noted(&mut self, e: &'q Expr, note: &'q Note, implicit: bool) -> bool {
        match (note, &e.kind) {
            (Note::Operator(name), ExprKind::Call { args, .. }) => self.operator(name, args),
            (Note::Function { name, syntax }, ExprKind::Call { func, args }) => {
                let args = without_template(*func, args);
                if let (true, Some((last, others))) = (takes_list(*func), args.split_last()) {
                    self.put(&format!("{}(", quote(name)));
                    self.list(others, true);
                    self.put(if others.is_empty() { "VARIADIC " } else { ", VARIADIC " });
                    self.expr(last, true);
                    self.put(")")
                } else if !(*syntax && self.syntax(name, args)) {
                    self.named(&quote(name), args, takes(*func))
                }
            }
            (Note::Rows { name, registered, args }, _) => {
                let name = match registered {
                    Some(id) => self.function_name(*id, name),
                    None => quote(name),
                };
                self.named(&name, args, &[])
            }
            (Note::Value(text), _) => self.put(text),
            (Note::System { depth, rel, name }, _) => {
                let of = self.scope_name(usize::from(*depth), *rel);
                self.put(&format!("{of}.{name}"))
            }
            (Note::DomainValue(_), _) => self.put("VALUE"),
            (Note::Case(subject), ExprKind::Case { whens, otherwise }) => {
                self.case(Some(subject), whens, otherwise.as_deref(), e.ty)
            }
            (Note::Collate(name), ExprKind::Cast { arg, .. }) => {
                self.open();
                self.within(arg, implicit, Around::Other);
                self.put(&format!(" COLLATE {}", quote(name)));
                self.close()
            }
            (Note::Domain(ty), ExprKind::Cast { arg, explicit }) => match *explicit || implicit {
                true => self.cast(arg, *ty),
                false => self.within(arg, false, Around::Cast),
            },
            (Note::Quantified(name), ExprKind::Call { func, args }) => {
                self.open();
                if let [left, array, ..] = &args[..] {
                    self.operand(left, Around::Other);
                    let word = if *func == id::ALL_OF_ARRAY { "ALL" } else { "ANY" };
                    self.put(&format!(" {name} {word} ("));
                    self.within(array, true, Around::Other);
                    self.put(")")
                }
                self.close()
            }
            (Note::Quantified(name), ExprKind::Quantified { left, query, all, .. }) => {
                self.quantified(left, query, name, *all)
            }
            (Note::ArrayOfQuery, ExprKind::Scalar(outer)) => {
                if let Some(Rel::Query(inner)) = outer.rels.first().map(|r| &r.rel) {
                    // Two levels around it were not written.
                    for _ in 0..2 {
                        self.scopes.push(Scope { query: None, names: Vec::new() })
                    }
                    self.put("ARRAY");
                    self.subquery("", inner, false);
                    self.scopes.truncate(self.scopes.len() - 2)
                }
            }
            (Note::Row, ExprKind::Call { args, .. }) => self.named("ROW", args.get(1..).unwrap_or(&[]), &[]),
            (Note::WholeRow(name), _) => {
                let mut first = None;
                walk_expr(e, 0, &mut |e, _| {
                    if let ExprKind::Column { depth, rel, .. } = e.kind {
                        first.get_or_insert((depth, rel));
                    }
                    true
                });
                let of = first.map(|(depth, rel)| self.scope_name(usize::from(depth), rel));
                let name = name.as_ref().map(|n| quote(n)).or(of).unwrap_or_default();
                self.put(&name);
                self.put(".*")
            }
            (Note::Field(name), ExprKind::Call { args, .. }) if let Some(row) = args.first() => {
                self.put("(");
                self.expr(row, true);
                self.put(&format!(").{}", quote(name)))
            }
            // Brought to a length.
            (Note::Field(_), ExprKind::Cast { arg, .. }) if let ExprKind::Call { .. } = arg.kind => {
                return self.noted(arg, note, implicit);
            }
            (Note::Bare, ExprKind::Cast { arg, .. }) => self.cast(arg, e.ty),
            (Note::Argument(before), ExprKind::Cast { arg, .. }) => {
                self.put(before);
                self.expr(arg, true)
            }
            (Note::Rowwise { operator, left, right }, _) => {
                self.put("(ROW(");
                self.list(left, true);
                self.put(&format!(") {operator} ROW("));
                self.list(right, true);
                self.put("))")
            }
            _ => return false,
        }
        true
    }

    fn column(&mut self, depth: usize, rel: u16, column: u16) {
        let scope = self.scopes.len().checked_sub(1 + depth).and_then(|n| self.scopes.get(n));
        let Some(query) = scope.and_then(|s| s.query) else { return };
        let name = self.column_name(query, usize::from(rel), usize::from(column));
        let relation = self.scope_name(depth, rel);
        match relation.is_empty() || self.bare {
            true => self.put(&name),
            false => self.put(&format!("{relation}.{name}")),
        }
    }

    fn named(&mut self, name: &str, args: &'q [Expr], takes: &[TypeId]) {
        self.put(name);
        self.put("(");
        // What names a sequence is one for PostgreSQL.
        let of_sequence = !self.is_stored() && ["nextval", "currval", "setval"].contains(&name);
        match args.split_first().filter(|_| of_sequence).and_then(|(e, rest)| Some((named_by(e)?, rest))) {
            Some((text, rest)) => {
                let found = sequence_named(self.catalog, Path::public(), text).ok();
                let shown = found.map(|s| self.catalog.shown(self.path, &s.def.full_name()));
                let shown = shown.unwrap_or_else(|| text.to_string());
                self.put(&format!("'{}'::regclass", shown.replace('\'', "''")));
                for e in rest {
                    self.put(", ");
                    self.list([e], true)
                }
            }
            None => self.arguments(args, takes),
        }
        self.put(")")
    }

    /// What one of several values is chosen by: all of one domain, or none of any.
    fn chosen(&mut self, name: &str, list: &'q [Expr]) {
        let scopes: Vec<Option<&'q Query>> = self.scopes.iter().map(|s| s.query).collect();
        let reader = Declarations { catalog: self.catalog, notes: self.notes, given: &self.given };
        let is_same =
            list.windows(2).all(|w| reader.expr(&w[0], &scopes).domain == reader.expr(&w[1], &scopes).domain);
        self.put(name);
        self.put("(");
        for (n, e) in list.iter().enumerate() {
            self.put(if n > 0 { ", " } else { "" });
            self.argument(e, is_same)
        }
        self.put(")")
    }

    fn bool_list(&mut self, list: &'q [Expr], word: &str, kind: Bool) {
        self.open();
        for (n, e) in list.iter().enumerate() {
            self.put(if n > 0 { word } else { "" });
            self.within(e, false, Around::Bool(kind))
        }
        self.close()
    }

    fn operator(&mut self, name: &str, args: &'q [Expr]) {
        self.open();
        match args {
            [left, right] => {
                self.operand(left, Around::Operator(name, true));
                self.put(&format!(" {name} "));
                self.operand(right, Around::Operator(name, false))
            }
            [only, ..] => {
                self.put(&format!("{name} "));
                self.operand(only, Around::Operator(name, true))
            }
            [] => {}
        }
        self.close()
    }

    /// A call without a note.
    fn call(&mut self, func: FuncId, args: &'q [Expr], ty: Type, implicit: bool) {
        if (func == id::BPCHAR_PAD || func == id::NAMED)
            && let Some(first) = args.first()
        {
            return self.expr(first, implicit);
        }
        if func == id::ARRAY_OF_ITEMS || func == id::ARRAY_OF_ARRAYS {
            self.put("ARRAY[");
            self.list(args.iter().skip(1), true);
            self.put("]");
            if args.len() == 1 {
                let ty = self.type_name(ty);
                self.put(&format!("::{ty}"))
            }
            return;
        }
        if func == id::ARRAY_ELEMENT || func == id::ARRAY_SLICE || func == id::JSONB_SUBSCRIPT {
            return self.subscripts(args, func == id::ARRAY_SLICE);
        }
        match operator_of(func, args.len()) {
            Some((name, _)) => self.operator(name, args),
            None => {
                let name = func::find(func).map_or("", |d| d.name);
                self.named(&quote(name), without_template(func, args), takes(func))
            }
        }
    }

    fn subscripts(&mut self, args: &'q [Expr], is_slice: bool) {
        let Some((array, rest)) = args.split_first() else { return };
        let is_name = matches!(array.kind, ExprKind::Column { .. });
        self.put(if is_name { "" } else { "(" });
        self.expr(array, true);
        self.put(if is_name { "" } else { ")" });
        if !is_slice {
            for e in rest {
                self.put("[");
                self.expr(e, false);
                self.put("]")
            }
            return;
        }
        let Some((given, bounds)) = rest.split_first() else { return };
        let given = match given.kind {
            ExprKind::Const(Value::Int4(n)) => n,
            _ => !0,
        };
        for (n, pair) in bounds.chunks(2).enumerate() {
            self.put("[");
            if given & (1 << (2 * n)) != 0 {
                self.expr(&pair[0], false)
            }
            self.put(":");
            if given & (2 << (2 * n)) != 0
                && let Some(upper) = pair.get(1)
            {
                self.expr(upper, false)
            }
            self.put("]")
        }
    }

    fn cast(&mut self, arg: &'q Expr, ty: Type) {
        match &arg.kind {
            ExprKind::Const(v) if self.note(arg).is_none() && arg.ty.id == ty.id && arg.ty.typmod == -1 => {
                self.constant(v, arg.ty, None)
            }
            ExprKind::Const(Value::Text(t)) if registered::kind(ty.id).is_some() => {
                let shown = self.object_named(ty.id, t);
                self.put(&literal(&shown))
            }
            _ if matches!(self.note(arg), Some(Note::Row)) => self.expr(arg, false),
            _ => {
                self.open();
                self.within(arg, false, Around::Cast);
                self.close()
            }
        }
        let ty = self.type_name(ty);
        self.put(&format!("::{ty}"))
    }

    /// What a literal of regclass or its like names, as it is called now; as it stands where it is nothing's.
    fn object_named(&self, ty: TypeId, text: &str) -> String {
        let Some(kind) = registered::kind(ty).filter(|_| !self.is_stored()) else { return text.to_string() };
        let number = Sight::of_catalog(self.catalog, Path::public()).find(kind, text).ok().flatten();
        let shown = number.and_then(|n| Sight::of_catalog(self.catalog, self.path).name(kind, n).ok()?);
        shown.unwrap_or_else(|| text.to_string())
    }

    /// A constant with its type: always (`Some(true)`), where it does not tell it by itself, or never.
    fn constant(&mut self, v: &Value, ty: Type, typed: Option<bool>) {
        let mut label = typed == Some(true);
        match v {
            Value::Null => {
                self.put("NULL");
                label = typed.is_some();
            }
            Value::Bool(b) => self.put(if *b { "true" } else { "false" }),
            v => {
                let mut scratch = Vec::new();
                let mut shown = String::new();
                text::output(v.as_ref(&mut scratch), Type::new(ty.id), &mut shown);
                let bare = match ty.id {
                    TypeId::INT4 => !shown.starts_with('-'),
                    TypeId::NUMERIC => {
                        label |= ty.typmod >= 0;
                        shown.starts_with(|c: char| c.is_ascii_digit()) && shown.contains(['.', 'e', 'E'])
                    }
                    _ => false,
                };
                if bare {
                    self.put(&shown)
                } else {
                    label |= typed.is_some() && ty.id != TypeId::UNKNOWN;
                    self.put(&literal(&shown))
                }
            }
        }
        if label {
            let ty = self.type_name(ty);
            self.put(&format!("::{ty}"))
        }
    }

    fn case(
        &mut self,
        subject: Option<&'q Expr>,
        whens: &'q [(Expr, Expr)],
        otherwise: Option<&'q Expr>,
        ty: Type,
    ) {
        self.line("CASE", 0, ITEM, 0);
        if let Some(subject) = subject {
            self.put(" ");
            self.expr(subject, true)
        }
        for (when, then) in whens {
            self.line("WHEN ", 0, 0, 0);
            match (&when.kind, subject) {
                (ExprKind::Call { args, .. }, Some(_)) if args.len() == 2 => self.expr(&args[1], false),
                _ => self.expr(when, false),
            }
            self.put(" THEN ");
            self.expr(then, true)
        }
        self.line("ELSE ", 0, 0, 0);
        match otherwise {
            Some(e) => self.expr(e, true),
            None => self.constant(&Value::Null, ty, Some(true)),
        }
        self.line("END", -ITEM, 0, 0)
    }

    fn in_list(&mut self, arg: &'q Expr, list: &'q [Expr], negated: bool) {
        if self.is_stored() {
            // So that it is bound as it was.
            self.put("(");
            self.expr(arg, false);
            self.put(if negated { " NOT IN (" } else { " IN (" });
            self.list(list, false);
            return self.put("))");
        }
        let (variable, fixed): (Vec<&Expr>, Vec<&Expr>) = list.iter().partition(|e| has_columns(e));
        let (equal, word, joined) = if negated { ("<>", "ALL", " AND ") } else { ("=", "ANY", " OR ") };
        let one_by_one: Vec<&'q Expr> = if fixed.len() > 1 { variable } else { list.iter().collect() };
        let several = one_by_one.len() + usize::from(fixed.len() > 1) > 1;
        if several {
            self.open()
        }
        if fixed.len() > 1 {
            self.open();
            self.operand(arg, Around::Other);
            self.put(&format!(" {equal} {word} ("));
            // What is cast one by one is an array that is cast.
            let from = |e: &'q Expr| match &e.kind {
                ExprKind::Cast { arg, explicit: false } if self.note(e).is_none() => Some(&**arg),
                _ => None,
            };
            let inner: Vec<&Expr> = fixed.iter().filter_map(|e| from(e)).collect();
            let alike = inner.windows(2).all(|w| w[0].ty == w[1].ty);
            match fixed[0].ty.array() {
                Some(ty) if inner.len() == fixed.len() && alike => {
                    let pretty = self.is_pretty();
                    self.put(if pretty { "" } else { "(" });
                    self.put("ARRAY[");
                    self.list(inner, true);
                    self.put("]");
                    self.put(if pretty { "" } else { ")" });
                    let ty = self.type_name(ty);
                    self.put(&format!("::{ty}"))
                }
                _ => {
                    self.put("ARRAY[");
                    self.list(fixed.iter().copied(), true);
                    self.put("]")
                }
            }
            self.put(")");
            self.close();
            self.put(if one_by_one.is_empty() { "" } else { joined })
        }
        for (n, e) in one_by_one.into_iter().enumerate() {
            self.put(if n > 0 { joined } else { "" });
            self.open();
            self.operand(arg, Around::Operator(equal, true));
            self.put(&format!(" {equal} "));
            self.operand(e, Around::Operator(equal, false));
            self.close()
        }
        if several {
            self.close()
        }
    }

    fn quantified(&mut self, left: &'q [Expr], query: &'q Query, name: &str, all: bool) {
        self.put("(");
        match left {
            [one] => self.argument(one, false),
            several => {
                self.put("(");
                self.list(several, true);
                self.put(")")
            }
        }
        match (name, all) {
            ("=", false) => self.put(" IN "),
            (_, false) => self.put(&format!(" {name} ANY ")),
            (_, true) => self.put(&format!(" {name} ALL ")),
        }
        self.subquery("", query, false);
        self.put(")")
    }

    /// A query in parentheses.
    fn subquery(&mut self, before: &str, q: &'q Query, visible: bool) {
        self.put(before);
        self.put("(");
        self.inner_query(q, None, visible);
        self.put(")")
    }

    fn aggregate(&mut self, a: &'q Aggregate) {
        let def = agg::find(a.agg);
        let args = match def.is_some_and(|d| d.has_unwritten()) {
            true => a.args.split_last().map_or(&[][..], |l| l.1),
            false => &a.args,
        };
        self.put(def.map_or("", |d| d.name));
        self.put("(");
        self.put(if a.distinct { "DISTINCT " } else { "" });
        if args.is_empty() {
            self.put("*")
        }
        self.arguments(args, def.map_or(&[], |d| d.args));
        for (n, key) in a.order.iter().enumerate() {
            self.put(if n > 0 { ", " } else { " ORDER BY " });
            self.key(&key.expr);
            self.direction(key.desc, key.nulls_first)
        }
        self.put(")");
        if let Some(filter) = &a.filter {
            self.put(" FILTER (WHERE ");
            self.expr(filter, false);
            self.put(")")
        }
    }

    /// A call in a syntax of its own; `false`: it has none that is known here.
    fn syntax(&mut self, name: &str, args: &'q [Expr]) -> bool {
        let word = |e: &Expr| match &e.kind {
            ExprKind::Const(Value::Text(t)) => Some(t.clone()),
            _ => None,
        };
        match (name, args) {
            ("extract", [field, from]) => {
                let Some(field) = word(field) else { return false };
                self.put(&format!("EXTRACT({} FROM ", quote(&field)));
                self.expr(from, false);
                self.put(")")
            }
            ("timezone", [zone, of]) => {
                self.put("(");
                self.within(of, false, Around::Syntax);
                self.put(" AT TIME ZONE ");
                self.within(zone, false, Around::Syntax);
                self.put(")")
            }
            ("position", [within, what]) => {
                self.put("POSITION((");
                self.expr(what, false);
                self.put(") IN (");
                self.expr(within, false);
                self.put("))")
            }
            ("substring", [of, from]) => self.keywords("SUBSTRING", &[("", of), (" FROM ", from)]),
            ("substring", [of, from, length]) if length.ty.id == TypeId::INT4 => {
                self.keywords("SUBSTRING", &[("", of), (" FROM ", from), (" FOR ", length)])
            }
            ("substring", [of, pattern, escape]) => {
                self.keywords("SUBSTRING", &[("", of), (" SIMILAR ", pattern), (" ESCAPE ", escape)])
            }
            ("overlay", [of, by, from]) => {
                self.keywords("OVERLAY", &[("", of), (" PLACING ", by), (" FROM ", from)])
            }
            ("overlay", [of, by, from, length]) => {
                let list = [("", of), (" PLACING ", by), (" FROM ", from), (" FOR ", length)];
                self.keywords("OVERLAY", &list)
            }
            ("btrim" | "ltrim" | "rtrim", [of, what @ ..]) => {
                let side = match name {
                    "btrim" => "TRIM(BOTH",
                    "ltrim" => "TRIM(LEADING",
                    _ => "TRIM(TRAILING",
                };
                self.put(side);
                if let Some(what) = what.first() {
                    self.put(" ");
                    self.expr(what, false)
                }
                self.put(" FROM ");
                self.expr(of, false);
                self.put(")")
            }
            _ => return false,
        }
        true
    }

    fn keywords(&mut self, name: &str, list: &[(&str, &'q Expr)]) {
        self.put(&format!("{name}("));
        for (word, e) in list {
            self.put(word);
            self.expr(e, false)
        }
        self.put(")")
    }
}

/// The operator that a function is of, by so many operands.
fn operator_of(func: FuncId, operands: usize) -> Option<(&'static str, bool)> {
    let op = operator::of_function(func)?;
    let binary = op.left.is_some();
    (operands == 1 + usize::from(binary)).then_some((op.name, binary))
}

/// The types that a function takes.
fn takes(func: FuncId) -> &'static [TypeId] {
    func::find(func).map_or(&[], |d| d.args)
}

/// What was written of a function's arguments.
fn without_template(func: FuncId, args: &[Expr]) -> &[Expr] {
    match func::find(func) {
        Some(d) if d.template => args.split_last().map_or(args, |l| l.1),
        _ => args,
    }
}

/// A string as SQL has it, without escapes.
fn literal(s: &str) -> String {
    format!("'{}'", s.replace('\'', "''"))
}

/// Whether an expression names columns.
fn has_columns(e: &Expr) -> bool {
    let mut found = false;
    walk_expr(e, 0, &mut |e, _| {
        found |= matches!(
            e.kind,
            ExprKind::Column { .. }
                | ExprKind::Group(_)
                | ExprKind::GroupOuter { .. }
                | ExprKind::Aggregate { .. }
                | ExprKind::Window { .. }
        );
        !found
    });
    found
}

/// Whether it takes as an array what its namesake takes in any number.
fn takes_list(func: FuncId) -> bool {
    use id::*;
    [
        FORMAT_LIST,
        CONCAT_LIST,
        CONCAT_WS_LIST,
        NUM_NULLS_LIST,
        NUM_NONNULLS_LIST,
        JSON_OBJECT_OF,
        JSON_ARRAY_OF,
        JSONB_OBJECT_OF,
        JSONB_ARRAY_OF,
        JSON_AT,
        JSON_TEXT_AT,
        JSONB_AT,
        JSONB_TEXT_AT,
        JSONB_DELETE_KEYS,
    ]
    .contains(&func)
}

/// The text of a literal, whatever it is cast to.
fn named_by(mut e: &Expr) -> Option<&str> {
    while let ExprKind::Cast { arg, .. } = &e.kind {
        e = arg
    }
    match &e.kind {
        ExprKind::Const(Value::Text(s)) => Some(s),
        _ => None,
    }
}
