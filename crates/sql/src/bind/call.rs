//! Calls: of functions, of aggregates, of registered queries.
//!
//! An aggregate belongs to the innermost query whose columns its arguments use (to the query it stands in, if
//! they use none), and is evaluated there; its arguments are kept as seen from that query.

use super::coerce::{self, can_coerce};
use super::names::Called;
use super::scope::{Clause, Level};
use super::tree::{at, kind, place, refuse_at, unexpected};
use super::written::Note;
use super::{Binder, constant, group, name_of};
use crate::bound::{
    Aggregate, Expr, ExprKind, From, Increment, Query, Rel, RelEntry, Target, walk_expr, walk_expr_mut,
};
use crate::parse::tree::{CoercionForm, FuncCall, Node, node::Node as Kind};
use ondol_engine::name::PG_CATALOG;
use ondol_engine::{FunctionDef, Name, Returns};
use ondol_types::cast::CastContext;
use ondol_types::catalog::oid;
use ondol_types::coordinate;
use ondol_types::func::{ANY, Volatility, id as func_id, named};
use ondol_types::resolve::{self, polymorphic::concrete};
use ondol_types::ty::Category;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, agg, sqlstate};
use std::sync::Arc;

/// A registered query with its arguments, cast.
pub struct RegisteredCall {
    pub function: Arc<FunctionDef>,
    pub args: Vec<Expr>,
}

