//! Expressions with a syntax of their own: CASE, BETWEEN, IN, IS DISTINCT FROM, NULLIF, comparisons of rows,
//! CURRENT_DATE and its kin.

use super::expr::{negate, truth};
use super::tree::{at, at_expr, kind, list, need, place, unexpected};
use super::written::Note;
use super::{Binder, coerce};
use crate::bound::{Expr, ExprKind};
use crate::parse::tree::{self, Node, RowExpr, SqlValueFunctionOp as Op, node::Node as Kind};
use ondol_types::func::{FuncDef, FuncId, Volatility};
use ondol_types::{SqlError, SqlResult, Type, TypeId, Value, resolve, sqlstate};

/// The name of CURRENT_DATE and its kin.
pub fn value_function_name(op: Op) -> Option<&'static str> {
    Some(match op {
        Op::SvfopCurrentDate => "current_date",
        Op::SvfopCurrentTime | Op::SvfopCurrentTimeN => "current_time",
        Op::SvfopCurrentTimestamp | Op::SvfopCurrentTimestampN => "current_timestamp",
        Op::SvfopLocaltime | Op::SvfopLocaltimeN => "localtime",
        Op::SvfopLocaltimestamp | Op::SvfopLocaltimestampN => "localtimestamp",
        Op::SvfopCurrentRole => "current_role",
        Op::SvfopCurrentUser => "current_user",
        Op::SvfopUser => "user",
        Op::SvfopSessionUser => "session_user",
        Op::SvfopCurrentCatalog => "current_catalog",
        Op::SvfopCurrentSchema => "current_schema",
        Op::SqlvalueFunctionOpUndefined => return None,
    })
}

/// Both sides cast to what an equality operator takes, and its function.
struct Equality {
    left: Expr,
    right: Expr,
    eq: FuncId,
}

