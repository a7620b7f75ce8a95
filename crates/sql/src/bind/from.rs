//! FROM: tables, subqueries, functions, joins.

use super::array::subscript_series;
use super::call::{function_columns, series};
use super::names::written;
use super::scope::{Clause, Item, ItemColumns, NOTHING_SEEN};
use super::tree::{at, const_text, kind, list, need, refuse, refuse_at, strings, unexpected, variant};
use super::updatable::{Change, Changed};
use super::written::{Call, WrittenJoin, WrittenRel};
use super::{Binder, coerce, system};
use crate::bound::{Expr, ExprKind, From, JoinKind, MAX_RELS, Query, Rel, RelEntry, Target, Viewed};
use crate::catalog;
use crate::foreign::{Argument, ForeignTable};
use crate::parse::tree::{self, Alias, JoinType, Node, RangeVar, node::Node as Kind};
use ondol_engine::name::{INFORMATION_SCHEMA, PG_CATALOG};
use ondol_engine::view::{OWN_NAME, is_using};
use ondol_engine::{Name, Relation, Table};
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, sqlstate};
use std::sync::Arc;

type Columns = Vec<(String, Expr)>;
/// A relation, its columns, and its name if it has one of its own.
type Seen = (Rel, Vec<(String, Type)>, Option<Name>);

impl<'a> Binder<'a> {
    /// Binds the items of FROM; afterwards the level shows them.
    pub(super) fn bind_from(&mut self, nodes: &'a [Node]) -> SqlResult<Vec<From>> {
        let mut from = Vec::with_capacity(nodes.len());
        for node in nodes {
            let (f, items) = self.bind_from_item(node)?;
            no_conflict(&self.level().hidden, &items)?;
            from.push(f);
            self.level().hidden.extend(items);
        }
        let level = self.level();
        level.items = std::mem::take(&mut level.hidden);
        from.iter().for_each(|f| super::select::nullable_rels(f, false, &mut level.nullable));
        Ok(from)
    }

    fn bind_from_item(&mut self, node: &'a Node) -> SqlResult<(From, Vec<Item>)> {
        match kind(node)? {
            Kind::RangeVar(v) => self.range_var(v),
            Kind::RangeSubselect(s) => {
                let Kind::SelectStmt(q) = kind(need(&s.subquery)?)? else {
                    return Err(unexpected("a subquery in FROM"));
                };
                let query = match s.lateral {
                    true => self.within(Clause::Lateral, |b| b.settled_select(q))?,
                    false => self.settled_select(q)?,
                };
                let columns = query.columns();
                let name = s.alias.as_ref().map_or("", |a| &a.aliasname);
                let added =
                    self.add(Rel::Query(Box::new(query)), columns, name, None, s.alias.as_ref(), -1)?;
                self.write_rel(&added.0, |w| w.lateral = s.lateral);
                Ok(added)
            }
            Kind::RangeFunction(f) => self.range_function(f),
            Kind::JoinExpr(j) => self.join(j),
            Kind::RangeTableSample(s) => Err(at(SqlError::unsupported("TABLESAMPLE"), s.location)),
            Kind::RangeTableFunc(_) => Err(SqlError::unsupported("XMLTABLE")),
            Kind::JsonTable(_) => Err(SqlError::unsupported("JSON_TABLE")),
            other => Err(unexpected(&variant(other))),
        }
    }

