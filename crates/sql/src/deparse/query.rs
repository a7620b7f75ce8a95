//! Queries: their clauses, in PostgreSQL's order and on its lines.
use super::name::written;
use super::{ITEM, JOIN, STANDARD, Scope, Scribe};
use crate::bind::trail::Trail;
use crate::bind::written::{Call, Note, WrittenJoin};
use crate::bound::{CTID, Expr, ExprKind, From, JoinKind, OrderKey, Query, Rel, SetOperation, With};
use ondol_engine::name::PG_CATALOG;
use ondol_engine::view::{Slot, using};
use ondol_engine::{LockStrength, Name, Wait};
use ondol_types::Value;
use ondol_types::func::id;
use ondol_types::name::quote;

impl<'q> Scribe<'q> {
    /// A whole query. `names`: what its columns are to be called; `visible`: whether it matters what they
    /// are.
    pub(super) fn query(&mut self, q: &'q Query, names: Option<&[String]>, visible: bool) {
        let own = self.choose_names(q);
        let scope = Scope { query: Some(q), names: own };
        // WITH queries are where this one is.
        self.with_clause(&q.with);
        self.scopes.push(scope);
        match &q.set {
            Some(_) => self.set_operation(q, names, visible),
            None => self.plain(q, names, visible),
        }
        if !q.order_by.is_empty() {
            self.line(" ORDER BY ", -STANDARD, STANDARD, 1);
            self.order_by(q, &q.order_by)
        }
        if let Some(offset) = &q.offset {
            self.line(" OFFSET ", -STANDARD, STANDARD, 0);
            self.expr(offset, false)
        }
        match &q.limit {
            Some(limit) if q.ties => {
                self.line(" FETCH FIRST ", -STANDARD, STANDARD, 0);
                self.put("(");
                self.expr(limit, false);
                self.put(") ROWS WITH TIES")
            }
            Some(limit) => {
                self.line(" LIMIT ", -STANDARD, STANDARD, 0);
                self.expr(limit, false)
            }
            None => {}
        }
        for (rels, strength, wait) in &q.locks {
            for rel in rels {
                let words = match strength {
                    LockStrength::Update => " FOR UPDATE",
                    LockStrength::NoKeyUpdate => " FOR NO KEY UPDATE",
                    LockStrength::KeyShare => " FOR KEY SHARE",
                    LockStrength::Share => " FOR SHARE",
                };
                self.line(words, -STANDARD, STANDARD, 0);
                let name = self.scope_name(0, *rel);
                self.put(&format!(" OF {name}"));
                self.put(match wait {
                    Wait::Block => "",
                    Wait::NoWait => " NOWAIT",
                    Wait::SkipLocked => " SKIP LOCKED",
                })
            }
        }
        self.scopes.pop();
        self.used.pop();
    }

    /// A query within something else, which goes on where it was indented.
    pub(super) fn inner_query(&mut self, q: &'q Query, names: Option<&[String]>, visible: bool) {
        let indent = self.indent;
        self.query(q, names, visible);
        self.indent = indent
    }

    /// What a relation of a query around is called.
    pub(super) fn scope_name(&self, depth: usize, rel: u16) -> String {
        let scope = self.scopes.len().checked_sub(1 + depth).and_then(|n| self.scopes.get(n));
        scope.and_then(|s| s.names.get(usize::from(rel))).cloned().unwrap_or_default()
    }

    fn is_whole_row(&self, e: &Expr) -> bool {
        matches!(self.notes.of(e), Some(crate::bind::written::Note::WholeRow(_)))
    }

