//! Arrays in expressions: those that are written out, subscripts and slices, ANY and ALL of an array, an
//! array made of a subquery, assignment to an item, and `unnest`.
//!
//! Each becomes a call of a function whose name begins with `$` (`ondol_types::array`), which knows the types
//! from its arguments; the binder knows the type of the result.

use super::coerce::{self, can_coerce};
use super::scope::{Clause, column};
use super::tree::{at, at_expr, kind, need, place, unexpected};
use super::{Binder, constant, name_of};
use crate::bound::{Expr, ExprKind, From, Query, Rel, RelEntry, Target};
use crate::parse::tree::{self, AArrayExpr, FuncCall, Node, SelectStmt, SubLinkType, node::Node as Kind};
use ondol_types::array::{self, MAX_SUBSCRIPTS};
use ondol_types::cast::CastContext;
use ondol_types::func::{self, FuncId, id};
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, agg, resolve, sqlstate};

/// Subscripts that were written behind something, bound.
struct Subscripts {
    /// For an item: each subscript. For a slice: each pair of bounds.
    list: Vec<Expr>,
    /// Of a slice: a bit for each bound that is given.
    slice: Option<i32>,
}

fn mismatch(message: String) -> SqlError {
    SqlError::new(sqlstate::DATATYPE_MISMATCH, message)
}

/// The type of arrays of a type.
fn array_of(element: Type) -> SqlResult<Type> {
    element.array().ok_or_else(|| {
        let message = format!("could not find array type for data type {}", name_of(element.id));
        SqlError::new(sqlstate::UNDEFINED_OBJECT, message)
    })
}

fn integer(n: i32) -> Expr {
    constant(Value::Int4(n), Type::INT4, u32::MAX)
}

/// An empty array of a type, or of such items, which tells a function what to make.
pub(super) fn template(ty: TypeId) -> Expr {
    let ty = if ty.is_array() { ty } else { ty.array().unwrap_or(ty) };
    constant(array::empty(ty), Type::new(ty), u32::MAX)
}

impl<'a> Binder<'a> {
    /// A call of a function that has no name in SQL.
    pub(super) fn unnamed(&self, function: FuncId, args: Vec<Expr>, ty: Type, place: u32) -> Expr {
        if self.is_verbatim() {
            return Expr { kind: ExprKind::Call { func: function, args }, ty, at: place };
        }
        coerce::fold(func::get(function), args, ty, place)
    }

    /// `ARRAY[...]`. The target is what a cast around it asks for: then every item is cast to that.
    pub(super) fn array_expr(&mut self, a: &'a AArrayExpr, target: Option<Type>) -> SqlResult<Expr> {
        let mut items = Vec::with_capacity(a.elements.len());
        let mut nested = false;
        for e in &a.elements {
            let item = match kind(e)? {
                Kind::AArrayExpr(inner) => self.array_expr(inner, target)?,
                _ => self.operand(e)?,
            };
            nested |= matches!(kind(e)?, Kind::AArrayExpr(_)) || item.ty.id.is_array();
            items.push(item);
        }
        let (ty, items) = match target {
            Some(ty) => {
                let wanted = if nested { ty } else { ty.element().unwrap_or(ty) };
                let mut cast = Vec::with_capacity(items.len());
                for item in items {
                    if !can_coerce(item.ty.id, wanted.id, CastContext::Explicit) {
                        let (from, to) = (name_of(item.ty.id), name_of(wanted.id));
                        let message = format!("cannot cast type {from} to {to}");
                        return Err(at_expr(SqlError::new(sqlstate::CANNOT_COERCE, message), item.at));
                    }
                    cast.push(self.cast(item, wanted, true)?);
                }
                (ty, cast)
            }
            None if items.is_empty() => {
                let error =
                    SqlError::new(sqlstate::INDETERMINATE_DATATYPE, "cannot determine type of empty array")
                        .hint("Explicitly cast to the desired type, for example ARRAY[]::integer[].");
                return Err(at(error, a.location));
            }
            None => {
                let (common, items) = self.unify(items, "ARRAY")?;
                if !nested {
                    (array_of(common).map_err(|e| at(e, a.location))?, items)
                } else if common.id.is_array() {
                    (common, items)
                } else {
                    let message = format!("could not find element type for data type {}", name_of(common.id));
                    return Err(at(SqlError::new(sqlstate::UNDEFINED_OBJECT, message), a.location));
                }
            }
        };
        let mut args = vec![template(ty.id)];
        let function = if nested { id::ARRAY_OF_ARRAYS } else { id::ARRAY_OF_ITEMS };
        args.extend(items.into_iter().map(coerce::shown));
        Ok(self.unnamed(function, args, ty, place(a.location)))
    }

