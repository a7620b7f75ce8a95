//! Rows as values: `ROW(...)`, the row of a relation by its name, fields, and assignment to them.
//!
//! A row is a call of a function whose first argument is a template (`ondol_types::catalog::record`), which
//! has the row's type, and of a `record` the names and types of its fields. What fields an expression of type
//! `record` has is told by what it is made of: a row that is written out, or a column of a query that has one
//! there.

use super::coerce::{self, can_coerce};
use super::expr::truth;
use super::scope::{Item, ItemColumns, Level, column};
use super::select::null;
use super::special::equality_of_rows;
use super::tree::{at, at_expr, kind, need, place, strings, unexpected};
use super::written::Note;
use super::{Binder, constant, name_of};
use crate::bound::{Expr, ExprKind, From, Query, Rel, RelEntry, Target};
use crate::parse::tree::{Node, RowExpr, node::Node as Kind};
use ondol_types::cast::CastContext;
use ondol_types::catalog::record;
use ondol_types::func::id;
use ondol_types::user::composite;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, sqlstate};

/// What a relation of rows is called in a query of their fields.
pub const ROWS: &str = "*ROWS*";

/// The names and types of a row's fields.
pub type Fields = Vec<(String, Type)>;

/// The fields of a row that is written out, as expressions.
pub fn parts(e: &Expr) -> Option<&[Expr]> {
    match &e.kind {
        ExprKind::Call { func, args } if *func == id::ROW => args.get(1..),
        _ => None,
    }
}

/// The fields that a type tells.
pub fn fields_of_type(ty: TypeId) -> Option<Fields> {
    composite::fields(ty).map(|f| f.iter().map(|p| (p.name.clone(), p.of())).collect())
}

/// Whether fields of a type, or of fields', are a domain's.
pub fn has_domains(ty: TypeId) -> bool {
    composite::fields(ty).is_some() && ty.user().is_some_and(|u| u.has_domains())
}

/// Whether it is a type of rows.
pub fn is_row(ty: TypeId) -> bool {
    record::is_row(ty)
}

fn integer(n: usize) -> Expr {
    constant(Value::Int4(n as i32), Type::INT4, u32::MAX)
}

/// A row of a type, of fields that have the types that it asks for.
pub fn row_of(ty: TypeId, fields: &Fields, values: Vec<Expr>, at: u32) -> Expr {
    let settled: Fields = fields.iter().map(|(n, t)| (n.clone(), t.base())).collect();
    let template = constant(record::template(ty, &settled), Type::new(ty), u32::MAX);
    let args = std::iter::once(template).chain(values.into_iter().map(coerce::shown)).collect();
    Expr { kind: ExprKind::Call { func: id::ROW, args }, ty: Type::new(ty), at }
}

fn cannot_cast(from: TypeId, to: TypeId, at: u32) -> SqlError {
    let message = format!("cannot cast type {} to {}", name_of(from), name_of(to));
    at_expr(SqlError::new(sqlstate::CANNOT_COERCE, message), at)
}

/// The type of a part of a value that `nodes` say, if it has one.
pub(super) fn part_type(ty: Type, nodes: &[Node]) -> Option<Type> {
    let (first, rest) = match nodes.split_first() {
        Some(split) => split,
        None => return Some(ty),
    };
    match kind(first).ok()? {
        Kind::String(s) => {
            let fields = fields_of_type(ty.base().id)?;
            part_type(fields.iter().find(|f| f.0 == s.sval)?.1, rest)
        }
        _ => {
            let indices = |n: &Node| match &n.node {
                Some(Kind::AIndices(i)) => Some(i.is_slice),
                _ => None,
            };
            let subscripts: Vec<bool> = nodes.iter().map_while(indices).collect();
            let item = if subscripts.contains(&true) { ty.base() } else { ty.base().element()? };
            part_type(item, &nodes[subscripts.len()..])
        }
    }
}