impl<'a> Binder<'a> {
    fn resolved(&mut self, name: &str, place: u32) -> SqlResult<&'static FuncDef> {
        resolve::resolve_function(name, &[]).map_err(|e| at_expr(e, place))
    }

    pub(super) fn value_function(&mut self, f: &tree::SqlValueFunction) -> SqlResult<Expr> {
        let value = self.value_of_function(f)?;
        Ok(self.noted(value, || {
            let name = value_function_name(f.op()).unwrap_or_default().to_uppercase();
            Note::Value(if f.typmod < 0 { name } else { format!("{name}({})", f.typmod) })
        }))
    }

    fn value_of_function(&mut self, f: &tree::SqlValueFunction) -> SqlResult<Expr> {
        let here = place(f.location);
        let name = value_function_name(f.op()).ok_or_else(|| unexpected("a value function"))?;
        let function = match f.op() {
            Op::SvfopCurrentDate
            | Op::SvfopCurrentTime
            | Op::SvfopCurrentTimeN
            | Op::SvfopLocaltime
            | Op::SvfopLocaltimeN
            | Op::SvfopCurrentTimestamp
            | Op::SvfopCurrentTimestampN
            | Op::SvfopLocaltimestamp
            | Op::SvfopLocaltimestampN => "now",
            Op::SvfopCurrentRole | Op::SvfopUser => "current_user",
            Op::SvfopCurrentCatalog => "current_database",
            Op::SvfopCurrentSchema => return Ok(self.current_schema(f.location)),
            _ => name,
        };
        let def = self.resolved(function, here)?;
        let call = self.call(def, Vec::new(), here)?;
        let to = match f.op() {
            Op::SvfopCurrentDate => Type::new(TypeId::DATE),
            Op::SvfopCurrentTime | Op::SvfopCurrentTimeN => Type::with(TypeId::TIMETZ, f.typmod.min(6)),
            Op::SvfopLocaltime | Op::SvfopLocaltimeN => Type::with(TypeId::TIME, f.typmod.min(6)),
            Op::SvfopLocaltimestamp | Op::SvfopLocaltimestampN => {
                Type::with(TypeId::TIMESTAMP, f.typmod.min(6))
            }
            Op::SvfopCurrentTimestampN => Type::with(TypeId::TIMESTAMPTZ, f.typmod.min(6)),
            _ => return Ok(call),
        };
        self.cast(call, to, true)
    }

    pub(super) fn case(&mut self, c: &'a tree::CaseExpr) -> SqlResult<Expr> {
        let subject = match c.arg.as_deref() {
            Some(arg) => {
                let arg = self.expr(arg)?;
                let arg = self.settle(arg)?;
                // It is put into each condition, so it must not matter how often it is computed.
                if arg.calls(Volatility::Volatile) {
                    return Err(at(SqlError::unsupported("CASE of a volatile expression"), c.location));
                }
                Some(arg)
            }
            None => None,
        };
        let mut conditions = Vec::with_capacity(c.args.len());
        let mut results = Vec::with_capacity(c.args.len() + 1);
        for when in &c.args {
            let Kind::CaseWhen(when) = kind(when)? else { return Err(unexpected("a CASE branch")) };
            let test = self.expr(need(&when.expr)?)?;
            conditions.push(match &subject {
                Some(s) => self.operator("=", Some(s.clone()), test, place(when.location))?,
                None => self.condition(test, "CASE/WHEN")?,
            });
            results.push(self.operand(need(&when.result)?)?);
        }
        // PostgreSQL looks at ELSE first when it chooses the type.
        let otherwise = match c.defresult.as_deref() {
            Some(e) => self.operand(e)?,
            None => super::constant(Value::Null, Type::UNKNOWN, u32::MAX),
        };
        results.insert(0, otherwise);
        let (ty, mut results) = self.unify(results, "CASE")?;
        let otherwise = results.remove(0);
        let otherwise = match otherwise.kind {
            ExprKind::Const(Value::Null) => None,
            _ => Some(Box::new(otherwise)),
        };
        let whens = conditions.into_iter().zip(results).collect();
        let case = Expr { kind: ExprKind::Case { whens, otherwise }, ty, at: place(c.location) };
        Ok(match subject {
            Some(subject) => self.noted(case, || Note::Case(Box::new(subject))),
            None => case,
        })
    }

    /// As PostgreSQL does, the operand is bound once for each comparison.
    pub(super) fn between(&mut self, e: &'a tree::AExpr, negated: bool, symmetric: bool) -> SqlResult<Expr> {
        let x = need(&e.lexpr)?;
        let [low, high] = list(need(&e.rexpr)?)? else { return Err(unexpected("BETWEEN")) };
        let within = self.range(x, low, high, negated, e.location)?;
        if !symmetric {
            return Ok(within);
        }
        let turned = self.range(x, high, low, negated, e.location)?;
        let both = vec![within, turned];
        Ok(truth(if negated { ExprKind::And(both) } else { ExprKind::Or(both) }, e.location))
    }

    fn range(
        &mut self,
        x: &'a Node,
        low: &'a Node,
        high: &'a Node,
        negated: bool,
        location: i32,
    ) -> SqlResult<Expr> {
        let mut side = |op: &str, bound: &'a Node| self.compare(op, x, bound, location);
        let both =
            vec![side(if negated { "<" } else { ">=" }, low)?, side(if negated { ">" } else { "<=" }, high)?];
        Ok(truth(if negated { ExprKind::Or(both) } else { ExprKind::And(both) }, location))
    }

    /// The equality of two types, and both sides brought to what it takes.
    fn equality(&mut self, left: Expr, right: Expr, place: u32) -> SqlResult<Equality> {
        let op =
            resolve::resolve_operator("=", Some(left.ty.id), right.ty.id).map_err(|e| at_expr(e, place))?;
        let [l, r] = Self::operand_types(op, left.ty.id, right.ty.id)?;
        let left = self.operand_of(left, l)?;
        let right = self.operand_of(right, r)?;
        Ok(Equality { left, right, eq: op.func })
    }

    pub(super) fn distinct_from(&mut self, e: &'a tree::AExpr, distinct: bool) -> SqlResult<Expr> {
        let (left, right) = (need(&e.lexpr)?, need(&e.rexpr)?);
        if let (Kind::RowExpr(l), Kind::RowExpr(r)) = (kind(left)?, kind(right)?) {
            return self.distinct_rows(l, r, distinct, e.location);
        }
        let (left, right) = (self.operand(left)?, self.operand(right)?);
        self.distinct_values(left, right, distinct, e.location)
    }

    /// IS [NOT] DISTINCT FROM of two values.
    pub(super) fn distinct_values(
        &mut self,
        left: Expr,
        right: Expr,
        distinct: bool,
        location: i32,
    ) -> SqlResult<Expr> {
        let is_null = |e: &Expr| e.ty.id == TypeId::UNKNOWN && matches!(e.kind, ExprKind::Const(Value::Null));
        // Against NULL itself no operator is needed, so any type will do.
        if is_null(&right) || is_null(&left) {
            let arg = if is_null(&right) { left } else { right };
            let arg = Box::new(self.settle_literal(arg)?);
            return Ok(truth(ExprKind::IsNull { arg, negated: distinct }, location));
        }
        let q = self.equality(left, right, place(location))?;
        let (left, right) = (Box::new(q.left), Box::new(q.right));
        Ok(truth(ExprKind::Distinct { left, right, eq: q.eq, negated: !distinct }, location))
    }

    pub(super) fn nullif(&mut self, e: &'a tree::AExpr) -> SqlResult<Expr> {
        let left = self.operand(need(&e.lexpr)?)?;
        let right = self.operand(need(&e.rexpr)?)?;
        let q = self.equality(left, right, place(e.location))?;
        let ty = q.left.ty;
        let kind = ExprKind::NullIf { left: Box::new(q.left), right: Box::new(q.right), eq: q.eq };
        Ok(Expr { kind, ty, at: place(e.location) })
    }

    pub(super) fn in_list(&mut self, e: &'a tree::AExpr, name: &str) -> SqlResult<Expr> {
        let negated = match name {
            "=" => false,
            "<>" => true,
            _ => return Err(unexpected("IN")),
        };
        let items = list(need(&e.rexpr)?)?;
        let left = need(&e.lexpr)?;
        if let Kind::RowExpr(row) = kind(left)? {
            return self.in_rows(row, items, negated, e.location);
        }
        self.member(left, items, negated, e.location)
    }

    /// `left [NOT] IN (items)`
    fn member(&mut self, left: &'a Node, items: &'a [Node], negated: bool, location: i32) -> SqlResult<Expr> {
        let arg = self.operand(left)?;
        if let [only] = items {
            let only = self.operand(only)?;
            return self.operator(if negated { "<>" } else { "=" }, Some(arg), only, place(location));
        }
        let mut all = Vec::with_capacity(items.len() + 1);
        all.push(arg);
        for i in items {
            all.push(self.operand(i)?);
        }
        let Ok(Type { id: common, .. }) = coerce::common_type(&all.iter().collect::<Vec<_>>(), "IN") else {
            return self.member_one_by_one(all, negated, location);
        };
        let op = resolve::resolve_operator("=", Some(common), common).map_err(|x| at(x, location))?;
        let [l, _] = Self::operand_types(op, common, common)?;
        // By way of the common type: what a literal means must not depend on the operator's.
        // The items first: of several literals that are wrong, the first of them is told.
        let mut list = all.split_off(1);
        for part in [&mut list, &mut all] {
            *part = self.operands_of(std::mem::take(part), common, "IN")?;
            *part = self.operands_of(std::mem::take(part), l, "IN")?;
        }
        let arg = all.pop().map(Box::new).ok_or_else(|| unexpected("IN without an operand"))?;
        Ok(truth(ExprKind::InList { arg, list, eq: op.func, negated }, location))
    }

    /// The same where the types have none in common: each is compared by itself, if that can be.
    fn member_one_by_one(&mut self, mut all: Vec<Expr>, negated: bool, location: i32) -> SqlResult<Expr> {
        let items = all.split_off(1);
        let Some(arg) = all.pop() else { return Err(unexpected("IN without an operand")) };
        if arg.calls(Volatility::Volatile) {
            return Err(at(
                SqlError::unsupported("IN with a volatile operand and items of different types"),
                location,
            ));
        }
        let mut tests = Vec::with_capacity(items.len());
        for item in items {
            tests.push(self.operator(
                if negated { "<>" } else { "=" },
                Some(arg.clone()),
                item,
                place(location),
            )?);
        }
        Ok(truth(if negated { ExprKind::And(tests) } else { ExprKind::Or(tests) }, location))
    }

    /// `(a, b) [NOT] IN ((..), (..))`
    fn in_rows(
        &mut self,
        row: &'a RowExpr,
        items: &'a [Node],
        negated: bool,
        location: i32,
    ) -> SqlResult<Expr> {
        let mut tests = Vec::with_capacity(items.len());
        for item in items {
            tests.push(match kind(item)? {
                Kind::RowExpr(other) => self.row_comparison("=", row, other, location)?,
                _ => {
                    let around = self.collation.take();
                    let (l, r) = (self.row_constructor(row)?, self.operand(item)?);
                    self.collation = around;
                    self.operator("=", Some(l), r, place(location))?
                }
            });
        }
        let any = match tests.pop() {
            Some(only) if tests.is_empty() => only,
            Some(last) => {
                tests.push(last);
                truth(ExprKind::Or(tests), location)
            }
            None => return Err(unexpected("IN without a list")),
        };
        Ok(if negated { negate(any, location) } else { any })
    }

    /// Rows are compared column by column; for the order the first that differs decides.
    pub(super) fn row_comparison(
        &mut self,
        op: &str,
        left: &'a RowExpr,
        right: &'a RowExpr,
        location: i32,
    ) -> SqlResult<Expr> {
        let (left, right) = (self.expanded(&left.args)?, self.expanded(&right.args)?);
        equality_of_rows(left.len(), right.len(), location)?;
        let op = if op == "!=" { "<>" } else { op };
        match op {
            "=" | "<>" => {
                let mut tests = Vec::with_capacity(left.len());
                for (l, r) in left.into_iter().zip(right) {
                    tests.push(self.operator(op, Some(l), r, place(location))?);
                }
                Ok(match (tests.len(), op) {
                    (1, _) => tests.remove(0),
                    (_, "=") => truth(ExprKind::And(tests), location),
                    _ => truth(ExprKind::Or(tests), location),
                })
            }
            "<" | "<=" | ">" | ">=" => {
                let (mut l, mut r) = (Vec::new(), Vec::new());
                if self.is_verbatim() && left.len() > 1 {
                    for (a, b) in left.iter().zip(&right) {
                        let one = self.operator(op, Some(a.clone()), b.clone(), place(location))?;
                        if let ExprKind::Call { args, .. } = one.kind {
                            let mut args = args.into_iter();
                            l.extend(args.next());
                            r.extend(args.next());
                        }
                    }
                }
                let ordered = self.row_order(op, &left, &right, location)?;
                if l.is_empty() {
                    return Ok(ordered);
                }
                Ok(self.noted(ordered, || Note::Rowwise { operator: op.into(), left: l, right: r }))
            }
            _ => {
                let message = format!("could not determine interpretation of row comparison operator {op}");
                Err(at(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), location))
            }
        }
    }

    /// One of several comparisons in an expression.
    fn compare(&mut self, op: &str, l: &'a Node, r: &'a Node, location: i32) -> SqlResult<Expr> {
        let around = self.collation.take();
        let (l, r) = (self.operand(l)?, self.operand(r)?);
        self.collation = around;
        self.operator(op, Some(l), r, place(location))
    }

    /// `(a, b) < (c, d)`: where `a = c` is true `b < d` decides, else `a < c`. So nothing behind the first
    /// pair that decides is computed.
    fn row_order(&mut self, op: &str, left: &[Expr], right: &[Expr], location: i32) -> SqlResult<Expr> {
        let (Some((l, left)), Some((r, right))) = (left.split_first(), right.split_first()) else {
            return Err(unexpected("an empty row"));
        };
        if left.is_empty() {
            return self.operator(op, Some(l.clone()), r.clone(), place(location));
        }
        let strict = if op.starts_with('<') { "<" } else { ">" };
        let first = self.operator(strict, Some(l.clone()), r.clone(), place(location))?;
        let equal = self.operator("=", Some(l.clone()), r.clone(), place(location))?;
        if equal.calls(Volatility::Volatile) {
            return Err(at(SqlError::unsupported("comparing rows of volatile expressions"), location));
        }
        let rest = self.row_order(op, left, right, location)?;
        let kind = ExprKind::Case { whens: vec![(equal, rest)], otherwise: Some(Box::new(first)) };
        Ok(truth(kind, location))
    }
}

/// The error of rows that are not compared with each other.
pub fn equality_of_rows(left: usize, right: usize, location: i32) -> SqlResult<()> {
    if left != right {
        let message = "unequal number of entries in row expressions";
        return Err(at(SqlError::new(sqlstate::SYNTAX_ERROR, message), location));
    }
    if left == 0 {
        let message = "cannot compare rows of zero length";
        return Err(at(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message), location));
    }
    Ok(())
}
