//! INSERT, UPDATE and DELETE.

use super::check::row_checks;
use super::domain::{declared, default_text};
use super::scope::{Clause, column};
use super::select::null;
use super::tree::{at, at_expr, kind, list, need, place, refuse, unexpected, variant};
use super::updatable::{Change, Changed};
use super::{Binder, coerce, row};
use crate::bound::{
    Expr, ExprKind, From, Inner, Insert, InsertColumn, Modify, Query, Rel, RelEntry, Statement, TableRef,
    Target, walk_expr,
};
use crate::parse::tree::{self, Node, ResTarget, node::Node as Kind};
use ondol_engine::name::PUBLIC;
use ondol_engine::{Catalog, ColumnDef, Generated, Name, Table};
use ondol_types::func::Volatility;
use ondol_types::{SqlError, SqlResult, Type, TypeId, known, sqlstate};

/// A column's default, of the column's type; NULL if it has none.
pub fn default_of(catalog: &Catalog, column: &ColumnDef) -> SqlResult<Expr> {
    let next = next_value_text(column);
    let value = match next.as_deref().or(default_text(column)) {
        None => null(column.ty),
        Some(text) => bind_default(catalog, text, column).map_err(|mut e| {
            // Its place is in the default's text, not in the statement's.
            e.0.position = None;
            e
        })?,
    };
    Binder::new(catalog, "", &[]).in_declared(value, declared(column).id)
}

/// What an identity column takes its values from, as an expression: its sequence may get another name.
fn next_value_text(column: &ColumnDef) -> Option<String> {
    column.identity().map(|number| format!("nextval({number})"))
}

/// The call that takes the next value of a sequence, as the dictionary keeps it (engine/name/A5).
pub fn next_value_of(catalog: &Catalog, sequence: &Name) -> String {
    let named = match sequence.schema {
        PUBLIC => ondol_types::name::quote(&sequence.name),
        _ => catalog.qualified(sequence),
    };
    format!("nextval('{}')", named.replace('\'', "''"))
}

/// What is wrong with a value for a column that generates its own.
fn generated_always(column: &ColumnDef, message: String) -> SqlError {
    let name = &column.name;
    let error = SqlError::new("428C9", message);
    match column.computed() {
        Some(_) => error.detail(format!("Column \"{name}\" is a generated column.")),
        None => error.detail(format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS.")),
    }
}

/// Binds the text of a default.
fn bind_default(catalog: &Catalog, text: &str, column: &ColumnDef) -> SqlResult<Expr> {
    let sql = format!("SELECT {text}");
    let raws = crate::parse::parse(&sql)?;
    let bad = || SqlError::new(sqlstate::SYNTAX_ERROR, format!("not one expression: {text}"));
    let target = super::only_target(&raws).ok_or_else(bad)?;
    let e = Binder::new(catalog, &sql, &[]).default_value(target, column)?;
    Ok(Expr { at: u32::MAX, ..e })
}

/// The column of a name, for statements that name columns of the table they change.
pub fn target_column(table: &Table, name: &str, location: i32) -> SqlResult<usize> {
    table.def.column(name).ok_or_else(|| {
        let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.def.name);
        at(SqlError::new(sqlstate::UNDEFINED_COLUMN, message), location)
    })
}

fn is_default(node: &Node) -> bool {
    matches!(node.node, Some(Kind::SetToDefault(_)))
}

/// `VALUES (..), (..)` and nothing else, as most INSERTs have.
fn bare_values(s: &tree::SelectStmt) -> bool {
    !s.values_lists.is_empty()
        && s.sort_clause.is_empty()
        && s.limit_count.is_none()
        && s.limit_offset.is_none()
        && s.locking_clause.is_empty()
        && s.with_clause.is_none()
}

/// What INSERT takes its rows from.
fn source_of(s: &tree::InsertStmt) -> Option<&tree::SelectStmt> {
    match &s.select_stmt.as_deref()?.node {
        Some(Kind::SelectStmt(q)) => Some(q),
        _ => None,
    }
}