    /// An array of items, which are of its elements' type.
    pub(super) fn array_of_items(&self, ty: Type, items: Vec<Expr>) -> Expr {
        let args = std::iter::once(template(ty.id)).chain(items.into_iter().map(coerce::shown)).collect();
        self.unnamed(id::ARRAY_OF_ITEMS, args, ty, u32::MAX)
    }

    /// `x[...]` or `(x).field`, and what may follow.
    pub(super) fn indirection(&mut self, i: &'a tree::AIndirection) -> SqlResult<Expr> {
        let node = need(&i.arg)?;
        // `(t).c` names a column of the relation.
        if let (Kind::ColumnRef(c), [Node { node: Some(Kind::String(field)) }, rest @ ..]) =
            (kind(node)?, &i.indirection[..])
            && let [only] = &c.fields[..]
            && let Some(e) = self.column_of_row(super::tree::string(only)?, &field.sval, c.location)?
        {
            return self.indirected(e, rest);
        }
        let arg = self.operand(node)?;
        self.indirected(arg, &i.indirection)
    }

    /// `x[...]`
    pub(super) fn subscripted(&mut self, arg: Expr, nodes: &'a [Node]) -> SqlResult<Expr> {
        if arg.ty.base().id == TypeId::JSONB {
            return self.json_subscripted(arg, nodes);
        }
        let arg = coerce::as_array(arg);
        let at_arg = arg.at;
        let subscripts = self.subscripts(nodes)?;
        let Some(element) = arg.ty.element() else {
            let message = format!(
                "cannot subscript type {} because it does not support subscripting",
                name_of(arg.ty.id)
            );
            return Err(at_expr(mismatch(message), at_arg));
        };
        let (function, ty, mut args) = match subscripts.slice {
            None => (id::ARRAY_ELEMENT, element, vec![arg]),
            Some(given) => (id::ARRAY_SLICE, arg.ty, vec![arg, integer(given)]),
        };
        args.extend(subscripts.list);
        // The place may be a note of the array's.
        let at_arg = if self.is_verbatim() { u32::MAX } else { at_arg };
        Ok(coerce::of_length(self.unnamed(function, args, Type::new(ty.id), at_arg), ty))
    }

