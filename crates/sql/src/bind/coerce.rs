//! Types of expressions: casts, unknown literals, parameters, constants.
//!
//! 1. An expression of type unknown is a literal, a NULL or a parameter whose type nothing has told yet.
//!    Nothing else is: results of queries and CASEs are settled as text.
//! 2. A parameter takes the type of the first context that asks for one (as in PostgreSQL's extended
//!    protocol); contexts that disagree are an error.
//! 3. Constants are folded where that cannot fail to show an error in its place: a literal's error is an
//!    error of the statement, with the literal's place; a function's or cast's error stays where it is, to be
//!    raised if the expression is ever evaluated.

use super::tree::{at_expr, unexpected};
use super::{Binder, constant, name_of};
use crate::bound::{Expr, ExprKind, Query, Rel, RelEntry, Target, may_be_kept, walk_query_mut};
use ondol_types::cast::{self, CastContext, cast_context};
use ondol_types::catalog::{registered, vector};
use ondol_types::func::{self, ANY, Context, FuncDef, OperatorDef, Volatility, id};
use ondol_types::resolve::polymorphic::concrete;
use ondol_types::style::Styles;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, ValueRef, resolve, sqlstate, text};

/// Whether a cast stands in the context.
pub fn can_coerce(from: TypeId, to: TypeId, context: CastContext) -> bool {
    let to = Type::new(to).base().id;
    from == to || from == TypeId::UNKNOWN || cast_context(from, to).is_some_and(|c| c <= context)
}

/// Whether text that is read as a type means what the time of the statement says: 'now', or '12:00' where the
/// zone has a summer.
pub fn asks_time(text: &str, to: TypeId, styles: &Styles) -> bool {
    let has_word = || {
        let text = text.to_ascii_lowercase();
        ["now", "today", "tomorrow", "yesterday", "allballs"].iter().any(|w| text.contains(w))
    };
    match to.element().unwrap_or(to) {
        TypeId::TIMETZ => !styles.zone.is_fixed() || has_word(),
        TypeId::DATE | TypeId::TIME | TypeId::TIMESTAMP | TypeId::TIMESTAMPTZ => has_word(),
        _ => false,
    }
}

/// Whether its values are names of objects, which may mean others tomorrow.
fn names_an_object(t: TypeId) -> bool {
    registered::kind(t.element().unwrap_or(t)).is_some()
}