/// Whether all rows of VALUES have DEFAULT at that place.
fn only_defaults(source: Option<&tree::SelectStmt>, n: usize) -> bool {
    source.filter(|q| bare_values(q)).is_some_and(|q| {
        q.values_lists.iter().all(|row| match &row.node {
            Some(Kind::List(l)) => l.items.get(n).is_some_and(is_default),
            _ => false,
        })
    })
}

/// The place of the first subquery in an expression.
pub(super) fn subquery_in(e: &Expr) -> Option<u32> {
    let mut query = None;
    walk_expr(e, 0, &mut |e, _| {
        let is_query = match &e.kind {
            ExprKind::Scalar(q) => !q.is_call,
            ExprKind::Exists { .. } | ExprKind::Quantified { .. } => true,
            _ => false,
        };
        if is_query {
            query.get_or_insert(e.at);
        }
        true
    });
    query
}

impl<'a> Binder<'a> {
    /// The expression of a default, of the column's type; nothing of a query may stand in it.
    pub(super) fn default_value(&mut self, value: &'a Node, column: &ColumnDef) -> SqlResult<Expr> {
        let open = std::mem::replace(&mut self.open_params, false);
        let bound = self.nested(Clause::Default, |b| b.expr(value));
        self.open_params = open;
        let (e, _) = bound.map_err(|mut e| {
            if matches!(e.sqlstate(), sqlstate::UNDEFINED_COLUMN | sqlstate::UNDEFINED_TABLE) {
                e.0.sqlstate = sqlstate::FEATURE_NOT_SUPPORTED;
                e.0.message = "cannot use column reference in DEFAULT expression".into();
            }
            e
        })?;
        if let Some(here) = subquery_in(&e) {
            let message = "cannot use subquery in DEFAULT expression";
            return Err(at_expr(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), here));
        }
        if !coerce::can_coerce(e.ty.id, column.ty.id, ondol_types::cast::CastContext::Assignment) {
            let message = format!(
                "column \"{}\" is of type {} but default expression is of type {}",
                column.name,
                super::name_of(column.ty.id),
                super::name_of(e.ty.id)
            );
            let error = SqlError::new(sqlstate::DATATYPE_MISMATCH, message);
            return Err(error.hint("You will need to rewrite or cast the expression."));
        }
        self.cast(e, column.ty, false)
    }

    /// The text of a default as the dictionary keeps it.
    pub(super) fn default_text(&self, value: &Node, column: &ColumnDef) -> SqlResult<String> {
        let text = self.kept_text(value, &|b, value| b.default_value(value, column).map(drop))?;
        Ok(self.with_schemas_of_sequences(&text))
    }

    pub(super) fn insert(&mut self, s: &'a tree::InsertStmt) -> SqlResult<Statement> {
        let (mut insert, with) = self.with_clause(s.with_clause.as_ref(), |b| b.insert_rows(s))?;
        insert.with = with;
        Ok(Statement::Insert(insert))
    }

    fn insert_rows(&mut self, s: &'a tree::InsertStmt) -> SqlResult<Insert> {
        let relation = s.relation.as_ref().ok_or_else(|| unexpected("INSERT"))?;
        let changed = self.changed(relation, Change::Insert)?;
        let table = changed.table.clone();
        let (seen, parts, named) = self.insert_columns(&changed, &s.cols)?;
        // The table's columns that the first so many are.
        let set = |width: usize| -> SqlResult<Vec<usize>> {
            let set: Vec<usize> = (seen.iter().take(width))
                .map(|n| changed.set_column(*n, Change::Insert))
                .collect::<SqlResult<_>>()?;
            // Parts of a column may be several.
            let is_whole = |n: usize| parts[n].0.is_empty();
            let again = |n: usize, c: &usize| (0..n).any(|o| set[o] == *c && (is_whole(o) || is_whole(n)));
            if let Some(c) = set.iter().enumerate().find(|(n, c)| again(*n, c)) {
                let name = &table.def.columns[*c.1].name;
                let message = format!("multiple assignments to same column \"{name}\"");
                return Err(SqlError::new(sqlstate::SYNTAX_ERROR, message));
            }
            Ok(set)
        };
        let source = match s.select_stmt.as_deref() {
            None => None,
            Some(n) => match kind(n)? {
                Kind::SelectStmt(q) => Some(q.as_ref()),
                other => return Err(unexpected(&variant(other))),
            },
        };
        let (query, width) = match source {
            // DEFAULT VALUES: one row without columns.
            None => (one_row(Vec::new()), 0),
            Some(q) if bare_values(q) => {
                let width = q.values_lists.first().map_or(Ok(0), |r| list(r).map(<[Node]>::len))?;
                let targets = set(width)?;
                self.insert_values(&changed, &targets, &parts, seen.len(), named, s, q)?
            }
            Some(q) => {
                let query = self.select(q)?;
                let types: Vec<u32> = query.visible().map(|t| t.expr.at).collect();
                check_width(types.len(), seen.len(), named, &s.cols, types.get(seen.len()).copied())?;
                let targets = set(types.len())?;
                let columns: Vec<&ColumnDef> = targets.iter().map(|c| &table.def.columns[*c]).collect();
                let query = coerce::convert_targets(self, query, &mut |b, i, e| {
                    // What a part becomes is told where the column is put together.
                    match parts.get(i).map_or(&[][..], |p| p.0) {
                        [] => b.assign(e, declared(columns[i]), &columns[i].name),
                        part => match row::part_type(declared(columns[i]), part) {
                            Some(ty) if e.ty.id == TypeId::UNKNOWN => b.cast(e, ty.base(), false),
                            _ => b.settle(e),
                        },
                    }
                })?;
                let query = match parts.iter().all(|p| p.0.is_empty()) {
                    true => query,
                    false => self.put_together(query, &columns, &targets, &parts)?,
                };
                (query, types.len())
            }
        };
        changed.check_defaults()?;
        // Each column once, with the first of the values that it is made of.
        let mut targets = Vec::new();
        let mut firsts = Vec::new();
        for (n, c) in set(width)?.into_iter().enumerate() {
            if !targets.contains(&c) {
                targets.push(c);
                firsts.push(n);
            }
        }
        let mut columns = Vec::with_capacity(table.def.columns.len());
        let overriding = s.r#override();
        for (i, c) in table.def.columns.iter().enumerate() {
            let source = targets.iter().position(|t| *t == i);
            let source = source.filter(|n| c.generated.is_none() || !only_defaults(source_of(s), firsts[*n]));
            let is_given = source.is_some() || changed.has_default(i);
            columns.push(match (source, &c.generated) {
                (Some(_), Some(Generated::Identity { .. }))
                    if overriding == tree::OverridingKind::OverridingUserValue =>
                {
                    InsertColumn::Value(self.default_in(&changed, i)?)
                }
                (_, Some(Generated::Identity { always: true, .. }))
                    if is_given && overriding != tree::OverridingKind::OverridingSystemValue =>
                {
                    let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", c.name);
                    return Err(generated_always(c, message).hint("Use OVERRIDING SYSTEM VALUE to override."));
                }
                (_, Some(Generated::Stored(_))) if is_given => {
                    let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", c.name);
                    return Err(generated_always(c, message));
                }
                (Some(source), _) => InsertColumn::Source(source),
                (None, Some(Generated::Stored(_))) => InsertColumn::Value(null(c.ty)),
                (None, _) => InsertColumn::Value(self.default_in(&changed, i)?),
            });
        }
        let on_conflict = match s.on_conflict_clause.as_deref() {
            None => None,
            Some(c) => Some(self.on_conflict(s, c)?),
        };
        let returning = match &s.returning_clause {
            None => Vec::new(),
            Some(r) => {
                let (targets, _) = self.nested(Clause::Returning, |b| {
                    let (changed, _, items) = b.target_table(&s.relation, Change::Insert)?;
                    b.level().items = items;
                    if on_conflict.as_ref().is_some_and(|c| c.update.is_some()) {
                        b.level().hidden = b.excluded(&changed)?;
                    }
                    b.returning(r)
                })?;
                targets
            }
        };
        if let Some(view) = &changed.view {
            view.named.borrow_mut().extend(seen.iter().take(width))
        }
        self.note_views(&changed, Change::Insert, !returning.is_empty() || s.on_conflict_clause.is_some());
        if s.on_conflict_clause.as_ref().is_some_and(|c| !c.target_list.is_empty()) {
            self.note_views(&changed, Change::Update, true)
        }
        let mut checks = row_checks(self.catalog, &table, None)?;
        checks.extend(self.view_row_checks(&changed)?);
        Ok(Insert {
            table: TableRef(table),
            source: query,
            columns,
            checks,
            on_conflict,
            returning,
            with: Vec::new(),
            through: self.through(&changed),
        })
    }

    /// The columns that INSERT names, or all that it sees; the part of each that it sets, and the place where
    /// that is said; and whether it names them.
    #[allow(clippy::type_complexity)]
    fn insert_columns(
        &self,
        changed: &Changed,
        cols: &'a [Node],
    ) -> SqlResult<(Vec<usize>, Vec<(&'a [Node], i32)>, bool)> {
        if cols.is_empty() {
            let none: &'a [Node] = &[];
            return Ok(((0..changed.width()).collect(), vec![(none, -1); changed.width()], false));
        }
        let mut targets = Vec::with_capacity(cols.len());
        let mut parts: Vec<(&'a [Node], i32)> = Vec::with_capacity(cols.len());
        for node in cols {
            let Kind::ResTarget(t) = kind(node)? else { return Err(unexpected("a column list")) };
            let column = changed.seen_column(&t.name, t.location)?;
            let is_whole = |n: usize| parts[n].0.is_empty() || t.indirection.is_empty();
            if (0..targets.len()).any(|n| targets[n] == column && is_whole(n)) {
                let message = format!("column \"{}\" specified more than once", t.name);
                return Err(at(SqlError::new(sqlstate::DUPLICATE_COLUMN, message), t.location));
            }
            targets.push(column);
            parts.push((&t.indirection, t.location));
        }
        Ok((targets, parts, true))
    }

    /// A query around one whose columns are parts of a table's columns: each of these is put together.
    fn put_together(
        &mut self,
        mut query: Query,
        columns: &[&ColumnDef],
        targets: &[usize],
        parts: &[(&'a [Node], i32)],
    ) -> SqlResult<Query> {
        self.count_query()?;
        let given = query.columns();
        coerce::deepen(&mut query);
        let mut made: Vec<(usize, Target)> = Vec::new();
        for (n, (_, ty)) in given.iter().enumerate() {
            let (c, value) = (columns[n], column(0, n, *ty));
            let found = made.iter().position(|m| m.0 == targets[n]);
            let before = match found {
                Some(i) => made[i].1.expr.clone(),
                None => null(c.ty),
            };
            let expr = match parts[n].0 {
                [] => value,
                nodes => self.assigned_part(&c.name, declared(c), before, nodes, value, parts[n].1)?,
            };
            match found {
                Some(i) => made[i].1.expr = expr,
                None => made.push((targets[n], Target { expr, name: c.name.clone(), hidden: false })),
            }
        }
        for (column, target) in &mut made {
            let is_it = |n: &usize| targets[*n] == *column && !parts[*n].0.is_empty();
            if let Some(n) = (0..given.len()).find(is_it) {
                let whole = std::mem::replace(&mut target.expr, null(Type::UNKNOWN));
                target.expr = self.in_declared(whole, declared(columns[n]).id)?
            }
        }
        let entry = RelEntry { rel: Rel::Query(Box::new(query)), alias: "*SELECT*".into(), columns: given };
        let targets = made.into_iter().map(|m| m.1).collect();
        Ok(Query { rels: vec![entry], from: vec![From::Rel(0)], targets, ..Query::default() })
    }

    #[allow(clippy::too_many_arguments)] // one call
    fn insert_values(
        &mut self,
        changed: &Changed,
        targets: &[usize],
        parts: &[(&'a [Node], i32)],
        most: usize,
        named: bool,
        s: &'a tree::InsertStmt,
        q: &'a tree::SelectStmt,
    ) -> SqlResult<(Query, usize)> {
        let cols = &s.cols;
        let overridden = s.r#override() == tree::OverridingKind::OverridingUserValue;
        let (rows, _) = self.nested(Clause::Values, |b| {
            let mut rows: Vec<Vec<Expr>> = Vec::with_capacity(q.values_lists.len());
            let mut width = None;
            for row in &q.values_lists {
                let items = list(row)?;
                if let Some(first) = width
                    && first != items.len()
                {
                    let here = items.first().map_or(u32::MAX, node_place);
                    let message = "VALUES lists must all be the same length";
                    return Err(at_expr(SqlError::new(sqlstate::SYNTAX_ERROR, message), here));
                }
                check_width(items.len(), most, named, cols, items.get(most).map(node_place))?;
                width = Some(items.len());
                let mut exprs = Vec::with_capacity(items.len());
                let mut made: Vec<usize> = Vec::new();
                for (n, (item, column)) in items.iter().zip(targets).enumerate() {
                    let c = &changed.table.def.columns[*column];
                    let (nodes, location) = parts[n];
                    let found = made.iter().position(|m| m == column);
                    let is_last = !targets[n + 1..].contains(column);
                    if !nodes.is_empty() {
                        if is_default(item) {
                            let message = "cannot set a subfield to DEFAULT";
                            return Err(at(
                                SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message),
                                location,
                            ));
                        }
                        let value = b.expr(item)?;
                        let before = match found {
                            Some(i) => std::mem::replace(&mut exprs[i], null(c.ty)),
                            None => null(c.ty),
                        };
                        let mut made_of =
                            b.assigned_part(&c.name, declared(c), before, nodes, value, location)?;
                        if is_last {
                            made_of = b.in_declared(made_of, declared(c).id)?
                        }
                        match found {
                            Some(i) => exprs[i] = made_of,
                            None => {
                                exprs.push(made_of);
                                made.push(*column)
                            }
                        }
                        continue;
                    }
                    made.push(*column);
                    let is_dropped = c.identity().is_some() && overridden && is_default(item);
                    exprs.push(if is_dropped || c.generated.is_some() && only_defaults(Some(q), n) {
                        // It is computed where the row is put together.
                        null(c.ty)
                    } else if is_default(item) {
                        b.default_in(changed, *column)?
                    } else {
                        let e = b.expr(item)?;
                        b.assign(e, declared(c), &c.name)?
                    });
                }
                rows.push(exprs);
            }
            Ok(rows)
        })?;
        let width = q.values_lists.first().map_or(Ok(0), |r| list(r).map(<[Node]>::len))?;
        let mut once: Vec<usize> = Vec::new();
        for c in &targets[..width] {
            if !once.contains(c) {
                once.push(*c)
            }
        }
        let columns = once.iter().map(|c| {
            let c = &changed.table.def.columns[*c];
            (c.name.clone(), c.ty)
        });
        Ok((values_query(rows, columns.collect()), width))
    }

    fn returning(&mut self, r: &'a tree::ReturningClause) -> SqlResult<Vec<Target>> {
        refuse(!r.options.is_empty(), "RETURNING WITH")?;
        let mut targets = self.within(Clause::Returning, |b| b.target_list(&r.exprs))?;
        for t in &mut targets {
            let e = std::mem::replace(&mut t.expr, null(Type::UNKNOWN));
            t.expr = self.settle(e)?;
        }
        Ok(targets)
    }

    pub(super) fn update(&mut self, s: &'a tree::UpdateStmt) -> SqlResult<Statement> {
        let ((mut modify, _), with) = self.with_clause(s.with_clause.as_ref(), |b| {
            b.nested(Clause::UpdateSet, |b| {
                let (changed, from) = b.modified(&s.relation, &s.from_clause, Change::Update)?;
                let filter = b.where_of_change(&changed, s.where_clause.as_deref())?;
                let returning = match &s.returning_clause {
                    Some(r) => b.returning(r)?,
                    None => Vec::new(),
                };
                let (assign, targets) = b.set_list(&changed, &s.target_list)?;
                let reads = s.where_clause.is_some() || !returning.is_empty() || !s.from_clause.is_empty();
                b.note_views(&changed, Change::Update, reads);
                let (table, through) = (changed.table.clone(), b.through(&changed));
                let rels = std::mem::take(&mut b.level().rels);
                let query = Query { rels, from, filter, targets, ..Query::default() };
                let mut checks = row_checks(b.catalog, &table, Some(&assign))?;
                checks.extend(b.view_row_checks(&changed)?);
                let table = TableRef(table);
                Ok(Modify { table, query, assign, checks, delete: false, returning, through })
            })
        })?;
        modify.query.with = with;
        Ok(Statement::Modify(modify))
    }

    /// Which rows are changed.
    fn where_of_change(&mut self, changed: &Changed, node: Option<&'a Node>) -> SqlResult<Option<Expr>> {
        if let Some(Kind::CurrentOfExpr(c)) = node.and_then(|n| n.node.as_ref()) {
            return self.current_of(changed, &c.cursor_name).map(Some);
        }
        let filter = self.where_clause(node)?;
        Ok(changed.with_filter(filter))
    }

    /// What SET assigns to columns of relation 0: the columns, and their values.
    pub(super) fn set_list(
        &mut self,
        changed: &Changed,
        list: &'a [Node],
    ) -> SqlResult<(Vec<u16>, Vec<Target>)> {
        let table = &changed.table;
        let (mut assign, mut targets) = (Vec::new(), Vec::<Target>::new());
        // Which of the targets set items of arrays.
        let mut items: Vec<bool> = Vec::new();
        for node in list {
            let Kind::ResTarget(t) = kind(node)? else { return Err(unexpected("SET")) };
            if changed.view.is_none() && known::is_system_column(&t.name) {
                let message = format!("cannot assign to system column \"{}\"", t.name);
                return Err(at(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), t.location));
            }
            let column = changed.seen_column(&t.name, t.location)?;
            let column = changed.set_column(column, Change::Update)?;
            let def = &table.def.columns[column];
            let earlier = assign.iter().position(|c| *c == column as u16);
            let is_item = !t.indirection.is_empty();
            if earlier.is_some_and(|i| !is_item || !items[i]) {
                let message = format!("multiple assignments to same column \"{}\"", t.name);
                return Err(SqlError::new(sqlstate::SYNTAX_ERROR, message));
            }
            if is_item {
                // Each takes what the one before it has made.
                let before = match earlier {
                    Some(i) => std::mem::replace(&mut targets[i].expr, null(def.ty)),
                    None => super::scope::column(0, column, def.ty),
                };
                let value = self.assigned_value(t)?;
                if is_default(value) {
                    let message = match t.indirection.last().and_then(|n| n.node.as_ref()) {
                        Some(Kind::String(_)) => "cannot set a subfield to DEFAULT",
                        _ => "cannot set an array element to DEFAULT",
                    };
                    return Err(at(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), t.location));
                }
                let value = self.expr(value)?;
                let of = declared(def);
                let expr = self.assigned_part(&def.name, of, before, &t.indirection, value, t.location)?;
                if let Some(i) = earlier {
                    targets[i].expr = expr;
                    continue;
                }
                targets.push(Target { expr, name: t.name.clone(), hidden: false });
            } else {
                let expr = self.assigned(changed, column, t)?;
                targets.push(Target { expr, name: t.name.clone(), hidden: false });
            }
            assign.push(column as u16);
            items.push(is_item);
        }
        for (n, _) in items.iter().enumerate().filter(|i| *i.1) {
            let def = &table.def.columns[usize::from(assign[n])];
            let whole = std::mem::replace(&mut targets[n].expr, null(Type::UNKNOWN));
            targets[n].expr = self.in_declared(whole, declared(def).id)?
        }
        Ok((assign, targets))
    }

    /// The value of `column = ...` in SET, as it is written.
    fn assigned_value(&self, t: &'a ResTarget) -> SqlResult<&'a Node> {
        let value = need(&t.val)?;
        if let Kind::MultiAssignRef(m) = kind(value)? {
            let source = need(&m.source)?;
            let Kind::RowExpr(row) = kind(source)? else {
                return Err(at(SqlError::unsupported("SET of several columns to this"), t.location));
            };
            if row.args.len() != usize::try_from(m.ncolumns).unwrap_or(0) {
                let message = "number of columns does not match number of values";
                return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), row.location));
            }
            let i = usize::try_from(m.colno - 1).unwrap_or(usize::MAX);
            return row.args.get(i).ok_or_else(|| unexpected("SET of several columns"));
        }
        Ok(value)
    }

    /// The value of `column = ...` in SET.
    fn assigned(&mut self, changed: &Changed, place: usize, t: &'a ResTarget) -> SqlResult<Expr> {
        let part = match kind(need(&t.val)?)? {
            Kind::MultiAssignRef(m) => match kind(need(&m.source)?)? {
                Kind::SubLink(link) => Some((link, m)),
                _ => None,
            },
            _ => None,
        };
        let value = if part.is_some() { None } else { Some(self.assigned_value(t)?) };
        let column = &changed.table.def.columns[place];
        let generates = matches!(
            &column.generated,
            Some(Generated::Identity { always: true, .. } | Generated::Stored(_))
        );
        // A default that a view has is a value of its own.
        if value.is_some_and(is_default) && !(generates && changed.has_default(place)) {
            return self.default_in(changed, place);
        }
        if generates {
            let message = format!("column \"{}\" can only be updated to DEFAULT", column.name);
            return Err(generated_always(column, message));
        }
        let e = match (part, value) {
            (Some((link, m)), _) => self.part_of_row(link, m)?,
            (None, value) => self.expr(value.ok_or_else(|| unexpected("SET"))?)?,
        };
        self.assign(e, declared(column), &column.name)
    }

    /// A column of the row that a subquery gives, as a subquery of its own: so one that gives another row
    /// each time is refused, and one whose other columns decide about its rows.
    fn part_of_row(&mut self, link: &'a tree::SubLink, m: &'a tree::MultiAssignRef) -> SqlResult<Expr> {
        let Kind::SelectStmt(select) = kind(need(&link.subselect)?)? else {
            return Err(unexpected("SET of several columns"));
        };
        let mut query = self.settled_select(select)?;
        if query.visible().count() != usize::try_from(m.ncolumns).unwrap_or(0) {
            let message = "number of columns does not match number of values";
            return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), link.location));
        }
        let decides = query.distinct || !query.distinct_on.is_empty() || query.set.is_some();
        if decides || !query.locks.is_empty() || query.calls(Volatility::Volatile) {
            let what = "SET (...) = (SELECT ...) with DISTINCT, UNION, locks or volatile functions";
            return Err(at(SqlError::unsupported(what), link.location));
        }
        // The column first; others stay where ORDER BY goes by them.
        let chosen = usize::try_from(m.colno - 1).unwrap_or(0);
        query.targets.swap(0, chosen);
        for key in &mut query.order_by {
            key.target = match key.target {
                0 => chosen,
                n if n == chosen => 0,
                n => n,
            }
        }
        query.targets.iter_mut().skip(1).for_each(|t| t.hidden = true);
        let Expr { ty, at, .. } = query.targets[0].expr;
        Ok(Expr { kind: ExprKind::Scalar(Box::new(query)), ty, at })
    }

    pub(super) fn delete(&mut self, s: &'a tree::DeleteStmt) -> SqlResult<Statement> {
        let ((mut modify, _), with) = self.with_clause(s.with_clause.as_ref(), |b| {
            b.nested(Clause::Where, |b| {
                let (changed, from) = b.modified(&s.relation, &s.using_clause, Change::Delete)?;
                let (table, through) = (TableRef(changed.table.clone()), b.through(&changed));
                let filter = b.where_of_change(&changed, s.where_clause.as_deref())?;
                let returning = match &s.returning_clause {
                    Some(r) => b.returning(r)?,
                    None => Vec::new(),
                };
                let reads = s.where_clause.is_some() || !returning.is_empty() || !s.using_clause.is_empty();
                b.note_views(&changed, Change::Delete, reads);
                let rels = std::mem::take(&mut b.level().rels);
                let query = Query { rels, from, filter, ..Query::default() };
                let (assign, checks) = (Vec::new(), Vec::new());
                Ok(Modify { table, query, assign, checks, delete: true, returning, through })
            })
        })?;
        modify.query.with = with;
        Ok(Statement::Modify(modify))
    }

    /// The table that is changed, as relation 0, and what is joined to it.
    fn modified(
        &mut self,
        relation: &'a Option<tree::RangeVar>,
        others: &'a [Node],
        change: Change,
    ) -> SqlResult<(Changed, Vec<From>)> {
        let (changed, own, items) = self.target_table(relation, change)?;
        self.level().own_hidden = items.len();
        self.level().hidden = items;
        let mut from = vec![own];
        from.extend(self.bind_from(others)?);
        Ok((changed, from))
    }
}