    /// Puts a relation into the query, under its name and its columns' names.
    pub(super) fn add(
        &mut self,
        rel: Rel,
        columns: Vec<(String, Type)>,
        name: &str,
        own: Option<Name>,
        alias: Option<&Alias>,
        location: i32,
    ) -> SqlResult<(From, Vec<Item>)> {
        let mut columns = columns;
        if let Some(alias) = alias {
            let what = format!("table \"{}\"", alias.aliasname);
            rename(&mut columns, &what, &strings(&alias.colnames)?, |c| &mut c.0)
                .map_err(|e| at(e, location))?;
        }
        let level = self.level();
        if level.rels.len() == MAX_RELS {
            let message = format!("a query of more than {MAX_RELS} tables is not possible");
            return Err(at(SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message), location));
        }
        let index = level.rels.len() as u16;
        level.rels.push(RelEntry { rel, alias: name.to_string(), columns });
        let item = Item {
            name: name.to_string(),
            own,
            columns: ItemColumns::Rel(index),
            by_name: !name.is_empty(),
            by_column: true,
        };
        let from = From::Rel(index);
        self.write_rel(&from, |w| {
            w.alias = alias.is_some_and(|a| !a.aliasname.starts_with(OWN_NAME));
            w.columns = alias.is_some_and(|a| !a.colnames.is_empty());
        });
        Ok((from, vec![item]))
    }

    /// Notes how a relation was written, if that is wanted.
    fn write_rel(&mut self, from: &From, f: impl FnOnce(&mut WrittenRel)) {
        if let From::Rel(n) = from
            && self.is_verbatim()
        {
            let written = self.level().written.get_or_insert_default();
            f(written.rels.entry(*n).or_default())
        }
    }

    fn range_var(&mut self, v: &'a RangeVar) -> SqlResult<(From, Vec<Item>)> {
        let alias = v.alias.as_ref();
        let name = alias.map_or(v.relname.as_str(), |a| &a.aliasname);
        if v.schemaname.is_empty()
            && let Some(i) = self.find_cte(&v.relname)
        {
            let cte = &mut self.ctes[i];
            cte.with.uses += 1;
            let (number, columns) = (cte.with.number, cte.columns.clone());
            let unstarred = if cte.behind == self.levels.len() { 0 } else { cte.unstarred };
            let added = self.add(Rel::With(number), columns, name, None, alias, v.location)?;
            if let From::Rel(rel) = added.0
                && unstarred > 0
            {
                self.level().unstarred.push((rel, unstarred));
            }
            return Ok(added);
        }
        let ((rel, columns, own), view) = self.relation(v)?;
        let system = own.clone().filter(|_| matches!(rel, Rel::System(_)));
        let added = self.add(rel, columns, name, own.filter(|_| alias.is_none()), alias, v.location)?;
        self.write_rel(&added.0, |w| {
            w.view = view;
            w.system = system
        });
        // What a view names without an alias goes by its own name for who looks at it.
        if self.is_view
            && name.starts_with(OWN_NAME)
            && let From::Rel(n) = added.0
        {
            self.own_named.push((name, n));
            self.level().rels[usize::from(n)].alias = v.relname.clone();
        }
        Ok(added)
    }

    /// A table or a view, with its columns and its name, and the number of a view.
    fn relation(&mut self, v: &RangeVar) -> SqlResult<(Seen, Option<u32>)> {
        refuse_at(!v.catalogname.is_empty(), "a database name before a schema", v.location)?;
        if let Some(found) = self.catalog_relation(v)? {
            return Ok((found, None));
        }
        self.note_written(&v.schemaname);
        let found = self.relation_of(v);
        if let Some(table) = found.as_ref().and_then(|f| f.1.table()) {
            self.name_foreign(table);
            let columns = table.def.shown().iter().map(|c| (c.name.clone(), c.ty)).collect();
            return Ok(((Rel::Table(table.clone()), columns, Some(table.def.full_name())), None));
        }
        if let Some(view) = found.as_ref().and_then(|f| f.1.view()) {
            let columns = view.columns.iter().map(|c| (c.name.clone(), c.ty)).collect();
            let rel = match self.is_verbatim() {
                true => Rel::Values(Vec::new()),
                false => Rel::Query(Box::new(self.view_query(view)?)),
            };
            return Ok(((rel, columns, Some(view.full_name())), Some(view.id)));
        }
        if let Some((name, Relation::Sequence(sequence))) = &found {
            let columns =
                [("last_value", TypeId::INT8), ("log_cnt", TypeId::INT8), ("is_called", TypeId::BOOL)];
            let columns = columns.map(|(n, t)| (n.to_string(), Type::new(t))).to_vec();
            let shown = v.relname.clone();
            return Ok(((Rel::Sequence(sequence.def.id, shown), columns, Some(name.clone())), None));
        }
        if let Some((name, columns)) = system_view(v) {
            let columns = columns.iter().map(|(n, t)| (n.to_string(), Type::new(*t))).collect();
            return Ok(((Rel::System(name), columns, Some(Name::new(PG_CATALOG, name))), None));
        }
        let error = no_relation(v);
        if v.schemaname.is_empty() && self.later_ctes.contains(&v.relname.as_str()) {
            let detail = format!(
                "There is a WITH item named \"{}\", but it cannot be referenced from this part of the query.",
                v.relname
            );
            let hint = "Use WITH RECURSIVE, or re-order the WITH items to remove forward references.";
            return Err(error.detail(detail).hint(hint));
        }
        Err(error)
    }

    /// A relation of the catalogue: one with rows of its own, or the query that it is.
    fn catalog_relation(&mut self, v: &RangeVar) -> SqlResult<Option<Seen>> {
        let Some(r) = self.system_relation(v) else { return Ok(None) };
        let columns = r.columns.iter().map(|c| (c.name.to_string(), Type::new(c.ty))).collect();
        let rel = match catalog::query_of(self.catalog, r)? {
            Some(mut query) if !self.is_verbatim() => {
                self.count_query()?;
                query.of_view = Some(Viewed::System(r.name));
                Rel::Query(Box::new(query))
            }
            _ => Rel::System(r.key),
        };
        let schema = if r.schema == "pg_catalog" { PG_CATALOG } else { INFORMATION_SCHEMA };
        Ok(Some((rel, columns, Some(Name::new(schema, r.name)))))
    }

    /// The relation of the catalogue that a name means: by the path, if it has no schema.
    fn system_relation(&self, v: &RangeVar) -> Option<&'static catalog::Relation> {
        if !v.catalogname.is_empty() {
            return None;
        }
        if !v.schemaname.is_empty() {
            return catalog::relation(&v.schemaname, &v.relname);
        }
        for schema in &self.path.schemas {
            match *schema {
                PG_CATALOG | INFORMATION_SCHEMA => {
                    let found = catalog::relation(self.catalog.schema_name(*schema), &v.relname);
                    if found.is_some() {
                        return found;
                    }
                }
                other if self.catalog.relations.contains_key(&Name::new(other, &*v.relname)) => return None,
                _ => {}
            }
        }
        None
    }

    /// The table that a statement changes, as relation 0; of a view's columns it is seen what they are.
    pub(super) fn target_table(
        &mut self,
        relation: &'a Option<RangeVar>,
        change: Change,
    ) -> SqlResult<(Changed, From, Vec<Item>)> {
        let v = relation.as_ref().ok_or_else(|| unexpected("a missing relation"))?;
        let changed = self.changed(v, change)?;
        let table = changed.table.clone();
        let alias = v.alias.as_ref();
        if let Some(view) = &changed.view {
            let columns = table.def.shown().iter().map(|c| (c.name.clone(), c.ty)).collect();
            let name = alias.map_or(v.relname.as_str(), |a| &a.aliasname);
            let own = alias.is_none().then(|| self.relation_of(v).map(|f| f.0)).flatten();
            let (from, mut items) = self.add(Rel::Table(table), columns, name, own, None, v.location)?;
            let mut shown = view.columns.clone();
            if let Some(alias) = alias {
                let what = format!("table \"{}\"", alias.aliasname);
                rename(&mut shown, &what, &strings(&alias.colnames)?, |c| &mut c.0)
                    .map_err(|e| at(e, v.location))?;
            }
            items.iter_mut().for_each(|i| i.columns = ItemColumns::List(shown.clone()));
            return Ok((changed, from, items));
        }
        let name = alias.map_or(v.relname.as_str(), |a| &a.aliasname);
        let columns = table.def.shown().iter().map(|c| (c.name.clone(), c.ty)).collect();
        let own = alias.is_none().then(|| table.def.full_name());
        let (from, items) = self.add(Rel::Table(table.clone()), columns, name, own, alias, v.location)?;
        Ok((changed, from, items))
    }

    /// A table by name, for statements that change it.
    pub(super) fn table(&self, v: &RangeVar) -> SqlResult<Arc<Table>> {
        let table = self.any_table(v)?;
        if table.def.is_foreign() {
            let message = format!("cannot change foreign table \"{}\"", table.def.name);
            return Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message)
                .detail("Foreign tables are read only; no index or constraint is made on them."));
        }
        Ok(table)
    }

    /// The same, and foreign ones.
    pub(super) fn any_table(&self, v: &RangeVar) -> SqlResult<Arc<Table>> {
        self.note_written(&v.schemaname);
        refuse_at(!v.catalogname.is_empty(), "a database name before a schema", v.location)?;
        if let Some(r) = self.system_relation(v) {
            return Err(no_change(r, v.location));
        }
        match self.relation_of(v).and_then(|f| f.1.table()) {
            Some(t) => Ok(t.clone()),
            None if matches!(self.relation_of(v), Some((_, Relation::Sequence(_)))) => {
                let message = format!("cannot change sequence \"{}\"", v.relname);
                Err(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message))
            }
            None if self.relation_of(v).is_some_and(|f| f.1.view().is_some()) => {
                Err(at(SqlError::unsupported("this statement on a view"), v.location))
            }
            None if system_view(v).is_some() => {
                let message = format!("cannot change system view \"{}\"", v.relname);
                Err(at(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message), v.location))
            }
            None => Err(no_relation(v)),
        }
    }

    fn range_function(&mut self, f: &'a tree::RangeFunction) -> SqlResult<(From, Vec<Item>)> {
        let mut calls = Vec::with_capacity(f.functions.len());
        let mut definitions = &f.coldeflist[..];
        for function in &f.functions {
            let [call, more @ ..] = list(function)? else { return Err(unexpected("a function in FROM")) };
            let more = more.iter().find_map(|d| match &d.node {
                Some(Kind::List(l)) if !l.items.is_empty() => Some(&l.items[..]),
                _ => None,
            });
            if definitions.is_empty() {
                definitions = more.unwrap_or_default();
            }
            let Kind::FuncCall(c) = kind(call)? else {
                return Err(SqlError::unsupported("an expression as a table"));
            };
            calls.push(c.as_ref());
        }
        if let [c] = calls[..]
            && let called = self.function_name(&c.funcname, c.location)?
            && super::json::is_defined(called.name)
            && called.may_be_builtin()
            && !called.registered
            && (!definitions.is_empty() || super::json::needs_definitions(called.name))
        {
            return self.defined_function(f, c, called.name, definitions);
        }
        if let Some(definition) = definitions.first() {
            // What there is no function of is told first.
            self.within(Clause::FromFunction, |b| b.rows_from(&calls, false))?;
            let message = "a column definition list is only allowed for functions returning \"record\"";
            let location = match kind(definition)? {
                Kind::ColumnDef(c) => c.location,
                _ => -1,
            };
            return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), location));
        }
        let Some(c) = calls.first().copied() else { return Err(unexpected("ROWS FROM of nothing")) };
        let called = self.function_name(&c.funcname, c.location)?;
        let (name, registered, builtin) = (called.name, called.registered, called.may_be_builtin());
        let label = f.alias.as_ref().map_or(name, |a| &a.aliasname);
        let simple = c.agg_order.is_empty()
            && c.agg_filter.is_none()
            && c.over.is_none()
            && !c.agg_within_group
            && !c.agg_star
            && !c.agg_distinct;
        let (may_spread, simple) = (simple, simple && !c.func_variadic);
        let is_unnest = name == "unnest" && simple && !registered && builtin;
        let several = super::set::several(name).filter(|_| simple && !registered && builtin);
        let many = f.ordinality && !is_unnest && several.is_none()
            || calls.len() > 1
            || simple
                && !registered
                && builtin
                && (super::set::is_array_of_rows(name) || super::json::gives_row(name));
        let (rel, mut columns, scalar) = if many {
            let mut query = self.within(Clause::FromFunction, |b| b.rows_from(&calls, f.ordinality))?;
            // Its column has a name of its own: what the function is called then means the column as well.
            let is_named = builtin && super::json::column_name(name).is_some();
            query.is_call = is_named && calls.len() == 1 && !f.ordinality;
            let columns = query.columns();
            let one = columns.len() == 1 + usize::from(f.ordinality)
                && calls.len() == 1
                && !(builtin && super::json::column_name(name).is_some());
            (Rel::Query(Box::new(query)), columns, one)
        } else if let Some(several) = several {
            let query =
                self.within(Clause::FromFunction, |b| b.columns_in_from(several, name, c, f.ordinality))?;
            let columns = query.columns();
            (Rel::Query(Box::new(query)), columns, false)
        } else if name == super::set::EXPAND && simple && c.args.len() == 1 {
            let mut query = self.within(Clause::FromFunction, |b| b.unnest(c, true))?;
            for (target, name) in query.targets.iter_mut().zip(["x", "n"]) {
                target.name = name.into();
                if name == "n" {
                    let place = std::mem::replace(
                        &mut target.expr,
                        super::constant(Value::Null, Type::INT4, u32::MAX),
                    );
                    let kind = ExprKind::Cast { arg: Box::new(place), explicit: false };
                    target.expr = Expr { kind, ty: Type::INT4, at: u32::MAX };
                }
            }
            let columns = query.columns();
            (Rel::Query(Box::new(query)), columns, false)
        } else if let Some(r) =
            catalog::function_relation(name, c.args.len()).filter(|_| simple && !registered)
        {
            let columns = r.columns.iter().map(|c| (c.name.to_string(), Type::new(c.ty))).collect();
            (Rel::System(r.key), columns, false)
        } else if is_unnest {
            let query = self.within(Clause::FromFunction, |b| b.unnest(c, f.ordinality))?;
            let columns = query.columns();
            match &columns[..] {
                [(_, ty)] if super::row::is_row(ty.id) && !self.is_verbatim() => {
                    let query = self.columns_of_row(Rel::Query(Box::new(query)), columns, None)?;
                    let columns = query.columns();
                    (Rel::Query(Box::new(query)), columns, false)
                }
                _ => (Rel::Query(Box::new(query)), columns, c.args.len() == 1),
            }
        } else if !registered && builtin && crate::foreign::FUNCTIONS.contains(&name) && simple {
            let table = self.foreign_table(name, c)?;
            (Rel::Foreign(table.clone()), table.columns().to_vec(), false)
        } else if name == "generate_series" && simple && builtin {
            let args = self.within(Clause::FromFunction, |b| b.exprs(&c.args))?;
            let rel = series(self, args, c.location)?;
            let ty = match &rel {
                Rel::Series { start, .. } => start.ty,
                _ => Type::INT4,
            };
            (rel, vec![(name.to_string(), ty)], true)
        } else if name == "generate_subscripts" && simple && !registered && builtin {
            let args = self.within(Clause::FromFunction, |b| b.exprs(&c.args))?;
            let args = args.into_iter().map(coerce::as_array).collect();
            let rel = subscript_series(self, args, c.location)?;
            (rel, vec![(name.to_string(), Type::INT4)], true)
        } else if registered && may_spread {
            let call = self.within(Clause::FromFunction, |b| {
                b.registered_call(called, &c.args, c.func_variadic, c.location)
            })?;
            let columns = function_columns(&call.function);
            let scalar = !matches!(call.function.returns, ondol_engine::Returns::Rows { .. });
            let rel = Rel::Function { function: call.function, args: call.args };
            match columns.first().filter(|c| scalar && super::row::is_row(c.1.id)) {
                Some(c) if self.is_verbatim() => {
                    let fields = ondol_types::user::composite::fields(c.1.id).unwrap_or_default();
                    let columns = fields.iter().map(|p| (p.name.clone(), p.of().base())).collect();
                    (rel, columns, false)
                }
                Some(_) => {
                    let query = self.columns_of_row(rel, columns, None)?;
                    let columns = query.columns();
                    (Rel::Query(Box::new(query)), columns, false)
                }
                None => (rel, columns, scalar),
            }
        } else {
            // A function of one value is a table of one row.
            let (query, _) = self.within(Clause::FromFunction, |b| {
                b.nested(Clause::FromFunction, |b| {
                    let expr = b.func_call(c)?;
                    let expr = b.settle(expr)?;
                    let target = Target { expr, name: name.to_string(), hidden: false };
                    Ok(Query { targets: vec![target], ..Query::default() })
                })
            })?;
            let columns = query.columns();
            (Rel::Query(Box::new(query)), columns, true)
        };
        if scalar && let Some(only) = columns.first_mut() {
            // The alias of a function that gives one column is the column's as well.
            only.0 = label.to_string();
        }
        let written = match self.is_verbatim() {
            true => self.written_calls(&calls)?,
            false => Vec::new(),
        };
        let added = self.add(rel, columns, label, None, f.alias.as_ref(), c.location)?;
        self.write_rel(&added.0, |w| {
            w.lateral = f.lateral || written.iter().flat_map(|c| &c.args).any(uses_own_level);
            w.rows_from = f.is_rowsfrom;
            w.ordinality = f.ordinality;
            w.calls = written;
        });
        Ok(added)
    }

    /// A function whose rows have the columns that a list says.
    fn defined_function(
        &mut self,
        f: &'a tree::RangeFunction,
        c: &'a tree::FuncCall,
        name: &'a str,
        definitions: &'a [Node],
    ) -> SqlResult<(From, Vec<Item>)> {
        if definitions.is_empty() {
            let message = "a column definition list is required for functions returning \"record\"";
            return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), c.location));
        }
        let fields = self.definitions(definitions)?;
        let query = self.within(Clause::FromFunction, |b| b.defined_rows(name, c, &fields, f.ordinality))?;
        let columns = query.columns();
        let label = f.alias.as_ref().map_or(name, |a| &a.aliasname);
        let written = match self.is_verbatim() {
            true => {
                let mut args = self.within(Clause::FromFunction, |b| b.operands(&c.args))?;
                if let Some(json) = args.pop() {
                    args.push(self.cast(json, Type::new(super::json::taken_by(name)), false)?)
                }
                vec![Call { name: name.to_string(), registered: None, args }]
            }
            false => Vec::new(),
        };
        let rel = Rel::Query(Box::new(query));
        let added = self.add(rel, columns, label, None, f.alias.as_ref(), c.location)?;
        self.write_rel(&added.0, |w| {
            w.lateral = f.lateral || written.iter().flat_map(|c| &c.args).any(uses_own_level);
            w.ordinality = f.ordinality;
            w.calls = written;
            w.definitions = fields;
        });
        Ok(added)
    }

    /// A relation of one column of rows as a query of their fields.
    pub(super) fn columns_of_row(
        &mut self,
        mut rel: Rel,
        columns: Vec<(String, Type)>,
        fields: Option<super::row::Fields>,
    ) -> SqlResult<Query> {
        self.count_query()?;
        match &mut rel {
            Rel::Function { args, .. } => {
                for e in args {
                    let arg = std::mem::replace(e, super::select::null(Type::UNKNOWN));
                    *e = super::domain::one_level_in(arg);
                }
            }
            Rel::Query(query) => coerce::deepen(query),
            _ => {}
        }
        let row = columns.first().map_or(Type::TEXT, |c| c.1);
        let row = super::scope::column(0, 0, row);
        let Some(fields) = fields.or_else(|| super::row::fields_of_type(row.ty.id)) else {
            let message = "a column definition list is required for functions returning \"record\"";
            return Err(SqlError::new(sqlstate::SYNTAX_ERROR, message));
        };
        let each = |(i, f): (usize, &(String, Type))| {
            let expr = self.field_at(row.clone(), i, f);
            Target { expr, name: f.0.clone(), hidden: false }
        };
        let targets = fields.iter().enumerate().map(each).collect();
        let entry = RelEntry { rel, alias: super::row::ROWS.into(), columns };
        Ok(Query { rels: vec![entry], from: vec![From::Rel(0)], targets, ..Query::default() })
    }

    /// The calls of a function in FROM, as they are written.
    fn written_calls(&mut self, calls: &[&'a tree::FuncCall]) -> SqlResult<Vec<Call>> {
        let mut written = Vec::with_capacity(calls.len());
        for c in calls {
            let called = self.function_name(&c.funcname, c.location)?;
            let (registered, args) = match called.registered {
                true => {
                    let call = self.within(Clause::FromFunction, |b| {
                        b.registered_call(called, &c.args, c.func_variadic, c.location)
                    })?;
                    (Some(call.function.id), call.args)
                }
                false
                    if super::set::gives_rows(called.name)
                        || crate::foreign::FUNCTIONS.contains(&called.name) =>
                {
                    (None, self.within(Clause::FromFunction, |b| b.operands(&c.args))?)
                }
                false => {
                    let call = self.within(Clause::FromFunction, |b| b.func_call(c))?;
                    match call.kind {
                        ExprKind::Call { args, .. } => (None, args),
                        _ => (None, self.within(Clause::FromFunction, |b| b.operands(&c.args))?),
                    }
                }
            };
            written.push(Call { name: called.name.to_string(), registered, args })
        }
        Ok(written)
    }

    /// Notes a table to be opened, if it is a foreign one.
    pub(super) fn name_foreign(&mut self, table: &Arc<Table>) {
        if table.def.is_foreign() {
            self.opened.named.entry(table.def.id).or_insert_with(|| table.clone());
        }
    }

    fn foreign_table(&mut self, name: &str, c: &tree::FuncCall) -> SqlResult<Arc<dyn ForeignTable>> {
        let Some(foreign) = self.foreign else {
            return Err(at(SqlError::unsupported(format_args!("{name} in a function's body")), c.location));
        };
        let mut arguments: Vec<Argument> = Vec::with_capacity(c.args.len());
        for node in &c.args {
            let (option, value) = match kind(node)? {
                Kind::NamedArgExpr(n) => (Some(n.name.clone()), kind(need(&n.arg)?)?),
                value => (None, value),
            };
            let value = match value {
                Kind::AConst(v) if v.isnull => None,
                Kind::AConst(v) => Some(const_text(v)?),
                _ => {
                    let feature = format!("an argument of {name} that is not a constant");
                    return Err(at(SqlError::unsupported(feature), c.location));
                }
            };
            if let Some(option) =
                option.as_ref().filter(|o| arguments.iter().any(|a| a.name.as_ref() == Some(o)))
            {
                let message = format!("argument name \"{option}\" used more than once");
                return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), c.location));
            }
            arguments.push(Argument { name: option, value });
        }
        self.opened.by_functions = true;
        // Before anything is told of a file.
        crate::needs::check(self.catalog, self.roles.0, &[super::rights::innodb()], &mut |_| Ok(Vec::new()))?;
        let table = foreign.open(name, &arguments).map_err(|e| at(e, c.location))?;
        let notice = table.notice().map(|notice| ("00000", notice));
        self.notices.extend(notice.filter(|notice| !self.notices.contains(notice)));
        Ok(table)
    }

    fn join(&mut self, j: &'a tree::JoinExpr) -> SqlResult<(From, Vec<Item>)> {
        refuse(j.join_using_alias.is_some(), "an alias for USING")?;
        let (left, left_items) = self.bind_from_item(need(&j.larg)?)?;
        let level = self.level();
        let before = level.hidden.len();
        level.hidden.extend(left_items);
        // A side that is there without the other cannot be made of it.
        let is_free = matches!(j.jointype(), JoinType::JoinInner | JoinType::JoinLeft);
        let seen_from = level.own_hidden;
        if !is_free {
            level.own_hidden = NOTHING_SEEN;
        }
        let right = self.bind_from_item(need(&j.rarg)?);
        self.level().own_hidden = seen_from;
        let left_items = self.level().hidden.split_off(before);
        let (right, right_items) = right?;
        no_conflict(&left_items, &right_items)?;
        let (kind, turned) = match j.jointype() {
            JoinType::JoinInner => (JoinKind::Inner, false),
            JoinType::JoinLeft => (JoinKind::Left, false),
            JoinType::JoinRight => (JoinKind::Left, true),
            JoinType::JoinFull => (JoinKind::Full, false),
            other => return Err(unexpected(&format!("{other:?}"))),
        };
        let (on, items) = if j.is_natural || !j.using_clause.is_empty() {
            self.join_using(j, left_items, right_items)?
        } else {
            let count = left_items.len();
            let mut items = left_items;
            items.extend(right_items);
            let level = self.level();
            let shown = std::mem::replace(&mut level.items, items);
            let on = match j.quals.as_deref() {
                Some(q) => self
                    .within(Clause::On, |b| b.expr(q))
                    .and_then(|e| self.condition(e, "JOIN/ON"))
                    .map(Some),
                None => Ok(None),
            };
            let items = std::mem::replace(&mut self.level().items, shown);
            debug_assert!(items.len() >= count);
            (on?, items)
        };
        let was_using = j.alias.as_ref().is_some_and(|a| self.is_view && is_using(&a.aliasname));
        let items = match &j.alias {
            // A view's: it stands for none.
            _ if was_using => items,
            Some(alias) => vec![self.join_alias(alias, &items)?],
            None => items,
        };
        if self.is_verbatim() {
            let (first, last) = (rels_of(&left).0, rels_of(&right).1);
            // NATURAL joins of nothing are joins by no condition.
            let using = on.is_some() && (was_using || j.is_natural || !j.using_clause.is_empty());
            let join = WrittenJoin { first, last, turned, using };
            self.level().written.get_or_insert_default().joins.push(join);
        }
        if kind != JoinKind::Inner {
            self.level().has_outer_join = true
        }
        let (left, right) = if turned { (right, left) } else { (left, right) };
        Ok((From::Join { kind, left: Box::new(left), right: Box::new(right), on }, items))
    }

    /// All columns that items show.
    fn shown(&mut self, items: &[Item]) -> Columns {
        let level = self.level();
        items.iter().filter(|i| i.by_column).flat_map(|i| level.item_columns(i)).collect()
    }

    /// USING and NATURAL: the common columns are compared, and shown once, first.
    fn join_using(
        &mut self,
        j: &'a tree::JoinExpr,
        mut left_items: Vec<Item>,
        mut right_items: Vec<Item>,
    ) -> SqlResult<(Option<Expr>, Vec<Item>)> {
        let left = self.shown(&left_items);
        let right = self.shown(&right_items);
        let names: Vec<String> = if j.is_natural {
            let mut names: Vec<String> = Vec::new();
            for (n, _) in &left {
                if right.iter().any(|r| r.0 == *n) && !names.contains(n) {
                    names.push(n.clone());
                }
            }
            names
        } else {
            strings(&j.using_clause)?.into_iter().map(String::from).collect()
        };
        let mut merged: Columns = Vec::with_capacity(left.len() + right.len());
        let mut tests = Vec::with_capacity(names.len());
        for (i, name) in names.iter().enumerate() {
            if names[..i].contains(name) {
                let message = format!("column name \"{name}\" appears more than once in USING clause");
                return Err(SqlError::new(sqlstate::DUPLICATE_COLUMN, message));
            }
            let l = the_column(&left, name, "left")?;
            let r = the_column(&right, name, "right")?;
            tests.push(self.operator("=", Some(l.clone()), r.clone(), u32::MAX)?);
            let ty = coerce::common_type(&[&l, &r], "JOIN/USING")?;
            let whole = |e: &Expr| e.ty.id == ty.id;
            let expr = match j.jointype() {
                JoinType::JoinRight => self.cast(r, ty, false)?,
                JoinType::JoinFull => {
                    let both = vec![self.cast(l, ty, false)?, self.cast(r, ty, false)?];
                    Expr { kind: ExprKind::Coalesce(both), ty, at: u32::MAX }
                }
                JoinType::JoinInner if !whole(&l) && whole(&r) => r,
                _ => self.cast(l, ty, false)?,
            };
            merged.push((name.clone(), expr));
        }
        let rest = |c: &&(String, Expr)| !names.contains(&c.0);
        merged.extend(left.iter().filter(rest).cloned());
        merged.extend(right.iter().filter(rest).cloned());
        let on = match tests.pop() {
            None => None,
            Some(only) if tests.is_empty() => Some(only),
            Some(last) => {
                tests.push(last);
                Some(Expr { kind: ExprKind::And(tests), ty: Type::BOOL, at: u32::MAX })
            }
        };
        left_items.append(&mut right_items);
        for item in &mut left_items {
            item.by_column = false;
        }
        left_items.push(Item {
            name: String::new(),
            own: None,
            columns: ItemColumns::List(merged),
            by_name: false,
            by_column: true,
        });
        Ok((on, left_items))
    }

    /// A join with an alias hides what it joins.
    fn join_alias(&mut self, alias: &Alias, items: &[Item]) -> SqlResult<Item> {
        let mut columns = self.shown(items);
        let what = format!("table \"{}\"", alias.aliasname);
        rename(&mut columns, &what, &strings(&alias.colnames)?, |c| &mut c.0)?;
        Ok(Item {
            name: alias.aliasname.clone(),
            own: None,
            columns: ItemColumns::List(columns),
            by_name: true,
            by_column: true,
        })
    }
}