impl<'a> Binder<'a> {
    pub(super) fn func_call(&mut self, c: &'a FuncCall) -> SqlResult<Expr> {
        let location = c.location;
        let called = self.function_name(&c.funcname, location)?;
        let (name, registered) = (called.name, called.registered);
        refuse_at(c.agg_within_group, "WITHIN GROUP", location)?;
        if let Some(window) = c.over.as_deref() {
            refuse_at(c.func_variadic, "VARIADIC", location)?;
            return self.over(name, called.may_be_builtin() && !registered, c, window);
        }
        if c.func_variadic {
            return self.variadic_call(called, c);
        }
        if agg::is_aggregate(name) && called.may_be_builtin() {
            return self.aggregate(name, c);
        }
        if ondol_types::window::is_window_function(name) && called.may_be_builtin() {
            let args = self.operands(&c.args)?;
            let types: Vec<TypeId> = args.iter().map(|a| a.ty.id).collect();
            match super::window::resolved(name, &types) {
                Ok(_) => {
                    let message = format!("window function {name} requires an OVER clause");
                    return Err(at(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message), location));
                }
                Err(e) if !registered => return Err(at(e, location)),
                Err(_) => {}
            }
        }
        let not_aggregate = |what: &str| {
            let message = format!("{what} specified, but {name} is not an aggregate function");
            Err(at(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message), location))
        };
        let like_aggregate =
            c.agg_star || c.agg_distinct || c.agg_filter.is_some() || !c.agg_order.is_empty();
        if like_aggregate && !registered && called.may_be_builtin() {
            // What is missing may be an aggregate.
            let args = self.operands(&c.args)?;
            let types: Vec<TypeId> = args.iter().map(|a| a.ty.id).collect();
            resolve::resolve_function(name, &types).map_err(|e| at(e, location))?;
        }
        if c.agg_star {
            return not_aggregate(&format!("{name}(*)"));
        }
        if c.agg_distinct {
            return not_aggregate("DISTINCT");
        }
        if c.agg_filter.is_some() {
            return not_aggregate("FILTER");
        }
        if !c.agg_order.is_empty() {
            return not_aggregate("ORDER BY");
        }
        if registered {
            let named = c.args.iter().any(|a| matches!(a.node, Some(Kind::NamedArgExpr(_))));
            if !named {
                // A function of PostgreSQL's comes first where it fits.
                let args = self.operands(&c.args)?;
                let types: Vec<TypeId> = args.iter().map(|a| a.ty.id).collect();
                if called.may_be_builtin()
                    && !self.comes_before(called, &types)
                    && let Ok(def) = resolve::resolve_function(name, &types)
                {
                    let call = self.call(def, args, place(location))?;
                    return Ok(self.noted(call, || Note::Function { name: name.to_string(), syntax: false }));
                }
                let call = self.registered(called, args, &[], false, location)?;
                return self.registered_scalar(call, location);
            }
            let call = self.registered_call(called, &c.args, false, location)?;
            return self.registered_scalar(call, location);
        }
        if c.args.iter().any(|a| matches!(a.node, Some(Kind::NamedArgExpr(_)))) {
            return self.named_call(called, c);
        }
        let args = self.operands(&c.args)?;
        if !called.may_be_builtin() {
            return self.in_disguise(called, args, location);
        }
        let call = self.builtin(name, args, location)?;
        if self.has_note(&call) || !matches!(call.kind, ExprKind::Call { .. }) {
            return Ok(call);
        }
        let syntax = c.funcformat() == CoercionForm::CoerceSqlSyntax;
        Ok(self.noted(call, || Note::Function { name: name.to_string(), syntax }))
    }

    /// A call of a function of PostgreSQL's with arguments by their names.
    fn named_call(&mut self, called: Called<'a>, c: &'a FuncCall) -> SqlResult<Expr> {
        let (location, name) = (c.location, called.name);
        let (args, names) = self.named_arguments(&c.args)?;
        let lists: Vec<_> = named::of(name).filter(|_| called.may_be_builtin()).collect();
        for list in lists {
            let Some(places) = list.places(&names) else { continue };
            let of = |n: usize| places.iter().position(|p| *p == n);
            let default = |n: usize| list.default_of(n).map_or(Value::Null, |v| v.to_owned());
            let types: Vec<TypeId> = (0..list.names.len())
                .map(|n| match of(n) {
                    Some(given) => args[given].ty.id,
                    None => default(n).type_id().unwrap_or(TypeId::UNKNOWN),
                })
                .collect();
            let Ok(def) = resolve::resolve_function(name, &types) else { continue };
            if self.is_verbatim() {
                // As written, it has what was given, in that order.
                let mut given = Vec::with_capacity(args.len());
                for ((arg, place), name) in args.into_iter().zip(&places).zip(&names) {
                    let arg = self.operand_of(arg, def.args[*place])?;
                    let before =
                        name.map_or(String::new(), |n| format!("{} => ", ondol_types::name::quote(n)));
                    given.push(self.behind(before, arg))
                }
                let kind = ExprKind::Call { func: def.id, args: given };
                let call = Expr { kind, ty: Type::new(def.ret), at: place(location) };
                return Ok(self.noted(call, || Note::Function { name: name.to_string(), syntax: false }));
            }
            let full = (0..list.names.len()).map(|n| match of(n) {
                Some(given) => args[given].clone(),
                None => constant(default(n), Type::new(types[n]), u32::MAX),
            });
            let full = full.collect();
            return self.call(def, full, place(location));
        }
        self.registered(called, args, &names, false, location)?;
        Err(unexpected("a function that is not there"))
    }

    /// Arguments by place, then by name.
    fn named_arguments(&mut self, args: &'a [Node]) -> SqlResult<(Vec<Expr>, Vec<Option<&'a str>>)> {
        let mut exprs = Vec::with_capacity(args.len());
        let mut names: Vec<Option<&'a str>> = Vec::with_capacity(args.len());
        for a in args.iter().filter(|a| !self.is_void(a)).collect::<Vec<_>>() {
            match kind(a)? {
                Kind::NamedArgExpr(n) => {
                    if names.contains(&Some(&n.name)) {
                        let message = format!("argument name \"{}\" used more than once", n.name);
                        return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), n.location));
                    }
                    let arg =
                        n.arg.as_deref().ok_or_else(|| unexpected("a named argument without a value"))?;
                    exprs.push(self.operand(arg)?);
                    names.push(Some(&n.name));
                }
                _ if names.iter().any(Option::is_some) => {
                    let message = "positional argument cannot follow named argument";
                    let error = SqlError::new(sqlstate::SYNTAX_ERROR, message);
                    return Err(super::tree::at_expr(error, super::dml::node_place(a)));
                }
                _ => {
                    exprs.push(self.operand(a)?);
                    names.push(None);
                }
            }
        }
        Ok((exprs, names))
    }

    /// A call whose last argument is an array of those that the function takes in any number.
    fn variadic_call(&mut self, called: Called<'a>, c: &'a FuncCall) -> SqlResult<Expr> {
        let location = c.location;
        const LISTS: &[&str] = &[
            "concat",
            "concat_ws",
            "format",
            "json_build_array",
            "json_build_object",
            "json_extract_path",
            "json_extract_path_text",
            "jsonb_build_array",
            "jsonb_build_object",
            "jsonb_delete",
            "jsonb_extract_path",
            "jsonb_extract_path_text",
            "num_nonnulls",
            "num_nulls",
        ];
        if called.registered {
            let call = self.registered_call(called, &c.args, true, location)?;
            return self.registered_scalar(call, location);
        }
        if !called.may_be_builtin() || !LISTS.contains(&called.name) {
            return Err(at(SqlError::unsupported("VARIADIC"), location));
        }
        let args = self.operands(&c.args)?;
        if let Some(last) = args.last()
            && last.ty.id != TypeId::UNKNOWN
            && !last.ty.base().id.is_array()
        {
            let error = SqlError::new(sqlstate::DATATYPE_MISMATCH, "VARIADIC argument must be an array");
            return Err(super::tree::at_expr(error, last.at));
        }
        let call = self.builtin(&format!("${}", called.name), args, location)?;
        Ok(self.noted(call, || Note::Function { name: called.name.to_string(), syntax: false }))
    }

    /// Whether a user's function of exactly these arguments stands before PostgreSQL's own in the path.
    fn comes_before(&self, called: Called<'_>, types: &[TypeId]) -> bool {
        let mut before = self.path.schemas.iter().take_while(|s| **s != PG_CATALOG);
        called.schema.is_none()
            && before.any(|s| {
                let named = self.functions(Some(*s), called.name);
                named.iter().any(|f| f.arg_types().eq(types.iter().copied()))
            })
    }

    /// `schema.type(value)`, or the error of a function that is not there.
    fn in_disguise(&mut self, called: Called<'_>, mut args: Vec<Expr>, location: i32) -> SqlResult<Expr> {
        let ty = called.schema.and_then(|s| self.catalog.ty(Name::new(s, called.name)));
        if let ([arg], Some(to)) = (&args[..], ty)
            && coerce::can_coerce(arg.ty.id, to, CastContext::Explicit)
            && let Some(arg) = args.pop()
        {
            return self.cast(arg, Type::new(to), true);
        }
        self.registered(called, args, &[], false, location)
            .map(|_| unexpected("a function that is not there"))
            .and_then(Err)
    }

    /// The schema in which things are made now, as a constant; NULL where there is none.
    pub(super) fn current_schema(&self, location: i32) -> Expr {
        let name = self.path.makes_in.map(|s| self.catalog.schema_name(s).to_string());
        constant(name.map_or(Value::Null, Value::Text), Type::TEXT, place(location))
    }

    /// A function of PostgreSQL's.
    pub(super) fn builtin(&mut self, name: &str, mut args: Vec<Expr>, location: i32) -> SqlResult<Expr> {
        if let ("pg_typeof", [arg]) = (name, &args[..]) {
            // The type that it has here, as it is called when the statement runs.
            let number = constant(oid::oid(arg.ty.id.oid()), Type::new(TypeId::OID), place(location));
            return self.cast(number, Type::new(TypeId::REGTYPE), true);
        }
        args = args.into_iter().map(coerce::as_array).collect();
        if let (super::set::EXPAND, [array]) = (name, &args[..]) {
            let array = array.clone();
            return self.expand(array, location);
        }
        if super::set::gives_rows(name) {
            return self.set_call(name, args, location);
        }
        if name == "current_schema" && args.is_empty() {
            let value = self.current_schema(location);
            return Ok(self.noted(value, || Note::Value("current_schema()".into())));
        }
        if name == "current_schemas"
            && let [Expr { kind: ExprKind::Const(Value::Bool(implied)), .. }] = args[..]
        {
            let value = self.current_schemas(implied, location)?;
            return Ok(self.noted(value, || Note::Value(format!("current_schemas({implied})"))));
        }
        if name == "crtree_distance" {
            args = self.two_points(args, location)?
        }
        let types: Vec<TypeId> = args.iter().map(|a| a.ty.id).collect();
        match resolve::resolve_function(name, &types) {
            Ok(def) => {
                let call = self.call(def, args, place(location))?;
                match super::json::populates(def.id) && !self.is_verbatim() {
                    true => {
                        let ty = call.ty.id;
                        self.in_declared(call, ty)
                    }
                    false => Ok(call),
                }
            }
            Err(error) => {
                // A field of a row may be written as a call.
                if let [row] = &args[..]
                    && super::row::is_row(row.ty.id)
                    && let Some(fields) = self.fields_of(row)
                    && let Some((i, field)) = fields.iter().enumerate().find(|(_, f)| f.0 == name)
                {
                    return Ok(self.field_at(row.clone(), i, field));
                }
                // `date(now())` is a cast in disguise; a row has none.
                if let [from] = types[..]
                    && !super::row::is_row(from)
                    && let Some(to) = resolve::cast_by_function_name(name, from).or_else(|| {
                        self.catalog
                            .find_type(self.path, name)
                            .filter(|to| coerce::can_coerce(from, *to, CastContext::Explicit))
                            .inspect(|to| self.names().note(location, to.user().map_or(0, |u| u.schema)))
                    })
                    && let Some(arg) = args.pop()
                {
                    let mut e = self.cast(arg, Type::new(to), true)?;
                    if matches!(e.kind, ExprKind::Cast { .. }) {
                        e.at = place(location);
                    }
                    return Ok(e);
                }
                Err(at(error, location))
            }
        }
    }

    /// The arguments of a distance: the coordinates of one point, then as many of another, each measured as
    /// its fellow.
    fn two_points(&mut self, mut args: Vec<Expr>, location: i32) -> SqlResult<Vec<Expr>> {
        let wrong = |state, message: String| at(SqlError::new(state, message), location);
        if args.is_empty() || args.len() % 2 == 1 || args.len() > 2 * coordinate::MOST {
            let message = format!(
                "function crtree_distance takes 1 to {} coordinates of one point and as many of another, \
                 found {} arguments",
                coordinate::MOST,
                args.len()
            );
            return Err(wrong(sqlstate::UNDEFINED_FUNCTION, message));
        }
        let mut others = args.split_off(args.len() / 2);
        for (a, b) in args.iter_mut().zip(&mut others) {
            let ty = match (a.ty.base().id, b.ty.base().id) {
                (TypeId::UNKNOWN, TypeId::UNKNOWN) => TypeId::FLOAT8,
                (TypeId::UNKNOWN, ty) | (ty, _) => ty,
            };
            for e in [&mut *a, b] {
                let own = e.ty.base().id;
                let to = if own == TypeId::UNKNOWN || coerce::can_coerce(own, ty, CastContext::Implicit) {
                    ty
                } else {
                    own
                };
                if !coordinate::measured_alike(to, ty) {
                    let message = match coordinate::measured_alike(ty, ty) {
                        true => format!("there is no distance between type {ty} and type {own}"),
                        false => format!("type {ty} has no coordinates"),
                    };
                    return Err(wrong(sqlstate::DATATYPE_MISMATCH, message));
                }
                if !coordinate::measured_alike(own, ty) {
                    *e = self.operand_of(e.clone(), to)?
                }
            }
        }
        args.append(&mut others);
        Ok(args)
    }

    /// What a call of an aggregate computes, seen from where it stands.
    pub(super) fn aggregate_call(&mut self, name: &'a str, c: &'a FuncCall) -> SqlResult<Aggregate> {
        let location = c.location;
        if c.args.is_empty() && name != "count" {
            return Err(agg::resolve_aggregate(name, &[])
                .map_or_else(|e| at(e, location), |_| unexpected("an aggregate without arguments")));
        }
        if c.args.is_empty() && !c.agg_star {
            let message = format!("{name}(*) must be used to call a parameterless aggregate function");
            return Err(at(SqlError::new(sqlstate::WRONG_OBJECT_TYPE, message), location));
        }
        let args = self.operands(&c.args)?;
        let filter = match c.agg_filter.as_deref() {
            Some(f) => {
                let f = self.within(Clause::Filter, |b| b.expr(f))?;
                Some(self.condition(f, "FILTER")?)
            }
            None => None,
        };
        let types: Vec<TypeId> = args.iter().map(|a| a.ty.id).collect();
        let def = agg::resolve_aggregate(name, &types).map_err(|e| at(e, location))?;
        let shape = concrete(def.args, def.ret, &types)?;
        let mut cast = Vec::with_capacity(args.len() + 1);
        let written = if c.agg_distinct { args.clone() } else { Vec::new() };
        for (arg, want) in args.into_iter().zip(shape.args) {
            cast.push(if want == ANY { self.settle(arg)? } else { self.operand_of(arg, want)? });
        }
        if c.agg_distinct {
            cast.iter().try_for_each(|a| super::json::check_comparable(a, false))?;
        }
        if def.has_styles() {
            cast = cast.into_iter().map(|a| self.with_names(coerce::shown(a))).collect();
            let kind = ExprKind::Call { func: func_id::STYLES, args: Vec::new() };
            cast.push(Expr { kind, ty: Type::TEXT, at: u32::MAX });
        }
        if def.has_template() {
            cast = cast.into_iter().map(|a| self.with_names(a)).collect();
            // What is gathered is an array (array/A4).
            cast = cast.into_iter().map(coerce::shown).collect();
            cast.push(super::array::template(shape.ret));
        }
        // The least and the greatest of char(n) are char(n), padded as such.
        let ty = match cast.first() {
            Some(arg) if def.ret == TypeId::BPCHAR && arg.ty.id == TypeId::BPCHAR => arg.ty,
            _ => Type::new(shape.ret),
        };
        let mut order = self.order_keys(&c.agg_order)?;
        for k in order.iter_mut().filter(|_| c.agg_distinct) {
            // The argument is the key, also where the aggregate takes it as another type of strings; not
            // where a cast is written in one of both.
            let is_written = |a: &Expr| group::same(a, &k.expr);
            let is_it = |(n, a): &(usize, &Expr)| is_written(a) || written.get(*n).is_some_and(is_written);
            let Some((_, arg)) = cast.iter().enumerate().find(is_it) else {
                let message =
                    "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
                let error = SqlError::new(sqlstate::INVALID_COLUMN_REFERENCE, message);
                return Err(super::tree::at_expr(error, k.expr.at));
            };
            k.expr = arg.clone();
        }
        Ok(Aggregate { agg: def.id, args: cast, distinct: c.agg_distinct, order, filter, ty })
    }

    fn aggregate(&mut self, name: &'a str, c: &'a FuncCall) -> SqlResult<Expr> {
        let location = c.location;
        let mut aggregate = self.aggregate_call(name, c)?;
        let depth = own_depth(&aggregate);
        self.check_aggregate(&aggregate, depth, location)?;
        if depth > 0 {
            for e in aggregate.exprs_mut() {
                walk_expr_mut(e, 0, &mut |e, level| {
                    if let ExprKind::Column { depth: d, .. } | ExprKind::Aggregate { depth: d, .. } =
                        &mut e.kind
                        && *d >= level + depth
                    {
                        *d -= depth;
                    }
                    true
                });
            }
        }
        let ty = aggregate.ty;
        let n = self.levels.len();
        let Some(level) = n.checked_sub(1 + usize::from(depth)).and_then(|i| self.levels.get_mut(i)) else {
            return Err(unexpected("an aggregate outside of a query"));
        };
        let Some(index) = group::add_aggregate(&mut level.aggregates, aggregate) else {
            return Err(SqlError::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, "too many aggregates in a query"));
        };
        Ok(Expr { kind: ExprKind::Aggregate { depth, index }, ty, at: place(location) })
    }

    /// Whether an aggregate may stand where it stands, and has none of its own level inside.
    fn check_aggregate(&self, aggregate: &Aggregate, depth: u16, location: i32) -> SqlResult<()> {
        let mut inner = None;
        for e in aggregate.exprs() {
            walk_expr(e, 0, &mut |e, level| {
                if let ExprKind::Aggregate { depth: d, .. } = e.kind
                    && d >= level
                    && d - level == depth
                {
                    inner.get_or_insert(e.at);
                }
                true
            });
        }
        if let Some(inner) = inner {
            let message = "aggregate function calls cannot be nested";
            let error = SqlError::new(sqlstate::GROUPING_ERROR, message);
            return Err(super::tree::at_expr(error, inner));
        }
        if let Some(here) = aggregate.exprs().find_map(super::window::place_in) {
            let message = "aggregate function calls cannot contain window function calls";
            return Err(super::tree::at_expr(SqlError::new(sqlstate::GROUPING_ERROR, message), here));
        }
        let level: Option<&Level> = self.levels.iter().rev().nth(usize::from(depth));
        if let Some(level) = level {
            for e in aggregate.exprs() {
                if let Some(here) = super::set::place_in(level, e, depth) {
                    let message = "aggregate function calls cannot contain set-returning function calls";
                    let hint =
                        "You might be able to move the set-returning function into a LATERAL FROM item.";
                    let error = SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message).hint(hint);
                    return Err(super::tree::at_expr(error, here));
                }
            }
        }
        match level.map(|l| l.clause.refuses_aggregates()) {
            Some(None) => Ok(()),
            Some(Some(clause)) => {
                let message = format!("aggregate functions are not allowed in {clause}");
                Err(at(SqlError::new(sqlstate::GROUPING_ERROR, message), location))
            }
            None => Err(unexpected("an aggregate outside of a query")),
        }
    }

    /// A parameter that the client has said is void: drivers write one where a function gives its result, and
    /// it is no argument.
    fn is_void(&self, arg: &Node) -> bool {
        let Ok(Kind::ParamRef(p)) = kind(arg) else { return false };
        usize::try_from(p.number - 1).is_ok_and(|n| self.params.get(n) == Some(&TypeId::VOID))
    }

    /// A call of a registered query, arguments by place or by name; whether the last stands behind VARIADIC.
    pub(super) fn registered_call(
        &mut self,
        called: Called<'a>,
        args: &'a [Node],
        variadic: bool,
        location: i32,
    ) -> SqlResult<RegisteredCall> {
        let (exprs, names) = self.named_arguments(args)?;
        self.registered(called, exprs, &names, variadic, location)
    }

    /// Chooses among the registered queries of a name: all types exact, else the one most of them are exact
    /// for.
    fn registered(
        &mut self,
        called: Called<'_>,
        args: Vec<Expr>,
        names: &[Option<&str>],
        variadic: bool,
        location: i32,
    ) -> SqlResult<RegisteredCall> {
        let named = names.iter().any(Option::is_some);
        // `None` if the function does not fit.
        let fit = |f: &Arc<FunctionDef>| -> Option<Candidate> {
            let spread = f.variadic && !variadic;
            if spread && named || args.len() > f.args.len() && !spread {
                return None;
            }
            // With as many arguments as it has at least, the last are items of an array.
            let spread = spread && args.len() >= f.args.len();
            let last = f.args.len().saturating_sub(1);
            let (mut places, mut types) = (Vec::with_capacity(args.len()), Vec::with_capacity(args.len()));
            for (i, arg) in args.iter().enumerate() {
                let place = match names.get(i).copied().flatten() {
                    Some(n) => f.args.iter().position(|a| a.0.as_deref() == Some(n))?,
                    None if spread => i.min(last),
                    None => i,
                };
                let ty = f.args[place].1;
                let is_item = spread && place == last;
                let ty = if is_item { Type::new(ty.base().id.element()?) } else { ty };
                if places.contains(&place) && !is_item || !can_coerce(arg.ty.id, ty.id, CastContext::Implicit)
                {
                    return None;
                }
                places.push(place);
                types.push(ty.base().id)
            }
            let mut missing = (0..f.args.len()).filter(|n| !places.contains(n));
            missing.all(|n| f.default_of(n).is_some()).then(|| Candidate {
                function: f.clone(),
                places,
                types,
                spread,
            })
        };
        let name = called.written();
        let mut fitting: Vec<Candidate> = Vec::new();
        for found in self.functions(called.schema, called.name).into_iter().filter_map(fit) {
            // Of those that take the same, the one of an earlier schema is meant, then the one that takes it
            // without VARIADIC. Which one has defaults decides nothing.
            match fitting.iter().position(|o| o.types == found.types) {
                Some(n) if fitting[n].function.schema != found.function.schema => {}
                Some(n) if found.spread && !fitting[n].spread => {}
                Some(n) if fitting[n].spread && !found.spread => fitting[n] = found,
                _ => fitting.push(found),
            }
        }
        narrow(&mut fitting, &args.iter().map(|a| a.ty.id).collect::<Vec<_>>());
        let error = |state, problem: &str, hint: &str| {
            let types: Vec<String> = (args.iter().enumerate())
                .map(|(i, a)| match names.get(i).copied().flatten() {
                    Some(n) => format!("{n} => {}", name_of(a.ty.id)),
                    None => name_of(a.ty.id).to_string(),
                })
                .collect();
            let message = format!("function {name}({}) {problem}", types.join(", "));
            Err(at(SqlError::new(state, message).hint(hint), location))
        };
        let Candidate { function, places, spread, .. } = match (fitting.pop(), fitting.is_empty()) {
            (Some(one), true) => one,
            (Some(_), false) => {
                return error(
                    sqlstate::AMBIGUOUS_FUNCTION,
                    "is not unique",
                    "Could not choose a best candidate function. You might need to add explicit type casts.",
                );
            }
            (None, _) => {
                let types: Vec<TypeId> = args.iter().map(|a| a.ty.id).collect();
                if called.schema.is_none()
                    && self.functions(None, called.name).is_empty()
                    && let Some(e) = resolve::not_supported_function(called.name, &types)
                {
                    return Err(at(e, location));
                }
                return error(
                    sqlstate::UNDEFINED_FUNCTION,
                    "does not exist",
                    "No function matches the given name and argument types. \
                     You might need to add explicit type casts.",
                );
            }
        };
        if called.schema.is_none() {
            self.names().note(location, function.schema)
        }
        let (last, count) = (function.args.len().saturating_sub(1), args.len());
        let mut given: Vec<(usize, Expr)> = Vec::with_capacity(args.len());
        let mut items = Vec::new();
        for (n, (arg, place)) in args.into_iter().zip(places).enumerate() {
            let to = Type::new(function.args[place].1.id);
            if spread && place == last {
                let item = to.base().id.element().map_or(to, Type::new);
                items.push(self.cast(arg, item, false)?);
                continue;
            }
            let arg = self.cast(arg, to, false)?;
            let mut before = if variadic && n + 1 == count { "VARIADIC ".to_string() } else { String::new() };
            if let Some(name) = names.get(n).copied().flatten() {
                before += &format!("{} => ", ondol_types::name::quote(name))
            }
            given.push((place, self.behind(before, arg)));
        }
        if spread {
            let to = Type::new(function.args[last].1.id);
            let array = self.array_of_items(Type::new(to.base().id), items);
            let array = self.cast(array, to, false)?;
            given.push((last, self.behind("VARIADIC ".into(), array)));
        }
        // As written, it has what was given, in that order.
        if !self.is_verbatim() {
            for place in 0..function.args.len() {
                if !given.iter().any(|g| g.0 == place) {
                    given.push((place, super::routine::left_out(self.catalog, &function, place)?))
                }
            }
            given.sort_by_key(|g| g.0)
        }
        Ok(RegisteredCall { function, args: given.into_iter().map(|g| g.1).collect() })
    }

    /// An argument with what is written before it.
    fn behind(&self, before: String, arg: Expr) -> Expr {
        if before.is_empty() || !self.is_verbatim() {
            return arg;
        }
        let ty = arg.ty;
        let kind = ExprKind::Cast { arg: Box::new(arg), explicit: false };
        self.noted(Expr { kind, ty, at: u32::MAX }, || Note::Argument(before))
    }

    /// A registered query as a value: a subquery of one column over it.
    pub(super) fn registered_scalar(&mut self, call: RegisteredCall, location: i32) -> SqlResult<Expr> {
        self.count_query()?;
        let RegisteredCall { function, mut args } = call;
        match &function.returns {
            Returns::Void | Returns::Scalar { set: false, .. } => {}
            Returns::Scalar { set: true, .. } => return self.registered_set(function, args, location),
            Returns::Rows { set: false, .. } => {}
            Returns::Rows { .. } => return self.registered_set(function, args, location),
        }
        for e in &mut args {
            // They stand in the subquery now.
            walk_expr_mut(e, 0, &mut |e, level| {
                if let ExprKind::Column { depth, .. }
                | ExprKind::Aggregate { depth, .. }
                | ExprKind::Window { depth, .. } = &mut e.kind
                    && *depth >= level
                {
                    *depth += 1;
                }
                true
            });
        }
        let columns = function_columns(&function);
        let name = function.name.clone();
        let expr = Expr { at: place(location), ..self.value_of_call(&function, &columns)? };
        let ty = expr.ty;
        let query = Query {
            rels: vec![RelEntry { rel: Rel::Function { function, args }, alias: name.clone(), columns }],
            from: vec![From::Rel(0)],
            targets: vec![Target { expr, name, hidden: false }],
            is_call: true,
            ..Query::default()
        };
        Ok(Expr { kind: ExprKind::Scalar(Box::new(query)), ty, at: place(location) })
    }
}