impl<'a> Binder<'a> {
    /// `ROW(...)`
    pub(super) fn row_constructor(&mut self, r: &'a RowExpr) -> SqlResult<Expr> {
        let values = self.expanded(&r.args)?;
        if values.len() > record::MAX_FIELDS {
            let message = format!("ROW expressions can have at most {} entries", record::MAX_FIELDS);
            return Err(at(SqlError::new("54011", message), r.location));
        }
        let fields =
            values.iter().enumerate().map(|(i, e)| (format!("f{}", i + 1), Type::new(e.ty.id))).collect();
        let row = row_of(TypeId::RECORD, &fields, values, place(r.location));
        Ok(self.noted(row, || Note::Row))
    }

    /// Expressions of a list in which `t.*` and `(row).*` stand for their columns.
    pub(super) fn expanded(&mut self, nodes: &'a [Node]) -> SqlResult<Vec<Expr>> {
        let mut list = Vec::with_capacity(nodes.len());
        for node in nodes {
            match self.star_of(node)? {
                Some(columns) => list.extend(columns.into_iter().map(|c| c.1)),
                None => list.push(self.operand(node)?),
            }
        }
        Ok(list)
    }

    /// What `t.*` or `(row).*` stands for; `None` of anything else.
    pub(super) fn star_of(&mut self, node: &'a Node) -> SqlResult<Option<Vec<(String, Expr)>>> {
        let is_star = |n: &Node| matches!(n.node, Some(Kind::AStar(_)));
        match kind(node)? {
            Kind::ColumnRef(c) => {
                let Some((_, names)) = c.fields.split_last().filter(|(last, _)| is_star(last)) else {
                    return Ok(None);
                };
                let here = place(c.location);
                let columns = self.star(&strings(names)?, c.location)?;
                Ok(Some(columns.into_iter().map(|(n, e)| (n, self.placed(e, here))).collect()))
            }
            Kind::AIndirection(i) => {
                let Some((_, before)) = i.indirection.split_last().filter(|(last, _)| is_star(last)) else {
                    return Ok(None);
                };
                let arg = self.operand(need(&i.arg)?)?;
                let row = self.indirected(arg, before)?;
                self.all_fields(row).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn all_fields(&mut self, row: Expr) -> SqlResult<Vec<(String, Expr)>> {
        let Some(fields) = self.fields_of(&row) else {
            let error = if row.ty.id == TypeId::RECORD {
                SqlError::new(sqlstate::WRONG_OBJECT_TYPE, "record type has not been registered")
            } else {
                let message = format!("type {} is not composite", name_of(row.ty.id));
                SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message)
            };
            return Err(at_expr(error, row.at));
        };
        let each = |(i, f): (usize, &(String, Type))| (f.0.clone(), self.field_at(row.clone(), i, f));
        Ok(fields.iter().enumerate().map(each).collect())
    }

    /// `(row).name`
    pub(super) fn field(&mut self, row: Expr, name: &str) -> SqlResult<Expr> {
        let here = row.at;
        let fields = self.fields_of(&row);
        if let Some((i, field)) = fields.iter().flatten().enumerate().find(|(_, f)| f.0 == name) {
            return Ok(self.field_at(row, i, field));
        }
        let of = row.ty.id;
        if let Some(call) = self.function_of_row(name, &row)? {
            return Ok(call);
        }
        let (state, message) = if of == TypeId::RECORD {
            let message = format!("could not identify column \"{name}\" in record data type");
            (sqlstate::UNDEFINED_COLUMN, message)
        } else if fields.is_some() {
            let message = format!("column \"{name}\" not found in data type {}", name_of(of));
            (sqlstate::UNDEFINED_COLUMN, message)
        } else {
            let message = format!(
                "column notation .{name} applied to type {}, which is not a composite type",
                name_of(of)
            );
            (sqlstate::WRONG_OBJECT_TYPE, message)
        };
        let here = if here >= super::written::FIRST { u32::MAX } else { here };
        Err(at_expr(SqlError::new(state, message), here))
    }

    /// A field by its place.
    pub(super) fn field_at(&self, row: Expr, i: usize, (name, ty): &(String, Type)) -> Expr {
        let here = row.at;
        if let Some(part) = parts(&row).and_then(|p| p.get(i)).filter(|_| !self.is_verbatim()) {
            let unknown = part.ty.id == TypeId::UNKNOWN;
            return if unknown { part.clone() } else { coerce::of_length(part.clone(), ty.base()) };
        }
        let here = if self.is_verbatim() { u32::MAX } else { here };
        let args = vec![row, integer(i)];
        // What nothing gave a type is text.
        let ty = if ty.id == TypeId::UNKNOWN { &Type::TEXT } else { ty };
        let plain = Type::new(ty.base().id);
        let call = Expr { kind: ExprKind::Call { func: id::FIELD, args }, ty: plain, at: here };
        self.noted(coerce::of_length(call, ty.base()), || Note::Field(name.clone()))
    }

    /// What fields a row has; `None` where that is not known.
    pub(super) fn fields_of(&self, e: &Expr) -> Option<Fields> {
        fields_of_type(e.ty.id).or_else(|| {
            let scopes: Vec<&[RelEntry]> = self.levels.iter().map(|l| &l.rels[..]).collect();
            (e.ty.id == TypeId::RECORD).then(|| self.made_with(e, &scopes, None)).flatten()
        })
    }

    /// The fields of a `record`, by what it is made of. `scopes`: the relations of the queries around it, its
    /// own query's last, and that query, if it is one that was bound already.
    fn made_with(&self, e: &Expr, scopes: &[&[RelEntry]], of: Option<&Query>) -> Option<Fields> {
        if let Some(fields) = fields_of_type(e.ty.id) {
            return Some(fields);
        }
        match &e.kind {
            ExprKind::Call { func, args } if *func == id::ROW => match &args.first()?.kind {
                ExprKind::Const(Value::Opaque(ty, bytes)) => Some(record::template_fields(*ty, bytes)),
                _ => None,
            },
            ExprKind::Call { func, args } if *func == id::FIELD => {
                let ExprKind::Const(Value::Int4(n)) = args.get(1)?.kind else { return None };
                let row = args.first()?;
                let part = parts(row).and_then(|p| p.get(usize::try_from(n).ok()?));
                part.and_then(|p| self.made_with(p, scopes, of))
            }
            ExprKind::Case { whens, otherwise } => {
                let first = || whens.iter().map(|w| &w.1).find(|e| !matches!(e.kind, ExprKind::Const(_)));
                self.made_with(otherwise.as_deref().or_else(first)?, scopes, of)
            }
            ExprKind::Coalesce(list) => self.made_with(list.first()?, scopes, of),
            ExprKind::NullIf { left, .. } => self.made_with(left, scopes, of),
            ExprKind::Scalar(q) => {
                let mut inner = scopes.to_vec();
                inner.push(&q.rels);
                self.made_with(&q.visible().next()?.expr, &inner, Some(q))
            }
            ExprKind::Group(n) => self.made_with(of?.group_by.get(usize::from(*n))?, scopes, of),
            &ExprKind::Column { depth, rel, column } => {
                let level = scopes.len().checked_sub(1 + usize::from(depth))?;
                let around = &scopes[..=level];
                if let Some(q) = of.filter(|q| depth == 0 && q.rels.is_empty()) {
                    return self.column_of(q, usize::from(column), &scopes[..level]);
                }
                match &scopes[level].get(usize::from(rel))?.rel {
                    Rel::Query(q) => self.column_of(q, usize::from(column), around),
                    Rel::With(n) => {
                        let cte = self.ctes.iter().find(|c| c.with.number == *n)?;
                        self.column_of(&cte.with.query, usize::from(column), around)
                    }
                    Rel::Values(rows) => {
                        self.made_with(rows.first()?.get(usize::from(column))?, around, None)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The fields of a column of a query.
    fn column_of(&self, q: &Query, n: usize, around: &[&[RelEntry]]) -> Option<Fields> {
        let mut inner = around.to_vec();
        if let Some(set) = &q.set {
            inner.push(&[]);
            return self.column_of(&set.left, n, &inner);
        }
        inner.push(&q.rels);
        self.made_with(&q.visible().nth(n)?.expr, &inner, Some(q))
    }

    /// `row.name` where a function of that name takes the row: PostgreSQL's other way to write the call.
    pub(super) fn function_of_row(&mut self, name: &str, row: &Expr) -> SqlResult<Option<Expr>> {
        let takes = |f: &ondol_engine::FunctionDef| matches!(&f.args[..], [(_, ty)] if ty.id == row.ty.id);
        let named = self.functions(None, name);
        match named.iter().find(|f| takes(f)).cloned() {
            Some(function) => {
                let call =
                    super::call::RegisteredCall { function: function.clone(), args: vec![row.clone()] };
                self.registered_scalar(call, row.at as i32).map(Some)
            }
            None => Ok(None),
        }
    }

    /// What follows an expression: fields, subscripts and slices.
    pub(super) fn indirected(&mut self, mut e: Expr, nodes: &'a [Node]) -> SqlResult<Expr> {
        let mut rest = nodes;
        while let [first, more @ ..] = rest {
            match kind(first)? {
                Kind::String(s) => {
                    e = self.field(e, &s.sval)?;
                    rest = more;
                }
                Kind::AIndices(_) => {
                    let is_index = |n: &&Node| matches!(n.node, Some(Kind::AIndices(_)));
                    let count = rest.iter().take_while(is_index).count();
                    let (subscripts, after) = rest.split_at(count);
                    e = self.subscripted(e, subscripts)?;
                    rest = after;
                }
                _ => {
                    let message = "row expansion via \"*\" is not supported here";
                    return Err(at_expr(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), e.at));
                }
            }
        }
        Ok(e)
    }

    /// The row of a relation, whose name was written as a column's.
    pub(super) fn whole_row(&self, level: &Level, item: &Item) -> SqlResult<Expr> {
        let columns = level.item_columns(item);
        let rel = match item.columns {
            ItemColumns::Rel(rel) => Some(rel),
            ItemColumns::List(_) => None,
        };
        let entry = rel.and_then(|r| level.rels.get(usize::from(r)));
        if let (Some(Rel::Query(q)), [(_, only)]) = (entry.map(|r| &r.rel), &columns[..])
            && q.is_call
        {
            return Ok(only.clone());
        }
        let table = entry.and_then(|r| match &r.rel {
            Rel::Table(t) => Some(t.clone()),
            _ => None,
        });
        // The fields of what a function gives.
        let given = entry.and_then(|r| match &r.rel {
            Rel::Query(q) => match &q.rels[..] {
                [RelEntry { alias, columns, .. }] if alias == ROWS => columns.first().map(|c| c.1.id),
                _ => None,
            },
            _ => None,
        });
        let ty = match &table {
            Some(t) => self.catalog.row_type(&t.def)?,
            None if let Some(ty) = given => ty,
            None => match item.own.as_ref().and_then(|n| self.catalog.view(n)) {
                Some(view) => self.catalog.view_type(view)?,
                None => TypeId::RECORD,
            },
        };
        let fields: Fields = columns.iter().map(|(n, e)| (n.clone(), Type::new(e.ty.id))).collect();
        let values: Vec<Expr> = columns.into_iter().map(|c| c.1).collect();
        let is_null = |e: &Expr| truth(ExprKind::IsNull { arg: Box::new(e.clone()), negated: false }, -1);
        let missing = rel.filter(|r| level.nullable.contains(r)).map(|_| {
            // A row that is there has all that it must have.
            let sure = table.and_then(|t| t.def.columns.iter().position(|c| c.not_null));
            match sure.and_then(|n| values.get(n)) {
                Some(e) => is_null(e),
                None => truth(ExprKind::And(values.iter().map(is_null).collect()), -1),
            }
        });
        let row = row_of(ty, &fields, values, u32::MAX);
        Ok(match missing {
            Some(missing) if !self.is_verbatim() => {
                let (ty, at) = (row.ty, row.at);
                let whens = vec![(missing, null(ty))];
                Expr { kind: ExprKind::Case { whens, otherwise: Some(Box::new(row)) }, ty, at }
            }
            _ => row,
        })
    }

    /// A row as one of a composite type.
    pub(super) fn row_as(&mut self, e: Expr, to: TypeId, explicit: bool) -> SqlResult<Expr> {
        let (Some(fields), Some(_)) = (fields_of_type(to), parts(&e)) else {
            return Err(cannot_cast(e.ty.id, to, e.at));
        };
        let (from, here) = (e.ty.id, e.at);
        let ExprKind::Call { args, .. } = e.kind else { return Err(cannot_cast(from, to, here)) };
        let context = if explicit { CastContext::Explicit } else { CastContext::Assignment };
        let mut values = Vec::with_capacity(fields.len());
        let mut given = args.into_iter().skip(1);
        for (i, (_, ty)) in fields.iter().enumerate() {
            let Some(value) = given.next() else {
                return Err(cannot_cast(from, to, here).detail("Input has too few columns."));
            };
            if !can_coerce(value.ty.id, ty.id, context) {
                let detail = format!(
                    "Cannot cast type {} to {} in column {}.",
                    name_of(value.ty.id),
                    name_of(ty.id),
                    i + 1
                );
                return Err(cannot_cast(from, to, here).detail(detail));
            }
            values.push(self.cast(value, *ty, explicit)?);
        }
        if given.next().is_some() {
            return Err(cannot_cast(from, to, here).detail("Input has too many columns."));
        }
        Ok(row_of(to, &fields, values, here))
    }

    /// A row of a composite type, whose fields are looked at as values of their domains.
    pub(super) fn fields_in_domains(&mut self, row: Expr, ty: TypeId) -> SqlResult<Expr> {
        if parts(&row).is_some() {
            // They are so already.
            return Ok(row);
        }
        let Some(fields) = fields_of_type(ty) else { return Ok(row) };
        let mut values = Vec::with_capacity(fields.len());
        for (i, f) in fields.iter().enumerate() {
            let value = self.field_at(row.clone(), i, f);
            values.push(self.in_declared(value, f.1.id)?);
        }
        let here = row.at;
        let test = truth(ExprKind::IsNull { arg: Box::new(row), negated: false }, -1);
        let whole = Box::new(row_of(ty, &fields, values, here));
        let kind = ExprKind::Case { whens: vec![(test, null(Type::new(ty)))], otherwise: Some(whole) };
        Ok(Expr { kind, ty: Type::new(ty), at: here })
    }

    /// IS [NOT] NULL of a row: all of its fields are, or none is.
    pub(super) fn null_test_of_row(&mut self, row: Expr, negated: bool, location: i32) -> Expr {
        if self.is_verbatim() {
            return truth(ExprKind::IsNull { arg: Box::new(row), negated }, location);
        }
        if let Some(parts) = parts(&row) {
            let one = |e: &Expr| truth(ExprKind::IsNull { arg: Box::new(e.clone()), negated }, location);
            let mut tests: Vec<Expr> = parts.iter().map(one).collect();
            return match tests.len() {
                0 => constant(Value::Bool(true), Type::BOOL, place(location)),
                1 => tests.remove(0),
                _ => truth(ExprKind::And(tests), location),
            };
        }
        let func = if negated { id::NONE_NULL } else { id::ALL_NULL };
        Expr { kind: ExprKind::Call { func, args: vec![row] }, ty: Type::BOOL, at: place(location) }
    }

    /// IS [NOT] DISTINCT FROM of rows that are written out.
    pub(super) fn distinct_rows(
        &mut self,
        left: &'a RowExpr,
        right: &'a RowExpr,
        distinct: bool,
        location: i32,
    ) -> SqlResult<Expr> {
        let (left, right) = (self.expanded(&left.args)?, self.expanded(&right.args)?);
        equality_of_rows(left.len(), right.len(), location)?;
        let mut tests = Vec::with_capacity(left.len());
        for (l, r) in left.into_iter().zip(right) {
            tests.push(self.distinct_values(l, r, distinct, location)?);
        }
        Ok(match tests.len() {
            1 => tests.remove(0),
            _ => truth(if distinct { ExprKind::Or(tests) } else { ExprKind::And(tests) }, location),
        })
    }

    /// The value that something has after an assignment to a part of it, which `nodes` say. `of` and `ty` are
    /// the column and the type of what the assignment is made to, `before` its value. What is within it is of
    /// its domain; whether the whole is, is to be looked at once all of its parts are assigned.
    pub(super) fn assigned_part(
        &mut self,
        of: &str,
        ty: Type,
        before: Expr,
        nodes: &'a [Node],
        value: Expr,
        location: i32,
    ) -> SqlResult<Expr> {
        let Some((first, rest)) = nodes.split_first() else {
            return self.assign(value, ty, of);
        };
        let wrong = |state, message: String| Err(at(SqlError::new(state, message), location));
        let name = match kind(first)? {
            Kind::String(s) => &s.sval,
            Kind::AIndices(_) => {
                let is_index = |n: &&Node| matches!(n.node, Some(Kind::AIndices(_)));
                let (subscripts, after) = nodes.split_at(nodes.iter().take_while(is_index).count());
                let base = ty.base();
                if after.is_empty() {
                    return self.assigned_item(of, base, before, subscripts, value, location);
                }
                let Some(element) = base.element() else {
                    let message = format!(
                        "cannot subscript type {} because it does not support subscripting",
                        name_of(base.id)
                    );
                    return wrong(sqlstate::DATATYPE_MISMATCH, message);
                };
                let item = self.subscripted(before.clone(), subscripts)?;
                let item = self.assigned_part(of, element, item, after, value, location)?;
                let item = self.in_declared(item, ty.element().unwrap_or(element).id)?;
                return self.assigned_item(of, base, before, subscripts, item, location);
            }
            _ => return Err(unexpected("an assignment")),
        };
        let base = ty.base();
        let Some(fields) = fields_of_type(base.id) else {
            let message = format!(
                "cannot assign to field \"{name}\" of column \"{of}\" because its type {} is not a composite type",
                name_of(ty.id)
            );
            return wrong(sqlstate::DATATYPE_MISMATCH, message);
        };
        let Some((i, field)) = fields.iter().enumerate().find(|(_, f)| f.0 == *name) else {
            let message = format!(
                "cannot assign to field \"{name}\" of column \"{of}\" because there is no such column in data type {}",
                name_of(ty.id)
            );
            return wrong(sqlstate::UNDEFINED_COLUMN, message);
        };
        let inner = self.field_at(before.clone(), i, field);
        let value = match rest.is_empty() {
            true => self.assigned_field(name, field.1, value, location)?,
            false => {
                let part = self.assigned_part(name, field.1, inner, rest, value, location)?;
                self.in_declared(part, field.1.id)?
            }
        };
        let template = constant(record::template(base.id, &Vec::new()), Type::new(base.id), u32::MAX);
        let args = vec![template, before, integer(i), coerce::shown(value)];
        let func = id::WITH_FIELD;
        Ok(Expr { kind: ExprKind::Call { func, args }, ty: base, at: place(location) })
    }

    fn assigned_field(&mut self, name: &str, ty: Type, value: Expr, location: i32) -> SqlResult<Expr> {
        if can_coerce(value.ty.id, ty.id, CastContext::Assignment) {
            return self.cast(value, ty, false);
        }
        let message = format!(
            "subfield \"{name}\" is of type {} but expression is of type {}",
            name_of(ty.id),
            name_of(value.ty.id)
        );
        let error = SqlError::new(sqlstate::DATATYPE_MISMATCH, message)
            .hint("You will need to rewrite or cast the expression.");
        Err(at(error, location))
    }

    /// A query around one, which gives its columns as one row of a composite type, if they fit.
    pub(super) fn query_as_row(&mut self, query: &Query, ty: TypeId) -> SqlResult<Option<Query>> {
        let Some(fields) = fields_of_type(ty) else { return Ok(None) };
        let columns = query.columns();
        let fits = |((_, from), (_, to)): (&(String, Type), &(String, Type))| {
            can_coerce(from.id, to.id, CastContext::Assignment)
        };
        if columns.len() != fields.len() || !columns.iter().zip(&fields).all(fits) {
            return Ok(None);
        }
        self.count_query()?;
        let mut inner = query.clone();
        coerce::deepen(&mut inner);
        let mut values = Vec::with_capacity(fields.len());
        for (i, ((_, from), (_, to))) in columns.iter().zip(&fields).enumerate() {
            values.push(self.cast(column(0, i, *from), *to, false)?);
        }
        let expr = row_of(ty, &fields, values, u32::MAX);
        let entry = RelEntry { rel: Rel::Query(Box::new(inner)), alias: "*FIELDS*".into(), columns };
        let targets = vec![Target { expr, name: "row".into(), hidden: false }];
        Ok(Some(Query { rels: vec![entry], from: vec![From::Rel(0)], targets, ..Query::default() }))
    }
}