    fn subscripts(&mut self, nodes: &'a [Node]) -> SqlResult<Subscripts> {
        if nodes.len() > MAX_SUBSCRIPTS {
            let message = format!(
                "number of array dimensions ({}) exceeds the maximum allowed ({MAX_SUBSCRIPTS})",
                nodes.len()
            );
            return Err(SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let mut all = Vec::with_capacity(nodes.len());
        for node in nodes {
            let Kind::AIndices(i) = kind(node)? else {
                return Err(SqlError::unsupported("selecting a field"));
            };
            all.push(i);
        }
        if !all.iter().any(|i| i.is_slice) {
            let list = all.iter().map(|i| self.subscript(need(&i.uidx)?)).collect::<SqlResult<_>>()?;
            return Ok(Subscripts { list, slice: None });
        }
        let (mut list, mut given) = (Vec::new(), 0);
        for i in all {
            // Beside a slice, `[n]` means `[1:n]`.
            let lower = match (i.is_slice, &i.lidx) {
                (true, None) => None,
                (true, some) => Some(self.subscript(need(some)?)?),
                (false, _) => Some(integer(1)),
            };
            let upper = match &i.uidx {
                None => None,
                some => Some(self.subscript(need(some)?)?),
            };
            for bound in [lower, upper] {
                given |= i32::from(bound.is_some()) << list.len();
                list.push(bound.unwrap_or_else(|| integer(0)));
            }
        }
        Ok(Subscripts { list, slice: Some(given) })
    }

    fn subscript(&mut self, node: &'a Node) -> SqlResult<Expr> {
        let e = self.expr(node)?;
        if !can_coerce(e.ty.id, TypeId::INT4, CastContext::Assignment) {
            return Err(at_expr(mismatch("array subscript must have type integer".into()), e.at));
        }
        self.cast(e, Type::INT4, false)
    }

    /// `left op ANY/ALL (array)`
    pub(super) fn array_operator(&mut self, e: &'a tree::AExpr, name: &str, all: bool) -> SqlResult<Expr> {
        let node = need(&e.rexpr)?;
        let left = self.operand(need(&e.lexpr)?)?;
        let is_in = name == if all { "<>" } else { "=" } && !self.is_verbatim();
        // Of the rows of a query, too.
        if is_in
            && let Kind::SubLink(s) = kind(node)?
            && s.sub_link_type() == SubLinkType::ArraySublink
            && let Kind::SelectStmt(select) = kind(need(&s.subselect)?)?
        {
            let query = self.settled_select(select)?;
            if matches!(&query.columns()[..], [(_, ty)] if !ty.id.is_array()) {
                return self.compared(vec![left], query, (name, name, all), e.location);
            }
        }
        let array = coerce::as_array(self.operand(node)?);
        let item = match (array.ty.id, array.ty.id.element()) {
            (TypeId::UNKNOWN, _) => TypeId::UNKNOWN,
            (_, Some(item)) => item,
            _ => {
                let message = "op ANY/ALL (array) requires array on right side";
                return Err(at(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message), e.location));
            }
        };
        let op = resolve::resolve_operator(name, Some(left.ty.id), item).map_err(|x| at(x, e.location))?;
        let shape = resolve::polymorphic::concrete(op.args(), op.ret(), &[left.ty.id, item])
            .map_err(|x| at(x, e.location))?;
        if shape.ret != TypeId::BOOL || op.def().template {
            let message = "op ANY/ALL (array) requires operator to yield boolean";
            return Err(at(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message), e.location));
        }
        let [wanted_left, wanted_item] = shape.args[..] else {
            return Err(unexpected("an operator of one operand"));
        };
        let left = self.operand_of(left, wanted_left)?;
        let wanted = array_of(Type::new(wanted_item)).map_err(|x| at(x, e.location))?;
        // Of items that are known one by one it is IN, which finds them in an index.
        let list = if is_in { self.items(&array, wanted)? } else { None };
        if let Some(list) = list {
            let eq = equality_of(name, op.func)?;
            let kind = ExprKind::InList { arg: Box::new(left), list, eq, negated: all };
            return Ok(super::expr::truth(kind, e.location));
        }
        let array = self.operand_of(array, wanted.id)?;
        let function = if all { id::ALL_OF_ARRAY } else { id::ANY_OF_ARRAY };
        let args = vec![left, array, integer(op.func.0.into())];
        let test = self.unnamed(function, args, Type::BOOL, place(e.location));
        Ok(self.noted(test, || super::written::Note::Quantified(name.to_string())))
    }

    /// The items of a constant array, or of one that is written out, as items of the wanted array. Not of one
    /// that is large or has none: then the array itself is asked.
    fn items(&mut self, array: &Expr, wanted: Type) -> SqlResult<Option<Vec<Expr>>> {
        const MOST: usize = 1000;
        let item = wanted.element().unwrap_or(wanted);
        let list: Vec<Expr> = match &array.kind {
            ExprKind::Const(v @ (Value::Opaque(..) | Value::Text(_))) => {
                let constant_array = Expr { kind: ExprKind::Const(v.clone()), ..*array };
                let cast = self.cast(constant_array, wanted, false)?;
                let ExprKind::Const(Value::Opaque(ty, bytes)) = &cast.kind else { return Ok(None) };
                let read = array::Array::of_type(*ty, bytes);
                if read.len() > MOST {
                    return Ok(None);
                }
                read.items().map(|v| constant(v.to_owned(), item, array.at)).collect()
            }
            // char(n) is padded there.
            ExprKind::Call { func, args } if *func == id::ARRAY_OF_ITEMS && item.id != TypeId::BPCHAR => {
                let mut list = Vec::with_capacity(args.len());
                for arg in args.iter().skip(1) {
                    list.push(self.cast(arg.clone(), item, false)?);
                }
                list
            }
            _ => return Ok(None),
        };
        Ok((!list.is_empty()).then_some(list))
    }

