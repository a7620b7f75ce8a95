//! Expressions: constants, names, operators, truth; and what columns are called after them.

use super::tree::{at, kind, need, place, refuse_at, string, strings, unexpected, variant};
use super::types::{any_type, bind_type, type_label};
use super::written::Note;
use super::{Binder, coerce, constant, name_of};
use crate::bound::{Expr, ExprKind};
use crate::parse::tree::{
    self, AExprKind, BoolExprType, BoolTestType, Node, NullTestType, SubLinkType, a_const::Val,
    node::Node as Kind,
};
use ondol_types::cast::CastContext;
use ondol_types::func::Context;
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, sqlstate, text};

impl<'a> Binder<'a> {
    /// Binds an expression that stands by itself.
    pub(super) fn expr(&mut self, node: &'a Node) -> SqlResult<Expr> {
        let around = self.collation.take();
        let bound = self.bind_expr(node);
        self.collation = around;
        bound
    }

    /// Binds an operand: a COLLATE in it holds for its whole expression, in which no other may stand.
    pub(super) fn operand(&mut self, node: &'a Node) -> SqlResult<Expr> {
        let around = self.collation.take();
        let bound = self.bind_expr(node)?;
        let own = match kind(node)? {
            Kind::CollateClause(c) => collation_name(&c.collname).map(|n| Some((n, c.location)))?,
            // What a call of text gives that is no text has no order of text.
            _ => self.collation.take().filter(|_| bound.ty.id.is_string_or_unknown()),
        };
        self.collation = match (around, own) {
            (Some((a, _)), Some((b, location))) if a != b => {
                let message = format!("collation mismatch between explicit collations \"{a}\" and \"{b}\"");
                return Err(at(SqlError::new(sqlstate::COLLATION_MISMATCH, message), location));
            }
            (around, own) => around.or(own),
        };
        Ok(bound)
    }