/// The first and the last relation of an item of FROM as it is written.
fn rels_of(from: &From) -> (u16, u16) {
    match from {
        From::Rel(n) => (*n, *n),
        From::Join { left, right, .. } => {
            let (l, r) = (rels_of(left), rels_of(right));
            (l.0.min(r.0), l.1.max(r.1))
        }
    }
}

/// Whether an expression uses columns of the query that it stands in the FROM of.
fn uses_own_level(e: &Expr) -> bool {
    let mut found = false;
    crate::bound::walk_expr(e, 0, &mut |e, level| {
        found |= matches!(e.kind, ExprKind::Column { depth, .. } if depth == level);
        !found
    });
    found
}

fn the_column(columns: &Columns, name: &str, side: &str) -> SqlResult<Expr> {
    let mut found = columns.iter().filter(|c| c.0 == name);
    match (found.next(), found.next()) {
        (Some(c), None) => Ok(c.1.clone()),
        (Some(_), Some(_)) => {
            let message = format!("common column name \"{name}\" appears more than once in {side} table");
            Err(SqlError::new(sqlstate::AMBIGUOUS_COLUMN, message))
        }
        (None, _) => {
            let message =
                format!("column \"{name}\" specified in USING clause does not exist in {side} table");
            Err(SqlError::new(sqlstate::UNDEFINED_COLUMN, message))
        }
    }
}