/// A row has neither more values than columns nor, where columns are named, fewer.
fn check_width(
    width: usize,
    most: usize,
    named: bool,
    cols: &[Node],
    first_too_many: Option<u32>,
) -> SqlResult<()> {
    if width > most {
        let message = "INSERT has more expressions than target columns";
        let here = first_too_many.unwrap_or(u32::MAX);
        return Err(at_expr(SqlError::new(sqlstate::SYNTAX_ERROR, message), here));
    }
    if named && width < most {
        let message = "INSERT has more target columns than expressions";
        let location = match cols.get(width).and_then(|n| n.node.as_ref()) {
            Some(Kind::ResTarget(t)) => t.location,
            _ => -1,
        };
        return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), location));
    }
    Ok(())
}

/// Where an expression starts, of the kinds that lists of values are mostly made of.
pub fn node_place(node: &Node) -> u32 {
    match &node.node {
        Some(Kind::AConst(c)) => place(c.location),
        Some(Kind::ColumnRef(c)) => place(c.location),
        Some(Kind::ParamRef(p)) => place(p.location),
        Some(Kind::FuncCall(f)) => place(f.location),
        Some(Kind::TypeCast(c)) => place(c.location),
        Some(Kind::AExpr(e)) => e.lexpr.as_deref().map_or(place(e.location), node_place),
        Some(Kind::SetToDefault(d)) => place(d.location),
        _ => u32::MAX,
    }
}

/// A query that gives rows of values.
pub fn values_query(rows: Vec<Vec<Expr>>, columns: Vec<(String, Type)>) -> Query {
    let targets = columns
        .iter()
        .enumerate()
        .map(|(i, (name, ty))| Target { expr: column(0, i, *ty), name: name.clone(), hidden: false })
        .collect();
    let entry = RelEntry { rel: Rel::Values(rows), alias: "*VALUES*".into(), columns };
    Query { rels: vec![entry], from: vec![From::Rel(0)], targets, ..Query::default() }
}

/// A query that gives one row.
fn one_row(row: Vec<Expr>) -> Query {
    let columns = row.iter().enumerate().map(|(i, e)| (format!("column{}", i + 1), e.ty)).collect();
    values_query(vec![row], columns)
}