    fn bind_expr(&mut self, node: &'a Node) -> SqlResult<Expr> {
        self.limits.go_on()?;
        match kind(node)? {
            Kind::AConst(c) => literal(c),
            Kind::ColumnRef(c) => self.column_ref(c),
            Kind::ParamRef(p) => self.param(p),
            Kind::AExpr(e) => self.a_expr(e),
            Kind::BoolExpr(e) => self.bool_expr(e),
            Kind::TypeCast(c) => self.type_cast(c),
            Kind::FuncCall(c) => self.func_call(c),
            Kind::NullTest(t) => {
                let arg = self.expr(need(&t.arg)?)?;
                let arg = self.settle_literal(arg)?;
                let negated = t.nulltesttype() == NullTestType::IsNotNull;
                if super::row::is_row(arg.ty.id) {
                    return Ok(self.null_test_of_row(arg, negated, t.location));
                }
                let arg = Box::new(arg);
                Ok(truth(ExprKind::IsNull { arg, negated }, t.location))
            }
            Kind::BooleanTest(t) => self.boolean_test(t),
            Kind::CaseExpr(c) => self.without_sets("CASE", |b| b.case(c)),
            Kind::CoalesceExpr(c) => {
                let e = self.without_sets("COALESCE", |b| {
                    let args = b.operands(&c.args)?;
                    let (ty, args) = b.unify(args, "COALESCE")?;
                    Ok(Expr { kind: ExprKind::Coalesce(args), ty, at: place(c.location) })
                })?;
                Ok(e)
            }
            Kind::MinMaxExpr(m) => {
                let greatest = m.op() == tree::MinMaxOp::IsGreatest;
                let args = self.operands(&m.args)?;
                let (ty, args) = self.unify(args, if greatest { "GREATEST" } else { "LEAST" })?;
                super::json::check_greatest(&args)?;
                let kind = if greatest { ExprKind::Greatest(args) } else { ExprKind::Least(args) };
                Ok(Expr { kind, ty, at: place(m.location) })
            }
            Kind::SqlvalueFunction(f) => self.value_function(f),
            Kind::SubLink(s) => self.sublink(s),
            Kind::CollateClause(c) => self.collate(c),
            Kind::SetToDefault(d) => {
                let message = "DEFAULT is not allowed in this context";
                Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), d.location))
            }
            Kind::RowExpr(r) => self.row_constructor(r),
            Kind::AArrayExpr(a) => self.array_expr(a, None),
            Kind::AIndirection(i) => self.indirection(i),
            Kind::GroupingFunc(g) => Err(at(SqlError::unsupported("GROUPING"), g.location)),
            Kind::CurrentOfExpr(_) => Err(SqlError::unsupported("WHERE CURRENT OF")),
            Kind::NamedArgExpr(n) => Err(at(SqlError::unsupported("a named argument here"), n.location)),
            Kind::XmlExpr(_) | Kind::XmlSerialize(_) => Err(SqlError::unsupported("XML")),
            Kind::MergeSupportFunc(_) => Err(SqlError::unsupported("MERGE_ACTION")),
            other => {
                let name = variant(other);
                if name.starts_with("Json") {
                    return Err(SqlError::unsupported("JSON"));
                }
                Err(SqlError::unsupported(format_args!("expression {name}")))
            }
        }
    }

    pub(super) fn exprs(&mut self, nodes: &'a [Node]) -> SqlResult<Vec<Expr>> {
        nodes.iter().map(|n| self.expr(n)).collect()
    }

    pub(super) fn operands(&mut self, nodes: &'a [Node]) -> SqlResult<Vec<Expr>> {
        nodes.iter().map(|n| self.operand(n)).collect()
    }

    fn column_ref(&mut self, c: &'a tree::ColumnRef) -> SqlResult<Expr> {
        if let Some((Kind::AStar(_), names)) =
            c.fields.split_last().and_then(|(f, names)| Some((f.node.as_ref()?, names)))
        {
            return self.row_named(&strings(names)?, c.location);
        }
        let names = strings(&c.fields)?;
        if let (["value"], Some(value)) = (&names[..], &self.value) {
            // As written, it has a note.
            return Ok(match self.has_note(value) {
                true => value.clone(),
                false => Expr { at: place(c.location), ..value.clone() },
            });
        }
        let e = match self.resolve_column(&names, c.location) {
            // PostgreSQL's other way to write a call of a function of the row.
            Err(error) if error.sqlstate() == sqlstate::UNDEFINED_COLUMN && names.len() == 2 => {
                let row = self.row_named(&names[..1], c.location);
                match row.map(|row| self.function_of_row(names[1], &row)) {
                    Ok(Ok(Some(call))) => return Ok(call),
                    _ => return Err(error),
                }
            }
            found => found?,
        };
        self.declared_param(e)
    }

    /// A parameter that was declared with a domain is one of its values.
    fn declared_param(&mut self, e: Expr) -> SqlResult<Expr> {
        let ExprKind::Param(n) = e.kind else { return Ok(e) };
        match self.declared.get(usize::from(n)).copied() {
            Some(ty) => self.in_declared(e, ty),
            None => Ok(e),
        }
    }

    fn param(&mut self, p: &tree::ParamRef) -> SqlResult<Expr> {
        let n = usize::try_from(p.number).unwrap_or(0);
        let missing = || {
            let message = format!("there is no parameter ${}", p.number);
            at(SqlError::new(sqlstate::UNDEFINED_PARAMETER, message), p.location)
        };
        if n == 0 || n > usize::from(u16::MAX) || (n > self.params.len() && !self.open_params) {
            return Err(missing());
        }
        if n > self.params.len() {
            self.params.resize(n, TypeId::UNKNOWN);
        }
        let id = self.params[n - 1];
        if id == TypeId::UNKNOWN {
            self.untyped_params = true;
        }
        let kind = ExprKind::Param((n - 1) as u16);
        self.declared_param(Expr { kind, ty: Type::new(id), at: place(p.location) })
    }

    fn bool_expr(&mut self, e: &'a tree::BoolExpr) -> SqlResult<Expr> {
        let (op, name) = match e.boolop() {
            BoolExprType::AndExpr => (BoolExprType::AndExpr, "AND"),
            BoolExprType::OrExpr => (BoolExprType::OrExpr, "OR"),
            BoolExprType::NotExpr => (BoolExprType::NotExpr, "NOT"),
            BoolExprType::Undefined => return Err(unexpected("a truth operator")),
        };
        if op == BoolExprType::NotExpr
            && !self.is_verbatim()
            && let [arg] = e.args.as_slice()
            && let Kind::SubLink(s) = kind(arg)?
            && s.sub_link_type() == SubLinkType::AnySublink
            && s.oper_name.is_empty()
        {
            return self.quantified(s, "<>", true);
        }
        let mut args = Vec::with_capacity(e.args.len());
        for a in &e.args {
            let a = self.expr(a)?;
            let a = self.condition(a, name)?;
            // `a AND (b AND c)` is `a AND b AND c`.
            match (op, a.kind) {
                (BoolExprType::AndExpr, ExprKind::And(list)) | (BoolExprType::OrExpr, ExprKind::Or(list))
                    if !self.is_verbatim() =>
                {
                    args.extend(list)
                }
                (_, kind) => args.push(Expr { kind, ..a }),
            }
        }
        let kind = match (op, args.pop()) {
            (BoolExprType::NotExpr, Some(arg)) => return Ok(negate(arg, e.location)),
            (BoolExprType::AndExpr, Some(last)) => ExprKind::And(with(args, last)),
            (_, Some(last)) => ExprKind::Or(with(args, last)),
            (_, None) => return Err(unexpected("a truth operator without operands")),
        };
        Ok(truth(kind, e.location))
    }

    fn boolean_test(&mut self, t: &'a tree::BooleanTest) -> SqlResult<Expr> {
        let (want, negated, name) = match t.booltesttype() {
            BoolTestType::IsTrue => (Some(true), false, "IS TRUE"),
            BoolTestType::IsNotTrue => (Some(true), true, "IS NOT TRUE"),
            BoolTestType::IsFalse => (Some(false), false, "IS FALSE"),
            BoolTestType::IsNotFalse => (Some(false), true, "IS NOT FALSE"),
            BoolTestType::IsUnknown => (None, false, "IS UNKNOWN"),
            BoolTestType::IsNotUnknown => (None, true, "IS NOT UNKNOWN"),
            BoolTestType::Undefined => return Err(unexpected("a truth test")),
        };
        let arg = self.expr(need(&t.arg)?)?;
        let arg = Box::new(self.condition(arg, name)?);
        Ok(truth(ExprKind::BoolTest { arg, want, negated }, t.location))
    }

    fn type_cast(&mut self, c: &'a tree::TypeCast) -> SqlResult<Expr> {
        let name = c.type_name.as_ref().ok_or_else(|| unexpected("a cast without a type"))?;
        let to = any_type(self.names(), name)?;
        let to = match kind(need(&c.arg)?)? {
            // A literal has no type by then either.
            Kind::AConst(_) if to.id == TypeId::UNKNOWN => {
                let arg = self.operand(need(&c.arg)?)?;
                if arg.ty.id == TypeId::UNKNOWN {
                    return Ok(arg);
                }
                bind_type(self.names(), name)?
            }
            _ => bind_type(self.names(), name)?,
        };
        let arg = match kind(need(&c.arg)?)? {
            Kind::AArrayExpr(a) if to.base().id.is_array() => self.array_expr(a, Some(to.base()))?,
            _ => self.operand(need(&c.arg)?)?,
        };
        let from = arg.ty.id;
        let place_of = if c.location >= 0 { c.location } else { name.location };
        if !coerce::can_coerce(from, to.id, CastContext::Explicit) {
            let message = format!("cannot cast type {} to {}", name_of(from), name_of(to.id));
            return Err(at(SqlError::new(sqlstate::CANNOT_COERCE, message), place_of));
        }
        let mut e = self.cast(arg, to, true)?;
        if !matches!(e.kind, ExprKind::Column { .. } | ExprKind::Param(_)) && !self.has_note(&e) {
            e.at = place(place_of);
        }
        Ok(e)
    }

    fn collate(&mut self, c: &'a tree::CollateClause) -> SqlResult<Expr> {
        let name = collation_name(&c.collname)?;
        let arg = self.expr(need(&c.arg)?)?;
        let arg = self.settle(arg)?;
        check_collation(name, arg.ty.id, c.location)?;
        if self.is_verbatim() {
            let ty = arg.ty;
            let kind = ExprKind::Cast { arg: Box::new(arg), explicit: true };
            let cast = Expr { kind, ty, at: u32::MAX };
            return Ok(self.noted(cast, || Note::Collate(name.to_string())));
        }
        Ok(arg)
    }

    /// The error of an operator of a schema in which there are none.
    fn no_operator(&mut self, schema: &str, name: &str, e: &'a tree::AExpr) -> SqlResult<SqlError> {
        self.names().schema(schema, e.location)?;
        let mut shown = format!("{schema}.{name}");
        if let Some(left) = e.lexpr.as_deref().filter(|n| n.node.is_some()) {
            shown = format!("{} {shown}", name_of(self.operand(left)?.ty.id))
        }
        let right = self.operand(need(&e.rexpr)?)?;
        let message = format!("operator does not exist: {shown} {}", name_of(right.ty.id));
        let hint = "No operator matches the given name and argument types. You might need to add explicit \
                    type casts.";
        Ok(at(SqlError::new(sqlstate::UNDEFINED_FUNCTION, message).hint(hint), e.location))
    }

    fn a_expr(&mut self, e: &'a tree::AExpr) -> SqlResult<Expr> {
        let name = match strings(&e.name)?[..] {
            [name] | ["pg_catalog", name] => name,
            [schema, name] => return Err(self.no_operator(schema, name, e)?),
            _ => return Err(at(SqlError::unsupported("a database name before an operator"), e.location)),
        };
        match e.kind() {
            AExprKind::AexprOp => self.plain_operator(name, e),
            AExprKind::AexprLike | AExprKind::AexprIlike | AExprKind::AexprSimilar => {
                let left = self.operand(need(&e.lexpr)?)?;
                let right = self.operand(need(&e.rexpr)?)?;
                self.operator(name, Some(left), right, place(e.location))
            }
            AExprKind::AexprDistinct => self.distinct_from(e, true),
            AExprKind::AexprNotDistinct => self.distinct_from(e, false),
            AExprKind::AexprNullif => self.nullif(e),
            AExprKind::AexprIn => self.in_list(e, name),
            AExprKind::AexprOpAny => self.array_operator(e, name, false),
            AExprKind::AexprOpAll => self.array_operator(e, name, true),
            AExprKind::AexprBetween => self.between(e, false, false),
            AExprKind::AexprNotBetween => self.between(e, true, false),
            AExprKind::AexprBetweenSym => self.between(e, false, true),
            AExprKind::AexprNotBetweenSym => self.between(e, true, true),
            AExprKind::Undefined => Err(unexpected("an operator")),
        }
    }

    fn plain_operator(&mut self, name: &str, e: &'a tree::AExpr) -> SqlResult<Expr> {
        let right = need(&e.rexpr)?;
        let Some(left) = e.lexpr.as_deref() else {
            let right = self.operand(right)?;
            return self.operator(name, None, right, place(e.location));
        };
        if let (Kind::RowExpr(l), Kind::RowExpr(r)) = (kind(left)?, kind(right)?) {
            return self.row_comparison(name, l, r, e.location);
        }
        if let (Kind::RowExpr(_), Kind::SubLink(_)) = (kind(left)?, kind(right)?) {
            return Err(at(SqlError::unsupported("comparing a row with a subquery"), e.location));
        }
        let left = self.operand(left)?;
        let right = self.operand(right)?;
        self.operator(name, Some(left), right, place(e.location))
    }
}