    /// `ARRAY(SELECT ...)`: what array_agg makes of the query's rows, or an empty array.
    pub(super) fn array_of_query(&mut self, select: &'a SelectStmt, location: i32) -> SqlResult<Expr> {
        let (query, _) = self.nested(Clause::Targets, |b| b.settled_select(select))?;
        let array = gathered(query, location)?;
        Ok(self.noted(array, || super::written::Note::ArrayOfQuery))
    }

    /// `SET column[...] = value`: the array that the column has afterwards, made of `before`.
    pub(super) fn assigned_item(
        &mut self,
        name: &str,
        array: Type,
        before: Expr,
        indirection: &'a [Node],
        value: Expr,
        location: i32,
    ) -> SqlResult<Expr> {
        if array.id == TypeId::JSONB {
            return self.json_assigned(name, before, indirection, value, location);
        }
        let subscripts = self
            .subscripts(indirection)
            .map_err(|e| if e.0.position.is_some() { e } else { at(e, location) })?;
        let Some(element) = array.element() else {
            let message = format!(
                "cannot subscript type {} because it does not support subscripting",
                name_of(array.id)
            );
            return Err(at(mismatch(message), location));
        };
        let wanted = if subscripts.slice.is_some() { array } else { element };
        if !can_coerce(value.ty.id, wanted.id, CastContext::Assignment) {
            let message = format!(
                "subscripted assignment to \"{name}\" requires type {} but expression is of type {}",
                name_of(wanted.id),
                name_of(value.ty.id)
            );
            let error = mismatch(message).hint("You will need to rewrite or cast the expression.");
            return Err(at(error, location));
        }
        let value = self.cast(value, wanted, false)?;
        let value = coerce::shown(value);
        let mut args = vec![template(array.id), before, value];
        args.extend(subscripts.slice.map(integer));
        args.extend(subscripts.list);
        let function = if subscripts.slice.is_some() { id::ARRAY_ASSIGN_SLICE } else { id::ARRAY_ASSIGN };
        Ok(self.unnamed(function, args, array, place(location)))
    }

    /// `unnest(array, ...)` in FROM: a query over the arrays as one row and the places of their items.
    pub(super) fn unnest(&mut self, c: &'a FuncCall, ordinality: bool) -> SqlResult<Query> {
        let (arrays, _) = self.nested(Clause::FromFunction, |b| b.exprs(&c.args))?;
        let mut args = Vec::with_capacity(arrays.len());
        for e in arrays.into_iter().map(coerce::as_array) {
            if e.ty.id.is_array() {
                args.push(e);
                continue;
            }
            return Err(at(no_unnest(&[e]), c.location));
        }
        Ok(unnested(args, ordinality))
    }
}

/// The array of a query's rows, or an empty one.
pub(super) fn gathered(query: Query, location: i32) -> SqlResult<Expr> {
    let columns = query.columns();
    let [(_, ty)] = columns[..] else {
        let message = "subquery must return only one column";
        return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), location));
    };
    let array = if ty.id.is_array() { ty } else { array_of(ty).map_err(|e| at(e, location))? };
    let def = agg::resolve_aggregate("array_agg", &[ty.id]).map_err(|e| at(e, location))?;
    let args = vec![coerce::shown(column(0, 0, ty)), template(array.id)];
    let aggregate = crate::bound::Aggregate {
        agg: def.id,
        args,
        distinct: false,
        order: Vec::new(),
        filter: None,
        ty: array,
    };
    let here = place(location);
    let result = Expr { kind: ExprKind::Aggregate { depth: 0, index: 0 }, ty: array, at: here };
    let list = vec![result, template(array.id)];
    let expr = Expr { kind: ExprKind::Coalesce(list), ty: array, at: here };
    let outer = Query {
        rels: vec![RelEntry { rel: Rel::Query(Box::new(query)), alias: String::new(), columns }],
        from: vec![From::Rel(0)],
        grouped: true,
        aggregates: vec![aggregate],
        targets: vec![Target { expr, name: "array".into(), hidden: false }],
        ..Query::default()
    };
    Ok(Expr { kind: ExprKind::Scalar(Box::new(outer)), ty: array, at: here })
}