impl Binder<'_> {
    /// Casts to a type and modifier. The cast must exist ([`can_coerce`]).
    pub(super) fn cast(&mut self, e: Expr, to: Type, explicit: bool) -> SqlResult<Expr> {
        if to.base() != to {
            // The text of an array is read as items of the domain, of which none is cut.
            let explicit = explicit && !(to.id.is_array() && e.ty.id == TypeId::UNKNOWN);
            let value = self.cast(e, to.base(), explicit)?;
            if self.is_verbatim() {
                let ty = value.ty;
                let cast = Expr { kind: ExprKind::Cast { arg: Box::new(value), explicit }, ty, at: u32::MAX };
                return Ok(self.noted(cast, || super::written::Note::Domain(to)));
            }
            return self.in_declared(value, to.id);
        }
        if e.ty.id == TypeId::UNKNOWN {
            let typed = self.give_type(e, to.of_literal())?;
            if super::row::has_domains(to.id) && !self.is_verbatim() {
                return self.in_declared(typed, to.id);
            }
            return self.cast_typmod(typed, to, explicit);
        }
        if e.ty.id == TypeId::RECORD && to.id != e.ty.id && super::row::is_row(to.id) {
            if self.is_verbatim() {
                let row = self.row_as(e, to.id, explicit)?;
                let arg = Box::new(self.noted(row, || super::written::Note::Row));
                return Ok(Expr { kind: ExprKind::Cast { arg, explicit }, ty: to, at: u32::MAX });
            }
            return self.row_as(e, to.id, explicit);
        }
        if e.ty.id == to.id {
            if explicit && self.is_verbatim() && self.is_of_domain(&e) {
                let kind = ExprKind::Cast { arg: Box::new(e), explicit };
                return Ok(self.noted(Expr { kind, ty: to, at: u32::MAX }, || super::written::Note::Bare));
            }
            return self.cast_typmod(e, to, explicit);
        }
        // What is no string is made of the text, blanks and all.
        let e = if to.id.is_string() { e } else { super::scope::unnamed(shown(e)) };
        let place = e.at;
        if let ExprKind::Const(v) = &e.kind
            && !self.is_verbatim()
        {
            let is_string = |t: TypeId| t.element().unwrap_or(t).is_string_or_unknown();
            let is_styled =
                is_string(e.ty.id) && text::is_styled(to.id) || is_string(to.id) && text::is_styled(e.ty.id);
            // A NULL is one in each zone.
            let is_zoned = cast::is_zoned(e.ty.id, to.id) && !v.is_null();
            if !is_styled
                && !is_zoned
                && let Ok(v) = cast::cast(v.clone(), e.ty.id, to, explicit, &Context::AHEAD)
            {
                return Ok(constant(v, to, place));
            }
        }
        let place = if self.is_verbatim() { u32::MAX } else { place };
        let cast = Expr { kind: ExprKind::Cast { arg: Box::new(e), explicit }, ty: to, at: place };
        if super::row::has_domains(to.id) && !self.is_verbatim() {
            return self.in_declared(cast, to.id);
        }
        Ok(cast)
    }

    /// Whether an expression, bound as written, is of a domain that its type does not tell of.
    fn is_of_domain(&self, e: &Expr) -> bool {
        let Some(notes) = &self.notes else { return false };
        let notes = notes.borrow();
        if let Some(super::written::Note::Domain(_)) = notes.of(e) {
            return true;
        }
        let ExprKind::Column { depth, rel, column } = e.kind else { return false };
        let at = self.levels.len().checked_sub(1 + usize::from(depth));
        let Some(level) = at.and_then(|n| self.levels.get(n)) else { return false };
        let query = Query { rels: level.rels.clone(), written: level.written.clone(), ..Query::default() };
        let reader = super::declared::Declarations { catalog: self.catalog, notes: &notes, given: &[] };
        let of = Expr { kind: ExprKind::Column { depth: 0, rel, column }, ..e.clone() };
        reader.expr(&of, &[Some(&query)]).domain.is_some()
    }

    /// Casts to what a function takes that asks for no modifier and looks at no blanks, as comparisons do.
    pub(super) fn operand_of(&mut self, e: Expr, to: TypeId) -> SqlResult<Expr> {
        // A row of any type is one of `record` as it is.
        let is_row = to == TypeId::RECORD && super::row::is_row(e.ty.id);
        if e.ty.id == to || is_row { Ok(e) } else { self.cast(e, Type::new(to), false) }
    }

    /// Brings an expression that has the type already into the modifier.
    fn cast_typmod(&mut self, e: Expr, to: Type, explicit: bool) -> SqlResult<Expr> {
        if e.ty.typmod == to.typmod {
            return Ok(e);
        }
        // Where no modifier is wanted, the one that is there stays known: a cast would do nothing. But blanks
        // that only the length tells would be lost with it.
        if to.typmod < 0 {
            return Ok(shown(e));
        }
        let place = e.at;
        if let ExprKind::Const(v) = e.kind {
            if v.is_null() && !self.is_verbatim() {
                return Ok(constant(Value::Null, to, place));
            }
            if self.is_verbatim() {
                let arg = Box::new(constant(v, e.ty, place));
                return Ok(Expr { kind: ExprKind::Cast { arg, explicit }, ty: to, at: u32::MAX });
            }
            return match cast::apply_typmod(v.clone(), to, explicit, &Context::EMPTY) {
                Ok(v) => Ok(constant(v, to, place)),
                // Raised when the statement runs, as PostgreSQL does: a row may never come to it.
                Err(_) => {
                    let arg = Box::new(constant(v, Type::new(to.id), place));
                    Ok(Expr { kind: ExprKind::Cast { arg, explicit }, ty: to, at: place })
                }
            };
        }
        let place = if self.is_verbatim() { u32::MAX } else { place };
        Ok(Expr { kind: ExprKind::Cast { arg: Box::new(e), explicit }, ty: to, at: place })
    }

    /// Gives a literal or parameter its type. Of the modifiers, a literal's text is read with those that
    /// change its meaning.
    fn give_type(&mut self, e: Expr, ty: Type) -> SqlResult<Expr> {
        let to = ty.id;
        match e.kind {
            ExprKind::Param(n) => {
                self.settle_param(n, to, e.at)?;
                Ok(Expr { kind: ExprKind::Param(n), ty: Type::new(to), at: e.at })
            }
            ExprKind::Const(Value::Text(t)) if names_an_object(to) => {
                // Looked at now, for an error in its place; found when the statement runs.
                let sight = crate::catalog::Sight::of_catalog(self.catalog, self.path);
                let context = Context { objects: &sight, ..Context::EMPTY };
                text::input(&t, ty, &context).map_err(|x| at_expr(x, e.at))?;
                let arg = Box::new(constant(Value::Text(t), Type::TEXT, e.at));
                Ok(Expr { kind: ExprKind::Cast { arg, explicit: true }, ty, at: e.at })
            }
            ExprKind::Const(Value::Text(t)) => {
                if asks_time(&t, to, &self.styles) {
                    let arg = Box::new(constant(Value::Text(t), Type::TEXT, e.at));
                    return Ok(Expr { kind: ExprKind::Cast { arg, explicit: true }, ty, at: e.at });
                }
                let value = match to {
                    TypeId::TEXT | TypeId::VARCHAR => Value::Text(t),
                    _ => {
                        let context = Context { styles: self.styles, ..Context::EMPTY };
                        let value = text::input(&t, ty, &context).map_err(|x| at_expr(x, e.at))?;
                        let usual =
                            |value: &Value| text::input(&t, ty, &Context::EMPTY).as_ref() == Ok(value);
                        if self.otherwise.is_none() && !self.styles.is_usual() && !usual(&value) {
                            self.otherwise = Some(t)
                        }
                        value
                    }
                };
                Ok(constant(value, ty, e.at))
            }
            ExprKind::Const(v) => Ok(constant(v, ty, e.at)),
            kind => {
                // Not by invariant 1, unless as text.
                let arg = Box::new(Expr { kind, ty: Type::TEXT, at: e.at });
                Ok(Expr { kind: ExprKind::Cast { arg, explicit: false }, ty, at: e.at })
            }
        }
    }

    fn settle_param(&mut self, n: u16, to: TypeId, place: u32) -> SqlResult<()> {
        let Some(slot) = self.params.get_mut(n as usize) else { return Ok(()) };
        if *slot == TypeId::UNKNOWN {
            *slot = to;
        } else if *slot != to {
            let message = format!("inconsistent types deduced for parameter ${}", n + 1);
            let error = SqlError::new("42P08", message);
            return Err(at_expr(error.detail(format!("{} versus {}", name_of(*slot), name_of(to))), place));
        }
        Ok(())
    }

    /// A literal that nothing gave a type is text.
    pub(super) fn settle(&mut self, e: Expr) -> SqlResult<Expr> {
        if e.ty.id == TypeId::UNKNOWN { self.cast(e, Type::TEXT, false) } else { Ok(e) }
    }

    /// The same where a parameter may stay open, as in `$1 IS NULL`.
    pub(super) fn settle_literal(&mut self, e: Expr) -> SqlResult<Expr> {
        if matches!(e.kind, ExprKind::Param(_)) { Ok(e) } else { self.settle(e) }
    }

    /// A condition: boolean, or an error that names the construct.
    pub(super) fn condition(&mut self, e: Expr, construct: &str) -> SqlResult<Expr> {
        self.of_type(e, Type::BOOL, construct)
    }

    /// What a construct needs: implicitly cast, or "argument of X must be type T, not type U".
    pub(super) fn of_type(&mut self, e: Expr, to: Type, construct: &str) -> SqlResult<Expr> {
        let context = if to.id == TypeId::BOOL { CastContext::Implicit } else { CastContext::Assignment };
        if can_coerce(e.ty.id, to.id, context) {
            return self.cast(e, to, false);
        }
        let message =
            format!("argument of {construct} must be type {}, not type {}", name_of(to.id), name_of(e.ty.id));
        Err(at_expr(SqlError::new(sqlstate::DATATYPE_MISMATCH, message), e.at))
    }

    /// Assigns to a column.
    pub(super) fn assign(&mut self, e: Expr, to: Type, column: &str) -> SqlResult<Expr> {
        if can_coerce(e.ty.id, to.id, CastContext::Assignment) {
            return self.cast(e, to, false);
        }
        let message = format!(
            "column \"{column}\" is of type {} but expression is of type {}",
            name_of(to.id),
            name_of(e.ty.id)
        );
        let error = SqlError::new(sqlstate::DATATYPE_MISMATCH, message)
            .hint("You will need to rewrite or cast the expression.");
        Err(at_expr(error, e.at))
    }

    /// The common type of expressions, and they cast to it.
    pub(super) fn unify(&mut self, exprs: Vec<Expr>, construct: &str) -> SqlResult<(Type, Vec<Expr>)> {
        let ty = common_type(&exprs.iter().collect::<Vec<_>>(), construct)?;
        let exprs = self.cast_all(exprs, ty, construct)?;
        Ok((ty, exprs))
    }

    pub(super) fn cast_all(&mut self, exprs: Vec<Expr>, ty: Type, construct: &str) -> SqlResult<Vec<Expr>> {
        self.each_implicitly(exprs, ty.id, construct, |b, e| b.cast(e, ty, false))
    }

    /// [`Binder::operand_of`] for each.
    pub(super) fn operands_of(
        &mut self,
        exprs: Vec<Expr>,
        ty: TypeId,
        construct: &str,
    ) -> SqlResult<Vec<Expr>> {
        self.each_implicitly(exprs, ty, construct, |b, e| b.operand_of(e, ty))
    }

    fn each_implicitly(
        &mut self,
        exprs: Vec<Expr>,
        ty: TypeId,
        construct: &str,
        cast: impl Fn(&mut Self, Expr) -> SqlResult<Expr>,
    ) -> SqlResult<Vec<Expr>> {
        let mut out = Vec::with_capacity(exprs.len());
        for e in exprs {
            if !can_coerce(e.ty.id, ty, CastContext::Implicit) {
                let message =
                    format!("{construct} could not convert type {} to {}", name_of(e.ty.id), name_of(ty));
                return Err(at_expr(SqlError::new(sqlstate::CANNOT_COERCE, message), e.at));
            }
            out.push(cast(self, e)?);
        }
        Ok(out)
    }

    /// A call of a function that was resolved, with the casts put in; folded if it can be.
    pub(super) fn call(&mut self, def: &FuncDef, args: Vec<Expr>, place: u32) -> SqlResult<Expr> {
        let given: Vec<TypeId> = args.iter().map(|a| a.ty.id).collect();
        let shape = concrete(def.args, def.ret, &given)?;
        super::json::check_compared(def, &given).map_err(|e| at_expr(e, place))?;
        let mut cast = Vec::with_capacity(args.len() + 1);
        for (arg, want) in args.into_iter().zip(shape.args) {
            let arg = if want == ANY { self.settle(arg)? } else { self.operand_of(arg, want)? };
            let arg = padded(def, arg);
            cast.push(if super::json::names_fields(def.id) { self.with_names(arg) } else { arg });
        }
        if def.template {
            cast.push(super::array::template(shape.ret));
        }
        if self.is_verbatim() {
            let kind = ExprKind::Call { func: def.id, args: cast };
            return Ok(Expr { kind, ty: Type::new(shape.ret), at: place });
        }
        if let Some(call) = self.by_number(def.id, &mut cast, Type::new(shape.ret), place)? {
            return Ok(call);
        }
        Ok(fold(def, cast, Type::new(shape.ret), place))
    }

    /// The types that an operator between two expressions takes.
    pub(super) fn operand_types(op: &OperatorDef, left: TypeId, right: TypeId) -> SqlResult<[TypeId; 2]> {
        match concrete(op.args(), op.ret(), &[left, right])?.args[..] {
            [left, right] => Ok([left, right]),
            _ => Err(unexpected("an operator of one operand")),
        }
    }

    /// An operator between two expressions, or before one.
    pub(super) fn operator(
        &mut self,
        name: &str,
        left: Option<Expr>,
        right: Expr,
        place: u32,
    ) -> SqlResult<Expr> {
        let op = resolve::resolve_operator(name, left.as_ref().map(|e| e.ty.id), right.ty.id)
            .map_err(|e| at_expr(e, place))?;
        let args = match left {
            Some(l) => vec![l, right],
            None => vec![right],
        };
        let call = self.call(op.def(), args, place)?;
        Ok(self.noted(call, || super::written::Note::Operator(op.name.to_string())))
    }
}