/// A literal; strings and NULL are of type unknown.
fn literal(c: &tree::AConst) -> SqlResult<Expr> {
    let at_place = place(c.location);
    let (value, ty) = match &c.val {
        None if c.isnull => (Value::Null, Type::UNKNOWN),
        None => (Value::Int4(0), Type::INT4),
        Some(Val::Ival(i)) => (Value::Int4(i.ival), Type::INT4),
        Some(Val::Boolval(b)) => (Value::Bool(b.boolval), Type::BOOL),
        Some(Val::Sval(s)) => (Value::Text(s.sval.clone()), Type::UNKNOWN),
        Some(Val::Bsval(_)) => return Err(at(SqlError::unsupported("a bit string"), c.location)),
        Some(Val::Fval(f)) => number(&f.fval).map_err(|e| at(e, c.location))?,
    };
    Ok(constant(value, ty, at_place))
}

/// A number that is no unsigned int4: integer or bigint if it is one, else numeric.
fn number(digits: &str) -> SqlResult<(Value, Type)> {
    if let Ok(value) = digits.parse::<i64>() {
        // -2147483648: the grammar makes a number and its sign one constant.
        return Ok(match i32::try_from(value) {
            Ok(value) => (Value::Int4(value), Type::INT4),
            Err(_) => (Value::Int8(value), Type::INT8),
        });
    }
    let ty = Type::new(TypeId::NUMERIC);
    Ok((text::input(digits, ty, &Context::EMPTY)?, ty))
}