impl Binder<'_> {
    /// What a row of a registered query in FROM, as relation 0, is as one value.
    pub(super) fn value_of_call(
        &self,
        function: &FunctionDef,
        columns: &[(String, Type)],
    ) -> SqlResult<Expr> {
        let Returns::Rows { of, .. } = &function.returns else {
            let ty = columns.first().map_or(Type::new(TypeId::VOID), |c| c.1);
            return Ok(super::scope::column(0, 0, ty));
        };
        let table = of.as_ref().and_then(|of| self.catalog.row_type_named(of));
        let ty = table.unwrap_or(TypeId::RECORD);
        let values = columns.iter().enumerate().map(|(i, c)| super::scope::column(0, i, c.1)).collect();
        Ok(super::row::row_of(ty, &columns.to_vec(), values, u32::MAX))
    }
}

/// A registered query that a call may mean: which of its arguments each given one is, and their types.
struct Candidate {
    function: Arc<FunctionDef>,
    places: Vec<usize>,
    types: Vec<TypeId>,
    /// Whether the last of them are items of its last argument.
    spread: bool,
}

/// Leaves those that PostgreSQL's rules prefer (see [`resolve`]): with most exact types, then with most types
/// that are preferred in their category; for unknown literals, those that take text.
fn narrow(left: &mut Vec<Candidate>, given: &[TypeId]) {
    let known = |i: usize| given[i] != TypeId::UNKNOWN;
    let keep_best = |left: &mut Vec<Candidate>, score: &dyn Fn(&Candidate) -> usize| {
        if let Some(best) = left.iter().map(score).max() {
            left.retain(|c| score(c) == best);
        }
    };
    keep_best(left, &|c| (0..given.len()).filter(|i| known(*i) && c.types[*i] == given[*i]).count());
    keep_best(left, &|c| {
        let fits = |i: &usize| {
            let (t, g) = (c.types[*i], given[*i]);
            t == g || (t.is_preferred() && t.category() == g.category())
        };
        (0..given.len()).filter(|i| known(*i) && fits(i)).count()
    });
    for i in (0..given.len()).filter(|i| !known(*i)) {
        if left.len() > 1 && left.iter().any(|c| c.types[i].category() == Category::String) {
            left.retain(|c| c.types[i].category() == Category::String);
        }
        if left.len() > 1 && left.iter().any(|c| c.types[i].is_preferred()) {
            left.retain(|c| c.types[i].is_preferred());
        }
    }
}