/// The error of a call of unnest that does not fit.
pub(super) fn no_unnest(args: &[Expr]) -> SqlError {
    let types: Vec<&str> = args.iter().map(|a| name_of(a.ty.id)).collect();
    let call = format!("function unnest({})", types.join(", "));
    if let [only] = args
        && only.ty.id == TypeId::UNKNOWN
    {
        return SqlError::new(sqlstate::AMBIGUOUS_FUNCTION, format!("{call} is not unique"))
            .hint("Could not choose a best candidate function. You might need to add explicit type casts.");
    }
    SqlError::new(sqlstate::UNDEFINED_FUNCTION, format!("{call} does not exist")).hint(
        "No function matches the given name and argument types. You might need to add explicit type casts.",
    )
}

pub(super) fn unnested(args: Vec<Expr>, ordinality: bool) -> Query {
    let here = |e: ExprKind, ty: Type| Expr { kind: e, ty, at: u32::MAX };
    let types: Vec<Type> = args.iter().map(|a| a.ty).collect();
    let names = |n: &str, list: &[Type]| list.iter().map(|t| (n.to_string(), *t)).collect::<Vec<_>>();
    let arrays = |rel: u16| types.iter().enumerate().map(move |(i, t)| column(rel, i, *t));
    let big = Type::INT8;
    let one = constant(Value::Int8(1), big, u32::MAX);
    let stop = here(ExprKind::Call { func: id::LONGEST_ARRAY, args: arrays(0).collect() }, big);
    let series = Rel::Series { start: one.clone(), stop, step: one, by: None };
    let place = column(1, 0, big);
    let mut targets: Vec<Target> = (arrays(0).zip(&types))
        .map(|(array, ty)| {
            let item = ExprKind::Call { func: id::ARRAY_ITEM, args: vec![array, place.clone()] };
            let item_ty = ty.element().unwrap_or(Type::TEXT);
            let expr = coerce::of_length(here(item, Type::new(item_ty.id)), item_ty);
            Target { expr, name: "unnest".into(), hidden: false }
        })
        .collect();
    if ordinality {
        targets.push(Target { expr: place, name: "ordinality".into(), hidden: false });
    }
    let row =
        RelEntry { rel: Rel::Values(vec![args]), alias: "*ROW*".into(), columns: names("array", &types) };
    let places = RelEntry { rel: series, alias: "*PLACES*".into(), columns: names("place", &[big]) };
    Query { rels: vec![row, places], from: vec![From::Rel(0), From::Rel(1)], targets, ..Query::default() }
}

/// generate_subscripts in FROM: the subscripts of one dimension of an array, up or down.
pub(super) fn subscript_series(
    binder: &mut Binder<'_>,
    mut args: Vec<Expr>,
    location: i32,
) -> SqlResult<Rel> {
    let types: Vec<TypeId> = args.iter().map(|a| a.ty.id).collect();
    let is_called_so = matches!(types[..], [array, n] | [array, n, TypeId::BOOL]
        if array.is_array() && can_coerce(n, TypeId::INT4, CastContext::Implicit));
    if !is_called_so {
        let list = types.iter().map(|t| name_of(*t)).collect::<Vec<_>>().join(", ");
        let message = format!("function generate_subscripts({list}) does not exist");
        let error = SqlError::new(sqlstate::UNDEFINED_FUNCTION, message).hint(
            "No function matches the given name and argument types. You might need to add explicit type casts.",
        );
        return Err(at(error, location));
    }
    let down = match args.split_off(2).pop().map(|e| e.kind) {
        None => false,
        Some(ExprKind::Const(Value::Bool(down))) => down,
        Some(_) => {
            return Err(at(SqlError::unsupported("generate_subscripts with a variable direction"), location));
        }
    };
    if args[0].calls(func::Volatility::Volatile) {
        return Err(at(SqlError::unsupported("generate_subscripts of a volatile expression"), location));
    }
    let lower = binder.call(func::get(id::ARRAY_LOWER), args.clone(), place(location))?;
    let upper = binder.call(func::get(id::ARRAY_UPPER), args, place(location))?;
    let (start, stop) = if down { (upper, lower) } else { (lower, upper) };
    Ok(Rel::Series { start, stop, step: integer(if down { -1 } else { 1 }), by: None })
}

/// The function of `=`, of that or of `<>` of the same types.
fn equality_of(name: &str, function: FuncId) -> SqlResult<FuncId> {
    if name == "=" {
        return Ok(function);
    }
    let def = func::get(function);
    let [left, right] = def.args else { return Err(unexpected("a comparison of one operand")) };
    resolve::resolve_operator("=", Some(*left), *right).map(|o| o.func)
}