/// The name of COLLATE, without its schema.
pub fn collation_name(names: &[Node]) -> SqlResult<&str> {
    strings(names)?.last().copied().ok_or_else(|| unexpected("a collation without a name"))
}

/// Types that have collations, and collations with the order that text has here: of code points.
pub fn check_collation(name: &str, of: TypeId, location: i32) -> SqlResult<()> {
    let item = of.element().unwrap_or(of);
    if !item.is_string_or_unknown() && item != TypeId::NAME {
        let message = format!("collations are not supported by type {}", name_of(of));
        return Err(at(SqlError::new(sqlstate::DATATYPE_MISMATCH, message), location));
    }
    let known = matches!(name, "C" | "POSIX" | "default" | "ucs_basic" | "C.UTF-8" | "C.utf8");
    refuse_at(!known, format_args!("collation \"{name}\""), location)
}

/// A column's COLLATE as it is kept: `None` where the type has it anyway.
pub fn kept_collation(name: &str, of: TypeId) -> Option<String> {
    let own = if of.element().unwrap_or(of) == TypeId::NAME { "C" } else { "default" };
    // The order that a database has here is that of code points.
    let name = if matches!(name, "C.UTF-8" | "C.utf8") { "default" } else { name };
    (name != own).then(|| name.to_string())
}