/// An argument of a function that looks at the spaces that values of char(n) do not keep.
pub fn padded(def: &FuncDef, arg: Expr) -> Expr {
    if func::sees_padding(def.id) { shown(arg) } else { arg }
}

/// An int2vector or oidvector as the array of its items; anything else as it is.
pub fn as_array(e: Expr) -> Expr {
    let Some(array) = vector::array_of(e.ty.id) else { return e };
    let place = e.at;
    Expr { kind: ExprKind::Cast { arg: Box::new(e), explicit: false }, ty: Type::new(array), at: place }
}

/// char(n) with the blanks that its values do not keep, as bpchar without a length; anything else as it is.
pub fn shown(arg: Expr) -> Expr {
    match arg.ty.char_len().map(i32::try_from) {
        Some(Ok(n)) if arg.ty.id == TypeId::BPCHAR => {
            let (ty, place) = (Type::new(TypeId::BPCHAR), arg.at);
            let place = if place >= super::written::FIRST { u32::MAX } else { place };
            if matches!(arg.kind, ExprKind::Const(Value::Null)) {
                return Expr { ty, ..arg };
            }
            fold(
                func::get(id::BPCHAR_PAD),
                vec![arg, constant(Value::Int4(n), Type::INT4, u32::MAX)],
                ty,
                place,
            )
        }
        _ => arg,
    }
}

