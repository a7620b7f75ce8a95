//! Bound statements as text: the golden scripts' right-hand side.
//!
//! A column is written `alias.column`, with a `^` for each level that it is further out; a group column
//! `group(0)`, an aggregate `agg(0)`; a constant and a parameter with their types; a cast `cast(x as type)`,
//! explicit ones with a `!`.

use ondol_engine::name::PUBLIC;
use ondol_engine::{LockStrength, Name, Wait};
use ondol_sql::bound::*;
use ondol_types::{Type, Value, agg, func};

#[derive(Default)]
pub struct Shower<'q> {
    levels: Vec<&'q Query>,
}

pub fn value(v: &Value) -> String {
    match v {
        Value::Null => "null".into(),
        Value::Bool(b) => b.to_string(),
        Value::Int2(n) => n.to_string(),
        Value::Int4(n) => n.to_string(),
        Value::Int8(n) => n.to_string(),
        Value::Float8(f) => format!("{f:?}"),
        Value::Text(t) => format!("'{t}'"),
        Value::Bytea(b) => format!("{b:02x?}"),
        Value::Date(d) => format!("day {d}"),
        Value::Timestamp(t) | Value::Timestamptz(t) => format!("us {t}"),
        Value::Opaque(ty, _) => format!("{ty} {v}"),
        Value::Numeric(n) => {
            let (mut bytes, mut out) = (Vec::new(), String::new());
            n.encode(&mut bytes);
            let ty = Type::new(ondol_types::TypeId::NUMERIC);
            ondol_types::text::output(ondol_types::ValueRef::Numeric(&bytes), ty, &mut out);
            out
        }
    }
}

fn function(id: func::FuncId) -> &'static str {
    func::find(id).map_or("?", |d| d.name)
}