/// The columns of a registered query in FROM.
pub fn function_columns(function: &FunctionDef) -> Vec<(String, Type)> {
    match &function.returns {
        Returns::Void => vec![(function.name.clone(), Type::new(TypeId::VOID))],
        Returns::Scalar { ty, .. } => vec![(function.name.clone(), ty.base())],
        Returns::Rows { columns, .. } => columns.iter().map(|(n, t)| (n.clone(), t.base())).collect(),
    }
}

/// How many levels out the query is that an aggregate belongs to.
fn own_depth(aggregate: &Aggregate) -> u16 {
    let mut nearest: Option<u16> = None;
    for e in aggregate.exprs() {
        walk_expr(e, 0, &mut |e, level| {
            if let ExprKind::Column { depth, .. } | ExprKind::Aggregate { depth, .. } = e.kind
                && depth >= level
            {
                let depth = depth - level;
                nearest = Some(nearest.map_or(depth, |n| n.min(depth)));
            }
            true
        });
    }
    nearest.unwrap_or(0)
}

/// generate_series in FROM: over integers or bigints, or over timestamps by an interval.
pub fn series(binder: &mut Binder<'_>, mut args: Vec<Expr>, location: i32) -> SqlResult<Rel> {
    let types: Vec<TypeId> = args.iter().map(|a| a.ty.id).collect();
    let is_over_time = types.iter().any(|t| matches!(t.category(), Category::DateTime | Category::Timespan));
    if !(2..=3).contains(&args.len()) || is_over_time && args.len() == 2 {
        return Err(at(no_series(&types), location));
    }
    if is_over_time {
        return series_over_time(binder, args, &types, location);
    }
    let id = resolve::common_type(&types, "generate_series").map_err(|e| at(e, location))?;
    let id = match id {
        TypeId::INT2 | TypeId::INT4 => TypeId::INT4,
        TypeId::INT8 => TypeId::INT8,
        // All unknown: PostgreSQL cannot choose either.
        TypeId::TEXT if types.iter().all(|t| *t == TypeId::UNKNOWN) => {
            let list = types.iter().map(|t| name_of(*t)).collect::<Vec<_>>().join(", ");
            let message = format!("function generate_series({list}) is not unique");
            return Err(at(SqlError::new(sqlstate::AMBIGUOUS_FUNCTION, message), location));
        }
        other => {
            let feature = format!("generate_series over {}", name_of(other));
            return Err(at(SqlError::unsupported(feature), location));
        }
    };
    if args.len() == 2 {
        let one = if id == TypeId::INT8 { Value::Int8(1) } else { Value::Int4(1) };
        args.push(constant(one, Type::new(id), u32::MAX));
    }
    let mut args = binder.cast_all(args, Type::new(id), "generate_series")?;
    let (step, stop, start) = (args.pop(), args.pop(), args.pop());
    match (start, stop, step) {
        (Some(start), Some(stop), Some(step)) => Ok(Rel::Series { start, stop, step, by: None }),
        _ => Err(unexpected("generate_series")),
    }
}