/// bpchar of which it is known that it was char(n).
pub fn of_length(e: Expr, ty: Type) -> Expr {
    if ty.id != TypeId::BPCHAR || ty.char_len().is_none() {
        return Expr { ty, ..e };
    }
    let place = if e.at >= super::written::FIRST { u32::MAX } else { e.at };
    let arg = Box::new(Expr { ty: Type::new(ty.id), ..e });
    Expr { kind: ExprKind::Cast { arg, explicit: true }, ty, at: place }
}

/// A call, or the constant that it is.
pub fn fold(def: &FuncDef, args: Vec<Expr>, ty: Type, place: u32) -> Expr {
    if def.volatility == Volatility::Immutable && args.iter().all(|a| matches!(a.kind, ExprKind::Const(_))) {
        let mut numerics: Vec<Vec<u8>> = Vec::new();
        for a in &args {
            if let ExprKind::Const(Value::Numeric(n)) = &a.kind {
                let mut bytes = Vec::new();
                n.encode(&mut bytes);
                numerics.push(bytes);
            }
        }
        let mut next = numerics.iter();
        let refs: Vec<ValueRef<'_>> = args
            .iter()
            .map(|a| match &a.kind {
                ExprKind::Const(v) => borrow(v, &mut next),
                _ => ValueRef::Null,
            })
            .collect();
        if let Ok(v) = func::call(def.id, &refs, &Context::AHEAD)
            && may_be_kept(&v)
        {
            return constant(v, ty, place);
        }
    }
    Expr { kind: ExprKind::Call { func: def.id, args }, ty, at: place }
}