    fn with_clause(&mut self, with: &'q [With]) {
        if with.is_empty() {
            return;
        }
        self.indent += STANDARD;
        let recursive = with.iter().any(|w| self.notes.recursive.contains(&w.number));
        self.put(if recursive { " WITH RECURSIVE " } else { " WITH " });
        for (n, w) in with.iter().enumerate() {
            self.put(if n > 0 { ", " } else { "" });
            self.with.push((w.number, &w.name));
            let name = self.name(&w.name);
            self.put(&name);
            if let Some(columns) = self.notes.with_columns.get(&w.number) {
                let list: Vec<String> = columns.iter().map(|c| self.name(c)).collect();
                self.put(&format!("({})", list.join(", ")))
            }
            self.put(match w.materialized {
                None => " AS (",
                Some(true) => " AS MATERIALIZED (",
                Some(false) => " AS NOT MATERIALIZED (",
            });
            self.line("", 0, 0, 0);
            self.inner_query(&w.query, None, true);
            self.line("", 0, 0, 0);
            self.put(")");
            if let Some(trail) = self.notes.trails.get(&w.number) {
                self.trail(trail)
            }
        }
        self.indent -= STANDARD;
        self.line("", 0, 0, 0)
    }

    /// SEARCH and CYCLE.
    fn trail(&mut self, trail: &'q Trail) {
        let names = |s: &Self, list: &[String]| -> String {
            list.iter().map(|n| s.name(n)).collect::<Vec<_>>().join(", ")
        };
        if let Some(s) = &trail.search {
            let order = if s.breadth { "BREADTH" } else { "DEPTH" };
            let text =
                format!(" SEARCH {order} FIRST BY {} SET {}", names(self, &s.by), self.name(&s.column));
            self.put(&text)
        }
        if let Some(c) = &trail.cycle {
            let text = format!(" CYCLE {} SET {}", names(self, &c.by), self.name(&c.mark));
            self.put(&text);
            let is = |e: &Expr, v: bool| matches!(e.kind, ExprKind::Const(Value::Bool(b)) if b == v);
            if !(is(&c.value, true) && is(&c.default, false)) {
                self.put(" TO ");
                self.mark(&c.value);
                self.put(" DEFAULT ");
                self.mark(&c.default)
            }
            let text = format!(" USING {}", self.name(&c.path));
            self.put(&text)
        }
    }

    /// A constant of CYCLE. As PostgreSQL shows it, it is a cast, which cannot stand there.
    fn mark(&mut self, e: &'q Expr) {
        match &e.kind {
            ExprKind::Const(v) if self.is_stored() && !v.is_null() => {
                let (mut scratch, mut text) = (Vec::new(), String::new());
                ondol_types::text::output(v.as_ref(&mut scratch), e.ty, &mut text);
                self.put(&format!("{} '{}'", e.ty, text.replace('\'', "''")))
            }
            _ => self.expr(e, false),
        }
    }

    fn plain(&mut self, q: &'q Query, names: Option<&[String]>, visible: bool) {
        self.indent += STANDARD;
        self.put(" ");
        if let Some(rows) = bare_values(q, names) {
            return self.values(rows);
        }
        self.put("SELECT");
        if !q.distinct_on.is_empty() {
            self.put(" DISTINCT ON (");
            for (n, target) in q.distinct_on.iter().enumerate() {
                self.put(if n > 0 { ", " } else { "" });
                self.key(&q.targets[*target].expr)
            }
            self.put(")")
        } else if q.distinct {
            self.put(" DISTINCT")
        }
        self.targets(q, names, visible);
        self.put_from(q);
        if let Some(filter) = &q.filter {
            self.line(" WHERE ", -STANDARD, STANDARD, 1);
            self.expr(filter, false)
        }
        let groups = q.written.as_ref().map_or(q.group_by.len(), |w| w.groups);
        if groups > 0 {
            self.line(" GROUP BY ", -STANDARD, STANDARD, 1);
            for (n, e) in q.group_by.iter().take(groups).enumerate() {
                self.put(if n > 0 { ", " } else { "" });
                self.key(e)
            }
        }
        if let Some(having) = &q.having {
            self.line(" HAVING ", -STANDARD, STANDARD, 0);
            self.expr(having, false)
        }
        self.window_clause(q)
    }