/// Gives the first columns other names.
pub(super) fn rename<C>(
    columns: &mut [C],
    what: &str,
    names: &[&str],
    of: impl Fn(&mut C) -> &mut String,
) -> SqlResult<()> {
    if names.len() > columns.len() {
        let message =
            format!("{what} has {} columns available but {} columns specified", columns.len(), names.len());
        return Err(SqlError::new(sqlstate::INVALID_COLUMN_REFERENCE, message));
    }
    for (column, name) in columns.iter_mut().zip(names) {
        *of(column) = (*name).to_string();
    }
    Ok(())
}

/// A name stands for one thing in FROM, but for two relations of that name, each in a schema of its own.
fn no_conflict(a: &[Item], b: &[Item]) -> SqlResult<()> {
    for item in b.iter().filter(|i| i.by_name) {
        let are_two = |o: &Item| o.own.is_some() && item.own.is_some() && o.own != item.own;
        if a.iter().any(|o| o.by_name && o.name == item.name && !are_two(o)) {
            let message = format!("table name \"{}\" specified more than once", item.name);
            return Err(SqlError::new(sqlstate::DUPLICATE_ALIAS, message));
        }
    }
    Ok(())
}

/// The system view of a name, if it is one.
fn system_view(v: &RangeVar) -> Option<system::View> {
    system::view(&v.relname).filter(|_| matches!(v.schemaname.as_str(), "" | "pg_catalog" | "public"))
}

/// The error of a table that is not there, or that is PostgreSQL's own, which nobody changes.
pub fn no_relation(v: &RangeVar) -> SqlError {
    if let Some(r) = catalog::relation(&v.schemaname, &v.relname).filter(|_| v.catalogname.is_empty()) {
        return no_change(r, v.location);
    }
    let message = format!("relation \"{}\" does not exist", written(v));
    at(SqlError::new(sqlstate::UNDEFINED_TABLE, message), v.location)
}

pub fn no_change(r: &catalog::Relation, location: i32) -> SqlError {
    let what = if r.is_view { "view" } else { "catalog" };
    let message = format!("permission denied: \"{}\" is a system {what}", r.name);
    at(SqlError::new("42501", message), location)
}