/// A value by reference; numbers are taken from their encodings, in order.
fn borrow<'v>(v: &'v Value, numerics: &mut std::slice::Iter<'v, Vec<u8>>) -> ValueRef<'v> {
    match v {
        Value::Null => ValueRef::Null,
        Value::Bool(b) => ValueRef::Bool(*b),
        Value::Int2(n) => ValueRef::Int2(*n),
        Value::Int4(n) => ValueRef::Int4(*n),
        Value::Int8(n) => ValueRef::Int8(*n),
        Value::Float8(f) => ValueRef::Float8(*f),
        Value::Numeric(_) => ValueRef::Numeric(numerics.next().map_or(&[], |b| b)),
        Value::Text(t) => ValueRef::Text(t),
        Value::Bytea(b) => ValueRef::Bytea(b),
        Value::Date(d) => ValueRef::Date(*d),
        Value::Timestamp(t) => ValueRef::Timestamp(*t),
        Value::Timestamptz(t) => ValueRef::Timestamptz(*t),
        Value::Opaque(ty, b) => ValueRef::Opaque(*ty, b),
    }
}

/// The type that expressions have together, with the modifier that all share. A NULL fits any.
pub fn common_type(exprs: &[&Expr], construct: &str) -> SqlResult<Type> {
    let ids: Vec<TypeId> = exprs.iter().map(|e| e.ty.id).collect();
    let id = resolve::common_type(&ids, construct).map_err(|error| {
        // PostgreSQL points at the first that does not fit.
        let known = |e: &&&Expr| e.ty.id != TypeId::UNKNOWN;
        let first = exprs.iter().find(known).map(|e| e.ty.id.category());
        match exprs.iter().filter(known).find(|e| Some(e.ty.id.category()) != first) {
            Some(e) => at_expr(error, e.at),
            None => error,
        }
    })?;
    let is_null = |e: &Expr| e.ty.id == TypeId::UNKNOWN && matches!(e.kind, ExprKind::Const(Value::Null));
    let types: Vec<Type> = exprs.iter().filter(|e| !is_null(e)).map(|e| e.ty).collect();
    Ok(Type::with(id, resolve::common_typmod(&types, id)))
}