impl<'q> Shower<'q> {
    fn list<'a>(&mut self, exprs: impl IntoIterator<Item = &'q Expr>) -> String
    where
        'q: 'a,
    {
        exprs.into_iter().map(|e| self.expr(e)).collect::<Vec<_>>().join(", ")
    }

    pub fn expr(&mut self, e: &'q Expr) -> String {
        match &e.kind {
            ExprKind::Const(v) => format!("{}:{}", value(v), e.ty),
            ExprKind::Param(n) => format!("${}:{}", n + 1, e.ty),
            ExprKind::Column { depth, rel, column } => {
                let up = "^".repeat(usize::from(*depth));
                let at = self.levels.len().checked_sub(1 + usize::from(*depth));
                let query = at.and_then(|i| self.levels.get(i));
                match query.and_then(|q| q.rels.get(usize::from(*rel))) {
                    Some(r) => {
                        let name = r.columns.get(usize::from(*column)).map_or("?", |c| &c.0);
                        let ty = r.columns.get(usize::from(*column)).map(|c| c.1);
                        let odd = if ty == Some(e.ty) { String::new() } else { format!("[{}]", e.ty) };
                        format!("{up}{}.{name}{odd}", r.alias)
                    }
                    None if query.is_some_and(|q| q.set.is_some()) => format!("{up}column{}", column + 1),
                    None => format!("{up}?{rel}.{column}"),
                }
            }
            ExprKind::Group(i) => format!("group({i})"),
            ExprKind::GroupOuter { depth, index } => {
                format!("{}group({index})", "^".repeat(usize::from(*depth)))
            }
            ExprKind::Aggregate { depth, index } => {
                format!("{}agg({index})", "^".repeat(usize::from(*depth)))
            }
            ExprKind::Window { depth, index } => {
                format!("{}over({index})", "^".repeat(usize::from(*depth)))
            }
            ExprKind::Call { func, args } => format!("{}({})", function(*func), self.list(args)),
            ExprKind::Cast { arg, explicit } => {
                let mark = if *explicit { "!" } else { "" };
                format!("cast{mark}({} as {})", self.expr(arg), e.ty)
            }
            ExprKind::And(args) => format!("and({})", self.list(args)),
            ExprKind::Or(args) => format!("or({})", self.list(args)),
            ExprKind::Not(arg) => format!("not({})", self.expr(arg)),
            ExprKind::IsNull { arg, negated } => {
                format!("{}({})", if *negated { "is_not_null" } else { "is_null" }, self.expr(arg))
            }
            ExprKind::BoolTest { arg, want, negated } => {
                let want = want.map_or("unknown".to_string(), |w| w.to_string());
                format!("{}_{want}({})", if *negated { "is_not" } else { "is" }, self.expr(arg))
            }
            ExprKind::Distinct { left, right, eq, negated } => {
                let name = if *negated { "not_distinct" } else { "distinct" };
                format!("{name}[{}]({}, {})", function(*eq), self.expr(left), self.expr(right))
            }
            ExprKind::Case { whens, otherwise } => {
                let mut parts: Vec<String> =
                    whens.iter().map(|(w, t)| format!("{} -> {}", self.expr(w), self.expr(t))).collect();
                parts.extend(otherwise.as_deref().map(|o| format!("else {}", self.expr(o))));
                format!("case({}):{}", parts.join(", "), e.ty)
            }
            ExprKind::Coalesce(args) => format!("coalesce({}):{}", self.list(args), e.ty),
            ExprKind::NullIf { left, right, eq } => {
                format!("nullif[{}]({}, {})", function(*eq), self.expr(left), self.expr(right))
            }
            ExprKind::Greatest(args) => format!("greatest({}):{}", self.list(args), e.ty),
            ExprKind::Least(args) => format!("least({}):{}", self.list(args), e.ty),
            ExprKind::InList { arg, list, eq, negated } => {
                let name = if *negated { "not_in" } else { "in" };
                format!("{name}[{}]({}; {})", function(*eq), self.expr(arg), self.list(list))
            }
            ExprKind::Scalar(q) => format!("scalar({}):{}", self.inner(q), e.ty),
            ExprKind::Exists { query, negated } => {
                format!("{}({})", if *negated { "not_exists" } else { "exists" }, self.inner(query))
            }
            ExprKind::Quantified { left, query, ops, all } => {
                let ops: Vec<&str> = ops.iter().map(|o| function(*o)).collect();
                let name = if *all { "all" } else { "any" };
                format!("{name}[{}]({}; {})", ops.join(", "), self.list(left), self.inner(query))
            }
        }
    }

    fn window(&mut self, w: &'q Window) -> String {
        let mut out = w.name.as_ref().map_or(String::new(), |n| format!(" {n}"));
        out += &w.refines.as_ref().map_or(String::new(), |n| format!(" refines {n}"));
        if !w.partition.is_empty() {
            out += &format!(" partition [{}]", self.list(&w.partition));
        }
        for k in &w.order {
            let nulls = if k.nulls_first { " nulls first" } else { "" };
            out += &format!(" by {}{}{nulls}", self.expr(&k.expr), if k.desc { " desc" } else { "" });
        }
        if w.frame.is_written {
            let (start, end) = (self.frame_end(&w.frame.start), self.frame_end(&w.frame.end));
            out += &format!(" {:?} {start} to {end} {:?}", w.frame.unit, w.frame.exclude);
        }
        out
    }

    fn frame_end(&mut self, end: &'q FrameEnd) -> String {
        match end {
            FrameEnd::Unbounded => "unbounded".to_string(),
            FrameEnd::CurrentRow => "current row".to_string(),
            FrameEnd::Preceding(e) => format!("{} preceding", self.expr(e)),
            FrameEnd::Following(e) => format!("{} following", self.expr(e)),
        }
    }

    fn inner(&mut self, q: &'q Query) -> String {
        self.query(q).join("; ")
    }

    fn rel(&mut self, r: &'q RelEntry) -> String {
        let what = match &r.rel {
            Rel::Table(t) => {
                return if t.def.name == r.alias {
                    r.alias.clone()
                } else {
                    format!("{} {}", t.def.name, r.alias)
                };
            }
            Rel::Query(q) => format!("({})", self.inner(q)),
            Rel::With(n) => format!("with {n}"),
            Rel::Values(rows) => {
                let rows: Vec<String> = rows.iter().map(|row| format!("({})", self.list(row))).collect();
                format!("values {}", rows.join(", "))
            }
            Rel::Function { function, args } => format!("function {}({})", function.name, self.list(args)),
            Rel::Foreign(t) => format!("foreign {}", t.name()),
            Rel::System(name) => format!("system {name}"),
            Rel::Sequence(_, name) => format!("sequence {name}"),
            Rel::Places { values, stop } => {
                format!("places {} up to {}", self.list(values), self.expr(stop))
            }
            Rel::Series { start, stop, step, by } => {
                let step = by.as_ref().map_or(step, |by| &by.step);
                format!("series({}, {}, {})", self.expr(start), self.expr(stop), self.expr(step))
            }
        };
        format!("{what} {}", r.alias)
    }

    fn from(&mut self, q: &'q Query, f: &'q From) -> String {
        match f {
            From::Rel(i) => self.rel(&q.rels[usize::from(*i)]),
            From::Join { kind, left, right, on } => {
                let kind = format!("{kind:?}").to_lowercase();
                let on = on.as_ref().map_or(String::new(), |e| format!(" on {}", self.expr(e)));
                format!("({} {kind} join {}{on})", self.from(q, left), self.from(q, right))
            }
        }
    }

    fn target(&mut self, t: &'q Target) -> String {
        let hidden = if t.hidden { "hidden" } else { "target" };
        format!("{hidden} {:?} {} {}", t.name, t.expr.ty, self.expr(&t.expr))
    }

    pub fn with(&mut self, list: &'q [With]) -> Vec<String> {
        let mut out = Vec::new();
        for w in list {
            let kept = if w.is_kept() { "kept" } else { "inline" };
            out.push(format!("with {} {} {kept} ({})", w.number, w.name, self.inner(&w.query)));
        }
        out
    }

    pub fn query(&mut self, q: &'q Query) -> Vec<String> {
        let mut out = self.with(&q.with);
        self.levels.push(q);
        out.push(if q.distinct { "select distinct".to_string() } else { "select".to_string() });
        if let Some(set) = &q.set {
            let all = if set.all { " all" } else { "" };
            out.push(format!("{:?}{all}", set.operation).to_lowercase());
            out.push(format!("left ({})", self.inner(&set.left)));
            out.push(format!("right ({})", self.inner(&set.right)));
        }
        for f in &q.from {
            let f = self.from(q, f);
            out.push(format!("from {f}"));
        }
        out.extend(q.filter.as_ref().map(|e| format!("where {}", self.expr(e))));
        if q.grouped {
            out.push(format!("group by [{}]", self.list(&q.group_by)));
        }
        for (i, a) in q.aggregates.iter().enumerate() {
            let distinct = if a.distinct { "distinct " } else { "" };
            let filter = a.filter.as_ref().map_or(String::new(), |f| format!(" filter {}", self.expr(f)));
            let name = agg::find(a.agg).map_or("?", |d| d.name);
            let mut args = self.list(&a.args);
            for k in &a.order {
                args += &format!(" by {}{}", self.expr(&k.expr), if k.desc { " desc" } else { "" });
            }
            out.push(format!("agg({i}) {name}({distinct}{args}):{}{filter}", a.ty));
        }
        out.extend(q.having.as_ref().map(|e| format!("having {}", self.expr(e))));
        for (i, w) in q.windows.iter().enumerate() {
            let w = self.window(w);
            out.push(format!("window({i}){w}"));
        }
        for (i, c) in q.window_calls.iter().enumerate() {
            let name = match c.what {
                Computed::Function(id) => ondol_types::window::find(id).map_or("?", |d| d.name),
                Computed::Aggregate(id) => agg::find(id).map_or("?", |d| d.name),
            };
            let filter = c.filter.as_ref().map_or(String::new(), |f| format!(" filter {}", self.expr(f)));
            let args = self.list(&c.args);
            out.push(format!("over({i}) {name}({args}):{}{filter} window({})", c.ty, c.window));
        }
        for t in &q.targets {
            let t = self.target(t);
            out.push(t);
        }
        if !q.order_by.is_empty() {
            let keys: Vec<String> = (q.order_by.iter())
                .map(|k| {
                    let desc = if k.desc { " desc" } else { "" };
                    let nulls = if k.nulls_first { " nulls first" } else { "" };
                    format!("{}{desc}{nulls}", k.target)
                })
                .collect();
            out.push(format!("order by {}", keys.join(", ")));
        }
        out.extend(q.limit.as_ref().map(|e| format!("limit {}", self.expr(e))));
        out.extend(q.offset.as_ref().map(|e| format!("offset {}", self.expr(e))));
        for (rels, strength, wait) in &q.locks {
            let names: Vec<&str> = rels.iter().map(|r| q.rels[usize::from(*r)].alias.as_str()).collect();
            let how = match strength {
                LockStrength::KeyShare => "key share",
                LockStrength::Share => "share",
                LockStrength::NoKeyUpdate => "no key update",
                LockStrength::Update => "update",
            };
            let wait = match wait {
                Wait::Block => "",
                Wait::NoWait => " nowait",
                Wait::SkipLocked => " skip locked",
            };
            out.push(format!("lock {} for {how}{wait}", names.join(", ")));
        }
        self.levels.pop();
        out
    }

    pub fn statement(&mut self, s: &'q Statement, scratch: &'q mut Option<Query>) -> Vec<String> {
        match s {
            Statement::Query(q) => self.query(q),
            Statement::Insert(i) => {
                let mut out = self.with(&i.with);
                out.push(format!("insert {:?}", i.table));
                out.push(format!("source ({})", self.inner(&i.source)));
                for (c, d) in i.columns.iter().zip(&i.table.0.def.columns) {
                    out.push(match c {
                        InsertColumn::Source(n) => format!("column {} = source {n}", d.name),
                        InsertColumn::Value(e) => format!("column {} = {}", d.name, self.expr(e)),
                    });
                }
                if let Some(c) = &i.on_conflict {
                    let name = |n: &u16| i.table.0.def.indexes[usize::from(*n)].name.as_str();
                    let arbiters: Vec<&str> = c.arbiters.iter().map(name).collect();
                    out.push(format!("on conflict [{}]", arbiters.join(", ")));
                    if let Some(u) = &c.update {
                        for c in &u.assign {
                            out.push(format!("assign {}", i.table.0.def.columns[usize::from(*c)].name));
                        }
                        out.push(format!("update ({})", self.inner(&u.query)));
                    }
                }
                // RETURNING looks at the new row as relation 0.
                let columns = i.table.0.def.columns.iter().map(|c| (c.name.clone(), c.ty)).collect();
                let entry = RelEntry {
                    rel: Rel::Table(i.table.0.clone()),
                    alias: i.table.0.def.name.clone(),
                    columns,
                };
                let q: &'q Query = scratch.insert(Query { rels: vec![entry], ..Query::default() });
                self.levels.push(q);
                for t in &i.returning {
                    let t = self.target(t);
                    out.push(format!("returning {t}"));
                }
                self.levels.pop();
                out
            }
            Statement::Modify(m) => {
                let what = if m.delete { "delete" } else { "update" };
                let mut out = vec![format!("{what} {:?}", m.table)];
                for c in &m.assign {
                    out.push(format!("assign {}", m.table.0.def.columns[usize::from(*c)].name));
                }
                out.push(format!("query ({})", self.inner(&m.query)));
                self.levels.push(&m.query);
                for t in &m.returning {
                    let t = self.target(t);
                    out.push(format!("returning {t}"));
                }
                self.levels.pop();
                out
            }
            Statement::Copy(Copy::To { query, end, format }) => {
                vec![
                    format!("copy to {end:?}"),
                    copy_format(format),
                    format!("query ({})", self.inner(query)),
                ]
            }
            Statement::Copy(Copy::From { table, columns, defaults, end, format }) => {
                let mut out = vec![format!("copy {table:?} {columns:?} from {end:?}"), copy_format(format)];
                for (c, e) in defaults {
                    out.push(format!("column {c} = {}", self.expr(e)));
                }
                out
            }
            Statement::Execute { name, args } => vec![format!("execute {name}({})", self.list(args))],
            Statement::Explain { options, statement, text } => {
                let mut out = vec![format!("{options:?} {text:?}")];
                out.extend(self.statement(statement, scratch));
                out
            }
            Statement::CreateTable { name, columns, constraints, checks, foreign, if_not_exists, .. } => {
                let mut out = vec![format!("create table {} if_not_exists={if_not_exists}", named(name))];
                for c in columns {
                    let not_null = if c.not_null { " not null" } else { "" };
                    let default = c.default.as_ref().map_or(String::new(), |d| format!(" default {d}"));
                    out.push(format!("{} {}{not_null}{default}", c.name, c.ty));
                }
                out.extend(constraints.iter().map(index));
                out.extend(checks.iter().map(|c| format!("{c:?}")));
                out.extend(foreign.iter().map(|f| format!("{f:?}")));
                out
            }
            Statement::CreateIndex { table, index: i, if_not_exists, concurrently, alter: _ } => {
                let how = if *concurrently { " concurrently" } else { "" };
                vec![format!("create index{how} on {} if_not_exists={if_not_exists}", named(table)), index(i)]
            }
            Statement::AlterTable(a) => {
                let mut out = Vec::new();
                if let Some(def) = &a.def {
                    out.push(format!("{} becomes {def:?}", named(&a.table)));
                    out.push(format!("columns {:?}", a.columns));
                }
                for key in &a.keys {
                    out.push(format!("add constraint to {} using {:?}", named(&a.table), key.using));
                    out.push(index(&key.index));
                }
                out
            }
            other => vec![format!("{other:?}")],
        }
    }
}

/// A name, with its schema's number unless that is `public`'s.
fn named(name: &Name) -> String {
    match name.schema {
        PUBLIC => name.name.clone(),
        schema => format!("{schema}.{}", name.name),
    }
}

fn index(i: &NewIndex) -> String {
    let columns: Vec<String> = (i.columns.iter())
        .map(|c| {
            let desc = if c.desc { " desc" } else { "" };
            format!("{}{desc}{}", c.column, if c.nulls_first { " nulls first" } else { "" })
        })
        .collect();
    let mut words =
        vec![format!("index {:?} {:?} on ({})", i.name.as_deref().unwrap_or(""), i.kind, columns.join(", "))];
    for (is, word) in [(i.unique, "unique"), (i.primary, "primary"), (i.constraint, "constraint")] {
        if is {
            words.push(word.into());
        }
    }
    words.join(" ")
}

fn copy_format(format: &CopyFormat) -> String {
    match format {
        CopyFormat::Text(options) => format!("{options:?}"),
        CopyFormat::Parquet(unrepresentable) => format!("Parquet, unrepresentable: {unrepresentable:?}"),
    }
}