    fn targets(&mut self, q: &'q Query, names: Option<&[String]>, visible: bool) {
        for (n, target) in q.targets.iter().filter(|t| !t.hidden).enumerate() {
            self.put(if n > 0 { ", " } else { " " });
            let name = names.and_then(|l| l.get(n)).unwrap_or(&target.name);
            let mut found = None;
            let mut text = self.apart(|w| {
                w.expr(&target.expr, true);
                // Else it would stand for the columns.
                if w.is_whole_row(&target.expr) {
                    let ty = w.type_name(target.expr.ty);
                    w.put(&format!("::{ty}"))
                }
                found = w.plain_name(&target.expr)
            });
            let is_it = match &found {
                // Its name may be another tomorrow.
                Some(_) if self.is_stored() => false,
                Some(found) => found == name,
                None => !visible && name == "?column?",
            };
            if !is_it {
                text.push_str(" AS ");
                text.push_str(&self.name(name))
            }
            // What begins on a line of its own needs none here.
            if text.starts_with('\n') {
                let kept = self.out.trim_end_matches(' ').len();
                self.out.truncate(kept)
            } else if n > 0 && !self.is_stored() {
                self.line("", -STANDARD, STANDARD, ITEM)
            }
            self.put(&text)
        }
    }

    fn put_from(&mut self, q: &'q Query) {
        for (n, item) in q.from.iter().enumerate() {
            if n == 0 {
                self.line(" FROM ", -STANDARD, STANDARD, 2);
                self.put_item(q, item);
                continue;
            }
            self.put(", ");
            let text = self.apart(|w| w.put_item(q, item));
            if text.starts_with('\n') {
                let kept = self.out.trim_end_matches(' ').len();
                self.out.truncate(kept)
            } else if !self.is_stored() {
                self.line("", -STANDARD, STANDARD, ITEM)
            }
            self.put(&text)
        }
    }

    fn put_item(&mut self, q: &'q Query, item: &'q From) {
        let (kind, left, right, on) = match item {
            From::Rel(n) => return self.rel(q, usize::from(*n)),
            From::Join { kind, left, right, on } => (kind, &**left, &**right, on),
        };
        let (first, last) = bounds(item);
        let join =
            q.written.as_ref().and_then(|w| w.joins.iter().find(|j| j.first == first && j.last == last));
        let turned = join.is_some_and(|j| j.turned);
        let (left, right) = if turned { (right, left) } else { (left, right) };
        let names = match on {
            Some(on) if join.is_some_and(|j| j.using) => self.using_names(q, left, right, on),
            _ => None,
        };
        let in_parens = !self.is_pretty();
        self.put(if in_parens { "(" } else { "" });
        self.put_item(q, left);
        let words = match kind {
            JoinKind::Inner if on.is_none() => " CROSS JOIN ",
            JoinKind::Inner => " JOIN ",
            JoinKind::Left if turned => " RIGHT JOIN ",
            JoinKind::Left => " LEFT JOIN ",
            JoinKind::Full => " FULL JOIN ",
        };
        self.line(words, -STANDARD, STANDARD, JOIN);
        let right_in_parens = self.is_pretty() && matches!(right, From::Join { .. });
        self.put(if right_in_parens { "(" } else { "" });
        self.put_item(q, right);
        self.put(if right_in_parens { ")" } else { "" });
        match (on, &names) {
            (_, Some(names)) if !self.is_stored() => {
                let list: Vec<String> = names.iter().map(|n| self.name(n)).collect();
                self.put(&format!(" USING ({})", list.join(", ")))
            }
            (Some(on), _) => {
                self.put(if in_parens { " ON (" } else { " ON " });
                self.expr(on, false);
                self.put(if in_parens { ")" } else { "" })
            }
            (None, _) if *kind != JoinKind::Inner => self.put(" ON TRUE"),
            (None, _) => {}
        }
        self.put(if in_parens { ")" } else { "" });
        if self.is_stored()
            && let Some(names) = names
            && let Some(alias) = using(&names)
        {
            self.put(&format!(" {alias}"))
        }
    }