/// A boolean expression.
pub fn truth(kind: ExprKind, location: i32) -> Expr {
    Expr { kind, ty: Type::BOOL, at: place(location) }
}

fn with(mut list: Vec<Expr>, last: Expr) -> Vec<Expr> {
    list.push(last);
    list
}

/// NOT.
pub fn negate(arg: Expr, location: i32) -> Expr {
    match arg.kind {
        ExprKind::Exists { query, negated } => truth(ExprKind::Exists { query, negated: !negated }, location),
        kind => truth(ExprKind::Not(Box::new(Expr { kind, ..arg })), location),
    }
}

/// What a column without a name is called, and how sure that is: a cast's type gives way to its argument's
/// name.
pub fn column_label(node: &Node) -> String {
    label(node).map_or_else(|| "?column?".into(), |l| l.0)
}

/// What an expression of an index is called.
pub fn index_label(node: &Node) -> String {
    label(node).map_or_else(|| "expr".into(), |l| l.0)
}

fn label(node: &Node) -> Option<(String, u8)> {
    let sure = |name: &str| Some((name.to_string(), 2));
    match node.node.as_ref()? {
        Kind::ColumnRef(c) => {
            let last = c.fields.iter().rev().find_map(|f| string(f).ok())?;
            sure(last)
        }
        Kind::AIndirection(i) => {
            let last = i.indirection.iter().rev().find_map(|f| string(f).ok());
            last.and_then(sure).or_else(|| label(i.arg.as_deref()?))
        }
        Kind::FuncCall(f) => sure(string(f.funcname.last()?).ok()?),
        Kind::AExpr(e) if e.kind() == AExprKind::AexprNullif => sure("nullif"),
        Kind::TypeCast(c) => match c.arg.as_deref().and_then(label) {
            Some(inner) if inner.1 > 1 => Some(inner),
            _ => c.type_name.as_ref().and_then(type_label).map(|n| (n.to_string(), 1)),
        },
        Kind::CollateClause(c) => label(c.arg.as_deref()?),
        Kind::GroupingFunc(_) => sure("grouping"),
        Kind::SubLink(s) => match s.sub_link_type() {
            SubLinkType::ExistsSublink => sure("exists"),
            SubLinkType::ArraySublink => sure("array"),
            SubLinkType::ExprSublink => match s.subselect.as_deref()?.node.as_ref()? {
                Kind::SelectStmt(q) => {
                    let mut q: &tree::SelectStmt = q;
                    while let Some(left) = q.larg.as_deref() {
                        q = left;
                    }
                    if !q.values_lists.is_empty() {
                        return sure("column1");
                    }
                    match q.target_list.first()?.node.as_ref()? {
                        Kind::ResTarget(t) if !t.name.is_empty() => sure(&t.name),
                        Kind::ResTarget(t) => label(t.val.as_deref()?),
                        _ => None,
                    }
                }
                _ => None,
            },
            _ => None,
        },
        Kind::CaseExpr(c) => match c.defresult.as_deref().and_then(label) {
            Some(inner) if inner.1 > 1 => Some(inner),
            _ => Some(("case".into(), 1)),
        },
        Kind::AArrayExpr(_) => sure("array"),
        Kind::RowExpr(_) => sure("row"),
        Kind::CoalesceExpr(_) => sure("coalesce"),
        Kind::MinMaxExpr(m) => sure(if m.op() == tree::MinMaxOp::IsGreatest { "greatest" } else { "least" }),
        Kind::SqlvalueFunction(f) => sure(super::special::value_function_name(f.op())?),
        _ => None,
    }
}