fn no_series(types: &[TypeId]) -> SqlError {
    let list = types.iter().map(|t| name_of(*t)).collect::<Vec<_>>().join(", ");
    let message = format!("function generate_series({list}) does not exist");
    SqlError::new(sqlstate::UNDEFINED_FUNCTION, message).hint(
        "No function matches the given name and argument types. You might need to add explicit type casts.",
    )
}

/// Over timestamps, if one of the ends is one and none a timestamptz; otherwise over timestamptz.
fn series_over_time(
    binder: &mut Binder<'_>,
    args: Vec<Expr>,
    types: &[TypeId],
    location: i32,
) -> SqlResult<Rel> {
    let ends = &types[..types.len().min(2)];
    let moment = match ends.contains(&TypeId::TIMESTAMP) && !ends.contains(&TypeId::TIMESTAMPTZ) {
        true => TypeId::TIMESTAMP,
        false => TypeId::TIMESTAMPTZ,
    };
    let Ok([start, stop, step]) = <[Expr; 3]>::try_from(args) else {
        return Err(at(no_series(types), location));
    };
    let wanted = [moment, moment, TypeId::INTERVAL];
    if types.iter().zip(wanted).any(|(from, to)| !can_coerce(*from, to, CastContext::Implicit)) {
        return Err(at(no_series(types), location));
    }
    let [start, stop] =
        [binder.cast(start, Type::new(moment), false)?, binder.cast(stop, Type::new(moment), false)?];
    let step = binder.cast(step, Type::new(TypeId::INTERVAL), false)?;
    // Its sign is asked for by itself, so it must not matter how often the step is computed.
    if step.calls(Volatility::Volatile) {
        return Err(at(SqlError::unsupported("generate_series with a volatile step"), location));
    }
    let add =
        resolve::resolve_operator("+", Some(moment), TypeId::INTERVAL).map_err(|e| at(e, location))?.func;
    let mut whens = Vec::new();
    for (operator, sign) in [(">", 1), ("=", 0), ("<", -1)] {
        let zero = constant(Value::Text("0".into()), Type::UNKNOWN, u32::MAX);
        let test = binder.operator(operator, Some(step.clone()), zero, place(location))?;
        whens.push((test, constant(Value::Int4(sign), Type::INT4, u32::MAX)));
    }
    let sign = Expr { kind: ExprKind::Case { whens, otherwise: None }, ty: Type::INT4, at: place(location) };
    Ok(Rel::Series { start, stop, step: sign, by: Some(Box::new(Increment { step, add })) })
}