    /// The names of a join by USING, as long as each is that of one column on both sides.
    fn using_names(
        &self,
        q: &'q Query,
        left: &'q From,
        right: &'q From,
        on: &'q Expr,
    ) -> Option<Vec<&'q str>> {
        let tests = match &on.kind {
            ExprKind::And(tests) => &tests[..],
            _ => std::slice::from_ref(on),
        };
        let sides = [self.shown_names(q, left), self.shown_names(q, right)];
        let mut names = Vec::with_capacity(tests.len());
        for test in tests {
            let ExprKind::Call { args, .. } = &test.kind else { return None };
            let [l, r] = &args[..] else { return None };
            let (l, r) = (self.own_name_of(q, l)?, self.own_name_of(q, r)?);
            let is_one = |side: &Vec<&str>| side.iter().filter(|n| **n == l).count() == 1;
            if l != r || !sides.iter().all(is_one) {
                return None;
            }
            names.push(l)
        }
        Some(names)
    }

    /// The name of the column that an operand of a join by USING is.
    fn own_name_of(&self, q: &'q Query, e: &'q Expr) -> Option<&'q str> {
        match &e.kind {
            ExprKind::Column { depth: 0, rel, column } => {
                let (rel, column) = (usize::from(*rel), usize::from(*column));
                match self.known(q, rel) {
                    Some(k) => k.columns.get(column).copied(),
                    None => q.rels.get(rel)?.columns.get(column).map(|c| c.0.as_str()),
                }
            }
            // A column that an earlier join has merged.
            ExprKind::Coalesce(list) => self.own_name_of(q, list.first()?),
            // By USING itself, which has been stored as it is since.
            ExprKind::Cast { arg, .. } => self.own_name_of(q, arg),
            _ => None,
        }
    }

    /// The names of the columns that an item of FROM shows, those once that USING merges.
    fn shown_names(&self, q: &'q Query, item: &'q From) -> Vec<&'q str> {
        let (left, right, on) = match item {
            From::Rel(n) => {
                let rel = usize::from(*n);
                return match self.known(q, rel) {
                    Some(k) => k.columns,
                    None => q.rels[rel].columns.iter().map(|c| c.0.as_str()).collect(),
                };
            }
            From::Join { left, right, on, .. } => (left, right, on),
        };
        let (first, last) = bounds(item);
        let joins = q.written.as_ref().map_or(&[][..], |w| &w.joins);
        let join = joins.iter().find(|j| j.first == first && j.last == last);
        let (left, right) = if join.is_some_and(|j| j.turned) { (right, left) } else { (left, right) };
        let merged = match on {
            Some(on) if join.is_some_and(|j| j.using) => self.using_names(q, left, right, on),
            _ => None,
        };
        let merged = merged.unwrap_or_default();
        let mut names = self.shown_names(q, left);
        names.extend(self.shown_names(q, right).into_iter().filter(|n| !merged.contains(n)));
        names
    }

    /// The name that a column has which FULL JOIN ... USING makes of two.
    pub(super) fn merged(&self, list: &'q [Expr]) -> Option<String> {
        let [l, r] = list else { return None };
        if self.is_stored() {
            return None;
        }
        let q = self.scopes.last()?.query?;
        let name = self.own_name_of(q, l)?;
        let joins = q.written.as_ref().map_or(&[][..], |w| &w.joins);
        let is_full = |f: &'q From| self.is_merged_by(f, joins, [l, r]);
        let shown: usize =
            q.from.iter().map(|f| self.shown_names(q, f).iter().filter(|n| **n == name).count()).sum();
        (shown == 1 && q.from.iter().any(is_full)).then(|| self.name(name))
    }

    fn is_merged_by(&self, item: &'q From, joins: &[WrittenJoin], of: [&Expr; 2]) -> bool {
        let From::Join { kind, left, right, on } = item else { return false };
        let (first, last) = bounds(item);
        let is_using = joins.iter().any(|j| j.first == first && j.last == last && j.using);
        let tests = match on.as_ref().map(|e| &e.kind) {
            Some(ExprKind::And(tests)) => &tests[..],
            Some(_) => on.as_slice(),
            None => &[],
        };
        let bare = |e: &Expr| match &e.kind {
            ExprKind::Cast { arg, .. } => (**arg).clone(),
            _ => e.clone(),
        };
        let same = |a: &Expr, b: &Expr| crate::bind::same(&bare(a), &bare(b));
        let is_it = |t: &Expr| match &t.kind {
            ExprKind::Call { args, .. } => matches!(&args[..], [l, r] if same(l, of[0]) && same(r, of[1])),
            _ => false,
        };
        is_using && *kind == JoinKind::Full && tests.iter().any(is_it)
            || self.is_merged_by(left, joins, of)
            || self.is_merged_by(right, joins, of)
    }

    fn column_list(&mut self, columns: &[String]) {
        if !columns.is_empty() {
            let list: Vec<String> = columns.iter().map(|c| self.name(c)).collect();
            self.put(&format!("({})", list.join(", ")))
        }
    }

    fn rel(&mut self, q: &'q Query, n: usize) {
        let entry = &q.rels[n];
        let how = written(q, n);
        let name = self.scope_name(0, n as u16);
        if how.is_some_and(|w| w.lateral) {
            self.put("LATERAL ")
        }
        let columns: Vec<String> = entry.columns.iter().map(|c| c.0.clone()).collect();
        let has_columns = how.is_some_and(|w| w.columns);
        if let Some(known) = self.known(q, n) {
            let shown = match self.is_stored() {
                true => Slot::Relation(known.id).to_string(),
                false => self.catalog.shown(self.path, &Name::new(known.schema, known.name)),
            };
            self.put(&shown);
            let own = self.name(known.name);
            // Names that were given to its columns are not kept: they would be by place.
            if self.is_stored() || own != name || how.is_some_and(|w| w.alias) {
                self.put(&format!(" {name}"))
            }
            return;
        }
        if let Some(how) = how.filter(|w| !w.calls.is_empty()) {
            self.put_calls(&how.calls, how.rows_from);
            self.put(if how.ordinality { " WITH ORDINALITY" } else { "" });
            self.put(&format!(" {name}"));
            if how.definitions.is_empty() {
                return self.column_list(&columns);
            }
            let list: Vec<String> = (how.definitions.iter())
                .map(|(column, ty)| format!("{} {}", self.name(column), self.type_name(*ty)))
                .collect();
            return self.put(&format!("({})", list.join(", ")));
        }
        match &entry.rel {
            Rel::Query(inner) if bare_values(inner, None).is_none() || entry.alias != "*VALUES*" => {
                self.put("(");
                self.inner_query(inner, None, true);
                self.put(")")
            }
            // Rows that are a query of their own: PostgreSQL writes them as it does those of FROM.
            Rel::Query(inner) => {
                self.put("(");
                bare_values(inner, None).into_iter().for_each(|rows| self.values(rows));
                self.put(")")
            }
            Rel::Values(rows) => {
                self.put("(");
                self.values(rows);
                self.put(")")
            }
            Rel::With(_) => {
                let own = self.with_name(&entry.rel).unwrap_or_else(|| self.name(&entry.alias));
                self.put(&own);
                if own != name {
                    self.put(&format!(" {name}"))
                }
                if has_columns {
                    self.column_list(&columns)
                }
                return;
            }
            Rel::System(view) => {
                let full = match how.and_then(|w| w.system.as_ref()) {
                    Some(n) if self.is_stored() || n.schema != PG_CATALOG => self.catalog.qualified(n),
                    Some(n) => quote(&n.name),
                    None => quote(view),
                };
                self.put(&full);
                let own = how.and_then(|w| w.system.as_ref()).map_or(*view, |n| &n.name);
                if how.is_some_and(|w| w.alias) || self.name(own) != name {
                    self.put(&format!(" {name}"))
                }
                if has_columns {
                    self.column_list(&columns)
                }
                return;
            }
            _ => {}
        }
        if !name.is_empty() {
            self.put(&format!(" {name}"))
        }
        if has_columns {
            self.column_list(&columns)
        }
    }

    /// The name that a WITH query was given.
    fn with_name(&self, rel: &Rel) -> Option<String> {
        let Rel::With(number) = rel else { return None };
        let name = self.with.iter().find(|w| w.0 == *number)?.1;
        Some(self.name(name))
    }

    /// The calls of a function in FROM, as PostgreSQL shows them: unnest of several arrays is one of each.
    fn put_calls(&mut self, calls: &'q [Call], rows_from: bool) {
        let is_unnest = |c: &Call| c.registered.is_none() && c.name == "unnest";
        let arrays: usize = calls.iter().map(|c| c.args.len()).sum();
        if arrays > 1 && calls.iter().all(is_unnest) {
            self.put("UNNEST(");
            self.list(calls.iter().flat_map(|c| &c.args), true);
            return self.put(")");
        }
        let several = rows_from || calls.len() > 1;
        self.put(if several { "ROWS FROM(" } else { "" });
        for (n, call) in calls.iter().enumerate() {
            self.put(if n > 0 { ", " } else { "" });
            if !is_unnest(call) || call.args.len() < 2 {
                self.put_call(call);
                continue;
            }
            for (n, array) in call.args.iter().enumerate() {
                self.put(if n > 0 { "), unnest(" } else { "unnest(" });
                self.expr(array, true)
            }
            self.put(")")
        }
        self.put(if several { ")" } else { "" });
    }

    fn put_call(&mut self, call: &'q Call) {
        let name = match call.registered {
            Some(id) => self.function_name(id, &call.name),
            None => quote(&call.name),
        };
        self.put(&name);
        self.put("(");
        // They see what is before them in this FROM.
        self.list(&call.args, true);
        self.put(")")
    }

    fn values(&mut self, rows: &'q [Vec<Expr>]) {
        self.put("VALUES ");
        for (n, row) in rows.iter().enumerate() {
            self.put(if n > 0 { ", (" } else { "(" });
            for (n, e) in row.iter().enumerate() {
                self.put(if n > 0 { "," } else { "" });
                self.expr(e, false)
            }
            self.put(")")
        }
    }

    fn set_operation(&mut self, q: &'q Query, names: Option<&[String]>, visible: bool) {
        let Some(set) = &q.set else { return };
        let alike = |o: &Query| match &o.set {
            Some(inner) if is_bare(o) => Some(inner.operation == set.operation && inner.all == set.all),
            _ => None,
        };
        let in_parens = alike(&set.left) == Some(false);
        let inner = if in_parens { STANDARD } else { 0 };
        if in_parens {
            self.put("(");
            self.line("", inner, 0, 0)
        }
        self.arm(&set.left, names, visible);
        match in_parens {
            true => self.line(") ", -inner, 0, 0),
            false => self.line("", 0, 0, 0),
        }
        self.put(match set.operation {
            SetOperation::Union => "UNION ",
            SetOperation::Intersect => "INTERSECT ",
            SetOperation::Except => "EXCEPT ",
        });
        self.put(if set.all { "ALL " } else { "" });
        let in_parens = alike(&set.right).is_some();
        let inner = if in_parens { STANDARD } else { 0 };
        self.put(if in_parens { "(" } else { "" });
        self.line("", inner, 0, 0);
        // The first side tells what the columns are called.
        self.arm(&set.right, names, false);
        self.indent -= if self.is_stored() { 0 } else { inner };
        if in_parens {
            self.line(")", 0, 0, 0)
        }
    }

    /// One side of a set operation.
    fn arm(&mut self, q: &'q Query, names: Option<&[String]>, visible: bool) {
        if q.set.is_some() && is_bare(q) {
            self.scopes.push(Scope { query: Some(q), names: Vec::new() });
            self.set_operation(q, names, visible);
            self.scopes.pop();
            return;
        }
        let in_parens = !is_bare(q);
        self.put(if in_parens { "(" } else { "" });
        self.inner_query(q, names, visible);
        self.put(if in_parens { ")" } else { "" })
    }

    fn order_by(&mut self, q: &'q Query, keys: &[OrderKey]) {
        for (n, key) in keys.iter().enumerate() {
            self.put(if n > 0 { ", " } else { "" });
            match &q.set {
                Some(_) => self.put(&(key.target + 1).to_string()),
                None => self.key(&q.targets[key.target].expr),
            }
            self.direction(key.desc, key.nulls_first)
        }
    }

    pub(super) fn direction(&mut self, desc: bool, nulls_first: bool) {
        self.put(match (desc, nulls_first) {
            (false, false) => "",
            (false, true) => " NULLS FIRST",
            (true, true) => " DESC",
            (true, false) => " DESC NULLS LAST",
        })
    }

    /// The name that an expression gives a column of a result by itself.
    fn plain_name(&self, e: &'q Expr) -> Option<String> {
        if let Some(Note::System { name, .. }) = self.notes.of(e) {
            return Some(name.clone());
        }
        match &e.kind {
            ExprKind::Column { depth, rel, column } if self.notes.of(e).is_none() => {
                let n = self.scopes.len().checked_sub(1 + usize::from(*depth))?;
                let q = self.scopes.get(n)?.query?;
                let (rel, column) = (usize::from(*rel), usize::from(*column));
                match self.known(q, rel) {
                    _ if column == usize::from(CTID) => Some("ctid".to_string()),
                    Some(k) => k.columns.get(column).map(|c| c.to_string()),
                    None => q.rels.get(rel)?.columns.get(column).map(|c| c.0.clone()),
                }
            }
            // A column of numbers of objects, which is called as it is.
            ExprKind::Call { func: id::NAMED, args } => self.plain_name(args.first()?),
            ExprKind::Coalesce(list) => {
                self.merged(list)?;
                Some(self.own_name_of(self.scopes.last()?.query?, list.first()?)?.to_string())
            }
            ExprKind::Group(n) => {
                let q = self.scopes.last()?.query?;
                self.plain_name(q.group_by.get(usize::from(*n))?)
            }
            _ => None,
        }
    }
}