/// Literals in a query's result that nothing gave a type are text.
pub fn settle_targets(binder: &mut Binder<'_>, query: &mut Query) -> SqlResult<()> {
    settle_all(binder, &mut query.targets)
}

/// The same for a list of targets.
pub fn settle_all(binder: &mut Binder<'_>, targets: &mut [Target]) -> SqlResult<()> {
    for t in targets {
        if t.expr.ty.id == TypeId::UNKNOWN {
            let e = std::mem::replace(&mut t.expr, constant(Value::Null, Type::UNKNOWN, u32::MAX));
            t.expr = binder.settle(e)?;
        }
    }
    Ok(())
}

/// Makes the visible targets of a query the given ones by `convert`: in place, or, where that could change
/// which rows there are or their order, around the query.
pub fn convert_targets(
    binder: &mut Binder<'_>,
    mut query: Query,
    convert: &mut dyn FnMut(&mut Binder<'_>, usize, Expr) -> SqlResult<Expr>,
) -> SqlResult<Query> {
    let plain =
        query.set.is_none() && !query.distinct && query.distinct_on.is_empty() && query.order_by.is_empty();
    let mut visible = Vec::new();
    for (i, t) in query.targets.iter_mut().enumerate() {
        if t.hidden {
            continue;
        }
        let n = visible.len();
        visible.push(i);
        // A literal without a type can only be given one here.
        if plain && !binder.is_verbatim() || t.expr.ty.id == TypeId::UNKNOWN {
            let e = std::mem::replace(&mut t.expr, constant(Value::Null, Type::UNKNOWN, u32::MAX));
            t.expr = convert(binder, n, e)?;
        }
    }
    if plain || binder.is_verbatim() {
        return Ok(query);
    }
    let columns = query.columns();
    let mut changed = false;
    let mut targets = Vec::with_capacity(columns.len());
    for (n, (name, ty)) in columns.iter().enumerate() {
        let place = query.targets[visible[n]].expr.at;
        let kind = ExprKind::Column { depth: 0, rel: 0, column: n as u16 };
        let expr = convert(binder, n, Expr { kind, ty: *ty, at: place })?;
        changed |= !matches!(expr.kind, ExprKind::Column { .. });
        targets.push(Target { expr, name: name.clone(), hidden: false });
    }
    if !changed {
        return Ok(query);
    }
    deepen(&mut query);
    let entry = RelEntry { rel: Rel::Query(Box::new(query)), alias: "*SELECT*".into(), columns };
    Ok(Query { rels: vec![entry], from: vec![crate::bound::From::Rel(0)], targets, ..Query::default() })
}

/// Puts a query one level further in: what it refers to outside of itself is one level further out.
pub fn deepen(query: &mut Query) {
    walk_query_mut(query, 0, &mut |e, level| {
        shift_from(e, level, 1);
        true
    });
}

/// Moves a reference that leads out of `level` levels by so many more.
pub fn shift_from(e: &mut Expr, level: u16, by: i32) {
    match &mut e.kind {
        ExprKind::Column { depth, .. }
        | ExprKind::Aggregate { depth, .. }
        | ExprKind::Window { depth, .. }
        | ExprKind::GroupOuter { depth, .. }
            if *depth > level =>
        {
            *depth = (i32::from(*depth) + by) as u16;
        }
        _ => {}
    }
}