/// A set operation stands beside others without parentheses if it has nothing but its sides.
fn is_bare(q: &Query) -> bool {
    q.order_by.is_empty()
        && q.limit.is_none()
        && q.offset.is_none()
        && q.locks.is_empty()
        && q.with.is_empty()
}

/// The rows of a query that is VALUES alone, if its columns have the names that these have.
fn bare_values<'q>(q: &'q Query, names: Option<&[String]>) -> Option<&'q Vec<Vec<Expr>>> {
    let [entry] = &q.rels[..] else { return None };
    let Rel::Values(rows) = &entry.rel else { return None };
    let is_own = |(n, t): (usize, &crate::bound::Target)| {
        let own =
            matches!(t.expr.kind, ExprKind::Column { depth: 0, rel: 0, column } if usize::from(column) == n);
        let named = names.is_none_or(|l| l.get(n).is_none_or(|name| entry.columns[n].0 == *name));
        own && named && t.name == entry.columns[n].0
    };
    let whole = q.written.is_none() && q.filter.is_none() && entry.alias == "*VALUES*";
    let visible = q.targets.iter().filter(|t| !t.hidden);
    (whole && visible.enumerate().all(is_own)).then_some(rows)
}

/// The first and the last relation of an item of FROM.
fn bounds(from: &From) -> (u16, u16) {
    match from {
        From::Rel(n) => (*n, *n),
        From::Join { left, right, .. } => {
            let (l, r) = (bounds(left), bounds(right));
            (l.0.min(r.0), l.1.max(r.1))
        }
    }
}
